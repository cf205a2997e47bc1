"""The rows of a task, put in order by the kernel as Spark would, from memory and from disk."""

from __future__ import annotations

import decimal
import math
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cetdsl.errors import EngineError
from cetdsl.ir.layout import (
    BUCKET,
    CODE,
    EVENT,
    FINGERPRINT,
    KEY,
    LIST,
    MASK,
    POSITION,
    SHARE,
    TIE,
    TIME,
    VALUE,
    RowLayout,
)
from cetdsl.ir.sorting import OrderKey, RowOrder
from cetdsl.kernels.wire import order
from cetdsl.kernels.wire.order import in_order, order_of
from cetdsl.kernels.wire.radix import order_by_key_and_time

#: Two keys, a time, two columns that break ties, and what is carried along.
ORDER = RowOrder((0, 1), tuple(map(OrderKey, (2, 3, 4))), nulls_apart=True)
SCHEMA = pa.schema(
    [
        ("k0", pa.string()),
        ("k1", pa.float64()),
        ("t", pa.int64()),
        ("b0", pa.string()),
        ("b1", pa.decimal128(3, 1)),
        ("v0", pa.int64()),
        ("e0", pa.list_(pa.string())),
    ]
)
BOUNDS = st.sampled_from([-(2**63), -1, 0, 2**63 - 1])
ROWS = st.lists(
    st.tuples(
        st.sampled_from([None, "", "a", "b", "ä"]),
        st.sampled_from([None, 0.0, 1.5, math.nan]),
        st.one_of(st.integers(-4, 4), BOUNDS, st.none()),
        st.one_of(st.none(), st.sampled_from(["", "a", "aa", "b", "é"])),
        st.one_of(st.none(), st.integers(-2, 2).map(lambda n: decimal.Decimal(n).scaleb(-1))),
        st.integers(0, 9),
        st.one_of(st.none(), st.lists(st.text(max_size=2), max_size=2)),
    ),
    max_size=80,
)


def table_of(rows: list[tuple], kind: pa.DataType) -> pa.Table:
    columns = list(zip(*rows)) or [()] * len(SCHEMA)
    schema = SCHEMA if not pa.types.is_floating(kind) else SCHEMA.set(2, pa.field("t", kind))
    table = pa.table([pa.array(column, field.type) for column, field in zip(columns, schema)], schema=schema)
    return table.set_column(2, "t", table.column("t").cast(kind))


def plain(batches: list[pa.RecordBatch]) -> list[tuple]:
    """Rows as they are, times as numbers."""
    rows = []
    for batch in batches:
        time = batch.column(2)
        time = time.view(pa.int64()) if pa.types.is_timestamp(time.type) else time
        columns = [time if k == 2 else batch.column(k) for k in range(batch.num_columns)]
        rows += list(zip(*(column.to_pylist() for column in columns)))
    return rows


def place(value: Any, key: OrderKey) -> tuple:
    """Where a value stands by a column of the order; text goes by its bytes, and NaN behind all numbers."""
    if value is None:
        return (key.nulls_last,)
    if isinstance(value, str):
        value = [*value.encode(), -1]
        value = [-byte for byte in value] if key.falls else value
    elif value != value:
        value = (-math.inf if key.falls else math.inf, not key.falls)
    else:
        value = (-value if key.falls else value, key.falls)
    return not key.nulls_last, value


