"""complete: the trends that are not part of another one, from the graph of the query or by the definition itself.

The trends of a *graph-shaped* query are the paths of a graph of events, and its complete trends are paths that are told
from the others edge by edge. What relates events that are no neighbours has no such graph. Then all trends are listed,
and those that another one contains are dropped.
"""

from __future__ import annotations

from collections import Counter

import attrs

from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.errors import UnsupportedQuery
from cetdsl.ir.compiled import Compiled
from cetdsl.ir.kernel import ALL
from cetdsl.ir.source import Source
from cetdsl.ir.windowing import SPAN, WHOLE
from cetdsl.pattern.expressions import Aggregate
from cetdsl.pattern.nodes import And
from cetdsl.planning.lanes import plan_lanes
from cetdsl.planning.plans import (
    AggregateTrends,
    DefinedTrends,
    EnumerateTrends,
    GraphTrends,
    JoinedTrends,
    KernelAggregate,
    PairTrends,
    PhysicalPlan,
)
from cetdsl.planning.strategies.enumerate import list_trends
from cetdsl.planning.strategies.kernel import base_spec
from cetdsl.planning.strategies.request import Declined, TrendsRequest, source_of

#: What ``algorithm=`` may say.
ALGORITHMS = ("auto", "m-cet", "t-cet", "h-cet", "anchors", "joins", "balanced", "definition")
#: The algorithms that list the paths of a graph within a task.
IN_TASK = ("m-cet", "t-cet", "h-cet", "anchors")
COUNT = Aggregate("count")
#: Bytes that the trends kept of one key and window may take where they are told by the definition.
DEFINITION_BYTES = 2**30


@attrs.frozen
class CompleteRequest:
    """The complete trends, or all of them where the graph serves these too.

    ``completeness`` is ``"maximal"``, ``"ends"``, or ``"all"``.
    """

    resolved: ResolvedQuery
    completeness: str
    algorithm: str
    memory: int | None
    columns: tuple[str, ...]
    limit: int | None
    compiled: tuple[Compiled, ...]

    def __attrs_post_init__(self) -> None:
        if self.completeness != ALL and isinstance(self.resolved.query.pattern, And):
            raise UnsupportedQuery(
                "complete trends of an AND at the top are not defined: its answers are pairs of trends",
                hint="ask for the complete trends of each side by itself",
            )


def why_no_graph(compiled: Compiled, source: Source, completeness: str) -> str | None:
    """Why the wanted trends are not the paths of a graph; None when they are."""
    machine = compiled.machine
    if compiled.residual:
        return "a predicate needs the finished trend (an aggregate of it, or an inseparable pair of events)"
    if compiled.pairs:
        return "a pairwise predicate relates events that are no neighbours"
    if any(negation.correlated for negation in compiled.negations):
        return "a NOT depends on which events the trend binds"
    if any(guards for _, guards in (*machine.initial, *machine.final)):
        return "a NOT at the beginning or the end looks beyond the trend"
    if source.windowing.kind == SPAN:
        return "a span without SLIDE relates the first event of a trend to its last"
    twice = [number for number, states in Counter(machine.variables).items() if states > 1]
    if twice and completeness != ALL:
        # Then a longer trend may bind the same events in other states, which no edge tells.
        name = compiled.variables[twice[0]][0]
        return f"variable {name!r} stands at several places of the pattern, so part of a trend may be another reading"
    return None


# ------------------------------------------------------------------------------------------------------- listing


def graph(request: CompleteRequest) -> GraphTrends | Declined:
    """The paths of each key's graph, listed by the task that has the key; those of a lone graph by all tasks."""
    source = source_of(request.resolved)
    if len(request.compiled) != 1:
        return Declined("AND at the top pairs two sets of trends")
    compiled = request.compiled[0]
    reason = why_no_graph(compiled, source, request.completeness)
    if reason is not None:
        return Declined(reason)
    spec = base_spec(source, compiled, request.completeness)
    algorithm = request.algorithm if request.algorithm in IN_TASK else "auto"
    # One group in one window is all that there is to do, so all cores do it.
    alone = algorithm != "auto" and not source.keys and source.windowing.kind == WHOLE
    return GraphTrends(source, compiled, spec, request.columns, request.limit, algorithm, request.memory, alone)


def balanced(request: CompleteRequest) -> GraphTrends | Declined:
    """The paths of one large graph, in equal parts by as many tasks as there are cores."""
    plan = graph(request)
    if isinstance(plan, Declined):
        return plan
    if request.algorithm == "auto" and (plan.source.keys or plan.source.windowing.kind != WHOLE):
        return Declined("keys or windows spread the trends over the tasks already")
    return attrs.evolve(plan, balanced=True)


def joins(request: CompleteRequest) -> JoinedTrends | Declined:
    """The paths of a graph beyond a task's memory, by Spark's joins."""
    plan = graph(request)
    if isinstance(plan, Declined):
        return plan
    return JoinedTrends(plan.source, plan.compiled, plan.spec, plan.columns, plan.limit)


def definition(request: CompleteRequest) -> PhysicalPlan | Declined:
    """All trends, without those that others contain: its cost grows with the number of all trends."""
    listed = list_trends(TrendsRequest(request.resolved, request.columns, None, request.compiled))
    assert isinstance(listed, (EnumerateTrends, PairTrends)), listed
    if request.completeness == ALL:
        return attrs.evolve(listed, limit=request.limit)
    assert isinstance(listed, EnumerateTrends), listed
    memory = DEFINITION_BYTES if request.memory is None else request.memory
    return DefinedTrends(listed, request.completeness, request.limit, memory)


# ------------------------------------------------------------------------------------------------------ counting


@attrs.frozen
class CountRequest:
    """How many complete trends there are."""

    complete: CompleteRequest
    name: str
    number: str


def count_paths(request: CountRequest) -> KernelAggregate | Declined:
    """The paths of each key's graph, counted along its edges without being listed."""
    plan = graph(request.complete)
    if isinstance(plan, Declined):
        return plan
    lanes = plan_lanes(plan.compiled, ((request.name, COUNT),))
    merge = bool(plan.source.partitions)
    spec = attrs.evolve(plan.spec, answer=lanes.answer(plan.source, request.number, merge))
    return KernelAggregate(plan.source, plan.compiled, spec, (), merge)


def count_definition(request: CountRequest) -> AggregateTrends | Declined:
    """The trends of the definition, listed and counted."""
    plan = definition(request.complete)
    assert isinstance(plan, DefinedTrends), plan
    return AggregateTrends(plan, ((request.name, COUNT),), request.number)
