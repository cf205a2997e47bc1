"""The columns of an answer: extremes of runs of rows, and whole numbers of any size as text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cetdsl.kernels.answers.tables import _decimal_text, integer_text, merge_extremes

RUN = st.lists(st.none() | st.sampled_from(["", "a", "b", "é"]), min_size=1, max_size=4)


@settings(deadline=None)
@given(st.lists(RUN, min_size=1, max_size=5))
def test_extremes_of_runs_leave_nulls_out(runs: list[list[Any]]) -> None:
    values = pa.array([value for run in runs for value in run], pa.string())
    starts = np.cumsum([0, *map(len, runs)])[:-1]
    for smallest, extreme in ((True, min), (False, max)):
        expected = [extreme((value for value in run if value is not None), default=None) for run in runs]
        assert merge_extremes(values, smallest, starts).to_pylist() == expected


@pytest.mark.parametrize("digits", [1, 4_299, 4_300, 4_301, 9_000, 40_000])
def test_numbers_beyond_the_guard_of_python_become_text(digits: int) -> None:
    assert integer_text(10 ** (digits - 1)) == "1" + "0" * (digits - 1)
    assert integer_text(10**digits - 1) == "9" * digits
    assert integer_text(10**digits + 7) == "1" + "0" * (digits - 1) + "7"


@pytest.mark.parametrize(
    ("value", "scale", "text"),
    [(0, 0, "0"), (-5, 0, "-5"), (5, 2, "0.05"), (-5, 2, "-0.05"), (-1234, 2, "-12.34"), (1000, 3, "1.000")],
)
def test_last_digits_stand_behind_the_point(value: int, scale: int, text: str) -> None:
    assert _decimal_text(value, scale) == text
