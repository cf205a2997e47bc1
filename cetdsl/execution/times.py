"""Checks the times of events: each time must be representable, and so must be the bounds of its windows."""

from __future__ import annotations

from datetime import datetime, timedelta

from pyspark.sql import Column
from pyspark.sql import functions as F

from cetdsl.errors import NULL_TIME_ADVICE, NullTime, TimeOutOfRange
from cetdsl.execution.expressions import raised
from cetdsl.ir.source import Source
from cetdsl.ir.windowing import (
    FIRST_MICROSECOND,
    FIRST_TICK,
    LAST_MICROSECOND,
    LAST_TICK,
    SLIDING,
    expressible,
)

_DAY = 86_400_000_000


def refuse_null_time(source: Source) -> Column:
    """Raises in a row whose time is NULL."""
    return raised(NullTime, f"the time column {source.time!r} is NULL in a row", hint=NULL_TIME_ADVICE, kind="boolean")


def refuse_times(column: str, kind: str, source: Source) -> Column | None:
    """Returns a condition that raises in rows whose time, or a bound of whose windows, cannot be represented.

    Returns None if all times of the type ``kind`` can be.
    """
    if kind in ("integer", "short", "byte"):
        return None
    slides = any(windowing.kind == SLIDING for windowing in source.answered_windowings)
    also = ", and so must be the bounds of all windows that hold them" if slides else ""
    error = raised(
        TimeOutOfRange,
        "the time ",
        F.col(column).cast("string"),
        f", in the time column {source.time!r}, is out of range: times must be {_range(kind)}{also}",
        hint="correct such rows, or leave them out with a filter, before the query",
        kind="boolean",
    )
    first, last = _literals(kind, source)
    return F.when(F.expr(f"{column} BETWEEN {first} AND {last}"), F.lit(True)).otherwise(error)


def _range(kind: str) -> str:
    return "from -2^62 to 2^62 - 1" if kind == "long" else "in the years 1 to 9999, in UTC"


def _literals(kind: str, source: Source) -> tuple[str, str]:
    """Returns the first and the last time as SQL text."""
    if kind == "long":
        ticks = _expressible(source, FIRST_TICK, LAST_TICK)
        return f"({ticks[0]}L)", f"({ticks[1]}L)"
    first, last = _expressible(source, FIRST_MICROSECOND, LAST_MICROSECOND)
    if kind == "date":
        return f"DATE '{_clock(first + _DAY - 1).date()}'", f"DATE '{_clock(last - _DAY + 1).date()}'"
    word, zone = ("TIMESTAMP_NTZ", "") if kind == "timestamp_ntz" else ("TIMESTAMP", " UTC")
    times = [f"{word} '{_clock(each).isoformat(' ', 'microseconds')}{zone}'" for each in (first, last)]
    return times[0], times[1]


def _expressible(source: Source, first: int, last: int) -> tuple[int, int]:
    """Returns the first and the last time of events whose windows, of all answers, lie between these two times."""
    ends = [expressible(windowing, first, last) for windowing in source.answered_windowings]
    return max(earliest for earliest, _ in ends), min(latest for _, latest in ends)


def _clock(micros: int) -> datetime:
    return datetime(1970, 1, 1) + timedelta(microseconds=micros)
