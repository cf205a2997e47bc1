"""Events into sorted runs and back: all of them, in order of key and time, whatever the buffers hold."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cetdsl.ir.layout import RunSpec
from cetdsl.kernels.wire import runs
from cetdsl.kernels.wire.columns import as_array
from cetdsl.kernels.wire.runs import events_of_runs, record_type, run_stream

SPEC = RunSpec(2, ("<i8", "<f8", "<i2"))
SCHEMA = pa.schema(
    [("k0", pa.string()), ("k1", pa.float64()), ("t", pa.int64()), ("v0", pa.float64()), ("v1", pa.int16())]
)
SIZE = record_type(SPEC).itemsize

EVENTS = st.tuples(
    st.sampled_from([None, "", "a", "b"]),
    st.sampled_from([None, 0.0, 1.5]),
    st.one_of(st.none(), st.integers(-5, 40)),
    st.one_of(st.none(), st.floats(-10, 10)),
    st.one_of(st.none(), st.integers(-9, 9)),
)


def batches_of(rows: list[tuple], schema: pa.Schema, size: int) -> list[pa.RecordBatch]:
    """Rows in batches of so many."""
    columns = [[row[k] for row in rows] for k in range(len(schema))]
    table = pa.table([pa.array(column, field.type) for column, field in zip(columns, schema)], schema=schema)
    return table.to_batches(max_chunksize=size)


def shuffled_and_sorted(written: list[list[pa.Array]], spec: RunSpec, size: int) -> list[pa.RecordBatch]:
    """Runs as a task gets them from Spark: sorted by keys and first time, NULL first."""
    names = [*(f"k{k}" for k in range(spec.keys)), "t", "p"]
    table = pa.concat_tables([pa.table(columns, names=names) for columns in written])
    rows = list(zip(*(table.column(name).to_pylist() for name in names)))
    rows.sort(key=lambda row: [(value is not None, value) for value in row[:-1]])
    return batches_of(rows, table.schema, size)


def rows_of(batches: list[pa.RecordBatch]) -> list[tuple]:
    return [row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns))]


def place(row: tuple, keys: int) -> list[tuple]:
    return [(value is not None, value) for value in row[: keys + 1]]


def everything(row: tuple) -> list[tuple]:
    return [(value is not None, 0 if value is None else value) for value in row]


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_events_come_back_in_order(data: st.DataObject) -> None:
    """Of two tasks, with buffers, runs and batches of any size; those without a time lead."""
    rows = data.draw(st.lists(EVENTS, max_size=60))
    # A row without a time has no key either.
    rows = [(None, None, *row[2:]) if row[2] is None else row for row in rows]
    half = data.draw(st.integers(0, len(rows)))
    sizes = [data.draw(st.integers(1, 30), label=what) for what in ("batch", "buffer", "run", "arrived", "merged")]
    written = [
        columns
        for part in (rows[:half], rows[half:])
        for columns in run_stream(SPEC, iter(batches_of(part, SCHEMA, sizes[0])), sizes[1] * SIZE, sizes[2] * SIZE)
    ]
    if not written:
        assert not rows
        return
    arrived = shuffled_and_sorted(written, SPEC, sizes[3])
    found = rows_of(list(events_of_runs(SPEC, iter(arrived), sizes[4])))
    assert sorted(found, key=everything) == sorted(rows, key=everything)
    places = [place(row, SPEC.keys) for row in found]
    assert places == sorted(places)


@pytest.mark.parametrize("merged", [1, 4, 1 << 17])
def test_events_without_a_time_stand_behind_those_before_1970(merged: int) -> None:
    """Their time bucket is 0. No other event of it comes before all of them, so that their number is known."""
    spec, early, late = RunSpec(1, ("<i8",)), range(-20, -8), range(6)
    schema = pa.schema([("s", pa.int64()), ("t", pa.int64())])
    rows = [*((-1, t) for t in early), *((0, None) for _ in range(9)), *((0, t) for t in late)]
    written = list(run_stream(spec, iter(batches_of(rows[::-1], schema, 5)), 10 * 8, 3 * 8))
    found = list(events_of_runs(spec, iter(shuffled_and_sorted(written, spec, 2)), merged))
    assert sorted(rows_of(found), key=everything) == sorted(rows, key=everything)
    assert all(batch.column(1).null_count in (0, batch.num_rows) for batch in found)
    times = [time for _, time in rows_of(found)]
    assert [time for time in times if time is not None] == [*early, *late]
    assert None not in times[times.index(0) :]


@pytest.mark.parametrize("sorted_before", [True, False])
def test_runs_are_few_and_short(sorted_before: bool) -> None:
    """One run for each key and buffer, cut where it would be longer than was asked for."""
    spec, count = RunSpec(1, ("<i8",)), 4_000
    time = np.arange(count) if sorted_before else np.random.default_rng(1).permutation(count)
    events = pa.table([pa.array(np.arange(count) % 10), pa.array(time)], names=["k0", "t"])
    written = list(run_stream(spec, iter(events.to_batches(max_chunksize=700)), 2_000 * 8, 150 * 8))
    assert [len(columns[0]) for columns in written] == [20, 20]
    lengths = [len(packed) // 8 for columns in written for packed in columns[2].to_pylist()]
    assert max(lengths) <= 150
    assert sum(lengths) == count


def test_few_events_of_a_key_stay_as_they_are() -> None:
    """Where every event has a key of its own, nothing is put in order."""
    spec = RunSpec(1, ("<i8",))
    events = pa.table([pa.array([f"user {n}" for n in range(100)]), pa.array(np.arange(100)[::-1])], names=["k0", "t"])
    [columns] = run_stream(spec, iter(events.to_batches()))
    assert columns[0].to_pylist() == events.column("k0").to_pylist()
    assert columns[1].to_pylist() == events.column("t").to_pylist()
    assert {len(packed) for packed in columns[2].to_pylist()} == {8}


def test_a_long_key_is_merged_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is held of a key whose runs do not overlap is one run, not the key."""
    spec, count = RunSpec(0, ("<i8",)), 100_000
    events = pa.table([pa.array(np.arange(count))], names=["t"])
    written = list(run_stream(spec, iter(events.to_batches()), 10_000 * 8, 500 * 8))
    sizes = []
    in_order = runs._in_order

    def counted(spec: RunSpec, rows: pa.RecordBatch) -> tuple:
        number, records = in_order(spec, rows)
        sizes.append(len(records))
        return number, records

    monkeypatch.setattr(runs, "_in_order", counted)
    arrived = shuffled_and_sorted(written, spec, 50)
    found = np.concatenate([np.array(batch.column(0)) for batch in events_of_runs(spec, iter(arrived), 2_000)])
    assert (found == np.arange(count)).all()
    assert max(sizes) <= 2_500


def test_nan_and_the_bounds_of_numbers_survive() -> None:
    """Numbers travel as their bytes."""
    spec = RunSpec(0, ("<i8", "<f8"))
    schema = pa.schema([("t", pa.int64()), ("v", pa.float64())])
    rows = [(-(2**63), math.inf), (2**63 - 1, -0.0), (0, math.nan)]
    written = list(run_stream(spec, iter(batches_of(rows, schema, 2))))
    found = rows_of(list(events_of_runs(spec, iter(shuffled_and_sorted(written, spec, 9)))))
    assert [row[0] for row in found] == [-(2**63), 0, 2**63 - 1]
    assert [str(row[1]) for row in found] == ["inf", "nan", "-0.0"]


def test_more_text_than_an_array_holds_is_a_lack_of_memory() -> None:
    part = pa.array(["x" * 2**20] * 64)
    with pytest.raises(MemoryError, match="more than one array"):
        as_array(pa.chunked_array([part] * 33))
