"""Classifies predicates by the variables that they mention: the class says over which events a predicate is tested."""

from __future__ import annotations

import enum

import attrs

from cetdsl.errors import CetdslError, UnsupportedQuery
from cetdsl.pattern.expressions import (
    COMPARISONS,
    MIRRORED,
    Aggregate,
    Attribute,
    Binary,
    Expr,
    Length,
    Role,
    variables,
)
from cetdsl.pattern.nodes import Not, Pattern, events, negations
from cetdsl.pattern.properties import negated_variables
from cetdsl.pattern.text import quote


class PredicateClass(enum.Enum):
    """The kinds of predicates, by the events that they refer to."""

    LOCAL = "local"
    ADJACENT = "adjacent"
    PAIRWISE = "pairwise"
    AGGREGATE = "aggregate"
    NEGATION = "negation"
    CONSTANT = "constant"


@attrs.frozen
class Mentions:
    """The variables that a predicate mentions, by role, each once, in reading order."""

    plain: tuple[str, ...]
    next: tuple[str, ...]
    prev: tuple[str, ...]
    aggregated: tuple[str, ...]
    has_aggregate: bool


def mentions(expr: Expr) -> Mentions:
    """Returns the variables that a term mentions outside and inside its aggregates."""
    found: dict[str, dict[str, None]] = {"plain": {}, "next": {}, "prev": {}, "aggregated": {}}
    has_aggregate = False
    stack: list[Expr] = [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, (Aggregate, Length)):
            has_aggregate = True
            found["aggregated"].update(dict.fromkeys(variables(node)))
        elif isinstance(node, Attribute) and node.variable is not None:
            has_aggregate |= node.role in (Role.FIRST, Role.LAST, Role.NTH)
            found[_KEYS.get(node.role, "aggregated")].setdefault(node.variable)
        else:
            stack.extend(reversed(node.children))
    plain, following, preceding, aggregated = (tuple(names) for names in found.values())
    return Mentions(plain, following, preceding, aggregated, has_aggregate)


_KEYS = {Role.EACH: "plain", Role.NEXT: "next", Role.PREV: "prev"}


def shape(expr: Expr) -> PredicateClass:
    """The class of a predicate by its roles alone, as if no variable were negated."""
    found = mentions(expr)
    if found.has_aggregate:
        return PredicateClass.AGGREGATE
    if found.next or found.prev:
        return PredicateClass.ADJACENT
    if len(found.plain) > 1:
        return PredicateClass.PAIRWISE
    return PredicateClass.LOCAL if found.plain else PredicateClass.CONSTANT


def classify(predicate: Expr, pattern: Pattern) -> PredicateClass:
    """The class of a predicate within a pattern.

    A predicate that mentions a variable bound only under a NOT belongs to that NOT. Within the NOT, its class is
    ``classify(predicate, negation.part)``.

    Examples
    --------
    >>> from cetdsl.pattern.nodes import Event, Seq
    >>> pattern = Seq((Event("a"), Not(Event("n")), Event("b")))
    >>> classify(Binary("<", Attribute("a", "x"), Attribute("b", "x")), pattern).name
    'PAIRWISE'
    >>> classify(Binary("<", Attribute("a", "x"), Attribute("n", "x")), pattern).name
    'NEGATION'
    """
    if set(variables(predicate)) & set(negated_variables(pattern)):
        return PredicateClass.NEGATION
    return shape(predicate)


def negations_of(predicate: Expr, pattern: Pattern) -> tuple[Not, ...]:
    """The NOT nodes that a predicate of class NEGATION belongs to: those that bind all its negated variables."""
    negated = set(variables(predicate)) & set(negated_variables(pattern))
    holders = [node for node in negations(pattern) if negated <= {event.variable for event in events(node)}]
    return tuple(dict.fromkeys(holders)) if negated else ()


