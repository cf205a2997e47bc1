"""JoinPaths: paths extended by Spark's joins, for a key beyond one task's memory."""

from __future__ import annotations

import attrs

from cetdsl.ir.kernel import ALL, KernelSpec
from cetdsl.ir.operators.operator import Step, Unary
from cetdsl.ir.operators.words import COMPLETENESS, columns_with_trend, projected, until


@attrs.frozen
class JoinPaths(Unary):
    """A row per trend, under the user's names, events with these columns; ``limit`` ends the rounds."""

    spec: KernelSpec
    columns: tuple[str, ...]
    limit: int | None
    walks = True

    @property
    def gives(self) -> tuple[str, ...]:
        return columns_with_trend(self.source)

    def steps(self) -> tuple[Step, ...]:
        return (
            Step("project", tuple(projected(self.source, self.compiled, ()))),
            Step("join events to the graph"),
            Step("join paths with edges, round by round", ("complete paths leave in each round",)),
        )

    def costs(self, limit: int | None = None) -> tuple[str, ...]:
        return (f"grows with the edges of the graph and with the number of its trends{until(limit)}",)

    def facts(self) -> tuple[tuple[str, str], ...]:
        completeness = self.spec.query.completeness
        return () if completeness == ALL else (("trends", COMPLETENESS[completeness]),)
