"""Rising departure delays at New York's airports on a live stream: each day's flights move into a folder as a file.

``python examples/streaming_flights.py FOLDER`` keeps flights, answers and the stream's state there, and each run adds
three days of 2013: it goes on where the last one was stopped, whose latest day is answered only now. Without a folder
it takes a new one. The flights are real ones: ``pip install 'cetdsl[demo]'``.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import cetdsl as cet
from cetdsl import datasets

QUERY = """
    RETURN COUNT(*) AS rises, MAX(later.dep_delay) AS minutes
    PATTERN SEQ(Flight first, Flight+ later[])
    WHERE [dest] AND first.dep_delay < later.dep_delay AND later.dep_delay < NEXT(later).dep_delay
    GROUP BY origin
    WITHIN 1 day SLIDE 1 day
"""
DAYS = 3
FLIGHTS = "scheduled timestamp, origin string, dest string, dep_delay bigint"

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("folder", nargs="?", help="where files, answers and checkpoint go; a new folder by default")
folder = Path(parser.parse_args().folder or tempfile.mkdtemp(prefix="streaming-flights-"))

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers run this Python too
# Each task keeps state of its own and writes it down for every file, so there are not Spark's 200 of them.
settings = {"spark.ui.showConsoleProgress": "false", "spark.sql.shuffle.partitions": "2"}
spark = SparkSession.builder.appName("streaming flights").config(map=settings).getOrCreate()
flights, answers, checkpoint = (str(folder / name) for name in ("flights", "answers", "checkpoint"))

# Spark writes a file elsewhere and moves it when it is complete, so that no stream reads half of one.
known = len(list(folder.glob("flights/*.parquet")))
departed = datasets.flights(spark).where("dep_delay IS NOT NULL").withColumn("scheduled", F.to_timestamp("scheduled"))
day = F.dayofyear("scheduled")
some = departed.select("scheduled", "origin", "dest", "dep_delay").where(day > known).where(day <= known + DAYS).cache()
for number in range(known + 1, known + DAYS + 1):
    some.where(day == number).coalesce(1).write.mode("append").parquet(flights)

# The query is that of a batch; the watermark says how long a stream waits for late flights.
stream = spark.readStream.schema(FLIGHTS).option("maxFilesPerTrigger", 1).parquet(flights)
rising = stream.withWatermark("scheduled", "1 hour").pattern(QUERY, time="scheduled", type=None).aggregate()
writer = rising.writeStream.format("parquet").option("checkpointLocation", checkpoint)
# Without this trigger it waits for further files until it is stopped.
cet.watch(writer.trigger(availableNow=True).start(answers))

print(f"Rising delays by airport, out of {known + DAYS} days")
spark.read.parquet(answers).orderBy(F.desc("window"), "origin").show(truncate=False)

spark.stop()
