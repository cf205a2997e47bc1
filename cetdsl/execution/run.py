"""A physical plan as a DataFrame; the modules named here have a function for each operator."""

from __future__ import annotations

from pyspark.sql import DataFrame

from cetdsl.execution import aggregate, complete, definition, exchange, fold, joins, panes, trends
from cetdsl.execution.operators import execute
from cetdsl.ir.operators import Operator

#: Importing them registers their functions.
EXECUTORS = (aggregate, complete, definition, exchange, fold, joins, panes, trends)


def run(df: DataFrame, plan: Operator) -> DataFrame:
    """The lazy answer of a physical plan over a DataFrame of events."""
    return execute(df, plan).data
