"""Prices that keep rising, each company by itself: all of a window's trends, counted exactly.

The third query of the 2017 paper on complete event trends, over generated trades, once as text and once in Python.
"""

import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import cetdsl as cet
from cetdsl.datasets import stock_prices

TEXT = """
    PATTERN Stock+ s[]
    WHERE [companyID] AND s.price < NEXT(s).price
    WITHIN 1 hour SLIDE 30 minutes
"""

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers run this Python too
spark = SparkSession.builder.appName("stock trends").config("spark.ui.showConsoleProgress", False).getOrCreate()
trades = stock_prices(spark, rows=10_000, companies=20, seed=17)

print("Rising trends of all companies together, by the hour")
trades.pattern(TEXT, time="ts", type="kind").count_trends().orderBy("window").show(5, truncate=False)

print("The same, company by company, with more to know about each")
s = cet.event("s", type="Stock")
rising = (
    cet.kleene(s)
    .where(s.price < cet.next_(s).price)
    .group_by("companyID", "sector")
    .within("1 hour", slide="30 minutes")
)
answer = trades.pattern(rising, time="ts", type="kind").aggregate(
    trends=cet.count(),
    longest=cet.max(cet.length()),
    mean_length=cet.avg(cet.length()),
    mean_price=cet.avg(s.price),
    highest=cet.max(s.price),
)
answer.orderBy(F.desc("trends"), "companyID", "window").show(10, truncate=False)

spark.stop()
