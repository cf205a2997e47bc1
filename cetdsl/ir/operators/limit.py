"""Limit: a limited number of rows of an answer."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators.operator import Step, Unary


@attrs.frozen
class Limit(Unary):
    """Keeps any ``count`` rows."""

    only_batch = "so many rows are counted over all that a stream will ever give"

    count: int

    def steps(self) -> tuple[Step, ...]:
        return (Step(f"limit {self.count}"),)

    def costs(self, limit: int | None = None) -> tuple[str, ...]:
        return self.child.costs(self.count)
