"""How rows are cut into batches for Python workers."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from cetdsl.execution.compat import BATCH_BYTES, UNMEASURED, leave_batches_unmeasured


@pytest.fixture
def unset(spark: Any) -> Iterator[Any]:
    """The session, in which nobody has set the bytes of a batch."""
    before = spark.conf.get(BATCH_BYTES, None)
    spark.conf.unset(BATCH_BYTES)
    yield spark
    spark.conf.unset(BATCH_BYTES)
    if before is not None:
        spark.conf.set(BATCH_BYTES, before)


def test_a_plan_with_a_stage_leaves_batches_unmeasured_and_says_so(
    unset: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="cetdsl.session"):
        events = unset.createDataFrame([("A", 1), ("B", 2)], "type string, time bigint")
        assert events.pattern("PATTERN SEQ(A, B)", time="time").trends().count() == 1
    assert unset.conf.get(BATCH_BYTES) == UNMEASURED
    assert [record.getMessage() for record in caplog.records if BATCH_BYTES in record.getMessage()]


def test_a_limit_of_the_user_stays(unset: Any, caplog: pytest.LogCaptureFixture) -> None:
    unset.conf.set(BATCH_BYTES, "32m")
    with caplog.at_level(logging.INFO, logger="cetdsl.session"):
        leave_batches_unmeasured(unset)
    assert unset.conf.get(BATCH_BYTES).startswith("32m")
    assert not caplog.records


def test_sessions_that_refuse_the_setting_go_on_without_it() -> None:
    from pyspark.errors import PySparkException

    class Refusing:
        def get(self, name: str, default: str | None) -> str | None:
            return default

        def set(self, name: str, value: str) -> None:
            raise PySparkException(f"[CONFIG_NOT_AVAILABLE] {name}")

    class Session:
        conf = Refusing()

    leave_batches_unmeasured(Session())  # type: ignore[arg-type]
