"""Matching policies: which events a trend may skip, judged by the reference enumerator."""

from __future__ import annotations

import itertools
from typing import Any

import attrs
import generators
import pytest
import reference
from hypothesis import HealthCheck, Phase, event, given, settings
from test_engines import Judge, agrees, by_case, shown

import cetdsl as cet
from cetdsl.errors import CetdslError, InvalidNode, ParseError, StreamingNotSupported, UnsupportedQuery
from cetdsl.pattern.text import unparse

STREAMS = 60
#: Predicates that relate events which are no neighbours do not tell what may be bound next.
NEXT = generators.Features().without("pairwise", "top_conjunction")
STRICT = generators.Features().without("top_conjunction")


@pytest.fixture(scope="module")
def judge(spark: Any) -> Judge:
    rows = generators.stacked(7_000, STREAMS)
    return Judge(rows, generators.frame(spark, rows).cache())


def judge_policy(judge: Judge, case: generators.Case, policy: str) -> bool:
    """Compares aggregates, trends and complete trends with the reference; False where the query is refused."""
    query = by_case(attrs.evolve(case.query, matching=policy))
    bound_by = {"time": "t", "tie_break": case.tie_break}
    try:
        bound = cet.pattern(judge.df, query, **bound_by)
        answer = bound.aggregate()
    except UnsupportedQuery:
        return False
    aggregates = {item.output_name: item.aggregate for item in query.returning}
    expected = reference.aggregate(query, judge.rows, aggregates, tie_break=case.tie_break)
    found = {}
    for row in answer.collect():
        values = row.asDict()
        window = values.pop("window", None)
        found[tuple(reference._key(values.pop(c)) for c in query.group_by), tuple(window) if window else None] = values
    context = f"ties={case.tie_break}\n{unparse(query)}"
    assert set(found) == set(expected), f"{context}\ngroups differ: {set(found) ^ set(expected)}"
    for key, values in expected.items():
        for column, value in values.items():
            assert agrees(found[key][column], value, "decimal", aggregates[column]), (context, key, column, value)
    assert judge.judge_trends(attrs.evolve(case.query, matching=policy), case.tie_break)
    return True


def of_answer(answer: Any) -> list[Any]:
    return sorted((row.case, tuple((b.event.id, b.variable) for b in row.trend)) for row in answer.collect())


FAST = settings(
    max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.explicit, Phase.generate)
)


@FAST
@given(case=generators.cases(NEXT))
def test_next_skips_only_what_could_not_be_bound(judge: Judge, case: generators.Case) -> None:
    event(f"answered: {judge_policy(judge, case, 'next')}")


@FAST
@given(case=generators.cases(STRICT))
def test_strict_skips_nothing(judge: Judge, case: generators.Case) -> None:
    event(f"answered: {judge_policy(judge, case, 'strict')}")
