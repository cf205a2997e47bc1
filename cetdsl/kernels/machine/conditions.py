"""Finds events that may be bound, where trends may begin and end, and the subslices of a slice to evaluate.

A *subslice* is a range of a slice's events that is evaluated by itself. Most slices are one subslice. Where a predicate
or a span relates all events of a trend to one of them, there is a subslice for each event that may be that one, its
*pivot*.

A *guard* is a negation that must have no match in a gap: before a trend, after it, or between two neighbours. Guards
between neighbours become comparisons (:func:`~cetdsl.ir.indexes.lower_guards`); the others are judged here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np

from cetdsl.ir.kernel import KernelQuery
from cetdsl.ir.machine import LISTED
from cetdsl.ir.windowing import SPAN
from cetdsl.kernels._jit import inlined
from cetdsl.kernels._side_by_side import lots, starts
from cetdsl.kernels.machine.program import PAIR_OPERATORS, Program, place_of
from cetdsl.kernels.vocabulary import Bools, Events, Ints, Slices
from cetdsl.kernels.wire.windows import pivot_subslices, span_subslices

#: The operator of a pairwise predicate by which lists say which events satisfy it.
BY_LISTS = PAIR_OPERATORS[LISTED]
#: The pivot is the first event of the trend, whatever its variable.
FIRST_EVENT = -2


class Subslices(NamedTuple):
    """The subslices of a chunk's slices.

    Attributes
    ----------
    low, high, pivot : int64 arrays, shape (subslices,)
        The events of each subslice, ``low:high``, and its pivot (-1: none): the event that its trends must begin with,
        or the one that the pivot variable must be bound to. With a span, trends must begin with the first event.
    window, first : int64 arrays, shape (subslices,)
        The slice that each subslice belongs to, and the first event of that slice, which may lie before ``low``.
    outer : int64 array, shape (subslices,)
        The event that the outer pivot must be bound to; -1: there is none.
    """

    low: Ints
    high: Ints
    pivot: Ints
    window: Ints
    first: Ints
    outer: Ints

    def rows(self, chosen: slice | Ints | Bools) -> Subslices:
        """Returns the chosen subslices."""
        return Subslices(*(column[chosen] for column in self))


class Conditions(NamedTuple):
    """The restrictions on the begin and the end of a trend, and the demands of its pivot on other events.

    Attributes
    ----------
    pivot_variable : int
        -1: there is no pivot. ``FIRST_EVENT``: it is the first event of the trend, whatever its variable.
    pivot_pair : int64 array, shape (pairs, 4)
        The demands of the pivot: operator, other variable, its column, the pivot's column. If list columns answer the
        predicate (:data:`BY_LISTS`), they stand in place of the columns: the list to look in if the other event is the
        earlier one, and the list if the pivot is; -1: no trend has the two in this order.
    latest_before, latest_until : int64 arrays, shape (negations, n)
        Instant of the latest start of a match of the negation that ends before (at or before) the event; -1: none.
    instant_time : int64 array, shape (instants,) or (0,)
        The time of each instant, if negations are judged within a span.
    span : int
        The longest time from the first to the last event of a trend, in the time column's unit; 0: no such bound.
    anchor : int64 array, shape (negations, n) or (0, 0)
        For a trend that ends with the event: the instant after which no match of the negation may begin. With shape (0,
        0) it is the event's own instant for all negations.
    outer_variable, outer_pair
        The same as ``pivot_variable`` and ``pivot_pair``, for the outer pivot.
    """

    pivot_variable: int
    pivot_pair: Ints
    latest_before: Ints
    latest_until: Ints
    instant_time: Ints
    span: int
    anchor: Ints
    outer_variable: int
    outer_pair: Ints


_NOTHING = np.zeros((0, 0), dtype=np.int64)
_NO_PAIR = np.zeros((0, 4), dtype=np.int64)
NO_CONDITIONS = Conditions(-1, _NO_PAIR, _NOTHING, _NOTHING, np.zeros(0, dtype=np.int64), 0, _NOTHING, -1, _NO_PAIR)


def span_of(query: KernelQuery) -> int:
    """The longest span of a trend, 0 where windows do not bound it."""
    return query.windowing.length if query.windowing.kind == SPAN else 0


def conditions_of(query: KernelQuery, events: Events, before: Ints, until: Ints, anchor: Ints = _NOTHING) -> Conditions:
    """Returns what restricts the trends in these events; the arrays are as in :class:`Conditions`."""
    span = span_of(query)
    instant_time = np.zeros(0, dtype=np.int64)
    if span and query.negations:
        instant_time = np.zeros(int(events.instant[-1]) + 1, dtype=np.int64)
        instant_time[events.instant] = events.time
    pivot = FIRST_EVENT if query.pivot_begins or (span and query.pivot < 0) else query.pivot
    demands = pivot_demands(query, query.pivot), pivot_demands(query, query.outer)
    return Conditions(pivot, demands[0], before, until, instant_time, span, anchor, query.outer, demands[1])


def pivot_demands(query: KernelQuery, pivot: int) -> Ints:
    """Returns what an event of a pivot demands of other events, see :class:`Conditions`."""
    about = (pair.about(pivot) for pair in query.pairs)
    demands = [(PAIR_OPERATORS[one.op], one.left_variable, one.left, one.right) for one in about if one is not None]
    return np.array(demands, dtype=np.int64).reshape(-1, 4)


def subslices_of(query: KernelQuery, slices: Slices, events: Events, bounds: tuple[Ints, Ints]) -> Subslices:
    """Returns a subslice for each slice and each event that may be its pivot, outer pivot or, with a span, first event.

    With a span, ``bounds`` are the times from which on, and before which, the first events of the trends of each slice
    lie.
    """
    return _about_pivot(query, events, subslices_before_pivot(query, slices, events, bounds))


def subslices_before_pivot(query: KernelQuery, slices: Slices, events: Events, bounds: tuple[Ints, Ints]) -> Subslices:
    """Returns the subslices of :func:`subslices_of` before they are divided into one for each event of the pivot."""
    rows = np.arange(len(slices.low), dtype=np.int64)
    low, high, window = slices.low, slices.high, rows
    pivot = outer = np.full_like(rows, -1)
    if span := span_of(query):
        beginning = 0
        for state, _ in query.machine.initial:
            beginning |= 1 << query.machine.variables[state]
        low, high, pivot, window = span_subslices(low, high, events.mask, events.time, beginning, span, *bounds)
        outer = np.full_like(pivot, -1)
    if query.outer >= 0:
        low, high, outer, row = pivot_subslices(low, high, events.mask, 1 << query.outer, False)
        pivot, window = pivot[row], window[row]
    return Subslices(low, high, pivot, window, slices.low[window], outer)


def subslices_in_lots(query: KernelQuery, events: Events, subslices: Subslices, most: int) -> Iterator[Subslices]:
    """Divides the subslices of :func:`subslices_before_pivot` by events of the pivot; yields about ``most`` at a time.

    With two pivots, a slice has as many subslices as the product of their numbers of events.
    """
    if not _has_own_pivot(query):
        yield subslices
        return
    pivots = starts((events.mask >> query.pivot) & 1)
    for lot in lots(pivots[subslices.high] - pivots[subslices.low], most):
        yield _about_pivot(query, events, subslices.rows(lot))


def _has_own_pivot(query: KernelQuery) -> bool:
    """Whether there is a pivot that need not be the event with which subslices begin anyway."""
    return query.pivot >= 0 and not (span_of(query) > 0 and query.pivot_begins)


def _about_pivot(query: KernelQuery, events: Events, subslices: Subslices) -> Subslices:
    """Returns a subslice for each event that the pivot may be bound to in each subslice, if there is a pivot."""
    if not _has_own_pivot(query):
        return subslices
    given = subslices.low, subslices.high, events.mask, 1 << query.pivot, query.pivot_begins
    low, high, pivot, row = pivot_subslices(*given)
    return subslices.rows(row)._replace(low=low, high=high, pivot=pivot)


class Tests(Protocol):
    """The tests of two neighbours by each edge: comparisons (operator, later column, earlier column), and lists."""

    @property
    def comparison_start(self) -> Ints: ...
    @property
    def comparison(self) -> Ints: ...
    @property
    def listed_start(self) -> Ints: ...
    @property
    def listed(self) -> Ints: ...


@inlined
def compare(op: int, a: int, b: int) -> bool:
    """``a <op> b`` for the operator numbers of :data:`cetdsl.kernels.machine.program.OPERATORS`."""
    if op == 0:
        return a == b
    if op == 1:
        return a != b
    if op == 2:
        return a < b
    if op == 3:
        return a <= b
    if op == 4:
        return a > b
    return a >= b


@inlined
def is_listed(list_start: Ints, list_items: Ints, row: int, earlier: int, later: int) -> bool:
    """Whether an event is on the list of a later one; lists are sorted."""
    end = list_start[row, later + 1]
    place = place_of(list_items, list_start[row, later], end, earlier)
    return bool(place < end and list_items[place] == earlier)


@inlined
def are_listed(list_start: Ints, list_items: Ints, f: int, g: int, event: int, other: int) -> bool:
    """Whether lists say that two events satisfy a pairwise predicate.

    Row ``f`` lists the ``event`` if it is the earlier of the two, and row ``g`` the ``other``; -1: there is no list.
    """
    row, earlier, later = (f, event, other) if event < other else (g, other, event)
    return row >= 0 and earlier < later and is_listed(list_start, list_items, row, earlier, later)


@inlined
def edge_holds(tests: Tests, events: Events, edge: int, earlier: int, later: int) -> bool:
    """Whether all comparisons and lists of an edge allow two events as neighbours."""
    for c in range(tests.comparison_start[edge], tests.comparison_start[edge + 1]):
        f, g = tests.comparison[c, 1], tests.comparison[c, 2]
        if not (events.valid[f, later] and events.valid[g, earlier]):
            return False
        if not compare(tests.comparison[c, 0], events.codes[f, later], events.codes[g, earlier]):
            return False
    for k in range(tests.listed_start[edge], tests.listed_start[edge + 1]):
        if not is_listed(events.list_start, events.list_items, tests.listed[k], earlier, later):
            return False
    return True


@inlined
def pivot_allows(events: Events, own: int, demands: Ints, pivot: int, event: int, variable: int) -> bool:
    """Whether an event may be bound to ``variable`` if ``pivot`` is bound to the pivot's variable, ``own``."""
    if own == variable:
        return event == pivot
    for k in range(demands.shape[0]):
        if demands[k, 1] == variable:
            f, g = demands[k, 2], demands[k, 3]
            if demands[k, 0] == BY_LISTS:
                if not are_listed(events.list_start, events.list_items, f, g, event, pivot):
                    return False
                continue
            if not (events.valid[f, event] and events.valid[g, pivot]):
                return False
            if not compare(demands[k, 0], events.codes[f, event], events.codes[g, pivot]):
                return False
    return True


