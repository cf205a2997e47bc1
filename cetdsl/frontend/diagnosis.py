"""``bound.diagnose()``: finds demands that rule out all trends, by counting trends of queries that demand less."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property
from itertools import pairwise
from os import PathLike
from typing import Any

import attrs
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cetdsl.analysis.resolve import Binding, ResolvedQuery, analyse
from cetdsl.analysis.types import category
from cetdsl.errors import UnsupportedQuery, counted, recovering
from cetdsl.execution.census import DISTINCT, GREATEST, HOLDS, LEAST, NULL, Census, Measure, Totals, held
from cetdsl.execution.compat import function_names, schema_of
from cetdsl.execution.expressions import combine
from cetdsl.execution.layouts import narrowed
from cetdsl.execution.operators import run
from cetdsl.explain import Explanation
from cetdsl.explain.diagnosis import amount, count_text, diagnosis_views, number
from cetdsl.frontend.given import at_least_one, positive, shown_columns
from cetdsl.frontend.variant_counts import VariantCounts
from cetdsl.pattern.expressions import (
    Attribute,
    Binary,
    Call,
    Expr,
    Literal,
    Role,
    SparkColumn,
    Unary,
    aggregates,
    attributes,
    conjuncts,
    variables,
)
from cetdsl.pattern.nodes import And, Event, Or, events
from cetdsl.pattern.properties import binds_at_least_one, positive_variables
from cetdsl.pattern.query import ANY, Query, Window
from cetdsl.pattern.spans import Span
from cetdsl.pattern.text import COMPARISON, LEVELS, quote, quote_name, quote_text
from cetdsl.pattern.variants import KEY, WINDOW, Demand, cumulated, demands_of, exchanged_orders, steps_of, without
from cetdsl.planning.planner import plan_trends
from cetdsl.planning.strategies.request import source_of

#: Trends are counted over so many events, unless it is said otherwise.
USUAL_SAMPLE = 500_000
#: So many values of a column are compared with one that does not occur, and so many text columns are searched for it.
_VALUES, _COLUMNS = 10_000, 20
#: The shortest trend is looked for among so many lengths of the window at a time, in so many rounds at most, until so
#: few trends are left.
_LENGTHS, _ROUNDS, _FEW = 16, 4, 1000


@attrs.frozen
class VariableFinding:
    """The number of events that a variable can bind, and the reason if there are none."""

    variable: str
    condition: str
    events: int
    why: str = ""


@attrs.frozen
class StepFinding:
    """The number of trends of a beginning of the pattern; None if they were not counted."""

    step: str
    trends: float | None


@attrs.frozen
class DemandFinding:
    """The numbers of trends with this demand alone, with it and those before it, and with all demands but it."""

    demand: str
    kind: str
    alone: float | None
    together: float | None
    without: float | None


@attrs.frozen(repr=False, eq=False)
class Diagnosis:
    """Explains why a query has no trend, or what each demand costs; made by :meth:`PatternFrame.diagnose`.

    It prints as text, and a notebook shows it as HTML.

    Attributes
    ----------
    trends : float or None
        The number of trends, where a trend counts once for each window; infinity beyond doubles, and None if they were
        not counted.
    causes : tuple of str
        Sentences that say why there is no trend; empty if there are trends.
    notes : tuple of str
        Remarks, such as the number of rows without a time, or that a sample was used.
    events : int
        The rows that trends were counted over.

    Examples
    --------
    >>> df = spark.createDataFrame([(1, "view"), (2, "cart")], "t int, type string")
    >>> diagnosis = df.pattern("PATTERN SEQ(View, cart)", time="t").diagnose()
    >>> diagnosis.causes
    ("View binds no event: no row has type = 'View'; 'view' occurs 1 time",)
    """

    trends: float | None
    causes: tuple[str, ...]
    notes: tuple[str, ...]
    events: int
    _variables: tuple[VariableFinding, ...]
    _steps: tuple[StepFinding, ...]
    _demands: tuple[DemandFinding, ...]
    _misses: tuple[tuple[str, Query], ...]
    _asking: _Asking

    @property
    def variables(self) -> DataFrame:
        """The variables, each with its ``condition``, the ``events`` that meet it, and ``why`` there is none."""
        rows = [attrs.astuple(one) for one in self._variables]
        return self._asking.table(rows, "variable string, condition string, events bigint, why string")

    @property
    def steps(self) -> DataFrame:
        """The beginnings of the pattern with the number of ``trends`` of each, under all conditions on its variables.

        Of an OR or AND they are its sides.
        """
        rows = [(number, *attrs.astuple(one)) for number, one in enumerate(self._steps, 1)]
        return self._asking.table(rows, "number int, step string, trends double")

    @property
    def demands(self) -> DataFrame:
        """The numbers of trends with and without each demand of the query.

        ``alone`` counts trends of the pattern and its keys with this demand only, ``together`` with this one and all
        above it, and ``without`` with all demands but this one. NULL stands for what was not counted.
        """
        rows = [(number, *attrs.astuple(one)) for number, one in enumerate(self._demands, 1)]
        columns = "number int, demand string, kind string, alone double, together double, without double"
        return self._asking.table(rows, columns)

    def misses(self, limit: int = 10, columns: Sequence[str] | None = None) -> DataFrame:
        """Lists sequences of events that satisfy all demands but one.

        Parameters
        ----------
        limit : int
            The maximum number of rows for each demand. Of the sequences that do not fit the window, the shortest ones
            that were found are listed.
        columns : sequence of str, optional
            The columns of each event to show; all by default.

        Returns
        -------
        pyspark.sql.DataFrame
            ``missed``, the text of the demand; ``lasts``, the time from the first event to the last, in microseconds or
            ticks; and ``trend``, as of :meth:`PatternFrame.trends`.

        Raises
        ------
        InvalidNode
            If ``limit`` is no whole number from 1 on.
        UnknownColumn
            If ``columns`` names a column that the DataFrame does not have.

        Examples
        --------
        >>> df = spark.createDataFrame([(1, "view"), (20, "cart")], "t int, type string")
        >>> diagnosis = df.pattern("PATTERN SEQ(view, cart) WITHIN 5", time="t").diagnose()
        >>> diagnosis.misses(columns=["t"]).select("missed", "lasts", "trend.event.t").collect()
        [Row(missed='WITHIN 5', lasts=19, t=[1, 20])]
        """
        return self._asking.misses(self._misses, positive("limit", limit), columns)

    @cached_property
    def explanation(self) -> Explanation:
        """The whole diagnosis as views, which can be written as text and as HTML."""
        tables: list[tuple[str, Sequence[str], Sequence[Sequence[Any]]]] = [
            (
                "events of each variable",
                ("variable", "condition", "events"),
                [(v.variable, v.condition, v.events) for v in self._variables],
            ),
            ("trends of each step", ("step", "trends"), [(s.step, number(s.trends)) for s in self._steps]),
            (
                "trends with each demand",
                ("demand", "alone", "with those above", "all but this"),
                [(d.demand, *map(number, (d.alone, d.together, d.without))) for d in self._demands],
            ),
        ]
        causes = self.causes or (f"The query has {count_text(self.trends)}.",)
        return Explanation((("diagnosis", diagnosis_views(causes, self.notes, tables)),))

    def html(self) -> str:
        """Returns a web page that shows all that was found, which needs no other file and no network.

        Returns
        -------
        str

        Examples
        --------
        >>> df = spark.createDataFrame([(1, "view"), (2, "cart")], "t int, type string")
        >>> page = df.pattern("PATTERN SEQ(View, cart)", time="t").diagnose().html()
        >>> "View binds no event" in page
        True
        """
        return self.explanation.html()

    def write_html(self, file: str | PathLike[str]) -> None:
        """Write the page of :meth:`html` to a file, as figures of Plotly do.

        Parameters
        ----------
        file : str or path
            It is replaced if it exists.

        Raises
        ------
        OSError
            If the file cannot be written.

        Examples
        --------
        >>> import os, tempfile
        >>> df = spark.createDataFrame([(1, "view"), (2, "cart")], "t int, type string")
        >>> file = os.path.join(tempfile.mkdtemp(), "why.html")
        >>> df.pattern("PATTERN SEQ(View, cart)", time="t").diagnose().write_html(file)
        """
        self.explanation.write_html(file)

    def _repr_html_(self) -> str:
        return self.explanation._repr_html_()

    def __repr__(self) -> str:
        return self.explanation.text


def diagnose(df: DataFrame, query: Query, binding: Binding, sample: int = USUAL_SAMPLE) -> Diagnosis:
    """Diagnoses a query of the events of a DataFrame; see :meth:`PatternFrame.diagnose`."""
    if query.matching != ANY:
        raise UnsupportedQuery(
            f"a diagnosis of MATCHING {query.matching.upper()}: which event could have been bound changes with each "
            "demand that is left away",
            hint="diagnose the query by MATCHING ANY: what has no trends then has none by any policy",
        )
    return _Diagnosing(df, query, binding, at_least_one("sample", sample, "events")).diagnosis()


@attrs.frozen
class _Test:
    """One condition on the events of a variable, and the conditions ``before`` it, which are evaluated first."""

    variable: str
    condition: Expr
    before: tuple[Expr, ...]

    @property
    def holds(self) -> Measure:
        return Measure(HOLDS, self.condition, self.before)

    @property
    def columns(self) -> list[Attribute]:
        """The columns that the condition refers to."""
        return list(dict.fromkeys(attributes(self.condition)))

    @property
    def anywhere(self) -> Measure:
        """Counts the rows in which the condition holds, whether those before it hold or not."""
        return Measure(HOLDS, self.condition)

    def of(self, what: str, column: Attribute) -> Measure:
        """A measure of a column, among the events that meet the conditions before."""
        return Measure(what, column, self.before)


class _Diagnosing:
    """Carries out one diagnosis: first looks at single events, then at trends."""

    def __init__(self, df: DataFrame, query: Query, binding: Binding, sample: int) -> None:
        self.df, self.query, self.binding, self.sample = df, query, binding, sample
        self.resolved = analyse(query, schema_of(df), binding, known_functions=function_names())
        self.tests = {event: self._tests(event) for event in dict.fromkeys(events(self.resolved.query.pattern))}
        self.keys = tuple(dict.fromkeys((*self.resolved.query.partition_by, *self.resolved.query.group_by)))
        terms = [test.condition for tests in self.tests.values() for test in tests]
        self.census = Census(df, source_of(self.resolved), terms)
        self.totals, self.measured = self._take()

    # Single events

    def _tests(self, event: Event) -> list[_Test]:
        """Returns the conditions on the events of a variable, in order."""
        parts = [] if event.condition is None else conjuncts(event.condition)
        parts += [part for part in self.resolved.query.where if _is_local(part, event.variable)]
        return [_Test(event.variable, part, tuple(parts[:place])) for place, part in enumerate(parts)]

    def _take(self) -> tuple[Totals, Mapping[Measure, Any]]:
        measures: list[Measure] = []
        for test in (test for tests in self.tests.values() for test in tests):
            measures.append(test.holds)
            for column in test.columns:
                measures.append(test.of(NULL, column))
                if self._is_on_a_scale(column):
                    measures += [test.of(LEAST, column), test.of(GREATEST, column)]
            text = _text_sought(test.condition)
            if text is not None:
                measures += [test.anywhere, *(Measure(HOLDS, one) for one in self._elsewhere(*text))]
        measures += [self._null_of(column) for part in self._relations() for column in attributes(part)]
        return self.census.take(list(dict.fromkeys(measures)))

    def _is_on_a_scale(self, column: Attribute) -> bool:
        return category(self.resolved.schema.type_of(column.name)) in ("number", "instant")

    def _elsewhere(self, column: str, text: str) -> list[Expr]:
        """Returns conditions that compare the same text with other columns."""
        fields = [field for field in self.resolved.schema.fields if field.type == "string" and field.name != column]
        names = [name for name in dict.fromkeys(f.name for f in fields) if self.resolved.schema.type_of(name)]
        return [Binary("=", Attribute(None, name), Literal(text)) for name in names[:_COLUMNS]]

    def _relations(self) -> list[Expr]:
        """The predicates that are on no event by itself."""
        local = {test.condition for tests in self.tests.values() for test in tests}
        return [part for part in self.resolved.query.where if part not in local]

    def _null_of(self, column: Attribute) -> Measure:
        """Counts the events that the column's variable can bind in which the column is NULL."""
        own = tuple(test.condition for test in self._tests_of(column))
        return Measure(NULL, Attribute(None, column.name), own)

    def _tests_of(self, column: Attribute) -> Sequence[_Test]:
        return next((tests for event, tests in self.tests.items() if event.variable == column.variable), [])

    def _events_of(self, tests: Sequence[_Test]) -> int:
        return int(self.measured[tests[-1].holds] or 0) if tests else self.totals.events

    def variable_findings(self) -> tuple[VariableFinding, ...]:
        found = []
        for event, tests in self.tests.items():
            bound = self._events_of(tests)
            condition = " AND ".join(quote(test.condition) for test in tests)
            found.append(VariableFinding(event.variable, condition, bound, "" if bound else self._why_none(tests)))
        return tuple(found)

    def _why_none(self, tests: Sequence[_Test]) -> str:
        if not self.totals.rows:
            return "there are no rows"
        if not self.totals.events:
            return "no row has a time"
        place, test = next((k, test) for k, test in enumerate(tests) if not self.measured[test.holds])
        asked = self._events_of(tests[:place])
        met = f" with {' AND '.join(map(quote, test.before))}" if test.before else ""
        every = f"{_all(asked, 'row')}{met}"
        empty = [column for column in test.columns if self.measured[test.of(NULL, column)] == asked]
        deciding = [column.name for column in empty if column in _compared(test.condition)]
        if deciding:
            return f"{quote_name(deciding[0])} is NULL in {every}"
        none = f"none of the {counted(asked, 'row')}{met} has {quote(test.condition)}"
        text = _text_sought(test.condition)
        if text is not None:
            elsewhere = self.measured[test.anywhere]
            return f"{none}, which {counted(elsewhere, 'other')} have" if elsewhere else self._why_no_text(*text)
        ranges = [self._range(test, column) for column in test.columns if self._is_on_a_scale(column)]
        return "; ".join([none, *ranges])

    def _range(self, test: _Test, column: Attribute) -> str:
        least, greatest = (self.measured[test.of(what, column)] for what in (LEAST, GREATEST))
        if least is None:
            return f"{quote_name(column.name)} is NULL in them"
        return f"{quote_name(column.name)} lies between {least} and {greatest}"

    def _why_no_text(self, column: str, text: str) -> str:
        said = f"no row has {quote_name(column)} = {quote_text(text)}"
        values = self.census.values(Attribute(None, column), _VALUES)
        close = _closest(text, [value for value, _ in values])
        if close is not None:
            return f"{said}; {quote_text(close)} occurs {counted(dict(values)[close], 'time')}"
        for other in self._elsewhere(column, text):
            times = self.measured[Measure(HOLDS, other)]
            if times:
                name = attributes(other)[0].name
                return f"{said}; the column {quote_name(name)} has it {counted(times, 'time')}"
        frequent = ", ".join(f"{quote_text(value)} ({times:,})" for value, times in values[:5])
        return f"{said}; its most frequent values are {frequent}" if values else f"{said}; it is NULL in all rows"

    # Trends

    def diagnosis(self) -> Diagnosis:
        found = self.variable_findings()
        unbound = {one.variable: self._asked_of(one.variable) for one in found if not one.events}
        df = self._sampled()
        with held(df, self._needed()) as near:
            counts = VariantCounts(near, self.resolved.schema, self.census, self.query, self.binding, unbound)
            return self._diagnosed(_Asking(df, self.census, counts, self.resolved), found)

    def _needed(self) -> tuple[str, ...] | None:
        """The columns that any query with less demands may read; None if a condition may read any."""
        query, time = self.resolved.query, self.resolved.time.name
        conditions = [test.condition for tests in self.tests.values() for test in tests]
        terms = (*conditions, *query.where)
        if any(isinstance(node, SparkColumn) for term in terms for node in term.walk()):
            return None
        named = [column.name for term in terms for column in attributes(term)]
        return tuple(dict.fromkeys((time, *self.resolved.tie_break, *self.keys, *named)))

    def _diagnosed(self, asking: _Asking, found: tuple[VariableFinding, ...]) -> Diagnosis:
        events_read, notes = self._read(asking)
        counts, query = asking.counts, self.query
        demands, steps = demands_of(query), steps_of(query)
        keys = [demand for demand in demands if demand.kind == KEY]
        others = [demand for demand in demands if demand.kind != KEY]
        alone = {one: without(query, [other for other in others if other != one]) for one in others}
        together = dict(zip(others, cumulated(query, others)))
        lacking = {one: without(query, [one]) for one in demands}
        bare = without(query, others)
        all_asked = [query, bare, *(s.query for s in steps), *alone.values(), *together.values(), *lacking.values()]
        counts.count(all_asked)
        told = [
            DemandFinding(
                one.text,
                one.kind,
                counts[alone.get(one, bare)],
                counts[together.get(one, bare)],
                counts[lacking[one]],
            )
            for one in (*keys, *others)
        ]
        trends = counts[query]
        misses: list[tuple[str, Query]] = []
        causes: list[str] = []
        if trends == 0:
            causes, misses = self._causes(asking, found, lacking, told)
        elif any(not one.events for one in found):
            notes += [f"{one.variable} binds no event: {one.why}" for one in found if not one.events]
        return Diagnosis(
            trends=trends,
            causes=tuple(causes),
            notes=tuple(notes),
            events=events_read,
            variables=found,
            steps=tuple(StepFinding(step.text, counts[step.query]) for step in steps),
            demands=tuple(told),
            misses=tuple(misses),
            asking=asking,
        )

    def _asked_of(self, variable: str) -> list[Expr]:
        """Returns the conditions of the query, as it was written, on single events of a variable."""
        parts = (part for whole in self.query.where for part in conjuncts(whole))
        return [part for part in parts if _is_local(part, variable)]

    def _sampled(self) -> DataFrame:
        """The events that trends are counted over."""
        rows = self.totals.rows
        return self.df if rows <= self.sample else self.census.sampled(self.keys, self.sample / rows)

    def _read(self, asking: _Asking) -> tuple[int, list[str]]:
        """Returns the number of events that trends are counted over, and notes on these events."""
        notes = []
        totals = self.totals
        if totals.no_time:
            name = quote_name(self.resolved.time.name)
            stops = ", and the query stops with an error; on_null_time='skip' leaves them out"
            stops = "" if self.binding.on_null_time == "skip" else stops
            notes.append(f"{name} is NULL in {totals.no_time:,} of {totals.rows:,} rows{stops}")
        if asking.df is self.df:
            return totals.rows, notes
        read = int(asking.counts.df.count())
        what = f"the keys of {read:,}" if self.keys else f"the first {read:,}"
        notes.append(f"trends are counted over {what} of {totals.rows:,} events; sample= says how many")
        return read, notes

    def _causes(
        self,
        asking: _Asking,
        found: Sequence[VariableFinding],
        lacking: Mapping[Demand, Query],
        told: Sequence[DemandFinding],
    ) -> tuple[list[str], list[tuple[str, Query]]]:
        """Returns the reasons for there being no trend, and the queries of the closest misses, with what they miss."""
        counts = asking.counts
        if not self.totals.rows:
            return ["There are no events."], []
        if self.totals.no_time == self.totals.rows:
            return [f"{quote_name(self.resolved.time.name)} is NULL in all rows"], []
        bound = positive_variables(self.query.pattern)
        causes = [f"{v.variable} binds no event: {v.why}" for v in found if not v.events and v.variable in bound]
        for part in self._relations():
            causes += self._always_null(part)
        misses: list[tuple[str, Query]] = []
        for demand, query in lacking.items():
            trends = counts[query]
            if not trends:
                continue
            more, closest = self._about(demand, asking, query)
            causes.append(f"without {demand.text} there would be {count_text(trends)}{more}")
            misses.append((demand.text, closest))
        exchanged = list(exchanged_orders(self.query))
        counts.count(part.query for part in exchanged)
        for other in exchanged:
            if counts[other.query]:
                causes.append(f"in another order, {other.text}, there would be {count_text(counts[other.query])}")
        return causes or [self._where_it_ends(asking, told), *self._simultaneous()], misses

    def _always_null(self, part: Expr) -> list[str]:
        """Returns why a predicate never holds, if a column that it compares is NULL in all events it may refer to."""
        pattern = self.resolved.query.pattern
        for column in _compared(part):
            # Where a trend may bind no such event, or has no neighbour, the predicate holds: nothing is compared.
            always = column.variable in positive_variables(pattern) and binds_at_least_one(pattern, column.variable)
            bound = self._events_of(self._tests_of(column))
            if always and bound and self.measured[self._null_of(column)] == bound:
                where = f"{_all(bound, 'event')} that {column.variable} can bind"
                return [f"{quote(part)} never holds: {quote_name(column.name)} is NULL in {where}"]
        return []

    def _about(self, demand: Demand, asking: _Asking, query: Query) -> tuple[str, Query]:
        """Returns more text about a demand without which there are trends, and the query that finds closest misses."""
        if demand.kind == KEY:
            name = self.keys[demand.place]
            distinct = Measure(DISTINCT, Attribute(None, name))
            values = self.census.take([distinct])[1][distinct]
            return (
                f"; {quote_name(name)} has about {counted(values, 'value')} in {counted(self.totals.events, 'row')}",
                query,
            )
        if demand.kind != WINDOW:
            return "", query
        window = self.query.window
        assert window is not None
        found = asking.shortest(query, window.length, window.slide is not None, self.totals)
        if found is None:
            return "", query
        length, exactly, closest = found
        unit = window.length.unit
        said = f"; the closest takes {'' if exactly else 'at most '}{amount(length, unit)}"
        if length <= window.length.amount:
            said += ", but no window that begins at a multiple of SLIDE holds it"
        return said, closest

    def _simultaneous(self) -> list[str]:
        """Returns a sentence on events of one time, which are never in one trend, if there are some."""
        resolved = self.resolved
        variables = [tuple(test.condition for test in tests) for tests in self.tests.values()]
        alike = self.census.alike((*self.keys, resolved.time.name, *resolved.tie_break), variables)
        if not alike:
            return []
        order = "time and tie_break" if resolved.tie_break else "time"
        remedy = "more columns of tie_break=" if resolved.tie_break else "tie_break="
        return [
            f"{counted(alike, 'event')} share the {order} of another one, and such events are never in one trend; "
            f"{remedy} would put them in order"
        ]

    def _where_it_ends(self, asking: _Asking, told: Sequence[DemandFinding]) -> str:
        """The first beginning, or the first demand, that leaves no trend, where no single one is to blame."""
        counts = asking.counts
        before = None
        for finding in told:
            if finding.together == 0 and before:
                return (
                    f"no demand alone is to blame: with those above {finding.demand} there would be "
                    f"{count_text(before)}, with it there is none"
                )
            before = before if finding.together is None else finding.together
        steps = () if isinstance(self.query.pattern, (Or, And)) else steps_of(self.query)
        for last, step in pairwise(steps):
            if counts[last.query] and counts[step.query] == 0:
                return f"{last.text} has {count_text(counts[last.query])}, and none goes on to {step.text}"
        return "no demand alone is to blame"


