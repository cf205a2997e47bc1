"""The ways in which a stream keeps its events until they are answered: once for each of their windows, or once."""

from __future__ import annotations

import attrs

from cetdsl.errors import set_shares

#: "windows": Spark's own operators keep the events of each open window. "events": each live event is kept once, by
#: arbitrary stateful processing. "auto": once where windows overlap and there is such processing, else by window.
AUTO, WINDOWS, EVENTS = STATES = ("auto", "windows", "events")
#: Shares of the keys per task that can run at the same time: the advised number, and the number above which a query
#: warns the user, because each share is a task with a small state of its own in every micro-batch.
SHARES_ADVISED, SHARES_MOST = 2, 8
#: The setting by which some versions of Spark tell the tasks of a stream the number of shares when its checkpoint was
#: made.
KEPT_SHARES = "spark.sql.streaming.internal.stateStore.partitions"


@attrs.frozen
class AskedState:
    """The user's ``state=`` choice, one of :data:`STATES`.

    ``lacks`` says what prevents keeping each event once; None if nothing does. If ``whole``, the stream keeps all
    events with all of their columns, so that queries can be added later and use them. The state is split into
    ``shares`` of the keys, one task each; ``at_once`` of these tasks can run at the same time.
    """

    by: str = AUTO
    lacks: str | None = None
    whole: bool = False
    shares: int = 1
    at_once: int = 1

    @property
    def why_slow(self) -> str | None:
        """The reason why ``shares`` states take long; None if they are not too many."""
        if self.shares <= SHARES_MOST * self.at_once:
            return None
        tasks = "one task" if self.at_once == 1 else f"{self.at_once} tasks"
        return f"{self.shares} small states are written at each trigger, by {tasks} at a time"

    @property
    def advice(self) -> str:
        """Advice on how to get fewer shares."""
        shares = SHARES_ADVISED * self.at_once
        return f"{set_shares(shares)} before the stream is asked, and a new checkpoint"


#: Where nothing is asked for.
AS_USUAL = AskedState()


@attrs.frozen
class Keeping:
    """The decision on how the events of a stream are kept, and why: each of them ``once``, or by window.

    Events that are kept once may be ``whole``, with all columns; they are projected to what the query needs when their
    time bucket closes. Events that are kept by window are ``packed``, many in one value of state, unless Spark itself
    has to read their columns.
    """

    once: bool
    why: str
    whole: bool = False
    packed: bool = False

    @property
    def in_parcels(self) -> bool:
        """Whether the kernel gets the events of its query in parcels."""
        return (self.once or self.packed) and not self.whole


#: The decision for events of which other queries may be asked later.
KEPT_WHOLE = Keeping(once=True, why="whole, for queries that come and go", whole=True)
#: The default before a decision.
BY_WINDOW = Keeping(once=False, why="nothing says otherwise")
