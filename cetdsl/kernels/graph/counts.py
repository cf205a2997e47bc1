"""Counts the trends of a graph, and the sum of their lengths, without listing them.

The *worth* of a node is the number of ways on which a trend can go on from it to its end: one if it may end there, plus
the worth of its successors. So one pass from the last node to the first counts every window's trends. The values are
computed in the number systems of :mod:`~cetdsl.kernels.numbers.arithmetic`: doubles as long as they are in range, then
scaled numbers, and residues modulo primes where a count is too large for a double to be exact. The worth of a node
depends on where the window ends. So each window has a pass of its own, also where windows overlap: the work is that of
all windows together, the memory that of the widest.

Two kernels make this pass:

- one goes along listed edges (:class:`~cetdsl.kernels.vocabulary.Graph`), as a transitive reduction has them;
- one goes along the buckets of an :class:`~cetdsl.kernels.graph.attribute_graph.AttributeGraph` without listing an
  edge. Each bucket has a Fenwick tree over its ranks. A node adds its worth at its rank to the trees of the buckets
  that it stands in, and sums up the ranks up to its limit in the trees that it points at: n log n for any number of
  edges.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.graph.attribute_graph import AttributeGraph, bucket_of, number_buckets, rank_of, wanted_of
from cetdsl.kernels.graph.windows import (
    END,
    ROOT,
    SEEN,
    Roles,
    Windows,
    fill_roles,
    successors_stop,
    take_windows,
    widest,
    windows_of,
)
from cetdsl.kernels.numbers.arithmetic import combine
from cetdsl.kernels.numbers.ladder import ADDED, exact, rounded
from cetdsl.kernels.numbers.scaled import Objects, Scaled
from cetdsl.kernels.vocabulary import Graph, Index, Ints

Values = NDArray[Any]


class Accumulators(NamedTuple):
    """The accumulators that one pass sums up side by side.

    ``one``, of shape (1, accumulators), is what a node adds for the trend that ends with it. ``lengths`` says whether
    accumulator 1 is the sum of the lengths of the trends that accumulator 0 counts. ``primes`` are the moduli of
    residues.
    """

    one: Values
    lengths: bool
    primes: Values


class Counts(NamedTuple):
    """The numbers of trends of the slices.

    ``exact`` has Python integers, ``scaled`` the same as rounded :data:`~cetdsl.kernels.numbers.scaled.Scaled` numbers.
    """

    exact: Objects
    scaled: Scaled


#: Sums up accumulators over some of the slices.
_Pass = Callable[[Ints, Accumulators], Values]


def count_trends(
    graph: Graph | AttributeGraph, low: Ints, high: Ints, complete: bool, most_bits: int | None = None
) -> Counts:
    """Counts the trends of each slice ``low:high`` of events.

    For maximal trends the graph is the transitive reduction. All other counts need no listed edges, and are cheapest
    from an :class:`~cetdsl.kernels.graph.attribute_graph.AttributeGraph`. With ``complete`` only the paths that cannot
    be extended at either end count. Counts above ``2**most_bits`` are not computed exactly: ``exact`` is then rounded,
    as ``scaled`` is.

    Examples
    --------
    Checks A->B, B->C, B->D, D->E: (c1, c2) and (c1, c3, c4) are complete, and any part of them is a trend.

    >>> low, high = np.array([0, 1]), np.array([4, 4])
    >>> count_trends(graph_of_checks, low, high, complete=True).exact.tolist()
    [2, 2]
    >>> count_trends(graph_of_checks, low, high, complete=False).exact.tolist()
    [8, 4]
    """
    nodes = graph if isinstance(graph, Graph) else graph.nodes
    along = _pass_over(graph, windows_of(nodes, low, high), complete)

    def residues(rows: Ints, primes: Values) -> Values:
        return along(rows, Accumulators(np.ones_like(primes)[None], False, primes))[:, None]

    scaled = _rounded(along, len(low), lengths=False)
    limit = np.inf if most_bits is None else most_bits
    return Counts(exact(residues, scaled, scaled, limit, ADDED)[:, 0], scaled[:, 0])


def scaled_counts(graph: Graph, windows: Windows, complete: bool, *, lengths: bool = False) -> Scaled:
    """Counts each window's trends, rounded; with ``lengths``, a second column is the sum of their lengths."""
    return _rounded(_pass_over(graph, windows, complete), len(windows.low), lengths)


def _pass_over(graph: Graph | AttributeGraph, windows: Windows, complete: bool) -> _Pass:
    """Makes the function that sums up accumulators over the trends of some of the windows."""
    if isinstance(graph, Graph):
        return lambda rows, accumulators: _along_edges(graph, take_windows(windows, rows), complete, accumulators)
    slots = _plant(graph)
    return lambda rows, accumulators: _along_ranks(graph, slots, take_windows(windows, rows), complete, accumulators)


def _rounded(along: _Pass, slices: int, lengths: bool) -> Scaled:
    """Counts the trends of each slice, and perhaps sums up their lengths, in doubles or scaled numbers."""
    none = np.zeros(slices, dtype=np.bool_)
    return rounded(lambda kind, rows: along(rows, rounding(kind, lengths)), none, 1 + lengths)


