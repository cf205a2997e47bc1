"""Scan: the events of a DataFrame that some variable of a query can bind."""

from __future__ import annotations

import attrs

from cetdsl.ir.compiled import Compiled
from cetdsl.ir.emission import EAGER, UPDATE
from cetdsl.ir.keeping import KEPT_WHOLE
from cetdsl.ir.operators import words
from cetdsl.ir.operators.operator import Operator, Step
from cetdsl.ir.operators.words import amount_of_time
from cetdsl.ir.source import Source
from cetdsl.ir.windowing import SPAN, WHOLE, has_windows, needed_by_bucket, overlap, overlaps
from cetdsl.pattern.expressions import strip
from cetdsl.pattern.query import STRICT
from cetdsl.pattern.text import quote, quote_name

#: The most variables that ``explain`` names before it only counts the rest.
_NAMED = 12
_KEPT = "keep what some variable can bind"


@attrs.frozen
class Scan(Operator):
    """Reads events, and keeps those that some variable can bind; ``side`` names a side of a top-level AND."""

    source: Source
    compiled: Compiled
    side: str = ""
    only_batch = None

    def steps(self) -> tuple[Step, ...]:
        conditions = [
            f"{quote_name(name)}: {'every event' if condition is None else quote(strip(condition))}"
            for name, condition in self.compiled.asked[:_NAMED]
        ]
        if len(self.compiled.asked) > _NAMED:
            conditions.append(f"and {len(self.compiled.asked) - _NAMED} more variables")
        source = self.source
        time = f"time: {quote_name(source.time)} ({source.time_type})"
        ties = ("ties broken by " + ", ".join(map(quote_name, source.tie_break)),) if source.tie_break else ()
        skipped = f"rows without a time: {'left out' if source.on_null_time == 'skip' else 'an error'}"
        # STRICT also needs the events that no variable can bind, as they may lie between two neighbours.
        kept = "tell what variables can bind" if self.compiled.machine.matching == STRICT else _KEPT
        # For queries that come and go, the stream keeps events before any query's own columns are computed.
        whole = [words.kept(source, KEPT_WHOLE)] if source.is_stream and source.state.whole else []
        return Step("events", (time, *ties, skipped)), *whole, Step(kept, tuple(conditions))

    def facts(self) -> tuple[tuple[str, str], ...]:
        source, windowing = self.source, self.source.windowing
        if windowing.kind == WHOLE:
            return (("windows", "none: the events of a key all together"),)
        if source.is_stream and source.state.whole:
            return _of_all_queries(source)
        length = amount_of_time(source, windowing.length)
        if windowing.kind == SPAN:
            text = f"none: a trend spans at most {length}"
            if has_windows(windowing):
                cut = amount_of_time(source, windowing.slide)
                text = f"{cut} each, by the first event of a trend, which spans at most {length}"
        else:
            text = f"{length} long, one every {amount_of_time(source, windowing.slide)}"
            if overlaps(windowing):
                text += f"; an event is in up to {overlap(windowing)}"
        if not windowing.cut:
            return (("windows", text),)
        if source.is_stream:
            return ("windows", text), ("waits", waits(source))
        how = f"{amount_of_time(source, windowing.cut)} each, so that many tasks share a key"
        if overlaps(windowing):
            how += f"; events within {length} of a border go to both"
        return ("windows", text), ("time buckets", how)


def _of_all_queries(source: Source) -> tuple[tuple[str, str], ...]:
    """Describes the windows of queries that come and go, whose events are kept together."""
    cut = amount_of_time(source, source.windowing.cut)
    kept = amount_of_time(source, needed_by_bucket(source.windowing, looks_back=False)[1])
    windows = f"those of each query; events are kept together, for {kept} from the start of each {cut}"
    waits = f"for {_watermark(source)} to pass {kept} after the start of the {cut} in which a window begins"
    return ("windows", windows), ("waits", waits)


def _watermark(source: Source) -> str:
    lag = f"{amount_of_time(source, source.watermark)} behind" if source.watermark else "at the time of"
    return f"the watermark, {lag} the latest event,"


def waits(source: Source) -> str:
    """Describes what an answer of a stream waits for, and how long."""
    windowing = source.windowing
    if source.emit == EAGER:
        return "for no event but the last one of a trend"
    watermark = _watermark(source)
    if windowing.kind == SPAN and not has_windows(windowing):
        amounts = windowing.length, windowing.length + windowing.cut
        least, most = (amount_of_time(source, amount) for amount in amounts)
        return f"for {watermark} to be {least} to {most} behind the first event of a trend"
    end = "the end of the window" if windowing.slide <= windowing.length else "the start of the next window"
    if windowing.kind == SPAN:
        end = f"the end of the window by {amount_of_time(source, windowing.length)}"
    if source.emit == UPDATE:
        return f"for nothing; it is final when {watermark} has passed {end}"
    return f"for {watermark} to pass {end}"
