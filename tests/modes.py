"""Which parameters of a test run on which kind of Spark (see ``conftest.py``), and settings that make tests fast."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pyspark
import pytest

#: Tests run thousands of small plans: a JVM that compiles quickly ends sooner than one that compiles well. By default
#: it has 48 MB for compiled code. After some minutes they are full: it throws code away, interprets and recompiles it.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=512m"
#: Settings by which Spark interprets plans rather than compiles them, plans once rather than after each shuffle, and
#: does not infer constraints from aliases of columns, which takes half of the time of planning where a graph is joined.
#: They save half of the time. There are then also as many tasks as the session says, where Spark would join small ones.
SIMPLE_PLANS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.constraintPropagation.enabled": "false",
}
#: The setting by which Java itself moves the files of a checkpoint, if Spark knows it. Otherwise Java starts a process
#: for each file, more than a hundred in every micro-batch, which takes a fifth of the time. Tests that kill a driver do
#: not use it, as users do not.
_SINCE, _MANAGER = (4, 3), "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
_IS_KNOWN = tuple(map(int, pyspark.__version__.split(".")[:2])) >= _SINCE
OWN_FILES = {"spark.sql.streaming.checkpointFileManagerClass": _MANAGER} if _IS_KNOWN else {}


def more_on_classic(first: Any, *more: Any) -> list[Any]:
    """Parameters of which Spark Connect tries only the first, since it makes the same plans as classic Spark."""
    return [first, *(pytest.param(*_values(each), marks=pytest.mark.classic) for each in more)]


def _values(case: Any) -> Iterable[Any]:
    return case if isinstance(case, tuple) else (case,)


@contextmanager
def settings(spark: Any, values: dict[str, str]) -> Iterator[None]:
    """Gives the session some settings while the block runs."""
    before = {name: spark.conf.get(name, None) for name in values}
    for name, value in values.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)
