# ruff: noqa: F401, T201
import os
import sys

os.environ["PYSPARK_PYTHON"] = sys.executable  # Spark's workers are this Python

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import cetdsl as cet

spark = SparkSession.builder.getOrCreate()


def listed(bound, one_at_a_time=False):
    """Print one line per trend, or per match: the variable and the time of each of its events."""
    rows = (bound.matches if one_at_a_time else bound.trends)(columns=["t"]).collect()
    for words in sorted([f"{b.variable}{b.event.t}" for b in row.trend] for row in rows):
        print(*words)
