"""Numba, set up so that compiled kernels are kept on disk wherever that is possible.

The cache lies beside the source, or, where that is read-only (a cluster's site-packages), below the user's or the
system's temporary directory. Each version of a kernel has a directory of its own: Numba sees neither that a function
which a kernel calls has changed, nor that a class that its index names has. So the directory is named after the sources
of the kernel's module and of all kernel modules that this one imports.

Before an inner loop, kernels give arrays out of tuples names of their own: each look at a field of a tuple of arrays
counts references. The survey of bursts took 300 ns an event with such looks in its inner loops, and takes 11 without.
Where such a loop writes to arrays, even what came out of a tuple may be fetched again after each write, so a kernel
that does little else takes its arrays one by one: a walk takes half the time for it. Building graphs gains nothing.
"""

from __future__ import annotations

import getpass
import hashlib
import os
import re
import tempfile
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar, cast

from cetdsl.errors import MissingDependency

try:
    import numba
except ImportError as error:  # pragma: no cover - needs an environment without numba
    raise MissingDependency(
        "the kernel strategy needs Numba on every executor, and it cannot be imported here",
        hint="pip install numba in the Python environment of every executor",
    ) from error

_Function = TypeVar("_Function", bound=Callable[..., Any])
_numba_config: Any = import_module("numba.core.config")
_HERE = Path(__file__).parent
_IMPORT = re.compile(r"^\s*from cetdsl\.kernels\.([\w.]+) import", re.MULTILINE)


@cache
def _imports(source: Path) -> frozenset[Path]:
    """A module and the kernel modules that it imports, directly or not."""
    found: set[Path] = set()
    waiting = [source]
    while waiting:
        module = waiting.pop()
        if module not in found and module.exists():
            found.add(module)
            waiting += [
                _HERE / f"{name.replace('.', '/')}.py" for name in _IMPORT.findall(module.read_text(encoding="utf-8"))
            ]
    return frozenset(found)


@cache
def _version(source: Path) -> str:
    digest = hashlib.sha256(numba.__version__.encode())
    for module in sorted(_imports(source)):
        digest.update(module.read_bytes())
    return digest.hexdigest()[:16]


def _writable(directory: Path) -> bool:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(directory, os.W_OK)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return str(os.getuid()) if hasattr(os, "getuid") else "user"


@cache
def cache_directory(source: Path) -> str:
    """Where the compiled kernels of a module are kept: the first writable place."""
    places = [_HERE / "__pycache__", Path(tempfile.gettempdir()) / f"cetdsl-{_user()}"]
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given:
        places.insert(0, Path(given))
    name = f"kernels-{_version(source)}"
    for place in places:
        if _writable(place / name):
            return str(place / name)
    return tempfile.mkdtemp(prefix="cetdsl-")


def jit(function: _Function) -> _Function:
    """``numba.njit`` with the disk cache; ``nogil`` because kernels touch arrays only."""
    return _compile(function, forceinline=False)


def inlined(function: _Function) -> _Function:
    """As :func:`jit`, for small functions in inner loops: a call would copy each array's descriptor."""
    return _compile(function, forceinline=True)


def _compile(function: _Function, *, forceinline: bool) -> _Function:
    # The place is fixed when the function is decorated; other users of Numba in this process keep theirs.
    before = _numba_config.CACHE_DIR
    _numba_config.CACHE_DIR = cache_directory(Path(function.__code__.co_filename))
    try:
        compiled: Any = numba.njit(cache=True, nogil=True, error_model="numpy", forceinline=forceinline)(function)
    finally:
        _numba_config.CACHE_DIR = before
    return cast(_Function, compiled)
