"""SamplePaths and SampleTrends: so many of the trends, drawn without replacement."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators.build_graph import OverGraph
from cetdsl.ir.operators.operator import Step, Unary
from cetdsl.ir.operators.words import columns_with_trend


@attrs.frozen
class SamplePaths(OverGraph):
    """Draws paths of the graph, none of the others being listed."""

    size: int
    seed: int
    stage = "sample"

    @property
    def gives(self) -> tuple[str, ...]:
        return columns_with_trend(self.source)

    def steps(self) -> tuple[Step, ...]:
        details = (f"the {self.size} smallest of random keys, one per path", "no other path is listed")
        return Step("kernel: draw paths", details), Step(f"the {self.size} smallest keys")


@attrs.frozen
class SampleTrends(Unary):
    """Draws from all trends of an answer."""

    size: int
    seed: int

    def steps(self) -> tuple[Step, ...]:
        return Step("a random key per trend"), Step(f"the {self.size} smallest keys")
