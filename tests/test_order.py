"""The events of a lone key, put in order by the kernel as Spark would."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from cetdsl.kernels.order import in_order

EVENTS = st.lists(
    st.tuples(st.integers(0, 1), st.one_of(st.none(), st.integers(-4, 4)), st.integers(-(2**63), 2**63 - 1), st.text())
)
NAMES = ["h", "t", "i", "e0"]


@settings(deadline=None)
@given(EVENTS, st.integers(1, 7), st.sampled_from([pa.int64(), pa.timestamp("us")]), st.booleans())
def test_rows_come_in_order(rows: list[tuple], size: int, kind: pa.DataType, ordered: bool) -> None:
    """By time, NULL first, and simultaneous events by their fingerprints, from whatever batches they come in."""
    by_time = sorted(rows, key=lambda row: (row[1] is not None, row[1] or 0, row[2]))
    columns = list(zip(*(by_time if ordered else rows))) or [()] * len(NAMES)
    types = [pa.int32(), kind, pa.int64(), pa.string()]
    table = pa.table(
        [
            pa.array(column, pa.int64()).cast(t) if t == kind else pa.array(column, t)
            for column, t in zip(columns, types)
        ],
        names=NAMES,
    )
    found = [row for batch in in_order(1, 2, iter(table.to_batches(max_chunksize=size))) for row in batch.to_pylist()]
    times = [row["t"] for row in found]
    numbers = pa.array(times, kind).cast(pa.int64()).to_pylist()
    # Rows without a time raise later on; what else is known of them does not matter.
    found_rows = [(row["h"], number, row["i"], row["e0"]) for row, number in zip(found, numbers)]
    assert sorted(found_rows, key=repr) == sorted(rows, key=repr)
    assert [row[1:3] for row in found_rows if row[1] is not None] == [row[1:3] for row in by_time if row[1] is not None]
    assert numbers == [row[1] for row in by_time]


def test_no_rows_are_in_order() -> None:
    assert list(in_order(0, 1, iter([]))) == []
