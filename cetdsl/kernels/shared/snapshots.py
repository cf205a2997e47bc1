"""Snapshots and their growth: a tape (:mod:`~cetdsl.kernels.shared.operations`) is played in one number system.

A *column* (one window of one query) keeps two numbers for each repeating node (a Kleene state, see
:mod:`~cetdsl.kernels.shared.template`): ``total``, the number of trends that end in the node, and ``influx``, the
number of trends that the node's next event continues or begins, other than those that end in the node itself (in
Hamlet's words, the predecessors' totals). An event that the node takes has the value ``x = influx + total``, which it
adds to the total, and so doubles ``x``. As long as a column's influx does not change, its present ``x`` is a *snapshot*
from which its later totals follow: after some events the total is::

    total + (g - 1) * x              for counts
    total + (g - 1) * x + h * x0     for sums (x0 is the snapshot of the count)

where ``g`` and ``h`` depend on the events alone, not on the column. They are the *coefficients* of a *graphlet*, the
events that the columns sharing it take, and are computed once for all these columns
(:mod:`~cetdsl.kernels.shared.coefficients`). A column is brought up to date, which makes a new snapshot, only when its
influx changes, when its total is read, or when it takes an event that the graphlet does not (or the other way round). A
single event has ``g = 2``; ``m`` simultaneous events, which do not follow each other, have ``g = 1 + m``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cetdsl.kernels._borrow import borrowed
from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.numbers.linear import System, Weights, add, lanes, less_one, multiply, weigh
from cetdsl.kernels.shared import operations as op
from cetdsl.kernels.shared.cells import Cells
from cetdsl.kernels.shared.coefficients import Coefficients, Table, between, count_steps, fill, room_for, weigh_step
from cetdsl.kernels.shared.operations import OWN, SHARED, Operations, Tape
from cetdsl.kernels.shared.template import Template
from cetdsl.kernels.vocabulary import Ints


@inlined
def _grow(total: Table, influx: Table, cell: int, base: int, row: int, system: System, gain: Table, h: Table) -> None:
    """Brings a cell of a sum up to date: it takes the events whose coefficients are ``gain + 1`` and ``h``."""
    for t in range(lanes(system)):
        prime, reciprocal = system.prime[t], system.reciprocal[t]
        snapshot = add(influx[cell, t], total[cell, t], prime)
        grown = add(total[cell, t], multiply(gain[t], snapshot, prime, reciprocal), prime)
        if row >= 0:
            counted = add(influx[base, t], total[base, t], prime)
            grown = add(grown, multiply(h[row, t], counted, prime, reciprocal), prime)
        total[cell, t] = grown


@inlined
def _grow_count(total: Table, influx: Table, cell: int, system: System, gain: Table) -> None:
    """Brings a cell of accumulator 0, a count, up to date: it takes the events whose coefficient is ``gain + 1``."""
    for t in range(lanes(system)):
        prime = system.prime[t]
        snapshot = add(influx[cell, t], total[cell, t], prime)
        grown = multiply(gain[t], snapshot, prime, system.reciprocal[t])
        total[cell, t] = add(total[cell, t], grown, prime)


@jit
def _take_each(
    cells: Cells, total: Table, influx: Table, v: int, count: int, system: System, h: Table, weighs: bool
) -> None:
    """Lets a variant's cells take ``count`` simultaneous events; ``h`` is the sum of their weights."""
    primes = lanes(system)
    if weighs:
        for k in range(cells.weighed_start[v], cells.weighed_start[v + 1]):
            row = cells.weighed[k, 0]
            for cell in range(cells.weighed[k, 1], cells.weighed[k, 2]):
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
    """The values after the operations played so far; its arrays are written to.

    Attributes
    ----------
    total, influx : arrays, shape (cells, primes)
    alive, staged : arrays, shapes (slots, primes), (stages * cells of a plain node, primes)
        The number 1 in the slots of windows that are open, else 0; and the values of events that are being bound.
    joined, now, since : int64 arrays, shapes (variants,), (graphlets,), (repeating cells,)
        The graphlet of each variant (-1: none), the number of steps of each graphlet so far, and up to which of these
        each cell is up to date.
    asked : int64 array, shape (3,)
        The steps that ``gain`` and ``h`` are the coefficients of: graphlet, first step, end.
    gain, h, step_gain, step_h, weight : arrays, shapes (primes,), (rows, primes), (primes,), (rows, primes), (primes,)
        The gains are ``g - 1``. The last three are room for the coefficients of one step, and for an event's weight.
    """

    total: Table
    influx: Table
    alive: Table
    staged: Table
    joined: Ints
    now: Ints
    since: Ints
    asked: Ints
    gain: Table
    h: Table
    step_gain: Table
    step_h: Table
    weight: Table


