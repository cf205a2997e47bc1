"""The kernel strategy as DataFrames: project, filter, shuffle, sort, map, and merge where it must be."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import attrs
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from cetdsl.aggregates.vocabulary import Result
from cetdsl.execution.lists import with_lists
from cetdsl.execution.source import EventFrame, Terms
from cetdsl.execution.worker import map_stage
from cetdsl.ir.accumulators import Output
from cetdsl.ir.compiled import Compiled
from cetdsl.ir.kernel import ALL, KernelSpec, is_whole_in_rows
from cetdsl.ir.layout import OF_TIME, OWN, Place, RunSpec
from cetdsl.ir.source import Source, kernel_sorts_shares
from cetdsl.ir.windowing import SLIDING, SPAN
from cetdsl.pattern.expressions import Attribute, Expr
from cetdsl.planning.plans import KernelAggregate, PairAggregate


@attrs.frozen
class Shipment:
    """The sorted rows that a kernel reads.

    Attributes
    ----------
    rows : DataFrame
    value_types : tuple of DataType
    frame : EventFrame
    runs : RunSpec or None
        Not None where the rows are sorted runs of events.
    unsorted : (int, int) or None
        Not None where the rows are not sorted yet.
    shared : tuple of Place
        For each of the user's columns that are shown: where it stands, if not among the last columns.
    """

    rows: DataFrame
    value_types: tuple[DataType, ...]
    frame: EventFrame
    runs: RunSpec | None = None
    unsorted: tuple[int, int] | None = None
    shared: tuple[Place, ...] = ()


def ship(
    df: DataFrame,
    source: Source,
    compiled: Compiled,
    spec: KernelSpec,
    values: tuple[Expr, ...],
    event_columns: tuple[str, ...] = (),
    *,
    identified: bool = False,
    shares: tuple[int, ...] = (),
    settled: bool = False,
    in_runs: bool = False,
) -> Shipment:
    """Projects each event to what the kernel needs, sends it to its key's task and sorts it there, or lets the kernel.

    Only ``repartition(...).sortWithinPartitions(...)`` was seen to keep an order for a Python worker;
    ``groupBy().applyInArrow`` promises none. Where trends are shown, the event's own columns are the last ones, but for
    those that are sent anyway; ``identified`` gives it one more, which tells it from all others. Where there are
    ``shares``, each of them gets every event, and its number is the last key column. ``settled`` gives simultaneous
    events an order that is the same whenever the rows are computed; shares of a key agree on its trends only if all of
    them see its events in the same order, so theirs is settled. ``in_runs`` puts the events of a key together
    before they are sent, where they are numbers.
    """
    settled = settled or bool(shares)
    frame = EventFrame(df, source, compiled, booked=True, bare=not in_runs)
    columns, names, shared = _sent(frame, spec, values, event_columns, shares, identified=identified, settled=settled)
    by = [name for name in (*frame.key_names, "h", "s") if name in columns]
    rows = _for_tasks(frame, spec, columns, names)
    schema = rows.schema
    frame.refuse_collations(schema)
    runs = run_spec(schema, len(by)) if in_runs and frame.packed else None
    if runs is not None:
        rows = map_stage(rows, "runs", runs, _run_schema(schema, runs))
    if compiled.lists:
        order = [*frame.order, "p"]  # which lists refer to
    else:
        order = frame.settled_order if settled else frame.order
    if by == ["h"]:
        # A task has one share of a lone key.
        rows, by = rows.repartition(len(shares), F.expr("h")), []
    else:
        rows = rows.repartition(*map(F.expr, by)) if by else rows.repartition(1)
    unsorted = None
    if shares and kernel_sorts_shares(source, compiled):
        unsorted = names.index("t"), names.index("i")
    else:
        rows = rows.sortWithinPartitions(*map(F.expr, [*by, *order]))
    return Shipment(rows, tuple(schema[f"v{n}"].dataType for n in range(len(values))), frame, runs, unsorted, shared)


def _sent(
    frame: EventFrame,
    spec: KernelSpec,
    values: tuple[Expr, ...],
    event_columns: tuple[str, ...],
    shares: tuple[int, ...],
    *,
    identified: bool,
    settled: bool,
) -> tuple[Terms, list[str], tuple[Place, ...]]:
    """The columns to select, the names of those to send in their order, and the place of each of the event's own."""
    columns = frame.keys()
    if shares:
        columns["h"] = frame.shares(shares)
    if spec.query.windowing.cut:
        columns["s"] = _stretch_column(frame, spec)
    columns |= frame.instant()
    columns |= frame.codes
    columns |= {f"v{n}": frame.term(expr) for n, expr in enumerate(values)}
    names = list(columns)
    if frame.compiled.lists:
        names += ["p", *(f"l{n}" for n in range(len(frame.compiled.lists)))]
    elif settled:
        names.append("i")  # kernels do not look at it: sending it takes less than leaving it out of sorted rows
    if settled:
        columns["i"] = frame.fingerprint()
    # An event's columns as one struct would be sorted and sent later than flat ones.
    shared = _places(frame, names, event_columns)
    events: Terms = {f"e{n}": frame.own_name(name) for n, name in enumerate(event_columns) if shared[n] == OWN}
    if identified:
        events["e"] = "monotonically_increasing_id()"
    return columns | events, names + list(events), shared


