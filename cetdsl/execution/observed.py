"""Metrics that Spark observes of a stream, beside its own: they are reported with each micro-batch's progress.

Each observation has a name of its own, as Spark wants it, which begins with what it tells.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cetdsl.execution.states import NAMES
from cetdsl.ir.emission import ANSWERED, DECIDED, KEPT, KEYED
from cetdsl.ir.parcels import TALLIED


def kept_by_end() -> str:
    """Returns the name of an observation of what :func:`tallied` counts."""
    return f"{KEPT} {next(NAMES)}"


def tallied(end: str, rows: str) -> Column:
    """Returns how many events have come for each time bucket, of some rows that hold parts of that.

    The result is an aggregate, an array as JSON: the ``end`` of each bucket, in microseconds, and its ``events``. Of
    too many buckets the oldest ones stand apart, as each task tells them.
    """
    part = F.expr(f"CASE WHEN {rows} THEN named_struct('end', {end}, 'events', events) END")
    one = "struct<`end`: bigint, events: bigint>"

    def told(apart: Column, last: Column) -> Column:
        return F.struct(apart.alias("apart"), last.alias("last"))

    def added(known: Column, more: Column) -> Column:
        apart, last = known["apart"], known["last"]
        both = F.struct(more["end"].alias("end"), (last["events"] + more["events"]).alias("events"))
        is_same = (last["end"] == more["end"]) | (F.size(apart) == TALLIED - 1)
        first, next_one = told(apart, more), told(F.concat(apart, F.array(last)), more)
        return F.when(is_same, told(apart, both)).when(last.isNull(), first).otherwise(next_one)

    # In order of their ends, so that each part is looked at once: the driver does it at each trigger.
    parts, nothing = F.sort_array(F.collect_list(part)), told(F.array().cast(f"array<{one}>"), F.lit(None).cast(one))
    whole = F.aggregate(
        parts, nothing, added, lambda known: F.concat(known["apart"], F.array_compact(F.array(known["last"])))
    )
    return F.to_json(whole).alias("ends")


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
