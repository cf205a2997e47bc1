"""Counting as a product of small matrices: panes are multiplied out apart, windows are products of panes.

Where no two events are compared with each other, what an event does to the number of trends that end in each state is
linear. Let entry ``(p, q)`` of a stretch's matrix be the number of ways to go on from state ``p`` to state ``q`` over
its events, the states being the automaton's, from 1, and 0 the place before the first event. An instant's matrix is
``I + sum(U_e)`` over its events, which do not see each other; ``U_e`` has a 1 for each step into a state that may read
event ``e``. The matrix of consecutive stretches is the product of theirs, and a window's number of trends is what its
matrix has in row 0 and the columns of the final states.

A sum over the trends is one more matrix per lane, which follows the counts as a derivative does:
``(A, A') (B, B') = (A B, A B' + A' B)``. A *matrix* of this module is the array of all lanes', shape (lanes, D, D),
that of the counts first.

Within a pane the events are multiplied in doubles, up to where these would round (or, where rounding is allowed, would
leave their range). The leaves so got are multiplied as a balanced tree, in Python's whole numbers, whose products of
large numbers cost less than their squares, or in scaled doubles. Panes of one key are cut into blocks as long as a
window, which is then a suffix of one block and a prefix of the next: two products per pane and a row times a column per
window, however many windows overlap.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import attrs
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cetdsl.ir.accumulators import Lane
from cetdsl.ir.kernel import KernelSpec, is_exact_lane
from cetdsl.ir.layout import RowLayout
from cetdsl.ir.machine import Machine
from cetdsl.ir.windowing import Windowing, count_in_panes
from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.answers.rows import answer_columns, group_columns
from cetdsl.kernels.answers.tables import LaneTable, Values, additive_lanes, scaled_integers
from cetdsl.kernels.numbers.arithmetic import add_scaled, normalised
from cetdsl.kernels.numbers.scaled import EXACT_DOUBLE, Objects, Scaled, to_scaled
from cetdsl.kernels.vocabulary import Events, Ints, Slices
from cetdsl.kernels.wire.chunks import CHUNK_EVENTS, Chunk, ChunkReader, refusing_too_large
from cetdsl.kernels.wire.columns import as_array, from_numpy, validity
from cetdsl.kernels.wire.values import ValueColumn

#: Entries of all matrices of a chunk, about; they bound its memory.
_CHUNK_NUMBERS = 2**20
#: A whole number of a window counts for so many: it may have as many bits as the window has events.
_WHOLE_COUNTS = 16
#: Where rounding is allowed, the counts of a leaf stay below 2**500 and its weights below 2**400.
_ROUNDED_LIMIT, _LARGE_WEIGHT = 2.0**500, 400

#: Matrices of all lanes, the first axis numbering stretches: whole numbers in doubles where these are known to hold
#: them, else of type object; rounded numbers scaled, as complex ones.
Matrices = NDArray[Any]


class Steps(NamedTuple):
    """A machine without predicates as arrays; place 0 comes before the first event, state ``s`` is place ``s + 1``.

    Attributes
    ----------
    variable : int64 array, shape (D,)
        What each place reads; -1 for place 0.
    in_start, in_source : int64 arrays
        ``in_source[in_start[q]:in_start[q + 1]]`` are the places from which one step leads to ``q``.
    row_start, row : int64 arrays
        In the same way, the places from which one step or more lead to ``q``.
    kept : tuple of two int64 arrays
        Rows and columns of the entries that are not always 0.
    final : bool array, shape (D,)
    """

    variable: Ints
    in_start: Ints
    in_source: Ints
    row_start: Ints
    row: Ints
    kept: tuple[Ints, Ints]
    final: NDArray[np.bool_]


def lay_out_steps(machine: Machine) -> Steps:
    """The arrays of a machine.

    Examples
    --------
    >>> from cetdsl.planning.physical import Edge, Machine
    >>> steps = lay_out_steps(Machine((0, 1), ((0, ()),), ((1, ()),), (Edge(0, 1), Edge(1, 1))))
    >>> [steps.in_source[a:b].tolist() for a, b in zip(steps.in_start, steps.in_start[1:])]
    [[], [0], [1, 2]]
    >>> [steps.row[a:b].tolist() for a, b in zip(steps.row_start, steps.row_start[1:])]
    [[], [0], [0, 1, 2]]
    """
    size = len(machine.variables) + 1
    step = np.zeros((size, size), dtype=np.bool_)
    step[0, [state + 1 for state, _ in machine.initial]] = True
    for edge in machine.edges:
        step[edge.source + 1, edge.target + 1] = True
    reach = step.copy()
    for middle in range(size):
        reach |= reach[:, middle, None] & reach[None, middle, :]
    final = np.zeros(size, dtype=np.bool_)
    final[[state + 1 for state, _ in machine.final]] = True
    in_start, in_source = _by_column(step)
    row_start, row = _by_column(reach)
    variable = np.array([-1, *machine.variables], dtype=np.int64)
    kept_row, kept_column = np.nonzero(reach | np.eye(size, dtype=np.bool_))
    return Steps(variable, in_start, in_source, row_start, row, (kept_row, kept_column), final)


def _by_column(relation: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    start = np.concatenate([[0], np.cumsum(relation.sum(axis=0))]).astype(np.int64)
    return start, np.nonzero(relation.T)[1].astype(np.int64)


# ---------------------------------------------------------------------------------------------- the two systems


class Part(NamedTuple):
    """Lanes that are computed together: the first is the number of trends, which weighs the others.

    Attributes
    ----------
    lanes : tuple of int
        Positions among the additive lanes.
    whole : bool
        Whole numbers of any size, else scaled doubles.
    """

    lanes: tuple[int, ...]
    whole: bool


def _zeros(shape: tuple[int, ...], dtype: Any) -> Matrices:
    return np.full(shape, 0, dtype=object) if np.dtype(dtype).hasobject else np.zeros(shape, dtype=dtype)


def _one(dtype: Any) -> Any:
    return complex(0.5, 1) if dtype == np.complex128 else 1


def parts_of(spec: KernelSpec) -> list[Part]:
    """Which lanes are whole numbers, and which are rounded."""
    additive = additive_lanes(spec)
    whole = [k for k, lane in enumerate(additive) if is_exact_lane(spec, lane)]
    rounded = [k for k in range(len(additive)) if k not in whole]
    found = []
    if whole:
        found.append(Part(tuple(whole), True))
    if rounded:
        found.append(Part(tuple(sorted({0, *rounded})), False))
    return found


def product(a: Matrices, b: Matrices) -> Matrices:
    """Products of matrices of all lanes, one by one along the first axis.

    Examples
    --------
    >>> a = np.array([[[[1, 2], [0, 1]], [[0, 5], [0, 0]]]], dtype=object)
    >>> product(a, a)[0].tolist()
    [[[1, 4], [0, 1]], [[0, 10], [0, 0]]]
    """
    if a.dtype == np.complex128:
        return _product_scaled(a, b)
    out: Matrices = a[:, :1] @ b
    if a.shape[1] > 1:
        out[:, 1:] += a[:, 1:] @ b[:, :1]
    return out


@inlined
def _times(a: complex, b: complex) -> complex:
    """The product; no trend at all, or a sum over none, is 0 whatever the other side."""
    if a.real == 0.0 or b.real == 0.0:
        return complex(0.0, 0.0)
    return normalised(a.real * b.real, a.imag + b.imag)


@jit
def _product_scaled(a: Matrices, b: Matrices) -> Matrices:
    count, lanes, rows, inner = a.shape
    out = np.zeros((count, lanes, rows, b.shape[3]), dtype=np.complex128)
    for n in range(count):
        for r in range(rows):
            for p in range(inner):
                if a[n, 0, r, p].real == 0.0:
                    continue  # then no lane has anything here
                for q in range(b.shape[3]):
                    if b[n, 0, p, q].real == 0.0:
                        continue
                    for k in range(lanes):
                        term = _times(a[n, 0, r, p], b[n, k, p, q])
                        out[n, k, r, q] = add_scaled(out[n, k, r, q], term)
                        if k > 0:
                            term = _times(a[n, k, r, p], b[n, 0, p, q])
                            out[n, k, r, q] = add_scaled(out[n, k, r, q], term)
    return out


# ------------------------------------------------------------------------------------------------------- leaves


class Limb(NamedTuple):
    """A part of a lane's weights in units of ``2**shift``, which is small enough for the doubles of a leaf."""

    lane: int
    shift: int


