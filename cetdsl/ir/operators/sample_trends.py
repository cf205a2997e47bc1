"""SampleTrends: trends drawn without replacement from all of an answer."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators.operator import Act, Unary


@attrs.frozen
class SampleTrends(Unary):
    """Draws ``size`` trends."""

    size: int
    seed: int

    def acts(self) -> tuple[Act, ...]:
        return Act("a random key per trend"), Act(f"the {self.size} smallest keys")
