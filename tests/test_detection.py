"""``trends(plan=...)`` on Spark: whatever the plan, the trends are those of the reference; what it says of its plan."""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter
from typing import Any

import attrs
import generators
import pytest
import reference
from modes import more_on_classic

import cetdsl as cet
from cetdsl.errors import InvalidNode, ResolutionError, UnknownVariable, UnsupportedQuery
from cetdsl.execution import detection
from cetdsl.pattern.nodes import And

pytestmark = pytest.mark.simple_plans

STREAMS = 40
#: The columns of reports behind those of keys.
STATISTICS = ["branch", "slice", "events", "rates", "selectivities"]
ADAPTATION = [
    *("branch", "slice", "plan", "events", "planned", "changed", "violated"),
    *("partial_matches", "seconds_deciding", "seconds_planning"),
]


@pytest.fixture(scope="module")
def rows() -> list[Any]:
    return generators.stacked(7000, STREAMS)


@pytest.fixture(scope="module")
def df(spark: Any, rows: list[Any]) -> Any:
    return generators.frame(spark, rows).cache()


def expected_of(asked: Any, rows: list[Any]) -> Counter[Any]:
    found = reference.trends(asked.query, rows)
    return Counter((key[0], key[1], _flat(trend)) for key, trends in found.items() for trend in trends)


def _flat(trend: Any) -> tuple[Any, ...]:
    """The bindings of a trend, or of all trends of an AND."""
    return trend if isinstance(trend, tuple) else tuple(sorted(itertools.chain(*trend)))


def found_by(asked: Any, **how: Any) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for row in asked.trends(columns=["id"], **how).collect():
        values = row.asDict()
        window = values.get("window")
        key = tuple(reference._key(values[name]) for name in asked.query.group_by), tuple(window) if window else None
        trend = tuple((b.event.id, b.variable) for b in row.trend)
        found[(*key, tuple(sorted(trend)) if isinstance(asked.query.pattern, And) else trend)] += 1
    return found


def bound(df: Any, text: str) -> Any:
    query = cet.parse(text)._query()
    return cet.pattern(df, attrs.evolve(query, group_by=("case", *query.group_by)), time="t")


@pytest.mark.parametrize(
    ("text", "plan"),
    more_on_classic(
        ("PATTERN SEQ(A, B+, C) WHERE A.x <= B.x WITHIN 5", ["C", "B", "A"]),
        ("PATTERN SEQ(A, NOT D d, B, C) WHERE d.x = A.x AND A.k = C.k", ["C", "A", "B"]),
        ("PATTERN SEQ(A, B) OR SEQ(B b2, C) WITHIN 6 SLIDE 2", ["B", "C", "A", "b2"]),
        ("PATTERN SEQ(A, B, C) WHERE A.x + B.x < C.x", "dynamic"),
        ("PATTERN SEQ(A, B+) WHERE COUNT(B) < 3 AND AVG(B.x) > FIRST(A).x", ["B", "A"]),
        ("PATTERN SEQ(A, NOT D d, B) WHERE d.x + B.x = A.x", ["B", "A"]),
        ("PATTERN (SEQ(A, B+))+ WITHIN 8", "greedy"),
        ("PATTERN SEQ(A, B+, C) WHERE A.x <= B.x AND A.k = C.k WITHIN 5", ["A", ["C", "B"]]),
        ("PATTERN SEQ(A, NOT D d, B, C) WHERE d.x = A.x AND A.k = C.k", [["A", "B"], "C"]),
        ("PATTERN SEQ(A, B) OR SEQ(B b2, C) WITHIN 6 SLIDE 2", [["A", "B"], ["C", "b2"]]),
        ("PATTERN SEQ(A, B, C) WHERE A.x < C.x WITHIN 6 SLIDE 2", "tree"),
        ("PATTERN B+ WITHIN 4", "tree"),
        ("PATTERN AND(SEQ(A, B), C, A a2) WHERE A.x <= C.x AND B.k = a2.k WITHIN 5", ["a2", "C", "A", "B"]),
        ("PATTERN AND(SEQ(A, B), C, A a2) WHERE A.x + C.x > a2.x WITHIN 6 SLIDE 2", [["A", "a2"], ["B", "C"]]),
    ),
)
def test_trends_in_any_plan_are_those_of_the_reference(df: Any, rows: list[Any], text: str, plan: Any) -> None:
    asked = bound(df, text)
    expected = expected_of(asked, rows)
    assert expected
    assert found_by(asked, plan=plan) == expected


