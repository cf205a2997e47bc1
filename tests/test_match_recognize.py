"""``df.match_recognize(...)``: the clause of SQL, from its text to the DataFrame of its answer."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from modes import more_on_classic
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import cetdsl as cet
from cetdsl.errors import (
    CetdslError,
    CountOverflow,
    EngineError,
    InvalidNode,
    NullTime,
    ParseError,
    QueryTypeError,
    ResolutionError,
    UnknownColumn,
    UnknownVariable,
    UnsupportedQuery,
    WindowError,
    recovering,
)
from cetdsl.rows.automaton import MOST_PERMUTED, automaton_of
from cetdsl.rows.clause import DEEPEST, parse_clause
from cetdsl.rows.nodes import Concatenation, Output, Repetition, SkipTo, Variable
from cetdsl.rows.resolve import resolve
from cetdsl.rows.tokens import tokens_of

pytestmark = pytest.mark.simple_plans

#: A stock that falls and rises; Oracle's guide for data warehouses tells the same story.
ACME = [12, 17, 19, 21, 25, 12, 15, 20, 24, 25, 19, 15, 25, 25, 14, 12, 14, 24, 23, 22]
V_SHAPE = "PATTERN (strt down+ up+) DEFINE down AS price < PREV(price), up AS price > PREV(price)"


@pytest.fixture(scope="module")
def acme(spark: Any) -> Any:
    rows = [("ACME", day, price) for day, price in enumerate(ACME, 1)]
    return spark.createDataFrame(rows, "symbol string, day int, price int").repartition(3)


def answer(df: Any) -> list[tuple[Any, ...]]:
    """The rows of an answer, in some order."""
    with recovering():
        return sorted(map(tuple, df.collect()), key=repr)


def test_v_shapes(acme: Any) -> None:
    found = acme.match_recognize(
        f"""PARTITION BY symbol ORDER BY day
        MEASURES strt.day AS begin, LAST(down.day) AS bottom, LAST(up.day) AS end_
        ONE ROW PER MATCH AFTER MATCH SKIP TO LAST up {V_SHAPE}"""
    )
    assert found.columns == ["symbol", "begin", "bottom", "end_"]
    assert answer(found) == [("ACME", 10, 12, 13), ("ACME", 14, 16, 18), ("ACME", 5, 6, 10)]


def test_w_shapes_and_sessions_of_clicks(acme: Any, spark: Any) -> None:
    """Two more examples of that guide: a double dip, and clicks at most ten minutes apart."""
    double = acme.match_recognize(
        """PARTITION BY symbol ORDER BY day MEASURES strt.day AS begin, LAST(z.day) AS end_
        AFTER MATCH SKIP TO LAST z PATTERN (strt w+ x+ y+ z+)
        DEFINE w AS price < PREV(price), x AS price > PREV(price), y AS price < PREV(price), z AS price > PREV(price)"""
    )
    assert answer(double) == [("ACME", 5, 13)]
    clicks = {"Mary": [1, 11, 23, 34, 44, 53, 63], "Sam": [2, 12, 22, 32, 43, 47, 48, 59, 60, 68]}
    rows = [(user, minute) for user, minutes in clicks.items() for minute in minutes]
    sessions = spark.createDataFrame(rows, "user string, minute int").match_recognize(
        """PARTITION BY user ORDER BY minute
        MEASURES MATCH_NUMBER() AS session, COUNT(*) AS events, FIRST(minute) AS begin,
            LAST(minute) - FIRST(minute) AS took
        PATTERN (begin more*) DEFINE more AS minute - PREV(minute) <= 10"""
    )
    assert answer(sessions) == [
        ("Mary", 1, 2, 1, 10),
        ("Mary", 2, 1, 23, 0),
        ("Mary", 3, 4, 34, 29),
        ("Sam", 1, 4, 2, 30),
        ("Sam", 2, 3, 43, 5),
        ("Sam", 3, 3, 59, 9),
    ]


def test_all_rows_of_v_shapes(acme: Any) -> None:
    found = acme.match_recognize(
        f"""PARTITION BY symbol ORDER BY day
        MEASURES strt.day AS begin, FINAL LAST(up.day) AS end_, MATCH_NUMBER() AS n, CLASSIFIER() AS label,
            COUNT(*) AS seen, FINAL COUNT(up.*) AS ups, LAST(down.price, 1) AS before
        ALL ROWS PER MATCH AFTER MATCH SKIP TO LAST up {V_SHAPE}"""
    )
    assert found.columns == ["symbol", "day", "begin", "end_", "n", "label", "seen", "ups", "before", "price"]
    assert [row[1:] for row in sorted(answer(found), key=lambda row: (row[4], row[1]))][6:10] == [
        (10, 10, 13, 2, "strt", 1, 1, None, 25),
        (11, 10, 13, 2, "down", 2, 1, None, 19),
        (12, 10, 13, 2, "down", 3, 1, 19, 15),
        (13, 10, 13, 2, "up", 4, 1, 19, 25),
    ]


def test_the_orders_of_two_customers(spark: Any) -> None:
    """The example by which Trino introduced the clause."""
    orders = spark.createDataFrame(
        [("cust_1", 11, 100), ("cust_1", 12, 200), ("cust_2", 13, 8), ("cust_1", 14, 100), ("cust_2", 15, 4)]
        + [("cust_1", 16, 50), ("cust_1", 17, 100), ("cust_2", 18, 6)],
        "customer_id string, order_day int, price int",
    )
    found = orders.match_recognize(
        """PARTITION BY customer_id ORDER BY order_day
        MEASURES A.price AS start_price, LAST(B.price) AS bottom_price, LAST(C.price) AS final_price,
            A.order_day AS start_day, LAST(C.order_day) AS final_day
        ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW
        PATTERN (A B+ C+)
        DEFINE B AS price < PREV(price), C AS price > PREV(price)"""
    )
    assert answer(found) == [("cust_1", 200, 50, 100, 12, 17), ("cust_2", 8, 4, 6, 13, 18)]


def test_two_stocks_that_fall_and_rise(spark: Any) -> None:
    """The example of Snowflake's pages."""
    prices = {
        "ABCD": [50, 36, 39, 42, 30, 47, 71, 80, 75, 63],
        "XYZ": [89, 24, 37, 63, 65, 56, 50, 54, 30, 32],
    }
    rows = [(company, day, price) for company, own in prices.items() for day, price in enumerate(own, 1)]
    found = spark.createDataFrame(rows, "company string, day int, price int").match_recognize(
        """PARTITION BY company ORDER BY day
        MEASURES MATCH_NUMBER() AS n, FIRST(day) AS begin, LAST(day) AS end_, COUNT(*) AS seen,
            COUNT(less.*) AS falls, COUNT(more.*) AS rises
        ONE ROW PER MATCH AFTER MATCH SKIP TO LAST more
        PATTERN (before less+ more+)
        DEFINE less AS price < PREV(price), more AS price > PREV(price)"""
    )
    assert answer(found) == [
        ("ABCD", 1, 1, 4, 4, 1, 2),
        ("ABCD", 2, 4, 8, 5, 1, 3),
        ("XYZ", 1, 1, 5, 5, 1, 3),
        ("XYZ", 2, 5, 8, 4, 2, 1),
        ("XYZ", 3, 8, 10, 3, 1, 1),
    ]


