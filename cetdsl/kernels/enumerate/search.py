"""All trends of a slice, one by one, in blocks of arrays.

A depth-first search goes only where a trend can still be completed. Before a slice is searched, one pass over its
events from the last to the first finds the *useful* pairs (event, state), those from which a final state can be
reached. The pass also links them into *chains*: lists of the useful events of one state that have one value of the
equality columns, in order of time. Each pair stores where the chain of each of its edges begins. So the search follows
links, and skips all events that come before the first successor, that cannot complete a trend, or that differ in the
equality columns.

======================  =====================================================================
comparisons of an edge  where the successors of an event are found
======================  =====================================================================
none                    on the chain of the target state
equalities              on the chain of the target state and the event's value
orders, besides         the same, up to where no value left on the chain satisfies an order
lists                   in the inverted list of the event
======================  =====================================================================

Simultaneous events never follow each other: they are put on the chains together, as in
:mod:`~cetdsl.kernels.machine.propagate`. Pairwise predicates are checked on the path of the search. Where one variable,
the *pivot*, binds exactly one event in every trend, each event that it may bind has a *subslice* of its own, a range of
the slice that is searched by itself. So pairwise predicates with the pivot are known when the useful pairs are found.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cetdsl.ir.indexes import lower_guards
from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.machine import LISTED
from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.enumerate.blocks import (
    BINDINGS,
    BLOCK,
    DEPTH,
    NEED,
    ROOT,
    TRENDS,
    WIDE,
    WINDOW,
    in_blocks,
    make_position,
    write_trend,
)
from cetdsl.kernels.enumerate.correlated import (
    Gaps,
    Path,
    gaps_allow,
    gaps_of,
    lay_out_correlated,
    make_path,
    new_gap_allows,
    pair_row,
    without_correlated,
)
from cetdsl.kernels.enumerate.layout import Edges, Guards, Lists, Scratch, SearchInput, SearchLayout
from cetdsl.kernels.enumerate.useful import (
    company_of,
    comparisons_hold,
    find_hopeful,
    find_useful,
    have_company,
    is_exhausted,
    next_listed,
)
from cetdsl.kernels.machine.conditions import (
    BY_LISTS,
    FIRST_EVENT,
    Subslices,
    are_listed,
    compare,
    conditions_of,
    may_begin,
    may_end,
    span_of,
    subslices_of,
)
from cetdsl.kernels.machine.program import lay_out
from cetdsl.kernels.vocabulary import Block, Bools, Events, Ints, Shorts, Slices

#: If a slice has no more pivots than this, each is searched without a common pass that drops those on no trend.
_FEW_PIVOTS = 8


@jit
def _pairs_allow(
    pairs: Ints,
    codes: Ints,
    valid: Bools,
    lists: Lists | None,
    path_event: Ints,
    path_variable: Shorts,
    depth: int,
) -> bool:
    """Whether the last binding satisfies its pairwise predicates with all bindings before it."""
    last = depth - 1
    new, variable = path_event[last], path_variable[last]
    for k in range(pairs.shape[0]):
        if pairs[k, 1] != variable and pairs[k, 3] != variable:
            continue
        f, g = pairs[k, 2], pairs[k, 4]
        for d in range(last):
            old = path_event[d]
            if pairs[k, 1] == variable and pairs[k, 3] == path_variable[d]:
                left, right = new, old
            elif pairs[k, 3] == variable and pairs[k, 1] == path_variable[d]:
                left, right = old, new
            else:
                continue
            # Each loop that tests a pair has the code of the test: with a function for it, although inlined, this loop
            # took five times as long, and ten times with lists.
            if lists is not None and pairs[k, 0] == BY_LISTS:
                if not are_listed(lists.start, lists.items, f, g, left, right):
                    return False
            elif not (valid[f, left] and valid[g, right] and compare(pairs[k, 0], codes[f, left], codes[g, right])):
                return False
    return True


@jit
def _next_root(edges: Edges, given: SearchInput, guards: Guards | None, useful: Bools, subslice: int, root: int) -> int:
    """Returns the number of the next candidate (event and initial state) that begins a trend; -1: no more."""
    low, high = given.subslices.low[subslice], given.subslices.high[subslice]
    initial = edges.initial
    if given.begins_first:
        high = low + 1
    slice_low = given.slice_low[given.subslices.window[subslice]]
    while root < (high - low) * len(initial):
        place, state = root // len(initial), initial[root % len(initial)]
        begins = useful[place, state]
        if guards is not None and begins:
            # The gap before a trend begins with the slice, not with the subslice.
            event = low + place
            begins = may_begin(guards.program, given.events, guards.conditions, state, event, slice_low, low)
        if begins:
            return root
        root += 1
    return -1


@inlined
def _extent(given: SearchInput, subslice: int) -> tuple[int, int, int, int]:
    """Returns a subslice's events ``low:high``, its pivot, and the first event of its slice."""
    subslices = given.subslices
    return (
        subslices.low[subslice],
        subslices.high[subslice],
        subslices.pivot[subslice],
        given.slice_low[subslices.window[subslice]],
    )


