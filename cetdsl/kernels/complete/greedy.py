"""The greedy optimizer of h-cet finds a cut plan that fits the memory limit, one cut at a time."""

from __future__ import annotations

import heapq
import math

import numpy as np

from cetdsl.kernels.complete.cut_plan import (
    CACHED,
    HUGE,
    WALKED,
    Costs,
    CutPlan,
    Graphlet,
    choices_of,
    make_plan,
    uncached_plan,
)


def greedy(costs: Costs, limit: float) -> CutPlan:
    """Returns a plan within the limit, found move by move.

    A move cuts a graphlet in two, or walks one that was cached. The optimizer starts from one cached graphlet, and
    always makes the move that costs the least CPU per byte that it saves. It stops when the plan fits the limit and no
    single move saves CPU. ``considered`` counts the cuts that were weighed; the plan is never marked as optimal.
    """
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
            # Moves that save CPU come first; those that cost CPU and save no memory come last.
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
        return uncached_plan(costs, considered, optimal=False)
    plan = [Graphlet(way, start, stop) for (start, stop), way in sorted(graphlets.items())]
    return make_plan(costs, plan, considered, optimal=False)
