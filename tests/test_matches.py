"""One match at a time in the fluent language, judged by the reference's trends and by MATCH_RECOGNIZE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import generators
import matches_reference
import pytest
import reference
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st
from test_engines import by_case

import cetdsl as cet
from cetdsl.errors import (
    AnalysisErrors,
    EngineError,
    InvalidNode,
    StreamingNotSupported,
    UnknownVariable,
    UnsupportedQuery,
    recovering,
)
from cetdsl.pattern.nodes import Event, Pattern, Repeat, Seq, positive_events
from cetdsl.pattern.query import AfterMatch, Query, Selection
from cetdsl.pattern.text import unparse

pytestmark = pytest.mark.simple_plans

STREAMS = 40
A, B, C = cet.events("A", "B", "C")
FEATURES = generators.Features().without(
    "negation", "edge_negation", "nested_negation", "complex_negation", "correlated_negation", "top_conjunction"
)
#: What a whole match must satisfy may be told by rows that come later.
UNJUDGED = FEATURES.without("aggregate_predicates", "tie_break")
FAST = settings(
    max_examples=9, deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.explicit, Phase.generate)
)


@pytest.fixture(scope="module")
def rows() -> list[generators.Row]:
    return generators.stacked(8_000, STREAMS)


@pytest.fixture(scope="module")
def stacked(spark: Any, rows: list[generators.Row]) -> Any:
    return generators.frame(spark, rows).cache()


def found_by(stacked: Any, query: Query, ties: Sequence[str]) -> dict[Any, list[Any]]:
    """What matches() gives, by group and window."""
    found: dict[Any, list[Any]] = {}
    for row in cet.pattern(stacked, query, time="t", tie_break=ties).matches(columns=["id"]).collect():
        values = row.asDict()
        window = values.get("window")
        key = tuple(reference._key(values[name]) for name in query.group_by), tuple(window) if window else None
        found.setdefault(key, []).append(tuple((b.event.id, b.variable) for b in row.trend))
    return found


SELECTIONS = st.sampled_from(
    [
        *[Selection()] * 3,
        Selection(longest=True),
        Selection(first=True),
        Selection(AfterMatch("next_row")),
        Selection(AfterMatch("next_row"), longest=True),
        Selection(AfterMatch("to_last", "?")),
        Selection(AfterMatch("to_first", "?")),
    ]
)


@pytest.mark.classic
@FAST
@given(case=generators.cases(FEATURES), policy=st.sampled_from(["strict", "strict", "next"]), selection=SELECTIONS)
def test_matches_are_the_preferred_trends_of_the_reference(
    rows: list[generators.Row], stacked: Any, case: generators.Case, policy: str, selection: Selection
) -> None:
    last = positive_events(case.query.pattern)[-1].variable
    if selection.after is not None and selection.after.variable:
        selection = attrs.evolve(selection, after=attrs.evolve(selection.after, variable=last))
    query = by_case(attrs.evolve(case.query, matching=policy, selection=selection, returning=()))
    ties = (*case.tie_break, "id")
    try:
        expected = matches_reference.matches(query, rows, ties)
    except LookupError as error:
        event(f"skips nowhere: {error}")
        return
    try:
        found = found_by(stacked, query, ties)
    except (UnsupportedQuery, AnalysisErrors) as error:
        event(f"refused: {type(error).__name__}")
        return
    grouped: dict[Any, list[Any]] = {}
    for (group, window, _), trends in expected.items():
        grouped.setdefault((group, window), []).extend(map(tuple, trends))
    event(f"{policy}: {'some' if any(grouped.values()) else 'no'} matches")
    assert {key: sorted(each) for key, each in found.items()} == {
        key: sorted(each) for key, each in grouped.items() if each
    }, unparse(query)


@pytest.mark.classic
@FAST
@given(case=generators.cases(UNJUDGED), policy=st.sampled_from(["strict", "next"]))
def test_each_event_that_begins_a_trend_begins_a_match_whatever_is_simultaneous(
    rows: list[generators.Row], stacked: Any, case: generators.Case, policy: str
) -> None:
    """Rows of one time may come in any order. Which of their trends is preferred depends on it, but not if one is."""
    selection = Selection(AfterMatch("next_row"))
    query = by_case(attrs.evolve(case.query, matching=policy, returning=()))
    try:
        found = found_by(stacked, attrs.evolve(query, selection=selection), ())
    except (UnsupportedQuery, AnalysisErrors) as error:
        event(f"refused: {type(error).__name__}")
        return
    trends: dict[Any, set[Any]] = {}
    for (group, window, _), each in reference.trends(query, rows).items():
        trends.setdefault((group, window), set()).update(map(tuple, each))
    for key in trends.keys() | found.keys():
        known, taken = trends.get(key, set()), found.get(key, [])
        assert set(taken) <= known, unparse(query)
        begins = sorted(trend[0][0] for trend in taken)
        assert begins == sorted({trend[0][0] for trend in known}), unparse(query)


def clause_of(pattern: Pattern) -> str:
    """A pattern as MATCH_RECOGNIZE writes it."""
    if isinstance(pattern, Event):
        return pattern.variable
    if isinstance(pattern, Repeat):
        return f"({clause_of(pattern.part)}){{{pattern.at_least},{'' if pattern.at_most is None else pattern.at_most}}}"
    return f"({(' ' if isinstance(pattern, Seq) else ' | ').join(map(clause_of, pattern.parts))})"


@pytest.mark.classic
def test_matches_are_those_of_match_recognize(stacked: Any) -> None:
    """Patterns of plain events, with the same conditions and ways to skip, in one job."""
    plain = generators.Features.none(
        kleene=True, nested_kleene=True, optional=True, bounded_repeat=True, alternation=True, repeated_variables=True
    )
    both = []
    for seed in range(5):
        pattern = generators.random_case(seed, plain).query.pattern
        names = {each.variable: each.type for each in positive_events(pattern)}
        after, skip = [("next_row", "TO NEXT ROW"), ("past_last", "PAST LAST ROW")][seed % 2]
        query = cet.QueryTerm(Query(pattern, group_by=("case",))).after_match(after)
        found = stacked.pattern(query, time="t", tie_break="id").matches(columns=["id"])
        defined = ", ".join(f"{name} AS type = '{kind}'" for name, kind in names.items())
        recognized = stacked.match_recognize(
            f"""PARTITION BY case ORDER BY t, id
                MEASURES ARRAY_AGG(CLASSIFIER()) AS variables, ARRAY_AGG(id) AS ids
                AFTER MATCH SKIP {skip} PATTERN ({clause_of(pattern)}) DEFINE {defined}"""
        )
        mine = found.selectExpr("case", "trend.variable AS variables", "trend.event.id AS ids")
        # MATCH_RECOGNIZE also reports matches of no row.
        theirs = recognized.where("size(ids) > 0").select("case", "variables", "ids")
        both += [
            each.selectExpr(f"{seed} AS seed", f"'{who}' AS who", "*") for each, who in ((mine, "m"), (theirs, "t"))
        ]
    union = both[0]
    for each in both[1:]:
        union = union.unionByName(each)
    answers: dict[str, list[Any]] = {"m": [], "t": []}
    for row in union.collect():
        answers[row.who].append((row.seed, row.case, row.ids, [name.upper() for name in row.variables]))
    assert answers["m"]
    assert sorted(answers["m"]) == sorted(answers["t"])


EVENTS = [(1, "A", 0), (2, "B", 4), (3, "B", 2), (4, "C", 0), (5, "B", 7), (6, "A", 1), (7, "B", 9), (8, "B", 1)]


@pytest.fixture(scope="module")
def few(spark: Any) -> Any:
    return spark.createDataFrame(EVENTS, "t int, type string, x int").cache()


def listed(answer: Any) -> list[str]:
    return sorted(" ".join(f"{b.variable}{b.event.t}" for b in row.trend) for row in answer.collect())


def matched(few: Any, query: Any, **bound: Any) -> list[str]:
    return listed(few.pattern(query, time="t", **bound).matches())


def test_a_repetition_of_nothing_ends_the_repetitions(few: Any) -> None:
    """As in Perl, where (?:B*|C)+ takes no C behind a B."""
    assert matched(few, cet.parse("PATTERN (B* OR C)+ MATCHING STRICT")) == ["B2 B3", "B7 B8", "C4 B5"]


def test_the_query_says_where_to_go_on_and_which_match_is_taken(few: Any) -> None:
    q = cet.seq(A, +B)
    assert matched(few, q) == ["A1 B2 B3", "A6 B7 B8"]
    assert matched(few, q.matching("next")) == ["A1 B2 B3 B5 B7 B8"]
    assert matched(few, (+B).after_match("next_row")) == ["B2 B3", "B3", "B5", "B7 B8", "B8"]
    assert matched(few, (+B).first()) == ["B2 B3"]
    assert matched(few, (A | (A >> B)).longest()) == ["A1 B2", "A6 B7"]
    assert matched(few, cet.parse("PATTERN A OR SEQ(A, B)")) == ["A1", "A6"]
    overlapping = cet.parse("PATTERN SEQ(B, B) MATCHING NEXT AFTER MATCH SKIP TO LAST B")
    assert matched(few, overlapping) == ["B2 B3", "B3 B5", "B5 B7", "B7 B8"]


def test_a_bound_query_can_still_be_told_which_matches_to_take(few: Any) -> None:
    query = (A >> +B).where(A.x < B.x).group_by(half=cet.fn.floor(cet.col("t") / 4))
    bound = few.pattern(query, time="t")
    changes = [
        ("first", ()),
        ("longest", ()),
        ("after_match", ("past_last",)),
        ("after_match", ("to_last(B)",)),
        ("matching", ("strict",)),
    ]
    for method, arguments in changes:
        changed, known = (getattr(one, method)(*arguments) for one in (bound, query))
        assert changed.query == known.node
        expected = few.pattern(known, time="t").matches()
        assert changed.matches().schema == expected.schema
        assert sorted(changed.matches().collect()) == sorted(expected.collect())
    assert bound.query == query.node
    with pytest.raises(InvalidNode, match="no place to go on"):
        bound.after_match("nowhere")
    with pytest.raises(UnknownVariable, match="SKIP TO LAST C"):
        bound.after_match("to_last(C)")


def test_predicates_are_judged_while_rows_are_matched(few: Any) -> None:
    q = cet.seq(A, +B)
    assert matched(few, q.where(B.x < cet.next_(B).x)) == ["A1 B2", "A6 B7"]
    assert matched(few, q.where(B.x < cet.next_(B).x).matching("next")) == ["A1 B2 B5 B7"]
    assert matched(few, q.where(cet.count(B) < 2)) == ["A1 B2", "A6 B7"]
    assert matched(few, q.where(cet.avg(B.x) < 4)) == ["A1 B2 B3"]
    assert matched(few, q.where(B.x > 3 + A.x, cet.last(B).x == cet.first(B).x)) == ["A1 B2", "A6 B7"]
    assert matched(few, q.where(cet.fn.abs(B.x - cet.next_(B).x) <= 2)) == ["A1 B2 B3", "A6 B7"]
    assert matched(few, q.within(1)) == ["A1 B2", "A6 B7"]


def test_an_answer_has_the_shape_of_trends(few: Any) -> None:
    bound = few.pattern("PATTERN SEQ(A, B+) GROUP BY type WITHIN 4 SLIDE 4", time="t", type=None)
    for how in ({}, {"layout": "wide", "times": True}, {"layout": "long", "columns": ["x"]}):
        assert bound.matches(**how).dtypes == bound.trends(**how).dtypes
    assert few.pattern(+B, time="t").matches(limit=2).count() == 2
    assert few.pattern(+B, time="t").matches(0).count() == 0


def test_rows_without_a_time_are_counted(spark: Any) -> None:
    rows = [(None, "A", 1), (None, "B", 2), (1, "A", 1), (2, "B", 1)]
    df = spark.createDataFrame(rows, "t int, type string, k int")
    with pytest.raises(EngineError, match="'t' is NULL in 2 rows"), recovering():
        df.pattern("PATTERN SEQ(A, B) WHERE [k]", time="t").matches().collect()
    skipped = df.pattern("PATTERN SEQ(A, B) WHERE [k]", time="t", on_null_time="skip")
    assert listed(skipped.matches()) == ["A1 B2"]


def test_explain_says_what_is_done(few: Any) -> None:
    q = cet.seq(A, +B).where(B.x < cet.next_(B).x)
    text = str(few.pattern(q.after_match("to_last(B)"), time="t").explain("matches"))
    assert "strategy  match" in text
    assert "after a match: on at the last row of B" in text
    assert "grows with the rows times the places" in text
    assert "by the kernel: cheaper for rows of about" in text
    assert "by Spark: as asked for" in str(few.pattern(q, time="t", sort="spark").explain("matches"))
    assert "ways that are tried" in str(few.pattern(q.matching("next"), time="t").explain("matches"))
    # What asks for matches has no other answer.
    assert "no other one" in str(few.pattern(q.first(), time="t").explain("physical"))


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (cet.seq(A, B).matching("any"), "MATCHING ANY does not say which match comes next"),
        (cet.seq(A, cet.absent(C), B), "NOT C where matches"),
        (cet.seq(A, +B, C).where(B.x != C.x), "relates a row to each one of 'B'"),
        (cet.seq(A, +B).where(cet.stddev(B.x) > 1), "STDDEV is not known"),
        (cet.seq(A, B).where(cet.fn.greatest(A.x, cet.next_(B).x) > 3).matching("next"), "by a function"),
    ],
)
def test_what_cannot_be_told_is_refused(few: Any, query: Any, message: str) -> None:
    with pytest.raises(UnsupportedQuery, match=message):
        few.pattern(query, time="t").matches()


def test_trends_are_not_taken_one_at_a_time(spark: Any, few: Any) -> None:
    bound = few.pattern(cet.seq(A, B).first(), time="t")
    for refused in (bound.trends, bound.count_trends, bound.complete_trends, bound.graph, bound.diagnose):
        with pytest.raises(UnsupportedQuery, match="FIRST MATCH is asked for"):
            refused()
    together = few.patterns({"one": cet.seq(A, B).after_match("next_row").returning(cet.count())}, time="t")
    for refused in (together.trends, together.aggregate, together.results):
        with pytest.raises(UnsupportedQuery, match="AFTER MATCH SKIP TO NEXT ROW is asked for"):
            refused()
    stream = spark.readStream.format("rate").load().withWatermark("timestamp", "1 minute")
    query = cet.event("A", "value > 0").within("1 minute", slide="1 minute")
    with pytest.raises(StreamingNotSupported, match="one at a time"):
        cet.pattern(stream, query, time="timestamp").matches()


def test_places_to_go_on_at_are_checked(few: Any) -> None:
    with pytest.raises(UnknownVariable, match="SKIP TO LAST b: the pattern binds no 'b'"):
        few.pattern(cet.seq(A, B).after_match("to_last(b)"), time="t")
    for wrong in ("last", "to_last", "next_row(B)", 5):
        with pytest.raises(InvalidNode, match="to_last"):
            cet.seq(A, B).after_match(wrong)
    with pytest.raises(InvalidNode, match="first match alone"):
        cet.seq(A, B).first().after_match("next_row")
    with pytest.raises(EngineError, match="SKIP TO A goes to the first row of match 1"), recovering():
        matched(few, cet.seq(A, B).after_match("to_first(A)"))
