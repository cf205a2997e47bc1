"""Finds the matches of a chunk, one after the other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cetdsl.ir.rows import ACCEPT, NEXT_ROW, NOWHERE, PAST_LAST, TO_FIRST
from cetdsl.kernels._borrow import borrowed
from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.rows.conditions import (
    BACKTRACKED,
    BEGIN,
    CANNOT,
    ERA,
    FAILS,
    HOLDS,
    NUMBER_OF_MATCH,
    Conditions,
    Memory,
    bind,
    is_fruitless,
    remember,
    remembers,
    says,
    take_back,
)
from cetdsl.kernels.rows.program import Program, Words
from cetdsl.kernels.rows.reach import COMPLETE, CUT, NO_MATCH, NOT_KNOWN, OPEN, Lengths, has, lengths, reach
from cetdsl.kernels.vocabulary import Bools, Index, Ints, Places

#: Why :func:`find_matches` stopped: at the end of the chunk; because there is no room for another match; because what
#: the match is depends on rows to come; because AFTER MATCH SKIP has no row to go to, or
#: goes to the match's first; because a condition cannot be computed; or because a single match takes too many steps.
DONE, FULL, NEEDS_MORE, NO_ROW_TO_SKIP_TO, SKIPS_TO_START, CANNOT_SAY, TOO_MANY_STEPS = range(7)
#: What a match is, where it is none yet; the last two if a condition cannot be computed, or too much was tried.
_NONE, _UNKNOWN, _BROKEN, _ENDLESS = -2, -3, -4, -5
#: The places of a cursor: partition, row, number of the last match in its partition, row behind all matches so far.
SEGMENT, AT_ROW, MATCHES, COVERED = range(4)


class Effort(NamedTuple):
    """Limits the effort of finding matches whose conditions depend on the rows that are bound.

    When more than ``patience`` rows have been taken back, states from which no match was found are remembered as long
    as that helps, for it takes time by itself. After ``steps`` rows that were bound for one match it is given up.
    """

    patience: int
    steps: int


class Asked(NamedTuple):
    """The request for the matches of a chunk.

    ``time`` is of the rows, and has none if nothing limits matches to ``span``. ``skip`` and ``skip_members`` are those
    of :class:`~cetdsl.ir.rows.MatchSpec`, ``unmatched`` says whether rows in no match are to be reported, and
    ``inside`` whether the first row is not its partition's first. ``most`` is what
    :func:`~cetdsl.kernels.rows.reach.lengths_all` has found; it has no rows unless the longest matches are asked for.
    """

    time: Ints
    span: int
    skip: int
    skip_members: Bools
    unmatched: bool
    inside: bool
    last_is_open: bool
    most: Lengths
    effort: Effort


class Found(NamedTuple):
    """Matches, and rows in no match, in order.

    The rows of match ``k`` are those from ``start[k]`` to ``end[k]``, and the positions that they are bound to are
    ``position[label[k]:label[k + 1]]``. A row in no match has the number 0, an empty match no rows.
    """

    start: Ints
    end: Ints
    number: Ints
    label: Ints
    position: Places


@jit
def _ends_anyway(program: Program, position: Index) -> bool:
    """Whether a match ends at a position whatever row comes next."""
    first = program.arrow_start[position]
    return bool(first < program.arrow_start[position + 1] and program.arrow[first] == ACCEPT)


@inlined
def _walk(
    program: Program,
    ways: Index,
    sure: Words,
    possible: Words,
    base: Index,
    row: Index,
    high: Index,
    end: int,
    labels: Places,
) -> Index:
    """Returns the row behind the preferred match at a row: the row itself if it is empty.

    It may begin as list ``ways`` of the program says. It is ``_NONE`` if there is none, and ``_UNKNOWN`` if more rows
    must come. The sets are those of the rows from ``base``; the positions of the match are written to ``labels``.
    """
    arrow_start, arrow, ends = program.arrow_start, program.arrow, program.ends
    place, here = row, ways
    while True:
        if place == high:
            # The last row that there is has been bound.
            if end == COMPLETE:
                return place if ends[here] else _NONE
            if end == CUT:
                return place
            return place if _ends_anyway(program, here) else _UNKNOWN
        chosen = _NONE
        for number in range(arrow_start[here], arrow_start[here + 1]):
            there = arrow[number]
            if there == ACCEPT:
                return place
            if has(sure, place - base, there):
                chosen = there
                break
            if has(possible, place - base, there):
                return _UNKNOWN
        if chosen == _NONE:
            return _NONE
        labels[place - row] = chosen
        here = chosen
        place += 1


@jit
def _walk_longest(program: Program, ways: Index, most: Lengths, base: Index, row: Index, labels: Places) -> Index:
    """Walks like :func:`_walk`, for the longest match at a row; ``most`` has the lengths from row ``base`` on."""
    arrow_start, arrow = program.arrow_start, program.arrow
    place, here = row, ways
    while True:
        chosen, best = _NONE, NO_MATCH
        for number in range(arrow_start[here], arrow_start[here + 1]):
            there = arrow[number]
            length = 0 if there == ACCEPT else int(most[place - base, there]) if place - base < len(most) else NO_MATCH
            if length > best:
                chosen, best = there, length
        if best == NOT_KNOWN:
            return _UNKNOWN
        if chosen in (_NONE, ACCEPT):
            # Behind the last row, a match may end that may end nowhere else.
            return place if chosen == ACCEPT or place > row else _NONE
        labels[place - row] = chosen
        here = chosen
        place += 1


@jit
def _end_of_span(time: Ints, row: Index, high: Index, span: int) -> Index:
    """Returns the first row, up to ``high``, that is more than ``span`` later than a row."""
    low = row
    while low < high:
        middle = (low + high) // 2
        # Without a sign, the length between the ends of BIGINT fits, too.
        if time[middle] > time[row] and np.uint64(time[middle] - time[row]) > np.uint64(span):
            high = middle
        else:
            low = middle + 1
    return low


@jit
def _limited(
    program: Program,
    tests: Ints,
    asked: Asked,
    ways: Index,
    sure: Words,
    possible: Words,
    row: Index,
    high: Index,
    end: int,
    labels: Places,
) -> Index:
    """Walks like :func:`_walk`, for a match within the span; the sets are those of matches without a limit."""
    arrow_start, arrow = program.arrow_start, program.arrow
    hopeless = True
    for number in range(arrow_start[ways], arrow_start[ways + 1]):
        there = arrow[number]
        if there == ACCEPT or has(possible, row, there):
            hopeless = False
    if hopeless:
        return _NONE
    limit = _end_of_span(asked.time, row, high, asked.span)
    if limit == high and end == OPEN:
        return _UNKNOWN
    end_here = COMPLETE if limit == high else CUT
    if len(asked.most):
        most = np.empty((limit - row, asked.most.shape[1]), dtype=np.int32)
        lengths(program, tests, row, limit, end_here, most)
        return _walk_longest(program, ways, most, row, row, labels)
    own = np.empty((limit - row, sure.shape[1]), dtype=np.uint64)
    maybe = np.empty((limit - row, sure.shape[1]), dtype=np.uint64)
    reach(program, tests, row, limit, end_here, own, maybe)
    return _walk(program, ways, own, maybe, row, row, limit, end_here, labels)


@jit
def _has_more(program: Program, position: Index) -> bool:
    """Whether another row may be bound behind a position."""
    for number in range(program.arrow_start[position], program.arrow_start[position + 1]):
        if program.arrow[number] != ACCEPT:
            return True
    return False


@inlined
def _search(
    program: Program,
    conditions: Conditions,
    memory: Memory,
    ways: Index,
    possible: Words,
    most: Lengths,
    effort: Effort,
    row: Index,
    high: Index,
    end: int,
    labels: Places,
    taken: Ints,
) -> Index:
    """Walks like :func:`_walk`, with conditions on the rows that are bound: tries ways and takes them back.

    ``possible`` are the positions from which a match could be completed if all these conditions held, ``most`` how long
    such a match could be (without rows: the preferred match is asked for, and not the longest), and ``taken`` has room
    for where the ways behind each row of the match are continued. If a condition cannot be computed, ``_BROKEN`` is
    returned, with its position, or ``ACCEPT`` if it is that of whole matches, as the only label; ``_ENDLESS`` if too
    many rows were bound.

    Where nothing goes on from a state, nothing will from another one in which conditions see the same. If the longest
    match is asked for, what goes on from it is no longer than what was found from the first one.
    """
    arrow_start, arrow, variable = program.arrow_start, program.arrow, program.variable
    whole = len(program.place_start) - 1
    is_longest, is_judged = len(most) > 0, conditions.step_start[whole] < conditions.step_start[whole + 1]
    best: Index = NO_MATCH
    best_labels = labels[:0].copy()
    remembering = remembers(memory, effort.patience)
    seen = np.empty(memory.fruitless.shape[1], dtype=np.int64)
    steps = 0
    memory.many[:] = 0
    place, here = row, ways
    number = arrow_start[ways]
    while True:
        there, ends = _NONE, False
        if place == high and end == OPEN:
            if not (is_longest or is_judged):
                return place if _ends_anyway(program, here) else _UNKNOWN
            if _has_more(program, here) or not program.accepts[here]:
                return _UNKNOWN
            ends = True
        elif place == high:
            ends = program.ends[here] if end == COMPLETE else program.accepts[here]
        while not ends and place < high and number < arrow_start[here + 1]:
            there = arrow[number]
            number += 1
            if there == ACCEPT:
                ends = True
            elif has(possible, place, there) and not (is_longest and place - row + most[place, there] <= best):
                break
            else:
                there = _NONE
        if ends:
            answer = says(conditions, memory, whole, place - 1) if is_judged else HOLDS
            if answer == CANNOT:
                labels[0] = ACCEPT
                return _BROKEN
            if answer == HOLDS and not is_longest:
                return place
            if answer == HOLDS and place - row > best:
                best, best_labels = place - row, labels[: place - row].copy()
            if place < high:
                continue
            there = _NONE
        if there == _NONE:
            # Nothing goes on from here.
            if place == row:
                labels[: len(best_labels)] = best_labels
                return _NONE if best == NO_MATCH else row + best
            if remembering:
                remember(conditions, memory, place, here, seen)
            place -= 1
            take_back(conditions, memory, variable[here])
            memory.counters[BACKTRACKED] += 1
            remembering = remembers(memory, effort.patience)
            number = taken[place - row]
            here = labels[place - row - 1] if place > row else ways
            continue
        steps += 1
        if steps > effort.steps:
            return _ENDLESS
        bind(conditions, memory, variable[there], place)
        answer = says(conditions, memory, variable[there], place)
        if answer == CANNOT:
            labels[0] = there
            return _BROKEN
        if answer == FAILS or (remembering and is_fruitless(conditions, memory, place + 1, there, seen)):
            take_back(conditions, memory, variable[there])
            continue
        labels[place - row] = there
        taken[place - row] = number
        here = there
        number = arrow_start[here]
        place += 1


@inlined
def _next_row(program: Program, asked: Asked, row: Index, end: Index, labels: Places) -> Index:
    """Returns where the search goes on behind a match that is not empty; ``_NONE`` if there is no row to go to."""
    if asked.skip == PAST_LAST:
        return end
    if asked.skip == NEXT_ROW:
        return row + 1
    target: Index = _NONE
    for number in range(end - row):
        if asked.skip_members[program.variable[labels[number]]]:
            target = row + number
            if asked.skip == TO_FIRST:
                break
    return target


@jit
def find_matches(
    program: Program,
    tests: Ints,
    asked: Asked,
    segment_start: Ints,
    sure: Words,
    possible: Words,
    cursor: Ints,
    found: Found,
    conditions: Conditions,
    memory: Memory,
) -> tuple[int, int]:
    """Goes on from where the cursor stands.

    Parameters
    ----------
    program : Program
    tests : Ints
        The bits of the tests that hold of each row, shape (words, rows).
    asked : Asked
    segment_start : Ints
        Where each partition begins, and the number of rows.
    sure, possible : Words
        What :func:`~cetdsl.kernels.rows.reach.reach_all` has found.
    cursor : Ints
        By ``SEGMENT``, ``AT_ROW``, ``MATCHES`` and ``COVERED``; moved on.
    found : Found
        Room for as many matches as there are rows, and for the positions of as many rows as a partition has at least.
    conditions, memory : Conditions, Memory
        What conditions ask that depend on the match, if any does.

    Returns
    -------
    status : int
        ``DONE``, ``FULL``, ``NEEDS_MORE``, ``NO_ROW_TO_SKIP_TO``, ``SKIPS_TO_START``, ``TOO_MANY_STEPS`` or
        ``CANNOT_SAY``; in the last case the position whose condition cannot be computed is the first one found:
        ``ACCEPT`` if it is that of whole matches.
    count : int
        How many matches and unmatched rows were written.
    """
    # Half of the time would go into counting references.
    program, asked, found = borrowed(program), borrowed(asked), borrowed(found)
    conditions, memory = borrowed(conditions), borrowed(memory)
    tests, sure, possible, cursor = borrowed(tests), borrowed(sure), borrowed(possible), borrowed(cursor)
    count, used = 0, 0
    many = len(program.variable)
    last = len(segment_start) - 2
    limited, depends = len(asked.time) > 0, len(conditions.steps) > 0
    taken = np.empty(segment_start[-1] if depends else 0, dtype=np.int64)
    found.label[0] = 0
    while cursor[SEGMENT] <= last:
        segment = cursor[SEGMENT]
        low, high = segment_start[segment], segment_start[segment + 1]
        end = OPEN if segment == last and asked.last_is_open else COMPLETE
        row = max(cursor[AT_ROW], low)
        if asked.skip == NOWHERE and cursor[MATCHES] > 0:
            row = high
        while row < high:
            if used + high - row > len(found.position) or count == len(found.start):
                cursor[AT_ROW] = row
                return FULL, count
            at_start = row == low and not (segment == 0 and asked.inside)
            ways = many + 1 if at_start else many
            labels = found.position[used:]
            if depends:
                limit = _end_of_span(asked.time, row, high, asked.span) if limited else high
                until = end if limit == high else CUT
                if limited or len(asked.most) or conditions.counts_matches:
                    # What goes on from a state depends on where the match begins, or which one it is.
                    memory.counters[ERA] += 1
                memory.counters[BEGIN], memory.counters[NUMBER_OF_MATCH] = row, cursor[MATCHES] + 1
                behind = _search(
                    program,
                    conditions,
                    memory,
                    ways,
                    possible,
                    asked.most,
                    asked.effort,
                    row,
                    limit,
                    until,
                    labels,
                    taken,
                )
            elif limited:
                behind = _limited(program, tests, asked, ways, sure, possible, row, high, end, labels)
            elif len(asked.most):
                behind = _walk_longest(program, ways, asked.most[:high], 0, row, labels)
            else:
                behind = _walk(program, ways, sure, possible, 0, row, high, end, labels)
            if behind == _UNKNOWN:
                cursor[AT_ROW] = row
                return NEEDS_MORE, count
            if behind == _BROKEN:
                found.position[0] = labels[0]
                return CANNOT_SAY, count
            if behind == _ENDLESS:
                cursor[AT_ROW] = row
                return TOO_MANY_STEPS, count
            going_on: Index = row + 1
            if behind != _NONE:
                cursor[MATCHES] += 1
                if behind > row:
                    going_on = high if asked.skip == NOWHERE else _next_row(program, asked, row, behind, labels)
                    if going_on in (_NONE, row):
                        return (NO_ROW_TO_SKIP_TO if going_on == _NONE else SKIPS_TO_START), count
                    used += behind - row
                    cursor[COVERED] = max(cursor[COVERED], behind)
                elif asked.skip == NOWHERE:
                    going_on = high
            if behind != _NONE or (asked.unmatched and row >= cursor[COVERED]):
                found.start[count] = row
                found.end[count] = max(behind, row)
                found.number[count] = cursor[MATCHES] if behind != _NONE else 0
                count += 1
                found.label[count] = used
            row = going_on
            cursor[AT_ROW] = row
        if end == OPEN:
            return DONE, count
        cursor[SEGMENT] = segment + 1
        cursor[AT_ROW], cursor[MATCHES], cursor[COVERED] = high, 0, high
    return DONE, count
