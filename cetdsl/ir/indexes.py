"""Chooses the index that answers the predicates of an edge.

Each edge of the machine is answered by the cheapest *index* that its comparisons allow:

========  ===========================  ========================================
index     comparisons                  cost per event
========  ===========================  ========================================
TOTAL     none                         constant
HASH      equalities                   constant
TREE      one order, any equalities    logarithmic (Fenwick tree per hash key)
SCAN      anything else                linear in the events of the window
========  ===========================  ========================================
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from cetdsl.ir.compiled import Compiled
from cetdsl.ir.links import columns_of_policy, comparisons_of_policy
from cetdsl.ir.machine import Comparison, Edge, Machine, Negation
from cetdsl.ir.transitions import ORDERS

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

    Code column ``columns`` numbers the instants. Behind it are the columns of the matching policy, which becomes
    comparisons as well (:mod:`cetdsl.ir.links`), and behind these the one of each negation ``g``: the latest start of
    a match of it that ends before the event. Where the earlier event is such a match, the latest one starts no sooner:
    then the two are equal, which a hash table answers whatever else is asked. Of ``negations`` that look ahead as far
    as a sight, columns of their own stand in place of the instants of earlier events, behind all others.
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


def index_of_edge(compiled: Compiled, edge: Edge) -> int:
    """Returns the index that answers an edge of a query once its guards are comparisons."""
    alone = attrs.evolve(compiled.machine, edges=(edge,))
    return index_of(lower_guards(alone, len(compiled.codes)).edges[0])
