"""Packs events into parcels, many events in one value, before a shuffle sends them or a stream's state keeps them."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cetdsl.execution.compat import kept_shares, parallelism, shuffle_tasks
from cetdsl.execution.worker import map_stage
from cetdsl.ir.parcels import BucketsOfTime, ParcelSpec
from cetdsl.ir.shares import share_numbers, spread_numbers

#: Types of keys whose values a worker gets as whole numbers, so that it can compute their hashes, and shares, itself.
_WHOLE = (
    *(T.ByteType, T.ShortType, T.IntegerType, T.LongType),
    *(T.BooleanType, T.DateType, T.TimestampType, T.TimestampNTZType),
)
#: About how many bytes of parcels go to a worker at once; the setting for the rows of a batch; and its default.
_AT_ONCE, _ROWS_AT_ONCE, _USUAL_ROWS = 1 << 20, "spark.sql.execution.arrow.maxRecordsPerBatch", 10_000
_PACKED = "share int, p binary"
_PACKED_BY_BUCKET = "share int, first bigint, last bigint, body binary, events bigint"
#: A share for each of so many bytes that Spark expects to read, and at least so many shares for each task that can run
#: at the same time. Spark gives a task the next shares until they exceed its part; if shares are larger than this, what
#: is left over becomes another task, since it is more than a megabyte of parcels.
_SHARE_BYTES, _SHARES_OF_A_CORE = 3 << 19, 8
#: The columns of parcels that are kept once for each of their buckets.
PACKED_BY_WINDOW = f"{_PACKED_BY_BUCKET}, numbers array<bigint>"


def shares_of_keys(session: SparkSession, keys: Sequence[str]) -> int:
    """Returns into how many shares of their keys a stream divides its rows; without keys there is one share."""
    return kept_shares(session) if keys else 1


def shares_of_bytes(session: SparkSession, size: int | None) -> tuple[int, ...]:
    """Returns the numbers of the shares into which a batch divides its keys, given about how many bytes it reads.

    There are at most as many shares as tasks of a shuffle, and so many if the number of bytes is unknown. If there are
    fewer, some of these tasks get no rows. For each task that gets rows, Spark writes a file and the worker packs
    parcels of its own, which takes a tenth of the time of a query over a few million events in 200 shares.
    """
    tasks = shuffle_tasks(session)
    if size is None:
        return share_numbers(tasks)
    return spread_numbers(max(-(-size // _SHARE_BYTES), _SHARES_OF_A_CORE * parallelism(session)), tasks)


def packed_by_share(
    rows: DataFrame,
    columns: Sequence[str],
    keys: Sequence[str],
    shares: tuple[int, ...],
    buckets: BucketsOfTime | None = None,
    *,
    by_window: bool = False,
) -> DataFrame:
    """Packs some ``columns`` of the rows into parcels; the rows of a parcel belong to one share of the keys.

    ``shares`` are the numbers of the shares; without keys, there is only one. The result has the columns
    ``share`` and ``p``, the parcel. On a stream, ``buckets`` describes the time buckets, and the position of the time
    among the columns; the rows of a parcel are then needed by the same buckets. The result has ``share``, ``first`` and
    ``last`` of these buckets, the parcel ``body``, and the number of its ``events``; and if parcels are kept
    ``by_window``, ``numbers``, one for each bucket, by which Spark groups them in the task of their share.
    """
    if all(isinstance(rows.schema[key].dataType, _WHOLE) for key in keys):
        left_out = [key for key in keys if key not in columns]
        sent = [*left_out, *columns]
        spec = ParcelSpec(shares, tuple(map(sent.index, keys)), len(left_out))
    else:
        sent = [f"hash({', '.join(keys)}) AS hash", *columns]
        spec = ParcelSpec(shares, None, 1)
    if buckets is None:
        return map_stage(rows.selectExpr(*sent), "parcels", spec, _PACKED)
    moved = attrs.evolve(buckets, time=buckets.time + spec.left_out)
    spec, kept_shares = attrs.evolve(spec, buckets=moved, by_window=by_window), len(shares) if keys else 0
    packed = PACKED_BY_WINDOW if by_window else _PACKED_BY_BUCKET
    return map_stage(rows.selectExpr(*sent), "parcels", spec, packed, kept_shares=kept_shares)


def in_batches(parcels: DataFrame, *beside: str) -> DataFrame:
    """Returns parcels ``p``, and columns beside them, such that Spark sends about a megabyte to a worker at once.

    Spark ends a batch at a number of rows. A batch of thousands of parcels would have all rows of a task, so that the
    worker would wait for all of them, and hold them. So each parcel is followed by empty rows, the more the larger it
    is. If a session allows more rows per batch than usual, batches get larger instead: millions of empty rows would
    take long.
    """
    rows = int(parcels.sparkSession.conf.get(_ROWS_AT_ONCE, None) or _USUAL_ROWS)
    if rows <= 0:  # the session asks for no limit
        return parcels.select(*beside, "p")
    empty = f"CAST(length(p) * {min(rows, _USUAL_ROWS)}L div {_AT_ONCE} AS int)"
    followed = f"concat(array(p), array_repeat(CAST(NULL AS binary), {empty}))"
    return parcels.select(*beside, F.explode(F.expr(followed)).alias("p"))
