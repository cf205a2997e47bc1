"""Trends whose predicates compare with one event, its pivot: all pivots in one sweep by the value that is compared.

For a pivot event ``e`` the events that may stand beside it are those whose values are, say, larger. In the order of the
pivots' values these sets only shrink or grow, or an event is in them for one value alone. So each event is let in and
taken out at most once, and what lies before and after each pivot is a product over a range of time of matrices of the
events that are in at its rank (:mod:`~cetdsl.kernels.aggregate.merge_tree`): ``n log n`` in all, where a pass per pivot
takes time with the square.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cetdsl.ir.kernel import KernelSpec
from cetdsl.kernels.aggregate.additive import additive_values
from cetdsl.kernels.aggregate.merge_tree import (
    Level,
    Queries,
    add_identity,
    add_products,
    build_leaves,
    inner_products,
    merge_neighbours,
    take_ends,
)
from cetdsl.kernels.aggregate.sides import Side, side_of
from cetdsl.kernels.answers.tables import Values
from cetdsl.kernels.machine.conditions import Subslices, subslices_of
from cetdsl.kernels.machine.program import OPERATORS
from cetdsl.kernels.machine.propagate import Accumulators
from cetdsl.kernels.numbers.ladder import FEW_EVENTS, MULTIPLIED
from cetdsl.kernels.numbers.scaled import to_scaled
from cetdsl.kernels.vocabulary import Events, Ints, Slices
from cetdsl.kernels.wire.values import ValueColumn

#: Nodes of so many versions are read by rank: their ranks alone no longer fit the nearest cache.
LONG = 2**11
#: Doubles hold numbers of so many bits.
_RANGE_BITS = 1000


class SweepEvaluator:
    """Evaluates one query over chunk after chunk of sorted events, by sweeping the events of its pivot."""

    def __init__(self, spec: KernelSpec) -> None:
        self.spec = spec
        query = spec.query
        pivot = query.pivot
        self.sides = [side_of(query.machine, query.pairs, pivot, backwards=backwards) for backwards in (True, False)]
        columns = {column for side in self.sides for demands in side.demands for _, _, column in demands}
        # Without any, no state of the machine is ever compared with the pivot.
        self.column = columns.pop() if columns else -1
        states = len(query.machine.variables)
        # A trend without repetitions binds a state once, so their number is bounded by a power of the events'.
        self._repeats = any(len(side.rules.own) for side in self.sides)
        self._bits_per_event = states if not self._repeats else 0

    def evaluate(self, events: Events, columns: list[ValueColumn], slices: Slices, bounds: tuple[Ints, Ints]) -> Values:
        """All accumulators over all slices."""
        job = _Job(self, events, subslices_of(self.spec.query, slices, events, bounds), len(slices.low))
        sizes = slices.high - slices.low
        if self._repeats:
            long = sizes > FEW_EVENTS
        else:
            long = np.log2(np.maximum(sizes, 1)) * self._bits_per_event > _RANGE_BITS
        moduli = (MULTIPLIED, MULTIPLIED)
        scaled, exact = additive_values(self.spec, columns, len(events.time), long, job.compute, moduli)
        return Values(scaled[0].real != 0, exact, scaled, [])


class _System(NamedTuple):
    """A number system: 0 and 1, the prime and its inverse."""

    zero: Any
    one: Any
    prime: Any
    reciprocal: float


class _Job:
    """One evaluation: the order of the sweep, and the leaves of both sides, which all passes share."""

    def __init__(self, evaluator: SweepEvaluator, events: Events, subslices: Subslices, slices: int) -> None:
        self.evaluator, self.events, self.subslices, self.slices = evaluator, events, subslices, slices
        query, g = evaluator.spec.query, evaluator.column
        values = np.zeros(0, dtype=np.int64)
        self.rank = np.zeros(len(subslices.pivot), dtype=np.int64)
        if g >= 0:
            pivots = events.valid[g] & ((events.mask >> query.pivot) & 1 == 1)
            values = np.unique(events.codes[g][pivots])
            # A pivot without a value comes last, when nothing that it is compared with is in.
            of_pivot = np.searchsorted(values, events.codes[g][subslices.pivot])
            self.rank = np.where(events.valid[g][subslices.pivot], of_pivot, len(values))
        ranges = _Ranges(events, values, functools.reduce(operator.or_, map(_readable, evaluator.sides)))
        self.ranks = ranges.ranks
        self.walks = [_Walk(self, side, ranges, backwards) for side, backwards in zip(evaluator.sides, (True, False))]

    def compute(self, accumulators: Accumulators, rows: Ints, kind: Any, prime: Any) -> NDArray[Any]:
        """Computes the accumulators of some slices, see :class:`~cetdsl.kernels.aggregate.additive.AdditivePass`."""
        wanted = np.zeros(self.slices, dtype=np.bool_)
        wanted[rows] = True
        weights = accumulators.weights
        if kind is np.complex128:
            system, weights = _System(kind(0), complex(0.5, 1), np.float64(0), 0.0), to_scaled(weights)
        else:
            system = _System(kind(0), kind(1), prime, 1.0 / float(prime) if prime else 0.0)
        out = np.full((self.slices, len(weights)), system.zero)
        chosen = np.flatnonzero(wanted[self.subslices.window])
        # Every trend binds its pivot in one state.
        states = list(self.evaluator.sides[0].places)
        state, asked = np.repeat(states, len(chosen)), np.tile(chosen, len(states))
        before, after = (walk.answer(asked, state, accumulators.variable, weights, system) for walk in self.walks)
        add_products(
            before,
            after,
            self.subslices.pivot[asked],
            weights,
            np.isin(accumulators.variable, (-1, self.evaluator.spec.query.pivot)),
            self.subslices.window[asked],
            out,
            system.zero,
            system.prime,
            system.reciprocal,
        )
        return out[rows]


class _Ranges:
    """Where the events' values stand among those of the pivots, for each column that is compared with them.

    Attributes
    ----------
    values : int64 array
        The pivots' values, rising, each once.
    ranks : int
        The number of ranks: one per value, and one for the pivots that have none.
    compared : int64 array
        The events that may be bound beside a pivot.
    """

    def __init__(self, events: Events, values: Ints, readable: int) -> None:
        self.events, self.values, self.ranks = events, values, len(values) + 1
        self.compared = np.flatnonzero(events.mask & readable)
        self._found: dict[int, tuple[NDArray[np.int32], ...]] = {}

    def of(self, column: int) -> tuple[NDArray[np.int32], ...]:
        """Returns the numbers of values below, and of those that are not above, the own one of each compared event."""
        if column not in self._found:
            codes = self.events.codes[column]
            # In their order they are looked up four times as fast: the next value is near the last one.
            order = self.compared[np.argsort(codes[self.compared])]
            rising = codes[order]
            low, high = np.zeros((2, len(codes)), dtype=np.int32)
            low[order] = np.searchsorted(self.values, rising, side="left")
            high[order] = np.searchsorted(self.values, rising, side="right")
            self._found[column] = low, high
        return self._found[column]


class _Walk:
    """The leaves of one side in the order of its walks, and the range of them that each subslice asks for."""

    def __init__(self, job: _Job, side: Side, ranges: _Ranges, backwards: bool) -> None:
        self.job, self.side = job, side
        events, subslices = job.events, job.subslices
        leaves = np.flatnonzero(events.mask & _readable(side))
        segment = np.searchsorted(events.segment_start, leaves, side="right") - 1
        owner = np.searchsorted(events.segment_start, subslices.pivot, side="right") - 1
        # Backwards, all that rises with time is turned over.
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
            end = np.searchsorted(-self.leaves[first], -subslices.low, side="right")
        else:
            end = np.searchsorted(self.leaves[first], subslices.high, side="left")
        self.right = np.maximum(end - base, self.left)
        self.first, self.last = _admissions(side, events, self.leaves, ranges)

    def answer(self, asked: Ints, state: Ints, variable: Ints, weights: NDArray[Any], system: _System) -> NDArray[Any]:
        """Counts the walks of some subslices that begin in some states: shape (walks, accumulators)."""
        side, zero, prime, reciprocal = self.side, system.zero, system.prime, system.reciprocal
        vectors = np.full((2, len(asked), len(weights), len(side.final)), zero)
        place = np.zeros(max(side.places) + 1, dtype=np.int64)
        place[list(side.places)] = list(side.places.values())
        vectors[0, np.arange(len(asked)), 0, place[state]] = system.one
        vectors[1, :, 0, side.final] = system.one
        queries = Queries(
            self.owner[asked], self.left[asked], self.right[asked], self.job.rank[asked], vectors[0], vectors[1]
        )
        order = np.arange(len(asked))
        if len(self.leaves):
            queries, order = self._take(queries, variable, weights, system)
        out = np.empty((len(asked), len(weights)), dtype=vectors.dtype)
        out[order] = inner_products(queries.row, queries.column, zero, prime, reciprocal)
        return out

    def _take(self, queries: Queries, variable: Ints, weights: NDArray[Any], system: _System) -> tuple[Queries, Ints]:
        """Multiplies the queries' vectors with the matrices of their ranges; they come back in another order."""
        rules, (zero, one, prime, reciprocal) = self.side.rules, system
        mask = self.job.events.mask
        built = build_leaves(
            rules, self.leaves, mask, self.first, self.last, self.job.ranks, weights, variable, zero, one
        )
        level = Level(self.instant_start, *built)
        while len(level.start) > len(level.owner_start):
            level = Level(*merge_neighbours(level, False, rules, zero, prime, reciprocal))
        add_identity(level.values, rules.own, one, prime)
        level = level._replace(owner_start=self.owner_start)
        order, by_rank = np.arange(len(queries.rank)), False
        while True:
            if not by_rank and len(level.rank) > LONG * len(level.start):
                # So far they came by time, and so did the nodes. Few large nodes are rather read by rank.
                order, by_rank = np.argsort(queries.rank, kind="stable"), True
                queries = Queries(*(column[order] for column in queries))
            take_ends(queries, level, rules, zero, prime, reciprocal)
            if (queries.left >= queries.right).all():
                return queries, order
            level = Level(*merge_neighbours(level, True, rules, zero, prime, reciprocal))


