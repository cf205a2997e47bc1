"""Aggregate functions as declared values, and variances of values that are hard to take apart from each other."""

from __future__ import annotations

import itertools
import math
import pickle
import random
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import reference
from modes import settings
from test_kernel_aggregate import Worker

import cetdsl as cet
from cetdsl.aggregates.functions import FUNCTIONS, SPELLINGS
from cetdsl.aggregates.vocabulary import AggregateFunction, CentralMoment, Input
from cetdsl.errors import CountOverflow, InvalidNode, ParseError, recovering
from cetdsl.ir.accumulators import NUMBERS
from cetdsl.kernels.numbers.moments import about_zero, central_moment, deviations_of_doubles
from cetdsl.kernels.numbers.scaled import to_scaled
from cetdsl.pattern.expressions import Aggregate, Attribute, Length

pytestmark = pytest.mark.simple_plans


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=lambda function: function.name)
def test_a_function_is_a_value(function: AggregateFunction) -> None:
    assert pickle.loads(pickle.dumps(function)) == function
    assert SPELLINGS[function.name] == function.name
    argument = "b" if function.input is Input.EVENTS else "b.x"
    for spelling in (function.name, *function.spellings):
        query = cet.parse(
            f"RETURN {spelling.upper()}({argument}) PATTERN SEQ(A, B+ b[]) WHERE {spelling}({argument}) > 1"
        )
        assert str(query).startswith(f"RETURN {function.name.upper()}({argument})")
        assert query._query().returning[0].aggregate.definition is function


@pytest.mark.parametrize("function", ["sum", "stddev", "var_pop"])
def test_what_does_not_run_over_lengths(function: str) -> None:
    with pytest.raises(InvalidNode, match=rf"{function.upper()}\(LENGTH\) is not an aggregate"):
        Aggregate(function, None, Length())


def test_fluent_and_written_aggregates_are_the_same() -> None:
    term = Attribute("B", "x")
    for spelling in ("stddev", "stddev_pop", "variance", "var_pop"):
        assert getattr(cet, spelling)(cet.event("B").x).node == Aggregate(spelling, None, term)
    assert Aggregate("stddev_samp", None, term) == Aggregate("stddev", None, term)
    with pytest.raises(InvalidNode, match="stddev needs a term, not"):
        cet.stddev("B")


@pytest.mark.parametrize("text", ["COUNT(DISTINCT b.x)", "COUNT( distinct b )", "SUM(DISTINCT b.x)"])
def test_distinct_has_its_reason(text: str) -> None:
    with pytest.raises(ParseError, match="sets do not add up") as error:
        cet.parse(f"RETURN {text} PATTERN B+ b[]")
    assert "trends()" in str(error.value)
    assert str(cet.parse("RETURN COUNT(distinct), SUM(distinct.x) PATTERN B+ distinct[]")).startswith(
        "RETURN COUNT(distinct)"
    )


# ------------------------------------------------------------------------------------------------------ variances

RETURNED = (
    "RETURN COUNT(*), VARIANCE(B.y) AS v, STDDEV_POP(B.y) AS p, VAR_POP(B.x) AS w, STDDEV(B.x) AS s, AVG(B.y) AS m"
)
QUERIES = [
    "PATTERN SEQ(A, B+)",
    "PATTERN SEQ(A, B+) GROUP BY case",
    "PATTERN B+ WHERE [k]",
    "PATTERN B+ WHERE B.t < NEXT(B).t WITHIN 8 SLIDE 2",
    "PATTERN B+ WITHIN 8 SLIDE 2",
    "PATTERN SEQ(A, B+) WITHIN 5",
    "PATTERN A+ AND B+ WHERE [k]",
    "PATTERN SEQ(A, B+) AND B+ WITHIN 9 SLIDE 9",
]
COLUMNS = {
    "near a large number": lambda choose: 1e9 + choose.randint(-3, 3) / 4,
    "all the same": lambda choose: 0.1,
    "of all sizes": lambda choose: choose.choice([1, -1]) * 10.0 ** choose.randint(-100, 100),
    "tiny": lambda choose: choose.randint(-9, 9) * 1e-140,
    "not finite": lambda choose: choose.choice([1.5, 2.5, 7.0, math.inf, math.nan]),
}


def rows_of(seed: int, kind: str) -> list[dict[str, Any]]:
    choose = random.Random(seed)
    rows = []
    for n in range(14):
        y = None if choose.random() < 0.1 else COLUMNS[kind](choose)
        x = None if choose.random() < 0.1 else 2**30 + choose.randint(-3, 3)
        row = {"id": n, "t": n, "type": choose.choice("ABB"), "x": x, "y": y, "k": choose.choice("uv")}
        rows.append(row | {"case": choose.randint(1, 2), "s": 0, "g": 1, "name": "n"})
    return rows


