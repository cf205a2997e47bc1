"""Day windows, and others, where clocks change, and at extreme times; the reference judges in microseconds."""

from __future__ import annotations

from random import Random
from typing import Any

import attrs
import generators
import modes
from pyspark.sql import functions as F
from test_engines import NUMBERS, Judge

from cetdsl.errors import TimeOutOfRange, recover
from cetdsl.frontend.sase import parse
from cetdsl.ir.windowing import FIRST_MICROSECOND, LAST_MICROSECOND
from cetdsl.pattern.query import Window
from cetdsl.pattern.spans import Span
from cetdsl.pattern.text import unparse
from fuzz.cases import Kind, Streams, within

SECOND, HOUR, DAY = 1_000_000, 3_600_000_000, 86_400_000_000
#: Zones whose clocks change by an hour, by half an hour, by a day, and by odd minutes before 1900.
ZONES = ("UTC", "America/New_York", "Europe/London", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kathmandu")
ZONES += ("America/Sao_Paulo", "Africa/Monrovia", "Asia/Tehran", "+14:00", "-12:00")
#: Seconds since 1970 about which something happens: changes of clocks, ends of years, ends of what can be expressed.
MOMENTS = (0, 1_710_054_000, 1_730_610_000, 1_711_846_800, 1_712_415_600, 1_325_203_200, 1_541_300_400, -2_717_650_800)
MOMENTS += (
    -2_208_988_800,
    951_782_400,
    -12_219_292_800,
    1_704_067_200,
    68_000_000_000,
    -62_135_596_800,
    253_402_300_799,
)
LENGTHS = (1, 1_000, SECOND, 7 * 60 * SECOND, HOUR, 5 * HOUR, DAY, 2 * DAY, 7 * DAY, 30 * DAY)
KINDS_OF_TIME = ("timestamp", "timestamp_ntz", "date")
_EPOCH = "TIMESTAMP_NTZ '1970-01-01 00:00:00'"


class WindowJudge(Judge):
    """Streams whose time column is no integer; windows are compared in microseconds."""

    def __init__(self, spark: Any, rows: list[dict[str, Any]], kind: str) -> None:
        time = f"timestampadd(MICROSECOND, t, {_EPOCH})"
        if kind == "timestamp":
            time = "timestamp_micros(t)"
        elif kind == "date":
            time = f"CAST({time} AS date)"
        df = generators.frame(spark, rows).withColumn("t", F.expr(time)).cache()
        self.micros = f"timestampdiff(MICROSECOND, {_EPOCH}, %s)" if kind == "timestamp_ntz" else "unix_micros(%s)"
        # A date is the timestamp of its midnight, as Spark casts it.
        cast = "timestamp" if kind == "date" else kind
        times = df.select("id", F.expr(self.micros % f"CAST(t AS {cast})").alias("t")).collect()
        found = {row.id: row.t for row in times}
        super().__init__([{**row, "t": found[row["id"]]} for row in rows], df)

    def strategies(self, query: Any, ties: tuple[str, ...], number: str) -> dict[str, Any]:
        answers = super().strategies(query, ties, number)
        if query.window is None or query.window.slide is None:
            return answers
        bounds = (F.expr(self.micros % f"window.{side}").alias(side) for side in ("start", "end"))
        window = F.struct(*bounds)
        return {name: answer.withColumn("window", window) for name, answer in answers.items()}


@attrs.frozen
class Windowed(Streams):
    """A query over streams whose times, in microseconds, become timestamps or dates in a zone."""

    ties: tuple[str, ...]
    number: str
    kind: str
    zone: str

    def check(self, spark: Any = None) -> None:
        query = parse(self.text)
        with within(60, 300), modes.settings(spark, {**modes.SIMPLE_PLANS, "spark.sql.session.timeZone": self.zone}):
            judge = WindowJudge(spark, self.numbered, self.kind)
            try:
                judge.judge(query, self.ties, self.number)
                if query.window is None or query.window.slide is None:
                    judge.judge_trends(query, self.ties)
            except Exception as error:
                if not isinstance(recover(error), TimeOutOfRange) or not self.far(judge.rows, query):
                    raise
            finally:
                judge.df.unpersist()

    def far(self, rows: list[dict[str, Any]], query: Any) -> bool:
        """Whether a time or a window of it may be beyond what can be expressed."""
        reach = 2 * DAY + (query.window.length.amount + query.window.slide.amount if query.window else 0)
        low, high = FIRST_MICROSECOND + reach, LAST_MICROSECOND - reach
        return any(not low <= row["t"] <= high for row in rows)


def times(choose: Random, rows: list[dict[str, Any]], slide: int, kind: str) -> list[dict[str, Any]]:
    """The rows at times about one moment, many of them at bounds of windows."""
    moment = choose.choice(MOMENTS) * SECOND
    scale = choose.choice((1, SECOND, 60 * SECOND, HOUR // 2, HOUR, slide // 2 or 1, slide, DAY))
    scale = max(scale, DAY) if kind == "date" else scale
    found = []
    for row in rows:
        at = moment + row["t"] * scale + choose.choice((0, 0, 0, 1, -1, choose.randrange(scale)))
        if choose.random() < 0.2:
            at = at // slide * slide
        found.append({**row, "t": min(max(at, FIRST_MICROSECOND), LAST_MICROSECOND)})
    return found


def windowed(choose: Random) -> Windowed:
    case = generators.random_case(choose.getrandbits(40))
    streams = [case.rows, *(generators.random_stream(choose.getrandbits(40)) for _ in range(12))]
    kind, slide = choose.choice(KINDS_OF_TIME), choose.choice(LENGTHS)
    length = choose.choice((slide, 2 * slide, 3 * slide, slide // 2 or 1, slide + 1))
    window = Window(Span(length, "microsecond"), choose.choice((None, *[Span(slide, "microsecond")] * 4)))
    query = attrs.evolve(case.query, window=window)
    rows = generators.stack([times(choose, rows, slide, kind) for rows in streams])
    return Windowed(unparse(query), rows, case.tie_break, choose.choice(NUMBERS), kind, choose.choice(ZONES))


KINDS = {"windows": Kind(windowed, 1, spark=True)}
