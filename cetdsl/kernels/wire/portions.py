"""Cuts an answer into *portions*: rows that together take few enough bytes for one batch of Arrow and Spark.

Arrow stores where a text begins in 32 bits, so the texts of one array must take less than 2 GiB, and so must all values
of one row of Spark. Kernels limit batches of trends by the number of bindings, each of which may repeat a long text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cetdsl.errors import GroupTooLarge
from cetdsl.kernels._side_by_side import lots, starts
from cetdsl.kernels.vocabulary import Ints
from cetdsl.kernels.wire.columns import to_numpy

#: The most bytes of a portion, unless a single list of rows takes more.
PORTION = 64 << 20
#: The most bytes of one array of Arrow, and of one row of Spark.
_MOST = 2**31 - 1


def take(column: pa.Array, rows: pa.Array) -> pa.Array:
    """Returns the values in some rows, whose numbers are not checked; raises MemoryError if no array holds them."""
    try:
        return pc.take(column, rows, boundscheck=False)
    except pa.ArrowInvalid as error:
        raise MemoryError(f"{len(rows)} values are more than one array of Arrow holds") from error


def repeat(value: pa.Scalar, count: int) -> pa.Array:
    """Returns a column that repeats one text; raises MemoryError if no array holds it, which Arrow does not check."""
    if value.as_buffer().size * count > _MOST:
        raise MemoryError(f"a text {count} times is more than one array of Arrow holds")
    return pa.repeat(value, count)


def value_bytes(column: pa.Array) -> Ints:
    """Returns about how many bytes each value of a column takes.

    Examples
    --------
    >>> value_bytes(pa.array(["four", None, "fifteen letters"])).tolist()
    [4, 0, 15]
    >>> value_bytes(pa.array([{"x": 1, "names": ["a", "bc"]}, {"x": 2, "names": []}])).tolist()
    [11, 8]
    """
    kind = column.type
    if pa.types.is_struct(kind):
        fields = [value_bytes(column.field(number)) for number in range(kind.num_fields)]
        return np.sum(fields, axis=0, dtype=np.int64) if fields else _alike(0, column)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        before, offsets = starts(value_bytes(column.values)), to_numpy(column.offsets)
        sizes: Ints = before[offsets[1:]] - before[offsets[:-1]]
        return sizes
    if pa.types.is_null(kind):
        return _alike(0, column)
    if pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_fixed_size_binary(kind):
        return _alike(max(kind.bit_width // 8, 1), column)
    return to_numpy(pc.binary_length(column)).astype(np.int64)


def _alike(size: int, column: pa.Array) -> Ints:
    """Returns an array with the same number for each value of a column, which takes no memory."""
    return np.broadcast_to(np.int64(size), len(column))


class RowSizes:
    """About how many bytes each row of some columns takes; computed row by row only if rows may take many."""

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        self._columns = columns
        #: Bytes that no row exceeds.
        self.largest = sum(int(value_bytes(column).max(initial=0)) for column in columns)

    @property
    def at_once(self) -> int:
        """The number of rows that fit into a portion, whichever they are."""
        return max(PORTION // max(self.largest, 1), 1)

    @cached_property
    def _sizes(self) -> Ints:
        sizes = np.zeros(len(self._columns[0]), dtype=np.int64)
        for column in self._columns:
            sizes += value_bytes(column)
        return sizes

    def portions(self, rows: Ints, start: Ints | None = None) -> Iterator[slice]:
        """Yields consecutive ranges of some lists of rows; the lists of a range make a portion.

        List ``i`` has the rows ``rows[start[i]:start[i + 1]]``; without ``start``, each row is a list of its own.
        Raises GroupTooLarge for a list that one row of Spark cannot hold.
        """
        count = len(rows) if start is None else len(start) - 1
        if self.largest * len(rows) <= PORTION:
            yield slice(0, count)
            return
        sizes = self._sizes[rows]
        if start is not None:
            sizes = np.diff(starts(sizes)[start])
        if (largest := int(sizes.max(initial=0))) > _MOST:
            raise GroupTooLarge(
                f"the events of one trend show {largest} bytes, and one row holds {_MOST}",
                hint="choose the columns to show with columns=[...], or shorten their values",
            )
        yield from lots(sizes, PORTION)
