"""Packs events into parcels, many in one value, before they are sent to the tasks of their keys or kept in state."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from cetdsl.execution.worker import map_stage
from cetdsl.ir.parcels import BucketsOfTime, ParcelSpec
from cetdsl.ir.shares import share_numbers

#: Types of keys whose values a worker has as whole numbers, so that it can find their shares by itself.
_WHOLE = (
    *(T.ByteType, T.ShortType, T.IntegerType, T.LongType),
    *(T.BooleanType, T.DateType, T.TimestampType, T.TimestampNTZType),
)
_PACKED = "share int, p binary"
_PACKED_BY_BUCKET = "share int, first bigint, last bigint, body binary, events bigint"


def packed_by_share(
    rows: DataFrame, columns: Sequence[str], keys: Sequence[str], shares: int, buckets: BucketsOfTime | None = None
) -> DataFrame:
    """Returns parcels of some columns of the rows, those of a share of the keys together; no key: there is one share.

    The columns of the answer are the ``share`` and the parcel ``p``. Of a stream, a parcel has rows that the same time
    ``buckets`` need, which know the time's position among the columns; then the answer has the ``share``, the ``first``
    and the ``last`` of the buckets, the parcel ``body``, and how many ``events`` it has.
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
    return map_stage(rows.selectExpr(*sent), "parcels", attrs.evolve(spec, buckets=moved), _PACKED_BY_BUCKET)
