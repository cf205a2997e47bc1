"""Trends as rows: the kernel enumerates them, and Spark tests and aggregates finished trends."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial

import attrs
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from cetdsl.aggregates.vocabulary import CentralMoment, Extreme, Merge, Quotient
from cetdsl.execution.aggregate import count_type
from cetdsl.execution.compat import translated
from cetdsl.execution.expressions import combine, to_column
from cetdsl.execution.operators import Rows, execute, runs
from cetdsl.execution.source import EventFrame, floor_divide
from cetdsl.execution.sums import Parts, Sum, log2_of, over_array, sum_of
from cetdsl.execution.worker import map_stage
from cetdsl.ir.compiled import Deferred
from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.layout import IDENTITY, TREND
from cetdsl.ir.operators import (
    AggregateTrends,
    CheckTrends,
    ChooseTrends,
    DetectTrends,
    DropContained,
    JoinSides,
    Limit,
    ListTrends,
    Operator,
    SampleOfEach,
    SampleTrends,
    ShowTrends,
    TopOfEach,
    TopTrends,
)
from cetdsl.ir.source import Source
from cetdsl.ir.stages import ContainmentSpec, DetectSpec, FirstSpec, TrendsSpec
from cetdsl.ir.windowing import SPAN
from cetdsl.pattern.expressions import Aggregate, Attribute, Expr, Length, Role, attributes, variables

COUNT = Aggregate("count")


@attrs.frozen
class Shown:
    """The columns beside the trend that an answer shows."""

    keys: tuple[str, ...]
    sliding: bool

    @classmethod
    def of(cls, source: Source) -> Shown:
        """Returns the columns of the answers about a source."""
        return cls(source.shown_keys, bool(source.window))

    @property
    def internal(self) -> list[str]:
        """Returns their internal names."""
        return [f"g{n}" for n in range(len(self.keys))] + (["window"] if self.sliding else [])

    def names(self, *more: str) -> list[str]:
        """Returns the names of an answer's columns: keys, ``window`` if there is one, ``more``, and ``trend``."""
        return self.names_before(*more, "trend")

    def names_before(self, *more: str) -> list[str]:
        """The names of an answer that has ``more`` columns of its own."""
        return [*self.keys, *(["window"] if self.sliding else []), *more]

    def places(self, frame: EventFrame, *, named: bool = False) -> list[StructField]:
        """Returns the fields of the columns beside the trend, with internal names, or the user's names if ``named``.

        If a worker's rows have the user's names, no projection is needed behind it, which would copy every trend.
        """
        fields = frame.place_fields("g", self.keys)
        if not named:
            return fields
        return [StructField(name, field.dataType) for name, field in zip(self.names(), fields)]

    def narrow(self, rows: DataFrame, frame: EventFrame, columns: tuple[str, ...], *more: str) -> DataFrame:
        """Returns rows whose events have columns of internal names, with the columns of an answer in their order."""

        def narrowed(binding: Column) -> Column:
            event = binding.getField("event")
            fields = [event.getField(frame.own_name(name)).alias(name) for name in columns]
            return F.struct(binding.getField("variable").alias("variable"), F.struct(*fields).alias("event"))

        return rows.select(*self.internal, *more, F.transform("trend", narrowed).alias("trend"))


def trend_field(
    frame: EventFrame, columns: tuple[str, ...], fields: tuple[str, ...], *, identified: bool = False
) -> StructField:
    """Returns ``trend: array<struct<variable, event>>`` that shows the user's ``columns`` of events as ``fields``.

    If ``identified``, events have a further field, the last, that identifies them.
    """
    kinds = [frame.type_of(name) for name in columns]
    event = [StructField(field, kind) for field, kind in zip(fields, kinds, strict=True)]
    if identified:
        event.append(StructField(IDENTITY, LongType()))
    binding = [StructField("variable", StringType()), StructField("event", StructType(event))]
    return StructField("trend", ArrayType(StructType(binding)))


