"""Trees of extremes, which find the next value that satisfies a comparison, and pools, which hold tables in one array.

A tree over a list of values holds the smallest (or the largest) value of each 16 of them, of each 16 such groups, and
so on. So groups in which no value satisfies the comparison are skipped as a whole.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.machine.conditions import compare
from cetdsl.kernels.machine.program import OPERATORS
from cetdsl.kernels.vocabulary import Index, Ints, Places

#: log2 of the children of a node of a tree, and the most levels that there can be, the values among them.
FAN, LEVELS = 4, 9
#: For operators by order from this number on, which are ``>`` and ``>=``, a tree holds the largest values.
LARGEST = OPERATORS[">"]
#: With the first array, room is made for so many of its size, as the other arrays of a plan have similar sizes.
_ALIKE = 4


def level_starts(count: int) -> Ints:
    """Returns where each level of a tree over ``count`` values begins, from the values up, and where the last ends."""
    sizes = [count]
    while sizes[-1] > 1 << FAN:
        sizes.append(((sizes[-1] - 1) >> FAN) + 1)
    return np.cumsum([0, *sizes]).astype(np.int64)


@jit
def add_levels(key: Ints, start: Ints, count: int, largest: bool) -> None:
    """Fills the levels of a tree over ``key[start[0]:start[0] + count]``."""
    level = 0
    while count > 1 << FAN:
        above = (count - 1 >> FAN) + 1
        for node in range(above):
            first = start[level] + (node << FAN)
            best = key[first]
            for child in range(first + 1, min(first + (1 << FAN), start[level] + count)):
                best = max(best, key[child]) if largest else min(best, key[child])
            key[start[level + 1] + node] = best
        level, count = level + 1, above


@inlined
def next_holding(key: Ints, place: Ints, k: Index, first: int, op: int, limit: int, item: Index, stop: Index) -> Index:
    """Returns the first item of a tree, from ``item`` on, with ``key <op> limit``; ``stop`` if there is none.

    Row ``k`` of ``place`` has, from column ``first`` on, where each level of the tree begins in ``key``.
    """
    level, node = 0, item
    while True:
        # No item before ``node`` holds. The search goes through its later siblings, then through those of its parent.
        behind = ((stop - 1) >> (FAN * level)) + 1
        end = min((node | ((1 << FAN) - 1)) + 1, behind)
        while node < end and not compare(op, key[place[k, first + level] + node], limit):
            node += 1
        if node < end:
            if level == 0:
                return node
            level, node = level - 1, node << FAN
        elif node >= behind:
            return stop
        else:
            level, node = level + 1, node >> FAN


class Pool:
    """Arrays one behind the other in one array, each under a name; an added array keeps its position.

    A worker's memory limit also counts memory that is never written to, so room is made only as it is needed. The first
    array comes with room for ``alike`` of its size.
    """

    def __init__(self, kind: type, *width: int, alike: int = _ALIKE) -> None:
        self._alike = alike
        self._held: Any = np.empty((0, *width), dtype=kind)
        self._size = 0
        #: Where each array begins.
        self.begin: dict[Hashable, int] = {}

    def add(self, name: Hashable, part: Ints | Places) -> int:
        """Adds an array unless its name is known; returns where it begins."""
        if name not in self.begin:
            self.take(name, len(part))[:] = part
        return self.begin[name]

    def take(self, name: Hashable, size: int) -> Any:
        """Returns room for an array whose name is not known yet, to be filled at once."""
        begin, self._size = self._size, self._size + size
        if self._size > len(self._held):
            room = max(2 * begin, self._size) if begin else self._alike * size
            more = np.empty((room, *self._held.shape[1:]), dtype=self._held.dtype)
            more[:begin] = self._held[:begin]
            self._held = more
        self.begin[name] = begin
        return self._held[begin : self._size]

    @property
    def whole(self) -> Any:
        """All that was added so far."""
        return self._held[: self._size]
