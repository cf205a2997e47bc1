"""Finds the matches of many queries by Spark's joins, which build the instances of each sub-pattern once for all uses.

Column ``s<slot>`` of a row of instances is the event of that slot, a struct of the columns that joins and answers need.
:mod:`cetdsl.ir.slots` defines vertices, slots, instances and demands.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise

import attrs
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cetdsl.execution.expressions import combine, of_first, union
from cetdsl.execution.joins import place_events
from cetdsl.execution.meetings import EARLIER, HERE, LATER, Meetings, all_of, bindings_in_time, compared, instant
from cetdsl.execution.operators import Rows, runs
from cetdsl.execution.source import EventFrame, Terms, floor_divide
from cetdsl.execution.trends import trend_field
from cetdsl.execution.vertices import place_names
from cetdsl.ir.operators import JoinTogether
from cetdsl.ir.slots import ANY_KIND, TESTS_IN_WORD, UNBOUNDED, Demands, Fit, Gap, JoinedVertex, Parent


@runs(JoinTogether)
def join_together(df: DataFrame, plan: JoinTogether) -> Rows:
    """Gives the matches of the queries of a pass, under the user's names; Spark computes each vertex once."""
    frame = EventFrame(df, plan.source, plan.compiled, tests=plan.tests)
    more: Terms = {f"w{number}": word for number, word in enumerate(frame.words())}
    if plan.kind is not None:
        more["kind"] = frame.own_name(plan.kind)
    events = place_events(frame, plan.columns, more)
    by = place_names(plan.source)
    # All slots of all vertices read these events.
    events = events.select(*by, F.struct(*(name for name in events.columns if name not in by)).alias("s"))
    joins = _Joins(plan, frame, events.localCheckpoint(eager=False))
    matches: dict[int, list[DataFrame]] = {}
    instances: list[DataFrame] = []
    for vertex in plan.vertices:
        rows = joins.instances(vertex, instances)
        if vertex.query < 0:
            rows = rows.localCheckpoint(eager=False)
        else:
            matches.setdefault(vertex.query, []).append(joins.shown(rows, vertex))
        instances.append(rows)
    answers = [union(parts) for parts in matches.values()]
    return Rows(union(answers if plan.limit is None else [answer.limit(plan.limit) for answer in answers]), frame)


@attrs.frozen
class _Part:
    """The slots that one join binds: those of a parent, or a single slot."""

    slots: tuple[int, ...]
    parent: Parent | None = None


