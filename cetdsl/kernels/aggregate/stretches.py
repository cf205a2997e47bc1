"""Windows as products of stretches: matrices that tasks compute of the events that they read, before any shuffle.

A *stretch* is a sequence of events of one key and one pane that one task reads in order of time. Its matrix
(:mod:`~cetdsl.kernels.aggregate.matrices`) can replace its events if no other event of the key lies between them. The
task that reads them cannot know that. So it adds the times of the first and the last event to each matrix, and the task
that gets all stretches of a key compares them: it answers the key, or reports that its stretches overlap.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import attrs
import numpy as np
import pyarrow as pa

from cetdsl.errors import NullTime
from cetdsl.ir.kernel import KernelSpec, is_exact_accumulator
from cetdsl.ir.layout import BUCKET, FIRST, KEY, LAST, SHARE, TIME, RowLayout, of_stretches
from cetdsl.ir.sorting import UNLIMITED
from cetdsl.ir.windowing import SPAN, Windowing, count_in_panes
from cetdsl.kernels.aggregate.cover import cover_of, window_accumulators
from cetdsl.kernels.aggregate.matrices import (
    Matrices,
    Part,
    Transitions,
    changes,
    lay_out_transitions,
    multiply_neighbours,
    parts_of,
)
from cetdsl.kernels.aggregate.panes import (
    answered,
    answers_of,
    begins_of,
    chunk_of_events,
    chunk_of_panes,
    decoded,
    fresh,
    pane_columns,
)
from cetdsl.kernels.answers.rows import answer_columns, group_columns
from cetdsl.kernels.answers.tables import AccumulatorTable
from cetdsl.kernels.numbers.ladder import EXACT_DOUBLE
from cetdsl.kernels.vocabulary import Bools, Ints
from cetdsl.kernels.wire.chunks import Chunk, ChunkReader, Columns, by_chunks, refusing_too_large
from cetdsl.kernels.wire.columns import from_numpy, integers
from cetdsl.kernels.wire.order import in_order, order_of


def stretch_stream(spec: KernelSpec, batches: Iterator[pa.RecordBatch], chunk_events: int = 0) -> Columns:
    """Yields a row per key, pane and stretch of a task's events.

    The columns are those of :func:`~cetdsl.ir.layout.of_stretches`. A stretch ends with its part of a file, with its
    pane, with the events that are sorted together, or with a chunk, so none is too long for a worker. ``chunk_events``
    is the number of events of a chunk; by default as many as the memory for their matrices allows. Simultaneous events
    that are read one after the other are never in two stretches.
    """
    transitions = lay_out_transitions(spec.query.machine)
    keys = len(spec.layout.all_of(KEY))

    def stretches(chunk: Chunk) -> Columns:
        events, stop = chunk.events, chunk.slices.keep_from
        start = np.append(events.segment_start[events.segment_start < stop], stop)
        begin, last = start[:-1], start[1:] - 1
        if len(begin):
            matrices = pane_columns(spec, transitions, events._replace(segment_start=start), chunk.values)
            panes = chunk.column(BUCKET).take(from_numpy(begin)) if spec.layout.has(BUCKET) else _zeros(len(begin))
            columns = chunk.key_columns(range(keys), np.arange(len(begin)))
            yield [*columns, panes, from_numpy(events.time[begin]), from_numpy(events.time[last]), *matrices]

    # A span of length 0 keeps the last instant of a chunk for the next chunk, because more events of it may come.
    layout, at_once = spec.layout, chunk_events or chunk_of_events(spec, transitions)
    if layout.sort_memory:
        columns = tuple(name for name in layout.columns if name != SHARE)
        layout = attrs.evolve(layout, columns=columns, sort_memory=0)
    reading = attrs.evolve(spec.with_query(windowing=Windowing(SPAN)), layout=layout)
    timed = _timed(spec.layout, batches)
    for part in _sorted_parts(spec.layout, layout, timed) if spec.layout.sort_memory else (timed,):
        yield from by_chunks(reading, part, at_once, stretches)


def _timed(layout: RowLayout, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the batches; raises for rows without a time, and says that other tasks may have more of them."""
    for batch in batches:
        NullTime.refuse_rows(batch.column(layout.position(TIME)).null_count, layout.time, or_more=True)
        yield batch


