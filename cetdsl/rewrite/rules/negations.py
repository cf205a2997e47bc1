"""Rules that bring predicates of NOT into forms that a kernel tests while it looks for trends."""

from __future__ import annotations

from math import prod

from cetdsl.analysis.classify import PredicateClass, negations_of, separate, shape
from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.pattern.expressions import Expr, operands, rename_variables, variables
from cetdsl.pattern.nodes import Not, Pattern, Seq, events, negations
from cetdsl.pattern.nodes import transform as transform_pattern
from cetdsl.pattern.properties import binds_exactly_one
from cetdsl.rewrite.rule import Keeps, rule
from cetdsl.rewrite.rules.predicates import renamed

#: The most copies of a negated pattern; more of them would take longer than testing each match.
_MOST_ALTERNATIVES = 4


@rule("alternatives-of-not", keeps=Keeps.TRENDS)
def alternatives_of_not(resolved: ResolvedQuery) -> ResolvedQuery:
    """SEQ(A, NOT N, B) WHERE N.x = A.x OR N.y = B.y  ->  SEQ(A, NOT N, NOT `N'`, B) WHERE N.x = A.x AND `N'`.y = B.y

    No match satisfies an OR of predicates if and only if no match satisfies the one, and none the other. A match must
    bind each mentioned negated variable to exactly one event. Otherwise some of its events could satisfy the one
    predicate, and others the other.
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
        where += [rename_variables(other, names) for other in ([part] if number == 0 else [part, *about])]

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
