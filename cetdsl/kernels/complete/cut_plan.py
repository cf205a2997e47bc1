"""Cut plans: where to cut a graph into graphlets, and which of these to cache. The optimizers of h-cet choose one.

A graph is a row of *atoms* (atomic graphlets, 0 to m - 1 in time), which cannot be cut. A plan cuts it between some of
them. Each *graphlet*, the atoms between two cuts, is either *cached*: its partial trends are kept in memory and
stitched, or *walked*: its vertices are visited depth first, again for every path that reaches it, and nothing is kept.
A plan of one cached graphlet is the algorithm t-cet, a plan of walked graphlets only is m-cet, and all others are
h-cet.

A plan is a path over the m + 1 boundaries of atoms, and a graphlet is an arc of it with two costs that add up: memory,
which is limited, and CPU, which is to be least. That is a shortest path with one limited resource (Poppe et al.,
*Complete Event Trend Detection in High-Rate Event Streams*, SIGMOD 2017). The best plan has the least CPU of all that
fit the limit, then the fewest cuts, then the least memory. Branch and bound finds it unless it has looked at too many
partial plans; the greedy optimizer chooses one cut at a time, and its plan is often good.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import attrs
import numpy as np

from cetdsl.kernels.vocabulary import Bools, Floats, Ints

#: The two ways to go through a graphlet; first axis of the arrays of `Choices`.
CACHED, WALKED = 0, 1

#: CPU is rounded to this many binary digits of the least CPU that any plan could need. In further digits millions of
#: plans differ, but by too little to matter.
DIGITS = 40
#: Stands for all larger costs; sums and products of two such numbers are still in the range of doubles.
HUGE = 1e150
#: Relative error of a sum of doubles that was taken in another order.
ROUNDING = 1e-12


class Costs(NamedTuple):
    """The costs of graphlets: entry ``[i, j]`` is of atoms ``i`` to ``j - 1``; those with ``j <= i`` are not read.

    ``memory`` is the bytes of a graphlet's partial trends. These are whole numbers, so that their sums are exact in any
    order, or infinite where there are too many partial trends to count. ``cpu`` is the steps if the graphlet is cached,
    ``walk`` the steps if it is walked; without ``walk`` every graphlet is cached, or, where that does not fit, none.

    The steps of a plan are the sum over its graphlets: the references that it writes into the cache or as complete
    trends, and the vertices or cached partial trends that it visits. The entries of graphlets that end with the last
    atom include the references of the complete trends. ``cpu[0, m]`` does not, because there the cached trends are the
    complete ones; so t-cet is the best plan where memory is ample. Only proportions matter: where counts would leave
    the range of doubles, all of them may be divided by the same number.
    """

    memory: Floats
    cpu: Floats
    walk: Floats | None = None

    @property
    def atoms(self) -> int:
        """The number of atomic graphlets, m."""
        return len(self.memory)


@attrs.frozen
class CutPlan:
    """Graphlets of ``atoms`` atoms, and their predicted costs.

    A cut ``c`` lies between atoms ``c - 1`` and ``c``; ``cached`` says which graphlets are cached, the others are
    walked. ``memory`` is the bytes of all cached partial trends, and ``cpu`` the steps (see :class:`Costs`), infinite
    where there are too many to count, or where no costs of walks are known. ``considered`` is the number of plans,
    partial plans or cuts that the optimizer looked at. If the plan is ``optimal``, no plan within the limit needs less
    CPU (to `DIGITS` binary digits).

    Examples
    --------
    >>> plan = CutPlan(5, cuts=(2, 3), cached=(True, False, True), memory=640, cpu=99.0, considered=7, optimal=True)
    >>> plan.graphlets
    ((0, 2), (2, 3), (3, 5))
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
        """The first atom of each graphlet, and the one after its last."""
        return tuple(pairwise((0, *self.cuts, self.atoms)))


def algorithm_of(cached: Sequence[bool] | Bools) -> str:
    """Returns the published algorithm that a plan amounts to; ``cached`` marks the graphlets that are cached."""
    if len(cached) == 1 and cached[0]:
        return "t-cet"
    return "h-cet" if any(cached) else "m-cet"


class Graphlet(NamedTuple):
    """A graphlet and the way to go through it; an index into the arrays of `Choices`."""

    way: int
    start: int
    stop: int


class Choices(NamedTuple):
    """The graphlets that a plan may be made of.

    Both arrays have the shape (2, m, m + 1), and are infinite where there is no such graphlet.
    """

    memory: Floats
    cpu: Floats

    def priced(self, price: float) -> Floats:
        """Returns the CPU of each graphlet plus the price of its bytes."""
        return self.cpu + price * self.memory if price else self.cpu

    def without(self, weights: Floats, most: float) -> Choices:
        """Returns these choices without the graphlets that only plans of a weight above ``most`` can contain."""
        dropped = least_before(weights)[:-1, None] + weights + _least_after(weights) > most
        return Choices(np.where(dropped, np.inf, self.memory), np.where(dropped, np.inf, self.cpu))


class Path(NamedTuple):
    """A whole plan: its graphlets in time order, and the sums of their bytes and of their CPU."""

    graphlets: list[Graphlet]
    memory: float
    cpu: float


