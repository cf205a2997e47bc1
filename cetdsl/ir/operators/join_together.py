"""JoinTogether: Spark's joins put the matches of many queries together along the sub-patterns that they share."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators.detect_together import DetectTogether
from cetdsl.ir.operators.operator import Requirement, Step


@attrs.frozen
class JoinTogether(DetectTogether):
    """Gives the rows of :class:`DetectTogether`; no task needs to hold all events of a key.

    No query is ``walked``.
    """

    only_batch = "Spark would have to join events of streams"  # type: ignore[assignment]  # as no kernel does
    stage = None  # type: ignore[assignment]  # no kernel runs
    limits_all = True

    @property
    def requires(self) -> tuple[Requirement | None, ...]:
        return (None,)

    def steps(self) -> tuple[Step, ...]:
        events = Step("project", ("the events that fit into some query, kept as a checkpoint",))
        details = self._details("joined once, and kept as a checkpoint for what is made of them")
        return (events, Step(f"Spark joins the events of {self._queries_in_words}", details))
