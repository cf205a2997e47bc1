"""BuildGraph: the graph of each key's events, whose paths are the trends."""

from __future__ import annotations

import attrs

from cetdsl.ir.extraction import Extraction
from cetdsl.ir.indexes import guards_beside, with_orders
from cetdsl.ir.kernel import ALL, MAXIMAL, KernelSpec
from cetdsl.ir.operators import words
from cetdsl.ir.operators.events_in_order import EventsInOrder
from cetdsl.ir.operators.operator import Requirement, Step, Unary
from cetdsl.ir.shadows import FOLLOWED, REDUCED, STATES
from cetdsl.ir.transitions import transitions_of
from cetdsl.ir.windowing import SPAN
from cetdsl.pattern.expressions import Expr

ALGORITHMS = {
    "auto": "what suits each graph",
    "m-cet": "depth first, one trend in memory",
    "t-cet": "breadth first, all partial trends kept",
    "h-cet": "cut by time into graphlets, whose partial trends are kept where the memory allows, and stitched",
    "anchors": "partial trends between chosen values, joined along these",
}

OPTIMIZERS = {
    "auto": "the best cuts; stretches that windows share are cut greedily",
    "branch-and-bound": "the published branch and bound over nearly balanced cuts",
    "greedy": "the published greedy search, one nearly balanced plan for each number of graphlets",
    "exhaustive": "exhaustive search over all cuts",
}
COST_MODELS = {
    "exact": "the exact number of partial trends",
    "worst-case": "the most partial trends that so many events can have",
}

#: How ``explain`` describes the recognition of complete trends by shadows, by kind.
_SHADOWS = {
    ALL: "from events that may begin a trend to events that may end it, as NOTs and the span allow",
    STATES: "with states that know what precedes a trend, and in which states longer trends read its events",
    REDUCED: "without edges that a longer path goes round, led from state to state of the pattern",
    FOLLOWED: "with the states in which longer trends read its events, followed along each edge",
}


@attrs.frozen
class BuildGraph(Unary):
    """Builds the graph, within the stage of the operator above.

    ``columns`` of each event are shown; None: no trends are listed. ``extraction`` says how paths are extracted from
    the graph; None: they are not listed. If ``balanced``, as many tasks as there are cores share each key: all of them
    build its graph, and each lists a part of the trends. ``values`` are the weights of events. If ``settled``, the
    paths come in the same order whenever they are computed. If ``identified``, each event has a further field that
    identifies it.
    """

    spec: KernelSpec
    columns: tuple[str, ...] | None = None
    extraction: Extraction | None = None
    balanced: bool = False
    values: tuple[Expr, ...] = ()
    settled: bool = False
    identified: bool = False
    walks = True
    only_batch = None

    @property
    def requires(self) -> tuple[Requirement | None, ...]:
        read = EventsInOrder(self.spec, self.values, self.columns, self.identified, self.balanced, self.settled)
        return (read,)

    def steps(self) -> tuple[Step, ...]:
        details = [*self._edges, "without events that lie on no trend"]
        shadows = self.spec.query.shadows
        if shadows is not None:
            told = _SHADOWS[shadows.kind if self.spec.query.completeness != ALL else ALL]
            inside = shadows.kind == FOLLOWED and self.spec.query.completeness == MAXIMAL
            details.append(f"{told} and round it" if inside else told)
        elif self.spec.query.completeness == MAXIMAL:
            details.append("without edges that a longer path goes round: the transitive reduction")
        if self._pivots:
            each = f"for each {' and '.join(self._pivots)}, of the events that may stand beside {self._them}"
            details = [each, *words.of_parts(self.compiled), *details]
        if self._has_firsts:
            details.insert(0, "for each event that a trend may begin with, of the events within the span")
        return (Step("kernel: build the graph", tuple(details)),)

    @property
    def _edges(self) -> tuple[str, ...]:
        """Describes how the edges are found."""
        transitions = transitions_of(with_orders(self.compiled.machine))
        ranges = "attribute ranges for predicates that order or equate values"
        lines = [ranges if any(transition.index for transition in transitions) else "ranges of time"]
        for transition in transitions:
            guards = guards_beside(transition.edge, len(self.compiled.codes))
            lines += words.tested(self.compiled, transition.edge, transition.rest, guards)
        return tuple(dict.fromkeys(lines))

    def costs(self, limit: int | None = None) -> tuple[str, ...]:
        return (words.ALONG_EDGES,)

    @property
    def _pivots(self) -> tuple[str, ...]:
        """The variables that pairwise predicates compare others with."""
        return tuple(map(self.compiled.name_of, self.spec.query.pivots))

    @property
    def _them(self) -> str:
        """A word that refers to the pivots."""
        return "it" if len(self._pivots) == 1 else "them"

    @property
    def _has_firsts(self) -> bool:
        """Whether a span makes a graph for each event that a trend may begin with."""
        return self.spec.query.shadows is not None and self.source.windowing.kind == SPAN

    def facts(self) -> tuple[tuple[str, str], ...]:
        known = words.trends_fact(self.spec.query.completeness)
        each = ["event that a trend may begin with"] * self._has_firsts
        if not (each and self.spec.query.pivot_begins):
            each += [f"event bound to {name}" for name in self._pivots]
        if each:
            known = (*known, ("graphs", f"one per {' and '.join(each)}"))
        asked = self.extraction
        if not known or asked is None:
            return known
        memory = "no limit" if asked.memory is None else f"{asked.memory} bytes per task"
        known = (*known, ("algorithm", f"{asked.algorithm}: {ALGORITHMS[asked.algorithm]}"))
        if asked.algorithm == "h-cet":
            known = (*known, ("optimizer", f"{OPTIMIZERS[asked.optimizer]}, by {COST_MODELS[asked.cost_model]}"))
        return *known, ("memory", f"{memory} for the graph and partial trends")


@attrs.frozen
class OverGraph(Unary):
    """Base of the operators that read a graph, whose stage builds it first."""

    child: BuildGraph

    @property
    def keys(self) -> tuple[str, ...]:
        """The key columns of rows of paths."""
        return self.source.listed_keys(self.child.identified)
