"""What making a plan asks of Spark: nothing twice, and nothing that only errors of cetdsl's own lines would tell."""

from __future__ import annotations

from threading import Barrier, Thread
from typing import Any

import pytest
from pyspark.errors import utils
from pyspark.sql import functions as F

import cetdsl as cet
from cetdsl.execution.compat import WITHOUT_CALL_SITES

QUERIES = [
    "PATTERN SEQ(A, B+) GROUP BY key",
    "PATTERN B+ WHERE B.x < NEXT(B).x AND B.x + 1 > 2 GROUP BY key WITHIN 100 SLIDE 10",
]


@pytest.fixture
def sites(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines that PySpark has noted, while it is told to note them."""
    found: list[str] = []

    def note(*_: Any) -> str:
        found.append("noted")
        return "somewhere"

    monkeypatch.setattr(utils, "_enable_debugging_cache", True)
    monkeypatch.setattr(utils, "_capture_call_site", note)
    return found


@pytest.mark.parametrize("text", QUERIES)
def test_no_line_of_a_plan_is_noted_and_those_of_users_are(spark: Any, sites: list[str], text: str) -> None:
    events = spark.createDataFrame([(1, 1, "A", 1.0), (1, 2, "B", 2.0)], "key int, time bigint, type string, x double")
    bound = cet.pattern(events, text, time="time")
    sites.clear()
    bound.count_trends()
    bound.trends()
    assert not sites
    _ = F.col("x") + 1
    assert sites


def test_no_line_of_a_workload_is_noted(spark: Any, sites: list[str]) -> None:
    events = spark.createDataFrame([(1, 1, "A", 1.0), (1, 2, "B", 2.0)], "key int, time bigint, type string, x double")
    queries = events.patterns({f"q{n}": f"RETURN COUNT(*) AS n {text}" for n, text in enumerate(QUERIES)}, time="time")
    sites.clear()
    queries.aggregate()
    queries.results()
    assert not sites


def test_the_last_of_two_threads_turns_the_notes_on_again(sites: list[str]) -> None:
    inside, outside = Barrier(2, timeout=60), Barrier(2, timeout=60)

    def plan() -> None:
        with WITHOUT_CALL_SITES:
            inside.wait()
            outside.wait()

    other = Thread(target=plan)
    other.start()
    with WITHOUT_CALL_SITES:
        inside.wait()
    assert utils._enable_debugging_cache is False
    outside.wait()
    other.join()
    assert utils._enable_debugging_cache is True


def test_the_size_of_a_dataframe_is_asked_for_once(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr("cetdsl.execution.compat._estimated_bytes", lambda df, names: asked.append(names))
    events = spark.createDataFrame([(1, 1, "A"), (1, 2, "B")], "key int, time bigint, type string")
    for _ in range(2):
        cet.pattern(events, QUERIES[0], time="time").count_trends()
    assert len(asked) == 1
    cet.pattern(events.select("*"), QUERIES[0], time="time").count_trends()
    assert len(asked) == 2
