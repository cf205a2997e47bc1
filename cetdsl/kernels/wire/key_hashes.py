"""Hashes of keys, which do not depend on what other keys there are, and so are the same in all parts of a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cetdsl.kernels._jit import jit
from cetdsl.kernels.numbers.mixing import Words, mixed
from cetdsl.kernels.vocabulary import Ints
from cetdsl.kernels.wire.columns import nested_text, order_codes, validity

_WORD = 8
#: What stands for NULL.
_ABSENT = np.uint64(0x9E3779B97F4A7C15)


def hashes_of(keys: Sequence[pa.Array], count: int, salt: int = 0) -> Ints:
    """Returns hashes of ``count`` keys, given by columns; equal keys have equal hashes, NULL included.

    Different keys rarely have the same hash, and those that have are most likely told apart with another ``salt``.

    Examples
    --------
    >>> first, second, again = hashes_of([pa.array(["a", None, "a"]), pa.array([0.0, 1.0, -0.0])], 3).tolist()
    >>> first == again, first == second
    (True, False)
    """
    hashes = np.full(count, salt, dtype=np.uint64)
    for key in keys:
        hashes = mixed(hashes + _ABSENT)
        words, absent = _words(key, hashes), ~validity(key)
        hashes = mixed(np.where(absent, hashes ^ _ABSENT, words))
    return hashes.view(np.int64)


def _words(key: pa.Array, salts: Words) -> Words:
    """Returns a word for each value of a column, computed of the value and of its word in ``salts``."""
    if pa.types.is_nested(key.type):
        key = nested_text(key)
    found = _bytes_of(key)
    if found is not None:
        return _hash_bytes(*found, salts)
    codes: Words = order_codes([key])[0][0].view(np.uint64)
    return codes ^ salts


def _bytes_of(key: pa.Array) -> tuple[Ints, NDArray[np.uint8]] | None:
    """Returns where each value begins in the bytes of a column, and where the last ends; None for values of 8 bytes."""
    kind = key.type
    if pa.types.is_decimal(kind):
        begins = np.arange(key.offset, key.offset + len(key) + 1) * kind.byte_width
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        begins = _offsets(key, np.int32)
    elif pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        begins = _offsets(key, np.int64)
    else:
        return None
    return begins, np.frombuffer(key.buffers()[-1] or b"", dtype=np.uint8)


def _offsets(key: pa.Array, kind: type[np.signedinteger[Any]]) -> Ints:
    offsets = np.frombuffer(key.buffers()[1], dtype=kind)
    return offsets[key.offset : key.offset + len(key) + 1].astype(np.int64)


@jit
def _hash_bytes(begins: Ints, data: NDArray[np.uint8], salts: Words) -> Words:
    """Hashes byte strings; value ``i`` is ``data[begins[i]:begins[i + 1]]``."""
    hashes = np.empty(len(begins) - 1, dtype=np.uint64)
    for i in range(len(hashes)):
        low, high = begins[i], begins[i + 1]
        found = mixed(salts[i] + np.uint64(high - low))
        while low < high:
            word = np.uint64(0)
            for byte in range(min(_WORD, high - low)):
                word |= np.uint64(data[low + byte]) << np.uint64(_WORD * byte)
            found = mixed(found ^ word)
            low += _WORD
        hashes[i] = found
    return hashes
