"""Selects trends of blocks, and joins blocks of trends."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cetdsl.kernels._side_by_side import starts
from cetdsl.kernels.vocabulary import Block, Ints


def members_of(start: Ints, stop: Ints) -> tuple[Ints, Ints]:
    """Lists the members of several ranges: the number of the range that each belongs to, and the members themselves.

    Examples
    --------
    >>> members_of(np.array([3, 8, 0]), np.array([5, 8, 2]))
    (array([0, 0, 2, 2]), array([3, 4, 0, 1]))
    """
    sizes = stop - start
    owner = np.repeat(np.arange(len(sizes)), sizes)
    return owner, np.arange(len(owner)) + (start - np.cumsum(sizes) + sizes)[owner]


def take_trends(block: Block, rows: Ints) -> Block:
    """Returns some of a block's trends."""
    first, last = block.start[rows], block.start[rows + 1]
    _, binding = members_of(first, last)
    start = starts(last - first)
    return Block(start, block.event[binding], block.variable[binding], block.slice[rows])


def trends_between(block: Block, some: slice) -> Block:
    """Returns consecutive trends of a block, without copying their bindings."""
    start = block.start[some.start : some.stop + 1]
    bindings = slice(start[0], start[-1])
    return Block(start - start[0], block.event[bindings], block.variable[bindings], block.slice[some])


def join_blocks(blocks: Sequence[Block]) -> Block:
    """Returns one block with the trends of several, in their order."""
    ends = np.cumsum([0, *(len(block.event) for block in blocks)])
    starts = [block.start[1:] + end for block, end in zip(blocks, ends)]
    none = np.zeros(0, dtype=np.int64)
    return Block(
        np.concatenate([[0], *starts]).astype(np.int64),
        np.concatenate([none, *(block.event for block in blocks)]),
        np.concatenate([none.astype(np.int16), *(block.variable for block in blocks)]),
        np.concatenate([none, *(block.slice for block in blocks)]),
    )
