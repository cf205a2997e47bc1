"""TopTrends: keeps the heaviest of all trends that are listed, with their weights."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators import words
from cetdsl.ir.operators.operator import Step, Unary
from cetdsl.pattern.expressions import Aggregate


@attrs.frozen
class TopTrends(Unary):
    """Keeps ``size`` of all trends, whose events show these columns; ``name`` is the column of the weight."""

    size: int
    by: Aggregate
    name: str
    columns: tuple[str, ...]

    @property
    def gives(self) -> tuple[str, ...]:
        return (*self.source.shown_keys, *self.source.window, self.name, "trend")

    def steps(self) -> tuple[Step, ...]:
        by = words.weight(self.by, self.name)
        return Step(f"work out {by}"), Step(words.heaviest(self.size, by))
