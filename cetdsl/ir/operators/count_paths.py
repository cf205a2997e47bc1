"""CountPaths: the paths of each key's graph, counted along its edges."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators.build_graph import OverGraph
from cetdsl.ir.operators.operator import Step


@attrs.frozen
class CountPaths(OverGraph):
    """Counts the paths of each group and window, or gives partial results if the specification says so."""

    stage = "count"
    only_batch = None
    aggregates = True

    def steps(self) -> tuple[Step, ...]:
        return (Step("kernel: count the paths of each graph", ("no trend is listed",)),)
