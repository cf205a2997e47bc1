"""Pivots: variables that bind exactly one event of each trend.

The kernel makes a pass for each event of a pivot; within a pass, pairwise predicates compare with this fixed event.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import combinations

from cetdsl.ir.machine import Machine, Pair, longest_trend
from cetdsl.ir.windowing import SPAN

#: The most pivots of a query: a pass, or a graph, fixes one event of each.
MOST_PIVOTS = 2


def binds_exactly_one(machine: Machine, variable: int) -> bool:
    """Whether every word of the machine has the variable exactly once.

    Examples
    --------
    >>> from cetdsl.ir.machine import Edge
    >>> machine = Machine((0, 1), ((0, ()),), ((1, ()),), (Edge(0, 1), Edge(1, 1)))
    >>> binds_exactly_one(machine, 0), binds_exactly_one(machine, 1)
    (True, False)
    """
    final = {state for state, _ in machine.final}
    waiting = [(state, int(machine.variables[state] == variable)) for state, _ in machine.initial]
    seen = set(waiting)
    targets: list[list[int]] = [[] for _ in machine.variables]
    for edge in machine.edges:
        targets[edge.source].append(edge.target)
    while waiting:
        state, times = waiting.pop()
        if state in final and times != 1:
            return False
        for target in targets[state]:
            pair = target, min(times + (machine.variables[target] == variable), 2)
            if pair not in seen:
                seen.add(pair)
                waiting.append(pair)
    return True


def always_first(machine: Machine, variable: int) -> bool:
    """Whether every trend begins with the variable."""
    return all(machine.variables[state] == variable for state, _ in machine.initial)


def joint_pivots(machine: Machine, pairs: tuple[Pair, ...]) -> list[int]:
    """Returns the pivots that all pairwise predicates have in common, which counting needs."""
    return _in_all(machine, [*map(_variables, pairs)])


def joint_pivot(machine: Machine, pairs: tuple[Pair, ...]) -> int:
    """Returns the first of :func:`joint_pivots`; -1: there is none."""
    return next(iter(joint_pivots(machine, pairs)), -1)


def pivots_of(machine: Machine, pairs: tuple[Pair, ...]) -> tuple[int, ...]:
    """Returns one pivot that occurs in all pairwise predicates, or else two of which each predicate has at least one.

    The result is empty if there are no predicates, or no such pivots.
    """
    related = [*map(_variables, pairs)]
    found = _pivots(machine, related)
    choices = (*((pivot,) for pivot in found), *combinations(found, 2))
    return next((chosen for chosen in choices if all(names.intersection(chosen) for names in related)), ())


def search_pivot(machine: Machine, pairs: tuple[Pair, ...], windows: str) -> int:
    """Returns the pivot that serves a search for trends best; -1: none.

    Without a pivot, the search follows each path up to where a predicate fails. For trends of two events that takes
    less time than a pass for every event of the pivot. For longer trends, a search without a pivot may visit any number
    of dead ends. If windows are spans, each pass fixes the first event already, and it fixes that of a pivot as well
    only where that is :func:`worth <worth_passes>` the time.
    """
    if len(machine.variables) <= 2 and all(edge.source != edge.target for edge in machine.edges):
        return -1
    pivots = _pivots(machine, [*map(_variables, pairs)])
    return next((v for v in pivots if worth_passes(machine, (v,), windows)), -1)


def worth_passes(machine: Machine, pivots: Collection[int], windows: str) -> bool:
    """Whether passes that fix each event of the pivots, and with a span each first event, are worth their time.

    They are if they fix one event. If they fix two or three events of trends of bounded length, it may take less time
    to list the trends and to test the predicates.
    """
    first = windows == SPAN and not any(always_first(machine, pivot) for pivot in pivots)
    return len(pivots) + first == 1 or longest_trend(machine) == 0


def compared_pivots(machine: Machine) -> list[int]:
    """Returns the pivots that occur in all comparisons of neighbours.

    Examples
    --------
    >>> from cetdsl.ir.machine import Comparison, Edge
    >>> machine = Machine((0, 1), ((0, ()),), ((1, ()),), (Edge(0, 1, (Comparison("<", 0, 0),)), Edge(1, 1)))
    >>> compared_pivots(machine)
    [0]
    """
    edges = [edge for edge in machine.edges if edge.comparisons]
    related = [{machine.variables[edge.source], machine.variables[edge.target]} for edge in edges]
    return _in_all(machine, related)


def _pivots(machine: Machine, related: Collection[set[int]]) -> list[int]:
    """Returns the pivots among related variables, those in most predicates first, and then those that begin all trends.

    ``related`` are the variables of each predicate.
    """
    named = sorted(set().union(*related))
    found = [variable for variable in named if binds_exactly_one(machine, variable)]
    return sorted(found, key=lambda v: (-sum(v in names for names in related), not always_first(machine, v)))


def _in_all(machine: Machine, related: Collection[set[int]]) -> list[int]:
    """Returns the pivots that occur in all predicates."""
    return [v for v in _pivots(machine, related) if all(v in names for names in related)]


def _variables(pair: Pair) -> set[int]:
    return {pair.left_variable, pair.right_variable}
