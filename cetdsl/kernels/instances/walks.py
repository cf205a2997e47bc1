"""Lists the trends of queries that slots cannot express, depth first, in the same pass over the same events."""

from __future__ import annotations

import attrs
import numpy as np

from cetdsl.ir.slots import ANY_KIND, TESTS_IN_WORD, Fit, InstancesSpec, Walked
from cetdsl.ir.stages import TrendsSpec
from cetdsl.kernels.enumerate.enumerator import Enumerator
from cetdsl.kernels.enumerate.trends import TrendRows
from cetdsl.kernels.vocabulary import Bools, Ints
from cetdsl.kernels.wire.chunks import Chunk, Columns


class Walker:
    """Lists the trends of one query over chunk after chunk.

    ``left`` is the number of trends that are still wanted; below 0: all.
    """

    def __init__(self, spec: InstancesSpec, told: Walked) -> None:
        self.query, self.left = told.query, spec.limit
        self._fits, self._codes = told.fits, list(told.codes)
        self._enumerator = Enumerator(told.kernel)
        # It reads the rows of the pass, in their layout.
        kernel = attrs.evolve(told.kernel, layout=spec.kernel.layout)
        self._spec = TrendsSpec(kernel, spec.keys[told.query], told.names, spec.fields)

    def rows(self, chunk: Chunk, number: int, kinds: Ints, tests: Ints) -> Columns:
        """Yields the columns that the query by itself would give; ``number`` selects its windows in the chunk."""
        if not self.left:
            return
        mask = np.zeros(len(kinds), dtype=np.int64)
        for variable, fit in enumerate(self._fits):
            mask |= _fitting(fit, kinds, tests).astype(np.int64) << variable
        every = chunk.events
        events = every._replace(mask=mask, codes=every.codes[self._codes], valid=every.valid[self._codes])
        own = chunk._replace(events=events, asked=[chunk.asked[number]])
        rows = TrendRows(self._spec, own)
        for block in self._enumerator.enumerate(events, own.slices, own.bounds, self.left):
            self.left -= len(block.slice) if self.left > 0 else 0
            yield from rows.rows(block)


def _fitting(fit: Fit, kinds: Ints, tests: Ints) -> Bools:
    """Returns which events fit."""
    found = np.ones(len(kinds), dtype=np.bool_) if fit.kind == ANY_KIND else kinds == fit.kind
    for test in fit.tests:
        found = found & ((tests[test // TESTS_IN_WORD] >> test % TESTS_IN_WORD & 1) != 0)
    return found
