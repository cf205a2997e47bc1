"""Aggregates trends whose predicates compare all events with one of them, the pivot: one sweep for all pivots.

The events that may stand beside a pivot are those whose values are, say, greater than the pivot's. The sweep takes the
pivots in the order of their values, by *rank*. Then an event comes in at one rank and goes out at another, at most once
for each range of values that its predicates allow; in between it may stand beside the pivots. The trends through a
pivot are the walks before it times the walks after it (:mod:`~cetdsl.kernels.aggregate.sides`). Either number is a
product, over a range of time, of the matrices of the events that are in at the pivot's rank
(:mod:`~cetdsl.kernels.aggregate.merge_tree`). This takes ``n log n`` steps in all, where one pass over the events per
pivot takes a number of steps that grows with the square of ``n``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cetdsl.aggregates.vocabulary import Merge
from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.machine import longest_trend
from cetdsl.kernels.aggregate.additive import System, additive_values, system_of
from cetdsl.kernels.aggregate.lots import in_lots, most_pivots
from cetdsl.kernels.aggregate.merge_tree import (
    Level,
    Queries,
    add_identity,
    add_products,
    build_leaves,
    inner_products,
    merge_neighbours,
    room_for_leaves,
    take_ends,
)
from cetdsl.kernels.aggregate.ranks import in_order, number_distinct, places_among
from cetdsl.kernels.aggregate.sides import Side, side_of
from cetdsl.kernels.answers.tables import Values, extreme_accumulators, turned
from cetdsl.kernels.machine.conditions import Subslices, subslices_of
from cetdsl.kernels.machine.program import OPERATORS
from cetdsl.kernels.machine.propagate import Accumulators
from cetdsl.kernels.numbers.arithmetic import ADD, RAISE_TO
from cetdsl.kernels.numbers.ladder import MULTIPLIED, likely_beyond
from cetdsl.kernels.numbers.linear import NO_TREND
from cetdsl.kernels.numbers.scaled import to_scaled
from cetdsl.kernels.vocabulary import Events, Ints, Places, Slices
from cetdsl.kernels.wire.values import ValueColumn

#: Nodes of fewer versions than this stay in the processor's cache while queries look for theirs among them.
_SEARCHED = 2048


class SweepEvaluator:
    """Evaluates one query over chunk after chunk of sorted events, by sweeping the events of its pivot."""

    def __init__(self, spec: KernelSpec) -> None:
        self.spec = spec
        query = spec.query
        pivot = query.pivot
        described = query.machine, query.pairs, pivot, query.negations
        self.sides = [side_of(*described, backwards=backwards) for backwards in (True, False)]
        columns = {column for side in self.sides for demands in side.demands for _, _, column in demands}
        # -1: no predicate compares with the pivot.
        self.column = columns.pop() if columns else -1
        self._longest = longest_trend(query.machine)

    def evaluate(self, events: Events, columns: list[ValueColumn], slices: Slices, bounds: tuple[Ints, Ints]) -> Values:
        """Computes all accumulators over all slices."""

        def together(lot: Slices, bounds: tuple[Ints, Ints]) -> Values:
            job = _Job(self, events, subslices_of(self.spec.query, lot, events, bounds), len(lot.low))
            long = likely_beyond(lot.high - lot.low, self._longest)
            moduli = (MULTIPLIED, MULTIPLIED)
            scaled, exact = additive_values(self.spec, columns, len(events.time), long, job.compute, moduli)
            return Values(scaled[0].real != 0, exact, scaled, job.extremes(columns))

        return in_lots(slices, bounds, together, most_pivots(len(events.time)))


class _Job:
    """One evaluation of some slices: the ranks of the pivots, and the leaves of both sides, which all passes share."""

    def __init__(self, evaluator: SweepEvaluator, events: Events, subslices: Subslices, slices: int) -> None:
        self.evaluator, self.events, self.subslices, self.slices = evaluator, events, subslices, slices
        query, g = evaluator.spec.query, evaluator.column
        values = np.zeros(0, dtype=np.int64)
        self.rank = np.zeros(len(subslices.pivot), dtype=np.int64)
        if g >= 0:
            pivots = np.flatnonzero(events.valid[g] & ((events.mask >> query.pivot) & 1 == 1))
            order = np.argsort(events.codes[g][pivots])
            values, rank = number_distinct(events.codes[g], pivots[order])
            # A pivot whose value is NULL has the last rank, at which no event that is compared with it is in.
            self.rank = np.where(events.valid[g][subslices.pivot], rank[subslices.pivot], len(values))
        self.ranks = len(values) + 1
        self.walks = [_Walk(self, side, values, backwards) for side, backwards in zip(evaluator.sides, (True, False))]

    def compute(self, accumulators: Accumulators, rows: Ints, kind: Any, prime: Any) -> NDArray[Any]:
        """Computes the accumulators of some slices, see :class:`~cetdsl.kernels.aggregate.additive.AdditivePass`."""
        wanted = np.zeros(self.slices, dtype=np.bool_)
        wanted[rows] = True
        weights = accumulators.weights
        system = system_of(kind, prime)
        if kind is np.complex128:
            weights = to_scaled(weights)
        out = np.full((self.slices, len(weights)), system.zero)
        chosen = np.flatnonzero(wanted[self.subslices.window])
        # Every trend binds its pivot in one state.
        states = list(self.evaluator.sides[0].places)
        state, asked = np.repeat(states, len(chosen)), np.tile(chosen, len(states))
        before, after = (walk.answer(asked, state, accumulators.bound, weights, system) for walk in self.walks)
        add_products(
            before,
            after,
            self.subslices.pivot[asked],
            weights,
            (accumulators.bound >> self.evaluator.spec.query.pivot & 1).astype(np.bool_),
            self.subslices.window[asked],
            out,
            system.zero,
            system.prime,
            system.reciprocal,
        )
        return out[rows]

    def extremes(self, columns: list[ValueColumn]) -> list[Ints]:
        """Computes the smallest and largest values of trends, by their ranks, and lengths."""
        found = []
        for accumulator in extreme_accumulators(self.evaluator.spec):
            largest = accumulator.update.merge is Merge.LARGEST
            if accumulator.is_length:
                how, weights = ADD, np.full(len(self.events.time), 1 if largest else -1)
            else:
                ranks, values = columns[accumulator.column].ranks()
                how, weights = RAISE_TO, ranks if largest else turned(ranks, len(values))
            asked = Accumulators(np.array([accumulator.bound]), np.array([how]), weights[None, :])
            best = self.compute(asked, np.arange(self.slices), np.int64, np.int64(how))[:, 0]
            best[best == NO_TREND] = 0
            if not largest:
                best = -best if accumulator.is_length else turned(best, len(values))
            found.append(best)
        return found


class _Walk:
    """The leaves of one side of the pivot, in the order of its walks, and the range of instants of each subslice.

    A leaf is an event that a place of the side may read, or that may undo one.
    """

    def __init__(self, job: _Job, side: Side, values: Ints, backwards: bool) -> None:
        self.job, self.side = job, side
        events, subslices = job.events, job.subslices
        readable = 0
        for variable in side.rules.variable.tolist():
            readable |= 1 << variable if variable >= 0 else 0
        # Only events of these slices are leaves.
        low, high = int(subslices.first.min(initial=len(events.mask))), int(subslices.high.max(initial=0))
        leaves = low + np.flatnonzero(events.mask[low:high] & readable)
        segment = np.searchsorted(events.segment_start, leaves, side="right") - 1
        owner = np.searchsorted(events.segment_start, subslices.pivot, side="right") - 1
        # Backwards, numbers that rise with time are negated or counted from the end.
        sign = -1 if backwards else 1
        if backwards:
            leaves, segment = leaves[::-1], len(events.segment_start) - 2 - segment[::-1]
            owner = len(events.segment_start) - 2 - owner
        instant = sign * events.instant[leaves]
        self.leaves = np.ascontiguousarray(leaves)
        first = np.flatnonzero(np.append(True, instant[1:] != instant[:-1]))[: len(leaves)]
        self.instant_start = np.append(first, len(leaves))
        self.owner_start = np.searchsorted(segment[first], np.arange(len(events.segment_start)))
        self.owner = owner
        base = self.owner_start[owner]
        self.left = np.searchsorted(instant[first], sign * events.instant[subslices.pivot], side="right") - base
        if backwards:
            # A NOT before the trend forbids events from the beginning of the slice on, so the range goes back to it.
            end = np.searchsorted(-self.leaves[first], -subslices.first, side="right")
        else:
            end = np.searchsorted(self.leaves[first], subslices.high, side="left")
        self.right = np.maximum(end - base, self.left)
        self.first, self.last = _admissions(side, events, self.leaves, values, job.ranks)

    def answer(self, asked: Ints, state: Ints, bound: Ints, weights: NDArray[Any], system: System) -> NDArray[Any]:
        """Counts the walks of some subslices that begin in some states: shape (walks, accumulators)."""
        side, zero, prime, reciprocal = self.side, system.zero, system.prime, system.reciprocal
        vectors = np.full((2, len(asked), len(weights), len(side.final)), zero)
        for begin, places in side.places.items():
            for place in places:
                vectors[0, state == begin, 0, place] = system.one
        vectors[1, :, 0, side.final] = system.one
        owner, left, right, rank = np.stack((self.owner, self.left, self.right, self.job.rank)).astype(np.int32)
        queries = Queries(owner[asked], left[asked], right[asked], rank[asked], vectors[0], vectors[1])
        order = self._take(queries, bound, weights, system) if len(self.leaves) else None
        products = inner_products(queries.row, queries.column, zero, prime, reciprocal)
        if order is None:
            return products
        answers = np.empty_like(products)
        answers[order] = products
        return answers

    def _take(self, queries: Queries, bound: Ints, weights: NDArray[Any], system: System) -> Ints | None:
        """Multiplies the queries' vectors with the matrices of their ranges.

        Returns the order into which the queries were brought meanwhile, None if they were left in theirs.
        """
        rules, (zero, one, prime, reciprocal) = self.side.rules, system
        leaves = rules, self.leaves, self.job.events.mask, self.first, self.last, self.job.ranks
        # NumPy makes these arrays, and not the kernel, because it asks the system for large pages.
        most, entries = room_for_leaves(*leaves), len(rules.factor_start) - 1
        rank, values = np.empty(most, dtype=np.int32), np.full((most, len(weights), entries), zero)
        start = build_leaves(*leaves, weights, bound, one, rank, values)
        level = Level(self.instant_start, start, rank[: start[-1]], values[: start[-1]])
        # Each level is written where the one before the last was.
        room, other = (level.rank, level.values), (np.empty_like(level.rank), np.empty_like(level.values))

        def above(level: Level, multiplied: bool) -> Level:
            nonlocal room, other
            made = merge_neighbours(level, multiplied, *other, rules, zero, prime, reciprocal)
            room, other = other, room
            return Level(*made, *(array[: made[1][-1]] for array in room))

        while len(level.start) > len(level.owner_start):
            level = above(level, False)
        add_identity(level.values, rules.own, rules.undone, zero, one, prime)
        level = level._replace(owner_start=self.owner_start)
        order = None
        while True:
            if order is None and len(level.rank) > _SEARCHED * (len(level.start) - 1):
                order = in_order(queries.rank, self.job.ranks)
                for array in queries:
                    array[:] = array.take(order, axis=0)
            take_ends(queries, level, order is not None, rules, zero, prime, reciprocal)
            if (queries.left >= queries.right).all():
                return order
            level = above(level, True)


def _admissions(side: Side, events: Events, leaves: Ints, values: Ints, ranks: int) -> tuple[Places, Places]:
    """Returns the ranks from which, and before which, each leaf may enter each place: shape (places, ranges, leaves).

    ``values`` are those of the pivots, rising; the last rank is that of the pivots without a value.
    """
    apart = [sum(op == OPERATORS["!="] for op, _, _ in demands) for demands in side.demands]
    first, last = np.zeros((2, len(side.demands), 2 ** max(apart), len(leaves)), dtype=np.int32)
    last[:, 0] = ranks
    for place, (variable, demands) in enumerate(zip(side.rules.variable.tolist(), side.demands, strict=True)):
        if not demands:
            continue
        own, known = np.flatnonzero((events.mask[leaves] >> variable) & 1), 1
        for op, column, _ in demands:
            codes = events.codes[column][leaves[own]]
            low, high = places_among(values, codes, np.argsort(codes))
            valid = events.valid[column][leaves[own]]
            # The event's value on the left, the pivot's on the right.
            ranges = _RANGES[op](low, high, ranks - 1)
            # Each range so far is intersected with each range of this demand.
            for number in range(known * len(ranges) - 1, -1, -1):
                begin, end = ranges[number // known]
                before = first[place, number % known, own], last[place, number % known, own]
                first[place, number, own] = np.maximum(before[0], begin)
                last[place, number, own] = np.minimum(before[1], np.where(valid, end, 0))
            known *= len(ranges)
    return first, last


#: By the operator of a demand, the ranges of ranks whose pivots meet it. The pivots of the ranks ``low:high`` have the
#: event's own value, and ``all`` is the number of ranks whose pivots have a value.
_RANGES: dict[int, Callable[[Ints, Ints, int], tuple[tuple[Ints | int, Ints | int], ...]]] = {
    OPERATORS["="]: lambda low, high, all: ((low, high),),
    OPERATORS["!="]: lambda low, high, all: ((0, low), (high, all)),
    OPERATORS["<"]: lambda low, high, all: ((high, all),),
    OPERATORS["<="]: lambda low, high, all: ((low, all),),
    OPERATORS[">"]: lambda low, high, all: ((0, low),),
    OPERATORS[">="]: lambda low, high, all: ((0, high),),
}
