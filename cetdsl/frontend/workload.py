"""``df.patterns({...})``: many queries bound to one DataFrame, answered together."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import attrs
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cetdsl.analysis.resolve import Binding, ResolvedQuery, analyse
from cetdsl.errors import (
    AnalysisErrors,
    CetdslError,
    InvalidNode,
    ResolutionError,
    is_one_of,
    raise_together,
    recovering,
    shown,
)
from cetdsl.execution.compat import function_names, refuse_streaming, require_dataframe, schema_of
from cetdsl.execution.conditions import refuse_changing_conditions
from cetdsl.execution.exchange import as_carried_out
from cetdsl.execution.python import require_worker_python
from cetdsl.execution.workload import WorkloadRows, union_of_answers, workload_rows
from cetdsl.explain import Explanation
from cetdsl.explain.workload import explain_workload
from cetdsl.frontend import sase
from cetdsl.frontend.patterns import query_of
from cetdsl.frontend.session import check_number, spark_columns
from cetdsl.frontend.sorting import asked_sort
from cetdsl.ir.operators import AnswerTogether
from cetdsl.ir.sharing import Sharing
from cetdsl.pattern.query import Query
from cetdsl.planning.sharing import SHARING
from cetdsl.planning.workload import plan_workload
from cetdsl.rewrite import rewrite


class Workload:
    """Queries bound to a DataFrame; made by ``df.patterns(...)`` or :func:`patterns`.

    Queries whose partition and group columns agree are answered in one pass: the events are read, shuffled and sorted
    once. Within it, those that have a Kleene pattern in common share its propagation. Nothing runs until an answer,
    itself a lazy DataFrame, is collected, shown or written.

    Examples
    --------
    >>> df = spark.createDataFrame([(1, "A"), (2, "C"), (3, "B"), (4, "B")], "t int, type string")
    >>> many = df.patterns("NAME ab: RETURN COUNT(*) PATTERN SEQ(A, B+); NAME cb: RETURN COUNT(*) PATTERN SEQ(C, B+)",
    ...                    time="t")
    >>> many
    <Workload of ab, cb>
    >>> sorted((row.query, int(row["count"])) for row in many.aggregate().collect())
    [('ab', 3), ('cb', 3)]
    """

    def __init__(self, df: DataFrame, queries: Mapping[str, Query], binding: Binding, sharing: Sharing) -> None:
        self._df = df
        self._queries = dict(queries)
        self._binding = binding
        self._sharing = sharing
        self._rows: dict[str, WorkloadRows] = {}
        self._cached: set[str] = set()

    def __repr__(self) -> str:
        return f"<Workload of {', '.join(self._queries)}>"

    @property
    def queries(self) -> dict[str, Query]:
        """The queries' nodes, by name."""
        return dict(self._queries)

    @cached_property
    def _rewritten(self) -> dict[str, ResolvedQuery]:
        """The queries, resolved and rewritten; the errors of all of them are raised together."""
        schema, functions = schema_of(self._df), function_names()
        found, errors = {}, list[CetdslError]()
        for name, query in self._queries.items():
            try:
                if not query.returning:
                    raise ResolutionError("there is nothing to return", hint="give the query a RETURN clause")
                found[name] = rewrite(analyse(query, schema, self._binding, known_functions=functions))[0]
            except AnalysisErrors as several:
                errors += [of_query(name, error) for error in several.errors]
            except CetdslError as error:
                errors.append(of_query(name, error))
        raise_together(errors, "the workload")
        return found

    def _plan(self, number: str) -> AnswerTogether:
        check_number(number)
        return plan_workload(self._rewritten, number, self._sharing)

    def _answered(self, number: str) -> WorkloadRows:
        refuse_streaming(self._df)
        if number not in self._rows:
            self._rows[number] = workload_rows(self._df, self._plan(number), tuple(self._queries))
        return self._rows[number]

    def aggregate(self, number: str = "decimal") -> DataFrame:
        """All answers as one DataFrame.

        Parameters
        ----------
        number : {"decimal", "string", "double", "log2"}
            The form of counts, and of sums over integers and decimals.

        Returns
        -------
        pyspark.sql.DataFrame
            ``query``, the name; ``group``, a struct of all group columns, NULL where a query does not group by one
            (left out if none does); ``window`` (left out if no query slides); and the union of the aggregates by name,
            NULL where a query has none of that name.

        Raises
        ------
        ResolutionError
            If aggregates of one name have different types.
        """
        return union_of_answers(self._answered(number))

    def results(self, number: str = "decimal") -> dict[str, DataFrame]:
        """The answer of each query as a DataFrame of its own, all from the same pass.

        The rows of the pass are marked to be cached (``DataFrame.persist``): the first answer that is computed fills
        the cache, and the others read it. :meth:`unpersist` frees it.

        Parameters
        ----------
        number : {"decimal", "string", "double", "log2"}

        Returns
        -------
        dict of str to pyspark.sql.DataFrame
            By name; each has the columns that its query alone would have.

        Examples
        --------
        >>> df = spark.createDataFrame([(1, "A"), (2, "C"), (3, "B"), (4, "B")], "t int, type string")
        >>> texts = {"ab": "RETURN COUNT(*) AS n PATTERN SEQ(A, B+)", "longest": "RETURN MAX(LENGTH) AS k PATTERN B+"}
        >>> many = df.patterns(texts, time="t")
        >>> {name: answer.first().asDict() for name, answer in many.results().items()}
        {'ab': {'n': Decimal('3')}, 'longest': {'k': 2}}
        >>> many.unpersist()
        """
        rows = self._answered(number)
        if number not in self._cached:
            self._cached.add(number)
            for passed in rows.passes:
                passed.persist()
        return rows.results()

    def unpersist(self) -> None:
        """Frees what :meth:`results` has cached."""
        for number in self._cached:
            for passed in self._rows[number].passes:
                passed.unpersist()
        self._cached.clear()

    def metrics(self, number: str = "decimal") -> DataFrame:
        """What each execution tells of its work: one row per task and set of queries, and per query that is in none.

        Runs the workload when it is computed, unless :meth:`results` has cached its rows.

        Returns
        -------
        pyspark.sql.DataFrame
            ``queries``, and how many of them ran ``unshared``; ``bursts`` of the variables that Kleene patterns read;
            graphlets that were ``shared``, and ``split`` ones of a query's own; ``splits`` and ``merges``, how often
            the decision flipped; ``snapshots`` of graphlets and ``event_snapshots`` of events that were not for all;
            events whose coefficients were ``propagated`` for several queries at once; ``decisions``; seconds spent
            ``deciding``, and ``seconds`` in the kernel. ``apart`` says of each of the queries that did not share why.
        """
        rows = self._answered(number).metrics()
        if rows is None:
            return self._df.sparkSession.createDataFrame([], METRICS)
        return rows.select(F.from_json("metrics", METRICS).alias("m")).select("m.*")

    def explain(self, number: str = "decimal", *, measured: bool = False) -> Explanation:
        """Which queries share a pass, which of them may share a Kleene pattern, and the merged templates.

        Parameters
        ----------
        number : {"decimal", "string", "double", "log2"}
            The number form that the plan is for.
        measured : bool
            Runs the workload, unless :meth:`results` has cached its rows, and shows its :meth:`metrics` too, those of
            all tasks together.

        Examples
        --------
        >>> df = spark.createDataFrame([(1, "A"), (2, "C"), (3, "B"), (4, "B")], "t int, type string")
        >>> texts = {"ab": "RETURN COUNT(*) PATTERN SEQ(A, B+)", "cb": "RETURN COUNT(*) PATTERN SEQ(C, B+)"}
        >>> text = str(df.patterns(texts, time="t", sharing="always").explain(measured=True))
        >>> [line.split() for line in text.splitlines() if line.startswith(("bursts", "shared graphlets"))]
        [['bursts', '1'], ['shared', 'graphlets', '1']]
        """
        sets: list[dict[str, Any]] = []
        if measured:
            metrics = self.metrics(number)
            names = [name for name in metrics.columns if name not in ("queries", "apart")]
            totals = [(F.max if name == "unshared" else F.sum)(name).alias(name) for name in names]
            totals.append(F.collect_list("apart").alias("apart"))
            with recovering():
                sets = [row.asDict() for row in metrics.groupBy("queries").agg(*totals).orderBy("queries").collect()]
        plan = self._plan(number)
        plan = attrs.evolve(plan, passes=tuple(as_carried_out(self._df, one) for one in plan.passes))
        return explain_workload(plan, self._rewritten, sets)


