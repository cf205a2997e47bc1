"""Lists the matches of many queries as Arrow columns, from a sorted stream of events."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.layout import BUCKET, KEY, KIND, TESTS, UNTIL
from cetdsl.ir.slots import WORK, InstancesSpec
from cetdsl.ir.windowing import SLIDING, SPAN, Windowing
from cetdsl.kernels.enumerate.batches import join_blocks, take_trends, trends_between
from cetdsl.kernels.enumerate.trends import EventRows
from cetdsl.kernels.instances.detector import BLOCK_NUMBERS, Detector
from cetdsl.kernels.instances.walks import Walker
from cetdsl.kernels.vocabulary import Block, Ints
from cetdsl.kernels.wire.chunks import CHUNK_EVENTS, Chunk, Columns, by_chunks, window_type
from cetdsl.kernels.wire.columns import bitmap, from_numpy, integers, texts

#: The events of a chunk if the number of matches is limited, because most events may then never be needed.
_CHUNK_OF_FEW = 8_192


def instance_stream(
    spec: InstancesSpec, batches: Iterator[pa.RecordBatch], chunk_events: int = CHUNK_EVENTS
) -> Columns:
    """Lists the matches in a sorted stream: the query, the key columns, the window if any slides, and the trend."""
    if not spec.limit:
        return
    detector = Detector(spec.vertices, spec.limit) if spec.vertices else None
    rows, walkers = _Rows(spec), [Walker(spec, one) for one in spec.walked]

    def answer(chunk: Chunk) -> Columns:
        kinds, tests = _kinds_and_tests(spec, chunk)
        if detector is not None:
            yield from rows.of(chunk, detector.find(chunk.events, kinds, tests, *chunk.asked[0]))
        for number, walker in enumerate(walkers, 1):
            for own in walker.rows(chunk, number, kinds, tests):
                yield rows.of_walk(chunk, walker.query, own)

    def enough() -> bool:
        return not any((detector is not None and detector.wants_more, *(walker.left for walker in walkers)))

    events = chunk_events if spec.limit < 0 else min(chunk_events, _CHUNK_OF_FEW)
    yield from by_chunks(spec.kernel, batches, events, answer, _asking(spec), enough)


def measure_stream(spec: InstancesSpec, batches: Iterator[pa.RecordBatch], chunk_events: int = CHUNK_EVENTS) -> Columns:
    """Yields the report on each vertex, see ``WORK``, when all matches in a sorted stream have been found.

    Queries that are listed depth first have no vertex, and are not in the report.
    """
    detector = Detector(spec.vertices, spec.limit)

    def answer(chunk: Chunk) -> Columns:
        for _ in detector.find(chunk.events, *_kinds_and_tests(spec, chunk), *chunk.asked[0]):
            pass
        return iter(())

    if spec.vertices:
        for _ in by_chunks(spec.kernel, batches, chunk_events, answer):
            pass
    numbers = (detector.built, detector.shared, detector.avoided, detector.not_kept)
    columns = [from_numpy(np.arange(len(spec.vertices), dtype=np.int32)), *map(from_numpy, numbers)]
    assert len(columns) == len(WORK)
    yield columns


def _asking(spec: InstancesSpec) -> list[KernelSpec]:
    """Returns the specs whose windows ``by_chunks`` is to cut: the shared one as a span, then the walked queries'.

    Matches of vertices are found among all events of a key's time buckets, as by a span, and then put into windows.
    """
    windowing = spec.kernel.query.windowing
    if windowing.kind == SLIDING:
        windowing = Windowing(SPAN, windowing.length)
    return [spec.kernel.with_query(windowing=windowing), *(one.kernel for one in spec.walked)]


def _kinds_and_tests(spec: InstancesSpec, chunk: Chunk) -> tuple[Ints, Ints]:
    """The kind of each event, and which tests hold of it."""
    layout, count = spec.kernel.layout, len(chunk.events.time)
    kinds = np.full(count, -1, dtype=np.int64)
    if spec.kinds:
        found = pc.index_in(chunk.column(f"{KIND}0"), texts(spec.kinds))
        kinds = integers(pc.fill_null(found, -1).cast(pa.int64()))
    words = [integers(chunk.column(name)) for name in layout.all_of(TESTS)]
    return kinds, np.array(words, dtype=np.int64).reshape(len(words), count)


def _buckets(spec: KernelSpec, chunk: Chunk) -> tuple[Ints, Ints]:
    """Returns the start of each key's first time bucket and the end of its last."""
    first, last = BUCKET, UNTIL if spec.layout.has(UNTIL) else BUCKET
    bucket, until = (integers(chunk.column(name))[chunk.events.segment_start[:-1]] for name in (first, last))
    cut = spec.query.windowing.cut
    return bucket * cut, (until + 1) * cut


