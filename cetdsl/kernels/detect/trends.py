"""Trends as Arrow columns, put together in the order of plans."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import cache

import pyarrow as pa

from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.stages import DetectSpec
from cetdsl.kernels.detect.detector import Detector
from cetdsl.kernels.detect.learned import Learned
from cetdsl.kernels.enumerate.trends import list_by
from cetdsl.kernels.vocabulary import Block
from cetdsl.kernels.wire.chunks import CHUNK_EVENTS, Chunk, Columns
from cetdsl.kernels.wire.columns import python_value


def detect_stream(spec: DetectSpec, batches: Iterator[pa.RecordBatch], chunk_events: int = CHUNK_EVENTS) -> Columns:
    """Lists the trends of a sorted stream; the columns are those of the stage ``trends``."""
    kernel, learned = spec.trends.kernel, Learned()
    if kernel.layout.learned:
        batches = learned.apart(batches)

    @cache
    def made() -> Detector:
        # By the first chunk all batches have been read, as the kernel sorts them, and so all that was learned.
        return Detector(kernel, spec.plans, learned=learned.counts)

    def find(chunk: Chunk, limit: int) -> Iterator[Block]:
        detector, ends = made(), ends_of(chunk, kernel)
        return detector.enumerate(chunk.events, chunk.slices, chunk.bounds, limit, ends=ends)

    return list_by(find, spec.trends, batches, chunk_events)


def ends_of(chunk: Chunk, spec: KernelSpec) -> tuple[Hashable, Hashable]:
    """Returns values that distinguish the first key of a chunk and its last one from all others."""
    columns = [chunk.column(name) for name in spec.layout.partition]
    last = len(chunk.events.time) - 1
    first, last_key = (tuple(python_value(column, row) for column in columns) for row in (0, last))
    return first, last_key