#: The values of a window may be anywhere from the median of their key, which costs digits: see below.
CASES = [(text, kind) for text in QUERIES for kind in COLUMNS if kind != "of all sizes" or "WITHIN" not in text]


@pytest.mark.parametrize(("text", "kind"), CASES)
def test_variances_keep_their_digits(text: str, kind: str) -> None:
    for seed, number in enumerate(("decimal", "double", "string", "log2")):
        rows, query = rows_of(seed, kind), cet.parse(f"{RETURNED} {text}")._query()
        aggregates = {item.output_name: item.aggregate for item in query.returning if item.output_name in "vpws"}
        expected = reference.aggregate(query, rows, aggregates, time="t")
        for chunk_events in (1, 2**20):
            answer = Worker(query, rows).aggregate(number, chunk_events)
            assert answer.keys() == expected.keys()
            for key, values in expected.items():
                for name, value in values.items():
                    assert close(answer[key][name], value), (number, key, name, answer[key][name], value)


def close(got: Any, expected: Any) -> bool:
    if got is None or expected is None:
        return got is expected
    return math.isnan(got) == math.isnan(expected) and (
        math.isnan(got) or math.isclose(got, float(expected), rel_tol=1e-9)
    )


def test_sums_about_an_origin_add_up_across_origins() -> None:
    """Two tasks with origins of their own: what they send adds up as if there had been one."""
    values = np.array([1e15 + 1, 1e15 + 2, 1e15 + 4, -3.0, 0.5, 1e15 + 9])
    whole = []
    for part in (values[:3], values[3:]):
        found = deviations_of_doubles(part, np.ones(len(part), dtype=np.bool_), np.array([0, len(part)]))
        sums = [to_scaled(np.array([math.fsum(found.values**power)])) for power in range(3)]
        whole.append([int(total[0]) for total in about_zero(sums, found, np.array([0]))])
    exact = [Fraction(value) for value in values.tolist()]
    expected = sum((value - sum(exact) / 6) ** 2 for value in exact) / 5
    together = [a + b for a, b in zip(*whole, strict=True)]
    assert central_moment(*together, Fraction(1, 2**1074), 1) == pytest.approx(float(expected), rel=1e-12)


def test_a_median_far_from_a_window_costs_digits_as_documented() -> None:
    """The error is about 1e-15 times the squared distance in standard deviations."""
    drift = 1e4 + np.array([0.0, 1.0, 2.0, 3.0])
    values = np.concatenate([np.zeros(9), drift])
    found = deviations_of_doubles(values, np.ones(13, dtype=np.bool_), np.array([0, 13]))
    assert found.origin == [0]
    sums = [to_scaled(np.array([math.fsum(found.values[9:] ** power)])) for power in range(3)]
    n, s, q = (int(total[0]) for total in about_zero(sums, found, np.array([0])))
    assert central_moment(n, s, q, Fraction(1, 2**1074), 1) == pytest.approx(5 / 3, rel=1e-15 * (1 + (1e4 / 1.3) ** 2))


def test_every_finish_has_a_name_of_its_own() -> None:
    """Functions of one input, buffer and finish would be spellings of one."""
    for one, other in itertools.combinations(FUNCTIONS.values(), 2):
        assert (one.input, one.buffer, one.finish) != (other.input, other.buffer, other.finish)
    assert {f.finish.less for f in FUNCTIONS.values() if isinstance(f.finish, CentralMoment)} == {0, 1}


@pytest.mark.classic
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_numbers_that_38_digits_just_hold(spark: Any, ansi: str) -> None:
    """Neither their differences nor their sum have room; deviations and averages are doubles anyway."""
    rows = [(1, Decimal(9) * 10**37), (2, Decimal(-9) * 10**37), (3, Decimal(9) * 10**37)]
    df = spark.createDataFrame(rows, "t int, x decimal(38, 0)")
    with settings(spark, {"spark.sql.ansi.enabled": ansi}):
        far = df.pattern("PATTERN B{2} b[] WHERE STDDEV(b.x) > 1.2e38", time="t", type=None).count_trends()
        assert far.first()["count"] == 2
        mean = df.filter("x > 0").pattern("PATTERN B b WHERE AVG(b.x) = FIRST(b).x", time="t", type=None)
        assert mean.aggregate(mean=cet.avg(cet.event("b").x)).first()["mean"] == pytest.approx(9e37, rel=1e-12)


