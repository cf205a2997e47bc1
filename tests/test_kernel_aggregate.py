"""Streams through the kernels without Spark: however a stream is cut into batches and chunks, the answer is the same.

:class:`Worker` does in plain Python what Spark does before a kernel runs: masks, keys, comparison columns, sorting.
"""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
import weakref
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import attrs
import generators
import numpy as np
import pyarrow as pa
import pytest
import reference
from pyspark.sql.types import DoubleType, IntegerType, LongType, StringType
from test_engines import agrees, shown

import cetdsl as cet
from cetdsl.analysis import Binding, analyse
from cetdsl.analysis.types import type_of
from cetdsl.errors import EngineError, UnsupportedQuery
from cetdsl.execution.exchange import typed
from cetdsl.ir.compiled import ListColumn
from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.layout import BUCKET, InColumn
from cetdsl.ir.operators import ListTrends, Merge, Messages, Operator, PairCounts, PanesInPlace, Propagate, Sweep
from cetdsl.ir.schema import Field, Schema
from cetdsl.ir.source import Source
from cetdsl.ir.stages import TrendsSpec
from cetdsl.ir.windowing import SLIDING, SPAN
from cetdsl.kernels.aggregate.evaluate import Evaluator
from cetdsl.kernels.aggregate.panes import in_place_stream
from cetdsl.kernels.aggregate.stream import RowsOfChunks, aggregate_stream, message_stream, sweep_stream
from cetdsl.kernels.answers.merge import merge_stream, pair_stream
from cetdsl.kernels.enumerate.trends import trend_stream
from cetdsl.kernels.wire import chunks
from cetdsl.kernels.wire.chunks import ChunkReader
from cetdsl.kernels.wire.columns import from_numpy
from cetdsl.pattern.expressions import Aggregate, Attribute, Expr, Role
from cetdsl.pattern.query import Query
from cetdsl.pattern.text import unparse
from cetdsl.planning.strategies.enumerate import list_trends
from cetdsl.planning.strategies.kernel import kernel
from cetdsl.planning.strategies.request import AggregateRequest, Declined, TrendsRequest, compile_sides
from cetdsl.rewrite import rewrite

SCHEMA = Schema([Field(*column.split(" ")) for column in (generators.SCHEMA + ", case int").split(", ")])
ARROW = {"int": pa.int32(), "bigint": pa.int64(), "double": pa.float64(), "string": pa.string(), "boolean": pa.bool_()}
SPARK = {"int": IntegerType(), "bigint": LongType(), "double": DoubleType(), "string": StringType()}
NUMBERS = ("decimal", "string", "double", "log2")
COUNT = Aggregate("count")
#: (events per chunk, rows per batch); all at once first.
CUTTING = ((2**20, 2**20), (1, 1), (3, 2))

FEATURES = generators.Features(returned_strings=True, aggregate_predicates=False, correlated_negation=False)


def cuttings(turn: int, cuts: tuple[int, ...]) -> Iterator[tuple[int, tuple[int, int]]]:
    """Time buckets with ways of cutting the stream: all pairs in three turns; without buckets all ways at once."""
    for number, cut in enumerate(cuts):
        ways = CUTTING if len(cuts) == 1 else (CUTTING[(turn + number) % len(CUTTING)],)
        yield from ((cut, way) for way in ways)


