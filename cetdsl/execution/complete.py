"""Trends out of graphs as DataFrames: listed, sampled, ordered by what they weigh, and surveyed."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from cetdsl.execution.aggregate import Shipment, ship, shipped
from cetdsl.execution.compat import parallelism
from cetdsl.execution.definition import complete_rows, defined_trends
from cetdsl.execution.source import EventFrame
from cetdsl.execution.trends import (
    FinishedTrend,
    Shown,
    finished_rows,
    list_trends,
    pair_trends,
    refuse_duplicates,
    trend_field,
    trends_spec,
)
from cetdsl.execution.worker import map_stage
from cetdsl.ir.stages import SURVEY, GraphSpec, SampleSpec, SurveySpec, TopSpec
from cetdsl.pattern.expressions import Attribute, Expr, Length, strip, variables
from cetdsl.planning.plans import (
    DefinedTrends,
    EnumerateTrends,
    GraphTrends,
    PairTrends,
    SampledTrends,
    SurveyedTrends,
    TopTrends,
)


def graph_trends(df: DataFrame, plan: GraphTrends) -> DataFrame:
    """The answer of ``complete_trends()``: keys, window, and the trend under the user's column names."""
    shown = Shown.of(plan.source)
    shipment, spec = _shipped(df, plan, shown)
    schema = _schema(shipment.frame, shown, plan, named=True)
    return shown.limited(map_stage(shipment.rows, "graph", spec, schema), plan.limit)


def _shipped(
    df: DataFrame, plan: GraphTrends, shown: Shown, values: tuple[Expr, ...] = (), *, settled: bool = False
) -> tuple[Shipment, GraphSpec]:
    """The events that the kernel reads, and what it must know."""
    refuse_duplicates(plan.columns)
    shares = share_numbers(parallelism(df.sparkSession)) if plan.balanced else ()
    shipment = ship(
        df,
        plan.source,
        plan.compiled,
        plan.spec,
        values,
        event_columns=plan.columns,
        shares=shares,
        settled=settled,
    )
    kernel = shipped(plan.spec, shipment)
    kernel = kernel.with_layout(keys=kernel.layout.keys + bool(shares))
    trends = trends_spec(plan, shown, kernel, plan.columns, plan.limit)
    return shipment, GraphSpec(trends, plan.algorithm, plan.memory, shares)


def _schema(frame: EventFrame, shown: Shown, plan: GraphTrends, *more: StructField, named: bool = False) -> StructType:
    """Keys and window, under our names or under the user's, what is more, and the trend."""
    return StructType([*shown.places(frame, named=named), *more, trend_field(frame, plan.columns, plan.columns)])


# -------------------------------------------------------------------------------------------------------- shares


def share_numbers(count: int) -> tuple[int, ...]:
    """Numbers that ``repartition(count, column)`` sends to ``count`` different tasks, the first to the first task.

    Spark takes the remainder of a hash, so the numbers from 0 on would leave some tasks without work and give others
    twice as much.

    Examples
    --------
    >>> share_numbers(4)
    (12, 6, 2, 0)
    """
    found: dict[int, int] = {}
    number = 0
    while len(found) < count:
        found.setdefault(murmur3(number) % count, number)
        number += 1
    return tuple(found[task] for task in range(count))


