#!/usr/bin/env python3
"""Groups beyond a task: complete trends by Spark's joins, against the in-task road and by themselves.

``race`` lists the trends of one group of checks by joins and in tasks. ``beyond`` counts and samples those of a group
that a worker's memory limit has no room for, and ``orders`` those of stock prices under an order predicate. README.md
says what came out.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from events import Events
from graphs import CHAIN, JUMPS, RISING
from measure import WorkerMemory, processor_seconds
from pyspark.sql import DataFrame, SparkSession

import cetdsl as cet
from cetdsl import datasets

QUERIES = {"rising": RISING, "jumps": JUMPS}
MEBIBYTE = 2**20


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("race", "beyond", "orders"))
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000], help="events; checks are drawn on"
                        " a fifth as many accounts")  # fmt: skip
    parser.add_argument("--runs", type=int, default=2, help="runs of each contestant of the race, after a warm-up")
    parser.add_argument("--limit", default="1g", help="spark.executor.pyspark.memory of beyond and orders")
    parser.add_argument("--ask", nargs="+", choices=("count", "sample"), default=["count", "sample"])
    parser.add_argument("--completeness", choices=("maximal", "ends"), default="ends", help="of all but orders")
    parser.add_argument("--query", choices=QUERIES, default="jumps", help="what orders asks")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--memory", default="2500m", help="of the driver, which runs all tasks but Python's")
    parser.add_argument("--data", type=Path, help="keep the generated events here")
    options = parser.parse_args(arguments)
    logging.basicConfig(format="%(asctime)s %(message)s", stream=sys.stderr)
    logging.getLogger("cetdsl.joins").setLevel(logging.INFO)
    with tempfile.TemporaryDirectory() as folder:
        spark = session(options, Path(folder))
        events = Events(spark, options.data or Path(folder) / "data", 1.0)
        for rows in options.rows:
            if options.what == "race":
                race(checks(events, rows), options.completeness, options.runs, Path(folder))
            elif options.what == "beyond":
                beyond(checks(events, rows), CHAIN, options.completeness, options.ask, Path(folder))
            else:
                beyond(prices(events, rows), QUERIES[options.query], "ends", options.ask, Path(folder))
        spark.stop()
    return 0


def session(options: argparse.Namespace, folder: Path) -> SparkSession:
    log = folder / "log"
    log.mkdir()
    builder = SparkSession.builder.master(f"local[{options.cores}]").appName("joined trends")
    settings = {
        "spark.driver.memory": options.memory,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.dir": log.as_uri(),
    }
    if options.what != "race":
        settings["spark.executor.pyspark.memory"] = options.limit
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def checks(events: Events, rows: int) -> DataFrame:
    """Checks between random accounts, as in a row of the ICPP'21 paper: 2.5 checks may follow one on average."""
    made = lambda: datasets.check_deposits(events.spark, rows, accounts=rows // 5, not_covered=1, seconds=1)  # noqa: E731
    return events.saved(f"checks-{rows}", made)


def prices(events: Events, rows: int) -> DataFrame:
    """Prices between 9 and 11 by chance, of one stock."""
    made = lambda: datasets.stock_prices(  # noqa: E731
        events.spark, rows, companies=1, prices="uniform", between=(9, 11), digits=12, seconds=1
    )
    return events.saved(f"prices-{rows}", made)


def race(df: DataFrame, reading: str, runs: int, folder: Path) -> None:
    """All columns of all complete trends, into Spark's noop sink, by joins and in tasks in turn."""

    def listed(algorithm: str) -> Callable[[], object]:
        asked = cet.pattern(df, CHAIN, time="ts", type="kind")
        return lambda: asked.complete_trends(reading, algorithm=algorithm).write.format("noop").mode("overwrite").save()

    for turn in range(runs + 1):
        for algorithm in ("auto", "joins"):
            told = measured(listed(algorithm), folder)
            print(json.dumps({"rows": df.count(), "turn": turn, "algorithm": algorithm, **told}), flush=True)


def beyond(df: DataFrame, query: Any, reading: str, asked_for: Sequence[str], folder: Path) -> None:
    """Counts trends, and draws 100 of them, where the worker's limit has no room for the group."""
    asked, answer = cet.pattern(df, query, time="ts", type="kind"), {}

    def count() -> None:
        answer["count"] = str(asked.count_complete_trends(reading).first()[0])

    def sample() -> None:
        drawn = asked.sample_trends(100, seed=1, completeness=reading, columns=["ts"]).collect()
        answer["sample"] = [len(row.trend) for row in drawn]

    for name in asked_for:
        told = measured({"count": count, "sample": sample}[name], folder)
        print(json.dumps({"rows": df.count(), "asked": name, name: answer[name], **told}), flush=True)


def measured(action: Callable[[], object], folder: Path) -> dict[str, Any]:
    """Seconds, of the clock and of processors, and the most memory that one task of Spark or one worker took."""
    begun = time.time()
    used = processor_seconds()
    with WorkerMemory(sampled=False) as memory:
        start = time.perf_counter()
        action()
        took = time.perf_counter() - start
    return {
        "seconds": round(took, 1),
        "processor_seconds": round(processor_seconds() - used, 1),
        "task_mib": round(most_of_a_task(folder, begun) / MEBIBYTE),
        "worker_mb": round(memory.largest),
    }


def most_of_a_task(folder: Path, since: float) -> int:
    """The most bytes that joins, sorts and aggregations of one task held at a time, as Spark's event log tells."""
    most = 0
    time.sleep(1)  # until Spark has written the last events
    for file in (folder / "log").iterdir():
        for line in file.read_text(encoding="utf-8").splitlines():
            if line.startswith('{"Event":"SparkListenerTaskEnd"') and line.endswith("}"):
                task = json.loads(line)
                if task["Task Info"]["Finish Time"] >= since * 1000:
                    most = max(most, task["Task Metrics"]["Peak Execution Memory"])
    return most


if __name__ == "__main__":
    sys.exit(main())
