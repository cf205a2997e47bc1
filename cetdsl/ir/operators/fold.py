"""Fold: built-in Spark expressions only, an ``aggregate()`` over each key's sorted array of events."""

from __future__ import annotations

import attrs

from cetdsl.ir.accumulators import Accumulator, Output
from cetdsl.ir.operators.operator import Step, Unary
from cetdsl.ir.operators.words import carried, columns_of, keys_and_window, number_fact, projected, unit_of
from cetdsl.pattern.expressions import Expr
from cetdsl.pattern.text import quote_name


@attrs.frozen
class Fold(Unary):
    """Collects the events of each key and window into an array, and folds it."""

    accumulators: tuple[Accumulator, ...]
    outputs: tuple[Output, ...]
    values: tuple[Expr, ...]
    number: str
    walks = True

    @property
    def gives(self) -> tuple[str, ...]:
        return columns_of(self.source, *(output.name for output in self.outputs))

    def steps(self) -> tuple[Step, ...]:
        source, compiled = self.source, self.compiled
        keys = keys_and_window(source, source.keys)
        order = ", ".join(map(quote_name, (source.time, *source.tie_break)))
        by = "group by " + ", ".join(keys) if keys else "one group, as there is no key"
        return (
            Step("project", tuple(projected(source, compiled, self.values))),
            Step(by, (f"collect_list, sorted by {order}",)),
            Step("fold: aggregate() over the array", tuple(carried(compiled, self.accumulators, self.values))),
        )

    def costs(self, limit: int | None = None) -> tuple[str, ...]:
        return (f"linear in the events of {unit_of(self.source)}, besides sorting them",)

    def facts(self) -> tuple[tuple[str, str], ...]:
        return (number_fact(self.number),)
