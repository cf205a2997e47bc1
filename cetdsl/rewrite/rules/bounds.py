"""The rule that leaves out a bound which another one of the same two events implies."""

from __future__ import annotations

from typing import Any

import attrs

from cetdsl.analysis.classify import separate
from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.analysis.types import type_of
from cetdsl.pattern.expressions import Binary, Expr, Literal
from cetdsl.pattern.intervals import moved_by
from cetdsl.rewrite.rule import Keeps, rule
from cetdsl.rewrite.rules.booleans import with_where
from cetdsl.rewrite.rules.sums import bounds_of, length_of

_UPPER, _LOWER = ("<", "<="), (">", ">=")


@rule("keep-tighter-bound", keeps=Keeps.DERIVATIONS)
def keep_tighter_bound(resolved: ResolvedQuery) -> ResolvedQuery:
    """WHERE unix_micros(NEXT(B).ts) <= unix_micros(A.ts) + 6 AND unix_micros(NEXT(B).ts) <= unix_micros(A.ts) + 5
    ->  WHERE unix_micros(NEXT(B).ts) <= unix_micros(A.ts) + 5

    An index answers one order between two events; with two, all pairs would have to be tested. The rule applies only
    where no sum can overflow.
    """
    kept: list[Expr] = []
    places: dict[object, int] = {}
    for predicate in resolved.query.where:
        bound = _bound_of(predicate, resolved)
        if bound is None:
            kept.append(predicate)
            continue
        place = places.setdefault(bound.key, len(kept))
        if place == len(kept):
            kept.append(predicate)
            continue
        other = _bound_of(kept[place], resolved)
        assert other is not None
        if bound.is_tighter_than(other):
            kept[place] = predicate
    return with_where(resolved, kept)


@attrs.frozen
class _Bound:
    """``left op right + constant``, where the comparison is an order: an upper bound of the left side, or a lower one.

    ``type`` is the type of the sum. If the constant is a length of time, ``by`` says whether it moves a time by the
    clock or the calendar: see :func:`moved_by`.
    """

    op: str
    left: Expr
    right: Expr
    constant: Any
    type: str | None
    by: str = ""

    @property
    def is_upper(self) -> bool:
        return self.op in _UPPER

    @property
    def key(self) -> object:
        """The properties that it shares with the bounds that it can be compared with."""
        return self.is_upper, self.left, self.right, self.type, self.by

    def is_tighter_than(self, other: _Bound) -> bool:
        """Whether it implies another one of the same key."""
        if self.constant == other.constant:
            return "=" not in self.op
        return bool(self.constant < other.constant) == self.is_upper


def _bound_of(predicate: Expr, resolved: ResolvedQuery) -> _Bound | None:
    """Returns the bound of a predicate; None if it has none, or a sum in it may overflow, or round."""
    found = separate(predicate)
    if found is None or found.op not in (*_UPPER, *_LOWER):
        return None
    kind = type_of(found.right, resolved.schema)
    base, constant, sign = _sum_of(found.right)
    length = length_of(constant)
    if length is not None:
        by = "clock" if kind == "timestamp_ntz" else moved_by(length)
        return None if by is None else _Bound(found.op, found.left, base, sign * length, kind, by)
    if not isinstance(constant.value, int) or bounds_of(found.right, resolved) is None:
        return None
    return _Bound(found.op, found.left, base, sign * constant.value, kind)


def _sum_of(expr: Expr) -> tuple[Expr, Literal, int]:
    """Splits a term into another term, a constant that is added to it, and the sign of this constant."""
    if isinstance(expr, Binary) and expr.op in ("+", "-") and isinstance(expr.right, Literal):
        return expr.left, expr.right, 1 if expr.op == "+" else -1
    return expr, Literal(0), 1
