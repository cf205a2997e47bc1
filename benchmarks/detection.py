"""Races of plans: in which order matches are put together, and when the order changes; in kernels, without Spark.

Seconds are those of this process's processor, on one core. They begin with sorted events in memory, and include the
plan's tables, statistics, decisions, planning, and all matches as arrays. The first two races are those of Kolchinsky
and Schuster, "Efficient Adaptive Detection of Complex Event Patterns" (PVLDB 11(11), 2018), section 5.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import permutations
from statistics import fmean, geometric_mean, median
from typing import Any, NamedTuple

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
from events import Events
from races import Result, Skipped, Verdict, result
from streams import (
    EVEN_TICKS,
    KLEENE_TICKS,
    NEGATED,
    PATTERNS,
    SIZES,
    SKEWED_TICKS,
    conjunction,
    even,
    most_frequent,
    names_of,
    read_bars,
    renamed,
    repeated,
    sequence,
    skewed,
    steady,
)

import cetdsl as cet
from cetdsl.detection.statistics import Statistics
from cetdsl.execution.operators import execute
from cetdsl.frontend.session import PatternFrame
from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.operators import ChooseTrends, DetectTrends, ListTrends
from cetdsl.ir.stages import DetectSpec, TrendsSpec
from cetdsl.kernels.detect.choose import Chooser
from cetdsl.kernels.detect.detector import Detector
from cetdsl.kernels.enumerate.enumerator import Enumerator
from cetdsl.kernels.vocabulary import Block
from cetdsl.kernels.wire.chunks import Chunk, ChunkReader
from cetdsl.planning.detection import Detection, given_detection
from cetdsl.planning.planner import plan_trends

Asked = Mapping[str, Any]


class Declined(Exception):
    """Raised if no strategy puts together the matches of a pattern in a given order; says why."""


class Work(NamedTuple):
    """What a contestant found and did.

    ``partial`` counts partial matches, and ``changes`` how often the plan changed. ``deciding`` is the time of deciding
    and planning: in processor seconds, and in the result of a race as a share of the run.
    """

    trends: int
    partial: int = 0
    changes: int = 0
    deciding: float = 0.0


class Loaded(NamedTuple):
    """The events of one key as a kernel reads them, and the pattern that is asked of them."""

    asked: PatternFrame
    spec: KernelSpec
    chunk: Chunk

    @classmethod
    def of(cls, events: Events, stream: pa.Table, text: str) -> Loaded:
        # From a file, as the JVM would keep the events of each DataFrame that is made of them.
        with tempfile.NamedTemporaryFile(suffix=".parquet") as file:
            pq.write_table(stream, file.name)
            df = events.spark.read.parquet(file.name)
            asked = cet.pattern(df, text, time="time")
            rows = execute(df, _planned(asked, {"plan": "greedy", "adaptation": "unconditional"}).child)
            [chunk] = ChunkReader(rows.spec, iter(rows.data.toArrow().to_batches()), 2**40)
        return cls(asked, rows.spec, chunk)

    @property
    def size(self) -> int:
        """How many events the kernel reads: those of the pattern's types."""
        return len(self.chunk.events.time)

    def contestant(self, **asked: Any) -> Callable[[], Work]:
        """Returns what puts all matches together as a user asks for it, by the arguments ``asked``."""
        plan = _planned(self.asked, asked)
        if not isinstance(plan, DetectTrends):
            return self.enumerated
        if isinstance(plan, ChooseTrends):
            told = DetectSpec(TrendsSpec(self.spec, (), (), ()), plan.plans)
            return lambda: Work(_count(Chooser(told).enumerate(*self._parts)))

        def run() -> Work:
            detector = Detector(self.spec, plan.plans)
            trends = _count(detector.enumerate(*self._parts))
            done = [loop.counts for loop in detector.loops if loop]
            deciding = sum(counts.seconds_deciding + counts.seconds_planning for counts in done)
            partial = sum(int(counts.sum()) for counts in detector.partial)
            return Work(trends, partial, sum(counts.changes for counts in done), deciding)

        return run

    def enumerated(self) -> Work:
        """Lists all matches in the order of the pattern, by the search that enters no dead ends."""
        return Work(_count(Enumerator(self.spec).enumerate(*self._parts)))

    def sampled(self) -> Mapping[str, Mapping[Any, float]]:
        """Statistics of a sample of these events. All contestants know those of a stream's first events in advance."""
        plan = _planned(self.asked, {"plan": "greedy", "adaptation": "unconditional"})
        assert isinstance(plan, DetectTrends)
        seen = Statistics()
        for one in Detector(self.spec, plan.plans, by_slice=True).sample(self.chunk.events):
            seen = seen.updated(one)
        return {"rates": seen.rates, "selectivities": seen.selectivities}

    @property
    def _parts(self) -> tuple[Any, ...]:
        return self.chunk.events, self.chunk.slices, self.chunk.bounds


