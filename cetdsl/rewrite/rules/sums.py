"""The rule that separates sums and differences over two events, so that an index can answer their comparison."""

from __future__ import annotations

import datetime
from decimal import Decimal

from cetdsl.analysis.classify import PredicateClass, separate, shape
from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.analysis.types import category, decimal_digits, is_integer, type_of
from cetdsl.ir.schema import Schema
from cetdsl.ir.windowing import FIRST_TICK, LAST_TICK
from cetdsl.pattern.expressions import (
    COMPARISONS,
    LONGEST_INTERVAL,
    MIRRORED,
    Attribute,
    Binary,
    Call,
    Expr,
    Literal,
    Role,
    Unary,
    transform,
)
from cetdsl.pattern.properties import negated_variables
from cetdsl.rewrite.rule import Keeps, rule
from cetdsl.rewrite.rules.booleans import with_where

#: The most numbers of 35 digits that can be added as decimals of 38 digits.
_MOST_TERMS = 3
_BITS = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}
_NARROW = ("tinyint", "smallint", "int")
#: Bounds of the absolute values of functions of a time, in the years 1 to 9999, and for most functions at any time.
_OF_TIMES = {
    **dict.fromkeys(("unix_timestamp", "to_unix_timestamp", "unix_seconds"), 10**13),
    "unix_millis": 10**16,
    "unix_micros": 10**18,
    "unix_date": 4 * 10**6,
    **dict.fromkeys(("year", "quarter", "month", "weekofyear", "dayofyear", "day", "dayofmonth", "dayofweek"), 10**6),
    **dict.fromkeys(("hour", "minute", "second"), 60),
}

#: A term and whether it is added, not subtracted.
_Summand = tuple[bool, Expr]
#: A variable, and the role that says which of its events a term refers to.
Speaker = tuple[str | None, Role]


@rule("separate-sums", keeps=Keeps.DERIVATIONS)
def separate_sums(resolved: ResolvedQuery) -> ResolvedQuery:
    """WHERE unix_timestamp(B.ts) - unix_timestamp(A.ts) < 5  ->  WHERE unix_timestamp(B.ts) < unix_timestamp(A.ts) + 5
    WHERE B.ts - A.ts < INTERVAL '2' HOUR  ->  WHERE to_timestamp_ntz(B.ts) < to_timestamp_ntz(A.ts) + INTERVAL '2' HOUR
    WHERE A.x - B.x < 5  ->  WHERE bigint(B.x) > bigint(A.x) - 5

    The rule applies only if no sum can overflow, before or after. Whole numbers whose sums may overflow are converted
    to a wider type, BIGINT or a decimal, in which they cannot: where Spark's own sum fails, or wraps if the session
    says so, this form compares the true numbers. Sums of doubles round, so ``l + r < c`` is not ``l < c - r`` for them.
    As in Spark, the difference of two times is that of the local times in the session's zone.
    """
    negated = negated_variables(resolved.query.pattern)

    def separated(predicate: Expr) -> Expr:
        if shape(predicate) not in (PredicateClass.ADJACENT, PredicateClass.PAIRWISE):
            return predicate
        if not isinstance(predicate, Binary) or predicate.op not in COMPARISONS or separate(predicate) is not None:
            return predicate
        speakers = sorted(speakers_of(predicate), key=lambda speaker: _is_own(speaker, negated), reverse=True)
        if len(speakers) != 2:
            return predicate
        return (
            _of_times(predicate, speakers[0], resolved)
            or _of_numbers(predicate, speakers[0], resolved)
            or _of_numbers(_widened(predicate, resolved.schema), speakers[0], resolved)
            or _of_decimals(predicate, speakers[0], resolved.schema)
            or predicate
        )

    return with_where(resolved, [separated(predicate) for predicate in resolved.query.where])


