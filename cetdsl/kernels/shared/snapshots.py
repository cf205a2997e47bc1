"""Snapshots and what they grow into: a tape (:mod:`~cetdsl.kernels.shared.tape`) is played in one number system.

A *column* (one window of one query) keeps for each repeating node two numbers: ``total``, the trends that end in the
node, and ``influx``, those that lead to it from elsewhere (in Hamlet's words, the predecessors' totals). An event that
the node takes has the value ``x = influx + total``, and doubles it. So, for a column whose influx stays as it is, ``x``
is a *snapshot*: after some events its total is::

    total + (g - 1) * x              for counts
    total + (g - 1) * x + h * x0     for sums (x0 is the snapshot of the count)

where ``g`` and ``h`` depend on the events alone, not on the column. They are the *coefficients* of the graphlet,
computed once for all columns that share it
(:mod:`~cetdsl.kernels.shared.coefficients`). A column is brought up to date, which makes a new snapshot, only when its
influx changes, its total is read, or it takes an event that the graphlet does not (or the other way round). Groups of
simultaneous events, which do not see each other, have ``g = 1 + m``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.numbers.linear import System, Weights, add, less_one, multiply, weigh
from cetdsl.kernels.shared.bursts import Frame
from cetdsl.kernels.shared.cells import Cells
from cetdsl.kernels.shared.coefficients import Coefficients, Table, between, count_steps, fill, weigh_step
from cetdsl.kernels.shared.tape import (
    ADVANCE,
    ALONE,
    APPLY,
    BIND,
    CLOSE,
    EACH,
    JUMP,
    MERGE,
    OPEN,
    RECORD,
    REFRESH,
    SHARED,
    SPLIT,
    SYNC,
    VALUE,
    Tape,
)
from cetdsl.kernels.shared.template import Template
from cetdsl.kernels.vocabulary import Ints


@inlined
def _grow(total: Table, influx: Table, cell: int, base: int, row: int, system: System, g: Table, h: Table) -> None:
    """A cell other than accumulator 0 takes the events that ``g`` and ``h`` stand for."""
    for t in range(len(g)):
        prime, reciprocal = system.prime[t], system.reciprocal[t]
        snapshot = add(influx[cell, t], total[cell, t], prime)
        grown = add(total[cell, t], multiply(less_one(g[t], prime), snapshot, prime, reciprocal), prime)
        if row >= 0:
            counted = add(influx[base, t], total[base, t], prime)
            grown = add(grown, multiply(h[row, t], counted, prime, reciprocal), prime)
        total[cell, t] = grown


@inlined
def _grow_count(total: Table, influx: Table, cell: int, system: System, g: Table) -> None:
    """A cell of accumulator 0 takes the events that ``g`` stands for."""
    for t in range(len(g)):
        prime = system.prime[t]
        snapshot = add(influx[cell, t], total[cell, t], prime)
        grown = multiply(less_one(g[t], prime), snapshot, prime, system.reciprocal[t])
        total[cell, t] = add(total[cell, t], grown, prime)


@jit
def _take_each(
    cells: Cells, total: Table, influx: Table, v: int, count: int, system: System, h: Table, weighs: bool
) -> None:
    """A variant's cells take ``count`` simultaneous events; ``h`` is the sum of their weights."""
    primes = len(system.prime)
    if weighs:
        for run in range(cells.weighed_start[v], cells.weighed_start[v + 1]):
            row = cells.weighed[run, 0]
            for cell in range(cells.weighed[run, 1], cells.weighed[run, 2]):
                base = cells.base[cell]
                for t in range(primes):
                    prime = system.prime[t]
                    gained = add(influx[cell, t], total[cell, t], prime)
                    if count > 1:
                        gained = multiply(gained, system.whole[count, t], prime, system.reciprocal[t])
                    if row >= 0:
                        counted = add(influx[base, t], total[base, t], prime)
                        gained = add(gained, multiply(h[row, t], counted, prime, system.reciprocal[t]), prime)
                    total[cell, t] = add(total[cell, t], gained, prime)
    for cell in range(cells.counted[v, 0], cells.counted[v, 1]):
        for t in range(primes):
            prime = system.prime[t]
            gained = add(influx[cell, t], total[cell, t], prime)
            if count > 1:
                gained = multiply(gained, system.whole[count, t], prime, system.reciprocal[t])
            total[cell, t] = add(total[cell, t], gained, prime)


