"""complete: the trends that are not part of another one, from the graph of the query or by the definition itself.

The trends of a *graph-shaped* query are the paths of a graph of events, and the edges at either end of a path tell
whether it is complete. A query whose predicates relate events that are no neighbours has no such graph. Its trends are
listed, and those that another one contains are dropped. If extreme events (:mod:`cetdsl.planning.extremes`) decide the
predicates, it is enough to list the *candidates*, which are the paths of graphs about such events; else all trends are
listed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import wraps
from typing import TypeVar

import attrs

from cetdsl.analysis.guards import own_term
from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.errors import UnsupportedQuery
from cetdsl.ir.compiled import Compiled
from cetdsl.ir.extraction import Extraction
from cetdsl.ir.kernel import ALL, ENDS, NOT_NEIGHBOURS, KernelSpec
from cetdsl.ir.operators import (
    AggregateTrends,
    BuildGraph,
    CountJoined,
    CountPaths,
    DropContained,
    FindPieces,
    JoinPaths,
    JoinPieces,
    ListPaths,
    Operator,
    SampleJoined,
    SampleOfEach,
    SamplePaths,
    SampleTrends,
    Scan,
    ShowTrends,
    SurveyGraphs,
    TopOfEach,
    TopPaths,
    TopTrends,
)
from cetdsl.ir.shadows import STATES
from cetdsl.ir.source import Source
from cetdsl.ir.windowing import SPAN, WHOLE
from cetdsl.pattern.expressions import Aggregate, Expr, Length
from cetdsl.pattern.nodes import And
from cetdsl.pattern.query import ANY
from cetdsl.pattern.text import quote
from cetdsl.planning.accumulators import AccumulatorPlan
from cetdsl.planning.extremes import with_ends_decided, with_extremes
from cetdsl.planning.listed_pairs import with_listed_pairs
from cetdsl.planning.shadows import TooMany, plan_shadows
from cetdsl.planning.strategies.enumerate import any_trends, columns_in, limited, list_together, list_trends, with_lists
from cetdsl.planning.strategies.kernel import about_pivots, base_spec, merged, why_not_along_edges
from cetdsl.planning.strategies.request import Declined, TrendsRequest, source_of

#: What ``algorithm=`` may say.
ALGORITHMS = ("auto", "m-cet", "t-cet", "h-cet", "anchors", "joins", "balanced", "definition")
#: The algorithms that list the paths of a graph within a task.
IN_TASK = ("m-cet", "t-cet", "h-cet", "anchors")
COUNT = Aggregate("count")
_PAIRED = "AND at the top pairs two sets of trends"
#: The most bytes of the trends kept of one key and window while trends that others contain are dropped.
CONTAINMENT_BYTES = 2**30


@attrs.frozen
class CompleteRequest:
    """Requests the complete trends, by ``completeness`` ``"maximal"`` or ``"ends"``; or all trends, if it is ``"all"``.

    ``exceeded`` is the number of events that a worker has room for, if some group has more; else it is None.
    """

    resolved: ResolvedQuery
    completeness: str
    extraction: Extraction
    columns: tuple[str, ...]
    limit: int | None
    compiled: tuple[Compiled, ...]
    exceeded: int | None = None

    def __attrs_post_init__(self) -> None:
        if self.completeness != ALL and isinstance(self.resolved.query.pattern, And):
            raise UnsupportedQuery(
                "complete trends of an AND at the top are not defined: its answers are pairs of trends",
                hint="ask for the complete trends of each side by itself",
            )

    @property
    def algorithm(self) -> str:
        """The algorithm that lists them: one of :data:`ALGORITHMS`."""
        return self.extraction.algorithm

    @property
    def complete(self) -> CompleteRequest:
        """The request itself, under the name that other requests have for it."""
        return self


@attrs.frozen
class CountRequest:
    """Requests the number of complete trends."""

    complete: CompleteRequest
    name: str
    number: str


@attrs.frozen
class SampleRequest:
    """Requests ``size`` trends, of all or of each key and window, drawn without replacement."""

    complete: CompleteRequest
    size: int
    seed: int
    of_each: bool = False


@attrs.frozen
class TopRequest:
    """Requests the heaviest trends, of all or of each key and window; ``name`` is the column of their weights."""

    complete: CompleteRequest
    size: int
    by: Aggregate
    name: str
    of_each: bool = False


@attrs.frozen
class SurveyRequest:
    """Requests a survey of the graphs; if ``measured``, all of their trends are listed for it."""

    complete: CompleteRequest
    measured: bool


#: What may be asked of complete trends.
Request = CompleteRequest | CountRequest | SampleRequest | TopRequest | SurveyRequest
_Request = TypeVar("_Request", bound=Request)
_Plan = Operator | Declined


#: Why a span needs a graph for each event that a trend may begin with.
ENDS_RELATED = "a span without SLIDE relates the first event of a trend to its last"


def why_edges_do_not_tell(compiled: Compiled, source: Source, completeness: str) -> str | None:
    """Returns why the edges at the ends of a path do not show whether it is a requested trend; None when they do."""
    machine = compiled.machine
    if any(guards for _, guards in (*machine.initial, *machine.final)):
        return "a NOT at the beginning or the end looks beyond the trend"
    if source.windowing.kind == SPAN:
        return ENDS_RELATED
    twice = [number for number, states in Counter(machine.variables).items() if states > 1]
    if twice and completeness != ALL:
        # A longer trend may bind the same events in other states, and no edge shows that.
        name = compiled.variables[twice[0]][0]
        return f"variable {name!r} stands at several places of the pattern, so part of a trend may be another reading"
    return None


def _over_graph(give: Callable[[BuildGraph, _Request], _Plan]) -> Callable[[_Request], _Plan]:
    """Makes a strategy that answers from the graphs of the query; it declines if trends are not paths of graphs."""

    @wraps(give)
    def strategy(request: _Request) -> _Plan:
        built = _build(request.complete)
        return built if isinstance(built, Declined) else give(built, request)

    return strategy


def _build(request: CompleteRequest) -> BuildGraph | Declined:
    """Plans the graphs of a query: each key's graph in the task that has the key, or one graph of all events in all."""
    if len(request.compiled) != 1:
        return Declined(_PAIRED)
    compiled = with_listed_pairs(request.compiled[0], request.resolved)
    built = build_graphs(compiled, request)
    if isinstance(built, Declined) and compiled.pairs and request.completeness == ENDS:
        return _build_about_ends(compiled, request) or built
    return built


