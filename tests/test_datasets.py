"""The generated events: the same for the same arguments, however Spark cuts them into partitions."""

from __future__ import annotations

import datetime
import itertools
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import Row
from pyspark.sql import functions as F

from cetdsl import datasets

GENERATORS = [
    datasets.check_deposits,
    datasets.layered_checks,
    datasets.heart_rates,
    datasets.stock_prices,
    datasets.ridesharing,
    datasets.place_reports,
]


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


@pytest.mark.classic
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


@pytest.mark.classic
def test_checks_of_random_accounts_follow_each_other_as_often_as_chance_says(spark) -> None:
    checks = datasets.check_deposits(spark, 3_000, accounts=300, not_covered=1, seconds=1)
    rows = checks.orderBy("ts").collect()
    assert {row.type for row in rows} == {"notcovered"}
    assert {(after.ts - before.ts).total_seconds() for before, after in itertools.pairwise(rows)} == {1.0}
    assert np.mean(followed(rows)) == pytest.approx(3_000 / 300 / 2, rel=0.1)


@pytest.mark.classic
@pytest.mark.parametrize("reach", [1, 4, None])
@pytest.mark.parametrize("selectivity", [1, 0.3])
@pytest.mark.parametrize("compatibility", [1, 3, 5])
def test_layered_checks_follow_exactly_so_many(
    spark, compatibility: int, selectivity: float, reach: int | None
) -> None:
    checks = datasets.layered_checks(spark, 400, compatibility=compatibility, selectivity=selectivity, reach=reach)
    rows = checks.orderBy("ts").collect()
    not_covered = [row for row in rows if row.type == "notcovered"]
    assert len(not_covered) == 400 * selectivity
    assert followed(not_covered) == [0] * compatibility + [compatibility] * (len(not_covered) - compatibility)
    layers_back = {row.destination - row.source for row in not_covered[compatibility * 10 :]}
    assert layers_back == set(range(1, reach + 1)) if reach else len(layers_back) > 4


