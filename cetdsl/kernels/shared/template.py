"""The merged template of a workload: the machines of all queries side by side, with the Kleene states that they share.

A state that repeats without a predicate is *repeating*; all repeating states that read one variable grow in step,
whatever their query and window, and can be propagated once. Such a variable is a *variant*: variants that differ by the
constants of their conditions alone form a *family*, and mostly grow in step as well. All other states are *plain*; they
are private to their query (Hamlet, SIGMOD 2021, section 3.1).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.windowing import SPAN
from cetdsl.kernels.vocabulary import Bools, Ints

#: Variables are bits of a mask.
BITS = 64


class Template(NamedTuple):
    """The states of all queries as *nodes*, repeating ones first, in order of their variants and windows.

    Attributes
    ----------
    repeating : int
        How many nodes repeat.
    query, variable : int64 arrays, shape (nodes,)
    variant : int64 array, shape (repeating,)
    window : int64 array, shape (queries,)
        Queries with equal windows have equal numbers.
    begins, ends : bool arrays, shape (nodes,)
    source_start, source : int64 arrays
        The nodes that lead to each node, itself left out.
    target_start, target : int64 arrays
        The repeating nodes that each plain node leads to.
    bit, family : int64 arrays, shape (variants,)
        The variable of each variant, and its family.
    part_start : int64 array, shape (variants * windows + 1,)
        The nodes of variant ``v`` and windows ``w`` begin at entry ``v * windows + w``.
    family_start : int64 array, shape (families + 1,)
        The variants of each family.
    plain_start, plain : int64 arrays
        The plain nodes that read each variable.
    near_start, near : int64 arrays
        The variants next to these: theirs are the values that an event of the variable reads or changes.
    touch : int64 array, shape (touches, 2)
        Each plain node and repeating neighbour, as an entry of ``near`` and a query.
    crowded : int
        Variables (a bit mask) that two plain nodes of one query read.
    link_source, link_target : int64 arrays, shape (links,)
        Variants of which one leads to the other within a query.
    link_start, link_node : int64 arrays
        The nodes that each link leads to.
    member_start, member : int64 arrays
        The queries of each window number.
    own_start, own : int64 arrays
        The nodes of each query.
    """

    repeating: int
    query: Ints
    variable: Ints
    variant: Ints
    window: Ints
    begins: Bools
    ends: Bools
    source_start: Ints
    source: Ints
    target_start: Ints
    target: Ints
    bit: Ints
    family: Ints
    part_start: Ints
    family_start: Ints
    plain_start: Ints
    plain: Ints
    near_start: Ints
    near: Ints
    touch: Ints
    crowded: int
    link_source: Ints
    link_target: Ints
    link_start: Ints
    link_node: Ints
    member_start: Ints
    member: Ints
    own_start: Ints
    own: Ints

    @property
    def variants(self) -> int:
        """How many variants there are."""
        return len(self.bit)

    @property
    def families(self) -> int:
        """How many families there are."""
        return len(self.family_start) - 1

    @property
    def windows(self) -> int:
        """How many different windows there are."""
        return len(self.member_start) - 1


def merge_machines(specs: Sequence[KernelSpec], families: Mapping[int, int] | None = None) -> Template:
    """The merged template of queries, each of which repeats a variable and compares no events with each other.

    Parameters
    ----------
    specs : sequence of KernelSpec
        Over all events, or over windows: a span is about each first event apart.
    families : mapping of int to int, optional
        Variables that differ only by constants have equal numbers here; those left out are alone.
    """
    # Planning sees to it; without it the answers would be wrong.
    assert not any(s.query.windowing.kind == SPAN or s.query.pairs or s.query.negations for s in specs)
    assert not any(edge.comparisons or edge.listed for s in specs for edge in s.query.machine.edges)
    families = families or {}
    windowings = list(dict.fromkeys(spec.query.windowing for spec in specs))
    window = [windowings.index(spec.query.windowing) for spec in specs]
    states = []
    for query, spec in enumerate(specs):
        loops = {edge.source for edge in spec.query.machine.edges if edge.source == edge.target}
        states += [(query, state, v, state in loops) for state, v in enumerate(spec.query.machine.variables)]
    bits = {variable for _, _, variable, repeats in states if repeats}
    order = sorted(bits, key=lambda variable: (families.get(variable, variable), variable))
    variant = {variable: number for number, variable in enumerate(order)}
    kinds = [families.get(variable, variable) for variable in order]
    family = np.cumsum([0] + [before != after for before, after in itertools.pairwise(kinds)])
    states.sort(key=lambda s: (not s[3], variant[s[2]] if s[3] else 0, window[s[0]], s[0], s[1]))
    node = {(query, state): number for number, (query, state, _, _) in enumerate(states)}
    repeating = sum(repeats for *_, repeats in states)
    sources: list[list[int]] = [[] for _ in states]
    targets: list[list[int]] = [[] for _ in states]
    links: dict[tuple[int, int], list[int]] = {}
    for query, spec in enumerate(specs):
        for edge in spec.query.machine.edges:
            source, target = node[query, edge.source], node[query, edge.target]
            if source == target:
                continue
            sources[target].append(source)
            if target < repeating <= source:
                targets[source].append(target)
            elif target < repeating:
                link = variant[states[source][2]], variant[states[target][2]]
                links.setdefault(link, []).append(target)
    plain: list[list[int]] = [[] for _ in range(BITS)]
    touches: list[tuple[int, int, int]] = []
    crowded = 0
    for number in range(repeating, len(states)):
        variable = states[number][2]
        if any(states[other][0] == states[number][0] for other in plain[variable]):
            crowded |= 1 << variable
        plain[variable].append(number)
        neighbours = [*targets[number], *(source for source in sources[number] if source < repeating)]
        touches += [(variable, variant[states[neighbour][2]], states[number][0]) for neighbour in neighbours]
    near = [sorted({v for read, v, _ in touches if read == variable}) for variable in range(BITS)]
    entries = {pair: entry for entry, pair in enumerate((b, v) for b, group in enumerate(near) for v in group)}
    parts = [variant[variable] * len(windowings) + window[query] for query, _, variable, _ in states[:repeating]]
    initial = [{state for state, _ in spec.query.machine.initial} for spec in specs]
    final = [{state for state, _ in spec.query.machine.final} for spec in specs]
    return Template(
        repeating,
        _ints([query for query, *_ in states]),
        _ints([variable for _, _, variable, _ in states]),
        _ints([variant[variable] for _, _, variable, _ in states[:repeating]]),
        _ints(window),
        np.array([state in initial[query] for query, state, *_ in states]),
        np.array([state in final[query] for query, state, *_ in states]),
        *_grouped(sources),
        *_grouped(targets),
        _ints(order),
        _ints(list(family)[: len(order)]),
        np.searchsorted(parts, np.arange(len(order) * len(windowings) + 1)),
        np.searchsorted(family, np.arange(family[-1] + 2)),
        *_grouped(plain),
        *_grouped(near),
        _ints([(entries[read, v], query) for read, v, query in touches]).reshape(-1, 2),
        crowded,
        _ints([source for source, _ in links]),
        _ints([target for _, target in links]),
        *_grouped([sorted(set(nodes)) for nodes in links.values()]),
        *_grouped([[q for q in range(len(specs)) if window[q] == number] for number in range(len(windowings))]),
        *_grouped([[n for n, state in enumerate(states) if state[0] == q] for q in range(len(specs))]),
    )


def _ints(values: Sequence[int] | Sequence[tuple[int, int]]) -> Ints:
    return np.array(values, dtype=np.int64)


def _grouped(groups: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    start = np.cumsum([0, *map(len, groups)]).astype(np.int64)
    return start, _ints([number for group in groups for number in group])
