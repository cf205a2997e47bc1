"""Rules that turn pairwise predicates into adjacent ones, which only need to be tested for neighbours."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import attrs

from cetdsl.analysis.classify import PredicateClass, negations_of, separate, shape
from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.analysis.types import are_of_one_type, category, type_of
from cetdsl.ir.schema import Schema
from cetdsl.pattern.automaton import reach
from cetdsl.pattern.expressions import MIRRORED, Attribute, Binary, Expr, Role, strip, variables, with_attributes
from cetdsl.pattern.nodes import And, Pattern, events
from cetdsl.pattern.properties import binds_at_least_one, binds_at_most_one, follow_pairs
from cetdsl.pattern.query import ANY, STRICT
from cetdsl.rewrite.rule import Keeps, rule
from cetdsl.rewrite.rules.booleans import with_where

#: For each comparison ``later op earlier`` between two runs of events: the comparisons by which the term may change
#: from each event of a run to the next, such that the comparison holds for all events of both runs if it holds for the
#: last event of the earlier run and the first of the later one.
_ALONG = {
    ">": {">", ">=", "="},
    ">=": {">", ">=", "="},
    "<": {"<", "<=", "="},
    "<=": {"<", "<=", "="},
    "=": {"="},
    "!=": {"="},
}
#: By variable and term, the comparisons ``later op earlier`` of this term between neighbours of the variable.
_Changes = dict[tuple[str, Expr], set[str]]


#: Terms that pairwise equalities relate: one of each variable.
_Terms = dict[str, Expr]


@rule("equality-to-adjacent", keeps=Keeps.DERIVATIONS, policies=(ANY, STRICT))
def equality_to_adjacent(resolved: ResolvedQuery) -> ResolvedQuery:
    """PATTERN SEQ(A, B+, C) WHERE A.id = B.id  ->  PATTERN SEQ(A, B+, C) WHERE NEXT(B).id = A.id AND NEXT(B).id = B.id

    If no other variable stands between the events that equalities relate, all of them are equal if each equals the next
    one. Conversely, two neighbours must be equal if an equality relates them, or if every trend binds the variables by
    way of which equalities relate them.
    """
    query = resolved.query
    if isinstance(query.pattern, And):
        return resolved
    where = list(query.where)
    for equalities, terms in _related(query.where, query.pattern, resolved.schema):
        pairs = {frozenset(variables(predicate)) for predicate in equalities}
        chain = [pair for pair in sorted(follow_pairs(query.pattern)) if terms.keys() >= set(pair)]
        if not all(_are_equal(*pair, pairs, query.pattern) for pair in chain):
            continue
        if any(_something_between(pair, terms.keys(), query.pattern) for pair in pairs):
            continue
        place = where.index(equalities[0])
        where = [predicate for predicate in where if predicate not in equalities]
        where[place:place] = [Binary("=", _with_next(terms[later], later), terms[earlier]) for earlier, later in chain]
    return with_where(resolved, where)


def _related(where: Iterable[Expr], pattern: Pattern, schema: Schema) -> list[tuple[list[Expr], _Terms]]:
    """Returns the groups of pairwise equalities that common terms of one type connect, each with its terms."""
    found: list[tuple[list[Expr], _Terms]] = []
    for predicate in where:
        comparison = separate(predicate) if shape(predicate) is PredicateClass.PAIRWISE else None
        if comparison is None or comparison.op != "=" or negations_of(predicate, pattern):
            continue
        if not are_of_one_type(comparison.left, comparison.right, schema):
            continue
        equalities, terms = [predicate], dict(zip(comparison.variables, (comparison.left, comparison.right)))
        for other in found[:]:
            if any(name in other[1] and strip(other[1][name]) == strip(term) for name, term in terms.items()):
                found.remove(other)
                equalities, terms = other[0] + equalities, other[1] | terms
        found.append((equalities, terms))
    # Two terms of one variable are left out: the equality must hold within each event, which no adjacent one expresses.
    return [(equalities, terms) for equalities, terms in found if _says_all(equalities, terms)]


def _says_all(equalities: Iterable[Expr], terms: _Terms) -> bool:
    """Whether equalities relate these terms, and no others of their variables."""
    sides = [(found.variables, (found.left, found.right)) for found in map(separate, equalities) if found is not None]
    return all(strip(terms[name]) == strip(side) for names, both in sides for name, side in zip(names, both))


def _are_equal(earlier: str, later: str, pairs: Collection[frozenset[str]], pattern: Pattern) -> bool:
    """Whether equalities between ``pairs`` of variables demand that an event of one equals its next one, of another."""
    if frozenset((earlier, later)) in pairs:
        return True
    reached, waiting = set[str](), [earlier]
    while waiting:
        name = waiting.pop()
        near = {other for pair in pairs if name in pair for other in pair} - {name, *reached}
        if later in near:
            return True
        # A variable that some trends do not bind connects nothing in these trends.
        new = {other for other in near if binds_at_least_one(pattern, other)}
        reached |= new
        waiting += new
    return False


def _something_between(pair: Iterable[str], names: Iterable[str], pattern: Pattern) -> bool:
    """Whether a trend may bind another variable than these between events of a pair."""
    follow = follow_pairs(pattern)
    others = {event.variable for event in events(pattern)} - set(names)
    behind, before = (reach(set(pair), steps) & others for steps in (follow, {step[::-1] for step in follow}))
    return bool(behind & before)


def _are_in_turn(earlier: str, later: str, pattern: Pattern) -> bool:
    """Whether a trend that binds both variables binds all its events of one, and directly after them all of the other.

    Examples
    --------
    >>> from cetdsl.pattern.nodes import Event, Or, Repeat, Seq
    >>> a, b, c = Event("a"), Event("b"), Event("c")
    >>> _are_in_turn("a", "c", Seq((Or((a, b)), Repeat(c)))), _are_in_turn("a", "c", Seq((a, Repeat(b, 0, 1), c)))
    (True, False)
    """
    pair, follow = (earlier, later), follow_pairs(pattern)
    return pair in follow and earlier not in reach({later}, follow) and not _something_between(pair, pair, pattern)


@rule("pairwise-to-adjacent", keeps=Keeps.DERIVATIONS)
def pairwise_to_adjacent(resolved: ResolvedQuery) -> ResolvedQuery:
    """B.x > A.x  ->  NEXT(B).x > A.x

    In ``SEQ(A, B)``, where each trend binds one event after the other, and in ``SEQ(A OR C, B)``, where each trend that
    binds both does. In ``SEQ(A, B+)`` as well, if values rise from each B to the next by a predicate such as
    ``NEXT(B).x > B.x``: then the first B has the smallest of all.
    """
    query = resolved.query
    changes, guarding = _changes(query.where), _with_inseparable(query.where)

    def change(predicate: Expr) -> Expr:
        if shape(predicate) is not PredicateClass.PAIRWISE or len(variables(predicate)) != 2:
            return predicate
        scopes = _scopes(predicate, query.pattern)
        pair = variables(predicate)
        for earlier, later in (pair, pair[::-1]):
            if scopes and all(_are_in_turn(earlier, later, scope) for scope in scopes):
                runs = {name for name in pair for scope in scopes if not binds_at_most_one(scope, name)}
                if len(runs) == 1 and frozenset(pair) in guarding and not _is_equality(predicate):
                    # It may exclude pairs for which the inseparable predicate would fail; that one needs a pass for
                    # each event of the other variable anyway, so nothing is gained by rewriting this one.
                    return predicate
                if not runs or _holds_along(predicate, later, runs, changes, resolved.schema):
                    return _with_next(predicate, later)
        return predicate

    return with_where(resolved, [change(predicate) for predicate in query.where])


def _is_equality(predicate: Expr) -> bool:
    found = separate(predicate)
    return found is not None and found.op == "="


def _with_inseparable(where: Iterable[Expr]) -> set[frozenset[str]]:
    """Returns the sets of variables that some pairwise predicate relates which does not split into sides."""
    pairwise = (predicate for predicate in where if shape(predicate) is PredicateClass.PAIRWISE)
    return {frozenset(variables(predicate)) for predicate in pairwise if separate(predicate) is None}


def _scopes(predicate: Expr, pattern: Pattern) -> list[Pattern]:
    """Returns the patterns that bind a predicate's variables: the query's, or the parts of NOTs; none if both do."""
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
    """Whether a predicate holds for all events of two runs if it holds for the two events where the runs meet."""
    found = separate(predicate)
    if found is None or not _in_one_order(found.left, found.right, schema):
        return False
    op = found.op if found.variables[0] == later else MIRRORED[found.op]
    sides = dict(zip(found.variables, (found.left, found.right), strict=True))
    return all(_ALONG[op] & changes.get((name, strip(sides[name])), set()) for name in runs)


def _in_one_order(left: Expr, right: Expr, schema: Schema) -> bool:
    """Whether the values of each side keep their order when they are compared with the other side.

    Numbers of any types do. Local times do not if they are converted to instants: an hour comes twice in autumn.
    """
    numbers = {category(type_of(side, schema)) for side in (left, right)} == {"number"}
    return numbers or are_of_one_type(left, right, schema)


def _with_next(term: Expr, later: str) -> Expr:
    """Returns a term, or a predicate, about the next event of a variable."""

    def change(attribute: Attribute) -> Attribute:
        return attrs.evolve(attribute, role=Role.NEXT) if attribute.variable == later else attribute

    return with_attributes(term, change)
