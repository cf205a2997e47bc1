"""``timeline()``: its data are plain trends, and its figure has each event of each trend once."""

from __future__ import annotations

import datetime
import re
import subprocess
import sys
from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import Any

import attrs
import generators
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from modes import settings as session_settings
from test_browser import BROWSER
from test_engines import ALL, SIMPLE, by_case, judge_of, property_of

import cetdsl as cet
from cetdsl.errors import InvalidNode, MissingDependency, StreamingNotSupported, UnsupportedQuery
from cetdsl.explain.charts import COLOURS
from cetdsl.explain.timeline import Mark, Timeline, TimelineRow, figure_of
from cetdsl.frontend.timeline import trends_over_time

pytestmark = pytest.mark.simple_plans
COLUMNS = ("id", "x", "y", "name")


@pytest.fixture(scope="module")
def stream(spark: Any) -> Any:
    return judge_of(spark, generators.stacked(700, 24)).df


def text(value: Any) -> str | None:
    """A value as Spark writes it, but for doubles, which read back as what they were."""
    return None if value is None else repr(float(value)) if isinstance(value, float) else str(value)


def drawn(timeline: Timeline) -> list[Any]:
    """The trends of a timeline: keys, window, and bindings with the time and the texts."""
    place = timeline.columns.index("y")

    def texts(mark: Mark) -> tuple[str | None, ...]:
        found = list(mark.texts)
        found[place] = text(None if found[place] is None else float(str(found[place])))
        return tuple(found)

    return [
        (row.keys, row.window, tuple((mark.variable, mark.time, mark.shown, texts(mark)) for mark in row.marks))
        for row in timeline.rows
    ]


def plain(rows: list[Any], slides: bool) -> list[Any]:
    """The same of the rows of ``trends()``."""
    found = []
    for row in rows:
        keys = tuple(row)[: -2 if slides else -1]
        events = [(bound.variable, bound.event) for bound in row.trend]
        bindings = tuple((name, e.t, str(e.t), tuple(text(e[column]) for column in COLUMNS)) for name, e in events)
        found.append((tuple(map(text, keys)), tuple(row.window) if slides else None, bindings))
    return found


def check(stream: Any, case: generators.Case) -> None:
    query = by_case(case.query)
    bound = stream.pattern(query, time="t", tie_break=case.tie_break)
    try:
        trends = bound.trends(columns=[*COLUMNS, "t"])
    except UnsupportedQuery:
        with pytest.raises(UnsupportedQuery):
            trends_over_time(bound)
        return
    expected = Counter(plain(trends.collect(), "window" in trends.columns))
    whole = trends_over_time(bound, 10_000_000, COLUMNS)
    assert Counter(drawn(whole)) == expected
    assert whole.keys == tuple(name for name in trends.columns if name not in ("window", "trend"))
    # In order, and together by key and window.
    order = [(row.keys, row.window) for row in whole.rows]
    assert len(list(groupby(order))) == len(set(order))
    assert all([mark.time for mark in row.marks] == sorted(mark.time for mark in row.marks) for row in whole.rows)
    if expected.total() > 3:
        few = drawn(trends_over_time(bound, 3, COLUMNS))
        assert len(few) == 3
        assert not Counter(few) - expected


@pytest.mark.classic
@property_of(4, SIMPLE)
def test_data_are_those_of_trends(stream: Any, case: generators.Case, number: str) -> None:
    check(stream, case)


@pytest.mark.classic
@property_of(8, ALL)
def test_data_are_those_of_trends_of_any_query(stream: Any, case: generators.Case, number: str) -> None:
    check(stream, case)


# The figure ---------------------------------------------------------------------------------------------------------

TEXTS = st.one_of(st.none(), st.text(max_size=5), st.sampled_from(["<b>", "%{x}", "&amp;", "x" * 300]))


@st.composite
def timelines(draw: Any) -> Timeline:
    """Any timeline, sorted by keys and windows as those of trends are."""
    clock = draw(st.booleans())
    moments = st.datetimes(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31)) if clock else st.integers(0, 9)
    variables = tuple(draw(st.lists(st.sampled_from("ABCDEFGHIJ<"), min_size=1, max_size=9, unique=True)))
    slides, keys = draw(st.booleans()), draw(st.integers(0, 2))
    rows = []
    for _ in range(draw(st.integers(0, 6))):
        window = tuple(sorted([draw(moments), draw(moments)])) if slides else None
        times = sorted(draw(st.lists(moments, min_size=1, max_size=5)))
        marks = tuple(Mark(draw(st.sampled_from(variables)), at, str(at), (draw(TEXTS),)) for at in times)
        rows.append(TimelineRow(tuple(draw(st.sampled_from(["u", "v", None])) for _ in range(keys)), window, marks))
    rows.sort(key=lambda row: (tuple(map(str, row.keys)), row.window or ()))
    return Timeline(tuple(rows), variables, ("k", "<k>")[:keys], ("x",), "t", "UTC" if clock else None)


