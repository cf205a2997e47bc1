"""SamplePaths: draws paths without replacement, and lists no others."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators.build_graph import OverGraph
from cetdsl.ir.operators.operator import Step


@attrs.frozen
class SamplePaths(OverGraph):
    """Draws ``size`` paths of the graph."""

    size: int
    seed: int
    stage = "sample"

    def steps(self) -> tuple[Step, ...]:
        details = (f"the {self.size} smallest of random keys, one per path", "no other path is listed")
        return Step("kernel: draw paths", details), Step(f"the {self.size} smallest keys")
