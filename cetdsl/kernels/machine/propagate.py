"""Online trend aggregation: every event adds up the values of its possible predecessors.

For an event ``e`` that is bound on entering state ``q``::

    value(e, q) = [q may begin] + sum over edges p -> q of  sum of value(d, p), d earlier and compatible with e

and the answer of a window is the sum of ``value(e, q)`` over the final states (GRETA, VLDB 2017, section 4; here over
an unambiguous automaton, and with an index per edge in place of a scan of the predecessors). Which sum is meant depends
on the arrays' type, see :mod:`cetdsl.kernels.numbers.arithmetic`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cetdsl.ir.indexes import HASH, TOTAL, TREE
from cetdsl.kernels._borrow import borrowed
from cetdsl.kernels._jit import jit
from cetdsl.kernels.machine.conditions import (
    Conditions,
    Subslices,
    begins_first,
    edge_holds,
    may_begin,
    may_end,
    pivot_allows,
)
from cetdsl.kernels.machine.program import Program, Tables
from cetdsl.kernels.numbers.arithmetic import extend, gather
from cetdsl.kernels.vocabulary import Events, Ints


class Accumulators(NamedTuple):
    """The accumulators of a propagation; number 0 counts the trends (in the lattice it says whether there is one).

    ``weights[l, i]`` is what event ``i`` contributes to accumulator ``l``, if its variable is a bit of ``bound[l]``,
    and ``how[l]`` is an operation of :mod:`~cetdsl.kernels.numbers.arithmetic`.
    """

    bound: Ints
    how: Ints
    weights: NDArray[Any]


class Ending(NamedTuple):
    """Receives values of the last subslice, for callers that need them.

    Attributes
    ----------
    total : array, shape (states, accumulators)
        The sum of the values of all events in each state.
    start : int64 array, shape (states,) or (0,)
        The first row of ``value`` for events in each state; -1: the state's events are not wanted. If any are wanted,
        there must be one subslice only.
    value : array, shape (rows, accumulators)
        The values of the events in each wanted state, in order of time.
    """

    total: NDArray[Any]
    start: Ints
    value: NDArray[Any]


def keeping_none(program: Program, one: NDArray[Any]) -> Ending:
    """Returns what :func:`propagate` leaves behind where the values of single events are not wanted."""
    total = np.empty((len(program.variable), len(one)), dtype=one.dtype)
    return Ending(total, np.zeros(0, dtype=np.int64), np.zeros((0, len(one)), dtype=one.dtype))


@jit
def _largest_instant(events: Events, subslices: Subslices) -> int:
    largest = 1
    for r in range(len(subslices.low)):
        size = 0
        for i in range(subslices.low[r], subslices.high[r]):
            size = size + 1 if i > subslices.low[r] and events.instant[i] == events.instant[i - 1] else 1
            largest = max(largest, size)
    return largest


@jit
def propagate(
    program: Program,
    tables: Tables,
    events: Events,
    conditions: Conditions,
    accumulators: Accumulators,
    subslices: Subslices,
    zero: Any,
    one: NDArray[Any],
    prime: Any,
    first_state: int,
    begin_at_instant: bool,
    out: NDArray[Any],
    trace: NDArray[Any],
    ending: Ending,
) -> None:
    """Propagates every subslice, and adds the values of its complete trends to ``out``.

    Parameters
    ----------
    program, tables, events, conditions
        The automaton, the index tables of the chunk, its ``n`` events, and what restricts its trends.
    accumulators
        The accumulators, as many as ``one`` has entries.
    subslices
        The ranges of events to propagate, each by itself.
    zero, one, prime
        The value of no trend; an array of the values of a trend about to begin, one per accumulator; and the modulus
        of ``uint64`` arithmetic, which the other number systems ignore.
    first_state : int
        The state that trends begin in, where the guards before a trend are judged at its end (with a span); -1: any.
    begin_at_instant : bool
        Whether accumulator 0 of a trend begins with the number of its first instant, in place of ``one[0]``.
    out : array, shape (slices, accumulators)
        Receives the values of the complete trends of each slice.
    trace : array, shape (n,) or (0,)
        If not empty, it receives the value of accumulator 0 of the trends that end with each event.
    ending
        Receives values of the last subslice.
    """
    # This is one long loop because all steps for an event use the same values and indexes: a call inside would copy the
    # descriptors of all these arrays. It has so many parameters because aggregates of all kinds, and guards, use it;
    # these differ in numbers, in subslices, and in where trends begin.
    program, tables, events, conditions = borrowed(program), borrowed(tables), borrowed(events), borrowed(conditions)
    accumulators, subslices, ending = borrowed(accumulators), borrowed(subslices), borrowed(ending)
    states = len(program.variable)
    width = len(one)
    total, kept = ending.total, ending.value
    hashed = np.full((program.hash_slots, max(tables.hash_codes, 1), width), zero)
    trees = np.full((program.tree_slots, len(events.time) + 1, width), zero)
    block = _largest_instant(events, subslices)
    value = np.full((block, states, width), zero)
    live = np.zeros((block, states), dtype=np.bool_)
    longest = 0
    if program.scans:
        for r in range(len(subslices.low)):
            longest = max(longest, subslices.high[r] - subslices.low[r])
    scan_value = np.full((longest, states, width), zero)
    scan_live = np.zeros((longest, states), dtype=np.bool_)
    # Checks that most queries do not need are decided once.
    plain_begin = not begins_first(conditions) and first_state < 0 and len(program.begin_guard) == 0
    plain_end = len(program.end_guard) == 0 and (conditions.span == 0 or first_state < 0)
    traced, keeps = len(trace) > 0, len(ending.start) > 0
    next_row = ending.start.copy()
    for r in range(len(subslices.low)):
        low, high, window = subslices.low[r], subslices.high[r], subslices.window[r]
        pivot, outer = subslices.pivot[r], subslices.outer[r]
        total[:] = zero
        start = low
        while start < high:
            # Totals, trees, hash tables and ``out`` hold the values of the events ``low:start``, and of no others.
            end = start + 1
            instant = events.instant[start]
            while end < high and events.instant[end] == instant:
                end += 1
            # Simultaneous events do not follow each other, so all values of an instant are staged first.
            for i in range(start, end):
                place = i - start
                mask = events.mask[i]
                for q in range(states):
                    variable = program.variable[q]
                    alive = (mask >> variable) & 1 == 1
                    if alive and pivot >= 0:
                        alive = pivot_allows(
                            events, conditions.pivot_variable, conditions.pivot_pair, pivot, i, variable
                        )
                    if alive and outer >= 0:
                        alive = pivot_allows(
                            events, conditions.outer_variable, conditions.outer_pair, outer, i, variable
                        )
                    live[place, q] = alive
                    if program.scans:
                        scan_live[i - low, q] = alive
                    if not alive:
                        continue
                    begins = program.begins[q]
                    if begins and not plain_begin:
                        begins = (first_state < 0 or q == first_state) and may_begin(
                            program, events, conditions, q, i, subslices.first[r], low
                        )
                    for k in range(width):
                        value[place, q, k] = one[k] if begins else zero
                    if begins and begin_at_instant:
                        value[place, q, 0] = instant
                    for edge in range(program.in_start[q], program.in_start[q + 1]):
                        # ``value`` holds the trends that begin here, and those along the edges before this one.
                        kind = program.in_index[edge]
                        source = program.in_source[edge]
                        if kind == TOTAL:
                            for k in range(width):
                                value[place, q, k] = gather(value[place, q, k], total[source, k], prime)
                        elif kind == HASH:
                            code = tables.hash_query[program.in_table[edge], i]
                            if code >= 0:
                                slot = program.in_slot[edge]
                                for k in range(width):
                                    value[place, q, k] = gather(value[place, q, k], hashed[slot, code, k], prime)
                        elif kind == TREE:
                            table, slot = program.in_table[edge], program.in_slot[edge]
                            base, position = tables.query_base[table, i], tables.query_length[table, i]
                            for k in range(width):
                                found = value[place, q, k]
                                node = position
                                while node > 0:  # ``found`` lacks the first ``node`` places of the tree
                                    found = gather(found, trees[slot, base + node, k], prime)
                                    node &= node - 1
                                value[place, q, k] = found
                        elif program.listed_start[edge] < program.listed_start[edge + 1]:
                            row = program.listed[program.listed_start[edge]]
                            for item in range(events.list_start[row, i], events.list_start[row, i + 1]):
                                d = events.list_items[item]
                                if not (low <= d < start and scan_live[d - low, source]):
                                    continue
                                if edge_holds(program, events, edge, d, i):
                                    for k in range(width):
                                        value[place, q, k] = gather(
                                            value[place, q, k], scan_value[d - low, source, k], prime
                                        )
                        else:
                            for d in range(low, start):
                                if scan_live[d - low, source] and edge_holds(program, events, edge, d, i):
                                    for k in range(width):
                                        value[place, q, k] = gather(
                                            value[place, q, k], scan_value[d - low, source, k], prime
                                        )
                    # In the lattice (the only signed type) ``zero`` means that no trend ends here.
                    if width > 1 and value[place, q, 0] != zero:
                        for k in range(1, width):
                            if accumulators.bound[k] >> variable & 1:
                                value[place, q, k] = extend(
                                    value[place, q, k],
                                    value[place, q, 0],
                                    accumulators.weights[k, i],
                                    accumulators.how[k],
                                    prime,
                                )
            # All values of the instant are known and change no more, so the indexes may take them.
            for i in range(start, end):
                place = i - start
                for q in range(states):
                    if not live[place, q]:
                        continue
                    if program.scans:
                        for k in range(width):
                            scan_value[i - low, q, k] = value[place, q, k]
                    if keeps and next_row[q] >= 0:
                        for k in range(width):
                            kept[next_row[q], k] = value[place, q, k]
                        next_row[q] += 1
                    ends = program.ends[q]
                    if ends and not plain_end:
                        ends = may_end(program, events, conditions, q, first_state, i, high, low)
                    if ends:
                        for k in range(width):
                            out[window, k] = gather(out[window, k], value[place, q, k], prime)
                        if traced:
                            trace[i] = gather(trace[i], value[place, q, 0], prime)
                    for k in range(width):
                        total[q, k] = gather(total[q, k], value[place, q, k], prime)
                    for entry in range(program.slot_start[q], program.slot_start[q + 1]):
                        slot, table = program.slot_number[entry], program.slot_table[entry]
                        if program.slot_index[entry] == HASH:
                            code = tables.hash_update[table, i]
                            if code >= 0:
                                for k in range(width):
                                    hashed[slot, code, k] = gather(hashed[slot, code, k], value[place, q, k], prime)
                        else:
                            size, base = tables.tree_size[table, i], tables.update_base[table, i]
                            position = tables.update_position[table, i]
                            while 0 < position <= size:
                                for k in range(width):
                                    trees[slot, base + position, k] = gather(
                                        trees[slot, base + position, k], value[place, q, k], prime
                                    )
                                position += position & -position
            start = end
        _clear(program, tables, low, high, hashed, trees, zero)


@jit
def _clear(
    program: Program, tables: Tables, low: int, high: int, hashed: NDArray[Any], trees: NDArray[Any], zero: Any
) -> None:
    """Sets those entries of the indexes to zero that the events of a subslice have changed."""
    for q in range(len(program.variable)):
        for entry in range(program.slot_start[q], program.slot_start[q + 1]):
            slot, table = program.slot_number[entry], program.slot_table[entry]
            for i in range(low, high):
                if program.slot_index[entry] == HASH:
                    code = tables.hash_update[table, i]
                    if code >= 0:
                        hashed[slot, code] = zero
                else:
                    size, base = tables.tree_size[table, i], tables.update_base[table, i]
                    position = tables.update_position[table, i]
                    while 0 < position <= size:
                        trees[slot, base + position] = zero
                        position += position & -position
