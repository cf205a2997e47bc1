"""Pivots: variables that bind one event of every trend, for which pairwise predicates compare with a fixed event."""

from __future__ import annotations

from collections.abc import Collection
from itertools import combinations

from cetdsl.ir.machine import Machine, Pair, longest_trend
from cetdsl.ir.windowing import SPAN

#: A pass or a graph is about so many events of pivots at most.
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
    """Returns the pivots that pairwise predicates are about: one that all have in common, or else two.

    Each predicate is about one of the two. Without predicates, or where they are about other variables, there are none.
    """
    related = [*map(_variables, pairs)]
    found = _pivots(machine, related)
    choices = (*((pivot,) for pivot in found), *combinations(found, 2))
    return next((chosen for chosen in choices if all(names.intersection(chosen) for names in related)), ())


def search_pivot(machine: Machine, pairs: tuple[Pair, ...], windows: str) -> int:
    """Returns the pivot that serves a search for trends best; -1: none.

    Without a pivot a path is followed to where a predicate fails. For trends of two events that takes less time than a
    pass for every event of the pivot; for longer ones a search without a pivot may visit any number of paths that lead
    nowhere. Where windows are spans, a pass is about the first event already, and about another one only where these
    are :func:`worth_passes`.
    """
    if len(machine.variables) <= 2 and all(edge.source != edge.target for edge in machine.edges):
        return -1
    pivots = _pivots(machine, [*map(_variables, pairs)])
    return next((v for v in pivots if worth_passes(machine, (v,), windows)), -1)


def worth_passes(machine: Machine, pivots: Collection[int], windows: str) -> bool:
    """Whether passes about each event of pivots, and with a span about each first event, are worth their time.

    About one event they are. About two or three of a trend of a bounded length, they may take longer than to list what
    predicates leave of such trends.
    """
    first = windows == SPAN and not any(always_first(machine, pivot) for pivot in pivots)
    return len(pivots) + first == 1 or longest_trend(machine) == 0


def compared_pivots(machine: Machine) -> list[int]:
    """Returns the pivots that all comparisons of neighbours have in common.

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
    """Returns the candidates, those with most predicates first, and of equals those that every trend begins with.

    ``related`` are the variables of each predicate.
    """
    named = sorted(set().union(*related))
    found = [variable for variable in named if binds_exactly_one(machine, variable)]
    return sorted(found, key=lambda v: (-sum(v in names for names in related), not always_first(machine, v)))


def _in_all(machine: Machine, related: Collection[set[int]]) -> list[int]:
    """Returns the candidates that all predicates have in common."""
    return [v for v in _pivots(machine, related) if all(v in names for names in related)]


def _variables(pair: Pair) -> set[int]:
    return {pair.left_variable, pair.right_variable}