class _Rows:
    """Makes answer columns of matches, of several queries together where these have few."""

    def __init__(self, spec: InstancesSpec) -> None:
        self._spec = spec
        self._names, self._variables = texts(spec.queries), texts(spec.variables)
        self._shows = np.array([[key in own for key in spec.all_keys] for own in spec.keys], dtype=np.bool_)
        kind = window_type(spec.kernel)
        self._window_type = pa.struct([pa.field(name, kind) for name in ("start", "end")])
        windows = {one.query: one.window or (0, 0) for one in spec.vertices if one.query >= 0}
        self._in_buckets = spec.kernel.query.windowing.kind == SLIDING
        self._windows = np.array([windows.get(number, (0, 0)) for number in range(len(spec.queries))], dtype=np.int64)

    def of(self, chunk: Chunk, found: Iterator[tuple[int, Block]]) -> Columns:
        """The answer's columns for the matches in a chunk."""
        events = EventRows(chunk, self._spec.fields, self._spec.kernel)
        queries: list[int] = []
        blocks: list[Block] = []
        waiting = 0
        for query, block in found:
            queries.append(query)
            blocks.append(block)
            waiting += len(block.event)
            if waiting >= BLOCK_NUMBERS:
                yield from self._columns(chunk, events, queries, blocks)
                queries, blocks, waiting = [], [], 0
        if blocks:
            yield from self._columns(chunk, events, queries, blocks)

    def of_walk(self, chunk: Chunk, query: int, own: list[pa.Array]) -> list[pa.Array]:
        """The answer's columns, from the columns that a query by itself would have."""
        keys = dict(zip(self._spec.keys[query], own, strict=False))
        trend, windows, count = own[-1], own[len(keys) : -1], len(own[-1])
        columns = [self._names.take(from_numpy(np.full(count, query)))]
        for key in self._spec.all_keys:
            columns.append(keys[key] if key in keys else pa.nulls(count, chunk.column(f"{KEY}{key}").type))
        if self._spec.sliding:
            columns += windows or [pa.nulls(count, self._window_type)]
        return [*columns, trend]

    def _columns(self, chunk: Chunk, events: EventRows, queries: list[int], blocks: list[Block]) -> Columns:
        block = join_blocks(blocks)
        query = np.repeat(np.array(queries, dtype=np.int64), [len(one.slice) for one in blocks])
        columns: list[pa.Array] = []
        if self._spec.sliding:
            row, window = self._places(chunk, block, query)
            block, query = take_trends(block, row), query[row]
            columns.append(window)
        shown = chunk.key_columns(self._spec.all_keys, block.slice)
        for number, column in enumerate(shown):
            shows = self._shows[query, number]
            if not shows.all():
                shown[number] = column.take(from_numpy(np.arange(len(query)), absent=~shows))
        places = [self._names.take(from_numpy(query)), *shown, *columns]
        for some in events.sizes.portions(block.event, block.start):
            own = trends_between(block, some)
            yield [*(column[some] for column in places), events.trends(own, self._variables)]

    def _places(self, chunk: Chunk, block: Block, query: Ints) -> tuple[Ints, pa.Array]:
        """Returns each trend once per window that contains all of it, and these windows; NULL if a query has none.

        On a stream, only windows that start within the time buckets of the key are answered now.
        """
        time = chunk.events.time
        first, last = time[block.event[block.start[:-1]]], time[block.event[block.start[1:] - 1]]
        length, slide = self._windows[query].T
        slides = slide > 0
        step = np.where(slides, slide, 1)
        lowest, highest = (last - length) // step + 1, first // step
        if self._in_buckets:
            begin, end = (bound[block.slice] for bound in _buckets(self._spec.kernel, chunk))
            lowest, highest = np.maximum(lowest, -(-begin // step)), np.minimum(highest, -(-end // step) - 1)
        copies = np.where(slides, np.maximum(highest - lowest + 1, 0), 1)
        row = np.repeat(np.arange(len(query)), copies)
        within = np.arange(len(row)) - np.repeat(np.cumsum(copies) - copies, copies)
        start = (lowest[row] + within) * step[row]
        kind, absent = window_type(self._spec.kernel), ~slides[row]
        bounds = [from_numpy(bound, absent).cast(kind) for bound in (start, start + length[row])]
        return row, pa.Array.from_buffers(self._window_type, len(row), [bitmap(absent)], children=bounds)
