"""Streams that keep each live event once: queries that come and go, what state holds, and what is refused."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import reference
from killed_driver import PROVIDER, STORES
from modes import settings
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from test_streaming import (
    BEGIN,
    DELAY,
    KEPT,
    SCHEMA,
    SECOND,
    Live,
    _few_tasks,  # noqa: F401 - a fixture of all tests here
    at,
    marked,  # noqa: F401 - a fixture
    stream_of_streams,
    unmarked,  # noqa: F401 - a fixture
)

import cetdsl as cet
from cetdsl import errors
from cetdsl.kernels.detect.learned import HALF_LIFE

pytestmark = pytest.mark.simple_plans
WITHIN = "WITHIN 10 seconds SLIDE 5 seconds"
OVER = "GROUP BY case WITHIN 6 seconds SLIDE 2 seconds"
QUERIES = {
    "rising": f"RETURN COUNT(*) AS n, MAX(B.x) AS x PATTERN SEQ(A, B+) WHERE [k] AND B.x <= NEXT(B).x {OVER}",
    "gone": f"RETURN COUNT(*) AS n PATTERN SEQ(A, NOT C) WHERE [k] {OVER}",
    # Its windows are shorter: it is answered within those of the others.
    "new": "RETURN COUNT(*) AS n PATTERN SEQ(B, A+) WHERE [k] GROUP BY case WITHIN 4 seconds SLIDE 2 seconds",
}
COLUMNS = ["case", "k", "x"]
SPAN = "10 seconds"


@pytest.fixture
def _once(spark: Any) -> Any:
    with settings(spark, KEPT["events"]):
        yield


def row_of(row: Any) -> str:
    """A row of a workload's answer, without the file that it is from."""
    return str((row.query, row.group.case, row.window.start, row.window.end, row.n, row.x))


@pytest.mark.usefixtures("_once")
def test_queries_come_and_go_where_a_stream_is_started_again(spark: Any, tmp_path: Path) -> None:
    live = Live(spark, tmp_path, stream_of_streams(2200, 30, DELAY, random.Random(22)))
    first = live.events.patterns({name: QUERIES[name] for name in ("rising", "gone")}, time="t", keep=COLUMNS)
    second = first.remove("gone").add("new", QUERIES["new"])
    live.arrive(2)
    before = Counter(map(row_of, live.run(first.aggregate())))
    live.arrive()
    other = live.events.patterns({"rising": QUERIES["rising"]}, time="t", keep=[*COLUMNS, "y"])
    with (
        pytest.raises(errors.OtherState, match=r"columns case int, k string, x int.*and not .* y double(.|\n)*hint: "),
        errors.recovering(),
    ):
        live.run(other.aggregate())
    after = Counter(map(row_of, live.run(second.aggregate()))) - before
    stored: DataFrame = spark.read.schema(SCHEMA).parquet(str(tmp_path / "events"))
    whole = stored.patterns(QUERIES, time="t").aggregate().collect()
    closed = live.watermarks[2]
    expected = Counter(row_of(row) for row in whole if (row.window.end <= closed) and row.query != "new")
    assert before == expected
    still_open = [row for row in whole if row.window.end > closed and row.query != "gone"]
    assert after == Counter(map(row_of, still_open))
    assert {row.query for row in still_open} == {"rising", "new"}
    assert any(row.query == "new" and row.window.start < closed - 2 * SECOND for row in still_open)


@pytest.mark.classic
@pytest.mark.usefixtures("_once")
def test_aggregates_of_spans_beside_those_of_windows(spark: Any, tmp_path: Path) -> None:
    """A pass that is cut by the longest window, or by each query's own, gives each trend of a span to one window."""
    live = Live(spark, tmp_path, stream_of_streams(2270, 30, DELAY, random.Random(27)))
    queries = {
        "rising": QUERIES["rising"],
        "short": "RETURN COUNT(*) AS n PATTERN SEQ(A, B+) WHERE [k] GROUP BY case WITHIN 3 seconds",
        "negated": "RETURN COUNT(*) AS n PATTERN SEQ(NOT C, A, B+, NOT C) WHERE [k] GROUP BY case WITHIN 4 seconds",
    }
    live.arrive()
    kept = live.events.patterns(queries, time="t", keep=COLUMNS).aggregate()
    apart = live.events.patterns(queries, time="t").aggregate()
    found, others = (Counter(map(row_of, live.run(rows, name))) for rows, name in ((kept, "kept"), (apart, "apart")))
    assert found == others
    stored: DataFrame = spark.read.schema(SCHEMA).parquet(str(tmp_path / "events"))
    whole = stored.patterns({"rising": QUERIES["rising"]}, time="t").aggregate()
    expected = Counter(map(row_of, whole.collect()))
    rows = [row for batch in live.batches[:-1] for row in batch]
    for name in ("short", "negated"):
        query = cet.parse(queries[name])._query()
        counts: Counter[Any] = Counter()
        for (group, window, _), trends in reference.by_first_event(query, rows, reference.trends(query, rows)).items():
            counts[(name, *group, *(window or ()))] += len(trends)
        expected.update(str((*place, Decimal(count), None)) for place, count in counts.items())
    assert found == expected


