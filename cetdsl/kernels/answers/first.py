"""Selects the rows of greatest weight among the rows of each *place*, which are those that agree in some columns."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from cetdsl.ir.stages import FirstSpec
from cetdsl.kernels.vocabulary import Ints
from cetdsl.kernels.wire.chunks import Columns
from cetdsl.kernels.wire.columns import as_array, from_numpy, key_numbers, order_codes

#: About how many bytes of rows are compared together, and the rows of a batch that is yielded.
BUFFER_BYTES, GIVEN_ROWS = 32 << 20, 10_000


def first_stream(spec: FirstSpec, batches: Iterator[pa.RecordBatch], buffer_bytes: int = BUFFER_BYTES) -> Columns:
    """Yields the ``spec.size`` heaviest rows of each place, in the order in which they came.

    Of rows with equal weights the earliest are chosen.
    """
    waiting, held, kept = list[pa.RecordBatch](), 0, 0
    for batch in batches:
        waiting.append(batch)
        held += batch.nbytes
        # At least twice as much as the last round has kept, so that a row is compared in few rounds.
        if held >= max(buffer_bytes, 2 * kept):
            waiting = _first(spec, waiting).to_batches()
            held = kept = sum(one.nbytes for one in waiting)
    if waiting:
        for batch in _first(spec, waiting).to_batches(max_chunksize=GIVEN_ROWS):
            yield batch.columns


def _first(spec: FirstSpec, batches: list[pa.RecordBatch]) -> pa.Table:
    rows = pa.Table.from_batches(batches).combine_chunks()
    places = [as_array(rows.column(place)) for place in spec.places]
    chosen = _chosen(key_numbers(places, rows.num_rows)[0], as_array(rows.column(spec.weight)), spec.size)
    return rows.take(from_numpy(chosen))


def _chosen(place: Ints, weight: pa.Array, size: int) -> Ints:
    """Returns the ``size`` rows of the greatest weight of each place; NULL is less than any weight."""
    codes, valid = order_codes([weight])
    order = np.lexsort((~codes[0], ~valid[0], place))
    begins = np.flatnonzero(np.diff(place[order], prepend=-1))
    rank = np.arange(len(order)) - np.repeat(begins, np.diff(begins, append=len(order)))
    return np.sort(order[rank < size])
