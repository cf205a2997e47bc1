"""Finds the NOTs whose predicates only say how far in time they look from the event beside their gap.

Such a bound is the *sight* of a NOT: see :class:`~cetdsl.ir.machine.Negation`.
"""

from __future__ import annotations

import datetime

import attrs

from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.analysis.types import category, type_of
from cetdsl.ir.compiled import CodeColumn, Compiled
from cetdsl.ir.machine import Machine, Negation, Pair
from cetdsl.pattern.expressions import Attribute, Binary, Call, Expr, Literal
from cetdsl.pattern.intervals import moved_by

#: Non-decreasing functions of time, with the argument types for which they are non-decreasing.
_RISING = {
    **dict.fromkeys(("unix_micros", "unix_millis", "unix_seconds", "unix_timestamp"), ("timestamp",)),
    "to_timestamp": ("date",),
    **dict.fromkeys(("ceil", "bigint"), ("tinyint", "smallint", "int", "bigint")),
}


def with_sights(compiled: Compiled, resolved: ResolvedQuery) -> Compiled:
    """Returns the query with a sight in place of the predicates of each NOT, wherever these only state a sight.

    So they do in ``SEQ(A a, NOT C c, B b) WHERE c.t <= a.t + 5``. If the nearest ``c`` behind ``a`` is out of sight,
    all others are. So the NOT only needs to look at the nearest ``c``, and no predicate relates it to the trend.
    """
    negations = tuple(_with_sight(number, compiled, resolved) for number in range(len(compiled.negations)))
    return attrs.evolve(compiled, negations=negations)


def _with_sight(number: int, compiled: Compiled, resolved: ResolvedQuery) -> Negation:
    negation, machine = compiled.negations[number], compiled.machine
    alike = {attrs.evolve(pair, left_variable=0) for pair in negation.correlated}
    named = [pair.left_variable for pair in negation.correlated]
    if len(alike) != 1 or negation.deferred or negation.pairs or negation.machine.edges:
        return negation
    if sorted(named) != sorted(set(negation.machine.variables)):
        return negation
    found = attrs.evolve(negation, correlated=(), sight=negation.correlated[0])
    column = compiled.codes[negation.correlated[0].left]
    if negation.correlated[0].op not in ("<", "<=", ">", ">=") or not _rises_as_compared(column, resolved):
        return negation
    return found if _looks_from_neighbour(machine, number, found, negation.correlated[0]) else negation


def _looks_from_neighbour(machine: Machine, number: int, negation: Negation, pair: Pair) -> bool:
    """Whether the predicate compares with the event on the same side of each gap that the NOT guards."""
    ends = {False: machine.initial, True: machine.final}
    ahead = negation.looks_ahead
    near = [edge.source if ahead else edge.target for edge in machine.edges if number in edge.guards]
    near += [state for state, guards in ends[ahead] if number in guards]
    far = any(number in guards for _, guards in ends[not ahead])
    return not far and all(machine.variables[state] == pair.right_variable for state in near)


def _rises_as_compared(column: CodeColumn, resolved: ResolvedQuery) -> bool:
    """Whether a column never falls from an event to a later one, also in the type in which it is compared."""
    if column.partner is not None:
        kinds = {category(type_of(expr, resolved.schema)) for expr in (column.expr, column.partner)}
        if kinds != {"number"}:
            return False
    return _rises(column.expr, resolved)


def _rises(expr: Expr, resolved: ResolvedQuery) -> bool:
    """Whether a term of a single event is never NULL, and never falls from an event to a later one."""
    if isinstance(expr, Attribute):
        return expr.name == resolved.time.name
    if isinstance(expr, Call):
        types = _RISING.get(expr.name, ())
        return (
            len(expr.arguments) == 1
            and type_of(expr.arguments[0], resolved.schema) in types
            and _rises(expr.arguments[0], resolved)
        )
    if not isinstance(expr, Binary) or expr.op not in ("+", "-"):
        return False
    moved, by = (expr.left, expr.right) if isinstance(expr.right, Literal) else (expr.right, expr.left)
    if not isinstance(by, Literal) or (by is expr.left and expr.op == "-"):
        return False
    return _keeps_order(by, type_of(moved, resolved.schema)) and _rises(moved, resolved)


def _keeps_order(by: Literal, kind: str | None) -> bool:
    """Whether adding a constant to the value keeps the order.

    Adding days does not in a time zone that changes its clocks: 02:30 a day later may be 03:30, and 03:00 is 03:00.
    """
    has_days = isinstance(by.value, datetime.timedelta) and moved_by(by.value) != "clock"
    return not (has_days and kind == "timestamp")