@runs(ListTrends, DetectTrends, ChooseTrends)
def list_trends(df: DataFrame, plan: ListTrends) -> Rows:
    """Gives rows of keys, window and trend straight from the kernel."""
    rows = execute(df, plan.child)
    frame, shown = rows.frame, Shown(plan.keys, bool(plan.source.window))
    fields = plan.columns if plan.named else tuple(map(frame.own_name, plan.columns))
    trend = trend_field(frame, plan.columns, fields, identified=plan.identified)
    spec = trends_spec(plan, plan.keys, rows.spec, fields, plan.limit, identified=plan.identified)
    matches, deferred = [], []
    for place, one in enumerate(plan.compiled.deferred):
        terms = (node for predicate in one.predicates for node in attributes(predicate))
        needed = {node.name for node in terms if node.variable in one.variables}
        columns = tuple(name for name in plan.columns if name in needed)
        kind = ArrayType(trend_field(frame, columns, tuple(map(frame.own_name, columns))).dataType)
        matches.append(StructField(_matches_name(place), kind))
        deferred.append((one.negation, tuple(map(plan.columns.index, columns))))
    spec = attrs.evolve(spec, deferred=tuple(deferred))
    told = DetectSpec(spec, plan.plans) if isinstance(plan, DetectTrends) else spec
    return rows.mapped(plan, told, StructType([*shown.places(frame, named=plan.named), *matches, trend]))


def _matches_name(place: int) -> str:
    """Returns the name of the column with the matches of a deferred negation."""
    return f"x{place}"


def trends_spec(
    plan: Operator,
    keys: tuple[str, ...],
    kernel: KernelSpec,
    fields: tuple[str, ...],
    limit: int | None,
    *,
    identified: bool = False,
) -> TrendsSpec:
    """Returns what a worker must know to list trends as rows, of which :func:`trend_field` is the last column."""
    shown, variables = tuple(map(plan.source.keys.index, keys)), plan.compiled.names
    named = (*fields, IDENTITY) if identified else fields
    return TrendsSpec(kernel, shown, variables, named, -1 if limit is None else limit)


@runs(CheckTrends)
def check_trends(df: DataFrame, plan: CheckTrends) -> Rows:
    """Gives the trends that pass the residual predicates, and that no match of a deferred negation forbids."""
    rows, compiled = execute(df, plan.child), plan.compiled
    trend = FinishedTrend(F.col("trend"), rows.frame)

    def kept() -> DataFrame:
        holding = list(map(trend.holds, compiled.residual))
        data = rows.data.filter(combine(operator.and_, holding)) if holding else rows.data
        for place, one in enumerate(compiled.deferred):
            forbidden = F.exists(_matches_name(place), partial(trend.is_forbidden_by, one))
            data = data.filter(~forbidden).drop(_matches_name(place))
        return data

    return rows.now(translated(kept, "test a finished trend"))


@runs(ShowTrends)
def show_trends(df: DataFrame, plan: ShowTrends) -> Rows:
    """Gives keys, window, and the trend under the user's column names."""
    rows, shown = execute(df, plan.child), Shown.of(plan.source)
    return rows.now(shown.narrow(rows.data, rows.frame, plan.columns).toDF(*shown.names()))


@runs(Limit)
def limit_rows(df: DataFrame, plan: Limit) -> Rows:
    """Returns ``plan.count`` rows of an answer."""
    rows = execute(df, plan.child)
    return rows.now(rows.data.limit(plan.count))


@runs(SampleTrends)
def sample_trends(df: DataFrame, plan: SampleTrends) -> Rows:
    """Returns ``plan.size`` rows of an answer: those with the smallest random keys."""
    rows = execute(df, plan.child)
    return rows.now(rows.data.orderBy(F.rand(plan.seed)).limit(plan.size))


@runs(SampleOfEach)
def sample_of_each(df: DataFrame, plan: SampleOfEach) -> Rows:
    """Returns ``plan.size`` rows of each key and window: those with the greatest random keys."""
    rows, shown = execute(df, plan.child), Shown.of(plan.source)
    data = rows.data.toDF(*shown.internal, "trend").withColumn("weight", F.rand(plan.seed))
    return rows.now(_first_of_each(data, shown.internal, plan).drop("weight").toDF(*shown.names()))


