"""The cost of a plan: the expected number of partial matches of each step of an order, and of each node of a tree.

The number depends only on which variables are bound, not on how they came together. So it is a function of a mask:

    count(S)  =  product of the rates of S times the window's length
               * product of the selectivities of the pairs in S
               * the share of the orders in time of so many events that the pattern allows
               * for each chain of order predicates, 2^(k-1) / k! of k variables in a row
               * for each Kleene variable, the number of its sets instead of its rate
               * the number of events, if matches may begin at any time (a span)

This is the cost of Kolchinsky and Schuster, "Join Query Optimization Techniques for Complex Event Processing
Applications" (PVLDB 11(11), 2018), where the order in time of two variables is a predicate of selectivity 1/2. For more
than two variables these predicates depend on each other: of three events in any order, A is before B before C with
probability 1/3! = 1/6, and not 1/4. The shares here are exact for independent times, for all orders that SEQ and AND
express. Comparisons by order depend on each other in the same way: for ``a.x < b.x AND b.x < c.x``, each comparison
holds for one pair in 2, and both hold for one triple in 6. So the product of their selectivities is corrected by the
factor that applies if values are independent of each other and of the variable. The same is done for the events of one
set if an attribute rises from each to the next: of all sets of k events, one in k! rises
(:func:`~cetdsl.detection.arithmetic.log_sets`).

The count of a step is the number of partial matches that it finds, not of those that it visits. The search tests
predicates within a set, and pairwise ones with bound events, before an event joins a set, so these build no set in
vain. But two kinds of sets are built that no count includes. Sets smaller than ``at_least`` are the beginnings of
larger ones. And if the variable behind a set is bound before the set, sets are built whose last event does not satisfy
an adjacent predicate with that variable: for selectivity s, up to about 1/s sets for each one that satisfies it, or
fewer if the search knows that an event leads to no end that does. These numbers depend on the order in which variables
are bound, while the counts here depend on masks alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from cetdsl.detection import arithmetic
from cetdsl.detection.arithmetic import compressed_exp
from cetdsl.detection.plans import Plan, Problem, Variable, members
from cetdsl.detection.statistics import DEFAULT_SELECTIVITY, Statistics, pair_of

#: The least rate and selectivity. What was never seen may still come, and 0 would make all plans cost nothing.
LEAST = 1e-9

#: How the variables of a set are ordered in time: a variable, or "series" or "parallel" of parts.
Order: TypeAlias = "int | tuple[str, tuple[Order, ...]]"


class Expectation:
    """The expected numbers of partial matches of one problem, under given statistics.

    Parameters
    ----------
    problem : Problem
    statistics : Statistics

    Examples
    --------
    >>> problem = Problem.sequence("a", "b", "c", predicates={(0, 1)})
    >>> known = Expectation(problem, Statistics({"a": 100, "b": 15, "c": 10}, {("a", "b"): 0.1}))
    >>> [round(known.count(mask), 6) for mask in (0b100, 0b110, 0b111)]  # c, then b, then a
    [10.0, 75.0, 250.0]
    """

    def __init__(self, problem: Problem, statistics: Statistics) -> None:
        self.problem = problem
        self._names = names = problem.names
        pairs = [(i, j) for j in range(len(names)) for i in range(j + 1)]
        compared = problem.predicates | problem.adjacent
        self._pairs = [(pair, pair_of(names[pair[0]], names[pair[1]]), pair in compared) for pair in pairs]
        self._kleene = sum(1 << position for position, variable in enumerate(problem.variables) if variable.kleene)
        #: By mask, the part of the cost that does not depend on statistics.
        self._made: dict[int, Made] = {}
        self._take(statistics)

    def renewed(self, statistics: Statistics) -> Expectation:
        """Returns the expectation of the same problem under other statistics; shares what does not depend on these.

        Examples
        --------
        >>> before = Expectation(Problem.sequence("a", "b"), Statistics({"a": 4, "b": 5}))
        >>> round(before.count(0b11), 6), round(before.renewed(Statistics({"a": 6, "b": 5})).count(0b11), 6)
        (10.0, 15.0)
        """
        other = Expectation.__new__(Expectation)
        other.__dict__.update(self.__dict__)  # copy() takes five times as long
        other._take(statistics)
        return other

    def _take(self, statistics: Statistics) -> None:
        self.statistics = statistics
        length = 1.0 if self.problem.window is None else self.problem.window
        self._events = [max(statistics.rate(name) * length, LEAST) for name in self._names]
        known = statistics.selectivities
        self._selectivities: dict[tuple[int, int], float] = {}
        for pair, named, compared in self._pairs:
            share = known.get(named, DEFAULT_SELECTIVITY if compared else 1.0)
            if share != 1.0:
                self._selectivities[pair] = max(share, LEAST)
        #: The logarithms of all numbers of events and selectivities, each with the mask of its variables.
        self._factors = [(1 << position, math.log(events)) for position, events in enumerate(self._events)]
        self._factors += [(1 << i | 1 << j, math.log(share)) for (i, j), share in self._selectivities.items()]
        self._logs: dict[int, float] = {}
        self._counts: dict[int, float] = {}
        #: The number and the size of the sets of Kleene variables, by variable and selectivity of the bound events.
        self._sets: dict[tuple[int, float], tuple[float, float]] = {}

    def log_count(self, mask: int) -> float:
        """Returns the natural logarithm of the expected number of partial matches that bind these variables."""
        known = self._logs.get(mask)
        if known is None:
            known = self._logs[mask] = self._log_of(mask)
        return known

    def count(self, mask: int) -> float:
        """Returns the expected number of partial matches that bind these variables.

        Beyond e^600, and below e^-600, the number is compressed: it grows more slowly, so that sums stay finite and
        comparisons keep their result. Such numbers come from the exponentially many sets of a Kleene variable; no plan
        that builds so many would end.
        """
        known = self._counts.get(mask)
        if known is None:
            known = self._counts[mask] = compressed_exp(self.log_count(mask))
        return known

    def cost(self, plan: Plan) -> float:
        """Returns the expected number of partial matches of all steps of an order, or of all nodes of a tree.

        Examples
        --------
        >>> from cetdsl.detection.plans import OrderPlan
        >>> known = Expectation(Problem.conjunction("a", "b"), Statistics({"a": 3, "b": 5}))
        >>> round(known.cost(OrderPlan((0, 1))), 6)  # 3 + 15
        18.0
        """
        return math.fsum(map(self.count, plan.masks))

    def steps(self, plan: Plan) -> tuple[float, ...]:
        """Returns log2 of the expected number of partial matches of each step, or of each node, in the order of masks.

        Examples
        --------
        >>> from cetdsl.detection.plans import OrderPlan
        >>> known = Expectation(Problem.conjunction("a", "b"), Statistics({"a": 2, "b": 8}))
        >>> known.steps(OrderPlan((0, 1)))
        (1.0, 4.0)
        """
        return tuple(self.log_count(mask) / math.log(2) for mask in plan.masks)

    def made(self, mask: int) -> Made:
        """Returns the decomposition of a set of variables, which does not depend on statistics."""
        made = self._made.get(mask)
        if made is None:
            made = self._made[mask] = made_of(self.problem, mask)
        return made

    def _log_of(self, mask: int) -> float:
        made = self.made(mask)
        if not mask & self._kleene:
            log = sum([log for needed, log in self._factors if needed & mask == needed])
            return made.fixed + log + (math.log(len(made.positions)) if self.problem.span else 0.0)
        log, sizes = self._combinations(made.positions)
        log += made.fixed
        for sign, positions in made.terms:
            log += sign * math.lgamma(1.0 + sum([sizes[position] for position in positions]))
        return log + (math.log(sum(sizes.values())) if self.problem.span else 0.0)

    def _combinations(self, positions: tuple[int, ...]) -> tuple[float, dict[int, float]]:
        """Computes the logarithm of the number of combinations in any order of time, and the mean size of each set.

        Variables that bind single events come first, because their selectivities decide how large the sets become.
        """
        problem, share_of = self.problem, self._selectivities
        log = 0.0
        sizes: dict[int, float] = {}
        for position in positions:
            variable = problem.variables[position]
            log_each = log_once = 0.0
            for other, size in sizes.items():
                pair = (min(other, position), max(other, position))
                if pair not in share_of:
                    continue
                if variable.kleene and pair in problem.predicates:
                    log_each += size * math.log(share_of[pair])
                else:
                    log_once += math.log(share_of[pair])
            sets, sizes[position] = self._sets_of(position, log_each)
            log += sets + log_once
        return log, sizes

    def _sets_of(self, position: int, log_each: float) -> tuple[float, float]:
        """Computes how many sets a variable binds, see :func:`log_sets`; cached, as many masks need the same result."""
        known = self._sets.get((position, log_each))
        if known is None:
            variable, events, between = self.problem.variables[position], self._events[position], 1.0
            own = self._selectivities.get((position, position), 1.0)
            if variable.kleene and (position, position) in self.problem.adjacent:
                between = own
            else:
                events *= own
            known = self._sets[position, log_each] = log_sets(events, log_each, between, variable)
        return known


class Made(NamedTuple):
    """The decomposition of a set of variables, as far as it does not depend on statistics."""

    #: The variables, those that bind one event first.
    positions: tuple[int, ...]
    #: The logarithm of the factors that do not depend on the sizes of sets: the correction of chains of comparisons by
    #: order and, if no variable binds several events, the share of orders in time.
    fixed: float
    #: If some variable binds several events, the terms of the logarithm of that share: the sign of each, and the
    #: variables whose total number of events is the argument of the factorial.
    terms: tuple[tuple[int, tuple[int, ...]], ...]


def made_of(problem: Problem, mask: int) -> Made:
    """Returns the decomposition of a set of variables.

    Examples
    --------
    >>> round(math.exp(-made_of(Problem.sequence("a", "b", "c"), 0b111).fixed))  # one order of 3! = 6
    6
    >>> made_of(Problem.sequence("a", Variable("b", at_most=None)), 0b11).terms  # 1! n! / (1 + n)!
    ((1, (0,)), (1, (1,)), (-1, (0, 1)))
    """
    positions = tuple(sorted(members(mask), key=lambda position: problem.variables[position].kleene))
    order = ordered_in_time(problem.ordered, mask)
    chained = log_chained(problem.rising, mask)
    if any(problem.variables[position].kleene for position in positions):
        return Made(positions, chained, tuple(_terms(order)))
    return Made(positions, chained + log_share(order, dict.fromkeys(positions, 1.0)), ())


def log_chained(rising: tuple[tuple[int, ...], ...], mask: int) -> float:
    """Returns the logarithm of the factor by which chains of order predicates hold more rarely than independent pairs.

    Parameters
    ----------
    rising : tuple of tuple of int
        The chains, see :class:`~cetdsl.detection.plans.Problem`.
    mask : int
        The variables that are bound. An unbound variable divides a chain into two.

    Notes
    -----
    k independent values of one distribution rise with probability 1 / k!, and each pair of neighbours with 1/2.

    Examples
    --------
    >>> round(math.exp(-log_chained(((0, 1, 2, 3),), 0b1111)), 6)  # 4! / 2^3
    3.0
    >>> round(math.exp(-log_chained(((0, 1, 2, 3),), 0b1011)), 6)  # only 0 and 1 are neighbours: 2! / 2
    1.0
    """
    log = 0.0
    for chain in rising:
        length = 0
        for position in (*chain, -1):
            if position >= 0 and mask >> position & 1:
                length += 1
                continue
            log += max(length - 1, 0) * math.log(2) - math.lgamma(length + 1)
            length = 0
    return log


def _terms(order: Order) -> Iterator[tuple[int, tuple[int, ...]]]:
    """The terms of :func:`log_share`."""
    if isinstance(order, int):
        return
    kind, parts = order
    for part in parts:
        yield from _terms(part)
        if kind == "series":
            yield 1, _held(part)
    if kind == "series":
        yield -1, _held(order)


def _held(order: Order) -> tuple[int, ...]:
    return (order,) if isinstance(order, int) else sum(map(_held, order[1]), ())


def log_sets(events: float, log_each: float, between: float, variable: Variable) -> tuple[float, float]:
    """Computes how many sets a variable is expected to bind; see :func:`~cetdsl.detection.arithmetic.log_sets`.

    Examples
    --------
    >>> log, size = log_sets(10, 0.0, 1.0, Variable("b", at_most=None))
    >>> round(math.exp(log)), round(size, 2)
    (1023, 5.0)
    >>> round(math.exp(log_sets(18, 0.0, 0.5, Variable("b", at_most=None, monotone=1))[0]))  # b.x < NEXT(b).x
    463
    """
    return arithmetic.log_sets(events, log_each, between, variable.at_least, variable.at_most or 0, variable.monotone)


@lru_cache(maxsize=1 << 16)
def ordered_in_time(ordered: frozenset[tuple[int, int]], mask: int) -> Order:
    """Returns how the variables of a mask are ordered in time, as a tree of series and parallel parts.

    For a pattern of SEQ and AND, any set of variables has such a decomposition.

    Examples
    --------
    >>> ordered_in_time(Problem.sequence("a", "b", "c").ordered, 0b101)
    ('series', (0, 2))
    >>> ordered_in_time(frozenset({(0, 1), (0, 2)}), 0b111)
    ('series', (0, ('parallel', (1, 2))))
    """
    positions = list(members(mask))
    if len(positions) == 1:
        return positions[0]
    comparable = {(a, b) for a, b in ordered if mask >> a & 1 and mask >> b & 1}
    parts = _connected(positions, comparable)
    if len(parts) > 1:
        return "parallel", tuple(ordered_in_time(ordered, part) for part in parts)
    free = {(a, b) for a in positions for b in positions if a < b and not {(a, b), (b, a)} & comparable}
    parts = _connected(positions, free)
    assert len(parts) > 1, "SEQ and AND order variables so that any set of them comes apart"
    return "series", tuple(ordered_in_time(ordered, part) for part in parts)


def _connected(positions: list[int], pairs: set[tuple[int, int]]) -> list[int]:
    """Returns the masks of the connected components of a graph."""
    parts: list[int] = []
    for position in positions:
        part = 1 << position
        for a, b in pairs:
            if position in (a, b):
                part |= 1 << a | 1 << b
        touched = [other for other in parts if other & part]
        for other in touched:
            part |= other
            parts.remove(other)
        parts.append(part)
    return sorted(parts, key=lambda part: part & -part)


def log_share(order: Order, sizes: dict[int, float]) -> float:
    """Returns the logarithm of the share of allowed orders in time, if all orders are equally likely.

    Parameters
    ----------
    order : Order
        How the variables are ordered.
    sizes : dict
        How many events each variable binds. The events of one variable are a set, in which order plays no part.

    Notes
    -----
    For a series of m events and then n events, one in C(m + n, n) orders is allowed; parallel parts do not restrict
    each other. So the share counts the linear extensions of a series-parallel order.

    Examples
    --------
    >>> round(math.exp(-log_share(("series", (0, 1, 2)), {0: 1, 1: 1, 2: 1})))  # one order of 3! = 6
    6
    >>> round(math.exp(-log_share(("series", (0, 1, 2)), {0: 1, 1: 3, 2: 1})))  # 5! / 3!
    20
    """
    return _share(order, sizes)[0]


def _share(order: Order, sizes: dict[int, float]) -> tuple[float, float]:
    if isinstance(order, int):
        return 0.0, sizes[order]
    kind, parts = order
    shares, lengths = zip(*(_share(part, sizes) for part in parts))
    total = sum(lengths)
    log = sum(shares)
    if kind == "series":
        log += sum(math.lgamma(length + 1) for length in lengths) - math.lgamma(total + 1)
    return log, total
