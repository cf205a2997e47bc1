"""Aggregates over the trends of a sorted stream: chunk by chunk, state carried from one to the next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.windowing import SPAN
from cetdsl.kernels.aggregate.evaluate import Evaluator
from cetdsl.kernels.answers.rows import answer_columns, group_columns
from cetdsl.kernels.answers.tables import AccumulatorTable, accumulator_table, concatenate, merge_rows
from cetdsl.kernels.vocabulary import Ints
from cetdsl.kernels.wire.chunks import CHUNK_EVENTS, Chunk, Columns, by_chunks
from cetdsl.kernels.wire.columns import from_numpy


class OpenKey(NamedTuple):
    """What is known so far of the last key of a chunk, when it goes on (spans only)."""

    table: AccumulatorTable
    groups: list[pa.Array]


def aggregate_stream(spec: KernelSpec, batches: Iterator[pa.RecordBatch], chunk_events: int = CHUNK_EVENTS) -> Columns:
    """Answers a query over a sorted stream: group columns, window if sliding, and outputs or partial accumulators.

    The window of a partial result is its start alone.
    """
    evaluator = Evaluator(spec)
    kept: OpenKey | None = None

    def answer(chunk: Chunk) -> Columns:
        nonlocal kept
        slices = chunk.slices
        values = evaluator.evaluate(chunk.events, chunk.values, slices, chunk.bounds)
        found = np.nonzero(values.found[slices.slice])[0]
        segment = slices.segment[found]
        table = accumulator_table(spec, values, chunk.values, slices.slice[found], segment)
        groups = group_columns(spec, chunk, segment)
        if spec.query.windowing.kind == SPAN:
            table, groups, kept = carry(spec, chunk, table, groups, segment, kept)
        if len(table.scaled[0]):
            yield answer_columns(spec, table, groups, slices.start[found])

    yield from by_chunks(spec, batches, chunk_events, answer)
    if kept is not None:
        yield answer_columns(spec, kept.table, kept.groups, np.zeros(1, dtype=np.int64))


def carry(
    spec: KernelSpec, chunk: Chunk, table: AccumulatorTable, groups: list[pa.Array], segment: Ints, kept: OpenKey | None
) -> tuple[AccumulatorTable, list[pa.Array], OpenKey | None]:
    """Adds what earlier chunks found for the first key, and holds back the last one if it goes on."""
    last = len(chunk.events.segment_start) - 2
    if kept is not None:
        # An open key keeps its last events, so it is the first key of the next chunk.
        joined, numbers = concatenate([kept.table, table]), np.append(0, segment)
        starts = np.nonzero(np.append(True, numbers[1:] != numbers[:-1]))[0]
        rows = from_numpy(starts)
        groups = [pa.concat_arrays(pair).take(rows) for pair in zip(kept.groups, groups, strict=True)]
        table, segment, kept = merge_rows(spec, joined, starts), numbers[starts], None
    if not chunk.complete and len(segment) and segment[-1] == last:
        row = np.array([len(segment) - 1])
        kept = OpenKey(table.take(row), [column.take(from_numpy(row)) for column in groups])
        before = np.arange(len(segment) - 1)
        table, groups = table.take(before), [column.take(from_numpy(before)) for column in groups]
    return table, groups, kept
