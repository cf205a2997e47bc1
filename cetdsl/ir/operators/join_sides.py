"""JoinSides: the trends of the two sides of a top-level AND, paired."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators.operator import Operator, Step
from cetdsl.ir.operators.words import columns_with_trend


@attrs.frozen
class JoinSides(Operator):
    """Pairs of trends of one key and window, their bindings merged in order of time.

    ``distinct`` says that no variable is on both sides.
    """

    left: Operator
    right: Operator
    distinct: bool

    @property
    def children(self) -> tuple[Operator, ...]:
        return self.left, self.right

    def with_children(self, children: tuple[Operator, ...]) -> Operator:
        left, right = children
        return attrs.evolve(self, left=left, right=right)

    @property
    def gives(self) -> tuple[str, ...]:
        return columns_with_trend(self.source)

    def steps(self) -> tuple[Step, ...]:
        return (Step("join the trends of the two sides", ("per key and window",)),)

    def costs(self, limit: int | None = None) -> tuple[str, ...]:
        return ("grows with the number of trends of each side, and of their pairs",)
