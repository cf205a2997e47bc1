"""Rules that drop what no trend can use: contradictory events, empty branches, idle predicates."""

from __future__ import annotations

import math
from itertools import combinations

import attrs

from cetdsl.analysis.classify import PredicateClass, adjacent_pair, classify
from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.analysis.types import category
from cetdsl.ir.schema import Schema
from cetdsl.pattern.expressions import (
    COMPARISONS,
    HOLDS,
    MIRRORED,
    Attribute,
    Binary,
    Expr,
    Literal,
    conjuncts,
    variables,
)
from cetdsl.pattern.nodes import And, Event, Not, Or, Pattern, Repeat, Seq, events
from cetdsl.pattern.properties import bound_together, follow_pairs, nullable, positive_variables, sides
from cetdsl.pattern.query import ANY, STRICT
from cetdsl.rewrite.rule import Keeps, rule
from cetdsl.rewrite.rules.booleans import FALSE, negated, rewrite_conditions, with_where

#: By type, the bound up to which all whole numbers can be represented exactly.
_EXACT = {"float": 2**24, "double": 2**53}


@rule("falsify-contradiction", keeps=Keeps.DERIVATIONS)
def falsify_contradiction(resolved: ResolvedQuery) -> ResolvedQuery:
    """EVENT(a, a.kind = 'x' AND a.kind = 'y')  ->  EVENT(a, FALSE)"""
    return rewrite_conditions(resolved, lambda condition: FALSE if _never(condition, resolved.schema) else condition)


def _never(condition: Expr, schema: Schema) -> bool:
    parts = dict.fromkeys(conjuncts(condition))
    if any(_is_null_or_false(part) for part in parts) or any(negated(part) in parts for part in parts):
        return True
    bounds: dict[Attribute, list[tuple[str, object]]] = {}
    for part in parts:
        found = _bound(part)
        if found is not None:
            bounds.setdefault(found[0], []).append(found[1:])
    return any(
        _contradict(schema.type_of(attribute.name), *pair)
        for attribute, known in bounds.items()
        for pair in combinations(_strongest(known), 2)
    )


def _strongest(known: list[tuple[str, object]]) -> list[tuple[str, object]]:
    """Returns a few bounds of an attribute, two of which contradict each other if any two do."""
    whole = [(op, value) for op, value in known if isinstance(value, int) and not isinstance(value, bool)]
    lower = [pair for pair in whole if pair[0] in (">", ">=")]
    upper = [pair for pair in whole if pair[0] in ("<", "<=")]
    found: list[tuple[str, object]] = []
    for kind in (int, str):
        # Two different values contradict each other already, so further ones are not needed.
        found += list(dict.fromkeys(pair for pair in known if pair[0] == "=" and type(pair[1]) is kind))[:2]
    if lower:
        found.append(max(lower, key=lambda pair: (pair[1], pair[0] == ">")))
    if upper:
        found.append(min(upper, key=lambda pair: (pair[1], pair[0] == "<=")))
    return found


def _is_null_or_false(part: Expr) -> bool:
    null = Literal(None)
    if isinstance(part, Binary) and part.op in COMPARISONS:
        return null in (part.left, part.right)
    return part in (FALSE, null)


def _bound(part: Expr) -> tuple[Attribute, str, object] | None:
    if not isinstance(part, Binary) or part.op not in COMPARISONS:
        return None
    if isinstance(part.left, Attribute) and isinstance(part.right, Literal):
        return part.left, part.op, part.right.value
    if isinstance(part.right, Attribute) and isinstance(part.left, Literal):
        return part.right, MIRRORED[part.op], part.left.value
    return None


def _contradict(type_: str | None, first: tuple[str, object], second: tuple[str, object]) -> bool:
    (op, value), (other_op, other) = first, second
    if type_ == "string" and isinstance(value, str) and isinstance(other, str):
        return op == other_op == "=" and value != other
    whole = all(isinstance(v, int) and not isinstance(v, bool) for v in (value, other))
    if category(type_) != "number" or not whole or "!=" in (op, other_op):
        return False
    numbers = int(str(value)), int(str(other))
    if max(map(abs, numbers)) > _EXACT.get(str(type_), math.inf):
        return False  # Spark compares the nearest floating-point numbers, which may be equal
    return _excludes(op, numbers[0], other_op, numbers[1])


def _excludes(op: str, value: int, other_op: str, other: int) -> bool:
    """Whether ``x op value`` and ``x other_op other`` cannot both hold."""
    if op in ("<", "<="):
        op, value, other_op, other = other_op, other, op, value
    if op in (">", ">="):
        if other_op in (">", ">="):
            return False
        strict = op == ">" or other_op == "<"
        return value > other or (strict and value == other)
    if op == "=":
        return not HOLDS[other_op](value, other)
    return False


