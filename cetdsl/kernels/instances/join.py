"""Joins the parts of a vertex depth first: instances of parents, and events of slots, each found by an index.

A call may end because there is no room for more rows. Its state is in ``frame``, ``bound`` and ``state``, so that the
next call continues where it ended.
"""

from __future__ import annotations

import numpy as np

from cetdsl.kernels._borrow import borrowed
from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.instances.candidates import BEHIND_ALL, Board, Fits, fits_into
from cetdsl.kernels.instances.indexes import BEGIN, END, LEVEL, PLACE
from cetdsl.kernels.instances.programs import (
    AHEAD,
    APART,
    BEFORE,
    BEHIND,
    EMPTY,
    EQUAL,
    EQUAL_END,
    FITS,
    INDEXED,
    IS_PARENT,
    NARROWED,
    NARROWED_END,
    ORDER,
    ORDER_COLUMN,
    ORDER_SLOT,
    SAME,
    SLOTS,
    SLOTS_END,
    TESTS,
    TESTS_END,
    WIDTH,
    Program,
)
from cetdsl.kernels.machine.conditions import compare
from cetdsl.kernels.machine.lookups import next_holding
from cetdsl.kernels.vocabulary import Index, Ints, Places

#: The columns of ``frame``, which has a row for each step: the next candidate and the end of the candidates; the
#: position and the time from which on candidates are out of range; the value with which the tree compares; the first
#: and the last time of the bound events.
NEXT, STOP, UNTIL, LATEST, LIMIT, EARLIEST_BOUND, LATEST_BOUND, FRAME_FIELDS = range(8)
#: The entries of ``state``: the step, the key, the number of rows written, and the number of candidates tried.
DEPTH, KEY, ROWS, TRIED, STATE_FIELDS = range(5)
#: The entries of ``bounds``: the longest time from the first event to the last (-1: any), whether a match must begin
#: within the times of this chunk, and the length and slide of the windows, one of which must contain all events.
LENGTH, CLOSES, WINDOW, SLIDE = range(4)


@jit
def join(
    board: Board,
    fits: Fits,
    program: Program,
    where: Ints,
    gaps: Ints,
    items: Ints,
    keys: Ints,
    store: Places,
    rows: Places,
    frame: Ints,
    bound: Ints,
    state: Ints,
    bounds: Ints,
    most: int,
    effort: int,
) -> bool:
    """Writes the instances of a vertex into ``rows``; returns whether it stopped before all were found.

    It stops when ``most`` rows are written, or ``effort`` candidates have been tried.

    A row has the position of the event of each slot, and the first position of all. ``where`` and ``gaps`` have the
    positions, in ``items`` or ``store``, of the candidates of each step and of the events that each gap must not
    contain, and the positions in ``keys`` of the trees over candidates.
    """
    board, fits, program = borrowed(board), borrowed(fits), borrowed(program)
    time, segment, begin, end = board.time, board.segment, board.begin, board.end
    step, slots, test = program.step, program.slot, program.test
    last, width = len(step) - 1, len(bound) + 1
    length, depth, count, key, tried = bounds[LENGTH], state[DEPTH], state[ROWS], state[KEY], state[TRIED]
    while depth >= 0 and tried < effort:
        now = frame[depth]
        place = now[NEXT]
        if place >= now[STOP]:
            depth -= 1
            continue
        own = step[depth]
        if own[ORDER] >= 0:
            base = where[depth, BEGIN]
            place = base + next_holding(
                keys, where, depth, LEVEL, own[ORDER], now[LIMIT], place - base, now[STOP] - base
            )
            if place >= now[STOP]:
                depth -= 1
                continue
        now[NEXT] = place + 1
        tried += 1
        lead = _position(items, store, where[depth], own, place)
        if depth == 0:
            key = segment[lead]
            if key >= len(begin):
                continue
            first, latest = BEHIND_ALL, -BEHIND_ALL
        else:
            if lead >= now[UNTIL] or time[lead] > now[LATEST]:
                now[NEXT] = now[STOP]
                continue
            first, latest = frame[depth - 1, EARLIEST_BOUND], frame[depth - 1, LATEST_BOUND]
        agrees = True
        if own[IS_PARENT]:
            row = _row(items, where[depth], own, place)
            for n in range(own[SLOTS_END] - own[SLOTS]):
                event = np.int64(store[row + n])
                slot = slots[own[SLOTS] + n, 0]
                if slots[own[SLOTS] + n, 1]:
                    agrees = agrees and bound[slot] == event
                else:
                    bound[slot] = event
                    first, latest = min(first, time[event]), max(latest, time[event])
        else:
            bound[slots[own[SLOTS], 0]] = lead
            first, latest = min(first, time[lead]), max(latest, time[lead])
        if not agrees or first < begin[key] or (length >= 0 and latest - first > length):
            continue
        passed = True
        for number in range(own[TESTS], own[TESTS_END]):
            if not _passes(board, fits, program, test[number], gaps, items, bound, key, first, latest, length):
                passed = False
                break
        if not passed:
            continue
        if depth < last:
            now[EARLIEST_BOUND], now[LATEST_BOUND] = first, latest
            depth += 1
            _open(board, program, where[depth], items, store, bound, frame, depth, key, length)
            continue
        if bounds[CLOSES] and not _is_wanted(first, latest, end[key], bounds):
            continue
        row = count * width
        lowest = bound[0]
        for slot in range(width - 1):
            rows[row + slot] = bound[slot]
            lowest = min(lowest, bound[slot])
        rows[row + width - 1] = lowest
        count += 1
        if count == most:
            break
    state[DEPTH], state[ROWS], state[KEY], state[TRIED] = depth, count, key, tried
    return bool(depth >= 0)


