"""Races of live streams: files read micro-batch by micro-batch, against the same files at once and Spark's own sums."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from events import ORIGIN, Events
from measure import seconds, take_turns
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from races import AFTER_A, Result, Verdict, agree, count, discard, result

from cetdsl.execution.compat import ROCKSDB, STATE_STORE
from cetdsl.frontend.watch import state_bytes

#: Files of the races, how many of them a micro-batch reads, so that all cores do, and the triggers of :func:`steady`.
FILES, FILES_PER_TRIGGER, TRIGGERS = 32, 4, 200
#: How many of them a micro-batch reads where more events wait: a stream that falls behind has larger ones.
FILES_BEHIND = 16
#: The setting that names what moves the files of a checkpoint. By default Hadoop does, which on a local disk starts a
#: process for each file, more than a hundred at each trigger.
MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
MOVED_BY_JAVA = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
#: Tasks of each operator that keeps state: Spark's usual 200 would spend most of the time on writing 200 small states.
TASKS = 4
TUMBLING, OVERLAPPING = (AFTER_A.within("15 minutes", slide=slide) for slide in ("15 minutes", "90 seconds"))
QUERIES = 50
#: Bytes of the columns that these queries need of an event: its key, and its time with its variable.
EVENT_BYTES = 16
#: Contestants of :func:`kept`.
STATE, LIVE_EVENTS = "state", "live events"

Progress = list[dict[str, Any]]


def in_order(events: Events, name: str, df: DataFrame, files: int) -> Path:
    """Files of events in order of time, and of one last event that closes all windows."""
    time = F.timestamp_seconds(F.lit(ORIGIN + 30 * 86_400))
    last = df.limit(1).select(
        F.lit(-1).cast("bigint").alias("key"), time.alias("time"), F.lit("Z").alias("type"), "price"
    )
    ordered = df.unionByName(last).repartitionByRange(files, "time").sortWithinPartitions("time")
    path = events.folder / name
    events.saved(name, lambda: ordered)
    for number, file in enumerate(sorted(path.glob("*.parquet"))):
        os.utime(file, (ORIGIN + number,) * 2)  # Spark reads the oldest file first
    return path


def live(spark: SparkSession, path: Path, schema: Any, files: int = 1) -> DataFrame:
    """The files as a stream, so many in each micro-batch."""
    read = spark.readStream.schema(schema).option("maxFilesPerTrigger", files).parquet(str(path))
    return read.withWatermark("time", "10 seconds")


@contextmanager
def setting(spark: SparkSession, key: str, value: str) -> Iterator[None]:
    """Gives the session a setting while the block runs."""
    before = spark.conf.get(key, None)
    spark.conf.set(key, value)
    try:
        yield
    finally:
        spark.conf.unset(key) if before is None else spark.conf.set(key, before)


def drain(events: DataFrame, ask: Callable[[DataFrame], DataFrame], into: str | None = None) -> Progress:
    """Asks a stream, and runs it over all of its files; returns Spark's progress report of each micro-batch."""
    spark = events.sparkSession
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "1000")
    # Set before the stream is asked, whose plan divides the keys into as many shares.
    with setting(spark, "spark.sql.shuffle.partitions", str(TASKS)):
        answer = ask(events)
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoint:
            writer = answer.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
            query = writer.format("parquet").start(into) if into else writer.format("noop").start()
            query.awaitTermination()
            return [dict(progress) for progress in query.recentProgress]


def workload(df: DataFrame) -> DataFrame:
    """Queries that differ in the price from which on an event counts."""
    asked = "RETURN COUNT(*) AS n PATTERN SEQ(A, B+) WHERE B.price > {} GROUP BY key WITHIN 15 minutes SLIDE 15 minutes"
    texts = {f"q{n}": asked.format(n) for n in range(QUERIES)}
    return df.patterns(texts, time="time").aggregate()


