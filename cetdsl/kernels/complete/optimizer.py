"""Where to cut a graph into graphlets, and which of them to cache: the optimizer of h-cet.

A graph is a row of *atoms* (atomic graphlets, 0 to m - 1 in time), which cannot be cut. A plan cuts it between some of
them. Each *graphlet*, the atoms between two cuts, is either *cached*: its partial trends are kept in memory and
stitched, or *walked*: its vertices are visited depth first, again for every path that reaches it, and nothing is kept.
One cached graphlet is t-cet, one walked graphlet is m-cet, and all that lies between them is h-cet.

A plan is a path over the m + 1 places between atoms, and a graphlet is a step of it with two costs that add up: memory,
which is limited, and CPU, which is to be least. That is a shortest path with one limited resource. Three optimizers
find it (Poppe et al., *Complete Event Trend Detection in High-Rate Event Streams*, SIGMOD 2017, has the first cost
model and the three principles by which the second one prunes):

================  =====================================  ==============================================
optimizer         looks at                               its plan
================  =====================================  ==============================================
exhaustive        every plan                             the best; for 25 atoms, or 15 that may be walked
branch-and-bound  what its bounds do not rule out        the best, unless a budget of nodes is spent
greedy            one cut at a time                      within the limit, and often good
================  =====================================  ==============================================

The best plan has the least CPU of all that fit the limit, then the fewest cuts, then the least memory.
"""

from __future__ import annotations

import heapq
import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import attrs
import numpy as np
from numpy.typing import ArrayLike, NDArray

from cetdsl.errors import InvalidNode, nearest
from cetdsl.kernels.vocabulary import Floats, Ints

#: The two ways to go through a graphlet; first axis of the arrays of `_Choices`.
CACHED, WALKED = 0, 1

#: Exhaustive search looks at no more plans than this.
MOST_PLANS = 2**24

#: Partial plans that branch and bound looks at before it gives up on proving its plan the best.
BUDGET = 2_000_000

#: Partial plans per place that it goes on with after that.
WIDTH = 64

#: Graphlets per atom that are worth another round of pruning before the search.
DENSE = 16

#: CPU is compared to this many binary digits of the least that any plan could need. Trends are so many that the rest is
#: noise, but noise in which millions of plans differ.
DIGITS = 40

#: Stands for what is larger; sums and products of two such numbers are still in the range of doubles.
HUGE = 1e150

#: Relative error of a sum of doubles that was taken in another order.
ROUNDING = 1e-12


def _whole_bytes(memory: ArrayLike) -> Floats:
    """Bytes rounded up, so that their sums are exact whatever the order."""
    return np.ceil(np.asarray(memory, dtype=np.float64))


def _doubles(values: ArrayLike) -> Floats:
    return np.asarray(values, dtype=np.float64)


@attrs.frozen(eq=False)
class Costs:
    """What each graphlet costs: entry ``[i, j]`` is of atoms ``i`` to ``j - 1``; those with ``j <= i`` are not read.

    The CPU of all graphlets of a plan adds up to the steps that the plan takes: the references that it writes into the
    cache or as complete trends, and the vertices or cached partial trends that it visits. For t-cet to come out where
    memory is ample, the entries that end at the last atom must count the references of the complete trends, but not
    ``cpu[0, m]``, where the cached trends are the complete ones. Only proportions matter: where counts would leave the
    range of doubles, all of them may be divided by the same number.

    Attributes
    ----------
    memory : float64 array, shape (m, m + 1)
        Bytes of the partial trends of a graphlet, rounded up; infinite where they are too many to count.
    cpu : float64 array, shape (m, m + 1)
        Steps if the graphlet is cached.
    walk : float64 array, shape (m, m + 1), optional
        Steps if it is walked. Without it every graphlet is cached, or, where that does not fit, none.

    Raises
    ------
    InvalidNode
        If the shapes do not fit each other, or a cost is negative or not a number.
    """

    memory: Floats = attrs.field(converter=_whole_bytes)
    cpu: Floats = attrs.field(converter=_doubles)
    walk: Floats | None = attrs.field(converter=attrs.converters.optional(_doubles), default=None)

    def __attrs_post_init__(self) -> None:
        for name in ("memory", "cpu", "walk"):
            costs = getattr(self, name)
            if costs is None:
                continue
            if costs.ndim != 2 or len(costs) == 0 or costs.shape != (len(self.memory), len(self.memory) + 1):
                raise InvalidNode(f"{name} has the shape {costs.shape}", hint="costs of m atoms are m rows of m + 1")
            if not (costs[_is_graphlet(len(costs))] >= 0).all():
                raise InvalidNode(f"{name} holds a cost that is negative or not a number")

    @property
    def atoms(self) -> int:
        """The number of atomic graphlets, m."""
        return len(self.memory)


