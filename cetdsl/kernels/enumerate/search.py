"""All trends of a slice, one by one, in blocks of arrays.

A depth-first search that goes only where a trend can still be completed. Before a slice is searched, one pass over
its events from the last to the first finds the *useful* pairs (event, state), those from which a final state can be
reached, and threads them into *chains*: the useful events of one state with one value of the equality columns, in time
order. Each pair remembers where the chain of each of its edges begins, so that the search follows links and never looks
for a successor among events that cannot be one.

======================  =====================================================================
comparisons of an edge  successors of an event
======================  =====================================================================
none                    the chain of the target state
equalities              the chain of the target state and the event's value
orders, besides         the same, up to where the best value left on the chain no longer holds
lists                   the inverted list of the event
======================  =====================================================================

Simultaneous events are staged, as in :mod:`~cetdsl.kernels.aggregate.propagate`. Pairwise predicates are checked on the
path; a variable that binds exactly one event in every trend (the *pivot*) gets a pass for each event it may be bound
to, so that these predicates, too, are known when the useful pairs are found.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import attrs
import numpy as np

from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.machine import Edge, Machine, Pair
from cetdsl.ir.windowing import SPAN
from cetdsl.kernels._jit import jit
from cetdsl.kernels.aggregate.evaluate import Evaluator
from cetdsl.kernels.aggregate.propagate import Conditions, Runs, compare, edge_holds, is_listed, may_begin, may_end
from cetdsl.kernels.machine.program import OPERATORS, Program, equality_codes, lay_out
from cetdsl.kernels.vocabulary import Block, Bools, Events, Ints, Places, Shorts, Slices
from cetdsl.pattern.expressions import MIRRORED

#: Bindings in a block of trends.
BLOCK = 131_072

_ORDERS = ("<", "<=", ">", ">=")

#: Positions in the array that holds where the search is.
_RUN, _DEPTH, _ROOT, _WAITING, _TRENDS, _BINDINGS, _DONE, _POSITIONS = 0, 1, 2, 3, 4, 5, 6, 7


class _Plan(NamedTuple):
    """A machine's edges by source. A *join* is a set of comparisons, a *chain* a join into one state."""

    variable: Ints
    initial: Ints
    out_start: Ints
    target: Ints
    join: Ints
    chain: Ints
    order_start: Ints
    order_end: Ints
    comparison_end: Ints
    comparison: Ints
    listed_start: Ints
    listed: Ints
    chain_start: Ints
    chain_join: Ints
    best_start: Ints
    ends: Bools


class _Tables(NamedTuple):
    """A chunk's values of the equality columns per join (-1: NULL), and where each chain's heads begin."""

    later: Places
    earlier: Places
    head_start: Ints


class _Lists(NamedTuple):
    """A chunk's lists as they came, and inverted: the later events whose list an event is in."""

    start: Ints
    items: Ints
    inverse_start: Ints
    inverse_items: Ints


class _Scratch(NamedTuple):
    """What the backward pass finds out about the run that is being searched; events count from the run's first."""

    useful: Bools
    accept: Bools
    first: Places
    next: Places
    best: Ints
    head: Places
    head_stamp: Ints


class _Path(NamedTuple):
    """The bindings of the trend that the search stands on, and what is still to be tried after each."""

    event: Ints
    variable: Shorts
    state: Ints
    edge: Ints
    cursor: Ints
    pending: Bools


class _Correlated(NamedTuple):
    """Negations whose predicates look at the trend: their machines side by side, and where they guard."""

    state_start: Ints
    pair_start: Ints
    pair: Ints
    edge_start: Ints
    edge_guard: Ints
    begin_start: Ints
    begin_guard: Ints
    end_start: Ints
    end_guard: Ints
    span: int
    within: bool


class _Guards(NamedTuple):
    """What judges the begins and ends of trends where negations guard them.

    ``late``: the gap before a trend is judged at its end (with a span).
    """

    program: Program
    conditions: Conditions
    late: bool


class _Gaps(NamedTuple):
    """What judges gaps where a negation is correlated; ``reach`` is scratch space."""

    correlated: _Correlated
    negated: Program
    reach: Bools


class _Input(NamedTuple):
    """A chunk of events and the runs to search; ``pivot_variable`` and ``pivot_pairs`` are those of Conditions."""

    events: Events
    tables: _Tables
    runs: Runs
    slice_low: Ints
    pairs: Ints
    pivot_variable: int
    pivot_pairs: Ints


# ---------------------------------------------------------------------------------------------------- layout


def _starts(groups: list[list[int]]) -> Ints:
    return np.cumsum([0, *map(len, groups)]).astype(np.int64)


def _flat(groups: list[list[int]]) -> Ints:
    return np.array([item for group in groups for item in group], dtype=np.int64)


