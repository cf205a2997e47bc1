"""Measurements of detection as Arrow columns: for each slice of a key its plan, decisions, and partial matches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from cetdsl.detection.plans import Plan
from cetdsl.ir.branches import BranchPlan
from cetdsl.ir.stages import NO_DEAD_ENDS, DetectSpec
from cetdsl.kernels.detect.choose import Chooser
from cetdsl.kernels.detect.detector import Detector
from cetdsl.kernels.detect.trends import ends_of
from cetdsl.kernels.enumerate.layout import ints
from cetdsl.kernels.wire.chunks import CHUNK_EVENTS, Chunk, Columns, by_chunks

_TYPES = (
    pa.int32(),
    pa.int64(),
    pa.string(),
    pa.int64(),
    pa.bool_(),
    pa.bool_(),
    pa.string(),
    pa.map_(pa.string(), pa.int64()),
    pa.float64(),
    pa.float64(),
    pa.map_(pa.string(), pa.float64()),
    pa.map_(pa.string(), pa.float64()),
)


def measure_stream(spec: DetectSpec, batches: Iterator[pa.RecordBatch], chunk_events: int = CHUNK_EVENTS) -> Columns:
    """Yields rows on each slice of each key: its plan and the decision behind it once, and its partial matches.

    The columns are the key's and those of :data:`~cetdsl.ir.stages.DETECTION`. Each plan has an adaptation, perhaps
    ``static``.
    """
    detector = Detector(spec.trends.kernel, spec.plans, by_slice=True)

    def measured(chunk: Chunk) -> Columns:
        ends = ends_of(chunk, spec.trends.kernel)
        for _ in detector.enumerate(chunk.events, chunk.slices, chunk.bounds, ends=ends):
            pass  # what is found is not asked for
        for branch, plan in enumerate(spec.plans):
            yield from _told(spec, chunk, [*_decisions(detector, branch, plan), *_work(detector, branch, plan)])

    yield from by_chunks(spec.trends.kernel, batches, chunk_events, measured)


def sample_stream(spec: DetectSpec, batches: Iterator[pa.RecordBatch], chunk_events: int = CHUNK_EVENTS) -> Columns:
    """Takes the statistics of each chunk, of all of its keys together, in the columns of :func:`measure_stream`."""
    detector = Detector(spec.trends.kernel, spec.plans, by_slice=True)

    def sampled(chunk: Chunk) -> Columns:
        count = len(chunk.events.time)
        rows: list[tuple[Any, ...]] = []
        for branch, statistics in enumerate(detector.sample(chunk.events) if count else ()):
            shares = {", ".join(pair): share for pair, share in statistics.selectivities.items()}
            rates, selectivities = list(statistics.rates.items()), list(shares.items())
            rows.append((0, branch, 0, None, count, False, False, None, [], 0.0, 0.0, rates, selectivities))
        yield from _told(spec, chunk, rows)

    yield from by_chunks(spec.trends.kernel, batches, chunk_events, sampled)


def measure_choice_stream(
    spec: DetectSpec, batches: Iterator[pa.RecordBatch], chunk_events: int = CHUNK_EVENTS
) -> Columns:
    """Yields the orders in which each chunk's trends were put together, in the columns of :func:`measure_stream`.

    Where no order was taken, there is one row, of branch 0, without partial matches.
    """
    chooser = Chooser(spec)

    def measured(chunk: Chunk) -> Columns:
        count, seen = len(chunk.events.time), len(chooser.chosen)
        for _ in chooser.enumerate(chunk.events, chunk.slices, chunk.bounds):
            pass  # what is found is not asked for
        rows: list[tuple[Any, ...]] = []
        for plans in chooser.chosen[seen:]:
            told: list[tuple[str, list[tuple[str, int]]]] = [(NO_DEAD_ENDS, [])]
            if plans is not None:
                told = [
                    (_shown(one, plan), list(zip(plan.steps(_names(one)), counts.tolist(), strict=True)))
                    for one, plan, counts in zip(spec.plans, plans, chooser.take_partial(plans), strict=True)
                ]
            rows += (
                (0, branch, 0, shown, count, False, False, None, partial, 0.0, 0.0, None, None)
                for branch, (shown, partial) in enumerate(told)
            )
        yield from _told(spec, chunk, rows)

    yield from by_chunks(spec.trends.kernel, batches, chunk_events, measured)


def _told(spec: DetectSpec, chunk: Chunk, rows: Sequence[tuple[Any, ...]]) -> Columns:
    """Makes columns of rows, each with the number of a key in the chunk and facts about it."""
    if rows:
        key, *told = zip(*rows, strict=True)
        columns = (pa.array(column, kind) for column, kind in zip(told, _TYPES, strict=True))
        yield [*chunk.key_columns(spec.trends.keys, ints(list(key))), *columns]


def _names(branch: BranchPlan) -> tuple[str, ...]:
    assert branch.adapting is not None
    return branch.adapting.problem.names


def _shown(branch: BranchPlan, plan: Plan) -> str:
    return plan.show(_names(branch))


def _decisions(detector: Detector, branch: int, plan: BranchPlan) -> Iterator[tuple[Any, ...]]:
    """The slices of the last chunk that were complete."""
    loop = detector.loops[branch]
    assert loop is not None
    for one in loop.slices:
        shares = {", ".join(pair): share for pair, share in one.statistics.selectivities.items()}
        yield (
            one.key, branch, one.number, _shown(plan, one.plan), one.events, one.planned, one.changed, one.violated,
            [], one.seconds_deciding, one.seconds_planning, list(one.statistics.rates.items()), list(shares.items()),
        )  # fmt: skip
    loop.slices.clear()


def _work(detector: Detector, branch: int, plan: BranchPlan) -> Iterator[tuple[Any, ...]]:
    """Yields how many partial matches each slice of the last chunk had, with the plan that was in force."""
    loop, ranges = detector.loops[branch], detector.ranges[branch]
    if loop is None or ranges is None:
        return
    for key, number, chosen, group in zip(ranges.key, ranges.slice, ranges.plan, ranges.group, strict=True):
        shown, steps = _shown(plan, loop.plans[chosen]), loop.plans[chosen].steps(_names(plan))
        counts = list(zip(steps, detector.partial[branch][group].tolist(), strict=True))
        yield int(key), branch, int(number), shown, 0, False, False, None, counts, 0.0, 0.0, None, None
