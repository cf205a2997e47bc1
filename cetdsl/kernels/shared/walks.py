"""Lays out merged states (:mod:`~cetdsl.kernels.shared.states`) as the arrays of a :class:`Walk`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from cetdsl.ir.indexes import HASH, TOTAL, TREE, index_of
from cetdsl.ir.machine import Comparison, Edge
from cetdsl.kernels._side_by_side import flat, starts_of
from cetdsl.kernels.shared.abreast import Walk
from cetdsl.kernels.shared.states import MergedStates
from cetdsl.kernels.shared.template import BITS
from cetdsl.kernels.vocabulary import Ints

#: An accumulator: its variable (-1: all) and the row of its weights; the number of trends is ``COUNTED``.
Asked = tuple[int, int]
COUNTED = (-2, -1)


#: Rows of numbers, per variable or per window number.
_Groups = list[list[tuple[int, ...]]]
#: A read out of an index: its kind and table, and the variables of the edge's source and target.
_Read = tuple[int, int, int, int]


class LaidOut(NamedTuple):
    """A walk, and what its caller must know of its cells and of the columns of its answer.

    ``beginning`` has for each cell of a state in which trends may begin the row of its weights, -1 if it counts trends;
    for other cells -2. ``column`` has the columns of each query's accumulators.
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
    states: MergedStates,
    asked: Sequence[Sequence[Asked]],
    operation: Sequence[int],
    leader: Sequence[int],
    lanes: Sequence[int],
) -> LaidOut:
    """Lays out a walk that keeps, for each query, the accumulators ``asked``, the first of which counts trends.

    ``operation`` has for each row of weights the operation by which an event's weight is added (see
    :func:`~cetdsl.kernels.numbers.arithmetic.extend`). Trees with the same ``leader`` share a slot. ``lanes`` says how
    many windows of each window number may be open at once.
    """
    return _Layout(states, asked, operation, leader, lanes).laid_out()