def rounding(kind: Any, lengths: bool) -> Accumulators:
    """Makes the accumulators of a count, and perhaps of a sum of lengths, in doubles or scaled numbers."""
    return Accumulators(np.array([[1, 0][: 1 + lengths]], dtype=kind), lengths, np.zeros(1 + lengths))


# ---------------------------------------------------------------------------------------- what nodes are worth


class Worth(NamedTuple):
    """The worth of the nodes of one window; row 0 is its first node, and there is room for those of the widest.

    ``role`` has the bits of :data:`~cetdsl.kernels.graph.windows.SEEN`, ``value`` a column per accumulator. Where nodes
    share successors, row ``k`` of ``sum`` caches the sum over the targets from ``k`` to ``sum_end[k]``, which holds in
    the window ``summed[k]`` only; where they share none, these three are empty.
    """

    role: Roles
    value: Values
    summed: Ints
    sum_end: Ints
    sum: Values


@jit
def make_worth(windows: Windows, accumulators: Accumulators, targets: int) -> Worth:
    """Makes room for the worth of nodes, and for the sums over ``targets`` targets that nodes share."""
    one, room = accumulators.one, widest(windows)
    return Worth(
        np.empty(room, np.uint8),
        np.zeros((room, one.shape[1]), one.dtype),
        np.full(targets, -1),
        np.empty(targets, np.int64),
        np.empty((targets, one.shape[1]), one.dtype),
    )


@inlined
def shared_targets(graph: Graph) -> int:
    """Returns the number of targets if several nodes point into the same stretches of them, else 0."""
    return len(graph.target) if (graph.stop - graph.start).sum() > len(graph.target) else 0


@inlined
def add_row(total: Values, row: int, more: Values, other: Index, primes: Values) -> None:
    """Adds the accumulators of one row to those of another one."""
    for accumulator in range(len(primes)):
        total[row, accumulator] = combine(total[row, accumulator], more[other, accumulator], primes[accumulator])


@inlined
def clear_row(total: Values, row: int) -> None:
    """Sets the accumulators of a row to zero."""
    for accumulator in range(total.shape[1]):
        total[row, accumulator] = 0


@inlined
def finish_row(value: Values, row: int, role: int, one: Values, lengths: bool, primes: Values) -> None:
    """Completes a node's value, so far the sum over its successors: adds the trend that ends there, and the lengths."""
    if role & END:
        add_row(value, row, one, 0, primes)
    if lengths:
        value[row, 1] = combine(value[row, 1], value[row, 0], primes[1])


@inlined
def in_units(value: complex, exponent: float) -> float:
    """Returns a number, scaled or a double, as a multiple of ``2**exponent``."""
    return math.ldexp(value.real, int(max(value.imag - exponent, -2000.0)))


# ------------------------------------------------------------------------------------------ along listed edges


@jit
def fill_worth(
    graph: Graph, windows: Windows, window: int, complete: bool, accumulators: Accumulators, worth: Worth
) -> None:
    """Fills in the worth of every node of a window.

    Where the rest of a node's successors has been summed up for another node of this window, that sum is used. So a
    list that many nodes share costs as much as it is long, not as much as the number of edges that it stands for.
    """
    starts, stops, target = graph.start, graph.stop, graph.target
    one, lengths, primes = accumulators.one, accumulators.lengths, accumulators.primes
    role, value, summed, sum_end, sum_value = worth
    first, last = windows.first[window], windows.last[window]
    fill_roles(graph, windows, window, complete, role)
    for v in range(last - 1, first - 1, -1):
        clear_row(value, v - first)
        if not role[v - first] & SEEN:
            continue
        start, stop = starts[v], successors_stop(starts, stops, target, v, last)
        shares = len(summed) > 0 and stop - start > 1
        until = stop
        if shares:
            until = start
            while until < stop and (summed[until] != window or sum_end[until] != stop):
                until += 1
        for accumulator in range(len(primes)):
            total, prime = value[v - first, accumulator], primes[accumulator]
            for k in range(start, until):
                total = combine(total, value[target[k] - first, accumulator], prime)
            value[v - first, accumulator] = total
        if until < stop:
            add_row(value, v - first, sum_value, until, primes)
        if shares:
            summed[start], sum_end[start] = window, stop
            clear_row(sum_value, start)
            add_row(sum_value, start, value, v - first, primes)
        finish_row(value, v - first, role[v - first], one, lengths, primes)


@jit
def worth_of(graph: Graph, windows: Windows, window: int, complete: bool, accumulators: Accumulators) -> Worth:
    """Returns the worth of the nodes of one window, with room for no more."""
    low, high, first, last = windows
    end = window + 1
    one = Windows(low[window:end], high[window:end], first[window:end], last[window:end])
    worth = make_worth(one, accumulators, shared_targets(graph))
    fill_worth(graph, one, 0, complete, accumulators, worth)
    return worth


