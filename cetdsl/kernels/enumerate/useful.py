"""Finds the *useful* pairs of an event and a state, from which a search can reach a final state.

A pass over a subslice, from its last event to its first, finds them and links them into chains
(:mod:`~cetdsl.kernels.enumerate.layout`). The *place* of an event is the number of events of its subslice that precede
it.

If a tuple is an argument of a function that is not inlined, Numba counts references to each of its arrays. So functions
that run per event or per candidate get single arrays. An argument that few queries need is None for the others: Numba
then leaves out the code that uses it, which halves the time to compile.
"""

from __future__ import annotations

import numpy as np

from cetdsl.ir.kernel import KernelQuery
from cetdsl.ir.machine import Machine, Pair, always_binds, may_follow
from cetdsl.ir.transitions import ORDERS
from cetdsl.ir.windowing import SPAN
from cetdsl.kernels._borrow import borrowed
from cetdsl.kernels._jit import jit
from cetdsl.kernels.enumerate.layout import Edges, Guards, JoinCodes, Lists, Scratch, SearchInput
from cetdsl.kernels.machine.conditions import BY_LISTS, Subslices, are_listed, compare, is_listed, may_end
from cetdsl.kernels.machine.program import PAIR_OPERATORS
from cetdsl.kernels.vocabulary import Bools, Events, Ints, Places, Slices


@jit
def comparisons_hold(comparison: Ints, start: int, end: int, codes: Ints, earlier: int, later: int) -> bool:
    """Whether the comparisons ``start:end`` hold between an earlier and a later event."""
    for c in range(start, end):
        if not compare(comparison[c, 0], codes[comparison[c, 1], later], codes[comparison[c, 2], earlier]):
            return False
    return True


@jit
def is_exhausted(
    comparison: Ints, start: int, end: int, codes: Ints, earlier: int, best: Ints, row: int, place: int
) -> bool:
    """Whether some order of ``start:end`` holds for no event of a chain from ``place`` on, after the event ``earlier``.

    The rows of ``best`` for these orders begin with ``row``.
    """
    for c in range(start, end):
        if not compare(comparison[c, 0], best[row + c - start, place], codes[comparison[c, 2], earlier]):
            return True
    return False


@jit
def next_listed(
    edges: Edges,
    events: Events,
    tables: JoinCodes,
    lists: Lists,
    useful: Bools,
    edge: int,
    event: int,
    low: int,
    high: int,
    cursor: int,
) -> int:
    """Returns the next position, from ``cursor`` on, of an event in the inverted list that may follow; -1: none."""
    join, first = edges.join[edge], edges.listed_start[edge]
    base = lists.inverse_start[edges.listed[first], event]
    end = lists.inverse_start[edges.listed[first], event + 1]
    for position in range(base + cursor, end):
        later = lists.inverse_items[position]
        if later >= high:
            break
        fits = useful[later - low, edges.target[edge]] and events.instant[later] > events.instant[event]
        fits = fits and tables.later[join, later] == tables.earlier[join, event]
        for k in range(first + 1, edges.listed_start[edge + 1]):
            fits = fits and is_listed(lists.start, lists.items, edges.listed[k], event, later)
        start, stop = edges.order_start[join], edges.comparison_end[join]
        if fits and comparisons_hold(edges.comparison, start, stop, events.codes, event, later):
            return int(position - base)
    return -1


@jit
def _first_on_chain(
    comparison: Ints,
    start: int,
    middle: int,
    end: int,
    codes: Ints,
    event: int,
    low: int,
    best: Ints,
    row: int,
    following: Places,
    place: int,
) -> int:
    """Returns a place of a chain from which on the events that may follow an event are looked for; -1: none may.

    It is the first place whose event may follow, or, with a single order, an earlier one.

    Parameters
    ----------
    comparison : int64 array, shape (comparisons, 3)
        Operator, later column and earlier column of each comparison.
    start, middle, end : int
        The rows ``start:middle`` of ``comparison`` are the join's orders, ``middle:end`` its ``!=``.
    codes : int64 array, shape (columns, n)
        The values of the events.
    event, low : int
        The event that is to be followed, and the first event of the subslice.
    best, row : int64 array, shape (orders of all chains, longest subslice), int
        The best value of each chain from each place on, see ``Scratch.best``; the first row of this chain.
    following, place : int32 array, shape (longest subslice,), int
        The next place on the chain after each (-1: none), and the first one.
    """
    # It takes more than ten arguments because it runs per event and edge, and so gets single arrays.
    while place >= 0:  # no place of the chain before this one may follow
        if is_exhausted(comparison, start, middle, codes, event, best, row, place):
            return -1
        # With one order, its best value tells that an event from here on may follow. With more comparisons, one event
        # has to satisfy them all.
        if (end == middle and middle - start <= 1) or comparisons_hold(
            comparison, start, end, codes, event, low + place
        ):
            return place
        place = following[place]
    return -1


