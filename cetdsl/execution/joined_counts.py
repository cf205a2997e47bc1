"""Paths of one large key counted and drawn by Spark's joins: a number per event, and no path that is not drawn."""

from __future__ import annotations

import logging
import random
from bisect import bisect_right
from collections.abc import Iterator
from decimal import Decimal
from itertools import accumulate

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from cetdsl.errors import CountOverflow
from cetdsl.execution.expressions import raised
from cetdsl.execution.join_paths import FEW_ROWS, binding
from cetdsl.execution.joins import JoinedGraph, union
from cetdsl.execution.operators import Rows, runs
from cetdsl.execution.trends import Shown
from cetdsl.ir.operators import CountJoined, SampleJoined, ShowGraph

_LOG = logging.getLogger("cetdsl.joins")
_COUNT = "decimal(38,0)"
#: Into so many parts the paths are dealt by the events that they begin with, to find those of some numbers.
_PARTS = 4096


@runs(CountJoined)
def count_joined(df: DataFrame, plan: CountJoined) -> Rows:
    """Gives the number of paths of each group and window; the rounds are executed when it is called."""
    graph = JoinedGraph(df, ShowGraph(plan.child, plan.spec, (), joined=True), numbered=False)
    keys, sums = [f"k{plan.source.keys.index(name)}" for name in plan.source.groups], []
    for front in _fronts(graph, _slim(graph), forward=True):
        sums.append(front.filter("sink").groupBy(*keys, *plan.source.window).agg(_total().alias("ways")))
    total = union(sums).groupBy(*keys, *plan.source.window).agg(_total().alias("ways")).filter("ways IS NOT NULL")
    number = plan.spec.answer.number
    ways = {"string": F.col("ways").cast("string"), "double": F.col("ways").cast("double")}
    shown = F.log2(F.col("ways").cast("double")) if number == "log2" else ways.get(number, F.col("ways"))
    return Rows(total.select(*keys, *plan.source.window, shown).toDF(*plan.gives), graph.frame)


@runs(SampleJoined)
def sample_joined(df: DataFrame, plan: SampleJoined) -> Rows:
    """Gives paths of different numbers, each equally likely; the rounds are executed when it is called."""
    graph = JoinedGraph(df, ShowGraph(plan.child, plan.spec, plan.columns, joined=True))
    nodes = _slim(graph, F.array(binding(plan, graph.event())).alias("path"), F.col("n"))
    fronts = [front.select(F.col("c").alias("x"), "ways") for front in _fronts(graph, nodes, forward=False)]
    ways = union(fronts).groupBy("x").agg(_total().alias("ways"))
    weighed = nodes.join(ways, F.col("c") == F.col("x")).drop("x").localCheckpoint()
    drawn, later, found = _begun(graph, weighed.filter("source"), plan), weighed.filter("NOT source"), []
    while True:
        drawn = drawn.localCheckpoint()
        found.append(drawn.filter("sink"))
        going = drawn.filter("NOT sink").drop("ways")
        if going.isEmpty():
            break
        path = F.concat("path_0", "path").alias("path")
        columns = [path if name == "path" else F.col(name) for name in later.columns]
        told = [F.col("id_0").alias("id"), F.col("rest_0").alias("rest")]
        pairs = [cells.followed(F.broadcast(going), later).select(*columns, *told) for cells in graph.cells]
        drawn = _of_number(union(pairs), ["n", "q"])
    shown = Shown.of(plan.source)
    keys = [f"k{plan.source.keys.index(name)}" for name in shown.keys]
    answer = union(found).select(*keys, *plan.source.window, "path").toDF(*shown.names())
    return Rows(answer, graph.frame)


def _slim(graph: JoinedGraph, *more: Column) -> DataFrame:
    """The nodes with what rounds need of them, and more."""
    nodes = graph.linked
    own = [name for name in nodes.columns if name != "n" and (name != "e" or graph.plan.compiled.lists)]
    return nodes.select(*own, *more).localCheckpoint()


def _fronts(graph: JoinedGraph, nodes: DataFrame, *, forward: bool) -> Iterator[DataFrame]:
    """Yields for 1, 2, ... events the nodes to which so long paths lead from a source, and in how many ``ways``.

    Not ``forward``, those from which so long paths lead to a sink.
    """
    first, last = ("source", "sink") if forward else ("sink", "source")
    own = [name for name in nodes.columns if name not in ("path", "n")]
    others = nodes.select(*own).filter(~F.col(first))
    front = nodes.select(*own).filter(first).withColumn("ways", F.lit(1).cast(_COUNT))
    number = 0
    while True:
        front = front.localCheckpoint()
        number, size, going = number + 1, front.count(), front.filter(~F.col(last))
        _LOG.info("round %d: %d vertices", number, size)
        if size == 0 and number > 1:
            return
        yield front
        going = F.broadcast(going) if size <= FEW_ROWS else going
        if forward:
            columns = [*map(F.col, own), F.col("ways_0").alias("ways")]
            pairs = [cells.followed(going, others).select(*columns) for cells in graph.cells]
        else:
            columns = [*(F.col(f"{name}_0").alias(name) for name in own), F.col("ways")]
            pairs = [cells.followed(others, going).select(*columns) for cells in graph.cells]
        if not pairs:
            return
        front = union(pairs).groupBy(*own).agg(_total().alias("ways"))


def _total() -> Column:
    """The sum of ``ways``, NULL if there are none; an error beyond 38 digits."""
    hint = "give the Python workers memory for the group, whose trends a task then counts without a bound"
    error = raised(CountOverflow, "a number of trends has more than 38 digits", hint=hint, kind=_COUNT)
    return F.when(F.count("*") > 0, F.coalesce(F.try_sum("ways"), error))


def _begun(graph: JoinedGraph, starts: DataFrame, plan: SampleJoined) -> DataFrame:
    """Draws numbers of paths: the event that each begins with, and its number among the paths that do (``rest``)."""
    place = F.xxhash64(*graph.by, "n", "q")
    starts = starts.withColumns({"place": place, "z": F.pmod(place, F.lit(_PARTS))})
    sums = {row["z"]: int(row["ways"]) for row in starts.groupBy("z").agg(_total().alias("ways")).collect()}
    parts = sorted(sums)
    ends = list(accumulate(sums[part] for part in parts))
    picks = []
    for id_, number in enumerate(_numbers(ends[-1] if ends else 0, plan.size, random.Random(plan.seed))):
        part = bisect_right(ends, number)
        picks.append((id_, parts[part], Decimal(number - (ends[part - 1] if part else 0))))
    told = starts.sparkSession.createDataFrame(picks, f"id int, part bigint, rest {_COUNT}")
    rows = starts.join(F.broadcast(told), F.col("z") == F.col("part")).drop("z", "part")
    return _of_number(rows, ["place", "n", "q"]).drop("place")


def _numbers(total: int, size: int, chance: random.Random) -> list[int]:
    """Draws so many different numbers below the total, or all of them.

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


def _of_number(rows: DataFrame, order: list[str]) -> DataFrame:
    """Keeps that row of each ``id`` among whose ways the number ``rest`` is, and leaves the number among these."""
    before = Window.partitionBy("id").orderBy(*order).rowsBetween(Window.unboundedPreceding, -1)
    passed = rows.withColumn("passed", F.coalesce(F.sum("ways").over(before), F.lit(0).cast(_COUNT)))
    here = passed.filter((F.col("passed") <= F.col("rest")) & (F.col("rest") - F.col("passed") < F.col("ways")))
    return here.withColumn("rest", (F.col("rest") - F.col("passed")).cast(_COUNT)).drop("passed")
