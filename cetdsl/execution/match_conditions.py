"""Turns conditions that depend on the match into steps that a kernel evaluates, by the types that Spark finds.

Two cells are compared by the order of their values, once Spark has cast them to a common type: any type that has an
order will do. Only what is computed across rows, ``B.x - A.x``, and totals are numbers in the kernel: BIGINT or DOUBLE,
as Spark would compute them. Decimals are refused there, because what is exact in Spark must not be rounded here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn, TypeVar

from pyspark.sql import types as T

from cetdsl.errors import UnsupportedQuery
from cetdsl.ir import rows as ir
from cetdsl.ir.rows import Dependent, Step
from cetdsl.rows.dependent import ARITHMETIC, Bound, Cell, Extreme, Operation, Total, Tree
from cetdsl.rows.resolve import AVERAGE

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
_LOGIC = {"AND": ir.BOTH, "OR": ir.EITHER}
#: Comparisons with their operands exchanged.
_EXCHANGED = {">": "<", ">=": "<="}

#: Asks Spark for the types of expressions over the columns of a row; the places are those that errors point at.
TypesOf = Callable[[Sequence[tuple[str, tuple[int, int]]]], Sequence[T.DataType]]
_Steps = list[Step]
_Key = TypeVar("_Key")


class ConditionSteps:
    """Collects the steps of all conditions, and what they need.

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
        )

    def _learn(self, leaves: Sequence[Cell | Total]) -> None:
        """Asks for the types of all leaves at once."""
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
            steps = self._truth(tested) if self._is_truth(tested) else self._number(tested)[0]
            return [*steps, (ir.IS_NULL, -1, -1, -1)]
        if operator == "<>":
            return self._truth(Operation("NOT", (Operation("=", operands, tree.span),), tree.span))
        if operator in _EXCHANGED:
            return self._truth(Operation(_EXCHANGED[operator], operands[::-1], tree.span))
        if operator not in _WHOLE_STEPS or operator in ARITHMETIC:
            self._refuse("a part of a condition is a number, not true or false", "compare it with something", tree)
        left, right = operands
        if isinstance(left, Cell) and isinstance(right, Cell):
            return self._compared_cells(tree, left, right)
        steps, is_real = self._same_numbers(tree)
        return [*steps, ((_REAL_STEPS if is_real else _WHOLE_STEPS)[operator], -1, -1, -1)]

    def _is_truth(self, tree: Tree) -> bool:
        if isinstance(tree, Operation):
            return tree.operator not in ARITHMETIC
        return isinstance(tree, Cell) and isinstance(self._known[tree.sql], T.BooleanType)

    def _compared_cells(self, tree: Operation, left: Cell, right: Cell) -> _Steps:
        one, other = self._known[left.sql], self._known[right.sql]
        common = one
        if one != other:
            [array] = self._types_of([(f"array({left.sql}, {right.sql})", tree.span)])
            assert isinstance(array, T.ArrayType)
            common = array.elementType
        if not isinstance(common, (*ORDERED, T.NullType)) or "collate" in common.simpleString():
            hint = "compare a field or an element of them, or texts of Spark's default collation"
            self._refuse(f"values of type {common.simpleString()} cannot be compared across rows", hint, tree)
        kind = "boolean" if isinstance(common, T.NullType) else common.simpleString()
        cells = [self._cell(cell, kind, coded=True) for cell in (left, right)]
        return [*cells, (_WHOLE_STEPS[tree.operator], -1, -1, -1)]

    # -- numbers -------------------------------------------------------------------------------------------------------

    def _same_numbers(self, tree: Operation) -> tuple[_Steps, bool]:
        """The steps of two operands as numbers of one kind, and whether these are real."""
        sides = [self._number(side) for side in tree.operands]
        is_real = any(kind == "double" for _, kind in sides)
        if not is_real and any(kind == "decimal" for _, kind in sides):
            hint = "cast one of them to DOUBLE, as in 1.5D or CAST(A.x AS DOUBLE)"
            self._refuse("decimals cannot be computed with across rows", hint, tree)
        is_real = is_real or tree.operator == "/"
        steps: _Steps = []
        for side, (found, kind) in zip(tree.operands, sides):
            if kind == "decimal":
                assert isinstance(side, Cell)
                found = [self._cell(side, "double")]
            steps += found
            if is_real and kind == "bigint":
                steps.append((ir.TO_REAL, -1, -1, -1))
        return steps, is_real

    def _number(self, tree: Tree) -> tuple[_Steps, str]:
        """The steps of a number, and its type: bigint, double, or decimal, which are no steps yet."""
        if isinstance(tree, Cell):
            kind = self._known[tree.sql]
            if isinstance(kind, _WHOLE):
                return [self._cell(tree, "bigint")], "bigint"
            if isinstance(kind, T.DoubleType):
                return [self._cell(tree, "double")], "double"
            if isinstance(kind, T.DecimalType):
                return [], "decimal"
            hint = "cast it to DOUBLE; of times, write B.t < A.t + INTERVAL '1' HOUR: one row on each side"
            self._refuse(f"values of type {kind.simpleString()} cannot be computed with across rows", hint, tree)
        if isinstance(tree, Total):
            return self._total(tree)
        operator = tree.operator
        if operator not in ARITHMETIC:
            self._refuse("a truth value is no number", "write CASE WHEN in what looks at one row", tree)
        if len(tree.operands) == 2:
            steps, is_real = self._same_numbers(tree)
        else:
            steps, single = self._number(tree.operands[0])
            if single == "decimal":
                self._refuse("decimals cannot be computed with across rows", "cast them to DOUBLE", tree)
            is_real = single == "double"
        done = (_REAL_STEPS if is_real else _WHOLE_STEPS)[operator]
        return [*steps, (done, -1, -1, -1)], "double" if is_real else "bigint"

    def _total(self, total: Total) -> tuple[_Steps, str]:
        rows = self._set(total.members)
        if total.kind == ir.COUNT:
            column = -1 if not total.sql else self._column(total.sql, "boolean", False)
            return [(ir.COUNTED, _numbered(self._totals, (ir.ROWS, rows, column)), -1, -1)], "bigint"
        kind = self._known[_sql_of(total)]
        if not isinstance(kind, (T.LongType, T.DoubleType)):
            hint = "cast what is added up to DOUBLE"
            self._refuse(
                f"{total.kind}s of type {kind.simpleString()} cannot be computed while rows are matched", hint, total
            )
        if isinstance(kind, T.LongType):
            column = self._column(total.sql, "bigint", False)
            return [(ir.WHOLE_SUM, _numbered(self._totals, (ir.WHOLE, rows, column)), -1, -1)], "bigint"
        column = self._real_column(total.sql)
        step = ir.AVERAGE_OF if total.kind == AVERAGE else ir.REAL_SUM
        return [(step, _numbered(self._totals, (ir.REAL, rows, column)), -1, -1)], "double"

    # -- cells ---------------------------------------------------------------------------------------------------------

    def _cell(self, cell: Cell, kind: str, coded: bool = False) -> Step:
        if kind == "double" and not coded:
            return (
                ir.REAL_CELL,
                self._pick(cell),
                self._real_column(cell.sql),
                self._real_column(cell.absent) if cell.absent else -1,
            )
        column = self._column(cell.sql, kind, coded)
        return ir.WHOLE_CELL, self._pick(cell), column, self._column(cell.absent, kind, coded) if cell.absent else -1

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
        if not isinstance(kind_of, ORDERED) or "collate" in kind_of.simpleString():
            hint = "take the MIN or MAX of numbers, times or texts of Spark's default collation"
            self._refuse(f"MIN and MAX of values of type {kind_of.simpleString()} are not known there", hint, cell)
        column = _numbered(self._whole, (self._value(cell.at.sql), True))
        extreme = _numbered(self._extremes, (self._set(cell.at.members), column, int(cell.at.greatest)))
        return _numbered(self._picks, (ir.EXTREME, extreme, 0))


def _numbered(known: dict[_Key, int], key: _Key) -> int:
    """The number of a key, which is the next one if it is new."""
    return known.setdefault(key, len(known))


def _leaves(tree: Tree) -> list[Cell | Total]:
    if isinstance(tree, Operation):
        return [leaf for operand in tree.operands for leaf in _leaves(operand)]
    return [tree]


def _sql_of(leaf: Cell | Total) -> str:
    """What Spark is asked the type of: a cell, or the sum or average itself."""
    if isinstance(leaf, Cell):
        return leaf.sql
    return "" if leaf.kind == ir.COUNT else f"{'avg' if leaf.kind == AVERAGE else 'sum'}({leaf.sql}) OVER ()"
