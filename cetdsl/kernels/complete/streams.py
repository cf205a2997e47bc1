"""Trends out of graphs: a graph is built per chunk of a sorted stream, and its paths are listed, counted or surveyed.

The graph of a chunk serves all of its windows. Where its edges would be too many, the windows are split into halves
until they fit; the edges of a single window that are too many are an error, but for a count that needs no edges.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NamedTuple

import attrs
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cetdsl.errors import EngineError, GroupTooLarge, InvalidNode
from cetdsl.ir.extraction import Extraction
from cetdsl.ir.kernel import ALL, MAXIMAL, KernelSpec
from cetdsl.ir.layout import SHARE
from cetdsl.ir.shares import task_of
from cetdsl.ir.stages import SURVEY, GraphSpec, SurveySpec
from cetdsl.ir.windowing import SLIDING, WHOLE
from cetdsl.kernels.answers.rows import RowNames, answer_columns, group_columns
from cetdsl.kernels.answers.tables import AccumulatorTable
from cetdsl.kernels.complete.extract import Survey, extract, survey
from cetdsl.kernels.complete.graphlets import STEP_BYTES
from cetdsl.kernels.complete.jobs import Settings
from cetdsl.kernels.enumerate.guards import GuardedMachine
from cetdsl.kernels.enumerate.trends import TrendRows
from cetdsl.kernels.graph.attribute_graph import AttributeGraph
from cetdsl.kernels.graph.build import GraphBuilder
from cetdsl.kernels.graph.census import Census, census
from cetdsl.kernels.graph.counts import count_trends
from cetdsl.kernels.graph.edges import list_edges
from cetdsl.kernels.graph.pivots import beside_pivots
from cetdsl.kernels.graph.reduction import reduce_edges
from cetdsl.kernels.machine.conditions import pivot_demands
from cetdsl.kernels.numbers.mixing import mixed
from cetdsl.kernels.numbers.scaled import sum_scaled
from cetdsl.kernels.vocabulary import Block, Events, Graph, Ints
from cetdsl.kernels.wire.chunks import CHUNK_EVENTS, Chunk, Columns, by_chunks, window_column
from cetdsl.kernels.wire.columns import from_numpy, integers
from cetdsl.kernels.wire.windows import pivot_subslices

#: No number of more bits is a DECIMAL(38, 0).
_DECIMAL_BITS = 128
#: Shares of a key divide the trends of slices of so many events or more; they take turns with smaller ones.
DIVIDED_EVENTS = 16
#: The only share of slices that are listed whole.
WHOLE_SLICES = (0, 1)
#: Events beside pivots, each counted once per pivot, that are copied at a time.
MOST_COPIES = 2**20
#: Edges of one graph at most: half a gigabyte, and as much again while a transitive reduction is made.
MOST_EDGES = 2**27


class Part(NamedTuple):
    """Some slices of a chunk, and the graph of their events; ``edges`` is None if none were asked for.

    ``number`` is the chunk's number of each event, ``slices`` are the chunk's numbers of the slices, and ``low`` and
    ``high`` are their events in the graph. Where pairwise predicates relate all events of a trend to one, its
    ``pivot``, a slice is there once for each event of the pivot, and has the trends about this one; -1: none.
    """

    attributes: AttributeGraph
    edges: Graph | None
    number: Ints
    slices: Ints
    low: Ints
    high: Ints
    pivot: Ints

    def alone(self) -> Iterator[Part]:
        """Yields the graph with each of its slices alone."""
        for n in range(len(self.slices)):
            own = slice(n, n + 1)
            yield self._replace(slices=self.slices[own], low=self.low[own], high=self.high[own], pivot=self.pivot[own])

    @property
    def bytes_held(self) -> int:
        """The bytes of the arrays of the graph, each counted once."""
        arrays = _arrays((self.attributes, self.edges))
        owners = {id(owner): owner.nbytes for owner in map(_owner, arrays)}
        return sum(owners.values())

    @property
    def graph(self) -> Graph:
        """The graph, where its edges were asked for."""
        assert self.edges is not None
        return self.edges


def _arrays(parts: object) -> Iterator[NDArray[Any]]:
    """Yields the arrays within nested tuples."""
    if isinstance(parts, np.ndarray):
        yield parts
    elif isinstance(parts, tuple):
        for part in parts:
            yield from _arrays(part)


def _owner(array: NDArray[Any]) -> NDArray[Any]:
    """Returns the array whose memory another one shows."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


class Asked(NamedTuple):
    """Slices that a graph is to be built of: their numbers, their events ``low:high``, and their pivots (-1: none)."""

    slices: Ints
    low: Ints
    high: Ints
    pivot: Ints

    def rows(self, begin: int, end: int | None) -> Asked:
        """Returns some of them."""
        return Asked(*(column[begin:end] for column in self))


