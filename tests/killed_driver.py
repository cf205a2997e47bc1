"""A driver that answers streams of files, for tests that kill it: ``python killed_driver.py FOLDER``."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from typing import Any

from modes import settings
from sessions import session

import cetdsl as cet

SCHEMA = "id int, t timestamp, key int, type string"
TEXT = "PATTERN SEQ(A, B, NOT C) WHERE [key] WITHIN 60 seconds SLIDE 30 seconds"
#: The setting that names the class of Spark's state store, and the two classes that there are.
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_STATE = "org.apache.spark.sql.execution.streaming.state"
STORES = {"default": f"{_STATE}.HDFSBackedStateStoreProvider", "RocksDB": f"{_STATE}.RocksDBStateStoreProvider"}
#: What each store keeps, as ``cetdsl.state`` names it: each open window with its events, or each event once.
KEPT = {"default": "windows", "RocksDB": "events"}


def answer(events: Any) -> Any:
    """The trends of a batch or of a stream."""
    return cet.pattern(events, TEXT, time="t").trends(columns=["id"])


def read(spark: Any, folder: str) -> Any:
    """The files of a folder as a stream, one in each micro-batch."""
    files = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(f"{folder}/events")
    return files.withWatermark("t", "20 seconds")


def run(spark: Any, folder: str, answered: Callable[[str], Any]) -> None:
    """Answers a stream into files, from where the last run stopped until all events are read.

    Two streams run at the same time, one with each state store and its way of keeping events.
    """
    running = []
    for store, provider in STORES.items():
        with settings(spark, {PROVIDER: provider, "spark.sql.shuffle.partitions": "2", "cetdsl.state": KEPT[store]}):
            writer = answered(store).writeStream.format("parquet")
            writer = writer.option("checkpointLocation", f"{folder}/{store}/checkpoint").trigger(availableNow=True)
            running.append(writer.start(f"{folder}/{store}/answer"))
    for query in running:
        query.awaitTermination()


if __name__ == "__main__":
    [folder] = sys.argv[1:]
    with tempfile.TemporaryDirectory() as scratch, session("classic", scratch) as spark:
        run(spark, folder, lambda store: answer(read(spark, folder)))
