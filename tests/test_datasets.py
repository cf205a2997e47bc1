"""The generated events: the same for the same arguments, however Spark cuts them into partitions."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from cetdsl import datasets

GENERATORS = [datasets.check_deposits, datasets.heart_rates, datasets.stock_prices]


@pytest.mark.parametrize("generate", GENERATORS, ids=lambda generate: generate.__name__)
def test_events_depend_on_the_seed_alone(spark, generate) -> None:
    def rows(seed: int) -> set[tuple[object, ...]]:
        return {tuple(row) for row in generate(spark, 500, seed=seed).collect()}

    once = rows(1)
    assert len(once) == 500
    partitions = spark.conf.get("spark.sql.leafNodeDefaultParallelism", None)
    spark.conf.set("spark.sql.leafNodeDefaultParallelism", "7")
    try:
        assert rows(1) == once
    finally:
        if partitions is None:
            spark.conf.unset("spark.sql.leafNodeDefaultParallelism")
        else:
            spark.conf.set("spark.sql.leafNodeDefaultParallelism", partitions)
    assert rows(2) != once


def test_checks(spark) -> None:
    checks = datasets.check_deposits(spark, 4_000, accounts=10, not_covered=0.25)
    row = checks.select(
        F.avg((F.col("type") == "notcovered").cast("double")).alias("share"),
        F.count_distinct("source").alias("sources"),
        F.min("destination").alias("least"),
        F.max("destination").alias("most"),
    ).first()
    assert 0.2 < row.share < 0.3
    assert (row.sources, row.least, row.most) == (10, 0, 9)


def test_heart_rates(spark) -> None:
    rates = datasets.heart_rates(spark, 14 * 720)
    means = {row["type"]: row.rate for row in rates.groupBy("type").agg(F.avg("rate").alias("rate")).collect()}
    assert means["passive"] + 30 < means["active"]
    each = rates.groupBy("personID").count().collect()
    assert {row["count"] for row in each} == {720}


def test_prices(spark) -> None:
    uniform = datasets.stock_prices(spark, 2_000, prices="uniform").agg(F.min("price"), F.max("price")).first()
    assert 50 <= uniform[0] < 52
    assert 148 < uniform[1] <= 150
    steps = datasets.stock_prices(spark, 2_000, companies=1).selectExpr("price - lag(price) OVER (ORDER BY ts) AS step")
    assert steps.agg(F.stddev("step")).first()[0] == pytest.approx(1, abs=0.1)
    with pytest.raises(ValueError, match="'walk' or 'uniform'"):
        datasets.stock_prices(spark, prices="up")
