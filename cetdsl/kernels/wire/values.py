"""The columns that aggregates run over."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cetdsl.kernels.vocabulary import Ints
from cetdsl.kernels.wire.columns import from_numpy, order_codes, unscaled_integers, validity, weights_of


class ValueColumn:
    """A column that aggregates run over, converted on first use."""

    def __init__(self, array: pa.Array) -> None:
        self.array = array
        self._ranked: tuple[Ints, pa.Array] | None = None

    @property
    def is_exact(self) -> bool:
        """Whether sums of the column are whole numbers of its last digit."""
        return bool(pa.types.is_integer(self.array.type) or pa.types.is_decimal(self.array.type))

    def doubles(self) -> NDArray[np.float64]:
        """The values as doubles, in units of a decimal's last digit; NULL is 0."""
        if pa.types.is_decimal(self.array.type):
            return np.array(unscaled_integers(self.array), dtype=np.float64)
        return weights_of(self.array)[0]

    def present(self) -> NDArray[np.float64]:
        """1 where the value is not NULL."""
        present: NDArray[np.float64] = validity(self.array).astype(np.float64)
        return present

    def residues(self, prime: int) -> NDArray[np.uint64]:
        """The whole numbers modulo a prime."""
        whole = unscaled_integers(self.array)
        if isinstance(whole, list):
            return np.array([value % prime for value in whole], dtype=np.uint64)
        return (whole % np.int64(prime)).astype(np.uint64)

    def ranks(self) -> tuple[Ints, pa.Array]:
        """Ranks from 1 (0 for NULL), and the value of each rank."""
        if self._ranked is None:
            codes, valid = order_codes([self.array])
            _, first, inverse = np.unique(codes[0], return_index=True, return_inverse=True)
            # Where NULLs share a code with a value, the value must be the one that represents it.
            present = np.nonzero(valid[0])[0]
            first[inverse[present]] = present
            ranks = np.where(valid[0], inverse.reshape(-1) + 1, 0)
            self._ranked = ranks.astype(np.int64), self.array.take(from_numpy(first))
        return self._ranked
