"""Windows as products of panes: each pane's matrix is computed once, and windows are products of these.

If no predicate compares two events, the effect of an event on the numbers of trends is a linear map, and so is that of
a pane: one small matrix (:mod:`~cetdsl.kernels.aggregate.matrices`), which is a product over the pane's instants
(:mod:`~cetdsl.kernels.aggregate.leaves`). The effect of a window is the product of its panes' matrices
(:mod:`~cetdsl.kernels.aggregate.cover`). One stage can compute both for the events of a chunk; or a first stage
computes the panes' matrices, Spark shuffles these, and a second stage multiplies them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import attrs
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cetdsl.ir.kernel import KernelSpec, is_exact_accumulator
from cetdsl.ir.layout import BUCKET, MATRIX, SHARE, numbered, of_panes
from cetdsl.ir.stages import PaneSpec
from cetdsl.ir.windowing import Windowing, count_in_panes
from cetdsl.kernels.aggregate.cover import Cover, cover_of, window_accumulators
from cetdsl.kernels.aggregate.evaluate import Evaluator
from cetdsl.kernels.aggregate.extremes import kept_of
from cetdsl.kernels.aggregate.lattice import window_extremes
from cetdsl.kernels.aggregate.leaves import (
    Leaves,
    Weights,
    in_doubles,
    in_whole_numbers,
    leaves_of,
    scaled_leaves,
    taken_accumulators,
    weights_of,
    whole_leaves,
)
from cetdsl.kernels.aggregate.matrices import (
    Matrices,
    Part,
    Transitions,
    changes,
    lay_out_transitions,
    multiply_neighbours,
    parts_of,
    zeros,
)
from cetdsl.kernels.aggregate.stream import answers, are_large
from cetdsl.kernels.answers.rows import answer_columns, group_columns
from cetdsl.kernels.answers.tables import AccumulatorTable, Values, additive_accumulators, extreme_accumulators
from cetdsl.kernels.numbers.scaled import Objects, Scaled
from cetdsl.kernels.vocabulary import Bools, Events, Ints, Slices
from cetdsl.kernels.wire.chunks import CHUNK_EVENTS, Chunk, ChunkReader, Columns, by_chunks, refusing_too_large
from cetdsl.kernels.wire.columns import from_bytes, from_numpy, validity
from cetdsl.kernels.wire.parcels import parcel_stream
from cetdsl.kernels.wire.values import ValueColumn

#: Entries of all matrices of a chunk, about; they bound its memory.
_CHUNK_NUMBERS = 2**20
#: A whole number counts for so many entries, because it may have as many bits as the window has events.
_WHOLE_COUNTS = 64
#: Windows whose answers are made at a time: a whole number takes several times as much memory as text.
_ANSWER_ROWS = 1_024
#: Slices of so many events take as long to propagate as to multiply.
_FEW = 200


class _Cut(NamedTuple):
    """Events cut into panes."""

    #: The first event of each pane, and the end.
    start: Ints
    number: Ints
    #: Whether a key begins with the pane.
    fresh: Bools


class PanesEvaluator:
    """Evaluates a query whose windows are products of panes, chunk after chunk of sorted events.

    It answers as :class:`~cetdsl.kernels.aggregate.evaluate.Evaluator` does, but multiplies each event once, however
    many windows hold it.
    """

    def __init__(self, spec: KernelSpec) -> None:
        self.spec = spec
        self.transitions = lay_out_transitions(spec.query.machine)
        self.panes = count_in_panes(spec.query.windowing)

    def evaluate(self, events: Events, columns: list[ValueColumn], slices: Slices, bounds: tuple[Ints, Ints]) -> Values:
        """Computes all accumulators over all slices; ``bounds`` matter to spans alone."""
        count = len(slices.low)
        whole = [is_exact_accumulator(self.spec, accumulator) for accumulator in additive_accumulators(self.spec)]
        exact: list[Objects | None] = [np.zeros(count, dtype=object) if known else None for known in whole]
        scaled: list[Scaled] = [np.zeros(count, dtype=np.complex128) for _ in whole]
        if count:
            cut = self._cut(events)
            weights = weights_of(self.spec, columns, len(events.time))
            for own, windows in self._parts(cut, slices):
                found = self._windows(events, weights, cut, *windows)
                for k in range(len(whole)):
                    scaled[k][own] = found.scaled[k]
                    if exact[k] is not None:
                        exact[k][own] = found.exact[k]  # type: ignore[index]
        return Values(scaled[0].real != 0, exact, scaled, self.extremes(events, columns, slices))

    def extremes(self, events: Events, columns: list[ValueColumn], slices: Slices) -> list[Ints]:
        """Computes the accumulators that do not add up."""
        lattice = extreme_accumulators(self.spec)
        found = [np.full(len(slices.low), -1, dtype=np.int64) for _ in lattice]
        if lattice and len(slices.low):
            kept = [kept_of(accumulator, columns, len(events.time)) for accumulator in lattice]
            cut = self._cut(events)
            for own, windows in self._parts(cut, slices):
                a, cover = self._cover(cut, *windows)
                start = cut.start[a : a + len(cover.begins) + 1]
                for accumulator, one, values in zip(lattice, kept, found, strict=True):
                    largest = window_extremes(events, start, cover, self.transitions, one, accumulator.variable)
                    values[own] = one.restored(largest)
        return found

    def _parts(self, cut: _Cut, slices: Slices) -> Iterator[tuple[slice, tuple[Ints, Ints, Ints]]]:
        """Yields ranges of windows whose panes fit into memory, one window at least.

        Each range comes with the first pane, the last pane and the begin of its windows.
        """
        first = np.searchsorted(cut.start, slices.low, side="right") - 1
        last = np.searchsorted(cut.start, slices.high, side="left") - 1
        begin = begins_of(slices) // self.spec.query.windowing.slide * self.panes.slide
        most, low = chunk_of_panes(self.spec, self.transitions), 0
        while low < len(slices.low):
            high = max(int(np.searchsorted(last, first[low] + most)), low + 1)
            own = slice(low, high)
            yield own, (first[own], last[own], begin[own])
            low = high

    def _cut(self, events: Events) -> _Cut:
        length, slide = self.spec.query.windowing.length, self.spec.query.windowing.slide
        number = events.time // slide
        if length % slide:
            number = 2 * number + (events.time % slide >= length % slide)
        first = fresh(events)
        start = np.nonzero(first | changes(number))[0]
        return _Cut(np.append(start, len(number)).astype(np.int64), number[start], first[start])

    def _windows(
        self, events: Events, weights: Weights, cut: _Cut, first: Ints, last: Ints, begin: Ints
    ) -> AccumulatorTable:
        """Computes all accumulators of windows, from their ``first`` to their ``last`` pane; see :func:`cover_of`."""
        a, cover = self._cover(cut, first, last, begin)
        b = a + len(cover.begins)
        leaves = leaves_of(self.spec, self.transitions, events._replace(segment_start=cut.start[a : b + 1]), weights)
        matrices = [
            in_whole_numbers(part, leaves)
            if part.whole
            else multiply_neighbours(scaled_leaves(part, leaves), leaves.owner)
            for part in parts_of(self.spec)
        ]
        return window_accumulators(self.spec, self.transitions, matrices, cover)

    def _cover(self, cut: _Cut, first: Ints, last: Ints, begin: Ints) -> tuple[int, Cover]:
        """Returns the first pane of some windows, and how they are made of the panes from there on."""
        a, b = int(first[0]), int(last[-1]) + 1
        return a, cover_of(cut.number[a:b], cut.fresh[a:b], first - a, last - a, begin, self.panes.length)


def fresh(events: Events) -> Bools:
    """Whether a key begins with the event."""
    first = np.zeros(len(events.time), dtype=np.bool_)
    first[events.segment_start[:-1]] = True
    return first


def begins_of(slices: Slices) -> Ints:
    """Returns when the first window of each slice begins; the slice's other windows hold the same events."""
    return slices.start[np.unique(slices.slice, return_index=True)[1]]


