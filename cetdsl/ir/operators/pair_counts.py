"""PairCounts: multiplies the counts of the two sides of a top-level AND."""

from __future__ import annotations

import attrs

from cetdsl.ir.accumulators import Output
from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.operators import words
from cetdsl.ir.operators.operator import Requirement, Step, Unary
from cetdsl.ir.operators.propagate import propagation_costs
from cetdsl.ir.operators.rows_in_order import RowsInOrder


@attrs.frozen
class PairCounts(Unary):
    """Counts pairs of different trends, one of each side, per key and window; reads the union of the sides.

    A third part of the union, if there is one, has the trends that match both sides. The rows are partial results,
    which are to be merged by ``groups``.
    """

    outputs: tuple[Output, ...]
    groups: tuple[str, ...]
    sides: int
    stage = "pairs"
    only_batch = None

    @property
    def requires(self) -> tuple[Requirement | None, ...]:
        return (RowsInOrder(words.partial_keys(self.source, self.source.groups), ("x",)),)

    @property
    def spec(self) -> KernelSpec:
        return self.child.spec.with_answer(outputs=self.outputs, groups=len(self.groups))

    def steps(self) -> tuple[Step, ...]:
        formula = "C1 * C2" if self.sides == 2 else "C1*C2 + C1*C12 + C2*C12 + C12*(C12 - 1)/2"
        return (Step("pair the trends of the two sides", (f"count = {formula}, per key and window",)),)

    def costs(self, limit: int | None = None) -> tuple[str, ...]:
        return propagation_costs([side for side in self.walk() if side.walks])
