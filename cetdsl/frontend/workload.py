"""``df.patterns({...})``: many queries bound to one DataFrame, answered together."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any, TypeVar

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
    UnknownColumn,
    check_choice,
    is_one_of,
    of_query,
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
from cetdsl.execution.conditions import check_conditions
from cetdsl.execution.exchange import as_carried_out
from cetdsl.execution.python import require_worker_python
from cetdsl.execution.trends_together import TrendsOfAll, measured_work, plain_text_column, trends_of_all
from cetdsl.execution.workload import WorkloadRows, union_of_answers, workload_rows
from cetdsl.explain import Explanation
from cetdsl.explain.notebook import workload_fragment
from cetdsl.explain.stages import ON_REQUEST, STAGES
from cetdsl.explain.trends_together import explain_trends_together
from cetdsl.explain.workload import explain_workload
from cetdsl.frontend import sase
from cetdsl.frontend.bound import Bound
from cetdsl.frontend.given import check_emit, check_number, shown_columns, whole
from cetdsl.frontend.keeping import asked_state, kept_columns
from cetdsl.frontend.patterns import constants, query_of
from cetdsl.frontend.session import computed_by, spark_conditions
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

#: The plan of a workload, for aggregates or for trends.
_Plan = TypeVar("_Plan", AnswerTogether, ListTogether)


class Workload(Bound):
    """Queries bound to a DataFrame; made by ``df.patterns(...)`` or :func:`patterns`.

    Queries with the same partition and group columns are answered in one pass: the events are read, shuffled and sorted
    once. Queries of a pass that have a Kleene pattern in common share the computation of its counts. Each answer is a
    lazy DataFrame. It is computed when it is collected, shown or written.

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
        super().__init__(df)
        self._again = again
        self._asked = dict(queries)
        # The groups that the queries compute are columns of the DataFrame by now.
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
        """The queries as immutable nodes, by name."""
        return dict(self._asked)

    def add(self, name: str, query: object) -> Workload:
        """Returns the workload with one more query.

        Spark cannot change a stream while it runs. A stream can be started again from its checkpoint with the new
        workload if its events are kept for all queries, by ``keep=`` of :func:`patterns`. The new query is then
        answered for the windows that are open, over all of their events.

        Parameters
        ----------
        name : str
            The name of the query.
        query : query, pattern or str
            A query or pattern made by the fluent functions, or a query text.

        Returns
        -------
        Workload
            A new workload; this one is not changed.

        Raises
        ------
        InvalidNode
            If the workload has a query of this name.
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
        """Returns the workload without a query. A stream can go on with it under the conditions of :meth:`add`.

        Parameters
        ----------
        name : str
            The name of the query.

        Returns
        -------
        Workload
            A new workload; this one is not changed.

        Raises
        ------
        InvalidNode
            If the workload has no query of this name, or no other query.

        Examples
        --------
        >>> df = spark.createDataFrame([(1, "A"), (2, "B")], "t int, type string")
        >>> pairs = df.patterns({"ab": "PATTERN SEQ(A, B)", "b": "PATTERN B"}, time="t")
        >>> list(pairs.remove("ab").queries)
        ['b']
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
        raise_together([_of_kept(error) for error in errors] if self._binding.state.whole else errors, "the workload")
        return found

    @property
    def _returns(self) -> bool:
        """Whether some query returns aggregates."""
        return any(query.returning for query in self._queries.values())

    def _plan(self, number: str) -> AnswerTogether:
        check_number(number)
        hint = (
            "give the query a RETURN clause, in Python .returning(cet.count()), "
            "or ask for trends, with trends() or results(of='trends')"
        )
        nothing = [name for name, query in self._queries.items() if not query.returning]
        errors = [of_query(name, ResolutionError("there is nothing to return", hint=hint)) for name in nothing]
        raise_together(errors, "the workload")
        return plan_workload(self._rewritten, number, self._sharing)

    def _answered(self, number: str) -> WorkloadRows:
        if number not in self._rows:
            self._rows[number] = workload_rows(self._df, self._plan(number), tuple(self._queries))
        return self._rows[number]

    def aggregate(self, number: str = "decimal", *, emit: str = FINAL) -> DataFrame:
        """Computes the aggregates of all queries, in one DataFrame.

        Parameters
        ----------
        number : {"decimal", "string", "double", "log2"}
            The form of counts, and of sums over integers and decimals.
        emit : {"final", "update"}
            As in :meth:`PatternFrame.aggregate`, but on a stream a workload gives only ``final`` answers.

        Returns
        -------
        pyspark.sql.DataFrame
            ``query``, the name of the query; ``group``, a struct of the group columns of all queries, NULL where a
            query does not group by one (left out if no query has groups); ``window`` (left out if no query slides); and
            the union of the aggregates by name, NULL where a query has none of that name.

        Raises
        ------
        InvalidNode
            If there is no such ``number`` or ``emit``.
        ResolutionError
            If a query has no RETURN list, or aggregates of one name have different types.
        StreamingNotSupported
            If ``emit="update"`` is asked for on a stream.

        Examples
        --------
        >>> df = spark.createDataFrame([(1, "A"), (2, "C"), (3, "B"), (4, "B")], "t int, type string")
        >>> texts = {"ab": "RETURN COUNT(*) AS n PATTERN SEQ(A, B+)", "longest": "RETURN MAX(LENGTH) AS k PATTERN B+"}
        >>> df.patterns(texts, time="t").aggregate().orderBy("query").show()
        +-------+----+----+
        |  query|   n|   k|
        +-------+----+----+
        |     ab|   3|NULL|
        |longest|NULL|   2|
        +-------+----+----+
        <BLANKLINE>
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
        """Lists the trends of all queries, one row each.

        Sub-patterns that several queries contain are detected once for all of them, along an aggregation plan: see
        :doc:`/aggregation_plans`.

        Parameters
        ----------
        limit : int, optional
            The maximum number of trends of each query to return. Which ones are returned is arbitrary.
        columns : sequence of str, optional
            The columns of each event to show; all by default.
        plan : AggregationPlan, optional
            A plan made for the same queries by :func:`cetdsl.aggregation_plan`; by default one is made. With
            ``sharing="never"`` no plan is used, and none may be given.
        deadline : float, optional
            The seconds after which the search for a plan ends, and the best plan found so far is taken.
        statistics : dict, optional
            The rates of events, and the shares of them that meet conditions, as for :func:`cetdsl.aggregation_plan`.
            With them, sub-patterns that cost more to keep than to build again are not shared.
        sharing : {"dynamic", "never"}, optional
            ``dynamic``: a sub-pattern is shared where this saves more than it costs, which is decided for each chunk of
            events. ``never``: no sub-pattern is shared. By default ``never`` if :func:`patterns` was told so, and
            ``dynamic`` otherwise.
        algorithm : {"auto", "kernel", "joins"}
            The engine that puts trends together. ``joins`` joins DataFrames, for groups that no task can hold: see
            :doc:`/aggregation_plans`. The call itself then joins the sub-patterns that are shared. ``auto`` is
            ``kernel``, which runs in tasks.
        emit : {"final", "eager"}
            As in :meth:`PatternFrame.trends`, but on a stream a workload gives only ``final`` answers.

        Returns
        -------
        pyspark.sql.DataFrame
            ``query``, the name of the query; the group and partition columns of all queries, NULL where a query has
            none of that name; ``window`` if some query slides, NULL for the others; and ``trend``: an array, in order
            of time, of ``struct<variable string, event struct<columns>>``.

        Raises
        ------
        InvalidNode
            If the plan was made for other queries; the statistics are malformed, or are given together with a plan; a
            plan is given with ``sharing="never"``; there is no such sharing mode, algorithm or ``emit``; or the limit
            or the deadline is no such number.
        ResolutionError
            If ``columns`` names a column that the DataFrame does not have.
        StreamingNotSupported
            If ``emit="eager"`` or a limit is asked for on a stream.
        UnsupportedQuery
            If ``algorithm="joins"`` cannot put the trends of some query together.

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
        """Raises StreamingNotSupported if answers of a stream are requested before they are final.

        State holds the events of a key for the windows of all queries together. Spark tells that the events of a key
        have changed, and not for which queries.
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
        """Returns the aggregation plan of the queries, as given or else made; None where nothing is to be shared."""
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
        """Returns the answer of each query as a DataFrame of its own, all from the same pass.

        The rows of the pass are marked to be cached (``DataFrame.persist``): the first answer that is computed fills
        the cache, and the others read it. :meth:`unpersist` frees it. The rows of a stream are not cached: each answer
        that is written reads the stream by itself. :meth:`aggregate` and :meth:`trends` give all answers as one stream.

        Parameters
        ----------
        number : {"decimal", "string", "double", "log2"}
            The form of counts and sums.
        of : {"aggregates", "trends"}, optional
            The kind of answer; by default the aggregates of each query, or its trends if no query has a RETURN list.
        limit : int, optional
            The maximum number of trends of each query to return, as in :meth:`trends`.
        columns : sequence of str, optional
            The columns of each event to show, as in :meth:`trends`.

        Returns
        -------
        dict of str to pyspark.sql.DataFrame
            The answers by the names of their queries; each has the columns that its query alone would have.

        Raises
        ------
        InvalidNode
            If ``of`` is no kind of answer, or an argument is given that the other kind has.
        ResolutionError
            If aggregates are asked for, and a query has no RETURN list.

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
            if number != "decimal":
                check_number(number)
                raise InvalidNode(f"number={number!r} is about aggregates, and trends are asked for", hint=_ASK_OTHERS)
            listed = self._listed(limit, columns, self._shared())
            if not self._df.isStreaming:
                self._persisted += [passed.persist() for passed in listed.passes]
            return listed.results()
        for given, argument in ((limit, "limit"), (columns, "columns")):
            if given is not None:
                raise InvalidNode(f"{argument}= is about trends, and aggregates are asked for", hint=_ASK_OTHERS)
        rows = self._answered(number)
        if number not in self._cached and not self._df.isStreaming:
            self._cached.add(number)
            for passed in rows.passes:
                passed.persist()
        return rows.results()

    def unpersist(self) -> None:
        """Frees the rows that :meth:`results` has cached.

        Examples
        --------
        >>> df = spark.createDataFrame([(1, "A"), (2, "B")], "t int, type string")
        >>> pairs = df.patterns({"ab": "PATTERN SEQ(A, B)", "b": "PATTERN B"}, time="t")
        >>> {name: answer.count() for name, answer in pairs.results().items()}
        {'ab': 1, 'b': 1}
        >>> pairs.unpersist()
        """
        for number in self._cached:
            for passed in self._rows[number].passes:
                passed.unpersist()
        self._cached.clear()
        while self._persisted:
            self._persisted.pop().unpersist()

    def _asks_for(self, what: str | None) -> str:
        """Returns the kind of answer that is requested: as given, or trends if no query has a RETURN list."""
        if what is None:
            return "aggregates" if self._returns else "trends"
        check_choice("answer", what, _ASKED)
        return what

    def metrics(self, number: str = "decimal") -> DataFrame:
        """Returns metrics of the work: a row per task for each set of queries that share, and for each other query.

        The DataFrame runs the workload when it is computed, unless :meth:`results` has cached its rows.

        Parameters
        ----------
        number : {"decimal", "string", "double", "log2"}
            The number form of the answers that are computed.

        Returns
        -------
        pyspark.sql.DataFrame
            The columns are

            - ``queries``, the names of the queries, and ``unshared``, the number of them that ran without sharing;
            - ``bursts``, the number of bursts of the variables that Kleene patterns read;
            - ``shared`` and ``split``, the numbers of graphlets of several queries, and of a single one;
            - ``splits`` and ``merges``, how often the decision changed to splitting, and to merging;
            - ``snapshots`` of graphlets, and ``event_snapshots`` of events that the queries do not treat alike;
            - ``propagated``, the number of events whose coefficients were propagated for several queries at once;
            - ``decisions``, their number, ``deciding``, the seconds that they took, and ``seconds``, those in the
              kernel;
            - ``together`` and ``alone``, by query, the bursts of its Kleene patterns that were propagated with another
              query, and those that were not, because that cost less or was asked for;
            - ``apart``, by query that could not share, the reason.

        Raises
        ------
        ResolutionError
            If a query has no RETURN list.
        StreamingNotSupported
            If the DataFrame is a stream.

        Examples
        --------
        >>> df = spark.createDataFrame([(1, "A"), (2, "C"), (3, "B"), (4, "B")], "t int, type string")
        >>> texts = {"ab": "RETURN COUNT(*) PATTERN SEQ(A, B+)", "cb": "RETURN COUNT(*) PATTERN SEQ(C, B+)"}
        >>> measured = df.patterns(texts, time="t", sharing="always").metrics()
        >>> measured.select("queries", "bursts", "shared").collect()
        [Row(queries=['ab', 'cb'], bursts=1, shared=1)]
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
        """Explains which queries share a pass, which of them may share a Kleene pattern, and the merged templates.

        For trends it shows the aggregation plan along which they are detected.

        Parameters
        ----------
        number : {"decimal", "string", "double", "log2"}
            The number form that the plan is for.
        measured : bool
            Whether to run the workload, unless :meth:`results` has cached its rows, and to show its :meth:`metrics`,
            the totals of all tasks. For trends it shows, for each sub-pattern, the number of instances that were built,
            the number that other vertices did not have to build again, and the number of events from which nothing was
            built because a parent had no instance.
        of : {"aggregates", "trends"}, optional
            The answers to explain; by default as in :meth:`results`.
        limit : int, optional
            The most trends of each query to return, as in :meth:`trends`; used for trends only.
        algorithm : {"auto", "kernel", "joins"}
            The engine, as in :meth:`trends`; used for trends only. Joins cannot be measured.

        Returns
        -------
        Explanation
            Prints as text; ``.graphviz()`` and ``.html()`` give pictures.

        Raises
        ------
        InvalidNode
            If ``measured=True`` is combined with ``algorithm="joins"``, or an argument has no such value.
        ResolutionError
            If aggregates are asked for, and a query has no RETURN list.

        Examples
        --------
        >>> df = spark.createDataFrame([(1, "A"), (2, "C"), (3, "B"), (4, "B")], "t int, type string")
        >>> texts = {"ab": "RETURN COUNT(*) PATTERN SEQ(A, B+)", "cb": "RETURN COUNT(*) PATTERN SEQ(C, B+)"}
        >>> text = str(df.patterns(texts, time="t", sharing="always").explain(measured=True))
        >>> [line.split() for line in text.splitlines() if line.startswith(("bursts", "shared graphlets"))]
        [['bursts', '1'], ['shared', 'graphlets', '1']]
        """
        if is_one_of(number, (*STAGES, *ON_REQUEST)):
            raise InvalidNode(
                f"a workload is explained as a whole, without the stage {number!r}",
                hint=f"write explain(), or explain one of the queries alone: df.pattern(query).explain({number!r})",
            )
        check_number(number)
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
        return explain_workload(self._carried_out(self._plan(number)), self._rewritten, sets)

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
        return explain_trends_together(self._carried_out(plan), shared, work)

    def _carried_out(self, plan: _Plan) -> _Plan:
        """Returns the plan of a workload with its passes as they are carried out."""
        return attrs.evolve(plan, passes=tuple(as_carried_out(self._df, one) for one in plan.passes))


_ASKED = ("aggregates", "trends")
_MEASURED = "what a run of it has measured"
_ASK_OTHERS = 'leave it out, or say what is asked for by of="aggregates" or of="trends"'
_SHARING_OF_TRENDS = ("dynamic", "never")
#: The columns of :meth:`Workload.metrics`.
METRICS = (
    "queries array<string>, unshared bigint, bursts bigint, shared bigint, split bigint, splits bigint, merges bigint, "
    "snapshots bigint, event_snapshots bigint, propagated bigint, decisions bigint, deciding double, seconds double, "
    "together map<string,bigint>, alone map<string,bigint>, apart map<string,string>"
)


def check_deadline(deadline: float | None) -> float | None:
    """Returns a deadline; raises InvalidNode unless it is None or a number of seconds from 0 up."""
    is_number = isinstance(deadline, (int, float)) and not isinstance(deadline, bool)
    if deadline is None or (is_number and deadline >= 0):
        return deadline
    raise InvalidNode(f"a deadline is a number of seconds from 0 on, not {shown(deadline)}")


def _of_kept(error: CetdslError) -> CetdslError:
    """Returns an error of a query over events of which ``keep=`` names columns; it says why there are no others."""
    if not isinstance(error, UnknownColumn):
        return error
    known = copy.copy(error)
    known.hint = f"{error.hint}; keep= leaves other columns of the events out"
    return known


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
    """Binds many queries to the events of a DataFrame.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        One row per event. A DataFrame of pandas, or of pandas on Spark, is converted where a session is active.
    queries : mapping of str to query or text, or str
        The queries by name; or one text, ``NAME q1: RETURN ... PATTERN ...; NAME q2: ...``. Queries need a RETURN list
        for aggregates, and none for trends.
    time : str, optional
        The time column; by default the only timestamp column.
    tie_break : str or sequence of str, optional
        Columns that order events of the same time.
    type : str or None
        The column that holds event types; None says that every event is of every type.
    on_null_time : {"error", "skip"}
        What to do with rows whose time is NULL.
    sharing : {"dynamic", "static", "always", "never"}
        Whether queries with a common Kleene pattern share the computation of its counts. ``dynamic``: decided burst by
        burst. ``static``: decided once per task, from the first events or from ``deviations``. ``always`` and
        ``never``: fixed. The answers are the same.
    deviations : mapping of str to float, optional
        For ``sharing="static"``: for each query, the share (0 to 1) of the events of its Kleene patterns that it treats
        otherwise than most of the queries that it shares with. For queries that are not named, it is estimated from the
        first events.
    cost_model : {"calibrated", "equation-8", "equation-7"}
        The costs by which sharing is decided. ``calibrated``: the times of the steps of cetdsl's kernels, measured once
        per machine. The others: an equation of the paper on Hamlet (SIGMOD 2021), which counts the steps of a program
        that scans all earlier events for each event.
    sort : {"auto", "kernel", "spark", "runs", "input"}, optional
        The way in which the events of each task are put in order, as in :func:`pattern`.
    sort_memory : str or int, optional
        The amount of events that the kernel holds while it sorts, as in :func:`pattern`.
    state : {"auto", "windows", "events"}, optional
        How a stream keeps its events, as in :func:`pattern`.
    keep : sequence of str, optional
        The columns that a stream keeps of all of its events, besides those of time, type and ``tie_break``. Queries can
        read no others. With ``keep``, queries can be added and removed when the stream is started again from its
        checkpoint, see :meth:`Workload.add`. By default a stream keeps the columns that its queries read.
    parameters : mapping, optional
        The constants that stand for ``:name`` in the texts, by name, as in :func:`parse`.

    Returns
    -------
    Workload

    Raises
    ------
    InvalidNode
        If there is no query; a query's name is no text; there is no such sharing mode or cost model, or a cost model is
        given although nothing is decided; ``sort``, ``sort_memory``, ``state``, ``keep`` or ``on_null_time`` has no
        such value; deviations are not shares from 0 to 1, name a query that does not exist, or are given without
        ``sharing="static"``; or a parameter is no constant, or no text has a parameter of its name.
    ParseError
        If a text is malformed.
    ResolutionError
        If queries do not fit the DataFrame; the errors of all of them are reported at once.
    WatermarkError
        If a stream has no watermark on the time column.
    StreamingNotSupported
        If a query of a stream has no window; each event is to be kept once, by ``keep`` or ``state="events"``, without
        RocksDB or protobuf; or ``keep`` is given, and a query computes a group.
    MissingDependency
        If Spark runs on this machine, and its Python workers are another Python that lacks packages that cetdsl needs.
    EngineError
        If the Spark session is stopped.

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
            check_conditions(df, spark_conditions(query))
        except CetdslError as error:
            raise of_query(name, error) from None
    require_worker_python(df.sparkSession)
    return workload


