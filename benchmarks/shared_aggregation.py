"""Shared aggregation along the axes of the published experiments: events a minute, queries, windows, divergence.

    taskset -c 1 python benchmarks/shared_aggregation.py [--bars FILE] [--only NAME] [--output FOLDER]

The axes are those of figures 9 to 13 of Poppe et al., *To Share, or not to Share Online Event Trend Aggregation Over
Bursty Event Streams*, SIGMOD 2021, over generated bursts of 100 events of a ridesharing service, and over minute bars
of stocks. Contestants are kernels on one core, from sorted events in memory on; all seconds are processor seconds, the
least of some runs that take turns. Latency is what it takes on average to answer a window when its last event has come.
Memory is by how much the process has grown at its peak.

Two contestants are written for this, and compiled like everything else. *scanned* is GRETA as published: it evaluates
each query by itself, and looks for each event at all earlier ones of its predecessor types. *two-step* builds every
trend of every query and counts them. Their counts are compared with ours modulo 2^64, and the script stops where they
differ.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from events import BEFORE_TRAVEL, Events
from numba import njit
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from report import draw, save
from sharing import Loaded, different_prefixes, diverging, texts
from streams import read_bars

import run  # before cetdsl: it finds the repository's own
from cetdsl.kernels.machine.program import grouped
from cetdsl.kernels.shared.hamlet import Metrics, evaluator_of
from cetdsl.planning.panes import why_not_in_panes, why_panes_do_not_pay

RUNS = 3
Found = dict[str, Any]
MODES = ("dynamic", "static", "always", "never")
OURS, ALONE, SCANNED = "ours", "unshared, indexed", "unshared, scanned (GRETA)"


# ------------------------------------------------------------------------------------------------------- contestants


@njit
def count_by_scanning(mask, instant, low, high, variable, initial, final, source_start, source):  # type: ignore
    """Counts the trends of each slice modulo 2^64; an event's count is the sum over all that may come before it."""
    states, out = len(variable), np.zeros(len(low), dtype=np.uint64)
    for s in range(len(low)):
        size = high[s] - low[s]
        stored = np.zeros(states, dtype=np.int64)
        event = np.empty((states, size), dtype=np.int64)
        count = np.empty((states, size), dtype=np.uint64)
        for i in range(low[s], high[s]):
            for q in range(states):
                if not (mask[i] >> variable[q]) & 1:
                    continue
                total = np.uint64(initial[q])
                for k in range(source_start[q], source_start[q + 1]):
                    p = source[k]
                    for j in range(stored[p]):
                        if instant[event[p, j]] < instant[i]:
                            total += count[p, j]
                event[q, stored[q]], count[q, stored[q]] = i, total
                if final[q]:
                    out[s] += total
            for q in range(states):  # an event does not see itself
                if (mask[i] >> variable[q]) & 1:
                    stored[q] += 1
    return out


@njit
def count_by_building(mask, instant, low, high, variable, initial, final, source_start, source):  # type: ignore
    """Builds the trends of each slice, last events first, and counts them."""
    out = np.zeros(len(low), dtype=np.uint64)
    for s in range(len(low)):
        size = high[s] - low[s]
        trend, state = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
        entry, place = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
        for i in range(low[s], high[s]):
            for q in range(len(variable)):
                if not final[q] or not (mask[i] >> variable[q]) & 1:
                    continue
                depth = 0
                trend[0], state[0], entry[0], place[0] = i, q, source_start[q], low[s]
                out[s] += np.uint64(initial[q])
                while depth >= 0:
                    if entry[depth] == source_start[state[depth] + 1]:
                        depth -= 1
                        continue
                    p, j = source[entry[depth]], place[depth]
                    if j == high[s] or instant[j] >= instant[trend[depth]]:
                        entry[depth] += 1
                        place[depth] = low[s]
                        continue
                    place[depth] += 1
                    if (mask[j] >> variable[p]) & 1:
                        depth += 1
                        trend[depth], state[depth], entry[depth], place[depth] = j, p, source_start[p], low[s]
                        out[s] += np.uint64(initial[p])
    return out


