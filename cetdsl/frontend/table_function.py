"""``cet.register(spark)``: MATCH_RECOGNIZE as a table function that stock Spark SQL can call."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession
from pyspark.sql.functions import udtf
from pyspark.sql.types import Row, StructType
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult, OrderingColumn, PartitioningColumn

from cetdsl.errors import CetdslError, InvalidNode, shown
from cetdsl.execution.compat import as_session
from cetdsl.execution.python import require_worker_python
from cetdsl.pattern.text import in_backquotes

if TYPE_CHECKING:
    from cetdsl.execution.match_table import TableMatch

_CALL = "cet('MEASURES ... PATTERN (...) DEFINE ...', TABLE(events) PARTITION BY k ORDER BY ts)"


def register(spark: SparkSession, name: str = "cet") -> None:
    """Registers a table function of Spark's SQL that matches rows: for queries that no Python program sees.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
        Classic or Connect; the function lives as long as the session.
    name : str
        The name of the function in SQL.

    Raises
    ------
    InvalidNode
        If the name is no plain word, or there is no session.
    MissingDependency
        If Spark runs on this machine, and its Python workers are another Python, without what cetdsl needs.

    Notes
    -----
    See :ref:`table-function` for where PARTITION BY and ORDER BY may stand, and for the limits of the table function.

    Examples
    --------
    >>> cet.register(spark)
    >>> prices = [("ACME", 1, 9), ("ACME", 2, 7), ("ACME", 3, 8), ("EVIL", 1, 3), ("EVIL", 2, 4)]
    >>> spark.createDataFrame(prices, "company string, day int, price int").createOrReplaceTempView("quotes")
    >>> spark.sql('''
    ...     SELECT * FROM cet(TABLE(quotes), '
    ...         PARTITION BY company ORDER BY day
    ...         MEASURES down.price AS low, up.price - down.price AS rise
    ...         PATTERN (down up) DEFINE down AS price < PREV(price), up AS price > PREV(price)
    ...     ')
    ... ''').show()
    +-------+---+----+
    |company|low|rise|
    +-------+---+----+
    |   ACME|  7|   1|
    +-------+---+----+
    <BLANKLINE>
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise InvalidNode(f"{shown(name)} is no name of a function", hint='write cet.register(spark, "cet")')
    spark = as_session(spark)
    require_worker_python(spark)
    spark.udtf.register(name, udtf(MatchTable))  # type: ignore[arg-type]


@dataclass
class MatchAnalysis(AnalyzeResult):
    """The analysis of a call: the columns of its table, as JSON, and the clause."""

    columns: str = ""
    clause: str = ""


class MatchTable:
    """Matches the rows of one partition; see :mod:`cetdsl.execution.match_table`, which workers load."""

    def __init__(self, analyzed: MatchAnalysis) -> None:
        self._match = _match_of(analyzed.columns, analyzed.clause)
        self._rows: list[Row] = []

    @staticmethod
    def analyze(first: AnalyzeArgument, second: AnalyzeArgument) -> AnalyzeResult:
        """Returns the columns that a call gives, and how it needs its rows; the table may be either argument."""
        table, clause = (first, second) if first.isTable else (second, first)
        if not isinstance(table.dataType, StructType) or not table.isTable:
            raise InvalidNode("no argument is a table", hint=f"write {_CALL}")
        if not isinstance(clause.value, str):
            raise InvalidNode("the clause is no constant text", hint=f"write {_CALL}")
        columns = table.dataType.json()
        try:
            match = _match_of(columns, clause.value)
        except CetdslError as error:
            # Spark shows the traceback; the frames would only bury what is wrong.
            raise error.with_traceback(None) from None
        return MatchAnalysis(
            schema=match.schema_of_answer(),
            withSinglePartition=bool(match.order_by) and not match.partition_by,
            partitionBy=[PartitioningColumn(in_backquotes(name)) for name in match.partition_by],
            orderBy=[OrderingColumn(in_backquotes(name), up, nulls) for name, up, nulls in match.order_by],
            columns=columns,
            clause=clause.value,
        )

    def eval(self, first: Row | str, second: Row | str) -> None:
        """Keeps a row of the partition."""
        row = first if isinstance(first, Row) else second
        assert isinstance(row, Row), row
        self._rows.append(row)

    def terminate(self) -> Iterator[tuple[Any, ...]]:
        """Yields the matches of the partition."""
        yield from self._match.answer(self._rows)


@lru_cache(maxsize=16)
def _match_of(columns: str, clause: str) -> TableMatch:
    """The clause over a table, made once for all partitions of a task."""
    from cetdsl.execution.match_table import TableMatch

    return TableMatch(StructType.fromJson(json.loads(columns)), clause)
