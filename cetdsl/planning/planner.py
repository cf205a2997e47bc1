"""Asks each strategy in turn, cheapest first, and keeps the reasons of those that decline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.errors import NoPhysicalPlan, StreamingNotSupported, UnsupportedQuery, shown
from cetdsl.ir.emission import EAGER, FINAL
from cetdsl.ir.operators import Fold, Operator, ReadAgain
from cetdsl.ir.sorting import INPUT, KERNEL, RUNS
from cetdsl.pattern.expressions import Aggregate
from cetdsl.pattern.nodes import And
from cetdsl.pattern.properties import has_sides_apart
from cetdsl.pattern.query import ANY
from cetdsl.planning.detection import BY_DEFAULT, Detection
from cetdsl.planning.sorting import exchanged, why_not_sorted_by_kernel
from cetdsl.planning.strategies import complete
from cetdsl.planning.strategies.choose import choose, measure_choice
from cetdsl.planning.strategies.detect import detect, measure, sample
from cetdsl.planning.strategies.enumerate import list_trends
from cetdsl.planning.strategies.enumerate_and_aggregate import enumerate_and_aggregate
from cetdsl.planning.strategies.fold import fold
from cetdsl.planning.strategies.join_events import join_events
from cetdsl.planning.strategies.kernel import kernel
from cetdsl.planning.strategies.match import match
from cetdsl.planning.strategies.messages import messages
from cetdsl.planning.strategies.panes import multiplied_as_read, panes
from cetdsl.planning.strategies.paths import paths
from cetdsl.planning.strategies.request import AggregateRequest, Declined, TrendsRequest, compile_sides, unknown_size
from cetdsl.planning.strategies.sweep import sweep
from cetdsl.planning.streams import ASK_APART, ASK_FINAL, ASK_LATER, by_bucket, refuse_eager, why_not_on_stream

_Strategy = Callable[[Any], Operator | Declined]
_Strategies = Sequence[_Strategy]

#: The strategies of aggregates, in the order in which they are asked.
AGGREGATE_STRATEGIES: _Strategies = (fold, panes, sweep, messages, kernel, enumerate_and_aggregate)
#: The strategies that list trends.
TRENDS_STRATEGIES: _Strategies = (detect, choose, paths, list_trends)
#: The strategies that list complete trends, by ``algorithm=``.
COMPLETE_STRATEGIES: dict[str, _Strategies] = {
    "auto": (complete.balanced, complete.graph, complete.candidates, complete.definition),
    "balanced": (complete.balanced,),
    "joins": (complete.joins,),
    "definition": (complete.definition,),
    **dict.fromkeys(complete.IN_TASK, (complete.graph,)),
    "anchors": (complete.anchors,),
}
#: The strategies of the other requests about complete trends, by the class of the request.
COMPLETE_REQUEST_STRATEGIES: dict[type, _Strategies] = {
    complete.CountRequest: (complete.count_paths, complete.count_candidates, complete.count_definition),
    complete.SampleRequest: (complete.sample_paths, complete.sample_candidates, complete.sample_definition),
    complete.TopRequest: (complete.top_paths, complete.top_candidates, complete.top_definition),
    complete.SurveyRequest: (complete.survey_graphs,),
}
#: The strategies that respect the matching policy, which says what events a trend may skip: those whose kernels go from
#: an event to the next one by the comparisons of an edge. All others assume that a trend may skip any event.
UNDER_EVERY_POLICY: frozenset[_Strategy] = frozenset(
    (
        kernel,
        enumerate_and_aggregate,
        list_trends,
        complete.definition,
        complete.count_definition,
        complete.sample_definition,
        complete.top_definition,
    )
)
#: The strategies, by the class of the request, for a group beyond a task's memory.
JOINED_STRATEGIES: dict[type, Callable[[Any], Operator | Declined]] = {
    complete.CountRequest: complete.count_joins,
    complete.SampleRequest: complete.sample_joins,
}
#: The names of the strategies that are not called like their function.
STRATEGY_NAMES: dict[object, str] = {
    measure: "detect",
    join_events: "event joins",
    **dict.fromkeys((enumerate_and_aggregate, list_trends), "enumerate"),
    **dict.fromkeys((complete.count_joins, complete.sample_joins), "joins"),
    **dict.fromkeys((complete.count_paths, complete.sample_paths, complete.top_paths, complete.survey_graphs), "graph"),
    **dict.fromkeys((complete.count_candidates, complete.sample_candidates, complete.top_candidates), "candidates"),
    **dict.fromkeys((complete.count_definition, complete.sample_definition, complete.top_definition), "definition"),
}


@attrs.frozen
class Decision:
    """A physical plan, its strategy, and the strategies asked before that declined, with their reasons.

    The plan is a tree, with exchanges where its operators require them. ``unused`` says which wishes of the user the
    plan does not follow, and why: a detection plan, an adaptation or a way to sort. ``reason`` says why Spark's joins
    are used although the user did not ask for them.
    """

    plan: Operator
    strategy: str
    declined: tuple[tuple[str, str], ...]
    unused: str | None = None
    reason: str | None = None


def plan_aggregate(
    resolved: ResolvedQuery,
    aggregates: tuple[tuple[str, Aggregate], ...],
    number: str,
    strategies: _Strategies = AGGREGATE_STRATEGIES,
    bytes_read: Callable[[], int | None] = unknown_size,
) -> Decision:
    """Plans an aggregation, given a rewritten query and the names and aggregates of the output columns.

    ``bytes_read`` estimates the bytes of all events, or returns None. :class:`NoPhysicalPlan` is raised if every
    strategy declines.
    """
    resolved = by_bucket(resolved)
    request = AggregateRequest(resolved, aggregates, number, compile_sides(resolved), bytes_read)
    decision = _first_plan(request, strategies)
    return attrs.evolve(decision, unused=_sort_in_vain(request, decision.plan))


def _sort_in_vain(request: AggregateRequest, plan: Operator) -> str | None:
    """Returns why events are not sorted, or left unsorted, as requested; None if they are, or nothing was requested."""
    by = request.resolved.sort.by
    if by in (KERNEL, RUNS) and isinstance(plan, Fold):
        return f"sort={by!r}: {why_not_sorted_by_kernel(plan.source)}"
    if by != INPUT or any(isinstance(operator, ReadAgain) for operator in plan.walk()):
        return None
    found = multiplied_as_read(request)
    return f"sort={INPUT!r}: {found.reason}" if isinstance(found, Declined) else None


def plan_trends(
    resolved: ResolvedQuery, columns: tuple[str, ...], limit: int | None, detection: Detection = BY_DEFAULT
) -> Decision:
    """Plans an enumeration of at most ``limit`` trends, which shows these columns of each event."""
    if resolved.emit == EAGER:
        refuse_eager(resolved)
    request = TrendsRequest(resolved, columns, limit, compile_sides(resolved), detection)
    if detection.algorithm != "joins":
        decision = _well_named(_first_plan(request, TRENDS_STRATEGIES), columns)
        return _with_unused(decision, _asked_in_vain(request, decision), _input_of_trends_in_vain(resolved))
    decision = _asked_for(
        join_events,
        request,
        "algorithm 'joins' cannot put these trends together",
        "use algorithm='auto', which lists the trends of any query within tasks",
    )
    return _well_named(decision, columns)


def _well_named(decision: Decision, columns: tuple[str, ...]) -> Decision:
    """Returns the decision; raises if the answer, or an event in it, would have two columns of one name.

    The events show ``columns``.
    """
    decision.plan.source.schema.refuse_duplicates(columns)
    return _with_keys_apart(decision)


def _with_keys_apart(decision: Decision) -> Decision:
    """Returns the decision; raises if a key has the name of one of the answer's own columns."""
    source = decision.plan.source
    source.schema.refuse_clashing_keys(source.shown_keys, decision.plan.gives[len(source.shown_keys) :])
    return decision