@pytest.mark.classic
def test_every_order_on_spark(df: Any, rows: list[Any]) -> None:
    asked = bound(df, "PATTERN SEQ(A, B, C) WHERE A.x <= C.x WITHIN 6")
    expected = expected_of(asked, rows)
    assert expected
    for plan in (*itertools.permutations("ABC"), (("A", "B"), "C"), ("A", ("B", "C"))):
        assert found_by(asked, plan=list(plan)) == expected


@pytest.mark.classic
def test_a_limit_is_kept(df: Any, rows: list[Any]) -> None:
    asked = bound(df, "PATTERN SEQ(A, B+, C)")
    expected = expected_of(asked, rows)
    some = asked.trends(limit=3, plan=["C", "A", "B"], columns=["id"]).collect()
    assert len(some) == 3
    assert {tuple((b.event.id, b.variable) for b in row.trend) for row in some} <= {trend for _, _, trend in expected}


@pytest.mark.classic
def test_what_explain_says(df: Any) -> None:
    asked = bound(df, "PATTERN SEQ(A, B, C) WITHIN 10 SLIDE 10")
    rates = {"rates": {"A": 10, "B": 1.5, "C": 1}}
    text = str(asked.explain("trends", plan="greedy", statistics=rates))
    assert "strategy      detect: puts trends together by a plan" in text
    assert "bind C, B, A" in text
    assert "partial matches expected in a window: C 10, B 75, A 2.5e+03" in text
    text = str(asked.explain("trends", plan="tree", statistics=rates))
    assert "join (A, (B, C))" in text
    assert "time buckets" in text
    changing = str(asked.explain("trends", adaptation={"method": "threshold", "slice": 9}))
    assert "threshold, after every 9 events of a key, which stays in one task\n" in changing
    assert "time buckets" not in changing
    assert "partial matches expected in a window: A 100, B 15, C 10, (B, C) 75, (A, (B, C)) 2.5e+03" in text
    assert "no statistics say" in str(asked.explain("trends"))
    assert "detect" in str(asked.explain("trends", statistics={"rates": {"A": 100, "B": 10, "C": 0.01}}))
    assert "no order is clearly cheaper" in str(asked.explain("trends", statistics=rates))
    assert "the order of the pattern is asked for" in str(asked.explain("trends", plan="pattern"))


#: Queries that no plan can put together, why, and what is done.
WITHOUT_A_PLAN = [
    ("PATTERN (SEQ(A, B))+", "a repetition of more than one event", "the order of the pattern is taken"),
    ("PATTERN SEQ(A, B, A)", "A stands at two places of the pattern", "the order of the pattern is taken"),
    (
        "PATTERN AND(A, B+ B[]) WHERE COUNT(B) > 2",
        "a predicate aggregates over a side of AND",
        "the trends of its sides are joined",
    ),
]


@pytest.mark.classic
@pytest.mark.parametrize(("text", "why", "done"), WITHOUT_A_PLAN)
def test_a_plan_that_is_not_used_is_told(df: Any, text: str, why: str, done: str) -> None:
    asked = bound(df, text)

    def told(**how: Any) -> list[str]:
        lines = str(asked.explain("physical", **how)).splitlines()
        assert any(re.fullmatch(r"strategy +enumerate: .*", line) for line in lines)
        return [re.sub(r"^not used +", "", line) for line in lines if line.startswith("not used")]

    for plan in ("greedy", "dynamic", "tree", ("B", "A")):
        assert told(plan=plan) == [f"plan {plan!r}: {why}, so {done}"]
    assert told(adaptation="invariants") == [f"adaptation 'invariants': {why}, so {done}"]
    assert told(plan="tree", adaptation="threshold") == [f"plan 'tree' and adaptation 'threshold': {why}, so {done}"]
    assert told(plan="pattern") == told(statistics={"rates": {"A": 1}}) == []


