"""The panes strategy as DataFrames: events by key and pane to small matrices, these by key to windows."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, ByteType, LongType, StringType, StructField, StructType

from cetdsl.execution.aggregate import (
    Shipment,
    answer_schema,
    by_group,
    merge_partial,
    named_answer,
    partial_schema,
    shipped,
)
from cetdsl.execution.source import EventFrame
from cetdsl.execution.worker import map_stage
from cetdsl.ir.kernel import KernelSpec, is_exact_lane
from cetdsl.planning.plans import PanesAggregate


def panes_aggregate(df: DataFrame, plan: PanesAggregate) -> DataFrame:
    """The answer of a plan by panes: group columns, window, aggregates.

    The first shuffle is by key and pane, so that all cores work on one long key; no row is copied. The second moves
    one row per key and pane.
    """
    shipment = _ship(df, plan)
    spec = shipped(plan.spec, shipment)
    keys = [f"g{number}" for number in range(len(plan.source.keys))]
    fields = shipment.frame.key_fields("g", plan.source.keys)
    fields += [StructField("p", LongType()), StructField("m", ByteType()), *_matrix_fields(spec)]
    panes = by_group(map_stage(shipment.rows, "panes", spec, StructType(fields)), keys, ["p"])
    if not plan.merge:
        answer = map_stage(panes, "windows", spec, answer_schema(spec, shipment, plan.source))
        return named_answer(answer, spec, plan.source)
    partial = map_stage(panes, "windows", spec, partial_schema(spec, shipment, plan.source))
    return merge_partial(partial, spec, shipment, plan.source)


def _ship(df: DataFrame, plan: PanesAggregate) -> Shipment:
    """What the matrices need of each event, in the task of its key and pane, sorted by time."""
    frame = EventFrame(df, plan.source, plan.compiled)
    by = [*frame.key_names, "p"]
    columns = {**frame.keys(), "p": frame.pane(), **frame.instant()}
    rows = frame.select(columns | {f"v{number}": frame.term(expr) for number, expr in enumerate(plan.values)})
    schema = rows.schema
    frame.refuse_collations(schema)
    types = tuple(schema[f"v{number}"].dataType for number in range(len(plan.values)))
    ordered = rows.repartition(*by).sortWithinPartitions(*by, *frame.order)
    return Shipment(ordered, types, frame)


def _matrix_fields(spec: KernelSpec) -> list[StructField]:
    """Two columns for the lanes that are whole numbers, small and large ones, and one for those that are rounded."""
    exact = [is_exact_lane(spec, lane) for lane in spec.answer.lanes]
    fields = [StructField("x", BinaryType()), StructField("z", StringType())] if any(exact) else []
    return fields if all(exact) else [*fields, StructField("y", BinaryType())]
