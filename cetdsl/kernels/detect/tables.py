"""The tables in which a step finds its candidates: events by variable, buckets by value, trees of extremes.

The *items* of a step are the events that its slot can be bound to, ordered by time, or by bucket and then time. The
candidates of the step are a range of its items. If a test compares by order, a *tree of extremes* over the items holds
the smallest or largest value of each 16 items, of each 16 such groups, and so on, so that the next item for which the
test holds is found without looking at the items between.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np

from cetdsl.ir.machine import Comparison
from cetdsl.kernels._jit import jit
from cetdsl.kernels.detect.steps import (
    EACH,
    FIRSTS,
    FOLLOW,
    FOLLOW_SORTED,
    SORTED,
    Candidates,
    Program,
)
from cetdsl.kernels.enumerate.layout import ints
from cetdsl.kernels.machine.lookups import LARGEST, LEVELS, Pool, add_levels, level_starts
from cetdsl.kernels.machine.program import OPERATORS, equality_codes
from cetdsl.kernels.vocabulary import Bools, Events, Ints, Places

#: The columns of ``Tables.place``: where a step's items begin; the row of its ranks (-1: it has buckets) and the row of
#: its probes (-1: it has none); where its buckets begin; and, from ``LEVEL`` on, where the levels of its tree begin.
ITEMS, RANKS, PROBES, BUCKETS, LEVEL = range(5)


class Tables(NamedTuple):
    """The tables of all steps of a plan, concatenated, perhaps with those of other plans."""

    #: Shape (2 * steps, LEVEL + LEVELS), by the columns above. The second half is for events that follow another one in
    #: a set, if these have tables of their own (``FOLLOW`` of :mod:`~cetdsl.kernels.detect.steps`).
    place: Ints
    #: The items of steps.
    item: Places
    #: ``rank[r, i]`` is the number of items before the event ``i``, for the steps whose ranks are in row ``r``.
    rank: Places
    #: The first item of each bucket, counted from the first of its step.
    bucket: Places
    #: ``probe[p, i]`` is the bucket of the candidates whose values equal those of the bound event ``i``; -1: none do.
    probe: Places
    #: ``key[key_start[t] + i]`` is the value of the item ``i`` that the test ``t`` compares, for tests of each item.
    key: Ints
    key_start: Ints


class Extents(NamedTuple):
    """The index bounds, for each event of a chunk, of its instant and of the span around it."""

    #: The first event of its instant, and the first one of the next instant.
    instant_start: Places
    instant_stop: Places
    #: The first event that lies no more than a span before it, and the first that lies more than a span behind it.
    #: Empty without a span.
    span_start: Places
    span_stop: Places


@jit
def _select(mask: Ints, variable: int, valid: Bools, columns: Ints) -> Places:
    """Lists the events that may be bound to a variable and have a value in each of some columns."""
    found = np.empty(len(mask), dtype=np.int32)
    count = 0
    for i in range(len(mask)):
        if (mask[i] >> variable) & 1:
            known = True
            for column in columns:
                known &= valid[column, i]
            if known:
                found[count] = i
                count += 1
    return found[:count].copy()


@jit
def _rank(items: Places, rank: Places) -> None:
    """Counts the items before each event, and before the end."""
    begin = 0
    for before in range(len(items)):
        for i in range(begin, items[before] + 1):
            rank[i] = before
        begin = items[before] + 1
    for i in range(begin, len(rank)):
        rank[i] = len(items)


@jit
def _look_up(codes: Ints, column: int, items: Places, key: Ints) -> None:
    """Writes the values of some items in a column."""
    for k in range(len(items)):
        key[k] = codes[column, items[k]]


@jit
def into_buckets(items: Places, codes: Ints, buckets: int) -> tuple[Places, Places]:
    """Sorts items stably by their code, and drops those without one; also returns where each bucket begins."""
    start = np.zeros(buckets + 1, dtype=np.int32)
    for i in items:
        if codes[i] >= 0:
            start[codes[i] + 1] += 1
    for code in range(buckets):
        start[code + 1] += start[code]
    place, out = start.copy(), np.empty(start[buckets], dtype=np.int32)
    for i in items:
        if codes[i] >= 0:
            out[place[codes[i]]] = i
            place[codes[i]] += 1
    return out, start


@jit
def _instants(instant: Ints) -> tuple[Places, Places]:
    count = len(instant)
    start, stop = np.empty(count, dtype=np.int32), np.empty(count, dtype=np.int32)
    for i in range(count):
        start[i] = start[i - 1] if i and instant[i] == instant[i - 1] else i
    for i in range(count - 1, -1, -1):
        stop[i] = stop[i + 1] if i < count - 1 and instant[i] == instant[i + 1] else i + 1
    return start, stop


@jit
def _spans(segment_start: Ints, time: Ints, span: int) -> tuple[Places, Places]:
    count = len(time)
    start, stop = np.empty(count, dtype=np.int32), np.empty(count, dtype=np.int32)
    for s in range(len(segment_start) - 1):
        low = high = segment_start[s]
        for i in range(segment_start[s], segment_start[s + 1]):
            while time[i] - time[low] > span:
                low += 1
            while high < segment_start[s + 1] and time[high] - time[i] <= span:
                high += 1
            start[i], stop[i] = low, high
    return start, stop


def extents_of(events: Events, span: int) -> Extents:
    """Finds the extents of all events of a chunk; a span of 0 is none."""
    none = np.zeros(0, dtype=np.int32)
    spans = _spans(events.segment_start, events.time, span) if span else (none, none)
    return Extents(*_instants(events.instant), *spans)


class TableMaker:
    """Makes the tables of plans over one chunk of events; tables that plans share are made once."""

    def __init__(self, events: Events) -> None:
        count = len(events.time)
        self._events = events
        self._items: dict[Candidates, Places] = {}
        self._codes: dict[tuple[Comparison, ...], tuple[Ints, Ints, int]] = {}
        self._bucketed: dict[tuple[Candidates, tuple[Comparison, ...]], tuple[Places, Places]] = {}
        self._item, self._bucket, self._key = Pool(np.int32), Pool(np.int32), Pool(np.int64)
        self._rank, self._probe = Pool(np.int32, count + 1), Pool(np.int32, count)

    def tables(self, program: Program) -> Tables:
        """Makes the tables of a plan."""
        count = len(program.candidates)
        place = np.full((2 * count, LEVEL + LEVELS), -1, dtype=np.int64)
        key_start = np.full(len(program.steps.test), -1, dtype=np.int64)
        for k, (wanted, hashed) in enumerate(zip(program.candidates, program.buckets, strict=True)):
            comparisons = None if hashed is None else hashed.comparisons
            name = wanted, comparisons
            if comparisons is None:
                items = self.candidates(wanted)
                self.rank_of(wanted)
                place[k, RANKS] = self._rank.begin[wanted]
            else:
                items, start = self._in_buckets(wanted, comparisons)
                place[k, BUCKETS] = self._bucket.add(name, start)
                place[k, PROBES] = self._probe.add(comparisons, self.codes_of(comparisons)[1][None])
            place[k, ITEMS] = self._item.add(name, items)
            self._add_keys(program, k, name, items, place, key_start)
            if program.steps.step[k, FOLLOW]:
                self._add_following(program, k, name, items, place)
        item, rank, bucket = self._item.whole, self._rank.whole, self._bucket.whole
        return Tables(place, item, rank, bucket, self._probe.whole, self._key.whole, key_start)

    def candidates(self, wanted: Candidates) -> Places:
        """Lists the events that a slot can be bound to."""
        if wanted not in self._items:
            columns = ints(list(wanted.columns))
            self._items[wanted] = _select(self._events.mask, wanted.variable, self._events.valid, columns)
        return self._items[wanted]

    def rank_of(self, wanted: Candidates) -> Places:
        """Returns how many candidates come before each event, and before the end."""
        if wanted not in self._rank.begin:
            items = self.candidates(wanted)
            _rank(items, self._rank.take(wanted, 1)[0])
        ranks: Places = self._rank.whole[self._rank.begin[wanted]]
        return ranks

    def codes_of(self, comparisons: tuple[Comparison, ...]) -> tuple[Ints, Ints, int]:
        """Returns codes of all events as candidates, their codes as bound events, and the number of codes.

        Two codes are equal if the events satisfy all of the equalities.
        """
        if comparisons not in self._codes:
            self._codes[comparisons] = equality_codes(comparisons, self._events)
        return self._codes[comparisons]

    def _in_buckets(self, wanted: Candidates, comparisons: tuple[Comparison, ...]) -> tuple[Places, Places]:
        if (wanted, comparisons) not in self._bucketed:
            codes, _, size = self.codes_of(comparisons)
            self._bucketed[wanted, comparisons] = into_buckets(self.candidates(wanted), codes, size)
        return self._bucketed[wanted, comparisons]

    def _add_keys(
        self, program: Program, k: int, items_of: Hashable, items: Places, place: Ints, key_start: Ints
    ) -> None:
        """Adds the values of the items of a step that its tests ask for, and the tree over those of one test."""
        step, test = program.steps.step, program.steps.test
        for t in range(step[k, EACH], step[k, FIRSTS]):
            op, column = int(test[t, 0]), int(test[t, 1])
            if op > OPERATORS[">="]:
                continue
            ordered = t == step[k, SORTED]
            key_start[t] = self._add_tree(items_of, items, op, column, place[k] if ordered else None)

    def _add_following(self, program: Program, k: int, items_of: Hashable, items: Places, place: Ints) -> None:
        """Adds the tables of the events that follow another one in the sets of a step."""
        steps, comparisons = program.steps, program.following[k]
        own = place[len(program.candidates) + k]
        own[ITEMS] = place[k, ITEMS]
        if comparisons:
            items_of = program.candidates[k], comparisons
            items, start = self._in_buckets(program.candidates[k], comparisons)
            own[ITEMS], own[BUCKETS] = self._item.add(items_of, items), self._bucket.add(items_of, start)
            own[PROBES] = self._probe.add(comparisons, self.codes_of(comparisons)[1][None])
        ordered = steps.step[k, FOLLOW_SORTED]
        if ordered >= 0:
            self._add_tree(items_of, items, int(steps.inner[ordered, 0]), int(steps.inner[ordered, 1]), own)

    def _add_tree(self, items_of: Hashable, items: Places, op: int, column: int, place: Ints | None) -> int:
        """Adds the values of some items, and the tree over them if there is a ``place`` for its levels."""
        count = len(items)
        starts = level_starts(count) if place is not None else np.array([0, count])
        largest = op >= LARGEST if len(starts) > 2 else None
        name = items_of, column, largest
        if name not in self._key.begin:
            keys = self._key.take(name, int(starts[-1]))
            _look_up(self._events.codes, column, items, keys)
            if largest is not None:
                add_levels(keys, starts, count, largest)
        begin = self._key.begin[name]
        if place is not None:
            place[LEVEL : LEVEL + len(starts) - 1] = begin + starts[:-1]
        return begin
