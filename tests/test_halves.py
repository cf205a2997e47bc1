"""Long slices, cut in two: the answers are those of the reference, wherever the cut is and whatever goes across it."""

from __future__ import annotations

import random
from typing import Any

import generators
import numpy as np
import pyarrow as pa
import pytest
from test_kernel_aggregate import NUMBERS, by_case, compare

import cetdsl as cet
from cetdsl.ir.halves import LONG_KEY
from cetdsl.kernels.aggregate import evaluate
from cetdsl.kernels.aggregate.halves import HalvedSlice

FEATURES = generators.Features(
    sliding=False, span=False, pairwise=False, inseparable=False, aggregate_predicates=False, correlated_negation=False
)

TEXTS = [
    "PATTERN B+ WHERE B.x < NEXT(B).x",
    "PATTERN B+ WHERE B.x >= NEXT(B).x",
    "PATTERN SEQ(A, B+) WHERE B.x > NEXT(B).x",
    "PATTERN SEQ(A, B+) WHERE A.x <= NEXT(B).x AND B.k = NEXT(B).k",
    "PATTERN SEQ(A, B+, C) WHERE B.k = NEXT(B).k AND B.x < NEXT(B).x AND B.y > NEXT(C).y",
    "PATTERN SEQ(A+, B+)+ WHERE A.x < NEXT(A).x AND B.g = NEXT(B).g",
    "PATTERN SEQ(A+, B) WHERE A.k = NEXT(A).k",
    "PATTERN SEQ(A, NOT C, B+) WHERE B.y <= NEXT(B).y",
    "PATTERN SEQ(A, NOT SEQ(C, C), B+)",
    "PATTERN (A OR B)+ WHERE A.x < NEXT(A).x AND B.x > NEXT(B).x AND A.y < NEXT(B).y",
    "PATTERN SEQ(A, B{2,3}) WHERE B.x = NEXT(B).x",
    "PATTERN B+ WHERE B.x < 2 * NEXT(B).x - 1",
    "PATTERN SEQ(A, B+) WHERE B.x != NEXT(B).x AND A.y != NEXT(B).y AND B.k = NEXT(B).k",
    "PATTERN SEQ(A, B+) MATCHING NEXT",
    "PATTERN B+ WHERE B.x = NEXT(B).x MATCHING NEXT",
]
RETURNING = (
    "COUNT(*), COUNT(B), SUM(B.x), AVG(B.y), STDDEV(B.x), MIN(B.x), MAX(B.y), MIN(LENGTH), MAX(LENGTH), AVG(LENGTH)"
)


@pytest.fixture(autouse=True)
def halved(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every slice is cut; how many were, as soon as values are asked for."""
    monkeypatch.setattr(evaluate, "LONG_KEY", 1)
    monkeypatch.setattr(evaluate, "has_second_core", lambda: True)
    seen: list[int] = []
    add_to = HalvedSlice.add_to

    def add_and_tell(self: HalvedSlice, *arguments: Any) -> None:
        seen.append(1)
        add_to(self, *arguments)

    monkeypatch.setattr(HalvedSlice, "add_to", add_and_tell)
    return seen


def streams(seed: int) -> list[dict[str, Any]]:
    """Streams of up to eleven events with ties of times and of values, NULLs and NaN."""
    choose = random.Random(seed)
    made = []
    for case in range(12):
        size, row = choose.randint(1, 11), {"s": 0, "name": "n", "case": case}
        for t in sorted(choose.randint(0, 12) for _ in range(size)):
            values = {
                "type": choose.choice("ABBBC"),
                "x": choose.choice([None, -3, 0, 1, 1, 2, 5]),
                "y": choose.choice([None, -1.5, 0.0, -0.0, 0.25, 2.0, float("nan")]),
                "k": choose.choice([None, "u", "v"]),
                "g": choose.choice([0, 10**9]),
            }
            made.append({"id": len(made), "t": t, **row, **values})
    return made


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("text", TEXTS)
def test_by_hand(text: str, number: str, halved: list[int]) -> None:
    query = cet.parse(f"RETURN {RETURNING} {text}")._query()
    for seed in range(3):
        assert compare(by_case(query), streams(seed), (), number, (-1,), seed)
    assert len(halved) > 30


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_generated(first: int, halved: list[int]) -> None:
    compared = 0
    for seed in range(first, first + 50):
        case = generators.random_case(80_000 + seed, FEATURES)
        rows = generators.stack([case.rows, *(generators.random_stream(90_000 + 4 * seed + n) for n in range(4))])
        compared += compare(by_case(case.query), rows, case.tie_break, NUMBERS[seed % 4], (-1,), seed)
    assert compared > 30
    assert len(halved) > 100


@pytest.mark.classic
def test_a_long_key(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many events as it takes, among others of a short key; the numbers are found by adding up values one by one."""
    monkeypatch.undo()
    size, generator = LONG_KEY + 1_000, np.random.default_rng(7)
    kinds, x = generator.integers(0, 3, size), generator.integers(0, 9, size)
    before = np.cumsum([(kinds == 0) & (x == value) for value in range(9)], axis=1)
    expected = sum(int(before[:value, (kinds > 0) & (x == value)].sum()) for value in range(9))
    table = pa.table(
        {
            "t": np.arange(size),
            "k": np.zeros(size, np.int32),
            "type": pa.array(list("ABB")).take(pa.array(kinds)),
            "x": x,
        }
    )
    few = pa.table({"t": [1, 2], "k": pa.array([1, 1], pa.int32()), "type": ["A", "B"], "x": [0, 1]})
    df = spark.createDataFrame(pa.concat_tables([table, few]))
    pattern = cet.pattern(df, "PATTERN SEQ(A, B) WHERE A.x < B.x GROUP BY k", time="t")
    assert {row.k: int(row["count"]) for row in pattern.count_trends().collect()} == {0: expected, 1: 1}
    assert f"from {LONG_KEY:,} events of a key on by two threads" in str(pattern.explain())


def test_one_core_cuts_nothing(monkeypatch: pytest.MonkeyPatch, halved: list[int]) -> None:
    monkeypatch.setattr(evaluate, "has_second_core", lambda: False)
    assert compare(by_case(cet.parse(TEXTS[0])._query()), streams(0), (), "double", (-1,), 0)
    assert not halved
