"""
Rings of bad checks
===================

Check kiting moves money that is not there: each account draws a check on the next one, and the last pays the first. No
check is covered, but for a while every balance looks right.
"""

# %%
# A chain is any number of checks that are not covered, each drawn on the account that the one before it was paid into.
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import cetdsl as cet
from cetdsl.datasets import check_deposits

spark = SparkSession.builder.getOrCreate()
checks = check_deposits(spark, rows=700, accounts=40, seed=17)
check = cet.event("check", "type = 'notcovered' AND source != destination")
chain = cet.kleene(check).where(check.destination == cet.next_(check).source).within("6 hours", slide="6 hours")
chains = checks.pattern(chain, time="ts", type="kind")
chains

# %%
# A chain that is a part of a longer one adds nothing new. How many *complete* chains are there?
chains.count_complete_trends().selectExpr("window.start", "count").orderBy("start").show(truncate=False)

# %%
# A ring begins and ends at the same account: a condition on the first and the last check.
ring = chain.where(cet.first(check).source == cet.last(check).destination, cet.length() >= 3)
rings = checks.pattern(ring, time="ts", type="kind")
found = rings.trends(columns=["ts", "source", "destination", "amount"])
accounts = F.col("trend.event.source")
simple = found.where(F.size(F.array_distinct(accounts)) == F.size(accounts))
simple.select(accounts.alias("accounts"), F.array_min("trend.event.amount").alias("smallest")).orderBy(
    F.size("accounts"), "accounts"
).show(5, truncate=False)

# %%
# The chains of the events as a graph: vertices are checks, and edges lead to the checks that may come next. GraphFrames
# and other libraries can use these two DataFrames.
graph = chains.graph()
graph

# %%
graph.edges.groupBy("src").count().groupBy("count").agg(F.count("*").alias("checks")).orderBy("count").show(5)
