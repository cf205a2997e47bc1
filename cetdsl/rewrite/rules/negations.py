"""Rules that bring predicates of NOT into forms that a kernel tests while it looks for trends."""

from __future__ import annotations

from decimal import Decimal
from math import prod

import attrs

from cetdsl.analysis.classify import PredicateClass, classify, negations_of, separate, shape
from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.analysis.types import decimal_digits, type_of
from cetdsl.ir.schema import Schema
from cetdsl.pattern.expressions import MIRRORED, Attribute, Binary, Expr, Literal, Unary, operands, transform, variables
from cetdsl.pattern.nodes import Not, Pattern, Seq, events, negations
from cetdsl.pattern.nodes import transform as transform_pattern
from cetdsl.pattern.properties import binds_exactly_one, negated_variables
from cetdsl.rewrite.rule import Keeps, rule
from cetdsl.rewrite.rules.booleans import with_where
from cetdsl.rewrite.rules.predicates import renamed

#: So many numbers of 35 digits can be added as decimals of 38.
_MOST_TERMS = 3
#: More copies of a negated pattern would take longer than to test each match; so does one that needs that test anyway.
_MOST_ALTERNATIVES = 4

#: A term and whether it is added, not subtracted.
_Summand = tuple[bool, Expr]


@rule("separate-sums", keeps=Keeps.DERIVATIONS)
def separate_sums(resolved: ResolvedQuery) -> ResolvedQuery:
    """PATTERN SEQ(A, NOT N, B) WHERE N.x + A.x > 2  ->  PATTERN SEQ(A, NOT N, B) WHERE N.x > 2 - A.x

    Only where all terms are integers or decimals, whose sums are exact and do not overflow once they are decimals.
    Sums of doubles round, so ``l + r < c`` is not ``l < c - r`` for them.
    """
    pattern, schema = resolved.query.pattern, resolved.schema
    negated = negated_variables(pattern)

    def separated(predicate: Expr) -> Expr:
        if (
            classify(predicate, pattern) is not PredicateClass.NEGATION
            or shape(predicate) is not PredicateClass.PAIRWISE
        ):
            return predicate
        if not isinstance(predicate, Binary) or predicate.op not in MIRRORED or separate(predicate) is not None:
            return predicate
        return _separated(predicate, negated, schema) or predicate

    return with_where(resolved, [separated(predicate) for predicate in resolved.query.where])


def _separated(predicate: Binary, negated: tuple[str, ...], schema: Schema) -> Expr | None:
    names = variables(predicate)
    summands = [*_summands(predicate.left, True), *_summands(predicate.right, False)]
    if len(names) != 2 or not all(_is_exact(term, schema) for _, term in summands):
        return None
    own = next(name for name in names if name in negated)
    left = [(added, term) for added, term in summands if own in variables(term)]
    right = [(not added, term) for added, term in summands if own not in variables(term)]
    if max(len(left), len(right)) > _MOST_TERMS:
        return None
    op = predicate.op
    if not any(added for added, _ in left):
        op = MIRRORED[op]
        left, right = ([(not added, term) for added, term in side] for side in (left, right))
    return Binary(op, _sum(left), _sum(right))


def _summands(expr: Expr, added: bool) -> list[_Summand]:
    if isinstance(expr, Binary) and expr.op in ("+", "-"):
        return [*_summands(expr.left, added), *_summands(expr.right, added == (expr.op == "+"))]
    if isinstance(expr, Unary) and expr.op == "-":
        return _summands(expr.operand, not added)
    return [(added, expr)]


def _is_exact(expr: Expr, schema: Schema) -> bool:
    """A plain integer or decimal with room for more digits in sums."""
    if not isinstance(expr, (Attribute, Literal)):
        return False
    digits = decimal_digits(type_of(expr, schema))
    return digits is not None and digits[0] - digits[1] <= 20 and digits[1] <= 15


def _sum(summands: list[_Summand]) -> Expr:
    """A sum of decimals: one of its terms at least is one, which makes all of them decimals."""
    if len(summands) == 1 and summands[0][0]:
        return summands[0][1]
    constants = [(added, Literal(Decimal(term.value))) for added, term in summands if isinstance(term, Literal)]
    others = [(added, term) for added, term in summands if not isinstance(term, Literal)]
    ordered = sorted([*constants, *others], key=lambda summand: not summand[0])
    if not constants or not ordered[0][0]:
        ordered.insert(0 if not ordered[0][0] else 1, (True, Literal(Decimal(0))))
    _, whole = ordered[0]
    for added, term in ordered[1:]:
        whole = Binary("+" if added else "-", whole, term)
    return whole


@rule("alternatives-of-not", keeps=Keeps.TRENDS)
def alternatives_of_not(resolved: ResolvedQuery) -> ResolvedQuery:
    """SEQ(A, NOT N, B) WHERE N.x = A.x OR N.y = B.y  ->  SEQ(A, NOT N, NOT `N'`, B) WHERE N.x = A.x AND `N'`.y = B.y

    No match satisfies one predicate or the other if none satisfies the one and none the other. A match must bind each
    negated variable that is mentioned to one event, or else the predicate could hold of one event by either.
    """
    for predicate in resolved.query.where:
        found = _divided(resolved, predicate)
        if found is not None:
            return found
    return resolved


def _divided(resolved: ResolvedQuery, predicate: Expr) -> ResolvedQuery | None:
    query = resolved.query
    parts = operands(predicate, "or")
    if len(parts) < 2 or shape(predicate) is not PredicateClass.PAIRWISE:
        return None
    owners = negations_of(predicate, query.pattern)
    if len(owners) != 1:
        return None
    own = {event.variable for event in events(owners[0])}
    others = {event.variable for node in negations(query.pattern) if node != owners[0] for event in events(node)}
    mentioned = own & set(variables(predicate))
    if own & others or not all(binds_exactly_one(owners[0].part, name) for name in mentioned):
        return None
    where = [other for other in query.where if other != predicate]
    about = [other for other in where if own & set(variables(other))]
    ways = [operands(one, "or") for one in (predicate, *about) if shape(one) is not PredicateClass.ADJACENT]
    if prod(map(len, ways)) > _MOST_ALTERNATIVES or not all(
        _is_tested_in_kernel(part, own) for way in ways for part in way
    ):
        return None
    taken = {event.variable for event in events(query.pattern)}
    copies: list[Pattern] = []
    for number, part in enumerate(parts):
        names = {} if number == 0 else _fresh_names(sorted(own), taken)
        copies.append(renamed(owners[0], names))
        where += [_with_names(other, names) for other in ([part] if number == 0 else [part, *about])]

    def change(node: Pattern) -> Pattern:
        return Seq(copies) if isinstance(node, Not) and node == owners[0] else node

    pattern = transform_pattern(query.pattern, change)
    return resolved.with_query(pattern=pattern, where=tuple(dict.fromkeys(where)))


def _is_tested_in_kernel(part: Expr, negated: set[str]) -> bool:
    is_separate = shape(part) is PredicateClass.LOCAL or separate(part) is not None
    return is_separate and bool(negated & set(variables(part)))


def _fresh_names(names: list[str], taken: set[str]) -> dict[str, str]:
    fresh = {}
    for name in names:
        other = name + "'"
        while other in taken:
            other += "'"
        taken.add(other)
        fresh[name] = other
    return fresh


def _with_names(predicate: Expr, names: dict[str, str]) -> Expr:
    def own(node: Expr) -> Expr:
        if isinstance(node, Attribute) and node.variable in names:
            return attrs.evolve(node, variable=names[node.variable])
        return node

    return transform(predicate, own)
