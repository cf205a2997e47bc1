"""``cet.register(spark)``: MATCH_RECOGNIZE called from stock Spark SQL gives what ``match_recognize`` gives."""

from __future__ import annotations

import datetime
import math
import time
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import types as T

import cetdsl as cet
from cetdsl.errors import (
    CetdslError,
    CountOverflow,
    EngineError,
    InvalidNode,
    ParseError,
    QueryTypeError,
    UnknownColumn,
    UnsupportedQuery,
    WindowError,
)
from cetdsl.execution.match_table import TableMatch
from cetdsl.kernels.rows.evaluate import evaluate
from cetdsl.rows.expressions import read_expression

SCHEMA = (
    "k string, day int, price int, d double, s string, b boolean, m decimal(6,2), at timestamp_ntz, on date,"
    " xs array<int>"
)
WHOLE = T.StructType([T.StructField("x", T.LongType())])
NAN = float("nan")


def row(k: str, day: int, price: int | None, d: float | None, s: str | None, b: bool | None) -> tuple[Any, ...]:
    at = datetime.datetime(2024, 2, 28, 23, 30) + datetime.timedelta(hours=day)
    return k, day, price, d, s, b, None if price is None else Decimal(price) / 4, at, at.date(), [day]


ROWS = [
    *[
        row("u", n, price, d, s, b)
        for n, (price, d, s, b) in enumerate(
            [
                (9, 1.5, "ab", True),
                (7, NAN, "a%", None),
                (5, -0.0, None, False),
                (8, 0.0, "b", True),
                (8, None, "ab", None),
            ]
        )
    ],
    *[row("v", n, price, NAN, "x", True) for n, price in enumerate([3, None, 4, 6, 2])],
]


@pytest.fixture(scope="module")
def table(spark: Any) -> Any:
    df = spark.createDataFrame(ROWS, SCHEMA).repartition(3).cache()
    df.createOrReplaceTempView("some_rows")
    cet.register(spark)
    return df


def comparable(value: Any) -> Any:
    if isinstance(value, list):
        return [comparable(each) for each in value]
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def rows_of(df: Any) -> list[Any]:
    return sorted(([comparable(value) for value in row] for row in df.collect()), key=str)


FALLS = "PATTERN (strt down+ up*) DEFINE down AS price < PREV(price), up AS price >= PREV(price)"
CLAUSES = [
    f"MEASURES strt.day AS since, LAST(down.price) AS low, AVG(up.price) AS mean, COUNT(*) AS n {FALLS}",
    "MEASURES CLASSIFIER() AS v, LAST(day) AS d PATTERN (`it's a\\b` B) DEFINE `it's a\\b` AS TRUE, "
    "B AS LAST(CLASSIFIER(), 1) = 'it\\'s a\\\\b'",
    f"MEASURES CLASSIFIER() AS v, MATCH_NUMBER() AS n, FINAL SUM(price) AS total ALL ROWS PER MATCH {FALLS}",
    "MEASURES COUNT(DISTINCT price) AS a, SUM(DISTINCT price) AS b, ARRAY_AGG(s) AS c, MIN(d) AS d0, MAX(at) AS e,"
    " SUM(d) AS f, ARRAY_AGG(on) AS g PATTERN (A+)",
    "MEASURES FIRST(A.day) AS x, PREV(A.price, 2) AS y ALL ROWS PER MATCH WITH UNMATCHED ROWS"
    " AFTER MATCH SKIP TO LAST B PATTERN (A B+?) DEFINE B AS price > A.price AND SUM(price) < 30",
    "MEASURES A.m AS m, A.on AS on0, A.m < 2 AS small, A.price / 2 AS half, A.price % 4 AS rest PATTERN (A) WITHIN 2"
    " DEFINE A AS s LIKE 'a%' OR s IS NULL OR d = 0 AND NOT b",
    "MEASURES LAST(day) AS x PATTERN (A B*) WITHIN INTERVAL '1' HOUR",
    "MEASURES A.day AS day, CASE WHEN A.day <> 1 THEN A.price / (A.day - 1) END AS x PATTERN (A)"
    " DEFINE A AS price > 2 AND (day = 1 OR price / (day - 1) > 0)",
]


