"""Chooses the vertices of a plan that are worth keeping, by statistics, and the steps by which each is put together.

An *instance* of a vertex is a set of events, one for each slot of its pattern, that meets the pattern's requirements.
The expected number of instances is computed for independent events at constant rates. With rates of events ``r``, k
slots have

    k  *  L^(k - 1)  *  product of r  *  share of the orders in time that are allowed  *  selectivities

instances a second that last at most L seconds; the factor k says that any of the events may be the first. The share of
the orders in time that are allowed is taken as 1 over the product of h, where h of a slot is 1 plus the number of slots
that must be later. This is the hook length formula: exact if each slot directly follows at most one other, as in SEQ
and in an AND of SEQ, and otherwise no more than the share. The same holds if time is read backwards, where h counts the
slots that must be earlier; that is exact for a SEQ of an AND and one more slot. The larger of both is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import attrs

from cetdsl.detection.arithmetic import compressed_exp
from cetdsl.detection.cost import LEAST
from cetdsl.detection.plans import members
from cetdsl.detection.statistics import DEFAULT_SELECTIVITY, Statistics
from cetdsl.pattern.spans import Span
from cetdsl.sharing.aggregation.conditions import Condition
from cetdsl.sharing.aggregation.plan import Edge, PlanData, Step, Vertex
from cetdsl.sharing.aggregation.subpatterns import Kind, Slot, SubPattern, kind_text

#: The costs of storing an instance, and of reading one; to look at an event as a candidate for a slot costs 1.
KEEPING, READING = 0.6, 0.4
_SECONDS = {"microsecond": 1e-6, "tick": 1.0, "month": 30 * 86400.0}


def worth_keeping(plan: PlanData, statistics: Statistics) -> PlanData:
    """Returns the plan without the sub-patterns whose instances cost more to keep than to build again.

    The children of a dropped sub-pattern are made of its parents instead. The cost of a vertex is the expected number
    of candidates that its steps look at; a sub-pattern also costs the storing of its instances. The sub-patterns
    nearest to the queries are examined first, and if one is dropped, its parents and children are examined again.

    Parameters
    ----------
    plan : PlanData
    statistics : Statistics
        The rate of events by type: a second, or in all if there is no window. For a pair of types, the share of pairs
        that predicates on both let through; for a type with itself, the share of its events that a condition lets
        through.

    Returns
    -------
    PlanData
        Its vertices have steps, and expected numbers of instances.
    """
    return _Weighing(plan, statistics).weighed()


def expected_cost(plan: PlanData, statistics: Statistics) -> float:
    """Returns the expected cost of a plan a second; to look at one event as a candidate for a slot costs 1."""
    return _Weighing(plan, statistics).cost()


class Expected:
    """The expected numbers of instances of parts of a pattern, which are given as bit masks of slots.

    Examples
    --------
    >>> from cetdsl.frontend.sase import parse
    >>> from cetdsl.sharing.aggregation.skeletons import skeleton
    >>> pattern = skeleton(parse("PATTERN SEQ(A, B) WITHIN 10 seconds")).pattern
    >>> expected = Expected(pattern, Statistics({"A": 0.5, "B": 0.25}))
    >>> round(math.exp(expected.log(0b11)), 6)  # half of 2 * 10 * 0.5 * 0.25
    1.25
    """

    def __init__(self, pattern: SubPattern, statistics: Statistics) -> None:
        self._orders = pattern.later, _reversed(pattern.later)
        self._length = _length_of(pattern)
        self.logs = [math.log(max(_rate(slot, statistics), LEAST)) for slot in pattern.slots]
        if self._length is not None:
            self.logs = [log + math.log(self._length) for log in self.logs]
        #: The slots of each predicate, and the logarithm of its selectivity.
        self._related: list[tuple[int, float]] = []
        for relation in pattern.relations:
            kinds = [kind_text(kind) for i in sorted(relation.slots) if (kind := pattern.slots[i].kind) is not None]
            pair = len(kinds) == len(relation.slots) == 2
            share = statistics.selectivity(kinds[0], kinds[1], True) if pair else DEFAULT_SELECTIVITY
            self._related.append((sum(1 << slot for slot in relation.slots), math.log(max(share, LEAST))))
        #: The slots that an order or a predicate relates to others; ``_shares`` caches the shares of masks of these.
        self.tied = 0
        for slot, later in enumerate(pattern.later):
            if later:
                self.tied |= later | 1 << slot
        for mask, _ in self._related:
            self.tied |= mask
        self._shares: dict[int, float] = {0: 0.0}

    def log(self, mask: int) -> float:
        """Returns the logarithm of the expected instances of some slots, a second or, with no window, in all."""
        return self.of(sum([self.logs[slot] for slot in members(mask)]), mask)

    def of(self, logs: float, mask: int) -> float:
        """Computes :meth:`log`, given the sum of the logarithms of the slots' expected events."""
        if self._length is not None:
            logs += math.log(mask.bit_count() / self._length)
        return logs + self._share(mask & self.tied)

    def _share(self, mask: int) -> float:
        known = self._shares.get(mask)
        if known is None:
            slots = list(members(mask))
            hooks = [math.prod([1 + (order[slot] & mask).bit_count() for slot in slots]) for order in self._orders]
            known = sum([log for related, log in self._related if related & mask == related]) - math.log(min(hooks))
            self._shares[mask] = known
        return known


