"""Views of how the trends of a workload are listed: passes over the events, and the aggregation plan that they follow.

The vertices of such a plan (:mod:`cetdsl.sharing.aggregation.plan`) are sub-patterns and queries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cetdsl.explain.aggregation import plan_view
from cetdsl.explain.physical import steps_view
from cetdsl.explain.stages import Explanation
from cetdsl.explain.view import PlanView, ViewEdge, ViewNode
from cetdsl.ir.operators import DetectTogether, ListTogether
from cetdsl.ir.operators.words import some
from cetdsl.sharing.aggregation.plan import PlanData

#: How many vertices are shown, those of the most instances.
_SHOWN = 20


def explain_trends_together(
    plan: ListTogether, shared: PlanData | None, work: Sequence[Mapping[int, Mapping[str, int]]] = ()
) -> Explanation:
    """The explanation of how the trends of a workload are listed, and the work of each pass that has run."""
    sections: list[tuple[str, tuple[PlanView, ...]]] = [("trends", (PlanView("trends", facts=plan.facts()),))]
    if shared is not None:
        sections.append(("aggregation plan", (plan_view(shared),)))
    for number, (one, together) in enumerate(zip(plan.passes, plan.together, strict=True), 1):
        views = [steps_view("plan", one)]
        if work:
            views.append(_work_view(together, work[number - 1]))
        sections.append((f"pass {number}", tuple(views)))
    return Explanation(tuple(sections))


def _work_view(together: DetectTogether, work: Mapping[int, Mapping[str, int]]) -> PlanView:
    """Shows how many instances of each vertex all tasks built, for the vertices that have the most."""
    vertices = together.vertices
    none = {"built": 0, "shared": 0, "avoided": 0, "not_kept": 0}
    found = {number: {**none, **work.get(number, {})} for number in range(len(vertices))}
    totals = {name: sum(one[name] for one in found.values()) for name in none}
    inner = [number for number, vertex in enumerate(vertices) if vertex.query < 0]
    facts = [
        ("instances built", f"{sum(found[number]['built'] for number in inner):,} of sub-patterns"),
        ("matches", f"{totals['built'] - sum(found[number]['built'] for number in inner):,}"),
        ("shared", f"{totals['shared']:,} instances that were not built again"),
        ("avoided", f"{totals['avoided']:,} events that were not looked at, as some other part of a match was missing"),
    ]
    if totals["not_kept"]:
        facts.append(
            ("not kept", f"{_times(totals['not_kept'])}, as to build a sub-pattern over a chunk would have saved less")
        )
    if together.walked:
        facts.append(
            ("not measured", f"{some([together.queries[one.query] for one in together.walked])}: listed depth first")
        )
    shown = set(sorted(found, key=lambda number: (-found[number]["built"], number))[:_SHOWN])
    nodes = [ViewNode(str(number), vertices[number].name, _lines(found[number])) for number in sorted(shown)]
    edges = [
        ViewEdge(str(parent.vertex), str(number))
        for number in sorted(shown)
        for parent in vertices[number].parents
        if parent.vertex in shown
    ]
    if len(found) > len(nodes):
        facts.append(("not shown", f"{len(found) - len(nodes):,} vertices of fewer instances"))
    return PlanView("measured", tuple(nodes), tuple(edges), tuple(facts), from_root=True)


def _lines(one: Mapping[str, int]) -> tuple[str, ...]:
    lines = [f"built {one['built']:,}"]
    lines += [f"{name} {one[name]:,}" for name in ("shared", "avoided") if one[name]]
    return tuple(lines + ([f"not kept {_times(one['not_kept'])}"] if one["not_kept"] else []))


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")
