"""Complete trends of a group beyond a task: joins count them as the kernel does, and draw all equally often."""

from __future__ import annotations

import logging
import math
import random
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import functions as F

from cetdsl.errors import CountOverflow, UnsupportedQuery, recovering
from cetdsl.execution import joined_counts, room, ways
from cetdsl.ir.operators import BuildGraph
from cetdsl.planning.planner import plan_complete
from cetdsl.planning.strategies.complete import fits_joins

pytestmark = [pytest.mark.simple_plans, pytest.mark.classic]
CHAINS = "PATTERN A+ WHERE A.n = NEXT(A).n GROUP BY key"


@pytest.fixture(scope="module")
def df(spark: Any) -> Any:
    chance = random.Random(5)
    rows = [
        (key, chance.randrange(25), chance.choice("AABC"), chance.choice([1, 2, 3, 4, None]), chance.random())
        for key in ("a", None)
        for _ in range(40)
    ]
    return spark.createDataFrame(rows, "key string, t int, type string, n int, x double").cache()


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers have room for 8 events."""
    monkeypatch.setattr(room, "worker_memory", lambda _: room._WORKER_BYTES + 8 * room._EVENT_BYTES)


@pytest.mark.parametrize(
    ("query", "reading", "number"),
    [
        (CHAINS, "ends", "double"),
        (CHAINS, "maximal", "decimal"),
        ("PATTERN SEQ(A, B+) WHERE [key] AND B.x < NEXT(B).x WITHIN 12 SLIDE 9", "ends", "log2"),
        ("PATTERN EVENT(e, x > 0.5)+ WHERE e.x < NEXT(e).x", "ends", "decimal"),
    ],
)
def test_counts_are_those_of_the_kernel(
    df: Any, query: str, reading: str, number: str, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    asked = df.pattern(query, time="t")
    expected = asked.count_complete_trends(reading, number=number)
    request.getfixturevalue("limited")
    with caplog.at_level(logging.WARNING, "cetdsl.joins"):
        found = asked.count_complete_trends(reading, number=number)
    assert len(caplog.records) == 1
    assert found.dtypes == expected.dtypes
    rows = [
        {tuple(map(str, row[:-1])): row[-1] if number != "log2" else pytest.approx(row[-1]) for row in answer.collect()}
        for answer in (found, expected)
    ]
    assert rows[0] == rows[1] != {}


def test_ways_are_added_up_in_each_form(spark: Any) -> None:
    """Against Python's whole numbers; logarithms far apart and beyond all other forms, and NULL."""
    chance = random.Random(3)
    groups = {n: [chance.choice([None, 0, 1, 510, 511, 513, 1000, 1e5]) for _ in range(n)] for n in range(12)}
    rows = [(n, None if log2 is None else float(log2)) for n, logs in groups.items() for log2 in logs]
    logs = {
        row.n: row for row in ways.summed(spark.createDataFrame(rows, "n int, ways double"), ["n"], "log2").collect()
    }
    for n, row in logs.items():
        known = [2 ** int(log2) for log2 in groups[n] if log2 is not None]
        assert row.size == n
        assert row.ways == (pytest.approx(math.log2(sum(known)), rel=1e-14) if known else None)
    assert len(logs) == 11
    for number, most, hint in (("decimal", Decimal(10**38 - 1), "log2"), ("string", Decimal(10**38 - 1), "double")):
        _refuses(spark, number, most, f"38 digits.*number='{number}'(.|\n)*{hint}")
    _refuses(spark, "double", 1.7e308, "range of doubles.*number='double'(.|\n)*log2")


def _refuses(spark: Any, number: str, most: Any, message: str) -> None:
    kind = "double" if number == "double" else ways.EXACT
    rows = spark.createDataFrame([(0, most), (0, None), (1, None)], f"n int, ways {kind}")
    assert {row.n: (row.size, row.ways) for row in ways.summed(rows, ["n"], number).collect()} == {
        0: (2, most),
        1: (1, None),
    }
    with pytest.raises(CountOverflow, match=message), recovering():
        ways.summed(rows.union(rows), ["n"], number).collect()


