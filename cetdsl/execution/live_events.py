"""Keeps the events of a stream packed, many of them in one value of state, until their time buckets are closed.

A worker packs events into parcels, of a share of the keys and of the same time buckets each. Spark's own operators keep
a parcel for each of its buckets. Its ``transformWithState`` keeps each parcel once, and gives it to a time bucket when
the watermark closes it. Either way state is asked a few times for each task of a micro-batch, and not for each key,
which takes a fraction of a millisecond every time.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cetdsl.errors import EngineError
from cetdsl.execution.compat import WATERMARK
from cetdsl.execution.expressions import raised
from cetdsl.execution.keeper import WHOLE, keeper
from cetdsl.execution.observed import kept_by_end, keyed, tallied
from cetdsl.execution.parcels import in_batches, packed_by_share, shares_of_keys
from cetdsl.execution.source import EventFrame
from cetdsl.execution.states import NAMES, given_once, of_same_meaning
from cetdsl.execution.worker import map_stage
from cetdsl.ir.layout import BUCKET, KEY, numbered
from cetdsl.ir.parcels import BucketsOfTime
from cetdsl.ir.schema import unused_name
from cetdsl.ir.windowing import Windowing, needed_by_bucket

#: The columns of parcels that are given: the first and the last of their time buckets, and the parcel.
_GIVEN = "s bigint, u bigint, p binary"


def buckets_of(windowing: Windowing, begin: int, end: int, time: int, bits: int) -> BucketsOfTime:
    """Returns which time buckets need an event; a bucket needs those from ``begin`` to ``end``, counted from its start.

    Where windows leave gaps, the next one's start is the end, so that a bucket needs each event. The time is in the
    column at a position, times ``2**bits``.
    """
    return BucketsOfTime(time, bits, windowing.cut, begin, max(end, begin + windowing.cut))


def kept_once(
    rows: DataFrame, packed: Sequence[str], keys: Sequence[str], buckets: BucketsOfTime, meaning: str
) -> DataFrame:
    """Returns the parcels of time buckets once no more of their events are awaited: the first one, the last, a parcel.

    The rows are those of events, some of whose columns are ``packed``, by shares of their ``keys``.
    """
    shares = shares_of_keys(rows.sparkSession, keys)
    parcels = _told(packed_by_share(rows, packed, keys, shares, buckets), buckets)
    # A bucket of a parcel has a row of its own, the last one with the parcel.
    opened = _by_bucket(parcels, buckets, "explode(sequence(first, last)) AS bucket")
    body = F.expr("CASE WHEN bucket = last THEN body END AS body")
    kept = keeper(f"{meaning}, in {shares} shares", buckets.cut, buckets.end)
    rows = opened.select("share", "bucket", "first", body, "closes")
    return rows.groupBy("share").transformWithStateInPandas(kept, _GIVEN, "append", "EventTime")


def kept_by_window(
    rows: DataFrame, packed: Sequence[str], keys: Sequence[str], buckets: BucketsOfTime, meaning: str, *beside: str
) -> DataFrame:
    """Returns what :func:`kept_once` does, of parcels that Spark's own operators keep for each of their buckets.

    Each is given once for each bucket, with the number of that bucket alone. More may stand ``beside`` it, as the
    number of its share, under a new name.
    """
    shares = shares_of_keys(rows.sparkSession, keys)
    parcels = _told(packed_by_share(rows, packed, keys, shares, buckets, by_window=True), buckets)
    return given_by_window(parcels, buckets, f"{meaning}, in {shares} shares", *beside)


def given_by_window(parcels: DataFrame, buckets: BucketsOfTime, meaning: str, *beside: str) -> DataFrame:
    """Returns the parcels of time buckets that are closed, as Spark's own operators keep them.

    Parcels of one bucket stay apart in state, so that a micro-batch writes what it brings, and not again what is known.
    Each has a number, by which Spark keeps all parcels of a share in one task, so that nothing has to be sent to the
    kernels behind.
    """
    opened = _by_bucket(parcels, buckets, "inline(arrays_zip(sequence(first, last), numbers)) AS (bucket, number)")
    # Equal parcels, if there are any, are one group of two. Groups of two sets of parcels are told apart by a name.
    name = f"u{next(NAMES)}"
    collected = F.collect_list(F.struct(F.col("body").alias(name)))
    grouped = opened.groupBy("share", "closes", "number")
    kept = given_once(grouped.agg(of_same_meaning(collected, meaning).alias("bodies")))
    bucket = in_task_of_share(F.expr(f"(closes - {buckets.end}L) div {buckets.cut}L")).alias(BUCKET)
    given = kept.select(*map(F.expr, beside), bucket, F.inline("bodies").alias("p"))
    return in_batches(given, *given.columns[:-1])


def in_task_of_share(value: Column) -> Column:
    """Returns a value of a group of parcels; raises if this Spark does not keep the group in the task of its share."""
    error = raised(
        EngineError,
        "this Spark hashes rows in another way than Apache Spark, so that events of a key would be in several tasks",
        hint="keep each event once, by state='events' and the RocksDB state store, and report which Spark this is",
        kind="bigint",
    )
    return F.when(F.hash("share", "closes", "number") == F.hash("share"), value).otherwise(error)


def _told(parcels: DataFrame, buckets: BucketsOfTime) -> DataFrame:
    """Has Spark observe the time buckets that events come for, and their keys."""
    end = f"{buckets.cut} + {buckets.end}"
    told = parcels.observe(kept_by_end(), tallied(f"first * {end}", "body IS NULL"))
    return told.observe(*keyed(f"last * {end}", "CASE WHEN first IS NULL THEN body END"))


def _by_bucket(parcels: DataFrame, buckets: BucketsOfTime, each: str) -> DataFrame:
    """Returns parcels once for each time bucket that needs them.

    ``each`` bucket of a parcel is made in SQL, with what else is its own. Spark compares the column of a note with the
    watermark, and drops what is for a bucket that is closed.
    """
    end = f"{buckets.cut} + {buckets.end}"
    closes = F.expr(f"bucket * {end}").alias("closes", metadata={WATERMARK: 0})
    opened = parcels.filter("first + length(body) IS NOT NULL").select("*", F.expr(each))
    return opened.select("*", closes)


def kept_whole(df: DataFrame, frame: EventFrame, windowing: Windowing) -> DataFrame:
    """Returns all events of time buckets once none of them is awaited any more: their columns, and two of a bucket.

    What state holds depends on nothing of a query but its keys and its windows.
    """
    begin, end = needed_by_bucket(windowing, looks_back=True)
    columns = [frame.own_name(field.name) for field in df.schema.fields]
    rows = frame.timed({**frame.keys(), **{name: name for name in columns}})
    held = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in df.schema.fields)
    source = frame.source
    by = f" by {', '.join(source.keys)}" if source.keys else ""
    meaning = f"{WHOLE}{by}, their time {source.time}, needed for {end - begin} microseconds from every {windowing.cut}"
    buckets = buckets_of(windowing, begin, end, columns.index(frame.own_name(source.time)), 0)
    parcels = kept_once(rows, columns, numbered(KEY, len(source.keys)), buckets, f"{meaning}, columns {held}")
    given = [T.StructField(unused_name(name, df.columns), T.LongType()) for name in ("bucket", "until")]
    schema = T.StructType([*map(_without_watermark, df.schema.fields), *given])
    return map_stage(parcels, "unpack", len(columns), schema)


def _without_watermark(field: T.StructField) -> T.StructField:
    """Returns a column without Spark's note of a watermark; by another one, Spark knows what ``CHAR(n)`` equals."""
    notes = {name: note for name, note in field.metadata.items() if name != WATERMARK}
    return T.StructField(field.name, field.dataType, metadata=notes)