def _for_tasks(frame: EventFrame, spec: KernelSpec, columns: Terms, names: list[str]) -> DataFrame:
    """The rows that some variable can bind, once for each stretch ``s`` and share ``h`` that needs them."""
    rows = with_lists(frame, columns) if frame.compiled.lists else frame.select(columns)
    if "s" in columns and _overlaps(spec):
        rows = rows.withColumn("s", F.explode("s"))
    if "h" in columns:
        rows = rows.withColumn("h", F.explode("h"))
    return rows.selectExpr(*names) if frame.compiled.lists else rows


def _places(frame: EventFrame, names: list[str], shown: tuple[str, ...]) -> tuple[Place, ...]:
    """Where each of the user's columns stands among those of these names, as it is; see :class:`KernelSpec`."""
    source = frame.source
    codes = [
        code.expr.name if isinstance(code.expr, Attribute) and kind == frame.type_of(code.expr.name) else None
        for code, kind in zip(frame.compiled.codes, frame.code_types)
    ]
    sent: list[tuple[str, Sequence[str | None]]] = [("k", source.keys), ("b", source.tie_break), ("f", codes)]
    texts = frame.fixed_texts()
    places: list[Place] = []
    for name in shown:
        kind = frame.type_of(name)
        if name in texts:
            places.append(texts[name])
        elif name == source.time and kind.simpleString() in ("timestamp", "timestamp_ntz", "bigint"):
            places.append(OF_TIME)
        else:
            # A key of 0.0 may have been -0.0.
            rounded = kind.typeName() in ("float", "double")
            twins = (
                f"{prefix}{columns.index(name)}"
                for prefix, columns in sent
                if name in columns and not (prefix == "k" and rounded)
            )
            places.append(next((names.index(twin) for twin in twins if twin in names), OWN))
    return tuple(places)


#: The types of numbers that runs may hold, as NumPy knows them.
_IN_RUNS: dict[type[DataType], str] = {
    ByteType: "<i1",
    ShortType: "<i2",
    IntegerType: "<i4",
    LongType: "<i8",
    FloatType: "<f4",
    DoubleType: "<f8",
}


def run_spec(schema: StructType, keys: int) -> RunSpec | None:
    """How rows of so many keys, a time and numbers are put into runs; None if some column cannot be.

    Examples
    --------
    >>> fields = [StructField("k0", StringType()), StructField("t", LongType()), StructField("v0", DoubleType())]
    >>> run_spec(StructType(fields), 1)
    RunSpec(keys=1, columns=('<i8', '<f8'))
    """
    nested = (ArrayType, MapType, StructType, VariantType)
    if any(isinstance(field.dataType, nested) for field in schema.fields[:keys]):
        return None
    columns = [_IN_RUNS.get(type(field.dataType)) for field in schema.fields[keys:]]
    known = [column for column in columns if column is not None]
    return RunSpec(keys, tuple(known)) if len(known) == len(columns) else None