@runs(TopTrends)
def top_trends(df: DataFrame, plan: TopTrends) -> Rows:
    """Gives the heaviest trends first, with their weights."""
    rows = execute(df, plan.child)
    heaviest = _weighed(rows, plan).orderBy(F.desc("weight")).limit(plan.size)
    return rows.now(heaviest.toDF(*Shown.of(plan.source).names(plan.name)))


@runs(TopOfEach)
def top_of_each(df: DataFrame, plan: TopOfEach) -> Rows:
    """Gives the heaviest trends of each key and window, with their weights."""
    rows, shown = execute(df, plan.child), Shown.of(plan.source)
    heaviest = _first_of_each(_weighed(rows, plan), shown.internal, plan)
    return rows.now(heaviest.toDF(*shown.names(plan.name)))


def _weighed(rows: Rows, plan: TopTrends) -> DataFrame:
    """Returns trends with their weights before them."""
    weight = FinishedTrend(F.col("trend"), rows.frame).aggregate(plan.by)
    weighed = rows.data.withColumn("weight", weight)
    return Shown.of(plan.source).narrow(weighed, rows.frame, plan.columns, "weight")


def _first_of_each(rows: DataFrame, places: list[str], plan: TopOfEach | SampleOfEach) -> DataFrame:
    """Returns ``plan.size`` rows of each place, those of the greatest ``weight``, NULL being less than any.

    Workers first reduce each task's rows to so many, so that few are shuffled. Spark's window functions and sorts are
    not used, because streams do not have them.
    """
    # The start of a window stands for the window, as workers do not compare structs.
    by = ["window.start" if place == "window" else place for place in places]
    names = [f"p{number}" for number in range(len(places))]
    told = rows.select("*", *(F.col(place).alias(name) for place, name in zip(by, names, strict=True)))
    columns = told.columns
    spec = FirstSpec(plan.size, tuple(map(columns.index, names)), columns.index("weight"))
    assert plan.stage is not None
    first = map_stage(told, plan.stage, spec, told.schema)
    together = first.repartition(*names) if names else first.repartition(1)
    return map_stage(together, plan.stage, spec, told.schema).drop(*names)


@runs(DropContained)
def drop_contained(df: DataFrame, plan: DropContained) -> Rows:
    """Gives complete trends by their definition, as rows of keys, window and trend, under internal names.

    Every trend goes to the task that has all of its key and window, longest first, and a kernel keeps those that no
    kept one contains.
    """
    rows = execute(df, plan.child)
    shown, shown_keys = Shown.of(plan.source), tuple(map(plan.source.keys.index, plan.source.shown_keys))
    variables = plan.compiled.names
    spec = ContainmentSpec(plan.layout, shown_keys, variables, plan.completeness, plan.memory)
    schema = StructType([*shown.places(rows.frame), StructField("trend", rows.data.schema[TREND].dataType)])
    return rows.mapped(plan, spec, schema)


def _events_of(trend: Column, variable: str) -> Column:
    bound = F.filter(trend, lambda b: b.getField("variable") == F.lit(variable))
    return F.transform(bound, lambda b: b.getField("event"))


