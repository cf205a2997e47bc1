"""Decides how the events of a stream are kept until they are answered.

By window, Spark's own operators keep an event as often as there are windows that need it, with any state store. Kept
once, events stay as bytes, many in one, which takes arbitrary stateful processing and a state store that can do it.
"""

from __future__ import annotations

import attrs

from cetdsl.ir.compiled import Compiled
from cetdsl.ir.emission import FINAL
from cetdsl.ir.keeping import EVENTS, KEPT_WHOLE, WINDOWS, Keeping
from cetdsl.ir.source import Source
from cetdsl.ir.windowing import overlaps


def keeping_of(source: Source, compiled: Compiled) -> Keeping:
    """Decides how the events that a query reads are kept."""
    asked = source.state
    if asked.whole:
        return KEPT_WHOLE
    looked_at = _why_looked_at(source, compiled)
    by_window = Keeping(once=False, why=looked_at or "as asked for", packed=looked_at is None)
    if asked.by == WINDOWS or looked_at is not None:
        return by_window
    if asked.lacks is not None:
        return attrs.evolve(by_window, why=asked.lacks)
    if asked.by == EVENTS:
        return Keeping(once=True, why="as asked for")
    if not overlaps(source.windowing):
        return attrs.evolve(by_window, why="windows do not overlap, and Spark's own operators take less time")
    return Keeping(once=True, why="as windows overlap")


def _why_looked_at(source: Source, compiled: Compiled) -> str | None:
    """Returns why Spark has to look at events in state; None if it can keep them as bytes."""
    if source.emit != FINAL:
        return "Spark's own operators give answers before they are final"
    if compiled.lists:
        return "Spark tests inseparable predicates between the events of a window"
    return None
