"""Makes the HTML that notebooks show for queries, workloads and graphs of events, without running a job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import attrs

from cetdsl.analysis.classify import adjacent_pair
from cetdsl.analysis.lengths import unlimited
from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.errors import CetdslError
from cetdsl.explain.automata import automaton_view
from cetdsl.explain.html import fragment_of
from cetdsl.explain.physical import plan_automata
from cetdsl.explain.stages import events_facts
from cetdsl.explain.svg import MAX_DRAWN
from cetdsl.explain.view import PlanView
from cetdsl.ir.operators import ShowGraph
from cetdsl.pattern.automaton import build_automaton
from cetdsl.pattern.expressions import Expr
from cetdsl.pattern.nodes import Pattern, events
from cetdsl.pattern.properties import sides
from cetdsl.pattern.query import Query
from cetdsl.pattern.text import short_pattern, unparse, unparse_pattern

#: How many queries of a workload are shown as texts, and how many as automata.
_LISTED, _DRAWN = 50, 6
#: The DataFrames of a graph of events, and what each holds.
_OF_GRAPHS = (
    ("vertices", "an event at a position of the pattern: keys, id, position, number, first, last, source, sink, event"),
    ("edges", "src and dst, the ids of neighbours in some trend"),
    ("attribute_vertices", "values, and ranges of them, that stand for most edges; from_edges and to_edges lead there"),
    ("direct_edges", "the edges that no attribute vertices stand for"),
)


def pattern_fragment(pattern: Pattern) -> str:
    """A pattern: its text and its automaton.

    Examples
    --------
    >>> from cetdsl.pattern.nodes import Event, Repeat
    >>> html = pattern_fragment(Repeat(Event("A", "A")))
    >>> "<svg" in html, "A+" in html
    (True, True)
    """
    return fragment_of([("pattern", _said(unparse_pattern(pattern, lenient=True), _automata(pattern)))])


def query_fragment(query: Query) -> str:
    """A query that is not bound to a DataFrame: its text and its automaton."""
    return fragment_of([("query", _query_views(query))])


def bound_fragment(query: Query, resolved: ResolvedQuery) -> str:
    """A query of the events of a DataFrame: its text, its automaton, and how the events are read."""
    asks = "count_trends(), aggregate(...), trends(); explain() says how they run, diagnose() why there are none"
    views = _query_views(query)
    events_view = PlanView("events", facts=(*events_facts(resolved), ("ask", asks)))
    return fragment_of([("query of a DataFrame", (*views, events_view))])


def workload_fragment(queries: Mapping[str, Query], returns: bool) -> str:
    """Queries that are answered together: their texts, and the automata of the first ones.

    ``returns`` says whether they ask for aggregates.
    """
    lines = [(name, " ".join(unparse(query, lenient=True).split())) for name, query in list(queries.items())[:_LISTED]]
    if len(queries) > _LISTED:
        lines.append(("...", f"and {len(queries) - _LISTED} more"))
    asks = "aggregate(), results()" if returns else "trends(), results()"
    lines.append(("ask", f"{asks}; explain() says what they share"))
    drawn = [
        attrs.evolve(view, title=name)
        for name, query in list(queries.items())[:_DRAWN]
        for view in _automata(query.pattern)
    ]
    return fragment_of([("workload", (PlanView("queries", facts=tuple(lines)), *drawn))])


def graph_fragment(plan: ShowGraph) -> str:
    """A graph of events: the automaton along which its edges lead, and what its DataFrames hold."""
    return fragment_of([("graph of events", (*_drawn(plan_automata(plan)), PlanView("DataFrames", facts=_OF_GRAPHS)))])


def _query_views(query: Query) -> tuple[PlanView, ...]:
    predicates = [part for part in query.where if adjacent_pair(part) is not None]
    return _said(unparse(query, lenient=True), _automata(query.pattern, predicates))


def _said(text: str, automata: tuple[PlanView, ...]) -> tuple[PlanView, ...]:
    """A text before the pictures that belong to it."""
    return (PlanView("text", text=text), *automata)


def _automata(pattern: Pattern, predicates: Sequence[Expr] = ()) -> tuple[PlanView, ...]:
    """Returns the automaton of a pattern, or those of the sides of an AND; none if it is too large or has an error."""
    if len(list(events(pattern))) > MAX_DRAWN:
        return ()
    try:
        parts = sides(unlimited(pattern))
        found = [automaton_view(build_automaton(part), predicates, _title(part, len(parts) > 1)) for part in parts]
    except CetdslError:
        return ()
    return _drawn(found)


def _drawn(views: Iterable[PlanView]) -> tuple[PlanView, ...]:
    """The views that are small enough for a picture."""
    return tuple(view for view in views if len(view.nodes) <= MAX_DRAWN)


def _title(part: Pattern, is_side: bool) -> str:
    return f"automaton of {short_pattern(part)}" if is_side else "automaton"
