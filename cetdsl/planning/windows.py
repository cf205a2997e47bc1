"""How a query's windows are cut into stretches of time."""

from __future__ import annotations

from cetdsl.ir.windowing import SLIDING, SPAN, WHOLE, Windowing
from cetdsl.pattern.query import Window

#: One stretch of a long key holds this many window lengths; it copies one length of events into its neighbour.
STRETCH_WINDOWS = 8


def windowing_of(window: Window | None) -> Windowing:
    """The windows of a query, and the stretches that spread one key over many tasks."""
    if window is None:
        return Windowing(WHOLE)
    length = window.length.amount
    if window.slide is None:
        return Windowing(SPAN, length, 0, STRETCH_WINDOWS * length)
    slide = window.slide.amount
    if slide >= length:
        return Windowing(SLIDING, length, slide, slide)
    return Windowing(SLIDING, length, slide, -(-STRETCH_WINDOWS * length // slide) * slide)
