"""JoinPaths: paths extended by Spark's joins, for a key beyond one task's memory."""

from __future__ import annotations

import attrs

from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.operators import words
from cetdsl.ir.operators.operator import Act, Unary


@attrs.frozen
class JoinPaths(Unary):
    """A row per trend, under the user's names, events with these columns; ``limit`` ends the rounds."""

    spec: KernelSpec
    columns: tuple[str, ...]
    limit: int | None
    walks = True

    def acts(self) -> tuple[Act, ...]:
        return (
            Act("project", tuple(words.projected(self.source, self.compiled, ()))),
            Act("join events to the graph"),
            Act("join paths with edges, round by round", ("complete paths leave in each round",)),
        )

    def costs(self, limit: int | None = None) -> tuple[str, ...]:
        return (words.along_paths(limit),)

    def facts(self) -> tuple[tuple[str, str], ...]:
        return words.trends_fact(self.spec.query.completeness)
