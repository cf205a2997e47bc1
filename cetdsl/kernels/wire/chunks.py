"""Cuts a sorted stream of Arrow batches into chunks for a kernel.

A chunk ends when there are enough events to be worth a kernel call. Events that an open window (or an open key) still
needs are carried over into the next chunk; nothing else is kept, so memory is bounded by one window of one key.

The events of a key, or of a key and time bucket, are a *segment* of the chunk. A *slice* is a range of a segment's
events that answers one or more windows (:class:`~cetdsl.kernels.vocabulary.Slices`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cetdsl.errors import EngineError, GroupTooLarge, NullTime
from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.layout import (
    BUCKET,
    CODE,
    FIRST,
    KEY,
    KIND,
    LAST,
    LIST,
    MASK,
    MATRIX,
    SHARE,
    TESTS,
    TIE,
    TIME,
    UNTIL,
    VALUE,
    InColumn,
)
from cetdsl.ir.windowing import SPAN, WHOLE, Windowing, has_windows, overlaps
from cetdsl.kernels._heap import give_back
from cetdsl.kernels.vocabulary import Events, Ints, Slices
from cetdsl.kernels.wire.columns import (
    as_array,
    differs_from_previous,
    from_numpy,
    integers,
    order_codes,
    parts,
    python_value,
    to_numpy,
    validity,
)
from cetdsl.kernels.wire.order import in_order, order_of
from cetdsl.kernels.wire.parcels import events_of_parcels, given_together
from cetdsl.kernels.wire.portions import take
from cetdsl.kernels.wire.runs import events_of_runs
from cetdsl.kernels.wire.values import ValueColumn
from cetdsl.kernels.wire.windows import NEVER, cut_slices

#: Events per kernel call: large enough that the call's overhead vanishes, small enough to stay in the cache.
CHUNK_EVENTS = 131_072
#: Bytes of events that are worth a kernel call however few events they are, as with long texts.
CHUNK_BYTES = 32 << 20
#: From so many events on, the allocator does not reuse the memory of a chunk's batches, so it is given back.
_MANY_EVENTS = 1 << 20
#: The roles of columns that a kernel takes unconverted.
_AS_THEY_CAME = (UNTIL, FIRST, LAST, MATRIX, KIND, TESTS)
#: Parts of an answer, each a list of columns of equal length.
Columns = Iterator[list[pa.Array]]


class Chunk(NamedTuple):
    """Consecutive rows of the stream, ready for a kernel."""

    #: The columns that are shown unconverted, by the names of the layout. The other columns are held only as the arrays
    #: into which they are converted, so they are empty (of type null) here.
    table: pa.Table
    events: Events
    values: list[ValueColumn]
    #: For each query the slices that can be answered now. With spans, a trend of slice ``s`` is answered now if the
    #: time of its first event is in ``[begin[s], end[s])``, which are the two arrays beside the slices.
    asked: list[tuple[Slices, tuple[Ints, Ints]]]
    #: Whether the last key ends here.
    complete: bool

    def column(self, name: str) -> pa.Array:
        """One of the columns that are shown, by its name."""
        return as_array(self.table.column(name))

    def key_columns(self, keys: Iterable[int], segment: Ints) -> list[pa.Array]:
        """Returns the key columns of these numbers, with a value for each of some segments."""
        rows = from_numpy(self.events.segment_start[segment])
        return [take(self.column(f"{KEY}{key}"), rows) for key in keys]

    @property
    def slices(self) -> Slices:
        """The slices that can be answered now, for the only query."""
        ((slices, _),) = self.asked
        return slices

    @property
    def bounds(self) -> tuple[Ints, Ints]:
        """The bounds of the only query's slices."""
        ((_, bounds),) = self.asked
        return bounds


