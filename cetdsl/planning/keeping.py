"""Decides how the events of a stream are kept until they are answered.

By window, Spark's own operators keep an event as often as there are windows that need it, with any state store. Kept
once, events stay as bytes, many in one, which takes arbitrary stateful processing and a state store that can do it.
"""

from __future__ import annotations

from cetdsl.ir.compiled import Compiled
from cetdsl.ir.emission import FINAL
from cetdsl.ir.keeping import EVENTS, WINDOWS, Keeping
from cetdsl.ir.source import Source
from cetdsl.ir.windowing import overlaps


def keeping_of(source: Source, compiled: Compiled) -> Keeping:
    """Decides how the events that a query reads are kept."""
    asked = source.state
    if asked.whole:
        return Keeping(once=True, why="whole, for queries that come and go", whole=True)
    if asked.by == WINDOWS:
        return Keeping(once=False, why="as asked for")
    reason = why_not_once(source, compiled)
    if reason is not None:
        return Keeping(once=False, why=reason)
    if asked.by == EVENTS:
        return Keeping(once=True, why="as asked for")
    if not overlaps(source.windowing):
        return Keeping(once=False, why="windows do not overlap, and Spark's own operators take less time")
    return Keeping(once=True, why="as windows overlap")


def why_not_once(source: Source, compiled: Compiled) -> str | None:
    """Returns why events cannot be kept once each; None if they can."""
    if source.emit != FINAL:
        return "Spark's own operators give answers before they are final"
    if compiled.lists:
        return "Spark tests inseparable predicates between the events of a window"
    return source.state.lacks
