"""Picks trends of a sorted stream without listing the others: a uniform sample, or the heaviest ones.

Each trend that is found has a rank, and the answer of all tasks together is the ``size`` trends of the lowest ranks. So
a task drops a trend once it has seen as many of lower rank.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cetdsl.errors import CountOverflow
from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.layout import KEY
from cetdsl.ir.stages import SampleSpec, TopSpec
from cetdsl.ir.windowing import SPAN
from cetdsl.kernels.complete.streams import Graphs, Part, placed
from cetdsl.kernels.enumerate.batches import join_blocks, take_trends
from cetdsl.kernels.enumerate.trends import TrendRows
from cetdsl.kernels.graph.k_best import KBest, k_best_paths
from cetdsl.kernels.graph.samples import sample_paths
from cetdsl.kernels.vocabulary import Block, Bools, Events, Ints
from cetdsl.kernels.wire.chunks import CHUNK_EVENTS, Chunk, Columns, by_chunks
from cetdsl.kernels.wire.columns import (
    from_numpy,
    from_unscaled,
    ordered_bits,
    python_value,
    unscaled_integers,
    validity,
)

Numbers = NDArray[Any]
_FEWER_DIGITS = "cast the column to a decimal of fewer digits, or to double"


class _Found(NamedTuple):
    """Trends, the value that the answer shows beside each, and their ranks."""

    block: Block
    shown: pa.Array
    rank: Numbers

    def take(self, rows: Ints) -> _Found:
        """Returns some of the trends."""
        return _Found(take_trends(self.block, rows), self.shown.take(from_numpy(rows)), self.rank[rows])


def _pick(
    spec: SampleSpec | TopSpec,
    batches: Iterator[pa.RecordBatch],
    chunk_events: int,
    find: Callable[[Chunk], Iterator[_Found]],
) -> Columns:
    """Yields the rows of those trends found in each chunk that may still be in the answer."""
    # At most one array: the lowest ranks of all chunks so far.
    lowest: list[Numbers] = []

    def answer(chunk: Chunk) -> Columns:
        if isinstance(spec, SampleSpec):
            chunk = _one_per_window(chunk)
        found = list(find(chunk))
        if not found:
            return
        block, shown, rank = zip(*found)
        trends = _Found(join_blocks(list(block)), pa.concat_arrays(shown), np.concatenate(rank))
        known, ranks = sum(map(len, lowest)), np.concatenate([*lowest, trends.rank])
        order = np.argsort(ranks, kind="stable")[: spec.size]
        lowest[:] = [ranks[order]]
        chosen = trends.take(order[order >= known] - known)
        yield from TrendRows(spec.graph.trends, chunk).rows(chosen.block, chosen.shown)

    return by_chunks(spec.graph.trends.kernel, batches, chunk_events, answer)


def sample_stream(spec: SampleSpec, batches: Iterator[pa.RecordBatch], chunk_events: int = CHUNK_EVENTS) -> Columns:
    """Draws trends of a sorted stream; those with the smallest keys of all tasks are a uniform sample of all trends.

    The columns are keys, the window if sliding, the sampling key, and the trend. A trend counts once in each window
    that holds it, and may be drawn in each.
    """
    kernel = spec.graph.trends.kernel
    graphs = Graphs(kernel)

    def draw(chunk: Chunk) -> Iterator[_Found]:
        for part in graphs.parts(chunk):
            windows, salt = (part.low, part.high), _salts(kernel, chunk, part)
            drawn = sample_paths(part.graph, graphs.variable, *windows, graphs.complete, spec.size, spec.seed, salt)
            yield _Found(placed(drawn.block, part), from_numpy(drawn.key), drawn.key)

    return _pick(spec, batches, chunk_events, draw)


def _one_per_window(chunk: Chunk) -> Chunk:
    """Returns the chunk with a slice of its own for each window."""
    slices = chunk.slices
    own = np.arange(len(slices.slice))
    apart = slices._replace(low=slices.low[slices.slice], high=slices.high[slices.slice], slice=own)
    return chunk._replace(asked=[(apart, chunk.bounds)])


def _salts(spec: KernelSpec, chunk: Chunk, part: Part) -> Ints:
    """Returns a number for each slice of a part, which depends on its key, window and pivots alone, not on the task."""
    slices, windows = chunk.slices, part.slices
    pivots = [part.asked.pivot, part.asked.outer][: len(spec.query.pivots)]
    if spec.query.windowing.kind == SPAN:
        # An event's number in the slice depends on the task; its time, and its number among those of its time, do not.
        place = np.arange(len(chunk.events.time)) - _first_of_its_time(chunk.events)
        events = [part.asked.since, *pivots]
        where = [column[event] for event in events for column in (chunk.events.time, place)]
    else:
        where = [slices.start[windows], *(pivot - slices.low[windows] for pivot in pivots)]
    keys = [chunk.column(name) for name in spec.layout.all_of(KEY)]
    rows = chunk.events.segment_start[slices.segment[windows]].tolist()
    salts = np.empty(len(windows), dtype=np.int64)
    for n, (row, begin, *own) in enumerate(zip(rows, part.asked.begin.tolist(), *map(np.ndarray.tolist, where))):
        told = repr((*(python_value(key, row) for key in keys), *own, *([begin] if begin >= 0 else [])))
        digest = hashlib.blake2b(told.encode(errors="surrogatepass"), digest_size=8).digest()
        salts[n] = int.from_bytes(digest, "little", signed=True)
    return salts


def _first_of_its_time(events: Events) -> Ints:
    """Returns for each event the first one of the same key and time."""
    begins = np.zeros(len(events.time), dtype=np.bool_)
    begins[events.segment_start[:-1]] = True
    begins[1:] |= events.time[1:] != events.time[:-1]
    return np.maximum.accumulate(np.where(begins, np.arange(len(begins)), 0))


def top_stream(spec: TopSpec, batches: Iterator[pa.RecordBatch], chunk_events: int = CHUNK_EVENTS) -> Columns:
    """Finds the heaviest trends of a sorted stream; the heaviest of all tasks are those of the whole.

    The columns are keys, the window if sliding, the weight of the trend, and the trend. CountOverflow is raised if a
    sum of whole numbers does not fit 64 bits; of decimals, the zeros that all of them end in do not count.
    """
    graphs = Graphs(spec.graph.trends.kernel)

    def find(chunk: Chunk) -> Iterator[_Found]:
        weights, valid, unit = _weights(chunk, spec.variables)
        for part in graphs.parts(chunk):
            graph, windows = part.graph, (part.low, part.high)
            event = part.number[graph.event]
            weight, present = weights[event], valid[event]
            if spec.variables:
                bound = np.isin(graphs.variable, spec.variables)[graph.state]
                weight = np.where(bound, weight, weight.dtype.type(0))
                # Without a column of values, weights are counts: a trend without such an event has 0, not NULL.
                present = present & bound if chunk.values else present
            best = k_best_paths(graph, graphs.variable, *windows, graphs.complete, spec.size, weight, present)
            yield _Found(placed(best.block, part), _weight_column(chunk, best, unit), _falling(best, unit))

    return _pick(spec, batches, chunk_events, find)


class _Weights(NamedTuple):
    """The weight of each event, and whether it is not NULL.

    Weights are doubles or whole numbers; of decimals, the latter count units of the last digit. Decimals that may have
    more digits than 64 bits hold are given as multiples of ``unit`` such units; it is None for other weights.
    """

    number: Numbers
    valid: Bools
    unit: int | None = None


def _weights(chunk: Chunk, variables: tuple[int, ...]) -> _Weights:
    """Returns the weights of events; without a column of values each event weighs 1.

    Only events that the ``variables`` (none given: any) may be bound to matter for the unit of decimals.
    """
    count = len(chunk.events.time)
    if not chunk.values:
        return _Weights(np.ones(count, dtype=np.int64), np.ones(count, dtype=np.bool_))
    column = chunk.values[0]
    valid = validity(column.array)
    if not column.is_exact:
        return _Weights(column.doubles(), valid)
    whole = unscaled_integers(column.array)
    if not isinstance(whole, list):
        return _Weights(whole, valid)
    # Decimals of many digits often have zeros at the end, and without these they fit 64 bits.
    if variables:
        bound = (chunk.events.mask & sum(1 << variable for variable in variables) != 0).tolist()
        whole = [value if counts else 0 for value, counts in zip(whole, bound, strict=True)]
    unit = math.gcd(*whole) or 1
    if max(map(abs, whole), default=0) // unit >= 2**63:
        raise CountOverflow(
            "a value that trends are ordered by does not fit 64 bits, even without the zeros that all values end in",
            hint=_FEWER_DIGITS,
        )
    return _Weights(np.array([value // unit for value in whole], dtype=np.int64), valid, unit)


def _whole(found: KBest, unit: int | None) -> list[int]:
    """Returns the weights of trends, which must not be doubles, in units of the last digit."""
    return [value * (unit or 1) for value in found.weight.tolist()]


def _weight_column(chunk: Chunk, found: KBest, unit: int | None) -> pa.Array:
    """Returns the weights of trends in the type of their answer: DECIMAL(38) for whole numbers and decimals."""
    absent = None if found.present.all() else ~found.present
    if not chunk.values or found.weight.dtype == np.float64:
        return from_numpy(found.weight, absent)
    kind = chunk.values[0].array.type
    scale = kind.scale if pa.types.is_decimal(kind) else 0
    whole = _whole(found, unit)
    if max(map(abs, whole), default=0) >= 10**38:
        raise CountOverflow(f"a sum that trends are ordered by does not fit DECIMAL(38, {scale})", hint=_FEWER_DIGITS)
    return from_unscaled(whole, absent, pa.decimal128(38, scale))


def _falling(found: KBest, unit: int | None) -> Numbers:
    """Returns numbers whose rising order is Spark's descending order of the weights: NaN first, NULL last."""
    if unit is not None:
        # Each chunk has its own unit, so the weights are compared as Python integers, in units of the last digit.
        falling: Numbers = np.array([-value for value in _whole(found, unit)], dtype=object)
    else:
        bits = ordered_bits(found.weight.astype(np.float64)) if found.weight.dtype == np.float64 else found.weight
        falling = np.invert(bits.astype(np.int64))
    # All 64-bit integers may be weights, so NULL needs another kind of number.
    return falling if found.present.all() else np.where(found.present, falling.astype(object), math.inf)