#: Values of two events: there are three trends of them, and each is in two. What is added up may cancel out.
LISTED = {
    "fine": ("decimal(20,8)", Decimal("1.00000006"), Decimal("2.00000006")),
    "finest": ("decimal(38,38)", Decimal("-7e-38"), Decimal("0e-38")),
    "zero": ("decimal(20,8)", Decimal("0.00000000"), Decimal("0.00000000")),
    "both": ("decimal(38,0)", Decimal(10**37), Decimal(1 - 10**37)),
    "less": (
        "decimal(38,10)",
        Decimal(f"-1{'0' * 27}.{'0' * 10}"),
        Decimal("1.0000000000"),
    ),
    "long": ("bigint", Decimal(-(2**63)), Decimal(-5)),
    "huge": ("decimal(38,0)", Decimal(9 * 10**37), Decimal(9 * 10**37)),
}


@pytest.mark.classic
@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize("number", NUMBERS)
def test_sums_over_listed_trends_keep_their_digits(spark: Any, number: str, ansi: str) -> None:
    kinds = ", ".join(f"{name} {kind}" for name, (kind, *_) in LISTED.items())
    values = ([int(v) if kind == "bigint" else v for v in both] for kind, *both in LISTED.values())
    df = spark.createDataFrame([(t, *row) for t, row in enumerate(zip(*values, strict=True))], f"t int, {kinds}")
    b = cet.event("b")
    asked = {f"avg_{name}": cet.avg(getattr(b, name)) for name in LISTED}
    # The sum of the last column has 39 digits.
    asked |= {name: cet.sum(getattr(b, name)) for name in LISTED if (number, name) != ("decimal", "huge")}
    with settings(spark, {"spark.sql.ansi.enabled": ansi}):
        query = df.pattern("PATTERN b+ b[] WHERE FIRST(b).t <= LAST(b).t", time="t", type=None)
        assert "enumerate" in str(query.explain("physical"))
        found = query.aggregate(number=number, **asked).first().asDict()
    with localcontext(Context(60)):
        totals = {name: 2 * (one + other) for name, (_, one, other) in LISTED.items()}
        means = {name: float(total / 4) for name, total in totals.items()}
    for name, total in totals.items():
        assert found[f"avg_{name}"] == pytest.approx(means[name], rel=1e-12), name
        if name in asked:
            assert found[name] == in_form(total, number), name


def in_form(total: Decimal, number: str) -> Any:
    if number == "log2":
        rounded = math.log2(total) if total > 0 else -math.inf if total == 0 else math.nan
        return pytest.approx(rounded, rel=1e-12, nan_ok=True)
    return {"decimal": total, "string": format(total, "f"), "double": pytest.approx(float(total), rel=1e-12)}[number]


@pytest.mark.classic
def test_sums_over_listed_trends_in_predicates(spark: Any) -> None:
    rows = [(1, Decimal("1.00000006"), 1.5e308, math.inf), (2, Decimal("2.00000006"), 1.5e308, 1.0)]
    df = spark.createDataFrame(rows, "t int, d decimal(20, 8), y double, infinite double")
    b = cet.event("b")

    def listed(where: str) -> Any:
        return df.pattern(f"PATTERN b+ b[] WHERE {where}", time="t", type=None)

    for where, count in (
        ("SUM(b.d) = 1.00000006", 1),
        ("SUM(b.d) = 3.00000012", 1),
        ("AVG(b.d) = 1.50000006", 1),
        ("AVG(b.y) = 1.5e308", 3),
        ("SUM(b.infinite) > 1.7e308", 2),
    ):
        assert listed(where).count_trends().first()["count"] == count, where
    row = listed("FIRST(b).t <= LAST(b).t").aggregate(a=cet.avg(b.y), i=cet.sum(b.infinite)).first()
    assert (row["a"], row["i"]) == (1.5e308, math.inf)


@pytest.mark.classic
@pytest.mark.parametrize("what", ["a sum over enumerated trends", "the sum over one trend"])
def test_sums_of_doubles_over_listed_trends_stay_in_their_range(spark: Any, what: str) -> None:
    df = spark.createDataFrame([(1, 1.5e308), (2, 1.5e308)], "t int, y double")
    where = "SUM(b.y) > 0" if "one" in what else "FIRST(b).t <= LAST(b).t"
    query = df.pattern(f"PATTERN b+ b[] WHERE {where}", time="t", type=None)
    with pytest.raises(CountOverflow, match=f"{what} is beyond the range of doubles"), recovering():
        query.aggregate(s=cet.sum(cet.event("b").y)).collect()