def one_by_one(loaded: Loaded, count: Callable[..., Any]) -> Callable[[], list[Any]]:
    """An action that counts the trends of each query by itself; queries must have no predicates between events."""
    events, tasks = loaded.chunk.events, []
    for one in loaded.sets["never"]:
        for number in one.members:
            machine, slices = loaded.queries[number].query.machine, loaded.chunk.asked[number][0]
            begins, ends = {state for state, _ in machine.initial}, {state for state, _ in machine.final}
            sources: list[list[int]] = [[] for _ in machine.variables]
            for edge in machine.edges:
                sources[edge.target].append(edge.source)
            states = range(len(machine.variables))
            flags = (np.array([state in group for state in states]) for group in (begins, ends))
            tasks.append((slices.low, slices.high, np.array(machine.variables), *flags, *grouped(sources)))
    return lambda: [count(events.mask, events.instant, *task) for task in tasks]


def check(df: DataFrame, queries: dict[str, str], *counts: Callable[..., Any]) -> None:
    """Raises unless the counts are equal to ours modulo 2^64."""
    loaded = Loaded.of(df, queries, "string")
    ours: dict[int, list[int]] = {}
    for one in loaded.sets["dynamic"]:
        for number, values in zip(one.members, one.evaluate(loaded.chunk), strict=True):
            ours[number] = [int(value) % 2**64 for value in values.exact[0]]
    members = [number for one in loaded.sets["never"] for number in one.members]
    for count in counts:
        for number, found in zip(members, one_by_one(loaded, count)(), strict=True):
            if found.tolist() != ours[number]:
                raise RuntimeError(f"{count.__name__} finds other counts of query {number}")


# ----------------------------------------------------------------------------------------------------------- measuring


def measured(actions: dict[str, Callable[[], Any]]) -> dict[str, tuple[float, float]]:
    """Returns the processor seconds of each action, the least of some runs by turns, and its memory in megabytes."""
    best: dict[str, float] = {}
    memory = {name: grown(action) for name, action in actions.items()}
    names = list(actions)
    for turn in range(RUNS):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            begun = time.process_time()
            actions[name]()
            spent = time.process_time() - begun
            best[name] = min(best.get(name, spent), spent)
    return {name: (best[name], memory[name]) for name in names}


def grown(action: Callable[[], Any]) -> float:
    """Returns by how many megabytes the process grows at most, which Linux keeps, while an action runs."""
    action()  # loads what is compiled
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    action()
    return max(_status("VmHWM") - before, 0) / 1000


def _status(name: str) -> int:
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[name].split()[0])


def alone(loaded: Loaded) -> Callable[[], list[Any]]:
    """An action that answers each query by itself, as it is planned if it is the only one."""
    chunk = loaded.chunk
    every = [
        (evaluator_of(spec, (why_not_in_panes(spec) or why_panes_do_not_pay(spec.query.windowing)) is None), asked)
        for spec, asked in zip(loaded.queries, chunk.asked, strict=True)
    ]
    return lambda: [one.evaluate(chunk.events, chunk.values, *asked) for one, asked in every]


def against_unshared(loaded: Loaded) -> dict[str, Callable[[], Any]]:
    """Sharing, and each query by itself."""
    return {
        OURS: lambda: loaded.run("dynamic"),
        ALONE: alone(loaded),
        SCANNED: one_by_one(loaded, count_by_scanning),
    }


def by_decisions(loaded: Loaded) -> dict[str, Callable[[], Any]]:
    """All queries, shared as each of the modes decides, and each query by itself."""
    return {**{mode: lambda mode=mode: loaded.run(mode) for mode in MODES}, ALONE: alone(loaded)}


