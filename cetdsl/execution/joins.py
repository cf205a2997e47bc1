"""Graphs and complete trends of one large key, by Spark's joins alone: nothing of a key must fit one task's memory.

Attribute vertices are found by sorting. The bounds of earlier events and the values of later ones stand in one order,
so the number of bounds so far says which range a value lies in. Then an order is a join of numbers, for which the
ranges are dealt into blocks: two events meet if they share one. Events are counted along one key in order of time, and
bounds in order of value, by many tasks, each of which has a section of the time or the values.
"""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Iterable
from functools import cached_property

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, NumericType, TimestampType

from cetdsl.execution.expressions import combine
from cetdsl.execution.fold import refuse_nulls
from cetdsl.execution.operators import Rows, runs
from cetdsl.execution.source import EventFrame, Terms
from cetdsl.execution.trends import Shown, refuse_duplicates
from cetdsl.execution.vertices import KernelGraph, place_names, value_names
from cetdsl.ir.kernel import MAXIMAL
from cetdsl.ir.operators import JoinPaths, ShowGraph
from cetdsl.ir.transitions import Transition, transitions_of
from cetdsl.pattern.expressions import HOLDS, attributes

_LOG = logging.getLogger("cetdsl.joins")
#: Into how many sections the times of a key and the values of a list are cut, for as many tasks to count along them,
#: and into how many blocks the ranges of a list are dealt.
_SECTIONS, _BLOCKS = 64, 64
_HUGE = 1e300
#: A graph of so many edges is sent to all tasks, which saves a shuffle of all paths in each round.
_FEW_EDGES = 200_000


