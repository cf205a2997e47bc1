"""event_graph: the graph of a query as an answer of its own."""

from __future__ import annotations

from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.errors import UnsupportedQuery, check_choice
from cetdsl.ir.kernel import ALL, NOT_NEIGHBOURS
from cetdsl.ir.operators import Scan, ShowGraph
from cetdsl.ir.windowing import SPAN
from cetdsl.pattern.nodes import And
from cetdsl.pattern.query import ANY
from cetdsl.planning.listed_pairs import with_listed_pairs
from cetdsl.planning.shadows import plan_shadows
from cetdsl.planning.sorting import who_sorts
from cetdsl.planning.strategies.complete import ENDS_RELATED, why_edges_do_not_tell
from cetdsl.planning.strategies.kernel import base_spec, why_not_propagate
from cetdsl.planning.strategies.request import compile_sides, source_of

#: What ``algorithm=`` may say.
GRAPH_ALGORITHMS = ("auto", "kernel", "joins")


def event_graph(resolved: ResolvedQuery, columns: tuple[str, ...], algorithm: str) -> ShowGraph:
    """Plans the graph of a rewritten query, whose vertices show these columns of each event.

    A query whose trends are not the paths of a graph is refused, and so are joins that cannot build it.
    """
    check_choice("algorithm", algorithm, GRAPH_ALGORITHMS)
    resolved.schema.refuse_duplicates(columns)
    if isinstance(resolved.query.pattern, And):
        raise _no_graph("AND at the top pairs two sets of trends")
    if resolved.query.matching != ANY:
        raise _no_graph(f"MATCHING {resolved.query.matching.upper()} is asked for, and a graph's paths skip any event")
    source = source_of(resolved)
    (compiled,) = compile_sides(resolved)
    compiled = with_listed_pairs(compiled, resolved)
    if compiled.pairs:
        raise _no_graph(NOT_NEIGHBOURS)
    reason = why_not_propagate(compiled, source)
    if reason is not None:
        raise _no_graph(reason)
    if source.windowing.kind == SPAN:
        raise _no_graph(ENDS_RELATED, "slide windows that hold the span, WITHIN l SLIDE s, or ")
    joined = algorithm == "joins"
    if joined and compiled.negations:
        raise UnsupportedQuery(
            "algorithm 'joins' cannot tell whether something that NOT forbids lies between two events",
            hint="use algorithm='kernel'",
        )
    spec = base_spec(source, compiled)
    if why_edges_do_not_tell(compiled, source, ALL) is not None:
        machine, shadows = plan_shadows(compiled.machine, ALL, span=False)
        spec = spec.with_query(machine=machine, shadows=shadows)
    sorting = who_sorts(source, compiled, columns=columns)
    return ShowGraph(Scan(source, compiled), spec, columns, joined, sorting)


def _no_graph(reason: str, instead: str = "") -> UnsupportedQuery:
    return UnsupportedQuery(
        f"the trends of this query are not the paths of a graph of events: {reason}",
        hint=f"{instead}list them with trends()",
    )
