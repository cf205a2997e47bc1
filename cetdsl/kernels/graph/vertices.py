"""The graph of a query as rows: its vertices and edges, and the attribute vertices that stand for most of the edges.

A transition of the pattern has *attribute vertices* if an index answers all its predicates. Where it demands equality,
each is a single value. Where it demands an order, the bounds that the earlier events set cut the values into ranges,
and each range is an attribute vertex. A *from-edge* leads from an attribute vertex to an event whose value lies in it.
A *to-edge* leads from an event to a stretch of attribute vertices, those whose values its predicate allows (Mei et al.,
ICPP 2021). So from-edges and to-edges take space in proportion to the events, however many edges between events they
stand for.

All rows of a block of windows are found at once, by sorting, because there may be very many small windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from cetdsl.ir.layout import SHARE
from cetdsl.ir.shares import task_of
from cetdsl.ir.stages import EventGraphSpec
from cetdsl.ir.transitions import transitions_of
from cetdsl.ir.windowing import SLIDING
from cetdsl.kernels._jit import jit
from cetdsl.kernels._side_by_side import lots, starts
from cetdsl.kernels.enumerate.batches import members_of
from cetdsl.kernels.enumerate.guards import GuardedMachine
from cetdsl.kernels.enumerate.trends import EventRows
from cetdsl.kernels.graph.attribute_graph import AttributeGraph, Ranges
from cetdsl.kernels.graph.build import GraphBuilder
from cetdsl.kernels.graph.pivots import copy_slices
from cetdsl.kernels.graph.ranges import SKIP_BITS, next_entry
from cetdsl.kernels.graph.reduction import reduce_edges
from cetdsl.kernels.graph.standing import NO_DEADLINES, Copies, Surroundings, find_standing
from cetdsl.kernels.machine.program import equality_codes
from cetdsl.kernels.vocabulary import Bools, Events, Ints, Places
from cetdsl.kernels.wire.chunks import CHUNK_EVENTS, Chunk, ChunkReader, refusing_too_large, window_column
from cetdsl.kernels.wire.columns import from_numpy, integers

#: Rows of a block, approximately.
BLOCK_ROWS = 262_144
_NONE = np.zeros(0, dtype=np.int64)


def vertex_stream(
    spec: EventGraphSpec, batches: Iterator[pa.RecordBatch], chunk_events: int = CHUNK_EVENTS
) -> Iterator[list[pa.Array]]:
    """Yields one part of the graphs of a sorted stream, window by window.

    The batches are sorted by key, time bucket, time and tie-break columns, and simultaneous events come in an order
    that never changes. The columns of a part are the keys, the window if sliding, and then

    ==========  ====================================================================================================
    vertices    event's number in its window, state, ``first``, ``last``, ``source``, ``sink``, event
    edges       number and state of the earlier event, number and state of the later one
    reduced     the same, of the edges that no longer path bypasses
    direct      the same, of the edges that no attribute vertices stand for
    attributes  transition; per equality of any transition a value of the later and of the earlier side (one is NULL);
                number of the vertex among those of these values; per order of any transition the two bounds
    from        transition, values as above, number of the vertex, number of the event
    to          transition, values as above, number of the event, the first vertex and the one after the last
    ==========  ====================================================================================================
    """
    guarded = GuardedMachine(spec.kernel)
    builder = GraphBuilder(guarded.machine, spec.kernel.query.windowing.length)
    for chunk in ChunkReader(spec.kernel, batches, chunk_events):
        if len(chunk.slices.slice):
            with refusing_too_large(spec.kernel, chunk):
                for windows in _lots(spec, chunk, builder, *guarded.with_guards(chunk.events)):
                    yield from _PARTS[spec.part](windows)


def _lots(
    spec: EventGraphSpec, chunk: Chunk, builder: GraphBuilder, events: Events, before: Ints, until: Ints
) -> Iterator[_Windows]:
    """Yields the windows of a chunk, in groups that share one graph.

    A NOT at either end of the pattern may look at events outside of trends. Then it depends on the window with which
    nodes a trend may begin and end. So each window has copies of its events, and a group has so many windows that their
    copies fit memory together.
    """
    query, slices = spec.kernel.query, chunk.slices
    low, high = slices.low[slices.slice], slices.high[slices.slice]
    if query.shadows is None:
        everything = np.arange(len(low)), np.arange(len(events.time))
        yield _Windows(spec, chunk, events, builder.build(events), *everything, low, high)
        return
    around = Surroundings(events, before, until)
    for some in lots(high - low, BLOCK_ROWS):
        nothing = np.full_like(low[some], -1)
        own, number = copy_slices(events, low[some], high[some])
        begin, end = own.segment_start[:-1], own.segment_start[1:]
        owner = np.repeat(np.arange(len(nothing)), end - begin)
        copies = Copies(own, number, owner, low[some], high[some], nothing, NO_DEADLINES)
        standing, _, _ = find_standing(query, builder, around, copies)
        window = np.arange(some.start, some.stop)
        yield _Windows(spec, chunk, own, builder.build(own, standing), window, number, begin, end)


class _Seen(NamedTuple):
    """Pairs of a window and a node that lies on a trend of the window."""

    window: Ints
    node: Ints

    def among(self, chosen: Bools | Ints | slice) -> _Seen:
        """Returns the chosen rows."""
        return _Seen(self.window[chosen], self.node[chosen])


class _Windows:
    """Windows of a chunk, and the graph that they are parts of.

    ``chosen`` are the numbers of the windows in the chunk. ``number`` has the chunk's number of each of the graph's
    ``events``; the windows hold the events ``low:high`` of the graph.
    """

    def __init__(
        self,
        spec: EventGraphSpec,
        chunk: Chunk,
        events: Events,
        graph: AttributeGraph,
        chosen: Ints,
        number: Ints,
        low: Ints,
        high: Ints,
    ) -> None:
        self.spec = spec
        self.chunk = chunk
        self.events = events
        self.graph = graph
        self.number = number
        self.low, self.high = low, high
        self.transitions = transitions_of(spec.kernel.query.machine)
        self.separable = [t for t in self.transitions if t.is_separable]
        slices = chunk.slices
        self._segment, self._start = slices.segment[chosen], slices.start[chosen]
        self._begin = slices.low[slices.slice[chosen]]
        self.first, self.last = np.searchsorted(graph.nodes.event, [low, high])

    def blocks(self) -> Iterator[_Seen]:
        """Yields the nodes on trends of each window, for several windows at a time."""
        origin, reach = self.graph.nodes.origin, self.graph.nodes.reach
        for some in lots(self.last - self.first, BLOCK_ROWS):
            window, node = members_of(self.first[some], self.last[some])
            seen = _Seen(window + some.start, node)
            yield seen.among((origin[node] >= self.low[seen.window]) & (reach[node] < self.high[seen.window]))

    def window_columns(self, window: Ints) -> list[pa.Array]:
        """Key and window columns."""
        columns = self.chunk.key_columns(range(self.spec.kernel.layout.keys), self._segment[window])
        if self.spec.kernel.query.windowing.kind == SLIDING:
            columns.append(window_column(self.spec.kernel, self._start[window]))
        return columns

    def node_columns(self, seen: _Seen) -> list[pa.Array]:
        """Returns the event's number in its window, and the state."""
        number = self.number[self.graph.nodes.event[seen.node]] - self._begin[seen.window]
        return [from_numpy(number), from_numpy(self.graph.nodes.state[seen.node])]


