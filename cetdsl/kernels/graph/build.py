"""The graph of a query's trends: attribute-based ranges, useful nodes, edges, and the transitive reduction.

A node is an event in a state of the machine, and a trend is a path. Edges are not stored one by one where a predicate
orders or equates values. The events of one state and one value of the equality columns stand on a *list* in order of
time, each with the rank of its value, and an event points at the stretch of the list that is later, with the highest
rank that its predicate allows (attribute-based indexing, ICPP 2021). So the whole graph takes space in proportion to
the events, and its passes, which find what lies on a trend at all, take n log n.

A window is a stretch of events. What it sees of the graph follows from four numbers per node, so a graph is built once
however many windows overlap:

================  ==================================================================================================
``origin``        the latest event with which a path to the node begins (its own, if it may begin)
``origin_before``  the same over paths through a predecessor
``reach``         the earliest event with which a path from the node ends (its own, if it may end)
``reach_after``   the same over paths through a successor
================  ==================================================================================================

A node lies on a trend of the window ``[low, high)`` if ``origin >= low`` and ``reach < high``; it has a predecessor
there if ``origin_before >= low``, and a successor if ``reach_after < high``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cetdsl.ir.machine import Comparison, Edge, Machine
from cetdsl.ir.steps import ORDERS, steps_of
from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.machine.conditions import edge_holds
from cetdsl.kernels.machine.program import OPERATORS, Layout, build_tables, lay_out
from cetdsl.kernels.vocabulary import Bools, Events, Graph, Ints, Places
from cetdsl.pattern.expressions import MIRRORED

#: No path begins before here; no path ends after here (beyond any event).
NOWHERE, NEVER = -1, 2**31 - 1
#: Bytes for the bit maps of a transitive reduction.
_REDUCTION_BYTES = 64 * 2**20
#: Entries of a list that one entry of the skip table stands for, as a power of two.
_SKIP_BITS = 6


class Joins(NamedTuple):
    """The edges of a machine by source: which list the later event stands on, and what must be tested besides.

    ``table`` numbers the tables of :class:`Ranks`, -1 where every later event of the target may follow.
    """

    variable: Ints
    begins: Bools
    ends: Bools
    out_start: Ints
    target: Ints
    table: Ints
    comparison_start: Ints
    comparison: Ints
    listed_start: Ints
    listed: Ints


class Ranks(NamedTuple):
    """Where each event stands per table: as the later event on a list, and as the earlier one that points at it.

    Arrays of shape (tables, n). An event is on the list ``bucket`` with its ``rank`` (from 1); it points at the list
    ``wanted`` up to the rank ``limit``. -1: no list (a NULL, or nobody that could follow).
    """

    bucket: Places
    rank: Places
    wanted: Places
    limit: Places


class Abi(NamedTuple):
    """Useful nodes and what they point at.

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
        A stretch of ``target``.
    limit : int32 array, shape (ranges,)
        The entries of the stretch with ``rank <= limit`` follow.
    target, rank : int32 arrays
        Nodes, rising along each list, and the ranks of their values.
    skip : int32 array
        The least rank of every 64 entries.
    instant : int64 array, shape (nodes,)
        Number of the instant of the node's event.
    ranks : Ranks
        Where the events stand on the lists.
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


class _Trees(NamedTuple):
    """A Fenwick tree or stack of each list for each edge.

    Attributes
    ----------
    names : int64 array, shape (tables + 1,)
        The lists of each table.
    size : int64 array, shape (lists,)
        The highest rank of each list.
    entry, bound : int32 arrays, shape (edges, ranks of all lists)
        The trees or stacks, and the bounds of what is on a stack.
    """

    names: Ints
    size: Ints
    entry: Places
    bound: Places


class _Stretches(NamedTuple):
    """The stretches of each node, ``first_range[v]:first_range[v + 1]``, as those of :class:`Abi`."""

    first_range: Ints
    start: Ints
    stop: Ints
    limit: Places


# ------------------------------------------------------------------------------------------------------- layout