class JoinedGraph:
    """A graph that Spark's joins build; :mod:`cetdsl.execution.vertices` describes its parts.

    The parts that take space in proportion to the events are computed, and kept as a checkpoint, when one is first
    asked for; the edges, which may be many more, are not. But where some variable cannot both begin a trend and end it,
    edges must tell which events lie on one: from the first ones on and from the last ones back, in rounds of joins.
    """

    def __init__(self, df: DataFrame, plan: ShowGraph) -> None:
        self.plan = plan
        self.frame = EventFrame(df, plan.source, plan.compiled)
        self.machine = plan.compiled.machine
        self.initial = [state for state, _ in self.machine.initial]
        self.final = [state for state, _ in self.machine.final]
        self.by = place_names(plan.source)
        self.instant = ["u", *(f"b{n}" for n in range(len(plan.source.tie_break)))]
        self.transitions = transitions_of(self.machine)

    def vertices(self) -> DataFrame:
        return self.flagged(self.edges())

    def flagged(self, edges: DataFrame) -> DataFrame:
        """Returns the vertices, marked where an edge leads to them or from them."""
        node = [*self.by, "n", "q"]
        ends = [
            F.struct(F.col(f"n{end}").alias("n"), F.col(f"q{end}").alias("q"), F.lit(end == "1").alias("into"))
            for end in "01"
        ]
        each = edges.select(*self.by, F.explode(F.array(*ends)).alias("end")).select(*self.by, "end.*")
        links = each.groupBy(*node).agg(F.max("into").alias("into"), F.max(~F.col("into")).alias("out"))
        linked = _join(self._useful[0], links, node, "left")
        event = [F.col("e").getField(self.frame.own_name(name)).alias(name) for name in self.plan.columns]
        return linked.select(
            *node,
            F.col("q").isin(self.initial).alias("first"),
            F.col("q").isin(self.final).alias("last"),
            (~F.coalesce("into", F.lit(False))).alias("source"),
            (~F.coalesce("out", F.lit(False))).alias("sink"),
            F.struct(*event).alias("event"),
        )

    def edges(self) -> DataFrame:
        return self._useful[1]

    def direct(self) -> DataFrame:
        inseparable = [join.edges() for join in self._joins if not join.transition.is_separable]
        return _union(inseparable) if inseparable else self.edges().limit(0)

    def attributes(self) -> DataFrame:
        return self._listed(_Join.attributes, "a")

    def from_edges(self) -> DataFrame:
        return self._listed(lambda join: join.later, "a", "n")

    def to_edges(self) -> DataFrame:
        return self._listed(lambda join: join.earlier, "n", "begin", "end")

    def _listed(self, part: Callable[[_Join], DataFrame], *more: str) -> DataFrame:
        """Returns a part of each separable transition, with the columns of all of them."""
        separable = [join for join in self._joins if join.transition.is_separable]
        if not separable:
            columns = [F.lit(0).alias("transition"), *(_whole(0).alias(name) for name in more)]
            return self.nodes.select(*self.by, *columns).limit(0)
        found = []
        for number, join in enumerate(separable):
            rows = part(join).withColumn("transition", F.lit(number))
            named = {f"v{k}": f"v{number}_{k}" for k in range(len(join.transition.equalities))}
            if "low" in rows.columns:
                named |= {"low": f"low{number}", "high": f"high{number}"}
            found.append(rows.select(*self.by, "transition", *named, *more).withColumnsRenamed(named))
        together = _union(found)
        bounds = [name for name in together.columns if name.startswith(("low", "high"))]
        return together.select(
            *self.by, "transition", *value_names([join.transition for join in separable]), *more, *bounds
        )

    @cached_property
    def nodes(self) -> DataFrame:
        """One row per event and state that it may be in: K, ``n``, ``q``, what events are compared by, and ``e``."""
        events = _in_sections(place_events(self.frame, self.plan.columns), self.by, F.col("u"))
        order = [F.col(name) for name in (*self.instant, "m", "i")]
        numbered = _counted(events.withColumn("one", F.lit(1)), self.by, order, "one")
        states = [
            F.when(F.col("m").bitwiseAND(F.lit(1 << variable)) != 0, F.lit(state))
            for state, variable in enumerate(self.machine.variables)
        ]
        codes = [f"f{n}" for n in range(len(self.plan.compiled.codes))]
        named = numbered.withColumn("n", F.col("so_far") - 1)
        named = named.withColumn("q", F.explode(F.array_compact(F.array(*states))))
        return named.select(*self.by, "n", "q", *self.instant, *codes, "e").localCheckpoint()

    @cached_property
    def _useful(self) -> tuple[DataFrame, DataFrame]:
        """The nodes that lie on a trend, and the edges between them."""
        joins = self._joins_of_all
        edges = _union([join.edges() for join in joins]) if joins else self._no_edges()
        if self._all_useful:
            return self.nodes, edges
        node = [*self.by, "n", "q"]
        edges = edges.localCheckpoint()
        forward = self._reached(edges, self.nodes.filter(F.col("q").isin(self.initial)).select(*node), "0", "1")
        edges = self._ends_in(edges, forward, "0")
        ends = _join(forward, self.nodes.filter(F.col("q").isin(self.final)), node, "left_semi")
        useful = self._reached(edges, ends, "1", "0")
        nodes = _join(self.nodes, useful, node, "left_semi").localCheckpoint()
        return nodes, self._ends_in(edges, useful, "1").localCheckpoint()

    @cached_property
    def _joins(self) -> list[_Join]:
        """The transitions, over the useful nodes."""
        return self._joins_of_all if self._all_useful else [_Join(self, t, self._useful[0]) for t in self.transitions]

    @cached_property
    def _joins_of_all(self) -> list[_Join]:
        """The transitions, over all nodes."""
        return [_Join(self, t, self.nodes) for t in self.transitions]

    @property
    def _all_useful(self) -> bool:
        """Whether each event that any variable can bind is a trend by itself."""
        states = set(range(len(self.machine.variables)))
        return set(self.initial) == states == set(self.final)

    def _no_edges(self) -> DataFrame:
        ends = [F.col("n").alias("n0"), F.col("q").alias("q0"), F.col("n").alias("n1"), F.col("q").alias("q1")]
        return self.nodes.select(*self.by, *ends).limit(0)

    def _ends_in(self, edges: DataFrame, nodes: DataFrame, end: str) -> DataFrame:
        """Returns the edges of which one end is among some nodes."""
        named = nodes.withColumnsRenamed({"n": f"n{end}", "q": f"q{end}"})
        return _join(edges, named, [*self.by, f"n{end}", f"q{end}"], "left_semi")

    def _reached(self, edges: DataFrame, start: DataFrame, source: str, target: str) -> DataFrame:
        """Returns the nodes that edges lead to from some nodes, and these."""
        node = [*self.by, "n", "q"]
        reached = front = start.localCheckpoint()
        while not front.isEmpty():
            ends = [F.col(f"n{target}").alias("n"), F.col(f"q{target}").alias("q")]
            following = self._ends_in(edges, front, source).select(*self.by, *ends).distinct()
            front = _join(following, reached, node, "left_anti").localCheckpoint()
            reached = reached.union(front).localCheckpoint()
        return reached


