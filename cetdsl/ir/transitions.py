"""The transitions of a machine, whose predicates are answered by an index of values or by tests of two events."""

from __future__ import annotations

import attrs

from cetdsl.ir.machine import Comparison, Edge, Machine

ORDERS = ("<", "<=", ">", ">=")
#: The orders that bound the later event's value from below.
RISING = (">", ">=")


@attrs.frozen
class Transition:
    """An edge of a machine, with its comparisons classified by how they are answered.

    A hash table answers all ``equalities``, and sorted values answer the first ``order``; the ``rest`` is tested for
    each pair of events.
    """

    edge: Edge
    equalities: tuple[Comparison, ...]
    order: Comparison | None
    rest: tuple[Comparison, ...]

    @property
    def index(self) -> tuple[Comparison, ...]:
        """The comparisons that an index answers."""
        return self.equalities if self.order is None else (*self.equalities, self.order)

    @property
    def orders(self) -> tuple[Comparison, ...]:
        """The orders that bound the same value of the later event, ``order`` first: a range of that value."""
        first = self.order
        return () if first is None else (first, *(c for c in self.rest if c.op in ORDERS and c.later == first.later))

    @property
    def is_separable(self) -> bool:
        """Whether an index answers all predicates."""
        return not (self.rest or self.edge.listed or self.edge.guards)


def transitions_of(machine: Machine) -> tuple[Transition, ...]:
    """Returns the transitions of a machine, ordered by source and target.

    Examples
    --------
    >>> edge = Edge(0, 0, (Comparison("<", 0, 0), Comparison("=", 1, 2), Comparison("!=", 0, 1)))
    >>> (transition,) = transitions_of(Machine((0,), (), (), (edge,)))
    >>> [comparison.op for comparison in transition.index], transition.is_separable
    (['=', '<'], False)
    """
    return tuple(map(_transition, sorted(machine.edges, key=lambda edge: (edge.source, edge.target))))


def _transition(edge: Edge) -> Transition:
    equalities = tuple(c for c in edge.comparisons if c.op == "=")
    order = next((c for c in edge.comparisons if c.op in ORDERS), None)
    rest = tuple(c for c in edge.comparisons if c not in equalities and c != order)
    return Transition(edge, equalities, order, rest)
