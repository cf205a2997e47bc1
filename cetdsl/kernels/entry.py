"""The entry point of a worker's task: a stage's name and its pickled plan, Arrow batches in, Arrow batches out."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any

import pyarrow as pa

from cetdsl.errors import CetdslError, GroupTooLarge, MissingDependency

# Arrow's own allocator would keep freed memory, a tenth of a worker's, and is no faster.
pa.set_memory_pool(pa.system_memory_pool())

_Batches = Iterator[pa.RecordBatch]

#: The module and the function of each stage. A worker loads only what its stage needs: kernels take time to load.
_STAGES = {
    "runs": ("wire.runs", "run_stream"),
    "parcels": ("wire.parcels", "parcel_stream"),
    "unpack": ("wire.parcels", "unpack_stream"),
    "order": ("wire.order", "order_stream"),
    "aggregate": ("aggregate.stream", "aggregate_stream"),
    "sweep": ("aggregate.stream", "sweep_stream"),
    "messages": ("aggregate.stream", "message_stream"),
    "merge": ("answers.merge", "merge_stream"),
    "pairs": ("answers.merge", "pair_stream"),
    "panes": ("aggregate.panes", "pane_stream"),
    "packed panes": ("aggregate.panes", "packed_pane_stream"),
    "panes in place": ("aggregate.panes", "in_place_stream"),
    "windows": ("aggregate.panes", "window_stream"),
    "stretches": ("aggregate.stretches", "stretch_stream"),
    "stretched windows": ("aggregate.stretches", "stretched_window_stream"),
    "trends": ("enumerate.trends", "trend_stream"),
    "detect": ("detect.trends", "detect_stream"),
    "choose": ("detect.choose", "choose_stream"),
    "measure detection": ("detect.measure", "measure_stream"),
    "measure choice": ("detect.measure", "measure_choice_stream"),
    "sample detection": ("detect.measure", "sample_stream"),
    "containment": ("complete.containment", "containment_stream"),
    "graph": ("complete.streams", "graph_stream"),
    "pieces": ("complete.pieces", "piece_stream"),
    "join pieces": ("complete.pieces", "join_stream"),
    "count": ("complete.streams", "count_stream"),
    "vertices": ("graph.vertices", "vertex_stream"),
    "survey": ("complete.streams", "survey_stream"),
    "sample": ("complete.picks", "sample_stream"),
    "top": ("complete.picks", "top_stream"),
    "first": ("answers.first", "first_stream"),
    "instances": ("instances.stream", "instance_stream"),
    "measure instances": ("instances.stream", "measure_stream"),
    "workload": ("shared.workload", "workload_stream"),
    "merge workload": ("shared.workload", "merge_workload"),
    "match rows": ("rows.stream", "match_stream"),
}


def run_stage(stage: str, payload: bytes, batches: _Batches) -> _Batches:
    """Runs a stage, a key of ``_STAGES``, over a task's batches; ``payload`` pickles one of :mod:`cetdsl.ir.stages`."""
    module, function = _STAGES[stage]
    try:
        stream: Any = getattr(import_module(f"cetdsl.kernels.{module}"), function)
    except (ImportError, OSError, MemoryError, SystemError) as error:  # libraries may not fit into its addresses
        raise MissingDependency(
            f"a Python worker cannot load the libraries of the kernels: {error}",
            hint="where spark.executor.pyspark.memory is set, give workers more: it bounds addresses, of which loading "
            "takes some 600 MB, to which Arrow's own allocator may add 1 GB without "
            "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL=system; otherwise install Numba anew on every executor",
        ) from None
    try:
        for columns in stream(pickle.loads(payload), batches):
            yield pa.RecordBatch.from_arrays(columns, names=[f"r{number}" for number in range(len(columns))])
        _settle(stage)
    except CetdslError as error:
        # Spark shows the worker's traceback; the frames of a kernel would only bury what went wrong.
        raise error.with_traceback(None) from None
    except MemoryError:
        # Where the kernel knows the group, it has said so.
        raise GroupTooLarge(
            f"a task of the stage {stage!r} needs more than this worker's memory",
            hint="shorten WITHIN, add partition columns or predicates, or give the Python workers more memory",
        ) from None


@cache
def _settle(stage: str) -> None:
    """Exempts what a stage has imported from garbage collection.

    Spark has a worker collect garbage after each task. Numba alone has so many objects that this takes 60 ms, more than
    a kernel takes for ten thousand events. All objects that exist after the first task of a stage are exempted.
    """
    gc.collect()
    gc.freeze()
