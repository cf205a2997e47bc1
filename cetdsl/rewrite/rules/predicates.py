"""Rules that bring predicates into the forms that the planner reads."""

from __future__ import annotations

from decimal import Decimal

import attrs

from cetdsl.analysis.classify import PredicateClass, mentions, separate, shape
from cetdsl.analysis.resolve import ResolvedQuery
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
    rename_variables,
    transform,
    variables,
)
from cetdsl.pattern.nodes import And, Event, Not, Pattern, events
from cetdsl.pattern.nodes import transform as transform_pattern
from cetdsl.pattern.properties import negated_variables, positive_variables, sides
from cetdsl.rewrite.rule import Keeps, rule
from cetdsl.rewrite.rules.booleans import with_where
from cetdsl.rewrite.rules.sequences import rewrite_pattern
from cetdsl.rewrite.rules.sums import bounds_of, is_exact, length_of, speakers_of, times_apart


@rule("push-local-predicate", keeps=Keeps.DERIVATIONS)
def push_local_predicate(resolved: ResolvedQuery) -> ResolvedQuery:
    """PATTERN SEQ(EVENT(a), EVENT(b)) WHERE b.x > 3  ->  PATTERN SEQ(EVENT(a), EVENT(b, b.x > 3))"""
    query = resolved.query
    local: dict[str, list[Expr]] = {}
    where = []
    for predicate in query.where:
        if shape(predicate) is PredicateClass.LOCAL:
            local.setdefault(variables(predicate)[0], []).append(predicate)
        else:
            where.append(predicate)

    def change(node: Pattern) -> Pattern:
        if not isinstance(node, Event) or node.variable not in local:
            return node
        known = [] if node.condition is None else [node.condition]
        return attrs.evolve(node, condition=conjunction([*known, *local[node.variable]]))

    return with_where(rewrite_pattern(resolved, change), where)


@rule("rename-negated", keeps=Keeps.DERIVATIONS)
def rename_negated(resolved: ResolvedQuery) -> ResolvedQuery:
    """PATTERN SEQ(A, NOT A, B)  ->  PATTERN SEQ(A, NOT `A'`, B)

    A predicate on a variable that the trend binds only refers to the trend's bindings, so the same name under NOT is a
    different variable. After renaming, a predicate refers to every occurrence of its variables.
    """
    pattern = resolved.query.pattern
    taken = {event.variable for event in events(pattern)}

    def renamed_side(side: Pattern) -> Pattern:
        names = {}
        for name in positive_variables(side):
            fresh = name + "'"
            while fresh in taken:
                fresh += "'"
            names[name] = fresh
        return transform_pattern(side, lambda node: renamed(node, names) if isinstance(node, Not) else node)

    parts = tuple(renamed_side(side) for side in sides(pattern))
    changed = pattern.with_children(parts) if isinstance(pattern, And) else parts[0]
    return resolved.with_query(pattern=changed)


def renamed(pattern: Pattern, names: dict[str, str]) -> Pattern:
    """The pattern with other names for its variables."""

    def change(node: Pattern) -> Pattern:
        if not isinstance(node, Event) or node.variable not in names:
            return node
        condition = None if node.condition is None else rename_variables(node.condition, names)
        return attrs.evolve(node, variable=names[node.variable], condition=condition)

    return transform_pattern(pattern, change)


@rule("normalise-adjacent", keeps=Keeps.DERIVATIONS)
def normalise_adjacent(resolved: ResolvedQuery) -> ResolvedQuery:
    """PREV(b).x < b.x  ->  NEXT(b).x > b.x
    b.x < NEXT(b).x  ->  NEXT(b).x > b.x

    The earlier event is plain, the later one NEXT, and a comparison that separates has the later event on its left.
    Terms never move from side to side: sums of integers may overflow and those of doubles round.
    """
    return with_where(resolved, [_later_first(_as_next(predicate)) for predicate in resolved.query.where])


def _as_next(predicate: Expr) -> Expr:
    if shape(predicate) is not PredicateClass.ADJACENT or not mentions(predicate).prev:
        return predicate
    turned = {Role.PREV: Role.EACH, Role.EACH: Role.NEXT}

    def change(node: Expr) -> Expr:
        return attrs.evolve(node, role=turned[node.role]) if isinstance(node, Attribute) else node

    return transform(predicate, change)


def _later_first(predicate: Expr) -> Expr:
    found = separate(predicate)
    if found is None or shape(predicate) is not PredicateClass.ADJACENT:
        return predicate
    return Binary(found.op, found.left, found.right)


