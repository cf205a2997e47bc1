"""Complete trends by iterated joins: the same rows as from the kernel, in rounds that can be watched and cut short."""

from __future__ import annotations

import logging
import math
import random
from collections import Counter
from typing import Any

import attrs
import generators
import pytest
import reference
from modes import more_on_classic
from pyspark.sql import functions as F

import cetdsl as cet
from cetdsl.errors import GroupTooLarge, UnsupportedQuery
from cetdsl.execution import arcs, cells, join_paths
from cetdsl.execution.compat import schema_of
from cetdsl.execution.joins import JoinedGraph
from cetdsl.pattern.text import unparse

pytestmark = pytest.mark.simple_plans

STREAMS = 20
SCHEMA = generators.SCHEMA + ", case int"
#: What has a graph whose paths are complete trends.
GRAPHS = generators.Features(aggregates=False).without(
    "edge_negation", "nested_negation", "correlated_negation", "pairwise", "aggregate_predicates", "span",
    "top_conjunction", "repeated_variables", "bounded_repeat", "conjunction",
)  # fmt: skip
CHAIN = "PATTERN Check+ c[] WHERE c.destination = NEXT(c).source"
SIX = [(1, "A", "B"), (2, "B", "C"), (3, "B", "A"), (4, "A", "B"), (5, "A", "C"), (6, "C", "B")]


@pytest.fixture(scope="module")
def rows() -> list[Any]:
    return generators.stacked(900, STREAMS)


@pytest.fixture(scope="module")
def df(spark: Any, rows: list[Any]) -> Any:
    return generators.frame(spark, rows).cache()


@pytest.mark.classic
@pytest.mark.parametrize(
    ("seed", "reading"),
    [(2, "maximal"), (15, "ends"), (20, "ends"), (28, "ends"), (15, "maximal"), (298, "maximal"), (317, "maximal")],
)
def test_trends_are_those_of_the_definition(df: Any, rows: list[Any], seed: int, reading: str) -> None:
    case = generators.random_case(seed, GRAPHS)
    query = attrs.evolve(case.query, group_by=("case", *case.query.group_by))
    asked = cet.pattern(df, query, time="t", tie_break=case.tie_break)
    answer = asked.complete_trends(reading, algorithm="joins", columns=["id"])
    assert answer.dtypes == asked.complete_trends(reading, columns=["id"]).dtypes
    found: Counter[Any] = Counter()
    for row in answer.collect():
        values = row.asDict()
        window = values.get("window")
        key = tuple(reference._key(values[name]) for name in query.group_by), tuple(window) if window else None
        found[key, tuple((b.event.id, b.variable) for b in row.trend)] += 1
    expected: Counter[Any] = Counter()
    for (group, window, _), trends in reference.complete_trends(query, rows, reading, tie_break=case.tie_break).items():
        expected.update(((group, window), trend) for trend in trends)
    assert found == expected, unparse(query)


@pytest.fixture(scope="module")
def checks(spark: Any) -> Any:
    df = spark.createDataFrame(SIX, "t int, source string, destination string")
    return df.pattern(CHAIN, time="t", type=None)


@pytest.mark.classic
def test_rounds_are_logged(checks: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "cetdsl.joins"):
        answer = checks.complete_trends("ends", algorithm="joins", columns=["t"])
    assert [record.getMessage() for record in caplog.records] == [
        "round 1: 1 paths lead on",
        "round 2: 2 paths lead on",
        "round 3: 1 paths lead on",
        "round 4: 0 paths lead on",
    ]
    trends = sorted([b.event.t for b in row.trend] for row in answer.collect())
    assert trends == [[1, 2, 6], [1, 3, 4], [1, 3, 5, 6]]


