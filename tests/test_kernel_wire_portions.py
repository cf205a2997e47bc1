"""Answers by portions: what rows take in Arrow, and that answers are the same however small portions are."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pytest
from test_complete_engines import Task
from test_kernel_aggregate import by_case, rows_at, rows_of
from test_kernel_graph_vertices import Task as GraphTask

import cetdsl as cet
from cetdsl.errors import GroupTooLarge
from cetdsl.ir.kernel import ALL, KernelQuery, KernelSpec
from cetdsl.ir.layout import InColumn, OfTime, RowLayout
from cetdsl.ir.machine import Edge, Machine, Negation
from cetdsl.ir.stages import TrendsSpec
from cetdsl.kernels import _side_by_side as side_by_side
from cetdsl.kernels.complete.pieces import joined_bindings
from cetdsl.kernels.enumerate import trends
from cetdsl.kernels.enumerate.trends import trend_stream
from cetdsl.kernels.vocabulary import Block
from cetdsl.kernels.wire import portions
from cetdsl.kernels.wire.portions import RowSizes, repeat, take, value_bytes
from cetdsl.pattern.expressions import Aggregate, Attribute


def test_values_of_all_types_are_weighed() -> None:
    texts, lists = ["four", None, "", "é"], [[], ["some", "more"], None, ["x"]]
    numbered = pa.map_(pa.string(), pa.int64())
    columns = {
        "text": (pa.array(texts), [4, 0, 0, 2]),
        "bytes": (pa.array([b"\0" * 9, b"", b"1", None]), [9, 0, 1, 0]),
        "flag": (pa.array([True, False, None, True]), [1] * 4),
        "number": (pa.array([1, 2, 3, 4], pa.int32()), [4] * 4),
        "decimal": (pa.array([1, 2, 3, 4], pa.decimal128(38, 0)), [16] * 4),
        "nothing": (pa.nulls(4), [0] * 4),
        "lists": (pa.array(lists), [0, 8, 0, 1]),
        "map": (pa.array([[("k", 1)], [], [("key", 2), ("", 3)], None], numbered), [9, 0, 19, 0]),
        "no fields": (pa.array([{}] * 4, pa.struct([])), [0] * 4),
    }
    for name, (column, sizes) in columns.items():
        assert value_bytes(column).tolist() == sizes, name
        assert value_bytes(column[1:3]).tolist() == sizes[1:3], name
    struct = pa.StructArray.from_arrays([column for column, _ in columns.values()], names=list(columns))
    together = np.sum([sizes for _, sizes in columns.values()], axis=0)
    assert value_bytes(struct).tolist() == together.tolist()
    assert value_bytes(struct[2:]).tolist() == together[2:].tolist()


def test_portions_are_as_large_as_they_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(1)
    for _ in range(200):
        most = chance.randrange(1, 60)
        monkeypatch.setattr(portions, "PORTION", most)
        texts = ["x" * chance.randrange(12) for _ in range(chance.randrange(1, 9))]
        lists = [[chance.randrange(len(texts)) for _ in range(chance.randrange(7))] for _ in range(chance.randrange(9))]
        start = np.cumsum([0, *map(len, lists)])
        rows = np.array([row for some in lists for row in some], dtype=np.int64)
        sizes = RowSizes([pa.array(texts), pa.array(range(len(texts)), pa.int8())])
        found = list(sizes.portions(rows, start))
        weights = [sum(len(texts[row]) + 1 for row in some) for some in lists]
        assert [n for some in found for n in range(some.start, some.stop)] == list(range(len(lists)))
        for some in found:
            assert some.stop - some.start <= 1 or sum(weights[some]) <= most
        for one, other in pairwise(found):
            assert sum(weights[one]) + weights[other.start] > most
        assert list(sizes.portions(rows)) == list(sizes.portions(rows, np.arange(len(rows) + 1)))
        assert sizes.at_once * sizes.largest <= max(most, sizes.largest)


def test_a_trend_that_no_row_holds_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portions, "PORTION", 10)
    monkeypatch.setattr(portions, "_MOST", 100)
    sizes, start = RowSizes([pa.array(["x" * 30, ""])]), np.array([0, 3, 7])
    assert len(list(sizes.portions(np.array([0, 0, 0, 1, 1, 0, 0]), start))) == 2
    with pytest.raises(GroupTooLarge, match=r"one trend show 120 bytes, and one row holds 100\n  hint: .*columns="):
        list(sizes.portions(np.array([0, 0, 1, 0, 0, 0, 0]), start))


def test_texts_that_no_array_holds_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow's own repetition has offsets that begin anew after 2 GiB, which crash whoever reads them."""
    with pytest.raises(MemoryError, match="a text 131072 times"):
        repeat(pa.scalar("x" * 40_000), 131_072)
    assert repeat(pa.scalar(b"xy"), 3).to_pylist() == [b"xy"] * 3

    def refuse(*_: Any, **options: Any) -> None:
        raise pa.ArrowInvalid("Take operation overflowed binary array capacity")

    monkeypatch.setattr(portions.pc, "take", refuse)
    with pytest.raises(MemoryError, match="2 values are more than one array of Arrow holds"):
        take(pa.array(["x"]), pa.array([0, 0]))


