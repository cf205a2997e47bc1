"""The answer of a stream is that of a batch over the events that were not late, window by window, once each.

Each micro-batch is a file. Many small streams are the keys of one stream, and many queries are asked in one run of it.
A last event, far behind all others and bound by no variable, closes all windows.
"""

from __future__ import annotations

import datetime
import itertools
import json
import os
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any

import attrs
import generators
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import reference
from killed_driver import PROVIDER, STORES
from modes import OWN_FILES, more_on_classic, settings
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.utils import is_remote
from test_engines import by_case, shown
from test_panes import FEATURES as PANED
from test_panes import suited

import cetdsl as cet
from cetdsl import errors
from cetdsl.execution import keeper, states
from cetdsl.execution.compat import parallelism
from cetdsl.ir import operators
from cetdsl.ir.keeping import SHARES_MOST
from cetdsl.ir.operators import Operator
from cetdsl.pattern.nodes import And, events
from cetdsl.pattern.query import Query, Window
from cetdsl.pattern.spans import Span
from cetdsl.pattern.text import unparse

pytestmark = pytest.mark.simple_plans
#: Watermarks start at the epoch, so that events near it would never be late.
BEGIN = datetime.datetime(2020, 1, 1)
SECOND = datetime.timedelta(seconds=1)
#: So many streams are judged by each query; more of them where each query is to tell more, as they are keys of one job.
STREAMS, SOME_STREAMS, MORE_STREAMS = 60, 70, 130
#: How long, in seconds, a stream waits for late events.
DELAY = 4
SCHEMA = generators.STACKED.replace("t bigint", "t timestamp")
_ARROW = pa.schema(
    {
        "id": pa.int64(),
        "t": pa.timestamp("us", "UTC"),
        "s": pa.int32(),
        "type": pa.string(),
        "x": pa.int32(),
        "y": pa.float64(),
        "k": pa.string(),
        "g": pa.int32(),
        "name": pa.string(),
        "case": pa.int32(),
    }
)
Row = dict[str, Any]
#: Which query, its groups as texts, the start of the window, and the answer as texts.
Answer = tuple[int, tuple[str | None, ...], datetime.datetime | None, tuple[str | None, ...]]
_COMMON = "q int, groups array<string>, start timestamp, told array<string>"


class Live:
    """A stream of micro-batches, and what a run of it gives."""

    def __init__(self, spark: Any, folder: Path, batches: Sequence[Sequence[Row]], schema: str = SCHEMA) -> None:
        self.spark, self.folder, self.schema = spark, folder, schema
        self.batches = [*batches, [{"id": -1, "t": BEGIN + datetime.timedelta(days=30), "case": -1}]]
        self.written = 0
        (folder / "events").mkdir(parents=True)

    def arrive(self, until: int | None = None) -> None:
        """Writes the files of the micro-batches up to one."""
        for number, rows in list(enumerate(self.batches))[self.written : until]:
            path = self.folder / "events" / f"{number:03}.parquet"
            whole = [{name: row.get(name) for name in _ARROW.names} for row in rows]
            pq.write_table(pa.Table.from_pylist(whole, schema=_ARROW), path)
            os.utime(path, (1_600_000_000 + number,) * 2)  # Spark reads the oldest file first
            self.written = number + 1

    @property
    def events(self) -> DataFrame:
        """The stream, with a watermark."""
        reader = self.spark.readStream.schema(self.schema).option("maxFilesPerTrigger", 1)
        files: DataFrame = reader.parquet(str(self.folder / "events"))
        return files.withWatermark("t", f"{DELAY} seconds")

    def run(self, answer: DataFrame, name: str = "answer") -> list[Any]:
        """Runs a stream over the files that are there and new to it; gives all that it has given so far."""
        out = str(self.folder / name)
        writer = answer.writeStream.format("parquet").option("checkpointLocation", f"{out} checkpoint")
        query = writer.outputMode("append").trigger(availableNow=True).start(out)
        query.awaitTermination()
        return self.spark.read.schema(answer.schema).parquet(out).select("*", "_metadata.file_name").collect()

    def micro_batch(self, name: str = "answer") -> dict[str, int]:
        """The number of the micro-batch that gave each file of the answer."""
        found = {}
        for path in (self.folder / name / "_spark_metadata").iterdir():
            if not path.name.startswith("."):
                for line in path.read_text().splitlines()[1:]:
                    found[Path(json.loads(line)["path"]).name] = int(path.name.removesuffix(".compact"))
        return found

    @property
    def watermarks(self) -> list[datetime.datetime]:
        """The watermark of each micro-batch, and of the one without events that comes last."""
        found, latest = [datetime.datetime(1970, 1, 1)], datetime.datetime(1970, 1, 1)
        for rows in self.batches:
            latest = max([latest, *(row["t"] - DELAY * SECOND for row in rows if row["t"] is not None)])
            found.append(latest)
        return found

    def in_time_for(self, end: Callable[[datetime.datetime], datetime.datetime]) -> list[Row]:
        """The events that came before the end of what holds them: in the micro-batch whose watermark passes it."""
        watermarks = [datetime.datetime.min, *self.watermarks]
        return [
            row
            for number, rows in enumerate(self.batches)
            for row in rows
            if row["t"] is None or watermarks[number] < end(row["t"])
        ]


def in_seconds(query: Query) -> Query:
    """A generated query, whose window is one of ticks, with seconds for ticks."""
    window = query.window
    if window is None:
        return query

    def seconds(span: Span | None) -> Span | None:
        return None if span is None else Span(span.amount * 1_000_000, "microsecond")

    length = seconds(window.length)
    assert length is not None
    return attrs.evolve(query, window=Window(length, seconds(window.slide)))


#: How a stream is cut into micro-batches: into three, anywhere with an empty one, not at all, or so that each has one
#: event of each stream.
IN_THREE, DRAWN, WHOLE, ONE_OF_EACH = CUTS = "in three", "drawn", "whole", "one of each"


def stream_of_streams(
    first: int, count: int, disorder: int, choose: random.Random, cuts: str = IN_THREE
) -> list[list[Row]]:
    """Many streams as one, in micro-batches; an event comes after others that are up to so many seconds later."""
    rows = [{**row, "t": BEGIN + row["t"] * SECOND} for row in generators.stacked(first, count)]
    rows.sort(key=lambda row: row["t"] + choose.uniform(0, disorder) * SECOND)
    if cuts == ONE_OF_EACH:
        nth: dict[int, list[Row]] = {}
        known: Counter[int] = Counter()
        for row in rows:
            nth.setdefault(known[row["case"]], []).append(row)
            known[row["case"]] += 1
        return list(nth.values())
    at = choose.sample(range(1, len(rows)), {WHOLE: 0, IN_THREE: 2, DRAWN: 3}[cuts])
    if cuts == DRAWN:
        at.append(choose.choice(at))
    return [rows[low:high] for low, high in itertools.pairwise([0, *sorted(at), len(rows)])]