def _with_unused(decision: Decision, *reasons: str | None) -> Decision:
    """Adds the reasons why a request is not followed, where there are any."""
    return attrs.evolve(decision, unused="; ".join(filter(None, (decision.unused, *reasons))) or None)


def _input_of_trends_in_vain(resolved: ResolvedQuery) -> str | None:
    """Returns why a listing of trends shuffles its events although the user declared that they are in order."""
    if resolved.sort.by != INPUT:
        return None
    return f"sort={INPUT!r}: only aggregates are products of what each task reads, and trends may lie in several"


def plan_matches(resolved: ResolvedQuery, columns: tuple[str, ...], limit: int | None) -> Decision:
    """Plans at most ``limit`` matches of a rewritten query, found in succession, as trends that show columns."""
    decision = _well_named(Decision(exchanged(match(resolved, columns, limit)), strategy_name(match), ()), columns)
    return _with_unused(decision, _input_of_trends_in_vain(resolved))


def _asked_in_vain(request: TrendsRequest, decision: Decision) -> str | None:
    """Returns which requested plan or adaptation the decision ignores, why, and what is done instead; None: neither."""
    detection, reason = request.detection, dict(decision.declined).get(strategy_name(detect))
    asked = [f"plan {shown(detection.plan)}"] if detection.plan not in ("auto", "pattern") else []
    asked += [f"adaptation {detection.adaptation.method!r}"] if detection.adapts else []
    if reason is None or not asked:
        return None
    if len(request.compiled) > 1:
        done = "the trends of its sides are joined"
    elif decision.strategy == strategy_name(paths):
        done = "paths of graphs are listed"
    else:
        done = "the order of the pattern is taken"
    return f"{' and '.join(asked)}: {reason}, so {done}"


