"""SurveyGraphs: what there is to know about the graphs, and about the work of listing their trends."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators import words
from cetdsl.ir.operators.build_graph import OverGraph
from cetdsl.ir.operators.operator import Act
from cetdsl.ir.stages import SURVEY


@attrs.frozen
class SurveyGraphs(OverGraph):
    """One row per group and window; ``measured`` lists all trends, to see what that takes."""

    measured: bool
    stage = "survey"

    @property
    def gives(self) -> tuple[str, ...]:
        return (*self.source.shown_keys, *self.source.window, *(name for name, _ in SURVEY))

    def acts(self) -> tuple[Act, ...]:
        return (Act("survey: what the graphs hold, and what listing their trends takes"),)

    def costs(self, limit: int | None = None) -> tuple[str, ...]:
        return (words.along_paths() if self.measured else words.ALONG_EDGES,)