class _Join:
    """Finds the edges of one transition: with an index as far as that goes, then with tests of two events."""

    def __init__(self, graph: JoinedGraph, transition: Transition, nodes: DataFrame) -> None:
        # Not the graph itself: checkpoints in a circle of objects would be left to the garbage collector, which may run
        # while Spark Connect's client holds a lock that it needs to give them back, and then both wait for ever.
        self.frame, self.by, self.instant = graph.frame, graph.by, graph.instant
        self.listed = graph.plan.compiled.lists
        self.transition = transition
        self.nodes = nodes
        self.values = [f"v{k}" for k in range(len(transition.equalities))]
        self.list = [*self.by, *self.values]

    @cached_property
    def earlier(self) -> DataFrame:
        """The earlier events with their stretch of attribute vertices, from ``begin`` to before ``end``."""
        if self.transition.order is None:
            return self._side(later=False).withColumns({"begin": _whole(0), "end": _whole(1)})
        upwards = self.transition.order.op in (">", ">=")
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
        state = transition.edge.target if later else transition.edge.source
        named = dict(zip(self.values, transition.equalities, strict=True))
        if transition.order is not None:
            named["y"] = transition.order
        columns = {name: F.col(f"f{c.later if later else c.earlier}") for name, c in named.items()}
        present = [column.isNotNull() for column in columns.values()]
        rows = self.nodes.filter(combine(operator.and_, [*present, F.col("q") == state]))
        # What is only shown need not be sorted.
        kept = rows if transition.edge.listed else rows.drop("e")
        return kept.withColumns(columns) if columns else kept  # Connect refuses none

    @cached_property
    def _merged(self) -> DataFrame:
        """Both sides, the number ``cuts`` of different bounds up to each value, and 1 for each that is ``fresh``.

        The cut that a bound makes is before or after the values that equal it, and these are counted accordingly. The
        number of vertices of the list is ``width``.
        """
        assert self.transition.order is not None
        sides = [self._side(later=later).withColumn("late", F.lit(later)) for later in (False, True)]
        bound_first = self.transition.order.op in (">=", "<")
        order = [F.col("y"), F.col("late").asc() if bound_first else F.col("late").desc()]
        placed = _in_sections(_union(sides), self.list, F.col("y"))
        before = Window.partitionBy(*self.list, "z").orderBy(*order).rowsBetween(Window.unboundedPreceding, -1)
        bound = F.last(F.when(~F.col("late"), F.col("y")), ignorenulls=True).over(before)
        fresh = (~F.col("late") & ~F.col("y").eqNullSafe(bound)).cast("bigint")
        counted = _counted(placed.withColumn("fresh", fresh), self.list, order, "fresh")
        cuts = {"cuts": F.col("so_far"), "width": F.col("total") + 1}
        return counted.withColumns(cuts).drop("so_far", "total").localCheckpoint()

    def attributes(self) -> DataFrame:
        """The attribute vertices: list, number ``a``, and bounds ``low`` and ``high``."""
        sides = [side.select(*self.list) for side in (self.earlier, self.later)]
        lowest = _union(sides).distinct().withColumn("a", _whole(0))
        if self.transition.order is None:
            return lowest
        bounds = self._merged.filter("fresh = 1")
        lows = bounds.select(*self.list, F.col("cuts").alias("a"), F.col("y").alias("low"))
        highs = bounds.select(*self.list, (F.col("cuts") - 1).alias("a"), F.col("y").alias("high"))
        return _join(_union([lowest, lows]), highs, [*self.list, "a"], "left")

    def edges(self) -> DataFrame:
        """The pairs of neighbours: K, ``n0``, ``q0``, ``n1``, ``q1``."""
        earlier, later, shared = self.earlier, self.later, list(self.list)
        if self.transition.order is not None:
            shared.append("block")
            blocks = F.sequence(_block(F.col("begin")), _block(F.col("end") - 1))
            earlier = earlier.filter("begin < end").withColumn("block", F.explode(blocks))
            later = later.withColumn("block", _block(F.col("a")))
        earlier = earlier.toDF(*(name if name in shared else f"{name}0" for name in earlier.columns))
        later = later.toDF(*(name if name in shared else f"{name}1" for name in later.columns))
        pairs = _join(earlier, later, shared).filter(combine(operator.and_, list(self._tests())))
        return pairs.select(*self.by, "n0", "q0", "n1", "q1")

    def _tests(self) -> Iterable[Column]:
        """What two events of a list, and of a block, must still pass."""
        yield F.struct(*(f"{name}0" for name in self.instant)) < F.struct(*(f"{name}1" for name in self.instant))
        if self.transition.order is not None:
            yield (F.col("begin0") <= F.col("a1")) & (F.col("a1") < F.col("end0"))
        for c in self.transition.rest:
            yield HOLDS[c.op](F.col(f"f{c.later}1"), F.col(f"f{c.earlier}0"))
        for number in self.transition.edge.listed:
            yield self.frame.pair_column(self.listed[number], F.col("e0"), F.col("e1"))