@inlined
def _sync(
    cells: Cells, found: Coefficients, system: System, state: _State, node: int, entry: int, first: int, last: int
) -> None:
    """Brings the slots ``[first, last)`` of a repeating node up to date with graphlet ``entry``; -1: it is in none."""
    if entry < 0:
        return
    now = state.now[entry]
    accumulator, last_accumulator = cells.accumulator_start[node], cells.accumulator_start[node + 1]
    for r in range(first, last):
        base = cells.first[accumulator] + r
        since = state.since[base]
        if since == now:
            continue
        state.since[base] = now
        if entry != state.asked[0] or since != state.asked[1] or now != state.asked[2]:
            between(found, entry, since, now, system, state.gain, state.h)
            state.asked[0], state.asked[1], state.asked[2] = entry, since, now
        for other in range(accumulator + 1, last_accumulator):
            cell = cells.first[other] + r
            _grow(state.total, state.influx, cell, base, cells.row[other], system, state.gain, state.h)
        _grow_count(state.total, state.influx, base, system, state.gain)


@jit
def play(
    template: Template,
    tape: Tape,
    cells: Cells,
    weights: Weights,
    mask: Ints,
    reference: Ints,
    system: System,
    islands: Ints,
    out: Table,
) -> None:
    """Plays the tape of some islands; ``out``, shape (rows, primes), receives the accumulators of each query and slice.

    ``mask`` and ``reference`` have, as bits, the variables that each event is bound to and the families whose graphlets
    take it.
    """
    primes, rows = lanes(system), len(weights.start) - 1
    families, variants = len(template.family_bits), len(template.bit)
    state = _State(
        np.full((cells.count, primes), system.zero),
        np.full((cells.repeating, primes), system.zero),
        np.full((cells.slot_start[-1], primes), system.zero),
        np.full((max(tape.stages, 1) * cells.size, primes), system.zero),
        np.zeros(variants, dtype=np.int64),
        np.zeros(families + variants, dtype=np.int64),
        np.zeros(cells.repeating, dtype=np.int64),
        np.full(3, -1, dtype=np.int64),
        np.full(primes, system.one),
        np.full((rows, primes), system.zero),
        np.full(primes, system.one),
        np.full((rows, primes), system.zero),
        np.full(primes, system.zero),
    )
    most = 0
    for k in islands:
        most = max(most, tape.start[k + 1] - tape.start[k])
    found = room_for(most, families + variants, rows, len(system.halves) > 0, out)
    _play_islands(template, tape, cells, weights, mask, reference, system, islands, state, found, out)


