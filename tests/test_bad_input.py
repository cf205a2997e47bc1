"""Bad input either works or gives one clear error of cetdsl's tree, as early as it can be known."""

from __future__ import annotations

import copy
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pandas as pd
import pyarrow as pa
import pytest
from modes import more_on_classic
from pyspark.sql import functions as F

import cetdsl as cet
from cetdsl import errors
from cetdsl.aggregates.vocabulary import Total
from cetdsl.ir.accumulators import TRENDS, Output
from cetdsl.ir.kernel import Answer, KernelQuery, KernelSpec
from cetdsl.ir.layout import KEY, RowLayout
from cetdsl.ir.machine import Edge, Machine
from cetdsl.ir.windowing import Windowing
from cetdsl.kernels.aggregate.stream import aggregate_stream
from cetdsl.kernels.wire.chunks import ChunkReader, too_large
from cetdsl.session import readable

pytestmark = pytest.mark.simple_plans

A, B = cet.events("A", "B")
CLASSIC = os.environ.get("CETDSL_TEST_MODE", "classic") == "classic"
SCHEMA = "ts timestamp, t int, type string, k string, x int, y double, tags array<string>, m map<string,int>"

FOLD = "PATTERN SEQ(A, B+) GROUP BY k"
KERNEL = "PATTERN SEQ(A, B+) WHERE B.x < NEXT(B).x GROUP BY k"
PARTITIONED = "PATTERN SEQ(A, B+) WHERE [k]"
SLIDING = "PATTERN SEQ(A, B+) GROUP BY k WITHIN 5 SLIDE 2"
TUMBLING = "PATTERN SEQ(A, B+) GROUP BY k WITHIN 5 SLIDE 5"
GAPS = "PATTERN SEQ(A, B+) GROUP BY k WITHIN 3 SLIDE 5"
SPANNED = "PATTERN SEQ(A, B+) WITHIN 5"
INSEPARABLE = "PATTERN SEQ(A, B+) WHERE SQRT(B.x + NEXT(B).x) < 5"
BOTH = "PATTERN A+ AND B+"
FINISHED = "PATTERN SEQ(A, B+) WHERE SUM(B.x) > 1"
EVERY_WAY = [FOLD, KERNEL, PARTITIONED, SLIDING, TUMBLING, GAPS, SPANNED, INSEPARABLE, BOTH, FINISHED]


@pytest.fixture(scope="module")
def events(spark: Any) -> Any:
    """Events of two keys over several partitions."""
    return spark.range(24).select(
        F.timestamp_seconds("id").alias("ts"),
        F.col("id").cast("int").alias("t"),
        F.when(F.col("id") % 3 == 0, "A").otherwise("B").alias("type"),
        F.when(F.col("id") % 2 == 0, "even").otherwise(F.when(F.col("id") % 5 > 0, "odd")).alias("k"),
        F.col("id").cast("int").alias("x"),
        F.col("id").cast("double").alias("y"),
        F.array(F.lit("tag")).alias("tags"),
        F.create_map(F.lit("a"), F.lit(1)).alias("m"),
    )


def failing(answer: Any) -> str:
    """The message of an answer that fails when it runs."""
    with pytest.raises(Exception, match=r"cetdsl\.errors\.") as failure:
        answer.collect()
    return readable(failure.value)


# ----------------------------------------------------------------------------------------------------- NULL time


@pytest.fixture(scope="module")
def untimed(spark: Any, events: Any) -> Any:
    """The events with 9 rows more, of both keys, other keys, other types and in all partitions, without a time."""
    more = spark.range(9).select(
        F.lit(None).cast("timestamp").alias("ts"),
        F.lit(None).cast("int").alias("t"),
        F.when(F.col("id") % 3 == 0, "B").when(F.col("id") % 3 == 1, "X").alias("type"),
        F.when(F.col("id") % 2 == 0, "even").when(F.col("id") == 3, "other").alias("k"),
        F.lit(1).alias("x"),
        F.lit(1.0).alias("y"),
        F.array(F.lit("tag")).alias("tags"),
        F.create_map(F.lit("a"), F.lit(1)).alias("m"),
    )
    return events.union(more).repartition(4)


@pytest.mark.parametrize("query", [EVERY_WAY[0], *more_on_classic(*EVERY_WAY[1:])])
def test_null_time_is_an_error_with_the_number_of_rows(untimed: Any, query: str) -> None:
    message = failing(untimed.pattern(query, time="t").count_trends())
    assert "the time column 't' is NULL in 9 rows" in message
    assert "on_null_time='skip'" in message