@pytest.mark.parametrize(
    ("prices", "clause", "expected"),
    [
        (
            [12, 17, 19, 21, 25, 18, 15, 14, 24, 25, 19],
            """MEASURES start_row.second AS start, LAST(price_down.second) AS bottom, LAST(price_up.second) AS end_
            ONE ROW PER MATCH AFTER MATCH SKIP TO LAST price_up
            PATTERN (start_row price_down+ price_up)
            DEFINE price_down AS (LAST(price_down.price, 1) IS NULL AND price_down.price < start_row.price)
                OR price_down.price < LAST(price_down.price, 1),
                price_up AS price_up.price > LAST(price_down.price, 1)""",
            [(4, 7, 8)],
        ),
        (
            [12, 17, 13, 16, 25, 2, 4, 10, 15, 25, 25, 30],
            """MEASURES FIRST(A.second) AS start, LAST(A.second) AS end_, AVG(A.price) AS mean
            ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW
            PATTERN (A+ B) DEFINE A AS AVG(A.price) < 15""",
            [(0, 3, 14.5), (5, 10, 13.5)],
        ),
    ],
    ids=["a fall", "a mean"],
)
def test_the_ticker(spark: Any, prices: list[int], clause: str, expected: list[tuple[Any, ...]]) -> None:
    """The examples of Flink's pages."""
    df = spark.createDataFrame(list(enumerate(prices)), "second int, price int")
    assert answer(df.match_recognize(f"ORDER BY second {clause}")) == expected


@pytest.mark.parametrize(
    ("output", "expected"),
    more_on_classic(
        ("ONE ROW PER MATCH", [(1, 1, 2, 0), (2, None, None, 1), (3, 4, 4, 0), (4, None, None, 1)]),
        ("ALL ROWS PER MATCH", [(1, 1), (2, 1), (3, 2), (4, 3), (5, 4)]),
        ("ALL ROWS PER MATCH SHOW EMPTY MATCHES", [(1, 1), (2, 1), (3, 2), (4, 3), (5, 4)]),
        ("ALL ROWS PER MATCH OMIT EMPTY MATCHES", [(1, 1), (2, 1), (4, 3)]),
        ("ALL ROWS PER MATCH WITH UNMATCHED ROWS", [(1, 1), (2, 1), (3, 2), (4, 3), (5, 4)]),
    ),
)
def test_empty_matches(spark: Any, output: str, expected: list[tuple[Any, ...]]) -> None:
    df = spark.createDataFrame([(1, 1), (2, 1), (3, 0), (4, 1), (5, 0)], "t int, a int")
    one = output.startswith("ONE")
    more = ", FIRST(t) AS s, LAST(t) AS e, IF(COUNT(*) = 0, 1, 0) AS empty" if one else ""
    found = df.match_recognize(
        f"ORDER BY t MEASURES MATCH_NUMBER() AS n {more} {output} PATTERN (A*) DEFINE A AS a = 1"
    )
    assert answer(found if one else found.select("t", "n")) == expected


def test_unmatched_rows_have_no_measures(spark: Any) -> None:
    df = spark.createDataFrame([(1, 1), (2, 0)], "t int, a int")
    found = df.match_recognize(
        """ORDER BY t MEASURES COALESCE(LAST(A.t), -1) AS m, COUNT(*) AS n, 'x' AS x, ARRAY_AGG(t) AS ts
        ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A) DEFINE A AS a = 1"""
    )
    assert answer(found) == [(1, 1, 1, "x", [1], 1), (2, None, None, None, None, 0)]


def test_aggregates_are_of_the_types_that_spark_gives(spark: Any) -> None:
    df = spark.createDataFrame(
        [(1, 2, 0.5, Decimal("1.25"), "b"), (2, None, float("nan"), Decimal("2.50"), "a"), (3, 5, None, None, None)],
        "t int, i int, d double, m decimal(5,2), s string",
    )
    found = df.match_recognize(
        """ORDER BY t MEASURES SUM(i) AS si, AVG(i) AS ai, COUNT(i) AS ci, COUNT(A.*) AS ca, SUM(m) AS sm,
            AVG(A.m) AS am,
            MIN(s) AS mins, MAX(d) AS maxd, MIN(d) AS mind, SUM(i * t) AS sit, SUM(d) AS sd, ARRAY_AGG(s) AS ss,
            SUM(B.i) AS nothing, COUNT(B.i) AS none, MAX(m) - MIN(m) AS dm
        PATTERN (A+ B?) DEFINE B AS FALSE"""
    )
    plain = df.agg(*(F.expr(e) for e in ("sum(i)", "avg(i)", "count(i)", "count(*)", "sum(m)", "avg(m)")))
    assert [field.dataType for field in found.schema.fields[:6]] == [field.dataType for field in plain.schema.fields]
    (row,) = answer(found)
    assert row[:6] == tuple(plain.first())
    assert row[6] == "a"
    assert str(row[7]) == "nan"  # it is the largest
    assert row[8:10] == (0.5, 2 + 15)
    assert str(row[10]) == "nan"
    assert row[11:] == (["b", "a"], None, 0, Decimal("1.25"))


def test_navigation(spark: Any) -> None:
    df = spark.createDataFrame([(n, n * 10) for n in range(1, 7)], "t int, x int")
    found = df.match_recognize(
        """ORDER BY t MEASURES PREV(A.x) AS p, NEXT(LAST(B.x), 2) AS n, PREV(FIRST(B.x, 1), 2) AS f,
            FIRST(B.x, 9) AS none,
            LAST(U.t) AS u, CLASSIFIER(U) AS c, FIRST(CLASSIFIER()) AS fc, LAST(B.x, 2) + A.x AS two
        PATTERN (A B{3}) SUBSET U = (A) DEFINE A AS t = 2"""
    )
    assert answer(found) == [(10, None, 20, None, 2, "A", "A", 50)]


def test_order_and_partitions(spark: Any) -> None:
    rows = [("x", 1, None), ("x", 1, 2), ("x", 2, 1), (None, 1, 5), (None, 2, 6), ("y", 3, None)]
    df = spark.createDataFrame(rows, "k string, a int, b int").repartition(4)
    clause = """PARTITION BY k ORDER BY a DESC, b ASC NULLS LAST MEASURES ARRAY_AGG(STRUCT(a, b)) AS rows
        PATTERN (A+)"""
    found = {row.k: [tuple(each) for each in row.rows] for row in df.match_recognize(clause).collect()}
    assert found == {"x": [(2, 1), (1, 2), (1, None)], None: [(2, 6), (1, 5)], "y": [(3, None)]}
    # With a condition on neighbours Spark sorts the rows for its own windows, by the same order.
    moved = df.match_recognize(f"{clause} DEFINE A AS PREV(a) IS NULL OR TRUE")
    assert {row.k: [tuple(each) for each in row.rows] for row in moved.collect()} == found


def test_doubles_that_are_equal_are_one_partition(spark: Any) -> None:
    df = spark.createDataFrame([(0.0, 1), (-0.0, 2), (float("nan"), 3), (float("nan"), 4)], "k double, t int")
    for condition in ("TRUE", "PREV(t) IS NULL OR TRUE"):
        clause = f"PARTITION BY k ORDER BY t MEASURES COUNT(*) AS n PATTERN (A+) DEFINE A AS {condition}"
        assert [row[1] for row in df.match_recognize(clause).collect()] == [2, 2]


