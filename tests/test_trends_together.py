"""``df.patterns({...}).trends()``: the matches of many queries from one pass, each as the query alone finds them."""

from __future__ import annotations

import random
from collections import Counter
from itertools import chain
from typing import Any

import attrs
import pytest

import cetdsl as cet
from cetdsl.errors import CetdslError, InvalidNode, ResolutionError
from cetdsl.pattern.query import Query, Span, Window
from modes import more_on_classic
import reference
from test_kernel_instances import random_query

pytestmark = pytest.mark.simple_plans
SCHEMA = "g int, k int, t int, type string, x int, y int"
#: One stream for each group.
STREAMS = 40


@pytest.fixture(scope="module")
def streams(spark: Any) -> Any:
    chance = random.Random(5)
    rows = [
        {
            "g": g,
            "k": chance.randint(0, 1),
            "t": chance.randint(0, 7),
            "type": chance.choice("ABCD"),
            "x": chance.choice([0, 1, 2, None]),
            "y": chance.choice([0, 1, 2, None]),
        }
        for g in range(STREAMS)
        for _ in range(chance.randint(3, 9))
    ]
    return rows, spark.createDataFrame(rows, SCHEMA)


def matches(rows: Any, query: Query) -> Counter[Any]:
    """Each row of an answer by its group, its window and what its trend binds."""
    found: Counter[Any] = Counter()
    for row in rows:
        shown = row.asDict()
        window = shown.get("window")
        key = tuple(shown[name] for name in (*query.group_by, *query.partition_by))
        times = [bound.event.t for bound in row.trend]
        assert times == sorted(times)
        bound = frozenset((bound.variable, tuple(bound.event.asDict().items())) for bound in row.trend)
        found[key, window and (window.start, window.end), bound] += 1
    return found


def expected(rows: list[dict[str, Any]], query: Query) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for (group, window, partition), trends in reference.trends(query, rows).items():
        for trend in trends:
            flat = chain(*trend) if isinstance(trend, frozenset) else trend
            bound = frozenset((variable, tuple(rows[i].items())) for i, variable in flat)
            found[(*group, *partition), window, bound] += 1
    return found


@pytest.mark.parametrize(("seed", "size"), more_on_classic((1, 6), (2, 25), (3, 40)))
def test_each_query_of_a_workload_finds_what_it_finds_alone(streams: Any, seed: int, size: int) -> None:
    rows, df = streams
    chance = random.Random(seed)
    queries = {
        f"q{number}": attrs.evolve(random_query(chance), group_by=("g",), partition_by=()) for number in range(size)
    }
    found: dict[str, list[Any]] = {name: [] for name in queries}
    for row in df.patterns(queries, time="t").trends().collect():
        found[row["query"]].append(row)
    for name, query in queries.items():
        assert matches(found[name], query) == expected(rows, query), query