@pytest.mark.parametrize("clause", CLAUSES)
def test_matches_are_those_of_match_recognize(table: Any, clause: str) -> None:
    order = "at" if "INTERVAL" in clause else "day"
    whole = f"PARTITION BY k ORDER BY {order} {clause}"
    expected = table.match_recognize(whole)
    match = TableMatch(table.schema, whole)
    assert [(f.name, f.dataType) for f in match.schema_of_answer()] == [
        (f.name, f.dataType) for f in expected.schema
    ] or "ARRAY_AGG" in clause
    found: list[Any] = []
    for key in "uv":
        found += match.answer([each for each in ROWS if each[0] == key])
    assert sorted(([comparable(value) for value in each] for each in found), key=str) == rows_of(expected)


def test_sql_calls_it_with_a_partition_of_the_call_or_of_the_clause(spark: Any, table: Any) -> None:
    of_clause = spark.sql(f"SELECT * FROM cet(TABLE(some_rows), 'PARTITION BY k ORDER BY day DESC {CLAUSES[0]}')")
    expected = table.match_recognize(f"PARTITION BY k ORDER BY day DESC {CLAUSES[0]}")
    assert of_clause.columns == expected.columns
    assert rows_of(of_clause) == rows_of(expected)
    clause = CLAUSES[0].replace("MEASURES", "MEASURES FIRST(k) AS k,")
    of_call = spark.sql(
        f"SELECT k, low, n FROM cet('{clause}', TABLE(some_rows) PARTITION BY k ORDER BY day) WHERE n > 1"
    )
    assert rows_of(of_call) == rows_of(
        table.match_recognize(f"PARTITION BY k ORDER BY day {CLAUSES[0]}").select("k", "low", "n").where("n > 1")
    )


def test_a_clause_without_a_partition_takes_all_rows_in_one(spark: Any, table: Any) -> None:
    clause = "ORDER BY day, k MEASURES COUNT(*) AS n, LAST(day) AS day PATTERN (A+)"
    assert rows_of(spark.sql(f"SELECT n, day FROM cet(TABLE(some_rows), '{clause}')")) == [[10, 4]]


def test_errors_are_those_of_a_call(spark: Any, table: Any) -> None:
    with pytest.raises(Exception, match=r"cetdsl.errors.ParseError: the pattern does not end"):
        spark.sql("SELECT * FROM cet(TABLE(some_rows), 'ORDER BY day MEASURES 1 AS x PATTERN (A')").collect()
    with pytest.raises(Exception, match=r"cetdsl.errors.InvalidNode: no argument is a table"):
        spark.sql("SELECT * FROM cet(1, 'PATTERN (A)')").collect()


@pytest.mark.parametrize("name", ["", "a b", "1x", None])
def test_a_name_that_sql_cannot_call_is_refused(spark: Any, name: Any) -> None:
    with pytest.raises(InvalidNode, match="no name of a function"):
        cet.register(spark, name)


