"""Shares of a key's work: Spark itself says where it sends each number."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import functions as F

from cetdsl.errors import EngineError, recovering
from cetdsl.execution.live_events import in_task_of_share
from cetdsl.ir.shares import murmur3, number_of_task, share_numbers, task_of

pytestmark = pytest.mark.classic


def tasks_of(spark: Any, numbers: list[int], tasks: int) -> dict[int, int]:
    """The task that Spark sends each number to."""
    rows = spark.createDataFrame([(number,) for number in numbers], "h int").repartition(tasks, "h")
    return {row.h: row.task for row in rows.select("h", F.spark_partition_id().alias("task")).collect()}


def test_numbers_are_hashed_as_spark_hashes_them(spark: Any) -> None:
    found = spark.range(100).select(F.hash(F.col("id").cast("int"))).collect()
    assert [row[0] for row in found] == [murmur3(number) for number in range(100)]


def test_a_third_number_sends_rows_to_the_task_of_their_share(spark: Any) -> None:
    """Whatever the second one is; Spark's own hash of all three is that of the share."""
    seconds, lows = [0, -1, 7 * 10**14, 2**63 - 1, -(2**63)], [0, 1, 2**31, 2**32 - 1, 123_456_789]
    shares = [*share_numbers(9), -5, 2**31 - 1]
    rows = [
        (share, second, number_of_task(share, second, low)) for share in shares for second in seconds for low in lows
    ]
    assert {number & 2**32 - 1 for *_, number in rows} == set(lows)
    hashed = spark.createDataFrame(rows, "a int, b bigint, c bigint").select(F.hash("a", "b", "c"), F.hash("a"))
    assert all(together == alone for together, alone in hashed.collect())


def test_a_group_that_is_kept_elsewhere_than_its_share_is_an_error(spark: Any) -> None:
    number = number_of_task(12, 10, 7)
    rows = spark.createDataFrame([(12, 10, number), (12, 10, number + 1)], "share int, closes bigint, number bigint")
    kept = rows.select(in_task_of_share(F.col("closes")))
    assert [row[0] for row in kept.limit(1).collect()] == [10]
    with pytest.raises(EngineError, match=r"hashes rows in another way .*\n  hint: keep each event once"), recovering():
        kept.collect()


@pytest.mark.parametrize("tasks", [1, 2, 7, 24])
def test_each_number_goes_to_the_task_that_we_say(spark: Any, tasks: int) -> None:
    assert tasks_of(spark, list(range(40)), tasks) == {number: task_of(number, tasks) for number in range(40)}
    shares = share_numbers(tasks)
    assert tasks_of(spark, list(shares), tasks) == {number: task for task, number in enumerate(shares)}


@pytest.mark.parametrize("tasks", [1, 3, 64])
def test_tasks_are_told_from_numbers_again(tasks: int) -> None:
    assert [task_of(number, tasks) for number in share_numbers(tasks)] == list(range(tasks))
