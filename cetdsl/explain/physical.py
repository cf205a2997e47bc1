"""Views of a physical plan: its operators, their costs in words, and the automata that they walk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

import attrs

from cetdsl.errors import counted
from cetdsl.execution.stopwatch import Taken
from cetdsl.explain.automata import automaton_view
from cetdsl.explain.view import PlanView, ViewEdge, ViewNode
from cetdsl.ir.compiled import Compiled
from cetdsl.ir.indexes import INDEXES, index_of_edge
from cetdsl.ir.machine import Machine
from cetdsl.ir.operators import Operator, Step
from cetdsl.ir.operators.words import compared, pair_of_rows, pair_text
from cetdsl.pattern.automaton import Transition, build_automaton
from cetdsl.pattern.text import quote_name, short_pattern
from cetdsl.planning.planner import Decision

STRATEGIES = {
    "fold": "built-in Spark expressions only, no Python worker",
    "panes": "small matrices of panes, multiplied up to windows",
    "sweep": "one sweep of the events that predicates compare with, over products of small matrices",
    "messages": "sums passed along the predicates of an AND, from event to event",
    "kernel": "one compiled pass over each task's sorted events",
    "enumerate": "lists the trends one by one, and aggregates them where that is asked",
    "detect": "puts trends together by a plan, with an index for each step",
    "choose": "puts trends together in orders by samples of the events, or without dead ends",
    "paths": "trends are the paths of a graph for each two events that pairwise predicates are about",
    "event joins": "puts trends together in the order of a plan, with a join of DataFrames for each event",
    "graph": "trends are the paths of a graph of each key's events",
    "balanced": "all cores build the one large graph, and each lists an equal part of its paths",
    "anchors": "partial trends between anchors are found once, and joined along the anchors",
    "joins": "the paths of one large graph, extended by one event per round of joins",
    "match": "finds one match after the other, as MATCH_RECOGNIZE does",
    "candidates": "lists the trends that are complete about an extreme event, drops those that another one contains",
    "definition": "lists all trends; where complete ones are asked for, drops those that another one contains",
}
#: The names of facts that operators state about themselves, in the order in which they are shown; others come last.
_FACTS = ("trends", "algorithm", "optimizer", "memory", "cost", "numbers", "windows", "time buckets", "panes")


def physical_views(
    decision: Decision, measured: tuple[tuple[str, str], ...] = (), taken: Mapping[int, Taken] | None = None
) -> tuple[PlanView, ...]:
    """The plan that was chosen, with facts that were ``measured``, and the automata that it walks.

    ``taken`` has the rows and seconds of each operator, see :func:`~cetdsl.execution.stopwatch.take`.
    """
    plan = decision.plan
    facts = [("strategy", f"{decision.strategy}: {STRATEGIES.get(decision.strategy, '')}".rstrip(": "))]
    facts += [("reason", decision.reason)] if decision.reason is not None else []
    facts += [("not used", decision.unused)] if decision.unused is not None else []
    facts += [("declined", f"{name}: {reason}") for name, reason in decision.declined]
    found = [("cost", text) for text in plan.costs()]
    found += dict.fromkeys(fact for operator in plan.walk() for fact in operator.facts())
    facts += sorted(found, key=lambda fact: _FACTS.index(fact[0]) if fact[0] in _FACTS else len(_FACTS))
    facts += measured
    answer = Step("answer", (", ".join(map(quote_name, plan.gives)),))
    return (steps_view("physical plan", plan, (answer,), tuple(facts), taken or {}), *plan_automata(plan))


def measured_facts(partial_matches: Iterable[Mapping[str, int]]) -> tuple[tuple[str, str], ...]:
    """A fact for each branch of the pattern and each plan: the partial matches of each step over all keys."""
    return tuple(("measured", _counts(steps)) for steps in partial_matches)


def chosen_facts(orders: Iterable[tuple[str, int, Mapping[str, int]]]) -> tuple[tuple[str, str], ...]:
    """The orders that were chosen while events were read, each with its events and partial matches."""
    facts = []
    for order, events, steps in orders:
        what = f"in the order {order}: {_counts(steps)}" if steps else order
        facts.append(("measured", f"{events} events {what}"))
    return tuple(facts)


def _counts(steps: Mapping[str, int]) -> str:
    return ", ".join(f"{step} {count}" for step, count in steps.items())


def steps_view(
    title: str,
    plan: Operator,
    more: tuple[Step, ...] = (),
    facts: tuple[tuple[str, str], ...] = (),
    taken: Mapping[int, Taken] | None = None,
) -> PlanView:
    """The steps of a plan's operators, from the events to the answer, and ``more`` behind them.

    The rows and seconds that an operator has ``taken`` stand at its last step. Those of a scan, which has no operator
    before it, stand at its first.
    """
    nodes: list[ViewNode] = []
    edges: list[ViewEdge] = []

    def add(steps: Iterable[Step], ends: list[str]) -> list[str]:
        for step in steps:
            identity = str(len(nodes))
            nodes.append(ViewNode(identity, step.label, step.details))
            edges.extend(ViewEdge(before, identity) for before in ends)
            ends = [identity]
        return ends

    def of(operator: Operator) -> list[str]:
        # Returns the last step; where the operator has none of its own, those of its children.
        steps = list(operator.steps())
        if taken is not None and id(operator) in taken:
            place = -1 if operator.children else 0
            details = (*steps[place].details, _taken_text(taken[id(operator)]))
            steps[place] = attrs.evolve(steps[place], details=details)
        return add(steps, [end for child in operator.children for end in of(child)])

    add(more, of(plan))
    return PlanView(title, tuple(nodes), tuple(edges), facts)


def _taken_text(taken: Taken) -> str:
    return f"measured: {counted(taken.rows, 'row')}, {taken.seconds:.2f} s up to here"


def plan_automata(plan: Operator) -> tuple[PlanView, ...]:
    """The automata that a plan walks, with the index that answers each transition."""
    views: dict[PlanView, None] = {}
    for side in plan.walk():
        if not side.walks:
            continue
        compiled = side.compiled
        title = f"automaton of the {side.side}" if side.side else "automaton"
        conditions = partial(_transition_conditions, compiled, side.indexed)
        view = automaton_view(compiled.automaton, title=title, conditions=partial(conditions, compiled.machine))
        views.setdefault(attrs.evolve(view, facts=tuple(_pair_facts(side))))
        for node, negation in zip(compiled.automaton.negations, compiled.negations):
            inner = build_automaton(node.part)
            sight = () if negation.sight is None else (negation.sight,)
            forbids = (*negation.correlated, *negation.pairs, *sight)
            if len(inner.variables) < 2 and not negation.machine.edges and not forbids:
                continue  # the automaton of a lone event shows no more than the event's name
            view = automaton_view(inner, title=short_pattern(node), conditions=partial(conditions, negation.machine))
            near = f", of which the nearest tells, {'ahead' if negation.looks_ahead else 'back'}" if sight else ""
            facts = tuple(("forbids", f"a match with {pair_text(compiled, pair)}{near}") for pair in forbids)
            views.setdefault(attrs.evolve(view, facts=facts))
    return tuple(views)


def _transition_conditions(compiled: Compiled, indexed: bool, machine: Machine, transition: Transition) -> list[str]:
    """The predicates of an edge, and in brackets the index that answers it."""
    lines: list[str] = []
    for edge in machine.edges:
        if (edge.source, edge.target) != (transition.source, transition.target):
            continue
        earlier, later = (compiled.name_of(machine.variables[state]) for state in (edge.source, edge.target))
        lines += [compared(compiled, comparison, earlier, later) for comparison in edge.comparisons]
        lines += [pair_of_rows(compiled.lists[number].predicate, earlier, later) for number in edge.listed]
        if indexed:
            lines.append(f"[{INDEXES[index_of_edge(compiled, edge)]}]")
    return lines


def _pair_facts(side: Operator) -> Iterable[tuple[str, str]]:
    compiled = side.compiled
    for pair in compiled.pairs:
        fixed = [pivot for pivot in side.spec.query.pivots if pivot in (pair.left_variable, pair.right_variable)]
        words = " and ".join(f"the event bound to {compiled.name_of(pivot)}" for pivot in fixed)
        yield "all pairs", pair_text(compiled, pair) + (f" (fixed: {words})" if fixed else "")