@pytest.mark.parametrize(
    ("clause", "kind", "message", "at"),
    [
        ("MEASURES regexp_count(s, 'a') AS x PATTERN (A)", UnsupportedQuery, "REGEXP_COUNT", "regexp_count(s, 'a')"),
        ("MEASURES A.xs AS x PATTERN (A)", UnsupportedQuery, "the column 'col 9'", ""),
        ("MEASURES A.m + 1 AS x PATTERN (A)", UnsupportedQuery, "arithmetic of decimals", "A.m + 1"),
        ("MEASURES SUM(m) AS x PATTERN (A)", UnsupportedQuery, "decimal(6,2)", "SUM(m)"),
        ("MEASURES 1 AS x PATTERN (A) DEFINE A AS price + 1", CetdslError, "of type int", "price + 1"),
        ("MEASURES 1 AS x PATTERN (A) DEFINE A AS nowhere > 1", UnknownColumn, "nowhere", "nowhere"),
        ("MEASURES CLASSIFIER || 'x' AS x PATTERN (A)", UnknownColumn, "no column 'CLASSIFIER'", "CLASSIFIER"),
        ("MEASURES 1 AS x PATTERN (A) DEFINE A AS s > 1", UnsupportedQuery, "int32 and string", "s > 1"),
        (
            "MEASURES 1 AS x PATTERN (A) DEFINE A AS at - INTERVAL 1 DAY > at",
            UnsupportedQuery,
            "INTERVAL",
            "at - INTERVAL 1 DAY > at",
        ),
        ("MEASURES 1 AS x PATTERN (A", ParseError, "does not end", ""),
        (
            "MEASURES 1 AS x PATTERN (A) DEFINE A AS price AND b",
            UnsupportedQuery,
            "int32 in place of true",
            "price AND b",
        ),
        ("MEASURES A.d || s AS x PATTERN (A)", UnsupportedQuery, "text of a double", "A.d || s"),
        ("MEASURES CONCAT(d) AS x PATTERN (A)", UnsupportedQuery, "text of a double", "CONCAT(d)"),
        (
            "MEASURES 1 AS x PATTERN (A) DEFINE A AS CAST(timestamp(at) AS string) = s",
            UnsupportedQuery,
            "text of a timestamp, which depends on the session's zone",
            "CAST(timestamp(at) AS string) = s",
        ),
        (
            "MEASURES CAST(timestamp(A.at) AS bigint) AS x PATTERN (A)",
            UnsupportedQuery,
            "CAST between times and numbers",
            "CAST(timestamp(A.at) AS bigint)",
        ),
        (
            "MEASURES CAST(CAST(A.m AS decimal(9,7)) AS string) AS x PATTERN (A)",
            UnsupportedQuery,
            "text of a decimal128(9, 7)",
            "CAST(CAST(A.m AS decimal(9,7)) AS string)",
        ),
        (r"MEASURES '\ud83d' AS x PATTERN (A)", UnsupportedQuery, r"\ud83d, which is no character", r"'\ud83d'"),
        (
            "MEASURES A.day - 9223372036854775808 AS x PATTERN (A)",
            UnsupportedQuery,
            "the number 9223372036854775808",
            "A.day - 9223372036854775808",
        ),
    ],
)
def test_what_only_spark_can_evaluate_is_refused_before_rows_come(
    table: Any, clause: str, kind: type[CetdslError], message: str, at: str
) -> None:
    with pytest.raises(kind) as caught:
        TableMatch(table.schema, clause)
    assert message in caught.value.message
    if at in ("CLASSIFIER", "MATCH_NUMBER"):
        assert caught.value.hint == f"write {at}()"
    if at:
        assert caught.value.text == clause
        assert caught.value.span is not None
        assert clause[slice(*caught.value.span)] == at


def test_what_has_no_order_is_no_key(spark: Any) -> None:
    schema, text = spark.range(1).selectExpr("id AS t", "map('k', id) AS m").schema, "{} MEASURES 1 AS x PATTERN (A)"
    with pytest.raises(
        QueryTypeError, match="the partition column 'm' is of type map<string,bigint>, which has no order"
    ):
        TableMatch(schema, text.format("PARTITION BY m ORDER BY t"))
    with pytest.raises(QueryTypeError, match="the order column 'm'"):
        TableMatch(schema, text.format("ORDER BY t, m"))


def test_a_time_that_within_cannot_go_by_is_refused(table: Any) -> None:
    with pytest.raises(WindowError, match="WITHIN 5 does not fit 's'"):
        TableMatch(table.schema, "ORDER BY s MEASURES 1 AS x PATTERN (A) WITHIN 5")


@pytest.fixture
def clock_of_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")  # of Berlin, for systems that know no zones
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("clock_of_berlin")
def test_within_goes_by_moments_where_the_clock_is_set_back() -> None:
    schema = T.StructType([T.StructField("at", T.TimestampType())])
    match = TableMatch(schema, "ORDER BY at MEASURES COUNT(*) AS n PATTERN (A B*) WITHIN INTERVAL '1' HOUR")
    shown = [datetime.datetime(2024, 10, 27, 2, minute, fold=fold) for minute, fold in ((30, 0), (10, 1), (50, 1))]
    assert list(match.answer([(moment,) for moment in shown])) == [(2,), (1,)]


def test_a_time_before_the_first_is_within_a_span() -> None:
    match = TableMatch(WHOLE, "ORDER BY x MEASURES COUNT(*) AS n PATTERN (A B*) WITHIN 3")
    assert list(match.answer([(10,), (5,), (12,)])) == [(3,)]


