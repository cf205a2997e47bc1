"""One group of checks that is beyond a Python worker: its complete trends are counted and drawn by joins, exactly.

    python benchmarks/large_group.py [--events 20000000] [--limit 1g] [--compare]

Checks are between random accounts, five per account, so that chains stay short however many checks there are. A worker
may take ``--limit`` (``spark.executor.pyspark.memory``). With ``--compare``, for sizes that a task can hold, the kernel
counts them too, and the script stops if it counts others.
"""

from __future__ import annotations

import argparse
import os
import time

from pyspark.sql import SparkSession

import cetdsl as cet
from cetdsl import datasets

CHECK = cet.event("Check")
CHAIN = cet.kleene(CHECK).where(CHECK.destination == cet.next_(CHECK).source)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=20_000_000)
    parser.add_argument("--limit", default="1g")
    parser.add_argument("--driver", default="5g")
    parser.add_argument("--compare", action="store_true")
    asked = parser.parse_args()
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", asked.driver)
        .config("spark.executor.pyspark.memory", asked.limit)
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "32")
        .getOrCreate()
    )
    df = datasets.check_deposits(spark, asked.events, accounts=asked.events // 5, not_covered=1, seconds=1)
    chains = cet.pattern(df, CHAIN, time="ts", type="kind")
    found = {}
    for name, answer in (
        ("count", lambda: chains.count_complete_trends("ends").first()["count"]),
        ("sample", lambda: chains.sample_trends(1000, completeness="ends", seed=1, columns=["source"]).collect()),
    ):
        begun, used = time.time(), os.times()
        found[name] = answer()
        print(f"{name}: {time.time() - begun:,.0f} s by the clock, {os.times().user - used.user:,.1f} s in the driver")
    print(f"{asked.events:,} checks, {found['count']:,} complete trends")
    drawn = {tuple(binding.event.source for binding in row.trend) for row in found["sample"]}
    print(f"{len(found['sample'])} trends drawn, {len(drawn)} of them different by their accounts")
    if asked.compare:
        spark.conf.unset("spark.executor.pyspark.memory")
        counted = chains.count_complete_trends("ends").first()["count"]
        if counted != found["count"]:
            raise SystemExit(f"joins count {found['count']}, and the kernel {counted}")
        print("the kernel counts as many")
    spark.stop()


if __name__ == "__main__":
    main()