def test_names_strings_and_comments_are_spark_s(spark: Any) -> None:
    df = spark.createDataFrame([(1, "PREV(x)", "it's"), (2, "b.x", "")], ["Time Of Day", "end", "select"])
    found = df.match_recognize(
        r"""ORDER BY `Time Of Day` -- PATTERN (B)
        MEASURES CASE WHEN A.`end` = 'PREV(x)' THEN "A.x" END AS `case when`, /* A.y /* nested */ */ 'it\'s' AS s,
            CAST(A.`time of day` AS STRING) AS c, transform(ARRAY_AGG(`Time Of Day`), x -> x + 1) AS l,
            aggregate(ARRAY_AGG(`Time Of Day`), 0L, (`end`, x) -> `end` + x) AS g
        PATTERN ( A B /* ) */ ) DEFINE A AS `select` = 'it\'s'"""
    )
    assert found.columns == ["case when", "s", "c", "l", "g"]
    assert answer(found) == [("A.x", "it's", "1", [2, 3], 3)]


#: Expressions over a row, which Spark reads as they stand; a variable of the pattern is called ``a``, too.
EXPRESSIONS = [
    # A quote in a text is written twice, and texts beside each other are one.
    *("'it''s'", '"a""b"', "r'c''d'", "'a' 'b' || \"c\"'d'", "name = 'O''Brien'"),
    # Operators of several characters.
    *("x << 1", "a.x>>1", "-x >>> 1", "x !> 5", "a.x!<7", "x<=>5"),
    # Parameters of lambda functions.
    *("size(filter(a.items, a -> a.price > 3))", "exists(arr, v -> v > 1)", "transform(arr, (x, i) -> x + i)"),
    *("aggregate(arr, 0, (s, x) -> s + x, s -> s * x)", "array_contains(filter(arr, x -> x > 1), x)"),
    "transform(arr, x -> exists(arr, y -> y > x) AND x > a.x)",
    # Names of fields and of arguments.
    *("struct(a.x AS x, t AS t, a.t AS `name`, x AS first)", "CAST(struct(x AS name, t AS arr) AS string)"),
    *(
        "struct(a.x, T, a.X + 1, abs(x))",
        "struct(a.x name, (t) `a b`, 5 five, CASE WHEN x = 5 THEN t END arr, NULL nothing)",
    ),
    *("struct(CAST(x AS bigint), NOT x = 1 AND TRUE x, INTERVAL 1 day, DATE '2024-01-02', day day)", "struct(x t).t"),
    *("array(struct(struct(x, t), arr[0] a, transform(arr, x -> x)))", "struct(items[0].price, x :: bigint AS y)"),
    *(
        "(a.x, t)",
        "to_json(((a.x), t + 1))",
        "struct((x), (t))",
        "`struct`(x, t)",
        "(x, t).x",
    ),
    *(
        "transform(arr, e -> (e, x))",
        "arrays_zip(a.arr, items)",
        "arrays_zip((arr), array(x))",
        "transform(arrays_zip(arr, array(x)), z -> z.arr)",
    ),
    *(
        "x IN (a.x, t)",
        "(x, t) IN ((5, 1), (t, t))",
        "CASE WHEN (x, t) = (a.x, a.t) THEN 1 END",
        "NOT (x, t) <=> (t, x)",
    ),
    # Fields of a variant that are called like columns, and types of several words.
    *(
        "v:x::int",
        "a.v:items[0].name::string",
        "struct(v:t::int AS x)",
        "st::struct<x:bigint, t:bigint>",
        "m::map<string,int>",
    ),
    *("array(day)::array<date>", "array(st)::array<struct<x:int, t:decimal(10, 2)>>[0].t", "x::decimal(10,2) + 1"),
    # Subqueries, and words that are syntax only in some calls.
    *("(FROM VALUES (3), (2) AS w(x) SELECT min(x))", "(VALUES 3)", "trim(FROM name)", "5 * x * (t)"),
    *("name LIKE ANY ('O%', 'x')", "name NOT LIKE SOME ('a%', 'x')", "substring(name FROM 1 FOR 2)", "`for` + for"),
    *("named_struct('x', x).x", "mask(str => a.name, upperChar => 'N')"),
    "`abs`(-x)",
    # Units, and columns that are called like them.
    *("date_add(day, 1)", "dateadd(day, 1, day)", "datediff(month, day)", "datediff(month, day, month)"),
    *("INTERVAL '1' DAY + day", "ts - INTERVAL '1' DAY + hour", "ts + INTERVAL 1 day -2 hour"),
    *("INTERVAL '1 2' DAY TO HOUR - hour", "EXTRACT(day FROM month)"),
]


def test_expressions_are_what_spark_reads(spark: Any) -> None:
    """Each once in MEASURES, and once in DEFINE."""
    schema = "t int, name string, x int, items array<struct<price int>>, arr array<int>"
    times = ["DATE '2024-01-02' AS day", "DATE '2024-03-02' AS month", "INTERVAL '2' HOUR AS hour"]
    times += ["TIMESTAMP '2024-01-02 00:00:00' AS ts", "map('k', x) AS m", "struct(x, t) AS st", "1 AS `for`"]
    times.append("""parse_json('{"x": 7, "t": 8, "items": [{"name": "n"}]}') AS v""")
    df = spark.createDataFrame([(1, "O'Brien", 5, [(1,), (4,)], [1, 7])], schema).selectExpr("*", *times)
    measures = ", ".join(f"{sql} AS e{number}" for number, sql in enumerate(EXPRESSIONS))
    conditions = " AND ".join(f"({sql}) IS NOT NULL" for sql in EXPRESSIONS)
    found = df.match_recognize(f"ORDER BY t MEASURES {measures} PATTERN (a) DEFINE a AS {conditions}")
    expected = df.alias("a").selectExpr(*(f"{sql} AS e{number}" for number, sql in enumerate(EXPRESSIONS)))
    assert found.schema.simpleString() == expected.schema.simpleString()
    assert answer(found) == answer(expected)


#: Expressions with columns that are called like words of Spark's syntax.
OF_WORDS = [
    *("end", "end + 1", "abs(end)", "coalesce(end, 0)", "struct(end, to)", "- end", "to - from", "(to)"),
    *("CASE WHEN end THEN to ELSE from END", "CASE WHEN to IS NULL THEN 1 END", "to BETWEEN from AND to", "NOT end"),
    *("to IN (from, to)", "to IS NOT DISTINCT FROM from", "CAST(to AS STRING)", "trim(BOTH 'x' FROM desc)"),
    *("EXTRACT(YEAR FROM DATE '2026-01-01')", "desc LIKE 'a%'", "desc LIKE ANY ('a%', 'b')", "trim(FROM desc)"),
    *("INTERVAL 1 DAY", "to DIV from", "substring(desc FROM 1 FOR 2)", "from[0]", "end AND to > 1", "end.x IS NULL"),
    *("CASE WHEN -to < 1 THEN 7 END", "CASE WHEN NOT to > 1 THEN 1 ELSE to END", "to NOT BETWEEN -5 AND 3"),
    *("desc NOT LIKE 'a'", "CASE to WHEN 2 THEN from END", "desc IS DISTINCT FROM desc", "to::string", "-(-to)"),
]
#: Conditions over several rows with such columns.
OF_SEVERAL = ["end > FIRST(A.to)", "end > 1 AND to >= FIRST(A.to)", "to + end > FIRST(A.to) AND end > 1"]
OF_SEVERAL += ["CASE WHEN end > 7 THEN 1 ELSE 0 END = 0 AND to = FIRST(A.to)", "to = LAST(A.to) AND from < end"]