def test_whole_numbers_beyond_those_that_doubles_hold_are_rounded_or_refused() -> None:
    match = TableMatch(WHOLE, "ORDER BY x MEASURES AVG(A.x) AS a, LAST(A.x) / 3 AS b PATTERN (A+) DEFINE A AS x > 1.5")
    assert list(match.answer([(2**53 + 1,), (2**53 + 3,)])) == [(float(2**53 + 2), float(2**53 + 3) / 3)]
    total = TableMatch(WHOLE, "ORDER BY x MEASURES SUM(DISTINCT x) AS s PATTERN (A+)")
    assert list(total.answer([(2**63 - 2,), (1,)])) == [(2**63 - 1,)]
    with pytest.raises(CountOverflow, match="does not fit BIGINT"):
        list(total.answer([(2**63 - 2,), (2,)]))


EXPRESSIONS = [
    *(
        "price + 1",
        "price * 2L",
        "-price",
        "price / 4",
        "price % 3",
        "-7 % price",
        "abs(price - 8)",
        "d * 2",
        "price - d",
    ),
    *(f"d {op} {other}" for op in ("=", "<>", "<", "<=", ">", ">=", "<=>") for other in ("0", "double('nan')")),
    *(f"d {op} price" for op in ("<", "<=>", ">=")),
    *(
        "s || 'x'",
        "concat(s, k)",
        "upper(s)",
        "length(s)",
        "s = 'ab'",
        "s > 'a'",
        "s LIKE 'a%'",
        r"s LIKE 'a\\%'",
        "s LIKE '_'",
    ),
    *(
        "price IN (7, 8)",
        "price NOT IN (7, NULL)",
        "price BETWEEN 6 AND 8",
        "NOT price BETWEEN 6 AND 8",
        "s IS NOT NULL",
    ),
    *("b AND price > 6", "b OR price > 6", "NOT b", "b IS TRUE", "b IS NOT FALSE", "b <=> NULL", "b < TRUE"),
    *("coalesce(price, 0)", "coalesce(d, price)", "if(b, price, day)", "nullif(price, 8)", "greatest(price, day)"),
    *(
        "CASE WHEN price > 7 THEN 'hi' WHEN price > 5 THEN s END",
        "CASE k WHEN 'u' THEN 1 ELSE day END",
        "least(price, 6)",
    ),
    *(
        "CAST(price * 1.5D AS int)",
        "CAST(price AS double)",
        "CAST(b AS int)",
        "CAST(price AS string)",
        "CAST('7' AS bigint) + price",
    ),
    *("m > 1", "m < price", "m = CAST(1.75 AS decimal(10,3))", "on > DATE '2024-02-28'", "on = '2024-02-29'"),
    *(
        "at >= TIMESTAMP_NTZ '2024-02-29 01:00:00'",
        "at > '2024-02-29 01:00:00'",
        "at = on",
        "1 + 2 * 3 - 4",
        "2e1",
    ),
    # What is guarded against is not computed, unless Spark finds it in several expressions: the numerators differ.
    *(
        "price <> 8 AND 1 / (price - 8) > 0",
        "price = 8 OR 2 / (price - 8) > 0",
        "CASE WHEN price <> 8 THEN 3 / (price - 8) END",
        "CASE WHEN price = 8 THEN 0 WHEN 4 / (price - 8) > 1 THEN 1 ELSE 8 % (price - 8) END",
        "if(price = 8, 0, if(day <> 0, 5 / ((price - 8) * day), -1))",
        "coalesce(nullif(price, 8) + 1, 8 - price, 6 / (price - 8))",
        "NULL / 0",
        "price % nullif(price, 8)",
        "CASE WHEN s LIKE '20%' THEN on >= s END",
        "s LIKE '20%' AND at > s",
        "coalesce(on, s)",
        "s = NULL OR at > NULL",
    ),
    *("if(NULL, 1, 2)", "b AND NULL", "NULL OR b", "NOT NULL", "CASE NULL WHEN 1 THEN 1 ELSE 2 END"),
    *(
        "1.0D % 0.1D",
        "d % 0.75D",
        "price % 2.5D",
        "double('inf') % (d + 7)",
        "price % NULL",
        "CAST(price AS bigint) % -3L",
    ),
    *("greatest(d, 1D)", "least(d, 1D)", "greatest(d, price, NULL)", "least(s, 'b')", "greatest(b, FALSE)"),
    *("least(at, NULL)", "greatest(m, 2)"),
    *("CAST(at AS string)", "at || s", "CAST(TIMESTAMP_NTZ '2024-02-28 23:30:00.120' AS string)", "on || '!'"),
    *("CAST(m AS string)", "concat(price)", "b || ''"),
    *(
        rf"'{escape}'"
        for escape in (r"\u00e9", r"\U0001F600", r"\Z", r"\101", r"\1011", r"\201", r"\0", r"\00", r"\400")
    ),
    *(rf"'{escape}'" for escape in (r"\u00g9", r"\x", r"\\", r"\%", r"\'", r"a\nb", "a\\\nb", r"\\u00e9")),
    *("CAST(price AS bigint) + 9007199254740993L > 1.5D", "(price + 9007199254740993L) / 2"),
    *("CAST(9007199254740993L AS float)", "CAST(9007199254740994D AS bigint)"),
    *("CAST(m AS int)", "CAST(CAST(-1.75D AS decimal(5,2)) AS int)"),
    *("CAST(1.55D AS decimal(5,1))", "CAST(1.45D AS decimal(5,1))", "CAST(-1.45D AS decimal(5,1))"),
    *("CAST(d AS decimal(10,2))", "CAST(price AS decimal(5,2))", "CAST(m AS decimal(4,1))", "CAST(m AS double)"),
    *("CAST(double('inf') AS decimal(3,1))", "CAST(1e20D AS decimal(38,2))"),
    *("price > -9223372036854775808", "-2147483648", "-2147483649", "3 -5", "- 5 + 3"),
    *("'it''s'", '"a""b" || s', "'a' 'b'", "r'c''d'", "s = 'a' 'b'", "price !> 7", "d!<0"),
    *("price IS DISTINCT FROM 7", "!b", "'a\\tb'", "TRUE", "NULL IS NULL", "(price + 1) * 2 > day AND d IS NULL"),
]


