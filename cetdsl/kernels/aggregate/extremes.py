"""Extremes as numbers of the lattice (:mod:`~cetdsl.kernels.numbers.arithmetic`), in which a sum is a maximum.

Values and lengths are encoded so that the one to keep, be it the smallest or the largest, has the largest code.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cetdsl.aggregates.vocabulary import Merge
from cetdsl.ir.accumulators import Accumulator
from cetdsl.kernels.numbers.arithmetic import ADD, RAISE_TO
from cetdsl.kernels.vocabulary import Ints
from cetdsl.kernels.wire.values import ValueColumn

#: Longer than any trend. A length of which the shortest is wanted has the code "this minus the length".
_LONG = 2**60


class Kept(NamedTuple):
    """Describes how an extreme is encoded.

    Attributes
    ----------
    weights : int64 array, shape (n,)
        What each event contributes.
    how, one : int
        The operation by which it does, ``RAISE_TO`` or ``ADD``, and the value of a trend without events.
    least, bound : int
        For the smallest value or length: a code ``c >= least`` stands for ``bound - c``, and smaller codes for none.
        For the largest, ``bound`` is -1 and codes stand for themselves.
    """

    weights: Ints
    how: int
    one: int
    least: int
    bound: int

    def restored(self, found: Ints) -> Ints:
        """Returns the ranks or lengths that codes stand for."""
        return found if self.bound < 0 else restored(found, self.least, self.bound)


def restored(codes: Ints, least: Ints | int, bound: Ints | int) -> Ints:
    """Returns the ranks or lengths that codes stand for, by the ``least`` and ``bound`` of each of them."""
    return np.where((codes >= least) & (bound >= 0), bound - codes, codes)


def kept_of(accumulator: Accumulator, columns: list[ValueColumn], count: int) -> Kept:
    """Returns how an extreme over ``count`` events is encoded: as ranks of values, from 1 (0: none), or as lengths."""
    largest = accumulator.update.merge is Merge.LARGEST
    if accumulator.is_length:
        step = np.full(count, 1 if largest else -1, dtype=np.int64)
        return Kept(step, ADD, 0 if largest else _LONG, 0, -1 if largest else _LONG)
    ranks, values = columns[accumulator.column].ranks()
    if largest:
        return Kept(ranks, RAISE_TO, 0, 1, -1)
    return Kept(np.where(ranks > 0, len(values) + 1 - ranks, 0), RAISE_TO, 0, 1, len(values) + 1)
