"""How the predicates of each step of a machine are answered: by an index of values, or by a test of two events."""

from __future__ import annotations

import attrs

from cetdsl.ir.machine import Comparison, Edge, Machine

ORDERS = ("<", "<=", ">", ">=")


@attrs.frozen
class Step:
    """An edge of a machine, its comparisons told apart.

    A hash answers all ``equalities``, and sorted values the first ``order``; the ``rest`` is to be tested one by one.
    """

    edge: Edge
    equalities: tuple[Comparison, ...]
    order: Comparison | None
    rest: tuple[Comparison, ...]

    @property
    def index(self) -> tuple[Comparison, ...]:
        """What an index answers."""
        return self.equalities if self.order is None else (*self.equalities, self.order)

    @property
    def is_separable(self) -> bool:
        """Whether an index answers all there is."""
        return not (self.rest or self.edge.listed or self.edge.guards)


def steps_of(machine: Machine) -> tuple[Step, ...]:
    """The steps of a machine by source and target.

    Examples
    --------
    >>> edge = Edge(0, 0, (Comparison("<", 0, 0), Comparison("=", 1, 2), Comparison("!=", 0, 1)))
    >>> (step,) = steps_of(Machine((0,), (), (), (edge,)))
    >>> [comparison.op for comparison in step.index], step.is_separable
    (['=', '<'], False)
    """
    return tuple(map(_step, sorted(machine.edges, key=lambda edge: (edge.source, edge.target))))


def _step(edge: Edge) -> Step:
    equalities = tuple(c for c in edge.comparisons if c.op == "=")
    order = next((c for c in edge.comparisons if c.op in ORDERS), None)
    rest = tuple(c for c in edge.comparisons if c not in equalities and c != order)
    return Step(edge, equalities, order, rest)
