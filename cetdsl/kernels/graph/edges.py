"""Counts the edges of a graph, or lists them node by node out of the ranges that stand for them."""

from __future__ import annotations

import numpy as np

from cetdsl.kernels._jit import jit
from cetdsl.kernels.graph.attribute_graph import AttributeGraph
from cetdsl.kernels.graph.ranges import SKIP_BITS
from cetdsl.kernels.vocabulary import Graph, Ints, Places


@jit
def _count_edges(graph: AttributeGraph) -> Ints:
    """Counts the successors of each node."""
    ranges, nodes = graph.ranges, len(graph.nodes.event)
    out = np.zeros(nodes, dtype=np.int64)
    for v in range(nodes):
        for r in range(ranges.first[v], ranges.first[v + 1]):
            limit, k = ranges.limit[r], ranges.start[r]
            while k < ranges.stop[r]:
                # The entries up to the next multiple of 64 have one skip entry, their least rank.
                end = min(((k >> SKIP_BITS) + 1) << SKIP_BITS, ranges.stop[r])
                if ranges.skip[k >> SKIP_BITS] <= limit:
                    for rank in ranges.rank[k:end]:
                        out[v] += rank <= limit
                k = end
    return out


def list_edges(graph: AttributeGraph, most: int = 2**31) -> Graph | None:
    """Returns the graph with its successors listed; None if these are more than ``most``.

    Where every node has just one range, and all ranks are equal, the ranges are the lists, and nothing is copied.
    """
    ranges = graph.ranges
    if (np.diff(ranges.first) == 1).all() and (ranges.rank == 1).all():
        return with_edges(graph, ranges.start, ranges.stop, ranges.target)
    degree = _count_edges(graph)
    if degree.sum() > most:
        return None
    return with_edges(graph, *_listed_edges(graph, degree))


def with_edges(graph: AttributeGraph, start: Ints, stop: Ints, target: Places) -> Graph:
    """Returns the nodes of a graph with successors of their own."""
    return graph.nodes._replace(start=start, stop=stop, target=target)


@jit
def _listed_edges(graph: AttributeGraph, degree: Ints) -> tuple[Ints, Ints, Places]:
    """Lists the successors of each node, which has ``degree`` of them: where they begin and end, and the successors."""
    ranges, nodes = graph.ranges, len(graph.nodes.event)
    start, stop = np.zeros(nodes, dtype=np.int64), np.zeros(nodes, dtype=np.int64)
    # Every entry is written, and the next one overwrites it if it is no successor: so the loop needs no branch.
    target = np.empty(degree.sum() + 1, dtype=np.int32)
    free = 0
    for v in range(nodes):
        start[v] = free
        for r in range(ranges.first[v], ranges.first[v + 1]):
            limit, k = ranges.limit[r], ranges.start[r]
            while k < ranges.stop[r]:
                end = min(((k >> SKIP_BITS) + 1) << SKIP_BITS, ranges.stop[r])
                if ranges.skip[k >> SKIP_BITS] <= limit:
                    for rank, node in zip(ranges.rank[k:end], ranges.target[k:end]):
                        target[free] = node
                        free += rank <= limit
                k = end
        # Each range rises by itself; several have to be merged.
        if ranges.first[v + 1] - ranges.first[v] > 1:
            target[start[v] : free].sort()
        stop[v] = free
    return start, stop, target[:free]


@jit
def crossed_from(start: Ints, stop: Ints, target: Places) -> Ints:
    """Returns for each node ``v`` the last node ``u <= v`` such that no edge leads from before ``u`` to ``v`` or later.

    So no path leads to ``v`` from a node before ``u``. The targets ``target[start[v]:stop[v]]`` of each node rise.

    Parameters
    ----------
    start, stop : int64 arrays, shape (nodes,)
    target : int32 array, shape (edges,)

    Returns
    -------
    int64 array, shape (nodes,)

    Examples
    --------
    Of five nodes, the first leads to the third, and the fourth to the fifth.

    >>> start, stop = np.array([0, 1, 1, 1, 2]), np.array([1, 1, 1, 2, 2])
    >>> crossed_from(start, stop, np.array([2, 4], dtype=np.int32)).tolist()
    [0, 0, 0, 3, 3]
    """
    closed = np.zeros(len(start), dtype=np.int64)
    furthest = 0
    for v in range(len(start)):
        if furthest < v:
            closed[v] = v
        elif v > 0:
            closed[v] = closed[v - 1]
        if stop[v] > start[v]:
            furthest = max(furthest, int(target[stop[v] - 1]))
    return closed
