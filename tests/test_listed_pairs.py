"""Pairwise predicates that do not split into a side for each event, which Spark tests pair by pair beforehand."""

from __future__ import annotations

import functools
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import reference
from pyspark.sql import functions as F
from test_correlated import KEYS, WINDOWS, Judge, check_sums, text_of
from test_correlated import judge as judge
from test_streaming import DELAY, SCHEMA, Live, stream_of_streams

import cetdsl as cet
from cetdsl.pattern.expressions import Aggregate

pytestmark = pytest.mark.simple_plans

#: Each has a variable that every trend binds once, and that all predicates about several variables mention.
AROUND = (
    ("SEQ(A a, B+ b)", "a.x * b.x >= 2"),
    ("SEQ(B+ b, A a)", "a.x > b.x OR a.s = b.s"),
    ("SEQ(B+ b, A a, C+ c)", "b.x IN (a.x, a.s, 1) AND a.x * c.x < 4"),
    ("SEQ(A a, NOT C, B+ b)", "(a.x < b.x OR LENGTH(a.name) = LENGTH(b.name)) AND b.x != NEXT(b).x"),
    ("SEQ(A a, (SEQ(B b, C c))+)", "a.x * b.x != 2 AND a.x <= c.x"),
    ("SEQ(B? b, C* c, A a)", "a.x - b.x IN (0, 1) AND a.y * c.y > b.x"),
    ("SEQ(A a, B+ b, NOT C)", "ABS(a.x * b.x) < 3 AND b.x + NEXT(b).x > 0"),
    ("SEQ(EVENT(a, type = 'A' AND x > 0), EVENT(b, x < 2)+)", "b.x / a.x < 1"),
)
#: Those without a predicate of three variables, whose trends need no listing.
COUNTED = (*AROUND[:5], *AROUND[6:])


def asked_in(window: str) -> list[str]:
    """Every query, every other one with a key."""
    turn = WINDOWS.index(window)
    return [text_of(*query, KEYS[(number + turn) % 2], window) for number, query in enumerate(AROUND)]


@pytest.mark.classic
@pytest.mark.parametrize("window", WINDOWS)
def test_trends_against_the_reference(judge: Judge, window: str) -> None:
    judge.judge(asked_in(window))


@pytest.mark.classic
@pytest.mark.parametrize("window", [WINDOWS[0], WINDOWS[2]])
def test_so_many_trends_are_some_of_all(judge: Judge, window: str) -> None:
    for text in asked_in(window)[:4]:
        found = Counter()
        for row in judge.df.pattern(text, time="t").trends(limit=40, columns=["id"]).collect():
            trend = tuple((binding.event.id, binding.variable) for binding in row.trend)
            found[row.case, row.window.start if window else None, trend] += 1
        expected = judge.expected(text)
        assert found.total() == min(40, expected.total()) > 0, text
        assert found <= expected, text


@pytest.mark.classic
def test_a_limit_of_trends_of_any_length_enters_no_dead_ends(spark: Any) -> None:
    """No set of 30 events makes a trend; where trends are short, a few are found without all pairs."""
    rows = [(t, "AB"[t % 2], t) for t in range(60)]
    df = spark.createDataFrame(rows, "t int, type string, x int")
    asked = df.pattern("PATTERN SEQ(A+ a, B b) WHERE a.x * b.x < 0", time="t")
    assert asked.trends(limit=5).collect() == []
    short = df.pattern("PATTERN SEQ(A a, B b, A) WHERE a.x * b.x > 0", time="t")
    assert len(short.trends(limit=5).collect()) == 5