def place_events(frame: EventFrame, shown: tuple[str, ...]) -> DataFrame:
    """Returns the events, once per window: keys, window, order, variables, compared values and shown columns."""
    source, compiled = frame.source, frame.compiled
    listed = {node.name for term in compiled.lists for node in attributes(term)}
    names = [name for name in source.schema.names if name in listed or name in shown]
    columns: Terms = {
        **frame.keys(),
        "u": frame.ticks,
        **{f"b{n}": frame.own_name(name) for n, name in enumerate(source.tie_break)},
        "m": "m",
        **frame.codes,
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


def _block(vertex: Column) -> Column:
    """The block of an attribute vertex."""
    return F.floor(vertex * _BLOCKS / F.col("width"))


def _in_sections(rows: DataFrame, by: list[str], value: Column) -> DataFrame:
    """Adds the number ``z`` of the section that a value lies in; sections divide equally what each key spans.

    Values of a type that is not stored as numbers are all in one section.
    """
    number = _as_double(rows, value)
    if number is None:
        return rows.withColumn("z", _whole(0))
    spans = rows.groupBy(*by).agg(F.min(number).alias("lowest"), F.max(number).alias("highest"))
    span = F.col("highest") - F.col("lowest")
    share = F.when(span > 0, (number - F.col("lowest")) / span).otherwise(0.0)
    return _join(rows, spans, by).withColumn("z", F.floor(share * _SECTIONS)).drop("lowest", "highest")


def _as_double(rows: DataFrame, value: Column) -> Column | None:
    """Returns a value as a number that never falls where the value rises; None for types without one."""
    kind = rows.select(value).schema[0].dataType
    if isinstance(kind, TimestampType):
        value = F.unix_micros(value)
    elif isinstance(kind, DateType):
        value = F.unix_date(value)
    elif not isinstance(kind, NumericType):
        return None
    number = value.cast("double")
    # NaN is the largest, and differences must not be infinite.
    return F.when(F.isnan(number), _HUGE).otherwise(F.greatest(F.least(number, F.lit(_HUGE)), F.lit(-_HUGE)))


def _counted(rows: DataFrame, by: list[str], order: list[Column], what: str) -> DataFrame:
    """Adds a column's sum along each key, ``so_far`` and ``total``, to the rows; sections rise with the order."""
    within = Window.partitionBy(*by, "z").orderBy(*order).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    sums = rows.groupBy(*by, "z").agg(F.sum(what).alias("sum"))
    # A row per section: few, so that the literal, for want of which Spark warns where there is no key, does no harm.
    key = Window.partitionBy(*by, F.lit(0))
    earlier = key.orderBy("z").rowsBetween(Window.unboundedPreceding, -1)
    ahead = F.coalesce(F.sum("sum").over(earlier), _whole(0))
    sums = sums.withColumns({"ahead": ahead, "total": F.sum("sum").over(key)})
    counted = _join(rows.withColumn("here", F.sum(what).over(within)), sums, [*by, "z"])
    return counted.withColumn("so_far", F.col("ahead") + F.col("here")).drop("ahead", "here", "sum", "z")


def _join(left: DataFrame, right: DataFrame, names: list[str], how: str = "inner") -> DataFrame:
    """Joins such that NULL equals NULL; ``right`` shares no other column names."""
    renamed = right.withColumnsRenamed({name: f"x_{name}" for name in names})
    same = [F.col(name).eqNullSafe(F.col(f"x_{name}")) for name in names]
    joined = left.join(renamed, combine(operator.and_, same) if same else F.lit(True), how)
    return joined.drop(*(f"x_{name}" for name in names))


def _union(parts: list[DataFrame]) -> DataFrame:
    return combine(lambda a, b: a.unionByName(b, allowMissingColumns=True), parts)


@runs(JoinPaths)
def join_paths(df: DataFrame, plan: JoinPaths) -> Rows:
    """Gives the complete trends, whose paths are extended by one event per round of joins.

    The rounds are executed when it is called; ``cetdsl.joins`` logs a line for each. The edges that "maximal" trends
    need, those that no longer path bypasses, are found by the kernel, key by key, and so are all edges of a query with
    NOT.
    """
    refuse_duplicates(plan.columns)
    shown = ShowGraph(plan.child, plan.spec, plan.columns, joined=True)
    by = place_names(plan.source)
    if plan.spec.query.completeness == MAXIMAL or plan.compiled.negations:
        kernel = KernelGraph(df, shown)
        edges = kernel.reduced() if plan.spec.query.completeness == MAXIMAL else kernel.edges()
        edges, vertices = edges.localCheckpoint(), kernel.vertices().localCheckpoint()
    else:
        graph = JoinedGraph(df, shown)
        edges = graph.edges().localCheckpoint()
        vertices = graph.flagged(edges).localCheckpoint()
    states = len(plan.compiled.machine.variables)
    coded = vertices.withColumn("c", F.col("n") * states + F.col("q"))
    arcs = edges.select(
        *by, (F.col("n0") * states + F.col("q0")).alias("at"), (F.col("n1") * states + F.col("q1")).alias("c")
    )
    arcs = _join(arcs, coded.select(*by, "c", "sink"), [*by, "c"]).withColumnRenamed("c", "to").localCheckpoint()
    if arcs.count() <= _FEW_EDGES:
        arcs = F.broadcast(arcs)
    start = coded.filter("first AND source").select(*by, F.array("c").alias("path"), F.col("c").alias("at"), "sink")
    found = _complete_paths(start, arcs, by, plan.limit)
    return Rows(_as_answer(found, coded, by, plan), EventFrame(df, plan.source, plan.compiled))


def _complete_paths(start: DataFrame, arcs: DataFrame, by: list[str], limit: int | None) -> DataFrame:
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
            return _union(complete)
        extended = _join(paths.filter(~F.col("sink")).drop("sink"), arcs, [*by, "at"])
        path = F.concat("path", F.array("to")).alias("path")
        paths = extended.select(*by, path, F.col("to").alias("at"), "sink")


def _as_answer(found: DataFrame, coded: DataFrame, by: list[str], plan: JoinPaths) -> DataFrame:
    """Turns paths into rows of trends."""
    shown = Shown.of(plan.source)
    names = F.array(*(F.lit(plan.compiled.variables[number][0]) for number in plan.compiled.machine.variables))
    binding = F.struct(F.get(names, F.col("q")).alias("variable"), "event").alias("binding")
    bindings = coded.select(*by, "c", "n", binding)
    each = found.withColumn("id", F.monotonically_increasing_id()).select(*by, "id", F.explode("path").alias("c"))
    # Events of a trend are numbered in the order of time.
    bound = F.collect_list(F.struct("n", "binding"))
    in_order = F.array_sort(bound, lambda a, b: (a.getField("n") - b.getField("n")).cast("int"))
    rows = _join(each, bindings, [*by, "c"]).groupBy("id", *by).agg(in_order.alias("bound"))
    trend = F.transform("bound", lambda one: one.getField("binding")).alias("trend")
    keys = [F.col(f"k{plan.source.keys.index(name)}") for name in shown.keys]
    return rows.select(*keys, *by[len(plan.source.keys) :], trend).toDF(*shown.names())
