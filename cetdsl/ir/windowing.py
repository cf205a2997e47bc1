"""How time is cut into windows."""

from __future__ import annotations

import attrs

#: A window specification's ``kind``.
WHOLE, SLIDING, SPAN = "whole", "sliding", "span"


@attrs.frozen
class Windowing:
    """How time is cut: ``length`` and ``slide`` in the time column's own unit.

    ``cut`` > 0 says that rows have a column that numbers time buckets of this length: a task answers only the windows
    (or, for a span, the trends) that start in its own bucket, so that one long key is spread over all cores.
    """

    kind: str = WHOLE
    length: int = 0
    slide: int = 0
    cut: int = 0


def count_in_panes(windowing: Windowing) -> Windowing:
    """Returns sliding windows with panes as the unit of time, numbered from the epoch.

    A pane lies between two neighbouring starts and ends of windows. Where the slide divides the length there is one per
    slide, else two: up to the end of a window, and from there on.

    Examples
    --------
    >>> count_in_panes(Windowing(SLIDING, 60, 20)), count_in_panes(Windowing(SLIDING, 50, 20))
    (Windowing(kind='sliding', length=3, slide=1, cut=0), Windowing(kind='sliding', length=5, slide=2, cut=0))
    """
    whole, rest = divmod(windowing.length, windowing.slide)
    return Windowing(SLIDING, 2 * whole + 1, 2) if rest else Windowing(SLIDING, whole, 1)


def overlaps(windowing: Windowing) -> bool:
    """Whether an event may be in several windows, or spans."""
    return windowing.kind == SPAN or windowing.slide < windowing.length


def overlap(windowing: Windowing) -> int:
    """Returns how many sliding windows an event is in at most."""
    return -(-windowing.length // windowing.slide)