def _planned(asked: PatternFrame, words: Asked) -> ListTrends:
    """The operator that lists the matches."""
    detection = given_detection(asked.query.pattern, **words) if words else Detection("pattern")
    decision = plan_trends(asked._rewritten, asked._columns(()), None, detection)
    reasons = dict(decision.declined)
    if words.get("plan", "pattern") not in ("pattern", "auto") and "detect" in reasons:
        raise Declined(reasons["detect"])
    return next(operator for operator in decision.plan.walk() if isinstance(operator, ListTrends))


def _count(blocks: Iterator[Block]) -> int:
    return sum(len(block.slice) for block in blocks)


def take_turns(contestants: Mapping[str, Callable[[], Work]], runs: int) -> tuple[Result, dict[str, Work]]:
    """Runs the contestants in turn after one warm-up each, as those of other races, and compares what they found.

    Both ``seconds`` and ``processor_seconds`` of the result are of this process's processor: a run may take a few
    milliseconds, and what Linux tells of other processes comes in steps of ten.
    """
    names = list(contestants)
    taken: dict[str, list[float]] = {name: [] for name in names}
    did: dict[str, list[Work]] = {name: [] for name in names}
    for turn in range(runs + 1):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            before = time.process_time()
            work = contestants[name]()
            seconds = time.process_time() - before
            if turn:
                taken[name].append(round(seconds, 6))
                did[name].append(work._replace(deciding=work.deciding / seconds))
    found = {name: work[0].trends for name, work in did.items()}
    if len(set(found.values())) > 1:
        raise RuntimeError(f"the answers differ: {found}")
    measured = {}
    for name, each in taken.items():
        middle = round(median(each), 6)
        measured[name] = {"seconds": each, "processor_seconds": each, "median": middle, "processor_median": middle}
    return measured, {
        name: work[0]._replace(deciding=median(one.deciding for one in work)) for name, work in did.items()
    }


# ------------------------------------------------------------------------------- when a plan changes: the paper's races

STATIC, UNCONDITIONAL, THRESHOLD = "static", "unconditional", "threshold, best t"
SCANNED, AVERAGE, META = "invariants, best d", "invariants, average d", "invariants, meta d"
CONTESTANTS = (STATIC, UNCONDITIONAL, THRESHOLD, SCANNED, AVERAGE, META)
INVARIANTS = (SCANNED, AVERAGE, META)
#: The distances and thresholds among which the best are looked for.
DISTANCES = (0.0, 0.1, 0.2, 0.5, 1.0)
THRESHOLDS = (0.2, 0.5, 1.0, 2.0)
#: How often each contestant runs and is counted, at most: there are 6 over 24 patterns and more.
RUNS = 2
#: The generator, and the events that a kernel reads in each run.
GENERATOR, COUNT = "greedy", 250_000
#: All contestants know the statistics of a 64th of the stream in advance, and of no fewer than so many events.
KNOWN, LEAST_KNOWN = 64, 1_000


