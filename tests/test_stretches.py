"""Matrices that tasks make of what they read: the reference's answers, or word of the keys that have none by them."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import attrs
import generators
import pyarrow as pa
import pytest
import reference
import test_engines
from modes import more_on_classic
from test_engines import SIMPLE, agrees
from test_kernel_aggregate import CUTTING, NUMBERS, SCHEMA, Worker, by_case, rows_at, rows_of, sorted_batches
from test_panes import adds_up

import cetdsl as cet
import cetdsl.planning.strategies.panes
from cetdsl.analysis import Binding, analyse
from cetdsl.errors import UnsupportedQuery
from cetdsl.frontend.sase import parse
from cetdsl.ir.layout import BUCKET, SHARE
from cetdsl.ir.operators import BuildStretches, Merge, Propagate, ReadAgain, Scan
from cetdsl.ir.sorting import INPUT, AskedSort
from cetdsl.ir.windowing import WHOLE
from cetdsl.kernels.aggregate.stretches import stretch_stream, stretched_window_stream
from cetdsl.pattern.expressions import Aggregate
from cetdsl.pattern.query import Query, Returned, Window
from cetdsl.pattern.spans import Span
from cetdsl.pattern.text import unparse
from cetdsl.planning.planner import plan_aggregate
from cetdsl.planning.strategies.kernel import kernel
from cetdsl.planning.strategies.panes import stretches
from cetdsl.planning.strategies.request import AggregateRequest, Declined, compile_sides
from cetdsl.rewrite import rewrite

FEATURES = attrs.evolve(SIMPLE, partition=True, returned_strings=False)
#: No windows at all, and such that overlap, lie side by side, and lie apart; 0: none.
WINDOWS = ((0, 0), (6, 2), (5, 3), (4, 4), (3, 5), (7, 1))


class StretchesWorker(Worker):
    """A query by stretches, as workers see it: each event is read by one of several tasks, from one of two files."""

    def told(
        self, number: str, cut: Any, chunk_events: int = 2**20, batch: int = 2**20, memory: int = 0
    ) -> tuple[Any, Any, Any]:
        """The answers without those of keys whose stretches overlap, these keys, and those that must be.

        Events come to the kernel as Spark sorts them or, if it has some bytes of memory for that, as they are read: in
        order of time within a file.
        """
        aggregates = tuple((item.output_name, item.aggregate) for item in self.resolved.query.returning)
        request = AggregateRequest(self.resolved, aggregates, number, compile_sides(self.resolved))
        plan = stretches(request, Scan(None, request.compiled[0]))
        if isinstance(plan, Declined):
            raise UnsupportedQuery(plan.reason)
        (built,) = (operator for operator in plan.walk() if isinstance(operator, BuildStretches))
        spec = self._typed(plan.spec, built.values)
        batches = list(self.batches(plan.source, plan.compiled, spec, built.values, 2**20))
        if not batches:
            return {}, set(), set()
        events = pa.Table.from_batches(batches)
        events = self._with_parts(spec, events, cut)
        added = [name for name in (SHARE, BUCKET) if name in events.column_names]
        spec = attrs.evolve(spec, layout=attrs.evolve(spec.layout, columns=(*spec.layout.columns, *added)))
        keys = [f"k{n}" for n in range(spec.layout.keys)]
        rows: list[Any] = []
        for task in sorted(set(events.column("task").to_pylist())):
            read = events.filter(pa.compute.equal(events.column("task"), task))
            # Events of a key are in order; those of its other file go behind.
            numbers = {key: n for n, key in enumerate(dict.fromkeys(_keys(read, keys)))}
            files, times = read.column(SHARE).to_pylist(), read.column("t").to_pylist()
            ranks = times if memory else [numbers[key] for key in _keys(read, keys)]
            places = list(zip(files, ranks, strict=True)) if memory else list(zip(ranks, files, strict=True))
            order = sorted(range(len(places)), key=places.__getitem__)
            in_task = read.take(order).select(list(spec.layout.columns)).to_batches(max_chunksize=batch)
            asked = attrs.evolve(spec, layout=attrs.evolve(spec.layout, sort_memory=memory))
            rows += rows_of(stretch_stream(asked, iter(in_task), chunk_events))
        sorted_rows = sorted_batches(rows, spec.layout.keys + 2, batch)
        found = rows_of(stretched_window_stream(spec, sorted_rows, chunk_events))
        mixed = {_key(row[1 : 1 + len(keys)]) for row in found if row[0].as_py()}
        kept = [row for row in found if not row[0].as_py() and _key(row[1 : 1 + len(keys)]) not in mixed]
        answers = [row[1 + len(keys) :] for row in kept]
        merged = self._merged(spec, answers, batch) if isinstance(plan, Merge) else answers
        return self._answer(spec, merged), mixed, self._overlapping(spec, events, keys)

    def _with_parts(self, spec: Any, events: pa.Table, cut: Any) -> pa.Table:
        windowing = spec.query.windowing
        times = events.column("t").to_pylist()
        places = [cut(number, time) for number, time in enumerate(times)]
        events = events.append_column("task", pa.array([task for task, _ in places], pa.int64()))
        events = events.append_column(SHARE, pa.array([file for _, file in places], pa.int32()))
        if windowing.kind == WHOLE:
            return events
        slide, rest = windowing.slide, windowing.length % windowing.slide
        pane = [t // slide if rest == 0 else 2 * (t // slide) + (t % slide >= rest) for t in times]
        return events.append_column(BUCKET, pa.array(pane, pa.int64()))

    @staticmethod
    def _overlapping(spec: Any, events: pa.Table, keys: list[str]) -> set[Any]:
        """The keys of which two parts have events of one pane, and not all of one before all of the other."""
        panes = events.column(BUCKET).to_pylist() if BUCKET in events.column_names else [0] * events.num_rows
        times: dict[Any, dict[Any, list[int]]] = {}
        columns = (panes, events.column("task").to_pylist(), events.column(SHARE).to_pylist(), events.column("t"))
        for key, pane, task, file, time in zip(_keys(events, keys), *columns, strict=True):
            times.setdefault((key, pane), {}).setdefault((task, file), []).append(time.as_py())
        found = set()
        for (key, _), parts in times.items():
            ranges = sorted((min(part), max(part)) for part in parts.values())
            if any(later[0] <= earlier[1] for earlier, later in pairwise(ranges)):
                found.add(key)
        return found


def _key(values: Any) -> tuple[Any, ...]:
    return tuple(reference._key(value.as_py()) for value in values)


def _keys(events: pa.Table, names: list[str]) -> list[tuple[Any, ...]]:
    columns = [events.column(name) for name in names]
    return [_key(values) for values in zip(*columns, strict=True)] if columns else [()] * events.num_rows


def suited(query: Query, seed: int) -> Query:
    """The query with some windows or none, and without aggregates that do not add up."""
    returning = [item for item in query.returning if adds_up(item.aggregate, NUMBERS[seed % 4])]
    length, slide = WINDOWS[seed % len(WINDOWS)]
    window = Window(Span(length, "tick"), Span(slide, "tick")) if length else None
    return attrs.evolve(query, returning=(*returning, Returned(Aggregate("count"), "trends")), window=window)


@pytest.mark.parametrize("how", ["by time", "by chance", "by file"])
def test_generated(how: str) -> None:
    """Events go to three tasks by their time, so that stretches answer all keys; or by chance."""
    compared = overlapping = 0
    for seed in range(90):
        case = generators.random_case(680_000 + seed, FEATURES)
        rows = generators.stack([case.rows, *(generators.random_stream(690_000 + 4 * seed + n) for n in range(4))])
        query, number, chance = by_case(suited(case.query, seed)), NUMBERS[seed % 4], random.Random(seed)
        aggregates = {item.output_name: item.aggregate for item in query.returning}
        cuts = sorted(chance.choices([row["t"] for row in rows], k=2))
        places = [(chance.randrange(3), chance.randrange(2)) for _ in rows]

        def cut(at: int, time: int, cuts: Any = cuts, places: Any = places) -> tuple[int, int]:
            by_time = sum(time >= border for border in cuts)
            return {"by time": (by_time, 0), "by file": (by_time // 2, by_time), "by chance": places[at]}[how]

        expected = None
        for turn, (chunk_events, batch) in enumerate(CUTTING):
            memory = ((0, 1, 300), (2**30, 0, 1))[seed % 2][turn]
            try:
                answers, mixed, must = StretchesWorker(query, rows, case.tie_break).told(
                    number, cut, chunk_events, batch, memory
                )
            except UnsupportedQuery:
                break
            if expected is None:
                expected = reference.aggregate(query, rows, aggregates, tie_break=case.tie_break)
                compared, overlapping = compared + 1, overlapping + bool(mixed)
            # Small chunks cut stretches, some of which no longer overlap.
            assert mixed == must if chunk_events > len(rows) else mixed <= must, unparse(query)
            if query.partition_by and mixed:
                continue  # a group without some of its partitions
            left = {place: values for place, values in expected.items() if place[0] not in mixed}
            assert {place for place in answers if place[0] not in mixed} == set(left), (unparse(query), cuts)
            for place, values in left.items():
                for name, value in values.items():
                    got = answers[place][name]
                    assert agrees(got, value, number, aggregates[name]), (unparse(query), place, name, got, value)
    assert compared > 60
    assert (overlapping > 40) if how == "by chance" else overlapping == 0


@pytest.mark.parametrize("number", ["string", "log2", "decimal"])
@pytest.mark.parametrize("chunk", [2**20, 7])
def test_counts_of_any_size(number: str, chunk: int) -> None:
    """2**100 - 1 trends, whose parts fit a double, and 2**3000 - 1, whose parts do not."""
    for count in (100, 3_000) if number != "decimal" else (100,):
        worker = StretchesWorker(parse("RETURN COUNT(*) AS n PATTERN B+"), rows_at(list(range(count))))
        answers, mixed, _ = worker.told(number, lambda at, _, per=count // 3: (at // per, 0), chunk, 50)
        assert not mixed
        expected = 2**count - 1
        assert {float(row["n"]) if number == "log2" else int(row["n"]) for row in answers.values()} == {
            float(count) if number == "log2" else expected
        }


def plan_of(text: str, sort: str) -> Any:
    resolved, _ = rewrite(analyse(parse(text), SCHEMA, Binding("t", sort=AskedSort(sort))))
    return plan_aggregate(resolved, (("n", Aggregate("count")),), "log2")


def test_when_tasks_multiply_what_they_read() -> None:
    lone, keyed = "PATTERN SEQ(A, B+)", "PATTERN SEQ(A, B+) GROUP BY k"
    for text, sort in ((lone, "auto"), (lone, "kernel"), (keyed, "auto")):
        assert not any(isinstance(operator, ReadAgain) for operator in plan_of(text, sort).plan.walk())
    assert isinstance(plan_of(lone, INPUT).plan, ReadAgain)
    asked = plan_of(keyed, INPUT)
    assert asked.strategy == "panes"
    assert isinstance(asked.plan, ReadAgain)
    assert isinstance(asked.plan.instead, Propagate)
    rising = plan_of("PATTERN B+ WHERE NEXT(B).x > B.x GROUP BY k", INPUT)
    assert rising.strategy == "kernel"
    assert rising.unused == "sort='input': adjacent, pairwise or aggregate predicates compare events with each other"
    assert asked.unused is None
    asked = Binding("t", sort=AskedSort(INPUT))
    largest, _ = rewrite(analyse(parse("RETURN MAX(B.x) PATTERN B+ GROUP BY k"), SCHEMA, asked))
    decision = plan_aggregate(largest, (("n", largest.query.returning[0].aggregate),), "log2")
    assert decision.unused == "sort='input': tasks do not share the ranks of extremes: MAX"


# --------------------------------------------------------------------------------------------------------- on Spark


QUERIES = {
    "no windows": "RETURN COUNT(*) AS n, SUM(B.x) AS total, AVG(B.x) AS mean PATTERN SEQ(A, B+) GROUP BY key",
    "partitions": "RETURN COUNT(*) AS n, SUM(B.x) AS total PATTERN SEQ(A, B+) WHERE [part] GROUP BY key",
    "tumbling": "RETURN COUNT(*) AS n PATTERN SEQ(A, B+) GROUP BY key WITHIN 50 minutes SLIDE 50 minutes",
    "overlapping": "RETURN COUNT(*) AS n PATTERN SEQ(A, B+) WHERE [part] GROUP BY key "
    "WITHIN 50 minutes SLIDE 7 minutes",
    "one group": "RETURN COUNT(*) AS n, SUM(B.x) AS total PATTERN SEQ(A, B+)",
}


@pytest.fixture(scope="module")
def events(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Events of some keys, one a minute, in files of 100 minutes each; keys of NULL, NaN and both zeros."""
    folder = tmp_path_factory.mktemp("events")
    for day in (3, 0, 2, 1):
        rows = spark.range(100 * day, 100 * day + 100, 1, 1).selectExpr(
            "timestamp_seconds(id * 60) as time",
            "if(pmod(hash(id), 4) = 0, 'A', 'B') as type",
            "case id % 4 when 0 then double('NaN') when 1 then if(id % 8 = 1, -0.0, 0.0) when 2 then 1.5 end as key",
            "id % 3 as part",
            "id % 7 as x",
        )
        rows.write.parquet(str(folder / f"day={day}"))
    return spark.read.parquet(str(folder))


