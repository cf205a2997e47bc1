"""Keeps the events of a stream packed, many of them in one value of state, until their time buckets are closed.

A worker packs events into parcels; the events of a parcel belong to one share of the keys, and the same time buckets
need them. Spark's own operators keep a parcel once for each of its buckets. A processor for ``transformWithState``
keeps each parcel once, and emits it when the watermark closes a bucket that needs it. Either way, a task accesses state
a few times per micro-batch, and not once per key; each access takes a fraction of a millisecond.
"""

from __future__ import annotations

import pickle
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
from cetdsl.ir.shares import share_numbers
from cetdsl.ir.stages import LearnSpec
from cetdsl.ir.windowing import Windowing, needed_by_bucket

#: The columns of emitted parcels: the first and the last of their time buckets, and the parcel.
_GIVEN = "s bigint, u bigint, p binary"
_LEARNED = f"y binary, {_GIVEN}"


def buckets_of(windowing: Windowing, begin: int, end: int, time: int, bits: int) -> BucketsOfTime:
    """Describes the time buckets that need an event; a bucket needs those from ``begin`` to ``end`` after its start.

    If windows leave gaps, a bucket extends to the start of the next one, so that some bucket needs each event. The
    column at position ``time`` holds the time, multiplied by ``2**bits``.
    """
    return BucketsOfTime(time, bits, windowing.cut, begin, max(end, begin + windowing.cut))


def kept_once(
    rows: DataFrame,
    packed: Sequence[str],
    keys: Sequence[str],
    buckets: BucketsOfTime,
    meaning: str,
    learning: LearnSpec | None = None,
) -> DataFrame:
    """Returns the parcels of time buckets that are closed, as rows of the first bucket, the last one, and a parcel.

    ``rows`` are events; their columns ``packed`` go into parcels, by shares of their ``keys``. If ``learning``, a
    column in front of the others has the statistics of a share's events so far, in one of the share's rows.
    """
    shares = shares_of_keys(rows.sparkSession, keys)
    parcels = _told(packed_by_share(rows, packed, keys, share_numbers(shares), buckets), buckets)
    # Each bucket that needs a parcel gets a row, and the last bucket's row has the parcel.
    opened = _by_bucket(parcels, buckets, "explode(sequence(first, last)) AS bucket")
    body = F.expr("CASE WHEN bucket = last THEN body END AS body")
    payload, given = (pickle.dumps(learning), _LEARNED) if learning else (None, _GIVEN)
    kept = keeper(f"{meaning}, in {shares} shares", buckets.cut, buckets.end, payload)
    rows = opened.select("share", "bucket", "first", body, "closes")
    return rows.groupBy("share").transformWithStateInPandas(kept, given, "append", "EventTime")


def kept_by_window(
    rows: DataFrame, packed: Sequence[str], keys: Sequence[str], buckets: BucketsOfTime, meaning: str, *beside: str
) -> DataFrame:
    """Returns parcels like :func:`kept_once`, but Spark's own operators keep a parcel for each of its buckets.

    A parcel is emitted once for each bucket, with the number of that bucket alone, and with the expressions ``beside``,
    such as the number of its share.
    """
    shares = shares_of_keys(rows.sparkSession, keys)
    parcels = _told(packed_by_share(rows, packed, keys, share_numbers(shares), buckets, by_window=True), buckets)
    return given_by_window(parcels, buckets, f"{meaning}, in {shares} shares", *beside)


def given_by_window(parcels: DataFrame, buckets: BucketsOfTime, meaning: str, *beside: str) -> DataFrame:
    """Returns the parcels of time buckets that are closed, as Spark's own operators keep them.

    Each parcel of a bucket is a group of its own in state, so that a micro-batch writes only its new parcels. A
    parcel's number makes Spark keep all parcels of a share in one task, so that kernels need no further shuffle.
    """
    opened = _by_bucket(parcels, buckets, "inline(arrays_zip(sequence(first, last), numbers)) AS (bucket, number)")
    # Equal parcels, if there are any, form one group. A unique name distinguishes two sets of parcels, see NAMES.
    name = f"u{next(NAMES)}"
    collected = F.collect_list(F.struct(F.col("body").alias(name)))
    grouped = opened.groupBy("share", "closes", "number")
    kept = given_once(grouped.agg(of_same_meaning(collected, meaning).alias("bodies")))
    bucket = in_task_of_share(F.expr(f"(closes - {buckets.end}L) div {buckets.cut}L")).alias(BUCKET)
    given = kept.select(*map(F.expr, beside), bucket, F.inline("bodies").alias("p"))
    return in_batches(given, *given.columns[:-1])


def in_task_of_share(value: Column) -> Column:
    """Returns the value as a column that raises if this Spark does not keep the group in the task of its share."""
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

    The SQL ``each`` generates the buckets of a parcel. The column ``closes`` has the metadata of a watermark column, so
    that Spark compares it with the watermark, and drops rows for buckets that are closed.
    """
    end = f"{buckets.cut} + {buckets.end}"
    closes = F.expr(f"bucket * {end}").alias("closes", metadata={WATERMARK: 0})
    opened = parcels.filter("first + length(body) IS NOT NULL").select("*", F.expr(each))
    return opened.select("*", closes)


def kept_whole(df: DataFrame, frame: EventFrame, windowing: Windowing) -> DataFrame:
    """Returns all events of closed time buckets, with all columns and the numbers of the first and the last bucket.

    The state depends on the keys and the windows of a query, and on nothing else of it.
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
    """Returns a column without the metadata of a watermark; other metadata stay, such as those of ``CHAR(n)``."""
    notes = {name: note for name, note in field.metadata.items() if name != WATERMARK}
    return T.StructField(field.name, field.dataType, metadata=notes)
