"""Aggregates over the trends of a sorted stream, chunk by chunk, with open keys carried from one to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
import pyarrow as pa

from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.windowing import SPAN, has_windows
from cetdsl.kernels.aggregate.evaluate import Evaluator
from cetdsl.kernels.aggregate.messages import MessageEvaluator
from cetdsl.kernels.aggregate.spans import SpanEvaluator
from cetdsl.kernels.aggregate.sweep import SweepEvaluator
from cetdsl.kernels.answers.rows import answer_columns, group_columns
from cetdsl.kernels.answers.tables import AccumulatorTable, Values, accumulator_table, concatenate, merge_rows
from cetdsl.kernels.vocabulary import Events, Ints, Slices
from cetdsl.kernels.wire.chunks import CHUNK_EVENTS, Chunk, Columns, by_chunks
from cetdsl.kernels.wire.columns import from_numpy
from cetdsl.kernels.wire.values import ValueColumn

#: Rows of an answer: their accumulators, their group columns, and the starts of their windows.
Rows = tuple[AccumulatorTable, list[pa.Array], Ints]


class SliceEvaluator(Protocol):
    """Computes a query's accumulators over slices of events."""

    def evaluate(self, events: Events, columns: list[ValueColumn], slices: Slices, bounds: tuple[Ints, Ints]) -> Values:
        """Computes all accumulators over all slices; ``bounds`` limit how far spans look back and ahead."""


#: For slices of so many events, one pass per event of the pivot takes as long as a sweep.
FEW = 50


class RowsOfChunks:
    """Makes the rows of a query's answer, chunk after chunk; with spans a key's rows wait until the key has ended."""

    def __init__(self, spec: KernelSpec) -> None:
        self.spec = spec
        self.waiting: Rows | None = None

    def found(self, chunk: Chunk, slices: Slices, values: Values) -> Iterator[Rows]:
        """Yields the rows of a chunk's windows that hold a trend, or an event if the answer is to have zeros."""
        zeros = self.spec.answer.zeros
        found = np.arange(len(slices.slice)) if zeros else np.nonzero(values.found[slices.slice])[0]
        segment = slices.segment[found]
        table = accumulator_table(self.spec, values, chunk.values, slices.slice[found], segment)
        rows = table, group_columns(self.spec, chunk, segment), slices.start[found]
        if self.spec.query.windowing.kind == SPAN and not has_windows(self.spec.query.windowing):
            rows = self._carry(chunk, rows, segment)
        if len(rows[2]):
            yield rows

    def last(self) -> Iterator[Rows]:
        """Yields the rows of the last key, if they had to wait for the end of the stream."""
        if self.waiting is not None:
            yield self.waiting

    def _carry(self, chunk: Chunk, rows: Rows, segment: Ints) -> Rows:
        """Adds what earlier chunks found for the first key, and holds back the last one if it goes on."""
        table, groups, _ = rows
        last = len(chunk.events.segment_start) - 2
        if self.waiting is not None:
            # An open key keeps its last events, so it is the first key of the next chunk.
            joined, numbers = concatenate([self.waiting[0], table]), np.append(0, segment)
            starts = np.nonzero(np.append(True, numbers[1:] != numbers[:-1]))[0]
            groups = [
                pa.concat_arrays([before, now]).take(from_numpy(starts))
                for before, now in zip(self.waiting[1], groups, strict=True)
            ]
            table, segment, self.waiting = merge_rows(self.spec, joined, starts), numbers[starts], None
        done = np.arange(len(segment))
        if not chunk.complete and len(segment) and segment[-1] == last:
            self.waiting = _taken(table, groups, done[-1:])
            done = done[:-1]
        return _taken(table, groups, done)


def _taken(table: AccumulatorTable, groups: list[pa.Array], rows: Ints) -> Rows:
    """Returns some rows of an answer without windows."""
    return table.take(rows), [column.take(from_numpy(rows)) for column in groups], np.zeros_like(rows)


def aggregate_stream(spec: KernelSpec, batches: Iterator[pa.RecordBatch], chunk_events: int = CHUNK_EVENTS) -> Columns:
    """Answers a query over a sorted stream: group columns, window if sliding, and outputs or partial accumulators.

    The window of a partial result is its start alone.
    """
    evaluator = Evaluator(spec)
    return answers(spec, lambda slices: evaluator, batches, chunk_events)


def sweep_stream(spec: KernelSpec, batches: Iterator[pa.RecordBatch], chunk_events: int = CHUNK_EVENTS) -> Columns:
    """Answers like :func:`aggregate_stream`, by sweeping the events of the query's pivot where slices are large."""
    # A pass cannot evaluate a NOT whose predicates speak of other events of the trend.
    looking = any(negation.looks_at_trend for negation in spec.query.negations)
    sweeping, passing = SweepEvaluator(spec), None if looking else Evaluator(spec)

    def choose(slices: Slices) -> Evaluator | SweepEvaluator:
        # One pass per event of the pivot takes time with the square of a slice's size.
        return sweeping if passing is None or are_large(slices, FEW) else passing

    return answers(spec, choose, batches, chunk_events)


def are_large(slices: Slices, few: int) -> bool:
    """Whether sum(size²) > few · sum(size) over the slices, that is, whether the sweep pays."""
    sizes = slices.high - slices.low
    return bool((sizes * sizes).sum() > few * sizes.sum())


def message_stream(spec: KernelSpec, batches: Iterator[pa.RecordBatch], chunk_events: int = CHUNK_EVENTS) -> Columns:
    """Answers like :func:`aggregate_stream` about an AND of single events."""
    evaluator = SpanEvaluator(spec) if spec.query.windowing.kind == SPAN else MessageEvaluator(spec)
    return answers(spec, lambda slices: evaluator, batches, chunk_events)


def answers(
    spec: KernelSpec,
    choose: Callable[[Slices], SliceEvaluator],
    batches: Iterator[pa.RecordBatch],
    chunk_events: int,
) -> Columns:
    """Answers a query over a sorted stream with the evaluator that is chosen for the slices of each chunk."""
    rows = RowsOfChunks(spec)

    def answer(chunk: Chunk) -> Columns:
        evaluator = choose(chunk.slices)
        values = evaluator.evaluate(chunk.events, chunk.values, chunk.slices, chunk.bounds)
        for found in rows.found(chunk, chunk.slices, values):
            yield answer_columns(spec, *found)

    yield from by_chunks(spec, batches, chunk_events, answer)
    for found in rows.last():
        yield answer_columns(spec, *found)
