"""Indexes of the candidates of a step in a chunk: by their values and time, and under a tree of extremes.

The indexes that a join looks up are made before the join is called, and made once for several joins.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np

from cetdsl.ir.slots import Compared
from cetdsl.kernels.instances.candidates import Board
from cetdsl.kernels.instances.programs import Lookup
from cetdsl.kernels.machine.lookups import LARGEST, LEVELS, Pool, add_levels, level_starts
from cetdsl.kernels.machine.program import OPERATORS
from cetdsl.kernels.vocabulary import Ints, Places

#: The columns of ``where``, which has a row for each step: the first candidate, the end of the candidates, where the
#: instances of a parent lie, and where the levels of the tree over the candidates begin.
BEGIN, END, PLACE, LEVEL = range(4)
FIELDS = LEVEL + LEVELS
#: The number of events of a class in the sample that estimates how often a comparison holds.
_SAMPLE = 256


class _Sample(NamedTuple):
    """The values of some events of a class, ascending, and the number of these events, including those without one."""

    values: Ints
    events: int


class Indexes:
    """The candidates of all joins over a chunk.

    ``items`` are events, or numbers of instances. First come the events that fit into each class, in ascending order;
    behind them come copies that are sorted for lookups by value.
    """

    def __init__(self, board: Board, items: Ints, start: Ints) -> None:
        self._board = board
        self._items, self._keys = Pool(np.int64, alike=1), Pool(np.int64)
        self._items.add("classes", items)
        #: Where the events of each class begin and end.
        self.classes: list[tuple[int, int]] = list(zip(start[:-1].tolist(), start[1:].tolist(), strict=True))
        self._runs: dict[Hashable, tuple[int, int]] = {}
        self._samples: dict[tuple[int, int], _Sample] = {}
        self._shares: dict[Hashable, float] = {}

    @property
    def items(self) -> Ints:
        """All candidates so far."""
        items: Ints = self._items.whole
        return items

    @property
    def keys(self) -> Ints:
        """The values of all trees so far."""
        keys: Ints = self._keys.whole
        return keys

    def add(self, name: Hashable, items: Ints) -> int:
        """Adds candidates; returns where they begin."""
        return self._items.add(name, items)

    def events(self, number: int, lookup: Lookup) -> Ints:
        """Returns where the events of a class lie, sorted for a lookup; events without a value are left out."""
        begin, end = self.classes[number]
        own = self.items[begin:end]
        return self._where(("class", number), own, own[:, None], own, lookup)

    def instances(self, vertex: int, table: Places, lookup: Lookup) -> Ints:
        """Returns where the numbers of a vertex's instances lie, sorted for a lookup, except those without a value.

        A row of ``table`` is an instance: the event of each slot, and the first event of all.
        """
        return self._where(("vertex", vertex), np.arange(len(table)), table, table[:, -1], lookup)

    def _where(self, name: Hashable, items: Ints, events: Ints | Places, lead: Ints | Places, lookup: Lookup) -> Ints:
        """Returns where a lookup finds the items: the entries BEGIN and END, and if it is ordered, those of its tree.

        ``events`` has the events of each item, by place, and ``lead`` the event that orders items in time.
        """
        run = name, lookup.equal, lookup.ordered
        if run not in self._runs:
            chosen = self._sorted(events, lead, lookup)
            begin = self._items.add(run, items[chosen])
            self._runs[run] = begin, begin + len(chosen)
        where = np.zeros(FIELDS, dtype=np.int64)
        where[[BEGIN, END]] = begin, end = self._runs[run]
        if lookup.ordered is not None:
            place, column = lookup.ordered
            starts = level_starts(end - begin)
            tree = run, lookup.largest
            if tree not in self._keys.begin:
                chosen = np.searchsorted(items, self.items[begin:end])
                keys = self._keys.take(tree, int(starts[-1]))
                keys[: end - begin] = self._board.codes[column, events[chosen, place]]
                add_levels(keys, starts, end - begin, lookup.largest)
            where[LEVEL : LEVEL + len(starts) - 1] = self._keys.begin[tree] + starts[:-1]
        return where

    def _sorted(self, events: Ints | Places, lead: Ints | Places, lookup: Lookup) -> Ints:
        """The items that have all values, sorted by the values compared for equality and then by time."""
        board = self._board
        asked = lookup.equal if lookup.ordered is None else (*lookup.equal, lookup.ordered)
        known = np.logical_and.reduce([board.valid[column, events[:, place]] for place, column in asked])
        chosen = np.nonzero(known)[0]
        values = [board.codes[column, events[chosen, place]] for place, column in reversed(lookup.equal)]
        return chosen[np.lexsort((lead[chosen], *values))]

    def share(self, one: Compared, number: int, other: int) -> float:
        """Estimates, by samples, the share of the pairs of events of two classes for which a comparison holds."""
        name = one.op, one.column, number, one.other_column, other
        if name not in self._shares:
            left, right = self._sample(number, one.column), self._sample(other, one.other_column)
            pairs = left.events * right.events
            # A comparison that holds for no pair of the samples may still hold for others.
            self._shares[name] = max(_holding(one.op, left.values, right.values), 0.5) / max(pairs, 1)
        return self._shares[name]

    def _sample(self, number: int, column: int) -> _Sample:
        if (number, column) not in self._samples:
            begin, end = self.classes[number]
            some = self.items[np.linspace(begin, end, min(end - begin, _SAMPLE), endpoint=False).astype(np.int64)]
            values = self._board.codes[column, some[self._board.valid[column, some]]]
            self._samples[number, column] = _Sample(np.sort(values), len(some))
        return self._samples[number, column]


def _holding(op: str, left: Ints, right: Ints) -> int:
    """Counts the pairs of values, both ascending, for which ``left <op> right`` holds."""
    if op in ("=", "!="):
        equal = int((np.searchsorted(right, left, "right") - np.searchsorted(right, left, "left")).sum())
        return equal if op == "=" else len(left) * len(right) - equal
    # ``a < b`` holds for all b behind the last one that equals a.
    behind = int(np.searchsorted(right, left, "right" if op in ("<", ">=") else "left").sum())
    return len(left) * len(right) - behind if OPERATORS[op] < LARGEST else behind
