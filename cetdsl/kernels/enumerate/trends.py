"""Turns the trends that a search finds into Arrow columns, with the fields of their events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.layout import EventColumn, OfTime, OfVariable
from cetdsl.ir.stages import TrendsSpec
from cetdsl.ir.windowing import has_windows
from cetdsl.kernels._side_by_side import lots, starts
from cetdsl.kernels.enumerate.batches import take_trends, trends_between
from cetdsl.kernels.enumerate.deferred import DeferredNegation, GuardedGaps
from cetdsl.kernels.enumerate.enumerator import Enumerator
from cetdsl.kernels.vocabulary import Block, Ints
from cetdsl.kernels.wire.chunks import CHUNK_EVENTS, Chunk, Columns, by_chunks, window_column, window_type
from cetdsl.kernels.wire.columns import from_numpy, texts
from cetdsl.kernels.wire.portions import RowSizes, repeat, take

#: The most trends and matches in one batch, unless a single trend has more.
PIECE = 131_072


def trend_stream(spec: TrendsSpec, batches: Iterator[pa.RecordBatch], chunk_events: int = CHUNK_EVENTS) -> Columns:
    """Lists the trends of a sorted stream: key columns, window if sliding, and ``list<struct<variable, event>>``."""
    enumerator = Enumerator(spec.kernel)

    def find(chunk: Chunk, limit: int) -> Iterator[Block]:
        return enumerator.enumerate(chunk.events, chunk.slices, chunk.bounds, limit)

    return list_by(find, spec, batches, chunk_events)


def list_by(
    find: Callable[[Chunk, int], Iterator[Block]],
    spec: TrendsSpec,
    batches: Iterator[pa.RecordBatch],
    chunk_events: int,
) -> Columns:
    """Yields the rows of :func:`trend_stream` for the trends that ``find`` returns of each chunk, up to a limit."""
    left = spec.limit
    deferred = [(DeferredNegation(spec.kernel, number), fields) for number, fields in spec.deferred]

    def trends(chunk: Chunk) -> Columns:
        nonlocal left
        rows = TrendRows(spec, chunk)
        if deferred:
            guarded = [(one.match(chunk.events, chunk.slices), fields) for one, fields in deferred]
            for block in find(chunk, -1):
                yield from _with_matches(rows, block, guarded)
            return
        for block in find(chunk, left):
            left -= len(block.slice) if left >= 0 else 0
            yield from rows.rows(block)

    if left != 0:
        yield from by_chunks(spec.kernel, batches, chunk_events, trends, enough=lambda: left == 0)


def _with_matches(rows: TrendRows, block: Block, guarded: list[tuple[GuardedGaps, tuple[int, ...]]]) -> Columns:
    """Yields the answer's columns for a block, with the matches that may forbid each trend, in batches."""
    counts = [gaps.count(block) for gaps, _ in guarded]
    most = min(PIECE, *(rows.matches_at_once(fields) for _, fields in guarded))
    for some in lots(np.sum(counts, axis=0) + 1, most):
        columns = []
        for (gaps, fields), all_counts in zip(guarded, counts, strict=True):
            own = all_counts[some]
            matches = rows.trends(gaps.pick(block, some.start, some.stop, own), fields)
            columns.append(pa.ListArray.from_arrays(from_numpy(starts(own).astype(np.int32)), matches))
        yield from rows.rows(trends_between(block, some), *columns)


class EventRows:
    """The events of one chunk, with the fields that an answer shows."""

    def __init__(self, chunk: Chunk, fields: tuple[str, ...], spec: KernelSpec) -> None:
        self._names = list(fields)
        self._columns = columns = [_event_column(found, chunk, spec) for found in spec.layout.event]
        self.sizes = RowSizes(columns)
        # All row numbers are of rows that exist, so that Arrow need not check them.
        self._take = [
            _Repeated(column[0]).take if _is_one_text(column) else partial(take, column) for column in columns
        ]

    def at(self, rows: Ints, fields: tuple[int, ...] | None = None) -> pa.Array:
        """Returns the events in some rows as structs, which have all fields, or those whose numbers are given."""
        chosen = range(len(self._names)) if fields is None else fields
        if not chosen:
            return pa.array([{}] * len(rows), pa.struct([]))
        picked = from_numpy(rows)
        columns = [self._take[field](picked) for field in chosen]
        return pa.StructArray.from_arrays(columns, names=[self._names[field] for field in chosen])

    def sizes_of(self, fields: tuple[int, ...]) -> RowSizes:
        """Returns how many bytes some of the event's own columns take."""
        return RowSizes([self._columns[field] for field in fields])

    def trends(self, block: Block, variables: pa.Array | _Repeated, fields: tuple[int, ...] | None = None) -> pa.Array:
        """Returns the bindings of each trend as ``list<struct<variable, event>>``; ``variables`` are the names."""
        columns = [variables.take(from_numpy(block.variable)), self.at(block.event, fields)]
        binding = pa.StructArray.from_arrays(columns, names=["variable", "event"])
        return pa.ListArray.from_arrays(from_numpy(block.start.astype(np.int32)), binding)


