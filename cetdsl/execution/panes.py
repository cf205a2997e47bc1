"""The panes strategy as DataFrames: events by key and pane to small matrices, these by key to windows."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, DataType, LongType, StringType, StructField, StructType

from cetdsl.execution.aggregate import answer_schema, merge_partial, named_answer, partial_schema
from cetdsl.execution.exchange import Required, exchange, exchange_events
from cetdsl.execution.worker import map_stage
from cetdsl.ir.kernel import KernelSpec, is_exact_lane
from cetdsl.ir.layout import KEY, TIME, of_panes
from cetdsl.planning.plans import PanesAggregate


def panes_aggregate(df: DataFrame, plan: PanesAggregate) -> DataFrame:
    """The answer of a plan by panes: group columns, window, aggregates.

    The first shuffle is by key and pane, so that all cores work on one long key; no row is copied. The second moves
    one row per key and pane.
    """
    events = exchange_events(df, plan.source, plan.compiled, plan.spec, Required(plan.values, in_panes=True))
    spec = events.spec(plan.spec)
    kinds = _matrix_types(spec)
    layout = of_panes(spec.layout, len(kinds))
    types = [*(field.dataType for field in events.frame.key_fields(KEY, plan.source.keys)), LongType(), *kinds]
    fields = [StructField(name, kind) for name, kind in zip(layout.columns, types, strict=True)]
    keys = layout.partition
    panes = exchange(map_stage(events.rows, "panes", spec, StructType(fields)), keys, [*keys, TIME])
    if not plan.merge:
        answer = map_stage(panes, "windows", spec, answer_schema(spec, events, plan.source))
        return named_answer(answer, spec, plan.source)
    partial = map_stage(panes, "windows", spec, partial_schema(spec, events, plan.source))
    return merge_partial(partial, spec, events, plan.source)


def _matrix_types(spec: KernelSpec) -> list[DataType]:
    """Two columns for the lanes that are whole numbers, small and large ones, and one for those that are rounded."""
    exact = [is_exact_lane(spec, lane) for lane in spec.answer.lanes]
    kinds: list[DataType] = [BinaryType(), StringType()] if any(exact) else []
    return kinds if all(exact) else [*kinds, BinaryType()]
