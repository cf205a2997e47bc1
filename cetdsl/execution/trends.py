"""Trends as rows: the kernel enumerates, Spark tests and aggregates finished trends."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import attrs
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from cetdsl.errors import ResolutionError, UnsupportedQuery
from cetdsl.execution.aggregate import count_type, ship, window_field
from cetdsl.execution.compat import translated
from cetdsl.execution.expressions import to_column
from cetdsl.execution.source import EventFrame
from cetdsl.execution.worker import map_stage
from cetdsl.pattern.expressions import Aggregate, Attribute, Expr, Length, Role, variables
from cetdsl.planning.physical import SLIDING, TrendsSpec
from cetdsl.planning.plans import AggregateTrends, EnumerateTrends, PairTrends, Source


def list_trends(df: DataFrame, plan: EnumerateTrends) -> DataFrame:
    """The answer of ``trends()``: keys, window, and the trend under the user's column names."""
    shown = _Shown.of(plan.source)
    if not plan.compiled.residual:
        rows, _ = _enumerate(df, plan, plan.columns, plan.columns, plan.limit)
        answer = rows
    else:
        rows, frame = _tested(df, plan)
        answer = rows.withColumn("trend", _narrowed(F.col("trend"), frame, plan.columns))
    answer = answer.toDF(*shown.names)
    return answer if plan.limit is None else answer.limit(plan.limit)


@attrs.frozen
class _Shown:
    """The columns beside the trend that an answer shows."""

    keys: tuple[str, ...]
    sliding: bool

    @classmethod
    def of(cls, source: Source) -> _Shown:
        return cls(source.groups + source.asked_partitions, source.windowing.kind == SLIDING)

    @property
    def internal(self) -> list[str]:
        return [f"g{n}" for n in range(len(self.keys))] + (["window"] if self.sliding else [])

    @property
    def names(self) -> list[str]:
        own = [*(["window"] if self.sliding else []), "trend"]
        for name in self.keys:
            if name.casefold() in own:
                raise ResolutionError(
                    f"the key column {name!r} clashes with the {name.casefold()} column of the answer",
                    hint="rename the column of the DataFrame",
                )
        return [*self.keys, *own]


def _refuse_duplicates(names: tuple[str, ...]) -> None:
    folded = [name.casefold() for name in names]
    twice = sorted({name for name in names if folded.count(name.casefold()) > 1})
    if twice:
        raise UnsupportedQuery(
            f"an event cannot show two columns of the name {twice[0]!r}",
            hint="choose the columns to show with trends(columns=[...]), or rename them",
        )


def _enumerate(
    df: DataFrame, plan: EnumerateTrends, columns: tuple[str, ...], fields: tuple[str, ...], limit: int | None
) -> tuple[DataFrame, EventFrame]:
    """Rows of keys, window and trend straight from the kernel; ``fields`` names the event's columns."""
    _refuse_duplicates(fields)
    source = plan.source
    shipment = ship(df, source, plan.compiled, plan.spec, (), event_columns=columns)
    frame = shipment.frame
    shown = _Shown.of(source)
    event = StructType(
        [
            StructField(field, frame.fields[frame.position(name)].dataType)
            for name, field in zip(columns, fields, strict=True)
        ]
    )
    binding = StructType([StructField("variable", StringType()), StructField("event", event)])
    schema = frame.key_fields("g", shown.keys)
    if shown.sliding:
        schema.append(window_field(source.time_type))
    schema.append(StructField("trend", ArrayType(binding)))
    spec = TrendsSpec(
        attrs.evolve(plan.spec, packed=shipment.packed),
        tuple(source.keys.index(name) for name in shown.keys),
        tuple(name for name, _ in plan.compiled.variables),
        fields,
        -1 if limit is None else limit,
    )
    return map_stage(shipment.rows, "trends", spec, StructType(schema)), frame


def _tested(df: DataFrame, plan: EnumerateTrends, more: tuple[str, ...] = ()) -> tuple[DataFrame, EventFrame]:
    """The trends that pass the residual predicates, their events under our names ``c0``, ``c1``, ..."""
    needed = {*_residual_columns(plan), *plan.columns, *more}
    names = plan.source.schema.names
    columns = tuple(name for name in names if name in needed)
    _refuse_duplicates(columns)
    internal = tuple(f"c{names.index(name)}" for name in columns)
    rows, frame = _enumerate(df, plan, columns, internal, None)
    trend = FinishedTrend(F.col("trend"), frame)
    for predicate in plan.compiled.residual:
        rows = translated(partial(_kept, rows, trend, predicate), "test a finished trend")
    return rows, frame


def _kept(rows: DataFrame, trend: FinishedTrend, predicate: Expr) -> DataFrame:
    return rows.filter(trend.holds(predicate))


