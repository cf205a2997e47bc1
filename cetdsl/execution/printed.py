"""Catches what an action prints to standard output, but not what other threads print meanwhile."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable
from typing import Any

#: Only one action is caught at a time, so that each restores the output that it replaced.
_PRINTING = threading.Lock()


class _OfOneThread:
    """Replaces an output: keeps what the thread that made it prints, and passes on what other threads print."""

    def __init__(self, output: Any) -> None:
        self._output, self._thread, self.kept = output, threading.get_ident(), io.StringIO()

    def write(self, text: str) -> int:
        own = threading.get_ident() == self._thread
        written: int = (self.kept if own else self._output).write(text)
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._output, name)


def printed(action: Callable[[], object]) -> str:
    r"""Returns what an action prints to the standard output of this process, instead of showing it.

    Examples
    --------
    >>> printed(lambda: print("a plan"))
    'a plan\n'
    """
    with _PRINTING:
        output = sys.stdout
        sys.stdout = caught = _OfOneThread(output)
        try:
            action()
        finally:
            sys.stdout = output
    return caught.kept.getvalue()
