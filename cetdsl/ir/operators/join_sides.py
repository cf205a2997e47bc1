"""JoinSides: the trends of two sides of a top-level AND, paired."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators import words
from cetdsl.ir.operators.operator import Operator, Step
from cetdsl.ir.windowing import SPAN
from cetdsl.pattern.expressions import Expr
from cetdsl.pattern.text import quote


@attrs.frozen
class JoinSides(Operator):
    """Pairs the trends of one key and window, with their bindings merged in order of time.

    No variable is on both sides. The operator keeps the pairs that satisfy ``predicates``, which relate both sides, and
    that last no longer than the span of the source, if it has one.
    """

    only_batch = "Spark would have to join the trends of both sides as streams"

    left: Operator
    right: Operator
    predicates: tuple[Expr, ...] = ()
    inputs = ("left", "right")

    def steps(self) -> tuple[Step, ...]:
        which = "one more side" if isinstance(self.left, JoinSides) else "the two sides"
        label = f"join the trends of {which}"
        windowing, details = self.source.windowing, ["per key and window"]
        if windowing.kind == SPAN:
            details.append(f"all of them within {words.amount_of_time(self.source, windowing.length)}")
        return (Step(label, (*details, *map(quote, self.predicates))),)

    def costs(self, limit: int | None = None) -> tuple[str, ...]:
        return ("grows with the number of trends of each side, and of their pairs",)
