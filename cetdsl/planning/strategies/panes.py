"""panes: multiplies small matrices of panes (for windows that overlap much, and for one group without windows)."""

from __future__ import annotations

import attrs

from cetdsl.analysis.types import TypeCheck, decimal_digits
from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.operators import BuildPanes, MultiplyPanes, Operator, PanesInPlace, Scan
from cetdsl.ir.source import Source
from cetdsl.ir.windowing import WHOLE
from cetdsl.pattern.expressions import Expr
from cetdsl.planning.accumulators import AccumulatorPlan
from cetdsl.planning.keeping import keeping_of
from cetdsl.planning.panes import (
    COMPARED,
    KEPT_ONCE,
    UNEVEN,
    has_even_panes,
    why_extreme,
    why_not_in_panes,
    why_panes_do_not_pay,
)
from cetdsl.planning.strategies.kernel import base_spec, merged
from cetdsl.planning.strategies.request import AggregateRequest, Declined, source_of

#: From so many bytes of events of the only group on, as Spark estimates them, one task would take longer on four cores
#: than ranges of time, of which a job first takes a sample; and it would hold all of these events.
MANY_BYTES = 1 << 26


def panes(request: AggregateRequest) -> Operator | Declined:
    """Plans :func:`any_panes` where windows overlap enough, and panes in place for extremes and numbers of any size.

    Such numbers are products of numbers of equal size here. The kernel has a pass per few dozen bits of the largest,
    and so takes time with the square of the events of a window: 200 times as long for 16,000 of them. Where windows
    hardly overlap, a second shuffle, of the panes' matrices, would take longer than it saves.
    """
    plan = any_panes(request)
    if isinstance(plan, Declined):
        return _panes_in_place(request, extremes=True) or plan
    reason = why_panes_do_not_pay(plan.source.windowing) or _why_one_task(request, plan.source)
    if reason is None:
        return plan
    is_worth = request.number == "string" and not plan.source.is_stream
    return (_panes_in_place(request, extremes=False) if is_worth else None) or Declined(reason)


def _why_one_task(request: AggregateRequest, source: Source) -> str | None:
    """Returns why one task is expected to take less time for all events than ranges of time; None if it is not.

    It has a pass per few dozen bits of a number, so that one of any size is left to ranges.
    """
    if source.windowing.kind != WHOLE or request.number == "string":
        return None
    size = request.bytes_read()
    if size is None or size >= MANY_BYTES:
        return None
    told = f"{size >> 20} MiB" if size >> 20 else f"{size:,} bytes"
    return f"one task goes through what Spark estimates to be {told} sooner than a sample of the times is taken"


def _panes_in_place(request: AggregateRequest, extremes: bool) -> Operator | None:
    """Multiplies panes in the tasks of their events: for ``extremes`` where their overlap pays, or without any."""
    source = source_of(request.resolved)
    if request.is_pair or request.is_joint:
        return None
    compiled = request.compiled[0]
    if compiled.residual or compiled.codes:
        return None
    accumulators, merge = AccumulatorPlan(compiled, request.aggregates), bool(source.partitions)
    spec = attrs.evolve(base_spec(source, compiled), answer=accumulators.answer(source, request.number, merge))
    if why_not_in_panes(spec) or extremes != bool(why_extreme(spec.answer)):
        return None
    if extremes and why_panes_do_not_pay(source.windowing):
        return None
    return merged(PanesInPlace(Scan(source, compiled), spec, tuple(accumulators.values)))


def any_panes(request: AggregateRequest) -> Operator | Declined:
    """Multiplies the matrices of the panes that windows share, whether that pays or not.

    Without groups and windows all events are one window, whose panes are ranges of time.
    """
    source = source_of(request.resolved)
    if request.is_pair:
        return Declined("AND at the top pairs two sets of trends")
    compiled = request.compiled[0]
    if compiled.residual or compiled.codes:
        return Declined(COMPARED)
    if not source.is_stream:
        # A pane is one task's work already.
        source = attrs.evolve(source, windowing=attrs.evolve(source.windowing, cut=0))
    elif keeping_of(source, compiled).once:
        return Declined(KEPT_ONCE)
    elif not has_even_panes(source.windowing):
        return Declined(UNEVEN)
    accumulators, merge = AccumulatorPlan(compiled, request.aggregates), bool(source.partitions)
    spec = attrs.evolve(base_spec(source, compiled), answer=accumulators.answer(source, request.number, merge))
    values = tuple(accumulators.values)
    in_ranges = source.windowing.kind == WHOLE and not source.keys and not source.is_stream
    reason = why_not_in_panes(spec, in_ranges) or why_extreme(spec.answer) or _why_not_apart(spec, values, source)
    if reason:
        return Declined(reason)
    return merged(MultiplyPanes(BuildPanes(Scan(source, compiled), spec, values)))


def _why_not_apart(spec: KernelSpec, values: tuple[Expr, ...], source: Source) -> str | None:
    """Returns why several tasks cannot compute the panes of a key; None when they can."""
    types = TypeCheck(source.schema)
    of_moments = [values[one.column] for one in spec.answer.accumulators if one.update.moment]
    if all(spec.answer.exact and decimal_digits(types.infer(value)) for value in of_moments):
        return None
    return "the moments of rounded numbers are about a value of their key, which tasks of its panes do not share"
