"""Views of a workload: its passes over the events, and its sharable sets, the sets of queries that may share work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.explain.physical import steps_view
from cetdsl.explain.stages import Explanation
from cetdsl.explain.view import FINAL, NOWHERE, STATE, PlanView, ViewEdge, ViewNode
from cetdsl.ir.operators import AnswerTogether, Operator, Scan
from cetdsl.ir.operators.words import some
from cetdsl.ir.sharing import SharableSet
from cetdsl.pattern.automaton import build_automaton
from cetdsl.pattern.nodes import events
from cetdsl.planning.compile import queries_of_sides
from cetdsl.planning.sharing import NEVER_ASKED
from cetdsl.sharing.families import family


def explain_workload(
    plan: AnswerTogether, queries: Mapping[str, ResolvedQuery], metrics: Sequence[Mapping[str, Any]] = ()
) -> Explanation:
    """The explanation of a workload's plan, and the metrics of each set that has run."""
    propagated = {**queries, **_sides_of(plan, queries)}
    sections: list[tuple[str, tuple[PlanView, ...]]] = [("workload", (PlanView("workload", facts=plan.facts()),))]
    sections.append(("sharing", (PlanView("queries", facts=_sharing_of(plan, queries)),)))
    for number, (one, together) in enumerate(zip(plan.passes, plan.together, strict=True), 1):
        views = [template_view(each, propagated) for each in together.sets]
        facts = (*together.facts(), *_waits_of(one))
        sections.append((f"pass {number}", (steps_view("plan", one, facts=facts), *views)))
    if metrics:
        sections.append(("metrics", tuple(_metrics_view(one) for one in metrics)))
    return Explanation(tuple(sections))


def _waits_of(plan: Operator) -> tuple[tuple[str, str], ...]:
    """Describes for a stream which windows are answered, and for what their answers wait."""
    scans = (one for one in plan.walk() if isinstance(one, Scan) and one.source.is_stream)
    return tuple(dict.fromkeys(fact for scan in scans for fact in scan.facts()))


def _sides_of(plan: AnswerTogether, queries: Mapping[str, ResolvedQuery]) -> dict[str, ResolvedQuery]:
    """Returns the sides of each AND at the top, as queries, by their names in the plan."""
    return {
        name: side
        for together in plan.together
        for member in together.members
        for name, side in zip(member.pairs, queries_of_sides(queries[member.name]) if member.pairs else ())
    }


def _sharing_of(plan: AnswerTogether, queries: Mapping[str, ResolvedQuery]) -> tuple[tuple[str, str], ...]:
    """Describes for each query whether it may share, with whom, or why not."""
    said = {}
    for one in plan.alone:
        waits = (f"; {name} {text}" for name, text in _waits_of(one.plan) if name == "waits")
        said[one.name] = "".join((f"alone, by {one.strategy}: {one.reason}", *waits))
    for together in plan.together:
        for member in together.members:
            said[member.name] = f"alone: {member.propagation.why_not_shared}"
        for sharable in together.sets:
            how = f"bursts of ({', '.join(sorted(sharable.variables))})+"
            said |= _with_others(sharable.queries, how, plan.sharing.mode == "never")
        for abreast in together.abreast:
            said |= _with_others(abreast.queries, "a walk over the events", False)
        for member in together.members:
            if member.pairs:
                said[member.name] = "; ".join(f"{side} {said[side]}" for side in member.pairs)
    return tuple((name, said[name]) for name in queries)


def _with_others(names: Sequence[str], what: str, forbidden: bool) -> dict[str, str]:
    if forbidden:
        return dict.fromkeys(names, f"alone: {NEVER_ASKED}")
    return {name: f"may share {what} with {some([one for one in names if one != name])}" for name in names}


def _metrics_view(metrics: Mapping[str, Any]) -> PlanView:
    """Shows the metrics of a set of queries, over all tasks."""
    apart = {name: reason for one in metrics["apart"] for name, reason in one.items()}
    deciding = metrics["deciding"] / metrics["seconds"] if metrics["seconds"] else 0.0
    facts = [
        ("queries", some(metrics["queries"])),
        ("evaluated by themselves", f"{metrics['unshared']:,}"),
        *((f"{name} alone", reason) for name, reason in sorted(apart.items())),
        *_bursts_of(metrics),
        ("bursts", f"{metrics['bursts']:,}"),
        ("shared graphlets", f"{metrics['shared']:,}"),
        ("split graphlets", f"{metrics['split']:,}"),
        ("decisions", f"{metrics['decisions']:,} ({metrics['splits']:,} to split, {metrics['merges']:,} to merge)"),
        ("snapshots", f"{metrics['snapshots']:,} of graphlets, {metrics['event_snapshots']:,} of events"),
        ("propagated", f"{metrics['propagated']:,} events for several queries at once"),
        ("time", f"{metrics['seconds']:.3f} s in the kernel, {deciding:.2%} of it spent deciding"),
    ]
    return PlanView("metrics", facts=tuple(facts))


def _bursts_of(metrics: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Describes for each query how many of the bursts of its Kleene patterns it shared, over all tasks."""
    together, alone = Counter[str](), Counter[str]()
    for total, name in ((together, "together"), (alone, "alone")):
        for of_task in metrics[name]:
            total.update(of_task)
    for name in metrics["queries"]:
        if of_query := together[name] + alone[name]:
            said = f"{together[name]:,} of {of_query:,} bursts"
            yield (
                f"{name} shared",
                said if together[name] or not metrics["decisions"] else f"{said}: alone they cost less",
            )


def template_view(sharable: SharableSet, queries: Mapping[str, ResolvedQuery]) -> PlanView:
    """The merged template of a sharable set: one automaton for all its queries (Hamlet, SIGMOD 2021, definition 4).

    Variables of the same type are one state, with the name that the first of the queries gives it. Each arrow lists the
    queries that it belongs to.
    """
    names: dict[Hashable, str] = {}
    shared: set[str] = set()
    arrows: dict[tuple[str, str], list[str]] = {}
    for query, repeat in zip(sharable.queries, sharable.kleene, strict=True):
        resolved = queries[query]
        kinds = {event.variable: family(event, resolved.type) for event in events(resolved.query.pattern)}
        for variable, kind in kinds.items():
            names.setdefault(kind, variable)
        numbers = {kind: str(number) for number, kind in enumerate(names)}
        identity = {variable: numbers[kind] for variable, kind in kinds.items()}
        shared |= {identity[event.variable] for event in events(repeat)}
        automaton = build_automaton(resolved.query.pattern)
        state = [identity[variable] for variable in automaton.variables]
        found = [(NOWHERE, state[q]) for q, _ in automaton.initial]
        found += [(state[t.source], state[t.target]) for t in automaton.transitions]
        found += [(state[q], NOWHERE) for q, _ in automaton.final]
        for ends in dict.fromkeys(found):
            arrows.setdefault(ends, []).append(query)
    nodes = []
    for number, name in enumerate(names.values()):
        ended = arrows.get((str(number), NOWHERE))
        details = ["shared"] if str(number) in shared else []
        if ended:
            details.append(f"ends trends of {some(ended)}")
        nodes.append(ViewNode(str(number), name, tuple(details), FINAL if ended else STATE))
    edges = [ViewEdge(source, target, some(labels)) for (source, target), labels in arrows.items() if target != NOWHERE]
    facts = [("queries", some(sharable.queries))]
    if sharable.pane:
        facts.append(("pane", f"{sharable.pane} (greatest common divisor of all lengths and slides)"))
    return PlanView("merged template", tuple(nodes), tuple(edges), tuple(facts))