@rule("normalise-pairwise", keeps=Keeps.DERIVATIONS)
def normalise_pairwise(resolved: ResolvedQuery) -> ResolvedQuery:
    """PATTERN SEQ(A, B) WHERE A.x < B.x  ->  PATTERN SEQ(A, B) WHERE B.x > A.x

    The variable that the pattern names first stands on the right, as the earlier event does in an adjacent
    predicate. In a predicate of a NOT, the negated variable stands on the left.
    """
    pattern = resolved.query.pattern
    order = (*positive_variables(pattern), *negated_variables(pattern))
    where = []
    for predicate in resolved.query.where:
        found = separate(predicate) if shape(predicate) is PredicateClass.PAIRWISE else None
        if found is not None and order.index(found.variables[0]) < order.index(found.variables[1]):
            predicate = Binary(MIRRORED[found.op], found.right, found.left)
        where.append(predicate)
    return with_where(resolved, where)


@rule("abs-to-two-comparisons", keeps=Keeps.DERIVATIONS)
def abs_to_two_comparisons(resolved: ResolvedQuery) -> ResolvedQuery:
    """ABS(NEXT(b).x - b.x) < 5  ->  NEXT(b).x < b.x + 5 AND NEXT(b).x > b.x - 5

    This form is only for integers and decimals, whose sums are exact as decimals; the added constant is a decimal for
    that reason. Doubles round, so ``ABS(l - r) < c`` is not ``l < r + c`` for them. Differences that cannot overflow,
    such as those of times, become ``l - r < c AND l - r > -c`` instead, which another rule separates later.
    """
    where: list[Expr] = []
    for predicate in resolved.query.where:
        where.extend(_without_abs(predicate, resolved) or [predicate])
    return with_where(resolved, where)


def _without_abs(predicate: Expr, resolved: ResolvedQuery) -> list[Expr] | None:
    if shape(predicate) not in (PredicateClass.ADJACENT, PredicateClass.PAIRWISE):
        return None
    if not isinstance(predicate, Binary) or predicate.op not in MIRRORED:
        return None
    op, inner, bound = predicate.op, predicate.left, predicate.right
    if not _is_abs(inner):
        op, inner, bound = MIRRORED[op], bound, inner
    if op not in ("<", "<=") or not _is_abs(inner):
        return None
    difference, schema = inner.children[0], resolved.schema
    opposite = _opposite(difference, bound, resolved)
    if opposite is not None:
        return [Binary(op, difference, bound), Binary(MIRRORED[op], difference, opposite)]
    if not isinstance(difference, Binary) or difference.op != "-":
        return None
    sides = difference.left, difference.right
    if not all(is_exact(side, schema) for side in (*sides, bound)):
        return None
    events_of = [speakers_of(side) for side in (*sides, bound)]
    if len(events_of[0]) != 1 or len(events_of[1]) != 1 or events_of[0] == events_of[1]:
        return None
    # The bound is added to the side of the event that it mentions; a constant is added to the plain or second side.
    if not events_of[2]:
        home = 0 if any(role is Role.NEXT for _, role in events_of[1]) else 1
    elif events_of[2] in events_of[:2]:
        home = events_of.index(events_of[2])
    else:
        return None
    alone, with_bound = sides[1 - home], sides[home]
    return [
        Binary(op, alone, _exact_sum("+", with_bound, bound)),
        Binary(MIRRORED[op], alone, _exact_sum("-", with_bound, bound)),
    ]


def _is_abs(expr: Expr) -> bool:
    return isinstance(expr, Call) and expr.name.lower() == "abs" and len(expr.arguments) == 1


def _opposite(difference: Expr, bound: Expr, resolved: ResolvedQuery) -> Expr | None:
    """Returns a constant with the other sign; None unless it bounds a difference of two events that cannot overflow."""
    if len(speakers_of(difference)) != 2:
        return None
    length = length_of(bound)
    if length is not None:
        return None if times_apart(difference, resolved.schema) is None else Literal(-length)
    if not isinstance(bound, Literal):
        return None
    is_known = bounds_of(Unary("-", difference), resolved) is not None and type(bound.value) is int
    return Literal(-bound.value) if is_known and bound.value > -(2**63) else None


def _exact_sum(op: str, left: Expr, right: Expr) -> Expr:
    if isinstance(right, Literal):
        return Binary(op, left, Literal(Decimal(right.value)))
    return Binary(op, Binary("+", left, Literal(Decimal(0))), right)