class _Asked:
    """The windows of one query over the stream, and how many of the last key's windows have been answered.

    ``resume`` is the first window of the next chunk's first segment that has not been answered; with spans,
    ``answered`` is the time before which trends have been.
    """

    def __init__(self, windowing: Windowing, looks_back: bool) -> None:
        self.windowing = windowing
        self.look_back = windowing.length if looks_back else 0
        self.resume, self.answered = NEVER, NEVER

    def cut(
        self, events: Events, bucket: Ints, until: Ints, complete: bool, group: Callable[[int], str]
    ) -> tuple[Slices, tuple[Ints, Ints]]:
        """The slices that can be answered now, and the times between which their trends begin.

        ``group`` describes the group of a segment, only when an error needs it.
        """
        slices = cut_slices(
            self.windowing,
            events.segment_start,
            events.time,
            bucket,
            complete,
            self.resume,
            self.look_back,
            until,
            group,
        )
        count, windowing = len(slices.low), self.windowing
        begin, end = np.full(count, NEVER, dtype=np.int64), np.full(count, -NEVER, dtype=np.int64)
        if windowing.kind != SPAN or not count:
            return slices, (begin, end)
        if has_windows(windowing):
            return slices, (slices.start, slices.start + windowing.slide)
        if windowing.cut:
            begin, end = bucket[:count] * windowing.cut, (until[:count] + 1) * windowing.cut
        begin[0] = max(begin[0], self.answered)
        if not complete:
            # More events of the last instant may come, so trends that may reach it are not complete yet.
            end[-1] = min(end[-1], int(events.time[-1]) - windowing.length)
        return slices, (begin, end)

    def advance(self, slices: Slices, time: Ints, continues: bool) -> None:
        """Notes what has been answered of the last key, if it ``continues``, so that it is not answered again."""
        self.resume, self.answered = NEVER, NEVER
        if continues:
            self.resume = slices.resume
            if self.windowing.kind == SPAN:
                self.answered = int(time[-1]) - self.windowing.length


