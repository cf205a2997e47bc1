"""Separates the keys that stretches answer from those whose stretches overlap, and selects events of the latter."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cetdsl.execution.compat import estimated_like
from cetdsl.execution.source import EventFrame
from cetdsl.ir.layout import KEY, numbered

#: The column that says whether a key's stretches overlap; and a prefix for key columns that are compared with others.
_OVERLAPS, _OTHER = "overlapping", "other_"  # OVERLAPS is a word of SQL's


def told_of(keys: list[T.StructField], answers: T.StructType) -> T.StructType:
    """Returns the schema of answers by key: whether its stretches overlap, the key, and else its answer."""
    return T.StructType([T.StructField(_OVERLAPS, T.BooleanType()), *keys, *answers.fields])


def apart(told: DataFrame, keys: int, in_windows: bool) -> tuple[DataFrame, DataFrame]:
    """Returns the answers of the keys whose stretches do not overlap, and the other keys.

    With several windows (``in_windows``), a key of the latter may have answers of some windows, which are dropped.
    """
    names = numbered(KEY, keys)
    shown = [name for name in told.columns if name not in (_OVERLAPS, *names)]
    others = told.where(_OVERLAPS).select(
        F.lit(True).alias(f"{_OTHER}row"), *(F.col(n).alias(_OTHER + n) for n in names)
    )
    answered = told.where(f"NOT {_OVERLAPS}")
    if in_windows:
        equal = [F.col(name).eqNullSafe(F.col(_OTHER + name)) for name in names]
        answered = answered.join(F.broadcast(others), _all(equal), "left_anti")
    return answered.select(*shown), others


def only(df: DataFrame, frame: EventFrame, keys: DataFrame) -> DataFrame:
    """Returns the events of some keys, which :func:`apart` found, as rows of the user's DataFrame."""
    terms = [F.expr(term) if isinstance(term, str) else term for term in frame.keys().values()]
    equal = [term.eqNullSafe(F.col(_OTHER + name)) for term, name in zip(terms, frame.key_names, strict=True)]
    events = frame.frame.join(F.broadcast(keys), _all(equal), "left_semi").toDF(*df.columns)
    estimated_like(events, df)
    return events


def _all(conditions: list[Column]) -> Column:
    """Returns whether all conditions hold."""
    found = F.lit(True)
    for condition in conditions:
        found = found & condition
    return found
