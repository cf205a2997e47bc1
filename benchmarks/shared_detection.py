"""Detection of hundreds of patterns in one pass, along aggregation plans: those of cetdsl, and those of other methods.

    python benchmarks/shared_detection.py [folder of workloads] [--only plans|sizes|prefixes|flat|memory]

The events have the shape of those of the PatternInsight paper (Wu et al., IEEE TMC): 449 places, each of which reports
every five minutes. A report has a ``level``, by Zipf's law, and one of five restrictions. The patterns look for
abnormal reports, whose level is so high that a place has about one of them in the time that a pattern may last. Without
a folder of workloads they are generated. Seconds are processor seconds of one core, from sorted events in memory on.

The contestants are aggregation plans, all run by one kernel: those that cetdsl makes by CASEM and DCE (see
:mod:`cetdsl.sharing.aggregation`), and those of SPASS and of a random walk (see :mod:`aggregation_plans`).
"""

from __future__ import annotations

import argparse
import copy
import gc
import json
import math
import random
import resource
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, reduce
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import attrs
import numpy as np
import numpy.typing as npt
from aggregation_plans import TYPES, generated, plan_of_single_level, random_walk, spass

import cetdsl as cet
from cetdsl.analysis.resolve import Binding, analyse
from cetdsl.datasets import read_workload
from cetdsl.detection.statistics import given_statistics
from cetdsl.frontend.sase import parse
from cetdsl.ir.schema import Field, Schema
from cetdsl.ir.slots import TESTS_IN_WORD
from cetdsl.ir.windowing import Windowing
from cetdsl.kernels.instances.detector import Detector
from cetdsl.kernels.vocabulary import Events
from cetdsl.kernels.wire.chunks import CHUNK_EVENTS
from cetdsl.kernels.wire.windows import NEVER, cut_slices
from cetdsl.pattern.expressions import Attribute, Binary, Call, Expr, Literal
from cetdsl.pattern.nodes import And, Event, Not, Pattern, Seq
from cetdsl.pattern.query import Query
from cetdsl.planning.instances import Wanted, join_vertices
from cetdsl.planning.slots import Numbers, alternatives_of
from cetdsl.rewrite import rewrite
from cetdsl.sharing.aggregation.plan import PlanData
from cetdsl.sharing.aggregation.skeletons import skeleton
from cetdsl.sharing.aggregation.subpatterns import SubPattern
from cetdsl.sharing.aggregation.worth import Expected

EVERY_MINUTES = 5
MINUTE = 60_000_000
RESTRICTIONS = 5
#: The numbers of patterns over which the time of a workload is shown.
SIZES = (50, 100, 200, 500, 1_000)
#: SPASS as published: the kernel builds all instances of shared sub-patterns, from all events that fit.
BUILT = "SPASS, all built"
#: Our plan if it is known how often events come.
OURS = "casem+dce, weighed"
#: Of patterns that begin alike: the number of types, and how many abnormal reports of each come while one may last.
FEW_TYPES, BEGIN_ALIKE_OFTEN = 40, 4.0
SCHEMA = Schema([Field("ts", "timestamp"), Field("type", "string"), Field("level", "int"), Field("restriction", "int")])
Ints = npt.NDArray[np.int64]


# Events --------------------------------------------------------------------------------------------------------------


class Reports(NamedTuple):
    """Reports in the order of their times, in microseconds; the place is a number of ``names``."""

    names: tuple[str, ...]
    time: Ints
    place: Ints
    columns: dict[str, Ints]

    @property
    def seconds(self) -> float:
        """How long they take."""
        return (int(self.time[-1]) - int(self.time[0])) / 1e6