@attrs.frozen
class Plan:
    """Graphlets, and what they are predicted to cost.

    Attributes
    ----------
    atoms : int
    cuts : tuple of int
        A cut ``c`` lies between atoms ``c - 1`` and ``c``; ascending.
    cached : tuple of bool
        Whether each graphlet is cached, or walked.
    memory : int
        Bytes of all cached partial trends.
    cpu : float
        Steps; infinite where they are too many to count or, for want of costs, not known.
    considered : int
        Plans, partial plans or steps that the optimizer looked at.
    optimal : bool
        Whether no plan within the limit needs less CPU (to `DIGITS` binary digits).

    Examples
    --------
    >>> plan = Plan(atoms=5, cuts=(2, 3), cached=(True, False, True), memory=640, cpu=99.0, considered=7, optimal=True)
    >>> plan.graphlets
    ((0, 2), (2, 3), (3, 5))
    >>> plan.algorithm
    'h-cet'
    """

    atoms: int
    cuts: tuple[int, ...]
    cached: tuple[bool, ...]
    memory: int
    cpu: float
    considered: int
    optimal: bool

    @property
    def graphlets(self) -> tuple[tuple[int, int], ...]:
        """First atom of each graphlet, and the one after its last."""
        return tuple(pairwise((0, *self.cuts, self.atoms)))

    @property
    def algorithm(self) -> str:
        """The published algorithm that the plan amounts to."""
        if self.cached == (True,):
            return "t-cet"
        return "h-cet" if any(self.cached) else "m-cet"


def worst_case_costs(sizes: Sequence[int] | Ints, ref_bytes: int = 4) -> Costs:
    """The costs of a graph of which nothing is known but its vertices.

    Parameters
    ----------
    sizes : sequence of int
        Vertices of each atom.
    ref_bytes : int
        Bytes of one reference from a partial trend to a vertex.

    Returns
    -------
    Costs

    Notes
    -----
    n vertices have most maximal trends when they stand in groups of 3, each vertex followed by all of the next group:
    3^(n/3) trends of n/3 vertices each (SIGMOD 2017; the bound is that of Moon and Moser, 1965, on maximal cliques).
    With N vertices up to the end of a graphlet of n, of which all are N', it takes

    - if cached: n/3 * 3^(n/3) references, and 3^(N/3) visits, one per path that is stitched up to its end;
    - if walked: 3^g visits to the g-th group of the graph, in all 3/2 * (3^(N/3) - 3^((N-n)/3));
    - if it is the last: N'/3 * 3^(N'/3) references of complete trends. One cached graphlet has written them already.

    This is a model, not a bound on every graph: groups of 2 have fewer trends but, up to some 20 vertices, more
    references, and trends that end where they cannot be extended, but skip inner events, can be 2^(n-2).

    Examples
    --------
    >>> costs = worst_case_costs([3, 3, 3, 3])
    >>> costs.memory[0].tolist()  # 3 trends of one vertex, 9 of two, 27 of three, 81 of four; 4 bytes each
    [0.0, 12.0, 72.0, 324.0, 1296.0]
    >>> optimize(costs, 1296).algorithm
    't-cet'
    >>> optimize(costs, 0).algorithm
    'm-cet'
    """
    groups = np.concatenate([[0.0], np.cumsum(np.asarray(sizes, dtype=np.float64))]) / 3
    inside = np.maximum(groups[None, :] - groups[:-1, None], 0)
    with np.errstate(over="ignore", invalid="ignore"):
        refs = np.ceil(inside * 3**inside)
        stitched = np.ceil(3**groups)
        visited = np.ceil(1.5 * (3**groups - 1))
        memory, cpu = refs * ref_bytes, refs + stitched
        walk = np.where(np.isinf(visited), np.inf, visited - visited[:-1, None])
        cpu[1:, -1] += refs[0, -1]
        walk[:, -1] += refs[0, -1]
    cpu[0, -1] = refs[0, -1]
    return Costs(memory, cpu, walk)