#: The columns of :meth:`Workload.metrics`.
METRICS = (
    "queries array<string>, unshared bigint, bursts bigint, shared bigint, split bigint, splits bigint, merges bigint, "
    "snapshots bigint, event_snapshots bigint, propagated bigint, decisions bigint, deciding double, seconds double, "
    "apart map<string,string>"
)


def of_query(name: str, error: CetdslError) -> CetdslError:
    """The error with the name of its query in front."""
    named = copy.copy(error)
    named.message = f"query {name!r}: {error.message}"
    return named


def patterns(
    df: DataFrame,
    queries: Mapping[str, object] | str,
    *,
    time: str | None = None,
    tie_break: str | Sequence[str] | None = None,
    type: str | None = "type",
    on_null_time: str = "error",
    sharing: str = "dynamic",
    deviations: Mapping[str, float] | None = None,
    sort: str | None = None,
    sort_memory: str | int | None = None,
) -> Workload:
    """Bind many queries to the events of a DataFrame.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        One row per event.
    queries : mapping of str to query or text, or str
        By name; or one text, ``NAME q1: RETURN ... PATTERN ...; NAME q2: ...``. Each query has a RETURN list.
    time : str, optional
        The time column; by default the only timestamp column.
    tie_break : str or sequence of str, optional
        Columns that order events of the same time.
    type : str or None
        The column that holds event types; None says that every event is of every type.
    on_null_time : {"error", "skip"}
        What to do with rows whose time is NULL.
    sharing : {"dynamic", "static", "always", "never"}
        Whether queries with a common Kleene pattern share its propagation: decided burst by burst, once per task from
        given statistics and a sample, always, or never. The answers are the same.
    deviations : mapping of str to float, optional
        The statistics of ``sharing="static"``, by query: the share (0 to 1) of the events of its Kleene patterns at
        which it does otherwise than most of the queries that it shares with. The first events show what is not given.
    sort, sort_memory
        As of :func:`pattern`.

    Returns
    -------
    Workload

    Raises
    ------
    InvalidNode
        If there is no query, a name or the sharing mode is not one, or deviations are not shares of queries that
        exist, or not asked for.
    ParseError
        If a text is malformed.
    ResolutionError
        If queries do not fit the DataFrame; the errors of all of them are reported at once.
    MissingDependency
        If Spark runs on this machine, and its Python workers are another Python, without what cetdsl needs.

    Examples
    --------
    >>> df = spark.createDataFrame([(1, "A"), (2, "B"), (3, "B")], "t int, type string")
    >>> A, B = cet.events("A", "B")
    >>> queries = {"pairs": cet.seq(A, B).returning(cet.count()), "runs": "RETURN COUNT(*) PATTERN B+"}
    >>> answer = cet.patterns(df, queries, time="t").aggregate()
    >>> sorted((row.query, int(row["count"])) for row in answer.collect())
    [('pairs', 2), ('runs', 3)]
    """
    require_dataframe(df)
    named = named_queries(queries)
    how = _sharing(sharing, deviations or {}, named)
    asked = asked_sort(df.sparkSession, sort, sort_memory)
    workload = Workload(df, named, Binding(time, tie_break, type, on_null_time, asked), how)
    workload._rewritten  # noqa: B018 - errors of the queries are raised here, not when an answer is asked for
    for name, query in named.items():
        try:
            refuse_changing_conditions(df, spark_columns(query))
        except CetdslError as error:
            raise of_query(name, error) from None
    require_worker_python(df.sparkSession)
    return workload