def readable(shown: str) -> str:
    """What Plotly shows of a text."""
    for sign, mark in (("<", "&lt;"), (">", "&gt;"), ("&", "&amp;")):
        shown = shown.replace(mark, sign)
    return shown


@settings(max_examples=150, deadline=None)
@given(timeline=timelines())
def test_every_event_of_every_trend_is_a_mark(timeline: Timeline) -> None:
    pytest.importorskip("plotly")
    figure = figure_of(timeline)
    figure.to_json()  # Plotly takes all of it
    lines, *traces = figure.data or [None]
    found = Counter()
    for trace in traces:
        variable = readable(trace.name)
        place = timeline.variables.index(variable)
        assert trace.marker.color == COLOURS[place % len(COLOURS)]
        assert trace.hoverinfo == "text"
        for x, y, hover in zip(trace.x, trace.y, trace.hovertext, strict=True):
            assert abs(y - round(y)) <= 0.25
            found[round(y), variable, x, hover] += 1
    expected = Counter()
    for place, row in enumerate(timeline.rows):
        for mark in row.marks:
            value = "NULL" if mark.texts[0] is None else mark.texts[0]
            pairs = [(name, "NULL" if key is None else key) for name, key in zip(timeline.keys, row.keys)]
            pairs = [("t", mark.shown), *pairs, ("x", value if len(value) <= 100 else value[:100] + "…")]
            said = [f"{name} = {shown}" for name, shown in pairs]
            if row.window:
                said.append("window from {} to {}".format(*row.window))
            hover = "<br>".join(re.sub("[&<>]", lambda sign: escaped(sign[0]), each) for each in said)
            expected[place, mark.variable, mark.time, f"<b>{escaped(mark.variable)}</b><br>{hover}"] += 1
    assert found == expected
    # Marks of one trend do not hide each other, and a line leads through them.
    points = [(x, y) for trace in traces for x, y in zip(trace.x, trace.y)]
    assert len(points) == len(set(points))
    if lines is not None:
        runs = [list(run) for gap, run in groupby(zip(lines.x, lines.y), lambda point: point[0] is None) if not gap]
        assert [[x for x, _ in run] for run in runs] == [[mark.time for mark in row.marks] for row in timeline.rows]
        assert Counter(point for run in runs for point in run) == Counter(points)


def escaped(text: str) -> str:
    return {"&": "&amp;", "<": "&lt;", ">": "&gt;"}.get(text, text)


@settings(max_examples=80, deadline=None)
@given(timeline=timelines())
def test_windows_are_shaded_and_keys_are_told_apart(timeline: Timeline) -> None:
    pytest.importorskip("plotly")
    figure = figure_of(timeline)
    shades = [shape for shape in figure.layout.shapes if shape.type == "rect"]
    covered = [[(s.x0, s.x1) for s in shades if s.y0 < n < s.y1] for n in range(len(timeline.rows))]
    assert covered == [[row.window] if row.window else [] for row in timeline.rows]
    assert len(shades) == len({(row.keys, row.window) for row in timeline.rows if row.window})
    between = [shape.y0 for shape in figure.layout.shapes if shape.type == "line"]
    rows = timeline.rows
    assert between == [n - 0.5 for n in range(1, len(rows)) if rows[n].keys != rows[n - 1].keys]
    names = figure.layout.yaxis.ticktext
    assert len(names) == len(rows)
    for place, (row, name) in enumerate(zip(rows, names)):
        is_first = not place or rows[place - 1].keys != row.keys
        assert (" = " in name) == (is_first and bool(timeline.keys))
    assert bool(figure.layout.annotations) == (not rows)
    assert "may be more" not in figure.layout.title.text
    full = figure_of(attrs.evolve(timeline, limit=len(rows)))
    assert full.layout.title.text.endswith(f"(k={len(rows)}: there may be more)")


