"""
Alarms that nobody answers
==========================

What does *not* happen is an event too: an alarm that nobody acknowledges within a quarter of an hour.
"""

# %%
import datetime
import random

from pyspark.sql import SparkSession

import cetdsl as cet

spark = SparkSession.builder.getOrCreate()
chance, rows, begin = random.Random(8), [], datetime.datetime(2024, 5, 1)
for number in range(40):
    at = begin + datetime.timedelta(minutes=36 * number + chance.randint(0, 20))
    station = chance.choice(["north", "south", "east"])
    rows.append((at, station, "alarm", chance.choice(["low", "high"])))
    if chance.random() < 0.7:
        rows.append((at + datetime.timedelta(minutes=chance.choice([1, 4, 9, 30])), station, "ack", None))
log = spark.createDataFrame(rows, "ts timestamp, station string, type string, level string").cache()

# %%
# ``NOT ack`` at the end of the pattern forbids an ``ack`` within the length of ``WITHIN``, from the alarm on.
silent = cet.parse("""
    PATTERN SEQ(alarm, NOT ack)
    WHERE [station] AND alarm.level = 'high'
    GROUP BY station
    WITHIN 15 minutes
""")
unanswered = log.pattern(silent)
unanswered

# %%
unanswered.count_trends().orderBy("station").show()

# %%
unanswered.trends(columns=["ts", "level"], layout="wide").orderBy("alarm_ts").show(5, truncate=False)

# %%
# Two alarms in a row with no answer between them are worse.
twice = log.pattern("PATTERN SEQ(alarm a, NOT ack, alarm b) WHERE [station] GROUP BY station WITHIN 4 hours")
cet.timeline(twice, 15, columns=["level"])
