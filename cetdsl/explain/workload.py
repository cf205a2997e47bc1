"""A workload for the eye: its passes, its sharable sets, and their merged templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.explain.stages import Explanation
from cetdsl.explain.view import FINAL, NOWHERE, STATE, PlanView, ViewEdge, ViewNode
from cetdsl.pattern.text import quote_name
from cetdsl.planning.workload import Pass, WorkloadPlan
from cetdsl.sharing import MergedTemplate, SharableSet, merge_templates

#: Queries named on an arrow before the rest are only counted.
_NAMED = 6


def explain_workload(
    plan: WorkloadPlan,
    queries: Mapping[str, ResolvedQuery],
    in_runs: Sequence[bool],
    metrics: Sequence[Mapping[str, Any]] = (),
) -> Explanation:
    """The explanation of a workload's plan, and the metrics of each set that has run.

    ``in_runs`` says of each pass whether events travel in sorted runs.
    """
    sections: list[tuple[str, tuple[PlanView, ...]]] = [("workload", (_overview(plan),))]
    for number, (one, sorted_runs) in enumerate(zip(plan.passes, in_runs, strict=True), 1):
        views = [template_view(merge_templates(each, queries), each) for each in one.sets]
        sections.append((f"pass {number}", (_pass_view(one, sorted_runs), *views)))
    if metrics:
        sections.append(("metrics", tuple(_metrics_view(one) for one in metrics)))
    return Explanation(tuple(sections))


def _overview(plan: WorkloadPlan) -> PlanView:
    facts = [("sharing", plan.sharing.mode)]
    facts += [("deviation", f"{name}: {part:.1%}, as given") for name, part in plan.sharing.deviations.items()]
    facts += [(f"pass {number}", _names(m.name for m in one.members)) for number, one in enumerate(plan.passes, 1)]
    facts += [(f"{one.name} alone", f"{one.decision.strategy}: {one.reason}") for one in plan.alone]
    return PlanView("workload", facts=tuple(facts))


def _metrics_view(metrics: Mapping[str, Any]) -> PlanView:
    """What a set of queries did, over all tasks."""
    deciding = metrics["deciding"] / metrics["seconds"] if metrics["seconds"] else 0.0
    facts = [
        ("queries", _names(metrics["queries"])),
        ("evaluated by themselves", f"{metrics['unshared']:,}"),
        ("bursts", f"{metrics['bursts']:,}"),
        ("shared graphlets", f"{metrics['shared']:,}"),
        ("split graphlets", f"{metrics['split']:,}"),
        ("decisions", f"{metrics['decisions']:,} ({metrics['splits']:,} to split, {metrics['merges']:,} to merge)"),
        ("snapshots", f"{metrics['snapshots']:,} of graphlets, {metrics['event_snapshots']:,} of events"),
        ("propagated", f"{metrics['propagated']:,} events for several queries at once"),
        ("time", f"{metrics['seconds']:.3f} s in the kernel, {deciding:.2%} of it spent deciding"),
    ]
    return PlanView("metrics", facts=tuple(facts))


def _pass_view(one: Pass, in_runs: bool) -> PlanView:
    keys = ", ".join(map(quote_name, one.source.keys))
    order = ", ".join([*map(quote_name, one.source.keys), quote_name(one.source.time)])
    by_time = f"sort each task's events by {order}"
    steps: list[tuple[str, tuple[str, ...]]] = [
        ("events", (f"time: {quote_name(one.source.time)}",)),
        ("keep what some variable of some query can bind", (f"{len(one.compiled.variables)} different variables",)),
    ]
    if in_runs:
        steps.append((by_time, ("put those of a key into sorted runs, one row each",)))
    steps += [
        ("shuffle by " + keys if keys else "shuffle to one task, as there is no key", ()),
        ("merge the runs of each key" if in_runs else by_time, ()),
        ("kernel: all queries", (*(_set_line(each) for each in one.sets), *_unshared_lines(one))),
    ]
    if one.merge:
        steps.append(("add up partial results", ("by query, group and window",)))
    nodes = [ViewNode(str(number), label, details) for number, (label, details) in enumerate(steps)]
    edges = [ViewEdge(str(number), str(number + 1)) for number in range(len(steps) - 1)]
    return PlanView("plan", tuple(nodes), tuple(edges))


def _set_line(sharable: SharableSet) -> str:
    return f"{_names(sharable.queries)} may share ({', '.join(sorted(sharable.variables))})+"


def _unshared_lines(one: Pass) -> list[str]:
    """How the queries that do not share are evaluated, and why so."""
    alike: dict[str, list[str]] = {}
    for member in one.members:
        how = member.propagation
        if how.why_not_shared is None:
            continue
        if how.in_bursts:
            way = f"burst by burst: {how.why_not_shared}"
        elif how.why_not_in_panes is None:
            way = f"in panes: {how.why_not_shared}"
        else:
            way = f"event by event: {how.why_not_shared}; not in panes: {how.why_not_in_panes}"
        alike.setdefault(way, []).append(member.name)
    return [f"{_names(names)} alone, {way}" for way, names in alike.items()]


def template_view(template: MergedTemplate, sharable: SharableSet) -> PlanView:
    """A merged template: each variable once, each arrow with the queries it holds for."""
    ends = {step.source: step.queries for step in template.steps if step.target is None}
    nodes = []
    for number, name in enumerate(template.variables):
        details = ["shared"] if number in template.shared else []
        if number in ends:
            details.append(f"ends trends of {_names(ends[number])}")
        nodes.append(ViewNode(str(number), name, tuple(details), FINAL if number in ends else STATE))
    edges = [
        ViewEdge(NOWHERE if step.source is None else str(step.source), str(step.target), _names(step.queries))
        for step in template.steps
        if step.target is not None
    ]
    facts = [("queries", _names(sharable.queries))]
    if sharable.pane:
        facts.append(("pane", f"{sharable.pane} (greatest common divisor of all lengths and slides)"))
    return PlanView("merged template", tuple(nodes), tuple(edges), tuple(facts))


def _names(names: object) -> str:
    given = list(names)  # type: ignore[call-overload]
    shown = ", ".join(given[:_NAMED])
    return shown if len(given) <= _NAMED else f"{shown} and {len(given) - _NAMED} more"
