"""Asks each strategy in turn, cheapest first, and keeps the reasons of those that decline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import attrs

from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.errors import NoPhysicalPlan, UnsupportedQuery
from cetdsl.ir.operators import Operator, with_exchanges
from cetdsl.pattern.expressions import Aggregate
from cetdsl.planning.strategies.complete import (
    IN_TASK,
    CompleteRequest,
    CountRequest,
    SampleRequest,
    SurveyRequest,
    TopRequest,
    balanced,
    count_definition,
    count_paths,
    definition,
    graph,
    joins,
    sample_definition,
    sample_paths,
    survey_graphs,
    top_definition,
    top_paths,
)
from cetdsl.planning.strategies.enumerate import enumerate_and_aggregate, list_trends
from cetdsl.planning.strategies.fold import fold
from cetdsl.planning.strategies.kernel import kernel
from cetdsl.planning.strategies.panes import panes
from cetdsl.planning.strategies.request import AggregateRequest, Declined, TrendsRequest, compile_sides

_Request = TypeVar("_Request")

AGGREGATE_STRATEGIES: tuple[Callable[[AggregateRequest], Operator | Declined], ...] = (
    fold,
    panes,
    kernel,
    enumerate_and_aggregate,
)
#: Strategies whose function does not bear their name.
_NAMES: dict[object, str] = {
    enumerate_and_aggregate: "enumerate",
    list_trends: "enumerate",
    count_paths: "graph",
    count_definition: "definition",
    sample_paths: "graph",
    sample_definition: "definition",
    top_paths: "graph",
    top_definition: "definition",
    survey_graphs: "graph",
}
TREND_STRATEGIES: tuple[Callable[[TrendsRequest], Operator | Declined], ...] = (list_trends,)
COMPLETE_STRATEGIES: dict[str, tuple[Callable[[CompleteRequest], Operator | Declined], ...]] = {
    "auto": (balanced, graph, definition),
    "balanced": (balanced,),
    "joins": (joins,),
    "definition": (definition,),
    **dict.fromkeys(IN_TASK, (graph,)),
}


@attrs.frozen
class Decision:
    """A physical plan, its strategy, and the strategies asked before that declined, with their reasons.

    The plan is a tree, with exchanges where its operators require them.
    """

    plan: Operator
    strategy: str
    declined: tuple[tuple[str, str], ...]


def plan_aggregate(
    resolved: ResolvedQuery,
    aggregates: tuple[tuple[str, Aggregate], ...],
    number: str,
    strategies: Sequence[Callable[[AggregateRequest], Operator | Declined]] = AGGREGATE_STRATEGIES,
) -> Decision:
    """The plan of an aggregation, for a rewritten query and the names and aggregates of the output columns.

    Raises
    ------
    NoPhysicalPlan
        If every strategy declines.
    """
    request = AggregateRequest(resolved, aggregates, number, compile_sides(resolved))
    return _first_plan(request, strategies)


def plan_trends(resolved: ResolvedQuery, columns: tuple[str, ...], limit: int | None) -> Decision:
    """The plan of an enumeration that shows these columns of each event of at most so many trends."""
    request = TrendsRequest(resolved, columns, limit, compile_sides(resolved))
    return _first_plan(request, TREND_STRATEGIES)


def plan_complete(request: CompleteRequest) -> Decision:
    """The plan of listing complete trends.

    Raises
    ------
    UnsupportedQuery
        If the algorithm that was asked for cannot take the query.
    """
    strategies = COMPLETE_STRATEGIES[request.algorithm]
    if request.algorithm in ("auto", "definition"):
        return _first_plan(request, strategies)
    plan = strategies[0](request)
    if isinstance(plan, Declined):
        raise UnsupportedQuery(
            f"algorithm {request.algorithm!r} follows the edges of a graph of events, and this query has none: "
            f"{plan.reason}",
            hint="use algorithm='auto' or 'definition': all trends are listed, and those that others contain dropped",
        )
    return Decision(with_exchanges(plan), strategies[0].__name__, ())


def plan_count_complete(request: CountRequest) -> Decision:
    """The plan of counting complete trends."""
    return _first_plan(request, (count_paths, count_definition))


def plan_sample(request: CompleteRequest, size: int, seed: int) -> Decision:
    """The plan of drawing so many trends."""
    return _first_plan(SampleRequest(request, size, seed), (sample_paths, sample_definition))


def plan_top(request: CompleteRequest, size: int, by: Aggregate, name: str) -> Decision:
    """The plan of finding the heaviest trends; ``name`` is the column that shows what they weigh."""
    return _first_plan(TopRequest(request, size, by, name), (top_paths, top_definition))


def plan_survey(request: CompleteRequest, measured: bool) -> Decision:
    """The plan of a survey of the graphs that complete trends are listed from."""
    return _first_plan(SurveyRequest(request, measured), (survey_graphs,))


def _first_plan(request: _Request, strategies: Sequence[Callable[[_Request], Operator | Declined]]) -> Decision:
    declined: list[tuple[str, str]] = []
    for strategy in strategies:
        plan = strategy(request)
        name = _NAMES.get(strategy, strategy.__name__)
        if not isinstance(plan, Declined):
            return Decision(with_exchanges(plan), name, tuple(declined))
        declined.append((name, plan.reason))
    reasons = "; ".join(f"{name}: {reason}" for name, reason in declined)
    raise NoPhysicalPlan(
        f"no strategy can answer this query ({reasons})",
        hint="take the predicate that is named apart, or ask for each side of AND by itself",
    )
