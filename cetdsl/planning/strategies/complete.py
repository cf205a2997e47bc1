"""complete: the trends that are not part of another one, from the graph of the query or by the definition itself.

The trends of a *graph-shaped* query are the paths of a graph of events, and its complete trends are paths that are told
from the others edge by edge. What relates events that are no neighbours has no such graph. Then all trends are listed,
and those that another one contains are dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import attrs

from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.errors import UnsupportedQuery
from cetdsl.ir.compiled import Compiled
from cetdsl.ir.kernel import ALL
from cetdsl.ir.operators import (
    AggregateTrends,
    BuildGraph,
    CountPaths,
    DropContained,
    JoinPaths,
    ListPaths,
    Operator,
    SamplePaths,
    SampleTrends,
    Scan,
    ShowTrends,
    SurveyGraphs,
    TopPaths,
    TopTrends,
)
from cetdsl.ir.source import Source
from cetdsl.ir.windowing import SPAN, WHOLE
from cetdsl.pattern.expressions import Aggregate, Length, strip
from cetdsl.pattern.nodes import And
from cetdsl.planning.accumulators import plan_accumulators
from cetdsl.planning.strategies.enumerate import any_trends, columns_in, limited, list_trends
from cetdsl.planning.strategies.kernel import base_spec, merged
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


def build(request: CompleteRequest) -> BuildGraph | Declined:
    """Each key's graph in the task that has the key; a lone graph in all tasks."""
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
    return BuildGraph(Scan(source, compiled), spec, request.columns, algorithm, request.memory, alone)


def graph(request: CompleteRequest) -> Operator | Declined:
    """The paths of each key's graph, listed by the task that has the key; those of a lone graph by all tasks."""
    built = build(request)
    return built if isinstance(built, Declined) else _listed(built, request)


def balanced(request: CompleteRequest) -> Operator | Declined:
    """The paths of one large graph, in equal parts by as many tasks as there are cores."""
    built = build(request)
    if isinstance(built, Declined):
        return built
    if request.algorithm == "auto" and (built.source.keys or built.source.windowing.kind != WHOLE):
        return Declined("keys or windows spread the trends over the tasks already")
    return _listed(attrs.evolve(built, balanced=True), request)


def _listed(built: BuildGraph, request: CompleteRequest) -> Operator:
    return limited(ListPaths(built, request.limit), request.limit)


def joins(request: CompleteRequest) -> Operator | Declined:
    """The paths of a graph beyond a task's memory, by Spark's joins."""
    built = build(request)
    if isinstance(built, Declined):
        return built
    return limited(JoinPaths(built.child, built.spec, request.columns, request.limit), request.limit)


def definition(request: CompleteRequest) -> Operator | Declined:
    """All trends, without those that others contain: its cost grows with the number of all trends."""
    if request.completeness == ALL:
        return list_trends(TrendsRequest(request.resolved, request.columns, request.limit, request.compiled))
    return limited(ShowTrends(defined(request), request.columns), request.limit)


def defined(request: CompleteRequest, more: Iterable[str] = ()) -> Operator:
    """The trends of the definition, complete or all, with ``more`` columns of their events; one scan only."""
    scan, columns = Scan(source_of(request.resolved), request.compiled[0]), {*request.columns, *more}
    if request.completeness == ALL:
        return any_trends(scan, columns)
    memory = DEFINITION_BYTES if request.memory is None else request.memory
    return DropContained(any_trends(scan, columns, identified=True), request.completeness, memory)


# ------------------------------------------------------------------------------------------------------ counting


@attrs.frozen
class CountRequest:
    """How many complete trends there are."""

    complete: CompleteRequest
    name: str
    number: str


def count_paths(request: CountRequest) -> Operator | Declined:
    """The paths of each key's graph, counted along its edges without being listed."""
    built = build(request.complete)
    if isinstance(built, Declined):
        return built
    accumulators = plan_accumulators(built.compiled, ((request.name, COUNT),))
    answer = accumulators.answer(built.source, request.number, bool(built.source.partitions))
    return merged(CountPaths(BuildGraph(built.child, attrs.evolve(built.spec, answer=answer))))


def count_definition(request: CountRequest) -> Operator | Declined:
    """The trends of the definition, listed and counted."""
    return AggregateTrends(defined(request.complete), ((request.name, COUNT),), request.number)


# ----------------------------------------------------------------------------------------- some, or about them all


@attrs.frozen
class SampleRequest:
    """So many of the trends, drawn without replacement."""

    complete: CompleteRequest
    size: int
    seed: int


def sample_paths(request: SampleRequest) -> Operator | Declined:
    """Drawn from the paths of each key's graph, without listing the others."""
    built = build(request.complete)
    if isinstance(built, Declined):
        return built
    return SamplePaths(attrs.evolve(built, settled=True), request.size, request.seed)


def sample_definition(request: SampleRequest) -> Operator | Declined:
    """Drawn from all that are listed."""
    listed = definition(request.complete)
    return listed if isinstance(listed, Declined) else SampleTrends(listed, request.size, request.seed)


@attrs.frozen
class TopRequest:
    """The heaviest trends; ``name`` is the column that shows what they weigh."""

    complete: CompleteRequest
    size: int
    by: Aggregate
    name: str


def top_paths(request: TopRequest) -> Operator | Declined:
    """Found among the paths of each key's graph, without listing the others."""
    built = build(request.complete)
    if isinstance(built, Declined):
        return built
    argument = request.by.argument
    values = () if argument is None or isinstance(argument, Length) else (strip(argument),)
    return TopPaths(attrs.evolve(built, values=values), request.size, request.by, request.name)


def top_definition(request: TopRequest) -> Operator | Declined:
    """Found among all that are listed."""
    if len(request.complete.compiled) != 1:
        return Declined("AND at the top pairs two sets of trends")
    listed = defined(request.complete, columns_in((request.by,)))
    return TopTrends(listed, request.size, request.by, request.name, request.complete.columns)


@attrs.frozen
class SurveyRequest:
    """What there is to know about the graphs; ``measured`` by listing all of their trends, or not."""

    complete: CompleteRequest
    measured: bool


def survey_graphs(request: SurveyRequest) -> Operator | Declined:
    """What the kernel that builds each key's graph finds."""
    built = build(request.complete)
    if isinstance(built, Declined):
        return built
    return SurveyGraphs(attrs.evolve(built, columns=None, balanced=False), request.measured)
