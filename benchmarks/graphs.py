"""Races of complete event trends: their graphs, every way to get trends out of them, and whole Spark jobs.

Times of kernels are those of one core, from sorted events in memory on. The events are those of the papers: checks
between random accounts and stock prices (Mei et al., ICPP 2021), checks in layers (Poppe et al., SIGMOD 2017). *Refs*
are the events of all trends, each counted once per trend.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import attrs
import numpy as np
import pyarrow as pa
from events import Events
from measure import held, take_turns
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from races import Result, Verdict, child, discard, emitter, result

import cetdsl as cet
from cetdsl import datasets
from cetdsl.execution.operators import execute
from cetdsl.ir.extraction import Extraction
from cetdsl.ir.operators import BuildGraph
from cetdsl.kernels.complete.branch_and_bound import branch_and_bound
from cetdsl.kernels.complete.cut_plan import Costs
from cetdsl.kernels.complete.extract import count_refs, extract, survey
from cetdsl.kernels.complete.greedy import greedy
from cetdsl.kernels.complete.jobs import Measured, Settings
from cetdsl.kernels.complete.published import exhaustive, worst_case_costs
from cetdsl.kernels.complete.streams import Graphs, Part
from cetdsl.kernels.graph.counts import count_trends
from cetdsl.kernels.wire.chunks import Chunk, ChunkReader
from cetdsl.planning.planner import plan_complete
from cetdsl.planning.sorting import exchanged

CHECK, STOCK = cet.events("Check", "Stock")
CHAIN = cet.kleene(CHECK).where(CHECK.destination == cet.next_(CHECK).source)
JUMPS = cet.kleene(STOCK).where(cet.next_(STOCK).price >= 1.1 * STOCK.price)
RISING = cet.kleene(STOCK).where(STOCK.price < cet.next_(STOCK).price)


class Input(NamedTuple):
    """One group of events as a kernel reads it, sorted and in memory."""

    graphs: Graphs
    chunk: Chunk

    @classmethod
    def of(cls, df: DataFrame, query: Any, completeness: str = "ends") -> Input:
        asked = cet.pattern(df, query, time="ts", type="kind")
        plan = plan_complete(asked._complete(completeness, Extraction("m-cet"), asked._columns(()))).plan
        # Where several tasks share a group, each of them would have all of its events.
        (graph,) = (operator for operator in plan.walk() if isinstance(operator, BuildGraph))
        rows = execute(df, exchanged(attrs.evolve(graph, balanced=False)))
        [chunk] = ChunkReader(rows.spec, iter(rows.data.toArrow().to_batches()), 2**40)
        one = rows.spec.query.windowing.cut or len(chunk.events.segment_start) == 2
        assert one, "the events are those of one group, once or once per time bucket"
        return cls(Graphs(rows.spec), chunk)

    def part(self, *, listed: bool = True) -> Part:
        """Builds the graph of all windows."""
        [part] = self.graphs.parts(self.chunk, listed=listed)
        return part


def checks(events: Events, rows: int, accounts: int) -> Input:
    """Checks between random accounts, one a second: a row of the ICPP paper's data."""
    df = datasets.check_deposits(
        events.spark, events.scaled(rows), accounts=events.scaled(accounts), not_covered=1, seconds=1
    )
    return Input.of(df, CHAIN)


def stocks(events: Events, rows: int, query: Any, completeness: str = "ends") -> Input:
    df = datasets.stock_prices(
        events.spark, events.scaled(rows), companies=1, prices="uniform", between=(9, 11), digits=12, seconds=1
    )
    return Input.of(df, query, completeness)


class Published(NamedTuple):
    """A row of the authors' own measurements, in CPU seconds of two threads of a Java program."""

    refs: float
    seconds: float
    limit: float


#: Name, events, accounts (0: stock prices), and what the authors measured of their program.
INPUTS = {
    "200,000 checks, 40,000 accounts": (200_000, 40_000, Published(8.8e6, 5.5, 1.0)),
    "10,000 checks, 900 accounts": (10_000, 900, Published(209e6, 3.7, 0.8)),
    "10,000 checks, 800 accounts": (10_000, 800, Published(629e6, 9.5, 2.0)),
    "20,000 stock prices": (20_000, 0, Published(118e6, 4.6, 0.8)),
}


