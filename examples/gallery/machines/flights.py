"""
Flights whose delay keeps growing
=================================

An aircraft flies several times a day. When each flight leaves later than the one before, something is wrong with the
plan, and passengers of the evening pay for the morning. The flights are those of New York City in January 2013.
"""

# %%
# Every row is a flight, so the events need no column of types: ``type=None``. A trend is three flights or more of one
# aircraft in one day, each with a longer delay than the one before.
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import cetdsl as cet
from cetdsl.datasets import flights

spark = SparkSession.builder.getOrCreate()
january = flights(spark).where("month(scheduled) = 1 AND tailnum IS NOT NULL").cache()
flight = cet.event("flight", type="Flight")
growing = (
    cet.repeat(flight, at_least=3)
    .where(flight.dep_delay < cet.next_(flight).dep_delay)
    .partition_by("tailnum")
    .group_by("carrier")
    .within("1 day", slide="1 day")
)
bound = january.pattern(growing, time="scheduled", type=None)
bound

# %%
# Which days were bad, and for whom? A trend may skip flights, so a bad day of one aircraft has many trends. They are
# counted without being listed.
days = bound.aggregate(trends=cet.count(), longest=cet.max(cet.length()), worst=cet.max(flight.dep_delay))
days.selectExpr("carrier", "date(window.start) AS day", "trends", "longest", "worst").orderBy(
    F.desc("trends"), "carrier"
).show(5)

# %%
# A bar for each day shows that delays come in waves.
cet.window_counts(bound)

# %%
# The three trends with the longest delays, flight by flight.
longest = bound.top_trends(3, by=cet.max(flight.dep_delay), columns=["scheduled", "origin", "dest", "dep_delay"])
longest.select("carrier", "tailnum", F.explode("trend.event").alias("flight")).select(
    "carrier", "tailnum", "flight.*"
).orderBy("tailnum", "scheduled").show(truncate=False)
