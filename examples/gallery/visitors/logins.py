"""
Passwords that are guessed
==========================

Many failed logins of one account within minutes, and then one that works, from an address that failed before: somebody
has guessed the password.
"""

# %%
import datetime
import random

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import cetdsl as cet

spark = SparkSession.builder.getOrCreate()
chance, rows, begin = random.Random(3), [], datetime.datetime(2024, 5, 1, 9)
for account in ("ann", "bob", "cid", "dora", "eve"):
    for _ in range(12):  # everyday life: a typing error now and then
        rows.append(
            (begin + datetime.timedelta(minutes=chance.randint(0, 600)), account, "10.0.0.5", chance.random() > 0.2)
        )
for second in range(0, 160, 20):  # the attack
    rows.append((begin + datetime.timedelta(hours=3, seconds=second), "dora", "203.0.113.9", False))
rows.append((begin + datetime.timedelta(hours=3, minutes=3), "dora", "203.0.113.9", True))
logins = spark.createDataFrame(rows, "ts timestamp, account string, address string, worked boolean").cache()

# %%
# ``[account, address]`` keeps a trend within one account and one address. Variables have conditions in place of types.
guessed = cet.parse("""
    PATTERN SEQ(EVENT(fails, NOT worked){5,}, EVENT(enters, worked))
    WHERE [account, address]
    MATCHING NEXT
    WITHIN 10 minutes
""")
bound = logins.pattern(guessed)
bound

# %%
# With ``MATCHING NEXT`` a trend skips no failure, so there is one trend for each failure with which it can begin. The
# complete trend, which no longer one contains, is the alert.
alerts = bound.complete_trends(columns=["ts"], times=True)
alerts.selectExpr("account", "address", "first_time", "last_time", "size(trend) - 1 AS failures").show(truncate=False)

# %%
cet.timeline(bound, columns=["address", "worked"])

# %%
# A mere count of failures cannot tell the attack from everyday life, unless somebody knows where to draw the line.
logins.groupBy("account").agg(F.count_if(~F.col("worked")).alias("failures")).orderBy("account").show()
