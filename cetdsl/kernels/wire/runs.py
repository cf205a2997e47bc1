"""Sorted runs: many events of a key in one row, because the cost of a shuffle grows with the rows, not with the bytes.

Each task sorts the events that it reads by key and time, up to a million at a time, and writes those of a key as one
*run*: the key, the time of the first event, and the numbers of all events as bytes. Spark shuffles and sorts the runs,
by their first times, and :func:`events_of_runs` merges them back into the events in order of time.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cetdsl.ir.layout import RunSpec
from cetdsl.kernels.vocabulary import Ints
from cetdsl.kernels.wire.columns import (
    as_array,
    differs_from_previous,
    from_bytes,
    from_numpy,
    key_numbers,
    pieces_of,
    to_numpy,
    validity,
)
from cetdsl.kernels.wire.radix import order_by_key_and_time

#: Bytes of the events that are sorted at once.
BUFFER_BYTES = 8 << 20
#: The most bytes of a run: the merging side holds all runs that overlap, and an Arrow batch of 10,000 runs.
RUN_BYTES = 4 << 10
#: If runs would have fewer events than this on average, each event becomes a run: sorting them would not pay.
FEW_EVENTS = 4
#: About how many events are merged at once.
MERGED_EVENTS = 1 << 17

_Records = NDArray[Any]


def record_type(spec: RunSpec) -> np.dtype[Any]:
    """Returns the type of an event's numbers: its columns, each but the time with a byte that is 0 for NULL, else 1."""
    fields = [(f"c{n}", kind) for n, kind in enumerate(spec.columns)]
    return np.dtype(fields + [(f"v{n}", "?") for n in range(1, len(spec.columns))])


def run_stream(
    spec: RunSpec, batches: Iterator[pa.RecordBatch], buffer_bytes: int = BUFFER_BYTES, run_bytes: int = RUN_BYTES
) -> Iterator[list[pa.Array]]:
    """Turns events in any order (keys, time, other numbers) into runs: keys, time of the first event, and all as bytes.

    Events without a time are put into runs without one. ``buffer_bytes`` of events are sorted at once, and a run has at
    most ``run_bytes``.
    """
    size = record_type(spec).itemsize
    most, longest = max(buffer_bytes // size, 1), max(run_bytes // size, 1)
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        for low in range(0, batch.num_rows, most):
            waiting.append(batch.slice(low, most))
            count += waiting[-1].num_rows
            if count >= most:
                yield _runs(spec, pa.Table.from_batches(waiting), longest)
                waiting, count = [], 0
    if count:
        yield _runs(spec, pa.Table.from_batches(waiting), longest)


def _runs(spec: RunSpec, events: pa.Table, longest: int) -> list[pa.Array]:
    keys = [as_array(events.column(k)) for k in range(spec.keys)]
    time = as_array(events.column(spec.keys))
    timed = validity(time)
    records = _records(spec, events)
    parts = [*keys, from_numpy(timed.view(np.uint8))] if time.null_count else keys
    number, numbers = key_numbers(parts, len(timed))
    if numbers * FEW_EVENTS > len(timed):
        starts = np.arange(len(timed))
    else:
        order, _ = order_by_key_and_time(number, numbers, np.ascontiguousarray(records["c0"]))
        records = records.take(order)
        starts = pieces_of(np.bincount(number, minlength=numbers), longest)
        keys = [key.take(from_numpy(order[starts])) for key in keys]
        timed = timed[order] if time.null_count else timed
    offsets = np.append(starts, len(records)) * records.itemsize
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(records)]
    first = from_numpy(records["c0"][starts], ~timed[starts])
    return [*keys, first, pa.Array.from_buffers(pa.binary(), len(starts), buffers)]


def _records(spec: RunSpec, events: pa.Table) -> _Records:
    """The numbers of the events, row by row."""
    records = np.empty(events.num_rows, dtype=record_type(spec))
    for n in range(len(spec.columns)):
        column = as_array(events.column(spec.keys + n))
        records[f"c{n}"] = to_numpy(column)
        if n:
            records[f"v{n}"] = validity(column)
    return records


