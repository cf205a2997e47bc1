"""The loop of detection and adaptation in a kernel, of one branch: per key, what was seen of it and its plan.

Events of each variable are counted in each slice of the stream. The selectivity of each pair of variables that
predicates compare is that of a sample of pairs of events in the order and the distance in time that the pattern allows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterator, Sequence
from time import perf_counter

import attrs
import numpy as np

from cetdsl.detection.histograms import SlidingStatistics
from cetdsl.detection.loop import Loop, Pace
from cetdsl.detection.plans import Plan, is_free
from cetdsl.detection.statistics import Statistics
from cetdsl.ir.branches import Between, Branch, BranchPlan
from cetdsl.ir.machine import Pair
from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.detect.runs import Runs
from cetdsl.kernels.detect.steps import Candidates
from cetdsl.kernels.detect.tables import TableMaker
from cetdsl.kernels.enumerate.batches import members_of
from cetdsl.kernels.enumerate.layout import ints
from cetdsl.kernels.machine.conditions import compare, is_listed
from cetdsl.kernels.machine.program import OPERATORS
from cetdsl.kernels.vocabulary import Events, Ints, Places

#: Pairs of events that are looked at for one selectivity in one slice.
SAMPLE = 64
#: Events of a key of which as many pairs are tried where a sample is taken before planning.
PIECE = 1_000
#: Those of a linear congruential generator modulo 2^64 (Knuth's MMIX), of which the upper bits are used.
_MULTIPLIER, _INCREMENT = 6_364_136_223_846_793_005, 1_442_695_040_888_963_407


@attrs.define
class Slice:
    """What happened in one slice of the stream of a key."""

    key: int
    number: int
    events: int
    plan: Plan
    statistics: Statistics
    planned: bool = False
    changed: bool = False
    violated: str | None = None
    seconds_deciding: float = 0.0
    seconds_planning: float = 0.0


@attrs.define
class _Key:
    """What is known of a key: ``plans`` has one for each of its slices that are complete, and for the next."""

    loop: Loop
    seen: SlidingStatistics
    length: int
    plans: list[Plan]
    #: Where its complete slices begin and end, in events of the key.
    borders: list[int] = attrs.field(factory=lambda: [0])
    #: How many events of the key came before the chunk.
    offset: int = 0

    def complete(self, low: int, high: int) -> Iterator[tuple[int, ...]]:
        """Cuts off the slices that are complete with the events ``low:high`` of a chunk: a row of ``_PLACE`` each."""
        while self.borders[-1] + self.length <= self.offset + high - low:
            first, end = self.borders[-1], self.borders[-1] + self.length
            yield low, max(first - self.offset, 0) + low, end - self.offset + low, len(self.borders) - 1, end
            self.borders.append(end)


#: Columns of slices: the first event of the key in the chunk, the first of the slice and the first behind it, the
#: number of the slice, and the events of the key up to its end.
_PLACE = _LOW, _FIRST, _STOP, _NUMBER, _END = range(5)


@jit
def _sample(
    events: Events,
    test: Ints,
    earlier: Places,
    later: Places,
    earlier_rank: Places,
    later_rank: Places,
    slices: Ints,
    window: int,
    salt: int,
    out: Ints,
) -> None:  # the arrays of two slots, and what to do with them
    """Tries pairs of events for each of some slices: row by row of ``out`` how many were tried, and how many passed.

    The later event is in the slice, and the earlier one of the same key, no more than a ``window`` before it (0: no
    matter how long). Columns of ``slices`` are those of ``_PLACE``. Rows of ``test`` are operator, column of
    the earlier and of the later event; 6 is a list of the later one.
    """
    for s in range(len(slices)):
        first, stop = later_rank[slices[s, _FIRST]], later_rank[slices[s, _STOP]]
        if first == stop:
            continue
        begin = earlier_rank[slices[s, _LOW]]
        state = (slices[s, _NUMBER] * 7919 + salt) * _MULTIPLIER + _INCREMENT
        for _ in range(SAMPLE):
            state = state * _MULTIPLIER + _INCREMENT
            one = later[first + _below(state, stop - first)]
            end = earlier_rank[one]
            start = _reaching(events.time, earlier, begin, end, events.time[one] - window) if window > 0 else begin
            if start >= end:
                continue
            state = state * _MULTIPLIER + _INCREMENT
            other = earlier[start + _below(state, end - start)]
            if events.instant[other] != events.instant[one]:
                out[s, 0] += 1
                out[s, 1] += _all_hold(events, test, other, one)


@inlined
def _below(state: int, count: int) -> int:
    """A number below a count, out of the upper bits of a generator's state; a division would take longer."""
    return ((state >> 33) & 0x7FFFFFFF) * count >> 31


