"""Scaled numbers: what doubles would lose."""

from __future__ import annotations

import math
from fractions import Fraction

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cetdsl.kernels.numbers.arithmetic import add_scaled, extend, gather, normalised
from cetdsl.kernels.numbers.scaled import settled

HUGE = normalised(1.0, 5_000.0)
INFINITE = normalised(math.inf, 0.0)


@pytest.mark.parametrize("other", [HUGE, normalised(-3.0, 5_000.0), normalised(1.0, -5_000.0), normalised(0.0, 0.0)])
def test_an_infinity_wins_over_finite_numbers_of_any_size(other: complex) -> None:
    assert add_scaled(INFINITE, other) == add_scaled(other, INFINITE) == INFINITE


def test_infinities_of_both_signs_have_no_sum() -> None:
    assert math.isnan(add_scaled(INFINITE, normalised(-math.inf, 0.0)).real)
    assert math.isnan(add_scaled(normalised(math.nan, 0.0), HUGE).real)


def test_sums_far_beyond_doubles() -> None:
    assert add_scaled(HUGE, HUGE) == normalised(1.0, 5_001.0)
    assert add_scaled(HUGE, normalised(1.0, 4_999.0)) == normalised(1.5, 5_000.0)
    assert add_scaled(HUGE, normalised(1.0, 0.0)) == HUGE


@numba.njit
def carried_along(weights: NDArray[np.float64], many: int) -> NDArray[np.complex128]:
    """A count and a sum after some events, which all may or may not be bound, after ``many`` that double the count."""
    found = np.zeros(2, dtype=np.complex128)
    found[0] = 1.0
    for _ in range(many):
        found[0] = gather(found[0], found[0], 0.0)
    for weight in weights:
        found[1] = gather(found[1], extend(found[1], found[0], weight, 0, 0.0), 0.0)
        found[0] = gather(found[0], found[0], 0.0)
    return found


@settings(deadline=None)
@given(
    st.lists(st.floats(min_value=0.0, allow_infinity=False, width=64), max_size=12),
    st.sampled_from([0, 1, 480, 499, 500, 501, 999, 1_000, 1_499, 1_500, 5_000]),
)
def test_long_sums_are_those_of_fractions(weights: list[float], many: int) -> None:
    count, total = Fraction(2**many), Fraction(0)
    for weight in weights:
        total, count = 2 * total + Fraction(weight) * count, 2 * count
    found = settled(carried_along(np.array(weights), many))
    for value, exact in zip(found, (count, total), strict=True):
        assert (0.5 <= value.real < 1.0) if exact else value == 0
        given_back = Fraction(value.real) * Fraction(2) ** int(value.imag)
        assert abs(given_back - exact) <= exact * Fraction(1, 2**48)


def test_an_infinity_wins_in_long_sums() -> None:
    for many in (0, 2_000):
        assert settled(carried_along(np.array([1.0, math.inf, 1e300]), many))[1] == INFINITE
    assert math.isnan(carried_along(np.array([math.inf, math.nan]), 2_000)[1].real)
