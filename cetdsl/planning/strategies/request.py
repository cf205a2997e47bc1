"""The requests that strategies answer, and how they decline."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from itertools import chain

import attrs

from cetdsl.analysis.checks import MAX_STREAM_OVERLAP
from cetdsl.analysis.classify import is_inseparable
from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.errors import StreamingNotSupported, UnsupportedQuery
from cetdsl.ir.compiled import Compiled
from cetdsl.ir.source import Source
from cetdsl.ir.windowing import (
    SLIDING,
    SPAN,
    WHOLE,
    Windowing,
    answered_by_bucket,
    closed_apart,
    closed_sooner,
    cut_into,
    overlap,
    overlaps,
)
from cetdsl.pattern.expressions import Aggregate
from cetdsl.pattern.nodes import And
from cetdsl.pattern.properties import has_sides_apart, is_joint, sides
from cetdsl.pattern.query import Selection, Window
from cetdsl.pattern.text import selection_lines
from cetdsl.planning.compile import compile_query, side_query
from cetdsl.planning.detection import BY_DEFAULT, Detection
from cetdsl.planning.keeping import parts_of_spans

#: The length of a time bucket of a long key, in window lengths; one more length of events is copied from its neighbour.
BUCKET_WINDOWS = 8


@attrs.frozen
class Declined:
    """The reason why a strategy does not answer a request; ``on_stream``: it would if the events were no stream."""

    reason: str
    on_stream: bool = False


def unknown_size() -> int | None:
    """Returns None: the default of ``bytes_read``, for events whose size is unknown."""
    return None


@attrs.frozen
class AggregateRequest:
    """A request for aggregates over all trends; ``bytes_read()`` estimates the bytes of its events, lazily."""

    resolved: ResolvedQuery
    aggregates: tuple[tuple[str, Aggregate], ...]
    number: str
    compiled: tuple[Compiled, ...]
    bytes_read: Callable[[], int | None] = attrs.field(default=unknown_size, eq=False, repr=False)

    @property
    def is_pair(self) -> bool:
        """Whether the pattern is an AND."""
        return isinstance(self.resolved.query.pattern, And)

    @property
    def is_joint(self) -> bool:
        """Whether the pattern is an AND whose sides are judged together."""
        return is_joint(self.resolved.query.pattern, self.resolved.query.where)


@attrs.frozen
class TrendsRequest:
    """A request for the trends themselves."""

    resolved: ResolvedQuery
    columns: tuple[str, ...]
    limit: int | None
    compiled: tuple[Compiled, ...]
    detection: Detection = BY_DEFAULT


def compile_sides(resolved: ResolvedQuery) -> tuple[Compiled, ...]:
    """Compiles a query for its trends, or each side of a top-level AND by itself."""
    pattern, selection = resolved.query.pattern, resolved.query.selection
    if selection != Selection():
        raise UnsupportedQuery(
            f"{selection_lines(selection)[0]} is asked for, and trends are not taken one at a time",
            hint="ask for matches(), or leave it out",
        )
    if not isinstance(pattern, And):
        return (compile_query(resolved),)
    if len(pattern.parts) != 2 and not has_sides_apart(pattern):
        raise UnsupportedQuery("a top-level AND has two sides, or none of them share a variable")
    return tuple(compile_query(side_query(resolved, side)) for side in sides(pattern))


def source_of(resolved: ResolvedQuery) -> Source:
    """Returns how the events of a query are read, keyed and cut by time."""
    query = resolved.query
    groups = tuple(dict.fromkeys(query.group_by))
    partitions = tuple(name for name in dict.fromkeys(query.partition_by) if name not in groups)
    windowing = windowing_of(query.window, resolved.is_stream)
    if resolved.by_bucket:
        windowing = answered_by_bucket(windowing)
    elif resolved.is_stream:
        looked_at = any(is_inseparable(predicate) for predicate in query.where)
        windowing = closed_sooner(windowing, parts_of_spans(resolved.emit, resolved.state, looked_at=looked_at))
    return Source(
        resolved.schema,
        resolved.time.name,
        # Dates are compared with window bounds as timestamps.
        "timestamp" if resolved.time.type == "date" else resolved.time.type,
        resolved.tie_break,
        resolved.on_null_time,
        groups,
        partitions,
        tuple(name for name in resolved.asked_partition_by if name not in groups),
        windowing,
        resolved.sort,
        resolved.watermark,
        resolved.emit,
        resolved.state,
        tuple(item for item in resolved.computed if item.name in (*groups, *partitions)),
        columns=resolved.columns,
    )


def windowing_of(window: Window | None, is_stream: bool = False) -> Windowing:
    """Returns the windows of a query, and the time buckets: see :func:`in_buckets`."""
    if window is None:
        return Windowing(WHOLE)
    length = window.length.amount
    if window.slide is None:
        return in_buckets(Windowing(SPAN, length), is_stream)
    return in_buckets(Windowing(SLIDING, length, window.slide.amount), is_stream)


def read_together(source: Source) -> Hashable:
    """Returns a key that is equal for sources whose events one pass can read for many queries.

    On a stream, such sources have the same windows, too: if windows of several lengths were closed together, each
    answer would wait for the longest window, and events would be kept for the windows of all slides. A stream that
    keeps events whole for queries that come and go is an exception: it keeps them in one way for all windows.
    """
    windowing = source.windowing
    in_windows = windowing if source.is_stream and not source.state.whole else windowing.kind == WHOLE
    return frozenset(source.keys), source.tie_break, in_windows


def source_of_pass(sources: Sequence[Source], windowing: Windowing) -> Source:
    """Returns how one pass reads the events of several queries, which agree in what :func:`read_together` returns."""
    first = sources[0]
    return attrs.evolve(
        first,
        groups=first.keys,
        partitions=(),
        asked_partitions=(),
        windowing=windowing,
        asked_windowings=tuple(dict.fromkeys(source.windowing for source in sources)),
        columns=tuple(dict.fromkeys(chain.from_iterable(source.columns for source in sources))),
    )


def common_windowing(windowings: Sequence[Windowing], is_stream: bool) -> Windowing:
    """Returns windows, or spans, with time buckets that contain the windows or spans of all queries of a pass.

    Raises
    ------
    StreamingNotSupported
        If the common windows put each event of a stream into too many of them.

    Examples
    --------
    >>> spans = [answered_by_bucket(closed_apart(Windowing(SPAN, length))) for length in (60, 30, 40)]
    >>> common_windowing(spans[:2], is_stream=True), common_windowing(spans, is_stream=True)
    (Windowing(kind='span', length=60, slide=0, cut=60), Windowing(kind='span', length=80, slide=0, cut=60))
    """
    if len(set(windowings)) == 1:
        return windowings[0]
    if windowings[0].kind == WHOLE:
        return Windowing(WHOLE)
    longest = max(windowing.length for windowing in windowings)
    if any(windowing.kind == SPAN for windowing in windowings):
        cut = max(longest, 1)
        common = Windowing(SPAN, max(_reach(windowing, cut) for windowing in windowings))
        return attrs.evolve(common, cut=cut) if is_stream else in_buckets(common, False)
    common = Windowing(SLIDING, longest, math.gcd(*(windowing.slide for windowing in windowings)))
    if is_stream and overlap(common) > MAX_STREAM_OVERLAP:
        raise StreamingNotSupported(
            "the queries cannot come and go: cut alike, by the longest WITHIN and the greatest common divisor of all "
            f"SLIDE, their windows put each event into {overlap(common):,}, and at most {MAX_STREAM_OVERLAP} are "
            "answered",
            hint="take slides that divide each other, or leave keep= away",
        )
    return in_buckets(common, is_stream)


def _reach(windowing: Windowing, cut: int) -> int:
    """Returns for how long after the end of a time bucket the windows that begin in it need events.

    The trends that begin at the end of a bucket last up to a span longer. If spans are grouped into windows, and
    buckets do not end where these windows do, the last window of a bucket ends behind it.
    """
    beyond = windowing.kind == SPAN and windowing.slide and cut % windowing.slide
    return windowing.length + (windowing.slide if beyond else 0)


def in_buckets(windowing: Windowing, is_stream: bool) -> Windowing:
    """Returns windows, or spans, with time buckets, by which tasks share one key, and which a stream closes."""
    if is_stream:
        return closed_apart(windowing)
    if not overlaps(windowing):
        return attrs.evolve(windowing, cut=windowing.slide)
    return cut_into(windowing, BUCKET_WINDOWS)