@pytest.mark.classic
@pytest.mark.usefixtures("_once")
def test_kept_columns_are_what_they_were(spark: Any, tmp_path: Path) -> None:
    """Whatever their names, with what Spark notes of ``CHAR(n)``, and with times that no session's zone changes."""
    live = Live(spark, tmp_path, [[at(1, 0, "A", x=4), at(1, 0, "A", x=3)], [at(3, 0, "B")]])

    def asked() -> DataFrame:
        kind = F.rpad("type", 3, " ").alias("type", metadata={"__CHAR_VARCHAR_TYPE_STRING": "char(3)"})
        seen = (F.col("t") + F.expr("INTERVAL 1 HOUR")).alias("seen")
        names = [F.col("x").alias("Until"), F.col("id").alias("bucket")]
        pattern = (
            cet.seq(cet.event("A", F.col("until") > 3, type="A"), cet.event("B"))
            .group_by("case")
            .within(SPAN, slide=SPAN)
        )
        events = live.events.select("t", "case", kind, seen, *names)
        many = events.patterns({"q": pattern}, time="t", keep=["case", "until", "bucket", "seen"])
        return many.trends(columns=["seen", "until"])

    for batches, zone in ((1, "America/New_York"), (None, "UTC")):
        live.arrive(batches)
        with settings(spark, {"spark.sql.session.timeZone": zone}):
            rows = live.run(asked())
    events = [binding.event for row in rows for binding in row.trend]
    assert [(event.Until, event.seen - BEGIN) for event in events] == [(4, 3601 * SECOND), (None, 3603 * SECOND)]


@pytest.mark.classic
@pytest.mark.usefixtures("_once")
def test_trends_of_windows_that_are_cut_alike(spark: Any, tmp_path: Path) -> None:
    """Those of shorter windows are found among the events of the longest, and each window has its own."""
    live = Live(spark, tmp_path, stream_of_streams(2250, 30, DELAY, random.Random(25)))
    over = "GROUP BY case WITHIN {} seconds SLIDE {} seconds"
    queries = {
        "long": f"PATTERN SEQ(A, B) {over.format(6, 2)}",
        "short": f"PATTERN SEQ(B, C) {over.format(3, 4)}",
        "walked": f"PATTERN SEQ(A, B+) {over.format(4, 4)}",
    }

    def told(rows: list[Any]) -> Counter[str]:
        each = (
            (row.query, row.case, row.window.start, [(one.variable, one.event.id) for one in row.trend]) for row in rows
        )
        return Counter(map(str, each))

    live.arrive()
    found = told(live.run(live.events.patterns(queries, time="t", keep=["case", "id"]).trends(columns=["id"])))
    stored: DataFrame = spark.read.schema(SCHEMA).parquet(str(tmp_path / "events"))
    assert found == told(stored.patterns(queries, time="t").trends(columns=["id"]).collect())
    assert all(any(f"'{name}'" in row for row in found) for name in queries)


@pytest.mark.parametrize(
    ("within", "kept"),
    [
        ((6,), "12 seconds from the start of each 6 seconds"),
        ((6, 3, 2), "12 seconds from the start of each 6 seconds"),
        ((6, 5), "16 seconds from the start of each 6 seconds"),
        ((3, "9 seconds SLIDE 2"), "18 seconds from the start of each 9 seconds"),
    ],
)
def test_how_long_the_events_of_spans_are_kept(
    spark: Any,
    marked: DataFrame,  # noqa: F811 - a fixture
    within: tuple[Any, ...],
    kept: str,
) -> None:
    """Spans that divide the longest one keep no event longer than this one alone, so that they may come and go."""
    texts = {f"q{n}": f"RETURN COUNT(*) PATTERN A+ WITHIN {length} seconds" for n, length in enumerate(within)}
    with settings(spark, {PROVIDER: STORES["RocksDB"]}):
        told = str(marked.patterns(texts, time="t", keep=["x"]).explain())
    assert f"events are kept together, for {kept}" in told


