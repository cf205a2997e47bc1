"""``window_counts()``: its data are those of ``count_trends()``, and each of them is a part of one bar."""

from __future__ import annotations

import datetime
from typing import Any

import generators
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cetdsl as cet
from cetdsl.cli import main
from cetdsl.errors import InvalidNode, StreamingNotSupported
from cetdsl.explain.charts import COLOURS
from cetdsl.explain.window_counts import WindowCount, WindowCounts, figure_of_counts
from cetdsl.frontend.window_counts import counts_of_windows

pytestmark = pytest.mark.simple_plans


def test_each_window_of_each_group_is_counted(spark: Any) -> None:
    stream = generators.frame(spark, generators.stacked(5_200, 20))
    bound = stream.pattern("PATTERN SEQ(A, B+) GROUP BY k, case > 9 AS late WITHIN 5 SLIDE 2", time="t")
    drawn = counts_of_windows(bound)
    assert (drawn.keys, drawn.slide, drawn.zone) == (("k", "late"), 2, None)
    found = {(one.keys, one.window): one.trends for one in drawn.counts}
    expected = {
        ((row.k, str(row.late).lower()), tuple(row.window)): int(row[-1]) for row in bound.count_trends().collect()
    }
    assert found == expected
    assert len(found) == len(drawn.counts) > 10
    assert [one.window for one in drawn.counts] == sorted(one.window for one in drawn.counts)


def test_counts_of_any_size_are_drawn(spark: Any) -> None:
    """Python writes and reads no whole number of more than 4,300 digits."""
    events = spark.range(15_000).selectExpr("id AS t", "'B' AS type")
    drawn = counts_of_windows(events.pattern("PATTERN B+ WITHIN 15000 SLIDE 15000", time="t"))
    assert [one.trends for one in drawn.counts] == [2**15_000 - 1]
    assert "about 2.818e4515 trends" in str(figure_of_counts(drawn).data[0].hovertext)


def test_windows_are_as_clocks_show_them(spark: Any) -> None:
    begin = datetime.datetime(2024, 3, 1, 10)
    rows = [(begin + datetime.timedelta(minutes=n), "AB"[n % 2]) for n in range(6)]
    df = spark.createDataFrame(rows, "ts timestamp, type string")
    bound = df.pattern("PATTERN SEQ(A, B) WITHIN 4 minutes SLIDE 4 minutes")
    shown = {
        row.start: int(row["count"])
        for row in bound.count_trends()
        .selectExpr("date_format(window.start, 'yyyy-MM-dd HH:mm:ss') AS start", "count")
        .collect()
    }
    drawn = counts_of_windows(bound)
    assert {str(one.window[0]): one.trends for one in drawn.counts} == shown
    assert (drawn.slide, drawn.zone) == (240, "UTC")
    [bars] = figure_of_counts(drawn).data
    assert bars.width == 240_000


KEYS = st.tuples(st.sampled_from([None, "<b>", *"abcdefghij"]))
COUNTS = st.dictionaries(
    st.tuples(KEYS, st.integers(0, 9)),
    st.one_of(st.integers(1, 9), st.integers(10**20, 10**22), st.just(10**400)),
    max_size=25,
)


@given(COUNTS)
@settings(max_examples=40, deadline=None)
def test_every_count_is_a_part_of_one_bar(counts: dict[Any, int]) -> None:
    data = tuple(WindowCount(keys, (2 * n, 2 * n + 5), trends) for (keys, n), trends in counts.items())
    figure = figure_of_counts(WindowCounts(data, ("k",), 2, "t"))
    groups = len({keys for keys, _ in counts})
    assert len(figure.data) == min(groups, len(COLOURS))
    if any(trends == 10**400 for trends in counts.values()):
        assert all(0 <= y < 1400 for bars in figure.data for y in bars.y)
        return
    for n in {n for _, n in counts}:
        drawn = sum(y for bars in figure.data for x, y in zip(bars.x, bars.y, strict=True) if x == 2 * n)
        assert drawn == sum(trends for (_, m), trends in counts.items() if m == n)
    assert "<b>=" not in "".join(bars.name for bars in figure.data).replace(" ", "")


def test_only_windows_that_slide_are_drawn(spark: Any) -> None:
    df = spark.createDataFrame([(1, "A")], "t int, type string")
    for text in ("PATTERN A", "PATTERN A WITHIN 5"):
        with pytest.raises(InvalidNode, match="no windows"):
            cet.window_counts(df.pattern(text, time="t"))
    with pytest.raises(InvalidNode, match="bound to a DataFrame"):
        cet.window_counts(cet.parse("PATTERN A"))  # type: ignore[arg-type]
    rate = spark.readStream.format("rate").load().selectExpr("timestamp AS ts", "'A' AS type")
    marked = rate.withWatermark("ts", "1 second")
    with pytest.raises(StreamingNotSupported):
        cet.window_counts(marked.pattern("PATTERN A WITHIN 1 minute SLIDE 1 minute"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["PATTERN A"], "has no windows"),
        (["PATTERN A WITHIN 5", "--complete", "maximal"], "complete trends"),
        (["PATTERN A WITHIN 5 SLIDE 5", "--complete", "ends"], "no picture"),
    ],
)
def test_the_command_refuses_what_has_no_picture(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *words, "--input", "events.csv", "--html", "page.html"]) == 2
    assert message in capsys.readouterr().err