@inlined
def begins_first(conditions: Conditions) -> bool:
    """Whether trends must begin with the first event of their subslice."""
    return conditions.pivot_variable == FIRST_EVENT or conditions.span > 0


@inlined
def may_begin(
    program: Program, events: Events, conditions: Conditions, state: int, event: int, low: int, begin: int
) -> bool:
    """Whether a trend may begin with the event in the state.

    ``low`` is the first event of the slice, and ``begin`` that of the subslice.
    """
    if not program.begins[state]:
        return False
    if begins_first(conditions) and event != begin:
        return False
    if conditions.span == 0:
        for k in range(program.begin_guard_start[state], program.begin_guard_start[state + 1]):
            if conditions.latest_before[program.begin_guard[k], event] >= events.instant[low]:
                return False
    return True


@inlined
def may_end(
    program: Program,
    events: Events,
    conditions: Conditions,
    state: int,
    first_state: int,
    event: int,
    high: int,
    begin: int,
) -> bool:
    """Whether a trend of this subslice may end with the event in the state.

    With a span, the gap before the trend, which begins with event ``begin``, reaches back to a span before the trend's
    *last* event, so it is judged here. ``first_state`` is the state of the first event, and -1 if no first state has
    guards.
    """
    if not program.ends[state]:
        return False
    for k in range(program.end_guard_start[state], program.end_guard_start[state + 1]):
        guard = program.end_guard[k]
        anchor = conditions.anchor[guard, event] if len(conditions.anchor) else events.instant[event]
        if conditions.latest_until[guard, high - 1] > anchor:
            return False
    if conditions.span > 0 and first_state >= 0:
        for k in range(program.begin_guard_start[first_state], program.begin_guard_start[first_state + 1]):
            latest = conditions.latest_before[program.begin_guard[k], begin]
            if latest >= 0 and conditions.instant_time[latest] >= events.time[event] - conditions.span:
                return False
    return True
