"""Finds variables and Kleene sub-patterns of different queries that look for events of the same types."""

from __future__ import annotations

from collections.abc import Hashable

import attrs

from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.pattern.expressions import Attribute, Expr, conjuncts, with_attributes
from cetdsl.pattern.nodes import Event, Pattern, Repeat, events


def unnamed(expr: Expr) -> Expr:
    """Returns a term without the names of its variables."""
    return with_attributes(expr, lambda attribute: attrs.evolve(attribute, variable=None))


def family(event: Event, type_column: str | None) -> Hashable:
    """Returns the family of a variable: its type, whatever else its events must meet.

    Conditions other than on the type do not matter: a variable without one is in the same family as those with one.
    All variables without a type form a family too.

    Examples
    --------
    >>> from cetdsl.pattern.expressions import Binary, Literal
    >>> def priced(name, kind, least):
    ...     typed = Binary("=", Attribute(name, "type"), Literal(kind))
    ...     return Event(name, None, Binary("and", typed, Binary(">", Attribute(name, "price"), Literal(least))))
    >>> family(priced("B", "b", 5), "type") == family(priced("C", "b", 7), "type")
    True
    >>> family(priced("B", "b", 5), "type") == family(Event("B", None, priced("B", "b", 5).condition.left), "type")
    True
    >>> family(priced("B", "b", 5), "type") == family(priced("B", "c", 5), "type")
    False
    """
    parts = conjuncts(event.condition) if event.condition is not None else []
    return frozenset(unnamed(part) for part in parts if _columns(part) == {type_column})


def _columns(part: Expr) -> set[str]:
    return {node.name for node in part.walk() if isinstance(node, Attribute)}


def kleene_signatures(resolved: ResolvedQuery) -> dict[Hashable, Repeat]:
    """Returns the unbounded repetitions of a query by signature; those of two queries are shared if these are equal.

    Two repetitions have equal signatures if their patterns have the same structure and corresponding variables are of
    the same family.
    """
    families = {event.variable: family(event, resolved.type) for event in events(resolved.query.pattern)}

    def signature(node: Pattern) -> Hashable:
        if isinstance(node, Event):
            return "event", families[node.variable]
        bounds = (node.at_least, node.at_most) if isinstance(node, Repeat) else ()
        return type(node).__name__, bounds, tuple(signature(child) for child in node.children)

    found: dict[Hashable, Repeat] = {}
    for node in resolved.query.pattern.walk():
        if isinstance(node, Repeat) and node.at_most is None:
            found.setdefault(signature(node.part), node)
    return found