def build_graphs(compiled: Compiled, request: CompleteRequest) -> BuildGraph | Declined:
    """Plans the graphs of one automaton; if it has pairwise predicates, one graph for each event of its pivots."""
    source = source_of(request.resolved)
    reason = why_not_along_edges(compiled)
    if reason is not None:
        return Declined(reason)
    spec = about_pivots(base_spec(source, compiled, request.completeness), compiled)
    reason = why_edges_do_not_tell(compiled, source, request.completeness)
    if reason is not None:
        try:
            machine, shadows = plan_shadows(compiled.machine, request.completeness, span=source.windowing.kind == SPAN)
        except TooMany as error:
            return Declined(f"{reason}; and {error}")
        spec = spec.with_query(machine=machine, shadows=shadows)
    return _built(compiled, spec, request)


def _build_about_ends(compiled: Compiled, request: CompleteRequest) -> BuildGraph | None:
    """Plans graphs about the pivots that decide where a complete trend begins and ends; None if there are none.

    The states of the graphs' machine tell which trends have the same pivot events. The states of the query's own
    machine, which binds whole variables, tell whether a longer trend may bind something before or behind a trend.
    """
    source = source_of(request.resolved)
    try:
        machine, shadows = plan_shadows(compiled.machine, ENDS, span=source.windowing.kind == SPAN)
    except TooMany:
        return None
    found = with_ends_decided(compiled, machine) if shadows.kind == STATES else None
    if found is None or why_not_along_edges(found.compiled) is not None:
        return None
    readings = tuple(shadows.readings[state] for state in found.states)
    spec = about_pivots(base_spec(source, found.compiled, ENDS), found.compiled)
    spec = spec.with_query(shadows=attrs.evolve(shadows, readings=readings, wholes=found.wholes))
    return _built(found.compiled, spec, request)