@pytest.mark.parametrize(
    "adaptation",
    more_on_classic({"method": "unconditional", "slice": 1}, "invariants", {"method": "threshold", "threshold": 0.1}),
)
@pytest.mark.parametrize("plan", more_on_classic("auto", "tree"))
def test_trends_of_plans_that_change_are_those_of_the_reference(
    df: Any, rows: list[Any], adaptation: Any, plan: str
) -> None:
    for text in (
        "PATTERN SEQ(A, B, C) WHERE A.x <= C.x WITHIN 6",
        "PATTERN SEQ(A, B) OR SEQ(B b2, C) WITHIN 6 SLIDE 2",
    ):
        asked = bound(df, text)
        expected = expected_of(asked, rows)
        assert expected
        assert found_by(asked, adaptation=adaptation, plan=plan) == expected


def turning(spark: Any) -> Any:
    """A key whose C are rare in its first quarter, and whose A are in the others."""
    kinds = ["AAAABBBBBC"[n % 10] for n in range(1000)] + ["CCCCBBBBBA"[n % 10] for n in range(3000)]
    return spark.createDataFrame([(n, kind) for n, kind in enumerate(kinds)], "t int, type string").coalesce(1)


@pytest.mark.classic
def test_what_happened_to_plans(spark: Any) -> None:
    asked = turning(spark).pattern("PATTERN SEQ(A, B, C) WITHIN 40", time="t")
    how = {"method": "invariants", "distance": 0.0, "slice": 250}
    slices = asked.adaptation(how).orderBy("slice").collect()
    assert [row["slice"] for row in slices] == list(range(16))
    assert {row.events for row in slices} == {250}
    plans = [row.plan for row in slices]
    assert plans[2].startswith("C")
    assert plans[-1].startswith("A")
    changed = [row["slice"] for row in slices if row.changed]
    assert changed == [n for n in range(15) if plans[n] != plans[n + 1]]
    assert all(row.planned and row.violated for row in slices if row.changed and row["slice"])
    assert all(row.partial_matches > 0 for row in slices)
    seen = asked.statistics(how).orderBy("slice").collect()
    assert [row["slice"] for row in seen] == list(range(16))
    assert seen[0].rates == pytest.approx({"A": 0.4, "B": 0.5, "C": 0.1}, rel=0.05)
    assert seen[-1].rates["C"] > seen[-1].rates["A"]
    # Without a window they are numbers of events of the key so far.
    rows = spark.createDataFrame([(n, "AB"[n % 2]) for n in range(32)], "t int, type string").coalesce(1)
    seen = rows.pattern("PATTERN SEQ(A, B)", time="t").statistics({"slice": 8}).orderBy("slice").collect()
    assert [row.rates["A"] for row in seen] == pytest.approx([4, 8, 12, 16])


@pytest.mark.classic
def test_measured_partial_matches(df: Any, rows: list[Any]) -> None:
    asked = bound(df, "PATTERN SEQ(A, B, C) WITHIN 5 SLIDE 5")
    expected = expected_of(asked, rows).total()
    text = str(asked.explain("trends", plan=["C", "B", "A"], measured=True))
    assert re.search(rf"measured +C \d+, B \d+, A {expected}\n", text)
    text = str(asked.explain("trends", plan=["A", ["B", "C"]], measured=True))
    assert re.search(rf"measured +A \d+, B \d+, C \d+, \(B, C\) \d+, \(A, \(B, C\)\) {expected}\n", text)
    assert "not measured  partial" in str(asked.explain("trends", plan="pattern", measured=True))
    text = str(asked.explain("trends", measured=True))
    orders = re.findall(r"measured +(\d+) events in the order (\w, \w, \w): \w \d+, \w \d+, \w (\d+)\n", text)
    assert sum(int(found) for *_, found in orders) == expected
    trends = asked.explain("trends", plan=["C", "B", "A"], measured=True)
    facts, timed = dict(trends.views[0].facts), re.compile(r"[\d.]+ (ms|s)\b")
    assert facts["took"].endswith(" ms to make")
    assert [f"measured: {expected} rows" in str(node.details) for node in trends.views[0].nodes].count(True) == 1
    physical = str(asked.explain("physical", plan=["C", "B", "A"], measured=True))
    assert timed.sub("", physical).split() == timed.sub("", str(trends)).split()
    assert "number of trends" in str(asked.explain("physical"))


