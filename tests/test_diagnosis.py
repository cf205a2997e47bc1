"""A diagnosis names what was planted, and its numbers are those that the reference counts."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import attrs
import generators
import pytest
import reference
from modes import more_on_classic
from pyspark.sql import functions as F
from test_engines import by_case

import cetdsl as cet
from cetdsl.errors import InvalidNode
from cetdsl.frontend import variant_counts
from cetdsl.pattern import variants
from cetdsl.pattern.query import Query
from cetdsl.pattern.text import unparse

pytestmark = pytest.mark.simple_plans

MIDNIGHT = datetime.datetime(2024, 3, 1)
SHOP = "id int, ts timestamp, action string, kind string, user string, session string, amount double, note string"


def shop_rows() -> list[tuple[Any, ...]]:
    """Six users who view, put into the cart and buy, 20 minutes after each other, each time in another session."""
    rows = []
    for user in range(6):
        for step, action in enumerate(("view", "cart", "purchase", "view", "cart", "purchase")):
            ts = MIDNIGHT + datetime.timedelta(minutes=20 * step, seconds=user * 7)
            amount = 10.0 * user + step
            rows.append((len(rows), ts, action, "web", f"u{user}", f"s{user}-{step}", amount, None))
    return rows


@pytest.fixture(scope="module")
def shop(spark: Any) -> Any:
    # One part, read once: a diagnosis asks many small queries.
    return spark.createDataFrame(shop_rows(), SHOP).coalesce(1).cache()


#: A query with a mistake, how it is bound, and what the diagnosis must say of it first.
PLANTED = {
    "wrong case": (
        "PATTERN SEQ(View v, cart c) WHERE [user]", {},
        "v binds no event: no row has action = 'View'; 'view' occurs 12 times",
    ),
    "misspelt": (
        "PATTERN SEQ(view v, purchse p) WHERE [user]", {},
        "p binds no event: no row has action = 'purchse'; 'purchase' occurs 12 times",
    ),
    "wrong column": (
        "PATTERN SEQ(view v, cart c) WHERE [user]", {"type": "kind"},
        "v binds no event: no row has kind = 'view'; the column action has it 12 times",
    ),
    "no such value": (
        "PATTERN SEQ(view v, cart c) WHERE c.kind = 'telephone'", {},
        "c binds no event: no row has kind = 'telephone'; its most frequent values are 'web' (36)",
    ),
    "window too small": (
        "PATTERN SEQ(view v, cart c, purchase p) WHERE [user] WITHIN 30 minutes", {},
        "without WITHIN 30 minutes there would be 24 trends; the closest takes 40 min",
    ),
    "windows that begin elsewhere": (
        "PATTERN SEQ(cart c, purchase p, view v) WHERE [user] WITHIN 50 minutes SLIDE 50 minutes", {},
        "without WITHIN 50 minutes SLIDE 50 minutes there would be 6 trends; the closest takes 40 min, "
        "but no window that begins at a multiple of SLIDE holds it",
    ),
    "wrong order": (
        "PATTERN SEQ(purchase p, cart c) WHERE [user] WITHIN 30 minutes", {},
        "in another order, SEQ(cart c, purchase p), there would be 12 trends",
    ),
    "never true": (
        "PATTERN SEQ(view v, cart c) WHERE c.amount > 1000", {},
        "c binds no event: none of the 12 rows with c.action = 'cart' has c.amount > 1000; "
        "amount lies between 1.0 and 54.0",
    ),
    "never true of pairs": (
        "PATTERN SEQ(view v, cart c) WHERE [user] AND v.amount > c.amount", {},
        "without v.amount > c.amount there would be 18 trends",
    ),
    "NULL": (
        "PATTERN SEQ(view v, cart c) WHERE v.note = c.note", {},
        "v.note = c.note never holds: note is NULL in all 12 events that v can bind",
    ),
    "NULL in a condition": (
        "PATTERN SEQ(view v, cart c) WHERE c.note LIKE 'x%'", {},
        "c binds no event: note is NULL in all 12 rows with c.action = 'cart'",
    ),
    "wrong key": (
        "PATTERN SEQ(view v, cart c) WHERE [session]", {},
        "without [session] there would be",
    ),
    "NOT": (
        "PATTERN SEQ(view v, NOT cart c, purchase p) WHERE [user] WITHIN 1 hour", {},
        "without NOT cart c there would be 12 trends",
    ),
    "too often": (
        "PATTERN SEQ(view v, cart{3,} c[]) WHERE [user]", {},
        "without cart c 3 times there would be",
    ),
    "two mistakes": (
        "PATTERN SEQ(view v, cart c) WHERE [user] AND v.amount > c.amount WITHIN 1 minute", {},
        "no demand alone is to blame: with those above v.amount > c.amount there would be 18 trends, "
        "with it there is none",
    ),
    "time zone": (
        "PATTERN SEQ(view v, cart c) WHERE [user] AND v.ts >= TIMESTAMP '2024-03-01 09:00:00'", {},
        "v binds no event: none of the 12 rows with v.action = 'view' has v.ts >= TIMESTAMP '2024-03-01 09:00:00'; "
        "ts lies between 2024-03-01 00:00:00 and 2024-03-01 01:00:35",
    ),
    "wrong unit": (
        "PATTERN SEQ(view v, cart c) WHERE [user] AND unix_timestamp(c.ts) - unix_timestamp(v.ts) <= 1", {},
        "without unix_timestamp(c.ts) - unix_timestamp(v.ts) <= 1 there would be 18 trends",
    ),
    "gap too small": (
        "PATTERN SEQ(view v, cart c) WHERE [user] MAX_GAP 5 minutes", {},
        "without MAX_GAP 5 minutes there would be 18 trends",
    ),
    "part too short": (
        "PATTERN SEQ(view v, SEQ(cart c, purchase p) WITHIN 5 minutes) WHERE [user]", {},
        "without SEQ(cart c, purchase p) WITHIN 5 minutes there would be 24 trends",
    ),
    "wrong group": (
        "PATTERN SEQ(view v, cart c) GROUP BY session", {},
        "without [session] there would be 108 trends",
    ),
    "group that is computed of the wrong part": (
        "PATTERN SEQ(view v, cart c) WHERE [user] GROUP BY minute(ts) AS m", {},
        "without [m] there would be 18 trends",
    ),
    "wrong sign": (
        "PATTERN SEQ(view v, cart c) WHERE [user] AND c.amount < 0", {},
        "c binds no event: none of the 12 rows with c.action = 'cart' has c.amount < 0; "
        "amount lies between 1.0 and 54.0",
    ),
    "less for at most": (
        "PATTERN SEQ(view v, cart c) WHERE [user] AND v.kind < c.kind", {},
        "without v.kind < c.kind there would be 18 trends",
    ),
    "equal doubles": (
        "PATTERN SEQ(view v, cart c) WHERE [user] AND v.amount = c.amount", {},
        "without v.amount = c.amount there would be 18 trends",
    ),
    "neighbours the wrong way round": (
        "PATTERN SEQ(view v, cart c) WHERE [user] AND v.amount > NEXT(c).amount", {},
        "without v.amount > NEXT(c).amount there would be 18 trends",
    ),
    "blank": (
        "PATTERN SEQ(view v, `cart ` c) WHERE [user]", {},
        "c binds no event: no row has action = 'cart '; 'cart' occurs 12 times",
    ),
    "contradiction": (
        "PATTERN SEQ(view v, cart c) WHERE [user] AND c.amount > 5 AND c.amount < 3", {},
        "c binds no event: none of the 10 rows with c.action = 'cart' AND c.amount > 5 has c.amount < 3",
    ),
    "NOT at the beginning": (
        "PATTERN SEQ(NOT view n, cart c) WHERE [user]", {},
        "without NOT view n there would be 12 trends",
    ),
    "no average is so high": (
        "PATTERN SEQ(view v, cart+ c[]) WHERE [user] AND AVG(c.amount) > 1000", {},
        "without AVG(c.amount) > 1000 there would be 24 trends",
    ),
    "both alternatives": (
        "PATTERN SEQ(view v, (cart c OR Purchase p)) WHERE [user] AND c.amount < 0", {},
        "p binds no event: no row has action = 'Purchase'; 'purchase' occurs 12 times",
    ),
}  # fmt: skip


#: What is not at fault, though a column is NULL or a text is elsewhere: rows (t, type, x, y, c), a query, its causes.
NOT_TO_BLAME = {
    "NULL is what is asked for": (
        [(1, "A", 1, 1, "r"), (2, "B", None, 1, "r"), (3, "B", None, 1, "r")],
        "PATTERN SEQ(A a, B+ b) WHERE SUM(b.x) IS NULL AND LENGTH > 7",
        ["without LENGTH > 7 there would be 3 trends"],
    ),
    "a variable that may be left out": (
        [(1, "A", 1, 1, "r"), (2, "B", None, 1, "r"), (3, "C", 0, 1, "r")],
        "PATTERN SEQ(A a, B? b, C c) WHERE a.x < b.x AND a.y > c.y",
        ["without a.y > c.y there would be 1 trend"],
    ),
    "an event that must not be there": (
        [(1, "A", 1, 1, "r"), (2, "N", None, 1, "r"), (3, "B", 0, 1, "r")],
        "PATTERN SEQ(A a, NOT N n, B b) WHERE n.x = a.x AND a.x < b.x",
        ["without a.x < b.x there would be 1 trend"],
    ),
    "another value in its place": (
        [(1, "A", None, 1, "r"), (2, "B", 5, 1, "r")],
        "PATTERN SEQ(A a, B b) WHERE COALESCE(a.x, 0) + b.x > 100",
        ["without coalesce(a.x, 0) + b.x > 100 there would be 1 trend"],
    ),
    "another column of an OR": (
        [(1, "A", 3, None, "r"), (2, "B", 2, 1, "r")],
        "PATTERN SEQ(A a, B b) WHERE a.x < b.x OR a.y < b.y",
        ["without a.x < b.x OR a.y < b.y there would be 1 trend"],
    ),
    "another column of one event": (
        [(1, "A", None, 1, "r"), (2, "A", None, 2, "r")],
        "PATTERN A a WHERE COALESCE(a.x, a.y) > 100",
        [
            "a binds no event: none of the 2 rows with a.type = 'A' has coalesce(a.x, a.y) > 100; x is NULL in them; "
            "y lies between 1 and 2",
            "without coalesce(a.x, a.y) > 100 there would be 2 trends",
        ],
    ),
    "a text of other events": (
        [(1, "A", 1, 1, "red"), (2, "A", 1, 1, "red"), (3, "B", 1, 1, "blue")],
        "PATTERN SEQ(A a, B b) WHERE b.c = 'red'",
        [
            "b binds no event: none of the 1 row with b.type = 'B' has b.c = 'red', which 2 others have",
            "without b.c = 'red' there would be 2 trends",
        ],
    ),
    "no time": (
        [(None, "A", 1, 1, "r"), (2, "B", 1, 1, "r")],
        "PATTERN SEQ(A a, B b)",
        ["a binds no event: no row has type = 'A'; its most frequent values are 'B' (1)"],
    ),
    "a key without a value": (
        [(1, "A", 1, 1, None), (2, "B", 1, 1, "u")],
        "PATTERN SEQ(A a, B b) WHERE [c]",
        ["without [c] there would be 1 trend; c has about 2 values in 2 rows"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", more_on_classic("no time", *(name for name in NOT_TO_BLAME if name != "no time")))
def test_what_is_not_to_blame_is_not_blamed(spark: Any, name: str) -> None:
    rows, query, causes = NOT_TO_BLAME[name]
    df = spark.createDataFrame(rows, "t int, type string, x int, y int, c string").coalesce(1)
    assert list(df.pattern(query, time="t", on_null_time="skip").diagnose().causes) == causes


def test_a_beginning_need_not_be_as_long_as_a_trend(spark: Any) -> None:
    df = spark.createDataFrame([(1, "A"), (2, "B"), (3, "C")], "t int, type string").coalesce(1)
    steps = df.pattern("PATTERN SEQ(A, B, C) WHERE LENGTH >= 3", time="t").diagnose().steps
    assert [row.trends for row in steps.orderBy("number").collect()] == [1.0, 1.0, 1.0]


def test_events_of_one_time_are_told_of(spark: Any) -> None:
    rows = [(1, 1, "A"), (1, 2, "B"), (1, 2, "B"), (2, 1, "C"), (2, 1, "C")]
    clicks = spark.createDataFrame(rows, "t int, n int, type string")
    causes = clicks.pattern("PATTERN SEQ(A, B)", time="t").diagnose().causes
    assert causes[1:] == (
        "3 events share the time of another one, and such events are never in one trend; "
        "tie_break= would put them in order",
    )
    again = clicks.pattern("PATTERN SEQ(B b, B c)", time="t", tie_break="n").diagnose().causes
    assert again[1].startswith("2 events share the time and tie_break of another one")


def test_what_the_closest_takes_is_told_in_full(spark: Any) -> None:
    times = (MIDNIGHT, MIDNIGHT + datetime.timedelta(days=1, microseconds=7))
    df = spark.createDataFrame(zip(times, "AB"), "ts timestamp, type string").coalesce(1)
    (cause,) = df.pattern("PATTERN SEQ(A, B) WITHIN 1 day").diagnose().causes
    assert cause == "without WITHIN 1 day there would be 1 trend; the closest takes 1 d 7 us"


@pytest.mark.parametrize(
    "name", more_on_classic("window too small", *(name for name in PLANTED if name != "window too small"))
)
def test_a_planted_mistake_is_named(shop: Any, name: str) -> None:
    query, binding, cause = PLANTED[name]
    diagnosis = shop.pattern(query, time="ts", **{"type": "action", **binding}).diagnose()
    assert diagnosis.trends == 0
    assert any(one.startswith(cause) for one in diagnosis.causes), diagnosis.causes
    assert str(diagnosis).startswith("== diagnosis ==\n")


def test_thirty_mistakes_are_planted() -> None:
    assert len(PLANTED) == 30


def test_a_query_with_trends_has_no_causes(shop: Any, tmp_path: Path) -> None:
    diagnosis = shop.pattern("PATTERN SEQ(view v, cart c) WHERE [user]", time="ts", type="action").diagnose()
    assert (diagnosis.trends, diagnosis.causes, diagnosis.notes, diagnosis.events) == (18, (), (), 36)
    assert "The query has 18 trends." in str(diagnosis)
    assert diagnosis.misses(columns=["id"]).collect() == []
    assert [tuple(row) for row in diagnosis.steps.orderBy("number").collect()] == [
        (1, "view v", 12.0),
        (2, "SEQ(view v, cart c)", 18.0),
    ]
    assert "18" in diagnosis.html()
    diagnosis.write_html(tmp_path / "why.html")
    assert (tmp_path / "why.html").read_text("utf-8") == diagnosis.html()
    assert "<script" not in diagnosis._repr_html_()


@pytest.mark.classic
def test_no_events_and_no_times(spark: Any, shop: Any) -> None:
    asked = {"query": "PATTERN SEQ(view, cart)", "time": "ts", "type": "action"}
    assert shop.limit(0).pattern(**asked).diagnose().causes == ("There are no events.",)
    timeless = shop.withColumn("ts", F.lit(None).cast("timestamp"))
    diagnosis = timeless.pattern(**asked).diagnose()
    assert diagnosis.causes == ("ts is NULL in all rows",)
    assert diagnosis.notes == (
        "ts is NULL in 36 of 36 rows, and the query stops with an error; on_null_time='skip' leaves them out",
    )


@pytest.mark.classic
def test_conditions_of_spark_and_guards(shop: Any) -> None:
    """A condition is evaluated only where those before it hold, and a Spark column is shown as well as can be."""
    dear = cet.event("dear", F.col("amount") > 1000)
    diagnosis = shop.pattern(cet.seq(dear, cet.event("cart")), time="ts", type="action").diagnose()
    assert diagnosis.causes[0].startswith("dear binds no event: none of the 36 rows has ")
    guarded = "PATTERN SEQ(view v, cart c) WHERE c.amount > 1000 AND 1 / (c.amount - 1) > 0"
    assert "c.amount > 1000" in shop.pattern(guarded, time="ts", type="action").diagnose().causes[0]


def total(query: Query, rows: Any, ties: Any) -> int:
    return sum(map(len, reference.trends(query, rows, tie_break=ties).values()))


@pytest.mark.classic
@pytest.mark.parametrize("seed", range(5))
def test_numbers_are_those_of_the_reference(spark: Any, seed: int) -> None:
    """Of a random query over ten streams at once, each a key of its own."""
    features = generators.Features().without("top_conjunction")
    case = generators.random_case(7_000 + seed, features)
    query, rows = by_case(case.query), generators.stacked(500 + 10 * seed, 10)
    df = spark.createDataFrame([tuple(row.values()) for row in rows], generators.STACKED)
    diagnosis = df.pattern(query, time="t", tie_break=case.tie_break).diagnose()
    assert diagnosis.trends == total(query, rows, case.tie_break)
    steps = variants.steps_of(query)
    found = [row.trends for row in diagnosis.steps.orderBy("number").collect()]
    assert found == [total(step.query, rows, case.tie_break) for step in steps]
    demands = variants.demands_of(query)
    others = [one for one in demands if one.kind != variants.KEY]
    for row in diagnosis.demands.collect():
        demand = next(one for one in demands if (one.text, one.kind) == (row.demand, row.kind))
        alone = variants.without(query, [one for one in others if one != demand])
        assert row.alone == total(alone, rows, case.tie_break), row
        if row.demand != "[case]":  # without it, there are too many events for the reference
            assert row.without == total(variants.without(query, [demand]), rows, case.tie_break), row
    together = [row.together for row in diagnosis.demands.orderBy("number").collect() if row.kind != variants.KEY]
    expected = [total(one, rows, case.tie_break) for one in variants.cumulated(query, others)]
    assert together == expected
    assert not together or together[-1] == diagnosis.trends


@pytest.mark.parametrize("seed", more_on_classic(0, 1, 2, 3))
def test_the_closest_misses_are_the_shortest(spark: Any, seed: int) -> None:
    """Rows that miss the window last as long as the shortest trends without it do, and are such trends."""
    rows = generators.random_stream(90 + seed)
    times = [10 * place * place + 7 * place for place in range(len(rows))]
    rows = [{**row, "t": t, "id": place, "type": "AB"[place % 2]} for place, (row, t) in enumerate(zip(rows, times))]
    rows += [{**rows[0], "t": 900 + place, "id": len(rows) + place, "type": "A"} for place in range(2)]
    df = spark.createDataFrame([tuple(row.values()) for row in rows], generators.SCHEMA)
    query = cet.parse("PATTERN SEQ(A a, B b) WITHIN 2").node
    diagnosis = df.pattern(query, time="t").diagnose()
    free = attrs.evolve(query, window=None)
    possible = {t for found in reference.trends(free, rows).values() for t in found}
    shortest = sorted(rows[t[-1][0]]["t"] - rows[t[0][0]]["t"] for t in possible)
    misses = diagnosis.misses(limit=2, columns=["id"]).collect()
    got = [tuple((bound.event.id, bound.variable) for bound in row.trend) for row in misses]
    assert misses[0].missed == "WITHIN 2"
    assert misses[0].lasts == shortest[0] > 2
    assert all(trend in possible for trend in got)
    assert f"the closest takes {shortest[0]}" in diagnosis.causes[0]


def test_above_a_size_trends_are_counted_over_a_sample(shop: Any) -> None:
    asked = "PATTERN SEQ(View v, cart c) WHERE [user]"
    diagnosis = shop.pattern(asked, time="ts", type="action").diagnose(sample=18)
    assert diagnosis.events % 6 == 0, "all events of each key"
    assert diagnosis.events < 36
    assert diagnosis.notes == (
        f"trends are counted over the keys of {diagnosis.events} of 36 events; sample= says how many",
    )
    assert "'view' occurs 12 times" in diagnosis.causes[0], "single events are counted in all"


@pytest.mark.classic
def test_without_keys_the_first_events_are_the_sample(shop: Any) -> None:
    diagnosis = shop.pattern("PATTERN SEQ(View v, cart c)", time="ts", type="action").diagnose(sample=18)
    assert diagnosis.events == 18
    assert diagnosis.notes == ("trends are counted over the first 18 of 36 events; sample= says how many",)
    for sample in (0, 1.5, True, "1"):
        with pytest.raises(InvalidNode, match="sample must be a number of events"):
            shop.pattern("PATTERN view", time="ts", type="action").diagnose(sample)
    with pytest.raises(InvalidNode, match="limit must be a number of trends"):
        diagnosis.misses(0)


@pytest.mark.classic
def test_what_would_take_too_long_is_not_counted(shop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs of events of larger keys than the query has, and trends that must be listed."""
    monkeypatch.setattr(variant_counts, "PAIRED", 10)
    asked = "PATTERN SEQ(view v, cart c) WHERE [user] AND ABS(v.amount * c.amount) < 0"
    demands = shop.pattern(asked, time="ts", type="action").diagnose().demands.orderBy("number").collect()
    assert [row.without for row in demands] == [None, 18.0]
    monkeypatch.setattr(variant_counts, "LISTED", 10)
    asked = "PATTERN SEQ(view v, cart+ c[]) WHERE [user] AND SUM(c.amount) > 1000"
    diagnosis = shop.pattern(asked, time="ts", type="action").diagnose()
    assert diagnosis.trends is None
    assert "not counted" in str(diagnosis)


