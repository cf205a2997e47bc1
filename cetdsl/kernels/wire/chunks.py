"""A sorted stream of Arrow batches, cut into chunks for a kernel.

A chunk ends where enough events have come to be worth a kernel call. Events that an open window (or an open key) still
needs are carried over into the next chunk; nothing else is kept, so memory is bounded by one window of one key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cetdsl.errors import EngineError, GroupTooLarge, NullTime
from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.windowing import SPAN, WHOLE, Windowing
from cetdsl.kernels.vocabulary import Events, Ints, Slices
from cetdsl.kernels.wire.columns import (
    as_array,
    differs_from_previous,
    from_numpy,
    integers,
    order_codes,
    parts,
    to_numpy,
    validity,
)
from cetdsl.kernels.wire.order import in_order
from cetdsl.kernels.wire.runs import events_of_runs
from cetdsl.kernels.wire.values import ValueColumn
from cetdsl.kernels.wire.windows import NEVER, cut_slices

#: Events per kernel call: large enough that the call's overhead vanishes, small enough to stay in the cache.
CHUNK_EVENTS = 131_072
_FOREVER = 2**62


class Chunk(NamedTuple):
    """A stretch of the stream, ready for a kernel.

    Attributes
    ----------
    table : pyarrow.Table
        The key columns and, for trends, those of the event, where they came; the other columns, all of them converted,
        are held once and so are empty (of type null) here.
    events : Events
    values : list of ValueColumn
    asked : list of (Slices, (int64 array, int64 array))
        Per query what can be answered now, and per slice the times between which (from, before) a trend answered now
        begins; these are used by spans.
    continues : bool
        Whether the first key was already open in the chunk before.
    complete : bool
        Whether the last key ends here.
    """

    table: pa.Table
    events: Events
    values: list[ValueColumn]
    asked: list[tuple[Slices, tuple[Ints, Ints]]]
    continues: bool
    complete: bool

    @property
    def slices(self) -> Slices:
        """What can be answered now, for the only query."""
        ((slices, _),) = self.asked
        return slices

    @property
    def bounds(self) -> tuple[Ints, Ints]:
        """The bounds of the only query's slices."""
        ((_, bounds),) = self.asked
        return bounds


class _Columns:
    """Where each kind of column stands in the kernel's input."""

    def __init__(self, spec: KernelSpec) -> None:
        position = spec.layout.keys
        self.keys = range(position)
        self.stretch = position if spec.query.windowing.cut else -1
        position += bool(spec.query.windowing.cut)
        self.time = position
        self.ties = range(position + 1, position + 1 + spec.layout.ties)
        has_mask = not (spec.layout.packed or spec.layout.alone)
        self.mask = self.ties.stop if has_mask else -1
        first_code = self.ties.stop + has_mask
        self.codes = range(first_code, first_code + spec.layout.codes)
        self.values = range(self.codes.stop, self.codes.stop + len(spec.layout.values))
        self.position = self.values.stop if spec.layout.lists else -1
        first_list = self.values.stop + bool(spec.layout.lists)
        self.lists = range(first_list, first_list + spec.layout.lists)
        self.event = self.lists.stop


class _Asked:
    """What one query asks of a stream: its windows, and how far they have been answered."""

    def __init__(self, windowing: Windowing, looks_back: bool) -> None:
        self.windowing = windowing
        self.look_back = windowing.length if looks_back else 0
        self.resume, self.answered = NEVER, -_FOREVER

    def cut(self, events: Events, stretch: Ints, complete: bool) -> tuple[Slices, tuple[Ints, Ints]]:
        """The slices that can be answered now, and the times between which their trends begin."""
        slices = cut_slices(
            self.windowing, events.segment_start, events.time, stretch, complete, self.resume, self.look_back
        )
        return slices, self._bounds(len(slices.low), stretch, events.time, complete)

    def _bounds(self, count: int, stretch: Ints, time: Ints, complete: bool) -> tuple[Ints, Ints]:
        begin = np.full(count, -_FOREVER, dtype=np.int64)
        end = np.full(count, _FOREVER, dtype=np.int64)
        windowing = self.windowing
        if windowing.kind != SPAN or not count:
            return begin, end
        if windowing.cut:
            begin, end = stretch[:count] * windowing.cut, (stretch[:count] + 1) * windowing.cut
        begin[0] = max(begin[0], self.answered)
        if not complete:
            # The last event's own instant may still go on, so its trends' ends are not known yet.
            end[-1] = min(end[-1], int(time[-1]) - windowing.length)
        return begin, end

    def advance(self, slices: Slices, time: Ints, continues: bool) -> None:
        """Where the last key goes on, what has been answered of it must not be answered again."""
        self.resume, self.answered = NEVER, -_FOREVER
        if continues:
            self.resume = slices.resume
            if self.windowing.kind == SPAN:
                self.answered = int(time[-1]) - self.windowing.length


