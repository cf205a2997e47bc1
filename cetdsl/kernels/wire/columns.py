"""Arrow columns as NumPy arrays, and as integers whose order is the column's order in Spark.

Numbers go from Arrow to NumPy and back by :func:`to_numpy` and :func:`from_numpy`, and strings go to Arrow by
:func:`from_bytes`, because Arrow's own functions (``pyarrow.array``, ``pyarrow.scalar``, ``Array.to_numpy``,
``fill_null`` with a Python value) import pandas, which costs each Python worker 36 MB and 0.2 s.
"""

from __future__ import annotations

import decimal
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cetdsl.kernels.vocabulary import Bools, Ints


def as_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Returns a column as one contiguous array; raises MemoryError if its text exceeds what an array holds, 2 GiB."""
    if isinstance(column, pa.ChunkedArray):
        try:
            return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        except pa.ArrowInvalid as error:
            raise MemoryError(f"a column of {column.nbytes} bytes is more than one array of Arrow holds") from error
    return column


def one_batch(rows: pa.Table) -> pa.RecordBatch:
    """Returns all rows of a table in one batch."""
    return pa.RecordBatch.from_arrays([as_array(column) for column in rows.columns], schema=rows.schema)


def from_numpy(values: NDArray[Any], absent: Bools | None = None, kind: pa.DataType | None = None) -> pa.Array:
    """Makes an Arrow array of numbers without a copy, with NULL where ``absent``.

    ``kind`` is the type that the array is to have, if not that of the numbers; it must have as many bytes.

    Examples
    --------
    >>> from_numpy(np.array([1.5, 2.5]), absent=np.array([False, True])).to_pylist()
    [1.5, None]
    """
    buffers = [bitmap(absent), pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(kind or pa.from_numpy_dtype(values.dtype), len(values), buffers)


def texts(values: Iterable[str]) -> pa.Array:
    """Makes an Arrow array of strings.

    Examples
    --------
    >>> texts(["some", "text"]).to_pylist()
    ['some', 'text']
    """
    return from_bytes([value.encode() for value in values], pa.string())


def from_bytes(values: Sequence[bytes], kind: pa.DataType, absent: Bools | None = None) -> pa.Array:
    """Makes an Arrow array of encoded strings or of byte strings; NULL where ``absent``.

    Examples
    --------
    >>> from_bytes([b"some", b"text"], pa.string()).to_pylist()
    ['some', 'text']
    """
    offsets = np.cumsum([0, *map(len, values)])
    if offsets[-1] >= 2**31:
        raise MemoryError("the texts of a chunk exceed what one Arrow array can hold")
    buffers = [bitmap(absent), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(kind, len(values), buffers)


def bitmap(absent: Bools | None) -> pa.Buffer | None:
    """Makes the buffer of an Arrow array that marks the values that are not NULL."""
    return None if absent is None else pa.py_buffer(np.packbits(~absent, bitorder="little"))


def to_numpy(column: pa.Array) -> NDArray[Any]:
    """A column of numbers as a NumPy array, without a copy where nothing is NULL; NULL becomes 0.

    Examples
    --------
    >>> to_numpy(pa.array([4, None, 6])[1:]).tolist()
    [0, 6]
    """
    values = column
    if column.null_count:
        values = pa.Array.from_buffers(column.type, len(column), [None, column.buffers()[1]], offset=column.offset)
    numbers: NDArray[Any] = np.from_dlpack(values)
    return np.where(validity(column), numbers, 0) if column.null_count else numbers


def truths(column: pa.Array) -> Bools:
    """A column of truth values as a NumPy array; NULL becomes False."""
    return to_numpy(column.cast(pa.uint8())).astype(np.bool_)


def validity(column: pa.Array) -> Bools:
    """Returns which values are not NULL."""
    if column.null_count == 0:
        return np.ones(len(column), dtype=np.bool_)
    return truths(column.is_valid())


def integers(column: pa.Array) -> Ints:
    """Returns the integers that a column of numbers, times or truth values is stored as; NULL becomes 0."""
    if pa.types.is_timestamp(column.type) or pa.types.is_duration(column.type):
        column = column.view(pa.int64())
    elif pa.types.is_date(column.type):
        column = column.cast(pa.int32()).cast(pa.int64())
    elif not pa.types.is_int64(column.type):
        column = column.cast(pa.int64())
    return to_numpy(column)


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
    """Whether values of a type are turned into integers by ranking them within the chunk."""
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_decimal(kind)
    )


def order_codes(columns: Sequence[pa.Array | pa.ChunkedArray]) -> tuple[Ints, Bools]:
    """Returns integers in the order of the values, comparable across columns of one type, and which are not NULL.

    Both have the shape (columns, n).
    """
    count = len(columns[0]) if columns else 0
    codes = np.zeros((len(columns), count), dtype=np.int64)
    valid = np.zeros((len(columns), count), dtype=np.bool_)
    ranked: dict[pa.DataType, list[int]] = {}
    for row, column in enumerate(columns):
        for where, part in parts(column):
            valid[row, where] = validity(part)
            if not _is_ranked(column.type):
                codes[row, where] = _codes(part)
        if _is_ranked(column.type):
            ranked.setdefault(column.type, []).append(row)
    for rows in ranked.values():
        codes[rows] = _ranks([as_array(columns[row]) for row in rows]).reshape(len(rows), count)
    return codes, valid


def parts(column: pa.Array | pa.ChunkedArray) -> Iterator[tuple[slice, pa.Array]]:
    """Yields the batches of a column and the rows of each, so that conversions take the memory of one batch only."""
    start = 0
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        yield slice(start, start + len(chunk)), chunk
        start += len(chunk)


def _codes(column: pa.Array) -> Ints:
    """Returns the integers of a column whose type need not be ranked."""
    if pa.types.is_null(column.type):
        return np.zeros(len(column), dtype=np.int64)
    if pa.types.is_floating(column.type):
        return ordered_bits(to_numpy(column.cast(pa.float64())))
    return integers(column)


def _ranks(columns: list[pa.Array]) -> Ints:
    encoded = pc.dictionary_encode(pa.concat_arrays(columns))
    order = to_numpy(pc.array_sort_indices(encoded.dictionary))
    rank = np.zeros(len(order) + 1, dtype=np.int64)  # one more: all values may be NULL
    rank[order] = np.arange(len(order))
    ranks: Ints = rank[to_numpy(encoded.indices)]
    return ranks


def key_numbers(keys: Sequence[pa.Array], count: int) -> tuple[Ints, int]:
    """Numbers ``count`` keys, given by columns, in the order in which they are met; also returns how many there are.

    Equal keys have the same number; NULL equals NULL.

    Examples
    --------
    >>> numbers, met = key_numbers([pa.array(["b", "a", None, "b"])], 4)
    >>> numbers.tolist(), met
    ([0, 1, 2, 0], 3)
    """
    number, numbers = np.zeros(count, dtype=np.int64), min(count, 1)
    for place, key in enumerate(keys):
        if pa.types.is_null(key.type):
            continue
        if pa.types.is_nested(key.type):
            key = nested_text(key)
        if pa.types.is_floating(key.type):
            codes, valid = order_codes([key])
            key = from_numpy(codes[0], ~valid[0] if key.null_count else None)
        found, many = _numbered(key)
        if place:
            # Most combinations may not occur, so those that do are numbered anew.
            found, many = _numbered(from_numpy(number << 32 | found))
        number, numbers = found, many
    return number, numbers


def _numbered(values: pa.Array) -> tuple[Ints, int]:
    encoded = values.dictionary_encode(null_encoding="encode")
    return to_numpy(encoded.indices).astype(np.int64), len(encoded.dictionary)


def differs_from_previous(columns: list[pa.Array], count: int) -> Bools:
    """Returns where any of the columns changes from one row to the next (NULL equals NULL); True at row 0."""
    changes = np.zeros(count, dtype=np.bool_)
    if count:
        changes[0] = True
    for column in columns:
        nested = pa.types.is_nested(column.type)
        if nested or pa.types.is_floating(column.type) or pa.types.is_null(column.type):
            codes, valid = order_codes([nested_text(column) if nested else column])
            changes[1:] |= (codes[0, 1:] != codes[0, :-1]) | (valid[0, 1:] != valid[0, :-1])
            continue
        changes[1:] |= truths(pc.not_equal(column[1:], column[:-1]))
        if column.null_count:
            valid = validity(column)
            changes[1:] |= valid[1:] != valid[:-1]
    return changes


def nested_text(column: pa.Array) -> pa.Array:
    """Returns texts that are equal if and only if the nested values are; slow, but keys of nested types are rare."""
    values = column.cast(_stored(column.type)).to_pylist()
    absent = ~validity(column) if column.null_count else None
    return from_bytes([repr(_positive_zeros(value)).encode() for value in values], pa.string(), absent)


def python_value(column: pa.Array, row: int) -> Any:
    """Returns a value as a Python object, or as text where Python has none: years out of 1 to 9999, text not in UTF-8.

    Examples
    --------
    >>> days = pa.array([0, 4_000_000], pa.int32()).view(pa.date32())
    >>> python_value(days, 0), python_value(days, 1)
    (datetime.date(1970, 1, 1), '12921-08-18')
    """
    try:
        return column[row].as_py()
    except (OverflowError, ValueError):
        one = column.slice(row, 1)
        if pa.types.is_date(one.type) or pa.types.is_timestamp(one.type):
            # NumPy can print all years, and Arrow those of 16 bits only.
            unit = one.type.unit if pa.types.is_timestamp(one.type) else "D"
            return str(integers(one).view(f"datetime64[{unit}]")[0])
        return nested_text(one)[0].as_py()


def _stored(kind: pa.DataType) -> pa.DataType:
    """Returns the type of the stored values, all of which Python can represent; its times end with the year 9999.

    Fields may be NULL even if Spark says that they never are: those of a struct that is NULL are.
    """
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_stored(field.type)).with_nullable(True) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_stored(kind.key_type), _stored(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_stored(kind.value_type)).with_nullable(True))
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return pa.int64()
    if pa.types.is_date(kind):
        return pa.int32()
    # Text that came from bytes need not be UTF-8.
    return {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}.get(kind, kind)


def _positive_zeros(value: object) -> object:
    """Replaces -0.0 by 0.0 in a nested value, because Spark groups the two as one."""
    if isinstance(value, float):
        return value + 0.0
    if isinstance(value, dict):
        return {name: _positive_zeros(part) for name, part in value.items()}
    return [_positive_zeros(part) for part in value] if isinstance(value, list) else value


def unscaled_integers(column: pa.Array) -> list[int] | Ints:
    """Returns an integer or decimal column as whole numbers of its last digit; NULL becomes 0.

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