def _computed_by_all(queries: Mapping[str, Query], df: DataFrame) -> list[Computed]:
    """Returns the groups that queries compute from columns of a DataFrame, each once."""
    found: dict[str, tuple[str, Computed]] = {}
    schema = schema_of(df)
    errors: list[CetdslError] = []
    for name, query in queries.items():
        with _noting(errors, name):
            for item in computed_by(query, df):
                other, known = found.setdefault(schema.folded(item.name), (name, item))
                if known != item:
                    raise ResolutionError(
                        f"the query {other!r} computes another group of the name {item.name!r}",
                        hint="give one of them another name with AS",
                    )
    raise_together(errors, "the workload")
    return [item for _, item in found.values()]


@contextmanager
def _noting(errors: list[CetdslError], name: str) -> Iterator[None]:
    """Catches the errors of a query, and adds them to a list with the name of the query."""
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
    if not isinstance(deviations, Mapping):
        raise InvalidNode(
            f"deviations are a share for each of some queries, not {shown(deviations)}",
            hint='write deviations={"q1": 0.1}',
        )
    for name, part in deviations.items():
        if name not in queries:
            raise InvalidNode(
                f"deviations name a query {name!r} that the workload does not have",
                hint=f"its queries are {', '.join(queries)}",
            )
        if isinstance(part, bool) or not isinstance(part, (int, float)) or not 0 <= part <= 1:
            raise InvalidNode(f"the deviation of query {name!r} is a share from 0 to 1, not {shown(part)}")
    return Sharing(mode, dict(deviations), cost_model)


def named_queries(queries: object, parameters: object = None, function: str = "df.patterns") -> dict[str, Query]:
    """Returns the queries of a workload by name; they are given as a mapping or as one text.

    ``parameters`` are the constants of the texts by name; None if the caller has no argument for them. ``function`` is
    what the user calls.
    """
    values = {} if parameters is None else constants(parameters)
    if isinstance(queries, str):
        return sase.parse_queries(queries, values)
    if not isinstance(queries, Mapping):
        raise InvalidNode(
            f"the queries of a workload are a dict by name or one text, not {queries.__class__.__name__}",
            hint=f'write {function}({{"q1": query, "q2": "RETURN ... PATTERN ..."}})',
        )
    if not queries:
        raise InvalidNode("the workload has no queries", hint=f'write {function}({{"q1": query}})')
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
    """Returns the node of a query; a text takes those of the values that it mentions."""
    if not isinstance(query, str):
        return query_of(query)
    mentioned = sase.parameters_in(query)
    own = {name: value for name, value in values.items() if name in mentioned}
    return sase.parse(query, own, sase.in_parameters)
