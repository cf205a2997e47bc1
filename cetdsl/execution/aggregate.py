"""Executes the strategies that aggregate in kernels, and merges partial results."""

from __future__ import annotations

import attrs
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cetdsl.aggregates.vocabulary import Result
from cetdsl.execution.exchange import typed
from cetdsl.execution.expressions import combine
from cetdsl.execution.operators import Rows, execute, runs
from cetdsl.execution.parcels import PACKED_BY_WINDOW, shares_of_keys
from cetdsl.execution.streams import packed_panes
from cetdsl.execution.stretches import apart, only, told_of
from cetdsl.execution.worker import map_stage
from cetdsl.ir.accumulators import Output
from cetdsl.ir.kernel import KernelSpec, is_exact_accumulator, is_whole_in_rows
from cetdsl.ir.layout import KEY, TIME, RowLayout, of_panes, of_stretches
from cetdsl.ir.operators import (
    BuildPanes,
    BuildStretches,
    CountPaths,
    Merge,
    Messages,
    MultiplyPanes,
    MultiplyStretches,
    Operator,
    PairCounts,
    PanesInPlace,
    Propagate,
    ReadAgain,
    Sweep,
    Union,
)
from cetdsl.ir.operators.words import partial_keys
from cetdsl.ir.source import Source
from cetdsl.ir.stages import PaneSpec


def count_type(number: str, scale: int = 0) -> T.DataType:
    """Returns the Spark type of a count or an exact sum in a number form."""
    return {"decimal": T.DecimalType(38, scale), "string": T.StringType()}.get(number, T.DoubleType())


def output_type(output: Output, number: str, value_types: tuple[T.DataType, ...], spec: KernelSpec) -> T.DataType:
    """Returns the Spark type of an output column."""
    accumulator = spec.answer.accumulators[output.value]
    if accumulator.is_length:
        return T.LongType()
    if output.finish.result is Result.VALUE:
        return value_types[accumulator.column]
    if output.finish.result is Result.DOUBLE or output.type in ("double", "float"):
        return T.DoubleType()
    scale = int(output.type[:-1].split(",")[1]) if output.type.startswith("decimal(") else 0
    return count_type(number, scale)


def partial_fields(spec: KernelSpec, value_types: tuple[T.DataType, ...]) -> list[T.StructField]:
    """The columns of partial results, ``r0``, ``r1``, ..."""
    kinds: list[T.DataType] = []
    for accumulator in spec.answer.accumulators:
        if accumulator.is_additive:
            kinds += [T.StringType()] if is_whole_in_rows(spec, accumulator) else [T.DoubleType(), T.DoubleType()]
    for accumulator in spec.answer.accumulators:
        if not accumulator.is_additive:
            kinds.append(T.LongType() if accumulator.is_length else value_types[accumulator.column])
    return [T.StructField(f"r{n}", kind) for n, kind in enumerate(kinds)]


@runs(Propagate, PanesInPlace, Sweep, Messages, CountPaths, MultiplyPanes)
def answer(df: DataFrame, plan: Propagate | PanesInPlace | Sweep | Messages | CountPaths | MultiplyPanes) -> Rows:
    """Returns the answer of a kernel: groups, window, aggregates; or partial results if the plan says so."""
    rows = execute(df, plan.child)
    if rows.spec.answer.partial:
        return rows.mapped(plan, rows.spec, partial_schema(rows, plan.source))
    return _answered(rows, plan, rows.spec, plan.source.groups)


@runs(BuildPanes)
def build_panes(df: DataFrame, plan: BuildPanes) -> Rows:
    """Gives a matrix per key and pane, so that all cores can work on one long key; no event is copied.

    On a stream, the matrices come in parcels, grouped by the share of the keys that their events belong to.
    """
    rows = execute(df, plan.child)
    kinds = _matrix_types(rows.spec)
    layout = of_panes(rows.spec.layout, len(kinds))
    if plan.source.is_stream:
        shares = shares_of_keys(df.sparkSession, plan.source.keys)
        packed = packed_panes(plan.source.windowing, shares, 1 + layout.position(TIME))
        return rows.now(map_stage(rows.data, "packed panes", PaneSpec(rows.spec, packed), PACKED_BY_WINDOW))
    return rows.mapped(plan, rows.spec, _matrix_schema(rows, plan.source, layout, kinds))


@runs(BuildStretches)
def build_stretches(df: DataFrame, plan: BuildStretches) -> Rows:
    """Gives a matrix per key, pane and stretch, with the stretch's first and last time, without a shuffle."""
    rows = execute(df, plan.child)
    kinds = _matrix_types(rows.spec)
    schema = _matrix_schema(rows, plan.source, of_stretches(rows.spec.layout, len(kinds)), kinds)
    return rows.mapped(plan, rows.spec, schema)


