"""The matrix of each segment of some events: products of instants in doubles are the leaves of a tree of products.

A leaf ends where the doubles would round (or, where rounding is allowed, would leave their range). Leaves are
multiplied as a balanced tree, in Python's whole numbers, which it multiplies in less than quadratic time, or in scaled
doubles.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cetdsl.ir.accumulators import Accumulator
from cetdsl.ir.kernel import KernelSpec, is_exact_accumulator
from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.aggregate.matrices import Matrices, Part, Transitions, multiply_neighbours, zeros
from cetdsl.kernels.answers.tables import additive_accumulators
from cetdsl.kernels.numbers.arithmetic import add_scaled
from cetdsl.kernels.numbers.ladder import DOUBLE_BITS, EXACT_DOUBLE
from cetdsl.kernels.numbers.scaled import to_scaled
from cetdsl.kernels.vocabulary import Bools, Events, Floats, Ints
from cetdsl.kernels.wire.values import ValueColumn

#: Where rounding is allowed, the counts of a leaf stay below 2**500 and its weights below 2**400.
_ROUNDED_LIMIT, _LARGE_WEIGHT = 2.0**500, 400


class Limb(NamedTuple):
    """A part of an accumulator's weights in units of ``2**shift``, which is small enough for the doubles of a leaf."""

    accumulator: int
    shift: int


class Weights(NamedTuple):
    """What events add to the accumulators other than the number of trends, whose weights are sums of limbs."""

    limbs: list[Limb]
    #: Shape (limbs, n).
    rows: Floats


def weights_of(spec: KernelSpec, columns: list[ValueColumn], count: int) -> Weights:
    """The weights of some events."""
    limbs, rows = [], []
    for k, accumulator in enumerate(additive_accumulators(spec)[1:], 1):
        for row, shift in _limbs(accumulator, columns, is_exact_accumulator(spec, accumulator), count):
            limbs.append(Limb(k, shift))
            rows.append(row)
    return Weights(limbs, np.array(rows, dtype=np.float64).reshape(len(limbs), count))


def _limbs(accumulator: Accumulator, columns: list[ValueColumn], whole: bool, count: int) -> list[tuple[Floats, int]]:
    """The limbs of an accumulator, and the shift of each."""
    if accumulator.update.power == 0:
        counted = columns[accumulator.column].weights(accumulator.update, whole) if accumulator.column >= 0 else None
        return [(np.ones(count) if counted is None else counted, 0)]
    column = columns[accumulator.column]
    if not whole:
        return _split_doubles(column.weights(accumulator.update, whole))
    return _split_integers(column.whole_weights(accumulator.update))


def _split_integers(values: NDArray[Any]) -> list[tuple[Floats, int]]:
    # All events of an instant are added before anything else is, and must not round.
    width = DOUBLE_BITS - 1 - len(values).bit_length()
    limbs, shift = [], 0
    while len(values) and not -(1 << width) <= values.min() <= values.max() < 1 << width:
        limbs.append(((values & ((1 << width) - 1)).astype(np.float64), shift))
        values, shift = values >> width, shift + width
    return [*limbs, (values.astype(np.float64), shift)]


def _split_doubles(values: Floats) -> list[tuple[Floats, int]]:
    large = np.isfinite(values) & (np.abs(values) > 2.0**_LARGE_WEIGHT)
    limbs = [(np.where(large, 0.0, values), 0)]
    if large.any():
        limbs.append((np.ldexp(np.where(large, values, 0.0), -2 * _LARGE_WEIGHT), 2 * _LARGE_WEIGHT))
    return limbs


@inlined
def _take(
    i: int,
    last: int,
    instant: Ints,
    mask: Ints,
    weights: Floats,
    counted: Ints,
    variable: Ints,
    times: Floats,
    added: Floats,
) -> int:
    """Notes the events of the instant of event ``i`` at each place that may read them, and returns the event after it.

    ``times[q]`` counts the events that the place ``q`` may read; ``added[k, q]`` adds up their weights in the limb ``k
    - 1``. For the other arguments see :func:`_multiply_instants`.
    """
    now = instant[i]
    while i < last and instant[i] == now:
        for q in range(1, len(variable)):
            if (mask[i] >> variable[q]) & 1:
                times[q] += 1.0
                for k in range(len(counted)):
                    if counted[k] == -1 or counted[k] == variable[q]:
                        added[k + 1, q] += weights[k, i]
        i += 1
    return i