def answer(df: Any, query: str, **asked: Any) -> Any:
    bound = cet.pattern(df, query, time="time", **asked)
    rows = bound.aggregate(number="string").collect()
    return sorted(tuple(map(str, row)) for row in rows), bound.explain("physical", number="string").text


@pytest.mark.simple_plans
@pytest.mark.parametrize("name", more_on_classic("partitions", "no windows", "tumbling", "overlapping", "one group"))
def test_on_spark(events: Any, name: str) -> None:
    """Files in order, in whatever order tasks read them; events of tasks by chance; and of unknown files."""
    expected, _ = answer(events, QUERIES[name], sort="kernel")
    assert len(expected) >= (1 if name == "one group" else 4)
    for df in (events, events.repartition(3, "x"), events.union(events.limit(0))):
        found, told = answer(df, QUERIES[name], sort="input")
        assert found == expected
        assert "before anything is sent" in told
        assert "read the events of keys whose stretches overlap in time once more" in told


@pytest.mark.classic
@pytest.mark.parametrize("name", list(QUERIES))
def test_events_in_order_are_read_once(spark: Any, name: str) -> None:
    """Each of four tasks reads a range of time; one event of one key out of its place has that key read again."""
    read = spark.sparkContext.accumulator(0)

    def counted(batches: Any) -> Any:
        for batch in batches:
            read.add(batch.num_rows)
            yield batch

    def events(out_of_place: bool) -> Any:
        number = "if(id = 30, 333, id)" if out_of_place else "id"
        df = spark.range(0, 400, 1, 4).selectExpr(
            f"timestamp_seconds(({number}) * 60) as time", "if(id % 5 = 0, 'A', 'B') as type", "id % 4 as key",
            "id % 4 as part", "id as x",
        )  # fmt: skip
        return df.mapInArrow(counted, df.schema)

    # Ranges of time, of the only group, take a sample first.
    for out_of_place, most in ((False, 400), (True, 1_200 if name == "one group" else 800)):
        df = events(out_of_place)
        expected, _ = answer(df, QUERIES[name], sort="kernel")
        read.value = 0
        assert answer(df, QUERIES[name], sort="input")[0] == expected
        assert read.value == most


