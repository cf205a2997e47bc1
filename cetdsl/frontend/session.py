"""``df.pattern(query)``: a query bound to a DataFrame, and what can be asked of it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import attrs
from pyspark.sql import DataFrame

from cetdsl.analysis.resolve import Binding, ResolvedQuery, analyse
from cetdsl.errors import InvalidNode, QueryTypeError, ResolutionError
from cetdsl.execution.compat import function_names, refuse_streaming, schema_of
from cetdsl.execution.run import run
from cetdsl.explain import Explanation, explain_query
from cetdsl.frontend.patterns import query_of
from cetdsl.frontend.terms import Term, to_expr
from cetdsl.pattern.expressions import Aggregate
from cetdsl.pattern.query import Query, Returned
from cetdsl.pattern.text import unparse
from cetdsl.planning.physical import NUMBERS
from cetdsl.planning.planner import Decision, plan_aggregate, plan_trends
from cetdsl.rewrite import Trace, rewrite

COUNT = Aggregate("count")


class PatternFrame:
    """A query bound to a DataFrame; made by ``df.pattern(...)`` or :func:`pattern`.

    Nothing runs until an answer, itself a lazy DataFrame, is collected, shown or written.

    Examples
    --------
    >>> df = spark.createDataFrame([(1, "A"), (2, "B")], "t int, type string")
    >>> df.pattern("PATTERN SEQ(A, B)", time="t")
    <PatternFrame of PATTERN SEQ(A, B)>
    """

    def __init__(self, df: DataFrame, query: Query, binding: Binding) -> None:
        self._df = df
        self._query = query
        self._binding = binding

    def __repr__(self) -> str:
        return f"<PatternFrame of {' '.join(str(query_of_text(self._query)).split())}>"

    @property
    def query(self) -> Query:
        """The query's node."""
        return self._query

    @cached_property
    def _rewritten(self) -> tuple[ResolvedQuery, ResolvedQuery, Trace]:
        resolved = self._analyse(self._query)
        rewritten, trace = rewrite(resolved)
        return resolved, rewritten, trace

    def _analyse(self, query: Query) -> ResolvedQuery:
        return analyse(query, schema_of(self._df), self._binding, known_functions=function_names())

    # ------------------------------------------------------------------------------------------- aggregates

    def count_trends(self, name: str = "count", number: str = "decimal") -> DataFrame:
        """The number of trends per group and window.

        Parameters
        ----------
        name : str
            Name of the output column.
        number : {"decimal", "string", "double", "log2"}
            ``decimal`` is exact, DECIMAL(38,0), and fails when a count does not fit; ``string`` is exact at any size;
            ``double`` is rounded; ``log2`` is the logarithm, good at any size.

        Returns
        -------
        pyspark.sql.DataFrame
            Group columns, ``window`` if the query slides, and the count. A group and window without a trend has no row.

        Raises
        ------
        ResolutionError
            If the query does not fit the DataFrame.

        Examples
        --------
        >>> df = spark.createDataFrame([(1, "A"), (2, "A"), (3, "B"), (4, "B"), (5, "B")], "t int, type string")
        >>> A, B = cet.events("A", "B")
        >>> df.pattern(cet.seq(A, cet.kleene(B)), time="t").count_trends().show()
        +-----+
        |count|
        +-----+
        |   14|
        +-----+
        <BLANKLINE>
        """
        return self._answer(((name, COUNT),), number)

    def aggregate(self, *, number: str = "decimal", **aggregates: Term) -> DataFrame:
        """Aggregates over all trends per group and window.

        Parameters
        ----------
        number : {"decimal", "string", "double", "log2"}
            The form of counts, and of sums over integers and decimals.
        **aggregates : Term
            Output columns by name: ``n=cet.count()``, ``avg=cet.avg(B.price)``. None given: the query's own RETURN.

        Returns
        -------
        pyspark.sql.DataFrame

        Raises
        ------
        ResolutionError
            If the query or an aggregate does not fit the DataFrame, or there is nothing to return.

        Examples
        --------
        >>> df = spark.createDataFrame([(1, "A", 5), (2, "B", 7), (3, "B", 9)], "t int, type string, x int")
        >>> A, B = cet.events("A", "B")
        >>> q = df.pattern(cet.seq(A, cet.kleene(B)), time="t")
        >>> q.aggregate(n=cet.count(), b=cet.count(B), most=cet.max(B.x), long=cet.max(cet.length())).show()
        +---+---+----+----+
        |  n|  b|most|long|
        +---+---+----+----+
        |  3|  4|   9|   3|
        +---+---+----+----+
        <BLANKLINE>
        """
        return self._answer(self._returned(aggregates), number)

    def _returned(self, aggregates: dict[str, Any]) -> tuple[tuple[str, Aggregate], ...]:
        if aggregates:
            return tuple((name, _aggregate_node(name, value)) for name, value in aggregates.items())
        if not self._query.returning:
            raise ResolutionError(
                "there is nothing to return",
                hint="name the aggregates, .aggregate(n=cet.count()), or give the query a RETURN clause",
            )
        return tuple((item.output_name, item.aggregate) for item in self._query.returning)

    def _answer(self, aggregates: tuple[tuple[str, Aggregate], ...], number: str) -> DataFrame:
        self._refuse()
        return run(self._df, self._decide(aggregates, number).plan)

    def _decide(self, aggregates: tuple[tuple[str, Aggregate], ...], number: str) -> Decision:
        if number not in NUMBERS:
            raise QueryTypeError(f"no number form {number!r}", hint=f"choose one of {', '.join(NUMBERS)}")
        returning = tuple(Returned(aggregate, name) for name, aggregate in aggregates)
        rewritten, _ = rewrite(self._analyse(attrs.evolve(self._query, returning=returning)))
        named = tuple((item.output_name, item.aggregate) for item in rewritten.query.returning)
        return plan_aggregate(rewritten, named, number)

    def _refuse(self) -> None:
        refuse_streaming(self._df)

    # ----------------------------------------------------------------------------------------------- trends

    def trends(self, limit: int | None = None, columns: Sequence[str] | None = None) -> DataFrame:
        """The trends themselves, one row each.

        Parameters
        ----------
        limit : int, optional
            Any so many of them; no work is done for the rest.
        columns : sequence of str, optional
            The columns of each event to show; all by default.

        Returns
        -------
        pyspark.sql.DataFrame
            Group and partition columns, ``window`` if the query slides, and ``trend``: an array, in order of time, of
            ``struct<variable string, event struct<columns>>``.

        Examples
        --------
        >>> df = spark.createDataFrame([(1, "A", 5), (2, "B", 7), (3, "B", 9)], "t int, type string, x int")
        >>> A, B = cet.events("A", "B")
        >>> rows = df.pattern(cet.seq(A, B), time="t").trends(columns=["x"]).collect()
        >>> sorted([(b.variable, b.event.x) for b in row.trend] for row in rows)
        [[('A', 5), ('B', 7)], [('A', 5), ('B', 9)]]
        """
        self._refuse()
        return run(self._df, self._decide_trends(limit, columns).plan)

    def _decide_trends(self, limit: int | None, columns: Sequence[str] | None) -> Decision:
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
            raise InvalidNode(f"limit must be a whole number of trends, not {limit!r}")
        _, rewritten, _ = self._rewritten
        schema = rewritten.schema
        names = schema.names if columns is None else tuple(schema.resolve(name).name for name in columns)
        return plan_trends(rewritten, names, limit)

    # ---------------------------------------------------------------------------------------------- explain

    def explain(self, stage: str | None = None, number: str = "decimal") -> Explanation:
        """How the query is understood and run.

        Parameters
        ----------
        stage : {"parsed", "resolved", "rewritten", "physical", "spark"}, optional
            One stage; all of them by default.
        number : {"decimal", "string", "double", "log2"}
            The number form that the plan is for.

        Returns
        -------
        Explanation
            Prints as text; ``.graphviz()`` and ``.html()`` give pictures.

        Raises
        ------
        ResolutionError
            If there is no stage of that name.

        Examples
        --------
        >>> df = spark.createDataFrame([(1, "A"), (2, "B")], "t int, type string")
        >>> print(df.pattern("PATTERN SEQ(A, (B+)+)", time="t").explain("rewritten"))
        == rewritten ==
        1. collapse-nested-repetition
           - PATTERN SEQ(EVENT(A, A.type = 'A'), (EVENT(B, B.type = 'B')+)+)
           + PATTERN SEQ(EVENT(A, A.type = 'A'), EVENT(B, B.type = 'B')+)
        <BLANKLINE>
        -- rewritten query --
        reads  t, type
        <BLANKLINE>
        PATTERN SEQ(EVENT(A, A.type = 'A'), EVENT(B, B.type = 'B')+)
        """
        aggregates = tuple((item.output_name, item.aggregate) for item in self._query.returning) or (("count", COUNT),)
        resolved, rewritten, trace = self._rewritten
        decision = self._decide(aggregates, number)
        return explain_query(
            stage, self._query, resolved, rewritten, trace, decision, lambda: run(self._df, decision.plan)
        )


