"""The columns of an answer: extremes of runs of rows, and whole numbers of any size as text."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cetdsl.ir.stages import FirstSpec
from cetdsl.kernels.answers.first import first_stream
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


PLACES = st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from([(), (0.0,), (-0.0,)]), st.sampled_from([0, 1]))
WEIGHTS = st.none() | st.sampled_from([-1.5, -0.0, 0.0, 2.0, float("inf"), float("nan")])


@settings(deadline=None)
@given(
    st.lists(st.lists(st.tuples(PLACES, WEIGHTS), max_size=6), min_size=1, max_size=6),
    st.integers(1, 3),
    st.sampled_from([1, 300, 1 << 20]),
)
def test_the_first_of_each_place_are_the_heaviest(batches: list[list[Any]], size: int, buffer_bytes: int) -> None:
    """NaN is greater than any weight, and NULL less; of equal ones those are kept that came first."""
    schema = pa.schema(
        {"id": pa.int64(), "w": pa.float64(), "a": pa.string(), "b": pa.list_(pa.float64()), "c": pa.int8()}
    )
    rows, arrow = [row for batch in batches for row in batch], []
    for batch in batches:
        number = sum(map(len, arrow))
        told = [(number + n, weight, text, list(pair), code) for n, ((text, pair, code), weight) in enumerate(batch)]
        arrow.append(pa.RecordBatch.from_pylist([dict(zip(schema.names, row, strict=True)) for row in told], schema))

    def heaviness(number: int) -> tuple[int, float, int]:
        weight = rows[number][1]
        if weight is None or math.isnan(weight):
            return (0 if weight is None else 2), 0.0, -number
        return 1, weight, -number

    by_place: dict[Any, list[int]] = {}
    for number, (place, _) in enumerate(rows):
        by_place.setdefault(place, []).append(number)
    expected = sorted(n for own in by_place.values() for n in sorted(own, key=heaviness, reverse=True)[:size])
    spec = FirstSpec(size, (2, 3, 4), 1)
    assert [n for columns in first_stream(spec, iter(arrow), buffer_bytes) for n in columns[0].to_pylist()] == expected
