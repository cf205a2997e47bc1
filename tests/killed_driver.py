"""A driver that answers a stream of files, for the test that kills it: ``python killed_driver.py FOLDER``."""

from __future__ import annotations

import sys
import tempfile
from typing import Any

from sessions import session

import cetdsl as cet

SCHEMA = "id int, t timestamp, key int, type string"
TEXT = "PATTERN SEQ(A, B, NOT C) WHERE [key] WITHIN 60 seconds SLIDE 30 seconds"


def answer(events: Any) -> Any:
    """The trends of a batch or of a stream."""
    return cet.pattern(events, TEXT, time="t").trends(columns=["id"])


if __name__ == "__main__":
    folder = sys.argv[1]
    with tempfile.TemporaryDirectory() as scratch, session("classic", scratch) as spark:
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        files = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(f"{folder}/events")
        writer = answer(files.withWatermark("t", "20 seconds")).writeStream.format("parquet")
        writer = writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)
        writer.start(f"{folder}/answer").awaitTermination()