def test_what_kept_events_cannot_be_asked(spark: Any, marked: DataFrame) -> None:  # noqa: F811 - a fixture
    text = {"q": f"RETURN COUNT(*) PATTERN A+ {WITHIN}"}
    with settings(spark, {PROVIDER: STORES["default"]}):
        for asked in ({"state": "events"}, {"keep": COLUMNS}):
            with pytest.raises(errors.StreamingNotSupported, match=rf"{PROVIDER} is HDFS(.|\n)*RocksDBStateStoreProv"):
                marked.patterns(text, time="t", **asked)
        assert marked.patterns(text, time="t").aggregate().isStreaming
    with settings(spark, {PROVIDER: STORES["RocksDB"]}):
        kept = marked.patterns(text, time="t", keep=COLUMNS)
        with pytest.raises(errors.UnknownColumn, match=r"query 'p': no column 's'(.|\n)*hint: .*; keep= leaves other"):
            kept.add("p", f"RETURN SUM(A.s) PATTERN A+ {WITHIN}")
        scattered = kept.add("p", f"RETURN COUNT(*) PATTERN A+ GROUP BY k {WITHIN}")
        with pytest.raises(
            errors.StreamingNotSupported, match=r"in one operator, and these plans need 2(.|\n)*same part"
        ):
            scattered.aggregate()
        pairs = kept.add("p", f"RETURN COUNT(*) PATTERN A AND B {WITHIN}")
        with pytest.raises(errors.StreamingNotSupported, match=r"^query 'p': no strategy(.|\n)*leave keep= away"):
            pairs.aggregate()
        with pytest.raises(errors.StreamingNotSupported, match=r"'day' is computed(.|\n)*withColumn"):
            kept.add("p", f"RETURN COUNT(*) PATTERN A+ GROUP BY date(t) AS day {WITHIN}")
        often = kept.add("p", "RETURN COUNT(*) PATTERN A+ WITHIN 14 seconds SLIDE 7 seconds")
        assert often.aggregate().isStreaming
        seldom = often.add("r", "RETURN COUNT(*) PATTERN A+ WITHIN 1 hour SLIDE 1 hour")
        for answer in (seldom.aggregate, seldom.trends):
            with pytest.raises(
                errors.StreamingNotSupported, match=r"each event into 3,600, and at most 64(.|\n)*hint: "
            ):
                answer()
        with pytest.raises(errors.InvalidNode, match=r"keep= keeps each event once(.|\n)*hint: "):
            marked.patterns(text, time="t", keep=COLUMNS, state="windows")
        with pytest.raises(errors.InvalidNode, match=r"has a query 'q'"):
            kept.add("q", text["q"])
        for name, message in (("p", "no query 'p'"), ("q", "only query")):
            with pytest.raises(errors.InvalidNode, match=message):
                kept.remove(name)
    with pytest.raises(errors.InvalidNode, match=r"state='always' is unknown(.|\n)*'windows' or 'events'"):
        marked.pattern(f"PATTERN A+ {WITHIN}", time="t", state="always")


def test_explain_says_how_events_are_kept(spark: Any, marked: DataFrame) -> None:  # noqa: F811 - a fixture
    text = f"PATTERN A+ {WITHIN}"
    with settings(spark, {PROVIDER: STORES["default"]}):
        by_default = str(marked.pattern(text, time="t").explain("physical"))
    with settings(spark, {PROVIDER: STORES["RocksDB"]}):
        once = str(marked.pattern(text, time="t").explain("physical"))
        tumbling = str(marked.pattern(text.replace("5", "10"), time="t").explain("physical"))
        asked = str(marked.pattern(text.replace("W", "GROUP BY k W"), time="t", state="windows").explain("physical"))
        lists = str(marked.pattern(f"PATTERN A+ WHERE A.x * NEXT(A).s < 5 {WITHIN}", time="t").explain("physical"))
        whole = str(marked.patterns({"q": f"RETURN COUNT(*) {text}"}, time="t", keep=["x"]).explain())
    # The nearer to the stream, the farther below: events are kept before conditions are asked of them.
    assert (
        whole.index("keep what some variable can bind")
        < whole.index("each once, whole, for queries")
        < whole.index("+- events")
    )
    assert whole.count("keep until the watermark") == 1
    assert "those of each query; events are kept together, for 10 seconds from the start of each 5 seconds" in whole
    assert "latest event, to pass 10 seconds after the start of the 5 seconds in which a window begins" in whole
    assert "once for each window: windows do not overlap" in tumbling
    why = f"{PROVIDER} is HDFSBackedStateStoreProvider, and it takes RocksDB to keep each event once"
    assert f"once for each window: {why}" in by_default
    assert "each once, as windows overlap" in once
    assert "once for each window: as asked for" in asked
    assert "are needed for, by share of the keys, window" in asked
    assert all(("packed, many in one value of state" in told) != (told is lists) for told in (tumbling, once, lists))
    assert "once for each window: Spark tests inseparable predicates" in lists


