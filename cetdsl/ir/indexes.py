"""Chooses the index that answers the predicates of an edge.

Each edge of the machine is answered by the cheapest *index* that its comparisons allow:

========  ===========================  ========================================
index     comparisons                  cost per event
========  ===========================  ========================================
TOTAL     none                         constant
HASH      equalities                   constant
TREE      one order or one ``!=``,     logarithmic (Fenwick tree per hash key)
          any equalities
SCAN      anything else                linear in the events of the window
========  ===========================  ========================================
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from cetdsl.ir.compiled import Compiled
from cetdsl.ir.links import columns_of_policy, comparisons_of_policy
from cetdsl.ir.machine import Comparison, Edge, Machine, Negation
from cetdsl.ir.transitions import ORDERS, transitions_of

TOTAL, HASH, TREE, SCAN = 0, 1, 2, 3
INDEXES = ("TOTAL", "HASH", "TREE", "SCAN")


def index_of(edge: Edge) -> int:
    """Returns the cheapest index that answers an edge's predicates."""
    orders = sum(c.op in ORDERS for c in edge.comparisons)
    if edge.listed or orders > 1 or any(c.op == "!=" for c in edge.comparisons):
        return SCAN
    if orders:
        return TREE
    return HASH if edge.comparisons else TOTAL


def lower_guards(machine: Machine, columns: int, negations: Sequence[Negation] = ()) -> Machine:
    """Turns the guards of edges into comparisons: the earlier event must not precede the latest start of a match.

    Code column ``columns`` has the number of each event's instant. Behind it are the columns of the matching policy,
    which becomes comparisons as well (:mod:`cetdsl.ir.links`). Next is a column for each negation: the latest start of
    a match of it that ends before the event. If each earlier event is itself a match (``met`` of the edge), the latest
    match starts no sooner than this event, so the two must be equal, and a hash table answers the guard. For
    ``negations`` with a sight from the event before their gap, a further column replaces the instant of this event.
    """
    edges, starts = [], columns + 1 + columns_of_policy(machine)
    looking = [number for number, negation in enumerate(negations) if negation.looks_ahead]
    own = {number: starts + len(negations) + place for place, number in enumerate(looking)}
    policy = comparisons_of_policy(machine, columns)
    for edge in machine.edges:
        op = "=" if edge.met else "<="
        guards = [Comparison(op, starts + guard, own.get(guard, columns)) for guard in edge.guards]
        linked = [policy[edge.source]] if edge.source in policy else []
        edges.append(Edge(edge.source, edge.target, (*edge.comparisons, *linked, *guards), edge.listed))
    return Machine(machine.variables, machine.initial, machine.final, tuple(edges))


def with_orders(machine: Machine) -> Machine:
    """Returns the machine with two edges for each whose only predicate that is no equality is a ``!=``.

    Of two unequal values one is smaller. So a pair of events satisfies at most one of the two edges, and sums over all
    edges stay the same. A tree answers each of the two, while the ``!=`` would require a scan of the events.

    Examples
    --------
    >>> machine = Machine((0,), (), (), (Edge(0, 0, (Comparison("=", 0, 0), Comparison("!=", 1, 1))),))
    >>> [[c.op for c in edge.comparisons] for edge in with_orders(machine).edges]
    [['=', '<'], ['=', '>']]
    """
    return attrs.evolve(machine, edges=tuple(one for edge in machine.edges for one in _ordered(edge)))


def _ordered(edge: Edge) -> tuple[Edge, ...]:
    apart = [number for number, comparison in enumerate(edge.comparisons) if comparison.op != "="]
    if edge.listed or edge.guards or [edge.comparisons[number].op for number in apart] != ["!="]:
        return (edge,)

    def by(op: str) -> Edge:
        comparisons = list(edge.comparisons)
        comparisons[apart[0]] = attrs.evolve(comparisons[apart[0]], op=op)
        return attrs.evolve(edge, comparisons=tuple(comparisons))

    return by("<"), by(">")


def guards_beside(edge: Edge, columns: int) -> tuple[int, ...]:
    """Returns the guards of an edge that no index answers, so that they are tested for each two events.

    An index answers one order. If no predicate of the edge needs it, the first guard does, as a range of time.

    Examples
    --------
    >>> rising = Comparison(">", 0, 0)
    >>> guards_beside(Edge(0, 1, (rising,), guards=(0,)), 1), guards_beside(Edge(0, 1, guards=(0, 1)), 1)
    ((0,), (1,))
    """
    alone = Machine((0,) * (max(edge.source, edge.target) + 1), (), (), (edge,))
    (lowered,) = transitions_of(lower_guards(alone, columns))
    comparisons = lowered.edge.comparisons[len(edge.comparisons) :]
    return tuple(guard for guard, one in zip(edge.guards, comparisons, strict=True) if one in lowered.rest)


def index_of_edge(compiled: Compiled, edge: Edge) -> int:
    """Returns the index that answers an edge of a query once its guards are comparisons."""
    alone = attrs.evolve(compiled.machine, edges=(edge,))
    return index_of(with_orders(lower_guards(alone, len(compiled.codes))).edges[0])
