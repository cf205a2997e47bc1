"""Judges *correlated* negations, whose predicates relate an event that must not occur to events of the trend.

A negation *guards* a gap: the time between two neighbouring bindings, before the first one or after the last. The
search judges each gap as soon as its path has all bindings that the negation's predicates look at.
"""

from __future__ import annotations

from typing import NamedTuple

import attrs
import numpy as np

from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.machine import Edge, Machine, Pair
from cetdsl.ir.windowing import SPAN
from cetdsl.kernels._jit import jit
from cetdsl.kernels._side_by_side import flat, starts_of
from cetdsl.kernels.enumerate.blocks import WIDE
from cetdsl.kernels.enumerate.layout import by_source, ints
from cetdsl.kernels.machine.conditions import compare, edge_holds
from cetdsl.kernels.machine.program import OPERATORS, PAIR_OPERATORS, Program, lay_out
from cetdsl.kernels.vocabulary import Bools, Events, Ints, Shorts, Slices

#: Its events are not consecutive, even if the column rises: they lie on both sides of the value compared with.
_APART = OPERATORS["!="]


class Path(NamedTuple):
    """The bindings of the path, and the successors of each that remain to be tried."""

    #: The label of each binding, see :mod:`~cetdsl.kernels.enumerate.blocks`; with room for ``WIDE`` more.
    label: Ints
    event: Ints
    variable: Shorts
    #: The state that the machine is in after the binding.
    state: Ints
    #: The edge that the successor of the binding was found along, or the one that is tried first.
    edge: Ints
    #: Where the search for the next successor along that edge goes on: an event of a chain, counted from the first of
    #: the subslice, or a position in an inverted list; -1: nowhere.
    cursor: Ints
    #: Whether the gap before the binding is still to be judged, because its negations look at later bindings.
    pending: Bools


def make_path(longest: int) -> Path:
    """Makes room for a path of ``longest`` bindings."""
    label, event, state, edge, cursor = (np.empty(longest + more, dtype=np.int64) for more in (WIDE, 0, 0, 0, 0))
    return Path(label, event, np.empty(longest, dtype=np.int16), state, edge, cursor, np.empty(longest, dtype=np.bool_))


class Correlated(NamedTuple):
    """Correlated negations, with their machines numbered as one, and the gaps that they guard."""

    #: Where the states of each negation's machine begin among those of all, and where its predicates begin in ``pair``.
    state_start: Ints
    pair_start: Ints
    #: Operator, variable of the negated pattern and its column, variable of the trend and its column.
    pair: Ints
    #: The negations ``edge_guard[edge_start[e]:edge_start[e + 1]]`` guard the gap that the edge ``e`` crosses.
    edge_start: Ints
    edge_guard: Ints
    #: In the same way, for each state, the negations that guard the gap before a trend that begins in it, or after one
    #: that ends in it.
    begin_start: Ints
    begin_guard: Ints
    end_start: Ints
    end_guard: Ints
    #: The windows' length, and whether it is the longest span of a trend. Then it also bounds the gap before a trend.
    span: int
    within: bool


class Gaps(NamedTuple):
    """The data for judging gaps that correlated negations guard."""

    correlated: Correlated
    #: The machines of all correlated negations as one.
    negated: Program
    #: Work space: the states that a match may be in after each event of a gap, shape (longest subslice, states).
    reach: Bools
    #: For each pair, whether the events of a gap that satisfy it are consecutive: see :func:`_in_a_row`.
    in_a_row: Bools


def gaps_of(correlated: Correlated, negated: Program, events: Events, slices: Slices) -> Gaps | None:
    """Returns the data for judging the gaps of some slices; None if there is no correlated negation."""
    if not len(correlated.pair):
        return None
    widest = int((slices.high - slices.low).max(initial=0))
    reach = np.empty((widest, int(correlated.state_start[-1])), dtype=np.bool_)
    return Gaps(correlated, negated, reach, _in_a_row(correlated, negated.variable, events))


