"""Decides whether windows are answered as products of panes: where that is possible, and where it takes less time.

A pane is the time between two neighbouring borders of windows. What its events add to a query's counts is a matrix over
the states of the automaton, and the answer of a window is the product of its panes' matrices.
"""

from __future__ import annotations

from cetdsl.aggregates.vocabulary import Merge
from cetdsl.ir.kernel import Answer, KernelSpec
from cetdsl.ir.windowing import SLIDING, SPAN, WHOLE, Windowing, overlap

#: The most states of an automaton, because the time of a product grows with the cube of their number.
MAX_PANES_STATES = 12
#: The fewest windows per event; with fewer, going through each event once per window costs less.
MIN_PANES_OVERLAP = 4
#: From so many windows per event on, panes are made in tasks of their own. That takes a second shuffle, of matrices,
#: but no task reads the events at the borders of time buckets twice. With ten windows per event and few events in a
#: pane it took a quarter to a half longer, with 144 windows and a hundred events a fifteenth less.
MANY_PANES_OVERLAP = 32

#: Why events cannot be counted without looking at others.
COMPARED = "adjacent, pairwise or aggregate predicates compare events with each other"
NEGATED = "NOT needs the latest match of the negated pattern"
SPANNED = "a span without SLIDE needs one pass per first event"
#: Why Spark's windows cannot separate the panes of a stream.
UNEVEN = "SLIDE does not divide WITHIN, so that panes are of two lengths, and a stream closes those of one"
#: Why a stream that keeps each event once does without panes.
KEPT_ONCE = "each event is kept once in any case, and matrices would be kept once for each window"

_EXTREMES = {Merge.SMALLEST: "MIN", Merge.LARGEST: "MAX"}


def why_not_in_panes(spec: KernelSpec, in_ranges: bool = False) -> str | None:
    """Returns why the windows of a query are no products of panes; None when they are.

    Without windows, the answer is such a product if the events come ``in_ranges`` of time: each range is a pane.

    Examples
    --------
    >>> from cetdsl.ir.kernel import KernelQuery
    >>> from cetdsl.ir.layout import RowLayout
    >>> from cetdsl.ir.machine import Edge, Machine
    >>> machine = Machine((0, 1), ((0, ()),), ((1, ()),), (Edge(0, 1), Edge(1, 1)))
    >>> why_not_in_panes(KernelSpec(KernelQuery(machine), RowLayout.of(0, "t", "bigint")))
    'without windows nothing says how long a pane is'
    """
    query = spec.query
    if query.pairs or spec.layout.lists or any(edge.comparisons or edge.listed for edge in query.machine.edges):
        return COMPARED
    if query.negations:
        return NEGATED
    if query.windowing.kind == SPAN:
        return SPANNED
    if query.windowing.kind != SLIDING and not in_ranges:
        return "without windows nothing says how long a pane is"
    if len(query.machine.variables) > MAX_PANES_STATES:
        return f"the automaton has more than {MAX_PANES_STATES} states"
    return None


def has_many_panes(windowing: Windowing) -> bool:
    """Whether windows overlap so much that their panes are made in tasks of their own."""
    return overlap(windowing) >= MANY_PANES_OVERLAP


def has_even_panes(windowing: Windowing) -> bool:
    """Whether all panes of windows are equally long."""
    return windowing.kind == SLIDING and windowing.length % windowing.slide == 0


def why_extreme(answer: Answer) -> str | None:
    """Returns which extremes keep an answer in the task of its events; None when there are none.

    An extreme is kept as the rank of its value among those of its task.
    """
    kept = [_EXTREMES[one.update.merge] for one in answer.accumulators if not one.is_additive]
    return f"tasks do not share the ranks of extremes: {', '.join(dict.fromkeys(kept))}" if kept else None


def why_panes_do_not_pay(windowing: Windowing) -> str | None:
    """Returns why products of panes would take more time than each window by itself; None when they take less."""
    if windowing.kind == WHOLE:
        return None  # several tasks share panes, while otherwise one task has all events of a group
    most = overlap(windowing)
    if most >= MIN_PANES_OVERLAP:
        return None
    times = "one window" if most == 1 else f"{most} windows"
    return f"an event is in {times} at most; panes pay from {MIN_PANES_OVERLAP} on"
