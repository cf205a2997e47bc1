"""Finds where the graph of a window can be cut and the exact cost of each graphlet, and has the optimizer plan cuts.

A *cut* is a point in time such that, for every edge that crosses it, all successors of its source lie after the cut and
all predecessors of its target before it. Two neighbouring cuts bound an *atom*. The optimizer gets at most `MOST_ATOMS`
atoms: if there are more, neighbours are joined. An atom whose own partial trends break the memory limit is divided at
points that are no cuts, which costs some visits but loses no trend.

The number of partial trends of a graphlet is the number of paths in it. It adds up edge by edge, and so does the
number of times that a search visits them. So costs are exact, however many trends there are, as long as doubles hold
them. A *visit* is a vertex that the search puts on its path: a vertex that is walked, or each vertex of a partial trend
that is prolonged. A partial trend that ends a trend is only read, and counts as one visit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cetdsl.ir.extraction import Extraction
from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.complete.branch_and_bound import branch_and_bound
from cetdsl.kernels.complete.cut_plan import CACHED, WALKED, Costs, CutPlan, Graphlet, make_plan, uncached_plan
from cetdsl.kernels.complete.greedy import greedy
from cetdsl.kernels.complete.published import (
    exhaustive,
    published_branch_and_bound,
    published_greedy,
    worst_case_costs,
)
from cetdsl.kernels.graph.attribute_graph import NEVER
from cetdsl.kernels.graph.windows import Rules, Windows, is_end, successors_stop
from cetdsl.kernels.vocabulary import Bools, Floats, Graph, Index, Ints, Places

#: Bytes of a partial trend: its first vertex, what follows, and its length (int32 each).
ENTRY_BYTES = 12
#: The most atoms that an optimizer is given, and the most that exhaustive search is given.
MOST_ATOMS, MOST_EXHAUSTIVE = 32, 16
#: How often edges may be looked at to find the costs of a window's graphlets; each edge counts every time.
MOST_LOOKS = 2**23


class Scope(NamedTuple):
    """The part of a graph that graphlets are made of: the events ``low:high`` and the nodes ``first:last``.

    If it is ``lasting``, later windows that hold the graphlet use its partial trends, too. Then ``high`` is after all
    events, and ``last`` after all nodes of the graph.
    """

    low: int
    high: int
    first: int
    last: int
    lasting: bool


class Flow(NamedTuple):
    """The paths from roots to each node of a stretch, which begins with the node ``first``.

    ``paths`` is the number of paths to each node, ``refs`` the sum of their lengths, and ``visits`` the sum of
    ``paths``, which is the number of visits of a walk. ``longest`` is the length of the longest path. ``trends`` is the
    number of paths that are trends, and ``trend_refs`` the sum of their lengths; ``nodes`` and ``edges`` count those on
    trends.
    """

    first: int
    paths: Floats
    refs: Floats
    visits: float
    longest: Index
    trends: float
    trend_refs: float
    nodes: int
    edges: int


@inlined
def is_useful(origin: Places, reach: Places, scope: Scope, v: Index) -> bool:
    """Whether a node lies on a trend."""
    return bool(origin[v] >= scope.low and reach[v] < scope.high)


@inlined
def leads_to(
    starts: Ints, stops: Ints, target: Places, reach: Places, rules: Rules, scope: Scope, v: Index, bound: Index
) -> bool:
    """Whether a trend goes on from a node to the node ``bound`` or beyond."""
    k = successors_stop(starts, stops, target, v, scope.last)
    while k > starts[v] and target[k - 1] >= bound:
        if not rules.pruned or reach[target[k - 1]] < scope.high:
            return True
        k -= 1
    return False


@inlined
def ends_elsewhere(ends: Bools, reach_after: Places, rules: Rules, scope: Scope, v: Index, bound: Index) -> bool:
    """Whether a trend may end at a node in another window: one that ends before the trend can go on to an end.

    The trend can go on only to the event ``bound`` or beyond.
    """
    return bool(scope.lasting and rules.complete and ends[v] and bound <= reach_after[v] < NEVER)


@jit
def find_flow(graph: Graph, rules: Rules, scope: Scope, first: int, last: int) -> Flow:
    """Finds the paths within a stretch of nodes.

    The roots are the nodes without a predecessor in the stretch, and, unless trends have to be complete, all nodes that
    may begin a trend.
    """
    target, starts, stops, begins, ends = graph.target, graph.start, graph.stop, graph.begins, graph.ends
    origin, reach, reach_after = graph.origin, graph.reach, graph.reach_after
    paths, refs = np.zeros(last - first), np.zeros(last - first)
    length = np.zeros(last - first, dtype=np.int64)
    visits = trends = trend_refs = 0.0
    longest, nodes, edges = np.int64(0), 0, 0
    for v in range(first, last):
        if not is_useful(origin, reach, scope, v):
            continue
        nodes += 1
        here = v - first
        if length[here] == 0 or (not rules.complete and begins[v]):
            paths[here] += 1.0
        refs[here] += paths[here]
        visits += paths[here]
        length[here] += 1
        longest = max(longest, length[here])
        if is_end(ends, reach_after, rules.complete, v, scope.high):
            trends += paths[here]
            trend_refs += refs[here]
        for k in range(starts[v], successors_stop(starts, stops, target, v, last)):
            there = target[k] - first
            if rules.pruned and reach[target[k]] >= scope.high:
                continue
            edges += 1
            paths[there] += paths[here]
            refs[there] += refs[here]
            length[there] = max(length[there], length[here])
    return Flow(first, paths, refs, visits, longest, trends, trend_refs, nodes, edges)


class Loads(NamedTuple):
    """The cost of walking each window: visits, edges, and the length of the longest trend."""

    visits: Floats
    edges: Ints
    longest: Ints


@jit
def find_loads(graph: Graph, rules: Rules, windows: Windows) -> Loads:
    """Finds the cost of walking windows."""
    count = len(windows.low)
    visits, edges, longest = np.empty(count), np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    for w in range(count):
        first, last = windows.first[w], windows.last[w]
        flow = find_flow(graph, rules, Scope(windows.low[w], windows.high[w], first, last, False), first, last)
        visits[w], edges[w], longest[w] = flow.visits, flow.edges, flow.longest
    return Loads(visits, edges, longest)


@jit
def find_cuts(graph: Graph, rules: Rules, scope: Scope, first: int, last: int) -> Ints:
    """Finds the nodes before which a stretch can be cut, without its first node."""
    target, starts, stops, origin, reach = graph.target, graph.start, graph.stop, graph.origin, graph.reach
    count = last - first
    earliest, latest = np.full(count, last, dtype=np.int64), np.full(count, -1, dtype=np.int64)
    # +1 at the first cut that a node forbids, -1 after the last one.
    change = np.zeros(count + 2, dtype=np.int64)
    for v in range(first, last):
        if not is_useful(origin, reach, scope, v):
            continue
        low, high = np.int64(last), np.int64(-1)
        for k in range(starts[v], successors_stop(starts, stops, target, v, scope.last)):
            t = np.int64(target[k])
            if rules.pruned and reach[t] >= scope.high:
                continue
            low, high = min(low, t), min(t, np.int64(last))
            if t >= last:
                break
            earliest[t - first] = min(earliest[t - first], v)
            latest[t - first] = v
        if low < high:
            change[low + 1 - first] += 1
            change[high + 1 - first] -= 1
    for v in range(first, last):
        low, high = earliest[v - first], latest[v - first]
        if low < high:
            change[low + 1 - first] += 1
            change[high + 1 - first] -= 1
    out = np.empty(count, dtype=np.int64)
    found = forbidden = 0
    for c in range(1, count):
        forbidden += change[c]
        if forbidden == 0:
            out[found] = first + c
            found += 1
    return out[:found].copy()


@jit
def find_costs(
    graph: Graph, rules: Rules, scope: Scope, bounds: Ints, paths: Floats, most: float
) -> tuple[Floats, Floats, Floats]:
    """Returns the number of partial trends, the visits if cached, and those if walked, of all graphlets between bounds.

    The first two are infinite for graphlets of more than ``most`` partial trends.
    """
    target, starts, stops, ends = graph.target, graph.start, graph.stop, graph.ends
    origin, reach, reach_after = graph.origin, graph.reach, graph.reach_after
    atoms, first = len(bounds) - 1, bounds[0]
    shape = (atoms, atoms + 1)
    entries, cached, walked = np.full(shape, np.inf), np.full(shape, np.inf), np.full(shape, np.inf)
    # For each node, the partial trends that begin with it and end a trend, and those that an edge prolongs.
    ending, going = np.empty(bounds[atoms] - first), np.empty(bounds[atoms] - first)
    for j in range(1, atoms + 1):
        bound = bounds[j]
        event_bound = graph.event[bound] if bound < len(graph.event) else np.int64(NEVER)
        kept = visits = walks = 0.0
        for i in range(j - 1, -1, -1):
            for v in range(bounds[i + 1] - 1, bounds[i] - 1, -1):
                here = v - first
                ending[here] = going[here] = 0.0
                if not is_useful(origin, reach, scope, v):
                    continue
                walks += paths[here]
                if kept > most:
                    continue
                if is_end(ends, reach_after, rules.complete, v, scope.high):
                    ending[here] = 1.0
                    visits += paths[here]
                onward = leads_to(starts, stops, target, reach, rules, scope, v, bound)
                if onward or ends_elsewhere(ends, reach_after, rules, scope, v, event_bound):
                    going[here] = 1.0
                for k in range(starts[v], stops[v]):
                    if target[k] >= bound:
                        break
                    ending[here] += ending[target[k] - first]
                    going[here] += going[target[k] - first]
                kept += ending[here] + going[here]
                if going[here] > 0.0:
                    visits += paths[here] * going[here]
            walked[i, j] = walks
            if kept <= most:
                entries[i, j], cached[i, j] = kept, visits
    return entries, cached, walked


def plan_graphlets(
    graph: Graph, rules: Rules, scope: Scope, memory: float, flow: Flow, asked: Extraction, reuse: int = 0
) -> tuple[Ints, CutPlan]:
    """Plans the graphlets of the stretch of nodes that ``flow`` describes: returns their bounds, and the plan.

    All partial trends may take ``memory`` bytes. If ``reuse`` is not 0, the stretch is a *pane*, which so many windows
    share, and is planned greedily unless another optimizer is asked for. The plan that is returned has exact costs,
    whichever cost model the optimizer used.
    """
    first, last = flow.first, flow.first + len(flow.paths)
    model = _Model(graph, rules, scope, memory, flow, asked.cost_model == "exact", reuse)
    looks = max(MOST_LOOKS, flow.visits / 4) / max(flow.edges, 1) if model.exact else MOST_ATOMS
    most = int(min(MOST_EXHAUSTIVE if asked.optimizer == "exhaustive" else MOST_ATOMS, max(looks, 2)))
    bounds = np.concatenate([[first], find_cuts(graph, rules, scope, first, last), [last]])
    if len(bounds) - 1 > most:
        bounds = _joined(bounds, flow, most)
    costs = model.costs(bounds)
    parts = np.arange(costs.atoms)
    too_large = np.flatnonzero(costs.memory[parts, parts + 1] > memory)
    if len(too_large) and len(parts) < most:
        bounds = _cut_up(bounds, too_large, most - len(parts))
        costs = model.costs(bounds)
    plan = _choose_plan(costs, model.sizes(bounds), memory, asked.optimizer, reuse)
    bounds = bounds[np.array([0, *plan.cuts, plan.atoms])]
    if not model.exact:
        plan = _within(plan, model.counted(bounds), memory)
        bounds = bounds[np.array([0, *plan.cuts, plan.atoms])]
    return bounds, plan


def _choose_plan(costs: Costs, sizes: Ints, memory: float, optimizer: str, reuse: int) -> CutPlan:
    """Has an optimizer choose a plan; the published ones cache every graphlet, or, where that does not fit, none."""
    if optimizer == "auto":
        return greedy(costs, memory) if reuse else branch_and_bound(costs, memory)
    cached = costs._replace(walk=None)
    if optimizer == "exhaustive":
        plan = exhaustive(cached, memory)
    elif optimizer == "greedy":
        plan = published_greedy(cached, sizes, memory)
    else:
        plan = published_branch_and_bound(cached, sizes, memory)
    # None of them weighs plans that keep some graphlets and walk others.
    return plan if all(plan.cached) else uncached_plan(costs, plan.considered, optimal=False)


def _within(plan: CutPlan, costs: Costs, memory: float) -> CutPlan:
    """Returns the plan with the exact costs of its graphlets, which are given; those that do not fit are walked."""
    sizes = np.diagonal(costs.memory, 1)
    kept = np.array(plan.cached) & (sizes <= memory)
    for largest in np.argsort(-np.where(kept, sizes, 0.0), kind="stable"):
        if sizes[kept].sum() <= memory:
            break
        kept[largest] = False
    graphlets = [Graphlet(CACHED if keep else WALKED, k, k + 1) for k, keep in enumerate(kept.tolist())]
    return make_plan(costs, graphlets, plan.considered, optimal=False)


class _Model(NamedTuple):
    """The optimizer's model of the costs of the graphlets of a stretch of nodes.

    The costs are ``exact``, or those that the published worst-case model gives for as many vertices.
    """

    graph: Graph
    rules: Rules
    scope: Scope
    memory: float
    flow: Flow
    exact: bool
    reuse: int

    def sizes(self, bounds: Ints) -> Ints:
        """Returns the number of vertices on trends between each two bounds."""
        here = slice(bounds[0], bounds[-1])
        useful = (self.graph.origin[here] >= self.scope.low) & (self.graph.reach[here] < self.scope.high)
        sizes: Ints = np.diff(np.concatenate([[0], np.cumsum(useful)])[bounds - bounds[0]])
        return sizes

    def costs(self, bounds: Ints) -> Costs:
        """Returns the costs of all graphlets between bounds."""
        return self.counted(bounds) if self.exact else worst_case_costs(self.sizes(bounds), ENTRY_BYTES)

    def counted(self, bounds: Ints) -> Costs:
        """Returns the exact costs of all graphlets between bounds."""
        flow, most = self.flow, self.memory / ENTRY_BYTES
        entries, cached, walked = find_costs(self.graph, self.rules, self.scope, bounds, flow.paths, most)
        with np.errstate(over="ignore"):
            cached += entries / max(self.reuse, 1)
            # The last graphlet also pays for putting trends together, unless it is the only one and holds them as such.
            cached[1:, -1] += flow.trend_refs
            walked[:, -1] += flow.trend_refs
        return Costs(entries * ENTRY_BYTES, cached, walked)


def _joined(bounds: Ints, flow: Flow, most: int) -> Ints:
    """Joins neighbouring atoms until there are about ``most``, and returns the bounds that are left.

    The bounds are spaced evenly by a measure that grows with the number of atoms, and with the logarithm of that of
    paths.
    """
    first = bounds[0]
    with np.errstate(divide="ignore"):
        growth = np.maximum.accumulate(np.log2(np.maximum(flow.paths, 1.0)))
    growth = growth[np.maximum(bounds - first - 1, 0)]
    growth = np.where(np.isfinite(growth), growth, 1024.0)
    measure = np.arange(len(bounds)) / (len(bounds) - 1) + growth / max(growth[-1], 1.0)
    chosen = np.searchsorted(measure, np.linspace(0, measure[-1], most + 1))
    joined: Ints = bounds[np.unique(np.append(chosen[:-1], len(bounds) - 1))]
    return joined


def _cut_up(bounds: Ints, chosen: NDArray[np.intp], more: int) -> Ints:
    """Returns the bounds, and about ``more`` others within the chosen stretches, in proportion to their nodes."""
    sizes = np.diff(bounds)[chosen]
    parts = np.minimum(1 + (more * sizes) // sizes.sum(), sizes)
    inner = [np.linspace(bounds[c], bounds[c + 1], p + 1)[1:-1].astype(np.int64) for c, p in zip(chosen, parts)]
    return np.unique(np.concatenate([bounds, *inner]))
