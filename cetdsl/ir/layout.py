"""What the rows that a kernel reads hold."""

from __future__ import annotations

import attrs


@attrs.frozen
class RunSpec:
    """How events are put into sorted runs: ``keys`` key columns, then the time and other numbers, as NumPy types."""

    keys: int
    columns: tuple[str, ...]


#: Where a column of an event stands: among the last ones, or it is made from the time.
OWN, OF_TIME = -1, -2
#: One of these, the position of another column, or the text that the condition of each variable asks for.
Place = int | tuple[str, ...]


@attrs.frozen
class RowLayout:
    """What the rows that a kernel reads hold.

    Their columns are, in this order: ``keys`` key columns, the number of the time bucket if the windows are cut, time,
    ``ties`` tie-break columns, the bit mask of variables that the event may be bound to, ``codes`` columns that
    comparisons refer to, ``values`` columns that accumulators refer to, ``lists`` list columns preceded by the event's
    position in its key (if any), and for trends the event's own columns, but for those that are known without:
    ``shared`` has the position of another column of the same values, ``OF_TIME``, the texts of an event of each
    variable, or ``OWN``. If ``packed`` > 0 there is no mask: the time column holds ``time * 2**packed + mask``, or in
    place of the mask its number in ``book``. If there are ``runs``, events come in sorted runs. If there is
    ``unsorted``, they come in any order, and are to be sorted by the columns of these positions: the time and a whole
    number.
    """

    keys: int
    time: str
    time_type: str
    ties: int = 0
    codes: int = 0
    values: tuple[str, ...] = ()
    lists: int = 0
    alone: bool = False
    packed: int = 0
    book: tuple[int, ...] = ()
    runs: RunSpec | None = None
    unsorted: tuple[int, int] | None = None
    shared: tuple[Place, ...] = ()
