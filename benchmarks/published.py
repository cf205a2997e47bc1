"""What the optimizer of h-cet is measured against: the published cost model, and a search that looks at every plan.

Both are those of Poppe et al., *Complete Event Trend Detection in High-Rate Event Streams*, SIGMOD 2017.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from cetdsl.kernels.complete.cut_plan import (
    CACHED,
    WALKED,
    Costs,
    CutPlan,
    Graphlet,
    choices_of,
    make_plan,
    uncached_plan,
)

#: Exhaustive search looks at no more plans than this.
MOST_PLANS = 2**24


def worst_case_costs(sizes: Sequence[int] | npt.NDArray[np.int64], ref_bytes: int = 4) -> Costs:
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
    ValueError
        If there are more than `MOST_PLANS` plans.
    """
    atoms = costs.atoms
    ways = (CACHED,) if costs.walk is None else (CACHED, WALKED)
    plans = len(ways) * (len(ways) + 1) ** (atoms - 1)
    if plans > MOST_PLANS:
        raise ValueError(f"{atoms} atomic graphlets have {plans:.3g} plans, too many to look at all")
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
