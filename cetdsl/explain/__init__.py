"""Explains the meaning of a query and how it runs: views as data first, then as text, DOT and HTML."""

from cetdsl.explain.automata import draw_automaton as draw_automaton
from cetdsl.explain.stages import Explanation as Explanation
from cetdsl.explain.stages import explain_query as explain_query
