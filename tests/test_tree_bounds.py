"""What is too large, too deep or of no type of Spark's is refused when it is built; what is only long is not."""

from __future__ import annotations

import datetime
import math
import os
from collections.abc import Callable, Iterable
from decimal import Decimal
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from modes import more_on_classic

import cetdsl as cet
from cetdsl.analysis import Field, Schema, analyse
from cetdsl.errors import CetdslError, InvalidNode, ParseError, QueryTypeError, UnsupportedQuery, WindowError
from cetdsl.frontend.sase import parse, parse_queries
from cetdsl.pattern import expressions
from cetdsl.pattern.expressions import (
    DEEPEST,
    Attribute,
    Binary,
    Expr,
    Literal,
    Unary,
    conjunction,
    conjuncts,
    depth_over,
    joined,
    operands,
)
from cetdsl.pattern.nodes import events as events_of
from cetdsl.pattern.spans import Span
from cetdsl.pattern.text import unparse
from cetdsl.rewrite import rewrite
from cetdsl.rewrite.rules import unreachable

A, B = cet.events("A", "B")
JOIN: dict[str, Callable[[Any, Any], Any]] = {
    "and": lambda left, right: left & right,
    "or": lambda left, right: left | right,
    "+": lambda left, right: left + right,
}


def chain(op: str, number: int) -> tuple[str, cet.QueryTerm]:
    """A query whose predicate joins so many parts, as text and in Python."""
    if op == "+":
        whole = reduce(JOIN[op], [A[f"x{n}"] for n in range(number)]) > 1
        text = " + ".join(f"A.x{n}" for n in range(number)) + " > 1"
    else:
        whole = reduce(JOIN[op], [A.x > n for n in range(number)])
        text = f" {op} ".join(f"A.x > {n}" for n in range(number))
    return f"PATTERN A WHERE NOT ({text})", cet.seq(A).where(~whole)


# --- Long chains -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", JOIN)
def test_long_chains_are_balanced(op: str) -> None:
    for number in (2, 15, 16, 17, 40, 100, 700):
        text, built = chain(op, number)
        query = parse(text)
        assert query.where == built.node.where
        assert parse(unparse(query)) == query
        [whole] = query.where
        assert whole.depth <= 20
        [inner] = [node for node in whole.walk() if isinstance(node, Binary) and node.op == op][:1]
        leaves = operands(inner, op)
        assert len(leaves) == number
        assert inner.depth <= max(16, 3 + number.bit_length())


@pytest.mark.parametrize("op", JOIN)
def test_short_chains_are_joined_from_the_left(op: str) -> None:
    parts: list[Expr] = [A[f"x{n}"].node for n in range(12)]
    assert joined(op, parts) == reduce(lambda left, right: Binary(op, left, right), parts)