@jit
def _play_islands(
    template: Template,
    tape: Tape,
    cells: Cells,
    weights: Weights,
    mask: Ints,
    reference: Ints,
    system: System,
    islands: Ints,
    state: _State,
    found: Coefficients,
    out: Table,
) -> None:
    """Plays islands; :func:`play` owns the arrays of ``state`` and ``found``, so that they can be borrowed here."""
    template, tape, cells, weights = borrowed(template), borrowed(tape), borrowed(cells), borrowed(weights)
    system, state, found, out = borrowed(system), borrowed(state), borrowed(found), borrowed(out)
    families, variants = len(template.family_bits), len(template.bit)
    joined, now = state.joined, state.now
    for island in islands:
        count_steps(tape, island, found)
        fill(tape, island, template, weights, mask, reference, system, state.step_h, found)
        now[:] = 0
        state.asked[0] = -1
        for v in range(variants):
            mode = tape.mode[island, v]
            joined[v] = template.family[v] if mode == SHARED else families + v if mode == OWN else -1
        for k in range(tape.start[island], tape.start[island + 1]):
            operation = tape.operation[k]
            code = operation[op.CODE]
            if code == op.ADVANCE:
                now[operation[op.GRAPHLET]] += 1
            elif code == op.SYNC:
                slot, graphlet = operation[op.SLOT], joined[template.variant[operation[op.FIRST_NODE]]]
                for node in range(operation[op.FIRST_NODE], operation[op.LAST_NODE]):
                    first, last = (slot, slot + 1) if slot >= 0 else (0, cells.slots[node])
                    _sync(cells, found, system, state, node, graphlet, first, last)
            elif code == op.BIND:
                _play_bind(template, cells, found, weights, mask, system, state, operation)
            elif code == op.VALUE:
                stage, event = operation[op.STAGE] * cells.size, operation[op.LOW]
                _bind(template, cells, weights, mask, system, state, operation[op.NODE], stage, (1, event, event + 1))
            elif code == op.APPLY:
                _apply(template, cells, system, state, operation[op.NODE], operation[op.STAGE] * cells.size)
            elif code == op.EACH:
                _play_each(template, cells, weights, mask, system, state, operation)
            elif code == op.JUMP:
                _play_jump(template, cells, weights, mask, reference, system, state, operation)
            elif code in (op.OPEN, op.CLOSE):
                _play_border(template, cells, system, state, operation, out)
            elif code == op.SPLIT:
                joined[operation[op.VARIANT]] = -1
            elif code == op.MERGE:
                variant, entered = operation[op.VARIANT], operation[op.JOINED]
                joined[variant] = entered
                state.since[cells.counted[variant, 0] : cells.counted[variant, 1]] = now[entered]
            elif code == op.REFRESH:
                link = operation[op.LINK]
                for entry in range(template.link_start[link], template.link_start[link + 1]):
                    _refresh(template, cells, system, state, template.link_node[entry])


@inlined
def _play_bind(
    template: Template,
    cells: Cells,
    found: Coefficients,
    weights: Weights,
    mask: Ints,
    system: System,
    state: _State,
    operation: Operations,
) -> None:
    """Lets the plain nodes of a variable take events, after the nodes next to them have been brought up to date."""
    variable, events = operation[op.VARIABLE], (operation[op.COUNT], operation[op.LOW], operation[op.HIGH])
    joined, variant = state.joined, template.variant
    for own in range(template.plain_start[variable], template.plain_start[variable + 1]):
        node = template.plain[own]
        for s in range(template.source_start[node], template.source_start[node + 1]):
            near = template.source[s]
            if near < template.repeating:
                _sync(cells, found, system, state, near, joined[variant[near]], 0, cells.slots[node])
        for s in range(template.target_start[node], template.target_start[node + 1]):
            near = template.target[s]
            _sync(cells, found, system, state, near, joined[variant[near]], 0, cells.slots[node])
        _bind(template, cells, weights, mask, system, state, node, 0, events)
        _apply(template, cells, system, state, node, 0)


@inlined
def _play_each(
    template: Template, cells: Cells, weights: Weights, mask: Ints, system: System, state: _State, operation: Operations
) -> None:
    """Lets a variant in no graphlet take events one by one."""
    v, count, low, high = operation[op.VARIANT], operation[op.COUNT], operation[op.LOW], operation[op.HIGH]
    weighs, bit, h = cells.weighed_start[v] < cells.weighed_start[v + 1], template.bit[v], state.step_h
    if count > 0 and not weighs:
        for _ in range(count):
            _take_each(cells, state.total, state.influx, v, 1, system, h, False)
        return
    for e in range(low, high if count > 0 else low + 1):
        if count > 0 and not (mask[e] >> bit) & 1:
            continue
        for row in range(len(h)):
            weigh(weights, row, mask, bit, e, e + 1 if count > 0 else high, h[row], system)
        _take_each(cells, state.total, state.influx, v, max(1, -count), system, h, weighs)


@inlined
def _play_jump(
    template: Template,
    cells: Cells,
    weights: Weights,
    mask: Ints,
    reference: Ints,
    system: System,
    state: _State,
    operation: Operations,
) -> None:
    """Lets a variant in no graphlet take several events at once, by their coefficients."""
    v, total, influx, gain, h = operation[op.VARIANT], state.total, state.influx, state.step_gain, state.step_h
    entry = len(template.family_bits) + v
    count = weigh_step(operation, entry, template, weights, mask, reference, system, h)
    for t in range(lanes(system)):
        gain[t] = less_one(system.power[count, t] if count > 0 else system.whole[1 - count, t], system.prime[t])
    for k in range(cells.weighed_start[v], cells.weighed_start[v + 1]):
        for cell in range(cells.weighed[k, 1], cells.weighed[k, 2]):
            _grow(total, influx, cell, cells.base[cell], cells.weighed[k, 0], system, gain, h)
    for cell in range(cells.counted[v, 0], cells.counted[v, 1]):
        _grow_count(total, influx, cell, system, gain)