@settings(deadline=None, max_examples=400)
@given(ROWS, st.integers(1, 30), st.data())
def test_rows_come_in_order(rows: list[tuple], size: int, data: st.DataObject) -> None:
    """Those of a key together, in any order that SQL may ask for; none is lost, whatever fits into memory."""
    memory = data.draw(st.sampled_from([1 << 62, 1, 400, 2_000]), label="memory")
    together = data.draw(st.sampled_from([2, 3, 32]), label="parts merged at once")
    at_once = data.draw(st.sampled_from([1, 7, 1 << 17]), label="rows of a batch")
    kind = data.draw(st.sampled_from([pa.int64(), pa.timestamp("us"), pa.float64()]), label="type of the time")
    ways = data.draw(st.tuples(*[st.tuples(st.booleans(), st.booleans())] * 3), label="falls, NULL last")
    by = tuple(OrderKey(column, *way) for column, way in zip((2, 3, 4), ways))
    apart = data.draw(st.booleans(), label="rows without a time apart")
    if pa.types.is_floating(kind):
        rows = [
            (*row[:2], None if row[2] is None else [-0.0, 0.0, math.nan, 2.5][row[2] % 4], *row[3:]) for row in rows
        ]
    if data.draw(st.booleans(), label="sorted before"):
        rows = sorted(rows, key=lambda row: (repr(row[0]), repr(row[1]), row[2] is not None, row[2] or 0))
    batches = table_of(rows, kind).to_batches(max_chunksize=size)
    with pytest.MonkeyPatch.context() as patch:
        if (mask := data.draw(st.sampled_from([-1, 1, 0]), label="bits of hashes")) != -1:
            hashes = order.hashes_of
            patch.setattr(order, "hashes_of", lambda *arguments: hashes(*arguments) & mask)
        patch.setattr(order, "MERGED_PARTS", together)
        patch.setattr(order, "BATCH_ROWS", at_once)
        found = plain(list(in_order(RowOrder((0, 1), by, memory, apart), iter(batches))))
    assert sorted(map(repr, found)) == sorted(map(repr, rows))
    untimed = sum(row[2] is None for row in rows) if apart else 0
    assert all(row[2] is None for row in found[:untimed])
    timed = found[untimed:]
    keys = [(row[0], repr(row[1])) for row in timed]
    begins = [key for key, before in zip(keys, [None, *keys]) if key != before]
    assert len(begins) == len(set(begins))
    places = [[place(row[key.column], key) for key in by] for row in timed]
    assert all(one <= other for one, other, k, m in zip(places, places[1:], keys, keys[1:]) if k == m)


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_positions_are_sorted_and_equal_ones_stay(data: st.DataObject) -> None:
    """The compiled sort is a stable one over 64 bits, with few events of a key, with many, and of files in order."""
    many = data.draw(st.integers(1, 5))
    seed = data.draw(st.integers(0, 2**32 - 1))
    bits = data.draw(st.sampled_from([1, 3, 8, 9, 20, 40, 63]))
    chance = np.random.default_rng(seed)
    count = data.draw(st.integers(0, 800))
    number = chance.integers(0, many, count)
    time = chance.integers(-(2**bits), 2**bits, count, endpoint=bits < 63) + data.draw(st.integers(-5, 5)) * (bits < 60)
    if files := data.draw(st.integers(0, 12)):
        time = np.concatenate([np.sort(part) for part in np.array_split(time, files)])
    positions, times = order_by_key_and_time(number, many, time)
    expected = np.lexsort((time, number))
    assert positions.tolist() == expected.tolist()
    assert times.tolist() == time[expected].tolist()


def test_what_came_in_order_is_not_moved() -> None:
    """The columns are those that came."""
    batch = pa.record_batch([pa.array(["a", "a", "b"]), pa.array([1, 2, 0])], names=["k0", "t"])
    [found] = in_order(RowOrder((0,), (OrderKey(1),)), iter([batch]))
    assert found.column(1).buffers()[1].address == batch.column(1).buffers()[1].address


def test_no_rows_are_in_order() -> None:
    assert list(in_order(ORDER, iter([]))) == []


def twenty_times_the_limit() -> tuple[list[pa.RecordBatch], int, pa.Table]:
    """Batches of as many rows of a few keys, with texts and payload, as twenty times the memory given."""
    count, chance = 60_000, np.random.default_rng(5)
    key = pa.array([f"customer {n}" for n in chance.integers(0, 7, count)])
    time, tie = pa.array(chance.integers(-500, 500, count)), pa.array(chance.integers(0, 50, count))
    table = pa.table([key, time, tie, pa.array(np.arange(count))], names=["k0", "t", "b0", "e0"])
    batches = table.to_batches(max_chunksize=50)
    return batches, sum(batch.nbytes for batch in batches) // 20, table