def _sorted_parts(
    layout: RowLayout, of_file: RowLayout, batches: Iterator[pa.RecordBatch]
) -> Iterator[Iterator[pa.RecordBatch]]:
    """Yields a task's events in parts, each sorted by itself; ``of_file`` is ``layout`` without the column of the file.

    A part has about as many bytes as may be held, and events of one file only. Parts are not merged, so none is written
    to disk.
    """
    order = attrs.evolve(order_of(of_file, buckets_rise=True), memory=UNLIMITED)
    for part in _parts(layout, of_file, batches):
        yield in_order(order, part)


def _parts(
    layout: RowLayout, of_file: RowLayout, batches: Iterator[pa.RecordBatch]
) -> Iterator[Iterator[pa.RecordBatch]]:
    """Yields the unsorted parts; if the events come in order of time, simultaneous ones are in one part."""
    for _, pieces in groupby(_by_file(layout, batches), itemgetter(0)):
        waiting, held, most = list[pa.RecordBatch](), 0, layout.sort_memory
        for _, batch in pieces:
            waiting.append(batch)
            held += batch.nbytes
            if held > most:
                waiting, instant = _without_last_instant(of_file, waiting)
                if waiting:
                    yield _given_away(waiting)
                held = sum(batch.nbytes for batch in instant)
                waiting, most = instant, max(layout.sort_memory, 2 * held)
        yield _given_away(waiting)


