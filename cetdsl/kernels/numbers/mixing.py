"""A hash of 64-bit words: the output function of SplitMix64 (Steele et al. 2014)."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from cetdsl.kernels._jit import inlined

Words = NDArray[np.uint64]
_Word = TypeVar("_Word", np.uint64, Words)

_FIRST_FACTOR, _SECOND_FACTOR = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@inlined
def mixed(word: _Word) -> _Word:
    """Applies the output function of SplitMix64 to a word or to each of several."""
    word = (word ^ (word >> np.uint64(30))) * _FIRST_FACTOR
    word = (word ^ (word >> np.uint64(27))) * _SECOND_FACTOR
    return word ^ (word >> np.uint64(31))
