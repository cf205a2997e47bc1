"""Turns conditions that depend on the match into steps that a kernel evaluates, by the types that Spark finds.

:mod:`cetdsl.ir.rows` defines steps and *cells*, values of a column at a row. The kernel compares two cells by the order
of their values, after Spark has cast them to a common type, so any type with an order is possible. Only terms across
rows, such as ``B.x - A.x``, and totals are numbers in the kernel: BIGINT or DOUBLE, as Spark would compute them;
decimals, as long as Spark would not round them; or microseconds between times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, NoReturn, TypeVar

import attrs
from pyspark.sql import types as T

from cetdsl.analysis.types import is_collated
from cetdsl.errors import UnsupportedQuery
from cetdsl.execution.source import ntz_micros
from cetdsl.ir import rows as ir
from cetdsl.ir.rows import Dependent, Step
from cetdsl.rows.dependent import ARITHMETIC, Bound, Cell, Extreme, Operation, Total, Tree
from cetdsl.rows.resolved import AVERAGE

_WHOLE = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
#: Types whose values a kernel can put into Spark's order.
ORDERED = (T.NumericType, T.StringType, T.BinaryType, T.BooleanType, T.DateType, T.TimestampType, T.TimestampNTZType)
_WHOLE_STEPS = {
    "+": ir.ADD,
    "-": ir.SUBTRACT,
    "*": ir.MULTIPLY,
    "%": ir.REMAINDER,
    "NEGATIVE": ir.NEGATE,
    "ABS": ir.ABSOLUTE,
    "=": ir.EQUAL,
    "<": ir.LESS,
    "<=": ir.LESS_OR_EQUAL,
    "<=>": ir.SAME,
}
_REAL_STEPS = {
    "+": ir.REAL_ADD,
    "-": ir.REAL_SUBTRACT,
    "*": ir.REAL_MULTIPLY,
    "/": ir.REAL_DIVIDE,
    "%": ir.REAL_REMAINDER,
    "NEGATIVE": ir.REAL_NEGATE,
    "ABS": ir.REAL_ABSOLUTE,
    "=": ir.REAL_EQUAL,
    "<": ir.REAL_LESS,
    "<=": ir.REAL_LESS_OR_EQUAL,
    "<=>": ir.REAL_SAME,
}
_TIMES = (T.DateType, T.TimestampType, T.TimestampNTZType)
#: The kinds of numbers, see :meth:`ConditionSteps._number`.
_BIGINT, _DOUBLE, _DECIMAL, _TIME, _LENGTH = "bigint", "double", "decimal", "time", "length of time"
#: The most digits of a decimal in the kernel; the next lines give the digits of whole numbers combined with decimals.
_DIGITS = 18
_DIGITS_OF: Mapping[type[T.DataType], int] = {T.ByteType: 3, T.ShortType: 5, T.IntegerType: 10, T.LongType: 20}
_CAST = "cast it to DOUBLE, as in CAST(A.x AS DOUBLE)"
_LOGIC = {"AND": ir.BOTH, "OR": ir.EITHER}
#: Comparisons with their operands exchanged.
_EXCHANGED = {">": "<", ">=": "<="}

#: Returns Spark's types for expressions over the columns of a row; each comes with the place that errors point at.
TypesOf = Callable[[Sequence[tuple[str, tuple[int, int]]]], Sequence[T.DataType]]
_Steps = list[Step]


class _Kind(NamedTuple):
    """The kind of a number; of a decimal, also its digits, and how many of them are behind the point."""

    name: str
    digits: int = 20
    scale: int = 0

    @property
    def steps(self) -> Mapping[str, int]:
        """The number of the step that each operator takes for operands of this kind."""
        return _REAL_STEPS if self.name == _DOUBLE else _WHOLE_STEPS


class _Number(NamedTuple):
    """The steps that compute a number."""

    steps: _Steps
    kind: _Kind


_Key = TypeVar("_Key")


class ConditionSteps:
    """Collects the steps of all conditions, and the columns, picks, sets and totals that they refer to.

    Parameters
    ----------
    types_of : callable
        The types of expressions; see :data:`TypesOf`.
    value : callable
        The number of the column with an expression's value in each row.
    text : str
        The text of the clause, which errors point into.
    """

    def __init__(self, types_of: TypesOf, value: Callable[[str], int], text: str) -> None:
        self._types_of, self._value, self._text = types_of, value, text
        self._whole: dict[tuple[int, bool], int] = {}
        self._real: dict[int, int] = {}
        self._sets: dict[tuple[bool, ...], int] = {}
        self._picks: dict[tuple[int, int, int], int] = {}
        self._extremes: dict[tuple[int, int, int], int] = {}
        self._totals: dict[tuple[int, int, int], int] = {}
        self._labelled: dict[tuple[int, ...], int] = {}
        self._known: dict[str, T.DataType] = {}

    def dependent(self, conditions: Mapping[int, Tree], variables: int, whole: Tree | None = None) -> Dependent | None:
        """The conditions of some variables, and of whole matches; None if there is none."""
        trees = [*conditions.values(), *([] if whole is None else [whole])]
        if not trees:
            return None
        self._learn([leaf for tree in trees for leaf in _leaves(tree)])
        steps = [tuple(self._truth(conditions[v])) if v in conditions else () for v in range(variables)]
        final = tuple(self._truth(whole)) if whole is not None else ()
        return Dependent(
            tuple(column for column, _ in self._whole),
            tuple(coded for _, coded in self._whole),
            tuple(self._real),
            tuple(self._sets),
            tuple(self._picks),
            tuple(self._extremes),
            tuple(self._totals),
            tuple(steps),
            final,
            tuple(self._labelled),
        )

    def _learn(self, leaves: Sequence[Cell | Total]) -> None:
        """Has Spark determine the types of all leaves at once."""
        asked = {_sql_of(leaf): leaf.span for leaf in leaves if _sql_of(leaf)}
        for leaf in leaves:
            if isinstance(leaf, Cell) and isinstance(leaf.at, Extreme):
                asked[leaf.at.sql] = leaf.span
        self._known.update(zip(asked, self._types_of(list(asked.items())), strict=True))

    def _refuse(self, message: str, hint: str, tree: Tree) -> NoReturn:
        raise UnsupportedQuery(message, hint=hint, span=tree.span, text=self._text)

    # -- truth values --------------------------------------------------------------------------------------------------

    def _truth(self, tree: Tree) -> _Steps:
        if isinstance(tree, Cell):
            kind = self._known[tree.sql]
            if not isinstance(kind, (T.BooleanType, T.NullType)):
                hint = "compare it with something"
                self._refuse(f"a part of a condition is of type {kind.simpleString()}, not true or false", hint, tree)
            return [self._cell(tree, "boolean")]
        if isinstance(tree, Total):
            self._refuse("a part of a condition is a number, not true or false", "compare it with something", tree)
        operator, operands = tree.operator, tree.operands
        if operator in _LOGIC:
            return [*self._truth(operands[0]), *self._truth(operands[1]), (_LOGIC[operator], -1, -1, -1)]
        if operator == "NOT":
            return [*self._truth(operands[0]), (ir.NEITHER, -1, -1, -1)]
        if operator == "IS NULL":
            [tested] = operands
            steps = self._truth(tested) if self._is_truth(tested) else self._number(tested).steps
            return [*steps, (ir.IS_NULL, -1, -1, -1)]
        if operator == "<>":
            return self._truth(Operation("NOT", (Operation("=", operands, tree.span),), tree.span))
        if operator in _EXCHANGED:
            return self._truth(Operation(_EXCHANGED[operator], operands[::-1], tree.span))
        if operator not in _WHOLE_STEPS or operator in ARITHMETIC:
            self._refuse("a part of a condition is a number, not true or false", "compare it with something", tree)
        left, right = operands
        if isinstance(left, Cell) and isinstance(right, Cell) and not self._are_intervals(left, right):
            return self._compared_cells(tree, left, right)
        steps, numbers = self._same_numbers(tree)
        return [*steps, (numbers.steps[operator], -1, -1, -1)]

    def _is_truth(self, tree: Tree) -> bool:
        if isinstance(tree, Operation):
            return tree.operator not in ARITHMETIC
        return isinstance(tree, Cell) and isinstance(self._known[tree.sql], T.BooleanType)

    def _are_intervals(self, *cells: Cell) -> bool:
        return all(isinstance(self._known[cell.sql], T.DayTimeIntervalType) for cell in cells)

    def _compared_cells(self, tree: Operation, left: Cell, right: Cell) -> _Steps:
        one, other = self._known[left.sql], self._known[right.sql]
        common = one
        if one != other:
            [array] = self._types_of([(f"array({left.sql}, {right.sql})", tree.span)])
            assert isinstance(array, T.ArrayType)
            common = array.elementType
            if isinstance(common, T.StringType) and not {type(one), type(other)} <= {T.StringType, T.NullType}:
                # Without ANSI mode, the common type to which Spark casts both differs between =, IN and arrays.
                kind = (other if isinstance(one, T.StringType) else one).simpleString()
                what = f"without ANSI mode a text is not compared with a value of type {kind} across rows"
                self._refuse(what, f"cast one of them, as in CAST(B.x AS {kind})", tree)
        if not isinstance(common, (*ORDERED, T.NullType)) or is_collated(common.simpleString()):
            hint = "compare a field or an element of them, or texts of Spark's default collation"
            self._refuse(f"values of type {common.simpleString()} cannot be compared across rows", hint, tree)
        kind = "boolean" if isinstance(common, T.NullType) else common.simpleString()
        cells = [self._cell(cell, kind, coded=True) for cell in (left, right)]
        return [*cells, (_WHOLE_STEPS[tree.operator], -1, -1, -1)]

    # -- numbers -------------------------------------------------------------------------------------------------------

    def _same_numbers(self, tree: Operation) -> tuple[_Steps, _Kind]:
        """The steps of two operands as numbers of one kind, and that kind."""
        one, other = (self._number(side) for side in tree.operands)
        names = {one.kind.name, other.kind.name}
        if names & {_TIME, _LENGTH}:
            self._refuse_mixed(tree, one.kind.name, other.kind.name)
            return [*one.steps, *other.steps], one.kind
        if _DOUBLE in names or (tree.operator == "/" and names == {_BIGINT}):
            sides = zip(tree.operands, (one, other))
            return [step for side, number in sides for step in self._as_double(side, number)], _Kind(_DOUBLE)
        if names == {_BIGINT}:
            return [*one.steps, *other.steps], one.kind
        if tree.operator == "/":
            hint = "multiply the other side, as in B.x > 1.5 * A.x, or cast them to DOUBLE"
            self._refuse("decimals are not divided across rows", hint, tree)
        scale = max(one.kind.scale, other.kind.scale)
        if tree.operator != "*":
            one, other = (self._rescaled(number, scale) for number in (one, other))
        return [*one.steps, *other.steps], self._kind_of_decimals(tree, one.kind, other.kind)

    def _as_double(self, side: Tree, number: _Number) -> _Steps:
        if number.kind.name == _DECIMAL:
            if not isinstance(side, Cell):
                self._refuse("what is computed of decimals is not made a DOUBLE across rows", _CAST, side)
            return [self._cell(side, _DOUBLE)]
        return [*number.steps, (ir.TO_REAL, -1, -1, -1)] if number.kind.name == _BIGINT else number.steps

    def _rescaled(self, number: _Number, scale: int) -> _Number:
        """A decimal in units of ten to the power of minus ``scale``."""
        more = scale - number.kind.scale
        if not more:
            return number
        steps: _Steps = [*number.steps, (ir.CONSTANT, -1, 10**more, -1), (ir.MULTIPLY, -1, -1, -1)]
        return _Number(steps, _Kind(_DECIMAL, number.kind.digits + more, scale))

    def _kind_of_decimals(self, tree: Operation, one: _Kind, other: _Kind) -> _Kind:
        """The kind of the result, as in Spark; raises if Spark would round the result."""
        if tree.operator == "*":
            kind = _Kind(_DECIMAL, one.digits + other.digits + 1, one.scale + other.scale)
        else:
            kind = _Kind(_DECIMAL, max(one.digits, other.digits) + 1, one.scale)
        if kind.digits > T.DecimalType(38).precision or kind.scale > _DIGITS:
            self._refuse("the result may have more digits than Spark keeps of a decimal", _CAST, tree)
        return kind

    def _refuse_mixed(self, tree: Operation, one: str, other: str) -> None:
        """Raises unless an operation combines two times, or two lengths of time, in a supported way."""
        if one != other:
            hint = "compare a difference of times with INTERVAL '30' DAY, and B.t with A.t + INTERVAL '1' HOUR"
            both = " and a ".join(sorted((one, other)))
            self._refuse(f"a {both} are not brought together across rows", hint, tree)
        if tree.operator in ARITHMETIC and tree.operator not in (("-",) if one == _TIME else ("+", "-")):
            self._refuse(f"{tree.operator} is not known of a {one} across rows", "compare differences of times", tree)

    def _number(self, tree: Tree) -> _Number:
        """Returns the steps of a number, and its kind.

        A decimal is represented as a whole number of units of its last digit. A time is represented by the microseconds
        of a clock, and so is a length of time, the difference of two times.
        """
        if isinstance(tree, Cell):
            return self._number_of_row(tree)
        if isinstance(tree, Total):
            return self._total(tree)
        operator = tree.operator
        if operator not in ARITHMETIC:
            self._refuse("a truth value is no number", "write CASE WHEN in what looks at one row", tree)
        if len(tree.operands) == 2:
            steps, kind = self._same_numbers(tree)
            kind = _Kind(_LENGTH) if kind.name == _TIME else kind
        else:
            steps, kind = self._number(tree.operands[0])
            if kind.name == _TIME:
                self._refuse(f"{operator} takes no time", "compare the difference of two", tree)
        return _Number([*steps, (kind.steps[operator], -1, -1, -1)], kind)

    def _number_of_row(self, cell: Cell) -> _Number:
        kind = self._known[cell.sql]
        if isinstance(kind, _WHOLE):
            # A constant need not be sent with each row.
            is_constant = cell.at is None and cell.sql.isdecimal()
            step = (ir.CONSTANT, -1, int(cell.sql), -1) if is_constant else self._cell(cell, _BIGINT)
            return _Number([step], _Kind(_BIGINT, _DIGITS_OF[type(kind)]))
        if isinstance(kind, T.DoubleType):
            return _Number([self._cell(cell, _DOUBLE)], _Kind(_DOUBLE))
        if isinstance(kind, T.DecimalType) and kind.precision <= _DIGITS:
            units = _each(cell, lambda sql: _units(sql, kind))
            return _Number([self._cell(units, _BIGINT)], _Kind(_DECIMAL, kind.precision, kind.scale))
        if isinstance(kind, T.DayTimeIntervalType):
            return _Number([self._cell(_each(cell, _length_clock), _BIGINT)], _Kind(_LENGTH))
        if isinstance(kind, _TIMES):
            return _Number([self._cell(_each(cell, _clock), _BIGINT)], _Kind(_TIME))
        what = f"values of type {kind.simpleString()} cannot be computed with across rows"
        return self._refuse(what, _CAST, cell)

    def _total(self, total: Total) -> _Number:
        if total.kind == ir.NUMBER:
            return _Number([(ir.MATCH_NUMBER, -1, -1, -1)], _Kind(_BIGINT))
        if total.kind == ir.COUNT:
            column = -1 if not total.sql else self._column(total.sql, "boolean", False)
            return _Number([self._step_of_total(total, ir.COUNTED, ir.ROWS, column)], _Kind(_BIGINT))
        kind, is_average = self._known[_sql_of(total)], total.kind == AVERAGE
        if isinstance(kind, T.LongType):
            column = self._column(total.sql, _BIGINT, False)
            return _Number([self._step_of_total(total, ir.WHOLE_SUM, ir.WHOLE, column)], _Kind(_BIGINT))
        if isinstance(kind, T.DoubleType):
            step = ir.AVERAGE_OF if is_average else ir.REAL_SUM
            column = self._real_column(total.sql)
            return _Number([self._step_of_total(total, step, ir.REAL, column)], _Kind(_DOUBLE))
        # Spark gives a sum ten more digits than its values, and an average four more, all of them behind the point.
        digits = kind.precision - (4 if is_average else 10) if isinstance(kind, T.DecimalType) else 0
        if not isinstance(kind, T.DecimalType) or digits > _DIGITS:
            what = f"{total.kind}s of type {kind.simpleString()} cannot be computed while rows are matched"
            self._refuse(what, _CAST, total)
        of_values = T.DecimalType(digits, kind.scale - 4 * is_average)
        column = self._column(_units(total.sql, of_values), _BIGINT, False)
        step = ir.DECIMAL_AVERAGE if is_average else ir.WHOLE_SUM
        return _Number(
            [self._step_of_total(total, step, ir.WHOLE, column)], _Kind(_DECIMAL, kind.precision, kind.scale)
        )

    def _step_of_total(self, total: Total, step: int, what: int, column: int) -> Step:
        return step, _numbered(self._totals, (what, self._set(total.members), column)), -1, -1

    # -- cells ---------------------------------------------------------------------------------------------------------

    def _cell(self, cell: Cell, kind: str, coded: bool = False) -> Step:
        is_real = kind == _DOUBLE and not coded

        def number(sql: str) -> int:
            if not sql:
                return -1
            return self._real_column(sql) if is_real else self._column(sql, kind, coded)

        pick, absent = self._pick(cell), number(cell.absent)
        if not cell.each:
            return ir.REAL_CELL if is_real else ir.WHOLE_CELL, pick, number(cell.sql), absent
        assert isinstance(cell.at, Bound), cell
        move, members = cell.at.move, cell.at.members
        columns = [number(sql if move or is_asked else "") for sql, is_asked in zip(cell.each, members)]
        label = _numbered(self._labelled, (move, *columns))
        return ir.REAL_OF_LABEL if is_real else ir.WHOLE_OF_LABEL, pick, label, absent

    def _column(self, sql: str, kind: str, coded: bool) -> int:
        return _numbered(self._whole, (self._value(f"CAST({sql} AS {kind})"), coded))

    def _real_column(self, sql: str) -> int:
        return _numbered(self._real, self._value(f"CAST({sql} AS double)"))

    def _set(self, members: tuple[bool, ...]) -> int:
        return _numbered(self._sets, members)

    def _pick(self, cell: Cell) -> int:
        """The number of the row that a cell looks at; -1 for the one that is tested."""
        if cell.at is None:
            return -1
        if isinstance(cell.at, Bound):
            kind = ir.FROM_FIRST if cell.at.first else ir.UP_TO_LAST
            return _numbered(self._picks, (kind, self._set(cell.at.members), cell.at.offset))
        kind_of = self._known[cell.at.sql]
        if not isinstance(kind_of, ORDERED) or is_collated(kind_of.simpleString()):
            hint = "take the MIN or MAX of numbers, times or texts of Spark's default collation"
            self._refuse(f"MIN and MAX of values of type {kind_of.simpleString()} are not known there", hint, cell)
        column = _numbered(self._whole, (self._value(cell.at.sql), True))
        extreme = _numbered(self._extremes, (self._set(cell.at.members), column, int(cell.at.greatest)))
        return _numbered(self._picks, (ir.EXTREME, extreme, 0))


def _each(cell: Cell, write: Callable[[str], str]) -> Cell:
    """Returns the cell with ``write`` applied to each piece of SQL that gives its value."""
    each = tuple(map(write, cell.each))
    return attrs.evolve(cell, sql=write(cell.sql), absent=cell.absent and write(cell.absent), each=each)


def _units(number: str, kind: T.DecimalType) -> str:
    """Returns the SQL for a decimal as a whole number of the smallest units that its type can express."""
    return f"CAST({number} AS {kind.simpleString()}) * {10**kind.scale}BD"


def _clock(time: str) -> str:
    """The SQL for a time as microseconds of the session's clock, whose differences are those that Spark gives."""
    return ntz_micros(f"CAST({time} AS timestamp_ntz)")


def _length_clock(length: str) -> str:
    """The SQL for a length of time in microseconds."""
    return ntz_micros(f"(TIMESTAMP_NTZ '1970-01-01' + {length})")


def _numbered(known: dict[_Key, int], key: _Key) -> int:
    """The number of a key, which is the next one if it is new."""
    return known.setdefault(key, len(known))


def _leaves(tree: Tree) -> list[Cell | Total]:
    if isinstance(tree, Operation):
        return [leaf for operand in tree.operands for leaf in _leaves(operand)]
    return [tree]


def _sql_of(leaf: Cell | Total) -> str:
    """Returns the SQL whose type Spark determines: a cell, or the sum or average itself."""
    if isinstance(leaf, Cell):
        return leaf.sql
    return (
        "" if leaf.kind in (ir.COUNT, ir.NUMBER) else f"{'avg' if leaf.kind == AVERAGE else 'sum'}({leaf.sql}) OVER ()"
    )
