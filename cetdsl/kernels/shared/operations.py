"""The operations of a tape: their codes, their operands, and the functions that write them.

An operation is a row: its code, then its operands. An operand has the same column in all operations that have it. The
writer of tapes appends rows by the functions below alone, one per code, and the player reads them by the same names.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cetdsl.kernels._jit import inlined

Operations = NDArray[np.int32]

OPEN, CLOSE, ADVANCE, EACH, JUMP, SYNC, SPLIT, MERGE, BIND, VALUE, APPLY, REFRESH = range(12)

#: The columns of an operation, whatever it is.
CODE, OPERANDS = 0, 5
#: What it is about: a number of windows, graphlet, variant, variable, plain node or link.
WINDOWS = GRAPHLET = VARIANT = VARIABLE = NODE = LINK = 1
#: How many events; the graphlet that is joined; where a value is staged; nodes ``[FIRST_NODE, LAST_NODE)``.
COUNT = JOINED = STAGE = FIRST_NODE = 2
#: Which events, ``[LOW, HIGH)``; the slice that opens or closes.
LOW = SLICE = LAST_NODE = 3
#: The slot of a column, -1 for all of them.
HIGH = SLOT = 4


@inlined
def put_open(out: Operations, at: int, windows: int, slice: int, slot: int) -> int:
    """A slice opens in a slot of its windows."""
    out[at, CODE], out[at, WINDOWS], out[at, SLICE], out[at, SLOT] = OPEN, windows, slice, slot
    return at + 1


@inlined
def put_close(out: Operations, at: int, windows: int, slice: int, slot: int) -> int:
    """A slice closes, whose totals are its answer."""
    out[at, CODE], out[at, WINDOWS], out[at, SLICE], out[at, SLOT] = CLOSE, windows, slice, slot
    return at + 1


@inlined
def put_advance(out: Operations, at: int, graphlet: int, count: int, low: int, high: int) -> int:
    """A graphlet takes ``count`` single events, or ``-count`` of an instant: those of it in ``[low, high)``."""
    out[at, CODE], out[at, GRAPHLET], out[at, COUNT], out[at, LOW], out[at, HIGH] = ADVANCE, graphlet, count, low, high
    return at + 1


@inlined
def put_each(out: Operations, at: int, variant: int, count: int, low: int, high: int) -> int:
    """A variant in no graphlet takes events as above, one by one."""
    out[at, CODE], out[at, VARIANT], out[at, COUNT], out[at, LOW], out[at, HIGH] = EACH, variant, count, low, high
    return at + 1


@inlined
def put_jump(out: Operations, at: int, variant: int, count: int, low: int, high: int) -> int:
    """A variant in no graphlet takes events as above, all at once."""
    out[at, CODE], out[at, VARIANT], out[at, COUNT], out[at, LOW], out[at, HIGH] = JUMP, variant, count, low, high
    return at + 1


@inlined
def put_sync(out: Operations, at: int, first: int, last: int, slot: int) -> int:
    """Repeating nodes ``[first, last)`` of one variant are brought up to its graphlet, in one slot or (-1) in all."""
    out[at, CODE], out[at, FIRST_NODE], out[at, LAST_NODE], out[at, SLOT] = SYNC, first, last, slot
    return at + 1


@inlined
def put_split(out: Operations, at: int, variant: int) -> int:
    """A variant, all of whose nodes are up to date, leaves its graphlet."""
    out[at, CODE], out[at, VARIANT] = SPLIT, variant
    return at + 1


@inlined
def put_merge(out: Operations, at: int, variant: int, graphlet: int) -> int:
    """A variant in no graphlet joins one."""
    out[at, CODE], out[at, VARIANT], out[at, JOINED] = MERGE, variant, graphlet
    return at + 1


@inlined
def put_bind(out: Operations, at: int, variable: int, count: int, low: int, high: int) -> int:
    """All plain nodes of a variable take ``count`` events; the nodes next to them are brought up to date first."""
    out[at, CODE], out[at, VARIABLE], out[at, COUNT], out[at, LOW], out[at, HIGH] = BIND, variable, count, low, high
    return at + 1


@inlined
def put_value(out: Operations, at: int, node: int, stage: int, event: int) -> int:
    """The value of an event at a plain node is worked out and staged, for simultaneous events do not see it."""
    out[at, CODE], out[at, NODE], out[at, STAGE], out[at, LOW] = VALUE, node, stage, event
    return at + 1


@inlined
def put_apply(out: Operations, at: int, node: int, stage: int) -> int:
    """A plain node takes a staged value."""
    out[at, CODE], out[at, NODE], out[at, STAGE] = APPLY, node, stage
    return at + 1


@inlined
def put_refresh(out: Operations, at: int, link: int) -> int:
    """The sources of a link's nodes have new values; all of both are up to date."""
    out[at, CODE], out[at, LINK] = REFRESH, link
    return at + 1
