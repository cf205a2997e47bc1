"""Common parts of the depth-first searches: their state, their current path, and how they fill blocks.

There are three searches: one goes along chains of useful events (:mod:`~cetdsl.kernels.enumerate.search`), one along
the edges of a graph (:mod:`cetdsl.kernels.graph.walk`), and one from partial trend to partial trend
(:mod:`cetdsl.kernels.complete.graphlets`). Each has a loop of its own, because one loop for two of them took 7 to 18 %
longer. They share these terms:

* A *label* is a binding in one integer: the event, and above its ``EVENT_BITS`` bits the number of the variable, or
  zero where all states read the same variable.
* The *path* is the row of bindings that the search has made so far, and goes on from: an array of their labels, with
  room for ``WIDE`` more.
* The *position* is an array that a search reads when it is called and writes when it returns, so that it can go on with
  another block. Its entries are named here; those that only one search needs begin at ``OWN``.
* While a block is being filled, its events are labels, with room for ``WIDE`` more after the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.vocabulary import Block, Index, Ints, Shorts

#: Bindings in a block of trends.
BLOCK = 131_072
#: Labels that are copied at a time: most trends have no more, and a loop of fixed length takes no branch.
WIDE = 8
#: Bits of the event in a label.
EVENT_BITS = 48

#: Entries of a position: the subslice or window that the search is in, the next candidate for a first binding, and the
#: number of bindings (or levels) on the path; the numbers of trends and bindings that the last call has written, and of
#: nodes that it has visited; and the length of the trend that had no room in the block (0: no trend is left).
WINDOW, ROOT, DEPTH, TRENDS, BINDINGS, VISITS, NEED, OWN = range(8)


def make_position(own: int = 0) -> Ints:
    """Returns a position before all trends of the first window, with ``own`` more entries for one search alone."""
    return np.zeros(OWN + own, dtype=np.int64)


def is_constant(variable: Ints | Shorts) -> bool:
    """Whether all states read the same variable; labels then need no variable, and blocks are made with it."""
    return bool((variable[1:] == variable[:1]).all())


def variable_bits(variable: Ints | Shorts) -> Ints:
    """Returns the bits above the event's in the labels of each state's bindings: those of its variable."""
    bits = np.asarray(variable, dtype=np.int64) << EVENT_BITS
    return np.zeros_like(bits) if is_constant(variable) else bits


@inlined
def copy_path(path: Ints, depth: Index, out_event: Ints, at: Index) -> None:
    """Copies the first ``depth`` labels of the path into a block; the entries of the block after them are undefined."""
    for d in range(0, depth, WIDE):
        for e in range(WIDE):
            out_event[at + d + e] = path[d + e]


@inlined
def write_trend(
    path: Ints,
    depth: Index,
    label: Index,
    window: int,
    out_start: Ints,
    out_event: Ints,
    out_slice: Ints,
    trend: int,
    at: Index,
) -> int:
    """Writes the path and one more binding into a block as a trend; returns the number of bindings in the block.

    Parameters
    ----------
    path : int64 array
        The labels of the path; the trend begins with the first ``depth`` of them (0 or more).
    depth, label : int
        The trend ends with ``label``, its binding number ``depth``.
    window : int
        The window, or the slice of the subslice, that the trend was found in.
    out_start, out_event, out_slice : int64 arrays
        Those of the block. They are arguments of their own, because Numba would fetch them out of a tuple again after
        each write.
    trend, at : int
        The numbers of trends and of bindings that the block holds already.
    """
    copy_path(path, depth, out_event, at)
    stop = int(at + depth + 1)
    out_event[stop - 1] = label
    out_slice[trend], out_start[trend + 1] = window, stop
    return stop


@jit
def _part_labels(event: Ints, bindings: int, variable: Shorts) -> None:
    """Splits labels in place: the events replace the labels, and the variables go to an array of their own."""
    for k in range(bindings):
        variable[k] = event[k] >> EVENT_BITS
        event[k] &= (1 << EVENT_BITS) - 1


def in_blocks(
    fill: Callable[[Block], None], position: Ints, variable: Ints | Shorts, limit: int = -1, size: int = BLOCK
) -> Iterator[Block]:
    """Yields the blocks, of ``size`` bindings each, that a search fills; a longer trend makes a block of its own.

    ``fill`` lets the search go on until a block is full, which shows in its ``position``. ``variable`` has the bit
    number of the variable that each state reads, and ``limit`` is the number of trends wanted; -1: all.
    """
    remaining, room = limit, size
    # If all states read the same variable, all blocks share this column.
    variables = np.full(room, max(variable, default=0), dtype=np.int16) if is_constant(variable) else None
    while remaining != 0:
        most = room if remaining < 0 else min(room, remaining)
        out = _make_block(most, room, variables)
        fill(out)
        trends, bindings, need = (int(position[entry]) for entry in (TRENDS, BINDINGS, NEED))
        if variables is None:
            _part_labels(out.event, bindings, out.variable)
        if trends:
            remaining -= trends if remaining > 0 else 0
            yield _filled(out, trends, bindings)
        if need == 0:
            return
        room = max(size, need)
        if variables is not None and len(variables) < room:
            variables = np.full(room, variables[0], dtype=np.int16)


def _make_block(trends: int, bindings: int, variables: Shorts | None) -> Block:
    """Makes room for a block, and for its variables unless they are given.

    All its arrays lie in one allocation. Smaller ones would be returned to the system, which clears every page before
    it is used again, and that may take longer than finding the trends.
    """
    sizes = np.cumsum([trends + 1, trends, bindings + WIDE, (bindings + 3) // 4 if variables is None else 0])
    start, window, event, rest, _ = np.split(np.empty(sizes[-1], dtype=np.int64), sizes)
    return Block(start, event, rest.view(np.int16) if variables is None else variables, window)


def _filled(out: Block, trends: int, bindings: int) -> Block:
    """Returns the filled part of a block; it is copied where that frees more memory than it takes."""
    found = Block(out.start[: trends + 1], out.event[:bindings], out.variable[:bindings], out.slice[:trends])
    if 2 * bindings > len(out.event):
        return found
    return Block(found.start.copy(), found.event.copy(), found.variable.copy(), found.slice.copy())
