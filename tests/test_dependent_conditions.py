"""Conditions of DEFINE that depend on the rows which a match has bound before."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from functools import reduce
from typing import Any

import pytest
import rows_reference as reference
from modes import more_on_classic, settings
from pyspark.sql import types as T

from cetdsl.errors import EngineError, UnknownColumn, UnsupportedQuery, recovering
from cetdsl.execution.match_table import TableMatch
from cetdsl.ir.rows import MatchSpec
from cetdsl.kernels.rows.stream import match_stream
from cetdsl.kernels.rows.walk import Effort
from cetdsl.rows.clause import parse_clause
from cetdsl.rows.nodes import Skip, SkipTo

pytestmark = pytest.mark.simple_plans

#: A value of SQL: None is NULL.
Value = Any


class Rows:
    """What a condition of the reference may look at: the rows bound so far, the last of which is tested."""

    def __init__(self, columns: dict[str, Sequence[Value]], start: int, bound: reference.Bound, name: str) -> None:
        self._columns = columns
        labels = [*(label for label, _ in bound), name]
        self._rows = [(start + place, label) for place, label in enumerate(labels)]

    def all(self, column: str, names: str = "ABC") -> list[Value]:
        """The values of rows bound to some variables."""
        return [self._columns[column][row] for row, label in self._rows if label in names]

    def first(self, column: str, names: str = "ABC", offset: int = 0) -> Value:
        values = self.all(column, names)
        return values[offset] if offset < len(values) else None

    def last(self, column: str, names: str = "ABC", offset: int = 0) -> Value:
        return next(iter(self.all(column, names)[::-1][offset:]), None)

    def label(self, offset: int) -> Value:
        """The variable of the row so many rows before the one that is tested."""
        labels = [label for _, label in self._rows]
        return labels[-1 - offset] if offset < len(labels) else None

    def before_last(self, names: str, rows: int) -> Value:
        """The variable of the row so many rows before the last one of some variables."""
        places = [place for place, (_, label) in enumerate(self._rows) if label in names]
        return self._rows[places[-1] - rows][1] if places and places[-1] >= rows else None

    def own(self, column: str) -> Value:
        return self.last(column)

    def before(self, column: str, rows: int) -> Value:
        """Of so many rows before the one that is tested."""
        place = self._rows[-1][0] - rows
        return self._columns[column][place] if place >= 0 else None


def less(one: Value, other: Value) -> Value:
    return None if one is None or other is None else one < other


def equal(one: Value, other: Value) -> Value:
    return None if one is None or other is None else one == other


def both(*values: Value) -> Value:
    return False if False in values else None if None in values else True


def either(*values: Value) -> Value:
    return True if True in values else None if None in values else False


def no(value: Value) -> Value:
    return None if value is None else not value


def added(values: Sequence[Value]) -> Value:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def least(values: Sequence[Value]) -> Value:
    return min((value for value in values if value is not None), default=None)


def mean(values: Sequence[Value]) -> Value:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def plus(one: Value, other: Value) -> Value:
    return None if one is None or other is None else one + other


def times(one: Value, other: Value) -> Value:
    return None if one is None or other is None else one * other


def negative(value: Value) -> Value:
    return None if value is None else -value


def rounded(value: Value, digits: int) -> Value:
    return None if value is None else value.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)


#: Conditions of B in SQL, and by definition.
CONDITIONS: dict[str, Callable[[Rows], Value]] = {
    "x > A.x": lambda r: less(r.last("x", "A"), r.own("x")),
    "B.x <= FIRST(A.x)": lambda r: no(less(r.first("x", "A"), r.own("x"))),
    "x !> A.x AND B.x !< 1": lambda r: both(no(less(r.last("x", "A"), r.own("x"))), no(less(r.own("x"), 1))),
    "x >= LAST(x, 1) AND d IS NOT NULL": lambda r: both(
        no(less(r.own("x"), r.last("x", offset=1))), r.own("d") is not None
    ),
    "x <> FIRST(B.x, 1) OR FIRST(B.x, 1) IS NULL": lambda r: either(
        no(equal(r.own("x"), r.first("x", "B", 1))), r.first("x", "B", 1) is None
    ),
    "(x > A.x) = (x > 1)": lambda r: equal(less(r.last("x", "A"), r.own("x")), less(1, r.own("x"))),
    "(A.x < x) <> (LAST(x, 1) < x + 1) AND (x > A.x OR x > 2) == TRUE": lambda r: both(
        no(equal(less(r.last("x", "A"), r.own("x")), less(r.last("x", offset=1), plus(r.own("x"), 1)))),
        either(less(r.last("x", "A"), r.own("x")), less(2, r.own("x"))),
    ),
    "ARRAY(x)::array<int>[0] > A.x::decimal(10, 2) AND A.x IS NOT NULL": lambda r: both(
        less(r.last("x", "A"), r.own("x")), r.last("x", "A") is not None
    ),
    "COUNT(*) <= 3": lambda r: len(r.all("x")) <= 3,
    "COUNT(B.*) < 3 AND COUNT(A.x) > 0": lambda r: both(
        len(r.all("x", "B")) < 3, any(x is not None for x in r.all("x", "A"))
    ),
    "SUM(x) < 6": lambda r: less(added(r.all("x")), 6),
    "AVG(B.x) > AVG(A.x)": lambda r: less(mean(r.all("x", "A")), mean(r.all("x", "B"))),
    "AVG(d) <= 1.5": lambda r: no(less(1.5, mean(r.all("d")))),
    "SUM(B.d) + x > 2": lambda r: less(2, plus(added(r.all("d", "B")), r.own("x"))),
    "MIN(A.x) = x": lambda r: equal(least(r.all("x", "A")), r.own("x")),
    "s > MIN(s)": lambda r: less(least(r.all("s")), r.own("s")),
    "s IN (A.s, 'b', FIRST(B.s))": lambda r: either(
        equal(r.own("s"), r.last("s", "A")), equal(r.own("s"), "b"), equal(r.own("s"), r.first("s", "B"))
    ),
    "ABS(x - A.x) <= 1": lambda r: (
        None if r.own("x") is None or r.last("x", "A") is None else abs(r.own("x") - r.last("x", "A")) <= 1
    ),
    "x BETWEEN FIRST(x) - 1 AND 2 * LAST(A.x)": lambda r: both(
        no(less(r.own("x"), plus(r.first("x"), -1))), no(less(plus(r.last("x", "A"), r.last("x", "A")), r.own("x")))
    ),
    "NOT (x > A.x OR s = A.s)": lambda r: no(
        either(less(r.last("x", "A"), r.own("x")), equal(r.own("s"), r.last("s", "A")))
    ),
    "COALESCE(A.x, 2) = x": lambda r: equal(2 if r.last("x", "A") is None else r.last("x", "A"), r.own("x")),
    "A.x <=> x": lambda r: r.last("x", "A") == r.own("x"),
    "x > PREV(x) AND x > PREV(FIRST(B.x))": lambda r: both(
        less(r.before("x", 1), r.own("x")),
        less(r.before("x", len(r.all("x")) - _first_of(r, "B")), r.own("x")),
    ),
    "U.x < x": lambda r: less(r.last("x", "AC"), r.own("x")),
    "m - A.m > 1.5": lambda r: less(Decimal("1.5"), plus(r.own("m"), negative(r.last("m", "A")))),
    "x - A.x > 0.5": lambda r: less(0.5, plus(r.own("x"), negative(r.last("x", "A")))),
    "SUM(m) - 0.125 <= 2 * LAST(m) - ABS(-x)": lambda r: no(
        less(
            plus(plus(r.own("m"), r.own("m")), negative(r.own("x"))),
            plus(added(r.all("m")), negative(Decimal("0.125"))),
        )
    ),
    "AVG(m) < 0.333334": lambda r: less(rounded(mean(r.all("m")), 6), Decimal("0.333334")),
    "m * A.m >= 2.25 OR m % 1 + A.m = 0.5": lambda r: either(
        no(less(times(r.own("m"), r.last("m", "A")), Decimal("2.25"))),
        equal(plus(None if r.own("m") is None else r.own("m") % 1, r.last("m", "A")), Decimal("0.5")),
    ),
    "LAST(CLASSIFIER(), 1) = 'A' OR x > 2": lambda r: either(equal(r.label(1), "A"), less(2, r.own("x"))),
    "PREV(CLASSIFIER()) IS NULL OR PREV(LAST(CLASSIFIER(A)), 1) = 'B'": lambda r: either(
        r.label(1) is None, equal(r.before_last("A", 1), "B")
    ),
    "LAST(CASE WHEN CLASSIFIER() = 'A' THEN x ELSE d END, 1) < 2": lambda r: less(
        None if r.label(1) is None else r.last("x" if r.label(1) == "A" else "d", offset=1), 2
    ),
    "A.s || 'x' < s || 'y'": lambda r: less(
        None if r.last("s", "A") is None else r.last("s", "A") + "x",
        None if r.own("s") is None else r.own("s") + "y",
    ),
}


def _first_of(rows: Rows, name: str) -> int:
    """How many rows stand before the first one of a variable."""
    return next(place for place, (_, label) in enumerate(rows._rows) if label == name)


#: The conditions of A and C look at the row only.
LOCAL = {"A": ("s <> 'c'", lambda r: no(equal(r.own("s"), "c"))), "C": ("x > 1", lambda r: less(1, r.own("x")))}
PATTERNS = ["A B+", "A+ B* C", "(A | B)+ C?", "A B+? C", "(A B? | B){1,3}", "B+ A{0,2} B", "PERMUTE(A, B, C)"]


def streams(seed: int) -> list[dict[str, list[Value]]]:
    draw = random.Random(seed)
    found = []
    for _ in range(40):
        many = draw.randint(1, 7)
        found.append(
            {
                "x": [draw.choice([None, 0, 1, 2, 3]) for _ in range(many)],
                "d": [draw.choice([None, 0.5, 1.5, 2.0]) for _ in range(many)],
                "s": [draw.choice([None, "a", "b", "c"]) for _ in range(many)],
                "m": [draw.choice([None, *map(Decimal, ("0", "0.5", "1.5", "-1.5", "0.01"))]) for _ in range(many)],
            }
        )
    return found


@pytest.mark.parametrize("condition", more_on_classic(*CONDITIONS))
def test_matches_are_those_of_the_reference(spark: Any, condition: str) -> None:
    data = streams(len(condition))
    rows = [
        (key, place, *(stream[name][place] for name in "xdsm"))
        for key, stream in enumerate(data)
        for place in range(len(stream["x"]))
    ]
    df = spark.createDataFrame(rows, "k int, t int, x int, d double, s string, m decimal(5,2)").coalesce(1).cache()
    expected, found = set(), set()
    answers = []
    for number, text in enumerate(PATTERNS):
        to = (SkipTo.PAST_LAST, SkipTo.NEXT_ROW)[number % 2]
        names = [name for name in "ABC" if name in text.replace("PERMUTE", "")]
        defined = ", ".join(f"{name} AS {condition if name == 'B' else LOCAL[name][0]}" for name in names)
        unbound = [name for name in "ABC" if name not in names]
        if any(f"{name}." in condition.replace("U.", "") for name in unbound):
            continue
        subset = "SUBSET U = (A, C)" if "C" in names else "SUBSET U = (A)"
        clause = f"""PARTITION BY k ORDER BY t
            MEASURES FIRST(t) AS t, ARRAY_JOIN(ARRAY_AGG(CLASSIFIER()), '') AS labels, {number} AS pattern
            AFTER MATCH SKIP {to.value} PATTERN ({text}) {subset} DEFINE {defined}"""
        answers.append(df.match_recognize(clause))
        pattern = parse_clause(f"PATTERN ({text})").pattern
        for key, stream in enumerate(data):

            def holds(name: str, row: int, start: int, bound: reference.Bound, stream: Any = stream) -> bool:
                look = CONDITIONS[condition] if name == "B" else LOCAL[name][1]
                return look(Rows(stream, start, bound, name)) is True

            for match in reference.matches(pattern, len(stream["x"]), holds, Skip(to)):
                if isinstance(match, reference.Match):
                    expected.add((key, match.start, "".join(name for name, _ in match.bound), number))
    united = answers[0]
    for answer in answers[1:]:
        united = united.union(answer)
    found = {(row.k, row.t if row.labels else None, row.labels, row.pattern) for row in united.collect()}
    assert found == {(key, start if labels else None, labels, number) for key, start, labels, number in expected}
    assert any("B" in labels for _, _, labels, _ in expected)
    df.unpersist()


SCHEMA = T.StructType().add("t", "integer").add("x", "integer").add("d", "double").add("s", "string")


def told(clause: str, rows: list[tuple]) -> tuple[MatchSpec, Any]:
    """What the kernel is told of a clause, and the rows as it reads them."""
    return TableMatch(SCHEMA, clause)._told(rows)


def matches_of(clause: str, rows: list[tuple], patience: int, steps: int = 1 << 28) -> list[Any]:
    """What the kernel finds where it remembers what leads to no match from so many failures on."""
    spec, batch = told(clause, rows)
    found = match_stream(spec, iter([batch]), effort=Effort(patience, steps))
    return [[column.to_pylist() for column in columns] for columns in found]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_what_is_remembered_changes_no_match(condition: str) -> None:
    """Patterns that can be tried in many ways, over rows that nothing tells apart but the condition."""
    for number, pattern in enumerate(["(A | B)* C", "(A B? | B)+ A{2} C", "(A? B)* (A | B)+? C"]):
        clause = f"""ORDER BY t MEASURES ARRAY_AGG(CLASSIFIER()) AS labels
            AFTER MATCH SKIP {(SkipTo.PAST_LAST, SkipTo.NEXT_ROW)[number % 2].value}
            PATTERN ({pattern}) SUBSET U = (A, C) DEFINE B AS {condition}, C AS {condition.replace("B.", "C.")}"""
        for stream in streams(number)[:12]:
            rows = [(n, *(stream[name][n] for name in "xds")) for n in range(len(stream["x"]))] * 2
            rows = [(place, *row[1:]) for place, row in enumerate(rows)]
            if "||" not in condition and "m" not in condition:
                assert matches_of(clause, rows, 0) == matches_of(clause, rows, 1 << 28)


@pytest.mark.parametrize(
    "condition",
    ["x >= FIRST(A.x)", "x > LAST(A.x, 1)", "x < MIN(x) + 9", "COUNT(*) < 99 AND x < LAST(B.x) + 5", "SUM(x) >= 0"],
)
def test_nested_quantifiers_take_no_exponential_time(condition: str) -> None:
    """Each of many ways to bind the rows fails at their end; conditions do not tell most of them apart."""
    rows = [(n, 7, 0.5, "a") for n in range(120)]
    clause = f"""ORDER BY t MEASURES 1 AS one PATTERN ((A | B | A B)* C)
        DEFINE B AS {condition}, C AS s = 'c' AND x > LAST(A.x)"""
    assert matches_of(clause.replace("s = 'c' AND", "x < 0 AND"), rows, 1000, 1 << 22) == []
    late = clause.replace("C AS s = 'c' AND x > LAST(A.x)", "C AS x > LAST(A.x)")
    assert matches_of(late, rows, 1000, 1 << 22) == []


def test_what_is_told_apart_in_too_many_ways_is_given_up() -> None:
    rows = [(n, 2**n, 0.5, "a") for n in range(31)]
    clause = """ORDER BY t MEASURES 1 AS one PATTERN ((A | B)* C) DEFINE C AS SUM(A.x) = -1"""
    with pytest.raises(EngineError, match="match 1 was not found in 100,000 steps") as caught:
        matches_of(clause, rows, 0, 100_000)
    assert "LAST(A.x) in place of SUM(A.x)" in str(caught.value)


def test_partitions_longer_than_a_chunk(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each match is as long as its values add up to less than a hundred."""
    df = spark.range(400_000).selectExpr("id", "1 + id % 7 AS x")
    found = df.match_recognize(
        """ORDER BY id MEASURES SUM(x) AS total, COUNT(*) AS n, FIRST(id) AS first
        PATTERN (A+) DEFINE A AS SUM(x) < 100"""
    )
    totals = [row.n for row in found.orderBy("first").collect()]
    expected, total, many = [], 0, 0
    for number in range(400_000):
        value = 1 + number % 7
        if total + value >= 100:
            expected.append(many)
            total, many = 0, 0
        total, many = total + value, many + 1
    assert totals == [*expected, many]