class FinishedTrend:
    """Terms over a whole trend, as Spark expressions on its array of bindings."""

    def __init__(self, trend: Column, frame: EventFrame) -> None:
        self.trend = trend
        self.frame = frame
        self._columns: dict[Expr, Column] = {}

    def events(self, variable: str) -> Column:
        """Returns the events bound to a variable, in order of time."""
        return _events_of(self.trend, variable)

    def values(self, term: Expr) -> Column:
        """Returns a term's value at each event bound to its variable."""
        return F.transform(self.events(variables(term)[0]), lambda event: self._column(term, self._at({None: event})))

    def _column(self, term: Expr, resolve: Callable[[Expr], Column]) -> Column:
        return to_column(term, resolve, self.frame.source.schema)

    def _at(self, bound: dict[str | None, Column]) -> Callable[[Expr], Column]:
        def resolve(node: Expr) -> Column:
            assert isinstance(node, Attribute), node
            event = bound[node.variable] if node.variable in bound else bound[None]
            return event.getField(self.frame.own_name(node.name))

        return resolve

    def holds(self, predicate: Expr) -> Column:
        """Returns whether a residual predicate is true of the trend."""
        has_rows = any(isinstance(n, Attribute) and n.role is Role.EACH for n in _outside_aggregates(predicate))
        if has_rows:
            return self._pairwise(predicate, variables(predicate), {})
        return F.coalesce(self._column(predicate, self._whole), F.lit(False))

    def is_forbidden_by(self, deferred: Deferred, match: Column) -> Column:
        """Whether the predicates of a negation are true of the trend and of one of its matches."""
        both = _MatchedTrend(self.trend, self.frame, deferred.variables, match)
        return combine(operator.and_, [both.holds(predicate) for predicate in deferred.predicates])

    def _pairwise(self, predicate: Expr, left: list[str], bound: dict[str | None, Column]) -> Column:
        if not left:
            return F.coalesce(self._column(predicate, self._at(bound)), F.lit(False))
        name, *rest = left
        return F.forall(self.events(name), lambda event: self._pairwise(predicate, rest, {**bound, name: event}))

    def _whole(self, node: Expr) -> Column:
        """Returns the value that a node has of the whole trend, made once for all predicates that mention it."""
        if node not in self._columns:
            self._columns[node] = self._made(node)
        return self._columns[node]

    def _made(self, node: Expr) -> Column:
        if isinstance(node, Length):
            return F.size(self.trend).cast("bigint")
        if isinstance(node, Aggregate):
            return self.aggregate(node)
        assert isinstance(node, Attribute), node
        assert node.variable is not None, node
        events = self.events(node.variable)
        index = {Role.FIRST: F.lit(0), Role.LAST: F.size(events) - 1}.get(node.role, F.lit(node.index or 0))
        return F.get(events, index).getField(self.frame.own_name(node.name))

    def aggregate(self, node: Aggregate) -> Column:
        """Returns an aggregate over the events of this trend."""
        function = node.definition
        if function.is_count:
            events = self.trend if node.variable is None else self.events(node.variable)
            return F.size(events).cast("bigint")
        assert node.argument is not None, node
        if isinstance(node.argument, Length):
            return F.size(self.trend).cast("bigint")
        values = self.known(node.argument)
        if isinstance(function.finish, Extreme):
            return F.array_min(values) if function.buffer[0].merge is Merge.SMALLEST else F.array_max(values)
        if isinstance(function.finish, CentralMoment):
            return _central_moment(values, self.sum_type(node.argument), function.finish)
        adds = sum_of(self.frame.term_type(node.argument))

        def finished(parts: Parts) -> Column:
            if isinstance(function.finish, Quotient):
                return adds.mean(parts, F.size(values))
            return adds.total(parts, "decimal", "the sum over one trend")

        return F.when(F.size(values) > 0, over_array(adds, values, finished))

    def known(self, term: Expr) -> Column:
        """Returns the values of a term that are not NULL."""
        return F.filter(self.values(term), lambda value: value.isNotNull())

    def sum_type(self, term: Expr) -> str:
        """Returns the type of a sum of a term, which has room for large sums."""
        kind = self.frame.term_type(term).simpleString()
        if kind.startswith("decimal("):
            return f"decimal(38,{kind[:-1].split(',')[1]})"
        return "double" if kind in ("double", "float") else "decimal(38,0)"


class _MatchedTrend(FinishedTrend):
    """Terms over a trend and a match of a negated pattern."""

    def __init__(self, trend: Column, frame: EventFrame, negated: tuple[str, ...], match: Column) -> None:
        super().__init__(trend, frame)
        self._negated, self._match = negated, match

    def events(self, variable: str) -> Column:
        """Returns the events bound to a variable, by the match or by the trend."""
        return _events_of(self._match if variable in self._negated else self.trend, variable)


