"""Answers that are known beforehand, through the public API: papers' examples, closed formulas, published queries."""

from __future__ import annotations

import datetime
import math
import re
import statistics
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
import reference
from modes import more_on_classic
from pyspark.sql import functions as F

import cetdsl as cet
from cetdsl.errors import CountOverflow, recovering
from cetdsl.frontend.session import COUNT
from cetdsl.ir.operators import BuildGraph, Propagate
from cetdsl.pattern.query import Query, Returned
from cetdsl.planning.planner import plan_complete
from cetdsl.planning.strategies.complete import CountRequest
from cetdsl.session import readable

A, B, C = cet.events("A", "B", "C")
UTC = datetime.timezone.utc


def letters(spark: Any, text: str) -> Any:
    """One event per letter."""
    return spark.createDataFrame([(t, letter.upper()) for t, letter in enumerate(text)], "t int, type string")


def many(spark: Any, *sizes: int) -> Any:
    """Groups 0, 1, ... of so many events of type B with x = 1, 2, ..."""
    parts = [
        spark.range(1, n + 1).select(F.lit(g).alias("g"), F.col("id").alias("t"), F.lit("B").alias("type"))
        for g, n in enumerate(sizes)
    ]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.union(part)
    return whole.withColumn("x", F.col("t"))


def text_of(value: int) -> str:
    """Decimal digits of a number too long for ``str``."""
    if value < 10**4000:
        return str(value)
    head, tail = divmod(value, 10**4000)
    return text_of(head) + str(tail).rjust(4000, "0")


@pytest.mark.classic
def test_published_counts(spark: Any) -> None:
    assert letters(spark, "aabbb").pattern(cet.seq(A, +B), time="t").count_trends().first()["count"] == 14
    hamlet = letters(spark, "aacbbbbaacccbb")
    counts = [hamlet.pattern(q, time="t").count_trends().first()["count"] for q in (A >> +B, C >> +B)]
    assert counts == [132, 72]
    prices = spark.createDataFrame([(1, 1.0), (2, 2.0), (3, 3.0)], "t int, price double")
    rising = prices.pattern("PATTERN Stock+ s[] WHERE s.price < NEXT(s).price", time="t", type=None)
    assert rising.count_trends().first()["count"] == 7
    assert sorted(tuple(b.event.price for b in row.trend) for row in rising.trends().collect()) == [
        (1.0,), (1.0, 2.0), (1.0, 2.0, 3.0), (1.0, 3.0), (2.0,), (2.0, 3.0), (3.0,)
    ]  # fmt: skip


# ------------------------------------------------------------------------------------------------------- numbers

KERNEL_ONLY = "PATTERN B+ WHERE B.x < NEXT(B).x GROUP BY g"
PLAIN = "PATTERN B+ GROUP BY g"


@pytest.mark.classic
@pytest.mark.parametrize("query", [PLAIN, KERNEL_ONLY])
def test_decimal_is_exact_up_to_its_last_bit(spark: Any, query: str) -> None:
    rows = many(spark, 126, 125, 53, 54, 1).pattern(query, time="t").count_trends().collect()
    assert {row["g"]: row["count"] for row in rows} == {
        g: Decimal(2**n - 1) for g, n in enumerate((126, 125, 53, 54, 1))
    }


@pytest.mark.parametrize("query", [PLAIN, KERNEL_ONLY, KERNEL_ONLY.replace("GROUP BY g", "AND [x2]")])
@pytest.mark.parametrize("n", more_on_classic(127, 2000))
def test_decimal_overflow_is_an_error(spark: Any, query: str, n: int) -> None:
    df = many(spark, 10, n).withColumn("x2", F.lit(1)).filter("g = 1")
    with pytest.raises(Exception, match=r"cetdsl\.errors\.CountOverflow") as failure:
        df.pattern(query, time="t").count_trends("trends").collect()
    message = readable(failure.value)
    assert "'trends'" in message
    assert "DECIMAL(38, 0)" in message
    assert "number='string'" in message
    assert "number='log2'" in message
    assert re.search(r"group \(1,?\)", message) or "GROUP BY" not in query
    if query != PLAIN:
        assert f"about 2^{n}.0" in message


