"""The positions of a row pattern as arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cetdsl.ir.rows import ACCEPT, Arrows
from cetdsl.ir.slots import TESTS_IN_WORD
from cetdsl.kernels.vocabulary import Bools, Ints

Words = NDArray[np.uint64]
#: Positions in a word of a set of them.
WORD = 64


class Program(NamedTuple):
    """The ``m`` positions of a pattern; sets of them are bits of so many words as they need."""

    #: What may follow position ``p``, in order of preferment, is ``arrow[arrow_start[p]:arrow_start[p + 1]]``. Behind
    #: the positions stand two more lists: what a match may begin with, inside of a partition and at its first row.
    arrow_start: Ints
    arrow: Ints
    #: The positions that may follow, as sets; shape (m, words).
    behind: Words
    #: Whether a match may end at each position, and whether it may at the last row of its partition.
    accepts: Bools
    ends: Bools
    #: The positions of variable ``v`` are ``place[place_start[v]:place_start[v + 1]]``.
    place_start: Ints
    place: Ints
    #: Where each variable's test is, among the rows of words and the bits of a word; the row is -1 if all rows pass.
    test_word: Ints
    test_bit: Ints
    #: The variable of each position, and whether it is excluded from what is shown.
    variable: Ints
    excluded: Bools


def program_of(arrows: Arrows) -> Program:
    """The arrays of a pattern."""
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
    )