# What is asked --------------------------------------------------------------------------------------------------------


def common(number: int, answer: DataFrame, query: Query, told: Iterable[Any]) -> DataFrame:
    """An answer of any query as rows of one schema."""
    groups = F.array(*(F.col(name).cast("string") for name in query.group_by))
    start = F.col("window.start") if "window" in answer.columns else F.lit(None).cast("timestamp")
    columns = F.lit(number).alias("q"), groups.alias("groups"), start.alias("start"), F.array(*told).alias("told")
    return answer.select(*columns)


def aggregates_of(number: int, query: Query, ties: tuple[str, ...], df: DataFrame) -> DataFrame:
    answer = cet.pattern(df, query, time="t", tie_break=ties).aggregate(number="string")
    return common(number, answer, query, (F.col(item.output_name).cast("string") for item in query.returning))


def trends_of(number: int, query: Query, ties: tuple[str, ...], df: DataFrame) -> DataFrame:
    answer = cet.pattern(df, query, time="t", tie_break=ties).trends(columns=["id"])
    return common(number, answer, query, [_written(F.col("trend"))])


def adapting_trends_of(number: int, query: Query, ties: tuple[str, ...], df: DataFrame) -> DataFrame:
    """Trends by plans that are made anew after every few events of a key; the query is refused if it has no plan."""
    bound = cet.pattern(df, query, time="t", tie_break=ties)
    options = {"adaptation": {"method": "unconditional", "slice": 2}}
    if not re.search(r"adaptation +unconditional", str(bound.explain("trends", **options))):
        raise errors.UnsupportedQuery("its plan stays")
    return common(number, bound.trends(columns=["id"], **options), query, [_written(F.col("trend"))])


def complete_trends_of(number: int, query: Query, ties: tuple[str, ...], df: DataFrame) -> DataFrame:
    answer = cet.pattern(df, query, time="t", tie_break=ties).complete_trends(columns=["id"])
    return common(number, answer, query, [_written(F.col("trend"))])


def complete_counts_of(number: int, query: Query, ties: tuple[str, ...], df: DataFrame) -> DataFrame:
    answer = cet.pattern(df, query, time="t", tie_break=ties).count_complete_trends()
    return common(number, answer, query, [F.col("count").cast("string")])


def _written(trend: Any) -> Any:
    each = F.transform(trend, lambda b: F.concat_ws(":", b.event.id.cast("string"), b.variable))
    return F.array_join(F.array_sort(each), " ")


def _texts(trend: Any) -> str:
    return " ".join(sorted(f"{event}:{variable}" for event, variable in shown(trend)))


# What is expected -----------------------------------------------------------------------------------------------------


def expected_rows(asked: Callable[..., Any], query: Query, ties: tuple[str, ...], rows: list[Row]) -> list[Any]:
    """The rows of an answer by the reference, as groups, start of the window, and values."""
    told = reference.trends if asked in (aggregates_of, trends_of) else reference.complete_trends
    answer = told(query, rows, tie_break=ties)
    if asked in (aggregates_of, complete_counts_of) and query.window is not None and query.window.slide is None:
        answer = reference.by_first_event(query, rows, answer)
    if asked is aggregates_of:
        wanted = {item.output_name: item.aggregate for item in query.returning}
        found = reference.aggregate_found(answer, rows, wanted)
        return [(group, window and window[0], tuple(values.values())) for (group, window), values in found.items()]
    counts: Counter[Any] = Counter()
    listed = []
    for (group, window, _), trends in answer.items():
        counts[group, window and window[0]] += len(trends)
        # The reference numbers the rows that it is given.
        named = (frozenset(map(_with_ids(rows), t)) if isinstance(t, frozenset) else _with_ids(rows)(t) for t in trends)
        listed += [(group, window and window[0], (_texts(trend),)) for trend in named]
    if asked is complete_counts_of:
        return [(group, start, (number,)) for (group, start), number in counts.items()]
    return listed


def _with_ids(rows: list[Row]) -> Callable[[Any], Any]:
    return lambda trend: tuple((rows[index]["id"], variable) for index, variable in trend)


def compare(got: list[Any], expected: list[Any], context: str) -> None:
    """Compares rows as they were read with those of the reference."""
    texts = [(_as_texts(group), start, values) for group, start, values in expected]
    found = sorted(((tuple(row.groups), row.start, tuple(row.told)) for row in got), key=str)
    assert Counter(row[:2] for row in found) == Counter(row[:2] for row in texts), context
    exact = [row for row in texts if all(isinstance(value, str) for value in row[2])]
    if len(exact) == len(texts):
        assert Counter(found) == Counter(texts), context
        return
    wanted = {row[:2]: row[2] for row in texts}
    for *place, told in found:
        for text, value in zip(told, wanted[tuple(place)], strict=True):
            assert _agrees(text, value), (context, place, text, value)


def _agrees(text: str | None, value: Any) -> bool:
    if text is None or value is None or isinstance(value, str):
        return text == value
    return reference.same_value(float(text) if isinstance(value, float) or "E" in text else Decimal(text), value)


def _as_texts(group: tuple[Any, ...]) -> tuple[str | None, ...]:
    return tuple(None if value is None else str(value) for value in group)


# Properties -----------------------------------------------------------------------------------------------------------

ASKED = (aggregates_of, trends_of, complete_trends_of, complete_counts_of)
FEATURES = generators.Features(returned_strings=True)


def asked_of(
    live: Live,
    first: int,
    wanted: int,
    features: generators.Features = FEATURES,
    kinds: Sequence[Callable[..., DataFrame]] = ASKED,
) -> list[Any]:
    """So many generated queries that a stream takes: what is asked, the query, how ties are broken, the answer.

    All ``kinds`` of answers are asked for by turns, of patterns of several events; most queries have predicates.
    """
    found: list[Any] = []
    refused: Counter[str] = Counter()
    for seed in range(first, first + 100 * wanted):
        case = generators.random_case(seed, features)
        query = in_seconds(by_case(case.query))
        asked = kinds[len(found) % len(kinds)]
        if asked in (complete_trends_of, complete_counts_of) and isinstance(query.pattern, And):
            continue
        if query.window is None or len(list(events(query.pattern))) < 2 or not (query.where or seed % 4 == 0):
            continue
        try:
            answer = asked(len(found), query, case.tie_break, live.events)
        except (errors.UnsupportedQuery, errors.NoPhysicalPlan) as error:
            refused[str(error)] += 1
            continue
        found.append((asked, query, case.tie_break, answer))
        if len(found) == wanted:
            return found
    raise AssertionError(f"most queries are refused: {refused.most_common(5)}")


def run_all(live: Live, found: list[Any]) -> dict[int, list[Any]]:
    """Runs all that is asked as one stream; gives the rows of each query."""
    live.arrive()
    rows: dict[int, list[Any]] = {number: [] for number in range(len(found))}
    for row in live.run(reduce(DataFrame.union, (answer for *_, answer in found))):
        rows[row.q].append(row)
    return rows