def test_the_clause_of_flink_s_guide(spark: Any) -> None:
    """Prices fall, each below the one before, and then rise: the condition looks at earlier rows by LAST."""
    prices = [12, 17, 19, 21, 25, 18, 15, 14, 24, 25, 19]
    df = spark.createDataFrame(list(enumerate(prices)), "t int, price int")
    found = df.match_recognize(
        """ORDER BY t
        MEASURES START_ROW.t AS start_t, LAST(PRICE_DOWN.t) AS bottom_t, LAST(PRICE_UP.t) AS end_t
        ONE ROW PER MATCH AFTER MATCH SKIP TO LAST PRICE_UP
        PATTERN (START_ROW PRICE_DOWN+ PRICE_UP)
        DEFINE
            PRICE_DOWN AS
                (LAST(PRICE_DOWN.price, 1) IS NULL AND PRICE_DOWN.price < START_ROW.price)
                OR PRICE_DOWN.price < LAST(PRICE_DOWN.price, 1),
            PRICE_UP AS PRICE_UP.price > LAST(PRICE_DOWN.price, 1)"""
    )
    assert [tuple(row) for row in found.collect()] == [(4, 7, 8)]


@pytest.mark.parametrize(
    ("condition", "message"),
    more_on_classic(
        ("CASE WHEN x > A.x THEN TRUE END", "brings several rows together"),
        ("s LIKE A.s", "brings several rows together by LIKE"),
        ("x DIV A.x = 1", "brings several rows together by DIV"),
        ("4 | x + A.x = 12", "brings several rows together by |"),
        ("x + A.x ^ 3 & x = 12", "brings several rows together by ^"),
        ("1 + x & A.x << 1 = 12", "brings several rows together by &"),
        ("x - A.x >>> 1 + x = 12", "brings several rows together by >>>"),
        ("CONCAT(s, A.s) = 'ab'", "brings several rows together"),
        ("m / A.m > 1", "decimals are not divided across rows"),
        ("n * A.n * n > 1", "more digits than Spark keeps"),
        ("SUM(wide) > 1", "cannot be computed while rows are matched"),
        ("(m + A.m) * 1D > 1", "is not made a DOUBLE"),
        ("ts - A.ts > 1", "a bigint and a length of time are not brought together"),
        ("(ts - A.ts) * 2 > INTERVAL '1' HOUR", "a bigint and a length of time are not brought together"),
        ("ts + A.ts > ts", "+ is not known of a time"),
        ("ARRAY(x) = ARRAY(A.x)", "values of type array<int> cannot be compared across rows"),
        ("x + A.x", "is a number, not true or false"),
        ("COUNT(*)", "is a number, not true or false"),
        ("SUM(CASE WHEN CLASSIFIER() = 'A' THEN x END) > 1", "aggregates what depends on labels"),
        ("PREV(CLASSIFIER() || s) = 'Aa'", "takes a label or values of columns, not both"),
        ("ARRAY_AGG(x) = A.x", "lists rows"),
        ("nowhere > A.x", "no column 'nowhere'"),
    ),
)
def test_what_cannot_be_asked_is_refused_at_once(spark: Any, condition: str, message: str) -> None:
    df = spark.createDataFrame(
        [], "t int, x int, s string, m decimal(5,2), ts timestamp, wide decimal(38,18), n decimal(18,2)"
    )
    clause = f"ORDER BY t MEASURES 1 AS one PATTERN (A B) DEFINE B AS {condition}"
    with pytest.raises((UnsupportedQuery, UnknownColumn)) as caught:
        df.match_recognize(clause)
    assert message in caught.value.message
    assert caught.value.hint
    assert caught.value.text == clause
    assert caught.value.span[1] <= len(clause)