def _booleans(values: Bools) -> pa.Array:
    """Returns truth values as an Arrow column, in which each takes a bit."""
    packed = pa.py_buffer(np.packbits(values, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, packed])


def _vertices(windows: _Windows) -> Iterator[list[pa.Array]]:
    """Yields the nodes that lie on a trend of some window, with the columns of their events."""
    nodes = windows.graph.nodes
    events = EventRows(windows.chunk, windows.spec.fields, windows.spec.kernel)
    for block in windows.blocks():
        for some in events.sizes.portions(windows.number[nodes.event[block.node]]):
            seen = block.among(some)
            node = seen.node
            source = nodes.origin_before[node] < windows.low[seen.window]
            sink = nodes.reach_after[node] >= windows.high[seen.window]
            flags = map(_booleans, (nodes.begins[node], nodes.ends[node], source, sink))
            event = events.at(windows.number[nodes.event[node]])
            yield [*windows.window_columns(seen.window), *windows.node_columns(seen), *flags, event]


def _edges(windows: _Windows) -> Iterator[list[pa.Array]]:
    """Yields all edges."""
    return _listed(windows, windows.graph, np.ones(len(windows.graph.ranges.start), dtype=np.bool_))


def _direct(windows: _Windows) -> Iterator[list[pa.Array]]:
    """Yields the edges of the transitions that have no attribute vertices."""
    graph, transitions = windows.graph, windows.transitions
    # A node has a range for each transition that leaves its state, in their order.
    owner, _ = members_of(graph.ranges.first[:-1], graph.ranges.first[1:])
    earliest = np.searchsorted([transition.edge.source for transition in transitions], graph.nodes.state)
    number = np.arange(len(owner)) + (earliest - graph.ranges.first[:-1])[owner]
    return _listed(windows, graph, np.array([not t.is_separable for t in transitions], dtype=np.bool_)[number])


