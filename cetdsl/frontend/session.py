"""``df.pattern(query)``: a query bound to a DataFrame, and the methods that answer and explain it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import attrs
from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import current_timestamp

from cetdsl.analysis.resolve import Binding, ResolvedQuery, analyse, resolve_computed
from cetdsl.errors import (
    InvalidNode,
    ResolutionError,
    UnsupportedQuery,
    check_choice,
    is_one_of,
    shown,
    whole_number,
)
from cetdsl.execution import detection as detected
from cetdsl.execution.compat import (
    as_dataframe,
    bytes_of,
    function_names,
    refuse_limited,
    refuse_streaming,
    schema_of,
    watermarks_of,
)
from cetdsl.execution.complete import summary
from cetdsl.execution.computed import with_computed
from cetdsl.execution.conditions import check_conditions
from cetdsl.execution.exchange import as_carried_out
from cetdsl.execution.graph import EventGraph
from cetdsl.execution.layouts import Layout, lay_out, narrowed
from cetdsl.execution.matches import with_sorting
from cetdsl.execution.operators import run
from cetdsl.execution.python import require_worker_python
from cetdsl.execution.room import exceeded_room
from cetdsl.execution.stopwatch import take
from cetdsl.execution.streams import just_ended
from cetdsl.explain import Explanation, explain_query
from cetdsl.explain.notebook import bound_fragment, graph_fragment
from cetdsl.explain.physical import chosen_facts, measured_facts
from cetdsl.explain.stages import ON_REQUEST, STAGES, Analysed, Measured, Plans
from cetdsl.frontend.bound import Bound
from cetdsl.frontend.diagnosis import USUAL_SAMPLE, Diagnosis, diagnose
from cetdsl.frontend.extraction import given_extraction, given_road
from cetdsl.frontend.given import (
    check_count_name,
    check_emit,
    check_number,
    positive,
    shown_columns,
    whole,
)
from cetdsl.frontend.keeping import asked_state
from cetdsl.frontend.layouts import given_layout
from cetdsl.frontend.patterns import QueryTerm, query_of
from cetdsl.frontend.sorting import asked_sort
from cetdsl.frontend.terms import Term, to_expr
from cetdsl.ir.emission import EAGER, FINAL, UPDATE
from cetdsl.ir.extraction import USUAL, Extraction
from cetdsl.ir.kernel import ALL, ENDS, MAXIMAL
from cetdsl.ir.schema import unused_name
from cetdsl.pattern.expressions import Aggregate, Length, SparkColumn
from cetdsl.pattern.nodes import events, negations
from cetdsl.pattern.query import ANY, STRICT, Computed, Query, Returned, Selection
from cetdsl.pattern.text import quote, unparse
from cetdsl.planning.detection import ALGORITHMS, Detection, given_detection
from cetdsl.planning.planner import (
    Decision,
    plan_aggregate,
    plan_complete,
    plan_matches,
    plan_measuring,
    plan_measuring_choice,
    plan_sampling,
    plan_trends,
    strategy_name,
)
from cetdsl.planning.strategies.choose import choose
from cetdsl.planning.strategies.complete import (
    CompleteRequest,
    CountRequest,
    SampleRequest,
    SurveyRequest,
    TopRequest,
    fits_joins,
)
from cetdsl.planning.strategies.detect import detect
from cetdsl.planning.strategies.event_graph import event_graph as plan_event_graph
from cetdsl.planning.strategies.request import compile_sides, source_of
from cetdsl.rewrite import rewrite

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

COUNT = Aggregate("count")
#: So many trends are drawn, or are the heaviest, where ``explain`` is not told how many.
_EXPLAINED = 10
#: Names of answers that are refused for streams, for the messages of errors.
_SURVEY, _MEASURED = "a survey", "what a run of it has measured"
#: The advice, in an error, for a stream that is asked for trends of all windows together.
_OF_EACH = "write per_group=True for those of each window, or "


@attrs.frozen
class _Which:
    """Which trends are drawn or compared: complete ones or all, of each group or of all together."""

    complete: bool
    completeness: str
    columns: tuple[str, ...]
    per_group: bool


class PatternFrame(Bound):
    """A query bound to a DataFrame; made by ``df.pattern(...)`` or :func:`pattern`.

    Each answer is a lazy DataFrame. It is computed when it is collected, shown or written.

    Examples
    --------
    >>> df = spark.createDataFrame([(1, "A"), (2, "B")], "t int, type string")
    >>> df.pattern("PATTERN SEQ(A, B)", time="t")
    <PatternFrame of PATTERN SEQ(A, B)>
    """

    def __init__(self, df: DataFrame, query: Query, binding: Binding) -> None:
        super().__init__(df)
        self._asked = query
        # The groups that the query computes are columns of the DataFrame by now.
        self._query = query.over_columns()
        self._binding = binding

    def __repr__(self) -> str:
        return f"<PatternFrame of {' '.join(unparse(self._asked, lenient=True).split())}>"

    def _repr_html_(self) -> str:
        return bound_fragment(self._asked, self._rewritten)

    @property
    def query(self) -> Query:
        """The query as an immutable node."""
        return self._asked

    @cached_property
    def _rewritten(self) -> ResolvedQuery:
        return rewrite(self._analyse(self._query))[0]

    def _analyse(self, query: Query) -> ResolvedQuery:
        return analyse(query, schema_of(self._df), self._binding, known_functions=function_names())

    def matching(self, policy: str) -> PatternFrame:
        """Sets the matching policy of the query, as :meth:`~cetdsl.PatternTerm.matching` does.

        Parameters
        ----------
        policy : {"any", "next", "strict"}
            Which events a trend may skip between two that it binds.

        Returns
        -------
        PatternFrame
            The changed query, bound to the same events.

        Raises
        ------
        InvalidNode
            If there is no such policy.
        ResolutionError
            If the changed query does not fit the DataFrame.

        Examples
        --------
        >>> df = spark.createDataFrame([(1, "A"), (2, "B"), (3, "B")], "t int, type string")
        >>> bound = df.pattern("PATTERN SEQ(A, B)", time="t")
        >>> bound.trends().count(), bound.matching("strict").trends().count()
        (2, 1)
        """
        return self._bound_again(self._term.matching(policy))

    def after_match(self, skip: str) -> PatternFrame:
        """Sets where the search for the next match begins, as :meth:`~cetdsl.PatternTerm.after_match` does.

        Parameters
        ----------
        skip : str
            ``"past_last"``, ``"next_row"``, ``"to_first(B)"`` or ``"to_last(B)"``.

        Returns
        -------
        PatternFrame
            The changed query, bound to the same events, for :meth:`matches`.

        Raises
        ------
        InvalidNode
            If ``skip`` is none of these, or the query keeps the :meth:`first` match only.
        ResolutionError
            If the changed query does not fit the DataFrame.

        Examples
        --------
        >>> df = spark.createDataFrame([(1, "B"), (2, "B"), (3, "B")], "t int, type string")
        >>> bound = df.pattern("PATTERN B+", time="t")
        >>> bound.matches().count(), bound.after_match("next_row").matches().count()
        (1, 3)
        """
        return self._bound_again(self._term.after_match(skip))

    def first(self) -> PatternFrame:
        """Keeps the first match only, as :meth:`~cetdsl.PatternTerm.first` does.

        Returns
        -------
        PatternFrame
            The changed query, bound to the same events, for :meth:`matches`.

        Raises
        ------
        InvalidNode
            If the query has a place to go on :meth:`after_match`.
        ResolutionError
            If the changed query does not fit the DataFrame.

        Examples
        --------
        >>> df = spark.createDataFrame([(1, "A"), (2, "A")], "t int, type string")
        >>> bound = df.pattern("PATTERN A", time="t")
        >>> bound.matches().count(), bound.first().matches().count()
        (2, 1)
        """
        return self._bound_again(self._term.first())

    def longest(self) -> PatternFrame:
        """Takes the longest of the matches that begin at an event, as :meth:`~cetdsl.PatternTerm.longest` does.

        Returns
        -------
        PatternFrame
            The changed query, bound to the same events, for :meth:`matches`.

        Raises
        ------
        ResolutionError
            If the changed query does not fit the DataFrame.

        Examples
        --------
        >>> df = spark.createDataFrame([(1, "A"), (2, "B")], "t int, type string")
        >>> bound = df.pattern("PATTERN A OR SEQ(A, B)", time="t")
        >>> [len(row.trend) for answer in (bound, bound.longest()) for row in answer.matches().collect()]
        [1, 2]
        """
        return self._bound_again(self._term.longest())

    @property
    def _term(self) -> QueryTerm:
        return QueryTerm(self._asked)

    def _bound_again(self, changed: QueryTerm) -> PatternFrame:
        """Binds a query, with the same events and computed groups, to the same DataFrame."""
        bound = PatternFrame(self._df, changed.node, self._binding)
        bound._rewritten  # noqa: B018 - errors of the query are raised here, not when an answer is asked for
        return bound

    def count_trends(self, name: str = "count", number: str = "decimal", *, emit: str = FINAL) -> DataFrame:
        """Counts the trends of each group and window.

        Parameters
        ----------
        name : str
            Name of the output column.
        number : {"decimal", "string", "double", "log2"}
            ``decimal`` is exact, DECIMAL(38,0), and fails when a count does not fit; ``string`` is exact at any size;
            ``double`` is rounded; ``log2`` is the logarithm, good at any size.
        emit : {"final", "update"}
            When a stream gives the answer of a window. ``final``: once, when no event can change it any more.
            ``update``: again at each trigger that reads an event of the window; such a stream is written with
            ``outputMode("update")``. On a DataFrame that is no stream both give the same.

        Returns
        -------
        pyspark.sql.DataFrame
            Group columns, ``window`` if the query slides, and the count. A group and window without a trend has no row.

        Raises
        ------
        ResolutionError
            If the query does not fit the DataFrame.
        InvalidNode
            If there is no such ``number`` or ``emit``, or ``name`` is one of the forms of numbers.
        CountOverflow
            When the DataFrame is computed, if a count does not fit the ``number``.

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
        check_count_name(name)
        return self._answer((Returned(COUNT, name),), number, emit)

    def aggregate(self, *, number: str = "decimal", emit: str = FINAL, **aggregates: Term) -> DataFrame:
        """Computes aggregates over all trends of each group and window.

        Parameters
        ----------
        number : {"decimal", "string", "double", "log2"}
            The form of counts, and of sums over integers and decimals.
        emit : {"final", "update"}
            As in :meth:`count_trends`.
        **aggregates : Term
            Output columns by name: ``n=cet.count()``, ``avg=cet.avg(B.price)``. By default those of the query's RETURN.

        Returns
        -------
        pyspark.sql.DataFrame
            Group columns, ``window`` if the query slides, and the aggregates. A group and window without a trend has no
            row.

        Raises
        ------
        ResolutionError
            If the query or an aggregate does not fit the DataFrame, or there is nothing to return.
        InvalidNode
            If there is no such ``number`` or ``emit``, or an argument is no aggregate.
        CountOverflow
            When the DataFrame is computed, if a count or a sum does not fit the ``number``.

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
        options: dict[str, object] = {"number": number, "emit": emit}
        for name, value in options.items():
            if isinstance(value, Term):
                raise InvalidNode(
                    f"{name}= of aggregate() is an option, and no name of a column",
                    hint=f"choose another name, or give the query .returning({name}=...)",
                )
        returning = tuple(Returned(_aggregate_node(name, value), name) for name, value in aggregates.items())
        if not (returning or self._query.returning):
            raise ResolutionError(
                "there is nothing to return",
                hint="name the aggregates, .aggregate(n=cet.count()), or give the query a RETURN clause",
            )
        return self._answer(returning or self._query.returning, number, emit)

    def _answer(self, returning: tuple[Returned, ...], number: str, emit: str) -> DataFrame:
        return run(self._df, self._decide(returning, number, emit).plan)

    def _decide(self, returning: tuple[Returned, ...], number: str, emit: str) -> Decision:
        check_number(number)
        check_emit(emit, "aggregates", UPDATE)
        rewritten = attrs.evolve(self._rewritten_returning(*returning), emit=emit)
        named = tuple((item.output_name, item.aggregate) for item in rewritten.query.returning)
        return plan_aggregate(rewritten, named, number, bytes_read=partial(bytes_of, self._df, rewritten.columns))

    def _rewritten_returning(self, *returning: Returned) -> ResolvedQuery:
        return rewrite(self._analyse(attrs.evolve(self._query, returning=returning)))[0]

    def trends(
        self,
        limit: int | None = None,
        columns: Sequence[str] | None = None,
        *,
        plan: str | Sequence[Any] = "auto",
        statistics: str | Mapping[str, Mapping[Any, float]] | None = None,
        adaptation: str | Mapping[str, Any] | None = None,
        algorithm: str = "auto",
        layout: str = "nested",
        times: bool = False,
        emit: str = FINAL,
    ) -> DataFrame:
        """Lists the trends, one row each.

        Parameters
        ----------
        limit : int, optional
            The maximum number of trends to return. Which ones are returned is arbitrary. The search ends when they are
            found.
        columns : sequence of str, optional
            The columns of each event to show; all by default.
        plan : {"auto", "pattern", "greedy", "dynamic", "tree"} or sequence
            The order in which variables are bound, or the tree in which they are joined. The plan changes how long the
            search takes, but not which trends it finds: see :doc:`/how_matches_are_found`. A sequence names all
            variables, one after the other for an order, or in nested pairs for a tree, as in ``["A", ["B", "C"]]``.
            If all variables bind single events, ``auto`` takes a sample of each chunk of events and the order that
            ``greedy`` finds for it, if this order is expected to have at most 8 partial matches per event, besides one
            per trend. Otherwise it takes the order of the pattern. With ``statistics``, it leaves this order only for a
            plan that is expected to cost less than half.
        statistics : mapping or "sample", optional
            The statistics that the plan is chosen by. A mapping has ``"rates"``, the events of each variable per
            second, or per tick; and ``"selectivities"``: for a pair of variables the share of pairs of events for which
            their predicates hold, for a single variable the share of events for which its own predicates hold.
            ``"sample"`` estimates both from up to about a million events. This runs jobs when the method is called. By
            default no statistics are given.
        adaptation : {"static", "unconditional", "threshold", "invariants"} or mapping, optional
            The method that decides, while the events of a key are read, whether its plan is changed; by default plans
            are not changed. A mapping names the method as ``"method"``, the number of events of a key after which its
            plan may change as ``"slice"``, and the method's own parameters: ``"threshold"``, or ``"distance"`` and
            ``"most"``.
        algorithm : {"auto", "kernel", "joins"}
            The engine that puts trends together. ``kernel`` does so within the tasks that have the events of a key.
            ``joins`` joins DataFrames in the order of the plan, so that no task must hold all events of a key. ``auto``
            is ``kernel``.
        layout : {"nested", "wide", "long"}
            ``nested``: a row per trend with its bindings in an array. ``wide``: a row per trend, with a column for each
            variable and column, such as ``view_ts``; it holds the value, or an array if a trend may bind several
            events. ``long``: a row per binding, with the number of the trend. Wide and long layouts show the start and
            the end of a window in two columns.
        times : bool
            Whether the columns ``first_time`` and ``last_time`` give the times of a trend's first and last event.
        emit : {"final", "eager"}
            When a stream gives a trend. ``final``: when its window, or the time bucket in which it begins, closes.
            ``eager``: at the trigger that reads the last of its events that was missing, which needs a pattern without
            NOT and ``outputMode("update")``. Either way a trend is given once, or once for each sliding window.

        Returns
        -------
        pyspark.sql.DataFrame
            Group and partition columns, ``window`` if the query slides, ``first_time`` and ``last_time`` if they are
            asked for, and ``trend``: an array, in order of time, of ``struct<variable string, event struct<columns>>``.
            A wide layout has columns of variables in place of the array. A long layout has ``trend``, a number that
            tells the trend from all others of the answer; ``position``, the place of the binding in its trend, from 1;
            ``variable``; and the columns of the event.

        Raises
        ------
        InvalidNode
            If there is no such layout, ``emit``, plan, adaptation or algorithm; the statistics are malformed; the plan
            leaves out, repeats or negates a variable; a given order is combined with an adaptation; the limit is no
            whole number from 0 up; or the layout would have two columns of one name.
        UnknownVariable
            If the plan or the statistics name a variable that the pattern does not have.
        UnsupportedQuery
            If ``algorithm="joins"`` cannot put the trends of this query together.
        StreamingNotSupported
            If a stream is asked for a limit, the long layout, a sample, joins, or ``emit="eager"`` with a NOT in the
            pattern.

        Examples
        --------
        >>> df = spark.createDataFrame([(1, "A", 5), (2, "B", 7), (3, "B", 9)], "t int, type string, x int")
        >>> A, B = cet.events("A", "B")
        >>> rows = df.pattern(cet.seq(A, B), time="t").trends(columns=["x"]).collect()
        >>> sorted([(b.variable, b.event.x) for b in row.trend] for row in rows)
        [[('A', 5), ('B', 7)], [('A', 5), ('B', 9)]]
        >>> df.pattern(cet.seq(A, B), time="t").trends(plan=["B", "A"]).count()
        2
        >>> df.pattern(cet.seq(A, B), time="t").trends(plan="greedy", statistics="sample").count()
        2
        >>> df.pattern(cet.seq(A, B), time="t").trends(algorithm="joins").count()
        2
        >>> df.pattern(cet.seq(A, +B), time="t").trends(columns=["x"], layout="wide", times=True).orderBy("B_x").show()
        +----------+---------+---+------+
        |first_time|last_time|A_x|   B_x|
        +----------+---------+---+------+
        |         1|        2|  5|   [7]|
        |         1|        3|  5|[7, 9]|
        |         1|        3|  5|   [9]|
        +----------+---------+---+------+
        <BLANKLINE>
        """
        shape = self._layout(layout, times, columns)
        detection = self._detection(plan, statistics, adaptation, algorithm)
        check_emit(emit, "trends", EAGER)
        if emit == EAGER and self._df.isStreaming:
            return lay_out(self._just_ended(limit, shape.needed, detection), shape)
        return lay_out(run(self._df, self._decide_trends(limit, shape.needed, detection).plan), shape)

    def matches(
        self,
        limit: int | None = None,
        columns: Sequence[str] | None = None,
        *,
        layout: str = "nested",
        times: bool = False,
    ) -> DataFrame:
        """Finds matches one after the other, as MATCH_RECOGNIZE does; rows have the form of :meth:`trends`.

        In each partition and group the search looks at one event after the other, in order. If matches begin at an
        event, it takes the preferred one (the first of several alternatives, as many repetitions as possible), and goes
        on after the last event of the match, or where :meth:`after_match` says. If no match begins there, it goes on at
        the next event. The events of a match are consecutive rows. With the policy ``next``, rows that could not have
        been bound may lie between them. See :ref:`one-match-at-a-time`.

        Parameters
        ----------
        limit : int, optional
            The maximum number of matches to return. Which ones are returned is arbitrary.
        columns : sequence of str, optional
            The columns of each event to show; all by default.
        layout : {"nested", "wide", "long"}
            The form of the rows, as in :meth:`trends`.
        times : bool
            Whether the times of a trend's first and last event are shown, as in :meth:`trends`.

        Returns
        -------
        pyspark.sql.DataFrame
            As in :meth:`trends`.

        Raises
        ------
        UnsupportedQuery
            If the query asks for ``matching("any")``, has a NOT, or has a predicate that cannot be tested while rows
            are matched.
        StreamingNotSupported
            If the DataFrame is a stream.
        InvalidNode
            If there is no such layout, the limit is no whole number, or the layout would have two columns of one name.

        Examples
        --------
        >>> prices = [(1, 9), (2, 7), (3, 5), (4, 8), (5, 6)]
        >>> df = spark.createDataFrame(prices, "day int, price int")
        >>> down, up = cet.event("down", "price > 0"), cet.event("up", "price > 0")
        >>> falls = cet.seq(down, cet.kleene(down), up)
        >>> falls = falls.where(down.price > cet.next_(down).price, down.price < cet.next_(up).price)
        >>> df.pattern(falls, time="day").matches(columns=["price"], layout="wide").show()
        +----------+--------+
        |down_price|up_price|
        +----------+--------+
        | [9, 7, 5]|       8|
        +----------+--------+
        <BLANKLINE>
        >>> overlapping = df.pattern(falls.after_match("next_row"), time="day")
        >>> overlapping.matches(columns=["price"], layout="wide").show()
        +----------+--------+
        |down_price|up_price|
        +----------+--------+
        | [9, 7, 5]|       8|
        |    [7, 5]|       8|
        +----------+--------+
        <BLANKLINE>
        """
        shape = self._layout(layout, times, columns)
        return lay_out(run(self._df, self._decide_matches(limit, shape.needed).plan), shape)

    def _decide_matches(self, limit: int | None, columns: tuple[str, ...]) -> Decision:
        refuse_streaming(self._df, "its matches one at a time")
        if self._query.policy == ANY:
            raise UnsupportedQuery(
                "MATCHING ANY does not say which match comes next, and matches are taken one at a time",
                hint="write .matching('strict'), the default here, or .matching('next'); trends() gives all of 'any'",
            )
        for negation in negations(self._query.pattern):
            raise UnsupportedQuery(
                f"{quote(negation)} where matches are taken one at a time, and rows are bound or skipped one by one",
                hint="ask for trends(), or say of a variable beside it what its events must not be",
            )
        policy = self._query.policy or STRICT
        resolved = rewrite(self._analyse(attrs.evolve(self._query, matching=policy)))[0]
        return plan_matches(resolved, columns, whole("limit", limit))

    def _just_ended(self, limit: int | None, columns: tuple[str, ...], detection: Detection) -> DataFrame:
        """Returns the trends of a stream whose last event came in this micro-batch."""
        arrived = unused_name("arrived", self._df.columns)
        # The time has to be named now, as it is no longer the only timestamp.
        binding = attrs.evolve(self._binding, time=self._rewritten.time.name)
        asked = PatternFrame(self._df.withColumn(arrived, current_timestamp()), self._query, binding)
        decision = asked._decide_trends(limit, (*columns, arrived), detection, EAGER)
        ended = run(asked._df, decision.plan, lambda trends: just_ended(trends, arrived))
        return ended.withColumn("trend", narrowed(columns))

    def _layout(self, form: str, times: bool, columns: Sequence[str] | None) -> Layout:
        """Checks and returns the shape in which trends are requested."""
        return given_layout(form, times, self._query.pattern, self._columns(columns), source_of(self._rewritten))

    def _detection(self, plan: object, statistics: object, adaptation: object, algorithm: object = "auto") -> Detection:
        """Returns how trends are to be put together; runs jobs if statistics are taken from a sample of events."""
        detection = given_detection(self._query.pattern, plan, statistics, adaptation, algorithm)
        if not detection.sampled or detection.plan == "pattern":
            return detection
        refuse_streaming(self._df, "a sample of its events")
        sampling = plan_sampling(self._rewritten, detection)
        known = None if sampling is None else detected.sample(self._df, sampling)
        return attrs.evolve(detection, statistics=known)

    def _decide_trends(
        self, limit: int | None, columns: tuple[str, ...], detection: Detection, emit: str = FINAL
    ) -> Decision:
        refuse_limited(self._df, limit)
        return plan_trends(attrs.evolve(self._rewritten, emit=emit), columns, whole("limit", limit), detection)

    def adaptation(
        self,
        adaptation: str | Mapping[str, Any] = "invariants",
        *,
        plan: str | Sequence[Any] = "auto",
        statistics: str | Mapping[str, Mapping[Any, float]] | None = None,
    ) -> DataFrame:
        """Reports how plans change while :meth:`trends` is answered: a row for each slice of the events of each key.

        Parameters
        ----------
        adaptation : {"static", "unconditional", "threshold", "invariants"} or mapping
            The method that decides whether a plan is changed, as in :meth:`trends`.
        plan : {"auto", "pattern", "greedy", "dynamic", "tree"} or sequence
            The plan to begin with, as in :meth:`trends`.
        statistics : mapping or "sample", optional
            The statistics that plans are chosen by, as in :meth:`trends`.

        Returns
        -------
        pyspark.sql.DataFrame
            Group and partition columns, and

            - ``branch``, the alternative of a pattern with OR, and ``slice``, the number of the slice;
            - ``plan``, the plan in force during the slice, and the number of its ``events``;
            - ``planned`` and ``changed``, whether a new plan was made after the slice, and whether it was taken;
            - ``violated``, the invariant that was violated;
            - ``partial_matches``, the number of those whose last event, as far as known, is in the slice;
            - the seconds of deciding and planning.

            Of a last slice that is not complete only the partial matches are counted.

        Raises
        ------
        UnsupportedQuery
            If the trends are not put together by a plan.
        InvalidNode
            If there is no such plan or adaptation, or the statistics are malformed.
        UnknownVariable
            If the plan or the statistics name a variable that the pattern does not have.
        StreamingNotSupported
            If the DataFrame is a stream.

        Examples
        --------
        >>> df = spark.createDataFrame([(n, "ABBB"[n % 4]) for n in range(40)], "t int, type string")
        >>> asked = df.pattern("PATTERN SEQ(B, A) WITHIN 4", time="t")
        >>> slices = asked.adaptation({"method": "unconditional", "slice": 20}).orderBy("slice")
        >>> [(row.plan, row.changed) for row in slices.collect()]
        [('B, A', True), ('A, B', False)]
        """
        return detected.adaptation(self._df, self._measured(plan, statistics, adaptation).plan)

    def statistics(
        self,
        adaptation: str | Mapping[str, Any] = "invariants",
        *,
        plan: str | Sequence[Any] = "auto",
        statistics: str | Mapping[str, Mapping[Any, float]] | None = None,
    ) -> DataFrame:
        """Reports the rates and selectivities that plans are chosen by, after each slice of the events of each key.

        Parameters
        ----------
        adaptation : {"static", "unconditional", "threshold", "invariants"} or mapping
            The method that decides whether a plan is changed, as in :meth:`trends`.
        plan : {"auto", "pattern", "greedy", "dynamic", "tree"} or sequence
            The plan to begin with, as in :meth:`trends`.
        statistics : mapping or "sample", optional
            The statistics that plans are chosen by, as in :meth:`trends`.

        Returns
        -------
        pyspark.sql.DataFrame
            Group and partition columns; ``branch``, the alternative of a pattern with OR; ``slice``, the number of the
            slice, and the number of its ``events``; ``rates`` by variable, per second or tick; and ``selectivities`` by
            pair of variables. Rates and selectivities are measured over the last slices.

        Raises
        ------
        UnsupportedQuery
            If the trends are not put together by a plan.
        InvalidNode
            If there is no such plan or adaptation, or the statistics are malformed.
        UnknownVariable
            If the plan or the statistics name a variable that the pattern does not have.
        StreamingNotSupported
            If the DataFrame is a stream.

        Examples
        --------
        >>> df = spark.createDataFrame([(n, "ABBB"[n % 4]) for n in range(40)], "t int, type string")
        >>> asked = df.pattern("PATTERN SEQ(B, A) WITHIN 4", time="t")
        >>> seen = asked.statistics({"slice": 20}).orderBy("slice").collect()
        >>> [round(row.rates["B"], 1) for row in seen]
        [0.8, 0.8]
        """
        return detected.statistics(self._df, self._measured(plan, statistics, adaptation).plan)

    def _measured(self, plan: object, statistics: object, adaptation: object) -> Decision:
        refuse_streaming(self._df, _MEASURED)
        detection = self._detection(plan, statistics, adaptation)
        return plan_measuring(self._rewritten, detection)

    def _columns(self, columns: Sequence[str] | None) -> tuple[str, ...]:
        return shown_columns(self._rewritten, columns)

    def complete_trends(
        self,
        completeness: str = "maximal",
        algorithm: str = "auto",
        memory_limit: str | int | None = None,
        limit: int | None = None,
        columns: Sequence[str] | None = None,
        *,
        optimizer: str = "auto",
        cost_model: str = "exact",
        anchors: int | None = None,
        layout: str = "nested",
        times: bool = False,
    ) -> DataFrame:
        """Lists the complete trends, one row each: those that no other trend of their group and window contains.

        Parameters
        ----------
        completeness : {"maximal", "ends"}
            ``maximal``: no other trend contains all bindings of a complete trend. ``ends``: no other trend contains a
            complete trend as a contiguous part, so that it can be extended neither before its first event nor behind
            its last one.
        algorithm : {"auto", "m-cet", "t-cet", "h-cet", "anchors", "balanced", "joins", "definition"}
            All give the same trends. ``auto`` takes ``balanced`` if there are no keys and no ``WITHIN``, and otherwise
            walks the graph of each group and window depth first, as ``m-cet`` does. If the complete trends are not the
            paths of a graph, it lists candidates where extreme events decide the predicates, and otherwise takes
            ``definition``. If Spark limits the memory of a Python worker, by ``spark.executor.pyspark.memory``,
            ``auto`` first counts the events of each group. If a group has more events than a task can hold, it takes
            ``joins``, unless ``memory_limit`` is given; for ``"maximal"`` only if each event must equal the one before
            in some value.
        memory_limit : str or int, optional
            The memory that each task may use for the graph and for partial trends, in bytes or as ``"512m"``. It is
            refused for ``joins``, which keeps neither in a task.
        limit : int, optional
            The maximum number of trends to return. Which ones are returned is arbitrary. The search ends when they are
            found.
        columns : sequence of str, optional
            The columns of each event to show; all by default.
        optimizer : {"auto", "branch-and-bound", "greedy", "exhaustive"}
            The optimizer that cuts the graph into graphlets for ``h-cet``. ``auto`` finds the best cuts, and may keep
            only some graphlets in memory; the others are those of Poppe et al. (SIGMOD 2017), which keep all of them or
            none.
        cost_model : {"exact", "worst-case"}
            The number of partial trends that the optimizer assumes for a graphlet: the exact one, or the most that a
            graphlet of so many events can have.
        anchors : int, optional
            For the algorithm ``anchors``, the number of attribute vertices in each window between which partial trends
            are found. Those with most edges are taken first. By default the number with the least cost is chosen.
        layout : {"nested", "wide", "long"}
            The form of the rows, as in :meth:`trends`.
        times : bool
            Whether the times of a trend's first and last event are shown, as in :meth:`trends`.

        Returns
        -------
        pyspark.sql.DataFrame
            As in :meth:`trends`.

        Raises
        ------
        UnsupportedQuery
            If the pattern has AND at the top, or the algorithm cannot take the query.
        InvalidNode
            If an argument is not one of those above, has no meaning for the algorithm, or the memory limit is no amount
            of memory; when the DataFrame is computed, if one group without windows has fewer events than anchors are
            asked for.

        Examples
        --------
        Checks, each drawn on the account that the one before it was paid into:

        >>> rows = [(1, "A", "B"), (2, "B", "C"), (3, "B", "D"), (4, "D", "E")]
        >>> checks = spark.createDataFrame(rows, "t int, source string, destination string")
        >>> chain = "PATTERN Check+ c[] WHERE c.destination = NEXT(c).source"
        >>> chains = checks.pattern(chain, time="t", type=None)
        >>> sorted([b.event.t for b in row.trend] for row in chains.complete_trends(columns=["t"]).collect())
        [[1, 2], [1, 3, 4]]
        """
        shape = self._layout(layout, times, columns)
        extraction = given_extraction(algorithm, memory_limit, optimizer, cost_model, anchors)
        return lay_out(run(self._df, self._decide_complete(completeness, extraction, shape.needed, limit).plan), shape)

    def _decide_complete(
        self, completeness: str, extraction: Extraction, columns: tuple[str, ...], limit: int | None
    ) -> Decision:
        refuse_limited(self._df, limit)
        request = self._complete(completeness, extraction, columns, whole("limit", limit))
        return plan_complete(self._with_room(request))

    def count_complete_trends(
        self,
        completeness: str = "maximal",
        name: str = "count",
        number: str = "decimal",
        *,
        algorithm: str = "auto",
        emit: str = FINAL,
    ) -> DataFrame:
        """Counts the complete trends of each group and window.

        If the trends of the query are the paths of a graph, they are not listed: the time grows with the number of
        edges, not with the number of trends.

        Parameters
        ----------
        completeness : {"maximal", "ends"}
            As in :meth:`complete_trends`.
        name : str
            Name of the output column.
        number : {"decimal", "string", "double", "log2"}
            As in :meth:`count_trends`, but joins count up to 38 digits even for ``string``.
        algorithm : {"auto", "joins"}
            ``joins`` counts trends with Spark's joins, even if a group does not fit into the memory of a task. The call
            then runs jobs itself. ``auto`` chooses joins if a group has more events than fit into Spark's memory limit
            of a worker, as :meth:`complete_trends` does, but not for ``string``. Otherwise the task that holds a group
            counts its trends.
        emit : {"final", "update"}
            As in :meth:`count_trends`.

        Returns
        -------
        pyspark.sql.DataFrame
            As in :meth:`count_trends`.

        Raises
        ------
        UnsupportedQuery
            If the pattern has AND at the top; or ``joins`` are asked for, and the trends are not paths that joins can
            follow.
        InvalidNode
            If there is no such ``completeness``, ``number``, algorithm or ``emit``.
        CountOverflow
            If a count does not fit the ``number``, or joins find one of more than 38 digits for ``decimal`` or
            ``string``. Joins raise it in this call; otherwise it is raised when the DataFrame is computed.

        Examples
        --------
        >>> prices = spark.createDataFrame([(1, 1.0), (2, 2.0), (3, 3.0)], "t int, price double")
        >>> rising = prices.pattern("PATTERN Stock+ s[] WHERE s.price < NEXT(s).price", time="t", type=None)
        >>> [rising.count_complete_trends(reading).first()["count"] for reading in ("maximal", "ends")]
        [Decimal('1'), Decimal('2')]
        >>> rising.count_complete_trends("ends", algorithm="joins").first()["count"]
        Decimal('2')
        """
        check_count_name(name)
        return run(self._df, self._decide_complete_count(completeness, name, number, algorithm, emit).plan)

    def _decide_complete_count(self, completeness: str, name: str, number: str, algorithm: str, emit: str) -> Decision:
        check_number(number)
        check_emit(emit, "counts", UPDATE)
        road = given_road(algorithm)
        time = self._rewritten_returning(Returned(COUNT, name)).time.name
        counted = self._complete(completeness, road, columns=(time,))
        if number != "string":  # which promises more digits than joins have
            counted = self._with_room(counted)
        counted = attrs.evolve(counted, resolved=attrs.evolve(counted.resolved, emit=emit))
        return plan_complete(CountRequest(counted, name, number))

    def sample_trends(
        self,
        n: int,
        seed: int | None = None,
        complete: bool = True,
        completeness: str = "maximal",
        columns: Sequence[str] | None = None,
        *,
        algorithm: str = "auto",
        per_group: bool = False,
        layout: str = "nested",
        times: bool = False,
    ) -> DataFrame:
        """Draws ``n`` complete trends at random: all rows of :meth:`complete_trends` are equally likely.

        Trends are drawn without replacement. If the trends of the query are the paths of a graph, only those drawn are
        listed. A stream needs ``per_group=True``, which draws trends of each group and window.

        Parameters
        ----------
        n : int
            The number of trends to draw. If there are fewer, all of them are the answer.
        seed : int, optional
            The same seed gives the same sample of the same events. If all trends are listed for the sample, as with
            ``per_group=True`` or when ``explain("sample")`` says so, this holds only if the events are spread over
            the tasks in the same way. By default a seed is drawn at random.
        complete : bool
            Whether to draw from the complete trends; False draws from all trends, the rows of :meth:`trends`.
        completeness : {"maximal", "ends"}
            As in :meth:`complete_trends`.
        columns : sequence of str, optional
            The columns of each event to show; all by default.
        algorithm : {"auto", "joins"}
            As in :meth:`count_complete_trends`.
        per_group : bool
            Whether ``n`` trends are drawn of each group, partition and window, as in :meth:`top_trends`. It cannot be
            combined with ``joins``.
        layout : {"nested", "wide", "long"}
            The form of the rows, as in :meth:`trends`.
        times : bool
            Whether the times of a trend's first and last event are shown, as in :meth:`trends`.

        Returns
        -------
        pyspark.sql.DataFrame
            As in :meth:`trends`.

        Raises
        ------
        UnsupportedQuery
            If ``joins`` are asked for, and the trends are not paths that joins can follow.
        InvalidNode
            If ``n`` or ``seed`` is no whole number, there is no such completeness, algorithm or layout, ``complete``
            or ``per_group`` is no bool, or the layout would have two columns of one name.
        StreamingNotSupported
            If a stream is asked for a sample without ``per_group=True``.

        Examples
        --------
        >>> df = spark.range(100).selectExpr("id AS t", "id % 7 AS x")
        >>> rising = df.pattern("PATTERN Stock+ s[] WHERE s.x < NEXT(s).x", time="t", type=None)
        >>> rising.sample_trends(5, seed=1).count()
        5
        """
        size, shape = positive("n", n), self._layout(layout, times, columns)
        given = random.randrange(2**63) if seed is None else whole_number(seed)
        if given is None:
            raise InvalidNode(f"seed must be a whole number, not {shown(seed)}", hint="write seed=1, or leave it out")
        which = _Which(complete, completeness, shape.needed, per_group)
        return lay_out(run(self._df, self._decide_sample(size, given % 2**63, which, algorithm).plan), shape)

    def _decide_sample(self, size: int, seed: int, which: _Which, algorithm: str) -> Decision:
        if not _truth("per_group", which.per_group, "True gives k of each group"):
            refuse_streaming(self._df, "a sample of all of its trends", _OF_EACH)
        request = self._complete(which.completeness, given_road(algorithm), which.columns, complete=which.complete)
        if not which.per_group:  # joins draw from the trends of all groups together
            request = self._with_room(request)
        return plan_complete(SampleRequest(request, size, seed, which.per_group))

    def top_trends(
        self,
        k: int,
        by: Term | None = None,
        complete: bool = True,
        completeness: str = "maximal",
        columns: Sequence[str] | None = None,
        *,
        per_group: bool = False,
        layout: str = "nested",
        times: bool = False,
    ) -> DataFrame:
        """Finds the ``k`` longest complete trends, or the ``k`` with the greatest aggregate, in descending order.

        If the trends of the query are the paths of a graph and are compared by length, count or sum, only the ``k``
        trends are listed. A stream needs ``per_group=True``, which finds ``k`` trends of each group and window.

        Parameters
        ----------
        k : int
            The number of trends to return: over all groups and windows, or of each with ``per_group=True``.
        by : Term
            The weight that trends are ordered by: ``cet.length()`` (the default) or an aggregate of the events of each
            trend, as ``cet.count(B)``, ``cet.sum(B.x)``, ``cet.avg(B.x)`` or ``cet.max(B.ts)``. A trend whose aggregate
            is NULL comes last, one whose aggregate is NaN first. For other weights than length, count and sum, all
            complete trends (or all trends, with ``complete=False``) are listed, because only these weights add up along
            a path.
        complete : bool
            Whether to compare the complete trends; False compares all trends, the rows of :meth:`trends`.
        completeness : {"maximal", "ends"}
            As in :meth:`complete_trends`.
        columns : sequence of str, optional
            The columns of each event to show; all by default.
        per_group : bool
            Whether ``k`` trends are returned of each group, partition and window. For this, all trends are listed. The
            order of the rows is then not defined.
        layout : {"nested", "wide", "long"}
            The form of the rows, as in :meth:`trends`.
        times : bool
            Whether the times of a trend's first and last event are shown, as in :meth:`trends`.

        Returns
        -------
        pyspark.sql.DataFrame
            As in :meth:`trends`, with a column before the trend: ``length``, or the aggregate's name, such as ``max``.

        Raises
        ------
        InvalidNode
            If trends cannot be ordered by such a term, ``k`` is no whole number from 1 up, there is no such
            completeness or layout, ``complete`` or ``per_group`` is no bool, or the layout would have two columns of
            one name.
        StreamingNotSupported
            If a stream is asked without ``per_group=True``.
        CountOverflow
            If whole numbers, or decimals without the zeros that all of them end in, add up to more than 64 bits hold
            from some event of a trend to its end. It is raised when the DataFrame is computed, unless all trends are
            listed, as for ``per_group=True``.

        Examples
        --------
        >>> rows = [(1, "A", 9), (2, "B", 1), (3, "A", 2), (4, "B", 3)]
        >>> df = spark.createDataFrame(rows, "t int, type string, x int")
        >>> B = cet.event("B")
        >>> rows = df.pattern("PATTERN SEQ(A, B+)", time="t").top_trends(2, by=cet.sum(B.x), columns=["t"])
        >>> rows.select("sum", "trend.event.t").show()
        +---+---------+
        |sum|        t|
        +---+---------+
        |  4|[1, 2, 4]|
        |  3|   [3, 4]|
        +---+---------+
        <BLANKLINE>
        >>> rows = [(1, "A", "u"), (2, "B", "u"), (3, "A", "v"), (4, "B", "v"), (5, "B", "v")]
        >>> df = spark.createDataFrame(rows, "t int, type string, user string")
        >>> last = df.pattern("PATTERN SEQ(A, B) WHERE [user]", time="t").top_trends(1, by=cet.max(B.t), per_group=True)
        >>> last.select("user", "max", "trend.event.t").orderBy("user").show()
        +----+---+------+
        |user|max|     t|
        +----+---+------+
        |   u|  2|[1, 2]|
        |   v|  5|[3, 5]|
        +----+---+------+
        <BLANKLINE>
        >>> bound = df.pattern("PATTERN SEQ(A, B) WHERE [user]", time="t")
        >>> bound.top_trends(3, by=cet.max(B.t), columns=["t"], layout="wide").show()
        +----+---+---+---+
        |user|max|A_t|B_t|
        +----+---+---+---+
        |   v|  5|  3|  5|
        |   v|  4|  3|  4|
        |   u|  2|  1|  2|
        +----+---+---+---+
        <BLANKLINE>
        """
        size, shape = positive("k", k), self._layout(layout, times, columns)
        which = _Which(complete, completeness, shape.needed, per_group)
        return lay_out(run(self._df, self._decide_top(size, by, which).plan), shape)

    def _decide_top(self, size: int, by: Term | None, which: _Which) -> Decision:
        if not _truth("per_group", which.per_group, "True gives k of each group"):
            refuse_streaming(self._df, "the heaviest of all of its trends", _OF_EACH)
        weight = self._weight(by)
        request = self._complete(which.completeness, columns=which.columns, complete=which.complete)
        name = "length" if isinstance(weight.argument, Length) else weight.function
        return plan_complete(TopRequest(request, size, weight, name, which.per_group))

    def survey_complete_trends(
        self,
        completeness: str = "maximal",
        algorithm: str = "auto",
        memory_limit: str | int | None = None,
        measure: bool = False,
        *,
        optimizer: str = "auto",
        cost_model: str = "exact",
        anchors: int | None = None,
    ) -> DataFrame:
        """Surveys, per group, partition and window, the graph and the predicted work of listing complete trends.

        Parameters
        ----------
        completeness : {"maximal", "ends"}
            The meaning of complete, as in :meth:`complete_trends`.
        algorithm : {"auto", "m-cet", "t-cet", "h-cet", "anchors", "balanced", "joins", "definition"}
            The algorithm whose work is predicted: ``m-cet``, ``t-cet``, ``h-cet`` or ``anchors``. Any other is surveyed
            as ``auto``.
        memory_limit : str or int, optional
            The memory that each task may use, as in :meth:`complete_trends`.
        measure : bool
            Whether all trends are found and dropped, to measure the memory and the steps that this takes.
        optimizer : {"auto", "branch-and-bound", "greedy", "exhaustive"}
            The optimizer of ``h-cet``, as in :meth:`complete_trends`.
        cost_model : {"exact", "worst-case"}
            The cost model of this optimizer, as in :meth:`complete_trends`.
        anchors : int, optional
            The number of anchors, as in :meth:`complete_trends`.

        Returns
        -------
        pyspark.sql.DataFrame
            Group and partition columns, ``window`` if the query slides, and

            - ``events``, those that some variable may bind, and ``surviving``, those of them that lie on a trend;
            - ``starts``, ``ends``, ``vertices`` and ``edges`` of the graph;
            - ``trends``, their number, and ``refs``, the sum of their lengths, as doubles;
            - ``algorithm``, the published one that the plan amounts to;
            - ``atoms``, the number of pieces that the graph can be cut into, ``cuts``, the number of cuts of the plan,
              ``cached``, the number of pieces whose partial trends are kept, and ``anchors``, the number of anchors
              that partial trends lead to;
            - ``predicted_bytes`` of memory, including the graph, and ``predicted_steps`` of the search; ``bytes`` and
              ``steps``, the same as measured, NULL without ``measure``.

        Raises
        ------
        NoPhysicalPlan
            If the trends are not the paths of one graph for each group and window, as with pairwise predicates, or
            ``WITHIN`` without ``SLIDE``.
        UnsupportedQuery
            If the pattern has AND at the top.
        StreamingNotSupported
            If the DataFrame is a stream.
        InvalidNode
            If an argument is not one of those above.

        Examples
        --------
        >>> rows = [(t, t // 3, t // 3 + 1) for t in range(30)]
        >>> layers = spark.createDataFrame(rows, "t int, source int, destination int")
        >>> chain = "PATTERN Check+ c[] WHERE c.destination = NEXT(c).source"
        >>> chains = layers.pattern(chain, time="t", type=None)
        >>> chains.survey_complete_trends("ends").select("events", "starts", "ends", "edges", "trends").show()
        +------+------+----+-----+-------+
        |events|starts|ends|edges| trends|
        +------+------+----+-----+-------+
        |    30|     3|   3|   81|59049.0|
        +------+------+----+-----+-------+
        <BLANKLINE>
        """
        refuse_streaming(self._df, _SURVEY)
        extraction = given_extraction(algorithm, memory_limit, optimizer, cost_model, anchors)
        request = self._complete(completeness, extraction)
        measured = _truth("measure", measure, "True finds all trends and drops them, which may take long")
        return run(self._df, plan_complete(SurveyRequest(request, measured)).plan)

    def _complete(
        self,
        completeness: str,
        extraction: Extraction = USUAL,
        columns: tuple[str, ...] = (),
        limit: int | None = None,
        complete: bool = True,
    ) -> CompleteRequest:
        """Returns the request for complete trends by either reading, or for all trends; checks both words."""
        check_choice("completeness", completeness, (MAXIMAL, ENDS))
        if not _truth("complete", complete, "False takes all trends; completeness= says which ones are complete"):
            completeness = ALL
        sides = compile_sides(self._rewritten)
        return CompleteRequest(self._rewritten, completeness, extraction, columns, limit, sides)

    def _with_room(self, request: CompleteRequest) -> CompleteRequest:
        """Returns the request, by joins if some group is beyond a task and joins can take the query.

        A request that names an algorithm, a memory limit or another option is returned as it is.
        """
        if request.extraction != USUAL or request.resolved.is_stream or not fits_joins(request):
            return request
        [compiled] = request.compiled
        room = exceeded_room(self._df, source_of(request.resolved), compiled)
        return request if room is None else attrs.evolve(request, extraction=Extraction("joins"), exceeded=room)

    def _weight(self, by: Term | None) -> Aggregate:
        """Returns the aggregate that trends are ordered by, checked and with the exact names of its columns."""
        hint = "use by=cet.length(), cet.count(B), cet.sum(B.x) or another aggregate of the events of a trend"
        node = Length() if by is None else to_expr(by)
        if isinstance(node, Length):
            return Aggregate("max", None, node)
        if not isinstance(node, Aggregate):
            raise InvalidNode(f"by={shown(by)} is not an aggregate", hint=hint)
        if node == COUNT or isinstance(node.argument, Length):
            raise InvalidNode(f"trends cannot be ordered by {quote(node)}, which is about many trends", hint=hint)
        return self._rewritten_returning(Returned(node, "by")).query.returning[0].aggregate

    def graph(self, algorithm: str = "auto", columns: Sequence[str] | None = None) -> EventGraph:
        """Builds the graph whose paths are the trends, as lazy DataFrames of vertices and edges.

        Parameters
        ----------
        algorithm : {"auto", "kernel", "joins"}
            All give the same rows. ``kernel`` builds the graph of each group in one task, in space proportional to its
            events. ``joins`` builds it with Spark's joins, for a group that does not fit into the memory of a task. It
            refuses NOT, and runs jobs when one of the DataFrames is first requested: tables of a size proportional to
            the events are computed once, and kept. ``auto`` is ``kernel`` unless a group exceeds the limit of a worker,
            as in :meth:`complete_trends`.
        columns : sequence of str, optional
            The columns of each event to show; all by default.

        Returns
        -------
        EventGraph

        Raises
        ------
        UnsupportedQuery
            If the trends are not the paths of a graph of events, because of a span, an AND at the top, a NOT that
            depends on the trend, a predicate on events that are no neighbours, or another matching policy than ``any``;
            or if ``joins`` are asked for, and the pattern has a NOT.
        StreamingNotSupported
            If the DataFrame is a stream.

        Examples
        --------
        >>> rows = [(1, "A", "B"), (2, "B", "C"), (3, "B", "D"), (4, "D", "E")]
        >>> checks = spark.createDataFrame(rows, "t int, source string, destination string")
        >>> chain = "PATTERN Check+ c[] WHERE c.destination = NEXT(c).source"
        >>> graph = checks.pattern(chain, time="t", type=None).graph()
        >>> graph.vertices.select("id", "source", "sink", "event.t").orderBy("t").show()
        +---+------+-----+---+
        | id|source| sink|  t|
        +---+------+-----+---+
        |c:0|  true|false|  1|
        |c:1| false| true|  2|
        |c:2| false|false|  3|
        |c:3| false| true|  4|
        +---+------+-----+---+
        <BLANKLINE>
        >>> sorted((edge.src, edge.dst) for edge in graph.edges.collect())
        [('c:0', 'c:1'), ('c:0', 'c:2'), ('c:2', 'c:3')]
        """
        refuse_streaming(self._df, "the graph of its trends")
        plan = plan_event_graph(self._rewritten, self._columns(columns), algorithm)
        if algorithm == "auto" and not plan.compiled.negations:
            plan = attrs.evolve(plan, joined=exceeded_room(self._df, plan.source, plan.compiled) is not None)
        return EventGraph(self._df, plan, graph_fragment)

    def timeline(self, k: int = 20, *, columns: Sequence[str] | None = None) -> Figure:
        """Draws trends over time, as :func:`cetdsl.timeline` does; this runs a job at once.

        Parameters
        ----------
        k : int
            The maximum number of trends that are drawn. Which ones are drawn is arbitrary, and the others are not
            searched for.
        columns : sequence of str, optional
            The columns of an event that are shown when the mouse points at it; all by default.

        Returns
        -------
        plotly.graph_objects.Figure

        Raises
        ------
        MissingDependency
            If Plotly is not installed: it comes with the extra ``plot``.
        InvalidNode
            If ``k`` is no number of trends.
        StreamingNotSupported
            If the events are those of a stream.

        Examples
        --------
        >>> df = spark.createDataFrame([(1, "A"), (2, "B")], "t int, type string")
        >>> figure = df.pattern("PATTERN SEQ(A, B)", time="t").timeline()
        >>> [(trace.name, trace.x) for trace in figure.data if trace.mode == "markers"]
        [('A', (1,)), ('B', (2,))]
        """
        # Imported here, as that module is one about bound queries, and imports this one.
        from cetdsl.frontend.timeline import timeline

        return timeline(self, k, columns=columns)

    def diagnose(self, sample: int = USUAL_SAMPLE) -> Diagnosis:
        """Finds why the query has no trend: variables without events, and demands that rule out all trends.

        This runs jobs when it is called. The first job tests single events. One or two more count the trends of the
        pattern's beginnings, and those of queries that demand less. If the query has no trends, further jobs look for
        the sequences that come closest.

        Parameters
        ----------
        sample : int
            If there are more events than this, trends are counted over about so many: all events of some keys, or the
            earliest events if the query has no key.

        Returns
        -------
        Diagnosis
            Prints as text, and has tables as DataFrames.

        Raises
        ------
        InvalidNode
            If the sample is no number of events.
        UnsupportedQuery
            If the query has a matching policy other than ``"any"``.
        StreamingNotSupported
            If the DataFrame is a stream.

        Examples
        --------
        >>> rows = [(1, "view", "u"), (20, "cart", "u"), (45, "cart", "u")]
        >>> df = spark.createDataFrame(rows, "t int, type string, user string")
        >>> diagnosis = df.pattern("PATTERN SEQ(view, cart) WHERE [user] WITHIN 10", time="t").diagnose()
        >>> print(*diagnosis.causes)
        without WITHIN 10 there would be 2 trends; the closest takes 19
        >>> diagnosis.misses(limit=1).select("missed", "lasts", "trend.event.t").show()
        +---------+-----+-------+
        |   missed|lasts|      t|
        +---------+-----+-------+
        |WITHIN 10|   19|[1, 20]|
        +---------+-----+-------+
        <BLANKLINE>
        """
        refuse_streaming(self._df, "why it has no trend")
        return diagnose(self._df, self._query, self._binding, sample)

    def explain(
        self,
        stage: str | None = None,
        number: str = "decimal",
        *,
        completeness: str = "maximal",
        algorithm: str = "auto",
        memory_limit: str | int | None = None,
        measured: bool = False,
        plan: str | Sequence[Any] = "auto",
        statistics: str | Mapping[str, Mapping[Any, float]] | None = None,
        adaptation: str | Mapping[str, Any] | None = None,
        optimizer: str = "auto",
        cost_model: str = "exact",
        anchors: int | None = None,
        emit: str = FINAL,
        limit: int | None = None,
        columns: Sequence[str] | None = None,
        by: Term | None = None,
        complete: bool = True,
        per_group: bool = False,
    ) -> Explanation:
        """Explains how the query is understood and answered.

        Parameters
        ----------
        stage : str, optional
            One of ``parsed``, ``resolved``, ``rewritten``, ``physical``, ``spark``, ``trends``, ``complete``,
            ``complete_count``, ``sample``, ``top``, ``matches`` and ``survey``; by default the first five. ``physical``
            is the plan of the query's aggregates; where there are none, it shows ``trends`` for a stream with
            ``WITHIN`` alone, and ``matches`` for a query that says which matches are taken. ``trends``, ``complete``,
            ``complete_count``, ``sample``, ``top`` and ``matches`` are the plans of :meth:`trends`,
            :meth:`complete_trends`, :meth:`count_complete_trends`, :meth:`sample_trends`, :meth:`top_trends` and
            :meth:`matches`. ``survey`` sums up :meth:`survey_complete_trends`, which runs a job.
        number : {"decimal", "string", "double", "log2"}
            The number form that the plan is for.
        completeness : {"maximal", "ends"}
            The meaning of complete, as in :meth:`complete_trends`, for the stages that are about complete trends.
        algorithm : str
            As in the method whose plan the stage shows, or, for ``survey``, in :meth:`complete_trends`.
        memory_limit : str or int, optional
            As in :meth:`complete_trends`, for the stages ``complete`` and ``survey``.
        measured : bool
            Whether jobs run that measure the plan that a stage shows. They add the rows that each step gives, and the
            seconds from the events up to it: the plan is run as far as each of its steps. For ``trends`` they also add
            the number of partial matches, and for ``survey`` what :meth:`survey_complete_trends` measures. Each stage
            but ``parsed`` then says how long it took to make.
        plan : {"auto", "pattern", "greedy", "dynamic", "tree"} or sequence
            As in :meth:`trends`, for the stage ``trends``. Where a plan, statistics, an adaptation or ``emit="eager"``
            is given, the stage ``physical`` shows ``trends``, as no other answer has such plans.
        statistics : mapping or "sample", optional
            As in :meth:`trends`, for the stage ``trends``.
        adaptation : {"static", "unconditional", "threshold", "invariants"} or mapping, optional
            As in :meth:`trends`, for the stage ``trends``.
        optimizer : {"auto", "branch-and-bound", "greedy", "exhaustive"}
            As in :meth:`complete_trends`, for the stages ``complete`` and ``survey``.
        cost_model : {"exact", "worst-case"}
            As in :meth:`complete_trends`, for the stages ``complete`` and ``survey``.
        anchors : int, optional
            As in :meth:`complete_trends`, for the stages ``complete`` and ``survey``.
        emit : {"final", "update", "eager"}
            As in :meth:`count_trends` for the stages ``physical`` and ``complete_count``, and as in :meth:`trends` for
            the stage ``trends``.
        limit : int, optional
            As in :meth:`trends`, :meth:`complete_trends` and :meth:`matches` for their stages. For ``sample`` and
            ``top`` it is the number of trends that are drawn or returned, 10 by default.
        columns : sequence of str, optional
            The columns of each event to show, for the stages that show events.
        by : Term, optional
            As in :meth:`top_trends`, for the stage ``top``.
        complete : bool
            As in :meth:`sample_trends` and :meth:`top_trends`, for the stages ``sample`` and ``top``.
        per_group : bool
            As in :meth:`sample_trends` and :meth:`top_trends`, for the stages ``sample`` and ``top``.

        Returns
        -------
        Explanation
            Prints as text; ``.graphviz()`` and ``.html()`` give pictures.

        Raises
        ------
        InvalidNode
            If there is no stage of that name, or an argument has no such value.

        Examples
        --------
        >>> df = spark.createDataFrame([(1, "A"), (2, "B"), (3, "A")], "t int, type string")
        >>> asked = df.pattern("PATTERN SEQ(A, (B+)+)", time="t")
        >>> print(asked.explain("rewritten"))
        == rewritten ==
        1. collapse-nested-repetition
           - PATTERN SEQ(EVENT(A, A.type = 'A'), (EVENT(B, B.type = 'B')+)+)
           + PATTERN SEQ(EVENT(A, A.type = 'A'), EVENT(B, B.type = 'B')+)
        <BLANKLINE>
        -- rewritten query --
        reads  t, type
        <BLANKLINE>
        PATTERN SEQ(EVENT(A, A.type = 'A'), EVENT(B, B.type = 'B')+)
        >>> print(asked.explain("survey"))
        == survey ==
        graphs           1
        events           3
        surviving        2, those on a trend
        ...
        """
        asked = _Explained(
            frame=self,
            stage=stage,
            number=number,
            completeness=completeness,
            algorithm=algorithm,
            memory_limit=memory_limit,
            measured=measured,
            plan=plan,
            statistics=statistics,
            adaptation=adaptation,
            optimizer=optimizer,
            cost_model=cost_model,
            anchors=anchors,
            emit=emit,
            limit=limit,
            columns=columns,
            by=by,
            complete=complete,
            per_group=per_group,
        )
        asked.check()
        return asked.explanation()

    def _summed_survey(self, request: CompleteRequest, measured: bool) -> dict[str, Any]:
        """Sums up a survey over all groups and windows; this runs a job."""
        refuse_streaming(self._df, _SURVEY)
        return summary(run(self._df, plan_complete(SurveyRequest(request, measured)).plan))

    def _partial_matches(self, decision: Decision, detection: Detection) -> tuple[tuple[str, str], ...]:
        """Runs a job that counts the partial matches of each step of a plan of trends; returns facts for a view."""
        if decision.strategy == strategy_name(detect):
            work = detected.work(self._df, plan_measuring(self._rewritten, detection).plan)
            return measured_facts(one.partial_matches for one in work)
        if decision.strategy == strategy_name(choose):
            work = detected.work(self._df, plan_measuring_choice(self._rewritten, detection))
            return chosen_facts((one.plan, one.events, one.partial_matches) for one in work)
        return (("not measured", "partial matches are counted along plans"),)


@attrs.frozen(kw_only=True, slots=False)
class _Explained:
    """The arguments of :meth:`PatternFrame.explain`, and the decisions that its stages show."""

    frame: PatternFrame
    stage: str | None
    number: str
    completeness: str
    algorithm: str
    memory_limit: str | int | None
    measured: bool
    plan: str | Sequence[Any]
    statistics: str | Mapping[str, Mapping[Any, float]] | None
    adaptation: str | Mapping[str, Any] | None
    optimizer: str
    cost_model: str
    anchors: int | None
    emit: str
    limit: int | None
    columns: Sequence[str] | None
    by: Term | None
    complete: bool
    per_group: bool

    def check(self) -> None:
        """Raises if an argument has no such value, whatever the stage."""
        if is_one_of(self.number, (*STAGES, *ON_REQUEST)):
            raise InvalidNode(
                f"explain() shows one stage, or the first five, and {self.number!r} is a second one",
                hint="leave the stages out, or call explain() for each",
            )
        check_number(self.number)
        check_choice("completeness", self.completeness, (MAXIMAL, ENDS))
        check_choice("emit", self.emit, (FINAL, UPDATE, EAGER))
        truths = {"measured": self.measured, "complete": self.complete, "per_group": self.per_group}
        for name, truth in truths.items():
            _truth(name, truth, "leave it out, or see the method whose plan the stage shows")
        given_detection(self.frame._query.pattern, self.plan, self.statistics, self.adaptation, "auto")
        whole("limit", self.limit)
        _ = self._shown, self._extraction  # both check what they are made of
        if self.measured:
            refuse_streaming(self.frame._df, _MEASURED)

    def explanation(self) -> Explanation:
        """Decides how the query is answered, as far as the stage shows it, and returns its views."""
        frame = self.frame
        begin = perf_counter()
        resolved = frame._analyse(frame._query)
        analysed = perf_counter()
        rewritten, trace = rewrite(resolved)
        seconds = {"resolved": analysed - begin, "rewritten": perf_counter() - analysed}
        plans = Plans(
            dataframe=self._answer,
            survey=lambda: frame._summed_survey(frame._complete(self.completeness, self._extraction), self.measured),
            decisions={stage: partial(self._carried_out, decide) for stage, decide in self._decisions.items()},
        )
        taking = Measured(seconds, lambda decided: take(frame._df, decided.plan), self._counted)
        stage = self._stage_of_plan
        return explain_query(
            stage, Analysed(frame._asked, resolved, rewritten, trace), plans, taking if self.measured else None
        )

    @property
    def _stage_of_plan(self) -> str | None:
        """The stage to show: the plan of an answer that only trends have is that of the trends."""
        given = self.plan != "auto" or self.statistics is not None or self.adaptation is not None
        return "trends" if self.stage == "physical" and (given or self.emit == EAGER) else self.stage

    @cached_property
    def _shown(self) -> tuple[str, ...]:
        return self.frame._columns(self.columns)

    @cached_property
    def _extraction(self) -> Extraction:
        # Elsewhere it may be an algorithm that finds all trends, such as "kernel", which complete trends do not have.
        of_others = self.stage not in ("complete", "survey") and is_one_of(self.algorithm, ALGORITHMS)
        algorithm = "auto" if of_others else self.algorithm
        return given_extraction(algorithm, self.memory_limit, self.optimizer, self.cost_model, self.anchors)

    @cached_property
    def _detection(self) -> Detection:
        return self.frame._detection(self.plan, self.statistics, self.adaptation, self.algorithm)

    @property
    def _size(self) -> int:
        """So many trends are drawn, or are the heaviest."""
        return positive("limit", _EXPLAINED if self.limit is None else self.limit)

    @property
    def _which(self) -> _Which:
        return _Which(self.complete, self.completeness, self._shown, self.per_group)

    @property
    def _decisions(self) -> dict[str, Callable[[], Decision]]:
        """By stage, what decides on the plan that it shows."""
        frame, road = self.frame, self.algorithm
        return {
            "trends": self._of_trends,
            "physical": self._of_answer,
            "complete": lambda: frame._decide_complete(self.completeness, self._extraction, self._shown, self.limit),
            "complete_count": lambda: frame._decide_complete_count(
                self.completeness, "count", self.number, road, self.emit
            ),
            "sample": lambda: frame._decide_sample(self._size, 0, self._which, road),
            "top": lambda: frame._decide_top(self._size, self.by, self._which),
            "matches": self._of_matches,
        }

    def _of_trends(self) -> Decision:
        check_emit(self.emit, "trends", EAGER)
        return self.frame._decide_trends(self.limit, self._shown, self._detection, self.emit)

    def _of_matches(self) -> Decision:
        return self.frame._decide_matches(self.limit, self._shown)

    def _of_answer(self) -> Decision:
        """Decides on the plan of what the query is for: matches, trends that are given early, or aggregates."""
        query = self.frame._query
        if query.selection != Selection():
            return self._of_matches()
        if self.emit == EAGER:
            return self._of_trends()
        return self.frame._decide(query.returning or (Returned(COUNT),), self.number, self.emit)

    def _answer(self) -> DataFrame:
        if self.emit != EAGER:
            return run(self.frame._df, self._of_answer().plan)
        return self.frame.trends(
            self.limit,
            self.columns,
            plan=self.plan,
            statistics=self.statistics,
            adaptation=self.adaptation,
            algorithm=self.algorithm,
            emit=self.emit,
        )

    def _carried_out(self, decide: Callable[[], Decision]) -> Decision:
        """Returns a decision, whose plan also says what is decided when it is carried out: how events are sent."""
        decided, df = decide(), self.frame._df
        return attrs.evolve(decided, plan=with_sorting(df, as_carried_out(df, decided.plan)))

    def _counted(self, decided: Decision) -> tuple[tuple[str, str], ...]:
        return self.frame._partial_matches(decided, self._detection) if self._stage_of_plan == "trends" else ()


def computed_by(query: Query, df: DataFrame) -> tuple[Computed, ...]:
    """Returns the groups that a query computes from columns of a DataFrame, with the exact names of these columns."""
    return resolve_computed(query, schema_of(df), known_functions=function_names()) if query.computed else ()


def spark_conditions(query: Query) -> list[tuple[str, Column]]:
    """Returns the conditions of events that are given as Spark columns, each once, with a description for errors."""
    named: dict[SparkColumn, str] = {}
    for event in events(query.pattern):
        for node in event.condition.walk() if event.condition is not None else ():
            if isinstance(node, SparkColumn):
                named.setdefault(node, event.variable)
    return [(f"the condition of {variable!r}", node.column) for node, variable in named.items()]


def _truth(name: str, value: bool, hint: str) -> bool:
    """Returns the value of an argument; raises InvalidNode unless it is a bool."""
    if not isinstance(value, bool):
        raise InvalidNode(f"{name} is True or False, not {shown(value)}", hint=hint)
    return value


def _aggregate_node(name: str, value: object) -> Aggregate:
    node = to_expr(value)
    if not isinstance(node, Aggregate):
        raise InvalidNode(
            f"{name}={shown(value)} is not an aggregate",
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
    sort: str | None = None,
    sort_memory: str | int | None = None,
    state: str | None = None,
) -> PatternFrame:
    """Binds a query to the events of a DataFrame.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        One row per event. A DataFrame of pandas, or of pandas on Spark, is converted where a session is active.
    query : query, pattern or str
        A query or pattern made by the fluent functions, or a query text.
    time : str, optional
        The time column: a timestamp, a date or an integer; by default the only timestamp column.
    tie_break : str or sequence of str, optional
        Columns that order events of the same time; without them such events are simultaneous and never in one trend.
    type : str or None
        The column that holds event types; None says that every event is of every type.
    on_null_time : {"error", "skip"}
        What to do with rows whose time is NULL.
    sort : {"auto", "kernel", "spark", "runs", "input"}, optional
        The way in which the events of each task are put in order of time.

        - ``"spark"``: Spark sorts them.
        - ``"kernel"``: The kernel sorts them in the Python worker, and many events are packed in one row to be sent.
        - ``"runs"``: Workers sort the events that they read before the shuffle, and send many events of a key in one
          row. This pays where keys have hundreds of events. Where other columns of an event than numbers are sent, or
          ties are broken, it means ``"auto"``.
        - ``"input"``: Nothing is sorted, as each task reads events in order, for instance from a file for each day. A
          task multiplies what it reads of a key, and no event is shuffled. A key whose events turn out to be mixed is
          read once more, see :ref:`stretches`. For queries that are not answered by such products it means ``"auto"``.
        - ``"auto"``: Spark or the kernel sorts, and events are packed or not, whichever is expected to take less time.

        By default the session's setting ``cetdsl.sort``, or ``"auto"`` if it is not set.
    sort_memory : str or int, optional
        The amount, about, of a task's events that the kernel holds while it sorts, as ``"64m"`` or bytes; the rest goes
        to Spark's local directory. By default the session's setting ``cetdsl.sort.memory``, or 48 MiB if it is not set.
    state : {"auto", "windows", "events"}, optional
        How a stream keeps its events until their windows are answered. ``windows``: Spark's own operators keep the
        events of each open window, or matrices of its panes, in any state store. ``events``: each event is kept once,
        packed, however many windows need it; this takes RocksDB as the state store, see :doc:`/streaming`. ``auto`` is
        ``events`` for spans and overlapping windows if RocksDB is the state store and protobuf is installed, and
        ``windows`` otherwise. By default the session's setting ``cetdsl.state``, or ``auto`` if it is not set.

    Returns
    -------
    PatternFrame

    Raises
    ------
    ParseError
        If the text is malformed.
    ResolutionError
        If the query does not fit the DataFrame; several errors are reported at once.
    InvalidNode
        If ``df`` is no DataFrame or ``query`` no query, or ``sort``, ``sort_memory``, ``state`` or ``on_null_time`` has
        no such value.
    WatermarkError
        If a stream has no watermark on the time column.
    StreamingNotSupported
        If the query of a stream has no window or puts an event into more than 64, or ``state="events"`` is asked for
        without RocksDB or protobuf.
    MissingDependency
        If Spark runs on this machine, and its Python workers are another Python that lacks packages that cetdsl needs.
    EngineError
        If the Spark session is stopped.

    Examples
    --------
    >>> df = spark.createDataFrame([(1, 10.0), (2, 11.0), (3, 12.0)], "t int, price double")
    >>> text = "PATTERN Stock+ s[] WHERE s.price < NEXT(s).price"
    >>> cet.pattern(df, text, time="t", type=None).count_trends().first()["count"]
    Decimal('7')
    """
    df, node = as_dataframe(df), query_of(query)
    asked, kept = asked_sort(df.sparkSession, sort, sort_memory), asked_state(df, state)
    computed = computed_by(node, df)
    df = with_computed(df, computed)
    binding = Binding(time, tie_break, type, on_null_time, asked, watermarks_of(df), tuple(computed), kept)
    bound = PatternFrame(df, node, binding)
    bound._rewritten  # noqa: B018 - errors of the query are raised here, not when an answer is asked for
    check_conditions(df, spark_conditions(bound.query))
    require_worker_python(df.sparkSession)
    return bound