@jit
def _in_a_row(correlated: Correlated, variable: Ints, events: Events) -> Bools:
    """Whether the events of a gap that satisfy each pair are consecutive.

    They are if the negation is of a single event, to which the pair refers, and the pair's column rises with time, as
    it does where predicates bound durations. ``variable`` is that of each state of the negations.
    """
    found = np.zeros(len(correlated.pair), dtype=np.bool_)
    for guard in range(len(correlated.state_start) - 1):
        if correlated.state_start[guard + 1] - correlated.state_start[guard] != 1:
            continue
        for k in range(correlated.pair_start[guard], correlated.pair_start[guard + 1]):
            column = correlated.pair[k, 2]
            found[k] = correlated.pair[k, 1] == variable[correlated.state_start[guard]]
            found[k] = found[k] and correlated.pair[k, 0] != _APART and events.valid[column].all()
            for s in range(len(events.segment_start) - 1):
                for event in range(events.segment_start[s] + 1, events.segment_start[s + 1]):
                    if events.codes[column, event] < events.codes[column, event - 1]:
                        found[k] = False
                        break
                if not found[k]:
                    break
    return found


def lay_out_correlated(spec: KernelSpec) -> tuple[Correlated, Program]:
    """Lays out the correlated negations of a query, numbered from 0, and their machines as one."""
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
        pairs += [pair_row(pair) for pair in spec.query.negations[number].correlated]
        state_start.append(len(variables))
        pair_start.append(len(pairs))

    def renumbered(guards: tuple[int, ...]) -> list[int]:
        return [new[guard] for guard in guards if guard in new]

    states = range(len(spec.query.machine.variables))
    begins, ends = dict(spec.query.machine.initial), dict(spec.query.machine.final)
    on_edge = [renumbered(edge.guards) for edge in by_source(spec.query.machine)]
    on_begin = [renumbered(begins.get(state, ())) for state in states]
    on_end = [renumbered(ends.get(state, ())) for state in states]
    correlated = Correlated(
        state_start=ints(state_start),
        pair_start=ints(pair_start),
        pair=np.array(pairs, dtype=np.int64).reshape(-1, 5),
        edge_start=starts_of(on_edge),
        edge_guard=flat(on_edge),
        begin_start=starts_of(on_begin),
        begin_guard=flat(on_begin),
        end_start=starts_of(on_end),
        end_guard=flat(on_end),
        span=spec.query.windowing.length,
        within=spec.query.windowing.kind == SPAN,
    )
    return correlated, lay_out(Machine(tuple(variables), tuple(initial), tuple(final), tuple(edges))).program


def pair_row(pair: Pair) -> tuple[int, int, int, int, int]:
    return PAIR_OPERATORS[pair.op], pair.left_variable, pair.left, pair.right_variable, pair.right