@jit
def _along_edges(graph: Graph, windows: Windows, complete: bool, accumulators: Accumulators) -> Values:
    """Computes the accumulators of each window by the successors of its nodes."""
    worth = make_worth(windows, accumulators, shared_targets(graph))
    role, value = worth.role, worth.value
    out = np.zeros((len(windows.low), accumulators.one.shape[1]), accumulators.one.dtype)
    for window in range(len(windows.low)):
        fill_worth(graph, windows, window, complete, accumulators, worth)
        for row in range(windows.last[window] - windows.first[window]):
            if role[row] & ROOT:
                add_row(out, window, value, row, accumulators.primes)
    return out


# ------------------------------------------------------------------------------------------------- along ranks


class _Slots(NamedTuple):
    """Where nodes read and write Fenwick trees, one over the ranks of each bucket; ``cells`` counts those of all trees.

    Of each range, ``read`` is the cell before the first one of its bucket, and ``position`` the number of ranks that it
    allows; -1 where the graph lists the successors one by one, because no index answers the predicates. Node ``v``
    stands in the buckets ``start[v]:start[v + 1]``; of each of these, ``write`` is the cell before its first one,
    ``rank`` the node's rank in it, and ``size`` the number of its ranks.
    """

    read: Ints
    position: Ints
    start: Ints
    write: Ints
    rank: Ints
    size: Ints
    cells: int


@jit
def _plant(graph: AttributeGraph) -> _Slots:
    """Lays out a tree for each bucket that some untested edge reads; edges that share buckets share the trees."""
    joins, ranks, state, event = graph.joins, graph.ranks, graph.nodes.state, graph.nodes.event
    tested, out_start, first_range = joins.tested, joins.out_start, graph.ranges.first
    edges, nodes = len(joins.target), len(event)
    owner, first, buckets = number_buckets(joins, ranks)
    planted = np.zeros(edges, dtype=np.bool_)
    for edge in range(edges):
        planted[owner[edge]] |= not tested[edge]
    # The trees have a cell per rank.
    begin, standing = np.zeros(buckets + 1, dtype=np.int64), 0
    for edge in range(edges):
        for v in range(nodes if planted[edge] else 0):
            bucket = bucket_of(joins, ranks, edge, event[v], state[v])
            if bucket >= 0:
                standing += 1
                name = first[edge] + bucket
                begin[name + 1] = max(begin[name + 1], rank_of(joins, ranks, edge, event[v]))
    for name in range(buckets):
        begin[name + 1] += begin[name]
    read, position = np.zeros(first_range[nodes], np.int64), np.full(first_range[nodes], -1)
    start = np.zeros(nodes + 1, dtype=np.int64)
    write, rank, size = np.empty(standing, np.int64), np.empty(standing, np.int64), np.empty(standing, np.int64)
    at = 0
    for v in range(nodes):
        for edge in range(out_start[state[v]], out_start[state[v] + 1]):
            if not tested[edge]:
                r = first_range[v] + edge - out_start[state[v]]
                wanted, allowed = wanted_of(joins, ranks, edge, event[v])
                name = first[edge] + max(wanted, 0)
                read[r], position[r] = begin[name] - 1, min(allowed, begin[name + 1] - begin[name])
        for edge in range(edges):
            bucket = bucket_of(joins, ranks, edge, event[v], state[v]) if planted[edge] else -1
            if bucket >= 0:
                name, here = first[edge] + bucket, rank_of(joins, ranks, edge, event[v])
                write[at], rank[at], size[at] = begin[name] - 1, here, begin[name + 1] - begin[name]
                at += 1
        start[v + 1] = at
    return _Slots(read, position, start, write, rank, size, begin[buckets])


@jit
def _along_ranks(
    graph: AttributeGraph, slots: _Slots, windows: Windows, complete: bool, accumulators: Accumulators
) -> Values:
    """Computes the accumulators of each window by trees over the ranks of buckets, without a list of edges."""
    instant, nodes = graph.instant, graph.nodes
    first_range, range_start, range_stop, _, target, _, _ = graph.ranges
    read, position, start = slots.read, slots.position, slots.start
    write, rank, size = slots.write, slots.rank, slots.size
    one, lengths, primes = accumulators.one, accumulators.lengths, accumulators.primes
    worth = make_worth(windows, accumulators, 0)
    role, value = worth.role, worth.value
    out = np.zeros((len(windows.low), one.shape[1]), one.dtype)
    cells = np.zeros((slots.cells, one.shape[1]), one.dtype)
    for window in range(len(windows.low)):
        first, last = windows.first[window], windows.last[window]
        fill_roles(nodes, windows, window, complete, role)
        end = last
        while end > first:
            begin = end - 1
            while begin > first and instant[begin - 1] == instant[begin]:
                begin -= 1
            # Simultaneous events never follow each other: all nodes of an instant read the trees before any writes.
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
                add_row(out, window, value, v - first, primes)
            # The next window must find empty trees: only the cells that this one has written are cleared.
            if role[v - first] & SEEN and window + 1 < len(windows.low):
                for r in range(start[v], start[v + 1]):
                    cell = rank[r]
                    while cell <= size[r]:
                        clear_row(cells, write[r] + cell)
                        cell += cell & -cell
    return out
