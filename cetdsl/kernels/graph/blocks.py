"""Arrays that grow while trends are written into them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cetdsl.kernels._jit import jit
from cetdsl.kernels.numbers.copying import copy
from cetdsl.kernels.vocabulary import Ints


@jit
def widened(column: NDArray[Any], used: int, more: int) -> NDArray[Any]:
    """Returns a column with room for ``more`` entries behind those that are ``used``."""
    if used + more <= len(column):
        return column
    wider = np.empty(2 * (used + more), dtype=column.dtype)
    copy(wider, column[:used])
    return wider


@jit
def add_path(start: Ints, node: Ints, trend: int, path: Ints, depth: int) -> Ints:
    """Appends the first ``depth`` nodes of a path as the trend number ``trend``, and notes in ``start`` where it ends.

    Returns the array of nodes, which may be a larger copy.
    """
    used = start[trend]
    node = widened(node, used, depth)
    copy(node[used:], path[:depth])
    start[trend + 1] = used + depth
    return node