def test_words_of_syntax_may_be_columns(spark: Any) -> None:
    columns = ["id AS t", "named_struct('x', 1) AS e", "2 AS `to`", "'abc' AS desc", "3 AS `when`", "4 AS `between`"]
    for end, start in (("true", "1"), ("5", "1"), ("named_struct('x', 1)", "array(1)")):
        df = spark.range(1).selectExpr(*columns, f"{end} AS `end`", f"{start} AS `from`")
        known = [sql for sql in OF_WORDS if is_analysed(partial(df.selectExpr, sql))]
        assert len(known) >= 15
        measures = ", ".join(f"{sql} AS e{number}" for number, sql in enumerate(known))
        conditions = " AND ".join(f"(({sql}) IS NOT NULL OR true)" for sql in known)
        found = df.match_recognize(f"ORDER BY t MEASURES {measures} PATTERN (v) DEFINE v AS {conditions}")
        expected = df.selectExpr(*(f"{sql} AS e{number}" for number, sql in enumerate(known)))
        assert answer(found) == answer(expected)
        calls = (
            "LAST(to) AS a, SUM(to + to) AS b, COUNT(DISTINCT to) AS c, MAX(ALL to) AS d, COUNT(end) AS e, v.to AS f"
        )
        [row] = df.match_recognize(f"ORDER BY t MEASURES {calls} PATTERN (v) DEFINE v AS to > 1").collect()
        assert tuple(row) == (2, 4, 1, 2, 1, 2)
    two = spark.range(2).selectExpr(*columns, "5 AS `end`", "1 AS `from`")
    for condition in OF_SEVERAL:
        found = two.match_recognize(f"ORDER BY t MEASURES COUNT(*) AS n PATTERN (A B) DEFINE B AS {condition}")
        assert answer(found) == [(2,)], condition


def is_analysed(ask: Callable[[], DataFrame]) -> bool:
    """Whether Spark knows the types of a DataFrame's columns."""
    try:
        ask().schema  # noqa: B018 - Spark Connect analyses it only now
    except (AnalysisException, ParseException):
        return False
    return True


def test_functions_of_a_schema_are_left_to_spark() -> None:
    """Not every version of Spark knows its own functions by such names."""
    clause = parse_clause("MEASURES system.builtin.abs(-A.x) AS a, system.`my fs`.f (x) AS b, x.y AS c PATTERN (A)")
    measures = resolve(clause, ["x"]).measures
    assert [measure.sql for measure in measures] == [
        "system . builtin . abs ( - `slot 0` )",
        "system . `my fs` . f ( `slot 0` )",
        "`slot 0` . y",
    ]


@pytest.mark.parametrize("pattern", ["()", "(())", "(() | ())", "(()*)", "($?)", "({- () -})"])
def test_patterns_without_a_variable_match_before_each_row(acme: Any, pattern: str) -> None:
    for rows in ("", "ALL ROWS PER MATCH "):
        found = acme.match_recognize(f"ORDER BY day MEASURES COUNT(*) AS n {rows}PATTERN {pattern}")
        assert answer(found.select("n")) == [(0,)] * len(ACME)
    assert answer(acme.match_recognize("ORDER BY day MEASURES MATCH_NUMBER() AS n PATTERN (^ ())")) == [(1,)]


@pytest.mark.parametrize("measure", ["struct(*)", "array(price, *)", "coalesce(*)", "LAST(*)", "ARRAY_AGG(hash(*))"])
def test_a_star_stands_only_in_count(acme: Any, measure: str) -> None:
    with pytest.raises(UnsupportedQuery, match=r"\* stands for whole rows(.|\n)*only COUNT takes it"):
        acme.match_recognize(f"MEASURES {measure} AS x PATTERN (A)")


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("LAST(day.x)", 'Can\'t extract a value from "day"'),
        ("PREV(if(day, 1, 2))", '"day" has the type "INT"'),
        ("COUNT(nosuch(day))", "routine `nosuch`"),
        ("LAST(day +)", "Syntax error at or near '\\)'"),
        ("ARRAY_AGG(day ORDER BY day)", "near 'ORDER'"),
    ],
)
def test_errors_point_at_the_call_whose_argument_is_wrong(acme: Any, call: str, error: str) -> None:
    with pytest.raises((QueryTypeError, ParseError), match=f"(?s)evaluate {re.escape(call)}.*{error}") as raised:
        acme.match_recognize(f"ORDER BY day MEASURES 1 + {call} AS x PATTERN (A)")
    start, end = raised.value.span
    assert raised.value.text[start:end] == call


def test_fields_of_navigations_are_numbered(acme: Any) -> None:
    """As those of other calls are."""
    measures = "struct(FIRST(A.day), price, LAST(day) last, MATCH_NUMBER()) AS s, ARRAY_AGG(struct(day, price)) AS each"
    found = acme.match_recognize(f"ORDER BY day MEASURES {measures} PATTERN (A) DEFINE A AS day = 2")
    assert found.schema.simpleString() == (
        "struct<s:struct<col1:int,price:int,last:int,col4:bigint>,each:array<struct<day:int,price:int>>>"
    )
    assert answer(found) == [((2, ACME[1], 2, 1), [(2, ACME[1])])]


def test_variables_of_a_session_may_have_their_full_names(spark: Any, acme: Any) -> None:
    spark.sql("DECLARE OR REPLACE VARIABLE least INT DEFAULT 2")
    try:
        for name in ("least", "session.least", "system.session.least"):
            clause = f"ORDER BY day MEASURES {name} + A.day AS x PATTERN (A) DEFINE A AS day = {name}"
            assert answer(acme.match_recognize(clause)) == [(4,)]
    finally:
        spark.sql("DROP TEMPORARY VARIABLE least")


def test_a_column_is_known_beside_a_parameter_of_its_name(spark: Any) -> None:
    df = spark.createDataFrame([(1, 5, [1, 7]), (2, 0, [1, 7]), (3, 5, [1])], "t int, x int, arr array<int>")
    for condition in ("x > 1 AND exists(arr, x -> x > 1)", "exists(arr, x -> x > 1) AND x > 1 OR t > LAST(t, 5)"):
        found = df.match_recognize(f"ORDER BY t MEASURES t AS t PATTERN (A) DEFINE A AS {condition}")
        assert answer(found) == [(1,)]


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        # Labels are written as in PATTERN, however DEFINE writes the variable.
        ("PATTERN (A+) DEFINE a AS CLASSIFIER() = 'A' AND LAST(CLASSIFIER(a)) = 'A'", [(3,)]),
        ("PATTERN (A+) DEFINE a AS CLASSIFIER() = 'a'", []),
        ("AFTER MATCH SKIP TO first PATTERN (A first)", [(2,), (2,)]),
        ("AFTER MATCH SKIP TO LAST last SEEK PATTERN (A last)", [(2,), (2,)]),
        ("PATTERN (A | B) DEFINE A AS NULL, B AS t > 2", [(1,)]),
    ],
)
def test_names_are_those_of_the_pattern(spark: Any, clause: str, expected: list[tuple[Any, ...]]) -> None:
    df = spark.createDataFrame([(1,), (2,), (3,)], "t int")
    assert answer(df.match_recognize(f"ORDER BY t MEASURES COUNT(*) AS n {clause}")) == expected


def test_a_column_that_partitions_twice_is_shown_once(spark: Any) -> None:
    df = spark.createDataFrame([(1, "a"), (2, "b"), (3, "b")], "t int, s string")
    found = df.match_recognize("PARTITION BY s, S ORDER BY t MEASURES COUNT(*) AS n PATTERN (A+)")
    assert found.columns == ["s", "n"]
    assert answer(found) == [("a", 1), ("b", 2)]


