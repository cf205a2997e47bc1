"""Where a worker's task begins: a stage's name and its pickled plan, Arrow batches in, Arrow batches out."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from cetdsl.errors import CetdslError
from cetdsl.kernels.merge import merge_stream, pair_stream
from cetdsl.kernels.stream import aggregate_stream

_Batches = Iterator[pa.RecordBatch]


def run_stage(stage: str, payload: bytes, batches: _Batches) -> _Batches:
    """Runs one stage over one task's batches.

    Parameters
    ----------
    stage : {"aggregate", "merge", "pairs", "trends"}
    payload : bytes
        The pickled :class:`~cetdsl.planning.physical.KernelSpec` (and more, for trends).
    batches : iterator of pyarrow.RecordBatch
    """
    plan = pickle.loads(payload)
    try:
        for columns in _STAGES[stage](plan, batches):
            yield pa.RecordBatch.from_arrays(columns, names=[f"r{number}" for number in range(len(columns))])
    except CetdslError as error:
        # Spark shows the worker's traceback; the frames of a kernel would only bury what went wrong.
        raise error.with_traceback(None) from None


def _trends(plan: Any, batches: _Batches) -> Iterator[list[pa.Array]]:
    # Enumeration has a kernel of its own, which an aggregation need not load.
    from cetdsl.kernels.trends import trend_stream

    return trend_stream(plan, batches)


_STAGES: dict[str, Callable[[Any, _Batches], Iterator[list[pa.Array]]]] = {
    "aggregate": aggregate_stream,
    "merge": merge_stream,
    "pairs": pair_stream,
    "trends": _trends,
}