@pytest.fixture(scope="module")
def judge(spark: Any) -> test_engines.Judge:
    return test_engines.judge_of(spark, generators.stacked(4_000, test_engines.STREAMS))


@pytest.mark.classic
@pytest.mark.simple_plans
@pytest.mark.parametrize("seed", range(6))
def test_generated_on_spark(judge: test_engines.Judge, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks that read all groups by turns, and groups of few events that one task reads."""

    def by_stretches(request: AggregateRequest) -> Any:
        return stretches(request, kernel(request))

    monkeypatch.setattr(test_engines, "STRATEGIES", {"stretches": by_stretches})
    case = generators.random_case(670_000 + seed, FEATURES)
    query = suited(case.query, seed)
    assert judge.judge(query, case.tie_break, NUMBERS[seed % 4]) == {"stretches"}


def test_bad_times(spark: Any) -> None:
    df = spark.createDataFrame([(None, "A"), (1, "A"), (2, "B"), (None, "B")], "t int, type string").coalesce(1)
    query = "RETURN COUNT(*) AS n PATTERN SEQ(A, B+)"
    with pytest.raises(Exception, match=r"NullTime: the time column 't' is NULL in 2 rows or more"):
        cet.pattern(df, query, time="t", sort="input").aggregate().collect()
    skipping = cet.pattern(df, query, time="t", on_null_time="skip", sort="input").aggregate()
    assert [row.n for row in skipping.collect()] == [1]


def test_of_no_events(spark: Any) -> None:
    df = spark.createDataFrame([], "t int, type string, key string")
    for query in ("RETURN COUNT(*) AS n PATTERN SEQ(A, B+)", "RETURN COUNT(*) AS n PATTERN SEQ(A, B+) GROUP BY key"):
        assert cet.pattern(df, query, time="t", sort="input").aggregate().collect() == []


def test_a_condition_that_is_a_column(spark: Any) -> None:
    """It refers to the DataFrame itself, which cannot be read once more without it."""
    df = spark.createDataFrame([(1, "A", 1), (2, "B", 5)], "t int, type string, x int")
    bound = cet.pattern(df, cet.seq(cet.event("A"), cet.kleene(cet.event("B", df.x > 2))), time="t", sort="input")
    assert [row[0] for row in bound.count_trends().collect()] == [1]
    assert "a condition is a column of this DataFrame" in bound.explain("physical").text
