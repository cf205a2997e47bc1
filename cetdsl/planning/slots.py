"""Translates a query to demands on *slots*, each of which holds one event, if these can express all of the query.

:mod:`cetdsl.ir.slots` defines slots, demands, fits, kinds and tests.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import attrs

from cetdsl.analysis.classify import PredicateClass, adjacent_pair, negations_of, separate, shape
from cetdsl.analysis.guards import may_fail
from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.ir.compiled import CodeColumn
from cetdsl.ir.schema import Schema
from cetdsl.ir.slots import ANY_KIND, UNBOUNDED, Compared, Demands, Fit, Gap
from cetdsl.ir.windowing import SLIDING, SPAN
from cetdsl.pattern.expressions import (
    MIRRORED,
    Attribute,
    Binary,
    Expr,
    Literal,
    conjunction,
    conjuncts,
    strip,
    variables,
)
from cetdsl.pattern.nodes import And, Event, Not, Or, Pattern, Repeat, Seq, events
from cetdsl.pattern.query import ANY, Selection
from cetdsl.planning.compile import comparison_columns
from cetdsl.planning.strategies.request import windowing_of

_T = TypeVar("_T", bound=Hashable)
#: The most alternatives of a query; one with more shares nothing with others.
MOST_ALTERNATIVES = 16


class NotInSlots(Exception):
    """Raised with the reason why slots cannot express a query."""


@attrs.define
class Numbers:
    """The common numbering of kinds, tests, compared columns and names of variables in the queries of a pass.

    ``type_column`` holds the types of events as plain texts; None if there is no such column.
    """

    type_column: str | None
    schema: Schema
    kinds: dict[str, int] = attrs.field(factory=dict)
    tests: dict[Expr, int] = attrs.field(factory=dict)
    codes: dict[CodeColumn, int] = attrs.field(factory=dict)
    variables: dict[str, int] = attrs.field(factory=dict)

    def fit(self, parts: Iterable[Expr], variable: str) -> Fit:
        """Returns the fit of a variable whose events meet the conditions ``parts``; one may require a type of event."""
        others = [strip(part) for part in parts]
        text = next((text for part in others if (text := self._type_of(part)) is not None), None)
        others = [part for part in others if text is None or self._type_of(part) != text]
        kind = ANY_KIND if text is None else _number(self.kinds, text)
        tests = (_number(self.tests, conjunction(self._once(others))),) if others else ()
        return Fit(kind, tests, _number(self.variables, variable))

    def _once(self, parts: Iterable[Expr]) -> list[Expr]:
        """Returns each condition once, in the same order for all queries.

        If one of them may fail, they stay in their own order, as an earlier one may guard it from an error.
        """
        once = list(dict.fromkeys(parts))
        return once if any(may_fail(part, self.schema) for part in once) else sorted(once, key=repr)

    def _type_of(self, part: Expr) -> str | None:
        """Returns the text that a condition requires of the type column; None if it requires none."""
        if self.type_column is None or not isinstance(part, Binary) or part.op != "=":
            return None
        column, value = part.left, part.right
        if isinstance(column, Literal):
            column, value = value, column
        if not isinstance(column, Attribute) or column.name != self.type_column:
            return None
        return value.value if isinstance(value, Literal) and isinstance(value.value, str) else None

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many numbers of each sort have been given so far."""
        return tuple(map(len, self._sorts))

    def take_back(self, sizes: Sequence[int]) -> None:
        """Withdraws the numbers of each sort beyond the given sizes."""
        for numbers, size in zip(self._sorts, sizes, strict=True):
            while len(numbers) > size:
                numbers.popitem()

    @property
    def _sorts(self) -> tuple[dict[Any, int], ...]:
        return self.kinds, self.tests, self.codes, self.variables


@attrs.frozen
class Alternative:
    """One way to match a query: its demands, and the variables that each slot may be bound by."""

    demands: Demands
    names: tuple[frozenset[str], ...]