class Graphs:
    """Builds the graphs of a query, chunk after chunk of sorted events.

    ``"maximal"`` trends are paths of the transitive reduction, so for these the graph is reduced. Where windows share a
    graph, it takes no more than half of the ``memory`` bytes (None: no limit).
    """

    def __init__(self, spec: KernelSpec, memory: int | None = None) -> None:
        self.spec = spec
        self._memory = memory
        self.complete = spec.query.completeness != ALL
        self.variable = np.array(spec.query.machine.variables, dtype=np.int64)
        self._guarded, self._demands = GuardedMachine(spec), pivot_demands(spec.query)
        windowing = spec.query.windowing
        self.builder = GraphBuilder(self._guarded.machine, windowing.length if windowing.kind == SLIDING else 0)

    def parts(self, chunk: Chunk, slices: Ints | None = None, *, listed: bool = True) -> Iterator[Part]:
        """Yields the slices of a chunk (by default all of them) with their graphs; ``listed``: with edges."""
        numbers = np.arange(len(chunk.slices.low)) if slices is None else slices
        if len(numbers) == 0:
            return
        events, _, _ = self._guarded.with_guards(chunk.events)
        waiting = self._asked(chunk, numbers)[::-1]
        while waiting:
            asked = waiting.pop()
            part = self._part(events, asked)
            if listed:
                part = part._replace(edges=self._edges(part.attributes))
                if len(asked.slices) > 1 and (part.edges is None or self._is_large(part)):
                    # Windows overlap the fewer others, the further they are apart.
                    half = len(asked.slices) // 2
                    waiting += [asked.rows(half, None), asked.rows(0, half)]
                    continue
                if part.edges is None:
                    raise _too_many_edges(self.spec, chunk, part)
            yield part

    def _is_large(self, part: Part) -> bool:
        """Whether a graph takes more than half of the memory."""
        return self._memory is not None and 2 * part.bytes_held > self._memory

    def _asked(self, chunk: Chunk, numbers: Ints) -> list[Asked]:
        """Returns the slices that a graph is to be built of, in lots that fit memory."""
        low, high = chunk.slices.low[numbers], chunk.slices.high[numbers]
        pivot = self.spec.query.pivot
        if pivot < 0:
            return [Asked(numbers, low, high, np.full_like(numbers, -1))]
        low, high, events, row = pivot_subslices(low, high, chunk.events.mask, 1 << pivot, False)
        whole = Asked(numbers[row], low, high, events)
        size = np.cumsum(high - low)
        cuts = np.unique(np.searchsorted(size, np.arange(MOST_COPIES, size[-1:].max(initial=0), MOST_COPIES)) + 1)
        bounds = [0, *cuts[cuts < len(size)].tolist(), len(size)]
        return [whole.rows(begin, end) for begin, end in pairwise(bounds) if begin < end]

    def _part(self, events: Events, asked: Asked) -> Part:
        """Builds the graph of some slices."""
        numbers, low, high, pivot = asked
        if self.spec.query.pivot >= 0:
            own, number = beside_pivots(events, self.spec.query.pivot, self._demands, low, high, pivot)
            low, high = own.segment_start[:-1], own.segment_start[1:]
        else:
            first, last = int(low.min()), int(high.max())
            own, number = cut_events(events, first, last), np.arange(first, last)
            low, high = low - first, high - first
        return Part(self.builder.build(own), None, number, numbers, low, high, pivot)

    def _edges(self, attributes: AttributeGraph) -> Graph | None:
        if self.spec.query.completeness == MAXIMAL:
            return reduce_edges(attributes, self._guarded.machine, MOST_EDGES)
        return list_edges(attributes, MOST_EDGES)


def cut_events(events: Events, first: int, last: int) -> Events:
    """Returns consecutive events as events of their own."""
    if first == 0 and last == len(events.time):
        return events
    # A part of a table has gaps where the table has several rows, and each kernel would be compiled for both forms.
    inner = events.segment_start[(events.segment_start > first) & (events.segment_start < last)]
    return Events(
        np.concatenate([[first], inner, [last]]).astype(np.int64) - first,
        events.time[first:last],
        events.instant[first:last],
        events.mask[first:last],
        np.ascontiguousarray(events.codes[:, first:last]),
        np.ascontiguousarray(events.valid[:, first:last]),
        np.ascontiguousarray(events.list_start[:, first : last + 1]),
        events.list_items - first,
    )


