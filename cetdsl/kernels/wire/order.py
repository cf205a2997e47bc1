"""Sorts the rows of a task by key, by a first column of numbers, most often the time, and by tie-break columns.

Positions of rows are sorted, and then the values of each column are moved once, except the times, which the sort yields
in order, and the keys, for which the value of one row is repeated. If the rows exceed the memory that they may take,
they are sorted in *parts*: each part is written to a file in Spark's local directory, and the parts are merged from
there.

Parts that are to be merged must have their keys in the same order. To number keys alike in all parts would take memory
for each of them, so the keys of a part are ordered by their hashes. If two keys have the same hash, the rows of one of
them, a *stranger*, are taken out and sorted by themselves, by another hash.
"""

from __future__ import annotations

import os
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import IO, NamedTuple

import attrs
import numpy as np
import pyarrow as pa

from cetdsl.errors import EngineError
from cetdsl.ir.layout import BUCKET, TIME, RowLayout
from cetdsl.ir.sorting import OrderKey, RowOrder
from cetdsl.kernels.vocabulary import Bools, Ints, Places
from cetdsl.kernels.wire.columns import (
    as_array,
    differs_from_previous,
    from_numpy,
    integers,
    key_numbers,
    one_batch,
    order_codes,
    to_numpy,
    validity,
)
from cetdsl.kernels.wire.key_hashes import hashes_of
from cetdsl.kernels.wire.radix import order_by_key_and_time

#: The most rows of a batch.
BATCH_ROWS = 1 << 17
#: Parts that are merged at once.
MERGED_PARTS = 32
#: The most bytes of rows that are sorted together, even if more may be held.
MOST_TOGETHER = 1 << 30
_ENDS = np.iinfo(np.int64)


def order_of(layout: RowLayout, *, buckets_rise: bool) -> RowOrder:
    """Returns the order in which the rows of a layout are to be read.

    ``buckets_rise`` says that each event has one time bucket, whose number rises with the event's time: events in order
    of time are then in order of buckets, so the bucket is left out of the key.
    """
    names = [TIME, *(name for name in layout.order if name != TIME)]
    by = tuple(OrderKey(layout.position(name)) for name in names)
    keys = (layout.position(name) for name in layout.partition if not (buckets_rise and name == BUCKET))
    return RowOrder(tuple(keys), by, layout.sort_memory, nulls_apart=True)


class _Piece(NamedTuple):
    """Rows, mostly sorted, with the ``number`` of each row's key and its ``time``, the first column of the order.

    Where parts are merged, the numbers are hashes.
    """

    number: Ints
    time: Ints
    rows: pa.RecordBatch

    def part(self, low: int, high: int) -> _Piece:
        """Returns the rows between two positions."""
        return _Piece(self.number[low:high], self.time[low:high], self.rows.slice(low, high - low))

    def at(self, positions: Ints) -> _Piece:
        """Returns the rows at some positions."""
        return _Piece(self.number[positions], self.time[positions], self.rows.take(from_numpy(positions)))


class _Unsorted(NamedTuple):
    """Rows that are to be sorted by their keys and times.

    ``place`` has for each row the place of its key's number among the ``numbers`` that occur, which rise.
    """

    time: Ints
    rows: pa.RecordBatch
    place: Ints
    numbers: Ints


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
    # One array of Arrow holds less than 2 GiB of text.
    order = attrs.evolve(order, memory=min(order.memory, MOST_TOGETHER))
    with ExitStack() as files:
        sorter = _Sorter(order, files)
        for batch in batches:
            if order.nulls_apart and (time := batch.column(order.by[0].column)).null_count:
                yield batch.filter(time.is_null())
                batch = batch.filter(time.is_valid())
            sorter.add(batch)
        yield from sorter.rows()


