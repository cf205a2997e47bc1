"""DropContained: complete trends by their definition, those that no other one contains."""

from __future__ import annotations

import attrs

from cetdsl.ir.layout import IDENTITY, KEY, NAMES, NUMBERS, TREND, WINDOW, RowLayout, of_trends
from cetdsl.ir.operators import words
from cetdsl.ir.operators.operator import Requirement, Step, Unary
from cetdsl.ir.operators.rows_in_order import RowsInOrder


@attrs.frozen
class DropContained(Unary):
    """Keeps those trends of each key and window, longest first, that no kept one contains.

    ``memory`` bounds the bytes that the trends kept of one key and window may take.
    """

    only_batch = "Spark would have to sort all trends of a window by their lengths"

    completeness: str
    memory: int
    stage = "containment"

    @property
    def layout(self) -> RowLayout:
        """The rows of trends that the kernel reads."""
        source = self.source
        return of_trends(len(source.keys), source.time, source.time_type, bool(source.window))

    @property
    def requires(self) -> tuple[Requirement | None, ...]:
        found = {f"{KEY}{n}": f"g{n}" for n in range(len(self.source.keys))}
        found |= {WINDOW: "window", TREND: "trend"}
        found |= {NUMBERS: f"transform(trend, b -> b.event.{IDENTITY})", NAMES: "transform(trend, b -> b.variable)"}
        select = tuple(f"{found[name]} AS {name}" for name in self.layout.columns)
        keys = words.keys_and_window(self.source, self.source.keys)
        said = Step(words.shuffle(keys)), Step("sort each task's trends by their length")
        return (RowsInOrder(self.layout.partition, (f"-size({NUMBERS})",), select, said),)

    def steps(self) -> tuple[Step, ...]:
        return (Step("kernel: drop the trends that a kept one contains", (words.COMPLETENESS[self.completeness],)),)

    def costs(self, limit: int | None = None) -> tuple[str, ...]:
        return tuple(f"{cost}, complete or not" for cost in self.child.costs())

    def facts(self) -> tuple[tuple[str, str], ...]:
        window = " and window" if self.source.window else ""
        memory = f"{self.memory} bytes for the trends kept of one key{window}"
        return *words.trends_fact(self.completeness), ("memory", memory)