@jit
def _search(
    edges: Edges,
    given: SearchInput,
    guards: Guards | None,
    gaps: Gaps | None,
    lists: Lists | None,
    scratch: Scratch,
    path: Path,
    at: Ints,
    out: Block,
) -> None:
    """Goes on from the position ``at`` until the block is full or all trends are found.

    Parameters
    ----------
    edges : Edges
        The machine.
    given : SearchInput
        The events of the chunk, their codes, and the subslices to search.
    guards, gaps, lists
        Data for negations before or after trends, for correlated negations, and for list predicates of edges and pairs;
        each is None if the query has none of these.
    scratch : Scratch
        The useful pairs and chains of the subslice that ``at`` is in.
    path : Path
        The bindings that the search stands on.
    at : int64 array
        A position, see :mod:`~cetdsl.kernels.enumerate.blocks`. Its window is the subslice; its root is the next
        candidate of the subslice (event and initial state), or -1 where the subslice is finished.
    out : Block
        The block to fill; its events become labels, and its variables are left as they are.
    """
    # It is one long loop, because a function that it called in each turn would need more than ten arrays as arguments.
    events, tables, pairs = given.events, given.tables, given.pairs
    codes, valid, slice_of_subslice = events.codes, events.valid, given.subslices.window
    state_variable, bits, out_start, target = edges.variable, edges.bits, edges.out_start, edges.target
    joins, chains, comparison, order_start = edges.join, edges.chain, edges.comparison, edges.order_start
    order_end, comparison_end, best_start = edges.order_end, edges.comparison_end, edges.best_start
    accept, first, following, best = scratch.accept, scratch.first, scratch.next, scratch.best
    path_event, path_variable, path_state = path.event, path.variable, path.state
    path_label, path_edge, path_cursor = path.label, path.edge, path.cursor
    out_trend, out_event, out_slice = out.start, out.event, out.slice
    most, size = len(out_slice), len(out_event) - WIDE
    subslice, depth, root, need = at[WINDOW], at[DEPTH], at[ROOT], at[NEED]
    low = high = pivot = slice_low = 0
    if subslice >= 0:
        low, high, pivot, slice_low = _extent(given, subslice)
    trends, bindings, label = 0, 0, path_label[depth - 1] if need > 0 else np.int64(0)
    out_trend[0] = 0
    while True:
        # All predicates between bindings of the path hold. ``need`` > 0: the path is a trend to be written, which ends
        # with ``label``. The label is stored in the path after that, because copying memory that has just been written
        # would have to wait.
        if need > 0:
            if trends == most or bindings + need > size:
                break
            window = slice_of_subslice[subslice]
            bindings = write_trend(
                path_label, depth - 1, label, window, out_trend, out_event, out_slice, trends, bindings
            )
            path_label[depth - 1] = label
            trends += 1
            need = 0
        if depth == 0:
            if root < 0:
                subslice += 1
                if subslice == len(slice_of_subslice):
                    break
                low, high, pivot, slice_low = _extent(given, subslice)
                find_useful(edges, given, guards, lists, scratch, low, high, pivot, subslice + 1)
                root = 0
            root = _next_root(edges, given, guards, scratch.useful, subslice, root)
            if root < 0:
                continue
            later, state = low + root // len(edges.initial), edges.initial[root % len(edges.initial)]
            root += 1
        else:
            # Finds the next successor of the last binding: from ``cursor`` on along ``edge``, else along a later edge.
            earlier, edge, cursor = path_event[depth - 1], path_edge[depth - 1], path_cursor[depth - 1]
            end = out_start[path_state[depth - 1] + 1]
            later = -1
            while edge < end:
                # All successors along earlier edges, and before ``cursor`` along this one, have been tried.
                if cursor < 0:
                    edge += 1
                    if edge < end:
                        cursor = int(first[earlier - low, edge])
                    continue
                join, chain = joins[edge], chains[edge]
                if chain < 0:
                    if lists is not None:
                        useful = scratch.useful
                        cursor = next_listed(edges, events, tables, lists, useful, edge, earlier, low, high, cursor)
                        if cursor >= 0:
                            row = edges.listed[edges.listed_start[edge]]
                            later = lists.inverse_items[lists.inverse_start[row, earlier] + cursor]
                            cursor += 1
                            break
                    continue
                begin, middle = order_start[join], order_end[join]
                if is_exhausted(comparison, begin, middle, codes, earlier, best, best_start[chain], cursor):
                    cursor = -1
                    continue
                place = cursor
                cursor = int(following[chain, place])
                if comparisons_hold(comparison, begin, comparison_end[join], codes, earlier, low + place):
                    later = low + place
                    break
            if later < 0:
                depth -= 1
                continue
            state = target[edge]
            path_edge[depth - 1], path_cursor[depth - 1] = edge, cursor
        path_event[depth], path_state[depth], path_variable[depth] = later, state, state_variable[state]
        label = later | bits[state]
        edge = out_start[state]
        path_edge[depth] = edge
        path_cursor[depth] = first[later - low, edge] if edge < out_start[state + 1] else -1
        if pairs.shape[0] > 0 and not _pairs_allow(pairs, codes, valid, lists, path_event, path_variable, depth + 1):
            continue
        if gaps is not None and not new_gap_allows(gaps, events, path, depth + 1, slice_low, high):
            continue
        # From here on the binding lies on the path.
        depth += 1
        is_trend = accept[later - low, state]
        if guards is not None and is_trend and guards.late:
            begun = path_state[0]
            is_trend = may_end(guards.program, events, guards.conditions, state, begun, later, high, low)
        if gaps is not None and is_trend:
            is_trend = gaps_allow(gaps, events, path, depth, slice_low, high)
        if is_trend:
            need = depth
        else:
            path_label[depth - 1] = label
    if need > 0:
        path_label[depth - 1] = label
    at[WINDOW], at[DEPTH], at[ROOT] = subslice, depth, root
    at[TRENDS], at[BINDINGS], at[NEED] = trends, bindings, need


