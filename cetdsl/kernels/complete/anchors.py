"""Chooses anchors among the attribute vertices, so that partial trends are few, and so are the visits to them.

*Anchors* are nodes at which trends are cut into partial trends: a partial trend ends where an edge leads to an anchor.
All nodes of an *attribute vertex*, a list of nodes that the edges of others lead to, become anchors together. In a
graph whose nodes share stretches of targets, these stretches, united where they overlap, are the lists. Where every
node has a stretch of its own, each target is a list by itself. The lists with most edges become anchors first.

With more anchors there are fewer partial trends to keep, but the search visits them more often, once for each path that
leads to one. Let n be the least number of attribute vertices with which the partial trends fit the memory. Of n, 2n,
4n, ... (of 0, 2, 4, ... if n is 0), the number is taken for which partial trends and visits together are fewest.
"""

from __future__ import annotations

import numpy as np

from cetdsl.kernels._jit import jit
from cetdsl.kernels.complete.cuts import Flow, Scope, is_useful
from cetdsl.kernels.complete.graphlets import Junctions, count_pieces
from cetdsl.kernels.graph.windows import Rules, successors_stop
from cetdsl.kernels.vocabulary import Bools, Graph, Ints


def choose_anchors(
    graph: Graph, rules: Rules, scope: Scope, flow: Flow, most: float, asked: int | None = None
) -> tuple[Junctions, float, float, int]:
    """Chooses the anchors in the stretch of nodes that ``flow`` describes.

    If a number is ``asked`` for, so many attribute vertices become anchors, or all if there are fewer. Else their
    number is the one that costs least, among those with at most ``most`` partial trends; if none has so few, all become
    anchors.

    Returns the junctions, the number of partial trends, the visits of a search to them, and the number of attribute
    vertices chosen.
    """
    first, last = flow.first, flow.first + len(flow.paths)
    bounds = np.array([first, last])
    group, size = attribute_vertices(graph, scope, first, last)
    rank = np.empty(len(size), dtype=np.int64)
    rank[np.argsort(-size, kind="stable")] = np.arange(len(size))

    def weigh(count: int) -> tuple[Junctions, float, float]:
        anchored: Bools = np.zeros(last - first, dtype=np.bool_)
        anchored[group >= 0] = rank[group[group >= 0]] < count
        junctions = Junctions(bounds, anchored)
        return junctions, *count_pieces(graph, rules, scope, junctions, flow.paths)

    few, many = 0, int((size > 0).sum())
    if asked is not None:
        few = min(asked, many)
        return *weigh(few), few
    every = many
    while few < many:
        middle = (few + many) // 2
        if weigh(middle)[1] <= most:
            many = middle
        else:
            few = middle + 1
    best, count = weigh(few), few
    more = few
    while more < every:
        more = min(max(2 * more, 1), every)
        found = weigh(more)
        if found[1] + found[2] < best[1] + best[2]:
            best, count = found, more
    return *best, count


@jit
def attribute_vertices(graph: Graph, scope: Scope, first: int, last: int) -> tuple[Ints, Ints]:
    """Returns the attribute vertex of each node of a stretch, -1 for none, and how many edges lead to each vertex."""
    target, starts, stops, origin, reach = graph.target, graph.start, graph.stop, graph.origin, graph.reach
    count = last - first
    degree = np.zeros(count, dtype=np.int64)
    low, high = len(target), 0
    edges = 0
    for v in range(first, last):
        if is_useful(origin, reach, scope, v):
            stop = successors_stop(starts, stops, target, v, last)
            if starts[v] < stop:
                low, high = min(low, int(starts[v])), max(high, int(stop))
            edges += stop - starts[v]
            for k in range(starts[v], stop):
                degree[target[k] - first] += 1
    group = np.full(count, -1, dtype=np.int64)
    if edges <= max(high - low, 0):
        # There are no more edges than targets, so no stretches overlap (unless unused targets make up for it).
        for v in range(count):
            if degree[v] > 0:
                group[v] = v
        return group, degree
    joined = np.zeros(high - low + 1, dtype=np.int64)
    for v in range(first, last):
        if is_useful(origin, reach, scope, v):
            stop = successors_stop(starts, stops, target, v, last)
            if stop - starts[v] > 1:
                joined[starts[v] - low] += 1
                joined[stop - 1 - low] -= 1
    size = np.zeros(count + 1, dtype=np.int64)
    number = inside = 0
    for k in range(low, high):
        t = target[k] - first
        if 0 <= t < count and degree[t] > 0 and group[t] < 0:
            group[t] = number
            size[number] += degree[t]
        inside += joined[k - low]
        if inside == 0 and size[number] > 0:
            number += 1
    return group, size[:count]