@inlined
def _gain(
    matrix: Floats,
    gain: Floats,
    times: Floats,
    added: Floats,
    whole: Bools,
    in_start: Ints,
    in_source: Ints,
    row_start: Ints,
    row: Ints,
    limit: float,
) -> bool:
    """Writes what the noted events add to the matrix, and returns whether everything stays within the limit."""
    fits, accumulators = True, len(matrix)
    for q in range(1, len(times)):
        if times[q] == 0.0:
            continue
        for at in range(row_start[q], row_start[q + 1]):
            r = row[at]
            influx = 0.0
            for edge in range(in_start[q], in_start[q + 1]):
                influx += matrix[0, r, in_source[edge]]
            gain[0, r, q] = times[q] * influx
            fits &= matrix[0, r, q] + gain[0, r, q] <= limit
            if influx == 0.0:
                for k in range(1, accumulators):
                    gain[k, r, q] = 0.0
                continue
            for k in range(1, accumulators):
                flow, bound = 0.0, 0.0
                for edge in range(in_start[q], in_start[q + 1]):
                    value = matrix[k, r, in_source[edge]]
                    flow += value
                    bound += abs(value)
                gain[k, r, q] = times[q] * flow + added[k, q] * influx
                if whole[k - 1]:
                    bound = times[q] * bound + abs(added[k, q]) * influx + abs(matrix[k, r, q])
                    fits &= bound <= limit
    return fits


@inlined
def _add_gain(matrix: Floats, gain: Floats, times: Floats, added: Floats, row_start: Ints, row: Ints) -> None:
    """Adds what the noted events add to the matrix, and clears the notes."""
    for q in range(1, len(times)):
        if times[q] != 0.0:
            for at in range(row_start[q], row_start[q + 1]):
                r = row[at]
                for k in range(len(matrix)):
                    matrix[k, r, q] += gain[k, r, q]
            times[q] = 0.0
            for k in range(1, len(matrix)):
                added[k, q] = 0.0


@inlined
def _begin(matrix: Floats) -> None:
    """Sets a matrix to that of no events."""
    matrix[:] = 0.0
    for p in range(matrix.shape[1]):
        matrix[0, p, p] = 1.0


@jit
def _multiply_instants(
    segment_start: Ints,
    instant: Ints,
    mask: Ints,
    weights: Floats,
    counted: Ints,
    whole: Bools,
    transitions: Transitions,
    limit: float,
) -> tuple[Floats, Ints]:
    """Multiplies consecutive instants while their numbers stay within a limit; returns leaves, and each one's segment.

    Parameters
    ----------
    segment_start, instant, mask
        Those of the events.
    weights, counted, whole
        What each event contributes per limb, shape (limbs, n); the variable whose events have the weights, -1: any; and
        whether the limb's numbers are limited like the counts.
    transitions
        The machine.
    limit
        No number of a leaf of several instants is larger.
    """
    variable, in_start, in_source, row_start, row = transitions[:5]
    accumulators, places, segments = len(weights) + 1, len(variable), len(segment_start) - 1
    out, owner = np.empty((segments, accumulators, places, places)), np.empty(segments, dtype=np.int64)
    matrix, gain = np.zeros((accumulators, places, places)), np.zeros((accumulators, places, places))
    times, added = np.zeros(places), np.zeros((accumulators, places))
    size = 0
    for s in range(segments):
        _begin(matrix)
        fresh = True
        i, last = segment_start[s], segment_start[s + 1]
        while i < last:
            i = _take(i, last, instant, mask, weights, counted, variable, times, added)
            # What is too large for the leaf as it stands begins the next one, which may be as large as one instant is.
            while True:
                fits = _gain(matrix, gain, times, added, whole, in_start, in_source, row_start, row, limit)
                if fits or fresh:
                    break
                if size == len(owner):
                    out, owner = _doubled(out, owner)
                out[size], owner[size] = matrix, s
                size += 1
                _begin(matrix)
                fresh = True
            _add_gain(matrix, gain, times, added, row_start, row)
            fresh = False
        if size == len(owner):
            out, owner = _doubled(out, owner)
        out[size], owner[size] = matrix, s
        size += 1
    return out[:size], owner[:size]