def test_columns_called_like_units_and_types(spark: Any) -> None:
    df = spark.createDataFrame([(1, 5, "2024-01-02 00:00:00")], "day int, int int, date string")
    df = df.withColumn("hour", F.expr("CAST(date AS timestamp)"))
    found = df.match_recognize(
        """ORDER BY day MEASURES A.hour + INTERVAL '1' DAY AS h, CAST(day AS int) + int AS i,
            EXTRACT(day FROM hour) AS e, CAST(DATE '2024-01-02' AS string) = substring(date, 1, 10) AS d,
            hour + INTERVAL 2 day 3 hours > hour AS later
        PATTERN (A)"""
    )
    (row,) = answer(found)
    assert (row[0].day, *row[1:]) == (3, 6, 2, True, True)


@pytest.mark.parametrize("kind", more_on_classic("timestamp", "timestamp_ntz", "date", "int"))
def test_within(spark: Any, kind: str) -> None:
    length = "2" if kind == "int" else "INTERVAL '2' DAYS"
    days = spark.createDataFrame([(1,), (2,), (4,), (7,), (9,)], "n int")
    t = F.col("n") if kind == "int" else F.expr(f"CAST(date_add(DATE '2024-03-30', n) AS {kind})")
    df = days.withColumn("t", t)
    asc = f"ORDER BY t MEASURES FIRST(n) AS s, LAST(n) AS e PATTERN (A+) WITHIN {length}"
    assert answer(df.match_recognize(asc)) == [(1, 2), (4, 4), (7, 9)]
    assert answer(df.match_recognize(asc.replace("ORDER BY t", "ORDER BY t DESC"))) == [(1, 1), (4, 2), (9, 7)]


def test_rows_of_which_no_column_is_read(spark: Any) -> None:
    df = spark.range(5)
    assert answer(df.match_recognize("MEASURES MATCH_NUMBER() AS n PATTERN (A A)")) == [(1,), (2,)]
    assert answer(df.match_recognize("ORDER BY id MEASURES COUNT(*) AS n PATTERN (A+)")) == [(5,)]
    moved = df.match_recognize("ORDER BY id MEASURES COUNT(*) AS n PATTERN (A+) DEFINE A AS NEXT(id) > 0")
    assert answer(moved) == [(4,)]


def test_many_variables_take_several_words(spark: Any) -> None:
    names = [f"v{n}" for n in range(70)]
    df = spark.range(70).toDF("t")
    definitions = ", ".join(f"{name} AS t = {n}" for n, name in enumerate(names))
    clause = f"ORDER BY t MEASURES COUNT(*) AS n, v69.t AS last PATTERN ({' '.join(names)}) DEFINE {definitions}"
    assert answer(df.match_recognize(clause)) == [(70, 69)]


def test_aggregates_of_distinct_values_are_those_of_spark(spark: Any) -> None:
    rows = [(1, "x", 2, 0.0), (2, "y", 2, -0.0), (3, "x", None, float("nan")), (4, None, 5, float("nan"))]
    df = spark.createDataFrame(rows, "t int, s string, n int, d double").selectExpr(
        "*", "CAST(n AS decimal(5, 1)) AS m"
    )
    aggregates = [f"{function}(DISTINCT {name})" for name in "nm" for function in ("COUNT", "SUM", "AVG", "MIN", "MAX")]
    aggregates += ["COUNT(DISTINCT s)", "COUNT(DISTINCT d)", "COUNT(DISTINCT n + 1)", "AVG(DISTINCT n)"]
    measures = ", ".join(f"{aggregate} AS a{n}" for n, aggregate in enumerate(aggregates))
    found = df.match_recognize(f"ORDER BY t MEASURES {measures} PATTERN (A+)")
    expected = df.selectExpr(*(f"{aggregate} AS a{n}" for n, aggregate in enumerate(aggregates)))
    assert found.dtypes == expected.dtypes
    assert answer(found) == answer(expected)
    running = df.match_recognize(
        """ORDER BY t
           MEASURES COUNT(DISTINCT s) AS many, FINAL COUNT(DISTINCT B.s) AS of,
               array_sort(ARRAY_AGG(DISTINCT n)) AS each, COUNT(DISTINCT CLASSIFIER()) AS labels
           ALL ROWS PER MATCH PATTERN (A B+)"""
    )
    shown = [(row.many, row.of, row.each, row.labels) for row in running.orderBy("t").collect()]
    assert shown == [(1, 2, [2], 1), (2, 2, [2], 2), (2, 2, [2], 2), (2, 2, [2, 5], 2)]


def test_decimals_are_added_up_to_their_last_digit(spark: Any) -> None:
    """Also those of 38 digits, of which Spark's ``+`` drops one for the carry."""
    numbers = ["1.2345678906", "1.2345678906", None, "-0.0000000005", "9999999999.9999999999", "2", "0.0000000001"]
    kinds = ["decimal(28,10)", "decimal(38,18)", "decimal(38,10)", "decimal(20,2)"]
    units = ", ".join(f"CAST(m AS {kind}) AS m{n}" for n, kind in enumerate(kinds))
    values = ", ".join(f"({n}, {'NULL' if number is None else f'{number}BD'})" for n, number in enumerate(numbers))
    df = spark.sql(f"SELECT *, {units}, CAST(m / 1e11BD AS decimal(38,38)) AS m4 FROM VALUES {values} AS of(t, m)")
    aggregates = [
        f"{function}({distinct}m{n})" for n in range(5) for function in ("SUM", "AVG") for distinct in ("", "DISTINCT ")
    ]
    measures = ", ".join(f"{aggregate} AS a{n}" for n, aggregate in enumerate(aggregates))
    found = df.match_recognize(f"ORDER BY t MEASURES {measures} ALL ROWS PER MATCH PATTERN (A+)").orderBy("t")
    over = "OVER (ORDER BY t)"
    expected = df.selectExpr("t", *(f"{a} {over} AS a{n}" for n, a in enumerate(aggregates) if "DISTINCT" not in a))
    plain = [name for name in expected.columns if name != "t"]
    assert found.select(plain).dtypes == expected.select(plain).dtypes
    assert found.select(plain).collect() == expected.orderBy("t").select(plain).collect()
    whole = df.selectExpr(*(f"{aggregate} AS a{n}" for n, aggregate in enumerate(aggregates)))
    assert found.select(whole.columns).tail(1) == whole.collect()
    none = df.match_recognize(
        "ORDER BY t MEASURES SUM(A.m1) AS s, AVG(DISTINCT A.m1) AS a PATTERN (A? B $) DEFINE A AS FALSE, B AS TRUE"
    )
    assert answer(none) == [(None, None)]


@pytest.mark.parametrize(
    ("aggregate", "told"),
    [
        ("SUM(m)", r"SUM over the rows of a match does not fit DECIMAL\(38, 2\)"),
        ("SUM(DISTINCT m)", "SUM over"),
        ("AVG(m)", "AVG over"),
    ],
)
def test_a_sum_of_decimals_that_is_too_large_is_an_error(spark: Any, aggregate: str, told: str) -> None:
    df = spark.range(2).selectExpr("id", "CAST('999999999999999999999999999999999999' AS decimal(38,2)) - id AS m")
    with pytest.raises(CountOverflow, match=told) as caught, recovering():
        df.match_recognize(f"ORDER BY id MEASURES id AS i, {aggregate} AS s PATTERN (A+)").collect()
    _, line, marks, _ = str(caught.value).splitlines()
    assert marks == " " * line.index(aggregate) + "^" * len(aggregate)