@pytest.mark.classic
@pytest.mark.parametrize("condition", ["s > A.x", "x = A.s", "s IN (A.s, A.x)", "s <> A.d", "x BETWEEN A.s AND 'b'"])
def test_texts_are_compared_with_texts_alone_without_ansi_mode(spark: Any, condition: str) -> None:
    """Spark would compare numbers here, and texts in IN."""
    df = spark.createDataFrame([(1, 9, "9", 9.0), (2, 10, "10", 10.0)], "t int, x int, s string, d double")
    clause = f"ORDER BY t MEASURES 1 AS one PATTERN (A B) DEFINE B AS {condition}"
    with settings(spark, {"spark.sql.ansi.enabled": "false"}):
        with pytest.raises(UnsupportedQuery, match="a text is not compared with a value of type") as caught:
            df.match_recognize(clause)
        assert caught.value.text == clause
        for casts, expected in (("CAST(s AS int) > A.x", 1), ("s > CAST(A.x AS string)", 0), ("s <> A.s", 1)):
            found = df.match_recognize(clause.replace(condition, casts))
            assert len(found.collect()) == expected, casts


DIFFERENCES = [
    "b.ts - a.ts < INTERVAL '1' HOUR",
    "b.ts - a.ts >= b.gap",
    "ABS(b.ntz - a.ntz) > INTERVAL '30' MINUTE",
    "b.ntz - a.ntz + a.gap <= INTERVAL '2' HOUR",
    "-(b.d - a.d) = INTERVAL '-1' DAY",
    "b.ts - a.d <=> a.gap",
    "NOT b.ts - a.ts IS NULL AND b.gap < a.gap",
]


