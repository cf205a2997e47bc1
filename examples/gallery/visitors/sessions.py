"""
Sessions: clicks with no long break
===================================

A session is a run of clicks of one user in which no two neighbours are more than half an hour apart. No window can say
that, for a session has no fixed length.
"""

# %%
import datetime
import random

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import cetdsl as cet

spark = SparkSession.builder.getOrCreate()
chance, rows = random.Random(5), []
for user in ("ann", "bob", "cid"):
    at = datetime.datetime(2024, 5, 1, 8)
    for _ in range(40):
        at += datetime.timedelta(minutes=chance.choice([1, 2, 3, 5, 8, 45, 240]))
        rows.append((at, user, chance.choice(["/home", "/search", "/product", "/cart"])))
clicks = spark.createDataFrame(rows, "ts timestamp, user string, page string").cache()

# %%
# Any run of clicks with short gaps is a trend. A session is a *complete* trend, which no longer one contains. The
# queries group by the day, which is computed from each click, so sessions end at midnight.
click = cet.event("click")
runs = cet.kleene(click).max_gap("30 minutes").matching("strict").group_by("user", day="date(ts)")
sessions = clicks.pattern(runs, type=None)
sessions

# %%
found = sessions.complete_trends(columns=["ts", "page"], times=True).cache()
found.select(
    "user",
    "first_time",
    F.size("trend").alias("clicks"),
    ((F.unix_timestamp("last_time") - F.unix_timestamp("first_time")) / 60).cast("int").alias("minutes"),
).orderBy("user", "first_time").show(8)

# %%
# Per user and day: how many sessions, and how long they are.
found.groupBy("user", "day").agg(
    F.count("*").alias("sessions"),
    F.round(F.avg(F.size("trend")), 1).alias("clicks"),
    F.max(F.size("trend")).alias("most"),
).orderBy("user", "day").show(8)

# %%
# The longest sessions of all.
found.select("user", "first_time", F.col("trend.event.page").alias("pages")).orderBy(
    F.desc(F.size("pages")), "user", "first_time"
).show(4, truncate=60)
