"""Checks by Spark's plans that conditions given as Spark columns depend on one row, and always alike; runs no job."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame

from cetdsl.errors import UnsupportedQuery
from cetdsl.execution.compat import condition_of
from cetdsl.execution.expressions import combine

#: What Spark's analysis says of an expression that may not stand in the condition of a join, by its error class.
_FAULTS = {
    "INVALID_NON_DETERMINISTIC_EXPRESSIONS": "gives no fixed value for a row",
    "UNSUPPORTED_EXPR_FOR_OPERATOR": "is no function of one row",
    "UNSUPPORTED_GENERATOR": "is no function of one row",
}


def refuse_changing_conditions(df: DataFrame, columns: Sequence[Column]) -> None:
    """Raises if a condition is nondeterministic by Spark's own flag, or not of one row."""
    refuse_changing(df, {f"the condition {column}": column for column in columns})


def refuse_changing(df: DataFrame, columns: Mapping[str, Column]) -> None:
    """Raises if a column, which has its description as key, is nondeterministic by Spark's own flag, or not of one row.

    Functions that call methods of Java by their name are nondeterministic, too.
    """
    if not columns or _fault(df, list(columns.values())) is None:
        return
    for what, column in columns.items():
        fault = _fault(df, [column])
        if fault is not None:
            raise UnsupportedQuery(
                f"{what} {fault}, so it cannot be part of a query",
                hint="compute it as a column of the DataFrame first",
            )


def _fault(df: DataFrame, columns: Sequence[Column]) -> str | None:
    """Returns the fault of one of the columns; None if there is none.

    Only deterministic expressions of one row may stand in the condition of a join, whichever kind of session analyses
    it. What else Spark has against them is said when they are evaluated.
    """
    condition = combine(operator.and_, [column.isNull() for column in columns])
    try:
        _ = df.join(df.sparkSession.range(1).select(), condition).schema
    except AnalysisException as error:
        return _FAULTS.get(condition_of(error).partition(".")[0])
    return None
