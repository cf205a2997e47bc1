"""Windows as products of panes: each is a suffix of one block of panes and a prefix of the next.

The panes of a key are cut into *blocks* as long as a window, so a window touches at most two. The suffixes and the
prefixes of all blocks take two matrix products per pane, and each window then takes one product of a row and a column,
however many windows overlap.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cetdsl.ir.kernel import KernelSpec
from cetdsl.kernels.aggregate.blocks import ends_of_blocks, windows_of_blocks
from cetdsl.kernels.aggregate.matrices import Matrices, Transitions, changes, one_of, parts_of, product, zeros
from cetdsl.kernels.answers.tables import AccumulatorTable, additive_accumulators, scaled_integers
from cetdsl.kernels.numbers.ladder import EXACT_DOUBLE
from cetdsl.kernels.numbers.scaled import Objects, Scaled, to_scaled
from cetdsl.kernels.vocabulary import Bools, Ints


class Cover(NamedTuple):
    """Describes how the slices of a chunk of panes are made of blocks, which are as long as a window.

    A window is a suffix of the block that it begins in and a prefix of the next one; either may have no events.
    """

    #: Whether a block begins with the pane, shape (panes,).
    begins: Bools
    #: Panes with which the suffix begins and the prefix ends, shape (slices,), and whether there is one.
    first: Ints
    last: Ints
    in_suffix: Bools
    in_prefix: Bools


def cover_of(pane: Ints, fresh: Bools, first: Ints, last: Ints, begin: Ints, length: int) -> Cover:
    """Finds how slices are made of blocks, which are ``length`` panes long, as windows are.

    Parameters
    ----------
    pane : int64 array, shape (panes,)
        The number of each pane in its key, rising with time within the key.
    fresh : bool array, shape (panes,)
        Whether a key begins with the pane.
    first, last : int64 arrays, shape (slices,)
        The first and the last of these panes that each slice holds.
    begin : int64 array, shape (slices,)
        The number of the pane that a window of the slice begins with, counted as in ``pane``; it may have no events.
    length : int
        The panes of a window.
    """
    block, own = pane // length, begin // length
    return Cover(fresh | changes(block), first, last, block[first] == own, block[last] != own)


def window_accumulators(
    spec: KernelSpec, transitions: Transitions, panes: list[Matrices], cover: Cover
) -> AccumulatorTable:
    """Computes all accumulators over the windows of a cover; ``panes`` are the matrices of each part."""
    exact: list[Objects | None] = [None] * len(additive_accumulators(spec))
    scaled: list[Any] = [None] * len(exact)
    for part, matrices in zip(parts_of(spec), panes, strict=True):
        if part.whole:
            whole, rounded = whole_answers(matrices, cover, transitions)
        else:
            rounded = answers(matrices, cover, transitions)
        for row, k in enumerate(part.accumulators):
            if part.whole:
                exact[k] = whole[:, row]
            if scaled[k] is None:
                scaled[k] = np.ascontiguousarray(rounded[:, row])
    return AccumulatorTable(exact, scaled, [])


def whole_answers(matrices: Matrices, cover: Cover, transitions: Transitions) -> tuple[Objects, Scaled]:
    """Computes the accumulators of all slices, in whole numbers and scaled; in doubles where these hold them."""
    shape = (len(cover.first), matrices.shape[1])
    small, exact = np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=object)
    scaled: Scaled = np.zeros(shape, dtype=np.complex128)
    if matrices.dtype != object:
        # A number that is rounded on the way either makes the bound of the answer too large, or is multiplied by 0.
        bound = answers(np.abs(matrices), cover, transitions)
        found = answers(matrices, cover, transitions) if (matrices < 0).any() else bound
        small = bound <= EXACT_DOUBLE
        exact[small] = found[small].astype(np.int64)
        scaled[small] = to_scaled(found[small])
        if small.all():
            return exact, scaled
        matrices = matrices.astype(np.int64).astype(object)
    large = answers(matrices, cover, transitions)[~small]
    exact[~small] = large
    scaled[~small] = scaled_integers(large)
    return exact, scaled


def answers(matrices: Matrices, cover: Cover, transitions: Transitions) -> NDArray[Any]:
    """Computes the accumulators of all slices, shape (slices, accumulators): a suffix's row times a prefix's column."""
    accumulators, places, dtype = matrices.shape[1], len(transitions.final), matrices.dtype
    if not dtype.hasobject:
        zero, one = dtype.type(0), dtype.type(one_of(dtype))
        suffix, prefix = ends_of_blocks(matrices, cover.begins, transitions.final, zero, zero, 0.0)
        return windows_of_blocks(suffix, prefix, *cover[1:], transitions.final, zero, one, zero, 0.0)
    before = zeros((len(cover.first), accumulators, 1, places), dtype)
    before[:, 0, 0, 0] = one_of(dtype)
    before[cover.in_suffix] = suffixes(matrices, cover.begins)[cover.first[cover.in_suffix]]
    final = zeros((1, accumulators, places, 1), dtype)
    final[0, 0, transitions.final, 0] = one_of(dtype)
    after = np.repeat(final, len(cover.last), axis=0)
    after[cover.in_prefix] = prefixes(matrices, cover.begins, final)[cover.last[cover.in_prefix]]
    return product(before, after)[:, :, 0, 0]


def prefixes(matrices: Matrices, begins: Bools, final: Matrices) -> Matrices:
    """Returns for each matrix the product of its block up to it, times ``final``; ``begins`` marks the blocks.

    This is for Python's whole numbers; :mod:`~cetdsl.kernels.aggregate.blocks` computes the others.
    """
    out = np.empty((len(matrices), matrices.shape[1], matrices.shape[2], 1), dtype=matrices.dtype)
    before = np.zeros(0, dtype=np.int64)
    running = matrices[:0]
    for rows in _by_rank(begins):
        running = product(running[np.searchsorted(before, rows - 1)], matrices[rows]) if len(before) else matrices[rows]
        out[rows] = product(running, np.repeat(final, len(rows), axis=0))
        before = rows
    return out


def suffixes(matrices: Matrices, begins: Bools) -> Matrices:
    """Returns for each matrix the first row of the product of its block from it on."""
    out = np.empty((len(matrices), matrices.shape[1], 1, matrices.shape[3]), dtype=matrices.dtype)
    after = np.zeros(0, dtype=np.int64)
    running = matrices[:0]
    last = len(matrices) - 1
    for mirrored in _by_rank(np.append(begins[1:], True)[::-1]):
        rows = (last - mirrored)[::-1]
        running = product(matrices[rows], running[np.searchsorted(after, rows + 1)]) if len(after) else matrices[rows]
        out[rows] = running[:, :, :1]
        after = rows
    return out


def _by_rank(begins: Bools) -> Iterator[Ints]:
    """Yields the first matrices of all blocks, then all second ones, and so on."""
    starts = np.nonzero(begins)[0]
    rank = np.arange(len(begins)) - np.repeat(starts, np.diff(np.append(starts, len(begins))))
    order = np.argsort(rank, kind="stable")
    yield from np.split(order, np.cumsum(np.bincount(rank))[:-1])
