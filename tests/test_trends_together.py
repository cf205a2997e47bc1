"""``df.patterns({...}).trends()``: the matches of many queries from one pass, each as the query alone finds them."""

from __future__ import annotations

import datetime
import io
import random
from collections import Counter
from contextlib import redirect_stdout
from functools import partial
from itertools import chain
from typing import Any

import attrs
import pytest
import reference
from modes import more_on_classic
from test_kernel_instances import random_query

import cetdsl as cet
from cetdsl.errors import CetdslError, InvalidNode, ResolutionError, UnsupportedQuery
from cetdsl.frontend import sase
from cetdsl.pattern.query import Query

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


def random_runs(chance: random.Random) -> Query:
    """A sequence with a part that is repeated or optional, so that its trends are listed depth first."""
    names = iter("abcdefg")
    where: list[str] = []

    def event() -> str:
        name = next(names)
        if chance.random() < 0.3:
            where.append(f"{name}.x {chance.choice(['<', '>='])} {chance.choice([1, 2])}")
        return f"{chance.choice('ABC')} {name}"

    kind, name, times = chance.choice("ABC"), next(names), chance.choice(["+", "?", "{1,2}"])
    parts = [event(), f"{kind}{times} {name}"]
    if chance.random() < 0.4:
        parts.append(f"NOT {event()}")
    if len(parts) > 2 or chance.random() < 0.4:
        parts.append(event())
    if times != "?" and chance.random() < 0.3:
        where.append(f"{name}.x <= NEXT({name}).y")
    window = chance.choice(["", " WITHIN 3", " WITHIN 5", " WITHIN 4 SLIDE 2"])
    return sase.parse(f"PATTERN SEQ({', '.join(parts)}){' WHERE ' * bool(where)}{' AND '.join(where)}{window}")


@pytest.mark.parametrize(("seed", "size"), more_on_classic((1, 6), (2, 25), (3, 40)))
def test_each_query_of_a_workload_finds_what_it_finds_alone(streams: Any, seed: int, size: int) -> None:
    rows, df = streams
    chance = random.Random(seed)
    queries = {
        f"q{number}": attrs.evolve(make(chance), group_by=("g",), partition_by=())
        for number, make in enumerate(chance.choices((random_query, random_runs), (3, 1), k=size))
    }
    found: dict[str, list[Any]] = {name: [] for name in queries}
    for row in df.patterns(queries, time="t").trends().collect():
        found[row["query"]].append(row)
    for name, query in queries.items():
        assert matches(found[name], query) == expected(rows, query), query


@pytest.mark.parametrize(("seed", "size"), more_on_classic((4, 5), (5, 10), (6, 14)))
def test_joins_find_for_each_query_what_it_finds_alone(streams: Any, seed: int, size: int) -> None:
    rows, df = streams
    chance = random.Random(seed)
    drawn = (attrs.evolve(random_query(chance), group_by=("g",), partition_by=()) for _ in range(size))
    queries = {f"q{number}": query for number, query in enumerate(drawn)}
    many = df.patterns(queries, time="t")
    found: dict[str, list[Any]] = {name: [] for name in queries}
    for row in many.trends(algorithm="joins").collect():
        found[row["query"]].append(row)
    for name, query in queries.items():
        assert matches(found[name], query) == expected(rows, query), query
    plan = str(many.explain(of="trends", algorithm="joins"))
    assert "joined once, and kept as a checkpoint" in plan


@pytest.fixture(scope="module")
def letters(spark: Any) -> Any:
    """One event per tick, of the types that the text spells."""
    rows = [(t, "k" if t % 2 else "l", kind, t % 3) for t, kind in enumerate("AABBCCDDABCD")]
    return spark.createDataFrame(rows, "t int, k string, type string, x int")


QUERIES = {
    "abc": "PATTERN SEQ(A, B, C) WITHIN 6",
    "abd": "PATTERN SEQ(A, B, D) WITHIN 8",
    "pairs": "PATTERN SEQ(A, B) WHERE [k] WITHIN 4 SLIDE 2",
    "runs": "PATTERN SEQ(A, B+) WITHIN 6",
    "keyed runs": "PATTERN SEQ(A, B+, C?) WHERE [k] AND B.x < NEXT(B).x WITHIN 6 SLIDE 3",
    "calm": "PATTERN SEQ(A, NOT SEQ(C, B), D) WITHIN 8",
    "long runs": "PATTERN SEQ(A, B+) WHERE SUM(B.x) > 1 WITHIN 6",
}
KEYED = ("pairs", "keyed runs")