@pytest.mark.parametrize("within", ["", " WITHIN 3 SLIDE 1", " WITHIN 4"])
def test_answers_are_the_same_by_small_portions(within: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events show an ``id`` of eight bytes, so that a portion has three events, or one longer trend."""
    query, rows = cet.parse(f"PATTERN B+ GROUP BY case{within}")._query(), rows_at([1, 2, 3, 4, 5, 8, 9])
    by = Aggregate("sum", argument=Attribute("B", "x"))
    task = Task(query, rows)

    def answers() -> list[Any]:
        every = task.graph(ALL)
        return [
            Counter(task.trends()),
            [len(task.trends(limit=limit)) for limit in (1, 4, 9)],
            task.complete(every, "auto", 2**20, 2**20),
            task.complete(task.graph("maximal"), "m-cet", 3, 2),
            task.sampled(every, 9, 1, 2**20, 2**20),
            [row[-1] for row in task.heaviest(every, 9, by, 2**20, 2**20)],
        ]

    whole, cut = answers(), recorded(monkeypatch)
    assert answers() == whole
    assert len(cut) > 6


def test_a_long_text_of_all_events_comes_by_portions() -> None:
    """A block of trends of 15 events repeats it more often than one array of Arrow holds."""
    layout = RowLayout(("t", "m", "e0"), "t", "bigint", event=(InColumn("e0"),))
    machine = Machine((0,), ((0, ()),), ((0, ()),), (Edge(0, 0),))
    spec = TrendsSpec(KernelSpec(KernelQuery(machine), layout), (), ("A",), ("p",))
    columns = {"t": pa.array(range(15)), "m": pa.array([1] * 15), "e0": pa.array(["x" * 40_000] * 15)}
    batch = pa.record_batch([columns[name] for name in layout.columns], names=list(layout.columns))
    (first,) = next(trend_stream(spec, iter([batch])))
    first.validate(full=True)
    assert 0 < first.nbytes < 1.1 * portions.PORTION
    assert first[0].as_py() == [{"variable": "A", "event": {"p": "x" * 40_000}}]


def test_the_vertices_of_a_graph_are_the_same_by_small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    query = cet.parse("PATTERN SEQ(A, B+) WITHIN 4 SLIDE 2")._query()
    task = GraphTask(by_case(query), rows_at(list(range(10)), "ABBABBBABB"))

    def answer() -> list[Any]:
        return sorted(task.part(task.plan(), "vertices", 2**20, 2**20), key=repr)

    whole, cut = answer(), recorded(monkeypatch)
    assert answer() == whole
    assert cut


def trends_with_matches(**texts: Sequence[str]) -> list[Any]:
    """The trends of ``SEQ(A, NOT N, B)`` over eight events, each with the matches of NOT, which show their time."""
    machine = Machine((0, 1), ((0, ()),), ((1, ()),), (Edge(0, 1, guards=(0,)),))
    negation = Negation(Machine((2,), ((0, ()),), ((0, ()),), ()), deferred=True)
    plain = RowLayout.of(0, "t", "bigint")
    event = (OfTime(), *map(InColumn, texts))
    layout = attrs.evolve(plain, columns=(*plain.columns, *texts), event=event)
    kernel = KernelSpec(KernelQuery(machine, (negation,)), layout)
    spec = TrendsSpec(kernel, (), ("A", "B", "N"), ("t", *texts), -1, ((0, (0,)),))
    events = [pa.array(range(8)), pa.array([1, 4, 1, 4, 2, 4, 2, 2]), *map(pa.array, texts.values())]
    batch = pa.record_batch(events, names=list(layout.columns))
    return [[value.as_py() for value in row] for row in rows_of(trend_stream(spec, iter([batch])))]


def test_matches_of_a_deferred_not_come_by_small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each trend comes with the matches of NOT in its gap, which Spark is to judge."""
    whole, cut = trends_with_matches(), recorded(monkeypatch)
    assert trends_with_matches() == whole
    assert [len(matches) for matches, _ in whole] == [2, 3, 3, 1, 2, 2]
    assert cut


def test_matches_go_by_what_they_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """One long text of an event, which no match shows, does not put each trend into a batch of its own."""
    lots = list[slice]()
    monkeypatch.setattr(trends, "lots", lambda *sizes: [lots.append(lot) or lot for lot in side_by_side.lots(*sizes)])
    monkeypatch.setattr(portions, "PORTION", 1_000)
    assert len(trends_with_matches(e0=["x" * 10_000, *["x"] * 7])) == 6
    assert len(lots) == 1


def test_partial_trends_are_joined_by_small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    offsets, bindings = np.array([0, 2, 3, 6]), pa.array([10, 11, 20, 30, 31, 32])
    block = Block(
        np.array([0, 2, 3, 5]), np.array([0, 2, 1, 1, 2]), np.zeros(5, dtype=np.int16), np.zeros(3, dtype=np.int64)
    )
    wanted = [[10, 11, 30, 31, 32], [20], [20, 30, 31, 32]]
    sizes = RowSizes([bindings])
    assert [part.to_pylist() for part in joined_bindings(block, offsets, bindings, sizes)] == [wanted]
    recorded(monkeypatch)
    assert [part.to_pylist() for part in joined_bindings(block, offsets, bindings, sizes)] == [[one] for one in wanted]


def recorded(monkeypatch: pytest.MonkeyPatch) -> list[slice]:
    """Makes portions small; the list gets those that answers are cut into from now on."""
    cut: list[slice] = []

    def lots(sizes: Any, most: int) -> Iterator[slice]:
        for lot in side_by_side.lots(sizes, most):
            cut.append(lot)
            yield lot

    monkeypatch.setattr(portions, "PORTION", 24)
    for module in (portions, trends):
        monkeypatch.setattr(module, "lots", lots)
    return cut
