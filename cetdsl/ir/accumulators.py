"""What is carried along trends, and the columns of the answer made of it."""

from __future__ import annotations

import attrs

#: The forms a count may take (``number=``).
NUMBERS = ("decimal", "string", "double", "log2")


@attrs.frozen
class Lane:
    """One number that is propagated along trends.

    Attributes
    ----------
    kind : {"count", "sum", "min", "max", "shortest", "longest"}
        ``count`` adds 1 for every event of ``variable`` (-1: of any), or, with a column, for every one where the
        column is not NULL.
    variable : int
    column : int
        Position among the value columns; -1 for none.
    """

    kind: str
    variable: int = -1
    column: int = -1


#: "Of any variable"; the lane of all trends counts nothing per event and is told by its variable -2.
ANY = -1
TRENDS = Lane("count", -2)


@attrs.frozen
class Output:
    """A column of the answer, made of lanes.

    ``numerator`` is the lane that holds the value; ``denominator`` (AVG) what it is divided by; for SUM, MIN and
    MAX ``present`` counts the non-null values, so that none of them gives NULL. ``-1`` is the number of trends.
    ``type`` is the Spark type of the aggregated column, or "" for counts.
    """

    name: str
    function: str
    numerator: int = -1
    denominator: int = -1
    present: int = -1
    type: str = ""
