"""Rules that find keys: equalities that cut a stream into independent parts."""

from __future__ import annotations

import attrs

from cetdsl.analysis.classify import adjacent_pair
from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.analysis.types import is_collated, is_orderable
from cetdsl.pattern.expressions import Attribute, Binary, Call, Expr, Role
from cetdsl.pattern.nodes import And, Pattern, events, negations
from cetdsl.pattern.properties import (
    binds_at_least_one,
    follow_pairs,
    minimum_length,
    negated_variables,
    positive_variables,
)
from cetdsl.pattern.query import ANY, STRICT
from cetdsl.rewrite.rule import Keeps, rule
from cetdsl.rewrite.rules.booleans import with_where


@attrs.frozen
class Tie:
    """A predicate by which two events have the same value in a column."""

    predicate: Expr
    column: str
    pair: tuple[str, str]
    adjacent: bool


def tie_of(predicate: Expr) -> Tie | None:
    """Returns a predicate as a tie if it equates the same column of two events; None for any other predicate."""
    if not isinstance(predicate, Binary) or predicate.op != "=":
        return None
    left, right = predicate.left, predicate.right
    if not isinstance(left, Attribute) or not isinstance(right, Attribute) or left.name != right.name:
        return None
    if left.role is right.role is Role.EACH and left.variable != right.variable:
        return Tie(predicate, left.name, (str(left.variable), str(right.variable)), False)
    pair = adjacent_pair(predicate)
    return None if pair is None else Tie(predicate, left.name, pair, True)


@rule("equality-to-partition", keeps=Keeps.DERIVATIONS, policies=(ANY,))
def equality_to_partition(resolved: ResolvedQuery) -> ResolvedQuery:
    """PATTERN SEQ(A, B+) WHERE A.id = B.id
      ->  PATTERN SEQ(A, B+) WHERE [id] AND A.id IS NOT NULL AND B.id IS NOT NULL

    The rule applies only if the equalities connect all events of each trend, directly or by way of others: then they
    hold exactly when all values are the same and none is NULL. A partition also restricts the matches of NOT, so each
    negated variable must be tied by the same column. It does not apply under other policies than ANY: these look at
    events between those of a trend, which a partition would hide.
    """
    query = resolved.query
    if isinstance(query.pattern, And):
        return resolved
    ties = [tie for tie in map(tie_of, query.where) if tie is not None]
    for column in dict.fromkeys(tie.column for tie in ties):
        own = [tie for tie in ties if tie.column == column]
        if not _can_be_key(resolved, column) or not ties_everything(query.pattern, own):
            continue
        dropped = {tie.predicate for tie in own}
        where = [predicate for predicate in query.where if predicate not in dropped]
        where += [_not_null(name, column) for name in positive_variables(query.pattern)]
        known = (*query.partition_by, *query.group_by)
        keys = query.partition_by if column in known else (*query.partition_by, column)
        return with_where(resolved.with_query(partition_by=keys), where)
    return resolved


def _can_be_key(resolved: ResolvedQuery, column: str) -> bool:
    type_ = resolved.schema.type_of(column)
    # Under a collation, equal strings differ in bytes.
    return type_ is not None and is_orderable(type_) and not is_collated(type_)


def ties_everything(pattern: Pattern, ties: list[Tie]) -> bool:
    """Whether the ties of one column hold exactly when all events have the same value, which is not NULL."""
    pairs = {frozenset(tie.pair) for tie in ties if not tie.adjacent}
    positive = set(positive_variables(pattern))
    for node in negations(pattern):
        for event in events(node):
            if not any(frozenset((event.variable, name)) in pairs for name in positive):
                return False
    return _ties_neighbours(pattern, ties, pairs) or _ties_all_pairs(pattern, pairs)


def _ties_neighbours(pattern: Pattern, ties: list[Tie], pairs: set[frozenset[str]]) -> bool:
    """Each two consecutive events are compared, and no trend is a single event."""
    consecutive = {tie.pair for tie in ties if tie.adjacent}
    tied = all(pair in consecutive or frozenset(pair) in pairs for pair in follow_pairs(pattern))
    return tied and minimum_length(pattern) >= 2


def _ties_all_pairs(pattern: Pattern, pairs: set[frozenset[str]]) -> bool:
    """The variables that every trend binds are connected, and each other one is compared with one of them."""
    names = positive_variables(pattern)
    always = [name for name in names if binds_at_least_one(pattern, name)]
    if len(always) < 2:
        return False
    reached = {always[0]}
    for _ in always:
        reached |= {name for name in always if any(frozenset((name, other)) in pairs for other in reached)}
    if reached != set(always):
        return False
    return all(name in reached or any(frozenset((name, other)) in pairs for other in always) for name in names)


def _not_null(variable: str, column: str) -> Expr:
    return Call("isnotnull", (Attribute(variable, column),))


@rule("drop-equality-of-key", keeps=Keeps.DERIVATIONS, policies=(ANY, STRICT))
def drop_equality_of_key(resolved: ResolvedQuery) -> ResolvedQuery:
    """PATTERN SEQ(A, B, C) WHERE [id] AND A.id = B.id
      ->  PATTERN SEQ(A, B, C) WHERE [id] AND A.id IS NOT NULL AND B.id IS NOT NULL

    Within a partition the values are equal, so only the condition remains that they are not NULL.
    """
    query = resolved.query
    if isinstance(query.pattern, And):
        return resolved
    keys = {*query.partition_by, *query.group_by}
    where: list[Expr] = []
    for predicate in query.where:
        tie = tie_of(predicate)
        if tie is None or tie.adjacent or tie.column not in keys:
            where.append(predicate)
        else:
            where += _what_is_left(tie, query.pattern) or [predicate]
    return with_where(resolved, where)


def _what_is_left(tie: Tie, pattern: Pattern) -> list[Expr]:
    negated = [name for name in tie.pair if name in negated_variables(pattern)]
    if len(negated) == 2:
        return []
    if not negated and not all(binds_at_least_one(pattern, name) for name in tie.pair):
        return []
    return [_not_null(name, tie.column) for name in negated or tie.pair]