def speakers_of(expr: Expr) -> frozenset[Speaker]:
    """Returns the events that a term refers to."""
    return frozenset((node.variable, node.role) for node in expr.walk() if isinstance(node, Attribute))


def _is_own(speaker: Speaker, negated: tuple[str, ...]) -> tuple[bool, bool, str]:
    """Returns the sort key by which one of two events gets the left side: the later one, or the negated one."""
    variable, role = speaker
    return role is Role.NEXT, variable in negated, str(variable)


# Times ----------------------------------------------------------------------------------------------------------------


def times_apart(expr: Expr, schema: Schema) -> tuple[Expr, Expr, datetime.timedelta] | None:
    """Splits a term into two times and a length: the first time less the second, plus the length; None: impossible."""
    if not isinstance(expr, Binary) or expr.op not in ("+", "-"):
        return None
    types = type_of(expr.left, schema), type_of(expr.right, schema)
    if category(types[0]) == category(types[1]) == "instant":
        # Spark would convert one of two different types first, which may change it: some clocks skip midnight.
        apart = types[0] == types[1] and all(len(speakers_of(side)) == 1 for side in (expr.left, expr.right))
        return (expr.left, expr.right, datetime.timedelta(0)) if apart and expr.op == "-" else None
    for inner, other in ((expr.left, expr.right), (expr.right, expr.left)):
        length, apart_by = length_of(other), times_apart(inner, schema)
        if length is None or apart_by is None:
            continue
        later, earlier, known = apart_by
        if expr.op == "-" and inner is expr.right:
            return earlier, later, length - known
        return later, earlier, known + (length if expr.op == "+" else -length)
    return None


def length_of(expr: Expr) -> datetime.timedelta | None:
    """The length of time that a constant stands for; None for other terms."""
    if isinstance(expr, Literal) and isinstance(expr.value, datetime.timedelta):
        return expr.value
    if isinstance(expr, Unary) and expr.op == "-":
        inner = length_of(expr.operand)
        return None if inner is None else -inner
    return None


def _of_times(predicate: Binary, own: Speaker, resolved: ResolvedQuery) -> Expr | None:
    op, found, bound = predicate.op, times_apart(predicate.left, resolved.schema), length_of(predicate.right)
    if found is None or bound is None:
        op = MIRRORED[op]
        found, bound = times_apart(predicate.right, resolved.schema), length_of(predicate.left)
    if found is None or bound is None:
        return None
    left, right, known = found
    bound -= known
    if own not in speakers_of(left):
        op, left, right, bound = MIRRORED[op], right, left, -bound
    if abs(bound) > LONGEST_INTERVAL:
        return None
    left, right = (Call("to_timestamp_ntz", (side,)) for side in (left, right))
    return Binary(op, left, Binary("+", right, Literal(bound)) if bound else right)


# Numbers that cannot overflow -----------------------------------------------------------------------------------------


def _of_numbers(predicate: Binary, own: Speaker, resolved: ResolvedQuery) -> Expr | None:
    if any(bounds_of(side, resolved) is None for side in (predicate.left, predicate.right)):
        return None
    parts = _parts(predicate, own, resolved.schema)
    if parts is None:
        return None
    op, left, right = parts
    constants = [summand for summand in right if isinstance(summand[1], Literal)]
    rest = [summand for summand in right if summand not in constants]
    # The constants go to the side on which no sum overflows.
    for sides in ((left, right), ([*left, *((not added, term) for added, term in constants)], rest)):
        whole = _whole(sides[0]), _whole(sides[1])
        if all(bounds_of(side, resolved) is not None for side in whole) and _are_comparable(*whole, resolved.schema):
            return Binary(op, *whole)
    return None


def _widened(predicate: Binary, schema: Schema) -> Binary:
    """The comparison with all plain numbers of fewer than 64 bits as BIGINT."""

    def wide(node: Expr) -> Expr:
        narrow = isinstance(node, Attribute) and type_of(node, schema) in _NARROW
        return Call("bigint", (node,)) if narrow else node

    return Binary(predicate.op, transform(predicate.left, wide), transform(predicate.right, wide))