@jit
def _pivot_pairs_allow(
    pairs: Ints,
    codes: Ints,
    valid: Bools,
    lists: Lists | None,
    pivot: int,
    event: int,
    variable: int,
) -> bool:
    for k in range(pairs.shape[0]):
        if pairs[k, 1] == variable:
            f, g = pairs[k, 2], pairs[k, 3]
            if lists is not None and pairs[k, 0] == BY_LISTS:
                if not are_listed(lists.start, lists.items, f, g, event, pivot):
                    return False
            elif not (valid[f, event] and valid[g, pivot] and compare(pairs[k, 0], codes[f, event], codes[g, pivot])):
                return False
    return True


@jit
def _may_end_here(edges: Edges, events: Events, guards: Guards, state: int, event: int, high: int, begin: int) -> bool:
    """Whether a trend of the subslice may end with an event in a state, having begun in some initial state."""
    if not guards.late:
        return may_end(guards.program, events, guards.conditions, state, -1, event, high, begin)
    for first in edges.initial:
        begins = (events.mask[begin] >> edges.variable[first]) & 1
        if begins and may_end(guards.program, events, guards.conditions, state, first, event, high, begin):
            return True
    return False


@jit
def _link(
    edges: Edges, tables: JoinCodes, codes: Ints, scratch: Scratch, start: int, end: int, low: int, stamp: int
) -> None:
    """Puts the useful events ``start:end``, which are of one instant, at the heads of their chains."""
    for event in range(end - 1, start - 1, -1):
        place = event - low
        for state in range(len(edges.variable)):
            if not scratch.useful[place, state]:
                continue
            for chain in range(edges.chain_start[state], edges.chain_start[state + 1]):
                join = edges.chain_join[chain]
                if tables.later[join, event] < 0:
                    continue
                head = tables.head_start[chain] + tables.later[join, event]
                following = scratch.head[head] if scratch.head_stamp[head] == stamp else np.int32(-1)
                scratch.next[chain, place] = following
                scratch.head[head] = place
                scratch.head_stamp[head] = stamp
                for c in range(edges.order_start[join], edges.order_end[join]):
                    row = edges.best_start[chain] + c - edges.order_start[join]
                    best = codes[edges.comparison[c, 1], event]
                    if following >= 0:
                        other = scratch.best[row, following]
                        best = max(best, other) if edges.comparison[c, 0] >= 4 else min(best, other)
                    scratch.best[row, place] = best


@jit
def find_useful(
    edges: Edges,
    given: SearchInput,
    guards: Guards | None,
    lists: Lists | None,
    scratch: Scratch,
    low: int,
    high: int,
    pivot: int,
    stamp: int,
) -> None:
    """Fills ``scratch`` for a subslice, the events ``low:high``, in one pass from its last event to its first.

    Without ``guards``, trends may end with every event in a final state. ``pivot`` is -1 if there is none. The heads of
    chains bear the ``stamp`` of the subslice, so that they need not be cleared for the next one. A negative stamp marks
    a pass over a whole slice, for all its subslices at once; as these end at different events, guards of the end are
    not asked.
    """
    # This is one loop over arrays with local names, because it runs per event and edge; see the module's docstring.
    events, tables = given.events, given.tables
    instant, mask, codes, valid = events.instant, events.mask, events.codes, events.valid
    variable, out_start, target_chain, joins = edges.variable, edges.out_start, edges.chain, edges.join
    comparison, order_start, order_end = edges.comparison, edges.order_start, edges.order_end
    comparison_end, best_start = edges.comparison_end, edges.best_start
    earlier, head_start = tables.earlier, tables.head_start
    useful, accept, first, following = scratch.useful, scratch.accept, scratch.first, scratch.next
    best, heads, head_stamp = scratch.best, scratch.head, scratch.head_stamp
    pivot_variable, pivot_pairs = given.pivot_variable, given.pivot_pairs
    end = high
    while end > low:  # the chains hold the useful events of ``end:high``
        start = end - 1
        while start > low and instant[start - 1] == instant[start]:
            start -= 1
        for event in range(start, end):
            for state in range(len(variable)):
                accept[event - low, state] = useful[event - low, state] = False
                bound = variable[state]
                if (mask[event] >> bound) & 1 == 0:
                    continue
                if pivot >= 0:
                    if pivot_variable == bound:
                        if event != pivot:
                            continue
                    elif not _pivot_pairs_allow(pivot_pairs, codes, valid, lists, pivot, event, bound):
                        continue
                found = edges.ends[state]
                if guards is not None and found and stamp > 0:
                    found = _may_end_here(edges, events, guards, state, event, high, low)
                accept[event - low, state] = found
                for edge in range(out_start[state], out_start[state + 1]):
                    join, chain = joins[edge], target_chain[edge]
                    place = -1
                    code = earlier[join, event]
                    if chain < 0:
                        if lists is not None and code >= 0:
                            place = next_listed(edges, events, tables, lists, useful, edge, event, low, high, 0)
                    elif code >= 0 and head_stamp[head_start[chain] + code] == stamp:
                        place = _first_on_chain(
                            comparison,
                            order_start[join],
                            order_end[join],
                            comparison_end[join],
                            codes,
                            event,
                            low,
                            best,
                            best_start[chain],
                            following[chain],
                            heads[head_start[chain] + code],
                        )
                    first[event - low, edge] = place
                    found = found or place >= 0
                useful[event - low, state] = found
        _link(edges, tables, codes, scratch, start, end, low, stamp)
        end = start


