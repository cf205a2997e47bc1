"""SurveyGraphs: what there is to know about the graphs, and about the work of listing their trends."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators.build_graph import OverGraph
from cetdsl.ir.operators.operator import Step
from cetdsl.ir.operators.words import ALONG_EDGES
from cetdsl.ir.stages import SURVEY


@attrs.frozen
class SurveyGraphs(OverGraph):
    """One row per group and window; ``measured`` lists all trends, to see what that takes."""

    measured: bool
    stage = "survey"

    @property
    def gives(self) -> tuple[str, ...]:
        window = ("window",) if self.source.windowing.kind == "sliding" else ()
        groups = (*self.source.groups, *self.source.asked_partitions)
        return (*groups, *window, *(name for name, _ in SURVEY))

    def steps(self) -> tuple[Step, ...]:
        return (Step("survey: what the graphs hold, and what listing their trends takes"),)

    def costs(self, limit: int | None = None) -> tuple[str, ...]:
        listing = "grows with the edges of the graph and with the number of its trends"
        return (listing if self.measured else ALONG_EDGES,)
