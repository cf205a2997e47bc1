"""Checks that conditions given as Spark columns are deterministic predicates of one row.

The checks let Spark analyse plans with these conditions; no job runs.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame

from cetdsl.errors import CetdslError, QueryTypeError, UnknownColumn, UnsupportedQuery
from cetdsl.execution.compat import condition_of, untranslatable
from cetdsl.execution.expressions import combine

#: What is wrong with an expression, by the class of the error with which Spark rejects it in a join condition.
_FAULTS = {
    "INVALID_NON_DETERMINISTIC_EXPRESSIONS": "gives no fixed value for a row",
    "UNSUPPORTED_EXPR_FOR_OPERATOR": "is no function of one row",
    "UNSUPPORTED_GENERATOR": "is no function of one row",
}


def check_conditions(df: DataFrame, conditions: Sequence[tuple[str, Column]]) -> None:
    """Raises unless each condition, which comes with its description, is a deterministic predicate of one row.

    Raises
    ------
    UnsupportedQuery
        If a condition is nondeterministic, or not of one row.
    UnknownColumn
        If a condition names a column that the DataFrame does not have.
    QueryTypeError
        If Spark cannot evaluate a condition, or it is not boolean.
    """
    if not conditions:
        return
    refuse_changing(df, conditions)
    for (what, _), type_ in zip(conditions, _types(df, conditions), strict=True):
        if type_ not in ("boolean", "void"):
            raise QueryTypeError(f"{what} is of type {type_}, not boolean", hint="compare it with something")


def refuse_changing(df: DataFrame, columns: Sequence[tuple[str, Column]]) -> None:
    """Raises if a column, which comes with its description, is nondeterministic by Spark's own flag, or not of one row.

    Functions that call methods of Java by their name are nondeterministic, too.
    """
    if _fault(df, [column for _, column in columns]) is None:
        return
    for what, column in columns:
        fault = _fault(df, [column])
        if fault is not None:
            raise UnsupportedQuery(
                f"{what} {fault}, so it cannot be part of a query",
                hint="compute it as a column of the DataFrame first",
            )


def _types(df: DataFrame, columns: Sequence[tuple[str, Column]]) -> list[str]:
    """Returns the types of columns; raises the error of the first one that Spark cannot resolve."""
    try:
        return [field.dataType.simpleString() for field in df.select(*(column for _, column in columns)).schema.fields]
    except AnalysisException as error:
        if len(columns) == 1:
            raise _unresolved(df, columns[0][0], error) from error
    # Spark does not say which column an error is about, so the columns are analysed one by one.
    return [type_ for one in columns for type_ in _types(df, [one])]


def _unresolved(df: DataFrame, what: str, error: AnalysisException) -> CetdslError:
    """Returns the error of a column that Spark cannot resolve."""
    if not condition_of(error).startswith("UNRESOLVED_COLUMN"):
        return untranslatable(f"evaluate {what}", error)
    name = (error.getMessageParameters() or {}).get("objectName", "")
    unknown = UnknownColumn.among(re.sub(r"`([^`]+)`", r"\1", name), df.columns)
    unknown.message += f"; {what} asks for it"
    return unknown


def _fault(df: DataFrame, columns: Sequence[Column]) -> str | None:
    """Returns the fault of one of the columns; None if there is none.

    In any kind of session, Spark accepts only deterministic expressions of one row as the condition of a join, so the
    columns are tried there. Errors for other reasons are no faults in this sense.
    """
    condition = combine(operator.and_, [column.isNull() for column in columns])
    try:
        _ = df.join(df.sparkSession.range(1).select(), condition).schema
    except AnalysisException as error:
        return _FAULTS.get(condition_of(error).partition(".")[0])
    return None
