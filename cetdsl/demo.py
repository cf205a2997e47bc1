"""The demo: aircraft whose departure delay keeps growing within a day, on a year of real flights."""

from __future__ import annotations

import csv
import io
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from pyspark.sql import DataFrame, Row, SparkSession
from typing_extensions import Self

import cetdsl as cet
from cetdsl.datasets import flights
from cetdsl.errors import CommandLineError
from cetdsl.tables import table

#: Three or more departures of one aircraft on one day, each with a longer delay than the one before.
GROWING_DELAYS = """\
RETURN COUNT(*) AS trends, MAX(LENGTH) AS longest, MAX(f.dep_delay) AS worst_delay
PATTERN Flight{3,} f[]
WHERE [tailnum] AND f.tailnum IS NOT NULL AND f.dep_delay < NEXT(f).dep_delay
GROUP BY carrier
WITHIN 1 day SLIDE 1 day"""

#: The query for the longest of these trends, which are not only counted but listed.
LONGEST = GROWING_DELAYS.replace("{3,}", "{4,}")

_ROWS = 10


def run_demo(start: Callable[[], AbstractContextManager[SparkSession]], output: str | None = None) -> None:
    """Rank carriers' days by their growing delays, list the longest trends, and explain how that was computed.

    ``start`` gives the Spark session as a context manager. ``output`` is a folder for the full answers (CSV) and the
    explanation (text); nothing is written without it.
    """
    folder = _folder(output)
    with _Progress() as progress:
        progress.step("starting Spark")
        with start() as spark:
            progress.done(f"Spark {spark.version}")
            files = _tour(spark, progress)
    if folder:
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
        print(f"wrote {', '.join(files)} to {folder}")


def _tour(spark: SparkSession, progress: _Progress) -> dict[str, str]:
    """Print the answers, and return them as texts of files, by name."""
    progress.step("loading flights")
    events = flights(spark).cache()
    progress.done(f"{events.count():,} flights that left New York City in 2013")

    bound = cet.pattern(events, GROWING_DELAYS, time="scheduled", type=None)
    print(f"\n{_indented(GROWING_DELAYS)}\n", flush=True)
    progress.step("counting trends per carrier and day")
    counts = _ranked(bound.aggregate())
    progress.done(f"{sum(row.trends for row in counts):,} trends, on {len(counts):,} of the carriers' days")
    days = ("carrier", "day", "trends", "longest", "worst delay (min)")
    ranked = [(row.carrier, f"{row.window.start:%Y-%m-%d}", *row[2:]) for row in counts]
    print(f"\nThe days with the most trends\n\n{table(days, ranked[:_ROWS])}\n", flush=True)

    progress.step("listing the longest trends")
    trends = _longest(cet.pattern(events, LONGEST, time="scheduled", type=None))
    progress.done(f"{len(trends):,} trends of four or more flights")
    titles = ("aircraft", "carrier", "day", "departures: route, scheduled time, delay (min)")
    listed = [_described(row) for row in trends]
    print(f"\nThe longest trends, those that grew most first\n\n{table(titles, listed[:_ROWS])}\n", flush=True)

    print(f"How the counts were computed\n\n{_indented(str(bound.explain('physical')))}\n", flush=True)
    return {
        "growing_delays.csv": _csv(days, ranked),
        "longest_trends.csv": _csv(titles, listed),
        "explain.txt": f"{bound.explain()}\n",
    }


def _ranked(counts: DataFrame) -> list[Row]:
    return sorted(counts.collect(), key=lambda row: (-row.trends, -row.longest, row.carrier, row.window.start))


def _longest(bound: cet.PatternFrame) -> list[Row]:
    """The trends, sorted by how many flights they have, then by how much the delay grew, the largest first."""
    columns = ["scheduled", "tailnum", "origin", "dest", "dep_delay"]

    def rank(row: Row) -> tuple[object, ...]:
        first, last = row.trend[0].event, row.trend[-1].event
        return -len(row.trend), first.dep_delay - last.dep_delay, first.scheduled, first.tailnum

    return sorted(bound.trends(columns=columns).collect(), key=rank)


def _described(row: Row) -> tuple[str, ...]:
    flights = [binding.event for binding in row.trend]
    departures = [f"{flight.origin}-{flight.dest} {flight.scheduled:%H:%M} {flight.dep_delay:+}" for flight in flights]
    return flights[0].tailnum, row.carrier, f"{flights[0].scheduled:%Y-%m-%d}", "  ".join(departures)


def _folder(output: str | None) -> Path | None:
    if output is None:
        return None
    folder = Path(output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandLineError(f"cannot write to {output!r}: {error}") from error
    return folder


def _csv(names: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([names, *rows])
    return file.getvalue()


def _indented(text: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in text.splitlines())


class _Progress:
    """Writes a line to stderr for each step: on a terminal the seconds as they pass, and in the end its result."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        # A descriptor of its own, because the usual one is redirected while Spark starts.
        self._screen = os.fdopen(os.dup(sys.stderr.fileno()), "w") if self._live else sys.stderr
        self._what = ""
        self._since = time.perf_counter()
        self._ended = threading.Event()
        self._ticker = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Self:
        if self._live:
            self._ticker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._what = ""
        self._ended.set()
        if self._live:
            self._ticker.join()
            self._screen.close()

    def step(self, what: str) -> None:
        """Begin a step."""
        self._since = time.perf_counter()
        self._what = what

    def done(self, result: str) -> None:
        """End the step with its result."""
        what, self._what = self._what, ""
        self._say(f"{what}: {result}\n")

    def _tick(self) -> None:
        while not self._ended.wait(0.2):
            if self._what:
                self._say(f"{self._what} ...")

    def _say(self, text: str) -> None:
        # On a terminal, back to the start of the line, and clear it.
        back = "\r\033[K" if self._live else ""
        print(f"{back}[{time.perf_counter() - self._since:5.1f} s] {text}", end="", file=self._screen, flush=True)
