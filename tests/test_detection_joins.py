"""``trends(algorithm="joins")`` on Spark: the trends are those of the reference; what it cannot take is refused."""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import Any

import attrs
import generators
import pytest
import reference
from modes import more_on_classic
from test_detection import bound, expected_of, found_by

import cetdsl as cet
from cetdsl.errors import InvalidNode, UnsupportedQuery
from cetdsl.pattern.nodes import positive_events

pytestmark = pytest.mark.simple_plans


@pytest.fixture(scope="module")
def rows() -> list[Any]:
    return generators.stacked(7100, 25)


@pytest.fixture(scope="module")
def df(spark: Any, rows: list[Any]) -> Any:
    return generators.frame(spark, rows).cache()


@pytest.mark.parametrize(
    ("text", "plan"),
    more_on_classic(
        ("PATTERN SEQ(A, B, C) WHERE A.x <= B.x AND A.k = C.k WITHIN 5", ["C", "A", "B"]),
        ("PATTERN SEQ(A, B, C) WHERE A.x < C.x WITHIN 5", ["B", "C", "A"]),
        ("PATTERN SEQ(A, B{1,3}, C) WHERE B.x <= NEXT(B).x AND A.x < B.x WITHIN 6 SLIDE 2", ["C", "B", "A"]),
        ("PATTERN SEQ(A, B) OR SEQ(B b2, C) WITHIN 6 SLIDE 4", ["B", "C", "A", "b2"]),
        ("PATTERN SEQ(A, B?, C) WHERE A.x + B.x < C.x AND COUNT(B) >= 1", "greedy"),
        ("PATTERN SEQ(A, B) WHERE A.x * NEXT(B).x <= 4 AND [k] WITHIN 8", "auto"),
        ("PATTERN SEQ(A, B+, C) WHERE A.x < B.x AND B.x <= NEXT(B).x WITHIN 6", ["C", "B", "A"]),
        ("PATTERN SEQ(A, B{2,}, C?) WHERE B.x <= C.x WITHIN 8 SLIDE 4", "greedy"),
        ("PATTERN B+ WHERE B.x < NEXT(B).x AND [k]", "auto"),
        ("PATTERN SEQ(A, B+) WHERE A.x * B.x <= 4 WITHIN 6", ["B", "A"]),
        ("PATTERN SEQ(B+, A, B+ b2) WHERE A.x * B.x <= 4 AND (A.x < b2.x OR A.k = b2.k) WITHIN 6", "auto"),
        ("PATTERN SEQ(A, B+) WHERE A.x != B.x AND 4 / (A.x - B.x) > 0 WITHIN 6", ["B", "A"]),
        ("PATTERN SEQ(A, NOT D d, B) WHERE d.x = A.x AND d.k < B.k WITHIN 5", ["B", "A"]),
        ("PATTERN SEQ(A, NOT SEQ(C, D+), B+) WHERE C.x < D.x AND B.x <= NEXT(B).x", ["B", "A"]),
        ("PATTERN SEQ(NOT C c, A, B, NOT D+) WHERE c.x = B.x WITHIN 5", ["B", "A"]),
        ("PATTERN SEQ(NOT SEQ(C, A a2), A, B, NOT D d) WHERE d.x < A.x WITHIN 6 SLIDE 2", ["A", "B"]),
        ("PATTERN SEQ(A, (SEQ(B, NOT C))+) WHERE B.x <= NEXT(B).x WITHIN 6", ["B", "A"]),
        ("PATTERN SEQ(A, NOT C c, B) OR SEQ(A a2, B b2, C c2) WITHIN 4", "pattern"),
        ("PATTERN AND(SEQ(A, NOT D d, B), C, A a2) WHERE A.x <= C.x AND B.k = a2.k AND d.x < A.x WITHIN 4", "greedy"),
        ("PATTERN AND(SEQ(A, B{1,2}), C) WHERE B.x <= C.x WITHIN 6 SLIDE 2", ["C", "B", "A"]),
        ("PATTERN AND(SEQ(NOT D, A, B), C) WITHIN 3", ["B", "C", "A"]),
    ),
)
def test_joins_find_the_trends_of_the_reference(df: Any, rows: list[Any], text: str, plan: Any) -> None:
    asked = bound(df, text)
    expected = expected_of(asked, rows)
    assert expected
    assert found_by(asked, plan=plan, algorithm="joins") == expected


@pytest.mark.classic
def test_ties_columns_and_limits(df: Any) -> None:
    """Keys without a value are keys, events of an instant have an order where columns break ties."""
    asked = df.pattern("PATTERN SEQ(A, B{1,2}) WHERE [case, k]", time="t", tie_break="s")
    found = {how: asked.trends(columns=["id", "x"], algorithm=how).collect() for how in ("kernel", "joins")}
    assert len(found["joins"]) > 5
    assert sorted(map(str, found["joins"])) == sorted(map(str, found["kernel"]))
    some = asked.trends(columns=["id", "x"], algorithm="joins", limit=3).collect()
    assert len(some) == 3
    assert {str(row) for row in some} <= {str(row) for row in found["kernel"]}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("PATTERN SEQ(A, NOT D d, B) WHERE d.x + A.x < B.x", "a predicate of NOT compares more than"),
        ("PATTERN SEQ(A, NOT (SEQ(C, D))+, B)", "NOT number 1 has a repetition of more than one event"),
        ("PATTERN SEQ(A, B) AND SEQ(A, D)", "both sides of AND share a variable"),
    ],
)
def test_what_joins_cannot_take_is_refused(df: Any, text: str, reason: str) -> None:
    with pytest.raises(UnsupportedQuery, match=reason):
        bound(df, text).trends(algorithm="joins")


def test_explain_shows_the_order_of_joins(df: Any) -> None:
    known = {"rates": {"A": 9, "B": 1}}
    text = str(bound(df, "PATTERN SEQ(A, B)").explain("trends", plan="greedy", statistics=known, algorithm="joins"))
    assert "event joins: puts trends together" in text
    assert "bind B, A" in text
    assert "partial matches expected" in text


def test_an_unknown_algorithm_is_refused(df: Any) -> None:
    with pytest.raises(InvalidNode, match="no algorithm 'join'"):
        bound(df, "PATTERN SEQ(A, B)").trends(algorithm="join")


FEATURES = generators.ALL.without("top_conjunction", "nested_kleene", "repeated_variables", "partition", "group")


@pytest.mark.classic
def test_joins_of_random_queries_in_random_orders(df: Any, rows: list[Any]) -> None:
    judged = 0
    for seed in range(int(os.environ.get("JOINS_SEEDS", "10"))):
        case = generators.random_case(7200 + seed, FEATURES)
        query = attrs.evolve(case.query, group_by=("case",), returning=())
        asked = cet.pattern(df, query, time="t", tie_break=case.tie_break)
        names = list(dict.fromkeys(event.variable for event in positive_events(query.pattern)))
        random.Random(seed).shuffle(names)
        try:
            found = found_by(asked, plan=names, algorithm="joins")
        except UnsupportedQuery:
            continue
        assert found == Counter(
            (key[0], key[1], trend)
            for key, trends in reference.trends(query, rows, tie_break=case.tie_break).items()
            for trend in trends
        ), f"{seed}: {query} by {names}"
        judged += len(found) > 0
    assert judged > 3