def _built(compiled: Compiled, spec: KernelSpec, request: CompleteRequest) -> BuildGraph:
    """Plans the graphs of a specification for the requested algorithm."""
    source, extraction = source_of(request.resolved), request.extraction
    if request.algorithm not in IN_TASK:
        extraction = attrs.evolve(extraction, algorithm="auto")
    # If there is only one group, in one window, all cores share it.
    shared = extraction.algorithm != "auto" and not source.keys and source.windowing.kind == WHOLE
    return BuildGraph(Scan(source, compiled), spec, request.columns, extraction, shared)


@_over_graph
def graph(built: BuildGraph, request: CompleteRequest) -> Operator:
    """Lists the paths of each key's graph in the task that has the key; if there is but one graph, in all tasks."""
    return limited(ListPaths(built, request.limit), request.limit)


@_over_graph
def anchors(built: BuildGraph, request: CompleteRequest) -> Operator:
    """Finds the partial trends between the anchors of one large graph, and joins them; tasks share each of both stages.

    If keys or windows spread the work over the tasks already, or not all trends are needed, each task does both itself.
    """
    reason = _why_one_stage(built, request.limit)
    if reason is not None:
        return limited(ListPaths(built, request.limit, remark=f"both by the same task: {reason}"), request.limit)
    return JoinPieces(FindPieces(built), request.extraction)


def _why_one_stage(built: BuildGraph, limit: int | None) -> str | None:
    """Returns why the task that finds the partial trends also joins them; None if a second stage joins them."""
    if not built.balanced:
        return "keys or windows spread the trends over the tasks already"
    if limit is not None:
        return "no partial trend is found that is not needed"
    if built.spec.query.pivot >= 0:
        return "pairwise predicates make many graphs, each of few trends"
    if built.spec.query.shadows is not None:
        return "anchors are values of events, and these trends are paths of events in states"
    return None


@_over_graph
def balanced(built: BuildGraph, request: CompleteRequest) -> _Plan:
    """Lists the paths of one large graph, in equal parts by as many tasks as there are cores."""
    if request.algorithm == "auto" and (built.source.keys or built.source.windowing.kind != WHOLE):
        return Declined("keys or windows spread the trends over the tasks already")
    return limited(ListPaths(attrs.evolve(built, balanced=True), request.limit), request.limit)


@_over_graph
def joins(built: BuildGraph, request: CompleteRequest) -> _Plan:
    """Lists the paths of a graph beyond a task's memory, with Spark's joins."""
    reason = _told(built.spec.query.why_not_one_graph, built)
    if reason is not None:
        return Declined(reason)
    return limited(JoinPaths(built.child, built.spec, request.columns, request.limit), request.limit)


def candidates(request: CompleteRequest) -> _Plan:
    """Lists the candidates, which are complete among the trends about one extreme event, and drops contained ones."""
    return _shown(refined(request), request)


def definition(request: CompleteRequest) -> _Plan:
    """Lists all trends, and where complete ones are asked for, drops those that others contain."""
    if request.completeness == ALL:
        return list_trends(_of_all(request))
    return _shown(defined(request), request)


def _of_all(request: CompleteRequest) -> TrendsRequest:
    """Returns the request for all trends, complete or not."""
    return TrendsRequest(request.resolved, request.columns, request.limit, request.compiled)


