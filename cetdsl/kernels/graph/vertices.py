"""The graph of a query as rows: its vertices and edges, and the attribute vertices that stand for most of the edges.

An *attribute vertex* is a single value, where a step of the pattern demands equality, or a range of values that the
bounds of earlier events leave undivided, where it demands an order. A *from-edge* leads from it to an event whose value
lies in it; a *to-edge* leads from an event to a stretch of attribute vertices, those whose values its predicate allows
(Mei et al., ICPP 2021). So the two kinds take space in proportion to the events, however many edges they stand for.

All rows of a block of windows are found at once, by sorting: there may be very many small windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from cetdsl.ir.stages import EventGraphSpec
from cetdsl.ir.steps import Step, steps_of
from cetdsl.ir.windowing import SLIDING
from cetdsl.kernels._jit import jit
from cetdsl.kernels.enumerate.guards import GuardedMachine
from cetdsl.kernels.enumerate.trends import EventRows
from cetdsl.kernels.graph.attribute_graph import AttributeGraph
from cetdsl.kernels.graph.blocks import members_of
from cetdsl.kernels.graph.build import GraphBuilder
from cetdsl.kernels.graph.ranges import SKIP_BITS, next_entry
from cetdsl.kernels.graph.reduction import reduce_edges
from cetdsl.kernels.machine.program import equality_codes
from cetdsl.kernels.vocabulary import Bools, Events, Graph, Ints, Places
from cetdsl.kernels.wire.chunks import CHUNK_EVENTS, Chunk, ChunkReader, refusing_too_large, window_column
from cetdsl.kernels.wire.columns import as_array, from_numpy

#: Rows of a block, more or less.
BLOCK_ROWS = 262_144
_NONE = np.zeros(0, dtype=np.int64)


def vertex_stream(
    spec: EventGraphSpec, batches: Iterator[pa.RecordBatch], chunk_events: int = CHUNK_EVENTS
) -> Iterator[list[pa.Array]]:
    """One part of the graphs of a sorted stream, window by window.

    Parameters
    ----------
    spec : EventGraphSpec
    batches : iterator of pyarrow.RecordBatch
        Sorted by key, stretch, time and tie-break columns, and simultaneous events in an order that never changes.
    chunk_events : int
        Events per kernel call, at least.

    Yields
    ------
    list of pyarrow.Array
        Key columns, window if sliding, and then

        ==========  ================================================================================================
        vertices    event's number in its window, state, ``first``, ``last``, ``source``, ``sink``, event
        edges       number and state of the earlier event, number and state of the later one; so for ``reduced``
                    (edges that no longer path goes round) and ``direct`` (edges without attribute vertices)
        attributes  step, per equality of any step a value of the later and of the earlier side (one is NULL), number
                    of the vertex on the list of these values, per order of any step the lower and the upper bound
        from        step, values as above, number of the vertex, number of the event
        to          step, values as above, number of the event, the first vertex and the one after the last
        ==========  ================================================================================================
    """
    guarded = GuardedMachine(spec.kernel)
    builder = GraphBuilder(guarded.machine, spec.kernel.query.windowing.length)
    for chunk in ChunkReader(spec.kernel, batches, chunk_events):
        if len(chunk.slices.slice):
            with refusing_too_large(spec.kernel, chunk):
                events, _, _ = guarded.with_guards(chunk.events)
                windows = _Windows(spec, chunk, events, builder.build(events))
                yield from _PARTS[spec.part](windows)


class _Seen(NamedTuple):
    """Nodes as windows see them: those that lie on a trend of the window."""

    window: Ints
    node: Ints

    def among(self, chosen: Bools) -> _Seen:
        return _Seen(self.window[chosen], self.node[chosen])


class _Windows:
    """The windows of a chunk and the graph that they see parts of."""

    def __init__(self, spec: EventGraphSpec, chunk: Chunk, events: Events, graph: AttributeGraph) -> None:
        self.spec = spec
        self.chunk = chunk
        self.events = events
        self.graph = graph
        slices = chunk.slices
        self.low, self.high = slices.low[slices.slice], slices.high[slices.slice]
        self.first, self.last = np.searchsorted(graph.event, [self.low, self.high])

    def blocks(self) -> Iterator[_Seen]:
        """The nodes of so many windows at a time."""
        total = np.cumsum(self.last - self.first)
        begin = 0
        while begin < len(total):
            before = total[begin - 1] if begin else 0
            end = max(begin + 1, int(np.searchsorted(total, before + BLOCK_ROWS, side="right")))
            window, node = members_of(self.first[begin:end], self.last[begin:end])
            seen = _Seen(window + begin, node)
            on_trend = (self.graph.origin[node] >= self.low[seen.window]) & (
                self.graph.reach[node] < self.high[seen.window]
            )
            yield seen.among(on_trend)
            begin = end

    def place(self, window: Ints) -> list[pa.Array]:
        """Key and window columns."""
        slices = self.chunk.slices
        rows = from_numpy(self.chunk.events.segment_start[slices.segment[window]])
        columns = [as_array(self.chunk.table.column(k)).take(rows) for k in range(self.spec.kernel.layout.keys)]
        if self.spec.kernel.query.windowing.kind == SLIDING:
            columns.append(window_column(self.spec.kernel, slices.start[window]))
        return columns

    def numbers(self, seen: _Seen) -> list[pa.Array]:
        """The event's number in its window, and the state."""
        number = self.graph.event[seen.node] - self.low[seen.window]
        return [from_numpy(number), from_numpy(self.graph.state[seen.node])]