def choices_of(costs: Costs, limit: float) -> Choices:
    """Makes all graphlets; the unit of their CPU is the last of the `DIGITS` digits of the least CPU of any plan."""
    walk = np.full_like(costs.cpu, np.inf) if costs.walk is None else costs.walk
    memory = np.stack([costs.memory, np.zeros_like(walk)])
    cpu = np.stack([costs.cpu, walk])
    is_graphlet = np.arange(costs.atoms + 1) > np.arange(costs.atoms)[:, None]
    absent = np.broadcast_to(~is_graphlet, cpu.shape).copy()
    absent[WALKED] |= costs.walk is None
    least = least_before(np.where(absent | (memory > limit), np.inf, cpu))[-1]
    if 0 < least < np.inf:
        with np.errstate(over="ignore"):
            cpu = np.rint(np.ldexp(cpu, DIGITS - math.frexp(least)[1]))
    return Choices(np.where(absent, np.inf, memory), np.where(absent, np.inf, np.minimum(cpu, HUGE)))


def least_before(weights: Floats) -> Floats:
    """Returns the least weight of graphlets for all atoms before each boundary; infinite where no plan cuts there."""
    weights = weights.min(axis=0)
    before = np.zeros(len(weights) + 1)
    for there in range(1, len(before)):
        before[there] = (before[:there] + weights[:there, there]).min()
    return before


def _least_after(weights: Floats) -> Floats:
    """Returns the least weight of graphlets for all atoms after each boundary."""
    weights = weights.min(axis=0)
    after = np.zeros(len(weights) + 1)
    for back in range(len(weights) - 1, -1, -1):
        after[back] = (weights[back, back + 1 :] + after[back + 1 :]).min()
    return after


def cheapest(choices: Choices, weights: Floats) -> Path:
    """Returns the plan of least weight."""
    before = least_before(weights)
    way, weights = weights.argmin(axis=0), weights.min(axis=0)
    graphlets: list[Graphlet] = []
    stop = len(weights)
    while stop > 0:
        start = int((before[:stop] + weights[:stop, stop]).argmin())
        graphlets.insert(0, Graphlet(int(way[start, stop]), start, stop))
        stop = start
    return Path(graphlets, *(sum(float(costs[graphlet]) for graphlet in graphlets) for costs in choices))


def lowest_level(memory: Floats, limit: float, sizes: Ints | None = None) -> int:
    """Returns the level below which no plan is feasible; a plan's level is the number of its graphlets.

    ``sizes`` are those of the atoms (by default each has the size 1), n in all. The least memory of a graphlet of each
    size has a convex lower hull. So g graphlets need at least g times the hull's value at the size n / g, as if they
    were perfectly balanced. This bound falls with g.
    """
    atoms = len(memory)
    before = np.concatenate([[0], np.cumsum(np.ones(atoms, dtype=np.int64) if sizes is None else sizes)])
    hull = [(0, 0.0)]
    for size, least in _least_by_size(memory, before):
        while len(hull) > 1:
            (first, low), (middle, between) = hull[-2:]
            if (between - low) / (middle - first) < (least - between) / (size - middle):
                break
            hull.pop()
        hull.append((size, least))
    known, leasts = zip(*hull)

    def feasible(graphlets: int) -> bool:
        each = before[-1] / graphlets
        return each <= known[-1] and graphlets * float(np.interp(each, known, leasts)) * (1 - ROUNDING) <= limit

    return 1 + bisect_left(range(1, atoms + 1), True, key=feasible)


def _least_by_size(memory: Floats, before: Ints) -> list[tuple[int, float]]:
    """Returns the sizes that graphlets have, rising, with the least memory of a graphlet of each size."""
    first, last = np.nonzero(np.isfinite(memory) & (np.arange(len(before)) > np.arange(len(memory))[:, None]))
    sizes, inverse = np.unique(before[last] - before[first], return_inverse=True)
    least = np.full(len(sizes), np.inf)
    np.minimum.at(least, inverse, memory[first, last])
    return [(size, value) for size, value in zip(sizes.tolist(), least.tolist()) if size > 0]


def make_plan(costs: Costs, graphlets: Iterable[Graphlet], considered: int, optimal: bool) -> CutPlan:
    """Makes the plan of these graphlets; neighbouring graphlets that are walked become one."""
    merged: list[Graphlet] = []
    for graphlet in graphlets:
        if merged and merged[-1].way == graphlet.way == WALKED:
            # The visits of two walks add up to those of one over both; only the digits that were dropped may differ.
            joint = merged[-1]._replace(stop=graphlet.stop)
            if _cpu(costs, joint) <= (_cpu(costs, merged[-1]) + _cpu(costs, graphlet)) * (1 + ROUNDING):
                merged[-1] = joint
                continue
        merged.append(graphlet)
    return CutPlan(
        atoms=costs.atoms,
        cuts=tuple(graphlet.start for graphlet in merged[1:]),
        cached=tuple(graphlet.way == CACHED for graphlet in merged),
        memory=sum(int(costs.memory[start, stop]) for way, start, stop in merged if way == CACHED),
        cpu=sum(_cpu(costs, graphlet) for graphlet in merged),
        considered=considered,
        optimal=optimal,
    )


def _cpu(costs: Costs, graphlet: Graphlet) -> float:
    steps = costs.cpu if graphlet.way == CACHED else costs.walk
    return math.inf if steps is None else float(steps[graphlet.start, graphlet.stop])


def uncached_plan(costs: Costs, considered: int, *, optimal: bool) -> CutPlan:
    """Makes the plan that caches nothing; ``optimal`` says whether it is known that no other plan fits the memory."""
    return make_plan(costs, [Graphlet(WALKED, 0, costs.atoms)], considered, optimal=optimal)