class _Layout:
    """The lists that become the arrays of a walk, one per variable of events."""

    def __init__(
        self,
        states: MergedStates,
        asked: Sequence[Sequence[Asked]],
        operation: Sequence[int],
        leader: Sequence[int],
        lanes: Sequence[int],
    ) -> None:
        self.states, self.asked, self.operation, self.leader, self.lanes = states, asked, operation, leader, lanes
        self.indexes = indexes_of(states)
        self.first_lane = np.cumsum([0, *lanes]).tolist()
        #: The first lane's cell of each number; those of the other lanes follow it.
        self.cells: dict[tuple[int, Asked], int] = {}
        self.kept: list[dict[Asked, None]] = []
        self.cell_count = [0] * BITS
        for state, queries in enumerate(states.queries):
            own = {COUNTED: None} | {key: None for q in sorted(queries) for key in asked[q][1:]}
            self.kept.append(own)
            self.cell_count[states.variable[state]] += len(own) * self._width(state)
        # The cells of one variable are neighbours.
        cell = 0
        for state in sorted(range(len(states.variable)), key=states.variable.__getitem__):
            for key in self.kept[state]:
                self.cells[state, key] = cell
                cell += self._width(state)

    def _width(self, state: int) -> int:
        return self.lanes[self.states.window[state]]

    def laid_out(self) -> LaidOut:
        """Returns the walk."""
        states, cells, every = self.states, self.cells, range(BITS)
        guarded, guards = self._beginning_guarded()
        totals, reads = self._edges()
        read, read_target, slot, slot_source, slot_columns, slot_hashed, cleared = self._indexed(reads)
        extended: _Groups = [[] for _ in every]
        windows: list[list[int]] = [[] for _ in self.lanes]
        for (state, (variable, row)), cell in cells.items():
            own, count = states.variable[state], cells[state, COUNTED]
            windows[states.window[state]].append(cell)
            if row >= 0 and variable in (-1, own):
                of_row = row, self.operation[row]
                extended[own] += [(cell + lane, count + lane, *of_row) for lane in range(self._width(state))]
        closing, guarded_end, column = self._ends(guards)
        beginning = [
            key[1] if states.begins[state] is not None else -2
            for state, key in cells
            for _ in range(self._width(state))
        ]
        walk = Walk(
            self.known,
            np.cumsum([0, *self.cell_count]).astype(np.int64),
            *_table(guarded, 6),
            *_table(totals, 2),
            *_table(read, 6),
            flat([read_target]),
            *_table(extended, 4),
            *_table(slot, 5),
            flat([slot_source]),
            flat([slot_columns]),
            flat([slot_hashed]),
            *_table(closing, 2),
            *_table(guarded_end, 5),
            starts_of(windows),
            flat(windows),
            *_table(cleared, 6),
            flat([self.first_lane]),
            flat([guards]),
            self._idempotent(guarded, totals, read, slot, guarded_end),
        )
        return LaidOut(walk, flat([beginning]), column)

    def _idempotent(self, guarded: _Groups, totals: _Groups, read: _Groups, slot: _Groups, guarded_end: _Groups) -> int:
        """Returns the variables whose consecutive events influence each other through no state but their own.

        The result is a bit mask; see :attr:`Walk.idempotent`.
        """
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
                first, width, keys = self.cells[state, COUNTED], self._width(state), len(self.kept[state])
                entry, lane = (len(guards), len(guards) + len(before)), self.first_lane[self.states.window[state]]
                guarded[self.states.variable[state]] += [
                    (first + n, keys, width, *entry, lane + n) for n in range(width)
                ]
                guards += before
        return guarded, guards

    def _edges(self) -> tuple[_Groups, dict[_Read, list[tuple[int, int, int]]]]:
        """Returns the cells that are added up as they are, and those that are read out of indexes.

        The latter are (window, cell that is read, cell of the first lane that it is added to).
        """
        variable, window = self.states.variable, self.states.window
        totals: _Groups = [[] for _ in range(BITS)]
        reads: dict[_Read, list[tuple[int, int, int]]] = {}
        for state, entries in enumerate(self.states.entries):
            for source, comparisons in entries:
                pairs = [(self.cells[source, key], self.cells[state, key]) for key in self.kept[state]]
                kind = index_of(Edge(0, 0, comparisons))
                if kind == TOTAL:
                    lanes = range(self._width(state))
                    totals[variable[state]] += [(target + n, own + n) for own, target in pairs for n in lanes]
                    continue
                table = self.indexes[kind][comparisons]
                found = reads.setdefault((kind, table, variable[source], variable[state]), [])
                found += [(window[state], own, target) for own, target in pairs]
        return [sorted(own) for own in totals], reads

    def _indexed(
        self, reads: dict[_Read, list[tuple[int, int, int]]]
    ) -> tuple[_Groups, list[int], _Groups, list[int], list[int], list[int], _Groups]:
        """Returns the reads by each variable, the slots, and the parts of slots that are cleared when a window closes.

        Each read has columns of its own in its slot: for each window number one lane after the other.
        """
        slots: dict[tuple[int, int, int], list[int]] = {}
        read: _Groups = [[] for _ in range(BITS)]
        cleared: _Groups = [[] for _ in self.lanes]
        read_target: list[int] = []
        for (kind, table, source, target), pairs in reads.items():
            held = kind, self.leader[table] if kind == TREE else table, source
            columns = slots.setdefault(held, [])
            number, first, first_target = list(slots).index(held), len(columns), len(read_target)
            pairs.sort(key=lambda pair: (pair[0], pair[2]))
            for window, group in groupby(pairs, key=itemgetter(0)):
                own = list(group)
                entry = source, kind, held[1], number, len(columns), len(own)
                before = cleared[window][-1] if cleared[window] and self.lanes[window] == 1 else entry
                if (*before[:4], before[4] + before[5]) == entry[:5]:
                    # Both parts are neighbours in the slot, so one pass over it clears both.
                    entry = (*before[:5], before[5] + len(own))
                    cleared[window].pop()
                cleared[window].append(entry)
                for lane in range(self.lanes[window]):
                    columns += [cell + lane for _, cell, _ in own]
                    read_target += [to + lane for _, _, to in own]
            read[target].append((kind, table, number, first, len(columns) - first, first_target))
        slot: _Groups = [[] for _ in range(BITS)]
        source_cells: list[int] = []
        for number, ((kind, table, source), columns) in enumerate(slots.items()):
            slot[source].append((kind, table, number, len(columns), len(source_cells)))
            source_cells += columns
        widths = [len(columns) for columns in slots.values()]
        return read, read_target, slot, source_cells, widths, [int(kind == HASH) for kind, _, _ in slots], cleared

    def _ends(self, guards: list[int]) -> tuple[_Groups, _Groups, Ints]:
        """Returns which cells are added to which columns of the answer; appends the guards of this to ``guards``.

        The columns of a query are neighbours. The rows of each window number have columns for its own queries only.
        """
        closing: _Groups = [[] for _ in self.lanes]
        guarded: _Groups = [[] for _ in range(BITS)]
        width = [0] * len(self.lanes)
        column = np.full((len(self.asked), max(map(len, self.asked))), -1, dtype=np.int64)
        for q, ends in enumerate(self.states.ends):
            keys, window = [COUNTED, *self.asked[q][1:]], self.states.windows[q]
            first, lane = width[window], self.first_lane[window]
            column[q, : len(keys)] = first + np.arange(len(keys))
            for state, times, after in ends:
                entry = len(guards), len(guards) + len(after)
                guards += after
                for k, key in enumerate(keys):
                    cell = self.cells[state, key]
                    if not after:
                        closing[window] += [(cell, first + k)] * times
                        continue
                    for n in range(self.lanes[window]):
                        own = (cell + n, first + k, *entry, lane + n)
                        guarded[self.states.variable[state]] += [own] * times
            width[window] += len(keys)
        return closing, guarded, column


def _table(groups: _Groups, width: int) -> tuple[Ints, Ints]:
    return starts_of(groups), flat(groups).reshape(-1, width)
