"""Merges states of several queries that the same trends enter.

Two states are equal if they read the same variable in the same windows, if trends begin in both under the same guards
or in neither, and if equal states lead to them under the same comparisons. Then every event has the same value in both.
So a prefix that the patterns of several queries have in common is propagated once, whatever follows it in each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

import attrs

from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.machine import Comparison, Machine, Negation

#: A source, and what must hold between its events and their next ones.
Entry = tuple[int, tuple[Comparison, ...]]


@attrs.frozen
class MergedStates:
    """The merged states of several queries.

    Attributes
    ----------
    variable : tuple of int
        The variable that each state reads.
    begins : tuple of (tuple of int) or None
        The guards of each state that trends may begin in; None: they may not.
    entries : tuple of tuple of (int, tuple of Comparison)
        The edges that lead to each state, as sources and comparisons; an edge may repeat.
    ends : tuple of tuple of (int, int, tuple of int)
        Where the trends of each query end: the state, how many of the query's final states have become it, and the
        guards.
    queries : tuple of frozenset of int
        The queries that each state belongs to.
    window, windows : tuple of int
        The number of the windows of each state, and of those of each query.
    """

    variable: tuple[int, ...]
    begins: tuple[tuple[int, ...] | None, ...]
    entries: tuple[tuple[Entry, ...], ...]
    ends: tuple[tuple[tuple[int, int, tuple[int, ...]], ...], ...]
    queries: tuple[frozenset[int], ...]
    window: tuple[int, ...]
    windows: tuple[int, ...]


def joined_query(specs: Sequence[KernelSpec]) -> tuple[KernelSpec, tuple[int, ...]]:
    """Puts the machines of queries side by side; also returns the query of each state. Equal negations become one."""
    negations: dict[Negation, int] = {}
    variables: list[int] = []
    initial, final, edges = [], [], []
    owner: list[int] = []
    for number, spec in enumerate(specs):
        machine, base = spec.query.machine, len(variables)
        own = [negations.setdefault(negation, len(negations)) for negation in spec.query.negations]
        guards = {before: tuple(sorted(own[g] for g in before)) for before in _guards(machine)}
        variables += machine.variables
        owner += [number] * len(machine.variables)
        initial += [(base + state, guards[before]) for state, before in machine.initial]
        final += [(base + state, guards[after]) for state, after in machine.final]
        edges += [
            attrs.evolve(edge, source=base + edge.source, target=base + edge.target, guards=guards[edge.guards])
            for edge in machine.edges
        ]
    machine = Machine(tuple(variables), tuple(initial), tuple(final), tuple(edges))
    return specs[0].with_query(machine=machine, negations=tuple(negations)), tuple(owner)


def _guards(machine: Machine) -> set[tuple[int, ...]]:
    ends = (*machine.initial, *machine.final)
    return {guards for _, guards in ends} | {edge.guards for edge in machine.edges}


def merge_states(machine: Machine, owner: Sequence[int], window: Sequence[int]) -> MergedStates:
    """Merges equal states of a machine whose guards between neighbours are comparisons.

    ``owner`` has the query of each state, and ``window`` the number of each query's windows.

    Examples
    --------
    >>> from cetdsl.ir.machine import Edge
    >>> two = Machine((0, 1, 0, 2), ((0, ()), (2, ())), ((1, ()), (3, ())), (Edge(0, 1), Edge(2, 3)))
    >>> merge_states(two, (0, 0, 1, 1), (0, 0)).variable
    (0, 1, 2)
    """
    count = len(machine.variables)
    begins = dict(machine.initial)
    entering: list[list[Entry]] = [[] for _ in range(count)]
    for edge in machine.edges:
        comparisons = tuple(sorted(edge.comparisons, key=lambda c: (c.op, c.later, c.earlier)))
        entering[edge.target].append((edge.source, comparisons))
    number = _numbered([(machine.variables[s], begins.get(s), window[owner[s]]) for s in range(count)])
    while True:
        # Classes of states are refined until all states of a class have the same entries.
        seen = [(number[s], frozenset(Counter((number[p], c) for p, c in entering[s]).items())) for s in range(count)]
        finer = _numbered(seen)
        if len(set(finer)) == len(set(number)):
            break
        number = finer
    first = {own: state for state, own in reversed(list(enumerate(number)))}
    of_number = [first[own] for own in range(len(first))]
    ends: list[Counter[tuple[int, tuple[int, ...]]]] = [Counter() for _ in range(max(owner) + 1)]
    for state, guards in machine.final:
        ends[owner[state]][number[state], guards] += 1
    return MergedStates(
        tuple(machine.variables[state] for state in of_number),
        tuple(begins.get(state) for state in of_number),
        tuple(tuple((number[source], c) for source, c in entering[state]) for state in of_number),
        tuple(tuple((state, times, guards) for (state, guards), times in own.items()) for own in ends),
        tuple(frozenset(owner[s] for s in range(count) if number[s] == own) for own in range(len(first))),
        tuple(window[owner[state]] for state in of_number),
        tuple(window),
    )


def _numbered(things: Sequence[Hashable]) -> list[int]:
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(thing, len(numbers)) for thing in things]
