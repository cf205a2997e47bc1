"""Several queries over one sorted stream: events are read, ordered and coded once for all of them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from itertools import groupby, pairwise
from operator import itemgetter

import numpy as np
import pyarrow as pa

from cetdsl.ir.layout import KEY, METRICS, QUERY, START, WINDOW
from cetdsl.ir.sharing import CALIBRATED
from cetdsl.ir.stages import Pool, WorkloadSpec
from cetdsl.ir.windowing import has_windows
from cetdsl.kernels.aggregate.stream import Rows, RowsOfChunks
from cetdsl.kernels.answers.merge import merge_stream, pair_tables
from cetdsl.kernels.answers.rows import RowNames, group_columns
from cetdsl.kernels.answers.tables import AccumulatorTable, Values, accumulator_table, encode_partial, finish
from cetdsl.kernels.shared.benefit import FIXED
from cetdsl.kernels.shared.bursts import slices_of_windows, windows_in_order
from cetdsl.kernels.shared.calibration import prices
from cetdsl.kernels.shared.hamlet import Metrics, WorkloadEvaluator, evaluator_of
from cetdsl.kernels.shared.walkers import AbreastEvaluator
from cetdsl.kernels.vocabulary import Ints, Slices
from cetdsl.kernels.wire.chunks import CHUNK_EVENTS, Chunk, ChunkReader, refusing_too_large, window_column
from cetdsl.kernels.wire.columns import as_array, from_numpy, to_numpy

#: Why a query of a set is evaluated by itself over some chunk.
INFINITE = "a value that it sums up is infinite or NaN"
#: Answers of several queries are put together to batches of at least so many rows.
_BATCH_ROWS = 4_096


class PooledRows:
    """Places the rows of one query in the columns that all queries of a workload share."""

    def __init__(self, workload: WorkloadSpec, pool: Pool, number: int) -> None:
        self.number, self.name, self.layout = number, workload.names[number], pool.layout
        self.spec = workload.queries[number]
        self.groups = workload.groups[number]
        self.own = pool.own[number]
        window = window_column(self.spec, np.zeros(0, dtype=np.int64)).type
        self.types = {START: pa.int64(), WINDOW: window, METRICS: pa.string()}
        self.types |= {field.name: field.type for field in pa.ipc.read_schema(pa.py_buffer(pool.types))}

    def columns(self, keys: list[pa.Array], start: Ints, own: list[pa.Array]) -> list[pa.Array]:
        """Returns rows of the query as columns of the pool, given their keys, windows and own columns."""
        count = len(start)
        found = {QUERY: from_numpy(np.full(count, self.number, dtype=np.int64))}
        for number, key in enumerate(keys):
            found[f"{KEY}{number}"] = key if number in self.groups else pa.nulls(count, key.type)
        if has_windows(self.spec.query.windowing):
            found |= {START: from_numpy(start), WINDOW: window_column(self.spec, start)}
        for name, column in zip(self.own, own, strict=True):
            found[name] = column if column.type == self.types[name] else column.cast(self.types[name])
        return self._in_order(found, count)

    def answer(self, table: AccumulatorTable, groups: list[pa.Array], start: Ints) -> list[pa.Array]:
        """Returns the rows of the query's answer, or of its partial results, as columns of the pool."""
        if self.spec.answer.partial:
            return self.columns(groups, start, encode_partial(table))
        return self.columns(groups, start, finish(self.spec, table, RowNames(self.spec, groups, start, self.name)))

    def of_metrics(self, keys: list[pa.DataType], metrics: str) -> list[pa.Array]:
        """Returns the row of a task's metrics: its query is -1, and everything else is NULL."""
        nothing = {f"{KEY}{number}": pa.nulls(1, kind) for number, kind in enumerate(keys)}
        return self._in_order({QUERY: pa.array([-1]), METRICS: pa.array([metrics]), **nothing}, 1)

    def _in_order(self, found: dict[str, pa.Array], count: int) -> list[pa.Array]:
        return [found[name] if name in found else pa.nulls(count, self.types[name]) for name in self.layout.columns]


def workload_stream(
    workload: WorkloadSpec, batches: Iterator[pa.RecordBatch], chunk_events: int = CHUNK_EVENTS
) -> Iterator[list[pa.Array]]:
    """Answers several queries over a sorted stream, in the columns of a :class:`~cetdsl.ir.stages.Pool`."""
    return _together(_answers(workload, batches, chunk_events))