def _are_comparable(left: Expr, right: Expr, schema: Schema) -> bool:
    """Whether some decimal type has enough digits for both of two exact numbers."""
    digits = [decimal_digits(type_of(side, schema)) for side in (left, right)]
    known = [found for found in digits if found is not None]
    return max(whole - scale for whole, scale in known) + max(scale for _, scale in known) <= 38


def bounds_of(expr: Expr, resolved: ResolvedQuery) -> tuple[int, int] | None:
    """The least and the greatest value that an exact number may have; None where it may overflow, or round."""
    type_ = type_of(expr, resolved.schema)
    digits = decimal_digits(type_)
    if digits is None:
        return None
    if isinstance(expr, Literal):
        return (expr.value, expr.value) if isinstance(expr.value, int) else _of_type(type_)
    if isinstance(expr, Attribute):
        is_time = expr.name == resolved.time.name and type_ == "bigint"
        return (FIRST_TICK, LAST_TICK) if is_time else _of_type(type_)
    if isinstance(expr, Unary):
        return _within(type_, _times(-1, bounds_of(expr.operand, resolved)))
    if isinstance(expr, Binary) and expr.op in ("+", "-"):
        sides = [bounds_of(side, resolved) for side in (expr.left, expr.right)]
        if not is_integer(type_) and not _has_digits(expr, resolved.schema):
            return None
        return _within(type_, _plus(sides[0], _times(1 if expr.op == "+" else -1, sides[1])))
    if isinstance(expr, Call):
        return _of_call(expr, resolved)
    return None


def _of_type(type_: str | None) -> tuple[int, int]:
    if type_ in _BITS:
        return -(2 ** _BITS[type_]), 2 ** _BITS[type_] - 1
    digits = decimal_digits(type_)
    assert digits is not None
    most: int = 10 ** (digits[0] - digits[1])
    return -most, most


def _of_call(call: Call, resolved: ResolvedQuery) -> tuple[int, int] | None:
    name, types = call.name.lower(), [type_of(argument, resolved.schema) for argument in call.arguments]
    if name in _OF_TIMES and len(types) == 1 and category(types[0]) == "instant":
        return -_OF_TIMES[name], _OF_TIMES[name]
    if name in ("ceil", "floor", "bigint") and len(types) == 1 and is_integer(types[0]):
        return bounds_of(call.arguments[0], resolved)
    if _is_days_between(call, resolved.schema):
        return -2 * _OF_TIMES["unix_date"], 2 * _OF_TIMES["unix_date"]
    return None


def _plus(one: tuple[int, int] | None, other: tuple[int, int] | None) -> tuple[int, int] | None:
    return None if one is None or other is None else (one[0] + other[0], one[1] + other[1])


def _times(sign: int, bounds: tuple[int, int] | None) -> tuple[int, int] | None:
    return bounds if bounds is None or sign > 0 else (-bounds[1], -bounds[0])


def _within(type_: str | None, bounds: tuple[int, int] | None) -> tuple[int, int] | None:
    """Returns the bounds if the type has all whole numbers between them; else None."""
    if bounds is None or type_ not in _BITS:
        return bounds
    least, most = _of_type(type_)
    return bounds if least <= bounds[0] and bounds[1] <= most else None


def _has_digits(expr: Binary, schema: Schema) -> bool:
    """Whether the sum of two decimals has all of its digits."""
    digits = [decimal_digits(type_of(side, schema)) for side in (expr.left, expr.right)]
    known = [found for found in digits if found is not None]
    whole, scale = max(all_ - after for all_, after in known), max(after for _, after in known)
    return len(known) == 2 and whole + scale + 1 <= 38


# Sums -----------------------------------------------------------------------------------------------------------------


