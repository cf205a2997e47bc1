"""Windows as parts of a graph: their nodes, and where the trends of a window begin and end."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.machine.program import place_of
from cetdsl.kernels.vocabulary import Bools, Graph, Index, Ints, Places

Roles = NDArray[np.uint8]

#: The *role* of a node for the trends of a window, as bits: it is on one of them, the last node of one, or the first
#: node (*root*) of one.
SEEN, END, ROOT = 1, 2, 4


class Windows(NamedTuple):
    """Windows as parts of a graph: each holds the events ``low:high`` and the nodes ``first:last``."""

    low: Ints
    high: Ints
    first: Ints
    last: Ints


class Rules(NamedTuple):
    """Rules for how paths begin and end.

    ``complete`` trends go from sources to sinks, which have no predecessor or no successor in the window; other trends
    go from any node that may begin one to any that may end one. In a ``pruned`` graph a trend may not end with every
    node, so a window may hold a successor from which no trend ends in it.
    """

    complete: bool
    pruned: bool


def windows_of(graph: Graph, low: Ints, high: Ints) -> Windows:
    """Returns the windows of a graph that hold given stretches of events."""
    low, high = np.asarray(low, dtype=np.int64), np.asarray(high, dtype=np.int64)
    return Windows(low, high, np.searchsorted(graph.event, low), np.searchsorted(graph.event, high))


def take_windows(windows: Windows, rows: Ints) -> Windows:
    """Returns some of the windows."""
    return Windows(*(column[rows] for column in windows))


@jit
def widest(windows: Windows) -> int:
    """The number of nodes of the widest window."""
    found = 0
    for window in range(len(windows.low)):
        found = max(found, windows.last[window] - windows.first[window])
    return found


def rules_of(graph: Graph, complete: bool) -> Rules:
    """Returns how the paths of a graph begin and end."""
    return Rules(complete, not bool(graph.ends.all()))


@inlined
def is_root(begins: Bools, reach: Places, origin_before: Places, complete: bool, v: Index, low: int, high: int) -> bool:
    """Whether a trend of the window ``low:high`` begins at the node ``v``, which lies in it."""
    return bool(begins[v] and reach[v] < high and (not complete or origin_before[v] < low))


@inlined
def is_end(ends: Bools, reach_after: Places, complete: bool, v: Index, high: int) -> bool:
    """Whether a trend of a window, after which the event ``high`` comes, ends at the node ``v``, which lies on one."""
    if complete:
        return bool(reach_after[v] >= high)
    return bool(ends[v])


@inlined
def stop_before(target: Places, start: Index, stop: Index, last: Index) -> Index:
    """Returns where, in a stretch of successors, the entries that lie before the node ``last`` end."""
    if stop == start or target[stop - 1] < last:
        return stop
    return place_of(target, start, stop, last)


@inlined
def successors_stop(starts: Ints, stops: Ints, target: Places, v: Index, last: Index) -> Index:
    """Returns where the successors of a node that lie before the node ``last`` end."""
    return stop_before(target, starts[v], stops[v], last)


@jit
def fill_roles(graph: Graph, windows: Windows, window: int, complete: bool, role: Roles) -> None:
    """Fills in the role of each node of a window; ``complete`` trends go from sources to sinks."""
    begins, ends, origin, reach = graph.begins, graph.ends, graph.origin, graph.reach
    before, after = graph.origin_before, graph.reach_after
    low, high, first = windows.low[window], windows.high[window], windows.first[window]
    for v in range(first, windows.last[window]):
        role[v - first] = 0
        if origin[v] >= low and reach[v] < high:
            ending = is_end(ends, after, complete, v, high)
            rooted = is_root(begins, reach, before, complete, v, low, high)
            role[v - first] = SEEN | (END if ending else 0) | (ROOT if rooted else 0)
