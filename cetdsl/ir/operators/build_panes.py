"""BuildPanes: computes a small matrix of the numbers of trends per pane."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators.events_in_order import EventsInOrder
from cetdsl.ir.operators.operator import Carry, Requirement, Step
from cetdsl.ir.windowing import WHOLE


@attrs.frozen
class BuildPanes(Carry):
    """Gives a matrix per key and pane, by which the pane's events transform the accumulators at its start."""

    only_batch = None
    stage = "panes"

    @property
    def requires(self) -> tuple[Requirement | None, ...]:
        return (EventsInOrder(self.spec, self.values, in_panes=True),)

    def steps(self) -> tuple[Step, ...]:
        size = len(self.compiled.machine.variables) + 1
        each = "range of time" if self.spec.query.windowing.kind == WHOLE else "key and pane"
        return (Step(f"kernel: one matrix per {each}", (f"{size} x {size}, for each:", *self.carried)),)
