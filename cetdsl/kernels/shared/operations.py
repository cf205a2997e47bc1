"""The tape: the operations on the snapshots of a chunk, in order of time and without any values.

What bursts do to the counts of a query depends on which events the query takes, and not on the counts. So a chunk is
read, and the decisions on sharing are made, only once: :mod:`~cetdsl.kernels.shared.writer` writes down which
operations follow. :mod:`~cetdsl.kernels.shared.snapshots` then *plays* the tape, that is, carries the operations out,
once in each number system, and where counts are exact once for each batch of primes.

An operation is a row: its code, then its operands. An operand has the same column in all operations that have it. Rows
are appended by the functions below alone, and read by the same names of columns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cetdsl.kernels._jit import inlined
from cetdsl.kernels.vocabulary import Ints

Modes = NDArray[np.int8]
Operations = NDArray[np.int32]

#: How a variant is propagated: in the graphlet of its family, in one of its own, or each column by itself.
SHARED, OWN, NEVER = 0, 1, 2

OPEN, CLOSE, ADVANCE, EACH, JUMP, SYNC, SPLIT, MERGE, BIND, VALUE, APPLY, REFRESH = range(12)

#: The columns of an operation, whatever it is.
CODE, OPERANDS = 0, 5
#: What it is about: a window number, graphlet, variant, variable, plain node or link.
WINDOWS = GRAPHLET = VARIANT = VARIABLE = NODE = LINK = 1
#: How many events; the graphlet that is joined; where a value is staged; nodes ``[FIRST_NODE, LAST_NODE)``.
COUNT = JOINED = STAGE = FIRST_NODE = 2
#: Which events, ``[LOW, HIGH)``; the slice that opens or closes.
LOW = SLICE = LAST_NODE = 3
#: The slot of a column, -1 for all of them.
HIGH = SLOT = 4


class Tape(NamedTuple):
    """The operations on a chunk, in order of time.

    Attributes
    ----------
    operation : int32 array, shape (operations, 5)
    start : int64 array, shape (islands + 1,)
        The operations of each island.
    mode : int8 array, shape (islands, variants)
        How each variant is propagated when the island begins.
    stages, longest, most_bound : int
        The most values that are staged at once, the most single events that one operation takes, and the most that one
        operation binds to a plain node.
    """

    operation: Operations
    start: Ints
    mode: Modes
    stages: int
    longest: int
    most_bound: int


@inlined
def put_border(out: Operations, at: int, code: int, windows: int, slice: int, slot: int) -> int:
    """Appends: a slice opens in a slot of its window number, or (``CLOSE``) closes, and its totals are its answer."""
    out[at, CODE], out[at, WINDOWS], out[at, SLICE], out[at, SLOT] = code, windows, slice, slot
    return at + 1


@inlined
def put_events(out: Operations, at: int, code: int, taker: int, count: int, low: int, high: int) -> int:
    """Appends: ``count`` single events, or ``-count`` of an instant, among those in ``[low, high)`` are taken.

    The code says who takes them. ``ADVANCE``: a graphlet. ``EACH``, ``JUMP``: a variant in no graphlet, one by one or
    all at once. ``BIND``: all plain nodes of a variable, after the nodes next to them have been brought up to date.
    """
    out[at, CODE], out[at, GRAPHLET], out[at, COUNT], out[at, LOW], out[at, HIGH] = code, taker, count, low, high
    return at + 1


@inlined
def put_sync(out: Operations, at: int, first: int, last: int, slot: int) -> int:
    """Appends: a variable's repeating nodes ``[first, last)`` catch up with its graphlet, in one slot or all (-1)."""
    out[at, CODE], out[at, FIRST_NODE], out[at, LAST_NODE], out[at, SLOT] = SYNC, first, last, slot
    return at + 1


@inlined
def put_split(out: Operations, at: int, variant: int) -> int:
    """Appends: a variant, all of whose nodes are up to date, leaves its graphlet."""
    out[at, CODE], out[at, VARIANT] = SPLIT, variant
    return at + 1


@inlined
def put_merge(out: Operations, at: int, variant: int, graphlet: int) -> int:
    """Appends: a variant in no graphlet joins one."""
    out[at, CODE], out[at, VARIANT], out[at, JOINED] = MERGE, variant, graphlet
    return at + 1


@inlined
def put_value(out: Operations, at: int, node: int, stage: int, event: int) -> int:
    """Appends: the value of an event at a plain node is computed and staged; simultaneous events do not see it."""
    out[at, CODE], out[at, NODE], out[at, STAGE], out[at, LOW] = VALUE, node, stage, event
    return at + 1


@inlined
def put_apply(out: Operations, at: int, node: int, stage: int) -> int:
    """Appends: a plain node takes a staged value."""
    out[at, CODE], out[at, NODE], out[at, STAGE] = APPLY, node, stage
    return at + 1


@inlined
def put_refresh(out: Operations, at: int, link: int) -> int:
    """Appends: the nodes of a link add up their sources' values anew; the sources and the nodes are up to date."""
    out[at, CODE], out[at, LINK] = REFRESH, link
    return at + 1