def _shown(listed: _Plan, request: CompleteRequest) -> _Plan:
    """Renames and limits the listed trends, with the requested columns of their events."""
    return listed if isinstance(listed, Declined) else limited(ShowTrends(listed, request.columns), request.limit)


def defined(request: CompleteRequest, more: Iterable[str] = ()) -> Operator:
    """Lists the trends by the definition, complete or all, with ``more`` columns of their events, unshown.

    What an AND lists are pairs of trends, which are asked for only where all trends are.
    """
    columns = {*request.columns, *more}
    if len(request.compiled) != 1:
        return list_together(with_lists(_of_all(request)), columns)
    compiled = with_listed_pairs(request.compiled[0], request.resolved)
    scan = Scan(source_of(request.resolved), compiled)
    if request.completeness == ALL:
        return any_trends(scan, columns)
    return _sifted(any_trends(scan, columns, identified=True), request)


def refined(request: CompleteRequest, more: Iterable[str] = ()) -> _Plan:
    """Lists the complete trends among the candidates, which are complete among the trends with the same extreme events.

    Each trend has one extreme event, or two. The trends with the same extreme events are the paths of one graph, or,
    with a span, of a graph for each first event. A complete trend is complete among these, too, and so a candidate. A
    trend that is not complete is contained in a complete one. So the complete trends are the candidates that no other
    candidate contains.
    """
    if request.completeness == ALL:
        return Declined("trends that are not complete are asked for, too")
    parted = with_extremes(with_listed_pairs(request.compiled[0], request.resolved))
    if not parted.parts:
        return Declined("no event of a trend, and no two, decide all its pairwise predicates")
    built = build_graphs(parted, request)
    if isinstance(built, Declined):
        return built
    shown = built.source.schema.in_order({*request.columns, *more})
    return _sifted(ListPaths(attrs.evolve(built, columns=shown, identified=True), named=False), request)


def _sifted(listed: Operator, request: CompleteRequest) -> Operator:
    """Drops those of the trends listed that others contain."""
    memory = CONTAINMENT_BYTES if request.extraction.memory is None else request.extraction.memory
    return DropContained(listed, request.completeness, memory)


@_over_graph
def count_paths(built: BuildGraph, request: CountRequest) -> Operator:
    """Counts the paths of each key's graph along its edges, without listing them."""
    spec = _counting(built, request, built.source.answers_add_up)
    return merged(CountPaths(BuildGraph(built.child, spec)))


def _counting(built: BuildGraph, request: CountRequest, partial: bool) -> KernelSpec:
    """The specification of a count; ``partial`` results are those of partitions."""
    accumulators = AccumulatorPlan(built.compiled, ((request.name, COUNT),), built.source.schema)
    return attrs.evolve(built.spec, answer=accumulators.answer(built.source, request.number, partial))


@_over_graph
def count_joins(built: BuildGraph, request: CountRequest) -> _Plan:
    """Counts the paths of a graph beyond a task's memory, with Spark's joins."""
    reason = _told(built.spec.query.why_not_joined, built)
    return Declined(reason) if reason else CountJoined(built.child, _counting(built, request, False))


@_over_graph
def sample_joins(built: BuildGraph, request: SampleRequest) -> _Plan:
    """Draws from the paths of a graph beyond a task's memory, with Spark's joins."""
    reason = _told(built.spec.query.why_not_joined, built)
    if request.of_each:
        reason = "they draw from the trends of all groups and windows together"
    if reason:
        return Declined(reason)
    return SampleJoined(built.child, built.spec, request.complete.columns, request.size, request.seed)


def _told(reason: str | None, built: BuildGraph) -> str | None:
    """Returns a reason or, if there is one, its cause: why edges do not show which paths are trends. None for None."""
    if built.compiled.parts:
        return reason
    return reason and (why_edges_do_not_tell(built.compiled, built.source, built.spec.query.completeness) or reason)


