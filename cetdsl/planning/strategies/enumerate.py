"""enumerate: lists the trends, tests the predicates that need a finished trend, and aggregates them."""

from __future__ import annotations

from collections.abc import Iterable

from cetdsl.ir.operators import AggregateTrends, CheckTrends, JoinSides, Limit, ListTrends, Operator, Scan, ShowTrends
from cetdsl.ir.source import Source
from cetdsl.pattern.expressions import Expr, attributes
from cetdsl.planning.strategies.kernel import base_spec
from cetdsl.planning.strategies.request import AggregateRequest, Declined, TrendsRequest, source_of


def enumerate_and_aggregate(request: AggregateRequest) -> Operator | Declined:
    """Lists all trends and aggregates them, as a last resort: its cost grows with the number of trends."""
    if request.is_pair:
        return Declined("AND at the top would pair all trends of one side with all of the other")
    source, compiled = source_of(request.resolved), request.compiled[0]
    needed = columns_in((*compiled.unfinished, *(aggregate for _, aggregate in request.aggregates)))
    trends = any_trends(Scan(source, compiled), needed or {source.time})
    return AggregateTrends(trends, request.aggregates, request.number)


def list_trends(request: TrendsRequest) -> Operator:
    """Enumerates trends depth first inside the kernel, streamed in Arrow batches."""
    source = source_of(request.resolved)
    if len(request.compiled) == 2:
        return limited(_pairs(request, source), request.limit)
    scan = Scan(source, request.compiled[0])
    if scan.compiled.unfinished:
        return limited(ShowTrends(any_trends(scan, request.columns), request.columns), request.limit)
    spec = base_spec(source, scan.compiled)
    listed = ListTrends(scan, spec, request.columns, request.limit, named=True)
    return limited(listed, request.limit)


def _pairs(request: TrendsRequest, source: Source) -> Operator:
    """Pairs the trends of both sides; as they become one array, their events carry the same columns."""
    left, right = request.compiled
    order = (source.time, *source.tie_break)
    needed = {*request.columns, *order, *columns_in((*left.unfinished, *right.unfinished))}
    sides = [any_trends(Scan(source, *side), needed) for side in ((left, "left side"), (right, "right side"))]
    distinct = not set(left.automaton.variables) & set(right.automaton.variables)
    return ShowTrends(JoinSides(sides[0], sides[1], distinct), request.columns)


def any_trends(scan: Scan, columns: Iterable[str], *, identified: bool = False) -> Operator:
    """Lists all trends with at least these columns of their events, under internal names; see :class:`ListTrends`."""
    source, unfinished = scan.source, scan.compiled.unfinished
    needed = {*columns, *columns_in(unfinished)}
    shown = tuple(name for name in source.schema.names if name in needed)
    listed = ListTrends(scan, base_spec(source, scan.compiled), shown, identified=identified)
    return CheckTrends(listed) if unfinished else listed


def columns_in(terms: Iterable[Expr]) -> set[str]:
    """Returns the columns that some terms mention."""
    return {node.name for term in terms for node in attributes(term)}


def limited(plan: Operator, limit: int | None) -> Operator:
    """Limits a plan to so many rows."""
    return plan if limit is None else Limit(plan, limit)
