"""The number systems that one propagation kernel computes in, chosen by the type of its arrays.

=============  ==========================================================================================
dtype          meaning
=============  ==========================================================================================
``float64``    rounded sums; infinite when they leave the range of doubles
``uint64``     sums modulo a prime; several primes give the exact number (Chinese remainder theorem)
``complex128`` ``real * 2**imag``: sums of any size with a relative error near 1e-16 per addition
``int64``      lattice: the maximum; -1 says that there is no trend
=============  ==========================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from numba import types
from numba.extending import overload

from cetdsl.kernels._jit import inlined

_Chooser = TypeVar("_Chooser", bound=Callable[..., Any])

#: How the int64 accumulators extend a value by one event.
RAISE_TO, ADD = 0, 1


def by_types(choose: _Chooser) -> _Chooser:
    """Makes a function for compiled code alone whose implementation ``choose`` picks by the types of the arguments.

    Numba requires that the implementations name their parameters exactly as ``choose`` does.
    """

    @wraps(choose)
    def function(*_: Any) -> Any:
        raise NotImplementedError("called from compiled code only")

    overload(function)(choose)
    return cast(_Chooser, function)


@inlined
def normalised(mantissa: float, exponent: float) -> complex:
    """``mantissa * 2**exponent`` with the mantissa in [0.5, 1) up to its sign; zero is 0 + 0j."""
    if mantissa == 0.0:
        return complex(0.0, 0.0)
    if not math.isfinite(mantissa):
        return complex(mantissa, 0.0)
    fraction, shift = math.frexp(mantissa)
    return complex(fraction, exponent + shift)


@inlined
def add_scaled(a: complex, b: complex) -> complex:
    """The sum of two scaled numbers; the smaller one is shifted to the larger one's exponent."""
    if a.real == 0.0:
        return b
    if b.real == 0.0:
        return a
    if a.imag < b.imag:
        a, b = b, a
    shift = b.imag - a.imag
    # Infinities and NaN have the exponent 0, and win over finite numbers of any size.
    if shift < -1100.0 and math.isfinite(b.real):
        return a
    return normalised(a.real + math.ldexp(b.real, int(shift)), a.imag)


@by_types
def combine(a: Any, b: Any, prime: Any) -> Any:
    """Returns the value of "either of two sets of trends": the sum, or in the lattice the maximum."""

    def rounded(a: Any, b: Any, prime: Any) -> Any:
        return a + b

    def scaled(a: Any, b: Any, prime: Any) -> Any:
        return add_scaled(a, b)

    def lattice(a: Any, b: Any, prime: Any) -> Any:
        return max(a, b)

    def modular(a: Any, b: Any, prime: Any) -> Any:
        total = a + b
        return total - prime if total >= prime else total

    return by_type(a, rounded, scaled, lattice, modular)


def by_type(kind: Any, rounded: Any, scaled: Any, lattice: Any, modular: Any) -> Any:
    """Chooses the implementation for a number system, by the type of its numbers."""
    if isinstance(kind, types.Float):
        return rounded
    if isinstance(kind, types.Complex):
        return scaled
    return lattice if kind.signed else modular


@by_types
def extend(value: Any, count: Any, weight: Any, how: int, prime: Any) -> Any:
    """Returns an accumulator after one more event: ``value + weight * count``, or its counterpart in the lattice."""

    def rounded(value: Any, count: Any, weight: Any, how: int, prime: Any) -> Any:
        return value + weight * count

    def scaled(value: Any, count: Any, weight: Any, how: int, prime: Any) -> Any:
        return add_scaled(value, normalised(weight * count.real, count.imag))

    def lattice(value: Any, count: Any, weight: Any, how: int, prime: Any) -> Any:
        return max(value, weight) if how == RAISE_TO else value + weight

    # Weights are below 2**31 whenever they are not 0 or 1, so the product fits.
    def modular(value: Any, count: Any, weight: Any, how: int, prime: Any) -> Any:
        return (value + (weight * count) % prime) % prime

    return by_type(value, rounded, scaled, lattice, modular)