@pytest.mark.classic
@pytest.mark.parametrize("window", [WINDOWS[0], WINDOWS[2]])
def test_the_kernel_carries_counts_along(judge: Judge, window: str) -> None:
    start, parts, asked = F.col("window.start") if window else F.lit(None).cast("int"), [], {}
    for number, query in enumerate(COUNTED):
        asked[f"q{number}"] = text_of(*query, "", window)
        bound = judge.df.pattern(asked[f"q{number}"], time="t")
        told = str(bound.explain("physical"))
        assert re.search("strategy +kernel: ", told), query
        assert "[LIST] (fixed: the event bound to a)" in told, query
        answer = bound.aggregate(n=cet.count(), sum=cet.sum(cet.event("a").id))
        parts.append(answer.select(F.lit(f"q{number}"), "case", start, "n", "sum"))
    check_sums(judge, asked, functools.reduce(lambda a, b: a.union(b), parts).collect())


def test_a_workload_has_lists_of_each_query(judge: Judge) -> None:
    """Beside queries without lists, and with lists of neighbours, whose columns have other numbers."""
    window = WINDOWS[2]
    asked = {f"q{number}": text_of(*query, "", window) for number, query in enumerate(COUNTED)}
    asked["plain"] = text_of("SEQ(A a, B+ b)", "b.y < NEXT(b).y", "", window)
    asked["neighbours"] = text_of("SEQ(A a, B+ b)", "b.x * NEXT(b).x > 0", "", window)
    queries = {name: f"RETURN COUNT(*) AS n, SUM(a.id) AS sum {text}" for name, text in asked.items()}
    answer = judge.df.patterns(dict(reversed(queries.items())), time="t").aggregate()
    check_sums(judge, asked, answer.selectExpr("query", "group.case", "window.start", "n", "sum").collect())


@pytest.mark.classic
@pytest.mark.parametrize("completeness", ["maximal", "ends"])
def test_complete_trends_are_paths_of_a_graph_for_each_event(judge: Judge, completeness: str) -> None:
    listed, counted, texts = [], [], asked_in(WINDOWS[3])[:5:2] + asked_in(WINDOWS[0])[1:5]
    for number, text in enumerate(texts):
        bound = judge.df.pattern(text, time="t")
        assert re.search("graphs +one per event bound to a", bound.explain("complete").text), text
        trends = bound.complete_trends(completeness, columns=["id"])
        start = F.col("window.start") if "SLIDE" in text else F.lit(None).cast("int")
        listed.append(trends.select(F.lit(number), "case", start, "trend"))
        counts = bound.count_complete_trends(completeness)
        counted.append(counts.select(F.lit(number), "case", start, F.col("count").cast("int")))
    found: Counter[Any] = Counter()
    for number, case, start, trend in functools.reduce(lambda a, b: a.union(b), listed).collect():
        found[number, case, start, tuple((binding.event.id, binding.variable) for binding in trend)] += 1
    expected: Counter[Any] = Counter()
    for number, text in enumerate(texts):
        query = cet.parse(text)._query()
        for (group, window, _), trends in reference.complete_trends(query, judge.rows, completeness).items():
            expected.update((number, *group, window and window[0], tuple(trend)) for trend in trends)
    assert found == expected
    assert len({key[0] for key in expected}) >= len(texts) - 2
    counts = {row[:3]: row[3] for row in functools.reduce(lambda a, b: a.union(b), counted).collect()}
    assert Counter(key[:3] for key in expected.elements()) == counts


@pytest.mark.classic
def test_a_stream_has_lists_in_each_of_its_windows(spark: Any, tmp_path: Path) -> None:
    live = Live(spark, tmp_path, stream_of_streams(2280, 40, DELAY, random.Random(28)))
    over = "GROUP BY case WITHIN 6 seconds SLIDE 2 seconds"
    texts = {
        f"q{number}": f"RETURN COUNT(*) AS n PATTERN {pattern} WHERE ({predicate}) {over}"
        for number, (pattern, predicate) in enumerate((*COUNTED[:2], *COUNTED[3:5]))
    }

    def told(rows: list[Any]) -> Counter[Any]:
        return Counter((row.query, row.group.case, row.window.start, row.n) for row in rows)

    live.arrive()
    found = told(live.run(live.events.patterns(texts, time="t").aggregate()))
    stored = spark.read.schema(SCHEMA).parquet(str(tmp_path / "events"))
    assert found == told(stored.patterns(texts, time="t").aggregate().collect())
    assert {name for name, *_ in found} == set(texts)


