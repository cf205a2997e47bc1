"""Builds graphs for queries where the ends of a path do not tell whether a trend is complete.

What tells it is the path's *shadows*: the states of the base machine in which longer trends may have read the same
bindings (:mod:`cetdsl.ir.shadows`). Each slice, or with a span each event that a trend may begin with, has copies of
its events and a part of the graph of its own. The paths of this part, from any node that begins a trend to any that
ends one, are the trends asked for.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cetdsl.ir.indexes import lower_guards, with_orders
from cetdsl.ir.kernel import MAXIMAL, KernelQuery, KernelSpec
from cetdsl.ir.shadows import FOLLOWED, STATES
from cetdsl.ir.windowing import SPAN
from cetdsl.kernels.complete.grounds import Asked, Ground
from cetdsl.kernels.graph.attribute_graph import NEVER, AttributeGraph
from cetdsl.kernels.graph.build import GraphBuilder
from cetdsl.kernels.graph.edges import list_edges
from cetdsl.kernels.graph.follow import Facts, Led, find_detours, follow, no_detours
from cetdsl.kernels.graph.pivots import copy_slices
from cetdsl.kernels.graph.reachability import Standing
from cetdsl.kernels.graph.reduction import reduce_edges
from cetdsl.kernels.graph.standing import (
    NO_DEADLINES,
    Beside,
    Copies,
    Surroundings,
    ends_by,
    find_deadlines,
    find_standing,
)
from cetdsl.kernels.vocabulary import Bools, Events, Graph, Ints, Places
from cetdsl.kernels.wire.windows import span_subslices

#: A deadline after which there are no events.
_LAST_TIME = np.iinfo(np.int64).max


class ShadowedPart(NamedTuple):
    """Some slices with copies of their events, and the facts that decide with which nodes trends begin and end.

    ``attributes`` is the graph of the query's machine, where its states alone tell the shadows, or None. ``standing``
    is what :func:`~cetdsl.kernels.graph.standing.find_standing` returns. ``number`` is the number of each copy's event
    in the chunk, and ``place`` that in the ground. The copies of each slice are ``low:high``.
    """

    attributes: AttributeGraph | None
    standing: tuple[Standing, Standing, Beside]
    copies: Copies
    number: Ints
    low: Ints
    high: Ints
    place: Ints


class ShadowedGraphs:
    """Builds the graphs of one query; ``builder`` is that of its machine, with guards lowered to comparisons."""

    def __init__(self, spec: KernelSpec, builder: GraphBuilder) -> None:
        query = spec.query
        assert query.shadows is not None
        self.query: KernelQuery = query
        self.shadows = query.shadows
        self._base_machine = with_orders(lower_guards(self.shadows.base, spec.layout.codes))
        self._base = GraphBuilder(self._base_machine, builder.length)
        self._builder = builder
        self._led = _led(query)

    def with_deadlines(self, ground: Ground) -> Ground:
        """Returns the ground with the deadlines that a span sets to longer trends."""
        return ground._replace(deadline=find_deadlines(self._base, ground.events, self.query.windowing.length))

    def firsts(self, ground: Ground, asked: Asked, bounds: tuple[Ints, Ints], horizon: Places) -> Asked:
        """Divides slices for a span: into one per event that a trend may begin with, and variable that it is bound to.

        A trend of each slice may begin from the first of its two times ``bounds`` on, and before the second. For each
        event of the chunk, ``horizon`` is the first one that is more than a span later.
        """
        events, length = ground.events, self.query.windowing.length
        found = [np.zeros((4, 0), dtype=np.int64)]
        for variable in sorted({self.query.machine.variables[state] for state, _ in self.query.machine.initial}):
            given = asked.low, asked.high, events.mask, events.time, 1 << variable, length
            low, high, _, row = span_subslices(*given, *bounds)
            found.append(np.stack([low, high, row, np.full_like(low, variable)]))
        columns = np.concatenate(found, axis=1)
        low, high, row, begin = columns[:, np.lexsort((columns[0], columns[2]))]
        since = ground.number[low]
        until = horizon[since].astype(np.int64)
        return asked.rows(row)._replace(low=low, high=high, since=since, until=until, begin=begin)

    def part(self, around: Surroundings, ground: Ground, asked: Asked) -> ShadowedPart:
        """Copies the events of some slices, and finds the facts that decide their trends."""
        own, place = copy_slices(ground.events, asked.low, asked.high)
        start = own.segment_start
        owner, number = np.repeat(np.arange(len(asked.low)), np.diff(start)), ground.number[place]
        deadline = ground.deadline[asked.low] if self.query.windowing.kind == SPAN else NO_DEADLINES
        copies = Copies(own, number, owner, asked.since, asked.until, asked.begin, deadline)
        standing = find_standing(self.query, self._base, around, copies)
        attributes = self._builder.build(own, standing[0]) if self.shadows.kind == STATES else None
        return ShadowedPart(attributes, standing, copies, number, start[:-1], start[1:], place)

    def edges(self, ground: Ground, asked: Asked, part: ShadowedPart, most: int) -> Graph | None:
        """Returns the graph of a part with its edges listed; None if there are more than ``most``."""
        if part.attributes is not None:
            return list_edges(part.attributes, most)
        first, last = int(asked.low.min()), int(asked.high.max())
        if self.shadows.origins:
            # Longer trends begin up to a span earlier.
            first = _since(ground.events, first, self.query.windowing.length)
        events, number = cut_events(ground.events, first, last), part.place - first
        attributes, followed = self._base.build(events), self.shadows.kind == FOLLOWED
        base = list_edges(attributes, most) if followed else reduce_edges(attributes, self._base_machine, most)
        if base is None:
            return None
        own = part.standing[0]
        variable = np.array(self.shadows.base.variables, dtype=np.int64)
        inside = self.query.completeness == MAXIMAL
        detours = find_detours(base, variable, len(events.time), inside=inside) if followed else no_detours()
        start = part.copies.events.segment_start
        facts = self._facts(part)
        return follow(base, detours, self._led, start, number, own.begins, own.ends, facts, len(events.time), most)

    def _facts(self, part: ShadowedPart) -> Facts:
        """Returns the facts about the copies of a part that are needed to follow shadows along edges."""
        _, base, beside = part.standing
        copies, origins = part.copies, self.shadows.origins
        time, slices = copies.events.time, len(copies.low)
        precedes, follows = _as_bits(beside.precedes)[:, None], _as_bits(beside.after != NEVER)[:, None]
        deadline = np.full((slices, 1), _LAST_TIME)
        for origin in origins:
            until = copies.deadline[:, origin]
            begun = (copies.number == copies.low[copies.owner]) & (time <= until[copies.owner])
            later = _as_bits(ends_by(beside.after, time, until[copies.owner][:, None]))
            precedes = np.column_stack([precedes, begun.astype(np.int64) << origin])
            follows = np.column_stack([follows, later])
            deadline = np.column_stack([deadline, until])
        return Facts(precedes, follows, _as_bits(base.ends), time, deadline)


def _since(events: Events, event: int, span: int) -> int:
    """Returns the first event of the same key that is at most a span before an event."""
    begin = int(events.segment_start[np.searchsorted(events.segment_start, event, side="right") - 1])
    return begin + int(np.searchsorted(events.time[begin:event], events.time[event] - span))


def cut_events(events: Events, first: int, last: int) -> Events:
    """Returns the events ``first:last``, numbered from 0."""
    if first == 0 and last == len(events.time):
        return events
    # A slice of the columns of an array with several rows is not contiguous: Numba would compile each kernel for both
    # layouts.
    inner = events.segment_start[(events.segment_start > first) & (events.segment_start < last)]
    return Events(
        np.concatenate([[first], inner, [last]]).astype(np.int64) - first,
        events.time[first:last],
        events.instant[first:last],
        events.mask[first:last],
        np.ascontiguousarray(events.codes[:, first:last]),
        np.ascontiguousarray(events.valid[:, first:last]),
        np.ascontiguousarray(events.list_start[:, first : last + 1]),
        events.list_items - first,
    )


def _as_bits(columns: Bools) -> Ints:
    """Returns each row as the bits of a number; columns beyond 62, which nobody needs then, are left out."""
    width = min(columns.shape[1], 62)
    return columns[:, :width].astype(np.int64) @ (np.int64(1) << np.arange(width, dtype=np.int64))


def _led(query: KernelQuery) -> Led:
    """Returns how edges of the base machine lead from state to state of the query's machine."""
    assert query.shadows is not None
    machine, shadows = query.machine, query.shadows
    place = np.array([reading.place for reading in shadows.readings], dtype=np.int64)
    leads = np.full((len(place), len(shadows.base.variables)), -1, dtype=np.int64)
    for edge in machine.edges:
        leads[edge.source, place[edge.target]] = edge.target
    covers = np.array(shadows.covers, dtype=np.int64)
    return Led(leads, place, covers, shadows.kind == FOLLOWED)
