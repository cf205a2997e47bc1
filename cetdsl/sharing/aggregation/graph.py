"""The correlation graph: it links patterns that are so similar that they may share a worthwhile sub-pattern."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping

import numpy as np

from cetdsl.sharing.aggregation.copies import SharedValues

#: Patterns are linked only if they share more than this part of the kinds of events that either has.
LEAST_ALIKE = 0.1
#: Each pattern is linked with this many of the patterns most similar to it.
MOST_NEIGHBOURS = 10
#: The number of rows of the matrix that are multiplied at once.
_ROWS = 64


class CorrelationGraph:
    """Patterns, given by numbers, linked to those most similar to them.

    The similarity of two patterns is the number of kinds of events that both have, divided by the number that either
    has (their Jaccard index). A pattern is linked to those most similar to it, and to those to which it is among the
    most similar.

    Parameters
    ----------
    kinds : mapping of int to set
        The kinds of events of each pattern.
    least_alike : float
        Only patterns whose similarity is more than this are linked.
    most_neighbours : int
        How many others a pattern links itself to.

    Examples
    --------
    >>> graph = CorrelationGraph({0: {"A", "B", "C"}, 1: {"A", "B", "D"}, 2: {"E"}})
    >>> graph.neighbours
    {0: {1}, 1: {0}, 2: set()}
    >>> graph.add(3, {"E", "F"}), graph.remove(1), graph.neighbours
    ([2], [0], {0: set(), 2: {3}, 3: {2}})
    """

    def __init__(
        self,
        kinds: Mapping[int, Iterable[Hashable]],
        least_alike: float = LEAST_ALIKE,
        most_neighbours: int = MOST_NEIGHBOURS,
    ) -> None:
        self._least, self._most = least_alike, most_neighbours
        self._kinds = {number: frozenset(own) for number, own in kinds.items()}
        self._having: SharedValues[Hashable, dict[int, None]] = SharedValues()
        for number, own in self._kinds.items():
            for kind in own:
                self._having.setdefault(kind, {})[number] = None
        numbers = list(self._kinds)
        linked: dict[int, set[int]] = {number: set() for number in numbers}
        for i, j in self._nearest_of_all():
            linked[numbers[i]].add(numbers[j])
            linked[numbers[j]].add(numbers[i])
        self.neighbours: SharedValues[int, set[int]] = SharedValues(linked)

    def _nearest_of_all(self) -> Iterator[tuple[int, int]]:
        """Yields each pattern with each of those most similar to it, by their places among the patterns.

        This multiplies the sparse matrix of patterns and kinds by its transpose, some rows at a time. A row of the
        product is the sum of the columns of the pattern's kinds. The columns are lists of patterns, one behind the
        other, so that only pairs of patterns with a kind in common are read, once per kind.
        """
        numbers = list(self._kinds)
        place = {number: i for i, number in enumerate(numbers)}
        column = {kind: k for k, kind in enumerate(self._having)}
        sizes = np.array([len(own) for own in self._kinds.values()], np.int64)
        kinds = np.array([column[kind] for own in self._kinds.values() for kind in own], np.int64)
        having = np.array([place[number] for those in self._having.values() for number in those], np.int64)
        starts = np.cumsum([0, *map(len, self._having.values())])
        ends = np.cumsum([0, *sizes])
        for first in range(0, len(numbers), _ROWS):
            rows = np.arange(first, min(first + _ROWS, len(numbers)))
            own = kinds[ends[first] : ends[rows[-1] + 1]]
            lengths = starts[own + 1] - starts[own]
            others = having[np.arange(lengths.sum()) + np.repeat(starts[own] - np.cumsum(lengths) + lengths, lengths)]
            cells = np.repeat(np.repeat(rows - first, sizes[rows]), lengths) * len(numbers) + others
            both = np.bincount(cells, minlength=len(rows) * len(numbers)).reshape(len(rows), len(numbers))
            alike = both / np.maximum(sizes + sizes[rows, None] - both, 1)
            alike[rows - first, rows] = 0
            # Of equally similar patterns the first are taken; unequal similarities differ by more than this term.
            order = np.arange(len(numbers)) * 1e-12 - alike
            most = min(self._most, len(numbers) - 1)
            nearest = np.argpartition(order, most, axis=1)[:, :most]
            chosen = np.take_along_axis(alike, nearest, axis=1) > self._least
            yield from zip(rows[np.nonzero(chosen)[0]].tolist(), nearest[chosen].tolist(), strict=True)

    def _link(self, first: int, second: int) -> None:
        self.neighbours.change(first).add(second)
        self.neighbours.change(second).add(first)

    def add(self, number: int, kinds: Iterable[Hashable]) -> list[int]:
        """Adds a pattern, and returns the patterns that it is linked to."""
        own = frozenset(kinds)
        both = Counter(other for kind in own for other in self._having.get(kind, ()))
        alike = {other: count / (len(own) + len(self._kinds[other]) - count) for other, count in both.items()}
        nearest = sorted((other for other in alike if alike[other] > self._least), key=lambda other: -alike[other])
        self._kinds[number] = own
        self.neighbours[number] = set()
        for kind in own:
            self._having.change(kind, dict)[number] = None
        for other in nearest[: self._most]:
            self._link(number, other)
        return nearest[: self._most]

    def remove(self, number: int) -> list[int]:
        """Removes a pattern, and returns the patterns that it was linked to."""
        for kind in self._kinds.pop(number):
            del self._having.change(kind)[number]
        linked = sorted(self.neighbours.pop(number))
        for other in linked:
            self.neighbours.change(other).remove(number)
        return linked

    def copy(self) -> CorrelationGraph:
        """Returns a copy; a change of either graph leaves the other as it is."""
        copied = CorrelationGraph.__new__(CorrelationGraph)
        copied._least, copied._most = self._least, self._most
        copied._kinds = dict(self._kinds)
        copied._having, copied.neighbours = self._having.copy(), self.neighbours.copy()
        return copied