def test_rounds_that_find_the_events_are_not_nested(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connect refuses plans of a hundred levels, so a long trend would have no answer there."""
    graph, rounds = JoinedGraph.__new__(JoinedGraph), iter(range(1, 100))

    def linked_one_by_one(_: Any, nodes: Any, front: Any, *, forward: bool) -> Any:
        return nodes.withColumn("linked", F.col("id") == next(rounds))

    monkeypatch.setattr(JoinedGraph, "_neighbours", linked_one_by_one)
    nodes = spark.range(61).select("id", F.when(F.col("id") == 0, 0).otherwise(1).alias("q")).coalesce(1)
    found = graph._reached(nodes, [0], forward=True)
    assert found.count() == 61
    assert next(rounds) == 62


@pytest.mark.parametrize("limit", more_on_classic(2, 0, 5))
def test_a_limit_bounds_the_work(checks: Any, caplog: pytest.LogCaptureFixture, limit: int) -> None:
    with caplog.at_level(logging.INFO, "cetdsl.joins"):
        answer = checks.complete_trends("ends", algorithm="joins", columns=["t"], limit=limit)
    widest = max(int(record.getMessage().split()[2]) for record in caplog.records)
    assert widest <= limit
    found = [tuple(b.event.t for b in row.trend) for row in answer.collect()]
    assert len(found) == len(set(found)) == min(limit, 3)
    assert set(found) <= {(1, 2, 6), (1, 3, 4), (1, 3, 5, 6)}


@pytest.fixture(scope="module")
def many_chains(spark: Any) -> Any:
    """Checks between few accounts, so that long paths go round many edges."""
    chance = random.Random(1)
    rows = [
        (group, chance.randrange(40), *chance.choices("ABCDE"[: 2 + group % 4], k=2), chance.random())
        for group in range(8)
        for _ in range(16)
    ]
    return spark.createDataFrame(rows, "g int, t int, source string, destination string, amount double").cache()


@pytest.mark.classic
@pytest.mark.parametrize(
    ("query", "few", "merging"),
    [
        (f"{CHAIN} GROUP BY g", 0, 0),  # nothing is sent to all tasks, and what was reached before is left out
        (f"{CHAIN} GROUP BY g WITHIN 25 SLIDE 9", 10**6, 10**6),
        (f"{CHAIN} AND c.amount < NEXT(c).amount GROUP BY g", 0, 2),
        (
            "PATTERN SEQ(Check a, Check b, Check c) WHERE a.destination = b.source AND b.amount = c.amount GROUP BY g",
            9,
            2,
        ),
    ],
)
def test_maximal_trends_go_along_edges_that_no_longer_path_goes_round(
    many_chains: Any, monkeypatch: pytest.MonkeyPatch, query: str, few: int, merging: int
) -> None:
    for module in (arcs, join_paths):
        monkeypatch.setattr(module, "FEW_ROWS", few)
    monkeypatch.setattr(arcs, "_MERGING", merging)
    asked = many_chains.pattern(query, time="t", type=None, tie_break="amount")
    found, expected, ends = (
        Counter(
            (row.g, str(row.asDict().get("window")), tuple((b.event.t, b.event.amount) for b in row.trend))
            for row in asked.complete_trends(reading, algorithm=algorithm).collect()
        )
        for reading, algorithm in (("maximal", "joins"), ("maximal", "m-cet"), ("ends", "m-cet"))
    )
    assert found == expected
    assert (len(ends) > len(expected)) == query.startswith(CHAIN), "some paths go round edges"


@pytest.mark.classic
def test_what_was_reached_before_is_not_followed_again(spark: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Events of one value all follow each other, so what two edges reach, one does."""
    rows = spark.range(40).selectExpr("id AS t", "id % 2 AS n")
    asked = rows.pattern("PATTERN EVENT(e, true)+ WHERE e.n = NEXT(e).n", time="t")
    with caplog.at_level(logging.INFO, "cetdsl.joins"):
        answer = asked.complete_trends(algorithm="joins")
    assert [record.getMessage() for record in caplog.records][:2] == [
        "342 pairs are joined by paths of 2 edges",
        "0 pairs are joined by paths of 3 edges",
    ]
    assert sorted([b.event.t for b in row.trend] for row in answer.collect()) == [
        list(range(0, 40, 2)),
        list(range(1, 40, 2)),
    ]


@pytest.mark.classic
def test_more_edges_than_disks_hold_are_refused(checks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arcs, "MOST_PAIRS", 5)
    with pytest.raises(GroupTooLarge, match=r"11 pairs of events have the equal values(.|\n)*WHERE"):
        checks.complete_trends(algorithm="joins")
    assert len(checks.complete_trends("ends", algorithm="joins", columns=["t"]).collect()) == 3


@pytest.mark.classic
def test_not_takes_the_edges_of_the_kernel(spark: Any) -> None:
    rows = [(1, "A"), (2, "B"), (3, "N"), (4, "B"), (5, "C")]
    df = spark.createDataFrame(rows, "t int, type string")
    asked = df.pattern("PATTERN SEQ(A, B+, NOT N, C)", time="t")
    answer = asked.complete_trends("ends", algorithm="joins", columns=["t"])
    assert sorted([b.event.t for b in row.trend] for row in answer.collect()) == [[1, 2, 4, 5], [1, 4, 5]]


@pytest.fixture(scope="module")
def numbers(spark: Any) -> Any:
    """Two keys of events: one of many at the same few times, with NULL, NaN, a value far off and a hot value."""
    chance = random.Random(7)
    rows = [
        (
            key,
            chance.randrange(30),
            chance.choice([1, 1, 1, 2, 3, None]),
            chance.choice([None, math.nan, 0.0, -0.0, 1e12, *map(float, range(1, 9))]),
        )
        for key in ("a", "b", None)
        for _ in range(24 if key == "a" else 9)
    ]
    return spark.createDataFrame(rows, "key string, t int, n int, x double").cache()


@pytest.mark.classic
@pytest.mark.parametrize(
    "predicate",
    [
        "e.x <= NEXT(e).x",
        "e.x > NEXT(e).x",
        "e.n = NEXT(e).n AND e.x < NEXT(e).x",
        "e.x = NEXT(e).x",  # of both zeros and of NaN
        "e.n != NEXT(e).n",
        "e.x < NEXT(e).x AND NEXT(e).x <= e.x * 2",  # a range with two ends
        "e.x < NEXT(e).x AND e.n != NEXT(e).n",
        "e.x >= NEXT(e).x AND e.n <= NEXT(e).n",  # two orders
    ],
)
def test_cells_lose_no_pair(numbers: Any, monkeypatch: pytest.MonkeyPatch, predicate: str) -> None:
    monkeypatch.setattr(cells, "_CELL_EVENTS", 3)
    monkeypatch.setattr(join_paths, "FEW_ROWS", 0 if "<=" in predicate else 100)  # nothing is sent to all tasks
    asked = numbers.pattern(f"PATTERN EVENT(e, true)+ WHERE {predicate} GROUP BY key WITHIN 20 SLIDE 9", time="t")
    found, expected = (
        Counter(
            (row.key, row.window.start, tuple(repr((b.event.t, b.event.n, b.event.x)) for b in row.trend))
            for row in asked.complete_trends("ends", algorithm=algorithm).collect()
        )
        for algorithm in ("joins", "m-cet")
    )
    assert found == expected
    assert len(expected) > 20


@pytest.mark.classic
@pytest.mark.parametrize(("predicate", "listed"), [("e.x < NEXT(e).x", []), ("e.n = NEXT(e).n", ["f0"])])
def test_neither_outliers_nor_hot_values_fill_a_cell(spark: Any, predicate: str, listed: list[str]) -> None:
    outliers, hot = "IF(id % 2000 = 7, 1e15, CAST(hash(id) AS double)) AS x", "IF(id % 10 = 0, id, 3L) AS n"
    rows = spark.range(6_000).selectExpr("id AS t", outliers, hot)
    asked = rows.pattern(f"PATTERN EVENT(e, true)+ WHERE {predicate}", time="t")
    [found] = JoinedGraph(rows, asked.graph(algorithm="joins", columns=["t"])._plan, numbered=False).cells
    sizes = [row["count"] for row in found.nodes.groupBy("cell0", *listed).count().collect()]
    assert sum(sizes) == 6_000
    assert max(sizes) < 2 * cells._CELL_EVENTS


def test_what_no_index_answers_is_told(numbers: Any) -> None:
    asked = numbers.pattern("PATTERN EVENT(e, true)+ WHERE e.x < NEXT(e).x AND e.n != NEXT(e).n", time="t")
    told = str(asked.explain("complete", algorithm="joins", completeness="ends"))
    assert "tested for each two events that meet: e.n != NEXT(e).n" in told
    assert "one round for each side finds where trends begin and end" in told
    assert "no range has quantiles" not in told


@pytest.mark.parametrize("reading", ["ends", "maximal"])
def test_what_joins_take_is_told(numbers: Any, reading: str) -> None:
    asked = numbers.pattern("PATTERN SEQ(A, B+) WHERE B.key <= NEXT(B).key", time="t", type="key")
    told = str(asked.explain("complete", algorithm="joins", completeness=reading))
    rounds = "rounds from the first events on, and from the last ones back, find what lies on a trend"
    ranges = "slices of time only, as no range has quantiles of string: B.key <= NEXT(B).key"
    assert (rounds in told) == (ranges in told) == (reading == "ends")
    assert ("has the index of all events of a key" in told) == (reading == "maximal")


def test_texts_meet_under_a_collation(spark: Any) -> None:
    """Equal texts differ in bytes, so nothing that is computed from these may tell which events meet."""
    rows = [(t, source.lower(), destination) for t, source, destination in SIX]
    df = spark.createDataFrame(rows, "t int, source string collate UTF8_LCASE, destination string collate UTF8_LCASE")
    answer = df.pattern(CHAIN, time="t", type=None).complete_trends("ends", algorithm="joins", columns=["t"])
    trends = sorted([b.event.t for b in row.trend] for row in answer.collect())
    assert trends == [[1, 2, 6], [1, 3, 4], [1, 3, 5, 6]]


def test_queries_without_a_graph_are_refused(df: Any) -> None:
    with pytest.raises(UnsupportedQuery, match="'joins'"):
        df.pattern("PATTERN SEQ(A, B) WITHIN 5", time="t").complete_trends(algorithm="joins")


def test_events_may_show_columns_that_have_no_order(spark: Any) -> None:
    df = spark.createDataFrame([(1, {"k": 1}), (2, {"k": 2})], "t int, m map<string, int>")
    asked = df.pattern("PATTERN E+", time="t", type=None)
    (row,) = asked.complete_trends(algorithm="joins").collect()
    assert [b.event.m for b in row.trend] == [{"k": 1}, {"k": 2}]
    assert schema_of(asked.complete_trends(algorithm="joins")).names == ("trend",)