@jit
def _doubled(out: Floats, owner: Ints) -> tuple[Floats, Ints]:
    """Returns the arrays with twice the room."""
    return np.concatenate((out, np.empty_like(out))), np.concatenate((owner, np.empty_like(owner)))


class Leaves(NamedTuple):
    """The leaves of the segments of some events, in doubles that do not round (or stay in their range)."""

    #: Shape (leaves, 1 + limbs, D, D).
    matrices: Floats
    #: The segment of each leaf, rising.
    owner: Ints
    limbs: list[Limb]

    def of(self, part: Part) -> list[tuple[int, Limb]]:
        """Returns the limbs of a part's accumulators, and their positions among the matrices."""
        return [(row, limb) for row, limb in enumerate(self.limbs, 1) if limb.accumulator in part.accumulators]


def leaves_of(spec: KernelSpec, transitions: Transitions, events: Events, weights: Weights) -> Leaves:
    """Multiplies the instants of each segment of some events."""
    accumulators = [additive_accumulators(spec)[limb.accumulator] for limb in weights.limbs]
    matrices, owner = _multiply_instants(
        events.segment_start,
        events.instant,
        events.mask,
        weights.rows,
        np.array([accumulator.variable for accumulator in accumulators], dtype=np.int64),
        np.array([is_exact_accumulator(spec, accumulator) for accumulator in accumulators], dtype=np.bool_),
        transitions,
        EXACT_DOUBLE if spec.answer.exact else _ROUNDED_LIMIT,
    )
    return Leaves(matrices, owner, weights.limbs)


def in_doubles(part: Part, leaves: Leaves) -> Bools:
    """Returns which segments have a single leaf that needs no limbs, so that their matrices are doubles."""
    small: Bools = np.bincount(leaves.owner) == 1
    return small & (not any(limb.shift for _, limb in leaves.of(part)))


def taken_accumulators(part: Part, leaves: Leaves, rows: Bools) -> Floats:
    """Returns some leaves, with the part's accumulators only."""
    return leaves.matrices[rows][:, [0, *(row for row, _ in leaves.of(part))]]


def in_whole_numbers(part: Part, leaves: Leaves) -> Matrices:
    """Returns the matrix of each segment, in doubles where these hold all of them."""
    small = in_doubles(part, leaves)
    if small.all():
        return taken_accumulators(part, leaves, small)
    return multiply_neighbours(whole_leaves(part, leaves, np.ones(len(leaves.owner), dtype=np.bool_)), leaves.owner)


def whole_leaves(part: Part, leaves: Leaves, rows: Bools) -> Matrices:
    """Returns some leaves in whole numbers, with limbs put together."""
    taken = leaves.matrices[rows]
    out = zeros((len(taken), len(part.accumulators), *taken.shape[2:]), object)
    out[:, 0] = taken[:, 0].astype(np.int64).astype(object)
    for row, limb in leaves.of(part):
        out[:, part.accumulators.index(limb.accumulator)] += taken[:, row].astype(np.int64).astype(object) * (
            1 << limb.shift
        )
    return out


def scaled_leaves(part: Part, leaves: Leaves) -> Matrices:
    """Returns the leaves in scaled numbers, with limbs put together."""
    taken = leaves.matrices
    out = zeros((len(taken), len(part.accumulators), *taken.shape[2:]), np.complex128)
    out[:, 0] = to_scaled(taken[:, 0])
    for row, limb in leaves.of(part):
        values = taken[:, row]
        scaled = to_scaled(values)
        # Zero, infinities and NaN have no exponent.
        scaled.imag = np.where(np.isfinite(values) & (values != 0), scaled.imag + limb.shift, 0)
        position = part.accumulators.index(limb.accumulator)
        out[:, position] = _sums(out[:, position], scaled)
    return out


@jit
def _sums(a: Matrices, b: Matrices) -> Matrices:
    x, y = a.ravel(), b.ravel()
    out = np.empty(len(x), dtype=np.complex128)
    for k in range(len(x)):
        out[k] = add_scaled(x[k], y[k])
    return out.reshape(a.shape)