def _event_column(found: EventColumn, chunk: Chunk, spec: KernelSpec) -> pa.Array:
    """Returns one of the event's own columns."""
    if isinstance(found, OfVariable):
        return _of_variables(found.texts, chunk.events.mask)
    if isinstance(found, OfTime):
        return from_numpy(chunk.events.time, kind=window_type(spec))
    return chunk.column(found.name)


def _of_variables(names: tuple[str, ...], mask: Ints) -> pa.Array:
    """Returns the text that stands for each event's type, by any variable that it may be bound to."""
    lowest = (mask & -mask).view(np.uint64)
    return texts(names).take(from_numpy(np.log2(lowest).astype(np.int64)))


def _is_one_text(column: pa.Array) -> bool:
    """Whether all values of a text column are the same, so that rows of it can be made without a look-up."""
    if column.null_count or not len(column) or not (pa.types.is_string(column.type) or pa.types.is_binary(column.type)):
        return False
    return all(pc.all(pc.equal(some, column[0])).as_py() for some in (column[:64], column))


class _Repeated:
    """A column whose rows all have one value."""

    def __init__(self, value: pa.Scalar) -> None:
        self._value = value
        self._column = pa.repeat(value, 0)

    def take(self, rows: pa.Array) -> pa.Array:
        if len(self._column) < len(rows):
            self._column = repeat(self._value, len(rows))
        return self._column[: len(rows)]


class TrendRows:
    """Makes answer columns of one chunk's blocks."""

    def __init__(self, spec: TrendsSpec, chunk: Chunk) -> None:
        self.spec = spec
        self.chunk = chunk
        self._events = EventRows(chunk, spec.fields, spec.kernel)
        names = texts(spec.variables)
        self._variables = _Repeated(names[0]) if len(names) == 1 else names
        # The first window of each slice; windows with the same events share a slice.
        order = np.argsort(chunk.slices.slice, kind="stable")
        self.windows = order
        self.first = np.searchsorted(chunk.slices.slice[order], np.arange(len(chunk.slices.low) + 1))

    def rows(self, block: Block, *more: pa.Array) -> Columns:
        """Yields the answer's columns for a block, by portions; a trend comes once for each window of its slice.

        ``more`` columns, with a value per trend, stand before the trend.
        """
        window, trend = self._windows(block)
        if trend is not None:
            block, more = take_trends(block, trend), tuple(take(column, from_numpy(trend)) for column in more)
        for some in self.portions(block):
            places = self._places(window[some])
            yield [*places, *(column[some] for column in more), self.trends(trends_between(block, some))]

    def portions(self, block: Block) -> Iterator[slice]:
        """Yields the portions of a block's trends that make one batch of the answer each."""
        return self._events.sizes.portions(block.event, block.start)

    def matches_at_once(self, fields: tuple[int, ...]) -> int:
        """Returns how many matches certainly fit one batch, if each is one event and shows these fields."""
        return self._events.sizes_of(fields).at_once

    def _places(self, window: Ints) -> list[pa.Array]:
        """Returns the columns of keys and windows."""
        slices = self.chunk.slices
        columns = self.chunk.key_columns(self.spec.keys, slices.segment[window])
        if has_windows(self.spec.kernel.query.windowing):
            columns.append(window_column(self.spec.kernel, slices.start[window]))
        return columns

    def _windows(self, block: Block) -> tuple[Ints, Ints | None]:
        copies = self.first[block.slice + 1] - self.first[block.slice]
        if (copies == 1).all():
            return self.windows[self.first[block.slice]], None
        trend = np.repeat(np.arange(len(block.slice)), copies)
        within = np.arange(len(trend)) - np.repeat(np.cumsum(copies) - copies, copies)
        return self.windows[self.first[block.slice[trend]] + within], trend

    def trends(self, block: Block, fields: tuple[int, ...] | None = None) -> pa.Array:
        """Returns the bindings of each trend as ``list<struct<variable, event>>``, with all fields or some of them."""
        return self._events.trends(block, self._variables, fields)