@pytest.mark.parametrize("query", more_on_classic(KERNEL, SPANNED, BOTH, FINISHED))
def test_null_time_in_trends(untimed: Any, query: str) -> None:
    message = failing(untimed.pattern(query, time="t").trends(columns=["t"]))
    assert "the time column 't' is NULL in 9 rows" in message


@pytest.mark.parametrize("query", more_on_classic(*EVERY_WAY))
def test_null_time_may_be_skipped(events: Any, untimed: Any, query: str) -> None:
    expected = events.pattern(query, time="t").count_trends().collect()
    found = untimed.pattern(query, time="t", on_null_time="skip").count_trends().collect()
    assert {tuple(map(str, row)) for row in found} == {tuple(map(str, row)) for row in expected}
    assert expected


def test_one_row_without_a_time_that_no_variable_binds(spark: Any) -> None:
    df = spark.createDataFrame([(1, "A"), (2, "B"), (None, "Q")], "`my time` int, type string")
    for query in ("PATTERN SEQ(A, B+)", "PATTERN SEQ(A, B+) WHERE B.type <= NEXT(B).type"):
        assert re.search(r"'my time' is NULL in 1 row\b", failing(df.pattern(query, time="my time").count_trends()))


@pytest.mark.classic
@pytest.mark.parametrize("sort", ["auto", "runs", "spark"])
def test_a_row_without_a_time_behind_events_before_1970(spark: Any, sort: str) -> None:
    """Rows without a time are sent to the bucket of 1970, and others to buckets before it."""
    rows = [(t, "B" if t % 2 else "A", t % 7) for t in range(-60, -20)]
    df = spark.createDataFrame([*rows, (None, "A", 1)], "t int, type string, x int").coalesce(1)
    text = "RETURN COUNT(*) PATTERN SEQ(A, B+) WHERE B.x < NEXT(B).x WITHIN 5"
    asked = df.patterns({"one": text, "two": text.replace("5", "6")}, time="t", sort=sort)
    assert "the time column 't' is NULL in 1 row\n" in failing(asked.aggregate())


def stream(spec: KernelSpec, *batches: list[tuple[Any, ...]]) -> Any:
    """Arrow batches of rows (key columns, time, mask)."""
    kinds = [pa.string()] * spec.layout.keys + [pa.int64(), pa.int64()]
    for rows in batches:
        columns = [pa.array(values, kind) for values, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, names=[f"i{n}" for n in range(len(columns))])


def plus_spec(keys: int = 1) -> KernelSpec:
    """``A+`` over whole groups."""
    machine = Machine((0,), ((0, ()),), ((0, ()),), (Edge(0, 0),))
    accumulators, outputs = (TRENDS,), (Output("n", Total(), (0,)),)
    return KernelSpec(KernelQuery(machine), RowLayout.of(keys, "when", "bigint"), Answer(keys, accumulators, outputs))


def test_rows_without_a_time_are_counted_over_all_batches() -> None:
    nulls = [(None, None, 1)] * 4
    # Another key that happens to be NULL may come before them in the same batch, and after them.
    for batches in (
        [nulls, nulls, [("a", 1, 1)]],
        [[*nulls, (None, 1, 1)], [("a", 1, 1)]],
        [nulls, [*nulls, (None, 1, 1)]],
        [[(None, 1, 1), *nulls], nulls, [*nulls, ("a", 1, 1)], [("b", 1, 1)]],
    ):
        total = sum(row[1] is None for rows in batches for row in rows)
        with pytest.raises(errors.NullTime, match=rf"'when' is NULL in {total} rows"):
            list(aggregate_stream(plus_spec(), stream(plus_spec(), *batches)))


# ------------------------------------------------------------------------------------------- queries that do not fit

