"""The coefficients of graphlets: the effect of events on the total of any column that takes them.

After some events a column's total is ``total + (g - 1) * x + h * x0`` (:mod:`~cetdsl.kernels.shared.snapshots`). The
coefficients of consecutive events combine to ``(g1 * g2, g1 * h2 + h1 * g2)``. A *step* is what one operation of the
tape lets a graphlet take. The coefficients of a range of steps are needed wherever a column is brought up to date:
modulo a prime they are quotients of prefixes; rounded numbers, which cannot be divided without loss, are combined in a
tree.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from cetdsl.kernels._jit import jit
from cetdsl.kernels.numbers.arithmetic import by_types
from cetdsl.kernels.numbers.copying import copy, copy_rows
from cetdsl.kernels.numbers.linear import System, Weights, add, lanes, less_one, multiply, weigh
from cetdsl.kernels.shared import operations as op
from cetdsl.kernels.shared.operations import Operations, Tape
from cetdsl.kernels.shared.template import Template
from cetdsl.kernels.vocabulary import Ints

Table = NDArray[Any]


class Coefficients(NamedTuple):
    """The coefficients of an island's graphlets.

    The entries of a graphlet begin at ``start``. Modulo primes, entry ``p`` holds ``g``, ``1 / g`` (``shrink``) and
    ``h / g`` of the graphlet's first ``p`` steps. For rounded numbers, the entries are a tree over its ``size`` steps:
    entry ``size + p`` is step ``p``, and entry ``e`` combines ``2 * e`` and ``2 * e + 1``. To combine entries takes
    longer than to look up what was combined before, for another column. So, for rounded numbers, entry
    ``start // 2 + p`` of ``past_gain`` and ``past_h`` holds ``g - 1`` and ``h`` of the steps ``p`` to ``until - 1``, as
    they were asked for last (``until`` is -1 if they were not).
    """

    start: Ints
    size: Ints
    g: Table
    shrink: Table
    h: Table
    until: Ints
    past_gain: Table
    past_h: Table


@jit
def room_for(operations: int, graphlets: int, rows: int, modular: bool, out: Table) -> Coefficients:
    """Makes room for the coefficients of ``operations`` operations, in numbers like those of ``out``."""
    entries, primes = 2 * operations + 2 * graphlets, out.shape[1]
    past = 0 if modular else operations + graphlets
    return Coefficients(
        np.zeros(graphlets, dtype=np.int64),
        np.zeros(graphlets, dtype=np.int64),
        np.empty((entries, primes), dtype=out.dtype),
        np.empty((entries if modular else 0, primes), dtype=out.dtype),
        np.empty((entries, rows, primes), dtype=out.dtype),
        np.empty(past, dtype=np.int64),
        np.empty((past, primes), dtype=out.dtype),
        np.empty((past, rows, primes), dtype=out.dtype),
    )


@jit
def weigh_step(
    operation: Operations,
    entry: int,
    template: Template,
    weights: Weights,
    mask: Ints,
    reference: Ints,
    system: System,
    h: Table,
) -> int:
    """Writes ``h`` of the events of an operation, and returns their number ``n``, negative if they are simultaneous.

    So ``g`` is ``2**n`` for ``n > 0``, and ``1 - n`` otherwise.
    """
    n, low, high = operation[op.COUNT], operation[op.LOW], operation[op.HIGH]
    families = len(template.family_bits)
    for row in range(len(weights.start) - 1):
        if entry < families and template.family_start[entry + 1] > template.family_start[entry] + 1:
            weigh(weights, row, reference, entry, low, high, h[row], system)
        else:
            v = entry - families if entry >= families else template.family_start[entry]
            weigh(weights, row, mask, template.bit[v], low, high, h[row], system)
        if n > 1:
            for t in range(lanes(system)):
                h[row, t] = multiply(h[row, t], system.power[n - 1, t], system.prime[t], system.reciprocal[t])
    return int(n)


@jit
def count_steps(tape: Tape, island: int, found: Coefficients) -> None:
    """Counts the steps of each graphlet on an island, and sets where its entries begin."""
    found.size[:] = 0
    for k in range(tape.start[island], tape.start[island + 1]):
        if tape.operation[k, op.CODE] == op.ADVANCE:
            found.size[tape.operation[k, op.GRAPHLET]] += 1
    at = 0
    for entry in range(len(found.size)):
        found.start[entry] = at
        at += 2 * found.size[entry] + 2


@jit
def fill(
    tape: Tape,
    island: int,
    template: Template,
    weights: Weights,
    mask: Ints,
    reference: Ints,
    system: System,
    h: Table,
    found: Coefficients,
) -> None:
    """Computes the coefficients of an island's graphlets; ``h`` is room for those of one step."""
    primes, rows, modular = len(system.prime), h.shape[0], len(system.halves) > 0
    done = np.zeros(len(found.size), dtype=np.int64)
    if modular:
        for start in found.start:
            found.g[start], found.shrink[start], found.h[start] = system.one, system.one, system.zero
    for k in range(tape.start[island], tape.start[island + 1]):
        operation = tape.operation[k]
        if operation[op.CODE] != op.ADVANCE:
            continue
        entry = operation[op.GRAPHLET]
        at = found.start[entry] + done[entry]
        done[entry] += 1
        n = weigh_step(operation, entry, template, weights, mask, reference, system, h)
        if not modular:
            at += found.size[entry]
            found.g[at, 0] = system.power[n, 0] if n > 0 else system.whole[1 - n, 0]
            copy(found.h[at, :, 0], h[:, 0])
            continue
        for t in range(primes):
            prime, reciprocal = system.prime[t], system.reciprocal[t]
            grown = system.power[n, t] if n > 0 else system.whole[1 - n, t]
            shrunk = system.halves[n, t] if n > 0 else system.inverse[1 - n, t]
            found.g[at + 1, t] = multiply(found.g[at, t], grown, prime, reciprocal)
            found.shrink[at + 1, t] = multiply(found.shrink[at, t], shrunk, prime, reciprocal)
        for row in range(rows):
            for t in range(primes):
                prime, reciprocal = system.prime[t], system.reciprocal[t]
                shrunk = system.halves[n, t] if n > 0 else system.inverse[1 - n, t]
                drift = multiply(h[row, t], shrunk, prime, reciprocal)
                found.h[at + 1, row, t] = add(found.h[at, row, t], drift, prime)
    if not modular:
        _fill_trees(system, found)


