"""A stream of which a process is killed at any time, and which goes on, gives nothing twice and loses nothing.

Each test runs two streams at the same time, one by each store of state, and kills what both of them need, or each its
own. By the default store events are kept by window, by RocksDB each of them once. ``CETDSL_KILLS=20`` kills the driver
twenty times.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import killed_driver
import pytest
from killed_driver import STORES
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

#: How often a driver is killed while it reads one stream, and of how many files that is, each a micro-batch.
KILLS = int(os.environ.get("CETDSL_KILLS", "1"))
FILES = KILLS + 6


def write_events(spark: Any, folder: Path) -> None:
    """Writes files of events of a few keys, and a last one behind all windows."""
    choose, begin = random.Random(5), datetime(2020, 1, 1)
    for number in range(FILES):
        times = (begin + timedelta(seconds=choose.uniform(10 * number - 15, 10 * number + 15)) for _ in range(30))
        rows = [(30 * number + place, at, choose.randrange(8), choose.choice("ABBC")) for place, at in enumerate(times)]
        if number == FILES - 1:
            rows.append((-1, begin + timedelta(days=1), -1, "Z"))
        part = spark.createDataFrame(rows, killed_driver.SCHEMA).toPandas()
        path = folder / "events" / f"{number:03}.parquet"
        path.parent.mkdir(exist_ok=True)
        part.to_parquet(path, coerce_timestamps="us")
        os.utime(path, (1_600_000_000 + number,) * 2)


def judge(spark: Any, folder: Path) -> None:
    """Compares what the streams gave with what a batch gives over the same files."""
    events = spark.read.schema(killed_driver.SCHEMA).parquet(str(folder / "events"))
    expected = Counter(map(str, killed_driver.answer(events).collect()))
    assert len(expected) > 50
    for store in STORES:
        assert Counter(map(str, spark.read.parquet(str(folder / store / "answer")).collect())) == expected, store


# The driver -----------------------------------------------------------------------------------------------------------


def start(folder: Path) -> subprocess.Popen[bytes]:
    """Starts a driver in a group of its own, with its JVM and its workers."""
    script = [sys.executable, killed_driver.__file__, str(folder)]
    return subprocess.Popen(script, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def committed(folder: Path) -> list[int]:
    """How many micro-batches each stream has committed."""
    return [len(list((folder / store / "checkpoint" / "commits").glob("[0-9]*"))) for store in STORES]


@pytest.mark.classic
def test_a_killed_driver_goes_on_where_it_was(spark: Any, tmp_path: Path) -> None:
    write_events(spark, tmp_path)
    choose, killed = random.Random(6), 0
    for number in range(KILLS):
        driver = start(tmp_path)
        goal = max(min(committed(tmp_path)), (FILES - 2) * (number + 1) // (KILLS + 1))
        until = time.monotonic() + 120
        while min(committed(tmp_path)) < goal and driver.poll() is None and time.monotonic() < until:
            time.sleep(0.02)
        time.sleep(choose.uniform(0, 1))
        killed += driver.poll() is None
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    assert killed == KILLS
    assert 0 < min(committed(tmp_path)) < FILES
    assert start(tmp_path).wait(timeout=240) == 0
    judge(spark, tmp_path)


# Workers and executors ------------------------------------------------------------------------------------------------


def kill_workers() -> None:
    """Kills the Python workers of an executor, this one among them, and the process that starts them."""
    os.killpg(os.getpgrp(), signal.SIGKILL)


def kill_executor() -> None:
    """Kills the JVM that a Python worker works for."""
    starts_workers = os.getppid()
    executor = int(Path(f"/proc/{starts_workers}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(executor, signal.SIGKILL)
    time.sleep(60)  # this worker ends with it, and must give nothing before


def killing(kills: dict[int, Callable[[], None]], folder: str) -> Callable[[int], bool]:
    """Returns a filter that lets all rows through, and kills something when it first sees each of some numbers."""

    def lets_through(number: int) -> bool:
        if number in kills:
            try:
                Path(folder, str(number)).touch(exist_ok=False)
            except FileExistsError:
                return True
            kills[number]()
        return True

    return lets_through


@pytest.mark.cluster
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks Linux whose child a process is")
def test_a_cluster_goes_on_without_a_killed_process(spark: Any, tmp_path: Path) -> None:
    write_events(spark, tmp_path)
    first_of_trend = F.col("trend")[0].event.id
    expected = killed_driver.answer(spark.read.schema(killed_driver.SCHEMA).parquet(str(tmp_path / "events")))
    listed = sorted({row[0] for row in expected.select(first_of_trend).collect()})

    def answered(store: str) -> DataFrame:
        marks = tmp_path / store / "killed"
        marks.mkdir(parents=True)

        def through(rows: DataFrame, number: Any, kills: dict[int, Callable[[], None]]) -> DataFrame:
            return rows.filter(F.udf(killing(kills, str(marks)), "boolean", useArrow=False)(number))

        # While events go into state, and while trends that kernels have listed are written.
        events = killed_driver.read(spark, str(tmp_path))
        before = through(events, F.col("id"), {65: kill_workers, 161: kill_executor})
        after = {listed[len(listed) // 3]: kill_executor, listed[-1]: kill_workers}
        return through(killed_driver.answer(before), first_of_trend, after)

    killed_driver.run(spark, str(tmp_path), answered)
    assert [len(list((tmp_path / store / "killed").iterdir())) for store in STORES] == [4, 4]
    judge(spark, tmp_path)