def _too_many_edges(spec: KernelSpec, chunk: Chunk, part: Part) -> GroupTooLarge:
    """Makes the error of a window whose graph does not fit into memory."""
    where, events = _described(spec, chunk, part), len(part.number)
    return GroupTooLarge(
        f"{where}: {events} events are joined by more than {MOST_EDGES} edges, too many for one task",
        hint="count them with count_complete_trends('ends'), list them with algorithm='joins', shorten WITHIN, or add "
        "partition columns or predicates",
    )


def settings_of(spec: KernelSpec, asked: Extraction, part: Part) -> Settings:
    """Returns how trends are extracted from a graph, with the memory that the graph leaves."""
    events = len(part.number)
    is_one_group = not spec.layout.keys and spec.query.windowing.kind == WHOLE
    if asked.anchors is not None and asked.anchors > events and is_one_group:
        raise InvalidNode(
            f"there are {events} events, and anchors={asked.anchors} asks for more anchors than that",
            hint="leave anchors= out: then their number is chosen by what it costs",
        )
    if asked.memory is None:
        return Settings(**attrs.asdict(asked))
    held = part.bytes_held
    if held + STEP_BYTES > asked.memory:
        raise GroupTooLarge(
            f"the graph of {events} events takes {held} bytes, and {asked.memory} are allowed with partial trends",
            hint="raise memory_limit, shorten WITHIN, or add partition columns or predicates",
        )
    return Settings(**attrs.asdict(attrs.evolve(asked, memory=asked.memory - held)))


@contextmanager
def naming_the_group(spec: KernelSpec, chunk: Chunk, part: Part) -> Iterator[None]:
    """Adds the group to an error that an extraction from the graph of a part meets."""
    try:
        yield
    except GroupTooLarge as error:
        raise GroupTooLarge(f"{_described(spec, chunk, part)}: {error.message}", hint=error.hint) from error


def _described(spec: KernelSpec, chunk: Chunk, part: Part) -> str:
    """Describes the group and window of a part, or those from and to which it goes."""
    ends = part.slices[[0, -1]]
    windows = np.searchsorted(chunk.slices.slice, ends)
    groups = group_columns(spec, chunk, chunk.slices.segment[windows])
    named = RowNames(spec, groups, chunk.slices.start[windows])
    first, last = named(0), named(1)
    return first if first == last else f"one of the graphs from {first} to {last}"


def graph_stream(spec: GraphSpec, batches: Iterator[pa.RecordBatch], chunk_events: int = CHUNK_EVENTS) -> Columns:
    """Lists the trends that are paths of the graphs of a sorted stream.

    The columns are keys, the window if sliding, and the trend: ``list<struct<variable, event>>``.
    """
    kernel, left = spec.trends.kernel, spec.trends.limit
    graphs = Graphs(kernel, spec.extraction.memory)

    def trends(chunk: Chunk) -> Columns:
        nonlocal left
        rows = TrendRows(spec.trends, chunk)
        for share, slices in _shares(spec, chunk):
            for whole in graphs.parts(chunk, slices):
                with naming_the_group(kernel, chunk, whole):
                    settings = settings_of(kernel, spec.extraction, whole)
                for part in [whole] if share == WHOLE_SLICES else whole.alone():
                    found = extract(
                        part.graph, graphs.variable, part.low, part.high, complete=graphs.complete, settings=settings,
                        limit=left, share=share,
                    )  # fmt: skip
                    with naming_the_group(kernel, chunk, part):
                        for block in found:
                            left -= len(block.slice) if left >= 0 else 0
                            yield rows.rows(placed(block, part))

    if left != 0:
        for columns in by_chunks(kernel, batches, chunk_events, trends):
            yield columns
            if left == 0:
                return


def _shares(spec: GraphSpec, chunk: Chunk) -> Iterator[tuple[tuple[int, int], Ints]]:
    """Yields the slices of a chunk that are to be listed whole, and those of which each share is to be listed.

    Which trends a share has depends on nothing but the slice that they are in: beside it, another task may have other
    keys, and other windows in its chunks. So each large slice is to be divided by itself, and a small one is listed by
    one share, which its first time and its length choose.
    """
    low, high = chunk.slices.low, chunk.slices.high
    if not spec.shares:
        yield WHOLE_SLICES, np.arange(len(low))
        return
    segment = np.searchsorted(chunk.events.segment_start, low, side="right") - 1
    shares = shares_of(spec, chunk)[segment]
    small = high - low < DIVIDED_EVENTS
    turn = mixed((chunk.events.time[low] + (high - low)).astype(np.uint64)) % np.uint64(spec.shares)
    yield WHOLE_SLICES, np.flatnonzero(small & (turn == shares))
    for share in np.unique(shares[~small]).tolist():
        yield (share, spec.shares), np.flatnonzero(~small & (shares == share))


