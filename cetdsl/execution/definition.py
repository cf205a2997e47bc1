"""Complete trends by their definition: all trends are listed, and those that another one contains are dropped.

The way for queries whose trends are not the paths of a graph. Every event gets a number, every trend goes to the task
that has all of its key and window, longest first, and a kernel keeps those that no kept one contains.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from cetdsl.execution.exchange import exchange
from cetdsl.execution.source import EventFrame
from cetdsl.execution.trends import Shown, aggregate_rows, finished_rows
from cetdsl.execution.worker import map_stage
from cetdsl.ir.stages import ContainmentSpec
from cetdsl.ir.windowing import SLIDING
from cetdsl.planning.plans import AggregateTrends, DefinedTrends


def defined_trends(df: DataFrame, plan: DefinedTrends) -> DataFrame:
    """The answer of ``complete_trends()``: keys, window, and the trend under the user's column names."""
    rows, frame = complete_rows(df, plan)
    shown = Shown.of(plan.source)
    return shown.limited(shown.narrow(rows, frame, plan.trends.columns).toDF(*shown.names()), plan.limit)


def aggregate_defined(df: DataFrame, plan: AggregateTrends) -> DataFrame:
    """Aggregates over complete trends."""
    assert isinstance(plan.trends, DefinedTrends), plan.trends
    rows, frame = complete_rows(df, plan.trends)
    return aggregate_rows(rows, frame, plan)


def complete_rows(df: DataFrame, plan: DefinedTrends, more: tuple[str, ...] = ()) -> tuple[DataFrame, EventFrame]:
    """Complete trends as rows of keys, window and trend, with the columns of events under our names."""
    source = plan.source
    shown, told_apart = Shown.of(source), Shown(source.keys, source.windowing.kind == SLIDING)
    listed, frame = finished_rows(df, plan.trends, more, identified=told_apart)
    by = told_apart.internal
    rows = listed.select(
        *by,
        F.transform("trend", lambda binding: binding.getField("event").getField("id")).alias("i"),
        F.transform("trend", lambda binding: binding.getField("variable")).alias("v"),
        "trend",
    )
    ordered = exchange(rows, by, [*by, F.size("i").desc()])
    spec = ContainmentSpec(
        len(source.keys),
        tuple(source.keys.index(name) for name in shown.keys),
        told_apart.sliding,
        tuple(name for name, _ in plan.trends.compiled.variables),
        plan.completeness,
        plan.memory,
    )
    schema = StructType([*shown.places(frame), listed.schema["trend"]])
    return map_stage(ordered, "containment", spec, schema), frame