class GraphBuilder:
    """Builds the graphs of one query, chunk after chunk of sorted events.

    Parameters
    ----------
    machine : Machine
        Its guards lowered to comparisons (:func:`~cetdsl.kernels.machine.program.lower_guards`).
    length : int
        Two events that are so far apart or more share no window; 0: all share one.
    """

    def __init__(self, machine: Machine, length: int = 0) -> None:
        self.machine = machine
        self.length = length
        steps = steps_of(machine)
        edges = [step.edge for step in steps]
        states = len(machine.variables)
        self._keys: list[tuple[Comparison, ...]] = []
        table, tests, listed = [], [], []
        for step in steps:
            if step.index and step.index not in self._keys:
                self._keys.append(step.index)
            table.append(self._keys.index(step.index) if step.index else -1)
            tests.append([(OPERATORS[c.op], c.later, c.earlier) for c in step.rest])
            listed.append(list(step.edge.listed))
        initial, final = {state for state, _ in machine.initial}, {state for state, _ in machine.final}
        self.joins = Joins(
            _ints(machine.variables),
            np.array([q in initial for q in range(states)], dtype=np.bool_),
            np.array([q in final for q in range(states)], dtype=np.bool_),
            _starts([[e for e in edges if e.source == q] for q in range(states)]),
            _ints([edge.target for edge in edges]),
            _ints(table),
            _starts(tests),
            np.array([test for group in tests for test in group], dtype=np.int64).reshape(-1, 3),
            _starts(listed),
            _ints([item for group in listed for item in group]),
        )

    def build(self, events: Events) -> Abi:
        """The useful nodes of a chunk of events, and their ranges.

        Examples
        --------
        Checks A->B, B->C, B->D, D->E, each drawn on the account into which the one before it was deposited:

        >>> machine = Machine((0,), ((0, ()),), ((0, ()),), (Edge(0, 0, (Comparison("=", 0, 1),)),))
        >>> time, none = np.arange(4), np.zeros((0, 5), dtype=np.int64)
        >>> codes = np.array([[0, 1, 1, 3], [1, 2, 3, 4]])  # source, destination
        >>> ones = np.ones((2, 4), dtype=np.bool_)
        >>> events = Events(np.array([0, 4]), time, time, time * 0 + 1, codes, ones, none, none[:, 0])
        >>> abi = GraphBuilder(machine).build(events)
        >>> [abi.target[abi.start[v] : abi.stop[v]].tolist() for v in range(4)]
        [[1, 2], [], [3], []]
        """
        ranks = self._ranks(events)
        horizon = _horizon(events.segment_start, events.time, self.length)
        origin, origin_before = self._room(len(events.time), NOWHERE)
        _forward(self.joins, ranks, events, horizon, self._trees(ranks, NOWHERE), origin, origin_before)
        reach, reach_after = self._room(len(events.time), NEVER)
        _backward(self.joins, ranks, events, horizon, self._trees(ranks, NEVER), origin, reach, reach_after)
        useful = (origin >= 0) & (reach != NEVER)
        event, state = np.nonzero(useful)
        ranges = _ranges(self.joins, ranks, events, horizon, event, state, self._stretches(state))
        return Abi(
            event,
            state.astype(np.int32),
            self.joins.begins[state],
            self.joins.ends[state],
            origin[useful],
            origin_before[useful],
            reach[useful],
            reach_after[useful],
            *ranges,
            events.instant[event],
            ranks,
        )

    # What follows is made by NumPy, which asks the system for large pages: a kernel of Numba would wait for each small
    # one.

    def _room(self, events: int, value: int) -> tuple[Places, Places]:
        """Two numbers for every event and state."""
        first, second = np.full((2, events, len(self.joins.variable)), value, dtype=np.int32)
        return first, second

    def _trees(self, ranks: Ranks, value: int) -> _Trees:
        names = name_starts(ranks)
        size = _sizes(ranks, names)
        return _Trees(names, size, *np.full((2, len(self.joins.target), int(size.sum())), value, dtype=np.int32))

    def _stretches(self, state: Ints) -> _Stretches:
        """Room for the stretches of nodes in these states."""
        first = np.zeros(len(state) + 1, dtype=np.int64)
        np.cumsum(np.diff(self.joins.out_start)[state], out=first[1:])
        start, stop = np.zeros((2, first[-1]), dtype=np.int64)
        return _Stretches(first, start, stop, np.ones(first[-1], dtype=np.int32))

    def _ranks(self, events: Events) -> Ranks:
        """The lists of each key, and where every event stands on them.

        Read against time, an edge leads from the later event to the earlier one. Then the index tables of the machine
        place the later events in order of their values, and say how many of them an earlier event's predicate allows.
        """
        count = len(events.time)
        shape = (len(self._keys), count)
        out = Ranks(*np.full((4, *shape), -1, dtype=np.int32))
        backward = tuple(
            Edge(0, 0, tuple(Comparison(MIRRORED[c.op], c.earlier, c.later) for c in key)) for key in self._keys
        )
        for row, edge in enumerate(backward):
            layout: Layout = lay_out(Machine((0,), (), (), (edge,)))
            tables = build_tables(layout, events)
            if layout.trees:
                on_list = tables.update_position[0] > 0
                pointing = tables.query_length[0] > 0
                out.bucket[row] = np.where(on_list, tables.update_base[0], -1)
                out.rank[row] = tables.update_position[0]
                out.wanted[row] = np.where(pointing, tables.query_base[0], -1)
                out.limit[row] = tables.query_length[0]
            else:
                out.bucket[row], out.wanted[row] = tables.hash_update[0], tables.hash_query[0]
                out.rank[row] = out.limit[row] = 1
        return out


