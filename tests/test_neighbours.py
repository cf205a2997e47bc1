"""Rows before and behind a row, and conditions on them: the kernel says what Spark's window functions say."""

from __future__ import annotations

import decimal
import math
import random
from datetime import date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from modes import more_on_classic

from cetdsl.errors import InvalidNode, NullTime, recovering
from cetdsl.ir.rows import Neighbours
from cetdsl.ir.slots import TESTS_IN_WORD
from cetdsl.kernels.rows.neighbours import with_neighbours
from cetdsl.planning.neighbours import why_left_to_spark

pytestmark = pytest.mark.simple_plans

#: The columns that conditions look at, with values that are easily taken for each other.
COLUMNS: dict[str, tuple[str, list[Any]]] = {
    "d": ("double", [None, math.nan, -0.0, 0.0, 1.5, math.inf, -math.inf, 0.1, 1e300]),
    "f": ("float", [None, math.nan, -0.0, 0.0, 1.5, 0.1, -3e38]),
    "n": ("int", [None, 0, 1, -1, 2**31 - 1, -(2**31)]),
    "l": ("bigint", [None, 0, 1, 2**53, 2**53 + 1, -(2**63), 2**63 - 1]),
    "m": ("decimal(5,2)", [None, decimal.Decimal("1.50"), decimal.Decimal("-0.01"), decimal.Decimal("0.00")]),
    "b": ("boolean", [None, True, False]),
    "s": ("string", [None, "", "a", "aa", "B", "é", "z", "\U0001f600", "\uffff", "a "]),
    "day": ("date", [None, date(2024, 2, 29), date(1969, 12, 31)]),
    "at": ("timestamp", [None, datetime(2024, 3, 1), datetime(1950, 1, 1, 0, 0, 0, 1)]),
    "nt": ("timestamp_ntz", [None, datetime(2024, 3, 1), datetime(2024, 3, 1) + timedelta(microseconds=1)]),
}
MOVES = (-1, -2, 1, 3)


def rows() -> list[tuple]:
    draw = random.Random(7)
    return [
        (key, place, *(draw.choice(values) for _, values in COLUMNS.values()))
        for key, many in enumerate([1, 2, 5, 40, 100])
        for place in range(many)
    ]


def operands(name: str) -> st.SearchStrategy[str]:
    """A column of the row itself, or of a neighbour."""
    return st.sampled_from([f"`{name}`", *(f"`{name} {move}`" for move in MOVES)])


def comparisons() -> st.SearchStrategy[str]:
    signs = st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"])
    constants = {"d": "1.5", "n": "-1", "l": "9007199254740993", "b": "TRUE", "s": "'aa'", "f": "`d`"}
    alike = st.sampled_from(list(COLUMNS)).flatmap(
        lambda name: st.tuples(
            operands(name), signs, st.one_of(operands(name), st.just(constants.get(name, f"`{name}`")))
        )
    )
    reals = st.recursive(
        st.one_of(operands("d"), operands("n"), st.sampled_from(["2", "0.1", "1.5D", "ABS(`d -1`)", "-`d`"])),
        lambda inner: st.tuples(operands("d"), st.sampled_from("+-*"), inner).map(lambda parts: f"({' '.join(parts)})"),
        max_leaves=3,
    )
    numbers = st.tuples(st.one_of(operands("n"), operands("l")), signs, st.one_of(operands("l"), operands("n")))
    compared = st.one_of(alike, numbers, st.tuples(operands("d"), signs, reals)).map(" ".join)
    ranges = st.tuples(operands("d"), operands("d"), reals).map(lambda of: f"{of[0]} BETWEEN {of[1]} AND {of[2]}")
    listed = st.tuples(operands("s"), operands("s")).map(lambda of: f"{of[0]} NOT IN ({of[1]}, 'a', 'é')")
    missing = st.sampled_from(list(COLUMNS)).flatmap(operands).map(lambda name: f"{name} IS NOT NULL")
    return st.one_of(compared, compared, ranges, listed, missing, operands("b"))


CONDITIONS = st.recursive(
    comparisons(),
    lambda inner: st.one_of(
        inner.map(lambda one: f"NOT ({one})"),
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(lambda of: f"({of[0]}) {of[1]} ({of[2]})"),
    ),
    max_leaves=4,
)


