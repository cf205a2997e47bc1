"""The buckets of a graph, and the range of them that each node points at along each edge of its state."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.graph.attribute_graph import NEVER, Joins, Ranks, bucket_starts
from cetdsl.kernels.machine.conditions import edge_holds
from cetdsl.kernels.vocabulary import Events, Ints, Places

#: Entries of a bucket that one entry of the skip table stands for, as a power of two.
SKIP_BITS = 6


class Ranges(NamedTuple):
    """The ranges of each node, ``first_range[v]:first_range[v + 1]``, as an ``AttributeGraph`` has them."""

    first_range: Ints
    start: Ints
    stop: Ints
    limit: Places


class _Buckets(NamedTuple):
    """The buckets of all edges, one after the other.

    Attributes
    ----------
    first : int64 array, shape (edges,)
        The first bucket of each edge. Edges that agree in table and target share their buckets.
    begin : int64 array, shape (buckets + 1,)
        The entries of each bucket.
    target, rank : int32 arrays, shape (entries,)
        Nodes, rising within each bucket, and the ranks of their values.
    """

    first: Ints
    begin: Ints
    target: Places
    rank: Places


def find_ranges(
    joins: Joins, ranks: Ranks, events: Events, horizon: Places, event: Ints, state: Ints
) -> tuple[Ranges, Places, Places, Places]:
    """The ranges of nodes, given by event and state, and ``target``, ``rank`` and ``skip`` of all buckets."""
    # What is written to is made by NumPy, which asks the system for large pages.
    first_range = np.zeros(len(state) + 1, dtype=np.int64)
    np.cumsum(np.diff(joins.out_start)[state], out=first_range[1:])
    start, stop = np.zeros((2, first_range[-1]), dtype=np.int64)
    ranges = Ranges(first_range, start, stop, np.ones(first_range[-1], dtype=np.int32))
    return ranges, *_fill_ranges(joins, ranks, events, horizon, event, state, ranges)


@jit
def _fill_ranges(
    joins: Joins, ranks: Ranks, events: Events, horizon: Places, event: Ints, state: Ints, ranges: Ranges
) -> tuple[Places, Places, Places]:
    buckets = _fill_buckets(joins, ranks, event, state)
    tested = _place_ranges(joins, ranks, events, horizon, event, state, buckets, ranges)
    target, rank = buckets.target, buckets.rank
    if len(joins.comparison) or len(joins.listed):
        target, rank = _list_tested(joins, events, event, state, buckets, ranges, tested)
    skip = np.full((len(target) >> SKIP_BITS) + 1, NEVER, dtype=np.int32)
    for k in range(len(target)):
        skip[k >> SKIP_BITS] = min(skip[k >> SKIP_BITS], rank[k])
    return target, rank, skip


@jit
def _fill_buckets(joins: Joins, ranks: Ranks, event: Ints, state: Ints) -> _Buckets:
    """Sorts nodes, given by event and state, into the buckets that they stand in."""
    nodes, edges, first_bucket = len(event), len(joins.target), bucket_starts(ranks)
    owner, first = np.arange(edges), np.zeros(edges, dtype=np.int64)
    count = 0
    for edge in range(edges):
        table = joins.table[edge]
        for other in range(edge - 1, -1, -1):
            if joins.table[other] == table and joins.target[other] == joins.target[edge]:
                owner[edge] = owner[other]
        first[edge] = first[owner[edge]]
        if owner[edge] == edge:
            first[edge] = count
            count += 1 if table < 0 else first_bucket[table + 1] - first_bucket[table]
    begin = np.zeros(count + 1, dtype=np.int64)
    for edge in range(edges):
        if owner[edge] == edge:
            for v in range(nodes):
                bucket = _bucket_of(joins, ranks, edge, event[v], state[v])
                if bucket >= 0:
                    begin[first[edge] + bucket + 1] += 1
    for bucket in range(count):
        begin[bucket + 1] += begin[bucket]
    target, rank = np.empty(begin[count], dtype=np.int32), np.ones(begin[count], dtype=np.int32)
    # The next free entry of each bucket: the nodes come in order of time, and so do the entries.
    free = begin.copy()
    for edge in range(edges):
        table = joins.table[edge]
        if owner[edge] == edge:
            for v in range(nodes):
                bucket = _bucket_of(joins, ranks, edge, event[v], state[v])
                if bucket >= 0:
                    k = free[first[edge] + bucket]
                    free[first[edge] + bucket] += 1
                    target[k] = v
                    if table >= 0:
                        rank[k] = ranks.rank[table, event[v]]
    return _Buckets(first, begin, target, rank)


@inlined
def _bucket_of(joins: Joins, ranks: Ranks, edge: int, i: int, state: int) -> int:
    """The bucket of an edge that event ``i`` in a state stands in; -1: none."""
    if state != joins.target[edge]:
        return -1
    table = joins.table[edge]
    return 0 if table < 0 else int(ranks.bucket[table, i])


@inlined
def _first_not_before(target: Places, event: Ints, k: int, high: int, bound: int) -> int:
    """The first entry of a bucket, from entry ``k`` on, whose event is not before a bound."""
    while k < high and event[target[k]] < bound:
        k += 1
    return k


@jit
def _place_ranges(
    joins: Joins,
    ranks: Ranks,
    events: Events,
    horizon: Places,
    event: Ints,
    state: Ints,
    buckets: _Buckets,
    ranges: Ranges,
) -> int:
    """Fills ``ranges``; returns the number of entries that pass the tests which no index answers."""
    first_range, start, stop, limit = ranges
    first, begin, target, rank = buckets
    # Where the ranges of each bucket that were found last begin and end.
    opened, closed = begin[:-1].copy(), begin[:-1].copy()
    passing, following = 0, 0
    for v in range(len(event)):
        i = event[v]
        # The first event of a later instant: nodes come in order of time, so it only moves on.
        while following < len(events.instant) and events.instant[following] <= events.instant[i]:
            following += 1
        for edge in range(joins.out_start[state[v]], joins.out_start[state[v] + 1]):
            r = first_range[v] + edge - joins.out_start[state[v]]
            table = joins.table[edge]
            wanted = 0 if table < 0 else ranks.wanted[table, i]
            if wanted < 0:
                continue
            bucket = first[edge] + wanted
            # Events come in order of time, so a bucket's ranges begin and end ever later.
            high = begin[bucket + 1]
            opened[bucket] = _first_not_before(target, event, opened[bucket], high, following)
            closed[bucket] = _first_not_before(target, event, max(closed[bucket], opened[bucket]), high, horizon[i])
            start[r], stop[r] = opened[bucket], closed[bucket]
            if table >= 0:
                limit[r] = ranks.limit[table, i]
            if joins.tested[edge]:
                for k in range(start[r], stop[r]):
                    if rank[k] <= limit[r] and edge_holds(joins, events, edge, i, event[target[k]]):
                        passing += 1
    return passing


@jit
def _list_tested(
    joins: Joins, events: Events, event: Ints, state: Ints, buckets: _Buckets, ranges: Ranges, passing: int
) -> tuple[Places, Places]:
    """The targets and ranks of all ranges, where edges with tests get ranges of their own, an entry per successor."""
    first_range, start, stop, limit = ranges
    entries = len(buckets.target)
    target, rank = np.empty(entries + passing, dtype=np.int32), np.ones(entries + passing, dtype=np.int32)
    target[:entries], rank[:entries] = buckets.target, buckets.rank
    free = entries
    for v in range(len(event)):
        for edge in range(joins.out_start[state[v]], joins.out_start[state[v] + 1]):
            if not joins.tested[edge]:
                continue
            r = first_range[v] + edge - joins.out_start[state[v]]
            begun = free
            for k in range(start[r], stop[r]):
                if rank[k] <= limit[r] and edge_holds(joins, events, edge, event[v], event[target[k]]):
                    target[free] = target[k]
                    free += 1
            start[r], stop[r], limit[r] = begun, free, 1
    return target, rank


@inlined
def next_entry(rank: Places, skip: Places, k: int, stop: int, limit: int) -> int:
    """The first entry, from entry ``k`` on, whose rank is within the limit; ``stop`` if there is none."""
    while k < stop:
        if rank[k] <= limit:
            return k
        k += 1
        while k < stop and k & ((1 << SKIP_BITS) - 1) == 0 and skip[k >> SKIP_BITS] > limit:
            k += 1 << SKIP_BITS
    return stop