def is_indexed(machine: Machine) -> bool:
    """Whether no edge needs a test of every two events."""
    return all(not step.edge.listed and not step.rest for step in steps_of(machine))


def _ints(values: object) -> Ints:
    return np.array(list(values), dtype=np.int64)  # type: ignore[call-overload]


def _starts(groups: list[list[Edge]] | list[list[tuple[int, int, int]]] | list[list[int]]) -> Ints:
    return np.cumsum([0, *map(len, groups)]).astype(np.int64)


@jit
def _horizon(segment_start: Ints, time: Ints, length: int) -> Places:
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


# ------------------------------------------------------------------------------------------------------ prefilter


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


@inlined
def is_tested(joins: Joins, edge: int) -> bool:
    """Whether an edge needs a test of every two events."""
    tests = joins.comparison_start[edge] < joins.comparison_start[edge + 1]
    return bool(tests or joins.listed_start[edge] < joins.listed_start[edge + 1])


@jit
def name_starts(ranks: Ranks) -> Ints:
    """Where the numbers of each table's lists begin, if those of all tables are numbered one after the other."""
    tables, count = ranks.bucket.shape
    names = np.zeros(tables + 1, dtype=np.int64)
    for t in range(tables):
        largest = 0
        for i in range(count):
            largest = max(largest, ranks.bucket[t, i] + 1, ranks.wanted[t, i] + 1)
        names[t + 1] = names[t] + largest
    return names


@jit
def _sizes(ranks: Ranks, names: Ints) -> Ints:
    """The highest rank of each list (Fenwick tree)."""
    tables, count = ranks.bucket.shape
    size = np.zeros(names[tables], dtype=np.int64)
    for t in range(tables):
        for i in range(count):
            if ranks.bucket[t, i] >= 0:
                name = names[t] + ranks.bucket[t, i]
                size[name] = max(size[name], ranks.rank[t, i])
    return size


@jit
def _tree_starts(size: Ints) -> Ints:
    start = np.zeros(len(size) + 1, dtype=np.int64)
    for name in range(len(size)):
        start[name + 1] = start[name] + size[name]
    return start


# Where each event that an edge leaves begins a trend itself, the latest predecessor of all is asked for: events that a
# later one outdoes are dropped, and those left are a stack whose ranks fall or rise, which is searched from its end on
# in a few places that lie together. Fenwick trees, of which each step may miss the caches, are for the other edges.


@inlined
def _topmost(bound: Places, low: int, top: int, rank: int, sign: int) -> int:
    """The last place of a stack ``low:top`` with ``sign * bound >= sign * rank``; ``low - 1`` if there is none.

    These places come first. The search doubles its steps from the top down.
    """
    step, high = 1, top
    while high - step >= low and sign * bound[high - step] < sign * rank:
        high -= step
        step *= 2
    bottom = max(high - step, low - 1)
    while bottom + 1 < high:
        middle = (bottom + high) // 2
        if sign * bound[middle] >= sign * rank:
            bottom = middle
        else:
            high = middle
    return bottom


