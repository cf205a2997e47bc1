"""paths: trends of any length as the paths of graphs, each about two events that pairwise predicates are about.

A search for trends goes by one pivot. Predicates that are not about it are tested on the path, where it may enter any
number of paths that no trend goes on. A graph about both pivots has no such paths.
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
    """Lists the paths of a graph for each two events of pivots that the pairwise predicates are about together."""
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
