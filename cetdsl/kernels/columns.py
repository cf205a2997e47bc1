"""Arrow columns as integers whose order is the column's order in Spark."""

from __future__ import annotations

import decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cetdsl.kernels.program import Ints

Bools = NDArray[np.bool_]


def as_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One contiguous array."""
    if isinstance(column, pa.ChunkedArray):
        return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    return column


def validity(column: pa.Array) -> Bools:
    """Which values are not NULL."""
    if column.null_count == 0:
        return np.ones(len(column), dtype=np.bool_)
    mask: Bools = column.is_valid().to_numpy(zero_copy_only=False)
    return mask


def integers(column: pa.Array) -> Ints:
    """The values of a column that is a number of something underneath; NULL becomes 0."""
    if pa.types.is_timestamp(column.type) or pa.types.is_duration(column.type):
        column = column.view(pa.int64())
    elif pa.types.is_date(column.type):
        column = column.cast(pa.int32()).cast(pa.int64())
    elif not pa.types.is_int64(column.type):
        column = column.cast(pa.int64())
    if column.null_count:
        column = pc.fill_null(column, 0)
    values: Ints = column.to_numpy(zero_copy_only=False)
    return values


def ordered_bits(values: NDArray[np.float64]) -> Ints:
    """Doubles as integers in Spark's order: -0.0 equals 0.0, NaN equals NaN and is the largest.

    Examples
    --------
    >>> bits = ordered_bits(np.array([-1.0, -0.0, 0.0, 2.0, np.inf, np.nan]))
    >>> bool(bits[1] == bits[2]), np.argsort(bits, kind="stable").tolist()
    (True, [0, 1, 2, 3, 4, 5])
    """
    canonical = np.where(np.isnan(values), np.nan, values + 0.0)  # -0.0 + 0.0 is 0.0
    bits = canonical.view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(0x7FFFFFFFFFFFFFFF), bits)


def _is_ranked(kind: pa.DataType) -> bool:
    """Whether only ranks within the chunk give an integer for each value."""
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_decimal(kind)
    )


def order_codes(columns: list[pa.Array]) -> tuple[Ints, Bools]:
    """Integers in the order of the values, comparable across the columns, and which are not NULL.

    Parameters
    ----------
    columns : list of pyarrow.Array, each of length n
        Columns that are compared with each other have the same type.

    Returns
    -------
    codes : int64 array, shape (columns, n)
    valid : bool array, shape (columns, n)
    """
    count = len(columns[0]) if columns else 0
    codes = np.zeros((len(columns), count), dtype=np.int64)
    valid = np.zeros((len(columns), count), dtype=np.bool_)
    ranked: dict[pa.DataType, list[int]] = {}
    for row, column in enumerate(columns):
        valid[row] = validity(column)
        if pa.types.is_null(column.type):
            continue
        if pa.types.is_floating(column.type):
            values = column.cast(pa.float64())
            codes[row] = ordered_bits(pc.fill_null(values, 0.0).to_numpy(zero_copy_only=False))
        elif _is_ranked(column.type):
            ranked.setdefault(column.type, []).append(row)
        else:
            codes[row] = integers(column)
    for rows in ranked.values():
        ranks = _ranks([columns[row] for row in rows])
        for position, row in enumerate(rows):
            codes[row] = ranks[position * count : (position + 1) * count]
    return codes, valid


def _ranks(columns: list[pa.Array]) -> Ints:
    encoded = pc.dictionary_encode(pa.concat_arrays(columns))
    order = pc.array_sort_indices(encoded.dictionary).to_numpy(zero_copy_only=False)
    rank = np.empty(len(order) + 1, dtype=np.int64)
    rank[order] = np.arange(len(order))
    rank[-1] = 0
    indices = pc.fill_null(encoded.indices.cast(pa.int64()), len(order))
    ranks: Ints = rank[indices.to_numpy(zero_copy_only=False)]
    return ranks


def differs_from_previous(columns: list[pa.Array], count: int) -> Bools:
    """Where any of the columns changes from one row to the next (NULL equals NULL); True at row 0."""
    changes = np.zeros(count, dtype=np.bool_)
    if count:
        changes[0] = True
    for column in columns:
        if pa.types.is_floating(column.type) or not _is_plain(column.type):
            codes, valid = order_codes([column]) if not pa.types.is_nested(column.type) else _nested_codes(column)
            changes[1:] |= (codes[0, 1:] != codes[0, :-1]) | (valid[0, 1:] != valid[0, :-1])
            continue
        unequal = pc.not_equal(column[1:], column[:-1])
        if column.null_count:
            nulls = pc.is_null(column)
            unequal = pc.or_(pc.fill_null(unequal, False), pc.not_equal(nulls[1:], nulls[:-1]))
        changes[1:] |= unequal.to_numpy(zero_copy_only=False)
    return changes


def _is_plain(kind: pa.DataType) -> bool:
    return not (pa.types.is_null(kind) or pa.types.is_nested(kind))


def _nested_codes(column: pa.Array) -> tuple[Ints, Bools]:
    # Keys of nested types are rare; their text is compared.
    text = pa.array([None if v is None else repr(_positive_zeros(v)) for v in column.to_pylist()], pa.string())
    return order_codes([text])


def _positive_zeros(value: object) -> object:
    """A nested value with 0.0 for -0.0, as Spark groups it."""
    if isinstance(value, float):
        return value + 0.0
    if isinstance(value, dict):
        return {name: _positive_zeros(part) for name, part in value.items()}
    return [_positive_zeros(part) for part in value] if isinstance(value, list) else value


def weights_of(column: pa.Array) -> tuple[NDArray[np.float64], bool]:
    """A numeric column as doubles with 0 for NULL, and whether it is exact (integers, decimals)."""
    exact = pa.types.is_integer(column.type) or pa.types.is_decimal(column.type)
    # Rounded where it must be: long integers do not all have a double.
    values = pc.fill_null(column.cast(pa.float64(), safe=False), 0.0).to_numpy(zero_copy_only=False)
    return values, exact


def unscaled_integers(column: pa.Array) -> list[int] | Ints:
    """An integer or decimal column as whole numbers of its last digit (NULL: 0).

    Decimals of more than 18 digits do not fit 64 bits and come as Python ints.
    """
    if pa.types.is_integer(column.type):
        return integers(column)
    scale = column.type.scale
    if column.type.precision <= 18:
        # The low 8 bytes of a 16-byte two's complement number are its value when it fits them.
        halves = np.frombuffer(column.buffers()[1], dtype=np.int64)
        low = halves[0::2][column.offset : column.offset + len(column)]
        return np.where(validity(column), low, 0)
    with decimal.localcontext() as context:
        context.prec = 80
        return [0 if v is None else int(v.scaleb(scale)) for v in column.to_pylist()]
