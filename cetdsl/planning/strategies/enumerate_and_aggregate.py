"""enumerate, for aggregates: lists the trends and aggregates them."""

from __future__ import annotations

from cetdsl.ir.operators import AggregateTrends, Operator, Scan
from cetdsl.pattern.properties import has_sides_apart
from cetdsl.planning.listed_pairs import with_listed_pairs
from cetdsl.planning.strategies.detect import by_plans
from cetdsl.planning.strategies.enumerate import any_trends, columns_in, joined
from cetdsl.planning.strategies.request import AggregateRequest, Declined, TrendsRequest, source_of


def enumerate_and_aggregate(request: AggregateRequest) -> Operator | Declined:
    """Lists all trends and aggregates them, as a last resort: its cost grows with the number of trends."""
    trends = _pairs(request) if request.is_pair else _trends(request)
    return trends if isinstance(trends, Declined) else AggregateTrends(trends, request.aggregates, request.number)


def _trends(request: AggregateRequest) -> Operator:
    source, compiled = source_of(request.resolved), with_listed_pairs(request.compiled[0], request.resolved)
    needed = columns_in((*compiled.unfinished, *(aggregate for _, aggregate in request.aggregates)))
    return any_trends(Scan(source, compiled), needed or {source.time})


def _pairs(request: AggregateRequest) -> Operator | Declined:
    """The trends of all sides of an AND, put together in the kernel if they can be, and else joined by Spark."""
    if not has_sides_apart(request.resolved.query.pattern):
        return Declined("both sides of AND share a variable, so a listing would not tell which trends both match")
    source, columns = source_of(request.resolved), columns_in(aggregate for _, aggregate in request.aggregates)
    asked = TrendsRequest(request.resolved, (), None, request.compiled)
    trends = by_plans(asked, lambda subject: any_trends(Scan(source, subject.compiled), columns or {source.time}))
    return joined(request, source, columns) if isinstance(trends, Declined) else trends
