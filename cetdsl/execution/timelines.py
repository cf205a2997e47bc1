"""Prepares trends for a timeline: in order, with the values of their events as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, DataType, DateType, TimestampType

#: Spark's setting of the zone that timestamps are shown in.
ZONE = "spark.sql.session.timeZone"


def zone_of(rows: DataFrame, time: str) -> str | None:
    """Returns the zone in which the times of trends are shown; None where times belong to no zone."""
    is_instant = isinstance(_types(rows)[time], TimestampType)
    return rows.sparkSession.conf.get(ZONE) if is_instant else None


def over_time(rows: DataFrame, time: str, columns: Sequence[str], slides: bool) -> DataFrame:
    """Returns trends in the order of their keys, windows and times, for a picture.

    Parameters
    ----------
    rows : pyspark.sql.DataFrame
        Keys, a window if they slide, and ``trend``, whose events have the time and the columns.
    time : str
        The time column of the events.
    columns : sequence of str
        The columns to write as texts.
    slides : bool
        Whether there is a window.

    Returns
    -------
    pyspark.sql.DataFrame
        ``keys``, an array of texts; ``start`` and ``end`` of the window, NULL without one; and ``bindings``, an array
        of structs of the variable, the time, the time as text, and an array of texts. Times are whole numbers, or as
        clocks show them in the session's zone: a timestamp that is collected would be of the zone of the program.
    """
    types = _types(rows)

    def binding(bound: Column) -> Column:
        event = bound.getField("event")
        at = event.getField(time)
        return F.struct(
            bound.getField("variable").alias("variable"),
            _clock(at, types[time]).alias("time"),
            at.cast("string").alias("shown"),
            _texts([_text(event.getField(name), types[name]) for name in columns]).alias("texts"),
        )

    key_types = [field.dataType for field in rows.schema.fields[: -2 if slides else -1]]
    keys = [f"k{place}" for place in range(len(key_types))]
    # Columns by number, as keys may have any name.
    named = rows.toDF(*keys, *(["window"] if slides else []), "trend")
    drawn = named.select(
        *keys,
        _texts([_text(F.col(key), kind) for key, kind in zip(keys, key_types)]).alias("keys"),
        *(_end(named, end).alias(end) if slides else F.lit(None).cast("bigint").alias(end) for end in ("start", "end")),
        F.transform("trend", binding).alias("bindings"),
    )
    along = [F.col("bindings").getField(of) for of in ("time", "variable")]
    return drawn.orderBy(*keys, "start", *along).select("keys", "start", "end", "bindings")


def zone_of_windows(rows: DataFrame) -> str | None:
    """Returns the zone in which the ends of windows are shown; None where they belong to no zone."""
    window: Any = rows.schema["window"].dataType
    return rows.sparkSession.conf.get(ZONE) if isinstance(window["start"].dataType, TimestampType) else None


def by_window(rows: DataFrame) -> DataFrame:
    """Returns one aggregate of windows that slide, in the order of windows and keys, for a picture.

    Keys, ``window`` and the aggregate become ``keys``, an array of texts, ``start``, ``end`` and ``value``; the ends
    are whole numbers, or as clocks show them in the session's zone.
    """
    key_types = [field.dataType for field in rows.schema.fields[:-2]]
    keys = [f"k{place}" for place in range(len(key_types))]
    named = rows.toDF(*keys, "window", "value")
    return (
        named.select(
            *keys,
            _texts([_text(F.col(key), kind) for key, kind in zip(keys, key_types)]).alias("keys"),
            *(_end(named, end).alias(end) for end in ("start", "end")),
            "value",
        )
        .orderBy("start", *keys)
        .select("keys", "start", "end", "value")
    )


def _end(rows: DataFrame, end: str) -> Column:
    """Returns the start or the end of the window."""
    window: Any = rows.schema["window"].dataType
    return _clock(F.col("window").getField(end), window[end].dataType)


def _types(rows: DataFrame) -> dict[str, DataType]:
    """Returns the types of the columns of the events of trends."""
    trend: Any = rows.schema["trend"].dataType
    return {field.name: field.dataType for field in trend.elementType["event"].dataType}


def _clock(time: Column, kind: DataType) -> Column:
    return time.cast("timestamp_ntz") if isinstance(kind, (TimestampType, DateType)) else time


def _text(value: Column, kind: DataType) -> Column:
    """Returns a value as Spark shows it; bytes need not be text, so they are shown in hexadecimal."""
    return F.hex(value) if isinstance(kind, BinaryType) else value.cast("string")


def _texts(texts: Sequence[Column]) -> Column:
    return F.array(*texts).cast("array<string>")
