"""MultiplyStretches: the matrices of stretches, multiplied up to windows where no two overlap in time."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators.operator import Requirement, Step, Unary
from cetdsl.ir.operators.panes_in_order import PanesInOrder
from cetdsl.ir.windowing import WHOLE


@attrs.frozen
class MultiplyStretches(Unary):
    """Gives the answer of each key and window, or partial results if the specification says so.

    Each row also has all keys. For a key whose stretches overlap in time, a row says so in place of an answer.
    """

    stage = "stretched windows"
    aggregates = True

    @property
    def requires(self) -> tuple[Requirement | None, ...]:
        return (PanesInOrder(in_stretches=True),)

    def steps(self) -> tuple[Step, ...]:
        of_each = " of each key" if self.source.keys else ""
        if self.source.windowing.kind != WHOLE:
            of_each = " of each window"
        return (Step(f"kernel: multiply the stretches{of_each} in order of time"),)

    def costs(self, limit: int | None = None) -> tuple[str, ...]:
        return ("linear in the events, besides sorting them where they are read",)
