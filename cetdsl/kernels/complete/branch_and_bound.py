"""Branch and bound finds the best cut plan by looking only at partial plans that can still become it."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cetdsl.kernels.complete.cut_plan import (
    ROUNDING,
    Choices,
    Costs,
    CutPlan,
    Graphlet,
    Path,
    cheapest,
    choices_of,
    least_before,
    lowest_level,
    make_plan,
    uncached_plan,
)
from cetdsl.kernels.vocabulary import Floats, Ints

#: The number of partial plans after which branch and bound gives up on proving its plan the best.
BUDGET = 2_000_000
#: The number of partial plans per boundary between atoms that it goes on with after that.
WIDTH = 64
#: The number of graphlets per atom from which on another round of pruning before the search is worth its time.
DENSE = 16


def branch_and_bound(costs: Costs, limit: float, budget: int = BUDGET) -> CutPlan:
    """Returns the best plan, found by looking only at partial plans that can still become it.

    After ``budget`` partial plans the search goes on with a sample of `WIDTH` per boundary, and the plan that it finds
    is not marked as optimal. The plan's ``considered`` counts the partial plans.

    Notes
    -----
    Three principles prune the search. *Infeasible level*: no plan of so few graphlets fits the limit, not even if it
    were perfectly balanced. *Unbalanced node*: a graphlet, together with the least memory that the rest needs, exceeds
    the limit. *Inefficient branch*: a graphlet's CPU, together with the least that the rest needs, is not below that of
    a plan that is known.

    To find a known plan, the search first looks at plans that are nearly balanced: those that are the cheapest if each
    byte has a price, which is added to the CPU. The price at which the cheapest plan just fits the limit also sharpens
    the third principle: a plan that fits the limit costs at least its priced CPU less the price of the whole limit
    (Lagrange relaxation; Handler and Zang, *Networks* 10, 1980). Of the partial plans from a boundary to the end, the
    search drops each one that another one undercuts both in memory and in CPU.

    The search begins at the last atom: paths multiply from atom to atom, so that the last cuts decide most.
    """
    choices = choices_of(costs, limit)
    choices = choices.without(choices.memory, limit)
    if np.isinf(choices.memory).all():
        return uncached_plan(costs, 0, optimal=True)
    gap, again = math.inf, True
    while again:
        # Each round leaves fewer graphlets, among which another price excludes more.
        known = _nearly_balanced(choices, limit)
        choices = choices.without(choices.priced(known.price), known.most_priced(limit))
        choices = choices.without(choices.memory, limit)
        again = 1 <= known.gap < gap / 2 and np.isfinite(choices.memory).sum() > DENSE * costs.atoms
        gap = known.gap
    search = _Search(choices, limit, known)
    best = search.best(budget)
    if best is not None:
        return make_plan(costs, best, search.considered, optimal=True)
    best = search.best(math.inf, WIDTH) or known.path.graphlets
    return make_plan(costs, best, search.considered, optimal=False)


class _Known(NamedTuple):
    """A plan within the limit, and bounds on better ones.

    ``price`` is the CPU, in units of `Choices`, that a byte costs. Each plan within the limit has at least the CPU of
    this one minus the ``gap``.
    """

    path: Path
    price: float
    gap: float

    @property
    def most_cpu(self) -> float:
        """Returns the most CPU that a plan as good as this one can have."""
        return self.path.cpu * (1 + ROUNDING)

    def most_priced(self, limit: float) -> float:
        """Returns the most CPU, plus price of bytes, of a plan within the limit that is as good as this one."""
        return (self.path.cpu + self.price * limit) * (1 + ROUNDING) if self.price else self.most_cpu


def _nearly_balanced(choices: Choices, limit: float) -> _Known:
    """Finds a good plan within the limit: the cheapest plan if each byte had a price.

    Plotted by memory and CPU, the plans that are the cheapest at some price are the corners of a convex line, from the
    plan of least CPU, which takes too much memory, to the plan of least memory. Two plans on either side of the limit
    are moved along this line: the slope of the straight line between them is the next price, and the cheapest plan at
    this price replaces one of them, until none lies below the straight line.
    """
    above = cheapest(choices, choices.cpu)
    if above.memory <= limit:
        return _Known(above, 0.0, 0.0)
    within = cheapest(choices, choices.memory)
    while True:
        price = max(within.cpu - above.cpu, 0.0) / (above.memory - within.memory)
        between = cheapest(choices, choices.priced(price))
        lowest = between.cpu + price * between.memory
        if lowest >= (within.cpu + price * within.memory) * (1 - ROUNDING):
            return _Known(within, price, within.cpu - (lowest - price * limit))
        if between.memory <= limit:
            within = between
        else:
            above = between


class _Partial(NamedTuple):
    """Plans for the last atoms, one per entry.

    ``start`` is the first of those atoms, ``way`` says whether the first graphlet is cached or walked, and ``rest`` is
    the partial plan for what comes after it.
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

    ``considered`` counts the partial plans looked at so far.
    """

    def __init__(self, choices: Choices, limit: float, known: _Known) -> None:
        self.choices = choices
        self.limit = limit
        self.price = known.price
        self.most_cpu = known.most_cpu
        self.most_priced = known.most_priced(limit)
        self.level = lowest_level(choices.memory.min(axis=0), limit)
        self.least_memory = least_before(choices.memory)
        self.least_priced = least_before(choices.priced(known.price))
        self.least_cpu = self._least_cpu()
        self.considered = 0

    def _least_cpu(self) -> Floats:
        """Returns the least CPU of the atoms before each boundary (column) in at least g graphlets (row g)."""
        cpu = self.choices.cpu.min(axis=0)
        rows = [least_before(self.choices.cpu)]
        while len(rows) < self.level:
            rows.append((rows[-1][:-1, None] + cpu).min(axis=0))
        return np.array(rows)

    def best(self, budget: float, width: int | None = None) -> list[Graphlet] | None:
        """Returns the best plan, or None if there is none or finding it takes more than the budget.

        With a ``width``, only so many partial plans per boundary are followed.
        """
        atoms = len(self.least_memory) - 1
        none = np.zeros(1, dtype=np.int64)
        partial = _Partial(none + atoms, np.zeros(1), np.zeros(1), none, none, none)
        for start in range(atoms - 1, -1, -1):
            way, rest = np.nonzero(np.isfinite(self.choices.memory[:, start, partial.start]))
            if len(rest) == 0:
                continue
            if self.considered + len(rest) > budget:
                return None
            self.considered += len(rest)
            longer = self._extend(partial.pick(rest), start, way, rest)
            longer = longer.pick(_not_undercut(longer))
            if width is not None and len(longer.start) > width:
                longer = longer.pick(self._sample(longer, width))
            partial = partial.join(longer)
        whole = np.flatnonzero(partial.start == 0)
        if len(whole) == 0:
            return None
        best = whole[np.lexsort((partial.memory[whole], partial.graphlets[whole], partial.cpu[whole]))[0]]
        graphlets = []
        while partial.start[best] < atoms:
            after = partial.rest[best]
            graphlets.append(Graphlet(int(partial.way[best]), int(partial.start[best]), int(partial.start[after])))
            best = after
        return graphlets

    def _sample(self, partial: _Partial, width: int) -> Ints:
        """Chooses partial plans: half of them the cheapest at the known price, the others spread over all sizes."""
        cheapest = np.argsort(partial.cpu + self.price * partial.memory, kind="stable")[: width // 2]
        spread = np.linspace(0, len(partial.start) - 1, width - width // 2).astype(np.int64)
        return np.union1d(cheapest, spread)

    def _extend(self, partial: _Partial, start: int, way: Ints, rest: Ints) -> _Partial:
        """Extends each partial plan by one graphlet in front, and drops unbalanced nodes and inefficient branches."""
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
    """Returns the partial plans that no other one undercuts, by rising memory.

    Another one undercuts a plan if it needs no more memory, and less CPU, or as much in fewer graphlets.
    """
    rank = np.empty(len(partial.start), dtype=np.int64)
    rank[np.lexsort((partial.memory, partial.graphlets, partial.cpu))] = np.arange(len(rank))
    order = np.lexsort((rank, partial.memory))
    undercut = rank[order] > np.minimum.accumulate(rank[order])
    return order[~undercut]
