"""SamplePaths: paths drawn without replacement, none of the others being listed."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators.build_graph import OverGraph
from cetdsl.ir.operators.operator import Act


@attrs.frozen
class SamplePaths(OverGraph):
    """Draws ``size`` paths of the graph."""

    size: int
    seed: int
    stage = "sample"

    def acts(self) -> tuple[Act, ...]:
        details = (f"the {self.size} smallest of random keys, one per path", "no other path is listed")
        return Act("kernel: draw paths", details), Act(f"the {self.size} smallest keys")
