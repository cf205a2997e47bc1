"""Chooses anchors among the attribute vertices, so that partial trends are few, and so are the visits to them.

An attribute vertex is a list of nodes that the edges of many others lead to. In a graph whose nodes share stretches of
targets, these stretches, united where they overlap, are the lists. Where every node has a stretch of its own, each
target is a list by itself. Lists with most edges come first.

With more anchors fewer partial trends are kept, and they are visited more often: once for each way that the search
comes to them. The number of anchors is that with which both together are least, among 1, 2, 4, ... times the least that
keeps the partial trends within the memory.
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
    """Chooses the anchors of the stretch of nodes that a flow is of.

    If so many are ``asked`` for, there are so many, or all that there are. Else at most ``most`` partial trends lie
    between them, or as few as can be, and the number of anchors is the one that costs least.

    Returns the junctions, the partial trends and how many of them a search visits, and the number of the attribute
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
        # No stretch is shared, unless a stretch that nobody uses makes up for it.
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
