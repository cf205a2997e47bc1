"""Sorts the rows of a task by key, by a first column of numbers, most often the time, and by tie-break columns.

Positions are sorted, and then each column is moved once, but for the times, which come sorted, and for keys, of which
one row's is repeated. Where the rows are more than may be held, they are sorted a part at a time, each part is written
to a file in Spark's local directory, and the parts are merged from there.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import IO, NamedTuple

import numpy as np
import pyarrow as pa

from cetdsl.errors import EngineError
from cetdsl.ir.layout import BUCKET, TIME, RowLayout
from cetdsl.ir.sorting import OrderKey, RowOrder
from cetdsl.kernels.vocabulary import Bools, Ints, Places
from cetdsl.kernels.wire.columns import (
    KeyNumbers,
    as_array,
    from_numpy,
    integers,
    order_codes,
    to_numpy,
    validity,
)
from cetdsl.kernels.wire.radix import order_by_key_and_time

#: Rows of a batch at most.
BATCH_ROWS = 1 << 17
#: Parts that are merged at once.
MERGED_PARTS = 32
_ENDS = np.iinfo(np.int64)


def order_of(layout: RowLayout, *, buckets_rise: bool) -> RowOrder:
    """Returns the order in which rows of a layout are read.

    If the number of an event's only time bucket rises with its time, events in order of time are in order of buckets,
    and need not be told apart by them.
    """
    names = [TIME, *(name for name in layout.order if name != TIME)]
    by = tuple(OrderKey(layout.position(name)) for name in names)
    keys = (layout.position(name) for name in layout.partition if not (buckets_rise and name == BUCKET))
    return RowOrder(tuple(keys), by, layout.sort_memory, nulls_apart=True)


class _Piece(NamedTuple):
    """Rows in order, with the numbers of their keys, and their times: the first column that they are sorted by."""

    number: Ints
    time: Ints
    rows: pa.RecordBatch

    def part(self, low: int, high: int) -> _Piece:
        """Returns some of the rows."""
        return _Piece(self.number[low:high], self.time[low:high], self.rows.slice(low, high - low))


def order_stream(order: RowOrder, batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.Array]]:
    """Yields the columns of a task's rows in order."""
    for batch in in_order(order, batches):
        yield batch.columns