def _residual_columns(plan: EnumerateTrends) -> set[str]:
    return {node.name for term in plan.compiled.residual for node in term.walk() if isinstance(node, Attribute)}


def _narrowed(trend: Column, frame: EventFrame, columns: tuple[str, ...]) -> Column:
    """The trend with only some columns of its events, under the user's names."""
    _refuse_duplicates(columns)

    def narrow(binding: Column) -> Column:
        event = binding.getField("event")
        fields = [event.getField(f"c{frame.position(name)}").alias(name) for name in columns]
        return F.struct(binding.getField("variable").alias("variable"), F.struct(*fields).alias("event"))

    return F.transform(trend, narrow)


class FinishedTrend:
    """Terms over a whole trend, as Spark expressions on its array of bindings."""

    def __init__(self, trend: Column, frame: EventFrame) -> None:
        self.trend = trend
        self.frame = frame

    def events(self, variable: str) -> Column:
        """The events bound to a variable, in order of time."""
        bound = F.filter(self.trend, lambda b: b.getField("variable") == F.lit(variable))
        return F.transform(bound, lambda b: b.getField("event"))

    def values(self, term: Expr) -> Column:
        """A term's value at each event bound to its variable."""
        return F.transform(self.events(variables(term)[0]), lambda event: to_column(term, self._at({None: event})))

    def _at(self, bound: dict[str | None, Column]) -> Callable[[Expr], Column]:
        def resolve(node: Expr) -> Column:
            assert isinstance(node, Attribute), node
            event = bound[node.variable] if node.variable in bound else bound[None]
            return event.getField(f"c{self.frame.position(node.name)}")

        return resolve

    def holds(self, predicate: Expr) -> Column:
        """Whether a residual predicate is true of the trend."""
        has_rows = any(isinstance(n, Attribute) and n.role is Role.EACH for n in _outside_aggregates(predicate))
        holds = self._pairwise(predicate, variables(predicate), {}) if has_rows else to_column(predicate, self._whole)
        return F.coalesce(holds, F.lit(False))

    def _pairwise(self, predicate: Expr, left: list[str], bound: dict[str | None, Column]) -> Column:
        if not left:
            return F.coalesce(to_column(predicate, self._at(bound)), F.lit(False))
        name, *rest = left
        return F.forall(self.events(name), lambda event: self._pairwise(predicate, rest, {**bound, name: event}))

    def _whole(self, node: Expr) -> Column:
        if isinstance(node, Length):
            return F.size(self.trend).cast("bigint")
        if isinstance(node, Aggregate):
            return self.aggregate(node)
        assert isinstance(node, Attribute), node
        assert node.variable is not None, node
        events = self.events(node.variable)
        index = {Role.FIRST: F.lit(0), Role.LAST: F.size(events) - 1}.get(node.role, F.lit(node.index or 0))
        return F.get(events, index).getField(f"c{self.frame.position(node.name)}")

    def aggregate(self, node: Aggregate) -> Column:
        """An aggregate over the events of this trend."""
        if node.function == "count":
            events = self.trend if node.variable is None else self.events(node.variable)
            return F.size(events).cast("bigint")
        assert node.argument is not None, node
        if isinstance(node.argument, Length):
            return F.size(self.trend).cast("bigint")
        values = F.filter(self.values(node.argument), lambda value: value.isNotNull())
        if node.function == "min":
            return F.array_min(values)
        if node.function == "max":
            return F.array_max(values)
        total = F.when(F.size(values) > 0, F.aggregate(values, self._zero(node.argument), lambda a, b: a + b))
        return total if node.function == "sum" else total.cast("double") / F.size(values)

    def _zero(self, term: Expr) -> Column:
        """Where a sum starts: in a type that has room."""
        return F.lit(0).cast(self.sum_type(term))

    def sum_type(self, term: Expr) -> str:
        """The type of a sum of a term."""
        kind = self.frame.term_type(term).simpleString()
        if kind.startswith("decimal("):
            return f"decimal(38,{kind[:-1].split(',')[1]})"
        return "double" if kind in ("double", "float") else "decimal(38,0)"


def _outside_aggregates(expr: Expr) -> list[Expr]:
    if isinstance(expr, Aggregate):
        return []
    return [expr, *(node for child in expr.children for node in _outside_aggregates(child))]


# ------------------------------------------------------------------------------------- aggregates over the rows