def test_differences_of_times_are_those_of_spark(spark: Any) -> None:
    """Around the hour that a clock leaves out, and the one that it repeats."""
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        moments = ["2024-03-31 01:30:00", "2024-03-31 03:15:00.5", "2024-10-27 00:30:00", None, "2024-10-27 02:30:00"]
        moments += ["2024-10-27 03:10:00", "1969-12-31 23:59:59.9", "1970-01-01 00:00:00"]
        gaps = [None, 0, 3_600, 1_800, None, 7_200, -1, 0]
        lengths = [None if gap is None else datetime.timedelta(seconds=gap) for gap in gaps]
        rows = list(zip(range(len(moments)), moments, lengths))
        df = spark.createDataFrame(rows, "t int, at string, gap interval day to second").selectExpr(
            "t", "gap", "CAST(at AS timestamp) AS ts", "CAST(at AS timestamp_ntz) AS ntz", "CAST(at AS date) AS d"
        )
        df.createOrReplaceTempView("moments")
        answers, pairs = [], []
        for number, condition in enumerate(DIFFERENCES):
            pairs.append(f"SELECT {number}, a.t FROM moments a JOIN moments b ON b.t = a.t + 1 WHERE {condition}")
            clause = f"""ORDER BY t MEASURES {number} AS n, A.t AS t AFTER MATCH SKIP TO NEXT ROW PATTERN (A B)
                DEFINE B AS {condition}"""
            answers.append(df.match_recognize(clause))
        found = reduce(lambda one, other: one.union(other), answers)
        expected = spark.sql(" UNION ALL ".join(pairs))
        assert sorted(map(tuple, found.collect())) == sorted(map(tuple, expected.collect()))
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
        spark.catalog.dropTempView("moments")


