"""Finds the sub-pattern (:mod:`~cetdsl.sharing.aggregation.subpatterns`) that each match of a query must contain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache, reduce

import attrs

from cetdsl.pattern.expressions import (
    Aggregate,
    Attribute,
    Binary,
    Expr,
    Length,
    Literal,
    Role,
    conjuncts,
    variables,
    with_attributes,
)
from cetdsl.pattern.nodes import Event, Joined, Not, Or, Pattern, Repeat, Seq, dissolved, events, transform
from cetdsl.pattern.query import Query, Window
from cetdsl.pattern.spans import Span
from cetdsl.sharing.aggregation.conditions import Condition
from cetdsl.sharing.aggregation.subpatterns import Absence, Kind, Relation, Scope, Slot, SubPattern, common
from cetdsl.sharing.families import unnamed


@attrs.frozen
class Skeleton:
    """The sub-pattern that each match of a query must contain, and the variables that may bind each slot's event."""

    pattern: SubPattern
    variables: tuple[frozenset[str], ...]


def skeleton(query: Query) -> Skeleton:
    """Returns what each match of a query must contain, as far as slots can state it.

    - An event is a slot, and so is an OR of events.
    - Parts of SEQ: each slot of one is before each slot of a later one. Parts of AND: in no order.
    - OR of longer parts: what each match of either part must contain, by :func:`common`.
    - NOT between two parts is kept if all events of both parts are in slots. NOT at an end of a sequence is dropped,
      because its gap ends with the window, and so is a NOT whose predicates refer to variables outside it.
    - Predicates on one event become conditions of slots. Predicates on several events are kept if each of their
      variables is the only one of its slot. Predicates on neighbours and on whole trends are dropped, because a
      sub-pattern has other neighbours.
    - A pattern with Kleene, or with an optional part, gets no slots: it is detected by itself.

    Examples
    --------
    >>> from cetdsl.frontend.sase import parse
    >>> found = skeleton(parse("PATTERN SEQ(A, AND(B, C), (D d OR E e)) WHERE d.x > 5 WITHIN 20 minutes"))
    >>> print(found.pattern, found.pattern.span, [sorted(names) for names in found.variables])
    SEQ(A, AND(B, C), OR(D, E)) 20 minutes [['A'], ['B'], ['C'], ['d', 'e']]
    """
    scope, span = _scope(query)
    predicates = _Predicates(part for whole in query.where for part in conjuncts(whole))
    found = _Part()
    found.put(query.pattern, predicates)
    if found.repeats:
        return Skeleton(SubPattern((), (), span, scope=scope), ())
    relations = frozenset(
        relation for predicate in predicates.relating for relation in _relation(predicate, found.names)
    )
    pattern = SubPattern(tuple(found.slots), tuple(found.later), span, frozenset(found.absences), relations, scope)
    return Skeleton(pattern, tuple(found.names))


def _scope(query: Query) -> tuple[Scope, Span | None]:
    window = query.window
    span = window.length if window is not None and window.slide is None else None
    return _scope_of(window, query.partition_by, query.group_by), span


@lru_cache(1024)
def _scope_of(window: Window | None, partition_by: tuple[str, ...], group_by: tuple[str, ...]) -> Scope:
    """Returns the scope; equal ones are the same object, for fast comparison."""
    kind: tuple[object, ...] = ()
    if window is not None:
        kind = (window.length.unit,) if window.slide is None else (window.length, window.slide)
    return _same_scope(Scope(kind, frozenset(partition_by) | frozenset(group_by), group_by))


@lru_cache(1024)
def _same_scope(scope: Scope) -> Scope:
    return scope


class _Predicates:
    """The predicates of a query: those on one event by variable (``local``), and those on several (``relating``)."""

    def __init__(self, predicates: Iterable[Expr]) -> None:
        self.local: dict[str, list[Expr]] = {}
        self.relating: list[Expr] = []
        self.all: list[tuple[Expr, list[str]]] = []
        for predicate in predicates:
            if (alone := _compared_variable(predicate)) is not None:
                self.all.append((predicate, [alone]))
                self.local.setdefault(alone, []).append(predicate)
                continue
            names: dict[str, None] = {}
            plain, todo = True, [predicate]
            while todo:
                node = todo.pop()
                todo += node.children
                if isinstance(node, Attribute):
                    names[node.variable or ""] = None
                    plain &= node.role is Role.EACH
                elif isinstance(node, (Aggregate, Length)):
                    # A predicate on whole trends, or on neighbours, would mean something else of a sub-pattern.
                    plain = False
                    names.update(dict.fromkeys(variables(node)))
            self.all.append((predicate, list(names)))
            if plain and len(names) == 1:
                self.local.setdefault(next(iter(names)), []).append(predicate)
            elif plain and names:
                self.relating.append(predicate)


def _compared_variable(predicate: Expr) -> str | None:
    """Returns the variable that a predicate compares with a constant, as most do; None for any other predicate."""
    if isinstance(predicate, Binary) and isinstance(predicate.right, Literal):
        side = predicate.left
        if isinstance(side, Attribute) and side.role is Role.EACH:
            return side.variable or ""
    return None


def _relation(predicate: Expr, slots: Sequence[frozenset[str]]) -> Iterable[Relation]:
    names = variables(predicate)
    places = {name: [number for number, bound in enumerate(slots) if name in bound] for name in names}
    if all(len(found) == 1 and len(slots[found[0]]) == 1 for found in places.values()):
        numbered = with_attributes(
            predicate, lambda attribute: attrs.evolve(attribute, variable=str(places[attribute.variable or ""][0]))
        )
        yield Relation(frozenset(place for found in places.values() for place in found), numbered)