def alternatives_of(resolved: ResolvedQuery, numbers: Numbers) -> tuple[Alternative, ...]:
    """Returns the alternatives of a rewritten query; each trend of the query is a trend of exactly one of them.

    Raises
    ------
    NotInSlots
        If slots cannot express the query. Its numbers are then withdrawn.
    """
    sizes = numbers.sizes
    try:
        return _Reader(resolved, numbers).read()
    except NotInSlots:
        numbers.take_back(sizes)
        raise


@attrs.frozen
class _Negated:
    """A NOT in a gap: it stands behind the slots ``after`` and in front of the slots ``before``.

    One of the two sets is empty if the NOT stands at that end of the sequence.
    """

    part: Not
    after: frozenset[int] = frozenset()
    before: frozenset[int] = frozenset()

    def moved(self, by: int) -> _Negated:
        return _Negated(self.part, *(frozenset(slot + by for slot in side) for side in (self.after, self.before)))


@attrs.frozen
class _Branch:
    """One alternative of a pattern: the events that each slot may hold, and the order that the pattern requires.

    A pair of slots is in ``before`` if the first one's event must come before the other's, and in ``apart`` if their
    events must be of different instants, in whichever order.
    """

    slots: tuple[tuple[Event, ...], ...] = ()
    before: frozenset[tuple[int, int]] = frozenset()
    apart: frozenset[tuple[int, int]] = frozenset()
    gaps: tuple[_Negated, ...] = ()

    def beside(self, other: _Branch) -> _Branch:
        """Returns the branch that has the slots of both; no order is required between those of one and of the other."""
        by = len(self.slots)
        return _Branch(
            self.slots + other.slots,
            self.before | {(a + by, b + by) for a, b in other.before},
            self.apart | {(a + by, b + by) for a, b in other.apart},
            self.gaps + tuple(gap.moved(by) for gap in other.gaps),
        )

    def are_apart(self, one: int, other: int) -> bool:
        """Whether the events of two slots are of one trend, and so of different instants."""
        pairs = ((one, other), (other, one))
        return any(pair in self.before or pair in self.apart for pair in pairs)

    @property
    def variables(self) -> frozenset[str]:
        return frozenset(event.variable for slot in self.slots for event in slot)


