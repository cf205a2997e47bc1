"""Decides which plans can answer a stream: those that answer each time bucket by itself, once it is complete.

A time bucket is complete when no more of its events are awaited, according to the watermark.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from cetdsl.analysis.resolve import ResolvedQuery
from cetdsl.errors import StreamingNotSupported
from cetdsl.ir.emission import FINAL
from cetdsl.ir.operators import EventsInOrder, Exchange, Operator, PanesInOrder
from cetdsl.pattern.nodes import negations
from cetdsl.planning.sorting import why_not_sorted_by_kernel

#: The hint for a query that no stream can answer.
ASK_LATER = "store the stream's events, and ask the same of them where they are read with spark.read"
#: The hint for a query that cannot use events that are kept for queries that come and go.
ASK_APART = "ask for this query by itself, or leave keep= away"
#: The hint for a query that a stream can only answer finally.
ASK_FINAL = "leave emit= away: each answer is then given once, when it is final"


def why_not_on_stream(plan: Operator) -> str | None:
    """Returns why a plan cannot answer a stream; None if it can, or if the events are those of no stream."""
    if not plan.source.is_stream:
        return None
    if plan.source.emit != FINAL and (reason := _why_not_before_final(plan)):
        return reason
    if plan.source.state.whole and (reason := _why_not_whole([plan])):
        return reason
    for operator in plan.walk():
        if operator.only_batch is not None:
            return f"on a stream {operator.only_batch}"
        if not isinstance(operator, Exchange) or not isinstance(operator.gives_rows, EventsInOrder):
            continue
        if operator.gives_rows.shared:
            return "on a stream the tasks of a window cannot share its work"
        if not operator.source.windowing.cut:
            return "on a stream the events of a key are never all known"
        reason = why_not_sorted_by_kernel(operator.source)
        if reason is not None:
            return f"Spark sorts no stream, and {reason}"
    return None


def _keeping(plan: Operator) -> int:
    """Returns how many operators of a plan keep state."""
    exchanges = (operator for operator in plan.walk() if isinstance(operator, Exchange))
    return sum(isinstance(one.gives_rows, EventsInOrder | PanesInOrder) for one in exchanges)


def _why_not_whole(plans: Iterable[Operator]) -> str | None:
    """Returns why plans cannot use events that a stream keeps whole for queries that come and go; None: they can."""
    plans = tuple(plans)
    keeping = sum(map(_keeping, plans))
    if keeping > 1:
        return f"events that any query may go on with are kept in one operator, and these plans need {keeping}"
    lists = any(plan.compiled.lists for plan in plans)
    return "Spark tests inseparable predicates within a key, in state of the query's own" if lists else None


def refuse_scattered(plans: Sequence[Operator]) -> None:
    """Raises if queries that come and go cannot all use the same kept events."""
    if plans and plans[0].source.is_stream and plans[0].source.state.whole and (reason := _why_not_whole(plans)):
        raise StreamingNotSupported(
            f"the queries cannot come and go: {reason}",
            hint="ask for queries of the same partition and group columns, with windows alike, or leave keep= away",
        )


def _why_not_before_final(plan: Operator) -> str | None:
    """Returns why a plan cannot give answers of a stream before they are final; None if it can."""
    keeping = _keeping(plan)
    if keeping > 1:
        return f"before an answer is final Spark keeps state in one operator, and this plan needs {keeping}"
    source = plan.source
    if source.kept_by != source.keys and plan.compiled.lists:
        return "the answer of a group so far needs all of its keys, and Spark tests inseparable predicates within a key"
    return None


def refuse_on_stream(plan: Operator) -> None:
    """Raises where a plan cannot answer a stream."""
    reason = why_not_on_stream(plan)
    if reason is not None:
        raise StreamingNotSupported(f"the query cannot be answered: {reason}", hint=ASK_LATER)


def refuse_eager(resolved: ResolvedQuery) -> None:
    """Raises if a stream cannot give a trend as soon as its last event has come."""
    if resolved.is_stream and negations(resolved.query.pattern):
        raise StreamingNotSupported(
            "emit='eager' gives a trend as soon as its last event has come, and what stands under NOT may still come",
            hint=ASK_FINAL,
        )


def by_bucket(resolved: ResolvedQuery) -> ResolvedQuery:
    """Returns the query with an answer per time bucket if it has one answer over all time, which no stream finishes."""
    window = resolved.query.window
    endless = resolved.is_stream and window is not None and window.slide is None
    return attrs.evolve(resolved, by_bucket=True) if endless else resolved
