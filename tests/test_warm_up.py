"""``warm_up()``: it asks queries of every kind, by compiled kernels, and says what each kind took."""

from __future__ import annotations

from typing import Any

import pytest

import cetdsl as cet
from cetdsl.errors import InvalidNode
from cetdsl.frontend import warm_up as module


@pytest.mark.classic
def test_every_kind_of_query_is_asked_and_answered(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, list[Any]] = {}

    def watched(kind: str, answers: Any) -> Any:
        def give(events: Any) -> Any:
            for answer in answers(events):
                asked.setdefault(kind, []).append(answer)
                yield answer

        return give

    kinds = {kind: watched(kind, answers) for kind, answers in module._KINDS.items()}
    monkeypatch.setattr(module, "_KINDS", kinds)
    took = cet.warm_up()
    assert list(took) == ["aggregates", "trends", "complete trends", "workloads", "matches of rows"] == list(asked)
    assert all(seconds > 0 for seconds in took.values())
    assert all(answer.limit(1).count() == 1 for kind in ("trends", "matches of rows") for answer in asked[kind])


def test_a_session_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidNode, match="a session of Spark is expected, not 'spark'"):
        cet.warm_up("spark")  # type: ignore[arg-type]
    monkeypatch.setattr("cetdsl.frontend.warm_up.SparkSession.getActiveSession", lambda: None)
    with pytest.raises(InvalidNode, match="no active Spark session to warm up"):
        cet.warm_up()
