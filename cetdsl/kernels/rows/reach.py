"""Finds, from the last row to the first, the positions from which a match can be completed.

A *position* is a place of a variable in the pattern (:mod:`cetdsl.rows.automaton`). Once these sets are known, a match
is read from its first row to its last without going back: at each row, the most preferred position from which the match
can be completed is the right one. So the time is the number of rows times that of the positions that they can be bound
to, whatever the pattern.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cetdsl.ir.rows import ACCEPT
from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.rows.program import WORD, Program, Tables, Words
from cetdsl.kernels.vocabulary import Index, Ints

#: How some rows end: with their partition; before it, because WITHIN allows a match no later row; or not yet, because
#: more rows may come.
COMPLETE, CUT, OPEN = range(3)
#: In place of a match's number of rows: none can be completed; or rows to come decide.
NO_MATCH, NOT_KNOWN = -1, 1 << 30

Lengths = NDArray[np.int32]


@inlined
def has(sets: Words, row: Index, position: Index) -> bool:
    """Whether a position is in the set of a row."""
    found: bool = (sets[row, position // WORD] >> np.uint64(position % WORD)) & np.uint64(1) != 0
    return found


@inlined
def _meet(sets: Words, row: Index, others: Words, position: Index) -> bool:
    for word in range(sets.shape[1]):  # noqa: SIM110 - Numba compiles no generators
        if sets[row, word] & others[position, word]:
            return True
    return False


@inlined
def _looked_up(table: Words, word: np.uint64) -> np.uint64:
    """Returns the union of the sets that a table has for the bytes of a word."""
    found = np.uint64(0)
    for byte in range(len(table)):
        found |= table[byte, (word >> np.uint64(8 * byte)) & np.uint64(255)]
    return found


@inlined
def _reach_by_tables(
    tables: Tables, tests: Ints, low: Index, high: Index, end: int, sure: Words, possible: Words
) -> None:
    """Does what :func:`reach` does, with tables: a step from one row to the one before it takes a few look-ups."""
    last = high - low - 1
    surely, maybe = np.uint64(0), np.uint64(0)
    for row in range(last, -1, -1):
        here = tables.always
        if len(tests):
            here |= _looked_up(tables.passing, np.uint64(tests[0, low + row]))
        if row == last:
            surely = here & (tables.ending if end == COMPLETE else tables.accepting)
            maybe = surely | (here & tables.leading) if end == OPEN else surely
        else:
            known = maybe == surely
            surely = here & (tables.accepting | _looked_up(tables.before, surely))
            maybe = surely if known else here & (tables.accepting | _looked_up(tables.before, maybe))
        sure[row, 0], possible[row, 0] = surely, maybe


@jit
def reach(program: Program, tests: Ints, low: Index, high: Index, end: int, sure: Words, possible: Words) -> None:
    """Finds, for each of the rows ``low:high``, the positions that it can have in some match.

    Parameters
    ----------
    program : Program
    tests : Ints
        The bits of the tests that hold of each row, shape (words, rows).
    low, high : int
        Consecutive rows of one partition.
    end : int
        ``COMPLETE``, ``CUT`` or ``OPEN``.
    sure, possible : Words
        The results, of shape (rows, words), written from row 0 on: the positions from which a match can be completed
        with the rows that are there, and those from which it can be completed with these or with rows to come. They
        differ only if the rows are ``OPEN``.
    """
    if len(program.tables.before):
        _reach_by_tables(program.tables, tests, low, high, end, sure, possible)
        return
    place_start, place, behind = program.place_start, program.place, program.behind
    accepts, ends, arrow_start = program.accepts, program.ends, program.arrow_start
    test_word, test_bit = program.test_word, program.test_bit
    last = high - low - 1
    for row in range(last, -1, -1):
        sure[row] = 0
        possible[row] = 0
        for variable in range(len(test_word)):
            word = test_word[variable]
            if word >= 0 and (tests[word, low + row] >> test_bit[variable]) & 1 == 0:
                continue
            for number in range(place_start[variable], place_start[variable + 1]):
                position = place[number]
                if row == last:
                    surely = ends[position] if end == COMPLETE else accepts[position]
                    goes_on = ends[position] or arrow_start[position] < arrow_start[position + 1]
                    maybe = surely or (end == OPEN and goes_on)
                else:
                    surely = accepts[position] or _meet(sure, row + 1, behind, position)
                    maybe = surely or (end == OPEN and _meet(possible, row + 1, behind, position))
                bit = np.uint64(1) << np.uint64(position % WORD)
                if surely:
                    sure[row, position // WORD] |= bit
                if maybe:
                    possible[row, position // WORD] |= bit


@jit
def reach_all(
    program: Program, tests: Ints, segment_start: Ints, last_is_open: bool, sure: Words, possible: Words
) -> None:
    """Calls :func:`reach` for all partitions of a chunk."""
    last = len(segment_start) - 2
    for segment in range(last + 1):
        low, high = segment_start[segment], segment_start[segment + 1]
        end = OPEN if segment == last and last_is_open else COMPLETE
        reach(program, tests, low, high, end, sure[low:high], possible[low:high])


@jit
def lengths(program: Program, tests: Ints, low: Index, high: Index, end: int, found: Lengths) -> None:
    """Finds, for each of the rows ``low:high``, how many rows a match can have from it on.

    Parameters
    ----------
    program, tests, low, high, end
        Those of :func:`reach`.
    found : Lengths
        The result, of shape (rows, positions), written from row 0 on: the most rows, from this one on, of a match that
        binds it to each position; ``NO_MATCH`` if there is none, and ``NOT_KNOWN`` if rows to come may add to it.
    """
    place_start, place, arrow_start, arrow = program.place_start, program.place, program.arrow_start, program.arrow
    accepts, ends, test_word, test_bit = program.accepts, program.ends, program.test_word, program.test_bit
    last = high - low - 1
    for row in range(last, -1, -1):
        found[row] = NO_MATCH
        for variable in range(len(test_word)):
            word = test_word[variable]
            if word >= 0 and (tests[word, low + row] >> test_bit[variable]) & 1 == 0:
                continue
            for number in range(place_start[variable], place_start[variable + 1]):
                position = place[number]
                stops = ends[position] if row == last and end == COMPLETE else accepts[position]
                most = 1 if stops else NO_MATCH
                if row == last and end == OPEN and ends[position] and not stops:
                    most = NOT_KNOWN
                for way in range(arrow_start[position], arrow_start[position + 1]):
                    there = arrow[way]
                    if there == ACCEPT:
                        continue
                    if row < last:
                        if found[row + 1, there] != NO_MATCH:
                            most = max(most, min(found[row + 1, there] + 1, NOT_KNOWN))
                    elif end == OPEN:
                        most = NOT_KNOWN
                found[row, position] = most


@jit
def lengths_all(program: Program, tests: Ints, segment_start: Ints, last_is_open: bool, found: Lengths) -> None:
    """Calls :func:`lengths` for all partitions of a chunk."""
    last = len(segment_start) - 2
    for segment in range(last + 1):
        low, high = segment_start[segment], segment_start[segment + 1]
        end = OPEN if segment == last and last_is_open else COMPLETE
        lengths(program, tests, low, high, end, found[low:high])
