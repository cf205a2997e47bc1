"""What a query means and how it runs: views as data first, then as text, DOT and HTML."""

from __future__ import annotations

from cetdsl.explain.automata import automaton_view, draw_automaton, pattern_view
from cetdsl.explain.graphviz import dot_of
from cetdsl.explain.html import page_of
from cetdsl.explain.stages import STAGES, Explanation, explain_query
from cetdsl.explain.svg import svg_of
from cetdsl.explain.text import text_of
from cetdsl.explain.view import PlanView, ViewEdge, ViewNode

__all__ = [
    "STAGES",
    "Explanation",
    "PlanView",
    "ViewEdge",
    "ViewNode",
    "automaton_view",
    "dot_of",
    "draw_automaton",
    "explain_query",
    "page_of",
    "pattern_view",
    "svg_of",
    "text_of",
]
