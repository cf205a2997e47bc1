"""panes: small matrices of stretches of time, multiplied up to windows (heavily overlapping windows)."""

from __future__ import annotations

import attrs

from cetdsl.planning.lanes import LanePlan, plan_lanes
from cetdsl.planning.physical import MAX_PANES_STATES, MIN_PANES_OVERLAP, SLIDING, SPAN, WHOLE
from cetdsl.planning.plans import PanesAggregate, PhysicalPlan, Source
from cetdsl.planning.strategies.kernel import base_spec
from cetdsl.planning.strategies.request import AggregateRequest, Declined, source_of


def panes(request: AggregateRequest) -> PhysicalPlan | Declined:
    """As :func:`any_panes`, where windows overlap enough, or numbers of any size are asked for.

    Such numbers are products of numbers of equal size here. The kernel has a pass per few dozen bits of the largest,
    and so takes time with the square of the events of a window: 200 times as long for 16,000 of them.
    """
    plan = any_panes(request)
    if isinstance(plan, Declined):
        return plan
    windowing = plan.source.windowing
    overlap = -(-windowing.length // windowing.slide)
    if overlap < MIN_PANES_OVERLAP and request.number != "string":
        times = "one window" if overlap == 1 else f"{overlap} windows"
        return Declined(f"an event is in {times} at most; panes pay from {MIN_PANES_OVERLAP} on")
    return plan


def any_panes(request: AggregateRequest) -> PanesAggregate | Declined:
    """Multiplies the matrices of the panes that windows share, whether that pays or not."""
    source = source_of(request.resolved)
    if request.is_pair:
        return Declined("AND at the top pairs two sets of trends")
    compiled = request.compiled[0]
    if compiled.residual or compiled.pairs or compiled.codes or compiled.lists:
        return Declined("adjacent, pairwise or aggregate predicates compare events with each other")
    if compiled.negations:
        return Declined("NOT needs the latest match of the negated pattern")
    if source.windowing.kind != SLIDING:
        return Declined(_WITHOUT_WINDOWS[source.windowing.kind])
    if len(compiled.machine.variables) > MAX_PANES_STATES:
        return Declined(f"the automaton has more than {MAX_PANES_STATES} states")
    lanes = plan_lanes(compiled, request.aggregates)
    if lattice := [name for name, kind in _functions(lanes) if kind not in ("count", "sum")]:
        return Declined(f"an extreme is no sum of products: {', '.join(dict.fromkeys(lattice)).upper()}")
    # A pane is one task's work already.
    source = attrs.evolve(source, windowing=attrs.evolve(source.windowing, cut=0))
    return _plan(source, request, lanes)


_WITHOUT_WINDOWS = {
    WHOLE: "without windows nothing says how long a pane is",
    SPAN: "a span without SLIDE needs one pass per first event",
}


def _functions(lanes: LanePlan) -> list[tuple[str, str]]:
    kinds = [lane.kind for lane in lanes.lanes]
    return [(output.function, kinds[output.numerator]) for output in lanes.outputs]


def _plan(source: Source, request: AggregateRequest, lanes: LanePlan) -> PanesAggregate:
    compiled, merge = request.compiled[0], bool(source.partitions)
    spec = attrs.evolve(
        base_spec(source, compiled, request.number),
        lanes=tuple(lanes.lanes),
        outputs=tuple(lanes.outputs),
        partial=merge,
    )
    return PanesAggregate(source, compiled, spec, tuple(lanes.values), merge)
