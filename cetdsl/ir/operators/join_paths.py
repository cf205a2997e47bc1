"""JoinPaths: paths extended by Spark's joins, for a key beyond one task's memory."""

from __future__ import annotations

import attrs

from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.operators import words
from cetdsl.ir.operators.operator import Step, Unary


@attrs.frozen
class JoinPaths(Unary):
    """Gives a row per trend, under the user's names, with these columns of events; ``limit`` ends the rounds."""

    spec: KernelSpec
    columns: tuple[str, ...]
    limit: int | None
    walks = True

    def steps(self) -> tuple[Step, ...]:
        return (
            Step("project", tuple(words.projected(self.source, self.compiled, ()))),
            Step("join events to the graph"),
            Step("join paths with edges, round by round", ("complete paths leave in each round",)),
        )

    def costs(self, limit: int | None = None) -> tuple[str, ...]:
        return (words.along_paths(limit),)

    def facts(self) -> tuple[tuple[str, str], ...]:
        return words.trends_fact(self.spec.query.completeness)
