"""Copies from one array into another, for compiled code.

``target[:] = source`` would do the same. But for the message of the error that both differ in length, Numba then also
compiles how strings are joined and numbers are formatted, which takes four seconds of the first query in each process
that compiles.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from cetdsl.kernels._jit import inlined


@inlined
def copy(target: NDArray[Any], source: NDArray[Any]) -> None:
    """Writes an array into the first entries of another one, which has room for it."""
    for k in range(len(source)):
        target[k] = source[k]


@inlined
def copy_rows(target: NDArray[Any], source: NDArray[Any]) -> None:
    """Writes a table into the first rows of another one, which has at least as many rows and columns."""
    for row in range(len(source)):
        for column in range(source.shape[1]):
            target[row, column] = source[row, column]
