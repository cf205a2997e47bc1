"""Adds values of the rows before and after each row of a partition, as ``lag`` and ``lead`` do."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from cetdsl.ir.rows import Neighbours
from cetdsl.ir.slots import TESTS_IN_WORD
from cetdsl.kernels.rows.evaluate import evaluate
from cetdsl.kernels.vocabulary import Bools, Ints
from cetdsl.kernels.wire.columns import as_array, differs_from_previous, from_numpy, integers, truths
from cetdsl.rows.expressions import read_expression


def with_neighbours(asked: Neighbours, keys: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Adds the columns of :class:`~cetdsl.ir.rows.Neighbours` to rows that come in order.

    Parameters
    ----------
    asked : Neighbours
    keys : int
        The number of key columns, with which the rows begin.
    batches : iterator of pyarrow.RecordBatch

    Yields
    ------
    pyarrow.RecordBatch

    Examples
    --------
    >>> rows = pa.RecordBatch.from_pydict({"key": ["a", "a", "b"], "x": [3, 1, 2]})
    >>> asked = Neighbours(((1, -1),), (("x", 1), ("before", 2)), ((0, "`x` < `before`"),), (-1,))
    >>> [batch.column(3).to_pylist() for batch in with_neighbours(asked, 1, iter([rows]))]
    [[0, 1, 0]]
    """
    before = max((-move for _, move in asked.moved), default=0)
    behind = max((move for _, move in asked.moved), default=0)
    before, behind = max(before, 0), max(behind, 0)
    known: pa.Table | None = None
    done = 0  # rows of ``known`` that have been yielded already
    for batch in batches:
        fresh = pa.Table.from_batches([batch])
        known = fresh if known is None else pa.concat_tables([known, fresh])
        if known.num_rows - behind > done:
            known = known.combine_chunks()
            yield from _looking(asked, keys, known, done, known.num_rows - behind)
            first = max(0, known.num_rows - behind - before)
            done = known.num_rows - behind - first
            known = known.slice(first)
    if known is not None and done < known.num_rows:
        yield from _looking(asked, keys, known.combine_chunks(), done, known.num_rows)


def _looking(asked: Neighbours, keys: int, rows: pa.Table, begin: int, end: int) -> Iterator[pa.RecordBatch]:
    """Yields the rows ``begin:end``, with the values and tests computed for them."""
    columns = [as_array(column) for column in rows.columns]
    changes = differs_from_previous(columns[:keys], rows.num_rows)
    partition: Ints | None = np.cumsum(changes, dtype=np.int64) if keys else None
    given = [column.slice(begin, end - begin) for column in columns]
    for column, move in asked.moved:
        given.append(_moved(columns[column], partition, move, begin, end))
    named = {name: given[number] for name, number in asked.names}
    words = [_word(given, number, end - begin) for number in asked.words]
    for bit, sql in asked.tests:
        holds = truths(evaluate(read_expression(sql), named, end - begin))
        words[bit // TESTS_IN_WORD] |= holds.astype(np.int64) << (bit % TESTS_IN_WORD)
    given += map(from_numpy, words)
    yield pa.RecordBatch.from_arrays(given, names=[f"c{number}" for number in range(len(given))])


def _moved(column: pa.Array, partition: Ints | None, move: int, begin: int, end: int) -> pa.Array:
    """Returns the values ``move`` rows after the rows ``begin:end``; NULL where the partition has no such row."""
    count = len(column)
    low, high = min(max(begin + move, 0), count), max(min(end + move, count), 0)
    rows = np.arange(begin, end) + move
    absent: Bools = (rows < low) | (rows >= high)
    if partition is not None:
        there = np.clip(rows, 0, count - 1)
        absent |= partition[there] != partition[begin:end]
    return column.take(from_numpy(np.where(absent, 0, rows), absent if absent.any() else None))


def _word(columns: list[pa.Array], number: int, rows: int) -> Ints:
    """Returns a word of tests: a copy of the column with this number, or zeros if the number is -1."""
    return np.zeros(rows, dtype=np.int64) if number < 0 else integers(columns[number]).copy()
