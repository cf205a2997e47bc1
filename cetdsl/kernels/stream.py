"""A sorted stream of Arrow batches through a kernel: chunk by chunk, state carried from one to the next.

A chunk ends where enough events have come to be worth a kernel call. Events that an open window (or an open key) still
needs are carried over into the next chunk; nothing else is kept, so memory is bounded by one window of one key.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cetdsl.errors import EngineError, GroupTooLarge, NullTime
from cetdsl.kernels.answers import LaneTable, concatenate, encode_partial, finish, lane_table, merge_rows
from cetdsl.kernels.columns import as_array, differs_from_previous, integers, order_codes, validity
from cetdsl.kernels.evaluate import Evaluator, ValueColumn
from cetdsl.kernels.program import Events, Ints
from cetdsl.kernels.windows import NEVER, Slices, cut_slices
from cetdsl.planning.physical import SLIDING, SPAN, WHOLE, KernelSpec

#: Events per kernel call: large enough that the call's overhead vanishes, small enough to stay in the cache.
CHUNK_EVENTS = 131_072
_FOREVER = 2**62


class Chunk(NamedTuple):
    """A stretch of the stream, ready for a kernel.

    Attributes
    ----------
    table : pyarrow.Table
        The rows as they came.
    events : Events
    values : list of ValueColumn
    slices : Slices
        What can be answered now.
    bounds : (int64 array, int64 array)
        Per slice, the times between which (from, before) a trend answered now begins; used by spans.
    continues : bool
        Whether the first key was already open in the chunk before.
    complete : bool
        Whether the last key ends here.
    """

    table: pa.Table
    events: Events
    values: list[ValueColumn]
    slices: Slices
    bounds: tuple[Ints, Ints]
    continues: bool
    complete: bool


class _Columns:
    """Where each kind of column stands in the kernel's input."""

    def __init__(self, spec: KernelSpec) -> None:
        position = spec.keys
        self.keys = range(position)
        self.stretch = position if spec.windowing.cut else -1
        position += bool(spec.windowing.cut)
        self.time = position
        self.ties = range(position + 1, position + 1 + spec.ties)
        self.mask = -1 if spec.packed else self.ties.stop
        first_code = self.ties.stop + (not spec.packed)
        self.codes = range(first_code, first_code + spec.codes)
        self.values = range(self.codes.stop, self.codes.stop + len(spec.values))
        self.position = self.values.stop if spec.lists else -1
        first_list = self.values.stop + bool(spec.lists)
        self.lists = range(first_list, first_list + spec.lists)
        self.event = self.lists.stop


