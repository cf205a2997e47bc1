"""Sub-patterns: what each match of a pattern must contain, and what each match of either of two patterns must contain.

A sub-pattern is a set of *slots*, each for one event, with a partial order in time; nested SEQ and AND of events are
such sets. The rules here are *sound*: the events that a match of a pattern binds to the slots of its sub-pattern are
themselves a match of the sub-pattern. The argument is the same for each rule: a requirement of the sub-pattern is about
its slots only, and the pattern has the same requirement or a stricter one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import attrs

from cetdsl.detection.plans import members
from cetdsl.pattern.expressions import (
    Attribute,
    Expr,
    with_attributes,
)
from cetdsl.pattern.nodes import Event, Pattern, transform
from cetdsl.pattern.spans import Span
from cetdsl.pattern.text import quote
from cetdsl.sharing.aggregation.conditions import Condition

#: The type that an event must have; for an event without a type, the terms that it must meet instead.
Kind: TypeAlias = "str | frozenset[Expr]"


def kind_text(kind: Kind) -> str:
    """A kind in words."""
    return kind if isinstance(kind, str) else " AND ".join(sorted(map(quote, kind))) or "*"


@attrs.frozen(cache_hash=True)
class Slot:
    """A place for one event: the kinds that it may be of, and what must hold of an event of each.

    A slot of several kinds is an OR of events.
    """

    choices: tuple[tuple[Kind, Condition], ...]
    #: The kinds of events that fit.
    kinds: tuple[Kind, ...] = attrs.field(init=False, eq=False, repr=False)
    #: The kind that fits, if it is a single one.
    kind: Kind | None = attrs.field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        kinds = tuple(kind for kind, _ in self.choices)
        object.__setattr__(self, "kinds", kinds)
        object.__setattr__(self, "kind", kinds[0] if len(kinds) == 1 else None)

    @classmethod
    def of(cls, choices: Iterable[tuple[Kind, Condition]]) -> Slot:
        """Returns a slot; the conditions of a kind that is named twice are joined by OR."""
        found: dict[Kind, Condition] = {}
        for kind, condition in choices:
            found[kind] = found[kind].either(condition) if kind in found else condition
        return cls(tuple(sorted(found.items(), key=lambda choice: kind_text(choice[0]))))

    def either(self, other: Slot) -> Slot:
        """Returns the slot for events that fit either: the kinds of both, the conditions of each kind joined by OR."""
        return self if self is other else _widened(self, other)

    def __str__(self) -> str:
        words = [kind_text(kind) for kind in self.kinds]
        return words[0] if len(words) == 1 else f"OR({', '.join(words)})"


@lru_cache(1 << 16)
def _widened(first: Slot, second: Slot) -> Slot:
    return first if first == second else Slot.of(first.choices + second.choices)


@attrs.frozen
class Absence:
    """A negated pattern: it has no match strictly between the last event of some slots and the first event of others.

    The slots are bit masks, ``after`` and ``before``. The variables of the pattern are renamed to their numbers in it,
    and ``where`` has the predicates on them.
    """

    pattern: Pattern
    where: frozenset[Expr]
    after: int
    before: int


@attrs.frozen
class Relation:
    """A predicate over the events of several slots; the number of a slot stands in place of a variable."""

    slots: frozenset[int]
    predicate: Expr


@attrs.frozen(cache_hash=True)
class Scope:
    """What patterns must have in common to share anything: the kind of window, and the columns equal along a match."""

    window: tuple[object, ...] = ()
    columns: frozenset[str] = frozenset()
    groups: tuple[str, ...] = ()


@attrs.frozen
class SubPattern:
    """The requirements on a match, as far as they can be shared.

    Parameters
    ----------
    slots : tuple of Slot
        One for each event. Two slots without an order between them may be bound to the same event.
    later : tuple of int
        For each slot the mask of the slots whose events are strictly later; this relation is transitive.
    span : Span or None
        The longest time from the first to the last event, if there is a bound.
    absences : frozenset of Absence
    relations : frozenset of Relation
    scope : Scope
    """

    slots: tuple[Slot, ...]
    later: tuple[int, ...]
    span: Span | None = None
    absences: frozenset[Absence] = frozenset()
    relations: frozenset[Relation] = frozenset()
    scope: Scope = Scope()
    #: How many pairs of slots are ordered.
    ordered: int = attrs.field(init=False, eq=False, repr=False)
    #: The kinds of events that any slot takes.
    kinds: frozenset[Kind] = attrs.field(init=False, eq=False, repr=False)
    #: The slot of each kind, if each slot is of one kind and no two are of the same.
    places: dict[Kind, int] | None = attrs.field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        places = {slot.kind: number for number, slot in enumerate(self.slots)}
        single = len(places) == len(self.slots) and None not in places
        kinds = places if single else [kind for slot in self.slots for kind in slot.kinds]
        set_field = object.__setattr__
        set_field(self, "ordered", sum(map(int.bit_count, self.later)))
        set_field(self, "kinds", frozenset(kinds))
        set_field(self, "places", places if single else None)

    @property
    def is_sequence(self) -> bool:
        """Whether each two slots are ordered."""
        return self.ordered == len(self.slots) * (len(self.slots) - 1) // 2

    def restricted(self, kept: Sequence[int]) -> SubPattern:
        """Returns the sub-pattern restricted to the kept slots."""
        return SubPattern(
            tuple([self.slots[i] for i in kept]),
            _later_alone(self.later, kept) if self.ordered else (0,) * len(kept),
            self.span,
            _absences_alone(self.absences, kept),
            _relations_alone(self.relations, kept),
            self.scope,
        )

    def __str__(self) -> str:
        return _text(self, (1 << len(self.slots)) - 1)


class Common(NamedTuple):
    """A sub-pattern of two patterns, and for each of its slots the corresponding slots of the two."""

    pattern: SubPattern
    first: tuple[int, ...]
    second: tuple[int, ...]

    def covers_first(self, of: SubPattern) -> bool:
        """Whether it has all that the first pattern requires, except conditions and span."""
        return self._covers(of, self.first)

    def covers_second(self, of: SubPattern) -> bool:
        """Whether it has all that the second pattern requires, except conditions and span."""
        return self._covers(of, self.second)

    def _covers(self, of: SubPattern, slots: tuple[int, ...]) -> bool:
        own = self.pattern
        return (
            len(own.slots) == len(of.slots)
            and own.ordered == of.ordered
            and len(own.absences) == len(of.absences)
            and len(own.relations) == len(of.relations)
            and all(slot.kinds == of.slots[i].kinds for slot, i in zip(own.slots, slots, strict=True))
        )


def common(first: SubPattern, second: SubPattern, given: Sequence[tuple[int, int]] = ()) -> Common | None:
    """Returns what each match of either pattern must contain; None if the patterns have no kind of event in common.

    - AND and AND, AND and SEQ, and nested patterns: the slots that both have, in the orders that both require.
    - SEQ and SEQ: a longest common subsequence, so that the result is a sequence again.
    - OR: two slots that have a kind in common become one slot with all kinds of both.
    - NOT is kept if both have it between the same slots, because it then forbids events in the same gap. It is dropped
      with a slot beside it, because the gap would be wider than the one that it was written for.
    - The span is the longer one, and each slot's conditions are joined by OR.
    - Predicates over several slots are kept if both have them.

    Parameters
    ----------
    first, second : SubPattern
    given : sequence of (int, int)
        Pairs of slots that correspond already, because both patterns are made of a sub-pattern that has them.

    Returns
    -------
    Common or None

    Examples
    --------
    >>> from cetdsl.frontend.sase import parse
    >>> from cetdsl.sharing.aggregation.skeletons import skeleton
    >>> def of(text):
    ...     return skeleton(parse("PATTERN " + text)).pattern
    >>> print(common(of("SEQ(A, B, C, D)"), of("SEQ(B, C, E)")).pattern)
    SEQ(B, C)
    >>> print(common(of("SEQ(B, C, E)"), of("AND(C, D, (E OR F))")).pattern)
    AND(C, OR(E, F))
    >>> print(common(of("SEQ(A, NOT B, C, D)"), of("SEQ(A, NOT B, C, E)")).pattern)
    SEQ(A, NOT B, C)
    """
    if first.scope is not second.scope and first.scope != second.scope:
        return None
    pairs = _pairs(first, second, given)
    if not pairs:
        return None
    mine, its = tuple(i for i, _ in pairs), tuple(j for _, j in pairs)
    later: tuple[int, ...] = (0,) * len(pairs)
    if first.ordered and second.ordered:
        later = tuple([a & b for a, b in zip(_later_alone(first.later, mine), _later_alone(second.later, its))])
    absences, relations = first.absences, first.relations
    pattern = SubPattern(
        tuple([first.slots[i].either(second.slots[j]) for i, j in pairs]),
        later,
        _longer(first.span, second.span),
        _absences_alone(absences, mine) & _absences_alone(second.absences, its) if absences else absences,
        _relations_alone(relations, mine) & _relations_alone(second.relations, its) if relations else relations,
        first.scope,
    )
    return Common(pattern, mine, its)


def _longer(first: Span | None, second: Span | None) -> Span | None:
    return None if first is None or second is None else max(first, second, key=lambda span: span.amount)


def _pairs(first: SubPattern, second: SubPattern, given: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns the pairs of corresponding slots, in order of the first pattern's slots."""
    if first.is_sequence and second.is_sequence:
        ascending = [j for _, j in sorted(given)]
        if ascending == sorted(ascending):
            return _subsequence(first.slots, second.slots, given)
    mine, its = first.places, second.places
    alike = not given or all(first.slots[i].kinds == second.slots[j].kinds for i, j in given)
    if mine is not None and its is not None and alike:
        return [(i, its[kind]) for kind, i in mine.items() if kind in its]
    found = dict(given)
    free = {j: slot for j, slot in enumerate(second.slots) if j not in found.values()}
    # Slots with the same kinds are paired first; then slots that have some kind in common, of those that are left.
    for same in (True, False):
        for i, slot in enumerate(first.slots):
            fits = (j for j, other in free.items() if (slot.kinds == other.kinds if same else _meets(slot, other)))
            if i not in found and (j := next(fits, None)) is not None:
                found[i] = j
                del free[j]
    return sorted(found.items())


