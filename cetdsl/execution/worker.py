"""The functions that Spark ships to its Python workers.

They are pickled by value and import cetdsl only when they run, so that an executor without cetdsl or Numba says what
to install instead of failing while it unpickles.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from cetdsl.errors import SAME_PYTHON
from cetdsl.execution.compat import leave_batches_unmeasured, refuse_unsendable


def map_stage(
    df: DataFrame, stage: str, plan: Any, schema: StructType | str, remark: str = "", kept_shares: int = 0
) -> DataFrame:
    """Returns the DataFrame that a stage of :mod:`cetdsl.kernels.entry` makes of each task's rows.

    Spark's plan shows the name of the stage, and the ``remark``. If a stream keeps the result in ``kept_shares`` shares
    of the keys (0: it does not), a checkpoint with another number of shares is refused before anything is read.
    """
    payload, line = pickle.dumps(plan), SAME_PYTHON

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        import os

        try:
            try:
                from cetdsl.kernels.entry import run_stage
            except ImportError as error:
                # A class with the name that recover() looks for, as the real class cannot be imported here either.
                missing = type("MissingDependency", (ImportError,), {"__module__": "cetdsl.errors"})
                raise missing(
                    f"a Python worker cannot import cetdsl's kernels: {error}\n"
                    "  hint: install the same cetdsl (with Numba) in the Python environment of every executor; on one "
                    f"machine, write this before the session starts: {line}"
                ) from None
            if kept_shares:
                from pyspark import TaskContext

                from cetdsl.errors import SHARES, OtherState
                from cetdsl.ir.keeping import KEPT_SHARES

                context = TaskContext.get()
                if context is not None:
                    OtherState.refuse_shares(kept_shares, *map(context.getLocalProperty, (SHARES, KEPT_SHARES)))
            yield from run_stage(stage, payload, batches)
        except Exception as error:
            if type(error).__module__ == "cetdsl.errors":
                # Spark then passes on only the message. The worker process ends with the error, so that no other
                # traceback is hidden.
                os.environ["SPARK_HIDE_TRACEBACK"] = "1"
            raise

    run.__name__ = f"{stage}, {remark}" if remark else stage
    if not isinstance(schema, str):
        refuse_unsendable(schema)
    leave_batches_unmeasured(df.sparkSession)
    return df.mapInArrow(run, schema)
