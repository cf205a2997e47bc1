"""DropContained: complete trends by their definition, those that no other one contains."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators import words
from cetdsl.ir.operators.operator import Requirement, Step, Unary
from cetdsl.ir.operators.rows_in_order import RowsInOrder


@attrs.frozen
class DropContained(Unary):
    """Of the trends of each key and window, longest first, those that no kept one contains.

    ``memory`` bounds the bytes that the trends kept of one key and window may take.
    """

    completeness: str
    memory: int
    stage = "containment"

    @property
    def requires(self) -> tuple[Requirement | None, ...]:
        source = self.source
        by = (*(f"g{n}" for n in range(len(source.keys))), *source.window)
        select = (*by, "transform(trend, b -> b.event.id) AS i", "transform(trend, b -> b.variable) AS v", "trend")
        keys = words.keys_and_window(source, source.keys)
        said = Step(words.shuffle(keys)), Step("sort each task's trends by their length")
        return (RowsInOrder(by, ("-size(i)",), select, said),)

    def steps(self) -> tuple[Step, ...]:
        return (Step("kernel: drop the trends that a kept one contains", (words.COMPLETENESS[self.completeness],)),)

    def costs(self, limit: int | None = None) -> tuple[str, ...]:
        return ("grows with the number of all trends, complete or not",)

    def facts(self) -> tuple[tuple[str, str], ...]:
        window = " and window" if self.source.window else ""
        memory = f"{self.memory} bytes for the trends kept of one key{window}"
        return *words.trends_fact(self.completeness), ("memory", memory)
