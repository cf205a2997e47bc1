"""Executes operators over graphs: trends are listed, sampled, ordered by weight, and surveyed."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cetdsl.errors import recovering
from cetdsl.execution.operators import Rows, execute, runs
from cetdsl.execution.trends import Shown, trend_field, trends_spec
from cetdsl.ir.extraction import USUAL
from cetdsl.ir.operators import (
    BuildGraph,
    FindPieces,
    JoinPieces,
    ListPaths,
    OverGraph,
    SamplePaths,
    SurveyGraphs,
    TopPaths,
)
from cetdsl.ir.stages import SURVEY, GraphSpec, JoinSpec, PieceSpec, SampleSpec, SurveySpec, TopSpec
from cetdsl.pattern.expressions import Length, variables


@runs(BuildGraph)
def build_graph(df: DataFrame, plan: BuildGraph) -> Rows:
    """Gives the events from which the stage of the operator above builds the graph."""
    return execute(df, plan.child)


def _told(rows: Rows, plan: OverGraph, limit: int | None = None, fields: tuple[str, ...] | None = None) -> GraphSpec:
    """Returns what the kernel must know to get trends out of the graph; ``fields`` of events are the user's columns."""
    graph = plan.child
    names = (graph.columns or ()) if fields is None else fields
    trends = trends_spec(plan, plan.keys, rows.spec, names, limit, identified=graph.identified)
    return GraphSpec(trends, graph.extraction or USUAL, rows.shares)


def _schema(
    rows: Rows, plan: OverGraph, *more: T.StructField, named: bool = False, fields: tuple[str, ...] | None = None
) -> T.StructType:
    """Returns keys and window, under internal names or the user's, further columns, and the trend."""
    shown, columns = Shown(plan.keys, bool(plan.source.window)), plan.child.columns or ()
    names = columns if fields is None else fields
    trend = trend_field(rows.frame, columns, names, identified=plan.child.identified)
    return T.StructType([*shown.places(rows.frame, named=named), *more, trend])


@runs(ListPaths)
def list_paths(df: DataFrame, plan: ListPaths) -> Rows:
    """Gives keys, window, and the trend under the user's column names, or internal ones."""
    rows = execute(df, plan.child)
    fields = None if plan.named else tuple(map(rows.frame.own_name, plan.child.columns or ()))
    return rows.mapped(
        plan, _told(rows, plan, plan.limit, fields), _schema(rows, plan, named=plan.named, fields=fields)
    )


@runs(FindPieces)
def find_pieces(df: DataFrame, plan: FindPieces) -> Rows:
    """Gives the partial trends between anchors, numbered in the order in which a walk finds them."""
    rows, whole = execute(df, plan.child), T.LongType()
    told = [("number", whole), ("begin", whole), ("last", whole), ("role", whole), ("next", T.ArrayType(whole))]
    schema = _schema(rows, plan, *(T.StructField(name, kind) for name, kind in told))
    return rows.mapped(plan, PieceSpec(_told(rows, plan)), schema)


@runs(JoinPieces)
def join_pieces(df: DataFrame, plan: JoinPieces) -> Rows:
    """Gives the trends under the user's column names."""
    rows, told = execute(df, plan.child), plan.extraction
    return rows.mapped(plan, JoinSpec(rows.shares, told.memory), T.StructType([rows.data.schema["trend"]]))


@runs(SamplePaths)
def sample_paths(df: DataFrame, plan: SamplePaths) -> Rows:
    """Gives the paths with the smallest random keys."""
    rows = execute(df, plan.child)
    spec = SampleSpec(_told(rows, plan), plan.size, plan.seed)
    drawn = rows.mapped(plan, spec, _schema(rows, plan, T.StructField("key", T.DoubleType()))).data
    return rows.now(drawn.orderBy("key").limit(plan.size).drop("key").toDF(*Shown.of(plan.source).names()))


@runs(TopPaths)
def top_paths(df: DataFrame, plan: TopPaths) -> Rows:
    """Gives the heaviest paths first, with their weights."""
    rows, argument = execute(df, plan.child), plan.by.argument
    name = plan.by.variable if argument is None else None
    if argument is not None and not isinstance(argument, Length):
        name = variables(argument)[0]
    kind = _weight_type(rows.types[0]) if rows.types else T.LongType()
    spec = TopSpec(_told(rows, plan), plan.size, () if name is None else plan.compiled.numbers_of(name))
    found = rows.mapped(plan, spec, _schema(rows, plan, T.StructField("weight", kind))).data
    heaviest = found.orderBy(F.desc("weight")).limit(plan.size)
    return rows.now(heaviest.toDF(*Shown.of(plan.source).names(plan.name)))


def _weight_type(kind: T.DataType) -> T.DataType:
    """Returns the type of a sum, as kernels give it."""
    if isinstance(kind, T.DecimalType):
        return T.DecimalType(38, kind.scale)
    return T.DoubleType() if isinstance(kind, (T.DoubleType, T.FloatType)) else T.DecimalType(38, 0)


@runs(SurveyGraphs)
def survey_graphs(df: DataFrame, plan: SurveyGraphs) -> Rows:
    """Gives a survey of the graph of each group and window, and of the work of listing its trends."""
    rows, shown = execute(df, plan.child), Shown.of(plan.source)
    told = [T.StructField(f"s{n}", _SURVEY_TYPES[kind]) for n, (_, kind) in enumerate(SURVEY)]
    schema = T.StructType([*shown.places(rows.frame), *told])
    found = rows.mapped(plan, SurveySpec(_told(rows, plan), plan.measured), schema).data
    return rows.now(found.toDF(*shown.names_before(*(name for name, _ in SURVEY))))


_SURVEY_TYPES = {"bigint": T.LongType(), "double": T.DoubleType(), "string": T.StringType()}
#: The figures that :func:`summary` takes the largest of, as a task has only one graph in memory at a time.
_LARGEST = ("predicted_bytes", "bytes")


@recovering()
def summary(survey: DataFrame) -> dict[str, Any]:
    """Sums up a survey over all groups and windows; runs a job."""
    # The survey's own columns come last, so that a key column of the same name cannot stand in for one.
    numbered = survey.toDF(*(f"x{n}" for n in range(len(survey.columns))))
    first = len(survey.columns) - len(SURVEY)
    totals = [F.count("*").alias("graphs")]
    for number, (name, kind) in enumerate(SURVEY, first):
        column = F.col(f"x{number}")
        if kind == "string":
            totals.append(F.array_sort(F.collect_set(column)).alias(name))
        else:
            totals.append((F.max(column) if name in _LARGEST else F.sum(column)).alias(name))
    row = numbered.agg(*totals).first()
    assert row is not None
    return row.asDict()
