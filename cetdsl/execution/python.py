"""Checks, before any job, whether Spark's Python workers can run kernels."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

from pyspark.sql import SparkSession

from cetdsl.errors import SAME_PYTHON, MissingDependency
from cetdsl.execution.compat import context_of

_NEEDED = ("cetdsl", "pyarrow", "numba", "numpy", "attr", "platformdirs")
_ASK = f"""
import importlib.util, json, sys
print(json.dumps([sys.version_info[:2], [name for name in {_NEEDED!r} if importlib.util.find_spec(name) is None]]))
"""


def require_worker_python(session: SparkSession) -> None:
    """Raises if the workers of a session on this machine use a Python that cannot run kernels.

    Spark starts ``PYSPARK_PYTHON``, or else the first ``python3`` of the path. This may be another Python than the
    current one, for example if the user started that of a virtual environment by its path. On clusters and on Spark
    Connect the driver cannot find out.

    Raises
    ------
    MissingDependency
        If there is no such Python, it is of another version, or it lacks a package.
    """
    context = context_of(session)
    if context is None or not (context.master or "").startswith("local"):
        return
    problem = _problem(context.pythonExec, frozenset({**os.environ, **context.environment}.items()))
    if problem:
        raise MissingDependency(
            f"Spark's Python workers would be {context.pythonExec!r}, and {problem}; this program is {sys.executable}",
            hint=f"write this before the Spark session starts (spark.stop() ends one that runs): {SAME_PYTHON}",
        )


@lru_cache(maxsize=8)
def _problem(command: str, environment: frozenset[tuple[str, str]]) -> str | None:
    """Returns why a command is no Python for workers; None if it is one."""
    found = shutil.which(command)
    if found is None:
        return "there is no such program"
    if _same(found, sys.executable):
        return None
    try:
        words = [found, "-c", _ASK]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True, env=dict(environment))
        version, missing = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return f"{found} is no Python that runs"
    if tuple(version) != sys.version_info[:2]:
        return f"{found} is Python {'.'.join(map(str, version))}"
    return f"{found} has no {' and no '.join(missing)}" if missing else None


def _same(one: str, other: str) -> bool:
    """Whether two programs are the same Python; those of two environments differ, even as links to the same file."""
    first, second = Path(one), Path(other)
    return first.parent.resolve() == second.parent.resolve() and first.resolve() == second.resolve()
