"""Builds the graphs of large keys by Spark's joins alone, so that no task needs to hold all events of a key.

Attribute vertices are found by sorting. The bounds of earlier events and the values of later events are sorted
together, so that the number of bounds up to a value is the number of the value's range. Running counts (of events in
order of time, of bounds in order of value) are computed by many tasks, each of which has a *section* of the times or
values of a key; quantiles divide these into sections. :mod:`cetdsl.execution.cells` finds the pairs of events that
edges join, and :mod:`cetdsl.execution.arcs` the edges among them that "maximal" trends follow.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import cached_property

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from cetdsl.execution.arcs import Arcs, reduced, refuse_many
from cetdsl.execution.cells import Cells
from cetdsl.execution.expressions import combine, union
from cetdsl.execution.fold import refuse_nulls
from cetdsl.execution.source import EventFrame, Terms
from cetdsl.execution.vertices import place_names, value_names
from cetdsl.ir.kernel import MAXIMAL
from cetdsl.ir.operators import ShowGraph
from cetdsl.ir.transitions import RISING, transitions_of


class JoinedGraph:
    """A graph that Spark's joins build; :mod:`cetdsl.execution.vertices` describes its parts.

    The parts whose size is proportional to the events are computed and checkpointed when one of them is first
    requested; edges, of which there may be many more, are not. If some state is not both initial and final, rounds of
    joins find the events that lie on trends: forwards from the first events, and backwards from the last ones. These
    rounds list no edges, and neither does finding out where trends begin and end.

    Events are ``numbered`` in the order of time if the answer shows the numbers, or ``marked`` with a hash ``i`` of
    their columns if their order must be the same whenever they are computed.
    """

    def __init__(self, df: DataFrame, plan: ShowGraph, *, numbered: bool = True, marked: bool = False) -> None:
        self.plan = plan
        self.frame = EventFrame(df, plan.source, plan.compiled)
        self.machine = plan.compiled.machine
        self.initial = [state for state, _ in self.machine.initial]
        self.final = [state for state, _ in self.machine.final]
        self.by = place_names(plan.source)
        self.instant = ["u", *(f"b{n}" for n in range(len(plan.source.tie_break)))]
        self.transitions = transitions_of(self.machine)
        self._numbered, self._marked = numbered, marked

    def vertices(self) -> DataFrame:
        return self.linked.select(
            *self.by,
            "n",
            "q",
            F.col("q").isin(self.initial).alias("first"),
            F.col("q").isin(self.final).alias("last"),
            "source",
            "sink",
            self.event().alias("event"),
        )

    def event(self) -> Column:
        """The columns that a node shows of its event."""
        return F.struct(*(F.col("e").getField(self.frame.own_name(name)).alias(name) for name in self.plan.columns))

    def edges(self) -> DataFrame:
        return self._pairs(self.cells)

    def direct(self) -> DataFrame:
        return self._pairs([cells for cells in self.cells if not cells.transition.is_separable])

    def _pairs(self, cells: list[Cells]) -> DataFrame:
        """Returns the edges as rows: key, window, number and state of the earlier node, and of the later node."""
        nodes = self._useful
        ends = [
            F.col(name).alias(f"{name[0]}{end}") for end, names in enumerate((("n_0", "q_0"), "nq")) for name in names
        ]
        if not cells:
            return nodes.withColumns({"n_0": F.col("n"), "q_0": F.col("q")}).select(*self.by, *ends).limit(0)
        return union([one.followed(nodes, nodes).select(*self.by, *ends) for one in cells])

    def attributes(self) -> DataFrame:
        return self._listed(_Ranges.attributes, "a")

    def from_edges(self) -> DataFrame:
        return self._listed(lambda ranges: ranges.later, "a", "n")

    def to_edges(self) -> DataFrame:
        return self._listed(lambda ranges: ranges.earlier, "n", "begin", "end")

    def _listed(self, part: Callable[[_Ranges], DataFrame], *more: str) -> DataFrame:
        """Unites one part of the attribute vertices of all separable transitions, with the columns of all of them."""
        separable = self._separable
        if not separable:
            columns = [F.lit(0).alias("transition"), *(_whole(0).alias(name) for name in more)]
            return self._placed.select(*self.by, *columns).limit(0)
        found = []
        for number, ranges in enumerate(separable):
            rows = part(ranges).withColumn("transition", F.lit(number))
            named = {f"v{k}": f"v{number}_{k}" for k in range(len(ranges.transition.equalities))}
            if "low" in rows.columns:
                named |= {"low": f"low{number}", "high": f"high{number}"}
            found.append(rows.select(*self.by, "transition", *named, *more).withColumnsRenamed(named))
        together = union(found)
        bounds = [name for name in together.columns if name.startswith(("low", "high"))]
        return together.select(
            *self.by, "transition", *value_names([ranges.transition for ranges in separable]), *more, *bounds
        )

    @cached_property
    def linked(self) -> DataFrame:
        """The nodes that lie on a trend, each with whether it is a ``source`` and a ``sink``; one round finds each."""
        nodes = self._useful
        for forward, flag in ((True, "source"), (False, "sink")):
            nodes = self._neighbours(nodes, self._useful, forward=forward)
            nodes = nodes.withColumn(flag, ~F.col("linked")).drop("linked")
        return nodes

    @cached_property
    def _placed(self) -> DataFrame:
        return self._cells_of[0]

    @cached_property
    def cells(self) -> list[Cells]:
        """The :class:`Cells` of each transition, over the nodes that lie on a trend."""
        return self._cells_of[1]

    @cached_property
    def steps(self) -> Sequence[Cells | Arcs]:
        """The steps of complete trends: cells, or for "maximal" ones the edges that no longer path bypasses."""
        if self.plan.spec.query.completeness != MAXIMAL or not self.cells:
            return self.cells
        nodes = self._useful
        refuse_many(sum(cells.pairs(nodes) for cells in self.cells))
        ends = [F.col("c_0").alias("x"), F.col("c").alias("y"), F.col("u").alias("v")]
        return [Arcs(reduced(union([cells.followed(nodes, nodes).select(*ends) for cells in self.cells])))]

    @cached_property
    def _cells_of(self) -> tuple[DataFrame, list[Cells]]:
        raw = nodes = self._nodes()
        found: list[Cells] = []
        for number, transition in enumerate(self.transitions):
            found.append(Cells(number, transition, self.frame, self.instant, nodes))
            nodes = found[-1].nodes
        return nodes if nodes is raw else nodes.localCheckpoint(), found

    def _nodes(self) -> DataFrame:
        """One row per event and state that it may be in: K, ``g``, ``n``, ``q``, ``c``, values, and the event ``e``."""
        events = place_events(self.frame, self.plan.columns)
        if self._numbered:
            order = [F.col(name) for name in (*self.instant, "m", "i")]
            sections = _in_sections(events.withColumn("one", F.lit(1)), self.by, order)
            events = _counted(sections, self.by, order, "one").withColumn("n", F.col("so_far") - 1)
        states = [
            F.when(F.col("m").bitwiseAND(F.lit(1 << variable)) != 0, F.lit(state))
            for state, variable in enumerate(self.machine.variables)
        ]
        named = events.withColumn("q", F.explode(F.array_compact(F.array(*states))))
        place = F.struct(*self.by) if self.by else F.lit(0)
        named = named.withColumns({"g": place, "c": F.monotonically_increasing_id()})
        codes = [f"f{n}" for n in range(len(self.plan.compiled.codes))]
        more = [name for name, wanted in (("n", self._numbered), ("i", self._marked)) if wanted]
        return named.select(*self.by, "g", *more, "q", "c", *self.instant, *codes, "e").localCheckpoint()

    @cached_property
    def _useful(self) -> DataFrame:
        """The nodes that lie on a trend."""
        states = set(range(len(self.machine.variables)))
        if set(self.initial) == states == set(self.final):
            return self._placed
        forward = self._reached(self._placed, self.initial, forward=True)
        return self._reached(forward, self.final, forward=False)

    def _reached(self, nodes: DataFrame, states: list[int], *, forward: bool) -> DataFrame:
        """Returns the nodes that paths reach from nodes in ``states``, or (not ``forward``) that reach these."""
        front, waiting = nodes.filter(F.col("q").isin(states)), nodes.filter(~F.col("q").isin(states))
        fronts = [front]
        while True:
            marked = self._neighbours(waiting, front, forward=forward).localCheckpoint()
            front = marked.filter("linked").drop("linked")
            if front.isEmpty():
                return union(fronts).localCheckpoint()
            fronts.append(front)
            waiting = marked.filter("NOT linked").drop("linked")

    def _neighbours(self, nodes: DataFrame, others: DataFrame, *, forward: bool) -> DataFrame:
        """Adds whether each node is ``linked``: it follows one of the others, or (not ``forward``) one follows it."""
        found = [cells.marked(nodes, others, forward=forward) for cells in self.cells]
        if len(found) == 1:
            return found[0]
        # Each transition marks the plain nodes. Its plan has the nodes twice, so that marking the result of another
        # transition would double the plan each time.
        marks = [rows.filter("linked").select(F.col("c").alias("x")) for rows in found]
        if not marks:
            return nodes.withColumn("linked", F.lit(False))
        linked = F.col("x").isNotNull().alias("linked")
        return nodes.join(union(marks).distinct(), F.col("c") == F.col("x"), "left").select(*nodes.columns, linked)

    @cached_property
    def _separable(self) -> list[_Ranges]:
        """The attribute vertices between useful nodes."""
        return [_Ranges(self, cells, self._useful) for cells in self.cells if cells.transition.is_separable]


class _Ranges:
    """The attribute vertices of one transition."""

    def __init__(self, graph: JoinedGraph, cells: Cells, nodes: DataFrame) -> None:
        # It does not refer to the graph itself: a cycle of objects would leave checkpoints to the garbage collector,
        # which may run while Spark Connect's client holds the lock that releasing a checkpoint needs: a deadlock.
        self.by = graph.by
        self.transition = cells.transition
        self._cells = cells
        self.nodes = nodes
        self.values = [f"v{k}" for k in range(len(self.transition.equalities))]
        self.list = [*self.by, *self.values]

    @cached_property
    def earlier(self) -> DataFrame:
        """The earlier events with their range of attribute vertices, from ``begin`` to before ``end``."""
        if self.transition.order is None:
            return self._side(later=False).withColumns({"begin": _whole(0), "end": _whole(1)})
        upwards = self.transition.order.op in RISING
        stretch = (F.col("cuts"), F.col("width")) if upwards else (_whole(0), F.col("cuts"))
        return self._merged.filter(~F.col("late")).withColumns({"begin": stretch[0], "end": stretch[1]})

    @cached_property
    def later(self) -> DataFrame:
        """The later events with their attribute vertex ``a``."""
        if self.transition.order is None:
            return self._side(later=True).withColumn("a", _whole(0))
        return self._merged.filter("late").withColumn("a", F.col("cuts"))

    def _side(self, *, later: bool) -> DataFrame:
        """The events of one side of the transition, with the values of the equalities and ``y``, that of the order."""
        transition = self.transition
        named = dict(zip(self.values, transition.equalities, strict=True))
        if transition.order is not None:
            named["y"] = transition.order
        columns = {name: F.col(f"f{c.later if later else c.earlier}") for name, c in named.items()}
        kept = self.nodes.filter(self._cells.usable(later=later)).drop("e")  # sorting needs no events
        return kept.withColumns(columns) if columns else kept  # Connect refuses to add no columns

    @cached_property
    def _merged(self) -> DataFrame:
        """Both sides, with the number ``cuts`` of different bounds up to each value; ``fresh`` is 1 for a new bound.

        Depending on the order, a bound cuts before or after the values that equal it, and ``cuts`` counts accordingly.
        ``width`` is the number of attribute vertices of the list.
        """
        assert self.transition.order is not None
        sides = [self._side(later=later).withColumn("late", F.lit(later)) for later in (False, True)]
        bound_first = self.transition.order.op in (">=", "<")
        order = [F.col("y"), F.col("late").asc() if bound_first else F.col("late").desc()]
        placed = _in_sections(union(sides), self.list, order)
        before = Window.partitionBy(*self.list, "z").orderBy(*order).rowsBetween(Window.unboundedPreceding, -1)
        bound = F.last(F.when(~F.col("late"), F.col("y")), ignorenulls=True).over(before)
        fresh = (~F.col("late") & ~F.col("y").eqNullSafe(bound)).cast("bigint")
        counted = _counted(placed.withColumn("fresh", fresh), self.list, order, "fresh")
        cuts = {"cuts": F.col("so_far"), "width": F.col("total") + 1}
        return counted.withColumns(cuts).drop("so_far", "total").localCheckpoint()

    def attributes(self) -> DataFrame:
        """The attribute vertices: list, number ``a``, and bounds ``low`` and ``high``."""
        sides = [side.select(*self.list) for side in (self.earlier, self.later)]
        lowest = union(sides).distinct().withColumn("a", _whole(0))
        if self.transition.order is None:
            return lowest
        bounds = self._merged.filter("fresh = 1")
        lows = bounds.select(*self.list, F.col("cuts").alias("a"), F.col("y").alias("low"))
        highs = bounds.select(*self.list, (F.col("cuts") - 1).alias("a"), F.col("y").alias("high"))
        return join(union([lowest, lows]), highs, [*self.list, "a"], "left")


def place_events(frame: EventFrame, shown: tuple[str, ...], more: Terms | None = None) -> DataFrame:
    """Returns the events, once per window: keys, window, order, variables, compared values and shown columns.

    ``more`` are further terms over an event's own row.
    """
    source, compiled = frame.source, frame.compiled
    names = source.schema.in_order({*shown, *(name for column in compiled.lists for name in column.names)})
    columns: Terms = {
        **frame.keys(),
        "u": frame.ticks,
        **{f"b{n}": frame.own_name(name) for n, name in enumerate(source.tie_break)},
        "m": "m",
        **frame.codes,
        **(more or {}),
        "e": frame.event_struct(names),
        "i": frame.fingerprint(),
    }
    if source.window:
        columns["w"] = frame.window_starts()
    rows = frame.select(columns)
    if frame.checks_time:
        nulls = rows.filter(F.col("u").isNull()).agg(F.count("*").alias("nulls"))
        rows = rows.crossJoin(F.broadcast(nulls)).filter(refuse_nulls(source.time)).drop("nulls")
    if source.window:
        starts = rows.withColumn("w", F.explode("w"))
        rows = starts.withColumn("window", frame.window(F.col("w"))).drop("w")
    return rows


def _whole(number: int) -> Column:
    return F.lit(number).cast("bigint")


def _in_sections(rows: DataFrame, by: list[str], order: list[Column]) -> DataFrame:
    """Divides rows into sections by quantiles of key and order, and adds the section's number ``z``.

    Rows with equal key and order are in one section.
    """
    # Checkpointed, because Spark would sample again in another computation, and get other quantiles.
    return rows.repartitionByRange(*by, *order).withColumn("z", F.spark_partition_id()).localCheckpoint()


def _counted(rows: DataFrame, by: list[str], order: list[Column], what: str) -> DataFrame:
    """Adds the running sum ``so_far`` and the ``total`` of a column along each key, whose sections are in order."""
    within = Window.partitionBy(*by, "z").orderBy(*order).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    sums = rows.groupBy(*by, "z").agg(F.sum(what).alias("sum"))
    # There is one row per section, so a single partition does no harm. The literal avoids Spark's warning about it.
    key = Window.partitionBy(*by, F.lit(0))
    earlier = key.orderBy("z").rowsBetween(Window.unboundedPreceding, -1)
    ahead = F.coalesce(F.sum("sum").over(earlier), _whole(0))
    sums = sums.withColumns({"ahead": ahead, "total": F.sum("sum").over(key)})
    counted = join(rows.withColumn("here", F.sum(what).over(within)), sums, [*by, "z"])
    return counted.withColumn("so_far", F.col("ahead") + F.col("here")).drop("ahead", "here", "sum", "z")


def join(left: DataFrame, right: DataFrame, names: list[str], how: str = "inner") -> DataFrame:
    """Joins by the columns ``names``, where NULL equals NULL; the sides have no other column names in common."""
    renamed = right.withColumnsRenamed({name: f"x_{name}" for name in names})
    same = [F.col(name).eqNullSafe(F.col(f"x_{name}")) for name in names]
    joined = left.join(renamed, combine(operator.and_, same) if same else F.lit(True), how)
    return joined.drop(*(f"x_{name}" for name in names))