def _ints(values: list[int]) -> Ints:
    return np.array(values, dtype=np.int64)


def _by_source(machine: Machine) -> list[Edge]:
    return sorted(machine.edges, key=lambda edge: (edge.source, edge.target))


class _Layout:
    """A machine as a plan, and the joins that the plan's tables are built from."""

    def __init__(self, machine: Machine) -> None:
        edges = _by_source(machine)
        states = len(machine.variables)
        self.joins = list(dict.fromkeys(edge.comparisons for edge in edges))
        # Numbered by target, so that the chains of a state are neighbours.
        chains = sorted({(e.target, self.joins.index(e.comparisons)) for e in edges if not e.listed})
        rows: list[tuple[int, int, int]] = []
        order_start, order_end, comparison_end = [], [], []
        for comparisons in self.joins:
            orders = [c for c in comparisons if c.op in _ORDERS]
            others = [c for c in comparisons if c.op == "!="]
            order_start.append(len(rows))
            order_end.append(len(rows) + len(orders))
            rows += [(OPERATORS[c.op], c.later, c.earlier) for c in orders + others]
            comparison_end.append(len(rows))
        best = np.cumsum([0] + [order_end[join] - order_start[join] for _, join in chains])
        self.best_rows = int(best[-1])
        out = [[k for k, edge in enumerate(edges) if edge.source == state] for state in range(states)]
        listed = [list(edge.listed) for edge in edges]
        places = {chain: number for number, chain in enumerate(chains)}
        joins = [self.joins.index(edge.comparisons) for edge in edges]
        self.plan = _Plan(
            variable=_ints(list(machine.variables)),
            initial=_ints([state for state, _ in machine.initial]),
            out_start=_starts(out),
            target=_ints([edge.target for edge in edges]),
            join=_ints(joins),
            chain=_ints([-1 if e.listed else places[e.target, join] for e, join in zip(edges, joins)]),
            order_start=_ints(order_start),
            order_end=_ints(order_end),
            comparison_end=_ints(comparison_end),
            comparison=np.array(rows, dtype=np.int64).reshape(-1, 3),
            listed_start=_starts(listed),
            listed=_flat(listed),
            chain_start=_starts([[k for k, (target, _) in enumerate(chains) if target == q] for q in range(states)]),
            chain_join=_ints([join for _, join in chains]),
            best_start=best[:-1].astype(np.int64),
            ends=np.isin(np.arange(states), [state for state, _ in machine.final]),
        )

    def tables(self, events: Events) -> tuple[_Tables, int]:
        """The tables of a chunk of events, and the number of chain heads."""
        count = len(events.time)
        later = np.empty((len(self.joins), count), dtype=np.int32)
        earlier = np.empty_like(later)
        sizes = []
        for number, comparisons in enumerate(self.joins):
            f, g, size = equality_codes([c for c in comparisons if c.op == "="], events)
            # An event with a NULL is no candidate, so the search needs no look at NULLs.
            later[number] = np.where(_all_valid(events, [c.later for c in comparisons]), f, -1)
            earlier[number] = np.where(_all_valid(events, [c.earlier for c in comparisons]), g, -1)
            sizes.append(size)
        heads = np.cumsum([0] + [sizes[join] for join in self.plan.chain_join]).astype(np.int64)
        return _Tables(later, earlier, heads), int(heads[-1])

    def lists(self, events: Events) -> _Lists | None:
        """The lists of a chunk of events, if any edge looks at one."""
        if len(self.plan.listed) == 0:
            return None
        return _Lists(events.list_start, events.list_items, *_invert(events.list_start, events.list_items))

    def scratch(self, longest: int, heads: int) -> _Scratch:
        """Room for runs of up to so many events."""
        states = len(self.plan.variable)
        return _Scratch(
            np.zeros((longest, states), dtype=np.bool_),
            np.zeros((longest, states), dtype=np.bool_),
            np.empty((longest, len(self.plan.target)), dtype=np.int32),
            np.empty((len(self.plan.chain_join), longest), dtype=np.int32),
            np.empty((self.best_rows, longest), dtype=np.int64),
            np.empty(heads, dtype=np.int32),
            np.zeros(heads, dtype=np.int64),
        )


def _all_valid(events: Events, columns: list[int]) -> Bools:
    out = np.ones(len(events.time), dtype=np.bool_)
    for column in columns:
        out &= events.valid[column]
    return out


@jit
def _invert(list_start: Ints, list_items: Ints) -> tuple[Ints, Ints]:
    """For each list and event, the later events whose list it is in, ascending."""
    lists, count = list_start.shape[0], list_start.shape[1] - 1
    start = np.zeros((lists, count + 1), dtype=np.int64)
    items = np.empty(len(list_items), dtype=np.int64)
    base = 0
    for row in range(lists):
        fill = np.zeros(count, dtype=np.int64)
        for position in range(list_start[row, 0], list_start[row, count]):
            fill[list_items[position]] += 1
        for i in range(count):
            start[row, i] = base
            base += fill[i]
            fill[i] = start[row, i]
        start[row, count] = base
        for later in range(count):
            for position in range(list_start[row, later], list_start[row, later + 1]):
                earlier = list_items[position]
                items[fill[earlier]] = later
                fill[earlier] += 1
    return start, items