def company_of(query: KernelQuery) -> Ints:
    """Returns the *company* that a pivot needs: orders that some other event of each trend has to satisfy with it.

    The rows are the operator, the variable of the other event and its column, the pivot's column, and whether that
    event may precede the pivot, and whether it may follow. With a span there are no rows, because the subslices are not
    in the order of their pivots then.
    """
    machine, pivot = query.machine, -1 if query.windowing.kind == SPAN else query.pivot
    needed = [
        (PAIR_OPERATORS[one.op], one.left_variable, one.left, one.right, *map(int, _sides(machine, pivot, one)))
        for one in (pair.about(pivot) for pair in query.pairs)
        if one is not None and one.op in ORDERS and always_binds(machine, one.left_variable)
    ]
    return np.array(needed, dtype=np.int64).reshape(-1, 6)


def _sides(machine: Machine, pivot: int, pair: Pair) -> tuple[bool, bool]:
    """Returns whether the variable on the left of a pair may precede and follow the pivot."""
    return may_follow(machine, pair.left_variable, pivot), may_follow(machine, pivot, pair.left_variable)


@jit
def have_company(events: Events, subslices: Subslices, slices: Slices, company: Ints) -> Bools:
    """Whether the slice of each pivot has, for each row of :func:`company_of` by itself, an event that satisfies it.

    The pivots of a slice come in the order of events. So one walk over the slice in each direction, which keeps the
    best value so far, tells it for all of them.
    """
    events, subslices, slices = borrowed(events), borrowed(subslices), borrowed(slices)
    count = len(subslices.low)
    hopeful, found = np.ones(count, dtype=np.bool_), np.zeros(count, dtype=np.bool_)
    for k in range(company.shape[0]):
        operator, variable, f, g = company[k, 0], company[k, 1], company[k, 2], company[k, 3]
        found[:] = False
        begin = 0
        while begin < count:
            s, end = subslices.window[begin], begin
            while end < count and subslices.window[end] == s:
                end += 1
            for side in range(2):
                if not company[k, 4 + side]:
                    continue
                step = 1 if side == 0 else -1
                i = slices.low[s] if side == 0 else slices.high[s] - 1
                best, any_yet = 0, False
                for turn in range(end - begin):
                    r = begin + turn if side == 0 else end - 1 - turn
                    pivot = subslices.pivot[r]
                    while i != pivot:
                        if events.mask[i] >> variable & 1 and events.valid[f, i]:
                            value = int(events.codes[f, i])
                            if not any_yet or compare(operator, value, best):
                                best, any_yet = value, True
                        i += step
                    if any_yet and events.valid[g, pivot] and compare(operator, best, events.codes[g, pivot]):
                        found[r] = True
            begin = end
        hopeful &= found
    return hopeful


@jit
def find_hopeful(
    edges: Edges,
    given: SearchInput,
    lists: Lists | None,
    scratch: Scratch,
    slices: Slices,
    fixed: Ints,
    states: Ints,
    few: int,
) -> Bools:
    """Whether each subslice has a trend, pairwise predicates left aside.

    All trends of a subslice bind its event ``fixed``, in one of the ``states``. One pass over a slice tells for all its
    subslices whether a trend can be completed from that event. If a slice has ``few`` subslices or less, there is no
    pass, and all stay.
    """
    subslices = given.subslices
    hopeful = np.zeros(len(subslices.low), dtype=np.bool_)
    begin = 0
    while begin < len(subslices.low):
        s = subslices.window[begin]
        end = begin
        while end < len(subslices.low) and subslices.window[end] == s:
            end += 1
        low, high = slices.low[s], slices.high[s]
        if end - begin <= few:
            hopeful[begin:end] = True
        else:
            find_useful(edges, given, None, lists, scratch, low, high, -1, -1 - s)
            for r in range(begin, end):
                for state in states:
                    hopeful[r] |= scratch.useful[fixed[r] - low, state]
        begin = end
    return hopeful