class _Reader:
    def __init__(self, resolved: ResolvedQuery, numbers: Numbers) -> None:
        self.resolved, self.numbers = resolved, numbers
        self.pattern = resolved.query.pattern
        self.windowing = windowing_of(resolved.query.window, resolved.is_stream)
        self.local: dict[str, list[Expr]] = {}
        self.pairwise: list[Expr] = []
        self.adjacent: list[Expr] = []
        self._sort_predicates()
        related = {name for one in (*self.pairwise, *self.adjacent) for name in variables(one)}
        self._related = frozenset(related)
        self._conditions = {event.variable: self._condition(event) for event in events(self.pattern)}

    def _condition(self, event: Event) -> Expr | None:
        """Returns the condition that each event of a variable satisfies; None if there is none."""
        parts = [*([] if event.condition is None else [event.condition]), *self.local.get(event.variable, ())]
        return conjunction(parts) if parts else None

    def _sort_predicates(self) -> None:
        """Sorts predicates by kind: those on single events, negated ones included, and those that relate two events."""
        for predicate in self.resolved.query.where:
            kind, names = shape(predicate), variables(predicate)
            if kind is PredicateClass.LOCAL:
                self.local.setdefault(names[0], []).append(predicate)
            elif negations_of(predicate, self.pattern):
                raise NotInSlots("a NOT depends on which events the trend binds, or on several of its own")
            elif kind is PredicateClass.PAIRWISE and separate(predicate) is not None and len(set(names)) == 2:
                self.pairwise.append(predicate)
            elif kind is PredicateClass.ADJACENT and separate(predicate) is not None:
                self.adjacent.append(predicate)
            else:
                raise NotInSlots("a predicate needs the finished trend")

    def read(self) -> tuple[Alternative, ...]:
        if self.resolved.query.selection != Selection():
            raise NotInSlots("it asks for matches one at a time")
        if self.resolved.query.matching != ANY:
            raise NotInSlots("its matching policy looks at the events between those that it binds")
        branches = list(self._branches(self.pattern, top=True))
        if len({branch.variables for branch in branches}) < len(branches):
            raise NotInSlots("two alternatives bind the same variables")
        return tuple(self._alternative(branch) for branch in branches)

    def _branches(self, node: Pattern, *, top: bool = False) -> Sequence[_Branch]:
        if isinstance(node, Event):
            return (_Branch(((node,),)),)
        if isinstance(node, Or):
            return self._of_or(node, top)
        if isinstance(node, And):
            return self._of_and(node, top)
        if isinstance(node, Seq):
            return self._of_seq(node, top)
        assert isinstance(node, Repeat), node
        raise NotInSlots("a part of the pattern is repeated or optional")

    def _of_or(self, node: Or, top: bool) -> Sequence[_Branch]:
        parts = node.parts
        inner = [part for part in parts if isinstance(part, Event)]
        kinds = [self._fit(part).kind for part in inner]
        told_apart = ANY_KIND not in kinds and len(set(kinds)) == len(kinds)
        if len(inner) == len(parts) and told_apart and self._related.isdisjoint(e.variable for e in inner):
            return (_Branch((tuple(inner),)),)
        if any(isinstance(part, And) for part in parts):
            raise NotInSlots("an AND is an alternative of an OR")
        return self._few([branch for part in parts for branch in self._branches(part, top=top)])

    def _of_and(self, node: And, top: bool) -> Sequence[_Branch]:
        found: Sequence[_Branch] = (_Branch(),)
        if not top and not all(isinstance(part, Event) for part in node.parts):
            raise NotInSlots("an AND inside the pattern joins more than single events")
        for part in node.parts:
            # An AND at the top may have ANDs as parts.
            beside = self._branches(part, top=top and isinstance(part, And))
            found = self._few([one.beside(other) for one in found for other in beside])
        if top:
            return found
        return [
            attrs.evolve(one, apart=frozenset((a, b) for b in range(len(one.slots)) for a in range(b))) for one in found
        ]

    def _of_seq(self, node: Seq, top: bool) -> Sequence[_Branch]:
        #: Branches so far, each with the slots of the last positive part, and the NOTs since that part.
        found: list[tuple[_Branch, frozenset[int], tuple[Not, ...]]] = [(_Branch(), frozenset(), ())]
        for part in node.parts:
            if isinstance(part, Not):
                found = [(branch, last, (*waiting, part)) for branch, last, waiting in found]
                continue
            inner = self._branches(part)
            found = [self._followed(*one, other) for one in found for other in inner]
            self._few(found)
        branches = []
        for branch, last, waiting in found:
            if any(not (gap.after and gap.before) for gap in branch.gaps) or waiting:
                self._refuse_at_end(top)
            branches.append(attrs.evolve(branch, gaps=(*branch.gaps, *(_Negated(one, after=last) for one in waiting))))
        return branches

    def _refuse_at_end(self, top: bool) -> None:
        if not top:
            raise NotInSlots("a NOT stands at an end of a part of the pattern")
        if self.windowing.kind == SLIDING:
            raise NotInSlots("a NOT at an end of the pattern looks at the whole window")

    def _followed(
        self, branch: _Branch, last: frozenset[int], waiting: tuple[Not, ...], other: _Branch
    ) -> tuple[_Branch, frozenset[int], tuple[Not, ...]]:
        by = len(branch.slots)
        new = frozenset(range(by, by + len(other.slots)))
        both = branch.beside(other)
        before = both.before | {(a, b) for a in range(by) for b in new}
        gaps = (*both.gaps, *(_Negated(one, last, new) for one in waiting))
        return attrs.evolve(both, before=before, gaps=gaps), new, ()

    @staticmethod
    def _few(found: list[_T]) -> list[_T]:
        if len(found) > MOST_ALTERNATIVES:
            raise NotInSlots(f"the pattern has more than {MOST_ALTERNATIVES} alternatives")
        return found

    def _alternative(self, branch: _Branch) -> Alternative:
        names = [event.variable for slot in branch.slots for event in slot]
        if len(set(names)) < len(names):
            raise NotInSlots("a variable stands at two places")
        place = {event.variable: number for number, slot in enumerate(branch.slots) for event in slot}
        apart = frozenset((min(pair), max(pair)) for pair in branch.before) | branch.apart
        demands = Demands(
            tuple(tuple(sorted(map(self._fit, slot), key=lambda fit: fit.kind)) for slot in branch.slots),
            branch.before,
            apart,
            frozenset(self._comparisons(branch, place)),
            frozenset(self._gap(gap) for gap in branch.gaps),
            self._length,
        )
        return Alternative(demands, tuple(frozenset(event.variable for event in slot) for slot in branch.slots))

    @property
    def _length(self) -> int:
        if self.windowing.kind == SPAN:
            return self.windowing.length
        return self.windowing.length - 1 if self.windowing.kind == SLIDING else UNBOUNDED

    def _comparisons(self, branch: _Branch, place: dict[str, int]) -> Iterator[Compared]:
        for predicate in self.pairwise:
            found = separate(predicate)
            assert found is not None, predicate
            if all(name in place for name in found.variables):
                yield self._compared(found.op, found.left, found.right, *(place[name] for name in found.variables))
        for predicate in self.adjacent:
            pair, found = adjacent_pair(predicate), separate(predicate)
            assert pair is not None, predicate
            assert found is not None, predicate
            earlier, later = (place.get(name) for name in pair)
            if earlier is not None and later is not None and _are_neighbours(branch, earlier, later):
                yield self._compared(found.op, found.left, found.right, later, earlier)

    def _compared(self, op: str, left: Expr, right: Expr, slot: int, other: int) -> Compared:
        columns = comparison_columns(left, right, self.resolved.schema, self._conditions)
        first, second = (_number(self.numbers.codes, column) for column in columns)
        if slot < other:
            return Compared(op, slot, first, other, second)
        return Compared(MIRRORED[op], other, second, slot, first)

    def _gap(self, negated: _Negated) -> Gap:
        part = negated.part.part
        inner = part.parts if isinstance(part, Or) else (part,)
        if not all(isinstance(event, Event) for event in inner):
            raise NotInSlots("a NOT is more than a single event")
        fits = {attrs.evolve(self._fit(event), variable=-1) for event in events(part)}
        return Gap(tuple(sorted(fits, key=lambda fit: (fit.kind, fit.tests))), negated.after, negated.before)

    def _fit(self, event: Event) -> Fit:
        own = [] if event.condition is None else conjuncts(strip(event.condition))
        return self.numbers.fit([*own, *self.local.get(event.variable, ())], event.variable)


def _are_neighbours(branch: _Branch, earlier: int, later: int) -> bool:
    """Whether the events of two slots follow each other in all trends; raises if that depends on the trend."""
    if (later, earlier) in branch.before:
        return False
    # Slots of other sides of an AND at the top belong to other trends.
    own = [
        slot for slot in range(len(branch.slots)) if slot not in (earlier, later) and branch.are_apart(slot, earlier)
    ]
    if any((earlier, slot) in branch.before and (slot, later) in branch.before for slot in own):
        return False
    outside = all((slot, earlier) in branch.before or (later, slot) in branch.before for slot in own)
    if outside and (earlier, later) in branch.before:
        return True
    raise NotInSlots("a predicate relates neighbours whose order is open")


def _number(numbers: dict[_T, int], thing: _T) -> int:
    return numbers.setdefault(thing, len(numbers))
