"""Where to cut a graph into graphlets, and which of them to cache: the optimizer of h-cet.

A graph is a row of *atoms* (atomic graphlets, 0 to m - 1 in time), which cannot be cut. A plan cuts it between some of
them. Each *graphlet*, the atoms between two cuts, is either *cached*: its partial trends are kept in memory and
stitched, or *walked*: its vertices are visited depth first, again for every path that reaches it, and nothing is kept.
One cached graphlet is t-cet, one walked graphlet is m-cet, and all that lies between them is h-cet.

A plan is a path over the m + 1 boundaries of atoms, and a graphlet is an arc of it with two costs that add up: memory,
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
from collections.abc import Callable

import attrs
import numpy as np

from cetdsl.errors import InvalidNode, nearest
from cetdsl.kernels.complete.branch_and_bound import branch_and_bound
from cetdsl.kernels.complete.costs import Costs
from cetdsl.kernels.complete.cut_plan import (
    CACHED,
    HUGE,
    WALKED,
    CutPlan,
    Graphlet,
    checked_limit,
    choices_of,
    make_plan,
    uncached_plan,
)

#: Exhaustive search looks at no more plans than this.
MOST_PLANS = 2**24


def exhaustive(costs: Costs, limit: float) -> CutPlan:
    """The best plan, found by looking at all of them: 2^(m-1), or 2 * 3^(m-1) if graphlets may be walked.

    Parameters
    ----------
    costs : Costs
    limit : float
        Bytes that the cached partial trends may take.

    Returns
    -------
    CutPlan
        ``considered`` counts whole plans.

    Raises
    ------
    InvalidNode
        If there are more than `MOST_PLANS` plans.

    Examples
    --------
    >>> from cetdsl.kernels.complete.costs import worst_case_costs
    >>> exhaustive(worst_case_costs([3] * 8), 1000).considered
    4374
    """
    limit = checked_limit(limit)
    atoms = costs.atoms
    ways = (CACHED,) if costs.walk is None else (CACHED, WALKED)
    plans = len(ways) * (len(ways) + 1) ** (atoms - 1)
    if plans > MOST_PLANS:
        hint = "use method='branch-and-bound', which finds a plan as good"
        raise InvalidNode(f"{atoms} atomic graphlets have {plans:.3g} plans, too many to look at all", hint=hint)
    choices = choices_of(costs, limit)
    following = [
        [
            (graphlet, float(choices.memory[graphlet]), float(choices.cpu[graphlet]))
            for stop in range(start + 1, atoms + 1)
            for graphlet in [Graphlet(way, start, stop) for way in ways]
        ]
        for start in range(atoms)
    ]
    path: list[Graphlet] = []
    best = (math.inf, 0, 0.0)
    best_path: list[Graphlet] = []

    def extend(boundary: int, memory: float, cpu: float) -> None:
        nonlocal best, best_path
        if boundary == atoms:
            if memory <= limit and (cpu, len(path), memory) < best:
                best, best_path = (cpu, len(path), memory), path.copy()
            return
        for graphlet, more_memory, more_cpu in following[boundary]:
            path.append(graphlet)
            extend(graphlet.stop, memory + more_memory, cpu + more_cpu)
            path.pop()

    extend(0, 0.0, 0.0)
    return make_plan(costs, best_path, plans, optimal=True) if best_path else uncached_plan(costs, plans)


def greedy(costs: Costs, limit: float) -> CutPlan:
    """A plan within the limit, found by cutting or no longer caching where that costs the least CPU per byte saved.

    It begins with one cached graphlet and ends when the plan fits the limit and no single move saves CPU.

    Parameters
    ----------
    costs : Costs
    limit : float
        Bytes that the cached partial trends may take.

    Returns
    -------
    CutPlan
        ``considered`` counts cuts that were weighed. Never marked as optimal.

    Examples
    --------
    >>> from cetdsl.kernels.complete.costs import worst_case_costs
    >>> plan = greedy(worst_case_costs([3] * 8), 1000)
    >>> plan.graphlets, plan.cached, plan.memory
    (((0, 5), (5, 8)), (False, True), 324)
    """
    limit = checked_limit(limit)
    choices = choices_of(costs, limit)
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
        return attrs.evolve(uncached_plan(costs, considered), optimal=False)
    plan = [Graphlet(way, start, stop) for (start, stop), way in sorted(graphlets.items())]
    return make_plan(costs, plan, considered, optimal=False)


OPTIMIZERS: dict[str, Callable[[Costs, float], CutPlan]] = {
    "exhaustive": exhaustive,
    "branch-and-bound": branch_and_bound,
    "greedy": greedy,
}


def optimize(costs: Costs, limit: float, method: str = "branch-and-bound") -> CutPlan:
    """A plan of low CPU cost whose cached partial trends take at most ``limit`` bytes.

    Parameters
    ----------
    costs : Costs
    limit : float
        Bytes; infinite for no limit.
    method : {"branch-and-bound", "exhaustive", "greedy"}

    Returns
    -------
    CutPlan

    Raises
    ------
    InvalidNode
        If there is no such method, or the limit is not a number of bytes.

    Examples
    --------
    >>> from cetdsl.kernels.complete.costs import worst_case_costs
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
