"""``cet.sql(...)``: whole queries in which MATCH_RECOGNIZE stands behind tables."""

from __future__ import annotations

import re
from typing import Any

import pytest

import cetdsl as cet
from cetdsl.errors import (
    InvalidNode,
    ParseError,
    QueryTypeError,
    ResolutionError,
    UnknownColumn,
    UnknownFunction,
    UnknownVariable,
    UnsupportedQuery,
    recovering,
)
from cetdsl.rows.query import Pieces, clauses_of, table_query

pytestmark = pytest.mark.simple_plans

RISES = """MATCH_RECOGNIZE (
    PARTITION BY k ORDER BY t MEASURES FIRST(x) AS low, LAST(up.x) AS high PATTERN (first_ up+) DEFINE up AS x > PREV(x)
)"""


@pytest.fixture(scope="module")
def ticks(spark: Any) -> Any:
    rows = [("a", 1, 1), ("a", 2, 3), ("a", 3, 2), ("a", 4, 5), ("b", 1, 4), ("b", 2, 9), ("c", 1, 7)]
    spark.createDataFrame(rows, "k string, t int, x int").createOrReplaceTempView("ticks")
    yield
    spark.catalog.dropTempView("ticks")


def answer(text: str, spark: Any) -> list[tuple[Any, ...]]:
    with recovering():
        return sorted(map(tuple, cet.sql(text, spark).collect()), key=repr)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"SELECT * FROM ticks {RISES}", [("a", 1, 3), ("a", 2, 5), ("b", 4, 9)]),
        (f"SELECT m.k, m.high FROM ticks AS s {RISES} AS m WHERE m.low > 1 -- {RISES[:15]} (", [("a", 5), ("b", 9)]),
        (f"SELECT k, low FROM VALUES ('a', 1, 2), ('a', 2, 3) AS v(k, t, x) {RISES}", [("a", 2)]),
        (f"SELECT 1 AS one FROM VALUES (1), (2) AS v(n), ticks {RISES} WHERE n = low", [(1,), (1,)]),
        (f"SELECT 1 AS one FROM VALUES 1 + 0, 2 v, ticks {RISES} WHERE col1 = low", [(1,), (1,)]),
        (
            "SELECT * FROM VALUES NULL, CAST(2 AS int), 1 + 2 AS v(x) MATCH_RECOGNIZE (ORDER BY x "
            "MEASURES LAST(x) AS l PATTERN (A A A) DEFINE A AS TRUE)",
            [(3,)],
        ),
        (
            "SELECT * FROM VALUES array(1), array(2, 3) AS v(x) MATCH_RECOGNIZE (ORDER BY x MEASURES LAST(x)[1] AS l "
            "PATTERN (A A) DEFINE A AS TRUE)",
            [(3,)],
        ),
        (f"SELECT k, COUNT(*) AS n FROM (SELECT * FROM ticks WHERE k <> 'b') {RISES} GROUP BY k", [("a", 2)]),
        (f"SELECT '{{}} MATCH_RECOGNIZE (' AS s, high FROM ticks {RISES} WHERE k = 'b'", [("{} MATCH_RECOGNIZE (", 9)]),
        (
            f"SELECT m.k, s.t FROM ticks s JOIN ticks {RISES} m ON m.k = s.k AND m.high = s.x ORDER BY 1",
            [("a", 2), ("a", 4), ("b", 2)],
        ),
        (
            f"WITH some AS (SELECT * FROM ticks WHERE k = 'a'), found(key, lo, hi) AS (SELECT * FROM some {RISES})"
            " SELECT hi FROM found",
            [(3,), (5,)],
        ),
        (
            # The answer of one clause is the table of the next, inside of a sub-query that has a WITH of its own.
            f"""WITH one AS (SELECT * FROM ticks)
            SELECT n FROM (
                WITH two AS (SELECT k, high AS t, low AS x FROM one {RISES})
                SELECT * FROM (SELECT * FROM two) MATCH_RECOGNIZE (
                    ORDER BY t MEASURES COUNT(*) AS n, '}}' AS brace PATTERN (A+)
                )
            )""",
            [(3,)],
        ),
        (
            "SELECT n FROM range(5) AS r(n) MATCH_RECOGNIZE (ORDER BY n MEASURES LAST(n) AS n PATTERN (A{2}))",
            [(1,), (3,)],
        ),
        (f"SELECT a.high FROM ticks {RISES} a, ticks {RISES} b WHERE a.high < b.low", [(3,)]),
        (f"SELECT (SELECT MAX(high) FROM ticks {RISES}) AS most", [(9,)]),
        ("SELECT match_recognize FROM (SELECT 1 AS match_recognize)", [(1,)]),
    ],
)
def test_queries(spark: Any, ticks: None, text: str, expected: list[tuple[Any, ...]]) -> None:
    assert answer(text, spark) == expected