def murmur3(number: int) -> int:
    """Spark's hash of an ``int`` column: MurmurHash3 (32 bits, one block) with the seed 42, as a signed number.

    Examples
    --------
    >>> murmur3(0), murmur3(1)
    (933211791, -559580957)
    """
    mask = 2**32 - 1

    def rotated(value: int, bits: int) -> int:
        return ((value << bits) | (value >> (32 - bits))) & mask

    block = rotated(number * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask
    value = (rotated(42 ^ block, 13) * 5 + 0xE6546B64) & mask
    value ^= 4  # the length in bytes
    value = (value ^ (value >> 16)) * 0x85EBCA6B & mask
    value = (value ^ (value >> 13)) * 0xC2B2AE35 & mask
    value ^= value >> 16
    return value - 2**32 if value >= 2**31 else value


# -------------------------------------------------------------------------------------------------------- sample


def sampled_trends(df: DataFrame, plan: SampledTrends) -> DataFrame:
    """So many of the trends, drawn without replacement: those with the smallest random keys."""
    if not isinstance(plan.trends, GraphTrends):
        return _listed(df, plan.trends).orderBy(F.rand(plan.seed)).limit(plan.size)
    shown = Shown.of(plan.trends.source)
    shipment, graph = _shipped(df, plan.trends, shown, settled=True)
    schema = _schema(shipment.frame, shown, plan.trends, StructField("key", DoubleType()))
    rows = map_stage(shipment.rows, "sample", SampleSpec(graph, plan.size, plan.seed), schema)
    return rows.orderBy("key").limit(plan.size).drop("key").toDF(*shown.names())


def _listed(df: DataFrame, plan: DefinedTrends | EnumerateTrends | PairTrends) -> DataFrame:
    if isinstance(plan, DefinedTrends):
        return defined_trends(df, plan)
    return pair_trends(df, plan) if isinstance(plan, PairTrends) else list_trends(df, plan)


# ----------------------------------------------------------------------------------------------------------- top


def top_trends(df: DataFrame, plan: TopTrends) -> DataFrame:
    """The heaviest trends first, with what they weigh."""
    shown = Shown.of(plan.trends.source)
    names = shown.names(plan.name)
    rows = _weighed_paths if isinstance(plan.trends, GraphTrends) else _weighed_rows
    return rows(df, plan, shown).orderBy(F.desc("weight")).limit(plan.size).toDF(*names)


def _weighed_paths(df: DataFrame, plan: TopTrends, shown: Shown) -> DataFrame:
    """The heaviest trends of each task's graphs."""
    assert isinstance(plan.trends, GraphTrends), plan.trends
    argument, variable = plan.by.argument, -1
    if not isinstance(argument, Length):
        name = plan.by.variable if argument is None else variables(argument)[0]
        assert name is not None, plan.by
        variable = plan.trends.compiled.number_of(name)
    values = () if argument is None or isinstance(argument, Length) else (strip(argument),)
    shipment, graph = _shipped(df, plan.trends, shown, values)
    kind = _weight_type(shipment.value_types[0]) if values else LongType()
    schema = _schema(shipment.frame, shown, plan.trends, StructField("weight", kind))
    return map_stage(shipment.rows, "top", TopSpec(graph, plan.size, variable), schema)


def _weight_type(kind: DataType) -> DataType:
    """The type of a sum, as kernels give it."""
    if isinstance(kind, DecimalType):
        return DecimalType(38, kind.scale)
    return DoubleType() if isinstance(kind, (DoubleType, FloatType)) else DecimalType(38, 0)


def _weighed_rows(df: DataFrame, plan: TopTrends, shown: Shown) -> DataFrame:
    """All trends."""
    more = tuple(node.name for node in plan.by.walk() if isinstance(node, Attribute))
    if isinstance(plan.trends, DefinedTrends):
        (rows, frame), columns = complete_rows(df, plan.trends, more), plan.trends.trends.columns
    else:
        assert isinstance(plan.trends, EnumerateTrends), plan.trends
        (rows, frame), columns = finished_rows(df, plan.trends, more), plan.trends.columns
    weight = FinishedTrend(F.col("trend"), frame).aggregate(plan.by)
    return shown.narrow(rows.withColumn("weight", weight), frame, columns, "weight")


# -------------------------------------------------------------------------------------------------------- survey


def surveyed_trends(df: DataFrame, plan: SurveyedTrends) -> DataFrame:
    """What there is to know about the graph of each group and window, and about the work of listing its trends."""
    trends = plan.trends
    shown = Shown.of(trends.source)
    names = shown.names_before(*(name for name, _ in SURVEY))
    shipment = ship(df, trends.source, trends.compiled, trends.spec, ())
    spec = trends_spec(trends, shown, shipped(trends.spec, shipment), (), None)
    numbers = [StructField(f"s{n}", _SURVEY_TYPES[kind]) for n, (_, kind) in enumerate(SURVEY)]
    schema = StructType([*shown.places(shipment.frame), *numbers])
    survey = SurveySpec(GraphSpec(spec, trends.algorithm, trends.memory), plan.measured)
    return map_stage(shipment.rows, "survey", survey, schema).toDF(*names)


_SURVEY_TYPES = {"bigint": LongType(), "double": DoubleType(), "string": StringType()}
#: What the graphs of one task do not need at the same time.
_LARGEST = ("predicted_bytes", "bytes")


def summary(survey: DataFrame) -> dict[str, Any]:
    """What a survey says of all groups and windows together; runs a job."""
    # The survey's own columns come last, so that a key column of the same name cannot stand in for one.
    numbered = survey.toDF(*(f"x{n}" for n in range(len(survey.columns))))
    first = len(survey.columns) - len(SURVEY)
    totals = [F.count("*").alias("graphs")]
    for number, (name, kind) in enumerate(SURVEY, first):
        column = F.col(f"x{number}")
        if kind == "string":
            totals.append(F.array_sort(F.collect_set(column)).alias(name))
        else:
            totals.append((F.max(column) if name in _LARGEST else F.sum(column)).alias(name))
    row = numbered.agg(*totals).first()
    assert row is not None
    return row.asDict()
