"""The merged template of a workload: the machines of all queries side by side, with the Kleene states that they share.

A state with a loop, which is the state of a Kleene pattern, is *repeating*; no predicates compare events in these
queries. All repeating states that read one variable take the same events, whatever their query and window, and can be
propagated once. Such a variable is a *variant*. Variants of one event type, whatever other conditions each of them has,
form a *family*, and mostly take the same events as well. All other states are *plain*; they are private to their query
(Hamlet, SIGMOD 2021, section 3.1).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.machine import Machine
from cetdsl.ir.windowing import SPAN
from cetdsl.kernels._side_by_side import grouped
from cetdsl.kernels.vocabulary import Bools, Ints

#: Variables are bits of a mask.
BITS = 64


class Template(NamedTuple):
    """The states of all queries as *nodes*, repeating ones first, in order of their variants and windows.

    An array ``x_start`` says where the entries of each row begin in ``x``.

    Attributes
    ----------
    repeating : int
        The number of repeating nodes.
    query, variable, variant, begins, ends : arrays, shape (nodes,) but for ``variant``, (repeating,)
        The query of each node, the variable that it reads, its variant, and whether trends may begin and end in it.
    window : int64 array, shape (queries,)
        The *window number* of each query; queries with equal windows have equal numbers.
    source_start, source, target_start, target : int64 arrays
        The nodes that lead to each node, without the node itself; and the repeating nodes that each plain node leads
        to.
    bit, family : int64 arrays, shape (variants,)
        The variable of each variant, and its family.
    part_start : int64 array, shape (variants * windows + 1,)
        Where the nodes of each variant and window number begin: those of variant ``v`` and number ``w`` are in entry
        ``v * windows + w``.
    family_start, family_bits : int64 arrays, shapes (families + 1,), (families,)
        The variants of each family, and their variables as a bit mask.
    plain_bits, crowded : int
        As bit masks, the variables of plain nodes, and those that two plain nodes of one query read.
    plain_start, plain, near_start, near : int64 arrays
        The plain nodes that read each variable; and the variants with nodes next to these, whose values an event of the
        variable reads or changes.
    touch : int64 array, shape (touches, 2)
        A row for each plain node and repeating neighbour of it: the entry of ``near`` that has the neighbour's variant,
        and the query.
    link_source, link_target, link_start, link_node : int64 arrays
        A *link* is a pair of variants such that a node of the one leads to a node of the other within a query: both
        variants, and the nodes that the link leads to.
    member_start, member, own_start, own : int64 arrays
        The queries of each window number, and the nodes of each query.
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
    family_bits: Ints
    plain_bits: int
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
        """The number of variants."""
        return len(self.bit)

    @property
    def windows(self) -> int:
        """The number of different windows."""
        return len(self.member_start) - 1


class _State(NamedTuple):
    """A state of a query's machine."""

    query: int
    state: int
    variable: int
    repeats: bool


