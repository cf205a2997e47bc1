"""Variables and Kleene sub-patterns of different queries that mean the same, or the same up to constants."""

from __future__ import annotations

from collections.abc import Hashable

import attrs

from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.pattern.expressions import Attribute, Expr, Literal, conjuncts, transform, with_attributes
from cetdsl.pattern.nodes import Event, Pattern, Repeat, events

#: Stands for a constant that may differ.
ANY_CONSTANT = Literal("?")


def unnamed(expr: Expr) -> Expr:
    """Returns a term without the names of its variables."""
    return with_attributes(expr, lambda attribute: attrs.evolve(attribute, variable=None))


def without_constants(expr: Expr) -> Expr:
    """Returns a term with every constant replaced by one that stands for any."""
    return transform(expr, lambda node: ANY_CONSTANT if isinstance(node, Literal) else node)


def family(event: Event, type_column: str | None) -> tuple[Hashable, Hashable]:
    """Returns the family of a variable: what it looks for, its type and its condition up to constants.

    Examples
    --------
    >>> from cetdsl.pattern.expressions import Binary
    >>> def priced(name, kind, least):
    ...     typed = Binary("=", Attribute(name, "type"), Literal(kind))
    ...     return Event(name, None, Binary("and", typed, Binary(">", Attribute(name, "price"), Literal(least))))
    >>> family(priced("B", "b", 5), "type") == family(priced("C", "b", 7), "type")
    True
    >>> family(priced("B", "b", 5), "type") == family(priced("B", "c", 5), "type")
    False
    """
    types, others = set(), set()
    for part in conjuncts(event.condition) if event.condition is not None else []:
        mentioned = {node.name for node in part.walk() if isinstance(node, Attribute)}
        if mentioned == {type_column}:
            types.add(unnamed(part))
        else:
            others.add(without_constants(unnamed(part)))
    return frozenset(types), frozenset(others)


def kleene_signatures(resolved: ResolvedQuery) -> dict[Hashable, Repeat]:
    """Returns the unbounded repetitions of a query, by the signature that another query's must equal to be shared.

    Two are alike when their patterns are, variable by variable up to constants.
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
