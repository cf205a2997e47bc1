"""Ranges of a chunk's events in which one plan is in force, and the scopes that are cut by them.

The stream of a key is cut into slices of a number of events. A plan is in force for whole slices, and finds the trends
whose last event lies in them. So exactly one plan finds each trend, whenever plans change.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cetdsl.kernels.detect.scopes import Scopes
from cetdsl.kernels.detect.tables import Extents
from cetdsl.kernels.enumerate.batches import members_of
from cetdsl.kernels.vocabulary import Ints


class PlanRanges(NamedTuple):
    """Consecutive ranges ``low:high`` of events, each with the numbers of its plan, group, key and slice."""

    low: Ints
    high: Ints
    plan: Ints
    group: Ints
    key: Ints
    slice: Ints


def cut_scopes(scopes: Scopes, ranges: PlanRanges, extents: Extents) -> tuple[Scopes, Ints]:
    """Cuts scopes by the ranges that the last event of a trend lies in; also returns the range of each part.

    Examples
    --------
    >>> ends = np.array([0]), np.array([9])
    >>> scopes = Scopes(*ends, *ends, *ends, np.array([0]), *ends, np.array([0]))
    >>> ranges = PlanRanges(np.array([0, 4]), np.array([4, 9]), *(np.array([0, 1]) for _ in range(4)))
    >>> none = np.zeros(0, dtype=np.int32)
    >>> parts, which = cut_scopes(scopes, ranges, Extents(none, none, none, none))
    >>> parts.last_low.tolist(), parts.last_high.tolist(), which.tolist()
    ([0, 4], [4, 9], [0, 1])
    """
    first = np.searchsorted(ranges.high, scopes.last_low, side="right")
    stop = np.searchsorted(ranges.low, scopes.last_high, side="left")
    owner, which = members_of(first, np.maximum(first, stop))
    parts = scopes.take(owner)
    last_low = np.maximum(parts.last_low, ranges.low[which])
    last_high = np.minimum(parts.last_high, ranges.high[which])
    low, first_low = parts.low, parts.first_low
    if len(extents.span_start):
        earliest = extents.span_start[np.minimum(last_low, len(extents.span_start) - 1)]
        low, first_low = np.maximum(low, earliest), np.maximum(first_low, earliest)
    parts = parts._replace(
        low=low,
        high=np.minimum(parts.high, last_high),
        first_low=first_low,
        last_low=last_low,
        last_high=last_high,
        group=ranges.group[which],
    )
    return parts, which
