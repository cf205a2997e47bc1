"""Lengths of parts of a pattern, and between neighbours, keep the trends whose times a look at each allows."""

from __future__ import annotations

import datetime
import random
from collections import Counter
from collections.abc import Iterator
from functools import reduce
from itertools import pairwise
from typing import Any

import attrs
import generators
import pytest
import reference
from modes import more_on_classic, settings
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from test_engines import by_case

import cetdsl as cet
from cetdsl.errors import AnalysisErrors, InvalidNode, ParseError, UnsupportedQuery, WindowError
from cetdsl.pattern.nodes import And, Event, Not, Pattern, Repeat, Seq, Within, dissolved, events, transform
from cetdsl.pattern.properties import positive_variables
from cetdsl.pattern.query import Query
from cetdsl.pattern.spans import Span

pytestmark = pytest.mark.simple_plans

STREAMS = 30
FEATURES = generators.Features().without(
    "negation", "edge_negation", "nested_negation", "complex_negation", "correlated_negation", "top_conjunction",
    "inseparable",
)  # fmt: skip


def bare(pattern: Pattern) -> Pattern:
    return transform(pattern, lambda node: node.part if isinstance(node, Within) else node)


def limited(pattern: Pattern, repeated: bool = False) -> Iterator[tuple[Within, bool]]:
    if isinstance(pattern, Not):
        return
    if isinstance(pattern, Within):
        yield pattern, repeated
    repeated |= isinstance(pattern, Repeat) and pattern.at_most != 1
    for child in pattern.children:
        yield from limited(child, repeated)


def positive(pattern: Pattern) -> Pattern:
    """The pattern without its NOTs."""
    children = [positive(child) for child in pattern.children if not isinstance(child, Not)]
    return pattern.with_children(tuple(children)) if children else pattern


def is_kept(query: Query, trend: reference.Trend, rows: list[generators.Row]) -> bool:
    """Whether a trend of the query without lengths and NOTs keeps them."""
    times = [rows[i]["t"] for i, _ in trend]
    if query.max_gap is not None and any(b - a > query.max_gap.amount for a, b in pairwise(times)):
        return False
    for part, repeated in limited(query.pattern):
        names, most = positive_variables(part), part.length.amount
        if repeated:
            pairs = [(a, b) for (a, u), (b, v) in pairwise(trend) if (u, v) == names]
            kept = all(rows[b]["t"] - rows[a]["t"] <= most for a, b in pairs)
        else:
            own = [rows[i]["t"] for i, name in trend if name in names]
            kept = not own or max(own) - min(own) <= most
        if not kept or any(_is_forbidden(part, node, place, trend, rows) for place, node in _edges(part)):
            return False
    return True


def _edges(part: Within) -> Iterator[tuple[int, Not]]:
    """The NOTs of single events at the ends of a part: -1 before it, 1 behind it."""
    parts = dissolved(bare(part.part), Seq).children
    for node, place in ((parts[:1], -1), (parts[-1:], 1)):
        if node and isinstance(node[0], Not):
            yield place, node[0]


def _is_forbidden(part: Within, node: Not, place: int, trend: reference.Trend, rows: list[generators.Row]) -> bool:
    names = positive_variables(part)
    own = [(at, i) for at, (i, name) in enumerate(trend) if name in names]
    if not own:
        return False
    (first, low), (last, high) = own[0], own[-1]
    assert isinstance(node.part, Event)
    same = [row for row in rows if row["type"] == node.part.type and row["t"] is not None]
    same = [row for row in same if row["case"] == rows[low]["case"]]
    if place > 0:
        stop = rows[trend[last + 1][0]]["t"] if last + 1 < len(trend) else float("inf")
        return any(
            rows[high]["t"] < row["t"] < stop and row["t"] <= rows[low]["t"] + part.length.amount for row in same
        )
    start = rows[trend[first - 1][0]]["t"] if first else float("-inf")
    return any(start < row["t"] < rows[low]["t"] and row["t"] >= rows[high]["t"] - part.length.amount for row in same)