def streaming(events: Events, runs: int) -> Result:
    spark, keys = events.spark, events.scaled(10_000)
    df = events.live_keys()
    path = in_order(events, f"live-in-order-{500 * keys}", df, FILES)
    told: dict[str, Progress] = {}

    def drained(name: str, ask: Callable[[DataFrame], DataFrame], files: int = FILES_PER_TRIGGER) -> Callable[[], None]:
        def run() -> None:
            told[name] = drain(live(spark, path, df.schema, files), ask)

        return run

    def counted(name: str, query: Any, key: str = STATE_STORE, value: str | None = None) -> Callable[[], None]:
        run = drained(name, lambda df: count(df, query, "decimal"))

        def run_so() -> None:
            with setting(spark, key, value):
                run()

        return run if value is None else run_so

    stored = spark.read.schema(df.schema).parquet(str(path))
    window = F.window("time", "15 minutes")
    measured = take_turns(
        {
            "batch": lambda: discard(count(stored, TUMBLING, "decimal")),
            "stream": counted("stream", TUMBLING),
            "files by Java": counted("files by Java", TUMBLING, MANAGER, MOVED_BY_JAVA),
            "behind": drained("behind", lambda df: count(df, TUMBLING, "decimal"), FILES_BEHIND),
            "floor": drained("floor", lambda df: df.groupBy("key", window).agg(F.sum("price"))),
            "overlap": counted("overlap", OVERLAPPING),
            "workload": drained("workload", workload),
            "tumbling in RocksDB": counted("tumbling in RocksDB", TUMBLING, value=ROCKSDB),
            "overlap once": counted("overlap once", OVERLAPPING, value=ROCKSDB),
        },
        runs,
    )
    verdicts = [
        Verdict("a stream of files, against the same files at once", "stream", "batch", 2),
        Verdict("the same, files of the checkpoint moved by Java itself", "files by Java", "batch", 2),
        Verdict(f"the same, {FILES_BEHIND} files in each micro-batch", "behind", "batch", 2),
        Verdict("a stream, against Spark's groupBy(key, window).agg(sum)", "stream", "floor", 1.5),
        Verdict("ten windows that overlap, against tumbling ones", "overlap", "stream", 1.5),
        Verdict(
            "ten windows with each event kept once, against tumbling ones", "overlap once", "tumbling in RocksDB", 1.5
        ),
        Verdict(f"a workload of {QUERIES} queries, against one", "workload", "stream", 3),
    ]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        drain(live(spark, path, df.schema), lambda df: count(df, TUMBLING, "decimal"), folder)
        check = agree({"batch": count(stored, TUMBLING, "decimal"), "stream": spark.read.parquet(folder)})
    most = {name: max(map(state_bytes, progress)) for name, progress in told.items()}
    thirds, note = steady(events)
    held = kept(stored, told["overlap once"])
    measured |= thirds | held | {GOLDEN: golden(events)}
    verdicts += [
        Verdict(
            "MB of state with each event kept once, against MB of live events' columns, median of triggers",
            *(STATE, LIVE_EVENTS),
            1.5,
        ),
        Verdict(f"a trigger in the last third of {TRIGGERS}, against one in the first", *reversed(thirds), 1.1),
        Verdict(f"100,000 events of one key, {GOLDEN}, with Spark's planning", GOLDEN, "", 15),
    ]
    ratios = [state / live for state, live in zip(held[STATE]["seconds"], held[LIVE_EVENTS]["seconds"])]
    notes = [
        "The most that state held, MB: " + ", ".join(f"{name} {size / 1e6:.1f}" for name, size in most.items()) + ".",
        f"After each trigger, {min(ratios):.2f} to {max(ratios):.2f} times those of the live events, as RocksDB keeps "
        "what has been dropped until it compacts its files.",
        note,
    ]
    batches = f"{FILES_PER_TRIGGER} of {FILES} files in each micro-batch"
    about = f"5 million events, 10,000 keys, five hours, {batches}; windows of 15 minutes"
    return result(about, measured, verdicts, notes=notes, **check)


def kept(stored: DataFrame, progress: Progress) -> dict[str, Result]:
    """The megabytes that state holds after each micro-batch but the last ones, and those of the events that are live.

    The events are in overlapping windows, and were read in order of time; ``progress`` says how many by each
    micro-batch. An event is live until the watermark of a micro-batch passes the end of the last window that holds it.
    """
    slide, length = 90, 900
    begin = (F.floor(F.unix_timestamp("time") / slide) * slide + length).alias("closes")
    closing = stored.groupBy(begin).count().collect()
    state, live, read = [], [], 0
    for one in progress:
        read += one["numInputRows"]
        watermark = datetime.fromisoformat(one["eventTime"]["watermark"].replace("Z", "+00:00")).timestamp()
        events = read - sum(row["count"] for row in closing if row.closes <= watermark)
        if one["numInputRows"] > 1:  # the last event closes all windows
            state.append(state_bytes(one) / 1e6)
            live.append(events * EVENT_BYTES / 1e6)
    return {STATE: _timed(state), LIVE_EVENTS: _timed(live)}


