"""How the events of a stream are kept until they are answered: once for each of their windows, or once."""

from __future__ import annotations

import attrs

#: "windows": Spark's own operators keep the events of each open window. "events": each live event is kept once, by
#: arbitrary stateful processing. "auto": whichever is expected to take less.
AUTO, WINDOWS, EVENTS = STATES = ("auto", "windows", "events")


@attrs.frozen
class AskedState:
    """How events are to be kept, one of :data:`STATES`, and what ``lacks`` for keeping each once; None: nothing.

    If ``whole``, all of them are to be kept with all of their columns, so that other queries can go on with them.
    """

    by: str = AUTO
    lacks: str | None = None
    whole: bool = False


#: Where nothing is asked for.
AS_USUAL = AskedState()


@attrs.frozen
class Keeping:
    """The decision on how the events of a stream are kept, and why: each of them ``once``, or by window.

    Those that are kept once may be ``whole``, and are then projected to what the query needs when their bucket closes.
    Those that are kept by window are ``packed``, many of them in one value of state, unless Spark has to look at them.
    """

    once: bool
    why: str
    whole: bool = False
    packed: bool = False

    @property
    def in_parcels(self) -> bool:
        """Whether the kernel gets the events of its query in parcels."""
        return (self.once or self.packed) and not self.whole


#: Where nothing has been decided.
BY_WINDOW = Keeping(once=False, why="nothing says otherwise")