@inlined
def _play_border(
    template: Template, cells: Cells, system: System, state: _State, operation: Operations, out: Table
) -> None:
    """Opens a slice, or closes it and writes its answer."""
    windows, slot, opens = operation[op.WINDOWS], operation[op.SLOT], operation[op.CODE] == op.OPEN
    for entry in range(template.member_start[windows], template.member_start[windows + 1]):
        query = template.member[entry]
        for own in range(template.own_start[query], template.own_start[query + 1]):
            node = template.own[own]
            if opens and node >= template.repeating:
                continue  # such nodes were left at zero when the slot's last slice closed
            for accumulator in range(cells.accumulators[query]):
                cell = cells.first[cells.accumulator_start[node] + accumulator] + slot
                if not opens:
                    row = cells.out_start[query] + operation[op.SLICE] * cells.accumulators[query] + accumulator
                    for t in range(lanes(system)):
                        if template.ends[node]:
                            out[row, t] = add(out[row, t], state.total[cell, t], system.prime[t])
                        state.total[cell, t] = system.zero
                if node < template.repeating:
                    begins = opens and accumulator == 0 and template.begins[node]
                    for t in range(lanes(system)):
                        state.influx[cell, t] = system.one if begins else system.zero
                    if accumulator == 0:
                        graphlet = state.joined[template.variant[node]]
                        state.since[cell] = state.now[graphlet] if graphlet >= 0 else 0
    state.alive[cells.slot_start[windows] + slot] = system.one if opens else system.zero


@inlined
def _bind(
    template: Template,
    cells: Cells,
    weights: Weights,
    mask: Ints,
    system: System,
    state: _State,
    node: int,
    stage: int,
    events: tuple[int, int, int],
) -> None:
    """Stages the value of events that enter a plain node, in all slots.

    ``events`` are their number, and the begin and the end of the range of events that they are among.
    """
    total, staged, weight = state.total, state.staged, state.weight
    count, low, high = events
    query, slots, primes = template.query[node], cells.slots[node], lanes(system)
    alive = cells.slot_start[template.window[query]]
    for accumulator in range(cells.accumulators[query]):
        row = cells.row[cells.accumulator_start[node] + accumulator]
        if row >= 0:
            weigh(weights, row, mask, template.variable[node], low, high, weight, system)
        begins = accumulator == 0 and template.begins[node]
        for r in range(slots):
            at = stage + accumulator * slots + r
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
                    gained = multiply(weight[t], staged[stage + r, t], system.prime[t], system.reciprocal[t])
                    staged[at, t] = add(staged[at, t], gained, system.prime[t])
    for r in range(slots):
        _multiply_by(staged, stage + r, count, system)


@inlined
def _multiply_by(values: Table, at: int, count: int, system: System) -> None:
    if count > 1:
        for t in range(lanes(system)):
            values[at, t] = multiply(values[at, t], system.whole[count, t], system.prime[t], system.reciprocal[t])


@inlined
def _apply(template: Template, cells: Cells, system: System, state: _State, node: int, stage: int) -> None:
    """Adds a staged value to the total of its plain node, and to the influx of the repeating nodes that it leads to."""
    total, influx, staged = state.total, state.influx, state.staged
    slots, primes = cells.slots[node], lanes(system)
    for accumulator in range(cells.accumulators[template.query[node]]):
        for r in range(slots):
            at = stage + accumulator * slots + r
            cell = cells.first[cells.accumulator_start[node] + accumulator] + r
            for t in range(primes):
                total[cell, t] = add(total[cell, t], staged[at, t], system.prime[t])
            for k in range(template.target_start[node], template.target_start[node + 1]):
                cell = cells.first[cells.accumulator_start[template.target[k]] + accumulator] + r
                for t in range(primes):
                    influx[cell, t] = add(influx[cell, t], staged[at, t], system.prime[t])


@jit
def _refresh(template: Template, cells: Cells, system: System, state: _State, node: int) -> None:
    """Computes the influx of a repeating node anew, from the totals of its sources."""
    total, influx, alive = state.total, state.influx, state.alive
    query = template.query[node]
    window = template.window[query]
    primes = lanes(system)
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
