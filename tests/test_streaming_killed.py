"""A driver that is killed at any time and started again gives nothing twice and loses nothing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import killed_driver
import pytest

#: So many files, each a micro-batch, and how often the driver is killed while it reads them.
FILES, KILLS = 12, int(os.environ.get("CETDSL_KILLS", "2"))


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


def start(folder: Path) -> subprocess.Popen[bytes]:
    """Starts a driver in a group of its own, with its JVM and its workers."""
    script = [sys.executable, killed_driver.__file__, str(folder)]
    return subprocess.Popen(script, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def committed(folder: Path) -> int:
    """How many micro-batches have been committed."""
    return len(list((folder / "checkpoint" / "commits").glob("[0-9]*")))


@pytest.mark.classic
def test_a_killed_driver_goes_on_where_it_was(spark: Any, tmp_path: Path) -> None:
    write_events(spark, tmp_path)
    choose, killed = random.Random(6), 0
    for number in range(KILLS):
        driver = start(tmp_path)
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
    assert start(tmp_path).wait(timeout=240) == 0
    events = spark.read.schema(killed_driver.SCHEMA).parquet(str(tmp_path / "events"))
    expected = Counter(map(str, killed_driver.answer(events).collect()))
    answer = spark.read.parquet(str(tmp_path / "answer"))
    assert Counter(map(str, answer.collect())) == expected
    assert len(expected) > 100