def test_one_dataframe_has_the_columns_of_all_queries(letters: Any) -> None:
    trends = letters.patterns(QUERIES, time="t").trends(columns=["t"])
    assert trends.columns == ["query", "k", "window", "trend"]
    rows = trends.collect()
    assert {row["query"] for row in rows} == set(QUERIES)
    for row in rows:
        assert (row.k is None) == (row["query"] not in KEYED)
        assert (row.window is None) == (row["query"] not in KEYED)
    for name, query in QUERIES.items():
        alone = letters.pattern(query, time="t").trends(columns=["t"]).collect()
        assert len(alone) > 0
        shown = [name for name in ("k", "window", "trend") if name in alone[0].asDict()]
        own = [tuple(row[name] for name in shown) for row in rows if row["query"] == name]
        assert sorted(map(str, own)) == sorted(str(tuple(row[name] for name in shown)) for row in alone)


def test_each_query_has_a_dataframe_of_its_own(letters: Any) -> None:
    many = letters.patterns(QUERIES, time="t")
    results = many.results(columns=["t"])
    try:
        assert list(results) == list(QUERIES)
        for name, query in QUERIES.items():
            alone = letters.pattern(query, time="t").trends(columns=["t"])
            assert results[name].columns == alone.columns
            assert sorted(map(str, results[name].collect())) == sorted(map(str, alone.collect()))
    finally:
        many.unpersist()


@pytest.mark.parametrize("limit", more_on_classic(2, 0))
def test_any_so_many_of_each_query(letters: Any, limit: int) -> None:
    many = letters.patterns(QUERIES, time="t")
    every = {tuple(map(str, (row["query"], row.k, row.window, row.trend))) for row in many.trends().collect()}
    rows = [tuple(map(str, (row["query"], row.k, row.window, row.trend))) for row in many.trends(limit).collect()]
    assert set(rows) <= every
    assert len(set(rows)) == len(rows)
    assert Counter(row[0] for row in rows) == ({} if limit == 0 else dict.fromkeys(QUERIES, limit))


@pytest.mark.classic
def test_joins_show_keys_windows_ties_and_so_many_of_each_query(letters: Any) -> None:
    wanted = {name: text for name, text in QUERIES.items() if name != "long runs"} | {
        "ends": "PATTERN SEQ(NOT D d, A, B, NOT C c) WITHIN 3",
        "beside": "PATTERN AND(A, B) WHERE A.x = B.x WITHIN 4",
        "either": "PATTERN SEQ(A, C OR D) WITHIN 4 SLIDE 2",
    }
    many = letters.patterns(wanted, time="t", tie_break="x")

    def shown(rows: Any) -> list[tuple[str, ...]]:
        return [tuple(map(str, (row["query"], row.k, row.window, row.trend))) for row in rows.collect()]

    every = shown(many.trends(columns=["t", "type"]))
    joined = many.trends(columns=["t", "type"], algorithm="joins")
    assert joined.columns == many.trends().columns
    assert Counter(shown(joined)) == Counter(every)
    assert {row[0] for row in every} == set(wanted)
    few = shown(many.trends(2, columns=["t", "type"], algorithm="joins"))
    assert set(few) <= set(every)
    assert Counter(row[0] for row in few) == {name: min(2, sum(row[0] == name for row in every)) for name in wanted}


#: Conditions that are errors for the events of other types, or for those that another condition leaves out.
DIVISIONS = {
    "abc": "PATTERN SEQ(A, B, C) WHERE 10 / B.x > 1",
    "ab": "PATTERN SEQ(A, B) WHERE 10 / B.x > 1",
    "either": "PATTERN SEQ(B OR C, B b2) WHERE 10 / B.x > 1 AND 10 / C.x > 1 AND 10 / b2.x < 7",
    "calm": "PATTERN SEQ(A, NOT C, B) WHERE 10 / C.x > 1",
    "guarded": "PATTERN SEQ(A, EVENT(b, x > 0 AND 10 / x < 7))",
}