def _booleans(values: Bools) -> pa.Array:
    packed = pa.py_buffer(np.packbits(values, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, packed])


# ------------------------------------------------------------------------------------------- vertices and edges


def _vertices(windows: _Windows) -> Iterator[list[pa.Array]]:
    graph = windows.graph
    events = EventRows(windows.chunk, windows.spec.fields, windows.spec.kernel)
    for seen in windows.blocks():
        node = seen.node
        flags = [
            graph.begins[node],
            graph.ends[node],
            graph.origin_before[node] < windows.low[seen.window],
            graph.reach_after[node] >= windows.high[seen.window],
        ]
        yield [
            *windows.place(seen.window),
            *windows.numbers(seen),
            *map(_booleans, flags),
            events.at(graph.event[node]),
        ]


def _edges(windows: _Windows) -> Iterator[list[pa.Array]]:
    return _listed(windows, windows.graph, np.ones(len(windows.graph.start), dtype=np.bool_))


def _direct(windows: _Windows) -> Iterator[list[pa.Array]]:
    """The edges of the steps that have no attribute vertices."""
    graph = windows.graph
    owner, place = members_of(graph.first_range[:-1], graph.first_range[1:])
    steps = steps_of(windows.spec.kernel.query.machine)
    first = np.searchsorted([step.edge.source for step in steps], graph.state)
    direct = np.array([not step.is_separable for step in steps], dtype=np.bool_)
    chosen = direct[first[owner] + place - graph.first_range[owner]] if len(steps) else np.zeros(0, dtype=np.bool_)
    return _listed(windows, graph, chosen)


def _reduced(windows: _Windows) -> Iterator[list[pa.Array]]:
    graph, machine = windows.graph, GuardedMachine(windows.spec.kernel).machine
    reduced = reduce_edges(graph, machine)
    if reduced is None:
        raise MemoryError
    return _listed(windows, _one_range_each(graph, reduced), np.ones(len(reduced.start), dtype=np.bool_))


def _one_range_each(graph: AttributeGraph, listed: Graph) -> AttributeGraph:
    """Listed successors as ranges in which nothing is skipped."""
    count, entries = len(listed.start), len(listed.target)
    return graph._replace(
        first_range=np.arange(count + 1),
        start=listed.start,
        stop=listed.stop,
        limit=np.ones(count, dtype=np.int32),
        target=listed.target,
        rank=np.ones(entries, dtype=np.int32),
        skip=np.ones((entries >> SKIP_BITS) + 1, dtype=np.int32),
    )


def _listed(windows: _Windows, graph: AttributeGraph, chosen: Bools) -> Iterator[list[pa.Array]]:
    """The edges of the chosen ranges, block by block."""
    for seen in windows.blocks():
        high, last = windows.high[seen.window], windows.last[seen.window]
        degree = np.zeros(len(seen.node), dtype=np.int64)
        _successors(graph, chosen, seen.node, high, last, degree, np.zeros(0, dtype=np.int32))
        total = np.cumsum(degree)
        begin = 0
        while begin < len(degree):
            before = total[begin - 1] if begin else 0
            end = max(begin + 1, int(np.searchsorted(total, before + BLOCK_ROWS, side="right")))
            if total[end - 1] > before:
                some = slice(begin, end)
                target = np.empty(total[end - 1] - before, dtype=np.int32)
                _successors(graph, chosen, seen.node[some], high[some], last[some], degree[some], target)
                source = np.repeat(np.arange(begin, end), degree[some])
                earlier = _Seen(seen.window[source], seen.node[source])
                later = _Seen(earlier.window, target.astype(np.int64))
                yield [*windows.place(earlier.window), *windows.numbers(earlier), *windows.numbers(later)]
            begin = end