class _State(NamedTuple):
    """What is known after the operations played so far; its arrays are written to.

    Attributes
    ----------
    total, influx : arrays, shape (cells, primes)
    alive : array, shape (slots, primes)
        One in the slots of windows that are open.
    staged : array, shape (places * cells of a plain node, primes)
        The values of events that are being bound.
    joined : int64 array, shape (variants,)
        The graphlet of each variant; -1: none.
    now : int64 array, shape (graphlets,)
        Steps that each graphlet has done.
    since : int64 array, shape (repeating cells,)
        How many of its graphlet's steps each cell has seen.
    asked : int64 array, shape (3,)
        Graphlet and stretch of the coefficients ``g`` and ``h``.
    g, h : arrays, shapes (primes,), (rows, primes)
    weight : array, shape (primes,)
    """

    total: Table
    influx: Table
    alive: Table
    staged: Table
    joined: Ints
    now: Ints
    since: Ints
    asked: Ints
    g: Table
    h: Table
    weight: Table


@inlined
def _sync(
    cells: Cells, found: Coefficients, system: System, state: _State, node: int, entry: int, first: int, last: int
) -> None:
    """Brings slots ``[first, last)`` of a repeating node up to its graphlet, if it is in one."""
    if entry < 0:
        return
    now, accumulator, last_accumulator = (
        state.now[entry],
        cells.accumulator_start[node],
        cells.accumulator_start[node + 1],
    )
    for r in range(first, last):
        base = cells.first[accumulator] + r
        since = state.since[base]
        if since == now:
            continue
        state.since[base] = now
        if entry != state.asked[0] or since != state.asked[1] or now != state.asked[2]:
            between(found, entry, since, now, system, state.g, state.h)
            state.asked[0], state.asked[1], state.asked[2] = entry, since, now
        for other in range(accumulator + 1, last_accumulator):
            cell = cells.first[other] + r
            _grow(state.total, state.influx, cell, base, cells.row[other], system, state.g, state.h)
        _grow_count(state.total, state.influx, base, system, state.g)


