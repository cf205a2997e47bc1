"""kernel: one compiled pass over each task's sorted events (the general case)."""

from __future__ import annotations

import attrs

from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.ir.compiled import Compiled
from cetdsl.ir.kernel import ALL, Answer, KernelQuery, KernelSpec
from cetdsl.ir.layout import RowLayout
from cetdsl.ir.operators import Merge, Operator, PairCounts, Propagate, Scan, Union
from cetdsl.ir.source import Source
from cetdsl.ir.windowing import SPAN
from cetdsl.pattern.automaton import intersect
from cetdsl.planning.accumulators import AccumulatorPlan
from cetdsl.planning.compile import compile_query, queries_of_sides, why_finished
from cetdsl.planning.extremes import with_extremes
from cetdsl.planning.listed_pairs import with_listed_pairs
from cetdsl.planning.pivots import pivots_of, search_pivot, worth_passes
from cetdsl.planning.sights import with_sights
from cetdsl.planning.strategies.request import AggregateRequest, Declined, source_of


def kernel(request: AggregateRequest) -> Operator | Declined:
    """Propagates counts and sums along the automaton, with an index per edge."""
    source = source_of(request.resolved)
    if request.is_joint:
        return Declined("AND joins events in any order of time, so there is no order to carry counts along")
    if request.is_pair and source.windowing.kind == SPAN:
        return Declined("a span bounds both sides of AND together, so the counts of each do not multiply")
    sides = tuple(_prepared(each, request.resolved) for each in request.compiled)
    for compiled in sides:
        reason = why_not_propagate(compiled, source)
        if reason is not None:
            return Declined(reason)
    if request.is_pair:
        return _pair(request, sides, source)
    accumulators = AccumulatorPlan(sides[0], request.aggregates, source.schema)
    return merged(_propagate(Scan(source, sides[0]), accumulators, request.number, source.answers_add_up))


def _prepared(compiled: Compiled, resolved: ResolvedQuery) -> Compiled:
    return with_extremes(with_listed_pairs(with_sights(compiled, resolved), resolved))


def merged(plan: Operator) -> Operator:
    """Returns the plan, with a merge on top if it gives partial results."""
    return Merge(plan, plan.source.groups) if plan.spec.answer.partial else plan


def why_not_propagate(compiled: Compiled, source: Source) -> str | None:
    """Returns why counts cannot be carried along the automaton; None when they can."""
    reason = why_not_along_edges(compiled)
    if reason is not None or not compiled.pairs:
        return reason
    pivots = pivots_of(compiled.machine, compiled.pairs)
    if worth_passes(compiled.machine, pivots, source.windowing.kind):
        return None
    return "passes about two events of a trend pay for trends of any length, and these have a bounded one"


def why_not_along_edges(compiled: Compiled) -> str | None:
    """Returns why the trends are not the paths of graphs that each fix one event per pivot; None when they are."""
    finished = why_finished(compiled)
    if finished is not None:
        return finished
    if any(negation.looks_at_trend for negation in compiled.negations):
        return "a NOT depends on which events the trend binds"
    if compiled.pairs and not pivots_of(compiled.machine, compiled.pairs):
        return "pairwise predicates relate no variable, and no two, that bind one event of each trend to all others"
    return None


def base_spec(source: Source, compiled: Compiled, completeness: str = ALL) -> KernelSpec:
    """Returns what every kernel needs to know, before the answer is specified."""
    pivot = search_pivot(compiled.machine, compiled.pairs, source.windowing.kind)
    query = KernelQuery(compiled.machine, compiled.negations, source.windowing, compiled.pairs, pivot, completeness)
    ties, codes, lists = len(source.tie_break), len(compiled.codes), len(compiled.lists)
    bucketed = source.windowing.cut > 0
    layout = RowLayout.of(len(source.keys), source.time, source.time_type, ties, codes, lists, bucketed)
    return KernelSpec(query, layout, Answer(len(source.groups)))


def about_pivots(spec: KernelSpec, compiled: Compiled) -> KernelSpec:
    """Returns the specification with the pivots, one of which occurs in each pairwise predicate."""
    pivot, outer = (*pivots_of(compiled.machine, compiled.pairs), -1, -1)[:2]
    return spec.with_query(pivot=pivot, outer=outer)


def _propagate(scan: Scan, accumulators: AccumulatorPlan, number: str, partial: bool) -> Propagate:
    compiled = scan.compiled
    spec = about_pivots(base_spec(scan.source, compiled), compiled)
    spec = attrs.evolve(spec, answer=accumulators.answer(scan.source, number, partial))
    return Propagate(scan, spec, tuple(accumulators.values))


def _pair(request: AggregateRequest, sides: tuple[Compiled, ...], source: Source) -> Operator | Declined:
    """Plans the two sides of an AND, already compiled, and the trends that both match, all with the same accumulators.

    Pairs are formed within one key, so the sides output every key; a merge follows later.
    """
    left, right = sides
    inner = attrs.evolve(source, groups=source.keys, partitions=())
    parts = [_side(request, Scan(inner, left, "left side")), _side(request, Scan(inner, right, "right side"))]
    automata = [compiled.automaton for compiled in request.compiled]
    if set(automata[0].variables) & set(automata[1].variables):
        shared = intersect(*automata)
        if not shared.is_empty:
            compiled = _prepared(compile_query(queries_of_sides(request.resolved)[2], shared), request.resolved)
            reason = why_not_propagate(compiled, source)
            if reason is not None:
                return Declined(f"the trends that both sides of AND match: {reason}")
            parts.append(_side(request, Scan(inner, compiled, "trends of both sides")))
    outputs = tuple(AccumulatorPlan(left, request.aggregates, source.schema).outputs)
    return Merge(PairCounts(Union(tuple(parts)), outputs, source.groups, len(parts)), source.groups)


def _side(request: AggregateRequest, scan: Scan) -> Propagate:
    """Plans one of the sets of trends that the answer of an AND is computed from."""
    plan = _propagate(
        scan, AccumulatorPlan(scan.compiled, request.aggregates, scan.source.schema), request.number, True
    )
    return attrs.evolve(plan, spec=plan.spec.with_answer(outputs=()))