@pytest.mark.parametrize("algorithm", more_on_classic("auto", "joins"))
def test_a_condition_is_tested_of_the_events_that_its_query_tests_alone(spark: Any, algorithm: str) -> None:
    rows = [(1, "A", 0), (2, "B", 2), (3, "C", 5), (4, "B", 20), (5, "D", 0)]
    df = spark.createDataFrame(rows, "t int, type string, x int")
    queries = DIVISIONS | ({} if algorithm == "joins" else {"runs": "PATTERN SEQ(A, B+) WHERE 10 / B.x > 1"})
    found = Counter(row["query"] for row in df.patterns(queries, time="t").trends(algorithm=algorithm).collect())
    assert found == {name: df.pattern(text, time="t").trends().count() for name, text in queries.items()}


@pytest.mark.classic
def test_a_window_of_any_query_must_lie_in_the_range_of_times(spark: Any) -> None:
    minutes = [datetime.datetime(9999, 12, 31, 23, minute) for minute in (49, 50)]
    df = spark.createDataFrame(list(zip(minutes, "AB", strict=True)), "t timestamp, type string")
    spans = {"short": "PATTERN SEQ(A, B) WITHIN 2 minutes", "long": "PATTERN SEQ(A, B) WITHIN 1 hour"}
    windows = {"windows": f"{spans['long']} SLIDE 7 minutes", "hours": f"{spans['long']} SLIDE 1 hour"}
    for algorithm in ("auto", "joins"):
        assert df.patterns(spans, time="t").trends(algorithm=algorithm).count() == 2
        ending = {"hours": windows["hours"], "short": spans["short"]}
        assert df.patterns(ending, time="t").trends(algorithm=algorithm).count() == 2
        with pytest.raises(Exception, match=r"is out of range: .* all windows that hold them"):
            df.patterns(spans | windows, time="t").trends(algorithm=algorithm).collect()


@pytest.mark.classic
@pytest.mark.parametrize(("name", "text"), [("query", ""), ("TREND", ""), ("window", " WITHIN 4 SLIDE 2")])
def test_a_key_cannot_have_the_name_of_a_column_of_the_answer(letters: Any, name: str, text: str) -> None:
    queries = {"a": "PATTERN SEQ(A, B) WITHIN 6", "b": f"PATTERN A{text}", "c": f"PATTERN SEQ(A, B) WHERE [{name}]"}
    many = letters.withColumnRenamed("k", name).patterns(queries, time="t")
    for ask in (many.trends, partial(many.trends, limit=2), partial(many.results, of="trends")):
        with pytest.raises(ResolutionError, match=f"the key column '{name}' clashes with the {name.lower()} column"):
            ask()


@pytest.mark.classic
def test_what_joins_cannot_take_is_refused_by_the_name_of_its_query(letters: Any) -> None:
    many = letters.patterns({**QUERIES, "far": "PATTERN SEQ(A, NOT (SEQ(C, D))+, B)"}, time="t")
    with pytest.raises(UnsupportedQuery, match=r"query 'far': algorithm 'joins' cannot put these trends together"):
        many.trends(algorithm="joins")
    with pytest.raises(InvalidNode, match="no algorithm 'join'"):
        many.trends(algorithm="join")
    with pytest.raises(InvalidNode, match="what Spark's joins do is not measured"):
        many.explain(of="trends", algorithm="joins", measured=True)


@pytest.mark.classic
def test_a_query_by_itself_is_limited_by_spark_which_starts_no_more_tasks_than_it_needs(letters: Any) -> None:
    alone = letters.patterns({"abc": QUERIES["abc"]}, time="t").trends(2)
    both = letters.patterns({name: QUERIES[name] for name in ("abc", "abd")}, time="t").trends(2)
    assert [len(rows.collect()) for rows in (alone, both)] == [2, 4]
    for rows, windows in ((alone, False), (both, True)):
        plan = io.StringIO()
        with redirect_stdout(plan):
            rows.explain("simple")
        assert ("Window" in plan.getvalue()) == windows