def test_a_sum_of_distinct_values_that_is_too_large_is_an_error(spark: Any) -> None:
    df = spark.range(2).selectExpr("id", "9223372036854775807 - id AS n")
    with pytest.raises(CountOverflow, match="does not fit BIGINT"), recovering():
        df.match_recognize("ORDER BY id MEASURES SUM(DISTINCT n) AS s PATTERN (A+)").collect()


def test_the_function_is_the_method(acme: Any) -> None:
    clause = f"ORDER BY day MEASURES COUNT(*) AS n {V_SHAPE}"
    assert answer(cet.match_recognize(acme, clause)) == answer(acme.match_recognize(clause))


def test_variables_without_a_condition_are_told_of(acme: Any, caplog: pytest.LogCaptureFixture) -> None:
    acme.match_recognize("ORDER BY day MEASURES 1 AS x PATTERN (a b (c | A)) DEFINE b AS price > 1")
    acme.match_recognize("ORDER BY day MEASURES 1 AS x PATTERN (a) DEFINE a AS TRUE")
    acme.match_recognize(
        "ORDER BY day MEASURES 1 AS x AFTER MATCH SKIP TO a PATTERN (a? b) DEFINE a AS TRUE, b AS TRUE"
    )
    [told, skip] = [record.getMessage() for record in caplog.records if record.name == "cetdsl.rows"]
    assert "a, c have no condition in DEFINE" in told
    assert "DEFINE a AS TRUE" in told
    assert "a match may have no row that is bound to a, to skip to" in skip
    assert told.splitlines()[2].index("^") == told.splitlines()[1].index("(a b") + 1


def test_a_clause_without_an_order_is_told_of(acme: Any, caplog: pytest.LogCaptureFixture) -> None:
    acme.match_recognize("MEASURES 1 AS x PATTERN (a) DEFINE a AS TRUE")
    [told] = [record.getMessage() for record in caplog.records if record.name == "cetdsl.rows"]
    assert "in whatever order Spark reads them" in told
    assert "write ORDER BY" in told


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("a b+", False),
        ("a (b | c)", True),
        ("a (b | b c)", False),
        ("a b?", True),
        ("PERMUTE(a, b)", False),
        ("(a {- b -}){2}", False),
        ("a b{,3} $", True),
        ("^ b*", False),  # behind an empty match the search goes on at the next row
        ("b* | a", True),
        ("a{0} b? ()", False),
    ],
)
def test_skips_that_may_fail_are_told_of(pattern: str, told: bool) -> None:
    clause = f"ORDER BY day MEASURES 1 AS x AFTER MATCH SKIP TO LAST B PATTERN ({pattern})"
    assert resolve(parse_clause(clause), ["day"]).skip_may_fail == told


def test_building_the_answer_runs_nothing(spark: Any) -> None:
    failing = spark.range(3).selectExpr("id", "raise_error('it ran') AS x", "1 AS y")
    failing.match_recognize("ORDER BY id MEASURES SUM(y) AS s, LAST(x) AS x PATTERN (A B) DEFINE B AS y > PREV(y)")


# -- errors --------------------------------------------------------------------------------------------------------

COLUMNS = ["day", "price", "symbol"]


@pytest.mark.parametrize(
    ("clause", "kind", "message", "at", "hint"),
    [
        ("ORDER BY day", ParseError, "PATTERN is missing", "", "the clauses are"),
        ("PATTERN (A B", ParseError, "the pattern does not end", "", "close it with )"),
        ("PATTERN (A B+ DEFINE A AS day > 1", ParseError, "the pattern does not end", "(", ") before DEFINE"),
        ("PATTERN (^A {- B SUBSET u = (A, B)", ParseError, "an exclusion does not end", "{-", "-} before SUBSET"),
        ("PATTERN (^A WITHIN INTERVAL 1 HOUR", ParseError, "the pattern does not end", "(", ") before WITHIN"),
        ("PATTERN (A | )", ParseError, "a part of the pattern is missing", ")", "a variable"),
        ("PATTERN (A{3,2})", ParseError, "at least 3 and at most 2", "{", "the smaller one first"),
        ("PATTERN (A*+)", ParseError, "two quantifiers", "+", "parentheses"),
        ("PATTERN (A) PATTERN (B)", ParseError, "PATTERN is not expected here", "PATTERN", "in this order"),
        ("PATTERN (A) DEFINE A AS (day > 1", ParseError, "the ( is never closed", "(", "close it"),
        ("PATTERN (A) DEFINE A AS day > 'x", ParseError, "a string does not end", "'", "close it"),
        ("PATTERN (A) /* comment", ParseError, "a comment does not end", "/*", "close it"),
        ("MEASURES day PATTERN (A)", ParseError, "a measure has no name", "PATTERN", "AS name"),
        ("ORDER BY day + 1 PATTERN (A)", ParseError, "+ is not expected here", "+", "in this order"),
        ("ORDER BY abs(day) PATTERN (A)", ParseError, "only columns can stand here", "(", "a column of its own"),
        ("INITIAL PATTERN (A)", ParseError, "INITIAL is for windows", "INITIAL", "PATTERN (^"),
        (f"PATTERN ({'(' * 1000}A{')' * 1000})", ParseError, f"deeper than {DEEPEST} levels", "(", "leave out"),
        (
            "PATTERN (A) DEFINE B AS day > 1",
            UnknownVariable,
            "the pattern has no variable 'B'",
            "B",
            "its variables are A",
        ),
        ("PATTERN (down) DEFINE dwn AS day > 1", UnknownVariable, "'dwn'", "dwn", "did you mean 'down'?"),
        ("MEASURES B.day AS x PATTERN (A)", UnknownVariable, "no variable and no subset 'B'", "B", "A"),
        ("MEASURES A.dya AS x PATTERN (A)", UnknownColumn, "no column 'dya'", "dya", "did you mean 'day'?"),
        ("ORDER BY dat PATTERN (A)", UnknownColumn, "no column 'dat'", "dat", "did you mean 'day'?"),
        ("AFTER MATCH SKIP TO C PATTERN (A)", UnknownVariable, "'C'", "C", "A"),
        ("PATTERN (A) SUBSET U = (A, X)", UnknownVariable, "'X'", "X", "A"),
        ("PATTERN (A) SUBSET a = (A)", ResolutionError, "called like a variable", "a", "another name"),
        ("PATTERN (A) DEFINE A AS day > 1, a AS day > 2", ResolutionError, "defined twice", "a", "AND"),
        (
            "PATTERN (A) DEFINE A AS FINAL LAST(day) > 1",
            ResolutionError,
            "FINAL cannot stand in DEFINE",
            "FINAL",
            "leave",
        ),
        ("PATTERN (A) DEFINE A AS PREV(FINAL LAST(day)) > 1", ResolutionError, "FINAL cannot stand", "FINAL", "leave"),
        (
            "MEASURES SUM(A.day + B.day) AS x PATTERN (A B)",
            ResolutionError,
            "one variable",
            "B.day",
            "one call for each",
        ),
        (
            "MEASURES SUM(FIRST(A.day)) AS x PATTERN (A)",
            UnsupportedQuery,
            "cannot stand in SUM",
            "FIRST",
            "PREV and NEXT",
        ),
        (
            "MEASURES COUNT(DISTINCT *) AS x PATTERN (A)",
            UnsupportedQuery,
            "as wholes",
            "DISTINCT",
            "COUNT(DISTINCT A.x)",
        ),
        ("MEASURES stddev(day) AS x PATTERN (A)", UnsupportedQuery, "stddev is not known", "stddev", "ARRAY_AGG"),
        ("MEASURES SUM(A.*) AS x PATTERN (A)", UnsupportedQuery, "whole rows", "A", "only COUNT"),
        ("MEASURES A.* AS x PATTERN (A)", UnsupportedQuery, "whole rows", "A", "only COUNT"),
        ("MEASURES PREV(day, price) AS x PATTERN (A)", ResolutionError, "no whole number", "price", "a literal"),
        ("MEASURES LAST(prize) AS x PATTERN (A)", UnknownColumn, "no column 'prize'", "prize", "'price'"),
        ("MEASURES PREV(1) AS x PATTERN (A)", ResolutionError, "refers to no row", "PREV", "A.x"),
        (
            "MEASURES FINAL PREV(day) AS x PATTERN (A)",
            ResolutionError,
            "FINAL cannot stand before",
            "FINAL",
            "before FIRST",
        ),
        ("MEASURES 1 AS x, 2 AS X PATTERN (A)", ResolutionError, "two measures are called 'X'", "2", "another name"),
        ("MEASURES 1 AS Day ALL ROWS PER MATCH PATTERN (A)", ResolutionError, "like a column", "1", "another name"),
        (
            "MEASURES row_number() OVER () AS x PATTERN (A)",
            UnsupportedQuery,
            "a window function",
            "OVER",
            "column first",
        ),
        ("MEASURES explode(A.day) AS x PATTERN (A)", UnsupportedQuery, "any number of rows", "explode", "ARRAY_AGG"),
        ("MEASURES 1 + Stack(2, A.day, 3) AS x PATTERN (A)", UnsupportedQuery, "any number of rows", "Stack", "answer"),
        ("MEASURES window(day, '1 day') AS x PATTERN (A)", UnsupportedQuery, "any number", "window", "answer"),
        ("MEASURES SUM(inline(A.day)) AS x PATTERN (A)", UnsupportedQuery, "any number of rows", "inline", "ARRAY_AGG"),
        ("PATTERN (A) DEFINE A AS json_tuple(symbol, 'x') > 1", UnsupportedQuery, "any number", "json_tuple", "answer"),
        (
            "PATTERN (A B) DEFINE B AS posexplode(A.day) > 1",
            UnsupportedQuery,
            "any number of rows",
            "posexplode",
            "answer",
        ),
        ("PATTERN (A)", ResolutionError, "nothing is shown of a match", "P", "MEASURES"),
        (
            "PATTERN (A B) DEFINE B AS f(day, A.day) > 1",
            UnsupportedQuery,
            "several rows",
            "f(day, A.day)",
            "a single row",
        ),
        ("PATTERN (A B) DEFINE B AS day > C.day", UnknownVariable, "'C'", "C", "A, B"),
    ],
)
def test_errors_say_where_and_what_to_do(
    clause: str, kind: type[CetdslError], message: str, at: str, hint: str
) -> None:
    with pytest.raises(kind) as caught:
        resolve(parse_clause(clause), COLUMNS)
    error = caught.value
    assert message in error.message
    assert hint in (error.hint or "")
    assert error.text == clause
    assert error.span is not None
    assert clause[slice(*error.span)] == at
    assert "^" in str(error)


