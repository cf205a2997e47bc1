"""Has one process alone compile a kernel that several processes need: the others wait, and then load it from disk.

The processes of pytest and the workers of their Spark sessions run the same few kernels at much the same time. If each
of them had a core to itself, all might as well compile. Where cores are fewer, they have better things to do.
"""

from __future__ import annotations

import os
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

from cetdsl.kernels._disk import place

try:
    import fcntl
except ImportError:  # pragma: no cover - only Unix has these locks, and elsewhere each process compiles for itself
    fcntl = None

_FOLDER = place() or Path(tempfile.gettempdir())


def compile_once() -> None:
    """Has Numba hold a lock while it looks for the machine code of a kernel on disk, compiles it and writes it down."""
    if fcntl is None:
        return
    plain, file = Dispatcher.compile, os.open(_FOLDER / "tests-compile.lock", os.O_RDWR | os.O_CREAT, 0o600)

    def compile_alone(dispatcher: Any, signature: Any) -> Any:
        cached = getattr(dispatcher._cache, "cache_path", None)
        if cached is None:
            return plain(dispatcher, signature)
        name = f"{cached} {dispatcher.py_func.__module__}.{dispatcher.py_func.__qualname__}"
        # The compiler's lock comes first: a thread that waited for it while it holds a kernel's could wait for ever.
        with global_compiler_lock, _alone(file, zlib.crc32(name.encode())):
            return plain(dispatcher, signature)

    Dispatcher.compile = compile_alone


@contextmanager
def _alone(file: int, number: int) -> Iterator[None]:
    """Locks one byte of a file against other processes while the block runs; the byte need not exist.

    A lock ends with its process. A process that holds the lock of a kernel takes those of the kernels that it calls. As
    calls form no cycle, processes do not wait for each other in a cycle, unless two kernels have the same number by
    chance; then the system refuses a lock.
    """
    with suppress(OSError):
        fcntl.lockf(file, fcntl.LOCK_EX, 1, number)
    try:
        yield
    finally:
        fcntl.lockf(file, fcntl.LOCK_UN, 1, number)
