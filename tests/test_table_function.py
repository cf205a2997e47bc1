"""``cet.register(spark)``: MATCH_RECOGNIZE called from stock Spark SQL gives what ``match_recognize`` gives."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import pytest

import cetdsl as cet
from cetdsl.errors import (
    CetdslError,
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
    f"MEASURES CLASSIFIER() AS v, MATCH_NUMBER() AS n, FINAL SUM(price) AS total ALL ROWS PER MATCH {FALLS}",
    "MEASURES COUNT(DISTINCT price) AS a, SUM(DISTINCT price) AS b, ARRAY_AGG(s) AS c, MIN(d) AS d0, MAX(at) AS e,"
    " SUM(d) AS f, ARRAY_AGG(on) AS g PATTERN (A+)",
    "MEASURES FIRST(A.day) AS x, PREV(A.price, 2) AS y ALL ROWS PER MATCH WITH UNMATCHED ROWS"
    " AFTER MATCH SKIP TO LAST B PATTERN (A B+?) DEFINE B AS price > A.price AND SUM(price) < 30",
    "MEASURES A.m AS m, A.on AS on0, A.m < 2 AS small, A.price / 2 AS half, A.price % 4 AS rest PATTERN (A) WITHIN 2"
    " DEFINE A AS s LIKE 'a%' OR s IS NULL OR d = 0 AND NOT b",
    "MEASURES LAST(day) AS x PATTERN (A B*) WITHIN INTERVAL '1' HOUR",
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
        ("MEASURES 1 AS x PATTERN (A) DEFINE A AS s > 1", UnsupportedQuery, "int32 and string", "s > 1"),
        (
            "MEASURES 1 AS x PATTERN (A) DEFINE A AS at - INTERVAL 1 DAY > at",
            UnsupportedQuery,
            "INTERVAL",
            "at - INTERVAL 1 DAY > at",
        ),
        ("MEASURES 1 AS x PATTERN (A", ParseError, "does not end", ""),
    ],
)
def test_what_only_spark_can_evaluate_is_refused_before_rows_come(
    table: Any, clause: str, kind: type[CetdslError], message: str, at: str
) -> None:
    with pytest.raises(kind) as caught:
        TableMatch(table.schema, clause)
    assert message in caught.value.message
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
    *("'it''s'", '"a""b" || s', "'a' 'b'", "r'c''d'", "s = 'a' 'b'", "price !> 7", "d!<0"),
    *("price IS DISTINCT FROM 7", "!b", "'a\\tb'", "TRUE", "NULL IS NULL", "(price + 1) * 2 > day AND d IS NULL"),
]


def test_expressions_are_evaluated_as_spark_does(table: Any) -> None:
    match = TableMatch(table.schema, "ORDER BY day MEASURES 1 AS x PATTERN (A)")
    columns = match._columns(ROWS)
    named = {table.columns[int(name.split()[1])]: values for name, values in columns.items()}
    numbered = table.sparkSession.createDataFrame([(n, *each) for n, each in enumerate(ROWS)], f"n int, {SCHEMA}")
    expected = numbered.selectExpr("n", *(f"{sql} AS e{number}" for number, sql in enumerate(EXPRESSIONS)))
    for each in expected.collect():
        for place, expression in enumerate(EXPRESSIONS):
            own = {name: values.slice(each.n, 1) for name, values in named.items()}
            [found] = evaluate(read_expression(_quoted(expression, named)), own, 1).to_pylist()
            assert comparable(found) == comparable(each[place + 1]), (expression, ROWS[each.n])


def _quoted(expression: str, names: Any) -> str:
    """The expression with its columns in backquotes, as resolved expressions have them."""
    from cetdsl.rows.tokens import tokens_of

    return " ".join(f"`{token.text}`" if token.text in names else token.text for token in tokens_of(expression))


def test_what_cannot_be_computed_is_an_error_of_the_run(table: Any) -> None:
    for clause, message in (("A.price / (A.day - 1)", "divides by zero"), ("A.price * 2000000000", "overflow")):
        match = TableMatch(table.schema, f"MEASURES {clause} AS x PATTERN (A)")
        with pytest.raises(EngineError, match=message):
            list(match.answer(ROWS[:3]))
