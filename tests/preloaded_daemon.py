"""Spark's daemon, from which it forks Python workers, with the kernels loaded already.

A job that fails, or that is stopped early, as by ``first()``, takes its worker with it, and the next one would load
Numba and the kernels anew: most of the time that a small test takes.
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

# Each worker has Python forget what it knows of its path, and of an archive there it would at once read the list anew.
# Those that Spark puts there, a jar among them, hold no module but what is loaded by now.
sys.path[:] = [entry for entry in sys.path if os.path.isdir(entry)]
for entry in [entry for entry, finder in sys.path_importer_cache.items() if isinstance(finder, zipimporter)]:
    del sys.path_importer_cache[entry]

# After each task a worker looks through all its objects for garbage; what is here by now is none.
gc.freeze()

if __name__ == "__main__":
    daemon.manager()