@pytest.mark.parametrize(
    ("how", "kind", "said"),
    more_on_classic(
        ({"plan": "fast"}, InvalidNode, "no plan 'fast'"),
        ({"plan": 5}, InvalidNode, "is not a list of variables"),
        ({"plan": ["C", "B"]}, InvalidNode, "leaves out 'A'"),
        ({"plan": ["C", "B", "A", "B"]}, InvalidNode, "names 'B' twice"),
        ({"plan": ["C", "B", "A", "N"]}, InvalidNode, "which stands under NOT"),
        ({"plan": ["C", "B", "A", "X"]}, UnknownVariable, "X"),
        ({"plan": ["C", "B", 1]}, InvalidNode, "is not the name of a variable"),
        ({"plan": ["A", ["B", "C", "C"]]}, InvalidNode, "joins 3 parts"),
        ({"plan": [["A", "C"], "B"]}, InvalidNode, "cannot join A and C before B"),
        ({"plan": ["A", ["B", "B"]]}, InvalidNode, "names 'B' twice"),
        ({"plan": [["A", "B"], 1]}, InvalidNode, "is not the name of a variable"),
        ({"statistics": {"rates": {"A": -1}}}, InvalidNode, "which is negative"),
        ({"statistics": {"rates": {"N": 1}}}, InvalidNode, "under NOT"),
        ({"statistics": {"selectivities": {("A", "B"): 1.5}}}, InvalidNode, "no share is above 1"),
        ({"statistics": {"selectivities": {"A": 1.5}}}, InvalidNode, "of 'A' is 1.5, and no share is above 1"),
        ({"statistics": {"selectivities": {("A",): 0.5}}}, InvalidNode, "is of no pair of variables"),
        ({"statistics": {"selectivities": {"X": 0.5}}}, UnknownVariable, "X"),
        ({"statistics": {"speeds": {}}}, InvalidNode, "statistics have no"),
        ({"statistics": {"rate": {"A": 1}}}, InvalidNode, "statistics have no 'rate'\n +hint: did you mean 'rates'"),
        ({"statistics": []}, InvalidNode, "are not a mapping"),
        ({"adaptation": "sometimes"}, InvalidNode, "no adaptation"),
        ({"adaptation": {"distance": -1}}, InvalidNode, "which is negative"),
        ({"adaptation": {"most": 0}}, InvalidNode, "the number K is 0"),
        ({"adaptation": {"method": "threshold", "threshold": -0.5}}, InvalidNode, "which is negative"),
        ({"adaptation": {"slice": 0}}, InvalidNode, "a slice has 0 events"),
        ({"adaptation": {"slices": 5}}, InvalidNode, "an adaptation has no 'slices'"),
        ({"adaptation": "invariants", "plan": ["A", "B", "C"]}, InvalidNode, "the adaptation would change it"),
    ),
)
def test_bad_plans_and_statistics_are_refused(df: Any, how: Any, kind: type[Exception], said: str) -> None:
    asked = bound(df, "PATTERN SEQ(A, NOT D N, B, C)")
    for ask in (asked.trends, lambda **more: asked.explain("trends", **more)):
        with pytest.raises(kind, match=said) as raised:
            ask(**how)
        assert "hint: " in str(raised.value)


def test_of_a_pattern_that_has_no_plan_nothing_is_told(df: Any) -> None:
    asked = bound(df, "PATTERN (SEQ(A, B))+")
    for ask in (asked.adaptation, asked.statistics):
        with pytest.raises(UnsupportedQuery, match="a repetition of more than one event") as raised:
            ask()
        assert "of each pattern that can have one" in str(raised.value)


