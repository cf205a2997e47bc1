"""Heart rates that keep rising, to more than twice an earlier one, while the person is passive.

The second query of the 2017 paper on complete event trends, over generated rates. The number of such trends is
exponential in the number of measurements, and counted exactly without listing a single one.
"""

import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from cetdsl.datasets import heart_rates

QUERY = """
    PATTERN SEQ(Activity a, Activity+ b[])
    WHERE [personID] AND b.rate < NEXT(b).rate AND a.rate*2 < b.rate AND b.type = 'passive'
    GROUP BY personID
    WITHIN 10 minutes SLIDE 1 minute
"""

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers run this Python too
spark = SparkSession.builder.appName("heart rate").config("spark.ui.showConsoleProgress", False).getOrCreate()
rates = heart_rates(spark, rows=10_000, persons=14, seed=17)

# The query speaks of a column called `type`, so the kind of event is told by another one.
rising = rates.pattern(QUERY, time="ts", type="kind")
print("Persons and ten minutes with the most trends")
rising.count_trends().orderBy(F.desc("count"), "personID", "window").show(10, truncate=False)

print("How that is computed")
print(rising.explain("physical"))

spark.stop()