def test_as_many_parts_are_permuted_as_the_hint_says() -> None:
    parts = [f"v{n}" for n in range(MOST_PERMUTED + 1)]
    automaton_of(parse_clause(f"PATTERN (PERMUTE({', '.join(parts[1:])}))").pattern)
    with pytest.raises(UnsupportedQuery, match="PERMUTE of 6 parts has 720 orders") as caught:
        automaton_of(parse_clause(f"PATTERN (PERMUTE({', '.join(parts)}))").pattern)
    assert caught.value.hint == "permute at most 5 parts at once"


def test_an_exclusion_is_refused_beside_unmatched_rows_only() -> None:
    text = "MEASURES COUNT(*) AS n {} PATTERN (A {{- B -}})"
    for output in ("", "ALL ROWS PER MATCH", "ALL ROWS PER MATCH OMIT EMPTY MATCHES"):
        resolve(parse_clause(text.format(output)), COLUMNS)
    with pytest.raises(UnsupportedQuery, match="cannot be shown WITH UNMATCHED ROWS"):
        resolve(parse_clause(text.format("ALL ROWS PER MATCH WITH UNMATCHED ROWS")), COLUMNS)


@pytest.mark.parametrize(
    ("clause", "kind", "message"),
    more_on_classic(
        ("MEASURES nowhere + 1 AS x PATTERN (A)", UnknownColumn, "no column 'nowhere'"),
        ("MEASURES no_function(day) AS x PATTERN (A)", QueryTypeError, "cannot evaluate the measure x"),
        ("MEASURES LAST(day) IGNORE NULLS AS x PATTERN (A)", ParseError, "Syntax error at or near 'NULLS'"),
        ("MEASURES A.day + AS x PATTERN (A)", ParseError, "hint: look for an operand"),
        ("MEASURES 1 AS x PATTERN (A) DEFINE A AS day > 1 too_much", ParseError, "Syntax error"),
        ("MEASURES A.day -- that of A\n too_much AS x PATTERN (A)", ParseError, "Syntax error"),
        ("MEASURES A.day AS x PATTERN (A) DEFINE A AS day >", ParseError, "cannot evaluate a condition of DEFINE"),
        ("MEASURES A.day AS x PATTERN (A B) DEFINE B AS day > A.day, A AS 2 +", ParseError, "condition of DEFINE"),
        (
            "MEASURES array_distinct(FIRST(A.day)) + LAST(day) AS x PATTERN (A)",
            QueryTypeError,
            "distinct(FIRST(A.day))",
        ),
        ("MEASURES A.day AS x PATTERN (A) DEFINE A AS array_max(price)", QueryTypeError, '"array_max(price)"'),
        ("MEASURES `slot 0` AS x PATTERN (A)", UnknownColumn, "no column 'slot 0'"),
        ("MEASURES 1 AS x PATTERN (A) DEFINE A AS day + 1", QueryTypeError, "of type int, not true or false"),
        ("MEASURES 1 AS x PATTERN (A) DEFINE A AS nowhere > 1", UnknownColumn, "no column 'nowhere'"),
        ("MEASURES SUM(symbol || 'x') + no AS x PATTERN (A)", UnknownColumn, "no column 'no'"),
        ("MEASURES MIN(ARRAY(day)) AS x PATTERN (A)", UnsupportedQuery, "MIN and MAX of values of type array<int>"),
        ("ORDER BY symbol MEASURES 1 AS x PATTERN (A) WITHIN 5", WindowError, "'symbol' is of type string"),
        ("MEASURES 1 AS x PATTERN (A) WITHIN 5", ParseError, "WITHIN needs a time"),
        (
            "ORDER BY day MEASURES 1 AS x PATTERN (A) WITHIN INTERVAL '1' HOUR",
            WindowError,
            "cannot limit whole numbers",
        ),
        ("ORDER BY day MEASURES 1 AS x PATTERN (A) WITHIN INTERVAL '1' MONTH", ParseError, "months and years differ"),
        ("ORDER BY day MEASURES 1 AS x PATTERN (A) WITHIN soon", ParseError, "'soon' is not a length"),
        ("MEASURES system.builtin.explode(ARRAY(day)) AS x PATTERN (A)", UnsupportedQuery, "explode gives any number"),
        (
            "MEASURES system.builtin.max(day) AS x PATTERN (A)",
            UnsupportedQuery,
            "max is not known as a function",
        ),
        ("MEASURES `count`(*) AS x PATTERN (A)", UnsupportedQuery, "`count` is not known as a function"),
        ("MEASURES `explode`(ARRAY(day)) AS x PATTERN (A)", UnsupportedQuery, "explode` gives any number"),
        ("MEASURES nowhere.abs(day) AS x PATTERN (A)", QueryTypeError, "`nowhere`.`abs`"),
        ("MEASURES 1 AS x PATTERN (A{9999})", UnsupportedQuery, "more than 4096 places"),
        ("MEASURES COUNT(DISTINCT) AS x PATTERN (A)", ResolutionError, "COUNT takes one argument"),
        ("MEASURES SUM(ALL) AS x PATTERN (A)", ResolutionError, "SUM takes one argument"),
        ("MEASURES 1 AS x PATTERN (A) DEFINE A AS MIN(DISTINCT) > 1", ResolutionError, "MIN takes one argument"),
        ("MEASURES COUNT(A) AS x PATTERN (A)", UnknownColumn, "hint: A is a variable: name a column of its rows"),
        ("MEASURES A AS x PATTERN (A)", UnknownColumn, "or count them, COUNT(A.*)"),
        ("MEASURES CLASSIFIER AS x PATTERN (A)", UnknownColumn, "hint: write CLASSIFIER()"),
        ("MEASURES LAST(match_number) AS x PATTERN (A)", UnknownColumn, "hint: write MATCH_NUMBER()"),
        ("MEASURES FINAL A.day AS x PATTERN (A)", ResolutionError, "FINAL cannot stand before A"),
        ("MEASURES RUNNING day + 1 AS x PATTERN (A)", ResolutionError, "hint: write RUNNING before FIRST, LAST"),
        ("MEASURES MAX(map(1, day)) AS x PATTERN (A)", UnsupportedQuery, "hint: aggregate a field of them"),
        ("MEASURES NEXT(day, 3000000000) AS x PATTERN (A)", ResolutionError, "no whole number below 2^31"),
        ("MEASURES 1 AS x PATTERN (A B) SUBSET U = (A), U = (B)", ResolutionError, "there are two subsets 'U'"),
        ("MEASURES 1 AS x PATTERN () DEFINE A AS day > 1", UnknownVariable, "hint: add it to PATTERN"),
    ),
)
def test_errors_that_need_the_data_frame(acme: Any, clause: str, kind: type[CetdslError], message: str) -> None:
    with pytest.raises(kind) as caught:
        acme.match_recognize(clause)
    assert message in str(caught.value)