def inputs(events: Events) -> dict[str, Input]:
    return {
        name: checks(events, rows, accounts) if accounts else stocks(events, rows, JUMPS)
        for name, (rows, accounts, _) in INPUTS.items()
    }


# ------------------------------------------------------------------------------------------------------ listing


def refs(events: Events, runs: int) -> Result:
    """Graph and extraction of the papers' inputs: the first one as blocks of trends, the others counted."""
    given = inputs(events)
    found: dict[str, tuple[int, int]] = {}

    def extraction(name: str, listed: bool) -> Callable[[], None]:
        def once() -> None:
            part = given[name].part()
            windows = part.low, part.high
            if listed:
                blocks = extract(part.graph, given[name].graphs.variable, *windows, complete=True)
                sizes = [(len(block.slice), len(block.event)) for block in blocks]
                found[name] = sum(size for size, _ in sizes), sum(size for _, size in sizes)
            else:
                counted = count_refs(part.graph, *windows, complete=True)
                found[name] = int(counted[0][0]), int(counted[1][0])

        return once

    names = list(INPUTS)
    measured = take_turns({name: extraction(name, listed=name == names[0]) for name in names}, runs)
    verdicts = [Verdict(f"{name}, graph and extraction", name, "", INPUTS[name][2].limit) for name in names]
    notes = [
        f"{name}: {found[name][0]:,} trends, {found[name][1]:,} refs, "
        f"{found[name][1] / measured[name]['median'] / 1e6:,.0f} million refs a second "
        f"(published: {published.refs / published.seconds / 1e6:,.1f})"
        for name, (_, _, published) in INPUTS.items()
    ]
    chart = {
        "title": "Listing the trends of one window",
        "x": "million refs per CPU second",
        "bars": {
            "cetdsl, one core": {name: found[name][1] / measured[name]["median"] / 1e6 for name in names},
            "ICPP'21 authors' Java program, two threads": {
                name: row[2].refs / row[2].seconds / 1e6 for name, row in INPUTS.items()
            },
        },
        "about": "The published times count CPU seconds of both threads. Java visits linked objects; here edges are "
        "stretches of arrays and a sink's predecessors write their trends in one go.",
    }
    return result("one window, one core, “ends” trends", measured, verdicts, notes=notes, charts={"refs": chart})


def counting(events: Events, runs: int) -> Result:
    """``count_complete_trends()`` of the papers' inputs, exact, with the graph."""
    given = inputs(events) | {"10,000 checks, 500 accounts": checks(events, 10_000, 500)}
    found: dict[str, int] = {}

    def count(name: str) -> None:
        part = given[name].part(listed=False)
        counts = count_trends(part.attributes, part.low, part.high, True)
        found[name] = int(counts.exact[0])

    measured = take_turns({name: lambda name=name: count(name) for name in given}, runs)
    verdicts = [Verdict(f"{name}, graph and exact count", name, "", 0.5) for name in given]
    notes = [f"{name}: {found[name]:,} trends" for name in given]
    return result("one window, one core, “ends” trends", measured, verdicts, notes=notes)


# ------------------------------------------------------------------------------------------------------- graphs

GRAPH_SIZES = (50_000, 100_000, 200_000, 400_000, 800_000, 1_600_000)


