"""Lists the successors of each node, but few of those that a longer path bypasses.

A state that repeats under an order, such as ``b.x < NEXT(b).x``, has a *loop*, an edge to itself, that is transitive.
If one successor of a node is in this state, and another one may follow it along the loop, the path through the first
*bypasses* the edge to the other. Drawn by time and value, the successors that are not bypassed go down like a
staircase: none may follow an earlier one along the loop. There are few of them, and a segment tree over the ranks of
the values finds them one by one. Where a loop equates values only, all successors but those of the earliest instant are
bypassed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cetdsl.ir.machine import Machine
from cetdsl.ir.transitions import ORDERS, Transition, transitions_of
from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels._side_by_side import starts, starts_of
from cetdsl.kernels.graph.attribute_graph import NEVER, AttributeGraph, wanted_of
from cetdsl.kernels.graph.blocks import widened
from cetdsl.kernels.graph.ranges import next_entry
from cetdsl.kernels.vocabulary import Bools, Ints, Places

#: How the successors along an edge are listed: all, those of the earliest instant, or those of a staircase.
ALL, FIRST, STAIRCASE = 0, 1, 2


class Ways(NamedTuple):
    """Describes how the successors of nodes are found.

    Attributes
    ----------
    how : int64 array, shape (edges,)
        ``ALL``, ``FIRST`` or ``STAIRCASE``, by the edges of :class:`~cetdsl.kernels.graph.attribute_graph.Joins`.
    loop : int64 array, shape (states,)
        The table of each state's loop, whose ranks the trees over the state's nodes have; -1: there are no trees.
    tree : int64 array, shape (states + 1,)
        Where the trees of each state begin; a tree has two cells for each rank.
    bucket_start, bucket : int64 array, shape (edges + 1,), and int32 array
        For each bucket of an edge's table, the bucket of the loop's table that holds the same events.
    limit_start, limit : int64 array, shape (edges + 1,), and int32 array
        For each rank in a bucket of an edge's table, the highest rank by the loop's table of the events up to it.
    """

    how: Ints
    loop: Ints
    tree: Ints
    bucket_start: Ints
    bucket: Places
    limit_start: Ints
    limit: Places


def find_ways(graph: AttributeGraph, machine: Machine) -> Ways:
    """Chooses how successors are found along each edge of a machine."""
    transitions, ranks, states = transitions_of(machine), graph.ranks, len(machine.variables)
    loops = {t.edge.source: number for number, t in enumerate(transitions) if is_transitive_loop(t)}
    how, loop = np.full(len(transitions), ALL), np.full(states, -1)
    buckets, limits = [], []
    for number, transition in enumerate(transitions):
        bucket = limit = np.zeros(0, dtype=np.int32)
        own = loops.get(transition.edge.target)
        if own is not None and transition.is_separable:
            ordered = any(c.op in ORDERS for c in transitions[own].edge.comparisons)
            found, bucket, limit = _compare_tables(graph, number, own)
            if found == STAIRCASE and ordered:
                how[number], loop[transition.edge.target] = STAIRCASE, graph.joins.table[own]
            elif found != ALL and not ordered:
                how[number] = FIRST
        buckets.append(bucket)
        limits.append(limit)
    cells = [2 * int(ranks.tree[ranks.first[t + 1]] - ranks.tree[ranks.first[t]]) if t >= 0 else 0 for t in loop]
    return Ways(how, loop, starts(cells), *_laid_out(buckets), *_laid_out(limits))


def is_transitive_loop(transition: Transition) -> bool:
    """Whether an edge leads from a state to itself, and "may follow" along it is transitive."""
    edge = transition.edge
    own = edge.source == edge.target and transition.is_separable
    return own and all(c.later == c.earlier for c in edge.comparisons)


def _laid_out(parts: Sequence[Places]) -> tuple[Ints, Places]:
    """Joins arrays; returns where each one begins in the joined array, and that."""
    return starts_of(parts), np.concatenate([np.zeros(0, dtype=np.int32), *parts])


@jit
def _compare_tables(graph: AttributeGraph, edge: int, loop: int) -> tuple[int, Places, Places]:
    """Compares the buckets of an edge's table with those of the table of the loop at the edge's target.

    Returns ``STAIRCASE`` if both tables have the same buckets with nodes in the same order, ``FIRST`` if each bucket of
    the edge's table is a part of one of the loop's, or else ``ALL``; and the columns ``bucket`` and ``limit`` of
    :class:`Ways`.
    """
    joins, ranks, state, event = graph.joins, graph.ranks, graph.nodes.state, graph.nodes.event
    first, trees = ranks.first, ranks.tree
    one, other, q = joins.table[edge], joins.table[loop], joins.target[edge]
    buckets = first[one + 1] - first[one] if one >= 0 else 1
    cells = trees[first[one + 1]] - trees[first[one]] if one >= 0 else 1
    bucket, limit = np.full(buckets, -1, dtype=np.int32), np.zeros(cells, dtype=np.int32)
    least = np.full(cells, NEVER, dtype=np.int32)
    owner = np.full(first[other + 1] - first[other] if other >= 0 else 1, -1, dtype=np.int32)
    same = True
    for v in range(len(event)):
        if state[v] != q:
            continue
        b = ranks.bucket[one, event[v]] if one >= 0 else 0
        c = ranks.bucket[other, event[v]] if other >= 0 else 0
        if b < 0:
            same &= c < 0
            continue
        if c < 0 or (bucket[b] >= 0 and bucket[b] != c):
            return ALL, bucket, limit
        bucket[b] = c
        same &= owner[c] < 0 or owner[c] == b
        owner[c] = b
        cell = trees[first[one] + b] - trees[first[one]] + ranks.rank[one, event[v]] - 1 if one >= 0 else 0
        rank = ranks.rank[other, event[v]] if other >= 0 else 1
        limit[cell], least[cell] = max(limit[cell], rank), min(least[cell], rank)
    for b in range(buckets if one >= 0 else 0):
        for cell in range(trees[first[one] + b] - trees[first[one]] + 1, trees[first[one] + b + 1] - trees[first[one]]):
            same &= least[cell] > limit[cell - 1]
            limit[cell] = max(limit[cell], limit[cell - 1])
    return STAIRCASE if same else FIRST, bucket, limit


@inlined
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
def _descend(
    graph: AttributeGraph, ways: Ways, edge: int, v: int, last: int, tree: Places, heap: Ints, target: Places, at: int
) -> tuple[Places, int]:
    """Writes the staircase of a node along an edge, up to the node ``last``, behind the first ``at`` targets.

    A heap holds stretches of the ranks that the node allows, by the earliest node of each. So nodes come off it in
    order of time. Each is a successor, and splits its stretch into the ranks below and above its own. The ranks that it
    *hides*, those that may follow it along the loop, are cut off each other stretch when that comes off the heap.
    """
    joins, ranks, event, instants = graph.joins, graph.ranks, graph.nodes.event, graph.instant
    table, trees = ways.loop[joins.target[edge]], ranks.tree
    wanted, allowed = wanted_of(joins, ranks, edge, event[v])
    own = ways.bucket[ways.bucket_start[edge] + wanted]
    if own < 0 or allowed == 0:
        return target, at
    cell = allowed - 1
    if joins.table[edge] >= 0:
        first = ranks.first[joins.table[edge]]
        cell += trees[first + wanted] - trees[first]
    limit = int(ways.limit[ways.limit_start[edge] + cell])
    name, first = ranks.first[table] + own, ranks.first[table]
    size = trees[name + 1] - trees[name]
    base = ways.tree[joins.target[edge]] + 2 * (trees[name] - trees[first])
    waiting = _push(heap, 0, _earliest(tree, base, size, 0, min(limit, size)), 0, min(limit, size))
    hidden = hides = 0
    instant = np.int64(-1)
    while waiting > 0:
        t, low, high = heap[0, 0], heap[0, 1], heap[0, 2]
        if t > last:
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
        hides = max(hides, int(ranks.limit[table, event[t]]) if ranks.wanted[table, event[t]] >= 0 else 0)
        middle = int(ranks.rank[table, event[t]]) - 1
        if low < middle:
            waiting = _push(heap, waiting, _earliest(tree, base, size, low, middle), low, middle)
        if middle + 1 < high:
            waiting = _push(heap, waiting, _earliest(tree, base, size, middle + 1, high), middle + 1, high)
    return target, at


@jit
def list_staircases(graph: AttributeGraph, ways: Ways, most: int, wanted: Bools) -> tuple[Ints, Ints, Places]:
    """Lists the successors of wanted nodes: returns where those of each begin and end, and all of them.

    It stops early once there are more than ``most``. It goes from the last node to the first, so that the trees hold
    the nodes of later instants only.
    """
    joins, ranks, ranges = graph.joins, graph.ranks, graph.ranges
    event, state, instants = graph.nodes.event, graph.nodes.state, graph.instant
    nodes = len(event)
    tree, heap = np.full(ways.tree[-1], NEVER, dtype=np.int32), np.empty((nodes + 2, 3), dtype=np.int64)
    start, stop = np.zeros(nodes, dtype=np.int64), np.zeros(nodes, dtype=np.int64)
    target = np.empty(max(4 * nodes, 16), dtype=np.int32)
    at, end = 0, nodes
    while end > 0 and at <= most:
        begin = end - 1
        while begin > 0 and instants[begin - 1] == instants[begin]:
            begin -= 1
        for v in range(begin, end):
            start[v], stop[v], lists = at, at, 0
            if not wanted[v]:
                continue
            for edge in range(joins.out_start[state[v]], joins.out_start[state[v] + 1]):
                r, before = ranges.first[v] + edge - joins.out_start[state[v]], at
                if ranges.start[r] == ranges.stop[r]:
                    continue
                if ways.how[edge] == STAIRCASE:
                    last = ranges.target[ranges.stop[r] - 1]
                    target, at = _descend(graph, ways, edge, v, last, tree, heap, target, at)
                else:
                    limit = ranges.limit[r]
                    k = next_entry(ranges.rank, ranges.skip, ranges.start[r], ranges.stop[r], limit)
                    while k < ranges.stop[r]:
                        t = ranges.target[k]
                        if ways.how[edge] == FIRST and at > before and instants[t] != instants[target[before]]:
                            break
                        target = widened(target, at, 1)
                        target[at] = t
                        at += 1
                        k = next_entry(ranges.rank, ranges.skip, k + 1, ranges.stop[r], limit)
                lists += at > before
            if lists > 1:
                target[start[v] : at].sort()
            stop[v] = at
        for v in range(begin, end):
            table = ways.loop[state[v]]
            if table >= 0 and ranks.bucket[table, event[v]] >= 0:
                first = ranks.first[table]
                name = first + ranks.bucket[table, event[v]]
                position = ranks.tree[name + 1] - ranks.tree[name] + ranks.rank[table, event[v]] - 1
                base = ways.tree[state[v]] + 2 * (ranks.tree[name] - ranks.tree[first])
                while position > 0:
                    tree[base + position] = min(tree[base + position], np.int32(v))
                    position >>= 1
        end = begin
    return start, stop, target[:at].copy()
