"""Of the processes that come to a kernel which nobody has compiled yet, one compiles it and the others wait for it.

The processes of pytest and the workers of their Spark sessions run the same few kernels at much the same time. On a
machine with as many cores as it has processes they may all compile; here the others' time is better spent otherwise.
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
    """Has Numba look for the machine code of a kernel, compile it and write it down while others wait."""
    if fcntl is None:
        return
    plain, file = Dispatcher.compile, os.open(_FOLDER / "tests-compile.lock", os.O_RDWR | os.O_CREAT, 0o600)

    def compile_alone(dispatcher: Any, signature: Any) -> Any:
        cached = getattr(dispatcher._cache, "cache_path", None)
        if cached is None:
            return plain(dispatcher, signature)
        name = f"{cached} {dispatcher.py_func.__module__}.{dispatcher.py_func.__qualname__}"
        # A thread that waited for the lock of the compiler only when it has that of the kernel could wait for ever.
        with global_compiler_lock, _alone(file, zlib.crc32(name.encode())):
            return plain(dispatcher, signature)

    Dispatcher.compile = compile_alone


@contextmanager
def _alone(file: int, number: int) -> Iterator[None]:
    """While this process, and none of the others, has the byte of that number in a file: it need not exist.

    Locks end with their process. A kernel's callees are locked while it is; as no kernel calls itself by any chain, no
    circle of processes waits but where two numbers are the same by chance, and then the system refuses one lock.
    """
    with suppress(OSError):
        fcntl.lockf(file, fcntl.LOCK_EX, 1, number)
    try:
        yield
    finally:
        fcntl.lockf(file, fcntl.LOCK_UN, 1, number)
