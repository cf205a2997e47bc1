"""Complete trends from the DataFrame API: published examples, the ways to ask, and what is refused."""

from __future__ import annotations

import itertools
import math
import os
import re
from collections import Counter
from decimal import Decimal
from functools import reduce
from typing import Any

import generators
import pytest
import reference
from modes import more_on_classic, settings
from pyspark.sql import functions as F

import cetdsl as cet
import cetdsl.execution.exchange
from cetdsl import errors
from cetdsl.execution.compat import parallelism
from cetdsl.ir.extraction import COST_MODELS, OPTIMIZERS
from cetdsl.ir.shares import task_of
from cetdsl.session import readable

pytestmark = pytest.mark.simple_plans

A, B = cet.events("A", "B")
CLASSIC = os.environ.get("CETDSL_TEST_MODE", "classic") == "classic"
CHAIN = "PATTERN Check+ c[] WHERE c.destination = NEXT(c).source"
RISING = "PATTERN Stock+ s[] WHERE s.price < NEXT(s).price"
ALGORITHMS = ("auto", "m-cet", "t-cet", "h-cet", "anchors", "balanced", "definition")
READINGS = ("maximal", "ends")


def checks(spark: Any, *pairs: str) -> Any:
    """Checks such as "AB", drawn on account A and paid into B, one a second, numbered from 1."""
    rows = [(number, *pair) for number, pair in enumerate(pairs, 1)]
    return spark.createDataFrame(rows, "t int, source string, destination string")


def prices(spark: Any, *values: float) -> Any:
    return spark.createDataFrame(list(enumerate(values, 1)), "t int, price double")


def times(answer: Any) -> list[tuple[int, ...]]:
    """The trends as the times of their events."""
    return sorted(tuple(binding.event.t for binding in row.trend) for row in answer.collect())


def failing(answer: Any) -> str:
    """The message of an answer that fails when it runs."""
    with pytest.raises(Exception, match=r"cetdsl\.errors\.") as failure:
        answer.collect()
    return readable(failure.value)


# ----------------------------------------------------------------------------------------------------- published


@pytest.mark.parametrize("algorithm", more_on_classic(*ALGORITHMS))
@pytest.mark.parametrize("completeness", more_on_classic(*READINGS))
def test_chains_of_checks(spark: Any, completeness: str, algorithm: str) -> None:
    four = checks(spark, "AB", "BC", "BD", "DE").pattern(CHAIN, time="t", type=None)
    assert times(four.complete_trends(completeness, algorithm, columns=["t"])) == [(1, 2), (1, 3, 4)]
    six = checks(spark, "AB", "BC", "BA", "AB", "AC", "CB").pattern(CHAIN, time="t", type=None)
    answer = six.complete_trends(completeness, algorithm, columns=["t"])
    assert times(answer) == [(1, 2, 6), (1, 3, 4), (1, 3, 5, 6)]
    assert answer.columns == ["trend"]


@pytest.mark.parametrize("algorithm", more_on_classic(*ALGORITHMS))
def test_rising_prices(spark: Any, algorithm: str) -> None:
    rising = prices(spark, 1.0, 2.0, 3.0).pattern(RISING, time="t", type=None)
    assert times(rising.complete_trends("maximal", algorithm)) == [(1, 2, 3)]
    assert times(rising.complete_trends("ends", algorithm)) == [(1, 2, 3), (1, 3)]