class Weights(NamedTuple):
    """What events add to the lanes beside the number of trends; the limbs of a lane add up to its weights.

    Attributes
    ----------
    limbs : list of Limb
    rows : float64 array, shape (limbs, n)
    """

    limbs: list[Limb]
    rows: NDArray[np.float64]


def _weights(spec: KernelSpec, columns: list[ValueColumn], count: int) -> Weights:
    """The weights of some events."""
    limbs, rows = [], []
    for k, lane in enumerate(additive_lanes(spec)[1:], 1):
        for row, shift in _limbs(lane, columns, is_exact_lane(spec, lane), count):
            limbs.append(Limb(k, shift))
            rows.append(row)
    return Weights(limbs, np.array(rows, dtype=np.float64).reshape(len(limbs), count))


def _limbs(lane: Lane, columns: list[ValueColumn], whole: bool, count: int) -> list[tuple[NDArray[np.float64], int]]:
    """The limbs of a lane, and the shift of each."""
    if lane.update.power == 0:
        return [(np.ones(count) if lane.column < 0 else columns[lane.column].weights(lane.update, whole), 0)]
    column = columns[lane.column]
    if not whole:
        return _split_doubles(column.weights(lane.update, whole))
    return _split_integers(column.whole_weights(lane.update))


def _split_integers(values: NDArray[Any]) -> list[tuple[NDArray[np.float64], int]]:
    # All events of an instant are added before anything else is, and must not round.
    width = 52 - len(values).bit_length()
    limbs, shift = [], 0
    while len(values) and not -(1 << width) <= values.min() <= values.max() < 1 << width:
        limbs.append(((values & ((1 << width) - 1)).astype(np.float64), shift))
        values, shift = values >> width, shift + width
    return [*limbs, (values.astype(np.float64), shift)]


