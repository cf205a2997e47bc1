"""Computes the matrix of each segment of events: a tree of products whose leaves are products of instants in doubles.

A leaf ends where doubles would round or, where rounding is allowed, would leave their range. The leaves of a segment
are multiplied as a balanced tree: exactly, in Python's whole numbers, which are multiplied in less than quadratic time,
or rounded, in scaled doubles.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cetdsl.ir.accumulators import Accumulator
from cetdsl.ir.kernel import KernelSpec, is_exact_accumulator
from cetdsl.kernels._borrow import borrowed
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
    """A part of an accumulator's weights, in units of ``2**shift``, small enough for the doubles of a leaf.

    A leaf has a matrix for each limb; :func:`whole_leaves` and :func:`scaled_leaves` add up those of an accumulator.
    """

    accumulator: int
    shift: int


class Weights(NamedTuple):
    """The weights of events in the accumulators other than the number of trends, as sums of limbs."""

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
    # The weights of an instant's events are added up before the limit is tested, and that sum must not be rounded.
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
    touched: Ints,
) -> tuple[int, int]:
    """Collects the events of the instant of event ``i`` for each place that may read them.

    ``times[q]`` counts the events that place ``q`` may read, ``added[k * D + q]`` adds up their weights in limb
    ``k - 1``, and ``touched`` receives the places that read any. For the other arguments see :class:`_Instants`.
    Returns the event after the instant, and the number of places in ``touched``.
    """
    now, places = instant[i], 0
    while i < last and instant[i] == now:
        for q in range(1, len(variable)):
            if (mask[i] >> variable[q]) & 1:
                if times[q] == 0.0:
                    touched[places] = q
                    places += 1
                times[q] += 1.0
                for k in range(len(counted)):
                    if counted[k] == -1 or counted[k] == variable[q]:
                        added[(k + 1) * len(times) + q] += weights[k, i]
        i += 1
    return i, places


@inlined
def _gain(
    matrix: Floats,
    gain: Floats,
    times: Floats,
    added: Floats,
    touched: Ints,
    places: int,
    whole: Bools,
    entry_start: Ints,
    entry: Ints,
    inflow_start: Ints,
    inflow: Ints,
    limit: float,
) -> bool:
    """Writes what the collected events add to each entry, and returns whether all numbers stay within the limit."""
    fits, limbs, changing, width = True, len(whole), len(entry), len(times)
    size = width * width
    for number in range(places):
        q = touched[number]
        count = times[q]
        for j in range(entry_start[q], entry_start[q + 1]):
            begin, end, at = inflow_start[j], inflow_start[j + 1], entry[j]
            influx = 0.0
            for place in range(begin, end):
                influx += matrix[inflow[place]]
            gain[j] = count * influx
            fits &= matrix[at] + count * influx <= limit
            if influx == 0.0:
                for k in range(1, limbs + 1):
                    gain[k * changing + j] = 0.0
                continue
            for k in range(1, limbs + 1):
                flow, bound, weight = 0.0, 0.0, added[k * width + q]
                for place in range(begin, end):
                    value = matrix[k * size + inflow[place]]
                    flow += value
                    bound += abs(value)
                gain[k * changing + j] = count * flow + weight * influx
                if whole[k - 1]:
                    bound = count * bound + abs(weight) * influx + abs(matrix[k * size + at])
                    fits &= bound <= limit
    return fits


@inlined
def _add_gain(
    matrix: Floats,
    gain: Floats,
    times: Floats,
    added: Floats,
    touched: Ints,
    places: int,
    accumulators: int,
    entry_start: Ints,
    entry: Ints,
) -> None:
    """Adds the gain of the collected events to the matrix, and clears what was collected of them."""
    changing, width = len(entry), len(times)
    size = width * width
    for number in range(places):
        q = touched[number]
        for j in range(entry_start[q], entry_start[q + 1]):
            for k in range(accumulators):
                matrix[k * size + entry[j]] += gain[k * changing + j]
        times[q] = 0.0
        for k in range(1, accumulators):
            added[k * width + q] = 0.0


@inlined
def _begin(matrix: Floats, places: int) -> None:
    """Sets a matrix to that of no events."""
    matrix[:] = 0.0
    for p in range(places):
        matrix[p * places + p] = 1.0


class _Instants(NamedTuple):
    """Events that are multiplied instant by instant, and what each of them contributes to each limb."""

    segment_start: Ints
    instant: Ints
    mask: Ints
    #: Shape (limbs, n).
    weights: Floats
    #: Of each limb the variable whose events have the weights, -1: any.
    counted: Ints
    #: Whether the numbers of a limb are limited like the counts.
    whole: Bools


class _Room(NamedTuple):
    """The arrays in which a leaf's matrix, and the gain of one instant, are computed; see :func:`_take`, :func:`_gain`.

    The entries of the accumulators' matrices come one after another, and so do the gains of those that may change.
    """

    matrix: Floats
    gain: Floats
    times: Floats
    added: Floats
    touched: Ints


class _Place(NamedTuple):
    """The position reached: the next ``event``, its ``segment``, and whether the current leaf has no events yet."""

    segment: int
    event: int
    fresh: bool
    #: The leaves that are complete.
    leaves: int


@jit
def _multiply_instants(events: _Instants, transitions: Transitions, limit: float) -> tuple[Floats, Ints]:
    """Multiplies consecutive instants while their numbers stay within a limit; returns leaves, and each one's segment.

    Only a leaf of a single instant may have numbers above the limit.
    """
    accumulators, places = len(events.weights) + 1, len(transitions.variable)
    segments = len(events.segment_start) - 1
    room = _Room(
        np.zeros(accumulators * places * places),
        np.zeros(accumulators * len(transitions.entry)),
        np.zeros(places),
        np.zeros(accumulators * places),
        np.empty(places, dtype=np.int64),
    )
    _begin(room.matrix, places)
    out, owner = np.empty((segments + 1, len(room.matrix))), np.empty(segments + 1, dtype=np.int64)
    place = _Place(0, events.segment_start[0], True, 0)
    while True:
        place = _fill(events, transitions, limit, room, place, out, owner)
        if place.segment == segments:
            break
        out, owner = np.concatenate((out, np.empty_like(out))), np.concatenate((owner, np.empty_like(owner)))
    leaves = place.leaves
    return out[:leaves].reshape(leaves, accumulators, places, places), owner[:leaves]


@jit
def _fill(
    events: _Instants,
    transitions: Transitions,
    limit: float,
    room: _Room,
    place: _Place,
    out: Floats,
    owner: Ints,
) -> _Place:
    """Goes on from a place until all is multiplied, or until the next event might need more leaves than ``out`` has.

    A loop that made ``out`` larger by itself would take twice as long for each event.
    """
    segment_start, instant, mask, weights, counted, whole = borrowed(events)
    variable, entry_start, entry, inflow_start, inflow = borrowed(transitions)[:5]
    matrix, gain, times, added, touched = borrowed(room)
    out, owner = borrowed((out, owner))
    accumulators, places = len(weights) + 1, len(variable)
    s, i, fresh, size = place
    while s < len(segment_start) - 1:
        last = segment_start[s + 1]
        while i < last:
            if size + 1 >= len(owner):
                return _Place(s, i, fresh, size)
            i, reading = _take(i, last, instant, mask, weights, counted, variable, times, added, touched)
            # If the leaf cannot take the instant, the instant begins the next leaf, whatever its size.
            while True:
                fits = _gain(
                    matrix, gain, times, added, touched, reading, whole, entry_start, entry, inflow_start, inflow, limit
                )
                if fits or fresh:
                    break
                out[size] = matrix
                owner[size] = s
                size += 1
                _begin(matrix, places)
                fresh = True
            _add_gain(matrix, gain, times, added, touched, reading, accumulators, entry_start, entry)
            fresh = False
        if size == len(owner):
            return _Place(s, i, fresh, size)
        out[size] = matrix
        owner[size] = s
        size += 1
        _begin(matrix, places)
        fresh = True
        s += 1
    return _Place(s, i, fresh, size)


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
    instants = _Instants(
        events.segment_start,
        events.instant,
        events.mask,
        weights.rows,
        np.array([accumulator.variable for accumulator in accumulators], dtype=np.int64),
        np.array([is_exact_accumulator(spec, accumulator) for accumulator in accumulators], dtype=np.bool_),
    )
    limit = EXACT_DOUBLE if spec.answer.exact else _ROUNDED_LIMIT
    matrices, owner = _multiply_instants(instants, transitions, limit)
    return Leaves(matrices, owner, weights.limbs)


def in_doubles(part: Part, leaves: Leaves) -> Bools:
    """Returns the segments that have one leaf, where no weight was cut into limbs: their matrices are doubles."""
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
