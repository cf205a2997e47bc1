"""
Machines that run hot
=====================

A sensor sends the temperature of each machine once a minute. Three readings in a row that rise, the last above the
limit, are an alarm; readings in a row, so none may be skipped.
"""

# %%
import datetime
import math
import random

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import cetdsl as cet

spark = SparkSession.builder.getOrCreate()
chance, rows = random.Random(2), []
for machine, period in (("press", 47), ("mill", 61), ("saw", 90)):
    for minute in range(240):
        heat = 70 + 12 * math.sin(2 * math.pi * minute / period) + chance.uniform(-2.5, 2.5)
        rows.append((datetime.datetime(2024, 5, 1, 6) + datetime.timedelta(minutes=minute), machine, round(heat, 1)))
readings = spark.createDataFrame(rows, "ts timestamp, machine string, celsius double").cache()

# %%
# With ``matching("strict")``, neighbouring events of a trend are readings of the machine that follow each other
# directly.
r = cet.event("r")
hot = (
    cet.repeat(r, at_least=3)
    .where(r.celsius < cet.next_(r).celsius, cet.last(r).celsius > 80)
    .matching("strict")
    .group_by("machine")
    .within("1 hour", slide="1 hour")
)
alarms = readings.pattern(hot, type=None)
alarms

# %%
alarms.aggregate(alarms=cet.count(), longest=cet.max(cet.length()), hottest=cet.max(r.celsius)).selectExpr(
    "machine", "window.start", "alarms", "longest", "hottest"
).orderBy("machine", "start").show(truncate=False)

# %%
cet.window_counts(alarms)

# %%
# Why does the saw have so few? ``diagnose()`` shows how many trends each demand rules out.
saw = readings.where(F.col("machine") == "saw").where("celsius < 79")
saw.pattern(
    cet.repeat(r, at_least=3).where(r.celsius < cet.next_(r).celsius, cet.last(r).celsius > 80), type=None
).diagnose()