def query_of_text(query: Query) -> str:
    """The text of a query, for messages: conditions given as Spark columns are shown as they print."""
    return unparse(query, lenient=True)


def _aggregate_node(name: str, value: object) -> Aggregate:
    node = to_expr(value)
    if not isinstance(node, Aggregate):
        raise InvalidNode(
            f"{name}= is not an aggregate",
            hint="use cet.count(), cet.sum(B.x), cet.avg(B.x), cet.max(cet.length()), ...",
        )
    return node


def pattern(
    df: DataFrame,
    query: object,
    *,
    time: str | None = None,
    tie_break: str | Sequence[str] | None = None,
    type: str | None = "type",
    on_null_time: str = "error",
) -> PatternFrame:
    """Bind a query to the events of a DataFrame.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        One row per event.
    query : query, pattern or str
        From the fluent functions, or text.
    time : str, optional
        The time column: a timestamp, a date or an integer; by default the only timestamp column.
    tie_break : str or sequence of str, optional
        Columns that order events of the same time; without them such events are simultaneous and never in one trend.
    type : str or None
        The column that holds event types; None says that every event is of every type.
    on_null_time : {"error", "skip"}
        What to do with rows whose time is NULL.

    Returns
    -------
    PatternFrame

    Raises
    ------
    ParseError
        If the text is malformed.
    ResolutionError
        If the query does not fit the DataFrame; several errors are reported at once.

    Examples
    --------
    >>> df = spark.createDataFrame([(1, 10.0), (2, 11.0), (3, 12.0)], "t int, price double")
    >>> text = "PATTERN Stock+ s[] WHERE s.price < NEXT(s).price"
    >>> cet.pattern(df, text, time="t", type=None).count_trends().first()["count"]
    Decimal('7')
    """
    ties = (tie_break,) if isinstance(tie_break, str) else tuple(tie_break or ())
    if on_null_time not in ("error", "skip"):
        raise InvalidNode(f"on_null_time={on_null_time!r} is unknown", hint="use 'error' or 'skip'")
    bound = PatternFrame(df, query_of(query), Binding(time, ties, type, on_null_time))
    bound._rewritten  # noqa: B018 - errors of the query are raised here, not when an answer is asked for
    return bound
