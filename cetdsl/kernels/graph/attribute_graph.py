"""The attribute-based index of a graph: buckets of events by value, and the ranges of them that events point at.

Edges are not stored one by one where a predicate orders or equates values. The events of one state and one value of the
equality columns stand in a *bucket* in order of time, each with the rank of its value, and an event points at the range
of the bucket that is later, with the highest rank that its predicate allows (attribute-based indexing, ICPP 2021). So
the whole graph takes space in proportion to the events.

A window is a stretch of events. Four numbers per node tell what the window sees of the graph, so a graph is built once
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

from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.vocabulary import Bools, Graph, Ints, Places

#: No path begins before here; no path ends after here (beyond any event).
NOWHERE, NEVER = -1, 2**31 - 1


class Joins(NamedTuple):
    """The edges of a machine, ordered by their source state, as arrays.

    State ``q`` reads the variable with the bit number ``variable[q]``, and a trend may begin or end in it where
    ``begins`` or ``ends`` says so. The edges that leave it are ``out_start[q]:out_start[q + 1]``, each to the state
    ``target``.

    ``table`` is the row of :class:`Ranks` that answers an edge's indexed predicates; -1: any later event may follow. An
    edge is ``tested`` if it needs a test of every two events: by the rows
    ``comparison_start[edge]:comparison_start[edge + 1]`` of ``comparison``, predicates that no index answers (operator,
    column of the later event, column of the earlier one), and by its list predicates, which ``listed`` holds in the
    same way as numbers of rows of ``Events.list_start``.
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
    """The place of each event per table: its bucket as the later event, and the bucket it points at as the earlier one.

    The first four have the shape (tables, events). ``bucket`` is that which the event stands in (-1: none, because a
    value is NULL), and ``rank`` the rank of its value there, from 1; ``wanted`` is the bucket whose events may follow
    it (-1: none), and ``limit`` the highest rank there that its predicate allows. The buckets of all tables are
    numbered one after the other: ``first`` is the first one of each table, and at the end their number. The trees over
    the ranks of all buckets, up to the highest one, lie one after the other: ``tree`` says where each begins, and where
    the last ends.
    """

    bucket: Places
    rank: Places
    wanted: Places
    limit: Places
    first: Ints
    tree: Ints


class Ranges(NamedTuple):
    """The buckets of all edges, one after the other, and the ranges of them that nodes point at.

    The ranges of node ``v`` are ``first[v]:first[v + 1]``, one per out-edge of its state. Of the entries ``start:stop``
    of a range, those with ``rank <= limit`` follow. ``target`` are the nodes of all buckets, rising within each,
    ``rank`` the ranks of their values, and ``skip`` the least rank of every 64 entries.
    """

    first: Ints
    start: Ints
    stop: Ints
    limit: Places
    target: Places
    rank: Places
    skip: Places


class AttributeGraph(NamedTuple):
    """A graph whose edges are ranges of buckets.

    ``nodes`` are the useful nodes, with none of their successors listed: these are ``ranges`` of the buckets that
    ``ranks`` and ``joins``, the edges of the machine, lay out. ``instant`` numbers the instants of the nodes' events.
    """

    nodes: Graph
    ranges: Ranges
    instant: Ints
    ranks: Ranks
    joins: Joins


@jit
def number_buckets(joins: Joins, ranks: Ranks) -> tuple[Ints, Ints, int]:
    """Numbers the buckets of all edges, one after the other.

    Edges that agree in table and target share their buckets, which belong to the first of them. Returns the edge that
    the buckets of each edge belong to (``owner``), the number of their ``first`` one, and how many buckets there are.
    """
    edges = len(joins.target)
    owner, first = np.arange(edges), np.zeros(edges, dtype=np.int64)
    count = 0
    for edge in range(edges):
        table = joins.table[edge]
        for other in range(edge - 1, -1, -1):
            if joins.table[other] == table and joins.target[other] == joins.target[edge]:
                owner[edge] = other
        first[edge] = first[owner[edge]]
        if owner[edge] == edge:
            first[edge] = count
            count += 1 if table < 0 else ranks.first[table + 1] - ranks.first[table]
    return owner, first, count


@inlined
def bucket_of(joins: Joins, ranks: Ranks, edge: int, i: int, state: int) -> int:
    """Returns the bucket of an edge that event ``i`` in a state stands in; -1: none."""
    if state != joins.target[edge]:
        return -1
    return 0 if joins.table[edge] < 0 else int(ranks.bucket[joins.table[edge], i])


@inlined
def rank_of(joins: Joins, ranks: Ranks, edge: int, i: int) -> int:
    """Returns the rank of event ``i`` in its bucket of an edge."""
    return 1 if joins.table[edge] < 0 else int(ranks.rank[joins.table[edge], i])


@inlined
def wanted_of(joins: Joins, ranks: Ranks, edge: int, i: int) -> tuple[int, int]:
    """Returns the bucket of an edge whose events may follow event ``i``, and their highest rank; (-1, 0): none may."""
    table = joins.table[edge]
    if table < 0:
        return 0, 1
    if ranks.wanted[table, i] < 0:
        return -1, 0
    return int(ranks.wanted[table, i]), int(ranks.limit[table, i])