def test_columns_called_like_keywords(spark: Any) -> None:
    df = spark.createDataFrame([(1, 5, 3), (2, 7, 2), (3, 6, 1)], ["t", "end", "case"])
    found = df.match_recognize(
        """ORDER BY t MEASURES A.t AS a, LAST(B.t) AS b PATTERN (A B+)
        DEFINE B AS B.end > A.end AND (B.case < A.case OR A.end = B.end - CASE WHEN t > 0 THEN 1 END)"""
    )
    assert [tuple(row) for row in found.collect()] == [(1, 3)]


def test_what_cannot_be_computed_is_an_error_of_the_run(spark: Any) -> None:
    df = spark.createDataFrame([(1, 0, 2**62), (2, 3, 2**62)], "t int, x int, big long")
    for condition in ("x / A.x > 1", "x % A.x > 1", "big + A.big > 1", "SUM(big) > 1", "big * A.big > 1"):
        clause = f"PARTITION BY x % 1 ORDER BY t MEASURES 1 AS one PATTERN (A B) DEFINE B AS {condition}"
        answer = df.match_recognize(clause.replace("PARTITION BY x % 1 ", ""))
        with pytest.raises(EngineError, match="the condition of B divides by zero, or a number"), recovering():
            answer.collect()
    guarded = df.match_recognize("ORDER BY t MEASURES 1 AS one PATTERN (A B) DEFINE B AS A.x > 0 AND x / A.x > 1")
    assert guarded.collect() == []