def test_a_partition_of_twenty_times_the_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It goes through files in Spark's directory, and never are many more rows held than the limit allows."""
    batches, memory, table = twenty_times_the_limit()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path / 'missing'},{tmp_path}")
    places, files, held = [], [], []
    temporary = tempfile.TemporaryFile

    def noted(dir: str | None) -> Any:
        places.append(dir)
        files.append(temporary(dir=dir))
        return files[-1]

    taken = order._sorted

    def counted(row_order: RowOrder, waiting: list[pa.RecordBatch], *hashing: Any) -> Any:
        held.append(sum(batch.nbytes for batch in waiting))
        return taken(row_order, waiting, *hashing)

    monkeypatch.setattr(order.tempfile, "TemporaryFile", noted)
    monkeypatch.setattr(order, "_sorted", counted)
    merged = []
    joined = order._joined

    def measured(pieces: Any) -> Any:
        piece = joined(pieces)
        merged.append(piece.rows.nbytes)
        return piece

    monkeypatch.setattr(order, "_joined", measured)
    found = pa.Table.from_batches(list(in_order(RowOrder((0,), (OrderKey(1), OrderKey(2)), memory), iter(batches))))
    assert len(held) >= 20
    assert max(held) <= memory + batches[0].nbytes
    assert max(merged) <= 2 * memory
    assert set(places) == {str(tmp_path)}
    assert all(file.closed for file in files)
    assert not list(tmp_path.iterdir())
    first = {key: n for n, key in reversed(list(enumerate(found.column("k0").to_pylist())))}
    expected = table.to_pandas().assign(place=[first[key] for key in table.column("k0").to_pylist()])
    expected = expected.sort_values(["place", "t", "b0"], kind="stable")
    for name in ("k0", "t", "b0"):
        assert found.column(name).to_pylist() == expected[name].tolist()
    assert sorted(found.column("e0").to_pylist()) == list(range(len(expected)))


def nested(kind: pa.DataType, values: list) -> pa.Array:
    """Structs with a list of the values."""
    fields = [pa.ListArray.from_arrays(list(range(len(values) + 1)), pa.array(values, kind)), pa.array(values, kind)]
    return pa.StructArray.from_arrays(fields, names=["several", "one"])


#: Days and microseconds beyond what Python has.
FAR = [-(2**31), 2**31 - 1, 0, None]
FAR_TIMES = [-(2**63), 2**63 - 1, 0, None]
NO_UTF8 = pa.Array.from_buffers(pa.string(), 4, pa.array([b"\xff", b"", None, b"\xfe\xff"]).buffers())
KEYS = {
    "text": pa.array(["a", "", None, "a" * 30]),
    "text that is no UTF-8": NO_UTF8,
    "large text": pa.array(["a", "", None, "b"], pa.large_string()),
    "bytes": pa.array([b"a", b"", None, b"\0"]),
    "whole numbers": pa.array([1, None, 0, -(2**63)]),
    "small numbers": pa.array([1, None, 0, -1], pa.int8()),
    "truth values": pa.array([True, None, False, None]),
    "doubles": pa.array([0.0, math.nan, None, 1.0]),
    "decimals": pa.array(
        [decimal.Decimal(10**30), decimal.Decimal(-1), None, decimal.Decimal(0)], pa.decimal128(38, 2)
    ),
    "dates": pa.array(FAR, pa.int32()).view(pa.date32()),
    "times": pa.array(FAR_TIMES).view(pa.timestamp("us", tz="UTC")),
    "intervals": pa.array(FAR_TIMES).view(pa.duration("us")),
    "nothing": pa.nulls(4),
    "structs": nested(pa.int64(), [1, None, 0, 2]),
    "structs of doubles": nested(pa.float64(), [0.0, None, math.nan, 1.0]),
    "structs of dates": nested(pa.int32(), FAR).cast(
        pa.struct([("several", pa.list_(pa.date32())), ("one", pa.date32())])
    ),
    "structs of times": nested(pa.int64(), FAR_TIMES).cast(
        pa.struct([("several", pa.list_(pa.timestamp("us"))), ("one", pa.timestamp("us", tz="UTC"))])
    ),
    "structs of texts that are no UTF-8": pa.StructArray.from_arrays([NO_UTF8], names=["one"]),
    "lists of texts that are no UTF-8": pa.ListArray.from_arrays([0, 2, 2, 3, 4], NO_UTF8),
}


