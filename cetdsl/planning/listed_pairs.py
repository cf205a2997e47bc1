"""Chooses the pairwise predicates that Spark tests pair by pair, before a kernel looks for trends.

``b.rate / a.rate > 2`` does not split into a side for each event, so no kernel can evaluate it. Spark tests it for the
pairs of events that ``a`` and ``b`` may bind, and each event gets the list of those earlier events with which it
satisfies the predicate. With these lists a kernel evaluates it like any other pairwise predicate. Without them, only
finished trends could be tested.
"""

from __future__ import annotations

import attrs

from cetdsl.analysis.classify import PredicateClass, separate, shape
from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.ir.compiled import Compiled, ListColumn
from cetdsl.ir.emission import FINAL
from cetdsl.ir.machine import LISTED, Pair, longest_trend, may_follow
from cetdsl.pattern.expressions import Attribute, Expr, Role, conjunction, variables, with_attributes
from cetdsl.planning.pivots import binds_exactly_one, joint_pivot


def with_listed_pairs(compiled: Compiled, resolved: ResolvedQuery) -> Compiled:
    """Returns the query with lists in place of pairwise predicates, if all predicates then have a pivot in common.

    Otherwise the query stays as it is, and finished trends are tested. So it does if trends have at most two events:
    testing these costs no more than making the lists.
    """
    if 0 < longest_trend(compiled.machine) <= 2 or not _may_be_listed(resolved):
        return compiled
    chosen = [predicate for predicate in compiled.residual if _is_listed(compiled, predicate)]
    if len(chosen) < len(compiled.residual) or not chosen:
        return compiled
    lists, pairs = list(compiled.lists), list(compiled.pairs)
    for related in dict.fromkeys(frozenset(variables(predicate)) for predicate in chosen):
        # In the order of the text, as a predicate may guard the next one from an error.
        predicate = conjunction([one for one in chosen if related == set(variables(one))])
        pair = _listed(compiled, predicate, _guard(resolved, related), lists)
        # If no trend binds both variables, the predicate says nothing.
        pairs += [pair] if max(pair.left, pair.right) >= 0 else []
    found = attrs.evolve(compiled, lists=tuple(lists), pairs=tuple(pairs), residual=())
    return found if not pairs or joint_pivot(found.machine, found.pairs) >= 0 else compiled


def _may_be_listed(resolved: ResolvedQuery) -> bool:
    """Whether Spark expressions may read the events of a key together.

    On a stream they may not if events are kept as bytes for queries that come and go, nor if answers are given before
    they are final, when events may be kept by other keys than the query's.
    """
    return not resolved.is_stream or (resolved.emit == FINAL and not resolved.state.whole)


def _is_listed(compiled: Compiled, predicate: Expr) -> bool:
    related = variables(predicate)
    if shape(predicate) is not PredicateClass.PAIRWISE or len(related) != 2:
        return False
    return any(binds_exactly_one(compiled.machine, compiled.number_of(name)) for name in related)


def _guard(resolved: ResolvedQuery, related: frozenset[str]) -> Expr | None:
    """Returns the query's separable pairwise predicates between the two variables, as one conjunction."""
    parts = [
        predicate
        for predicate in resolved.query.where
        if related == set(variables(predicate))
        and shape(predicate) is PredicateClass.PAIRWISE
        and separate(predicate) is not None
    ]
    return conjunction(parts) if parts else None


def _listed(compiled: Compiled, predicate: Expr, guard: Expr | None, lists: list[ListColumn]) -> Pair:
    """Returns the pair that tests a predicate by list columns, and adds these columns to ``lists``."""
    left, right = map(compiled.number_of, variables(predicate))

    def row(earlier: int, later: int) -> int:
        if not may_follow(compiled.machine, earlier, later):
            return -1
        name = compiled.name_of(later)
        asked = None if guard is None else _in_order(guard, name)
        column = ListColumn(_in_order(predicate, name), earlier, later, asked)
        if column not in lists:
            lists.append(column)
        return lists.index(column)

    return Pair(LISTED, left, row(left, right), right, row(right, left))


def _in_order(predicate: Expr, later: str) -> Expr:
    """Rewrites a predicate over two variables as one over an earlier and a later event."""
    roles = {later: Role.NEXT}
    return with_attributes(predicate, lambda a: Attribute(None, a.name, roles.get(a.variable or "", Role.EACH)))
