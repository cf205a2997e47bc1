"""Sorts nodes into the buckets of a graph, and finds the range of a bucket that holds a node's successors on each edge.

For buckets and ranges see :mod:`~cetdsl.kernels.graph.attribute_graph`.
"""

from __future__ import annotations

import numpy as np

from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.graph.attribute_graph import (
    NEVER,
    Joins,
    Ranges,
    Ranks,
    bucket_of,
    number_buckets,
    rank_of,
    wanted_of,
)
from cetdsl.kernels.graph.blocks import widened
from cetdsl.kernels.machine.conditions import edge_holds
from cetdsl.kernels.numbers.copying import copy
from cetdsl.kernels.vocabulary import Events, Ints, Places

#: Entries of a bucket that one entry of the skip table stands for, as a power of two.
SKIP_BITS = 6


def find_ranges(joins: Joins, ranks: Ranks, events: Events, horizon: Places, event: Ints, state: Ints) -> Ranges:
    """Sorts nodes, given by event and state, into buckets, and finds the ranges that they point at.

    ``horizon`` is the first event that shares no window with each event.
    """
    # NumPy makes the arrays that are written to, because it asks the system for large pages.
    first = np.zeros(len(state) + 1, dtype=np.int64)
    np.cumsum(np.diff(joins.out_start)[state], out=first[1:])
    start, stop = np.zeros((2, first[-1]), dtype=np.int64)
    none = np.zeros(0, dtype=np.int32)
    ranges = Ranges(first, start, stop, np.ones(first[-1], dtype=np.int32), none, none, none)
    target, rank, skip = _fill_ranges(joins, ranks, events, horizon, event, state, ranges)
    return ranges._replace(target=target, rank=rank, skip=skip)


@jit
def _fill_buckets(
    joins: Joins, ranks: Ranks, event: Ints, state: Ints, owner: Ints, first: Ints, count: int
) -> tuple[Ints, Places, Places]:
    """Sorts nodes into the numbered buckets: returns where each bucket begins, the nodes of all, and their ranks."""
    nodes, edges = len(event), len(owner)
    begin = np.zeros(count + 1, dtype=np.int64)
    for edge in range(edges):
        if owner[edge] == edge:
            for v in range(nodes):
                bucket = bucket_of(joins, ranks, edge, event[v], state[v])
                if bucket >= 0:
                    begin[first[edge] + bucket + 1] += 1
    for bucket in range(count):
        begin[bucket + 1] += begin[bucket]
    target, rank = np.empty(begin[count], dtype=np.int32), np.empty(begin[count], dtype=np.int32)
    # The next free entry of each bucket: the nodes come in order of time, and so do the entries.
    free = begin.copy()
    for edge in range(edges):
        if owner[edge] == edge:
            for v in range(nodes):
                bucket = bucket_of(joins, ranks, edge, event[v], state[v])
                if bucket >= 0:
                    k = free[first[edge] + bucket]
                    free[first[edge] + bucket] += 1
                    target[k], rank[k] = v, rank_of(joins, ranks, edge, event[v])
    return begin, target, rank


@inlined
def _first_not_before(target: Places, event: Ints, k: int, high: int, bound: int) -> int:
    """Returns the first entry of a bucket, from entry ``k`` on, whose event is not before a bound."""
    while k < high and event[target[k]] < bound:
        k += 1
    return k


@jit
def _fill_ranges(
    joins: Joins, ranks: Ranks, events: Events, horizon: Places, event: Ints, state: Ints, ranges: Ranges
) -> tuple[Places, Places, Places]:
    """Fills the arrays of ``ranges``; returns its last three fields, which grow. See :func:`find_ranges`."""
    first_range, start, stop, limit, _, _, _ = ranges
    owner, first, count = number_buckets(joins, ranks)
    begin, target, rank = _fill_buckets(joins, ranks, event, state, owner, first, count)
    # The successors along an edge with tests are listed one by one, in ranges that are appended to the buckets.
    free, listed = len(target), target
    # Where the range that was found last in each bucket begins and ends.
    opened, closed = begin[:-1].copy(), begin[:-1].copy()
    following = 0
    for v in range(len(event)):
        i = event[v]
        # ``following`` is the first event of a later instant; nodes come in order of time, so it only moves on.
        while following < len(events.instant) and events.instant[following] <= events.instant[i]:
            following += 1
        for edge in range(joins.out_start[state[v]], joins.out_start[state[v] + 1]):
            r = first_range[v] + edge - joins.out_start[state[v]]
            wanted, limit[r] = wanted_of(joins, ranks, edge, i)
            if wanted < 0:
                continue
            bucket = first[edge] + wanted
            # For the same reason, each range of a bucket begins and ends no earlier than the one before.
            high = begin[bucket + 1]
            opened[bucket] = _first_not_before(target, event, opened[bucket], high, following)
            closed[bucket] = _first_not_before(target, event, max(closed[bucket], opened[bucket]), high, horizon[i])
            start[r], stop[r] = opened[bucket], closed[bucket]
            if joins.tested[edge]:
                listed = widened(listed, free, stop[r] - start[r])
                begun = free
                for k in range(start[r], stop[r]):
                    if rank[k] <= limit[r] and edge_holds(joins, events, edge, i, event[target[k]]):
                        listed[free] = target[k]
                        free += 1
                start[r], stop[r], limit[r] = begun, free, 1
    ranks_of_all = rank
    if free > len(target):
        ranks_of_all = np.ones(free, dtype=np.int32)
        copy(ranks_of_all, rank)
    skip = np.full((free >> SKIP_BITS) + 1, NEVER, dtype=np.int32)
    for k in range(free):
        skip[k >> SKIP_BITS] = min(skip[k >> SKIP_BITS], ranks_of_all[k])
    return listed[:free].copy() if free < len(listed) else listed, ranks_of_all, skip


@inlined
def next_entry(rank: Places, skip: Places, k: int, stop: int, limit: int) -> int:
    """Returns the first entry, from entry ``k`` on, whose rank is within the limit; ``stop`` if there is none."""
    while k < stop:
        if rank[k] <= limit:
            return k
        k += 1
        while k < stop and k & ((1 << SKIP_BITS) - 1) == 0 and skip[k >> SKIP_BITS] > limit:
            k += 1 << SKIP_BITS
    return stop
