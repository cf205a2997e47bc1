"""messages: an AND of single events, counted without listing any of its matches where its predicates allow it."""

from __future__ import annotations

import attrs

from cetdsl.analysis.classify import PredicateClass, shape
from cetdsl.ir.emission import UPDATE
from cetdsl.ir.operators import Messages, Operator, Scan
from cetdsl.ir.windowing import SPAN
from cetdsl.pattern.properties import joins_events
from cetdsl.planning.accumulators import AccumulatorPlan
from cetdsl.planning.compile import compile_query, joint_query
from cetdsl.planning.forests import clique_of, forest_of
from cetdsl.planning.strategies.kernel import base_spec, merged
from cetdsl.planning.strategies.request import AggregateRequest, Declined, source_of


def messages(request: AggregateRequest) -> Operator | Declined:
    """Sends sums from variable to variable along the predicates, as Yannakakis' algorithm does for acyclic joins."""
    source = source_of(request.resolved)
    spans = source.windowing.kind == SPAN
    if not joins_events(request.resolved.query.pattern):
        return Declined("the pattern is no AND of single events")
    # Unrelated sides are counted separately and multiplied. But early answers must come from one operator with state,
    # and multiplying takes two.
    if not (spans or request.is_joint or source.emit == UPDATE):
        return Declined("nothing relates the sides of AND, so their counts are multiplied")
    if any(shape(predicate) is PredicateClass.AGGREGATE for predicate in request.resolved.query.where):
        return Declined("a predicate aggregates over a side of AND")
    compiled = compile_query(joint_query(request.resolved))
    if compiled.residual:
        return Declined("a predicate is no comparison of one event with one other")
    # A span relates each event to each other one, so the predicates form no forest: all must depend on the event that
    # comes first, whichever variable it is bound to.
    pairs = clique_of(compiled) if spans else forest_of(compiled)
    if isinstance(pairs, str):
        return Declined(pairs)
    accumulators = AccumulatorPlan(compiled, request.aggregates, source.schema)
    answer = accumulators.answer(source, request.number, source.answers_add_up)
    spec = attrs.evolve(base_spec(source, compiled).with_query(pivot=-1, pairs=pairs), answer=answer)
    return merged(Messages(Scan(source, compiled), spec, tuple(accumulators.values)))