def from_unscaled(values: Sequence[int], absent: Bools | None, kind: pa.DataType) -> pa.Array:
    """Makes an Arrow array of decimals from whole numbers of their last digit, with NULL where ``absent``.

    Examples
    --------
    >>> from_unscaled([-125, 0], np.array([False, True]), pa.decimal128(5, 2)).to_pylist()
    [Decimal('-1.25'), None]
    """
    stored = b"".join(value.to_bytes(16, "little", signed=True) for value in values)
    return pa.Array.from_buffers(kind, len(values), [bitmap(absent), pa.py_buffer(stored)])


def limbs_of(column: pa.Array) -> list[Ints]:
    """Returns the 32-bit limbs of a column of decimals, the lowest first; the last one is signed. NULL becomes 0.

    Examples
    --------
    >>> limbs = limbs_of(pa.array([decimal.Decimal("-0.01"), None], pa.decimal128(38, 2)))
    >>> sum(int(limb[0]) << 32 * place for place, limb in enumerate(limbs))
    -1
    """
    words = np.frombuffer(column.buffers()[1], dtype=np.uint32).reshape(-1, 4)
    words = words[column.offset : column.offset + len(column)]
    limbs = (*words[:, :3].T, words[:, 3].view(np.int32))
    return [np.where(validity(column), limb.astype(np.int64), 0) for limb in limbs]


def pieces_of(lengths: Ints, longest: int) -> Ints:
    """Cuts ranges of rows, one behind the other, into pieces of at most ``longest`` rows; returns where these begin.

    Examples
    --------
    >>> pieces_of(np.array([5, 0, 2]), 2).tolist()
    [0, 2, 4, 5]
    """
    pieces = -(-lengths // longest)
    before = np.repeat(np.cumsum(pieces) - pieces, pieces)
    return np.repeat(np.cumsum(lengths) - lengths, pieces) + (np.arange(len(before)) - before) * longest
