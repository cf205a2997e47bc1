"""Gives freed memory back to the system, because C's allocator keeps much of it.

The allocator keeps freed memory that lies between pieces still in use: a hundred megabytes may remain of a task that
sorted and packed batches of a megabyte. It never uses them for arrays of tens of megabytes, such as kernels make of
many events.

It is not worth giving memory back after each task as well: ten million events of 10,000 keys then take 3 % longer, and
workers hold as much memory.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

#: The fewest bytes that are worth the search for free memory.
_WORTH = 32 << 20


class _Heap:
    """The heap of this process; it remembers how many bytes the process held when memory was given back last."""

    def __init__(self) -> None:
        self._held = 0

    def give_back(self) -> None:
        """Gives freed memory back, if the allocator can, unless the process has hardly grown since the last time."""
        trim = _trim()
        if trim is not None and _resident() > self._held + _WORTH:
            trim(0)
            self._held = _resident()


give_back = _Heap().give_back


@cache
def _trim() -> Callable[[int], int] | None:
    """Returns the function of glibc that gives memory back; None with other C libraries."""
    try:
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    return found


def _resident() -> int:
    """Returns how many bytes of memory this process holds; 0 if the system does not tell, so none is given back."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
