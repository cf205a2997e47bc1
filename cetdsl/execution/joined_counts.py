"""Counts and samples the paths of one large key by Spark's joins, with a number per event; lists drawn paths only."""

from __future__ import annotations

import logging
import random
from bisect import bisect_right
from collections.abc import Iterator
from decimal import Decimal
from itertools import accumulate

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from cetdsl.execution.cells import FEW_ROWS, kept
from cetdsl.execution.expressions import union
from cetdsl.execution.join_paths import binding
from cetdsl.execution.joins import JoinedGraph
from cetdsl.execution.operators import Rows, runs
from cetdsl.execution.trends import Shown
from cetdsl.execution.ways import EXACT, MORE_MEMORY, one_way, summed
from cetdsl.ir.operators import CountJoined, SampleJoined, ShowGraph

_LOG = logging.getLogger("cetdsl.joins")
#: The number of parts into which paths are divided by their last events, so that a path is found by its number.
_PARTS = 4096
#: The hint for more trends than exact numbers can number, as only these can draw a sample.
_TOO_MANY = f"draw from fewer events, or partition them by a value that all events of a trend share; or {MORE_MEMORY}"


@runs(CountJoined)
def count_joined(df: DataFrame, plan: CountJoined) -> Rows:
    """Gives the number of paths of each group and window; calling this function executes the rounds."""
    graph = JoinedGraph(df, ShowGraph(plan.child, plan.spec, (), joined=True), numbered=False)
    places = [*(f"k{plan.source.keys.index(name)}" for name in plan.source.groups), *plan.source.window]
    number = plan.spec.answer.number
    counts = [ended for _, ended in _rounds(graph, _slim(graph), places, number)]
    found = summed(union(counts), places, number).filter("ways IS NOT NULL")
    shown = F.col("ways").cast("string") if number == "string" else F.col("ways")
    return Rows(found.select(*places, shown).toDF(*plan.gives), graph.frame)


@runs(SampleJoined)
def sample_joined(df: DataFrame, plan: SampleJoined) -> Rows:
    """Gives a sample of different paths, each equally likely; calling this function executes the rounds.

    Paths are numbered by their last events. A path of a drawn number is followed backwards: among the paths that lead
    to an event, the number determines the event before it.
    """
    graph = JoinedGraph(df, ShowGraph(plan.child, plan.spec, plan.columns, joined=True), numbered=False, marked=True)
    nodes = _slim(graph, F.xxhash64(*graph.by, *graph.instant, "i", "q").alias("place"))
    rounds = _rounds(graph, nodes, [], "decimal", _TOO_MANY)
    fronts = [front.select(F.col("c").alias("x"), "ways") for front, _ in rounds]
    ways = summed(union(fronts), ["x"], "decimal", hint=_TOO_MANY).drop("size")
    weighed = nodes.join(ways, F.col("c") == F.col("x")).drop("x").localCheckpoint()
    drawn = _ended(weighed.filter("sink"), plan)
    found: list[DataFrame] = []
    while True:
        drawn = drawn.localCheckpoint()
        found.append(drawn.select("id", F.col("c").alias("x"), F.lit(-len(found)).alias("step")))
        going = drawn.filter(~F.col("source")).drop("ways")
        if going.isEmpty():
            break
        columns = [F.col(f"{name}_0").alias(name) for name in weighed.columns]
        pairs = [step.preceded(weighed, going).select(*columns, "id", "rest") for step in graph.steps]
        drawn = _of_number(union(pairs))
    return Rows(_paths(graph, union(found), plan), graph.frame)


def _slim(graph: JoinedGraph, *more: Column) -> DataFrame:
    """Returns the nodes, checkpointed, with the columns that rounds need, and ``more`` columns."""
    nodes = graph.linked
    own = [name for name in nodes.columns if name not in ("n", "i") and (name != "e" or graph.plan.compiled.lists)]
    return nodes.select(*own, *more).localCheckpoint()


