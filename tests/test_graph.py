"""The graph as data: its paths are the trends, the attribute vertices say the same, and both algorithms agree.

One Spark job judges a query over many streams: each stream is a group of one DataFrame.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import attrs
import generators
import numpy as np
import pytest
import reference
from pyspark.sql import functions as F

import cetdsl as cet
from cetdsl.errors import InvalidNode, NullTime, ResolutionError, UnsupportedQuery, recovering
from cetdsl.pattern.query import Query
from cetdsl.pattern.text import unparse

pytestmark = pytest.mark.simple_plans

FRAMES = ("vertices", "edges", "direct_edges", "attribute_vertices", "from_edges", "to_edges")
STREAMS = 25
SCHEMA = generators.SCHEMA + ", case int"
#: What a graph can tell: neighbours only, and windows that slide.
GRAPHS = generators.Features(aggregates=False).without(
    "nested_negation", "correlated_negation", "pairwise", "aggregate_predicates", "span", "top_conjunction",
)  # fmt: skip


# ------------------------------------------------------------------------------------------- attribute vertices


@pytest.mark.parametrize("algorithm", ["kernel", "joins"])
def test_published_ranges(spark: Any, algorithm: str) -> None:
    """Mei et al. (ICPP 2021), Table 2: whole numbers from 0 to before 100, ``next > 2 * previous``."""
    df = spark.createDataFrame(list(enumerate([32, 7, 15, 35, 40, 17])), "t int, value int")
    query = "PATTERN Stock+ s[] WHERE NEXT(s).value > 2 * s.value"
    graph = df.pattern(query, time="t", type=None).graph(algorithm, columns=["value"])
    ranges = graph.attribute_vertices.orderBy("number").collect()
    assert [row.bounds for row in ranges] == ["()"] + ["[)"] * 6
    lows = [0] + [row.low for row in ranges[1:]]
    highs = [row.high for row in ranges[:-1]] + [100]
    assert lows == [0, 15, 31, 35, 65, 71, 81]
    assert highs == [15, 31, 35, 65, 71, 81, 100]
    number = {row.id: row.number for row in ranges}
    value = {row.id: row.event.value for row in graph.vertices.collect()}
    lies_in = {value[row.dst]: number[row.src] for row in graph.from_edges.collect()}
    assert lies_in == {7: 0, 15: 1, 17: 1, 32: 2, 35: 3, 40: 3}
    leads_to = {value[row.src]: (row.begin, row.end) for row in graph.to_edges.collect()}
    assert leads_to == {7: (1, 7), 15: (2, 7), 17: (3, 7), 32: (4, 7), 35: (5, 7), 40: (6, 7)}
    edges = {(value[row.src], value[row.dst]) for row in graph.edges.collect()}
    assert edges == {(7, 15), (7, 35), (7, 40), (7, 17), (15, 35), (15, 40)}
    assert graph.direct_edges.collect() == []


# ------------------------------------------------------------------------------------------------ generated queries


class Judge:
    """Streams in one DataFrame, and what the graph of a query over them should say."""

    def __init__(self, spark: Any) -> None:
        self.rows = generators.stacked(500, STREAMS)
        self.df = generators.frame(spark, self.rows).cache()

    def graph(self, query: Query, ties: tuple[str, ...], algorithm: str) -> dict[str, list[Any]]:
        graph = cet.pattern(self.df, query, time="t", tie_break=ties).graph(algorithm, columns=["id"])
        return {name: getattr(graph, name).collect() for name in FRAMES}

    def judge(self, query: Query, ties: tuple[str, ...], found: dict[str, list[Any]]) -> None:
        self.judge_paths(query, ties, found)
        self.judge_attributes(query, ties, found)

    def judge_paths(self, query: Query, ties: tuple[str, ...], found: dict[str, list[Any]]) -> None:
        """The paths from first to last vertices are the trends, and nothing else is in the graph."""
        vertices = {row.id: row for row in found["vertices"]}
        assert len(vertices) == len(found["vertices"]), "an id comes twice"
        follows, precedes = defaultdict(list), defaultdict(list)
        for edge in found["edges"]:
            follows[edge.src].append(edge.dst)
            precedes[edge.dst].append(edge.src)
        assert len({(edge.src, edge.dst) for edge in found["edges"]}) == len(found["edges"]), "an edge comes twice"

        def walk(path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
            if vertices[path[-1]].last:
                yield path
            for following in follows[path[-1]]:
                yield from walk((*path, following))

        paths = [path for row in found["vertices"] if row.first for path in walk((row.id,))]
        assert {v for path in paths for v in path} == set(vertices)
        assert {step for path in paths for step in itertools.pairwise(path)} == {
            (edge.src, edge.dst) for edge in found["edges"]
        }
        for row in found["vertices"]:
            assert row.source == (not precedes[row.id])
            assert row.sink == (not follows[row.id])
        trends: Counter[Any] = Counter()
        for path in paths:
            bindings = tuple((vertices[v].event.id, vertices[v].position.split("#")[0]) for v in path)
            trends[self.place(query, vertices[path[0]]), bindings] += 1
        expected: Counter[Any] = Counter()
        for (group, window, _), sets in reference.trends(query, self.rows, tie_break=ties).items():
            expected.update(((group, window), trend) for trend in sets)
        assert trends == expected

    @staticmethod
    def place(query: Query, row: Any) -> Any:
        values = row.asDict()
        window = values.get("window")
        return tuple(reference._key(values[name]) for name in query.group_by), tuple(window) if window else None

    def judge_attributes(self, query: Query, ties: tuple[str, ...], found: dict[str, list[Any]]) -> None:
        """From-edges and to-edges say which edges there are, but for time."""
        stream = reference.Stream(self.rows, "t", ties, "type")
        event = {row.id: row.event.id for row in found["vertices"]}
        numbers: dict[str, list[int]] = defaultdict(list)
        name = {}
        for row in found["attribute_vertices"]:
            assert row.id not in name, "an id comes twice"
            name[row.id] = row.list, row.number
            numbers[row.list].append(row.number)
        assert all(sorted(members) == list(range(len(members))) for members in numbers.values())
        members = defaultdict(list)
        for row in found["from_edges"]:
            members[name[row.src]].append(row.dst)
        implied = {(row.src, row.dst) for row in found["direct_edges"]}
        for row in found["to_edges"]:
            assert 0 <= row.begin <= row.end <= len(numbers[row.list])
            for number in range(row.begin, row.end):
                for later in members[row.list, number]:
                    if stream.precedes(event[row.src], event[later]):
                        assert (row.src, later) not in implied
                        implied.add((row.src, later))
        assert implied == {(row.src, row.dst) for row in found["edges"]}


@pytest.fixture(scope="module")
def judge(spark: Any) -> Judge:
    return Judge(spark)


def by_case(query: Query) -> Query:
    """The query with each stream as a group of its own."""
    return attrs.evolve(query, group_by=("case", *query.group_by))


def has_edges(judge: Judge, case: generators.Case) -> bool:
    found = reference.trends(by_case(case.query), judge.rows, tie_break=case.tie_break)
    return any(len(trend) > 1 for trends in found.values() for trend in trends)


@pytest.mark.classic
def test_graphs_of_the_kernel(judge: Judge) -> None:
    """A few queries, by way of Spark; tests/test_kernel_graph_vertices.py judges many without it."""
    drawn = (generators.random_case(seed, GRAPHS) for seed in itertools.count(7))
    for case in itertools.islice((case for case in drawn if has_edges(judge, case)), 5):
        query = by_case(case.query)
        try:
            judge.judge(query, case.tie_break, judge.graph(query, case.tie_break, "kernel"))
        except Exception as error:
            error.add_note(unparse(query))
            raise


QUERIES = {
    "an order and a key, another order": "PATTERN SEQ(A a, B+ b[]) "
    "WHERE a.k = NEXT(b).k AND a.x < NEXT(b).x AND b.y >= NEXT(b).y GROUP BY case WITHIN 6 SLIDE 2",
    "two orders": "PATTERN B+ b[] OR A a WHERE b.y >= NEXT(b).y AND b.x < NEXT(b).y + 1 GROUP BY g",
    "no order": "PATTERN SEQ(A a, C* c[], B+ b[]) WHERE c.x != NEXT(c).x * 2 AND [k] GROUP BY case",
    "no sides": "PATTERN SEQ(B, C) OR SEQ(C* c[], A) WHERE c.x * NEXT(c).x > 2 GROUP BY case WITHIN 6 SLIDE 4",
}


@pytest.mark.classic
@pytest.mark.parametrize("name", QUERIES)
def test_both_algorithms_agree(judge: Judge, name: str) -> None:
    bound = cet.pattern(judge.df, QUERIES[name], time="t", tie_break="s" if "two" in name else ())
    graphs = [bound.graph(algorithm, columns=["id", "x"]) for algorithm in ("kernel", "joins")]
    for frame in FRAMES:
        kernel, joined = (getattr(graph, frame) for graph in graphs)
        assert joined.dtypes == kernel.dtypes
        assert Counter(map(repr, joined.collect())) == Counter(map(repr, kernel.collect())), frame


# ----------------------------------------------------------------------------------------------- particular graphs

CHAIN = "PATTERN Check+ c[] WHERE c.destination = NEXT(c).source"
CHECKS = [(1, "A", "B"), (2, "B", "C"), (3, "B", "D"), (4, "D", "E")]


@pytest.fixture(scope="module")
def checks(spark: Any) -> Any:
    return spark.createDataFrame(CHECKS, "t int, source string, destination string")


@pytest.mark.classic
def test_equalities_have_single_values(checks: Any) -> None:
    graph = checks.pattern(CHAIN, time="t", type=None).graph()
    vertices = graph.attribute_vertices.orderBy("id").collect()
    assert [row.values for row in vertices] == [["A"], ["B"], ["C"], ["D"], ["E"]]
    assert {(row.earlier, row.later, row.attribute) for row in vertices} == {("c", "c", "source")}
    assert {(row.number, row.low, row.high, row.bounds) for row in vertices} == {(0, None, None, None)}
    assert [row.id for row in vertices] == [f'c->c:{{"source":"{name}"}}:0' for name in "ABCDE"]
    values = {row.id: row["values"][0] for row in vertices}
    assert {(values[row.src], row.dst) for row in graph.from_edges.collect()} == {
        ("A", "c:0"), ("B", "c:1"), ("B", "c:2"), ("D", "c:3"),
    }  # fmt: skip
    assert {(row.src, values[f"{row.list}:{row.begin}"], row.end) for row in graph.to_edges.collect()} == {
        ("c:0", "B", 1), ("c:1", "C", 1), ("c:2", "D", 1), ("c:3", "E", 1),
    }  # fmt: skip


@pytest.mark.classic
def test_only_events_on_a_trend_are_vertices(spark: Any) -> None:
    rows = [(1, "B", 1), (2, "A", 2), (3, "B", 3), (4, "B", 1), (5, "B", 2), (6, "A", 1), (7, "C", 1)]
    df = spark.createDataFrame(rows, "t int, type string, x int")
    graph = df.pattern("PATTERN SEQ(A a, B+ b[], C c) WHERE b.x > NEXT(b).x", time="t").graph()
    found = {(row.position, row.event.t, row.first, row.last) for row in graph.vertices.collect()}
    assert found == {
        ("a", 2, True, False), ("b", 3, False, False), ("b", 4, False, False), ("b", 5, False, False),
        ("c", 7, False, True),
    }  # fmt: skip


@pytest.mark.classic
def test_a_variable_at_several_positions(spark: Any) -> None:
    df = spark.createDataFrame([(t, "A") for t in range(4)], "t int, type string")
    graph = df.pattern("PATTERN A{2,3}", time="t").graph()
    assert {row.position for row in graph.vertices.collect()} == {"A#1", "A#2", "A#3"}


@pytest.mark.classic
@pytest.mark.parametrize("algorithm", ["kernel", "joins"])
def test_ids_do_not_depend_on_where_rows_come_from(spark: Any, algorithm: str) -> None:
    """Ties too; those of equal rows may be exchanged."""
    random = np.random.default_rng(3)
    rows = [(int(t), int(x), {"k": int(y)}) for t, x, y in random.integers(0, 6, (40, 3))]
    df = spark.createDataFrame(rows, "t int, x int, m map<string, int>")

    def graph_of(df: Any) -> tuple[Any, Any]:
        graph = df.pattern("PATTERN E+ e[] WHERE e.x < NEXT(e).x", time="t", type=None).graph(algorithm)
        named = Counter((row.id, repr(row.event)) for row in graph.vertices.collect())
        return named, Counter(map(tuple, graph.edges.collect()))

    first = graph_of(df.coalesce(1))
    assert len(first[0]) == 40
    assert graph_of(df.repartition(3, F.rand(1))) == first


@pytest.mark.classic
@pytest.mark.parametrize("algorithm", ["kernel", "joins"])
def test_ids_tell_keys_and_windows_apart(spark: Any, algorithm: str) -> None:
    rows = [("a:b", None, 1), ("a", "b", 1), (None, None, 1), (None, "null", 1), ("a:b", None, 3)]
    df = spark.createDataFrame(rows, "g string, h string, t int")
    query = "PATTERN E+ e[] WHERE [h] GROUP BY g WITHIN 4 SLIDE 3"
    graph = df.pattern(query, time="t", type=None).graph(algorithm)
    vertices = graph.vertices.collect()
    assert graph.vertices.columns[:3] == ["g", "h", "window"]
    assert len({row.id for row in vertices}) == len(vertices) == 6
    assert ("a:b", None, (3, 7)) in {(row.g, row.h, tuple(row.window)) for row in vertices}


VALUES = {
    "tinyint": [127, -128, None, 3],
    "bigint": [2**63 - 1, -(2**63), 0, None],
    "double": [0.0, -0.0, float("nan"), float("inf"), None],
    "string": ["a", "Z", "", None],
    "decimal(5,2)": None,
    "date": None,
    "timestamp": None,
    "boolean": [True, False, None],
}
TEXTS = {
    "decimal(5,2)": ["1.50", "-3.00"],
    "date": ["2024-01-31", "1969-12-31"],
    "timestamp": ["2024-01-31 10:00:00.000001", "1969-12-31 00:00:00"],
}


@pytest.mark.classic
@pytest.mark.parametrize("op", [">", "<"])
def test_bounds_of_every_type(spark: Any, op: str) -> None:
    """Each value lies within the bounds of just one range, as Spark compares them, and in the one it is said to."""
    wide = None
    for number, (kind, values) in enumerate(VALUES.items()):
        column = F.array(*[F.lit(value).cast(kind) for value in values or [*TEXTS[kind], None]])
        rows = spark.range(1).select(F.posexplode(column).alias("t", f"v{number}"))
        wide = rows if wide is None else wide.join(rows, "t", "outer")
    wide = wide.coalesce(1).cache()
    for number, kind in enumerate(VALUES):
        query = f"PATTERN E+ e[] WHERE NEXT(e).v{number} {op} e.v{number}"
        graph = wide.pattern(query, time="t", type=None).graph(columns=[f"v{number}"])
        ranges, events = graph.attribute_vertices.cache(), graph.vertices.select("id", f"event.v{number}").cache()
        assert dict(ranges.dtypes)["low"] in (kind, "int"), kind
        low = F.when(F.col("low").isNull(), True).otherwise(
            F.when(F.col("bounds").startswith("["), F.col("v") >= F.col("low")).otherwise(F.col("v") > F.col("low"))
        )
        high = F.when(F.col("high").isNull(), True).otherwise(
            F.when(F.col("bounds").endswith("]"), F.col("v") <= F.col("high")).otherwise(F.col("v") < F.col("high"))
        )
        values = events.select(F.col("id").alias("dst"), F.col(f"v{number}").alias("v")).filter("v IS NOT NULL")
        within = values.join(ranges, low & high).select(F.col("id").alias("src"), "dst")
        assert sorted(map(tuple, within.collect())) == sorted(map(tuple, graph.from_edges.collect())), kind


# ------------------------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("PATTERN SEQ(A, B) WITHIN 5", "a span without SLIDE"),
        ("PATTERN A+ AND B+", "AND at the top"),
        ("PATTERN SEQ(A a, B+, C c) WHERE a.x < c.x", "a pairwise predicate"),
        ("PATTERN A+ a[] WHERE COUNT(a) > a.x", "."),
        ("PATTERN SEQ(A, NOT B) WITHIN 5", "a span without SLIDE"),
        ("PATTERN A+ a[] WHERE SUM(a.x) > 5", "needs the finished trend"),
    ],
)
def test_queries_without_a_graph(spark: Any, query: str, reason: str) -> None:
    df = spark.createDataFrame([], "t int, type string, x int")
    with pytest.raises(ResolutionError, match=reason):
        df.pattern(query, time="t").graph()


def test_algorithms_that_cannot(spark: Any) -> None:
    df = spark.createDataFrame([], "t int, type string, x int")
    with pytest.raises(InvalidNode, match="no algorithm 'magic'"):
        df.pattern("PATTERN A+", time="t").graph("magic")
    with pytest.raises(UnsupportedQuery, match="NOT forbids"):
        df.pattern("PATTERN SEQ(A, NOT B, C)", time="t").graph("joins")
    df.pattern("PATTERN SEQ(A, NOT B, C)", time="t").graph("kernel")


def test_names_that_clash(spark: Any) -> None:
    df = spark.createDataFrame([], "t int, ID int")
    graph = df.pattern("PATTERN A+ GROUP BY ID", time="t", type=None).graph()
    with pytest.raises(ResolutionError, match="'ID' clashes with the id column"):
        _ = graph.vertices
    twice = spark.createDataFrame([], "t int, x int").selectExpr("t", "x", "x AS X")
    asked = twice.pattern("PATTERN A+", time="t", type=None)
    with pytest.raises(UnsupportedQuery, match="two columns"):
        asked.graph()
    assert asked.graph(columns=["t"]).vertices.columns[-1] == "event"


@pytest.mark.parametrize("algorithm", ["kernel", "joins"])
def test_rows_without_a_time(spark: Any, algorithm: str) -> None:
    df = spark.createDataFrame([(1, 1), (None, 2), (None, None)], "t int, x int")
    graph = df.pattern("PATTERN E+ e[] WHERE [x]", time="t", type=None).graph(algorithm)
    # Joins run jobs before there is a DataFrame to collect.
    with pytest.raises(NullTime, match="'t' is NULL in 2 rows"), recovering():
        graph.vertices.collect()
    skipped = df.pattern("PATTERN E+ e[] WHERE [x]", time="t", type=None, on_null_time="skip").graph(algorithm)
    assert skipped.vertices.count() == 1
