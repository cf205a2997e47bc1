"""Counts the events of a graph by window: those that lie on trends, and those that begin or end one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cetdsl.kernels._jit import jit
from cetdsl.kernels.graph.windows import END, ROOT, SEEN, Windows, fill_roles, widest, windows_of
from cetdsl.kernels.vocabulary import Graph, Ints


class Census(NamedTuple):
    """Numbers per window.

    ``events`` counts the events that some variable may bind, ``surviving`` those of them that lie on a trend.
    ``starts`` and ``ends`` count the vertices (an event in a state, so an event may be several) with which a trend
    begins or ends.
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

    >>> [int(column[0]) for column in census(graph_of_checks, np.array([0]), np.array([4]), complete=True)]
    [4, 4, 1, 2]
    """
    return Census(high - low, *_count(graph, windows_of(graph, low, high), complete))


@jit
def _count(graph: Graph, windows: Windows, complete: bool) -> tuple[Ints, Ints, Ints]:
    """Counts the events that lie on trends of each window, and the vertices that begin and end some."""
    events, role = graph.event, np.empty(widest(windows), dtype=np.uint8)
    out = np.zeros((3, len(windows.low)), dtype=np.int64)
    for window in range(len(windows.low)):
        fill_roles(graph, windows, window, complete, role)
        event, first = np.int64(-1), windows.first[window]
        for v in range(first, windows.last[window]):
            if role[v - first] & SEEN:
                out[0, window] += events[v] != event
                event = events[v]
                out[1, window] += role[v - first] & ROOT > 0
                out[2, window] += role[v - first] & END > 0
    return out[0], out[1], out[2]