class _Sorter:
    """Sorts rows that it is given a batch at a time; ``salt`` chooses the hash of keys."""

    def __init__(self, order: RowOrder, files: ExitStack, salt: int = 0) -> None:
        self._order = order
        self._waiting, self._held = list[pa.RecordBatch](), 0
        self._hashing = _Hashing(order, files, salt)
        self._stored = _Parts(self._hashing, files)

    def add(self, batch: pa.RecordBatch) -> None:
        """Takes rows."""
        if batch.num_rows:
            self._waiting.append(batch)
            self._held += batch.nbytes
        if self._held > self._order.memory:
            self._stored.add(_sorted(self._order, self._waiting, self._hashing))
            self._held = 0

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yields all rows in order."""
        parts = self._stored.few()
        if parts:
            if self._waiting:
                parts.append(_sorted(self._order, self._waiting, self._hashing))
            yield from (piece.rows for piece in _merged(self._hashing, parts))
            if self._hashing.strangers is not None:
                yield from self._hashing.strangers.rows()
        elif self._waiting:
            # All rows are one part, which is not sorted by hashes, so that rows that came in order need not be moved.
            yield from (piece.rows for piece in _sorted(self._order, self._waiting))


class _Hashing:
    """Numbers keys by their hashes, and takes out the rows of *strangers*: keys whose hash is that of another key.

    So all rows with one hash have the same key, within a part at first, and in all parts once they have been merged.
    """

    def __init__(self, order: RowOrder, files: ExitStack, salt: int) -> None:
        self.order, self._files, self._salt = order, files, salt
        self.strangers: _Sorter | None = None
        # For each hash that two keys were seen to share, a row of the key that keeps it.
        self._owner: dict[int, pa.RecordBatch] = {}

    def of_part(self, piece: _Piece, keys: int) -> _Unsorted:
        """Numbers the keys of unsorted rows by hashes; so far the keys have numbers below ``keys``, in any order."""
        one_each = np.empty(keys, dtype=np.int64)
        one_each[piece.number] = np.arange(len(piece.number))
        hashes = hashes_of(self._keys(piece.rows, one_each), keys, self._salt)
        numbers, place, sharing = np.unique(hashes, return_inverse=True, return_counts=True)
        place = place[piece.number]
        if len(numbers) == keys:
            return _Unsorted(piece.time, piece.rows, place, numbers)
        return self._without_strangers(piece._replace(number=numbers[place]), numbers[sharing > 1], None)

    def of_pieces(self, pieces: Sequence[_Piece], before: _Piece | None) -> _Unsorted:
        """Joins pieces, each of which is sorted, and numbers their keys by hashes.

        ``before`` is the row before all pieces, if there is one.
        """
        piece = _joined(pieces)
        begun = _differs(piece.number)
        begun[np.cumsum([0, *(len(each.number) for each in pieces[:-1])])] = True
        begins = np.flatnonzero(begun)
        order = np.argsort(piece.number[begins], kind="stable")
        stretches = begins[order]
        hashes = piece.number[stretches]
        is_new = _differs(hashes)
        strange = differs_from_previous(self._keys(piece.rows, stretches), len(stretches)) & ~is_new
        if before is not None and before.number[0] == hashes[0]:
            two = zip(self._keys(before.rows), self._keys(piece.rows, stretches[:1]))
            strange[0] = differs_from_previous([pa.concat_arrays(keys) for keys in two], 2)[1]
        shared = strange | np.isin(hashes, list(self._owner)) if self._owner else strange
        if shared.any():
            return self._without_strangers(piece, np.unique(hashes[shared]), before)
        place = np.empty(len(begins), dtype=np.int64)
        place[order] = np.cumsum(is_new) - 1
        of_rows = np.repeat(place, np.diff(begins, append=len(piece.number)))
        return _Unsorted(piece.time, piece.rows, of_rows, hashes[is_new])

    def _keys(self, rows: pa.RecordBatch, positions: Ints | None = None) -> list[pa.Array]:
        """Returns the keys of rows, or of those at some positions."""
        keys = [rows.column(key) for key in self.order.keys]
        return keys if positions is None else [key.take(from_numpy(positions)) for key in keys]

    def _without_strangers(self, piece: _Piece, shared: Ints, before: _Piece | None) -> _Unsorted:
        """Takes out the strangers among the rows with some ``shared`` hashes, and returns the other rows."""
        strange = np.zeros(len(piece.number), dtype=np.bool_)
        for number in shared.tolist():
            found = np.flatnonzero(piece.number == number)
            # A copy, because a slice would keep all rows in memory.
            first = piece.at(found[:1]) if before is None or before.number[0] != number else before.at(np.zeros(1, int))
            owner = self._owner.setdefault(number, first.rows)
            keys = map(pa.concat_arrays, zip(self._keys(owner), self._keys(piece.rows, found)))
            strange[found] = key_numbers(list(keys), len(found) + 1)[0][1:] != 0
        self.strangers = self.strangers or _Sorter(self.order, self._files, self._salt + 1)
        self.strangers.add(piece.at(np.flatnonzero(strange)).rows)
        piece = piece.at(np.flatnonzero(~strange))
        numbers, place = np.unique(piece.number, return_inverse=True)
        return _Unsorted(piece.time, piece.rows, place, numbers)


def _differs(numbers: Ints) -> Bools:
    """Returns where numbers are not the ones before."""
    return np.append(np.ones(min(len(numbers), 1), dtype=np.bool_), numbers[1:] != numbers[:-1])


def _sorted(order: RowOrder, batches: list[pa.RecordBatch], hashing: _Hashing | None = None) -> Iterator[_Piece]:
    """Yields the rows of batches in order, and empties the list, so that it does not hold the batches meanwhile.

    Keys are in the order in which they are met or, with ``hashing``, in the order of their hashes.
    """
    yield from _in_pieces(order, _unsorted(order, batches, hashing))


def _unsorted(order: RowOrder, batches: list[pa.RecordBatch], hashing: _Hashing | None) -> _Unsorted:
    """Moves the rows out of the list of batches, and numbers their keys."""
    table = pa.Table.from_batches(batches)
    batches.clear()
    rows = one_batch(table)
    del table
    number, keys = key_numbers([rows.column(key) for key in order.keys], rows.num_rows)
    if hashing is None:
        return _Unsorted(_times(order, rows), rows, number, np.arange(keys))
    return hashing.of_part(_Piece(number, _times(order, rows), rows), keys)


def _times(order: RowOrder, rows: pa.RecordBatch) -> Ints:
    """Returns the first column that rows are sorted by as whole numbers that rise in this order.

    NULL has the least or the greatest number.
    """
    if not order.by:
        return np.zeros(rows.num_rows, dtype=np.int64)
    first = order.by[0]
    column = rows.column(first.column)
    time = order_codes([column])[0][0] if pa.types.is_floating(column.type) else integers(column)
    time = ~time if first.falls else time
    if column.null_count:
        time = np.where(validity(column), time, _ENDS.max if first.nulls_last else _ENDS.min)
    return time


def _positions(order: RowOrder, unsorted: _Unsorted) -> tuple[Places, Ints] | None:
    """Returns the positions of rows in order, and the times in this order; None if the rows are in order already."""
    time, rows, number, numbers = unsorted
    # NULL may have the same number as a value; then the column itself breaks the tie.
    has_nulls = bool(order.by) and rows.column(order.by[0].column).null_count > 0
    ties = order.by[0 if has_nulls else 1 :]
    if _is_in_order(number, time, bool(ties)):
        return None
    positions, times = order_by_key_and_time(number, len(numbers), time)
    if ties:
        number = number[positions]
        _break_ties(positions, (times[1:] == times[:-1]) & (number[1:] == number[:-1]), ties, rows)
    return positions, times


def _is_in_order(number: Ints, time: Ints, tied: bool) -> bool:
    """Whether rows are in order as they are; rows of equal times do not count as such if they are ``tied``."""
    later = time[1:] > time[:-1] if tied else time[1:] >= time[:-1]
    return bool(((number[1:] > number[:-1]) | ((number[1:] == number[:-1]) & later)).all())


def _break_ties(positions: Places, same: Bools, ties: Sequence[OrderKey], rows: pa.RecordBatch) -> None:
    """Sorts the rows that have the key and the time of a neighbour (``same``) by the tie-break columns, in place."""
    tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
    if not len(tied):
        return
    instant = np.cumsum(np.append(True, ~same))[tied]
    found = from_numpy(positions[tied])
    by: list[Ints | Bools] = []
    for tie in reversed(ties):
        codes, valid = order_codes([rows.column(tie.column).take(found)])
        by += [~codes[0] if tie.falls else codes[0], ~valid[0] if tie.nulls_last else valid[0]]
    positions[tied] = positions[tied][np.lexsort((*by, instant))]


def _in_pieces(order: RowOrder, unsorted: _Unsorted) -> Iterator[_Piece]:
    """Yields rows in order, a batch at a time."""
    time, rows, place, numbers = unsorted
    found = _positions(order, unsorted)
    if found is None:
        for low, high in _batches(rows.num_rows):
            yield _Piece(numbers[place[low:high]], time[low:high], rows.slice(low, high - low))
        return
    positions, times = found
    counts = np.bincount(place)
    del unsorted, time, place  # these may take more memory than the rows
    ends = np.cumsum(counts)
    first = positions[ends - counts]
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
            else column.take(of_key if n in alike else moved)
            for n, column in enumerate(rows.columns)
        ]
        yield _Piece(numbers[owner], times[low:high], _batch(rows.schema, columns))


def _batches(count: int) -> Iterator[tuple[int, int]]:
    """Yields the begins and ends of batches of ``BATCH_ROWS`` rows."""
    for low in range(0, count, BATCH_ROWS):
        yield low, min(low + BATCH_ROWS, count)


def _alike_in_key(order: RowOrder, schema: pa.Schema) -> set[int]:
    """Returns the key columns with identical values in all rows of a key; 0.0 and -0.0 are equal, but not identical."""
    kinds = {key: schema.field(key).type for key in order.keys}
    return {key for key, kind in kinds.items() if not (pa.types.is_floating(kind) or pa.types.is_nested(kind))}


def _sorted_by_its_values(order: RowOrder, rows: pa.RecordBatch) -> int | None:
    """Returns the column that has, bit by bit, the numbers that rows were sorted by; None if there is none."""
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
    """Returns a directory for files of a task: one of Spark's local directories; None: the system's."""
    for path in os.environ.get("SPARK_LOCAL_DIRS", "").split(","):
        if path and os.access(path, os.W_OK):
            return path
    return None


class _Parts:
    """Parts of a task's rows on disk, each in order, in the order in which they came.

    :data:`MERGED_PARTS` parts of one level are merged into one part of the next level. So a row is written once per
    level, and the number of levels grows with the logarithm of the number of parts.
    """

    def __init__(self, hashing: _Hashing, files: ExitStack) -> None:
        self._hashing, self._files = hashing, files
        self._levels: list[list[Iterator[_Piece]]] = []

    def add(self, pieces: Iterator[_Piece], level: int = 0) -> None:
        """Writes a sorted part, and merges the parts of its level if they are now as many as are merged at once."""
        if level == len(self._levels):
            self._levels.append([])
        parts = self._levels[level]
        parts.append(self._written(pieces))
        if len(parts) == MERGED_PARTS:
            self._levels[level] = []
            self.add(_merged(self._hashing, parts), level + 1)

    def few(self) -> list[Iterator[_Piece]]:
        """Returns all parts, so few that they can be merged with one more at once; merges the smallest to get there."""
        parts = [part for level in reversed(self._levels) for part in level]
        while len(parts) >= MERGED_PARTS:
            last = parts[-min(MERGED_PARTS, len(parts) - MERGED_PARTS + 2) :]
            parts = [*parts[: -len(last)], self._written(_merged(self._hashing, last))]
        return parts

    def _written(self, pieces: Iterator[_Piece]) -> Iterator[_Piece]:
        return _on_disk(pieces, self._hashing.order.memory, self._files)


def _on_disk(pieces: Iterator[_Piece], memory: int, files: ExitStack) -> Iterator[_Piece]:
    """Writes sorted rows to a temporary file without a name, and returns an iterator that reads them.

    The file is deleted when all of it has been read; at the latest, when ``files`` is closed or this process ends.
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
    """Writes batches so small that one of each part can be held while the parts are merged."""
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
        if not file.seek(0, os.SEEK_END):
            return  # all rows were strangers
        file.seek(0)
        for batch in pa.ipc.open_stream(file):
            rows = pa.RecordBatch.from_arrays(batch.columns[2:], names=batch.schema.names[2:])
            yield _Piece(to_numpy(batch.column(0)), to_numpy(batch.column(1)), rows)


