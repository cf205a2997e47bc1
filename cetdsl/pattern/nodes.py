"""Pattern nodes: the algebra of event patterns, immutable and self-validating."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator

import attrs

from cetdsl.errors import InvalidNode, shown
from cetdsl.pattern.expressions import DEPTH, Expr, check_name, check_text
from cetdsl.pattern.spans import Span


class Pattern:
    """Base of all pattern nodes."""

    __slots__ = ()
    depth = 1

    @property
    def children(self) -> tuple[Pattern, ...]:
        """The direct sub-patterns, left to right."""
        return ()

    def with_children(self, children: tuple[Pattern, ...]) -> Pattern:
        """Returns the same node over other sub-patterns."""
        return self

    def walk(self) -> Iterator[Pattern]:
        """Yields this node and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()


@attrs.frozen
class Event(Pattern):
    """An event variable.

    Parameters
    ----------
    variable : str
        The name that predicates and aggregates use.
    type : str or None
        The value of the type column that an event must have; None when only ``condition`` decides.
    condition : Expr or None
        The condition on the row, besides its type.
    """

    variable: str = attrs.field(validator=check_name)
    type: str | None = attrs.field(default=None, validator=check_text)
    condition: Expr | None = None


def _patterns(value: Iterable[Pattern]) -> tuple[Pattern, ...]:
    parts = tuple(value)
    for part in parts:
        if not isinstance(part, Pattern):
            raise InvalidNode(f"{part!r} is not a pattern", hint="build event variables with events('A', 'B')")
    return parts


def _pattern(value: Pattern) -> Pattern:
    return _patterns((value,))[0]


@attrs.frozen
class Joined(Pattern):
    """Base of the patterns that join several parts."""

    parts: tuple[Pattern, ...] = attrs.field(converter=_patterns)
    depth: int = attrs.field(init=False, eq=False, repr=False, default=DEPTH)

    @property
    def children(self) -> tuple[Pattern, ...]:
        return self.parts

    def with_children(self, children: tuple[Pattern, ...]) -> Pattern:
        return type(self)(children)


@attrs.frozen
class Seq(Joined):
    """Matches all parts in this order of time. NOT may stand between, before or after the parts."""

    def __attrs_post_init__(self) -> None:
        if not self.parts:
            raise InvalidNode("a sequence needs at least one part", hint="write seq(A, B)")


@attrs.frozen
class Or(Joined):
    """Matches one of the parts."""

    def __attrs_post_init__(self) -> None:
        if not self.parts:
            raise InvalidNode("an alternative needs at least one part", hint="write any_of(A, B)")
        _refuse_not(self.parts, "OR")


@attrs.frozen
class And(Joined):
    """Matches all parts, in any order of time."""

    def __attrs_post_init__(self) -> None:
        if len(self.parts) < 2:
            raise InvalidNode("AND needs at least two parts", hint="write all_of(A, B)")
        _refuse_not(self.parts, "AND")


@attrs.frozen
class Repeat(Pattern):
    """Matches a part ``at_least`` to ``at_most`` times; None is without bound.

    ``Repeat(p, 1, None)`` is Kleene plus, ``(0, None)`` Kleene star, ``(0, 1)`` optional.
    """

    part: Pattern = attrs.field(converter=_pattern)
    at_least: int = 1
    at_most: int | None = None
    depth: int = attrs.field(init=False, eq=False, repr=False, default=DEPTH)

    def __attrs_post_init__(self) -> None:
        _refuse_not((self.part,), "a repetition")
        if self.at_least < 0 or (self.at_most is not None and self.at_most < max(self.at_least, 1)):
            times = f"{shown(self.at_least)} " + ("or more" if self.at_most is None else f"to {shown(self.at_most)}")
            raise InvalidNode(
                f"cannot repeat {times} times",
                hint="0 <= at_least <= at_most and at_most >= 1",
            )

    @property
    def children(self) -> tuple[Pattern, ...]:
        return (self.part,)

    def with_children(self, children: tuple[Pattern, ...]) -> Pattern:
        return Repeat(children[0], self.at_least, self.at_most)


@attrs.frozen
class Not(Pattern):
    """Requires that the gap of the sequence where this stands has no match of the part."""

    part: Pattern = attrs.field(converter=_pattern)
    depth: int = attrs.field(init=False, eq=False, repr=False, default=DEPTH)

    def __attrs_post_init__(self) -> None:
        if any(isinstance(node, Not) for node in self.part.walk()):
            raise InvalidNode(
                "a negated pattern cannot hold another NOT",
                hint="leave the inner NOT away, or ask for the trends of the inner pattern by a query of its own",
            )

    @property
    def children(self) -> tuple[Pattern, ...]:
        return (self.part,)

    def with_children(self, children: tuple[Pattern, ...]) -> Pattern:
        return Not(children[0])


@attrs.frozen
class Within(Pattern):
    """A part of a pattern whose first and last event lie at most a length of time apart.

    The length also limits how far a NOT at one end of the part looks from the other end. If the part was read from a
    text, ``written`` has that text and the part's place in it.
    """

    part: Pattern = attrs.field(converter=_pattern)
    length: Span
    depth: int = attrs.field(init=False, eq=False, repr=False, default=DEPTH)
    written: tuple[str, tuple[int, int]] | None = attrs.field(default=None, eq=False, repr=False, kw_only=True)

    def __attrs_post_init__(self) -> None:
        _refuse_not((self.part,), "a part with WITHIN")

    @property
    def children(self) -> tuple[Pattern, ...]:
        return (self.part,)

    def with_children(self, children: tuple[Pattern, ...]) -> Pattern:
        return attrs.evolve(self, part=children[0])


def _refuse_not(parts: tuple[Pattern, ...], where: str) -> None:
    if any(isinstance(part, Not) for part in parts):
        raise InvalidNode(
            f"NOT cannot stand directly inside {where}",
            hint="NOT belongs inside SEQ, beside a positive part: seq(A, absent(N), B)",
        )


def transform(pattern: Pattern, change: Callable[[Pattern], Pattern]) -> Pattern:
    """The pattern rebuilt bottom-up, each node replaced by ``change(node)``."""
    children = pattern.children
    rebuilt = tuple(transform(child, change) for child in children)
    # Compared by identity, as equal parts may stand at different places of the text.
    same = all(map(operator.is_, rebuilt, children))
    return change(pattern if same else pattern.with_children(rebuilt))


def dissolved(node: Pattern, kind: type[Joined]) -> Pattern:
    """Replaces those parts of a node that have the given kind, like the node itself, by their own parts."""
    if not isinstance(node, kind):
        return node
    return kind(tuple(inner for part in node.parts for inner in (part.parts if isinstance(part, kind) else (part,))))


def events(pattern: Pattern) -> list[Event]:
    """All event variables of a pattern, in reading order, with repetitions, the negated ones too."""
    return [node for node in pattern.walk() if isinstance(node, Event)]


def positive_events(pattern: Pattern) -> list[Event]:
    """The event variables outside every NOT, in reading order, with repetitions."""
    if isinstance(pattern, Not):
        return []
    if isinstance(pattern, Event):
        return [pattern]
    return [event for child in pattern.children for event in positive_events(child)]


def negations(pattern: Pattern) -> list[Not]:
    """The NOT nodes of a pattern, in reading order."""
    return [node for node in pattern.walk() if isinstance(node, Not)]
