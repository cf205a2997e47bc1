"""Spark's daemon, from which it forks Python workers, with the kernels loaded already.

When a job fails or is stopped early, as by ``first()``, its worker ends too. The next worker would load Numba and the
kernels anew, which takes most of the time of a small test.
"""

from __future__ import annotations

import gc
import importlib
import os
import pkgutil
import sys
from contextlib import suppress
from zipimport import zipimporter

import numba
from compile_once import compile_once
from pyspark import daemon, worker  # noqa: F401 - what every worker imports

import cetdsl.kernels

with suppress(ImportError):
    import pandas  # noqa: F401 - where it is installed, PyArrow imports it with the first column that it makes

for module in pkgutil.walk_packages(cetdsl.kernels.__path__, "cetdsl.kernels."):
    importlib.import_module(module.name)

compile_once()
numba.njit(lambda number: number)(1)  # to make the compiler ready takes longer than to load a kernel

# Each worker clears Python's import caches, and Python would then read the list of each archive on its path anew. The
# archives that Spark puts there, a jar among them, hold only modules that are loaded by now.
sys.path[:] = [entry for entry in sys.path if os.path.isdir(entry)]
for entry in [entry for entry, finder in sys.path_importer_cache.items() if isinstance(finder, zipimporter)]:
    del sys.path_importer_cache[entry]

# After each task a worker looks through all its objects for garbage; those that exist by now are none.
gc.freeze()

if __name__ == "__main__":
    daemon.manager()