@pytest.mark.parametrize("first", KEYS)
@pytest.mark.parametrize("second", [None, "text", "structs of dates"])
@pytest.mark.parametrize("memory", [1 << 62, 300])
def test_keys_of_every_type(first: str, second: str | None, memory: int) -> None:
    """Rows of one key stand together, also where they come from many parts."""
    chance = np.random.default_rng(8)
    columns = [KEYS[name] for name in (first, second) if name]
    chosen = chance.integers(0, 4, (len(columns), 200))
    keys = [column.take(pa.array(rows)) for column, rows in zip(columns, chosen)]
    names = [f"k{place}" for place in range(len(keys))]
    table = pa.table([*keys, pa.array(chance.integers(0, 99, 200)), pa.array(np.arange(200))], names=[*names, "t", "v"])
    by = RowOrder(tuple(range(len(keys))), (OrderKey(len(keys)),), memory)
    found = pa.Table.from_batches(in_order(by, table.to_batches(max_chunksize=7)))
    rows = found.column("v").to_numpy()
    assert sorted(rows) == list(range(200))
    # Equal values are one key, and so are NULL ones.
    kinds = [[column.is_valid().to_pylist()[k] and (k, name) for k in range(4)] for column, name in zip(columns, names)]
    key_of = [tuple(kind[chosen[place][row]] for place, kind in enumerate(kinds)) for row in rows]
    begins = [key for key, before in zip(key_of, [None, *key_of]) if key != before]
    assert len(begins) == len(set(begins))
    times = found.column("t").to_pylist()
    assert all(one <= other for one, other, k, m in zip(times, times[1:], key_of, key_of[1:]) if k == m)


@pytest.mark.parametrize("is_text", [True, False])
def test_memory_does_not_grow_with_the_keys(monkeypatch: pytest.MonkeyPatch, is_text: bool) -> None:
    """With as many keys as rows, no more is held than the limit says, a few times over."""
    parts, rows, memory, held = 40, 500, 200_000, []
    monkeypatch.setattr(order, "MERGED_PARTS", 4)

    def batches() -> Any:
        for part in range(parts):
            keys = np.random.default_rng(part).permutation(rows) + part * rows
            key = pa.array([f"{key:0400}" for key in keys]) if is_text else pa.array(keys)
            payload = pa.array([b"" if is_text else bytes(400)] * rows)
            yield pa.record_batch([key, pa.array(keys), payload], names=["k0", "t", "e0"])

    count, before = 0, pa.total_allocated_bytes()
    for batch in in_order(RowOrder((0,), (OrderKey(1),), memory), batches()):
        held.append(pa.total_allocated_bytes() - before)
        count += batch.num_rows
    assert count == parts * rows
    assert max(held) < 10 * memory


