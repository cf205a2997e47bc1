"""MultiplyPanes: the matrices of panes, multiplied up to windows."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators import words
from cetdsl.ir.operators.operator import Requirement, Step, Unary
from cetdsl.ir.operators.panes_in_order import PanesInOrder
from cetdsl.ir.windowing import TIME_RANGES, WHOLE


@attrs.frozen
class MultiplyPanes(Unary):
    """Gives the answer of each group and window, or partial results if the specification says so."""

    stage = "windows"
    aggregates = True
    only_batch = None

    @property
    def requires(self) -> tuple[Requirement | None, ...]:
        return (PanesInOrder(),)

    def steps(self) -> tuple[Step, ...]:
        if self.source.windowing.kind == WHOLE:
            return (Step("kernel: multiply the matrices in order of time"),)
        return (Step("kernel: multiply the panes of each window", ("a suffix of one block, a prefix of the next",)),)

    def costs(self, limit: int | None = None) -> tuple[str, ...]:
        if self.source.windowing.kind == WHOLE:
            return ("linear in the events, besides sorting them, and by all cores",)
        return (
            "linear in the events, besides sorting them",
            "two products of matrices per pane, one of vectors per window, however many windows overlap",
        )

    def facts(self) -> tuple[tuple[str, str], ...]:
        source, windowing = self.source, self.source.windowing
        if windowing.kind == WHOLE:
            text = f"{TIME_RANGES:,} ranges at most, equally long between two times of a sample that is taken first"
            return *super().facts(), ("panes", text)
        text = words.lengths_of_panes(source)
        if source.is_stream:
            text += "; an event counts until the watermark passes the end of its pane"
        return *super().facts(), ("panes", text)
