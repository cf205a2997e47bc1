"""Scopes: the ranges of a chunk's events that are searched one after the other, each for its own trends."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cetdsl.kernels._jit import jit
from cetdsl.kernels.vocabulary import Bools, Events, Ints, Slices


class Scopes(NamedTuple):
    """Scopes as arrays of shape (scopes,): all events of a trend lie in ``low:high``.

    Further ranges bound the first and the last event of a trend.
    """

    low: Ints
    high: Ints
    #: The first event lies in ``first_low:first_high``, the last one in ``last_low:last_high``.
    first_low: Ints
    first_high: Ints
    last_low: Ints
    last_high: Ints
    #: The slice of each scope, and the range of the slice's events, which negations look at.
    slice: Ints
    slice_low: Ints
    slice_high: Ints
    #: The group in which the partial matches of the scope are counted.
    group: Ints

    def take(self, chosen: Bools | Ints) -> Scopes:
        """Returns some of the scopes, by their numbers or by whether they are chosen."""
        return Scopes(*(column[chosen] for column in self))


def scopes_of(slices: Slices, events: Events, bounds: tuple[Ints, Ints], span: int) -> Scopes:
    """Returns a scope for each slice that may have trends.

    With a span, ``bounds`` are the times from which and before which the first event of a trend of each slice lies.
    """
    low, high = slices.low, slices.high
    numbers = np.arange(len(low), dtype=np.int64)
    if not span:
        return Scopes(low, high, low, high, low, high, numbers, low, high, np.zeros_like(low))
    begin, end = bounds
    first_low, first_high, last = _within(low, high, events.time, begin, end, span)
    scopes = Scopes(first_low, last, first_low, first_high, first_low, last, numbers, low, high, np.zeros_like(low))
    return scopes.take(first_low < first_high)


@jit
def _within(low: Ints, high: Ints, time: Ints, begin: Ints, end: Ints, span: int) -> tuple[Ints, Ints, Ints]:
    """Finds the first events whose times are from ``begin``, from ``end``, and from a span behind ``end``."""
    first_low, first_high, last = np.empty_like(low), np.empty_like(low), np.empty_like(low)
    for s in range(len(low)):
        own = time[low[s] : high[s]]
        first_low[s] = low[s] + np.searchsorted(own, begin[s])
        first_high[s] = low[s] + np.searchsorted(own, end[s])
        last[s] = low[s] + np.searchsorted(own, end[s] + span)
    return first_low, first_high, last
