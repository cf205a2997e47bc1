"""Counts over the last slices of a stream, in little memory: exponential histograms, and statistics made of them.

Datar, Gionis, Indyk and Motwani, "Maintaining Stream Statistics over Sliding Windows" (SIAM J. Comput. 31(6), 2002).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from cetdsl.detection.checks import whole_from_one
from cetdsl.detection.plans import Problem
from cetdsl.detection.statistics import Pair, Statistics, pair_of
from cetdsl.errors import InvalidNode, shown

#: Buckets that are not worth merging.
_FEW = 32


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
    A *bucket* has the sums of neighbouring slices. Two neighbours are merged if what they hold together is, for each
    counter, at most 2 * error times the sum of all newer buckets; this stays true, as newer buckets leave last. When
    the window's border falls into a bucket, half of it is counted, which is wrong by at most error times the sum of the
    newer buckets, all of which are in the window. A bucket of one slice is never parted, so it is never wrong.

    This is the general form of section 4 of the paper, where buckets have the sizes that the data brings: a slice is
    added as it is, whatever it counts, in constant time on average. Of two neighbours that were not merged some counter
    forbade it, so its sum of newer buckets grows by a factor of 1 + 2 * error over the two: there are at most
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

    def __init__(self, counters: int, window: int, error: float = 0.05) -> None:
        self._window = whole_from_one(
            window, f"statistics are over {shown(window)} slices", "write a whole number of slices from 1 up"
        )
        if not isinstance(error, float) or not 0 < error < 1:
            raise InvalidNode(
                f"the error of statistics is {shown(error)}", hint="write a number above 0 and below 1, such as 0.05"
            )
        self._allowed = 2 * error
        self._added = 0
        self._total = np.zeros(counters)
        #: The first and last slice of each bucket and its sums, the oldest first.
        self._buckets: deque[tuple[int, int, np.ndarray]] = deque()
        self._merge_at = _FEW

    @property
    def buckets(self) -> int:
        """How many buckets there are."""
        return len(self._buckets)

    def add(self, counts: Sequence[float] | np.ndarray) -> None:
        """Adds the counts of another slice, whole numbers from 0 up, one for each counter."""
        row = np.array(counts, dtype=np.float64)
        self._buckets.append((self._added, self._added, row))
        self._total += row
        self._added += 1
        while self._buckets[0][1] < self._added - self._window:
            self._total -= self._buckets.popleft()[2]
        if len(self._buckets) > self._merge_at:
            self._merge()
            self._merge_at = max(_FEW, 2 * len(self._buckets))

    def sums(self) -> np.ndarray:
        """Returns the sum of each counter over the last ``window`` slices: float64[counters]."""
        if not self._buckets:
            return self._total.copy()
        first, _, row = self._buckets[0]
        parted = first < self._added - self._window
        return self._total - row / 2 if parted else self._total.copy()

    def _merge(self) -> None:
        merged: deque[tuple[int, int, np.ndarray]] = deque()
        newer = self._total.copy()
        for first, last, row in self._buckets:
            newer -= row
            if merged:
                both = merged[-1][2] + row
                if (both <= self._allowed * newer).all():
                    merged[-1] = merged[-1][0], last, both
                    continue
            merged.append((first, last, row))
        self._buckets = merged


class SlidingStatistics:
    """Rates and selectivities over the last slices of a stream, made of what a kernel counts while it runs.

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
    >>> seen.add(duration=60, events=[6, 30], tried=[100], passed=[5])
    >>> seen.add(duration=40, events=[4, 20], tried=[0], passed=[0])
    >>> seen.statistics()
    Statistics(rates={'a': 0.1, 'b': 0.5}, selectivities={('a', 'b'): 0.05})
    """

    def __init__(self, problem: Problem, window: int, error: float = 0.05) -> None:
        self._names = problem.names
        pairs = sorted(problem.predicates | problem.adjacent)
        self.pairs: tuple[Pair, ...] = tuple(pair_of(self._names[i], self._names[j]) for i, j in pairs)
        self._histogram = ExponentialHistogram(1 + len(self._names) + 2 * len(pairs), window, error)

    def add(self, duration: float, events: Sequence[float], tried: Sequence[float], passed: Sequence[float]) -> None:
        """Adds what was counted in another slice.

        Parameters
        ----------
        duration : float
            How long the slice is, in the unit of time that rates shall have.
        events : sequence of int
            The events of each variable, by position.
        tried, passed : sequence of int
            How many combinations the predicates of each of ``pairs`` were asked of, and of how many they held.
        """
        self._histogram.add([duration, *events, *tried, *passed])

    def statistics(self) -> Statistics:
        """Returns the rates and selectivities over the last slices.

        A pair of which nothing was tried is left out. Where nothing passed, half a combination is taken to have: more
        would be expected to be seen.
        """
        duration, *sums = self._histogram.sums().tolist()
        variables, pairs = len(self._names), len(self.pairs)
        events, tried, passed = sums[:variables], sums[variables : variables + pairs], sums[variables + pairs :]
        return Statistics(
            {name: count / (duration or 1.0) for name, count in zip(self._names, events)},
            {pair: min(max(good, 0.5) / all_, 1.0) for pair, all_, good in zip(self.pairs, tried, passed) if all_ > 0},
        )