# Choices, and the paths over them --------------------------------------------------------------------------------


class _Graphlet(NamedTuple):
    """A graphlet and the way to go through it; an index into the arrays of `_Choices`."""

    way: int
    start: int
    stop: int


class _Choices(NamedTuple):
    """The graphlets that a plan may be made of.

    Both arrays have the shape (2, m, m + 1), and are infinite where there is no such graphlet.
    """

    memory: Floats
    cpu: Floats

    def priced(self, price: float) -> Floats:
        """CPU with a price on each byte."""
        return self.cpu + price * self.memory if price else self.cpu

    def without(self, weights: Floats, most: float) -> _Choices:
        """These choices but for the graphlets with which every plan weighs more than ``most``."""
        before, after = _least(weights)
        dropped = before[:-1, None] + weights + after > most
        return _Choices(np.where(dropped, np.inf, self.memory), np.where(dropped, np.inf, self.cpu))


class _Path(NamedTuple):
    """A whole plan, in time order."""

    graphlets: list[_Graphlet]
    memory: float
    cpu: float


def _is_graphlet(atoms: int) -> NDArray[np.bool_]:
    """Entries of an array of costs that are read, shape (m, m + 1)."""
    return np.arange(atoms + 1) > np.arange(atoms)[:, None]


def _choices(costs: Costs, limit: float) -> _Choices:
    """All graphlets; their CPU is in units of the last of the `DIGITS` of the least that a plan could need."""
    walk = np.full_like(costs.cpu, np.inf) if costs.walk is None else costs.walk
    memory = np.stack([costs.memory, np.zeros_like(walk)])
    cpu = np.stack([costs.cpu, walk])
    absent = np.broadcast_to(~_is_graphlet(costs.atoms), cpu.shape).copy()
    absent[WALKED] |= costs.walk is None
    least = _least(np.where(absent | (memory > limit), np.inf, cpu))[0][-1]
    if 0 < least < np.inf:
        with np.errstate(over="ignore"):
            cpu = np.rint(np.ldexp(cpu, DIGITS - math.frexp(least)[1]))
    return _Choices(np.where(absent, np.inf, memory), np.where(absent, np.inf, np.minimum(cpu, HUGE)))


def _checked(limit: float) -> float:
    if not limit >= 0:
        raise InvalidNode(f"{limit!r} is not a memory limit", hint="give a number of bytes, 0 or more")
    return float(min(limit, HUGE**2))


def _least(weights: Floats) -> tuple[Floats, Floats]:
    """The least weight of all atoms before each place, and of all after it; infinite where no plan has that place."""
    weights = weights.min(axis=0)
    atoms = len(weights)
    before, after = np.zeros(atoms + 1), np.zeros(atoms + 1)
    for there in range(1, atoms + 1):
        back = atoms - there
        before[there] = (before[:there] + weights[:there, there]).min()
        after[back] = (weights[back, back + 1 :] + after[back + 1 :]).min()
    return before, after


