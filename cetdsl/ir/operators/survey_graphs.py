"""SurveyGraphs: surveys the graphs, and the work of listing their trends."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators import words
from cetdsl.ir.operators.build_graph import OverGraph
from cetdsl.ir.operators.operator import Step
from cetdsl.ir.stages import SURVEY


@attrs.frozen
class SurveyGraphs(OverGraph):
    """Gives one row per group and window; if ``measured``, all trends are listed to measure the work."""

    measured: bool
    stage = "survey"

    @property
    def gives(self) -> tuple[str, ...]:
        return (*self.source.shown_keys, *self.source.window, *(name for name, _ in SURVEY))

    def steps(self) -> tuple[Step, ...]:
        return (Step("survey: what the graphs hold, and what listing their trends takes"),)

    def costs(self, limit: int | None = None) -> tuple[str, ...]:
        return (words.along_paths() if self.measured else words.ALONG_EDGES,)