def graph(events: Events, runs: int) -> Result:
    """Building the attribute-based graph of an order predicate, for more and more events."""
    given = {f"{size:,}": stocks(events, size, RISING) for size in GRAPH_SIZES}
    measured = take_turns({name: lambda one=one: one.part(listed=False) for name, one in given.items()}, runs)
    first, last = (f"{size:,}" for size in (GRAPH_SIZES[0], GRAPH_SIZES[-1]))
    growth = GRAPH_SIZES[-1] * math.log(GRAPH_SIZES[-1]) / (GRAPH_SIZES[0] * math.log(GRAPH_SIZES[0]))
    verdicts = [
        Verdict(f"from {first} to {last} events, against n log n", last, first, growth),
        *(Verdict(f"{name} events", name, "", None) for name in given),
    ]
    each = {size: measured[f"{size:,}"]["median"] / events.scaled(size) * 1e9 for size in GRAPH_SIZES}
    base = each[GRAPH_SIZES[0]] / math.log(GRAPH_SIZES[0])
    chart = {
        "title": "Building the graph of an order predicate",
        "x": "events",
        "y": "nanoseconds per event",
        "from_zero": True,
        "log_x": True,
        "lines": {
            "cetdsl": [[size, spent] for size, spent in each.items()],
            "n log n from the first point": [[size, base * math.log(size)] for size in GRAPH_SIZES],
        },
        "about": "Published: n log m for m distinct values, edges in O(n).",
    }
    return result("next price > price, one window, one core", measured, verdicts, charts={"graph": chart})


# ---------------------------------------------------------------------------------------------- memory and plans

MEBIBYTE = 2**20
MEMORY_LIMITS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


def memory(events: Events, runs: int) -> Result:
    """m-cet, t-cet, and h-cet under ever larger memory limits; and the memory that each really held."""
    one = checks(events, 10_000, 800)
    part = one.part()
    windows = part.low, part.high
    whole = survey(part.graph, *windows, complete=True, settings=Settings(algorithm="t-cet", memory=2**34))
    half = int(whole.predicted_bytes[0] / 2)
    settings = {f"h-cet, {size} MiB": Settings("h-cet", size * MEBIBYTE, thorough=True) for size in MEMORY_LIMITS}
    settings |= {"h-cet, half": Settings("h-cet", half, thorough=True), "m-cet": Settings("m-cet")}
    settings |= {"t-cet": Settings("t-cet", 2**34)}

    def count(name: str, measured: Measured | None = None) -> tuple[int, int]:
        counted = count_refs(part.graph, *windows, complete=True, settings=settings[name], measured=measured)
        return int(counted[0][0]), int(counted[1][0])

    measured = take_turns({name: lambda name=name: count(name) for name in settings}, runs)
    most = {name: held(lambda name=name: count(name)) for name in settings}
    over = [name for name, one in settings.items() if one.memory is not None and most[name] > one.memory]
    if over:
        raise RuntimeError(f"the memory limit was not kept: {[(name, most[name]) for name in over]}")
    answers = {count(name) for name in settings}
    if len(answers) > 1:
        raise RuntimeError(f"the algorithms found different trends: {answers}")
    [(_, found)] = answers
    verdicts = [
        Verdict(f"h-cet with memory for half the partial trends ({half / 1e6:,.0f} MB)", "h-cet, half", "m-cet", 0.5),
        *(Verdict(name, name, "", None) for name in settings),
    ]
    chart = {
        "title": "h-cet between m-cet and t-cet: 10,000 checks, 800 accounts",
        "x": "memory limit, MiB",
        "y": "million refs per second",
        "log_x": True,
        "log_y": True,
        "lines": {
            "h-cet": [[size, found / measured[f"h-cet, {size} MiB"]["median"] / 1e6] for size in MEMORY_LIMITS],
            "m-cet": [[size, found / measured["m-cet"]["median"] / 1e6] for size in (1, 1024)],
            "t-cet": [[size, found / measured["t-cet"]["median"] / 1e6] for size in (1, 1024)],
        },
        "about": "Published (SIGMOD'17): t-cet is fastest, h-cet near it with little memory, m-cet slowest. Here h-cet "
        "is faster than t-cet: partial trends of small graphlets stay in the caches and are counted as they are "
        "stitched. More memory than that does not help, so h-cet leaves it alone.",
    }
    notes = [f"{name} held {most[name] / MEBIBYTE:,.1f} MiB at its peak" for name in settings]
    about = f"10,000 checks, 800 accounts, one window, {found:,} refs, one core"
    return result(about, measured, verdicts, notes=notes, charts={"memory": chart})


ATOMS = (8, 10, 12, 14, 16, 18, 20)