def _run_schema(schema: StructType, runs: RunSpec) -> StructType:
    return StructType([*schema.fields[: runs.keys + 1], StructField("p", BinaryType())])


def _overlaps(spec: KernelSpec) -> bool:
    return spec.query.windowing.kind == SPAN or spec.query.windowing.slide < spec.query.windowing.length


def _stretch_column(frame: EventFrame, spec: KernelSpec) -> Column:
    if _overlaps(spec):
        return frame.stretches(looks_back=spec.query.windowing.kind == SPAN and bool(spec.query.negations))
    return frame.stretch()


# ------------------------------------------------------------------------------------------------ the answer


def count_type(number: str, scale: int = 0) -> DataType:
    """The Spark type of a count or an exact sum in a number form."""
    return {"decimal": DecimalType(38, scale), "string": StringType()}.get(number, DoubleType())


def output_type(output: Output, number: str, value_types: tuple[DataType, ...], spec: KernelSpec) -> DataType:
    """The Spark type of an output column."""
    lane = spec.answer.lanes[output.value]
    if lane.is_length:
        return LongType()
    if output.finish.result is Result.VALUE:
        return value_types[lane.column]
    if output.finish.result is Result.DOUBLE or output.type in ("double", "float"):
        return DoubleType()
    scale = int(output.type[:-1].split(",")[1]) if output.type.startswith("decimal(") else 0
    return count_type(number, scale)


def _bound_type(time_type: str) -> DataType:
    return {"timestamp": TimestampType(), "timestamp_ntz": TimestampNTZType()}.get(time_type, LongType())


def window_field(time_type: str) -> StructField:
    """``window: struct<start, end>``, as Spark's ``window`` function gives it."""
    bound = _bound_type(time_type)
    return StructField("window", StructType([StructField("start", bound), StructField("end", bound)]))


def typed(spec: KernelSpec, value_types: tuple[DataType, ...]) -> KernelSpec:
    """The specification with the types that Spark found for the aggregated terms."""
    texts = tuple(kind.simpleString() for kind in value_types)
    outputs = []
    for output in spec.answer.outputs:
        column = spec.answer.lanes[output.value].column
        outputs.append(attrs.evolve(output, type=texts[column] if column >= 0 else ""))
    return spec.with_layout(values=texts).with_answer(outputs=tuple(outputs))


def shipped(spec: KernelSpec, shipment: Shipment) -> KernelSpec:
    """The specification as its rows really come."""
    return typed(spec, shipment.value_types).with_layout(
        alone=shipment.frame.alone,
        packed=shipment.frame.packed,
        book=shipment.frame.book,
        runs=shipment.runs,
        unsorted=shipment.unsorted,
        shared=shipment.shared,
    )


def partial_fields(spec: KernelSpec, value_types: tuple[DataType, ...]) -> list[StructField]:
    """The columns of partial results, ``r0``, ``r1``, ..."""
    kinds: list[DataType] = []
    for lane in spec.answer.lanes:
        if lane.is_additive:
            kinds += [StringType()] if is_whole_in_rows(spec, lane) else [DoubleType(), DoubleType()]
    for lane in spec.answer.lanes:
        if not lane.is_additive:
            kinds.append(LongType() if lane.is_length else value_types[lane.column])
    return [StructField(f"r{n}", kind) for n, kind in enumerate(kinds)]


def kernel_aggregate(df: DataFrame, plan: KernelAggregate) -> DataFrame:
    """The answer of a kernel plan: group columns, window, aggregates."""
    shipment = ship(df, plan.source, plan.compiled, plan.spec, plan.values)
    spec = shipped(plan.spec, shipment)
    if not plan.merge:
        answer = map_stage(shipment.rows, _stage(spec), spec, answer_schema(spec, shipment, plan.source))
        return named_answer(answer, spec, plan.source)
    partial = _partial(shipment, spec, plan.source)
    return merge_partial(partial, spec, shipment, plan.source)