@inlined
def _put_on_top(value: Places, bound: Places, low: int, top: int, new: np.int32, rank: np.int64, sign: int) -> int:
    """Drops the places of a stack ``low:top`` that a new value outdoes, puts it there, and returns the new top."""
    while top > low and sign * bound[top - 1] <= sign * rank:
        top -= 1
    value[top], bound[top] = new, rank
    return top + 1


@jit
def _forward(
    joins: Joins,
    ranks: Ranks,
    events: Events,
    horizon: Places,
    lists: _Trees,
    origin: Places,
    before: Places,
) -> None:
    """``origin`` and ``origin_before`` of every event and state, in one pass over the events.

    Each edge has a Fenwick tree per list, or a stack. An event raises the entries of all ranks that it allows to its
    origin, and reads those that allow its own. A list without order has one rank. What another key left behind lies
    before this key's first event, so nothing need be cleared.
    """
    states, edges = len(joins.variable), len(joins.target)
    names, size, trees, bound = lists
    tree_start = _tree_starts(size)
    top = np.empty((edges, len(size)), dtype=np.int32)
    top[:] = tree_start[:-1]
    total = np.full(edges, NOWHERE, dtype=np.int32)
    for s in range(len(events.segment_start) - 1):
        low, high = events.segment_start[s], events.segment_start[s + 1]
        start = low
        while start < high:
            end = start + 1
            while end < high and events.instant[end] == events.instant[start]:
                end += 1
            # Simultaneous events do not see each other, so reading comes before writing.
            for p in range(states):
                for edge in range(joins.out_start[p], joins.out_start[p + 1]):
                    q, table = joins.target[edge], joins.table[edge]
                    for i in range(start, end):
                        if (events.mask[i] >> joins.variable[q]) & 1 == 0:
                            continue
                        found = before[i, q]
                        if is_tested(joins, edge):
                            for d in range(start - 1, low - 1, -1):
                                if origin[d, p] <= found or horizon[d] <= i:
                                    continue
                                if _follows(joins, ranks, events, edge, d, i):
                                    found = origin[d, p]
                        elif table < 0:
                            found = max(found, total[edge])
                        elif ranks.bucket[table, i] >= 0:
                            name = names[table] + ranks.bucket[table, i]
                            position, base = ranks.rank[table, i], tree_start[name] - 1
                            if joins.begins[p]:
                                place = _topmost(bound[edge], base + 1, top[edge, name], position, 1)
                                if place > base:
                                    found = max(found, trees[edge, place])
                            else:
                                while position <= size[name]:
                                    found = max(found, trees[edge, base + position])
                                    position += position & -position
                        if found >= low:
                            before[i, q] = found
            for p in range(states):
                for i in range(start, end):
                    if (events.mask[i] >> joins.variable[p]) & 1 == 0:
                        continue
                    value = np.int32(i) if joins.begins[p] else before[i, p]
                    origin[i, p] = value
                    if value < 0:
                        continue
                    for edge in range(joins.out_start[p], joins.out_start[p + 1]):
                        table = joins.table[edge]
                        if is_tested(joins, edge):
                            continue
                        if table < 0:
                            total[edge] = max(total[edge], value)
                        elif ranks.wanted[table, i] >= 0:
                            name = names[table] + ranks.wanted[table, i]
                            base = tree_start[name] - 1
                            position = min(np.int64(ranks.limit[table, i]), size[name])
                            if not joins.begins[p]:
                                while position > 0:
                                    trees[edge, base + position] = max(trees[edge, base + position], value)
                                    position -= position & -position
                            elif position > 0:
                                top[edge, name] = _put_on_top(
                                    trees[edge], bound[edge], base + 1, top[edge, name], value, position, 1
                                )
            start = end


