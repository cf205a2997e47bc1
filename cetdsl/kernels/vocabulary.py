"""The words that all rooms of the kernels share: arrays by their type, events, slices of them, trends, and graphs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Places = NDArray[np.int32]
Shorts = NDArray[np.int16]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
#: A position, as Python or a kernel has it.
Index = int | np.int64


class Events(NamedTuple):
    """The events of one chunk, sorted by key and time.

    Attributes
    ----------
    segment_start : int64 array, shape (segments + 1,)
        Where each key begins; the last entry is the number of events.
    time : int64 array, shape (n,)
    instant : int64 array, shape (n,)
        Number of the event's instant, from 0, rising over the whole chunk.
    mask : int64 array, shape (n,)
        Bit v is set when the event may be bound to variable v.
    codes : int64 array, shape (columns, n)
        Values whose integer order is the order of the column.
    valid : bool array, shape (columns, n)
        Whether the value is not NULL.
    list_start, list_items : int64 arrays
        ``list_items[list_start[l, i]:list_start[l, i + 1]]`` are the events that may precede event ``i`` under list
        predicate ``l``, ascending.
    """

    segment_start: Ints
    time: Ints
    instant: Ints
    mask: Ints
    codes: Ints
    valid: NDArray[np.bool_]
    list_start: Ints
    list_items: Ints


class Slices(NamedTuple):
    """Slices of a chunk and the windows that they answer.

    Several windows that hold the same events share one slice, which is evaluated once.

    Attributes
    ----------
    low, high : int64 arrays, shape (slices,)
    segment : int64 array, shape (windows,)
    start : int64 array, shape (windows,)
        Start of each window, in the time column's unit.
    slice : int64 array, shape (windows,)
        The slice that answers each window.
    keep_from : int
        The first event that is still needed; the events before it are done with.
    resume : int
        The first window number of the last segment that was not answered.
    """

    low: Ints
    high: Ints
    segment: Ints
    start: Ints
    slice: Ints
    keep_from: int
    resume: int


class Block(NamedTuple):
    """A batch of trends.

    Attributes
    ----------
    start : int64 array, shape (trends + 1,)
        Where each trend's bindings begin; the last entry is their number.
    event : int64 array
        Chunk index of the event of each binding, in time order within a trend.
    variable : int16 array
        Bit number of the variable of each binding.
    slice : int64 array, shape (trends,)
        The slice that each trend was found in.
    """

    start: Ints
    event: Ints
    variable: Shorts
    slice: Ints


class Graph(NamedTuple):
    """Nodes with their successors, ``target[start[v]:stop[v]]``, rising.

    Nodes may share stretches of ``target``. The other fields are those of an attribute graph.
    """

    event: Ints
    state: Places
    begins: Bools
    ends: Bools
    origin: Places
    origin_before: Places
    reach: Places
    reach_after: Places
    start: Ints
    stop: Ints
    target: Places
