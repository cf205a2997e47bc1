"""watch() shows every micro-batch once, with Spark's own figures, and ends when the stream does."""

from __future__ import annotations

import json
import random
import re
import sys
import types
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Observation
from pyspark.sql import functions as F
from test_streaming import (
    BEGIN,
    DELAY,
    SECOND,
    Live,
    Row,
    _few_tasks,  # noqa: F401 - a fixture of all tests here
    at,
)

import cetdsl as cet
from cetdsl import errors
from cetdsl.execution.observed import tallied
from cetdsl.ir.parcels import TALLIED
from cetdsl.kernels.wire.parcels import oldest_apart

WITHIN = "PATTERN SEQ(A, B+) GROUP BY case WITHIN 10 seconds SLIDE 10 seconds"
HEAD = (
    "trigger | events | late | live events | live keys | live rows | live bytes | rows out | decisions | seconds | "
    "watermark"
)


@pytest.fixture
def live(spark: Any, tmp_path: Path) -> Live:
    """Micro-batches of which the third closes a window that two events of the fourth come too late for."""
    found = Live(
        spark,
        tmp_path,
        [
            [at(1, 0, "A"), at(2, 0, "B"), at(3, 1, "A")],
            [at(11 + DELAY, 2, "A")],
            [at(12 + DELAY, 2, "A")],
            [at(4, 0, "B"), at(5, 1, "B")],
        ],
    )
    found.arrive()
    return found


def started(live: Live, pattern: str = WITHIN, **columns: Any) -> Any:
    answer = live.events.pattern(pattern, time="t").count_trends()
    writer = answer.select("*", *(term.alias(name) for name, term in columns.items())).writeStream.format("parquet")
    checkpoint = str(live.folder / "checkpoint")
    return writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start(str(live.folder / "out"))


def test_each_micro_batch_is_shown_once_with_what_spark_tells(live: Live, capsys: pytest.CaptureFixture[str]) -> None:
    running = started(live)
    cet.watch(running, every=0.2)
    assert not running.isActive
    head, *lines = (line.split() for line in capsys.readouterr().out.splitlines())
    assert head == HEAD.replace(" | ", " ").split()
    told = {line[0]: line for line in lines}
    assert list(told) == [str(number) for number in range(len(lines))]
    events, late, alive, keys, rows, given, decisions = (
        [line[place] for line in lines] for place in (1, 2, 3, 4, 5, 7, 8)
    )
    assert events[:5] == ["3", "1", "1", "2", "1"]
    assert late[:5] == ["0", "0", "0", "2", "0"]
    # The second trigger's watermark is that of the first, and the event of the last one is bound by no variable.
    assert alive == ["3", "4", "2", "2", "2", "0"]
    # Two keys in the first window, and a third in the second one.
    assert keys == ["2", "3", "1", "1", "1", "0"]
    assert rows[0] != rows[-1] == "0"
    assert sum(map(int, given)) == 1
    assert set(decisions) == {"-"}
    assert told["1"][-1] == (BEGIN + 3 * SECOND - DELAY * SECOND).isoformat(timespec="milliseconds") + "Z"


@pytest.mark.classic
def test_decisions_on_sharing_are_those_of_a_batch(spark: Any, live: Live, capsys: pytest.CaptureFixture[str]) -> None:
    over = "GROUP BY case WITHIN 10 seconds SLIDE 10 seconds"
    queries = {name: f"RETURN COUNT(*) AS n PATTERN SEQ({name}, B+) {over}" for name in "AD"}
    counts = live.events.patterns(queries, time="t").aggregate()
    writer = counts.writeStream.format("parquet").option("checkpointLocation", str(live.folder / "checkpoint"))
    cet.watch(writer.trigger(availableNow=True).start(str(live.folder / "out")))
    told = [int(line.split()[8]) for line in capsys.readouterr().out.splitlines()[1:]]
    # A trigger decides over the events of the windows that it closes.
    first, *second = live.batches[:3]

    def decided(rows: list[Row]) -> int:
        events = spark.createDataFrame(pa.Table.from_pylist(rows).to_pandas())
        return sum(row.decisions for row in events.patterns(queries, time="t").metrics().collect())

    assert told == [0, 0, decided(first), 0, 0, decided([row for rows in second for row in rows])]
    assert told[2] > 0