def plan_measuring(resolved: ResolvedQuery, detection: Detection) -> Decision:
    """Plans a report on how a plan puts the trends together; raises UnsupportedQuery if they have no plan."""
    return _asked_for(
        measure,
        _all_trends(resolved, detection),
        "these trends are not put together by a plan",
        "plan='greedy' or an adaptation makes a plan of each pattern that can have one; "
        "explain('trends') says how trends are found",
    )


def plan_measuring_choice(resolved: ResolvedQuery, detection: Detection) -> Operator:
    """Plans a report on the orders that the kernel chooses to put trends together."""
    found = measure_choice(_all_trends(resolved, detection))
    assert not isinstance(found, Declined), "this is how the trends are listed"
    return exchanged(found)


def plan_sampling(resolved: ResolvedQuery, detection: Detection) -> Operator | None:
    """Plans a pass that takes statistics of the events; None if no plan can put the trends together."""
    found = sample(_all_trends(resolved, detection))
    return None if isinstance(found, Declined) else exchanged(found)


def _all_trends(resolved: ResolvedQuery, detection: Detection) -> TrendsRequest:
    """Requests all trends, with only the time of their events."""
    return TrendsRequest(resolved, (resolved.time.name,), None, compile_sides(resolved), detection)


def plan_complete(request: complete.Request) -> Decision:
    """Plans the listing of complete trends, or another request about them.

    :class:`UnsupportedQuery` is raised if the requested algorithm cannot answer the query.
    """
    if isinstance(request, (complete.CountRequest, complete.SampleRequest, complete.TopRequest)):
        asked = attrs.evolve(request.complete, resolved=by_bucket(request.complete.resolved))
        request = attrs.evolve(request, complete=asked)
    decision, room = _decide_complete(request), request.complete.exceeded
    if isinstance(request, complete.SurveyRequest):
        decision = _with_keys_apart(decision)
    elif not isinstance(request, complete.CountRequest):
        decision = _well_named(decision, request.complete.columns)
    decision = _with_unused(decision, _input_of_trends_in_vain(request.complete.resolved))
    if room is None:
        return decision
    return attrs.evolve(decision, reason=f"a group of more than {room:,} events is beyond a worker's limit")


