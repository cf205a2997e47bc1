"""The specification of a MATCH_RECOGNIZE kernel: what a worker must know to match rows."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import attrs

from cetdsl.ir.slots import TESTS_IN_WORD
from cetdsl.ir.sorting import RowOrder

#: Stands among the positions that may follow where a match may end.
ACCEPT = -1
#: Which rows are shown.
ONE_ROW, SHOW_EMPTY, OMIT_EMPTY, UNMATCHED = "one row", "show empty", "omit empty", "unmatched"
#: Where the search goes on after a match: numbers, because a kernel is told.
#: ``NOWHERE`` ends the search in the partition.
PAST_LAST, NEXT_ROW, TO_FIRST, TO_LAST, NOWHERE = range(5)
#: What a slot holds of the rows of a match that are bound to some variables; see :class:`Slot`.
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
#: The label of a row, in place of a column.
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

    ``members`` says of each variable whether its rows are asked for, and ``running`` whether only those up to the row
    that is shown are. By ``kind``: ``row`` is the value at the first or the last of these rows, or ``offset`` rows of
    them further inside; ``number`` is that of the match; ``count`` counts the rows where the column is true (``LABEL``:
    all); ``sum`` adds up whole numbers, doubles or decimals; ``mean`` is the average of decimals; ``least`` and
    ``greatest`` are values; ``list`` has them all but NULL.

    A sum or a mean of decimals has as many digits, and so many of them behind the point, as ``decimal`` says, and may
    be that of the ``distinct`` values.

    If the value depends on the variable that a row is bound to, ``columns`` has that of each; a label may be that of
    the row ``move`` rows behind, if it is of the same match.
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


#: What a step of a condition does: it takes operands from a stack and puts its result there. Numbers are whole or real,
#: truth values are whole.
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
#: Which row of a set a pick is: one from its first row on, one up to its last, or that with an extreme value.
FROM_FIRST, UP_TO_LAST, EXTREME = range(3)
#: What a total adds up.
ROWS, WHOLE, REAL = range(3)

#: A step: what it does; of a cell the pick (-1: the row that is tested), its column and the column with its value where
#: there is no such row (-1: NULL); of a constant, in place of a column, its value; of a total its number.
Step = tuple[int, int, int, int]


@attrs.frozen
class Dependent:
    """Conditions that depend on rows that the match has bound before.

    Parameters
    ----------
    whole, real : tuple of int
        The columns with whole and real numbers; cells are numbers among these.
    coded : tuple of bool
        Of each whole column whether only the order of its values counts.
    sets : tuple of tuple of bool
        Of each set of rows the variables that they are bound to.
    picks : tuple of tuple of int
        Of each pick its kind, the number of its set (or extreme) and the offset.
    extremes : tuple of tuple of int
        Of each the number of its set, its whole column, and 1 if the greatest value is asked for.
    totals : tuple of tuple of int
        Of each what it adds up, the number of its set and the column; -1 counts all rows.
    steps : tuple of tuple of Step
        Of each variable its condition, empty where it has none.
    final : tuple of Step
        The condition of a whole match, tested where it would end; empty where there is none.
    labelled : tuple of tuple of int
        Of each cell that depends on the variable of its row how many rows behind the pick that row is, and then the
        column for each variable; -1 where it is NULL.
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
    """The values that the kernel itself computes of rows and those before and behind them in their partition.

    It becomes more columns of the rows, behind those that came: first the values of other rows, then words of tests.

    Parameters
    ----------
    moved : tuple of tuple of int
        Of each value of another row its column, and how many rows behind it is; less than 0 is before.
    names : tuple of tuple of str and int
        The columns that conditions look at by name, those of other rows, too.
    tests : tuple of tuple of int and str
        The conditions in SQL, each with the number of its test.
    words : tuple of int
        Of each word the column that has the other tests in it; -1 if there are none.
    """

    moved: tuple[tuple[int, int], ...]
    names: tuple[tuple[str, int], ...]
    tests: tuple[tuple[int, str], ...]
    words: tuple[int, ...]


@attrs.frozen
class Pointed:
    """The places that errors point at, as offsets into the text of the clause: its SKIP and its definitions.

    ``definitions`` has a part of the text for each variable, which is empty where there is nothing to point at.
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
        The partition columns as the user calls them; the rows begin with as many columns, which tell partitions apart.
        All others have the numbers that this specification gives them.
    words : tuple of int
        The columns with the words of tests.
    arrows : Arrows
    output : str
        ``ONE_ROW``, ``SHOW_EMPTY``, ``OMIT_EMPTY`` or ``UNMATCHED``.
    skip : int
        ``PAST_LAST``, ``NEXT_ROW``, ``TO_FIRST``, ``TO_LAST`` or ``NOWHERE``.
    skip_members : tuple of bool
        Of each variable whether the search goes on at its rows.
    number : int
        The column with the number of each row in its partition, from 1; -1 if nothing depends on it.
    time : int
        The column of the times that WITHIN limits, as rising or, if ``descending``, falling whole numbers; -1 without
        it.
    span : int
        The most that the time of a match's last row may be from that of its first; -1 if nothing limits it.
    shown : tuple of int
        The columns that are shown: of each row, or, with ``ONE_ROW``, of the row at which the match begins.
    slots : tuple of Slot
        What follows the shown columns in the answer.
    dependent : Dependent, optional
        What conditions ask beside the tests.
    longest : bool
        Whether the longest match that begins at a row is taken, and only of several such the preferred one.
    counts_untimed : bool
        Whether rows without a time, which come first, are to be counted for an error.
    order : RowOrder, optional
        The order in which the rows are to be put; None if they are in order.
    in_parcels : bool
        Whether the rows come in parcels, many in one.
    neighbours : Neighbours, optional
        What is found out about the neighbours of rows, if anything is.
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