def _rounds(
    graph: JoinedGraph, nodes: DataFrame, places: list[str], number: str, hint: str | None = None
) -> Iterator[tuple[DataFrame, DataFrame]]:
    """Yields for 1, 2, ... events the nodes to which paths of so many events lead, and the number of these: ``ways``.

    Each time it also yields the number of such paths that end at a sink, for each of the ``places``. ``number`` is the
    form of numbers, and ``hint`` that of :func:`summed`.
    """
    own = [name for name in nodes.columns if name not in ("place", "source")]
    others = nodes.filter(~F.col("source")).select(*own)
    sides, length = [step.side(others) for step in graph.steps], 0
    later = [step.spread(side, side.count()) for step, side in zip(graph.steps, sides, strict=True)]
    front = nodes.filter("source").select(*own).withColumn("ways", one_way(number))
    with kept(later):
        while True:
            front = front.localCheckpoint(eager=False)
            ended = summed(front, places, number, F.when(F.col("sink"), F.col("ways")), hint=hint).localCheckpoint()
            size, length = ended.agg(F.sum("size")).first()[0] or 0, length + 1  # type: ignore[index]
            _LOG.info("round %d: %d vertices", length, size)
            if size == 0 and length > 1:
                return
            yield front, ended.drop("size")
            if not later:
                return
            going = front.filter(~F.col("sink"))
            going = F.broadcast(going) if size <= FEW_ROWS else going.hint("shuffle_hash")
            columns = [*map(F.col, own), F.col("ways_0").alias("ways")]
            found = (step.followed(going, side) for step, side in zip(graph.steps, later, strict=True))
            pairs = [rows.select(*columns) for rows in found]
            front = summed(union(pairs), own, number, hint=hint).drop("size")


def _ended(ends: DataFrame, plan: SampleJoined) -> DataFrame:
    """Draws paths by their numbers: returns the last event of each, and the number among the paths to it (``rest``)."""
    ends = ends.withColumn("z", F.pmod("place", F.lit(_PARTS)))
    sums = {row["z"]: int(row["ways"]) for row in summed(ends, ["z"], "decimal", hint=_TOO_MANY).collect()}
    parts = sorted(sums)
    numbered = list(accumulate(sums[part] for part in parts))
    picks = []
    for id_, number in enumerate(_numbers(numbered[-1] if numbered else 0, plan.size, random.Random(plan.seed))):
        part = bisect_right(numbered, number)
        picks.append((id_, parts[part], Decimal(number - (numbered[part - 1] if part else 0))))
    told = ends.sparkSession.createDataFrame(picks, f"id int, part bigint, rest {EXACT}")
    return _of_number(ends.join(F.broadcast(told), F.col("z") == F.col("part")).drop("z", "part"))


def _paths(graph: JoinedGraph, steps: DataFrame, plan: SampleJoined) -> DataFrame:
    """Assembles the events of each path in the order of ``step``, under the user's names."""
    nodes = graph.linked.select("c", *graph.by, binding(plan, graph.event()).alias("binding"))
    placed = nodes.join(F.broadcast(steps), F.col("c") == F.col("x"))
    rows = placed.groupBy("id", *graph.by).agg(F.collect_list(F.struct("step", "binding")).alias("path"))
    # Events may have columns that have no order, so only the steps are compared.
    path = F.array_sort("path", lambda one, other: one["step"] - other["step"])
    shown = Shown.of(plan.source)
    keys = [f"k{plan.source.keys.index(name)}" for name in shown.keys]
    return rows.select(*keys, *plan.source.window, path.getField("binding").alias("path")).toDF(*shown.names())


def _numbers(total: int, size: int, chance: random.Random) -> list[int]:
    """Draws ``size`` different numbers below the total, or all of them.

    Examples
    --------
    >>> sorted(_numbers(3, 5, random.Random(1)))
    [0, 1, 2]
    >>> len(set(_numbers(10**30, 100, random.Random(1))))
    100
    """
    if total < 2**62:
        return chance.sample(range(total), min(size, total))
    found: dict[int, None] = {}
    while len(found) < size:
        found[chance.randrange(total)] = None
    return list(found)


def _of_number(rows: DataFrame) -> DataFrame:
    """Keeps for each ``id`` the row whose ways contain the number ``rest``, now the number among these ways."""
    before = Window.partitionBy("id").orderBy("place").rowsBetween(Window.unboundedPreceding, -1)
    passed = rows.withColumn("passed", F.coalesce(F.sum("ways").over(before), F.lit(0).cast(EXACT)))
    here = passed.filter((F.col("passed") <= F.col("rest")) & (F.col("rest") - F.col("passed") < F.col("ways")))
    return here.withColumn("rest", (F.col("rest") - F.col("passed")).cast(EXACT)).drop("passed")
