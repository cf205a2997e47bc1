"""Parcels hold what was packed: each event once, beside those that the same share and time buckets have."""

from __future__ import annotations

from collections import Counter
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cetdsl.execution.parcels import in_batches
from cetdsl.frontend.watch import keys_of
from cetdsl.ir.parcels import TALLIED, BucketsOfTime, ParcelSpec
from cetdsl.ir.shares import number_of_task
from cetdsl.kernels.wire.parcels import events_of_parcels, given_together, merged, parcel_stream

#: A key, a time, and a text.
EVENTS = st.lists(
    st.tuples(st.none() | st.integers(-3, 3), st.integers(-40, 40), st.none() | st.text(max_size=3)), max_size=20
)
#: Of times packed with three bits, which time buckets need them: from where to where, and perhaps longer than the cut.
BUCKETS = st.builds(
    lambda cut, begin, more: BucketsOfTime(1, 3, cut, begin, begin + cut + more),
    st.integers(1, 5),
    st.integers(-9, 9),
    st.integers(0, 30),
)
SCHEMA = pa.schema({"k0": pa.int32(), "t": pa.int64(), "x": pa.string()})
SHARES = (12, 6, 2, 0)


def batches(events: list[tuple[Any, ...]], size: int) -> list[pa.RecordBatch]:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, event, strict=True)) for event in events], SCHEMA).to_batches(
        size
    )


def unpacked(parcel: bytes, *numbers: int) -> list[tuple[Any, ...]]:
    """The events of a parcel, with numbers of time buckets behind the key."""
    columns = [*(pa.array([number]) for number in numbers), pa.array([parcel])]
    given_with = pa.RecordBatch.from_arrays(columns, names=[f"c{n}" for n in range(len(columns))])
    return [
        row
        for rows in events_of_parcels(1, iter([given_with]))
        for row in zip(*(column.to_pylist() for column in rows.columns), strict=True)
    ]


@settings(deadline=None, max_examples=60)
@given(EVENTS, st.integers(1, 7), st.integers(1, 400), st.integers(1, 200))
def test_what_is_packed_is_unpacked(events: list[tuple[Any, ...]], size: int, buffer: int, parcel: int) -> None:
    share_of: dict[Any, set[int]] = {}
    found: Counter[Any] = Counter()
    for columns in parcel_stream(ParcelSpec(SHARES, keys=(0,)), iter(batches(events, size)), buffer, parcel):
        for share, packed in zip(*(column.to_pylist() for column in columns), strict=True):
            rows = unpacked(packed)
            found.update(rows)
            for key, *_ in rows:
                share_of.setdefault(key, set()).add(share)
    assert found == Counter(events)
    assert all(len(shares) == 1 for shares in share_of.values())
    assert set().union(*share_of.values()) <= set(SHARES)


@settings(deadline=None, max_examples=60)
@given(EVENTS, st.integers(1, 7), st.integers(1, 400), BUCKETS, st.booleans())
def test_parcels_of_a_stream_are_told_their_time_buckets(
    events: list[tuple[Any, ...]], size: int, buffer: int, needed_by: BucketsOfTime, by_window: bool
) -> None:
    # The key itself is its hash, and times are packed with three more bits.
    placed = [(abs(key or 0), 8 * time + 5, text) for key, time, text in events]
    bits, until = 0, None
    cut, begin, end = needed_by.cut, needed_by.begin, needed_by.end
    spec = ParcelSpec(SHARES, None, left_out=1, buckets=needed_by, by_window=by_window)
    found: Counter[Any] = Counter()
    counted: Counter[int] = Counter()
    for columns in parcel_stream(spec, iter(batches(placed, size)), buffer):
        assert len(columns) == 5 + by_window
        for share, first, last, packed, count, *own in zip(*(column.to_pylist() for column in columns), strict=True):
            if first is None or packed is None:
                assert own in ([], [None])
            elif by_window:
                ends = [needed_by.closes(bucket) for bucket in range(first, last + 1)]
                assert own == [[number_of_task(share, end, crc32(packed)) for end in ends]]
            if first is None:
                assert count is None
                bits, until = int.from_bytes(packed, "little"), last
                continue
            if packed is None:
                counted[first] += count
                continue
            with pa.ipc.open_stream(packed) as reader:
                rows = reader.read_all()
            assert rows.num_rows == count
            assert share in SHARES
            found.update((first, last, *row) for row in zip(*rows.to_pydict().values(), strict=True))
    buckets = range(-80, 80)
    expected, needed = Counter[Any](), Counter[int]()
    for _, packed_time, text in placed:
        need = [b for b in buckets if begin <= (packed_time >> 3) - b * cut < end]
        expected[need[0], need[-1], packed_time, text] += 1
        needed.update(need)
    assert found == expected
    assert bits.bit_count() == len({key for key, *_ in placed})
    assert until == max(needed, default=None)
    oldest = sorted(needed)[: TALLIED - 1]
    assert counted.total() == needed.total()
    assert {bucket: counted[bucket] for bucket in oldest} == {bucket: needed[bucket] for bucket in oldest}
    assert len(counted) <= TALLIED
    assert max(counted, default=None) == max(needed, default=None)


