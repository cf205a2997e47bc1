"""The specification of a MATCH_RECOGNIZE kernel: what a worker must know to match rows."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import attrs

from cetdsl.ir.slots import TESTS_IN_WORD
from cetdsl.ir.sorting import RowOrder

#: Stands among the positions that may follow a position if a match may end there.
ACCEPT = -1
#: Which rows are shown.
ONE_ROW, SHOW_EMPTY, OMIT_EMPTY, UNMATCHED = "one row", "show empty", "omit empty", "unmatched"
#: Where the search continues after a match, as numbers for the kernel. ``NOWHERE`` ends the search in the partition.
PAST_LAST, NEXT_ROW, TO_FIRST, TO_LAST, NOWHERE = range(5)
#: The kinds of slots, by what a slot holds of those rows of a match that are bound to some variables; see
#: :class:`Slot`.
ROW, NUMBER, COUNT, SUM, MEAN, LEAST, GREATEST, LIST = (
    "row",
    "number",
    "count",
    "sum",
    "mean",
    "least",
    "greatest",
    "list",
)
#: In place of a column: the label of a row, which is the name of the variable that it is bound to.
LABEL = -1


@attrs.frozen
class Arrows:
    """The positions of a pattern, by number, and what may follow each: see :mod:`cetdsl.rows.automaton`.

    ``variable`` has the number of each position's variable. ``bits`` has per variable the number of its test, or -1 for
    one that any row satisfies.
    """

    variable: tuple[int, ...]
    excluded: tuple[bool, ...]
    first: tuple[int, ...]
    first_of_partition: tuple[int, ...]
    follow: tuple[tuple[int, ...], ...]
    ends: tuple[bool, ...]
    names: tuple[str, ...]
    bits: tuple[int, ...]

    @property
    def words(self) -> int:
        """The number of columns that hold the bits of tests."""
        return -(-(max(self.bits, default=-1) + 1) // TESTS_IN_WORD)


@attrs.frozen
class Slot:
    """A value of a match that its measures are computed from.

    ``members`` says for each variable whether the slot is about its rows; if ``running``, only about those up to the
    row that is shown. The ``kind`` says what the slot holds: ``row`` is the value at the first or the last of these
    rows, or ``offset`` of them further inside; ``number`` is the number of the match; ``count`` counts the rows where
    the column is true (``LABEL``: all rows); ``sum`` adds up whole numbers, doubles or decimals; ``mean`` is the
    average of decimals; ``least`` and ``greatest`` are values; ``list`` has all values but NULL.

    ``decimal`` is the precision and scale of a sum or mean of decimals, which may be over the ``distinct`` values.

    If the value depends on the variable that a row is bound to, ``columns`` has the column for each variable. A label
    may be that of the row ``move`` rows behind, if this row belongs to the same match. Errors point at the ``span`` of
    the clause's text.
    """

    kind: str
    members: tuple[bool, ...] = ()
    running: bool = False
    column: int = LABEL
    first: bool = False
    offset: int = 0
    columns: tuple[int, ...] = ()
    move: int = 0
    decimal: tuple[int, int] | None = None
    distinct: bool = False
    span: tuple[int, int] = (0, 0)


#: The steps of a condition, a program for a stack machine: a step takes its operands from the stack and puts its result
#: there. Numbers are whole or real, truth values are whole.
(
    WHOLE_CELL,
    REAL_CELL,
    COUNTED,
    WHOLE_SUM,
    REAL_SUM,
    AVERAGE_OF,
    TO_REAL,
    ADD,
    SUBTRACT,
    MULTIPLY,
    REMAINDER,
    NEGATE,
    ABSOLUTE,
    REAL_ADD,
    REAL_SUBTRACT,
    REAL_MULTIPLY,
    REAL_DIVIDE,
    REAL_REMAINDER,
    REAL_NEGATE,
    REAL_ABSOLUTE,
    EQUAL,
    LESS,
    LESS_OR_EQUAL,
    SAME,
    REAL_EQUAL,
    REAL_LESS,
    REAL_LESS_OR_EQUAL,
    REAL_SAME,
    BOTH,
    EITHER,
    NEITHER,
    IS_NULL,
    CONSTANT,
    DECIMAL_AVERAGE,
    MATCH_NUMBER,
    WHOLE_OF_LABEL,
    REAL_OF_LABEL,
) = range(37)
#: How a *pick* chooses a row from a set of rows: counted from the first row, counted back from the last, or the row
#: with an extreme value.
FROM_FIRST, UP_TO_LAST, EXTREME = range(3)
#: What a *total* adds up: the number of rows, whole numbers, or real numbers.
ROWS, WHOLE, REAL = range(3)

#: A step: what it does, and three arguments. A *cell*, the value of a column at a row, has the pick of the row (-1: the
#: row that is tested), the column, and the column that replaces it if there is no such row (-1: NULL). A constant has
#: its value in place of a column, and a total has its number.
Step = tuple[int, int, int, int]


@attrs.frozen
class Dependent:
    """Conditions that depend on rows that the match has bound before.

    Parameters
    ----------
    whole, real : tuple of int
        The columns with whole and real numbers; cells refer to them by their positions here.
    coded : tuple of bool
        For each whole column, whether only the order of its values counts.
    sets : tuple of tuple of bool
        For each set of rows, the variables whose rows it has.
    picks : tuple of tuple of int
        For each pick, its kind, the number of its set (or extreme) and the offset.
    extremes : tuple of tuple of int
        For each extreme, the number of its set, its whole column, and 1 for the greatest value.
    totals : tuple of tuple of int
        For each total, what it adds up, the number of its set and the column; -1 counts all rows.
    steps : tuple of tuple of Step
        For each variable, its condition; empty if it has none.
    final : tuple of Step
        The condition of a whole match, tested where the match would end; empty if there is none.
    labelled : tuple of tuple of int
        For each cell that depends on the variable of a row, how many rows behind the pick this row is, and then the
        column for each variable; -1: NULL.
    """

    whole: tuple[int, ...]
    coded: tuple[bool, ...]
    real: tuple[int, ...]
    sets: tuple[tuple[bool, ...], ...]
    picks: tuple[tuple[int, int, int], ...]
    extremes: tuple[tuple[int, int, int], ...]
    totals: tuple[tuple[int, int, int], ...]
    steps: tuple[tuple[Step, ...], ...]
    final: tuple[Step, ...] = ()
    labelled: tuple[tuple[int, ...], ...] = ()


@attrs.frozen
class Neighbours:
    """The columns that the kernel itself adds to rows, from values of other rows of the same partition.

    They stand behind the columns that the rows came with: first the values of other rows, then *words*, whole numbers
    whose bits are the results of tests.

    Parameters
    ----------
    moved : tuple of tuple of int
        For each value of another row, its column, and how many rows behind it is; a negative number means before.
    names : tuple of tuple of str and int
        The columns that conditions look at, by name, including those of other rows.
    tests : tuple of tuple of int and str
        The conditions in SQL, each with the number of its test.
    words : tuple of int
        For each word, the column with those of its bits that came with the rows; -1 if none did.
    """

    moved: tuple[tuple[int, int], ...]
    names: tuple[tuple[str, int], ...]
    tests: tuple[tuple[int, str], ...]
    words: tuple[int, ...]


@attrs.frozen
class Pointed:
    """The places of the clause that errors point at, as offsets into its text: its SKIP and its definitions.

    ``definitions`` has a range of the text for each variable, which is empty if there is nothing to point at.
    """

    text: str = ""
    skip: tuple[int, int] = (0, 0)
    definitions: tuple[tuple[int, int], ...] = ()


@attrs.frozen
class MatchSpec:
    """The specification by which a worker matches rows.

    Parameters
    ----------
    keys : tuple of str
        The user's names for the partition columns, with which the rows begin. This specification refers to all other
        columns by their numbers.
    words : tuple of int
        The columns with the words of tests.
    arrows : Arrows
    output : str
        ``ONE_ROW``, ``SHOW_EMPTY``, ``OMIT_EMPTY`` or ``UNMATCHED``.
    skip : int
        ``PAST_LAST``, ``NEXT_ROW``, ``TO_FIRST``, ``TO_LAST`` or ``NOWHERE``.
    skip_members : tuple of bool
        For each variable, whether the search continues at its rows.
    number : int
        The column with the number of each row in its partition, from 1; -1 if nothing depends on it.
    time : int
        The column of the times that WITHIN limits, as rising or, if ``descending``, falling whole numbers; -1 if there
        is no WITHIN.
    span : int
        The longest time between a match's first row and its last; -1 if nothing limits it.
    shown : tuple of int
        The columns that are shown: of each row, or, with ``ONE_ROW``, of the row at which the match begins.
    slots : tuple of Slot
        The values that follow the shown columns in the answer.
    dependent : Dependent, optional
        The parts of conditions that no test of a single row decides.
    longest : bool
        Whether to take the longest match that begins at a row; of several such, the preferred one.
    counts_untimed : bool
        Whether rows without a time, which come first, are to be counted for an error.
    order : RowOrder, optional
        The order in which the rows are to be put; None if they are in order.
    in_parcels : bool
        Whether the rows come in parcels, many in one.
    neighbours : Neighbours, optional
        The columns that the kernel adds from other rows, if any.
    pointed : Pointed
    """

    keys: tuple[str, ...]
    words: tuple[int, ...]
    arrows: Arrows
    output: str
    skip: int
    skip_members: tuple[bool, ...]
    shown: tuple[int, ...]
    slots: tuple[Slot, ...]
    number: int = -1
    time: int = -1
    time_name: str = ""
    span: int = 0
    descending: bool = False
    dependent: Dependent | None = None
    longest: bool = False
    counts_untimed: bool = False
    order: RowOrder | None = None
    in_parcels: bool = False
    neighbours: Neighbours | None = None
    pointed: Pointed = Pointed()


#: The numbers of the ways to skip, by the words of the clause.
SKIPS: Mapping[str, int] = MappingProxyType(
    {"PAST LAST ROW": PAST_LAST, "TO NEXT ROW": NEXT_ROW, "TO FIRST": TO_FIRST, "TO LAST": TO_LAST}
)