def aggregate_trends(df: DataFrame, plan: AggregateTrends) -> DataFrame:
    """Aggregates over enumerated trends."""
    source = plan.trends.source
    shown = _Shown.of(source)
    rows, frame = _tested(df, plan.trends)
    trend = FinishedTrend(F.col("trend"), frame)
    outputs = [_Output(trend, aggregate, plan.number) for _, aggregate in plan.outputs]
    per_trend = [column.alias(f"a{n}_{k}") for n, out in enumerate(outputs) for k, column in enumerate(out.per_trend())]
    groups = [f"g{n}" for n in range(len(source.groups))] + (["window"] if shown.sliding else [])
    picked = rows.select(*groups, F.lit(1).alias("one"), *per_trend)
    answers = [out.overall(n).alias(f"r{n}") for n, out in enumerate(outputs)]
    grouped = picked.groupBy(*groups).agg(F.count("one").alias("one"), *answers).filter(F.col("one") > 0)
    names = [*source.groups, *(["window"] if shown.sliding else []), *(name for name, _ in plan.outputs)]
    return grouped.drop("one").toDF(*names)


class _Output:
    """One aggregate: its value in each trend, and over all of them."""

    def __init__(self, trend: FinishedTrend, aggregate: Aggregate, number: str) -> None:
        self.trend = trend
        self.aggregate = aggregate
        self.number = number

    def per_trend(self) -> list[Column]:
        """The columns to compute for each trend."""
        node = self.aggregate
        if node.function == "count" and node.variable is None:
            return [F.lit(1)]
        if node.function != "avg" or isinstance(node.argument, Length):
            return [self.trend.aggregate(node)]
        assert node.argument is not None
        values = F.filter(self.trend.values(node.argument), lambda value: value.isNotNull())
        return [self.trend.aggregate(Aggregate("sum", None, node.argument)), F.size(values).cast("bigint")]

    def overall(self, number: int) -> Column:
        """The aggregate over all trends of a group and window."""
        node, first = self.aggregate, F.col(f"a{number}_0")
        if node.function in ("min", "max"):
            return F.min(first) if node.function == "min" else F.max(first)
        if isinstance(node.argument, Length):
            return F.avg(first)
        if node.function == "avg":
            return F.try_divide(F.sum(first).cast("double"), F.sum(F.col(f"a{number}_1")))
        if node.function == "count":
            return _in_form(F.sum(first), self.number, 0)
        assert node.argument is not None
        kind = self.trend.sum_type(node.argument)
        if kind == "double":
            return F.sum(first).cast("double")
        error = "cetdsl.errors.CountOverflow: a sum over enumerated trends has more than 38 digits\n  hint: use AVG"
        total = F.when(F.count(first) > 0, F.coalesce(F.try_sum(first), F.raise_error(F.lit(error)).cast(kind)))
        return _in_form(total, self.number, int(kind[:-1].split(",")[1]))


def _in_form(total: Column, number: str, scale: int) -> Column:
    if number == "log2":
        undefined = F.when(total == 0, F.lit(float("-inf"))).when(total < 0, F.lit(float("nan")))
        return undefined.otherwise(F.log2(total.cast("double")))
    if number == "string":
        return total.cast(f"decimal(38,{scale})").cast("string")
    return total.cast(count_type(number, scale))


# ------------------------------------------------------------------------------------------- a top-level AND


def pair_trends(df: DataFrame, plan: PairTrends) -> DataFrame:
    """Pairs of trends, one of each side of a top-level AND, their bindings merged in order of time."""
    if not plan.distinct_sides:
        raise UnsupportedQuery(
            "trends() cannot list the pairs of an AND whose sides share a variable",
            hint="give the two sides different variable names, or count the pairs with count_trends()",
        )
    source = plan.left.source
    shown = _Shown.of(source)
    order = (source.time, *source.tie_break)
    # Both sides' trends become one array, so their events carry the same columns.
    needed = (*order, *_residual_columns(plan.left), *_residual_columns(plan.right))
    left, frame = _tested(df, plan.left, needed)
    right, _ = _tested(df, plan.right, needed)
    right = right.toDF(*(f"x_{name}" for name in right.columns))
    same = F.lit(True)
    for name in shown.internal:
        same = same & F.col(name).eqNullSafe(F.col(f"x_{name}"))
    pairs = left.join(right, same)
    merged = F.array_sort(F.concat("trend", "x_trend"), _by_time(frame, order))
    trend = _narrowed(merged, frame, plan.left.columns).alias("trend")
    answer = pairs.select(*shown.internal, trend).toDF(*shown.names)
    return answer if plan.limit is None else answer.limit(plan.limit)


def _by_time(frame: EventFrame, order: tuple[str, ...]) -> Callable[[Column, Column], Column]:
    names = [f"c{frame.position(name)}" for name in order]

    def compare(left: Column, right: Column) -> Column:
        a, b = (F.struct(*[side.getField("event").getField(name) for name in names]) for side in (left, right))
        return F.when(a < b, -1).when(a > b, 1).otherwise(0)

    return compare
