"""The events of a chunk that fit into each kind of slot, gathered once for all queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cetdsl.ir.slots import ANY_KIND, TESTS_IN_WORD, Fit
from cetdsl.kernels._jit import jit
from cetdsl.kernels.vocabulary import Bools, Events, Ints, Slices

#: Behind all times.
BEHIND_ALL = 2**62


class Board(NamedTuple):
    """The events of a chunk, and the keys whose matches are listed in this chunk."""

    time: Ints
    #: For each event, the first event of its instant, the first event behind its instant, and its key.
    first: Ints
    after: Ints
    segment: Ints
    kind: Ints
    #: The results of tests as bits, TESTS_IN_WORD of them in each row; shape (words, events).
    tests: Ints
    codes: Ints
    valid: Bools
    #: For each key, the range of its events, and the range of times in which the matches listed in this chunk begin.
    low: Ints
    high: Ints
    begin: Ints
    end: Ints


class Fits(NamedTuple):
    """The alternative conditions to fit into each class of slots: those of class ``c`` are ``start[c]:start[c + 1]``.

    A *class* is a set of slots with equal conditions.
    """

    start: Ints
    kind: Ints
    #: Whether the kind alone decides; else the tests of which one must hold, as bits; shape (fits, words).
    free: Bools
    asked: Ints


def lay_out_fits(classes: Sequence[tuple[Fit, ...]], words: int) -> Fits:
    """Lays out classes of slots."""
    flat = [fit for fits in classes for fit in fits]
    start = np.cumsum([0, *map(len, classes)]).astype(np.int64)
    asked = np.zeros((len(flat), words), dtype=np.int64)
    for row, fit in enumerate(flat):
        for test in fit.tests:
            asked[row, test // TESTS_IN_WORD] |= 1 << test % TESTS_IN_WORD
    kind = np.array([fit.kind for fit in flat], dtype=np.int64)
    return Fits(start, kind, np.array([not fit.tests for fit in flat], dtype=np.bool_), asked)


def make_board(events: Events, kind: Ints, tests: Ints, slices: Slices, bounds: tuple[Ints, Ints]) -> Board:
    """Returns a chunk's board, where each slice is a key."""
    first, after, segment = _places(events.instant, events.segment_start)
    begin = _where_any_begins(events.time, slices.low, slices.high, *bounds)
    none = np.zeros((1, len(kind)), dtype=np.int64)
    return Board(
        events.time,
        first,
        after,
        segment,
        kind,
        tests if len(tests) else none,
        events.codes,
        events.valid,
        slices.low,
        slices.high,
        begin,
        bounds[1],
    )


@jit
def _where_any_begins(time: Ints, low: Ints, high: Ints, begin: Ints, end: Ints) -> Ints:
    """Returns the times from which matches may begin; for keys without an event to begin with, it is BEHIND_ALL.

    The chunk has the events of such a key only because matches of the previous time bucket may end with them.
    """
    found = begin.copy()
    for key in range(len(low)):
        first = low[key] + np.searchsorted(time[low[key] : high[key]], begin[key])
        if first >= high[key] or time[first] >= end[key]:
            found[key] = BEHIND_ALL
    return found


@jit
def _places(instant: Ints, segment_start: Ints) -> tuple[Ints, Ints, Ints]:
    count = len(instant)
    first, after, segment = np.empty((3, count), dtype=np.int64)
    for i in range(count):
        first[i] = first[i - 1] if i > 0 and instant[i] == instant[i - 1] else i
    for i in range(count - 1, -1, -1):
        after[i] = after[i + 1] if i < count - 1 and instant[i] == instant[i + 1] else i + 1
    for s in range(len(segment_start) - 1):
        segment[segment_start[s] : segment_start[s + 1]] = s
    return first, after, segment


def gather(board: Board, fits: Fits) -> tuple[Ints, Ints]:
    """Returns the events of all classes, ascending in each, and where each class begins."""
    kinds = int(fits.kind.max(initial=-1)) + 1
    order = np.argsort(board.kind, kind="stable")
    start = np.searchsorted(board.kind[order], np.arange(kinds + 1))
    return _gather(order, start, board.tests, fits.start, fits.kind, fits.free, fits.asked)


@jit
def holds(tests: Ints, event: int, free: bool, asked: Ints) -> bool:
    """Whether one of the tests in ``asked`` holds for an event, or no test is needed."""
    found = free
    for word in range(len(asked)):
        found = found or (tests[word, event] & asked[word]) != 0
    return found


@jit
def fits_into(
    tests: Ints, kinds: Ints, event: int, number: int, start: Ints, kind: Ints, free: Bools, asked: Ints
) -> bool:
    """Whether an event fits into a class of slots."""
    for fit in range(start[number], start[number + 1]):
        if (kind[fit] == ANY_KIND or kind[fit] == kinds[event]) and holds(tests, event, free[fit], asked[fit]):
            return True
    return False


@jit
def _gather(
    order: Ints, kind_start: Ints, tests: Ints, start: Ints, kind: Ints, free: Bools, asked: Ints
) -> tuple[Ints, Ints]:
    classes, everything = len(start) - 1, len(order)
    room = 0
    for fit in range(len(kind)):
        room += everything if kind[fit] == ANY_KIND else kind_start[kind[fit] + 1] - kind_start[kind[fit]]
    items = np.empty(room, dtype=np.int64)
    where = np.zeros(classes + 1, dtype=np.int64)
    count = 0
    for number in range(classes):
        begin = count
        for fit in range(start[number], start[number + 1]):
            if kind[fit] == ANY_KIND:
                for event in range(everything):
                    if holds(tests, event, free[fit], asked[fit]):
                        items[count] = event
                        count += 1
                continue
            for place in range(kind_start[kind[fit]], kind_start[kind[fit] + 1]):
                if holds(tests, order[place], free[fit], asked[fit]):
                    items[count] = order[place]
                    count += 1
        if start[number + 1] - start[number] > 1:
            own = np.sort(items[begin:count])
            count = begin
            for event in own:
                if count == begin or items[count - 1] != event:
                    items[count] = event
                    count += 1
        where[number + 1] = count
    return items[:count].copy(), where
