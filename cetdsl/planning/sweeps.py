"""Decides whether one sweep can count the trends of a query.

A sweep takes the events of a pivot (:mod:`cetdsl.planning.pivots`) in the order of the value that the predicates
compare.
"""

from __future__ import annotations

from cetdsl.ir.compiled import Compiled
from cetdsl.ir.indexes import SCAN, index_of_edge
from cetdsl.ir.machine import Machine, Negation, Pair
from cetdsl.ir.windowing import SPAN
from cetdsl.planning.panes import MAX_PANES_STATES
from cetdsl.planning.pivots import always_first, compared_pivots, joint_pivots

#: The most ``!=``, as each of them doubles the number of value ranges in which an event may stand beside the pivot.
MAX_APART = 3


def sweep_pivot(compiled: Compiled, windows: str) -> int | str:
    """Returns the variable whose events are swept; or why there is none."""
    pairs = (*compiled.pairs, *(pair for negation in compiled.negations for pair in negation.correlated))
    if not pairs and all(index_of_edge(compiled, edge) != SCAN for edge in compiled.machine.edges):
        return "no predicate relates events that are no neighbours"  # and an index answers those of neighbours
    if not compiled.machine.variables:
        return "no trend has as many events as its counts ask for"
    if not all(map(_is_of_events, compiled.negations)):
        return "a NOT of more than one event"
    if len(compiled.machine.variables) + _guarded(compiled.machine) > MAX_PANES_STATES:
        return f"the automaton has more than {MAX_PANES_STATES} states"
    pivots = joint_pivots(compiled.machine, pairs) if pairs else compared_pivots(compiled.machine)
    if not pivots:
        return "its predicates have no variable in common that binds exactly one event of each trend"
    reasons = [_why_not_about(compiled, pairs, pivot, windows) for pivot in pivots]
    return next((pivot for pivot, reason in zip(pivots, reasons, strict=True) if reason is None), reasons[0] or "")


def _is_of_events(negation: Negation) -> bool:
    """Whether each match of a negated pattern is a single event."""
    machine = negation.machine
    ends = {state for state, _ in machine.initial} & {state for state, _ in machine.final}
    return not machine.edges and len(ends) == len(machine.variables) and not negation.deferred


def _guarded(machine: Machine) -> int:
    """Returns how many states have a guard on an edge at either end, or on their beginning or ending a trend."""
    edges = {state for edge in machine.edges if edge.guards for state in (edge.source, edge.target)}
    return len(edges | {state for state, guards in (*machine.initial, *machine.final) if guards})


def _why_not_about(compiled: Compiled, pairs: tuple[Pair, ...], pivot: int, windows: str) -> str | None:
    """Returns why the events of a pivot cannot be swept; None when they can."""
    machine, name = compiled.machine, compiled.name_of(pivot)
    if windows == SPAN:
        if not always_first(machine, pivot):
            return f"a span is about the first event of a trend, which is not always {name}"
        if any(guards for _, guards in machine.initial):
            return "a NOT before a trend looks back from its last event as far as a span"
    compared = [(p.op, p.right if p.right_variable == pivot else p.left) for p in pairs]
    for edge in machine.edges:
        if edge.listed:
            return "an inseparable predicate has no order to sweep by"
        if edge.comparisons and pivot not in (machine.variables[edge.source], machine.variables[edge.target]):
            return f"a predicate compares neighbours other than {name}"
        after = machine.variables[edge.source] == pivot
        compared += [
            (comparison.op, comparison.earlier if after else comparison.later) for comparison in edge.comparisons
        ]
    if len({column for _, column in compared}) > 1:
        return f"predicates compare two attributes of {name}"
    if sum(op == "!=" for op, _ in compared) > MAX_APART:
        return f"more than {MAX_APART} predicates with != mention {name}"
    return None