@pytest.mark.classic
def test_what_lists_cost_is_said(spark: Any) -> None:
    df = spark.createDataFrame([], "t int, type string, x int")
    asked = df.pattern("PATTERN SEQ(B+ b, A a) WHERE a.x * b.x < 3", time="t")
    told = str(asked.explain("physical"))
    assert "Spark tests an inseparable predicate for every event of b with every later one of a" in told
    assert re.search(r"list which earlier events fit\n +a.x \* b.x < 3\n", told)
    assert re.search(r"declined +sweep: a.x \* b.x < 3 does not split into a side for each event", told)
    guarded = df.pattern("PATTERN SEQ(B+ b, A a) WHERE a.x / b.x < 3 AND a.x > b.x", time="t")
    assert re.search(
        r"list which earlier events fit\n +a.x / b.x < 3, where a.x > b.x\n", str(guarded.explain("physical"))
    )
    # Of neither variable is there one event in each trend, so trends are listed, and tested.
    told = str(df.pattern("PATTERN SEQ(B+ b, A+ a) WHERE a.x * b.x < 3", time="t").explain("physical"))
    assert re.search(r"strategy +enumerate(.|\n)*declined +kernel: a.x \* b.x < 3 does not split", told)


@pytest.mark.classic
def test_only_events_that_are_bound_are_tested(spark: Any) -> None:
    """A division by zero fails a query; those of events that its variables never bind, or in another order, do not."""
    rows = [(1, "A", 2), (2, "B", 0), (3, "C", 0), (4, "B", 8), (5, "A", 4)]
    df = spark.createDataFrame(rows, "t int, type string, x int")
    asked = df.pattern("PATTERN SEQ(A a, B+ b, A) WHERE b.x / a.x >= 0", time="t")
    assert asked.count_trends().first()["count"] == 3
    assert len(asked.trends().collect()) == 3


@pytest.mark.classic
@pytest.mark.parametrize("window", ["", "WITHIN 5 SLIDE 5", "WITHIN 4"])
def test_events_that_other_predicates_exclude_are_not_tested(spark: Any, window: str) -> None:
    rows = [(1, "A", 2), (1, "B", 7), (2, "B", 2), (3, "B", 4), (4, "B", 8), (9, "B", 2)]
    df = spark.createDataFrame(rows, "t int, type string, x int")
    for pattern, expected in (("SEQ(A a, B+ b)", 3), ("SEQ(A a, B b)", 2)):
        for guarded in (
            "a.x != b.x AND 10 / (b.x - a.x) > 1",
            "a.x * b.x != 4 AND 10 / (b.x * a.x - 4) > 0",
            "a.x != b.x AND (b.x - a.x) / (b.t - a.t) > 0",
            "a.x < b.x AND b.x > PREV(b).x AND 10 / (b.x - a.x) > 1",
        ):
            if "PREV" not in guarded or "+" in pattern:
                asked = df.pattern(f"PATTERN {pattern} WHERE {guarded} {window}", time="t")
                counts = [asked.aggregate(n=cet.count()).first()["n"], len(asked.trends().collect())]
                assert counts == [expected, expected], guarded


@pytest.mark.classic
@pytest.mark.parametrize("ties", [(), ("s",), ("s", "id")])
def test_simultaneous_events_of_two_stretches(judge: Judge, ties: tuple[str, ...]) -> None:
    """Each event is in two groups, which put simultaneous ones in the same order, whatever order they come in."""
    for pattern, predicate in (AROUND[0], AROUND[1], AROUND[6], ("B+ b", "b.x * NEXT(b).x > 0")):
        query = cet.parse(f"PATTERN {pattern} WHERE ({predicate}) GROUP BY case WITHIN 2 SLIDE 1")
        df = judge.df.withColumn("t", F.expr("t div 2"))
        rows = [{**row, "t": int(row["t"] / 2)} for row in judge.rows]
        expected: Counter[Any] = Counter()
        for (group, window, _), trends in reference.trends(query._query(), rows, tie_break=ties).items():
            expected.update((*group, window and window[0], tuple(trend)) for trend in trends)
        found: Counter[Any] = Counter()
        for row in df.repartition(5).pattern(query, time="t", tie_break=ties).trends(columns=["id"]).collect():
            trend = tuple((binding.event.id, binding.variable) for binding in row.trend)
            found[row.case, row.window.start, trend] += 1
        assert found == expected != Counter(), (pattern, predicate)