def _central_moment(values: Column, kind: str, finish: CentralMoment) -> Column:
    """Returns the variance of an array of values, or its root, in one pass (Welford 1962).

    The first value is subtracted from all values, because a small difference of large whole numbers is exact.
    """

    def step(state: Column, value: Column) -> Column:
        origin = F.coalesce(state.getField("origin"), value.cast(kind))
        count = state.getField("count") + 1
        away = F.try_subtract(value.cast(kind), origin).cast("double")
        if kind.startswith("decimal"):  # a difference that does not fit is large, and a double is accurate enough
            away = F.coalesce(away, value.cast("double") - origin.cast("double"))
        delta = away - state.getField("mean")
        mean = state.getField("mean") + delta / count
        squares = state.getField("squares") + delta * (away - mean)
        return F.struct(origin.alias("origin"), count.alias("count"), mean.alias("mean"), squares.alias("squares"))

    def end(state: Column) -> Column:
        count = state.getField("count")
        moment = F.when(count > finish.less, state.getField("squares") / (count - finish.less))
        return F.sqrt(moment) if finish.root else moment

    parts = [F.lit(0.0).alias(name) for name in ("count", "mean", "squares")]
    return F.aggregate(values, F.struct(F.lit(None).cast(kind).alias("origin"), *parts), step, end)


def _outside_aggregates(expr: Expr) -> list[Expr]:
    if isinstance(expr, Aggregate):
        return []
    return [expr, *(node for child in expr.children for node in _outside_aggregates(child))]


@runs(AggregateTrends)
def aggregate_trends(df: DataFrame, plan: AggregateTrends) -> Rows:
    """Gives aggregates over trends whose events have columns of internal names."""
    rows, source = execute(df, plan.child), plan.source
    trend = FinishedTrend(F.col("trend"), rows.frame)
    outputs = [_Output(trend, aggregate, plan.number) for _, aggregate in plan.outputs]
    per_trend = [column.alias(f"a{n}_{k}") for n, out in enumerate(outputs) for k, column in enumerate(out.per_trend())]
    groups = [*(f"g{n}" for n in range(len(source.groups))), *source.window]
    picked = rows.data.select(*groups, F.lit(1).alias("one"), *per_trend)
    if arrays := [f"a{n}_0" for n, out in enumerate(outputs) if isinstance(out.function.finish, CentralMoment)]:
        picked = _by_value(picked, groups, arrays)
    answers = [out.overall(n).alias(f"r{n}") for n, out in enumerate(outputs)]
    grouped = picked.groupBy(*groups).agg(F.count("one").alias("one"), *answers).filter(F.col("one") > 0)
    return rows.now(grouped.drop("one").toDF(*plan.gives))


def _by_value(rows: DataFrame, groups: list[str], arrays: list[str]) -> DataFrame:
    """Makes a row per value of each trend, of several arrays side by side; other columns are in the first row alone."""
    others = [name for name in rows.columns if name not in (*groups, *arrays)]
    each = rows.select(*groups, *others, F.posexplode_outer(F.arrays_zip(*arrays)).alias("at", "each"))
    first = F.coalesce(F.col("at"), F.lit(0)) == 0
    of_trend = [F.when(first, F.col(name)).alias(name) for name in others]
    return each.select(*groups, *of_trend, *(F.col("each").getField(name).alias(name) for name in arrays))


#: Spark's functions for variances, by the number that is subtracted from the count and whether the root is taken.
_CENTRAL_MOMENTS = {
    CentralMoment(1): F.var_samp,
    CentralMoment(0): F.var_pop,
    CentralMoment(1, root=True): F.stddev_samp,
    CentralMoment(0, root=True): F.stddev_pop,
}


