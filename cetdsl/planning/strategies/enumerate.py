"""enumerate: lists the trends, and tests the predicates that need a finished trend."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from cetdsl.errors import UnsupportedQuery
from cetdsl.ir.compiled import Compiled
from cetdsl.ir.machine import longest_trend
from cetdsl.ir.operators import CheckTrends, JoinSides, Limit, ListTrends, Operator, Scan, ShowTrends
from cetdsl.ir.source import Source
from cetdsl.pattern.expressions import Expr, attributes, variables
from cetdsl.pattern.nodes import And
from cetdsl.pattern.properties import has_sides_apart
from cetdsl.planning.extremes import with_extreme
from cetdsl.planning.listed_pairs import with_listed_pairs
from cetdsl.planning.pivots import search_pivot
from cetdsl.planning.strategies.kernel import base_spec
from cetdsl.planning.strategies.request import AggregateRequest, TrendsRequest, source_of


def list_trends(request: TrendsRequest) -> Operator:
    """Enumerates trends depth first inside the kernel, streamed in Arrow batches."""
    request = with_lists(request)
    compiled = tuple(_searched(each, request) for each in request.compiled)
    return list_as_compiled(attrs.evolve(request, compiled=compiled))


def with_lists(request: TrendsRequest) -> TrendsRequest:
    """Returns a request with lists in place of pairwise predicates that do not split, where that pays."""
    compiled = tuple(_with_lists(each, request) for each in request.compiled)
    return attrs.evolve(request, compiled=compiled)


def _with_lists(compiled: Compiled, request: TrendsRequest) -> Compiled:
    if request.resolved.is_stream:
        return compiled  # for lists Spark has to read kept events, and then keeps them once for each window
    if request.limit is not None and longest_trend(compiled.machine) > 0:
        return compiled  # finding a few short trends takes less time than testing all pairs of events
    return with_listed_pairs(compiled, request.resolved)


def _searched(compiled: Compiled, request: TrendsRequest) -> Compiled:
    """Returns the query with an extreme event as its pivot, if the search can begin with this event."""
    if isinstance(request.resolved.query.pattern, And):
        return compiled
    found = with_extreme(compiled)
    windows = source_of(request.resolved).windowing.kind
    return found if search_pivot(found.machine, found.pairs, windows) >= 0 else compiled


def list_as_compiled(request: TrendsRequest) -> Operator:
    """Enumerates trends; Spark tests the predicates that no kernel evaluates on each finished trend."""
    source = source_of(request.resolved)
    if isinstance(request.resolved.query.pattern, And):
        return limited(ShowTrends(list_together(request, request.columns), request.columns), request.limit)
    scan = Scan(source, request.compiled[0])
    if scan.compiled.unfinished:
        return limited(ShowTrends(any_trends(scan, request.columns), request.columns), request.limit)
    spec = base_spec(source, scan.compiled)
    listed = ListTrends(scan, spec, request.columns, request.limit, named=True)
    return limited(listed, request.limit)


def list_together(request: TrendsRequest, columns: Iterable[str]) -> Operator:
    """Lists the trends of an AND, one of each side, with at least these columns of their events; see :func:`joined`."""
    if not has_sides_apart(request.resolved.query.pattern):
        raise UnsupportedQuery(
            "trends() cannot list the pairs of an AND whose sides share a variable",
            hint="give the two sides different variable names, or count the pairs with count_trends()",
        )
    return joined(request, source_of(request.resolved), set(columns))


def joined(request: AggregateRequest | TrendsRequest, source: Source, columns: set[str]) -> Operator:
    """Joins the trends of all sides of an AND, which have no variable in common; all events show the same columns."""
    query, compiled = request.resolved.query, request.compiled
    relating = [p for p in query.where if not any(set(variables(p)) <= _bound(side) for side in compiled)]
    own = (term for side in compiled for term in side.unfinished)
    needed = {*columns, source.time, *source.tie_break, *columns_in((*own, *relating))}
    names = ("left side", "right side") if len(compiled) == 2 else [f"side {n}" for n in range(1, len(compiled) + 1)]
    first, *others = (any_trends(Scan(source, side, name), needed) for side, name in zip(compiled, names, strict=True))
    plan, bound = first, _bound(compiled[0])
    for side, trends in zip(compiled[1:], others, strict=True):
        bound |= _bound(side)
        known = tuple(p for p in relating if set(variables(p)) <= bound)
        relating = [p for p in relating if p not in known]
        plan = JoinSides(plan, trends, known)
    return plan


def _bound(compiled: Compiled) -> set[str]:
    return {name for name, _ in compiled.variables}


def any_trends(scan: Scan, columns: Iterable[str], *, identified: bool = False) -> Operator:
    """Lists all trends with at least these columns of their events, under internal names; see :class:`ListTrends`."""
    source, unfinished = scan.source, scan.compiled.unfinished
    shown = source.schema.in_order({*columns, *columns_in(unfinished)})
    listed = ListTrends(scan, base_spec(source, scan.compiled), shown, identified=identified)
    return CheckTrends(listed) if unfinished else listed


def columns_in(terms: Iterable[Expr]) -> set[str]:
    """Returns the columns that some terms mention."""
    return {node.name for term in terms for node in attributes(term)}


def limited(plan: Operator, limit: int | None) -> Operator:
    """Limits a plan to ``limit`` rows."""
    return plan if limit is None else Limit(plan, limit)
