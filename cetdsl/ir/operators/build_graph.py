"""BuildGraph: the graph of each key's events, whose paths are the trends."""

from __future__ import annotations

import attrs

from cetdsl.ir.kernel import ALL, MAXIMAL, KernelSpec
from cetdsl.ir.operators.exchange import EventsInOrder
from cetdsl.ir.operators.operator import Requirement, Step, Unary
from cetdsl.ir.operators.words import ALONG_EDGES, COMPLETENESS
from cetdsl.pattern.expressions import Expr

ALGORITHMS = {
    "auto": "what suits each graph",
    "m-cet": "depth first, one trend in memory",
    "t-cet": "breadth first, all partial trends kept",
    "h-cet": "cut by time into graphlets, whose partial trends are kept where the memory allows, and stitched",
    "anchors": "partial trends between chosen values, joined along these",
}


@attrs.frozen
class BuildGraph(Unary):
    """Builds the graph, within the stage of the operator above.

    Attributes
    ----------
    spec : KernelSpec
    columns : tuple of str or None
        The columns of each event that are shown; None: no trends are listed.
    algorithm : str or None
        How paths are got out of the graph; None: they are not listed.
    memory : int or None
        Bytes that the algorithm may keep of partial trends; None: no limit.
    balanced : bool
        Whether as many tasks as there are cores share each key: all of them build its graph, and each lists a part of
        the trends.
    values : tuple of Expr
        What events weigh.
    settled : bool
        Whether the paths come in the same order whenever they are computed.
    """

    spec: KernelSpec
    columns: tuple[str, ...] | None = None
    algorithm: str | None = None
    memory: int | None = None
    balanced: bool = False
    values: tuple[Expr, ...] = ()
    settled: bool = False
    walks = True

    @property
    def requires(self) -> tuple[Requirement | None, ...]:
        return (EventsInOrder(self.spec, self.values, self.columns, shared=self.balanced, settled=self.settled),)

    def steps(self) -> tuple[Step, ...]:
        details = ["attribute ranges for predicates that order or equate values", "without events that lie on no trend"]
        if self.spec.query.completeness == MAXIMAL:
            details.append("without edges that a longer path goes round: the transitive reduction")
        return (Step("kernel: build the graph", tuple(details)),)

    def costs(self, limit: int | None = None) -> tuple[str, ...]:
        return (ALONG_EDGES,)

    def facts(self) -> tuple[tuple[str, str], ...]:
        completeness = self.spec.query.completeness
        if completeness == ALL:
            return ()
        trends = ("trends", COMPLETENESS[completeness])
        if self.algorithm is None:
            return (trends,)
        memory = "no limit" if self.memory is None else f"{self.memory} bytes per task"
        return (
            trends,
            ("algorithm", f"{self.algorithm}: {ALGORITHMS[self.algorithm]}"),
            ("memory", f"{memory} for partial trends"),
        )


@attrs.frozen
class OverGraph(Unary):
    """Base of the operators whose stage builds the graph first."""

    child: BuildGraph