def without_correlated(spec: KernelSpec) -> KernelSpec:
    """Returns the query where negations that look at trends match nothing and guard no gap, but keep their numbers."""
    gone = {number for number, negation in enumerate(spec.query.negations) if negation.looks_at_trend}
    if not gone:
        return spec

    def kept(guards: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(guard for guard in guards if guard not in gone)

    machine = spec.query.machine
    stripped = attrs.evolve(
        machine,
        initial=tuple((state, kept(guards)) for state, guards in machine.initial),
        final=tuple((state, kept(guards)) for state, guards in machine.final),
        edges=tuple(attrs.evolve(edge, guards=kept(edge.guards)) for edge in machine.edges),
    )
    nothing = Machine((), (), (), ())
    negations = tuple(
        attrs.evolve(n, machine=nothing, pairs=()) if n.looks_at_trend else n for n in spec.query.negations
    )
    return spec.with_query(machine=stripped, negations=negations)


@jit
def _bound_to(path: Path, depth: int, variable: int) -> int:
    """Returns the event of the path that is bound to a variable; -1: none."""
    for d in range(depth):
        if path.variable[d] == variable:
            return int(path.event[d])
    return -1


@jit
def _is_decided(correlated: Correlated, path: Path, depth: int, guard: int) -> bool:
    """Whether the path binds all variables that a negation refers to."""
    for k in range(correlated.pair_start[guard], correlated.pair_start[guard + 1]):
        if _bound_to(path, depth, correlated.pair[k, 3]) < 0:
            return False
    return True


@jit
def _relates(
    correlated: Correlated, events: Events, path: Path, depth: int, guard: int, event: int, variable: int
) -> bool:
    """Whether an event may be bound to a variable of the negated pattern, and satisfies its pairs with the path."""
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
def _narrowed(pair: Ints, events: Events, other: int, low: int, high: int) -> tuple[int, int]:
    """Returns the range of those among the events ``low:high`` that satisfy a pair whose column rises with time.

    ``other`` is the event of the trend that the pair refers to, -1 if there is none.
    """
    if other < 0 or not events.valid[pair[4], other]:
        return low, low
    op, bound, values = pair[0], events.codes[pair[4], other], events.codes[pair[2], low:high]
    first, last = low, high
    if op == 0 or op >= 4:  # =, >, >=
        first = low + (np.searchsorted(values, bound, side="right") if op == 4 else np.searchsorted(values, bound))
    if op == 0 or op == 2 or op == 3:  # =, <, <=
        last = low + (np.searchsorted(values, bound) if op == 2 else np.searchsorted(values, bound, side="right"))
    return first, last


@jit
def has_match(gaps: Gaps, events: Events, path: Path, depth: int, guard: int, low: int, high: int) -> bool:
    """Whether a negated pattern has a match among the events ``low:high`` that forbids the path."""
    correlated, program, reach = gaps.correlated, gaps.negated, gaps.reach
    begin, end = correlated.state_start[guard], correlated.state_start[guard + 1]
    for k in range(correlated.pair_start[guard], correlated.pair_start[guard + 1]):
        if gaps.in_a_row[k]:
            low, high = _narrowed(correlated.pair[k], events, _bound_to(path, depth, correlated.pair[k, 3]), low, high)
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
    correlated: Correlated, events: Events, path: Path, depth: int, position: int, low: int, high: int
) -> tuple[int, int]:
    """Returns the range of the events in the gap before a position of the path; ``depth`` stands for the gap after it.

    They are strictly later than the binding before the position (from ``low`` on if there is none), and strictly
    earlier than the binding at it (before ``high`` if there is none).
    """
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
def _guards_of(correlated: Correlated, path: Path, depth: int, position: int) -> Ints:
    """Returns the correlated negations that guard the gap before a position of the path (``depth``: that after it)."""
    if position == 0:
        state = path.state[0]
        return correlated.begin_guard[correlated.begin_start[state] : correlated.begin_start[state + 1]]
    if position == depth:
        state = path.state[depth - 1]
        return correlated.end_guard[correlated.end_start[state] : correlated.end_start[state + 1]]
    edge = path.edge[position - 1]
    return correlated.edge_guard[correlated.edge_start[edge] : correlated.edge_start[edge + 1]]


@jit
def _gap_is_free(gaps: Gaps, events: Events, path: Path, depth: int, position: int, low: int, high: int) -> bool:
    guards = _guards_of(gaps.correlated, path, depth, position)
    if len(guards) == 0:
        return True
    begin, end = _gap(gaps.correlated, events, path, depth, position, low, high)
    free = True
    for guard in guards:
        free = free and not has_match(gaps, events, path, depth, guard, begin, end)
    return free


@jit
def new_gap_allows(gaps: Gaps, events: Events, path: Path, depth: int, low: int, high: int) -> bool:
    """Whether no negation forbids the gap before the last binding, as far as this can be judged.

    If a negation of the gap looks at a variable that is not bound yet, the gap is noted as pending, and allowed.
    """
    position = depth - 1
    path.pending[position] = False
    guards = _guards_of(gaps.correlated, path, depth, position)
    pending = position == 0 and gaps.correlated.within and len(guards) > 0
    for guard in guards:
        pending = pending or not _is_decided(gaps.correlated, path, depth, guard)
    path.pending[position] = pending
    return pending or _gap_is_free(gaps, events, path, depth, position, low, high)


@jit
def gaps_allow(gaps: Gaps, events: Events, path: Path, depth: int, low: int, high: int) -> bool:
    """Whether no negation forbids the trend in the pending gaps, and in the gap after its end."""
    for position in range(depth):
        if path.pending[position] and not _gap_is_free(gaps, events, path, depth, position, low, high):
            return False
    return _gap_is_free(gaps, events, path, depth, depth, low, high)
