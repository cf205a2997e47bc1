"""Trends put together by Spark's joins in the order of plans: nothing of a key must fit one task's memory."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from itertools import product

import attrs
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cetdsl.detection.plans import OrderPlan
from cetdsl.execution.expressions import combine
from cetdsl.execution.joins import place_events
from cetdsl.execution.operators import Rows, runs
from cetdsl.execution.source import EventFrame
from cetdsl.execution.trends import Shown, refuse_duplicates
from cetdsl.execution.vertices import place_names
from cetdsl.ir.branches import Between, BranchPlan
from cetdsl.ir.operators import JoinEvents
from cetdsl.ir.windowing import SPAN
from cetdsl.pattern.expressions import HOLDS


@attrs.frozen
class _Chain:
    """A branch with so many events in each slot: their variables, what is between them, and the order of binding."""

    variables: tuple[int, ...]
    between: tuple[Between, ...]
    order: tuple[int, ...]


def _chains(plan: BranchPlan) -> Iterator[_Chain]:
    """Gives a chain for each number of events that the slots of a branch may bind."""
    slots, steps = plan.branch.slots, plan.plan
    assert isinstance(steps, OrderPlan), steps
    for sizes in product(*(range(slot.at_least, (slot.at_most or slot.at_least) + 1) for slot in slots)):
        variables: list[int] = []
        between: list[Between] = []
        places: list[range] = []
        for number, (slot, size) in enumerate(zip(slots, sizes)):
            places.append(range(len(variables), len(variables) + size))
            variables += [slot.variable] * size
            between += [slot.inner or Between()] * (size - 1)
            if number + 1 < len(slots):
                between.append(plan.branch.between[number])
        order = tuple(place for slot in steps.order for place in places[slot])
        yield _Chain(tuple(variables), tuple(between), order)


@runs(JoinEvents)
def join_events(df: DataFrame, plan: JoinEvents) -> Rows:
    """Gives rows of keys, window and trend; each branch is one join per event of its trends."""
    refuse_duplicates(plan.columns)
    frame = EventFrame(df, plan.source, plan.compiled)
    events = place_events(frame, plan.columns)
    by = place_names(plan.source)
    inside = [name for name in events.columns if name not in by]
    events = events.select(*by, F.struct(*inside).alias("s"))
    joins = _Joins(frame, events, by)
    found = [joins.trends(chain, plan) for one in plan.plans for chain in _chains(one)]
    return Rows(combine(DataFrame.union, found), frame)


class _Joins:
    """Joins the events of chains. Each event is a struct ``s<place>`` of all that is known of it."""

    def __init__(self, frame: EventFrame, events: DataFrame, by: list[str]) -> None:
        self.frame, self.events, self.by = frame, events, by
        self.compiled, self.windowing = frame.compiled, frame.source.windowing
        self.instant = ["u", *(f"b{n}" for n in range(len(frame.source.tie_break)))]

    def trends(self, chain: _Chain, plan: JoinEvents) -> DataFrame:
        """Returns the trends of a chain as rows of keys, window and trend."""
        first, *others = chain.order
        rows, bound = self._side(chain, first).filter(self._all(self._tests(chain, [], first))), [first]
        for place in others:
            rows = self._joined(rows, chain, bound, place)
            bound.append(place)
        fields = plan.columns if plan.named else tuple(map(self.frame.own_name, plan.columns))
        bindings = []
        for place, variable in enumerate(chain.variables):
            event = F.col(f"s{place}").getField("e")
            shown = [event.getField(self.frame.own_name(c)).alias(f) for c, f in zip(plan.columns, fields)]
            name = F.lit(self.compiled.variables[variable][0]).alias("variable")
            bindings.append(F.struct(name, F.struct(*shown).alias("event")))
        shown_columns = Shown.of(plan.source)
        keys = [F.col(f"k{plan.source.keys.index(name)}") for name in shown_columns.keys]
        answer = rows.select(*keys, *self.by[len(plan.source.keys) :], F.array(*bindings).alias("trend"))
        return answer.toDF(*(shown_columns.names() if plan.named else [*shown_columns.internal, "trend"]))

    def _side(self, chain: _Chain, place: int) -> DataFrame:
        """The events that can stand at a place of a chain."""
        bit = F.lit(1 << chain.variables[place])
        return self.events.filter(F.col("s.m").bitwiseAND(bit) != 0).withColumnRenamed("s", f"s{place}")

    def _joined(self, rows: DataFrame, chain: _Chain, bound: list[int], place: int) -> DataFrame:
        """Joins one more event to partial matches."""
        side = self._side(chain, place).withColumnsRenamed({name: f"x_{name}" for name in self.by})
        tests = [F.col(name).eqNullSafe(F.col(f"x_{name}")) for name in self.by]
        extra = [f"x_{name}" for name in self.by]
        if self.windowing.kind == SPAN:
            # The anchor is the first event so far: a later one is in its time bucket or the next, an earlier one in
            # its own or the one before.
            anchor, length = min(bound), max(self.windowing.length, 1)
            bucket = self._bucket(place, length)
            near = F.array(bucket, bucket - 1 if place > anchor else bucket + 1)
            side, extra = side.withColumn("x_z", F.explode(near)), [*extra, "x_z"]
            tests.append(self._bucket(anchor, length) == F.col("x_z"))
        tests += self._tests(chain, bound, place)
        return rows.join(side, self._all(tests)).drop(*extra)

    def _bucket(self, place: int, length: int) -> Column:
        return F.expr(f"(s{place}.u - pmod(s{place}.u, {length}L)) div {length}L")

    def _tests(self, chain: _Chain, bound: list[int], place: int) -> Iterator[Column]:
        """What must hold of a new event and those that are bound."""
        before, after = [p for p in bound if p < place], [p for p in bound if p > place]
        if before:
            yield self._time(max(before)) < self._time(place)
        if after:
            yield self._time(place) < self._time(min(after))
        if self.windowing.kind == SPAN and bound and not (before and after):
            first, last = min(*bound, place), max(*bound, place)
            yield self._of(last, "u") - self._of(first, "u") <= self.windowing.length
        for earlier in {place - 1, place}:
            if {earlier, earlier + 1} <= {*bound, place}:
                yield from self._between(chain.between[earlier], earlier)
        for pair in self.compiled.pairs:
            for left, right in product((*bound, place), repeat=2):
                named = pair.left_variable, pair.right_variable
                if place in (left, right) and named == (chain.variables[left], chain.variables[right]):
                    yield HOLDS[pair.op](self._of(left, f"f{pair.left}"), self._of(right, f"f{pair.right}"))

    def _between(self, between: Between, earlier: int) -> Iterator[Column]:
        """What must hold of two neighbours."""
        for c in between.comparisons:
            yield HOLDS[c.op](self._of(earlier + 1, f"f{c.later}"), self._of(earlier, f"f{c.earlier}"))
        for number in between.listed:
            term = self.compiled.lists[number]
            yield self.frame.pair_column(term, self._of(earlier, "e"), self._of(earlier + 1, "e"))

    def _of(self, place: int, name: str) -> Column:
        return F.col(f"s{place}").getField(name)

    def _time(self, place: int) -> Column:
        return F.struct(*(self._of(place, name).alias(name) for name in self.instant))

    def _all(self, tests: Iterator[Column] | list[Column]) -> Column:
        every = list(tests)
        return combine(operator.and_, every) if every else F.lit(True)
