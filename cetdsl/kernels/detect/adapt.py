"""The loop of detection and adaptation in a kernel, for one branch: the statistics and the plan of each key.

The loop counts the events of each variable in each slice of the stream. It estimates the selectivity of each pair of
variables that predicates compare from a sample of pairs of events, in an order and at a distance in time that the
pattern allows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterator
from time import thread_time
from typing import TypeAlias

import attrs
import numpy as np

from cetdsl.detection.histograms import Buckets, SlidingStatistics, counters_of
from cetdsl.detection.loop import Counts, Loop, Pace
from cetdsl.detection.plans import Plan, TreePlan, is_free
from cetdsl.detection.statistics import Statistics
from cetdsl.ir.branches import Between, Branch, BranchPlan
from cetdsl.ir.machine import Pair
from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.detect.plan_ranges import PlanRanges
from cetdsl.kernels.detect.steps import Candidates
from cetdsl.kernels.detect.tables import TableMaker
from cetdsl.kernels.detect.watch import first_looks, pass_over, room_for
from cetdsl.kernels.enumerate.batches import members_of
from cetdsl.kernels.enumerate.layout import ints
from cetdsl.kernels.machine.conditions import compare, is_listed
from cetdsl.kernels.machine.program import OPERATORS
from cetdsl.kernels.vocabulary import Bools, Events, Floats, Ints, Places

#: The number of sampled places of a slice per selectivity; and at each place, the number of neighbouring later events
#: that are compared with as many neighbouring earlier events, because reading events takes longer than comparing them.
SAMPLE, NEIGHBOURS = 2, 5
#: The number of slices for which the work of a search is estimated together; and of their candidates for the first
#: step, one in so many is tried.
TOGETHER, THIN = 8, 128
#: By default, adaptation by invariants only starts for a key if its plan tries so many candidates per event in such a
#: share of the slices: reading and sorting an event takes as long as trying about eight candidates.
PAYS, OFTEN = 8.0, 0.125
#: For a sample before planning: the number of places at which a pair of events is tried, and of events per slice.
TRIED, PIECE = 64, 1_000
#: The constants of a linear congruential generator modulo 2^64 (Knuth's MMIX), whose upper bits are used.
_MULTIPLIER, _INCREMENT = 6_364_136_223_846_793_005, 1_442_695_040_888_963_407


@attrs.define
class Slice:
    """The events and decisions of one slice of the stream of a key."""

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
    """The state of a key: ``plans`` has a plan for each of its complete slices, and one for the next."""

    loop: Loop
    #: The sums of its last slices, and its statistics after them.
    seen: Buckets
    now: Floats
    plans: list[Plan]
    #: The borders of its complete slices, counted in events of the key.
    borders: list[int] = attrs.field(factory=lambda: [0])
    #: How many events of the key came before the chunk.
    offset: int = 0
    #: The statistics of its last slices, if slices are reported.
    told: SlidingStatistics | None = None


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
    samples: int,
    neighbours: int,
    out: Ints,
) -> None:  # the arrays of two slots, and what to do with them
    """Tries pairs of events for each of some slices; a row of ``out`` gets the numbers of tried and of passed pairs.

    The later event of a pair is in the slice; the earlier one is of the same key, and at most a ``window`` before it
    (0: any time). At each of ``samples`` places, up to ``neighbours`` events of one side are compared with as many of
    the other, each with each. Columns of ``slices`` are those of ``_PLACE``. A row of ``test`` has the operator, the
    column of the earlier event and that of the later event; operator 6 is a list of the later event.
    """
    time, instant = events.time, events.instant
    for s in range(len(slices)):
        first, stop = later_rank[slices[s, _FIRST]], later_rank[slices[s, _STOP]]
        if first == stop:
            continue
        low = earlier_rank[slices[s, _LOW]]
        state = (slices[s, _NUMBER] * 7919 + salt) * _MULTIPLIER + _INCREMENT
        for _ in range(samples):
            state = state * _MULTIPLIER + _INCREMENT
            at = first + _below(state, stop - first)
            begin, end = low, earlier_rank[later[at]]
            if window > 0:
                begin = _reaching(time, earlier, begin, end, time[later[at]] - window)
            if begin >= end:
                continue
            state = state * _MULTIPLIER + _INCREMENT
            begin += _below(state, end - begin)
            for a in range(at, min(at + neighbours, stop)):
                one = later[a]
                for b in range(begin, min(begin + neighbours, end)):
                    other = earlier[b]
                    near = window == 0 or time[other] >= time[one] - window
                    if near and instant[other] != instant[one]:
                        out[s, 0] += 1
                        out[s, 1] += _all_hold(events, test, other, one)


@inlined
def _below(state: int, count: int) -> int:
    """Returns a number below ``count`` from the upper bits of a generator's state, without a slow division."""
    return ((state >> 33) & 0x7FFFFFFF) * count >> 31


