"""MeasureDetection: puts trends together, and reports the plans and their work instead of the trends."""

from __future__ import annotations

import attrs

from cetdsl.ir.branches import BranchPlan
from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.operators.events_in_order import EventsInOrder
from cetdsl.ir.operators.operator import Requirement, Step, Unary
from cetdsl.ir.stages import DETECTION


@attrs.frozen
class MeasureDetection(Unary):
    """Gives a row per key, branch and slice of the key's events; ``plans`` are those of the branches."""

    spec: KernelSpec
    plans: tuple[BranchPlan, ...]
    stage = "measure detection"

    @property
    def requires(self) -> tuple[Requirement | None, ...]:
        return (EventsInOrder(self.spec),)

    @property
    def gives(self) -> tuple[str, ...]:
        return (*self.source.shown_keys, *(name for name, _ in DETECTION))

    def steps(self) -> tuple[Step, ...]:
        return (Step("kernel: put trends together, and count partial matches"),)

    def costs(self, limit: int | None = None) -> tuple[str, ...]:
        return ("grows with the number of partial matches",)
