"""JoinPaths: Spark's joins extend paths event by event, for a key beyond one task's memory."""

from __future__ import annotations

import attrs

from cetdsl.ir.kernel import MAXIMAL, KernelSpec
from cetdsl.ir.machine import Comparison
from cetdsl.ir.operators import words
from cetdsl.ir.operators.operator import Step, Unary
from cetdsl.ir.transitions import transitions_of
from cetdsl.pattern.expressions import Attribute

#: The types whose values have no quantiles, so that an order over them cannot be cut into ranges of values.
_WITHOUT_QUANTILES = ("string", "boolean", "binary")


@attrs.frozen
class JoinPaths(Unary):
    """Gives a row per trend, under the user's names, with ``columns`` of events; rounds end after ``limit`` trends."""

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
        """Describes how the graph is found: as cells by Spark, or as edges by the kernel where only it can do so."""
        maximal, by_kernel = self.spec.query.completeness == MAXIMAL, self.spec.query.edges_by_kernel
        if maximal and by_kernel:
            share = "each task lists the edges of its share that no longer path goes round"
            return "kernel: build the graph", (share, "but has the index of all events of a key for that")
        if by_kernel:
            return "kernel: build the graph", ("edges are listed, as NOT forbids some: those of a key by one task",)
        not_listed = "" if maximal else "; the edges are not listed"
        has_ranges = any(transition.orders for transition in transitions_of(self.compiled.machine))
        ranges = "ranges of values and " if has_ranges else ""
        lines = [f"{ranges}slices of time, by quantiles{not_listed}"]
        lines += words.rounds_before(self.spec.query)
        for transition in transitions_of(self.compiled.machine):
            edge, variables = transition.edge, self.compiled.machine.variables
            earlier, later = (self.compiled.name_of(variables[state]) for state in (edge.source, edge.target))
            unindexed = [c for c in transition.rest if c not in transition.orders]
            lines += [
                f"slices of time only, as no range has quantiles of {kind}: {order}"
                for comparison in transition.orders[:1]
                if (kind := self._unranged(comparison))
                for order in (words.compared(self.compiled, comparison, earlier, later),)
            ]
            lines += words.tested(self.compiled, edge, unindexed, ())
        return "join events to the graph", tuple(dict.fromkeys(lines))

    def _unranged(self, order: Comparison) -> str | None:
        """The type of the column that an order looks at, if its values have no quantiles."""
        expr = self.compiled.codes[order.later].expr
        kind = self.source.schema.type_of(expr.name) if isinstance(expr, Attribute) else None
        return kind if kind is not None and kind.startswith(_WITHOUT_QUANTILES) else None

    def costs(self, limit: int | None = None) -> tuple[str, ...]:
        return (words.along_paths(limit),)

    def facts(self) -> tuple[tuple[str, str], ...]:
        return words.trends_fact(self.spec.query.completeness)
