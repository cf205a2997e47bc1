"""Scaled numbers: what doubles would lose."""

from __future__ import annotations

import math

import pytest

from cetdsl.kernels.numbers.arithmetic import add_scaled, normalised

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
