"""Terms that may be an error are evaluated for the events that their variable can be bound to, and for no others."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame

import cetdsl as cet

pytestmark = pytest.mark.classic
A, B = cet.events("A", "B")
#: Only the A has a zero, and a text that is no number.
ROWS = [(1, "A", 8, 0, "none"), (2, "B", 6, 2, "6"), (3, "B", 9, 3, "9"), (4, "C", 1, 0, "")]
#: Queries, and what they count or sum up.
AGGREGATED = {
    "RETURN SUM(B.x / B.y) AS n PATTERN SEQ(A, B+)": 12.0,
    "RETURN SUM(B.x / B.y) AS n PATTERN SEQ(A, B)": 6.0,
    "RETURN SUM(int(B.s)) AS n PATTERN SEQ(A, B+)": 30,
    "RETURN SUM(B.x % B.y) AS n PATTERN A AND B": 0,
    "RETURN MAX(B.x / B.y) AS n PATTERN SEQ(A, B+) WITHIN 5 SLIDE 5": 3.0,
    "RETURN COUNT(*) AS n PATTERN SEQ(A, B+) WHERE B.x / B.y <= NEXT(B).x": 3,
    "RETURN COUNT(*) AS n PATTERN SEQ(A, B+) WHERE A.x > B.x / B.y": 3,
    "RETURN COUNT(*) AS n PATTERN SEQ(A, B) WHERE int(B.s) < A.x MATCHING STRICT": 1,
    "RETURN COUNT(*) AS n PATTERN B+ WHERE B.y != 0 AND 6 / B.y >= NEXT(B).y": 3,
}


@pytest.fixture(scope="module")
def df(spark: Any) -> DataFrame:
    made: DataFrame = spark.createDataFrame(ROWS, "t int, type string, x int, y int, s string")
    return made.cache()


def test_aggregates_alone_and_together(df: DataFrame) -> None:
    together = {f"q{n}": text for n, text in enumerate(AGGREGATED)}
    answers = {name: df.pattern(text, time="t").aggregate() for name, text in together.items()}
    found = {name: [float(row.n) for row in answer.select("n").collect()] for name, answer in answers.items()}
    in_passes = df.patterns(together, time="t").results()
    assert found == {f"q{n}": [float(told)] for n, told in enumerate(AGGREGATED.values())}
    assert {name: [float(row.n) for row in one.select("n").collect()] for name, one in in_passes.items()} == found


@pytest.mark.parametrize("options", [{}, {"plan": "greedy"}, {"algorithm": "joins"}])
def test_listings(df: DataFrame, options: dict[str, str]) -> None:
    asked = df.pattern("PATTERN SEQ(A, B, C) WHERE B.x / B.y < A.x AND int(B.s) > C.x", time="t")
    assert asked.trends(columns=["t"], **options).count() == 2


def test_matches_complete_trends_and_the_heaviest(df: DataFrame) -> None:
    rising = (A >> +B).where(B.x / B.y <= cet.next_(B).x)
    asked = df.pattern(rising, time="t")
    assert asked.matches(columns=["t"]).count() == 1
    assert asked.complete_trends(columns=["t"]).count() == 1
    [heaviest] = asked.top_trends(1, by=cet.sum(B.x / B.y), columns=["t"]).collect()
    assert [bound.event.t for bound in heaviest.trend] == [1, 2, 3]


def test_an_event_that_the_variable_can_be_bound_to_fails_the_query(df: DataFrame) -> None:
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        df.pattern("RETURN SUM(A.x / A.y) AS n PATTERN SEQ(A, B+)", time="t").aggregate().collect()


def test_explain_shows_the_term_as_it_is_written(df: DataFrame) -> None:
    told = str(df.pattern("RETURN SUM(B.x / B.y) AS n PATTERN SEQ(A, B+)", time="t").explain("physical"))
    assert "aggregated: x / y" in told