@jit
def _successors(
    graph: AttributeGraph, chosen: Bools, node: Ints, high: Ints, last: Ints, degree: Ints, target: Places
) -> None:
    """Counts the successors of nodes in their windows, or, if there is room for them, lists them."""
    counting = len(target) == 0
    at = 0
    for k in range(len(node)):
        v = node[k]
        found = 0
        for r in range(graph.first_range[v], graph.first_range[v + 1]):
            if not chosen[r]:
                continue
            limit, stop = graph.limit[r], graph.stop[r]
            place = next_entry(graph.rank, graph.skip, graph.start[r], stop, limit)
            while place < stop and graph.target[place] < last[k]:
                if graph.reach[graph.target[place]] < high[k]:
                    if not counting:
                        target[at] = graph.target[place]
                        at += 1
                    found += 1
                place = next_entry(graph.rank, graph.skip, place + 1, stop, limit)
        if counting:
            degree[k] = found


# -------------------------------------------------------------------------------------------- attribute vertices


class Lists(NamedTuple):
    """The attribute vertices of one step: a list of them per window and per value of the equalities.

    Attributes
    ----------
    begin : int64 array, shape (lists + 1,)
        The vertices of list ``l`` are ``begin[l]:begin[l + 1]``; within the list they are numbered from 0.
    low, high : int64 arrays, shape (vertices,)
        The position, among the earlier events, of one whose bound the range begins or ends with; -1: unbounded.
    vertex : int64 array, shape (later events,)
        The vertex that the event's value lies in.
    first, stop : int64 arrays, shape (earlier events,)
        The vertices ``first:stop`` are those that the event leads to.
    """

    begin: Ints
    low: Ints
    high: Ints
    vertex: Ints
    first: Ints
    stop: Ints


def cut_lists(op: str | None, count: int, later: tuple[Ints, Ints], earlier: tuple[Ints, Ints]) -> Lists:
    """Cuts the values of each list at the bounds of its earlier events.

    Parameters
    ----------
    op : {"<", "<=", ">", ">="} or None
        How the later event's value compares with the earlier event's bound; None: lists are single values.
    count : int
        How many lists there are.
    later, earlier : (int64 array, int64 array)
        Each event's list, and its value or bound.

    Examples
    --------
    The published example, ``next > 2 * previous``: values 32, 7, 15, 35, 40, 17 in this order of time.

    >>> value = np.array([32, 7, 15, 35, 40, 17])
    >>> one = np.zeros(6, dtype=np.int64)
    >>> lists = cut_lists(">", 1, (one, value), (one, 2 * value))
    >>> (2 * value)[lists.low[1:]] + 1  # where ranges begin
    array([15, 31, 35, 65, 71, 81])
    >>> lists.vertex, lists.first
    (array([2, 0, 1, 3, 3, 1]), array([4, 1, 2, 5, 6, 3]))
    """
    (later_list, value), (earlier_list, bound) = later, earlier
    if op is None:
        absent = np.full(count, -1)
        zero = np.zeros(len(earlier_list), dtype=np.int64)
        return Lists(np.arange(count + 1), absent, absent, np.zeros(len(later_list), dtype=np.int64), zero, zero + 1)
    values, rank = np.unique(np.concatenate([value, bound]), return_inverse=True)
    # A list and a rank as one number, in the order of both.
    of_later = later_list * len(values) + rank[: len(value)]
    of_earlier = earlier_list * len(values) + rank[len(value) :]
    cuts, owner = np.unique(of_earlier, return_index=True)
    sizes = np.bincount(earlier_list[owner], minlength=count)
    first_cut = np.cumsum(sizes) - sizes
    # Values equal to a bound are above the cut if the bound itself is on their side.
    side = "right" if op in (">=", "<") else "left"
    vertex = np.searchsorted(cuts, of_later, side=side) - first_cut[later_list]  # type: ignore[call-overload]
    above = np.searchsorted(cuts, of_earlier) - first_cut[earlier_list] + 1
    below = np.zeros_like(above)
    begin = np.append(0, np.cumsum(sizes + 1))
    low, high = np.full((2, begin[-1]), -1)
    place = np.arange(len(cuts)) + earlier_list[owner]
    high[place] = low[place + 1] = owner
    upwards = op in (">", ">=")
    first, stop = (above, (sizes + 1)[earlier_list]) if upwards else (below, above)
    return Lists(begin, low, high, vertex, first, stop)


class _Step(NamedTuple):
    """The attribute vertices of a step in a block of windows."""

    number: int
    step: Step
    later: _Seen
    earlier: _Seen
    later_list: Ints
    earlier_list: Ints
    lists: Lists
    example: Ints  # per list one of the later events, or of the earlier ones counted on from these