# ----------------------------------------------------------------------------------------------------------- merging


class _Head:
    """The next rows of a part; it has some as long as the part goes on."""

    def __init__(self, pieces: Iterator[_Piece]) -> None:
        self._pieces = pieces
        self._held, self.goes_on = deque[_Piece](), True
        self.read()

    @property
    def has_rows(self) -> bool:
        """Whether there are rows that have not been taken."""
        return bool(self._held)

    @property
    def last(self) -> tuple[int, int]:
        """Key and time of the last of these rows."""
        piece = self._held[-1]
        return int(piece.number[-1]), int(piece.time[-1])

    def take(self, end: tuple[int, int] | None) -> Iterator[_Piece]:
        """Yields and removes the rows before a key and time; None: all rows."""
        while self._held:
            piece = self._held[0]
            count = len(piece.number)
            cut = count if end is None else _before(piece, *end)
            if cut:
                yield piece.part(0, cut)
            if cut < count:
                self._held[0] = piece.part(cut, count)
                return
            self._held.popleft()

    def read(self) -> None:
        """Reads the part's next batch, and appends it to the rows that are left."""
        more = next(self._pieces, None)
        if more is None:
            self.goes_on = False
        else:
            self._held.append(more)


def _before(piece: _Piece, number: int, time: int) -> int:
    """Returns how many rows are before a key and time."""
    low = int(np.searchsorted(piece.number, number))
    high = int(np.searchsorted(piece.number, number, side="right"))
    return low + int(np.searchsorted(piece.time[low:high], time))


def _joined(pieces: Sequence[_Piece]) -> _Piece:
    number, time = (np.concatenate([piece[column] for piece in pieces]) for column in (0, 1))
    columns = [as_array(pa.chunked_array(found)) for found in zip(*(piece.rows.columns for piece in pieces))]
    return _Piece(number, time, _batch(pieces[0].rows.schema, columns))


def _merged(hashing: _Hashing, parts: Sequence[Iterator[_Piece]]) -> Iterator[_Piece]:
    """Merges sorted parts.

    The least of the last keys and times read from any unfinished part is a bound: all rows before it have been read.
    They are sorted and yielded, and then the parts that have reached the bound are read further.
    """
    heads = [_Head(part) for part in parts]
    last: _Piece | None = None
    while heads:
        end = min((head.last for head in heads if head.goes_on), default=None)
        taken = [piece for head in heads for piece in head.take(end)]
        if taken:
            for piece in _in_pieces(hashing.order, hashing.of_pieces(taken, last)):
                yield piece
                last = piece.part(len(piece.number) - 1, len(piece.number))
        for head in heads:
            if head.goes_on and head.last == end:
                head.read()
        heads = [head for head in heads if head.goes_on or head.has_rows]
