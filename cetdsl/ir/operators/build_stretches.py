"""BuildStretches: computes a small matrix of the numbers of trends per pane, of what each task reads of a key."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators.events_in_order import EventsInOrder
from cetdsl.ir.operators.operator import Carry, Requirement, Step
from cetdsl.ir.windowing import WHOLE


@attrs.frozen
class BuildStretches(Carry):
    """Gives a matrix for each key, pane and stretch, made in the task that reads the events.

    A stretch is a run of events of a key that one task reads, one after the other, from one part of a file. The times
    of its first and its last event show whether another stretch has events between them.
    """

    stage = "stretches"

    @property
    def requires(self) -> tuple[Requirement | None, ...]:
        return (EventsInOrder(self.spec, self.values, in_panes=True, where_read=True),)

    def steps(self) -> tuple[Step, ...]:
        size = len(self.compiled.machine.variables) + 1
        of = [*(["key"] if self.source.keys else []), *(["pane"] if self.spec.query.windowing.kind != WHOLE else [])]
        each = f"stretch of a {' and '.join(of)}" if of else "stretch"
        label = f"kernel: one matrix per {each}, before anything is sent"
        return (Step(label, (f"{size} x {size}, for each:", *self.carried)),)