@pytest.mark.parametrize("op", JOIN)
def test_a_long_chain_is_built_in_time_with_its_length(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = 0

    def counting(children: Iterable[Any]) -> int:
        nonlocal made
        made += 1
        return depth_over(children)

    monkeypatch.setattr(expressions, "depth_over", counting)
    parts = [Attribute("a", f"x{n}") for n in range(2048)]
    whole = reduce(lambda left, right: joined(op, (left, right)), parts)
    assert operands(whole, op) == parts
    assert whole.depth == 12
    assert made < 2048 * 24


@given(st.lists(st.integers(1, 9), min_size=2, max_size=60))
def test_chains_of_deep_parts_are_shallow(depths: list[int]) -> None:
    parts = [reduce(lambda term, _: Unary("-", term), range(depth - 1), Attribute("a", "x")) for depth in depths]
    whole = reduce(lambda left, right: joined("+", (left, right)), parts)
    assert operands(whole, "+") == parts
    assert joined("+", parts) == whole
    # Short ones are as they are written, and others have one level more than the best tree at most.
    assert whole.depth <= max(16, math.ceil(math.log2(sum(2 ** (depth - 1) for depth in depths))) + 2)


def test_a_conjunction_keeps_its_parts_and_its_form() -> None:
    parts = [(A.x > n).node for n in range(500)]
    whole = conjunction(parts)
    assert conjuncts(whole) == parts
    assert conjunction(conjuncts(whole)) == whole
    assert conjunction([whole, *parts[:3]]).depth < 20


def test_differences_and_products_keep_their_order() -> None:
    text = "PATTERN A WHERE A.x" + " - A.y" * 30 + " > 0"
    [predicate] = parse(text).where
    assert predicate.depth == 32
    assert parse(unparse(parse(text))) == parse(text)


def test_many_bounds_are_compared_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[object] = []
    plain = unreachable._contradict
    monkeypatch.setattr(unreachable, "_contradict", lambda *pair: (compared.append(pair), plain(*pair))[1])
    schema = Schema([Field("ts", "timestamp"), Field("type", "string"), Field("x", "int")])
    text = "PATTERN A WHERE " + " AND ".join(f"A.x > {n} AND A.x <= {1000 - n}" for n in range(300))
    for more, never in (("", False), (" AND A.x = 800", True), (" AND A.x < 299", True), (" AND A.x >= 701", False)):
        compared.clear()
        rewritten, _ = rewrite(analyse(parse(text + more), schema))
        [event] = events_of(rewritten.query.pattern)
        assert (event.condition == Literal(False)) is never
        assert len(compared) < 50


# --- Deep trees ------------------------------------------------------------------------------------------------------

DEEP = [
    "PATTERN A" + "+" * 800,
    "PATTERN A" + "{2}" * 300,
    "PATTERN " + "SEQ(" * 45 + "A" + ")" * 45,
    "PATTERN " + "SEQ(" * 2000 + "A" + ")" * 2000,
    "PATTERN A WHERE " + "(" * 45 + "A.x" + " % 7)" * 45 + " > 1",
    "PATTERN A WHERE " + "A.x" + " - A.x" * 300 + " > 1",
    "PATTERN A WHERE " + "A.x" + " * 2 / 3" * 300 + " > 1",
    "PATTERN A WHERE " + "NOT " * 300 + "A.x > 1",
    "PATTERN A WHERE " + "- " * 3000 + "A.x > 1",
    "PATTERN A WHERE " + "abs(" * 45 + "A.x" + ")" * 45 + " > 1",
    "PATTERN A WHERE " + "(" * 3000 + "A.x" + ")" * 3000,
    "PATTERN EVENT(A, " + "NOT " * 60 + "x > 1)",
    "RETURN SUM(" + "abs(" * 50 + "A.x" + ")" * 50 + ") PATTERN A",
]


@pytest.mark.parametrize("text", DEEP, ids=range(len(DEEP)))
def test_texts_that_nest_too_deeply(text: str) -> None:
    with pytest.raises(ParseError, match=r"levels stand inside each other|nested too deeply") as caught:
        parse(text)
    assert caught.value.hint


def test_as_deep_as_allowed() -> None:
    nested = reduce(lambda term, _: term % 7, range(DEEPEST - 2), A.x)
    query = cet.seq(A).where(nested > 1)
    assert query.node.where[0].depth == DEEPEST
    assert parse(str(query)) == query.node
    for build in (lambda: nested % 7 > 1, lambda: ~(nested > 1), lambda: cet.fn.abs(nested % 7) > 1):
        with pytest.raises(InvalidNode, match="more than 40 levels"):
            build()
    with pytest.raises(InvalidNode, match="more than 40 levels"):
        reduce(lambda pattern, _: cet.kleene(pattern), range(DEEPEST), A)


# --- Constants -------------------------------------------------------------------------------------------------------

EARLY = datetime.datetime(1, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=14)))
LATE = datetime.datetime(9999, 12, 31, 23, tzinfo=datetime.timezone(datetime.timedelta(hours=-12)))
NO_CONSTANTS = {
    "9223372036854775808": 2**63,
    "-9223372036854775809": -(2**63) - 1,
    "1" + "0" * 4000: 10**4000,
    "9" * 5000: 10**5000 - 1,
    "DECIMAL 'NaN'": Decimal("NaN"),
    "DECIMAL 'sNaN'": Decimal("sNaN"),
    "DECIMAL '-Infinity'": Decimal("-Infinity"),
    "DECIMAL '1E+38'": Decimal("1E+38"),
    "DECIMAL '1E-39'": Decimal("1E-39"),
    "DECIMAL '" + "1" * 39 + "'": Decimal("1" * 39),
    "TIMESTAMP '0001-01-01T00:00:00+14:00'": EARLY,
    "TIMESTAMP '9999-12-31T23:00:00-12:00'": LATE,
    "'\ud800'": "\ud800",
}


