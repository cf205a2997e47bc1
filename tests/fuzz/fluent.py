"""Hostile arguments of public methods and functions: each must be taken, or refused by an error of cetdsl."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from decimal import Decimal
from math import inf, nan
from random import Random
from typing import Any

import attrs
import modes
from pyspark.sql import functions as F

import cetdsl as cet
from fuzz.cases import Case, Kind, only_ours, within

LIMIT = 10
#: Arguments by the text that makes them: most are of no use anywhere, and some are of use somewhere.
ARGUMENTS: dict[str, Callable[[Any], Any]] = {
    "None": lambda df: None,
    "True": lambda df: True,
    "0": lambda df: 0,
    "-1": lambda df: -1,
    "1": lambda df: 1,
    "2^31": lambda df: 2**31,
    "2^63": lambda df: 2**63,
    "-2^63-1": lambda df: -(2**63) - 1,
    "10^5000": lambda df: 10**5000,
    "1.5": lambda df: 1.5,
    "nan": lambda df: nan,
    "inf": lambda df: inf,
    "Decimal NaN": lambda df: Decimal("NaN"),
    "Decimal sNaN": lambda df: Decimal("sNaN"),
    "Decimal 1E+9999": lambda df: Decimal("1E+9999"),
    "empty": lambda df: "",
    "t": lambda df: "t",
    "x": lambda df: "x",
    "type": lambda df: "type",
    "surrogate": lambda df: "\ud800",
    "NUL": lambda df: "\0",
    "backquote": lambda df: "`",
    "a long text": lambda df: "x" * 10_000,
    "bytes": lambda df: b"x",
    "list": lambda df: [],
    "list of lists": lambda df: [[["x"]]],
    "names": lambda df: ["x", "x"],
    "dict": lambda df: {},
    "dict of None": lambda df: {"a": None},
    "set": lambda df: {"x"},
    "iterator": lambda df: iter(["x"]),
    "object": lambda df: object(),
    "class": lambda df: int,
    "function": lambda df: len,
    "complex": lambda df: 1j,
    "date": lambda df: datetime.date.max,
    "datetime": lambda df: datetime.datetime.max.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=-14))),
    "timedelta": lambda df: datetime.timedelta.max,
    "negative timedelta": lambda df: datetime.timedelta(-1),
    "DataFrame": lambda df: df,
    "Spark column": lambda df: F.col("x"),
    "Spark expression": lambda df: F.expr("x + nowhere > 1"),
    "Spark aggregate": lambda df: F.sum("x"),
    "random column": lambda df: F.rand() > 0.5,
    "event": lambda df: cet.event("A"),
    "pattern": lambda df: cet.seq(cet.event("A"), +cet.event("B")),
    "attribute": lambda df: cet.event("A").x,
    "predicate": lambda df: cet.event("A").x > 1,
    "next": lambda df: cet.next_(cet.event("B")),
    "aggregate": lambda df: cet.sum(cet.event("B").x),
    "count": lambda df: cet.count(),
    "length": lambda df: cet.length(),
    "query": lambda df: "PATTERN SEQ(A, B+)",
    "parsed": lambda df: cet.parse("PATTERN SEQ(A, B+)"),
    "1 hour": lambda df: "1 hour",
    "10": lambda df: "10",
    "1 month": lambda df: "1 month",
    "decimal": lambda df: "decimal",
    "maximal": lambda df: "maximal",
    "kernel": lambda df: "kernel",
}

A, B = cet.events("A", "B")


def bound(df: Any) -> Any:
    return df.pattern("RETURN COUNT(*) PATTERN SEQ(A, B+) WHERE B.x < NEXT(B).x", time="t")


def term(df: Any) -> Any:
    return cet.seq(A, +B)


#: What is asked, given a DataFrame and two hostile arguments.
ASKED: dict[str, Callable[[Any, Any, Any], Any]] = {
    "pattern of": lambda df, a, b: df.pattern(a, time="t"),
    "pattern time": lambda df, a, b: df.pattern("PATTERN A", time=a),
    "pattern type": lambda df, a, b: df.pattern("PATTERN A", time="t", type=a),
    "pattern ties": lambda df, a, b: df.pattern("PATTERN A", time="t", tie_break=a).trends(),
    "pattern null": lambda df, a, b: df.pattern("PATTERN A", time="t", on_null_time=a),
    "cet.pattern": lambda df, a, b: cet.pattern(df, a, time=b),
    "cet.pattern of": lambda df, a, b: cet.pattern(a, "PATTERN A", time=b),
    "patterns": lambda df, a, b: df.patterns(a, time="t"),
    "patterns of": lambda df, a, b: df.patterns({a if isinstance(a, str) else "q": b}, time="t").results(),
    "patterns sharing": lambda df, a, b: df.patterns({"q": "PATTERN A RETURN COUNT(*)"}, time="t", sharing=a),
    "count_trends": lambda df, a, b: bound(df).count_trends(a, number=b),
    "count_trends name": lambda df, a, b: bound(df).count_trends(a),
    "count_trends number": lambda df, a, b: bound(df).count_trends(number=a),
    "aggregate": lambda df, a, b: bound(df).aggregate(n=a),
    "aggregates": lambda df, a, b: bound(df).aggregate(n=a, m=b),
    "aggregate sum": lambda df, a, b: bound(df).aggregate(n=cet.sum(a)),
    "aggregate count": lambda df, a, b: bound(df).aggregate(n=cet.count(a)),
    "aggregate max": lambda df, a, b: bound(df).aggregate(n=cet.max(a)),
    "trends limit": lambda df, a, b: bound(df).trends(limit=a),
    "trends columns": lambda df, a, b: bound(df).trends(columns=a),
    "trends column": lambda df, a, b: bound(df).trends(columns=[a]),
    "complete": lambda df, a, b: bound(df).complete_trends(a, algorithm=b),
    "complete algorithm": lambda df, a, b: bound(df).complete_trends(algorithm=a),
    "complete memory": lambda df, a, b: bound(df).complete_trends(memory_limit=a),
    "count complete": lambda df, a, b: bound(df).count_complete_trends("maximal", a, b),
    "sample": lambda df, a, b: bound(df).sample_trends(a, b),
    "sample n": lambda df, a, b: bound(df).sample_trends(a),
    "sample seed": lambda df, a, b: bound(df).sample_trends(3, a),
    "top": lambda df, a, b: bound(df).top_trends(a),
    "top by": lambda df, a, b: bound(df).top_trends(2, by=a),
    "survey": lambda df, a, b: bound(df).survey_complete_trends(a),
    "graph": lambda df, a, b: bound(df).graph(a, columns=b),
    "graph columns": lambda df, a, b: bound(df).graph(columns=a),
    "explain": lambda df, a, b: bound(df).explain(a),
    "explain number": lambda df, a, b: bound(df).explain(number=a),
    "parse": lambda df, a, b: cet.parse(a),
    "event": lambda df, a, b: cet.event(a),
    "event type": lambda df, a, b: cet.event("A", type=a),
    "event condition": lambda df, a, b: df.pattern(cet.event("A", condition=a), time="t").trends(),
    "events": lambda df, a, b: cet.events(a, b),
    "seq": lambda df, a, b: df.pattern(cet.seq(a, b), time="t").trends(),
    "seq of one": lambda df, a, b: df.pattern(cet.seq(a), time="t").trends(),
    "kleene": lambda df, a, b: cet.kleene(a),
    "repeat": lambda df, a, b: df.pattern(cet.repeat(B, a, b), time="t").count_trends(),
    "repeat least": lambda df, a, b: df.pattern(cet.repeat(B, a), time="t").count_trends(),
    "any of": lambda df, a, b: A | a,
    "all of": lambda df, a, b: A & a,
    "then": lambda df, a, b: A >> a,
    "where": lambda df, a, b: df.pattern(term(df).where(a), time="t").count_trends(),
    "where compared": lambda df, a, b: df.pattern(term(df).where(A.x < a), time="t").count_trends(),
    "where added": lambda df, a, b: df.pattern(term(df).where(A.x + a < B.x), time="t").count_trends(),
    "where equal": lambda df, a, b: df.pattern(term(df).where(A.name == a), time="t").count_trends(),
    "where in": lambda df, a, b: df.pattern(term(df).where(A.x.isin(a, b)), time="t").count_trends(),
    "where between": lambda df, a, b: df.pattern(term(df).where(A.x.between(a, b)), time="t").count_trends(),
    "where like": lambda df, a, b: df.pattern(term(df).where(A.name.like(a)), time="t").count_trends(),
    "where called": lambda df, a, b: df.pattern(term(df).where(cet.fn.abs(a) > 1), time="t").count_trends(),
    "where function": lambda df, a, b: df.pattern(term(df).where(cet.fn[a](A.x) > 1), time="t").count_trends(),
    "where time": lambda df, a, b: df.pattern(term(df).where(A.ts > a), time="t").count_trends(),
    "column": lambda df, a, b: df.pattern(term(df).where(A[a] > 1), time="t").count_trends(),
    "next": lambda df, a, b: cet.next_(a),
    "first": lambda df, a, b: cet.first(a),
    "col": lambda df, a, b: cet.col(a),
    "partition_by": lambda df, a, b: df.pattern(term(df).partition_by(a), time="t").count_trends(),
    "group_by": lambda df, a, b: df.pattern(term(df).group_by(a), time="t").count_trends(),
    "within": lambda df, a, b: df.pattern(term(df).within(a), time="t").count_trends(),
    "within slide": lambda df, a, b: df.pattern(term(df).within(a, b), time="t").count_trends(),
    "within of time": lambda df, a, b: df.pattern(term(df).within(a, b), time="ts").count_trends(),
    "returning": lambda df, a, b: df.pattern(term(df).returning(a), time="t").aggregate(),
    "returning as": lambda df, a, b: df.pattern(term(df).returning(n=a), time="t").aggregate(),
}


@attrs.frozen
class Asked(Case):
    """One call with hostile arguments. No job runs, but what the call returns must have a text."""

    what: str
    first: str
    second: str

    def check(self, spark: Any = None) -> None:
        kinds = "CAST(1 AS bigint) t", "'A' type", "1 x", "'n' name", "TIMESTAMP '2024-01-01' ts"
        df = spark.range(1).selectExpr(*kinds)
        with within(LIMIT, 120), modes.settings(spark, modes.SIMPLE_PLANS), only_ours():
            str(ASKED[self.what](df, ARGUMENTS[self.first](df), ARGUMENTS[self.second](df)))

    def smaller(self) -> Iterator[Case]:
        if self.second != "1":
            yield attrs.evolve(self, second="1")


def asked(choose: Random) -> Asked:
    return Asked(choose.choice(list(ASKED)), choose.choice(list(ARGUMENTS)), choose.choice(list(ARGUMENTS)))


KINDS = {"fluent": Kind(asked, 60, spark=True)}