WRONG: list[tuple[str, dict[str, Any], type[Exception], str]] = [
    ("PATTERN SEQ(A, B", {}, errors.ParseError, "line 1"),
    ("PATTERN", {}, errors.ParseError, "line 1"),
    ("", {}, errors.ParseError, "hint"),
    ("PATTERN A+ WHERE A.x <", {}, errors.ParseError, "\\^"),
    ("PATTERN A+ WITHIN ten minutes", {}, errors.ParseError, "line 1"),
    ("PATTERN A+", {"time": "tme"}, errors.UnknownColumn, "no time column 'tme'"),
    ("PATTERN A+", {"tie_break": ["nope"]}, errors.UnknownColumn, "no tie_break column 'nope'"),
    ("PATTERN A+", {"type": "kind"}, errors.UnknownColumn, "no type column 'kind'"),
    ("PATTERN A+ GROUP BY kk", {}, errors.UnknownColumn, "did you mean 'k'"),
    ("PATTERN A+ WHERE [nope]", {}, errors.UnknownColumn, "no partition column 'nope'"),
    ("PATTERN A+ WHERE A.price > 1", {}, errors.UnknownColumn, "no column 'price'"),
    ("PATTERN A+ WHERE C.x > 1", {}, errors.UnknownVariable, "no variable 'C'"),
    ("RETURN SUM(C.x) PATTERN A+", {}, errors.UnknownVariable, "no variable 'C'"),
    ("PATTERN A+ WHERE sqroot(A.x) > 1", {}, errors.UnknownFunction, "did you mean 'sqrt'"),
    ("PATTERN A+ WHERE A.x > 'a'", {}, errors.QueryTypeError, "cannot compare"),
    ("PATTERN A+ WHERE A.k < NEXT(A).x", {}, errors.QueryTypeError, "cannot compare"),
    ("PATTERN A+ WHERE A.tags + 1 > 2", {}, errors.QueryTypeError, "needs numbers"),
    ("PATTERN A+ WHERE A.x", {}, errors.QueryTypeError, "not boolean"),
    ("PATTERN A+ GROUP BY m", {}, errors.QueryTypeError, "no order"),
    ("RETURN SUM(A.k) PATTERN A+", {}, errors.QueryTypeError, "needs numbers"),
    ("PATTERN A+", {"time": "k"}, errors.QueryTypeError, "the time column 'k' is of type string"),
    ("PATTERN A+", {"time": "y"}, errors.QueryTypeError, "the time column 'y' is of type double"),
    ("PATTERN A+", {"type": "x"}, errors.QueryTypeError, "the type column 'x' is of type int"),
    ("PATTERN A+ WITHIN 10 minutes", {"time": "t"}, errors.WindowError, "whole number of ticks"),
    ("PATTERN A+ WITHIN 10", {"time": "ts"}, errors.WindowError, "10 seconds"),
    ("PATTERN A+ WITHIN 1 month", {"time": "ts"}, errors.WindowError, "no fixed length"),
    ("PATTERN A+ WITHIN 2 years", {"time": "ts"}, errors.WindowError, "24 months has no fixed length"),
    ("PATTERN A+ WITHIN 1 quarter", {"time": "ts"}, errors.WindowError, "3 months has no fixed length"),
    ("PATTERN A+ WITHIN 1 month 5 days", {"time": "ts"}, errors.ParseError, "'1 month 5 days' has no fixed length"),
    ("PATTERN A+ WITHIN 1 year SLIDE 1 month", {"time": "ts"}, errors.AnalysisErrors, "2 errors"),
    ("PATTERN SEQ(A, B) WHERE B.x < NEXT(B).x", {}, errors.UnsupportedQuery, "never directly follows itself"),
    ("PATTERN NOT A", {}, errors.ParseError, "outside SEQ"),
    ("PATTERN SEQ(NOT A, NOT B)", {}, errors.UnsupportedQuery, "only NOT"),
    ("PATTERN A+ WHERE rand() > A.x", {}, errors.UnsupportedQuery, "rand"),
    ("PATTERN A+ AND B+ AND A+", {}, errors.UnsupportedQuery, "two sides"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "binding", "kind", "message"), WRONG)
def test_errors_come_when_the_query_is_bound(
    events: Any, text: str, binding: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message) as failure:
        events.pattern(text, **{"time": "t", **binding})
    assert isinstance(failure.value, errors.CetdslError)
    assert "hint: " in str(failure.value)


def test_errors_are_also_the_builtin_ones(events: Any) -> None:
    for text, builtin in (("PATTERN A+ WHERE A.nope > 1", LookupError), ("PATTERN (", ValueError)):
        with pytest.raises(builtin):
            events.pattern(text, time="t")


def test_all_errors_come_at_once(events: Any) -> None:
    text = (
        "RETURN SUM(A.k) PATTERN SEQ(A, B+) WHERE B.price > 1 AND C.x > 1 AND nofun(A.x) > 1 GROUP BY g WITHIN 1 month"
    )
    with pytest.raises(errors.AnalysisErrors, match="the query has 7 errors") as failure:
        events.pattern(text, time="tt")
    kinds = {type(error) for error in failure.value.errors}
    expected = {errors.UnknownColumn, errors.UnknownVariable, errors.UnknownFunction, errors.WindowError}
    assert kinds == expected | {errors.QueryTypeError}


def test_which_time(spark: Any, events: Any) -> None:
    assert events.pattern(FOLD).count_trends().columns == ["k", "count"]
    with pytest.raises(errors.ResolutionError, match=r"several timestamps: 'ts', 'ts2'"):
        events.withColumn("ts2", F.col("ts")).pattern(FOLD)
    with pytest.raises(errors.ResolutionError, match=r"no timestamp column\n.*'t' \(int\)"):
        events.drop("ts").pattern(FOLD)


