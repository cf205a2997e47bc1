"""Finds each node's origin and reach in two passes over the events, and so which nodes lie on a trend at all.

For origin, reach, buckets and ranks see :mod:`~cetdsl.kernels.graph.attribute_graph`. The passes take time n log n,
because they read and write trees over the ranks of buckets and never look at an edge (but for edges whose predicates no
index answers). One kernel makes both passes: with time and edges reversed, the ends of trends become their begins, and
a reach becomes an origin.

Where a trend may begin with every event that an edge leaves, the latest predecessor alone decides the origin. So an
event is dropped as soon as a later one can be followed by all that can follow it. Those left in a bucket are a stack
sorted by rank. A search from its top ends after a few cells, which lie together in memory. The other edges use Fenwick
trees, each level of which may miss the caches.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.graph.attribute_graph import NEVER, NOWHERE, Joins, Ranks
from cetdsl.kernels.graph.windows import Roles
from cetdsl.kernels.machine.conditions import edge_holds
from cetdsl.kernels.vocabulary import Bools, Events, Ints, Places

#: What a pass knows of a node, as bits: whether it exists, and whether a path may begin with it.
EXISTS, STARTS = np.uint8(1), np.uint8(2)
#: Events that no edge needs.
_NONE = np.zeros(0, dtype=np.int64)


class _Course(NamedTuple):
    """The events and edges of a pass, in the direction in which it goes.

    Attributes
    ----------
    sign : int
        1: the pass goes with time; -1: it goes against time, and event ``i`` is the one ``i`` events before the last.
    segment_start, instant : int64 arrays
        As of :class:`~cetdsl.kernels.vocabulary.Events`, but along the pass: against time, instants fall.
    exists : uint8 array, shape (events, states)
        The bits :data:`EXISTS` and :data:`STARTS` of each node.
    oldest : int64 array, shape (events,)
        The first event, along the pass, that shares a window with each event; empty if no edge is tested.
    begins : bool array, shape (states,)
        The states in which a path may begin with every node.
    source, target : int64 arrays, shape (edges,)
        The states that each edge leads from and to.
    read, read_rank : int32 arrays, shape (tables, events)
        The bucket, and the rank in it, at which an event looks for its predecessors.
    write, write_rank : int32 arrays, shape (tables, events)
        The bucket, and the rank in it, at which its successors find an event.
    """

    sign: int
    segment_start: Ints
    instant: Ints
    exists: Roles
    oldest: Ints
    begins: Bools
    source: Ints
    target: Ints
    read: Places
    read_rank: Places
    write: Places
    write_rank: Places


class _Trees(NamedTuple):
    """A Fenwick tree or stack per bucket and edge, with a cell per rank; ``Ranks.tree`` says where each begins.

    ``entry``, of shape (edges, cells), holds the origins in the trees or stacks; ``bound``, of the same shape, holds
    the ranks of the entries of a stack; ``top``, of shape (edges, buckets), is the cell after the last one of each
    stack. An edge without predicates needs one entry only, ``total``.
    """

    entry: Places
    bound: Places
    top: Places
    total: Places


class Standing(NamedTuple):
    """The nodes that exist, and those with which a trend may begin and end; of shape (events, states)."""

    exists: Bools
    begins: Bools
    ends: Bools


def usual_standing(joins: Joins, events: Events) -> Standing:
    """Returns the nodes where the machine alone decides: an event exists in each state that reads one of its variables.

    The state then says whether a trend may begin or end with the node.
    """
    exists = (events.mask[:, None] >> joins.variable & 1).astype(np.bool_)
    return Standing(exists, exists & joins.begins, exists & joins.ends)


def find_origins(
    joins: Joins, ranks: Ranks, events: Events, horizon: Places, standing: Standing | None = None
) -> tuple[Places, Places]:
    """Finds ``origin`` and ``origin_before`` of every event (row) and state (column)."""
    # The horizon never falls, so the events that still share a window with event ``i`` are those from some event on.
    oldest = np.searchsorted(horizon, np.arange(len(horizon)), side="right") if joins.tested.any() else _NONE
    if standing is None:
        # The states alone say where trends begin.
        nodes, begins = (events.mask[:, None] >> joins.variable & 1).astype(np.uint8), joins.begins
    else:
        nodes, begins = _marked(standing.exists, standing.begins), _always(standing.exists, standing.begins)
    course = _Course(
        1,
        events.segment_start,
        events.instant,
        nodes,
        oldest,
        begins,
        *_ends_of_edges(joins),
        *ranks[:4],
    )
    return _pass_along(course, joins, ranks, events)


def find_reaches(
    joins: Joins, ranks: Ranks, events: Events, horizon: Places, exists: Bools, ends: Bools | None = None
) -> tuple[Places, Places]:
    """Finds ``reach`` and ``reach_after`` of every node that ``exists``.

    A trend may end with the nodes that ``ends`` names. None: with every node in a state in which trends end.
    """
    count = len(events.time)
    source, target = _ends_of_edges(joins)
    nodes = exists.view(np.uint8) if ends is None else _marked(exists, ends)
    course = _Course(
        -1,
        count - np.ascontiguousarray(events.segment_start[::-1]),
        np.ascontiguousarray(events.instant[::-1]),
        np.ascontiguousarray(nodes[::-1]),
        count - horizon[::-1].astype(np.int64) if joins.tested.any() else _NONE,
        joins.ends if ends is None else _always(exists, ends),
        target,
        source,
        *(np.ascontiguousarray(row[:, ::-1]) for row in (ranks.wanted, ranks.limit, ranks.bucket, ranks.rank)),
    )
    found = _pass_along(course, joins, ranks, events)
    reach, after = (np.where(latest < 0, np.int32(NEVER), count - 1 - latest)[::-1] for latest in found)
    return reach, after


def _marked(exists: Bools, starts: Bools) -> Roles:
    """Returns the bits of each node."""
    return exists * EXISTS | (exists & starts) * STARTS


def _always(exists: Bools, starts: Bools) -> Bools:
    """Whether a path may begin with each existing node of a state; one entry per state."""
    return np.logical_and.reduce(starts | ~exists, axis=0)  # type: ignore[no-any-return]


def _ends_of_edges(joins: Joins) -> tuple[Ints, Ints]:
    """Returns the source and the target of each edge."""
    return np.repeat(np.arange(len(joins.variable)), np.diff(joins.out_start)), joins.target


@jit
def find_horizon(segment_start: Ints, time: Ints, length: int) -> Places:
    """Finds for each event the first later one that can share no window with it, being too late or of another key."""
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
    """Whether an event may follow another one along an edge, apart from their times."""
    table = joins.table[edge]
    if table >= 0:
        if ranks.wanted[table, earlier] < 0 or ranks.wanted[table, earlier] != ranks.bucket[table, later]:
            return False
        if ranks.rank[table, later] > ranks.limit[table, earlier]:
            return False
    return edge_holds(joins, events, edge, earlier, later)


@inlined
def _topmost(bound: Places, edge: int, low: int, top: int, rank: np.int64, sign: int) -> int:
    """Returns the last cell of a stack ``low:top`` with ``sign * bound >= sign * rank``; ``low - 1`` if there is none.

    Such cells lie below all others of the stack. The search doubles its strides from the top down.
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
    """Pushes a new, later entry on a stack ``low:top``, in place of those with no better rank; returns the new top."""
    while top > low and sign * bound[edge, top - 1] <= sign * rank:
        top -= 1
    entry[edge, top], bound[edge, top] = new, rank
    return top + 1


