"""Packs events into parcels, many in one value, before they are sent to the tasks of their keys or kept in state."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cetdsl.execution.compat import kept_shares
from cetdsl.execution.worker import map_stage
from cetdsl.ir.parcels import BucketsOfTime, ParcelSpec
from cetdsl.ir.shares import share_numbers

#: Types of keys whose values a worker has as whole numbers, so that it can find their shares by itself.
_WHOLE = (
    *(T.ByteType, T.ShortType, T.IntegerType, T.LongType),
    *(T.BooleanType, T.DateType, T.TimestampType, T.TimestampNTZType),
)
#: Bytes of parcels that are sent to a worker at once, about, and how many rows Spark sends, by a setting.
_AT_ONCE, _ROWS_AT_ONCE, _USUAL_ROWS = 1 << 20, "spark.sql.execution.arrow.maxRecordsPerBatch", 10_000
_PACKED = "share int, p binary"
_PACKED_BY_BUCKET = "share int, first bigint, last bigint, body binary, events bigint"
#: The columns of parcels that are kept once for each of their buckets.
PACKED_BY_WINDOW = f"{_PACKED_BY_BUCKET}, numbers array<bigint>"


def shares_of_keys(session: SparkSession, keys: Sequence[str]) -> int:
    """Returns in how many shares of their keys a stream's rows are kept; without keys there is nothing to share."""
    return kept_shares(session) if keys else 1


def packed_by_share(
    rows: DataFrame,
    columns: Sequence[str],
    keys: Sequence[str],
    shares: int,
    buckets: BucketsOfTime | None = None,
    *,
    by_window: bool = False,
) -> DataFrame:
    """Returns parcels of some columns of the rows, those of a share of the keys together; no key: there is one share.

    The columns of the answer are the ``share`` and the parcel ``p``. Of a stream, a parcel has rows that the same time
    ``buckets`` need, which know the time's position among the columns; then the answer has the ``share``, the ``first``
    and the ``last`` of the buckets, the parcel ``body``, and how many ``events`` it has; and if it is kept
    ``by_window``, the ``numbers``, one for each bucket, by which Spark groups it in the task of its share.
    """
    if all(isinstance(rows.schema[key].dataType, _WHOLE) for key in keys):
        left_out = [key for key in keys if key not in columns]
        sent = [*left_out, *columns]
        spec = ParcelSpec(share_numbers(shares if keys else 1), tuple(map(sent.index, keys)), len(left_out))
    else:
        sent = [f"hash({', '.join(keys)}) AS hash", *columns]
        spec = ParcelSpec(share_numbers(shares), None, 1)
    if buckets is None:
        return map_stage(rows.selectExpr(*sent), "parcels", spec, _PACKED)
    moved = attrs.evolve(buckets, time=buckets.time + spec.left_out)
    spec, kept_shares = attrs.evolve(spec, buckets=moved, by_window=by_window), shares if keys else 0
    packed = PACKED_BY_WINDOW if by_window else _PACKED_BY_BUCKET
    return map_stage(rows.selectExpr(*sent), "parcels", spec, packed, kept_shares=kept_shares)


def in_batches(parcels: DataFrame, *beside: str) -> DataFrame:
    """Returns parcels ``p``, and columns beside them, so that Spark sends about a megabyte of them to a worker at once.

    Spark begins a batch when it has so many rows. Thousands of parcels would be all that a task gets, so that the
    worker had to wait for them, and to hold them. So each is followed by rows without one, the more the larger it is.
    Where a session lets batches have more rows than usual they get larger: millions of empty rows would take long.
    """
    rows = int(parcels.sparkSession.conf.get(_ROWS_AT_ONCE, None) or _USUAL_ROWS)
    if rows <= 0:  # no limit is what was asked for
        return parcels.select(*beside, "p")
    empty = f"CAST(length(p) * {min(rows, _USUAL_ROWS)}L div {_AT_ONCE} AS int)"
    followed = f"concat(array(p), array_repeat(CAST(NULL AS binary), {empty}))"
    return parcels.select(*beside, F.explode(F.expr(followed)).alias("p"))
