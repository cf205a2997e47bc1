"""The kernel strategy as DataFrames: events exchanged, mapped to answers, and these merged where they must be."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DataType,
    DecimalType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from cetdsl.execution.exchange import Exchanged, Required, exchange, exchange_events, typed
from cetdsl.execution.worker import map_stage
from cetdsl.ir.accumulators import Output
from cetdsl.ir.kernel import ALL, KernelSpec, is_exact_lane
from cetdsl.ir.source import Source
from cetdsl.ir.windowing import SLIDING
from cetdsl.planning.plans import KernelAggregate, PairAggregate


def count_type(number: str, scale: int = 0) -> DataType:
    """The Spark type of a count or an exact sum in a number form."""
    return {"decimal": DecimalType(38, scale), "string": StringType()}.get(number, DoubleType())


def output_type(output: Output, number: str, value_types: tuple[DataType, ...], spec: KernelSpec) -> DataType:
    """The Spark type of an output column."""
    lane = spec.answer.lanes[output.numerator]
    if lane.kind in ("shortest", "longest"):
        return LongType()
    if output.function in ("min", "max"):
        return value_types[lane.column]
    if output.function == "avg" or output.type in ("double", "float"):
        return DoubleType()
    scale = int(output.type[:-1].split(",")[1]) if output.type.startswith("decimal(") else 0
    return count_type(number, scale)


def _bound_type(time_type: str) -> DataType:
    return {"timestamp": TimestampType(), "timestamp_ntz": TimestampNTZType()}.get(time_type, LongType())


def window_field(time_type: str) -> StructField:
    """``window: struct<start, end>``, as Spark's ``window`` function gives it."""
    bound = _bound_type(time_type)
    return StructField("window", StructType([StructField("start", bound), StructField("end", bound)]))


def partial_fields(spec: KernelSpec, value_types: tuple[DataType, ...]) -> list[StructField]:
    """The columns of partial results, ``r0``, ``r1``, ..."""
    kinds: list[DataType] = []
    for lane in spec.answer.lanes:
        if lane.kind in ("count", "sum"):
            kinds += [StringType()] if is_exact_lane(spec, lane) else [DoubleType(), DoubleType()]
    for lane in spec.answer.lanes:
        if lane.kind in ("shortest", "longest"):
            kinds.append(LongType())
        elif lane.kind in ("min", "max"):
            kinds.append(value_types[lane.column])
    return [StructField(f"r{n}", kind) for n, kind in enumerate(kinds)]


def kernel_aggregate(df: DataFrame, plan: KernelAggregate) -> DataFrame:
    """The answer of a kernel plan: group columns, window, aggregates."""
    events = exchange_events(df, plan.source, plan.compiled, plan.spec, Required(plan.values))
    spec = events.spec(plan.spec)
    if not plan.merge:
        answer = map_stage(events.rows, _stage(spec), spec, answer_schema(spec, events, plan.source))
        return named_answer(answer, spec, plan.source)
    partial = _partial(events, spec, plan.source)
    return merge_partial(partial, spec, events, plan.source)


def _stage(spec: KernelSpec) -> str:
    """All trends are counted along the automaton, complete ones along the edges of their graph."""
    return "aggregate" if spec.query.completeness == ALL else "count"


def answer_schema(spec: KernelSpec, events: Exchanged, source: Source) -> StructType:
    """Of what a kernel answers: groups, window, aggregates."""
    fields = events.frame.key_fields("g", source.groups)
    if spec.query.windowing.kind == SLIDING:
        fields.append(window_field(source.time_type))
    for number, output in enumerate(spec.answer.outputs):
        fields.append(StructField(f"r{number}", output_type(output, spec.answer.number, events.value_types, spec)))
    return StructType(fields)


def named_answer(answer: DataFrame, spec: KernelSpec, source: Source) -> DataFrame:
    """An answer under the names that the user knows."""
    window = ["window"] if spec.query.windowing.kind == SLIDING else []
    return answer.toDF(*source.groups, *window, *(output.name for output in spec.answer.outputs))


def _partial(events: Exchanged, spec: KernelSpec, source: Source) -> DataFrame:
    return map_stage(events.rows, _stage(spec), spec, partial_schema(spec, events, source))


def partial_schema(spec: KernelSpec, events: Exchanged, source: Source) -> StructType:
    """Of partial results: groups, the start of the window, lanes."""
    fields = events.frame.key_fields("g", source.groups)
    if spec.query.windowing.kind == SLIDING:
        fields.append(StructField("w", LongType()))
    return StructType(fields + partial_fields(spec, events.value_types))


def merge_partial(partial: DataFrame, spec: KernelSpec, events: Exchanged, source: Source) -> DataFrame:
    """The answer that partial results add up to."""
    by = [f"g{n}" for n in range(len(source.groups))] + (["w"] if spec.query.windowing.kind == SLIDING else [])
    answer = map_stage(
        exchange(partial, by, by), "merge", spec.with_answer(partial=False), answer_schema(spec, events, source)
    )
    return named_answer(answer, spec, source)


def pair_aggregate(df: DataFrame, plan: PairAggregate) -> DataFrame:
    """A top-level AND: both sides and what they share as partial results, paired per key and window.

    Each of these three reads the input by itself and sends only the events that its own variables can bind.
    """
    parts, spec, first = [], None, None
    for number, side in enumerate((plan.left, plan.right, plan.both)):
        if side is None:
            continue
        events = exchange_events(df, side.source, side.compiled, side.spec, Required(side.values))
        spec_of_side = events.spec(side.spec)
        if spec is None or first is None:
            # The sides' own counts may be of any size; only the number of pairs is an answer.
            spec = typed(side.spec.with_answer(outputs=plan.outputs), events.value_types)
            first = events
        rows = _partial(events, spec_of_side, side.source)
        parts.append(rows.withColumn("x", F.lit(number).cast("bigint")))
    assert spec is not None
    assert first is not None
    inner = plan.left.source
    sliding = spec.query.windowing.kind == SLIDING
    keys = [f"g{n}" for n in range(len(inner.groups))] + (["w"] if sliding else [])
    lanes = partial_fields(spec, first.value_types)
    union = reduce(DataFrame.unionByName, parts).select(*keys, "x", *(field.name for field in lanes))
    fields = first.frame.key_fields("g", inner.groups) + ([StructField("w", LongType())] if sliding else []) + lanes
    paired = map_stage(exchange(union, keys, [*keys, "x"]), "pairs", spec, StructType(fields))
    groups = [f"g{n}" for n in range(len(plan.source.groups))] + (["w"] if sliding else [])
    answer_spec = spec.with_answer(groups=len(plan.source.groups))
    merged = paired.select(*groups, *(field.name for field in lanes))
    return merge_partial(merged, answer_spec, first, plan.source)
