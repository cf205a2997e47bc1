"""The second, small stage: partial results of several tasks or keys added up, pairs of two sides formed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cetdsl.aggregates.vocabulary import Merge
from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.windowing import SLIDING
from cetdsl.kernels.answers.rows import Places
from cetdsl.kernels.answers.tables import (
    AccumulatorTable,
    additive_accumulators,
    concatenate,
    decode_partial,
    encode_partial,
    extreme_accumulators,
    finish,
    merge_extremes,
    merge_rows,
    scaled_integers,
)
from cetdsl.kernels.numbers.scaled import Objects, Scaled, sum_scaled
from cetdsl.kernels.vocabulary import Ints
from cetdsl.kernels.wire.chunks import window_column
from cetdsl.kernels.wire.columns import as_array, differs_from_previous, from_numpy, to_numpy


def _merged_chunks(
    spec: KernelSpec, keys: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[tuple[list[pa.Array], AccumulatorTable]]:
    """Rows with equal keys (the first ``keys`` columns, which the rows are sorted by) added up."""
    held: tuple[list[pa.Array], AccumulatorTable] | None = None
    for batch in batches:
        if batch.num_rows == 0:
            continue
        columns = [as_array(column) for column in batch.columns]
        key, table = columns[:keys], decode_partial(spec, columns[keys:])
        if held is not None:
            key = [pa.concat_arrays(pair) for pair in zip(held[0], key, strict=True)]
            table = concatenate([held[1], table])
        count = len(table.scaled[0])
        changes = differs_from_previous(key, count)
        starts = np.nonzero(changes)[0]
        merged = merge_rows(spec, table, starts)
        key = [column.take(from_numpy(starts)) for column in key]
        last = np.array([len(starts) - 1])
        held = [column.take(from_numpy(last)) for column in key], merged.take(last)
        if len(starts) > 1:
            done = np.arange(len(starts) - 1)
            yield [column.take(from_numpy(done)) for column in key], merged.take(done)
    if held is not None:
        yield held


def merge_stream(spec: KernelSpec, batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.Array]]:
    """Adds up partial rows of a group and window and gives the answer's columns.

    Parameters
    ----------
    spec : KernelSpec
        Of the answer: its ``groups`` are the group columns that come first, then the window's start if sliding, then
        the partial accumulators.
    batches : iterator of pyarrow.RecordBatch
        Sorted by group and window.
    """
    sliding = spec.query.windowing.kind == SLIDING
    for keys, table in _merged_chunks(spec, spec.answer.groups + sliding, batches):
        groups = keys[: spec.answer.groups]
        start = to_numpy(keys[-1]) if sliding else np.zeros(len(table.scaled[0]), dtype=np.int64)
        columns = [*groups, window_column(spec, start)] if sliding else list(groups)
        yield columns + finish(spec, table, Places(spec, groups, start))


def pair_stream(spec: KernelSpec, batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.Array]]:
    """Pairs the trends of the two sides of AND within each key and window.

    The rows carry keys, the window's start if sliding, the side (0: left, 1: right, 2: both) and partial accumulators;
    the rows given are partial again, without the side.

    Notes
    -----
    With n1, n2 trends that only one side matches and n12 that both do there are ``n1 n2 + n1 n12 + n2 n12 + n12 (n12 -
    1) / 2`` pairs (Hamlet, SIGMOD 2021, section 5). A trend of the left side alone is in ``n2 + n12`` of them, one of
    both in ``n1 + n2 + n12 - 1``.
    """
    sliding = spec.query.windowing.kind == SLIDING
    keys = spec.answer.groups + sliding
    held: tuple[list[pa.Array], AccumulatorTable] | None = None
    for key, table in _merged_chunks(spec, keys + 1, batches):
        if held is not None:
            key = [pa.concat_arrays(pair) for pair in zip(held[0], key, strict=True)]
            table = concatenate([held[1], table])
        count = len(table.scaled[0])
        starts = np.nonzero(differs_from_previous(key[:-1], count))[0]
        # The last key's other sides may come with the next rows.
        last = np.arange(starts[-1], count)
        held = [column.take(from_numpy(last)) for column in key], table.take(last)
        done = np.arange(starts[-1])
        if len(done):
            yield from _pairs(spec, [column.take(from_numpy(done)) for column in key], table.take(done))
    if held is not None:
        yield from _pairs(spec, *held)


def _pairs(spec: KernelSpec, key: list[pa.Array], table: AccumulatorTable) -> Iterator[list[pa.Array]]:
    count = len(table.scaled[0])
    starts = np.nonzero(differs_from_previous(key[:-1], count))[0]
    group = np.cumsum(np.bincount(starts, minlength=count)) - 1
    side = to_numpy(key[-1])
    rows = np.full((3, len(starts)), -1, dtype=np.int64)
    rows[side, group] = np.arange(count)
    paired = _paired(spec, table, rows)
    found = np.nonzero([value > 0 for value in paired.exact[0]])[0]  # type: ignore[union-attr]
    if len(found):
        keys = [column.take(from_numpy(starts)).take(from_numpy(found)) for column in key[:-1]]
        yield keys + encode_partial(paired.take(found))


def _paired(spec: KernelSpec, table: AccumulatorTable, rows: Ints) -> AccumulatorTable:
    counts = table.exact[0]
    assert counts is not None, "pairs are formed from exact counts"
    whole = [np.array([int(counts[r]) if r >= 0 else 0 for r in side], dtype=object) for side in rows]
    both = whole[2]
    left, right = whole[0] - both, whole[1] - both
    in_pairs = (right + both, left + both, left + right + both - 1)
    exact, scaled = [], []
    for k in range(len(additive_accumulators(spec))):
        values = table.exact[k]
        if k == 0:
            total = left * right + left * both + right * both + both * (both - 1) // 2
            exact.append(total)
            scaled.append(scaled_integers(total))
        elif values is not None:
            sides = [np.array([int(values[r]) if r >= 0 else 0 for r in side], dtype=object) for side in rows]
            alone = (sides[0] - sides[2], sides[1] - sides[2], sides[2])
            total = sum(s * n for s, n in zip(alone, in_pairs, strict=True))
            exact.append(total)
            scaled.append(scaled_integers(total))
        else:
            exact.append(None)
            scaled.append(_pair_scaled(table.scaled[k], rows, in_pairs))
    return AccumulatorTable(exact, scaled, _pair_extremes(spec, table, rows))


def _pair_scaled(values: Scaled, rows: Ints, in_pairs: tuple[Objects, ...]) -> Scaled:
    weights = [scaled_integers(n) for n in in_pairs]
    picked = [np.where(side >= 0, values[side], 0) for side in rows]
    # Infinities and NaN do not cancel out. Every trend is in some pair, so they spread from either side.
    with np.errstate(invalid="ignore"):
        total = picked[0].real + picked[1].real
    spreads = ~np.isfinite(total)
    picked = [np.where(spreads, 0, side) for side in picked]
    # Left + right - both * (the pairs that both sides counted): every term is scaled by its number of pairs.
    terms = [_times(picked[0], weights[0]), _times(picked[1], weights[1]), _times(picked[2], weights[2])]
    terms += [-_times(picked[2], weights[0]).real + 1j * _times(picked[2], weights[0]).imag]
    terms += [-_times(picked[2], weights[1]).real + 1j * _times(picked[2], weights[1]).imag]
    stacked = np.stack(terms, axis=1).reshape(-1)
    summed = sum_scaled(stacked, np.arange(0, len(stacked), len(terms)))
    return np.where(spreads, total, summed)


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