@pytest.mark.parametrize(("key", "most"), more_on_classic(("", 5_000), (" GROUP BY k", 1_000_000)))
def test_a_sample_finds_rates_and_selectivities(
    spark: Any, key: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the events are A, three in ten B, and two in ten C; x is below 10, and y below 100."""
    monkeypatch.setattr(detection, "MOST_SAMPLED", most)
    rng = random.Random(3)
    rows = [(n, n % 2, rng.choice("AAAAABBBCC"), rng.randrange(10), rng.randrange(100)) for n in range(20_000)]
    df = spark.createDataFrame(rows, "t int, k int, type string, x int, y int")
    asked = df.pattern(f"PATTERN SEQ(A, B, C) WHERE A.x = C.x AND B.y < C.y{key} WITHIN 40", time="t")
    told = str(asked.explain("trends", plan="greedy", statistics="sample"))
    (facts,) = re.findall("^statistics +of a sample: (.*)", told, re.MULTILINE)
    rates, shares = (
        {name: float(value) for name, value in re.findall(r"(\w(?:, \w)?) ([\d.]+)", part)} for part in facts.split(";")
    )
    scale = 2 if key else 1
    assert rates == pytest.approx({"A": 0.5 / scale, "B": 0.3 / scale, "C": 0.2 / scale}, rel=0.1)
    assert shares == pytest.approx({"A, C": 0.1, "B, C": 0.495}, rel=0.35 if most < len(rows) else 0.2)
    assert told == str(asked.explain("trends", plan="greedy", statistics="sample"))


@pytest.mark.classic
@pytest.mark.parametrize("name", ["branch", "slice", "plan", "Events", "rates", "seconds_planning"])
def test_a_key_may_have_the_name_of_what_is_measured(spark: Any, name: str) -> None:
    rows = [(n, "ABC"[n % 3], n % 4, "k") for n in range(12)]
    plain = spark.createDataFrame(rows, "t int, type string, x int, k string")

    def asked(key: str) -> Any:
        df = plain.withColumnRenamed("k", key)
        return df.pattern(f"PATTERN SEQ(A, B, C) WHERE [{key}] AND A.x <= C.x WITHIN 6", time="t")

    def measured(key: str) -> str:
        text = str(asked(key).explain("trends", plan="greedy", statistics="sample", measured=True))
        return next(line for line in text.splitlines() if line.startswith("measured "))

    assert measured(name) == measured("k")
    for report, own in (("statistics", STATISTICS), ("adaptation", ADAPTATION)):
        if name.lower() in own:
            with pytest.raises(ResolutionError, match=f"'{name}' clashes with the {name.lower()} column of the answer"):
                getattr(asked(name), report)()
        else:
            answer = getattr(asked(name), report)({"slice": 5})
            assert answer.columns == [name, *own]
            assert answer.count() == getattr(asked("k"), report)({"slice": 5}).count() > 0


@pytest.mark.parametrize(("report", "name"), [("statistics", "rates"), ("adaptation", "changed")])
def test_clashing_keys_are_refused_before_a_plan_is_carried_out(
    spark: Any, monkeypatch: pytest.MonkeyPatch, report: str, name: str
) -> None:
    monkeypatch.setattr(detection, "run", lambda *_: pytest.fail("the plan is carried out"))
    df = spark.createDataFrame([(1, "A", "k")], f"t int, type string, {name} string")
    asked = df.pattern(f"PATTERN SEQ(A, B, C) WHERE [{name}] WITHIN 6", time="t")
    with pytest.raises(ResolutionError, match=f"'{name}' clashes with the {name} column of the answer"):
        getattr(asked, report)()


@pytest.mark.classic
def test_trends_after_a_sample(df: Any) -> None:
    for text in ("PATTERN SEQ(A, B, C) WHERE A.x = C.x WITHIN 9", "PATTERN SEQ(A, B) OR SEQ(B b2, C) WITHIN 6"):
        asked = df.pattern(text, time="t", tie_break="s")
        expected = Counter(map(str, asked.trends(columns=["id"], plan="pattern").collect()))
        assert expected
        for plan in ("greedy", "dynamic", "auto", "pattern"):
            found = asked.trends(columns=["id"], plan=plan, statistics="sample").collect()
            assert Counter(map(str, found)) == expected, (text, plan)


def test_a_sample_where_there_is_little_to_see(spark: Any, df: Any) -> None:
    empty = spark.createDataFrame([], "t int, type string").pattern("PATTERN SEQ(A, B) WITHIN 4", time="t")
    assert "there are no events" in str(empty.explain("trends", plan="greedy", statistics="sample"))
    # Without a plan the order of the pattern is taken, as ever.
    repeated = df.pattern("PATTERN (SEQ(A, B))+ WITHIN 2", time="t", tie_break="s")
    assert repeated.trends(plan="greedy", statistics="sample").count() == repeated.trends().count() > 0
    with pytest.raises(InvalidNode, match="there are no statistics 'smaple'") as told:
        repeated.trends(statistics="smaple")
    assert "did you mean 'sample'" in str(told.value)