def _answers(workload: WorkloadSpec, batches: Iterator[pa.RecordBatch], chunk_events: int) -> Iterator[list[pa.Array]]:
    """Yields the rows of each query and chunk, and at the end one row of metrics for each set of queries."""
    pool = workload.partial or workload.answer
    pooled = [PooledRows(workload, pool, number) for number in range(len(workload.queries))]
    evaluator = WorkloadRows(workload)
    keys: list[pa.DataType] = []
    for chunk in ChunkReader(workload.reader, batches, chunk_events, workload.queries):
        keys = [chunk.column(name).type for name in workload.reader.layout.all_of(KEY)]
        for number, found in evaluator.found(chunk):
            yield pooled[number].answer(*found)
    for number, found in evaluator.last():
        yield pooled[number].answer(*found)
    for one in evaluator.sets:
        if (told := one.told(workload)) is not None:
            yield pooled[0].of_metrics(keys, told)


def _together(rows: Iterator[list[pa.Array]]) -> Iterator[list[pa.Array]]:
    """Yields the same rows in fewer batches: a batch costs Spark as much as hundreds of rows."""
    waiting: list[list[pa.Array]] = []
    count = 0
    for columns in rows:
        waiting.append(columns)
        count += len(columns[0])
        if count >= _BATCH_ROWS:
            yield [pa.concat_arrays(column) for column in zip(*waiting)]
            waiting, count = [], 0
    if waiting:
        yield [pa.concat_arrays(column) for column in zip(*waiting)]


class WorkloadRows:
    """Computes the rows of all queries, chunk after chunk."""

    def __init__(self, workload: WorkloadSpec) -> None:
        self.workload, self.sets = workload, query_sets(workload)
        self._rows = [RowsOfChunks(spec) for spec in workload.queries]
        self._sides = {side for sides in workload.pairs for side in sides}

    def found(self, chunk: Chunk) -> Iterator[tuple[int, Rows]]:
        """Yields the rows of a chunk's windows that hold a trend, each with the number of its query."""
        of_sides: dict[int, Values] = {}
        for one in self.sets:
            with refusing_too_large(self.workload.reader, chunk):
                values = one.evaluate(chunk)
            for number, own in zip(one.members, values, strict=True):
                if number in self._sides:
                    of_sides[number] = own
                    continue
                for found in self._rows[number].found(chunk, chunk.asked[number][0], own):
                    yield number, found
        for number, sides in enumerate(self.workload.pairs):
            if sides:
                yield from ((number, found) for found in self._paired(chunk, number, sides, of_sides))

    def last(self) -> Iterator[tuple[int, Rows]]:
        """Yields the rows that had to wait for the end of the stream."""
        for number, query in enumerate(self._rows):
            for found in query.last():
                yield number, found

    def _paired(self, chunk: Chunk, number: int, sides: tuple[int, ...], values: dict[int, Values]) -> Iterator[Rows]:
        """Yields the rows of an AND: the pairs of trends of its sides, which have the same windows."""
        slices = chunk.asked[number][0]
        present = values[sides[0]].found & values[sides[1]].found
        kept = np.nonzero(present[slices.slice])[0]
        if not len(kept):
            return
        segment = slices.segment[kept]
        specs = self.workload.queries
        tables = [
            accumulator_table(specs[side], values[side], chunk.values, slices.slice[kept], segment) for side in sides
        ]
        table, found = pair_tables(specs[number], tables)
        if len(found):
            yield table, group_columns(specs[number], chunk, segment[found]), slices.start[kept[found]]


def query_sets(workload: WorkloadSpec) -> list[QuerySet]:
    """Makes the sets of queries: those of each merged template, those of each walk, and each other query by itself."""
    together = (*workload.sets, *workload.abreast)
    taken = {number for members in together for number in members}
    singles = [(number,) for number, sides in enumerate(workload.pairs) if number not in taken and not sides]
    return [QuerySet(workload, members) for members in (*together, *singles)]