def _cheapest(choices: _Choices, weights: Floats) -> _Path:
    """The plan of least weight."""
    way, weights = weights.argmin(axis=0), weights.min(axis=0)
    atoms = len(weights)
    before = np.zeros(atoms + 1)
    start = np.zeros(atoms + 1, dtype=np.int64)
    for stop in range(1, atoms + 1):
        through = before[:stop] + weights[:stop, stop]
        start[stop] = through.argmin()
        before[stop] = through[start[stop]]
    graphlets = []
    stop = atoms
    while stop > 0:
        graphlets.append(_Graphlet(int(way[start[stop], stop]), int(start[stop]), stop))
        stop = graphlets[-1].start
    graphlets.reverse()
    return _Path(graphlets, *(sum(float(costs[graphlet]) for graphlet in graphlets) for costs in choices))


def _plan(costs: Costs, graphlets: Iterable[_Graphlet], considered: int, optimal: bool) -> Plan:
    merged: list[_Graphlet] = []
    for graphlet in graphlets:
        if merged and merged[-1].way == graphlet.way == WALKED:
            # Visits add up, so that two walks side by side are one, whatever the digits that were dropped.
            joint = merged[-1]._replace(stop=graphlet.stop)
            if _cpu(costs, joint) <= (_cpu(costs, merged[-1]) + _cpu(costs, graphlet)) * (1 + ROUNDING):
                merged[-1] = joint
                continue
        merged.append(graphlet)
    return Plan(
        atoms=costs.atoms,
        cuts=tuple(graphlet.start for graphlet in merged[1:]),
        cached=tuple(graphlet.way == CACHED for graphlet in merged),
        memory=sum(int(costs.memory[start, stop]) for way, start, stop in merged if way == CACHED),
        cpu=sum(_cpu(costs, graphlet) for graphlet in merged),
        considered=considered,
        optimal=optimal,
    )


def _cpu(costs: Costs, graphlet: _Graphlet) -> float:
    steps = costs.cpu if graphlet.way == CACHED else costs.walk
    return math.inf if steps is None else float(steps[graphlet.start, graphlet.stop])


def _uncached(costs: Costs, considered: int) -> Plan:
    """The answer where nothing else fits."""
    return _plan(costs, [_Graphlet(WALKED, 0, costs.atoms)], considered, optimal=True)


# The optimizers --------------------------------------------------------------------------------------------------


def exhaustive(costs: Costs, limit: float) -> Plan:
    """The best plan, found by looking at all of them: 2^(m-1), or 2 * 3^(m-1) if graphlets may be walked.

    Parameters
    ----------
    costs : Costs
    limit : float
        Bytes that the cached partial trends may take.

    Returns
    -------
    Plan
        ``considered`` counts whole plans.

    Raises
    ------
    InvalidNode
        If there are more than `MOST_PLANS` plans.

    Examples
    --------
    >>> exhaustive(worst_case_costs([3] * 8), 1000).considered
    4374
    """
    limit = _checked(limit)
    atoms = costs.atoms
    ways = (CACHED,) if costs.walk is None else (CACHED, WALKED)
    plans = len(ways) * (len(ways) + 1) ** (atoms - 1)
    if plans > MOST_PLANS:
        hint = "use method='branch-and-bound', which finds a plan as good"
        raise InvalidNode(f"{atoms} atomic graphlets have {plans:.3g} plans, too many to look at all", hint=hint)
    choices = _choices(costs, limit)
    following = [
        [
            (graphlet, float(choices.memory[graphlet]), float(choices.cpu[graphlet]))
            for stop in range(start + 1, atoms + 1)
            for graphlet in [_Graphlet(way, start, stop) for way in ways]
        ]
        for start in range(atoms)
    ]
    path: list[_Graphlet] = []
    best = (math.inf, 0, 0.0)
    best_path: list[_Graphlet] = []

    def extend(place: int, memory: float, cpu: float) -> None:
        nonlocal best, best_path
        if place == atoms:
            if memory <= limit and (cpu, len(path), memory) < best:
                best, best_path = (cpu, len(path), memory), path.copy()
            return
        for graphlet, more_memory, more_cpu in following[place]:
            path.append(graphlet)
            extend(graphlet.stop, memory + more_memory, cpu + more_cpu)
            path.pop()

    extend(0, 0.0, 0.0)
    return _plan(costs, best_path, plans, optimal=True) if best_path else _uncached(costs, plans)


