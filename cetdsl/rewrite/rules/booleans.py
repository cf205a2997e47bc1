"""Rules on AND, OR, NOT and constants, under SQL's three-valued logic."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from cetdsl.analysis.classify import PredicateClass, classify, mentions, shape
from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.pattern.expressions import (
    COMPARISONS,
    HOLDS,
    NEGATED,
    Binary,
    Expr,
    Literal,
    Unary,
    conjunction,
    conjuncts,
    transform,
    variables,
)
from cetdsl.pattern.nodes import And, Event, Pattern
from cetdsl.pattern.properties import binds_at_least_one, negated_variables
from cetdsl.rewrite.rule import Keeps, rule
from cetdsl.rewrite.rules.sequences import rewrite_pattern

TRUE, FALSE = Literal(True), Literal(False)


def with_where(resolved: ResolvedQuery, where: list[Expr]) -> ResolvedQuery:
    """Returns the query with these predicates, without repetitions."""
    return resolved.with_query(where=tuple(dict.fromkeys(where)))


def rewrite_conditions(resolved: ResolvedQuery, change: Callable[[Expr], Expr]) -> ResolvedQuery:
    """The query with every event's condition changed; a condition that is TRUE is left away."""

    def changed(node: Pattern) -> Pattern:
        if not isinstance(node, Event) or node.condition is None:
            return node
        condition = change(node.condition)
        if condition == node.condition != TRUE:
            return node
        return attrs.evolve(node, condition=None if condition == TRUE else condition)

    return rewrite_pattern(resolved, changed)


def rewrite_predicates(resolved: ResolvedQuery, change: Callable[[Expr], Expr]) -> ResolvedQuery:
    """The query with every node of its predicates and conditions changed, bottom-up.

    A conjunction in WHERE counts as several predicates. So a predicate that would become a conjunction stays as it is
    unless its parts, as predicates of their own, say the same.
    """
    where = []
    for predicate in resolved.query.where:
        changed = transform(predicate, change)
        where.append(changed if may_split(changed, predicate, resolved.query.pattern) else predicate)
    return rewrite_conditions(with_where(resolved, where), lambda expr: transform(expr, change))


def may_split(conjunction: Expr, whole: Expr, pattern: Pattern) -> bool:
    """Whether the parts of a conjunction together are equivalent to ``whole``, one predicate."""
    parts = conjuncts(conjunction)
    return len(parts) == 1 or all(_may_stand_alone(part, whole, pattern) for part in parts)


@rule("push-not", keeps=Keeps.DERIVATIONS)
def push_not(resolved: ResolvedQuery) -> ResolvedQuery:
    """NOT (A.x < 3 OR A.y = 1)  ->  A.x >= 3 AND A.y != 1
    NOT NOT (A.x < 3)  ->  A.x < 3
    """

    def change(node: Expr) -> Expr:
        return negated(node.operand) if isinstance(node, Unary) and node.op == "not" else node

    return rewrite_predicates(resolved, change)


def negated(expr: Expr) -> Expr:
    """The negation of a predicate; all of these are exact for NULL operands too."""
    if isinstance(expr, Unary) and expr.op == "not":
        return expr.operand
    if isinstance(expr, Binary) and expr.op in NEGATED:
        return Binary(NEGATED[expr.op], expr.left, expr.right)
    if isinstance(expr, Binary) and expr.op in ("and", "or"):
        return Binary("or" if expr.op == "and" else "and", negated(expr.left), negated(expr.right))
    if isinstance(expr, Literal) and isinstance(expr.value, bool):
        return Literal(not expr.value)
    return Unary("not", expr)


@rule("fold-constants", keeps=Keeps.DERIVATIONS)
def fold_constants(resolved: ResolvedQuery) -> ResolvedQuery:
    """A.x > 3 AND 1 < 2  ->  A.x > 3"""
    where = []
    for predicate in resolved.query.where:
        folded = transform(predicate, folded_node)
        # A predicate is tested for all combinations of events of the variables that it mentions. If it lost a variable,
        # it would also be tested where that variable is not bound. That only makes no difference if it always holds.
        same = folded == TRUE or (
            scope(folded) == scope(predicate) and may_split(folded, predicate, resolved.query.pattern)
        )
        where.append(folded if same else predicate)
    return rewrite_conditions(with_where(resolved, where), lambda expr: transform(expr, folded_node))


