"""Turns terms into Spark columns."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from datetime import date, datetime
from typing import Any, TypeVar

from pyspark.sql import Column
from pyspark.sql import functions as F

from cetdsl.errors import UnsupportedQuery
from cetdsl.pattern.expressions import (
    HOLDS,
    Aggregate,
    Attribute,
    Binary,
    Call,
    Expr,
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

Resolve = Callable[[Expr], Column]


def to_column(expr: Expr, resolve: Resolve) -> Column:
    """Turns a term into a Spark column.

    ``resolve`` gives the column of an attribute, an aggregate, LENGTH, or a condition given as a Spark column.
    """
    if isinstance(expr, Literal):
        is_day = isinstance(expr.value, date) and not isinstance(expr.value, datetime)
        # PySpark writes years before 1000 with fewer digits than Java reads.
        return F.expr(f"DATE '{expr.value.isoformat()}'") if is_day and expr.value.year < 1000 else F.lit(expr.value)
    if isinstance(expr, (Attribute, Aggregate, Length, SparkColumn)):
        return resolve(expr)
    if isinstance(expr, Unary):
        operand = to_column(expr.operand, resolve)
        return -operand if expr.op == "-" else ~operand
    if isinstance(expr, Binary):
        # Spark infers decimals for literals of either side, as in SQL.
        return _BINARY[expr.op](to_column(expr.left, resolve), to_column(expr.right, resolve))  # type: ignore[no-any-return]
    if isinstance(expr, Call):
        arguments = [to_column(argument, resolve) for argument in expr.arguments]
        if expr.name == "in":
            return combine(operator.or_, [arguments[0] == value for value in arguments[1:]])
        return F.call_function(expr.name, *arguments)
    raise UnsupportedQuery(f"{expr!r} has no Spark form")


def of_first(choices: Sequence[tuple[Column, Column]], otherwise: Column) -> Column:
    """Returns the value of the first condition that holds, or ``otherwise`` if none does."""
    value: Any = F
    for condition, chosen in choices:
        value = value.when(condition, chosen)
    return value.otherwise(otherwise) if choices else otherwise


def combine(operation: Callable[[T, T], T], parts: Sequence[T]) -> T:
    """Combines columns or plans by an associative operation, no deeper than needed: Connect refuses depth 100."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return operation(combine(operation, parts[:middle]), combine(operation, parts[middle:]))
