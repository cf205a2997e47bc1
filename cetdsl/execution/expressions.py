"""Turns terms into Spark columns."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, TypeVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cetdsl.analysis.types import decimal_digits, literal_type, type_of
from cetdsl.errors import CetdslError, UnsupportedQuery
from cetdsl.ir.schema import Schema
from cetdsl.pattern.expressions import (
    HOLDS,
    Aggregate,
    Attribute,
    Binary,
    Call,
    Expr,
    Guarded,
    Length,
    Literal,
    SparkColumn,
    Unary,
)

T = TypeVar("T")

_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    **HOLDS,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": operator.mod,
    "and": operator.and_,
    "or": operator.or_,
}

#: The most digits of a decimal.
_DECIMAL_DIGITS = 38
#: Functions whose two arguments PySpark takes in the reverse of SQL's order.
_EXCHANGED = ("trim", "ltrim", "rtrim")

Resolve = Callable[[Expr], Column]


def to_column(expr: Expr, resolve: Resolve, schema: Schema) -> Column:
    """Turns a term into a Spark column.

    ``resolve`` returns the column of an attribute, an aggregate, LENGTH, or a condition given as a Spark column. The
    names of attributes are those of ``schema``.
    """
    if isinstance(expr, Literal):
        return _constant(expr.value)
    if isinstance(expr, (Attribute, Aggregate, Length, SparkColumn)):
        return resolve(expr)
    if isinstance(expr, Unary):
        operand = to_column(expr.operand, resolve, schema)
        return -operand if expr.op == "-" else ~operand
    if isinstance(expr, Binary):
        # As in SQL, Spark infers the decimal type of a literal on either side.
        sides = (to_column(side, resolve, schema) for side in (expr.left, expr.right))
        return _BINARY[expr.op](*sides)  # type: ignore[no-any-return]
    if isinstance(expr, Guarded):
        condition, term = (to_column(part, resolve, schema) for part in expr.children)
        return F.when(condition, term)
    if isinstance(expr, Call):
        arguments = [to_column(argument, resolve, schema) for argument in expr.arguments]
        if expr.name == "in":
            return _is_in(arguments[0], type_of(expr.arguments[0], schema), expr.arguments[1:], arguments[1:])
        if expr.name in _EXCHANGED and len(arguments) == 2:
            arguments.reverse()
        return F.call_function(expr.name, *arguments)
    raise UnsupportedQuery(f"{expr!r} has no Spark form")


def _constant(value: object) -> Column:
    """Returns a constant as a Spark column; a time without a zone is one of the session's, as in SQL."""
    if isinstance(value, datetime) and value.tzinfo is None:
        # PySpark would interpret it in the time zone of the driver's system.
        return F.expr(f"TIMESTAMP_LTZ '{value.isoformat(' ')}'")
    if isinstance(value, date) and not isinstance(value, datetime) and value.year < 1000:
        # PySpark would write the year with fewer digits than Java requires.
        return F.expr(f"DATE '{value.isoformat()}'")
    return F.lit(value)


def raised(error: type[CetdslError], *message: str | Column, hint: str, kind: str) -> Column:
    """Returns a column of type ``kind`` that raises an error of cetdsl when Spark evaluates it.

    :func:`cetdsl.errors.recover` reads the error. Columns in the message stand for their values.
    """
    text = [f"cetdsl.errors.{error.__name__}: ", *message, f"\n  hint: {hint}"]
    parts = [F.lit(part) if isinstance(part, str) else part for part in text]
    return F.raise_error(F.concat(*parts)).cast(kind)


def unscaled(value: Column, digits: int, scale: int) -> Column:
    """Returns a decimal in units of its last digit as a whole number; whole numbers stay as they are.

    The decimal has ``digits`` digits, ``scale`` of them behind the point.
    """
    if not scale:
        whole = value
    elif digits + scale + 2 <= _DECIMAL_DIGITS:  # those of the product
        whole = value * F.lit(Decimal(10**scale))
    else:
        # A product of so many digits would be rounded. Without ANSI mode, a cast to a string would write small decimals
        # with an exponent.
        whole = F.translate(F.format_number(value, scale), ",.", "")
    return whole.cast(f"decimal({_DECIMAL_DIGITS},0)")


def _is_in(column: Column, kind: str | None, options: Sequence[Expr], columns: Sequence[Column]) -> Column:
    """Whether a column of a type, if that is known, equals one of some options.

    Spark takes minutes to plan thousands of comparisons, so IN is preferred. But Spark's IN casts all options to one
    type before it compares, so it is used only for the options for which that makes no difference.
    """
    listed: list[Column] = []
    cases: list[Column] = []
    for option, value in dict(zip(options, columns, strict=True)).items():
        if isinstance(option, Literal) and _is_compared_exactly(kind, option.value):
            listed.append(value)
        else:
            cases.append(column == value)
    if listed:
        cases.append(column.isin(listed))
    return combine(operator.or_, cases)


def _is_compared_exactly(kind: str | None, value: object) -> bool:
    """Whether a value of this type and a constant keep their values in any list of such constants."""
    if value == 0 or value != value:
        return False  # Spark's set of many doubles distinguishes 0 from -0
    digits = decimal_digits(kind), decimal_digits(literal_type(value))
    if digits[0] is not None and digits[1] is not None:
        return all(whole - scale <= 20 and scale <= 18 for whole, scale in (digits[0], digits[1]))
    return kind is not None and kind == literal_type(value)


def of_first(choices: Sequence[tuple[Column, Column]], otherwise: Column) -> Column:
    """Returns the value of the first condition that holds, or ``otherwise`` if none does."""
    value: Any = F
    for condition, chosen in choices:
        value = value.when(condition, chosen)
    return value.otherwise(otherwise) if choices else otherwise


def combine(operation: Callable[[T, T], T], parts: Sequence[T]) -> T:
    """Combines columns or plans by an associative operation as a balanced tree: Spark Connect refuses depth 100."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return operation(combine(operation, parts[:middle]), combine(operation, parts[middle:]))


def union(parts: list[DataFrame]) -> DataFrame:
    """Returns the rows of all parts; a column that some part lacks is NULL there."""
    return combine(lambda a, b: a.unionByName(b, allowMissingColumns=True), parts)