def in_order(order: RowOrder, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Puts the rows of a task in order.

    Examples
    --------
    >>> batch = pa.RecordBatch.from_pydict({"k": ["b", "a", "b"], "t": [5, 3, 4]})
    >>> [batch.to_pydict() for batch in in_order(RowOrder((0,), (OrderKey(1),)), [batch])]
    [{'k': ['b', 'b', 'a'], 't': [4, 5, 3]}]
    """
    numbers, waiting, held = KeyNumbers(), list[pa.RecordBatch](), 0
    with ExitStack() as files:
        stored = _Parts(order, files)
        for batch in batches:
            if order.nulls_apart and (time := batch.column(order.by[0].column)).null_count:
                yield batch.filter(time.is_null())
                batch = batch.filter(time.is_valid())
            if batch.num_rows:
                waiting.append(batch)
                held += batch.nbytes
            if held > order.memory:
                stored.add(_sorted(order, numbers, waiting))
                held = 0
        parts = stored.few()
        if waiting:
            parts.append(_sorted(order, numbers, waiting))
        yield from (piece.rows for piece in (_merged(order, parts) if len(parts) > 1 else parts[0] if parts else ()))


def _sorted(order: RowOrder, numbers: KeyNumbers, batches: list[pa.RecordBatch]) -> Iterator[_Piece]:
    """Yields the rows of batches in order; the list of them is emptied, so that nobody else holds them meanwhile."""
    rows = pa.Table.from_batches(batches)
    batches.clear()
    rows = rows.combine_chunks()
    number, count = numbers.of([as_array(rows.column(key)) for key in order.keys], rows.num_rows)
    time = _times(order, rows)
    yield from _in_pieces(order, rows, number, time, _positions(order, rows, number, count, time))


def _times(order: RowOrder, rows: pa.Table) -> Ints:
    """The first column that rows are sorted by, as rising whole numbers; NULL has the least or the greatest one."""
    if not order.by:
        return np.zeros(rows.num_rows, dtype=np.int64)
    first = order.by[0]
    column = as_array(rows.column(first.column))
    time = order_codes([column])[0][0] if pa.types.is_floating(column.type) else integers(column)
    time = ~time if first.falls else time
    if column.null_count:
        time = np.where(validity(column), time, _ENDS.max if first.nulls_last else _ENDS.min)
    return time


def _positions(order: RowOrder, rows: pa.Table, number: Ints, count: int, time: Ints) -> tuple[Places, Ints] | None:
    """Returns the positions of rows in order, and their times then; None if they are in order."""
    # NULL may have the number of a value.
    has_nulls = bool(order.by) and rows.column(order.by[0].column).null_count > 0
    ties = order.by[0 if has_nulls else 1 :]
    if _is_in_order(number, time, bool(ties)):
        return None
    positions, times = order_by_key_and_time(number, count, time)
    if ties:
        number = number[positions]
        _break_ties(positions, (times[1:] == times[:-1]) & (number[1:] == number[:-1]), ties, rows)
    return positions, times


def _is_in_order(number: Ints, time: Ints, tied: bool) -> bool:
    """Whether rows are in order as they are, which is not looked into where ties are to be broken."""
    later = time[1:] > time[:-1] if tied else time[1:] >= time[:-1]
    return bool(((number[1:] > number[:-1]) | ((number[1:] == number[:-1]) & later)).all())


def _break_ties(positions: Places, same: Bools, ties: Sequence[OrderKey], rows: pa.Table) -> None:
    """Sorts, in place, the rows that have the key and the time of their neighbour (``same``) by what breaks ties."""
    tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
    if not len(tied):
        return
    instant = np.cumsum(np.append(True, ~same))[tied]
    found = from_numpy(positions[tied])
    by: list[Ints | Bools] = []
    for tie in reversed(ties):
        codes, valid = order_codes([as_array(rows.column(tie.column).take(found))])
        by += [~codes[0] if tie.falls else codes[0], ~valid[0] if tie.nulls_last else valid[0]]
    positions[tied] = positions[tied][np.lexsort((*by, instant))]


def _in_pieces(
    order: RowOrder, rows: pa.Table, number: Ints, time: Ints, found: tuple[Places, Ints] | None
) -> Iterator[_Piece]:
    """Yields rows a batch at a time, as they are or in the order found."""
    if found is None:
        for low, high in _batches(rows.num_rows):
            columns = [as_array(column) for column in rows.slice(low, high - low).columns]
            yield _Piece(number[low:high], time[low:high], _batch(rows.schema, columns))
        return
    positions, times = found
    counts = np.bincount(number)
    ends = np.cumsum(counts)
    # A key without rows is in no piece, whatever its first row is taken to be.
    first = positions[np.minimum(ends - counts, len(positions) - 1)]
    alike, sorted_by = _alike_in_key(order, rows.schema), _sorted_by_its_values(order, rows)
    for low, high in _batches(rows.num_rows):
        begun = int(np.searchsorted(ends, low, side="right"))
        ended = int(np.searchsorted(ends, high, side="left")) + 1
        own = np.diff(np.minimum(ends[begun:ended], high), prepend=low)
        owner = np.repeat(np.arange(begun, ended), own)
        moved, of_key = from_numpy(positions[low:high]), from_numpy(first[owner])
        columns = [
            from_numpy(times[low:high], kind=column.type)
            if n == sorted_by
            else as_array(column.take(of_key if n in alike else moved))
            for n, column in enumerate(rows.columns)
        ]
        yield _Piece(owner, times[low:high], _batch(rows.schema, columns))


def _batches(count: int) -> Iterator[tuple[int, int]]:
    """Yields the begins and ends of batches of ``BATCH_ROWS`` rows."""
    for low in range(0, count, BATCH_ROWS):
        yield low, min(low + BATCH_ROWS, count)


def _alike_in_key(order: RowOrder, schema: pa.Schema) -> set[int]:
    """Returns the columns that are the same in all rows of a key: 0.0 and -0.0 are equal, but not the same."""
    kinds = {key: schema.field(key).type for key in order.keys}
    return {key for key, kind in kinds.items() if not (pa.types.is_floating(kind) or pa.types.is_nested(kind))}


def _sorted_by_its_values(order: RowOrder, rows: pa.Table) -> int | None:
    """Returns the column whose values are those that rows were sorted by, bit by bit; None if there is none."""
    if not order.by or order.by[0].falls:
        return None
    column = rows.column(order.by[0].column)
    is_time = pa.types.is_timestamp(column.type) or pa.types.is_duration(column.type)
    is_whole = pa.types.is_int64(column.type) or is_time
    return order.by[0].column if is_whole and column.null_count == 0 else None


def _batch(schema: pa.Schema, columns: Sequence[pa.Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(columns, names=schema.names)


# ------------------------------------------------------------------------------------------------------------ on disk


def local_directory() -> str | None:
    """Returns a directory for files of a task: one of Spark's own, which workers get from it; None: the system's."""
    for path in os.environ.get("SPARK_LOCAL_DIRS", "").split(","):
        if path and os.access(path, os.W_OK):
            return path
    return None


class _Parts:
    """Parts of a task's rows on disk, each in order, in the order in which they came.

    As many of one level as are merged at once become one of the next level. So rows are written anew once a level, of
    which there are as many as the logarithm of the number of parts says.
    """

    def __init__(self, order: RowOrder, files: ExitStack) -> None:
        self._order, self._files = order, files
        self._levels: list[list[Iterator[_Piece]]] = []

    def add(self, pieces: Iterator[_Piece], level: int = 0) -> None:
        """Writes a part that is in order, and merges those that are enough by now."""
        if level == len(self._levels):
            self._levels.append([])
        parts = self._levels[level]
        parts.append(self._written(pieces))
        if len(parts) == MERGED_PARTS:
            self._levels[level] = []
            self.add(_merged(self._order, parts), level + 1)

    def few(self) -> list[Iterator[_Piece]]:
        """Returns all parts, so few that one more can be merged with them; the least are merged for that."""
        parts = [part for level in reversed(self._levels) for part in level]
        while len(parts) >= MERGED_PARTS:
            last = parts[-min(MERGED_PARTS, len(parts) - MERGED_PARTS + 2) :]
            parts = [*parts[: -len(last)], self._written(_merged(self._order, last))]
        return parts

    def _written(self, pieces: Iterator[_Piece]) -> Iterator[_Piece]:
        return _on_disk(pieces, self._order.memory, self._files)


def _on_disk(pieces: Iterator[_Piece], memory: int, files: ExitStack) -> Iterator[_Piece]:
    """Writes rows in order to a file that nobody else sees, and reads them anew.

    The file goes away when all of it has been read; at the latest, with ``files`` or this process.
    """
    directory = local_directory()
    try:
        file: IO[bytes] = files.enter_context(tempfile.TemporaryFile(dir=directory))  # noqa: SIM115
        _write(pieces, memory, file)
    except OSError as error:
        raise EngineError(
            f"the events of a task exceed {memory} bytes and cannot be written to "
            f"{directory or tempfile.gettempdir()}: {error}",
            hint="give spark.local.dir room, let the kernel hold more by sort_memory=, or let Spark sort: sort='spark'",
        ) from error
    return _read(file)


def _write(pieces: Iterator[_Piece], memory: int, file: IO[bytes]) -> None:
    """Writes batches so small that those of all parts together are held while these are merged."""
    most = memory // MERGED_PARTS
    writer = None
    for number, time, rows in pieces:
        columns = [from_numpy(number), from_numpy(time), *rows.columns]
        batch = pa.RecordBatch.from_arrays(columns, names=["number", "time", *rows.schema.names])
        writer = writer or pa.ipc.new_stream(file, batch.schema)
        size = max(batch.num_rows * most // max(batch.nbytes, 1), 1)
        for low in range(0, batch.num_rows, size):
            writer.write_batch(batch.slice(low, size))
    if writer is not None:
        writer.close()


def _read(file: IO[bytes]) -> Iterator[_Piece]:
    with file:
        file.seek(0)
        for batch in pa.ipc.open_stream(file):
            rows = pa.RecordBatch.from_arrays(batch.columns[2:], names=batch.schema.names[2:])
            yield _Piece(to_numpy(batch.column(0)), to_numpy(batch.column(1)), rows)


# ----------------------------------------------------------------------------------------------------------- merging


class _Head:
    """The next rows of a part; as long as the part goes on there is one."""

    def __init__(self, pieces: Iterator[_Piece]) -> None:
        self._pieces = pieces
        self.piece, self.goes_on = next(pieces), True

    @property
    def last(self) -> tuple[int, int]:
        """Key and time of the last of these rows."""
        return int(self.piece.number[-1]), int(self.piece.time[-1])

    def take(self, end: tuple[int, int] | None) -> _Piece:
        """Takes the rows before a key and time away; None: all."""
        count = len(self.piece.number)
        cut = count if end is None else self._before(*end)
        taken, self.piece = self.piece.part(0, cut), self.piece.part(cut, count)
        return taken

    def _before(self, number: int, time: int) -> int:
        low = int(np.searchsorted(self.piece.number, number))
        high = int(np.searchsorted(self.piece.number, number, side="right"))
        return low + int(np.searchsorted(self.piece.time[low:high], time))

    def read(self) -> None:
        """Reads more rows to those that are left."""
        more = next(self._pieces, None)
        if more is None:
            self.goes_on = False
        else:
            self.piece = _joined([self.piece, more])


def _joined(pieces: Sequence[_Piece]) -> _Piece:
    number, time = (np.concatenate([piece[column] for piece in pieces]) for column in (0, 1))
    columns = [pa.concat_arrays(found) for found in zip(*(piece.rows.columns for piece in pieces))]
    return _Piece(number, time, _batch(pieces[0].rows.schema, columns))


def _merged(order: RowOrder, parts: Sequence[Iterator[_Piece]]) -> Iterator[_Piece]:
    """Merges parts that are in order: all rows before the first place up to which some part is known are known."""
    heads = [_Head(part) for part in parts]
    while heads:
        end = min((head.last for head in heads if head.goes_on), default=None)
        taken = [piece for piece in (head.take(end) for head in heads) if len(piece.number)]
        if taken:
            number, time, rows = _joined(taken)
            number -= number.min()
            table = pa.Table.from_batches([rows])
            first = min(int(piece.number[0]) for piece in taken)
            found = _positions(order, table, number, int(number.max()) + 1, time)
            for piece in _in_pieces(order, table, number, time, found):
                yield piece._replace(number=piece.number + first)
        for head in heads:
            if head.goes_on and head.last == end:
                head.read()
        heads = [head for head in heads if head.goes_on or len(head.piece.number)]