class _Output:
    """One aggregate: its value in each trend, and over all of them."""

    def __init__(self, trend: FinishedTrend, aggregate: Aggregate, number: str) -> None:
        self.trend = trend
        self.aggregate = aggregate
        self.function = aggregate.definition
        self.number = number

    def per_trend(self) -> list[Column]:
        """Returns the columns to compute for each trend."""
        node, finish = self.aggregate, self.function.finish
        if node == COUNT:
            return [F.lit(1)]
        if node.argument is None or isinstance(node.argument, Length):
            return [self.trend.aggregate(node)]
        if isinstance(finish, CentralMoment):
            return [self.trend.known(node.argument)]
        if isinstance(finish, Extreme):
            return [self.trend.aggregate(node)]
        values = self.trend.known(node.argument)
        parts = over_array(self._adds(node.argument), values)
        return [F.size(values).cast("bigint"), parts.getField("a"), parts.getField("b")]

    def overall(self, number: int) -> Column:
        """Returns the aggregate over all trends of a group and window."""
        node, finish, first = self.aggregate, self.function.finish, F.col(f"a{number}_0")
        if isinstance(finish, Extreme):
            return F.min(first) if self.function.buffer[0].merge is Merge.SMALLEST else F.max(first)
        if isinstance(finish, CentralMoment):
            return _CENTRAL_MOMENTS[finish](first)
        if isinstance(node.argument, Length):
            return F.avg(first)
        if self.function.is_count:
            total = F.sum(first)
            return log2_of(total) if self.number == "log2" else total.cast(count_type(self.number))
        assert node.argument is not None
        adds, count = self._adds(node.argument), F.sum(first)
        parts = F.sum(F.col(f"a{number}_1")), F.sum(F.col(f"a{number}_2"))
        if isinstance(finish, Quotient):
            return adds.mean(parts, count)
        return F.when(count > 0, adds.total(parts, self.number, "a sum over enumerated trends"))

    def _adds(self, term: Expr) -> Sum:
        return sum_of(self.trend.frame.term_type(term))


def _with_extent(frame: EventFrame, rows: DataFrame) -> DataFrame:
    """Adds the times of the ``first`` and the ``last`` event of each trend, as whole numbers."""

    def time_of(binding: Column) -> Column:
        return binding.getField("event").getField(frame.own_name(frame.source.time))

    times = {"first": time_of(F.get("trend", F.lit(0))), "last": time_of(F.element_at("trend", -1))}
    return rows.withColumns(times).withColumns({name: frame.ticks_of(name) for name in times})


@runs(JoinSides)
def join_sides(df: DataFrame, plan: JoinSides) -> Rows:
    """Gives pairs of trends, of two sides of a top-level AND, with their bindings merged in order of time."""
    source, span = plan.source, plan.source.windowing.kind == SPAN
    left, right = execute(df, plan.left), execute(df, plan.right).data
    one, other = (_with_extent(left.frame, rows) if span else rows for rows in (left.data, right))
    if span:
        # If both trends lie within a span, their first events are in the same time bucket or in neighbouring ones.
        bucket = floor_divide(F.col("first"), source.windowing.length)
        one = one.withColumn("z", bucket)
        other = other.withColumn("z", F.explode(F.array(bucket - 1, bucket, bucket + 1)))
    other = other.toDF(*(f"x_{name}" for name in other.columns))
    same = F.lit(True)
    for name in Shown.of(source).internal:
        same = same & F.col(name).eqNullSafe(F.col(f"x_{name}"))
    if span:
        together = F.greatest("last", "x_last") - F.least("first", "x_first") <= source.windowing.length
        same = same & (F.col("z") == F.col("x_z")) & together
    names = [left.frame.own_name(name) for name in (source.time, *source.tie_break)]

    def by_time(one: Column, other: Column) -> Column:
        a, b = (F.struct(*[side.getField("event").getField(name) for name in names]) for side in (one, other))
        return F.when(a < b, -1).when(a > b, 1).otherwise(0)

    merged = F.array_sort(F.concat("trend", "x_trend"), by_time)
    data = one.join(other, same).withColumn("trend", merged).select(*left.data.columns)
    trend = FinishedTrend(F.col("trend"), left.frame)
    holding = [trend.holds(predicate) for predicate in plan.predicates]

    def kept() -> DataFrame:
        return data.filter(combine(operator.and_, holding)) if holding else data

    return left.now(translated(kept, "relate the sides of AND"))
