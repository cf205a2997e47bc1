"""Whole numbers of any size from their residues modulo many primes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cetdsl.kernels._jit import jit
from cetdsl.kernels.numbers.linear import add, multiply
from cetdsl.kernels.numbers.scaled import Objects

Residues = NDArray[np.uint64]


def whole_numbers(residues: Residues, primes: Residues) -> Objects:
    """The numbers in ``[-P/2, P/2)``, P the product of the primes, that have these residues, shape (primes, numbers).

    Examples
    --------
    >>> from cetdsl.kernels.numbers.scaled import primes_below
    >>> p = np.array(primes_below(50, 3), dtype=np.uint64)
    >>> n = -(10**40)
    >>> whole_numbers(np.array([[n % int(q)] for q in p], dtype=np.uint64), p).tolist() == [n]
    True
    """
    digits = _mixed_radix(np.ascontiguousarray(residues), primes, 1.0 / primes.astype(np.float64))
    # Digits are joined in pairs, these in pairs, and so on, so that most factors are short numbers.
    values = list(digits.astype(object))
    radix = [int(prime) for prime in primes]
    while len(values) > 1:
        odd = len(values) % 2
        joined = [low + high * base for low, high, base in zip(values[:-1:2], values[1::2], radix[:-1:2])]
        bases = [low * high for low, high in zip(radix[:-1:2], radix[1::2])]
        values, radix = joined + values[len(values) - odd :], bases + radix[len(radix) - odd :]
    product = radix[0]
    whole: Objects = np.where(values[0] >= (product + 1) // 2, values[0] - product, values[0])
    return whole


@jit
def _mixed_radix(residues: Residues, primes: Residues, reciprocals: NDArray[np.float64]) -> Residues:
    """Digits ``d`` with ``value = d[0] + primes[0] * (d[1] + primes[1] * (d[2] + ...))`` (Garner's algorithm)."""
    count, numbers = residues.shape
    digits = residues.copy()
    value = np.empty(numbers, dtype=np.uint64)
    for k in range(1, count):
        prime, reciprocal = primes[k], reciprocals[k]
        # Horner's rule gives the value of the digits so far, and the product of the primes so far, modulo this prime.
        product = np.uint64(1)
        value[:] = 0
        for j in range(k - 1, -1, -1):
            radix = primes[j] - prime  # all primes have the same number of bits, so it is below ``prime``
            product = multiply(product, radix, prime, reciprocal)
            for n in range(numbers):
                digit = min(digits[j, n], digits[j, n] - prime)
                value[n] = add(multiply(value[n], radix, prime, reciprocal), digit, prime)
        inverse = _power(product, prime - np.uint64(2), prime, reciprocal)
        for n in range(numbers):
            rest = add(digits[k, n], prime - value[n], prime)
            digits[k, n] = multiply(rest, inverse, prime, reciprocal)
    return digits


@jit
def _power(base: Any, exponent: Any, prime: Any, reciprocal: float) -> Any:
    power = np.uint64(1)
    while exponent > np.uint64(0):
        if exponent & np.uint64(1):
            power = multiply(power, base, prime, reciprocal)
        base = multiply(base, base, prime, reciprocal)
        exponent >>= np.uint64(1)
    return power


@jit
def inverses(count: int, prime: int, reciprocal: float) -> Residues:
    """``1 / n`` modulo a prime for ``n < count`` (0 for 0)."""
    found = np.zeros(count, dtype=np.uint64)
    found[1:2] = 1
    for n in range(2, count):
        whole = np.uint64(n)
        # prime = (prime // n) * n + prime % n
        negative = prime - multiply(prime // whole, found[int(prime % whole)], prime, reciprocal)
        found[n] = negative if negative < prime else np.uint64(0)
    return found


@jit
def powers_of_two(count: int, primes: Residues) -> tuple[Residues, Residues]:
    """``2**n`` and ``2**-n`` for ``n < count``, modulo each prime."""
    powers, halves = np.empty((count, len(primes)), dtype=np.uint64), np.empty((count, len(primes)), dtype=np.uint64)
    powers[0], halves[0] = np.uint64(1), np.uint64(1)
    for n in range(1, count):
        for t in range(len(primes)):
            prime = primes[t]
            powers[n, t] = add(powers[n - 1, t], powers[n - 1, t], prime)
            half = halves[n - 1, t]
            halves[n, t] = (half + (half & np.uint64(1)) * prime) >> np.uint64(1)
    return powers, halves