class _Asking:
    """Runs queries on the events that trends are counted over."""

    def __init__(self, df: DataFrame, census: Census, counts: VariantCounts, resolved: ResolvedQuery) -> None:
        self.df, self.census, self.counts, self.resolved = df, census, counts, resolved

    def table(self, rows: Sequence[Sequence[Any]], columns: str) -> DataFrame:
        return self.df.sparkSession.createDataFrame(list(rows), columns)

    def trends(self, query: Query, limit: int, columns: Sequence[str] = ()) -> DataFrame:
        """Lists ``limit`` trends of a query, each with its duration; events have these columns and the time."""
        resolved = self.counts.resolved(query)
        assert resolved is not None, "its trends have been counted"
        shown = tuple(dict.fromkeys((*columns, resolved.time.name)))
        df = self.df if columns else self.counts.df
        return self.census.lasting(run(df, plan_trends(resolved, shown, limit).plan).select("trend"))

    def misses(self, queries: Sequence[tuple[str, Query]], limit: int, columns: Sequence[str] | None) -> DataFrame:
        """Trends of each query with the text of what they miss; those that miss a window the shortest first."""
        names = self._columns(columns)
        parts = []
        for text, query in queries:
            found = self.trends(query, max(limit, _FEW), names).orderBy("lasts").limit(limit)
            parts.append(found.select(F.lit(text).alias("missed"), "lasts", narrowed(names).alias("trend")))
        if parts:
            return combine(DataFrame.unionByName, parts)
        none = self.trends(self.resolved.query, 1, names).limit(0)
        return none.select(F.lit("").alias("missed"), "lasts", narrowed(names).alias("trend"))

    def _columns(self, columns: Sequence[str] | None) -> tuple[str, ...]:
        names = shown_columns(self.resolved, columns)
        folded = {self.resolved.schema.folded(name) for name in names}
        return names if columns is not None or len(folded) == len(names) else self.resolved.columns

    def shortest(self, query: Query, length: Span, slides: bool, totals: Totals) -> tuple[int, bool, Query] | None:
        """Finds the duration of the shortest trend of a query without a window.

        Trends are counted for several lengths at a time, and listed where few are left. The answer is what the shortest
        trend lasts, whether that is exact and no upper bound, and a query for the shortest trends. None: they cannot be
        counted.
        """
        low, high = 0 if slides else length.amount, min((totals.last or 0) - (totals.first or 0), 2**61)
        few, asked = self.counts[query], query
        for turn in range(_ROUNDS):
            if few is None or few <= _FEW or high - low <= 1:
                break
            lengths = _geometric(low, high) if turn == 0 else _linear(low, high)
            within = {one: attrs.evolve(query, window=Window(Span(one, length.unit))) for one in lengths}
            self.counts.count(within.values())
            high = next((one for one in lengths if self.counts[within[one]] != 0), high)
            low = max((one for one in lengths if one < high), default=low)
            few, asked = self.counts[within[high]], within[high]
        if few is None:
            return None
        with recovering():
            least = self.trends(asked, _FEW).agg(F.min("lasts")).collect()[0][0]
        return None if least is None else (int(least), few <= _FEW or high - low <= 1, asked)


