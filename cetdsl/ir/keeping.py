"""How the events of a stream are kept until they are answered: once for each of their windows, or once."""

from __future__ import annotations

import attrs

#: "windows": Spark's own operators keep the events of each open window. "events": each live event is kept once, by
#: arbitrary stateful processing. "auto": whichever is expected to take less.
AUTO, WINDOWS, EVENTS = STATES = ("auto", "windows", "events")


@attrs.frozen
class AskedState:
    """How events are to be kept, one of :data:`STATES`, and what ``lacks`` for keeping each once; None: nothing."""

    by: str = AUTO
    lacks: str | None = None


#: Where nothing is asked for.
AS_USUAL = AskedState()


@attrs.frozen
class Keeping:
    """The decision on how the events of a stream are kept, and why: each of them ``once``, or by window."""

    once: bool
    why: str


#: Where nothing has been decided.
BY_WINDOW = Keeping(once=False, why="nothing says otherwise")