def test_numbers_of_a_parcels_buckets_are_among_its_columns() -> None:
    [[_, parcels]] = parcel_stream(ParcelSpec(SHARES, keys=()), iter(batches([(1, 2, "a"), (3, 4, None)], 9)))
    assert unpacked(parcels[0].as_py(), 7, 9) == [(1, 7, 9, 2, "a"), (3, 7, 9, 4, None)]


@settings(deadline=None, max_examples=60)
@given(st.lists(EVENTS, min_size=1, max_size=3), st.integers(1, 7), BUCKETS, st.randoms())
def test_parcels_of_several_buckets_are_given_once(
    brought: list[list[tuple[Any, ...]]], size: int, needed_by: BucketsOfTime, chance: Any
) -> None:
    """Micro-batches may bring equal events; each counts, in whatever order Spark gives the parcels of a task."""
    brought = [[(abs(key or 0), 8 * time + 5, text) for key, time, text in events] for events in brought]
    spec = ParcelSpec(SHARES, None, buckets=needed_by, by_window=True)
    rows: list[tuple[int | None, bytes | None]] = []
    for events in [*brought, brought[0]]:
        for columns in parcel_stream(spec, iter(batches(events, size))):
            for _, first, last, body, *_ in zip(*(column.to_pylist() for column in columns), strict=True):
                if first is not None and body is not None:
                    rows += [(bucket, body) for bucket in range(first, last + 1)]
                    rows.append((first, None))  # what bounds batches
    chance.shuffle(rows)
    repeated = [
        pa.RecordBatch.from_arrays([pa.array(buckets, pa.int64()), pa.array(bodies, pa.binary())], names=["s", "p"])
        for buckets, bodies in (zip(*rows[low : low + 5], strict=True) for low in range(0, len(rows), 5))
    ]
    numbers = [bucket for bucket, body in rows if body is not None]
    found = Counter(
        row
        for given in given_together(iter(repeated))
        for packed in events_of_parcels(1, iter([given]))
        for row in zip(*(column.to_pylist() for column in packed.columns), strict=True)
    )
    expected = Counter(
        (key, min(numbers), max(numbers), time, text) for events in [*brought, brought[0]] for key, time, text in events
    )
    assert found == expected


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.sampled_from(SHARES), st.integers(-9, 9)), max_size=20), st.integers(1, 200))
def test_panes_are_packed_by_the_shares_that_they_come_with(panes: list[tuple[int, int]], parcel: int) -> None:
    """A pane's number counts slides; nobody is told how many there are."""
    buckets = BucketsOfTime(1, 0, 90, 0, 270, unit=90)
    spec = ParcelSpec(SHARES, by_share=True, left_out=1, buckets=buckets, by_window=True)
    table = pa.table({"h": pa.array([share for share, _ in panes], pa.int64()), "t": [pane for _, pane in panes]})
    found = Counter[Any]()
    for columns in parcel_stream(spec, iter(table.to_batches(3) if panes else []), None, parcel):
        for share, first, last, body, _, own in zip(*(column.to_pylist() for column in columns), strict=True):
            assert own == [number_of_task(share, bucket * 90 + 270, crc32(body)) for bucket in range(first, last + 1)]
            with pa.ipc.open_stream(body) as reader:
                found.update((share, first, last, pane) for pane in reader.read_all().column("t").to_pylist())
    assert found == Counter((share, pane - 2, pane, pane) for share, pane in panes)


