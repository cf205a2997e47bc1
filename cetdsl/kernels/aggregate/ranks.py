"""The ranks of a sweep (:mod:`~cetdsl.kernels.aggregate.sweep`): numbers of the distinct values of pivots, in order."""

from __future__ import annotations

import numpy as np

from cetdsl.kernels._jit import jit
from cetdsl.kernels.vocabulary import Ints, Places


@jit
def number_distinct(codes: Ints, order: Ints) -> tuple[Ints, Ints]:
    """Returns the distinct codes of some events, and for each event the number of its code.

    ``order`` are these events, sorted by their codes. The numbers returned for other events are meaningless.
    """
    values, number = np.empty(len(order), dtype=np.int64), np.zeros(len(codes), dtype=np.int64)
    size = 0
    for i in order:
        if size == 0 or values[size - 1] != codes[i]:
            values[size] = codes[i]
            size += 1
        number[i] = size - 1
    return values[:size].copy(), number


@jit
def places_among(values: Ints, wanted: Ints, order: Ints) -> tuple[Ints, Ints]:
    """Returns how many of the rising ``values`` are less than each wanted one, and how many are no greater.

    ``order`` sorts the wanted ones, so that one walk along both finds all. No two ``values`` are equal.
    """
    low, high = np.empty(len(wanted), dtype=np.int64), np.empty(len(wanted), dtype=np.int64)
    at = 0
    for n in order:
        while at < len(values) and values[at] < wanted[n]:
            at += 1
        low[n] = at
        high[n] = at + (at < len(values) and values[at] == wanted[n])
    return low, high


@jit
def in_order(rank: Places, ranks: int) -> Ints:
    """Returns positions in the order of their ranks, which are below ``ranks``; equal ones stay as they came."""
    place = np.zeros(ranks + 1, dtype=np.int64)
    for r in rank:
        place[r + 1] += 1
    for r in range(ranks):
        place[r + 1] += place[r]
    order = np.empty(len(rank), dtype=np.int64)
    for n in range(len(rank)):
        order[place[rank[n]]] = n
        place[rank[n]] += 1
    return order