@pytest.mark.classic
def test_trends_given_at_once_are_counted_once(spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those that were given before are listed anew with each event of their window, and not given again."""
    live = Live(spark, tmp_path, [[at(1, 0, "A"), at(2, 0, "B")], [at(3, 0, "B")], [at(4, 0, "B")]])
    live.arrive()
    asked = live.events.pattern("PATTERN SEQ(A, B) GROUP BY case WITHIN 10 seconds SLIDE 10 seconds", time="t")
    writer = asked.trends(emit="eager").writeStream.outputMode("update").format("memory").queryName("given_at_once")
    cet.watch(writer.trigger(availableNow=True).start())
    assert [line.split()[7] for line in capsys.readouterr().out.splitlines()[1:4]] == ["1", "1", "1"]


def test_a_failure_of_the_stream_is_raised_after_what_went_before_it(
    live: Live, capsys: pytest.CaptureFixture[str]
) -> None:
    fails = F.when(F.col("window.start") == BEGIN, F.raise_error(F.lit("no such day"))).cast("int")
    with pytest.raises(Exception, match="no such day"):
        cet.watch(started(live, x=fails), every=0.1)
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()][:3] == ["trigger", "0", "1"]


def test_errors_of_cetdsl_are_its_own(spark: Any, tmp_path: Path) -> None:
    live = Live(spark, tmp_path, [[{"id": 1, "t": None, "type": "A", "case": 0}]])
    live.arrive()
    with pytest.raises(errors.NullTime, match="the time column 't' is NULL"):
        cet.watch(started(live), every=0.1)


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a notebook that runs this is given to show, one page after the other."""
    shown: list[str] = []
    display = types.ModuleType("IPython.display")
    display.HTML = str  # type: ignore[attr-defined]
    handle = types.SimpleNamespace(update=shown.append)
    display.display = lambda page, display_id: shown.append(page) or handle  # type: ignore[attr-defined]
    package = types.ModuleType("IPython")
    package.get_ipython = type("ZMQInteractiveShell", (), {})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return shown


def test_parts_of_windows_are_added_up(spark: Any) -> None:
    """Those of many windows, too, which several tasks of a micro-batch tell of; what is late is among the oldest."""
    draw = random.Random(5)
    for windows in (0, 1, TALLIED, TALLIED + 1, 3000):
        parts = [(start, draw.randrange(9), None) for start in range(windows) for _ in range(draw.randrange(1, 4))]
        draw.shuffle(parts)
        rows = spark.createDataFrame([*parts, (1, 1, b"events")], "first bigint, events bigint, body binary")
        seen = Observation()
        rows.observe(seen, tallied("first * 10", "body IS NULL")).write.format("noop").mode("append").save()
        whole: Counter[int] = Counter()
        for start, events, _ in parts:
            whole[10 * start] += events
        expected = [{"end": end, "events": events} for end, events in oldest_apart(sorted(whole.items()))]
        assert json.loads(seen.get["ends"]) == expected


def test_a_notebook_gets_one_table(live: Live, notebook: list[str]) -> None:
    cet.watch(started(live))
    assert notebook[0].startswith("<table><thead><tr><th>trigger</th><th>events</th>")
    assert "<td>" not in notebook[0]
    assert notebook[-1].count("<tr>") >= 5
    assert "<tr><td>0</td><td>3</td><td>0</td>" in notebook[-1]


@pytest.mark.classic
def test_a_notebook_keeps_the_last_lines(live: Live, notebook: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cetdsl.frontend.watch._LINES_OF_NOTEBOOK", 2)
    running = started(live)
    cet.watch(running)
    last = running.recentProgress[-1]["batchId"]
    pages = [re.findall(r"<tr><td>(\d+)</td>", page) for page in notebook]
    assert pages == [[str(n) for n in range(max(0, end - 2), end)] for end in range(last + 2)]


def test_what_cannot_be_watched(live: Live) -> None:
    with pytest.raises(errors.InvalidNode, match=r"takes a running stream(.|\n)*hint: .*start\(\)"):
        cet.watch(live.events)  # type: ignore[arg-type]
    running = started(live)
    with pytest.raises(errors.InvalidNode, match="every=0 is no time to wait"):
        cet.watch(running, every=0)
    running.awaitTermination()
