"""SampleJoined: paths drawn by Spark's joins, for a key beyond one task's memory."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators.count_joined import CountJoined
from cetdsl.ir.operators.operator import Step


@attrs.frozen
class SampleJoined(CountJoined):
    """Draws ``size`` paths, which show these columns of events."""

    columns: tuple[str, ...]
    size: int
    seed: int
    aggregates = False

    def steps(self) -> tuple[Step, ...]:
        drawn = f"{self.size} different numbers of paths, and each path found by its number, round by round"
        return (*super().steps(), Step("draw", (drawn,)))
