"""What lies on a trend at all: two passes over the events, which find each node's origin and reach.

The passes take n log n steps, because they read and write trees over the ranks of buckets and never look at an edge
(but for edges whose predicates no index answers).

Where each event that an edge leaves begins a trend itself, the latest predecessor of all is asked for: events that a
later one outdoes are dropped, and those left are a stack whose ranks fall or rise, which is searched from its end on
in a few cells that lie together. Fenwick trees, each level of which may miss the caches, are for the other edges.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.graph.attribute_graph import (
    NEVER,
    NOWHERE,
    Joins,
    Ranks,
    bucket_ranks,
    bucket_starts,
    tree_starts,
)
from cetdsl.kernels.machine.conditions import edge_holds
from cetdsl.kernels.vocabulary import Events, Ints, Places


class Trees(NamedTuple):
    """A Fenwick tree or stack of each bucket for each edge, a cell per rank.

    Attributes
    ----------
    first_bucket : int64 array, shape (tables + 1,)
        The number of each table's first bucket.
    size : int64 array, shape (buckets,)
        The highest rank of each bucket.
    entry : int32 array, shape (edges, cells)
        Events: what the trees or stacks hold.
    bound : int32 array, shape (edges, cells)
        The ranks of what is on a stack.
    """

    first_bucket: Ints
    size: Ints
    entry: Places
    bound: Places


def find_origins(joins: Joins, ranks: Ranks, events: Events, horizon: Places) -> tuple[Places, Places]:
    """``origin`` and ``origin_before`` of every event (row) and state (column)."""
    origin, before = _rows(joins, events, NOWHERE)
    _forward(joins, ranks, events, horizon, _plant(joins, ranks, NOWHERE), origin, before)
    return origin, before


def find_reaches(joins: Joins, ranks: Ranks, events: Events, horizon: Places, origin: Places) -> tuple[Places, Places]:
    """``reach`` and ``reach_after`` of every event and state that a path from a begin leads to."""
    reach, after = _rows(joins, events, NEVER)
    _backward(joins, ranks, events, horizon, _plant(joins, ranks, NEVER), origin, reach, after)
    return reach, after


# What a pass writes to is made by NumPy, which asks the system for large pages: a kernel of Numba would wait for each
# small one.


def _rows(joins: Joins, events: Events, value: int) -> tuple[Places, Places]:
    """Two numbers for every event and state."""
    first, second = np.full((2, len(events.time), len(joins.variable)), value, dtype=np.int32)
    return first, second


def _plant(joins: Joins, ranks: Ranks, value: int) -> Trees:
    """Trees whose cells all hold a value."""
    first_bucket = bucket_starts(ranks)
    size = bucket_ranks(ranks, first_bucket)
    return Trees(first_bucket, size, *np.full((2, len(joins.target), int(size.sum())), value, dtype=np.int32))


@jit
def find_horizon(segment_start: Ints, time: Ints, length: int) -> Places:
    """For each event the first one that can share no window with it: too late, or of another key."""
    out = np.empty(len(time), dtype=np.int32)
    for s in range(len(segment_start) - 1):
        stop = segment_start[s]
        for i in range(segment_start[s], segment_start[s + 1]):
            if length == 0:
                stop = segment_start[s + 1]
            while stop < segment_start[s + 1] and time[stop] - time[i] < length:
                stop += 1
            out[i] = stop
    return out


@inlined
def _follows(joins: Joins, ranks: Ranks, events: Events, edge: int, earlier: int, later: int) -> bool:
    """Whether an event may follow another one along an edge, time apart."""
    table = joins.table[edge]
    if table >= 0:
        if ranks.wanted[table, earlier] < 0 or ranks.wanted[table, earlier] != ranks.bucket[table, later]:
            return False
        if ranks.rank[table, later] > ranks.limit[table, earlier]:
            return False
    return edge_holds(joins, events, edge, earlier, later)


# --------------------------------------------------------------------------------------------------------- stacks


@inlined
def _topmost(bound: Places, edge: int, low: int, top: int, rank: np.int64, sign: int) -> int:
    """The last cell of a stack ``low:top`` with ``sign * bound >= sign * rank``; ``low - 1`` if there is none.

    These cells come first. The search doubles its strides from the top down.
    """
    stride, high = 1, top
    while high - stride >= low and sign * bound[edge, high - stride] < sign * rank:
        high -= stride
        stride *= 2
    bottom = max(high - stride, low - 1)
    while bottom + 1 < high:
        middle = (bottom + high) // 2
        if sign * bound[edge, middle] >= sign * rank:
            bottom = middle
        else:
            high = middle
    return bottom


@inlined
def _put_on_top(
    entry: Places, bound: Places, edge: int, low: int, top: int, new: np.int32, rank: np.int64, sign: int
) -> int:
    """Drops the cells of a stack ``low:top`` that a new entry outdoes, puts it there, and returns the new top."""
    while top > low and sign * bound[edge, top - 1] <= sign * rank:
        top -= 1
    entry[edge, top], bound[edge, top] = new, rank
    return top + 1


# --------------------------------------------------------------------------------------------------------- passes
#
# A pass is one long function, and gives the arrays that it loops over names of their own: helpers that are handed the
# trees, or looks at fields of tuples, count references at each event and cost a tenth of the time.


@jit
def _forward(
    joins: Joins, ranks: Ranks, events: Events, horizon: Places, trees: Trees, origin: Places, before: Places
) -> None:
    """Finds ``origin`` and ``before`` (``origin_before``) in one pass over the events.

    Parameters
    ----------
    joins : Joins
    ranks : Ranks
    events : Events
    horizon : int32 array, shape (events,)
        The first event that shares no window with each.
    trees : Trees
        Their entries are origins, ``NOWHERE`` at first.
    origin, before : int32 arrays, shape (events, states)
        The answer, ``NOWHERE`` at first.
    """
    first_bucket, size, entry, bound = trees
    bucket, ranked, wanted, limit = ranks
    variable, begins, out_start, target = joins.variable, joins.begins, joins.out_start, joins.target
    tables, tested = joins.table, joins.tested
    segment_start, instant, mask = events.segment_start, events.instant, events.mask
    # The cell before the first one of each bucket, as ranks count from 1; the cell after the last one of each stack;
    # the one value of an edge without predicates.
    base = tree_starts(size) - 1
    top = np.empty(bound.shape[:1] + size.shape, dtype=np.int32)
    top[:] = base[:-1] + 1
    total = np.full(len(bound), NOWHERE, dtype=np.int32)
    for s in range(len(segment_start) - 1):
        # What another key left in the trees lies before this key's first event ``low``, so nothing need be cleared.
        low, high = segment_start[s], segment_start[s + 1]
        start = low
        while start < high:
            end = start + 1
            while end < high and instant[end] == instant[start]:
                end += 1
            # The trees hold the events before ``start``, and no other of the instant ``start:end``: simultaneous
            # events do not see each other, so all of them are read before any is written.
            for p in range(len(variable)):
                for edge in range(out_start[p], out_start[p + 1]):
                    q, table = target[edge], tables[edge]
                    for i in range(start, end):
                        if (mask[i] >> variable[q]) & 1 == 0:
                            continue
                        found = before[i, q]
                        if tested[edge]:
                            for d in range(start - 1, low - 1, -1):
                                if origin[d, p] <= found or horizon[d] <= i:
                                    continue
                                if _follows(joins, ranks, events, edge, d, i):
                                    found = origin[d, p]
                        elif table < 0:
                            found = max(found, total[edge])
                        elif bucket[table, i] >= 0:
                            b = first_bucket[table] + bucket[table, i]
                            rank = np.int64(ranked[table, i])
                            if begins[p]:
                                cell = _topmost(bound, edge, base[b] + 1, top[edge, b], rank, 1)
                                if cell > base[b]:
                                    found = max(found, entry[edge, cell])
                            else:
                                while rank <= size[b]:
                                    found = max(found, entry[edge, base[b] + rank])
                                    rank += rank & -rank
                        if found >= low:
                            before[i, q] = found
            for p in range(len(variable)):
                for i in range(start, end):
                    if (mask[i] >> variable[p]) & 1 == 0:
                        continue
                    value = np.int32(i) if begins[p] else before[i, p]
                    origin[i, p] = value
                    if value < 0:
                        continue
                    for edge in range(out_start[p], out_start[p + 1]):
                        table = tables[edge]
                        if tested[edge]:
                            continue
                        if table < 0:
                            total[edge] = max(total[edge], value)
                        elif wanted[table, i] >= 0:
                            b = first_bucket[table] + wanted[table, i]
                            rank = min(np.int64(limit[table, i]), size[b])
                            if not begins[p]:
                                while rank > 0:
                                    entry[edge, base[b] + rank] = max(entry[edge, base[b] + rank], value)
                                    rank -= rank & -rank
                            elif rank > 0:
                                top[edge, b] = _put_on_top(
                                    entry, bound, edge, base[b] + 1, top[edge, b], value, rank, 1
                                )
            start = end


@jit
def _backward(
    joins: Joins,
    ranks: Ranks,
    events: Events,
    horizon: Places,
    trees: Trees,
    origin: Places,
    reach: Places,
    after: Places,
) -> None:
    """Finds ``reach`` and ``after`` (``reach_after``) in one pass from the last event to the first.

    The stacks are for edges to states that end a trend.

    Parameters
    ----------
    joins : Joins
    ranks : Ranks
    events : Events
    horizon : int32 array, shape (events,)
        The first event that shares no window with each.
    trees : Trees
        Their entries are reaches, ``NEVER`` at first.
    origin : int32 array, shape (events, states)
        Where it is ``NOWHERE`` no trend comes by, and nothing is looked for.
    reach, after : int32 arrays, shape (events, states)
        The answer, ``NEVER`` at first.
    """
    first_bucket, size, entry, bound = trees
    bucket, ranked, wanted, limit = ranks
    variable, ends, out_start, target = joins.variable, joins.ends, joins.out_start, joins.target
    tables, tested = joins.table, joins.tested
    segment_start, instant = events.segment_start, events.instant
    # The cell before the first one of each bucket, as ranks count from 1; the cell after the last one of each stack;
    # the one value of an edge without predicates.
    base = tree_starts(size) - 1
    top = np.empty(bound.shape[:1] + size.shape, dtype=np.int32)
    top[:] = base[:-1] + 1
    total = np.full(len(bound), NEVER, dtype=np.int32)
    for s in range(len(segment_start) - 2, -1, -1):
        # What a later key left in the trees is not before this key's end ``high``, so nothing need be cleared.
        low, high = segment_start[s], segment_start[s + 1]
        end = high
        while end > low:
            start = end - 1
            while start > low and instant[start - 1] == instant[start]:
                start -= 1
            # The trees hold the events from ``end`` on, and no other of the instant ``start:end``.
            for p in range(len(variable)):
                for edge in range(out_start[p], out_start[p + 1]):
                    q, table = target[edge], tables[edge]
                    for i in range(start, end):
                        if origin[i, p] < 0:
                            continue
                        found = after[i, p]
                        if tested[edge]:
                            for d in range(end, horizon[i]):
                                if reach[d, q] < found and _follows(joins, ranks, events, edge, i, d):
                                    found = reach[d, q]
                        elif table < 0:
                            found = min(found, total[edge])
                        elif wanted[table, i] >= 0:
                            b = first_bucket[table] + wanted[table, i]
                            rank = min(np.int64(limit[table, i]), size[b])
                            if ends[q]:
                                cell = _topmost(bound, edge, base[b] + 1, top[edge, b], rank, -1)
                                if cell > base[b]:
                                    found = min(found, entry[edge, cell])
                            else:
                                while rank > 0:
                                    found = min(found, entry[edge, base[b] + rank])
                                    rank -= rank & -rank
                        if found < high:
                            after[i, p] = found
            for q in range(len(variable)):
                # The earliest of simultaneous events comes last, so that it is the top of a stack.
                for i in range(end - 1, start - 1, -1):
                    if origin[i, q] < 0:
                        continue
                    value = np.int32(i) if ends[q] else after[i, q]
                    reach[i, q] = value
                    if value == NEVER:
                        continue
                    for edge in range(len(target)):
                        table = tables[edge]
                        if target[edge] != q or tested[edge]:
                            continue
                        if table < 0:
                            total[edge] = min(total[edge], value)
                        elif bucket[table, i] >= 0:
                            b = first_bucket[table] + bucket[table, i]
                            rank = np.int64(ranked[table, i])
                            if ends[q]:
                                top[edge, b] = _put_on_top(
                                    entry, bound, edge, base[b] + 1, top[edge, b], value, rank, -1
                                )
                            else:
                                while rank <= size[b]:
                                    entry[edge, base[b] + rank] = min(entry[edge, base[b] + rank], value)
                                    rank += rank & -rank
            end = start