@rule("drop-vacuous-predicate", keeps=Keeps.DERIVATIONS)
def drop_vacuous_predicate(resolved: ResolvedQuery) -> ResolvedQuery:
    """PATTERN A OR B WHERE A.x < B.x  ->  PATTERN A OR B

    No trend binds both, so there is nothing to compare.
    """
    pattern = resolved.query.pattern
    neighbours, together = follow_pairs(pattern), bound_together(pattern)

    def is_vacuous(predicate: Expr) -> bool:
        kind = classify(predicate, pattern)
        if kind is PredicateClass.ADJACENT:
            return adjacent_pair(predicate) not in neighbours
        if kind is PredicateClass.PAIRWISE and not _under_not_somewhere(predicate, pattern):
            return any(pair not in together for pair in combinations(variables(predicate), 2))
        return False

    return with_where(resolved, [predicate for predicate in resolved.query.where if not is_vacuous(predicate)])


def _under_not_somewhere(predicate: Expr, pattern: Pattern) -> bool:
    """Whether one side of AND at the top negates a variable that the other side binds."""
    names = set(variables(predicate))
    own = [side for side in sides(pattern) if names <= {event.variable for event in events(side)}]
    return any(not names <= set(positive_variables(side)) for side in own)


@rule("drop-unreachable", keeps=Keeps.DERIVATIONS, policies=(ANY, STRICT))
def drop_unreachable(resolved: ResolvedQuery) -> ResolvedQuery:
    """SEQ(A, EVENT(b, FALSE)?) OR SEQ(C, EVENT(b, FALSE))  ->  A

    A query that can have no match keeps an event that no row satisfies, so its answer is empty. A branch stays if an
    aggregate mentions a variable that only this branch binds.
    """
    query = resolved.query
    if not all(_lives(side)[1] for side in sides(query.pattern)):
        return _nothing_left(resolved)
    if isinstance(query.pattern, And):
        reduced: Pattern = And(tuple(_must(_reduced(side)) for side in query.pattern.parts))
    else:
        reduced = _must(_reduced(query.pattern))
    gone = {event.variable for event in events(query.pattern)} - {event.variable for event in events(reduced)}
    aggregated = [item.aggregate for item in query.returning]
    aggregated_where = [p for p in query.where if classify(p, query.pattern) is PredicateClass.AGGREGATE]
    if any(gone & set(variables(expr)) for expr in (*aggregated, *aggregated_where)) or reduced == query.pattern:
        return resolved
    where = tuple(predicate for predicate in query.where if not gone & set(variables(predicate)))
    return resolved.with_query(pattern=reduced, where=where)


def _nothing_left(resolved: ResolvedQuery) -> ResolvedQuery:
    query = resolved.query
    names = list(dict.fromkeys(name for item in query.returning for name in variables(item.aggregate)))
    names = names or [positive_variables(query.pattern)[0]]
    dead = tuple(Event(name, None, FALSE) for name in names)
    pattern = dead[0] if len(dead) == 1 else Seq(dead)
    return resolved.with_query(pattern=pattern, where=())


def _lives(pattern: Pattern) -> tuple[bool, bool]:
    """Whether the pattern can match nothing, and whether it can match something, without an event that is FALSE."""
    if isinstance(pattern, Not):
        return True, False
    if isinstance(pattern, Event):
        return False, pattern.condition != FALSE
    inner = [_lives(child) for child in pattern.children]
    empty, something = [pair[0] for pair in inner], [pair[1] for pair in inner]
    if isinstance(pattern, Or):
        return any(empty), any(something)
    if isinstance(pattern, Repeat):
        return empty[0] or pattern.at_least == 0, something[0]
    return all(empty), any(something) and all(e or s for e, s in inner)


@attrs.frozen
class _Empty(Pattern):
    """Stands for the part of a pattern that can match only nothing."""


def _must(pattern: Pattern | None) -> Pattern:
    assert pattern is not None
    assert not isinstance(pattern, _Empty)
    return pattern


def _reduced(pattern: Pattern) -> Pattern | None:
    """The pattern without its parts that are FALSE; None when nothing at all is left."""
    if isinstance(pattern, Event):
        return None if pattern.condition == FALSE else pattern
    inner = [_reduced(child) for child in pattern.children]
    left = [part for part in inner if part is not None and not isinstance(part, _Empty)]
    if isinstance(pattern, Not):
        return Not(left[0]) if left else _Empty()
    if isinstance(pattern, Repeat):
        if left:
            return pattern.with_children((left[0],))
        return _Empty() if pattern.at_least == 0 or inner[0] is not None else None
    if isinstance(pattern, Or):
        return _reduced_alternative(inner, left)
    if None in inner:
        return None
    if not left:
        return _Empty()
    # If only NOTs are left, the FALSE part stays beside them, because a sequence of NOTs alone is invalid.
    return pattern if all(isinstance(part, Not) for part in left) else pattern.with_children(tuple(left))


def _reduced_alternative(inner: list[Pattern | None], left: list[Pattern]) -> Pattern | None:
    can_be_empty = any(isinstance(part, _Empty) for part in inner)
    if not left:
        return _Empty() if can_be_empty else None
    whole = Or(tuple(left))
    return Repeat(whole, 0, 1) if can_be_empty and not nullable(whole) else whole
