"""The matrices of panes as rows, one per key and pane."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from cetdsl.execution.operators import Rows, execute, runs
from cetdsl.ir.kernel import KernelSpec, is_exact_accumulator
from cetdsl.ir.layout import KEY, of_panes
from cetdsl.ir.operators import BuildPanes


@runs(BuildPanes)
def build_panes(df: DataFrame, plan: BuildPanes) -> Rows:
    """A matrix per key and pane, so that all cores work on one long key; no row is copied."""
    rows = execute(df, plan.child)
    kinds = _matrix_types(rows.spec)
    layout = of_panes(rows.spec.layout, len(kinds))
    types = [*(field.dataType for field in rows.frame.key_fields(KEY, plan.source.keys)), T.LongType(), *kinds]
    fields = [T.StructField(name, kind) for name, kind in zip(layout.columns, types, strict=True)]
    return rows.mapped(plan, rows.spec, T.StructType(fields))


def _matrix_types(spec: KernelSpec) -> list[T.DataType]:
    """Two columns for the accumulators of whole numbers, small and large ones, and one for those that are rounded."""
    exact = [is_exact_accumulator(spec, accumulator) for accumulator in spec.answer.accumulators]
    kinds: list[T.DataType] = [T.BinaryType(), T.StringType()] if any(exact) else []
    return kinds if all(exact) else [*kinds, T.BinaryType()]
