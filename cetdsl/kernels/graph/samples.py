"""Uniform samples of trends, drawn without listing any others.

Give every trend a key of its own, all keys independent and exponentially distributed with mean 1. Then any n trends are
as likely as any other n to have the n smallest keys, whatever parts the answer falls into: windows, tasks, partitions.
So each part keeps the n smallest of its keys, and the n smallest of those kept are a uniform sample of the whole answer
without replacement (reservoir sampling with keys, "A-ES" of Efraimidis and Spirakis 2006, with equal weights).

The keys of N trends are not drawn one by one. The i-th smallest of N such keys is

    E(i) = X(1) / N + X(2) / (N - 1) + ... + X(i) / (N - i + 1)

with independent exponential X (Rényi 1953: beyond the smallest key, the others are distributed as if anew). The trend
that has this key is uniform among those not drawn before, and independent of the keys. So each window yields its
smallest keys one after the other, as many as are asked for, and draws a random trend for each. The keys are kept as
logarithms, because N may be far beyond the range of doubles.

If there are fewer than 2**61 trends, a random trend is the one at a random rank in the canonical order: the exact
number of trends that go on from each node leads down to it. If there are more, a random walk goes on to each successor
with a probability proportional to its number of trends, rounded to about 1e-16 of its size. A trend that has been drawn
before is drawn again.

All randomness comes from a counter that is hashed (SplitMix64, Steele et al. 2014) with the seed and a *salt*, a number
of the window's own. So a window has the same keys and trends wherever and with whatever else it is computed.
"""

from __future__ import annotations

import heapq
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.enumerate.batches import join_blocks
from cetdsl.kernels.graph.blocks import add_path
from cetdsl.kernels.graph.counts import (
    Accumulators,
    Worth,
    fill_worth,
    in_units,
    make_worth,
    rounding,
    scaled_counts,
    shared_targets,
)
from cetdsl.kernels.graph.windows import END, ROOT, Roles, Windows, take_windows, widest, windows_of
from cetdsl.kernels.numbers.mixing import Words, mixed
from cetdsl.kernels.numbers.scaled import Scaled, from_scaled, log2_of
from cetdsl.kernels.vocabulary import Block, Floats, Graph, Ints

#: Windows with fewer trends draw ranks. Counts are rounded, but those below this are certainly below 2**62.
_MOST_RANKS = 2.0**61
#: Marks a free slot of a hash table; no rank is as large.
_NOTHING = np.uint64(2**64 - 1)
#: The increment of the counter: 2**64 divided by the golden ratio.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_ZERO, _ONE = np.uint64(0), np.uint64(1)
#: Counts in whole numbers: residues of so large a "prime" are the numbers themselves.
_WHOLE = Accumulators(np.ones((1, 1), np.uint64), False, np.array([2**63], dtype=np.uint64))


class Samples(NamedTuple):
    """Trends drawn at random, with the logarithm of each one's ``key``.

    In the ``block`` the trends of a slice are neighbours, by rising key. Of several samples taken together, the trends
    with the n smallest keys are a sample of n.
    """

    key: Floats
    block: Block


def sample_paths(
    graph: Graph, variable: Ints, low: Ints, high: Ints, complete: bool, n: int, seed: int, salt: Ints
) -> Samples:
    """Draws n of the trends of all slices, or all if there are fewer, uniformly and without replacement.

    The graph, the slices and ``complete`` are as for :func:`~cetdsl.kernels.graph.counts.count_trends`, and
    ``variable`` is the bit number of the variable that each state reads. ``salt`` is a number of each slice's own, the
    same wherever the slice is computed.

    Examples
    --------
    The complete trends of the checks A->B, B->C, B->D, D->E:

    >>> slices = np.array([0]), np.array([4])
    >>> drawn = sample_paths(graph_of_checks, np.array([0]), *slices, complete=True, n=5, seed=1, salt=np.array([7]))
    >>> sorted(part.tolist() for part in np.split(drawn.block.event, drawn.block.start[1:-1]))
    [[0, 1], [0, 2, 3]]
    """
    windows = windows_of(graph, low, high)
    scaled = scaled_counts(graph, windows, complete)[:, 0]
    # The value with which the counter of each slice begins.
    states = mixed(mixed(salt.astype(np.uint64)) ^ mixed(np.array([seed % 2**64], dtype=np.uint64)))
    size = from_scaled(scaled)
    owner, key = _smallest_keys(log2_of(scaled) * math.log(2.0), size, states, int(min(n, size.sum())))
    # A slice's first trend gets its smallest key, and so on.
    order = np.lexsort((key, owner))
    owner, key = owner[order], key[order]
    ranked = size[owner] < _MOST_RANKS
    keys, blocks = [], []
    for rows, draw, counted in ((ranked, _draw_ranks, _WHOLE), (~ranked, _draw_walks, rounding(np.complex128, False))):
        if rows.any():
            chosen, wanted = np.unique(owner[rows], return_counts=True)
            own, counters = take_windows(windows, chosen), mixed(states[chosen] + _GOLDEN)
            start, node = draw(graph, own, complete, wanted, counters, counted)
            bound = variable[graph.state[node]].astype(np.int16)
            keys.append(key[rows])
            blocks.append(Block(start, graph.event[node], bound, owner[rows]))
    return Samples(np.concatenate([key[:0], *keys]), join_blocks(blocks))