def _lay_out_correlated(spec: KernelSpec) -> tuple[_Correlated, Program]:
    """The correlated negations of a query, numbered anew, their machines united into one."""
    chosen = [number for number, negation in enumerate(spec.query.negations) if negation.correlated]
    new = {number: k for k, number in enumerate(chosen)}
    variables: list[int] = []
    initial: list[tuple[int, tuple[int, ...]]] = []
    final: list[tuple[int, tuple[int, ...]]] = []
    edges: list[Edge] = []
    state_start, pair_start, pairs = [0], [0], []
    for number in chosen:
        machine, base = spec.query.negations[number].machine, len(variables)
        variables += machine.variables
        initial += [(base + state, ()) for state, _ in machine.initial]
        final += [(base + state, ()) for state, _ in machine.final]
        edges += [attrs.evolve(e, source=base + e.source, target=base + e.target, guards=()) for e in machine.edges]
        pairs += [_pair_row(pair) for pair in spec.query.negations[number].correlated]
        state_start.append(len(variables))
        pair_start.append(len(pairs))

    def renumbered(guards: tuple[int, ...]) -> list[int]:
        return [new[guard] for guard in guards if guard in new]

    states = range(len(spec.query.machine.variables))
    begins, ends = dict(spec.query.machine.initial), dict(spec.query.machine.final)
    on_edge = [renumbered(edge.guards) for edge in _by_source(spec.query.machine)]
    on_begin = [renumbered(begins.get(state, ())) for state in states]
    on_end = [renumbered(ends.get(state, ())) for state in states]
    correlated = _Correlated(
        state_start=_ints(state_start),
        pair_start=_ints(pair_start),
        pair=np.array(pairs, dtype=np.int64).reshape(-1, 5),
        edge_start=_starts(on_edge),
        edge_guard=_flat(on_edge),
        begin_start=_starts(on_begin),
        begin_guard=_flat(on_begin),
        end_start=_starts(on_end),
        end_guard=_flat(on_end),
        span=spec.query.windowing.length,
        within=spec.query.windowing.kind == SPAN,
    )
    return correlated, lay_out(Machine(tuple(variables), tuple(initial), tuple(final), tuple(edges))).program


def _pair_row(pair: Pair) -> tuple[int, int, int, int, int]:
    return OPERATORS[pair.op], pair.left_variable, pair.left, pair.right_variable, pair.right


