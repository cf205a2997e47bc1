"""Memory that was freed is given back to the system."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cetdsl.kernels import _heap

SCATTERED = """
from cetdsl.kernels._heap import _resident, give_back

held = [bytearray(64_000) for _ in range(2_000)]
most = _resident()
held = held[-1:]
give_back()
print(most - _resident())
"""


@pytest.mark.skipif(_heap._trim() is None, reason="this library of C gives nothing back")
def test_what_was_freed_is_given_back() -> None:
    """128 MB in small pieces, of which the last one is still held, so that C's allocator would keep the others."""
    done = subprocess.run([sys.executable, "-c", SCATTERED], check=True, capture_output=True, text=True)
    assert int(done.stdout) > 100_000_000


def test_systems_that_give_nothing_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: None) -> object:
        raise OSError(name)

    monkeypatch.setattr(_heap.ctypes, "CDLL", missing)
    assert _heap._trim.__wrapped__() is None