def _reduced(windows: _Windows) -> Iterator[list[pa.Array]]:
    """Yields the edges of the transitive reduction: those that no longer path bypasses."""
    graph, machine = windows.graph, GuardedMachine(windows.spec.kernel).machine
    reduced = reduce_edges(graph, machine, wanted=_own_nodes(windows))
    if reduced is None:
        raise MemoryError
    # The successors of each node as one range, all of whose entries are within the limit.
    count, entries = len(reduced.start), len(reduced.target)
    rank, skip = np.ones(entries, dtype=np.int32), np.ones((entries >> SKIP_BITS) + 1, dtype=np.int32)
    limit = np.ones(count, dtype=np.int32)
    ranges = Ranges(np.arange(count + 1), reduced.start, reduced.stop, limit, reduced.target, rank, skip)
    return _listed(windows, graph._replace(ranges=ranges), np.ones(count, dtype=np.bool_))


def _own_nodes(windows: _Windows) -> Bools | None:
    """Whether each node is in the stretch of its key's events that falls to this task's share; None without shares."""
    if not windows.spec.shares:
        return None
    starts, event = windows.events.segment_start, windows.graph.nodes.event
    numbers = integers(windows.chunk.column(SHARE))[starts[:-1]].tolist()
    shares = np.array([task_of(number, windows.spec.shares) for number in numbers], dtype=np.int64)
    segment = np.searchsorted(starts, event, side="right") - 1
    stretch = (event - starts[segment]) * windows.spec.shares // np.diff(starts)[segment]
    own: Bools = stretch == shares[segment]
    return own


def _listed(windows: _Windows, graph: AttributeGraph, chosen: Bools) -> Iterator[list[pa.Array]]:
    """Yields the edges that the chosen ranges stand for, block by block."""
    for seen in windows.blocks():
        high, last = windows.high[seen.window], windows.last[seen.window]
        degree = np.zeros(len(seen.node), dtype=np.int64)
        _successors(graph, chosen, seen.node, high, last, degree, np.zeros(0, dtype=np.int32))
        for some in lots(degree, BLOCK_ROWS):
            if degree[some].any():
                target = np.empty(degree[some].sum(), dtype=np.int32)
                _successors(graph, chosen, seen.node[some], high[some], last[some], degree[some], target)
                earlier = seen.among(np.repeat(np.arange(some.start, some.stop), degree[some]))
                later = _Seen(earlier.window, target.astype(np.int64))
                ends = windows.node_columns(earlier) + windows.node_columns(later)
                yield [*windows.window_columns(earlier.window), *ends]


