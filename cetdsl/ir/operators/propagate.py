"""Propagate: carries numbers along the automaton, event by event, with an index per edge."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from cetdsl.ir.compiled import Compiled
from cetdsl.ir.halves import LONG_KEY, fits_in_halves
from cetdsl.ir.indexes import index_of_edge
from cetdsl.ir.operators import words
from cetdsl.ir.operators.events_in_order import EventsInOrder
from cetdsl.ir.operators.operator import Carry, Operator, Requirement, Step

_GROWTH = ("linear", "linear", "n log n", "quadratic (pairwise scan)")


@attrs.frozen
class Propagate(Carry):
    """Gives the answer of each group and window, or partial results if ``spec`` says so."""

    stage = "aggregate"
    only_batch = None
    indexed = True
    aggregates = True

    @property
    def requires(self) -> tuple[Requirement | None, ...]:
        return (EventsInOrder(self.spec, self.values),)

    def steps(self) -> tuple[Step, ...]:
        label = "kernel: carry along the automaton" + (f" of the {self.side}" if self.side else "")
        return (Step(label, (*words.of_parts(self.compiled), *self.carried, *self._halved())),)

    def _halved(self) -> tuple[str, ...]:
        """Describes which events two threads share."""
        if not fits_in_halves(self.spec):
            return ()
        unit = words.unit_of(self.source)
        return (f"from {LONG_KEY:,} events of {unit} on by two threads: one half forwards, the other backwards",)

    def costs(self, limit: int | None = None) -> tuple[str, ...]:
        return propagation_costs([self])


def propagation_costs(sides: Sequence[Operator]) -> tuple[str, ...]:
    """Describes how the time of propagation along the automata of some sides grows."""
    unit = words.unit_of(sides[0].source)
    worst = max((_worst_index(side.compiled) for side in sides), default=0)
    costs = [f"{_GROWTH[worst]} in the events of {unit}"]
    for side in sides:
        query = side.spec.query
        each = ["event that can begin a trend"] if unit == "a span" else []
        if not (each and query.pivot_begins):
            each += [f"event bound to {side.compiled.name_of(pivot)}" for pivot in query.pivots]
        costs += [f"one pass per {' and '.join(each)}"] if each else []
    for side in sides:
        costs += [words.cost_of_list(side.source, side.compiled, column) for column in side.compiled.lists]
    return tuple(dict.fromkeys(costs))


def _worst_index(compiled: Compiled) -> int:
    machines = [compiled.machine, *(negation.machine for negation in compiled.negations)]
    return max((index_of_edge(compiled, edge) for machine in machines for edge in machine.edges), default=0)