def test_wrong_arguments(spark: Any, events: Any) -> None:
    asked = events.pattern(FOLD, time="t")
    with pytest.raises(errors.InvalidNode, match="no number form 'float'"):
        asked.count_trends(number="float")
    for limit in (-1, 1.5, "3", True):
        with pytest.raises(errors.InvalidNode, match=r"limit must be a whole number(.|\n)*hint: leave it out"):
            asked.trends(limit=limit)
    with pytest.raises(errors.UnknownColumn, match="no column 'nope'"):
        asked.trends(columns=["nope"])
    with pytest.raises(errors.ResolutionError, match="nothing to return"):
        asked.aggregate()
    with pytest.raises(errors.InvalidNode, match=r"n=B\.x is not an aggregate"):
        asked.aggregate(n=B.x)
    with pytest.raises(errors.InvalidNode, match=r"number= of aggregate\(\) is an option(.|\n)*returning\(number="):
        asked.aggregate(number=cet.count())
    for wrong in (cet.fn.abs(B.x, 2) > 1, cet.fn.abs(B.x - cet.next_(B).x, 2) > 1):
        with pytest.raises(errors.QueryTypeError, match="Spark cannot evaluate the query's terms"):
            events.pattern((A >> +B).where(wrong), time="t").count_trends()
    with pytest.raises(errors.ResolutionError, match="clashes with a group column"):
        asked.count_trends("k")
    with pytest.raises(errors.InvalidNode, match=r"called 'log2', which is a form of numbers(.|\n)*number='log2'"):
        asked.count_trends("log2")
    with pytest.raises(errors.InvalidNode, match="called 'string', which is a form"):
        asked.count_complete_trends("ends", "string")
    with pytest.raises(errors.InvalidNode, match="on_null_time"):
        events.pattern(FOLD, time="t", on_null_time="drop")
    with pytest.raises(errors.InvalidNode, match="is not a query"):
        events.pattern(42, time="t")
    with pytest.raises(errors.QueryTypeError, match="needs numbers"):
        asked.aggregate(s=cet.sum(B.k))
    with pytest.raises(errors.CetdslError):
        events.pattern(FOLD, time="t").explain("nonsense")
    with pytest.raises(errors.InvalidNode, match="'spark' is a second one"):
        events.pattern(FOLD, time="t").explain("physical", "spark")


def test_conditions_that_spark_refuses(spark: Any, events: Any) -> None:
    """They are when the query is bound, with the name of their variable."""
    conditions = [
        (F.col("nope") > 1, errors.UnknownColumn, "no column 'nope' in the DataFrame; the condition of 'x' asks for"),
        (F.col("tags") > F.lit(1), errors.QueryTypeError, "Spark cannot evaluate the condition of 'x': "),
        (F.col("t"), errors.QueryTypeError, "the condition of 'x' is of type int, not boolean"),
        (F.col("type"), errors.QueryTypeError, "the condition of 'x' is of type string, not boolean"),
    ]
    for condition, error, message in conditions:
        with pytest.raises(error, match=message):
            events.pattern(cet.seq(cet.event("y", F.col("t") > 0), cet.event("x", condition)), time="t")
        with pytest.raises(error, match=f"'wrong'(.|\n)*{message}"):
            events.patterns({"sound": "PATTERN B", "wrong": cet.event("x", condition)}, time="t")


def test_a_condition_that_is_null_holds_never(spark: Any, events: Any) -> None:
    assert events.pattern(cet.event("x", F.lit(None)), time="t").count_trends().collect() == []


def test_errors_of_spark_while_the_query_runs_stay_visible(events: Any) -> None:
    # ANSI mode is on by default.
    asked = events.pattern("PATTERN A+ WHERE 1 / (A.x - 3) > 0", time="t").count_trends()
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        asked.collect()


# --------------------------------------------------------------------------------------- DataFrames out of the common


@pytest.mark.parametrize("query", more_on_classic(*EVERY_WAY))
def test_an_empty_dataframe_has_no_answer(events: Any, query: str) -> None:
    asked = events.filter("t < 0").pattern(query, time="t")
    aggregates = {"n": cet.count(), "s": cet.sum(B.x), "m": cet.max(B.k), "a": cet.avg(B.y)}
    assert asked.aggregate(**aggregates).collect() == []
    assert asked.trends(columns=["t"]).collect() == []


def test_an_empty_local_dataframe(spark: Any) -> None:
    df = spark.createDataFrame([], "t int, type string")
    assert df.pattern("PATTERN A+", time="t").count_trends().collect() == []


