"""The number of trends of a graph, and of their bindings, without listing them.

A node is worth the number of ways on which a trend can go on from it to its end: one if it may end there, and what its
successors are worth. So one pass from the last node to the first counts every window's trends. The values are computed
in the number systems of :mod:`~cetdsl.kernels.numbers.arithmetic`: doubles as long as they are in range, then scaled
numbers, and residues modulo primes where a count is too large for a double to be exact. What a node is worth depends on
where the window ends, so overlapping windows are gone through one by one: the work is that of all windows together, the
memory that of the widest.

Two kernels do the same pass:

- along listed edges (:class:`~cetdsl.kernels.vocabulary.Graph`), which a transitive reduction needs;
- along the buckets of an :class:`~cetdsl.kernels.graph.attribute_graph.AttributeGraph` without listing an edge. A node
  adds its value at its rank to each bucket that it stands in (a Fenwick tree), and reads the ranks up to its limit:
  n log n for any number of edges.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.graph.attribute_graph import AttributeGraph, Joins, bucket_starts
from cetdsl.kernels.graph.windows import Windows, windows_of
from cetdsl.kernels.numbers.arithmetic import combine
from cetdsl.kernels.numbers.ladder import ADDED, exact, rounded
from cetdsl.kernels.numbers.scaled import Objects, Scaled
from cetdsl.kernels.vocabulary import Graph, Ints

Values = NDArray[Any]
Roles = NDArray[np.uint8]

#: What a node is to the trends of a window.
SEEN, END, ROOT = 1, 2, 4


class Accumulators(NamedTuple):
    """What is summed up side by side.

    Attributes
    ----------
    one : array, shape (1, accumulators)
        The accumulators' values of a trend that ends where it stands.
    lengths : bool
        Whether accumulator 1 is the sum of the lengths of accumulator 0's trends.
    primes : array, shape (accumulators,)
        Of residues.
    """

    one: Values
    lengths: bool
    primes: Values


class Counts(NamedTuple):
    """How many trends the slices have.

    Attributes
    ----------
    exact : object array, shape (slices,)
        Python integers.
    scaled : complex array, shape (slices,)
        The same, rounded: ``mantissa + exponent * 1j``.
    refs : complex array, shape (slices,)
        The sum of the trends' lengths, rounded.
    """

    exact: Objects
    scaled: Scaled
    refs: Scaled


#: Sums up accumulators over some of the slices.
_Pass = Callable[[Ints, Accumulators], Values]


def count_paths(graph: Graph, low: Ints, high: Ints, complete: bool, most_bits: int | None = None) -> Counts:
    """Counts the trends of each slice along listed edges.

    Parameters
    ----------
    graph : Graph
        The whole graph, or its transitive reduction for maximal trends.
    low, high : int64 arrays, shape (slices,)
        The events of each slice.
    complete : bool
        Whether to count only the paths that cannot be extended at either end.
    most_bits : int, optional
        Larger counts than ``2**most_bits`` are not worked out; ``exact`` holds what ``scaled`` says of them.

    Examples
    --------
    Checks A->B, B->C, B->D, D->E: (c1, c2) and (c1, c3, c4) are complete, and any part of them is a trend.

    >>> from cetdsl.kernels.graph.attribute_graph import NEVER
    >>> i, flags = np.arange(4), np.ones(4, dtype=bool)
    >>> before, after = np.array([-1, 0, 0, 2], dtype="i4"), np.array([1, NEVER, 3, NEVER], dtype="i4")
    >>> start, stop, target = np.array([0, 2, 2, 3]), np.array([2, 2, 3, 3]), np.array([1, 2, 3], dtype="i4")
    >>> here = i.astype("i4")
    >>> graph = Graph(i, here * 0, flags, flags, here, before, here, after, start, stop, target)
    >>> low, high = np.array([0, 1]), np.array([4, 4])
    >>> count_paths(graph, low, high, complete=True).exact.tolist()
    [2, 2]
    >>> count_paths(graph, low, high, complete=False).exact.tolist()
    [8, 4]
    """
    return _count(_pass_along_edges(graph, windows_of(graph, low, high), complete), len(low), most_bits)


def _pass_along_edges(graph: Graph, windows: Windows, complete: bool) -> _Pass:
    shared = shares_stretches(graph)

    def along(rows: Ints, accumulators: Accumulators) -> Values:
        return _along_edges(graph, take_windows(windows, rows), complete, accumulators, shared)

    return along


def count_without_edges(
    graph: AttributeGraph, joins: Joins, low: Ints, high: Ints, complete: bool, most_bits: int | None = None
) -> Counts:
    """Counts all trends, or those that are complete by their ends, along the buckets of an attribute graph.

    Parameters
    ----------
    graph : AttributeGraph
    joins : Joins
        Those of the :class:`~cetdsl.kernels.graph.build.GraphBuilder` that built it.
    low, high, complete, most_bits
        As for :func:`count_paths`.
    """
    windows, slots = windows_of(graph, low, high), _plant(graph, joins)

    def along(rows: Ints, accumulators: Accumulators) -> Values:
        return _along_ranks(graph, slots, take_windows(windows, rows), complete, accumulators)

    return _count(along, len(low), most_bits)


def count_trends(
    graph: AttributeGraph,
    joins: Joins,
    reduction: Graph | None,
    low: Ints,
    high: Ints,
    complete: bool,
    most_bits: int | None = None,
) -> Counts:
    """Counts the trends of each slice in the cheapest way.

    Parameters
    ----------
    graph : AttributeGraph
    joins : Joins
    reduction : Graph or None
        The transitive reduction if maximal trends are wanted, else None: all other counts need no edges.
    low, high, complete, most_bits
        As for :func:`count_paths`.
    """
    if reduction is None:
        return count_without_edges(graph, joins, low, high, complete, most_bits)
    return count_paths(reduction, low, high, complete, most_bits)


def take_windows(windows: Windows, rows: Ints) -> Windows:
    """Some of the windows."""
    return Windows(*(column[rows] for column in windows))


def _count(along: _Pass, slices: int, most_bits: int | None) -> Counts:
    def residues(rows: Ints, primes: Values) -> Values:
        return along(rows, Accumulators(np.ones_like(primes)[None], False, primes))[:, None]

    scaled = _rounded(along, slices, np.array([[1.0, 0.0]]), lengths=True)
    counts = scaled[:, :1]
    limit = np.inf if most_bits is None else most_bits
    return Counts(exact(residues, counts, counts, limit, ADDED)[:, 0], scaled[:, 0], scaled[:, 1])


def scaled_counts(graph: Graph, windows: Windows, complete: bool) -> Scaled:
    """The number of trends of each window, rounded."""
    along = _pass_along_edges(graph, windows, complete)
    return _rounded(along, len(windows.low), np.ones((1, 1)), lengths=False)[:, 0]


def _rounded(along: _Pass, slices: int, one: Values, lengths: bool) -> Scaled:
    def run(kind: Any, rows: Ints) -> Values:
        return along(rows, Accumulators(one.astype(kind), lengths, np.zeros(one.shape[1])))

    return rounded(run, np.zeros(slices, dtype=np.bool_), one.shape[1])


# --------------------------------------------------------------------------------------------- steps of a pass


@jit
def make_values(windows: Windows, accumulators: Accumulators) -> Values:
    """Room for the values of the widest window, its first node in row 0."""
    return np.zeros((widest(windows), accumulators.one.shape[1]), accumulators.one.dtype)


@jit
def widest(windows: Windows) -> int:
    """The number of nodes of the widest window."""
    found = 0
    for number in range(len(windows.low)):
        found = max(found, windows.last[number] - windows.first[number])
    return found


@jit
def fill_roles(graph: AttributeGraph | Graph, windows: Windows, number: int, complete: bool, role: Roles) -> None:
    """What each node is to the trends of a window: ``SEEN`` on one, ``END`` of one, ``ROOT`` of one."""
    begins, ends, origin, reach = graph.begins, graph.ends, graph.origin, graph.reach
    before, after = graph.origin_before, graph.reach_after
    low, high, first = windows.low[number], windows.high[number], windows.first[number]
    for v in range(first, windows.last[number]):
        role[v - first] = 0
        if origin[v] >= low and reach[v] < high:
            ending = ends[v] and not (complete and after[v] < high)
            rooted = begins[v] and not (complete and before[v] >= low)
            role[v - first] = SEEN | (END if ending else 0) | (ROOT if rooted else 0)


@inlined
def add_row(total: Values, row: int, more: Values, other: int, primes: Values) -> None:
    """Adds the accumulators of one row to those of another one."""
    for accumulator in range(len(primes)):
        total[row, accumulator] = combine(total[row, accumulator], more[other, accumulator], primes[accumulator])


@inlined
def clear_row(total: Values, row: int) -> None:
    for accumulator in range(total.shape[1]):
        total[row, accumulator] = 0


@inlined
def finish_row(value: Values, row: int, role: int, one: Values, lengths: bool, primes: Values) -> None:
    """The value of a node, given the sum over its successors."""
    if role & END:
        add_row(value, row, one, 0, primes)
    if lengths:
        value[row, 1] = combine(value[row, 1], value[row, 0], primes[1])


# ------------------------------------------------------------------------------------------ along listed edges


class Sums(NamedTuple):
    """Sums over stretches of targets that nodes share: from place ``k`` to ``end[k]``, right for one window only."""

    window: Ints
    end: Ints
    value: Values


def shares_stretches(graph: Graph) -> bool:
    """Whether nodes have successors in common that are listed once only."""
    return int((graph.stop - graph.start).sum()) > len(graph.target)


@jit
def make_sums(graph: Graph, accumulators: Accumulators, shared: bool) -> Sums:
    """Room for the sums over stretches, if nodes share any."""
    places = len(graph.target) if shared else 0
    value = np.empty((places, accumulators.one.shape[1]), accumulators.one.dtype)
    return Sums(np.full(places, -1), np.empty(places, np.int64), value)


@jit
def fill_values(
    graph: Graph, windows: Windows, number: int, role: Roles, accumulators: Accumulators, sums: Sums, value: Values
) -> None:
    """What every node of a window is worth.

    Where a stretch runs into one that has been summed up for this window, that sum is taken: lists that many nodes
    point into cost as much as they are long, not as many edges as they stand for.
    """
    starts, stops, target = graph.start, graph.stop, graph.target
    one, lengths, primes = accumulators.one, accumulators.lengths, accumulators.primes
    summed, sum_end, sum_value = sums.window, sums.end, sums.value
    first, last = windows.first[number], windows.last[number]
    for v in range(last - 1, first - 1, -1):
        clear_row(value, v - first)
        if not role[v - first] & SEEN:
            continue
        start, stop = starts[v], stops[v]
        shares = len(summed) > 0 and stop - start > 1
        # All stretches that the window cuts off end in the same place.
        end = -1 if shares and target[stop - 1] >= last else stop
        for k in range(start, stop):
            if target[k] >= last:
                break
            if shares and summed[k] == number and sum_end[k] == end:
                add_row(value, v - first, sum_value, k, primes)
                break
            add_row(value, v - first, value, target[k] - first, primes)
        if shares:
            summed[start], sum_end[start] = number, end
            clear_row(sum_value, start)
            add_row(sum_value, start, value, v - first, primes)
        finish_row(value, v - first, role[v - first], one, lengths, primes)


@jit
def _along_edges(graph: Graph, windows: Windows, complete: bool, accumulators: Accumulators, shared: bool) -> Values:
    value, role = make_values(windows, accumulators), np.empty(widest(windows), dtype=np.uint8)
    sums = make_sums(graph, accumulators, shared)
    out = np.zeros((len(windows.low), accumulators.one.shape[1]), accumulators.one.dtype)
    for number in range(len(windows.low)):
        fill_roles(graph, windows, number, complete, role)
        fill_values(graph, windows, number, role, accumulators, sums, value)
        for row in range(windows.last[number] - windows.first[number]):
            if role[row] & ROOT:
                add_row(out, number, value, row, accumulators.primes)
    return out


# ------------------------------------------------------------------------------------------------- along ranks


class _Slots(NamedTuple):
    """Where nodes stand in the Fenwick trees, one tree over the ranks of each bucket.

    Attributes
    ----------
    read, position : int64 arrays, shape (ranges,)
        The cell before the first one of the bucket that a range is of, and the number of ranks that it allows; there
        -1 where the graph lists the successors one by one, because no index answers the predicates.
    start : int64 array, shape (nodes + 1,)
        Node ``v`` stands in the buckets ``start[v]:start[v + 1]`` of the arrays that follow.
    write, rank, size : int64 arrays
        The cell before the first one of each bucket, the node's rank in it, and the number of its ranks.
    cells : int
        The number of cells of all trees.
    """

    read: Ints
    position: Ints
    start: Ints
    write: Ints
    rank: Ints
    size: Ints
    cells: int


@jit
def _plant(graph: AttributeGraph, joins: Joins) -> _Slots:
    """Numbers the lists over all edges of the machine; edges that share their lists share the trees."""
    bucket, ranks, wanted, limit = graph.ranks.bucket, graph.ranks.rank, graph.ranks.wanted, graph.ranks.limit
    table, target, out_start, state, event = joins.table, joins.target, joins.out_start, graph.state, graph.event
    first_range = graph.first_range
    edges, nodes = len(target), len(event)
    buckets = np.diff(bucket_starts(graph.ranks))
    tested, owner, first = np.zeros(edges, dtype=np.bool_), np.arange(edges), np.zeros(edges, dtype=np.int64)
    lists = 0
    for edge in range(edges):
        tested[edge] = joins.tested[edge]
        for other in range(edge - 1, -1, -1):
            if not tested[other] and table[other] == table[edge] and target[other] == target[edge]:
                owner[edge] = other
        if not tested[edge] and owner[edge] == edge:
            first[edge] = lists
            lists += buckets[table[edge]] if table[edge] >= 0 else 1
    # The trees have a cell per rank.
    begin = np.zeros(lists + 1, dtype=np.int64)
    standing = 0
    for edge in range(edges):
        if tested[edge] or owner[edge] != edge:
            continue
        if table[edge] < 0:
            begin[first[edge] + 1] = 1
        for v in range(nodes):
            standing += state[v] == target[edge]
            if table[edge] >= 0 and state[v] == target[edge] and bucket[table[edge], event[v]] >= 0:
                name = first[edge] + bucket[table[edge], event[v]]
                begin[name + 1] = max(begin[name + 1], np.int64(ranks[table[edge], event[v]]))
    for name in range(lists):
        begin[name + 1] += begin[name]
    read, position = np.zeros(first_range[nodes], np.int64), np.full(first_range[nodes], -1)
    start = np.zeros(nodes + 1, dtype=np.int64)
    write, rank, size = np.empty(standing, np.int64), np.empty(standing, np.int64), np.empty(standing, np.int64)
    at = 0
    for v in range(nodes):
        i = event[v]
        for edge in range(out_start[state[v]], out_start[state[v] + 1]):
            if tested[edge]:
                continue
            name, allowed = first[owner[edge]], np.int64(1)
            if table[edge] >= 0:
                name, allowed = name + wanted[table[edge], i], np.int64(limit[table[edge], i])
                if wanted[table[edge], i] < 0:
                    name, allowed = first[owner[edge]], np.int64(0)
            place = first_range[v] + edge - out_start[state[v]]
            read[place], position[place] = begin[name] - 1, min(allowed, begin[name + 1] - begin[name])
        for edge in range(edges):
            if tested[edge] or owner[edge] != edge or target[edge] != state[v]:
                continue
            name, here = first[edge], np.int64(1)
            if table[edge] >= 0:
                if bucket[table[edge], i] < 0:
                    continue
                name, here = name + bucket[table[edge], i], np.int64(ranks[table[edge], i])
            write[at], rank[at], size[at] = begin[name] - 1, here, begin[name + 1] - begin[name]
            at += 1
        start[v + 1] = at
    return _Slots(read, position, start, write, rank, size, begin[lists])


@jit
def _along_ranks(
    graph: AttributeGraph, slots: _Slots, windows: Windows, complete: bool, accumulators: Accumulators
) -> Values:
    instant, first_range, target = graph.instant, graph.first_range, graph.target
    range_start, range_stop = graph.start, graph.stop
    read, position, start = slots.read, slots.position, slots.start
    write, rank, size = slots.write, slots.rank, slots.size
    one, lengths, primes = accumulators.one, accumulators.lengths, accumulators.primes
    value, role = make_values(windows, accumulators), np.empty(widest(windows), dtype=np.uint8)
    out = np.zeros((len(windows.low), one.shape[1]), one.dtype)
    cells = np.zeros((slots.cells, one.shape[1]), one.dtype)
    for number in range(len(windows.low)):
        first, last = windows.first[number], windows.last[number]
        fill_roles(graph, windows, number, complete, role)
        end = last
        while end > first:
            begin = end - 1
            while begin > first and instant[begin - 1] == instant[begin]:
                begin -= 1
            # Simultaneous events do not see each other, so reading comes before writing.
            for v in range(begin, end):
                clear_row(value, v - first)
                if not role[v - first] & SEEN:
                    continue
                for r in range(first_range[v], first_range[v + 1]):
                    cell = position[r]
                    while cell > 0:
                        add_row(value, v - first, cells, read[r] + cell, primes)
                        cell -= cell & -cell
                    if position[r] < 0:
                        for k in range(range_start[r], range_stop[r]):
                            if target[k] >= last:
                                break
                            add_row(value, v - first, value, target[k] - first, primes)
                finish_row(value, v - first, role[v - first], one, lengths, primes)
            for v in range(begin, end):
                if role[v - first] & SEEN:
                    for r in range(start[v], start[v + 1]):
                        cell = rank[r]
                        while cell <= size[r]:
                            add_row(cells, write[r] + cell, value, v - first, primes)
                            cell += cell & -cell
            end = begin
        for v in range(first, last):
            if role[v - first] & ROOT:
                add_row(out, number, value, v - first, primes)
            # The next window finds the trees as they were; only what this one has touched is cleared.
            if role[v - first] & SEEN and number + 1 < len(windows.low):
                for r in range(start[v], start[v + 1]):
                    cell = rank[r]
                    while cell <= size[r]:
                        clear_row(cells, write[r] + cell)
                        cell += cell & -cell
    return out
