"""Evaluates slices in *lots*, ranges of consecutive slices, where the arrays for all slices would take too much memory.

These arrays have an entry for each event of each slice, and overlapping slices have many events in common.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cetdsl.kernels._side_by_side import lots
from cetdsl.kernels.answers.tables import Values
from cetdsl.kernels.vocabulary import Ints, Slices

#: Where each event of a slice may be a pivot, a lot has at most so many events, or as many as the chunk if it has more.
_PIVOTS_TOGETHER = 2**17


def most_pivots(events: int) -> int:
    """Returns how many events a lot may have where each of them may be a pivot; the chunk has ``events`` events.

    It is no less than that, because the weights of all events of the chunk are computed anew for each lot.
    """
    return max(_PIVOTS_TOGETHER, events)


def in_lots(
    slices: Slices, bounds: tuple[Ints, Ints], evaluate: Callable[[Slices, tuple[Ints, Ints]], Values], most: int
) -> Values:
    """Calls ``evaluate`` with the slices of each lot and their bounds, and returns the values of all slices.

    A lot has up to ``most`` events, where an event counts once for each slice that holds it; a single slice may have
    more. Only the fields ``low`` and ``high`` are those of the lot.
    """
    begin, end = bounds
    # Where there are no slices, one empty lot gives the values their types.
    parts = list(lots(slices.high - slices.low, most)) or [slice(0)]
    found = [
        evaluate(slices._replace(low=slices.low[lot], high=slices.high[lot]), (begin[lot], end[lot])) for lot in parts
    ]
    whole = zip(*(values.exact for values in found), strict=True)
    return Values(
        np.concatenate([values.found for values in found]),
        [None if one[0] is None else np.concatenate(one) for one in whole],
        [np.concatenate(one) for one in zip(*(values.scaled for values in found), strict=True)],
        [np.concatenate(one) for one in zip(*(values.extremes for values in found), strict=True)],
    )
