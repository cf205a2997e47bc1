"""Metrics that Spark observes of a stream, beside its own: they are reported with each micro-batch's progress.

Each observation has a name of its own, as Spark wants it, which begins with what it tells.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cetdsl.execution.states import NAMES
from cetdsl.ir.emission import ANSWERED, DECIDED, KEPT, KEYED


def kept_by_end() -> str:
    """Returns the name of an observation of what :func:`tallied` counts."""
    return f"{KEPT} {next(NAMES)}"


def tallied(end: str, rows: str) -> Column:
    """Returns how many events have come for each time bucket, of some rows that hold parts of that.

    The result is an aggregate, an array as JSON: the ``end`` of each bucket, in microseconds, and its ``events``.
    """
    parts = F.collect_list(F.expr(f"CASE WHEN {rows} THEN named_struct('end', {end}, 'events', events) END"))
    ends = F.array_sort(F.collect_set(F.expr(f"CASE WHEN {rows} THEN {end} END")))

    def whole(one: Column) -> Column:
        own = F.filter(parts, lambda part: part["end"] == one)
        total = F.aggregate(own, F.lit(0).cast("bigint"), lambda total, part: total + part["events"])
        return F.struct(one.alias("end"), total.alias("events"))

    return F.to_json(F.transform(ends, whole)).alias("ends")


def keyed(end: str, bits: str) -> tuple[str, Column, Column]:
    """Returns the name of an observation of keys, and its aggregates of rows with ``bits`` and an ``end``.

    It tells the bits that the hashes of keys set in a bitmap, in base 64, as the bits of several micro-batches together
    tell how many different keys these had, and ``until`` when some of the events are needed, in microseconds.
    """
    keys = F.base64(F.bitmap_or_agg(F.expr(bits))).alias("keys")
    return f"{KEYED} {next(NAMES)}", keys, F.max(F.expr(end)).alias("until")


def answers(rows: DataFrame) -> DataFrame:
    """Has Spark count the rows of an answer."""
    return rows.observe(f"{ANSWERED} {next(NAMES)}", F.count(F.lit(1)).alias("rows")) if rows.isStreaming else rows


def decisions(rows: DataFrame, metrics: str) -> DataFrame:
    """Has Spark add up how often sharing was decided, of rows with the ``metrics`` of a task as JSON."""
    if not rows.isStreaming:
        return rows
    decided = F.get_json_object(metrics, "$.decisions").cast("bigint")
    return rows.observe(f"{DECIDED} {next(NAMES)}", F.coalesce(F.sum(decided), F.lit(0)).alias("decisions"))