def optimizers(events: Events, runs: int) -> Result:
    """Exhaustive search, branch and bound, and greedy, on graphs of more and more atomic graphlets."""
    costs = {atoms: _worst_case(atoms) for atoms in ATOMS}
    # Between what the atoms need by themselves and what the whole graph does, on a logarithmic scale.
    limits = {
        atoms: math.sqrt(sum(one.memory[k, k + 1] for k in range(atoms)) * one.memory[0, -1])
        for atoms, one in costs.items()
    }
    ways = {"exhaustive": exhaustive, "branch and bound": branch_and_bound, "greedy": greedy}
    actions = {
        f"{name}, {atoms}": lambda way=way, atoms=atoms: way(costs[atoms], limits[atoms])
        for name, way in ways.items()
        for atoms in ATOMS
    }
    measured = take_turns(actions, runs)
    for atoms in ATOMS:
        one, other = exhaustive(costs[atoms], limits[atoms]), branch_and_bound(costs[atoms], limits[atoms])
        if one.cpu != other.cpu:
            raise RuntimeError(f"branch and bound missed the best plan of {atoms} atoms: {other.cpu}, not {one.cpu}")
    verdicts = [Verdict("branch and bound, 20 atoms", "branch and bound, 20", "exhaustive, 20", 1 / 50)]
    chart = {
        "title": "Choosing cuts",
        "x": "atomic graphlets",
        "y": "seconds",
        "log_y": True,
        "lines": {name: [[n, measured[f"{name}, {n}"]["median"]] for n in ATOMS] for name in ways},
        "about": "Published (SIGMOD'17): branch and bound is two orders of magnitude faster than exhaustive search at "
        "20 graphlets; greedy is faster still, its plans are not optimal.",
    }
    about = "worst-case costs of atoms of 1 to 6 vertices, memory between that of the atoms and that of the graph"
    return result(about, measured, verdicts, charts={"optimizers": chart})


def _worst_case(atoms: int) -> Costs:
    """The published cost model; every graphlet is cached, as in the paper."""
    sizes = np.random.default_rng(atoms).integers(1, 7, atoms)
    return worst_case_costs(sizes)._replace(walk=None)


# ------------------------------------------------------------------------------------------------------- windows


def windows(events: Events, runs: int) -> Result:
    """Ten windows that overlap at any time, with and without shared graphs, plans and partial trends."""
    random = datasets.check_deposits(
        events.spark, events.scaled(100_000), accounts=events.scaled(20_000), not_covered=1, seconds=1
    )
    layered = datasets.layered_checks(events.spark, events.scaled(12_000), compatibility=3, rate=1.0)
    given = {
        "random accounts, windows of 20,000 checks": Input.of(
            random, CHAIN.within("20000 seconds", slide="2000 seconds"), "ends"
        ),
        "layers, windows of 30 checks and 59,049 trends": Input.of(
            layered, CHAIN.within("30 seconds", slide="3 seconds"), "maximal"
        ),
    }
    found: dict[tuple[str, str], Any] = {}

    def together(name: str) -> None:
        part, settings = given[name].part(), Settings()
        found[name, "shared"] = count_refs(part.graph, part.low, part.high, complete=True, settings=settings)

    def alone(name: str) -> None:
        one, settings = given[name], Settings(sharing=False)
        answers = []
        for window in range(len(one.chunk.slices.low)):
            [part] = one.graphs.parts(one.chunk, np.array([window]))
            answers.append(count_refs(part.graph, part.low, part.high, complete=True, settings=settings))
        found[name, "alone"] = tuple(np.concatenate(columns) for columns in zip(*answers))

    actions: dict[str, Callable[[], None]] = {}
    for name in given:
        actions[f"{name}, shared"] = lambda name=name: together(name)
        actions[f"{name}, alone"] = lambda name=name: alone(name)
    measured = take_turns(actions, runs)
    for name in given:
        for shared_column, alone_column in zip(found[name, "shared"], found[name, "alone"]):
            np.testing.assert_array_equal(shared_column, alone_column)
    first, second = given
    about = "graphs shared, against each window by itself"
    verdicts = [
        Verdict(f"{first}: {about}", f"{first}, shared", f"{first}, alone", 1 / 3),
        Verdict(f"{second}: {about}", f"{second}, shared", f"{second}, alone", None),
    ]
    notes = [
        f"{name}: {len(one.chunk.slices.low):,} windows, {int(found[name, 'shared'][1].sum()):,} refs"
        for name, one in given.items()
    ]
    notes.append("Where trends are many and windows small, listing them is most of the work, and that is not shared.")
    return result("windows of which ten overlap, one core", measured, verdicts, notes=notes)