def _by_file(layout: RowLayout, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yields batches without the column that numbers the part of a file they are read from, each with this number."""
    for batch in batches:
        if not layout.has(SHARE):
            yield 0, batch
        elif batch.num_rows:
            place = layout.position(SHARE)
            file = integers(batch.column(place))
            batch = batch.select([n for n in range(batch.num_columns) if n != place])
            starts = np.flatnonzero(changes(file))
            for low, high in zip(starts, np.append(starts[1:], len(file)), strict=True):
                yield int(file[low]), batch.slice(low, high - low)


def _without_last_instant(
    layout: RowLayout, batches: list[pa.RecordBatch]
) -> tuple[list[pa.RecordBatch], list[pa.RecordBatch]]:
    """Separates the last rows that have one time from the rows before them; returns the latter first."""
    last = None
    for number in reversed(range(len(batches))):
        batch = batches[number]
        if not batch.num_rows:
            continue
        time = integers(batch.column(layout.position(TIME))) >> layout.encoding.bits
        last = time[-1] if last is None else last
        others = np.flatnonzero(time != last)
        if len(others):
            cut = int(others[-1]) + 1
            return [*batches[:number], batch.slice(0, cut)], [batch.slice(cut), *batches[number + 1 :]]
    return [], batches


def _given_away(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the batches of a list, and drops its reference to each."""
    batches.reverse()
    while batches:
        yield batches.pop()


class _Panes(NamedTuple):
    """The panes of a chunk of stretches; a pane has one stretch or several."""

    #: The pane of each stretch, rising.
    owner: Ints
    #: The first stretch of each pane.
    start: Ints
    #: Whether a stretch begins no later than the stretch of its pane before it ends.
    overlaps: Bools


def stretched_window_stream(spec: KernelSpec, batches: Iterator[pa.RecordBatch], chunk_panes: int = 0) -> Columns:
    """Yields the answer of each key and window from the rows of its stretches, sorted by key, pane and first event.

    The columns are a flag, the keys, and those of :func:`~cetdsl.kernels.aggregate.stream.aggregate_stream`. A row with
    a true flag says that stretches of the key overlap, and its answer is NULL; the reader must ignore all other rows of
    this key, which there may be.
    """
    transitions = lay_out_transitions(spec.query.machine)
    windowing = count_in_panes(spec.query.windowing)
    layout = of_stretches(spec.layout, sum(1 + part.whole for part in parts_of(spec)))
    stretches = attrs.evolve(spec.with_query(windowing=windowing), layout=layout)
    keys = range(len(layout.all_of(KEY)))
    for chunk in ChunkReader(stretches, batches, chunk_panes or chunk_of_panes(spec, transitions)):
        slices, panes = chunk.slices, _panes_of(chunk)
        mixed = _segments_of(chunk, panes.overlaps)
        if len(mixed):
            yield [_flags(True, len(mixed)), *chunk.key_columns(keys, mixed), *_nothing(spec, chunk, len(mixed))]
        if not len(slices.low):
            continue
        with refusing_too_large(stretches, chunk):
            number, begins_key = chunk.events.time[panes.start], fresh(chunk.events)[panes.start]
            first, last = panes.owner[slices.low], panes.owner[slices.high - 1]
            cover = cover_of(number, begins_key, first, last, begins_of(slices), windowing.length)
            table = window_accumulators(spec, transitions, _multiplied(spec, transitions, chunk, panes.owner), cover)
        for rows in answered(table, slices):
            kept = rows[~np.isin(slices.segment[rows], mixed)]
            columns = answers_of(spec, chunk, table, kept)
            yield [_flags(False, len(kept)), *chunk.key_columns(keys, slices.segment[kept]), *columns]


def _panes_of(chunk: Chunk) -> _Panes:
    """Groups the stretches of a chunk by panes; those of a pane come in the order of their first events."""
    opens = fresh(chunk.events) | changes(chunk.events.time)
    begin, end = (integers(chunk.column(name)) for name in (FIRST, LAST))
    overlaps = ~opens
    overlaps[1:] &= begin[1:] <= end[:-1]
    return _Panes(np.cumsum(opens) - 1, np.flatnonzero(opens), overlaps)


def _segments_of(chunk: Chunk, stretches: Bools) -> Ints:
    """Returns the segments of the chunk, each a key, that have any of the marked stretches."""
    at = np.flatnonzero(stretches)
    return np.unique(np.searchsorted(chunk.events.segment_start, at, side="right") - 1)


def _multiplied(spec: KernelSpec, transitions: Transitions, chunk: Chunk, owner: Ints) -> list[Matrices]:
    """Returns the matrix of each pane, per part: the product of those of its stretches."""
    matrices = decoded(spec, transitions, chunk)
    return [_products(part, each, owner) for part, each in zip(parts_of(spec), matrices, strict=True)]


def _products(part: Part, matrices: Matrices, owner: Ints) -> Matrices:
    """Multiplies the matrices of each pane: whole numbers in doubles if no product is too large, else exactly."""
    if not part.whole or matrices.dtype == object:
        return multiply_neighbours(matrices, owner)
    # The diagonals of all matrices have ones, so no intermediate product has a larger entry than the last product.
    with np.errstate(over="ignore", invalid="ignore"):
        bound = multiply_neighbours(np.abs(matrices), owner)
    if (bound <= EXACT_DOUBLE).all():
        return multiply_neighbours(matrices, owner) if (matrices < 0).any() else bound
    return multiply_neighbours(matrices.astype(np.int64).astype(object), owner)


def _nothing(spec: KernelSpec, chunk: Chunk, rows: int) -> list[pa.Array]:
    """Returns ``rows`` rows without an answer."""
    nobody = np.zeros(0, dtype=np.int64)
    exact = [
        np.zeros(0, dtype=object) if is_exact_accumulator(spec, each) else None for each in spec.answer.accumulators
    ]
    empty = AccumulatorTable(exact, [np.zeros(0, dtype=np.complex128) for _ in exact], [])
    columns = answer_columns(spec, empty, group_columns(spec, chunk, nobody), nobody)
    return [pa.nulls(rows, column.type) for column in columns]


def _flags(value: bool, rows: int) -> pa.Array:
    return pa.array(np.full(rows, value))


def _zeros(rows: int) -> pa.Array:
    return from_numpy(np.zeros(rows, dtype=np.int64))
