"""A small part on a local cluster, where executors are processes of their own and share nothing with the driver."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import functions as F

import cetdsl as cet
from cetdsl.session import readable

pytestmark = pytest.mark.cluster

A, B = cet.events("A", "B")


@pytest.fixture(scope="module")
def events(spark: Any) -> Any:
    """Four groups of a1 a2 b3 b4 b5, each in two partitions."""
    rows = [(g, p, t, kind, t) for g in range(4) for p in range(2) for t, kind in enumerate("AABBB")]
    return spark.createDataFrame(rows, "g int, p int, t int, type string, x int").repartition(4)


def test_count_with_the_fold(events: Any) -> None:
    asked = events.filter("p = 0").pattern(cet.seq(A, +B).group_by("g"), time="t")
    assert "fold" in str(asked.explain("physical"))
    assert sorted(map(tuple, asked.count_trends().collect())) == [(g, 14) for g in range(4)]


def test_count_with_the_kernel(events: Any) -> None:
    query = cet.seq(A, +B).where(B.x < cet.next_(B).x).group_by("g").within(5, slide=1)
    asked = events.filter("p = 0").pattern(query, time="t")
    assert "kernel" in str(asked.explain("physical"))
    counts = {(row.g, row.window.start): int(row["count"]) for row in asked.count_trends().collect()}
    # Windows from -4 to 4; in each of them the trends of a1 a2 b3 b4 b5 that it holds.
    expected = {-2: 2, -1: 6, 0: 14, 1: 7}
    assert counts == {(g, start): n for g in range(4) for start, n in expected.items()}


def test_aggregate_merges_partitions(events: Any) -> None:
    asked = events.pattern(cet.seq(A, +B).partition_by("p").group_by("g"), time="t")
    answer = asked.aggregate(n=cet.count(), s=cet.sum(B.x), a=cet.avg(B.x), m=cet.max(cet.length()), number="string")
    # Each of the three b's is in 4 of the 7 sets that may follow each a.
    expected = ("28", str(2 * 2 * 4 * (2 + 3 + 4)), 3.0, 4)
    assert sorted(map(tuple, answer.collect())) == [(g, *expected) for g in range(4)]


def test_trends(events: Any) -> None:
    asked = events.pattern(cet.seq(A, +B).partition_by("p").group_by("g").within(3), time="t")
    rows = asked.trends(columns=["t"]).collect()
    found = sorted((row.g, row.p, tuple(b.event.t for b in row.trend)) for row in rows)
    one = [(0, 2), (0, 2, 3), (0, 3), (1, 2), (1, 2, 3), (1, 2, 3, 4), (1, 2, 4), (1, 3), (1, 3, 4), (1, 4)]
    assert found == [(g, p, trend) for g in range(4) for p in range(2) for trend in one]
    assert len(asked.trends(limit=3).collect()) == 3


def test_errors_of_workers_reach_the_user(events: Any) -> None:
    untimed = events.withColumn("t", F.when(F.col("x") > 0, F.col("t")))
    asked = untimed.pattern(cet.seq(A, +B).partition_by("p"), time="t")
    with pytest.raises(Exception, match=r"cetdsl\.errors\.NullTime") as failure:
        asked.count_trends().collect()
    assert "is NULL in 8 rows" in readable(failure.value)
