"""Which function turns which physical node into a DataFrame."""

from __future__ import annotations

from pyspark.sql import DataFrame

from cetdsl.execution.aggregate import kernel_aggregate, pair_aggregate
from cetdsl.execution.fold import fold_aggregate
from cetdsl.execution.trends import aggregate_trends, list_trends, pair_trends
from cetdsl.planning.plans import (
    AggregateTrends,
    EnumerateTrends,
    FoldAggregate,
    KernelAggregate,
    PairAggregate,
    PairTrends,
    PhysicalPlan,
)


def run(df: DataFrame, plan: PhysicalPlan) -> DataFrame:
    """The lazy answer of a physical plan over a DataFrame of events."""
    if isinstance(plan, FoldAggregate):
        return fold_aggregate(df, plan)
    if isinstance(plan, KernelAggregate):
        return kernel_aggregate(df, plan)
    if isinstance(plan, PairAggregate):
        return pair_aggregate(df, plan)
    if isinstance(plan, EnumerateTrends):
        return list_trends(df, plan)
    if isinstance(plan, PairTrends):
        return pair_trends(df, plan)
    assert isinstance(plan, AggregateTrends), plan
    return aggregate_trends(df, plan)
