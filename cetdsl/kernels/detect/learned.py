"""Statistics that a stream keeps for plans, which begin with what earlier events have shown.

State holds a vector of counts for each share of the keys. When time buckets close, the counts of their events are added
to it. The stage that puts trends together then makes the first plan of each key from the sum over its task's shares.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.stages import LearnSpec
from cetdsl.kernels.detect.detector import Detector
from cetdsl.kernels.vocabulary import Floats
from cetdsl.kernels.wire.chunks import ChunkReader, refusing_too_large
from cetdsl.kernels.wire.columns import as_array, from_bytes, from_numpy, validity

#: What state keeps for a share: what is counted, and the counts.
Kept: TypeAlias = tuple[str, Sequence[float]]
#: After so many further triggers at which events are emitted, the counts of an event have half of their weight.
HALF_LIFE = 8


def learn(
    payload: bytes, known: Kept | None, first: int, last: int, parcels: Sequence[Sequence[bytes]]
) -> tuple[str, Floats]:
    """Returns the counts after time buckets have closed: those of their events, and older ones with less weight.

    Parameters
    ----------
    payload : bytes
        A pickled :class:`~cetdsl.ir.stages.LearnSpec`.
    known : tuple of str and sequence of float, or None
        What was returned last, and None at first. If a restarted stream compares other things, it begins anew.
    first, last : int
        The buckets that have closed.
    parcels : sequence of sequence of bytes
        The events that these buckets need.

    Returns
    -------
    about : str
        A digest of what is counted: the variables of each branch, and the predicates between them.
    counts : float64 array
        The counts of each branch, one after the other, as
        :func:`~cetdsl.detection.arithmetic.rates_and_shares` takes them.
    """
    spec: LearnSpec = pickle.loads(payload)
    detector = Detector(spec.kernel, spec.plans)
    about = sha256(repr(detector.counted).encode()).hexdigest()
    counts = _counts(detector, spec.kernel, _batches(first, last, parcels))
    if known is not None and known[0] == about:
        counts += np.array(known[1]) * 0.5 ** (1 / HALF_LIFE)
    return about, counts


def _batches(first: int, last: int, parcels: Sequence[Sequence[bytes]]) -> Iterator[pa.RecordBatch]:
    for bodies in parcels:
        ends = [from_numpy(np.full(len(bodies), bucket, dtype=np.int64)) for bucket in (first, last)]
        yield pa.RecordBatch.from_arrays([*ends, from_bytes(list(bodies), pa.binary())], names=["s", "u", "p"])


def _counts(detector: Detector, kernel: KernelSpec, batches: Iterator[pa.RecordBatch]) -> Floats:
    counts = np.zeros(detector.counters)
    for chunk in ChunkReader(kernel, batches):
        with refusing_too_large(kernel, chunk):
            if len(chunk.events.time):
                counts += np.concatenate(list(detector.count(chunk.events)))
    return counts


class Learned:
    """Takes the statistics from batches whose first column has them, as bytes in some rows, one row for each share.

    Examples
    --------
    >>> counts = np.array([60.0, 6.0, 30.0])
    >>> statistics = pa.array([counts.tobytes(), None, counts.tobytes()])
    >>> learned = Learned()
    >>> for batch in learned.apart(iter([pa.RecordBatch.from_arrays([statistics, pa.array([1, 2, 3])], ["y", "p"])])):
    ...     print(batch.schema.names, learned.counts.tolist())
    ['p'] [120.0, 12.0, 60.0]
    """

    def __init__(self) -> None:
        #: The sum of the counts that have come so far; None before the first ones.
        self.counts: Floats | None = None

    def apart(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the batches without the first column."""
        for batch in batches:
            column = as_array(batch.column(0))
            for row in np.flatnonzero(validity(column)).tolist():
                found = np.frombuffer(column[row].as_py(), dtype=np.float64)
                self.counts = found if self.counts is None else self.counts + found
            yield pa.RecordBatch.from_arrays(batch.columns[1:], schema=batch.schema.remove(0))
