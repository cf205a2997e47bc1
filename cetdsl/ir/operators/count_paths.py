"""CountPaths: the paths of each key's graph, counted along its edges."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators.build_graph import OverGraph
from cetdsl.ir.operators.operator import Step
from cetdsl.ir.operators.words import columns_of, number_fact


@attrs.frozen
class CountPaths(OverGraph):
    """The number of each group and window, or partial results if the specification says so."""

    stage = "count"

    @property
    def gives(self) -> tuple[str, ...]:
        return columns_of(self.source, *(output.name for output in self.spec.answer.outputs))

    def steps(self) -> tuple[Step, ...]:
        return (Step("kernel: count the paths of each graph", ("no trend is listed",)),)

    def facts(self) -> tuple[tuple[str, str], ...]:
        return (number_fact(self.spec.answer.number),)