def merge_machines(specs: Sequence[KernelSpec], families: Mapping[int, int]) -> Template:
    """Merges the machines of queries that each repeat a variable and compare no events with each other.

    Variables of one type have equal ``families``; those left out are families of their own.
    """
    # The planner ensures this. With a span, for one, the answers would be wrong: it depends on each first event.
    assert not any(s.query.windowing.kind == SPAN or s.query.pairs or s.query.negations for s in specs)
    assert not any(edge.comparisons or edge.listed for s in specs for edge in s.query.machine.edges)
    machines = [spec.query.machine for spec in specs]
    windowings = list(dict.fromkeys(spec.query.windowing for spec in specs))
    window = [windowings.index(spec.query.windowing) for spec in specs]
    loops = {(q, edge.source) for q, m in enumerate(machines) for edge in m.edges if edge.source == edge.target}
    states = [
        _State(q, state, v, (q, state) in loops) for q, m in enumerate(machines) for state, v in enumerate(m.variables)
    ]
    order = sorted({s.variable for s in states if s.repeats}, key=lambda v: (families.get(v, v), v))
    variant = {variable: number for number, variable in enumerate(order)}
    kinds = [families.get(variable, variable) for variable in order]
    family = np.cumsum([0] + [before != after for before, after in itertools.pairwise(kinds)])
    family_start = np.searchsorted(family, np.arange(family[-1] + 2))
    states.sort(
        key=lambda s: (not s.repeats, variant[s.variable] if s.repeats else 0, window[s.query], s.query, s.state)
    )
    repeating = [s for s in states if s.repeats]
    sources, targets, links = _neighbours(machines, states, variant)
    plain: list[list[int]] = [[] for _ in range(BITS)]
    touches: list[tuple[int, int, int]] = []
    crowded = set()
    for number, own in enumerate(states[len(repeating) :], len(repeating)):
        if any(states[other].query == own.query for other in plain[own.variable]):
            crowded.add(own.variable)
        plain[own.variable].append(number)
        near = [*targets[number], *(source for source in sources[number] if source < len(repeating))]
        touches += [(own.variable, variant[states[other].variable], own.query) for other in near]
    near_variants = [sorted({v for read, v, _ in touches if read == variable}) for variable in range(BITS)]
    entries = {pair: entry for entry, pair in enumerate((b, v) for b, group in enumerate(near_variants) for v in group)}
    parts = [variant[s.variable] * len(windowings) + window[s.query] for s in repeating]
    initial = [{state for state, _ in machine.initial} for machine in machines]
    final = [{state for state, _ in machine.final} for machine in machines]
    return Template(
        len(repeating),
        _ints([s.query for s in states]),
        _ints([s.variable for s in states]),
        _ints([variant[s.variable] for s in repeating]),
        _ints(window),
        np.array([s.state in initial[s.query] for s in states]),
        np.array([s.state in final[s.query] for s in states]),
        *grouped(sources),
        *grouped(targets),
        _ints(order),
        _ints(list(family)[: len(order)]),
        np.searchsorted(parts, np.arange(len(order) * len(windowings) + 1)),
        family_start,
        _ints([_mask(order[low:high]) for low, high in itertools.pairwise(family_start)]),
        _mask([variable for variable in range(BITS) if plain[variable]]),
        *grouped(plain),
        *grouped(near_variants),
        _ints([(entries[read, v], query) for read, v, query in touches]).reshape(-1, 2),
        _mask(list(crowded)),
        _ints([source for source, _ in links]),
        _ints([target for _, target in links]),
        *grouped([sorted(set(nodes)) for nodes in links.values()]),
        *grouped([[q for q in range(len(specs)) if window[q] == number] for number in range(len(windowings))]),
        *grouped([[n for n, s in enumerate(states) if s.query == q] for q in range(len(specs))]),
    )


def _neighbours(
    machines: list[Machine], states: list[_State], variant: dict[int, int]
) -> tuple[list[list[int]], list[list[int]], dict[tuple[int, int], list[int]]]:
    """Returns the sources of each node, the repeating targets of each plain node, and each link with its nodes."""
    node = {(s.query, s.state): number for number, s in enumerate(states)}
    sources: list[list[int]] = [[] for _ in states]
    targets: list[list[int]] = [[] for _ in states]
    links: dict[tuple[int, int], list[int]] = {}
    for query, machine in enumerate(machines):
        for edge in machine.edges:
            source, target = node[query, edge.source], node[query, edge.target]
            if source == target:
                continue
            sources[target].append(source)
            if states[source].repeats and states[target].repeats:
                link = variant[states[source].variable], variant[states[target].variable]
                links.setdefault(link, []).append(target)
            elif states[target].repeats:
                targets[source].append(target)
    return sources, targets, links


def _mask(variables: Sequence[int]) -> int:
    """Returns variables as the bits of a signed number, like the masks of events."""
    return int(np.bitwise_or.reduce(np.left_shift(1, _ints(variables)), initial=0))


def _ints(values: Sequence[int] | Sequence[tuple[int, int]]) -> Ints:
    return np.array(values, dtype=np.int64)
