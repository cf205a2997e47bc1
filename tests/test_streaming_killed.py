"""A stream of which a process is killed at any time, and which goes on, gives nothing twice and loses nothing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import killed_driver
import pytest
from killed_driver import PROVIDER, STORES
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

#: How often a driver is killed while it reads one stream, and of how many files that is, each a micro-batch.
KILLS = int(os.environ.get("CETDSL_KILLS", "2"))
FILES = max(12, KILLS + 10)


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
    """Compares what a stream gave with what a batch gives over the same files."""
    events = spark.read.schema(killed_driver.SCHEMA).parquet(str(folder / "events"))
    expected = Counter(map(str, killed_driver.answer(events).collect()))
    answer = spark.read.parquet(str(folder / "answer"))
    assert Counter(map(str, answer.collect())) == expected
    assert len(expected) > 100


# The driver -----------------------------------------------------------------------------------------------------------


def start(folder: Path, store: str) -> subprocess.Popen[bytes]:
    """Starts a driver in a group of its own, with its JVM and its workers."""
    script = [sys.executable, killed_driver.__file__, str(folder), store]
    return subprocess.Popen(script, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def committed(folder: Path) -> int:
    """How many micro-batches have been committed."""
    return len(list((folder / "checkpoint" / "commits").glob("[0-9]*")))


@pytest.mark.classic
@pytest.mark.parametrize("store", STORES)
def test_a_killed_driver_goes_on_where_it_was(spark: Any, tmp_path: Path, store: str) -> None:
    write_events(spark, tmp_path)
    choose, killed = random.Random(6), 0
    for number in range(KILLS):
        driver = start(tmp_path, store)
        goal = max(committed(tmp_path), (FILES - 2) * (number + 1) // (KILLS + 1))
        until = time.monotonic() + 120
        while committed(tmp_path) < goal and driver.poll() is None and time.monotonic() < until:
            time.sleep(0.02)
        time.sleep(choose.uniform(0, 1))
        killed += driver.poll() is None
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    assert killed == KILLS
    assert 0 < committed(tmp_path) < FILES
    assert start(tmp_path, store).wait(timeout=240) == 0
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


def killing(kill: Callable[[], None], ids: set[int], folder: str) -> Callable[[int], bool]:
    """Returns a filter that lets all rows through, and kills when it first sees each of some numbers."""

    def lets_through(number: int) -> bool:
        if number in ids:
            try:
                Path(folder, str(number)).touch(exist_ok=False)
            except FileExistsError:
                return True
            kill()
        return True

    return lets_through


@pytest.fixture(params=STORES)
def stored(request: pytest.FixtureRequest, spark: Any) -> Iterator[None]:
    """A session of which streams keep their state in each of the stores."""
    before = spark.conf.get(PROVIDER)
    spark.conf.set(PROVIDER, STORES[request.param])
    yield
    spark.conf.set(PROVIDER, before)


@pytest.mark.cluster
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks Linux whose child a process is")
@pytest.mark.parametrize("kill", [kill_workers, kill_executor])
@pytest.mark.usefixtures("stored")
def test_a_cluster_goes_on_without_a_killed_process(spark: Any, tmp_path: Path, kill: Callable[[], None]) -> None:
    write_events(spark, tmp_path)
    marks = tmp_path / "killed"
    marks.mkdir()

    def through(rows: DataFrame, number: Any, ids: set[int]) -> DataFrame:
        return rows.filter(F.udf(killing(kill, ids, str(marks)), "boolean", useArrow=False)(number))

    # While events go into state, and while trends that kernels have listed are written.
    before = through(killed_driver.read(spark, str(tmp_path)), F.col("id"), {95, 221})
    first_of_trend = F.col("trend")[0].event.id
    expected = killed_driver.answer(spark.read.schema(killed_driver.SCHEMA).parquet(str(tmp_path / "events")))
    listed = sorted({row[0] for row in expected.select(first_of_trend).collect()})
    after = through(killed_driver.answer(before), first_of_trend, {listed[len(listed) // 3], listed[-1]})
    killed_driver.write(after, str(tmp_path)).awaitTermination()
    assert len(list(marks.iterdir())) == 4
    judge(spark, tmp_path)
