"""The loop of detection and adaptation in a kernel, of one branch: per key, what was seen of it and its plan.

Events of each variable are counted in each slice of the stream. The selectivity of each pair of variables that
predicates compare is that of a sample of pairs of events in the order and the distance in time that the pattern allows.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from time import perf_counter

import attrs
import numpy as np

from cetdsl.detection.histograms import SlidingStatistics
from cetdsl.detection.loop import Loop, slice_length
from cetdsl.detection.plans import OrderPlan
from cetdsl.detection.statistics import Statistics
from cetdsl.ir.branches import Between, Branch, BranchOrder
from cetdsl.ir.machine import Pair
from cetdsl.kernels._jit import jit
from cetdsl.kernels.detect.runs import Runs
from cetdsl.kernels.detect.steps import Candidates
from cetdsl.kernels.detect.tables import TableMaker
from cetdsl.kernels.enumerate.layout import ints
from cetdsl.kernels.machine.conditions import compare, is_listed
from cetdsl.kernels.machine.program import OPERATORS
from cetdsl.kernels.vocabulary import Events, Ints, Places

#: Pairs of events that are looked at for one selectivity in one slice.
SAMPLE = 64
#: A multiplier of Lehmer's generator modulo 2^31 - 1 (Park and Miller 1988).
_MULTIPLIER, _MODULUS = 48_271, 2**31 - 1


@attrs.define
class Slice:
    """What happened in one slice of the stream of a key."""

    key: int
    number: int
    events: int
    order: tuple[int, ...]
    statistics: Statistics
    planned: bool = False
    changed: bool = False
    violated: str | None = None
    seconds_deciding: float = 0.0
    seconds_planning: float = 0.0


@attrs.define
class _Key:
    """What is known of a key: its first ``observed`` slices have been looked at, and ``orders`` has a plan for each."""

    loop: Loop
    seen: SlidingStatistics
    length: int
    orders: list[tuple[int, ...]]
    #: How many events of the key came before the chunk.
    offset: int = 0
    observed: int = 0


@jit
def _sample(
    events: Events,
    test: Ints,
    earlier: Places,
    later: Places,
    low: int,
    first: int,
    stop: int,
    window: int,
    state: int,
) -> tuple[int, int]:
    """Tries pairs of which the later event is one of ``later[first:stop]``; returns how many, and how many passed.

    The earlier event is from event ``low`` on, and no more than a ``window`` before the later one (0: no matter how
    long). Rows of ``test`` are operator, column of the earlier and of the later event; 6 is a list of the later one.
    """
    tried = passed = 0
    for _ in range(SAMPLE):
        state = state * _MULTIPLIER % _MODULUS
        one = later[first + state % (stop - first)]
        begin, end = np.searchsorted(earlier, low), np.searchsorted(earlier, one)
        least = end if window > 0 else begin
        while begin < least:
            # Times rise; events before ``begin`` are too early, those from ``least`` on are not.
            middle = (begin + least) // 2
            if events.time[one] - events.time[earlier[middle]] > window:
                begin = middle + 1
            else:
                least = middle
        if begin >= end:
            continue
        state = state * _MULTIPLIER % _MODULUS
        other = earlier[begin + state % (end - begin)]
        if events.instant[other] == events.instant[one]:
            continue
        tried += 1
        holds = True
        for t in range(len(test)):
            op, f, g = test[t, 0], test[t, 1], test[t, 2]
            if op > 5:
                holds = holds and is_listed(events.list_start, events.list_items, f, other, one)
            else:
                holds = holds and events.valid[f, other] and events.valid[g, one]
                holds = holds and compare(op, events.codes[f, other], events.codes[g, one])
        passed += holds
    return tried, passed


def _tests(branch: Branch, pairs: tuple[Pair, ...], one: int, other: int) -> Ints:
    """The predicates between two slots, or within one: operator, column of the earlier and of the later event."""
    left, right = branch.slots[one].variable, branch.slots[other].variable
    rows = []
    for pair in pairs if one != other else ():
        if (pair.left_variable, pair.right_variable) == (left, right):
            rows.append((OPERATORS[pair.op], pair.left, pair.right))
        if (pair.right_variable, pair.left_variable) == (left, right):
            rows.append((_REVERSED[OPERATORS[pair.op]], pair.right, pair.left))
    between = branch.slots[one].inner if one == other else branch.between[one] if other == one + 1 else None
    for comparison in (between or Between()).comparisons:
        rows.append((_REVERSED[OPERATORS[comparison.op]], comparison.earlier, comparison.later))
    rows += [(6, number, 0) for number in (between or Between()).listed]
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


#: The operator that compares the sides the other way round.
_REVERSED = [0, 1, 4, 5, 2, 3]


class BranchLoop:
    """The loops of all keys of one branch."""

    def __init__(
        self,
        plan: BranchOrder,
        branch: Branch,
        pairs: tuple[Pair, ...],
        candidates: tuple[Candidates, ...],
        span: int,
    ) -> None:
        adapting = plan.adapting
        assert adapting is not None, "its plan stays"
        self._adapting = adapting
        self._first = Loop(adapting.problem, adapting.algorithm, adapting.adaptation, adapting.statistics)
        self._first.plan = OrderPlan(plan.order)  # what the user asks for, where that is an order
        self._candidates = candidates
        self._window = span
        compared = sorted(adapting.problem.predicates | adapting.problem.adjacent)
        self._tests = [(one, other, _tests(branch, pairs, one, other)) for one, other in compared]
        #: The last key of the chunk before, which may go on.
        self._last: tuple[Hashable, _Key] | None = None
        #: The orders that were in force so far, by number, and the slices since they were last asked for.
        self.orders: list[tuple[int, ...]] = []
        self.slices: list[Slice] = []

    def runs(
        self, events: Events, tables: TableMaker, ends: tuple[Hashable, Hashable], keep_from: int, *, by_slice: bool
    ) -> Runs:
        """Decides on the plans of all keys of a chunk.

        Parameters
        ----------
        events : Events
        tables : TableMaker
            Those of the chunk.
        ends : tuple
            What tells the first key and the last one from all others.
        keep_from : int
            The first event that the next chunk has again.
        by_slice : bool
            Whether each slice is a run, and a group, of its own, even where the plan stays.
        """
        rows: list[tuple[int, ...]] = []
        segments = len(events.segment_start) - 1
        ranks = [tables.rank_of(one) for one in self._candidates]
        for number in range(segments):
            low, high = int(events.segment_start[number]), int(events.segment_start[number + 1])
            key = self._last[1] if number == 0 and self._last and self._last[0] == ends[0] else None
            last = number == segments - 1
            if key is None and (last or high - low >= self._shortest(high - low) or by_slice):
                key = self._key(high - low)
            if key is None:
                rows.append((low, high, self._number(self._first_order), 0, number, 0))
                continue
            self._observe(key, number, events, tables, ranks, low, high, by_slice)
            rows += self._of_key(key, number, low, high, len(rows) if by_slice else -1)
            if last:
                key.offset += keep_from - low
                self._last = ends[1], key
        return Runs(*(ints([row[column] for row in rows]) for column in range(6)))

    @property
    def _first_order(self) -> tuple[int, ...]:
        return _order_of(self._first)

    def _shortest(self, events: int) -> int:
        return slice_length(self._adapting.slice_events, events)

    def _key(self, events: int) -> _Key:
        seen = SlidingStatistics(self._adapting.problem, self._adapting.slices)
        return _Key(self._first.fresh(), seen, self._shortest(events), [self._first_order])

    def _number(self, order: tuple[int, ...]) -> int:
        if order not in self.orders:
            self.orders.append(order)
        return self.orders.index(order)

    def _observe(
        self,
        key: _Key,
        number: int,
        events: Events,
        tables: TableMaker,
        ranks: list[Places],
        low: int,
        high: int,
        by_slice: bool,
    ) -> None:
        """Looks at the slices that are complete by now, and decides on the plan of the slice behind each."""
        while (key.observed + 1) * key.length <= key.offset + high - low:
            first = max(low + key.observed * key.length - key.offset, low)
            stop = low + (key.observed + 1) * key.length - key.offset
            before = attrs.evolve(key.loop.counts)
            started = perf_counter()
            if first < stop and (by_slice or not key.loop.idle):
                self._count(key, events, tables, ranks, low, first, stop)
            counting = perf_counter() - started
            statistics = key.seen.statistics()
            order = _order_of_plan(key.loop.observe(statistics))
            counts, violated = key.loop.counts, key.loop.violated
            self.slices.append(
                Slice(
                    number,
                    key.observed,
                    stop - first,
                    key.orders[-1],
                    statistics,
                    counts.plannings > before.plannings,
                    order != key.orders[-1],
                    violated.show(self._adapting.problem.names) if violated else None,
                    counting + counts.seconds_deciding - before.seconds_deciding,
                    counts.seconds_planning - before.seconds_planning,
                )
            )
            key.orders.append(order)
            key.observed += 1

    def _count(
        self, key: _Key, events: Events, tables: TableMaker, ranks: list[Places], low: int, first: int, stop: int
    ) -> None:
        """Counts the events of a slice, and tries a sample of pairs."""
        counted = [int(rank[stop] - rank[first]) for rank in ranks]
        tried, passed = [], []
        for one, other, test in self._tests:
            begin, end = int(ranks[other][first]), int(ranks[other][stop])
            found = (0, 0)
            if begin < end:
                earlier, later = (tables.candidates(self._candidates[slot]) for slot in (one, other))
                seed = (key.observed * 7919 + one * 31 + other) % (_MODULUS - 1) + 1
                found = _sample(events, test, earlier, later, low, begin, end, self._window, seed)
            tried.append(found[0])
            passed.append(found[1])
        if self._adapting.problem.window is None:
            # Rates are then of the events of a whole key, as far as it has come.
            duration = (stop - first) / ((key.observed + 1) * key.length)
        else:
            duration = float(events.time[stop - 1] - events.time[max(first - 1, low)]) / self._adapting.unit
        key.seen.add(max(duration, 1e-9), counted, tried, passed)

    def _of_key(self, key: _Key, number: int, low: int, high: int, group: int) -> Iterator[tuple[int, ...]]:
        """The runs of a key's events; each slice is a group of its own, from ``group`` on, unless that is negative."""
        begin, slice_ = low, key.offset // key.length
        while begin < high:
            last = slice_
            while group < 0 and last + 1 < len(key.orders) and key.orders[last + 1] == key.orders[slice_]:
                last += 1
            stop = min(low + (last + 1) * key.length - key.offset, high)
            yield begin, stop, self._number(key.orders[slice_]), max(group, 0), number, slice_
            begin, slice_, group = stop, last + 1, group + 1 if group >= 0 else group


def _order_of(loop: Loop) -> tuple[int, ...]:
    return _order_of_plan(loop.plan)


def _order_of_plan(plan: object) -> tuple[int, ...]:
    order = getattr(plan, "order", None)
    assert isinstance(order, tuple), plan
    return order
