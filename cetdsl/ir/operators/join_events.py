"""JoinEvents: Spark's joins put trends together in the order of plans."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators import words
from cetdsl.ir.operators.detect_trends import DetectTrends
from cetdsl.ir.operators.operator import Requirement, Step


@attrs.frozen(kw_only=True)
class JoinEvents(DetectTrends):
    """Gives the rows of :class:`ListTrends`; no task needs to hold all events of a key."""

    only_batch = "Spark would have to join events of streams"  # type: ignore[assignment]  # as no kernel does
    stage = None  # type: ignore[assignment]  # no kernel runs, unlike for all other listings

    @property
    def requires(self) -> tuple[Requirement | None, ...]:
        return (None,)

    def steps(self) -> tuple[Step, ...]:
        (told,) = super().steps()
        project = Step("project", tuple(words.projected(self.source, self.compiled, ())))
        return (project, Step("join events in the order of a plan", told.details))
