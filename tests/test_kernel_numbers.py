"""The ladder of number systems, with passes in plain Python in place of kernels."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

from cetdsl.kernels.numbers.ladder import ADDED, ADDED_ALONE, DECIMAL_BITS, MULTIPLIED, WEIGHED, Moduli, exact, rounded
from cetdsl.kernels.numbers.scaled import Objects, Scaled, nearest_whole, primes_below, sum_scaled, to_scaled

MODULI = pytest.mark.parametrize("moduli", [ADDED, ADDED_ALONE, WEIGHED, MULTIPLIED])


class Passes:
    """Passes that know the right numbers, and remember what they were asked for."""

    def __init__(self, numbers: Any) -> None:
        self.numbers: Objects = np.array(numbers, dtype=object)
        self.rounded: list[tuple[Any, list[int]]] = []
        self.residues: list[tuple[list[int], int]] = []

    def run_rounded(self, kind: Any, rows: Any) -> Any:
        self.rounded.append((kind, rows.tolist()))
        if kind is np.complex128:
            return scaled_of(self.numbers[rows])
        return np.array([[as_double(number) for number in row] for row in self.numbers[rows].tolist()])

    def run_residues(self, rows: Any, primes: Any) -> Any:
        self.residues.append((rows.tolist(), len(primes)))
        modulo = [[[number % prime for prime in primes.tolist()] for number in row] for row in self.numbers[rows]]
        return np.array(modulo, dtype=np.uint64)

    def exact(self, moduli: Moduli, most_bits: Any = np.inf, magnitudes: Any = None) -> Objects:
        sizes = scaled_of(np.abs(self.numbers)) if magnitudes is None else scaled_of(np.array(magnitudes, dtype=object))
        return exact(self.run_residues, scaled_of(self.numbers), sizes, most_bits, moduli)


def as_double(number: int) -> float:
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


def scaled_of(numbers: Objects) -> Scaled:
    """Whole numbers of any size as mantissa and exponent."""
    shift = np.array([[max(abs(number).bit_length() - 60, 0) for number in row] for row in numbers.tolist()])
    small = [[float(number >> down) for number, down in zip(*pair)] for pair in zip(numbers.tolist(), shift.tolist())]
    out = to_scaled(np.array(small).reshape(numbers.shape))
    out.imag += np.where(out.real == 0, 0, shift.reshape(numbers.shape))
    return out


def test_rows_in_the_range_of_doubles_stay_there() -> None:
    passes = Passes([[3, 4], [2**2000, 1], [0, 2**1020], [5, 6]])
    found = rounded(passes.run_rounded, np.array([False, False, False, True]), 2)
    assert passes.rounded == [(np.float64, [0, 1, 2]), (np.complex128, [1, 3])]
    assert [nearest_whole(number) for number in found.ravel()] == passes.numbers.ravel().tolist()


def test_nothing_is_passed_over_no_rows() -> None:
    passes = Passes([[3], [4]])
    assert rounded(passes.run_rounded, np.ones(2, dtype=np.bool_), 1).shape == (2, 1)
    assert [kind for kind, _ in passes.rounded] == [np.complex128]
    assert rounded(passes.run_rounded, np.zeros(0, dtype=np.bool_), 3).shape == (0, 3)
    assert exact(passes.run_residues, *[np.zeros((0, 2), dtype=np.complex128)] * 2, np.inf, ADDED).shape == (0, 2)
    assert len(passes.rounded) == 1
    assert not passes.residues


@MODULI
@pytest.mark.parametrize("seed", range(5))
def test_whole_numbers_of_any_size(moduli: Moduli, seed: int) -> None:
    choose = random.Random(seed)
    sizes = [choose.choice([0, 1, 52, 53, 54, 62, 100, 1000, 3000]) for _ in range(12)]
    numbers = [[choose.choice([1, -1]) * choose.getrandbits(bits) if bits else 0 for _ in range(3)] for bits in sizes]
    passes = Passes(numbers)
    assert passes.exact(moduli).tolist() == numbers
    asked = [rows for rows, _ in passes.residues]
    hard = [row for row, values in enumerate(numbers) if max(abs(value) for value in values) >= 2**53]
    assert asked[:1] == ([hard] if hard else [])
    assert all(set(later) <= set(earlier) for earlier, later in itertools.pairwise(asked))


@MODULI
@pytest.mark.parametrize("number", [2**53 - 1, 2**53, 2**53 + 1, -(2**53) - 1])
def test_doubles_hold_whole_numbers_below_two_to_the_fifty_third(moduli: Moduli, number: int) -> None:
    passes = Passes([[number]])
    assert passes.exact(moduli).tolist() == [[number]]
    assert bool(passes.residues) == (abs(number) >= 2**53)


def test_groups_with_infinities_of_both_signs_have_no_sum() -> None:
    values = to_scaled(np.array([np.inf, -np.inf, 1.0, 2.0, np.inf, 1.0]))
    sums = sum_scaled(values, np.array([0, 2, 4]))
    assert np.isnan(sums[0].real)
    assert sums[1] == to_scaled(np.array([3.0]))[0]
    assert sums[2].real == np.inf


def test_what_cancels_out_is_as_large_as_its_magnitude() -> None:
    passes = Passes([[7], [7]])
    assert passes.exact(WEIGHED, magnitudes=[[2**400], [2**20]]).tolist() == [[7], [7]]
    assert {row for rows, _ in passes.residues for row in rows} == {0}
    assert sum(primes for _, primes in passes.residues) == WEIGHED.needed(np.array([401.0]))[0]


def test_numbers_that_end_in_an_error_are_not_worked_out() -> None:
    """Neither is what stands beside them; what fits is."""
    passes = Passes([[2**5000, 2**300], [2**127, 2**300], [5, 2**40]])
    found = passes.exact(MULTIPLIED, most_bits=np.array([DECIMAL_BITS, np.inf]))
    assert found[0, 0] == 2**5000
    assert found[1:].tolist() == passes.numbers[1:].tolist()
    assert {row for rows, _ in passes.residues for row in rows} == {1}


def test_passes_take_more_and_more_primes() -> None:
    passes = Passes([[2**60], [2**2500]])
    passes.exact(MULTIPLIED)
    needed = int(MULTIPLIED.needed(np.array([2501.0]))[0])
    assert [primes for _, primes in passes.residues] == [2, 2, 4, 8, 16, 16, needed - 48]
    assert [rows for rows, _ in passes.residues] == [[0, 1], *[[1]] * 6]


@MODULI
def test_primes_are_the_largest_of_their_size(moduli: Moduli) -> None:
    assert tuple(moduli.primes(20).tolist()) == primes_below(moduli.bits, 20)
    assert moduli.primes(0).tolist() == []


def test_passes_before_are_not_copied_with_each_pass() -> None:
    taken: list[int] = []

    class Watched(np.ndarray[Any, Any]):
        def __getitem__(self, key: Any) -> Any:
            taken.append(1)
            return super().__getitem__(key)

    passes = Passes([[2**6000 - 1]])
    plain = passes.run_residues
    passes.run_residues = lambda rows, primes: plain(rows, primes).view(Watched)  # type: ignore[method-assign]
    assert passes.exact(ADDED_ALONE).tolist() == [[2**6000 - 1]]
    assert len(passes.residues) > 90
    assert len(taken) < 4 * len(passes.residues)