def _sharing(mode: str, deviations: Mapping[str, float], queries: Mapping[str, Query]) -> Sharing:
    if not is_one_of(mode, SHARING):
        raise InvalidNode(f"no sharing mode {shown(mode)}", hint=f"choose one of {', '.join(SHARING)}")
    if deviations and mode != "static":
        raise InvalidNode(
            f"deviations are given, but sharing is {mode!r} and does not go by them",
            hint='write sharing="static", or leave them away',
        )
    for name, part in deviations.items():
        if name not in queries:
            raise InvalidNode(
                f"deviations name a query {name!r} that the workload does not have",
                hint=f"its queries are {', '.join(queries)}",
            )
        if not isinstance(part, (int, float)) or not 0 <= part <= 1:
            raise InvalidNode(f"the deviation of query {name!r} is a share from 0 to 1, not {shown(part)}")
    return Sharing(mode, dict(deviations))


def named_queries(queries: object) -> dict[str, Query]:
    """Returns the queries of a workload by name, which come as a mapping or as one text."""
    if isinstance(queries, str):
        return sase.parse_queries(queries)
    if not isinstance(queries, Mapping):
        raise InvalidNode(
            f"the queries of a workload are a dict by name or one text, not {queries.__class__.__name__}",
            hint='write df.patterns({"q1": query, "q2": "RETURN ... PATTERN ..."})',
        )
    if not queries:
        raise InvalidNode("the workload has no queries", hint='write df.patterns({"q1": query})')
    found: dict[str, Query] = {}
    for name, query in queries.items():
        if not isinstance(name, str) or not name:
            raise InvalidNode(f"a query's name is a non-empty string, not {shown(name)}")
        try:
            found[name] = query_of(query)
        except CetdslError as error:
            raise of_query(name, error) from None
    return found
