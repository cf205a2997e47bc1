"""messages: an AND of single events whose predicates form a forest, counted without listing any of its matches."""

from __future__ import annotations

import attrs

from cetdsl.analysis.classify import PredicateClass, shape
from cetdsl.ir.operators import Messages, Operator, Scan
from cetdsl.ir.windowing import SPAN
from cetdsl.pattern.properties import joins_events
from cetdsl.planning.accumulators import AccumulatorPlan
from cetdsl.planning.compile import compile_query, joint_query
from cetdsl.planning.forests import forest_of
from cetdsl.planning.strategies.kernel import base_spec, merged
from cetdsl.planning.strategies.request import AggregateRequest, Declined, source_of


def messages(request: AggregateRequest) -> Operator | Declined:
    """Sends sums from variable to variable along the predicates, as Yannakakis' algorithm does for acyclic joins."""
    if not (request.is_joint and joins_events(request.resolved.query.pattern)):
        return Declined("the pattern is no AND of single events")
    if source_of(request.resolved).windowing.kind == SPAN:
        return Declined("a span bounds all events together, and messages pass between two of them")
    if any(shape(predicate) is PredicateClass.AGGREGATE for predicate in request.resolved.query.where):
        return Declined("a predicate aggregates over a side of AND")
    source, compiled = source_of(request.resolved), compile_query(joint_query(request.resolved))
    if compiled.residual:
        return Declined("a predicate is no comparison of one event with one other")
    forest = forest_of(compiled)
    if isinstance(forest, str):
        return Declined(forest)
    accumulators = AccumulatorPlan(compiled, request.aggregates)
    answer = accumulators.answer(source, request.number, bool(source.partitions))
    spec = attrs.evolve(base_spec(source, compiled).with_query(pivot=-1, pairs=forest), answer=answer)
    return merged(Messages(Scan(source, compiled), spec, tuple(accumulators.values)))
