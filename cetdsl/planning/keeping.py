"""Decides how the events of a stream are kept until they are answered.

If they are kept by window, Spark's own operators store an event once for each window that needs it, in any state store.
If they are kept once, a stateful operator of ours stores them as bytes, many events in one value. That requires Spark's
arbitrary stateful processing and a state store that supports it.
"""

from __future__ import annotations

import attrs

from cetdsl.ir.compiled import Compiled
from cetdsl.ir.emission import FINAL
from cetdsl.ir.keeping import EVENTS, KEPT_WHOLE, WINDOWS, AskedState, Keeping
from cetdsl.ir.source import Source
from cetdsl.ir.windowing import overlaps

#: The number of time buckets per span, if each event is kept once, and if it is kept for each bucket that needs it. A
#: bucket has the trends that begin in it, and an answer waits up to one bucket longer than the span.
_PARTS_ONCE, _PARTS_BY_WINDOW = 4, 2


def parts_of_spans(emit: str, asked: AskedState, *, looked_at: bool) -> int:
    """Returns into how many time buckets a stream's spans are cut, each of which is answered by itself.

    There is one bucket per span if answers are given before they are final, as these wait for no bucket; if events are
    kept whole for queries that come and go, whose spans may differ; and if Spark itself has to look at the events, as
    it would test the pairs of events anew for each bucket.
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
    """Returns why Spark has to read the columns of events that it keeps; None if it can keep them as bytes."""
    if source.emit != FINAL:
        return "Spark's own operators give answers before they are final"
    if compiled.lists:
        return "Spark tests inseparable predicates between the events of a window"
    return None