def _reversed(later: Sequence[int]) -> tuple[int, ...]:
    """Returns for each slot the slots that must be earlier, given those that must be later, as bit masks."""
    earlier = [0] * len(later)
    for slot, others in enumerate(later):
        for other in members(others):
            earlier[other] |= 1 << slot
    return tuple(earlier)


class _Part(NamedTuple):
    """A step of a vertex, and the slots that it binds.

    ``loose`` is the logarithm of how many instances of the parent are read for each one that fits the vertex.
    """

    step: Step
    mask: int
    loose: float


class _Weighing:
    """A plan from which sub-patterns are dropped while that reduces its cost."""

    def __init__(self, plan: PlanData, statistics: Statistics) -> None:
        self._plan = plan
        self._vertices = {vertex.number: vertex for vertex in plan.vertices}
        self._expected = {number: Expected(v.pattern, statistics) for number, v in self._vertices.items()}
        self._above: dict[int, dict[int, tuple[int, ...]]] = {number: {} for number in self._vertices}
        self._below: dict[int, dict[int, None]] = {number: {} for number in self._vertices}
        for edge in plan.edges:
            self._above[edge.child][edge.parent] = edge.slots
            self._below[edge.parent][edge.child] = None
        #: The costs of vertices with their present parents, as far as they have been computed.
        self._works: dict[int, float] = {}

    def weighed(self) -> PlanData:
        shared = [vertex for vertex in self._plan.vertices if vertex.query is None]
        todo = dict.fromkeys(vertex.number for vertex in sorted(shared, key=lambda vertex: vertex.level))
        dropped = 0
        while todo:
            number, _ = todo.popitem()
            if self._is_worth(number):
                continue
            dropped += 1
            around = (*self._below[number], *self._above[number])
            self._drop(number)
            todo.update(dict.fromkeys(other for other in around if self._vertices[other].query is None))
        return self._drawn(dropped)

    def cost(self) -> float:
        kept = (number for number, vertex in self._vertices.items() if vertex.query is None)
        return math.fsum(chain(map(self._work, self._vertices), (self._cost_of_keeping(number) for number in kept)))

    def _cost_of_keeping(self, number: int) -> float:
        return KEEPING * compressed_exp(self._log(number))

    def _is_worth(self, number: int) -> bool:
        """Whether a sub-pattern has several children, and costs at most what they would cost in addition without it."""
        children = self._below[number]
        if len(children) < 2:
            return False
        own = self._work(number) + self._cost_of_keeping(number)
        more = [self._cost_of(child, self._without(child, number)) - self._work(child) for child in children]
        return math.fsum(more) >= own

    def _log(self, number: int) -> float:
        return self._expected[number].log((1 << len(self._vertices[number].pattern.slots)) - 1)

    def _work(self, number: int) -> float:
        if number not in self._works:
            self._works[number] = self._cost_of(number, self._above[number])
        return self._works[number]

    def _without(self, child: int, number: int) -> dict[int, tuple[int, ...]]:
        """Returns the parents of a child if one parent, ``number``, is replaced by that parent's own parents."""
        kept = {parent: slots for parent, slots in self._above[child].items() if parent != number}
        through = self._above[child][number]
        for parent, slots in self._above[number].items():
            kept.setdefault(parent, tuple(through[slot] for slot in slots))
        return kept

    def _drop(self, number: int) -> None:
        for child in self._below.pop(number):
            self._above[child] = self._without(child, number)
            self._works.pop(child, None)
            for parent in self._above[number]:
                self._below[parent][child] = None
        for parent in self._above.pop(number):
            del self._below[parent][number]

    def _cost_of(self, number: int, above: Mapping[int, tuple[int, ...]]) -> float:
        return self._put_together(number, above)[0]

    def _put_together(self, number: int, above: Mapping[int, tuple[int, ...]]) -> tuple[float, tuple[Step, ...]]:
        """Returns a vertex's expected cost, and its steps: the next is always the one with the fewest candidates."""
        expected, parts = self._expected[number], self._parts(number, above)
        # Of the slots that nothing relates to others, the rarest always comes first, so only that one is tried.
        alone = [part for part in parts if part.step.parent is None and not part.mask & expected.tied]
        alone.sort(key=lambda part: -expected.logs[part.step.slots[0]])
        parts = [part for part in parts if part.step.parent is not None or part.mask & expected.tied]
        steps: list[Step] = []
        cost, bound, logs = 0.0, 0, 0.0
        while parts or alone:
            best: tuple[float, float, _Part] | None = None
            for part in (*parts, *alone[-1:]):
                added = sum([expected.logs[slot] for slot in members(part.mask & ~bound)])
                looked_at = expected.of(logs + added, bound | part.mask) + part.loose
                if best is None or looked_at < best[0]:
                    best = looked_at, added, part
            assert best is not None
            looked_at, added, part = best
            cost += compressed_exp(looked_at) * (1.0 if part.step.parent is None else READING)
            steps.append(part.step)
            logs, bound = logs + added, bound | part.mask
            if alone and alone[-1] is part:
                alone.pop()
            parts = [other for other in parts if other.mask & ~bound]
        return cost, tuple(steps)

    def _parts(self, number: int, above: Mapping[int, tuple[int, ...]]) -> list[_Part]:
        """Returns the possible steps of a vertex: one for each parent, and one for each slot that no parent has."""
        expected, covered, parts = self._expected[number], 0, []
        for parent, slots in above.items():
            mask = sum([1 << slot for slot in slots])
            loose = max(self._log(parent) - expected.log(mask), 0.0)
            parts.append(_Part(Step(slots, parent), mask, loose))
            covered |= mask
        slots_of = range(len(self._vertices[number].pattern.slots))
        return [*parts, *(_Part(Step((slot,)), 1 << slot, 0.0) for slot in slots_of if not covered >> slot & 1)]

    def _drawn(self, dropped: int) -> PlanData:
        vertices: dict[int, Vertex] = {}
        # Parents come before their children, also after some have been dropped.
        for vertex in self._plan.vertices:
            above = self._above.get(vertex.number)
            if above is None:
                continue
            taken = {slot for slots in above.values() for slot in slots}
            vertices[vertex.number] = attrs.evolve(
                vertex,
                level=1 + max((vertices[parent].level for parent in above), default=0),
                parents=tuple(above),
                own=tuple(slot for slot in range(len(vertex.pattern.slots)) if slot not in taken),
                steps=self._put_together(vertex.number, above)[1],
                expected=compressed_exp(self._log(vertex.number)) if vertex.pattern.slots else None,
            )
        ordered = sorted(vertices.values(), key=lambda vertex: (vertex.level, vertex.query is not None, vertex.number))
        return attrs.evolve(
            self._plan,
            vertices=tuple(ordered),
            edges=tuple(_edges(ordered, self._above)),
            dropped=dropped,
        )