@inlined
def _reaching(time: Ints, places: Places, begin: int, end: int, least: int) -> int:
    """The first of ``places[begin:end]`` whose time, which rises, is ``least`` or more; it is looked for from the end.

    Steps double, as a window is short beside a key.
    """
    step = 1
    while end - step > begin and time[places[end - step]] >= least:
        step *= 2
    low, high = max(begin, end - step), end - step // 2
    while low < high:
        middle = (low + high) // 2
        if time[places[middle]] < least:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def _all_hold(events: Events, test: Ints, other: int, one: int) -> bool:
    for t in range(len(test)):
        op, f, g = test[t, 0], test[t, 1], test[t, 2]
        if op > 5:
            if not is_listed(events.list_start, events.list_items, f, other, one):
                return False
        else:
            holds = events.valid[f, other] and events.valid[g, one]
            if not (holds and compare(op, events.codes[f, other], events.codes[g, one])):
                return False
    return True


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
        plan: BranchPlan,
        branch: Branch,
        pairs: tuple[Pair, ...],
        candidates: tuple[Candidates, ...],
        span: int,
    ) -> None:
        adapting = plan.adapting
        assert adapting is not None, "its plan stays"
        self._adapting = adapting
        self._first = Loop(adapting.problem, adapting.algorithm, adapting.adaptation, adapting.statistics)
        self._first.plan = plan.plan  # what the user asks for, where that is a plan
        self._candidates = candidates
        self._window = span
        problem = adapting.problem
        #: The pairs of slots that predicates compare, and how each is sampled: its number, both slots,
        #: the earlier one first, and what is asked of both. Where either may be that, both ways are tried.
        self._compared = sorted(problem.predicates | problem.adjacent)
        self._tests = [
            (place, *ends, _tests(branch, pairs, *ends))
            for place, (one, other) in enumerate(self._compared)
            for ends in (((one, other), (other, one)) if is_free(one, other, problem) else ((one, other),))
        ]
        #: The last key of the chunk before, which may go on.
        self._last: tuple[Hashable, _Key] | None = None
        #: The plans that were in force so far, by number.
        self.plans: list[Plan] = []
        #: The slices that were complete in the last chunk.
        self.slices: list[Slice] = []
        self._pace = Pace(adapting.slice_events)

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
        self._pace.chunk(sum(one.seconds_deciding + one.seconds_planning for one in self.slices))
        keys = self._keys(events.segment_start, ends, by_slice)
        self._observe(keys, events, tables, by_slice)
        rows: list[tuple[int, ...]] = []
        begin, first_plan = 0, self._number(self._first_plan)
        for number, key in keys.items():
            low, high = int(events.segment_start[number]), int(events.segment_start[number + 1])
            if begin < low:  # keys that end before a plan may change
                rows.append((begin, low, first_plan, 0, 0, 0))
            rows += self._of_key(key, number, low, high, len(rows) if by_slice else -1)
            begin = high
        # The last key of a chunk is always among them.
        key.offset += keep_from - low
        self._last = ends[1], key
        return Runs(*(ints([row[column] for row in rows]) for column in range(6)))

    def sample(self, events: Events, tables: TableMaker) -> Statistics:
        """Returns the statistics of a chunk, of all of its keys together."""
        low, high = events.segment_start[:-1], events.segment_start[1:]
        owner, piece = members_of(np.zeros(len(low), dtype=np.int64), (high - low + PIECE - 1) // PIECE)
        first = low[owner] + piece * PIECE
        stop = np.minimum(first + PIECE, high[owner])
        places = np.stack([low[owner], first, stop, np.arange(len(owner)), (high - low)[owner]], axis=1)
        ranks = [tables.rank_of(one) for one in self._candidates]
        items = [tables.candidates(one) for one in self._candidates]
        counts = self._counts(events, items, ranks, np.ascontiguousarray(places, dtype=np.int64))
        seen = SlidingStatistics(self._adapting.problem, 1)
        (duration,), *others = (np.sum(column, axis=0).tolist() for column in zip(*counts, strict=True))
        seen.add(duration, *others)
        return seen.statistics()

    @property
    def _first_plan(self) -> Plan:
        assert self._first.plan is not None
        return self._first.plan

    def _keys(self, segment_start: Ints, ends: tuple[Hashable, Hashable], by_slice: bool) -> dict[int, _Key]:
        """The keys of a chunk whose plan may change in it or later, by their numbers."""
        sizes = np.diff(segment_start)
        last = len(sizes) - 1
        chosen = sizes >= (0 if by_slice else self._pace.length(0))
        chosen[last] = True
        going_on = self._last[1] if self._last and self._last[0] == ends[0] else None
        keys = {}
        if going_on:
            going_on.length = self._pace.length(going_on.length)
            keys[0] = going_on
        for number in np.flatnonzero(chosen).tolist():
            if number not in keys:
                keys[number] = self._key(int(sizes[number]))
        return keys

    def _key(self, events: int) -> _Key:
        seen = SlidingStatistics(self._adapting.problem, self._adapting.slices)
        return _Key(self._first.fresh(), seen, self._pace.length(events), [self._first_plan])

    def _number(self, plan: Plan) -> int:
        if plan not in self.plans:
            self.plans.append(plan)
        return self.plans.index(plan)

    def _observe(self, keys: dict[int, _Key], events: Events, tables: TableMaker, by_slice: bool) -> None:
        """Looks at the slices that are complete by now, and decides on the plan of the slice behind each."""
        self.slices = []
        if self._first.idle and not by_slice:
            return
        starts = events.segment_start
        owned = [
            (number, key, place)
            for number, key in keys.items()
            for place in key.complete(int(starts[number]), int(starts[number + 1]))
        ]
        if not owned:
            return
        # Searches need these tables too, so their time is not that of deciding.
        ranks = [tables.rank_of(one) for one in self._candidates]
        items = [tables.candidates(one) for one in self._candidates]
        started = perf_counter()
        counts = self._counts(events, items, ranks, np.array([place for _, _, place in owned], dtype=np.int64))
        counting = (perf_counter() - started) / len(owned)
        for (number, key, place), counted in zip(owned, counts, strict=True):
            self.slices.append(self._decide(key, number, place, counted, counting))

    def _decide(
        self, key: _Key, number: int, place: tuple[int, ...], counted: Sequence[Sequence[float]], counting: float
    ) -> Slice:
        """Decides on the plan behind one slice of a key."""
        started = perf_counter()
        (duration,), *others = counted
        key.seen.add(duration, *others)
        statistics = key.seen.statistics()
        counts = key.loop.counts
        plannings, planning = counts.plannings, counts.seconds_planning
        plan = key.loop.observe(statistics)
        planning = counts.seconds_planning - planning
        violated = key.loop.violated
        found = Slice(
            number,
            place[_NUMBER],
            place[_STOP] - place[_FIRST],
            key.plans[-1],
            statistics,
            counts.plannings > plannings,
            plan != key.plans[-1],
            violated.show(self._adapting.problem.names) if violated else None,
            counting + perf_counter() - started - planning,
            planning,
        )
        key.plans.append(plan)
        return found

    def _counts(
        self, events: Events, items: list[Places], ranks: list[Places], places: Ints
    ) -> list[list[list[float]]]:
        """Of each slice its duration, the events of each variable, and the pairs that were tried and that passed."""
        low, first, stop = places[:, _LOW], places[:, _FIRST], places[:, _STOP]
        if self._adapting.problem.window is None:
            # Rates are then of the events of a whole key, as far as it has come.
            duration = (stop - first) / places[:, _END]
        else:
            duration = (events.time[stop - 1] - events.time[np.maximum(first - 1, low)]) / self._adapting.unit
        sampled = np.zeros((len(self._compared), len(places), 2), dtype=np.int64)
        for place, one, other, test in self._tests:
            earlier, later, salt, out = items[one], items[other], one * 31 + other, sampled[place]
            _sample(events, test, earlier, later, ranks[one], ranks[other], places, self._window, salt, out)
        parts = [
            np.maximum(duration, 1e-9)[:, None],
            np.stack([rank[stop] - rank[first] for rank in ranks], axis=1),
            sampled[:, :, 0].T,
            sampled[:, :, 1].T,
        ]
        return [list(counted) for counted in zip(*(part.tolist() for part in parts), strict=True)]

    def _of_key(self, key: _Key, number: int, low: int, high: int, group: int) -> Iterator[tuple[int, ...]]:
        """The runs of a key's events; each slice is a group of its own, from ``group`` on, unless that is negative."""
        begin, slice_, complete = low, bisect_right(key.borders, key.offset) - 1, len(key.borders) - 1
        while begin < high:
            last = slice_
            while group < 0 and last < complete and key.plans[last + 1] == key.plans[slice_]:
                last += 1
            stop = low + key.borders[last + 1] - key.offset if last < complete else high
            yield begin, stop, self._number(key.plans[slice_]), max(group, 0), number, slice_
            begin, slice_, group = stop, last + 1, group + 1 if group >= 0 else group
