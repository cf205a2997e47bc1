"""Limit: so many rows of an answer."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators.operator import Act, Unary


@attrs.frozen
class Limit(Unary):
    """Any ``count`` rows."""

    count: int

    def acts(self) -> tuple[Act, ...]:
        return (Act(f"limit {self.count}"),)

    def costs(self, limit: int | None = None) -> tuple[str, ...]:
        return self.child.costs(self.count)