class ChunkReader:
    """Cuts a sorted stream into chunks."""

    def __init__(self, spec: KernelSpec, batches: Iterator[pa.RecordBatch], chunk_events: int = CHUNK_EVENTS) -> None:
        self.spec = spec
        self.columns = _Columns(spec)
        self.batches = batches
        self.chunk_events = chunk_events
        self.nulls = 0

    def __iter__(self) -> Iterator[Chunk]:
        pending: list[pa.RecordBatch] = []
        waiting, target = 0, self.chunk_events
        resume, answered, continues = NEVER, -_FOREVER, False
        for batch in self._timed():
            pending.append(batch)
            waiting += batch.num_rows
            if waiting < target or self._one_key_so_far(pending):
                continue
            chunk = self._chunk(pending, False, resume, answered, continues)
            rest = chunk.table.slice(chunk.slices.keep_from)
            if len(chunk.slices.slice) or rest.num_rows < waiting:
                pending = []  # the chunk has its own copy; two would be held while it is answered
                yield chunk
                # Where the last key goes on, what has been answered of it must not be answered again.
                continues = rest.num_rows > 0
                resume, answered = chunk.slices.resume, self._answered_until(chunk)
            pending, waiting = rest.to_batches(), rest.num_rows
            target = max(self.chunk_events, 2 * waiting)
        if waiting:
            yield self._chunk(pending, True, resume, answered, continues)

    def _one_key_so_far(self, pending: list[pa.RecordBatch]) -> bool:
        """Whether nothing can be answered yet: without windows, as long as the first key goes on."""
        if self.spec.windowing.kind != WHOLE:
            return False
        first, last = pending[0], pending[-1]
        return all(first.column(k)[0].equals(last.column(k)[-1]) for k in self.columns.keys)

    def _answered_until(self, chunk: Chunk) -> int:
        if self.spec.windowing.kind != SPAN:
            return -_FOREVER
        return int(chunk.events.time[-1]) - self.spec.windowing.length

    def _timed(self) -> Iterator[pa.RecordBatch]:
        """The batches; rows without a time, which are sorted first and all sent to one task, raise."""
        for batch in self.batches:
            if batch.num_rows == 0:
                continue
            time = batch.column(self.columns.time)
            self.nulls += time.null_count
            if not time[-1].is_valid:
                continue  # more of them may come
            self._refuse_nulls()
            yield batch
        self._refuse_nulls()

    def _refuse_nulls(self) -> None:
        if self.nulls:
            raise null_time(self.spec.time, self.nulls)

    def _chunk(
        self, pending: list[pa.RecordBatch], complete: bool, resume: int, answered: int, continues: bool
    ) -> Chunk:
        try:
            table = pa.Table.from_batches(pending).combine_chunks()
            return self._prepare(table, complete, resume, answered, continues)
        except MemoryError as error:
            raise too_large(self.spec, pending[-1], sum(batch.num_rows for batch in pending)) from error

    def _prepare(self, table: pa.Table, complete: bool, resume: int, answered: int, continues: bool) -> Chunk:
        arrays = [as_array(column) for column in table.columns]
        columns, spec = self.columns, self.spec
        count = table.num_rows
        keys = [arrays[k] for k in columns.keys]
        if spec.windowing.cut:
            keys.append(arrays[columns.stretch])
        new_key = differs_from_previous(keys, count)
        segment_start = np.append(np.nonzero(new_key)[0], count).astype(np.int64)
        time, mask = self._time_and_mask(arrays)
        new_time = new_key.copy()
        new_time[1:] |= time[1:] != time[:-1]
        if ((time[1:] < time[:-1]) & ~new_key[1:]).any():
            raise EngineError(
                "the rows of a key did not arrive in order of time",
                hint="this is a defect of cetdsl or of the Spark version; please report it with the physical plan",
            )
        if spec.ties:
            new_time |= differs_from_previous([arrays[k] for k in columns.ties], count)
        instant = np.cumsum(new_time) - 1
        codes, valid = order_codes([arrays[k] for k in columns.codes])
        if not spec.codes:
            codes, valid = np.zeros((0, count), dtype=np.int64), np.zeros((0, count), dtype=np.bool_)
        list_start, list_items = self._lists(arrays, segment_start, count)
        events = Events(segment_start, time, instant, mask, codes, valid, list_start, list_items)
        stretch = np.zeros(len(segment_start) - 1, dtype=np.int64)
        if spec.windowing.cut:
            stretch = integers(arrays[columns.stretch])[segment_start[:-1]]
        look_back = spec.windowing.length if spec.negations else 0
        slices = cut_slices(
            spec.windowing, segment_start, time, stretch, complete, resume if continues else NEVER, look_back
        )
        bounds = self._bounds(slices, stretch, time, complete, answered if continues else -_FOREVER)
        values = [ValueColumn(arrays[k]) for k in columns.values]
        return Chunk(table, events, values, slices, bounds, continues, complete)

    def _time_and_mask(self, arrays: list[pa.Array]) -> tuple[Ints, Ints]:
        time = integers(arrays[self.columns.time])
        if not self.spec.packed:
            return time, integers(arrays[self.columns.mask])
        return time >> self.spec.packed, time & ((1 << self.spec.packed) - 1)

    def _bounds(self, slices: Slices, stretch: Ints, time: Ints, complete: bool, answered: int) -> tuple[Ints, Ints]:
        """The times between which trends of each slice begin that are to be answered now."""
        count = len(slices.low)
        begin = np.full(count, -_FOREVER, dtype=np.int64)
        end = np.full(count, _FOREVER, dtype=np.int64)
        windowing = self.spec.windowing
        if windowing.kind != SPAN or not count:
            return begin, end
        if windowing.cut:
            begin, end = stretch[:count] * windowing.cut, (stretch[:count] + 1) * windowing.cut
        begin[0] = max(begin[0], answered)
        if not complete:
            # The last event's own instant may still go on, so its trends' ends are not known yet.
            end[-1] = min(end[-1], int(time[-1]) - windowing.length)
        return begin, end

    def _lists(self, arrays: list[pa.Array], segment_start: Ints, count: int) -> tuple[Ints, Ints]:
        """List columns as positions in the chunk; what lies before the chunk is dropped."""
        rows = self.spec.lists
        start = np.zeros((rows, count + 1), dtype=np.int64)
        items: list[NDArray[np.int64]] = []
        if not rows:
            return start, np.zeros(0, dtype=np.int64)
        position = integers(arrays[self.columns.position])
        first = np.repeat(segment_start[:-1], np.diff(segment_start))
        shift = first - position[first]
        offset = 0
        for row, column in enumerate(self.columns.lists):
            array = arrays[column]
            lengths = np.diff(array.offsets.to_numpy())
            flat = integers(array.flatten())
            if array.null_count:
                lengths = np.where(validity(array), lengths, 0)
            owner = np.repeat(np.arange(count), lengths)
            flat = flat + shift[owner]
            kept = flat >= first[owner]
            start[row, 0] = offset
            start[row, 1:] = offset + np.cumsum(np.bincount(owner[kept], minlength=count))
            items.append(flat[kept])
            offset = int(start[row, -1])
        return start, np.concatenate(items)


