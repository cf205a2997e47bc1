"""Functions that travel to the Python workers.

They are pickled by value and import cetdsl only when they run, so that an executor without cetdsl or Numba says what
to install instead of failing while it unpickles.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from cetdsl.execution.compat import refuse_unsendable


def map_stage(df: DataFrame, stage: str, plan: Any, schema: StructType) -> DataFrame:
    """Returns the DataFrame that a stage of :mod:`cetdsl.kernels.entry` makes of each task's rows."""
    payload = pickle.dumps(plan)

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        try:
            from cetdsl.kernels.entry import run_stage
        except ImportError as error:
            raise ImportError(
                f"a Python worker of this cluster cannot import cetdsl's kernels: {error}\n"
                "  hint: install the same cetdsl (with Numba) in the Python environment of every executor"
            ) from error
        return run_stage(stage, payload, batches)

    refuse_unsendable(schema)
    return df.mapInArrow(run, schema)
