"""Every query of up to 10 kB is planned or refused within seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from modes import more_on_classic, settings
from pyspark.sql import functions as F

import cetdsl as cet
from cetdsl.analysis import Field, Schema, analyse
from cetdsl.analysis.resolve import Binding
from cetdsl.errors import CetdslError
from cetdsl.execution.expressions import to_column
from cetdsl.ir.extraction import Extraction
from cetdsl.pattern.expressions import Aggregate, Attribute, Call, Literal
from cetdsl.pattern.nodes import And
from cetdsl.planning.planner import plan_aggregate, plan_complete, plan_trends
from cetdsl.planning.strategies.complete import CompleteRequest
from cetdsl.planning.strategies.kernel import kernel
from cetdsl.planning.strategies.request import compile_sides
from cetdsl.rewrite import rewrite

#: Seconds of this thread's work, whatever else the machine does.
LIMIT = 5
SCHEMA = Schema(
    [Field("t", "bigint"), Field("type", "string"), Field("x", "bigint"), Field("s", "string"), Field("y", "double")]
)
MANY = [f"V{number}" for number in range(60)]


def row(parts: list[str]) -> str:
    return f"SEQ({', '.join(parts)})"


def alternatives(parts: list[str]) -> str:
    return f"({' OR '.join(parts)})"


def where(pattern: str, predicates: list[str]) -> str:
    return f"{pattern} WHERE {' AND '.join(predicates)}"


#: Patterns, perhaps with predicates, and for those that are refused what the error says.
SHAPES: dict[str, tuple[str, str]] = {
    "a repeated sequence": ("SEQ(A, B){1,2000}", ""),
    "the most repetitions": ("B{4095}", ""),
    "any number of repetitions up to the most": ("SEQ(A, B{0,4095})", ""),
    "too many repetitions": ("B{4097}", "more than 4096 states"),
    "nested repetitions": ("(SEQ(A, B{1,16}){1,16}){1,14}", ""),
    "deeply nested repetitions": ("(" * 30 + "A{2,3}" + "){1,3}" * 30, "more than 4096 states"),
    "repetitions of many": (alternatives(MANY) + "{1,60}", "more than 100000 transitions"),
    "each of many repeated": (row([v + "{1,60}" for v in MANY]), ""),
    "optional parts": (row([v + "?" for v in MANY] + ["A"]), ""),
    "optional parts, repeated": (row([v + "?" for v in MANY]) + "{1,60}", "more than 100000 transitions"),
    "equal optional parts": (row(["A?"] * 2480), "too many ways through"),
    "optional parts in turn": (row(["A?", "B?"] * 1240), "too many ways through"),
    "some optional parts in turn": (row(["A?", "B?"] * 150), ""),
    "optional parts of many variables": (row([f"V{n}?" for n in range(1200)]), "more than 100000 transitions"),
    "stars of many variables": (alternatives([f"V{n}*" for n in range(1100)]) + "+", "too many ways through"),
    "alternatives in a sequence": (row(["(A OR B)"] * 900), ""),
    "repeated alternatives in a sequence": (row(["(A OR B+ OR SEQ(A, B)?)"] * 380), "too many ways through"),
    "alternatives that stay undecided": (row(["(A OR B)*", "A", *["(A OR B)"] * 800]), "more than 4096 states"),
    "long alternatives": (
        alternatives([row(["ABCD"[(n >> 2 * k) & 3] for k in range(6)]) for n in range(400)]),
        "",
    ),
    "orders": ("SEQ(X, (A AND B AND C AND D AND E AND F))", ""),
    "orders in a row": (row(["(A AND B AND C AND D AND E AND F)"] * 250), "more than 4096 states"),
    "orders of many": (f"SEQ(X, ({' AND '.join(MANY)}))", "too many orders"),
    "both sides repeated": ("SEQ(A, B{1,1500}) AND SEQ(A, B{1,1500})", "whose sides share a variable"),
    "NOT in each gap": (row(["A", *(f"NOT {v}, {v}x?" for v in MANY[:30]), "B"]), ""),
    "NOTs before optional parts": (row(["A", *(f"NOT {v}, A?" for v in MANY[:20] * 30)]), "too many ways through"),
    "alternatives of NOTs": (
        row(["A", *(f"(SEQ(NOT {v}, A?) OR SEQ(NOT {v}x, A?))" for v in MANY[:25])]),
        "too many ways through",
    ),
    "long NOTs": (
        row(["A", *(f"NOT C{{1,{4000 - n}}}" for n in range(300)), "B"]),
        "and its NOTs need more than 16384",
    ),
    "too many variables": (row([f"V{n}" for n in range(1300)]), "more than 62 event variables"),
    "counts of many": (where(alternatives(MANY) + "+", [f"COUNT({v}) >= 2" for v in MANY]), ""),
    "counted lengths": (where("SEQ(A, B){1,60}", [f"LENGTH >= {n}" for n in range(2, 62)]), ""),
    "conditions of one event": (where("SEQ(A, B)", [f"A.x > {n}" for n in range(700)]), ""),
    "refused alternatives": (where("SEQ(A, B)", [f"NOT (A.x = {n} OR A.s = 'b')" for n in range(270)]), ""),
    "neighbours of long repetitions": (where("B{1,4000}", [f"B.x + {n} < NEXT(B).x" for n in range(330)]), ""),
    "neighbours of many": (
        where(alternatives(MANY) + "+", [f"V{n % 60}.x < NEXT(V{n * 7 % 60}).x" for n in range(360)]),
        "",
    ),
    "pairs in a long pattern": (where(row(["B", *["A"] * 1800, "C"]), [f"B.x + {n} < C.x" for n in range(160)]), ""),
    "pairs of many": (
        where(row([v + "+" for v in MANY]), [f"V{n % 60}.x < V{(n * 7 + n // 60 + 1) % 60}.x" for n in range(450)]),
        "",
    ),
    "equalities of many": (where(row(MANY), [f"V{n % 60}.x = V{(n * 7 + 1) % 60}.x" for n in range(450)]), ""),
    "predicates of NOTs": (
        where(row(["A", *(f"NOT {v}" for v in MANY), "B"]), [f"V{n % 60}.x + {n} < A.x" for n in range(420)]),
        "",
    ),
    "predicates within NOT": (
        where(f"SEQ(A, NOT {row(MANY)}, B)", [f"V{n % 60}.x < V{(n * 7 + 1) % 60}.x" for n in range(400)]),
        "",
    ),
    "alternatives for NOT": (
        where("SEQ(A, NOT N, B)", [f"(N.x = A.x + {n} OR N.s = B.s)" for n in range(180)]),
        "",
    ),
    "distances": (where("SEQ(A, B)", [f"ABS(A.x - B.x) < {n}" for n in range(390)]), ""),
    "aggregates of a trend": (where("SEQ(A+, B+)", [f"SUM(A.x) + {n} < MAX(B.x)" for n in range(330)]), ""),
    "bounds of one column": (where("SEQ(A, B)", [f"A.x > {n}" for n in range(250)]), ""),
    "one event many times": ("SEQ(A, B{4095})", ""),
    "one event as often as its states are compared": ("SEQ(A, B{255})", ""),
    "a long list": (f"SEQ(A, B) WHERE A.x IN ({', '.join(map(str, range(1600)))})", ""),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_planning_takes_seconds(shape: str) -> None:
    pattern, refused = SHAPES[shape]
    text = f"PATTERN {pattern}"
    assert len(text) <= 10_240
    if not refused:
        plan(text)
        return
    with pytest.raises(CetdslError, match=refused) as error:
        plan(text)
    assert error.value.hint


def plan(text: str) -> None:
    """Plans each answer to a query, and measures each stage."""
    query = timed(cet.parse(text)._query)
    resolved = timed(lambda: rewrite(analyse(query, SCHEMA, Binding("t")))[0])
    timed(lambda: plan_aggregate(resolved, (("count", Aggregate("count")),), "decimal"))
    timed(lambda: plan_trends(resolved, ("t",), 5))
    if not isinstance(resolved.query.pattern, And):
        sides = compile_sides(resolved)
        for complete in ("maximal", "ends"):
            request = CompleteRequest(resolved, complete, Extraction(), ("t",), None, sides)
            timed(lambda request=request: plan_complete(request))


@pytest.mark.parametrize(
    ("wanted", "exact"),
    [
        ("MIN(B.x)", False),
        ("MIN(B.x), MAX(LENGTH)", False),
        ("MIN(B.x), COUNT(*)", True),
        ("AVG(B.y), SUM(B.y * 2), MAX(B.x)", False),
        ("AVG(B.y), AVG(B.x)", True),
        ("AVG(B.y), AVG(LENGTH)", True),
    ],
)
def test_trends_are_not_counted_exactly_for_extremes_and_doubles_alone(wanted: str, exact: bool) -> None:
    """Over a window of 17,000 events that would take seconds, as their number has as many bits."""
    resolved = rewrite(analyse(cet.parse(f"RETURN {wanted} PATTERN SEQ(A, B+)").node, SCHEMA, Binding("t")))[0]
    named = tuple((item.output_name, item.aggregate) for item in resolved.query.returning)
    assert plan_aggregate(resolved, named, "decimal", [kernel]).plan.spec.answer.exact == exact


def timed(stage: Callable[[], Any]) -> Any:
    start = time.thread_time()
    try:
        return stage()
    finally:
        assert time.thread_time() - start < LIMIT


#: A column, a list, and which of the column's values are in the list.
LISTS: list[tuple[str, list[Any], list[Any]]] = [
    ("b", [0, 1, 2**62, 2**62, -5], [1, 0, 2**62]),
    ("b", [*range(20, 300), 1], [1]),
    ("b", [Decimal("1.0"), Decimal("0.5"), 7], [1]),
    ("d", [0.0, 1.5, float("nan")], [0.0, -0.0, 1.5, float("nan")]),
    ("d", [*(n / 2 for n in range(2, 60)), float("nan")], [1.5, float("nan")]),
    ("d", [-0.0, *(float(n) for n in range(1, 40))], [0.0, -0.0]),
    ("d", [0, *range(2, 40)], [0.0, -0.0]),
    ("d", [Decimal("1.5"), 3], [1.5]),
    ("f", [0.1, *(n + 0.5 for n in range(40))], [1.5]),
    ("m", [Decimal("1.50"), *range(2, 30)], [Decimal("1.50")]),
    ("m", [Decimal(10) ** 30, Decimal("1.5")], [Decimal("1.50")]),
    ("s", ["1", "", *map(str, range(50, 90))], ["1", ""]),
    ("s", ["z", None], []),
    ("day", ["2024-1-1", "2025-01-01"], ["2024-01-01"]),
]
VALUES: dict[str, tuple[str, list[Any]]] = {
    "b": ("bigint", [1, 0, 2**62, None]),
    "d": ("double", [0.0, -0.0, 1.5, float("nan"), None]),
    "f": ("float", [1.5]),
    "m": ("decimal(10,2)", [Decimal("1.50")]),
    "s": ("string", ["1", "", None]),
    "day": ("string", ["2024-01-01"]),
}


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_lists_are_compared_value_by_value(spark: Any, ansi: str) -> None:
    """However many values a list has, it holds what equals one of them."""
    height = max(len(values) for _, values in VALUES.values())
    rows = [tuple([*values, *[None] * height][n] for _, values in VALUES.values()) for n in range(height)]
    df = spark.createDataFrame(rows, ", ".join(f"{name} {kind}" for name, (kind, _) in VALUES.items()))
    df = df.withColumn("day", F.to_date("day"))
    schema = Schema([Field(name, kind) for name, kind in df.dtypes])
    held = [to_column(is_in(name, values), lambda node: F.col(node.name), schema) for name, values, _ in LISTS]
    found = [F.collect_list(F.when(column, F.col(name))) for column, (name, _, _) in zip(held, LISTS, strict=True)]
    with settings(spark, {"spark.sql.ansi.enabled": ansi}):
        answer = df.select(*found).first()
    for (name, values, expected), got in zip(LISTS, answer, strict=True):
        assert list(map(str, got)) == list(map(str, expected)), (name, values)


def is_in(name: str, values: list[Any]) -> Call:
    return Call("in", (Attribute("a", name), *map(Literal, values)))


def fibonacci(n: int) -> int:
    """The number of even-length alternating subsequences is one less than a Fibonacci number."""
    before, now = 0, 1
    for _ in range(n - 1):
        before, now = now, before + now
    return now


@pytest.mark.parametrize(
    ("pattern", "expected"),
    more_on_classic(("B WHERE B.x IN (%s)", 7), ("B{1,4095}", 2**10 - 1), ("SEQ(A, B){1,1000}", fibonacci(21) - 1)),
)
def test_large_queries_run(spark: Any, pattern: str, expected: int) -> None:
    rows = [(n, "AB"[n % 2], n) for n in range(20)]
    df = spark.createDataFrame(rows, "t bigint, type string, x bigint")
    text = "PATTERN " + pattern.replace("%s", ", ".join(map(str, range(7, 600))))
    count = df.pattern(text, time="t").count_trends().first()[0]
    assert count == expected
