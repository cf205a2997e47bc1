"""TopPaths: finds the heaviest paths and their weights, and lists no others."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators import words
from cetdsl.ir.operators.build_graph import OverGraph
from cetdsl.ir.operators.operator import Step
from cetdsl.pattern.expressions import Aggregate


@attrs.frozen
class TopPaths(OverGraph):
    """Finds the ``size`` heaviest paths of the graph; ``name`` is the column of the weight."""

    size: int
    by: Aggregate
    name: str
    stage = "top"

    @property
    def gives(self) -> tuple[str, ...]:
        return (*self.source.shown_keys, *self.source.window, self.name, "trend")

    def steps(self) -> tuple[Step, ...]:
        by = words.weight(self.by, self.name)
        details = ("best first: what is to come is known exactly", "no other path is listed")
        return Step(f"kernel: the {self.size} paths of largest {by}", details), Step(words.heaviest(self.size, by))
