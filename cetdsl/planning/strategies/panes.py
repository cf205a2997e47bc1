"""panes: multiplies small matrices of panes (for windows that overlap much, and for one group without windows).

The task that has the events of a key makes the matrices and multiplies them. If windows overlap so much that there are
many panes, events are sent to tasks by key and pane instead, and a second shuffle sends the matrices to the tasks that
multiply them. If the user declares that the input is in order, so that a task reads one *stretch* of time of each key,
tasks make the matrices of what they read before anything is shuffled.
"""

from __future__ import annotations

import attrs

from cetdsl.analysis.types import TypeCheck, decimal_digits
from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.operators import (
    BuildPanes,
    BuildStretches,
    Merge,
    MultiplyPanes,
    MultiplyStretches,
    Operator,
    PanesInPlace,
    ReadAgain,
    Scan,
)
from cetdsl.ir.sorting import INPUT
from cetdsl.ir.source import Source
from cetdsl.ir.windowing import WHOLE
from cetdsl.pattern.expressions import Expr, SparkColumn
from cetdsl.planning.accumulators import AccumulatorPlan
from cetdsl.planning.keeping import keeping_of
from cetdsl.planning.panes import (
    COMPARED,
    KEPT_ONCE,
    UNEVEN,
    has_even_panes,
    has_many_panes,
    why_extreme,
    why_not_in_panes,
    why_panes_do_not_pay,
)
from cetdsl.planning.sorting import exchanged
from cetdsl.planning.strategies.kernel import base_spec, kernel, merged
from cetdsl.planning.strategies.request import AggregateRequest, Declined, source_of

#: From so many bytes of events of a single group on, by Spark's estimate, one task takes longer than ranges of time do
#: on four cores, including the job that first samples the times. One task would also hold all of these events.
MANY_BYTES = 1 << 26
#: The fields of an operator that makes matrices.
_Carried = tuple[Scan, KernelSpec, tuple[Expr, ...]]


def panes(request: AggregateRequest) -> Operator | Declined:
    """Plans :func:`stretches` if the user declares that the input is in order, and else :func:`of_shuffled`.

    The planner does not try stretches by itself, as it cannot know the order of the input. If there is no order, all
    events are read a second time, which takes more than twice as long; if many keys are in order, only the shuffle is
    saved.
    """
    plan = of_shuffled(request)
    if request.resolved.sort.by != INPUT:
        return plan
    instead = kernel(request) if isinstance(plan, Declined) else plan
    found = instead if isinstance(instead, Declined) else stretches(request, instead)
    return plan if isinstance(found, Declined) else found


def stretches(request: AggregateRequest, instead: Operator) -> Operator | Declined:
    """Multiplies the matrices of what each task reads of a key; answers keys whose stretches overlap by ``instead``."""
    found = multiplied_as_read(request)
    if isinstance(found, Declined):
        return found
    plan = MultiplyStretches(BuildStretches(*found))
    return merged(ReadAgain(plan, instead=exchanged(instead.child if isinstance(instead, Merge) else instead)))


def multiplied_as_read(request: AggregateRequest) -> _Carried | Declined:
    """Returns the fields of the operator that makes matrices of stretches; or why there can be none."""
    source = source_of(request.resolved)
    if source.is_stream:
        return Declined("the events of a stream come one micro-batch after the other")
    conditions = (condition for _, condition in request.compiled[0].variables if condition is not None)
    if any(isinstance(node, SparkColumn) for condition in conditions for node in condition.walk()):
        return Declined("a condition is a column of this DataFrame, whose events could not be read once more")
    whole = attrs.evolve(source, windowing=attrs.evolve(source.windowing, cut=0))
    return _carried(request, whole, in_ranges=True)


def of_shuffled(request: AggregateRequest) -> Operator | Declined:
    """Plans :func:`any_panes` where it pays to make panes in tasks of their own, and else panes in place, or declines.

    Panes in place pay where windows overlap enough, and for numbers of any size: panes multiply numbers of equal size,
    while a pass event by event is repeated for every few dozen bits of the largest number, so that its time grows with
    the square of the events of a window. For 16,000 events it took 200 times as long.
    """
    plan = any_panes(request)
    if isinstance(plan, Declined):
        return _panes_in_place(request, extremes=True) or plan
    source = plan.source
    reason = why_panes_do_not_pay(source.windowing) or _why_one_task(request, source)
    instead = plan if reason is None else Declined(reason)
    if source.is_stream or source.windowing.kind == WHOLE:
        return instead
    pays = reason is None and not has_many_panes(source.windowing)
    return (_panes_in_place(request, extremes=False) if pays or request.number == "string" else None) or instead


