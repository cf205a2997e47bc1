"""Many queries abreast: one walk over the events, in which each index holds the values of many states side by side.

What :mod:`~cetdsl.kernels.machine.propagate` does for the states of one query, this does for those of many
(:mod:`~cetdsl.kernels.shared.states`). Its numbers are *cells*: a cell is one accumulator of one state in one *lane*.
Each of several overlapping windows has a lane, so that an event is read once for all windows that hold it; when a
window closes, its lane is free for another one. The cells of the states that read one variable are neighbours.

An index that answers a predicate between neighbours is looked up once for all states whose edges have this predicate.
Its entries are vectors with a number for each of their cells, where Hamlet (SIGMOD 2021, section 3.3) has an expression
over snapshots. Queries may differ in whether they take an event: Hamlet then adds a snapshot to the expression, and
here the event's own vector has different numbers for them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cetdsl.ir.indexes import HASH
from cetdsl.kernels._borrow import borrowed
from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.machine.program import Tables
from cetdsl.kernels.numbers.arithmetic import extend, gather
from cetdsl.kernels.shared.bursts import end_of_instant, lowest_bit
from cetdsl.kernels.vocabulary import Events, Ints


class Walk(NamedTuple):
    """The steps of a walk, by the variable ``b`` that an event is bound to; all arrays are of int64.

    Attributes
    ----------
    known : int
        The variables of all states, as a bit mask.
    cell_start : shape (variables + 1,)
        The cells of the states that read ``b``.
    guarded_start, guarded
        The cells of one lane of a state in which trends begin under guards: (first cell, cells, step from one to the
        next, first guard, end of the guards, lane).
    total_start, total
        The edges without predicates: (target cell, source cell), the total of which is added.
    read_start, read, read_target
        The reads out of indexes, for edges with predicates: (kind, table, slot, first column, columns, first entry of
        ``read_target``), and the cell that each column is added to.
    extend_start, extended
        What events contribute: (cell, cell of the count, row of the weights, operation).
    slot_start, slot, slot_source
        The slots, that is, tables of values, that events are put in: (kind, table, slot, columns, first entry of
        ``slot_source``), and the cell whose value each column holds.
    slot_columns : shape (slots,)
        The number of columns of each slot.
    slot_hashed : shape (slots,)
        Whether the slot is a hash table; else it is a tree.
    closing_start, closing : by window number
        The cells that are added to the answer when a window closes: (cell of the first lane, column of the answer).
    guarded_end_start, guarded_end
        The cells that are added to the answer at each event, because trends end under guards: (cell, column, first
        guard, end of the guards, lane).
    window_start, window_cell : by window number
        The cells of the first lane.
    cleared_start, cleared : by window number
        The columns of slots for the first lane: (variable, kind, table, slot, first column, columns).
    first_lane : shape (window numbers + 1,)
        The first lane of each window number; its lanes follow each other.
    guard
        Numbers of guards, which ``guarded`` and ``guarded_end`` refer to.
    idempotent : int
        The variables, as a bit mask, whose consecutive events have the same effect on extremes of values as a single
        event with the largest weights.
    """

    known: int
    cell_start: Ints
    guarded_start: Ints
    guarded: Ints
    total_start: Ints
    total: Ints
    read_start: Ints
    read: Ints
    read_target: Ints
    extend_start: Ints
    extended: Ints
    slot_start: Ints
    slot: Ints
    slot_source: Ints
    slot_columns: Ints
    slot_hashed: Ints
    closing_start: Ints
    closing: Ints
    guarded_end_start: Ints
    guarded_end: Ints
    window_start: Ints
    window_cell: Ints
    cleared_start: Ints
    cleared: Ints
    first_lane: Ints
    guard: Ints
    idempotent: int


#: Columns of the borders of windows: the event at which a window opens or closes, whether it opens, its window number,
#: its lane among those of this number, its first event and their end, and its row of the answer.
AT, OPENS, WINDOW, LANE, LOW, HIGH, ROW = range(7)


class Guards(NamedTuple):
    """The latest starts of negated patterns, see :class:`~cetdsl.kernels.machine.conditions.Conditions`."""

    before: Ints
    until: Ints


@inlined
def _largest_instant(instant: Ints, islands: Ints) -> int:
    largest = 1
    for r in range(len(islands)):
        i = islands[r, 0]
        while i < islands[r, 1]:
            end = end_of_instant(instant, i, islands[r, 1])
            largest = max(largest, end - i)
            i = end
    return largest


@inlined
def _none_before(guards: Ints, latest: Ints, first: int, last: int, event: int, instant: int) -> bool:
    """Whether no guard has a match that begins at the instant or later, of those that ``latest`` has for the event."""
    g = first
    while g < last and latest[guards[g], event] < instant:
        g += 1
    return g == last


@inlined
def _end_of_row(mask: Ints, instant: Ints, known: int, start: int, high: int) -> int:
    """Returns the end of the instants from ``start`` on whose known events are all bound to the variable of the first.

    Returns ``start`` if the first instant has events of other variables.
    """
    own, end = mask[start] & known, start + 1
    while end < high and (mask[end] & known == own or mask[end] & known == 0):
        end += 1
    # If an event of the last instant is bound to another variable, it must not follow the instant's events before it.
    if end < high and instant[end] == instant[end - 1]:
        last = instant[end]
        while end > start and instant[end - 1] == last:
            end -= 1
    return end


@inlined
def _take_largest(mask: Ints, bits: int, weights: NDArray[Any], low: int, high: int, largest: NDArray[Any]) -> None:
    """Finds the largest of each row of weights among the events of a variable; event ``low`` is one of them."""
    for row in range(len(weights)):
        most = weights[row, low]
        for i in range(low + 1, high):
            if mask[i] & bits and weights[row, i] > most:
                most = weights[row, i]
        largest[row] = most


@jit
def walk_abreast(
    walk: Walk,
    tables: Tables,
    events: Events,
    guards: Guards,
    weights: NDArray[Any],
    begin: NDArray[Any],
    borders: Ints,
    islands: Ints,
    zero: Any,
    prime: Any,
    merged: int,
    out: NDArray[Any],
) -> None:
    """Walks over the events of windows, and adds the values of their complete trends to ``out``.

    Parameters
    ----------
    walk, tables, events, guards
        The merged states, the index tables of the chunk, its events, and the guards of the states.
    weights : array, shape (weights, n)
        What events contribute to accumulators.
    begin : array, shape (cells,)
        The value of a trend about to begin, ``zero`` in cells where none may.
    borders : int64 array, shape (borders, 7)
        Where windows open and close, by the columns :data:`AT` to :data:`ROW`, in order of their events; those that
        close come first.
    islands : int64 array, shape (islands, 4)
        First event and end, first border and end, of each part of the events that windows span without a gap.
    zero, prime
        As in :func:`~cetdsl.kernels.machine.propagate.propagate`.
    merged : int
        The variables, as a bit mask, whose consecutive events are taken as one.
    out : array, shape (rows, columns)
        Receives the values.
    """
    # One long loop, like the propagation of a single query, and with names for the arrays of its inner loops.
    walk, tables, events, guards = borrowed(walk), borrowed(tables), borrowed(events), borrowed(guards)
    known, cell_start, guard = walk.known, walk.cell_start, walk.guard
    guarded_start, guarded = walk.guarded_start, walk.guarded
    total_start, totals = walk.total_start, walk.total
    read_start, reads, read_target = walk.read_start, walk.read, walk.read_target
    extend_start, extended = walk.extend_start, walk.extended
    slot_start, slots, slot_source = walk.slot_start, walk.slot, walk.slot_source
    guarded_end_start, guarded_end = walk.guarded_end_start, walk.guarded_end
    mask, instant, before, until = events.mask, events.instant, guards.before, guards.until
    hash_query, hash_update = tables.hash_query, tables.hash_update
    query_base, query_length = tables.query_base, tables.query_length
    update_base, update_position, tree_size = tables.update_base, tables.update_position, tables.tree_size
    cells = len(begin)
    block = _largest_instant(instant, islands)
    value = np.full((block, cells), zero)
    largest = np.zeros(len(weights), dtype=weights.dtype)
    total, beginning = np.full(cells, zero), np.full(cells, zero)
    lanes = np.full((walk.first_lane[-1], 3), -1)  # the first event, the end and the row of the window in each
    offset = np.zeros(len(walk.slot_columns) + 1, dtype=np.int64)
    for s in range(len(walk.slot_columns)):
        rows = max(tables.hash_codes, 1) if walk.slot_hashed[s] else len(mask) + 1
        offset[s + 1] = offset[s] + rows * walk.slot_columns[s]
    store = np.full(offset[-1], zero)
    found = np.full(max(len(slot_source), len(read_target), 1), zero)
    for r in range(len(islands)):
        start, high, border, last_border = islands[r, 0], islands[r, 1], islands[r, 2], islands[r, 3]
        while start < high or border < last_border:
            while border < last_border and borders[border, AT] == start:
                if borders[border, OPENS]:
                    _open(walk, borders[border], begin, beginning, lanes)
                else:
                    _close(
                        walk, tables, mask, borders[border], beginning, total, lanes, offset, store, zero, prime, out
                    )
                border += 1
            if start >= high:
                break
            until_border = borders[border, AT] if border < last_border else high
            # Totals and indexes hold the values of the events before ``start``, and of no others: simultaneous events
            # see only what was there before their instant, so values are staged first.
            own = mask[start] & known
            together, stop = False, start
            if own & (own - 1) == 0 and own & merged != 0:
                stop = _end_of_row(mask, instant, known, start, until_border)
                together = stop > start
            if together:
                end, stop = stop, start + 1
                _take_largest(mask, own, weights, start, end, largest)
            else:
                end = end_of_instant(instant, start, high)
                stop = end
            for i in range(start, stop):
                place, bits = i - start, mask[i] & known
                while bits:
                    b = lowest_bit(bits)
                    bits &= bits - 1
                    for c in range(cell_start[b], cell_start[b + 1]):
                        value[place, c] = beginning[c]
                    for k in range(guarded_start[b], guarded_start[b + 1]):
                        low = lanes[guarded[k, 5], 0]
                        if low < 0 or _none_before(guard, before, guarded[k, 3], guarded[k, 4], i, instant[low]):
                            continue
                        for n in range(guarded[k, 1]):
                            value[place, guarded[k, 0] + n * guarded[k, 2]] = zero
                    for k in range(total_start[b], total_start[b + 1]):
                        target = totals[k, 0]
                        value[place, target] = gather(value[place, target], total[totals[k, 1]], prime)
                    for k in range(read_start[b], read_start[b + 1]):
                        table, s, columns, entry = reads[k, 1], reads[k, 2], reads[k, 4], reads[k, 5]
                        width, first = walk.slot_columns[s], offset[s] + reads[k, 3]
                        if reads[k, 0] == HASH:
                            code = hash_query[table, i]
                            if code >= 0:
                                at = first + code * width
                                for c in range(columns):
                                    target = read_target[entry + c]
                                    value[place, target] = gather(value[place, target], store[at + c], prime)
                            continue
                        base, node = query_base[table, i], query_length[table, i]
                        if node == 0:
                            continue
                        for c in range(columns):
                            found[c] = zero
                        while node > 0:
                            at = first + (base + node) * width
                            for c in range(columns):
                                found[c] = gather(found[c], store[at + c], prime)
                            node &= node - 1
                        for c in range(columns):
                            target = read_target[entry + c]
                            value[place, target] = gather(value[place, target], found[c], prime)
                    for k in range(extend_start[b], extend_start[b + 1]):
                        c, count = extended[k, 0], value[place, extended[k, 1]]
                        if count != zero:
                            weight = largest[extended[k, 2]] if together else weights[extended[k, 2], i]
                            value[place, c] = extend(value[place, c], count, weight, extended[k, 3], prime)
            # All values of the instant are known and change no more, so totals and indexes may take them.
            for i in range(start, stop):
                place, bits = i - start, mask[i] & known
                while bits:
                    b = lowest_bit(bits)
                    bits &= bits - 1
                    for c in range(cell_start[b], cell_start[b + 1]):
                        total[c] = gather(total[c], value[place, c], prime)
                    for k in range(guarded_end_start[b], guarded_end_start[b + 1]):
                        first, last, lane = guarded_end[k, 2], guarded_end[k, 3], guarded_end[k, 4]
                        closes, row = lanes[lane, 1], lanes[lane, 2]
                        if closes > 0 and _none_before(guard, until, first, last, closes - 1, instant[i] + 1):
                            column = guarded_end[k, 1]
                            out[row, column] = gather(out[row, column], value[place, guarded_end[k, 0]], prime)
                    for k in range(slot_start[b], slot_start[b + 1]):
                        table, s, columns, entry = slots[k, 1], slots[k, 2], slots[k, 3], slots[k, 4]
                        for c in range(columns):
                            found[c] = value[place, slot_source[entry + c]]
                        if slots[k, 0] == HASH:
                            code = hash_update[table, i]
                            if code >= 0:
                                at = offset[s] + code * columns
                                for c in range(columns):
                                    store[at + c] = gather(store[at + c], found[c], prime)
                            continue
                        base, position, size = update_base[table, i], update_position[table, i], tree_size[table, i]
                        while 0 < position <= size:
                            at = offset[s] + (base + position) * columns
                            for c in range(columns):
                                store[at + c] = gather(store[at + c], found[c], prime)
                            position += position & -position
            start = end


@inlined
def _open(walk: Walk, border: Ints, begin: NDArray[Any], beginning: NDArray[Any], lanes: Ints) -> None:
    """Lets trends begin in the lane of a window."""
    window, lane = border[WINDOW], border[LANE]
    for n in range(walk.window_start[window], walk.window_start[window + 1]):
        c = walk.window_cell[n] + lane
        beginning[c] = begin[c]
    own = lanes[walk.first_lane[window] + lane]
    own[0], own[1], own[2] = border[LOW], border[HIGH], border[ROW]


@jit
def _close(
    walk: Walk,
    tables: Tables,
    mask: Ints,
    border: Ints,
    beginning: NDArray[Any],
    total: NDArray[Any],
    lanes: Ints,
    offset: Ints,
    store: NDArray[Any],
    zero: Any,
    prime: Any,
    out: NDArray[Any],
) -> None:
    """Answers a window, and clears its lane; of the indexes only the entries that the window's events changed."""
    window, lane, row = border[WINDOW], border[LANE], border[ROW]
    for k in range(walk.closing_start[window], walk.closing_start[window + 1]):
        column = walk.closing[k, 1]
        out[row, column] = gather(out[row, column], total[walk.closing[k, 0] + lane], prime)
    for n in range(walk.window_start[window], walk.window_start[window + 1]):
        c = walk.window_cell[n] + lane
        beginning[c], total[c] = zero, zero
    lanes[walk.first_lane[window] + lane] = -1
    cleared = walk.cleared
    for k in range(walk.cleared_start[window], walk.cleared_start[window + 1]):
        table, s, columns = cleared[k, 2], cleared[k, 3], cleared[k, 5]
        width, first = walk.slot_columns[s], offset[s] + cleared[k, 4] + lane * columns
        for i in range(border[LOW], border[HIGH]):
            if (mask[i] >> cleared[k, 0]) & 1 == 0:
                continue
            if cleared[k, 1] == HASH:
                code = tables.hash_update[table, i]
                if code >= 0:
                    at = first + code * width
                    for c in range(columns):
                        store[at + c] = zero
                continue
            base, size = tables.update_base[table, i], tables.tree_size[table, i]
            position = tables.update_position[table, i]
            while 0 < position <= size:
                at = first + (base + position) * width
                for c in range(columns):
                    store[at + c] = zero
                position += position & -position