# ------------------------------------------------------------------------------------------------ pairwise predicates

#: The second query of the SIGMOD'17 paper, whose pairwise predicate the rewriter makes one between neighbours.
CLIMB = (
    "PATTERN SEQ(Activity a, Activity+ b[]) "
    "WHERE [personID] AND b.rate < NEXT(b).rate AND a.rate*2 < b.rate AND b.type = 'passive'"
)
#: Where rates need not rise, each event of ``a`` has a graph of its own.
ABOVE = CLIMB.replace("b.rate < NEXT(b).rate", "b.activity = NEXT(b).activity")
TEN_MINUTES = " WITHIN 10 minutes SLIDE 1 minute"


def heart_rates(events: Events, runs: int) -> Result:
    """Complete trends of a query with a pairwise predicate: one trend of all events, and exponentially many."""
    rows, found = events.scaled(100_000), {}
    measured_rates = events.saved(f"rates-{rows}", lambda: datasets.heart_rates(events.spark, rows, persons=1))
    number = F.col("id")
    # From the second one on, each rate is more than twice the first, and more than the one before.
    climbing = events.spark.range(0, rows, 1, 1).select(
        F.timestamp_seconds(number).alias("ts"),
        F.lit("Activity").alias("kind"),
        F.lit("passive").alias("type"),
        F.lit(0).alias("personID"),
        F.when(number == 0, 40.0).otherwise(100 + 99 * number / rows).alias("rate"),
    )
    given = {
        "one trend of all events": Input.of(climbing, CLIMB, "maximal"),
        "windows of ten minutes, one every minute": Input.of(measured_rates, CLIMB + TEN_MINUTES, "maximal"),
        "one window": Input.of(measured_rates, CLIMB, "maximal"),
        "a graph for each event a": Input.of(measured_rates, ABOVE + TEN_MINUTES, "maximal"),
    }
    listed, *_ = given

    def once(name: str) -> None:
        one, trends = given[name], 0
        for part in one.graphs.parts(one.chunk):
            if name == listed:
                trends += int(count_refs(part.graph, part.low, part.high, complete=True)[0].sum())
            else:
                trends += sum(count_trends(part.graph, part.low, part.high, True).exact.tolist())
        found[name] = trends

    asked = cet.pattern(measured_rates, CLIMB + TEN_MINUTES, time="ts", type="kind")
    actions: dict[str, Callable[[], None]] = {name: lambda name=name: once(name) for name in given}
    actions["on Spark"] = lambda: discard(asked.count_complete_trends(number="string"))
    measured = take_turns(actions, runs)
    first, windowed, whole, each = given
    verdicts = [
        Verdict(f"{first}, listed", first, "", 1),
        Verdict(f"{windowed}, counted exactly", windowed, "", 1),
        Verdict(f"{whole}, counted exactly", whole, "", 1),
        Verdict("the windows by count_complete_trends(), Spark and reading included", "on Spark", "", None),
        Verdict(f"{windowed}, where no rate need rise: {each}", each, "", None),
    ]
    notes = [f"{name}, trends: {_size(trends)}" for name, trends in found.items()]
    about = "SEQ(a, b+), rates of b rise and are each more than twice that of a: 100,000 measurements, “maximal” trends"
    return result(f"{about}, one core", measured, verdicts, notes=notes)


def _size(trends: int) -> str:
    return f"{trends:,}" if trends < 2**63 else f"2^{trends.bit_length() - 1:,}"


# ----------------------------------------------------------------------------------------------------- whole jobs


#: Events and accounts of the jobs: few trends of many events, and many trends of few.
JOBS = ((200_000, 40_000), (10_000, 1_100))