def _split_doubles(values: NDArray[np.float64]) -> list[tuple[NDArray[np.float64], int]]:
    large = np.isfinite(values) & (np.abs(values) > 2.0**_LARGE_WEIGHT)
    limbs = [(np.where(large, 0.0, values), 0)]
    if large.any():
        down = np.ldexp(np.where(large, values, 0.0), -2 * _LARGE_WEIGHT)
        limbs.append((down, 2 * _LARGE_WEIGHT))
    return limbs


@jit
def _multiply_instants(
    segment_start: Ints,
    instant: Ints,
    mask: Ints,
    weights: NDArray[np.float64],
    counted: Ints,
    whole: NDArray[np.bool_],
    variable: Ints,
    in_start: Ints,
    in_source: Ints,
    row_start: Ints,
    row: Ints,
    limit: float,
) -> tuple[NDArray[np.float64], Ints]:
    """Matrices of runs of instants, as long as their numbers stay within ``limit``, and the segment of each.

    ``counted`` is the variable (-1: any) whose events have the weights; only lanes of ``whole`` weights are limited
    besides the counts, the others follow these.
    """
    lanes, places, segments = len(weights) + 1, len(variable), len(segment_start) - 1
    out = np.empty((segments, lanes, places, places))
    owner = np.empty(segments, dtype=np.int64)
    size = 0
    matrix, gain = np.zeros((lanes, places, places)), np.zeros((lanes, places, places))
    times, added = np.zeros(places), np.zeros((lanes, places))
    for s in range(segments):
        matrix[:] = 0.0
        for p in range(places):
            matrix[0, p, p] = 1.0
        fresh = True
        i, last = segment_start[s], segment_start[s + 1]
        while i < last:
            now = instant[i]
            while i < last and instant[i] == now:
                for q in range(1, places):
                    if (mask[i] >> variable[q]) & 1:
                        times[q] += 1.0
                        for k in range(1, lanes):
                            if counted[k - 1] == -1 or counted[k - 1] == variable[q]:
                                added[k, q] += weights[k - 1, i]
                i += 1
            fits = False
            while not fits:
                fits = True
                for q in range(1, places):
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
                            for k in range(1, lanes):
                                gain[k, r, q] = 0.0
                            continue
                        for k in range(1, lanes):
                            flow, bound = 0.0, 0.0
                            for edge in range(in_start[q], in_start[q + 1]):
                                value = matrix[k, r, in_source[edge]]
                                flow += value
                                bound += abs(value)
                            gain[k, r, q] = times[q] * flow + added[k, q] * influx
                            if whole[k - 1]:
                                bound = times[q] * bound + abs(added[k, q]) * influx + abs(matrix[k, r, q])
                                fits &= bound <= limit
                if fits or fresh:
                    break
                if size == len(owner):
                    out, owner = _doubled(out, owner)
                out[size], owner[size] = matrix, s
                size += 1
                matrix[:] = 0.0
                for p in range(places):
                    matrix[0, p, p] = 1.0
                fresh = True
            for q in range(1, places):
                if times[q] != 0.0:
                    for at in range(row_start[q], row_start[q + 1]):
                        r = row[at]
                        for k in range(lanes):
                            matrix[k, r, q] += gain[k, r, q]
                    times[q] = 0.0
                    for k in range(1, lanes):
                        added[k, q] = 0.0
            fresh = False
        if size == len(owner):
            out, owner = _doubled(out, owner)
        out[size], owner[size] = matrix, s
        size += 1
    return out[:size], owner[:size]


