"""Predicates that relate a negated event to the trend, of any shape, against the reference."""

from __future__ import annotations

import datetime
import functools
import re
from collections import Counter
from typing import Any

import generators
import numpy as np
import pytest
import reference
from modes import more_on_classic
from pyspark.sql import functions as F

import cetdsl as cet
from cetdsl.analysis import Binding, Field, Schema, analyse
from cetdsl.errors import GroupTooLarge
from cetdsl.ir.kernel import KernelQuery, KernelSpec
from cetdsl.ir.layout import RowLayout
from cetdsl.ir.machine import Edge, Machine, Negation
from cetdsl.kernels.enumerate import deferred
from cetdsl.kernels.enumerate.batches import take_trends, trends_between
from cetdsl.kernels.enumerate.enumerator import Enumerator
from cetdsl.kernels.vocabulary import Events
from cetdsl.kernels.wire.windows import NEVER, cut_slices
from cetdsl.planning.compile import compile_query
from cetdsl.rewrite import rewrite

pytestmark = pytest.mark.simple_plans

STREAMS = 60
SCHEMA = generators.STACKED + ", day date"
#: Predicates on ``n`` in ``SEQ(A a, NOT C n, B b)``.
SHAPES = (
    "n.x + a.x > 2",
    "n.x * a.x > 2",
    "n.x > a.x + b.x",
    "n.x = a.x OR n.s = b.s",
    "DATEDIFF(n.day, a.day) < 1",
    "n.x - a.x BETWEEN -1 AND 2",
    "n.y + a.y < b.y",
    "NOT (n.x > a.x AND n.name = b.name)",
    "n.x + a.x > 2 AND n.x < b.x",
    "2 * n.x - a.x >= b.x - 1",
    # Of columns that rise with time.
    "n.t <= a.t + 2",
    "n.t > b.t - 3 AND n.t < b.t - 1",
    "n.t = a.t + 1 AND n.x >= a.x",
    "n.t != a.t + 1 AND n.t >= a.t + 1",
)
#: Other places of NOT, and larger patterns in it, each with predicates.
PLACES = (
    ("SEQ(NOT C n, A a, B b)", "n.x + b.x > 2"),
    ("SEQ(A a, B b, NOT C n)", "n.x * a.x < b.x"),
    ("SEQ(A a, SEQ(B, NOT C n, B)+)", "n.x - a.x IN (0, 1)"),
    ("SEQ(A a, NOT C n, B+, NOT D m, A b)", "n.x + a.x > b.x AND m.x * a.x < 4"),
    ("SEQ(A a, NOT SEQ(C n, A m), B b)", "n.x + m.x > a.x AND m.x > b.x"),
    ("SEQ(A a, NOT SEQ(C n, B m), B b)", "n.x < m.x AND n.x <= a.x"),
    ("SEQ(A a, NOT SEQ(C n, B m), B b)", "n.x + m.x > 2"),
    ("SEQ(A a, NOT C+ n, B b)", "n.x + a.x > 1"),
    ("SEQ(A a, NOT SEQ(C n, C+ m), B b)", "n.x < NEXT(m).x AND m.x * a.x > n.x"),
    ("SEQ(A a, NOT (C n AND B m), B b)", "n.x < a.x AND m.x > a.x"),
    ("SEQ(A a, NOT (C n AND B m), B b)", "n.x < m.x"),
    ("SEQ(A a, NOT (C n AND B m), B b)", "n.x + m.x > a.x"),
    ("SEQ(A a, NOT (C n OR D m), B b)", "n.x < a.x AND m.x + a.x > 3"),
)
#: NOTs that look from a neighbour of their gap no further than a length, beside predicates on other neighbours.
SIGHTED = (
    ("SEQ(A a, NOT C n, B b)", "n.t <= a.t + 2 AND a.x <= b.x"),
    ("SEQ(B b, A a, NOT C n)", "n.t < a.t + 3 AND a.x >= b.x"),
    ("SEQ(B+ b, A a, NOT C n)", "n.t <= a.t + 2 AND b.x <= NEXT(b).x"),
    ("SEQ(NOT C n, A a, B+ b)", "n.t >= a.t - 2 AND b.x <= NEXT(b).x"),
    ("SEQ(B? b, NOT C n, A a, D? d)", "n.t + 1 > a.t - 2 AND b.x <= NEXT(a).x"),
    ("SEQ(A a, NOT (C n OR D m), B+ b)", "n.t <= a.t + 2 AND m.t <= a.t + 2 AND b.x <= NEXT(b).x"),
    ("SEQ(A a, NOT C n, B b, NOT D m)", "n.t <= a.t + 1 AND m.t <= b.t + 2 AND b.x > a.x"),
    ("SEQ(D? d, A a, NOT C n, B b, A c)", "n.t <= a.t + 2 AND b.x < NEXT(c).x"),
)
WINDOWS = ("", "WITHIN 4", "WITHIN 6 SLIDE 2", "WITHIN 5 SLIDE 5")
KEYS = ("", "[k]")


