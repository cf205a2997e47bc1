"""Arcs: the edges that no longer path bypasses, which "maximal" trends follow; Spark's joins find and follow them.

:mod:`cetdsl.execution.cells` finds the events that may follow another one without listing edges, but it cannot find the
edges that a longer path bypasses. So this module lists all edges, and computes their transitive reduction: rounds of
joins go from each event that several others follow to all events that can be reached from it. A path that bypasses an
edge ends where the edge ends, so no round goes beyond the last direct follower of the first event. No task holds a
group. The time grows with the number of pairs of an event and an event reached from it in this way.
"""

from __future__ import annotations

import logging

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cetdsl.errors import GroupTooLarge
from cetdsl.execution.cells import FEW_ROWS, kept, tasks_for
from cetdsl.execution.expressions import union

_LOG = logging.getLogger("cetdsl.joins")
#: The most edges that joins list; each takes 24 bytes, and paths join some ten times as many pairs of events.
MOST_PAIRS = 10**9
#: If a round reaches its pairs along so many paths each, on average, earlier rounds have reached most of them, too.
_MERGING = 2


def refuse_many(pairs: int) -> None:
    """Raises if so many pairs of events have equal values that their edges would fill the disks."""
    if pairs > MOST_PAIRS:
        raise GroupTooLarge(
            f'joins list the edges of "maximal" trends, and {pairs:,} pairs of events have the equal values that an '
            f"edge needs, more than {MOST_PAIRS:,}",
            hint='ask for completeness="ends", whose edges are not listed, or partition by values that all events of a '
            "trend share, as by WHERE [account]",
        )


class Arcs:
    """Steps from node to node along a list of edges, which has a row for each: from the node ``x`` to the node ``y``.

    It has the methods of :class:`~cetdsl.execution.cells.Cells`, so that searches for paths take either.

    Nodes are rows with a number ``c``, which ``x`` and ``y`` refer to. The edges should be checkpointed, as each search
    reads them again.
    """

    #: The columns of a node that determine its followers.
    leading = frozenset(["c"])

    def __init__(self, edges: DataFrame) -> None:
        self._edges = edges

    def side(self, nodes: DataFrame) -> DataFrame:
        """Returns the given nodes joined with their incoming edges, one row per edge, checkpointed for all rounds.

        The column ``x`` of a row is the node that the edge comes from.
        """
        return self._ends(nodes).localCheckpoint()

    def _ends(self, nodes: DataFrame) -> DataFrame:
        return self._edges.join(nodes, F.col("y") == F.col("c")).drop("y")

    def spread(self, side: DataFrame, size: int) -> DataFrame:
        """Returns the rows of a :meth:`side`, ``size`` of them, in the tasks that look for followers."""
        return side.repartition(tasks_for(side.sparkSession, size), "x")

    def followed(self, earlier: DataFrame, side: DataFrame) -> DataFrame:
        """Joins rows to the nodes of a :meth:`side` that follow them; the columns of the rows end with ``_0``."""
        rows = earlier.toDF(*(f"{name}_0" for name in earlier.columns))
        return rows.join(side, F.col("c_0") == F.col("x")).drop("x")

    def preceded(self, earlier: DataFrame, later: DataFrame) -> DataFrame:
        """Finds the same pairs as :meth:`followed`, for later nodes few enough to be sent to all tasks."""
        return self.followed(earlier, self._ends(F.broadcast(later)))


def reduced(edges: DataFrame) -> DataFrame:
    """Returns the edges ``x`` to ``y`` that no longer path bypasses: the transitive reduction.

    The edges are those of a graph without cycles; ``v`` is the time of the later event.
    """
    edges = edges.localCheckpoint()
    begun = edges.repartition(tasks_for(edges.sparkSession, edges.count()), "x")
    with kept([begun]):
        found = _reached(begun)
        if not found:
            return edges.select("x", "y")
        around = union(found)
        same = (F.col("x") == F.col("a")) & (F.col("y") == F.col("z"))
        return edges.join(around, same, "left_anti").select("x", "y").localCheckpoint()


def _reached(edges: DataFrame) -> list[DataFrame]:
    """Returns, for paths of 2, 3, ... edges, the pairs of their first node ``a`` and their last node ``z``.

    Paths do not begin with nodes that have only one outgoing edge, as no longer path bypasses it.
    """
    several = edges.groupBy("x").agg(F.count("*").alias("edges"), F.max("v").alias("last")).filter("edges > 1")
    begun = several.select(F.col("x").alias("a"), "last")
    front = edges.join(begun, F.col("x") == F.col("a")).select("a", F.col("y").alias("z"), "last")
    found = list[DataFrame]()
    few = merging = False
    while True:
        front = F.broadcast(front) if few else front
        paths = front.join(edges if few else edges.hint("shuffle_hash"), F.col("z") == F.col("x"))
        paths = paths.filter(F.col("v") <= F.col("last")).select("a", F.col("y").alias("z"), "last")
        met = paths.groupBy("a", "z", "last").agg(F.count("*").alias("ways"))
        met = met.localCheckpoint(eager=False, storageLevel=StorageLevel.DISK_ONLY)
        size, ways = met.agg(F.count("*"), F.sum("ways")).first() or (0, 0)
        _LOG.info("%d pairs are joined by paths of %d edges", size, len(found) + 2)
        if size == 0:
            return found
        few, merging = size <= FEW_ROWS, merging or ways > _MERGING * size
        front = met.drop("ways")
        if merging:
            known = union([edges.select(F.col("x").alias("a"), F.col("y").alias("z")), *found])
            front = front.join(known, ["a", "z"], "left_anti")
        found.append(met.select("a", "z"))
