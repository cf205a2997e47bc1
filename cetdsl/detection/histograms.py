"""Counts over the last slices of a stream, in little memory: exponential histograms, and statistics made of them.

Datar, Gionis, Indyk and Motwani, "Maintaining Stream Statistics over Sliding Windows" (SIAM J. Comput. 31(6), 2002).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cetdsl.detection import arithmetic
from cetdsl.detection.arithmetic import BEGIN, END, ENTRIES, ERROR, FEW, MERGE_AT
from cetdsl.detection.checks import whole_from_one
from cetdsl.detection.plans import Problem
from cetdsl.detection.statistics import Pair, Statistics, pair_of
from cetdsl.errors import InvalidNode, shown

#: The initial room for buckets, twice as many as are kept without merging any.
_ROOM = 2 * FEW


class Buckets(NamedTuple):
    """The buckets of an exponential histogram, see :func:`~cetdsl.detection.arithmetic.add_to_buckets`."""

    first: np.ndarray
    last: np.ndarray
    sums: np.ndarray
    total: np.ndarray
    at: np.ndarray


def no_buckets(counters: int, room: int = _ROOM) -> Buckets:
    """Returns room for ``room`` buckets of ``counters`` counters, twice as many as there will ever be at once.

    Examples
    --------
    >>> no_buckets(3, 10).sums.shape
    (10, 3)
    """
    first, last = np.zeros(room, dtype=np.int64), np.zeros(room, dtype=np.int64)
    at = np.zeros(ENTRIES, dtype=np.int64)
    at[MERGE_AT] = FEW
    return Buckets(first, last, np.zeros((room, counters)), np.zeros(counters), at)


class ExponentialHistogram:
    """Sums of several counters over the last slices, each within a relative error.

    Parameters
    ----------
    counters : int
        How many counters there are.
    window : int
        How many slices a sum is over.
    error : float
        The largest relative error of a sum, above 0 and below 1.

    Raises
    ------
    InvalidNode
        The window or the error is no such number.

    Notes
    -----
    A *bucket* has the sums of neighbouring slices. Two neighbours are merged if their common sum is, for each counter,
    at most 2 * error times the sum of all newer buckets; this stays true, because newer buckets leave the window last.
    When the window's border falls into a bucket, half of the bucket counts, which is wrong by at most error times the
    sum of the newer buckets, all of which are in the window. The border never divides a bucket of one slice.

    This is the general form of section 4 of the paper, where the data determine the sizes of buckets: a slice with any
    counts is added as one bucket, in constant time on average. If two neighbours are not merged, some counter prevents
    it, and over the two, this counter's sum of newer buckets grows by a factor of 1 + 2 * error. So there are at most
    2 * counters * log(sum) / log(1 + 2 * error) buckets, and up to twice as many before they are merged again.

    Examples
    --------
    >>> histogram = ExponentialHistogram(counters=1, window=100, error=0.1)
    >>> for slice_ in range(1000):
    ...     histogram.add([slice_])
    >>> exact = sum(range(900, 1000))
    >>> bool(abs(histogram.sums()[0] / exact - 1) <= 0.1), histogram.buckets < 60
    (True, True)
    """

    def __init__(self, counters: int, window: int, error: float = ERROR) -> None:
        self._window = whole_from_one(
            window, f"statistics are over {shown(window)} slices", "write a whole number of slices from 1 up"
        )
        if not isinstance(error, float) or not 0 < error < 1:
            raise InvalidNode(
                f"the error of statistics is {shown(error)}", hint="write a number above 0 and below 1, such as 0.05"
            )
        self._allowed = 2 * error
        self._held = no_buckets(counters)

    @property
    def buckets(self) -> int:
        """The number of buckets."""
        return int(self._held.at[END] - self._held.at[BEGIN])

    def add(self, counts: Sequence[float] | np.ndarray) -> None:
        """Adds the counts of another slice, whole numbers from 0 up, one for each counter."""
        row = np.array(counts, dtype=np.float64)
        while not arithmetic.add_to_buckets(row, self._window, self._allowed, *self._held):
            self._held = _with_more_room(self._held)

    def sums(self) -> np.ndarray:
        """Returns the sum of each counter over the last ``window`` slices: float64[counters]."""
        found = np.empty(len(self._held.total))
        arithmetic.sum_buckets(self._window, self._held.first, self._held.sums, self._held.total, self._held.at, found)
        return found


def _with_more_room(held: Buckets) -> Buckets:
    more = no_buckets(len(held.total), 2 * len(held.first))
    for column, wider in zip(held[:3], more[:3], strict=True):
        wider[: len(column)] = column
    return Buckets(*more[:3], held.total, held.at)


def counters_of(problem: Problem) -> int:
    """Returns how many numbers are counted in each slice of a stream: the length of the rows that statistics take.

    Examples
    --------
    >>> counters_of(Problem.sequence("a", "b", predicates={(0, 1)}))
    5
    """
    return 1 + len(problem.variables) + 2 * len(problem.predicates | problem.adjacent)


class SlidingStatistics:
    """Rates and selectivities over the last slices of a stream, from the counts of a running kernel.

    Parameters
    ----------
    problem : Problem
        The branch: its variables, and the pairs of them with predicates.
    window : int
        How many slices the statistics are over.
    error : float
        The largest relative error of a sum. Rates and selectivities are quotients of two sums, so they are between
        (1 - error) / (1 + error) and (1 + error) / (1 - error) times what they should be.

    Examples
    --------
    >>> seen = SlidingStatistics(Problem.sequence("a", "b", predicates={(0, 1)}), window=10)
    >>> seen.pairs
    (('a', 'b'),)
    >>> seen.add([60, 6, 30, 100, 5])
    >>> seen.add([40, 4, 20, 0, 0])
    >>> seen.statistics()
    Statistics(rates={'a': 0.1, 'b': 0.5}, selectivities={('a', 'b'): 0.05})
    """

    def __init__(self, problem: Problem, window: int, error: float = ERROR) -> None:
        self._names = problem.names
        pairs = sorted(problem.predicates | problem.adjacent)
        self.pairs: tuple[Pair, ...] = tuple(pair_of(self._names[i], self._names[j]) for i, j in pairs)
        self._histogram = ExponentialHistogram(counters_of(problem), window, error)

    def add(self, counts: Sequence[float] | np.ndarray) -> None:
        """Adds the counts of another slice.

        Parameters
        ----------
        counts : sequence of float, of the length that :func:`counters_of` gives
            How long the slice is, in the unit of time that rates shall have; the events of each variable, by position;
            and for each of ``pairs``, first for how many combinations its predicates were tested, and then for how many
            they held.
        """
        self._histogram.add(counts)

    def statistics(self, unit: float = 1.0) -> Statistics:
        """Returns the rates and selectivities over the last slices.

        ``unit`` is the unit of time of the rates, in the unit of the durations that were added.

        A pair without tested combinations is left out. If none passed, half a combination counts as passed.
        """
        sums = self._histogram.sums()
        variables, pairs = len(self._names), len(self.pairs)
        now = np.zeros(variables + pairs)
        arithmetic.rates_and_shares(sums, variables, now)
        now[:variables] *= unit
        tried = sums[1 + variables : 1 + variables + pairs]
        return Statistics(
            dict(zip(self._names, now[:variables].tolist(), strict=True)),
            {
                pair: share
                for pair, share, all_ in zip(self.pairs, now[variables:].tolist(), tried, strict=True)
                if all_ > 0
            },
        )