class _Joins:
    """Joins the instances of the vertices of a pass."""

    def __init__(self, plan: JoinTogether, frame: EventFrame, events: DataFrame) -> None:
        self.plan, self.frame, self.events = plan, frame, events
        self.by = place_names(plan.source)
        self._instant = ["u", *(f"b{n}" for n in range(len(plan.source.tie_break)))]

    # Instances -------------------------------------------------------------------------------------------------------

    def instances(self, vertex: JoinedVertex, known: Sequence[DataFrame]) -> DataFrame:
        """Returns the instances of a vertex; those of the vertices before it are ``known``."""
        demands = vertex.demands
        meetings = Meetings(tuple(self.by), None if demands.length == UNBOUNDED else demands.length)
        rows, bound, judged = None, list[int](), set[Gap]()
        for part in _in_order(vertex):
            side = self._side(part, demands, known)
            if part.parent is not None:
                judged |= {gap for gap in demands.gaps if self._is_judged(gap, part.parent)}
            tests = [*self._tests(demands, [], part.slots), *self._tests(demands, bound, part.slots)]
            if rows is None:
                rows = side.filter(all_of(tests))
            else:
                anchor, event = bound[0], part.slots[0]
                near = _near(demands, anchor, event)
                rows = meetings.joined(rows, side, tests, _event(event), _event(anchor), near)
            bound += part.slots
            for gap in sorted(demands.gaps - judged, key=repr):
                needed = gap.after | gap.before if gap.after and gap.before else frozenset(range(len(demands.slots)))
                if needed <= set(bound):
                    judged.add(gap)
                    rows = self._without(rows, demands, gap, meetings)
        assert rows is not None, "a vertex has slots"
        return rows

    def _side(self, part: _Part, demands: Demands, known: Sequence[DataFrame]) -> DataFrame:
        """The rows that supply a part: instances of a parent, or the events that fit into a slot."""
        if part.parent is None:
            [slot] = part.slots
            return self.events.filter(self._fits(F.col("s"), demands.slots[slot])).withColumnRenamed("s", _name(slot))
        names = [_event(own).alias(_name(slot)) for own, slot in enumerate(part.parent.slots)]
        rows = known[part.parent.vertex].select(*self.by, *names)
        return rows.filter(all_of(self._fits(_event(slot), demands.slots[slot]) for slot in part.slots))

    def _is_judged(self, gap: Gap, parent: Parent) -> bool:
        """Whether a parent has the same demand on a gap, so that it needs no further check."""
        theirs = self.plan.vertices[parent.vertex].demands.gaps
        moved = (
            Gap(one.fits, *(frozenset(parent.slots[slot] for slot in side) for side in (one.after, one.before)))
            for one in theirs
        )
        return gap in moved

    def _tests(self, demands: Demands, bound: Sequence[int], new: Sequence[int]) -> Iterator[Column]:
        """Yields the conditions between new slots and bound ones; if none are bound, among the new ones."""
        inside = not bound
        pairs = [(a, b) for a in (new if inside else bound) for b in new if a != b]
        asked = {frozenset(pair) for pair in pairs}
        for a, b in sorted(demands.before):
            if frozenset((a, b)) in asked:
                yield self._time(a) < self._time(b)
        for a, b in sorted(demands.apart):
            if frozenset((a, b)) in asked and not {(a, b), (b, a)} & demands.before:
                yield self._time(a) != self._time(b)
        for one in sorted(demands.compared, key=repr):
            if frozenset((one.slot, one.other)) in asked:
                yield compared(one.op, _event(one.slot), one.column, one.other_column)(_event(one.other))
        if demands.length != UNBOUNDED:
            for a, b in sorted({(min(pair), max(pair)) for pair in pairs}):
                yield F.abs(_event(a).getField("u") - _event(b).getField("u")) <= demands.length

    def _without(self, rows: DataFrame, demands: Demands, gap: Gap, meetings: Meetings) -> DataFrame:
        """Drops instances with an event in the gap that fits into it."""
        event = F.col("x")
        side = self.events.filter(self._fits(F.col("s"), gap.fits)).withColumnRenamed("s", "x")
        when = instant(event, self._instant)
        tests = [self._time(slot) < when for slot in sorted(gap.after)]
        tests += [when < self._time(slot) for slot in sorted(gap.before)]
        if demands.length != UNBOUNDED and not (gap.after and gap.before):
            first, last = _ends(len(demands.slots))
            time = event.getField("u")
            tests.append((time - first if gap.after else last - time) <= demands.length)
        anchor, near = (min(gap.after), (HERE, LATER)) if gap.after else (min(gap.before), (HERE, EARLIER))
        return meetings.joined(rows, side, tests, event, _event(anchor), near, "left_anti")

    def _fits(self, event: Column, fits: Sequence[Fit]) -> Column:
        """Whether an event satisfies one of the fits."""
        return combine(operator.or_, [self._fits_as(event, fit) for fit in fits])

    def _fits_as(self, event: Column, fit: Fit) -> Column:
        of_kind = [] if fit.kind == ANY_KIND else [event.getField("kind") == F.lit(self.plan.kinds[fit.kind])]
        held = [
            event.getField(f"w{test // TESTS_IN_WORD}").bitwiseAND(F.lit(1 << test % TESTS_IN_WORD)) != 0
            for test in fit.tests
        ]
        return all_of([*of_kind, *([combine(operator.or_, held)] if held else [])])

    def _time(self, slot: int) -> Column:
        return instant(_event(slot), self._instant)

    # Answers ---------------------------------------------------------------------------------------------------------

    def shown(self, rows: DataFrame, vertex: JoinedVertex) -> DataFrame:
        """Returns the matches of a query as rows of the answer: query, keys, window if any slides, and trend."""
        plan = self.plan
        member = plan.members[vertex.query]
        columns = [F.lit(member.name).alias("query")]
        for name in plan.keys:
            kind = self.frame.type_of(name)
            own = f"k{plan.source.keys.index(name)}"
            columns.append((F.col(own) if name in member.keys else F.lit(None).cast(kind)).alias(name))
        if plan.sliding:
            kind = self.frame.window_field.dataType
            if vertex.window is None:
                columns.append(F.lit(None).cast(kind).alias("window"))
            else:
                rows = rows.withColumn("start", F.explode(self._windows(vertex)))
                columns.append(self.frame.window(F.col("start"), vertex.window[0]).alias("window"))
        return rows.select(*columns, self._trend(vertex).alias("trend"))

    def _windows(self, vertex: JoinedVertex) -> Column:
        """The starts of the windows that hold all events of a match."""
        assert vertex.window is not None
        length, slide = vertex.window
        first, last = _ends(len(vertex.demands.slots))
        begin, end = floor_divide(last - length, slide) + 1, floor_divide(first, slide)
        numbers = F.when(begin <= end, F.sequence(begin, end)).otherwise(F.array().cast("array<bigint>"))
        return F.transform(numbers, lambda number: number * F.lit(slide).cast("bigint"))

    def _trend(self, vertex: JoinedVertex) -> Column:
        """The array of what a match binds, in order of time."""
        slots = range(len(vertex.demands.slots))
        kind = trend_field(self.frame, self.plan.columns, self.plan.columns).dataType
        bindings = [self._binding(slot, vertex.demands.slots[slot]) for slot in slots]
        if all(pair in vertex.demands.before for pair in pairwise(slots)):
            return F.array(*bindings).cast(kind)
        placed = [
            F.struct(self._time(slot).alias("time"), F.lit(slot).alias("slot"), binding.alias("binding"))
            for slot, binding in zip(slots, bindings, strict=True)
        ]
        return bindings_in_time(F.array(*placed)).cast(kind)

    def _binding(self, slot: int, fits: Sequence[Fit]) -> Column:
        names = [F.lit(self.plan.variables[fit.variable]) for fit in fits]
        event = _event(slot)
        choices = [(self._fits_as(event, fit), name) for fit, name in zip(fits[:-1], names)]
        own = event.getField("e")
        shown = [own.getField(self.frame.own_name(name)).alias(name) for name in self.plan.columns]
        return F.struct(of_first(choices, names[-1]).alias("variable"), F.struct(*shown).alias("event"))


