"""Evaluates many queries *abreast*: one walk over the events of a chunk propagates them all.

A walk (:mod:`~cetdsl.kernels.shared.abreast`) computes in one number system; there are as many as the answers need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property, partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cetdsl.ir.accumulators import Accumulator
from cetdsl.ir.indexes import HASH, TREE, with_orders
from cetdsl.ir.kernel import KernelSpec
from cetdsl.kernels.aggregate.extremes import kept_of, restored
from cetdsl.kernels.answers.tables import Values, extreme_accumulators
from cetdsl.kernels.enumerate.guards import GuardedMachine
from cetdsl.kernels.numbers.arithmetic import RAISE_TO
from cetdsl.kernels.numbers.ladder import ADDED_ALONE, FEW_EVENTS, WEIGHED, Moduli, ResiduePass, RoundedPass
from cetdsl.kernels.numbers.residues import Residues
from cetdsl.kernels.shared.abreast import AT, HIGH, LANE, LOW, OPENS, ROW, WINDOW, Guards, walk_abreast
from cetdsl.kernels.shared.bursts import slices_of_windows, windows_in_order
from cetdsl.kernels.shared.players import Kind, Player, Weighed
from cetdsl.kernels.shared.ranks import Indexed, ranked_tables
from cetdsl.kernels.shared.states import joined_query, merge_states
from cetdsl.kernels.shared.walks import COUNTED, Asked, LaidOut, ends_of, indexes_of, lay_out_walk
from cetdsl.kernels.vocabulary import Bools, Events, Ints, Slices
from cetdsl.kernels.wire.values import ValueColumn

#: Numbers that the indexes of a walk may hold at once; where they would hold more, several walks have fewer queries or
#: lanes each.
MOST_NUMBERS = 2**25
#: Lanes that a walk has for one window number, that is, overlapping windows of a query: more numbers do not fit into
#: the fastest cache.
MOST_LANES = 64

#: Lays out a walk with so many lanes for each window number.
_LayOut = Callable[[tuple[int, ...]], LaidOut]


class _Extremes(NamedTuple):
    """The accumulators of many queries that do not add up.

    Attributes
    ----------
    kinds : list of Accumulator
        One of each kind, whatever its variable.
    asked : tuple
        What :func:`~cetdsl.kernels.shared.walks.lay_out_walk` is asked for, by query.
    number : int64 array, shape (queries, most of a query)
        The kinds of each query's accumulators; 0 where it has fewer.
    counts : list of int
        How many each query has.
    """

    kinds: list[Accumulator]
    asked: tuple[tuple[Asked, ...], ...]
    number: Ints
    counts: list[int]

    @classmethod
    def of(cls, specs: Sequence[KernelSpec]) -> _Extremes:
        lattice = [extreme_accumulators(spec) for spec in specs]
        kinds = {(one.update, one.column): one for own in lattice for one in own}
        place = {kind: number for number, kind in enumerate(kinds)}
        rows = [[(one.variable, place[one.update, one.column]) for one in own] for own in lattice]
        counts = [len(own) for own in rows]
        number = np.zeros((len(rows), max(counts)), dtype=np.int64)
        for query, own in enumerate(rows):
            number[query, : len(own)] = [kind for _, kind in own]
        return cls(list(kinds.values()), tuple((COUNTED, *own) for own in rows), number, counts)


class AbreastEvaluator:
    """Evaluates queries in one walk over the events, whatever windows each of them has.

    All queries number variables, code columns and value columns alike. No query has a pivot or a span, and indexes
    answer all predicates between neighbours.
    """

    def __init__(self, specs: Sequence[KernelSpec]) -> None:
        self.specs = tuple(specs)
        joint, owner = joined_query(self.specs)
        self._guarded = GuardedMachine(joint)
        windowings = list(dict.fromkeys(spec.query.windowing for spec in self.specs))
        self.window = tuple(windowings.index(spec.query.windowing) for spec in self.specs)
        self.states = merge_states(with_orders(self._guarded.machine), owner, self.window)
        indexes = indexes_of(self.states)
        self.indexed, self.ends = Indexed(tuple(indexes[HASH]), tuple(indexes[TREE])), ends_of(self.states)
        self.laid_out = cache(partial(lay_out_walk, self.states))
        self.lattice = _Extremes.of(self.specs)
        self.laid_out_extremes = cache(partial(lay_out_walk, self.states, self.lattice.asked))
        self._halves: tuple[AbreastEvaluator, AbreastEvaluator] | None = None
        self._player = Player(self.specs)
        #: Whether numbers of an earlier chunk have left the range of doubles; until then, doubles are tried first.
        self.beyond = False

    def evaluate(self, events: Events, columns: list[ValueColumn], slices: Sequence[Slices]) -> list[Values]:
        """Computes all accumulators of all queries over their slices, with an entry for each query."""
        if self._too_large(len(events.time)):
            return [one for half, own in self._halved(slices) for one in half.evaluate(events, columns, own)]
        chunk = _Chunk(self, events, columns, slices)
        long = [(cut.high - cut.low > FEW_EVENTS) & self.beyond for cut in chunk.slices]
        every = np.concatenate([long[window] for window in self.window])
        values = self._player.values(chunk, columns, slices, every)
        extremes = chunk.extremes()
        return [one._replace(extremes=kept) for one, kept in zip(values, extremes)]

    def extremes(self, events: Events, columns: list[ValueColumn], slices: Sequence[Slices]) -> list[list[Ints]]:
        """Computes the accumulators that do not add up."""
        if self._too_large(len(events.time)):
            return [one for half, own in self._halved(slices) for one in half.extremes(events, columns, own)]
        return _Chunk(self, events, columns, slices).extremes()

    def _too_large(self, count: int) -> bool:
        return len(self.specs) > 1 and self.numbers(count) > MOST_NUMBERS

    def numbers(self, count: int) -> int:
        """Returns about how many numbers the indexes of ``count`` events hold, for one lane per window."""
        return count * self._numbers_per_event

    @cached_property
    def _numbers_per_event(self) -> int:
        counting = tuple((COUNTED,) for _ in self.specs)
        every, alone = tuple(range(len(self.indexed.trees))), (1,) * (max(self.window) + 1)
        columns = len(self.laid_out(counting, (), every, alone).walk.slot_source)
        return columns * max(len(spec.answer.accumulators) for spec in self.specs)

    def _halved(self, slices: Sequence[Slices]) -> Iterator[tuple[AbreastEvaluator, Sequence[Slices]]]:
        middle = len(self.specs) // 2
        yield from zip(self._two_halves(), (slices[:middle], slices[middle:]))

    def _two_halves(self) -> tuple[AbreastEvaluator, AbreastEvaluator]:
        if self._halves is None:
            middle = len(self.specs) // 2
            self._halves = AbreastEvaluator(self.specs[:middle]), AbreastEvaluator(self.specs[middle:])
        return self._halves

    def guards(self, events: Events) -> tuple[Events, Guards]:
        """Returns the events with the code columns that guards between neighbours are compared with, and the guards."""
        events, before, until = self._guarded.with_guards(events)
        return events, Guards(before, until)


class _Chunk:
    """The passes over one chunk, which share its index tables."""

    def __init__(
        self, evaluator: AbreastEvaluator, events: Events, columns: list[ValueColumn], slices: Sequence[Slices]
    ) -> None:
        self.evaluator, self.columns = evaluator, columns
        self.slices = slices_of_windows(evaluator.window, slices)
        #: For each query the number of slices before its own; for each window number the row of its first slice.
        self.first = np.cumsum([0, *(len(cut.low) for cut in slices)])
        self.first_row = np.cumsum([0, *(len(cut.low) for cut in self.slices)])
        self.events, self.guards = evaluator.guards(events)
        self.count = len(events.time)
        self.tables, self._leader = ranked_tables(evaluator.indexed, evaluator.ends, self.events)

    def rounded(self, asked: Weighed) -> RoundedPass:
        """Returns a pass in doubles or scaled numbers."""
        rows, needed = asked
        weights = np.array([kind.doubles(self.columns, self.count) for kind in needed]).reshape(len(needed), self.count)
        laid_out = self._summing(rows, needed)

        def one_pass(kind: Any, wanted: Ints) -> NDArray[Any]:
            found = self._walked(
                laid_out, weights, kind(0), lambda cells: np.where(cells == -1, kind(1), 0), 0.0, wanted
            )
            self.evaluator.beyond |= kind is np.float64 and not np.isfinite(found).all()
            return found

        return one_pass

    def residues(self, asked: Weighed) -> tuple[ResiduePass, Moduli]:
        """Returns a pass that takes one prime after the other."""
        rows, needed = asked
        laid_out = self._summing(rows, needed)

        def one_pass(wanted: Ints, primes: Residues) -> Residues:
            found = []
            for prime in primes:
                weights = np.ones((len(needed), self.count), dtype=np.uint64)
                for row, kind in enumerate(needed):
                    if kind.column >= 0:
                        weights[row] = self.columns[kind.column].residues(kind.update, int(prime))
                found.append(self._walked(laid_out, weights, np.uint64(0), lambda cells: cells == -1, prime, wanted))
            return np.stack(found, axis=2)

        return one_pass, WEIGHED if needed else ADDED_ALONE

    def _summing(self, rows: list[list[tuple[int, int]]], needed: list[Kind]) -> _LayOut:
        return partial(self.evaluator.laid_out, _asked(rows), (0,) * len(needed), self._leader)

    def extremes(self) -> list[list[Ints]]:
        """Computes the accumulators of each query that do not add up."""
        lattice = self.evaluator.lattice
        if not lattice.kinds:
            return [[] for _ in lattice.counts]
        kept = [kept_of(kind, self.columns, self.count) for kind in lattice.kinds]
        laid_out = partial(self.evaluator.laid_out_extremes, tuple(one.how for one in kept), self._leader)
        # ``beginning`` is -1 in cells that count, and -2 where no trend begins: the last entry, and the one before it.
        begun = np.array([*(one.one for one in kept), -1, 0], dtype=np.int64)
        weights = np.array([one.weights for one in kept])
        # Consecutive events can be taken as one for the largest value of a trend, but not for its length.
        merges = all(one.how == RAISE_TO for one in kept)
        every = np.arange(self.first[-1])
        found = self._walked(laid_out, weights, np.int64(-1), begun.__getitem__, np.int64(0), every, merges)[:, 1:]
        bounds = np.array([(one.least, one.bound) for one in kept])[lattice.number]
        least, bound = np.moveaxis(np.repeat(bounds, np.diff(self.first), axis=0), 2, 0)
        codes = restored(found, least, bound).T
        return [
            [codes[k, low:high] for k in range(count)]
            for count, (low, high) in zip(lattice.counts, pairwise(self.first), strict=True)
        ]

    def _walked(
        self,
        lay_out: _LayOut,
        weights: NDArray[Any],
        zero: Any,
        begin: Callable[[Ints], NDArray[Any]],
        prime: Any,
        wanted: Ints,
        merges: bool = False,
    ) -> NDArray[Any]:
        """Returns the accumulators of some rows, shape (rows, most accumulators); rows are slices, query by query.

        ``begin`` turns :attr:`LaidOut.beginning` into the values that trends begin with. With ``merges``, consecutive
        events are taken as one where that gives the same extremes (:attr:`Walk.idempotent`).
        """
        query = np.searchsorted(self.first, wanted, side="right") - 1
        row = self.first_row[np.array(self.evaluator.window)[query]] + wanted - self.first[query]
        chosen = np.zeros(self.first_row[-1], dtype=np.bool_)
        chosen[row] = True
        out, column = np.zeros((0, 0)), np.zeros((0, 0), dtype=np.int64)
        for lanes, border, island in self._walks(chosen):
            laid_out = lay_out(lanes)
            if not out.size:
                column = laid_out.column
                out = np.full((len(chosen), int(column.max()) + 2), zero)
            begins = np.asarray(begin(laid_out.beginning)).astype(out.dtype)
            merged = laid_out.walk.idempotent if merges else 0
            walk_abreast(
                laid_out.walk, self.tables, self.events, self.guards, weights, begins, border, island, zero, prime,
                merged, out,
            )  # fmt: skip
        found: NDArray[Any] = out[row[:, None], column[query]]
        return found

    def _walks(self, chosen: Bools) -> Iterator[tuple[tuple[int, ...], Ints, Ints]]:
        """Yields the lanes, borders and islands of each walk over the chosen slices.

        There is one walk, unless so many windows overlap that the numbers of all of them would take too much memory.
        """
        own = [np.flatnonzero(chosen[low:high]) for low, high in pairwise(self.first_row)]
        cuts = [cut._replace(low=cut.low[kept], high=cut.high[kept]) for cut, kept in zip(self.slices, own)]
        lanes = windows_in_order(cuts)[0]
        most = max(MOST_NUMBERS // max(self.evaluator.numbers(self.count), 1), 1)
        walks = -(-int(lanes.max()) // min(most, MOST_LANES))
        for first in range(walks):
            some = [cut._replace(low=cut.low[first::walks], high=cut.high[first::walks]) for cut in cuts]
            lanes, known, island = windows_in_order(some)
            border = np.empty((len(known), 7), dtype=np.int64)
            border[:, [AT, OPENS, WINDOW]] = known[:, :3]
            for window, cut in enumerate(some):
                here = known[:, 2] == window
                number = known[here, 3]
                border[here, LANE], border[here, LOW], border[here, HIGH] = (
                    number % lanes[window],
                    cut.low[number],
                    cut.high[number],
                )
                border[here, ROW] = self.first_row[window] + own[window][first::walks][number]
            yield tuple(lanes.tolist()), border, island


def _asked(rows: list[list[tuple[int, int]]]) -> tuple[tuple[Asked, ...], ...]:
    return tuple((COUNTED, *own[1:]) for own in rows)
