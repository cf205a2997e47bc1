"""Parcels: many events as bytes in one value, because the cost of a shuffle and of state grows with the rows.

A *share* is a part of the keys whose events go to one task, and a *time bucket* is a range of time that a task answers.
A worker packs the events that it reads: a parcel has events of one share and, on a stream, events that the same time
buckets need. Spark then shuffles the parcels by their shares, or keeps them in a stream's state, and the stage that
reads them unpacks them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from zlib import crc32

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cetdsl.ir.parcels import TALLIED, BucketsOfTime, ParcelSpec
from cetdsl.ir.shares import number_of_task
from cetdsl.kernels.vocabulary import Bools, Ints
from cetdsl.kernels.wire.columns import (
    as_array,
    from_bytes,
    from_numpy,
    integers,
    key_numbers,
    one_batch,
    pieces_of,
    validity,
)

#: Bytes of events that are packed at once, at least and at most; and about the most bytes of a parcel.
BUFFER_BYTES, MOST_BUFFER_BYTES, PARCEL_BYTES = 8 << 20, 64 << 20, 64 << 10
#: The bytes of a parcel that make its own overhead, in bytes and calls, a small part.
_LEAST_BYTES = 16 << 10
#: Positions are sorted by their digits where numbers are below this, and counted in an array.
_FEW = 1 << 16
#: An odd number with no pattern in its bits: 2^64 over the golden ratio (Knuth, TAOCP 3, 6.4).
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
#: The odd numbers of SplitMix64 (Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators).
_FIRST_MIX, _SECOND_MIX = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
#: The highest number of a bit in Spark's bitmaps, in which each key sets one by its hash.
_KEY_BITS = np.uint64(8 * 4096 - 1)
_NUMBERS = pa.list_(pa.int64())
#: Without threads: to hand a buffer of a few kilobytes to another thread takes as long as to pack or to unpack it.
_IN_STATE = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
_OUT_OF_STATE = pa.ipc.IpcReadOptions(use_threads=False)
#: The bytes that end a stream in Arrow's format.
_END = b"\xff\xff\xff\xff\0\0\0\0"


def parcel_stream(
    spec: ParcelSpec,
    batches: Iterator[pa.RecordBatch],
    buffer_bytes: int | None = None,
    parcel_bytes: int = PARCEL_BYTES,
) -> Iterator[list[pa.Array]]:
    """Packs events by share and, on a stream, by the time buckets that need them.

    The more shares there are, the more events are packed at once, so that parcels are not too small.

    In a batch, the columns are the share and the parcel. On a stream they are the share, the first and the last time
    bucket that need the parcel's events, the parcel, and its number of events. Unless events come with their shares,
    rows of two other kinds tell what the task has read: a row without a parcel has a time bucket and how many events
    have come for it, and a row without a first bucket has a bitmap of hashes of keys in the parcel's place. If parcels
    are kept by window, there is one more column: the :func:`~cetdsl.ir.shares.number_of_task` of each of their buckets.
    """
    if buffer_bytes is None:
        buffer_bytes = min(max(BUFFER_BYTES, _LEAST_BYTES * len(spec.shares)), MOST_BUFFER_BYTES)
    tally, keys = Counter[int](), np.zeros(int(_KEY_BITS) + 1, dtype=np.bool_)
    for events in _buffered(batches, buffer_bytes):
        place, hashes = _places(spec, events)
        packed = events.select(range(spec.left_out, events.num_columns))
        if spec.buckets is None:
            order, lows, highs = _pieces(place, len(spec.shares), packed, parcel_bytes)
            buckets: list[Ints] = []
        else:
            first, last = _buckets(spec.buckets, events)
            number, numbers = _numbered(place, first, last)
            order, lows, highs = _pieces(number, numbers, packed, parcel_bytes)
            buckets = [column[order[lows]] for column in (first, last)]
        moved, counts = one_batch(packed.take(from_numpy(order))), highs - lows
        bodies = _packed(moved, zip(lows.tolist(), counts.tolist(), strict=True), spec.buckets is not None)
        shares = np.array(spec.shares, dtype=np.int32)[place[order[lows]]]
        columns = [from_numpy(shares), *map(from_numpy, buckets), from_bytes(bodies, pa.binary())]
        if buckets:
            columns.append(from_numpy(counts))
            if spec.by_window:
                columns.append(_numbers(spec, shares, buckets, bodies))
            if hashes is not None:
                _count(tally, buckets, counts)
                keys[_scattered(hashes) & _KEY_BITS] = True
        yield columns
    if tally:
        for told in (_tallies(oldest_apart(sorted(tally.items()))), _bits(keys, max(tally))):
            yield [*told, *([pa.nulls(len(told[0]), _NUMBERS)] if spec.by_window else [])]


def _buffered(batches: Iterator[pa.RecordBatch], buffer_bytes: int) -> Iterator[pa.Table]:
    """Yields the rows of batches, about ``buffer_bytes`` bytes at a time."""
    waiting, held = list[pa.RecordBatch](), 0
    for batch in batches:
        waiting.append(batch)
        held += batch.nbytes
        if held >= buffer_bytes:
            yield pa.Table.from_batches(waiting)
            waiting, held = [], 0
    if held:
        yield pa.Table.from_batches(waiting)


def _places(spec: ParcelSpec, events: pa.Table) -> tuple[Ints, NDArray[np.uint64] | None]:
    """Returns the place of each event's share among the shares, and a hash of its keys if it comes without a share."""
    if spec.by_share:
        share, shares = integers(as_array(events.column(0))), np.array(spec.shares)
        order = np.argsort(shares)
        return order[np.searchsorted(shares, share, sorter=order)], None
    hashes = _hashes(spec, events)
    return (((hashes & _LOW) * np.uint64(len(spec.shares))) >> _HALF).astype(np.int64), hashes