def _geometric(low: int, high: int) -> list[int]:
    """Lengths above ``low`` that grow by the same factor, up to ``high``."""
    first = max(low, 1)
    factor = (high / first) ** (1 / _LENGTHS)
    lengths = {int(first * factor**power) for power in range(1, _LENGTHS)}
    return sorted({one for one in lengths if low < one < high} | {high})


def _linear(low: int, high: int) -> list[int]:
    """Lengths above ``low`` in equal steps, up to ``high``."""
    return sorted({low + (high - low) * step // _LENGTHS for step in range(1, _LENGTHS + 1)} - {low})


def _is_local(part: Expr, variable: str) -> bool:
    """Whether a predicate is on each event of a variable by itself."""
    return (
        variables(part) == [variable]
        and not aggregates(part)
        and all(attribute.role is Role.EACH for attribute in attributes(part))
    )


def _text_sought(condition: Expr) -> tuple[str, str] | None:
    """Column and value of ``column = 'value'``."""
    if not isinstance(condition, Binary) or condition.op != "=":
        return None
    column, value = condition.left, condition.right
    if isinstance(column, Literal):
        column, value = value, column
    if isinstance(column, Attribute) and isinstance(value, Literal) and isinstance(value.value, str):
        return column.name, value.value
    return None


def _closest(text: str, values: Sequence[str]) -> str | None:
    """The value that a text was meant to be: but for case and spaces the same, or else similar."""
    folded: dict[str, str] = {}
    for value in values:
        folded.setdefault(value.strip().lower(), value)
    close = get_close_matches(text.strip().lower(), list(folded), n=1)
    return folded[close[0]] if close else None


def _all(count: int, what: str) -> str:
    return f"the {what}" if count == 1 else f"all {counted(count, what)}"


def _compared(predicate: Expr) -> list[Attribute]:
    """Returns the columns of single events that keep a predicate from holding if any one of them is NULL.

    They stand in sums and products on either side of a comparison: functions may make something of NULL, and other
    parts of an OR may hold.
    """
    if isinstance(predicate, Binary) and LEVELS[predicate.op] == COMPARISON:
        sides = [predicate.right, predicate.left]
    elif isinstance(predicate, Call) and predicate.name in ("like", "in"):
        sides = [predicate.arguments[0]]
    else:
        return []
    found = []
    while sides:
        side = sides.pop()
        if isinstance(side, Attribute) and side.role in (Role.EACH, Role.FIRST, Role.LAST):
            found.append(side)
        elif isinstance(side, Binary) and LEVELS[side.op] > COMPARISON:
            sides += [side.right, side.left]
        elif isinstance(side, Unary) and side.op == "-":
            sides.append(side.operand)
    return found