def test_times_out_of_state_are_in_one_zone() -> None:
    """A stream may go on in a session of another zone, which its new parcels have times in."""

    def packed(zone: str) -> list[bytes]:
        when = pa.timestamp("us", tz=zone)
        kinds = {
            "n": pa.int64(),
            "t": when,
            "local": pa.timestamp("us"),
            "pair": pa.struct([pa.field("x", pa.int32()), pa.field("t", when)]),
            "nested": pa.map_(when, pa.list_(pa.struct([pa.field("t", when, nullable=False)]))),
        }
        rows = [
            {"n": n, "t": n, "local": n, "pair": {"x": n, "t": n}, "nested": [(n, [{"t": n}])]} | {missing: None}
            for n, missing in enumerate(["", "t", "local", "pair", "nested"])
        ]
        columns = [pa.array([row[name] for row in rows], kind) for name, kind in kinds.items()]
        batch = pa.RecordBatch.from_arrays(columns, names=list(kinds))
        spec = ParcelSpec((0,), (), buckets=BucketsOfTime(0, 0, 10, 0, 10))
        told = next(iter(parcel_stream(spec, iter([batch]))))
        return list(told[3].to_pylist())

    def read(parcels: list[bytes]) -> pa.Table:
        given = pa.RecordBatch.from_arrays([pa.array([7] * len(parcels)), pa.array(parcels)], names=["s", "p"])
        return pa.Table.from_batches(events_of_parcels(0, iter([given])))

    known, new = packed("America/New_York"), packed("UTC")
    expected = read([*new, *new])
    for parcels in ([*known, *new], [merged([*known, *new])], [merged(known), *new]):
        assert read(parcels).equals(expected)


@pytest.mark.parametrize("step", [1, 1000, 2**32 + 1])
@pytest.mark.parametrize("count", [100, 10_000, 100_000])
def test_bits_tell_how_many_keys_there_are(step: int, count: int) -> None:
    """Also of keys that are counted up, which are no random numbers."""
    names, keys = ["k0", "t"], np.arange(count) * step
    batch = pa.RecordBatch.from_arrays([pa.array(keys), pa.array(np.zeros(count, dtype=np.int64))], names=names)
    spec = ParcelSpec(SHARES, keys=(0,), buckets=BucketsOfTime(1, 0, 10, 0, 10))
    *_, columns = parcel_stream(spec, iter([batch]))
    assert keys_of([int.from_bytes(columns[3][0].as_py(), "little")]) == pytest.approx(count, rel=0.02)


def test_keys_spread_evenly_over_shares() -> None:
    keys = pa.array(np.arange(40_000))
    batch = pa.RecordBatch.from_arrays([keys, pa.array(np.arange(40_000) % 7)], names=["k0", "k1"])
    [[shares, parcels]] = parcel_stream(ParcelSpec(tuple(range(40)), keys=(0, 1)), iter([batch]), parcel_bytes=1 << 30)
    assert shares.to_pylist() == list(range(40))
    assert all(len(unpacked(parcel.as_py())) == pytest.approx(1000, rel=0.15) for parcel in parcels)


@pytest.mark.parametrize(("parcel_bytes", "parcels"), [(1 << 30, 2), (1 << 10, 10)])
def test_parcels_are_not_too_large(parcel_bytes: int, parcels: int) -> None:
    count = 500
    batch = pa.RecordBatch.from_pydict({"share": np.arange(count, dtype=np.int32) % 2, "t": np.arange(count)})
    [columns] = parcel_stream(ParcelSpec((0, 1), keys=(0,)), iter([batch]), parcel_bytes=parcel_bytes)
    assert len(columns[0]) == pytest.approx(parcels, abs=8 if parcels > 2 else 0)


@pytest.mark.classic
def test_rows_without_parcels_bound_the_batches(spark: Any) -> None:
    """Of a task's parcels, about a megabyte comes to a worker at once, and no parcel is lost."""

    def sizes(batches: Any) -> Any:
        for batch in batches:
            held = sum(len(body) for body in batch.column(0).to_pylist() if body is not None)
            yield pa.RecordBatch.from_pydict({"held": [held], "parcels": [len(batch) - batch.column(0).null_count]})

    parcels = spark.range(0, 100, 1, 1).selectExpr("CAST(repeat('x', 65536) AS binary) AS p")
    found = in_batches(parcels).mapInArrow(sizes, "held bigint, parcels bigint").collect()
    assert sum(row.parcels for row in found) == 100
    assert 6 <= len(found) <= 8
    assert max(row.held for row in found) < 1.2e6
