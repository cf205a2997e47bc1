"""The events of a lone key, put in order by the kernel as Spark would."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from cetdsl.kernels.wire.order import in_order

EVENTS = st.lists(
    st.tuples(st.integers(0, 1), st.one_of(st.none(), st.integers(-4, 4)), st.integers(-(2**63), 2**63 - 1), st.text())
)
SCHEMA = pa.schema([("h", pa.int32()), ("t", pa.int64()), ("i", pa.int64()), ("e0", pa.string())])


@settings(deadline=None)
@given(EVENTS, st.integers(1, 7), st.sampled_from([pa.int64(), pa.timestamp("us")]), st.booleans())
def test_rows_come_in_order(rows: list[tuple], size: int, kind: pa.DataType, ordered: bool) -> None:
    """By time, NULL first, and simultaneous events by their fingerprints, from whatever batches they come in."""
    by_time = sorted(rows, key=lambda row: (row[1] is not None, row[1] or 0, row[2]))
    columns = list(zip(*(by_time if ordered else rows))) or [()] * len(SCHEMA)
    table = pa.table([pa.array(column, field.type) for column, field in zip(columns, SCHEMA)], schema=SCHEMA)
    batches = table.cast(SCHEMA.set(1, pa.field("t", kind))).to_batches(max_chunksize=size)
    found = [tuple(row.values()) for batch in in_order(1, 2, iter(batches)) for row in batch.cast(SCHEMA).to_pylist()]
    assert sorted(found, key=repr) == sorted(rows, key=repr)
    # Rows without a time raise later on; what else is known of them does not matter.
    assert [row[1:3] for row in found if row[1] is not None] == [row[1:3] for row in by_time if row[1] is not None]
    assert [row[1] for row in found] == [row[1] for row in by_time]


def test_no_rows_are_in_order() -> None:
    assert list(in_order(0, 1, iter([]))) == []