@attrs.frozen
class Cell:
    """One pattern over one stream."""

    set: str
    size: int
    given: Loaded
    known: Mapping[str, Mapping[Any, float]]

    @property
    def name(self) -> str:
        return f"{self.set} of {self.size}"

    def contestant(self, adaptation: Asked) -> Callable[[], Work]:
        return self.given.contestant(plan=GENERATOR, statistics=self.known, adaptation=adaptation)

    def contestants(self, threshold: float, distance: float) -> dict[str, Callable[[], Work]]:
        asked: dict[str, Asked] = {
            STATIC: {"method": "static"},
            UNCONDITIONAL: {"method": "unconditional"},
            THRESHOLD: {"method": "threshold", "threshold": threshold},
            SCANNED: {"method": "invariants", "distance": distance},
            AVERAGE: {"method": "invariants", "distance": "average"},
            META: {"method": "invariants", "distance": "meta"},
        }
        return {name: self.contestant(adaptation) for name, adaptation in asked.items()}


def cells_of(
    events: Events,
    stream: Callable[[int], pa.Table],
    names: Sequence[str],
    columns: Sequence[str],
    within: Callable[[str, int], int],
) -> list[Cell]:
    """All patterns, each over the stream of as many types; a set is left out, with a message, if it is declined.

    ``stream`` makes the events for a number of types, and ``within`` the window's length for a set and a size. At a
    small scale, for a quick look, there are only the smallest patterns.
    """
    cells = []
    sizes = [size for size in (SIZES if events.scale >= 0.1 else SIZES[:1]) if size <= len(names)]
    for name, pattern in PATTERNS.items():
        for size in sizes:
            whole, text = stream(size), pattern(names[:size], columns, within(name, size))
            try:
                given = Loaded.of(events, whole, text)
            except Declined as reason:
                print(f"  {name}: left out, as {reason}", file=sys.stderr, flush=True)
                break
            first = whole.slice(0, max(len(whole) // KNOWN, LEAST_KNOWN))
            cells.append(Cell(name, size, given, Loaded.of(events, first, text).sampled()))
    return cells


class Scan(NamedTuple):
    """Events a second of the sequences, by size, for each value of a parameter; and the value that is best for all."""

    best: float
    points: dict[str, list[list[float]]]


def scan(cells: Sequence[Cell], method: str, parameter: str, values: Sequence[float], runs: int) -> Scan:
    """Looks for the best value of a parameter over the sequences of all sizes, as the paper does."""
    points: dict[str, list[list[float]]] = {f"{value:g}": [] for value in values}
    for cell in cells:
        contestants = {f"{value:g}": cell.contestant({"method": method, parameter: value}) for value in values}
        measured, _ = take_turns(contestants, runs)
        for name, line in points.items():
            line.append([cell.size, cell.given.size / measured[name]["median"]])
    best = max(values, key=lambda value: geometric_mean(speed for _, speed in points[f"{value:g}"]))
    return Scan(best, points)


def compare(about: str, name: str, cells: Sequence[Cell], runs: int, paper: Paper) -> Result:
    """Races all methods over all patterns."""
    sequences = [cell for cell in cells if cell.set == "sequence"]
    thresholds = scan(sequences, "threshold", "threshold", THRESHOLDS, 1)
    distances = scan(sequences, "invariants", "distance", DISTANCES, 1)
    measured: Result = {}
    table = []
    for cell in cells:
        found, works = take_turns(cell.contestants(thresholds.best, distances.best), min(runs, RUNS))
        measured |= {f"{cell.name}, {method}": line for method, line in found.items()}
        table += [_told(cell, method, measured, work) for method, work in works.items()]
    gains = {method: _gain(measured, cells, method, STATIC) for method in CONTESTANTS}
    best = max(INVARIANTS, key=lambda method: gains[method])
    slowest = max(cells, key=lambda cell: _ratio(measured, cell, best, _best_other(measured, cell)))
    fastest = max(cells, key=lambda cell: _ratio(measured, cell, STATIC, best))
    verdicts = [
        Verdict(f"{cell.name}: {best}, against {other}: {what}", f"{cell.name}, {best}", f"{cell.name}, {other}", limit)
        for cell, other, what, limit in (
            (slowest, _best_other(measured, slowest), f"where it is furthest behind of {len(cells)}", 1.03),
            (fastest, STATIC, f"where it gains most of {len(cells)}", None),
        )
    ]
    shares = {method: fmean(row["deciding"] for row in table if row["method"] == method) for method in CONTESTANTS}
    notes = [
        f"{GENERATOR} orders; best t {thresholds.best:g}, best d {distances.best:g}; judged are {best}",
        _goal("invariants against static, geometric mean", gains[best], paper.least),
        _goal("invariants against the best t, geometric mean", _gain(measured, cells, best, THRESHOLD), 1.05),
        _goal("deciding and planning, mean share of the time", shares[best], 0.01, most=True),
        "speed against static, geometric mean: " + "; ".join(f"{method} {gain:.2f}" for method, gain in gains.items()),
        "the same without the time of deciding and planning: "
        + "; ".join(f"{method} {_gain_net(table, method):.2f}" for method in CONTESTANTS),
    ]
    claims = [*_claims(distances, table, best, shares, paper)]
    stream = about.partition(":")[0]
    charts = {f"{name}-distances": _distances(stream, distances), f"{name}-methods": _methods(stream, table, cells)}
    return result(about, measured, verdicts, notes=notes, claims=claims, charts=charts, cells=table, speeds=gains)


class Paper(NamedTuple):
    """What the paper says of one of its streams, and how many times as fast as static plans invariants must be here."""

    least: float
    ahead: str
    changes: str


def _claims(
    distances: Scan, table: Sequence[Mapping[str, Any]], best: str, shares: Mapping[str, float], paper: Paper
) -> Iterator[list[str]]:
    """What the paper says, and what was measured here."""
    gains = [
        chosen / basic
        for (_, chosen), (_, basic) in zip(distances.points[f"{distances.best:g}"], distances.points["0"])
    ]
    yield [
        "the best d is 2 to 25 times as fast as d = 0",
        f"d = {distances.best:g}: {min(gains):.2f} to {max(gains):.2f}",
    ]
    by_size: dict[int, dict[str, float]] = {}
    for size in sorted({row["size"] for row in table}):
        for method in CONTESTANTS:
            rows = [row["gain"] for row in table if (row["size"], row["method"]) == (size, method)]
            by_size.setdefault(size, {})[method] = geometric_mean(rows)
    ahead = [speed[best] / max(speed[other] for other in CONTESTANTS[:3]) for speed in by_size.values()]
    yield [paper.ahead, f"{min(ahead):.2f} to {max(ahead):.2f} times the best other, by size"]
    changes = {m: fmean(row["changes"] for row in table if row["method"] == m) for m in CONTESTANTS}
    yield [paper.changes, "; ".join(f"{method} {changes[method]:.1f}" for method in (UNCONDITIONAL, THRESHOLD, best))]
    yield [
        "unconditional planning takes up to 11 % of the time, invariants and thresholds next to none",
        "; ".join(f"{method} {shares[method]:.1%}" for method in (UNCONDITIONAL, THRESHOLD, best)),
    ]


def _told(cell: Cell, method: str, measured: Result, work: Work) -> dict[str, Any]:
    seconds = measured[f"{cell.name}, {method}"]["median"]
    return {
        "set": cell.set,
        "size": cell.size,
        "method": method,
        "events_a_second": round(cell.given.size / seconds),
        "gain": measured[f"{cell.name}, {STATIC}"]["median"] / seconds,
        "changes": work.changes,
        "deciding": work.deciding,
        "partial_matches": work.partial,
        "trends": work.trends,
    }


def _ratio(measured: Result, cell: Cell, one: str, other: str) -> float:
    return float(measured[f"{cell.name}, {one}"]["median"] / measured[f"{cell.name}, {other}"]["median"])


def _gain(measured: Result, cells: Sequence[Cell], method: str, other: str) -> float:
    return geometric_mean(_ratio(measured, cell, other, method) for cell in cells)


def _gain_net(table: Sequence[Mapping[str, Any]], method: str) -> float:
    return geometric_mean(row["gain"] / (1 - row["deciding"]) for row in table if row["method"] == method)


def _best_other(measured: Result, cell: Cell) -> str:
    return min(CONTESTANTS[:3], key=lambda method: float(measured[f"{cell.name}, {method}"]["median"]))


def _goal(what: str, figure: float, limit: float, most: bool = False) -> str:
    met = figure <= limit if most else figure >= limit
    shown = f"{figure:.2%} (goal: at most {limit:.0%})" if most else f"{figure:.2f} (goal: at least {limit:g})"
    return f"{what}: {shown}, {'met' if met else '**missed**'}"


def _distances(stream: str, distances: Scan) -> dict[str, Any]:
    lines = {f"d = {value}": [[x, y / 1e6] for x, y in points] for value, points in distances.points.items()}
    return {
        "title": f"Sequences by distance: {stream}",
        "x": "events in a pattern",
        "y": "million events a second",
        "from_zero": True,
        "lines": lines,
        "about": "Published (figure 5): some d is best for all sizes, 2 to 25 times as fast as d = 0.",
    }


def _methods(stream: str, table: Sequence[Mapping[str, Any]], cells: Sequence[Cell]) -> dict[str, Any]:
    """The four graphs of figures 6 and 7, each on the mean over the pattern sets."""
    panels = []
    for what, key, unit in (
        ("million events a second", "events_a_second", 1e-6),
        ("times the speed of static", "gain", 1),
        ("changes of plan", "changes", 1),
        ("per cent spent on deciding and planning", "deciding", 100),
    ):
        lines: dict[str, list[list[float]]] = {}
        for method in CONTESTANTS:
            for size in sorted({cell.size for cell in cells}):
                rows = [row[key] for row in table if row["method"] == method and row["size"] == size]
                lines.setdefault(method, []).append([size, unit * fmean(rows)])
        panels.append({"x": "events in a pattern", "y": what, "from_zero": True, "lines": lines})
    return {
        "title": f"Methods: {stream}",
        "panels": panels,
        "about": "As figures 6 and 7 of the paper: means over the pattern sets.",
    }


def traffic(events: Events, runs: int) -> Result:
    """A skewed stream whose changes are few and extreme."""
    count = events.scaled(COUNT)
    cells = cells_of(
        events, lambda size: skewed(count, size), names_of(max(SIZES)), ("x", "y"), _windows(SKEWED_TICKS, 2)
    )
    paper = Paper(
        2,
        "invariants are fastest for all sizes, up to more than 6 times as fast as the second best",
        "invariants need few plans; thresholds come near unconditional planning in large patterns",
    )
    about = f"skewed and stable, four extreme changes: {_about(f'{SKEWED_TICKS} ticks times the square of the size')}"
    return compare(about, "traffic", cells, runs, paper)


def _windows(ticks: int, power: int) -> Callable[[str, int], int]:
    return lambda name, size: KLEENE_TICKS * size if name == "Kleene" else ticks * size**power


def _about(within: str) -> str:
    return f"{COUNT:,} events, windows of {within}, of {KLEENE_TICKS} times the size with Kleene, one core"


#: What the paper says of stocks.
OF_STOCKS = Paper(
    1,
    "invariants are fastest for all sizes, by 30 to 60 %; static is decidedly faster than unconditional",
    "invariants and thresholds need about as many plans; unconditional many times more",
)


def stocks(events: Events, runs: int) -> Result:
    """An even stream whose changes are small and frequent."""
    count = events.scaled(COUNT)
    cells = cells_of(events, lambda size: even(count, size), names_of(max(SIZES)), ("x",), _windows(EVEN_TICKS, 1))
    about = f"even, 256 small changes: {_about(f'{EVEN_TICKS} ticks times the size')}"
    return compare(about, "stocks", cells, runs, OF_STOCKS)


#: Minutes of a window over bars.
MINUTES = 8


def bars(events: Events, runs: int) -> Result:
    """The patterns of :func:`stocks` on minute bars out of a file, again and again."""
    given = _bars(events)
    ranked = most_frequent(given, max(SIZES) + 1)
    tickers = ranked[:-1]
    count = events.scaled(COUNT)

    def stream(size: int) -> pa.Table:
        # The next most frequent stands under NOT.
        return repeated(renamed(given, ranked[size], NEGATED), [*ranked[:size], NEGATED], count, MINUTES)

    cells = cells_of(events, stream, tickers, ("diff",), lambda name, size: MINUTES)
    about = f"minute bars of {len(tickers)} stocks, repeated: {COUNT:,} events, windows of {MINUTES} minutes, one core"
    return compare(about, "bars", cells, runs, OF_STOCKS)


def _bars(events: Events) -> pa.Table:
    if events.bars is None:
        raise Skipped("no file of minute bars is given, --bars FILE")
    return read_bars(events.bars)


# ----------------------------------------------------------------------------------------- orders, and absolute anchors

#: Weights of rates of a sequence whose first event is a hundred times as frequent as its last.
UNEVEN = (100.0, 10.0, 1.0)
ORDER_COUNT = 100_000
#: The lengths, in events, of the windows over the stream whose rates differ; only the second one has a limit.
WINDOWS = (100, 1_000, 4_000)
#: Conditions of the race: that of the last two events holds seldom, that of the first two in every other case.
SELDOM = "v0.x < v1.x AND v1.key = v2.key"
_SLOWEST = " (the slowest)"
EQUAL = {"rising": "v0.x < v1.x AND v1.x < v2.x", "equal keys": "v0.key = v1.key AND v1.key = v2.key"}


def orders(events: Events, runs: int) -> Result:
    """A good order against the pattern's order where rates differ 100-fold; where they are equal, all orders."""
    measured: Result = {}
    verdicts, notes = [], []
    count = events.scaled(ORDER_COUNT)
    names = names_of(len(UNEVEN))
    pattern = f"PATTERN SEQ({', '.join(f'{name} v{k}' for k, name in enumerate(names))})"
    for window in WINDOWS:
        given = Loaded.of(events, steady(count, UNEVEN), f"{pattern} WHERE {SELDOM} WITHIN {window}")
        contestants = {
            "good order": given.contestant(plan=GENERATOR, statistics=given.sampled()),
            "order of the pattern": given.contestant(plan=["v0", "v1", "v2"]),
            "today's enumerator": given.enumerated,
        }
        found, did = take_turns(contestants, runs)
        measured |= {f"{name}, {window}": line for name, line in found.items()}
        limit = 0.1 if window == WINDOWS[1] else None
        verdicts += [
            Verdict(
                f"rates differ 100-fold, windows of {window:,}: the good order, against {other}",
                f"good order, {window}", f"{other}, {window}", limit,
            )
            for other in list(contestants)[1:]
        ]  # fmt: skip
        good, other = did["good order"].partial, did["order of the pattern"].partial
        what = f"windows of {window:,}: {good:,} partial matches in the good order, {other:,} in the pattern's"
        notes.append(_goal(f"{what}; fewer, times", other / max(good, 1), 20))
    for about, where in EQUAL.items():
        given = Loaded.of(events, steady(count, (1.0, 1.0, 1.0)), f"{pattern} WHERE {where} WITHIN {WINDOWS[0]}")
        contestants = {
            ", ".join(order): given.contestant(plan=list(order)) for order in permutations(("v0", "v1", "v2"))
        }
        found, _ = take_turns({**contestants, "today's enumerator": given.enumerated}, runs)
        measured |= {f"{name}, {about}": line for name, line in found.items()}
        slowest = max(contestants, key=lambda name: float(found[name]["median"]))
        verdicts += [
            Verdict(
                f"equal rates, {about}: {name}{_SLOWEST if name == slowest else ''}, against the enumerator",
                f"{name}, {about}", f"today's enumerator, {about}", 1.05,
            )
            for name in contestants
        ]  # fmt: skip
    return result(f"SEQ of three, {ORDER_COUNT:,} events, one core", measured, verdicts, notes=notes)


#: Patterns over the most frequent stocks, and how many events a second of a processor the open-source Python engine of
#: the paper's authors manages on such a machine.
ANCHORS = {
    "sequence of three stocks": (sequence, 3, ("diff",), 37_000),
    "conjunction of three stocks": (conjunction, 3, ("diff",), 9_000),
    "SEQ(A, B+)": (partial(sequence, kleene=1), 2, (), 107),
}
BARS_COUNT, TIMES = 1_000_000, 100


def anchors(events: Events, runs: int) -> Result:
    """Minute bars, repeated, against the speed of another engine, which is the *anchor*."""
    given = _bars(events)
    measured: Result = {}
    verdicts, notes = [], []
    for name, (pattern, size, columns, anchor) in ANCHORS.items():
        tickers = most_frequent(given, size)
        stream = repeated(given, tickers, events.scaled(BARS_COUNT), MINUTES)
        try:
            one = Loaded.of(events, stream, pattern(tickers, columns, MINUTES))
        except Declined as reason:
            notes.append(f"{name}: left out, as {reason}")
            print(f"  {notes[-1]}", file=sys.stderr, flush=True)
            continue
        contestants = {
            f"{name}, as by default": one.contestant(plan="auto"),
            f"{name}, {GENERATOR} order": one.contestant(plan=GENERATOR, statistics=one.sampled()),
        }
        found, did = take_turns(contestants, runs)
        measured |= found
        for contestant, line in found.items():
            speed = one.size / line["median"]
            verdicts.append(Verdict(contestant, contestant, "", one.size / (TIMES * anchor)))
            notes.append(
                f"{contestant}: {speed:,.0f} events a second, {speed / anchor:,.0f} times the anchor of {anchor:,}; "
                f"{did[contestant].trends:,} matches"
            )
    about = f"minute bars, repeated: {BARS_COUNT:,} events, windows of {MINUTES} minutes, one core"
    return result(about, measured, verdicts, notes=notes)


#: Numbers of keys, and how many events each key has; how many times as long adaptive plans may take as static ones.
KEYS, SLOWER = {10_000: 50, 250: 2_000}, 1.03


def keys(events: Events, runs: int) -> Result:
    """Many keys of few events, and fewer keys of several slices each, along adaptive and along static plans."""
    measured: Result = {}
    verdicts = []
    names = names_of(5)
    for count, size in KEYS.items():
        number = events.scaled(count * size)
        stream = skewed(number, len(names)).drop_columns(["key"])
        stream = stream.append_column("key", pa.array([n % count for n in range(number)]))
        text = sequence(names, ("x", "y"), 40 * count).replace(" WITHIN", " GROUP BY key WITHIN")
        given = Loaded.of(events, stream, text)
        known = given.sampled()
        contestants = {
            f"{count} keys, {name}": given.contestant(plan=GENERATOR, statistics=known, adaptation=adaptation)
            for name, adaptation in (
                (STATIC, {"method": "static"}),
                (SCANNED, {"method": "invariants", "distance": 0.5}),
                (META, {"method": "invariants", "distance": "meta"}),
            )
        }
        found, did = take_turns(contestants, runs)
        measured |= found
        verdicts += [
            Verdict(
                f"{count:,} keys of {size:,} events: {name.partition(', ')[2]} ({did[name].changes} changes of plan)",
                name, f"{count} keys, {STATIC}", SLOWER,
            )
            for name in list(contestants)[1:]
        ]  # fmt: skip
    return result("SEQ of five over many keys in one task, 500,000 events, one core", measured, verdicts)


RACES = {race.__name__: race for race in (traffic, stocks, bars, keys, orders, anchors)}
