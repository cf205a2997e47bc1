"""The attribute-based index of a graph: buckets of events by value, and the ranges of them that events point at.

Edges are not stored one by one where a predicate orders or equates values. The events of one state and one value of the
equality columns stand in a *bucket* in order of time, each with the rank of its value, and an event points at the range
of the bucket that is later, with the highest rank that its predicate allows (attribute-based indexing, ICPP 2021). So
the whole graph takes space in proportion to the events.

A window is a stretch of events. What it sees of the graph follows from four numbers per node, so a graph is built once
however many windows overlap:

=================  =================================================================================================
``origin``         the latest event with which a path to the node begins (its own, if it may begin)
``origin_before``  the same over paths through a predecessor
``reach``          the earliest event with which a path from the node ends (its own, if it may end)
``reach_after``    the same over paths through a successor
=================  =================================================================================================

A node lies on a trend of the window ``[low, high)`` if ``origin >= low`` and ``reach < high``; it has a predecessor
there if ``origin_before >= low``, and a successor if ``reach_after < high``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cetdsl.kernels._jit import jit
from cetdsl.kernels.vocabulary import Bools, Ints, Places

#: No path begins before here; no path ends after here (beyond any event).
NOWHERE, NEVER = -1, 2**31 - 1


class Joins(NamedTuple):
    """The edges of a machine, ordered by their source state, as arrays.

    Attributes
    ----------
    variable : int64 array, shape (states,)
        Bit number of the variable that each state reads.
    begins, ends : bool arrays, shape (states,)
        Whether a trend may begin, or end, in the state.
    out_start : int64 array, shape (states + 1,)
        The edges that leave state ``q`` are ``out_start[q]:out_start[q + 1]``.
    target : int64 array, shape (edges,)
        The state that each edge leads to.
    table : int64 array, shape (edges,)
        The row of :class:`Ranks` that answers the edge's indexed predicates; -1: any later event may follow.
    tested : bool array, shape (edges,)
        Whether the edge needs a test of every two events, by the fields that follow.
    comparison_start : int64 array, shape (edges + 1,)
    comparison : int64 array, shape (comparisons, 3)
        Predicates that no index answers: operator, column of the later event, column of the earlier one.
    listed_start : int64 array, shape (edges + 1,)
    listed : int64 array
        List predicates of each edge, as numbers of rows of ``Events.list_start``.
    """

    variable: Ints
    begins: Bools
    ends: Bools
    out_start: Ints
    target: Ints
    table: Ints
    tested: Bools
    comparison_start: Ints
    comparison: Ints
    listed_start: Ints
    listed: Ints


class Ranks(NamedTuple):
    """Where each event stands per table: in a bucket as the later event, and what it points at as the earlier one.

    All arrays have the shape (tables, events).

    Attributes
    ----------
    bucket : int32 array
        The bucket that the event stands in; -1: none, because a value is NULL.
    rank : int32 array
        The rank of its value there, from 1.
    wanted : int32 array
        The bucket whose events may follow it; -1: none.
    limit : int32 array
        The highest rank there that its predicate allows.
    """

    bucket: Places
    rank: Places
    wanted: Places
    limit: Places


class AttributeGraph(NamedTuple):
    """Useful nodes, and the ranges of buckets that they point at.

    Attributes
    ----------
    event : int64 array, shape (nodes,)
        Rising; the nodes of one event are neighbours.
    state : int32 array, shape (nodes,)
    begins, ends : bool arrays, shape (nodes,)
    origin, origin_before, reach, reach_after : int32 arrays, shape (nodes,)
        Event numbers, see the module; ``NOWHERE`` and ``NEVER`` for none.
    first_range : int64 array, shape (nodes + 1,)
        The ranges of node ``v`` are ``first_range[v]:first_range[v + 1]``, one per out-edge of its state.
    start, stop : int64 arrays, shape (ranges,)
        The range as part of ``target``.
    limit : int32 array, shape (ranges,)
        The entries of the range with ``rank <= limit`` follow.
    target, rank : int32 arrays
        The nodes of all buckets, rising within each, and the ranks of their values.
    skip : int32 array
        The least rank of every 64 entries.
    instant : int64 array, shape (nodes,)
        Number of the instant of the node's event.
    ranks : Ranks
        The buckets of the events.
    """

    event: Ints
    state: Places
    begins: Bools
    ends: Bools
    origin: Places
    origin_before: Places
    reach: Places
    reach_after: Places
    first_range: Ints
    start: Ints
    stop: Ints
    limit: Places
    target: Places
    rank: Places
    skip: Places
    instant: Ints
    ranks: Ranks


@jit
def bucket_starts(ranks: Ranks) -> Ints:
    """The first bucket of each table, if the buckets of all tables are numbered one after the other."""
    tables, count = ranks.bucket.shape
    first = np.zeros(tables + 1, dtype=np.int64)
    for t in range(tables):
        largest = 0
        for i in range(count):
            largest = max(largest, ranks.bucket[t, i] + 1, ranks.wanted[t, i] + 1)
        first[t + 1] = first[t] + largest
    return first


@jit
def bucket_ranks(ranks: Ranks, first_bucket: Ints) -> Ints:
    """The highest rank in each bucket, which is the size of a tree over its ranks."""
    tables, count = ranks.bucket.shape
    size = np.zeros(first_bucket[tables], dtype=np.int64)
    for t in range(tables):
        for i in range(count):
            if ranks.bucket[t, i] >= 0:
                bucket = first_bucket[t] + ranks.bucket[t, i]
                size[bucket] = max(size[bucket], ranks.rank[t, i])
    return size


@jit
def tree_starts(size: Ints) -> Ints:
    """Where the tree of each bucket begins, if they lie one after the other."""
    start = np.zeros(len(size) + 1, dtype=np.int64)
    for bucket in range(len(size)):
        start[bucket + 1] = start[bucket] + size[bucket]
    return start