@pytest.mark.parametrize("where", ["combine", "prepare"])
def test_a_group_too_large_for_memory(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    def fails(*arguments: Any) -> Any:
        raise pa.ArrowMemoryError("malloc of size 123 failed") if where == "combine" else MemoryError

    spec = plus_spec()
    monkeypatch.setattr(ChunkReader, "_prepare", fails)
    batches = stream(spec, [("a", 1, 1), ("b", 1, 1)], [("b", 2, 1)])
    with pytest.raises(
        errors.GroupTooLarge, match=r"group \('b',\) needs 3 events up to time 2 at once(.|\n)*hint: "
    ) as failure:
        list(aggregate_stream(spec, batches))
    assert isinstance(failure.value, MemoryError)


def test_a_group_too_large_for_the_kernel_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr("cetdsl.kernels.aggregate.evaluate.Evaluator.evaluate", fails)
    spec = plus_spec()
    with pytest.raises(errors.GroupTooLarge, match=r"group \('b',\) needs 2 events"):
        list(aggregate_stream(spec, stream(spec, [("a", 1, 1), ("b", 1, 1), ("b", 2, 1)])))


def test_the_largest_window_is_to_blame_not_the_largest_group(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr("cetdsl.kernels.aggregate.evaluate.Evaluator.evaluate", fails)
    spec = plus_spec().with_query(windowing=Windowing("sliding", 3, 1))
    rows = [("a", 1, 1), ("a", 9, 1), ("a", 17, 1), ("b", 5, 1), ("b", 6, 1)]
    with pytest.raises(errors.GroupTooLarge, match=r"group \('b',\) needs 2 events up to time 6"):
        list(aggregate_stream(spec, stream(spec, rows)))


@pytest.mark.parametrize("completeness", ["ends", "maximal"])
def test_a_group_too_large_for_a_task_names_the_argument_that_takes_it(completeness: str) -> None:
    spec = plus_spec().with_query(completeness=completeness)
    [batch] = stream(spec, [("a", 1, 1)])
    hint = too_large(spec, batch, 1, 1).hint
    assert ("list, count or sample them with algorithm='joins'" in str(hint)) == (completeness == "ends")


def test_a_group_too_large_is_named_though_python_has_no_such_day() -> None:
    """Days beyond the year 9999, and times there, stand in errors as text."""
    spec = plus_spec()
    layout = attrs.evolve(spec.layout, time_type="timestamp")
    [batch] = stream(spec, [("a", 1, 1)])
    days = pa.array([4_000_000], pa.int32()).view(pa.date32())
    columns = [days if name == layout.all_of(KEY)[0] else batch.column(n) for n, name in enumerate(layout.columns)]
    row = pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
    error = too_large(attrs.evolve(spec, layout=layout), row, 2**60, 1)
    assert "group ('12921-08-18',) needs 1 events up to time 38504-08-17T" in str(error)


# --------------------------------------------------------------------------- what building a query must not do


@pytest.mark.skipif(not CLASSIC, reason="only a classic session tells which jobs it ran")
def test_building_a_query_runs_no_job_and_changes_no_setting(spark: Any, events: Any) -> None:
    tracker = spark.sparkContext.statusTracker()
    settings, views = dict(spark.conf.getAll), spark.catalog.listTables()
    jobs = tracker.getJobIdsForGroup(None)
    for query in EVERY_WAY:
        asked = events.pattern(query, time="t")
        asked.count_trends()
        asked.aggregate(s=cet.sum(B.x), a=cet.avg(B.y), m=cet.min(B.k), number="string")
        asked.trends(limit=3)
        str(asked.explain())
        repr(asked)
    assert sorted(tracker.getJobIdsForGroup(None)) == sorted(jobs)
    assert dict(spark.conf.getAll) == settings
    assert spark.catalog.listTables() == views


def test_a_query_knows_nothing_of_what_it_was_bound_to(events: Any) -> None:
    query = cet.seq(A, +B).where(B.x > 1)
    before = query.query if hasattr(query, "query") else str(query)
    events.pattern(query, time="t").count_trends()
    after = query.query if hasattr(query, "query") else str(query)
    assert before == after


# ------------------------------------------------------------------------------------------------------ collations


@pytest.mark.parametrize(
    "text",
    [
        f"RETURN COUNT(*) AS n {KERNEL}",
        f"RETURN COUNT(*) AS n {PARTITIONED}",
        "RETURN COUNT(*) AS n PATTERN SEQ(A, B+) GROUP BY k WITHIN 20 SLIDE 2",
        "RETURN MIN(B.k) AS least PATTERN SEQ(A, B+)",
        "RETURN COUNT(*) AS n PATTERN SEQ(A, B+) WHERE B.k < NEXT(B).k",
    ],
)
def test_kernels_refuse_collations(events: Any, text: str) -> None:
    """Texts that are equal under a collation differ in bytes: a kernel would take them for two keys."""
    collated = events.withColumn("k", F.collate("k", "UTF8_LCASE"))
    with pytest.raises(errors.UnsupportedQuery, match=r"collate UTF8_LCASE.*kernels compare bytes"):
        cet.pattern(collated, text, time="t", type="type").aggregate()


@pytest.mark.parametrize(
    ("collation", "column"),
    [
        ("UTF8_LCASE", "F.collate(F.lower('k'), 'UTF8_BINARY')"),
        ("UTF8_BINARY_RTRIM", "F.collate(F.rtrim('k'), 'UTF8_BINARY')"),
        ("UTF8_LCASE_RTRIM", "F.collate(F.rtrim(F.lower('k')), 'UTF8_BINARY')"),
    ],
)
def test_the_hint_about_a_collation_keeps_equal_texts_equal(spark: Any, collation: str, column: str) -> None:
    """Texts that the collation takes for equal have the same bytes where the hint is followed."""
    rows = [
        (1, "A", "u"),
        (2, "B", "U" if "LCASE" in collation else "u"),
        (3, "B", "u  " if "RTRIM" in collation else "u"),
    ]
    df = spark.createDataFrame(rows, "t long, type string, k string").withColumn("k", F.collate("k", collation))
    with pytest.raises(errors.UnsupportedQuery) as refused:
        cet.pattern(df, KERNEL.replace("B.x", "B.t").replace("(B).x", "(B).t"), time="t").count_trends()
    assert f"df.withColumn('k', {column})" in str(refused.value.hint)
    followed = df.withColumn("k", eval(column, {"F": F}))
    [row] = cet.pattern(followed, "PATTERN SEQ(A, B+) GROUP BY k", time="t").count_trends().collect()
    assert row["count"] == 3


@pytest.mark.parametrize("kind", ["struct<n: int, n: int>", "array<struct<n: int, n: int>>"])
@pytest.mark.parametrize("text", [KERNEL, PARTITIONED + " AND B.t < NEXT(B).t"])
def test_structs_with_two_fields_of_one_name_are_refused(spark: Any, kind: str, text: str) -> None:
    """Arrow has them, and Spark refuses to send them; those whose names differ in case are sent."""
    value = "named_struct('n', 1, 'n', 2)" if kind.startswith("struct") else "array(named_struct('n', 1, 'n', 2))"
    rows = "SELECT id AS t, IF(id = 0, 'A', 'B') AS type, id AS x, {} AS k FROM range(3)"
    with pytest.raises(errors.QueryTypeError, match=r"two fields of one name(.|\n)*names of their own"):
        cet.pattern(spark.sql(rows.format(value)), text, time="t").count_trends().collect()
    [row] = (
        cet.pattern(spark.sql(rows.format(value.replace("'n', 2", "'N', 2"))), text, time="t").count_trends().collect()
    )
    assert row["count"] == 3


def test_workloads_refuse_collations(events: Any) -> None:
    """As a single query does."""
    collated = events.withColumn("k", F.collate("k", "UTF8_LCASE"))
    queries = {"one": f"RETURN COUNT(*) AS n {FOLD}", "two": "RETURN COUNT(*) AS n PATTERN SEQ(B, A+) GROUP BY k"}
    with pytest.raises(errors.UnsupportedQuery, match="the key column 'k'"):
        cet.patterns(collated, queries, time="t", type="type").aggregate()


@pytest.mark.classic
@pytest.mark.parametrize("kind", ["string collate UTF8_LCASE", "struct<k: string collate UTF8_LCASE>"])
def test_ties_are_not_broken_by_collations(events: Any, kind: str) -> None:
    """Not by kernels, nor by Spark, which would find other events simultaneous; what the hints say helps."""
    given = events.withColumn("tie", F.expr("k" if kind.startswith("string") else "struct(k)"))
    collated = given.withColumn("tie", F.col("tie").cast(kind))
    assert "collate" in collated.schema["tie"].dataType.simpleString()
    ways = {
        "fold": lambda df: df.pattern(FOLD, time="t", tie_break="tie").count_trends(),
        "kernel": lambda df: df.pattern(KERNEL, time="t", tie_break=["x", "tie"]).trends(columns=["t"]),
        "joins": lambda df: df.pattern("PATTERN SEQ(A, B)", time="t", tie_break="tie").trends(algorithm="joins"),
        "paths": lambda df: df.pattern("PATTERN A+", time="t", tie_break="tie").complete_trends(algorithm="joins"),
        "workload": lambda df: df.patterns({"q": f"RETURN COUNT(*) {FOLD}"}, time="t", tie_break="tie").aggregate(),
    }
    for ask in ways.values():
        with pytest.raises(errors.UnsupportedQuery, match=r"tie_break column 'tie'.*collate UTF8_LCASE.*compare bytes"):
            ask(collated)
    plain = "string" if kind.startswith("string") else "struct<k: string>"
    mended = collated.withColumn("tie", F.col("tie").cast(plain))
    assert ways["kernel"](mended).count() == ways["kernel"](given).count() > 0


def test_a_fold_groups_by_collation(events: Any) -> None:
    """Spark itself groups and compares, so what is equal under the collation is one group."""
    mixed = events.withColumn("k", F.when(F.col("t") < 10, F.upper("k")).otherwise(F.col("k")))
    collated = mixed.withColumn("k", F.collate("k", "UTF8_LCASE"))
    found = cet.pattern(collated, FOLD, time="t", type="type").count_trends().collect()
    expected = cet.pattern(events, FOLD, time="t", type="type").count_trends().collect()
    assert sorted(row[-1] for row in found) == sorted(row[-1] for row in expected)


# ---------------------------------------------------------------------------------------------------- odd arguments

ODD = {
    "an int": lambda: 7,
    "bytes": lambda: b"x",
    "lists": lambda: [["x"]],
    "a function": lambda: len,
    "an event": lambda: A,
    "a term": lambda: A.x,
    "5,001 digits": lambda: 10**5000,
    "a Spark column": lambda: F.col("x"),
}


@pytest.mark.classic
@pytest.mark.parametrize("odd", ODD)
def test_odd_arguments_are_refused_by_our_errors(events: Any, odd: str) -> None:
    odd = ODD[odd]()
    bound = events.pattern(FOLD, time="t")
    asked = {
        "time": lambda: events.pattern(FOLD, time=odd),
        "type": lambda: events.pattern(FOLD, time="t", type=odd),
        "tie_break": lambda: events.pattern(FOLD, time="t", tie_break=odd),
        "on_null_time": lambda: events.pattern(FOLD, time="t", on_null_time=odd),
        "query": lambda: events.pattern(A.x if odd is A else odd, time="t"),
        "name": lambda: bound.count_trends(odd),
        "number": lambda: bound.count_trends(number=odd),
        "columns": lambda: bound.trends(columns=odd),
        "a column": lambda: bound.trends(columns=[odd]),
        "columns of a graph": lambda: bound.graph(columns=odd),
        "completeness": lambda: bound.complete_trends(odd),
        "algorithm": lambda: bound.complete_trends(algorithm=odd),
        "algorithm of a graph": lambda: bound.graph(algorithm=odd),
        "sharing": lambda: events.patterns({"q": FOLD}, time="t", sharing=odd),
        "name of a query": lambda: events.patterns({odd if odd.__hash__ else None: FOLD}, time="t"),
        "function": lambda: cet.fn[odd],
    }
    for what, ask in asked.items():
        with pytest.raises(errors.CetdslError) as refused:
            pytest.fail(f"{what} takes {ask()}")
        assert refused.value.hint or what == "name of a query", what


@pytest.mark.parametrize("bind", [cet.pattern, cet.patterns])
def test_events_are_a_dataframe(bind: Any) -> None:
    with pytest.raises(errors.InvalidNode, match=r"events are a DataFrame of Spark, not \[1, 2\]"):
        bind([1, 2], {"q": "PATTERN A"} if bind is cet.patterns else "PATTERN A", time="t")


def test_events_of_pandas_are_converted(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    events = pd.DataFrame({"t": [1, 2, 3], "type": ["A", "B", "B"]})
    assert cet.pattern(events, "PATTERN SEQ(A, B+)", time="t").count_trends().first()["count"] == 3
    assert cet.patterns(events, {"q": "PATTERN SEQ(A, B)"}, time="t").trends().count() == 2
    assert (
        cet.match_recognize(events, "ORDER BY t MEASURES LAST(a.t) AS t PATTERN (a+) DEFINE a AS type = 'B'").count()
        == 1
    )
    monkeypatch.setattr("cetdsl.execution.compat.SparkSession.getActiveSession", lambda: None)
    with pytest.raises(errors.InvalidNode, match="no active Spark session"):
        cet.pattern(events, "PATTERN A", time="t")


@pytest.mark.parametrize("names", [["t"], ["type"], ["t", "type"], ["x"]])
def test_an_index_of_pandas_that_has_a_name_is_a_column(spark: Any, names: list[str]) -> None:
    events = pd.DataFrame({"t": [1, 2, 3], "type": ["A", "B", "B"], "x": [0, 1, 1]}).set_index(names)
    [trend] = cet.pattern(events, "PATTERN SEQ(A, B{2})", time="t").trends(columns=["t", "type", "x"]).first()
    assert [tuple(bound["event"]) for bound in trend] == [(1, "A", 0), (2, "B", 1), (3, "B", 1)]


def test_pandas_without_rows_tells_no_types(spark: Any) -> None:
    events = pd.DataFrame({"t": [1], "type": ["A"]})
    with pytest.raises(
        errors.InvalidNode, match=r"cannot take these events of pandas: (.|\n)*hint: .*where there are no rows"
    ):
        cet.pattern(events.head(0), "PATTERN A", time="t")


@pytest.mark.classic
def test_events_of_pandas_on_spark_are_converted(spark: Any) -> None:
    events = spark.createDataFrame([(1, "A"), (2, "B"), (3, "B")], "t int, type string").pandas_api()
    for given in events, events.set_index("t"):
        assert cet.pattern(given, "PATTERN SEQ(A, B+)", time="t").count_trends().first()["count"] == 3


@pytest.mark.parametrize(
    ("kind", "name", "hint"),
    [
        ("bound", "show", "an answer, which is a DataFrame: .trends().show"),
        ("bound", "where", "write .where(...) on the query, before it is bound"),
        ("bound", "count_trend", "did you mean 'count_trends'"),
        ("workload", "collect", "an answer, which is a DataFrame: .trends().collect"),
        ("workload", "result", "did you mean 'results'"),
        ("query", "count_trends", "of a bound query: df.pattern(query, time=...).count_trends"),
        ("query", "witin", "did you mean 'within'"),
        ("pattern", "trends", "of a bound query: df.pattern(query, time=...).trends"),
    ],
)
def test_an_attribute_that_there_is_not(events: Any, kind: str, name: str, hint: str) -> None:
    asked = {
        "bound": lambda: events.pattern(FOLD, time="t"),
        "workload": lambda: events.patterns({"q": FOLD}, time="t"),
        "query": lambda: cet.parse(FOLD),
        "pattern": lambda: cet.seq(A, B),
    }[kind]()
    with pytest.raises(errors.UnknownAttribute, match=re.escape(hint)):
        getattr(asked, name)
    assert not hasattr(asked, name)
    with pytest.raises(AttributeError, match="has no attribute '_repr_png_'"):
        asked._repr_png_  # noqa: B018 - asked for by notebooks
    assert copy.copy(asked).__class__ is asked.__class__


@pytest.mark.parametrize("make", [cet.datasets.flights, cet.datasets.bursts, cet.datasets.check_deposits])
def test_data_sets_need_a_session(make: Any) -> None:
    with pytest.raises(errors.InvalidNode, match="a session of Spark is expected, not None"):
        make(None)


#: A program that asks a session which it has stopped; each line that it prints is what one way of asking said.
ASK_STOPPED = """
import sys
import cetdsl as cet
from sessions import session

with session(*sys.argv[1:]) as spark:
    events = spark.createDataFrame([(1, "A", 1), (2, "B", 2)], "t int, type string, x int")
    bound = events.pattern("PATTERN SEQ(A, B)", time="t")
    many = events.patterns({"q": "PATTERN SEQ(A, B)"}, time="t")
    spark.stop()
    for ask in (
        lambda: events.pattern("PATTERN A", time="t"),
        lambda: events.patterns({"q": "PATTERN A"}, time="t"),
        lambda: events.match_recognize("ORDER BY t PATTERN (a) DEFINE a AS x > 0"),
        lambda: cet.sql("SELECT 1", spark),
        lambda: cet.register(spark),
        lambda: cet.warm_up(spark),
        lambda: bound.matching("next"),
        lambda: bound.explain(),
        lambda: bound.diagnose(),
        bound.count_trends,
        bound.trends,
        bound.complete_trends,
        bound.matches,
        bound.graph,
        many.results,
        many.trends,
    ):
        try:
            print("answered:", ask())
        except Exception as error:
            print(f"{type(error).__name__}: {error}".replace("\\n", " "))
"""


def test_a_stopped_session_is_named(spark: Any, tmp_path: Path) -> None:
    """In a process of its own, as all other tests need the session."""
    mode = os.environ.get("CETDSL_TEST_MODE", "classic")
    words = [sys.executable, "-c", ASK_STOPPED, mode, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=True)
    said = [line for line in done.stdout.splitlines() if line]
    assert len(said) == 16
    assert set(said) == {
        "EngineError: the Spark session is stopped, and with it all of its DataFrames   hint: begin with "
        "spark = SparkSession.builder.getOrCreate(), read the events again, and bind the query"
    }