def test_a_demand_is_dropped_wherever_it_stands() -> None:
    text = "PATTERN SEQ(A a, NOT C c, B{2,3} b[], NOT C d, D{2,} e[]) WHERE [k] AND c.x > a.x AND b.x > 1 WITHIN 5"
    query = cet.parse(text).node
    demands = {demand.text: demand for demand in variants.demands_of(query)}
    assert list(demands) == [
        "[k]", "b.x > 1", "NOT C c with c.x > a.x", "NOT C d", "B b 2 times", "D e 2 times", "WITHIN 5",
    ]  # fmt: skip

    def left(*names: str) -> str:
        return " ".join(unparse(variants.without(query, [demands[name] for name in names])).split())

    assert "c.x" not in left("NOT C c with c.x > a.x")
    assert "NOT C d" in left("NOT C c with c.x > a.x")
    assert "B b{1,3}" in left("B b 2 times")
    assert "D e+" in left("D e 2 times")
    assert "WITHIN" not in left("WITHIN 5")
    assert "[k]" not in left("[k]")
    assert left("b.x > 1").count("b.x") == 0


@pytest.mark.classic
def test_the_shortest_of_many_trends_is_found_by_counting(spark: Any) -> None:
    """More trends than are listed at once, whose shortest is one of few."""
    rows = [(10 * n, "A") for n in range(60)] + [(100_000 + 1_000 * n, "B") for n in range(60)] + [(99_999, "A")]
    df = spark.createDataFrame(rows, "t bigint, type string")
    diagnosis = df.pattern("PATTERN SEQ(A, B) WHERE A.t < 99999 WITHIN 50", time="t").diagnose()
    assert diagnosis.causes == (
        "without A.t < 99999 there would be 1 trend",
        "without WITHIN 50 there would be 3,600 trends; the closest takes 99,410",
    )
    lasts = [row.lasts for row in diagnosis.misses(limit=3).filter("missed LIKE 'WITHIN%'").collect()]
    assert lasts == [99_410, 99_420, 99_430]