@pytest.mark.classic
def test_queries_that_ask_for_aggregates_have_trends_too(letters: Any) -> None:
    many = letters.patterns({"n": "RETURN COUNT(*) AS n PATTERN SEQ(A, B)", "m": "RETURN COUNT(*) PATTERN B"}, time="t")
    assert many.results()["n"].columns == ["n"]
    assert many.results(of="trends")["n"].columns == ["trend"]
    assert many.results(of="trends")["n"].count() == many.results()["n"].first()["n"]
    many.unpersist()


@pytest.mark.classic
def test_a_query_that_never_matches_has_no_trends(letters: Any) -> None:
    texts = {
        "some": "PATTERN SEQ(A, B)",
        "none": "PATTERN C WHERE COUNT(C) = 2",
        "no type": "PATTERN C WHERE C.type = 'D'",
    }
    found = Counter(row.query for row in letters.patterns(texts, time="t").trends().collect())
    assert found == Counter({"some": letters.pattern(texts["some"], time="t").trends().count()})


def test_a_plan_that_is_given_serves(letters: Any) -> None:
    queries = {name: QUERIES[name] for name in ("abc", "abd")}
    plan = cet.aggregation_plan({"abd": QUERIES["abd"]}).adding("abc", QUERIES["abc"])
    many = letters.patterns(queries, time="t")
    assert many.trends(plan=plan).count() == many.trends().count() == many.trends(deadline=0).count() > 0
    with pytest.raises(InvalidNode, match="the aggregation plan is one of other queries"):
        many.trends(plan=plan.removing("abc"))
    rates = {"rates": {"A": 100, "B": 100, "C": 0.001, "D": 0.001}}
    assert many.trends(statistics=rates).count() == many.trends().count()
    with pytest.raises(InvalidNode, match="statistics are given beside an aggregation plan"):
        many.trends(plan=plan, statistics=rates)
    with pytest.raises(InvalidNode, match="the rate of 'A' is -1, which is negative"):
        many.trends(statistics={"rates": {"A": -1}})
    with pytest.raises(InvalidNode, match='a plan is given, but sharing is "never"'):
        many.trends(plan=plan, sharing="never")
    with pytest.raises(InvalidNode, match=r"no sharing mode of trends 'always'[^$]*choose one of dynamic, never"):
        many.trends(sharing="always")
    assert many.trends(sharing="never").count() == many.trends(sharing="dynamic").count() == many.trends().count()
    with pytest.raises(InvalidNode, match="plan= is no aggregation plan"):
        many.trends(plan="greedy")  # type: ignore[arg-type]


@pytest.mark.classic
def test_explain_draws_the_plan_and_tells_of_the_work(letters: Any) -> None:
    text = str(letters.patterns(QUERIES, time="t").explain(measured=True))
    for line in ("== aggregation plan ==", "runs, calm listed depth first, unshared", "long runs alone  "):
        assert line in text
    assert "1 sub-pattern, whose instances are built once" in text
    assert "SEQ(A, B)\n:   built " in text
    never = str(letters.patterns(QUERIES, time="t", sharing="never").explain(of="trends"))
    assert "aggregation plan" not in never
    assert "sub-pattern" not in never


@pytest.mark.classic
def test_what_is_wrong_is_said_at_once(letters: Any) -> None:
    many = letters.patterns(QUERIES, time="t")
    wrong = [
        (lambda: many.trends(limit=-1), "limit must be a whole number"),
        (lambda: many.trends(columns=["nope"]), "no column 'nope'"),
        (lambda: many.trends(columns=["t", "t"]), "cannot show two columns of the name 't'"),
        (lambda: many.trends(deadline=-1), "a deadline is a number of seconds"),
        (lambda: many.results(of="trend"), "no answer 'trend'"),
        (lambda: many.aggregate(), "there is nothing to return"),
        (lambda: many.aggregate(), r"or results\(of='trends'\)"),
        (
            lambda: (
                letters.withColumnRenamed("k", "Query").patterns({"q": "PATTERN A GROUP BY Query"}, time="t").trends()
            ),
            "clashes",
        ),
    ]
    for ask, says in wrong:
        with pytest.raises(CetdslError, match=says):
            ask()