def _steps(windows: _Windows) -> Iterator[_Step]:
    """The separable steps of each block of windows."""
    steps = [step for step in steps_of(windows.spec.kernel.query.machine) if step.is_separable]
    codes = [equality_codes(list(step.equalities), windows.events) for step in steps]
    for seen in windows.blocks():
        for number, (step, (of_later, of_earlier, size)) in enumerate(zip(steps, codes, strict=True)):
            order = step.order
            later, later_key, value = _side(
                windows, seen, step.edge.target, size, of_later, order.later if order else None
            )
            earlier, earlier_key, bound = _side(
                windows, seen, step.edge.source, size, of_earlier, order.earlier if order else None
            )
            _, example, list_ = np.unique(
                np.concatenate([later_key, earlier_key]), return_index=True, return_inverse=True
            )
            later_list, earlier_list = list_[: len(later_key)], list_[len(later_key) :]
            lists = cut_lists(order.op if order else None, len(example), (later_list, value), (earlier_list, bound))
            yield _Step(number, step, later, earlier, later_list, earlier_list, lists, example)


def _side(
    windows: _Windows, seen: _Seen, state: int, size: int, code: Ints, column: int | None
) -> tuple[_Seen, Ints, Ints]:
    """The nodes of a state that have all values, each with a number for its window and equal values, and its value."""
    events, graph = windows.events, windows.graph
    side = seen.among(graph.state[seen.node] == state)
    event = graph.event[side.node]
    listed = code[event] >= 0
    if column is not None:
        listed &= events.valid[column, event]
    side, event = side.among(listed), event[listed]
    value = _NONE if column is None else events.codes[column, event]
    return side, side.window * size + code[event], value


def _attributes(windows: _Windows) -> Iterator[list[pa.Array]]:
    for found in _steps(windows):
        lists = found.lists
        owner, _ = members_of(lists.begin[:-1], lists.begin[1:])
        number = np.arange(len(owner)) - lists.begin[owner]
        window = np.concatenate([found.later.window, found.earlier.window])[found.example]
        yield [
            *windows.place(window[owner]),
            *_list_columns(windows, found, owner),
            from_numpy(number),
            *_bound_columns(windows, found),
        ]


def _from(windows: _Windows) -> Iterator[list[pa.Array]]:
    for found in _steps(windows):
        yield [
            *windows.place(found.later.window),
            *_list_columns(windows, found, found.later_list),
            from_numpy(found.lists.vertex),
            windows.numbers(found.later)[0],
        ]


def _to(windows: _Windows) -> Iterator[list[pa.Array]]:
    for found in _steps(windows):
        yield [
            *windows.place(found.earlier.window),
            *_list_columns(windows, found, found.earlier_list),
            windows.numbers(found.earlier)[0],
            from_numpy(found.lists.first),
            from_numpy(found.lists.stop),
        ]


def _list_columns(windows: _Windows, found: _Step, rows: Ints) -> list[pa.Array]:
    """The step, and the values of the equalities, each as the later or as the earlier events have it."""
    graph = windows.graph
    event = np.concatenate([graph.event[found.later.node], graph.event[found.earlier.node]])[found.example][rows]
    is_later = (found.example < len(found.later.node))[rows]
    columns = [from_numpy(np.full(len(rows), found.number, dtype=np.int32))]
    for number, step in enumerate(_separable(windows)):
        for comparison in step.equalities:
            for column, shown in ((comparison.later, is_later), (comparison.earlier, ~is_later)):
                values = windows.chunk.values[column].array
                if number == found.number:
                    columns.append(values.take(from_numpy(event, ~shown)))
                else:
                    columns.append(pa.nulls(len(rows), values.type))
    return columns


def _bound_columns(windows: _Windows, found: _Step) -> list[pa.Array]:
    columns = []
    for number, step in enumerate(_separable(windows)):
        if step.order is None:
            continue
        values = windows.chunk.values[step.order.earlier].array
        for rows in (found.lists.low, found.lists.high):
            if number == found.number:
                event = np.append(windows.graph.event[found.earlier.node], 0)[rows]
                columns.append(values.take(from_numpy(event, rows < 0)))
            else:
                columns.append(pa.nulls(len(rows), values.type))
    return columns


def _separable(windows: _Windows) -> list[Step]:
    return [step for step in steps_of(windows.spec.kernel.query.machine) if step.is_separable]


_PARTS: dict[str, Callable[[_Windows], Iterator[list[pa.Array]]]] = {
    "vertices": _vertices,
    "edges": _edges,
    "reduced": _reduced,
    "direct": _direct,
    "attributes": _attributes,
    "from": _from,
    "to": _to,
}