def test_the_overflow_of_a_sum_names_its_type(spark: Any) -> None:
    df = many(spark, 130).withColumn("price", F.lit("2.50").cast("decimal(10,2)"))
    with pytest.raises(Exception, match=r"cetdsl\.errors\.CountOverflow") as failure:
        df.pattern(+B, time="t").aggregate(total=cet.sum(B.price)).collect()
    message = readable(failure.value)
    # Each of 130 events is in 2^129 trends.
    assert f"'total' is about 2^{129 + math.log2(130 * 2.5):.1f}" in message
    assert "does not fit DECIMAL(38, 2)" in message


@pytest.mark.parametrize("where", more_on_classic("", "WHERE B.x < NEXT(B).x"))
def test_overflow_names_the_window(spark: Any, where: str) -> None:
    df = many(spark, 400).withColumn("t", F.timestamp_seconds(F.col("t") + 86_400))
    with pytest.raises(Exception, match=r"cetdsl\.errors\.CountOverflow") as failure:
        df.pattern(f"PATTERN B+ {where} WITHIN 200 seconds SLIDE 200 seconds", time="t").count_trends().collect()
    assert "1970-01-02 00:0" in readable(failure.value)


@pytest.mark.parametrize("query", more_on_classic(KERNEL_ONLY, PLAIN))
def test_double(spark: Any, query: str) -> None:
    row = many(spark, 1000).pattern(query, time="t").count_trends(number="double").first()
    assert row["count"] == pytest.approx(2.0**1000)
    with pytest.raises(Exception, match=r"cetdsl\.errors\.CountOverflow") as failure:
        many(spark, 1100).pattern(query, time="t").count_trends(number="double").collect()
    message = readable(failure.value)
    assert "the range of doubles" in message
    assert "number='log2'" in message
    assert re.search(r"group \(0,?\)", message)


@pytest.mark.classic
def test_a_sum_of_decimals_is_a_double_up_to_the_range_of_doubles(spark: Any) -> None:
    """Its last digits are counted, of which there are a hundred times as many."""
    df = many(spark, 1012, 1100).withColumn("price", F.lit("3.25").cast("decimal(10,2)"))
    query, total = df.filter("g = 0").pattern(PLAIN, time="t"), cet.sum(B.price)
    assert query.aggregate(s=total, number="double").first()["s"] == pytest.approx(1012 * 3.25 * 2.0**1011, rel=1e-12)
    with pytest.raises(CountOverflow, match=rf"'s' is about 2\^{1099 + math.log2(1100 * 3.25):.1f}"), recovering():
        df.pattern(PLAIN, time="t").aggregate(s=total, number="double").collect()


