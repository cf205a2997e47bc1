"""
Where visitors of a shop drop off
=================================

A funnel: visitors see a product, put it into the cart, go to checkout, and buy. How many reach each step, and who
filled a cart and never came back?
"""

# %%
# The log of 200 visitors is made up: each visitor goes on to the next step with some probability.
import datetime
import random

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import cetdsl as cet

spark = SparkSession.builder.getOrCreate()
chance, rows = random.Random(11), []
for visitor in range(200):
    at = datetime.datetime(2024, 5, 1 + visitor % 7, chance.randint(8, 20), chance.randint(0, 59))
    for step, likely in (("view", 1.0), ("cart", 0.55), ("checkout", 0.6), ("purchase", 0.75)):
        if chance.random() > likely:
            break
        rows.append((at, f"v{visitor:03}", step, round(chance.uniform(5, 90), 2)))
        at += datetime.timedelta(minutes=chance.choice([2, 7, 15, 50, 80]))
clicks = spark.createDataFrame(rows, "ts timestamp, visitor string, action string, amount double").cache()

# %%
# Each step is a query; together they read the events once. A visitor who has some trend of a step has reached it.
steps = ["view", "cart", "checkout", "purchase"]
funnel = clicks.patterns(
    {
        f"{n}. {step}": cet.seq(*steps[:n]).group_by("visitor").returning(n=cet.count())
        for n, step in enumerate(steps, 1)
    },
    type="action",
)
funnel

# %%
reached = funnel.aggregate().groupBy("query").agg(F.count("*").alias("visitors")).orderBy("query").cache()
reached.show()

# %%
import plotly.graph_objects as go

figures = reached.collect()
go.Figure(go.Funnel(y=[row.query for row in figures], x=[row.visitors for row in figures]))

# %%
# Who filled a cart and bought nothing within the next hour? The part ``SEQ(cart, NOT purchase)`` has a length of its
# own, so the NOT looks for an hour from the cart on.
abandoned = clicks.pattern(
    "PATTERN SEQ(view, SEQ(cart, NOT purchase) WITHIN 1 hour) WHERE [visitor] GROUP BY DATE(ts) AS day", type="action"
)
answer = abandoned.aggregate(carts=cet.count("cart"), worth=cet.sum(cet.event("cart").amount))
answer.withColumn("worth", F.round("worth", 2)).orderBy("day").show()

# %%
# Some of these carts, in time.
cet.timeline(abandoned, 12, columns=["action", "amount"])
