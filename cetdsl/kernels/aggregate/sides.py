"""The two sides of a sweep's pivot: the matrices that count the walks after it, and those before it.

The *pivot* of a trend is the event that the predicates compare others with (:mod:`~cetdsl.kernels.aggregate.sweep`).
The events of a trend after its pivot are a walk along the machine that begins in a state of the pivot variable. So are
the events before it, read backwards in time along reversed transitions. A *side* is either of the two.

The *places* of a side are the states that such a walk may be in. The first places are the states of the pivot variable,
with which walks begin and which no event enters. Each other place is a state together with its *demands*: how the value
of an event that enters it must compare with the pivot's. A state that is entered directly from the pivot may demand
more than when it is entered from elsewhere; it then has two places.

A NOT of single events forbids these events in the gap between two neighbours, or between the last event of a walk and
the end of the slice. A state may be left by transitions with such guards and without. It then has a place for each set
of guards, and an event of the NOT *undoes* the ways that have come to a place with this guard: their number becomes 0.

Entry ``(r, q)`` of the matrix of some instants is the number of ways to go from place ``r`` to place ``q`` over their
events. Only those entries are stored that may differ from the identity; they are numbered consecutively.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from cetdsl.ir.machine import Machine, Negation, Pair
from cetdsl.kernels._side_by_side import grouped
from cetdsl.kernels.machine.program import OPERATORS
from cetdsl.kernels.vocabulary import Bools, Ints
from cetdsl.pattern.expressions import MIRRORED

#: A comparison of an event with the pivot: the number of the operator, the event's column and the pivot's column.
Demand = tuple[int, int, int]
#: Stands for an entry that is always 1.
ONE = -1


class Rules(NamedTuple):
    """How matrices are multiplied with each other and with vectors, and how an event is added to a matrix.

    Entries are given by their numbers. The *readers* of events are the places, and behind them the undoing variables of
    NOTs.

    Attributes
    ----------
    variable : int64 array, shape (readers,)
        The variable whose events each reader reads; -1 for the places of the pivot.
    into_start, into : int64 arrays
        The entries that an event adds to when a reader reads it. For a place ``q`` they are the ``(r, q)`` of the
        transitions from ``r`` to ``q``; for an undoing variable, those extra entries that mark a place as undone.
    factor_start, left, right : int64 arrays
        Entry ``e`` of a product ``A B`` is the sum of ``A[left[t]] * B[right[t]]`` over
        ``factor_start[e] <= t < factor_start[e + 1]``, where the number ``ONE`` stands for an entry that is always 1.
    row, column, entry : int64 arrays, shape (terms,)
        The terms of a product with a vector: row, column and number of each entry that is not always 0, the diagonal
        included.
    own, undone : int64 arrays
        The entries on the diagonal that are stored, and for each the entry that marks its place as undone, or -1.
    """

    variable: Ints
    into_start: Ints
    into: Ints
    factor_start: Ints
    left: Ints
    right: Ints
    row: Ints
    column: Ints
    entry: Ints
    own: Ints
    undone: Ints


class Side(NamedTuple):
    """One side of the pivot.

    A walk whose pivot is bound in state ``s`` begins in the places ``places[s]``, and may end in the ``final`` ones.
    ``demands`` has an entry for each reader of the ``rules``.
    """

    places: dict[int, tuple[int, ...]]
    demands: list[tuple[Demand, ...]]
    final: Bools
    rules: Rules

    @property
    def entries(self) -> int:
        """The number of entries that a matrix has."""
        return len(self.rules.factor_start) - 1


def demands_of(pairs: Iterable[Pair], pivot: int, variable: int) -> tuple[Demand, ...]:
    """Returns the demands of pairwise predicates on an event of a variable, given the event of the pivot."""
    about = (pair.about(pivot) for pair in pairs)
    return tuple((OPERATORS[one.op], one.left, one.right) for one in about if one and one.left_variable == variable)


#: A place: its state, what entering it demands besides the pairwise predicates, and the guards of the transition (or of
#: the end) by which walks leave it, which no event since may have undone.
_Place = tuple[int, tuple[Demand, ...], tuple[int, ...]]


def side_of(
    machine: Machine, pairs: tuple[Pair, ...], pivot: int, negations: tuple[Negation, ...] = (), *, backwards: bool
) -> Side:
    """Returns the side after the pivot, or, read ``backwards``, the one before it.

    Examples
    --------
    >>> from cetdsl.ir.machine import Edge
    >>> machine = Machine((0, 1), ((0, ()),), ((1, ()),), (Edge(0, 1), Edge(1, 1)))
    >>> after = side_of(machine, (Pair("<", 0, 0, 1, 0),), 0, backwards=False)
    >>> after.places, after.demands, after.final.tolist(), after.entries
    ({0: (0,)}, [(), ((4, 0, 0),)], [False, True], 2)
    """
    steps: dict[int, list[tuple[int, tuple[Demand, ...], tuple[int, ...]]]] = {}
    for edge in machine.edges:
        source, target = (edge.target, edge.source) if backwards else (edge.source, edge.target)
        if backwards:
            own = tuple((OPERATORS[MIRRORED[c.op]], c.earlier, c.later) for c in edge.comparisons)
        else:
            own = tuple((OPERATORS[c.op], c.later, c.earlier) for c in edge.comparisons)
        steps.setdefault(source, []).append((target, own, edge.guards))
    ends = dict(machine.initial if backwards else machine.final)
    begins = [state for state, variable in enumerate(machine.variables) if variable == pivot]

    def guards_at(state: int) -> list[tuple[int, ...]]:
        """Returns the different sets of guards with which walks may go on from a state, or end there."""
        found = [guards for _, _, guards in steps.get(state, [])]
        return list(dict.fromkeys([*found, *([ends[state]] if state in ends else [])]))

    starts: dict[int, list[_Place]] = {state: [(state, (), each) for each in guards_at(state)] for state in begins}
    numbers = {place: number for number, place in enumerate(place for places in starts.values() for place in places)}
    first_read = len(numbers)
    waiting, transitions = list(numbers), []
    while waiting:
        place = waiting.pop()
        for target, own, guards in steps.get(place[0], []):
            if guards != place[2]:
                continue
            for following in [(target, own, after) for after in guards_at(target)]:
                if following not in numbers:
                    numbers[following] = len(numbers)
                    waiting.append(following)
                transitions.append((numbers[place], numbers[following]))
    variables = [machine.variables[state] for state, _, _ in numbers]
    demands = [(*demands_of(pairs, pivot, v), *own) for v, (_, own, _) in zip(variables, numbers, strict=True)]
    variables[:first_read] = [-1] * first_read
    undoing: dict[tuple[int, tuple[Demand, ...]], list[int]] = {}
    for (_, _, guards), number in numbers.items():
        for negation in (negations[guard] for guard in guards):
            for variable in negation.machine.variables:
                key = variable, demands_of(negation.correlated, pivot, variable)
                undoing.setdefault(key, []).append(number)
    final = np.array([ends.get(state) == guards for state, _, guards in numbers], dtype=np.bool_)
    rules = _rules(variables, transitions, [(v, places) for (v, _), places in undoing.items()])
    demands += [own for _, own in undoing]
    return Side({s: tuple(numbers[p] for p in places) for s, places in starts.items()}, demands, final, rules)


def _rules(variables: list[int], transitions: list[tuple[int, int]], undoing: list[tuple[int, list[int]]]) -> Rules:
    """Returns the rules of some places."""
    size = len(variables)
    reach = np.zeros((size, size), dtype=np.bool_)
    for source, target in transitions:
        reach[source, target] = True
    for middle in range(size):
        reach |= reach[:, middle, None] & reach[None, middle, :]
    # The ways that stay in a place may be undone, so its diagonal entry is not always 1 and must be stored.
    fragile = sorted({place for _, places in undoing for place in places})
    reach[fragile, fragile] = True
    kept = list(zip(*(axis.tolist() for axis in np.nonzero(reach)), strict=True))
    number = {pair: entry for entry, pair in enumerate(kept)}
    undone = {place: len(kept) + entry for entry, place in enumerate(fragile)}
    full = {**{(place, place): ONE for place in range(size)}, **number}
    into: list[list[int]] = [[] for _ in range(size)]
    for pair in transitions:
        into[pair[1]].append(number[pair])
    into += [[undone[place] for place in places] for _, places in undoing]
    factors = [[(full[r, p], full[p, q]) for p in range(size) if (r, p) in full and (p, q) in full] for r, q in kept]
    into_start, into_flat = grouped(into)
    factor_start, flat = grouped([*factors, *([] for _ in fragile)])
    flat = flat.reshape(-1, 2)
    terms = np.array([(r, q, entry) for (r, q), entry in full.items()], dtype=np.int64).reshape(-1, 3)
    diagonal = [(r, entry) for (r, q), entry in number.items() if r == q]
    own = np.array([entry for _, entry in diagonal], dtype=np.int64)
    signs = np.array([undone.get(place, -1) for place, _ in diagonal], dtype=np.int64)
    left, right = (np.ascontiguousarray(column) for column in flat.T)
    row, column, entry = (np.ascontiguousarray(axis) for axis in terms.T)
    readers = np.array([*variables, *(variable for variable, _ in undoing)], dtype=np.int64)
    return Rules(readers, into_start, into_flat, factor_start, left, right, row, column, entry, own, signs)