def _in_order(vertex: JoinedVertex) -> list[_Part]:
    """The parts of a vertex in the order in which they are joined.

    A parent all of whose slots another parent has is left out, as the child itself makes all of its demands. The part
    with the most slots comes first. Each next part is the one that the most equalities, then other comparisons, then
    orders in time relate to the bound slots.

    Examples
    --------
    >>> slots = ((Fit(0),), (Fit(1),), (Fit(2),))
    >>> vertex = JoinedVertex(Demands(slots, frozenset({(0, 2)})), (Parent(5, (1, 2)), Parent(6, (0, 1))))
    >>> [part.slots for part in _in_order(vertex)]
    [(1, 2), (0,)]
    """
    parts, taken = list[_Part](), set[int]()
    for parent in sorted(vertex.parents, key=lambda parent: -len(parent.slots)):
        if taken.isdisjoint(parent.slots):
            parts.append(_Part(parent.slots, parent))
            taken |= set(parent.slots)
    parts += [_Part((slot,)) for slot in range(len(vertex.demands.slots)) if slot not in taken]
    ordered = [parts.pop(0)]
    while parts:
        bound = set(chain.from_iterable(part.slots for part in ordered))
        best = max(parts, key=lambda part: _related(vertex.demands, bound, set(part.slots)))
        parts.remove(best)
        ordered.append(best)
    return ordered


def _related(demands: Demands, bound: set[int], new: set[int]) -> tuple[int, int, int]:
    """Counts the equalities, other comparisons and orders in time that relate new slots to bound ones."""

    def across(a: int, b: int) -> bool:
        return (a in bound and b in new) or (b in bound and a in new)

    equal = [one.op == "=" for one in demands.compared if across(one.slot, one.other)]
    return sum(equal), len(equal) - sum(equal), sum(across(*pair) for pair in demands.before)


def _near(demands: Demands, anchor: int, event: int) -> tuple[int, ...]:
    """Returns the time buckets in which the event of a slot may be, relative to the bucket of a bound ``anchor``."""
    if (anchor, event) in demands.before:
        return (HERE, LATER)
    return (HERE, EARLIER) if (event, anchor) in demands.before else (HERE, LATER, EARLIER)


def _name(slot: int) -> str:
    return f"s{slot}"


def _event(slot: int) -> Column:
    return F.col(_name(slot))


def _ends(slots: int) -> tuple[Column, Column]:
    """The times of the first and of the last event of an instance."""
    times = [_event(slot).getField("u") for slot in range(slots)]
    # Spark compares two columns or more.
    return (F.least(*times), F.greatest(*times)) if slots > 1 else (times[0], times[0])
