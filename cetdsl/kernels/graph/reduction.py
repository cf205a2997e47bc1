"""The transitive reduction of a graph keeps only the edges that no longer path bypasses.

A detour lies between its ends in time, so the reduction is the same in every window. And it passes only through nodes
that lie on a trend, as its ends do.
"""

from __future__ import annotations

import numpy as np

from cetdsl.ir.machine import Machine
from cetdsl.ir.transitions import ORDERS, transitions_of
from cetdsl.kernels._jit import jit
from cetdsl.kernels.graph.attribute_graph import NEVER, AttributeGraph
from cetdsl.kernels.graph.blocks import widened
from cetdsl.kernels.graph.edges import list_edges, with_edges
from cetdsl.kernels.vocabulary import Graph, Ints, Places

#: Bytes for the bit maps of a transitive reduction.
_BIT_MAP_BYTES = 64 * 2**20


def reduce_edges(graph: AttributeGraph, machine: Machine, most: int = 2**31) -> Graph | None:
    """Returns the transitive reduction of a graph: the graph with only those edges that no longer path bypasses.

    None if there are more than ``most`` edges: of the reduction where the relation is transitive, else of the whole
    graph.
    """
    if not _is_transitive(machine):
        listed = list_edges(graph, most)
        if listed is None or (listed.stop - listed.start).sum() > most:
            return None
        bounds, target = _irredundant(listed.start, listed.stop, listed.target)
        return with_edges(graph, bounds[:-1].copy(), bounds[1:].copy(), target)
    if not any(c.op in ORDERS for c in machine.edges[0].comparisons):
        return with_edges(graph, graph.ranges.start, _first_instants(graph), graph.ranges.target)
    start, stop, target = _staircases(graph, most)
    return with_edges(graph, start, stop, target) if len(target) <= most else None


def _is_transitive(machine: Machine) -> bool:
    """Whether "may follow" is transitive: one state, and all comparisons between values of one column."""
    if len(machine.variables) != 1 or len(machine.edges) != 1:
        return False
    (transition,) = transitions_of(machine)
    return transition.is_separable and all(c.later == c.earlier for c in transition.edge.comparisons)


@jit
def _first_instants(graph: AttributeGraph) -> Ints:
    """Returns where each node's successors of the earliest instant end: they hide all later ones of a plain list."""
    start, target, instant = graph.ranges.start, graph.ranges.target, graph.instant
    stop = start.copy()
    for v in range(len(stop)):
        while stop[v] < graph.ranges.stop[v] and instant[target[stop[v]]] == instant[target[start[v]]]:
            stop[v] += 1
    return stop


@jit
def _earliest(tree: Places, base: int, size: int, low: int, high: int) -> int:
    """Returns the earliest node of the ranks ``low:high`` (from 0) in a segment tree; ``NEVER`` if there is none."""
    found = NEVER
    left, right = low + size, high + size
    while left < right:
        if left & 1:
            found = min(found, int(tree[base + left]))
            left += 1
        if right & 1:
            right -= 1
            found = min(found, int(tree[base + right]))
        left >>= 1
        right >>= 1
    return found


@jit
def _push(heap: Ints, size: int, node: int, low: int, high: int) -> int:
    """Adds a stretch of ranks to a heap ordered by the earliest node of each."""
    cell = size
    while cell > 0 and heap[(cell - 1) >> 1, 0] > node:
        heap[cell] = heap[(cell - 1) >> 1]
        cell = (cell - 1) >> 1
    heap[cell, 0], heap[cell, 1], heap[cell, 2] = node, low, high
    return size + 1


@jit
def _pop(heap: Ints, size: int) -> int:
    """Removes the first stretch from a heap."""
    last = size - 1
    node, low, high = heap[last, 0], heap[last, 1], heap[last, 2]
    cell, child = 0, 1
    while child < last:
        if child + 1 < last and heap[child + 1, 0] < heap[child, 0]:
            child += 1
        if heap[child, 0] >= node:
            break
        heap[cell] = heap[child]
        cell, child = child, 2 * child + 1
    heap[cell, 0], heap[cell, 1], heap[cell, 2] = node, low, high
    return last


