"""Check kiting: chains of checks that are not covered, each drawn on the account that the one before was paid into.

The first query of the 2017 paper on complete event trends, over generated checks.
"""

import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from cetdsl.datasets import check_deposits

QUERY = """
    RETURN COUNT(*) AS chains, MAX(LENGTH) AS longest, MAX(c.amount) AS largest
    PATTERN Check+ c[]
    WHERE c.type = 'notcovered' AND c.destination = NEXT(c).source
    WITHIN 1 day SLIDE 10 minutes
"""

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers run this Python too
spark = SparkSession.builder.appName("check kiting").config("spark.ui.showConsoleProgress", False).getOrCreate()
checks = check_deposits(spark, rows=5_000, accounts=500, seed=17)

# The query speaks of a column called `type`, so the kind of event is told by another one.
chains = checks.pattern(QUERY, time="ts", type="kind")
print("Days, one beginning every ten minutes, with the most chains")
chains.aggregate().orderBy(F.desc("chains"), "window").show(10, truncate=False)

print("Five chains of five checks or more, within six hours")
suspicious = QUERY.replace("Check+", "Check{5,}").replace("1 day SLIDE 10 minutes", "6 hours SLIDE 6 hours")
trends = checks.pattern(suspicious, time="ts", type="kind").trends(limit=5, columns=["source", "destination", "amount"])
trends.select("window.start", F.col("trend.event").alias("checks")).show(truncate=False)

spark.stop()
