"""One match at a time in the fluent language, judged by the reference's trends and by MATCH_RECOGNIZE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import generators
import matches_reference
import pytest
import reference
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st
from test_engines import by_case

import cetdsl as cet
from cetdsl.errors import (
    AnalysisErrors,
    UnsupportedQuery,
)
from cetdsl.pattern.nodes import positive_events
from cetdsl.pattern.query import AfterMatch, Query, Selection
from cetdsl.pattern.text import unparse

STREAMS = 40
A, B, C = cet.events("A", "B", "C")
FEATURES = generators.Features().without(
    "negation", "edge_negation", "nested_negation", "complex_negation", "correlated_negation", "top_conjunction"
)
FAST = settings(
    max_examples=14, deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.explicit, Phase.generate)
)


@pytest.fixture(scope="module")
def rows() -> list[generators.Row]:
    return generators.stacked(8_000, STREAMS)


@pytest.fixture(scope="module")
def stacked(spark: Any, rows: list[generators.Row]) -> Any:
    return generators.frame(spark, rows).cache()


def found_by(stacked: Any, query: Query, ties: Sequence[str]) -> dict[Any, list[Any]]:
    """What matches() gives, by group and window."""
    found: dict[Any, list[Any]] = {}
    for row in cet.pattern(stacked, query, time="t", tie_break=ties).matches(columns=["id"]).collect():
        values = row.asDict()
        window = values.get("window")
        key = tuple(reference._key(values[name]) for name in query.group_by), tuple(window) if window else None
        found.setdefault(key, []).append(tuple((b.event.id, b.variable) for b in row.trend))
    return found


SELECTIONS = st.sampled_from(
    [
        *[Selection()] * 3,
        Selection(longest=True),
        Selection(first=True),
        Selection(AfterMatch("next_row")),
        Selection(AfterMatch("next_row"), longest=True),
        Selection(AfterMatch("to_last", "?")),
        Selection(AfterMatch("to_first", "?")),
    ]
)


@FAST
@given(case=generators.cases(FEATURES), policy=st.sampled_from(["strict", "strict", "next"]), selection=SELECTIONS)
def test_matches_are_the_preferred_trends_of_the_reference(
    rows: list[generators.Row], stacked: Any, case: generators.Case, policy: str, selection: Selection
) -> None:
    last = positive_events(case.query.pattern)[-1].variable
    if selection.after is not None and selection.after.variable:
        selection = attrs.evolve(selection, after=attrs.evolve(selection.after, variable=last))
    query = by_case(attrs.evolve(case.query, matching=policy, selection=selection, returning=()))
    ties = (*case.tie_break, "id")
    try:
        expected = matches_reference.matches(query, rows, ties)
    except LookupError as error:
        event(f"skips nowhere: {error}")
        return
    try:
        found = found_by(stacked, query, ties)
    except (UnsupportedQuery, AnalysisErrors) as error:
        event(f"refused: {type(error).__name__}")
        return
    grouped: dict[Any, list[Any]] = {}
    for (group, window, _), trends in expected.items():
        grouped.setdefault((group, window), []).extend(shown(trend) for trend in trends)
    event(f"{policy}: {'some' if any(grouped.values()) else 'no'} matches")
    assert {key: sorted(each) for key, each in found.items()} == {
        key: sorted(each) for key, each in grouped.items() if each
    }, unparse(query)


def shown(trend: reference.Trend) -> tuple[Any, ...]:
    return tuple(trend)
