"""Parcels hold what was packed: each event once, beside those that the same share and time buckets have."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cetdsl.kernels.wire.parcels import events_of_parcels, parcel_stream

EVENTS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(-2, 1), st.integers(-2, 1), st.none() | st.text(max_size=3)), max_size=20
)
NAMES = ("share", "first", "last", "k0", "t")


def batches(events: list[tuple[Any, ...]], size: int) -> list[pa.RecordBatch]:
    rows = [dict(zip(NAMES, (*event, number), strict=True)) for number, event in enumerate(events)]
    schema = pa.schema(
        {"share": pa.int32(), "first": pa.int64(), "last": pa.int64(), "k0": pa.string(), "t": pa.int64()}
    )
    return pa.Table.from_pylist(rows, schema).to_batches(size)


@settings(deadline=None, max_examples=60)
@given(EVENTS, st.integers(1, 7), st.integers(1, 400), st.integers(1, 200))
def test_what_is_packed_is_unpacked(events: list[tuple[Any, ...]], size: int, buffer: int, parcel: int) -> None:
    found: Counter[Any] = Counter()
    counted: Counter[int] = Counter()
    for columns in parcel_stream(None, iter(batches(events, size)), buffer, parcel):
        for *place, packed, count in zip(*(column.to_pylist() for column in columns), strict=True):
            if packed is None:
                counted[place[1]] += count
                continue
            numbers = [pa.array([7]), pa.array([9])]
            given_with = pa.RecordBatch.from_arrays([*numbers, pa.array([packed])], names=["s", "u", "p"])
            for rows in events_of_parcels(1, iter([given_with])):
                key, bucket, until, time = (column.to_pylist() for column in rows.columns)
                assert set(zip(bucket, until, strict=True)) == {(7, 9)}
                assert len(key) == count
                found.update((*place, k, t) for k, t in zip(key, time, strict=True))
    assert found == Counter((*event, number) for number, event in enumerate(events))


@pytest.mark.parametrize(("parcel_bytes", "parcels"), [(1 << 30, 2), (1 << 10, 10)])
def test_parcels_are_not_too_large(parcel_bytes: int, parcels: int) -> None:
    count = 500
    columns = {"share": np.arange(count) % 2, "first": np.zeros(count, np.int64), "last": np.zeros(count, np.int64)}
    batch = pa.RecordBatch.from_pydict({**columns, "t": np.arange(count)})
    columns_of_parcels, _ = parcel_stream(None, iter([batch]), parcel_bytes=parcel_bytes)
    assert len(columns_of_parcels[0]) == pytest.approx(parcels, abs=8 if parcels > 2 else 0)