@pytest.fixture(autouse=True)
def _few_tasks(spark: Any) -> Iterator[None]:
    """Each task of a stateful operator commits its state in each micro-batch, which takes most of the time here."""
    with settings(spark, {"spark.sql.shuffle.partitions": "1", **OWN_FILES}):
        yield


#: How a stream keeps its events, with the settings that it takes.
KEPT = {
    "windows": {"cetdsl.state": "windows"},
    "events": {"cetdsl.state": "events", PROVIDER: STORES["RocksDB"]},
}
#: How many queries are asked, where all streams are in time, and where some events are late: each takes as long as 60
#: streams more, as Spark starts tasks for it in each micro-batch.
QUERIES, LATE_QUERIES = 8, 4


@pytest.fixture(params=more_on_classic("events", "windows"))
def kept(spark: Any, request: pytest.FixtureRequest) -> Iterator[str]:
    with settings(spark, KEPT[request.param]):
        yield request.param


def test_a_stream_is_answered_as_a_batch(spark: Any, tmp_path: Path, kept: str) -> None:
    cuts = DRAWN if kept == "events" else WHOLE
    live = Live(spark, tmp_path, stream_of_streams(0, SOME_STREAMS, DELAY, random.Random(0), cuts))
    # On Connect, where plans are the same, one query of each kind.
    found = asked_of(live, 0, len(ASKED) if is_remote() else QUERIES)
    got = run_all(live, found)
    rows = [row for batch in live.batches[:-1] for row in batch]
    for number, (asked, query, ties, _) in enumerate(found):
        expected = expected_rows(asked, query, ties, rows)
        compare(got[number], expected, f"{asked.__name__}, ties={ties}\n{unparse(query)}")


@pytest.mark.classic
def test_late_events_are_those_of_closed_windows_and_each_window_comes_once(
    spark: Any, tmp_path: Path, kept: str
) -> None:
    cuts = DRAWN if kept == "events" else ONE_OF_EACH
    live = Live(spark, tmp_path, stream_of_streams(50, STREAMS, 4 * DELAY, random.Random(7), cuts))
    found = asked_of(live, 500, LATE_QUERIES, FEATURES.without("span"))
    got = run_all(live, found)
    assert sum(
        answered_as_windows_close(live, got[number], asked, query, ties)
        for number, (asked, query, ties, _) in enumerate(found)
    )


def answered_as_windows_close(
    live: Live, got: list[Any], asked: Callable[..., Any], query: Query, ties: tuple[str, ...] = ()
) -> int:
    """Compares an answer, window by window, with that over the events that came in time, and when each part came.

    Gives how many events were late, once for each window.
    """
    assert query.window is not None
    assert query.window.slide is not None
    batch_of, watermarks = live.micro_batch(), live.watermarks
    rows = [row for batch in live.batches[:-1] for row in batch]
    closes = max(query.window.length.amount, query.window.slide.amount) * SECOND / 1_000_000
    expected, late = [], 0
    for start in {window[0] for row in rows for window in reference._windows(query, row["t"]) if window}:
        end = start + closes
        known = [row for row in live.in_time_for(lambda time, end=end: end) if row["case"] >= 0]
        late += len(rows) - len(known)
        expected += [row for row in expected_rows(asked, query, ties, known) if row[1] == start]
    compare(got, expected, f"{asked.__name__}, ties={ties}\n{unparse(query)}")
    for row in got:
        passed = next(n for n, watermark in enumerate(watermarks) if watermark >= row.start + closes)
        assert batch_of[row.file_name] == passed, unparse(query)
    return late


@pytest.mark.classic
def test_each_window_of_a_workload_is_answered_when_it_closes(spark: Any, tmp_path: Path) -> None:
    """Whatever windows other queries have; a trend that lies in several windows, of which some are closed, as well."""
    live = Live(spark, tmp_path, stream_of_streams(50, STREAMS, 4 * DELAY, random.Random(7)))
    counted = {
        "0": "RETURN COUNT(*) AS n PATTERN SEQ(A, B+) GROUP BY case WITHIN 4 seconds SLIDE 2 seconds",
        "1": "RETURN COUNT(*) AS n PATTERN SEQ(A, B+) GROUP BY case WITHIN 2 seconds SLIDE 3 seconds",
    }
    listed = {
        "2": "PATTERN SEQ(A, B) GROUP BY case WITHIN 3 seconds SLIDE 3 seconds",
        "3": "PATTERN SEQ(A, C) GROUP BY case WITHIN 6 seconds SLIDE 2 seconds",
        "4": "PATTERN SEQ(A, B+, NOT C) GROUP BY case WITHIN 6 seconds SLIDE 2 seconds",
    }

    def told(answer: DataFrame, case: str, value: Any) -> DataFrame:
        columns = F.array(F.col(case).cast("string")), F.col("window.start"), F.array(value)
        named = (column.alias(name) for column, name in zip(columns, ("groups", "start", "told"), strict=True))
        return answer.select(F.col("query").cast("int").alias("q"), *named)

    counts = told(live.events.patterns(counted, time="t").aggregate(), "group.case", F.col("n").cast("string"))
    trends = live.events.patterns(listed, time="t").trends(columns=["id"])
    live.arrive()
    rows, late = live.run(counts.union(told(trends, "case", _written(F.col("trend"))))), 0
    for name, text in {**counted, **listed}.items():
        own = [row for row in rows if row.q == int(name)]
        asked = aggregates_of if name in counted else trends_of
        late += answered_as_windows_close(live, own, asked, cet.parse(text)._query())
    assert late


#: Windows in seconds that hold an event four times and more, and whose slide divides them.
OVERLAPPING = ((4, 1), (8, 2), (6, 1))


def asked_in_panes(live: Live, first: int, wanted: int) -> list[Any]:
    """So many generated aggregations that a stream answers as products of panes."""
    found: list[Any] = []
    for seed in range(first, first + 20 * wanted):
        case = generators.random_case(seed, PANED)
        length, slide = OVERLAPPING[len(found) % len(OVERLAPPING)]
        query = suited(case.query, seed)
        query = in_seconds(by_case(attrs.evolve(query, window=Window(Span(length, "tick"), Span(slide, "tick")))))
        bound = cet.pattern(live.events, query, time="t", tie_break=case.tie_break)
        try:
            text = str(bound.explain("physical"))
        except errors.StreamingNotSupported:
            continue
        if "an event counts until the watermark passes the end of its pane" in text:
            ties = case.tie_break
            found.append((aggregates_of, query, ties, aggregates_of(len(found), query, ties, live.events)))
        if len(found) == wanted:
            return found
    raise AssertionError(f"only {len(found)} queries are answered in panes")


