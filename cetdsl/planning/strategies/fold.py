"""fold: uses built-in Spark expressions only; no Python worker is started."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators import Fold, Operator, Scan
from cetdsl.ir.sorting import INPUT, KERNEL, RUNS, SPARK
from cetdsl.ir.source import Source
from cetdsl.ir.windowing import SLIDING, SPAN, WHOLE
from cetdsl.planning.accumulators import AccumulatorPlan
from cetdsl.planning.panes import COMPARED, NEGATED, SPANNED
from cetdsl.planning.sorting import why_not_sorted_by_kernel
from cetdsl.planning.strategies.kernel import base_spec
from cetdsl.planning.strategies.request import AggregateRequest, Declined, source_of

#: The fold's state is a struct with a field per state and accumulator; beyond this Spark's generated code is too long.
MAX_STATE_FIELDS = 64
#: From so many bytes of events on, by Spark's estimate, a kernel saves more time in each query than the first query of
#: a session takes to start Python workers.
MANY_BYTES = 1 << 20


def fold(request: AggregateRequest) -> Operator | Declined:
    """Folds the sorted array of each key's events with ``aggregate()``, whose state is the automaton's values."""
    source = source_of(request.resolved)
    if request.is_pair:
        return Declined("AND at the top pairs two sets of trends")
    compiled = request.compiled[0]
    if compiled.residual or compiled.pairs or compiled.codes or compiled.lists:
        return Declined(COMPARED)
    if compiled.negations:
        return Declined(NEGATED)
    if source.windowing.kind == SPAN:
        return Declined(SPANNED)
    if source.windowing.kind == SLIDING and source.windowing.slide < source.windowing.length:
        return Declined("overlapping windows would copy every row into each of them")
    if not source.keys and source.windowing.kind == WHOLE:
        return Declined("without groups and windows one row would hold all events")
    if source.partitions:
        return Declined("partitions of one group are added up in a second step")
    if request.number not in ("double", "decimal"):
        return Declined(f"Spark has no number for the form {request.number!r}")
    accumulators = AccumulatorPlan(compiled, request.aggregates, source.schema)
    others = {aggregate.function for _, aggregate in request.aggregates if not aggregate.definition.is_count}
    if others:
        return Declined(f"{', '.join(sorted(others)).upper()} outgrows Spark's own numbers")
    if len(compiled.machine.variables) * len(accumulators.accumulators) > MAX_STATE_FIELDS:
        return Declined("the automaton has too many states for one expression")
    if (reason := _why_kernel(request, source)) is not None:
        return Declined(reason)
    answer = accumulators.answer(source, request.number, partial=False)
    spec = attrs.evolve(base_spec(source, compiled), answer=answer)
    return Fold(Scan(source, compiled), spec, tuple(accumulators.values))


def _why_kernel(request: AggregateRequest, source: Source) -> str | None:
    """Returns why kernels that sort the events themselves are expected to take less time; None if they are not."""
    if source.sort.by == SPARK or (source.sort.by != INPUT and why_not_sorted_by_kernel(source) is not None):
        return None
    if source.sort.by in (KERNEL, RUNS, INPUT):
        return f"sort={source.sort.by!r} is asked for, and Spark would sort the events of each key"
    size = request.bytes_read()
    if size is None or size < MANY_BYTES:
        return None
    return f"Spark would sort row by row what it estimates to be {size >> 20} MiB, and kernels sort events packed"
