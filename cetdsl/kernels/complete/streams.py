"""Trends out of graphs: a sorted stream of events, a graph per chunk of it, and its paths listed, counted or surveyed.

The graph of a chunk serves all of its windows. Where its edges would be too many, the windows are split into halves
until they fit; the edges of one window alone that are too many are an error, but for a count that needs no edges.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from cetdsl.errors import EngineError, GroupTooLarge
from cetdsl.ir.kernel import ALL, MAXIMAL, KernelSpec
from cetdsl.ir.layout import SHARE
from cetdsl.ir.shares import task_of
from cetdsl.ir.stages import SURVEY, GraphSpec, SurveySpec
from cetdsl.ir.windowing import SLIDING
from cetdsl.kernels.answers.rows import Places, answer_columns, group_columns
from cetdsl.kernels.answers.tables import AccumulatorTable
from cetdsl.kernels.complete.extract import extract, survey
from cetdsl.kernels.complete.jobs import Settings
from cetdsl.kernels.enumerate.guards import GuardedMachine
from cetdsl.kernels.enumerate.trends import TrendRows
from cetdsl.kernels.graph.attribute_graph import AttributeGraph
from cetdsl.kernels.graph.build import GraphBuilder
from cetdsl.kernels.graph.census import census
from cetdsl.kernels.graph.counts import count_trends
from cetdsl.kernels.graph.edges import list_edges
from cetdsl.kernels.graph.reduction import reduce_edges
from cetdsl.kernels.vocabulary import Block, Events, Graph, Ints
from cetdsl.kernels.wire.chunks import CHUNK_EVENTS, Chunk, ChunkReader, refusing_too_large, window_column
from cetdsl.kernels.wire.columns import from_numpy, integers

#: No number of more bits is a DECIMAL(38, 0).
_DECIMAL_BITS = 128
#: Edges of one graph at most: half a gigabyte, and as much again while a transitive reduction is made.
MOST_EDGES = 2**27


class Part(NamedTuple):
    """Some slices of a chunk, and the graph of their events.

    Attributes
    ----------
    attributes : AttributeGraph
    graph : Graph or None
        None if no edges were asked for, or if there would be too many for a single slice.
    first : int
        The chunk's number of the first event.
    slices : int64 array
        The chunk's numbers of the slices.
    low, high : int64 arrays
        Their events, from ``first``.
    """

    attributes: AttributeGraph
    graph: Graph | None
    first: int
    slices: Ints
    low: Ints
    high: Ints


class Graphs:
    """Builds the graphs of a query, chunk after chunk of sorted events.

    Parameters
    ----------
    spec : KernelSpec
        ``completeness`` says whether the graph is reduced: ``"maximal"`` trends are paths of the transitive reduction.
    """

    def __init__(self, spec: KernelSpec) -> None:
        self.spec = spec
        self.complete = spec.query.completeness != ALL
        self.variable = np.array(spec.query.machine.variables, dtype=np.int64)
        self._guarded = GuardedMachine(spec)
        self.machine = self._guarded.machine
        self.builder = GraphBuilder(
            self.machine, spec.query.windowing.length if spec.query.windowing.kind == SLIDING else 0
        )

    def parts(self, chunk: Chunk, slices: Ints | None = None, *, listed: bool = True) -> Iterator[Part]:
        """The slices of a chunk (by default all of them) with their graphs; ``listed``: with edges."""
        low, high = chunk.slices.low, chunk.slices.high
        waiting = [np.arange(len(low)) if slices is None else slices]
        if len(waiting[0]) == 0:
            return
        events, _, _ = self._guarded.with_guards(chunk.events)
        while waiting:
            numbers = waiting.pop()
            first, last = int(low[numbers].min()), int(high[numbers].max())
            attributes = self.builder.build(cut_events(events, first, last))
            graph = self._edges(attributes) if listed else None
            if listed and graph is None and len(numbers) > 1:
                # Windows overlap the fewer others, the further they are apart.
                half = len(numbers) // 2
                waiting += [numbers[half:], numbers[:half]]
                continue
            yield Part(attributes, graph, first, numbers, low[numbers] - first, high[numbers] - first)

    def _edges(self, attributes: AttributeGraph) -> Graph | None:
        if self.spec.query.completeness == MAXIMAL:
            return reduce_edges(attributes, self.machine, MOST_EDGES)
        return list_edges(attributes, MOST_EDGES)

    def edges_of(self, chunk: Chunk, part: Part) -> Graph:
        """The graph of a part whose edges are needed."""
        if part.graph is None:
            raise too_many_edges(self.spec, chunk, part)
        return part.graph


def cut_events(events: Events, first: int, last: int) -> Events:
    """Consecutive events as events of their own."""
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


def too_many_edges(spec: KernelSpec, chunk: Chunk, part: Part) -> GroupTooLarge:
    """The error of a window whose graph does not fit into memory."""
    where, events = _place(spec, chunk, part), int(part.high[0] - part.low[0])
    return GroupTooLarge(
        f"{where}: {events} events are joined by more than {MOST_EDGES} edges, too many for one task",
        hint="count them with count_complete_trends('ends'), list them with algorithm='joins', shorten WITHIN, or add "
        "partition columns or predicates",
    )


@contextmanager
def naming_the_place(spec: KernelSpec, chunk: Chunk, part: Part) -> Iterator[None]:
    """Says of which group an error is that an extraction from its graph meets."""
    try:
        yield
    except GroupTooLarge as error:
        raise GroupTooLarge(f"{_place(spec, chunk, part)}: {error.message}", hint=error.hint) from error


def _place(spec: KernelSpec, chunk: Chunk, part: Part) -> str:
    """The group and window of a part, or those from and to which it goes."""
    ends = part.slices[[0, -1]]
    windows = np.searchsorted(chunk.slices.slice, ends)
    groups = group_columns(spec, chunk, chunk.slices.segment[windows])
    places = Places(spec, groups, chunk.slices.start[windows])
    first, last = places[0], places[1]
    return first if first == last else f"one of the graphs from {first} to {last}"


# ------------------------------------------------------------------------------------------------------- listing


def graph_stream(
    spec: GraphSpec, batches: Iterator[pa.RecordBatch], chunk_events: int = CHUNK_EVENTS
) -> Iterator[list[pa.Array]]:
    """Lists the trends that are paths of the graphs of a sorted stream.

    Parameters
    ----------
    spec : GraphSpec
    batches : iterator of pyarrow.RecordBatch
        Sorted by key, time bucket, time and tie-break columns.
    chunk_events : int
        Events per graph, at least.

    Yields
    ------
    list of pyarrow.Array
        Key columns, window if sliding, and the trend: ``list<struct<variable, event>>``.
    """
    kernel = spec.trends.kernel
    graphs, settings, left = Graphs(kernel), Settings(spec.algorithm, spec.memory), spec.trends.limit
    if left == 0:
        return
    for chunk in ChunkReader(kernel, batches, chunk_events):
        rows = TrendRows(spec.trends, chunk)
        with refusing_too_large(kernel, chunk):
            for share, slices in _shares(spec, chunk):
                for part in graphs.parts(chunk, slices):
                    found = extract(
                        graphs.edges_of(chunk, part),
                        graphs.variable,
                        part.low,
                        part.high,
                        complete=graphs.complete,
                        settings=settings,
                        limit=left,
                        share=share,
                    )
                    with naming_the_place(kernel, chunk, part):
                        for block in found:
                            yield rows.rows(placed(block, part))
                            left -= len(block.slice) if left >= 0 else 0
                    if left == 0:
                        return


def _shares(spec: GraphSpec, chunk: Chunk) -> Iterator[tuple[tuple[int, int], Ints]]:
    """The shares of the keys of a chunk, and the slices of which each is to be listed."""
    if not spec.shares:
        yield (0, 1), np.arange(len(chunk.slices.low))
        return
    number = integers(chunk.column(SHARE))[chunk.events.segment_start[:-1]].tolist()
    if not spec.trends.kernel.layout.keys and len(number) > 1:
        raise EngineError(
            "two shares of the events came to one task",
            hint="this is a defect of cetdsl or of the Spark version; use algorithm='joins', and please report it with "
            "the physical plan",
        )
    segment = np.searchsorted(chunk.events.segment_start, chunk.slices.low, side="right") - 1
    shares = np.array([task_of(one, spec.shares) for one in number], dtype=np.int64)[segment]
    for share in np.unique(shares).tolist():
        yield (share, spec.shares), np.flatnonzero(shares == share)


def placed(block: Block, part: Part) -> Block:
    """A block of a part in terms of its chunk."""
    event = block.event + part.first if part.first else block.event
    return block._replace(event=event, slice=part.slices[block.slice])


# ------------------------------------------------------------------------------------------------------ counting


def count_stream(
    spec: KernelSpec, batches: Iterator[pa.RecordBatch], chunk_events: int = CHUNK_EVENTS
) -> Iterator[list[pa.Array]]:
    """Counts the trends that are paths of the graphs of a sorted stream.

    Parameters
    ----------
    spec : KernelSpec
        With one accumulator and one output.
    batches : iterator of pyarrow.RecordBatch
        Sorted by key, time bucket, time and tie-break columns.
    chunk_events : int
        Events per graph, at least.

    Yields
    ------
    list of pyarrow.Array
        Group columns, window (struct, or its start alone for partial results) if sliding, and the count or partial
        accumulator.
    """
    graphs, complete = Graphs(spec), spec.query.completeness != ALL
    # Beyond what the form of the answer can show, the size of a count is enough for the error, or is the answer.
    most_bits = {"decimal": _DECIMAL_BITS, "string": None}.get(spec.answer.number, 0)
    for chunk in ChunkReader(spec, batches, chunk_events):
        slices = chunk.slices
        exact = np.zeros(len(slices.low), dtype=object)
        scaled = np.zeros(len(slices.low), dtype=np.complex128)
        with refusing_too_large(spec, chunk):
            for part in graphs.parts(chunk, listed=spec.query.completeness == MAXIMAL):
                reduction = graphs.edges_of(chunk, part) if spec.query.completeness == MAXIMAL else None
                counts = count_trends(
                    part.attributes, graphs.builder.joins, reduction, part.low, part.high, complete, most_bits
                )
                exact[part.slices], scaled[part.slices] = counts.exact, counts.scaled
        found = np.flatnonzero(scaled.real[slices.slice] > 0)
        if len(found):
            rows = slices.slice[found]
            table = AccumulatorTable([exact[rows] if spec.answer.exact else None], [scaled[rows]], [])
            groups = group_columns(spec, chunk, slices.segment[found])
            yield answer_columns(spec, table, groups, slices.start[found])


# ----------------------------------------------------------------------------------------------------- surveying


def survey_stream(
    spec: SurveySpec, batches: Iterator[pa.RecordBatch], chunk_events: int = CHUNK_EVENTS
) -> Iterator[list[pa.Array]]:
    """Says what the graphs of a sorted stream hold, and what listing their trends takes.

    Parameters
    ----------
    spec : SurveySpec
    batches : iterator of pyarrow.RecordBatch
        Sorted by key, time bucket, time and tie-break columns.
    chunk_events : int
        Events per graph, at least.

    Yields
    ------
    list of pyarrow.Array
        Key columns, window if sliding, and the columns :data:`~cetdsl.ir.stages.SURVEY`.
    """
    kernel = spec.graph.trends.kernel
    graphs, settings = Graphs(kernel), Settings(spec.graph.algorithm, spec.graph.memory)
    for chunk in ChunkReader(kernel, batches, chunk_events):
        slices = chunk.slices
        found = []
        with refusing_too_large(kernel, chunk):
            for part in graphs.parts(chunk):
                with naming_the_place(kernel, chunk, part):
                    found.append(_surveyed(graphs.edges_of(chunk, part), part, graphs.complete, settings, spec.measure))
        if not found:
            continue
        numbers = np.concatenate([part.slices for part, _ in found])
        rows = from_numpy(np.argsort(numbers)[slices.slice])
        shown = chunk.key_columns(spec.graph.trends.keys, slices.segment)
        if kernel.query.windowing.kind == SLIDING:
            shown.append(window_column(kernel, slices.start))
        columns = (pa.concat_arrays(column) for column in zip(*(columns for _, columns in found)))
        yield [*shown, *(column.take(rows) for column in columns)]


def _surveyed(
    graph: Graph, part: Part, complete: bool, settings: Settings, measure: bool
) -> tuple[Part, list[pa.Array]]:
    held = census(graph, part.low, part.high, complete)
    work = survey(graph, part.low, part.high, complete=complete, settings=settings, measure=measure)
    columns = {**held._asdict(), **work._asdict(), "vertices": work.nodes, "cuts": work.graphlets - 1}
    out = []
    for name, kind in SURVEY:
        values = columns[name]
        if kind == "string":
            out.append(pa.array(values.tolist(), pa.string()))
        else:
            out.append(from_numpy(values, values < 0 if name in ("bytes", "steps") else None))
    return part, out