def text_of(pattern: str, predicate: str, keys: str = "", window: str = "") -> str:
    where = " AND ".join(part for part in (f"({predicate})", keys) if part)
    return f"PATTERN {pattern} WHERE {where} GROUP BY case {window}"


ALL = [("SEQ(A a, NOT C n, B b)", shape) for shape in SHAPES] + list(PLACES)


class Judge:
    """Streams in one DataFrame."""

    def __init__(self, spark: Any) -> None:
        rows = generators.stacked(40_000, STREAMS)
        start = datetime.date(2024, 1, 1)
        self.rows = [{**row, "day": start + datetime.timedelta(days=row["x"] or 0)} for row in rows]
        self.df = generators.frame(spark, self.rows, SCHEMA).cache()

    @functools.cache  # noqa: B019 - one judge judges all tests of this file
    def expected(self, text: str) -> Counter[Any]:
        query = cet.parse(text)._query()
        found: Counter[Any] = Counter()
        for (group, window, _), trends in reference.trends(query, self.rows).items():
            found.update((*group, window and window[0], tuple(trend)) for trend in trends)
        return found

    def judge(self, texts: list[str]) -> None:
        """Compares the trends of many queries with the reference, and their counts, in one job each."""
        listed, counted = [], []
        for number, text in enumerate(texts):
            query = self.df.pattern(text, time="t")
            window = F.col("window.start") if "SLIDE" in text else F.lit(None).cast("int")
            trends = query.trends(columns=["id"])
            listed.append(trends.select(F.lit(number), "case", window, "trend"))
            if number % 4 == 0:
                counted.append(query.count_trends().select(F.lit(number), "case", window, "count"))
        found: list[Counter[Any]] = [Counter() for _ in texts]
        for number, case, start, trend in functools.reduce(lambda a, b: a.union(b), listed).collect():
            found[number][case, start, tuple((binding.event.id, binding.variable) for binding in trend)] += 1
        counts = {row[:3]: row[3] for row in functools.reduce(lambda a, b: a.union(b), counted).collect()}
        for number, text in enumerate(texts):
            expected = self.expected(text)
            assert found[number] == expected, text
            if number % 4 == 0:
                sizes = Counter((number, *place) for *place, _ in expected.elements())
                assert sizes == {place: count for place, count in counts.items() if place[0] == number}, text


@pytest.fixture(scope="module")
def judge(spark: Any) -> Judge:
    return Judge(spark)


