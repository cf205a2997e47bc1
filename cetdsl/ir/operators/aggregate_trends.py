"""AggregateTrends: trends that were listed, aggregated by Spark."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators import words
from cetdsl.ir.operators.operator import Step, Unary
from cetdsl.pattern.expressions import Aggregate
from cetdsl.pattern.text import quote


@attrs.frozen
class AggregateTrends(Unary):
    """Aggregates listed trends with Spark, for predicates that no automaton can evaluate on the way."""

    only_batch = "Spark would have to aggregate trends, which have no watermark"

    outputs: tuple[tuple[str, Aggregate], ...]
    number: str

    @property
    def gives(self) -> tuple[str, ...]:
        return (*self.source.groups, *self.source.window, *(name for name, _ in self.outputs))

    def steps(self) -> tuple[Step, ...]:
        return (Step("aggregate the trends", tuple(f"{name}: {quote(term)}" for name, term in self.outputs)),)

    def facts(self) -> tuple[tuple[str, str], ...]:
        return (words.number_fact(self.number),)