def scope(expr: Expr) -> tuple[PredicateClass, tuple[frozenset[str], ...]]:
    """Returns the properties that decide for which events a predicate is tested."""
    found = mentions(expr)
    groups = (found.plain, found.next, found.prev, found.aggregated)
    return shape(expr), tuple(frozenset(names) for names in groups)


def folded_node(node: Expr) -> Expr:
    """The node with its constant parts computed; its parts are folded already."""
    if isinstance(node, Unary) and node.op == "not" and isinstance(node.operand, Literal):
        return Literal(not node.operand.value) if isinstance(node.operand.value, bool) else node
    if isinstance(node, Unary) and node.op == "-" and isinstance(node.operand, Literal):
        number = node.operand.value
        # The smallest integers have no positive twin, and NaN has no sign.
        plain = isinstance(number, int) and not isinstance(number, bool) and abs(number) < 2**31
        return Literal(-number) if plain else node
    if not isinstance(node, Binary):
        return node
    if node.op in ("and", "or"):
        neutral, decisive = (TRUE, FALSE) if node.op == "and" else (FALSE, TRUE)
        if decisive in (node.left, node.right):
            return decisive
        if node.left == neutral or node.left == node.right:
            return node.right
        return node.left if node.right == neutral else node
    return _compared(node) if node.op in COMPARISONS else node


def _compared(node: Binary) -> Expr:
    if not isinstance(node.left, Literal) or not isinstance(node.right, Literal):
        return node
    left, right = node.left.value, node.right.value
    if type(left) is not type(right) or type(left) not in (int, bool, str):
        return node
    if isinstance(left, str):
        left, right = left.encode(), right.encode()
    return Literal(HOLDS[node.op](left, right))


@rule("drop-true", keeps=Keeps.DERIVATIONS)
def drop_true(resolved: ResolvedQuery) -> ResolvedQuery:
    """PATTERN A WHERE TRUE  ->  PATTERN A"""
    return with_where(resolved, [predicate for predicate in resolved.query.where if predicate != TRUE])


@rule("split-conjunction", keeps=Keeps.DERIVATIONS)
def split_conjunction(resolved: ResolvedQuery) -> ResolvedQuery:
    """WHERE (A.x < B.x AND A.y < B.y)  ->  WHERE A.x < B.x AND A.y < B.y

    Other rules make conjunctions only where their parts say the same one by one.
    """
    return with_where(resolved, [part for predicate in resolved.query.where for part in conjuncts(predicate)])


def _may_stand_alone(part: Expr, whole: Expr, pattern: Pattern) -> bool:
    """Whether a conjunct is evaluated in exactly the trends in which the conjunction is."""
    if scope(part) == scope(whole):
        return True
    kind = classify(whole, pattern)
    if kind is PredicateClass.AGGREGATE:
        return shape(part) is kind and (not isinstance(pattern, And) or set(variables(part)) == set(variables(whole)))
    lost = set(variables(whole)) - set(variables(part))
    if kind is PredicateClass.NEGATION:
        # Without a negated variable it would restrict the trend itself.
        own = set(negated_variables(pattern))
        if lost & own or shape(whole) is not PredicateClass.PAIRWISE:
            return False
    elif kind is not PredicateClass.PAIRWISE or isinstance(pattern, And):
        # Under AND at the top, which variables it mentions decides which side a predicate restricts.
        return False
    return part == TRUE or (bool(variables(part)) and all(binds_at_least_one(pattern, name) for name in lost))


@rule("simplify-condition", keeps=Keeps.DERIVATIONS)
def simplify_condition(resolved: ResolvedQuery) -> ResolvedQuery:
    """EVENT(a, a.x > 3 AND (a.y < 2 AND a.x > 3))  ->  EVENT(a, a.x > 3 AND a.y < 2)"""

    def change(condition: Expr) -> Expr:
        return conjunction([part for part in dict.fromkeys(conjuncts(condition)) if part != TRUE])

    return rewrite_conditions(resolved, change)