class Pending:
    """Rows that wait until they are worth a kernel's call.

    They are if there are at least ``rows`` of them, and twice as many as the last call has left over; or if they have
    that many bytes (:data:`CHUNK_BYTES`, and twice those left over).
    """

    def __init__(self, rows: int) -> None:
        self._least = rows
        self.keep([])

    def keep(self, batches: list[pa.RecordBatch]) -> None:
        """Replaces the rows by what a call has left over."""
        self.batches = batches
        self.rows: int = sum(batch.num_rows for batch in batches)
        self._bytes: int = sum(batch.nbytes for batch in batches)
        self._enough_rows, self._enough_bytes = max(self._least, 2 * self.rows), max(CHUNK_BYTES, 2 * self._bytes)

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds rows behind the others."""
        self.batches.append(batch)
        self.rows += batch.num_rows
        self._bytes += batch.nbytes

    @property
    def is_enough(self) -> bool:
        """Whether they are worth a call."""
        return self.rows >= self._enough_rows or self._bytes >= self._enough_bytes


class ChunkReader:
    """Cuts a sorted stream, whose rows ``spec`` describes, into chunks of at least ``chunk_events`` events.

    Each of the ``queries`` that read the stream has its own windows; by default there is only ``spec``.
    """

    def __init__(
        self,
        spec: KernelSpec,
        batches: Iterator[pa.RecordBatch],
        chunk_events: int = CHUNK_EVENTS,
        queries: Sequence[KernelSpec] = (),
    ) -> None:
        self.spec, self.layout = spec, spec.layout
        if self.layout.in_parcels:
            # On a stream, rows have columns of time buckets besides the parcels.
            beside = [self.layout.position(name) for name in (SHARE, BUCKET) if self.layout.has(name)]
            place = min(beside, default=0)
            batches = events_of_parcels(place, given_together(batches) if self.layout.repeated else batches)
        if self.layout.runs is not None:
            batches = events_of_runs(self.layout.runs, batches)
        if self.layout.sort_memory:
            rise = not overlaps(spec.query.windowing) and not self.layout.has(UNTIL)
            batches = in_order(order_of(self.layout, buckets_rise=rise), batches)
        self.batches = batches
        self.chunk_events = chunk_events
        self.nulls = 0
        # Queries with the same windows have the same slices.
        each: dict[tuple[Windowing, bool], _Asked] = {}
        asked = [(one.query.windowing, one.query.looks_back) for one in queries or (spec,)]
        self.asked = [each.setdefault(windows, _Asked(*windows)) for windows in asked]

    def __iter__(self) -> Iterator[Chunk]:
        pending = Pending(self.chunk_events)
        for batch in self._timed():
            pending.add(batch)
            if not pending.is_enough or self._one_key_so_far(pending.batches):
                continue
            chunk = self._chunk(pending.batches, False)
            rest = pending.rows - min(slices.keep_from for slices, _ in chunk.asked)
            if rest < pending.rows or any(len(slices.slice) for slices, _ in chunk.asked):
                # Before the chunk is answered, because it has a copy of these rows, and both would be held.
                pending.keep(_last_rows(pending.batches, rest))
                _give_back_after(chunk)
                yield chunk
                for asked, (slices, _) in dict(zip(self.asked, chunk.asked, strict=True)).items():
                    asked.advance(slices, chunk.events.time, rest > 0)
            else:
                pending.keep(pending.batches)
        if pending.rows:
            chunk = self._chunk(pending.batches, True)
            pending.keep([])
            _give_back_after(chunk)
            yield chunk

    def _one_key_so_far(self, pending: list[pa.RecordBatch]) -> bool:
        """Whether nothing can be answered yet: no query has windows or a span, and all rows are of the first key."""
        if any(asked.windowing.kind != WHOLE for asked in self.asked):
            return False
        first, last = pending[0], pending[-1]
        keys = [self.layout.position(name) for name in self.layout.partition]
        return all(first.column(k)[0].equals(last.column(k)[-1]) for k in keys)

    def _timed(self) -> Iterator[pa.RecordBatch]:
        """Yields the batches; raises if rows have no time, which are sorted first and all sent to one task."""
        for batch in self.batches:
            if batch.num_rows == 0:
                continue
            time = self._column(batch, TIME)
            self.nulls += time.null_count
            if not time[-1].is_valid:
                continue  # more of them may come
            NullTime.refuse_rows(self.nulls, self.layout.time)
            yield batch
        NullTime.refuse_rows(self.nulls, self.layout.time)

    def _chunk(self, pending: list[pa.RecordBatch], complete: bool) -> Chunk:
        try:
            return self._prepare(pa.Table.from_batches(pending), complete)
        except GroupTooLarge:
            raise  # its message is more precise
        except MemoryError as error:
            last = pending[-1].slice(pending[-1].num_rows - 1)
            time = int(self._time_and_mask(last)[0][0])
            raise too_large(self.spec, last, time, sum(batch.num_rows for batch in pending)) from error

    def _prepare(self, table: pa.Table, complete: bool) -> Chunk:
        # Column by column, so that never all columns are held both as they came and converted.
        layout = self.layout
        count = table.num_rows
        elsewhere = [found.name for found in layout.event if isinstance(found, InColumn)]
        kept = {
            name: as_array(self._column(table, name))
            for name in dict.fromkeys(
                (*layout.partition, *elsewhere, *(found for role in _AS_THEY_CAME for found in layout.all_of(role)))
            )
        }
        keys = [kept[name] for name in layout.partition]
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
        if ties := layout.all_of(TIE):
            new_time |= differs_from_previous([as_array(self._column(table, name)) for name in ties], count)
        # In place: a cumulative sum of truth values would first convert all of them, in a second array.
        instant = new_time.astype(np.int64)
        np.cumsum(instant, out=instant)
        instant -= 1
        codes, valid = order_codes([self._column(table, name) for name in layout.all_of(CODE)])
        if not len(codes):
            codes, valid = np.zeros((0, count), dtype=np.int64), np.zeros((0, count), dtype=np.bool_)
        list_start, list_items = self._lists(table, segment_start, count)
        events = Events(segment_start, time, instant, mask, codes, valid, list_start, list_items)
        bucket = np.zeros(len(segment_start) - 1, dtype=np.int64)
        if layout.has(BUCKET):
            bucket = integers(kept[BUCKET])[segment_start[:-1]]
        until = integers(kept[UNTIL])[segment_start[:-1]] if layout.has(UNTIL) else bucket

        def group(segment: int) -> str:
            key = tuple(python_value(kept[name], int(segment_start[segment])) for name in layout.all_of(KEY))
            return f"group {key!r}" if key else "the whole input"

        cut = {each: each.cut(events, bucket, until, complete, group) for each in dict.fromkeys(self.asked)}
        asked = [cut[each] for each in self.asked]
        values = [ValueColumn(as_array(self._column(table, name)), segment_start) for name in layout.all_of(VALUE)]
        rows = [kept.get(name, pa.nulls(count)) for name in layout.columns]
        return Chunk(pa.table(rows, names=layout.columns), events, values, asked, complete)

    def _column(self, rows: pa.Table | pa.RecordBatch, name: str) -> pa.Array | pa.ChunkedArray:
        """Returns the column of a name of the layout, whatever the rows themselves call it."""
        return rows.column(self.layout.position(name))

    def _time_and_mask(self, rows: pa.Table | pa.RecordBatch) -> tuple[Ints, Ints]:
        time, mask = np.empty((2, rows.num_rows), dtype=np.int64)
        encoding = self.layout.encoding
        for where, part in parts(self._column(rows, TIME)):
            time[where] = integers(part)
        if encoding.known:
            mask[:] = 1
        elif encoding.bits:
            np.bitwise_and(time, (1 << encoding.bits) - 1, out=mask)
            time >>= encoding.bits
            if encoding.dictionary:
                mask = np.array(encoding.dictionary)[mask]
        else:
            for where, part in parts(self._column(rows, MASK)):
                mask[where] = integers(part)
        return time, mask

    def _lists(self, table: pa.Table, segment_start: Ints, count: int) -> tuple[Ints, Ints]:
        """Turns list columns, which have distances back to earlier events, into positions in the chunk.

        Events before those that the chunk has of their key are left out.
        """
        names = self.layout.all_of(LIST)
        start = np.zeros((len(names), count + 1), dtype=np.int64)
        items: list[NDArray[np.int64]] = []
        if not names:
            return start, np.zeros(0, dtype=np.int64)
        first = np.repeat(segment_start[:-1], np.diff(segment_start))
        offset = 0
        for row, name in enumerate(names):
            array = as_array(self._column(table, name))
            lengths = np.diff(to_numpy(array.offsets))
            flat = integers(array.flatten())
            if array.null_count:
                lengths = np.where(validity(array), lengths, 0)
            owner = np.repeat(np.arange(count), lengths)
            flat = owner - flat
            kept = flat >= first[owner]
            start[row, 0] = offset
            start[row, 1:] = offset + np.cumsum(np.bincount(owner[kept], minlength=count))
            items.append(flat[kept])
            offset = int(start[row, -1])
        return start, np.concatenate(items)


def _give_back_after(chunk: Chunk) -> None:
    """Gives the memory of a large chunk's batches back to the system."""
    if len(chunk.events.time) >= _MANY_EVENTS:
        give_back()