def test_string_is_exact_at_any_size(spark: Any) -> None:
    sizes = (5000, 127, 3, 1100)
    rows = many(spark, *sizes).pattern(PLAIN, time="t").aggregate(n=cet.count(), b=cet.count(B), s=cet.sum(B.x),
                                                                  number="string").collect()  # fmt: skip
    found = {row["g"]: (row["n"], row["b"], row["s"]) for row in rows}
    for g, n in enumerate(sizes):
        # Each event is in half of the 2^n sets.
        expected = (2**n - 1, n * 2 ** (n - 1), n * (n + 1) // 2 * 2 ** (n - 1))
        assert found[g] == tuple(text_of(value) for value in expected)


@pytest.mark.classic
def test_log2(spark: Any) -> None:
    df = many(spark, 100_000, 10, 1)
    for query in (PLAIN, KERNEL_ONLY):
        answer = df.pattern(query, time="t").aggregate(n=cet.count(), b=cet.count(B), number="log2").collect()
        found = {row["g"]: row for row in answer}
        # A relative error of 1e-9 per thousand events in 2^result, which is itself out of range.
        allowed = math.log2(1 + 1e-9 * 100)
        assert abs(found[0]["n"] - 100_000) <= allowed
        assert abs(found[0]["b"] - (99_999 + math.log2(100_000))) <= allowed
        assert found[1]["n"] == pytest.approx(math.log2(1023), abs=1e-12)
        assert found[2]["n"] == 0.0


@pytest.mark.classic
@pytest.mark.parametrize("number", ["decimal", "string", "double", "log2"])
def test_average_and_extremes_far_outside_the_range_of_doubles(spark: Any, number: str) -> None:
    n = 3000
    df = many(spark, n).withColumns(
        {
            "y": F.sqrt("t") - 7,
            "d": (F.col("t") * F.lit(Decimal("0.01")) - F.lit(Decimal("3.30"))).cast("decimal(20,2)"),
            "z": F.when(F.col("t") % 3 == 0, F.col("t")),
        }
    )
    row = df.pattern(PLAIN, time="t").aggregate(
        number=number,
        x=cet.avg(B.x), y=cet.avg(B.y), d=cet.avg(B.d), z=cet.avg(B.z), length=cet.avg(cet.length()),
        vx=cet.variance(B.x), vy=cet.var_pop(B.y), vd=cet.stddev(B.d), vz=cet.stddev_pop(B.z),
        least=cet.min(B.y), most=cet.max(B.d), short=cet.min(cet.length()), long=cet.max(cet.length()),
    ).first()  # fmt: skip
    # Every event is in the same number of trends, so averages are those of the rows.
    ys = [math.sqrt(t) - 7 for t in range(1, n + 1)]
    assert row["x"] == pytest.approx((n + 1) / 2, rel=1e-9)
    assert row["y"] == pytest.approx(math.fsum(ys) / n, rel=1e-9)
    assert row["d"] == pytest.approx((n + 1) / 200 - 3.3, rel=1e-9)
    assert row["z"] == pytest.approx(1501.5, rel=1e-9)
    assert row["length"] == pytest.approx(n / 2, rel=1e-9)
    # With so many values, those of a sample have the variance of the population.
    assert row["vx"] == pytest.approx((n * n - 1) / 12, rel=1e-9)
    assert row["vy"] == pytest.approx(statistics.pvariance(ys), rel=1e-9)
    assert row["vd"] == pytest.approx(math.sqrt((n * n - 1) / 12) / 100, rel=1e-9)
    assert row["vz"] == pytest.approx(3 * math.sqrt((1000 * 1000 - 1) / 12), rel=1e-9)
    assert (row["least"], row["most"]) == (-6.0, Decimal("26.70"))
    assert (row["short"], row["long"]) == (1, n)


@pytest.mark.classic
def test_sums_that_cancel_out_stay_exact(spark: Any) -> None:
    df = many(spark, 120).withColumn("x", F.when(F.col("t") % 2 == 0, F.col("t")).otherwise(-F.col("t")))
    row = df.pattern("PATTERN B+", time="t").aggregate(s=cet.sum(B.x), n=cet.count(), a=cet.avg(B.x)).first()
    assert row["s"] == Decimal(60 * 2**119)
    assert row["n"] == 2**120 - 1
    assert row["a"] == pytest.approx(float(Fraction(60 * 2**119, 120 * 2**119)), rel=1e-12)


# ------------------------------------------------------------------------------------------- published queries


def moments(minutes: list[float]) -> list[datetime.datetime]:
    start = datetime.datetime(2024, 3, 1, 8, 58, tzinfo=UTC)
    return [start + datetime.timedelta(minutes=m) for m in minutes]


def typed_rows(kinds: str, minutes: list[float], **columns: list[Any]) -> list[dict[str, Any]]:
    rows = []
    for number, (kind, time) in enumerate(zip(kinds.split(), moments(minutes), strict=True)):
        rows.append({"ts": time, "kind": kind, **{name: values[number] for name, values in columns.items()}})
    return rows


CHECKS = (
    typed_rows(
        "Check Check Check Check", [0, 3, 8, 2000],
        type=["notcovered"] * 3 + ["covered"], source=["p", "q", "r", "q"], destination=["q", "r", "q", "p"],
    ),
    "ts timestamp, kind string, type string, source string, destination string",
)  # fmt: skip
HEART = (
    typed_rows(
        "Activity Activity Activity Activity Activity", [0, 1, 1, 2, 4],
        personID=[1, 1, 2, 1, 1], rate=[50.0, 101.0, 120.0, 103.0, 99.0],
        type=["active", "passive", "passive", "passive", "passive"],
    ),
    "ts timestamp, kind string, personID int, rate double, type string",
)  # fmt: skip
STOCKS = (
    typed_rows("Stock Stock Stock Stock Stock", [0, 10, 20, 35, 50], companyID=[1, 1, 2, 1, 1],
               price=[5.0, 6.0, 5.0, 5.5, 7.0]),
    "ts timestamp, kind string, companyID int, price double",
)  # fmt: skip
LOWER_CHECKS = (
    typed_rows("check check check check", [0, 30, 60, 90], type=["not covered"] * 4, src=["a", "b", "a", "c"],
               dest=["b", "a", "c", None]),
    "ts timestamp, kind string, type string, src string, dest string",
)  # fmt: skip
LOWER_STOCKS = (
    typed_rows("stock stock stock stock", [0, 5, 10, 15], id=[1, 1, 1, 2], price=[10.0, 10.4, 11.0, 30.0]),
    "ts timestamp, kind string, id int, price double",
)
PERSONS = (
    typed_rows("A B C A C", [0, 1, 2, 3, 4], person_id=[1, 1, 2, 2, 1]),
    "ts timestamp, kind string, person_id int",
)
TRIPS = (
    typed_rows(
        "Request Travel Travel Pickup Travel Request", [0, 1, 2, 9, 3, 4],
        driver=[1, 1, 1, 2, 1, 2], rider=[7, 7, 7, 7, 7, 7], district=["n", "n", "n", "n", "n", "s"],
        duration=[0, 5, 6, 0, 7, 0], speed=[0.0, 30.5, 20.0, 0.0, 10.0, 0.0],
    ),
    "ts timestamp, kind string, driver int, rider int, district string, duration int, speed double",
)  # fmt: skip
LETTERS = (typed_rows("A B D A B C D E C E", [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]), "ts timestamp, kind string")

PUBLISHED = [
    ("PATTERN Check+ c[]  WHERE c.type = 'notcovered' AND c.destination = NEXT(c).source  "
     "WITHIN 1 day SLIDE 10 minutes", CHECKS),
    ("PATTERN SEQ(Activity a, Activity+ b[])  WHERE [personID] AND b.rate < NEXT(b).rate AND a.rate*2 < b.rate "
     "AND b.type = 'passive'  WITHIN 10 minutes SLIDE 1 minute", HEART),
    ("PATTERN Stock+ s[]  WHERE [companyID] AND s.price < NEXT(s).price  WITHIN 1 hour SLIDE 30 minutes", STOCKS),
    ("PATTERN check + c[ ]  WHERE c.type = 'not covered' AND c[i].src = c[i - 1].dest  WITHIN 1 week SLIDE 1 day",
     LOWER_CHECKS),
    ("PATTERN stock + s[ ]  WHERE [id] AND s[i].price > 1.05 * s[i - 1].price  WITHIN 60 min SLIDE 10 min",
     LOWER_STOCKS),
    ("PATTERN SEQ (A a, B b, C c)  WHERE ((a.person_id = b.person_id) ^ (b.person_id = c.person_id))  "
     "WITHIN 10 minutes.", PERSONS),
    ("RETURN COUNT(*), SUM(T.duration), AVG(T.speed)  PATTERN SEQ(Request R, Travel T+, NOT Pickup P)  "
     "WHERE [driver, rider]  GROUPBY district  WITHIN 30 min SLIDE 5 min", TRIPS),
    ("PATTERN SEQ{A, B, !C, D}  WITHIN 20 min", LETTERS),
    ("PATTERN AND{SEQ{A, B}, SEQ{C, OR{D, E}}}  WITHIN 20 min", LETTERS),
    ("PATTERN (SEQ(A, B+))+  WITHIN 15 min SLIDE 5 min", LETTERS),
]  # fmt: skip


@pytest.mark.parametrize(("text", "data"), more_on_classic(*PUBLISHED))
def test_published_queries_run(spark: Any, text: str, data: tuple[list[dict[str, Any]], str]) -> None:
    rows, schema = data
    df = spark.createDataFrame([tuple(row.values()) for row in rows], schema)
    asked = df.pattern(text, time="ts", type="kind")
    query: Query = asked.query
    if not query.returning:
        answer = asked.aggregate(count=cet.count(), long=cet.avg(cet.length()))
        wanted = {"count": cet.count(), "long": cet.avg(cet.length())}
        aggregates = {name: cet.frontend.terms.to_expr(term) for name, term in wanted.items()}
    else:
        answer = asked.aggregate()
        aggregates = {item.output_name: item.aggregate for item in query.returning}
    expected = reference.aggregate(query, rows, aggregates, time="ts", type="kind")
    assert expected
    if "window" in answer.columns:
        # As whole numbers, so that no time zone of this machine comes in between.
        bounds = [F.unix_micros(f"window.{side}").alias(side) for side in ("start", "end")]
        answer = answer.select("*", *bounds).drop("window")
    found = {}
    for row in answer.collect():
        values = row.asDict()
        window = (values.pop("start"), values.pop("end")) if "start" in values else None
        key = tuple(values.pop(name) for name in query.group_by)
        found[key, window] = values
    micros = {
        (group, window and tuple(reference._ticks(bound) for bound in window)): values
        for (group, window), values in expected.items()
    }
    assert set(found) == set(micros)
    for key, values in micros.items():
        for name, value in values.items():
            assert reference.same_value(found[key][name], value), (key, name)
    assert sum(int(v["count"]) for v in found.values()) == _listed(asked)


def _listed(asked: Any) -> int:
    return len(asked.trends(columns=["ts"]).collect())


#: Query Q1 of Poppe et al. over the stream of their figure 2, with a withdrawal, and of Yu et al. over that of theirs.
KITING = {
    "SIGMOD'17": (
        PUBLISHED[0][0],
        typed_rows(
            "Check Check Withdrawal Check Check Check Check Check", [1, 2, 3, 4, 5, 6, 7, 8],
            type=["notcovered"] * 7 + ["covered"],
            source=["A", "B", "A", "B", "A", "A", "D", "E"], destination=["B", "C", "B", "A", "D", "C", "E", "F"],
        ),
        {(1, 2), (1, 4, 5, 7), (1, 4, 6)},
    ),
    "ICPP'21": (
        PUBLISHED[3][0],
        typed_rows(
            "check check check check check check check", [1, 2, 3, 4, 5, 6, 7], type=["not covered"] * 6 + ["covered"],
            src=["A", "B", "B", "A", "A", "C", "B"], dest=["B", "C", "A", "B", "C", "B", "A"],
        ),
        {(1, 2, 6), (1, 3, 5, 6), (1, 3, 4)},
    ),
}  # fmt: skip


@pytest.mark.classic
@pytest.mark.parametrize("completeness", ["maximal", "ends"])
@pytest.mark.parametrize("paper", KITING)
def test_published_complete_trends(spark: Any, paper: str, completeness: str) -> None:
    """The trends of the paper in each window that holds all events, and those of the reference in all others."""
    text, rows, published = KITING[paper]
    rows = [{**row, "n": number} for number, row in enumerate(rows, 1)]
    asked = spark.createDataFrame(rows).pattern(text, time="ts", type="kind")
    answer = asked.complete_trends(completeness, columns=["n"])
    found: dict[Any, set[Any]] = {}
    for row in answer.select(F.unix_micros("window.start").alias("start"), "trend.event.n").collect():
        assert tuple(row.n) not in found.setdefault(row.start, set()), "a trend twice"
        found[row.start].add(tuple(row.n))
    expected = reference.complete_trends(asked.query, rows, completeness, time="ts", type="kind")
    assert found == {
        reference._ticks(window[0]): {tuple(event + 1 for event, _ in trend) for trend in trends}
        for (_, window, _), trends in expected.items()
    }
    times = [reference._ticks(row["ts"]) for row in rows]
    length = next(reference._ticks(window[1]) - reference._ticks(window[0]) for _, window, _ in expected)
    whole = [trends for start, trends in found.items() if start <= times[0] and times[-1] < start + length]
    assert len(whole) >= 6
    assert all(trends == published for trends in whole)


@pytest.mark.classic
def test_published_heart_rates_need_no_graph_of_each_first_event(spark: Any) -> None:
    """Rates that rise are all above a bound if the first of them is, so one graph lists and one pass counts."""
    text, (rows, schema) = PUBLISHED[1]
    asked = spark.createDataFrame([tuple(row.values()) for row in rows], schema).pattern(text, time="ts", type="kind")
    for plan in (
        plan_complete(asked._complete("maximal")).plan,
        plan_complete(CountRequest(asked._complete("maximal"), "n", "decimal")).plan,
        asked._decide((Returned(COUNT),), "decimal", "final").plan,
    ):
        [query] = {node.spec.query for node in plan.walk() if isinstance(node, (BuildGraph, Propagate))}
        assert query.pivot < 0
        assert not query.pairs
    assert "one per event" not in asked.explain("complete").text
    assert "fixed: the event bound to" not in asked.explain("physical").text
