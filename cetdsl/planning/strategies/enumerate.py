"""enumerate: list the trends, test what only a finished trend can be tested for, and aggregate them."""

from __future__ import annotations

from cetdsl.pattern.expressions import Attribute
from cetdsl.planning.plans import AggregateTrends, EnumerateTrends, PairTrends, PhysicalPlan
from cetdsl.planning.strategies.kernel import base_spec
from cetdsl.planning.strategies.request import AggregateRequest, Declined, TrendsRequest, source_of


def enumerate_and_aggregate(request: AggregateRequest) -> PhysicalPlan | Declined:
    """The last resort of aggregation: its cost grows with the number of trends."""
    if request.is_pair:
        return Declined("AND at the top would pair all trends of one side with all of the other")
    needed = {
        node.name
        for term in (*request.compiled[0].residual, *(a for _, a in request.aggregates))
        for node in term.walk()
        if isinstance(node, Attribute)
    }
    names = request.resolved.schema.names
    columns = tuple(name for name in names if name in needed) or (request.resolved.time.name,)
    trends = list_trends(TrendsRequest(request.resolved, columns, None, request.compiled))
    assert isinstance(trends, EnumerateTrends)
    return AggregateTrends(trends, request.aggregates, request.number)


def list_trends(request: TrendsRequest) -> PhysicalPlan | Declined:
    """Depth-first enumeration inside the kernel, streamed in Arrow batches."""
    source = source_of(request.resolved)
    plans = [
        EnumerateTrends(source, compiled, base_spec(source, compiled), request.columns, request.limit)
        for compiled in request.compiled
    ]
    if len(plans) == 1:
        return plans[0]
    left, right = (set(compiled.automaton.variables) for compiled in request.compiled)
    return PairTrends(plans[0], plans[1], not left & right, request.limit)
