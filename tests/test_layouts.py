"""The layouts of trends say what their arrays of bindings say, in other shapes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import generators
import pytest
from modes import more_on_classic
from test_engines import by_case

import cetdsl as cet
from cetdsl.errors import InvalidNode, StreamingNotSupported, UnsupportedQuery
from cetdsl.pattern.properties import binds_at_most_one, positive_variables

pytestmark = pytest.mark.simple_plans

COLUMNS = ["id", "x", "y", "name"]


@pytest.fixture(scope="module")
def stream(spark: Any) -> Any:
    rows = generators.stacked(900, 12)
    return spark.createDataFrame([tuple(row.values()) for row in rows], generators.STACKED).cache()


def frozen(value: Any) -> Any:
    """A value that can be counted; NaN equals itself then."""
    return tuple(map(frozen, value)) if isinstance(value, (list, tuple)) else repr(value)


def beside(row: Any, names: list[str]) -> tuple[Any, ...]:
    """The columns beside a trend of a nested answer, with the window as two."""
    return tuple(map(frozen, [end for name in names for end in (row.window if name == "window" else (row[name],))]))


def bindings(row: Any) -> list[tuple[str, Any]]:
    return [(bound.variable, bound.event) for bound in row.trend]


def check_layouts(ask: Callable[..., Any], pattern: Any) -> None:
    """What is asked for in other layouts says the same as nested, of which ``COLUMNS`` and ``t`` are all columns."""
    nested = ask(columns=[*COLUMNS, "t"])
    names, trends = [name for name in nested.columns if name != "trend"], nested.collect()
    extents = [(frozen(row.trend[0].event.t), frozen(row.trend[-1].event.t)) for row in trends]

    wide = ask(columns=COLUMNS, layout="wide", times=True).collect()
    expected = Counter()
    for row, extent in zip(trends, extents):
        values = []
        for variable in positive_variables(pattern):
            for column in COLUMNS:
                found = [event[column] for name, event in bindings(row) if name == variable]
                single = binds_at_most_one(pattern, variable)
                values.append(frozen((found or [None])[0] if single else found))
        expected[(*beside(row, names), *extent, *values)] += 1
    assert Counter(tuple(map(frozen, row)) for row in wide) == expected

    long = ask(columns=COLUMNS, layout="long")
    rebuilt = defaultdict(list)
    for row in long.collect():
        before = tuple(map(frozen, row))[: long.columns.index("trend")]
        event = tuple(frozen(row[column]) for column in COLUMNS)
        rebuilt[row.trend].append((before, row.position, row.variable, event))
    found = Counter()
    for rows in rebuilt.values():
        rows.sort(key=lambda one: one[1])
        assert [position for _, position, _, _ in rows] == list(range(1, len(rows) + 1))
        assert len({before for before, *_ in rows}) == 1
        found[rows[0][0], tuple(one[2:] for one in rows)] += 1
    assert found == Counter(
        (
            beside(row, names),
            tuple((name, tuple(frozen(event[column]) for column in COLUMNS)) for name, event in bindings(row)),
        )
        for row in trends
    )

    with_times = ask(columns=["id"], times=True)
    assert with_times.columns == [*names, "first_time", "last_time", "trend"]
    rows = with_times.collect()
    times = Counter((*beside(row, names), *extent) for row, extent in zip(trends, extents))
    assert Counter((*beside(row, names), frozen(row.first_time), frozen(row.last_time)) for row in rows) == times
    ends = {(row.trend[0].event.id, row.trend[-1].event.id) for row in trends}
    assert {(row.trend[0].event.id, row.trend[-1].event.id) for row in rows} == ends
    assert not rows or rows[0].trend[0].event.asDict().keys() == {"id"}


@pytest.mark.parametrize("seed", more_on_classic(*range(8)))
def test_layouts_are_those_of_nested_trends(stream: Any, seed: int) -> None:
    case = generators.random_case(4_000 + seed)
    query = by_case(case.query)
    bound = stream.pattern(query, time="t", tie_break=case.tie_break)
    try:
        check_layouts(bound.trends, query.pattern)
    except UnsupportedQuery:
        pytest.skip("the trends of this query are not listed")


@pytest.mark.parametrize(
    "ask",
    [
        lambda bound: partial(bound.sample_trends, 40, seed=3),
        *more_on_classic(
            lambda bound: partial(bound.top_trends, 10**6, by=cet.sum(cet.event("b").x)),
            lambda bound: partial(bound.top_trends, 10**6, complete=False, per_group=True),
        ),
    ],
)
def test_the_heaviest_trends_and_samples_have_the_same_layouts(stream: Any, ask: Any) -> None:
    query = cet.parse("PATTERN SEQ(A a, C? c, B+ b[]) WHERE [case] WITHIN 6 SLIDE 3")
    check_layouts(ask(stream.pattern(query, time="t", tie_break="id")), query.node.pattern)


def test_trends_are_numbered_by_rank(spark: Any) -> None:
    """Of the heaviest trends, the layout with a row per event keeps their order."""
    df = spark.createDataFrame([(n, "AB"[n > 0], n * 7 % 10) for n in range(10)], "t int, type string, max int")
    bound = df.pattern("PATTERN SEQ(A, B)", time="t")
    last = cet.max(cet.event("B").t)
    long = bound.top_trends(4, by=last, complete=False, columns=["t"], layout="long").collect()
    assert [row.max for row in long if row.position == 2] == [9, 8, 7, 6]
    assert sorted({row.trend for row in long}) == list(dict.fromkeys(row.trend for row in long))
    with pytest.raises(InvalidNode, match="two columns of the name 'max'"):
        bound.top_trends(4, by=last, columns=["max"], layout="long")


def test_layouts_are_written_as_csv(spark: Any, tmp_path: Path) -> None:
    """With timestamps, keys that events show too, windows, and an optional variable that nothing is bound to."""
    rows = [(f"2024-01-01 00:0{n}:00", kind, "u", n) for n, kind in enumerate("ABB")]
    df = spark.createDataFrame(rows, "ts string, type string, user string, x int").selectExpr(
        "CAST(ts AS timestamp) AS ts", "type", "user", "x"
    )
    text = "PATTERN SEQ(A, C? c, B) WHERE [user] WITHIN 1 hour SLIDE 1 hour"
    bound = df.pattern(text, time="ts")
    long = bound.trends(layout="long")
    assert long.columns == [
        "user", "window_start", "window_end", "trend", "position", "variable", "ts", "type", "x",
    ]  # fmt: skip
    long.write.csv(str(tmp_path / "long"), header=True)
    back = spark.read.csv(str(tmp_path / "long"), header=True, inferSchema=True)
    assert Counter((row.position, row.variable, row.x) for row in back.collect()) == {
        (1, "A", 0): 2, (2, "B", 1): 1, (2, "B", 2): 1,
    }  # fmt: skip
    wide = bound.complete_trends(columns=["x"], layout="wide", times=True)
    wide.write.csv(str(tmp_path / "wide"), header=True)
    back = spark.read.csv(str(tmp_path / "wide"), header=True, inferSchema=True)
    assert back.columns == [
        "user", "window_start", "window_end", "first_time", "last_time", "A_x", "c_x", "B_x",
    ]  # fmt: skip
    assert sorted((row.A_x, row.c_x, row.B_x) for row in back.collect()) == [(0, None, 1), (0, None, 2)]


@pytest.mark.classic
def test_columns_of_one_name_are_refused(spark: Any) -> None:
    df = spark.createDataFrame([(1, "A", 1, 2)], "t int, type string, b_x int, x int")
    clash = df.pattern(cet.seq(cet.event("a", type="A"), cet.event("a_b", type="B")), time="t")
    with pytest.raises(InvalidNode, match=r"two columns of the name 'a_b_x'(.|\n)*columns=\["):
        clash.trends(layout="wide")
    assert clash.trends(columns=["t"], layout="wide").columns == ["a_t", "a_b_t"]
    named = df.withColumn("variable", df.x).withColumnRenamed("x", "`first_time.")
    bound = named.pattern("PATTERN A", time="t")
    with pytest.raises(InvalidNode, match="two columns of the name 'variable'"):
        bound.trends(layout="long")
    assert bound.trends(columns=["`first_time."], layout="long").first()["`first_time."] == 2
    for asked, said in (({"layout": "tall"}, "no layout 'tall'"), ({"times": 1}, "times is True or False")):
        with pytest.raises(InvalidNode, match=said):
            bound.trends(**asked)
    keyed = df.withColumnRenamed("x", "First_Time").pattern("PATTERN A WHERE [First_Time]", time="t")
    with pytest.raises(InvalidNode, match="two columns of the name 'First_Time'"):
        keyed.trends(columns=["t"], times=True)


@pytest.mark.classic
def test_trends_of_a_stream_cannot_be_numbered(spark: Any) -> None:
    events = spark.readStream.format("rate").load().withWatermark("timestamp", "1 second")
    bound = events.pattern("PATTERN SEQ(A a, B b) WITHIN 1 second SLIDE 1 second", time="timestamp", type=None)
    wide = bound.trends(layout="wide", columns=["value"], times=True)
    assert wide.columns == ["window_start", "window_end", "first_time", "last_time", "a_value", "b_value"]
    with pytest.raises(StreamingNotSupported, match="the layout 'long', which numbers them"):
        bound.trends(layout="long")
    with pytest.raises(StreamingNotSupported, match="why it has no trend"):
        bound.diagnose()
