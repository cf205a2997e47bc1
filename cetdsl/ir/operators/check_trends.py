"""CheckTrends: predicates that only a finished trend can be tested for."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators.operator import Step, Unary
from cetdsl.pattern.text import quote


@attrs.frozen
class CheckTrends(Unary):
    """Keeps the trends that the residual predicates of the query are true of."""

    def steps(self) -> tuple[Step, ...]:
        return (Step("test finished trends", tuple(quote(term) for term in self.compiled.residual)),)