def _matrix_schema(rows: Rows, source: Source, layout: RowLayout, kinds: list[T.DataType]) -> T.StructType:
    """Returns the schema of matrices: keys, then whole numbers of time, then the matrices."""
    keys = [field.dataType for field in rows.frame.key_fields(KEY, source.keys)]
    types = [*keys, *[T.LongType()] * (len(layout.columns) - len(keys) - len(kinds)), *kinds]
    return T.StructType([T.StructField(name, kind) for name, kind in zip(layout.columns, types, strict=True)])


def _matrix_types(spec: KernelSpec) -> list[T.DataType]:
    """Returns the types of the matrix columns: two for whole numbers (small and large ones), and one for doubles."""
    exact = [is_exact_accumulator(spec, accumulator) for accumulator in spec.answer.accumulators]
    kinds: list[T.DataType] = [T.BinaryType(), T.StringType()] if any(exact) else []
    return kinds if all(exact) else [*kinds, T.BinaryType()]


@runs(Merge)
def merge(df: DataFrame, plan: Merge) -> Rows:
    """Adds up partial results to the answer."""
    rows = execute(df, plan.child)
    return _answered(rows, plan, rows.spec.with_answer(partial=False), plan.groups)


@runs(MultiplyStretches)
def multiply_stretches(df: DataFrame, plan: MultiplyStretches) -> Rows:
    """Gives the answers of keys, and the keys that have no answer because their stretches overlap."""
    rows = execute(df, plan.child)
    if rows.spec.answer.partial:
        answers = partial_schema(rows, plan.source)
    else:
        answers = _answer_schema(rows, rows.spec, plan.source.groups)
    return rows.mapped(plan, rows.spec, told_of(rows.frame.key_fields(KEY, plan.source.keys), answers))


@runs(ReadAgain)
def read_again(df: DataFrame, plan: ReadAgain) -> Rows:
    """Gives the answers from stretches; the keys without such an answer are answered by another plan over their events.

    Spark finds these keys first, and then reads their events. If there are no such keys, it reads nothing, because
    adaptive execution drops a join with no rows.
    """
    rows = execute(df, plan.child)
    answers, keys = apart(rows.data, len(plan.source.keys), bool(plan.source.window))
    instead = execute(only(df, rows.frame, keys), plan.instead)
    return instead.now(answers.toDF(*instead.data.columns).union(instead.data))


def _answered(rows: Rows, plan: Operator, spec: KernelSpec, groups: tuple[str, ...]) -> Rows:
    """Renames the columns of a kernel's answer to those that the user knows."""
    return rows.now(rows.mapped(plan, spec, _answer_schema(rows, spec, groups)).data.toDF(*plan.gives))


def _answer_schema(rows: Rows, spec: KernelSpec, groups: tuple[str, ...]) -> T.StructType:
    """Returns the schema of a kernel's answer."""
    fields = rows.frame.place_fields("g", groups)
    for number, output in enumerate(spec.answer.outputs):
        fields.append(T.StructField(f"r{number}", output_type(output, spec.answer.number, rows.types, spec)))
    return T.StructType(fields)


def partial_schema(rows: Rows, source: Source) -> T.StructType:
    """Returns the schema of partial results: groups, the start of the window, accumulators."""
    fields = rows.frame.key_fields("g", source.groups)
    if source.window:
        fields.append(T.StructField("w", T.LongType()))
    return T.StructType(fields + partial_fields(rows.spec, rows.types))


@runs(Union)
def union(df: DataFrame, plan: Union) -> Rows:
    """Unites the partial results of the sides of an AND, with the number of the side behind their keys.

    Each side reads the input by itself, and sends only the events that its own variables can bind.
    """
    keys = len(plan.source.groups + plan.source.window)
    sides = [execute(df, part) for part in plan.parts]
    names = sides[0].data.columns
    numbered = [
        side.data.select(*names[:keys], F.lit(number).cast("bigint").alias("x"), *names[keys:])
        for number, side in enumerate(sides)
    ]
    return sides[0].now(combine(DataFrame.unionByName, numbered))


@runs(PairCounts)
def pair_counts(df: DataFrame, plan: PairCounts) -> Rows:
    """Gives partial results of pairs, one per key and window, for a merge by group."""
    rows = execute(df, plan.child)
    # The sides' own counts may be of any size; only the number of pairs is an answer.
    spec = typed(plan.child.spec.with_answer(outputs=plan.outputs), rows.types)
    paired = attrs.evolve(rows, told=spec)
    data = rows.mapped(plan, spec, partial_schema(paired, plan.source)).data
    accumulators = (field.name for field in partial_fields(spec, rows.types))
    data = data.select(*partial_keys(plan.source, plan.groups), *accumulators)
    return attrs.evolve(paired, data=data, told=spec.with_answer(groups=len(plan.groups)))
