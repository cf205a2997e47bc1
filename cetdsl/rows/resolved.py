"""A resolved clause: SQL for each row, slots that the matcher computes, and the expressions of the answer over them.

A *slot* is a value of a match, such as ``FIRST(A.price)`` or ``SUM(A.price)``. A *moved value* is one of another row,
such as ``PREV(price)``. The columns for these have names with a blank, which no plain word of the user's can be.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import attrs

from cetdsl.errors import UnknownColumn
from cetdsl.ir.rows import Pointed
from cetdsl.pattern.text import in_backquotes
from cetdsl.rows.dependent import Tree
from cetdsl.rows.nodes import MatchClause, Variable
from cetdsl.rows.tokens import Token

#: A kind of slot besides those of :class:`~cetdsl.ir.rows.Slot`: an average, which becomes a sum and a count.
AVERAGE = "average"


@attrs.frozen
class Value:
    """An expression over one row, as SQL over the columns ``col 0``, ``col 1``, ...

    The row is ``move`` rows after the one that is referred to: -2 is the row two before it, 1 the next one. If the
    value depends on the variable to which the row is bound, ``each`` has the SQL for each variable, empty for those
    to which the row cannot be bound.
    """

    sql: str
    move: int = 0
    each: tuple[str, ...] = ()

    def within(self, write: Callable[[str], str]) -> Value:
        """Returns a value whose SQL is what ``write`` makes of this one's."""
        return attrs.evolve(self, sql=write(self.sql), each=tuple(sql and write(sql) for sql in self.each))

    @property
    def is_there(self) -> Value:
        """Returns the truth value that says whether this value is not NULL."""
        return self.within(lambda sql: f"({sql}) IS NOT NULL")


def placed(value: Value, moved: list[Value]) -> Value:
    """Returns a value without ``move``: a moved value becomes a name, by its number in ``moved``, which may grow."""
    if not value.move:
        return value
    if value not in moved:
        moved.append(value)
    return Value(moved_name(moved.index(value)))


@attrs.frozen
class Wanted:
    """A slot like :class:`~cetdsl.ir.rows.Slot`, but with a value in place of a column.

    The value is None for a label, or where COUNT counts all rows. An aggregate may be over the ``distinct`` values
    only, and a label may be that of the row ``move`` rows after.
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
    """A measure or a condition as SQL; ``unknown`` are words in it that are no columns, and that Spark must know."""

    sql: str
    span: tuple[int, int]
    unknown: tuple[Token, ...] = ()


@attrs.frozen
class ResolvedMatch:
    """A clause, resolved against the columns of a DataFrame.

    Parameters
    ----------
    clause : MatchClause
    columns : tuple of str
        The columns of the DataFrame.
    partition_by, order_by : tuple of int
        Numbers of columns.
    variables : tuple of str
        The variables of the pattern, spelled as where they first occur.
    conditions : mapping of int to Expression
        For the number of a variable, the condition on single rows, as SQL over ``col n`` and ``moved n``.
    depending : mapping of int to Tree
        For the number of a variable, the further condition that depends on rows that the match has bound before.
    unknown : tuple of Token
        The words in conditions that are no columns, and that Spark must know.
    measures : tuple of Expression
        SQL over ``slot n``.
    slots : tuple of Wanted
    moved : tuple of Value
        The moved values that conditions look at, as ``moved n``.
    skip_members : tuple of bool
        For each variable whether the search goes on at its rows.
    whole : Tree, optional
        A condition that whole matches must satisfy, too.
    is_first, is_longest : bool
        Whether only the first match of each partition is found, and whether the longest of the matches that begin at a
        row is taken. SQL has neither.
    time_name : str
        The user's name for the first column of :attr:`order_by`, if a row without a time is an error; else empty.
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
        """Returns the places in the text at which errors of a run point."""
        defined = {each.variable.lower(): each.tokens for each in self.clause.definitions}
        found = [defined.get(name.lower(), ()) for name in self.variables]
        spans = tuple((tokens[0].start, tokens[-1].end) if tokens else (0, 0) for tokens in found)
        return Pointed(self.clause.text, self.clause.skip.span, spans)

    def unknown_column(self, word: Token) -> UnknownColumn:
        """Returns the error for a word of the clause that is no column, and that Spark does not know either."""
        return unknown_column(word.name, word.span, self.clause.text, self.columns, self.variables)


def column(number: int) -> str:
    """Returns the SQL that names a column of the DataFrame."""
    return in_backquotes(f"col {number}")


def slot_name(number: int) -> str:
    """Returns the SQL that names a slot."""
    return in_backquotes(f"slot {number}")


def moved_name(number: int) -> str:
    """Returns the SQL that names a moved value."""
    return in_backquotes(f"moved {number}")


def unknown_column(
    name: str, span: tuple[int, int], text: str, columns: Sequence[str], variables: Collection[str]
) -> UnknownColumn:
    """Returns the error for a name at a place of a clause that is no column of its rows.

    Examples
    --------
    >>> print(unknown_column("a", (0, 1), "a", ["x"], ["a"]).hint)
    a is a variable: name a column of its rows, as in a.x, or count them, COUNT(a.*)
    """
    error = UnknownColumn.among(name, columns)
    error.span, error.text = span, text
    if name.upper() in ("CLASSIFIER", "MATCH_NUMBER"):
        error.hint = f"write {name.upper()}()"
    elif name.lower() in map(str.lower, variables):
        of_rows = f"{name}.{columns[0] if columns else 'x'}"
        error.hint = f"{name} is a variable: name a column of its rows, as in {of_rows}, or count them, COUNT({name}.*)"
    return error