def test_no_view_is_left_behind(spark: Any, ticks: None) -> None:
    before = spark.sql("SHOW TABLES").collect()
    answer(f"SELECT * FROM ticks {RISES}", spark)
    assert spark.sql("SHOW TABLES").collect() == before


@pytest.mark.parametrize(
    ("text", "kind", "at"),
    [
        ("SELECT * FROM ticks MATCH_RECOGNIZE (PATTERN (A) DEFINE B AS x > 1)", UnknownVariable, "B"),
        ("SELECT * FROM ticks /* ( */ MATCH_RECOGNIZE (MEASURES A.y AS y PATTERN (A))", UnknownColumn, "y"),
        ("SELECT * FROM ticks MATCH_RECOGNIZE (PATTERN (A |))", ParseError, ")"),
        ("SELECT * FROM ticks MATCH_RECOGNIZE (PATTERN (A)", ParseError, "("),
        ("SELECT * FROM MATCH_RECOGNIZE (PATTERN (A))", ParseError, "MATCH_RECOGNIZE"),
        ("SELECT f(MATCH_RECOGNIZE (x)) FROM ticks", ParseError, "MATCH_RECOGNIZE"),
        ("SELECT * FROM ticks WHERE MATCH_RECOGNIZE (x)", ParseError, "MATCH_RECOGNIZE"),
    ],
)
def test_errors_point_into_the_whole_text(spark: Any, ticks: None, text: str, kind: type, at: str) -> None:
    with pytest.raises(kind) as caught:
        cet.sql(text, spark)
    error: Any = caught.value
    assert error.text == text
    assert text[slice(*error.span)] == at
    assert error.hint


def test_what_is_no_text(spark: Any) -> None:
    with pytest.raises(InvalidNode, match="a query is a text"):
        cet.sql(5, spark)  # type: ignore[arg-type]


@pytest.mark.parametrize("session", [None, "spark"])
def test_what_is_no_session(session: Any) -> None:
    with pytest.raises(InvalidNode, match=f"a session of Spark is expected, not {session!r}\n  hint: hand over spark"):
        cet.sql("SELECT 1", session)
    with pytest.raises(InvalidNode, match="a session of Spark is expected"):
        cet.register(session)


COUNTS = "MATCH_RECOGNIZE (ORDER BY t MEASURES COUNT(*) AS n PATTERN (a+) DEFINE a AS x > 0)"


@pytest.mark.parametrize(
    ("text", "kind", "message", "at"),
    [
        (f"SELECT m.n FROM ticks {COUNTS} m WHER n > 1 GROUP n", ParseError, "near 'WHER'", "WHER"),
        (f"SELECT n\nFROM ticks {COUNTS}, ticks {COUNTS}\nWHERE n AND AND n", ParseError, "near 'n'", "n"),
        (f"SELECT 1 FROM (SELECT x x x FROM ticks) {COUNTS}", ParseError, "near 'x'", "(SELECT x x x FROM ticks)"),
        (f"SELECT n FROM ticks {COUNTS} m WHERE m.zz > 1", UnknownColumn, "[`m`.`n`]", "m.zz"),
        (f"SELECT zz FROM ticks {COUNTS}", UnknownColumn, "[`n`]", "zz"),
        (f"SELECT 1 FROM ticks {COUNTS} WHERE n > 1 AND n.x = 2", QueryTypeError, "extract a value", "n.x"),
        (f"SELECT 1 FROM ticks {COUNTS} a, ticks {COUNTS} b WHERE 1 = foo(a.n)", UnknownFunction, "`foo`", "foo(a.n)"),
        (f"SELECT n FROM nowhere {COUNTS}", ResolutionError, "`nowhere` cannot be found", "nowhere"),
        (f"SELECT n FROM (SELECT t, x, y FROM ticks) {COUNTS}", UnknownColumn, "`y`", "y"),
        ("SELECT no FROM ticks", UnknownColumn, "`no`", "no"),
    ],
)
def test_errors_of_spark_speak_of_the_text_of_the_user(
    spark: Any, ticks: None, text: str, kind: type, message: str, at: str
) -> None:
    with pytest.raises(kind) as caught:
        cet.sql(text, spark)
    error: Any = caught.value
    assert message in error.message
    assert not re.search(r"pyspark_|match_[0-9a-f]|line \d", error.message)
    assert text[slice(*error.span)] == at
    assert error.hint


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE OR REPLACE TEMP VIEW made AS",
        "/* a VIEW */ create view if not exists made AS",
        "ALTER VIEW made AS",
        "CACHE TABLE made AS",
        "CREATE TEMPORARY FUNCTION made() RETURNS BIGINT RETURN",
    ],
)
def test_statements_that_keep_their_query_are_refused(spark: Any, ticks: None, statement: str) -> None:
    with pytest.raises(UnsupportedQuery, match=r"keeps the query(.|\n)*createOrReplaceTempView"):
        cet.sql(f"{statement} SELECT * FROM ticks {COUNTS}", spark)
    assert not spark.catalog.tableExists("made")


