"""Explains what a query means and how it runs: makes views, which are data, and writes them as text, DOT or HTML."""

from cetdsl.explain.automata import draw_automaton as draw_automaton
from cetdsl.explain.stages import Explanation as Explanation
from cetdsl.explain.stages import explain_query as explain_query