@inlined
def _uniform(word: np.uint64) -> float:
    """Makes a number strictly between 0 and 1 from 52 bits of a word."""
    return (float(word >> np.uint64(12)) + 0.5) * 2.0**-52


@jit
def _next_key(before: float, drawn: int, size: float, log_size: float, word: np.uint64) -> float:
    """Returns the logarithm of the next key of a window.

    The window's ``drawn`` smaller keys have been drawn, the last of which has the logarithm ``before``.
    """
    gap = math.log(-math.log(_uniform(word))) - (math.log(size - drawn) if size < math.inf else log_size)
    if before == -math.inf:
        return gap
    larger, smaller = max(before, gap), min(before, gap)
    return larger + math.log1p(math.exp(smaller - larger))


@jit
def _smallest_keys(log_size: Floats, size: Floats, state: Words, n: int) -> tuple[Ints, Floats]:
    """Draws the n smallest keys of all slices together; returns the slice of each, and the keys, rising."""
    drawn, counter = np.zeros(len(size), dtype=np.int64), state.copy()
    heap = [(math.inf, -1)]
    for window in range(len(size)):
        if size[window] > 0:
            counter[window] += _GOLDEN
            heap.append((_next_key(-math.inf, 0, size[window], log_size[window], mixed(counter[window])), window))
    heapq.heapify(heap)
    owner, key = np.empty(n, dtype=np.int64), np.empty(n)
    for k in range(n):
        smallest, window = heap[0]
        owner[k], key[k] = window, smallest
        drawn[window] += 1
        counter[window] += _GOLDEN
        word, following = mixed(counter[window]), math.inf
        if drawn[window] < size[window]:
            following = _next_key(smallest, drawn[window], size[window], log_size[window], word)
        heapq.heapreplace(heap, (following, window))
    return owner, key


@jit
def _no_names(count: int) -> Words:
    """Makes an empty hash table for ``count`` names, the numbers that identify trends: ranks, or hashes of paths."""
    slots = 4
    while slots < 2 * count:
        slots *= 2
    return np.full(slots, _NOTHING)


@inlined
def _is_new(names: Words, name: np.uint64) -> bool:
    """Puts a name into a hash table, and returns whether it was not there."""
    mask = np.uint64(len(names) - 1)
    slot = mixed(name) & mask
    while names[slot] != _NOTHING:
        if names[slot] == name:
            return False
        slot = (slot + _ONE) & mask
    names[slot] = name
    return True


@jit
def _room(
    graph: Graph, windows: Windows, wanted: Ints, accumulators: Accumulators
) -> tuple[Worth, NDArray[Any], Ints, Ints, Ints]:
    """Makes room to draw in: the worth of a window's nodes, its running total, a path, and the trends drawn so far."""
    worth, room = make_worth(windows, accumulators, shared_targets(graph)), widest(windows)
    until, path = np.empty(room, accumulators.primes.dtype), np.empty(room, np.int64)
    return worth, until, path, np.zeros(wanted.sum() + 1, dtype=np.int64), np.empty(0, dtype=np.int64)


@jit
def _descend(graph: Graph, first: int, role: Roles, value: Words, rank: np.uint64, path: Ints) -> int:
    """Writes the path of a rank among those that begin with the node ``path[0]``, and returns its length."""
    start, target = graph.start, graph.target
    depth = 1
    while True:
        v = path[depth - 1]
        if role[v - first] & END:
            if rank == _ZERO:
                return depth
            rank -= _ONE
        k = start[v]
        while rank >= value[target[k] - first, 0]:
            rank -= value[target[k] - first, 0]
            k += 1
        path[depth] = target[k]
        depth += 1


