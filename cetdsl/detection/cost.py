"""What a plan costs: the expected number of partial matches of each step of an order, and of each node of a tree.

The number depends only on which variables are bound, not on how they came together. So it is a function of a mask:

    count(S)  =  product of the rates of S times the window's length
               * product of the selectivities of the pairs in S
               * the share of the orders in time of so many events that the pattern allows
               * the number of events, if matches may begin at any time (a span)

This is the cost of Kolchinsky and Schuster, "Join Query Optimization Techniques for Complex Event Processing
Applications" (PVLDB 11(11), 2018), where the order in time of two variables is a predicate of selectivity 1/2. For more
than two these predicates depend on each other: of three events in any order, one in 3! = 6 is A before B before C, and
not one in 4. The shares here are those of independent times, exactly, for all that SEQ and AND can say.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import TypeAlias

from cetdsl.detection.plans import Plan, Problem, Variable, members
from cetdsl.detection.statistics import DEFAULT_SELECTIVITY, Statistics, pair_of

#: What was seen never may come all the same: a rate or a selectivity of 0 must not make all plans cost nothing.
LEAST = 1e-9
#: Logarithms of numbers that are kept as they are. Those beyond are compressed, so that sums and ratios are doubles.
LARGEST_LOG = 600.0
_COMPRESSED_LOG = 50.0
#: Terms, to each side of the largest, of the sum over the sizes of bounded sets.
_TERMS = 64

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
        #: Of masks without a Kleene variable, what does not depend on statistics.
        self._fixed: dict[int, float] = {}
        self._take(statistics)

    def renewed(self, statistics: Statistics) -> Expectation:
        """Returns the expectation of the same problem under other statistics; what depends on none is kept.

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
        #: The logarithms of all events and shares, each with the mask of the variables that it is of.
        self._factors = [(1 << position, math.log(events)) for position, events in enumerate(self._events)]
        self._factors += [(1 << i | 1 << j, math.log(share)) for (i, j), share in self._selectivities.items()]
        self._logs: dict[int, float] = {}
        self._counts: dict[int, float] = {}

    def log_count(self, mask: int) -> float:
        """Returns the natural logarithm of the expected number of partial matches that bind these variables."""
        known = self._logs.get(mask)
        if known is None:
            known = self._logs[mask] = self._log_of(mask)
        return known

    def count(self, mask: int) -> float:
        """Returns the expected number of partial matches that bind these variables.

        Beyond e^600, and below e^-600, it is a number that grows more slowly, but grows: sums are finite, and what is
        less stays less. The sets of a Kleene variable are exponentially many, and no plan that builds so many ends.
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

    def _log_of(self, mask: int) -> float:
        if not mask & self._kleene:
            if mask not in self._fixed:
                self._fixed[mask] = self._log_in_time(mask, dict.fromkeys(members(mask), 1.0))
            return self._fixed[mask] + sum([log for needed, log in self._factors if needed & mask == needed])
        log, sizes = self._combinations(list(members(mask)))
        return log + self._log_in_time(mask, sizes)

    def _log_in_time(self, mask: int, sizes: dict[int, float]) -> float:
        """Computes the logarithm of the share of orders in time, and of the places where a span may begin."""
        log = log_share(ordered_in_time(self.problem.ordered, mask), sizes)
        return log + math.log(sum(sizes.values())) if self.problem.span else log

    def _combinations(self, positions: list[int]) -> tuple[float, dict[int, float]]:
        """Computes the logarithm of the number of combinations of any order in time, and the size of each set."""
        problem, share_of = self.problem, self._selectivities
        log = 0.0
        sizes: dict[int, float] = {}
        # Single events come first: what they let through decides how large the sets become.
        for position in sorted(positions, key=lambda position: problem.variables[position].kleene):
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
            events, between = self._events[position], 1.0
            own = share_of.get((position, position), 1.0)
            if variable.kleene and (position, position) in problem.adjacent:
                between = own
            else:
                events *= own
            sets, sizes[position] = log_sets(events, log_each, between, variable)
            log += sets + log_once
        return log, sizes


def compressed_exp(log: float) -> float:
    """Returns e^log, or beyond e^600 a number up to e^650 that still grows with it; so also for its reciprocal.

    Examples
    --------
    >>> compressed_exp(0.0), compressed_exp(599.0) < compressed_exp(601.0) < compressed_exp(1e9) < 1e283
    (1.0, True)
    """
    size = abs(log)
    if size > LARGEST_LOG:
        log = math.copysign(LARGEST_LOG + _COMPRESSED_LOG * (1 - LARGEST_LOG / size), log)
    return math.exp(log)


def log_sets(events: float, log_each: float, between: float, variable: Variable) -> tuple[float, float]:
    """Computes how many sets a variable is expected to bind: the natural logarithm, and their mean size.

    Parameters
    ----------
    events : float
        Expected events of the variable in a window.
    log_each : float
        Logarithm of the share of events that go together with what is bound already.
    between : float
        Share of neighbouring repetitions that go together.
    variable : Variable
        It has the bounds of the sizes.

    Notes
    -----
    There are C(n, k) sets of k of n events, so 2^n - 1 of one event or more (Kolchinsky and Schuster make of a Kleene
    closure a type of rate 2^(rW) / W); if each event goes together with the rest at a share q, (1 + q)^n - 1. Where
    fewer events are expected than the smallest set has, n^k / k! stands for C(n, k), but at most 1: the mean of C(N, k)
    if N is a Poisson number of mean n.

    Examples
    --------
    >>> log, size = log_sets(10, 0.0, 1.0, Variable("b", at_most=None))
    >>> round(math.exp(log)), round(size, 2)
    (1023, 5.0)
    >>> round(math.exp(log_sets(10, 0.0, 1.0, Variable("b", 2, 3))[0]))  # C(10, 2) + C(10, 3)
    165
    >>> round(log_sets(1e6, 0.0, 1.0, Variable("b", at_most=None))[0])  # of 2^1000000
    693147
    """
    log_each += math.log(between)
    if not variable.kleene:
        return math.log(events) + log_each - math.log(between), 1.0
    share = math.exp(log_each)
    # No set is larger than there are events, but for the smallest: by chance, there may be as many.
    largest = max(variable.at_least, math.floor(events))
    most = largest if variable.at_most is None else min(variable.at_most, largest)
    peak = events * share / (1 + share)
    # Of many events, hardly any set is as small as half of the mean.
    if variable.at_most is None and (variable.at_least == 1 or variable.at_least <= peak / 2 > _TERMS):
        exponent = events * math.log1p(share)
        # Of less than one event there would be fewer sets than events; and a share may be too small for a double.
        log, size = math.log(events) + log_each, 1.0
        if exponent > 0:
            log = max(log, exponent if exponent > LARGEST_LOG else math.log(math.expm1(exponent)))
            size = max(size, peak / -math.expm1(-exponent))
    else:
        middle = round(min(max(peak, variable.at_least), most))
        sizes = range(max(variable.at_least, middle - _TERMS), min(middle + _TERMS, most) + 1)
        terms = [_log_choose(events, k) + k * log_each for k in sizes]
        log = log_sum(terms)
        size = sum(k * math.exp(term - log) for k, term in zip(sizes, terms))
    return log - math.log(between), size


def _log_choose(events: float, size: int) -> float:
    if size > events:
        return min(size * math.log(events) - math.lgamma(size + 1), 0.0)
    return math.lgamma(events + 1) - math.lgamma(size + 1) - math.lgamma(events - size + 1)


def log_sum(logs: Iterable[float]) -> float:
    """Returns the logarithm of the sum of numbers given by their logarithms.

    Examples
    --------
    >>> round(log_sum([1000.0, 1000.0]) - 1000, 6)  # of e^1000 + e^1000
    0.693147
    """
    logs = list(logs)
    largest = max(logs)
    return largest + math.log(math.fsum(math.exp(log - largest) for log in logs))


@lru_cache(maxsize=1 << 16)
def ordered_in_time(ordered: frozenset[tuple[int, int]], mask: int) -> Order:
    """Returns how the variables of a mask are ordered in time, taken apart into series and parallel parts.

    Any set of variables of a pattern of SEQ and AND comes apart so.

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
    """Returns the logarithm of the share of orders in time that are allowed, if all are as likely.

    Parameters
    ----------
    order : Order
        How the variables are ordered.
    sizes : dict
        How many events each of them binds. Those of one variable are a set: any order of them is the same set.

    Notes
    -----
    Of m events of the first part and n of the second, one after the other, one in C(m + n, n) orders is allowed; parts
    in parallel do not know of each other. These are the numbers of linear extensions of series-parallel orders.

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
