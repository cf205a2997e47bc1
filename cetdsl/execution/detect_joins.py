"""Puts trends together by Spark's joins in the order of plans, so that no task needs to hold all events of a key."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import attrs
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cetdsl.detection.plans import OrderPlan
from cetdsl.execution.expressions import union
from cetdsl.execution.joins import place_events
from cetdsl.execution.meetings import Meetings, all_of, bindings_in_time, compared, instant
from cetdsl.execution.operators import Rows, runs
from cetdsl.execution.source import EventFrame
from cetdsl.execution.trends import Shown
from cetdsl.execution.vertices import place_names
from cetdsl.ir.branches import Between, Branch, branches_of
from cetdsl.ir.machine import LISTED, Pair
from cetdsl.ir.operators import JoinEvents
from cetdsl.ir.windowing import SPAN
from cetdsl.pattern.expressions import MIRRORED

_LOG = logging.getLogger("cetdsl.joins")
#: A lazy plan enumerates the possible lengths of repetitions; with more combinations than this, rounds are executed.
_MOST_WAYS = 16


@runs(JoinEvents)
def join_events(df: DataFrame, plan: JoinEvents) -> Rows:
    """Gives rows of keys, window and trend; a step of a branch is a join, or for a repetition a join per event.

    For a repetition without an upper bound, calling this function executes its rounds of joins.
    """
    frame = EventFrame(df, plan.source, plan.compiled)
    events = place_events(frame, plan.columns)
    by = place_names(plan.source)
    events = events.select(*by, F.struct(*(name for name in events.columns if name not in by)).alias("s"))
    found = []
    for one in plan.plans:
        assert isinstance(one.plan, OrderPlan), one.plan
        joins = _Joins(frame, events, by, one.branch, plan.compiled.pairs)
        found.append(_as_trends(joins, joins.matches(one.plan.order), plan))
    return Rows(union(found), frame)


def _as_trends(joins: _Joins, rows: DataFrame, plan: JoinEvents) -> DataFrame:
    """Returns matches as rows of keys, window and trend."""
    fields = plan.columns if plan.named else tuple(map(joins.frame.own_name, plan.columns))

    def binding(variable: int) -> Callable[[Column], Column]:
        def bind(event: Column) -> Column:
            own = event.getField("e")
            shown = [own.getField(joins.frame.own_name(c)).alias(f) for c, f in zip(plan.columns, fields)]
            name = F.lit(plan.compiled.variables[variable][0]).alias("variable")
            return F.struct(name, F.struct(*shown).alias("event"))

        return bind

    parts = joins.in_time([binding(slot.variable) for slot in joins.branch.slots])
    shown = Shown.of(plan.source)
    keys = [F.col(f"k{plan.source.keys.index(name)}") for name in shown.keys]
    answer = rows.select(*keys, *joins.by[len(plan.source.keys) :], parts.alias("trend"))
    return answer.toDF(*(shown.names() if plan.named else [*shown.internal, "trend"]))


@attrs.frozen
class _Gap:
    """A gap of a ``sequence`` in which a negation must have no match: behind the slot ``after``, before ``before``.

    One of the two is None for a gap at an end of the sequence. The gap is checked as soon as all ``needed`` slots are
    bound.
    """

    negation: int
    after: int | None
    before: int | None
    needed: frozenset[int]
    sequence: range


class _Joins:
    """Joins the events of a branch.

    Column ``s<slot>`` of a row is the event that a slot binds, a struct of the columns that joins need; for a
    repetition, it is the array of such events in order of time.
    """

    def __init__(
        self,
        frame: EventFrame,
        events: DataFrame,
        by: list[str],
        branch: Branch,
        pairs: Sequence[Pair],
        prefix: str = "s",
    ) -> None:
        self.frame, self.events, self.by, self.branch, self.pairs = frame, events, by, branch, pairs
        self._prefix = prefix
        self._windowing = frame.source.windowing
        self._meetings = Meetings(tuple(by), self._windowing.length if self._windowing.kind == SPAN else None)
        self._instant = ["u", *(f"b{n}" for n in range(len(frame.source.tie_break)))]
        bounds = [slot.at_most for slot in branch.slots]
        self._in_rounds = None in bounds or math.prod(bound or 1 for bound in bounds) > _MOST_WAYS

    def matches(self, order: Iterable[int]) -> DataFrame:
        """Returns the matches of the branch, binding the slots in the given order."""
        rows, bound = None, list[int]()
        gaps = list(self._gaps())
        for slot in order:
            rows = self._with_slot(rows, bound, slot)
            bound.append(slot)
            for gap in gaps:
                if slot in gap.needed <= set(bound):
                    rows = self._without(rows, gap.negation, gap.sequence, gap.after, gap.before)
        assert rows is not None, "a branch has slots"
        return rows

    def in_time(self, functions: Sequence[Callable[[Column], Column]]) -> Column:
        """The array of the values that the function of each event's slot gives for the event, in order of time."""
        if len(self.branch.sequences) == 1:
            return F.concat(*(self._mapped(slot, function) for slot, function in enumerate(functions)))

        def placed(slot: int, function: Callable[[Column], Column]) -> Callable[[Column], Column]:
            place = F.lit(slot).alias("slot")
            return lambda event: F.struct(self._time(event).alias("time"), place, function(event).alias("binding"))

        found = F.concat(*(self._mapped(slot, placed(slot, function)) for slot, function in enumerate(functions)))
        return bindings_in_time(found)

    def _mapped(self, slot: int, function: Callable[[Column], Column]) -> Column:
        column = self._column(slot)
        return F.transform(column, function) if self.branch.slots[slot].kleene else F.array(function(column))

    # Slots -----------------------------------------------------------------------------------------------------------

    def _with_slot(self, rows: DataFrame | None, bound: list[int], slot: int) -> DataFrame:
        """Binds a slot; for a repetition, joins one event after another."""
        part, name = self.branch.slots[slot], self._name(slot)
        new = F.col("x")
        if not part.kleene:
            return self._joined(rows, bound, slot).withColumn(name, new).drop("x")
        rows = self._joined(rows, bound, slot).withColumn(name, F.array(new)).drop("x")
        after = self._after(slot) if slot + 1 in bound else Between()
        found, number = [], 1
        while True:
            if self._in_rounds:
                rows = rows.localCheckpoint()
                _LOG.info("%d events of %s: %d partial matches", number, self._called(slot), rows.count())
            if number >= part.at_least:
                onward = self._between(after, self._last(slot), self._first(slot + 1)) if slot + 1 in bound else ()
                found.append(rows.filter(all_of(onward)))
            if number == part.at_most or (self._in_rounds and rows.isEmpty()):
                return union(found) if found else rows.limit(0)
            rows = self._joined(rows, bound, slot, begun=True)
            rows = rows.withColumn(name, F.concat(name, F.array(new))).drop("x")
            number += 1
            for negation in part.inner.guards if part.inner else ():
                rows = self._without_between(rows, negation, F.element_at(self._column(slot), -2), self._last(slot))

    def _joined(self, rows: DataFrame | None, bound: list[int], slot: int, *, begun: bool = False) -> DataFrame:
        """Joins partial matches with events ``x`` that a slot may bind next; ``begun`` if it has bound some already."""
        bit = F.lit(1 << self.branch.slots[slot].variable)
        side = self.events.filter(F.col("s.m").bitwiseAND(bit) != 0).withColumnRenamed("s", "x")
        tests = list(self._tests(bound, slot, begun=begun))
        if rows is None:
            return side.filter(all_of(tests))
        first = min([*bound, slot] if begun else bound)
        near = (0, -1, 1) if len(self.branch.sequences) > 1 else (0, -1) if begun or slot > first else (0, 1)
        return self._meetings.joined(rows, side, tests, F.col("x"), self._first(first), near)

    def _tests(self, bound: list[int], slot: int, *, begun: bool) -> Iterator[Column]:
        """Yields the conditions on a new event, given the events that are bound."""
        new = F.col("x")
        known = {*bound, slot} if begun else {*bound}
        for sequence in self.branch.sequences:
            own, here = known.intersection(sequence), slot in sequence
            before, after = [p for p in own if p <= slot or not here], [p for p in own if p > slot or not here]
            if before and here:
                yield self._time(self._last(max(before))) < self._time(new)
            if after and here:
                yield self._time(new) < self._time(self._first(min(after)))
            if self._windowing.kind == SPAN and own and not (before and after and here):
                # The new event may come before the first or after the last event of another sequence.
                if before:
                    yield new.getField("u") - self._first(min(before)).getField("u") <= self._windowing.length
                if after:
                    yield self._last(max(after)).getField("u") - new.getField("u") <= self._windowing.length
        part = self.branch.slots[slot]
        if begun:
            yield from self._between(part.inner or Between(), self._last(slot), new)
        elif slot - 1 in known:
            yield from self._between(self._after(slot - 1), self._last(slot - 1), new)
        if slot + 1 in known and not part.kleene:
            yield from self._between(self._after(slot), new, self._first(slot + 1))
        for pair in self.pairs:
            yield from self._compared(pair, part.variable, known)

    def _compared(self, pair: Pair, variable: int, known: set[int]) -> Iterator[Column]:
        """Yields the tests of a predicate between a new event of a variable and all bound events, and the new event."""
        new = F.col("x")
        for one in (pair, pair.turned):
            if one.left_variable != variable:
                continue
            test = self._listed(one) if one.op == LISTED else compared(one.op, new, one.left, one.right)
            for slot in known:
                if self.branch.slots[slot].variable == one.right_variable:
                    yield self.every(slot, test)
            if one.right_variable == variable:
                yield test(new)

    def _listed(self, pair: Pair) -> Callable[[Column], Column]:
        """Returns a test of an inseparable predicate between a new event of the left variable and another event."""
        new = F.col("x")

        def test(of: Column) -> Column:
            is_first = self._time(new) < self._time(of)
            return F.when(is_first, self._satisfy(pair.left, new, of)).otherwise(self._satisfy(pair.right, of, new))

        return test

    def _satisfy(self, number: int, earlier: Column, later: Column) -> Column:
        """Whether two events satisfy the predicate of a list; -1: no trend has them in this order."""
        if number < 0:
            return F.lit(False)
        return self.frame.satisfy(self.frame.compiled.lists[number], earlier.getField("e"), later.getField("e"))

    def every(self, slot: int, test: Callable[[Column], Column]) -> Column:
        """Whether a test holds of all events of a slot."""
        column = self._column(slot)
        return F.forall(column, test) if self.branch.slots[slot].kleene else test(column)

    def _after(self, slot: int) -> Between:
        """Returns the conditions between a slot and the next one; none between two sequences."""
        return self.branch.between[slot] or Between()

    def _between(self, between: Between, earlier: Column, later: Column) -> Iterator[Column]:
        """Yields the conditions on two neighbours."""
        for c in between.comparisons:
            yield compared(c.op, later, c.later, c.earlier)(earlier)
        for number in between.listed:
            yield self._satisfy(number, earlier, later)

    # Negations -------------------------------------------------------------------------------------------------------

    def _gaps(self) -> Iterator[_Gap]:
        """Yields the gaps in which negations must have no match.

        A negation is left out if its predicates mention a variable that the branch does not bind.
        """
        slots = self.branch.slots
        gaps: list[tuple[int, int | None, int | None, set[int], range]] = []
        for sequence, begin, end in zip(self.branch.sequences, self.branch.begin, self.branch.end, strict=True):
            first, last = sequence[0], sequence[-1]
            ends = {first, last} if self._windowing.kind == SPAN else set[int]()
            gaps += [(number, None, first, {first, *ends}, sequence) for number in begin]
            gaps += [(number, last, None, {last, *ends}, sequence) for number in end]
            for slot in sequence[:-1]:
                guards = self._after(slot).guards
                gaps += [(number, slot, slot + 1, {slot, slot + 1}, sequence) for number in guards]
        for number, after, before, needed, sequence in gaps:
            asked = {pair.right_variable for pair in self.frame.compiled.negations[number].correlated}
            if asked <= {slot.variable for slot in slots}:
                places = {place for place, slot in enumerate(slots) if slot.variable in asked}
                yield _Gap(number, after, before, frozenset(needed | places), sequence)

    def _without(
        self, rows: DataFrame, number: int, sequence: range, after: int | None, before: int | None
    ) -> DataFrame:
        """Drops partial matches that have a match of a negation between two slots of a sequence.

        If ``after`` is None, the gap begins with the window; if ``before`` is None, it ends with the window.
        """
        bounds = self._first(sequence[0]), self._last(sequence[-1])
        return self._without_between(rows, number, self._end(after), self._begin(before), bounds)

    def _without_between(
        self,
        rows: DataFrame,
        number: int,
        after: Column | None,
        before: Column | None,
        bounds: tuple[Column, Column] | None = None,
    ) -> DataFrame:
        """Drops partial matches that have a match of a negation between the events ``after`` and ``before``.

        If one of these is None, ``bounds`` are the first and the last event of the sequence.
        """
        negation = self.frame.compiled.negations[number]
        branches = branches_of(negation.machine)
        assert not isinstance(branches, str), branches
        for branch in map(_shortest, branches):
            inside = _Joins(self.frame, self.events, self.by, branch, negation.pairs, f"n{self._prefix}")
            found = inside.matches(range(len(branch.slots)))
            tests = list(self._in_gap(inside, after, before, bounds))
            for pair in negation.correlated:
                mine = self._column(self._place_of(pair.right_variable))
                for place, slot in enumerate(branch.slots):
                    if slot.variable == pair.left_variable:
                        test = compared(MIRRORED[pair.op], mine, pair.right, pair.left)
                        tests.append(inside.every(place, test))
            anchor, near = (before, (0, 1)) if after is None else (after, (0, -1))
            assert anchor is not None, "a gap is beside an event"
            rows = self._meetings.joined(rows, found, tests, inside._first(0), anchor, near, "left_anti")
        return rows

    def _in_gap(
        self, inside: _Joins, after: Column | None, before: Column | None, bounds: tuple[Column, Column] | None
    ) -> Iterator[Column]:
        """Yields the conditions on the first and the last event of a negation's match."""
        first, last = inside._first(0), inside._last(len(inside.branch.slots) - 1)
        span = self._windowing.length if self._windowing.kind == SPAN else None
        if after is not None:
            yield self._time(after) < self._time(first)
        elif span is not None and bounds is not None:
            yield bounds[1].getField("u") - first.getField("u") <= span
        if before is not None:
            yield self._time(last) < self._time(before)
        elif span is not None and bounds is not None:
            yield last.getField("u") - bounds[0].getField("u") <= span

    # Columns ---------------------------------------------------------------------------------------------------------

    def _name(self, slot: int) -> str:
        return f"{self._prefix}{slot}"

    def _column(self, slot: int) -> Column:
        return F.col(self._name(slot))

    def _place_of(self, variable: int) -> int:
        return [slot.variable for slot in self.branch.slots].index(variable)

    def _called(self, slot: int) -> str:
        return self.frame.compiled.name_of(self.branch.slots[slot].variable)

    def _first(self, slot: int) -> Column:
        return F.get(self._column(slot), F.lit(0)) if self.branch.slots[slot].kleene else self._column(slot)

    def _last(self, slot: int) -> Column:
        return F.element_at(self._column(slot), -1) if self.branch.slots[slot].kleene else self._column(slot)

    def _begin(self, slot: int | None) -> Column | None:
        return None if slot is None else self._first(slot)

    def _end(self, slot: int | None) -> Column | None:
        return None if slot is None else self._last(slot)

    def _time(self, event: Column) -> Column:
        return instant(event, self._instant)


def _shortest(branch: Branch) -> Branch:
    """Makes repetitions without conditions between neighbours as short as possible: longer matches contain shorter.

    Examples
    --------
    >>> from cetdsl.ir.branches import Slot
    >>> _shortest(Branch((Slot(0), Slot(1, 2, None)), (Between(),))).slots[1].at_most
    2
    """
    free = Between()
    sides = [(*branch.between[max(n - 1, 0) : n], *branch.between[n : n + 1]) for n in range(len(branch.slots))]
    slots = [
        attrs.evolve(slot, at_most=slot.at_least) if all(side == free for side in near) else slot
        for slot, near in zip(branch.slots, sides, strict=True)
    ]
    return attrs.evolve(branch, slots=tuple(slots))