@lru_cache(1 << 16)
def _slot(kind: Kind, condition: Condition) -> Slot:
    return Slot(((kind, condition),))


@lru_cache(1 << 16)
def _only(name: str) -> frozenset[str]:
    return frozenset((name,))


@lru_cache(1 << 16)
def _any_of_type(kind: str) -> Slot:
    return _slot(kind, Condition())


class _Part:
    """The slots of the parts of a pattern added so far; ``whole`` says whether all of their events are in slots."""

    def __init__(self) -> None:
        self.slots: list[Slot] = []
        self.later: list[int] = []
        self.names: list[frozenset[str]] = []
        self.absences: list[Absence] = []
        self.whole = True
        self.repeats = False

    def put(self, node: Pattern, predicates: _Predicates) -> None:
        """Adds the slots of a pattern behind the present ones, without an order in time between the two."""
        if isinstance(node, Event):
            self._add_event(node, predicates)
        elif isinstance(node, Repeat):
            self.repeats = True
        elif isinstance(node, Joined) and any(isinstance(child, type(node)) for child in node.parts):
            self.put(dissolved(node, type(node)), predicates)
        elif isinstance(node, Or):
            self._put_or(node, predicates)
        else:
            self._put_joined(node, predicates)

    def _add(self, slot: Slot, names: frozenset[str]) -> None:
        self.slots.append(slot)
        self.later.append(0)
        self.names.append(names)

    def _add_event(self, event: Event, predicates: _Predicates) -> None:
        name = event.variable
        if event.type is not None and event.condition is None and name not in predicates.local:
            slot = _any_of_type(event.type)
        else:
            slot = _event_slot(event, predicates)
        self._add(slot, _only(name))

    def _put_joined(self, node: Pattern, predicates: _Predicates) -> None:
        """Adds the parts of SEQ or AND."""
        begin, ordered = len(self.slots), isinstance(node, Seq)
        negations: list[Not] = []
        before = 0  # the slots of the part before; none if not all of its events are in slots
        for child in node.children:
            if not ordered and isinstance(child, Event):
                self._add_event(child, predicates)
                continue
            if isinstance(child, Not):
                negations.append(child)
                continue
            start, outside, self.whole = len(self.slots), self.whole, True
            self.put(child, predicates)
            mask = (1 << len(self.slots)) - (1 << start)
            if ordered:
                self.later[begin:start] = [follow | mask for follow in self.later[begin:start]]
            inner = mask if self.whole else 0
            if before and inner:
                self.absences += [a for negation in negations for a in _absence(negation, predicates, before, inner)]
            negations, before, self.whole = [], inner, self.whole and outside

    def _put_or(self, node: Pattern, predicates: _Predicates) -> None:
        if all(isinstance(child, Event) for child in node.children):
            slots = [_event_slot(child, predicates) for child in node.children if isinstance(child, Event)]
            names = frozenset(child.variable for child in node.children if isinstance(child, Event))
            self._add(Slot.of(choice for slot in slots for choice in slot.choices), names)
            return
        found = reduce(_either, [self._alone(child, predicates) for child in node.children])
        offset = len(self.slots)
        self.slots += found.pattern.slots
        self.later += [follow << offset for follow in found.pattern.later]
        self.names += found.variables
        self.absences += [
            attrs.evolve(one, after=one.after << offset, before=one.before << offset) for one in found.pattern.absences
        ]
        self.whole = False

    def _alone(self, node: Pattern, predicates: _Predicates) -> Skeleton:
        part = _Part()
        part.put(node, predicates)
        self.repeats |= part.repeats
        pattern = SubPattern(tuple(part.slots), tuple(part.later), absences=frozenset(part.absences))
        return Skeleton(pattern, tuple(part.names))


def _event_slot(event: Event, predicates: _Predicates) -> Slot:
    own: Sequence[Expr] = predicates.local.get(event.variable, ())
    if event.type is None:
        parts = [] if event.condition is None else conjuncts(unnamed(event.condition))
        return _slot(frozenset(parts), Condition.of(own))
    if event.condition is not None:
        own = [event.condition, *own]
    return _slot(event.type, Condition.of(own)) if own else _any_of_type(event.type)


def _either(first: Skeleton, second: Skeleton) -> Skeleton:
    both = common(first.pattern, second.pattern)
    if both is None:
        return Skeleton(SubPattern((), ()), ())
    names = (first.variables[i] | second.variables[j] for i, j in zip(both.first, both.second, strict=True))
    return Skeleton(both.pattern, tuple(names))


def _absence(negation: Not, predicates: _Predicates, after: int, before: int) -> Iterable[Absence]:
    inside = list(dict.fromkeys(event.variable for event in events(negation)))
    concerned = [(predicate, names) for predicate, names in predicates.all if not set(inside).isdisjoint(names)]
    if any(not set(names) <= set(inside) for _, names in concerned):
        return
    places = {name: str(number) for number, name in enumerate(inside)}

    def renamed(term: Expr) -> Expr:
        return with_attributes(term, lambda a: attrs.evolve(a, variable=places.get(a.variable or "", a.variable)))

    def placed(node: Pattern) -> Pattern:
        if not isinstance(node, Event):
            return node
        condition = None if node.condition is None else unnamed(node.condition)
        return Event(places[node.variable], node.type, condition)

    yield Absence(
        transform(negation.part, placed), frozenset(renamed(predicate) for predicate, _ in concerned), after, before
    )
