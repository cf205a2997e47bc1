"""Lists the trends of a graph depth first, with one trend in memory, from any trend to any other.

The canonical order of trends is that of a depth-first search: earlier nodes first, and a trend before its extensions. A
search can begin at any trend, given as the list of its nodes (a *path*), and stop before any other, so the trends of a
window fall into parts that share nothing; :mod:`~cetdsl.kernels.graph.shares` finds where equal parts begin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cetdsl.kernels._jit import jit
from cetdsl.kernels.enumerate.blocks import (
    BINDINGS,
    BLOCK,
    DEPTH,
    NEED,
    OWN,
    ROOT,
    TRENDS,
    VISITS,
    WIDE,
    WINDOW,
    in_blocks,
    make_position,
    variable_bits,
    write_trend,
)
from cetdsl.kernels.graph.windows import Rules, Windows, is_end, is_root, stop_before, successors_stop
from cetdsl.kernels.machine.program import place_of
from cetdsl.kernels.vocabulary import Block, Bools, Graph, Index, Ints, Places, Shorts

#: Bytes of the search, per event of the longest trend.
FRAME_BYTES = 24
#: The records of successors are laid side by side unless there are more of them than so many times the nodes.
_MOST_BESIDE = 4

#: The entry of a position for the number of first nodes in which the path agrees with the trend to stop before.
_TIGHT = OWN


class Trace(NamedTuple):
    """A trend as its nodes, and the window that it lies in; without nodes: before all trends, or after all."""

    window: int
    nodes: Places


class _Stack(NamedTuple):
    """The path that the search stands on, and the successors ``cursor:stop`` of each node that are still to be tried.

    The cursor of the last node is the search's own while it is at work.
    """

    label: Ints
    cursor: Ints
    stop: Ints


#: The data that a walk reads of a node, side by side in memory: label, successors, and whether a trend ends there.
_RECORD = np.dtype([("label", "i8"), ("start", "i4"), ("stop", "i4"), ("reach_after", "i4"), ("ends", "i4")])


class Records(NamedTuple):
    """The data that a walk reads of the nodes of a graph.

    ``nodes`` has a record per node. If ``beside``, ``entries`` has a copy of the record for each entry of the graph's
    ``target``, in its order: so the records of a node's successors lie side by side, and are fetched together. Where
    that would take too much memory, ``entries`` is ``nodes``.
    """

    nodes: NDArray[Any]
    entries: NDArray[Any]
    beside: bool


def records_of(graph: Graph, variable: Ints | Shorts) -> Records:
    """Makes the records for walks; ``variable`` is the bit number of the variable that each state reads."""
    count, used = len(graph.event), int(graph.stop.max(initial=0))
    nodes = np.empty(count, dtype=_RECORD)
    nodes["label"] = graph.event | variable_bits(variable)[graph.state]
    for name in ("start", "stop", "reach_after", "ends"):
        nodes[name] = getattr(graph, name)
    if used > _MOST_BESIDE * count:
        return Records(nodes, nodes, beside=False)
    return Records(nodes, nodes[graph.target[:used]], beside=True)


class Walker:
    """Lists or counts the trends of windows depth first: the algorithm m-cet.

    ``variable`` is the bit number of the variable that each state reads. ``records`` returns what :func:`records_of`
    does, and is called only if trends are listed. The first of the windows has the number ``window``, and no trend is
    longer than ``longest``. The search goes from the trend ``begin`` to before the trend ``end``; by default it finds
    all.

    ``bytes_held`` is the memory of the search, without the graph and the block; ``steps`` counts the nodes visited so
    far, and the bindings written or counted.
    """

    def __init__(
        self,
        graph: Graph,
        variable: Ints | Shorts,
        records: Callable[[], Records],
        windows: Windows,
        rules: Rules,
        window: int = 0,
        longest: int | None = None,
        begin: Trace | None = None,
        end: Trace | None = None,
    ) -> None:
        nowhere = np.empty(0, dtype=np.int32)
        self._begin = begin or Trace(0, nowhere)
        self._end = end or Trace(len(windows.low), nowhere)
        self.graph = graph
        self.windows = windows
        self.rules = rules
        self.window = window
        self.steps = 0
        self._variable = np.asarray(variable, dtype=np.int16)
        self._records = records
        self._longest = int((windows.last - windows.first).max(initial=0)) if longest is None else longest
        self.bytes_held = FRAME_BYTES * self._longest

    def blocks(self, limit: int = -1, block: int = BLOCK) -> Iterator[Block]:
        """Yields the trends, in blocks of ``block`` bindings; a longer trend makes a block of its own."""
        if self._longest == 0:
            return
        graph, windows, records, at = self.graph, self.windows, self._records(), make_position(own=1)
        stack = _Stack(*(np.empty(self._longest + WIDE, dtype=np.int64) for _ in range(3)))
        _stand_before(graph, records.nodes, windows, self._begin, self._end, stack, at)

        def fill(out: Block) -> None:
            ground = (graph.target, graph.begins, graph.reach, graph.origin_before)
            _walk(*ground, *records, *windows, *self.rules, *self._end, *stack, at, out.start, out.event, out.slice)
            self.steps += int(at[VISITS] + at[BINDINGS])

        for found in in_blocks(fill, at, self._variable, limit, block):
            yield found._replace(slice=found.slice + self.window) if self.window else found

    def count(self) -> tuple[Ints, Ints]:
        """Counts the trends of each window and sums up their lengths, by a walk over all of them."""
        trends, refs, visits = _tally(self.graph, self.windows, self.rules, self._longest)
        self.steps += int(visits) + int(refs.sum())
        return trends, refs


@jit
def _stand_before(
    graph: Graph, nodes: NDArray[Any], windows: Windows, begin: Trace, end: Trace, stack: _Stack, at: Ints
) -> None:
    """Puts the search right before the trend ``begin``, so that this is the next one that it finds.

    All nodes of that trend but its last are put on the path, and the cursor of the path's end points to that last node.
    The entry ``_TIGHT`` of ``at`` becomes the number of nodes in which the path agrees with the trend ``end``.
    """
    at[:] = 0
    window = begin.window
    at[WINDOW] = window
    if len(begin.nodes) == 0:
        at[ROOT] = windows.first[window]
        return
    depth = len(begin.nodes) - 1
    at[DEPTH] = depth
    at[ROOT] = begin.nodes[0] + (1 if depth > 0 else 0)
    tight = 0
    if window == end.window:
        while tight < depth and begin.nodes[tight] == end.nodes[tight]:
            tight += 1
    at[_TIGHT] = tight
    for d in range(depth):
        v = np.int64(begin.nodes[d])
        stack.label[d] = nodes[v].label
        stop = successors_stop(graph.start, graph.stop, graph.target, v, windows.last[window])
        place = place_of(graph.target, graph.start[v], stop, begin.nodes[d + 1])
        stack.cursor[d] = place + (1 if d + 1 < depth else 0)
        stack.stop[d] = place_of(graph.target, graph.start[v], stop, end.nodes[d + 1]) if d < tight else stop


@jit
def _walk(
    target: Places,
    begins: Bools,
    reach: Places,
    origin_before: Places,
    nodes: NDArray[Any],
    entries: NDArray[Any],
    beside: bool,
    lows: Ints,
    highs: Ints,
    firsts: Ints,
    lasts: Ints,
    complete: bool,
    pruned: bool,
    end_window: int,
    end_nodes: Places,
    path_label: Ints,
    path_cursor: Ints,
    path_stop: Ints,
    at: Ints,
    out_start: Ints,
    out_event: Ints,
    out_slice: Ints,
) -> None:
    """Goes on from the position ``at`` until the block is full or the trend to stop before is reached.

    Parameters
    ----------
    target, begins, reach, origin_before : arrays
        Columns of the :class:`~cetdsl.kernels.vocabulary.Graph`, which the walk seldom reads.
    nodes, entries, beside
        Those of :class:`Records`, which the walk reads at every node.
    lows, highs, firsts, lasts : int64 arrays, shape (windows,)
        Those of :class:`Windows`.
    complete, pruned : bool
        Those of :class:`Rules`.
    end_window, end_nodes : int, int32 array
        The window of the trend to stop before, or the number of windows, and the nodes of that trend.
    path_label, path_cursor, path_stop : int64 arrays, shape (longest + WIDE,)
        Those of the stack: the labels of the path, and which entries of ``target`` are still to be tried.
    at : int64 array
        A position, see :mod:`~cetdsl.kernels.enumerate.blocks`: its root is the next node that may begin a trend, its
        own entry the number of nodes, ``tight``, that the path has in common with the trend to stop before.
    out_start, out_event, out_slice : int64 arrays
        The block to fill; ``out_event`` has room for ``WIDE`` more, and receives labels.
    """
    # This is one long loop, because each turn does so little that a call would cost much. Its arrays are arguments of
    # their own, because out of tuples Numba would fetch them again after each write, which takes twice as long.
    most, size = len(out_slice), len(out_event) - WIDE
    window, root, depth, tight = at[WINDOW], at[ROOT], at[DEPTH], at[_TIGHT]
    trends, bindings, visits, need = 0, 0, 0, np.int64(0)
    out_start[0] = 0
    cursor: Index = 0
    stop: Index = 0
    if depth > 0:
        cursor, stop = path_cursor[depth - 1], path_stop[depth - 1]
    while window < len(lows):
        # Written so far: all trends of earlier windows, and all from roots before ``root``, but for those that go on
        # from the path.
        low, high, last = lows[window], highs[window], lasts[window]
        bounded, inner = window == end_window, last < len(nodes)
        # While the whole path agrees with the trend to stop before (its first ``tight`` nodes do), only successors
        # before that trend's next node are tried; then the path goes on to that node, and ``tight`` grows.
        floor = tight if bounded else 0
        # This loop writes all trends that go on from the path's first ``floor`` nodes; if that is 0, from its root.
        # Written so far: the trends that the path begins with, and those that leave it to a successor before a cursor.
        while True:
            if cursor >= stop:
                if depth == floor:
                    break
                depth -= 1
                if depth == 0:
                    break
                cursor, stop = path_cursor[depth - 1], path_stop[depth - 1]
                continue
            if pruned and reach[target[cursor]] >= high:
                cursor += 1
                continue
            node = entries[cursor if beside else np.int64(target[cursor])]
            is_sink = node.reach_after >= high
            if is_sink if complete else node.ends:
                if trends == most or bindings + depth >= size:
                    need = depth + 1
                    break
                bindings = write_trend(
                    path_label, depth, node.label, window, out_start, out_event, out_slice, trends, bindings
                )
                trends += 1
            cursor += 1
            visits += 1
            if not is_sink:
                path_cursor[depth - 1] = cursor
                path_label[depth] = node.label
                cursor, stop = np.int64(node.start), np.int64(node.stop)
                if inner:
                    stop = stop_before(target, cursor, stop, last)
                path_stop[depth] = stop
                depth += 1
        if need > 0:
            break
        # Next comes a root before the trend to stop before, or else the next node of that trend.
        before = np.int64(end_nodes[0]) if bounded else last
        if depth == 0:
            while root < before and not is_root(begins, reach, origin_before, complete, root, low, high):
                root += 1
        forced = depth > 0 or root >= before
        if forced and not bounded:
            window += 1
            if window < len(lows):
                root = firsts[window]
            continue
        if forced and depth == len(end_nodes) - 1:
            break
        v = np.int64(end_nodes[depth]) if forced else root
        node = nodes[v]
        is_sink = node.reach_after >= high
        if is_sink if complete else node.ends:
            if trends == most or bindings + depth >= size:
                need = depth + 1
                break
            bindings = write_trend(
                path_label, depth, node.label, window, out_start, out_event, out_slice, trends, bindings
            )
            trends += 1
        visits += 1
        if depth == 0:
            root = v + 1
        if not is_sink:
            path_label[depth] = node.label
            cursor, stop = np.int64(node.start), np.int64(node.stop)
            if inner:
                stop = stop_before(target, cursor, stop, last)
            if forced:
                tight += 1
                stop = place_of(target, cursor, stop, end_nodes[tight])
            path_stop[depth] = stop
            depth += 1
    if depth > 0:
        path_cursor[depth - 1] = cursor
    at[WINDOW], at[ROOT], at[DEPTH], at[_TIGHT] = window, root, depth, tight
    at[TRENDS], at[BINDINGS], at[VISITS], at[NEED] = trends, bindings, visits, need


@jit
def _tally(graph: Graph, windows: Windows, rules: Rules, longest: int) -> tuple[Ints, Ints, int]:
    """Walks over all trends: returns how many each window has, the sum of their lengths, and the number of visits."""
    target, starts, stops, begins, ends = graph.target, graph.start, graph.stop, graph.begins, graph.ends
    reach, reach_after, origin_before = graph.reach, graph.reach_after, graph.origin_before
    count = len(windows.low)
    trends, refs = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    visits = 0
    path_cursor, path_stop = np.empty(longest + 1, dtype=np.int64), np.empty(longest + 1, dtype=np.int64)
    for window in range(count):
        low, high, last = windows.low[window], windows.high[window], windows.last[window]
        here, total = 0, 0
        for root in range(windows.first[window], last):
            if not is_root(begins, reach, origin_before, rules.complete, root, low, high):
                continue
            visits += 1
            if is_end(ends, reach_after, rules.complete, root, high):
                here += 1
                total += 1
            if reach_after[root] >= high:
                continue
            depth = 1
            cursor, stop = starts[root], successors_stop(starts, stops, target, root, last)
            while depth > 0:
                descends = np.int64(-1)
                while cursor < stop:
                    t = np.int64(target[cursor])
                    cursor += 1
                    if rules.pruned and reach[t] >= high:
                        continue
                    visits += 1
                    after = reach_after[t] < high
                    if not after if rules.complete else ends[t]:
                        here += 1
                        total += depth + 1
                    if after:
                        descends = t
                        break
                if descends >= 0:
                    path_cursor[depth], path_stop[depth] = cursor, stop
                    depth += 1
                    cursor, stop = starts[descends], successors_stop(starts, stops, target, descends, last)
                else:
                    depth -= 1
                    cursor, stop = path_cursor[depth], path_stop[depth]
        trends[window], refs[window] = here, total
    return trends, refs, visits
