"""Products and weights: what linear expressions need beyond :mod:`~cetdsl.kernels.numbers.arithmetic`.

Residues modulo several primes are computed side by side: work per event or burst is then done once for all of them, and
the processor's vector registers are filled. A number is thus an array with an entry per prime; doubles and scaled
numbers are arrays of one entry.

Primes are below ``2**50``, so the quotient of a product can be guessed in doubles: it is off by one at most, which two
conditional subtractions correct.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from cetdsl.kernels._jit import inlined
from cetdsl.kernels.numbers.arithmetic import ADD, add_scaled, by_type, by_types, normalised
from cetdsl.kernels.vocabulary import Ints

#: Whole weights are cut into limbs of so many bits, so that sums of them fit 64 bits.
LIMB_BITS = 31

#: The lattice's zero where its numbers are multiplied. It is not -1, because lengths are negated to find the shortest.
NO_TREND = -(2**60)


class System(NamedTuple):
    """A number system, with tables of constants.

    ``prime`` has the system's type, and is a single zero unless the numbers are residues. The tables have a row per
    ``n`` and a column per prime: ``power`` is ``2**n`` and ``whole`` is ``n``; for residues only, ``halves`` is
    ``2**-n`` and ``inverse`` is ``1 / n``.
    """

    zero: Any
    one: Any
    prime: NDArray[Any]
    reciprocal: NDArray[np.float64]
    power: NDArray[Any]
    halves: NDArray[Any]
    whole: NDArray[Any]
    inverse: NDArray[Any]


class Weights(NamedTuple):
    """The numbers that events contribute to sums: rows of doubles, or of whole numbers in limbs.

    Row ``r`` is ``sum(limbs[k] * 2**(LIMB_BITS * (k - start[r])))`` over ``start[r] <= k < start[r + 1]``.
    """

    start: Ints
    limbs: NDArray[Any]


@by_types
def lanes(system: Any) -> Any:
    """Returns how many numbers are computed side by side: the constant 1 unless they are residues, to avoid a loop."""

    def modular(system: Any) -> Any:
        return len(system.prime)

    def alone(system: Any) -> Any:
        return 1

    return modular if isinstance(system.types[0], types.Integer) else alone


@by_types
def add(a: Any, b: Any, prime: Any) -> Any:
    """Adds like :func:`cetdsl.kernels.numbers.arithmetic.combine`, but without a branch that may be mispredicted."""

    def modular(a: Any, b: Any, prime: Any) -> Any:
        return min(a + b, a + b - prime)  # a negative difference wraps around to a very large number

    def rounded(a: Any, b: Any, prime: Any) -> Any:
        return a + b

    def scaled(a: Any, b: Any, prime: Any) -> Any:
        return add_scaled(a, b)

    def lattice(a: Any, b: Any, prime: Any) -> Any:
        return max(a, b)

    return by_type(a, rounded, scaled, lattice, modular)


@by_types
def multiply(a: Any, b: Any, prime: Any, reciprocal: Any) -> Any:
    """Multiplies; zero times anything is zero, even if the other factor is infinite.

    In the lattice a product is the larger of both values or, if ``prime`` is ``ADD``, their sum.
    """

    def modular(a: Any, b: Any, prime: Any, reciprocal: Any) -> Any:
        guess = np.uint64(np.int64(np.float64(np.int64(a)) * np.float64(np.int64(b)) * reciprocal))
        rest = a * b - guess * prime + prime
        return min(min(rest, rest - prime), min(rest, rest - prime) - prime)

    def rounded(a: Any, b: Any, prime: Any, reciprocal: Any) -> Any:
        return a * b if a != 0.0 and b != 0.0 else 0.0

    def scaled(a: Any, b: Any, prime: Any, reciprocal: Any) -> Any:
        if a.real == 0.0 or b.real == 0.0:
            return complex(0.0, 0.0)
        return normalised(a.real * b.real, a.imag + b.imag)

    def lattice(a: Any, b: Any, prime: Any, reciprocal: Any) -> Any:
        if a == NO_TREND or b == NO_TREND:
            return NO_TREND
        return a + b if prime == ADD else max(a, b)

    return by_type(a, rounded, scaled, lattice, modular)


@by_types
def less_one(a: Any, prime: Any) -> Any:
    """``a - 1`` for ``a >= 1``."""

    def modular(a: Any, prime: Any) -> Any:
        return min(a - np.uint64(1), a - np.uint64(1) + prime)

    def rounded(a: Any, prime: Any) -> Any:
        return a - 1.0

    def scaled(a: Any, prime: Any) -> Any:
        return add_scaled(a, complex(-0.5, 1.0))

    return modular if isinstance(a, types.Integer) else rounded if isinstance(a, types.Float) else scaled


@by_types
def weigh(weights: Any, row: Any, source: Any, bit: Any, low: Any, high: Any, out: Any, system: Any) -> Any:
    """Sets ``out[t]`` to the sum of a row's weights over the events of ``[low, high)`` with a bit in ``source``."""

    def modular(weights: Any, row: Any, source: Any, bit: Any, low: Any, high: Any, out: Any, system: Any) -> Any:
        out[:] = system.zero
        for k in range(weights.start[row + 1] - 1, weights.start[row] - 1, -1):  # Horner's rule
            total = 0
            for i in range(low, high):
                total += weights.limbs[k, i] * ((source[i] >> bit) & 1)
            for t in range(len(out)):
                prime = system.prime[t]
                shifted = multiply(out[t], np.uint64(1 << LIMB_BITS), prime, system.reciprocal[t])
                out[t] = add(shifted, _residue(total, prime, system.reciprocal[t]), prime)

    def plain(weights: Any, row: Any, source: Any, bit: Any, low: Any, high: Any, out: Any, system: Any) -> Any:
        total = system.zero
        for i in range(low, high):
            if (source[i] >> bit) & 1:
                total = add(total, _number(weights.limbs[weights.start[row], i], system.zero), system.prime[0])
        out[0] = total

    return modular if isinstance(system.types[0], types.Integer) else plain


@inlined
def _residue(value: Any, prime: Any, reciprocal: float) -> Any:
    """Reduces a number below ``2**62`` in size modulo a prime, with a quotient guessed as in :func:`multiply`."""
    guess = np.int64(np.float64(value) * reciprocal)
    rest = np.uint64(value - guess * np.int64(prime)) + prime
    return min(min(rest, rest - prime), min(rest, rest - prime) - prime)


@by_types
def _number(value: Any, zero: Any) -> Any:
    def rounded(value: Any, zero: Any) -> Any:
        return value

    def scaled(value: Any, zero: Any) -> Any:
        return normalised(value, 0.0)

    return rounded if isinstance(zero, types.Float) else scaled
