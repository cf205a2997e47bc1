"""Keeps the events of a stream packed, many of them in one value of state, until their time buckets are closed.

A worker packs events into parcels, of a share of the keys and of the same time buckets each. Spark's own operators keep
a parcel for each of its buckets. Its ``transformWithState`` keeps each parcel once, and gives it to a time bucket when
the watermark closes it. Either way state is asked a few times for each task of a micro-batch, and not for each key,
which takes a fraction of a millisecond every time.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cetdsl.execution.compat import WATERMARK, shares_of_state
from cetdsl.execution.keeper import WHOLE, keeper
from cetdsl.execution.observed import kept_by_end, keyed, tallied
from cetdsl.execution.source import EventFrame, Terms, floor_divide
from cetdsl.execution.states import NAMES, given_once, of_same_meaning
from cetdsl.execution.worker import map_stage
from cetdsl.ir.shares import share_numbers
from cetdsl.ir.windowing import Windowing, needed_by_bucket

#: The first and the last time bucket that needs an event.
_FIRST, _LAST = "first", "last"
_PACKED = "share int, first bigint, last bigint, body binary, events bigint"
_GIVEN = "s bigint, u bigint, p binary"


def buckets_of(frame: EventFrame, windowing: Windowing, begin: int, end: int) -> Terms:
    """Returns the columns of the first and of the last time bucket that needs an event.

    A bucket needs the events from ``begin`` to ``end``, counted from its start.
    """
    cut = windowing.cut
    first = floor_divide(frame.ticks - F.lit(_least_end(cut, begin, end)), cut) + F.lit(1).cast("bigint")
    return {_FIRST: first, _LAST: floor_divide(frame.ticks - F.lit(begin), cut)}


def kept_once(
    rows: DataFrame, packed: Sequence[str], keys: int, windowing: Windowing, begin: int, end: int, meaning: str
) -> DataFrame:
    """Returns the parcels of time buckets once no more of their events are awaited: the first one, the last, a parcel.

    The rows are those of events, with the columns of :func:`buckets_of` and with so many keys ``k0``, ``k1``, ... Some
    columns are ``packed``.
    """
    shares, end = shares_of_state(rows.sparkSession), _least_end(windowing.cut, begin, end)
    # A bucket of a parcel has a row of its own, the last one with the parcel.
    opened = _by_bucket(_parcels(rows, packed, keys, shares, windowing.cut, end), windowing.cut, end)
    body = F.expr(f"CASE WHEN bucket = {_LAST} THEN body END AS body")
    kept = keeper(f"{meaning}, in {shares} shares", windowing.cut, end)
    rows = opened.select("share", "bucket", _FIRST, body, "closes")
    return rows.groupBy("share").transformWithStateInPandas(kept, _GIVEN, "append", "EventTime")


def kept_by_window(
    rows: DataFrame, packed: Sequence[str], keys: int, windowing: Windowing, begin: int, end: int, meaning: str
) -> DataFrame:
    """Returns what :func:`kept_once` does, of parcels that Spark's own operators keep for each of their buckets.

    Parcels of one bucket stay apart in state, so that a micro-batch writes what it brings, and not again what is known.
    """
    shares, end = shares_of_state(rows.sparkSession), _least_end(windowing.cut, begin, end)
    opened = _by_bucket(_parcels(rows, packed, keys, shares, windowing.cut, end), windowing.cut, end)
    # Equal parcels, if there are any, are one group of two. Groups of two sets of parcels are told apart by a name.
    name = f"u{next(NAMES)}"
    collected = F.collect_list(F.struct(F.col("body").alias(name)))
    kept = opened.groupBy("share", "closes", F.xxhash64("body").alias("number")).agg(
        of_same_meaning(collected, f"{meaning}, in {shares} shares").alias("bodies")
    )
    bucket = F.expr(f"(closes - {end}L) div {windowing.cut}L AS s")
    return given_once(kept).select("share", bucket, F.inline("bodies").alias("p")).repartition("share").select("s", "p")


def _parcels(rows: DataFrame, packed: Sequence[str], keys: int, shares: int, cut: int, end: int) -> DataFrame:
    """Returns parcels, each of events of one share of the keys that the same time buckets need."""
    told = keyed(rows, keys, f"{_LAST} * {cut} + {end}")
    named = told.selectExpr(f"{_share(keys, shares)} AS share", _FIRST, _LAST, *packed)
    return map_stage(named, "parcels", None, _PACKED)


def _by_bucket(parcels: DataFrame, cut: int, end: int) -> DataFrame:
    """Returns parcels once for each time bucket that needs them, and has Spark observe for which of them events come.

    Spark compares the column of a note with the watermark, and drops what is for a bucket that is closed.
    """
    told = parcels.observe(kept_by_end(), tallied(f"{_FIRST} * {cut} + {end}", "body IS NULL"))
    closes = F.expr(f"bucket * {cut} + {end}").alias("closes", metadata={WATERMARK: 0})
    opened = told.filter("body IS NOT NULL").withColumn("bucket", F.expr(f"explode(sequence({_FIRST}, {_LAST}))"))
    return opened.select("*", closes)


def kept_whole(df: DataFrame, frame: EventFrame, windowing: Windowing) -> DataFrame:
    """Returns all events of time buckets once none of them is awaited any more: their columns, and two of a bucket.

    What state holds depends on nothing of a query but its keys and its windows.
    """
    begin, end = needed_by_bucket(windowing, looks_back=True)
    columns = [frame.own_name(field.name) for field in df.schema.fields]
    rows = frame.timed({**frame.keys(), **buckets_of(frame, windowing, begin, end), **{name: name for name in columns}})
    held = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in df.schema.fields)
    source = frame.source
    by = f" by {', '.join(source.keys)}" if source.keys else ""
    meaning = f"{WHOLE}{by}, their time {source.time}, needed for {end - begin} microseconds from every {windowing.cut}"
    parcels = kept_once(rows, columns, len(source.keys), windowing, begin, end, f"{meaning}, columns {held}")
    buckets = [T.StructField(name, T.LongType()) for name in ("bucket", "until")]
    schema = T.StructType([*(T.StructField(field.name, field.dataType) for field in df.schema.fields), *buckets])
    return map_stage(parcels, "unpack", len(columns), schema)


def _least_end(cut: int, begin: int, end: int) -> int:
    """Where windows leave gaps, the next one's start is the end, so that a bucket needs each event."""
    return max(end, begin + cut)


def _share(keys: int, shares: int) -> str:
    """Returns the number of an event's share of the keys, as SQL text; each share is a task's work."""
    if not keys or shares == 1:
        return "0"
    names = ", ".join(f"k{number}" for number in range(keys))
    numbers = ", ".join(map(str, share_numbers(shares)))
    return f"element_at(array({numbers}), CAST(pmod(hash({names}), {shares}) AS int) + 1)"