@jit
def _backward(
    joins: Joins,
    ranks: Ranks,
    events: Events,
    horizon: Places,
    lists: _Trees,
    origin: Places,
    reach: Places,
    after: Places,
) -> None:
    """``reach`` and ``reach_after`` of every event and state that a path from a begin leads to.

    As :func:`_forward`, from the last event to the first: an event lowers the entry of its own rank to its reach, and
    reads those of all ranks that it allows. The stacks are for edges to states that end a trend.
    """
    states, edges = len(joins.variable), len(joins.target)
    names, size, trees, bound = lists
    tree_start = _tree_starts(size)
    top = np.empty((edges, len(size)), dtype=np.int32)
    top[:] = tree_start[:-1]
    total = np.full(edges, NEVER, dtype=np.int32)
    for s in range(len(events.segment_start) - 2, -1, -1):
        low, high = events.segment_start[s], events.segment_start[s + 1]
        end = high
        while end > low:
            start = end - 1
            while start > low and events.instant[start - 1] == events.instant[start]:
                start -= 1
            for p in range(states):
                for edge in range(joins.out_start[p], joins.out_start[p + 1]):
                    q, table = joins.target[edge], joins.table[edge]
                    for i in range(start, end):
                        if origin[i, p] < 0:
                            continue
                        found = after[i, p]
                        if is_tested(joins, edge):
                            for d in range(end, horizon[i]):
                                if reach[d, q] < found and _follows(joins, ranks, events, edge, i, d):
                                    found = reach[d, q]
                        elif table < 0:
                            found = min(found, total[edge])
                        elif ranks.wanted[table, i] >= 0:
                            name = names[table] + ranks.wanted[table, i]
                            base = tree_start[name] - 1
                            position = min(np.int64(ranks.limit[table, i]), size[name])
                            if joins.ends[q]:
                                place = _topmost(bound[edge], base + 1, top[edge, name], position, -1)
                                if place > base:
                                    found = min(found, trees[edge, place])
                            else:
                                while position > 0:
                                    found = min(found, trees[edge, base + position])
                                    position -= position & -position
                        if found < high:
                            after[i, p] = found
            for q in range(states):
                for i in range(end - 1, start - 1, -1):
                    if origin[i, q] < 0:
                        continue
                    value = np.int32(i) if joins.ends[q] else after[i, q]
                    reach[i, q] = value
                    if value == NEVER:
                        continue
                    for p in range(states):
                        for edge in range(joins.out_start[p], joins.out_start[p + 1]):
                            table = joins.table[edge]
                            if joins.target[edge] != q or is_tested(joins, edge):
                                continue
                            if table < 0:
                                total[edge] = min(total[edge], value)
                            elif ranks.bucket[table, i] >= 0:
                                name = names[table] + ranks.bucket[table, i]
                                position, base = np.int64(ranks.rank[table, i]), tree_start[name] - 1
                                if joins.ends[q]:
                                    top[edge, name] = _put_on_top(
                                        trees[edge], bound[edge], base + 1, top[edge, name], value, position, -1
                                    )
                                else:
                                    while position <= size[name]:
                                        trees[edge, base + position] = min(trees[edge, base + position], value)
                                        position += position & -position
            end = start


# -------------------------------------------------------------------------------------------------------- ranges


@inlined
def _first_not_before(target: Places, event: Ints, place: int, high: int, bound: int) -> int:
    """The first entry of a list, from a place on, whose event is not before a bound."""
    while place < high and event[target[place]] < bound:
        place += 1
    return place