class Judge:
    """Streams in one DataFrame, and the trends that keep lengths."""

    def __init__(self, spark: Any) -> None:
        self.rows = generators.stacked(7_300, STREAMS)
        self.df = generators.frame(spark, self.rows).cache()

    def judge(self, queries: list[tuple[Query, tuple[str, ...]]]) -> int:
        """Compares the trends of queries with those that are kept, and their numbers; returns how many were not.

        The queries come with what breaks their ties. All are listed in one job, and all counted in one.
        """
        asked = [(by_case(query), ties) for query, ties in queries]
        bound = [self.df.pattern(query, time="t", tie_break=ties) for query, ties in asked]
        ids = F.transform("trend", lambda b: F.struct(b.event.id.alias("id"), b.variable.alias("variable")))
        listed: list[list[Any]] = [[] for _ in queries]
        parts = [one.trends(columns=["id"]).select(F.lit(n), ids) for n, one in enumerate(bound)]
        for number, trend in reduce(DataFrame.union, parts).collect():
            listed[number].append(tuple(map(tuple, trend)))
        parts = [one.count_trends("n", number="string").select(F.lit(n), "n") for n, one in enumerate(bound)]
        counted: Counter[int] = Counter()
        for number, count in reduce(DataFrame.union, parts).collect():
            counted[number] += int(count)
        lost = 0
        for number, (query, ties) in enumerate(asked):
            plain = attrs.evolve(query, pattern=positive(bare(query.pattern)), max_gap=None)
            every = [trend for found in reference.trends(plain, self.rows, tie_break=ties).values() for trend in found]
            expected = sorted(trend for trend in every if is_kept(query, trend, self.rows))
            assert sorted(listed[number]) == expected, str(query)
            assert counted[number] == len(expected), str(query)
            lost += len(every) - len(expected)
        return lost


@pytest.fixture(scope="module")
def judge(spark: Any) -> Judge:
    return Judge(spark)


QUERIES = (
    "PATTERN SEQ(A, SEQ(B, NOT C) WITHIN 2)",
    "PATTERN SEQ(A, B+) MAX_GAP 1",
    "PATTERN (A+ WITHIN 2) WITHIN 10 SLIDE 5",
    "PATTERN SEQ(A, B+, C) WITHIN 6 MAX_GAP 2",
    "PATTERN SEQ(A, SEQ(B, C) WITHIN 1)",
    "PATTERN SEQ(SEQ(A, B+) WITHIN 2, C)",
    "PATTERN (SEQ(A, B) WITHIN 1)+",
    "PATTERN SEQ(SEQ(NOT C, A) WITHIN 2, B)",
    "PATTERN SEQ(SEQ(A, NOT C) WITHIN 1, B)",
    "PATTERN SEQ(A, (B+ WITHIN 2)?)",
    "PATTERN (SEQ(A, B) WITHIN 1) OR SEQ(C, Stock s?)",
    "PATTERN SEQ(A, (SEQ(B, C) WITHIN 2)+) MAX_GAP 3",
    "PATTERN (SEQ(A, B, C) WITHIN 3) MAX_GAP 2",
    "PATTERN SEQ(A, SEQ(B, C) WITHIN 3) MAX_GAP 2",
    "PATTERN SEQ(A, SEQ(B, NOT C) WITHIN 2) MAX_GAP 2",
    "PATTERN SEQ(SEQ(NOT C, A) WITHIN 2, B+) MAX_GAP 2",
)


@pytest.mark.parametrize("texts", more_on_classic(list(QUERIES[:2]), list(QUERIES[2:])))
def test_trends_keep_lengths(judge: Judge, texts: list[str]) -> None:
    assert judge.judge([(cet.parse(text).node, ()) for text in texts]) > 0


@pytest.mark.classic
def test_generated_patterns_with_lengths(judge: Judge) -> None:
    accepted, refused = [], 0
    for seed in range(24):
        case, chosen = generators.random_case(61_000 + seed, FEATURES), random.Random(seed)

        def change(node: Pattern, chosen: random.Random = chosen) -> Pattern:
            return Within(node, Span(chosen.randint(1, 3), "tick")) if chosen.random() < 0.25 else node

        gap = Span(chosen.randint(1, 3), "tick") if chosen.random() < 0.5 else None
        query = attrs.evolve(case.query, pattern=transform(case.query.pattern, change), max_gap=gap, returning=())
        if query.pattern == case.query.pattern and gap is None:
            continue
        try:
            judge.df.pattern(query, time="t", tie_break=case.tie_break).trends()
            accepted.append((query, case.tie_break))
        except (AnalysisErrors, UnsupportedQuery):
            refused += 1
    assert len(accepted) > 8
    assert refused < 2 * len(accepted)
    assert judge.judge(accepted) > 20