def chunk_of_events(spec: KernelSpec, transitions: Transitions) -> int:
    numbers = len(additive_accumulators(spec)) * len(transitions.variable) ** 2
    return min(max(_CHUNK_NUMBERS // numbers, 1_024), CHUNK_EVENTS)


def chunk_of_panes(spec: KernelSpec, transitions: Transitions) -> int:
    """Returns how many panes a chunk has: those of several windows, as panes of two chunks are multiplied in both."""
    rows = chunk_of_events(spec, transitions)
    if any(part.whole for part in parts_of(spec)):
        rows //= _WHOLE_COUNTS
    return max(rows, 4 * count_in_panes(spec.query.windowing).length, 1_024)


def pane_stream(spec: KernelSpec, batches: Iterator[pa.RecordBatch], chunk_events: int = 0) -> Columns:
    """The first stage: yields one row per key and pane; the pane is the time bucket of the events.

    The columns are the share (:mod:`cetdsl.ir.shares`) if events come with one, the keys, the pane and the matrix: for
    accumulators of whole numbers a column of doubles and one of text, for others one of scaled doubles. See
    :func:`~cetdsl.ir.layout.of_panes`. ``chunk_events`` is the number of events of a chunk; by default as many as the
    memory for their matrices allows.
    """
    transitions = lay_out_transitions(spec.query.machine)
    place = [name for name in spec.layout.partition if name != BUCKET]
    place.sort(key=lambda name: name != SHARE)

    def panes(chunk: Chunk) -> Columns:
        found = chunk.slices.segment
        if len(found):
            known = chunk.events._replace(segment_start=chunk.events.segment_start[: len(found) + 1])
            matrices = pane_columns(spec, transitions, known, chunk.values)
            rows = from_numpy(chunk.events.segment_start[found])
            yield [*(chunk.column(name).take(rows) for name in (*place, BUCKET)), *matrices]

    return by_chunks(
        spec.with_query(windowing=Windowing()), batches, chunk_events or chunk_of_events(spec, transitions), panes
    )


def packed_pane_stream(plan: PaneSpec, batches: Iterator[pa.RecordBatch]) -> Columns:
    """Yields the rows of :func:`pane_stream` packed into parcels (:mod:`~cetdsl.kernels.wire.parcels`).

    So a stream keeps many matrices in one value.
    """
    names = of_panes(plan.kernel.layout, sum(1 + part.whole for part in parts_of(plan.kernel))).columns
    panes = pane_stream(plan.kernel, batches)
    rows = (pa.RecordBatch.from_arrays(columns, names=[SHARE, *names]) for columns in panes)
    yield from parcel_stream(plan.parcels, rows)


def in_place_stream(spec: KernelSpec, batches: Iterator[pa.RecordBatch], chunk_events: int = CHUNK_EVENTS) -> Columns:
    """Answers a query over a sorted stream in one stage: panes are multiplied in the tasks that read their events.

    Slices of few events, whose counts are short numbers, are propagated if the query keeps no extremes.
    """
    multiplying = PanesEvaluator(spec)
    propagating = None if extreme_accumulators(spec) else Evaluator(spec)

    def choose(slices: Slices) -> PanesEvaluator | Evaluator:
        # Counts have as many bits as the slice has events, and a propagating pass computes only some bits of a count.
        return multiplying if propagating is None or are_large(slices, _FEW) else propagating

    return answers(spec, choose, batches, chunk_events)


def window_stream(spec: KernelSpec, batches: Iterator[pa.RecordBatch], chunk_panes: int = 0) -> Columns:
    """The second stage: yields the answer of each window from the rows of its panes, sorted by key and pane.

    On a stream the rows are sorted by key, window and pane, and a pane comes once for each window that holds it. The
    columns are those of :func:`~cetdsl.kernels.aggregate.stream.aggregate_stream`.
    """
    transitions = lay_out_transitions(spec.query.machine)
    windowing = count_in_panes(spec.query.windowing)
    matrices = sum(1 + part.whole for part in parts_of(spec))
    layout = of_panes(spec.layout, matrices, bucketed=windowing.cut > 0)
    panes = attrs.evolve(spec.with_query(windowing=windowing), layout=layout)
    for chunk in ChunkReader(panes, batches, chunk_panes or chunk_of_panes(spec, transitions)):
        events, slices = chunk.events, chunk.slices
        if not len(slices.low):
            continue
        with refusing_too_large(panes, chunk):
            cover = cover_of(
                events.time, fresh(events), slices.low, slices.high - 1, begins_of(slices), windowing.length
            )
            table = window_accumulators(spec, transitions, decoded(spec, transitions, chunk), cover)
        for rows in answered(table, slices):
            yield answers_of(spec, chunk, table, rows)


def answered(table: AccumulatorTable, slices: Slices) -> Iterator[Ints]:
    """Yields the windows that have trends, in groups that are answered together."""
    found = np.nonzero(table.scaled[0].real[slices.slice] != 0)[0]
    for low in range(0, len(found), _ANSWER_ROWS):
        yield found[low : low + _ANSWER_ROWS]


def answers_of(spec: KernelSpec, chunk: Chunk, table: AccumulatorTable, windows: Ints) -> list[pa.Array]:
    """Returns the answers of some windows of a chunk of panes; the chunk's times are numbers of panes."""
    slices = chunk.slices
    groups = group_columns(spec, chunk, slices.segment[windows])
    start = slices.start[windows] // count_in_panes(spec.query.windowing).slide * spec.query.windowing.slide
    return answer_columns(spec, table.take(slices.slice[windows]), groups, start)


def pane_columns(
    spec: KernelSpec, transitions: Transitions, events: Events, columns: list[ValueColumn]
) -> list[pa.Array]:
    """Returns the matrix of each segment of some events as columns, which :func:`_decode` reads."""
    leaves = leaves_of(spec, transitions, events, weights_of(spec, columns, len(events.time)))
    out: list[pa.Array] = []
    for part in parts_of(spec):
        if part.whole:
            out += _encode_whole(part, leaves, transitions)
        else:
            rounded = multiply_neighbours(scaled_leaves(part, leaves), leaves.owner)
            out.append(_binary(_kept(rounded, transitions), np.ones(len(rounded), dtype=np.bool_)))
    return out


def _encode_whole(part: Part, leaves: Leaves, transitions: Transitions) -> tuple[pa.Array, pa.Array]:
    """Returns a column of doubles for the panes that fit them, and one of text for the others."""
    small = in_doubles(part, leaves)
    in_small = small[leaves.owner]
    alone = _kept(taken_accumulators(part, leaves, in_small), transitions) if small.any() else np.zeros((0, 0))
    text = [b""] * len(small)
    if not small.all():
        matrices = multiply_neighbours(whole_leaves(part, leaves, ~in_small), leaves.owner[~in_small])
        # Hexadecimal: Python is quadratic in the digits of decimal ones.
        texts = [" ".join([format(entry, "x") for entry in row]) for row in _kept(matrices, transitions).tolist()]
        for pane, entries in zip(np.nonzero(~small)[0], texts, strict=True):
            text[pane] = entries.encode()
    return _binary(alone, small), from_bytes(text, pa.string(), small)


def _kept(matrices: Matrices, transitions: Transitions) -> NDArray[Any]:
    """Returns the entries that are not always 0, one row per matrix."""
    kept: NDArray[Any] = matrices[:, :, transitions.kept[0], transitions.kept[1]].reshape(len(matrices), -1)
    return kept


def _binary(rows: NDArray[Any], present: Bools) -> pa.Array:
    """Returns the bytes of each row where there is one, without a Python object for each."""
    width = rows.shape[1] * rows.itemsize
    offsets = np.append(0, np.cumsum(present)).astype(np.int64) * width
    if offsets[-1] >= 2**31:
        raise MemoryError("the matrices of a chunk exceed what one Arrow array can hold")
    bitmap = pa.py_buffer(np.packbits(present, bitorder="little"))
    buffers = [bitmap, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(np.ascontiguousarray(rows))]
    return pa.Array.from_buffers(pa.binary(), len(present), buffers)


def _decode(part: Part, columns: list[pa.Array], transitions: Transitions) -> Matrices:
    """Returns the matrices of some rows of panes in doubles, objects or scaled numbers, whichever holds all of them."""
    present = validity(columns[0])
    small = np.frombuffer(b"".join(columns[0].drop_null().to_pylist()), np.float64 if part.whole else np.complex128)
    small = small.reshape(int(present.sum()), len(part.accumulators), len(transitions.kept[0]))
    if not present.all():
        texts = columns[1].drop_null().to_pylist()
        flat = zeros((len(present), len(part.accumulators), len(transitions.kept[0])), object)
        flat[present] = small.astype(np.int64).astype(object).reshape(-1, *flat.shape[1:])
        large = np.array([[int(entry, 16) for entry in row.split(" ")] for row in texts], dtype=object)
        flat[~present] = large.reshape(len(texts), *flat.shape[1:])
        small = flat
    places = len(transitions.variable)
    out = zeros((len(present), len(part.accumulators), places, places), small.dtype)
    out[:, :, transitions.kept[0], transitions.kept[1]] = small
    return out


def decoded(spec: KernelSpec, transitions: Transitions, chunk: Chunk) -> list[Matrices]:
    """Returns the matrices of a chunk of panes, per part."""
    parts = parts_of(spec)
    names = iter(numbered(MATRIX, sum(1 + part.whole for part in parts)))
    return [_decode(part, [chunk.column(next(names)) for _ in range(1 + part.whole)], transitions) for part in parts]