@jit
def _staircases(graph: AttributeGraph, most: int) -> tuple[Ints, Ints, Places]:
    """Computes the reduction of an order, edge by edge: each successor hides the later ones that it allows itself.

    It goes from the last node to the first, so that the tree of each bucket, nodes by rank, holds later ones only. The
    successors of a node come out of the ranks that it allows in order of time, from a heap of stretches of ranks: one
    that shows splits its stretch, and the ranks that it hides are cut off the others when their turn comes.
    """
    bucket, ranked, wanted, limits, _, trees = graph.ranks
    event, instants, range_start, range_stop = graph.nodes.event, graph.instant, graph.ranges.start, graph.ranges.stop
    nodes = len(event)
    tree = np.full(2 * trees[-1], NEVER, dtype=np.int32)
    entry = np.full(nodes, -1, dtype=np.int64)
    for k in range(len(graph.ranges.target)):
        entry[graph.ranges.target[k]] = k
    heap = np.empty((nodes + 2, 3), dtype=np.int64)
    start, stop = np.zeros(nodes, dtype=np.int64), np.zeros(nodes, dtype=np.int64)
    target = np.empty(max(4 * nodes, 16), dtype=np.int32)
    at, end = 0, nodes
    while end > 0:
        begin = end - 1
        while begin > 0 and instants[begin - 1] == instants[begin]:
            begin -= 1
        for v in range(begin, end):
            start[v] = stop[v] = at
            name, limit = wanted[0, event[v]], int(limits[0, event[v]])
            if name < 0 or range_start[v] == range_stop[v]:
                continue
            size, base = trees[name + 1] - trees[name], 2 * trees[name]
            waiting = _push(heap, 0, _earliest(tree, base, size, 0, min(limit, size)), 0, min(limit, size))
            hidden = hides = 0
            instant = np.int64(-1)
            while waiting > 0:
                t, low, high = heap[0, 0], heap[0, 1], heap[0, 2]
                if t == NEVER or entry[t] >= range_stop[v]:
                    break
                waiting = _pop(heap, waiting)
                if instants[t] != instant:
                    instant, hidden = instants[t], hides
                if low < hidden:
                    if hidden < high:
                        waiting = _push(heap, waiting, _earliest(tree, base, size, hidden, high), hidden, high)
                    continue
                target = widened(target, at, 1)
                target[at] = t
                at += 1
                hides = max(hides, int(limits[0, event[t]]))
                middle = int(ranked[0, event[t]]) - 1
                if low < middle:
                    waiting = _push(heap, waiting, _earliest(tree, base, size, low, middle), low, middle)
                if middle + 1 < high:
                    waiting = _push(heap, waiting, _earliest(tree, base, size, middle + 1, high), middle + 1, high)
            stop[v] = at
            if at > most:
                return start, stop, target[:at]
        for v in range(begin, end):
            name = bucket[0, event[v]]
            if name >= 0:
                position = trees[name + 1] - trees[name] + ranked[0, event[v]] - 1
                while position > 0:
                    cell = 2 * trees[name] + position
                    tree[cell] = min(tree[cell], np.int32(v))
                    position >>= 1
        end = begin
    return start, stop, target[:at].copy()


@jit
def _irredundant(start: Ints, stop: Ints, target: Places) -> tuple[Ints, Places]:
    """Returns the edges of any graph that no longer path bypasses: where each node's begin, and the targets.

    A node's successors are tried in order of time, against the set of what those that were kept lead to. The sets are
    bit maps over a block of nodes at a time, which bounds their memory.
    """
    nodes = len(start)
    bounds = np.zeros(nodes + 1, dtype=np.int64)
    for v in range(nodes):
        bounds[v + 1] = bounds[v] + stop[v] - start[v]
    kept = np.empty(bounds[nodes], dtype=np.int32)
    count = np.zeros(nodes, dtype=np.int64)
    cursor = start.copy()
    # No edge crosses from before ``closed[v]`` to ``v`` or beyond, so nothing before it can lead to ``v``.
    closed = np.zeros(nodes, dtype=np.int64)
    furthest = 0
    for v in range(nodes):
        if furthest < v:
            closed[v] = v
        elif v > 0:
            closed[v] = closed[v - 1]
        if stop[v] > start[v]:
            furthest = max(furthest, int(target[stop[v] - 1]))
    words = min(64, max(1, _BIT_MAP_BYTES // (8 * max(nodes, 1))))
    leads = np.zeros((nodes, words), dtype=np.uint64)
    filled = np.zeros(nodes, dtype=np.bool_)
    one = np.uint64(1)
    for first in range(0, nodes, 64 * words):
        last = min(first + 64 * words, nodes)
        for v in range(last - 1, closed[first] - 1, -1):
            if filled[v]:
                leads[v] = np.uint64(0)
                filled[v] = False
            for k in range(bounds[v], bounds[v] + count[v]):
                if filled[kept[k]]:
                    filled[v] = True
                    for word in range(words):
                        leads[v, word] |= leads[kept[k], word]
            while cursor[v] < stop[v] and target[cursor[v]] < last:
                t = target[cursor[v]]
                cursor[v] += 1
                word, bit = (t - first) >> 6, one << np.uint64((t - first) & 63)
                if leads[v, word] & bit:
                    continue
                kept[bounds[v] + count[v]] = t
                count[v] += 1
                filled[v] = True
                leads[v, word] |= bit
                if filled[t]:
                    for other in range(words):
                        leads[v, other] |= leads[t, other]
    out = np.zeros(nodes + 1, dtype=np.int64)
    for v in range(nodes):
        out[v + 1] = out[v] + count[v]
        kept[out[v] : out[v + 1]] = kept[bounds[v] : bounds[v] + count[v]]
    return out, kept[: out[nodes]].copy()