def _edges(vertices: Iterable[Vertex], above: Mapping[int, Mapping[int, tuple[int, ...]]]) -> Iterable[Edge]:
    for vertex in vertices:
        for parent, slots in above[vertex.number].items():
            yield Edge(parent, vertex.number, slots)


def _length_of(pattern: SubPattern) -> float | None:
    """Returns how many seconds, or ticks, an instance may last; None if there is no bound."""
    span = pattern.span
    if span is None and len(pattern.scope.window) == 2:
        length = pattern.scope.window[0]
        span = length if isinstance(length, Span) else None
    return None if span is None else span.amount * _SECONDS[span.unit]


def _rate(slot: Slot, statistics: Statistics) -> float:
    return sum(_rate_of(kind, condition, statistics) for kind, condition in slot.choices)


def _rate_of(kind: Kind, condition: Condition, statistics: Statistics) -> float:
    """Returns the rate of events of a kind that meet a condition, whose boxes and terms are taken as independent.

    The statistics of a kind say which share of its events one term lets through; each further term is assumed to let
    through the default share.
    """
    name = kind_text(kind)
    if condition.anything:
        return statistics.rate(name)
    passing, missing = statistics.selectivity(name, name, True), 1.0
    for box in condition.boxes:
        more = len(box.ranges) + len(box.others) - 1
        missing *= 1 - passing * DEFAULT_SELECTIVITY**more
    return statistics.rate(name) * (1 - missing)
