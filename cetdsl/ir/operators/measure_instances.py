"""MeasureInstances: how many instances of each sub-pattern are built, and shared."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators.detect_together import DetectTogether
from cetdsl.ir.operators.operator import Step
from cetdsl.ir.slots import WORK


@attrs.frozen
class MeasureInstances(DetectTogether):
    """Finds the matches of :class:`DetectTogether`, and reports the work instead of them."""

    stage = "measure instances"
    only_batch = "work is told when all of it is done"  # type: ignore[assignment]  # unlike what it measures

    @property
    def gives(self) -> tuple[str, ...]:
        return tuple(name for name, _ in WORK)

    def steps(self) -> tuple[Step, ...]:
        [step] = super().steps()
        return (step, Step("tell of each vertex how many instances were built"))
