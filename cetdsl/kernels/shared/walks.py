"""Lays out merged states as the arrays of a walk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cetdsl.ir.indexes import HASH, TOTAL, TREE, index_of
from cetdsl.ir.machine import Comparison, Edge
from cetdsl.kernels.machine.program import flat, starts_of
from cetdsl.kernels.shared.abreast import Walk
from cetdsl.kernels.shared.states import MergedStates
from cetdsl.kernels.shared.template import BITS
from cetdsl.kernels.vocabulary import Ints

#: An accumulator: its variable (-1: all), and its weights; the count of trends is ``COUNTED``.
Asked = tuple[int, int]
COUNTED = (-2, -1)


#: Rows of numbers, per variable.
_Groups = list[list[tuple[int, ...]]]


class LaidOut(NamedTuple):
    """A walk, the weights of each cell (-1: it counts) where trends begin, and the columns of each query's answer.

    ``beginning`` is -2 in cells where no trend begins.
    """

    walk: Walk
    beginning: Ints
    column: Ints


def indexes_of(states: MergedStates) -> dict[int, dict[tuple[Comparison, ...], int]]:
    """Numbers the comparisons between neighbours, by the kind of index that answers them."""
    numbers: dict[int, dict[tuple[Comparison, ...], int]] = {HASH: {}, TREE: {}}
    for entries in states.entries:
        for _, comparisons in entries:
            kind = index_of(Edge(0, 0, comparisons))
            if kind != TOTAL:
                numbers[kind].setdefault(comparisons, len(numbers[kind]))
    return numbers


def ends_of(states: MergedStates) -> dict[tuple[Comparison, ...], tuple[int, int]]:
    """Returns the variables of the earlier and of the later events of each comparison, as bit masks."""
    found: dict[tuple[Comparison, ...], tuple[int, int]] = {}
    for state, entries in enumerate(states.entries):
        for source, comparisons in entries:
            sources, targets = found.get(comparisons, (0, 0))
            found[comparisons] = sources | 1 << states.variable[source], targets | 1 << states.variable[state]
    return found


def lay_out_walk(
    states: MergedStates, asked: Sequence[Sequence[Asked]], operation: Sequence[int], leader: Sequence[int]
) -> LaidOut:
    """Lays out a walk that keeps, for each query, the accumulators ``asked``, the first of which counts trends.

    ``operation`` has an entry per weights: how events are added (see :mod:`cetdsl.kernels.numbers.arithmetic`). Trees
    with one ``leader`` share a slot.
    """
    return _Layout(states, asked, operation, leader).laid_out()


class _Layout:
    """The lists that become the arrays of a walk, one per variable of events."""

    def __init__(
        self,
        states: MergedStates,
        asked: Sequence[Sequence[Asked]],
        operation: Sequence[int],
        leader: Sequence[int],
    ) -> None:
        self.states, self.asked, self.operation, self.leader = states, asked, operation, leader
        self.indexes = indexes_of(states)
        self.cells: dict[tuple[int, Asked], int] = {}
        self.kept: list[dict[Asked, None]] = []
        self.cell_count = [0] * BITS
        for state, queries in enumerate(states.queries):
            own = {COUNTED: None} | {key: None for q in sorted(queries) for key in asked[q][1:]}
            self.kept.append(own)
            self.cell_count[states.variable[state]] += len(own)
        # The cells of one variable are neighbours.
        for state in sorted(range(len(states.variable)), key=states.variable.__getitem__):
            for key in self.kept[state]:
                self.cells[state, key] = len(self.cells)

    def laid_out(self) -> LaidOut:
        """Returns the walk."""
        states, cells, every = self.states, self.cells, range(BITS)
        guarded, guards = self._beginning_guarded()
        totals, reads = self._edges()
        read, read_target, slot, slot_source, slot_columns, slot_hashed = self._indexed(reads)
        extended: _Groups = [[] for _ in every]
        for (state, (variable, row)), cell in cells.items():
            own = states.variable[state]
            if row >= 0 and variable in (-1, own):
                extended[own].append((cell, cells[state, COUNTED], row, self.operation[row]))
        closing, guarded_end, column = self._ends(guards)
        beginning = [key[1] if states.begins[state] is not None else -2 for state, key in cells]
        walk = Walk(
            self.known,
            np.cumsum([0, *self.cell_count]).astype(np.int64),
            *_table(guarded, 4),
            *_table(totals, 2),
            *_table(read, 6),
            flat([read_target]),
            *_table(extended, 4),
            *_table(slot, 5),
            flat([slot_source]),
            flat([slot_columns]),
            flat([slot_hashed]),
            flat(closing).reshape(-1, 2),
            *_table(guarded_end, 4),
            flat([guards]),
            self._idempotent(guarded, totals, read, slot, guarded_end),
        )
        return LaidOut(walk, flat([beginning]), column)

    def _idempotent(self, guarded: _Groups, totals: _Groups, read: _Groups, slot: _Groups, guarded_end: _Groups) -> int:
        """Returns the variables none of whose events changes what the next one finds but by its own state."""
        found, last = 0, np.cumsum(self.cell_count).tolist()
        for b in range(BITS):
            first = last[b] - self.cell_count[b]
            alone = all(target == source or not first <= source < last[b] for target, source in totals[b])
            if alone and not (guarded[b] or read[b] or slot[b] or guarded_end[b]):
                found |= 1 << b
        return found & self.known

    @property
    def known(self) -> int:
        """The variables of all states, as a bit mask."""
        known = 0
        for variable in self.states.variable:
            known |= 1 << variable
        return known

    def _beginning_guarded(self) -> tuple[_Groups, list[int]]:
        guarded: _Groups = [[] for _ in range(BITS)]
        guards: list[int] = []
        for state, before in enumerate(self.states.begins):
            if before:
                first = self.cells[state, COUNTED]
                entry = first, first + len(self.kept[state]), len(guards), len(guards) + len(before)
                guarded[self.states.variable[state]].append(entry)
                guards += before
        return guarded, guards

    def _edges(self) -> tuple[_Groups, dict[tuple[int, int, int, int], list[tuple[int, int]]]]:
        """Returns the cells that are added up as they are, and those that are read out of indexes.

        The latter are by the kind of the index, its table, and the variables of source and target.
        """
        variable = self.states.variable
        totals: _Groups = [[] for _ in range(BITS)]
        reads: dict[tuple[int, int, int, int], list[tuple[int, int]]] = {}
        for state, entries in enumerate(self.states.entries):
            for source, comparisons in entries:
                pairs = [(self.cells[source, key], self.cells[state, key]) for key in self.kept[state]]
                kind = index_of(Edge(0, 0, comparisons))
                if kind == TOTAL:
                    totals[variable[state]] += [(target, own) for own, target in pairs]
                    continue
                table = self.indexes[kind][comparisons]
                reads.setdefault((kind, table, variable[source], variable[state]), []).extend(pairs)
        return [sorted(own) for own in totals], reads

    def _indexed(
        self, reads: dict[tuple[int, int, int, int], list[tuple[int, int]]]
    ) -> tuple[_Groups, list[int], _Groups, list[int], list[int], list[int]]:
        """Returns what is read by each variable, and the slots; each read has columns of its own in its slot."""
        slots: dict[tuple[int, int, int], list[int]] = {}
        read: _Groups = [[] for _ in range(BITS)]
        read_target: list[int] = []
        for (kind, table, source, target), pairs in reads.items():
            held = kind, self.leader[table] if kind == TREE else table, source
            columns = slots.setdefault(held, [])
            number = list(slots).index(held)
            read[target].append((kind, table, number, len(columns), len(pairs), len(read_target)))
            pairs.sort(key=lambda pair: pair[1])
            columns += [own for own, _ in pairs]
            read_target += [to for _, to in pairs]
        slot: _Groups = [[] for _ in range(BITS)]
        source_cells: list[int] = []
        for number, ((kind, table, source), columns) in enumerate(slots.items()):
            slot[source].append((kind, table, number, len(columns), len(source_cells)))
            source_cells += columns
        widths = [len(columns) for columns in slots.values()]
        return read, read_target, slot, source_cells, widths, [int(kind == HASH) for kind, _, _ in slots]

    def _ends(self, guards: list[int]) -> tuple[list[tuple[int, int]], _Groups, Ints]:
        """Returns what is added to the answer, and adds the guards of that; the columns of a query are neighbours."""
        closing: list[tuple[int, int]] = []
        guarded: _Groups = [[] for _ in range(BITS)]
        first = 0
        column = np.full((len(self.asked), max(map(len, self.asked))), -1, dtype=np.int64)
        for q, ends in enumerate(self.states.ends):
            keys = [COUNTED, *self.asked[q][1:]]
            column[q, : len(keys)] = first + np.arange(len(keys))
            for state, times, after in ends:
                entry = len(guards), len(guards) + len(after)
                guards += after
                for k, key in enumerate(keys):
                    cell = self.cells[state, key]
                    if after:
                        guarded[self.states.variable[state]] += [(cell, first + k, *entry)] * times
                    else:
                        closing += [(cell, first + k)] * times
            first += len(keys)
        return closing, guarded, column


def _table(groups: _Groups, width: int) -> tuple[Ints, Ints]:
    return starts_of(groups), flat(groups).reshape(-1, width)
