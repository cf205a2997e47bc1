"""Spark's daemon, from which it forks Python workers, with the kernels loaded already.

A job that is stopped early, as by ``first()``, takes its worker with it, and the next one would load Numba and the
kernels anew: most of the time that a small test takes.
"""

from __future__ import annotations

import importlib
import pkgutil

from compile_once import compile_once
from pyspark import daemon, worker  # noqa: F401 - what every worker imports

import cetdsl.kernels

for module in pkgutil.walk_packages(cetdsl.kernels.__path__, "cetdsl.kernels."):
    importlib.import_module(module.name)

compile_once()

if __name__ == "__main__":
    daemon.manager()
