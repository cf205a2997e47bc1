"""Asks each strategy in turn, cheapest first, and keeps the reasons of those that decline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import attrs

from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.errors import NoPhysicalPlan
from cetdsl.pattern.expressions import Aggregate
from cetdsl.planning.plans import PhysicalPlan
from cetdsl.planning.strategies.enumerate import enumerate_and_aggregate, list_trends
from cetdsl.planning.strategies.fold import fold
from cetdsl.planning.strategies.kernel import kernel
from cetdsl.planning.strategies.request import AggregateRequest, Declined, TrendsRequest, compile_sides

_Request = TypeVar("_Request")

AGGREGATE_STRATEGIES: tuple[Callable[[AggregateRequest], PhysicalPlan | Declined], ...] = (
    fold,
    kernel,
    enumerate_and_aggregate,
)
#: Strategies whose function cannot bear their name, because Python has a function of that name.
_NAMES: dict[object, str] = {enumerate_and_aggregate: "enumerate", list_trends: "enumerate"}
TREND_STRATEGIES: tuple[Callable[[TrendsRequest], PhysicalPlan | Declined], ...] = (list_trends,)


@attrs.frozen
class Decision:
    """A physical plan and how it came to be chosen.

    Attributes
    ----------
    plan : PhysicalPlan
    strategy : str
    declined : tuple of (str, str)
        The strategies asked before, and their reasons.
    """

    plan: PhysicalPlan
    strategy: str
    declined: tuple[tuple[str, str], ...]


def plan_aggregate(
    resolved: ResolvedQuery,
    aggregates: tuple[tuple[str, Aggregate], ...],
    number: str,
    strategies: Sequence[Callable[[AggregateRequest], PhysicalPlan | Declined]] = AGGREGATE_STRATEGIES,
) -> Decision:
    """The plan of an aggregation.

    Parameters
    ----------
    resolved : ResolvedQuery
        Rewritten.
    aggregates : tuple of (str, Aggregate)
        Names and aggregates of the output columns.
    number : {"decimal", "string", "double", "log2"}

    Raises
    ------
    NoPhysicalPlan
        If every strategy declines.
    """
    request = AggregateRequest(resolved, aggregates, number, compile_sides(resolved))
    return _first_plan(request, strategies)


def plan_trends(resolved: ResolvedQuery, columns: tuple[str, ...], limit: int | None) -> Decision:
    """The plan of an enumeration.

    Parameters
    ----------
    resolved : ResolvedQuery
        Rewritten.
    columns : tuple of str
        The columns of each event that the answer shows.
    limit : int or None
    """
    request = TrendsRequest(resolved, columns, limit, compile_sides(resolved))
    return _first_plan(request, TREND_STRATEGIES)


def _first_plan(request: _Request, strategies: Sequence[Callable[[_Request], PhysicalPlan | Declined]]) -> Decision:
    declined: list[tuple[str, str]] = []
    for strategy in strategies:
        plan = strategy(request)
        name = _NAMES.get(strategy, strategy.__name__)
        if not isinstance(plan, Declined):
            return Decision(plan, name, tuple(declined))
        declined.append((name, plan.reason))
    reasons = "; ".join(f"{name}: {reason}" for name, reason in declined)
    raise NoPhysicalPlan(
        f"no strategy can answer this query ({reasons})",
        hint="take the predicate that is named apart, or ask for each side of AND by itself",
    )
