"""``df.patterns({...})``: many queries bound to one DataFrame, answered together."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any

import attrs
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cetdsl.analysis.resolve import Binding, ResolvedQuery, analyse
from cetdsl.detection.statistics import given_statistics
from cetdsl.errors import (
    AnalysisErrors,
    CetdslError,
    InvalidNode,
    ResolutionError,
    StreamingNotSupported,
    check_choice,
    raise_together,
    recovering,
    shown,
)
from cetdsl.execution.compat import (
    as_dataframe,
    function_names,
    refuse_limited,
    refuse_streaming,
    schema_of,
    watermarks_of,
)
from cetdsl.execution.computed import with_computed
from cetdsl.execution.conditions import refuse_changing_conditions
from cetdsl.execution.exchange import as_carried_out
from cetdsl.execution.python import require_worker_python
from cetdsl.execution.trends_together import TrendsOfAll, measured_work, plain_text_column, trends_of_all
from cetdsl.execution.workload import WorkloadRows, union_of_answers, workload_rows
from cetdsl.explain import Explanation
from cetdsl.explain.notebook import workload_fragment
from cetdsl.explain.trends_together import explain_trends_together
from cetdsl.explain.workload import explain_workload
from cetdsl.frontend import sase
from cetdsl.frontend.given import check_emit, check_number, shown_columns, whole
from cetdsl.frontend.keeping import asked_state, kept_columns
from cetdsl.frontend.patterns import constants, query_of
from cetdsl.frontend.session import computed_by, spark_columns
from cetdsl.frontend.sorting import asked_sort
from cetdsl.ir.emission import EAGER, FINAL, UPDATE
from cetdsl.ir.operators import AnswerTogether, ListTogether
from cetdsl.ir.sharing import CALIBRATED, COST_MODELS, Sharing
from cetdsl.pattern.expressions import Literal
from cetdsl.pattern.query import Computed, Query
from cetdsl.planning.detection import check_algorithm
from cetdsl.planning.sharing import SHARING
from cetdsl.planning.trends_together import measuring, plan_trends_together
from cetdsl.planning.workload import plan_workload
from cetdsl.rewrite import rewrite
from cetdsl.sharing.aggregation.draft import Limits
from cetdsl.sharing.aggregation.plan import PlanData
from cetdsl.sharing.aggregation.planner import ALGORITHMS, Planner
from cetdsl.sharing.aggregation.worth import worth_keeping


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

    def __init__(
        self,
        df: DataFrame,
        queries: Mapping[str, Query],
        binding: Binding,
        sharing: Sharing,
        again: Callable[[Mapping[str, Query]], Workload],
    ) -> None:
        self._df = df
        self._again = again
        self._asked = dict(queries)
        # What they compute are columns of the DataFrame by now, as all others are.
        self._queries = {name: query.over_columns() for name, query in queries.items()}
        self._binding = binding
        self._sharing = sharing
        self._rows: dict[str, WorkloadRows] = {}
        self._cached: set[str] = set()
        self._persisted: list[DataFrame] = []
        self._best_plan: PlanData | None = None

    def __repr__(self) -> str:
        return f"<Workload of {', '.join(self._queries)}>"

    def _repr_html_(self) -> str:
        return workload_fragment(self._asked, self._returns)

    @property
    def queries(self) -> dict[str, Query]:
        """The queries' nodes, by name."""
        return dict(self._asked)

    def add(self, name: str, query: object) -> Workload:
        """The workload with one more query.

        A stream takes it where it is started again with its checkpoint, if its events are kept for all queries, with
        ``keep=`` of :func:`patterns`: the query is then asked of the windows that are open, over all of their events.
        Spark changes no query while it runs.

        Parameters
        ----------
        name : str
        query : query, pattern or str
            From the fluent functions, or text.

        Returns
        -------
        Workload

        Raises
        ------
        InvalidNode
            If there is a query of this name.
        ResolutionError
            If the query does not fit the DataFrame, or the columns that are kept.

        Examples
        --------
        >>> df = spark.createDataFrame([(1, "A"), (2, "B"), (3, "B")], "t int, type string")
        >>> many = df.patterns({"pairs": "RETURN COUNT(*) PATTERN SEQ(A, B)"}, time="t")
        >>> many.add("runs", "RETURN COUNT(*) PATTERN B+").remove("pairs")
        <Workload of runs>
        """
        if name in self._asked:
            raise InvalidNode(
                f"the workload has a query {name!r}", hint=f"give another name, or write .remove({name!r}) before"
            )
        return self._again({**self._asked, **named_queries({name: query})})

    def remove(self, name: str) -> Workload:
        """The workload without a query; a stream takes this as it takes what :meth:`add` adds.

        Parameters
        ----------
        name : str

        Returns
        -------
        Workload

        Raises
        ------
        InvalidNode
            If there is no query of this name, or no other one.
        """
        rest = {other: query for other, query in self._asked.items() if other != name}
        if len(rest) == len(self._asked):
            raise InvalidNode(f"the workload has no query {shown(name)}", hint=f"it has {', '.join(self._asked)}")
        if not rest:
            raise InvalidNode(f"{name!r} is the only query of the workload", hint="add another one before")
        return self._again(rest)

    @cached_property
    def _rewritten(self) -> dict[str, ResolvedQuery]:
        """The queries, resolved and rewritten; the errors of all of them are raised together."""
        schema, functions = schema_of(self._df), function_names()
        found, errors = {}, list[CetdslError]()
        for name, query in self._queries.items():
            with _noting(errors, name):
                found[name] = rewrite(analyse(query, schema, self._binding, known_functions=functions))[0]
        raise_together(errors, "the workload")
        return found

    @property
    def _returns(self) -> bool:
        """Whether some query asks for aggregates."""
        return any(query.returning for query in self._queries.values())

    def _plan(self, number: str) -> AnswerTogether:
        check_number(number)
        hint = "give the query a RETURN clause, or ask for trends, with trends() or results(of='trends')"
        nothing = [name for name, query in self._queries.items() if not query.returning]
        errors = [of_query(name, ResolutionError("there is nothing to return", hint=hint)) for name in nothing]
        raise_together(errors, "the workload")
        return plan_workload(self._rewritten, number, self._sharing)

    def _answered(self, number: str) -> WorkloadRows:
        if number not in self._rows:
            self._rows[number] = workload_rows(self._df, self._plan(number), tuple(self._queries))
        return self._rows[number]

    def aggregate(self, number: str = "decimal", *, emit: str = FINAL) -> DataFrame:
        """All answers as one DataFrame.

        Parameters
        ----------
        number : {"decimal", "string", "double", "log2"}
            The form of counts, and of sums over integers and decimals.
        emit : {"final", "update"}
            As of a single query's aggregates, but that a stream's workload gives final answers alone.

        Returns
        -------
        pyspark.sql.DataFrame
            ``query``, the name; ``group``, a struct of all group columns, NULL where a query does not group by one
            (left out if none does); ``window`` (left out if no query slides); and the union of the aggregates by name,
            NULL where a query has none of that name.

        Raises
        ------
        InvalidNode
            If there is no such ``emit``.
        ResolutionError
            If aggregates of one name have different types.
        StreamingNotSupported
            If answers of a stream are asked for before they are final.
        """
        self._check_emit(emit, "aggregates", UPDATE)
        return union_of_answers(self._answered(number))

    def trends(
        self,
        limit: int | None = None,
        columns: Sequence[str] | None = None,
        *,
        plan: PlanData | None = None,
        deadline: float | None = None,
        statistics: Mapping[str, object] | None = None,
        sharing: str | None = None,
        algorithm: str = "auto",
        emit: str = FINAL,
    ) -> DataFrame:
        """The trends of all queries, one row each.

        Sub-patterns that several queries contain are detected once for all of them, along an aggregation plan: see
        :doc:`/aggregation_plans`.

        Parameters
        ----------
        limit : int, optional
            Any so many of each query; no work is done for the rest.
        columns : sequence of str, optional
            The columns of each event to show; all by default.
        plan : AggregationPlan, optional
            The plan of the same queries, from :func:`cetdsl.aggregation_plan`; by default one is made. With
            ``sharing="never"`` there is none.
        deadline : float, optional
            Seconds after which the plan found so far is taken.
        statistics : dict, optional
            How often events come, and how many of them conditions let through, as for :func:`cetdsl.aggregation_plan`:
            sub-patterns that cost more to keep than to build again are not shared.
        sharing : {"dynamic", "never"}, optional
            Whether a sub-pattern is shared wherever it saves more than it takes, which each chunk of events tells, or
            never; by default as :func:`patterns` was told, for which all modes but "never" are "dynamic" here.
        algorithm : {"auto", "kernel", "joins"}
            "joins" puts trends together by joins of DataFrames, for groups that no task can hold: see
            :doc:`/aggregation_plans`. What is shared is joined when this is called. Otherwise the kernel does all.
        emit : {"final", "eager"}
            As of a single query's trends, but that a stream's workload gives final answers alone.

        Returns
        -------
        pyspark.sql.DataFrame
            ``query``, the name; the group and partition columns of all queries, NULL where a query has none of that
            name; ``window`` if some query slides, NULL for the others; and ``trend``: an array, in order of time, of
            ``struct<variable string, event struct<columns>>``.

        Raises
        ------
        InvalidNode
            If the plan is one of other queries, or statistics are none, or are given beside a plan; or if nothing is
            to be shared along a plan that is given, or sharing is no mode of trends; or if there is no such algorithm
            or ``emit``.
        ResolutionError
            If there is no column of a name.
        StreamingNotSupported
            If trends of a stream are asked for before they are final.
        UnsupportedQuery
            If joins are asked for, and cannot put the trends of some query together.

        Examples
        --------
        >>> rows = [(1, "A"), (2, "B"), (3, "C"), (4, "D")]
        >>> df = spark.createDataFrame(rows, "t int, type string")
        >>> many = df.patterns({"abc": "PATTERN SEQ(A, B, C)", "abd": "PATTERN SEQ(A, B, D)"}, time="t")
        >>> for row in sorted(many.trends(columns=["t"]).collect()):
        ...     print(row.query, [(bound.variable, bound.event.t) for bound in row.trend])
        abc [('A', 1), ('B', 2), ('C', 3)]
        abd [('A', 1), ('B', 2), ('D', 4)]
        """
        check_algorithm(algorithm)
        self._check_emit(emit, "trends", EAGER)
        return self._listed(limit, columns, self._shared(plan, deadline, statistics, sharing), algorithm).union()

    def _check_emit(self, emit: str, what: str, early: str) -> None:
        """Refuses answers of a stream before they are final.

        State holds the events of a key for the windows of all queries together. Who keeps it, Spark, tells that some of
        them have changed, and not whose.
        """
        check_emit(emit, what, early)
        if emit != FINAL and self._df.isStreaming:
            method = "aggregate" if early == UPDATE else "trends"
            raise StreamingNotSupported(
                f"a workload gives {what} of a stream when they are final: its queries share their state, and an event "
                "that comes to it changes the answers of some and not of others",
                hint=f"ask each query that cannot wait by itself, df.pattern(query).{method}(emit={emit!r}), and write "
                "it as a stream of its own",
            )

    def _listed(
        self, limit: int | None, columns: Sequence[str] | None, shared: PlanData | None, algorithm: str = "auto"
    ) -> TrendsOfAll:
        refuse_limited(self._df, limit)
        return trends_of_all(self._df, self._plan_trends(limit, columns, shared, algorithm), tuple(self._queries))

    def _plan_trends(
        self, limit: int | None, columns: Sequence[str] | None, shared: PlanData | None, algorithm: str = "auto"
    ) -> ListTogether:
        first = next(iter(self._rewritten.values()))
        shown = shown_columns(first, columns)
        by_type = plain_text_column(self._df, self._binding.type)
        return plan_trends_together(self._rewritten, shared, shown, whole("limit", limit), by_type, algorithm)

    def _shared(
        self,
        plan: PlanData | None = None,
        deadline: float | None = None,
        statistics: Mapping[str, object] | None = None,
        sharing: str | None = None,
    ) -> PlanData | None:
        """The aggregation plan of the queries, as given or else made; None where nothing is to be shared."""
        if sharing is not None:
            every = f"choose one of {', '.join(_SHARING_OF_TRENDS)}; the others are for aggregates"
            check_choice("sharing mode of trends", sharing, _SHARING_OF_TRENDS, every)
        if sharing == "never" and plan is not None:
            raise InvalidNode(
                'a plan is given, but sharing is "never" and does not go by it',
                hint='write sharing="dynamic", or leave the plan away',
            )
        known = None if statistics is None else given_statistics(statistics, None)
        if plan is None:
            if (self._sharing.mode if sharing is None else sharing) == "never":
                return None
            found = self._found_plan(check_deadline(deadline))
            return found if known is None else worth_keeping(found, known)
        if not isinstance(plan, PlanData):
            raise InvalidNode(f"plan= is no aggregation plan: {shown(plan)}", hint="it is made by cet.aggregation_plan")
        if known is not None:
            raise InvalidNode(
                "statistics are given beside an aggregation plan", hint="give them to cet.aggregation_plan instead"
            )
        if dict(plan.queries) != self._asked:
            raise InvalidNode(
                "the aggregation plan is one of other queries", hint="make it of those that df.patterns() is given"
            )
        return plan

    def _found_plan(self, deadline: float | None) -> PlanData:
        if deadline is not None:
            return Planner(self._asked, ALGORITHMS[0], Limits(), deadline).plan
        if self._best_plan is None:
            self._best_plan = Planner(self._asked, ALGORITHMS[0], Limits()).plan
        return self._best_plan

    def results(
        self,
        number: str = "decimal",
        *,
        of: str | None = None,
        limit: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> dict[str, DataFrame]:
        """The answer of each query as a DataFrame of its own, all from the same pass.

        The rows of the pass are marked to be cached (``DataFrame.persist``): the first answer that is computed fills
        the cache, and the others read it. :meth:`unpersist` frees it. Those of a stream are not: each answer that is
        written reads the stream by itself, and :meth:`aggregate` and :meth:`trends` give all of them in one.

        Parameters
        ----------
        number : {"decimal", "string", "double", "log2"}
            The form of counts and sums.
        of : {"aggregates", "trends"}, optional
            What is asked of each query; by default its aggregates, or its trends if no query has a RETURN list.
        limit : int, optional
        columns : sequence of str, optional
            Of trends, as of :meth:`trends`.

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
        >>> pairs = df.patterns({"ab": "PATTERN SEQ(A, B)", "cb": "PATTERN SEQ(C, B)"}, time="t")
        >>> {name: answer.count() for name, answer in pairs.results().items()}
        {'ab': 2, 'cb': 2}
        >>> pairs.unpersist()
        """
        if self._asks_for(of) == "trends":
            listed = self._listed(limit, columns, self._shared())
            if not self._df.isStreaming:
                self._persisted += [passed.persist() for passed in listed.passes]
            return listed.results()
        rows = self._answered(number)
        if number not in self._cached and not self._df.isStreaming:
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
        while self._persisted:
            self._persisted.pop().unpersist()

    def _asks_for(self, what: str | None) -> str:
        """What is asked of the queries, where that may be left open."""
        if what is None:
            return "aggregates" if self._returns else "trends"
        check_choice("answer", what, _ASKED)
        return what

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
            ``deciding``, and ``seconds`` in the kernel. By query, ``together`` and ``alone`` are the bursts of its
            Kleene patterns that were propagated with another query, and those that were not, as that cost less or was
            asked for; ``apart`` says of each of the queries that could not share why.
        """
        refuse_streaming(self._df, _MEASURED)
        rows = self._answered(number).metrics()
        if rows is None:
            return self._df.sparkSession.createDataFrame([], METRICS)
        return rows.select(F.from_json("metrics", METRICS).alias("m")).select("m.*")

    def explain(
        self,
        number: str = "decimal",
        *,
        measured: bool = False,
        of: str | None = None,
        limit: int | None = None,
        algorithm: str = "auto",
    ) -> Explanation:
        """Which queries share a pass, which of them may share a Kleene pattern, and the merged templates.

        Of trends it shows the aggregation plan along which they are detected.

        Parameters
        ----------
        number : {"decimal", "string", "double", "log2"}
            The number form that the plan is for.
        measured : bool
            Runs the workload, unless :meth:`results` has cached its rows, and shows its :meth:`metrics` too, those of
            all tasks together. Of trends it shows how many instances of each sub-pattern were built, how many other
            vertices did not have to build, and how many events nothing was built of as a parent had no instance.
        of : {"aggregates", "trends"}, optional
            What is explained; by default as of :meth:`results`.
        limit : int, optional
        algorithm : {"auto", "kernel", "joins"}
            Of :meth:`trends`. What joins do is not measured.

        Raises
        ------
        InvalidNode
            If what joins do is to be measured.

        Examples
        --------
        >>> df = spark.createDataFrame([(1, "A"), (2, "C"), (3, "B"), (4, "B")], "t int, type string")
        >>> texts = {"ab": "RETURN COUNT(*) PATTERN SEQ(A, B+)", "cb": "RETURN COUNT(*) PATTERN SEQ(C, B+)"}
        >>> text = str(df.patterns(texts, time="t", sharing="always").explain(measured=True))
        >>> [line.split() for line in text.splitlines() if line.startswith(("bursts", "shared graphlets"))]
        [['bursts', '1'], ['shared', 'graphlets', '1']]
        """
        if self._asks_for(of) == "trends":
            return self._explain_trends(limit, measured, check_algorithm(algorithm))
        sets: list[dict[str, Any]] = []
        if measured:
            metrics = self.metrics(number)
            by_query = ("together", "alone", "apart")
            names = [name for name in metrics.columns if name not in ("queries", *by_query)]
            totals = [(F.max if name == "unshared" else F.sum)(name).alias(name) for name in names]
            totals += [F.collect_list(name).alias(name) for name in by_query]
            with recovering():
                sets = [row.asDict() for row in metrics.groupBy("queries").agg(*totals).orderBy("queries").collect()]
        plan = self._plan(number)
        plan = attrs.evolve(plan, passes=tuple(as_carried_out(self._df, one) for one in plan.passes))
        return explain_workload(plan, self._rewritten, sets)

    def _explain_trends(self, limit: int | None, measured: bool, algorithm: str) -> Explanation:
        if measured and algorithm == "joins":
            raise InvalidNode(
                "what Spark's joins do is not measured",
                hint="leave measured= out; Spark's own page tells of each join of a run how many rows it gave",
            )
        shared = self._shared()
        plan = self._plan_trends(limit, None, shared, algorithm)
        work = []
        if measured:
            refuse_streaming(self._df, _MEASURED)
            with recovering():
                work = [measured_work(self._df, one) for one in measuring(plan)]
        return explain_trends_together(plan, shared, work)


_ASKED = ("aggregates", "trends")
_MEASURED = "what a run of it has measured"
_SHARING_OF_TRENDS = ("dynamic", "never")
#: The columns of :meth:`Workload.metrics`.
METRICS = (
    "queries array<string>, unshared bigint, bursts bigint, shared bigint, split bigint, splits bigint, merges bigint, "
    "snapshots bigint, event_snapshots bigint, propagated bigint, decisions bigint, deciding double, seconds double, "
    "together map<string,bigint>, alone map<string,bigint>, apart map<string,string>"
)


def check_deadline(deadline: float | None) -> float | None:
    """Refuse what is no number of seconds."""
    is_number = isinstance(deadline, (int, float)) and not isinstance(deadline, bool)
    if deadline is None or (is_number and deadline >= 0):
        return deadline
    raise InvalidNode(f"a deadline is a number of seconds from 0 on, not {shown(deadline)}")


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
    cost_model: str = CALIBRATED,
    sort: str | None = None,
    sort_memory: str | int | None = None,
    state: str | None = None,
    keep: Sequence[str] | None = None,
    parameters: Mapping[str, object] | None = None,
) -> Workload:
    """Bind many queries to the events of a DataFrame.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        One row per event. A DataFrame of pandas, or of pandas on Spark, is converted where a session is active.
    queries : mapping of str to query or text, or str
        By name; or one text, ``NAME q1: RETURN ... PATTERN ...; NAME q2: ...``. Each query has a RETURN list, unless
        trends are all that is asked for.
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
    cost_model : {"calibrated", "equation-8", "equation-7"}
        What decisions go by: prices of the work that is done here, measured once per machine; or an equation of Hamlet
        (SIGMOD 2021), which counts the steps of a program that scans the events before each event.
    sort : {"auto", "kernel", "spark", "runs", "input"}, optional
        Who puts the events of a task in order, as of :func:`pattern`.
    sort_memory : str or int, optional
        How much the kernel holds while it sorts, as of :func:`pattern`.
    state : {"auto", "windows", "events"}, optional
        How a stream keeps its events, as of :func:`pattern`.
    keep : sequence of str, optional
        The columns, besides those of time and type and of what breaks ties, that a stream keeps of all of its events,
        whatever the queries are: then queries can be added and removed where it is started again with its checkpoint,
        see :meth:`Workload.add`. They are all that queries can read. By default it keeps what the queries read.
    parameters : mapping, optional
        The constants that stand for ``:name`` in the texts, by name, as of :func:`parse`.

    Returns
    -------
    Workload

    Raises
    ------
    InvalidNode
        If there is no query, a name, the sharing mode or the cost model is not one, or deviations are not shares of
        queries that exist, or not asked for; if a parameter is no constant, or no text has one of its name.
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
    >>> text = "NAME late: RETURN COUNT(*) PATTERN SEQ(A, B) WHERE B.t > :after"
    >>> df.patterns(text, time="t", parameters={"after": 2}).aggregate().collect()
    [Row(query='late', count=Decimal('1'))]
    """
    df = as_dataframe(df)
    named = named_queries(queries, parameters or {})
    how = _sharing(sharing, deviations or {}, cost_model, named)
    asked = asked_sort(df.sparkSession, sort, sort_memory)
    kept = asked_state(df, state, whole=keep is not None)
    binding = Binding(time, tie_break, type, on_null_time, asked, watermarks_of(df), state=kept)
    df = kept_columns(df, keep, (time, type, *binding.tie_break, *(binding.watermarks or ())))
    return _bound(named, df, binding, how)


def _bound(named: Mapping[str, Query], df: DataFrame, binding: Binding, how: Sharing) -> Workload:
    """Binds queries to a DataFrame, to which the columns that they compute are added."""
    again = partial(_bound, df=df, binding=binding, how=how)
    computed = _computed_by_all(named, df)
    if computed and binding.state.whole:
        raise StreamingNotSupported(
            f"the group {computed[0].name!r} is computed by a query, and kept events do not depend on queries",
            hint="compute it before, with df.withColumn(...), and name it among the columns of keep=",
        )
    df = with_computed(df, computed)
    binding = attrs.evolve(binding, computed=tuple(computed))
    workload = Workload(df, named, binding, how, again)
    workload._rewritten  # noqa: B018 - errors of the queries are raised here, not when an answer is asked for
    for name, query in named.items():
        try:
            refuse_changing_conditions(df, spark_columns(query))
        except CetdslError as error:
            raise of_query(name, error) from None
    require_worker_python(df.sparkSession)
    return workload


def _computed_by_all(queries: Mapping[str, Query], df: DataFrame) -> list[Computed]:
    """The columns that queries compute of those of a DataFrame, each once."""
    found: dict[str, tuple[str, Computed]] = {}
    errors: list[CetdslError] = []
    for name, query in queries.items():
        with _noting(errors, name):
            for item in computed_by(query, df):
                other, known = found.setdefault(item.name.lower(), (name, item))
                if known != item:
                    raise ResolutionError(
                        f"the query {other!r} computes another group of the name {item.name!r}",
                        hint="give one of them another name with AS",
                    )
    raise_together(errors, "the workload")
    return [item for _, item in found.values()]


@contextmanager
def _noting(errors: list[CetdslError], name: str) -> Iterator[None]:
    """Keeps the errors of a query, with its name."""
    try:
        yield
    except AnalysisErrors as several:
        errors += [of_query(name, error) for error in several.errors]
    except CetdslError as error:
        errors.append(of_query(name, error))


def _sharing(mode: str, deviations: Mapping[str, float], cost_model: str, queries: Mapping[str, Query]) -> Sharing:
    check_choice("sharing mode", mode, SHARING)
    check_choice("cost model", cost_model, COST_MODELS)
    if cost_model != CALIBRATED and mode not in ("dynamic", "static"):
        raise InvalidNode(
            f"a cost model is given, but sharing is {mode!r} and decides nothing",
            hint='write sharing="dynamic" or "static", or leave it away',
        )
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
    return Sharing(mode, dict(deviations), cost_model)


def named_queries(queries: object, parameters: object = None) -> dict[str, Query]:
    """Returns the queries of a workload by name, which come as a mapping or as one text.

    Constants stand for the ``parameters`` of texts; with None, there is no argument that gives them.
    """
    values = {} if parameters is None else constants(parameters)
    if isinstance(queries, str):
        return sase.parse_queries(queries, values)
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
            found[name] = query_of(query) if parameters is None else _with_values(query, values)
        except CetdslError as error:
            raise of_query(name, error) from None
    texts = [query for query in queries.values() if isinstance(query, str)]
    sase.refuse_unused(values, {name for text in texts for name in sase.parameters_in(text)})
    return found


def _with_values(query: object, values: Mapping[str, Literal]) -> Query:
    """A query of a workload; of the values, a text takes those that it mentions."""
    if not isinstance(query, str):
        return query_of(query)
    mentioned = sase.parameters_in(query)
    own = {name: value for name, value in values.items() if name in mentioned}
    return sase.parse(query, own, sase.in_parameters)
