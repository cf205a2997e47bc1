"""sweep: counts trends whose predicates all compare with one event of each trend, in one pass for all such events."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators import Operator, Scan, Sweep
from cetdsl.planning.accumulators import AccumulatorPlan
from cetdsl.planning.compile import why_finished
from cetdsl.planning.extremes import with_extreme
from cetdsl.planning.strategies.kernel import base_spec, merged
from cetdsl.planning.strategies.request import AggregateRequest, Declined, source_of
from cetdsl.planning.sweeps import sweep_pivot


def sweep(request: AggregateRequest) -> Operator | Declined:
    """Takes the events that predicates compare with, one after the other, in the order of the compared value."""
    source = source_of(request.resolved)
    if request.is_pair:
        return Declined("AND at the top pairs two sets of trends")
    compiled = with_extreme(request.compiled[0])
    finished = why_finished(compiled)
    if finished is not None:
        return Declined(finished)
    pivot = sweep_pivot(compiled, source.windowing.kind)
    if isinstance(pivot, str):
        return Declined(pivot)
    accumulators = AccumulatorPlan(compiled, request.aggregates, source.schema)
    answer = accumulators.answer(source, request.number, source.answers_add_up)
    spec = attrs.evolve(base_spec(source, compiled).with_query(pivot=pivot), answer=answer)
    return merged(Sweep(Scan(source, compiled), spec, tuple(accumulators.values)))
