"""Complete trends of one large key by Spark's joins: all paths are extended by one event per round."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cetdsl.execution.cells import FEW_ROWS, kept
from cetdsl.execution.expressions import union
from cetdsl.execution.joins import JoinedGraph, join
from cetdsl.execution.operators import Rows, runs
from cetdsl.execution.source import EventFrame
from cetdsl.execution.trends import Shown
from cetdsl.execution.vertices import KernelGraph, place_names
from cetdsl.ir.kernel import MAXIMAL
from cetdsl.ir.operators import JoinPaths, Operator, ShowGraph

_LOG = logging.getLogger("cetdsl.joins")


class _Walk(NamedTuple):
    """Extends paths by one event per round.

    The row of a path has its key and window, the columns that determine the followers of its last event, and ``path``.

    Attributes
    ----------
    start : DataFrame
        The first events; ``sink`` says whether an event is a trend by itself.
    extend : callable
        Returns the paths extended by one event that lead on. Its second argument says whether the paths are few.
    finish : callable
        Returns the paths extended by one event that end with it.
    held : list of DataFrame
        The DataFrames that are persisted during the rounds.
    """

    start: DataFrame
    extend: Callable[[DataFrame, bool], DataFrame]
    finish: Callable[[DataFrame], DataFrame]
    held: list[DataFrame]


@runs(JoinPaths)
def join_paths(df: DataFrame, plan: JoinPaths) -> Rows:
    """Gives the complete trends, whose paths are extended by one event per round of joins.

    Calling this function executes the rounds; ``cetdsl.joins`` logs a line for each. Paths of "ends" trends follow
    from-edges and to-edges (:mod:`cetdsl.execution.cells`), those of "maximal" trends the edges that no longer path
    bypasses (:mod:`cetdsl.execution.arcs`). If many events may follow one, a kernel lists the latter edges, share by
    share of a key. A kernel also lists the edges of a query with NOT, key by key.
    """
    walk = (_along_edges if plan.spec.query.edges_by_kernel else _in_steps)(df, plan)
    with kept(walk.held):
        found = _complete_paths(walk, plan.limit)
    shown = Shown.of(plan.source)
    keys = [f"k{plan.source.keys.index(name)}" for name in shown.keys]
    answer = found.select(*keys, *plan.source.window, "path").toDF(*shown.names())
    return Rows(answer, EventFrame(df, plan.source, plan.compiled))


def _in_steps(df: DataFrame, plan: JoinPaths) -> _Walk:
    """Follows paths through the cells of their last events, or along the arcs from them.

    The row of an event has its to-edge, too, so the event found through a from-edge leads on without another lookup.
    """
    graph = JoinedGraph(df, ShowGraph(plan.child, plan.spec, plan.columns, joined=True), numbered=False)
    places = place_names(plan.source)
    leading = {"path", *places}.union(*(step.leading for step in graph.steps))
    nodes = graph.linked.withColumn("path", F.array(binding(plan, graph.event())))
    nodes = nodes if "c" in leading else nodes.drop("c")
    # Only inseparable predicates need all columns of the earlier event.
    nodes = (nodes if plan.compiled.lists else nodes.drop("e")).localCheckpoint()
    # No path leads to a source.
    later = nodes.filter(~F.col("source")).drop("source")
    (inner, size), (last, ends) = (_sides(graph, part) for part in _by_sink(later))
    small = size <= FEW_ROWS
    index = [] if small else [step.spread(side, size) for step, side in zip(graph.steps, inner, strict=True)]
    found = [part.hint("shuffle_hash") for part in index] or [F.broadcast(side) for side in inner]
    path = F.concat("path_0", "path").alias("path")

    def longer(paths: DataFrame, sides: list[DataFrame], names: list[str]) -> DataFrame:
        columns = [path if name == "path" else F.col(name) for name in names]
        followed = (step.followed(paths, side) for step, side in zip(graph.steps, sides, strict=True))
        return union([pairs.select(*columns) for pairs in followed])

    def extend(paths: DataFrame, few: bool) -> DataFrame:
        return longer(F.broadcast(paths) if few and not small else paths, found, on)

    def finish(paths: DataFrame) -> DataFrame:
        sides = [F.broadcast(side) if ends <= FEW_ROWS else side.hint("shuffle_hash") for side in last]
        return longer(paths, sides, [*places, "path"])

    on = [name for name in nodes.columns if name in leading]
    start = nodes.filter(F.col("source") & F.col("q").isin(graph.initial)).select(*on, "sink")
    return _Walk(start, extend, finish, index)


def _sides(graph: JoinedGraph, nodes: DataFrame) -> tuple[list[DataFrame], int]:
    """Returns for each of a graph's steps the rows that extend paths to ``nodes``; and the number of all these rows."""
    sides = [step.side(nodes) for step in graph.steps]
    return sides, sum(side.count() for side in sides)


