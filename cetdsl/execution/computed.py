"""Adds columns that queries compute of each event to the DataFrame of the events; runs no job."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cetdsl.errors import UnsupportedQuery
from cetdsl.execution.compat import schema_of, translated
from cetdsl.execution.conditions import refuse_changing
from cetdsl.execution.expressions import to_column
from cetdsl.pattern.expressions import Attribute, Expr, SparkColumn
from cetdsl.pattern.query import Computed
from cetdsl.pattern.text import in_backquotes, quote_name


def with_computed(df: DataFrame, computed: Sequence[Computed]) -> DataFrame:
    """Returns the DataFrame with the computed columns behind its own ones.

    Raises
    ------
    QueryTypeError
        If Spark cannot compute a column.
    UnsupportedQuery
        If a column is no deterministic function of one row.
    """
    schema, columns = schema_of(df), []
    for item in computed:
        column = to_column(item.term, _read, schema)
        what = f"the group {quote_name(item.name)}"
        translated(lambda column=column: df.select(column), f"compute {what}")  # type: ignore[misc]
        refuse_changing(df, [(what, column)])
        columns.append(column.alias(item.name))
    return df.select("*", *columns) if columns else df


def _read(node: Expr) -> Column:
    """The column of an attribute, or the Spark column that the query has in its place."""
    if isinstance(node, Attribute):
        return F.col(in_backquotes(node.name))
    if isinstance(node, SparkColumn):
        return node.column  # type: ignore[no-any-return]
    raise UnsupportedQuery(f"{node!r} is about several events, and a group is computed of one")