@pytest.fixture(scope="module")
def unordered(spark: Any) -> Any:
    columns = ["map('k', id) AS m", "struct(id, map('k', id) AS m) AS st", "struct(parse_json('1') AS v, id) AS sv"]
    more = ["make_interval(1) AS iv", "INTERVAL '1' DAY AS di", "struct(id AS map, array(id) AS variant) AS named"]
    return spark.range(2).selectExpr("id AS t", *columns, *more)


@pytest.mark.parametrize(
    ("clause", "message", "at"),
    more_on_classic(
        ("PARTITION BY M ORDER BY t", "the partition column 'm' is of type map<string,bigint>, which has no", "M"),
        ("ORDER BY t, m DESC", "the order column 'm' is of type map<string,bigint>, which has no order", "m"),
        ("PARTITION BY di, st", "the partition column 'st' is of type struct<id:", "st"),
        ("PARTITION BY sv", "the partition column 'sv' is of type struct<v:variant,", "sv"),
        ("ORDER BY iv", "the order column 'iv' is of type interval", "iv"),
        (
            "ORDER BY t MEASURES COUNT(DISTINCT a.m) AS q",
            "type map<string,bigint>, which has no",
            "COUNT(DISTINCT a.m)",
        ),
        ("MEASURES ARRAY_AGG(DISTINCT iv) AS q", "DISTINCT values are of type interval", "ARRAY_AGG(DISTINCT iv)"),
    ),
)
def test_what_has_no_order_is_no_key(unordered: Any, clause: str, message: str, at: str) -> None:
    clause += " PATTERN (a)" if "MEASURES" in clause else " MEASURES COUNT(*) AS n PATTERN (a)"
    with pytest.raises(QueryTypeError) as caught:
        unordered.match_recognize(clause)
    assert message in caught.value.message
    assert caught.value.span is not None
    assert clause[slice(*caught.value.span)] == at
    assert caught.value.hint


def test_what_has_an_order_is_a_key(unordered: Any) -> None:
    clause = (
        "PARTITION BY di, named ORDER BY t MEASURES COUNT(DISTINCT di) AS n, COUNT(DISTINCT named) AS m PATTERN (a+)"
    )
    assert [row[-2:] for row in answer(unordered.match_recognize(clause))] == [(1, 1), (1, 1)]


def test_errors_of_matches_name_the_match(acme: Any) -> None:
    base = "PARTITION BY symbol ORDER BY day MEASURES COUNT(*) AS n AFTER MATCH SKIP TO {} PATTERN (A B? C)"
    defined = " DEFINE A AS price > 20, B AS FALSE, C AS price > 20"
    with pytest.raises(EngineError, match=r"no row to go to: match 1 of partition \{'symbol': 'ACME'\}") as caught:
        answer(acme.match_recognize(base.format("LAST B") + defined))
    _, clause, caret, _ = str(caught.value).splitlines()
    assert caret.index("^") == clause.index("B PATTERN")
    with pytest.raises(EngineError, match="goes to the first row of match 1"):
        answer(acme.match_recognize(base.format("FIRST A") + defined))
    missing = acme.withColumn("day", F.expr("IF(day = 3, NULL, day)"))
    with pytest.raises(NullTime, match="the column 'day'"):
        answer(missing.match_recognize("ORDER BY day MEASURES 1 AS x PATTERN (A) WITHIN 5"))


def test_what_is_no_text_or_no_data_frame(acme: Any) -> None:
    with pytest.raises(InvalidNode, match=r"sort='runs' is unknown\n  hint: use 'auto', 'kernel' or 'spark'"):
        acme.match_recognize("ORDER BY day MEASURES 1 AS x PATTERN (A)", sort="runs")
    with pytest.raises(ParseError, match=r"in parentheses\n(.|\n)*cet\.sql"):
        acme.match_recognize("MATCH_RECOGNIZE (ORDER BY day PATTERN (A) DEFINE A AS TRUE)")
    with pytest.raises(InvalidNode, match="is a text"):
        acme.match_recognize(5)
    with pytest.raises(InvalidNode, match="a DataFrame of Spark"):
        cet.match_recognize("events", "PATTERN (A)")  # type: ignore[arg-type]


def test_clauses_become_nodes() -> None:
    clause = parse_clause("AFTER MATCH SKIP TO x PATTERN (A{,4}? `b c`{2}) DEFINE A AS 1 = 1")
    a, b = Variable("A"), Variable("b c")
    assert clause.pattern == Concatenation((Repetition(a, 0, 4, False), Repetition(b, 2, 2, True)))
    assert (clause.skip.to, clause.skip.variable, clause.output) == (SkipTo.LAST, "x", Output.ONE_ROW)


def test_a_long_text_is_read_quickly() -> None:
    text = "PATTERN (A) DEFINE A AS " + " OR ".join(f"day = {n} /* no */" for n in range(50_000))
    assert len(text) > 1_000_000
    assert len(tokens_of(text)) == 5 + 50_000 * 4 + 1
