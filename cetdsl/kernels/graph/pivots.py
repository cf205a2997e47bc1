"""Copies events for each event of a pivot, so that a pairwise predicate with the pivot becomes a local condition.

A *pivot* is a variable to which pairwise predicates relate the other events of a trend. Each trend binds it to one
event, which is called the pivot of the trend, and every longer trend that contains this trend binds it to the same one.
So a graph of the events that the predicates allow beside one pivot tells which trends with that pivot are complete.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cetdsl.kernels._borrow import borrowed
from cetdsl.kernels._jit import jit
from cetdsl.kernels.machine.conditions import BY_LISTS, NO_CONDITIONS, pivot_allows
from cetdsl.kernels.vocabulary import Bools, Events, Ints


class Beside(NamedTuple):
    """Copies of the events that may stand beside each of some pivots: the copies for a pivot are a key of their own.

    ``number`` is the number of the event that each is a copy of.
    """

    events: Events
    number: Ints


def beside_pivots(
    events: Events, variable: int, bound: int, demands: Ints, low: Ints, high: Ints, pivot: Ints
) -> Beside:
    """Returns copies of the events that trends may bind beside each pivot.

    Parameters
    ----------
    events
        All events.
    variable : int
        The pivot variable.
    bound : int
        The variables, as bits, that a pivot may be bound to.
    demands : int64 array, shape (pairs, 4)
        What the pivot demands of other events, as in :class:`~cetdsl.kernels.machine.conditions.Conditions`.
    low, high, pivot : int64 arrays, shape (pivots,)
        The events ``low:high`` that the trends of each pivot may bind, and the number of the pivot itself.
    """
    start, number, mask = _allowed(events, variable, bound, demands, low, high, pivot)
    begins = np.zeros(len(number), dtype=np.bool_)
    begins[start[:-1]] = True
    instant = events.instant[number]
    begins[1:] |= instant[1:] != instant[:-1]
    between_neighbours = np.ones(events.list_start.shape[0], dtype=np.bool_)
    of_pivot = demands[demands[:, 0] == BY_LISTS, 2:]
    between_neighbours[of_pivot[of_pivot >= 0]] = False
    list_start, list_items = _lists(events, start, number, between_neighbours)
    return Beside(
        Events(
            start,
            events.time[number],
            np.cumsum(begins) - 1,
            mask,
            np.ascontiguousarray(events.codes[:, number]),
            np.ascontiguousarray(events.valid[:, number]),
            list_start,
            list_items,
        ),
        number,
    )


def copy_slices(events: Events, low: Ints, high: Ints) -> Beside:
    """Returns copies of the events ``low:high`` of each slice that may be bound at all; a slice is a key of its own."""
    return beside_pivots(events, -1, 0, NO_CONDITIONS.pivot_pair, low, high, np.full_like(low, -1))


@jit
def _allowed(
    events: Events, own: int, bound: int, demands: Ints, low: Ints, high: Ints, pivot: Ints
) -> tuple[Ints, Ints, Ints]:
    """Returns where the copies for each pivot begin, the number of each one's event, and its variables, as bits."""
    events = borrowed(events)
    room = 0
    for s in range(len(pivot)):
        room += high[s] - low[s]
    start, number, mask = np.zeros(len(pivot) + 1, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    size = 0
    for s in range(len(pivot)):
        for i in range(low[s], high[s]):
            bits, left, variable = 0, events.mask[i], 0
            if i == pivot[s]:
                bits, left = bound, 0
            while left:
                if left & 1 and pivot_allows(events, own, demands, pivot[s], i, variable):
                    bits |= 1 << variable
                left >>= 1
                variable += 1
            if bits:
                number[size], mask[size] = i, bits
                size += 1
        start[s + 1] = size
    return start, number[:size].copy(), mask[:size].copy()


@jit
def _lists(events: Events, start: Ints, number: Ints, copied: Bools) -> tuple[Ints, Ints]:
    """Returns the lists of events that may precede each copy (``Events.list_start``), as numbers of copies.

    They name only copies for the same pivot. The lists of predicates that are not ``copied`` are empty.
    """
    lists, size = events.list_start.shape[0], 0
    place = np.full(len(events.time) if lists else 0, -1)
    list_start = np.zeros((lists, len(number) + 1), dtype=np.int64)
    room = 0
    for row in range(lists):
        for i in number if copied[row] else number[:0]:
            room += events.list_start[row, i + 1] - events.list_start[row, i]
    items = np.empty(room, dtype=np.int64)
    for row in range(lists):
        for s in range(len(start) - 1):
            for n in range(start[s], start[s + 1]):
                i = number[n]
                list_start[row, n] = size
                end = events.list_start[row, i + 1] if copied[row] else 0
                for at in range(events.list_start[row, i], end):
                    # An entry of ``place`` may be left from another pivot; then it lies outside of this one's copies.
                    earlier = place[events.list_items[at]]
                    if start[s] <= earlier < n and number[earlier] == events.list_items[at]:
                        items[size] = earlier
                        size += 1
                place[i] = n
        list_start[row, len(number)] = size
        place[:] = -1
    return list_start, items[:size].copy()
