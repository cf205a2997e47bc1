"""Metrics that Spark observes on a stream, beside its own ones, and reports with each micro-batch's progress.

Spark requires a unique name for each observation; the names here begin with the kind of the observation.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cetdsl.execution.states import NAMES
from cetdsl.ir.emission import ANSWERED, DECIDED, KEPT, KEYED
from cetdsl.ir.parcels import TALLIED


def kept_by_end() -> str:
    """Returns a name for an observation of :func:`tallied`."""
    return f"{KEPT} {next(NAMES)}"


def tallied(end: str, rows: str) -> Column:
    """Returns an aggregate of how many events have come for each time bucket, over rows with partial counts.

    ``rows`` is the condition for rows with such counts, and ``end`` the end of their bucket in microseconds. The result
    is an array as JSON: the ``end`` of each bucket, and its ``events``. If there are too many buckets, only the oldest
    ones are counted separately, as tasks do themselves.
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

    # The parts are sorted by their ends, so that the driver, which does this at each trigger, visits each part once.
    parts, nothing = F.sort_array(F.collect_list(part)), told(F.array().cast(f"array<{one}>"), F.lit(None).cast(one))
    whole = F.aggregate(
        parts, nothing, added, lambda known: F.concat(known["apart"], F.array_compact(F.array(known["last"])))
    )
    return F.to_json(whole).alias("ends")


def keyed(end: str, bits: str) -> tuple[str, Column, Column]:
    """Returns the name of an observation of keys, and its aggregates over rows with ``bits`` and an ``end``.

    The aggregates are a bitmap, in base 64, with a bit for the hash of each key, and ``until``, the time in
    microseconds up to which some event is needed. The union of the bitmaps of several micro-batches shows how many
    different keys these had.
    """
    keys = F.base64(F.bitmap_or_agg(F.expr(bits))).alias("keys")
    return f"{KEYED} {next(NAMES)}", keys, F.max(F.expr(end)).alias("until")


def answers(rows: DataFrame) -> DataFrame:
    """Makes Spark count the rows of an answer on a stream."""
    return rows.observe(f"{ANSWERED} {next(NAMES)}", F.count(F.lit(1)).alias("rows")) if rows.isStreaming else rows


def decisions(rows: DataFrame, metrics: str) -> DataFrame:
    """Makes Spark add up the decisions on sharing, over rows with the ``metrics`` of a task as JSON."""
    if not rows.isStreaming:
        return rows
    decided = F.get_json_object(metrics, "$.decisions").cast("bigint")
    return rows.observe(f"{DECIDED} {next(NAMES)}", F.coalesce(F.sum(decided), F.lit(0)).alias("decisions"))