@pytest.mark.classic
@pytest.mark.parametrize("compatibility", [1, 2, 3, 4, 6, 12])
def test_layers_of_three_have_the_most_chains(spark, compatibility: int) -> None:
    rows = datasets.layered_checks(spark, 12, compatibility=compatibility).orderBy("ts").collect()
    assert number_of_chains(rows) == compatibility ** (12 // compatibility)
    assert number_of_chains(rows) <= 3**4


@pytest.mark.classic
def test_layered_checks_come_at_a_rate(spark) -> None:
    for rate, last in ((0.5, 198_000_000), (3, 33_000_000), (1e6, 99)):
        times = [row.ts for row in datasets.layered_checks(spark, 100, rate=rate).orderBy("ts").collect()]
        assert (times[-1] - times[0]) // datetime.timedelta(microseconds=1) == last
        assert len(set(times)) == 100


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"compatibility": 0}, "compatibility is 1 or more"),
        ({"reach": 0}, "reach is 1 or more"),
        ({"selectivity": 1.5}, "a share from 0 to 1"),
        ({"rate": 0}, "more than 0"),
        ({"rate": 2e6}, "at most a million"),
    ],
)
def test_layered_checks_out_of_range(spark, arguments: dict[str, float], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        datasets.layered_checks(spark, **arguments)


def followed(checks: list[Row]) -> list[int]:
    """For each check, in order of time, how many earlier ones were deposited into the account it is drawn on."""
    deposited: Counter[int] = Counter()
    numbers = []
    for check in checks:
        numbers.append(deposited[check.source])
        deposited[check.destination] += 1
    return numbers


def number_of_chains(checks: list[Row]) -> int:
    """Chains that no earlier check leads to and no later one continues, counted along them."""
    arriving: Counter[int] = Counter()
    chains: list[tuple[int, int]] = []
    for check in checks:
        number = arriving[check.source] or 1
        arriving[check.destination] += number
        chains.append((check.destination, number))
    drawn_on = {check.source for check in checks}
    return sum(number for destination, number in chains if destination not in drawn_on)


@pytest.mark.classic
def test_heart_rates(spark) -> None:
    rates = datasets.heart_rates(spark, 14 * 720)
    means = {row["type"]: row.rate for row in rates.groupBy("type").agg(F.avg("rate").alias("rate")).collect()}
    assert means["passive"] + 30 < means["active"]
    each = rates.groupBy("personID").count().collect()
    assert {row["count"] for row in each} == {720}


@pytest.mark.classic
def test_prices(spark) -> None:
    uniform = datasets.stock_prices(spark, 2_000, prices="uniform").agg(F.min("price"), F.max("price")).first()
    assert 50 <= uniform[0] < 52
    assert 148 < uniform[1] <= 150
    steps = datasets.stock_prices(spark, 2_000, companies=1).selectExpr("price - lag(price) OVER (ORDER BY ts) AS step")
    assert steps.agg(F.stddev("step")).first()[0] == pytest.approx(1, abs=0.1)
    with pytest.raises(ValueError, match="'walk' or 'uniform'"):
        datasets.stock_prices(spark, prices="up")


@pytest.mark.classic
def test_prices_lie_where_they_are_told_to(spark) -> None:
    trades = datasets.stock_prices(spark, 20_000, companies=1, prices="uniform", between=(9, 11), digits=9, seconds=1)
    prices = np.sort([row.price for row in trades.select("price").collect()])
    assert 9 <= prices[0] < 9.01
    assert 10.99 < prices[-1] <= 11
    assert len(set(prices)) > 19_900
    # The share of prices that are a tenth above u is (11 - 1.1 u) / 2 for u from 9 to 10, and 0 for higher ones.
    higher = len(prices) - np.searchsorted(prices, 1.1 * prices)
    assert higher.mean() / len(prices) == pytest.approx(0.1375, abs=0.004)


@pytest.mark.classic
@pytest.mark.parametrize("burst", [1, 3, 50])
def test_rides_come_in_bursts_of_one_kind(spark, burst: int) -> None:
    rides = datasets.ridesharing(spark, 3_000, districts=5, burst=burst, rate=1000).orderBy("ts").collect()
    assert (rides[-1].ts - rides[0].ts).total_seconds() == pytest.approx(2.999)
    for district in range(5):
        kinds = [ride.kind for ride in rides if ride.district == district]
        lengths = [len(list(run)) for _, run in itertools.groupby(kinds)]
        assert lengths == [burst] * (600 // burst)


@pytest.mark.classic
def test_rides(spark) -> None:
    rides = datasets.ridesharing(spark, 20_000, districts=4, drivers=3, riders=7, burst=1)
    kinds = {row.kind: row["count"] for row in rides.groupBy("kind").count().collect()}
    assert len(kinds) == 20
    assert all(800 < number < 1_200 for number in kinds.values())
    assert {"Request", "Travel", "Pickup", "Dropoff", "Cancel"} <= set(kinds)
    row = rides.select(
        F.count_distinct("driver").alias("drivers"),
        F.count_distinct("rider").alias("riders"),
        F.count_distinct("driver", "district").alias("drivers_and_districts"),
        F.avg((F.col("speed") < 30).cast("double")).alias("slow"),
    ).first()
    assert (row.drivers, row.riders, row.drivers_and_districts) == (12, 28, 12)
    assert row.slow == pytest.approx(0.3, abs=0.02)
    with pytest.raises(ValueError, match="burst is 1 or more"):
        datasets.ridesharing(spark, burst=0)


@pytest.mark.classic
def test_bursts_take_turns(spark) -> None:
    rows = datasets.bursts(spark, 25, types=["2", "7", "3"], length=4).orderBy("t").collect()
    assert [row.t for row in rows] == list(range(25))
    assert "".join(row.type for row in rows) == "222277773333" * 2 + "2"
    with pytest.raises(ValueError, match="no types"):
        datasets.bursts(spark, types=[])
    with pytest.raises(ValueError, match="length is 1 or more"):
        datasets.bursts(spark, length=0)


@pytest.mark.classic
def test_each_place_reports_once_in_any_period(spark) -> None:
    reports = datasets.place_reports(spark, 6_000, places=["A", "B", "C"], minutes=2, restrictions=3)
    counts = reports.groupBy("type", F.window("ts", "2 minutes")).count()
    assert [row["count"] for row in counts.select("count").distinct().collect()] == [1]
    assert counts.select("type").distinct().count() == 3
    levels = [row.level for row in reports.select("level").collect()]
    assert min(levels) == 1
    for least in (2, 5, 20):
        assert sum(level >= least for level in levels) / 6_000 == pytest.approx(1 / least, rel=0.25)
    shares = {row.restriction: row["count"] / 6_000 for row in reports.groupBy("restriction").count().collect()}
    assert shares == {number: pytest.approx(6 / 11 / (number + 1), rel=0.1) for number in range(3)}
    for arguments, problem in (
        ({"places": 0}, "no places"),
        ({"restrictions": 0}, "one restriction"),
        ({"minutes": 0}, "more"),
    ):
        with pytest.raises(ValueError, match=problem):
            datasets.place_reports(spark, **arguments)


def test_every_generator_is_in_the_reference() -> None:
    reference = (Path(__file__).parent.parent / "docs" / "api.rst").read_text("utf-8")
    assert [name for name in datasets.__all__ if f"cetdsl.datasets.{name}\n" not in reference] == []
