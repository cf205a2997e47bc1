"""Decides how the events of a stream are kept until they are answered.

By window, Spark's own operators keep an event as often as there are windows that need it, with any state store. Kept
once, events stay as bytes, many in one, which takes arbitrary stateful processing and a state store that can do it.
"""

from __future__ import annotations

import attrs

from cetdsl.ir.compiled import Compiled
from cetdsl.ir.emission import FINAL
from cetdsl.ir.keeping import EVENTS, KEPT_WHOLE, WINDOWS, AskedState, Keeping
from cetdsl.ir.source import Source
from cetdsl.ir.windowing import overlaps

#: Into how many time buckets the trends of a span are put by their first events, where each event is kept once, and
#: where it is kept for each bucket that needs it. A trend waits up to a bucket longer than it may last.
_PARTS_ONCE, _PARTS_BY_WINDOW = 4, 2


def parts_of_spans(emit: str, asked: AskedState, *, looked_at: bool) -> int:
    """Returns into how many time buckets a stream's spans are cut, each of which is answered by itself.

    What is given before it is final waits for no bucket. Events that any query may go on with are kept for whole spans,
    which those of other queries may divide. Of events that Spark has to look at, it would test the pairs of each bucket
    anew.
    """
    if emit != FINAL or asked.whole or looked_at:
        return 1
    return _PARTS_ONCE if asked.by != WINDOWS and asked.lacks is None else _PARTS_BY_WINDOW


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
