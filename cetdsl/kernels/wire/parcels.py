"""Parcels: many events as bytes in one value, as a stream keeps them.

A worker packs the events that it reads, those of a share of the keys that the same time buckets need together. State
keeps a parcel as it is, once, and gives it to each of its time buckets, whose kernel unpacks it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from cetdsl.kernels.wire.columns import KeyNumbers, as_array, from_bytes, from_numpy

#: Columns of numbers before those of events: the share, the first and the last time bucket.
_NUMBERS = 3
#: So many time buckets of a task are told how many events they got, the oldest ones: the late are among these.
TALLIED = 64
#: Bytes of events that are packed at once, and of a parcel at most, about: Spark sends thousands of them at once.
BUFFER_BYTES, PARCEL_BYTES = 32 << 20, 64 << 10


def parcel_stream(
    _: None,
    batches: Iterator[pa.RecordBatch],
    buffer_bytes: int = BUFFER_BYTES,
    parcel_bytes: int = PARCEL_BYTES,
) -> Iterator[list[pa.Array]]:
    """Packs events of one share that the same time buckets need, the first of them and the last: yields all three.

    Two columns are behind them: the others as bytes, and how many events these are. In rows without bytes, this is how
    many events have come for a time bucket.
    """
    waiting, held, tally = list[pa.RecordBatch](), 0, Counter[int]()
    for batch in batches:
        waiting.append(batch)
        held += batch.nbytes
        if held >= buffer_bytes:
            yield _parcels(pa.Table.from_batches(waiting), parcel_bytes, tally)
            waiting, held = [], 0
    if held:
        yield _parcels(pa.Table.from_batches(waiting), parcel_bytes, tally)
    if tally:
        yield _tallies(sorted(tally.items())[:TALLIED])


def _tallies(counts: list[tuple[int, int]]) -> list[pa.Array]:
    """Returns rows without bytes, of time buckets and how many events they got."""
    buckets, events = (from_numpy(np.array(column, dtype=np.int64)) for column in zip(*counts, strict=True))
    share = from_numpy(np.zeros(len(counts), dtype=np.int32))
    return [share, buckets, buckets, pa.nulls(len(counts), pa.binary()), events]


def _parcels(events: pa.Table, parcel_bytes: int, tally: Counter[int]) -> list[pa.Array]:
    most = max(parcel_bytes * events.num_rows // events.nbytes, 1)
    by = [as_array(events.column(place)) for place in range(_NUMBERS)]
    number, numbers = KeyNumbers().of(by, events.num_rows)
    # Positions of few numbers are sorted by their digits.
    order = np.argsort(number.astype(np.uint16) if numbers < 1 << 16 else number, kind="stable")
    packed = events.select(range(_NUMBERS, events.num_columns)).take(from_numpy(order)).combine_chunks()
    ends = np.cumsum(np.bincount(number, minlength=numbers))
    places = [
        (low, min(low + most, end))
        for begin, end in zip(np.append(0, ends[:-1]).tolist(), ends.tolist(), strict=True)
        for low in range(begin, end, most)
    ]
    first = from_numpy(order[[low for low, _ in places]])
    bodies = [_packed(packed.slice(low, high - low)) for low, high in places]
    share, *buckets = (column.take(first) for column in by)
    counts = [high - low for low, high in places]
    for begin, end, count in zip(*(column.to_pylist() for column in buckets), counts, strict=True):
        for bucket in range(begin, end + 1):
            tally[bucket] += count
    return [share, *buckets, from_bytes(bodies, pa.binary()), from_numpy(np.array(counts, dtype=np.int64))]


def _packed(events: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, events.schema) as writer:
        writer.write_table(events)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def unpack_stream(place: int, batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.Array]]:
    """Yields the columns of :func:`events_of_parcels`."""
    for events in events_of_parcels(place, batches):
        yield events.columns


def events_of_parcels(place: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Unpacks parcels, each behind numbers of time buckets, which are at some place among the events' columns."""
    for batch in batches:
        *buckets, bodies = batch.columns
        for body, *numbers in zip(bodies, *(column.to_pylist() for column in buckets), strict=True):
            with pa.ipc.open_stream(body.as_buffer()) as reader:
                for events in reader:
                    columns = list(events.columns)
                    columns[place:place] = [from_numpy(np.full(events.num_rows, one, np.int64)) for one in numbers]
                    yield pa.RecordBatch.from_arrays(columns, names=[f"r{number}" for number in range(len(columns))])