@pytest.mark.classic
def test_groups_of_three_have_the_most_trends(spark: Any) -> None:
    """3^(n/3) trends of 12 events in layers of 3, and no more however else they are grouped."""
    layerings = [c for n in range(1, 5) for c in itertools.product(range(1, 13), repeat=n) if sum(c) == 12]
    layerings += [(2,) * 6, (1,) * 12, (3, 3, 3, 2, 1), (2, 2, 2, 3, 3)]
    rows = []
    for case, layers in enumerate(layerings):
        layer_of = [layer for layer, size in enumerate(layers) for _ in range(size)]
        rows += [(case, t, str(layer), str(layer + 1)) for t, layer in enumerate(layer_of)]
    df = spark.createDataFrame(rows, "case int, t int, source string, destination string")
    asked = df.pattern(CHAIN + " GROUP BY case", time="t", type=None)
    for completeness in READINGS:
        counts = {row.case: row["count"] for row in asked.count_complete_trends(completeness).collect()}
        assert counts == {case: math.prod(layers) for case, layers in enumerate(layerings)}
        assert max(counts.values()) == 3 ** (12 // 3) == counts[layerings.index((3, 3, 3, 3))]


# --------------------------------------------------------------------------------------------- what can be asked


@pytest.fixture(scope="module")
def deposits(spark: Any) -> Any:
    """300 checks over 12 accounts, in two groups."""
    return spark.range(300).selectExpr(
        "CAST(id AS int) AS t",
        "concat('account ', id * 7919 % 104729 % 12) AS source",
        "concat('account ', id * 6007 % 99991 % 12) AS destination",
        "IF(id % 3 = 0, 'north', 'south') AS branch",
        "CAST(id * 31 % 17 AS decimal(9, 2)) AS amount",
    )


SLIDING = CHAIN + " GROUP BY branch WITHIN 24 SLIDE 6"


@pytest.mark.parametrize("text", more_on_classic(SLIDING, CHAIN + " WITHIN 20 SLIDE 20", CHAIN + " WITHIN 12"))
def test_counts_samples_and_tops_are_of_the_listed_trends(deposits: Any, text: str) -> None:
    asked = deposits.pattern(text, time="t", type=None)
    c = cet.event("c")

    def key(row: Any) -> Any:
        values = row.asDict()
        return values.get("branch"), values.get("window"), tuple(b.event.t for b in row.trend)

    listed = {key(row): row for row in asked.complete_trends("ends", columns=["t", "amount"]).collect()}
    sums = sorted((sum(b.event.amount for b in row.trend) for row in listed.values()), reverse=True)
    sample = asked.sample_trends(20, seed=3, completeness="ends", columns=["t"]).collect()
    assert len(sample) == len({key(row) for row in sample} & set(listed)) == 20
    heaviest = asked.top_trends(20, by=cet.sum(c.amount), completeness="ends", columns=["t", "amount"])
    assert heaviest.schema["sum"].dataType.simpleString() == "decimal(38,2)"
    rows = heaviest.collect()
    assert [row.sum for row in rows] == sums[:20]
    assert all(row.sum == sum(b.event.amount for b in row.trend) for row in rows)
    longest = asked.top_trends(20, completeness="ends", columns=["t"]).collect()
    assert [row.length for row in longest] == sorted((len(row.trend) for row in listed.values()), reverse=True)[:20]
    assert {key(row) for row in longest} <= set(listed)
    counted = asked.top_trends(3, by=cet.count(c), completeness="ends", columns=["t"]).collect()
    assert [row["count"] for row in counted] == [row.length for row in longest[:3]]


def test_samples_and_tops_of_all_trends(deposits: Any) -> None:
    asked = deposits.filter("t < 40").pattern(CHAIN, time="t", type=None)
    listed = set(times(asked.trends(columns=["t"])))
    sample = times(asked.sample_trends(50, complete=False, columns=["t"]))
    assert len(set(sample)) == min(50, len(listed))
    assert set(sample) <= listed
    longest = asked.top_trends(5, complete=False, columns=["t"]).collect()
    assert [row.length for row in longest] == sorted(map(len, listed), reverse=True)[:5]


@pytest.mark.classic
def test_a_seed_gives_the_same_sample_however_the_rows_are_spread(deposits: Any) -> None:
    def sample(df: Any, seed: int | None) -> Any:
        return times(df.pattern(SLIDING, time="t", type=None).sample_trends(10, seed, columns=["t"]))

    assert sample(deposits, 1) == sample(deposits.repartition(7), 1)
    assert sample(deposits, 1) != sample(deposits, 2)
    assert sample(deposits, None) != sample(deposits, None)


@pytest.mark.classic
def test_a_sample_is_uniform(spark: Any) -> None:
    """Chi-squared over the 27 trends of three layers of three; each sample draws 9 of them, without replacement."""
    rows = [(case, t, str(t // 3), str(t // 3 + 1)) for case in range(200) for t in range(9)]
    df = spark.createDataFrame(rows, "case int, t int, source string, destination string")
    # Drawn per group, as a group of 200 is as good as 200 seeds: the smallest keys of each are those of a sample.
    drawn: dict[Any, int] = dict.fromkeys(itertools.product(range(3), range(3, 6), range(6, 9)), 0)
    for row in df.pattern(CHAIN + " GROUP BY case", time="t", type=None).sample_trends(2700, seed=5).collect():
        drawn[tuple(b.event.t for b in row.trend)] += 1
    assert sum(drawn.values()) == 2700
    chi_squared = sum((times - 100) ** 2 / 100 for times in drawn.values())
    # 26 degrees of freedom: beyond 54.05 once in a thousand; half of all trends are drawn, which halves the variance.
    assert chi_squared < 54.05 / 2


def test_limits(deposits: Any) -> None:
    asked = deposits.pattern(SLIDING, time="t", type=None)
    for algorithm in ("auto", "h-cet", "balanced", "definition"):
        assert asked.complete_trends("ends", algorithm, limit=7, columns=["t"]).count() == 7
    assert asked.complete_trends("ends", limit=0).collect() == []


@pytest.mark.classic
def test_more_trends_than_can_be_listed(spark: Any) -> None:
    rows = [(t, t // 3, t // 3 + 1) for t in range(300)]
    asked = spark.createDataFrame(rows, "t int, source int, destination int").pattern(CHAIN, time="t", type=None)
    assert asked.count_complete_trends(number="string").first()["count"] == str(3**100)
    assert asked.count_complete_trends(number="log2").first()["count"] == pytest.approx(100 * math.log2(3), rel=1e-12)
    assert asked.count_complete_trends(number="double").first()["count"] == pytest.approx(3.0**100, rel=1e-12)
    message = failing(asked.count_complete_trends())
    assert "'count' is about 2^158.5 in the whole input, which does not fit DECIMAL(38, 0)" in message
    assert "number='string'" in message
    assert asked.complete_trends(limit=5, columns=["t"]).count() == 5
    assert [len(trend) for trend in times(asked.sample_trends(5, seed=1, columns=["t"]))] == [100] * 5
    heaviest = asked.top_trends(1, by=cet.sum(cet.event("c").t), columns=["t"]).first()
    assert heaviest.sum == sum(range(2, 300, 3))


@pytest.mark.classic
def test_partitions_of_a_group_are_added_up(spark: Any) -> None:
    rows = [(1, "u", 1.0), (2, "u", 2.0), (3, "v", 1.0), (4, "v", 0.5), (5, "w", 7.0)]
    df = spark.createDataFrame(rows, "t int, k string, price double")
    asked = df.pattern(RISING + " AND [k]", time="t", type=None)
    assert asked.count_complete_trends().first()["count"] == 4
    assert asked.complete_trends().columns == ["k", "trend"]
    assert times(asked.complete_trends()) == [(1, 2), (3,), (4,), (5,)]


@pytest.mark.classic
def test_a_group_without_a_trend_has_no_row(spark: Any) -> None:
    df = spark.createDataFrame([(1, "A", "u"), (2, "B", "u"), (1, "B", "v")], "t int, type string, k string")
    asked = df.pattern("PATTERN SEQ(A, B) GROUP BY k", time="t")
    assert [row.k for row in asked.count_complete_trends().collect()] == ["u"]
    assert df.filter("t > 5").pattern("PATTERN A+", time="t").count_complete_trends().collect() == []
    assert df.filter("t > 5").pattern("PATTERN A+", time="t").complete_trends().collect() == []


@pytest.mark.parametrize(
    ("text", "expected"),
    more_on_classic(
        # What holds of a trend need not hold of a longer one; a sum is told by the definition.
        ("PATTERN A+ WITHIN 2", [(1, 2, 3), (2, 3, 4), (3, 4, 5)]),
        ("PATTERN A+ WHERE SUM(A.x) <= 6", [(1, 2, 3), (1, 4), (1, 5), (2, 4)]),
        ("PATTERN SEQ(A first, A+ a[]) WHERE first.x * 2 < a.x", [(1, 3, 4, 5), (2, 5)]),
        ("PATTERN A{2,3}", [(1, 2, 3), (1, 2, 4), (1, 2, 5), (1, 3, 4), (1, 3, 5), (1, 4, 5), (2, 3, 4), (2, 3, 5),
                            (2, 4, 5), (3, 4, 5)]),
    ),
)  # fmt: skip
def test_queries_whose_graph_is_no_graph_of_events_alone(
    spark: Any, text: str, expected: list[tuple[int, ...]]
) -> None:
    df = spark.createDataFrame([(t, "A", t) for t in range(1, 6)], "t int, type string, x int")
    asked = df.pattern(text, time="t")
    assert times(asked.complete_trends(columns=["t"])) == expected
    assert asked.count_complete_trends().first()["count"] == len(expected)
    assert asked.top_trends(1, columns=["t"]).first().length == max(map(len, expected))
    assert set(times(asked.sample_trends(2, columns=["t"]))) <= set(expected)


@pytest.mark.parametrize("text", ["LENGTH >= 64", "COUNT(A) >= 64"])
def test_long_counts_are_states_too(spark: Any, text: str) -> None:
    """Of 70 events, the sets of 64 and more are trends, and only all of them are one that no other holds."""
    df = spark.range(70).selectExpr("id AS t", "'A' AS type")
    asked = df.pattern(f"PATTERN A+ WHERE {text}", time="t")
    assert "definition" not in str(asked.explain("complete"))
    assert times(asked.complete_trends(columns=["t"])) == [tuple(range(70))]
    assert asked.count_complete_trends().first()["count"] == 1
    assert asked.count_trends().first()["count"] == sum(math.comb(70, size) for size in range(64, 71))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("LENGTH >= -5", 2**30 - 1),
        ("COUNT(A) > -1e300", 2**30 - 1),
        ("LENGTH != -2.5", 2**30 - 1),
        ("-2 < LENGTH", 2**30 - 1),
        ("COUNT(A) <= -2", None),
        ("COUNT(A) NOT IN (-1, -2)", 2**30 - 1),
    ],
)
def test_no_count_is_negative(spark: Any, text: str, number: int | None) -> None:
    """What compares with less than nothing is no reason to list the trends, of which there are a billion."""
    df = spark.range(30).selectExpr("id AS t", "'A' AS type")
    asked = df.pattern(f"PATTERN A+ WHERE {text}", time="t")
    assert "definition" not in str(asked.explain("complete"))
    assert [row["count"] for row in asked.count_trends().collect()] == ([] if number is None else [number])
    assert times(asked.complete_trends(columns=["t"])) == ([] if number is None else [tuple(range(30))])


# ------------------------------------------------------------------------------------------------------ balanced


@pytest.mark.classic
@pytest.mark.parametrize("algorithm", more_on_classic("auto", "m-cet", "h-cet", "anchors"))
def test_tasks_get_equal_shares_of_one_large_group(spark: Any, deposits: Any, algorithm: str) -> None:
    asked = deposits.filter("t < 70").pattern(CHAIN, time="t", type=None)
    trends = asked.complete_trends("ends", algorithm, columns=["t"])
    rows = trends.select(F.size("trend").alias("n"), F.spark_partition_id().alias("task"))
    refs = [row.refs for row in rows.groupBy("task").agg(F.sum("n").alias("refs")).collect()]
    assert len(refs) == parallelism(spark)
    assert sum(refs) > 3000
    assert max(refs) <= 1.1 * sum(refs) / len(refs)
    assert trends.count() == asked.count_complete_trends("ends").first()["count"]


@pytest.mark.classic
@pytest.mark.parametrize("window", ["", "WITHIN 30 SLIDE 10"])
def test_shares_of_many_keys_list_each_trend_once(spark: Any, deposits: Any, window: str) -> None:
    """No two tasks have the same keys, unless Spark joins all partitions of a small shuffle, as it usually does."""
    keyed = deposits.filter("t < 120").withColumn("k", F.expr("CASE WHEN t < 60 THEN 0 ELSE t DIV 3 END"))
    asked = keyed.pattern(f"{CHAIN} GROUP BY k {window}", time="t", type=None)
    expected = Counter(map(str, asked.complete_trends("ends", "m-cet", columns=["t"]).collect()))
    assert expected.total() > 250
    for algorithm in ("balanced", "h-cet"):
        with settings(spark, {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "7"}):
            answer = asked.complete_trends("ends", algorithm, columns=["t"])
            assert Counter(map(str, answer.collect())) == expected


def test_shares_that_come_to_one_task_are_an_error(spark: Any, deposits: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task sorts by time alone, so the events of two shares would be taken for each other's."""
    together = tuple([number for number in range(50) if task_of(number, 2) == 0][:2])
    monkeypatch.setattr(cetdsl.execution.exchange, "share_numbers", lambda count: together)
    asked = deposits.filter("t < 60").pattern(CHAIN, time="t", type=None)
    assert "two shares of the events came to one task" in failing(asked.complete_trends("ends", columns=["t"]))


@pytest.mark.classic
def test_shares_agree_on_the_order_of_simultaneous_events(spark: Any, deposits: Any) -> None:
    """A task gets its rows in the order in which they happen to arrive."""
    tied = deposits.filter("t < 60").withColumn("number", F.col("t")).withColumn("t", F.expr("t DIV 4"))
    asked = tied.repartition(5).pattern(CHAIN, time="t", type=None)

    def answer(algorithm: str) -> list[Any]:
        rows = asked.complete_trends("ends", algorithm, columns=["number"]).collect()
        return sorted(tuple(binding.event.number for binding in row.trend) for row in rows)

    expected = answer("m-cet")
    assert len(expected) > 40
    assert answer("balanced") == expected


def test_parallelism_is_that_of_the_session(spark: Any) -> None:
    assert parallelism(spark) == 2


@pytest.mark.classic
def test_optimizers_cost_models_and_anchors_change_no_answer(deposits: Any) -> None:
    asked = deposits.pattern(SLIDING, time="t", type=None)
    ways = [
        {"algorithm": "h-cet", "memory_limit": "64k", "optimizer": optimizer, "cost_model": model}
        for optimizer in OPTIMIZERS
        for model in COST_MODELS
    ]
    ways += [{"algorithm": "anchors", "anchors": number} for number in (1, 4)]
    answers = [asked.complete_trends("ends", columns=["t"], **how) for how in ways]
    numbered = [answer.selectExpr(f"{n} AS way", "struct(*) AS row") for n, answer in enumerate(answers)]
    found: dict[int, list[str]] = {n: [] for n in range(len(ways))}
    for way, row in reduce(lambda one, other: one.union(other), numbered).collect():
        found[way].append(str(row))
    expected = sorted(found[0])
    assert expected
    assert all(sorted(rows) == expected for rows in found.values())
    text = asked.explain("complete", algorithm="h-cet", optimizer="greedy", cost_model="worst-case").text
    assert "optimizer     the published greedy search, " in text
    assert "by the most partial trends that so many events can have" in text


@pytest.mark.classic
@pytest.mark.parametrize("completeness", READINGS)
def test_anchors_of_one_group_take_two_stages(deposits: Any, completeness: str) -> None:
    asked = deposits.where("t < 60").pattern(CHAIN, time="t", type=None)
    answers = [asked.complete_trends(completeness, "m-cet", columns=["t"])]
    answers += [
        asked.complete_trends(completeness, "anchors", columns=["t"], anchors=number) for number in (None, 1, 5)
    ]
    numbered = [answer.selectExpr(f"{n} AS way", "trend.event.t AS t") for n, answer in enumerate(answers)]
    found: dict[int, list[tuple[int, ...]]] = {n: [] for n in range(len(answers))}
    for way, trend in reduce(lambda one, other: one.union(other), numbered).collect():
        found[way].append(tuple(trend))
    expected = sorted(found[0])
    assert len(expected) > 40
    assert all(sorted(trends) == expected for trends in found.values())
    text = asked.explain("complete", completeness=completeness, algorithm="anchors").text
    assert "kernel: find the partial trends" in text
    assert "kernel: join partial trends" in text
    one_task = asked.complete_trends(completeness, "anchors", limit=5)
    assert one_task.count() == 5


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (SLIDING, "keys or windows spread the trends"),
        (CHAIN + " AND COUNT(c) = 2", "anchors are values of events, and these"),
        ("PATTERN SEQ(c, c+ d[]) WHERE c.amount < d.amount", "pairwise predicates make many graphs"),
    ],
)
def test_explain_says_why_anchors_take_one_stage(deposits: Any, text: str, reason: str) -> None:
    told = deposits.pattern(text, time="t", type=None).explain("complete", algorithm="anchors").text
    assert f"both by the same task: {reason}" in told


@pytest.mark.classic
def test_the_memory_limit_includes_the_graph(deposits: Any) -> None:
    asked = deposits.pattern(SLIDING, time="t", type=None)
    row = asked.survey_complete_trends("ends", "h-cet", "1m", measure=True).first()
    assert row.bytes > 8 * (row.vertices + row.edges)
    message = failing(asked.complete_trends("ends", "m-cet", 500))
    assert "500 are allowed with partial trends" in message
    assert "raise memory_limit" in message


# --------------------------------------------------------------------------------------------------- what is refused


def refuse_settings(asked: Any) -> None:
    for given, refused in (
        (
            {"algorithm": "h-cet", "optimizer": "branch and bound"},
            r"no optimizer .*\n.*did you mean 'branch-and-bound'",
        ),
        ({"algorithm": "h-cet", "optimizer": "best"}, r"no optimizer 'best'\n  hint: choose one of auto, "),
        ({"algorithm": "h-cet", "cost_model": "rough"}, r"no cost model 'rough'\n  hint: choose one of exact, "),
        ({"algorithm": "t-cet", "optimizer": "greedy"}, r"algorithm 't-cet' cuts none\n  hint: use algorithm='h-cet'"),
        ({"cost_model": "worst-case"}, r"algorithm 'auto' cuts none\n  hint: use algorithm='h-cet'"),
        ({"algorithm": "h-cet", "anchors": 3}, r"algorithm 'h-cet' has none\n  hint: use algorithm='anchors'"),
        *(
            ({"algorithm": "anchors", "anchors": number}, r"anchors must be a number .*, at least 1, not")
            for number in (0, -1, 1.5, "3", True)
        ),
    ):
        for ask in (asked.complete_trends, asked.survey_complete_trends):
            with pytest.raises(errors.InvalidNode, match=refused):
                ask(**given)
        for stage in ("complete", "rewritten"):
            with pytest.raises(errors.InvalidNode, match=refused):
                asked.explain(stage, **given)
    too_many = asked.complete_trends("ends", "anchors", anchors=3)
    assert "there are 2 events, and anchors=3 asks for more" in failing(too_many)


def test_wrong_arguments(spark: Any) -> None:
    asked = prices(spark, 1.0, 2.0).pattern(RISING, time="t", type=None)
    with pytest.raises(errors.InvalidNode, match=r"no algorithm 'mcet'\n  hint: did you mean 'm-cet'"):
        asked.complete_trends(algorithm="mcet")
    refuse_settings(asked)
    for ask in (
        asked.complete_trends, asked.count_complete_trends, asked.survey_complete_trends,
        lambda word: asked.sample_trends(1, completeness=word), lambda word: asked.top_trends(1, completeness=word),
    ):  # fmt: skip
        for word in ("max", "all", None):
            with pytest.raises(errors.InvalidNode, match=r"no completeness(.|\n)*hint: .*maximal"):
                ask(word)
    for memory in ("much", "5 m m", "-1", 0, -5, 1.5, True, "", 1, "3b"):
        with pytest.raises(errors.InvalidNode, match=r"(memory|not enough for one vertex)(.|\n)*hint: "):
            asked.complete_trends(memory_limit=memory)
    for number in (0, -1, 1.5, "3", True, None):
        with pytest.raises(errors.InvalidNode, match="n must be a number of trends, at least 1"):
            asked.sample_trends(number)
        with pytest.raises(errors.InvalidNode, match="k must be a number of trends, at least 1"):
            asked.top_trends(number)
    with pytest.raises(errors.InvalidNode, match="'joins' keeps its paths in Spark"):
        asked.complete_trends(algorithm="joins", memory_limit="1g")
    for limit in (-1, 1.5, "3", True):
        with pytest.raises(errors.InvalidNode, match="limit must be a whole number"):
            asked.complete_trends(limit=limit)
    with pytest.raises(errors.InvalidNode, match="measure is True or False, not 'yes'"):
        asked.survey_complete_trends(measure="yes")
    for given in ({"completeness": "most"}, {"number": "x"}, {"memory_limit": "much"}):
        for stage in ("rewritten", "trends", "complete"):
            with pytest.raises(errors.InvalidNode):
                asked.explain(stage, **given)
    assert "strategy" in str(asked.explain("physical", algorithm="kernel", plan="greedy"))
    assert "h-cet" not in str(asked.explain("rewritten", algorithm="h-cet", memory_limit="1g"))
    with pytest.raises(errors.InvalidNode, match="no algorithm 'kernel'"):
        asked.explain("complete", algorithm="kernel", plan="greedy")
    with pytest.raises(errors.InvalidNode, match="seed must be a whole number"):
        asked.sample_trends(1, seed="x")
    with pytest.raises(errors.InvalidNode, match="no number form"):
        asked.count_complete_trends(number="int")
    with pytest.raises(errors.UnknownColumn, match="no column 'nope'"):
        asked.complete_trends(columns=["nope"])


_WEIGHTS = {
    "avg": (cet.avg(B.x), lambda xs, _: sum(xs) / len(xs) if xs else None),
    "min": (cet.min(B.x), lambda xs, _: min(xs, default=None)),
    "max": (cet.max(B.t), lambda _, ts: max(ts, default=None)),
    "sum": (cet.sum(B.x), lambda xs, _: sum(xs) if xs else None),
    "count": (cet.count(B), lambda _, ts: len(ts)),
}


@pytest.mark.parametrize("name", more_on_classic(*_WEIGHTS))
@pytest.mark.parametrize("per_group", [True, False])
@pytest.mark.parametrize("completeness", more_on_classic(None, *READINGS))
def test_the_first_trends_by_any_aggregate(spark: Any, completeness: str | None, per_group: bool, name: str) -> None:
    """The weights are those of the trends, and none that is left out is heavier than one that is shown."""
    rows = generators.stacked(8_800, 12)
    query = cet.parse("PATTERN SEQ(A, B+) GROUP BY case WITHIN 6 SLIDE 3")
    by, weigh = _WEIGHTS[name]

    def rank(weight: Any) -> tuple[bool, Any]:
        return weight is not None, weight or 0

    def weight_of(bound: list[Any]) -> Any:
        return weigh([event["x"] for event in bound if event["x"] is not None], [event["t"] for event in bound])

    if completeness is None:
        cells = reference.trends(query.node, rows)
    else:
        cells = reference.complete_trends(query.node, rows, completeness)
    every: dict[Any, list[Any]] = {}
    for ((case,), window, _), trends in cells.items():
        weights = [weight_of([rows[index] for index, variable in trend if variable == "B"]) for trend in trends]
        every.setdefault((case, window) if per_group else None, []).extend(weights)
    found: dict[Any, list[Any]] = {}
    asked = generators.frame(spark, rows).pattern(query, time="t")
    which = {"complete": False} if completeness is None else {"completeness": completeness}
    for row in asked.top_trends(3, by=by, **which, columns=["id", "x", "t"], per_group=per_group).collect():
        weight = weight_of([binding.event for binding in row.trend if binding.variable == "B"])
        assert row[name] == pytest.approx(weight) if row[name] is not None else weight is None
        found.setdefault((row.case, tuple(row.window)) if per_group else None, []).append(weight)
    assert set(found) == set(every)
    for group, weights in found.items():
        assert sorted(weights, key=rank) == sorted(every[group], key=rank)[-3:]


@pytest.mark.classic
@pytest.mark.parametrize("per_group", [True, False])
def test_complete_trends_are_ordered_without_listing_the_others(spark: Any, per_group: bool) -> None:
    """2^60 trends, of which one is complete."""
    asked = prices(spark, *map(float, range(60))).pattern(RISING, time="t", type=None)
    [row] = asked.top_trends(5, by=cet.avg(cet.event("s").price), columns=["t"], per_group=per_group).collect()
    assert (row.avg, len(row.trend)) == (29.5, 60)


@pytest.mark.parametrize("where", more_on_classic("A.k = B.k", "A.k = B.k AND AVG(B.x) >= 0"))
def test_so_many_of_each_group_are_drawn(spark: Any, where: str) -> None:
    """Paths and trends of the definition, of partitions that the answer does not show, in overlapping windows."""
    df = generators.frame(spark, generators.stacked(8_850, 12))
    asked = df.pattern(f"PATTERN SEQ(A, B+) WHERE {where} GROUP BY case WITHIN 6 SLIDE 3", time="t")

    def by_group(rows: Any) -> dict[Any, Counter[Any]]:
        found: dict[Any, Counter[Any]] = {}
        for row in rows.collect():
            trend = tuple((bound.event.id, bound.variable) for bound in row.trend)
            found.setdefault((row.case, row.window), Counter())[trend] += 1
        return found

    complete, every = by_group(asked.complete_trends(columns=["id"])), by_group(asked.trends(columns=["id"]))
    drawn = [
        by_group(asked.sample_trends(2, 1, is_complete, columns=["id"], per_group=True))
        for is_complete in (True, False)
    ]
    for found, known in zip(drawn, (complete, every), strict=True):
        assert {group: own.total() for group, own in found.items()} == {
            group: min(2, own.total()) for group, own in known.items()
        }
        assert all(own <= known[group] for group, own in found.items())
    assert drawn[1] != by_group(asked.sample_trends(2, 2, False, columns=["id"], per_group=True))
    longest = by_group(asked.top_trends(1, columns=["id"], per_group=True))
    assert {group: max(map(len, own)) for group, own in longest.items()} == {
        group: max(map(len, own)) for group, own in complete.items()
    }


@pytest.mark.classic
def test_a_not_that_no_index_answers_is_told(spark: Any) -> None:
    df = spark.createDataFrame([], "t int, type string, x int")
    told = "tested for each two events that meet: NOT C between A and B"
    for query, is_tested in (
        ("SEQ(A, NOT C, B+) WHERE A.x * 2 < B.x AND B.x < NEXT(B).x", True),
        ("SEQ(A, NOT C, B+) WHERE B.x < NEXT(B).x", False),
        ("SEQ(A, NOT A n, B) WHERE A.x < B.x", False),
    ):
        assert (told in str(df.pattern(f"PATTERN {query}", time="t").explain("complete"))) == is_tested, query


def test_what_trends_cannot_be_ordered_by(spark: Any) -> None:
    s = cet.event("s")
    asked = prices(spark, 1.0, 2.0).pattern(RISING, time="t", type=None)
    for by, named in ((s.price, "s.price"), (3, "3"), ("length", "'length'")):
        with pytest.raises(errors.InvalidNode, match=rf"by={named} is not an aggregate\n  hint: use by=cet\.length"):
            asked.top_trends(1, by=by)
    for by in (cet.count(), cet.max(cet.length())):
        with pytest.raises(errors.InvalidNode, match="which is about many trends"):
            asked.top_trends(1, by=by)
    with pytest.raises(errors.InvalidNode, match="per_group is True or False"):
        asked.top_trends(1, per_group="yes")
    for draw in (asked.top_trends, asked.sample_trends):
        with pytest.raises(errors.InvalidNode, match="complete is True or False, not 'ends'"):
            draw(1, complete="ends")
    with pytest.raises(errors.UnknownVariable, match="no variable 'B'"):
        asked.top_trends(1, by=cet.sum(B.price))
    with pytest.raises(errors.UnknownColumn, match="no column 'prise'"):
        asked.top_trends(1, by=cet.sum(s.prise))


@pytest.mark.classic
@pytest.mark.parametrize("text", [RISING, RISING + " WITHIN 9"])
def test_values_that_are_no_numbers_are_ordered_as_spark_orders_them(spark: Any, text: str) -> None:
    rows = [(1, None), (2, 5.0), (3, -7.0), (4, -math.inf), (5, math.inf), (6, math.nan)]
    asked = spark.createDataFrame(rows, "t int, price double").pattern(text, time="t", type=None)
    answer = asked.top_trends(20, by=cet.sum(cet.event("s").price), complete=False, columns=["t"])
    found = [row.sum for row in answer.collect()]
    assert [str(value) for value in found[:2]] == ["nan", "nan"]
    assert found[-1] is None
    assert found[-2] == -math.inf
    assert [str(row.sum) for row in answer.orderBy(F.desc("sum")).collect()] == [str(value) for value in found]
    assert len(found) == asked.count_trends().first()["count"]


@pytest.mark.classic
def test_sums_beyond_64_bits(spark: Any) -> None:
    df = spark.createDataFrame([(1, 2**62), (2, 2**62)], "t int, x bigint")
    asked = df.pattern("PATTERN A+ a[]", time="t", type=None)
    assert "does not fit 64 bits" in failing(asked.top_trends(1, by=cet.sum(cet.event("a").x)))
    exact = asked.top_trends(1, by=cet.sum(cet.event("a").x * 1.0)).first().sum
    assert exact == 2.0**63
    small = df.selectExpr("t", "CAST(t AS decimal(30, 1)) AS x").pattern("PATTERN A+ a[]", time="t", type=None)
    assert small.top_trends(1, by=cet.sum(cet.event("a").x)).first().sum == Decimal("3.0")


@pytest.mark.classic
def test_sums_of_decimals_of_many_digits(spark: Any) -> None:
    """Python's decimals have 18 digits behind the point, most of them zeros; other events' values do not matter."""
    rows = [("u", 1, "A", "9" * 20), ("u", 2, "B", "12.5"), ("u", 3, "B", "1000000.25"), ("u", 4, "B", "-70")]
    rows += [("v", 1, "A", "0"), ("v", 2, "B", "1000012.750000000001"), ("v", 3, "B", "NULL")]
    texts = spark.createDataFrame(rows, "g string, t int, type string, x string")
    df = texts.withColumn("x", F.expr("try_cast(x AS decimal(38, 18))"))
    by = cet.sum(cet.event("b").x)
    rising = ["-70", "-57.5", "12.5", "999930.25", "999942.75", "1000000.25", "1000012.75"]
    wanted = [*map(Decimal, ("1000012.750000000001", "1000012.750000000001", *reversed(rising))), None]
    for parts in (1, 3):
        asked = df.repartition(parts).pattern("PATTERN SEQ(A a, B+ b) GROUP BY g", time="t")
        found = asked.top_trends(20, by=by, complete=False, columns=["t"])
        assert [row.sum for row in found.collect()] == wanted
    for values, kind, message in (
        (("100", "0.000000000000000001"), "decimal(38, 18)", "even without the zeros that all values end in"),
        (("6" + "0" * 37,) * 2, "decimal(38, 0)", "does not fit DECIMAL(38, 0)"),
    ):
        large = spark.createDataFrame([*enumerate(values)], "t int, x string").selectExpr(
            "t", f"CAST(x AS {kind}) AS x"
        )
        asked = large.pattern("PATTERN A+ b[]", time="t", type=None)
        assert message in failing(asked.top_trends(1, by=by)), message


def test_names_that_clash(spark: Any) -> None:
    df = spark.createDataFrame([(1, "A", "u")], "t int, type string, Length string")
    asked = df.pattern("PATTERN A+ GROUP BY Length", time="t")
    assert asked.complete_trends().columns == ["Length", "trend"]
    with pytest.raises(errors.ResolutionError, match="'Length' clashes with the length column"):
        asked.top_trends(1)
    with pytest.raises(errors.ResolutionError, match="clashes with a group column"):
        asked.count_complete_trends(name="length")


def test_and_at_the_top_has_no_complete_trends(spark: Any) -> None:
    df = spark.createDataFrame([(1, "A"), (2, "B")], "t int, type string")
    asked = df.pattern("PATTERN A+ AND B+", time="t")
    for ask in (
        asked.complete_trends, asked.count_complete_trends, asked.survey_complete_trends,
        lambda: asked.sample_trends(1), lambda: asked.top_trends(1),
        lambda: asked.complete_trends(algorithm="definition"), lambda: asked.explain("complete"),
    ):  # fmt: skip
        with pytest.raises(errors.UnsupportedQuery, match=r"AND at the top are not defined(.|\n)*each side by itself"):
            ask()
    assert asked.sample_trends(1, complete=False).count() == 1


def test_the_heaviest_trends_of_an_and(spark: Any) -> None:
    """Pairs of trends, of which none is complete, are weighed like trends; each has the bindings of both."""
    rows = [(t, "AB"[t % 3 > 0], t % 2, t * 7 % 10) for t in range(9)]
    df = spark.createDataFrame(rows, "t int, type string, k int, x int")
    for text in ("PATTERN A+ AND B+ GROUP BY k", "PATTERN A AND SEQ(B, B b2) WHERE A.x < b2.x GROUP BY k"):
        asked = df.pattern(text, time="t")
        pairs = [(row.k, [b.event.x for b in row.trend if b.variable == "B"]) for row in asked.trends().collect()]
        sums = sorted((sum(xs) for _, xs in pairs), reverse=True)
        weighed = asked.top_trends(5, by=cet.sum(cet.event("B").x), complete=False).collect()
        assert [row.sum for row in weighed] == sums[:5]
        assert [sum(b.event.x for b in row.trend if b.variable == "B") for row in weighed] == sums[:5]
        lengths = sorted((len(row.trend) for row in asked.trends().collect()), reverse=True)
        assert [row.length for row in asked.top_trends(3, complete=False).collect()] == lengths[:3]
        of_each = asked.top_trends(2, by=cet.max(cet.event("B").x), complete=False, per_group=True).collect()
        best = [x for k in (0, 1) for x in sorted((max(xs) for key, xs in pairs if key == k), reverse=True)[:2]]
        assert sorted(row.max for row in of_each) == sorted(best)
    with pytest.raises(errors.UnsupportedQuery, match="share a variable"):
        df.pattern("PATTERN A AND SEQ(A, B)", time="t").top_trends(1, complete=False)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("PATTERN A{63}", "more than 62 states"),
        ("PATTERN SEQ(A+, B+) WHERE A.x < B.x", "pairwise predicates relate no variable"),
        ("PATTERN SEQ(A+, B+) WHERE A.x * B.x < 3", r"A.x \* B.x < 3 does not split into a side for each event"),
        ("PATTERN A+ WHERE SUM(A.x) > 3", "a predicate needs the finished trend"),
        ("PATTERN A+ WHERE COUNT(A) > 600", "> 600 counts, and the states of the automaton cannot"),
        ("PATTERN SEQ(NOT B, A, A c) OR A c WITHIN 2", "a NOT at the beginning or the end"),
        ("PATTERN SEQ(A, NOT B b, A c) WHERE b.x < A.x", "a NOT depends on which events"),
    ],
)
def test_algorithms_that_cannot_take_a_query_say_why(spark: Any, text: str, reason: str) -> None:
    df = spark.createDataFrame([(1, "A", 1)], "t int, type string, x int")
    asked = df.pattern(text, time="t")
    for algorithm in ("m-cet", "t-cet", "h-cet", "anchors", "joins", "balanced"):
        with pytest.raises(errors.UnsupportedQuery, match=rf"algorithm '{algorithm}'.*{reason}(.|\n)*'definition'"):
            asked.complete_trends(algorithm=algorithm)
    assert re.search(reason, asked.explain("complete").text)
    with pytest.raises(errors.NoPhysicalPlan, match=reason):
        asked.survey_complete_trends()


@pytest.mark.classic
def test_pairwise_predicates_of_one_event_have_a_graph_for_each(spark: Any) -> None:
    """Values rise, or do not: the first B tells of all, in one graph, or each A has a graph of its own."""
    rows = [(t, "AB"[t % 3 > 0], t * 7 % 10, t * 3 % 5) for t in range(18)]
    df = spark.createDataFrame(rows, "t int, type string, x int, y int")
    for text, many in (
        ("PATTERN SEQ(A, B+) WHERE A.x * 2 < B.x AND B.x < NEXT(B).x", False),
        ("PATTERN SEQ(A, B+) WHERE A.x * 2 < B.x AND B.y < NEXT(B).y", True),
        ("PATTERN SEQ(A, B+) WHERE A.x * B.x > 8 AND B.y < NEXT(B).y", True),
        ("PATTERN SEQ(B+, A) WHERE (A.x < B.x OR A.y = B.y) AND B.y < NEXT(B).y", True),
    ):
        asked = df.pattern(text, time="t")
        expected = sorted(map(str, asked.complete_trends(algorithm="definition").collect()))
        assert len(expected) > 10
        for algorithm in ("auto", "m-cet", "t-cet", "h-cet", "anchors", "balanced"):
            assert sorted(map(str, asked.complete_trends(algorithm=algorithm).collect())) == expected, algorithm
        assert asked.count_complete_trends().first()["count"] == len(expected)
        assert ("graphs     one per event bound to A" in asked.explain("complete").text) == many
        if many:
            with pytest.raises(errors.UnsupportedQuery, match="a pairwise predicate relates events that are no neighb"):
                asked.complete_trends(algorithm="joins")
            with pytest.raises(errors.UnsupportedQuery, match="a pairwise predicate relates events that are no neighb"):
                asked.graph()
            with pytest.raises(errors.NoPhysicalPlan, match="a pairwise predicate relates events that are no neighb"):
                asked.survey_complete_trends()


#: Each has another kind of graph, which explain names.
SHADOWED = {
    "PATTERN A{3,} WHERE A.x < NEXT(A).x": ("know what precedes", "from state to state"),
    "PATTERN SEQ(A+, B) OR SEQ(B, A+) GROUP BY k WITHIN 8 SLIDE 4": ("know what precedes", "followed along each edge"),
    "PATTERN A{2,3} WHERE A.x < NEXT(A).x WITHIN 9": ("know what precedes", "followed along each edge"),
    "PATTERN SEQ(NOT B, A+) GROUP BY k WITHIN 5": ("know what precedes", "from state to state"),
    "PATTERN SEQ(A+, NOT B) WHERE A.x < NEXT(A).x GROUP BY k WITHIN 9 SLIDE 3": ("know what", "from state to state"),
}


@pytest.mark.classic
@pytest.mark.parametrize("text", SHADOWED)
def test_states_that_know_what_else_reads_their_events(spark: Any, text: str) -> None:
    rows = [(t, "AAB"[t * 5 % 7 % 3], t * 7 % 10, t % 2) for t in range(26)]
    asked = spark.createDataFrame(rows, "t int, type string, x int, k int").pattern(text, time="t")
    for completeness, kind in zip(("ends", "maximal"), SHADOWED[text], strict=True):
        expected = sorted(map(str, asked.complete_trends(completeness, algorithm="definition").collect()))
        assert len(expected) > 5
        found = asked.complete_trends(completeness, "balanced" if completeness == "ends" else "auto").collect()
        assert sorted(map(str, found)) == expected, completeness
        counts = asked.count_complete_trends(completeness).collect()
        assert sum(row["count"] for row in counts) == len(expected)
        assert kind in asked.explain("complete", completeness=completeness).text
    with pytest.raises(errors.UnsupportedQuery, match="algorithm 'joins'"):
        asked.complete_trends(algorithm="joins")


@pytest.mark.parametrize(
    "text", more_on_classic(CHAIN, CHAIN + " GROUP BY k WITHIN 5 SLIDE 2", CHAIN + " AND [k]", CHAIN + " WITHIN 9")
)
def test_null_times_are_counted_once(spark: Any, text: str) -> None:
    rows = [(None if t % 4 == 0 else t, "A", "A", "u" if t % 2 else "v") for t in range(20)]
    df = spark.createDataFrame(rows, "t int, source string, destination string, k string").repartition(3)
    asked = df.pattern(text, time="t", type=None)
    for answer in (asked.complete_trends(), asked.count_complete_trends(), asked.sample_trends(1), asked.top_trends(1)):
        assert "the time column 't' is NULL in 5 rows" in failing(answer)
    if "WITHIN 9" not in text:
        assert "the time column 't' is NULL in 5 rows" in failing(asked.complete_trends(algorithm="balanced"))


@pytest.mark.classic
def test_more_complete_trends_than_memory(spark: Any) -> None:
    df = spark.createDataFrame([(t, "A", "u") for t in range(14)], "t int, type string, k string")
    asked = df.pattern("PATTERN A{7} GROUP BY k", time="t")
    message = failing(asked.complete_trends(algorithm="definition", memory_limit="64k", columns=["t"]))
    assert "group ('u',) has more complete trends than there is memory for" in message
    assert "raise memory_limit" in message
    for algorithm in ("definition", "auto"):
        assert asked.complete_trends(algorithm=algorithm, memory_limit="1m", columns=["t"]).count() == math.comb(14, 7)


@pytest.mark.skipif(not CLASSIC, reason="only a classic session tells which jobs it ran")
def test_building_an_answer_runs_no_job_and_changes_no_setting(spark: Any, deposits: Any) -> None:
    tracker, settings = spark.sparkContext.statusTracker(), dict(spark.conf.getAll)
    jobs = tracker.getJobIdsForGroup(None)
    for text in (CHAIN, SLIDING, CHAIN + " WITHIN 5"):
        asked = deposits.pattern(text, time="t", type=None)
        for algorithm in ("auto", "definition"):
            asked.complete_trends(algorithm=algorithm, memory_limit="1m", limit=3)
        asked.count_complete_trends("ends", number="string")
        asked.sample_trends(3)
        asked.top_trends(3)
        str(asked.explain("complete"))
    asked = deposits.pattern(CHAIN, time="t", type=None)
    asked.survey_complete_trends()
    assert sorted(tracker.getJobIdsForGroup(None)) == sorted(jobs)
    assert dict(spark.conf.getAll) == settings


# -------------------------------------------------------------------------------------------------------- survey


def test_a_survey_says_what_the_graphs_hold(spark: Any) -> None:
    rows = [(1, "AB"), (2, "BC"), (3, "BA"), (4, "AB"), (5, "AC"), (6, "CB"), (7, "XY")]
    df = spark.createDataFrame([(t, *pair) for t, pair in rows], "t int, source string, destination string")
    asked = df.pattern("PATTERN SEQ(Check a, Check+ c[]) WHERE a.destination = NEXT(c).source AND c.destination = "
                       "NEXT(c).source", time="t", type=None)  # fmt: skip
    (row,) = asked.survey_complete_trends("ends", measure=True).collect()
    assert (row.events, row.surviving) == (7, 6), "the last check lies on no trend"
    assert row.trends == asked.complete_trends("ends").count()
    assert row.refs == sum(len(trend) for trend in times(asked.complete_trends("ends", columns=["t"])))
    assert row.steps > 0
    assert row.bytes > 0
    unmeasured = asked.survey_complete_trends("ends").first()
    assert unmeasured.steps is None
    assert unmeasured.bytes is None
    assert unmeasured.edges == row.edges > 0


@pytest.mark.classic
def test_a_survey_of_windows_and_its_sum(deposits: Any) -> None:
    asked = deposits.pattern(SLIDING, time="t", type=None)
    survey = asked.survey_complete_trends("ends", "h-cet", "64k", measure=True)
    rows = survey.collect()
    assert survey.columns[:2] == ["branch", "window"]
    counts = {(r.branch, r.window): r["count"] for r in asked.count_complete_trends("ends").collect()}
    assert {(r.branch, r.window): r.trends for r in rows if r.trends} == counts
    assert all(row.bytes <= 64 * 1024 for row in rows)
    text = asked.explain("survey", completeness="ends", algorithm="h-cet", memory_limit="64k", measured=True).text
    facts = dict(line.split(None, 1) for line in text.splitlines()[1:])
    assert facts["graphs"] == str(len(rows))
    assert facts["edges"] == str(sum(row.edges for row in rows))
    assert facts["surviving"].startswith(f"{sum(row.surviving for row in rows)},")
    assert facts["bytes"].startswith(str(max(row.bytes for row in rows)))
    assert "measured" not in asked.explain("survey").text


def test_explain_says_how_complete_trends_run(deposits: Any) -> None:
    sliding = deposits.pattern(SLIDING, time="t", type=None)
    text = sliding.explain("complete", memory_limit="2k", algorithm="h-cet").text
    assert text.startswith("== complete ==\nstrategy      graph: ")
    assert "algorithm     h-cet: " in text
    assert "memory        2048 bytes per task" in text
    assert "without edges that a longer path goes round" in text
    auto = sliding.explain("complete", completeness="ends").text
    assert "declined      balanced: keys or windows spread the trends over the tasks already" in auto
    assert "longer path" not in auto
    alone = deposits.pattern(CHAIN, time="t", type=None).explain("complete").text
    assert alone.startswith("== complete ==\nstrategy   balanced: ")
    assert "copy to every share, one per core" in alone
    assert re.search(
        r"sort each task.s events by share, t\n +by the kernel: cheaper for events of about \d+ bytes\n", alone
    )
    spans = deposits.pattern(CHAIN + " WITHIN 5", time="t", type=None).explain("complete").text
    assert "graphs        one per event that a trend may begin with" in spans
    assert "for each event that a trend may begin with, of the events within the span" in spans
    defined = deposits.pattern(CHAIN + " AND SUM(c.amount) > 5", time="t", type=None).explain("complete").text
    assert "strategy  definition: " in defined
    assert "declined  graph: a predicate needs the finished trend" in defined
    assert "drop the trends that a kept one contains" in defined
    assert "round by round" in alone or "round by round" in sliding.explain("complete", algorithm="joins").text


def test_a_limit_too_small_for_an_algorithm_names_group_and_way_out(spark: Any) -> None:
    rows = [(t, t // 3, t // 3 + 1, "u") for t in range(45)]
    df = spark.createDataFrame(rows, "t int, source int, destination int, k string")
    asked = df.pattern(CHAIN + " GROUP BY k", time="t", type=None)
    message = failing(asked.complete_trends("ends", "t-cet", "1m"))
    assert message.startswith("group ('u',): ")
    assert "the partial trends of 45 vertices" in message
    assert "algorithm='h-cet'" in message
    assert asked.complete_trends("ends", "h-cet", "1m", limit=10).count() == 10
