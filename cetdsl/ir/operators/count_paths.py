"""CountPaths: the paths of each key's graph, counted along its edges."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators.build_graph import OverGraph
from cetdsl.ir.operators.operator import Act


@attrs.frozen
class CountPaths(OverGraph):
    """The number of each group and window, or partial results if the specification says so."""

    stage = "count"
    aggregates = True

    def acts(self) -> tuple[Act, ...]:
        return (Act("kernel: count the paths of each graph", ("no trend is listed",)),)