def _decide_complete(request: complete.Request) -> Decision:
    if not isinstance(request, complete.CompleteRequest):
        if request.complete.algorithm == "joins" and type(request) in JOINED_STRATEGIES:
            return _asked_for(
                JOINED_STRATEGIES[type(request)],
                request,
                "algorithm 'joins' cannot take these trends",
                "use algorithm='auto', which takes them in the tasks that have the groups",
            )
        return _first_plan(request, COMPLETE_REQUEST_STRATEGIES[type(request)])
    strategies = COMPLETE_STRATEGIES[request.algorithm]
    if request.algorithm in ("auto", "definition"):
        return _first_plan(request, strategies)
    return _asked_for(
        strategies[0],
        request,
        f"algorithm {request.algorithm!r} follows the edges of a graph of events, and this query has none",
        "use algorithm='auto' or 'definition': all trends are listed, and those that others contain dropped",
    )


def _asked_for(strategy: Callable[[Any], Operator | Declined], request: object, refused: str, hint: str) -> Decision:
    """Plans by the one strategy that the user requests; raises UnsupportedQuery with its reason if it declines."""
    plan = _planned(strategy, request)
    if isinstance(plan, Declined) and plan.on_stream:
        raise StreamingNotSupported(
            f"a stream cannot be answered in the way that is asked for: {plan.reason}", hint=ASK_LATER
        )
    if isinstance(plan, Declined):
        raise UnsupportedQuery(f"{refused}: {plan.reason}", hint=hint)
    return Decision(plan, strategy_name(strategy), ())


def _planned(strategy: Callable[[Any], Operator | Declined], request: object) -> Operator | Declined:
    """Plans by a strategy, with the exchanges that its operators require; declines if a stream cannot run the plan."""
    policy = matching_of(request)
    if policy != ANY and strategy not in UNDER_EVERY_POLICY:
        return Declined(f"it knows no policy but ANY, and the query asks for MATCHING {policy.upper()}")
    plan = strategy(request)
    if isinstance(plan, Declined):
        return plan
    plan = exchanged(plan)
    reason = why_not_on_stream(plan)
    return plan if reason is None else Declined(reason, on_stream=True)


def matching_of(request: Any) -> str:
    """Returns the matching policy of the query that a request is about."""
    return _resolved_of(request).query.matching


def _resolved_of(request: Any) -> ResolvedQuery:
    about = request if isinstance(request, (AggregateRequest, TrendsRequest)) else request.complete
    resolved: ResolvedQuery = about.resolved
    return resolved


def strategy_name(strategy: Callable[..., Operator | Declined]) -> str:
    """Returns the name by which ``explain`` shows a strategy."""
    return STRATEGY_NAMES.get(strategy, strategy.__name__)


def _first_plan(request: object, strategies: _Strategies) -> Decision:
    declined: list[tuple[str, str]] = []
    on_stream = False
    for strategy in strategies:
        plan = _planned(strategy, request)
        name = strategy_name(strategy)
        if not isinstance(plan, Declined):
            return Decision(plan, name, tuple(declined))
        declined.append((name, plan.reason))
        on_stream = on_stream or plan.on_stream
    reasons = "; ".join(f"{name}: {reason}" for name, reason in declined)
    if on_stream:
        resolved = _resolved_of(request)
        hint = ASK_FINAL if resolved.emit != FINAL else ASK_APART if resolved.state.whole else ASK_LATER
        raise StreamingNotSupported(f"no strategy can answer this query on a stream ({reasons})", hint=hint)
    raise NoPhysicalPlan(
        f"no strategy can answer this query ({reasons})",
        hint=_advice(request),
    )


def _advice(request: object) -> str:
    """Returns what to write in place of a query that no strategy answers."""
    resolved = _resolved_of(request)
    if isinstance(request, complete.SurveyRequest):
        return "there is no graph to survey; count the trends with count_complete_trends()"
    if isinstance(resolved.query.pattern, And) and not has_sides_apart(resolved.query.pattern):
        return "give the sides of AND different variable names, or add SLIDE, with which each window counts by itself"
    return "take the predicate that is named apart, or ask for each side of AND by itself"
