"""Products of panes over blocks, compiled for each number system, the lattice included.

A window is a suffix of the block of panes that it begins in and a prefix of the next one
(:mod:`~cetdsl.kernels.aggregate.cover`). Of the product over a suffix only row 0 is needed, because trends begin in it
before any event; of the product over a prefix only the sum of the columns of final places.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.numbers.arithmetic import combine
from cetdsl.kernels.numbers.linear import multiply
from cetdsl.kernels.vocabulary import Bools, Ints


@inlined
def _multiply(
    a: NDArray[Any], b: NDArray[Any], out: NDArray[Any], rows: int, zero: Any, prime: Any, reciprocal: float
) -> None:
    """Writes the first rows of the product of two matrices of all accumulators."""
    accumulators, places = out.shape[0], out.shape[1]
    for k in range(accumulators):
        for p in range(rows):
            for q in range(places):
                out[k, p, q] = zero
    for p in range(rows):
        for middle in range(places):
            if a[0, p, middle] == zero:
                continue  # then no accumulator has anything here
            for q in range(places):
                if b[0, middle, q] == zero:
                    continue
                for k in range(accumulators):
                    way = multiply(a[0, p, middle], b[k, middle, q], prime, reciprocal)
                    out[k, p, q] = combine(out[k, p, q], way, prime)
                    if k > 0:
                        way = multiply(a[k, p, middle], b[0, middle, q], prime, reciprocal)
                        out[k, p, q] = combine(out[k, p, q], way, prime)


@jit
def ends_of_blocks(
    matrices: NDArray[Any], begins: Bools, final: Bools, zero: Any, prime: Any, reciprocal: float
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Multiplies the panes of each block up to each of them, and from each of them on.

    Parameters
    ----------
    matrices : array, shape (panes, accumulators, places, places)
    begins : bool array, shape (panes,)
        Whether a block begins with the pane.
    final : bool array, shape (places,)
        Where trends may end.
    zero, prime, reciprocal
        As in :func:`~cetdsl.kernels.aggregate.merge_tree.merge_neighbours`.

    Returns
    -------
    two arrays, shape (panes, accumulators, places)
        For each pane ``n``: row 0 of the product of the panes from ``n`` to the end of its block, and the sum of the
        final columns of the product of the panes from the beginning of its block to ``n``.
    """
    panes, accumulators, places = matrices.shape[0], matrices.shape[1], matrices.shape[2]
    suffix = np.empty((panes, accumulators, places), dtype=matrices.dtype)
    prefix = np.empty((panes, accumulators, places), dtype=matrices.dtype)
    running = np.empty((accumulators, places, places), dtype=matrices.dtype)
    product = np.empty((accumulators, places, places), dtype=matrices.dtype)
    for n in range(panes):
        if begins[n]:
            running[:] = matrices[n]
        else:
            _multiply(running, matrices[n], product, places, zero, prime, reciprocal)
            running, product = product, running
        for k in range(accumulators):
            for p in range(places):
                total = zero
                for q in range(places):
                    if final[q]:
                        total = combine(total, running[k, p, q], prime)
                prefix[n, k, p] = total
    for n in range(panes - 1, -1, -1):
        if n == panes - 1 or begins[n + 1]:
            running[:] = matrices[n]
        else:
            _multiply(matrices[n], running, product, places, zero, prime, reciprocal)
            running, product = product, running
        for k in range(accumulators):
            for p in range(places):
                suffix[n, k, p] = running[k, 0, p]
    return suffix, prefix


@jit
def windows_of_blocks(
    suffix: NDArray[Any],
    prefix: NDArray[Any],
    first: Ints,
    last: Ints,
    in_suffix: Bools,
    in_prefix: Bools,
    final: Bools,
    zero: Any,
    one: Any,
    prime: Any,
    reciprocal: float,
) -> NDArray[Any]:
    """Multiplies the suffix and the prefix of each window, see :class:`~cetdsl.kernels.aggregate.cover.Cover`.

    ``one`` is the value of no events. The answer has the shape (windows, accumulators).
    """
    accumulators, places = suffix.shape[1], suffix.shape[2]
    out = np.full((len(first), accumulators), zero)
    for w in range(len(first)):
        a, b = first[w], last[w]
        for p in range(places):
            before = suffix[a, 0, p] if in_suffix[w] else (one if p == 0 else zero)
            after = prefix[b, 0, p] if in_prefix[w] else (one if final[p] else zero)
            out[w, 0] = combine(out[w, 0], multiply(before, after, prime, reciprocal), prime)
            for k in range(1, accumulators):
                if in_prefix[w]:
                    way = multiply(before, prefix[b, k, p], prime, reciprocal)
                    out[w, k] = combine(out[w, k], way, prime)
                if in_suffix[w]:
                    way = multiply(suffix[a, k, p], after, prime, reciprocal)
                    out[w, k] = combine(out[w, k], way, prime)
    return out
