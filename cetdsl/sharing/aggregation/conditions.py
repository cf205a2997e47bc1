"""Conditions on one event as unions of boxes, so that the OR of two conditions can be simplified.

A *box* has ranges of values for some attributes, and other terms, all of which must hold. A condition is the union of
its boxes. Every simplification here is sound: the simpler condition holds for every event that met the former one, for
a sub-pattern may match more than the patterns that share it, but never less.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, TypeAlias

import attrs

from cetdsl.pattern.expressions import (
    MIRRORED,
    Attribute,
    Binary,
    Call,
    Expr,
    Literal,
    Role,
    Unary,
    conjunction,
    conjuncts,
    joined,
    operands,
    strip,
)

#: A place between values: ``(-1,)`` before all values, ``(0, value, 0)`` right before a value, ``(0, value, 1)`` right
#: after it, ``(1,)`` after all values.
Cut: TypeAlias = "tuple[Any, ...]"
#: Ranges of values, as pairs of cuts in ascending order, with a gap between any two ranges.
Ranges: TypeAlias = "tuple[tuple[Cut, Cut], ...]"
#: The name of an attribute, and the family of the constants that it is compared with (see ``_FAMILIES``).
Key: TypeAlias = "tuple[str, str]"

_FIRST, _LAST = (-1,), (1,)
#: Whole numbers up to here are doubles too, so whole and other numbers compare here as they do in Spark.
_EXACT = 2**53
#: If a condition has more boxes, they are replaced by one box that contains them all.
MOST_BOXES = 4


def union(first: Ranges, second: Ranges) -> Ranges:
    """Returns the values that lie in either.

    Examples
    --------
    >>> below, above = ranges_of("<", 5), ranges_of(">=", 5)
    >>> union(below, above) == union(above, below) == (((-1,), (1,)),)
    True
    """
    merged: list[tuple[Cut, Cut]] = []
    for low, high in sorted(first + second):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


def intersection(first: Ranges, second: Ranges) -> Ranges:
    """Returns the values that lie in both.

    Examples
    --------
    >>> intersection(ranges_of(">", 3), ranges_of("<=", 3))
    ()
    """
    pairs = ((max(a, c), min(b, d)) for a, b in first for c, d in second)
    return tuple(sorted((low, high) for low, high in pairs if low < high))


@lru_cache(4096, typed=True)
def ranges_of(op: str, value: Any) -> Ranges:
    """Returns the values ``x`` with ``x <op> value``."""
    before, after = (0, value, 0), (0, value, 1)
    return {
        "=": ((before, after),),
        "!=": ((_FIRST, before), (after, _LAST)),
        "<": ((_FIRST, before),),
        "<=": ((_FIRST, after),),
        ">": ((after, _LAST),),
        ">=": ((before, _LAST),),
    }[op]


def _items(ranges: Mapping[Key, Ranges]) -> tuple[tuple[Key, Ranges], ...]:
    return tuple(sorted(ranges.items(), key=lambda item: item[0]))


@attrs.frozen(cache_hash=True)
class Box:
    """Ranges of values for some attributes, and other terms, all of which must hold; NULL lies in no range."""

    ranges: tuple[tuple[Key, Ranges], ...] = attrs.field(factory=dict, converter=_items)
    others: frozenset[Expr] = frozenset()

    def within(self, other: Box) -> bool:
        """Whether this box is certainly contained in the other; False may also mean that it cannot be told."""
        own = dict(self.ranges)
        narrower = all(key in own and intersection(own[key], ranges) == own[key] for key, ranges in other.ranges)
        return narrower and other.others <= self.others

    def hull(self, other: Box) -> Box:
        """Returns a box that contains both."""
        others = dict(other.ranges)
        shared = {key: union(ranges, others[key]) for key, ranges in self.ranges if key in others}
        return Box(shared, self.others & other.others)

    def joined_with(self, other: Box) -> Box | None:
        """Returns the union of both, if it is a box; None if they differ in more than the ranges of one attribute."""
        if self.within(other):
            return other
        if other.within(self):
            return self
        same = [key for key, _ in self.ranges] == [key for key, _ in other.ranges] and self.others == other.others
        differing = sum(own != its for own, its in zip(self.ranges, other.ranges, strict=False))
        return self.hull(other) if same and differing == 1 else None

    def expression(self) -> Expr:
        """The box as a term over the event's own row."""
        parts = [_written(Attribute(None, name), ranges) for (name, _), ranges in self.ranges]
        return conjunction([*parts, *sorted(self.others, key=repr)])


@attrs.frozen(cache_hash=True)
class Condition:
    """A condition on an event besides its type: that it lies in one of the boxes.

    Examples
    --------
    >>> from cetdsl.pattern.text import quote
    >>> x = Attribute(None, "speed")
    >>> slow, slower = Condition.of([Binary("<", x, Literal(40))]), Condition.of([Binary("<", x, Literal(30))])
    >>> quote(slow.either(slower).expression())
    'speed < 40'
    >>> quote(slower.either(Condition.of([Binary(">=", x, Literal(90))])).expression())
    'speed < 30 OR speed >= 90'
    """

    boxes: tuple[Box, ...] = (Box(),)

    @classmethod
    def of(cls, terms: Sequence[Expr]) -> Condition:
        """Returns the conjunction of terms over the row of one event, whatever variable they call it by."""
        if len(terms) == 1 and (known := _of_comparison(terms[0])) is not None:
            return known
        ranges: dict[Key, Ranges] = {}
        others: set[Expr] = set()
        for term in (part for whole in terms for part in conjuncts(whole)):
            found = _ranged(term)
            if found is None:
                others.add(strip(term))
            else:
                key, values = found
                ranges[key] = intersection(ranges[key], values) if key in ranges else values
        if not all(ranges.values()):
            return cls(())
        return _same(tuple(sorted(ranges.items(), key=lambda item: item[0])), frozenset(others))

    @property
    def anything(self) -> bool:
        """Whether every event meets it."""
        return Box() in self.boxes

    def either(self, other: Condition) -> Condition:
        """Returns the OR of both or, if that has many boxes, a weaker condition."""
        return self if self == other else _either(self, other)

    def expression(self) -> Expr:
        """The condition as a term over the event's own row."""
        return joined("or", [box.expression() for box in self.boxes]) if self.boxes else Literal(False)