def test_answers_are_written_to_tables(spark: Any, ticks: None) -> None:
    cet.sql(f"CREATE TABLE view USING parquet AS SELECT n FROM ticks {COUNTS}", spark)
    try:
        cet.sql(f"INSERT INTO view SELECT n + 1 FROM ticks {COUNTS} m", spark)
        cet.sql(f"INSERT INTO view WITH ticks AS (SELECT 'a' AS k, 1 AS t, 2 AS x) SELECT n FROM ticks {COUNTS}", spark)
        assert answer("SELECT * FROM view", spark) == [(1,), (7,), (8,)]
    finally:
        spark.sql("DROP TABLE view")
    cet.sql(f"SELECT n FROM ticks {COUNTS}", spark).createOrReplaceTempView("made")
    assert spark.table("made").collect() == [(7,)]
    spark.catalog.dropTempView("made")


@pytest.mark.parametrize(
    ("statement", "query"),
    [
        ("WITH a AS (SELECT 1), b(x) AS (SELECT 2)", "WITH a AS (SELECT 1), b(x) AS (SELECT 2) SELECT * FROM a"),
        ("WITH a (SELECT 1), b(x) (SELECT 2)", "WITH a (SELECT 1), b(x) (SELECT 2) SELECT * FROM a"),
        (
            "WITH RECURSIVE a(x) MAX RECURSION LEVEL 9 AS (SELECT 1)",
            "WITH RECURSIVE a(x) MAX RECURSION LEVEL 9 AS (SELECT 1) SELECT * FROM a",
        ),
        ("WITH recursive AS (SELECT 1)", "WITH recursive AS (SELECT 1) SELECT * FROM a"),
        ("CREATE TABLE t USING parquet AS WITH a AS (SELECT 1)", "WITH a AS (SELECT 1) SELECT * FROM a"),
        ("INSERT INTO t (x) WITH a AS (SELECT 1)", "WITH a AS (SELECT 1) SELECT * FROM a"),
        ("EXPLAIN EXTENDED WITH a AS (SELECT 1)", "WITH a AS (SELECT 1) SELECT * FROM a"),
        (
            "WITH a AS (SELECT 1) INSERT WITH SCHEMA EVOLUTION INTO t WITH b AS (SELECT 2)",
            "WITH a AS (SELECT 1) SELECT * FROM (WITH b AS (SELECT 2) SELECT * FROM a)",
        ),
        ("INSERT INTO t", "SELECT * FROM a"),
    ],
)
def test_a_table_may_refer_to_what_each_with_names(statement: str, query: str) -> None:
    text = f"{statement} SELECT * FROM a MATCH_RECOGNIZE (PATTERN (A))"
    for whole in (text, f"SELECT * FROM ({text})", f"WITH c AS ({text}) SELECT * FROM c"):
        [found] = clauses_of(whole)
        assert table_query(Pieces(whole), found) == query


def test_a_query_without_clauses_has_none() -> None:
    assert clauses_of("SELECT 'MATCH_RECOGNIZE (' AS `MATCH_RECOGNIZE (` FROM t -- x MATCH_RECOGNIZE (") == []