def job(events: Events, runs: int) -> Result:
    """``complete_trends()`` as users call it, against a job that only emits arrays of the same schema and size."""
    actions: dict[str, Callable[[], None]] = {}
    verdicts, notes = [], []
    for rows, accounts in JOBS:
        name = f"{rows:,} checks, {accounts:,} accounts"
        listed = _listed(events, events.scaled(rows), events.scaled(accounts))
        size = F.size("trend")
        tasks = listed().groupBy(F.spark_partition_id()).agg(F.count("*"), F.sum(size)).collect()
        trends, found = (sum(row[column] for row in tasks) for column in (1, 2))
        floor = emitter(listed(), _of_the_mean_length(listed(), found / trends), trends)
        length = floor().agg(F.avg(size)).first()[0] / (found / trends)
        actions[f"{name}, emitted"] = lambda floor=floor: discard(floor())
        actions[name] = lambda listed=listed: discard(listed())
        verdicts.append(
            Verdict(f"{name}, complete_trends() against only emitting arrays", name, f"{name}, emitted", 1.2)
        )
        busiest = max(row[2] for row in tasks) / (found / len(tasks))
        notes.append(
            f"{name}: {trends:,} trends, {found:,} refs; the floor’s trends are {length:.2f} times as long; "
            f"the busiest of {len(tasks)} tasks lists {busiest:.3f} times the mean’s refs (limit 1.1)"
        )
    measured = take_turns(actions, runs)
    # Of the last job alone, as the first takes little longer than Spark by itself.
    measured |= {f"{number} cores": child("listed", events, runs, number) for number in (1, 2)}
    verdicts.append(Verdict(f"{name}, on two cores, against one core", "2 cores", "1 cores", round(1 / 1.7, 3)))
    return result("one group, “ends” trends with all columns, noop sink", measured, verdicts, notes=notes)


def listed(events: Events, runs: int) -> Result:
    """The job with most trends, as a session of its own runs it."""
    rows, accounts = JOBS[-1]
    job = _listed(events, events.scaled(rows), events.scaled(accounts))
    return take_turns({"listed": lambda: discard(job())}, runs)["listed"]


def two_stages(events: Events, runs: int) -> Result:
    """Both stages of anchors as Spark's tasks: on two cores, each has two at a time."""
    measured = {f"{number} cores": child("by_anchors", events, runs, number) for number in (1, 2)}
    rows, accounts = JOBS[-1]
    about = f"{rows:,} checks, {accounts:,} accounts, by anchors on two cores, against one core"
    verdicts = [Verdict(about, "2 cores", "1 cores", round(1 / 1.7, 3))]
    return result("one group, “ends” trends with all columns, algorithm='anchors', noop sink", measured, verdicts)


def by_anchors(events: Events, runs: int) -> Result:
    """The job of :func:`listed` by anchors."""
    rows, accounts = JOBS[-1]
    job = _listed(events, events.scaled(rows), events.scaled(accounts), "anchors")
    return take_turns({"listed": lambda: discard(job())}, runs)["listed"]


def _listed(events: Events, rows: int, accounts: int, algorithm: str = "auto") -> Callable[[], DataFrame]:
    df = events.saved(
        f"checks-{rows}-{accounts}",
        lambda: datasets.check_deposits(events.spark, rows, accounts=accounts, not_covered=1, seconds=1),
    )
    return lambda: cet.pattern(df, CHAIN, time="ts", type="kind").complete_trends("ends", algorithm)


def _of_the_mean_length(trends: DataFrame, mean: float) -> pa.Table:
    """Some 8,000 trends of the two lengths next to the mean, in the proportion that gives the mean."""
    low, size = math.floor(mean), F.size("trend")
    longer = round(8_192 * (mean - low))
    parts = [trends.filter(size == low + more).limit(n) for more, n in ((0, 8_192 - longer), (1, longer)) if n]
    return pa.concat_tables([part.toArrow() for part in parts])


RACES = {
    race.__name__: race for race in (refs, counting, graph, memory, optimizers, windows, heart_rates, job, two_stages)
}
CHILDREN = {"listed": listed, "by_anchors": by_anchors}
