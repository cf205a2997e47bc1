"""Turns a multi-pattern plan and the demands of each query into the vertices that a kernel joins.

A *vertex* is a sub-pattern or an alternative of a query, a *slot* of it holds one event, and its *demands* are the
conditions on these events (:mod:`cetdsl.ir.slots`). The plan only contributes its edges: which vertex is built from
which, and which of their slots hold the same event. A sub-pattern demands what all alternatives below it demand in
common. So each match of a query contains an instance of every vertex above it, whatever the plan is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import attrs

from cetdsl.ir.slots import ANY_KIND, UNBOUNDED, Compared, Demands, Fit, Gap, JoinedVertex, Parent
from cetdsl.pattern.expressions import MIRRORED
from cetdsl.planning.slots import Alternative
from cetdsl.sharing.aggregation.plan import Edge, PlanData

#: For each slot of a vertex, the slot of another vertex that holds the same event.
_Slots = tuple[int, ...]


@attrs.frozen
class Wanted:
    """A query of a pass: its number, its alternatives, and the length and slide of its windows if they slide."""

    number: int
    alternatives: tuple[Alternative, ...]
    window: tuple[int, int] | None = None


@attrs.define
class _Node:
    """A sub-pattern of the plan, or an alternative of a query."""

    name: str
    #: The alternatives below it, each with the alternative's slots that hold the events of this node's slots.
    below: list[tuple[_Node, _Slots]] = attrs.field(factory=list)
    #: The nodes that are built from it, by their ``id()``, each with its slots that hold this node's events.
    children: dict[int, tuple[_Node, _Slots]] = attrs.field(factory=dict)
    parents: list[tuple[_Node, _Slots]] = attrs.field(factory=list)
    alternative: Alternative | None = None
    query: int = -1
    window: tuple[int, int] | None = None


def join_vertices(plan: PlanData | None, wanted: Mapping[str, Wanted]) -> tuple[JoinedVertex, ...]:
    """Returns the vertices of some queries, parents before children; without a plan, queries share no vertex."""
    leaves = {
        name: [_Node(name, alternative=one, query=query.number, window=query.window) for one in query.alternatives]
        for name, query in wanted.items()
    }
    shared = [] if plan is None else _sub_patterns(plan, leaves)
    nodes = [*shared, *chain.from_iterable(leaves.values())]
    numbers = {id(node): number for number, node in enumerate(nodes)}
    return tuple(_vertex(node, numbers) for node in nodes)


def _vertex(node: _Node, numbers: Mapping[int, int]) -> JoinedVertex:
    if node.alternative is not None:
        demands = node.alternative.demands
    else:
        demands = _common([(leaf.alternative.demands, slots) for leaf, slots in node.below if leaf.alternative])
    parents = dict.fromkeys(Parent(numbers[id(parent)], slots) for parent, slots in node.parents)
    return JoinedVertex(demands, tuple(parents), node.query, node.window, node.name)


def _sub_patterns(plan: PlanData, leaves: Mapping[str, Sequence[_Node]]) -> list[_Node]:
    """Returns the sub-patterns from which at least two nodes are built, linked to these nodes, parents first."""
    nodes: dict[int, _Node] = {}
    kept = []
    vertices = {vertex.number: vertex for vertex in plan.vertices}
    edges: dict[int, list[Edge]] = {}
    for edge in plan.edges:
        edges.setdefault(edge.parent, []).append(edge)
    for vertex in reversed(plan.vertices):
        if vertex.query is not None:
            continue
        node = nodes[vertex.number] = _Node(str(vertex.pattern))
        for edge in edges.get(vertex.number, ()):
            child = vertices[edge.child]
            if child.query is None:
                made = _through(nodes[child.number], edge.slots)
            else:
                made = _of_query(child.variables, edge.slots, leaves.get(child.query, ()))
            for one, slots in made:
                node.children.setdefault(id(one), (one, slots))
                if one.alternative is not None:
                    node.below.append((one, slots))
                else:
                    node.below += [(leaf, tuple(below[slot] for slot in slots)) for leaf, below in one.below]
        if len(node.children) > 1:
            kept.append(node)
    for node in kept:
        for child_node, slots in node.children.values():
            child_node.parents.append((node, slots))
    return kept[::-1]


def _through(node: _Node, slots: _Slots) -> Iterable[tuple[_Node, _Slots]]:
    """Returns the node itself if it is kept because several nodes are built from it, and else its child."""
    if len(node.children) > 1:
        return ((node, slots),)
    return ((child, tuple(below[slot] for slot in slots)) for child, below in node.children.values())


def _of_query(
    variables: Sequence[frozenset[str]], slots: _Slots, alternatives: Sequence[_Node]
) -> Iterable[tuple[_Node, _Slots]]:
    """Yields the alternatives of a query that have all slots of a parent; ``slots`` are the query's in the plan."""
    for node in alternatives:
        assert node.alternative is not None
        own = node.alternative.names
        found = [[number for number, names in enumerate(own) if names & variables[slot]] for slot in slots]
        if all(len(each) == 1 for each in found) and len({each[0] for each in found}) == len(slots):
            yield node, tuple(each[0] for each in found)


def _common(below: Sequence[tuple[Demands, _Slots]]) -> Demands:
    """Returns the demands that several vertices have in common on the slots that correspond to each other."""
    slots = below[0][1]
    moved = [_moved(demands, its) for demands, its in below]
    fits = (_either([one.slots[number] for one in moved]) for number in range(len(slots)))
    lengths = [one.length for one in moved]
    return Demands(
        tuple(fits),
        frozenset.intersection(*(one.before for one in moved)),
        frozenset.intersection(*(one.apart for one in moved)),
        frozenset.intersection(*(one.compared for one in moved)),
        frozenset.intersection(*(one.gaps for one in moved)),
        UNBOUNDED if UNBOUNDED in lengths else max(lengths),
    )


def _moved(demands: Demands, slots: _Slots) -> Demands:
    """Returns the demands that concern only ``slots``, renumbered by their positions in ``slots``."""
    number = {slot: place for place, slot in enumerate(slots)}
    pairs = ((number[a], number[b]) for a, b in demands.apart if a in number and b in number)
    return Demands(
        tuple(demands.slots[slot] for slot in slots),
        frozenset((number[a], number[b]) for a, b in demands.before if a in number and b in number),
        frozenset((min(pair), max(pair)) for pair in pairs),
        frozenset(
            _compared(one, number[one.slot], number[one.other])
            for one in demands.compared
            if one.slot in number and one.other in number
        ),
        frozenset(
            Gap(gap.fits, frozenset(number[a] for a in gap.after), frozenset(number[b] for b in gap.before))
            for gap in demands.gaps
            if gap.after and gap.before and (gap.after | gap.before) <= number.keys()
        ),
        demands.length,
    )


def _compared(one: Compared, slot: int, other: int) -> Compared:
    if slot < other:
        return attrs.evolve(one, slot=slot, other=other)
    return Compared(MIRRORED[one.op], other, one.other_column, slot, one.column)


def _either(slots: Sequence[tuple[Fit, ...]]) -> tuple[Fit, ...]:
    """Returns the fits of events that fit into any of some slots."""
    tests: dict[int, set[int] | None] = {}
    for fit in chain.from_iterable(slots):
        known = tests.setdefault(fit.kind, set())
        tests[fit.kind] = known | set(fit.tests) if known is not None and fit.tests else None
    if ANY_KIND in tests and tests[ANY_KIND] is None:
        return (Fit(ANY_KIND),)
    return tuple(Fit(kind, tuple(sorted(asked or ()))) for kind, asked in sorted(tests.items()))