def events_of_runs(
    spec: RunSpec, batches: Iterator[pa.RecordBatch], merged_events: int = MERGED_EVENTS
) -> Iterator[pa.RecordBatch]:
    """Turns runs, in order of their keys and first times, back into events in order of key and time.

    Events without a time, which the reader refuses, come in batches of their own, before the other events of their key.
    About ``merged_events`` events are merged at once; besides these, all runs are held that overlap with the last one.
    """
    held: pa.RecordBatch | None = None
    for runs in _stretches(spec, _few_at_once(spec, batches, merged_events)):
        if runs.column(spec.keys).null_count:
            yield _without_time(spec, runs)
            continue
        last = runs.slice(runs.num_rows - 1)
        if held is not None:
            runs = pa.Table.from_batches([held, runs]).combine_chunks().to_batches()[0]
        owner, records = _in_order(spec, runs)
        # The next run may begin at the same time as the last one, so only events before that time are final.
        final = int(np.searchsorted(owner, owner[-1]))
        final += int(np.searchsorted(records["c0"][final:], last.column(spec.keys)[0].as_py()))
        if final:
            yield _events(spec, runs, owner[:final], records[:final])
        held = _run(spec, last, records[final:])
    if held is not None:
        yield _events(spec, held, *_in_order(spec, held))


def _few_at_once(spec: RunSpec, batches: Iterator[pa.RecordBatch], most: int) -> Iterator[pa.RecordBatch]:
    """Yields the rows of batches, in parts of about ``most`` events."""
    most_bytes = most * record_type(spec).itemsize
    for rows in batches:
        columns = [rows.column(k) for k in range(spec.keys + 1)]
        # With some settings, Spark sends binary columns with 64-bit offsets.
        packed = rows.column(spec.keys + 1).cast(pa.binary())
        batch = pa.RecordBatch.from_arrays([*columns, packed], names=rows.schema.names)
        offsets = _offsets(packed)
        low = 0
        while low < batch.num_rows:
            high = max(int(np.searchsorted(offsets[1:], offsets[low] + most_bytes, side="right")), low + 1)
            yield batch.slice(low, high - low)
            low = high


def _stretches(spec: RunSpec, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Cuts batches into ranges of rows such that all runs of a range have a time, or none has.

    Runs without a time need not come first in a batch: the runs of earlier keys come before them, and so do those of
    time buckets before 1970.
    """
    for runs in batches:
        timed = validity(runs.column(spec.keys))
        ends = [*(np.flatnonzero(timed[1:] != timed[:-1]) + 1), runs.num_rows]
        for low, high in pairwise([0, *ends]):
            yield runs.slice(low, high - low)


def _offsets(packed: pa.Array) -> Ints:
    """Returns where the bytes of each run begin, and where the last one ends."""
    offsets = np.frombuffer(packed.buffers()[1], dtype=np.int32)
    return offsets[packed.offset : packed.offset + len(packed) + 1].astype(np.int64)


def _in_order(spec: RunSpec, runs: pa.RecordBatch) -> tuple[Ints, _Records]:
    """Returns the first run of each record's key, and the records of some runs in order of key and time."""
    offsets = _offsets(runs.column(spec.keys + 1))
    kind, packed = record_type(spec), runs.column(spec.keys + 1).buffers()[2]
    records = np.frombuffer(packed, kind, int(offsets[-1] - offsets[0]) // kind.itemsize, offsets[0])
    is_new = differs_from_previous([runs.column(k) for k in range(spec.keys)], runs.num_rows)
    number = np.repeat(np.cumsum(is_new) - 1, np.diff(offsets) // kind.itemsize)
    owner = np.flatnonzero(is_new)[number]
    time = records["c0"]
    if not bool(((time[1:] >= time[:-1]) | (owner[1:] != owner[:-1])).all()):
        order, _ = order_by_key_and_time(number, int(number[-1]) + 1, np.ascontiguousarray(time))
        records = records.take(order)
    return owner, records


def _events(spec: RunSpec, runs: pa.RecordBatch, owner: Ints, records: _Records) -> pa.RecordBatch:
    """Makes rows of events from records; ``owner`` is a run with the key of each record."""
    rows = from_numpy(owner)
    columns = [runs.column(k).take(rows) for k in range(spec.keys)]
    for n in range(len(spec.columns)):
        absent = ~records[f"v{n}"] if n else None
        columns.append(from_numpy(records[f"c{n}"], absent if absent is not None and absent.any() else None))
    return _batch(columns)


def _without_time(spec: RunSpec, runs: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the events of runs that have no time."""
    events = _events(spec, runs, *_in_order(spec, runs))
    time = pa.nulls(events.num_rows, events.column(spec.keys).type)
    return _batch([time if k == spec.keys else events.column(k) for k in range(events.num_columns)])


def _run(spec: RunSpec, like: pa.RecordBatch, records: _Records) -> pa.RecordBatch | None:
    """Makes a run of records, with the key of the run ``like``; None if there are no records."""
    if len(records) == 0:
        return None
    keys = [like.column(k) for k in range(spec.keys)]
    packed = from_bytes([records.tobytes()], pa.binary())
    return pa.RecordBatch.from_arrays([*keys, from_numpy(records["c0"][:1]), packed], names=like.schema.names)


def _batch(columns: list[pa.Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(columns, names=[f"c{n}" for n in range(len(columns))])