@pytest.mark.parametrize("kind", more_on_classic("timestamp", "timestamp_ntz", "date"))
def test_a_length_is_elapsed_time(spark: Any, kind: str) -> None:
    """On 31 March 2024 clocks in Berlin show 2 hours for 1, so that day has 23; clocks without a zone know nothing."""
    begin, end = ("2024-03-31", "2024-04-01") if kind == "date" else ("2024-03-31 00:00:00", "2024-04-01 00:00:00")
    with settings(spark, {"spark.sql.session.timeZone": "Europe/Berlin"}):
        df = spark.createDataFrame([(begin, "A"), (end, "B")], "ts string, type string")
        df = df.withColumn("ts", df.ts.cast(kind))

        def count(length: object) -> int:
            found = {
                df.pattern(query, time="ts").trends(columns=["ts"]).count()
                for query in (
                    cet.seq("A", "B").max_gap(length),
                    cet.seq(cet.seq("A", "B").within(length), cet.star("C")),
                    cet.seq("A", "B").within(length),
                )
            }
            assert len(found) == 1
            return found.pop()

        exact = 24 if kind == "timestamp_ntz" else 23
        assert count(datetime.timedelta(hours=exact)) == 1
        assert count(datetime.timedelta(hours=exact, microseconds=-1)) == 0


@pytest.mark.parametrize("kind", more_on_classic("int", "bigint", "smallint"))
def test_no_time_overflows(spark: Any, kind: str) -> None:
    last = {"int": 2**31 - 1, "bigint": 2**62 - 1, "smallint": 2**15 - 1}[kind]
    df = spark.createDataFrame([(last - 3, "A"), (last, "B")], f"t {kind}, type string")
    for length, trends in ((2, 0), (3, 1), (2**31 - 1, 1), (2**61, 1)):
        assert df.pattern(cet.seq("A", "B").max_gap(length), time="t").trends().count() == trends


def test_both_front_ends_say_the_same() -> None:
    part = cet.seq("cart", cet.absent("purchase")).within("1 hour")
    query = cet.seq("view", part).within("1 day").max_gap("30 minutes")
    text = "PATTERN SEQ(view, SEQ(cart, NOT purchase) WITHIN 1 hour) WITHIN 1 day MAX_GAP 30 minutes"
    assert cet.parse(text) == query
    assert cet.parse(str(query)) == query
    assert cet.event("view") >> part == cet.seq("view", part)
    assert part >> cet.event("view") == cet.seq(part, "view")


REFUSED = (
    ("PATTERN SEQ(A, SEQ(A, B) WITHIN 3)", "'A' stands at another place of the pattern, too"),
    ("PATTERN SEQ(SEQ(A, NOT A) WITHIN 3, B)", "'A' stands at another place of the pattern, too"),
    ("PATTERN ((A+) WITHIN 3)+", "it cannot be told which events belong to the same repetition"),
    ("PATTERN (SEQ(A, B?) WITHIN 3)+", "it cannot be told which events belong"),
    ("PATTERN SEQ(A, SEQ(B+, NOT C) WITHIN 3)", "NOT C looks so far from where the part begins, but it begins with no"),
    ("PATTERN SEQ(A, NOT (B+ WITHIN 3), C)", "under NOT nothing says which event of 'B' is the first"),
)


@pytest.mark.parametrize(("text", "why"), REFUSED)
def test_what_no_predicate_says_is_refused(spark: Any, text: str, why: str) -> None:
    df = spark.createDataFrame([(1, "A")], "t int, type string")
    with pytest.raises(UnsupportedQuery, match=why):
        df.pattern(text, time="t")


