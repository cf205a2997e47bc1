"""Lists the trends of a query: first matches its negated patterns, then searches for trends."""

from __future__ import annotations

from collections.abc import Iterator

from cetdsl.ir.kernel import KernelSpec
from cetdsl.kernels.enumerate.blocks import BLOCK
from cetdsl.kernels.enumerate.correlated import without_correlated
from cetdsl.kernels.enumerate.guards import GuardedMachine
from cetdsl.kernels.enumerate.search import Search
from cetdsl.kernels.vocabulary import Block, Events, Ints, Slices


class Enumerator:
    """Lists the trends of one query over chunk after chunk of sorted events.

    Examples
    --------
    >>> import numpy as np
    >>> from cetdsl.ir.kernel import KernelQuery
    >>> from cetdsl.ir.layout import RowLayout
    >>> from cetdsl.ir.machine import Edge, Machine
    >>> from cetdsl.kernels.wire.windows import NEVER, cut_slices
    >>> machine = Machine((0, 1), ((0, ()),), ((1, ()),), (Edge(0, 1), Edge(1, 1)))  # SEQ(A, B+)
    >>> spec = KernelSpec(KernelQuery(machine), RowLayout.of(0, "t", "bigint"))
    >>> segment, time, none = np.array([0, 3]), np.arange(3), np.zeros(0, dtype=np.int64)
    >>> no_codes, no_lists = np.zeros((0, 3), dtype=np.int64), np.zeros((0, 4), dtype=np.int64)
    >>> events = Events(segment, time, time, np.array([1, 2, 2]), no_codes, no_codes.astype(bool), no_lists, none)
    >>> slices = cut_slices(spec.query.windowing, segment, time, np.zeros(1, dtype=np.int64), True, NEVER)
    >>> for block in Enumerator(spec).enumerate(events, slices, (time[:1], time[:1])):
    ...     [part.tolist() for part in np.split(block.event, block.start[1:-1])]
    [[0, 1], [0, 1, 2], [0, 2]]
    """

    def __init__(self, spec: KernelSpec) -> None:
        self._guarded = GuardedMachine(without_correlated(spec))
        self._search = Search(spec)

    def enumerate(
        self, events: Events, slices: Slices, bounds: tuple[Ints, Ints], limit: int = -1, block: int = BLOCK
    ) -> Iterator[Block]:
        """Yields all trends of all slices, in blocks; for the parameters see :meth:`Search.blocks`."""
        if len(slices.low):
            events, before, until = self._guarded.with_guards(events)
            yield from self._search.blocks(events, before, until, slices, bounds, limit, block)