def _stage(spec: KernelSpec) -> str:
    """All trends are counted along the automaton, complete ones along the edges of their graph."""
    return "aggregate" if spec.query.completeness == ALL else "count"


def answer_schema(spec: KernelSpec, shipment: Shipment, source: Source) -> StructType:
    """Of what a kernel answers: groups, window, aggregates."""
    fields = shipment.frame.key_fields("g", source.groups)
    if spec.query.windowing.kind == SLIDING:
        fields.append(window_field(source.time_type))
    for number, output in enumerate(spec.answer.outputs):
        fields.append(StructField(f"r{number}", output_type(output, spec.answer.number, shipment.value_types, spec)))
    return StructType(fields)


def named_answer(answer: DataFrame, spec: KernelSpec, source: Source) -> DataFrame:
    """An answer under the names that the user knows."""
    window = ["window"] if spec.query.windowing.kind == SLIDING else []
    return answer.toDF(*source.groups, *window, *(output.name for output in spec.answer.outputs))


def _partial(shipment: Shipment, spec: KernelSpec, source: Source) -> DataFrame:
    return map_stage(shipment.rows, _stage(spec), spec, partial_schema(spec, shipment, source))


def partial_schema(spec: KernelSpec, shipment: Shipment, source: Source) -> StructType:
    """Of partial results: groups, the start of the window, lanes."""
    fields = shipment.frame.key_fields("g", source.groups)
    if spec.query.windowing.kind == SLIDING:
        fields.append(StructField("w", LongType()))
    return StructType(fields + partial_fields(spec, shipment.value_types))


def by_group(rows: DataFrame, by: list[str], more: list[str]) -> DataFrame:
    """Rows sent to the tasks of their groups, sorted there."""
    spread = rows.repartition(*by) if by else rows.repartition(1)
    return spread.sortWithinPartitions(*by, *more) if by or more else spread


def merge_partial(partial: DataFrame, spec: KernelSpec, shipment: Shipment, source: Source) -> DataFrame:
    """The answer that partial results add up to."""
    by = [f"g{n}" for n in range(len(source.groups))] + (["w"] if spec.query.windowing.kind == SLIDING else [])
    answer = map_stage(
        by_group(partial, by, []), "merge", spec.with_answer(partial=False), answer_schema(spec, shipment, source)
    )
    return named_answer(answer, spec, source)


def pair_aggregate(df: DataFrame, plan: PairAggregate) -> DataFrame:
    """A top-level AND: both sides and what they share as partial results, paired per key and window.

    Each of these three reads the input by itself and ships only the events that its own variables can bind.
    """
    parts, spec, first = [], None, None
    for number, side in enumerate((plan.left, plan.right, plan.both)):
        if side is None:
            continue
        shipment = ship(df, side.source, side.compiled, side.spec, side.values)
        spec_of_side = shipped(side.spec, shipment)
        if spec is None or first is None:
            # The sides' own counts may be of any size; only the number of pairs is an answer.
            spec = typed(side.spec.with_answer(outputs=plan.outputs), shipment.value_types)
            first = shipment
        rows = _partial(shipment, spec_of_side, side.source)
        parts.append(rows.withColumn("x", F.lit(number).cast("bigint")))
    assert spec is not None
    assert first is not None
    inner = plan.left.source
    sliding = spec.query.windowing.kind == SLIDING
    keys = [f"g{n}" for n in range(len(inner.groups))] + (["w"] if sliding else [])
    lanes = partial_fields(spec, first.value_types)
    union = reduce(DataFrame.unionByName, parts).select(*keys, "x", *(field.name for field in lanes))
    fields = first.frame.key_fields("g", inner.groups) + ([StructField("w", LongType())] if sliding else []) + lanes
    paired = map_stage(by_group(union, keys, ["x"]), "pairs", spec, StructType(fields))
    groups = [f"g{n}" for n in range(len(plan.source.groups))] + (["w"] if sliding else [])
    answer_spec = spec.with_answer(groups=len(plan.source.groups))
    merged = paired.select(*groups, *(field.name for field in lanes))
    return merge_partial(merged, answer_spec, first, plan.source)
