"""Complete trends of one large key by Spark's joins: all paths are extended by one event per round."""

from __future__ import annotations

import logging
from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cetdsl.execution.cells import kept
from cetdsl.execution.joins import JoinedGraph, join, union
from cetdsl.execution.operators import Rows, runs
from cetdsl.execution.source import EventFrame
from cetdsl.execution.trends import Shown, refuse_duplicates
from cetdsl.execution.vertices import KernelGraph, place_names
from cetdsl.ir.kernel import MAXIMAL
from cetdsl.ir.operators import JoinPaths, Operator, ShowGraph

_LOG = logging.getLogger("cetdsl.joins")
#: So many rows are sent to all tasks, which saves a shuffle of what they are joined with.
FEW_ROWS = 200_000


@runs(JoinPaths)
def join_paths(df: DataFrame, plan: JoinPaths) -> Rows:
    """Gives the complete trends, whose paths are extended by one event per round of joins.

    The rounds are executed when it is called; ``cetdsl.joins`` logs a line for each. Paths go through from-edges and
    to-edges. Only where the kernel must tell the edges are these listed: those of "maximal" trends, which no longer
    path goes round, share by share of a key, and those of a query with NOT, key by key.
    """
    refuse_duplicates(plan.columns)
    listed = plan.spec.query.completeness == MAXIMAL or plan.compiled.negations
    start, extend, index = (_along_edges if listed else _through_cells)(df, plan)
    with kept(index):
        found = _complete_paths(start, extend, plan.limit)
    shown = Shown.of(plan.source)
    keys = [f"k{plan.source.keys.index(name)}" for name in shown.keys]
    answer = found.select(*keys, *plan.source.window, "path").toDF(*shown.names())
    return Rows(answer, EventFrame(df, plan.source, plan.compiled))


_Extend = Callable[[DataFrame, bool], DataFrame]


def _through_cells(df: DataFrame, plan: JoinPaths) -> tuple[DataFrame, _Extend, list[DataFrame]]:
    """Returns the first paths, what extends paths through the cells of their last events, and the index to keep.

    The row of an event has its to-edge too, so what is found through a from-edge leads on without another lookup.
    """
    graph = JoinedGraph(df, ShowGraph(plan.child, plan.spec, plan.columns, joined=True), numbered=False)
    nodes = graph.linked.withColumn("path", F.array(binding(plan, graph.event()))).drop("c")
    # Only terms that relate two events look at the whole of the earlier one.
    nodes = (nodes if plan.compiled.lists else nodes.drop("e")).localCheckpoint()
    # No path leads to a source.
    later = nodes.filter(~F.col("source")).drop("source")
    size = later.count()
    small = size <= FEW_ROWS
    index = [] if small else [cells.spread(later, size) for cells in graph.cells]
    found = [part.hint("shuffle_hash") for part in index] or [F.broadcast(later)] * len(graph.cells)
    path = F.concat("path_0", "path").alias("path")
    columns = [path if name == "path" else F.col(name) for name in later.columns]

    def extend(paths: DataFrame, few: bool) -> DataFrame:
        earlier = F.broadcast(paths) if few and not small else paths
        sides = zip(graph.cells, found, strict=True)
        return union([cells.followed(earlier, nodes).select(*columns) for cells, nodes in sides])

    return nodes.filter(F.col("source") & F.col("q").isin(graph.initial)).drop("source"), extend, index


def _along_edges(df: DataFrame, plan: JoinPaths) -> tuple[DataFrame, _Extend, list[DataFrame]]:
    """Returns the first paths, what extends paths along edges that the kernel lists, and no index."""
    by, kernel = place_names(plan.source), KernelGraph(df, ShowGraph(plan.child, plan.spec, plan.columns, joined=True))
    edges = kernel.reduced() if plan.spec.query.completeness == MAXIMAL else kernel.edges()
    path = F.array(binding(plan, F.col("event"))).alias("path")
    nodes = kernel.vertices().select(*by, "n", "q", "first", "source", "sink", path).localCheckpoint()
    ends = nodes.drop("first", "source").withColumnsRenamed({"n": "n1", "q": "q1", "path": "path1"})
    arcs = join(edges, ends, [*by, "n1", "q1"]).localCheckpoint()
    if arcs.count() <= FEW_ROWS:
        arcs = F.broadcast(arcs)

    def extend(paths: DataFrame, few: bool) -> DataFrame:
        earlier = paths.drop("sink").withColumnsRenamed({"n": "n0", "q": "q0"})
        longer = join(F.broadcast(earlier) if few else earlier, arcs, [*by, "n0", "q0"])
        path = F.concat("path", "path1").alias("path")
        return longer.select(*by, F.col("n1").alias("n"), F.col("q1").alias("q"), "sink", path)

    return nodes.filter("first AND source").drop("first", "source"), extend, []


def binding(plan: Operator, event: Column) -> Column:
    """The binding of a node's event in its state."""
    names = F.array(*(F.lit(plan.compiled.variables[number][0]) for number in plan.compiled.machine.variables))
    return F.struct(F.get(names, F.col("q")).alias("variable"), event.alias("event"))


def _complete_paths(start: DataFrame, extend: _Extend, limit: int | None) -> DataFrame:
    """Returns all paths from the given ones to sinks, or so many of them.

    Every vertex lies on a trend, so every path leads to a sink, and a round needs no more than ``limit`` paths.
    """
    paths, complete, found, number = start, [], 0, 0
    while True:
        paths = (paths if limit is None else paths.limit(limit - found)).localCheckpoint(eager=False)
        total, done = paths.agg(F.count("*"), F.count_if("sink")).first() or (0, 0)
        number, found = number + 1, found + done
        _LOG.info("round %d: %d paths, %d of them complete, %d complete so far", number, total, done, found)
        complete.append(paths.filter("sink"))
        if done == total:
            return union(complete)
        paths = extend(paths.filter(~F.col("sink")), (total - done) * number <= FEW_ROWS)
