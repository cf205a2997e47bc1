"""Matching policies: which events a trend may skip, judged by the reference enumerator."""

from __future__ import annotations

from typing import Any

import attrs
import generators
import pytest
import reference
from hypothesis import HealthCheck, Phase, event, given, settings
from modes import more_on_classic
from test_engines import Judge, agrees, by_case

import cetdsl as cet
from cetdsl.errors import InvalidNode, ParseError, StreamingNotSupported, UnsupportedQuery
from cetdsl.pattern.query import POLICIES
from cetdsl.pattern.text import unparse

pytestmark = pytest.mark.simple_plans

STREAMS = 60
A, B = cet.events("A", "B")
#: Predicates that relate events which may be no neighbours do not tell what may be bound next.
NEXT = generators.Features().without("pairwise", "top_conjunction")
STRICT = generators.Features().without("top_conjunction")


@pytest.fixture(scope="module")
def judge(spark: Any) -> Judge:
    rows = generators.stacked(7_000, STREAMS)
    return Judge(rows, generators.frame(spark, rows).cache())


def judge_policy(judge: Judge, case: generators.Case, policy: str) -> bool:
    """Compares aggregates, trends and complete trends with the reference; False where the query is refused."""
    query = by_case(attrs.evolve(case.query, matching=policy))
    bound_by = {"time": "t", "tie_break": case.tie_break}
    try:
        bound = cet.pattern(judge.df, query, **bound_by)
        answer = bound.aggregate()
    except UnsupportedQuery:
        return False
    aggregates = {item.output_name: item.aggregate for item in query.returning}
    expected = reference.aggregate(query, judge.rows, aggregates, tie_break=case.tie_break)
    found = {}
    for row in answer.collect():
        values = row.asDict()
        window = values.pop("window", None)
        found[tuple(reference._key(values.pop(c)) for c in query.group_by), tuple(window) if window else None] = values
    context = f"ties={case.tie_break}\n{unparse(query)}"
    assert set(found) == set(expected), f"{context}\ngroups differ: {set(found) ^ set(expected)}"
    for key, values in expected.items():
        for column, value in values.items():
            assert agrees(found[key][column], value, "decimal", aggregates[column]), (context, key, column, value)
    assert judge.judge_trends(attrs.evolve(case.query, matching=policy), case.tie_break)
    return True


FAST = settings(
    max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.explicit, Phase.generate)
)


@pytest.mark.classic
@FAST
@given(case=generators.cases(NEXT))
def test_next_skips_only_what_could_not_be_bound(judge: Judge, case: generators.Case) -> None:
    event(f"answered: {judge_policy(judge, case, 'next')}")


@pytest.mark.classic
@pytest.mark.parametrize(
    "text",
    [
        "PATTERN SEQ(A OR B, C) WHERE A.x <= C.x",
        "PATTERN SEQ(A, B+ OR C) WHERE A.x < C.x AND A.x = B.x AND B.x = NEXT(B).x",
        "PATTERN SEQ(A, NOT D, B, C?) WHERE A.x < B.x AND B.x > C.x WITHIN 6",
    ],
)
def test_next_takes_predicates_that_come_to_comparing_neighbours(judge: Judge, text: str) -> None:
    query = attrs.evolve(cet.parse(text)._query(), matching="next")
    assert judge.judge_trends(query, ())


@pytest.mark.classic
@FAST
@given(case=generators.cases(STRICT))
def test_strict_skips_nothing(judge: Judge, case: generators.Case) -> None:
    event(f"answered: {judge_policy(judge, case, 'strict')}")


DATA = "t int, type string, x int, case int"
EVENTS = [(1, "A", 0), (2, "B", 4), (3, "B", 2), (4, "C", 0), (5, "B", 7), (6, "A", 1), (6, "B", 9), (7, "B", 1)]


@pytest.fixture(scope="module")
def events(spark: Any) -> Any:
    return spark.createDataFrame([(*row, 0) for row in EVENTS], DATA).cache()


def listed(answer: Any) -> set[str]:
    return {" ".join(f"{b.variable}{b.event.t}" for b in row.trend) for row in answer.collect()}


def test_each_policy_has_the_trends_of_a_stricter_one(events: Any) -> None:
    query = cet.seq(A, +B).where(B.x < cet.next_(B).x)
    found = {policy: listed(events.pattern(query.matching(policy), time="t").trends()) for policy in POLICIES}
    # b6 and a6 are of one instant: neither can follow the other, and none of them has a neighbour.
    assert found["strict"] == {"A1 B2"}
    assert found["next"] == {"A1 B2", "A1 B2 B5", "A1 B2 B5 B6", "A6 B7"}
    assert found["strict"] < found["next"] < found["any"]


def test_rows_of_one_time_have_neighbours_once_a_tie_break_orders_them(events: Any) -> None:
    query = cet.seq(A, B).matching("strict")
    assert listed(events.pattern(query, time="t").trends()) == {"A1 B2"}
    assert listed(events.pattern(query, time="t", tie_break="x").trends()) == {"A1 B2", "A6 B6"}


def test_what_is_shown_of_events_does_not_depend_on_rows_that_no_variable_binds(events: Any) -> None:
    rows = events.pattern("PATTERN SEQ(A, B) MATCHING STRICT", time="t").trends().collect()
    assert [tuple(b.event) for row in rows for b in row.trend] == [(1, "A", 0, 0), (2, "B", 4, 0)]