class ChunkReader:
    """Cuts a sorted stream into chunks.

    Parameters
    ----------
    spec : KernelSpec
        What the rows hold.
    batches : iterator of pyarrow.RecordBatch
    chunk_events : int
        Events per chunk, at least.
    queries : sequence of KernelSpec, optional
        Those that read the stream, each with its own windows; by default only ``spec``.
    """

    def __init__(
        self,
        spec: KernelSpec,
        batches: Iterator[pa.RecordBatch],
        chunk_events: int = CHUNK_EVENTS,
        queries: Sequence[KernelSpec] = (),
    ) -> None:
        self.spec = spec
        self.columns = _Columns(spec)
        if spec.layout.runs is not None:
            batches = events_of_runs(spec.layout.runs, batches)
        self.batches = batches if spec.layout.unsorted is None else in_order(*spec.layout.unsorted, batches)
        self.chunk_events = chunk_events
        self.nulls = 0
        self.asked = [_Asked(one.query.windowing, bool(one.query.negations)) for one in queries or (spec,)]

    def __iter__(self) -> Iterator[Chunk]:
        pending: list[pa.RecordBatch] = []
        waiting, target, continues = 0, self.chunk_events, False
        for batch in self._timed():
            pending.append(batch)
            waiting += batch.num_rows
            if waiting < target or self._one_key_so_far(pending):
                continue
            chunk = self._chunk(pending, False, continues)
            rest = waiting - min(slices.keep_from for slices, _ in chunk.asked)
            if rest < waiting or any(len(slices.slice) for slices, _ in chunk.asked):
                # Before the chunk is answered: it has its own copy, and two would be held.
                pending = _last_rows(pending, rest)
                yield chunk
                continues = rest > 0
                for asked, (slices, _) in zip(self.asked, chunk.asked, strict=True):
                    asked.advance(slices, chunk.events.time, continues)
            waiting = rest
            target = max(self.chunk_events, 2 * waiting)
        if waiting:
            chunk = self._chunk(pending, True, continues)
            pending = []
            yield chunk

    def _one_key_so_far(self, pending: list[pa.RecordBatch]) -> bool:
        """Whether nothing can be answered yet: without windows, as long as the first key goes on."""
        if any(asked.windowing.kind != WHOLE for asked in self.asked):
            return False
        first, last = pending[0], pending[-1]
        return all(first.column(k)[0].equals(last.column(k)[-1]) for k in self.columns.keys)

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
            raise null_time(self.spec.layout.time, self.nulls)

    def _chunk(self, pending: list[pa.RecordBatch], complete: bool, continues: bool) -> Chunk:
        try:
            return self._prepare(pa.Table.from_batches(pending), complete, continues)
        except MemoryError as error:
            last = pending[-1].slice(pending[-1].num_rows - 1)
            time = int(self._time_and_mask(last)[0][0])
            raise too_large(self.spec, last, time, sum(batch.num_rows for batch in pending)) from error

    def _prepare(self, table: pa.Table, complete: bool, continues: bool) -> Chunk:
        # Column by column, so that what came and what was made of it are not held side by side for all of them.
        columns, spec = self.columns, self.spec
        count = table.num_rows
        shown = {
            *columns.keys,
            *range(columns.event, table.num_columns),
            *(k for k in spec.layout.shared if isinstance(k, int) and k >= 0),
        }
        kept = {k: as_array(table.column(k)) for k in shown}
        keys = [kept[k] for k in columns.keys]
        stretches = None
        if spec.query.windowing.cut:
            stretches = as_array(table.column(columns.stretch))
            keys.append(stretches)
        new_key = differs_from_previous(keys, count)
        segment_start = np.append(np.nonzero(new_key)[0], count).astype(np.int64)
        time, mask = self._time_and_mask(table)
        new_time = new_key.copy()
        new_time[1:] |= time[1:] != time[:-1]
        if ((time[1:] < time[:-1]) & ~new_key[1:]).any():
            raise EngineError(
                "the rows of a key did not arrive in order of time",
                hint="this is a defect of cetdsl or of the Spark version; please report it with the physical plan",
            )
        if spec.layout.ties:
            new_time |= differs_from_previous([as_array(table.column(k)) for k in columns.ties], count)
        instant: Ints = np.cumsum(new_time, dtype=np.int64)
        instant -= 1
        codes, valid = order_codes([table.column(k) for k in columns.codes])
        if not spec.layout.codes:
            codes, valid = np.zeros((0, count), dtype=np.int64), np.zeros((0, count), dtype=np.bool_)
        list_start, list_items = self._lists(table, segment_start, count)
        events = Events(segment_start, time, instant, mask, codes, valid, list_start, list_items)
        stretch = np.zeros(len(segment_start) - 1, dtype=np.int64)
        if stretches is not None:
            stretch = integers(stretches)[segment_start[:-1]]
        asked = [each.cut(events, stretch, complete) for each in self.asked]
        values = [ValueColumn(as_array(table.column(k)), segment_start) for k in columns.values]
        rows = [kept.get(k, pa.nulls(count)) for k in range(table.num_columns)]
        return Chunk(pa.table(rows, names=table.column_names), events, values, asked, continues, complete)

    def _time_and_mask(self, rows: pa.Table | pa.RecordBatch) -> tuple[Ints, Ints]:
        time, mask = np.empty((2, rows.num_rows), dtype=np.int64)
        for place, part in parts(rows.column(self.columns.time)):
            time[place] = integers(part)
        if self.spec.layout.packed:
            np.bitwise_and(time, (1 << self.spec.layout.packed) - 1, out=mask)
            time >>= self.spec.layout.packed
            return time, np.array(self.spec.layout.book)[mask] if self.spec.layout.book else mask
        if self.spec.layout.alone:
            mask[:] = 1
            return time, mask
        for place, part in parts(rows.column(self.columns.mask)):
            mask[place] = integers(part)
        return time, mask

    def _lists(self, table: pa.Table, segment_start: Ints, count: int) -> tuple[Ints, Ints]:
        """List columns as positions in the chunk; what lies before the chunk is dropped."""
        rows = self.spec.layout.lists
        start = np.zeros((rows, count + 1), dtype=np.int64)
        items: list[NDArray[np.int64]] = []
        if not rows:
            return start, np.zeros(0, dtype=np.int64)
        position = integers(as_array(table.column(self.columns.position)))
        first = np.repeat(segment_start[:-1], np.diff(segment_start))
        shift = first - position[first]
        offset = 0
        for row, column in enumerate(self.columns.lists):
            array = as_array(table.column(column))
            lengths = np.diff(to_numpy(array.offsets))
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


