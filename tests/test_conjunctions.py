"""AND at the top, of any number of sides, compared with the reference enumerator: aggregates, and the trends."""

from __future__ import annotations

from typing import Any

import generators
import pytest
from modes import more_on_classic
from test_engines import Judge, judge_of

import cetdsl as cet
from cetdsl.errors import NoPhysicalPlan, UnsupportedQuery

pytestmark = pytest.mark.simple_plans

RETURNING = "RETURN COUNT(*), COUNT(a), SUM(b.x), AVG(a.y), MIN(a.x), MAX(b.name), AVG(LENGTH), MAX(LENGTH) "
#: Queries with the strategies that answer them.
ON_SPARK = [
    ("AND(SEQ(A a, B b), C c, A d) WHERE a.x <= c.x AND d.x != b.x WITHIN 4", {"enumerate"}),
    ("AND(A a, B b) WITHIN 2", {"messages", "enumerate"}),
    ("AND(SEQ(A a, C+ c), B b) WHERE b.x >= c.x AND LENGTH < 3 WITHIN 5 SLIDE 3", {"enumerate"}),
    ("AND(SEQ(A a, NOT C n, B b), C c OR A d) WHERE n.x > a.x WITHIN 3", {"enumerate"}),
    ("AND(SEQ(NOT B n, A a), SEQ(B b, NOT C m)) WITHIN 2", {"enumerate"}),
    ("AND(SEQ(A a, C c), SEQ(B b, C d))", {"kernel", "enumerate"}),
    ("AND(A a, AND(B b, SEQ(C c, A d))) WHERE c.x = b.x", {"enumerate"}),
]


@pytest.fixture(scope="module")
def judge(spark: Any) -> Judge:
    return judge_of(spark, generators.stacked(70_000, 40))


@pytest.mark.parametrize(("pattern", "strategies"), more_on_classic(*ON_SPARK))
def test_answers_and_lists_on_spark(judge: Judge, pattern: str, strategies: set[str]) -> None:
    query = cet.parse(f"{RETURNING}PATTERN {pattern}")._query()
    ties = ("s",) if "WITHIN 3" in pattern else ()
    assert judge.judge(query, ties, "decimal") | {"enumerate"} == strategies
    assert judge.judge_trends(query, ties)


@pytest.mark.classic
def test_a_span_of_timestamps_bounds_all_sides_together(spark: Any) -> None:
    rows = [(f"2024-03-01 00:{minute:02}:00", kind) for minute, kind in enumerate("ABCAB")]
    frame = spark.createDataFrame(rows, "at string, type string")
    for kind in ("timestamp", "timestamp_ntz"):
        timed = frame.selectExpr(f"CAST(at AS {kind}) AS at", "type")
        counts = [timed.pattern(f"PATTERN A AND B WITHIN {n} minutes", time="at").count_trends() for n in (1, 2)]
        assert [count.collect()[0][0] for count in counts] == [2, 3]
    days = spark.createDataFrame([("2024-03-01", "A"), ("2024-03-03", "B")], "at string, type string")
    days = days.selectExpr("CAST(at AS date) AS at", "type")
    assert days.pattern("PATTERN A AND B WITHIN 2 days", time="at").trends().count() == 1
    assert days.pattern("PATTERN A AND B WITHIN 47 hours", time="at").trends().count() == 0


@pytest.mark.classic
def test_sides_that_share_a_variable_have_no_span_together(judge: Judge) -> None:
    bound = judge.df.pattern("PATTERN SEQ(A, B) AND SEQ(A, C) WITHIN 3", time="t")
    with pytest.raises(NoPhysicalPlan, match=r"share a variable[\s\S]*different variable names, or add SLIDE"):
        bound.count_trends()
    with pytest.raises(UnsupportedQuery, match="share a variable"):
        bound.trends()