@jit
def _ranges(
    joins: Joins, ranks: Ranks, events: Events, horizon: Places, event: Ints, state: Ints, stretches: _Stretches
) -> tuple[Ints, Ints, Ints, Places, Places, Places, Places]:
    """The lists of all edges, and each node's stretches of them."""
    first_range, start, stop, limit = stretches
    nodes, edges = len(event), len(joins.target)
    names = name_starts(ranks)
    # Each (table, target state) has its lists side by side; edges that agree in both share them.
    owner = np.empty(edges, dtype=np.int64)
    for edge in range(edges):
        owner[edge] = edge
        for other in range(edge - 1, -1, -1):
            if joins.table[other] == joins.table[edge] and joins.target[other] == joins.target[edge]:
                owner[edge] = owner[other]
    first_name = np.zeros(edges + 1, dtype=np.int64)
    for edge in range(edges):
        table = joins.table[edge]
        width = 1 if table < 0 else names[table + 1] - names[table]
        first_name[edge + 1] = first_name[edge] + (width if owner[edge] == edge else 0)
    begin = np.zeros(first_name[edges] + 1, dtype=np.int64)
    for edge in range(edges):
        if owner[edge] != edge:
            continue
        table = joins.table[edge]
        for v in range(nodes):
            if state[v] == joins.target[edge]:
                name = 0 if table < 0 else ranks.bucket[table, event[v]]
                if name >= 0:
                    begin[first_name[edge] + name + 1] += 1
    for name in range(first_name[edges]):
        begin[name + 1] += begin[name]
    entries = begin[first_name[edges]]
    target = np.empty(entries, dtype=np.int32)
    rank = np.ones(entries, dtype=np.int32)
    fill = begin.copy()
    for edge in range(edges):
        if owner[edge] != edge:
            continue
        table = joins.table[edge]
        for v in range(nodes):
            if state[v] == joins.target[edge]:
                name = 0 if table < 0 else ranks.bucket[table, event[v]]
                if name >= 0:
                    place = fill[first_name[edge] + name]
                    fill[first_name[edge] + name] += 1
                    target[place] = v
                    if table >= 0:
                        rank[place] = ranks.rank[table, event[v]]
    # Where the stretches of each list that were found last begin and end.
    opened, closed = begin[:-1].copy(), begin[:-1].copy()
    tested, following = 0, 0
    for v in range(nodes):
        i = event[v]
        while following < len(events.instant) and events.instant[following] <= events.instant[i]:
            following += 1
        for edge in range(joins.out_start[state[v]], joins.out_start[state[v] + 1]):
            place = first_range[v] + edge - joins.out_start[state[v]]
            table = joins.table[edge]
            name = 0 if table < 0 else ranks.wanted[table, i]
            if name < 0:
                continue
            number = first_name[owner[edge]] + name
            # Events come in order of time, so a list's stretches begin and end ever later.
            high = begin[number + 1]
            opened[number] = _first_not_before(target, event, opened[number], high, following)
            closed[number] = _first_not_before(target, event, max(closed[number], opened[number]), high, horizon[i])
            start[place], stop[place] = opened[number], closed[number]
            if table >= 0:
                limit[place] = ranks.limit[table, i]
            if is_tested(joins, edge):
                for k in range(start[place], stop[place]):
                    if rank[k] <= limit[place] and edge_holds(joins, events, edge, i, event[target[k]]):
                        tested += 1
    if len(joins.comparison) or len(joins.listed):
        # Edges whose predicates no index answers get a stretch of their own, one entry per successor.
        more = np.empty(entries + tested, dtype=np.int32)
        more[:entries] = target
        at = entries
        for v in range(nodes):
            for edge in range(joins.out_start[state[v]], joins.out_start[state[v] + 1]):
                if not is_tested(joins, edge):
                    continue
                place = first_range[v] + edge - joins.out_start[state[v]]
                begun = at
                for k in range(start[place], stop[place]):
                    if rank[k] <= limit[place] and edge_holds(joins, events, edge, event[v], event[target[k]]):
                        more[at] = target[k]
                        at += 1
                start[place], stop[place], limit[place] = begun, at, 1
        wider = np.ones(entries + tested, dtype=np.int32)
        wider[:entries] = rank
        target, rank = more, wider
    skip = np.full((len(target) >> _SKIP_BITS) + 1, NEVER, dtype=np.int32)
    for k in range(len(target)):
        skip[k >> _SKIP_BITS] = min(skip[k >> _SKIP_BITS], rank[k])
    return first_range, start, stop, limit, target, rank, skip


@inlined
def next_entry(rank: Places, skip: Places, place: int, stop: int, limit: int) -> int:
    """The first entry from a place on whose rank is within the limit; ``stop`` if there is none."""
    while place < stop:
        if rank[place] <= limit:
            return place
        place += 1
        while place < stop and place & ((1 << _SKIP_BITS) - 1) == 0 and skip[place >> _SKIP_BITS] > limit:
            place += 1 << _SKIP_BITS
    return stop


# --------------------------------------------------------------------------------------------------------- edges


@jit
def count_edges(abi: Abi) -> Ints:
    """The number of successors of each node."""
    out = np.zeros(len(abi.event), dtype=np.int64)
    for v in range(len(abi.event)):
        for r in range(abi.first_range[v], abi.first_range[v + 1]):
            limit, place = abi.limit[r], abi.start[r]
            while place < abi.stop[r]:
                end = min(((place >> _SKIP_BITS) + 1) << _SKIP_BITS, abi.stop[r])
                if abi.skip[place >> _SKIP_BITS] <= limit:
                    for rank in abi.rank[place:end]:
                        out[v] += rank <= limit
                place = end
    return out


