"""Numba, set up so that compiled kernels are kept on disk wherever that is possible.

Numba writes its cache beside the source; on a cluster that directory is often read-only and there may be no home
directory, so a directory below the system's temporary one is used then.
"""

from __future__ import annotations

import getpass
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from cetdsl.errors import MissingDependency

try:
    import numba
except ImportError as error:  # pragma: no cover - needs an environment without numba
    raise MissingDependency(
        "the kernel strategy needs Numba on every executor, and it cannot be imported here",
        hint="pip install numba on the workers, or let the fold strategy answer (no adjacent predicates)",
    ) from error

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _cache_directory() -> str | None:
    if os.environ.get("NUMBA_CACHE_DIR") or os.access(Path(__file__).parent, os.W_OK):
        return None
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid()) if hasattr(os, "getuid") else "user"
    return str(Path(tempfile.gettempdir()) / f"cetdsl-kernels-{user}")


_directory = _cache_directory()
if _directory is not None:
    numba.config.CACHE_DIR = _directory


def jit(function: _Function) -> _Function:
    """``numba.njit`` with the disk cache; ``nogil`` because kernels touch arrays only."""
    compiled: _Function = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    return compiled
