"""Complete trends by their definition: of all trends, those that no other one contains.

The way for queries whose trends are not the paths of a graph. Every event gets a number, every trend goes to the task
that has all of its key and window, longest first, and a kernel keeps those that no kept one contains.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from cetdsl.execution.operators import Rows, execute, runs
from cetdsl.execution.trends import Shown
from cetdsl.ir.layout import TREND
from cetdsl.ir.operators import DropContained
from cetdsl.ir.stages import ContainmentSpec


@runs(DropContained)
def drop_contained(df: DataFrame, plan: DropContained) -> Rows:
    """Complete trends as rows of keys, window and trend, with the columns of events under our names."""
    rows = execute(df, plan.child)
    shown, source = Shown.of(plan.source), plan.source
    shown_keys = tuple(source.keys.index(name) for name in shown.keys)
    variables = tuple(name for name, _ in plan.compiled.variables)
    spec = ContainmentSpec(plan.layout, shown_keys, variables, plan.completeness, plan.memory)
    schema = StructType([*shown.places(rows.frame), StructField("trend", rows.data.schema[TREND].dataType)])
    return rows.mapped(plan, spec, schema)
