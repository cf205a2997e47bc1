"""JoinPaths: paths extended by Spark's joins, for a key beyond one task's memory."""

from __future__ import annotations

import attrs

from cetdsl.ir.kernel import MAXIMAL, KernelSpec
from cetdsl.ir.operators import words
from cetdsl.ir.operators.operator import Step, Unary
from cetdsl.ir.transitions import transitions_of


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
            Step(*self._graph),
            Step("join paths with events, round by round", ("complete paths leave in each round",)),
        )

    @property
    def _graph(self) -> tuple[str, tuple[str, ...]]:
        """How the graph is found: as cells by Spark, or as edges by the kernel where that must tell them."""
        if self.spec.query.completeness == MAXIMAL:
            return "kernel: build the graph", ("each task lists the edges of its share that no longer path goes round",)
        if self.compiled.negations:
            return "kernel: build the graph", ("edges are listed, as NOT forbids some",)
        lines = ["ranges of values and slices of time, by quantiles; the edges are not listed"]
        for transition in transitions_of(self.compiled.machine):
            edge, variables = transition.edge, self.compiled.machine.variables
            earlier, later = (self.compiled.name_of(variables[state]) for state in (edge.source, edge.target))
            unindexed = [c for c in transition.rest if c not in transition.orders]
            tests = [words.compared(self.compiled, comparison, earlier, later) for comparison in unindexed]
            tests += [words.pair_of_rows(self.compiled.lists[n], earlier, later) for n in edge.listed]
            lines += [f"tested for each two events that meet: {test}" for test in tests]
        return "join events to the graph", tuple(dict.fromkeys(lines))

    def costs(self, limit: int | None = None) -> tuple[str, ...]:
        return (words.along_paths(limit),)

    def facts(self) -> tuple[tuple[str, str], ...]:
        return words.trends_fact(self.spec.query.completeness)
