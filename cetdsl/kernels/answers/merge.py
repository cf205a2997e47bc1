"""The second, small stage: adds up the partial results of several tasks or keys, and forms the pairs of an AND."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cetdsl.aggregates.vocabulary import Merge
from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.windowing import has_windows
from cetdsl.kernels.answers.rows import answer_columns
from cetdsl.kernels.answers.tables import (
    AccumulatorTable,
    concatenate,
    decode_partial,
    encode_partial,
    extreme_accumulators,
    merge_extremes,
    merge_rows,
    scaled_integers,
)
from cetdsl.kernels.numbers.scaled import Objects, Scaled, nearest_whole, sum_scaled
from cetdsl.kernels.vocabulary import Ints
from cetdsl.kernels.wire.columns import as_array, differs_from_previous, from_numpy, to_numpy

#: The number 1, scaled.
_ONE = 0.5 + 1j
_Numbers = TypeVar("_Numbers", bound=NDArray[Any])
#: Rows as their key columns and what the accumulators hold.
_Keyed = tuple[list[pa.Array], AccumulatorTable]


def _taken(rows: _Keyed, chosen: Ints) -> _Keyed:
    columns, table = rows
    return [column.take(from_numpy(chosen)) for column in columns], table.take(chosen)


def _joined(held: _Keyed | None, rows: _Keyed) -> _Keyed:
    """Appends rows to those that were held back, if any were."""
    if held is None:
        return rows
    return [pa.concat_arrays(pair) for pair in zip(held[0], rows[0], strict=True)], concatenate([held[1], rows[1]])


def _starts(key: list[pa.Array], table: AccumulatorTable) -> Ints:
    """The first row of each key."""
    return np.flatnonzero(differs_from_previous(key, len(table.scaled[0])))


def _merged_chunks(spec: KernelSpec, keys: int, batches: Iterator[pa.RecordBatch]) -> Iterator[_Keyed]:
    """Adds up rows with equal keys, which are their first ``keys`` columns; the rows are sorted by these."""
    held: _Keyed | None = None
    for batch in batches:
        if batch.num_rows == 0:
            continue
        columns = [as_array(column) for column in batch.columns]
        key, table = _joined(held, (columns[:keys], decode_partial(spec, columns[keys:])))
        starts = _starts(key, table)
        merged = [column.take(from_numpy(starts)) for column in key], merge_rows(spec, table, starts)
        last = len(starts) - 1
        held = _taken(merged, np.array([last]))
        if last:
            yield _taken(merged, np.arange(last))
    if held is not None:
        yield held


def merge_stream(spec: KernelSpec, batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.Array]]:
    """Adds up partial rows of a group and window and yields the answer's columns.

    The rows are sorted by group and window. The group columns of the answer come first, then the window's start if
    sliding, then the partial accumulators.
    """
    sliding = has_windows(spec.query.windowing)
    for keys, table in _merged_chunks(spec, spec.answer.groups + sliding, batches):
        start = to_numpy(keys[-1]) if sliding else np.zeros(len(table.scaled[0]), dtype=np.int64)
        yield answer_columns(spec, table, keys[: spec.answer.groups], start)


def pair_stream(spec: KernelSpec, batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.Array]]:
    """Pairs the trends of the two sides of AND within each key and window.

    The rows carry keys, the window's start if sliding, the side (0: left, 1: right, 2: both) and partial accumulators.
    The rows that are yielded are partial too, and have no side.

    Notes
    -----
    If n1 and n2 trends match the two sides, and n12 of these match both, there are ``n1 n2 - n12 (n12 + 1) / 2`` pairs.
    Hamlet (SIGMOD 2021, section 5) writes the same with the numbers of trends that match only one side. At most three
    quarters of the product are subtracted, unless there is no pair at all, so the difference of rounded counts keeps
    most of their precision.
    """
    sliding = has_windows(spec.query.windowing)
    keys = spec.answer.groups + sliding
    held: _Keyed | None = None
    for merged in _merged_chunks(spec, keys + 1, batches):
        rows = _joined(held, merged)
        # Other sides of the last key may come with the next rows.
        last = _starts(rows[0][:-1], rows[1])[-1]
        held = _taken(rows, np.arange(last, len(rows[1].scaled[0])))
        if last:
            yield from _pairs(spec, *_taken(rows, np.arange(last)))
    if held is not None:
        yield from _pairs(spec, *held)


def _pairs(spec: KernelSpec, key: list[pa.Array], table: AccumulatorTable) -> Iterator[list[pa.Array]]:
    count, starts = len(table.scaled[0]), _starts(key[:-1], table)
    group = np.cumsum(np.bincount(starts, minlength=count)) - 1
    side = to_numpy(key[-1])
    rows = np.full((3, len(starts)), -1, dtype=np.int64)
    rows[side, group] = np.arange(count)
    paired, found = _with_pairs(_paired(spec, table, rows))
    if len(found):
        chosen = from_numpy(starts[found])
        yield [column.take(chosen) for column in key[:-1]] + encode_partial(paired)


def pair_tables(spec: KernelSpec, sides: Sequence[AccumulatorTable]) -> tuple[AccumulatorTable, Ints]:
    """Pairs the trends of two sides of AND like :func:`pair_stream`, given a table of each side, and of both sides.

    All tables have a row for each of the same keys and windows, with zeros where there is no trend. Returns a table
    with the rows that have a pair, and the numbers of these rows.
    """
    count = len(sides[0].scaled[0])
    rows = np.full((3, count), -1, dtype=np.int64)
    rows[: len(sides)] = np.arange(len(sides) * count).reshape(len(sides), count)
    return _with_pairs(_paired(spec, concatenate(list(sides)), rows))


def _with_pairs(table: AccumulatorTable) -> tuple[AccumulatorTable, Ints]:
    """Returns the rows that have a pair, and their numbers."""
    found = np.flatnonzero(table.scaled[0].real > 0)
    return table.take(found), found


class _Weights:
    """How often the value of a trend counts among the pairs of an AND.

    There is a weight for trends of the left side, one for those of the right side, and one, which is subtracted, for
    those that match both sides. The first two pair each trend with every trend of the other side. So of the ``n12``
    trends that match both sides, each two are paired twice and each one is paired with itself: the value of such a
    trend counts ``n12 + 1`` times too often.
    """

    def __init__(self, table: AccumulatorTable, rows: Ints) -> None:
        self._whole: tuple[Objects, ...] | None = None
        self.scaled: tuple[Scaled, ...]
        if (counts := table.exact[0]) is not None:
            left, right, both = _picked_whole(counts, rows)
            self._whole = right, left, both + 1
            self.scaled = tuple(map(scaled_integers, self._whole))
        else:
            first, second, common = _picked(table.scaled[0], rows)
            self.scaled = second, first, _sum_of([common, np.full_like(common, _ONE)])

    @cached_property
    def whole(self) -> tuple[Objects, ...]:
        """The weights as whole numbers, which are rounded if the counts are."""
        if self._whole is not None:
            return self._whole
        left, right, both = (np.array([*map(nearest_whole, one)], dtype=object) for one in self.scaled)
        return left, right, both


def _paired(spec: KernelSpec, table: AccumulatorTable, rows: Ints) -> AccumulatorTable:
    weights = _Weights(table, rows)
    exact: list[Objects | None] = []
    scaled: list[Scaled] = []
    for values, rounded in zip(table.exact, table.scaled, strict=True):
        if values is None:
            exact.append(None)
            scaled.append(_pair_scaled(rounded, rows, weights.scaled))
        else:
            (left, right, both), (of_left, of_right, of_both) = _picked_whole(values, rows), weights.whole
            total = left * of_left + right * of_right - both * of_both
            exact.append(total)
            scaled.append(scaled_integers(total))
    # Accumulator 0 has counted each pair twice, once for either of its trends.
    scaled[0] = scaled[0] - 1j
    if (twice := exact[0]) is not None:
        exact[0] = twice // 2
    return AccumulatorTable(exact, scaled, _pair_extremes(spec, table, rows))


def _picked(values: _Numbers, rows: Ints) -> tuple[_Numbers, _Numbers, _Numbers]:
    """Returns the values of the left side, the right side and both sides; 0 where there is no row."""
    left, right, both = (cast("_Numbers", np.where(side >= 0, values[side], 0)) for side in rows)
    return left, right, both


def _picked_whole(values: Objects, rows: Ints) -> tuple[Objects, Objects, Objects]:
    """Returns what :func:`_picked` does, as Python's whole numbers, whose products cannot overflow."""
    return _picked(np.array([int(value) for value in values], dtype=object), rows)


