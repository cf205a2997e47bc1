"""JoinSides: the trends of the two sides of a top-level AND, paired."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators.operator import Operator, Step


@attrs.frozen
class JoinSides(Operator):
    """Pairs the trends of one key and window, with their bindings merged in order of time.

    ``distinct`` says that no variable is on both sides.
    """

    left: Operator
    right: Operator
    distinct: bool
    inputs = ("left", "right")

    def steps(self) -> tuple[Step, ...]:
        return (Step("join the trends of the two sides", ("per key and window",)),)

    def costs(self, limit: int | None = None) -> tuple[str, ...]:
        return ("grows with the number of trends of each side, and of their pairs",)
