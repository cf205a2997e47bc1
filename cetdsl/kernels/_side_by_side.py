"""Groups of any sizes, laid side by side in one array, and where each of them begins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cetdsl.kernels.vocabulary import Ints


def starts(sizes: ArrayLike) -> Ints:
    """Returns where each group of these sizes begins; the last entry is the sum of all sizes.

    Examples
    --------
    >>> starts([2, 0, 3]).tolist(), starts([]).tolist()
    ([0, 2, 2, 5], [0])
    """
    return np.append(0, np.cumsum(sizes)).astype(np.int64)


def lots(sizes: Ints, most: int) -> Iterator[slice]:
    """Cuts the groups into lots: consecutive groups with at most ``most`` members together, or one group with more.

    Examples
    --------
    >>> [(lot.start, lot.stop) for lot in lots(np.array([3, 10, 1]), 4)]
    [(0, 1), (1, 2), (2, 3)]
    >>> [(lot.start, lot.stop) for lot in lots(np.array([2, 2, 1]), 4)]
    [(0, 2), (2, 3)]
    """
    total, begin = np.cumsum(sizes), 0
    while begin < len(sizes):
        before = total[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(total, before + most, side="right")))
        yield slice(begin, end)
        begin = end


def starts_of(groups: Iterable[Sized]) -> Ints:
    """Returns where each group begins; the last entry is the number of all their members."""
    return starts([len(group) for group in groups])


def flat(groups: Iterable[Sequence[Any]]) -> Ints:
    """Returns the integers of all groups, one group after another."""
    return np.array([item for group in groups for item in group], dtype=np.int64)


def grouped(groups: Sequence[Sequence[Any]]) -> tuple[Ints, Ints]:
    """Returns both :func:`starts_of` and :func:`flat`."""
    return starts_of(groups), flat(groups)