def _last_rows(batches: list[pa.RecordBatch], count: int) -> list[pa.RecordBatch]:
    """The last rows of some batches, without a copy of them and without a hold on the rows before."""
    kept: list[pa.RecordBatch] = []
    while count > 0:
        batch = batches[-1 - len(kept)]
        kept.append(batch.slice(max(batch.num_rows - count, 0)))
        count -= kept[-1].num_rows
    return kept[::-1]


def null_time(column: str, rows: int) -> NullTime:
    """The error of rows without a time."""
    return NullTime(
        f"the time column {column!r} is NULL in {rows} row{'s' if rows > 1 else ''}",
        hint="clean the data, or leave these rows out with on_null_time='skip'",
    )


def too_large(spec: KernelSpec, row: pa.RecordBatch | pa.Table, time: int, events: int) -> GroupTooLarge:
    """The error of a window that does not fit into the worker's memory; ``row`` and ``time`` are its last event's."""
    key = tuple(row.column(k)[0].as_py() for k in range(spec.layout.keys))
    when = pa.array([time]).cast(window_type(spec))[0]
    return GroupTooLarge(
        f"group {key!r} needs {events} events up to time {when} at once, more than this worker's memory",
        hint="shorten WITHIN, add partition columns or predicates, or give the Python workers more memory",
    )


@contextmanager
def refusing_too_large(spec: KernelSpec, chunk: Chunk) -> Iterator[None]:
    """Turns running out of memory over a chunk into an error that names its largest key."""
    try:
        yield
    except GroupTooLarge:
        raise  # it says more than we could
    except MemoryError as error:
        sizes = np.diff(chunk.events.segment_start)
        last = int(chunk.events.segment_start[np.argmax(sizes) + 1]) - 1
        row, time = chunk.table.slice(last, 1), int(chunk.events.time[last])
        raise too_large(spec, row, time, int(sizes.max())) from error


def window_type(spec: KernelSpec) -> pa.DataType:
    """The Arrow type of window bounds: the time column's own."""
    return {"timestamp": pa.timestamp("us", tz="UTC"), "timestamp_ntz": pa.timestamp("us")}.get(
        spec.layout.time_type, pa.int64()
    )


def window_column(spec: KernelSpec, start: Ints) -> pa.Array:
    """``struct<start, end>`` as Spark's ``window`` function gives it."""
    kind = window_type(spec)
    bounds = [from_numpy(bound).cast(kind) for bound in (start, start + spec.query.windowing.length)]
    return pa.StructArray.from_arrays(bounds, names=["start", "end"])