class Worker:
    """One query over some rows, as a worker would see it."""

    def __init__(self, query: Query, rows: list[dict[str, Any]], ties: tuple[str, ...] = (), cut: int = -1) -> None:
        self.query = query
        self.rows = rows
        self.resolved, _ = rewrite(analyse(query, SCHEMA, Binding("t", ties)))
        self.cut = cut

    def aggregate(
        self, number: str, chunk_events: int = 2**20, batch: int = 2**20, strategy: Any = kernel
    ) -> dict[Any, dict[str, Any]]:
        """The answer by group and window; raises UnsupportedQuery where the strategy declines."""
        aggregates = tuple((item.output_name, item.aggregate) for item in self.resolved.query.returning)
        request = AggregateRequest(self.resolved, aggregates, number, compile_sides(self.resolved))
        plan = strategy(request)
        if isinstance(plan, Declined):
            raise UnsupportedQuery(plan.reason)
        part = plan.child if isinstance(plan, Merge) else plan
        if isinstance(part, PairCounts):
            return self._pair(part, chunk_events, batch)
        spec, found = self._side(part, chunk_events, batch)
        if isinstance(plan, Merge):
            found = self._merged(spec, found, batch)
        return self._answer(spec, found)

    def _side(self, plan: Operator, chunk_events: int, batch: int) -> tuple[KernelSpec, list[Any]]:
        assert isinstance(plan, (Propagate, PanesInPlace, Sweep, Messages)), plan
        spec = self._typed(plan.spec, plan.values)
        batches = self.batches(plan.source, plan.compiled, spec, plan.values, batch)
        streams = {
            Sweep: sweep_stream,
            Messages: message_stream,
            Propagate: aggregate_stream,
            PanesInPlace: in_place_stream,
        }
        stream = streams[type(plan)]
        return spec, rows_of(stream(spec, batches, chunk_events))

    def _merged(self, spec: KernelSpec, partial: list[Any], batch: int) -> list[Any]:
        keys = spec.answer.groups + (spec.query.windowing.kind == SLIDING)
        return rows_of(merge_stream(spec.with_answer(partial=False), sorted_batches(partial, keys, batch)))

    def _pair(self, plan: PairCounts, chunk_events: int, batch: int) -> dict[Any, dict[str, Any]]:
        sided, spec = [], None
        inner, sides = len(plan.source.groups), plan.child.children
        for number, side in enumerate(sides):
            spec_of_side, found = self._side(side, chunk_events, batch)
            spec = spec or spec_of_side.with_answer(outputs=plan.outputs)
            keys = inner + (spec.query.windowing.kind == SLIDING)
            sided += [(*row[:keys], pa.scalar(number, pa.int64()), *row[keys:]) for row in found]
        assert spec is not None
        keys = inner + (spec.query.windowing.kind == SLIDING)
        paired = rows_of(pair_stream(spec, sorted_batches(sided, keys + 1, batch)))
        groups = len(plan.groups)
        merged = [(*row[:groups], *row[inner:]) for row in paired]
        assert isinstance(sides[0], Propagate)
        types = self._typed(plan.spec, sides[0].values)
        spec = spec.with_answer(groups=groups, outputs=types.answer.outputs)
        return self._answer(spec, self._merged(spec, merged, batch))

    def _answer(self, spec: KernelSpec, found: list[Any]) -> dict[Any, dict[str, Any]]:
        answer: dict[Any, dict[str, Any]] = {}
        for row in found:
            values = [value.as_py() for value in row]
            group = tuple(reference._key(value) for value in values[: spec.answer.groups])
            window = None
            if spec.query.windowing.kind == SLIDING:
                window = tuple(values[spec.answer.groups].values())
            names = [output.name for output in spec.answer.outputs]
            assert (group, window) not in answer, ("two rows of one group and window", group, window)
            answer[group, window] = dict(zip(names, values[len(values) - len(names) :], strict=True))
        return answer

    def trends(self, chunk_events: int = 2**20, batch: int = 2**20, limit: int = -1) -> list[Any]:
        """(group, window, trend) of each trend."""
        request = TrendsRequest(self.resolved, ("id",), None, compile_sides(self.resolved))
        plan = list_trends(request)
        if not isinstance(plan, ListTrends):
            raise UnsupportedQuery("needs Spark")
        source = plan.source
        groups = tuple(range(len(source.groups)))
        spec = TrendsSpec(
            self._typed(plan.spec, (), event=True),
            groups,
            plan.compiled.names,
            ("id",),
            limit,
        )
        batches = self.batches(source, plan.compiled, spec.kernel, (), batch, event=True)
        found = []
        for row in rows_of(trend_stream(spec, batches, chunk_events)):
            values = [value.as_py() for value in row]
            window = tuple(values[len(groups)].values()) if source.windowing.kind == SLIDING else None
            trend = tuple((binding["event"]["id"], binding["variable"]) for binding in values[-1])
            found.append((tuple(reference._key(value) for value in values[: len(groups)]), window, trend))
        return found

    # ---------------------------------------------------------------------------- what Spark does before a kernel

    def _typed(self, spec: KernelSpec, values: tuple[Expr, ...], event: bool = False) -> KernelSpec:
        """The specification of rows with these values and, for trends, the event's ``id``."""
        spec = typed(spec, tuple(SPARK[str(type_of(expr, SCHEMA))] for expr in values))
        if event:
            columns = (*spec.layout.columns, "e0")
            spec = attrs.evolve(spec, layout=attrs.evolve(spec.layout, columns=columns, event=(InColumn("e0"),)))
        if self.cut < 0 or not spec.query.windowing.cut:
            return spec
        step = spec.query.windowing.slide if spec.query.windowing.kind == SLIDING else 1
        return spec.with_query(windowing=attrs.evolve(spec.query.windowing, cut=self.cut * step))

    def batches(
        self,
        source: Source,
        compiled: Any,
        spec: KernelSpec,
        values: tuple[Expr, ...],
        size: int,
        event: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """The sorted rows that a kernel reads."""
        rows = [dict(row, mask=self._mask(compiled, row)) for row in self.rows]
        rows = [row for row in rows if row["mask"]]
        keys, ties = source.keys, source.tie_break
        for row in rows:
            row["key"] = tuple(reference._key(row[name]) for name in keys)
            row["order"] = (row["t"], *(reference._rank(row[name]) for name in ties))
        rows.sort(key=lambda row: ([reference._rank(value) for value in row["key"]], row["order"]))
        for _, members in itertools.groupby(rows, key=lambda row: [reference._rank(value) for value in row["key"]]):
            before: list[Any] = []
            for position, row in enumerate(members):
                row["p"] = position
                row["lists"] = [self._list(column, before, row) for column in compiled.lists]
                before.append(row)
        if spec.query.windowing.cut:
            rows = [dict(row, bucket=s) for row in rows for s in self._buckets(row["t"], spec)]
            rows.sort(key=lambda row: ([reference._rank(value) for value in row["key"]], row["bucket"], row["order"]))
        columns = {f"k{n}": pa.array([row["key"][n] for row in rows], arrow_type(name)) for n, name in enumerate(keys)}
        if spec.query.windowing.cut:
            columns["s"] = pa.array([row["bucket"] for row in rows], pa.int64())
        columns["t"] = pa.array([row["t"] for row in rows], pa.int64())
        columns |= {f"b{n}": pa.array([row[name] for row in rows], arrow_type(name)) for n, name in enumerate(ties)}
        columns["m"] = pa.array([row["mask"] for row in rows], pa.int64())
        for n, code in enumerate(compiled.codes):
            kinds = {type_of(code.expr, SCHEMA), type_of(code.partner or code.expr, SCHEMA)}
            kind = pa.float64() if "double" in kinds else ARROW.get(str(min(map(str, kinds))), pa.decimal128(38, 10))
            columns[f"f{n}"] = column(rows, code.expr, kind)
        columns |= {f"v{n}": column(rows, expr, ARROW[str(type_of(expr, SCHEMA))]) for n, expr in enumerate(values)}
        if compiled.lists:
            columns["p"] = pa.array([row["p"] for row in rows], pa.int64())
            for n in range(len(compiled.lists)):
                columns[f"l{n}"] = pa.array([row["lists"][n] for row in rows], pa.list_(pa.int64()))
        if event:
            columns["e0"] = pa.array([row["id"] for row in rows], pa.int64())
        assert set(columns) == set(spec.layout.columns)
        table = pa.table({name: columns[name] for name in spec.layout.columns})
        return iter(table.to_batches(max_chunksize=size))

    def _mask(self, compiled: Any, row: dict[str, Any]) -> int:
        def holds(condition: Expr | None) -> bool:
            return condition is None or reference.evaluate(condition, lambda node: row[node.name]) is True

        return sum(1 << n for n, (_, condition) in enumerate(compiled.variables) if holds(condition))

    def _list(self, column: ListColumn, before: list[Any], row: dict[str, Any]) -> list[int]:
        def may_bind(event: dict[str, Any], variable: int) -> bool:
            return variable < 0 or bool(event["mask"] >> variable & 1)

        def holds(earlier: dict[str, Any]) -> bool:
            def look(node: Attribute) -> Any:
                return (row if node.role is Role.NEXT else earlier)[node.name]

            bound = may_bind(earlier, column.earlier) and may_bind(row, column.later)
            return bound and reference.evaluate(column.predicate, look) is True

        return [row["p"] - earlier["p"] for earlier in before if holds(earlier)]

    def _buckets(self, time: int, spec: KernelSpec) -> range:
        windowing = spec.query.windowing
        cut, length = windowing.cut, windowing.length
        if windowing.kind == SPAN:
            return range((time - length) // cut, (time + (length if spec.query.looks_back else 0)) // cut + 1)
        if windowing.slide >= length:
            return range(time // cut, time // cut + 1)
        return range((time - (length - 1)) // cut, time // cut + 1)


def arrow_type(name: str) -> pa.DataType:
    return ARROW[str(SCHEMA.type_of(name))]


def column(rows: list[dict[str, Any]], expr: Expr, kind: pa.DataType) -> pa.Array:
    values = [reference.evaluate(expr, lambda node, row=row: row[node.name]) for row in rows]
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        convert = float if pa.types.is_floating(kind) else Decimal
        values = [None if value is None else convert(value) for value in values]
    return pa.array(values, kind)


def rows_of(stream: Iterator[list[pa.Array]]) -> list[tuple[Any, ...]]:
    return [row for columns in stream for row in zip(*columns, strict=True)]


def sorted_batches(rows: list[tuple[Any, ...]], keys: int, size: int) -> Iterator[pa.RecordBatch]:
    """Rows of Arrow scalars, sorted by their first columns."""
    if not rows:
        return iter(())
    rows = sorted(rows, key=lambda row: [reference._rank(value.as_py()) for value in row[:keys]])
    columns = [pa.array([value.as_py() for value in values], values[0].type) for values in zip(*rows, strict=True)]
    return iter(pa.table(columns, names=[f"i{n}" for n in range(len(columns))]).to_batches(max_chunksize=size))


def by_case(query: Query) -> Query:
    return attrs.evolve(query, group_by=("case", *query.group_by))


# --------------------------------------------------------------------------------- generated queries and streams


def check(query: Query, rows: list[Any], ties: tuple[str, ...], number: str, cuts: tuple[int, ...], turn: int) -> bool:
    """Compares answers about each of several streams with the reference; whether there were any."""
    return compare(by_case(query), rows, ties, number, cuts, turn)


def compare(
    query: Query,
    rows: list[Any],
    ties: tuple[str, ...],
    number: str,
    cuts: tuple[int, ...],
    turn: int,
    strategy: Any = kernel,
) -> bool:
    """Compares answers with the reference under several ways of cutting the stream; whether there were any."""
    aggregates = {item.output_name: item.aggregate for item in query.returning}
    expected = None
    worker = Worker(query, rows, ties)
    for cut, (chunk_events, batch) in cuttings(turn, cuts):
        worker.cut = cut
        try:
            answer = worker.aggregate(number, chunk_events, batch, strategy=strategy)
        except UnsupportedQuery:
            return False
        if expected is None:
            expected = reference.aggregate(query, rows, aggregates, tie_break=ties)
        context = f"chunks of {chunk_events}, batches of {batch}, cut {cut}, {number}, {ties}\n{unparse(query)}"
        assert set(answer) == set(expected), f"{context}\ngroups differ: {set(answer) ^ set(expected)}"
        for key, values in expected.items():
            for name, value in values.items():
                got = answer[key][name]
                assert agrees(got, value, number, aggregates[name]), (context, key, name, got, value)
    return True


def check_trends(query: Query, rows: list[Any], ties: tuple[str, ...], cuts: tuple[int, ...], turn: int) -> bool:
    query = by_case(query)
    expected = None
    worker = Worker(query, rows, ties)
    for cut, (chunk_events, batch) in cuttings(turn, cuts):
        worker.cut = cut
        try:
            found = worker.trends(chunk_events, batch)
        except UnsupportedQuery:
            return False
        if expected is None:
            expected = Counter(
                (group, window, shown(trend))
                for (group, window, _), trends in reference.trends(query, rows, tie_break=ties).items()
                for trend in trends
            )
        assert Counter(found) == expected, (chunk_events, batch, cut, ties, unparse(query))
    return True


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_generated(first: int) -> None:
    compared = 0
    for seed in range(first, first + 50):
        case = generators.random_case(50_000 + seed, FEATURES)
        rows = generators.stack([case.rows, *(generators.random_stream(60_000 + 4 * seed + n) for n in range(4))])
        cuts = (-1, 1, 3) if case.query.window is not None else (-1,)
        # By turns of fours and threes, so that each number form meets each way of cutting.
        compared += check(case.query, rows, case.tie_break, NUMBERS[seed % 4], cuts, seed)
        compared += check_trends(case.query, rows, case.tie_break, cuts[:2], seed)
    assert compared > 80


# ------------------------------------------------------------------------------------------------- streams by hand


def rows_at(times: list[int], kinds: str = "", case: int = 0) -> list[dict[str, Any]]:
    """Events of one case; x counts them."""
    blank = {"s": 0, "y": 1.0, "k": "u", "g": 1, "name": "n"}
    kinds = kinds or "B" * len(times)
    return [
        {"id": n, "t": t, "type": kind, "x": n, "case": case, **blank}
        for n, (t, kind) in enumerate(zip(times, kinds, strict=True))
    ]


EDGES = [
    "PATTERN SEQ(NOT C, A, B+) WITHIN 4",
    "PATTERN SEQ(A, B+, NOT C) WITHIN 4",
    "PATTERN SEQ(NOT C, A, NOT C, B+, NOT C) WITHIN 3",
    "PATTERN SEQ(NOT SEQ(C, A), B+) WITHIN 4",
    "PATTERN SEQ(NOT C, B+) WITHIN 6 SLIDE 2",
    "PATTERN SEQ(B+, NOT C) WITHIN 3 SLIDE 5",
    "PATTERN SEQ(A, NOT C, B+)",
    "PATTERN B+ WHERE B.x < NEXT(B).x WITHIN 5 SLIDE 1",
    "PATTERN A+ AND B+ WITHIN 5 SLIDE 3",
]


@pytest.mark.parametrize("text", EDGES)
@pytest.mark.parametrize("ties", [(), ("x",)])
def test_any_cut_of_a_stream_gives_the_same(text: str, ties: tuple[str, ...]) -> None:
    query = cet.parse(text)._query()
    query = attrs.evolve(query, returning=cet.parse("RETURN COUNT(*), SUM(B.x) PATTERN B")._query().returning)
    # Ties lie on borders of batches and of time buckets; one key is a single event, the next one begins at once.
    rows = rows_at([0, 1, 1, 2, 4, 4, 4, 5, 8, 9, 13, 13], "CABBCABBABCB")
    rows += rows_at([13], "B", 1) + rows_at([-7, -6, -6, -3, 0, 0, 3], "ABCBABB", 2)
    rows = [{**row, "id": n} for n, row in enumerate(rows)]
    whole = by_case(query)
    aggregates = {item.output_name: item.aggregate for item in whole.returning}
    expected = reference.aggregate(whole, rows, aggregates, tie_break=ties)
    cuts = (-1, 1, 2, 5) if query.window is not None else (-1,)
    worker = Worker(whole, rows, ties)
    for cut, chunk_events, batch in itertools.product(cuts, (1, 2, 5), (1, 2, 3)):
        worker.cut = cut
        answer = worker.aggregate("decimal", chunk_events, batch)
        assert set(answer) == set(expected), (cut, chunk_events, batch)
        for key, values in expected.items():
            assert all(reference.same_value(answer[key][name], value) for name, value in values.items()), (cut, key)


def spec_and_batches(text: str, rows: list[dict[str, Any]], size: int) -> tuple[KernelSpec, Iterator[pa.RecordBatch]]:
    worker = Worker(cet.parse(text)._query(), rows)
    request = AggregateRequest(worker.resolved, (("n", COUNT),), "double", compile_sides(worker.resolved))
    plan = kernel(request)
    plan = plan.child if isinstance(plan, Merge) else plan
    assert isinstance(plan, Propagate)
    return plan.spec, worker.batches(plan.source, plan.compiled, plan.spec, (), size)


#: ANDs whose sides match no trend, some trends or all trends of each other.
ANDS = [
    "PATTERN A+ AND B+",
    "PATTERN SEQ(A, B+) AND SEQ(A+, B)",
    "PATTERN B+ AND B{2,} WITHIN 6 SLIDE 2",
    "PATTERN SEQ(A+, B) AND SEQ(A{1,}, B) WHERE [k]",
]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("text", ANDS)
def test_pairs_in_each_form_of_numbers(text: str, number: str) -> None:
    returning = "RETURN COUNT(*), COUNT(B), SUM(B.x), SUM(B.y), AVG(B.x), VARIANCE(B.y), MIN(B.x), AVG(LENGTH) "
    query = by_case(cet.parse(returning + text)._query())
    compared = [
        compare(query, generators.stacked(73_000 + 12 * seed, 12), (), number, (-1,), seed) for seed in range(3)
    ]
    assert all(compared)


def test_the_sides_of_an_and_are_counted_in_the_form_of_the_answer() -> None:
    """400 events: of 2^400 - 1 trends of one side, the other one matches all but 400."""
    query = cet.parse("RETURN COUNT(*) AS n PATTERN B+ AND B{2,}")._query()
    worker = Worker(query, rows_at(list(range(400))), ())
    left, both = 2**400 - 1, 2**400 - 1 - 400
    expected = left * both - both * (both + 1) // 2
    [rounded] = worker.aggregate("log2").values()
    assert rounded["n"] == pytest.approx(math.log2(expected), abs=1e-9)
    [exact] = worker.aggregate("string").values()
    assert int(exact["n"]) == expected
    assert not Worker(query, rows_at([1]), ()).aggregate("log2")
    aggregates, sides = (("n", COUNT),), compile_sides(worker.resolved)
    for number, is_exact in (("string", True), ("decimal", True), ("log2", False), ("double", False)):
        plan = kernel(AggregateRequest(worker.resolved, aggregates, number, sides))
        assert isinstance(plan, Merge)
        assert {one.spec.answer.exact for one in plan.walk() if isinstance(one, Propagate)} == {is_exact}


def test_rows_of_keys_that_go_on_have_a_start_each() -> None:
    """Workloads count rows by their starts: also where the last key of a chunk is held back."""
    stream = [row for case in range(3) for row in rows_at(list(range(9)), case=case)]
    spec, batches = spec_and_batches("PATTERN B+ GROUP BY case WITHIN 2", stream, 1)
    evaluator, rows = Evaluator(spec), RowsOfChunks(spec)
    found = []
    for chunk in ChunkReader(spec, batches, 16):
        values = evaluator.evaluate(chunk.events, chunk.values, chunk.slices, chunk.bounds)
        found += rows.found(chunk, chunk.slices, values)
    found += rows.last()
    assert sum(len(start) for *_, start in found) == 3
    assert all({len(table.scaled[0]), *map(len, groups)} == {len(start)} for table, groups, start in found)


def test_rows_out_of_order_are_an_error() -> None:
    spec, batches = spec_and_batches("PATTERN B+ GROUP BY case", rows_at([1, 2, 3, 4]), 1)
    first, second, third, fourth = batches
    mixed = [first, third, second, fourth]
    for chunk_events in (1, 2, 100):
        with pytest.raises(EngineError, match="did not arrive in order of time"):
            list(aggregate_stream(spec, iter(mixed), chunk_events))


def test_the_limit_of_trends_ends_the_reading() -> None:
    read = 0

    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        nonlocal read
        for batch in batches:
            read += batch.num_rows
            yield batch

    worker = Worker(cet.parse("PATTERN B+ GROUP BY case WITHIN 5 SLIDE 5")._query(), rows_at(list(range(1000))))
    plan = list_trends(TrendsRequest(worker.resolved, ("id",), None, compile_sides(worker.resolved)))
    kernel = worker._typed(plan.spec, (), event=True)
    spec = TrendsSpec(kernel, (0,), ("B",), ("id",), 40)
    batches = counted(worker.batches(plan.source, plan.compiled, kernel, (), 10, event=True))
    found = rows_of(trend_stream(spec, batches, 10))
    assert len(found) == 40
    assert read <= 50


# --------------------------------------------------------------------------------------------------------- memory


def endless(spec: KernelSpec, events: int, keys: int = 1, size: int = 1000) -> Iterator[pa.RecordBatch]:
    """So many events of each key, one per tick, made batch by batch."""
    for key in range(keys):
        for first in range(0, events, size):
            time = np.arange(first, min(first + size, events))
            columns = [pa.array(np.full(len(time), key))]
            if spec.query.windowing.cut:
                columns.append(pa.array(np.zeros(len(time), dtype=np.int64)))
            columns += [pa.array(time), pa.array(np.ones(len(time), dtype=np.int64))]
            yield pa.RecordBatch.from_arrays(columns, names=[f"i{n}" for n in range(len(columns))])


def without_buckets(spec: KernelSpec) -> KernelSpec:
    """The same for rows that are not told apart by time buckets."""
    layout = attrs.evolve(spec.layout, columns=[name for name in spec.layout.columns if name != BUCKET])
    return attrs.evolve(spec, layout=layout).with_query(windowing=attrs.evolve(spec.query.windowing, cut=0))


def test_few_bytes_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events of long texts are answered before they are as many as are worth a call of the kernel."""
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 4_000)
    spec, _ = spec_and_batches("PATTERN B+ GROUP BY case WITHIN 2", rows_at([1, 2]), 1)
    spec = without_buckets(spec)
    held = [chunk.table.nbytes for chunk in ChunkReader(spec, endless(spec, 500, 2, 10))]
    assert len(held) > 5
    assert max(held) <= 3 * 4_000


@pytest.mark.parametrize(
    ("text", "keys", "held"),
    [
        ("PATTERN B+ GROUP BY case WITHIN 50 SLIDE 50", 1, 50),
        ("PATTERN B+ GROUP BY case WITHIN 50 SLIDE 10", 1, 50),
        ("PATTERN B+ GROUP BY case WITHIN 50", 1, 51),
        ("PATTERN B+ GROUP BY case", 40, 500),
    ],
)
def test_few_events_are_kept(text: str, keys: int, held: int) -> None:
    spec, _ = spec_and_batches(text, rows_at([1, 2]), 1)
    spec = without_buckets(spec)
    chunk_events = 100
    events = 500 if keys > 1 else 20_000
    sizes = [chunk.table.num_rows for chunk in ChunkReader(spec, endless(spec, events, keys, 100), chunk_events)]
    assert sum(sizes) >= events * keys
    # A chunk is at most what is kept, twice over, and the rows of new batches.
    assert max(sizes) <= 2 * max(held, chunk_events) + 2 * 100 + held


def test_what_is_not_kept_is_let_go() -> None:
    spec, _ = spec_and_batches("PATTERN B+ GROUP BY case WITHIN 50 SLIDE 10", rows_at([1, 2]), 1)
    spec = without_buckets(spec)
    alive: list[Any] = []

    def watched() -> Iterator[pa.RecordBatch]:
        for batch in endless(spec, 20_000, 1, 100):
            mask = np.ones(batch.num_rows, dtype=np.int64)
            alive.append(weakref.ref(mask))
            yield pa.RecordBatch.from_arrays([*batch.columns[:-1], from_numpy(mask)], names=batch.schema.names)
            del mask

    for _ in ChunkReader(spec, watched(), 100):
        # The batches that hold the rows kept for the next chunk, and the one that is being read.
        assert sum(mask() is not None for mask in alive) <= 3


def test_a_worker_imports_no_pandas_and_no_spark_connect() -> None:
    script = """
import sys
import numpy as np
import pyarrow as pa
from cetdsl.kernels.wire.columns import from_numpy
from cetdsl.kernels.entry import run_stage
from cetdsl.aggregates.vocabulary import Total
from cetdsl.ir.accumulators import TRENDS, Output
from cetdsl.ir.kernel import Answer, KernelQuery, KernelSpec
from cetdsl.ir.layout import OfTime, OfVariable, RowLayout
from cetdsl.ir.machine import Comparison, Edge, Machine
from cetdsl.ir.stages import TrendsSpec
import attrs
import pickle

machine = Machine((0,), ((0, ()),), ((0, ()),), (Edge(0, 0, (Comparison(">", 0, 0),)),))
accumulators, outputs = (TRENDS,), (Output("count", Total(), (0,)),)
spec = KernelSpec(KernelQuery(machine), RowLayout.of(1, "t", "bigint", codes=1), Answer(1, accumulators, outputs))
key, time, mask = from_numpy(np.repeat([1, 2], 5)), from_numpy(np.tile(np.arange(5), 2)), from_numpy(np.ones(10, int))
price = from_numpy(np.arange(10) * 0.5, absent=np.arange(10) == 7)
batch = pa.RecordBatch.from_arrays([key, time, mask, price], names=["k0", "t", "m", "f0"])
answers = [str(answer.column(1)[0]) for answer in run_stage("aggregate", pickle.dumps(spec), iter([batch]))]
shown = attrs.evolve(spec, layout=attrs.evolve(spec.layout, event=(OfTime(), OfVariable(("A",)))))
trends = pickle.dumps(TrendsSpec(shown, (0,), ("A",), ("t", "type")))
answers += [str(sum(answer.num_rows for answer in run_stage("trends", trends, iter([batch]))))]
print(answers, sorted({"pandas", "grpc"} & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout == "['31', '47'] []\n", done.stderr


def test_one_large_window_is_not_read_again_and_again() -> None:
    spec, _ = spec_and_batches("PATTERN B+ GROUP BY case", rows_at([1, 2]), 1)
    sizes = [chunk.table.num_rows for chunk in ChunkReader(spec, endless(spec, 50_000, 1, 100), 100)]
    assert sum(sizes) <= 4 * 50_000