def _hashes(spec: ParcelSpec, events: pa.Table) -> NDArray[np.uint64]:
    """Returns a hash of each event's keys."""
    mixed: NDArray[np.uint64] = np.zeros(events.num_rows, dtype=np.uint64)
    for key in (0,) if spec.keys is None else spec.keys:
        mixed ^= integers(as_array(events.column(key))).view(np.uint64)
        mixed *= _GOLDEN
        mixed ^= mixed >> _HALF
    return mixed


def _scattered(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mixes hashes further: otherwise those of consecutive keys would set the same bits too often, or too rarely."""
    scattered = (hashes ^ hashes >> _HALF) * _FIRST_MIX
    scattered = (scattered ^ scattered >> _HALF) * _SECOND_MIX
    return scattered >> _HALF


def _buckets(needed: BucketsOfTime, events: pa.Table) -> tuple[Ints, Ints]:
    """Returns the first and the last time bucket that needs each event."""
    time = (integers(as_array(events.column(needed.time))) >> needed.bits) * needed.unit
    return (time - needed.end) // needed.cut + 1, (time - needed.begin) // needed.cut


def _numbered(place: Ints, first: Ints, last: Ints) -> tuple[Ints, int]:
    """Numbers the events so that those that agree in all three arrays, and no others, have one number.

    Also returns a bound above the numbers.
    """
    low, count = int(first.min()), last - first
    fewest = int(count.min())
    # All events are needed by the same number of buckets, or some by one more.
    number = ((first - low) * (int(count.max()) - fewest + 1) + (count - fewest)) * (int(place.max()) + 1) + place
    numbers = int(number.max()) + 1
    return (number, numbers) if numbers < _FEW else key_numbers([from_numpy(number)], len(number))


def _pieces(number: Ints, numbers: int, packed: pa.Table, parcel_bytes: int) -> tuple[Ints, Ints, Ints]:
    """Returns the order of events by their numbers, and where in this order each parcel begins and ends."""
    most = max(parcel_bytes * packed.num_rows // max(packed.nbytes, 1), 1)
    order = np.argsort(number.astype(np.uint16) if numbers <= _FEW else number, kind="stable")
    begins = pieces_of(np.bincount(number, minlength=numbers), most)
    return order, begins, np.append(begins[1:], len(order))


def _packed(events: pa.RecordBatch, pieces: Iterable[tuple[int, int]], in_state: bool) -> list[bytes]:
    """Packs each piece of some events, given by its first event and its length, as a stream in Arrow's format.

    The schema, with which all of them begin, is serialised only once: otherwise it would take most of the time. Parcels
    that a stream keeps in state are compressed; what Spark shuffles it compresses itself.
    """
    head = events.schema.serialize().to_pybytes()
    parts = (events.slice(*piece) for piece in pieces)
    messages = _compressed(events.schema, parts) if in_state else (memoryview(part.serialize()) for part in parts)
    return [b"".join((head, message, _END)) for message in messages]


def _compressed(schema: pa.Schema, parts: Iterable[pa.RecordBatch]) -> list[memoryview]:
    """Returns the compressed message of each part; one writer writes them all."""
    sink, begins = pa.BufferOutputStream(), list[int]()
    with pa.ipc.new_stream(sink, schema, options=_IN_STATE) as writer:
        writer.write_batch(pa.RecordBatch.from_pylist([], schema))  # the schema is written with the first batch
        for part in parts:
            begins.append(sink.tell())
            writer.write_batch(part)
        begins.append(sink.tell())
    written = memoryview(sink.getvalue())
    return [written[low:high] for low, high in pairwise(begins)]


def merged(parcels: Sequence[bytes]) -> bytes:
    """Returns one parcel with the events of several, for a stream's state."""
    events = one_batch(pa.Table.from_batches([of_state(pa.py_buffer(parcel)) for parcel in parcels]))
    [parcel] = _packed(events, [(0, events.num_rows)], in_state=True)
    return parcel


def of_state(parcel: pa.Buffer) -> pa.RecordBatch:
    """Returns the events of a parcel out of a stream's state, which another version of Arrow may have written.

    The type of a timestamp names the session's time zone, which may have been another one when the parcel was packed.
    The stored numbers do not depend on it, so all timestamps with a zone are given the zone UTC.
    """
    events = one_batch(pa.ipc.open_stream(parcel, options=_OUT_OF_STATE).read_all())
    schema = pa.schema([_in_utc(field) for field in events.schema])
    return events if events.schema.equals(schema) else events.cast(schema)


def _in_utc(field: pa.Field) -> pa.Field:
    """Returns a field whose timestamps, also those in its values, are in UTC if they have a zone."""
    kind = field.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return field.with_type(pa.timestamp(kind.unit, tz="UTC"))
    if pa.types.is_map(kind):
        return field.with_type(pa.map_(_in_utc(kind.key_field), _in_utc(kind.item_field)))
    if pa.types.is_struct(kind):
        return field.with_type(pa.struct(map(_in_utc, kind)))
    if pa.types.is_list(kind):
        return field.with_type(pa.list_(_in_utc(kind.value_field)))
    return field


class Unpacker:
    """Unpacks the parcels of a batch; consecutive parcels with the same schema have it read once."""

    def __init__(self) -> None:
        self._schema: pa.Schema | None = None
        self._begin = pa.py_buffer(b"")

    def events(self, parcel: pa.Buffer) -> pa.RecordBatch:
        """Returns the events of a parcel; their arrays refer to its memory."""
        if self._schema is None or not self._begins(parcel):
            self._schema = pa.ipc.read_schema(parcel)
            self._begin = self._schema.serialize()
        return pa.ipc.read_record_batch(parcel.slice(self._begin.size), self._schema)

    def _begins(self, parcel: pa.Buffer) -> bool:
        return bool(parcel.slice(0, min(self._begin.size, parcel.size)).equals(self._begin))


def _numbers(spec: ParcelSpec, shares: NDArray[np.int32], buckets: list[Ints], bodies: list[bytes]) -> pa.Array:
    """Returns for each parcel a number for each of its buckets, with which Spark sends it to the task of its share."""
    needed = spec.buckets
    assert needed is not None, "those of a batch are not kept"
    first, last = buckets
    numbers = [
        number_of_task(share, needed.closes(bucket), crc32(body))
        for share, begin, end, body in zip(shares.tolist(), first.tolist(), last.tolist(), bodies, strict=True)
        for bucket in range(begin, end + 1)
    ]
    offsets = np.append(0, np.cumsum(last - first + 1)).astype(np.int32)
    return pa.ListArray.from_arrays(from_numpy(offsets), from_numpy(np.array(numbers, dtype=np.int64)))


def _count(tally: Counter[int], buckets: list[Ints], events: Ints) -> None:
    """Adds the number of events of each parcel to the tally of each time bucket that needs them."""
    for begin, end, count in zip(*(column.tolist() for column in (*buckets, events)), strict=True):
        for bucket in range(begin, end + 1):
            tally[bucket] += count


def oldest_apart(counts: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns the oldest time buckets with their numbers of events; if there are too many, the last entry has the rest.

    Examples
    --------
    >>> told = oldest_apart([(bucket, 1) for bucket in range(100)])
    >>> len(told), told[62:], sum(events for _, events in told)
    (64, [(62, 1), (99, 37)], 100)
    """
    if len(counts) <= TALLIED:
        return counts
    return [*counts[: TALLIED - 1], (counts[-1][0], sum(events for _, events in counts[TALLIED - 1 :]))]


def _tallies(counts: list[tuple[int, int]]) -> list[pa.Array]:
    """Returns the rows without parcels: time buckets, and how many events have come for each."""
    buckets, events = (from_numpy(np.array(column, dtype=np.int64)) for column in zip(*counts, strict=True))
    share = from_numpy(np.zeros(len(counts), dtype=np.int32))
    return [share, buckets, buckets, pa.nulls(len(counts), pa.binary()), events]


def _bits(keys: Bools, last: int) -> list[pa.Array]:
    """Returns the row without a first bucket: the last bucket that needs an event, and the bits that keys have set."""
    bits = from_bytes([np.packbits(keys, bitorder="little").tobytes()], pa.binary())
    one = from_numpy(np.array([last], dtype=np.int64))
    return [from_numpy(np.zeros(1, dtype=np.int32)), pa.nulls(1, pa.int64()), one, bits, pa.nulls(1, pa.int64())]


def given_together(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields each parcel once where it comes once for each of its time buckets.

    So events that windows share are read and processed once for all windows that a task answers. The columns are the
    first and the last bucket of all parcels, which the task answers together, and the parcel.
    """
    given: dict[bytes, Counter[int]] = {}
    for batch in batches:
        buckets, bodies = integers(batch.column(0)).tolist(), batch.column(1)
        for row in np.flatnonzero(validity(bodies)).tolist():
            given.setdefault(bodies[row].as_py(), Counter())[buckets[row]] += 1
    if not given:
        return
    first, last = min(map(min, given.values())), max(map(max, given.values()))
    while given:
        some, size = list[bytes](), 0
        while given and size < BUFFER_BYTES:
            body, times = given.popitem()
            # Two micro-batches may have brought equal parcels, which a bucket then has twice.
            some += [body] * max(times.values())
            size += len(body)
        ends = [from_numpy(np.full(len(some), bucket, dtype=np.int64)) for bucket in (first, last)]
        yield pa.RecordBatch.from_arrays([*ends, from_bytes(some, pa.binary())], names=["s", "u", "p"])


def unpack_stream(place: int, batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.Array]]:
    """Yields the columns of :func:`events_of_parcels`."""
    for events in events_of_parcels(place, batches):
        yield events.columns


def events_of_parcels(place: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Unpacks parcels, the last column of the batches, into batches of events.

    The columns before the parcel, if any, are numbers of time buckets. They become columns of the events, in front of
    the column ``place``.
    """
    unpacker = Unpacker()
    for batch in batches:
        *buckets, bodies = batch.columns
        # Rows without a parcel are padding, which limits how many parcels Spark puts into a batch.
        for number in np.flatnonzero(validity(bodies)).tolist():
            body = bodies[number].as_buffer()
            events = of_state(body) if buckets else unpacker.events(body)
            columns = list(events.columns)
            numbers = [column[number].as_py() for column in buckets]
            columns[place:place] = [from_numpy(np.full(events.num_rows, one, np.int64)) for one in numbers]
            yield pa.RecordBatch.from_arrays(columns, names=[f"r{number}" for number in range(len(columns))])
