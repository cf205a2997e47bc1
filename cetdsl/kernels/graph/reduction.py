"""The transitive reduction of a graph keeps only the edges that no longer path bypasses.

All nodes of a path that bypasses an edge lie between the two ends of the edge in time, so each window that holds the
ends holds the path, and the reduction is the same in every window. They also lie on a trend, because the ends do.
"""

from __future__ import annotations

import numpy as np

from cetdsl.ir.machine import Machine
from cetdsl.ir.transitions import transitions_of
from cetdsl.kernels._jit import jit
from cetdsl.kernels.graph.attribute_graph import AttributeGraph
from cetdsl.kernels.graph.edges import crossed_from, list_edges, with_edges
from cetdsl.kernels.graph.staircases import ALL, Ways, find_ways, is_transitive_loop, list_staircases
from cetdsl.kernels.vocabulary import Bools, Graph, Ints, Places

#: Bytes for the bit maps of a transitive reduction.
_BIT_MAP_BYTES = 64 * 2**20


def reduce_edges(
    graph: AttributeGraph, machine: Machine, most: int = 2**31, wanted: Bools | None = None
) -> Graph | None:
    """Returns the transitive reduction of a graph: the graph with only those edges that no longer path bypasses.

    It lists candidates for these edges first (:mod:`cetdsl.kernels.graph.staircases`), and returns None if there are
    more than ``most`` of them. Several tasks may share the work. Then each gets a part of the edges: in some graphs
    those that begin at the nodes that it has ``wanted``, in others those that end there.
    """
    own = np.ones(len(graph.nodes.event), dtype=np.bool_) if wanted is None else wanted
    if _is_one_list(machine):
        start = graph.ranges.start
        return with_edges(graph, start, np.where(own, _first_instants(graph), start), graph.ranges.target)
    ways = find_ways(graph, machine)
    bypassed = _may_be_bypassed(machine, ways)
    if (ways.how == ALL).all():
        listed = list_edges(graph, most)
    else:
        listed = with_edges(graph, *list_staircases(graph, ways, most, own | bypassed))
    if listed is None or (listed.stop - listed.start).sum() > most:
        return None
    if not bypassed:
        return listed._replace(stop=np.where(own, listed.stop, listed.start))
    bounds, target = _irredundant(listed.start, listed.stop, listed.target, own)
    return with_edges(graph, bounds[:-1].copy(), bounds[1:].copy(), target)


def _is_one_list(machine: Machine) -> bool:
    """Whether a machine is one loop that only equates values of a column: then the buckets are the lists of edges."""
    if len(machine.variables) != 1 or len(machine.edges) != 1:
        return False
    (loop,) = transitions_of(machine)
    return is_transitive_loop(loop) and loop.order is None


def _may_be_bypassed(machine: Machine, ways: Ways) -> bool:
    """Whether a longer path may bypass an edge that is listed: through its target's state, or through another one."""
    edges = [(t.edge.source, t.edge.target) for t in transitions_of(machine)]
    if len(set(edges)) < len(edges):
        return True  # of two orders between the same states, a path may take now one and now the other
    leads: dict[int, set[int]] = {}
    for source in range(len(machine.variables)):
        waiting = [source]
        while waiting:
            q = waiting.pop()
            new = {target for one, target in edges if one == q} - leads.setdefault(source, set())
            leads[source] |= new
            waiting += new
    for (source, target), how in zip(edges, ways.how.tolist(), strict=True):
        between = {q for one, q in edges if one == source and target in leads[q]}
        between |= {q for q in leads[target] if target in leads[q]}
        # Edges that are bypassed by way of the loop of the target's state have not been listed.
        if between - ({target} if how != ALL else set()):
            return True
    return False


@jit
def _first_instants(graph: AttributeGraph) -> Ints:
    """Returns where each node's successors of the earliest instant end; paths through these bypass all later ones."""
    start, target, instant = graph.ranges.start, graph.ranges.target, graph.instant
    stop = start.copy()
    for v in range(len(stop)):
        while stop[v] < graph.ranges.stop[v] and instant[target[stop[v]]] == instant[target[start[v]]]:
            stop[v] += 1
    return stop


@jit
def _irredundant(start: Ints, stop: Ints, target: Places, wanted: Bools) -> tuple[Ints, Places]:
    """Returns the edges of any graph to the wanted nodes that no longer path bypasses: where each node's begin, and
    the targets.

    A node's successors are tried in order of time. One is kept unless a path from a successor that was kept before
    leads to it. The sets of nodes to which paths lead are bit maps over a block of targets at a time, which bounds
    their memory.
    """
    nodes = len(start)
    bounds = np.zeros(nodes + 1, dtype=np.int64)
    for v in range(nodes):
        bounds[v + 1] = bounds[v] + stop[v] - start[v]
    kept = np.empty(bounds[nodes], dtype=np.int32)
    count = np.zeros(nodes, dtype=np.int64)
    cursor = start.copy()
    closed = crossed_from(start, stop, target)
    words = min(64, max(1, _BIT_MAP_BYTES // (8 * max(nodes, 1))))
    leads = np.zeros((nodes, words), dtype=np.uint64)
    filled = np.zeros(nodes, dtype=np.bool_)
    one = np.uint64(1)
    for first in range(0, nodes, 64 * words):
        last = min(first + 64 * words, nodes)
        if not wanted[first:last].any():
            # No edge to this block is wanted. All are kept for now: paths over them lead where the reduction's do.
            for v in range(closed[first], last):
                while cursor[v] < stop[v] and target[cursor[v]] < last:
                    kept[bounds[v] + count[v]] = target[cursor[v]]
                    count[v] += 1
                    cursor[v] += 1
            continue
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
        out[v + 1] = out[v]
        for k in range(bounds[v], bounds[v] + count[v]):
            kept[out[v + 1]] = kept[k]
            out[v + 1] += wanted[kept[k]]
    return out, kept[: out[nodes]].copy()
