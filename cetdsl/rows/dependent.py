"""Conditions that depend on rows which the match has bound before, as trees that a kernel can evaluate.

Whatever looks at a single row is a :class:`Cell`, which Spark computes as a column, whatever functions it calls. The
tree above has only what brings rows together.
"""

from __future__ import annotations

import attrs

#: The operators of a tree. Comparisons, arithmetic and logic are those of SQL, with NULL.
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "<=>")
ARITHMETIC = ("+", "-", "*", "/", "%", "NEGATIVE", "ABS")


@attrs.frozen
class Bound:
    """One of the rows that are bound to some variables: ``offset`` rows behind the first, or before the last of
    them.

    Of labels it may be the row ``move`` rows behind that one, if it is bound.
    """

    members: tuple[bool, ...]
    first: bool
    offset: int
    move: int = 0


@attrs.frozen
class Extreme:
    """The row, of those that are bound to some variables, with the least or the greatest value of an expression."""

    members: tuple[bool, ...]
    sql: str
    greatest: bool


@attrs.frozen
class Cell:
    """An expression over one row, as SQL over its columns.

    Parameters
    ----------
    at : Bound, Extreme or None
        Which row; None is the one that is tested.
    sql : str
    absent : str
        The SQL for its value where there is no such row; empty if it is NULL.
    each : tuple of str
        The SQL for each variable that the row may be bound to, if it depends on that; else empty.
    """

    at: Bound | Extreme | None
    sql: str
    absent: str = ""
    span: tuple[int, int] = attrs.field(eq=False, repr=False, default=(0, 0))
    each: tuple[str, ...] = ()


@attrs.frozen
class Total:
    """A count, sum or average over the rows that are bound to some variables; ``sql`` is empty where all count.

    The number of the match is one, too.
    """

    kind: str
    members: tuple[bool, ...]
    sql: str
    span: tuple[int, int] = attrs.field(eq=False, repr=False, default=(0, 0))


@attrs.frozen
class Operation:
    """An operator over trees."""

    operator: str
    operands: tuple[Tree, ...]
    span: tuple[int, int] = attrs.field(eq=False, repr=False, default=(0, 0))


Tree = Cell | Total | Operation