def _without_correlated(spec: KernelSpec) -> KernelSpec:
    """The query with correlated negations (numbers kept) that guard nothing and match nothing."""
    gone = {number for number, negation in enumerate(spec.query.negations) if negation.correlated}
    if not gone:
        return spec

    def kept(guards: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(guard for guard in guards if guard not in gone)

    machine = spec.query.machine
    stripped = Machine(
        machine.variables,
        tuple((state, kept(guards)) for state, guards in machine.initial),
        tuple((state, kept(guards)) for state, guards in machine.final),
        tuple(attrs.evolve(edge, guards=kept(edge.guards)) for edge in machine.edges),
    )
    nothing = Machine((), (), (), ())
    negations = tuple(attrs.evolve(n, machine=nothing) if n.correlated else n for n in spec.query.negations)
    return spec.with_query(machine=stripped, negations=negations)


def _pivot_pairs(pairs: tuple[Pair, ...], pivot: int) -> Ints:
    """What the pivot demands of other events, as :class:`~cetdsl.kernels.aggregate.propagate.Conditions` has it."""
    rows = []
    for pair in pairs:
        if pair.right_variable == pivot:
            rows.append((OPERATORS[pair.op], pair.left_variable, pair.left, pair.right))
        elif pair.left_variable == pivot:
            rows.append((OPERATORS[MIRRORED[pair.op]], pair.right_variable, pair.right, pair.left))
    return np.array(rows, dtype=np.int64).reshape(-1, 4)


# ------------------------------------------------------------------------------------- the backward pass
#
# Numba counts references to every array of a tuple that is handed to a function which is not inlined, so what runs per
# event or per candidate gets single arrays. What few queries need is None for the others: Numba then leaves the code
# that asks for it out, which halves the time to compile.


@jit
def _fits(comparison: Ints, start: int, end: int, codes: Ints, earlier: int, later: int) -> bool:
    """Whether the comparisons ``start:end`` hold."""
    for c in range(start, end):
        if not compare(comparison[c, 0], codes[comparison[c, 1], later], codes[comparison[c, 2], earlier]):
            return False
    return True


@jit
def _exhausted(
    comparison: Ints, start: int, end: int, codes: Ints, earlier: int, best: Ints, row: int, place: int
) -> bool:
    """Whether some order comparison holds with no event of the chain from a place on."""
    for c in range(start, end):
        if not compare(comparison[c, 0], best[row + c - start, place], codes[comparison[c, 2], earlier]):
            return True
    return False


@jit
def _next_listed(
    plan: _Plan,
    events: Events,
    tables: _Tables,
    lists: _Lists,
    useful: Bools,
    edge: int,
    event: int,
    low: int,
    high: int,
    cursor: int,
) -> int:
    """The first place, not before ``cursor``, in an event's inverted list with an event that may follow; -1: none."""
    join, first = plan.join[edge], plan.listed_start[edge]
    base = lists.inverse_start[plan.listed[first], event]
    end = lists.inverse_start[plan.listed[first], event + 1]
    for position in range(base + cursor, end):
        later = lists.inverse_items[position]
        if later >= high:
            break
        fits = useful[later - low, plan.target[edge]] and events.instant[later] > events.instant[event]
        fits = fits and tables.later[join, later] == tables.earlier[join, event]
        for k in range(first + 1, plan.listed_start[edge + 1]):
            fits = fits and is_listed(lists.start, lists.items, plan.listed[k], event, later)
        start, stop = plan.order_start[join], plan.comparison_end[join]
        if fits and _fits(plan.comparison, start, stop, events.codes, event, later):
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
    """The first place of a chain with an event that may follow, or one before it if that is known to exist."""
    while place >= 0:
        if _exhausted(comparison, start, middle, codes, event, best, row, place):
            return -1
        # The best value decides about one order comparison; more of them are tried event by event.
        if (end == middle and middle - start <= 1) or _fits(comparison, start, end, codes, event, low + place):
            return place
        place = following[place]
    return -1


@jit
def _pivot_pairs_allow(pairs: Ints, codes: Ints, valid: Bools, pivot: int, event: int, variable: int) -> bool:
    for k in range(pairs.shape[0]):
        if pairs[k, 1] == variable:
            f, g = pairs[k, 2], pairs[k, 3]
            if not (valid[f, event] and valid[g, pivot] and compare(pairs[k, 0], codes[f, event], codes[g, pivot])):
                return False
    return True


@jit
def _may_end_here(plan: _Plan, events: Events, guards: _Guards, state: int, event: int, high: int, pivot: int) -> bool:
    """Whether a trend of the run may end here, for one of the states that it may have begun in."""
    if not guards.late:
        return may_end(guards.program, events, guards.conditions, state, -1, event, high, pivot)
    for first in plan.initial:
        begins = (events.mask[pivot] >> plan.variable[first]) & 1
        if begins and may_end(guards.program, events, guards.conditions, state, first, event, high, pivot):
            return True
    return False


@jit
def _link(
    plan: _Plan, tables: _Tables, codes: Ints, scratch: _Scratch, start: int, end: int, low: int, stamp: int
) -> None:
    """Puts the useful events of an instant at the heads of their chains."""
    for event in range(end - 1, start - 1, -1):
        place = event - low
        for state in range(len(plan.variable)):
            if not scratch.useful[place, state]:
                continue
            for chain in range(plan.chain_start[state], plan.chain_start[state + 1]):
                join = plan.chain_join[chain]
                if tables.later[join, event] < 0:
                    continue
                head = tables.head_start[chain] + tables.later[join, event]
                following = scratch.head[head] if scratch.head_stamp[head] == stamp else np.int32(-1)
                scratch.next[chain, place] = following
                scratch.head[head] = place
                scratch.head_stamp[head] = stamp
                for c in range(plan.order_start[join], plan.order_end[join]):
                    row = plan.best_start[chain] + c - plan.order_start[join]
                    best = codes[plan.comparison[c, 1], event]
                    if following >= 0:
                        other = scratch.best[row, following]
                        best = max(best, other) if plan.comparison[c, 0] >= 4 else min(best, other)
                    scratch.best[row, place] = best


@jit
def _find_useful(
    plan: _Plan,
    given: _Input,
    guards: _Guards | None,
    lists: _Lists | None,
    scratch: _Scratch,
    low: int,
    high: int,
    pivot: int,
    stamp: int,
) -> None:
    """One pass over a run from its last event to its first.

    A negative ``stamp`` marks a look at all spans of a slice at once: these differ in where they end.
    """
    events, tables = given.events, given.tables
    instant, mask, codes, valid = events.instant, events.mask, events.codes, events.valid
    variable, out_start, target_chain, joins = plan.variable, plan.out_start, plan.chain, plan.join
    comparison, order_start, order_end = plan.comparison, plan.order_start, plan.order_end
    comparison_end, best_start = plan.comparison_end, plan.best_start
    earlier, head_start = tables.earlier, tables.head_start
    useful, accept, first, following = scratch.useful, scratch.accept, scratch.first, scratch.next
    best, heads, head_stamp = scratch.best, scratch.head, scratch.head_stamp
    pivot_variable, pivot_pairs = given.pivot_variable, given.pivot_pairs
    end = high
    while end > low:
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
                    elif not _pivot_pairs_allow(pivot_pairs, codes, valid, pivot, event, bound):
                        continue
                found = plan.ends[state]
                if guards is not None and found and stamp > 0:
                    found = _may_end_here(plan, events, guards, state, event, high, pivot)
                accept[event - low, state] = found
                for edge in range(out_start[state], out_start[state + 1]):
                    join, chain = joins[edge], target_chain[edge]
                    place = -1
                    code = earlier[join, event]
                    if chain < 0:
                        if lists is not None and code >= 0:
                            place = _next_listed(plan, events, tables, lists, useful, edge, event, low, high, 0)
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
        _link(plan, tables, codes, scratch, start, end, low, stamp)
        end = start


@jit
def _hopeful_runs(plan: _Plan, given: _Input, lists: _Lists | None, scratch: _Scratch, slices: Slices) -> Bools:
    """Which spans begin with an event from which some trend, however long, can be completed."""
    runs = given.runs
    hopeful = np.zeros(len(runs.low), dtype=np.bool_)
    r = 0
    for s in range(len(slices.low)):
        low, high = slices.low[s], slices.high[s]
        if r < len(runs.low) and runs.window[r] == s:
            _find_useful(plan, given, None, lists, scratch, low, high, -1, -1 - s)
        while r < len(runs.low) and runs.window[r] == s:
            for state in plan.initial:
                hopeful[r] |= scratch.useful[runs.pivot[r] - low, state]
            r += 1
    return hopeful


# ----------------------------------------------------------------------------------- correlated negations


@jit
def _bound_to(path: _Path, depth: int, variable: int) -> int:
    """The event of the path that is bound to a variable, -1: none."""
    for d in range(depth):
        if path.variable[d] == variable:
            return int(path.event[d])
    return -1


@jit
def _is_decided(correlated: _Correlated, path: _Path, depth: int, guard: int) -> bool:
    """Whether the path binds all that a negation looks at."""
    for k in range(correlated.pair_start[guard], correlated.pair_start[guard + 1]):
        if _bound_to(path, depth, correlated.pair[k, 3]) < 0:
            return False
    return True


@jit
def _relates(
    correlated: _Correlated, events: Events, path: _Path, depth: int, guard: int, event: int, variable: int
) -> bool:
    """Whether an event, bound to a variable of the negated pattern, satisfies what relates it to the trend."""
    if (events.mask[event] >> variable) & 1 == 0:
        return False
    for k in range(correlated.pair_start[guard], correlated.pair_start[guard + 1]):
        if correlated.pair[k, 1] != variable:
            continue
        other = _bound_to(path, depth, correlated.pair[k, 3])
        f, g = correlated.pair[k, 2], correlated.pair[k, 4]
        if other < 0 or not (events.valid[f, event] and events.valid[g, other]):
            return False
        if not compare(correlated.pair[k, 0], events.codes[f, event], events.codes[g, other]):
            return False
    return True


@jit
def _reaches(program: Program, events: Events, reach: Bools, state: int, event: int, low: int) -> bool:
    if program.begins[state]:
        return True
    for edge in range(program.in_start[state], program.in_start[state + 1]):
        for earlier in range(low, event):
            if (
                reach[earlier - low, program.in_source[edge]]
                and events.instant[earlier] < events.instant[event]
                and edge_holds(program, events, edge, earlier, event)
            ):
                return True
    return False


@jit
def _has_match(gaps: _Gaps, events: Events, path: _Path, depth: int, guard: int, low: int, high: int) -> bool:
    """Whether a negated pattern has a match among the events ``low:high`` that forbids this path."""
    correlated, program, reach = gaps.correlated, gaps.negated, gaps.reach
    begin, end = correlated.state_start[guard], correlated.state_start[guard + 1]
    for event in range(low, high):
        for state in range(begin, end):
            found = _relates(correlated, events, path, depth, guard, event, program.variable[state])
            found = found and _reaches(program, events, reach, state, event, low)
            if found and program.ends[state]:
                return True
            reach[event - low, state] = found
    return False


@jit
def _gap(
    correlated: _Correlated, events: Events, path: _Path, depth: int, position: int, low: int, high: int
) -> tuple[int, int]:
    """The events strictly before the binding at a position (or after the last one) and after the one before it."""
    begin, end = low, high
    if position > 0:
        begin = path.event[position - 1] + 1
        while begin < high and events.instant[begin] == events.instant[begin - 1]:
            begin += 1
    if position < depth:
        end = path.event[position]
        while end > begin and events.instant[end - 1] == events.instant[path.event[position]]:
            end -= 1
    if position == 0 and correlated.within:
        earliest = events.time[path.event[depth - 1]] - correlated.span
        begin += np.searchsorted(events.time[begin:end], earliest)
    return begin, end


@jit
def _guards_of(correlated: _Correlated, path: _Path, depth: int, position: int) -> Ints:
    """The correlated negations of the gap before a position."""
    if position == 0:
        state = path.state[0]
        return correlated.begin_guard[correlated.begin_start[state] : correlated.begin_start[state + 1]]
    if position == depth:
        state = path.state[depth - 1]
        return correlated.end_guard[correlated.end_start[state] : correlated.end_start[state + 1]]
    edge = path.edge[position - 1]
    return correlated.edge_guard[correlated.edge_start[edge] : correlated.edge_start[edge + 1]]


@jit
def _gap_is_free(gaps: _Gaps, events: Events, path: _Path, depth: int, position: int, low: int, high: int) -> bool:
    guards = _guards_of(gaps.correlated, path, depth, position)
    if len(guards) == 0:
        return True
    begin, end = _gap(gaps.correlated, events, path, depth, position, low, high)
    free = True
    for guard in guards:
        free = free and not _has_match(gaps, events, path, depth, guard, begin, end)
    return free


@jit
def _new_gap_allows(gaps: _Gaps, events: Events, path: _Path, depth: int, low: int, high: int) -> bool:
    """Judges the gap before the last binding as soon as all that its negations look at is bound."""
    position = depth - 1
    path.pending[position] = False
    guards = _guards_of(gaps.correlated, path, depth, position)
    pending = position == 0 and gaps.correlated.within and len(guards) > 0
    for guard in guards:
        pending = pending or not _is_decided(gaps.correlated, path, depth, guard)
    path.pending[position] = pending
    return pending or _gap_is_free(gaps, events, path, depth, position, low, high)


@jit
def _gaps_allow(gaps: _Gaps, events: Events, path: _Path, depth: int, low: int, high: int) -> bool:
    """Judges the gaps that had to wait for the end of the trend, and the one after it."""
    for position in range(depth):
        if path.pending[position] and not _gap_is_free(gaps, events, path, depth, position, low, high):
            return False
    return _gap_is_free(gaps, events, path, depth, depth, low, high)


# -------------------------------------------------------------------------------------------- the search


@jit
def _pairs_allow(pairs: Ints, codes: Ints, valid: Bools, path_event: Ints, path_variable: Shorts, depth: int) -> bool:
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
            if not (valid[f, left] and valid[g, right] and compare(pairs[k, 0], codes[f, left], codes[g, right])):
                return False
    return True


@jit
def _next_root(plan: _Plan, given: _Input, guards: _Guards | None, useful: Bools, run: int, root: int) -> int:
    """The number of the next candidate (event and initial state) that begins a trend of a run; -1: no more."""
    low, high, pivot = given.runs.low[run], given.runs.high[run], given.runs.pivot[run]
    initial = plan.initial
    if given.pivot_variable == -2:
        high = pivot + 1
        root = max(root, (pivot - low) * len(initial))
    slice_low = given.slice_low[given.runs.window[run]]
    while root < (high - low) * len(initial):
        place, state = root // len(initial), initial[root % len(initial)]
        begins = useful[place, state]
        if guards is not None and begins:
            # The gap before a trend begins with the slice, also where the run begins with its pivot.
            event = low + place
            begins = may_begin(guards.program, given.events, guards.conditions, state, event, slice_low, pivot)
        if begins:
            return root
        root += 1
    return -1


@jit
def _search(
    plan: _Plan,
    given: _Input,
    guards: _Guards | None,
    gaps: _Gaps | None,
    lists: _Lists | None,
    scratch: _Scratch,
    path: _Path,
    at: Ints,
    start: Ints,
    event: Ints,
    variable: Shorts,
    window: Ints,
    most: int,
) -> None:
    """Goes on from where ``at`` says until the buffers are full, ``most`` trends are written or all are found."""
    events, tables, pairs = given.events, given.tables, given.pairs
    codes, valid = events.codes, events.valid
    state_variable, out_start, target, joins, chains = plan.variable, plan.out_start, plan.target, plan.join, plan.chain
    comparison, order_start, order_end = plan.comparison, plan.order_start, plan.order_end
    comparison_end, best_start = plan.comparison_end, plan.best_start
    accept, first, following, best = scratch.accept, scratch.first, scratch.next, scratch.best
    path_event, path_variable, path_state = path.event, path.variable, path.state
    path_edge, path_cursor = path.edge, path.cursor
    run, depth, root, waiting, done = at[_RUN], at[_DEPTH], at[_ROOT], at[_WAITING] == 1, False
    low = high = pivot = slice_low = 0
    if run >= 0:
        low, high, pivot = given.runs.low[run], given.runs.high[run], given.runs.pivot[run]
        slice_low = given.slice_low[given.runs.window[run]]
    trends, bindings = 0, 0
    start[0] = 0
    while True:
        if waiting:
            if trends == most or bindings + depth > len(event):
                break
            for d in range(depth):
                event[bindings + d] = path_event[d]
                variable[bindings + d] = path_variable[d]
            bindings += depth
            window[trends] = given.runs.window[run]
            trends += 1
            start[trends] = bindings
            waiting = False
        if depth == 0:
            if root < 0:
                run += 1
                if run == len(given.runs.low):
                    done = True
                    break
                low, high, pivot = given.runs.low[run], given.runs.high[run], given.runs.pivot[run]
                slice_low = given.slice_low[given.runs.window[run]]
                _find_useful(plan, given, guards, lists, scratch, low, high, pivot, run + 1)
                root = 0
            root = _next_root(plan, given, guards, scratch.useful, run, root)
            if root < 0:
                continue
            later, state = low + root // len(plan.initial), plan.initial[root % len(plan.initial)]
            root += 1
        else:
            # The next successor of the last binding.
            earlier, edge, cursor = path_event[depth - 1], path_edge[depth - 1], path_cursor[depth - 1]
            end = out_start[path_state[depth - 1] + 1]
            later = -1
            while edge < end:
                if cursor < 0:
                    edge += 1
                    if edge < end:
                        cursor = int(first[earlier - low, edge])
                    continue
                join, chain = joins[edge], chains[edge]
                if chain < 0:
                    if lists is not None:
                        useful = scratch.useful
                        cursor = _next_listed(plan, events, tables, lists, useful, edge, earlier, low, high, cursor)
                        if cursor >= 0:
                            row = plan.listed[plan.listed_start[edge]]
                            later = lists.inverse_items[lists.inverse_start[row, earlier] + cursor]
                            cursor += 1
                            break
                    continue
                begin, middle = order_start[join], order_end[join]
                if _exhausted(comparison, begin, middle, codes, earlier, best, best_start[chain], cursor):
                    cursor = -1
                    continue
                place = cursor
                cursor = int(following[chain, place])
                if _fits(comparison, begin, comparison_end[join], codes, earlier, low + place):
                    later = low + place
                    break
            if later < 0:
                depth -= 1
                continue
            state = target[edge]
            path_edge[depth - 1], path_cursor[depth - 1] = edge, cursor
        path_event[depth], path_state[depth], path_variable[depth] = later, state, state_variable[state]
        edge = out_start[state]
        path_edge[depth] = edge
        path_cursor[depth] = first[later - low, edge] if edge < out_start[state + 1] else -1
        if pairs.shape[0] > 0 and not _pairs_allow(pairs, codes, valid, path_event, path_variable, depth + 1):
            continue
        if gaps is not None and not _new_gap_allows(gaps, events, path, depth + 1, slice_low, high):
            continue
        depth += 1
        waiting = accept[later - low, state]
        if guards is not None and waiting and guards.late:
            begun = path_state[0]
            waiting = may_end(guards.program, events, guards.conditions, state, begun, later, high, pivot)
        if gaps is not None and waiting:
            waiting = _gaps_allow(gaps, events, path, depth, slice_low, high)
    at[_RUN], at[_DEPTH], at[_ROOT], at[_WAITING] = run, depth, root, waiting
    at[_TRENDS], at[_BINDINGS], at[_DONE] = trends, bindings, done


class Enumerator:
    """Lists the trends of one query over chunk after chunk of sorted events.

    Examples
    --------
    >>> from cetdsl.kernels.wire.windows import NEVER, cut_slices
    >>> from cetdsl.planning.physical import Edge, Machine, Windowing
    >>> machine = Machine((0, 1), ((0, ()),), ((1, ()),), (Edge(0, 1), Edge(1, 1)))  # SEQ(A, B+)
    >>> spec = KernelSpec(machine, (), Windowing(), 0, 0, "t", "bigint", 0, 0, (), 0)
    >>> segment, time, none = np.array([0, 3]), np.arange(3), np.zeros(0, dtype=np.int64)
    >>> no_codes, no_lists = np.zeros((0, 3), dtype=np.int64), np.zeros((0, 4), dtype=np.int64)
    >>> events = Events(segment, time, time, np.array([1, 2, 2]), no_codes, no_codes.astype(bool), no_lists, none)
    >>> slices = cut_slices(spec.query.windowing, segment, time, np.zeros(1, dtype=np.int64), True, NEVER)
    >>> for block in Enumerator(spec).enumerate(events, slices, (time[:1], time[:1])):
    ...     [part.tolist() for part in np.split(block.event, block.start[1:-1])]
    [[0, 1], [0, 1, 2], [0, 2]]
    """

    def __init__(self, spec: KernelSpec) -> None:
        self.spec = spec
        self.evaluator = Evaluator(_without_correlated(spec))
        self._layout = _Layout(self.evaluator.machine)
        self._pairs = np.array([_pair_row(pair) for pair in spec.query.pairs], dtype=np.int64).reshape(-1, 5)
        self._correlated, self._negated = _lay_out_correlated(spec)

    def enumerate(
        self,
        events: Events,
        slices: Slices,
        bounds: tuple[Ints, Ints],
        limit: int = -1,
        block: int = BLOCK,
    ) -> Iterator[Block]:
        """All trends of all slices, in blocks.

        Parameters
        ----------
        bounds : (int64 array, int64 array), each of shape (slices,)
            With a span: from when to before when the first event of a trend lies.
        limit : int
            Stop after so many trends; -1: find all.
        block : int
            The number of bindings in a block. A trend that is longer makes a block of its own.
        """
        if len(slices.low) == 0 or limit == 0:
            return
        search, longest = self._prepare(events, slices, bounds)
        path = _Path(
            np.empty(longest, dtype=np.int64),
            np.empty(longest, dtype=np.int16),
            np.empty(longest, dtype=np.int64),
            np.empty(longest, dtype=np.int64),
            np.empty(longest, dtype=np.int64),
            np.empty(longest, dtype=np.bool_),
        )
        at = np.zeros(_POSITIONS, dtype=np.int64)
        at[_RUN] = at[_ROOT] = -1
        remaining, size = limit, block
        while not at[_DONE] and remaining != 0:
            most = size if remaining < 0 else min(size, remaining)
            out = Block(
                np.empty(most + 1, dtype=np.int64),
                np.empty(size, dtype=np.int64),
                np.empty(size, dtype=np.int16),
                np.empty(most, dtype=np.int64),
            )
            _search(self._layout.plan, *search, path, at, *out, most)
            trends, bindings = int(at[_TRENDS]), int(at[_BINDINGS])
            # Nothing fits: the next trend is longer than a block.
            size = int(at[_DEPTH]) if at[_WAITING] and trends == 0 else block
            if trends:
                remaining -= trends if remaining > 0 else 0
                yield shrunk(out, trends, bindings)

    def _prepare(
        self, events: Events, slices: Slices, bounds: tuple[Ints, Ints]
    ) -> tuple[tuple[_Input, _Guards | None, _Gaps | None, _Lists | None, _Scratch], int]:
        """What a search is given (its middle arguments), and the length of the longest run."""
        evaluator, plan = self.evaluator, self._layout.plan
        events, before, until = evaluator.with_guards(events)
        conditions = evaluator.conditions(events, before, until)
        runs = evaluator.runs(slices, events, bounds)
        tables, heads = self._layout.tables(events)
        lists = self._layout.lists(events)
        pivot_pairs = _pivot_pairs(self.spec.query.pairs, evaluator.spec.query.pivot)
        pivot = conditions.pivot_variable
        given = _Input(events, tables, runs, slices.low, self._pairs, pivot, pivot_pairs)
        widest = int((slices.high - slices.low).max())
        span = self.spec.query.windowing.kind == SPAN
        scratch = self._layout.scratch(widest, heads)
        if span:
            # Spans overlap by nearly all of their length, so a first look throws out those that begin in vain.
            hopeful = _hopeful_runs(plan, given._replace(pivot_pairs=pivot_pairs[:0]), lists, scratch, slices)
            given = given._replace(runs=Runs(*(column[hopeful] for column in runs)))
        machine = evaluator.spec.query.machine
        guards = None
        if any(names for _, names in machine.initial + machine.final):
            guards = _Guards(evaluator.layout.program, conditions, span and any(names for _, names in machine.initial))
        gaps = None
        if len(self._correlated.pair):
            reach = np.empty((widest, int(self._correlated.state_start[-1])), dtype=np.bool_)
            gaps = _Gaps(self._correlated, self._negated, reach)
        return (given, guards, gaps, lists, scratch), widest


def shrunk(out: Block, trends: int, bindings: int) -> Block:
    """The filled part of a block; copied where that frees more than it costs."""
    found = Block(out.start[: trends + 1], out.event[:bindings], out.variable[:bindings], out.slice[:trends])
    if 2 * trends < len(out.slice):
        found = found._replace(start=found.start.copy(), slice=found.slice.copy())
    if 2 * bindings < len(out.event):
        found = found._replace(event=found.event.copy(), variable=found.variable.copy())
    return found