@jit
def _successors(
    graph: AttributeGraph, chosen: Bools, node: Ints, high: Ints, last: Ints, degree: Ints, target: Places
) -> None:
    """Counts the successors of nodes in their windows, or, if there is room for them in ``target``, lists them node by
    node.

    Only the ``chosen`` ranges count. ``high`` and ``last`` are the event and the node after the last ones of each
    node's window. ``degree`` receives the numbers of successors.
    """
    first, start, stop, limits, targets, rank, skip = graph.ranges
    reach, counting, at = graph.nodes.reach, len(target) == 0, 0
    for k in range(len(node)):
        found = 0
        for r in range(first[node[k]], first[node[k] + 1]):
            if not chosen[r]:
                continue
            entry = next_entry(rank, skip, start[r], stop[r], limits[r])
            while entry < stop[r] and targets[entry] < last[k]:
                if reach[targets[entry]] < high[k]:
                    if not counting:
                        target[at] = targets[entry]
                        at += 1
                    found += 1
                entry = next_entry(rank, skip, entry + 1, stop[r], limits[r])
        if counting:
            degree[k] = found


class Lists(NamedTuple):
    """The attribute vertices of one transition: a list of them per window and per value of the equalities.

    The vertices of list ``l`` are ``begin[l]:begin[l + 1]``; within the list they are numbered from 0. Each is a range
    of values; ``low`` and ``high`` are the positions, among the earlier events, of one whose bound it begins with and
    one whose bound it ends with; -1: unbounded. ``vertex`` is the vertex that each later event's value lies in. Each
    earlier event has to-edges to the vertices ``first:stop``.
    """

    begin: Ints
    low: Ints
    high: Ints
    vertex: Ints
    first: Ints
    stop: Ints


