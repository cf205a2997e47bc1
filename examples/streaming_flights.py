"""Growing departure delays on a live stream: each day a file of flights moves into a folder.

``python examples/streaming_flights.py FOLDER`` keeps flights, answers and the stream's state there, and each run adds
four days: it goes on where the last one was stopped, whose latest day is answered only now. Without a folder it takes a
new one. The flights are generated.
"""

import os
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import cetdsl as cet

QUERY = """
    PATTERN SEQ(Flight first, Flight+ later[])
    WHERE [tailnum] AND first.delay < later.delay AND later.delay < NEXT(later).delay
    GROUP BY carrier
    WITHIN 1 day SLIDE 1 day
"""
DAYS, AIRCRAFT, A_DAY = 4, 20, 6
FLIGHTS = "scheduled timestamp, carrier string, tailnum string, delay bigint"

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers run this Python too
# Each task keeps state of its own and writes it down for every file, so there are not Spark's 200 of them.
settings = {"spark.ui.showConsoleProgress": "false", "spark.sql.shuffle.partitions": "4"}
spark = SparkSession.builder.appName("streaming flights").config(map=settings).getOrCreate()
folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="streaming-flights-"))
flights, answers, checkpoint = (str(folder / name) for name in ("flights", "answers", "checkpoint"))

# Spark writes a file elsewhere and moves it when it is complete, so that no stream reads half of one.
known = len(list(folder.glob("flights/*.parquet")))
for day in range(known, known + DAYS):
    aircraft, turn = F.floor(F.col("id") / A_DAY).cast("int"), F.col("id") % A_DAY
    of_day = spark.range(AIRCRAFT * A_DAY).select(
        F.timestamp_seconds(F.lit(1_767_225_600 + 86_400 * day) + 3 * 3_600 * turn).alias("scheduled"),
        F.element_at(F.array(*map(F.lit, ("AA", "B6", "UA"))), 1 + aircraft % 3).alias("carrier"),
        F.format_string("N%03d", aircraft).alias("tailnum"),
        (F.pmod(F.xxhash64("id", F.lit(day)), F.lit(90)) - 15).alias("delay"),
    )
    of_day.coalesce(1).write.mode("append").parquet(flights)

# The query is that of a batch; the watermark says how long a stream waits for late flights.
stream = spark.readStream.schema(FLIGHTS).option("maxFilesPerTrigger", 1).parquet(flights)
growing = stream.withWatermark("scheduled", "1 hour").pattern(QUERY, time="scheduled", type=None).count_trends()
writer = growing.writeStream.format("parquet").option("checkpointLocation", checkpoint)
# Without this trigger it waits for further files until it is stopped.
cet.watch(writer.trigger(availableNow=True).start(answers))

print(f"Days with growing delays, out of {known + DAYS}")
spark.read.parquet(answers).orderBy("window", "carrier").show(truncate=False)

spark.stop()