def _meets(slot: Slot, other: Slot) -> bool:
    return not set(slot.kinds).isdisjoint(other.kinds)


def _subsequence(
    first: Sequence[Slot], second: Sequence[Slot], given: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Returns the pairs of a longest common subsequence that has the given pairs; the slots are in order of time."""
    pairs: list[tuple[int, int]] = []
    i = j = 0
    for k, m in [*sorted(given), (len(first), len(second))]:
        pairs += [(i + a, j + b) for a, b in _longest(first[i:k], second[j:m])] + [(k, m)]
        i, j = k + 1, m + 1
    return pairs[:-1]


def _longest(first: Sequence[Slot], second: Sequence[Slot]) -> list[tuple[int, int]]:
    longest = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for i in reversed(range(len(first))):
        for j in reversed(range(len(second))):
            skipped = max(longest[i + 1][j], longest[i][j + 1])
            longest[i][j] = max(skipped, 1 + longest[i + 1][j + 1]) if _meets(first[i], second[j]) else skipped
    pairs, i, j = [], 0, 0
    while longest[i][j]:
        if _meets(first[i], second[j]) and longest[i][j] == 1 + longest[i + 1][j + 1]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif longest[i][j] == longest[i + 1][j]:
            i += 1
        else:
            j += 1
    return pairs


def _later_alone(later: Sequence[int], kept: Sequence[int]) -> tuple[int, ...]:
    """Returns for each kept slot the mask of the kept slots that are later, renumbered."""
    bits = [(1 << i, 1 << place) for place, i in enumerate(kept)]
    alone = []
    for i in kept:
        follow = later[i]
        alone.append(sum([place for slot, place in bits if follow & slot]) if follow else 0)
    return tuple(alone)


def _absences_alone(absences: frozenset[Absence], kept: Sequence[int]) -> frozenset[Absence]:
    """Returns the absences that mention kept slots only, renumbered."""
    if not absences:
        return absences
    places = {i: place for place, i in enumerate(kept)}

    def moved(slots: int) -> int:
        return sum([1 << places[i] for i in members(slots)])

    mask = sum([1 << i for i in kept])
    whole = (absence for absence in absences if not (absence.after | absence.before) & ~mask)
    return frozenset(attrs.evolve(one, after=moved(one.after), before=moved(one.before)) for one in whole)


def _relations_alone(relations: frozenset[Relation], kept: Sequence[int]) -> frozenset[Relation]:
    """Returns the relations that mention kept slots only, renumbered."""
    if not relations:
        return relations
    places = {i: place for place, i in enumerate(kept)}
    return frozenset(_renumbered(relation, places) for relation in relations if relation.slots <= places.keys())


def _renumbered(relation: Relation, places: dict[int, int]) -> Relation:
    def place(attribute: Attribute) -> Attribute:
        return attrs.evolve(attribute, variable=str(places[int(attribute.variable or "")]))

    return Relation(frozenset(places[slot] for slot in relation.slots), with_attributes(relation.predicate, place))


# As text -------------------------------------------------------------------------------------------------------------


def _text(pattern: SubPattern, mask: int) -> str:
    """Writes the slots of a mask as nested SEQ and AND if these express their order, else with the ordered pairs."""
    inner = list(members(mask))
    if len(inner) < 2:
        return str(pattern.slots[inner[0]]) if inner else "nothing"
    apart = _components(pattern, inner, ordered=True)
    if len(apart) > 1:
        return f"AND({', '.join(_text(pattern, part) for part in apart)})"
    series = _components(pattern, inner, ordered=False)
    if len(series) > 1:
        series.sort(key=lambda part: -pattern.later[next(members(part))].bit_count())
        words, seen = [], 0
        for part in series:
            gaps = (one for one in pattern.absences if one.before & part and one.after & seen and not one.after & part)
            words += sorted(f"NOT {quote(transform(one.pattern, _by_type))}" for one in gaps)
            words.append(_text(pattern, part))
            seen |= part
        return f"SEQ({', '.join(words)})"
    before = ", ".join(
        f"{pattern.slots[i]} before {pattern.slots[j]}" for i in inner for j in members(pattern.later[i] & mask)
    )
    return f"AND({', '.join(str(pattern.slots[i]) for i in inner)}; {before})"


def _by_type(node: Pattern) -> Pattern:
    """Names an event by its type, which gives the shortest text."""
    return Event(node.type, node.type, node.condition) if isinstance(node, Event) and node.type else node


def _components(pattern: SubPattern, inner: Sequence[int], *, ordered: bool) -> list[int]:
    """Returns the connected components of slots, as masks, by the pairs that are ``ordered``, or that are not."""
    parts: list[int] = []
    for i in inner:
        together = 1 << i
        for part in list(parts):
            touching = any(
                bool(pattern.later[i] >> j & 1 or pattern.later[j] >> i & 1) == ordered for j in members(part)
            )
            if touching:
                parts.remove(part)
                together |= part
        parts.append(together)
    return parts