@jit
def _draw_ranks(
    graph: Graph, windows: Windows, complete: bool, wanted: Ints, state: Words, accumulators: Accumulators
) -> tuple[Ints, Ints]:
    """Draws different trends of each window, as many as are wanted, by their ranks in the canonical order.

    ``state`` is the value with which the counter of each window begins, and the accumulators count trends in whole
    numbers. Returns where each trend's nodes begin, and the nodes.
    """
    worth, until, path, start, node = _room(graph, windows, wanted, accumulators)
    role, value, trend = worth.role, worth.value, 0
    for window in range(len(wanted)):
        first, last, counter = windows.first[window], windows.last[window], state[window]
        fill_worth(graph, windows, window, complete, accumulators, worth)
        total = _ZERO
        for row in range(last - first):
            total += value[row, 0] if role[row] & ROOT else _ZERO
            until[row] = total
        mask = total - _ONE
        for shift in (1, 2, 4, 8, 16, 32):
            mask |= mask >> np.uint64(shift)
        names, stop = _no_names(wanted[window]), trend + wanted[window]
        while trend < stop:
            counter += _GOLDEN
            rank = mixed(counter) & mask
            if rank >= total or not _is_new(names, rank):
                continue
            row = int(np.searchsorted(until[: last - first], rank, side="right"))
            path[0] = first + row
            depth = _descend(graph, first, role, value, rank - (until[row] - value[row, 0]), path)
            node = add_path(start, node, trend, path, depth)
            trend += 1
    return start, node[: start[trend]].copy()


@jit
def _wander(
    graph: Graph, first: int, last: int, role: Roles, value: Scaled, counter: np.uint64, path: Ints
) -> tuple[int, np.uint64]:
    """Draws a random path that begins with the node ``path[0]``; returns its length, and the counter."""
    start, stop, target = graph.start, graph.stop, graph.target
    depth = 1
    while True:
        v = path[depth - 1]
        worth, following = value[v - first, 0], -1
        counter += _GOLDEN
        left = _uniform(mixed(counter)) * worth.real
        if role[v - first] & END:
            left -= in_units(complex(1.0, 0.0), worth.imag)
        if left >= 0.0 or not role[v - first] & END:
            for k in range(start[v], stop[v]):
                if target[k] >= last:
                    break
                if value[target[k] - first, 0].real > 0.0:
                    following = int(target[k])
                    left -= in_units(value[target[k] - first, 0], worth.imag)
                    if left < 0.0:
                        break
        if following < 0:
            return depth, counter
        path[depth] = following
        depth += 1


@jit
def _name(path: Ints, depth: int) -> np.uint64:
    """Hashes a path; another path has the same hash with a probability of 2**-64."""
    word = _ZERO
    for d in range(depth):
        word = mixed((word + _GOLDEN) ^ np.uint64(path[d]))
    return word if word != _NOTHING else _ZERO


@jit
def _draw_walks(
    graph: Graph, windows: Windows, complete: bool, wanted: Ints, state: Words, accumulators: Accumulators
) -> tuple[Ints, Ints]:
    """Does what :func:`_draw_ranks` does, by random walks: for any number of trends, counted in scaled numbers."""
    worth, until, path, start, node = _room(graph, windows, wanted, accumulators)
    role, value, trend = worth.role, worth.value, 0
    for window in range(len(wanted)):
        first, last, counter = windows.first[window], windows.last[window], state[window]
        fill_worth(graph, windows, window, complete, accumulators, worth)
        exponent, total, final = -math.inf, 0.0, 0
        for row in range(last - first):
            if role[row] & ROOT:
                exponent = max(exponent, value[row, 0].imag)
        for row in range(last - first):
            if role[row] & ROOT:
                total += in_units(value[row, 0], exponent)
                final = row
            until[row] = total
        names, stop = _no_names(wanted[window]), trend + wanted[window]
        while trend < stop:
            counter += _GOLDEN
            aim = _uniform(mixed(counter)) * total
            path[0] = first + min(np.searchsorted(until[: last - first], aim, side="right"), final)
            depth, counter = _wander(graph, first, last, role, value, counter, path)
            if _is_new(names, _name(path, depth)):
                node = add_path(start, node, trend, path, depth)
                trend += 1
    return start, node[: start[trend]].copy()
