"""Finds the matches of a chunk, one after the other.

A match binds its rows to *positions*, which are places of variables in the pattern (:mod:`cetdsl.rows.automaton`). It
is empty if it binds none. Where conditions look at the rows that are bound, :func:`_search` tries positions and takes
them back. Else the sets of :mod:`~cetdsl.kernels.rows.reach` say from which positions a match can be completed, and it
is read without going back.
"""

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

#: Why :func:`find_matches` stopped: at the end of the chunk; because there is no room for another match; because rows
#: to come decide what the next match is; because AFTER MATCH SKIP has no row to go to, or goes to the first row of the
#: match; because a condition cannot be computed; or because a single match takes too many steps.
DONE, FULL, NEEDS_MORE, NO_ROW_TO_SKIP_TO, SKIPS_TO_START, CANNOT_SAY, TOO_MANY_STEPS = range(7)
#: In place of the row after a match: there is no match; rows to come decide; a condition cannot be computed; too many
#: steps were taken.
_NONE, _UNKNOWN, _BROKEN, _ENDLESS = -2, -3, -4, -5
#: Entries of a cursor: partition, row, number of the last match in the partition, first row after all matches so far.
SEGMENT, AT_ROW, MATCHES, COVERED = range(4)


class Effort(NamedTuple):
    """Limits of the effort to find matches whose conditions depend on the rows that are bound.

    After ``patience`` rows have been taken back, the search remembers states from which no match was found, as long as
    it meets them again often enough. It gives up a match for which it has bound ``steps`` rows.
    """

    patience: int
    steps: int


class Asked(NamedTuple):
    """The request for the matches of a chunk.

    ``time`` is the time of each row; it is empty if no ``span`` limits matches. ``skip`` and ``skip_members`` are those
    of :class:`~cetdsl.ir.rows.MatchSpec`, ``unmatched`` says whether rows in no match are to be reported, and
    ``inside`` whether the first row of the chunk is not the first one of its partition. ``last_is_open`` says whether
    the last partition may have more rows. ``most`` is what :func:`~cetdsl.kernels.rows.reach.lengths_all` has found; it
    has no rows unless the longest matches are asked for.
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

    Match ``k`` has the rows ``start[k]:end[k]``, which are bound to the positions ``position[label[k]:label[k + 1]]``,
    and the ``number[k]`` in its partition. A row in no match has the number 0; an empty match has no rows.
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
    """Returns the row after the preferred match that begins at ``row``: the row itself if the match is empty.

    It returns ``_NONE`` if there is no match, and ``_UNKNOWN`` if rows to come decide. The match may begin with the
    positions of the program's list ``ways``. The sets are those of the rows from ``base`` on. The positions of the
    match are written to ``labels``.
    """
    arrow_start, arrow, ends = program.arrow_start, program.arrow, program.ends
    place, here = row, ways
    while True:
        if place == high:
            # All rows have been bound.
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
    """Does what :func:`_walk` does, for the longest match at a row; ``most`` has the lengths from row ``base`` on."""
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
            # After the last row of a partition, a match may end at a position where it may not end elsewhere.
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
        # As unsigned numbers, all differences of two times fit 64 bits.
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
    """Does what :func:`_walk` does, for a match within the span; the sets given are those without this limit."""
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
    """Whether another position may follow a position."""
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
    """Does what :func:`_walk` does, where conditions look at the rows that are bound: tries positions, takes them back.

    ``possible`` are the positions from which a match could be completed if all these conditions held, and ``most`` says
    how long such a match could be; it has no rows if the preferred match is asked for, and not the longest. ``taken``
    is work space: for each row of the match, the arrow to try next if the row is taken back. The search returns
    ``_BROKEN`` if a condition cannot be computed; the first label is then the position of this condition, or ``ACCEPT``
    if it is that of whole matches. It returns ``_ENDLESS`` if it has bound too many rows.

    A state from which no match was found is remembered. The search skips another state in which conditions see the
    same, because no match can be found from that either. If the longest match is asked for, a match from there is no
    longer than what the search has found from the first one.
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
            # No position is left to try here.
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
    """Returns the row where the search goes on after a match that is not empty; ``_NONE`` if there is no such row."""
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
    """Finds matches from the row at which the cursor stands.

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
        Where the search is, see ``SEGMENT``, ``AT_ROW``, ``MATCHES`` and ``COVERED``; it is moved on.
    found : Found
        Receives the matches. It needs room for the positions of as many rows as the longest partition has.
    conditions, memory : Conditions, Memory
        The conditions that depend on the match, if there are any, and their memory.

    Returns
    -------
    status : int
        ``DONE``, ``FULL``, ``NEEDS_MORE``, ``NO_ROW_TO_SKIP_TO``, ``SKIPS_TO_START``, ``TOO_MANY_STEPS`` or
        ``CANNOT_SAY``. With ``CANNOT_SAY``, ``found.position[0]`` is the position whose condition cannot be computed,
        or ``ACCEPT`` if it is that of whole matches.
    count : int
        How many matches and unmatched rows were written.
    """
    # Without this, counting references would take half of the time.
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
                    # Matches from a state depend on where the match begins, or on its number: a new era forgets states.
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
