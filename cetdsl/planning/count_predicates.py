"""Recognizes predicates that only limit how often a variable is bound, or how long a trend is.

The states of the automaton can count such bindings, so these predicates need no finished trend.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import attrs

from cetdsl.pattern.expressions import HOLDS, MIRRORED, Aggregate, Binary, Call, Expr, Length, Literal, Unary


@attrs.frozen
class CountPredicate:
    """A predicate that a single count decides.

    Attributes
    ----------
    variable : str or None
        The variable whose bindings are counted; None: all bindings of a trend.
    bound : float or Decimal
        The largest constant that the count is compared with: the predicate has one truth value for all larger counts.
    holds : callable
        Whether the predicate is true of a count.
    """

    variable: str | None
    bound: float | Decimal
    holds: Callable[[int], bool]


def count_predicate(predicate: Expr) -> CountPredicate | None:
    """Returns a predicate as one on a single count; None if it depends on anything else.

    Examples
    --------
    >>> from cetdsl.pattern.expressions import Aggregate, Binary, Call, Literal
    >>> count = Aggregate("count", "b")
    >>> either = Binary("or", Binary("=", count, Literal(2)), Call("in", (count, Literal(4), Literal(7))))
    >>> found = count_predicate(either)
    >>> found.variable, found.bound, [n for n in range(9) if found.holds(n)]
    ('b', 7, [2, 4, 7])
    """
    if isinstance(predicate, Unary) and predicate.op == "not":
        inner = count_predicate(predicate.operand)
        return None if inner is None else attrs.evolve(inner, holds=lambda n: not inner.holds(n))
    if isinstance(predicate, Call) and predicate.name == "in":
        value, *items = predicate.arguments
        return _joined([_comparison("=", value, item) for item in items], any)
    if not isinstance(predicate, Binary):
        return None
    if predicate.op in ("and", "or"):
        parts = [count_predicate(predicate.left), count_predicate(predicate.right)]
        return _joined(parts, any if predicate.op == "or" else all)
    if isinstance(predicate.left, Literal):
        return _comparison(MIRRORED.get(predicate.op), predicate.right, predicate.left)
    return _comparison(predicate.op, predicate.left, predicate.right)


def _comparison(op: str | None, value: Expr, constant: Expr) -> CountPredicate | None:
    """Returns a comparison of a count with a constant; None for any other comparison."""
    if op not in MIRRORED or not isinstance(constant, Literal):
        return None
    number = constant.value
    if type(number) not in (int, float, Decimal) or number != number:
        return None
    if isinstance(value, Length):
        variable = None
    elif isinstance(value, Aggregate) and value.definition.is_count:
        variable = value.variable
    else:
        return None
    return CountPredicate(variable, number, lambda n: bool(HOLDS[op](n, number)))


def _joined(parts: list[CountPredicate | None], join: Callable[[list[bool]], bool]) -> CountPredicate | None:
    """Joins several predicates on one count by ``all`` or ``any``; None unless all of them are on the same count."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts) or len({part.variable for part in known}) != 1:
        return None
    bound = max(part.bound for part in known)
    return CountPredicate(known[0].variable, bound, lambda n: join([part.holds(n) for part in known]))
