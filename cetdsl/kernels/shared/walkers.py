"""Evaluates many queries abreast over chunk after chunk, in the number systems that their answers need."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cetdsl.ir.indexes import HASH, TREE
from cetdsl.ir.kernel import KernelSpec
from cetdsl.kernels.aggregate.extremes import kept_of
from cetdsl.kernels.answers.tables import Values, extreme_accumulators
from cetdsl.kernels.enumerate.guards import GuardedMachine
from cetdsl.kernels.numbers.arithmetic import RAISE_TO
from cetdsl.kernels.numbers.ladder import ADDED_ALONE, FEW_EVENTS, WEIGHED, Moduli, ResiduePass, RoundedPass
from cetdsl.kernels.numbers.residues import Residues
from cetdsl.kernels.shared.abreast import Guards, walk_abreast
from cetdsl.kernels.shared.players import Kind, Kinds, Player, weight_rows
from cetdsl.kernels.shared.ranks import Indexed, ranked_tables
from cetdsl.kernels.shared.states import joined_query, merge_states
from cetdsl.kernels.shared.walks import COUNTED, Asked, LaidOut, ends_of, indexes_of, lay_out_walk
from cetdsl.kernels.vocabulary import Events, Ints, Slices
from cetdsl.kernels.wire.values import ValueColumn

#: Numbers that the indexes of a walk may hold at once; more are kept by several walks, of fewer queries each.
MOST_NUMBERS = 2**25


class AbreastEvaluator:
    """Evaluates queries with equal windows in one walk over the events.

    Their masks, codes and values are numbered together. No query has a pivot or a span, and indexes answer all
    predicates between neighbours.
    """

    def __init__(self, specs: Sequence[KernelSpec]) -> None:
        self.specs = tuple(specs)
        joint, owner = joined_query(self.specs)
        self._guarded = GuardedMachine(joint)
        self.states = merge_states(self._guarded.machine, owner)
        indexes = indexes_of(self.states)
        self.indexed, self.ends = Indexed(tuple(indexes[HASH]), tuple(indexes[TREE])), ends_of(self.states)
        self.laid_out = cache(partial(lay_out_walk, self.states))
        self._halves: tuple[AbreastEvaluator, AbreastEvaluator] | None = None
        #: Whether numbers have left the range of doubles, which is tried first.
        self.beyond = False

    def evaluate(self, events: Events, columns: list[ValueColumn], slices: Slices) -> list[Values]:
        """Computes all accumulators of all queries over their common slices."""
        if self._too_large(len(events.time)):
            return [one for half in self._two_halves() for one in half.evaluate(events, columns, slices)]
        chunk = _Chunk(self, events, columns, slices)
        long = (slices.high - slices.low > FEW_EVENTS) & self.beyond
        player = Player(self.specs, columns, [slices] * len(self.specs))
        values = player.values(chunk, np.tile(long, len(self.specs)))
        extremes = chunk.extremes()
        return [one._replace(extremes=kept) for one, kept in zip(values, extremes)]

    def extremes(self, events: Events, columns: list[ValueColumn], slices: Slices) -> list[list[Ints]]:
        """Computes the accumulators that do not add up."""
        if self._too_large(len(events.time)):
            return [one for half in self._two_halves() for one in half.extremes(events, columns, slices)]
        return _Chunk(self, events, columns, slices).extremes()

    def _too_large(self, count: int) -> bool:
        counting = tuple((COUNTED,) for _ in self.specs)
        columns = len(self.laid_out(counting, (), tuple(range(len(self.indexed.trees)))).walk.slot_source)
        widest = max(len(spec.answer.accumulators) for spec in self.specs)
        return len(self.specs) > 1 and count * columns * widest > MOST_NUMBERS

    def _two_halves(self) -> tuple[AbreastEvaluator, AbreastEvaluator]:
        if self._halves is None:
            middle = len(self.specs) // 2
            self._halves = AbreastEvaluator(self.specs[:middle]), AbreastEvaluator(self.specs[middle:])
        return self._halves

    def guards(self, events: Events) -> tuple[Events, Guards]:
        """Adds what guards are compared with to the events."""
        events, before, until = self._guarded.with_guards(events)
        return events, Guards(before, until)


class _Chunk:
    """The passes over one chunk, which share its index tables."""

    def __init__(self, evaluator: AbreastEvaluator, events: Events, columns: list[ValueColumn], slices: Slices) -> None:
        self.evaluator, self.columns, self.slices = evaluator, columns, slices
        self.events, self.guards = evaluator.guards(events)
        self.count = len(events.time)
        self.tables, self._leader = ranked_tables(evaluator.indexed, evaluator.ends, self.events)

    def rounded(self, kinds: Kinds) -> RoundedPass:
        """Returns a pass in doubles or scaled numbers."""
        rows, needed = weight_rows(kinds)
        weights = np.array([kind.doubles(self.columns, self.count) for kind in needed]).reshape(len(needed), self.count)
        laid_out = self._summing(rows, needed)

        def one_pass(kind: Any, wanted: Ints) -> NDArray[Any]:
            found = self._walked(
                laid_out, weights, kind(0), np.where(laid_out.beginning == -1, kind(1), 0), 0.0, wanted
            )
            self.evaluator.beyond |= kind is np.float64 and not np.isfinite(found).all()
            return found

        return one_pass

    def residues(self, kinds: Kinds) -> tuple[ResiduePass, Moduli]:
        """Returns a pass that takes one prime after the other."""
        rows, needed = weight_rows(kinds)
        laid_out = self._summing(rows, needed)
        begin = laid_out.beginning == -1

        def one_pass(wanted: Ints, primes: Residues) -> Residues:
            found = []
            for prime in primes:
                weights = np.ones((len(needed), self.count), dtype=np.uint64)
                for row, kind in enumerate(needed):
                    if kind.column >= 0:
                        weights[row] = self.columns[kind.column].residues(kind.update, int(prime))
                found.append(self._walked(laid_out, weights, np.uint64(0), begin, prime, wanted))
            return np.stack(found, axis=2)

        return one_pass, WEIGHED if needed else ADDED_ALONE

    def _summing(self, rows: list[list[tuple[int, int]]], needed: list[Kind]) -> LaidOut:
        return self.evaluator.laid_out(_asked(rows), (0,) * len(needed), self._leader)

    def extremes(self) -> list[list[Ints]]:
        """Computes the accumulators of each query that do not add up."""
        lattice = [extreme_accumulators(spec) for spec in self.evaluator.specs]
        kinds = {(one.update, one.column): one for own in lattice for one in own}
        if not kinds:
            return [[] for _ in lattice]
        kept = {kind: kept_of(one, self.columns, self.count) for kind, one in kinds.items()}
        number = {kind: row for row, kind in enumerate(kept)}
        rows = [[(-1, -1), *((one.variable, number[one.update, one.column]) for one in own)] for own in lattice]
        laid_out = self.evaluator.laid_out(_asked(rows), tuple(one.how for one in kept.values()), self._leader)
        # The entry of cells that count is the last one but one, that of cells where no trend begins the last.
        begun = np.array([*(one.one for one in kept.values()), -1, 0], dtype=np.int64)
        weights = np.array([one.weights for one in kept.values()])
        every = np.arange(len(lattice) * len(self.slices.low))
        # Trends become longer by each event of a row, but their largest value is that of one of them.
        merged = laid_out.walk.idempotent if all(one.how == RAISE_TO for one in kept.values()) else 0
        begin = begun[laid_out.beginning]
        found = self._walked(laid_out, weights, np.int64(-1), begin, np.int64(0), every, merged)
        by_query = found.reshape(len(lattice), len(self.slices.low), -1)
        return [
            [kept[one.update, one.column].restored(by_query[q, :, k]) for k, one in enumerate(own, 1)]
            for q, own in enumerate(lattice)
        ]

    def _walked(
        self,
        laid_out: LaidOut,
        weights: NDArray[Any],
        zero: Any,
        begin: NDArray[Any],
        prime: Any,
        wanted: Ints,
        merged: int = 0,
    ) -> NDArray[Any]:
        """Returns the accumulators of some rows, shape (rows, most accumulators); rows are slices, query by query."""
        count = len(self.slices.low)
        row = wanted % count
        chosen = np.unique(row)
        out = np.full((count, int(laid_out.column.max()) + 2), zero)
        slices = np.stack([self.slices.low[chosen], self.slices.high[chosen], chosen], axis=1)
        kind = np.asarray(zero).dtype
        begin = begin.astype(kind)
        walk_abreast(
            laid_out.walk, self.tables, self.events, self.guards, weights, begin, slices, zero, prime, merged, out
        )
        found: NDArray[Any] = out[row[:, None], laid_out.column[wanted // count]]
        return found


def _asked(rows: list[list[tuple[int, int]]]) -> tuple[tuple[Asked, ...], ...]:
    return tuple((COUNTED, *own[1:]) for own in rows)
