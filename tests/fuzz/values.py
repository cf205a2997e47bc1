"""Hostile values of every type of Spark as keys, in comparisons and in aggregates.

The reference judges values of the types that it knows. For those of other types, only errors that are not cetdsl's
count as failures.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from math import inf, nan
from random import Random
from typing import Any

import attrs
import generators
import modes
from pyspark.sql import functions as F
from test_engines import NUMBERS, Judge

from cetdsl.frontend.sase import parse
from fuzz.cases import Case, Kind, Streams, only_ours, with_smaller_text, within, without_parts


def nines(digits: int, scale: int) -> Decimal:
    """The greatest decimal of a type; arithmetic on decimals would round it."""
    return Decimal((0, (9,) * digits, -scale))


_ENDS = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}
#: Values whose comparisons, minima, maxima and equality the reference knows.
VALUES: dict[str, list[Any]] = {
    **{kind: [-(2**bits), 2**bits - 1, -1, 0, 1, 2] for kind, bits in _ENDS.items()},
    "float": [nan, inf, -inf, 0.0, -0.0, 1.5, -1.5, 3.4028234663852886e38, 1.401298464324817e-45],
    "double": [nan, inf, -inf, 0.0, -0.0, 1.5, -1.5, 1.7976931348623157e308, 5e-324, 2.0**53, 2.0**53 + 2],
    "decimal(38,0)": [nines(38, 0), Decimal((1, (9,) * 38, 0)), Decimal(0), Decimal(1), Decimal(2**63)],
    "decimal(38,38)": [nines(38, 38), Decimal((1, (9,) * 38, -38)), Decimal(0), Decimal(1).scaleb(-38)],
    "decimal(38,18)": [nines(38, 18), Decimal("0.5"), Decimal(0), Decimal("-1e-18"), Decimal(2**53)],
    "decimal(18,2)": [nines(18, 2), Decimal("-0.01"), Decimal(0), Decimal("0.10")],
    "decimal(19,19)": [nines(19, 19), Decimal(0), Decimal("0.5")],
    "decimal(1,0)": [Decimal(9), Decimal(-9), Decimal(0)],
    "string": ["", " ", "a", "A", "é", "e\u0301", "\0", "\uffff", "\U0001f600", "'", "`", "x" * 5000, "NaN", "1", "01"],
    "boolean": [True, False],
    "date": [datetime.date.min, datetime.date.max, datetime.date(1970, 1, 1), datetime.date(1582, 10, 15)],
    "timestamp_ntz": [datetime.datetime.min, datetime.datetime.max, datetime.datetime(1969, 12, 31, 23, 59)],
}  # fmt: skip
#: Values that add up to something that does not depend on the order of adding.
TAME = {"float": [0.0, -0.0, 1.5, -2.25, 3.0], "double": [0.0, -0.0, 1.5, -2.25, 2.0**40]}
NUMERIC = [
    kind for kind in VALUES if kind[0] in "tsfdib" and kind not in ("string", "date", "boolean", "timestamp_ntz")
]
#: Expressions of SQL by type, for types that the reference does not know.
OTHERS: dict[str, list[str]] = {
    "binary": ["X''", "X'00'", "X'FF00'", "CAST(repeat('x', 1000) AS binary)"],
    "timestamp": ["TIMESTAMP '0001-01-01'", "TIMESTAMP '9999-12-31 23:59:59'", "timestamp_micros(-1)"],
    "array<int>": ["array()", "array(1, NULL)", "array(1, 2, 3)"],
    "array<double>": ["array(DOUBLE('NaN'))", "array(DOUBLE('-0.0'))", "array(0.0D)"],
    "map<string,int>": ["map()", "map('a', 1)"],
    "struct<a:int,b:string>": ["named_struct('a', 1, 'b', 'x')", "named_struct('a', 2, 'b', NULL)"],
    "interval day to second": ["INTERVAL '1' DAY", "INTERVAL '-106751991' DAY"],
    "interval year to month": ["INTERVAL '1' MONTH", "INTERVAL '-178956970' YEAR"],
}
USES = ("A.v < B.v", "A.v = B.v", "B.v <= NEXT(B).v", "B.v = NEXT(B).v", "B.v != NEXT(B).v", "B.v IS NULL", "[v]")
USES += (
    "A.v > A.v",
    "FIRST(B).v < LAST(B).v",
    "NOT A.v = B.v",
    "n.v = A.v",
    "n.v < n.x",
)
FOLDED = ("MIN(B.v) AS lo", "MAX(B.v) AS hi", "MAX(A.v) AS top")
ADDED = ("SUM(B.v) AS total", "AVG(B.v) AS mean", "VARIANCE(B.v) AS var", "STDDEV_POP(A.v) AS dev")


@attrs.frozen
class Valued(Streams):
    """A query over streams with values of one type."""

    kind: str
    number: str
    ansi: str

    def check(self, spark: Any = None) -> None:
        query = parse(self.text)
        schema = f"id bigint, t bigint, type string, x int, v {self.kind}, case int"
        with within(60, 300), modes.settings(spark, {**modes.SIMPLE_PLANS, "spark.sql.ansi.enabled": self.ansi}):
            judge = Judge(self.numbered, generators.frame(spark, self.numbered, schema).cache())
            try:
                with only_ours(also=()):
                    judge.judge(query, (), self.number)
                    judge.judge_trends(query, ())
            finally:
                judge.df.unpersist()


@attrs.frozen
class Odd(Case):
    """A query over values of a type that the reference does not know: it must be answered, or refused by cetdsl."""

    text: str
    values: list[str]
    time: str = "t"

    def check(self, spark: Any = None) -> None:
        one = spark.range(12).selectExpr("id AS t", "IF(id % 3 = 0, 'A', 'B') AS type", "CAST(id % 4 AS int) AS x")
        array = f"array({', '.join(self.values)})"
        df = one.withColumn("v", F.expr(f"element_at({array}, CAST(1 + t % {len(self.values)} AS int))"))
        with within(60, 300), modes.settings(spark, modes.SIMPLE_PLANS):
            for ask in ("aggregate", "trends", "complete_trends"):
                with only_ours():
                    getattr(df.pattern(self.text, time=self.time), ask)().collect()

    def smaller(self) -> Iterator[Case]:
        for values in without_parts(self.values):
            yield attrs.evolve(self, values=values)
        yield from with_smaller_text(self)


def query_text(choose: Random, added: bool) -> str:
    pattern = choose.choice(("SEQ(A, B+)", "SEQ(A, B)", "SEQ(A, NOT N n, B+)", "SEQ(A?, B*, A)", "(A OR B)+"))
    uses = [use for use in choose.sample(USES, choose.randint(0, 2)) if "n." not in use or " n," in pattern]
    uses = [use for use in uses if pattern == "SEQ(A, B)" or "A.v < B.v" not in use or pattern.startswith("SEQ(A, ")]
    returned = ["COUNT(*) AS n", *choose.sample(FOLDED, choose.randint(0, 2))]
    returned += choose.sample(ADDED, choose.randint(1, 3)) if added else []
    tail = choose.choice(("", "", " GROUP BY v", " GROUP BY v, x"))
    tail += choose.choice(("", "", " WITHIN 4 SLIDE 2", " WITHIN 3 SLIDE 3", " WITHIN 3"))
    where = f" WHERE {' AND '.join(uses)}" if uses else ""
    return f"RETURN {', '.join(returned)} PATTERN {pattern}{where}{tail}"


def valued(choose: Random) -> Case:
    if choose.random() < 0.2:
        kind = choose.choice(list(OTHERS))
        text = query_text(choose, False)
        return Odd(text, choose.sample(OTHERS[kind], len(OTHERS[kind])), choose.choice(("t", "t", "v")))
    kind = choose.choice(list(VALUES))
    added = kind in NUMERIC and choose.random() < 0.5
    values = (TAME.get(kind) if added else None) or VALUES[kind]
    # Few different ones, so that equal ones meet.
    values = [*choose.sample(values, min(len(values), choose.randint(1, 4))), None]
    rows = [
        {"id": 0, "t": choose.randint(0, 6), "type": choose.choice("AABBBN"), "x": choose.choice((1, 2, None)),
         "v": choose.choice(values), "case": case}
        for case in range(20)
        for _ in range(choose.randint(1, 6))
    ]  # fmt: skip
    return Valued(query_text(choose, added), rows, kind, choose.choice(NUMBERS), choose.choice(("true", "false")))


KINDS = {"values": Kind(valued, 2, spark=True)}