@pytest.mark.classic
@pytest.mark.parametrize("window", WINDOWS)
def test_predicates_of_not_against_the_reference(judge: Judge, window: str) -> None:
    """Every other query is asked in each window, and has a key in every other one that it is asked in."""
    turn = WINDOWS.index(window)
    asked = ALL[turn % 2 :: 2]
    judge.judge([text_of(*query, KEYS[(number + turn // 2) % 2], window) for number, query in enumerate(asked)])


def check_sums(judge: Judge, texts: dict[str, str], rows: list[Any]) -> None:
    """The numbers of trends of queries by name, and the sums of a column over their events, are the reference's."""
    found: dict[str, dict[Any, Any]] = {name: {} for name in texts}
    for name, case, begin, count, total in rows:
        found[name][case, begin] = int(count), int(total)
    for name, text in texts.items():
        expected: dict[Any, Any] = {}
        for (case, begin, trend), times in judge.expected(text).items():
            count, total = expected.get((case, begin), (0, 0))
            total += times * sum(event for event, variable in trend if variable == "a")
            expected[case, begin] = count + times, total
        assert found[name] == expected != {}, text


@pytest.mark.parametrize("window", more_on_classic(WINDOWS[1], WINDOWS[0], *WINDOWS[2:]))
def test_nots_that_look_no_further_are_counted_without_listing(judge: Judge, window: str) -> None:
    """The kernel carries the numbers of trends along, and the sums over their events."""
    turn, parts, asked = WINDOWS.index(window), [], {}
    start = F.col("window.start") if "SLIDE" in window else F.lit(None).cast("int")
    for number, query in list(enumerate(SIGHTED))[turn % 2 :: 2]:
        asked[f"q{number}"] = text_of(*query, KEYS[turn // 2], window)
        bound = judge.df.pattern(asked[f"q{number}"], time="t")
        assert re.search("strategy +kernel: ", str(bound.explain("physical"))), query
        answer = bound.aggregate(n=cet.count(), sum=cet.sum(cet.event("a").id))
        parts.append(answer.select(F.lit(f"q{number}"), "case", start, "n", "sum"))
    check_sums(judge, asked, functools.reduce(lambda a, b: a.union(b), parts).collect())


@pytest.mark.parametrize("window", more_on_classic(WINDOWS[2], WINDOWS[0], WINDOWS[1]))
def test_a_workload_counts_nots_that_look_no_further(judge: Judge, window: str) -> None:
    """Beside queries without NOT, and with one that sees all of its gap, whose columns have other numbers."""
    asked = {f"q{number}": text_of(*query, "", window) for number, query in enumerate(SIGHTED)}
    asked["plain"] = text_of("SEQ(A a, B+ b)", "b.y < NEXT(b).y", "", window)
    asked["all"] = text_of("SEQ(A a, NOT D n, B+ b)", "b.x <= NEXT(b).x", "", window)
    queries = {name: f"RETURN COUNT(*) AS n, SUM(a.id) AS sum {text}" for name, text in asked.items()}
    start = "window.start" if "SLIDE" in window else "CAST(NULL AS int)"
    answer = judge.df.patterns(dict(reversed(queries.items())), time="t").aggregate()
    check_sums(judge, asked, answer.selectExpr("query", "group.case", start, "n", "sum").collect())


def test_explain_says_how_far_a_not_looks(judge: Judge) -> None:
    asked = judge.df.pattern(text_of(*SIGHTED[2]), time="t")
    assert "a match with n.t <= (a.t + 2), of which the nearest tells, ahead" in str(asked.explain("physical"))


@pytest.mark.classic
@pytest.mark.parametrize(("length", "is_sight"), [("'23' HOUR", True), ("'1' DAY", False)])
def test_days_of_a_time_zone_keep_no_order(spark: Any, length: str, is_sight: bool) -> None:
    """Where clocks go forward, 02:30 a day later is 03:30, and 03:00 is 03:00: the nearest event tells nothing."""
    df = spark.createDataFrame([], "ts timestamp, type string, x int")
    text = f"PATTERN SEQ(A a, NOT C n, B b) WHERE n.ts + INTERVAL {length} > b.ts AND a.x <= b.x"
    assert ("of which the nearest tells" in str(df.pattern(text, time="ts").explain("physical"))) == is_sight


def test_a_few_predicates_of_not(judge: Judge) -> None:
    judge.judge([text_of(*query, window=WINDOWS[2]) for query in (ALL[1], ALL[3], PLACES[9], ALL[4])])


@pytest.mark.classic
def test_what_not_forbids_is_not_idle(judge: Judge) -> None:
    """The streams tell each query from the one without predicates."""
    for pattern, predicate in ALL:
        with_all = judge.expected(text_of(pattern, predicate))
        forbidding = judge.expected(text_of(pattern, "TRUE"))
        assert with_all != forbidding, (pattern, predicate)


@pytest.mark.classic
def test_complete_trends_with_predicates_of_not(judge: Judge) -> None:
    for pattern, predicate in (ALL[0], ALL[2], ALL[12]):
        text = text_of(pattern, predicate)
        query = cet.parse(text)._query()
        expected = Counter(
            (*group, tuple(trend))
            for (group, _, _), trends in reference.complete_trends(query, judge.rows).items()
            for trend in trends
        )
        answer = judge.df.pattern(text, time="t").complete_trends(columns=["id"])
        rows = [(row["case"], tuple((b.event.id, b.variable) for b in row.trend)) for row in answer.collect()]
        assert Counter(rows) == expected, text


@pytest.mark.classic
def test_both_sides_of_and_have_nots(judge: Judge) -> None:
    text = text_of("SEQ(A a, NOT C n, B b) AND SEQ(B c, NOT C m, A d)", "n.x + a.x > 2 AND m.x * c.x < 3")
    query = cet.parse(text)._query()
    expected = {group: len(trends) for (group, _, _), trends in reference.trends(query, judge.rows).items()}
    found = judge.df.pattern(text, time="t").trends(columns=["id"]).groupBy("case").count().collect()
    assert {(row["case"],): row["count"] for row in found} == expected


def test_limits_count_what_is_left(judge: Judge) -> None:
    text = text_of("SEQ(A a, NOT C n, B b)", "n.x * a.x > 2")
    answer = judge.df.pattern(text, time="t").trends(limit=3, columns=["id"]).collect()
    assert len(answer) == 3
    listed = {(row["case"], None, tuple((b.event.id, b.variable) for b in row.trend)) for row in answer}
    assert listed <= set(judge.expected(text))


def test_explain_says_how_predicates_of_not_are_tested(judge: Judge) -> None:
    shown = str(judge.df.pattern(text_of("SEQ(A a, NOT C n, B b)", "n.x * a.x > 2"), time="t").explain("physical"))
    assert "kernel: a NOT depends on which events the trend binds" in shown
    assert "no match of" in shown
    assert "n.x * a.x > 2" in shown


@pytest.mark.classic
def test_sums_of_large_numbers_do_not_overflow(spark: Any) -> None:
    """They are compared as decimals; in Spark's own bigint they would fail or wrap."""
    rows = [(1, "A", 2**63 - 1), (2, "N", 2**63 - 1), (3, "B", 0), (4, "A", -(2**63)), (5, "N", -1), (6, "B", 0)]
    df = spark.createDataFrame(rows, "t bigint, type string, x bigint")
    answer = df.pattern("PATTERN SEQ(A, NOT N, B) WHERE N.x + A.x > 2", time="t").trends(columns=["t"])
    found = sorted(tuple(binding.event.t for binding in row.trend) for row in answer.collect())
    assert found == [(4, 6)]


def test_trends_of_a_block_are_taken_by_number_or_by_place() -> None:
    block = deferred.Block(
        np.array([0, 2, 4, 5]), np.arange(5), np.zeros(5, dtype=np.int16), np.zeros(3, dtype=np.int64)
    )
    for part in (take_trends(block, np.arange(1, 3)), trends_between(block, slice(1, 3))):
        assert [column.tolist() for column in part] == [[0, 2, 3], [2, 3, 4], [0] * 3, [0] * 2]


def test_too_many_matches_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The matches of NOT, all of which a predicate may have to see, are kept while trends are listed."""
    machine = Machine((0, 1), ((0, ()),), ((1, ()),), (Edge(0, 1, guards=(0,)),))
    negated = Machine((2,), ((0, ()),), ((0, ()),), (Edge(0, 0),))
    query = KernelQuery(machine, (Negation(negated, deferred=True),))
    spec = KernelSpec(query, RowLayout.of(0, "t", "bigint"))
    time, none = np.arange(8), np.zeros(0, dtype=np.int64)
    codes = np.zeros((0, 8), dtype=np.int64)
    lists = np.zeros((0, 9), dtype=np.int64)
    mask = np.array([1, 4, 4, 2, 4, 4, 4, 2])
    events = Events(np.array([0, 8]), time, time, mask, codes, codes.astype(bool), lists, none)
    slices = cut_slices(query.windowing, events.segment_start, time, np.zeros(1, dtype=np.int64), True, NEVER)
    gaps = deferred.DeferredNegation(spec, 0).match(events, slices)
    trends = next(Enumerator(spec).enumerate(events, slices, (time[:1], time[:1])))
    # The 3 matches of C+ between the first two events, and the 31 of the five up to the last one.
    assert gaps.count(trends).tolist() == [3, 31]
    monkeypatch.setattr(deferred, "MOST", 10)
    with pytest.raises(GroupTooLarge, match="matches of more than 10 events"):
        deferred.DeferredNegation(spec, 0).match(events, slices)


#: Patterns whose NOT is matched by the event before it already, so that only its neighbours in time count.
MET = (
    ("SEQ(A a, NOT EVENT(n), B b)", "a.x < b.x"),
    ("SEQ(A a, NOT A, B b)", "a.x <= b.x"),
    ("SEQ(A+ a, NOT (C OR EVENT(n)), B b)", "a.x <= NEXT(a).x"),
    ("SEQ(A, NOT (A OR C), B+ b, NOT EVENT(n), A c)", "b.x != c.x"),
    ("SEQ(EVENT(a), NOT EVENT(n), EVENT(b))+", "a.x < NEXT(b).x"),
    ("SEQ(EVENT(a, a.type = 'A' AND a.x > 0), NOT A m, B b)", "b.x > a.x"),
)


def is_met(text: str) -> list[bool]:
    query = cet.parse(text)._query()
    schema = Schema([Field("t", "int"), Field("type", "string"), Field("case", "int"), Field("x", "int")])
    compiled = compile_query(rewrite(analyse(query, schema, Binding(time="t")))[0])
    return [edge.met for edge in compiled.machine.edges if edge.guards]


@pytest.mark.parametrize("query", MET)
def test_a_not_that_the_event_before_it_meets_is_an_equality(query: tuple[str, str]) -> None:
    met = is_met(text_of(*query))
    assert met
    assert all(met)


@pytest.mark.parametrize(
    "query",
    [
        ("SEQ(A a, NOT C, B b)", "a.x < b.x"),
        ("SEQ(A a, NOT EVENT(n), B b)", "n.x < b.x"),
        ("SEQ(A a, NOT EVENT(n, n.x > 0), B b)", "a.x < b.x"),
        ("SEQ(A a, NOT SEQ(EVENT(n), EVENT(m)), B b)", "a.x < b.x"),
    ],
)
def test_other_nots_are_none(query: tuple[str, str]) -> None:
    met = is_met(text_of(*query))
    assert met
    assert not any(met)


@pytest.mark.parametrize("window", [pytest.param(WINDOWS[0], marks=pytest.mark.classic), WINDOWS[2]])
def test_nots_that_the_event_before_them_meets_against_the_reference(judge: Judge, window: str) -> None:
    judge.judge([text_of(*query, KEYS[number % 2], window) for number, query in enumerate(MET)])


@pytest.mark.classic
def test_complete_trends_between_neighbours_in_time(judge: Judge) -> None:
    for query in MET[:3]:
        text = text_of(*query)
        expected = Counter(
            (*group, tuple(trend))
            for (group, _, _), trends in reference.complete_trends(cet.parse(text)._query(), judge.rows).items()
            for trend in trends
        )
        answer = judge.df.pattern(text, time="t").complete_trends(columns=["id"])
        rows = [(row["case"], tuple((b.event.id, b.variable) for b in row.trend)) for row in answer.collect()]
        assert Counter(rows) == expected, text