def _why_one_task(request: AggregateRequest, source: Source) -> str | None:
    """Returns why one task is expected to take less time for all events than ranges of time; None if it is not.

    Numbers of any size are left to ranges, because one task would need a pass for every few dozen bits of a number.
    """
    if source.windowing.kind != WHOLE or request.number == "string":
        return None
    size = request.bytes_read()
    if size is None or size >= MANY_BYTES:
        return None
    told = f"{size >> 20} MiB" if size >> 20 else f"{size:,} bytes"
    return f"one task goes through what Spark estimates to be {told} sooner than a sample of the times is taken"


def _panes_in_place(request: AggregateRequest, extremes: bool) -> Operator | None:
    """Multiplies panes in the tasks of their events; None if that is impossible.

    With ``extremes``, this is for answers with some of them, if windows overlap enough; else for answers without.
    """
    found = _in_panes(request, source_of(request.resolved))
    if isinstance(found, Declined) or request.is_joint:
        return None
    scan, spec, _ = found
    if extremes != bool(why_extreme(spec.answer)) or (extremes and why_panes_do_not_pay(scan.source.windowing)):
        return None
    return merged(PanesInPlace(*found))


def any_panes(request: AggregateRequest) -> Operator | Declined:
    """Multiplies the matrices of the panes that windows share, whether that pays or not.

    Without groups and windows all events are one window, whose panes are ranges of time.
    """
    source = source_of(request.resolved)
    if not source.is_stream:
        # Each pane is the work of one task already, so no time buckets are needed.
        source = attrs.evolve(source, windowing=attrs.evolve(source.windowing, cut=0))
    found = _carried(request, source, source.windowing.kind == WHOLE and not source.keys and not source.is_stream)
    if isinstance(found, Declined):
        return found
    if source.is_stream and keeping_of(source, request.compiled[0]).once:
        return Declined(KEPT_ONCE)
    if source.is_stream and not has_even_panes(source.windowing):
        return Declined(UNEVEN)
    return merged(MultiplyPanes(BuildPanes(*found)))


def _carried(request: AggregateRequest, source: Source, in_ranges: bool) -> _Carried | Declined:
    """Returns the fields of the operator that makes matrices in several tasks; or why there can be none."""
    found = _in_panes(request, source, in_ranges)
    if isinstance(found, Declined):
        return found
    _, spec, values = found
    reason = why_extreme(spec.answer) or _why_not_apart(spec, values, source)
    return Declined(reason) if reason else found


def _in_panes(request: AggregateRequest, source: Source, in_ranges: bool = False) -> _Carried | Declined:
    """Returns the fields of an operator that makes matrices, in whichever tasks; or why there can be none."""
    if request.is_pair:
        return Declined("AND at the top pairs two sets of trends")
    compiled = request.compiled[0]
    if compiled.residual or compiled.codes:
        return Declined(COMPARED)
    accumulators, merge = AccumulatorPlan(compiled, request.aggregates, source.schema), bool(source.partitions)
    spec = attrs.evolve(base_spec(source, compiled), answer=accumulators.answer(source, request.number, merge))
    reason = why_not_in_panes(spec, in_ranges)
    return Declined(reason) if reason else (Scan(source, compiled), spec, tuple(accumulators.values))


def _why_not_apart(spec: KernelSpec, values: tuple[Expr, ...], source: Source) -> str | None:
    """Returns why several tasks cannot compute the panes of a key; None when they can."""
    types = TypeCheck(source.schema)
    of_moments = [values[one.column] for one in spec.answer.accumulators if one.update.moment]
    if all(spec.answer.exact and decimal_digits(types.infer(value)) for value in of_moments):
        return None
    return "the moments of rounded numbers are about a value of their key, which tasks of its panes do not share"
