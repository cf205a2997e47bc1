"""Gives memory that was freed back to the system, of which C's allocator keeps much.

It keeps what lies between pieces that are still held: of a task that sorted and packed batches of a megabyte, a hundred
megabytes may remain. Arrays of tens of megabytes, as kernels make them of many events, are never taken from there.

To do so after each task as well takes 3 % longer for ten million events of 10,000 keys, and workers hold as much.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

#: To give back less than so many bytes is not worth looking for them.
_WORTH = 32 << 20


class _Heap:
    """The heap of this process: how many bytes the process held when memory was given back last."""

    def __init__(self) -> None:
        self._held = 0

    def give_back(self) -> None:
        """Gives back what was freed, where the system can, unless the process has hardly grown since the last time."""
        trim = _trim()
        if trim is not None and _resident() > self._held + _WORTH:
            trim(0)
            self._held = _resident()


give_back = _Heap().give_back


@cache
def _trim() -> Callable[[int], int] | None:
    """Returns the function of glibc that gives memory back; other libraries of C have none."""
    try:
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    return found


def _resident() -> int:
    """Returns how many bytes of memory this process has; 0 where the system does not tell: then none is given back."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