def _last_rows(batches: list[pa.RecordBatch], count: int) -> list[pa.RecordBatch]:
    """Returns the last rows of some batches without copying them; batches without any of these rows are not held."""
    kept: list[pa.RecordBatch] = []
    while count > 0:
        batch = batches[-1 - len(kept)]
        kept.append(batch.slice(max(batch.num_rows - count, 0)))
        count -= kept[-1].num_rows
    return kept[::-1]


def too_large(spec: KernelSpec, row: pa.RecordBatch | pa.Table, time: int, events: int) -> GroupTooLarge:
    """Makes the error of a window that exceeds the worker's memory; ``row`` and ``time`` are its last event's."""
    layout = spec.layout
    key = tuple(python_value(as_array(row.column(layout.position(name))), 0) for name in layout.all_of(KEY))
    when = python_value(from_numpy(np.array([time])).cast(window_type(spec)), 0)
    joined = "list, count or sample them with algorithm='joins', " if spec.query.why_not_joined is None else ""
    return GroupTooLarge(
        f"group {key!r} needs {events} events up to time {when} at once, more than this worker's memory",
        hint=f"{joined}shorten WITHIN, add partition columns or predicates, or give the Python workers more memory",
    )


@contextmanager
def refusing_too_large(spec: KernelSpec, chunk: Chunk) -> Iterator[None]:
    """Turns running out of memory over a chunk into an error that names its largest window, or else its largest key."""
    try:
        yield
    except GroupTooLarge:
        raise  # its message is more precise
    except MemoryError as error:
        ends = np.concatenate([slices.high for slices, _ in chunk.asked])
        sizes = ends - np.concatenate([slices.low for slices, _ in chunk.asked])
        if not len(sizes):
            ends, sizes = chunk.events.segment_start[1:], np.diff(chunk.events.segment_start)
        last = int(ends[np.argmax(sizes)]) - 1
        row, time = chunk.table.slice(last, 1), int(chunk.events.time[last])
        raise too_large(spec, row, time, int(sizes.max())) from error


def by_chunks(
    spec: KernelSpec,
    batches: Iterator[pa.RecordBatch],
    chunk_events: int,
    answer: Callable[[Chunk], Columns],
    queries: Sequence[KernelSpec] = (),
    enough: Callable[[], bool] = lambda: False,
) -> Columns:
    """Yields a kernel's answer to each chunk of a sorted stream; errors of too large a key name that key.

    Most stages that read events are made with this function. The batches are sorted by key, time bucket, time and
    tie-break columns, ``chunk_events`` is the least number of events of a chunk, and each answer is a list of columns.
    Each of the ``queries`` has windows of its own; by default there is only ``spec``. No more chunks are read once
    ``enough`` returns true after an answer.
    """
    for chunk in ChunkReader(spec, batches, chunk_events, queries):
        with refusing_too_large(spec, chunk):
            yield from answer(chunk)
        if enough():
            return


def window_type(spec: KernelSpec) -> pa.DataType:
    """The Arrow type of window bounds: the time column's own."""
    return {"timestamp": pa.timestamp("us", tz="UTC"), "timestamp_ntz": pa.timestamp("us")}.get(
        spec.layout.time_type, pa.int64()
    )


def window_column(spec: KernelSpec, start: Ints) -> pa.Array:
    """``struct<start, end>`` as Spark's ``window`` function gives it."""
    kind = window_type(spec)
    windowing = spec.query.windowing
    length = windowing.slide if windowing.kind == SPAN else windowing.length
    bounds = [from_numpy(bound).cast(kind) for bound in (start, start + length)]
    return pa.StructArray.from_arrays(bounds, names=["start", "end"])