def greedy(costs: Costs, limit: float) -> Plan:
    """A plan within the limit, found by cutting or no longer caching where that costs the least CPU per byte saved.

    It begins with one cached graphlet and ends when the plan fits the limit and no single move saves CPU.

    Parameters
    ----------
    costs : Costs
    limit : float
        Bytes that the cached partial trends may take.

    Returns
    -------
    Plan
        ``considered`` counts cuts that were weighed. Never marked as optimal.

    Examples
    --------
    >>> plan = greedy(worst_case_costs([3] * 8), 1000)
    >>> plan.graphlets, plan.cached, plan.memory
    (((0, 5), (5, 8)), (False, True), 324)
    """
    limit = _checked(limit)
    choices = _choices(costs, limit)
    memory = choices.memory[CACHED]
    cpu, walk = choices.cpu
    graphlets = {(0, costs.atoms): CACHED}
    moves: list[tuple[float, int, int, int]] = []
    considered = 0

    def weigh(start: int, stop: int) -> None:
        """Finds the best move for one cached graphlet; a cut at its own start means to walk it."""
        nonlocal considered
        cuts = np.arange(start + 1, stop)
        if math.isinf(memory[start, stop]) and len(cuts) > 0:
            heapq.heappush(moves, (-math.inf, start, stop, (start + stop) // 2))
            return
        saved = memory[start, stop] - memory[start, cuts] - memory[cuts, stop]
        added = cpu[start, cuts] + cpu[cuts, stop] - cpu[start, stop]
        if costs.walk is not None:
            cuts = np.append(cuts, start)
            saved = np.append(saved, memory[start, stop])
            added = np.append(added, walk[start, stop] - cpu[start, stop])
        considered += len(cuts)
        if len(cuts) > 0:
            # A move that saves CPU needs no excuse; one that saves no memory is the last resort.
            rate = np.where(added < 0, added, np.divide(added, saved, out=np.full_like(added, HUGE), where=saved > 0))
            best = int(rate.argmin())
            heapq.heappush(moves, (float(rate[best]), start, stop, int(cuts[best])))

    def used() -> float:
        return math.fsum(memory[graphlet] for graphlet, way in graphlets.items() if way == CACHED)

    weigh(0, costs.atoms)
    while moves and (moves[0][0] < 0 or used() > limit):
        _, start, stop, cut = heapq.heappop(moves)
        if cut == start:
            graphlets[start, stop] = WALKED
            continue
        del graphlets[start, stop]
        for part in ((start, cut), (cut, stop)):
            graphlets[part] = CACHED
            weigh(*part)
    if used() > limit:
        return attrs.evolve(_uncached(costs, considered), optimal=False)
    plan = [_Graphlet(way, start, stop) for (start, stop), way in sorted(graphlets.items())]
    return _plan(costs, plan, considered, optimal=False)


def branch_and_bound(costs: Costs, limit: float, budget: int = BUDGET) -> Plan:
    """The best plan, found by looking only at partial plans that can still become it.

    Parameters
    ----------
    costs : Costs
    limit : float
        Bytes that the cached partial trends may take.
    budget : int
        Partial plans to look at, at most. Then the search goes on with a sample of `WIDTH` of them per place, and the
        plan that it finds is not marked as optimal.

    Returns
    -------
    Plan
        ``considered`` counts partial plans.

    Notes
    -----
    Three principles prune the search. *Infeasible level*: no plan of so few graphlets fits the limit, not even if it
    were perfectly balanced. *Unbalanced node*: a graphlet that, with the least memory that the rest needs, breaks the
    limit. *Inefficient branch*: its CPU, with the least that the rest needs, is not below that of a plan already known.

    Plans that are nearly balanced come first and supply that known plan: they are the cheapest where each byte has a
    price. The price at which the cheapest plan just fits also makes the third principle sharper, because a plan that
    fits the limit costs at least its priced CPU less the price of the whole limit (Lagrange relaxation; Handler and
    Zang, *Networks* 10, 1980). Of the partial plans from a place to the end, all those are left out that another one
    undercuts in memory and in CPU.

    The search begins at the last atom: paths multiply from atom to atom, so that the last cuts decide most.

    Examples
    --------
    >>> plan = branch_and_bound(worst_case_costs([3] * 8), 1000)
    >>> plan.graphlets, plan.cached, plan.memory
    (((0, 3), (3, 5), (5, 8)), (False, True, True), 396)
    >>> plan.considered, plan.optimal
    (8, True)
    """
    limit = _checked(limit)
    choices = _choices(costs, limit)
    choices = choices.without(choices.memory, limit)
    if np.isinf(choices.memory).all():
        return _uncached(costs, 0)
    gap, again = math.inf, True
    while again:
        # Each round leaves fewer graphlets, for which another price tells more.
        known = _nearly_balanced(choices, limit)
        choices = choices.without(choices.priced(known.price), known.most_priced(limit))
        choices = choices.without(choices.memory, limit)
        again = 1 <= known.gap < gap / 2 and np.isfinite(choices.memory).sum() > DENSE * costs.atoms
        gap = known.gap
    search = _Search(choices, limit, known)
    best = search.run(budget)
    if best is not None:
        return _plan(costs, best, search.considered, optimal=True)
    best = search.run(math.inf, WIDTH) or known.path.graphlets
    return _plan(costs, best, search.considered, optimal=False)


OPTIMIZERS: dict[str, Callable[[Costs, float], Plan]] = {
    "exhaustive": exhaustive,
    "branch-and-bound": branch_and_bound,
    "greedy": greedy,
}


def optimize(costs: Costs, limit: float, method: str = "branch-and-bound") -> Plan:
    """A plan of low CPU cost whose cached partial trends take at most ``limit`` bytes.

    Parameters
    ----------
    costs : Costs
    limit : float
        Bytes; infinite for no limit.
    method : {"branch-and-bound", "exhaustive", "greedy"}

    Returns
    -------
    Plan

    Raises
    ------
    InvalidNode
        If there is no such method, or the limit is not a number of bytes.

    Examples
    --------
    >>> costs = worst_case_costs([3] * 8)
    >>> for limit in (0, 1000, 10**6):
    ...     plan = optimize(costs, limit)
    ...     print(plan.algorithm, plan.graphlets, plan.memory, plan.cpu)
    m-cet ((0, 8),) 0 62328.0
    h-cet ((0, 3), (3, 5), (5, 8)) 396 59430.0
    t-cet ((0, 8),) 209952 52488.0
    """
    if method not in OPTIMIZERS:
        raise InvalidNode(f"no optimizer {method!r}", hint=nearest(method, OPTIMIZERS, f"use {', '.join(OPTIMIZERS)}"))
    return OPTIMIZERS[method](costs, limit)


# The parts of branch and bound -----------------------------------------------------------------------------------


class _Known(NamedTuple):
    """A plan within the limit, and what is known of better ones.

    Attributes
    ----------
    path : _Path
    price : float
        Of a byte.
    gap : float
        No plan within the limit has less CPU than this one has, less the gap.
    """

    path: _Path
    price: float
    gap: float

    @property
    def most_cpu(self) -> float:
        """What a plan that is as good costs at most."""
        return self.path.cpu * (1 + ROUNDING)

    def most_priced(self, limit: float) -> float:
        """What a plan that is as good and fits the limit costs at most, with all its bytes paid for."""
        return (self.path.cpu + self.price * limit) * (1 + ROUNDING) if self.price else self.most_cpu


def _nearly_balanced(choices: _Choices, limit: float) -> _Known:
    """A good plan within the limit: the cheapest, or as cheap as one that exceeds it, where each byte has a price.

    The plans that are the cheapest at some price are the corners of a convex line, from the least CPU, which takes too
    much memory, to the least memory. The two corners next to the limit are found by asking for what lies below the
    straight line between two plans on either side of it.
    """
    above = _cheapest(choices, choices.cpu)
    if above.memory <= limit:
        return _Known(above, 0.0, 0.0)
    within = _cheapest(choices, choices.memory)
    while True:
        price = max(within.cpu - above.cpu, 0.0) / (above.memory - within.memory)
        between = _cheapest(choices, choices.priced(price))
        lowest = between.cpu + price * between.memory
        if lowest >= (within.cpu + price * within.memory) * (1 - ROUNDING):
            return _Known(within, price, within.cpu - (lowest - price * limit))
        if between.memory <= limit:
            within = between
        else:
            above = between


def _lowest_level(memory: Floats, limit: float) -> int:
    """Levels below this one, that is, plans of fewer graphlets, are infeasible.

    g graphlets of m atoms need at least as much memory as if they all had the same length m / g, and if every length
    needed the least that the convex hull of all graphlets of all lengths allows. This bound falls with g.

    Parameters
    ----------
    memory : float64 array, shape (m, m + 1)

    Examples
    --------
    >>> memory = worst_case_costs([3] * 8).memory
    >>> _lowest_level(memory, 2592), _lowest_level(memory, 2591)  # two graphlets of 1296 bytes each
    (2, 3)
    """
    atoms = len(memory)
    hull = [(0, 0.0)]
    for length in range(1, atoms + 1):
        least = float(np.diagonal(memory, length).min())
        if math.isinf(least):
            continue
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) >= _slope(hull[-1], (length, least)):
            hull.pop()
        hull.append((length, least))
    lengths, leasts = zip(*hull)

    def feasible(graphlets: int) -> bool:
        each = atoms / graphlets
        return each <= lengths[-1] and graphlets * float(np.interp(each, lengths, leasts)) * (1 - ROUNDING) <= limit

    return 1 + bisect_left(range(1, atoms + 1), True, key=feasible)


def _slope(left: tuple[int, float], right: tuple[int, float]) -> float:
    return (right[1] - left[1]) / (right[0] - left[0])


class _Partial(NamedTuple):
    """Plans for the last atoms, one per entry.

    Attributes
    ----------
    start : int64 array
        The first of those atoms.
    memory, cpu : float64 arrays
    graphlets : int64 array
    way, rest : int64 arrays
        How the first graphlet is gone through, and the partial plan for what comes after it.
    """

    start: Ints
    memory: Floats
    cpu: Floats
    graphlets: Ints
    way: Ints
    rest: Ints

    def pick(self, chosen: Ints | NDArray[np.bool_]) -> _Partial:
        return _Partial._make(array[chosen] for array in self)

    def join(self, other: _Partial) -> _Partial:
        return _Partial._make(np.concatenate(pair) for pair in zip(self, other))


class _Search:
    """The node search: partial plans grow from the last atom to the first.

    Attributes
    ----------
    considered : int
        Partial plans looked at so far.
    """

    def __init__(self, choices: _Choices, limit: float, known: _Known) -> None:
        self.choices = choices
        self.limit = limit
        self.price = known.price
        self.most_cpu = known.most_cpu
        self.most_priced = known.most_priced(limit)
        self.level = _lowest_level(choices.memory.min(axis=0), limit)
        self.least_memory = _least(choices.memory)[0]
        self.least_priced = _least(choices.priced(known.price))[0]
        self.least_cpu = self._least_cpu()
        self.considered = 0

    def _least_cpu(self) -> Floats:
        """Row g: the least CPU of the atoms before each place in at least g graphlets."""
        cpu = self.choices.cpu.min(axis=0)
        rows = [_least(self.choices.cpu)[0]]
        while len(rows) < self.level:
            rows.append((rows[-1][:-1, None] + cpu).min(axis=0))
        return np.array(rows)

    def run(self, budget: float, width: int | None = None) -> list[_Graphlet] | None:
        """The best plan, or None if there is none or finding it takes more than the budget.

        With a ``width``, only so many partial plans per place are followed.
        """
        atoms = len(self.least_memory) - 1
        none = np.zeros(1, dtype=np.int64)
        known = _Partial(none + atoms, np.zeros(1), np.zeros(1), none, none, none)
        for start in range(atoms - 1, -1, -1):
            way, rest = np.nonzero(np.isfinite(self.choices.memory[:, start, known.start]))
            if len(rest) == 0:
                continue
            if self.considered + len(rest) > budget:
                return None
            self.considered += len(rest)
            longer = self._extend(known.pick(rest), start, way, rest)
            longer = longer.pick(_not_undercut(longer))
            if width is not None and len(longer.start) > width:
                longer = longer.pick(self._sample(longer, width))
            known = known.join(longer)
        whole = np.flatnonzero(known.start == 0)
        if len(whole) == 0:
            return None
        best = whole[np.lexsort((known.memory[whole], known.graphlets[whole], known.cpu[whole]))[0]]
        graphlets = []
        while known.start[best] < atoms:
            after = known.rest[best]
            graphlets.append(_Graphlet(int(known.way[best]), int(known.start[best]), int(known.start[after])))
            best = after
        return graphlets

    def _sample(self, partial: _Partial, width: int) -> Ints:
        """Half of them the cheapest at the known price, the other half evenly spread from small to large."""
        cheapest = np.argsort(partial.cpu + self.price * partial.memory, kind="stable")[: width // 2]
        spread = np.linspace(0, len(partial.start) - 1, width - width // 2).astype(np.int64)
        return np.union1d(cheapest, spread)

    def _extend(self, partial: _Partial, start: int, way: Ints, rest: Ints) -> _Partial:
        """The partial plans with one more graphlet each, without unbalanced nodes and inefficient branches."""
        memory = partial.memory + self.choices.memory[way, start, partial.start]
        cpu = partial.cpu + self.choices.cpu[way, start, partial.start]
        graphlets = partial.graphlets + 1
        missing = np.maximum(self.level - graphlets, 0)
        alive = (
            (memory + self.least_memory[start] <= self.limit)
            & (cpu + self.least_cpu[missing, start] <= self.most_cpu)
            & (cpu + self.price * memory + self.least_priced[start] <= self.most_priced)
        )
        return _Partial(np.full_like(rest, start), memory, cpu, graphlets, way, rest).pick(alive)


def _not_undercut(partial: _Partial) -> Ints:
    """Those to which no other is at most as large, and cheaper or as cheap in fewer graphlets; by rising memory."""
    rank = np.empty(len(partial.start), dtype=np.int64)
    rank[np.lexsort((partial.memory, partial.graphlets, partial.cpu))] = np.arange(len(rank))
    order = np.lexsort((rank, partial.memory))
    undercut = rank[order] > np.minimum.accumulate(rank[order])
    return order[~undercut]


# Amounts of memory -----------------------------------------------------------------------------------------------

_UNITS = {unit: 1024**power for power, unit in enumerate(["", "k", "m", "g", "t", "p"])}
_AMOUNT = re.compile(r"\s*(\d+)\s*([kmgtp]?)(?:i?b)?\s*", re.IGNORECASE | re.ASCII)


def parse_memory(amount: str | int) -> int:
    """A number of bytes.

    Parameters
    ----------
    amount : str or int
        As in Spark's settings, ``"512m"``, ``"1g"``, ``"64k"``, with units of 1024; or a whole number of bytes.

    Returns
    -------
    int

    Raises
    ------
    InvalidNode
        If it is no amount of memory, or none at all.

    Examples
    --------
    >>> parse_memory("64k"), parse_memory("1 GB"), parse_memory(1_000_000)
    (65536, 1073741824, 1000000)
    """
    hint = "write '512m', '1g', '64k', or a whole number of bytes"
    if isinstance(amount, str) and (match := _AMOUNT.fullmatch(amount)):
        number, unit = match.groups()
        size: int = int(number) * _UNITS[unit.lower()]
    elif isinstance(amount, (int, np.integer)) and not isinstance(amount, bool):
        size = int(amount)
    else:
        raise InvalidNode(f"{amount!r} is not an amount of memory", hint=hint)
    if size <= 0:
        raise InvalidNode(f"an amount of memory must be positive, not {amount!r}", hint=hint)
    return size
