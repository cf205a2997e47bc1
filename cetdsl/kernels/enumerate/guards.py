"""Computes columns of events by which neighbours are compared for NOT and for a matching policy.

A NOT between two neighbours *guards* the gap between them. Let an event's *latest start* be the latest instant at which
a match of the negated pattern begins that ends before the event. The gap is free of matches if this is not after the
earlier neighbour. So the guard becomes a comparison of a computed column of the later event, the latest start, with one
of the earlier event, its instant.
"""

from __future__ import annotations

import attrs
import numpy as np

from cetdsl.ir.indexes import lower_guards, with_orders
from cetdsl.ir.kernel import KernelQuery, KernelSpec
from cetdsl.ir.machine import Negation
from cetdsl.kernels.enumerate.search import Search
from cetdsl.kernels.enumerate.sights import Sight
from cetdsl.kernels.machine.conditions import NO_CONDITIONS, Subslices
from cetdsl.kernels.machine.links import PolicyColumns
from cetdsl.kernels.machine.program import build_tables, lay_out
from cetdsl.kernels.machine.propagate import Accumulators, keeping_none, propagate
from cetdsl.kernels.vocabulary import Events, Ints, Slices
from cetdsl.kernels.wire.windows import NEVER


class GuardedMachine:
    """The machine of a query, with its guards and its matching policy turned into comparisons of computed columns.

    Guards compare the latest starts of negated patterns, and the policy the instant of the next event that may follow.
    """

    def __init__(self, spec: KernelSpec) -> None:
        self.machine = lower_guards(spec.query.machine, spec.layout.codes, spec.query.negations)
        self._policy = PolicyColumns(spec.query.machine)
        self._negations = [_Negated(spec, negation) for negation in spec.query.negations]
        self._looking = [row for row, negation in enumerate(spec.query.negations) if negation.looks_ahead]

    def with_guards(self, events: Events) -> tuple[Events, Ints, Ints]:
        """Adds code columns to the events: the instant, those of the policy, and the latest starts of negations.

        After these come the ``anchors`` of the negations that look ahead. Also returns the latest starts of matches
        that end before each event, and of those that end no later than it, both of shape (negations, n).
        """
        count, negations = len(events.time), len(self._negations)
        before, until = np.empty((2, negations, count if negations else 0), dtype=np.int64)
        if not negations and not self._policy.count:
            return events, before, until
        for row, negated in enumerate(self._negations):
            before[row], until[row] = negated.latest(events)
        links, leads = self._policy.of(events)
        before = before.reshape(negations, count)
        anchors = [self._negations[row].anchors(events)[None, :] for row in self._looking]
        codes = np.concatenate([events.codes.reshape(-1, count), events.instant[None, :], links, before, *anchors])
        always = np.ones((1 + negations + len(anchors), count), dtype=np.bool_)
        valid = np.concatenate([events.valid.reshape(-1, count), always[:1], leads, always[1:]])
        return events._replace(codes=codes, valid=valid), before, until

    def anchors(self, events: Events) -> Ints:
        """Returns for each event, as the earlier neighbour of a gap, the latest instant at which a match may begin.

        The array has the shape (negations, n). The instant is the event's own: a match that begins later forbids the
        gap. A negation that looks ahead, from the event and no further than a length, has an instant after all others
        where no match lies so near. Without such negations the array is empty; with them the events must be those of
        :meth:`with_guards`.
        """
        if not self._looking:
            return np.zeros((0, 0), dtype=np.int64)
        found = np.tile(events.instant, (len(self._negations), 1))
        found[self._looking] = events.codes[-len(self._looking) :]
        return found


class _Negated:
    """Finds the latest starts of one negated pattern."""

    def __init__(self, spec: KernelSpec, negation: Negation) -> None:
        self._layout = lay_out(with_orders(lower_guards(negation.machine, spec.layout.codes)))
        # Pairwise predicates relate any two events of a match, so such matches are listed one by one.
        query = KernelQuery(negation.machine, pairs=negation.pairs, pivot=negation.pivot)
        self._search = Search(attrs.evolve(spec, query=query)) if negation.pairs else None
        self._sight = None if negation.sight is None else Sight(negation)

    def latest(self, events: Events) -> tuple[Ints, Ints]:
        """Returns the latest start among the matches that end before each event, and among those that end no later."""
        if self._sight is None:
            return _running_latest(events, self.latest_starts(events))
        seen = self._sight.matches(events)
        before, until = _running_latest(events, np.where(seen, events.instant, -1))
        return (before if self._sight.ahead else np.where(self._sight.sees(events), before, -1)), until

    def anchors(self, events: Events) -> Ints:
        """Returns the instant of each event that has a match ahead in sight; for the others, one after all instants."""
        assert self._sight is not None
        return np.where(self._sight.sees(events), events.instant, len(events.instant))

    def latest_starts(self, events: Events) -> Ints:
        """Returns, for each event, the instant of the latest start of a match that ends with it; -1: none."""
        return self._propagated(events) if self._search is None else self._enumerated(events, self._search)

    def _propagated(self, events: Events) -> Ints:
        count = len(events.time)
        latest = np.full(count, -1, dtype=np.int64)
        segments = len(events.segment_start) - 1
        low, high = events.segment_start[:-1], events.segment_start[1:]
        nowhere = np.full(segments, -1, dtype=np.int64)
        subslices = Subslices(low, high, nowhere, np.zeros(segments, dtype=np.int64), low, nowhere)
        accumulators = Accumulators(np.array([-1]), np.array([-1]), np.zeros((1, count), dtype=np.int64))
        program, exists = self._layout.program, np.zeros(1, dtype=np.int64)
        propagate(
            program,
            build_tables(self._layout, events),
            events,
            NO_CONDITIONS,
            accumulators,
            subslices,
            np.int64(-1),
            exists,
            np.int64(0),
            -1,
            True,
            np.full((1, 1), -1, dtype=np.int64),
            latest,
            keeping_none(program, exists),
        )
        return latest

    @staticmethod
    def _enumerated(events: Events, search: Search) -> Ints:
        segments = len(events.segment_start) - 1
        everything = np.arange(segments, dtype=np.int64)
        low, high = events.segment_start[:-1].copy(), events.segment_start[1:].copy()
        slices = Slices(low, high, everything, np.zeros_like(low), everything, int(high[-1]), NEVER)
        bounds = np.full(segments, NEVER), np.full(segments, -NEVER)
        latest, none = np.full(len(events.time), -1, dtype=np.int64), np.zeros((0, 0), dtype=np.int64)
        for block in search.blocks(events, none, none, slices, bounds):
            begin, end = block.event[block.start[:-1]], block.event[block.start[1:] - 1]
            np.maximum.at(latest, end, events.instant[begin])
        return latest


def _running_latest(events: Events, latest: Ints) -> tuple[Ints, Ints]:
    """Returns the latest starts of matches that end before, and at or before, each event, within its key."""
    before, until = np.empty_like(latest), np.empty_like(latest)
    for first, last in zip(events.segment_start[:-1], events.segment_start[1:], strict=True):
        running = np.maximum.accumulate(latest[first:last])
        instant = events.instant[first:last]
        # All events of an instant get the same: ``until`` from the last event of the instant, ``before`` from the last
        # one of the instant before it.
        start = np.searchsorted(instant, instant)
        end = np.searchsorted(instant, instant, side="right")
        until[first:last] = running[end - 1]
        before[first:last] = np.where(start > 0, running[np.maximum(start - 1, 0)], -1)
    return before, until
