"""What is known of the trends of a graph without enumerating them: their number, samples, the heaviest."""

from __future__ import annotations

from cetdsl.kernels.best import Top, top_paths
from cetdsl.kernels.counts import Counts, count_paths, count_trends, count_without_edges
from cetdsl.kernels.samples import Samples, sample_paths

__all__ = [
    "Counts",
    "Samples",
    "Top",
    "count_paths",
    "count_trends",
    "count_without_edges",
    "sample_paths",
    "top_paths",
]
