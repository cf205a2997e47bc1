"""Conditions that depend on rows that the match has bound before, as trees that a kernel can evaluate.

A part that looks at a single row is a :class:`Cell`. Spark computes it as a column, whatever functions it calls. So the
tree above the cells has only the operators that combine values of several rows.
"""

from __future__ import annotations

import attrs

#: The operators of a tree. Comparisons, arithmetic and logic are those of SQL, with NULL.
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "<=>")
ARITHMETIC = ("+", "-", "*", "/", "%", "NEGATIVE", "ABS")


@attrs.frozen
class Bound:
    """One of the rows that are bound to some variables: ``offset`` rows after the first, or before the last of them.

    For labels it may be the row ``move`` rows after that one, if that is bound.
    """

    members: tuple[bool, ...]
    first: bool
    offset: int
    move: int = 0


@attrs.frozen
class Extreme:
    """The row with the least or the greatest value of an expression, among those that are bound to some variables."""

    members: tuple[bool, ...]
    sql: str
    greatest: bool


@attrs.frozen
class Cell:
    """An expression over one row, as SQL over its columns.

    Parameters
    ----------
    at : Bound, Extreme or None
        The row; None is the one that is tested.
    sql : str
    absent : str
        The SQL for the value where there is no such row; empty if this is NULL.
    each : tuple of str
        If the value depends on the variable to which the row is bound, the SQL for each variable; else empty.
    """

    at: Bound | Extreme | None
    sql: str
    absent: str = ""
    span: tuple[int, int] = attrs.field(eq=False, repr=False, default=(0, 0))
    each: tuple[str, ...] = ()


@attrs.frozen
class Total:
    """A count, sum or average of an expression over the rows that are bound to some variables.

    ``sql`` is empty for a count of all these rows. The number of the match is also represented by a total.
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
