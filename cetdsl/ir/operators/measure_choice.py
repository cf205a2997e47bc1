"""MeasureChoice: puts trends together in orders that it chooses from samples, and reports the orders and their work."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators.measure_detection import MeasureDetection
from cetdsl.ir.operators.operator import Step


@attrs.frozen
class MeasureChoice(MeasureDetection):
    """Gives the rows of :class:`MeasureDetection`, one per branch and chunk of events, without statistics."""

    stage = "measure choice"

    def steps(self) -> tuple[Step, ...]:
        return (Step("kernel: put trends together in orders that it chooses, and count partial matches"),)