@jit
def _fill_trees(system: System, found: Coefficients) -> None:
    """Fills in the inner entries of the trees, which combine those of the steps."""
    for entry in range(len(found.size)):
        for p in range(found.size[entry] + 1):
            found.until[found.start[entry] // 2 + p] = -1
        for e in range(found.size[entry] - 1, 0, -1):
            at, left = found.start[entry] + e, found.start[entry] + 2 * e
            copy(found.g[at], found.g[left])
            copy_rows(found.h[at], found.h[left])
            _combine(found, left + 1, system, found.g[at], found.h[at])


# Each number system has an implementation of its own, and not one with a branch, so that each is small enough for LLVM
# to inline. Otherwise playing a tape of rounded numbers takes 1.1 to 2.8 times as long.
@by_types
def between(found: Any, entry: Any, since: Any, now: Any, system: Any, gain: Any, h: Any) -> Any:
    """Writes ``gain``, which is ``g - 1``, and ``h`` of a graphlet's steps ``since <= p < now``."""

    def quotient(found: Any, entry: Any, since: Any, now: Any, system: Any, gain: Any, h: Any) -> Any:
        before, after = found.start[entry] + since, found.start[entry] + now
        for t in range(len(gain)):
            prime, reciprocal = system.prime[t], system.reciprocal[t]
            g = multiply(found.g[after, t], found.shrink[before, t], prime, reciprocal)
            for row in range(h.shape[0]):
                drift = add(found.h[after, row, t], prime - found.h[before, row, t], prime)
                h[row, t] = multiply(g, drift, prime, reciprocal)
            gain[t] = less_one(g, prime)

    def walk(found: Any, entry: Any, since: Any, now: Any, system: Any, gain: Any, h: Any) -> Any:
        start = found.start[entry]
        past = start // 2 + since
        if found.until[past] == now:
            copy(gain, found.past_gain[past])
            copy_rows(h, found.past_h[past])
            return
        gain[0] = system.one
        h[:] = system.zero
        low, high = since + found.size[entry], now + found.size[entry]
        while low < high:
            if low & 1:
                _combine(found, start + low, system, gain, h)
                low += 1
            if high & 1:
                high -= 1
                _combine(found, start + high, system, gain, h)
            low >>= 1
            high >>= 1
        gain[0] = less_one(gain[0], system.prime[0])
        found.until[past] = now
        copy(found.past_gain[past], gain)
        copy_rows(found.past_h[past], h)

    return quotient if isinstance(system.types[0], types.Integer) else walk


@jit
def _combine(found: Coefficients, at: int, system: System, g: Table, h: Table) -> None:
    """Combines ``g`` and ``h`` with those of an entry; the order does not matter, as combining commutes."""
    prime = system.prime[0]
    for row in range(h.shape[0]):
        grown = multiply(h[row, 0], found.g[at, 0], prime, 0.0)
        h[row, 0] = add(multiply(g[0], found.h[at, row, 0], prime, 0.0), grown, prime)
    g[0] = multiply(g[0], found.g[at, 0], prime, 0.0)