def _along_edges(df: DataFrame, plan: JoinPaths) -> _Walk:
    """Follows paths along edges that the kernel lists."""
    by, kernel = place_names(plan.source), KernelGraph(df, ShowGraph(plan.child, plan.spec, plan.columns, joined=True))
    edges = kernel.reduced() if plan.spec.query.completeness == MAXIMAL else kernel.edges()
    path = F.array(binding(plan, F.col("event"))).alias("path")
    nodes = kernel.vertices().select(*by, "n", "q", "first", "source", "sink", path).localCheckpoint()
    ends = nodes.drop("first", "source").withColumnsRenamed({"n": "n1", "q": "q1", "path": "path1"})
    arcs = join(edges, ends, [*by, "n1", "q1"]).localCheckpoint()
    inner, last = _by_sink(arcs)
    if arcs.count() <= FEW_ROWS:
        inner, last = F.broadcast(inner), F.broadcast(last)

    def longer(paths: DataFrame, sides: DataFrame) -> DataFrame:
        paired = join(paths.withColumnsRenamed({"n": "n0", "q": "q0"}), sides, [*by, "n0", "q0"])
        path = F.concat("path", "path1").alias("path")
        return paired.select(*by, F.col("n1").alias("n"), F.col("q1").alias("q"), path)

    def extend(paths: DataFrame, few: bool) -> DataFrame:
        return longer(F.broadcast(paths) if few else paths, inner)

    start = nodes.filter("first AND source").drop("first", "source")
    return _Walk(start, extend, lambda paths: longer(paths, last), [])


def _by_sink(steps: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Splits steps into those to events that lead on, and those to events that end a trend."""
    return steps.filter("NOT sink").drop("sink"), steps.filter("sink").drop("sink")


def binding(plan: Operator, event: Column) -> Column:
    """The binding of a node's event in its state."""
    names = F.array(*(F.lit(plan.compiled.variables[number][0]) for number in plan.compiled.machine.variables))
    return F.struct(F.get(names, F.col("q")).alias("variable"), event.alias("event"))


def _complete_paths(walk: _Walk, limit: int | None) -> DataFrame:
    """Returns all paths from the first events to sinks, or ``limit`` of them.

    Rounds keep only paths that lead on, which are fewer and shorter than the complete ones. The last event is joined to
    all of these at once when the answer is computed or, with a ``limit``, round by round until there are enough. Every
    vertex lies on a trend, so every path leads to a sink, and a round needs no more paths than are still wanted.

    Paths are kept on disk. In memory, they would be most of what the JVM's garbage collector has to scan.
    """
    start = walk.start.localCheckpoint(eager=False)
    lone, paths = start.filter("sink"), start.filter("NOT sink").drop("sink")
    left = None if limit is None else limit - lone.limit(limit).count()
    fronts, ended = list[DataFrame](), list[DataFrame]()
    while True:
        paths = paths if left is None else paths.limit(left)
        paths = paths.localCheckpoint(eager=False, storageLevel=StorageLevel.DISK_ONLY)
        size = paths.count()
        _LOG.info("round %d: %d paths lead on", len(fronts) + 1, size)
        if size == 0:
            break
        fronts.append(paths)
        if left is not None:
            ended.append(walk.finish(paths).limit(left).localCheckpoint(eager=False))
            left -= ended[-1].count()
        paths = walk.extend(paths, size * len(fronts) <= FEW_ROWS)
    if not fronts:
        return lone
    others = union(ended) if ended else walk.finish(union(fronts))
    return lone.select(*others.columns).unionByName(others)
