"""SampleDetection: takes statistics of the events, and puts nothing together."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators.measure_detection import MeasureDetection
from cetdsl.ir.operators.operator import Step


@attrs.frozen
class SampleDetection(MeasureDetection):
    """Gives the rows of :class:`MeasureDetection`, one per branch and chunk of events, with statistics alone."""

    stage = "sample detection"

    def steps(self) -> tuple[Step, ...]:
        return (Step("kernel: count events, and try pairs of them"),)

    def costs(self, limit: int | None = None) -> tuple[str, ...]:
        return ("grows with the number of events",)
