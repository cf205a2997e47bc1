"""Finds the slices of a chunk that are to be evaluated for windows, spans and pivots."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cetdsl.errors import GroupTooLarge
from cetdsl.ir.windowing import SLIDING, SPAN, Windowing, has_windows
from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.vocabulary import Floats, Ints, Slices

#: Before all times and windows: "none has been answered yet" and "answer everything"; its negative is behind them all.
NEVER = -(2**62)
#: The most windows that are answered together; each takes some 50 bytes until it is answered.
MOST_WINDOWS = 2**26


def cut_slices(
    windowing: Windowing,
    segment_start: Ints,
    time: Ints,
    bucket: Ints,
    complete: bool,
    resume: int,
    look_back: int = 0,
    until: Ints | None = None,
    group: Callable[[int], str] = "segment {}".format,
) -> Slices:
    """Returns the slices that can be answered now.

    ``bucket`` is the number of each segment's time bucket, and ``until`` that of its last one if it has several. They
    are used only if the windowing is cut into time buckets. ``complete`` says that no more events of the last segment
    will come. ``resume`` is the number of the first window of the first segment that has not been answered yet.
    ``look_back`` says, with a span, how long before its first event a trend still depends on events, because of a
    leading negation. ``group`` describes the group of a segment, for an error.
    """
    if has_windows(windowing):
        last = bucket if until is None else until
        if windowing.kind == SLIDING:
            given = segment_start, time, bucket, last, complete, resume
            lengths = windowing.length, windowing.slide, windowing.cut
            # No event lies in more windows than this factor, so the windows need not be counted in most cases.
            if len(time) * (windowing.length // windowing.slide + 1) > MOST_WINDOWS:
                _refuse_many(count_windows(*given, *lengths), group)
            return Slices(*_sliding(*given, *lengths, True))
        # Trends that begin in a window may last for a span. Windows that need the same events still have different
        # trends, so they are not merged into one slice.
        arguments = (look_back + windowing.slide + windowing.length, windowing.slide, windowing.cut, False)
        return Slices(*_sliding(segment_start, time + look_back, bucket, last, complete, resume, *arguments))
    segments = len(segment_start) - 1
    answered = segments if complete else segments - 1
    keep_from = segment_start[-1] if complete else segment_start[-2]
    numbers = np.arange(answered, dtype=np.int64)
    low, high = segment_start[:answered].copy(), segment_start[1 : answered + 1].copy()
    if windowing.kind == SPAN and not complete:
        # Trends whose first event lies more than a span behind the last known event are finished.
        first, last = segment_start[-2], segment_start[-1]
        keep_from = first + np.searchsorted(time[first:last], time[last - 1] - windowing.length - look_back)
        numbers = np.arange(segments, dtype=np.int64)
        low, high = np.append(low, first), np.append(high, last)
    return Slices(low, high, numbers, np.zeros(len(numbers), dtype=np.int64), numbers, int(keep_from), NEVER)


def _refuse_many(windows: Floats, group: Callable[[int], str]) -> None:
    """Raises if segments have too many windows together, and names the group that has the most."""
    if windows.sum() > MOST_WINDOWS:
        most = int(windows.argmax())
        raise GroupTooLarge(
            f"events that are read together lie in {windows.sum():,.0f} windows, more than the {MOST_WINDOWS:,} that "
            f"can be answered at once; {windows[most]:,.0f} of them are of {group(most)}",
            hint="use a longer SLIDE or a shorter WITHIN, or WITHIN alone, which has one answer for each group",
        )


@inlined
def _window_numbers(
    earliest: int, latest: int, bucket: int, until: int, is_open: bool, resume: int, length: int, slide: int, cut: int
) -> tuple[int, int]:
    """Returns the number of a segment's first window that may be answered now, and the number after the last one."""
    k, stop = max((earliest - length) // slide + 1, resume), latest // slide + 1
    if cut > 0:
        k = max(k, (bucket * cut + slide - 1) // slide)
        stop = min(stop, ((until + 1) * cut + slide - 1) // slide)
    if is_open:
        # A window is closed once an event at or after its end has been seen.
        stop = min(stop, (latest - length) // slide + 1)
    return k, stop


@jit
def count_windows(
    segment_start: Ints,
    time: Ints,
    bucket: Ints,
    until: Ints,
    complete: bool,
    resume: int,
    length: int,
    slide: int,
    cut: int,
) -> Floats:
    """Counts the windows of each segment that hold events and can be answered now, in time linear in the events."""
    segments = len(segment_start) - 1
    count = np.zeros(segments, dtype=np.float64)
    for s in range(segments):
        first, last = segment_start[s], segment_start[s + 1]
        bounds = bucket[s], until[s], s == segments - 1 and not complete, resume if s == 0 else NEVER
        k, stop = _window_numbers(time[first], time[last - 1], *bounds, length, slide, cut)
        for i in range(first, last):
            # Only the windows of this event that hold no earlier one.
            k = max(k, (time[i] - length) // slide + 1)
            end = min(time[i] // slide + 1, stop)
            count[s] += max(end - k, 0)
            k = max(k, end)
    return count


@jit
def _sliding(
    segment_start: Ints,
    time: Ints,
    bucket: Ints,
    until: Ints,
    complete: bool,
    resume: int,
    length: int,
    slide: int,
    cut: int,
    merged: bool,
) -> tuple[Ints, Ints, Ints, Ints, Ints, int, int]:
    segments = len(segment_start) - 1
    low_list, high_list, segment_list, start_list, slice_list = [0], [0], [0], [0], [0]
    keep_from = segment_start[segments]
    next_resume = NEVER
    for s in range(segments):
        first, last = segment_start[s], segment_start[s + 1]
        open_segment = s == segments - 1 and not complete
        bounds = bucket[s], until[s], open_segment, resume if s == 0 else NEVER
        k, stop = _window_numbers(time[first], time[last - 1], *bounds, length, slide, cut)
        low, high = first, first
        while k < stop:
            start = k * slide
            while low < last and time[low] < start:
                low += 1
            if low == last:
                break
            if time[low] >= start + length:
                k = max(k + 1, (time[low] - length) // slide + 1)
                continue
            high = max(high, low)
            while high < last and time[high] < start + length:
                high += 1
            same = len(slice_list) > 1 and segment_list[-1] == s and low_list[-1] == low and high_list[-1] == high
            if not (same and merged):
                low_list.append(low)
                high_list.append(high)
            segment_list.append(s)
            start_list.append(start)
            slice_list.append(len(low_list) - 2)
            k += 1
        if open_segment:
            next_resume = max(k, stop)
            keep_from = first
            while keep_from < last and time[keep_from] < next_resume * slide:
                keep_from += 1
    return (
        np.array(low_list[1:], dtype=np.int64),
        np.array(high_list[1:], dtype=np.int64),
        np.array(segment_list[1:], dtype=np.int64),
        np.array(start_list[1:], dtype=np.int64),
        np.array(slice_list[1:], dtype=np.int64),
        keep_from,
        next_resume,
    )


@jit
def pivot_subslices(low: Ints, high: Ints, mask: Ints, wanted: int, from_pivot: bool) -> tuple[Ints, Ints, Ints, Ints]:
    """Returns a subslice for each slice and each event of it that may be bound to a ``wanted`` variable (a bit mask).

    It begins with this event if ``from_pivot``, else with the slice.
    """
    size = 0
    for s in range(len(low)):
        for i in range(low[s], high[s]):
            size += (mask[i] & wanted) != 0
    out = np.empty((4, size), dtype=np.int64)
    position = 0
    for s in range(len(low)):
        for i in range(low[s], high[s]):
            if mask[i] & wanted:
                out[0, position] = i if from_pivot else low[s]
                out[1, position] = high[s]
                out[2, position] = i
                out[3, position] = s
                position += 1
    return out[0], out[1], out[2], out[3]


@jit
def within_span(low: Ints, high: Ints, time: Ints, event: Ints, length: int) -> tuple[Ints, Ints]:
    """Returns the range of the events ``low:high`` of each row that are within ``length`` of the row's ``event``."""
    since, until = low.copy(), high.copy()
    for s in range(len(event)):
        own = time[low[s] : high[s]]
        since[s] += np.searchsorted(own, time[event[s]] - length)
        until[s] = low[s] + np.searchsorted(own, time[event[s]] + length, side="right")
    return since, until


@jit
def span_subslices(
    low: Ints, high: Ints, mask: Ints, time: Ints, wanted: int, length: int, begin: Ints, end: Ints
) -> tuple[Ints, Ints, Ints, Ints]:
    """Returns a subslice for each event that may begin a trend: from this event to the last one within the span.

    Slice ``s`` answers the trends whose first event has ``begin[s] <= time < end[s]``.
    """
    size = 0
    for s in range(len(low)):
        for i in range(low[s], high[s]):
            size += (mask[i] & wanted) != 0 and begin[s] <= time[i] < end[s]
    out = np.empty((4, size), dtype=np.int64)
    position = 0
    for s in range(len(low)):
        stop = low[s]
        for i in range(low[s], high[s]):
            if (mask[i] & wanted) == 0 or not begin[s] <= time[i] < end[s]:
                continue
            stop = max(stop, i)
            while stop < high[s] and time[stop] - time[i] <= length:
                stop += 1
            out[0, position] = i
            out[1, position] = stop
            out[2, position] = i
            out[3, position] = s
            position += 1
    return out[0], out[1], out[2], out[3]
