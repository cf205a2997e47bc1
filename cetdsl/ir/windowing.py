"""The windowing of a query: how time is cut into windows."""

from __future__ import annotations

import attrs

#: A window specification's ``kind``.
WHOLE, SLIDING, SPAN = "whole", "sliding", "span"

#: The first and the last time that an event may have, in the time column's own unit: the difference of any two times,
#: and of a time and the bound of a window, fits 64 bits, and one bit is left for the event's variable.
FIRST_TICK, LAST_TICK = -(2**62), 2**62 - 1
#: In microseconds: the years 1 to 9999, which are those of Python's datetime.
FIRST_MICROSECOND, LAST_MICROSECOND = -62_135_596_800_000_000, 253_402_300_799_999_999
#: The longest time bucket: with it, the ends of the buckets of all times are 64-bit numbers.
LONGEST_BUCKET = 2**61
#: The number of ranges of time into which the events of one group without windows are cut: more than there are tasks,
#: so that tasks get about equally many events, and few enough that there are few matrices.
TIME_RANGES = 4_096


@attrs.frozen
class Windowing:
    """Describes how time is cut: ``length`` and ``slide`` in the time column's own unit.

    ``cut`` > 0 says that rows have a column that numbers time buckets of this length: a task answers only the windows
    (or, for a span, the trends) that start in its own bucket, so that one long key is spread over all cores. A span
    with a ``slide`` has windows one after the other, as long as the slide: each has the trends that start there.
    """

    kind: str = WHOLE
    length: int = 0
    slide: int = 0
    cut: int = 0


def cut_into(windowing: Windowing, windows: int) -> Windowing:
    """Returns the windowing with time buckets as long as ``windows`` windows or spans, one behind the other.

    Examples
    --------
    >>> cut_into(Windowing(SLIDING, 50, 20), 8)
    Windowing(kind='sliding', length=50, slide=20, cut=400)
    """
    unit = windowing.slide or 1
    cut = min(-(-windows * windowing.length // unit), LONGEST_BUCKET // unit) * unit
    return attrs.evolve(windowing, cut=cut)


def closed_apart(windowing: Windowing) -> Windowing:
    """Returns the windowing of a stream, which answers a time bucket when no more events of it are awaited.

    A bucket has one window, so that no window waits for another. With a span, a bucket is as long as the span.

    Examples
    --------
    >>> closed_apart(Windowing(SLIDING, 50, 20)).cut, closed_apart(Windowing(SPAN, 50)).cut
    (20, 50)
    """
    return attrs.evolve(windowing, cut=windowing.slide or max(windowing.length, 1))


def closed_sooner(windowing: Windowing, parts: int) -> Windowing:
    """Returns a stream's windowing with time buckets that are a part of a span, so that trends are answered sooner.

    A bucket is closed a span after its end, so a trend that begins with the bucket waits a span and a bucket. An event
    is needed by as many buckets as a span has parts, and one more.

    Examples
    --------
    >>> closed_sooner(closed_apart(Windowing(SPAN, 50)), 4).cut, closed_sooner(closed_apart(Windowing(SPAN, 2)), 4).cut
    (12, 1)
    >>> closed_sooner(closed_apart(Windowing(SLIDING, 50, 20)), 4).cut
    20
    """
    return attrs.evolve(windowing, cut=max(windowing.cut // parts, 1)) if windowing.kind == SPAN else windowing


def answered_by_bucket(windowing: Windowing) -> Windowing:
    """Returns a span with one window per time bucket of a stream; a window has the trends that start in it.

    Examples
    --------
    >>> answered_by_bucket(closed_apart(Windowing(SPAN, 50)))
    Windowing(kind='span', length=50, slide=50, cut=50)
    """
    return attrs.evolve(windowing, slide=windowing.cut)


def has_windows(windowing: Windowing) -> bool:
    """Whether answers are distinguished by windows: those that slide, or those in which the trends of a span start."""
    return windowing.kind != WHOLE and windowing.slide > 0


def needed_by_bucket(windowing: Windowing, looks_back: bool) -> tuple[int, int]:
    """Returns from when to when a time bucket needs events, counted from its start, with an exclusive end.

    If a span's query ``looks_back``, its trends depend on events up to a span before their first one.

    Examples
    --------
    >>> needed_by_bucket(closed_apart(Windowing(SLIDING, 50, 20)), False)
    (0, 50)
    >>> needed_by_bucket(closed_apart(Windowing(SPAN, 50)), True)
    (-50, 100)
    """
    if windowing.kind == SPAN:
        return -windowing.length if looks_back else 0, windowing.cut + windowing.length
    return 0, windowing.cut - windowing.slide + windowing.length


def expressible(windowing: Windowing, first: int, last: int) -> tuple[int, int]:
    """Returns the first and the last time of events all of whose windows start and end between ``first`` and ``last``.

    The exclusive end of a window may be one behind the last time.

    Examples
    --------
    >>> expressible(Windowing(SLIDING, 50, 20), -100, 100), expressible(Windowing(SPAN, 50), -100, 100)
    ((-70, 59), (-100, 100))
    """
    if windowing.kind != SLIDING:
        return first, last
    length, slide = windowing.length, windowing.slide
    earliest = (-(-first // slide) - 1) * slide + length
    latest = ((last + 1 - length) // slide + 1) * slide - 1
    return max(first, earliest), min(last, latest)


def count_in_panes(windowing: Windowing) -> Windowing:
    """Returns the windows with panes as the unit of time.

    A pane lies between two neighbouring borders (starts or ends) of sliding windows; panes are numbered from the epoch.
    If the slide divides the length, there is one pane per slide, else two: one up to the end of a window, and one from
    there on. Time buckets begin with a pane, as windows do. Without windows, panes are the ranges that time is cut
    into, and one window has all of them.

    Examples
    --------
    >>> count_in_panes(Windowing(SLIDING, 60, 20)), count_in_panes(Windowing(SLIDING, 50, 20))
    (Windowing(kind='sliding', length=3, slide=1, cut=0), Windowing(kind='sliding', length=5, slide=2, cut=0))
    """
    if windowing.kind == WHOLE:
        return Windowing(WHOLE, TIME_RANGES, 1)
    whole, rest = divmod(windowing.length, windowing.slide)
    slide, length = (2, 2 * whole + 1) if rest else (1, whole)
    return Windowing(SLIDING, length, slide, windowing.cut // windowing.slide * slide)


def panes_apart(windowing: Windowing) -> Windowing:
    """Returns the panes of a stream's windows, whose slide divides their length, as windows closed one by one.

    Examples
    --------
    >>> panes_apart(closed_apart(Windowing(SLIDING, 60, 20)))
    Windowing(kind='sliding', length=20, slide=20, cut=20)
    """
    return attrs.evolve(windowing, length=windowing.slide)


def overlaps(windowing: Windowing) -> bool:
    """Whether an event may be in several windows, or spans."""
    return windowing.kind == SPAN or windowing.slide < windowing.length


def overlap(windowing: Windowing) -> int:
    """Returns how many sliding windows an event is in at most."""
    return -(-windowing.length // windowing.slide)
