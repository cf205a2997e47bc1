"""Sums of powers for the variance, taken about an origin so that subtracting them leaves more than rounding errors.

The variance of n values with the sum ``s`` and the sum of squares ``q`` is ``(q - s * s / n) / n``. In doubles nothing
is left of it if the values are large and lie close together. Whole numbers have no such loss. If rounded numbers are
propagated, they are sums of the powers of *deviations* from an *origin*, the median of a key's values. For each row of
an answer, its three sums are then turned into sums about zero, in whole numbers without any rounding:

    s = s' + n c,    q = q' + 2 c s' + n c^2

These add up across tasks and keys as whole numbers do, and give the variance that the rounded sums about the origin
give: its relative error is about 1e-15 times ``1 + (d / sigma)^2``, where ``d`` is the distance between the origin and
the mean of the values, and ``sigma`` their standard deviation. Values are whole multiples of ``2**-1074``, which all
doubles are, or of a decimal's last digit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cetdsl.kernels.numbers.scaled import Objects, Scaled
from cetdsl.kernels.vocabulary import Bools, Ints

#: All doubles are whole multiples of ``2**-SMALLEST``.
SMALLEST = 1074
#: Squares of larger deviations do not fit doubles.
_FAR = 2.0**500
#: A variance that is more than so many bits smaller than the squared distance of the mean from the origin counts as 0.
_NOISE = 48


class Deviations(NamedTuple):
    """The deviations of a column from the median of each segment, its ``origin``, in units of ``2**-bits``.

    The ``values`` are differences from the origin, and 0 for NULL and for ``odd`` values: infinities, NaN, and values
    so far from the origin that the square of the difference does not fit a double.
    """

    origin: list[int]
    values: NDArray[np.float64]
    odd: Bools
    bits: int


def deviations_of_doubles(values: NDArray[np.float64], present: Bools, starts: Ints) -> Deviations:
    """The deviations of a column of doubles; segment ``s`` holds the values ``starts[s]:starts[s + 1]``.

    Examples
    --------
    >>> values, starts = np.array([1.0, 2.0, np.nan, 1e9, 1e9 + 1, 1e9 - 1]), np.array([0, 3, 6])
    >>> found = deviations_of_doubles(values, np.ones(6, dtype=np.bool_), starts)
    >>> found.values.tolist(), found.odd.tolist()
    ([0.0, 1.0, 0.0, 0.0, 1.0, -1.0], [False, False, True, False, False, False])
    """
    finite = np.isfinite(values) & present
    medians = _medians(values, finite, starts)
    chosen = np.where(medians >= 0, values[medians], 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        away = values - np.repeat(chosen, np.diff(starts))
        near = finite & (np.abs(away) < _FAR)
    ratios = [value.as_integer_ratio() for value in chosen.tolist()]
    origin = [(numerator << SMALLEST) // denominator for numerator, denominator in ratios]
    return Deviations(origin, np.where(near, away, 0.0), present & ~near, SMALLEST)


def deviations_of_integers(values: list[int] | Ints, present: Bools, starts: Ints) -> Deviations:
    """The deviations of a column of whole numbers.

    Examples
    --------
    >>> found = deviations_of_integers([10**30, 10**30 + 3], np.ones(2, dtype=np.bool_), np.array([0, 2]))
    >>> found.origin == [10**30], found.values.tolist()
    (True, [0.0, 3.0])
    """
    whole = np.array(values, dtype=object)
    medians = _medians(whole.astype(np.float64), present, starts)
    chosen = np.where(medians >= 0, whole[medians], 0)
    away = (whole - np.repeat(chosen, np.diff(starts))).astype(np.float64)
    return Deviations(chosen.tolist(), np.where(present, away, 0.0), np.zeros(len(whole), dtype=np.bool_), 0)


def _medians(values: NDArray[np.float64], wanted: Bools, starts: Ints) -> Ints:
    """Finds the position of the lower median of each segment's wanted values; -1 where there are none."""
    segment = np.repeat(np.arange(len(starts) - 1), np.diff(starts))[wanted]
    place = np.nonzero(wanted)[0]
    order = np.lexsort((values[wanted], segment))
    ends = np.searchsorted(segment, np.arange(len(starts)))
    counts = np.diff(ends)
    medians = np.full(len(counts), -1, dtype=np.int64)
    some = counts > 0
    medians[some] = place[order[ends[:-1][some] + (counts[some] - 1) // 2]]
    return medians


def about_zero(
    sums: Sequence[Objects | Scaled], deviations: Deviations, segment: Ints
) -> tuple[Objects, Objects, Objects]:
    """Turns sums of the powers 0, 1, 2 of deviations into those of the values; row ``r`` is of ``segment[r]``."""
    bits = deviations.bits
    count, first, second = (_whole(part, power * bits) for power, part in enumerate(sums))
    for row, (n, s, q) in enumerate(zip(count, first, second, strict=True)):
        # So small a variance is what rounding has left of 0: all values are the same.
        if n and n * q - s * s << _NOISE < s * s:
            second[row] = s * s // n
    origin = np.array(deviations.origin, dtype=object)[segment] if len(segment) else np.zeros(0, dtype=object)
    return count, first + count * origin, second + 2 * origin * first + count * origin * origin


def _whole(values: Objects | Scaled, bits: int) -> Objects:
    """Returns numbers as whole multiples of ``2**-bits``."""
    if values.dtype == object:
        return values.astype(object)
    out: Objects = np.zeros(len(values), dtype=object)
    for row, value in enumerate(values.tolist()):
        mantissa, shift = int(value.real * 2.0**53), int(value.imag) - 53 + bits
        out[row] = mantissa << shift if shift >= 0 else (mantissa + (1 << -shift >> 1)) >> -shift
    return out


def central_moment(count: int, first: int, second: int, unit: Fraction, less: int) -> float:
    """Returns the sum of squared distances from the mean, divided by ``count - less``.

    ``first`` and ``second`` are the sums of the values and of their squares, in multiples of ``unit`` and of its
    square.

    Examples
    --------
    >>> central_moment(3, 3 * 10**40 + 6, 3 * 10**80 + 12 * 10**40 + 20, Fraction(1), 1)
    4.0
    """
    squared = unit * unit
    numerator = max(count * second - first * first, 0) * squared.numerator
    try:
        return numerator / (count * (count - less) * squared.denominator)  # correctly rounded, whatever their size
    except OverflowError:
        return math.inf