@pytest.mark.parametrize("text", NO_CONSTANTS, ids=range(len(NO_CONSTANTS)))
def test_what_is_no_constant_of_spark(text: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(f"PATTERN A WHERE A.x = {text}")
    assert caught.value.span is not None
    str(caught.value).encode()
    for build in (
        lambda: A.x == NO_CONSTANTS[text],
        lambda: A.x.isin(NO_CONSTANTS[text]),
        lambda: Literal(NO_CONSTANTS[text]),
    ):
        with pytest.raises(InvalidNode) as refused:
            build()
        str(refused.value).encode()
        assert len(str(refused.value)) < 300


def test_the_largest_constants() -> None:
    for value in (2**63 - 1, -(2**63), Decimal("9" * 38), Decimal("1E+37"), Decimal("1E-38"), datetime.datetime.max):
        query = cet.seq(A).where(A.x == value)
        assert parse(str(query)) == query.node


@pytest.mark.parametrize(
    "build",
    [
        lambda: cet.event("\ud800"),
        lambda: cet.event("a", type="\udfff"),
        lambda: A["\ud800"],
        lambda: cet.fn["\ud800"](A.x),
        lambda: cet.count("\ud800"),
        lambda: cet.seq(A).partition_by("\ud800"),
        lambda: cet.seq(A).group_by("k", "\ud800"),
        lambda: cet.seq(A).returning(**{"\ud800": cet.count()}),
        lambda: cet.seq(A).where("A.x = '\ud800'"),
        lambda: cet.event("a", "x = '\ud800'"),
        lambda: parse_queries("NAME `\ud800`: PATTERN A"),
    ],
)
def test_half_of_a_surrogate_pair_is_no_text(build: Callable[[], object]) -> None:
    with pytest.raises(CetdslError, match="half of a surrogate pair") as caught:
        build()
    str(caught.value).encode()


@pytest.mark.parametrize("build", [lambda: A[""], lambda: cet.event(""), lambda: cet.events("")])
def test_an_empty_name_names_nothing(build: Callable[[], object]) -> None:
    with pytest.raises(CetdslError):
        build()


@pytest.mark.parametrize(
    "value", [10**5000, 2**62, -(10**5000), "9" * 5000, "9" * 5000 + " min", "1" * 5000 + "."], ids=range(6)
)
def test_lengths_of_very_many_digits(value: object) -> None:
    with pytest.raises(WindowError) as caught:
        Span.parse(value)
    str(caught.value)


@pytest.mark.parametrize("index", [2**31, 10**5000, -(10**5000)], ids=range(3))
def test_positions_that_no_event_has(index: int) -> None:
    with pytest.raises(InvalidNode, match=r"A\["):
        A[index]


def test_bounds_of_very_many_digits() -> None:
    with pytest.raises(InvalidNode, match="cannot repeat"):
        cet.repeat(A, 10**5000, 3)


# --- On Spark --------------------------------------------------------------------------------------------------------

simple = pytest.mark.simple_plans


@pytest.fixture(scope="module")
def events(spark: Any) -> Any:
    return spark.range(6).selectExpr("CAST(id AS int) AS t", "IF(id % 2 = 0, 'A', 'B') AS type", "CAST(id AS int) AS x")


LONG = more_on_classic(
    "PATTERN A+ WHERE " + " AND ".join(f"A.x > {-n}" for n in range(1, 301)),
    "PATTERN A+ WHERE " + " OR ".join(f"A.x > {-n}" for n in range(1, 301)),
    "PATTERN A+ WHERE " + " AND ".join(f"A.x * NEXT(A).x > {-n}" for n in range(1, 61)),
    "PATTERN A+ WHERE " + " AND ".join(f"SUM(A.x) > {-n}" for n in range(1, 61)),
    "PATTERN A+ WHERE " + " + ".join(["A.x"] * 300) + " >= 0",
)


@simple
@pytest.mark.parametrize("text", LONG, ids=range(len(LONG)))
def test_long_queries_are_answered(events: Any, text: str) -> None:
    assert int(events.pattern(text, time="t").count_trends().first()["count"]) == 7


def nested(term: str) -> str:
    return "(" * (DEEPEST - 3) + term + " % 7)" * (DEEPEST - 3)


@pytest.mark.classic
@simple
@pytest.mark.parametrize(
    "where",
    more_on_classic(
        f"{nested('A.x')} >= 0",
        f"{nested('(A.x * NEXT(A).x)')[1:].replace(' % 7)', '', 1)} >= 0",
        f"{nested('NEXT(A).x')} >= A.x",
    ),
)
def test_deep_queries_are_answered(events: Any, where: str) -> None:
    asked = events.pattern(f"PATTERN A+ WHERE {where}", time="t")
    assert int(asked.count_trends().first()["count"]) == 7
    assert len(asked.complete_trends(columns=["x"]).collect()) >= 1


@simple
def test_the_largest_limits(events: Any) -> None:
    asked = events.pattern("PATTERN A+", time="t")
    asks = {"trends": "limit", "complete_trends": "limit", "sample_trends": "n", "top_trends": "k"}
    for limit in (2**31, 2**63, 10**5000):
        for name, argument in asks.items():
            with pytest.raises(InvalidNode, match=r"is below 2\^31"):
                getattr(asked, name)(**{argument: limit})
    assert len(asked.trends(2**31 - 1).collect()) == 7


@simple
def test_a_plan_that_connect_cannot_read_is_an_error_of_ours(events: Any) -> None:
    for _ in range(46):
        events = events.filter("x IS NOT NULL")
    graph = events.pattern(f"PATTERN A+ WHERE {nested('A.x')} >= 0", time="t").graph(algorithm="joins")
    if os.environ.get("CETDSL_TEST_MODE") == "connect":
        with pytest.raises(UnsupportedQuery, match="Spark Connect cannot read a plan as deep"):
            graph.edges  # noqa: B018
    else:
        assert len(graph.edges.collect()) == 3


INTERVALS = {
    "ym": "make_ym_interval(1, x)",
    "ci": "make_interval(1, 2, 3, x)",
    "nested": "array(make_ym_interval(1, x))",
}


@simple
def test_what_has_parts_is_not_compared_along_a_trend(events: Any) -> None:
    odd = events.selectExpr("*", "named_struct('a', x, 'b', 'y') AS pair", "array(x) AS list")
    for name in ("pair", "list"):
        for text in (
            f"RETURN MAX(A.{name}) AS m PATTERN A+",
            f"RETURN COUNT(*) AS n PATTERN A+ WHERE A.{name} < NEXT(A).{name}",
        ):
            with pytest.raises(UnsupportedQuery, match="cannot be compared along a trend"):
                odd.pattern(text, time="t").aggregate(*([] if "RETURN" in text else [cet.count()]))


@simple
def test_what_workers_cannot_be_sent_is_an_error_of_ours(events: Any) -> None:
    odd = events.selectExpr(
        "*", "make_dt_interval(x) AS dt", *(f"{term} AS {name}" for name, term in INTERVALS.items())
    )
    for name in INTERVALS:
        for ask in ("trends", "complete_trends"):
            with pytest.raises(QueryTypeError, match=r"Spark cannot exchange values of type .*interval(.|\n)*columns="):
                getattr(odd.pattern("PATTERN A+", time="t"), ask)(columns=["x", name])
    for text in (
        "PATTERN A+ WHERE A.ym < NEXT(A).ym",
        "PATTERN A+ WHERE A.x < NEXT(A).x GROUP BY ym",
        "RETURN MAX(A.ym) AS m PATTERN A+ WHERE A.x < NEXT(A).x",
    ):
        asked = odd.pattern(text, time="t")
        with pytest.raises(QueryTypeError, match="Spark cannot exchange values of type interval year to month"):
            asked.aggregate(number="decimal") if "RETURN" in text else asked.count_trends()
    nothing = events.selectExpr("*", "array() AS nothing").pattern("PATTERN A", time="t")
    with pytest.raises(QueryTypeError, match="Spark cannot exchange values of type array<void>"):
        nothing.trends()
    [row] = odd.pattern("PATTERN A", time="t").trends(limit=1, columns=["dt"]).collect()
    assert isinstance(row.trend[0].event.dt, datetime.timedelta)


@simple
@pytest.mark.classic
def test_workloads_give_times_back(events: Any) -> None:
    timed = events.selectExpr("*", "timestamp_seconds(x) AS ts", "CAST(timestamp_seconds(x) AS timestamp_ntz) AS ntz")
    queries = {kind: f"RETURN MAX({kind}.ts) AS m, MIN({kind}.ntz) AS n PATTERN {kind}+" for kind in "AB"}
    together = {row["query"]: (row.m, row.n) for row in timed.patterns(queries, time="t").aggregate().collect()}
    assert together == {
        kind: tuple(timed.pattern(text, time="t").aggregate().first()) for kind, text in queries.items()
    }


@simple
@pytest.mark.classic
def test_the_first_and_last_days(events: Any) -> None:
    days = (datetime.date.min, datetime.date(999, 12, 31), datetime.date.max)
    times = (datetime.datetime.min, datetime.datetime.max)
    dated = events.selectExpr("*", "DATE '2024-01-01' AS day", "TIMESTAMP '2024-01-01' AS ts")
    differs = [A.day != day for day in days] + [A.ts != time for time in times]
    asked = dated.pattern(cet.seq(A).where(*differs, A.day > days[1], A.ts < times[1]), time="t")
    assert int(asked.count_trends().first()["count"]) == 3