def list_edges(abi: Abi, most: int = 2**31) -> Graph | None:
    """The graph with its successors listed; None if these are more than ``most``.

    Where every node has one stretch of a list whose ranks all agree, nothing is copied.
    """
    single = bool((np.diff(abi.first_range) == 1).all()) and bool((abi.rank == 1).all())
    if single:
        return _as_graph(abi, abi.start, abi.stop, abi.target)
    degree = count_edges(abi)
    if degree.sum() > most:
        return None
    return _as_graph(abi, *_listed_edges(abi, degree))


def _as_graph(abi: Abi, start: Ints, stop: Ints, target: Places) -> Graph:
    return Graph(*abi[:8], start, stop, target)


@jit
def _listed_edges(abi: Abi, degree: Ints) -> tuple[Ints, Ints, Places]:
    nodes = len(abi.event)
    start = np.zeros(nodes, dtype=np.int64)
    stop = np.zeros(nodes, dtype=np.int64)
    # Every entry is written, and the next one over it if it does not count: that takes no branch.
    target = np.empty(degree.sum() + 1, dtype=np.int32)
    at = 0
    for v in range(nodes):
        start[v] = at
        for r in range(abi.first_range[v], abi.first_range[v + 1]):
            limit, place = abi.limit[r], abi.start[r]
            while place < abi.stop[r]:
                end = min(((place >> _SKIP_BITS) + 1) << _SKIP_BITS, abi.stop[r])
                if abi.skip[place >> _SKIP_BITS] <= limit:
                    for rank, node in zip(abi.rank[place:end], abi.target[place:end]):
                        target[at] = node
                        at += rank <= limit
                place = end
        if abi.first_range[v + 1] - abi.first_range[v] > 1:
            target[start[v] : at].sort()
        stop[v] = at
    return start, stop, target[:at]


# ----------------------------------------------------------------------------------------------------- reduction
#
# A detour lies between its ends in time, so the reduction is the same in every window. And it passes only through nodes
# that lie on a trend, as its ends do.


def reduce_edges(abi: Abi, machine: Machine, most: int = 2**31) -> Graph | None:
    """The graph with only those edges that no longer path goes round: its transitive reduction.

    Parameters
    ----------
    abi : Abi
    machine : Machine
    most : int
        Edges at most: of the reduction where the relation is transitive, else of the whole graph.

    Returns
    -------
    Graph or None
        None if there are more edges.
    """
    if not _is_transitive(machine):
        graph = list_edges(abi, most)
        if graph is None or (graph.stop - graph.start).sum() > most:
            return None
        bounds, target = _irredundant(graph.start, graph.stop, graph.target)
        return _as_graph(abi, bounds[:-1].copy(), bounds[1:].copy(), target)
    if not any(c.op in ORDERS for c in machine.edges[0].comparisons):
        return _as_graph(abi, abi.start, _first_instants(abi), abi.target)
    start, stop, target = _staircases(abi, most)
    return _as_graph(abi, start, stop, target) if len(target) <= most else None


def _is_transitive(machine: Machine) -> bool:
    """Whether "may follow" is transitive: one state, and all comparisons between values of one column."""
    if len(machine.variables) != 1 or len(machine.edges) != 1:
        return False
    return is_indexed(machine) and all(c.later == c.earlier for c in machine.edges[0].comparisons)


@jit
def _first_instants(abi: Abi) -> Ints:
    """Where each node's successors of the earliest instant end: they hide all later ones of an unordered list."""
    stop = abi.start.copy()
    for v in range(len(stop)):
        first = abi.start[v]
        while stop[v] < abi.stop[v] and abi.instant[abi.target[stop[v]]] == abi.instant[abi.target[first]]:
            stop[v] += 1
    return stop


@jit
def _earliest(tree: Places, base: int, size: int, low: int, high: int) -> int:
    """The earliest node of the ranks ``low:high`` (from 0) in a segment tree; ``NEVER`` if there is none."""
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
    place = size
    while place > 0 and heap[(place - 1) >> 1, 0] > node:
        heap[place] = heap[(place - 1) >> 1]
        place = (place - 1) >> 1
    heap[place, 0], heap[place, 1], heap[place, 2] = node, low, high
    return size + 1


