"""The positions of a row pattern (:mod:`cetdsl.rows.automaton`) as arrays.

A *test* is a condition that has been evaluated for each row before; its answers come as bits of words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cetdsl.ir.rows import ACCEPT, Arrows
from cetdsl.ir.slots import TESTS_IN_WORD
from cetdsl.kernels.vocabulary import Bools, Ints

Words = NDArray[np.uint64]
#: A set of positions is words of so many bits, one bit for each position.
WORD = 64


class Tables(NamedTuple):
    """Tables for the step from a row to the one before it; empty unless sets and tests fit a word each.

    A table has a line for each byte of a word, and in it a set of positions for each value of that byte. The union over
    the bytes is what the table says of the word.
    """

    #: The positions whose tests hold of a row, by the word of its tests; and the positions without a test.
    passing: Words
    always: np.uint64
    #: The positions that may come right before some position of a set, by the word of the set.
    before: Words
    #: The positions at which a match may end; those at which it may end at the last row of its partition; and the
    #: positions that are among these or that another position may follow.
    accepting: np.uint64
    ending: np.uint64
    leading: np.uint64


class Program(NamedTuple):
    """The ``m`` positions of a pattern; sets of them are bits of as many words as needed."""

    #: Position ``p`` may be followed by ``arrow[arrow_start[p]:arrow_start[p + 1]]``, the preferred one first. After
    #: the lists of all positions come two more: the positions with which a match may begin inside of a partition, and
    #: those with which it may begin at its first row.
    arrow_start: Ints
    arrow: Ints
    #: The positions that may follow each position, as sets; shape (m, words).
    behind: Words
    #: Whether a match may end at each position, and whether it may end there at the last row of its partition.
    accepts: Bools
    ends: Bools
    #: The positions of variable ``v`` are ``place[place_start[v]:place_start[v + 1]]``.
    place_start: Ints
    place: Ints
    #: The word and the bit of each variable's test; the word is -1 if there is no test.
    test_word: Ints
    test_bit: Ints
    #: The variable of each position, and whether its rows are excluded from the answer.
    variable: Ints
    excluded: Bools
    tables: Tables


def program_of(arrows: Arrows) -> Program:
    """Returns the arrays of a pattern."""
    many, variables = len(arrows.variable), len(arrows.names)
    lists = [*arrows.follow, arrows.first, arrows.first_of_partition]
    behind = np.zeros((many, max(1, -(-many // WORD))), dtype=np.uint64)
    for here, ways in enumerate(arrows.follow):
        for there in ways:
            if there != ACCEPT:
                behind[here, there // WORD] |= np.uint64(1 << there % WORD)
    variable = np.array(arrows.variable, dtype=np.int64)
    bits = np.array(arrows.bits, dtype=np.int64)
    return Program(
        np.cumsum([0, *map(len, lists)], dtype=np.int64),
        np.array([way for ways in lists for way in ways], dtype=np.int64),
        behind,
        np.array([ACCEPT in ways for ways in arrows.follow], dtype=np.bool_),
        np.array(arrows.ends, dtype=np.bool_),
        np.searchsorted(np.sort(variable), np.arange(variables + 1)).astype(np.int64),
        np.argsort(variable, kind="stable").astype(np.int64),
        np.where(bits < 0, -1, bits // TESTS_IN_WORD),
        np.where(bits < 0, 0, bits % TESTS_IN_WORD),
        variable,
        np.array(arrows.excluded, dtype=np.bool_),
        _tables_of(arrows) if many <= WORD and arrows.words <= 1 else _NO_TABLES,
    )


_NO_TABLES = Tables(
    np.empty((0, 256), np.uint64),
    np.uint64(0),
    np.empty((0, 256), np.uint64),
    np.uint64(0),
    np.uint64(0),
    np.uint64(0),
)


def _tables_of(arrows: Arrows) -> Tables:
    numbers = range(len(arrows.variable))
    tests = [arrows.bits[variable] for variable in arrows.variable]
    passing = [
        _set(position for position in numbers if tests[position] == bit) for bit in range(max(tests, default=-1) + 1)
    ]
    before = [_set(here for here in numbers if there in arrows.follow[here]) for there in numbers]
    return Tables(
        _by_byte(passing),
        _set(position for position in numbers if tests[position] < 0),
        _by_byte(before),
        _set(position for position in numbers if ACCEPT in arrows.follow[position]),
        _set(position for position in numbers if arrows.ends[position]),
        _set(position for position in numbers if arrows.ends[position] or set(arrows.follow[position]) - {ACCEPT}),
    )


def _set(positions: Iterable[int]) -> np.uint64:
    return np.uint64(sum(1 << position for position in positions))


def _by_byte(sets: Sequence[np.uint64]) -> Words:
    """Returns a table: for each byte of a word and each of its values, the union of the sets whose bits are set."""
    table = np.zeros((max(1, -(-len(sets) // 8)), 256), dtype=np.uint64)
    values = np.arange(256)
    for number, each in enumerate(sets):
        table[number // 8, values >> number % 8 & 1 == 1] |= each
    return table
