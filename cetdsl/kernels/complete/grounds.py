"""Grounds: the events that the trends of slices are made of, those of a chunk or those beside one event of a pivot.

Where pairwise predicates relate all events of a trend to its pivot, each event of the pivot has a ground of its own,
which holds the events that they allow beside it: there is nothing left for them to tell. With a span a ground has a
slice for each event that a trend may begin with, so that the two may be any events of a trend.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from cetdsl.ir.kernel import KernelQuery
from cetdsl.kernels._side_by_side import lots
from cetdsl.kernels.graph.pivots import beside_pivots
from cetdsl.kernels.graph.standing import NO_DEADLINES
from cetdsl.kernels.machine.conditions import pivot_demands, span_of
from cetdsl.kernels.vocabulary import Events, Ints
from cetdsl.kernels.wire.windows import pivot_subslices, within_span

#: Events beside pivots, each counted once per pivot, that are copied at a time.
MOST_COPIES = 2**20


class Ground(NamedTuple):
    """The events of some grounds, each a key of its own if there is a pivot, and the chunk's ``number`` of each event.

    ``deadline``, of shape (events, base states), is the time up to which a trend may last that goes through something
    before the event; it is empty without a span.
    """

    events: Events
    number: Ints
    deadline: Ints = NO_DEADLINES


class Asked(NamedTuple):
    """Slices that a graph is to be built of.

    ``slices`` are the chunk's numbers of them. Their events are ``low:high`` of a ground, and ``since:until`` are those
    of the chunk, of which some may not stand beside the ``pivot`` (the chunk's number of it; -1: none). With a span
    ``since`` is the event that trends begin with, and ``begin`` the variable that it is bound to there; elsewhere -1.
    """

    slices: Ints
    low: Ints
    high: Ints
    since: Ints
    until: Ints
    pivot: Ints
    begin: Ints

    def rows(self, chosen: slice | Ints) -> Asked:
        """Returns the chosen rows."""
        return Asked(*(column[chosen] for column in self))

    def lots(self) -> Iterator[Asked]:
        """Yields rows whose copies fit memory together."""
        return map(self.rows, lots(self.high - self.low, MOST_COPIES))


class Grounds:
    """Finds the grounds of a query's slices."""

    def __init__(self, query: KernelQuery) -> None:
        self._pivot, self._demands, self._span = query.pivot, pivot_demands(query), span_of(query)

    def of(self, events: Events, slices: Ints, low: Ints, high: Ints) -> Iterator[tuple[Ground, Asked]]:
        """Yields grounds of the events ``low:high`` of slices, and the slices that they have: once for each pivot."""
        nothing = np.full_like(slices, -1)
        if self._pivot < 0:
            everything = np.arange(len(events.time))
            yield Ground(events, everything), Asked(slices, low, high, low, high, nothing, nothing)
            return
        since, until, pivot, row = pivot_subslices(low, high, events.mask, 1 << self._pivot, False)
        if self._span:
            since, until = within_span(since, until, events.time, pivot, self._span)
        for some in lots(until - since, MOST_COPIES):
            about = since[some], until[some], pivot[some]
            own, number = beside_pivots(events, self._pivot, self._demands, *about)
            start, begin = own.segment_start, np.full_like(about[0], -1)
            yield Ground(own, number), Asked(slices[row[some]], start[:-1], start[1:], *about, begin)
