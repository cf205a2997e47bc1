"""The attribute-based index of a graph: buckets of events by value, and the ranges of them that events point at.

A *node* is an event in a state of the machine. Where a predicate equates or orders values of two events, edges are not
stored one by one. The nodes of one state whose events agree in the columns that must be equal form a *bucket*, sorted
by time, and each has the rank of its value there. An earlier event stores the range of the bucket that is later than
itself, and the highest rank that its predicate allows: the entries of the range up to this rank are its successors
(attribute-based indexing, Mei et al., ICPP 2021). So the whole graph takes space in proportion to the events.

A window is a stretch of events. Four numbers per node tell which part of the graph a window sees, so a graph is built
once however many windows overlap:

=================  =================================================================================================
``origin``         the latest event at which a path to the node can begin (its own, if a trend may begin with it)
``origin_before``  the same over paths that come through a predecessor
``reach``          the earliest event at which a path from the node can end (its own, if a trend may end with it)
``reach_after``    the same over paths that go on through a successor
=================  =================================================================================================

A node lies on a trend of the window ``[low, high)`` if ``origin >= low`` and ``reach < high``; it has a predecessor
there if ``origin_before >= low``, and a successor if ``reach_after < high``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.vocabulary import Bools, Graph, Ints, Places

#: In place of an event: no path leads to the node (before all events); none leads from it to an end (after all events).
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
    """Where each event stands as a later event, and where it points as an earlier one, in each table.

    A *table* is the index of one set of predicates; edges with the same predicates share it. The first four arrays have
    the shape (tables, events). ``bucket`` is the one that the event stands in (-1: none, because a value is NULL), and
    ``rank`` the rank of its value there, from 1; ``wanted`` is the bucket whose events may follow it (-1: none), and
    ``limit`` the highest rank there that its predicate allows. The buckets of all tables are numbered one after the
    other: ``first`` is the first one of each table, and at the end their number. A tree over the ranks of a bucket has
    a cell per rank. The cells of all trees lie in one array: ``tree`` says where each tree begins, and where the last
    one ends.
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

    ``nodes`` are the useful nodes, those on a trend. Their successors are not listed there: ``ranges`` gives them as
    ranges of buckets, which ``joins``, the edges of the machine, and ``ranks`` define. ``instant`` is the number of the
    instant of each node's event.
    """

    nodes: Graph
    ranges: Ranges
    instant: Ints
    ranks: Ranks
    joins: Joins


@jit
def number_buckets(joins: Joins, ranks: Ranks) -> tuple[Ints, Ints, int]:
    """Numbers the buckets of all edges, one after the other.

    Edges that agree in table and target share their buckets; the first of these edges owns them. Returns, of each edge,
    the ``owner`` of its buckets and the number of the ``first`` of them, and how many buckets there are.
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