@jit
def play(
    template: Template,
    frame: Frame,
    tape: Tape,
    cells: Cells,
    weights: Weights,
    mask: Ints,
    reference: Ints,
    system: System,
    islands: Ints,
    out: Table,
    recorded: Table,
) -> None:
    """Plays a tape.

    Parameters
    ----------
    islands : int64 array
        Those that are played.
    out : array, shape (rows, primes)
        Receives the accumulators of each query and slice.
    recorded : array, shape (snapshots, cells of accumulator 0) or (0, 0)
        Receives the snapshots that the tape asks for.
    """
    primes, rows = len(system.prime), len(weights.start) - 1
    families, variants = len(template.family_start) - 1, len(template.bit)
    windows = len(frame.slots)
    places = max(tape.stages, 1) * cells.size
    state = _State(
        np.full((cells.count, primes), system.zero),
        np.full((cells.repeating, primes), system.zero),
        np.full((cells.slot_start[windows], primes), system.zero),
        np.full((places, primes), system.zero),
        np.zeros(variants, dtype=np.int64),
        np.zeros(families + variants, dtype=np.int64),
        np.zeros(cells.repeating, dtype=np.int64),
        np.full(3, -1, dtype=np.int64),
        np.full(primes, system.one),
        np.full((rows, primes), system.zero),
        np.full(primes, system.zero),
    )
    total, influx, alive, joined, now = state.total, state.influx, state.alive, state.joined, state.now
    step_g, step_h = state.g.copy(), state.h.copy()
    operations = tape.operation
    most = 0
    for k in islands:
        most = max(most, tape.start[k + 1] - tape.start[k])
    entries = 2 * most + 2 * (families + variants)
    found = Coefficients(
        np.zeros(families + variants, dtype=np.int64),
        np.zeros(families + variants, dtype=np.int64),
        np.empty((entries, primes), dtype=out.dtype),
        np.empty((entries, primes), dtype=out.dtype),
        np.empty((entries, rows, primes), dtype=out.dtype),
    )
    for island in islands:
        count_steps(tape, island, found)
        fill(tape, island, template, weights, mask, reference, system, step_h, found)
        now[:] = 0
        state.asked[0] = -1
        for v in range(variants):
            mode = tape.mode[island, v]
            joined[v] = template.family[v] if mode == SHARED else families + v if mode == ALONE else -1
        for k in range(tape.start[island], tape.start[island + 1]):
            code, x, n = operations[k, 0], operations[k, 1], operations[k, 2]
            low, high = operations[k, 3], operations[k, 4]
            if code == ADVANCE:
                now[x] += 1
            elif code == SYNC:
                entry = joined[low]
                for node in range(x, n):
                    first, last = (high - 1, high) if high else (0, cells.slots[node])
                    _sync(cells, found, system, state, node, entry, first, last)
            elif code == BIND:
                for own in range(template.plain_start[x], template.plain_start[x + 1]):
                    node = template.plain[own]
                    slots = cells.slots[node]
                    for s in range(template.source_start[node], template.source_start[node + 1]):
                        near = template.source[s]
                        if near < template.repeating:
                            _sync(cells, found, system, state, near, joined[template.variant[near]], 0, slots)
                    for s in range(template.target_start[node], template.target_start[node + 1]):
                        near = template.target[s]
                        _sync(cells, found, system, state, near, joined[template.variant[near]], 0, slots)
                    _bind(template, cells, weights, mask, system, state, node, 0, n, low, high)
                    _apply(template, cells, system, state, node, 0)
            elif code == VALUE:
                _bind(template, cells, weights, mask, system, state, x, n * cells.size, 1, low, high)
            elif code == APPLY:
                _apply(template, cells, system, state, x, n * cells.size)
            elif code == EACH:
                weighs = cells.weighed_start[x] < cells.weighed_start[x + 1]
                if n > 0 and not weighs:
                    for _ in range(n):
                        _take_each(cells, total, influx, x, 1, system, step_h, False)
                    continue
                for e in range(low, high if n > 0 else low + 1):
                    if n > 0 and not (mask[e] >> template.bit[x]) & 1:
                        continue
                    for row in range(rows):
                        weigh(weights, row, mask, template.bit[x], e, e + 1 if n > 0 else high, step_h[row], system)
                    _take_each(cells, total, influx, x, max(1, -n), system, step_h, weighs)
            elif code == JUMP:
                weigh_step(operations[k], families + x, template, weights, mask, reference, system, step_h)
                for t in range(primes):
                    step_g[t] = system.power[n, t] if n > 0 else system.whole[1 - n, t]
                for run in range(cells.weighed_start[x], cells.weighed_start[x + 1]):
                    for cell in range(cells.weighed[run, 1], cells.weighed[run, 2]):
                        base, row = cells.base[cell], cells.weighed[run, 0]
                        _grow(total, influx, cell, base, row, system, step_g, step_h)
                for cell in range(cells.counted[x, 0], cells.counted[x, 1]):
                    _grow_count(total, influx, cell, system, step_g)
            elif code in (OPEN, CLOSE):
                for entry in range(template.member_start[x], template.member_start[x + 1]):
                    query = template.member[entry]
                    for own in range(template.own_start[query], template.own_start[query + 1]):
                        node = template.own[own]
                        for accumulator in range(cells.accumulators[query]):
                            cell = cells.first[cells.accumulator_start[node] + accumulator] + n
                            if code == CLOSE:
                                row = cells.out_start[query] + low * cells.accumulators[query] + accumulator
                                for t in range(primes):
                                    if template.ends[node]:
                                        out[row, t] = add(out[row, t], total[cell, t], system.prime[t])
                                    total[cell, t] = system.zero
                            if node < template.repeating:
                                begins = code == OPEN and accumulator == 0 and template.begins[node]
                                for t in range(primes):
                                    influx[cell, t] = system.one if begins else system.zero
                                if accumulator == 0:
                                    graphlet = joined[template.variant[node]]
                                    state.since[cell] = now[graphlet] if graphlet >= 0 else 0
                alive[cells.slot_start[x] + n] = system.one if code == OPEN else system.zero
            elif code == SPLIT:
                joined[x] = -1
            elif code == MERGE:
                joined[x] = n
                state.since[cells.counted[x, 0] : cells.counted[x, 1]] = now[n]
            elif code == REFRESH:
                for entry in range(template.link_start[x], template.link_start[x + 1]):
                    _refresh(template, cells, system, total, influx, alive, template.link_node[entry])
            elif code == RECORD:
                for cell in range(cells.counted[x, 0], cells.counted[x, 1]):
                    recorded[n, cell] = add(influx[cell, 0], total[cell, 0], system.prime[0])


