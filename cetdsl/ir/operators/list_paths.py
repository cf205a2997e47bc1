"""ListPaths: the trends that are the paths of each key's graph."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators.build_graph import ALGORITHMS, OverGraph
from cetdsl.ir.operators.operator import Step
from cetdsl.ir.operators.words import columns_with_trend, until


@attrs.frozen
class ListPaths(OverGraph):
    """A row per trend, under the user's names; one task lists ``limit`` at most."""

    limit: int | None = None
    stage = "graph"

    @property
    def gives(self) -> tuple[str, ...]:
        return columns_with_trend(self.source)

    def steps(self) -> tuple[Step, ...]:
        return (Step("kernel: list the paths", (ALGORITHMS[self.child.algorithm or "auto"],)),)

    def costs(self, limit: int | None = None) -> tuple[str, ...]:
        return (f"grows with the edges of the graph and with the number of its trends{until(limit)}",)
