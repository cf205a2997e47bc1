"""CountJoined: paths counted by Spark's joins, for a key beyond one task's memory."""

from __future__ import annotations

import attrs

from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.operators import words
from cetdsl.ir.operators.operator import Step, Unary


@attrs.frozen
class CountJoined(Unary):
    """Counts the paths of each group and window, under the user's names."""

    spec: KernelSpec
    walks = True
    aggregates = True

    def steps(self) -> tuple[Step, ...]:
        return (
            Step("project", tuple(words.projected(self.source, self.compiled, ()))),
            Step("join events to the graph", words.rounds_before(self.spec.query)),
            Step("join counts with events, round by round", ("one number per event; no trend is listed",)),
        )

    def costs(self, limit: int | None = None) -> tuple[str, ...]:
        return ("grows with the edges of the graph, and with the events of the longest trend",)