def steady(events: Events) -> tuple[Result, str]:
    """The seconds of triggers at the beginning and at the end of a stream of steady rate, and a note on its state."""
    df = events.kept_live("live-steady", 40_000, 100)
    path = in_order(events, "live-steady-in-order", df, TRIGGERS)
    query = AFTER_A.within("15 minutes", slide="15 minutes")
    progress = drain(live(events.spark, path, df.schema), lambda df: count(df, query, "decimal"))[:TRIGGERS]
    # The first triggers start workers and fill the first windows; the last one closes all of them.
    took = [one["durationMs"]["triggerExecution"] / 1000 for one in progress[TRIGGERS // 10 : -1]]
    held = [state_bytes(one) for one in progress[TRIGGERS // 10 : -1]]
    third = len(took) // 3
    ends = {"first third": slice(None, third), "last third": slice(-third, None)}
    most = [f"{max(held[part]) / 1e6:.2f} MB in the {name}" for name, part in ends.items()]
    note = (
        f"{len(progress)} triggers of a steady stream: the most that state held, {', '.join(most)}; "
        f"p99 of a trigger {quantiles(took, n=100)[98]:.2f} s."
    )
    return {name: _timed(took[part]) for name, part in ends.items()}, note


def _timed(took: list[float]) -> Result:
    """Seconds in the form of a contestant's results."""
    return {"seconds": took, "median": median(took), "processor_median": 0.0}


#: The windows of :func:`golden`.
GOLDEN = "20 Kleene events in each window"


def golden(events: Events) -> Result:
    """How long windows of one A and 20 B take, of one key: 2^20 - 1 trends each."""
    spark, size = events.spark, events.scaled(100_000)
    time = F.timestamp_seconds(F.lit(ORIGIN - ORIGIN % 21) + F.col("id"))
    kind = F.when(F.col("id") % 21 == 0, "A").otherwise("B")
    rows = spark.range(size).select(F.lit(0).cast("bigint").alias("key"), time.alias("time"), kind.alias("type"))
    df = rows.withColumn("price", F.lit(1.0))
    path = in_order(events, f"live-golden-{size}", df, FILES)
    query = AFTER_A.within("21 seconds", slide="21 seconds")

    def once() -> None:
        drain(live(spark, path, df.schema, FILES_PER_TRIGGER), lambda df: count(df, query, "decimal"))

    return _timed([seconds(once)])


#: A pattern whose last event is rare, and the smallest in most pairs; by the order of the pattern, nearly all partial
#: matches are dead ends. A key has some 500 events in each of its windows.
RARE_LAST = (
    "PATTERN SEQ(A, B, A a2, C) WHERE [key] AND A.price < B.price AND B.price < a2.price AND a2.price < C.price "
    "WITHIN 30 seconds SLIDE 30 seconds"
)


def learning(events: Events, runs: int) -> Result:
    """Plans that adapt, with statistics of windows that have closed and without, and the search without plans."""
    spark, size = events.spark, events.scaled(2_000_000)
    path = in_order(events, f"live-skewed-{size}", _skewed(spark, size), FILES)
    schema = spark.read.parquet(str(path)).schema
    rows: dict[str, int] = {}

    def drained(name: str, state: str, **options: Any) -> Callable[[], None]:
        def ask(df: DataFrame) -> DataFrame:
            return df.pattern(RARE_LAST, time="time", state=state).trends(columns=["price"], **options)

        def run() -> None:
            with setting(spark, STATE_STORE, ROCKSDB):
                progress = drain(live(spark, path, schema, FILES_PER_TRIGGER), ask)
            rows[name] = sum(_rows_out(one) for one in progress)

        return run

    adapting = {"adaptation": "invariants"}
    measured = take_turns(
        {
            "kept": drained("kept", "events", **adapting),
            "anew": drained("anew", "windows", **adapting),
            "no plan, events": drained("no plan, events", "events"),
            "no plan, windows": drained("no plan, windows", "windows"),
        },
        runs,
    )
    if len(set(rows.values())) > 1:
        raise RuntimeError(f"the answers differ: {rows}")
    verdicts = [Verdict("plans that begin with statistics in state, against plans that begin anew", "kept", "anew", 1)]
    about = f"{size:,} events of a stream, 200 keys, windows of about 500 events of a key, one in 170 of them a C"
    return result(about, measured, verdicts, rows=rows["kept"])


def _skewed(spark: SparkSession, size: int) -> DataFrame:
    """Events over ten minutes, whose prices are below 1,000, and below 20 where they are of type C."""
    number = F.col("id")
    drawn = F.pmod(F.xxhash64(number, F.lit(1)), F.lit(1000))
    kind = F.when(drawn < 497, "A").when(drawn < 994, "B").otherwise("C")
    return spark.range(0, size, 1, 8).select(
        F.pmod(F.xxhash64(number, F.lit(2)), F.lit(200)).alias("key"),
        F.timestamp_micros(F.lit(ORIGIN * 1_000_000) + (number * (600_000_000 / size)).cast("bigint")).alias("time"),
        kind.alias("type"),
        F.pmod(F.xxhash64(number, F.lit(3)), F.when(drawn < 994, 1000).otherwise(20)).cast("double").alias("price"),
    )


def _rows_out(progress: dict[str, Any]) -> int:
    """How many trends a micro-batch has given."""
    told = progress.get("observedMetrics", {})
    return sum(int(row["rows"]) for name, row in told.items() if name.startswith("cetdsl answers"))


RACES = {race.__name__: race for race in (streaming, learning)}