@jit
def _doubled(out: NDArray[np.float64], owner: Ints) -> tuple[NDArray[np.float64], Ints]:
    """The same with room for twice as much."""
    return np.concatenate((out, np.empty_like(out))), np.concatenate((owner, np.empty_like(owner)))


class Leaves(NamedTuple):
    """The segments of some events in doubles that do not round (or stay in their range).

    Attributes
    ----------
    matrices : float64 array, shape (leaves, 1 + limbs, D, D)
    owner : int64 array, shape (leaves,)
        The segment of each, in order.
    limbs : list of Limb
    """

    matrices: NDArray[np.float64]
    owner: Ints
    limbs: list[Limb]

    def of(self, part: Part) -> list[tuple[int, Limb]]:
        """The limbs of a part's lanes, and where they are among the matrices."""
        return [(row, limb) for row, limb in enumerate(self.limbs, 1) if limb.lane in part.lanes]


def _leaves(spec: KernelSpec, steps: Steps, events: Events, weights: Weights) -> Leaves:
    """Multiplies the instants of each segment of some events."""
    lanes = [additive_lanes(spec)[limb.lane] for limb in weights.limbs]
    matrices, owner = _multiply_instants(
        events.segment_start,
        events.instant,
        events.mask,
        weights.rows,
        np.array([lane.variable for lane in lanes], dtype=np.int64),
        np.array([is_exact_lane(spec, lane) for lane in lanes], dtype=np.bool_),
        *steps[:5],
        EXACT_DOUBLE if spec.answer.exact else _ROUNDED_LIMIT,
    )
    return Leaves(matrices, owner, weights.limbs)


def pane_columns(spec: KernelSpec, steps: Steps, events: Events, columns: list[ValueColumn]) -> list[pa.Array]:
    """The matrix of each segment of some events, as columns; :func:`_decode` reads them."""
    leaves = _leaves(spec, steps, events, _weights(spec, columns, len(events.time)))
    out: list[pa.Array] = []
    for part in parts_of(spec):
        if part.whole:
            out += _encode_whole(part, leaves, steps)
        else:
            rounded = _multiply_runs(_scaled_leaves(part, leaves), leaves.owner)
            out.append(_binary(_kept(rounded, steps), np.ones(len(rounded), dtype=np.bool_)))
    return out


def _in_doubles(part: Part, leaves: Leaves) -> NDArray[np.bool_]:
    """The segments whose matrices are a single leaf, which is not made of limbs."""
    small: NDArray[np.bool_] = np.bincount(leaves.owner) == 1
    return small & (not any(limb.shift for _, limb in leaves.of(part)))