@pytest.mark.classic
@pytest.mark.usefixtures("_once")
def test_statistics_for_plans_stay_when_their_events_have_passed(spark: Any, tmp_path: Path) -> None:
    """They are those of all events so far, of which the oldest count less, also if the stream is started again."""
    many = [at(n, case, "A", x=1) for n in range(8) for case in (0, 1)] + [at(8, 0, "B", x=0), at(8, 1, "C", x=2)]
    few = [at(25, 0, "A", x=1), at(26, 0, "B", x=2)]
    live = Live(spark, tmp_path, [many, few])
    text = "PATTERN SEQ(A, B, C) WHERE A.x < B.x GROUP BY case WITHIN 10 seconds SLIDE 10 seconds"
    asked = cet.pattern(live.events, text, time="t")
    assert "keep statistics of the events that have passed" in str(asked.explain("trends", adaptation="invariants"))
    kept = []
    for micro_batches in (2, 3):
        live.arrive(micro_batches)
        live.run(asked.trends(adaptation="invariants"))
        checkpoint = shutil.copytree(tmp_path / "answer checkpoint", tmp_path / f"checkpoint{micro_batches}")
        state = spark.read.format("statestore").option("stateVarName", "statistics").load(str(checkpoint))
        [row] = state.select("value.counts").collect()
        kept.append(row.counts)
    # The duration in seconds, the events of A, B and C, and how many pairs of an A and a B were tried, and passed.
    (_, a, b, c, tried, passed), (_, *later) = kept
    assert (a, b, c, passed) == (16, 1, 1, 0)
    assert tried > 0
    assert len(kept[0]) == 6
    old = 0.5 ** (1 / HALF_LIFE)
    assert later == pytest.approx([16 * old + 1, old + 1, old, tried * old + 64, 64])  # one pair is tried 64 times


@pytest.mark.classic
@pytest.mark.usefixtures("_once")
def test_statistics_begin_anew_if_a_restarted_stream_compares_other_things(spark: Any, tmp_path: Path) -> None:
    """Each query finds the same trends, so all runs together give those of a batch, whoever answers a window."""
    each = [[at(20 * n, 0, "A", x=1), at(20 * n + 1, 0, "B", x=2), at(20 * n + 2, 0, "C", x=3)] for n in range(5)]
    live = Live(spark, tmp_path, each)
    runs = [
        ("A.x < B.x AND B.x < C.x", None),
        ("A.x < B.x AND B.x < C.x", "invariants"),
        ("A.x < B.x AND A.x < C.x AND B.x <= C.x", "unconditional"),
        ("A.x < C.x AND B.x < C.x", "unconditional"),
        ("A.x < B.x AND B.x < C.x", None),
        ("A.x < B.x AND B.x < C.x", "threshold"),
    ]
    for number, (where, adaptation) in enumerate(runs):
        text = f"PATTERN SEQ(A, B, C) WHERE {where} GROUP BY case WITHIN 10 seconds SLIDE 10 seconds"
        live.arrive(number + 1)
        found = live.run(cet.pattern(live.events, text, time="t").trends(columns=["t"], adaptation=adaptation))
    assert sorted(row.window.start for row in found) == [BEGIN + 20 * n * SECOND for n in range(5)]


@pytest.mark.usefixtures("_once")
def test_state_of_events_holds_nothing_of_what_has_passed(spark: Any, tmp_path: Path) -> None:
    """The last event is no event of the query, and closes all windows: no parcel is left, and no timer."""
    live = Live(spark, tmp_path, [[at(1, 0, "A"), at(2, 0, "B")], [at(6, 1, "A")]])
    counts = cet.pattern(live.events, f"PATTERN A+ {WITHIN}", time="t").count_trends()
    live.arrive()
    assert len(live.run(counts)) == 3
    # Spark's reader of state does not find paths with spaces.
    checkpoint = shutil.copytree(tmp_path / "answer checkpoint", tmp_path / "checkpoint")
    for name, option in (("parcels", "stateVarName"), ("meaning", "stateVarName"), ("true", "readRegisteredTimers")):
        first = spark.read.format("statestore").option(option, name).option("batchId", 0).load(str(checkpoint))
        last = spark.read.format("statestore").option(option, name).load(str(checkpoint))
        assert first.count() > last.count() == 0, name
