"""TopPaths and TopTrends: the heaviest trends, with what each weighs."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators.build_graph import OverGraph
from cetdsl.ir.operators.operator import Step, Unary
from cetdsl.ir.operators.words import columns_with_trend
from cetdsl.pattern.expressions import Aggregate, Length
from cetdsl.pattern.text import quote


def _weight(by: Aggregate, name: str) -> str:
    return name if isinstance(by.argument, Length) else quote(by)


@attrs.frozen
class TopPaths(OverGraph):
    """The heaviest paths of the graph, none of the others being listed; ``name`` is the column of the weight."""

    size: int
    by: Aggregate
    name: str
    stage = "top"

    @property
    def gives(self) -> tuple[str, ...]:
        return columns_with_trend(self.source, self.name)

    def steps(self) -> tuple[Step, ...]:
        by = _weight(self.by, self.name)
        details = ("best first: what is to come is known exactly", "no other path is listed")
        return Step(f"kernel: the {self.size} paths of largest {by}", details), Step(f"the {self.size} of largest {by}")


@attrs.frozen
class TopTrends(Unary):
    """The heaviest of all trends, whose events show these columns."""

    size: int
    by: Aggregate
    name: str
    columns: tuple[str, ...]

    @property
    def gives(self) -> tuple[str, ...]:
        return columns_with_trend(self.source, self.name)

    def steps(self) -> tuple[Step, ...]:
        by = _weight(self.by, self.name)
        return Step(f"work out {by}"), Step(f"the {self.size} of largest {by}")
