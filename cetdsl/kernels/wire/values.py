"""Reads the columns whose values are aggregated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cetdsl.aggregates.vocabulary import Update
from cetdsl.kernels.numbers.moments import Deviations, deviations_of_doubles, deviations_of_integers
from cetdsl.kernels.numbers.scaled import Objects
from cetdsl.kernels.vocabulary import Bools, Ints
from cetdsl.kernels.wire.columns import from_numpy, order_codes, to_numpy, unscaled_integers, validity


class ValueColumn:
    """A column whose values are aggregated, in the forms that kernels need; costly forms are computed once.

    ``starts`` says where each key's values begin, and where the last ones end; by default all are of one key.
    """

    def __init__(self, array: pa.Array, starts: Ints | None = None) -> None:
        self.array = array
        self._starts = np.array([0, len(array)]) if starts is None else starts
        self._ranked: tuple[Ints, pa.Array] | None = None
        self._deviations: Deviations | None = None

    @property
    def is_exact(self) -> bool:
        """Whether sums of the column are whole numbers of its last digit."""
        return bool(pa.types.is_integer(self.array.type) or pa.types.is_decimal(self.array.type))

    def doubles(self) -> NDArray[np.float64]:
        """The values as doubles, in units of a decimal's last digit; NULL is 0."""
        if pa.types.is_decimal(self.array.type):
            return np.array(unscaled_integers(self.array), dtype=np.float64)
        # Not every long integer has a double, so some are rounded.
        return to_numpy(self.array.cast(pa.float64(), safe=False))

    def deviations(self) -> Deviations:
        """The deviations of the values from the median of their key."""
        if self._deviations is None:
            present = validity(self.array)
            if self.is_exact:
                self._deviations = deviations_of_integers(unscaled_integers(self.array), present, self._starts)
            else:
                self._deviations = deviations_of_doubles(self.doubles(), present, self._starts)
        return self._deviations

    def weights(self, update: Update, whole: bool) -> NDArray[np.float64]:
        """Returns what each event adds to an accumulator, as doubles.

        ``whole`` says whether the accumulator is also computed as a whole number; then moments need no deviations.
        """
        if update.power == 0:
            return self._counted(update).astype(np.float64)
        values = self.deviations().values if update.moment and not whole else self.doubles()
        return values if update.power == 1 else values**update.power

    def whole_weights(self, update: Update) -> Ints | Objects:
        """Returns what each event adds to an accumulator, as whole numbers: Python's where 64 bits are too few."""
        if update.power == 0:
            return self._counted(update).astype(np.int64)
        found: Any = unscaled_integers(self.array)
        values = np.array(found, dtype=object) if isinstance(found, list) else found
        if update.power > 1 and len(values) and max(-int(values.min()), int(values.max())) >= 1 << 63 // update.power:
            values = values.astype(object)
        powers: Ints | Objects = values**update.power
        return powers

    def residues(self, update: Update, prime: int) -> NDArray[np.uint64]:
        """Returns what each event adds to an accumulator, modulo a prime."""
        if update.power == 0:
            return self._counted(update).astype(np.uint64)
        if update.power > 1 and prime >> 32:
            # Products of residues would not fit 64 bits.
            return (self.whole_weights(update) % prime).astype(np.uint64)
        whole = unscaled_integers(self.array)
        if isinstance(whole, list):
            residues = np.array([value % prime for value in whole], dtype=np.uint64)
        else:
            residues = (whole % np.int64(prime)).astype(np.uint64)
        power = residues
        for _ in range(update.power - 1):
            power = power * residues % np.uint64(prime)
        return power

    def _counted(self, update: Update) -> Bools:
        if not update.odd:
            return validity(self.array)
        return np.zeros(len(self.array), dtype=np.bool_) if self.is_exact else self.deviations().odd

    def ranks(self) -> tuple[Ints, pa.Array]:
        """Returns the rank of each value among the distinct ones, from 1 (0 for NULL), and the value of each rank."""
        if self._ranked is None:
            codes, valid = order_codes([self.array])
            _, first, inverse = np.unique(codes[0], return_index=True, return_inverse=True)
            # If NULL shares its code with a value, the code must stand for the value.
            present = np.nonzero(valid[0])[0]
            first[inverse[present]] = present
            ranks = np.where(valid[0], inverse.reshape(-1) + 1, 0)
            self._ranked = ranks.astype(np.int64), self.array.take(from_numpy(first))
        return self._ranked
