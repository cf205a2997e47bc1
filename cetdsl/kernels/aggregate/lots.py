"""Evaluates slices a lot at a time, where what is held for each event of each slice would be too much for all."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from cetdsl.kernels.answers.tables import Values
from cetdsl.kernels.vocabulary import Ints, Slices

#: Slices whose events are each a pivot, or may be, are evaluated together up to so many events in all, at least.
_PIVOTS_TOGETHER = 2**17


def most_pivots(events: int) -> int:
    """Returns how many events a lot of slices has at most, if each event may be a pivot; there are ``events`` in all.

    A lot takes time with all events, too, as their weights are made for it.
    """
    return max(_PIVOTS_TOGETHER, events)


def in_lots(
    slices: Slices, bounds: tuple[Ints, Ints], evaluate: Callable[[Slices, tuple[Ints, Ints]], Values], most: int
) -> Values:
    """Returns the values of all slices; ``evaluate`` is given each lot by its events, and its bounds.

    A lot has up to ``most`` events in all, of which overlapping slices count each many times, or is one slice.
    """
    begin, end = bounds
    found = [
        evaluate(slices._replace(low=slices.low[lot], high=slices.high[lot]), (begin[lot], end[lot]))
        for lot in _lots(slices.high - slices.low, most)
    ]
    whole = zip(*(values.exact for values in found), strict=True)
    return Values(
        np.concatenate([values.found for values in found]),
        [None if one[0] is None else np.concatenate(one) for one in whole],
        [np.concatenate(one) for one in zip(*(values.scaled for values in found), strict=True)],
        [np.concatenate(one) for one in zip(*(values.extremes for values in found), strict=True)],
    )


def _lots(sizes: Ints, most: int) -> Iterator[slice]:
    """Cuts slices of these sizes into ranges that are evaluated together; at least one."""
    total = np.cumsum(sizes)
    begin = 0
    while True:
        before = total[begin - 1] if begin else 0
        end = max(int(np.searchsorted(total, before + most, side="right")), begin + 1)
        yield slice(begin, end)
        begin = end
        if begin >= len(sizes):
            return
