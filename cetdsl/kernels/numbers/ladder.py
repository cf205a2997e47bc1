"""The ladder of number systems: doubles, scaled numbers beyond their range, and residues where every digit counts.

Numbers come in tables with a row per slice (or window) and a column per accumulator. A *pass* of some kernel computes
chosen rows in one number system. The ladder decides which rows need which system, and restores whole numbers from
residues. Passes only add and multiply. The *magnitude* of a number is what they would compute if all weights had their
absolute values, so it bounds all intermediate results: if it is below ``2**53``, neither doubles nor scaled numbers
have rounded the number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cetdsl.kernels.numbers.residues import Residues, whole_numbers
from cetdsl.kernels.numbers.scaled import (
    Objects,
    Scaled,
    from_residues,
    from_scaled,
    nearest_whole,
    primes_below,
    settled,
    to_scaled,
)
from cetdsl.kernels.vocabulary import Bools, Ints

#: Doubles hold whole numbers of so many bits exactly, ...
DOUBLE_BITS = 53
#: ... which are those below this.
EXACT_DOUBLE = 2.0**DOUBLE_BITS
#: An event may double a count, so a slice with more events is likely to overflow doubles, which hold ``2**1023``.
FEW_EVENTS = 900
#: Counts of more bits are likely to leave the range of doubles once they are multiplied by weights.
RANGE_BITS = 1000
#: Counts of more bits are not computed exactly for a DECIMAL(38), whose largest number has 127 bits.
DECIMAL_BITS = 128
#: How many bits a number needs beyond those of its rounded magnitude: for the rounding error, and for the sign.
_SPARE_BITS = 3


class Moduli(NamedTuple):
    """Primes just below ``2**bits`` that residues are taken modulo.

    The first pass takes ``first`` of them; each later pass takes as many as all before it, but never more than
    ``most``. The residues of one pass lie side by side in memory.
    """

    bits: int
    first: int
    most: int

    def needed(self, bits: NDArray[np.float64]) -> Ints:
        """Returns how many primes determine signed numbers of ``bits`` bits; 0 where the bits are negative.

        Examples
        --------
        >>> MULTIPLIED.needed(np.array([-1.0, 0, 40, 1000])).tolist()
        [0, 1, 1, 21]
        """
        return np.where(bits < 0, 0, np.ceil((bits + _SPARE_BITS) / (self.bits - 1))).astype(np.int64)

    def primes(self, count: int) -> Residues:
        """The first primes, in falling order."""
        # Found in batches, so that a slightly larger count finds them in the cache.
        batch = 1 << max(count - 1, 15).bit_length()  # at least 16
        return np.array(primes_below(self.bits, batch)[:count], dtype=np.uint64)


#: For residues that are only added: the sum of two fits 64 bits.
ADDED = Moduli(62, 8, 8)
#: The same for a kernel that takes one prime at a time.
ADDED_ALONE = ADDED._replace(first=1, most=1)
#: For residues that are multiplied by weights, which are residues themselves: the product fits 64 bits.
WEIGHED = Moduli(31, 1, 1)
#: For residues that are multiplied, modulo several primes side by side: the quotient of a product is guessed in
#: doubles, see :mod:`~cetdsl.kernels.numbers.linear`. The first pass takes few primes, as most counts need no more.
MULTIPLIED = Moduli(50, 2, 16)
#: The same for a kernel that takes one prime at a time.
MULTIPLIED_ALONE = MULTIPLIED._replace(first=1, most=1)

#: Gives the accumulators of some rows, shape (rows, accumulators), in ``np.float64`` or (scaled) in ``np.complex128``.
RoundedPass = Callable[[Any, Ints], NDArray[Any]]
#: Gives the residues of some rows modulo some primes, shape (rows, accumulators, primes).
ResiduePass = Callable[[Ints, Residues], Residues]


def likely_beyond(sizes: Ints, longest: int) -> Bools:
    """Whether counts over slices of these sizes are likely to leave the range of doubles.

    A trend has at most ``longest`` events (0: any number), so a slice has no more trends than the power of its size
    with this exponent.

    Examples
    --------
    >>> likely_beyond(np.array([100, 1_000]), 0), likely_beyond(np.array([1_000, 10**6]), 2)
    (array([False,  True]), array([False, False]))
    """
    return sizes > FEW_EVENTS if not longest else np.log2(np.maximum(sizes, 1)) * longest > RANGE_BITS


def rounded(one_pass: RoundedPass, long: Bools, accumulators: int) -> Scaled:
    """Computes all accumulators rounded: in doubles, and in scaled numbers for the rows that leave their range.

    Rows that are ``long``, a mask of shape (rows,), are likely to overflow, so no doubles are tried for them.
    """
    out: Scaled = np.zeros((len(long), accumulators), dtype=np.complex128)
    unfit, short = long.copy(), np.flatnonzero(~long)
    if len(short):
        doubles = one_pass(np.float64, short)
        out[short] = to_scaled(doubles)
        unfit[short] = ~np.isfinite(doubles).all(axis=1)
    beyond = np.flatnonzero(unfit)
    if len(beyond):
        out[beyond] = settled(one_pass(np.complex128, beyond))
    return out


def exact(one_pass: ResiduePass, scaled: Scaled, magnitudes: Scaled, most_bits: Any, moduli: Moduli) -> Objects:
    """Computes whole numbers: from the rounded ones if doubles have not rounded them, else from residues.

    ``scaled`` are the rounded numbers, and ``magnitudes`` what they would be if nothing cancelled out, both of shape
    (rows, accumulators), to which ``most_bits`` is broadcast. A row in which a number has more bits than ``most_bits``
    will end in an error that says how large the number is, so nothing in it is computed exactly.
    """
    table = np.zeros(scaled.shape, dtype=object)
    bits = np.where(magnitudes.real != 0, magnitudes.imag, 0.0).max(axis=1, initial=0.0)
    easy = bits <= DOUBLE_BITS
    table[easy] = from_scaled(scaled[easy]).astype(np.int64).astype(object)
    doomed = ~easy[:, None] & (magnitudes.real > 0) & (magnitudes.imag > most_bits)
    table[doomed] = [nearest_whole(value) for value in magnitudes[doomed]]
    needed = moduli.needed(np.where(easy | doomed.any(axis=1), -1.0, bits))
    primes = moduli.primes(int(needed.max(initial=0)))
    combine = whole_numbers if moduli == MULTIPLIED else from_residues
    rows, begin, blocks = np.flatnonzero(needed), 0, list[Residues]()
    while len(rows):
        end = min(begin + min(max(moduli.first, begin), moduli.most), len(primes))
        blocks.append(one_pass(rows, primes[begin:end]))
        for count in np.unique(needed[rows[needed[rows] <= end]]):
            ready = needed[rows] == count
            residues = np.concatenate([block[ready] for block in blocks], axis=2)[:, :, :count]
            found = combine(residues.reshape(-1, count).T, primes[:count])
            table[rows[ready]] = found.reshape(-1, scaled.shape[1])
        waiting = needed[rows] > end
        begin = end
        if not waiting.all():  # else each pass would copy all passes before it
            rows, blocks = rows[waiting], [block[waiting] for block in blocks]
    return table