def test_timestamps_are_those_of_the_session_zone(spark: Any) -> None:
    """Keys of any name, bytes, a time column that is not asked for, and dates."""
    pytest.importorskip("plotly")
    rows = [("2024-07-01 00:30:00", "A", "u", bytearray(b"\xff")), ("2024-07-01 00:50:00", "B", "u", None)]
    df = spark.createDataFrame(rows, "at string, type string, `win``dow.` string, raw binary")
    timed = df.selectExpr("to_timestamp(concat(at, ' UTC')) AS ts", "type", "`win``dow.`", "raw").cache()
    query = cet.parse("PATTERN SEQ(A, B) WITHIN 1 hour SLIDE 1 hour").partition_by("win`dow.")
    with session_settings(spark, {"spark.sql.session.timeZone": "Asia/Kolkata"}):
        timeline = trends_over_time(timed.pattern(query, time="ts"), columns=["raw"])
        figure = cet.timeline(timed.pattern(query, time="ts"), columns=["raw"])
    hours = [datetime.datetime(2024, 7, 1, 5, 30), datetime.datetime(2024, 7, 1, 6, 30)]
    first, second = datetime.datetime(2024, 7, 1, 6, 0), datetime.datetime(2024, 7, 1, 6, 20)
    assert timeline.rows == (
        TimelineRow(
            ("u",),
            tuple(hours),
            (Mark("A", first, "2024-07-01 06:00:00", ("FF",)), Mark("B", second, "2024-07-01 06:20:00", (None,))),
        ),
    )
    assert (timeline.zone, timeline.keys, timeline.time) == ("Asia/Kolkata", ("win`dow.",), "ts")
    assert figure.layout.xaxis.title.text == "ts (Asia/Kolkata)"
    assert figure.layout.xaxis.type == "date"
    days = df.selectExpr(
        "CAST(substr(at, 1, 10) AS date) + CAST(type = 'B' AS int) AS day", "type", "`win``dow.` AS window"
    )
    timeline = trends_over_time(days.pattern("PATTERN SEQ(A, B) WHERE [window]", time="day"))
    [row] = timeline.rows
    assert [mark.time for mark in row.marks] == [datetime.datetime(2024, 7, 1), datetime.datetime(2024, 7, 2)]
    assert (row.keys, row.window, timeline.zone) == (("u",), None, None)


def test_a_page_needs_no_network(spark: Any, tmp_path: Path) -> None:
    """A browser that reaches nothing draws each event once."""
    pytest.importorskip("plotly")
    df = spark.createDataFrame(
        [(1, "A", "u"), (2, "B", "u"), (3, "B", "u"), (7, "A", "v"), (8, "B", "v")], "t int, type string, k string"
    )
    bound = df.pattern("PATTERN SEQ(A, B) WHERE [k] WITHIN 10 SLIDE 10", time="t")
    page = tmp_path / "trends.html"
    cet.timeline(bound).write_html(page, include_plotlyjs=True)
    assert not re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=", page.read_text("utf-8"))
    if BROWSER is None:
        pytest.skip("there is no Chromium on this machine")
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom"]
    command += ["--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={tmp_path / 'profile'}", page.as_uri()]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
    assert len(re.findall(r'<path class="point"', dom)) == 6  # those of the legend are of another class
    # Zooming is offered, and sending the events to Plotly's makers is not.
    buttons = re.findall(r'class="modebar-btn[^>]*?data-title="([^"]*)"', dom)
    assert "Zoom" in buttons
    assert not [button for button in buttons if re.search("share|cloud|edit in", button, re.IGNORECASE)]


@pytest.mark.classic
def test_what_cannot_be_drawn_is_refused(spark: Any) -> None:
    pytest.importorskip("plotly")
    bound = spark.createDataFrame([(1, "A")], "t int, type string").pattern("PATTERN A", time="t")
    with pytest.raises(InvalidNode, match=r"bound to a DataFrame, not of 'PATTERN A'\n.*cet\.timeline\(df\.pattern"):
        cet.timeline("PATTERN A")
    with pytest.raises(InvalidNode, match="k must be a number of trends, at least 1, not 0"):
        cet.timeline(bound, 0)
    events = spark.readStream.format("rate").load().withWatermark("timestamp", "1 second")
    streaming = events.pattern("PATTERN SEQ(A a, B b) WITHIN 1 second SLIDE 1 second", time="timestamp", type=None)
    with pytest.raises(StreamingNotSupported, match="a timeline of its trends"):
        cet.timeline(streaming)
    empty = cet.timeline(spark.createDataFrame([], "t int, type string").pattern("PATTERN A", time="t"))
    assert [note.text for note in empty.layout.annotations] == ["The query has no trend: diagnose() says why."]


def test_plotly_is_an_extra(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its absence is noticed before Spark is asked for anything; the data need none of it."""
    for name in [name for name in sys.modules if name.split(".")[0] == "plotly"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "plotly", None)
    bound = spark.createDataFrame([(1, "A")], "t int, type string").pattern("PATTERN A", time="t")
    with monkeypatch.context() as patched:
        patched.setattr(type(bound), "trends", lambda *_, **__: pytest.fail("Spark was asked"))
        with pytest.raises(MissingDependency, match=r"plotly(.|\n)*pip install 'cetdsl\[plot\]'"):
            cet.timeline(bound)
    assert len(trends_over_time(bound).rows) == 1
