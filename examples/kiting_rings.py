"""Kiting rings: chains of checks that are not covered and that lead back to the account where they began.

A notebook: editors that know them take each `# %%` for a cell. Needs the extra `plot`: pip install 'cetdsl[plot]'.
All chains (Parquet) and a picture of one ring (HTML) go to the folder that it is told: python kiting_rings.py FOLDER
"""

# %% What to look for
import math
import os
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import cetdsl as cet
from cetdsl.datasets import check_deposits
from cetdsl.errors import MissingDependency

try:
    from plotly.subplots import make_subplots
except ImportError as error:
    raise MissingDependency("plotly, which draws, is not installed", hint="pip install 'cetdsl[plot]'") from error
folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers run this Python too
spark = SparkSession.builder.appName("kiting rings").config("spark.ui.showConsoleProgress", False).getOrCreate()
check = cet.event("check", "type = 'notcovered' AND source != destination")
chain = cet.kleene(check).where(check.destination == cet.next_(check).source).within("6 hours", slide="6 hours")
chains = check_deposits(spark, rows=1_440, accounts=40, seed=17).pattern(chain, time="ts", type="kind")

# %% How many chains there are that no longer one contains: counted without listing them
chains.count_complete_trends().orderBy("window").show(truncate=False)

# %% All of them, kept, and those that are rings
columns = ["ts", "source", "destination", "amount"]
chains.complete_trends(columns=columns).write.mode("overwrite").parquet(str(folder / "chains"))
kept = spark.read.parquet(str(folder / "chains")).select("window.start", F.col("trend.event").alias("checks"))
closed = "checks[0].source = element_at(checks, -1).destination"
simple = "size(array_distinct(checks.source)) = size(checks)"  # no account twice
rings = kept.where(closed).where(simple).orderBy(F.expr("-size(checks)"), "start", "checks")
rings.selectExpr("start", "checks.source AS accounts", "array_min(checks.amount) AS smallest").show(5, truncate=False)

# %% The longest ring: its graph, and its timeline
ring = rings.first().checks
around = {each.source: 2 * math.pi * place / len(ring) for place, each in enumerate(ring)}
figure = make_subplots(cols=2, subplot_titles=["Who pays whom", "When"], column_widths=[0.4, 0.6])
for number, each in enumerate(ring, 1):
    ends = [each.source, each.destination]
    arrow = {"symbol": ["circle", "arrow"], "angleref": "previous", "size": [8, 14]}
    style = {"mode": "lines+markers+text", "marker": arrow, "name": f"{number}. {each.amount:,.2f}"}
    x, y = [math.sin(around[end]) for end in ends], [math.cos(around[end]) for end in ends]
    figure.add_scatter(x=x, y=y, text=ends[:1], textposition="top center", row=1, col=1, **style)
    figure.add_scatter(x=[each.ts] * 2, y=[f"account {end}" for end in ends], showlegend=False, row=1, col=2, **style)
figure.update_xaxes(visible=False, col=1).update_yaxes(visible=False, col=1)
figure.write_html(folder / "ring.html")
print(f"Chains and picture are in {folder}")
spark.stop()