def _pair_scaled(values: Scaled, rows: Ints, weights: tuple[Scaled, ...]) -> Scaled:
    left, right, both = _picked(values, rows)
    # Infinities and NaN do not cancel out. Every trend is in some pair, so those of either side reach the result.
    with np.errstate(invalid="ignore"):
        total = left.real + right.real
    spreads = ~np.isfinite(total)
    # The negated conjugate is the negative number: its mantissa is negated, its exponent is not.
    terms = [np.where(spreads, 0, side) for side in (left, right, -both.conj())]
    summed = _sum_of([_times(side, weight) for side, weight in zip(terms, weights, strict=True)])
    return np.where(spreads, total, summed)


def _sum_of(terms: list[Scaled]) -> Scaled:
    """Adds up scaled numbers, row by row."""
    stacked = np.stack(terms, axis=1).reshape(-1)
    return sum_scaled(stacked, np.arange(0, len(stacked), len(terms)))


def _times(a: Scaled, b: Scaled) -> Scaled:
    with np.errstate(invalid="ignore"):
        product = (a.real * b.real).astype(np.complex128)
    product.imag = a.imag + b.imag
    return product


def _pair_extremes(spec: KernelSpec, table: AccumulatorTable, rows: Ints) -> list[pa.Array]:
    extremes = []
    for accumulator, values in zip(extreme_accumulators(spec), table.extremes, strict=True):
        left, right = (values.take(from_numpy(side, side < 0)) for side in rows[:2])
        if accumulator.is_length:
            # A pair is as long as its two trends together.
            extremes.append(pc.add(left, right))
        else:
            in_turn = np.arange(2 * len(left)).reshape(2, -1).T.reshape(-1)
            between = pa.concat_arrays([left, right]).take(from_numpy(in_turn))
            extremes.append(
                merge_extremes(between, accumulator.update.merge is Merge.SMALLEST, np.arange(0, len(between), 2))
            )
    return extremes
