"""
Requests that are tried again
=============================

A service calls another one, and tries again when it times out. How often does that help, and how long does it take?
"""

# %%
import datetime
import random

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import cetdsl as cet

spark = SparkSession.builder.getOrCreate()
chance, rows = random.Random(21), []
for number in range(150):
    at = datetime.datetime(2024, 5, 1, 12) + datetime.timedelta(seconds=7 * number)
    service = chance.choice(["search", "billing"])
    for attempt in range(4):
        outcome = "timeout" if chance.random() < (0.35 if service == "search" else 0.6) else "ok"
        rows.append((at, f"r{number:03}", service, outcome, attempt))
        if outcome == "ok":
            break
        at += datetime.timedelta(seconds=2**attempt)
calls = spark.createDataFrame(rows, "ts timestamp, request string, service string, outcome string, attempt int").cache()

# %%
# Attempts of one request follow each other by number, so a trend skips none; ``[request]`` keeps it to one request.
helped = cet.parse("""
    PATTERN SEQ(EVENT(fail, outcome = 'timeout')+, EVENT(done, outcome = 'ok'))
    WHERE [request] AND fail.attempt + 1 = NEXT(fail).attempt AND fail.attempt + 1 = NEXT(done).attempt
      AND FIRST(fail).attempt = 0
    GROUP BY service
""")
bound = calls.pattern(helped, type=None)
bound

# %%
bound.aggregate(
    requests=cet.count(), retries=cet.count("fail"), attempts=cet.avg(cet.length()), most=cet.max(cet.length())
).orderBy("service").show()

# %%
# How long the answer took, by the number of retries.
took = bound.trends(columns=["ts"], times=True).select(
    "service",
    (F.size("trend") - 1).alias("retries"),
    (F.unix_timestamp("last_time") - F.unix_timestamp("first_time")).alias("seconds"),
)
took.groupBy("service", "retries").agg(F.count("*").alias("requests"), F.max("seconds").alias("seconds")).orderBy(
    "service", "retries"
).show()

# %%
# These are the requests for which no retry helped: four timeouts, and no success after them.
failed = calls.pattern(
    """
    PATTERN SEQ(EVENT(fail, outcome = 'timeout'){4}, NOT EVENT(done, outcome = 'ok'))
    WHERE [request]
    GROUP BY service
    """,
    type=None,
)
failed.count_trends().orderBy("service").show()

# %%
cet.timeline(failed, columns=["attempt"])