def null_time(column: str, rows: int) -> NullTime:
    """The error of rows without a time."""
    return NullTime(
        f"the time column {column!r} is NULL in {rows} row{'s' if rows > 1 else ''}",
        hint="clean the data, or leave these rows out with on_null_time='skip'",
    )


def too_large(spec: KernelSpec, rows: pa.RecordBatch | pa.Table, events: int) -> GroupTooLarge:
    """The error of a window that does not fit into the worker's memory; ``rows`` end with its key."""
    last = rows.num_rows - 1
    key = tuple(rows.column(k)[last].as_py() for k in range(spec.keys))
    around = rows.column(spec.keys + bool(spec.windowing.cut))[last].as_py()
    when = around >> spec.packed if spec.packed else around
    return GroupTooLarge(
        f"group {key!r} needs {events} events up to time {when} at once, more than this worker's memory",
        hint="shorten WITHIN, add partition columns or predicates, or give the Python workers more memory",
    )


@contextmanager
def refusing_too_large(spec: KernelSpec, chunk: Chunk) -> Iterator[None]:
    """Turns running out of memory over a chunk into an error that names its largest key."""
    try:
        yield
    except MemoryError as error:
        start = chunk.events.segment_start
        largest = int(np.argmax(np.diff(start)))
        raise too_large(
            spec, chunk.table.slice(start[largest], start[largest + 1] - start[largest]), int(np.diff(start).max())
        ) from error


# ------------------------------------------------------------------------------------------------ aggregates


class _Open(NamedTuple):
    """What is known so far of the last key of a chunk, when it goes on (spans only)."""

    table: LaneTable
    groups: list[pa.Array]


