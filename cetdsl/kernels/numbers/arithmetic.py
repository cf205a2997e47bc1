"""The number systems that one propagation kernel computes in, chosen by the type of its arrays.

=============  ==========================================================================================
dtype          meaning
=============  ==========================================================================================
``float64``    rounded sums; infinite when they leave the range of doubles
``uint64``     sums modulo a prime; several primes give the exact number (Chinese remainder theorem)
``complex128`` *scaled* numbers ``real * 2**imag``: sums of any size with a relative error near 1e-16 per addition. The
               mantissas ``real`` are in [0.5, 1) up to their sign, except in long sums, see :func:`gather`
``int64``      lattice: the sum is the maximum; -1 says that there is no trend
=============  ==========================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np
from numba import types
from numba.extending import overload

from cetdsl.kernels._jit import inlined, jit

#: ``_HALVES[n]`` is ``2.0**-n``, for all shifts that leave something of a mantissa.
_HALVES = np.ldexp(1.0, -np.arange(64))

#: How large and how small the mantissas of a long sum may get, the step of their exponents, and ``2**-_STEP``.
_LARGE, _SMALL, _STEP, _ONE_STEP = 2.0**500, 2.0**-500, 1000, 2.0**-1000

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
    # The mantissa of a sum or product mostly has one bit more or one bit less, so these cases come first.
    size = abs(mantissa)
    if 0.5 <= size < 1.0:
        return complex(mantissa, exponent)
    if 1.0 <= size < 2.0:
        return complex(0.5 * mantissa, exponent + 1.0)
    if 0.25 <= size < 0.5:
        return complex(2.0 * mantissa, exponent - 1.0)
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
    shift = a.imag - b.imag
    if shift < len(_HALVES):
        return normalised(a.real + b.real * _HALVES[int(shift)], a.imag)
    # ``b`` is too small to change ``a``, unless it is an infinity or NaN, whose exponent is always 0.
    return a if math.isfinite(b.real) else b


@by_types
def combine(a: Any, b: Any, prime: Any) -> Any:
    """Returns the value of the union of two disjoint sets of trends: the sum, or in the lattice the maximum."""

    def scaled(a: Any, b: Any, prime: Any) -> Any:
        return add_scaled(a, b)

    return _either(a, scaled)


def _either(kind: Any, scaled: Any) -> Any:
    """Chooses the implementation of :func:`combine` or :func:`gather`, which differ only for ``scaled`` numbers."""

    def rounded(a: Any, b: Any, prime: Any) -> Any:
        return a + b

    def lattice(a: Any, b: Any, prime: Any) -> Any:
        return max(a, b)

    def modular(a: Any, b: Any, prime: Any) -> Any:
        total = a + b
        return total - prime if total >= prime else total

    return by_type(kind, rounded, scaled, lattice, modular)


@by_types
def gather(a: Any, b: Any, prime: Any) -> Any:
    """Like :func:`combine`, for one addition of a long sum: a scaled number keeps its exponent while its mantissa fits.

    To normalise after each addition would take several times as long as the addition. In a long sum, exponents are
    multiples of 1000 and mantissas lie between ``2**-500`` and ``2**500``, up to their sign.
    :func:`~cetdsl.kernels.numbers.scaled.settled` normalises the result.
    """

    def scaled(a: Any, b: Any, prime: Any) -> Any:
        # Without a branch on which exponent is larger, which the processor could not predict. A number whose exponent
        # is two steps below that of the other is too small to change it.
        above = a.imag - b.imag
        first = 1.0 if above >= 0.0 else _ONE_STEP if above == -_STEP else 0.0
        second = 1.0 if above <= 0.0 else _ONE_STEP if above == _STEP else 0.0
        mantissa = a.real * first + b.real * second
        if _SMALL <= abs(mantissa) < _LARGE:
            return complex(mantissa, max(a.imag, b.imag))
        return _gather_unfit(a, b)

    return _either(a, scaled)


@jit
def _gather_unfit(a: complex, b: complex) -> complex:
    """Adds numbers of a long sum if one is zero or not finite, or if the mantissa of their sum does not fit."""
    if a.real == 0.0:
        return b
    if b.real == 0.0:
        return a
    if a.imag < b.imag:
        a, b = b, a
    # A finite ``b`` two steps below is too small to change ``a``; infinities and NaN have the exponent 0.
    if a.imag - b.imag > _STEP and math.isfinite(b.real):
        return a
    return fitted(a.real + math.ldexp(b.real, -int(a.imag - b.imag)), a.imag)


@jit
def fitted(mantissa: float, exponent: float) -> complex:
    """Returns a number of a long sum; the given mantissa may have any size."""
    if mantissa == 0.0:
        return complex(0.0, 0.0)
    if not math.isfinite(mantissa):
        return complex(mantissa, 0.0)
    while abs(mantissa) >= _LARGE:
        mantissa, exponent = math.ldexp(mantissa, -_STEP), exponent + _STEP
    while abs(mantissa) < _SMALL:
        mantissa, exponent = math.ldexp(mantissa, _STEP), exponent - _STEP
    return complex(mantissa, exponent)


def by_type(kind: Any, rounded: Any, scaled: Any, lattice: Any, modular: Any) -> Any:
    """Chooses the implementation for a number system, by the type of its numbers."""
    if isinstance(kind, types.Float):
        return rounded
    if isinstance(kind, types.Complex):
        return scaled
    return lattice if kind.signed else modular


@by_types
def extend(value: Any, count: Any, weight: Any, how: int, prime: Any) -> Any:
    """Returns an accumulator after one more event: ``value + weight * count``, or its counterpart in the lattice.

    Scaled numbers are those of a long sum, see :func:`gather`.
    """

    def rounded(value: Any, count: Any, weight: Any, how: int, prime: Any) -> Any:
        return value + weight * count

    def scaled(value: Any, count: Any, weight: Any, how: int, prime: Any) -> Any:
        # The weight is fitted first, because no product of two mantissas that fit leaves the range of doubles.
        fit = fitted(weight, 0.0)
        return gather(value, fitted(fit.real * count.real, fit.imag + count.imag), prime)

    def lattice(value: Any, count: Any, weight: Any, how: int, prime: Any) -> Any:
        return max(value, weight) if how == RAISE_TO else value + weight

    # Weights are below 2**31 whenever they are not 0 or 1, so the product fits.
    def modular(value: Any, count: Any, weight: Any, how: int, prime: Any) -> Any:
        return (value + (weight * count) % prime) % prime

    return by_type(value, rounded, scaled, lattice, modular)
