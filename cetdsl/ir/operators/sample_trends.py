"""SampleTrends: draws trends without replacement from all of an answer."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators.operator import Step, Unary


@attrs.frozen
class SampleTrends(Unary):
    """Draws ``size`` trends."""

    size: int
    seed: int

    def steps(self) -> tuple[Step, ...]:
        return Step("a random key per trend"), Step(f"the {self.size} smallest keys")
