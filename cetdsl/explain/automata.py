"""Patterns and their automata as views."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import attrs

from cetdsl.analysis.classify import adjacent_pair
from cetdsl.explain.svg import automaton_svg
from cetdsl.explain.view import FINAL, NOWHERE, STATE, PlanView, ViewEdge, ViewNode
from cetdsl.pattern.automaton import Automaton, Transition, build_automaton
from cetdsl.pattern.expressions import Expr
from cetdsl.pattern.nodes import And, Event, Not, Or, Pattern, Repeat, Seq, Within
from cetdsl.pattern.text import quote, quote_name, short_pattern

#: Gives lines of text that say under which conditions a transition may be taken.
Conditions = Callable[[Transition], Iterable[str]]


def automaton_view(
    automaton: Automaton,
    adjacent_predicates: Iterable[Expr] = (),
    title: str = "automaton",
    conditions: Conditions | None = None,
) -> PlanView:
    """The automaton of a pattern: one node per state, labelled by the variable that it binds.

    The ``adjacent_predicates`` relate consecutive events of a trend; each is shown on the arrows that it restricts.
    ``conditions`` gives further lines for an arrow; of these, lines in brackets come last.

    Examples
    --------
    >>> from cetdsl.explain.text import text_of
    >>> pattern = Seq((Event("A"), Not(Event("C")), Repeat(Event("B"))))
    >>> print(text_of(automaton_view(build_automaton(pattern))))
    A       begins a trend
      -> B  NOT C
    B       ends a trend
      -> B
    """
    predicates = [(adjacent_pair(predicate), quote(predicate)) for predicate in adjacent_predicates]
    names = automaton.variables
    labels = state_labels(automaton)
    final = dict(automaton.final)

    def guards_of(guards: Iterable[int]) -> list[str]:
        return [short_pattern(automaton.negations[guard]) for guard in sorted(guards)]

    def label(transition: Transition) -> str:
        pair = (names[transition.source], names[transition.target])
        lines = [text for where, text in predicates if where == pair]
        if conditions is not None:
            lines += conditions(transition)
        marks = [line for line in lines if line.startswith("[")]
        return "\n".join([line for line in lines if line not in marks] + guards_of(transition.guards) + marks)

    edges = [ViewEdge(NOWHERE, str(q), "\n".join(guards_of(guards))) for q, guards in automaton.initial]
    edges += [ViewEdge(str(t.source), str(t.target), label(t)) for t in automaton.transitions]
    edges += [ViewEdge(str(q), NOWHERE, "\n".join(guards_of(guards))) for q, guards in automaton.final if guards]
    nodes = [ViewNode(str(q), text, (), FINAL if q in final else STATE) for q, text in enumerate(labels)]
    return PlanView(title, tuple(nodes), tuple(edges))


def state_labels(automaton: Automaton) -> list[str]:
    """The variable of each state; numbered where several states bind the same one."""
    seen: dict[str, int] = {}
    labels = []
    for name in automaton.variables:
        seen[name] = seen.get(name, 0) + 1
        labels.append(f"{name} #{seen[name]}" if automaton.variables.count(name) > 1 else name)
    return labels


def draw_automaton(pattern: Pattern, adjacent_predicates: Iterable[Expr] = ()) -> str:
    """A picture of a pattern's automaton as an ``<svg>`` element; neither Graphviz nor a network is needed.

    Predicates between consecutive events are shown on the arrows that they restrict. The title, for screen readers, is
    the pattern's text.

    Examples
    --------
    >>> draw_automaton(Seq((Event("A"), Repeat(Event("B")))))[:4]
    '<svg'
    """
    return automaton_svg(automaton_view(build_automaton(pattern), adjacent_predicates, short_pattern(pattern)))


def pattern_view(pattern: Pattern, title: str, text: str = "") -> PlanView:
    """The tree of a pattern.

    Examples
    --------
    >>> view = pattern_view(Seq((Event("A"), Repeat(Event("B")))), "pattern")
    >>> [node.label for node in view.nodes]
    ['SEQ', 'A', '+', 'B']
    """
    nodes: list[ViewNode] = []
    edges: list[ViewEdge] = []

    def add(node: Pattern) -> str:
        identity = str(len(nodes))
        nodes.append(ViewNode(identity, _operator(node), _conditions_of(node)))
        for child in node.children:
            edges.append(ViewEdge(identity, add(child)))
        return identity

    add(pattern)
    return PlanView(title, tuple(nodes), tuple(edges), (), text, from_root=True)


def _operator(node: Pattern) -> str:
    if isinstance(node, Event):
        return quote_name(node.variable)
    if isinstance(node, Repeat):
        # The quantifier alone: what follows the repeated part in the text.
        return quote(attrs.evolve(node, part=Event("x", type="x")))[1:]
    if isinstance(node, Within):
        return f"WITHIN {node.length}"
    return {Seq: "SEQ", Or: "OR", And: "AND", Not: "NOT"}[type(node)]


def _conditions_of(node: Pattern) -> tuple[str, ...]:
    if not isinstance(node, Event):
        return ()
    lines = [f"type {quote_name(node.type)}"] if node.type is not None and node.type != node.variable else []
    return tuple(lines if node.condition is None else [*lines, quote(node.condition)])