@pytest.mark.classic
@pytest.mark.parametrize("window", ["", "WITHIN 6 SLIDE 3"])
def test_lists_under_a_policy_and_on_sides_of_and(judge: Judge, window: str) -> None:
    texts = [
        f"PATTERN SEQ(A a, B+ b) WHERE a.x * b.x >= 1 MATCHING STRICT GROUP BY case {window}",
        f"PATTERN SEQ(A a, B+ b) AND SEQ(C c, C+ d) WHERE a.x * b.x >= 2 AND c.x * d.x != 1 GROUP BY case {window}",
        f"PATTERN SEQ(A* a, B+ b, C c) AND SEQ(B+ b, C c) WHERE a.x * c.x > 2 GROUP BY case {window}",
    ]
    for text in texts:
        query = cet.parse(text)._query()
        expected = reference.aggregate(query, judge.rows, {"n": Aggregate("count")})
        answer = judge.df.pattern(text, time="t").count_trends().collect()
        found = {((row.case,), tuple(row.window) if window else None): {"n": int(row["count"])} for row in answer}
        assert found == expected != {}, text
        assert judge.df.pattern(text, time="t").explain("physical").text, text


@pytest.mark.classic
def test_queries_of_a_workload_test_pairs_in_their_own_windows(judge: Judge) -> None:
    """A pair that only the window of another query has is not tested: here it would be a division by zero."""
    rows = [(1, "A", 2), (2, "B", 3), (8, "B", 2)]
    df = judge.df.sparkSession.createDataFrame(rows, "t int, type string, x int")
    texts = {
        "short": "RETURN COUNT(*) AS n PATTERN SEQ(A a, B+ b) WHERE 10 / (b.x - a.x) > 1 WITHIN 4 SLIDE 4",
        "long": "RETURN COUNT(*) AS n PATTERN SEQ(A a, B+ b) WHERE a.x * b.x > 0 WITHIN 40 SLIDE 40",
        "other": "RETURN COUNT(*) AS n PATTERN SEQ(A, B+) WITHIN 40 SLIDE 20",
    }
    answer = df.patterns(texts, time="t").aggregate().collect()
    assert Counter((row.query, row.window.start, int(row.n)) for row in answer) == Counter(
        [("short", 0, 1), ("long", 0, 3), ("other", -20, 3), ("other", 0, 3)]
    )


@pytest.mark.classic
def test_a_long_key_is_compared_by_stretches_of_its_windows(spark: Any) -> None:
    """Of 30,000 events Spark would compare 450 million pairs; of those within a window there are few."""
    df = spark.range(-500, 29_500).selectExpr("id AS t", "'A' AS type", "pmod(id, 7) * 1.0D AS x")
    asked = df.pattern("PATTERN SEQ(A a, A b) WHERE a.x * b.x > 20 WITHIN 10 SLIDE 4", time="t")
    found = {row.window.start: int(row["count"]) for row in asked.count_trends().collect()}

    def expected(start: int) -> int:
        x = [time % 7 for time in range(max(start, -500), min(start + 10, 29_500))]
        return sum(one * other > 20 for place, one in enumerate(x) for other in x[place + 1 :])

    assert found == {start: expected(start) for start in range(-508, 29_500, 4) if expected(start)}
    # Without stretches of time this would take minutes.
    assert "stretch" in asked.count_trends()._jdf.queryExecution().toString()
