"""The accumulators of many queries at once, in the number systems that they need, by whatever carries them out.

Tables of all queries have a row per slice, query after query, and a column per accumulator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cetdsl.aggregates.vocabulary import Update
from cetdsl.ir.kernel import KernelSpec
from cetdsl.kernels.aggregate.additive import most_bits, whole_accumulators
from cetdsl.kernels.answers.tables import Values, additive_accumulators
from cetdsl.kernels.numbers.ladder import Moduli, ResiduePass, RoundedPass, exact, rounded
from cetdsl.kernels.numbers.scaled import Objects, Scaled
from cetdsl.kernels.vocabulary import Bools, Ints, Slices
from cetdsl.kernels.wire.values import ValueColumn


class Kind(NamedTuple):
    """What events add to an accumulator, or (``magnitude``) how much at most; see :meth:`ValueColumn.weights`."""

    update: Update
    column: int
    whole: bool
    magnitude: bool

    def doubles(self, columns: list[ValueColumn], count: int) -> NDArray[np.float64]:
        """Returns what each of ``count`` events adds, rounded."""
        if self.column < 0:
            return np.ones(count)
        values = columns[self.column].weights(self.update, self.whole)
        return np.abs(values) if self.magnitude else values


#: Of each query what each of its accumulators adds up: its variable (-1: all), and what an event of that adds. The
#: first accumulator counts trends.
Kinds = list[list[tuple[int, Kind]]]


class Passes(Protocol):
    """Computes accumulators of all queries."""

    def rounded(self, kinds: Kinds) -> RoundedPass: ...
    def residues(self, kinds: Kinds) -> tuple[ResiduePass, Moduli]: ...


class Player:
    """Works out the accumulators of the queries of a chunk that add up."""

    def __init__(self, specs: Sequence[KernelSpec], columns: list[ValueColumn], slices: Sequence[Slices]) -> None:
        self.specs = specs
        self.additive = [additive_accumulators(spec) for spec in specs]
        self.counts = np.array([len(cut.low) for cut in slices], dtype=np.int64)
        self.whole = [whole_accumulators(spec, columns) for spec in specs]

    def values(self, passes: Passes, long: Bools) -> list[Values]:
        """Computes the additive accumulators of all queries; ``long`` is as in the ladder."""
        scaled = self._scaled(passes, long)
        whole = self._exact(passes, scaled)
        answers = []
        for q, own in self._own():
            exact_ones = dict(zip(self.whole[q], whole[own].T))
            count = len(self.additive[q])
            kept = [scaled[own, k] for k in range(count)]
            answers.append(Values(kept[0].real != 0, [exact_ones.get(k) for k in range(count)], kept, []))
        return answers

    def _own(self) -> Iterator[tuple[int, slice]]:
        """Yields the rows of each query."""
        ends = np.cumsum(self.counts).tolist()
        return ((q, slice(end - count, end)) for q, (end, count) in enumerate(zip(ends, self.counts.tolist())))

    def _signed(self, q: int) -> list[int]:
        """Returns the exact accumulators that may cancel out, whose magnitude must be bounded apart."""
        return [k for k in self.whole[q] if self.additive[q][k].update.may_cancel]

    def _kind(self, q: int, k: int, magnitude: bool = False) -> tuple[int, Kind]:
        """Returns the variable of an accumulator, and what its events add."""
        accumulator = self.additive[q][k]
        return accumulator.variable, Kind(accumulator.update, accumulator.column, k in self.whole[q], magnitude)

    def _scaled(self, passes: Passes, long: Bools) -> Scaled:
        """Computes the accumulators (then magnitudes) of each slice, scaled."""
        kinds = [
            [self._kind(q, k) for k in range(len(accumulators))]
            + [self._kind(q, k, magnitude=True) for k in self._signed(q)]
            for q, accumulators in enumerate(self.additive)
        ]
        return rounded(passes.rounded(kinds), long, max(map(len, kinds)))

    def _exact(self, passes: Passes, scaled: Scaled) -> Objects:
        """Computes the whole accumulators of each slice."""
        shape = len(scaled), max(map(len, self.whole))
        if shape[1] == 0:
            return np.zeros(shape, dtype=object)
        numbers, magnitudes = np.zeros(shape, dtype=np.complex128), np.zeros(shape, dtype=np.complex128)
        limits = np.full(shape, np.inf)
        for q, own in self._own():
            whole, signed, count = self.whole[q], self._signed(q), len(self.additive[q])
            largest = [count + signed.index(k) if k in signed else k for k in whole]
            numbers[own, : len(whole)], magnitudes[own, : len(whole)] = scaled[own, whole], scaled[own, largest]
            limits[own, : len(whole)] = most_bits(self.specs[q])[whole]
        # The first accumulator weighs the others, so it is there in any case.
        kinds = [[self._kind(q, k) for k in whole or [0]] for q, whole in enumerate(self.whole)]
        one_pass, moduli = passes.residues(kinds)

        def needed(rows: Ints, primes: Any) -> Any:
            return one_pass(rows, primes)[:, : shape[1]]

        return exact(needed, numbers, magnitudes, limits, moduli)


def weight_rows(kinds: Kinds) -> tuple[list[list[tuple[int, int]]], list[Kind]]:
    """Numbers the different weights; returns per query and accumulator its variable and its weights (-1: none)."""
    numbers: dict[Kind, int] = {}
    rows = []
    for accumulators in kinds:
        weighed = [(variable, numbers.setdefault(kind, len(numbers))) for variable, kind in accumulators[1:]]
        rows.append([(-1, -1), *weighed])  # trends have no weight
    return rows, list(numbers)


def rows_of(counts: Ints, widths: Sequence[int], most: int) -> Ints:
    """Returns where the accumulators of each row stand in a flat answer that has a last entry for missing ones.

    The answer has ``widths[q]`` entries for each of the ``counts[q]`` slices of query ``q``, one after the other.

    Examples
    --------
    >>> rows_of(np.array([2, 1]), [1, 2], 2).tolist()
    [[0, -1], [1, -1], [2, 3]]
    """
    width = np.asarray(widths, dtype=np.int64)
    query = np.repeat(np.arange(len(counts)), counts)
    before = np.cumsum(counts * width) - counts * width
    line = np.arange(len(query)) - (np.cumsum(counts) - counts)[query]
    every = np.arange(most)
    return np.where(every < width[query, None], (before[query] + line * width[query])[:, None] + every, -1)