@pytest.mark.parametrize("seed", more_on_classic(1, 2))
def test_conditions_say_what_spark_says(spark: Any, seed: int) -> None:
    """Each holds of the same rows, and is NULL or false of the others; many of them in one job."""
    schema = ", ".join(["k int", "t int", *(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())])
    df = spark.createDataFrame(rows(), schema).coalesce(1)
    over = "OVER (PARTITION BY k ORDER BY t)"
    moved = [(name, move) for name in COLUMNS for move in MOVES]
    window = [f"{'lag' if move < 0 else 'lead'}({name}, {abs(move)}) {over} AS `{name} {move}`" for name, move in moved]
    looking = df.selectExpr("*", *window)
    kinds = {field.name: field.dataType.simpleString() for field in looking.schema.fields}
    conditions: list[str] = []

    @settings(
        max_examples=1,
        deadline=None,
        phases=[Phase.generate],
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(CONDITIONS, min_size=120, max_size=120, unique=True), st.just(seed))
    def generate(found: list[str], _: int) -> None:
        conditions[:] = found

    generate()
    known = [one for one in conditions if why_left_to_spark(one, kinds) is None]
    assert len(known) > 100
    bits = ", ".join(f"CASE WHEN {condition} THEN 1 ELSE 0 END" for condition in known)
    answers = looking.selectExpr("*", f"array({bits}) AS bits").orderBy("k", "t")
    table = answers.toArrow()
    expected = table.column("bits").to_pylist()
    names = {name: place for place, name in enumerate(table.column_names)}
    plain = table.select(range(2 + len(COLUMNS)))
    asked = Neighbours(
        tuple((names[name], move) for name, move in moved),
        tuple((name, place) for name, place in names.items() if name != "bits"),
        tuple(enumerate(known)),
        (-1,) * (len(known) // TESTS_IN_WORD + 1),
    )
    for size in (7, 1000):
        found = pa.Table.from_batches(list(with_neighbours(asked, 1, iter(plain.to_batches(max_chunksize=size)))))
        words = [column.to_pylist() for column in found.columns[2 + len(COLUMNS) + len(moved) :]]
        for bit, condition in enumerate(known):
            holds = [word >> bit % TESTS_IN_WORD & 1 for word in words[bit // TESTS_IN_WORD]]
            assert holds == [each[bit] for each in expected], condition


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("n + 1 > 2", "it computes with int"),
        ("l > d", "it compares bigint with double"),
        ("m > 1", "it compares decimal(5,2) with whole number"),
        ("s LIKE 'a%'", "it calls LIKE"),
        ("s = 'a\\\\tb'", "it has a backslash, which settings of the session give a meaning"),
        ("d / 2 > 1", "it calls /"),
        ("d = 9007199254740993", "it compares double with bigint"),
        ("n > 1.5", "it compares int with number with a point"),
        ("s", "it is of type string"),
        ("n AND b", "it takes int for a truth value"),
        ("d > NULL", "it has NULL, or a very large number, in its text"),
        ("at > x", "it looks at values of type unknown"),
        ("n | 1 = 1", "| stands in it"),
    ],
)
def test_what_is_left_to_spark(condition: str, why: str) -> None:
    kinds = {name: kind for name, (kind, _) in COLUMNS.items()}
    quoted = condition
    for name in ("n", "l", "d", "m", "s", "b", "at", "x"):
        quoted = " ".join(f"`{name}`" if word == name else word for word in quoted.split(" "))
    assert why_left_to_spark(quoted, kinds) == why


#: Clauses that look around in all ways, with and without an order of their own.
CLAUSES = {
    "conditions": """PARTITION BY k ORDER BY t MEASURES FIRST(t) AS m1, LAST(t) AS m2, COUNT(*) AS m3
        PATTERN (x y+ z?) DEFINE y AS d > PREV(d) OR s <> NEXT(s, 2), z AS PREV(n, 2) <= n AND upper(s) <> 'A'""",
    "falling times": """PARTITION BY k ORDER BY at DESC NULLS FIRST, s NULLS LAST, t DESC
        MEASURES FIRST(t) AS m1, LAST(t) AS m2, COUNT(*) AS m3 PATTERN (x y*) DEFINE y AS d <= PREV(d)""",
    "values of neighbours": """PARTITION BY f ORDER BY d NULLS LAST, k, t
        MEASURES FIRST(t) AS m1, NEXT(LAST(l), 2) AS m2, PREV(FIRST(t)) AS m3
        PATTERN (x y?) DEFINE y AS n >= 0""",
    "one partition": """ORDER BY k DESC, t MEASURES FIRST(t) AS m1, LAST(t) AS m2, COUNT(*) AS m3
        PATTERN (x y*) DEFINE x AS b, y AS PREV(k) = k""",
    "the match so far": """PARTITION BY k ORDER BY t MEASURES FIRST(t) AS m1, LAST(t) AS m2, SUM(n) AS m3
        PATTERN (x y*) DEFINE y AS n >= FIRST(n) AND d <> PREV(d)""",
    "unmatched rows": """PARTITION BY k ORDER BY t MEASURES MATCH_NUMBER() AS m1, CLASSIFIER() AS m2, PREV(t) AS m3
        ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (x y) DEFINE y AS d < PREV(d)""",
    "what only Spark evaluates": """PARTITION BY k ORDER BY t MEASURES FIRST(t) AS m1, LAST(t) AS m2, COUNT(*) AS m3
        PATTERN (x y+) DEFINE y AS length(s) > coalesce(length(PREV(s)), 0)""",
}


@pytest.mark.classic
def test_whoever_sorts_finds_the_same_matches(spark: Any) -> None:
    """Those of many clauses, each in both ways, in two jobs."""
    schema = ", ".join(["k int", "t int", *(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())])
    df = spark.createDataFrame(rows(), schema).repartition(3)
    found = {}
    for sort in ("spark", "kernel"):
        united = None
        for name, clause in CLAUSES.items():
            answer = df.match_recognize(clause, sort=sort).selectExpr(
                f"'{name}' AS clause", *(f"CAST(m{n} AS string) AS m{n}" for n in (1, 2, 3))
            )
            united = answer if united is None else united.union(answer)
        found[sort] = sorted(map(tuple, united.collect()), key=repr)
    assert found["spark"] == found["kernel"]
    assert {name for name, *_ in found["kernel"]} == set(CLAUSES)


@pytest.mark.classic
def test_texts_of_a_fixed_length_are_compared_without_their_padding(spark: Any) -> None:
    spark.sql("CREATE TABLE padded (t int, x int, c char(5), v varchar(5)) USING parquet")
    try:
        spark.sql("INSERT INTO padded VALUES (1, 1, 'abc', 'abc'), (2, 2, 'abc', 'abc'), (3, 3, 'ab', 'ab')")
        for condition in ("c = 'abc' AND x > PREV(x)", "v = 'abc' AND x > PREV(x)"):
            clause = f"ORDER BY t MEASURES LAST(t) AS t PATTERN (A) DEFINE A AS {condition}"
            for sort in ("spark", "kernel"):
                found = spark.table("padded").match_recognize(clause, sort=sort)
                assert [tuple(row) for row in found.collect()] == [(2,)], (condition, sort)
        measures = "c = 'ab' AS e, LAST(A.c) = 'ab' AS f, FIRST(c) IN ('ab', 'x') AS g, MAX(x) AS m, c AS c"
        found = spark.table("padded").match_recognize(f"ORDER BY t MEASURES {measures} PATTERN (A) DEFINE A AS TRUE")
        assert [row.m for row in found.where("e AND f AND g AND c = 'ab'").collect()] == [3]
    finally:
        spark.sql("DROP TABLE padded")


def test_who_looks_at_neighbours_shows_in_the_plan(spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    df = spark.range(3).selectExpr("id AS k", "id AS t", "CAST(id AS double) AS x", "CAST(id AS string) AS s")

    def plan(condition: str, sort: str | None = None) -> str:
        df.match_recognize(
            f"PARTITION BY k ORDER BY t MEASURES 1 AS one PATTERN (A+) DEFINE A AS {condition}", sort=sort
        ).explain()
        return capsys.readouterr().out

    assert "Window" not in plan("x > PREV(x)")
    assert "Sort" not in plan("x > PREV(x)")
    assert "Window" in plan("x > PREV(x)", "spark")
    assert "Window" in plan("length(s) > length(PREV(s)) + 1")


def test_partitions_longer_than_a_batch(spark: Any) -> None:
    """Neighbours stand in other batches, and rows come in no order."""
    df = spark.range(0, 300_000, 1, 1).selectExpr("(id * 7919) % 300000 AS t").selectExpr("t", "t % 1000 AS x")
    clause = """ORDER BY t MEASURES FIRST(t) AS a, COUNT(*) AS c AFTER MATCH SKIP PAST LAST ROW
        PATTERN (low high+) DEFINE high AS x > PREV(x) AND NEXT(x, 2) IS NOT NULL"""
    found = df.match_recognize(clause, sort_memory="1m").agg({"a": "count", "c": "sum"}).first()
    # The last two rows of all have no second row behind them.
    assert tuple(found) == (300, 299_998)


def test_rows_without_a_time_are_refused_whoever_sorts(spark: Any) -> None:
    df = spark.createDataFrame([(1, 1), (None, 2), (3, 3)], "t int, x int")
    for sort in ("spark", "kernel"):
        answer = df.pattern("PATTERN SEQ(A a, B b) MATCHING STRICT", time="t", type=None, sort=sort).matches()
        with pytest.raises(NullTime, match="1"), recovering():
            answer.collect()


def test_unknown_ways_to_sort_are_refused(spark: Any) -> None:
    df = spark.createDataFrame([], "t int")
    with pytest.raises(InvalidNode, match="sort='fast'"):
        df.match_recognize("ORDER BY t MEASURES 1 AS one PATTERN (A)", sort="fast")