def _parts(predicate: Binary, own: Speaker, schema: Schema) -> tuple[str, list[_Summand], list[_Summand]] | None:
    """Moves the summands of one event to the left, and all others to the right; None if a summand has both events."""
    summands = [*_summands(predicate.left, True, schema), *_summands(predicate.right, False, schema)]
    if any(len(speakers_of(term)) > 1 for _, term in summands):
        return None
    left = [(added, term) for added, term in summands if own in speakers_of(term)]
    right = [(not added, term) for added, term in summands if own not in speakers_of(term)]
    if any(added for added, _ in left):
        return predicate.op, left, right
    left, right = ([(not added, term) for added, term in side] for side in (left, right))
    return MIRRORED[predicate.op], left, right


def _summands(expr: Expr, added: bool, schema: Schema) -> list[_Summand]:
    if isinstance(expr, Binary) and expr.op in ("+", "-"):
        right = _summands(expr.right, added == (expr.op == "+"), schema)
        return [*_summands(expr.left, added, schema), *right]
    if isinstance(expr, Unary) and expr.op == "-":
        return _summands(expr.operand, not added, schema)
    if _is_days_between(expr, schema):
        days = (Call("unix_date", (Call("to_date", (argument,)),)) for argument in expr.children)
        return list(zip((added, not added), days, strict=True))
    return [(added, expr)]


def _is_days_between(expr: Expr, schema: Schema) -> bool:
    kinds = [category(type_of(argument, schema)) for argument in expr.children]
    return isinstance(expr, Call) and expr.name.lower() == "datediff" and kinds == ["instant", "instant"]


def _whole(summands: list[_Summand]) -> Expr:
    """Returns a sum, with all constants that are whole numbers combined into one at its end."""
    constants = [(added, term) for added, term in summands if isinstance(term, Literal) and type(term.value) is int]
    constant = sum(term.value if added else -term.value for added, term in constants)
    others = sorted((each for each in summands if each not in constants), key=lambda summand: not summand[0])
    if not others or not others[0][0]:
        others.insert(0, (True, Literal(constant)))
        constant = 0
    if constant:
        others.append((constant > 0, Literal(abs(constant))))
    return _joined(others)


def _joined(summands: list[_Summand]) -> Expr:
    _, whole = summands[0]
    for added, term in summands[1:]:
        whole = Binary("+" if added else "-", whole, term)
    return whole


# Numbers that decimals can take ---------------------------------------------------------------------------------------


def _of_decimals(predicate: Binary, own: Speaker, schema: Schema) -> Expr | None:
    parts = _parts(predicate, own, schema)
    if parts is None:
        return None
    op, left, right = parts
    if max(len(left), len(right)) > _MOST_TERMS or not all(is_exact(term, schema) for _, term in (*left, *right)):
        return None
    return Binary(op, _sum(left), _sum(right))


def is_exact(expr: Expr, schema: Schema) -> bool:
    """Whether a term is a plain integer or decimal with room for more digits in sums."""
    if not isinstance(expr, (Attribute, Literal)):
        return False
    digits = decimal_digits(type_of(expr, schema))
    return digits is not None and digits[0] - digits[1] <= 20 and digits[1] <= 15


def _sum(summands: list[_Summand]) -> Expr:
    """Returns a sum of decimals; one of its first two terms is a decimal constant, so that all sums are decimals."""
    if len(summands) == 1 and summands[0][0]:
        return summands[0][1]
    constants = [(added, Literal(Decimal(term.value))) for added, term in summands if isinstance(term, Literal)]
    others = [(added, term) for added, term in summands if not isinstance(term, Literal)]
    ordered = sorted([*constants, *others], key=lambda summand: not summand[0])
    if not ordered[0][0] or not any(isinstance(term, Literal) for _, term in ordered[:2]):
        ordered.insert(0 if not ordered[0][0] else 1, (True, Literal(Decimal(0))))
    return _joined(ordered)