def _of_comparison(term: Expr) -> Condition | None:
    """Returns the condition of a single comparison with a constant, as most conditions are; None for other terms."""
    if not isinstance(term, Binary) or term.op not in MIRRORED:
        return None
    side, other = term.left, term.right
    if not isinstance(side, Attribute) or side.role is not Role.EACH or not isinstance(other, Literal):
        return None
    return _compared_once(term.op, side.name, other.value)


@lru_cache(4096, typed=True)
def _compared_once(op: str, name: str, value: Any) -> Condition | None:
    found = _compared(op, Attribute(None, name), Literal(value))
    return None if found is None else _same((found,), frozenset())


@lru_cache(4096)
def _same(ranges: tuple[tuple[Key, Ranges], ...], others: frozenset[Expr]) -> Condition:
    """Returns the condition of one box; equal ones are the same object, for fast comparison."""
    return Condition((Box(dict(ranges), others),))


@lru_cache(4096)
def _either(first: Condition, second: Condition) -> Condition:
    boxes: list[Box] = []
    todo = [*first.boxes, *second.boxes]
    while todo:
        box = todo.pop(0)
        for other in boxes:
            together = box.joined_with(other)
            if together is not None:
                # The larger box may now be joined with another one.
                boxes.remove(other)
                todo.append(together)
                break
        else:
            boxes.append(box)
    if len(boxes) > MOST_BOXES:
        whole = boxes[0]
        for box in boxes[1:]:
            whole = whole.hull(box)
        boxes = [whole]
    return Condition(tuple(sorted(boxes, key=repr)))


def _ranged(term: Expr) -> tuple[Key, Ranges] | None:
    """Returns the ranges of the one attribute that a term compares with constants; None for any other term."""
    if isinstance(term, Binary) and term.op == "or":
        return _same_key([_ranged(part) for part in operands(term, "or")])
    if isinstance(term, Call) and term.name.lower() == "in" and len(term.arguments) > 1:
        value, *choices = term.arguments
        return _same_key([_compared("=", value, choice) for choice in choices])
    if isinstance(term, Binary) and term.op in MIRRORED:
        return _compared(term.op, term.left, term.right) or _compared(MIRRORED[term.op], term.right, term.left)
    return None


def _same_key(parts: list[tuple[Key, Ranges] | None]) -> tuple[Key, Ranges] | None:
    known = [part for part in parts if part is not None]
    if len(known) < len(parts) or len({key for key, _ in known}) != 1:
        return None
    values: Ranges = ()
    for _, ranges in known:
        values = union(values, ranges)
    return known[0][0], values


def _compared(op: str, side: Expr, other: Expr) -> tuple[Key, Ranges] | None:
    constant = _constant(other)
    family = _family(constant)
    if not isinstance(side, Attribute) or side.role is not Role.EACH or family is None:
        return None
    return (side.name, family), ranges_of(op, constant)


def _constant(term: Expr) -> Any:
    if isinstance(term, Unary) and term.op == "-" and isinstance(term.operand, Literal):
        value = term.operand.value
        return -value if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool) else None
    return term.value if isinstance(term, Literal) else None


#: Constants of one family compare here as they do in Spark; comparisons with other constants stay as they are written.
_FAMILIES: tuple[tuple[type, str, Callable[[Any], bool]], ...] = (
    (bool, "", lambda _: False),
    (int, "number", lambda number: abs(number) <= _EXACT),
    (float, "number", lambda number: abs(number) <= _EXACT),
    (Decimal, "decimal", lambda _: True),
    (str, "text", lambda _: True),
    (datetime.datetime, "time", lambda moment: moment.tzinfo is None),
    (datetime.date, "date", lambda _: True),
)


def _family(value: Any) -> str | None:
    for kind, family, fits in _FAMILIES:
        if isinstance(value, kind):
            return family if fits(value) else None
    return None


def _written(attribute: Attribute, ranges: Ranges) -> Expr:
    """The ranges of an attribute as a term."""
    if ranges == ((_FIRST, _LAST),):
        return Call("isnotnull", (attribute,))
    if len(ranges) == 2 and ranges == ranges_of("!=", ranges[1][0][1]):
        return Binary("!=", attribute, Literal(ranges[1][0][1]))
    return joined("or", [_between(attribute, low, high) for low, high in ranges])


def _between(attribute: Attribute, low: Cut, high: Cut) -> Expr:
    if low != _FIRST and high == (0, low[1], 1):
        return Binary("=", attribute, Literal(low[1]))
    parts: list[Expr] = []
    if low != _FIRST:
        parts.append(Binary(">" if low[2] else ">=", attribute, Literal(low[1])))
    if high != _LAST:
        parts.append(Binary("<=" if high[2] else "<", attribute, Literal(high[1])))
    return conjunction(parts)