def reports(names: Sequence[str], count: int, seed: int = 20_240_611) -> Reports:
    """So many reports of some places; each reports once in any five minutes."""
    chance = np.random.default_rng(seed)
    number = np.arange(count)
    time = (number // len(names)) * EVERY_MINUTES * MINUTE
    time += (chance.random(count) * EVERY_MINUTES * MINUTE).astype(np.int64)
    place = number % len(names)
    order = np.argsort(time, kind="stable")
    # One in n reports has a level of n or more.
    level = np.floor(1 / np.maximum(chance.random(count), 1e-9)).astype(np.int64)
    shares = 1 / np.arange(1, RESTRICTIONS + 1)
    restriction = np.searchsorted(np.cumsum(shares / shares.sum()), chance.random(count)).astype(np.int64)
    columns = {"level": level, "restriction": np.minimum(restriction, RESTRICTIONS - 1)}
    return Reports(tuple(names), time[order], place[order].astype(np.int64), {k: c[order] for k, c in columns.items()})


def abnormal(queries: Mapping[str, Query], often: float) -> dict[str, Query]:
    """The queries over abnormal reports only: those of a level that a place reports ``often`` while a pattern may last.

    ``often`` is the number of such reports on the average. Negated events may be reports of any level.
    """
    minutes = [query.window.length.amount / MINUTE for query in queries.values() if query.window is not None]
    level = max(round(sum(minutes) / len(minutes) / EVERY_MINUTES / often), 1)

    def changed(node: Pattern, least: int = level) -> Pattern:
        if isinstance(node, Event):
            return attrs.evolve(node, condition=Binary(">=", Attribute(node.variable, "level"), Literal(least)))
        if isinstance(node, Not):
            return Not(changed(node.part, 1))
        assert isinstance(node, (Seq, And))
        return type(node)(tuple(map(changed, node.parts)))

    return {name: attrs.evolve(query, pattern=changed(query.pattern)) for name, query in queries.items()}


def prefixed(patterns: int, prefixes: int = 20, events: int = 4, seed: int = 3) -> dict[str, Query]:
    """Sequences over few types that begin alike: some abnormal reports with no report of a certain place between them.

    Between most reports there is one of that place, so many pairs must be looked at to find few: this work is shared.
    """
    chance = random.Random(seed)
    kinds = [f"T{number}" for number in range(FEW_TYPES)]
    beginnings = [chance.sample(kinds, events + 1) for _ in range(prefixes)]
    queries = {}
    for number in range(patterns):
        first, *others, absent = beginnings[number % prefixes]
        last = chance.choice([kind for kind in kinds if kind not in beginnings[number % prefixes]])
        inner = ", ".join(f"NOT {absent} gap{place}, {kind}" for place, kind in enumerate(others))
        queries[f"p{number}"] = parse(f"PATTERN SEQ({first}, {inner}, {last}) WITHIN 100 minutes")
    return queries


def statistics_of(stream: Reports, queries: Mapping[str, Query]) -> dict[str, dict[Any, float]]:
    """The rates of types, and the share of their events that meet the conditions, as a user would count them."""
    counts = np.bincount(stream.place, minlength=len(stream.names))
    level = next(
        part.right.value
        for query in queries.values()
        for part in skeleton_terms(query)
        if isinstance(part, Binary) and part.op == ">=" and isinstance(part.right, Literal)
    )
    share = float(np.mean(stream.columns["level"] >= level))
    return {
        "rates": {name: float(count) / stream.seconds for name, count in zip(stream.names, counts, strict=True)},
        "selectivities": dict.fromkeys(stream.names, share),
    }


def skeleton_terms(query: Query) -> Iterator[Expr]:
    """The conditions of a query's events."""
    todo: list[Pattern] = [query.pattern]
    while todo:
        node = todo.pop()
        if isinstance(node, Event):
            if node.condition is not None:
                yield node.condition
        else:
            todo += node.children


# The kernel ----------------------------------------------------------------------------------------------------------


class Work(NamedTuple):
    """What a run took and did."""

    seconds: float
    #: Instances that were written down: those of sub-patterns, and matches.
    built: int
    matches: int
    not_kept: int


class Laid:
    """Queries in the form in which a worker has them, along an aggregation plan; None shares nothing."""

    def __init__(self, queries: Mapping[str, Query], plan: PlanData | None) -> None:
        self.numbers = Numbers("type")
        self.wanted = {}
        for number, (name, query) in enumerate(queries.items()):
            resolved = rewrite(analyse(query, SCHEMA, Binding("ts")))[0]
            self.wanted[name] = Wanted(number, alternatives_of(resolved, self.numbers), None)
        self.vertices = join_vertices(plan, self.wanted)
        self.span = max(query.window.length.amount for query in queries.values() if query.window is not None)

    def along(self, plan: PlanData | None) -> Laid:
        """The same queries along another plan."""
        other = copy.copy(self)
        other.vertices = join_vertices(plan, self.wanted)
        return other

    def chunks(self, stream: Reports) -> Iterator[tuple[Any, ...]]:
        """The events that any query looks at, as a worker reads them: each match begins in one chunk."""
        kinds = np.array([self.numbers.kinds.get(name, -1) for name in stream.names])[stream.place]
        words = np.zeros((-(-len(self.numbers.tests) // TESTS_IN_WORD), len(kinds)), dtype=np.int64)
        for test, number in self.numbers.tests.items():
            words[number // TESTS_IN_WORD] |= holds(test, stream).astype(np.int64) << number % TESTS_IN_WORD
        used = np.nonzero((kinds >= 0) & (words != 0).any(axis=0))[0]
        time = stream.time[used]
        for begin in range(0, len(used), CHUNK_EVENTS):
            end = min(begin + CHUNK_EVENTS, len(used))
            until = int(np.searchsorted(time, time[end - 1] + self.span, side="right"))
            last = -NEVER if end == len(used) else int(time[end]) - 1
            first = NEVER if begin == 0 else int(time[begin])
            yield self._arrays(time[begin:until], kinds[used[begin:until]], words[:, used[begin:until]], first, last)

    @staticmethod
    def _arrays(time: Ints, kinds: Ints, words: Ints, first: int, last: int) -> tuple[Any, ...]:
        none, start = np.zeros(0, dtype=np.int64), np.array([0, len(time)])
        instant = np.cumsum(np.append(True, time[1:] != time[:-1])) - 1
        codes, valid = np.zeros((0, len(time)), dtype=np.int64), np.zeros((0, len(time)), dtype=np.bool_)
        events = Events(start, time, instant, time, codes, valid, np.zeros((0, len(time) + 1), dtype=np.int64), none)
        slices = cut_slices(Windowing(), start, time, np.zeros(1, dtype=np.int64), True, NEVER)
        return events, kinds, np.ascontiguousarray(words), slices, (np.array([first]), np.array([last]))

    def run(self, stream: Reports, *, frugal: bool = True) -> Work:
        """Lists all matches, but keeps only their number. For ``frugal`` see :class:`Detector`."""
        detector = Detector(self.vertices, frugal=frugal)
        begin, matches = time.process_time(), 0
        for arrays in self.chunks(stream):
            for _, block in detector.find(*arrays):
                matches += len(block.slice)
        seconds = time.process_time() - begin
        return Work(seconds, int(detector.built.sum()), matches, int(detector.not_kept.sum()))


def holds(test: Expr, stream: Reports) -> npt.NDArray[np.bool_]:
    """Which reports meet a condition."""
    if isinstance(test, Binary) and test.op in ("and", "or"):
        return {"and": np.logical_and, "or": np.logical_or}[test.op](
            holds(test.left, stream), holds(test.right, stream)
        )
    if isinstance(test, Call) and test.name == "in":
        parts = [Binary("=", test.arguments[0], choice) for choice in test.arguments[1:]]
        return reduce(np.logical_or, [holds(part, stream) for part in parts])
    assert isinstance(test, Binary), test
    assert isinstance(test.left, Attribute), test
    assert isinstance(test.right, Literal), test
    column = stream.columns[test.left.name]
    return {">=": np.greater_equal, "=": np.equal}[test.op](column, test.right.value)


def take_turns(contestants: Mapping[str, Callable[[], Work]], runs: int) -> dict[str, list[Work]]:
    """Runs each contestant once to warm up, and then in turns; raises unless all find as many matches."""
    found: dict[str, list[Work]] = {name: [] for name in contestants}
    names = list(contestants)
    for turn in range(runs + 1):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            gc.collect()
            work = contestants[name]()
            if turn:
                found[name].append(work)
    matches = {work.matches for works in found.values() for work in works}
    if len(matches) > 1:
        raise RuntimeError(f"contestants found different numbers of matches: {sorted(matches)}")
    return found


# Races ---------------------------------------------------------------------------------------------------------------


def contestants(queries: Mapping[str, Query], stream: Reports) -> dict[str, PlanData | None]:
    """Plans by name; those of other methods are given the same statistics as ours."""
    given = statistics_of(stream, queries)
    known = given_statistics(given, None)
    patterns = [skeleton(query).pattern for query in queries.values()]

    def instances(pattern: SubPattern) -> float:
        return Expected(pattern, known).log((1 << len(pattern.slots)) - 1)

    return {
        "no sharing": None,
        "SPASS": plan_of_single_level(queries, spass(patterns, instances)),
        "random walk": plan_of_single_level(queries, random_walk(patterns, instances)),
        "casem-2": cet.aggregation_plan(queries, "casem-2"),
        "casem": cet.aggregation_plan(queries, "casem"),
        "casem+dce": cet.aggregation_plan(queries),
        OURS: cet.aggregation_plan(queries, statistics=given),
    }


def places_of(queries: Mapping[str, Query]) -> list[str]:
    """The types of the queries, and further ones up to 449."""
    named = sorted({str(kind) for query in queries.values() for kind in skeleton(query).pattern.kinds})
    return named + [f"other {number}" for number in range(TYPES - len(named))]


def alone(queries: Mapping[str, Query], stream: Reports) -> Work:
    """Each query by itself, one after the other."""
    works = [laid.run(stream) for laid in [Laid({name: query}, None) for name, query in queries.items()]]
    return Work(*map(sum, zip(*works, strict=True)))


def run_plans(
    queries: Mapping[str, Query], events: int, often: float, runs: int, *, also_alone: bool
) -> dict[str, Any]:
    """All plans for one workload, and each query by itself."""
    queries = abnormal(queries, often)
    stream = reports(places_of(queries), events)
    laid, ways = Laid(queries, None), dict[str, Callable[[], Work]]()
    plans = contestants(queries, stream)
    for name, plan in plans.items():
        ways[name] = partial(laid.along(plan).run, stream)
        if name == "SPASS" and also_alone:
            ways[BUILT] = partial(laid.along(plan).run, stream, frugal=False)
    found = take_turns(ways, runs)
    if also_alone:
        found["one after another"] = [alone(queries, stream)]
    return summed_up(found, plans)


def told_of(plan: PlanData | None) -> dict[str, Any]:
    """How much a plan shares; also its entropy, if it was found by minimizing entropy."""
    if plan is None:
        return {}
    shared = sum(vertex.query is None for vertex in plan.vertices)
    told: dict[str, Any] = {"sub-patterns": shared, "slots": plan.slots, "slots of roots": plan.root_slots}
    return told if math.isnan(plan.entropy) else told | {"entropy": plan.entropy}


def run_prefixed(events: int, runs: int) -> dict[str, Any]:
    """500 sequences over few types that begin alike, along our plan and without one."""
    queries = abnormal(prefixed(500), BEGIN_ALIKE_OFTEN)
    stream, laid = reports([f"T{number}" for number in range(FEW_TYPES)], events), Laid(queries, None)
    plans = {"no sharing": None, "casem+dce": cet.aggregation_plan(queries)}
    found = take_turns({name: partial(laid.along(plan).run, stream) for name, plan in plans.items()}, runs)
    return summed_up(found, plans)


def summed_up(found: Mapping[str, Sequence[Work]], plans: Mapping[str, PlanData | None]) -> dict[str, Any]:
    """What is told of each contestant: its work, and the numbers of its plan."""
    told = {}
    for name, works in found.items():
        told[name] = {"seconds": median(work.seconds for work in works), "instances": works[0].built}
        told[name] |= {"matches": works[0].matches, "not kept": works[0].not_kept} | told_of(plans.get(name))
    return told


def run_flat(events: int, runs: int) -> float:
    """How many times as long it takes with a plan as without one if patterns have nothing in common."""
    chance = random.Random(1)
    kinds = [f"T{number}" for number in range(TYPES)]
    chance.shuffle(kinds)
    queries = {}
    for number in range(TYPES // 4):
        text = f"PATTERN SEQ({', '.join(kinds[4 * number : 4 * number + 4])}) WITHIN 100 minutes"
        queries[f"p{number}"] = parse(text)
    queries = abnormal(queries, 1.0)
    stream, laid = reports(kinds, events), Laid(queries, None)
    plan = cet.aggregation_plan(queries)
    assert not plan.edges, "no two patterns are alike"
    ways = {"plan": partial(laid.along(plan).run, stream), "none": partial(laid.run, stream)}
    found = take_turns(ways, runs)
    return median(work.seconds for work in found["plan"]) / median(work.seconds for work in found["none"])


def run_ours(queries: Mapping[str, Query], events: int, often: float) -> Work:
    """Our plan alone, for the memory that it takes."""
    queries = abnormal(queries, often)
    stream = reports(places_of(queries), events)
    plan = cet.aggregation_plan(queries, statistics=statistics_of(stream, queries))
    return Laid(queries, plan).run(stream)


def tell(title: str, told: Mapping[str, Mapping[str, Any]], base: str = "SPASS") -> None:
    """Prints a table of the plans of a workload, each in proportion to ``base``: SPASS is as published if that ran."""
    print(f"\n{title}\n\n| plan | s | to {base} | instances | to {base} | matches |\n|---|--:|--:|--:|--:|--:|")
    first = told[BUILT] if base == "SPASS" and BUILT in told else told[base]
    for name, one in told.items():
        seconds, instances = one["seconds"] / first["seconds"], one["instances"] / max(first["instances"], 1)
        cells = (f"{one['seconds']:.3f}", f"{seconds:.2f}", f"{one['instances']:,}", f"{instances:.3f}")
        print(f"| {name} | {' | '.join(cells)} | {one['matches']:,} |", flush=True)


def draw(results: Mapping[str, Any], events: int, path: Path) -> None:
    """Seconds per million events, and instances, by the number of patterns: as figures 10 and 11 of the paper."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "cetdsl"
    import matplotlib.pyplot as plt

    sizes = [size for size in SIZES if f"first {size}" in results]
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for name in results[f"first {sizes[0]}"]:
        told = [results[f"first {size}"][name] for size in sizes]
        style = {"marker": "o", "linewidth": 2.4 if name == OURS else 1.3, "label": name}
        left.plot(sizes, [1e6 * one["seconds"] / events for one in told], **style)
        right.plot(sizes, [max(one["instances"], 1) for one in told], **style)
    left.set(title="Time", xlabel="patterns", ylabel="seconds per million events", ylim=(0, None))
    right.set(title="Instances written down", xlabel="patterns", ylabel="instances", yscale="log")
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    left.legend(frameon=False, fontsize=9)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, help="workloads as JSON files")
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument(
        "--often", type=float, default=0.75, help="abnormal reports of a place while a pattern may last"
    )
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", choices=["plans", "sizes", "prefixes", "flat", "memory"])
    parser.add_argument("--output", type=Path, help="a folder for the numbers and the picture")
    arguments = parser.parse_args()
    if arguments.output is not None:
        arguments.output.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {}
    if arguments.only in (None, "plans"):
        for name in ("traffic-500", "pollution-500"):
            queries = workload(arguments.folder, name)
            told = run_plans(queries, arguments.events, arguments.often, arguments.runs, also_alone=True)
            tell(f"{name}, {arguments.events:,} events", told)
            results[name] = told
    if arguments.only in (None, "sizes"):
        whole = workload(arguments.folder, "traffic-1000")
        for size in SIZES:
            some = dict(list(whole.items())[:size])
            told = run_plans(some, arguments.events, arguments.often, arguments.runs, also_alone=False)
            tell(f"the first {size:,} of traffic-1000, {arguments.events:,} events", told)
            results[f"first {size}"] = told
    if arguments.only in (None, "prefixes"):
        events = min(arguments.events, CHUNK_EVENTS)
        told = run_prefixed(events, arguments.runs)
        tell(f"500 patterns of {FEW_TYPES} types that begin alike, {events:,} events", told, base="no sharing")
        results["prefixes"] = told
    if arguments.only in (None, "flat"):
        results["flat"] = run_flat(arguments.events, arguments.runs)
        print(f"\nA flat plan takes {results['flat']:.3f} times as long as none.")
    if arguments.only == "memory":
        run_ours(workload(arguments.folder, "traffic-500"), arguments.events, arguments.often)
    results["peak MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"\nPeak of memory: {results['peak MB']:.0f} MB, with events and plans.")
    if arguments.output is not None:
        path = arguments.output / "shared_detection.json"
        text = json.dumps(results, indent=1) + "\n"
        path.write_text(text, encoding="utf-8")
        if any(name.startswith("first") for name in results):
            draw(results, arguments.events, arguments.output / "shared-detection.svg")


def workload(folder: Path | None, name: str) -> Mapping[str, Query]:
    """A workload of the folder, or a generated one of as many patterns."""
    return generated(int(name.split("-")[1])) if folder is None else read_workload(folder / f"{name}.json")


if __name__ == "__main__":
    main()
