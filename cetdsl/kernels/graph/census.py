"""What windows hold of a graph: how many events lie on their trends, and how many begin or end one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cetdsl.kernels._jit import jit
from cetdsl.kernels.graph.windows import Rules, Windows, is_end, is_root, rules_of, windows_of
from cetdsl.kernels.vocabulary import Graph, Ints


class Census(NamedTuple):
    """Numbers per window.

    Attributes
    ----------
    events : int64 array
        Events that some variable may bind.
    surviving : int64 array
        Those of them that lie on a trend.
    starts, ends : int64 array
        Vertices (an event may be several, one per variable) with which a trend begins or ends.
    """

    events: Ints
    surviving: Ints
    starts: Ints
    ends: Ints


def census(graph: Graph, low: Ints, high: Ints, complete: bool) -> Census:
    """Counts what the windows ``low:high`` of events hold.

    Examples
    --------
    Checks A->B, B->C, B->D, D->E: the first one begins all complete trends; the second one ends one, and so does the
    last one.

    >>> from cetdsl.kernels.graph.attribute_graph import NEVER
    >>> i, flags = np.arange(4), np.ones(4, dtype=bool)
    >>> before, after = np.array([-1, 0, 0, 2], dtype="i4"), np.array([1, NEVER, 3, NEVER], dtype="i4")
    >>> start, stop, target = np.array([0, 2, 2, 3]), np.array([2, 2, 3, 3]), np.array([1, 2, 3], dtype="i4")
    >>> here = i.astype("i4")
    >>> graph = Graph(i, here * 0, flags, flags, here, before, here, after, start, stop, target)
    >>> [int(column[0]) for column in census(graph, np.array([0]), np.array([4]), complete=True)]
    [4, 4, 1, 2]
    """
    return Census(high - low, *_count(graph, windows_of(graph, low, high), rules_of(graph, complete)))


@jit
def _count(graph: Graph, windows: Windows, rules: Rules) -> tuple[Ints, Ints, Ints]:
    begins, ends, origin, reach = graph.begins, graph.ends, graph.origin, graph.reach
    origin_before, reach_after, events = graph.origin_before, graph.reach_after, graph.event
    out = np.zeros((3, len(windows.low)), dtype=np.int64)
    for window in range(len(windows.low)):
        low, high = windows.low[window], windows.high[window]
        event = np.int64(-1)
        for v in range(windows.first[window], windows.last[window]):
            if origin[v] < low or reach[v] >= high:
                continue
            out[0, window] += events[v] != event
            event = events[v]
            out[1, window] += is_root(begins, reach, origin_before, rules.complete, v, low, high)
            out[2, window] += is_end(ends, reach_after, rules.complete, v, high)
    return out[0], out[1], out[2]
