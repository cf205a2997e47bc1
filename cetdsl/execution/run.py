"""Which function turns which physical node into a DataFrame."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame

from cetdsl.execution.aggregate import kernel_aggregate, pair_aggregate
from cetdsl.execution.complete import graph_trends, sampled_trends, surveyed_trends, top_trends
from cetdsl.execution.definition import aggregate_defined, defined_trends
from cetdsl.execution.fold import fold_aggregate
from cetdsl.execution.joins import joined_trends
from cetdsl.execution.panes import panes_aggregate
from cetdsl.execution.trends import aggregate_trends, list_trends, pair_trends
from cetdsl.planning.plans import (
    AggregateTrends,
    DefinedTrends,
    EnumerateTrends,
    FoldAggregate,
    GraphTrends,
    JoinedTrends,
    KernelAggregate,
    PairAggregate,
    PairTrends,
    PanesAggregate,
    PhysicalPlan,
    SampledTrends,
    SurveyedTrends,
    TopTrends,
)


def _aggregate(df: DataFrame, plan: AggregateTrends) -> DataFrame:
    return aggregate_defined(df, plan) if isinstance(plan.trends, DefinedTrends) else aggregate_trends(df, plan)


_RUN: dict[type[PhysicalPlan], Callable[[DataFrame, Any], DataFrame]] = {
    AggregateTrends: _aggregate,
    DefinedTrends: defined_trends,
    EnumerateTrends: list_trends,
    FoldAggregate: fold_aggregate,
    GraphTrends: graph_trends,
    JoinedTrends: joined_trends,
    KernelAggregate: kernel_aggregate,
    PairAggregate: pair_aggregate,
    PairTrends: pair_trends,
    PanesAggregate: panes_aggregate,
    SampledTrends: sampled_trends,
    SurveyedTrends: surveyed_trends,
    TopTrends: top_trends,
}


def run(df: DataFrame, plan: PhysicalPlan) -> DataFrame:
    """The lazy answer of a physical plan over a DataFrame of events."""
    return _RUN[type(plan)](df, plan)
