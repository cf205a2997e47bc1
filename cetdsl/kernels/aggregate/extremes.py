"""Extremes as lattice values: values are encoded so that the one to keep is the largest."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cetdsl.aggregates.vocabulary import Merge
from cetdsl.ir.accumulators import Accumulator
from cetdsl.kernels.numbers.arithmetic import ADD, RAISE_TO
from cetdsl.kernels.vocabulary import Ints
from cetdsl.kernels.wire.values import ValueColumn

#: Longer than any trend; shortest lengths are kept as this minus the length, so that the maximum finds them.
_LONG = 2**60


class Kept(NamedTuple):
    """Describes how an extreme is kept.

    Attributes
    ----------
    weights : int64 array, shape (n,)
        What an event contributes.
    how, one : int
        The operation by which it does, and the value of a trend without events.
    least, bound : int
        What is kept of a smallest value, from ``least`` on, is what is left of ``bound``; -1: the largest is kept.
    """

    weights: Ints
    how: int
    one: int
    least: int
    bound: int

    def restored(self, found: Ints) -> Ints:
        """Returns ranks or lengths from the kept values."""
        if self.bound < 0:
            return found
        return np.where(found >= self.least, self.bound - found, found)


def kept_of(accumulator: Accumulator, columns: list[ValueColumn], count: int) -> Kept:
    """Returns how an extreme is kept over ``count`` events: ranks from 1 (0: none) of values, or lengths."""
    largest = accumulator.update.merge is Merge.LARGEST
    if accumulator.is_length:
        step = np.full(count, 1 if largest else -1, dtype=np.int64)
        return Kept(step, ADD, 0 if largest else _LONG, 0, -1 if largest else _LONG)
    ranks, values = columns[accumulator.column].ranks()
    if largest:
        return Kept(ranks, RAISE_TO, 0, 1, -1)
    return Kept(np.where(ranks > 0, len(values) + 1 - ranks, 0), RAISE_TO, 0, 1, len(values) + 1)