def shares_of(spec: GraphSpec, chunk: Chunk) -> Ints:
    """Returns which share of its key each segment of a chunk is to list."""
    number = integers(chunk.column(SHARE))[chunk.events.segment_start[:-1]].tolist()
    if spec.trends.kernel.layout.partition == (SHARE,) and len(number) > 1:
        raise EngineError(
            "two shares of the events came to one task",
            hint="this is a defect of cetdsl or of the Spark version; use algorithm='joins', and please report it with "
            "the physical plan",
        )
    return np.array([task_of(one, spec.shares) for one in number], dtype=np.int64)


def placed(block: Block, part: Part) -> Block:
    """Returns a block of a part with the event and slice numbers of its chunk."""
    return block._replace(event=part.number[block.event], slice=part.slices[block.slice])


def count_stream(spec: KernelSpec, batches: Iterator[pa.RecordBatch], chunk_events: int = CHUNK_EVENTS) -> Columns:
    """Counts the trends that are paths of the graphs of a sorted stream, for one accumulator and one output.

    The columns are groups, the window (a struct, or only its start for partial results) if sliding, and the count or
    partial accumulator.
    """
    graphs, reduced = Graphs(spec), spec.query.completeness == MAXIMAL
    # Beyond what the form of the answer can show, the size of a count is enough for the error, or is the answer.
    most_bits = {"decimal": _DECIMAL_BITS, "string": None}.get(spec.answer.number, 0)

    def counts(chunk: Chunk) -> Columns:
        slices = chunk.slices
        exact = np.zeros(len(slices.low), dtype=object)
        scaled = np.zeros(len(slices.low), dtype=np.complex128)
        found = []
        for part in graphs.parts(chunk, listed=reduced):
            graph = part.edges or part.attributes
            counts = count_trends(graph, part.low, part.high, graphs.complete, most_bits)
            found.append((part.slices, counts.exact, counts.scaled))
        if found:
            number, *each = map(np.concatenate, zip(*found, strict=True))
            order = np.argsort(number, kind="stable")
            own, first = np.unique(number[order], return_index=True)
            exact[own] = np.add.reduceat(each[0][order], first)
            scaled[own] = sum_scaled(each[1][order], first)
        counted = np.flatnonzero(scaled.real[slices.slice] > 0)
        if len(counted):
            rows = slices.slice[counted]
            table = AccumulatorTable([exact[rows] if spec.answer.exact else None], [scaled[rows]], [])
            groups = group_columns(spec, chunk, slices.segment[counted])
            yield answer_columns(spec, table, groups, slices.start[counted])

    return by_chunks(spec, batches, chunk_events, counts)


def survey_stream(spec: SurveySpec, batches: Iterator[pa.RecordBatch], chunk_events: int = CHUNK_EVENTS) -> Columns:
    """Surveys the graphs of a sorted stream, and what listing their trends takes.

    The columns are keys, the window if sliding, and those of :data:`~cetdsl.ir.stages.SURVEY`.
    """
    kernel = spec.graph.trends.kernel
    graphs, asked = Graphs(kernel, spec.graph.extraction.memory), spec.graph.extraction

    def surveyed(chunk: Chunk) -> Columns:
        slices, numbers, found = chunk.slices, [], []
        for part in graphs.parts(chunk):
            windows, complete = (part.low, part.high), graphs.complete
            with naming_the_group(kernel, chunk, part):
                held = census(part.graph, *windows, complete)
                settings = settings_of(kernel, asked, part)
                work = survey(part.graph, *windows, complete=complete, settings=settings, measure=spec.measure)
            numbers.append(part.slices)
            found.append(_survey_columns(held, work, part.bytes_held))
        if found:
            rows = from_numpy(np.argsort(np.concatenate(numbers))[slices.slice])
            shown = chunk.key_columns(spec.graph.trends.keys, slices.segment)
            if kernel.query.windowing.kind == SLIDING:
                shown.append(window_column(kernel, slices.start))
            yield [*shown, *(pa.concat_arrays(column).take(rows) for column in zip(*found))]

    return by_chunks(kernel, batches, chunk_events, surveyed)


def _survey_columns(held: Census, work: Survey, graph_bytes: int) -> list[pa.Array]:
    """Makes columns of what is known of some graphs and of their trends; what was not measured is NULL."""
    known = {**held._asdict(), **work._asdict(), "vertices": work.nodes, "cuts": work.graphlets - 1}
    known["predicted_bytes"] = work.predicted_bytes + graph_bytes
    known["bytes"] = np.where(work.bytes < 0, -1, work.bytes + graph_bytes)
    return [
        pa.array(known[name].tolist(), pa.string())
        if kind == "string"
        else from_numpy(known[name], known[name] < 0 if name in ("bytes", "steps") else None)
        for name, kind in SURVEY
    ]