def aggregate_stream(
    spec: KernelSpec, batches: Iterator[pa.RecordBatch], chunk_events: int = CHUNK_EVENTS
) -> Iterator[list[pa.Array]]:
    """Answers a query over a sorted stream.

    Parameters
    ----------
    spec : KernelSpec
    batches : iterator of pyarrow.RecordBatch
        Sorted by key, stretch, time and tie-break columns.
    chunk_events : int
        Events per kernel call, at least.

    Yields
    ------
    list of pyarrow.Array
        Group columns, window (struct, or its start alone for partial results) if sliding, and the outputs or
        partial lanes.
    """
    evaluator = Evaluator(spec)
    kept: _Open | None = None
    for chunk in ChunkReader(spec, batches, chunk_events):
        slices = chunk.slices
        with refusing_too_large(spec, chunk):
            values = evaluator.evaluate(chunk.events, chunk.values, slices, chunk.bounds)
        found = np.nonzero(values.found[slices.slice])[0]
        table = lane_table(spec, values, chunk.values, slices.slice[found])
        segment = slices.segment[found]
        groups = _groups(spec, chunk, segment)
        if spec.windowing.kind == SPAN:
            table, groups, kept = _carry(spec, chunk, table, groups, segment, kept)
        if len(table.scaled[0]):
            yield _answer(spec, table, groups, slices.start[found])
    if kept is not None:
        yield _answer(spec, kept.table, kept.groups, np.zeros(1, dtype=np.int64))


def _groups(spec: KernelSpec, chunk: Chunk, segment: Ints) -> list[pa.Array]:
    rows = pa.array(chunk.events.segment_start[segment])
    return [as_array(chunk.table.column(k)).take(rows) for k in range(spec.groups)]


def _carry(
    spec: KernelSpec, chunk: Chunk, table: LaneTable, groups: list[pa.Array], segment: Ints, kept: _Open | None
) -> tuple[LaneTable, list[pa.Array], _Open | None]:
    """Adds what earlier chunks found for the first key, and holds back the last one if it goes on."""
    last = len(chunk.events.segment_start) - 2
    if kept is not None:
        # An open key keeps its last events, so it is the first key of the next chunk.
        joined, numbers = concatenate([kept.table, table]), np.append(0, segment)
        starts = np.nonzero(np.append(True, numbers[1:] != numbers[:-1]))[0]
        groups = [
            pa.concat_arrays([before, now]).take(pa.array(starts))
            for before, now in zip(kept.groups, groups, strict=True)
        ]
        table, segment, kept = merge_rows(spec, joined, starts), numbers[starts], None
    if not chunk.complete and len(segment) and segment[-1] == last:
        row = np.array([len(segment) - 1])
        kept = _Open(table.take(row), [column.take(pa.array(row)) for column in groups])
        before = np.arange(len(segment) - 1)
        table, groups = table.take(before), [column.take(pa.array(before)) for column in groups]
    return table, groups, kept


def _answer(spec: KernelSpec, table: LaneTable, groups: list[pa.Array], start: Ints) -> list[pa.Array]:
    columns = list(groups)
    if spec.windowing.kind == SLIDING:
        columns.append(pa.array(start) if spec.partial else window_column(spec, start))
    if spec.partial:
        return columns + encode_partial(table)
    return columns + finish(spec, table, Places(spec, groups, start))


class Places:
    """Describes rows of an answer by group and window, only when an error needs it."""

    def __init__(self, spec: KernelSpec, groups: list[pa.Array], start: Ints) -> None:
        self.spec = spec
        self.groups = groups
        self.start = start

    def __getitem__(self, row: int) -> str:
        parts = []
        if self.groups:
            parts.append(f"group {tuple(column[row].as_py() for column in self.groups)!r}")
        if self.spec.windowing.kind == SLIDING:
            window = window_column(self.spec, self.start[row : row + 1])[0].as_py()
            parts.append(f"the window from {window['start']} to {window['end']}")
        return ", ".join(parts) or "the whole input"


def window_type(spec: KernelSpec) -> pa.DataType:
    """The Arrow type of window bounds: the time column's own."""
    return {"timestamp": pa.timestamp("us", tz="UTC"), "timestamp_ntz": pa.timestamp("us")}.get(
        spec.time_type, pa.int64()
    )


def window_column(spec: KernelSpec, start: Ints) -> pa.Array:
    """``struct<start, end>`` as Spark's ``window`` function gives it."""
    kind = window_type(spec)
    bounds = [pa.array(start).cast(kind), pa.array(start + spec.windowing.length).cast(kind)]
    return pa.StructArray.from_arrays(bounds, names=["start", "end"])