def _pass_along(course: _Course, joins: Joins, ranks: Ranks, events: Events) -> tuple[Places, Places]:
    """Returns the latest event with which a path to each node begins, and the same over paths through a predecessor."""
    # NumPy makes the arrays that the pass writes to, because it asks the system for large pages: arrays made by Numba
    # have small pages, and the kernel would wait for each of them.
    edges = len(joins.target)
    entry, bound = np.full((2, edges, ranks.tree[-1]), NOWHERE, dtype=np.int32)
    top = np.tile(ranks.tree[:-1].astype(np.int32), (edges, 1))
    trees = _Trees(entry, bound, top, np.full(edges, NOWHERE, dtype=np.int32))
    origin, before = np.full((2, *course.exists.shape), NOWHERE, dtype=np.int32)
    _pass(course, joins, ranks, events, trees, origin, before)
    return origin, before


@jit
def _pass(
    course: _Course, joins: Joins, ranks: Ranks, events: Events, trees: _Trees, origin: Places, before: Places
) -> None:
    """Fills ``origin`` and ``before``, of shape (events, states) and ``NOWHERE`` at first, in one pass.

    ``joins``, ``ranks`` and ``events`` are in order of time, whichever way the course goes; edges that test every two
    events need them. All entries of the trees are ``NOWHERE`` at first.
    """
    # This is one function, and the arrays that it loops over have local names. If helpers got the trees as arguments,
    # or the loop read the fields of tuples, Numba would count references at each event: a tenth of the time.
    sign, segment_start, instant, exists, oldest, begins, source, target, read, read_rank, write, write_rank = course
    entry, bound, top, total = trees
    first_bucket, tree = ranks.first, ranks.tree
    tables, tested, latest = joins.table, joins.tested, len(instant) - 1
    for s in range(len(segment_start) - 1):
        # Origins that another key left in the trees are before this key's first event ``low``, and are ignored.
        low, high = segment_start[s], segment_start[s + 1]
        start = low
        while start < high:
            end = start + 1
            while end < high and instant[end] == instant[start]:
                end += 1
            # Simultaneous events never follow each other. So all events of the instant ``start:end`` read the trees,
            # which hold the events before ``start``, before any of them writes.
            for edge in range(len(target)):
                p, q, table = source[edge], target[edge], tables[edge]
                for i in range(start, end):
                    if exists[i, q] == 0:
                        continue
                    found = before[i, q]
                    if tested[edge]:
                        for d in range(start - 1, max(low, oldest[i]) - 1, -1):
                            if origin[d, p] > found:
                                earlier, later = (d, i) if sign > 0 else (latest - i, latest - d)
                                if _follows(joins, ranks, events, edge, earlier, later):
                                    found = origin[d, p]
                    elif table < 0:
                        found = max(found, total[edge])
                    elif read[table, i] >= 0:
                        b = first_bucket[table] + read[table, i]
                        base, size = tree[b] - 1, tree[b + 1] - tree[b]
                        rank = min(np.int64(read_rank[table, i]), size)
                        if begins[p]:
                            cell = _topmost(bound, edge, base + 1, top[edge, b], rank, sign)
                            if cell > base:
                                found = max(found, entry[edge, cell])
                        else:
                            # With time, the tree holds limits, and those from the event's rank up are wanted; against
                            # time, it holds ranks, and those up to the event's limit are wanted.
                            while 0 < rank <= size:
                                found = max(found, entry[edge, base + rank])
                                rank += sign * (rank & -rank)
                    if found >= low:
                        before[i, q] = found
            for p in range(len(begins)):
                always = begins[p]
                for i in range(start, end):
                    if exists[i, p]:
                        starts = always or exists[i, p] >= STARTS
                        origin[i, p] = np.int32(i) if starts else before[i, p]
            for edge in range(len(target)):
                p, table = source[edge], tables[edge]
                for i in range(start, end):
                    value = origin[i, p]
                    if value < 0 or tested[edge]:
                        continue
                    if table < 0:
                        total[edge] = max(total[edge], value)
                    elif write[table, i] >= 0:
                        b = first_bucket[table] + write[table, i]
                        base, size = tree[b] - 1, tree[b + 1] - tree[b]
                        rank = min(np.int64(write_rank[table, i]), size)
                        if not begins[p]:
                            while 0 < rank <= size:
                                entry[edge, base + rank] = max(entry[edge, base + rank], value)
                                rank -= sign * (rank & -rank)
                        elif rank > 0:
                            top[edge, b] = _put_on_top(entry, bound, edge, base + 1, top[edge, b], value, rank, sign)
            start = end