@inlined
def _row(items: Ints, where: Ints, own: Ints, place: Index) -> Index:
    """Returns where the row of a parent's instance begins in ``store``."""
    instance = items[place] if own[INDEXED] else place
    return np.int64(where[PLACE] + instance * own[WIDTH])


@inlined
def _position(items: Ints, store: Places, where: Ints, own: Ints, place: Index) -> Index:
    """The position by which candidates are in order: that of the event, or of the first event of an instance."""
    if own[IS_PARENT]:
        return np.int64(store[_row(items, where, own, place) + own[WIDTH] - 1])
    return np.int64(items[place])


@jit
def _is_wanted(first: int, latest: int, end: int, bounds: Ints) -> bool:
    """Whether a match begins within the times of this chunk, and lies in a window if windows slide."""
    if first >= end:
        return False
    slide = bounds[SLIDE]
    return bool(slide == 0 or latest < first // slide * slide + bounds[WINDOW])


@jit
def _open(
    board: Board,
    program: Program,
    where: Ints,
    items: Ints,
    store: Places,
    bound: Ints,
    frame: Ints,
    depth: int,
    key: int,
    length: int,
) -> None:
    """Finds the range of candidates of a step."""
    board, program = borrowed(board), borrowed(program)
    now, own = frame[depth], program.step[depth]
    earliest, latest = board.begin[key], BEHIND_ALL
    if length >= 0:
        earliest = max(earliest, frame[depth - 1, LATEST_BOUND] - length)
        latest = frame[depth - 1, EARLIEST_BOUND] + length
    lowest, until = board.low[key], board.high[key]
    for row in range(own[NARROWED], own[NARROWED_END]):
        event, how = bound[program.narrow[row, 0]], program.narrow[row, 1]
        if how == BEHIND:
            lowest = max(lowest, board.after[event])
        elif how == AHEAD:
            until = min(until, board.first[event])
        elif how == SAME:
            lowest, until = max(lowest, event), min(until, event + 1)
    now[NEXT], now[STOP], now[UNTIL], now[LATEST] = 0, 0, until, latest
    for row in range(own[EQUAL], own[EQUAL_END]):
        if not board.valid[program.equal[row, 3], bound[program.equal[row, 2]]]:
            return
    if own[ORDER] >= 0:
        event = bound[own[ORDER_SLOT]]
        if not board.valid[own[ORDER_COLUMN], event]:
            return
        now[LIMIT] = board.codes[own[ORDER_COLUMN], event]
    low, high = where[BEGIN], where[END]
    while low < high:
        middle = (low + high) // 2
        lead = _position(items, store, where, own, middle)
        side = _side(board, program, where, items, store, own, middle, lead, bound)
        behind = board.segment[lead] > key or (lead >= lowest and board.time[lead] >= earliest)
        if side > 0 or (side == 0 and behind):
            high = middle
        else:
            low = middle + 1
    now[NEXT], now[STOP] = low, where[END]
    if own[INDEXED]:
        # Behind the candidates with these values, or in range, the tree covers others, too.
        high = where[END]
        while low < high:
            middle = (low + high) // 2
            lead = _position(items, store, where, own, middle)
            side = _side(board, program, where, items, store, own, middle, lead, bound)
            if side > 0 or (side == 0 and (lead >= until or board.time[lead] > latest)):
                high = middle
            else:
                low = middle + 1
        now[STOP] = low


@inlined
def _side(
    board: Board,
    program: Program,
    where: Ints,
    items: Ints,
    store: Places,
    own: Ints,
    place: Index,
    lead: Index,
    bound: Ints,
) -> int:
    """Compares a candidate's values with those that they must equal: -1 if they are less, 0 if equal, else 1."""
    for row in range(own[EQUAL], own[EQUAL_END]):
        part, column, slot, other = program.equal[row]
        event = np.int64(store[_row(items, where, own, place) + part]) if own[IS_PARENT] else lead
        its, value = board.codes[column, event], board.codes[other, bound[slot]]
        if its != value:
            return 1 if its > value else -1
    return 0


@jit
def _passes(
    board: Board,
    fits: Fits,
    program: Program,
    test: Ints,
    gaps: Ints,
    items: Ints,
    bound: Ints,
    key: int,
    first: int,
    latest: int,
    length: int,
) -> bool:
    """Whether a test holds of the bound events."""
    board, fits, program = borrowed(board), borrowed(fits), borrowed(program)
    op, column, other_column = test[0], test[2], test[4]
    one, other = bound[test[1]], bound[test[3]]
    if op == BEFORE:
        return bool(one < board.first[other])
    if op == APART:
        return bool(board.first[one] != board.first[other])
    if op == FITS:
        return fits_into(board.tests, board.kind, one, column, fits.start, fits.kind, fits.free, fits.asked)
    if op == EMPTY:
        return _is_empty(board, program, column, gaps[column], items, bound, key, first, latest, length)
    if not (board.valid[column, one] and board.valid[other_column, other]):
        return False
    return compare(op, board.codes[column, one], board.codes[other_column, other])


@jit
def _is_empty(
    board: Board,
    program: Program,
    number: int,
    within: Ints,
    items: Ints,
    bound: Ints,
    key: int,
    first: int,
    latest: int,
    length: int,
) -> bool:
    """Whether none of the events ``within`` lies in a gap."""
    board, program = borrowed(board), borrowed(program)
    begin, middle, end = program.gap[number]
    lowest, until = board.low[key], board.high[key]
    earliest, last = -BEHIND_ALL, BEHIND_ALL
    if begin == middle and length >= 0:
        earliest = latest - length
    if middle == end and length >= 0:
        last = first + length
    for row in range(begin, middle):
        lowest = max(lowest, board.after[bound[program.gap_slot[row]]])
    for row in range(middle, end):
        until = min(until, board.first[bound[program.gap_slot[row]]])
    low, high = within[BEGIN], within[END]
    while low < high:
        half = (low + high) // 2
        event = items[half]
        if board.segment[event] > key or (event >= lowest and board.time[event] >= earliest):
            high = half
        else:
            low = half + 1
    return bool(low >= within[END] or items[low] >= until or board.time[items[low]] > last)
