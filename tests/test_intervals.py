"""Lengths of time in queries: how they are written, and that sums over two events mean what Spark says they mean."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from decimal import Decimal
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from modes import settings
from pyspark.sql import functions as F

import cetdsl as cet
from cetdsl.analysis import Binding, Field, Schema, analyse, separate
from cetdsl.errors import InvalidNode, ParseError, QueryTypeError, WindowError
from cetdsl.frontend.sase import parse
from cetdsl.frontend.terms import to_expr
from cetdsl.pattern.expressions import LONGEST_INTERVAL, Literal
from cetdsl.pattern.intervals import read_interval
from cetdsl.pattern.text import literal_text, unparse
from cetdsl.rewrite import rewrite

pytestmark = pytest.mark.simple_plans

timedelta = datetime.timedelta
A, B = cet.events("A", "B")


# Writing them ---------------------------------------------------------------------------------------------------------


@given(st.timedeltas(-LONGEST_INTERVAL, LONGEST_INTERVAL))
def test_every_length_is_read_back(length: timedelta) -> None:
    query = parse(f"PATTERN A WHERE A.x < {literal_text(length)}")
    assert query.where[0].right == Literal(length)
    assert parse(unparse(query)) == query


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("INTERVAL 1 HOUR", timedelta(hours=1)),
        ("interval '90' minutes", timedelta(minutes=90)),
        ('INTERVAL "1.5" s', timedelta(seconds=1.5)),
        ("INTERVAL 1 DAY 2 HOURS -- and no more\n 3 min", timedelta(days=1, hours=2, minutes=3)),
        ("INTERVAL '- 2' DAY", timedelta(days=-2)),
        ("INTERVAL '1 day -2 hours'", timedelta(hours=22)),
        ("INTERVAL '-1 02:03:04.5' DAY TO SECOND", -timedelta(days=1, hours=2, minutes=3, seconds=4.5)),
        ("INTERVAL '36:15' HOUR TO MINUTE", timedelta(hours=36, minutes=15)),
        ("INTERVAL '2:0.000001' MINUTE TO SECOND", timedelta(minutes=2, microseconds=1)),
        ("INTERVAL 2 weeks", timedelta(weeks=2)),
    ],
)
def test_lengths_as_people_write_them(text: str, length: timedelta) -> None:
    assert parse(f"PATTERN A WHERE A.x < {text} AND A.y = 1").where[0] == (A.x < length).node


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("INTERVAL 1", "a unit of time is missing after 1: the text ends"),
        ("INTERVAL '1' DAY TO", "a unit of time is missing after TO: the text ends"),
        ("INTERVAL '1'", "'1' is no length of time"),
        ("INTERVAL '1 2' HOUR", "'1 2' is no number of hour"),
        ("INTERVAL 1 FORTNIGHT", "'1 FORTNIGHT' is no length of time"),
        ("INTERVAL 3 MONTHS", "months and years differ in length"),
        ("INTERVAL '1:2' HOUR TO SECOND", "'1:2' is no interval HOUR TO SECOND"),
        ("INTERVAL '1:2' MINUTE TO HOUR", "there is no interval MINUTE TO HOUR"),
        ("INTERVAL '0.0000001' SECOND", "an interval is a whole number of microseconds"),
        ("INTERVAL 99999999 DAYS", "an interval of 99999999 days is out of range"),
        (f"INTERVAL {'9' * 30} DAYS", "an interval of so many days is out of range"),
        (f"INTERVAL {'9' * 3000} DAYS", f"'{'9' * 40}'... is no length of time"),
    ],
)
def test_what_is_no_length_is_refused(text: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(f"PATTERN A WHERE A.x < {text}")
    assert caught.value.message == message.replace("'1 FORTNIGHT' is no length", "'FORTNIGHT' is not a unit")
    assert caught.value.hint
    assert caught.value.span is not None


def test_a_column_or_an_event_may_be_called_interval() -> None:
    query = parse("PATTERN SEQ(A, interval) WHERE A.interval < interval.x AND COUNT(interval) = 1 - 2")
    assert parse(unparse(query)) == query


@pytest.mark.parametrize(
    "value",
    [timedelta(hours=1), pd.Timedelta(hours=1), np.timedelta64(1, "h"), np.timedelta64(3_600_000_000_000, "ns")],
)
def test_lengths_of_python(value: Any) -> None:
    expected = Literal(timedelta(hours=1))
    assert to_expr(value) == expected
    assert (A.ts + value).node.right == expected  # type: ignore[attr-defined]
    assert (B.ts - A.ts <= value).node.right == expected  # type: ignore[attr-defined]


def test_a_time_of_numpy_is_a_time() -> None:
    assert to_expr(np.datetime64("2024-01-02", "ns")) == Literal(datetime.datetime(2024, 1, 2))
    with pytest.raises(InvalidNode, match="parts of a microsecond"):
        to_expr(np.timedelta64(1, "ns"))
    assert to_expr(np.timedelta64("NaT")) == Literal(None)


def test_a_time_of_pandas_is_a_time() -> None:
    assert to_expr(pd.Timestamp("2024-01-02")) == Literal(datetime.datetime(2024, 1, 2))
    assert to_expr(pd.NaT) == Literal(None)
    for value in (pd.Timestamp("2024-01-01 00:00:00.000000001"), pd.Timedelta("1us500ns")):
        with pytest.raises(InvalidNode, match="parts of a microsecond"):
            to_expr(value)
    with pytest.raises(WindowError, match="no whole number of microseconds"):
        A.within(pd.Timedelta("1us500ns"))
    assert str(A.within(pd.Timedelta("1s")).node.window) == "WITHIN 1 second"


def test_lengths_are_read_by_unit() -> None:
    assert read_interval("1", "minutes") == timedelta(minutes=1)


# What is wrong with them ----------------------------------------------------------------------------------------------

SCHEMA = Schema(
    [
        Field("t", "timestamp"),
        Field("u", "timestamp"),
        Field("n", "timestamp_ntz"),
        Field("day", "date"),
        Field("x", "int"),
        Field("big", "bigint"),
        Field("d", "decimal(10,2)"),
        Field("y", "double"),
    ]
)


@pytest.mark.parametrize("predicate", ["b.t - a.t <= 5", "b.t + 5 < a.t", "b.t < a.t - a.x"])
def test_a_number_is_no_length_of_time(predicate: str) -> None:
    with pytest.raises(QueryTypeError) as caught:
        analyse(parse(f"PATTERN SEQ(A a, B b) WHERE {predicate}"), SCHEMA, Binding(time="t", type=None))
    assert caught.value.hint == "a length of time is INTERVAL '5' MINUTE, in Python timedelta(minutes=5)"


# What sums over two events mean ---------------------------------------------------------------------------------------

#: Lengths and numbers over two events that no values make overflow.
TIMES_APART = (
    "{b}.u - {a}.u",
    "{b}.t - {a}.u + INTERVAL 1 HOUR",
    "-INTERVAL 90 MINUTES + ({a}.n - {b}.n)",
    "{b}.day - {a}.day",
    "ABS({a}.u - {b}.u)",
)
NUMBERS_APART = (
    "unix_timestamp({b}.u) - unix_timestamp({a}.t)",
    "ABS(unix_micros({a}.u) - unix_micros({b}.u) - 1800000000)",
    "datediff({b}.day, {a}.u)",
    "hour({b}.u) - dayofmonth({a}.day)",
    "{a}.d - {b}.d + {a}.x",
    "-({b}.d) - {a}.d",
    "unix_seconds({a}.u) - {b}.x - unix_timestamp({b}.u)",
    "{b}.x - {a}.x",
    "-{a}.x - {b}.x",
)
EXACT = (*TIMES_APART, *NUMBERS_APART)
LENGTHS = ("INTERVAL 0 SECONDS", "INTERVAL 30 MINUTES", "-INTERVAL '1:30' HOUR TO MINUTE", "INTERVAL 1 DAY 1 HOUR")
NUMBERS = ("0", "1", "-2", "1800", "-86400", "3600000000")


def compared(draw: random.Random, template: str) -> str:
    bound = draw.choice(LENGTHS if template in TIMES_APART else NUMBERS)
    op = draw.choice(["<", "<=", ">", ">=", "=", "!="])
    return f"{template} {op} {bound}"


@given(st.randoms(use_true_random=False), st.sampled_from(EXACT))
def test_what_cannot_overflow_is_separated(draw: random.Random, template: str) -> None:
    predicate = compared(draw, template)
    plain = predicate.format(a="a", b="b")
    query = analyse(parse(f"PATTERN SEQ(A a, B b) WHERE {plain}"), SCHEMA, Binding(time="t", type=None))
    rewritten = rewrite(query)[0].query.where
    # An absolute value is at most something in one way, but at least something in two.
    assert ("ABS" in template and " <" not in predicate) or all(separate(part) is not None for part in rewritten)


@pytest.mark.parametrize(
    "predicate",
    [
        "b.y - a.y < 5",
        "b.x * 2 - a.x < 5",
        "b.n - a.t < INTERVAL 1 DAY",
        "b.day - a.t < INTERVAL 1 DAY",
    ],
)
def test_what_may_overflow_or_round_stays(predicate: str) -> None:
    query = analyse(parse(f"PATTERN SEQ(A a, B b) WHERE {predicate}"), SCHEMA, Binding(time="t", type=None))
    assert [separate(part) for part in rewrite(query)[0].query.where] == [None]


#: Whole numbers of each type, and the least and the greatest of them, whose sums Spark's own arithmetic cannot hold.
WHOLE = {"tiny": ("tinyint", 7), "small": ("smallint", 15), "x": ("int", 31), "big": ("bigint", 63)}
SUMS: dict[str, Callable[[dict[str, int], dict[str, int]], bool]] = {
    "b.tiny - a.tiny <= 5": lambda a, b: b["tiny"] - a["tiny"] <= 5,
    "a.small - b.small > 5": lambda a, b: a["small"] - b["small"] > 5,
    "b.x - a.x < -5": lambda a, b: b["x"] - a["x"] < -5,
    "a.x + b.x = -1": lambda a, b: a["x"] + b["x"] == -1,
    "b.big - a.big <= 5": lambda a, b: b["big"] - a["big"] <= 5,
    "-a.big - b.x != 1": lambda a, b: -a["big"] - b["x"] != 1,
    "a.x - b.big < a.big + 9223372036854775807": lambda a, b: a["x"] - b["big"] < a["big"] + 2**63 - 1,
    "a.tiny - b.small >= 5 - a.big": lambda a, b: a["tiny"] - b["small"] >= 5 - a["big"],
}


@pytest.mark.parametrize("predicate", SUMS)
def test_sums_of_whole_numbers_are_separated(predicate: str) -> None:
    schema = Schema([Field("t", "int"), *(Field(name, type_) for name, (type_, _) in WHOLE.items())])
    query = analyse(parse(f"PATTERN SEQ(A a, B b) WHERE {predicate}"), schema, Binding(time="t", type=None))
    assert all(separate(part) is not None for part in rewrite(query)[0].query.where)


def test_sums_of_whole_numbers_that_no_type_holds(spark: Any) -> None:
    """They are compared as numbers, and nothing fails or wraps."""
    draw = random.Random("whole numbers")

    def number(bits: int) -> int:
        return draw.choice([-(2**bits), 2**bits - 1, draw.randint(-5, 5), draw.randint(-(2**bits), 2**bits - 1)])

    rows = [
        {"t": place, "type": draw.choice("AB")} | {name: number(bits) for name, (_, bits) in WHOLE.items()}
        for place in range(40)
    ]
    schema = "t int, type string, " + ", ".join(f"{name} {type_}" for name, (type_, _) in WHOLE.items())
    events = spark.createDataFrame([tuple(row.values()) for row in rows], schema)
    asked = [
        events.pattern(f"PATTERN SEQ(A a, B b) WHERE {predicate}", time="t")
        .count_trends()
        .select(F.lit(place), "count")
        for place, predicate in enumerate(SUMS)
    ]
    found = dict(map(tuple, reduce(lambda one, other: one.union(other), asked).collect()))
    pairs = [(a, b) for a in rows for b in rows if a["t"] < b["t"] and (a["type"], b["type"]) == ("A", "B")]
    expected = [sum(holds(a, b) for a, b in pairs) for holds in SUMS.values()]
    assert [found.get(place, 0) for place in range(len(SUMS))] == expected
    assert all(0 < count < len(pairs) for count in expected[:3])


def test_ticks_have_room_for_their_difference() -> None:
    schema = Schema([Field("t", "bigint")])
    query = analyse(parse("PATTERN SEQ(A a, B b) WHERE b.t - a.t < 5"), schema, Binding(time="t", type=None))
    assert unparse(rewrite(query)[0].query).endswith("WHERE NEXT(b).t < a.t + 5")


def events_about_changes_of_clocks(spark: Any, draw: random.Random) -> Any:
    """Small groups of events around the nights in which clocks in Berlin are changed; some values are NULL."""
    utc = datetime.timezone.utc
    nights = [datetime.datetime(2024, 3, 31, 1, tzinfo=utc), datetime.datetime(2024, 10, 27, 1, tzinfo=utc)]

    def near(night: datetime.datetime) -> datetime.datetime:
        return night + timedelta(minutes=30 * draw.randint(-6, 6)) + draw.choice([timedelta(0), timedelta(days=1)])

    def or_null(value: Any) -> Any:
        return None if draw.random() < 0.1 else value

    rows = []
    for group in range(12):
        night = draw.choice(nights)
        for number in range(draw.randint(1, 5)):
            rows.append(
                (
                    *(group, number, draw.choice("ABC"), near(night), or_null(near(night))),
                    *(or_null(near(night).replace(tzinfo=None)), or_null(near(night).date())),
                    *(or_null(draw.randint(-2, 2)), or_null(Decimal(draw.randint(-3, 3)))),
                )
            )
    schema = "g int, i int, type string, t timestamp, u timestamp, n timestamp_ntz, day date, x int, d decimal(10,2)"
    return spark.createDataFrame(rows, schema)


@pytest.mark.classic
def test_sums_over_two_events_mean_what_spark_says(spark: Any) -> None:
    draw = random.Random("sums")
    with settings(spark, {"spark.sql.session.timeZone": "Europe/Berlin"}):
        events = events_about_changes_of_clocks(spark, draw).localCheckpoint()
        predicates = [compared(draw, template) for template in EXACT]
        pairs = events.alias("a").join(
            events.alias("b"), F.expr("a.g = b.g AND a.type = 'A' AND b.type = 'B' AND a.t < b.t")
        )
        asked, expected = [], []
        for number, predicate in enumerate(predicates):
            plain = predicate.format(a="a", b="b")
            trends = events.pattern(f"PATTERN SEQ(A a, B b) WHERE [g] AND {plain}", time="t").trends(columns=["i"])
            ids = [F.col("trend")[place]["event"]["i"] for place in range(2)]
            asked.append(trends.select(F.lit(number), "g", *ids))
            expected.append(pairs.filter(F.expr(plain)).select(F.lit(number), "a.g", "a.i", "b.i"))
        found = [
            sorted(map(tuple, reduce(lambda one, other: one.union(other), side).collect()))
            for side in (asked, expected)
        ]
    assert found[0] == found[1]
    assert len({row[0] for row in found[1]}) > len(predicates) / 2


def test_neighbours_and_negated_events_no_further_apart_than_a_length(spark: Any) -> None:
    minutes = [(0, "A"), (10, "A"), (35, "N"), (41, "A"), (50, "B"), (120, "B")]
    start = datetime.datetime(2024, 3, 31, tzinfo=datetime.timezone.utc)
    rows = [(start + timedelta(minutes=minute), kind, minute) for minute, kind in minutes]
    events = spark.createDataFrame(rows, "t timestamp, type string, m int")

    def minutes_of(query: Any) -> set[tuple[int, ...]]:
        return {tuple(each.event.m for each in row.trend) for row in events.pattern(query).trends().collect()}

    negated = cet.event("N")
    gaps = cet.seq(cet.kleene(A), B).where(
        cet.next_(A).t - A.t <= timedelta(minutes=30), B.t - A.t < timedelta(hours=2)
    )
    assert minutes_of(gaps) == {(0, 50), (10, 50), (41, 50), (0, 10, 50), (10, 120), (41, 120)}
    quiet = cet.seq(A, cet.absent(negated), B).where(negated.t - A.t <= timedelta(minutes=30))
    assert minutes_of(quiet) == {(0, 50), (0, 120), (41, 50), (41, 120)}


def test_arithmetic_of_times_and_lengths(spark: Any) -> None:
    rows = [(datetime.datetime(2024, 1, 1, hour), kind) for hour, kind in ((0, "A"), (1, "B"), (3, "B"))]
    events = spark.createDataFrame(rows, "t timestamp, type string")
    hour = timedelta(hours=1)
    asked = [
        A.t + hour == B.t,
        hour + A.t >= B.t,
        B.t - hour == A.t,
        (B.t - A.t) * 2 < 3 * cet.fn.make_dt_interval(0, 1),
        (B.t - A.t).between(hour, hour + timedelta(minutes=1)),
        (B.t - A.t).isin(hour, 2 * hour),
    ]
    found = [events.pattern((A >> B).where(term)).count_trends() for term in asked]
    assert [row[0] for row in reduce(lambda one, other: one.union(other), found).collect()] == [1] * len(asked)