class Search:
    """Searches for the trends of one query, given the latest starts of its negated patterns."""

    def __init__(self, spec: KernelSpec) -> None:
        self._query = without_correlated(spec).query
        machine = lower_guards(self._query.machine, spec.layout.codes)
        self._layout = SearchLayout(machine)
        self._program = lay_out(machine).program
        self._pairs = np.array([pair_row(pair) for pair in spec.query.pairs], dtype=np.int64).reshape(-1, 5)
        self._company = company_of(self._query)
        self._asks_lists = self._layout.asks_lists or any(pair.op == LISTED for pair in spec.query.pairs)
        self._correlated, self._negated = lay_out_correlated(spec)

    def blocks(
        self,
        events: Events,
        before: Ints,
        until: Ints,
        slices: Slices,
        bounds: tuple[Ints, Ints],
        limit: int = -1,
        block: int = BLOCK,
    ) -> Iterator[Block]:
        """Yields all trends of all slices, or the first ``limit`` of them, in blocks of ``block`` bindings.

        ``before`` and ``until`` are the latest starts of negated patterns, as in
        :class:`~cetdsl.kernels.machine.conditions.Conditions`. With a span, ``bounds`` are the times from which and
        before which the first event of a trend of each slice lies.
        """
        if len(slices.low) == 0 or limit == 0:
            return
        search, longest = self._prepare(events, before, until, slices, bounds)
        path, at = make_path(longest), make_position()
        at[WINDOW] = at[ROOT] = -1

        def fill(out: Block) -> None:
            _search(self._layout.edges, *search, path, at, out)

        yield from in_blocks(fill, at, self._layout.edges.variable, limit, block)

    def _prepare(
        self, events: Events, before: Ints, until: Ints, slices: Slices, bounds: tuple[Ints, Ints]
    ) -> tuple[tuple[SearchInput, Guards | None, Gaps | None, Lists | None, Scratch], int]:
        """Makes the arguments of a search from ``given`` to ``scratch``, and returns the most events of a subslice."""
        query, layout = self._query, self._layout
        conditions = conditions_of(query, events, before, until)
        subslices = subslices_of(query, slices, events, bounds)
        if len(self._company):
            hopeful = have_company(events, subslices, slices, self._company)
            subslices = Subslices(*(column[hopeful] for column in subslices))
        codes, heads = layout.tables(events)
        lists = layout.lists(events) if self._asks_lists else None
        span = span_of(query) > 0
        about = conditions.pivot_variable, conditions.pivot_pair, span or conditions.pivot_variable == FIRST_EVENT
        given = SearchInput(events, codes, subslices, slices.low, self._pairs, *about)
        widest = int((slices.high - slices.low).max())
        scratch = layout.scratch(widest, heads)
        if span or query.pivot >= 0:
            # Each subslice is nearly as long as its slice, so one pass over the slice first drops those without trends.
            edges = layout.edges
            states = edges.initial if span else np.flatnonzero(edges.variable == query.pivot)
            few, fixed = (0, subslices.low) if span else (_FEW_PIVOTS, subslices.pivot)
            hopeful = find_hopeful(edges, given, lists, scratch, slices, fixed, states, few)
            given = given._replace(subslices=Subslices(*(column[hopeful] for column in subslices)))
        guards = None
        leading = any(names for _, names in query.machine.initial)
        if leading or any(names for _, names in query.machine.final):
            guards = Guards(self._program, conditions, span and leading)
        gaps = gaps_of(self._correlated, self._negated, events, slices)
        return (given, guards, gaps, lists, scratch), widest
