"""The words that all packages of kernels share: arrays by their type, events, slices of them, trends, and graphs."""

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
    """The ``n`` events of one chunk, sorted by key and time.

    The events of a key, or of a key and time bucket, are a *segment*. Events of a segment with the same time, and the
    same values of tie-break columns if there are any, are an *instant*.
    """

    #: Where each segment begins, shape (segments + 1,); the last entry is the number of events.
    segment_start: Ints
    time: Ints
    #: Number of the event's instant, from 0, rising over the whole chunk.
    instant: Ints
    #: Bit v is set when the event may be bound to variable v.
    mask: Ints
    #: Values whose integer order is the order of the column, shape (columns, n), and whether each is not NULL.
    codes: Ints
    valid: Bools
    #: ``list_items[list_start[l, i]:list_start[l, i + 1]]`` are the events that may precede event ``i`` under list
    #: predicate ``l``, ascending.
    list_start: Ints
    list_items: Ints


class Slices(NamedTuple):
    """Slices of a chunk and the windows that they answer.

    A *slice* is a range of a segment's events. Windows that hold the same events share one slice, which is evaluated
    once.
    """

    #: The first event of each slice and the one after its last, shape (slices,).
    low: Ints
    high: Ints
    #: The segment of each window, its start in the time column's unit, and the slice that answers it; shape (windows,).
    segment: Ints
    start: Ints
    slice: Ints
    #: The first event that the next chunk still needs.
    keep_from: int
    #: The number of the last segment's first window that has not been answered.
    resume: int


class Block(NamedTuple):
    """A batch of trends; a *binding* is an event of a trend with the variable that it is bound to."""

    #: Where each trend's bindings begin, shape (trends + 1,); the last entry is their number.
    start: Ints
    #: The event of each binding, as its index in the chunk, in order of time within a trend; and the variable's number.
    event: Ints
    variable: Shorts
    #: The slice that each trend was found in.
    slice: Ints


class Graph(NamedTuple):
    """Nodes (events in states that lie on some trend) with their successors."""

    #: The event and the state of each node. Events rise; the nodes of one event are neighbours.
    event: Ints
    state: Places
    #: Whether a trend may begin, or end, with the node.
    begins: Bools
    ends: Bools
    #: Event numbers that say what a window sees of the node, see :mod:`cetdsl.kernels.graph.attribute_graph`.
    origin: Places
    origin_before: Places
    reach: Places
    reach_after: Places
    #: The successors of node ``v`` are ``target[start[v]:stop[v]]``, rising. Nodes may share them.
    start: Ints
    stop: Ints
    target: Places
