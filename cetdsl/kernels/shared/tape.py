"""The tape: what is to be done to the snapshots of a chunk, in order of time and without any values."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cetdsl.kernels._jit import inlined
from cetdsl.kernels.vocabulary import Ints

Modes = NDArray[np.int8]
Operations = NDArray[np.int32]

#: What is done: ``x``, ``n``, ``low`` and ``high`` are the further fields of an operation.
OPEN, CLOSE = 0, 1  # windows x: slot n is given to slice `low`
ADVANCE = 2  # graphlet x by n single events, or by one instant of -n, of those in [low, high)
EACH, JUMP = 3, 4  # variant x as above, by itself: event by event, or at once
SYNC = 5  # nodes [x, n) of variant `low` are brought up to their graphlet; with high > 0 only their slot high - 1
SPLIT, MERGE = 6, 7  # variant x (synchronised) leaves its graphlet; joins graphlet n
BIND = 8  # all plain nodes of variable x take n events, those of it in [low, high); next to them all is synchronised
VALUE, APPLY = 9, 10  # plain node x takes event `low`, in two steps, with place n to keep the value in
REFRESH = 11  # the sources of the nodes of link x (all synchronised) have new values
RECORD = 12  # row n of the table of snapshots: variant x before event `low`

#: How a variant is propagated: in the graphlet of its family, in one of its own, or each column by itself.
SHARED, ALONE, NEVER = 0, 1, 2


class Tape(NamedTuple):
    """What is to be done, in order of time.

    Attributes
    ----------
    operation : int32 array, shape (operations, 5)
        Code, x, n, low, high.
    start : int64 array, shape (islands + 1,)
        The operations of each island.
    mode : int8 array, shape (islands, variants)
        How each variant is propagated when the island begins.
    stages : int
        Values that must be kept at once.
    longest : int
        The most single events that are taken in one go.
    most_bound : int
        The most events that a plain node takes in one go.
    """

    operation: Operations
    start: Ints
    mode: Modes
    stages: int
    longest: int
    most_bound: int


@inlined
def put(out: Operations, at: int, code: int, x: int, n: int, low: int, high: int) -> int:
    out[at, 0], out[at, 1], out[at, 2], out[at, 3], out[at, 4] = code, x, n, low, high
    return at + 1