def _readable(side: Side) -> int:
    """Returns the variables that a side's events may be bound to, as bits."""
    return functools.reduce(
        operator.or_, (1 << variable for variable in side.rules.variable.tolist() if variable >= 0), 0
    )


def _admissions(side: Side, events: Events, leaves: Ints, ranges: _Ranges) -> tuple[NDArray[np.int32], ...]:
    """Returns the ranks from which, and before which, each leaf may enter each place, both of shape (places, leaves).

    The last rank is that of the pivots without a value.
    """
    first, last = np.zeros((2, len(side.demands), len(leaves)), dtype=np.int32)
    last[:] = ranges.ranks
    for place, demands in enumerate(side.demands):
        for op, column, _ in demands:
            # The event's value on the left, the pivot's on the right.
            begin, end = _RANGES[op](*(found[leaves] for found in ranges.of(column)), ranges.ranks - 1)
            np.maximum(first[place], begin, out=first[place])
            np.minimum(last[place], np.where(events.valid[column][leaves], end, 0), out=last[place])
    return first, last


#: The ranks whose pivots meet a demand, by its operator: those from ``low`` on and before ``high`` have the event's own
#: value, and ``all`` have any.
_RANGES: dict[int, Callable[..., tuple[Any, Any]]] = {
    OPERATORS["="]: lambda low, high, all: (low, high),
    OPERATORS["<"]: lambda low, high, all: (high, all),
    OPERATORS["<="]: lambda low, high, all: (low, all),
    OPERATORS[">"]: lambda low, high, all: (0, low),
    OPERATORS[">="]: lambda low, high, all: (0, high),
}