def test_a_sample_of_too_many_trends_says_what_to_do(df: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no argument for the form of a number."""
    monkeypatch.setattr(joined_counts, "one_way", lambda _: F.lit(Decimal(10**38 - 1)).cast(ways.EXACT))
    asked = df.pattern(CHAINS, time="t")
    with pytest.raises(CountOverflow, match="beyond 38 digits") as failure, recovering():
        asked.sample_trends(3, completeness="ends", algorithm="joins")
    assert "number=" not in str(failure.value)
    assert "hint: draw from fewer events, or partition them" in str(failure.value)


def test_digits_without_a_bound_are_left_to_tasks(df: Any, limited: None, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "cetdsl.joins"):
        df.pattern(CHAINS, time="t").count_complete_trends("ends", number="string")
    assert not caplog.records


@pytest.mark.usefixtures("limited")
@pytest.mark.parametrize("policy", ["NEXT", "STRICT"])
def test_policies_are_left_to_tasks(df: Any, policy: str) -> None:
    asked = df.pattern(f"PATTERN A+ WHERE A.n = NEXT(A).n MATCHING {policy} GROUP BY key", time="t", tie_break="x")
    listed = Counter(_trend(row) for row in asked.complete_trends("ends").collect())
    assert len(listed) > 5
    assert sum(row["count"] for row in asked.count_complete_trends("ends").collect()) == listed.total()
    assert Counter(map(_trend, asked.sample_trends(10**6, completeness="ends").collect())) == listed


@pytest.mark.usefixtures("limited")
def test_a_sample_of_each_group_is_left_to_tasks(df: Any) -> None:
    asked = df.pattern(CHAINS, time="t")
    drawn = [_trend(row) for row in asked.sample_trends(3, completeness="ends", per_group=True).collect()]
    assert Counter(key for key, _ in drawn) == {"a": 3, None: 3}
    assert set(drawn) <= {_trend(row) for row in asked.complete_trends("ends", algorithm="m-cet").collect()}


@pytest.mark.usefixtures("limited")
def test_explain_says_why_joins_are_taken(df: Any) -> None:
    asked, why = df.pattern(CHAINS, time="t"), "a group of more than 8 events is beyond a worker's limit"
    assert why in asked.explain("complete", completeness="ends").text
    # Who says what a task may keep, has said that tasks take it; and who asks for joins, knows why.
    limited = asked.explain("complete", completeness="ends", memory_limit="1g").text
    assert "\nstrategy   graph: " in limited
    for told in (limited, asked.explain("complete", completeness="ends", algorithm="joins").text):
        assert why not in told


@pytest.mark.usefixtures("limited")
def test_each_trend_is_drawn_equally_often(df: Any) -> None:
    asked = df.pattern(CHAINS, time="t")
    every = Counter(_trend(row) for row in asked.complete_trends("ends", algorithm="m-cet").collect())
    assert set(every.values()) == {1}
    size, found = len(every) // 4, Counter[Any]()
    samples = [asked.sample_trends(size, seed=seed, completeness="ends").collect() for seed in (0, 1, 2, 3, 0)]
    drawn = [sorted(map(_trend, sample), key=repr) for sample in samples]
    assert drawn[0] == drawn.pop()
    for sample in drawn:
        assert len(set(sample)) == len(sample) == size
        found.update(sample)
    assert set(found) <= set(every)
    # The sum of squares is about chi-squared, of as many degrees as there are trends.
    share = size / len(every)
    spread = sum((found[trend] - 4 * share) ** 2 for trend in every) / (4 * share * (1 - share))
    assert abs(spread - len(every)) < 5 * math.sqrt(2 * len(every))


@pytest.mark.usefixtures("limited")
def test_trends_and_graphs_take_joins_too(df: Any, caplog: pytest.LogCaptureFixture) -> None:
    asked = df.pattern(CHAINS, time="t")
    with caplog.at_level(logging.WARNING, "cetdsl.joins"):
        assert asked.graph()._plan.joined
        answers = [asked.complete_trends("ends", algorithm=algorithm) for algorithm in ("auto", "m-cet")]
        df.pattern("PATTERN A+", time="t").complete_trends("maximal")  # which a kernel has to reduce
    assert len(caplog.records) == 2
    joined, listed = (Counter(_trend(row) for row in answer.collect()) for answer in answers)
    assert joined == listed


@pytest.mark.parametrize("reading", ["maximal", "ends"])
def test_joins_count_and_draw_where_they_are_asked_to(df: Any, caplog: pytest.LogCaptureFixture, reading: str) -> None:
    asked = df.pattern(CHAINS, time="t")
    with caplog.at_level(logging.INFO, "cetdsl.joins"):
        counts = asked.count_complete_trends(reading, algorithm="joins")
        drawn = asked.sample_trends(10**6, seed=1, completeness=reading, algorithm="joins")
    assert sum(record.getMessage().startswith("round 1:") for record in caplog.records) == 2
    every = Counter(_trend(row) for row in asked.complete_trends(reading).collect())
    assert Counter(map(_trend, drawn.collect())) == every
    assert {row.key: int(row["count"]) for row in counts.collect()} == Counter(trend[0] for trend in every)


@pytest.mark.parametrize(
    ("query", "completeness", "reason"),
    [
        ("PATTERN A+ WHERE A.x < NEXT(A).x", "maximal", "a longer path bypasses"),
        ("PATTERN SEQ(A, NOT B, C)", "ends", "something that NOT forbids"),
        ("PATTERN SEQ(A, B+) WHERE A.n < B.n", "ends", "events that are no neighbours"),
        ("PATTERN A{2,3}", "ends", "stands at several places"),
    ],
)
def test_what_joins_cannot_follow_is_refused(df: Any, query: str, completeness: str, reason: str) -> None:
    asked = df.pattern(query, time="t")
    with pytest.raises(UnsupportedQuery, match=f"joins.*{reason}"):
        asked.count_complete_trends(completeness, algorithm="joins")
    with pytest.raises(UnsupportedQuery, match=f"joins.*{reason}"):
        asked.sample_trends(3, completeness=completeness, algorithm="joins")
    with pytest.raises(UnsupportedQuery, match="begin and end anywhere"):
        df.pattern(CHAINS, time="t").sample_trends(3, complete=False, algorithm="joins")
    # What errors of tasks advise is what the planner would do.
    request = asked._complete(completeness)
    [spec] = {node.spec for node in plan_complete(request).plan.walk() if isinstance(node, BuildGraph)}
    assert not fits_joins(request)
    assert spec.query.why_not_joined


def _trend(row: Any) -> Any:
    return row.key, tuple((b.event.t, b.event.n, b.event.x) for b in row.trend)


@pytest.mark.parametrize(("setting", "memory"), [("1g", 2**30), ("512", 2**29), (None, None)])
def test_the_limit_is_that_of_spark(setting: str | None, memory: int | None) -> None:
    class Conf:
        def get(self, name: str, default: str | None) -> str | None:
            return setting if name == "spark.executor.pyspark.memory" else default

    class Session:
        conf = Conf()

    assert room.worker_memory(Session()) == memory  # type: ignore[arg-type]
