"""Aircraft whose departure delay keeps growing within a day, on the flights of New York City in 2013.

Needs the extra ``demo``: pip install 'cetdsl[demo]'. The command ``cetdsl demo`` shows the same with more words.
"""

import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import cetdsl as cet
from cetdsl.datasets import flights

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers run this Python too
spark = SparkSession.builder.appName("flights").config("spark.ui.showConsoleProgress", False).getOrCreate()

# `type=None` below says that every row is a flight, so no column needs to tell.
flight = cet.event("flight", type="Flight")
growing = (
    cet.repeat(flight, at_least=3)
    .where(flight.dep_delay < cet.next_(flight).dep_delay, flight.tailnum.is_not_null())
    .partition_by("tailnum")
    .group_by("carrier")
    .within("1 day", slide="1 day")
)
bound = flights(spark).cache().pattern(growing, time="scheduled", type=None)

print("Days with the most growing delays")
days = bound.aggregate(trends=cet.count(), longest=cet.max(cet.length()), worst=cet.max(flight.dep_delay))
days.orderBy(F.desc("trends"), F.desc("longest"), "carrier", "window").show(10, truncate=False)

print("The longest of these trends")
trends = bound.trends(columns=["scheduled", "origin", "dest", "dep_delay"])
longest = trends.orderBy(F.desc(F.size("trend")), F.desc(F.element_at("trend", -1)["event"]["dep_delay"]))
longest.select("carrier", "tailnum", F.col("trend.event").alias("flights")).show(5, truncate=False)

spark.stop()
