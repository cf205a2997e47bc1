"""What a query and a workload have in common once they are bound to a DataFrame."""

from __future__ import annotations

from pyspark.sql import DataFrame

from cetdsl.execution.compat import alive
from cetdsl.frontend.advised import Advised
from cetdsl.frontend.patterns import QueryTerm


class Bound(Advised):
    """Holds the events that queries are asked of."""

    def __init__(self, df: DataFrame) -> None:
        self._events = df

    @property
    def _df(self) -> DataFrame:
        """The events, of a session that still runs."""
        return alive(self._events)

    def _spoken(self) -> str:
        return "a query that is bound to events"

    def _instead_of(self, name: str) -> str:
        if hasattr(QueryTerm, name):
            return f"write .{name}(...) on the query, before it is bound"
        if hasattr(DataFrame, name):
            return f"ask for an answer, which is a DataFrame: .trends().{name}"
        return self._nearest(name, f"it has {', '.join(self._public())}")
