"""Sweep: counts all trends of a window in one sweep over the events that its predicates compare with."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators import words
from cetdsl.ir.operators.events_in_order import EventsInOrder
from cetdsl.ir.operators.operator import Carry, Requirement, Step


@attrs.frozen
class Sweep(Carry):
    """Gives the answer of each group and window, or partial results if ``spec`` says so."""

    stage = "sweep"
    only_batch = None
    aggregates = True

    @property
    def requires(self) -> tuple[Requirement | None, ...]:
        return (EventsInOrder(self.spec, self.values),)

    def steps(self) -> tuple[Step, ...]:
        name = self.compiled.name_of(self.spec.query.pivot)
        said = f"sweep the events bound to {name} by the value compared; a tree over time multiplies the automaton's"
        told = (f"{said} matrices of the events let in", *words.of_parts(self.compiled))
        return (Step("kernel: sweep", (*told, *self.carried)),)

    def costs(self, limit: int | None = None) -> tuple[str, ...]:
        return (f"n log n in the events of {words.unit_of(self.source)}",)