@jit
def _pop(heap: Ints, size: int) -> int:
    """Takes the first stretch off a heap."""
    last = size - 1
    node, low, high = heap[last, 0], heap[last, 1], heap[last, 2]
    place, child = 0, 1
    while child < last:
        if child + 1 < last and heap[child + 1, 0] < heap[child, 0]:
            child += 1
        if heap[child, 0] >= node:
            break
        heap[place] = heap[child]
        place, child = child, 2 * child + 1
    heap[place, 0], heap[place, 1], heap[place, 2] = node, low, high
    return last


@jit
def _staircases(abi: Abi, most: int) -> tuple[Ints, Ints, Places]:
    """The reduction of an order, edge by edge: each successor hides the later ones that it allows itself.

    Goes from the last node to the first, so that the tree of each list, nodes by rank, holds later ones only. The
    successors of a node come out of the ranks that it allows in order of time, from a heap of stretches of ranks: one
    that shows splits its stretch, and the ranks that it hides are cut off the others when their turn comes.
    """
    nodes = len(abi.event)
    sizes = _sizes(abi.ranks, name_starts(abi.ranks))
    tree_start = _tree_starts(sizes)
    tree = np.full(2 * tree_start[-1], NEVER, dtype=np.int32)
    place = np.full(nodes, -1, dtype=np.int64)
    for k in range(len(abi.target)):
        place[abi.target[k]] = k
    heap = np.empty((nodes + 2, 3), dtype=np.int64)
    start, stop = np.zeros(nodes, dtype=np.int64), np.zeros(nodes, dtype=np.int64)
    target = np.empty(max(4 * nodes, 16), dtype=np.int32)
    at, end = 0, nodes
    while end > 0:
        begin = end - 1
        while begin > 0 and abi.instant[begin - 1] == abi.instant[begin]:
            begin -= 1
        for v in range(begin, end):
            start[v] = stop[v] = at
            name, limit = abi.ranks.wanted[0, abi.event[v]], int(abi.ranks.limit[0, abi.event[v]])
            if name < 0 or abi.start[v] == abi.stop[v]:
                continue
            size, base = sizes[name], 2 * tree_start[name]
            waiting = _push(heap, 0, _earliest(tree, base, size, 0, min(limit, size)), 0, min(limit, size))
            hidden = hides = 0
            instant = np.int64(-1)
            while waiting > 0:
                t, low, high = heap[0, 0], heap[0, 1], heap[0, 2]
                if t == NEVER or place[t] >= abi.stop[v]:
                    break
                waiting = _pop(heap, waiting)
                if abi.instant[t] != instant:
                    instant, hidden = abi.instant[t], hides
                if low < hidden:
                    if hidden < high:
                        waiting = _push(heap, waiting, _earliest(tree, base, size, hidden, high), hidden, high)
                    continue
                if at == len(target):
                    wider = np.empty(2 * at, dtype=np.int32)
                    wider[:at] = target
                    target = wider
                target[at] = t
                at += 1
                hides = max(hides, int(abi.ranks.limit[0, abi.event[t]]))
                middle = int(abi.ranks.rank[0, abi.event[t]]) - 1
                if low < middle:
                    waiting = _push(heap, waiting, _earliest(tree, base, size, low, middle), low, middle)
                if middle + 1 < high:
                    waiting = _push(heap, waiting, _earliest(tree, base, size, middle + 1, high), middle + 1, high)
            stop[v] = at
            if at > most:
                return start, stop, target[:at]
        for v in range(begin, end):
            name = abi.ranks.bucket[0, abi.event[v]]
            if name >= 0:
                position = sizes[name] + abi.ranks.rank[0, abi.event[v]] - 1
                while position > 0:
                    spot = 2 * tree_start[name] + position
                    tree[spot] = min(tree[spot], np.int32(v))
                    position >>= 1
        end = begin
    return start, stop, target[:at].copy()


@jit
def _irredundant(start: Ints, stop: Ints, target: Places) -> tuple[Ints, Places]:
    """The edges of any graph that no longer path goes round; where each node's begin, and the targets.

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
    words = min(64, max(1, _REDUCTION_BYTES // (8 * max(nodes, 1))))
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
