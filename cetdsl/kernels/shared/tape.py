"""The tape: what is to be done to the snapshots of a chunk, in order of time and without any values."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cetdsl.kernels.shared.operations import Operations
from cetdsl.kernels.vocabulary import Ints

Modes = NDArray[np.int8]

#: How a variant is propagated: in the graphlet of its family, in one of its own, or each column by itself.
SHARED, OWN, NEVER = 0, 1, 2


class Tape(NamedTuple):
    """What is to be done, in order of time.

    Attributes
    ----------
    operation : int32 array, shape (operations, 5)
        See :mod:`~cetdsl.kernels.shared.operations`.
    start : int64 array, shape (islands + 1,)
        The operations of each island.
    mode : int8 array, shape (islands, variants)
        How each variant is propagated when the island begins.
    stages : int
        The most values that are staged at once.
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