def fits_joins(request: CompleteRequest) -> bool:
    """Whether Spark's joins can list, count and draw trends without any task that holds a group."""
    if request.resolved.query.matching != ANY:
        return False  # a path may skip any event
    built = _build(request)
    return not isinstance(built, Declined) and built.spec.query.why_not_joined is None


def count_candidates(request: CountRequest) -> _Plan:
    """Lists the complete trends among candidates and counts them."""
    return _counted(refined(request.complete), request)


def count_definition(request: CountRequest) -> _Plan:
    """Lists the trends of the definition and counts them."""
    return _counted(defined(request.complete), request)


def _counted(listed: _Plan, request: CountRequest) -> _Plan:
    """Counts trends that are listed."""
    if isinstance(listed, Declined):
        return listed
    return AggregateTrends(listed, ((request.name, COUNT),), request.number)


@_over_graph
def sample_paths(built: BuildGraph, request: SampleRequest) -> Operator:
    """Draws from the paths of each key's graph, without listing the others; of each window, all are listed."""
    if request.of_each:
        return SampleOfEach(ListPaths(built), request.size, request.seed)
    return SamplePaths(attrs.evolve(built, settled=True), request.size, request.seed)


def sample_candidates(request: SampleRequest) -> _Plan:
    """Draws from the complete trends among candidates, which are listed."""
    return _sampled(candidates(request.complete), request)


def sample_definition(request: SampleRequest) -> _Plan:
    """Draws from the trends of the definition, which are listed."""
    return _sampled(definition(request.complete), request)


def _sampled(listed: _Plan, request: SampleRequest) -> _Plan:
    """Draws from trends that are listed."""
    if isinstance(listed, Declined):
        return listed
    return (SampleOfEach if request.of_each else SampleTrends)(listed, request.size, request.seed)


@_over_graph
def top_paths(built: BuildGraph, request: TopRequest) -> _Plan:
    """Finds the heaviest paths of each key's graph, without listing the others if possible.

    All paths are listed for the heaviest of each key and window, and for a weight that does not add up along a trend.
    """
    argument = request.by.argument
    adds_up = request.by.definition.is_total or isinstance(argument, Length)
    if request.of_each or not adds_up:
        shown = built.source.schema.in_order({*request.complete.columns, *columns_in((request.by,))})
        remark = None if adds_up else f"all of them: {quote(request.by)} does not add up along a trend"
        return _heaviest(ListPaths(attrs.evolve(built, columns=shown), named=False, remark=remark), request)
    values: tuple[Expr, ...] = ()
    if argument is not None and not isinstance(argument, Length):
        values = (own_term(argument, built.source.schema, built.compiled.conditions),)
    return TopPaths(attrs.evolve(built, values=values), request.size, request.by, request.name)


def top_candidates(request: TopRequest) -> _Plan:
    """Finds the heaviest complete trends among candidates, which are listed."""
    return _heaviest(refined(request.complete, columns_in((request.by,))), request)


def top_definition(request: TopRequest) -> _Plan:
    """Finds the heaviest trends of the definition, which are listed."""
    return _heaviest(defined(request.complete, columns_in((request.by,))), request)


def _heaviest(listed: _Plan, request: TopRequest) -> _Plan:
    """Keeps the heaviest of the trends that are listed: of all, or of each key and window."""
    if isinstance(listed, Declined):
        return listed
    kind = TopOfEach if request.of_each else TopTrends
    return kind(listed, request.size, request.by, request.name, request.complete.columns)


@_over_graph
def survey_graphs(built: BuildGraph, request: SurveyRequest) -> _Plan:
    """Surveys each key's graph in the kernel that builds it."""
    if built.spec.query.pairs:
        return Declined(NOT_NEIGHBOURS)
    if built.source.windowing.kind == SPAN:
        return Declined("a span without SLIDE has a graph for each event that a trend may begin with")
    return SurveyGraphs(attrs.evolve(built, columns=None, balanced=False), request.measured)