@pytest.mark.classic
def test_windows_that_overlap_are_products_of_panes(spark: Any, tmp_path: Path) -> None:
    live = Live(spark, tmp_path, stream_of_streams(716, STREAMS, 4 * DELAY, random.Random(16)))
    found = asked_in_panes(live, 900, 4)
    got = run_all(live, found)
    batch_of = live.micro_batch()
    late = 0
    for number, (asked, query, ties, _) in enumerate(found):
        assert query.window is not None
        assert query.window.slide is not None
        pane, length = (span.amount * SECOND // 1_000_000 for span in (query.window.slide, query.window.length))
        in_time = live.in_time_for(lambda time, pane=pane: time - (time - BEGIN) % pane + pane)
        known = [row for row in in_time if row["case"] >= 0]
        late += sum(len(rows) for rows in live.batches) - 1 - len(known)
        compare(got[number], expected_rows(asked, query, ties, known), f"ties={ties}\n{unparse(query)}")
        for row in got[number]:
            passed = next(n for n, watermark in enumerate(live.watermarks) if watermark >= row.start + length)
            assert batch_of[row.file_name] == passed
    assert late


@pytest.mark.classic
def test_events_kept_by_window_are_answered_in_the_task_of_their_state(spark: Any, tmp_path: Path) -> None:
    """All parcels of a share are there, in whichever micro-batches they came, and are not sent anywhere else."""
    live = Live(spark, tmp_path, stream_of_streams(1100, MORE_STREAMS, DELAY, random.Random(11)))
    live.arrive()
    text = "RETURN COUNT(*) PATTERN SEQ(A, B+) WHERE A.x <= B.x GROUP BY case WITHIN 6 seconds SLIDE 3 seconds"
    with settings(spark, {"spark.sql.shuffle.partitions": "3", **KEPT["windows"]}):
        answer = live.events.pattern(text, time="t").aggregate(number="string")
        found = Counter((row.case, row.window, row[2]) for row in live.run(answer))
    stored: DataFrame = spark.read.schema(SCHEMA).parquet(str(tmp_path / "events"))
    whole = stored.pattern(text, time="t").aggregate(number="string").collect()
    assert found == Counter((row.case, row.window, row[2]) for row in whole)
    assert len({row.case for row in whole}) > 30


def test_trends_by_plans_that_adapt(spark: Any, tmp_path: Path, kept: str) -> None:
    """Plans begin with statistics of events that have passed, where each event is kept once; answers stay the same."""
    live = Live(spark, tmp_path, stream_of_streams(1300, SOME_STREAMS, DELAY, random.Random(13), DRAWN))
    found = asked_of(live, 1300, 2 if is_remote() else 4, kinds=(adapting_trends_of,))
    got = run_all(live, found)
    rows = [row for batch in live.batches[:-1] for row in batch]
    for number, (_, query, ties, _) in enumerate(found):
        compare(got[number], expected_rows(trends_of, query, ties, rows), f"ties={ties}\n{unparse(query)}")


@pytest.mark.classic
def test_state_may_be_kept_in_rocksdb(spark: Any, tmp_path: Path) -> None:
    live = Live(spark, tmp_path, stream_of_streams(1200, STREAMS, DELAY, random.Random(12)))
    found = asked_in_panes(live, 1300, 2)
    with settings(spark, {PROVIDER: STORES["RocksDB"]}):
        got = run_all(live, found)
    rows = [row for batch in live.batches[:-1] for row in batch]
    for number, (asked, query, ties, _) in enumerate(found):
        compare(
            got[number], expected_rows(asked, query, ties, rows), f"{asked.__name__}, ties={ties}\n{unparse(query)}"
        )
    options = (tmp_path / "answer checkpoint" / "offsets" / "0").read_text()
    assert "RocksDBStateStoreProvider" in options


# Known answers --------------------------------------------------------------------------------------------------------


def at(second: int, case: int, kind: str, **more: Any) -> Row:
    """An event of a stream."""
    return {"id": second, "t": BEGIN + second * SECOND, "type": kind, "case": case, **more}


@pytest.mark.classic
def test_what_other_engines_get_wrong(spark: Any, tmp_path: Path, kept: str) -> None:
    silent, late, too_late, one_instant, other = range(5)
    live = Live(
        spark,
        tmp_path,
        [
            [at(1, silent, "A"), at(2, too_late, "A"), at(5, one_instant, "A"), at(1, other, "D"), at(9, other, "D")],
            [],
            # The watermark is 5: both events are late, but their window is open.
            [at(1, late, "A"), at(2, late, "B"), at(5, one_instant, "B"), at(15, other, "D")],
            # The watermark is 11, which closes the window up to 10, also of keys without a new event.
            [at(16, other, "D")],
            [at(3, too_late, "B"), at(17, other, "D")],
        ],
    )
    within = "GROUP BY case WITHIN 10 seconds SLIDE 10 seconds"
    texts = {
        0: f"PATTERN SEQ(A, NOT C) {within}",
        1: f"PATTERN SEQ(A, B) {within}",
        2: "PATTERN SEQ(A, NOT C) GROUP BY case WITHIN 10 seconds",
    }
    if kept == "events":
        del texts[2]  # each answer takes long
    answers = (
        common(number, live.events.pattern(text, time="t").trends(columns=["id"]), query, [_written(F.col("trend"))])
        for number, text in texts.items()
        for query in [cet.parse(text)._query()]
    )
    live.arrive()
    rows = live.run(reduce(DataFrame.union, answers))
    found = {(row.q, int(row.groups[0])): (row.told, live.micro_batch()[row.file_name]) for row in rows}
    expected = {
        (0, silent): (["1:A"], 3),
        (0, late): (["1:A"], 3),
        (0, too_late): (["2:A"], 3),
        (0, one_instant): (["5:A"], 3),
        (1, late): (["1:A 2:B"], 3),
        # What may forbid a trend of a span that begins before 10 is there at 20.
        **dict.fromkeys([(2, silent), (2, late)], (["1:A"], 6)),
        (2, too_late): (["2:A"], 6),
        (2, one_instant): (["5:A"], 6),
    }
    assert found == {place: told for place, told in expected.items() if place[0] in texts}


@pytest.mark.classic
def test_how_long_a_trend_of_a_span_waits(spark: Any, tmp_path: Path, kept: str) -> None:
    """Until the watermark is a span behind the end of its time bucket: no longer than what may forbid it may come."""
    part = {"windows": 4, "events": 2}[kept]
    first = [at(second, second, "A") for second in range(0, 8, 2)]
    live = Live(spark, tmp_path, [first, *([at(second, 9, "D")] for second in range(12, 24, 2))])
    asked = live.events.pattern("PATTERN SEQ(A, NOT C) GROUP BY case WITHIN 8 seconds", time="t")
    live.arrive()
    rows = live.run(asked.trends(columns=["id"]))
    watermark = {name: (live.watermarks[number] - BEGIN) / SECOND for name, number in live.micro_batch().items()}
    waits = {row.case: watermark[row.file_name] for row in rows}
    assert waits == {second: second // part * part + part + 8 for second in range(0, 8, 2)}


@pytest.mark.classic
def test_a_watermark_right_before_the_end_of_a_window(spark: Any, tmp_path: Path, kept: str) -> None:
    """A watermark is in whole milliseconds: right below the end of a window it leaves the window for the next one."""
    batches: list[list[Row]] = []
    for number, micros in enumerate((-1000, -1, 0, 1, 1000, -999, -2000, -1001)):
        begin, last = 10 * number, 10 * (number + 1) + DELAY
        batches.append([at(begin + 5, 0, "A"), at(begin + 6, 0, "B")])
        batches.append([{**at(last, 0, "D"), "t": BEGIN + last * SECOND + datetime.timedelta(microseconds=micros)}])
    live = Live(spark, tmp_path, batches)
    text = "PATTERN SEQ(A, B) GROUP BY case WITHIN 10 seconds SLIDE 10 seconds"
    live.arrive()
    counted = live.run(live.events.pattern(text, time="t").count_trends())
    found = {(row.window.start - BEGIN).total_seconds(): int(row["count"]) for row in counted}
    assert found == {10.0 * number: 1 for number in range(8)}
    assert len(counted) == 8


@pytest.mark.classic
def test_state_of_other_computed_groups_is_refused(spark: Any, tmp_path: Path, kept: str) -> None:
    within = "WITHIN 20 seconds SLIDE 5 seconds"
    live = Live(spark, tmp_path, [[at(1, 2, "B")], [at(2, 3, "B")]])

    def asked(text: str) -> DataFrame:
        return live.events.pattern(f"PATTERN B+ GROUP BY {text} {within}", time="t").count_trends()

    live.arrive(1)
    live.run(asked("case % 2 AS d"))
    live.arrive()
    with pytest.raises(errors.OtherState, match="kept for another query"), errors.recovering():
        live.run(asked("case % 3 AS d"))


@pytest.mark.classic
@pytest.mark.parametrize("written", ["a lambda", "a function of Python", "both", "a constant timestamp"])
def test_the_same_column_goes_on(spark: Any, tmp_path: Path, kept: str, written: str) -> None:
    """Spark numbers the parameters of lambdas by process, and writes addresses into the arguments of functions."""
    live = Live(spark, tmp_path, [[at(1, 2, "B")], [at(2, 3, "B")]])

    def condition() -> Any:
        if written == "a lambda":
            return F.exists(F.array("case", "id"), lambda one: one >= 2)
        if written == "a constant timestamp":
            return F.col("t") > F.lit(datetime.datetime(2000, 1, 1))
        given = F.array("case", "id") if written != "both" else F.transform(F.array("case", "id"), lambda one: one + 1)
        return F.udf(lambda found: max(found) >= 2, "boolean")(given)

    def asked() -> DataFrame:
        some = cet.event("B", condition())
        return live.events.pattern(cet.kleene(some).within("20 seconds", "20 seconds"), time="t").count_trends()

    live.arrive(1)
    live.run(asked())
    live.arrive()
    assert [int(row["count"]) for row in live.run(asked())] == [3]


@pytest.mark.classic
def test_a_constant_timestamp_is_of_the_zone_of_the_system(
    spark: Any, tmp_path: Path, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A datetime without a zone is another instant in another zone, and Spark writes the same text for both."""
    live = Live(spark, tmp_path, [[at(1, 2, "B")], [at(2, 3, "B")]])

    def asked() -> DataFrame:
        some = cet.event("B", F.col("t") > F.lit(datetime.datetime(2000, 1, 1)))
        return live.events.pattern(cet.kleene(some).within("20 seconds", "20 seconds"), time="t").count_trends()

    live.arrive(1)
    live.run(asked())
    live.arrive()
    monkeypatch.setattr("time.tzname", ("HST", "HDT"))
    with pytest.raises(errors.OtherState, match="kept for another query"), errors.recovering():
        live.run(asked())


@pytest.mark.classic
def test_state_that_depends_on_the_time_zone_is_refused_in_another(spark: Any, tmp_path: Path, kept: str) -> None:
    """Spark computes hours in the zone of the session; that of India is half an hour off those of Europe."""
    live = Live(spark, tmp_path, [[at(1, 2, "B", x=1)], [at(2, 2, "B", x=1)]])

    def asked(term: str) -> DataFrame:
        query = f"PATTERN SEQ(B b, B c) WHERE {term} {OVER.format(20, 5)}"
        return live.events.pattern(query, time="t").count_trends()

    for batches, zone in ((1, "Europe/Berlin"), (None, "Asia/Kolkata")):
        live.arrive(batches)
        with settings(spark, {"spark.sql.session.timeZone": zone}):
            same = live.run(asked("ABS(b.x) = ABS(c.x)"), "values")
            if batches is not None:
                live.run(asked("HOUR(b.t) = HOUR(c.t)"), "hours")
            else:
                with pytest.raises(errors.OtherState, match="in another time zone"), errors.recovering():
                    live.run(asked("HOUR(b.t) = HOUR(c.t)"), "hours")
    assert sum(row["count"] for row in same) == 4


@pytest.mark.classic
def test_a_binary_constant_is_refused(marked: DataFrame) -> None:
    query = cet.event("B", F.encode("type", "UTF-8") == F.lit(b"B")).within("20 seconds", "20 seconds")
    with pytest.raises(errors.StreamingNotSupported, match="binary constant"):
        marked.pattern(query, time="t").count_trends()


@pytest.mark.classic
def test_a_query_that_never_holds_does_not_hold_up_another(spark: Any, tmp_path: Path, kept: str) -> None:
    """Spark would drop its events before its watermark, and goes by the least of all watermarks of a stream."""
    live = Live(spark, tmp_path, [[at(1, 2, "B")], [at(2, 3, "B")]])
    found = []
    for where in ("COUNT(B) > 2 AND COUNT(B) < 2", "COUNT(B) > 0"):
        query = f"PATTERN B+ WHERE {where} WITHIN 20 seconds SLIDE 20 seconds"
        found.append(live.events.pattern(query, time="t").count_trends().select(F.lit(where).alias("asked"), "count"))
    live.arrive()
    assert [(row["asked"], int(row["count"])) for row in live.run(found[0].union(found[1]))] == [("COUNT(B) > 0", 3)]


def test_a_workload_is_answered_and_goes_on_after_a_restart(spark: Any, tmp_path: Path) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    one, two, three = stream_of_streams(300, STREAMS, DELAY, random.Random(3))
    live = Live(spark, tmp_path, [one + two, three])
    queries = {
        "rising": "RETURN COUNT(*) AS n, MAX(B.x) AS x PATTERN SEQ(A, B+) WHERE [k] AND B.x <= NEXT(B).x "
        "GROUP BY case WITHIN 6 seconds SLIDE 2 seconds",
        "pairs": "RETURN COUNT(*) AS n PATTERN A+ AND A+ GROUP BY case WITHIN 6 seconds SLIDE 2 seconds",
        "all": "RETURN COUNT(*) AS n PATTERN SEQ(A, NOT C) WITHIN 5 seconds SLIDE 5 seconds",
    }
    listed = {
        "spans": "PATTERN SEQ(A, B) GROUP BY case WITHIN 3 seconds",
        "behind": "PATTERN SEQ(NOT C, A, B) GROUP BY case WITHIN 3 seconds",
    }

    def asked(df: DataFrame) -> DataFrame:
        aggregates = df.patterns(queries, time="t").aggregate()
        trends = df.patterns(listed, time="t").trends(columns=["id"])
        every = F.to_json(F.struct("*"), {"ignoreNullFields": "false"}).alias("row")
        return aggregates.select(every).union(trends.select(every))

    answer = asked(live.events)
    live.arrive(1)
    before = Counter(row.row for row in live.run(answer))
    live.arrive()
    after = Counter(row.row for row in live.run(asked(live.events)))
    expected = Counter(row.row for row in asked(spark.read.schema(SCHEMA).parquet(str(tmp_path / "events"))).collect())
    assert after == expected
    assert before <= after
    assert len(before) < len(after)
    assert {json.loads(row)["query"] for row in after} == {*queries, *listed}


OVER = "GROUP BY case WITHIN {} seconds SLIDE {} seconds"
OTHERS = {
    "variables": ("RETURN COUNT(*) PATTERN SEQ(A, B)", "RETURN COUNT(*) PATTERN SEQ(B, C)", (10, 10)),
    "values": ("RETURN SUM(A.x) AS n PATTERN A+", "RETURN SUM(A.s) AS n PATTERN A+", (10, 10)),
    "comparisons": (
        "RETURN COUNT(*) PATTERN A+ WHERE A.x < NEXT(A).x",
        "RETURN COUNT(*) PATTERN A+ WHERE A.s < NEXT(A).s",
        (10, 10),
    ),
    "lists": (
        "RETURN COUNT(*) PATTERN A+ WHERE A.x * NEXT(A).s < 5",
        "RETURN COUNT(*) PATTERN A+ WHERE A.x * NEXT(A).s < 6",
        (10, 10),
    ),
    "matrices": ("RETURN SUM(A.x) AS n PATTERN SEQ(A, B)", "RETURN SUM(B.x) AS n PATTERN SEQ(A, B)", (8, 2)),
}


@pytest.mark.parametrize("differ", more_on_classic(*OTHERS))
def test_state_of_another_query_is_not_read_as_ones_own(spark: Any, tmp_path: Path, differ: str) -> None:
    *queries, within = OTHERS[differ]
    live = Live(spark, tmp_path, [[at(1, 0, "A", x=1, s=1), at(2, 0, "B", x=1, s=1), at(7, 0, "C", x=1, s=1)]])
    before, after = (
        cet.pattern(live.events, f"{query} {OVER.format(*within)}", time="t").aggregate() for query in queries
    )
    assert before.schema == after.schema
    live.arrive(1)
    live.run(before)
    live.arrive()
    with (
        pytest.raises(errors.OtherState, match=r"kept for another query(.|\n)*hint: .*new checkpoint"),
        errors.recovering(),
    ):
        live.run(after)


@pytest.mark.classic
def test_state_of_another_version_or_of_other_shares_is_refused(
    spark: Any, tmp_path: Path, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = Live(spark, tmp_path, [[at(1, 0, "A"), at(2, 0, "B")]])

    def counts(by: str) -> DataFrame:
        return cet.pattern(
            live.events, f"PATTERN SEQ(A, B) {by} WITHIN 10 seconds SLIDE 5 seconds", time="t"
        ).count_trends()

    live.arrive(1)
    live.run(counts("GROUP BY case"))
    if kept == "windows":
        live.run(counts(""), "in all")
    live.arrive()
    with monkeypatch.context() as patch:
        for module in (states, keeper):
            patch.setattr(module, "STATE_VERSION", -1)
        later = counts("GROUP BY case")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    for other, message in (
        (later, "another version"),
        (counts("GROUP BY case"), "with another spark.sql.shuffle|partitions is 2 now, and was 1"),
    ):
        with (
            pytest.raises(errors.OtherState, match=rf"({message})(.|\n)*hint: .*spark.sql.shuffle.partitions"),
            errors.recovering(),
        ):
            live.run(other)
    if kept == "windows":
        # Without keys there is nothing to share.
        assert [row["count"] for row in live.run(counts(""), "in all")] == [1, 1]


def test_a_query_goes_on_where_only_its_words_changed(spark: Any, tmp_path: Path) -> None:
    live = Live(spark, tmp_path, [[at(1, 0, "A"), at(2, 0, "B")]])
    texts = [f"PATTERN SEQ(A, B) {OVER.format(10, 10)}", f"pattern seq(A,  B) {OVER.format(10, 10)}"]
    before, after = (cet.pattern(live.events, text, time="t").count_trends() for text in texts)
    live.arrive(1)
    live.run(before)
    live.arrive()
    assert [row["count"] for row in live.run(after)] == [1]
    # What has Spark refuse other modes than append is gone when it runs.
    assert [path.name for path in (tmp_path / "answer checkpoint" / "state").iterdir() if path.name.isdigit()] == ["0"]


@pytest.mark.classic
def test_what_was_done_to_a_stream_before(spark: Any, tmp_path: Path) -> None:
    """Joined with another stream, or aggregated: Spark hands the watermark on to what comes behind."""
    choose = random.Random(8)
    rows = [at(second, choose.randrange(3), choose.choice("ABC"), x=second) for second in range(40)]
    live = Live(spark, tmp_path, [rows[:25], rows[25:]])
    text = "PATTERN SEQ(A, B) GROUP BY case WITHIN 10 seconds SLIDE 10 seconds"

    def answers(events: Callable[[], DataFrame]) -> DataFrame:
        other = events().select(F.col("t").alias("u"), F.col("case").alias("other"))
        joined = events().join(other, F.expr("case = other AND u BETWEEN t AND t + INTERVAL 3 SECONDS"))
        window = F.window("t", "2 seconds")
        summed = events().groupBy(window, "case", "type").count().withColumn("t", F.window_time("window"))
        two = joined.drop("u", "other"), summed.drop("window")
        first, second = (
            df.pattern(text, time="t").count_trends().withColumn("by", F.lit(n)) for n, df in enumerate(two)
        )
        return first.union(second)

    live.arrive()
    given = Counter(str(row[:4]) for row in live.run(answers(lambda: live.events)))
    files = str(tmp_path / "events")
    batch = answers(lambda: spark.read.schema(SCHEMA).parquet(files)).collect()
    assert given == Counter(str(row[:4]) for row in batch)
    assert {row.by for row in batch} == {0, 1}


#: Answers whose plans read a stream twice: both sides of an AND, and queries with windows of their own.
READ_TWICE: dict[str, Callable[[DataFrame], DataFrame]] = {
    "sides": lambda df: df.pattern(f"PATTERN A+ AND B+ GROUP BY case {WITHIN}", time="t").count_trends(),
    "aggregates": lambda df: df.patterns(
        {name: f"RETURN COUNT(*) AS n PATTERN SEQ(A, B) GROUP BY case WITHIN {name} seconds SLIDE 4 seconds"
         for name in "48"}, time="t").aggregate(),
    "trends": lambda df: df.patterns(
        {name: f"PATTERN SEQ(A, B) GROUP BY {name} {WITHIN}" for name in ("case", "k")}, time="t").trends(),
}  # fmt: skip


@pytest.mark.classic
def test_a_stream_that_is_shuffled_behind_its_watermark_is_read_once(spark: Any, tmp_path: Path) -> None:
    """Behind a shuffle that is executed for another reader, Spark knows no watermark."""
    rows = [at(second, second % 2, "AB"[second % 3 > 0], x=second, k="k") for second in range(24)]
    live = Live(spark, tmp_path, [rows[:15], rows[15:]])
    live.arrive()
    shuffles: dict[str, Callable[[DataFrame], DataFrame]] = {
        "dropDuplicates": lambda df: df.dropDuplicates(),
        "repartition": lambda df: df.repartition(2, "case"),
        "groupBy": lambda df: df.groupBy("t", "case", "type", "k").agg(F.max("x").alias("x")),
        "join": lambda df: df.join(spark.range(2).withColumnRenamed("id", "case"), "case"),
        "line break": lambda df: df.withColumn("a\nb", F.lit("two\nlines")).dropDuplicates(["id", "a\nb"]),
    }
    for name, ask in READ_TWICE.items():
        for shuffle in shuffles.values():
            with pytest.raises(
                errors.StreamingNotSupported, match=r"shuffled behind(.|\n)*hint: set spark.sql.exchange"
            ):
                ask(shuffle(live.events))
        before = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "events")).repartition(2, "case")
        ask(before.withWatermark("t", "4 seconds"))
        expected = Counter(map(str, ask(spark.read.schema(SCHEMA).parquet(str(tmp_path / "events"))).collect()))
        with settings(spark, {"spark.sql.exchange.reuse": "false"}):
            given = live.run(ask(shuffles["repartition"](live.events)), name)
        assert Counter(str(row).split(", file_name")[0] + ")" for row in given) == expected
        assert len(expected) > 2


@pytest.mark.parametrize("within", more_on_classic("6 seconds SLIDE 3 seconds", "4 seconds"))
def test_the_first_trends_of_each_window(spark: Any, tmp_path: Path, within: str) -> None:
    """The longest ones, and some that are drawn, also of partitions that the answer does not show."""
    live = Live(spark, tmp_path, stream_of_streams(2300, 30, DELAY, random.Random(23)))
    text = f"PATTERN SEQ(A, B+) WHERE A.k = B.k GROUP BY case WITHIN {within}"

    def asked(events: DataFrame) -> list[DataFrame]:
        bound = events.pattern(text, time="t")
        top = bound.top_trends(2, columns=["id"], per_group=True)
        drawn = bound.sample_trends(2, 3, complete=False, columns=["id"], per_group=True)
        shown_of = ["id", "t"]
        return [top.drop("length"), drawn, bound.complete_trends(columns=shown_of), bound.trends(columns=shown_of)]

    def by_window(rows: DataFrame) -> DataFrame:
        written = _written(F.col("trend")), F.size("trend").alias("length")
        if "window" in rows.columns:
            start = F.col("window.start")
        else:  # a batch does not tell the trends of a span apart
            start = F.window(F.array_min("trend.event.t"), within).start
        return rows.select("case", start.alias("start"), F.struct(*written).alias("told"))

    def grouped(rows: list[Any]) -> dict[Any, Counter[Any]]:
        found: dict[Any, Counter[Any]] = {}
        for row in rows:
            found.setdefault((row.case, row.start), Counter())[row.told] += 1
        return found

    live.arrive()
    streams = [by_window(rows).withColumn("q", F.lit(number)) for number, rows in enumerate(asked(live.events)[:2])]
    given = live.run(streams[0].union(streams[1]))
    top, drawn = (grouped([row for row in given if row.q == number]) for number in range(2))
    stored = spark.read.schema(SCHEMA).parquet(str(tmp_path / "events"))
    complete, every = (grouped(by_window(rows).collect()) for rows in asked(stored)[2:])
    for found, known in ((top, complete), (drawn, every)):
        assert {place: own.total() for place, own in found.items()} == {
            place: min(2, own.total()) for place, own in known.items()
        }
        assert all(own <= known[place] for place, own in found.items())
    assert any(own.total() > 2 for own in every.values())
    for place, own in top.items():
        lengths = sorted(told.length for told in complete[place].elements())
        assert sorted(told.length for told in own.elements()) == lengths[-2:]


# Refusals and words ---------------------------------------------------------------------------------------------------

WITHIN = "WITHIN 10 seconds SLIDE 5 seconds"


@pytest.fixture
def unmarked(spark: Any, tmp_path: Path) -> DataFrame:
    """A stream without a watermark."""
    stream: DataFrame = spark.readStream.schema(SCHEMA + ", u timestamp").parquet(str(tmp_path))
    return stream


@pytest.fixture
def marked(unmarked: DataFrame) -> DataFrame:
    return unmarked.withWatermark("t", "90 seconds")


@pytest.mark.parametrize(
    ("time", "within", "error", "message"),
    [
        ("t", WITHIN, errors.WatermarkError, r"has no watermark(.|\n)*hint: .*df.withWatermark\('t', '10 minutes'\)"),
        ("id", "WITHIN 10 SLIDE 5", errors.WatermarkError, r"'id' is of type bigint(.|\n)*F.timestamp_seconds\('id'\)"),
        ("t", "", errors.AnalysisErrors, r"without a window(.|\n)*hint: add a window"),
    ],
)
def test_a_stream_without_a_watermark(
    unmarked: DataFrame, time: str, within: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        unmarked.pattern(f"PATTERN A+ {within}", time=time)
    with pytest.raises(error, match=message):
        unmarked.patterns({"q": f"RETURN COUNT(*) PATTERN A+ {within}"}, time=time).aggregate()


@pytest.mark.parametrize(
    ("kind", "made"), [("timestamp_ntz", r"F.lit\('Z'\)\).cast\('timestamp'\)"), ("date", r"F.to_timestamp_ltz\('t'\)")]
)
def test_a_time_that_no_watermark_can_be_on(unmarked: DataFrame, kind: str, made: str) -> None:
    cast = unmarked.withColumn("t", F.col("t").cast(kind))
    with pytest.raises(errors.WatermarkError, match=rf"'t' is of type {kind}(.|\n)*{made}"):
        cast.pattern(f"PATTERN A+ {WITHIN}", time="t")


def test_a_watermark_on_another_column(unmarked: DataFrame) -> None:
    other = unmarked.withWatermark("u", "1 minute")
    with pytest.raises(errors.WatermarkError, match=r"is on 'u', but the time of the query is 't'(.|\n)*hint: "):
        other.pattern(f"PATTERN A+ {WITHIN}", time="t")
    assert other.pattern(f"PATTERN A+ {WITHIN}", time="u").count_trends().isStreaming


def test_a_watermark_on_a_column_of_any_name(unmarked: DataFrame) -> None:
    text, renamed = f"PATTERN A+ {WITHIN}", unmarked.withColumnRenamed("t", "event.time")
    hint = r"df.withWatermark\('`event.time`', '10 minutes'\)"
    for wrong in (renamed, renamed.withWatermark("u", "1 minute")):
        with pytest.raises(errors.WatermarkError, match=hint):
            wrong.pattern(text, time="event.time")
    made = r"withColumn\('event.time', F.to_timestamp_ltz\('`event.time`'\)\).withWatermark\('`event.time`'"
    with pytest.raises(errors.WatermarkError, match=made):
        renamed.withColumn("event.time", F.col("`event.time`").cast("date")).pattern(text, time="event.time")
    marked = renamed.withWatermark("`event.time`", "10 minutes")
    assert marked.pattern(text, time="event.time").count_trends().isStreaming


def test_a_watermark_on_the_windows_of_an_aggregation(marked: DataFrame) -> None:
    window = F.window("t", "1 second")
    summed = marked.groupBy(window, "type").count()
    text = f"PATTERN A+ {WITHIN}"
    with pytest.raises(errors.WatermarkError, match=r"on the windows 'window'(.|\n)*F.window_time\('window'\)"):
        summed.withColumn("t", F.col("window.start")).pattern(text, time="t")
    taken = summed.select("*", F.window_time("window").alias("t"))
    assert taken.pattern(text, time="t").count_trends().isStreaming


def test_what_a_stream_cannot_be_asked(marked: DataFrame) -> None:
    asked = marked.pattern(f"PATTERN A+ {WITHIN}", time="t")
    for ask in (
        lambda: asked.sample_trends(1),
        lambda: asked.top_trends(1),
        lambda: asked.top_trends(1, by=cet.avg(cet.event("A").x)),
    ):
        with pytest.raises(errors.StreamingNotSupported, match=r"all of its trends(.|\n)*hint: write per_group=True"):
            ask()
    for ask in (
        asked.survey_complete_trends,
        asked.graph,
        asked.statistics,
        asked.adaptation,
        lambda: asked.explain("survey"),
        lambda: asked.trends(algorithm="joins"),
        lambda: asked.complete_trends(algorithm="joins"),
        lambda: asked.complete_trends(algorithm="definition"),
    ):
        with pytest.raises(errors.UnsupportedQuery, match=r"stream(.|\n)*hint: "):
            ask()
    with pytest.raises(errors.StreamingNotSupported, match=r"more than 64 windows(.|\n)*longer SLIDE"):
        marked.pattern("PATTERN A+ WITHIN 65 seconds SLIDE 1 second", time="t")
    many = marked.patterns({"q": f"PATTERN A+ {WITHIN}"}, time="t")
    for ask in (many.trends, asked.trends, asked.complete_trends):
        with pytest.raises(errors.StreamingNotSupported, match="a limited number of trends"):
            ask(limit=3)


def test_which_operators_answer_streams() -> None:
    kinds = (kind for kind in vars(operators).values() if isinstance(kind, type) and issubclass(kind, Operator))
    assert {kind.__name__ for kind in kinds if kind.only_batch is None} == {
        "BuildGraph", "BuildPanes", "CheckTrends", "ChooseTrends", "CountPaths", "DetectTogether", "DetectTrends",
        "Exchange", "ListPaths", "ListTrends", "Merge", "MergeTogether", "Messages", "MultiplyPanes", "PairCounts",
        "Propagate", "PropagateTogether", "SampleOfEach", "Scan", "ShowTrends", "Sweep", "TopOfEach", "Union",
    }  # fmt: skip


def test_explain_says_how_long_an_answer_waits_and_for_what(marked: DataFrame, unmarked: DataFrame) -> None:
    text = str(marked.pattern(f"PATTERN A+ {WITHIN}", time="t").explain("physical"))
    assert "waits     for the watermark, 90 seconds behind the latest event, to pass the end of the window" in text
    assert "keep until the watermark passes what they are needed for, by window" in text
    assert "shares of the keys, a task each at every trigger: 1" in text
    at_once = unmarked.withWatermark("t", "0 seconds").pattern(f"PATTERN A+ {WITHIN}", time="t").explain("physical")
    assert "waits     for the watermark, at the time of the latest event, to pass the end of the window" in str(at_once)
    many = str(marked.patterns({"q": f"RETURN COUNT(*) PATTERN A+ {WITHIN}"}, time="t").explain())
    assert re.search("waits +for the watermark, 90 seconds behind the latest event, to pass the end", many)
    within = marked.pattern("PATTERN A+ GROUP BY k WITHIN 10 seconds", time="t")
    span = str(within.explain("trends"))
    assert "to be 10 seconds to 15 seconds behind the first event of a trend" in span
    counted = str(within.explain("physical"))
    assert "windows   10 seconds each, by the first event of a trend, which spans at most 10 seconds" in counted
    assert "latest event, to pass the end of the window by 10 seconds" in counted


def test_more_shares_than_tasks_are_told_of(spark: Any, unmarked: DataFrame, caplog: pytest.LogCaptureFixture) -> None:
    most = SHARES_MOST * parallelism(spark)
    for shares in (most, most + 1):
        with settings(spark, {"spark.sql.shuffle.partitions": str(shares)}):
            bound = unmarked.withWatermark("t", "1 minute").pattern(f"PATTERN A+ {WITHIN}", time="t")
        told = rf'{shares} small states are .* at a time(.|\n)*spark.conf.set\("spark.sql.shuffle.partitions", \d+\)'
        is_told = shares > most
        # Spark may have the log written as JSON.
        assert any(re.search(told, record.getMessage()) for record in caplog.records) == is_told
        assert bool(re.search(told, str(bound.explain("physical")))) == is_told


@pytest.mark.parametrize("on_null_time", ["error", "skip"])
def test_events_without_a_time(spark: Any, tmp_path: Path, on_null_time: str) -> None:
    live = Live(spark, tmp_path, [[at(1, 0, "A"), {"id": 9, "t": None, "type": "A", "case": 0}]])
    asked = live.events.pattern(f"PATTERN A GROUP BY case {WITHIN}", time="t", on_null_time=on_null_time)
    live.arrive()
    if on_null_time == "skip":
        assert [row["count"] for row in live.run(asked.count_trends())] == [1, 1]
        return
    with pytest.raises(errors.NullTime, match="the time column 't' is NULL"), errors.recovering():
        live.run(asked.count_trends())
