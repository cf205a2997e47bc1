"""ChooseTrends: the kernel puts trends together in orders that it chooses from samples."""

from __future__ import annotations

import attrs

from cetdsl.ir.branches import BranchPlan
from cetdsl.ir.operators.detect_trends import DetectTrends
from cetdsl.ir.operators.operator import Step


@attrs.frozen(kw_only=True)
class ChooseTrends(DetectTrends):
    """Gives the rows of :class:`ListTrends`; ``plans`` say how the order of each branch is chosen."""

    stage = "choose"

    @property
    def learning(self) -> tuple[BranchPlan, ...]:
        return ()  # each chunk is sampled before its trends are put together

    def steps(self) -> tuple[Step, ...]:
        stops = (f"stops after {self.limit}",) if self.limit is not None else ()
        lines: tuple[str, ...] = ("of each chunk of events, in the greedy order by a sample of it",)
        if all(len(one.branch.sequences) == 1 for one in self.plans):
            where = "where that has far more partial matches than events and trends"
            lines += (f"or, {where}, only where a trend can be completed",)
        return (Step("kernel: put trends together", (*lines, *stops)),)

    def facts(self) -> tuple[tuple[str, str], ...]:
        return ()