def cut_lists(op: str | None, count: int, later: tuple[Ints, Ints], earlier: tuple[Ints, Ints]) -> Lists:
    """Cuts the values of each of ``count`` lists at the bounds of its earlier events.

    ``op`` compares the later event's value with the earlier event's bound; None: each list has a single vertex.
    ``later`` has the list of each later event, and its value; ``earlier`` that of each earlier event, and its bound.

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
    # A list and the rank of a value as one number, which sorts by list, then by value.
    of_later = later_list * len(values) + rank[: len(value)]
    of_earlier = earlier_list * len(values) + rank[len(value) :]
    cuts, owner = np.unique(of_earlier, return_index=True)
    sizes = np.bincount(earlier_list[owner], minlength=count)
    first_cut = np.cumsum(sizes) - sizes
    # A value equal to a bound has to be above the cut if op is ">=", which it satisfies, or "<", which it does not.
    side = "right" if op in (">=", "<") else "left"
    vertex = np.searchsorted(cuts, of_later, side=side) - first_cut[later_list]  # type: ignore[call-overload]
    above = np.searchsorted(cuts, of_earlier) - first_cut[earlier_list] + 1
    below = np.zeros_like(above)
    begin = starts(sizes + 1)
    low, high = np.full((2, begin[-1]), -1)
    below_cut = np.arange(len(cuts)) + earlier_list[owner]
    high[below_cut] = low[below_cut + 1] = owner
    upwards = op in (">", ">=")
    first, stop = (above, (sizes + 1)[earlier_list]) if upwards else (below, above)
    return Lists(begin, low, high, vertex, first, stop)


class _Vertices(NamedTuple):
    """The attribute vertices of one transition in a block of windows; ``number`` is its own among the separable ones.

    ``later_list`` and ``earlier_list`` say which of the ``lists`` each of the ``later`` nodes stands on, and each of
    the ``earlier`` ones points at. ``example`` is the position of some node of each list, in the later nodes followed
    by the earlier ones.
    """

    number: int
    later: _Seen
    earlier: _Seen
    later_list: Ints
    earlier_list: Ints
    lists: Lists
    example: Ints


def _vertices_of(windows: _Windows) -> Iterator[_Vertices]:
    """Yields the attribute vertices of each separable transition in each block of windows."""
    codes = [equality_codes(list(transition.equalities), windows.events) for transition in windows.separable]
    for seen in windows.blocks():
        for number, (transition, (of_later, of_earlier, size)) in enumerate(zip(windows.separable, codes, strict=True)):
            order, edge = transition.order, transition.edge
            columns = (order.later, order.earlier) if order else (None, None)
            later, later_key, value = _side(windows, seen, edge.target, size, of_later, columns[0])
            earlier, earlier_key, bound = _side(windows, seen, edge.source, size, of_earlier, columns[1])
            keys = np.concatenate([later_key, earlier_key])
            _, example, list_ = np.unique(keys, return_index=True, return_inverse=True)
            later_list, earlier_list = list_[: len(later_key)], list_[len(later_key) :]
            lists = cut_lists(order.op if order else None, len(example), (later_list, value), (earlier_list, bound))
            yield _Vertices(number, later, earlier, later_list, earlier_list, lists, example)


def _side(
    windows: _Windows, seen: _Seen, state: int, size: int, code: Ints, column: int | None
) -> tuple[_Seen, Ints, Ints]:
    """Returns one side of a transition: the nodes of a state whose values are not NULL.

    With them come a number for each, which stands for its window and the values of the equalities, and the value (or
    the bound) that the order compares.
    """
    events, nodes = windows.events, windows.graph.nodes
    side = seen.among(nodes.state[seen.node] == state)
    event = nodes.event[side.node]
    listed = code[event] >= 0
    if column is not None:
        listed &= events.valid[column, event]
    side, event = side.among(listed), event[listed]
    value = _NONE if column is None else events.codes[column, event]
    return side, side.window * size + code[event], value


def _attributes(windows: _Windows) -> Iterator[list[pa.Array]]:
    """Yields the attribute vertices, with the bounds between which they lie."""
    for found in _vertices_of(windows):
        lists = found.lists
        owner, vertex = members_of(lists.begin[:-1], lists.begin[1:])
        window = np.concatenate([found.later.window, found.earlier.window])[found.example]
        event = np.append(windows.graph.nodes.event[found.earlier.node], 0)
        bounds = [
            _values(windows, found, number, transition.order.earlier, event[rows], rows < 0)
            for number, transition in enumerate(windows.separable)
            if transition.order
            for rows in (lists.low, lists.high)
        ]
        yield _rows(windows, found, window[owner], owner, from_numpy(vertex - lists.begin[owner]), *bounds)


def _from(windows: _Windows) -> Iterator[list[pa.Array]]:
    """Yields the from-edges."""
    for found in _vertices_of(windows):
        event = windows.node_columns(found.later)[0]
        yield _rows(windows, found, found.later.window, found.later_list, from_numpy(found.lists.vertex), event)


def _to(windows: _Windows) -> Iterator[list[pa.Array]]:
    """Yields the to-edges."""
    for found in _vertices_of(windows):
        ends = windows.node_columns(found.earlier)[0], from_numpy(found.lists.first), from_numpy(found.lists.stop)
        yield _rows(windows, found, found.earlier.window, found.earlier_list, *ends)


def _rows(windows: _Windows, found: _Vertices, window: Ints, lists: Ints, *more: pa.Array) -> list[pa.Array]:
    """Returns the columns of rows: key, window, transition, the values of the equalities on either side, and more."""
    nodes = windows.graph.nodes
    event = np.concatenate([nodes.event[found.later.node], nodes.event[found.earlier.node]])[found.example][lists]
    is_later = (found.example < len(found.later.node))[lists]
    values = [
        _values(windows, found, number, column, event, hidden)
        for number, transition in enumerate(windows.separable)
        for comparison in transition.equalities
        for column, hidden in ((comparison.later, ~is_later), (comparison.earlier, is_later))
    ]
    transition = from_numpy(np.full(len(lists), found.number, dtype=np.int32))
    return [*windows.window_columns(window), transition, *values, *more]


def _values(windows: _Windows, found: _Vertices, number: int, column: int, event: Ints, hidden: Bools) -> pa.Array:
    """Returns a column of values that transition ``number`` compares; NULL where hidden or of another transition."""
    values = windows.chunk.values[column].array
    if number != found.number:
        return pa.nulls(len(event), values.type)
    return values.take(from_numpy(windows.number[event], hidden))


_PARTS: dict[str, Callable[[_Windows], Iterator[list[pa.Array]]]] = {
    "vertices": _vertices,
    "edges": _edges,
    "reduced": _reduced,
    "direct": _direct,
    "attributes": _attributes,
    "from": _from,
    "to": _to,
}