def test_expressions_are_evaluated_as_spark_does(table: Any) -> None:
    match = TableMatch(table.schema, "ORDER BY day MEASURES 1 AS x PATTERN (A)")
    columns = match._columns(ROWS)
    named = {table.columns[int(name.split()[1])]: values for name, values in columns.items()}
    numbered = table.sparkSession.createDataFrame([(n, *each) for n, each in enumerate(ROWS)], f"n int, {SCHEMA}")
    expected = numbered.selectExpr("n", *(f"{sql} AS e{number}" for number, sql in enumerate(EXPRESSIONS)))
    rows = sorted(expected.collect())
    for place, expression in enumerate(EXPRESSIONS):
        for first in (0, 3):
            own = {name: values.slice(first) for name, values in named.items()}
            found = evaluate(read_expression(_quoted(expression, named)), own, len(ROWS) - first).to_pylist()
            assert comparable(found) == comparable([row[place + 1] for row in rows[first:]]), expression


def _quoted(expression: str, names: Any) -> str:
    """The expression with its columns in backquotes, as resolved expressions have them."""
    from cetdsl.rows.tokens import tokens_of

    return " ".join(f"`{token.text}`" if token.text in names else token.text for token in tokens_of(expression))


def test_what_cannot_be_computed_is_an_error_of_the_run(table: Any) -> None:
    for clause, message in (
        ("A.price / (A.day - 1)", "divides by zero"),
        ("COALESCE(A.price, 0) % (A.day - 1)", "divides by zero"),
        ("CASE WHEN A.day = 1 THEN A.price / (A.day - 1) END", "divides by zero"),
        ("A.price * 2000000000", "overflow"),
        ("CAST(A.price AS decimal(2,2))", "precision"),
    ):
        match = TableMatch(table.schema, f"MEASURES {clause} AS x PATTERN (A)")
        with pytest.raises(EngineError, match=message):
            list(match.answer(ROWS[:3]))
