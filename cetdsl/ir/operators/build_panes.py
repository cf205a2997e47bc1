"""BuildPanes: small matrices of what each pane does."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators.events_in_order import EventsInOrder
from cetdsl.ir.operators.operator import Act, Carry, Requirement


@attrs.frozen
class BuildPanes(Carry):
    """A matrix per key and pane: what its events make of the numbers at its start."""

    stage = "panes"

    @property
    def requires(self) -> tuple[Requirement | None, ...]:
        return (EventsInOrder(self.spec, self.values, in_panes=True),)

    def acts(self) -> tuple[Act, ...]:
        size = len(self.compiled.machine.variables) + 1
        return (Act("kernel: one matrix per key and pane", (f"{size} x {size}, for each:", *self.carried)),)