def adjacent_pair(predicate: Expr) -> tuple[str, str] | None:
    """The (earlier, later) variables of an adjacent predicate; None for any other.

    Examples
    --------
    >>> adjacent_pair(Binary("<", Attribute("a", "x"), Attribute("b", "x", Role.NEXT)))
    ('a', 'b')
    >>> adjacent_pair(Binary("<", Attribute("a", "x"), Attribute("b", "x", Role.PREV)))
    ('b', 'a')
    """
    found = mentions(predicate)
    if found.has_aggregate or len(found.plain) != 1 or len(found.next) + len(found.prev) != 1:
        return None
    return (found.plain[0], found.next[0]) if found.next else (found.prev[0], found.plain[0])


@attrs.frozen
class Separable:
    """A comparison whose two sides refer to one event each: ``left op right``.

    For an adjacent predicate, ``left`` refers to the later event; for a pairwise one, to ``variables[0]``. ``op`` is
    one of the six comparisons, and ``variables`` names the variable of each side.
    """

    left: Expr
    op: str
    right: Expr
    variables: tuple[str, str]


def is_inseparable(predicate: Expr) -> bool:
    """Whether a predicate relates two events by a term of both, so that each pair has to be tested."""
    return shape(predicate) in (PredicateClass.ADJACENT, PredicateClass.PAIRWISE) and separate(predicate) is None


def separate(predicate: Expr) -> Separable | None:
    """An adjacent or pairwise comparison as two one-sided terms; None when it does not split.

    Examples
    --------
    >>> found = separate(Binary("<", Attribute("b", "x"), Attribute("b", "x", Role.NEXT)))
    >>> found.op, found.left.role.name, found.variables
    ('>', 'NEXT', ('b', 'b'))
    """
    kind = shape(predicate)
    if kind not in (PredicateClass.ADJACENT, PredicateClass.PAIRWISE):
        return None
    if not isinstance(predicate, Binary) or predicate.op not in COMPARISONS:
        return None
    left, right = _one_event(predicate.left), _one_event(predicate.right)
    if left is None or right is None or left == right:
        return None
    pair = left[0], right[0]
    turned = kind is PredicateClass.ADJACENT and (left[1] is Role.PREV or right[1] is Role.NEXT)
    if turned:
        return Separable(predicate.right, MIRRORED[predicate.op], predicate.left, pair[::-1])
    return Separable(predicate.left, predicate.op, predicate.right, pair)


def _one_event(expr: Expr) -> tuple[str, Role] | None:
    """The single (variable, role) that a side mentions."""
    found = mentions(expr)
    groups = (Role.EACH, found.plain), (Role.NEXT, found.next), (Role.PREV, found.prev)
    names = [(name, role) for role, group in groups for name in group]
    return names[0] if len(names) == 1 and not found.has_aggregate else None


def mixing_error(predicate: Expr) -> CetdslError | None:
    """Returns the error of a predicate that refers to several kinds of things at once; None if it does not."""
    found = mentions(predicate)
    text = quote(predicate)
    rows = (*found.plain, *found.next, *found.prev)
    if found.has_aggregate and rows:
        return UnsupportedQuery(
            f"{text} mixes aggregates of a trend with single events of {rows[0]!r}",
            hint=f"aggregate it too: MIN({rows[0]}.x), MAX({rows[0]}.x), FIRST({rows[0]}).x or LAST({rows[0]}).x",
        )
    if found.next and found.prev:
        return UnsupportedQuery(
            f"{text} mixes NEXT and PREV: it speaks of three events in a row",
            hint="write one predicate for each pair of consecutive events",
        )
    word, later = ("NEXT", found.next) if found.next else ("PREV", found.prev)
    if len(later) > 1:
        return UnsupportedQuery(
            f"{text} mentions {word}({later[0]}) and {word}({later[1]}): one event has one neighbour",
            hint=f"write one predicate for {word}({later[0]}) and one for {word}({later[1]})",
        )
    if later and len(found.plain) > 1:
        return UnsupportedQuery(
            f"{text} relates {word}({later[0]}) to {len(found.plain)} variables, {' and '.join(found.plain)}",
            hint="write one predicate for each pair of variables",
        )
    if later and not found.plain:
        return UnsupportedQuery(
            f"{text} says nothing of the event beside {word}({later[0]})",
            hint=f"relate it to a plain attribute, {later[0]}.x < NEXT({later[0]}).x, "
            f"or leave {word} away to restrict every {later[0]}",
        )
    return None