def along(
    points: dict[Any, Loaded], contestants: Callable[[Loaded], dict[str, Callable[[], Any]]]
) -> dict[str, dict[str, list[list[float]]]]:
    """Returns the lines of throughput, latency and memory of each contestant, over the values of an axis."""
    lines: dict[str, dict[str, list[list[float]]]] = {"throughput": {}, "latency": {}, "memory": {}}
    for x, loaded in points.items():
        events, windows = len(loaded.chunk.events.time), max(len(cut.low) for cut, _ in loaded.chunk.asked)
        for name, (spent, memory) in measured(contestants(loaded)).items():
            for what, value in (("throughput", events / spent), ("latency", 1e3 * spent / windows), ("memory", memory)):
                lines[what].setdefault(name, []).append([x, value])
    return lines


def panels(axis: str, x: str, lines: dict[str, dict[str, list[list[float]]]]) -> list[dict[str, Any]]:
    units = {"throughput": "events/s", "latency": "ms a window", "memory": "MB"}
    return [
        {"title": f"{what} by {axis}", "x": x, "y": units[what], scale_of(what, own): True, "lines": own}
        for what, own in lines.items()
    ]


def scale_of(what: str, lines: dict[str, list[list[float]]]) -> str:
    """The axis of a panel: logarithmic if values differ more than tenfold, but for memory."""
    values = [value for line in lines.values() for _, value in line]
    return "log_y" if what != "memory" and max(values) > 10 * min(values) else "from_zero"


def times(lines: dict[str, list[list[float]]], one: str, other: str) -> list[float]:
    """How many times as large a line is as another, at each point."""
    return [a[1] / b[1] for a, b in zip(lines[one], lines[other], strict=True)]


