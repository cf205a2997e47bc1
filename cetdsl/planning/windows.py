"""How the windows of a query are cut into time buckets."""

from __future__ import annotations

from cetdsl.ir.windowing import SLIDING, SPAN, WHOLE, Windowing
from cetdsl.pattern.query import Window

#: One time bucket of a long key holds this many window lengths; it copies one length of events into its neighbour.
BUCKET_WINDOWS = 8


def windowing_of(window: Window | None) -> Windowing:
    """The windows of a query, and the time buckets that spread one key over many tasks."""
    if window is None:
        return Windowing(WHOLE)
    length = window.length.amount
    if window.slide is None:
        return Windowing(SPAN, length, 0, BUCKET_WINDOWS * length)
    slide = window.slide.amount
    if slide >= length:
        return Windowing(SLIDING, length, slide, slide)
    return Windowing(SLIDING, length, slide, -(-BUCKET_WINDOWS * length // slide) * slide)
