"""Evaluates the accumulators of many queries at once, in the number systems that they need.

How numbers are computed in one system is up to the *passes* that a caller hands in (:class:`Passes`). Their tables have
a row per slice, query after query, and a column per accumulator.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    """What events add to an accumulator, see :meth:`ValueColumn.weights`, or its absolute value (``magnitude``)."""

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


class Weighed(NamedTuple):
    """The sums that the accumulators of many queries keep; the first accumulator of each query counts trends.

    ``rows`` has for each query and accumulator its variable (-1: all) and the number of what an event of this variable
    adds, among ``kinds`` (-1: nothing).
    """

    rows: list[list[tuple[int, int]]]
    kinds: list[Kind]

    @classmethod
    def of(cls, accumulators: Sequence[Sequence[tuple[int, Kind]]]) -> Weighed:
        """Numbers the different kinds, given the variable and the kind of each query's accumulators."""
        numbers: dict[Kind, int] = {}
        rows = []
        for own in accumulators:
            weighed = [(variable, numbers.setdefault(kind, len(numbers))) for variable, kind in own[1:]]
            rows.append([(-1, -1), *weighed])  # trends have no weight
        return cls(rows, list(numbers))


class Passes(Protocol):
    """Computes accumulators of all queries."""

    def rounded(self, asked: Weighed) -> RoundedPass: ...
    def residues(self, asked: Weighed) -> tuple[ResiduePass, Moduli]: ...


class _Asked:
    """The accumulators to compute, which depend on which value columns are exact; found once and not for each chunk.

    Attributes
    ----------
    scaled, exact : Weighed
        The accumulators to compute rounded, which are those of each query and the magnitudes of its whole ones that may
        cancel out; and the accumulators to compute exactly, which are the whole ones.
    count : list of int
        The number of accumulators of each query.
    whole : list of list of int
        The accumulators of each query that are whole numbers.
    width : int
        The most whole numbers of a query.
    number, magnitude, limit : arrays, shape (queries, width)
        Where each whole number and its magnitude stand among the ``scaled`` ones (-1: no such number), and the bits
        beyond which it is not exact.
    """

    def __init__(self, specs: Sequence[KernelSpec], columns: list[ValueColumn]) -> None:
        additive = [additive_accumulators(spec) for spec in specs]
        self.whole = [whole_accumulators(spec, columns) for spec in specs]
        self.count, self.width = [len(own) for own in additive], max(map(len, self.whole))
        scaled, exact = [], []
        shape = len(specs), self.width
        self.number, self.magnitude, self.limit = np.full(shape, -1), np.full(shape, -1), np.full(shape, np.inf)
        for q, (own, whole) in enumerate(zip(additive, self.whole, strict=True)):

            def kind(k: int, magnitude: bool = False, own: Sequence[Any] = own, whole: Any = whole) -> tuple[int, Kind]:
                return own[k].variable, Kind(own[k].update, own[k].column, k in whole, magnitude)

            # Magnitudes bound the size of those that may cancel out.
            signed = [k for k in whole if own[k].update.may_cancel]
            scaled.append([kind(k) for k in range(len(own))] + [kind(k, magnitude=True) for k in signed])
            # The sums need the first accumulator, the count, so it is computed in any case.
            exact.append([kind(k) for k in whole or [0]])
            if whole:
                self.number[q, : len(whole)] = whole
                self.magnitude[q, : len(whole)] = [len(own) + signed.index(k) if k in signed else k for k in whole]
                self.limit[q, : len(whole)] = most_bits(specs[q])[whole]
        self.scaled, self.exact = Weighed.of(scaled), Weighed.of(exact)


class Player:
    """Computes the accumulators of some queries that add up, chunk after chunk."""

    def __init__(self, specs: Sequence[KernelSpec]) -> None:
        self._specs = tuple(specs)
        self._known: dict[tuple[bool, ...], _Asked] = {}

    def values(self, passes: Passes, columns: list[ValueColumn], slices: Sequence[Slices], long: Bools) -> list[Values]:
        """Computes the accumulators of each query over its slices; ``long`` marks those likely to overflow doubles."""
        asked = self._asked(columns)
        counts = [len(cut.low) for cut in slices]
        scaled = rounded(passes.rounded(asked.scaled), long, max(map(len, asked.scaled.rows)))
        whole = self._exact(passes, asked, counts, scaled)
        answers, found, low = [], scaled[:, 0].real != 0, 0
        for count, accumulators, numbers in zip(counts, asked.count, asked.whole, strict=True):
            own = slice(low, low := low + count)
            exact_ones: list[Objects | None] = [None] * accumulators
            for place, k in enumerate(numbers):
                exact_ones[k] = whole[own, place]
            answers.append(Values(found[own], exact_ones, [scaled[own, k] for k in range(accumulators)], []))
        return answers

    def _asked(self, columns: list[ValueColumn]) -> _Asked:
        exact = tuple(column.is_exact for column in columns)
        if exact not in self._known:
            self._known[exact] = _Asked(self._specs, columns)
        return self._known[exact]

    def _exact(self, passes: Passes, asked: _Asked, counts: list[int], scaled: Scaled) -> Objects:
        """Computes the whole accumulators of each slice."""
        if asked.width == 0:
            return np.zeros((len(scaled), 0), dtype=object)
        query, row = np.repeat(np.arange(len(counts)), counts), np.arange(len(scaled))[:, None]
        there = asked.number[query] >= 0
        numbers = np.where(there, scaled[row, asked.number[query]], 0)
        magnitudes = np.where(there, scaled[row, asked.magnitude[query]], 0)
        one_pass, moduli = passes.residues(asked.exact)

        def needed(rows: Ints, primes: Any) -> Any:
            return one_pass(rows, primes)[:, : asked.width]

        return exact(needed, numbers, magnitudes, asked.limit[query], moduli)


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
