"""The branches of a machine: its paths from an initial to a final state, each as a sequence of variables without OR.

A machine is unambiguous, so each trend belongs to exactly one path, and branches have no trend in common.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import combinations, pairwise, product

import attrs

from cetdsl.detection.decisions import Adaptation
from cetdsl.detection.plans import Plan, Problem
from cetdsl.detection.statistics import Statistics
from cetdsl.ir.machine import Comparison, Edge, Machine

#: The most paths through a machine; each branch has a plan, and a search, of its own.
MOST_WAYS = 256


@attrs.frozen
class Between:
    """The conditions on two neighbouring events, as on an :class:`~cetdsl.ir.machine.Edge`."""

    comparisons: tuple[Comparison, ...] = ()
    listed: tuple[int, ...] = ()
    guards: tuple[int, ...] = ()


@attrs.frozen
class Slot:
    """A place of a branch: a variable that binds ``at_least`` to ``at_most`` events in a row (None: any number).

    ``inner`` is what must hold between each two neighbours of these events; None if the slot binds one event.
    """

    variable: int
    at_least: int = 1
    at_most: int | None = 1
    inner: Between | None = None

    @property
    def kleene(self) -> bool:
        """Whether it binds sets of events."""
        return self.at_most != 1


@attrs.frozen
class Branch:
    """Slots in their order of time, and what must hold ``between`` each two neighbours.

    The sides of an AND at the top are *sequences* of slots. A branch lists them one behind the other, with None in
    ``between`` where the next sequence begins, because events of different sides are in any order of time. For each
    sequence, ``begin`` and ``end`` are the negations that must have no match before its first and after its last event.

    Examples
    --------
    >>> both = side_by_side([Branch((Slot(0), Slot(1)), (Between(),)), Branch((Slot(2),), ())])
    >>> both.between, both.sequences, sorted(both.ordered)
    ((Between(comparisons=(), listed=(), guards=()), None), (range(0, 2), range(2, 3)), [(0, 1)])
    """

    slots: tuple[Slot, ...]
    between: tuple[Between | None, ...]
    begin: tuple[tuple[int, ...], ...] = ((),)
    end: tuple[tuple[int, ...], ...] = ((),)

    @property
    def sequences(self) -> tuple[range, ...]:
        """The slots of each sequence."""
        cuts = [0, *(k + 1 for k, between in enumerate(self.between) if between is None), len(self.slots)]
        return tuple(range(low, high) for low, high in pairwise(cuts))

    @property
    def ordered(self) -> frozenset[tuple[int, int]]:
        """The pairs of slots (a, b) where all events of a come before all of b."""
        return frozenset(pair for sequence in self.sequences for pair in combinations(sequence, 2))


def side_by_side(branches: Sequence[Branch]) -> Branch:
    """Joins branches, one of each side of an AND, to one branch of several sequences."""
    between = [between for branch in branches for between in (None, *branch.between)]
    return Branch(
        tuple(slot for branch in branches for slot in branch.slots),
        tuple(between[1:]),
        tuple(guards for branch in branches for guards in branch.begin),
        tuple(guards for branch in branches for guards in branch.end),
    )


def conjunctions_of(branches: Sequence[Branch], sides: Sequence[Collection[int]]) -> tuple[Branch, ...] | str:
    """Returns the branches of an AND, given those of all its sides and the variables of each; or why it has none.

    Examples
    --------
    >>> found = conjunctions_of([Branch((Slot(n),), ()) for n in range(4)], [{0, 1}, {2, 3}])
    >>> [[slot.variable for slot in branch.slots] for branch in found]
    [[0, 2], [0, 3], [1, 2], [1, 3]]
    """
    own = [[branch for branch in branches if branch.slots[0].variable in side] for side in sides]
    if math.prod(map(len, own)) > MOST_WAYS:
        return f"more than {MOST_WAYS} ways through the pattern"
    return tuple(map(side_by_side, product(*own)))


def branches_of(machine: Machine) -> tuple[Branch, ...] | str:
    """Returns the branches of a machine; or why it has none, in words.

    Examples
    --------
    >>> machine = Machine((0, 1, 2), ((0, ()),), ((1, ()), (2, ())), (Edge(0, 1), Edge(1, 1), Edge(1, 2)))
    >>> for branch in branches_of(machine):  # SEQ(A, B+, C?)
    ...     print([(slot.variable, slot.at_least, slot.at_most) for slot in branch.slots])
    [(0, 1, 1), (1, 1, None)]
    [(0, 1, 1), (1, 1, None), (2, 1, 1)]
    >>> branches_of(Machine((0, 1), ((0, ()),), ((1, ()),), (Edge(0, 1), Edge(1, 0))))
    'a repetition of more than one event'
    """
    out: list[list[Edge]] = [[] for _ in machine.variables]
    loops: dict[int, Edge] = {}
    for edge in machine.edges:
        if edge.source == edge.target:
            loops[edge.source] = edge
        else:
            out[edge.source].append(edge)
    final = dict(machine.final)
    ways = _count_ways(machine, out)
    if ways is None:
        return "a repetition of more than one event"
    if ways > MOST_WAYS:
        return f"more than {MOST_WAYS} ways through the pattern"
    found = []
    for state, begin in machine.initial:
        for way in _ways(out, final, state):
            states = [state, *(edge.target for edge in way)]
            found.append(_branch(machine, way, states, loops, begin, final[states[-1]]))
    return _merged(found)


def _count_ways(machine: Machine, out: list[list[Edge]]) -> int | None:
    """Returns the number of paths from an initial to a final state; None if there is a cycle."""
    incoming = [0] * len(out)
    for edges in out:
        for edge in edges:
            incoming[edge.target] += 1
    initial, final = {state for state, _ in machine.initial}, {state for state, _ in machine.final}
    ways = [int(state in initial) for state in range(len(out))]
    ready = [state for state, count in enumerate(incoming) if count == 0]
    done = total = 0
    while ready:
        state = ready.pop()
        done += 1
        total += ways[state] if state in final else 0
        for edge in out[state]:
            ways[edge.target] += ways[state]
            incoming[edge.target] -= 1
            if incoming[edge.target] == 0:
                ready.append(edge.target)
    return total if done == len(out) else None


def _ways(out: list[list[Edge]], final: dict[int, tuple[int, ...]], state: int) -> Iterator[list[Edge]]:
    """Yields the edges of each path from a state to a final one, depth first; a path may have thousands of edges."""
    if state in final:
        yield []
    way: list[Edge] = []
    pending = [iter(out[state])]
    while pending:
        edge = next(pending[-1], None)
        if edge is None:
            pending.pop()
            if way:
                way.pop()
            continue
        way.append(edge)
        if edge.target in final:
            yield way.copy()
        pending.append(iter(out[edge.target]))


def _between(edge: Edge) -> Between:
    return Between(edge.comparisons, edge.listed, edge.guards)


def _branch(
    machine: Machine,
    way: list[Edge],
    states: list[int],
    loops: dict[int, Edge],
    begin: tuple[int, ...],
    end: tuple[int, ...],
) -> Branch:
    """Makes a branch of a path; consecutive states of one variable become one slot if equal conditions relate them."""
    slots: list[Slot] = []
    between: list[Between] = []
    for position, state in enumerate(states):
        variable = machine.variables[state]
        loop = _between(loops[state]) if state in loops else None
        slot = Slot(variable, 1, None if loop else 1, loop)
        if position and slots[-1].variable == variable:
            step = _between(way[position - 1])
            known = {one for one in (slots[-1].inner, step, loop) if one is not None}
            if len(known) == 1 and slots[-1].at_most is not None:
                count = slots[-1].at_least + 1
                slots[-1] = Slot(variable, count, None if loop else count, step)
                continue
        if position:
            between.append(_between(way[position - 1]))
        slots.append(slot)
    return Branch(tuple(slots), tuple(between), (begin,), (end,))


def _merged(branches: Iterable[Branch]) -> tuple[Branch, ...]:
    """Merges branches that differ only in how often one slot repeats, if their numbers of events are consecutive."""
    found = list(branches)
    merging = True
    while merging:
        merging = False
        for number, branch in enumerate(found):
            for other in found[number + 1 :]:
                both = _union(branch, other)
                if both is not None:
                    found[number] = branch = both
                    found.remove(other)
                    merging = True
    return tuple(found)


def _union(one: Branch, other: Branch) -> Branch | None:
    """Returns the branch that has the trends of both, if there is one."""
    if len(one.slots) != len(other.slots):
        return None
    if attrs.evolve(one, slots=()) != attrs.evolve(other, slots=()):
        return None
    different = [k for k, (a, b) in enumerate(zip(one.slots, other.slots)) if a != b]
    if len(different) != 1:
        return None
    a, b = sorted((one.slots[different[0]], other.slots[different[0]]), key=lambda slot: slot.at_least)
    inner = {slot.inner for slot in (a, b) if slot.inner is not None}
    if a.variable != b.variable or a.at_most is None or b.at_least != a.at_most + 1 or len(inner) > 1:
        return None
    slot = Slot(a.variable, a.at_least, b.at_most, next(iter(inner), None))
    slots = (*one.slots[: different[0]], slot, *one.slots[different[0] + 1 :])
    return attrs.evolve(one, slots=slots)


@attrs.frozen
class Adapting:
    """Describes how the plan of a branch changes while its events are read.

    ``statistics`` are known beforehand; their rates are per ``unit``, a length in the unit of the time column. A plan
    may change after each slice of ``slice_events`` events of a key (None: a default), and is based on statistics of the
    last ``slices``.
    """

    problem: Problem
    algorithm: str
    adaptation: Adaptation
    statistics: Statistics
    unit: float = 1.0
    slice_events: int | None = None
    slices: int = 8


@attrs.frozen
class BranchPlan:
    """A branch, the plan by which its trends are put together, and how this plan changes."""

    branch: Branch
    plan: Plan
    adapting: Adapting | None = None