def test_what_is_asked_of_whole_trends_does_not_tell_what_could_be_bound(events: Any) -> None:
    query = cet.seq(A, +B, cet.event("end", "x = 9")).where(cet.count(B) == 2).matching("next")
    # The third B could have been bound, so it is no event that a trend of two may skip.
    assert listed(events.pattern(query, time="t").trends()) == set()
    more = cet.seq(A, +B, cet.event("end", "x = 9")).where(cet.count(B) == 3).matching("next")
    assert listed(events.pattern(more, time="t").trends()) == {"A1 B2 B3 B5 end6"}


def test_a_part_of_the_pattern_that_nothing_matches_says_what_could_be_bound(events: Any) -> None:
    """A rule that drops such a part for ANY would let NEXT skip what begins it."""
    query = "PATTERN SEQ(A, SEQ(B, EVENT(N, x > 1 AND x < 1)) OR EVENT(end, x = 7)) MATCHING {}"
    assert listed(events.pattern(query.format("ANY"), time="t").trends()) == {"A1 end5"}
    assert listed(events.pattern(query.format("NEXT"), time="t").trends()) == set()


def test_a_not_that_compares_with_the_trend_leaves_the_policy_as_it_is(events: Any) -> None:
    query = "PATTERN SEQ(A, NOT C n, B) WHERE n.x > A.x MATCHING {}"
    assert listed(events.pattern(query.format("STRICT"), time="t").trends()) == {"A1 B2"}
    assert listed(events.pattern(query.format("NEXT"), time="t").trends()) == {"A1 B2", "A6 B7"}


def test_a_pattern_that_cannot_match_has_no_trends_among_rows_that_no_variable_binds(events: Any) -> None:
    asked = events.pattern("PATTERN A WHERE LENGTH >= 2 MATCHING STRICT", time="t")
    assert asked.trends().collect() == []


@pytest.mark.parametrize("policy", more_on_classic("next", "strict"))
def test_complete_trends_are_complete_among_those_of_the_policy(judge: Judge, policy: str) -> None:
    for seed in range(3):
        case = generators.random_case(seed, NEXT)
        query = by_case(attrs.evolve(case.query, matching=policy))
        bound = cet.pattern(judge.df, query, time="t", tie_break=case.tie_break)
        for completeness in ("maximal", "ends"):
            found = bound.complete_trends(completeness, columns=["id"])
            got = sorted(tuple((b.event.id, b.variable) for b in row.trend) for row in found.collect())
            expected = reference.complete_trends(query, judge.rows, completeness, tie_break=case.tie_break)
            assert got == sorted(trend for trends in expected.values() for trend in trends), unparse(query)


def test_queries_of_a_workload_may_have_policies(events: Any) -> None:
    pattern = cet.seq(A, +B)
    queries = {policy: pattern.matching(policy).returning(cet.count()) for policy in POLICIES}
    together = events.patterns(queries, time="t")
    counts = {row.query: int(row["count"]) for row in together.aggregate().collect()}
    alone = {policy: events.pattern(queries[policy], time="t").trends().count() for policy in POLICIES}
    assert counts == alone
    assert alone["strict"] < alone["next"] < alone["any"]
    trends = together.trends().groupBy("query").count().collect()
    assert {row.query: row["count"] for row in trends} == alone


def test_explain_says_what_a_policy_asks_for(events: Any) -> None:
    asked = events.pattern("PATTERN SEQ(A, B+) MATCHING STRICT", time="t")
    physical = str(asked.explain("physical"))
    assert "declined  fold: it knows no policy but ANY, and the query asks for MATCHING STRICT" in physical
    assert "matching: strict" in physical
    assert "tell what variables can bind" in physical


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("PATTERN A AND B MATCHING STRICT", "AND at the top"),
        ("PATTERN SEQ(A, B, C) WHERE A.x < C.x MATCHING NEXT", "A.x < C.x|C.x > A.x"),
        ("PATTERN SEQ(A, B, C) WHERE A.x = B.x AND B.x = C.x AND A.x = C.x MATCHING NEXT", "may be no neighbours"),
        ("PATTERN SEQ(A OR B, B? b2, C) WHERE A.x <= C.x MATCHING NEXT", "may be no neighbours"),
    ],
)
def test_what_a_policy_cannot_do_is_refused_when_the_query_is_bound(events: Any, text: str, message: str) -> None:
    with pytest.raises(UnsupportedQuery, match=message):
        events.pattern(text, time="t")


def test_graphs_and_algorithms_of_graphs_know_no_policy(events: Any) -> None:
    asked = events.pattern("PATTERN SEQ(A, B) MATCHING NEXT", time="t")
    for refused in (
        asked.graph,
        asked.diagnose,
        lambda: asked.complete_trends(algorithm="t-cet"),
        lambda: asked.trends(algorithm="joins"),
    ):
        with pytest.raises(UnsupportedQuery, match="MATCHING NEXT"):
            refused()


def test_streams_know_no_policy(spark: Any) -> None:
    stream = spark.readStream.format("rate").load().withWatermark("timestamp", "1 minute")
    query = cet.event("A", "value > 0").within("1 minute", slide="1 minute").matching("next")
    with pytest.raises(StreamingNotSupported, match="MATCHING NEXT"):
        cet.pattern(stream, query, time="timestamp")


def test_wrong_names_of_policies_are_refused() -> None:
    with pytest.raises(InvalidNode, match="no matching policy 'nxt'"):
        cet.event("A").matching("nxt")
    with pytest.raises(ParseError, match="MATCHING needs a policy: found 'SOME'"):
        cet.parse("PATTERN A MATCHING SOME")
    with pytest.raises(ParseError, match="MATCHING stands too late"):
        cet.parse("PATTERN A WITHIN 5 MATCHING NEXT")