def test_lengths_that_do_not_fit_are_refused(spark: Any) -> None:
    df = spark.createDataFrame([(1, "A")], "t int, type string")
    with pytest.raises(WindowError, match="MAX_GAP 5 minutes is a length of time, but the time column 't'"):
        df.pattern(cet.kleene("A").max_gap("5 minutes"), time="t")
    with pytest.raises(WindowError, match="WITHIN 1 month has no fixed length"):
        df.pattern("PATTERN SEQ(A, SEQ(B, C) WITHIN 1 month)", time="t")
    with pytest.raises(InvalidNode, match="windows that slide cannot be part of a pattern"):
        cet.seq("A", cet.seq("B", "C").within(4, slide=2))
    with pytest.raises(InvalidNode, match="a query cannot be part of a pattern"):
        cet.seq("A", cet.seq("B", "C").max_gap(2))
    with pytest.raises(InvalidNode, match="NOT cannot stand directly inside a part with WITHIN"):
        Within(Not(Event("A")), Span(1, "tick"))
    with pytest.raises(ParseError, match="MAX_GAP needs a length of time"):
        cet.parse("PATTERN A MAX_GAP")


def test_a_diagnosis_blames_lengths(spark: Any) -> None:
    df = spark.createDataFrame([(1, "A"), (5, "B"), (9, "C")], "t int, type string")
    assert df.pattern("PATTERN SEQ(A, B, C) MAX_GAP 3", time="t").diagnose().causes == (
        "without MAX_GAP 3 there would be 1 trend",
    )
    assert df.pattern("PATTERN SEQ(A, SEQ(B, C) WITHIN 3)", time="t").diagnose().causes == (
        "without SEQ(B, C) WITHIN 3 there would be 1 trend",
    )


def test_sides_of_and_have_lengths_of_their_own(judge: Judge) -> None:
    query = by_case(cet.parse("PATTERN (SEQ(A, B) WITHIN 1) AND C").node)
    assert isinstance(query.pattern, And)
    plain = attrs.evolve(query, pattern=bare(query.pattern))
    expected = sum(
        all(judge.rows[b]["t"] - judge.rows[a]["t"] <= 1 for side in pair if len(side) > 1 for (a, _), (b, _) in [side])
        for found in reference.trends(plain, judge.rows).values()
        for pair in found
    )
    counted = judge.df.pattern(query, time="t").count_trends("n").collect()
    assert sum(int(row["n"]) for row in counted) == expected > 0


def test_the_events_of_a_part_are_those_of_its_variables() -> None:
    part = Within(Seq((Event("b"), Event("c"))), Span(1, "tick"))
    assert [event.variable for event in events(Seq((Event("a"), part)))] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("PATTERN SEQ(A,\n  SEQ(B+, NOT C) WITHIN 6, D)", "SEQ(B+, NOT C) WITHIN 6"),
        ("PATTERN (SEQ(A, B, C) WITHIN 2)+ WITHIN 9", "SEQ(A, B, C) WITHIN 2"),
        ("PATTERN SEQ(A, SEQ(B WITHIN 1, A) -- , )\n WITHIN 6)", "SEQ(B WITHIN 1, A) -- , )\n WITHIN 6"),
    ],
)
def test_a_refused_part_is_pointed_at(judge: Judge, text: str, place: str) -> None:
    with pytest.raises(UnsupportedQuery) as caught:
        judge.df.pattern(text, time="t")
    assert caught.value.span == (text.index(place), text.index(place) + len(place))
    assert caught.value.text == text
    for asked in (cet.parse(text), cet.parse(text).partition_by("k")):
        with pytest.raises(UnsupportedQuery) as read_before:
            judge.df.pattern(asked, time="t")
        assert str(read_before.value) == str(caught.value)
    queries = f"NAME one: PATTERN A;\nNAME two: {text}; NAME three: PATTERN B"
    for workload, whole in ((queries, queries), ({"two": text}, text)):
        with pytest.raises(UnsupportedQuery, match=r"^query 'two': WITHIN") as named:
            judge.df.patterns(workload, time="t")
        assert named.value.text == whole
        assert whole[slice(*named.value.span)] == place


def test_a_part_that_no_text_states_is_not_pointed_at(judge: Judge) -> None:
    one, many, none = cet.events("A B C")
    with pytest.raises(UnsupportedQuery) as caught:
        judge.df.pattern(cet.seq(one, cet.seq(+many, cet.absent(none)).within(6)), time="t")
    assert caught.value.span is None


def test_a_refused_part_is_pointed_at_among_other_errors(judge: Judge) -> None:
    with pytest.raises(AnalysisErrors, match=r"(?s)line 1: .*\^\^\^.*no column 'nix'"):
        judge.df.pattern("PATTERN SEQ(A, SEQ(B, A) WITHIN 6) WHERE A.nix > 4", time="t")
