"""Cells: by which joins find the events that may follow another one, without listing the edges between them.

Each transition groups its later events into *lists*, one per value of its equalities. A list of many events is cut into
*ranges* of values and *slices* of time, both by quantiles, so that neither outliers nor hot values put most events into
one of them. A *cell* is the intersection of a range and a slice. A *from-edge* leads from a cell to each event in it. A
*to-edge* leads from an event to consecutive ranges, and to the slices from its own time on. Both are columns of the
event's row, so they take O(n) space, and a join on cells finds the pairs of events. So a hot value is salted by time:
its pairs are spread over as many tasks as it has cells, and no pair is found twice.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, NumericType, StructField, TimestampNTZType, TimestampType

from cetdsl.analysis.types import is_collated
from cetdsl.execution.compat import noted_type, parallelism
from cetdsl.execution.expressions import combine
from cetdsl.execution.source import EventFrame
from cetdsl.ir.machine import Comparison
from cetdsl.ir.transitions import RISING, Transition
from cetdsl.pattern.expressions import HOLDS

#: About how many events a cell has; lists of fewer events are not cut.
_CELL_EVENTS = 512
#: The most ranges of values, and the most slices of time, of one list.
_MOST_PARTS = 64
_QUANTILES = [number / _MOST_PARTS for number in range(1, _MOST_PARTS)]
#: About how many rows of a side of a join are in one task.
_TASK_EVENTS = 200_000
#: Up to so many rows are broadcast, which saves a shuffle of the rows that they are joined with.
FEW_ROWS = 200_000
#: The accuracy of approximate quantiles: ranks are right to one part in so many.
_ACCURACY = 1000
_WITH_QUANTILES = (NumericType, DateType, TimestampType, TimestampNTZType)


class Cells:
    """The from-edges and to-edges over nodes, of the transition with a ``number``.

    Nodes are rows with a struct of key and window ``g``, a state ``q``, the columns ``instant`` that order events, of
    which ``u`` is the time, compared values ``f0``, ..., and events ``e``. The constructor adds further columns, in the
    attribute ``nodes``, which all methods but :meth:`usable` expect. It runs a job to find the lists to cut.
    """

    def __init__(
        self, number: int, transition: Transition, frame: EventFrame, instant: list[str], nodes: DataFrame
    ) -> None:
        self.transition = transition
        self._frame = frame
        self._instant = instant
        self._cell, self._low, self._high, self._slice, self._slices = self._names = [
            f"{name}{number}" for name in ("cell", "low", "high", "slice", "slices")
        ]
        first = transition.order
        self._ranged = first is not None and isinstance(nodes.schema[f"f{first.later}"].dataType, _WITH_QUANTILES)
        compared = {code for c in transition.equalities for code in (c.later, c.earlier)}
        self._is_numbered = all(_tells_by_bytes(nodes.schema[name]) for name in ("g", *(f"f{n}" for n in compared)))
        cuts = self._cuts(nodes)
        self._is_cut = cuts is not None
        self.nodes = nodes if cuts is None else self._placed(nodes, cuts)

    def usable(self, *, later: bool) -> Column:
        """Whether a node's state, and values that are not NULL, let it be the later (or earlier) end of an edge."""
        edge = self.transition.edge
        state = F.col("q") == (edge.target if later else edge.source)
        used = {c.later if later else c.earlier for c in (*self.transition.index, *self.transition.rest)}
        return combine(operator.and_, [state, *(F.col(f"f{n}").isNotNull() for n in sorted(used))])

    def _listed(self, *, later: bool, suffix: str = "") -> list[Column]:
        """Returns the columns that name the list of a node: key and window, and the values that equalities compare."""
        codes = (c.later if later else c.earlier for c in self.transition.equalities)
        return [F.col(f"g{suffix}"), *(F.col(f"f{code}{suffix}") for code in codes)]

    def _named_lists(self, *, later: bool) -> list[Column]:
        """Returns the columns of the list as ``h0``, ``h1``, ..., to group nodes by."""
        return [column.alias(f"h{n}") for n, column in enumerate(self._listed(later=later))]

    @property
    def leading(self) -> frozenset[str]:
        """The columns of a node that determine its followers."""
        compared = (*self.transition.index, *self.transition.rest)
        stretch = self._names[1:] if self._is_cut else []
        event = ["e"] if self.transition.edge.listed else []
        return frozenset(["g", "q", *self._instant, *(f"f{c.earlier}" for c in compared), *stretch, *event])

    # -- from-edges and to-edges -----------------------------------------------------------------------------------

    def _cuts(self, nodes: DataFrame) -> DataFrame | None:
        """Returns how long lists are cut: quantiles of ``times`` and ``values``, and the number of ``parts``."""
        names = [f"h{n}" for n in range(len(self.transition.equalities) + 1)]
        lists = self._named_lists(later=True)
        later = nodes.filter(self.usable(later=True))
        sizes = later.groupBy(*lists).agg(F.count("*").alias("size")).filter(F.col("size") > _CELL_EVENTS)
        sizes = sizes.localCheckpoint()
        if sizes.isEmpty():
            return None
        cells = F.col("size") / _CELL_EVENTS
        parts = F.least(F.ceil(F.sqrt(cells) if self._ranged else cells), F.lit(_MOST_PARTS)).cast("int")
        quantiles = [F.percentile_approx("u", _QUANTILES, _ACCURACY).alias("times")]
        if self._ranged:
            value = F.col(f"f{self.transition.orders[0].later}")
            quantiles.append(F.percentile_approx(value, _QUANTILES, _ACCURACY).alias("values"))
        heavy = later.join(sizes, self._same(names, later=True))
        return heavy.groupBy(*names).agg(*quantiles, F.max(parts).alias("parts")).localCheckpoint()

    def _same(self, names: list[str], *, later: bool) -> Column:
        return combine(operator.and_, [F.col(n) == c for n, c in zip(names, self._listed(later=later), strict=True)])

    def _placed(self, nodes: DataFrame, cuts: DataFrame) -> DataFrame:
        """Adds the from-edge and the to-edge of each node; an uncut list has only one cell."""
        names = [name for name in cuts.columns if name.startswith("h")]
        last, time = F.col("parts") - 1, _part("u", "times")
        low, high, value = [F.lit(0), F.lit(0)], [F.lit(0), F.lit(0)], F.lit(0)
        if self._ranged:
            value, high = _part(f"f{self.transition.orders[0].later}", "values"), [last, last]
            for c in self.transition.orders:
                (low if c.op in RISING else high).append(_part(f"f{c.earlier}", "values"))
        from_edge = [(value * _MOST_PARTS + time, 0)]
        to_edge = [(F.greatest(*low), 0), (F.least(*high), 0), (time, 0), (F.col("parts"), 1)]
        for later, named, found in ((True, self._names[:1], from_edge), (False, self._names[1:], to_edge)):
            is_cut = self.usable(later=later) & F.col("parts").isNotNull()
            columns = [
                F.when(is_cut, column).otherwise(uncut).alias(name)
                for name, (column, uncut) in zip(named, found, strict=True)
            ]
            nodes = nodes.join(cuts, self._same(names, later=later), "left").select(*nodes.columns, *columns)
        return nodes

    # -- pairs -----------------------------------------------------------------------------------------------------

    def followed(self, earlier: DataFrame, later: DataFrame) -> DataFrame:
        """Joins rows to the nodes that may follow them; the columns of the rows get the suffix ``_0``.

        The rows have the columns of nodes, and may have others.
        """
        rows, nodes, meet = self._sides(earlier, later)
        return rows.join(nodes, meet)

    def pairs(self, nodes: DataFrame) -> int:
        """Returns how many pairs of an earlier and a later node have equal values, in whatever order of time."""
        sizes = []
        for later in (False, True):
            side = nodes.filter(self.usable(later=later)).groupBy(*self._named_lists(later=later))
            sizes.append(side.agg(F.count("*").cast("double").alias("later" if later else "earlier")))
        names = [name for name in sizes[0].columns if name.startswith("h")]
        found = sizes[0].join(sizes[1], names).agg(F.sum(F.col("earlier") * F.col("later"))).first()
        return int(found[0] or 0) if found else 0

    def side(self, nodes: DataFrame) -> DataFrame:
        """Returns those of the nodes that can be the later end of an edge."""
        return nodes.filter(self.usable(later=True))

    def spread(self, side: DataFrame, size: int) -> DataFrame:
        """Distributes the ``size`` nodes of a :meth:`side` to the tasks that look for followers.

        If the result is :func:`kept`, rounds of :meth:`followed` shuffle only the rows, and none of these nodes.
        """
        meet = [self._place] if self._is_numbered else self._stands()
        return side.repartition(tasks_for(side.sparkSession, size), *meet)

    def _stands(self) -> list[Column]:
        """The columns of the list and the cell of a later event."""
        return [*self._listed(later=True), *([F.col(self._cell)] if self._is_cut else [])]

    @property
    def _place(self) -> Column:
        """A hash of the list and the cell of a later event."""
        return F.xxhash64(*self._stands())

    def preceded(self, earlier: DataFrame, later: DataFrame) -> DataFrame:
        """Finds the same pairs as :meth:`followed`: broadcasts the later rows, which are few, and shuffles nothing."""
        rows = earlier.filter(self.usable(later=False))
        rows = rows.toDF(*(f"{name}_0" for name in rows.columns))
        keys = zip(self._listed(later=False, suffix="_0"), self._listed(later=True), strict=True)
        meet = combine(operator.and_, [*(one == other for one, other in keys), *self._tests()])
        return rows.join(F.broadcast(later.filter(self.usable(later=True))), meet)

    def _sides(self, earlier: DataFrame, later: DataFrame) -> tuple[DataFrame, DataFrame, Column]:
        """Returns the earlier rows, once for each cell that they lead to, the later nodes, and the join condition.

        Spark joins faster by one whole number than by several values. So the join key is a hash of list and cell, and
        the values are compared afterwards: by two inequalities each, as Spark would add equalities to the join key.
        """
        rows, x = earlier.filter(self.usable(later=False)), []
        if self._is_cut:
            ranges = F.sequence(self._low, self._high)
            slices = F.sequence(F.col(self._slice), F.col(self._slices) - 1)
            cells = F.flatten(F.transform(ranges, lambda r: F.transform(slices, lambda s: r * _MOST_PARTS + s)))
            rows = rows.filter(F.col(self._low) <= F.col(self._high)).withColumn("x", F.explode(cells))
            x = ["x"]
        rows = rows.withColumn("meets", F.xxhash64(*self._listed(later=False), *x))
        rows = rows.toDF(*(f"{name}_0" for name in rows.columns))
        leads = [*self._listed(later=False, suffix="_0"), *(F.col(f"{name}_0") for name in x)]
        values = list(zip(leads, self._stands(), strict=True))
        if self._is_numbered:
            bounds = (test for one, other in values for test in (one <= other, one >= other))
            same = [F.col("meets_0") == self._place, *bounds]
        else:
            same = [one == other for one, other in values]
        return rows, self.side(later), combine(operator.and_, [*same, *self._tests()])

    def _tests(self) -> Iterator[Column]:
        """Yields the conditions that two events of a cell must still pass."""
        yield self._time("_0") < self._time()
        for c in (*self.transition.orders[:1], *self.transition.rest):
            yield HOLDS[c.op](F.col(f"f{c.later}"), F.col(f"f{c.earlier}_0"))
        for number in self.transition.edge.listed:
            yield self._frame.satisfy(self._frame.compiled.lists[number], F.col("e_0"), F.col("e"))

    # -- whether there is a neighbour at all -----------------------------------------------------------------------

    def marked(self, nodes: DataFrame, others: DataFrame, *, forward: bool) -> DataFrame:
        """Adds whether a node is ``linked``: it follows one of the ``others`` (``forward``), or one of them follows it.

        If the transition has only equalities and at most one order or ``!=``, extremes of times decide this, and the
        work is linear in the nodes, except for sorting. Otherwise pairs are tested until one is found.
        """
        asking = nodes.filter(self.usable(later=forward))
        giving = others.filter(self.usable(later=not forward))
        transition = self.transition
        if transition.edge.listed or len(transition.rest) + (transition.order is not None) > 1:
            rows, found, meet = self._sides(nodes if not forward else others, others if not forward else nodes)
            marked = found.join(rows, meet, "left_semi") if forward else _distinct(rows.join(found, meet, "left_semi"))
            marks = marked.select(F.col("c" if forward else "c_0").alias("x"), F.lit(True).alias("linked"))
            every = nodes.join(marks, F.col("c") == F.col("x"), "left").drop("x")
            return every.withColumn("linked", F.coalesce("linked", F.lit(False)))
        if transition.order is not None:
            found = self._beyond_bound(asking, giving, transition.order, forward=forward)
        elif transition.rest:
            found = self._of_another_value(asking, giving, transition.rest[0], forward=forward)
        else:
            best = self._extremes(giving, [], forward=forward)
            found = self._compared(asking, best, forward=forward)
        return found.unionByName(nodes.filter(~self.usable(later=forward)).withColumn("linked", F.lit(False)))

    def _time(self, suffix: str = "") -> Column:
        """Returns the column that orders events: a plain number if possible, which Spark aggregates without sorting."""
        columns = [F.col(f"{name}{suffix}") for name in self._instant]
        return columns[0] if len(columns) == 1 else F.struct(*columns)

    def _extremes(self, giving: DataFrame, more: list[Column], *, forward: bool) -> DataFrame:
        """Returns for each list the instant ``best``: the first of the earlier events, or the last of later ones."""
        return giving.groupBy(*self._named_lists(later=not forward), *more).agg(
            (F.min if forward else F.max)(self._time()).alias("best")
        )

    def _compared(self, asking: DataFrame, best: DataFrame, *, forward: bool) -> DataFrame:
        """Adds whether the best instant of a node's list is before the node (``forward``), or after it."""
        names = [name for name in best.columns if name.startswith("h")]
        rows = asking.join(best.hint("shuffle_hash"), self._same(names, later=forward), "left")
        beats = self._time() > F.col("best") if forward else self._time() < F.col("best")
        return rows.select(*asking.columns, F.coalesce(beats, F.lit(False)).alias("linked"))

    def _of_another_value(self, asking: DataFrame, giving: DataFrame, other: Comparison, *, forward: bool) -> DataFrame:
        """Adds whether a node's list has an event of another value before the node (``forward``), or after it.

        Two instants of each list suffice: the best one, and the best one among events of other values than that of the
        first.
        """
        asked, given = (f"f{c}" for c in ((other.later, other.earlier) if forward else (other.earlier, other.later)))
        best = self._extremes(giving, [F.col(given).alias("y")], forward=forward)
        names = [name for name in best.columns if name.startswith("h")]
        order = F.col("best").asc() if forward else F.col("best").desc()
        place = F.row_number().over(Window.partitionBy(*names).orderBy(order)).alias("place")
        two = best.select("*", place).filter("place <= 2").groupBy(*names)
        first, second = ({n: F.max(F.when(F.col("place") == p, F.col(n))) for n in ("best", "y")} for p in (1, 2))
        sums = two.agg(first["best"].alias("b1"), first["y"].alias("y1"), second["best"].alias("b2"))
        rows = asking.join(sums, self._same(names, later=forward), "left")
        best_other = F.when(F.col(asked) == F.col("y1"), F.col("b2")).otherwise(F.col("b1"))
        beats = self._time() > best_other if forward else self._time() < best_other
        return rows.select(*asking.columns, F.coalesce(beats, F.lit(False)).alias("linked"))

    def _beyond_bound(self, asking: DataFrame, giving: DataFrame, order: Comparison, *, forward: bool) -> DataFrame:
        """Adds whether a node's list has an event within the node's bound that is before (``forward``) or after it.

        A scan along the values, range by range, carries the best instant so far.
        """
        # At equal values, bounds come first if the order allows equality.
        ascending = (order.op in RISING) == forward
        given = self._along(giving, order, later=not forward).withColumn("best", self._time())
        rows = self._along(asking, order, later=forward).withColumn("gives", F.lit(False))
        given = given.select(*set(given.columns).difference(giving.columns), F.lit(True).alias("gives"))
        rows = rows.unionByName(given, allowMissingColumns=True)
        names = [f"h{n}" for n in range(len(self._listed(later=True)))]
        extreme = F.min if forward else F.max
        allowed = F.col("gives").desc() if order.op in (">=", "<=") else F.col("gives").asc()
        along = [F.col("y").asc() if ascending else F.col("y").desc(), allowed]
        inside = Window.partitionBy(*names, "z").orderBy(*along).rowsBetween(Window.unboundedPreceding, 0)
        ranges = rows.groupBy(*names, "z").agg(extreme("best").alias("best"))
        before = Window.partitionBy(*names).orderBy(F.col("z").asc() if ascending else F.col("z").desc())
        before = before.rowsBetween(Window.unboundedPreceding, -1)
        names_ahead = [*names, "z"]
        ahead = ranges.select(
            *(F.col(n).alias(f"a_{n}") for n in names_ahead), extreme("best").over(before).alias("ahead")
        )
        same = combine(operator.and_, [F.col(n) == F.col(f"a_{n}") for n in names_ahead])
        here = rows.withColumn("here", extreme("best").over(inside)).filter(~F.col("gives")).join(ahead, same)
        time = self._time()
        beats = [time > F.col(n) if forward else time < F.col(n) for n in ("here", "ahead")]
        found = combine(operator.or_, [F.coalesce(beat, F.lit(False)) for beat in beats])
        return here.select(*asking.columns, found.alias("linked"))

    def _along(self, rows: DataFrame, order: Comparison, *, later: bool) -> DataFrame:
        """Adds the list ``h0``, ... of each node, its value or bound ``y``, and the range ``z`` that this lies in."""
        lists = {f"h{n}": column for n, column in enumerate(self._listed(later=later))}
        value = F.col(f"f{order.later if later else order.earlier}")
        return rows.withColumns({**lists, "y": value, "z": self._range(order, later=later)})

    def _range(self, order: Comparison, *, later: bool) -> Column:
        """The range that a value of the later event, or a bound, lies in."""
        if not (self._is_cut and self._ranged):
            return F.lit(0)
        if later:
            return F.floor(F.col(self._cell) / _MOST_PARTS).cast("int")
        return F.col(self._low if order.op in RISING else self._high)


@contextmanager
def kept(parts: list[DataFrame]) -> Iterator[None]:
    """Persists DataFrames while the block runs; unlike checkpoints, these remember how their rows are partitioned."""
    for part in parts:
        part.persist().count()
    try:
        yield
    finally:
        for part in parts:
            part.unpersist()


def tasks_for(session: SparkSession, size: int) -> int:
    """Returns the number of tasks for ``size`` rows that are kept between rounds of joins."""
    return max(parallelism(session), -(-size // _TASK_EVENTS))


def _tells_by_bytes(field: StructField) -> bool:
    """Whether equal values of a column have the same bytes: texts may not, by a collation or the padding of CHAR(n)."""
    return not is_collated(field.dataType.simpleString()) and noted_type(field) is None


def _distinct(rows: DataFrame) -> DataFrame:
    return rows.select("c_0").distinct()


def _part(column: str, quantiles: str) -> Column:
    """Returns the number of the part of a list in which a value lies, from the number of quantiles up to the value."""
    below = F.size(F.filter(quantiles, lambda quantile: quantile <= F.col(column)))
    return F.floor(below * F.col("parts") / _MOST_PARTS).cast("int")
