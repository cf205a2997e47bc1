"""Sorts the positions of events by key and time: a counting sort by key, and a radix sort by time within each key.

If there are many keys, each has so few events that all passes over the digits of their times are made in the
processor's caches. Times are sorted by the digits of their distance from the key's earliest time, which are few if the
times are close together. Events of a key that are in order stay as they are, and those that consist of a few rising
runs, such as those of a few files that are each in order, are merged.
"""

from __future__ import annotations

import numpy as np

from cetdsl.kernels._jit import jit
from cetdsl.kernels.vocabulary import Ints, Places

#: Up to so many events are sorted by insertion, which takes less time than counting digits.
_FEW = 48
#: Up to so many rising runs are merged, in three passes; times mostly have five digits or more, each a pass of its own.
_FEW_RUNS = 8
_DIGIT = 8


@jit
def order_by_key_and_time(number: Ints, numbers: int, time: Ints) -> tuple[Places, Ints]:
    """Returns the positions of events in order of key and time, and their times; equal ones stay as they came.

    The keys are given by their numbers, which are less than ``numbers``.
    """
    count = len(time)
    place = np.zeros(numbers + 1, dtype=np.int64)
    for i in range(count):
        place[number[i] + 1] += 1
    longest = 0
    for k in range(numbers):
        longest = max(longest, place[k + 1])
        place[k + 1] += place[k]
    order, sorted_time = np.empty(count, dtype=np.int32), np.empty(count, dtype=np.int64)
    for i in range(count):
        p = place[number[i]]
        place[number[i]] = p + 1
        order[p] = i
        sorted_time[p] = time[i]
    spare_order, spare_time = np.empty(longest, dtype=np.int32), np.empty(longest, dtype=np.int64)
    counts, bounds = np.empty((1 << _DIGIT) + 1, dtype=np.int64), np.empty(_FEW_RUNS + 1, dtype=np.int64)
    low = 0
    for k in range(numbers):
        # Each place has moved on to where its key's events end.
        high = place[k]
        _sort_stretch(sorted_time, order, low, high, spare_time, spare_order, counts, bounds)
        low = high
    return order, sorted_time


@jit
def _sort_stretch(
    time: Ints, order: Places, low: int, high: int, spare_time: Ints, spare_order: Places, counts: Ints, bounds: Ints
) -> None:
    """Sorts the events between two positions by time, in place."""
    if high - low < 2:
        return
    least = most = time[low]
    runs = 1
    for i in range(low + 1, high):
        runs += time[i] < time[i - 1]
        least, most = min(least, time[i]), max(most, time[i])
    if runs == 1:
        return
    if high - low <= _FEW:
        for i in range(low + 1, high):
            t, o = time[i], order[i]
            j = i - 1
            while j >= low and time[j] > t:
                time[j + 1], order[j + 1] = time[j], order[j]
                j -= 1
            time[j + 1], order[j + 1] = t, o
        return
    if runs <= len(bounds) - 1:
        _merge_runs(time, order, low, high, spare_time, spare_order, bounds)
        return
    # Differences wrap around where times are far apart, and are right as unsigned numbers.
    base, span = np.uint64(least), np.uint64(most) - np.uint64(least)
    shift, away = np.uint64(0), False
    while shift < np.uint64(64) and span >> shift > np.uint64(0):
        if away:
            _sort_by_digit(spare_time, spare_order, 0, time, order, low, high - low, base, shift, counts)
        else:
            _sort_by_digit(time, order, low, spare_time, spare_order, 0, high - low, base, shift, counts)
        away = not away
        shift += np.uint64(_DIGIT)
    if away:
        time[low:high] = spare_time[: high - low]
        order[low:high] = spare_order[: high - low]


@jit
def _merge_runs(
    time: Ints, order: Places, low: int, high: int, spare_time: Ints, spare_order: Places, bounds: Ints
) -> None:
    """Sorts the events between two positions by merging their rising runs, for which ``bounds`` must have room."""
    runs, bounds[0] = 0, low
    for i in range(low + 1, high + 1):
        if i == high or time[i] < time[i - 1]:
            runs += 1
            bounds[runs] = i
    while runs > 1:
        merged = 0
        for pair in range(0, runs - 1, 2):
            _merge_two(time, order, bounds[pair], bounds[pair + 1], bounds[pair + 2], spare_time, spare_order)
            merged += 1
            bounds[merged] = bounds[pair + 2]
        if runs % 2:
            merged += 1
            bounds[merged] = high
        runs = merged


@jit
def _merge_two(
    time: Ints, order: Places, first: int, second: int, end: int, spare_time: Ints, spare_order: Places
) -> None:
    """Merges the rising runs from ``first`` to ``second`` and from there to ``end``, in place and stably."""
    if time[second - 1] <= time[second]:
        return
    # The events of the first run that are no later than the first event of the second run stay where they are.
    while time[first] <= time[second]:
        first += 1
    count = second - first
    for i in range(count):
        spare_time[i], spare_order[i] = time[first + i], order[first + i]
    taken, there = 0, first
    while taken < count:
        if second < end and time[second] < spare_time[taken]:
            time[there], order[there] = time[second], order[second]
            second += 1
        else:
            time[there], order[there] = spare_time[taken], spare_order[taken]
            taken += 1
        there += 1


@jit
def _sort_by_digit(
    time: Ints,
    order: Places,
    start: int,
    to_time: Ints,
    to_order: Places,
    to_start: int,
    count: int,
    base: np.uint64,
    shift: np.uint64,
    counts: Ints,
) -> None:
    """Copies ``count`` events to other arrays, sorted stably by one digit of their times since ``base``."""
    digit = np.uint64((1 << _DIGIT) - 1)
    counts[:] = 0
    for i in range(start, start + count):
        counts[np.int64(((np.uint64(time[i]) - base) >> shift) & digit) + 1] += 1
    counts[0] = to_start
    for d in range(1 << _DIGIT):
        counts[d + 1] += counts[d]
    for i in range(start, start + count):
        found = np.int64(((np.uint64(time[i]) - base) >> shift) & digit)
        p = counts[found]
        counts[found] += 1
        to_time[p], to_order[p] = time[i], order[i]
