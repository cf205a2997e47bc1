"""Trends as Arrow columns, put together in the order of plans."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from cetdsl.ir.stages import DetectSpec
from cetdsl.kernels.detect.detector import Detector
from cetdsl.kernels.enumerate.trends import list_by
from cetdsl.kernels.wire.chunks import CHUNK_EVENTS, Columns


def detect_stream(spec: DetectSpec, batches: Iterator[pa.RecordBatch], chunk_events: int = CHUNK_EVENTS) -> Columns:
    """Lists the trends of a sorted stream; the columns are those of the stage ``trends``."""
    return list_by(Detector(spec.trends.kernel, spec.plans), spec.trends, batches, chunk_events)
