"""A driver that answers a stream of files, for tests that kill it: ``python killed_driver.py FOLDER STORE``."""

from __future__ import annotations

import sys
import tempfile
from typing import Any

from sessions import session

import cetdsl as cet

SCHEMA = "id int, t timestamp, key int, type string"
TEXT = "PATTERN SEQ(A, B, NOT C) WHERE [key] WITHIN 60 seconds SLIDE 30 seconds"
#: The setting that names what keeps state, and the class names of what Spark has for it.
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_STATE = "org.apache.spark.sql.execution.streaming.state"
STORES = {"default": f"{_STATE}.HDFSBackedStateStoreProvider", "RocksDB": f"{_STATE}.RocksDBStateStoreProvider"}


def answer(events: Any) -> Any:
    """The trends of a batch or of a stream."""
    return cet.pattern(events, TEXT, time="t").trends(columns=["id"])


def read(spark: Any, folder: str) -> Any:
    """The files of a folder as a stream, one in each micro-batch."""
    files = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(f"{folder}/events")
    return files.withWatermark("t", "20 seconds")


def write(answer: Any, folder: str) -> Any:
    """Starts writing an answer as files, from where the last run stopped until all files have been read."""
    writer = answer.writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
    return writer.trigger(availableNow=True).start(f"{folder}/answer")


if __name__ == "__main__":
    folder, store = sys.argv[1:]
    with tempfile.TemporaryDirectory() as scratch, session("classic", scratch) as spark:
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        spark.conf.set(PROVIDER, STORES[store])
        write(answer(read(spark, folder)), folder).awaitTermination()
