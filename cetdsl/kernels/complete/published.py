"""The published optimizers of h-cet, and the published cost model.

They are those of Poppe et al., *Complete Event Trend Detection in High-Rate Event Streams*, SIGMOD 2017: exhaustive
search, branch and bound (Algorithm 2) and greedy search (section 6.2). All of them cache every graphlet. A plan's
*level* is the number of its graphlets. The plans of a level that are *nearly balanced* (Definition 8) are held to be
better than all others of it; that is proved for the published cost model only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import attrs
import numpy as np
import numpy.typing as npt

from cetdsl.kernels.complete.cut_plan import (
    CACHED,
    WALKED,
    Costs,
    CutPlan,
    Graphlet,
    choices_of,
    lowest_level,
    make_plan,
    uncached_plan,
)
from cetdsl.kernels.vocabulary import Bools, Floats, Ints

#: Exhaustive search looks at no more plans than this.
MOST_PLANS = 2**24
#: Plans that the published branch and bound looks at before it gives up the search.
MOST_NODES = 2**17


def worst_case_costs(sizes: Sequence[int] | npt.NDArray[np.int64], ref_bytes: int = 4) -> Costs:
    """Returns the costs of a graph of which only the vertices are known.

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
    If the whole graph has N' vertices, N of them up to the end of a graphlet of n vertices, the graphlet takes

    - if cached: n/3 * 3^(n/3) references, and 3^(N/3) visits, one per path that is stitched up to its end;
    - if walked: 3^g visits to the g-th group of the graph, in all 3/2 * (3^(N/3) - 3^((N-n)/3));
    - if it is the last: N'/3 * 3^(N'/3) references of complete trends. One cached graphlet has written them already.

    This is a model, not a bound for every graph. In groups of 2 vertices there are fewer trends but, up to some 20
    vertices, more references. And if trends may skip inner events, and only have to begin and end where they cannot be
    extended, there can be 2^(n-2).
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
    """Returns the best plan, found by looking at all of them: 2^(m-1), or 2 * 3^(m-1) if graphlets may be walked.

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
    return make_plan(costs, best_path, plans, optimal=True) if best_path else uncached_plan(costs, plans, optimal=True)


def published_branch_and_bound(costs: Costs, sizes: Ints, limit: float, most: int = MOST_NODES) -> CutPlan:
    """Returns the best of the nearly balanced plans, without those that add cuts to a plan that fits.

    Parameters
    ----------
    costs : Costs
        Without ``walk``.
    sizes : int64 array, shape (atoms,)
        Vertices of each atom.
    limit : float
        Bytes that the cached partial trends may take.
    most : int
        After so many plans the best one so far is returned, or the greedy one if there is none.

    Returns
    -------
    CutPlan
        ``considered`` counts the plans whose costs were looked at. The plan is not marked as optimal, because with
        exact costs an unbalanced plan may be better.

    Notes
    -----
    The search is that of Algorithm 2, with its three principles. *Infeasible level*: it begins at the lowest level at
    which a perfectly balanced plan would fit. *Unbalanced node*: of each level it looks at nearly balanced plans only.
    *Inefficient branch*: it drops the children of each plan that fits, those with the same cuts and more, and ends with
    a level whose nearly balanced plans are all dropped. A level that has none is passed over.
    """
    considered, least = 0, math.inf
    best: tuple[int, ...] | None = None
    pruned: list[int] = []
    for level in range(lowest_level(costs.memory, limit, sizes), costs.atoms + 1):
        found, alive = 0, 0
        for cuts in nearly_balanced(sizes, level):
            found += 1
            # No plan adds cuts to another one of its level, so their order does not matter.
            if _is_pruned(_bits(cuts), pruned):
                continue
            alive += 1
            if _sum(costs.memory, cuts) <= limit:
                steps = _sum(costs.cpu, cuts)
                if best is None or steps < least:
                    best, least = cuts, steps
                pruned.append(_bits(cuts))
            if found >= most:
                break
        considered += alive
        if (found and not alive) or considered >= most or found >= most:
            break
    if best is None:
        return attrs.evolve(published_greedy(costs, sizes, limit), considered=considered)
    return _cached_plan(costs, best, considered)


def published_greedy(costs: Costs, sizes: Ints, limit: float) -> CutPlan:
    """Returns the first plan that fits, of one nearly balanced plan per level; the arguments are as above.

    The levels come one by one from the lowest one at which a perfectly balanced plan would fit. A graphlet ends where
    its size is next to an equal part of what is left.
    """
    considered = 0
    for level in range(lowest_level(costs.memory, limit, sizes), costs.atoms + 1):
        considered += 1
        cuts = balanced_cuts(sizes, level)
        if _sum(costs.memory, cuts) <= limit:
            return _cached_plan(costs, cuts, considered)
    return uncached_plan(costs, considered, optimal=False)


def nearly_balanced(sizes: Ints, level: int) -> Iterator[tuple[int, ...]]:
    """Yields the cuts of all nearly balanced plans of a level (Definition 8), by rising cuts.

    A graphlet may exceed an equal share of the vertices, but by less than its first atom has, and by less than its last
    one has. The first atom of the first graphlet does not count for this, nor the last atom of the last one.

    Examples
    --------
    >>> list(nearly_balanced(np.array([1, 1, 1, 1, 1]), 2))
    [(2,), (3,)]
    """
    atoms, allowed = len(sizes), _allowed(sizes, level)
    # Whether the atoms from each boundary on can be divided into so many more graphlets.
    ends = np.zeros((level + 1, atoms + 1), dtype=np.bool_)
    ends[0, atoms] = True
    for left in range(1, level + 1):
        ends[left, :-1] = (allowed[_kind(level - left, level)] & ends[left - 1]).any(axis=1)

    def extend(cuts: tuple[int, ...], start: int, left: int) -> Iterator[tuple[int, ...]]:
        if left == 0:
            yield cuts[:-1]
            return
        for stop in np.flatnonzero(allowed[_kind(level - left, level)][start] & ends[left - 1]).tolist():
            yield from extend((*cuts, stop), stop, left - 1)

    if ends[level, 0]:
        yield from extend((), 0, level)


def balanced_cuts(sizes: Ints, level: int) -> tuple[int, ...]:
    """Returns the cuts of one plan of a level, with graphlets of nearly equal sizes.

    From the first on, each graphlet is as near as possible to an equal part of the vertices that are left.

    Examples
    --------
    >>> balanced_cuts(np.array([4, 1, 1, 4, 1, 1]), 2)
    (3,)
    """
    before = np.concatenate([[0], np.cumsum(sizes)])
    cuts: list[int] = []
    start = 0
    for left in range(level, 1, -1):
        stops = np.arange(start + 1, len(sizes) - left + 2)
        equal = (before[-1] - before[start]) / left
        start = int(stops[np.abs(before[stops] - before[start] - equal).argmin()])
        cuts.append(start)
    return tuple(cuts)


def _kind(number: int, level: int) -> int:
    """Returns what a graphlet is: the only one (3), the first (1), the last (2), or none of these (0)."""
    return (number == 0) + 2 * (number == level - 1)


def _allowed(sizes: Ints, level: int) -> Bools:
    """Whether a graphlet of each kind may be made of the atoms ``i`` to ``j - 1``; shape (4, atoms, atoms + 1)."""
    before = np.concatenate([[0], np.cumsum(sizes)])
    share = -(-int(before[-1]) // level)
    inside = before[None, :] - before[:-1, None]
    is_graphlet = np.arange(len(before)) > np.arange(len(sizes))[:, None]
    heeds_first = inside < share + sizes[:, None]
    heeds_last = inside < share + np.concatenate([[0], sizes])[None, :]
    kinds = [heeds_first & heeds_last, heeds_last, heeds_first, np.ones_like(heeds_first)]
    return np.stack([is_graphlet & ((inside <= share) | kind) for kind in kinds])


def _bits(cuts: tuple[int, ...]) -> int:
    return sum(1 << cut for cut in cuts)


def _is_pruned(bits: int, pruned: list[int]) -> bool:
    """Whether a plan has all cuts of one of the plans that fit."""
    return any(known & bits == known for known in pruned)


def _sum(costs: Floats, cuts: tuple[int, ...]) -> float:
    return math.fsum(costs[graphlet] for graphlet in pairwise((0, *cuts, len(costs))))


def _cached_plan(costs: Costs, cuts: tuple[int, ...], considered: int) -> CutPlan:
    graphlets = [Graphlet(CACHED, *bounds) for bounds in pairwise((0, *cuts, costs.atoms))]
    return make_plan(costs, graphlets, considered, optimal=False)