def test_an_array_holds_less_than_2_gib(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are sorted in parts where they are too many for one array, whatever may be held."""
    monkeypatch.setattr(order, "MOST_TOGETHER", 1_000)
    sizes, taken = [], order._sorted

    def counted(row_order: RowOrder, waiting: list[pa.RecordBatch], *hashing: Any) -> Any:
        sizes.append(sum(batch.nbytes for batch in waiting))
        return taken(row_order, waiting, *hashing)

    monkeypatch.setattr(order, "_sorted", counted)
    batch = pa.record_batch([pa.array([f"{key:0100}" for key in range(5)]), pa.array(range(5))], names=["k0", "t"])
    found = pa.Table.from_batches(in_order(RowOrder((0,), (OrderKey(1),)), [batch] * 20))
    assert found.num_rows == 100
    assert max(sizes) < 2_000


def test_disk_grows_with_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 4 parts merged at once, rows are written once more for each power of 4; files merged away take no room."""
    chance, files, sizes, written = np.random.default_rng(2), [], [], []
    temporary, write, parts, rows = tempfile.TemporaryFile, order._write, 150, 1_000
    monkeypatch.setattr(order, "MERGED_PARTS", 4)
    monkeypatch.setattr(order.tempfile, "TemporaryFile", lambda dir: files.append(temporary(dir=dir)) or files[-1])

    def noted(pieces: Any, memory: int, file: Any) -> None:
        write(pieces, memory, file)
        file.flush()
        written.append(os.fstat(file.fileno()).st_size)
        sizes.append(sum(os.fstat(each.fileno()).st_size for each in files if not each.closed))

    monkeypatch.setattr(order, "_write", noted)
    times = chance.integers(0, 1 << 40, (parts, rows))
    batches = [pa.record_batch([pa.array(time), pa.array(time)], names=["t", "v"]) for time in times]
    found = pa.Table.from_batches(in_order(RowOrder((), (OrderKey(0),), batches[0].nbytes - 1), batches))
    assert found.column("v").to_pylist() == np.sort(times.ravel()).tolist()
    once = sum(written[:3]) / 3 * parts
    assert max(sizes) < 1.2 * once
    assert len(files) < 1.5 * parts
    assert sum(written) < 6 * once


def test_files_are_closed_where_nobody_reads_on(monkeypatch: pytest.MonkeyPatch) -> None:
    batches, memory, _ = twenty_times_the_limit()
    files = []
    temporary = tempfile.TemporaryFile
    monkeypatch.setattr(order.tempfile, "TemporaryFile", lambda dir: files.append(temporary(dir=dir)) or files[-1])
    rows = in_order(RowOrder((0,), (OrderKey(1), OrderKey(2)), memory), iter(batches))
    next(rows)
    rows.close()
    assert files
    assert all(file.closed for file in files)


def test_a_full_disk_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    batches, memory, _ = twenty_times_the_limit()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(order.tempfile, "TemporaryFile", full)
    with pytest.raises(EngineError, match=r"No space left on device(.|\n)*spark.local.dir"):
        list(in_order(RowOrder((0,), (OrderKey(1), OrderKey(2)), memory), iter(batches)))


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("k0", TIME, MASK), [TIME]),
        (("k0", TIME, f"{TIE}0", f"{TIE}1", MASK, f"{VALUE}0"), [TIME, f"{TIE}0", f"{TIE}1"]),
        (("k0", SHARE, TIME, FINGERPRINT, f"{EVENT}0"), [TIME, FINGERPRINT]),
        (("k0", BUCKET, TIME, MASK), [TIME]),
        (("k0", TIME, f"{TIE}0", MASK, FINGERPRINT), [TIME, f"{TIE}0", MASK, FINGERPRINT]),
        ((KEY + "0", TIME, f"{TIE}0", MASK, f"{CODE}0", POSITION, f"{LIST}0"), [TIME, f"{TIE}0", POSITION]),
    ],
)
def test_what_orders_the_rows_of_a_layout(names: tuple[str, ...], expected: list[str]) -> None:
    """Spark and the kernel go by the same columns."""
    layout = RowLayout(names, "ts", "bigint", sort_memory=9)
    assert list(layout.order) == expected
    found = order_of(layout, buckets_rise=False)
    assert [layout.columns[key.column] for key in found.by] == expected
    assert [layout.columns[k] for k in found.keys] == list(layout.partition)
    rising = order_of(layout, buckets_rise=True)
    assert [layout.columns[k] for k in rising.keys] == [name for name in layout.partition if name != BUCKET]
    assert found.memory == 9