def between(values: list[float]) -> str:
    low, high = (f"{value:,.0f}" if value >= 10 else f"{value:.3g}" for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


# ---------------------------------------------------------------------------------------------------------------- axes


def prefixed(number: int, window: str) -> dict[str, str]:
    """So many queries over :meth:`Events.rides` that differ before their Kleene pattern."""
    return {name: text.replace("WITHIN 2000 SLIDE 200", window) for name, text in different_prefixes(number).items()}


def quarter(a_minute: int) -> str:
    """Windows of 15 seconds, side by side, of a stream with an event a tick and so many a minute."""
    return f"WITHIN {a_minute // 4} SLIDE {a_minute // 4}"


def online(events: Events) -> Found:
    """Bursts of 100 events: events a minute, and queries (figures 9 and 10)"""
    df = events.rides(100, 0.0)
    check(df.filter("ts < 3000"), prefixed(8, quarter(2_000)), count_by_scanning)
    rates = (10_000, 12_500, 15_000, 20_000)
    by_events = along({n: Loaded.of(df, prefixed(25, quarter(n)), "log2") for n in rates}, against_unshared)
    numbers = (5, 10, 25, 50, 100)
    by_queries = along({n: Loaded.of(df, prefixed(n, quarter(10_000)), "log2") for n in numbers}, against_unshared)
    both = [by_events["throughput"], by_queries["throughput"]]
    claims = [
        ("throughput", "1 to 2 orders of magnitude above GRETA",
         f"{between([t for lines in both for t in times(lines, OURS, SCANNED)])} times GRETA as published, "
         f"{between([t for lines in both for t in times(lines, OURS, ALONE)])} times unshared with our indexes"),
        ("latency", "within 25 ms; GRETA up to 3 s",
         f"{between([y for lines in (by_events, by_queries) for _, y in lines['latency'][OURS]])} ms a window; "
         f"scanned up to {max(y for _, y in by_events['latency'][SCANNED]):,.0f} ms"),
        ("memory", "as GRETA",
         f"{between([y for lines in (by_events, by_queries) for _, y in lines['memory'][OURS]])} MB; scanned "
         f"{between([y for lines in (by_events, by_queries) for _, y in lines['memory'][SCANNED]])} MB"),
    ]  # fmt: skip
    chosen = [*panels("events", "events a minute, 25 queries", by_events)]
    chosen += panels("queries", "queries, 10,000 events a minute", by_queries)
    return {"panels": chosen, "claims": claims}


def building(events: Events) -> Found:
    """Two steps: all trends are built, then counted (figures 9 and 10)"""

    def stream(length: int) -> DataFrame:
        place = F.col("id") % length
        kinds = F.element_at(F.array(*map(F.lit, BEFORE_TRAVEL[:5])), (place + 1).cast("int"))
        kind = F.when(place < 5, kinds).otherwise("Travel")
        return events.spark.range(0, 100 * length, 1, 1).select(F.col("id").alias("ts"), kind.alias("kind"))

    def asked(length: int) -> dict[str, str]:
        return {name: f"{text} WITHIN {length} SLIDE {length}" for name, text in texts(5).items()}

    check(stream(9), asked(9), count_by_scanning, count_by_building)
    lines: dict[str, list[list[float]]] = {}
    for length in (8, 10, 12, 14, 16, 18, 20):
        loaded = Loaded.of(stream(length), asked(length), "log2")
        actions = {
            OURS: lambda loaded=loaded: loaded.run("dynamic"),
            SCANNED: one_by_one(loaded, count_by_scanning),
            "two-step": one_by_one(loaded, count_by_building),
        }
        for name, (spent, _) in measured(actions).items():
            lines.setdefault(name, []).append([length, 1e3 * spent / 100])
    ratio = lines["two-step"][-1][1] / lines[OURS][-1][1]
    claims = [("two steps", "7 to 76 times as slow", f"{ratio:,.0f} times, at 20 events a window; twice that at 21")]
    panel = {"title": "latency by events", "x": "events a window, 5 queries", "y": "ms a window", "log_y": True}
    return {"panels": [{**panel, "lines": lines}], "claims": claims}


def windows(events: Events) -> Found:
    """Windows that overlap more and more: bursts of 100 events, 25 queries"""
    df = events.rides(100, 0.0)
    points = {n: Loaded.of(df, prefixed(25, f"WITHIN 2000 SLIDE {2000 // n}"), "log2") for n in (1, 2, 5, 10, 20)}
    lines = along(points, against_unshared)
    growth = lines["latency"][OURS][-1][1] * 20 / lines["latency"][OURS][0][1]
    scanned = lines["latency"][SCANNED][-1][1] * 20 / lines["latency"][SCANNED][0][1]
    claims = [("windows that overlap 20-fold", "not measured", f"{growth:.3g} times one; scanned {scanned:.3g} times")]
    return {"panels": panels("windows", "windows that hold an event", lines), "claims": claims}


def divergence(events: Events) -> Found:
    """Ten queries that differ at more and more events, in every other phase of 4,000"""
    points = {
        round(100 * share, 1): Loaded.of(events.rides(100, share, 4_000), diverging(10), "log2")
        for share in (0.0, 0.03, 0.1, 0.2, 0.35, 0.5, 1.0)
    }
    lines = along(points, by_decisions)
    claims = [
        ("dynamic against static decisions", "27 to 52 % more throughput",
         _more(times(lines["throughput"], "dynamic", "static"))),
        ("dynamic against always sharing", "–", _more(times(lines["throughput"], "dynamic", "always"))),
        ("dynamic against never sharing", "–", _more(times(lines["throughput"], "dynamic", "never"))),
    ]  # fmt: skip
    return {"panels": panels("divergence", "% of the events", lines), "claims": claims}


def _more(ratios: list[float]) -> str:
    return f"{100 * (min(ratios) - 1):.0f} to {100 * (max(ratios) - 1):.0f} % more"


def stocks(events: Events) -> Found:
    """Minute bars: queries with other aggregates, windows and constants (figures 12 and 13)"""
    assert events.bars is not None
    bars = read_bars(events.bars).to_pandas()
    jump = (bars["diff"] / bars["open"]).abs()
    direction = np.where(bars["diff"] > 0, "Up", "Down")
    size = np.where(jump < jump.quantile(0.995), "1", "2")
    bars["kind"] = np.where(jump < jump.quantile(0.99), "Bar", np.char.add(direction.astype(str), size))
    minutes = int(bars["time"].max()) + 1
    # The bars of a minute one after the other, as they stand in the file, in milliseconds.
    bars["at"] = 60_000 * (
        bars["time"] + bars.groupby("time").cumcount() / bars.groupby("time")["time"].transform("size")
    )

    def frame(speed: int) -> DataFrame:
        rows = bars.assign(ts=(bars["at"] // speed).astype(np.int64))[["ts", "kind", "open", "diff"]]
        return events.spark.createDataFrame(rows)

    def asked(number: int) -> dict[str, str]:
        chance = np.random.default_rng(3)
        queries = {}
        for k in range(number):
            kind = ("Up1", "Up2", "Down1", "Down2")[k % 4]
            what = ("COUNT(*) AS n", "AVG(Bar.open) AS a", "SUM(Bar.diff) AS s")[k % 3]
            least = chance.choice([-9.0, -0.3, -0.1])
            minutes_of = (1, 2, 3, 4)[k // 4 % 4]
            window = f"WITHIN {60_000 * minutes_of} SLIDE 60000"
            queries[f"q{k}"] = f"RETURN {what} PATTERN SEQ({kind}, Bar+) WHERE Bar.diff > {least} {window}"
        return queries

    speeds = (1, 2, 4, 8)
    by_events = along(
        {round(s * len(bars) / minutes, 1): Loaded.of(frame(s), asked(50), "log2") for s in speeds}, by_decisions
    )
    df = frame(4)
    by_queries = along({n: Loaded.of(df, asked(n), "log2") for n in (20, 50, 100)}, by_decisions)
    both = [by_events["throughput"], by_queries["throughput"]]
    claims = [
        ("dynamic against static decisions", "27 to 52 % more throughput",
         _more([t for lines in both for t in times(lines, "dynamic", "static")])),
        ("dynamic against always sharing", "21 to 34 % less latency",
         _more([t for lines in both for t in times(lines, "dynamic", "always")]) + " throughput"),
        ("dynamic against each query by itself", "–",
         f"{between([t for lines in both for t in times(lines, 'dynamic', ALONE)])} times the throughput"),
    ]  # fmt: skip
    one = Loaded.of(df, asked(50), "log2")
    told = one.run("dynamic")
    claims.append(("bursts that share", "about 90 %", f"{_shared(told):.0%} of {told.bursts:,} bursts and queries"))
    claims.append(("deciding", "less than 0.2 % of the time", f"{told.deciding / told.seconds:.2%}"))
    chosen = panels("events", "events a minute, 50 queries", by_events)
    return {"panels": chosen + panels("queries", "queries", by_queries), "claims": claims}


def _shared(metrics: Metrics) -> float:
    return metrics.shared / max(metrics.shared + metrics.split, 1)


PARTS: dict[str, Callable[[Events], Found]] = {
    one.__name__: one for one in (online, building, windows, divergence, stocks)
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", choices=list(PARTS))
    parser.add_argument("--bars", type=Path, metavar="FILE", help="minute bars: ticker, minute, opening price")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent)
    asked = parser.parse_args()
    asked.output.mkdir(parents=True, exist_ok=True)
    path = asked.output / "shared_aggregation.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    names = asked.only or [name for name in PARTS if name != "stocks" or asked.bars]
    with tempfile.TemporaryDirectory() as folder, run.session(1) as spark:
        events = Events(spark, Path(folder), 1.0, asked.bars)
        for name in names:
            results[name] = {**PARTS[name](events), "title": PARTS[name].__doc__ or ""}
            print(f"| {name} | published | here |\n|---|---|---|")
            for axis, published, here in results[name]["claims"]:
                print(f"| {axis} | {published} | {here} |", flush=True)
            save(draw(results[name]), asked.output / f"shared-aggregation-{name}.svg")
            path.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