class QuerySet:
    """Queries that are evaluated together, with the metrics of that."""

    def __init__(self, workload: WorkloadSpec, members: tuple[int, ...]) -> None:
        self.members = members
        self.metrics: Metrics | None = None
        specs = [workload.queries[number] for number in members]
        deviations = [workload.deviations[number] for number in members]
        in_panes = [workload.in_panes[number] for number in members]
        self._shared, self._abreast, self._single = None, None, None
        if members in workload.sets:
            families = dict(enumerate(workload.families))
            decides = workload.sharing in ("dynamic", "static") and workload.cost_model == CALIBRATED
            found = prices() if decides else FIXED
            self._shared = WorkloadEvaluator(
                specs, workload.sharing, families, deviations, in_panes, workload.cost_model, found
            )
        elif members in workload.abreast:
            self._abreast = AbreastEvaluator(specs)
        else:
            self._single = evaluator_of(specs[0], in_panes[0])

    def evaluate(self, chunk: Chunk) -> list[Values]:
        """Computes the values of the members over a chunk."""
        asked = [chunk.asked[number] for number in self.members]
        if self._single is not None:
            begun = time.perf_counter()
            values = [self._single.evaluate(chunk.events, chunk.values, *asked[0])]
            self._add(Metrics(unshared=1, seconds=time.perf_counter() - begun))
            return values
        if self._abreast is not None:
            values, metrics = self._walked(self._abreast, chunk, [slices for slices, _ in asked])
        else:
            assert self._shared is not None
            values, metrics = self._shared.evaluate(chunk.events, chunk.values, *map(list, zip(*asked)))
        self._add(metrics)
        return values

    def _add(self, metrics: Metrics) -> None:
        self.metrics = metrics if self.metrics is None else self.metrics.plus(metrics)

    def _walked(self, abreast: AbreastEvaluator, chunk: Chunk, slices: list[Slices]) -> tuple[list[Values], Metrics]:
        begun = time.perf_counter()
        values = abreast.evaluate(chunk.events, chunk.values, slices)
        _, _, island = windows_in_order(slices_of_windows(abreast.window, slices))
        propagated = int((island[:, 1] - island[:, 0]).sum())
        seconds = time.perf_counter() - begun
        return values, Metrics(queries=len(self.members), propagated=propagated, seconds=seconds)

    def told(self, workload: WorkloadSpec) -> str | None:
        """Returns the metrics as JSON, with the reasons of the queries that did not share; None if there are none."""
        if self.metrics is None:
            return None
        names = [workload.names[number] for number in self.members]
        apart = {name: reason for name in names if (reason := workload.reasons[workload.names.index(name)]) is not None}
        if self._shared is not None:
            apart |= {names[q]: INFINITE for q in self._shared.infinite}
        of_queries = {
            "together": self._by_name(names, self.metrics.together),
            "alone": self._by_name(names, self.metrics.alone),
        }
        return json.dumps({**self.metrics._asdict(), "queries": names, **of_queries, "apart": apart})

    def _by_name(self, names: list[str], numbers: Ints | int) -> dict[str, int]:
        """Returns the metric of each query by its name; none if it is not kept by query."""
        return {} if isinstance(numbers, int) else dict(zip(names, numbers.tolist(), strict=True))


def merge_workload(workload: WorkloadSpec, batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.Array]]:
    """Adds up the partial rows of :func:`workload_stream`, sorted by query, keys and window."""
    return _together(_merged_answers(workload, batches))


def _merged_answers(workload: WorkloadSpec, batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.Array]]:
    assert workload.partial is not None
    layout = workload.partial.layout
    for number, parts in groupby(_by_query(layout.position(QUERY), batches), key=itemgetter(0)):
        answers = PooledRows(workload, workload.answer, max(number, 0))
        if number >= 0:
            yield from _merged(workload.partial, answers, (rows for _, rows in parts))
            continue
        for _, rows in parts:
            keys = [rows.column(layout.position(name)).type for name in layout.all_of(KEY)]
            for text in rows.column(layout.position(METRICS)).to_pylist():
                yield answers.of_metrics(keys, text)


def _merged(partial: Pool, answers: PooledRows, batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.Array]]:
    spec, layout = answers.spec, partial.layout
    keys, sliding = layout.keys, has_windows(spec.query.windowing)
    read = (*layout.all_of(KEY), *([START] if sliding else []), *partial.own[answers.number])
    narrow = (
        pa.RecordBatch.from_arrays([rows.column(layout.position(name)) for name in read], names=read)
        for rows in batches
    )
    for columns in merge_stream(spec.with_answer(partial=False), narrow):
        start = np.zeros(len(columns[0]), dtype=np.int64)
        if sliding:
            start = to_numpy(as_array(columns[keys].field("start")).cast(pa.int64()))
        yield answers.columns(columns[:keys], start, columns[keys + sliding :])


def _by_query(query: int, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yields the rows of each query, whose number stands in the column ``query``, batch by batch."""
    for batch in batches:
        number = to_numpy(as_array(batch.column(query)))
        bounds = [0, *(np.nonzero(number[1:] != number[:-1])[0] + 1).tolist(), batch.num_rows]
        for low, high in pairwise(bounds):
            if low < high:
                yield int(number[low]), batch.slice(low, high - low)
