"""Times at both ends of what can be expressed, and beyond."""

from __future__ import annotations

import datetime
import re
from typing import Any

import generators
import pytest
import test_engines
from hypothesis import given
from hypothesis import strategies as st
from modes import more_on_classic
from pyspark.sql import functions as F
from test_engines import STREAMS, Judge, judge_of

import cetdsl as cet
from cetdsl.errors import WindowError
from cetdsl.ir.windowing import FIRST_TICK, LAST_TICK, SLIDING, SPAN, Windowing, cut_into, expressible
from cetdsl.pattern.spans import Span
from cetdsl.planning.strategies.panes import any_panes

pytestmark = pytest.mark.simple_plans

#: Near both ends, so that windows still fit, and between them.
SHIFTS = (FIRST_TICK + 100, LAST_TICK - 200, -(2**61), 2**61)


@pytest.fixture(scope="module")
def judge(spark: Any) -> Judge:
    """Streams whose times are shifted far away."""
    streams = [generators.random_stream(90_000 + n) for n in range(STREAMS)]
    for number, stream in enumerate(streams):
        for row in stream:
            if row["t"] is not None:
                row["t"] += SHIFTS[number % len(SHIFTS)]
    return judge_of(spark, generators.stack(streams))


@pytest.mark.classic
def test_times_near_the_ends(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(test_engines.STRATEGIES, "panes", any_panes)
    features = generators.ALL.without("bounded_repeat", "nested_kleene", "strings", "complex_negation")
    used: set[str] = set()
    for seed in range(12):
        case = generators.random_case(95_000 + seed, features)
        used |= judge.judge(case.query, case.tie_break, "string" if seed % 2 else "double")
        judge.judge_trends(case.query, case.tie_break)
    assert {"kernel"} <= used


#: Of every kind: no window, a span, windows that overlap, that are one in two (which panes answer), with gaps.
WINDOWS = ("WITHIN 10 SLIDE 5", "", "WITHIN 10", "WITHIN 500 SLIDE 10", "WITHIN 10 SLIDE 20")


def trends(df: Any, windows: str) -> Any:
    """Counts the trends of an A and the Bs after it."""
    query = f"PATTERN SEQ(A, B+) GROUP BY g {windows}"
    return cet.pattern(df, query, time="t", type="type").count_trends(number="string")


def two_groups(spark: Any, times: list[Any], kind: str) -> Any:
    rows = [(time, each, group) for group, time in enumerate(times) for each in "AB"]
    return spark.createDataFrame(rows, f"t {kind}, type string, g int")


@pytest.mark.parametrize(
    ("time", "windows"),
    more_on_classic(
        (2**63 - 1, WINDOWS[0]),
        *((time, each) for each in WINDOWS for time in (2**63 - 1, -(2**63), 2**62, -(2**62) - 1)),
    ),
)
def test_a_time_out_of_range_is_named(spark: Any, time: int, windows: str) -> None:
    if windows.endswith("SLIDE 20") and time % 20 >= 10:
        pytest.skip("no window holds it")
    message = rf"TimeOutOfRange: the time {time}, in the time column 't', is out of range: times must be from -2\^62 to"
    with pytest.raises(Exception, match=message):
        trends(two_groups(spark, [time, 7], "bigint"), windows).collect()


@pytest.mark.classic
def test_what_no_variable_binds_may_have_any_time(spark: Any) -> None:
    far = two_groups(spark, [2**63 - 1], "bigint").withColumn("type", F.lit("C"))
    df = far.union(two_groups(spark, [0], "bigint"))
    assert trends(df, WINDOWS[0]).count() == 0


@pytest.mark.classic
@pytest.mark.parametrize("kind", more_on_classic("timestamp", "timestamp_ntz", "date"))
def test_the_first_and_the_last_year(spark: Any, kind: str) -> None:
    years = "explode(array(make_timestamp(3, 1, 1, 0, 0, 0), make_timestamp(9997, 12, 31, 23, 0, 0))) AS year"
    days = spark.range(1).selectExpr(years).selectExpr("year", "explode(array(year, year + INTERVAL 1 DAY)) AS at")
    rows = days.selectExpr(f"CAST(at AS {kind}) AS t", "IF(at = year, 'A', 'B') AS type", "year(year) AS g").cache()
    far = rows.selectExpr(f"CAST(make_timestamp(12000, 1, 1, 0, 0, 0) AS {kind}) AS t", "type", "g")
    for windows in WINDOWS[:4]:
        windows = re.sub(r"(\d+)", r"\1 days", windows)
        assert {(row.g, row["count"]) for row in trends(rows, windows).collect()} == {(3, "1"), (9997, "1")}
        with pytest.raises(Exception, match=r"TimeOutOfRange: the time \+?12000-01-01"):
            trends(far, windows).collect()


def test_a_window_beyond_the_last_year_is_an_error(spark: Any) -> None:
    df = two_groups(spark, [datetime.datetime(9999, 12, 31, 12)], "timestamp")
    with pytest.raises(Exception, match=r"TimeOutOfRange: the time 9999-12-31 12:00:00, .* all windows that hold them"):
        trends(df, "WITHIN 10 days SLIDE 5 days").collect()
    assert trends(df, "").count() == 0  # an A and a B at one time are no trend


@given(
    length=st.integers(1, 60), slide=st.integers(1, 60), first=st.integers(-200, 0), count=st.integers(150, 300)
)  # fmt: skip
def test_expressible_times_are_those_whose_windows_are(length: int, slide: int, first: int, count: int) -> None:
    last = first + count
    low, high = expressible(Windowing(SLIDING, length, slide), first, last)
    for time in range(first, last + 1):
        starts = range((time - length) // slide * slide + slide, time // slide * slide + 1, slide)
        if starts:
            fits = first <= starts[0] and starts[-1] + length <= last + 1
            assert fits == (low <= time <= high), time


@pytest.mark.parametrize("windowing", [Windowing(SLIDING, 3), Windowing(SPAN, 2**61)])
def test_time_buckets_of_all_times_are_whole_numbers_of_64_bits(windowing: Windowing) -> None:
    cut = cut_into(windowing, 8).cut
    assert cut % (windowing.slide or 1) == 0
    for time in (FIRST_TICK, LAST_TICK):
        for bound in (time - windowing.length, time + windowing.length):
            assert -(2**63) <= bound < 2**63
            assert bound // cut * cut >= -(2**63)
            assert (bound // cut + 1) * cut + windowing.slide - 1 < 2**63


@pytest.mark.parametrize(("amount", "unit"), [(2**61 + 1, "tick"), (9_999 * 366 * 86_400_000_000, "microsecond")])
def test_a_longer_window_is_refused(amount: int, unit: str) -> None:
    with pytest.raises(WindowError, match="is out of range"):
        Span(amount, unit)
