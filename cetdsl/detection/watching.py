"""The values that a decision function compares after each slice, as arrays, so that kernels can pass over slices.

Only the decision function, in Python, decides whether an invariant is violated, and what follows. The arrays of this
module tell a kernel enough to recognize slices that cannot matter. Expected numbers of partial matches are products, so
a set of variables is stored as the list of its factors, and a comparison as two lists of sets; all are stored once per
plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cetdsl.detection.arithmetic import ALWAYS, CONDITIONS, DEVIATIONS
from cetdsl.detection.cost import LEAST, Expectation
from cetdsl.detection.generators import Shape
from cetdsl.detection.statistics import DEFAULT_SELECTIVITY, Statistics, pair_of

Ints = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


class Factors(NamedTuple):
    """The factors of the expected numbers of partial matches of one branch."""

    #: Length of a window, and the least value of an expected number of events, or of a selectivity.
    length: float
    least: float
    #: 1 where matches may begin at any time, else 0.
    span: int
    #: By variable, the bounds of its sets; ``at_most`` is 0 where there is none.
    at_least: Ints
    at_most: Ints
    #: By variable, the number of attributes that predicates make rise, or fall, from each event of a set to the next.
    monotone: Ints
    #: ``pair[i, j]`` is the column of the selectivity of two variables; -1: it is 1.
    pair: Ints
    #: By column, whether the predicates are tested for all events of a set, and whether for neighbours.
    pairwise: Bools
    adjacent: Bools


class Sets(NamedTuple):
    """The sets of variables whose expected numbers of partial matches are needed, and their factors."""

    #: ``member[start[s]:start[s + 1]]`` are the variables of set ``s``, those that bind one event first.
    member: Ints
    start: Ints
    #: The logarithm of the share of orders in time, as far as it does not depend on the sizes of Kleene sets.
    fixed: Doubles
    #: ``sign * lgamma(1 + size of the variables in mask)`` are the further terms of this logarithm.
    sign: Ints
    mask: Ints
    term_start: Ints


class Watched(NamedTuple):
    """The statistics and conditions that are checked after a slice."""

    #: One of the ways of :mod:`~cetdsl.detection.arithmetic`.
    how: int
    #: The share by which a statistic must differ, and all statistics at the last planning.
    threshold: float
    then: Doubles
    sets: Sets
    #: ``side[start[c]:start[c + 1]]`` are the sets whose numbers make up a side: condition ``c`` has the sides
    #: ``2 * c`` and ``2 * c + 1``.
    side: Ints
    side_start: Ints
    #: By side, where the sets begin that the other side has, too. Only the sets before them show small differences.
    side_shared: Ints
    #: The set that both sides of a condition have in common (-1: none), and whether a tie violates it.
    common: Ints
    strict: Bools
    #: The distance of each condition, and the number of the slice since which it fades.
    distance: Doubles
    since: Ints
    #: Slices until half of a distance is forgotten (0: never), and the least distance that counts.
    half_life: float
    least: float
    #: How many slices the decision function has seen.
    slices: int
    #: The sets of the plan in force and of the one before it while a change is on trial, and for how many more slices.
    plan: Ints
    before: Ints
    trial: int


class Watch:
    """Makes arrays of the watched statistics, for one branch.

    Parameters
    ----------
    expectation : Expectation
        That of the statistics known before the first slice.

    Examples
    --------
    >>> from cetdsl.detection.plans import Problem
    >>> watch = Watch(Expectation(Problem.sequence("a", "b", predicates={(0, 1)}), Statistics({"a": 5})))
    >>> watch.begin.round(3).tolist()
    [5.0, 1.0, 0.333]
    >>> watch.statistics(watch.begin).rates
    {'a': 5.0, 'b': 1.0}
    """

    def __init__(self, expectation: Expectation) -> None:
        problem, statistics = expectation.problem, expectation.statistics
        names = problem.names
        compared = sorted(problem.predicates | problem.adjacent)
        known = {pair_of(names[i], names[j]): (i, j) for j in range(len(names)) for i in range(j + 1)}
        others = sorted({known[pair] for pair in statistics.selectivities if pair in known} - set(compared))
        columns = [*compared, *others]
        self._problem = problem
        self._pairs = [pair_of(names[i], names[j]) for i, j in columns]
        shares = [
            statistics.selectivities.get(pair, DEFAULT_SELECTIVITY if column < len(compared) else 1.0)
            for column, pair in enumerate(self._pairs)
        ]
        #: The rates by variable, and then the selectivities by pair, that are assumed before the first slice.
        self.begin: Doubles = np.array([*map(statistics.rate, names), *shares], dtype=np.float64)
        pair = np.full((len(names), len(names)), -1, dtype=np.int64)
        for column, (i, j) in enumerate(columns):
            pair[i, j] = pair[j, i] = column
        self.factors = Factors(
            1.0 if problem.window is None else float(problem.window),
            LEAST,
            int(problem.span),
            np.array([variable.at_least for variable in problem.variables], dtype=np.int64),
            np.array([variable.at_most or 0 for variable in problem.variables], dtype=np.int64),
            np.array([variable.monotone for variable in problem.variables], dtype=np.int64),
            pair,
            np.array([one in problem.predicates for one in columns], dtype=np.bool_),
            np.array([one in problem.adjacent for one in columns], dtype=np.bool_),
        )
        self._made = expectation.made

    def statistics(self, now: Doubles) -> Statistics:
        """Returns statistics that are given as an array, in the order of ``begin``."""
        names = self._problem.names
        rates, shares = now[: len(names)].tolist(), now[len(names) :].tolist()
        return Statistics(dict(zip(names, rates, strict=True)), dict(zip(self._pairs, shares, strict=True)))

    def always(self) -> Watched:
        """Returns a watch by which the decision function looks at each slice."""
        return self._watched(ALWAYS)

    def deviations(self, threshold: float, then: Sequence[float]) -> Watched:
        """Returns a watch for slices in which a statistic differs by a share from its earlier value."""
        watched = self._watched(DEVIATIONS)
        return watched._replace(threshold=threshold, then=np.array(then, dtype=np.float64))

    def conditions(self, sides: Sequence[tuple[tuple[Shape, ...], tuple[Shape, ...], int, bool]]) -> Watched:
        """Returns a watch for slices in which one of some conditions may be violated; all distances are 0.

        Parameters
        ----------
        sides : sequence of tuple
            For each condition, its left and right shapes, the mask that both sides have in common (0: none), and
            whether a tie violates it.
        """
        numbers: dict[int, int] = {}
        own, shared = [], []
        for one in sides:
            left, right = (Counter(_masks(side)) for side in one[:2])
            own += [list((left - right).elements()), list((right - left).elements())]
            shared += [list((left & right).elements())] * 2
        flat = [[numbers.setdefault(m, len(numbers)) for m in (*a, *b)] for a, b in zip(own, shared, strict=True)]
        start = np.cumsum([0, *map(len, flat)]).astype(np.int64)
        common = [numbers.setdefault(one[2], len(numbers)) if one[2] else -1 for one in sides]
        return self._watched(CONDITIONS, list(numbers))._replace(
            side=_ints([number for side in flat for number in side]),
            side_start=start,
            side_shared=start[:-1] + _ints(map(len, own)),
            common=_ints(common),
            strict=np.array([one[3] for one in sides], dtype=np.bool_),
            distance=np.zeros(len(sides)),
            since=np.zeros(len(sides), dtype=np.int64),
        )

    def on_trial(self, watched: Watched, plan: Sequence[int], before: Sequence[int], slices: int) -> Watched:
        """Returns a copy that also costs two plans, given by the masks of their steps, for ``slices`` more slices."""
        sets = [*_sets_of(watched.sets), *plan, *before]
        begin = len(sets) - len(plan) - len(before)
        number = np.arange(begin, len(sets), dtype=np.int64)
        return watched._replace(
            sets=self.sets(sets), plan=number[: len(plan)].copy(), before=number[len(plan) :].copy(), trial=slices
        )

    def _watched(self, how: int, sets: Sequence[int] = ()) -> Watched:
        none = np.zeros(0, dtype=np.int64)
        doubles, bools = np.zeros(0), np.zeros(0, dtype=np.bool_)
        start = np.zeros(1, dtype=np.int64)
        return Watched(
            how,
            0.0,
            doubles,
            self.sets(sets),
            none,
            start,
            none,
            none,
            bools,
            doubles,
            none,
            0.0,
            0.0,
            0,
            none,
            none,
            0,
        )

    def sets(self, masks: Sequence[int]) -> Sets:
        """Returns the factors of some sets of variables, given by their masks."""
        made = [self._made(mask) for mask in masks]
        terms = [term for one in made for term in one.terms]
        return Sets(
            _ints([position for one in made for position in one.positions]),
            np.cumsum([0, *(len(one.positions) for one in made)]).astype(np.int64),
            np.array([one.fixed for one in made], dtype=np.float64),
            _ints([sign for sign, _ in terms]),
            _ints([sum(1 << position for position in positions) for _, positions in terms]),
            np.cumsum([0, *(len(one.terms) for one in made)]).astype(np.int64),
        )


def _masks(shapes: Iterable[Shape]) -> Iterator[int]:
    """The masks of shapes and of all below them."""
    for shape in shapes:
        for part in shape:
            if isinstance(part, int):
                yield part
            else:
                yield from _masks((part,))


def _sets_of(sets: Sets) -> list[int]:
    return [
        sum(1 << int(position) for position in sets.member[start:stop])
        for start, stop in zip(sets.start, sets.start[1:])
    ]


def _ints(values: Iterable[int]) -> Ints:
    return np.array(list(values), dtype=np.int64)
