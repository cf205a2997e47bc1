"""Views of an aggregation plan (:mod:`cetdsl.sharing.aggregation.plan`): its sub-patterns, and what is made of each."""

from __future__ import annotations

from collections.abc import Sequence

from cetdsl.errors import counted
from cetdsl.explain.view import PlanView, ViewEdge, ViewNode
from cetdsl.ir.operators.words import some
from cetdsl.pattern.spans import Span
from cetdsl.pattern.text import quote
from cetdsl.sharing.aggregation.plan import PlanData, Step, Vertex
from cetdsl.sharing.aggregation.subpatterns import kind_text


def plan_view(plan: PlanData, levels: int | None = 2, most: int | None = 8) -> PlanView:
    """Shows from each sub-pattern without parents which sub-patterns and queries are made of it, and what of those.

    Sub-patterns that serve the most queries come first.

    Parameters
    ----------
    plan : PlanData
    levels : int or None
        How many levels of sub-patterns are shown; those of the last one only list the queries that they serve. None
        shows all levels.
    most : int or None
        How many children of a sub-pattern are shown, and how many sub-patterns without parents; one node stands for
        the others. None shows all.
    """
    return _Drawing(plan, levels, most).view()


class _Drawing:
    """Collects the nodes and edges of a drawing of a plan."""

    def __init__(self, plan: PlanData, levels: int | None, most: int | None) -> None:
        self._plan, self._levels, self._most = plan, levels, most
        self._nodes: dict[str, ViewNode] = {}
        self._edges: list[ViewEdge] = []

    def view(self) -> PlanView:
        plan, patterns = self._plan, [vertex for vertex in self._plan.vertices if vertex.query is None]
        self._show_some([vertex for vertex in patterns if not vertex.parents], None, 1)
        if plan.unshared:
            several = len(plan.unshared) > 1
            label = f"{len(plan.unshared):,} queries that share nothing" if several else "1 query that shares nothing"
            self._nodes["unshared"] = ViewNode("unshared", label, (some(plan.unshared),))
        highest = max((vertex.level for vertex in patterns), default=0)
        facts = [
            ("queries", f"{len(plan.queries):,}"),
            ("sub-patterns", f"{len(patterns):,} in {counted(highest, 'level')}"),
            ("slots", f"{plan.slots:,}, of which {plan.root_slots:,} without parents"),
            ("entropy", f"{plan.entropy:.3f} bits"),
            ("search", "finished" if plan.finished else "ended by its deadline"),
        ]
        if plan.dropped:
            facts.append(("not kept", f"{counted(plan.dropped, 'sub-pattern')}: keeping costs more than it saves"))
        nodes, edges = tuple(self._nodes.values()), tuple(self._edges)
        return PlanView("aggregation plan", nodes, edges, tuple(facts), folds=True, from_root=True)

    def _show_some(self, vertices: Sequence[Vertex], parent: str | None, level: int) -> None:
        """Shows the vertices that serve the most queries, and one node for all others."""
        plan = self._plan
        serving = {vertex.number: plan.serves(vertex) for vertex in vertices}
        ordered = sorted(vertices, key=lambda vertex: (-len(serving[vertex.number]), vertex.number))
        # A single vertex more takes no more room than a node that stands for it.
        shown = ordered if self._most is None or len(ordered) <= self._most + 1 else ordered[: self._most]
        for vertex in shown:
            self._show(vertex, serving[vertex.number], level)
            if parent is not None:
                self._edges.append(ViewEdge(parent, str(vertex.number)))
        rest = ordered[len(shown) :]
        if rest:
            names = list(dict.fromkeys(name for vertex in rest for name in serving[vertex.number]))
            patterns = sum(vertex.query is None for vertex in rest)
            what = f"{counted(patterns, 'sub-pattern')} of " if patterns else ""
            identity = f"rest of {parent}"
            self._nodes[identity] = ViewNode(
                identity, f"{what}{counted(len(names), 'query', 'queries')} more", (some(names),)
            )
            if parent is not None:
                self._edges.append(ViewEdge(parent, identity))

    def _step(self, vertex: Vertex, step: Step) -> str:
        parent = None if step.parent is None else self._plan.at(step.parent).pattern
        return str(vertex.pattern.slots[step.slots[0]] if parent is None else parent)

    def _show(self, vertex: Vertex, serves: Sequence[str], level: int) -> None:
        if str(vertex.number) in self._nodes:
            return
        label = str(vertex.pattern) if vertex.query is None else vertex.query
        folds = self._levels is not None and level >= self._levels and vertex.query is None
        lines = _details(vertex)
        if vertex.expected is not None:
            lines.append(f"{vertex.expected:.3g} instances expected {_unit(vertex)}")
        if len(vertex.steps) > 1:
            lines.append(f"put together of {', '.join(self._step(vertex, step) for step in vertex.steps)}")
        if vertex.query is None:
            count = counted(len(serves), "query", "queries")
            lines.append(f"for {count}: {some(serves)}" if folds else f"for {count}")
        self._nodes[str(vertex.number)] = ViewNode(str(vertex.number), label, tuple(lines))
        if not folds:
            self._show_some(self._plan.children(vertex), str(vertex.number), level + 1)


def _unit(vertex: Vertex) -> str:
    window = vertex.pattern.scope.window
    if not window:
        return "in all"
    unit = window[0].unit if isinstance(window[0], Span) else window[0]
    return "a tick" if unit == "tick" else "a second"


def _details(vertex: Vertex) -> list[str]:
    pattern = vertex.pattern
    if vertex.query is not None:
        own = ", ".join(str(pattern.slots[slot]) for slot in vertex.own)
        return [f"adds {own}" if own else "adds no event"]
    lines = [] if pattern.span is None else [f"within {pattern.span}"]
    for slot in pattern.slots:
        for kind, condition in slot.choices:
            if not condition.anything:
                lines.append(f"{kind_text(kind)} if {quote(condition.expression())}")
    return lines
