"""Numbers of any size: *scaled* ones, which are doubles with an exponent of their own, and integers from residues."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from cetdsl.errors import OVERFLOW_ADVICE, CountOverflow

Scaled = NDArray[np.complex128]
Objects = NDArray[np.object_]

DECIMAL_LIMIT = 10**38


def to_scaled(values: NDArray[np.float64]) -> Scaled:
    """Doubles as ``mantissa + exponent * 1j`` with ``value == mantissa * 2**exponent``."""
    mantissa, exponent = np.frexp(values)
    out: Scaled = mantissa.astype(np.complex128)
    out.imag = np.where(mantissa == 0, 0, exponent)
    return out


def settled(values: Scaled) -> Scaled:
    """Normalises scaled numbers, so that their mantissas are in [0.5, 1) up to their sign.

    Examples
    --------
    >>> settled(np.array([2.0**200 + 512j, 0j, complex(np.inf, 0)])).tolist()
    [(0.5+713j), 0j, (inf+0j)]
    """
    out = to_scaled(values.real)
    out.imag += np.where(values.real == 0, 0.0, values.imag)
    return out


def from_scaled(values: Scaled) -> NDArray[np.float64]:
    """Scaled numbers as doubles; infinite where they are out of range."""
    with np.errstate(over="ignore", under="ignore"):
        return np.ldexp(values.real, np.clip(values.imag, -5000, 5000).astype(np.int32))


def log2_of(values: Scaled) -> NDArray[np.float64]:
    """Logarithms to base 2: -inf of zero, NaN of a negative number."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log2(values.real) + values.imag


def ratio(numerators: Scaled, denominators: Scaled) -> NDArray[np.float64]:
    """Divides scaled numbers; the quotients are right even where both numbers are out of the range of doubles."""
    with np.errstate(divide="ignore", invalid="ignore"):
        quotient = numerators.real / denominators.real
    shift = np.clip(numerators.imag - denominators.imag, -5000, 5000).astype(np.int32)
    with np.errstate(over="ignore"):
        return np.ldexp(quotient, shift)


def sum_scaled(values: Scaled, starts: NDArray[np.int64]) -> Scaled:
    """Adds up groups of scaled numbers, which begin at ``starts``, each with the largest exponent of its group."""
    exponent = np.where(values.real == 0, -np.inf, values.imag)
    largest = np.maximum.reduceat(exponent, starts)
    per_value = np.repeat(largest, np.diff(np.append(starts, len(values))))
    with np.errstate(invalid="ignore"):
        shift = np.where(np.isfinite(exponent), exponent - per_value, 0.0)
    mantissas = np.ldexp(values.real, np.maximum(shift, -2000).astype(np.int32))
    with np.errstate(invalid="ignore"):  # inf - inf
        summed = to_scaled(np.add.reduceat(mantissas, starts))
    summed.imag += np.where((summed.real == 0) | ~np.isfinite(largest), 0, largest)
    return summed


def _is_prime(n: int) -> bool:
    """Tests by Miller-Rabin; its bases decide all n below 3.3e24 (Sorenson and Webster 2015)."""
    if n % 2 == 0:
        return n == 2
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41):
        if n % base == 0:
            return n == base
        if pow(base, odd, n) != 1 and all(pow(base, odd << k, n) != n - 1 for k in range(twos)):
            return False
    return True


@lru_cache(maxsize=8)
def primes_below(bits: int, count: int) -> tuple[int, ...]:
    """The ``count`` largest primes below ``2**bits``.

    Examples
    --------
    >>> primes_below(8, 3)
    (251, 241, 239)
    """
    found: list[int] = []
    candidate = 2**bits - 1
    while len(found) < count:
        if _is_prime(candidate):
            found.append(candidate)
        candidate -= 2
    return tuple(found)


def from_residues(residues: NDArray[np.uint64], primes: NDArray[np.uint64]) -> Objects:
    """Restores whole numbers from residues of shape (primes, numbers), by Garner's algorithm.

    The numbers lie in ``[-P/2, P/2)``, P being the product of the primes.

    Examples
    --------
    >>> p = np.array(primes_below(8, 2), dtype=np.uint64)
    >>> from_residues(np.array([[-5 % int(q)] for q in p], dtype=np.uint64), p).tolist()
    [-5]
    """
    modulus, *others = map(int, primes)
    values: Objects = residues[0].astype(object)
    for residue, prime in zip(residues[1:], others, strict=True):
        inverse = pow(modulus, -1, prime)
        values = values + modulus * (((residue.astype(object) - values) * inverse) % prime)
        modulus *= prime
    return np.where(values >= (modulus + 1) // 2, values - modulus, values)


def nearest_whole(value: complex) -> int:
    """The whole number nearest to a scaled one.

    Examples
    --------
    >>> nearest_whole(complex(0.75, 2)), nearest_whole(complex(0.5, 101)) == 2**100
    (3, True)
    """
    mantissa, exponent = int(value.real * 2.0**53), int(value.imag) - 53
    return mantissa << exponent if exponent >= 0 else mantissa >> -exponent


def overflow(name: str, where: str, log2: float, number: str, scale: int = 0) -> CountOverflow:
    """Makes the error of a result that does not fit its number form, a key of :data:`~cetdsl.errors.OVERFLOW_ADVICE`.

    ``scale`` is the scale of a sum of decimals.
    """
    fits, hint = OVERFLOW_ADVICE.get(number, OVERFLOW_ADVICE["double"])
    if scale:
        fits = f"DECIMAL(38, {scale})"
    return CountOverflow(f"{name!r} is about 2^{log2:.1f} in {where}, which does not fit {fits}", hint=hint)
