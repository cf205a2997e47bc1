"""The rule for pairwise predicates between neighbours: for an adjacent one, no other events need to be looked at."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from cetdsl.analysis.classify import PredicateClass, negations_of, separate, shape
from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.analysis.types import category, type_of
from cetdsl.ir.schema import Schema
from cetdsl.pattern.expressions import MIRRORED, Attribute, Expr, Role, strip, variables, with_attributes
from cetdsl.pattern.nodes import Pattern, events
from cetdsl.pattern.properties import binds_at_most_one, runs_in_turn
from cetdsl.rewrite.rule import Keeps, rule
from cetdsl.rewrite.rules.booleans import with_where

#: How a term must change from each event of a run to the next, ``later op earlier``, for a comparison ``later op
#: earlier`` between two runs to hold of all their events once it holds of the last of one and the first of the other.
_ALONG = {
    ">": {">", ">=", "="},
    ">=": {">", ">=", "="},
    "<": {"<", "<=", "="},
    "<=": {"<", "<=", "="},
    "=": {"="},
    "!=": {"="},
}
#: The comparisons ``later op earlier`` of one term of neighbours that are bound to one variable.
_Changes = dict[tuple[str, Expr], set[str]]


@rule("pairwise-to-adjacent", keeps=Keeps.DERIVATIONS)
def pairwise_to_adjacent(resolved: ResolvedQuery) -> ResolvedQuery:
    """B.x > A.x  ->  NEXT(B).x > A.x

    In ``SEQ(A, B)``, where each trend binds one event after the other. In ``SEQ(A, B+)`` as well, if values rise from
    each B to the next by a predicate such as ``NEXT(B).x > B.x``: then the first B has the smallest of all.
    """
    query = resolved.query
    changes = _changes(query.where)

    def change(predicate: Expr) -> Expr:
        if shape(predicate) is not PredicateClass.PAIRWISE or len(variables(predicate)) != 2:
            return predicate
        scopes = _scopes(predicate, query.pattern)
        pair = variables(predicate)
        for earlier, later in (pair, pair[::-1]):
            if scopes and all((earlier, later) in runs_in_turn(scope) for scope in scopes):
                runs = {name for name in pair for scope in scopes if not binds_at_most_one(scope, name)}
                if not runs or _holds_along(predicate, later, runs, changes, resolved.schema):
                    return _with_next(predicate, later)
        return predicate

    return with_where(resolved, [change(predicate) for predicate in query.where])


def _scopes(predicate: Expr, pattern: Pattern) -> list[Pattern]:
    """Returns the patterns that bind what a predicate relates: the query's, or the parts of NOTs; none if both do."""
    owners = negations_of(predicate, pattern)
    if not owners:
        return [pattern]
    inside = all(set(variables(predicate)) <= {event.variable for event in events(owner)} for owner in owners)
    return [owner.part for owner in owners] if inside else []


def _changes(where: Iterable[Expr]) -> _Changes:
    found: _Changes = {}
    for predicate in where:
        comparison = separate(predicate) if shape(predicate) is PredicateClass.ADJACENT else None
        if comparison is not None and len(set(comparison.variables)) == 1:
            later, earlier = strip(comparison.left), strip(comparison.right)
            if later == earlier:
                found.setdefault((comparison.variables[0], later), set()).add(comparison.op)
    return found


def _holds_along(predicate: Expr, later: str, runs: set[str], changes: _Changes, schema: Schema) -> bool:
    """Whether a predicate holds of all events of some runs once it holds of those where the runs meet."""
    found = separate(predicate)
    if found is None or not _in_one_order(found.left, found.right, schema):
        return False
    op = found.op if found.variables[0] == later else MIRRORED[found.op]
    sides = dict(zip(found.variables, (found.left, found.right), strict=True))
    return all(_ALONG[op] & changes.get((name, strip(sides[name])), set()) for name in runs)


def _in_one_order(left: Expr, right: Expr, schema: Schema) -> bool:
    """Whether the values of each side keep their order when they are compared with the other side.

    Numbers do, whatever their types. Local times do not where they become instants: an hour comes twice in autumn.
    """
    types = type_of(left, schema), type_of(right, schema)
    return types[0] is not None and (types[0] == types[1] or {category(t) for t in types} == {"number"})


def _with_next(predicate: Expr, later: str) -> Expr:
    def change(attribute: Attribute) -> Attribute:
        return attrs.evolve(attribute, role=Role.NEXT) if attribute.variable == later else attribute

    return with_attributes(predicate, change)
