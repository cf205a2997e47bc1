"""A resolved clause: SQL for each row, slots that the matcher fills, and the expressions of the answer over them.

Names of columns that are made here have a blank in them, so that no word of the user's can be one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from cetdsl.ir.rows import Pointed
from cetdsl.pattern.text import in_backquotes
from cetdsl.rows.dependent import Tree
from cetdsl.rows.nodes import MatchClause, Variable
from cetdsl.rows.tokens import Token

#: A slot beside those of :class:`~cetdsl.ir.rows.Slot`: an average, which is a sum and a count.
AVERAGE = "average"


@attrs.frozen
class Value:
    """An expression over one row, as SQL over the columns ``col 0``, ``col 1``, ...

    ``move`` is -2 for the row two before the one that is asked about, 1 for the next one. If the value depends on the
    variable that the row is bound to, ``each`` is the SQL for each of them, and empty for those that are not asked for.
    """

    sql: str
    move: int = 0
    each: tuple[str, ...] = ()

    def within(self, write: Callable[[str], str]) -> Value:
        """Returns a value computed of this one by the SQL that ``write`` gives."""
        return attrs.evolve(self, sql=write(self.sql), each=tuple(sql and write(sql) for sql in self.each))

    @property
    def is_there(self) -> Value:
        """Whether the value is not NULL."""
        return self.within(lambda sql: f"({sql}) IS NOT NULL")


def placed(value: Value, moved: list[Value]) -> Value:
    """A value of the row itself: one of another row has a name there, by its number among those that are ``moved``."""
    if not value.move:
        return value
    if value not in moved:
        moved.append(value)
    return Value(moved_name(moved.index(value)))


@attrs.frozen
class Wanted:
    """A slot: like :class:`~cetdsl.ir.rows.Slot`, with the value itself; None is the label, or all rows of a COUNT.

    An aggregate may be over the ``distinct`` values alone, and a label that of a row so many rows behind (``move``).
    """

    kind: str
    members: tuple[bool, ...] = ()
    running: bool = False
    value: Value | None = None
    first: bool = False
    offset: int = 0
    distinct: bool = False
    move: int = 0
    span: tuple[int, int] = attrs.field(eq=False, repr=False, default=(0, 0))


@attrs.frozen
class Expression:
    """A measure or a condition as SQL, and the words in it that are no columns, which Spark must know."""

    sql: str
    span: tuple[int, int]
    unknown: tuple[Token, ...] = ()


@attrs.frozen
class ResolvedMatch:
    """A clause against the columns of a DataFrame.

    Parameters
    ----------
    clause : MatchClause
    columns : tuple of str
        The columns of the DataFrame; those below are numbers among them.
    partition_by, order_by : tuple of int
    variables : tuple of str
        The variables of the pattern, as it first writes them.
    conditions : mapping of int to Expression
        By the number of the variable. They are SQL over ``col n`` and over the values of :attr:`moved`.
    depending : mapping of int to Tree
        By the number of the variable, what must hold besides and depends on rows that the match has bound before.
    unknown : tuple of Token
        The words in conditions that are no columns, which Spark must know.
    measures : tuple of Expression
        They are SQL over ``slot n``.
    slots : tuple of Wanted
    moved : tuple of Value
        Values of other rows that conditions look at, as ``moved n``.
    skip_members : tuple of bool
    whole : Tree, optional
        What must hold of a whole match besides.
    is_first, is_longest : bool
        Whether the first match of a partition is the only one, and whether of those that begin at a row the longest is
        taken. SQL has neither.
    time_name : str
        How the user calls the first column of :attr:`order_by`, if a row without a time is an error; else empty.
    undefined : tuple of Variable
        The variables that DEFINE does not mention, which any row can be bound to.
    skip_may_fail : bool
        Whether there may be matches without a row to skip to.
    """

    clause: MatchClause
    columns: tuple[str, ...]
    partition_by: tuple[int, ...]
    order_by: tuple[int, ...]
    variables: tuple[str, ...]
    conditions: Mapping[int, Expression]
    depending: Mapping[int, Tree]
    unknown: tuple[Token, ...]
    measures: tuple[Expression, ...]
    slots: tuple[Wanted, ...]
    moved: tuple[Value, ...]
    skip_members: tuple[bool, ...]
    whole: Tree | None = None
    is_first: bool = False
    is_longest: bool = False
    time_name: str = ""
    undefined: tuple[Variable, ...] = ()
    skip_may_fail: bool = False

    @property
    def pointed(self) -> Pointed:
        """Returns the places that errors of the run point at."""
        defined = {each.variable.lower(): each.tokens for each in self.clause.definitions}
        found = [defined.get(name.lower(), ()) for name in self.variables]
        spans = tuple((tokens[0].start, tokens[-1].end) if tokens else (0, 0) for tokens in found)
        return Pointed(self.clause.text, self.clause.skip.span, spans)


def column(number: int) -> str:
    """The SQL that names a column of the DataFrame."""
    return in_backquotes(f"col {number}")


def slot_name(number: int) -> str:
    """The SQL that names a slot."""
    return in_backquotes(f"slot {number}")


def moved_name(number: int) -> str:
    """The SQL that names a value of another row."""
    return in_backquotes(f"moved {number}")
