"""Grounds: the sets of events that the trends of slices are made of.

Usually there is one *ground*, which holds the events of a chunk. Where pairwise predicates relate all events of a trend
to its *pivot*, the event that one variable is bound to, each event that may be the pivot has a ground of its own. It
holds the events that the predicates allow beside this one, so that they need not be asked again. With a span a ground
has a slice for each event that a trend may begin with, whichever event of the trend is the pivot.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from cetdsl.ir.kernel import KernelQuery
from cetdsl.kernels._side_by_side import lots
from cetdsl.kernels.graph.build import GraphBuilder
from cetdsl.kernels.graph.pivots import beside_pivots
from cetdsl.kernels.graph.standing import NO_DEADLINES
from cetdsl.kernels.machine.conditions import pivot_demands, span_of
from cetdsl.kernels.vocabulary import Events, Ints
from cetdsl.kernels.wire.windows import pivot_subslices, within_span

#: Events beside pivots, each counted once per pivot, that are copied at a time.
MOST_COPIES = 2**20


class Ground(NamedTuple):
    """The events of some grounds, each a key of its own if there is a pivot, and the chunk's ``number`` of each event.

    ``deadline``, of shape (events, base states), is the time up to which a trend may last that begins before the event
    and reads it in the base state; it is empty without a span.
    """

    events: Events
    number: Ints
    deadline: Ints = NO_DEADLINES


class Asked(NamedTuple):
    """Slices that a graph is to be built of.

    ``slices`` are their numbers in the chunk. Each slice holds the events ``low:high`` of a ground. They lie within the
    events ``since:until`` of the chunk, some of which may not stand beside the ``pivot`` and the ``outer`` pivot
    (events of the chunk; -1: none). With a span, ``since`` is the event that trends begin with, and ``begin`` the
    variable that it is bound to there; else ``begin`` is -1.
    """

    slices: Ints
    low: Ints
    high: Ints
    since: Ints
    until: Ints
    pivot: Ints
    outer: Ints
    begin: Ints

    def rows(self, chosen: slice | Ints) -> Asked:
        """Returns the chosen rows."""
        return Asked(*(column[chosen] for column in self))

    def lots(self) -> Iterator[Asked]:
        """Yields rows whose copies fit memory together."""
        return map(self.rows, lots(self.high - self.low, MOST_COPIES))


class Grounds:
    """Finds the grounds of a query's slices."""

    def __init__(self, query: KernelQuery, builder: GraphBuilder) -> None:
        """Finds the grounds of one query; ``builder`` builds the graphs of its machine."""
        self._demands = {pivot: pivot_demands(query, pivot) for pivot in query.pivots}
        self._pivot, self._outer, self._span = query.pivot, query.outer, span_of(query)
        wholes = dict(query.shadows.wholes) if query.shadows is not None else {}
        #: The variables, as bits, that the event of a pivot may be bound to. If the pivot is a part of a variable,
        #: longer trends may bind the event to the whole variable.
        self._builder, self._variable = builder, np.array(query.machine.variables, dtype=np.int64)
        self._bound = {pivot: 1 << pivot | 1 << wholes.get(pivot, pivot) for pivot in query.pivots}

    def of(self, events: Events, slices: Ints, low: Ints, high: Ints) -> Iterator[tuple[Ground, Asked]]:
        """Yields grounds of the events ``low:high`` of slices, with their slices: a slice once for each pivot event."""
        nothing = np.full_like(slices, -1)
        whole = Ground(events, np.arange(len(events.time)))
        asked = Asked(slices, low, high, low, high, nothing, nothing, nothing)
        for outer, about in self._beside(whole, asked, self._outer):
            yield from self._beside(outer, about._replace(outer=about.pivot), self._pivot)

    def _beside(self, ground: Ground, asked: Asked, variable: int) -> Iterator[tuple[Ground, Asked]]:
        """Yields, within a ground, those of each event that may be the pivot ``variable``; or, without one, itself."""
        if variable < 0:
            yield ground, asked
            return
        among = self._on_trends(ground.events) if self._outer >= 0 else ground.events.mask
        low, high, pivot, row = pivot_subslices(asked.low, asked.high, among, 1 << variable, False)
        if self._span:
            low, high = within_span(low, high, ground.events.time, pivot, self._span)
        for some in lots(high - low, MOST_COPIES):
            given = low[some], high[some], pivot[some]
            about = variable, self._bound[variable], self._demands[variable]
            own, place = beside_pivots(ground.events, *about, *given)
            start, rows = own.segment_start, asked.rows(row[some])
            rows = rows._replace(low=start[:-1], high=start[1:], pivot=ground.number[pivot[some]])
            yield Ground(own, ground.number[place]), rows

    def _on_trends(self, events: Events) -> Ints:
        """Returns the variables, as bits, that each event is bound to on trends, pairwise predicates left aside.

        Where there are two pivots, events that lie on no such trend are no pivots: their grounds would be too many.
        """
        nodes = self._builder.build(events).nodes
        bits = np.zeros(len(events.time), dtype=np.int64)
        np.bitwise_or.at(bits, nodes.event, np.int64(1) << self._variable[nodes.state])
        return bits
