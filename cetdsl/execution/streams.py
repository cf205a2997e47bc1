"""Keeps the events of a stream until the watermark closes their time bucket, and then gives them to kernels.

In this module, Spark's own operators keep the state: events are grouped by key and by Spark's ``window``, which has the
events that a time bucket needs. Spark emits each group once, when the watermark passes the window's end, and drops
events that arrive for it later. All following steps are stateless, so they work as on a batch.
:mod:`cetdsl.execution.live_events` keeps events in parcels instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from datetime import date
from functools import partial

import attrs
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cetdsl.analysis.functions import WITHOUT_TIMES
from cetdsl.errors import StreamingNotSupported
from cetdsl.execution.expressions import raised
from cetdsl.execution.lists import with_lists
from cetdsl.execution.live_events import buckets_of, given_by_window, kept_by_window, kept_once
from cetdsl.execution.source import EventFrame, Terms, floor_divide
from cetdsl.execution.states import NAMES, given_once, of_same_meaning, stable_text
from cetdsl.execution.timelines import ZONE
from cetdsl.execution.worker import map_stage
from cetdsl.ir.emission import EAGER, FINAL
from cetdsl.ir.kernel import KernelQuery
from cetdsl.ir.layout import BUCKET, KEY, SHARE, TIME, UNTIL, RowLayout
from cetdsl.ir.operators import RowsInOrder
from cetdsl.ir.parcels import BucketsOfTime, ParcelSpec
from cetdsl.ir.shares import share_numbers
from cetdsl.ir.sorting import OrderKey, RowOrder
from cetdsl.ir.source import Source
from cetdsl.ir.stages import LearnSpec
from cetdsl.ir.windowing import Windowing, needed_by_bucket
from cetdsl.pattern.expressions import Attribute, Call, Expr, Literal, SparkColumn

#: The column with Spark's window, whose end closes a time bucket.
_CLOSING = "w"
#: The column with the time of an event's micro-batch; a restarted stream finds the same time in the checkpoint.
_ARRIVED = "a"


def gathered(frame: EventFrame, query: KernelQuery, terms: Terms, layout: RowLayout, asked: object) -> DataFrame:
    """Returns the events of each key and time bucket together, in any order, once no more of them are awaited.

    If answers are given before they are final, the events so far are returned whenever a new one arrives. The events
    are those that some variable can bind, with the columns of the layout. Their columns, the query in numbers, and
    ``asked``, the further terms requested of each event, define the meaning of the state.
    """
    begin, end = needed_by_bucket(query.windowing, query.looks_back)
    cut = query.windowing.cut
    kept = {name: term for name, term in terms.items() if name != BUCKET}
    kept[_CLOSING] = _window(frame.column(frame.source.time), begin, end, cut)
    if frame.source.emit == EAGER:
        kept[_ARRIVED] = "current_timestamp()"
    rows, source = frame.select(kept), frame.source
    meaning = _meaning(frame, query, layout, rows, asked)
    collect = partial(_collected_now if source.emit == EAGER else _collected, meaning)
    once = given_once if source.emit == FINAL else _whenever
    if layout.lists:
        rows = with_lists(frame, {**kept, f"u{next(NAMES)}": "true"}, (_CLOSING,), collect, once)
    else:
        rows = _together(rows, [*frame.key_names[: len(source.kept_by)], _CLOSING], collect, once)
    return _numbered(rows, begin, cut).select(*layout.columns)


def gathered_parcels(
    frame: EventFrame,
    query: KernelQuery,
    rows: DataFrame,
    layout: RowLayout,
    given: RowLayout,
    asked: object,
    learning: LearnSpec | None = None,
) -> DataFrame:
    """Returns events like :func:`gathered`, but in parcels; ``layout`` is that of events, ``given`` that of parcels.

    If ``learning``, the state keeps statistics of events beside them, which come in front of the parcels.
    """
    begin, end = needed_by_bucket(query.windowing, query.looks_back)
    packed, keys = [name for name in layout.columns if name != BUCKET], layout.all_of(KEY)
    meaning = _meaning(frame, query, layout, rows, asked)
    buckets = buckets_of(query.windowing, begin, end, packed.index(TIME), layout.encoding.bits)
    if given.has(UNTIL) and not given.repeated:
        return kept_once(rows, packed, keys, buckets, meaning, learning)
    return kept_by_window(rows, packed, keys, buckets, meaning, *([f"share AS {SHARE}"] if given.has(SHARE) else []))


def _meaning(frame: EventFrame, query: KernelQuery, layout: RowLayout, rows: DataFrame, asked: object) -> str:
    """Returns a text that distinguishes kept events from those of another query."""
    source, compiled = frame.source, frame.compiled
    keys = (*source.keys, *source.computed)
    contents = (
        (keys, source.time, source.tie_break, query.windowing, query.looks_back),
        (compiled.variables, compiled.codes, compiled.lists, layout.columns, layout.encoding, asked),
        rows.schema.simpleString(),
    )
    return _text_of(contents, rows, source)


def _text_of(contents: object, rows: DataFrame, source: Source) -> str:
    """Returns a text that distinguishes kept rows with these contents from others.

    It names the session's time zone if the contents may depend on it, as ``HOUR(A.t)`` does: Spark computes them in the
    zone of the session that starts a stream, not in that of the checkpoint.
    """
    times = {field.name for field in source.schema.fields if "timestamp" in field.type or "date" in field.type}
    depends = any(_may_depend_on_zone(expr, times) for expr in _expressions(contents))
    zone = f" in {rows.sparkSession.conf.get(ZONE)}" if depends else ""
    return stable_text(repr(contents) + zone, source.schema.names)


def _may_depend_on_zone(expr: Expr, times: Set[str]) -> bool:
    """Whether the value of an expression, apart from its sub-expressions, may depend on the session's time zone.

    ``times`` are the columns of dates and timestamps: what they are compared with may be of another type.

    Examples
    --------
    >>> calls = Call("ABS", (Literal(1),)), Call("hour", (Literal(1),))
    >>> [_may_depend_on_zone(expr, {"t"}) for expr in (*calls, Literal(date(2026, 1, 1)), Literal(1))]
    [False, True, True, False]
    """
    if isinstance(expr, Call):
        return expr.name.lower() not in WITHOUT_TIMES
    if isinstance(expr, Literal):
        return isinstance(expr.value, date)  # as every datetime is
    return isinstance(expr, SparkColumn) or (isinstance(expr, Attribute) and expr.name in times)


def _expressions(contents: object) -> Iterator[Expr]:
    """Yields all expressions in collections and records, with their sub-expressions."""
    kind = type(contents)
    if isinstance(contents, Expr):
        yield from contents.walk()
    elif isinstance(contents, Mapping):
        yield from _expressions([*contents.items()])
    elif isinstance(contents, (Sequence, Set)) and not isinstance(contents, (str, bytes)):
        for part in contents:
            yield from _expressions(part)
    elif attrs.has(kind):
        yield from _expressions([getattr(contents, field.name) for field in attrs.fields(kind)])


def packed_panes(windowing: Windowing, shares: int, time: int) -> ParcelSpec:
    """Describes how a worker packs the panes of windows by shares, whose numbers are in the first column.

    ``time`` is the position of the column with the number of a pane, which counts slides from the epoch.
    """
    buckets = _buckets_of_panes(windowing, time)
    return ParcelSpec(share_numbers(shares), by_share=True, left_out=1, buckets=buckets, by_window=True)


def gathered_panes(panes: DataFrame, source: Source, asked: object) -> DataFrame:
    """Returns parcels of panes once for each of their windows, once the watermark has passed the window's end.

    A worker has packed the panes, after events were gathered by pane. ``asked`` describes the contents of panes.
    """
    meaning = _text_of((source.windowing, asked, *source.computed), panes, source)
    return given_by_window(panes, _buckets_of_panes(source.windowing), meaning)


def _buckets_of_panes(windowing: Windowing, time: int = 0) -> BucketsOfTime:
    begin, end = needed_by_bucket(windowing, looks_back=False)
    return BucketsOfTime(time, 0, windowing.cut, begin, end, unit=windowing.slide)


def _together(
    rows: DataFrame,
    keys: Sequence[str],
    collect: Callable[[Column], Column],
    when: Callable[[DataFrame], DataFrame],
) -> DataFrame:
    """Returns the rows such that those with equal keys are consecutive; ``when`` decides when Spark emits a group."""
    first, *others = (name for name in rows.columns if name not in (*keys, _ARRIVED))
    each = F.struct(F.col(first).alias(f"u{next(NAMES)}"), *others)
    grouped = when(rows.groupBy(*keys).agg(collect(each).alias("rows")))
    return grouped.select(*keys, F.inline("rows").alias(first, *others))


def _whenever(grouped: DataFrame) -> DataFrame:
    """Returns groups unchanged, so that Spark emits them as the output mode says."""
    return grouped


def just_ended(trends: DataFrame, arrived: str) -> DataFrame:
    """Returns the trends with an event of this micro-batch; a column of events says when each one ``arrived``.

    All trends so far of a key and time bucket are listed whenever an event comes to it.
    """
    came_now = F.exists("trend", lambda bound: bound["event"][arrived] == F.current_timestamp())
    return trends.filter(came_now)


def _collected(meaning: str, row: Column) -> Column:
    return of_same_meaning(F.collect_list(row), meaning)


def _collected_now(meaning: str, row: Column) -> Column:
    """Returns collected rows, one of which arrived in this micro-batch; raises if none did, as in append mode.

    If the clock was set back, earlier rows may have later times of arrival than those of this micro-batch.
    """
    error = raised(
        StreamingNotSupported,
        "trends of emit='eager' are not written in update mode, the only one that gives each of them at once, and once",
        hint="write them with outputMode('update'), or leave emit= away",
        kind="boolean",
    )
    came_now = F.max(_ARRIVED) >= F.current_timestamp()
    return F.when(F.when(came_now, F.lit(True)).otherwise(error), _collected(meaning, row))


def _numbered(rows: DataFrame, begin: int, cut: int) -> DataFrame:
    """Adds the number of the time bucket of a window that starts ``begin`` after the bucket."""
    start = F.expr(f"unix_micros({_CLOSING}.start)") - F.lit(begin)
    return rows.withColumn(BUCKET, floor_divide(start, cut))


def _window(time: Column, begin: int, end: int, cut: int) -> Column:
    """Returns, for each time bucket that needs an event, Spark's window of the times of events that the bucket needs.

    The window is made directly of the column with the watermark, where Spark looks for it. Spark's windows overlap or
    follow each other. If the windows of a query leave gaps, events in the gaps have been dropped already, and a window
    closes when the next one begins.
    """
    duration, slide, start = (f"{amount} microseconds" for amount in (max(end - begin, cut), cut, begin % cut))
    return F.window(time, duration, slide, start)


def sent_in_order(rows: DataFrame, needed: RowsInOrder, memory: int) -> DataFrame:
    """Shuffles rows of a stream by some columns; workers then sort them, as Spark does not sort a stream."""
    number = needed.order[0] if needed.order else needed.by[-1]
    keys = [name for name in needed.by if name != number]
    spread = rows.repartition(*keys) if keys else rows.repartition(1)
    position = spread.columns.index
    order = RowOrder(tuple(map(position, keys)), (OrderKey(position(number)),), memory, nulls_apart=True)
    return map_stage(spread, "order", order, rows.schema)