def _taken(part: Part, leaves: Leaves, rows: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Some leaves, with the part's lanes only."""
    return leaves.matrices[rows][:, [0, *(row for row, _ in leaves.of(part))]]


def _encode_whole(part: Part, leaves: Leaves, steps: Steps) -> tuple[pa.Array, pa.Array]:
    """A column of doubles for panes that fit them, and one of text for the others."""
    small = _in_doubles(part, leaves)
    in_small = small[leaves.owner]
    alone = _kept(_taken(part, leaves, in_small), steps) if small.any() else np.zeros((0, 0))
    text: list[str | None] = [None] * len(small)
    if not small.all():
        matrices = _multiply_runs(_whole_leaves(part, leaves, ~in_small), leaves.owner[~in_small])
        # Hexadecimal: Python is quadratic in the digits of decimal ones.
        texts = [" ".join([format(entry, "x") for entry in row]) for row in _kept(matrices, steps).tolist()]
        for place, entries in zip(np.nonzero(~small)[0], texts, strict=True):
            text[place] = entries
    return _binary(alone, small), pa.array(text, pa.string())


def _whole_leaves(part: Part, leaves: Leaves, rows: NDArray[np.bool_]) -> Matrices:
    """Some leaves in whole numbers, limbs put together."""
    taken = leaves.matrices[rows]
    out = _zeros((len(taken), len(part.lanes), *taken.shape[2:]), object)
    out[:, 0] = taken[:, 0].astype(np.int64).astype(object)
    for row, limb in leaves.of(part):
        out[:, part.lanes.index(limb.lane)] += taken[:, row].astype(np.int64).astype(object) * (1 << limb.shift)
    return out


def _scaled_leaves(part: Part, leaves: Leaves) -> Matrices:
    """The leaves in scaled numbers, limbs put together."""
    taken = leaves.matrices
    out = _zeros((len(taken), len(part.lanes), *taken.shape[2:]), np.complex128)
    out[:, 0] = to_scaled(taken[:, 0])
    for row, limb in leaves.of(part):
        values = taken[:, row]
        scaled = to_scaled(values)
        # Zero, infinities and NaN have no exponent.
        scaled.imag = np.where(np.isfinite(values) & (values != 0), scaled.imag + limb.shift, 0)
        position = part.lanes.index(limb.lane)
        out[:, position] = _sums(out[:, position], scaled)
    return out


@jit
def _sums(a: Matrices, b: Matrices) -> Matrices:
    x, y = a.ravel(), b.ravel()
    out = np.empty(len(x), dtype=np.complex128)
    for place in range(len(x)):
        out[place] = add_scaled(x[place], y[place])
    return out.reshape(a.shape)


def _multiply_runs(matrices: Matrices, owner: Ints) -> Matrices:
    """The product of each run of equal owners, neighbours first: large numbers meet numbers of their own size."""
    while (owner[1:] == owner[:-1]).any():
        starts = np.nonzero(_changes(owner))[0]
        rank = np.arange(len(owner)) - np.repeat(starts, np.diff(np.append(starts, len(owner))))
        left = np.nonzero(rank % 2 == 0)[0]
        paired = np.append(owner[1:] == owner[:-1], False)[left]
        merged = matrices[left]
        merged[paired] = product(merged[paired], matrices[left[paired] + 1])
        matrices, owner = merged, owner[left]
    return matrices


# ------------------------------------------------------------------------------------------- both stages at once


class _Cut(NamedTuple):
    """Events cut into panes.

    Attributes
    ----------
    start : int64 array, shape (panes + 1,)
        The first event of each pane, and the end.
    number : int64 array, shape (panes,)
    fresh : bool array, shape (panes,)
        Whether a key begins with the pane.
    """

    start: Ints
    number: Ints
    fresh: NDArray[np.bool_]


class PanesEvaluator:
    """Evaluates a query whose windows are products of panes, chunk after chunk of sorted events.

    What :class:`~cetdsl.kernels.aggregate.evaluate.Evaluator` does event by event and window by window, with each event
    multiplied once, however many windows it is in.
    """

    def __init__(self, spec: KernelSpec) -> None:
        self.spec = spec
        self.steps = lay_out_steps(spec.query.machine)
        self.panes = count_in_panes(spec.query.windowing)

    def evaluate(self, events: Events, columns: list[ValueColumn], slices: Slices, bounds: tuple[Ints, Ints]) -> Values:
        """All lanes over all slices; ``bounds`` are for queries whose trends have ends elsewhere."""
        lanes, count = len(additive_lanes(self.spec)), len(slices.low)
        whole = [is_exact_lane(self.spec, lane) for lane in additive_lanes(self.spec)]
        exact: list[Objects | None] = [np.zeros(count, dtype=object) if known else None for known in whole]
        scaled: list[Scaled] = [np.zeros(count, dtype=np.complex128) for _ in range(lanes)]
        if count:
            cut = self._cut(events)
            weights = _weights(self.spec, columns, len(events.time))
            first = np.searchsorted(cut.start, slices.low, side="right") - 1
            last = np.searchsorted(cut.start, slices.high, side="left") - 1
            begin = _starts(slices) // self.spec.query.windowing.slide * self.panes.slide
            most, low = _chunk_panes(self.spec, self.steps), 0
            while low < count:
                # A stretch of windows whose panes fit into memory, one window at least.
                high = max(int(np.searchsorted(last, first[low] + most)), low + 1)
                own = slice(low, high)
                found = self._windows(events, weights, cut, first[own], last[own], begin[own])
                for k in range(lanes):
                    scaled[k][own] = found.scaled[k]
                    if exact[k] is not None:
                        exact[k][own] = found.exact[k]  # type: ignore[index]
                low = high
        return Values(scaled[0].real != 0, exact, scaled, [])

    def _cut(self, events: Events) -> _Cut:
        length, slide = self.spec.query.windowing.length, self.spec.query.windowing.slide
        number = events.time // slide
        if length % slide:
            number = 2 * number + (events.time % slide >= length % slide)
        fresh = _fresh(events)
        start = np.nonzero(fresh | _changes(number))[0]
        return _Cut(np.append(start, len(number)).astype(np.int64), number[start], fresh[start])

    def _windows(self, events: Events, weights: Weights, cut: _Cut, first: Ints, last: Ints, begin: Ints) -> LaneTable:
        """All lanes of windows that reach from their first to their last pane, and begin with a pane's number."""
        a, b = int(first[0]), int(last[-1]) + 1
        leaves = _leaves(self.spec, self.steps, events._replace(segment_start=cut.start[a : b + 1]), weights)
        matrices = [
            _whole(part, leaves) if part.whole else _multiply_runs(_scaled_leaves(part, leaves), leaves.owner)
            for part in parts_of(self.spec)
        ]
        cover = _cover(cut.number[a:b], cut.fresh[a:b], first - a, last - a, begin, self.panes.length)
        return _window_lanes(self.spec, self.steps, matrices, cover)


def _fresh(events: Events) -> NDArray[np.bool_]:
    """Whether a key begins with the event."""
    fresh = np.zeros(len(events.time), dtype=np.bool_)
    fresh[events.segment_start[:-1]] = True
    return fresh


def _changes(values: Ints) -> NDArray[np.bool_]:
    """Whether a value differs from the one before it; the first does."""
    return np.append(True, values[1:] != values[:-1])


def _starts(slices: Slices) -> Ints:
    """When the first window of each slice begins; windows may share one, and any of them cuts it rightly."""
    return slices.start[np.unique(slices.slice, return_index=True)[1]]


def _whole(part: Part, leaves: Leaves) -> Matrices:
    """The matrix of each segment, in doubles where these hold all of them."""
    small = _in_doubles(part, leaves)
    if small.all():
        return _taken(part, leaves, small)
    return _multiply_runs(_whole_leaves(part, leaves, np.ones(len(leaves.owner), dtype=np.bool_)), leaves.owner)


# ------------------------------------------------------------------------------------------------ the two stages


def _chunk_rows(spec: KernelSpec, steps: Steps) -> int:
    numbers = len(additive_lanes(spec)) * len(steps.variable) ** 2
    return min(max(_CHUNK_NUMBERS // numbers, 1_024), CHUNK_EVENTS)


def _chunk_panes(spec: KernelSpec, steps: Steps) -> int:
    """Panes of a chunk: those of several windows, as what two chunks share is multiplied twice."""
    rows = _chunk_rows(spec, steps)
    if any(part.whole for part in parts_of(spec)):
        rows //= _WHOLE_COUNTS
    return max(rows, 4 * count_in_panes(spec.query.windowing).length, 1_024)


def pane_stream(spec: KernelSpec, batches: Iterator[pa.RecordBatch], chunk_events: int = 0) -> Iterator[list[pa.Array]]:
    """One row per key and pane: the first stage.

    Parameters
    ----------
    spec : KernelSpec
        Of the answer.
    batches : iterator of pyarrow.RecordBatch
        Events sorted by key, pane, time and tie-break columns; the number of the pane comes after the key columns.
    chunk_events : int
        Events per kernel call, at least; 0: as many as their matrices allow.

    Yields
    ------
    list of pyarrow.Array
        Key columns, the pane, a mask (which any reader of rows expects), and the matrix: for lanes of whole numbers a
        column of doubles and one of text, for others one of scaled doubles.
    """
    steps = lay_out_steps(spec.query.machine)
    keys = spec.layout.keys + 1
    events = spec.with_query(windowing=Windowing()).with_layout(keys=keys).with_answer(groups=keys)
    for chunk in ChunkReader(events, batches, chunk_events or _chunk_rows(spec, steps)):
        found = chunk.slices.segment
        if not len(found):
            continue
        with refusing_too_large(events, chunk):
            known = chunk.events._replace(segment_start=chunk.events.segment_start[: len(found) + 1])
            matrices = pane_columns(spec, steps, known, chunk.values)
        yield [*group_columns(events, chunk, found), from_numpy(np.ones(len(found), dtype=np.int8)), *matrices]


def window_stream(
    spec: KernelSpec, batches: Iterator[pa.RecordBatch], chunk_panes: int = 0
) -> Iterator[list[pa.Array]]:
    """The answer of each window from the rows of the panes, sorted by key and pane: the second stage.

    The columns are those of :func:`~cetdsl.kernels.aggregate.stream.aggregate_stream`.
    """
    steps = lay_out_steps(spec.query.machine)
    windowing = count_in_panes(spec.query.windowing)
    layout = RowLayout(spec.layout.keys, spec.layout.time, "bigint")
    panes = attrs.evolve(spec.with_query(windowing=windowing), layout=layout)
    for chunk in ChunkReader(panes, batches, chunk_panes or _chunk_panes(spec, steps)):
        events, slices = chunk.events, chunk.slices
        if not len(slices.low):
            continue
        with refusing_too_large(panes, chunk):
            cover = _cover(events.time, _fresh(events), slices.low, slices.high - 1, _starts(slices), windowing.length)
            table = _window_lanes(spec, steps, _decoded(spec, steps, chunk), cover)
        found = np.nonzero(table.scaled[0].real[slices.slice] != 0)[0]
        if len(found):
            groups = group_columns(spec, chunk, slices.segment[found])
            start = slices.start[found] // windowing.slide * spec.query.windowing.slide
            yield answer_columns(spec, table.take(slices.slice[found]), groups, start)


def _kept(matrices: Matrices, steps: Steps) -> NDArray[Any]:
    """The entries that are not always 0, one row per matrix."""
    kept: NDArray[Any] = matrices[:, :, steps.kept[0], steps.kept[1]].reshape(len(matrices), -1)
    return kept


def _binary(rows: NDArray[Any], present: NDArray[np.bool_]) -> pa.Array:
    """The bytes of each row, where there is one, without a Python object for each."""
    width = rows.shape[1] * rows.itemsize
    offsets = np.append(0, np.cumsum(present)).astype(np.int64) * width
    if offsets[-1] >= 2**31:
        raise MemoryError("the matrices of a chunk exceed what one Arrow array can hold")
    bitmap = pa.py_buffer(np.packbits(present, bitorder="little"))
    buffers = [bitmap, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(np.ascontiguousarray(rows))]
    return pa.Array.from_buffers(pa.binary(), len(present), buffers)


def _decode(part: Part, columns: list[pa.Array], steps: Steps) -> Matrices:
    """The matrices of some rows of panes: in doubles, of objects, or scaled, whichever holds all of them."""
    present = validity(columns[0])
    small = np.frombuffer(b"".join(columns[0].drop_null().to_pylist()), np.float64 if part.whole else np.complex128)
    small = small.reshape(int(present.sum()), len(part.lanes), len(steps.kept[0]))
    if not present.all():
        texts = columns[1].drop_null().to_pylist()
        flat = _zeros((len(present), len(part.lanes), len(steps.kept[0])), object)
        flat[present] = small.astype(np.int64).astype(object).reshape(-1, *flat.shape[1:])
        large = np.array([[int(entry, 16) for entry in row.split(" ")] for row in texts], dtype=object)
        flat[~present] = large.reshape(len(texts), *flat.shape[1:])
        small = flat
    places = len(steps.variable)
    out = _zeros((len(present), len(part.lanes), places, places), small.dtype)
    out[:, :, steps.kept[0], steps.kept[1]] = small
    return out


class Cover(NamedTuple):
    """How the slices of a chunk of panes are made of blocks, which are as long as a window.

    A window is a suffix of the block that it begins in and a prefix of the next one; either may have no events.

    Attributes
    ----------
    begins : bool array, shape (panes,)
        Whether a block begins with the pane.
    first, last : int64 arrays, shape (slices,)
        Panes with which the suffix begins and the prefix ends.
    in_suffix, in_prefix : bool arrays, shape (slices,)
        Whether there is one.
    """

    begins: NDArray[np.bool_]
    first: Ints
    last: Ints
    in_suffix: NDArray[np.bool_]
    in_prefix: NDArray[np.bool_]


def _cover(pane: Ints, fresh: NDArray[np.bool_], first: Ints, last: Ints, begin: Ints, length: int) -> Cover:
    """How slices are made of blocks.

    Parameters
    ----------
    pane : int64 array, shape (panes,)
        Their numbers, rising within each key.
    fresh : bool array, shape (panes,)
        Whether a key begins with the pane.
    first, last : int64 arrays, shape (slices,)
        The first and the last pane of each slice.
    begin : int64 array, shape (slices,)
        The number of the pane that a window of the slice begins with.
    length : int
        Panes of a window.
    """
    block, own = pane // length, begin // length
    return Cover(fresh | _changes(block), first, last, block[first] == own, block[last] != own)


def _decoded(spec: KernelSpec, steps: Steps, chunk: Chunk) -> list[Matrices]:
    """Per part the matrices of a chunk of panes."""
    found, position = [], spec.layout.keys + 2
    for part in parts_of(spec):
        columns = [as_array(chunk.table.column(position + n)) for n in range(1 + part.whole)]
        position += len(columns)
        found.append(_decode(part, columns, steps))
    return found


def _window_lanes(spec: KernelSpec, steps: Steps, panes: list[Matrices], cover: Cover) -> LaneTable:
    """All lanes over the windows of a cover; ``panes`` are the matrices of each part."""
    exact: list[Objects | None] = [None] * len(additive_lanes(spec))
    scaled: list[Any] = [None] * len(exact)
    for part, matrices in zip(parts_of(spec), panes, strict=True):
        if part.whole:
            whole, rounded = whole_answers(matrices, cover, steps)
        else:
            rounded = answers(matrices, cover, steps)
        for place, k in enumerate(part.lanes):
            if part.whole:
                exact[k] = whole[:, place]
            if scaled[k] is None:
                scaled[k] = np.ascontiguousarray(rounded[:, place])
    return LaneTable(exact, scaled, [])


def whole_answers(matrices: Matrices, cover: Cover, steps: Steps) -> tuple[Objects, Scaled]:
    """All lanes of all slices in whole numbers, and the same scaled: by way of doubles where these do not round."""
    shape = (len(cover.first), matrices.shape[1])
    small, exact = np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=object)
    scaled: Scaled = np.zeros(shape, dtype=np.complex128)
    if matrices.dtype != object:
        with np.errstate(over="ignore", invalid="ignore"):
            # What rounds on the way is too large for a double in the answer as well, or multiplied by 0 there.
            bound = answers(np.abs(matrices), cover, steps)
            found = answers(matrices, cover, steps) if (matrices < 0).any() else bound
        small = bound <= EXACT_DOUBLE
        exact[small] = found[small].astype(np.int64)
        scaled[small] = to_scaled(found[small])
        if small.all():
            return exact, scaled
        matrices = matrices.astype(np.int64).astype(object)
    large = answers(matrices, cover, steps)[~small]
    exact[~small] = large
    scaled[~small] = scaled_integers(large)
    return exact, scaled


def answers(matrices: Matrices, cover: Cover, steps: Steps) -> NDArray[Any]:
    """All lanes of all slices, shape (slices, lanes): a row of a suffix times a column of a prefix."""
    lanes, places, dtype = matrices.shape[1], len(steps.final), matrices.dtype
    before = _zeros((len(cover.first), lanes, 1, places), dtype)
    before[:, 0, 0, 0] = _one(dtype)
    before[cover.in_suffix] = suffixes(matrices, cover.begins)[cover.first[cover.in_suffix]]
    final = _zeros((1, lanes, places, 1), dtype)
    final[0, 0, steps.final, 0] = _one(dtype)
    after = np.repeat(final, len(cover.last), axis=0)
    after[cover.in_prefix] = prefixes(matrices, cover.begins, final)[cover.last[cover.in_prefix]]
    return product(before, after)[:, :, 0, 0]


def prefixes(matrices: Matrices, begins: NDArray[np.bool_], final: Matrices) -> Matrices:
    """For each matrix the product of its block up to it, times the column ``final``.

    Parameters
    ----------
    begins : bool array
        Whether a block begins with the matrix.
    """
    out = np.empty((len(matrices), matrices.shape[1], matrices.shape[2], 1), dtype=matrices.dtype)
    before = np.zeros(0, dtype=np.int64)
    running = matrices[:0]
    for rows in _by_rank(begins):
        running = product(running[np.searchsorted(before, rows - 1)], matrices[rows]) if len(before) else matrices[rows]
        out[rows] = product(running, np.repeat(final, len(rows), axis=0))
        before = rows
    return out


def suffixes(matrices: Matrices, begins: NDArray[np.bool_]) -> Matrices:
    """For each matrix the first row of the product of its block from it on."""
    out = np.empty((len(matrices), matrices.shape[1], 1, matrices.shape[3]), dtype=matrices.dtype)
    after = np.zeros(0, dtype=np.int64)
    running = matrices[:0]
    last = len(matrices) - 1
    for mirrored in _by_rank(np.append(begins[1:], True)[::-1]):
        rows = (last - mirrored)[::-1]
        running = product(matrices[rows], running[np.searchsorted(after, rows + 1)]) if len(after) else matrices[rows]
        out[rows] = running[:, :, :1]
        after = rows
    return out


def _by_rank(begins: NDArray[np.bool_]) -> Iterator[Ints]:
    """The first matrices of all blocks, then all second ones, and so on."""
    starts = np.nonzero(begins)[0]
    rank = np.arange(len(begins)) - np.repeat(starts, np.diff(np.append(starts, len(begins))))
    order = np.argsort(rank, kind="stable")
    yield from np.split(order, np.cumsum(np.bincount(rank))[:-1])