@inlined
def _reaching(time: Ints, places: Places, begin: int, end: int, least: int) -> int:
    """Finds the first of ``places[begin:end]`` whose time is ``least`` or more; times are ascending.

    The search goes from the end in doubling steps, because a window is short compared with a key.
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


#: By operator, the one that compares the exchanged sides.
_REVERSED = [0, 1, 4, 5, 2, 3]


#: A function that counts the candidates that a search tries for the trends that end in each of some ranges of events.
#: Its arguments are the begins and ends of the ranges, the number of candidates at which to stop for each, and a number
#: n such that one in n candidates of the first step is tried.
Trial: TypeAlias = Callable[[Ints, Ints, Ints, int], Ints]


class BranchLoop:
    """The loops of all keys of one branch."""

    def __init__(
        self,
        plan: BranchPlan,
        branch: Branch,
        pairs: tuple[Pair, ...],
        candidates: tuple[Candidates, ...],
        span: int,
        learned: Floats | None = None,
    ) -> None:
        adapting = plan.adapting
        assert adapting is not None, "its plan stays"
        self._adapting = adapting
        self._first = self._begun(plan, learned)
        self._candidates = candidates
        self._window = span
        problem = adapting.problem
        #: The pairs of slots that predicates compare, and how each is sampled: its number, both slots with the earlier
        #: one first, and the tests of both. If either slot may be the earlier one, both orders are sampled.
        self._compared = sorted(problem.predicates | problem.adjacent)
        self._tests = [
            (place, *ends, _tests(branch, pairs, *ends))
            for place, (one, other) in enumerate(self._compared)
            for ends in (((one, other), (other, one)) if is_free(one, other, problem) else ((one, other),))
        ]
        #: The last key of the previous chunk, which may continue.
        self._last: tuple[Hashable, _Key] | None = None
        #: The plans that were in force so far, by number.
        self.plans: list[Plan] = []
        #: The counts of the work so far, for all keys.
        self.counts = Counts()
        #: The slices that were completed in the last chunk, if they are requested.
        self.slices: list[Slice] = []
        self._pace = Pace(adapting.slice_events)
        #: Whether cheap plans are left alone. They are not if the user sets the length of slices, as each slice is then
        #: judged; nor for trees, whose work is not measured in candidates.
        by_default = adapting.slice_events is None and adapting.adaptation.method == "invariants"
        self._spares = by_default and not isinstance(self._first.plan, TreePlan)
        #: The seconds that deciding and planning had taken when the last chunk began.
        self._spent = 0.0

    def _begun(self, plan: BranchPlan, learned: Floats | None) -> Loop:
        """Returns the loop with which each key begins.

        Its plan is the given one, unless counts of earlier events, which may be all zero, have been ``learned``.
        """
        adapting, known = self._adapting, self._adapting.statistics
        if learned is not None and learned[1 : 1 + len(adapting.problem.variables)].any():
            known = known.updated(self.statistics(learned))
            return Loop(adapting.problem, adapting.algorithm, adapting.adaptation, known)
        loop = Loop(adapting.problem, adapting.algorithm, adapting.adaptation, known)
        loop.plan = plan.plan  # the plan that the user requests, if it is one
        return loop

    @property
    def counted(self) -> object:
        """What is counted: the names of the variables, and the predicates between pairs of their events."""
        return self._adapting.problem.names, [(*place, test.tolist()) for *place, test in self._tests]

    def ranges(
        self,
        events: Events,
        tables: TableMaker,
        ends: tuple[Hashable, Hashable],
        keep_from: int,
        try_out: Callable[[Plan], Trial],
        *,
        by_slice: bool,
    ) -> PlanRanges:
        """Decides on the plans of all keys of a chunk.

        Parameters
        ----------
        events : Events
        tables : TableMaker
            Those of the chunk.
        ends : tuple
            Values that identify the first key and the last one.
        keep_from : int
            The first event that the next chunk has again.
        try_out : callable
            Returns, for an order, the function that counts the candidates that a search in this order tries.
        by_slice : bool
            Whether each slice is a range, and a group, of its own, even if the plan stays, and is reported.
        """
        spent = self.counts.seconds_deciding + self.counts.seconds_planning
        self._pace.chunk(spent - self._spent)
        self._spent = spent
        keys = self._observe(events, tables, ends, try_out, by_slice)
        rows: list[tuple[int, ...]] = []
        begin, first_plan = 0, self._number(self._first_plan)
        for number, key in keys.items():
            low, high = int(events.segment_start[number]), int(events.segment_start[number + 1])
            if begin < low:  # keys whose plan stays
                rows.append((begin, low, first_plan, 0, 0, 0))
            rows += self._of_key(key, number, low, high, len(rows) if by_slice else -1)
            begin = high
        # The last key of a chunk is always among them.
        key.offset += keep_from - low
        self._last = ends[1], key
        return PlanRanges(*(ints([row[column] for row in rows]) for column in range(6)))

    def statistics(self, counts: Floats) -> Statistics:
        """Returns the statistics that counts, as :meth:`count` returns them, stand for."""
        seen = self._sliding(1)
        seen.add(counts)
        return seen.statistics()

    def count(self, events: Events, tables: TableMaker) -> Floats:
        """Returns the counts of a chunk, of all of its keys together: float64[counters]."""
        low, high = events.segment_start[:-1], events.segment_start[1:]
        owner, piece = members_of(np.zeros(len(low), dtype=np.int64), (high - low + PIECE - 1) // PIECE)
        first = low[owner] + piece * PIECE
        stop = np.minimum(first + PIECE, high[owner])
        places = np.stack([low[owner], first, stop, np.arange(len(owner)), (high - low)[owner]], axis=1)
        places = np.ascontiguousarray(places, dtype=np.int64)
        counts = self._counted(events, tables, places)
        self._sample(events, tables, places, counts, np.ones(len(places), dtype=np.bool_), TRIED, 1)
        summed: Floats = counts.sum(axis=0)
        if self._adapting.problem.window is None:
            summed[0] = len(low)  # numbers of events are the mean of all keys
        return summed

    @property
    def _first_plan(self) -> Plan:
        assert self._first.plan is not None
        return self._first.plan

    def _sliding(self, slices: int) -> SlidingStatistics:
        return SlidingStatistics(self._adapting.problem, slices)

    def _observe(
        self,
        events: Events,
        tables: TableMaker,
        ends: tuple[Hashable, Hashable],
        try_out: Callable[[Plan], Trial],
        by_slice: bool,
    ) -> dict[int, _Key]:
        """Decides on the plan after each slice that is complete by now.

        Returns the keys of the chunk whose plan changed, or may change later, by their numbers; always the last key.
        """
        self.slices = []
        starts = events.segment_start
        last = len(starts) - 2
        going_on = self._last[1] if self._last and self._last[0] == ends[0] else None
        if self._first.idle and not by_slice:
            return {last: going_on if going_on and last == 0 else self._fresh()}
        places, own = self._places(starts, going_on)
        keys = {} if going_on is None else {0: going_on}
        begin = np.searchsorted(own, np.arange(last + 2))
        # Searches need these tables, too, so the time of making them does not count as that of deciding.
        for one in self._candidates if len(places) else ():
            tables.rank_of(one)
        trials = self._trials(begin, going_on, try_out)
        started = thread_time()
        rows = self._counted(events, tables, places)
        costly = self._costly(places, begin, trials) if trials else begin[:-1]
        self._sample(events, tables, places, rows, np.arange(len(places)) >= costly[own])
        chosen = np.ones(last + 1, dtype=np.bool_)
        if not by_slice:
            chosen = self._looked(places, rows, begin, costly, going_on is not None)
        chosen[last] = True
        spent = thread_time() - started
        self.counts.seconds_deciding += spent
        for number in np.flatnonzero(chosen).tolist():
            if number not in keys:
                keys[number] = self._fresh()
            some = slice(int(begin[number]), int(begin[number + 1]))
            cheap = int(costly[number] - begin[number])
            counting = spent / max(len(places), 1)
            self._follow(keys[number], number, places[some], rows[some], cheap, counting, by_slice)
        return keys

    def _trials(
        self, begin: Ints, going_on: _Key | None, try_out: Callable[[Plan], Trial]
    ) -> list[tuple[int, int, Trial]]:
        """The trials of the plans in force: for slices of the continued key, which has its own plan, and all others."""
        if not self._spares:
            return []
        parts = [(0, int(begin[-1]), self._first_plan)]
        if going_on is not None:
            parts = [(0, int(begin[1]), going_on.loop.plan), (int(begin[1]), int(begin[-1]), self._first_plan)]
        return [(start, stop, try_out(plan)) for start, stop, plan in parts if start < stop]

    def _costly(self, places: Ints, begin: Ints, trials: list[tuple[int, int, Trial]]) -> Ints:
        """Returns the first slice of each key after which its plan may change; there is none if its plan is cheap.

        For a cheap plan, another one cannot save what deciding costs. The number of candidates that a search tries is
        estimated by trying a few candidates of its first step, all over the key. Statistics start before the first
        costly slice, by as many slices as they are over.
        """
        own = np.repeat(np.arange(len(begin) - 1), np.diff(begin))
        piece = own * len(places) + places[:, _NUMBER] // TOGETHER
        first = np.flatnonzero(np.diff(piece, prepend=-1))
        low, high = places[first, _FIRST], places[np.append(first[1:], len(places)) - 1, _STOP]
        enough = np.ceil(PAYS / THIN * (high - low)).astype(np.int64)
        tried = np.zeros(len(first), dtype=np.int64)
        for start, stop, trial in trials:
            some = (first >= start) & (first < stop)
            tried[some] = trial(low[some], high[some], enough[some], THIN)
        pays, key, keys = tried >= enough, own[first], len(begin) - 1
        often = np.bincount(key, pays, keys) >= OFTEN * np.bincount(key, minlength=keys)
        costly = begin[1:].copy()
        for found in np.flatnonzero(pays & often[key])[::-1]:
            costly[key[found]] = max(begin[key[found]], first[found] - self._adapting.slices)
        return costly

    def _places(self, starts: Ints, going_on: _Key | None) -> tuple[Ints, Ints]:
        """Returns the slices that are complete by now, in rows of ``_PLACE``, and the number of the key of each."""
        low, size = starts[:-1], np.diff(starts)
        # For the continued key: its events before the chunk, those in complete slices, and the number of these slices.
        offset, begun, number = np.zeros_like(low), np.zeros_like(low), np.zeros_like(low)
        if going_on is not None:
            offset[0], begun[0], number[0] = going_on.offset, going_on.borders[-1], len(going_on.borders) - 1
        length = self._pace.lengths(offset + size)
        own, piece = members_of(np.zeros_like(size), np.maximum((offset + size - begun) // length, 0))
        end = begun[own] + (piece + 1) * length[own]
        behind = low[own] - offset[own]
        first = np.maximum(end - length[own] + behind, low[own])
        places = [low[own], first, end + behind, number[own] + piece, end]
        return np.ascontiguousarray(np.stack(places, axis=1), dtype=np.int64), own

    def _looked(self, places: Ints, rows: Floats, begin: Ints, costly: Ints, first_goes_on: bool) -> np.ndarray:
        """Returns for each key whether one of its slices must be looked at; for a continued key that may be so."""
        looked = np.zeros(len(begin) - 1, dtype=np.bool_)
        if len(rows):
            watch, window = self._first.watch, self._adapting.slices
            seen, now = room_for(rows.shape[1], window), watch.begin.copy()
            watched = self._first.watched
            units = self._units(places)
            first_looks(rows, units, costly, begin[1:], window, watch.factors, watched, seen, now, watch.begin, looked)
        looked[0] |= first_goes_on
        return looked

    def _fresh(self) -> _Key:
        loop = self._first.fresh()
        room = room_for(counters_of(self._adapting.problem), self._adapting.slices)
        now = loop.watch.begin.copy()
        return _Key(loop, room, now, [self._first_plan])

    def _number(self, plan: Plan) -> int:
        if plan not in self.plans:
            self.plans.append(plan)
        return self.plans.index(plan)

    def _follow(
        self, key: _Key, number: int, places: Ints, rows: Floats, cheap: int, counting: float, by_slice: bool
    ) -> None:
        """Decides on the plan after each of some slices of a key; after the first ``cheap`` ones the plan stays."""
        at = cheap
        looks: dict[int, Slice] = {}
        before = attrs.evolve(key.loop.counts)
        started = thread_time()
        key.loop.passed_over(cheap)
        key.plans += [key.plans[-1]] * cheap
        units = self._units(places)
        while at < len(rows):
            window, watch = self._adapting.slices, key.loop.watch
            found, gains = pass_over(rows, units, at, window, watch.factors, key.loop.watched, key.seen, key.now)
            key.loop.passed_over(found - at, gains)
            key.plans += [key.plans[-1]] * (found - at)
            if found < len(rows):
                looks[found] = self._look(key, number)
            at = found + 1
        key.borders += places[:, _END].tolist()
        spent = thread_time() - started
        planning = key.loop.counts.seconds_planning - before.seconds_planning
        self.counts.add(key.loop.counts.since(before))
        self.counts.seconds_deciding += spent - planning - (key.loop.counts.seconds_deciding - before.seconds_deciding)
        if by_slice:
            self._tell(key, number, places, rows, looks, counting)

    def _look(self, key: _Key, number: int) -> Slice:
        """Lets the decision function look at the slice that was added last."""
        loop = key.loop
        started, before = thread_time(), attrs.evolve(loop.counts)
        plan = loop.observe(loop.watch.statistics(key.now))
        done = loop.counts.since(before)
        violated = loop.violated
        shown = violated.show(self._adapting.problem.names) if violated else None
        changed = plan != key.plans[-1]
        key.plans.append(plan)
        deciding = thread_time() - started - done.seconds_planning
        return Slice(
            number, 0, 0, plan, Statistics(), done.plannings > 0, changed, shown, deciding, done.seconds_planning
        )

    def _tell(
        self, key: _Key, number: int, places: Ints, rows: Floats, looks: dict[int, Slice], counting: float
    ) -> None:
        """Reports each slice of a key."""
        if key.told is None:
            key.told = self._sliding(self._adapting.slices)
        first, units = len(key.plans) - 1 - len(rows), self._units(places)
        for at, (place, row) in enumerate(zip(places.tolist(), rows, strict=True)):
            key.told.add(row)
            one = looks.get(at, Slice(number, 0, 0, key.plans[first + at], Statistics()))
            self.slices.append(
                attrs.evolve(
                    one,
                    number=place[_NUMBER],
                    events=place[_STOP] - place[_FIRST],
                    plan=key.plans[first + at],
                    statistics=key.told.statistics(float(units[at])),
                    seconds_deciding=one.seconds_deciding + counting,
                )
            )

    def _counted(self, events: Events, tables: TableMaker, places: Ints) -> Floats:
        """Returns a row per slice: its duration, the events of each variable, and zeros for the sample's counts.

        Without a window the duration is the number of its events.
        """
        ranks = [tables.rank_of(one) for one in self._candidates]
        low, first, stop = places[:, _LOW], places[:, _FIRST], places[:, _STOP]
        counts = np.zeros((len(places), counters_of(self._adapting.problem)))
        if self._adapting.problem.window is None:
            counts[:, 0] = stop - first
        else:
            counts[:, 0] = (events.time[stop - 1] - events.time[np.maximum(first - 1, low)]) / self._adapting.unit
        np.maximum(counts[:, 0], 1e-9, out=counts[:, 0])
        for variable, rank in enumerate(ranks):
            counts[:, 1 + variable] = rank[stop] - rank[first]
        return counts

    def _units(self, places: Ints) -> Floats:
        """Returns, for each slice, the number of units of duration that rates after it are based on.

        Without a window, an event of a key can be in a match with any earlier one, so rates are the numbers of the
        key's events so far.
        """
        if self._adapting.problem.window is None:
            return places[:, _END].astype(np.float64)
        return np.ones(len(places))

    def _sample(
        self,
        events: Events,
        tables: TableMaker,
        places: Ints,
        rows: Floats,
        chosen: Bools,
        samples: int = SAMPLE,
        neighbours: int = NEIGHBOURS,
    ) -> None:
        """Samples the chosen slices, and writes how many pairs of events were tried in each, and how many passed."""
        ranks = [tables.rank_of(one) for one in self._candidates]
        items = [tables.candidates(one) for one in self._candidates]
        if not chosen.any():
            return
        pairs, some = len(self._compared), np.ascontiguousarray(places[chosen])
        sampled = np.zeros((pairs, len(some), 2), dtype=np.int64)
        for pair, one, other, test in self._tests:
            both, salt = (items[one], items[other], ranks[one], ranks[other]), one * 31 + other
            _sample(events, test, *both, some, self._window, salt, samples, neighbours, sampled[pair])
        rows[chosen, 1 + len(ranks) :] = np.concatenate([sampled[:, :, 0], sampled[:, :, 1]]).T

    def _of_key(self, key: _Key, number: int, low: int, high: int, group: int) -> Iterator[tuple[int, ...]]:
        """Yields the ranges of a key; each slice is a group of its own, from ``group`` on, unless that is negative."""
        begin, slice_, complete = low, bisect_right(key.borders, key.offset) - 1, len(key.borders) - 1
        while begin < high:
            last = slice_
            while group < 0 and last < complete and key.plans[last + 1] == key.plans[slice_]:
                last += 1
            stop = low + key.borders[last + 1] - key.offset if last < complete else high
            yield begin, stop, self._number(key.plans[slice_]), max(group, 0), number, slice_
            begin, slice_, group = stop, last + 1, group + 1 if group >= 0 else group
