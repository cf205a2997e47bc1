"""paths: trends of any length as the paths of graphs, each of which fixes one event of each of two pivots.

A depth-first search for trends fixes one pivot only. It tests the predicates that do not mention this pivot on the way,
and so may enter any number of dead ends. A graph that fixes both pivots has none.
"""

from __future__ import annotations

from cetdsl.ir.extraction import USUAL
from cetdsl.ir.kernel import ALL
from cetdsl.ir.machine import longest_trend
from cetdsl.ir.operators import ListPaths, Operator
from cetdsl.planning.extremes import with_extremes
from cetdsl.planning.listed_pairs import with_listed_pairs
from cetdsl.planning.pivots import MOST_PIVOTS, pivots_of
from cetdsl.planning.strategies.complete import CompleteRequest, build_graphs
from cetdsl.planning.strategies.enumerate import limited
from cetdsl.planning.strategies.request import Declined, TrendsRequest


def paths(request: TrendsRequest) -> Operator | Declined:
    """Lists the paths of a graph for each pair of pivot events; each pairwise predicate mentions one of the pivots."""
    if len(request.compiled) != 1:
        return Declined("AND at the top pairs two sets of trends")
    if request.resolved.is_stream:
        return Declined("on a stream a search lists what each trigger completes")
    compiled = with_extremes(with_listed_pairs(request.compiled[0], request.resolved))
    if len(pivots_of(compiled.machine, compiled.pairs)) != MOST_PIVOTS:
        return Declined("no two events of a trend are what all its pairwise predicates are about, or one is")
    if longest_trend(compiled.machine) > 0:
        return Declined("trends of a bounded length are found sooner by a search")
    asked = CompleteRequest(request.resolved, ALL, USUAL, request.columns, request.limit, request.compiled)
    built = build_graphs(compiled, asked)
    return built if isinstance(built, Declined) else limited(ListPaths(built, request.limit), request.limit)