@inlined
def _bind(
    template: Template,
    cells: Cells,
    weights: Weights,
    mask: Ints,
    system: System,
    state: _State,
    node: int,
    place: int,
    count: int,
    low: int,
    high: int,
) -> None:
    """The value of ``count`` events, those of ``[low, high)`` that are bound on entering a plain node, in all slots."""
    total, staged, weight = state.total, state.staged, state.weight
    query, slots, primes = template.query[node], cells.slots[node], len(system.prime)
    alive = cells.slot_start[template.window[query]]
    for accumulator in range(cells.accumulators[query]):
        row = cells.row[cells.accumulator_start[node] + accumulator]
        if row >= 0:
            weigh(weights, row, mask, template.variable[node], low, high, weight, system)
        begins = accumulator == 0 and template.begins[node]
        for r in range(slots):
            at = place + accumulator * slots + r
            for t in range(primes):
                staged[at, t] = state.alive[alive + r, t] if begins else system.zero
            for s in range(template.source_start[node], template.source_start[node + 1]):
                cell = cells.first[cells.accumulator_start[template.source[s]] + accumulator] + r
                for t in range(primes):
                    staged[at, t] = add(staged[at, t], total[cell, t], system.prime[t])
            if accumulator > 0:
                _multiply_by(staged, at, count, system)
            if row >= 0:
                for t in range(primes):
                    gained = multiply(weight[t], staged[place + r, t], system.prime[t], system.reciprocal[t])
                    staged[at, t] = add(staged[at, t], gained, system.prime[t])
    for r in range(slots):
        _multiply_by(staged, place + r, count, system)


@inlined
def _multiply_by(values: Table, at: int, count: int, system: System) -> None:
    if count > 1:
        for t in range(len(system.prime)):
            values[at, t] = multiply(values[at, t], system.whole[count, t], system.prime[t], system.reciprocal[t])


@inlined
def _apply(template: Template, cells: Cells, system: System, state: _State, node: int, place: int) -> None:
    """Adds a bound event's value to its node's total and to what leads to repeating nodes."""
    total, influx, staged = state.total, state.influx, state.staged
    slots, primes = cells.slots[node], len(system.prime)
    for accumulator in range(cells.accumulators[template.query[node]]):
        for r in range(slots):
            at = place + accumulator * slots + r
            cell = cells.first[cells.accumulator_start[node] + accumulator] + r
            for t in range(primes):
                total[cell, t] = add(total[cell, t], staged[at, t], system.prime[t])
            for k in range(template.target_start[node], template.target_start[node + 1]):
                cell = cells.first[cells.accumulator_start[template.target[k]] + accumulator] + r
                for t in range(primes):
                    influx[cell, t] = add(influx[cell, t], staged[at, t], system.prime[t])


@jit
def _refresh(
    template: Template, cells: Cells, system: System, total: Table, influx: Table, alive: Table, node: int
) -> None:
    """Adds up anew what leads to a repeating node."""
    query = template.query[node]
    window = template.window[query]
    primes = len(system.prime)
    for accumulator in range(cells.accumulators[query]):
        for r in range(cells.slots[node]):
            at = cells.first[cells.accumulator_start[node] + accumulator] + r
            begins = accumulator == 0 and template.begins[node]
            for t in range(primes):
                influx[at, t] = alive[cells.slot_start[window] + r, t] if begins else system.zero
            for s in range(template.source_start[node], template.source_start[node + 1]):
                cell = cells.first[cells.accumulator_start[template.source[s]] + accumulator] + r
                for t in range(primes):
                    influx[at, t] = add(influx[at, t], total[cell, t], system.prime[t])
