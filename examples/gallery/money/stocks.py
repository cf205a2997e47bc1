"""
Falling prices that recover
===========================

A V in a chart: a price falls several times in a row, and then rises above where the fall began. Charts have many of
them, in each other and beside each other.
"""

# %%
# The fall and the rise are parts of a sequence, each of any length. Prices in between may be skipped, so all Vs are
# found, not only those of prices that follow each other directly.
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import cetdsl as cet
from cetdsl.datasets import stock_prices

spark = SparkSession.builder.getOrCreate()
trades = stock_prices(spark, rows=600, companies=6, seed=4).cache()
text = """
PATTERN SEQ(Stock top, Stock+ down[], Stock+ up[])
WHERE top.price > NEXT(down).price
  AND down.price > NEXT(down).price AND down.price < NEXT(up).price AND up.price < NEXT(up).price
  AND LAST(up).price > FIRST(top).price
MATCHING NEXT
GROUP BY companyID
WITHIN 10 minutes
"""
vs = trades.pattern(text, time="ts", type="kind")
vs

# %%
# With ``MATCHING NEXT``, a trend takes the next price that continues the V. Without it, all subsets of a fall would
# count.
vs.count_trends().orderBy(F.desc("count"), "companyID").show()

# %%
# Twenty of them over time: point at a mark to see its price, drag to zoom in.
cet.timeline(vs, 20, columns=["price"])

# %%
# What is gained from the bottom to the last price, as plain Spark on the trends.
gain = vs.trends(columns=["price"], layout="wide").select(
    "companyID",
    F.size("down_price").alias("falls"),
    F.round(F.element_at("up_price", -1) / F.element_at("down_price", -1) - 1, 3).alias("gain"),
)
gain.groupBy("companyID").agg(
    F.count("*").alias("Vs"), F.max("falls").alias("falls"), F.max("gain").alias("gain")
).orderBy("companyID").show()
