"""
Heart rates that climb at rest
==============================

A heart that beats faster and faster while its owner sits still, up to more than twice an earlier rate, asks for a
doctor. The number of such trends grows exponentially with the measurements, and says how pronounced the climb is.
"""

# %%
# The second query of the paper on complete event trends (SIGMOD 2017), for each person. ``a`` is the earlier rate,
# ``b[]`` are the rates that climb.
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import cetdsl as cet
from cetdsl.datasets import heart_rates

spark = SparkSession.builder.getOrCreate()
rates = heart_rates(spark, rows=8_000, persons=14, seed=17).cache()
climbing = rates.pattern(
    """
    PATTERN SEQ(Activity a, Activity+ b[])
    WHERE [personID] AND b.rate < NEXT(b).rate AND a.rate * 2 < b.rate AND b.type = 'passive'
    GROUP BY personID
    WITHIN 10 minutes SLIDE 5 minutes
    """,
    time="ts",
    type="kind",
)
climbing

# %%
# The count is exact, however large, and no trend is listed for it.
climbing.count_trends(number="string").selectExpr("personID", "window.start", "count").orderBy(
    F.desc(F.length("count")), F.desc("count")
).show(5, truncate=False)

# %%
cet.window_counts(climbing)

# %%
# How that is computed: one pass over sorted events, with an index for each comparison.
climbing.explain("physical")
