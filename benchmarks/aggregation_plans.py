"""Planning what hundreds of patterns share: seconds, slots, growth, and the plans of two other methods.

    python benchmarks/aggregation_plans.py [folder of workloads] [--runs 3] [--baselines 500]

Without a folder the workloads are generated: types of events lie scattered in a city, and each pattern is over
neighbouring ones. Seconds are processor seconds, of which the least of all runs is told. The authors' program is that
of the public repository of PatternInsight (Wu et al., IEEE TMC); it was run with Python on a machine of this kind.
CASEM and DCE are the two steps of their planning (:mod:`cetdsl.sharing.aggregation.casem` and ``.dce``). *Slots* are
the kinds of events that a plan's patterns take themselves, without those of the sub-patterns that they are made of.
"""

from __future__ import annotations

import argparse
import gc
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import cetdsl as cet
from cetdsl.datasets import read_workload
from cetdsl.pattern.expressions import Attribute, Binary, Literal
from cetdsl.pattern.nodes import And, Event, Pattern, Seq
from cetdsl.pattern.query import Query, Window
from cetdsl.pattern.spans import Span
from cetdsl.sharing.aggregation.plan import Edge, PlanData, Vertex
from cetdsl.sharing.aggregation.skeletons import skeleton
from cetdsl.sharing.aggregation.subpatterns import Common, SubPattern, common

#: Processor seconds of the authors' program for CASEM, and slots of its plans: in all, and at the roots.
AUTHORS: dict[str, tuple[float, int | None, int | None]] = {
    "traffic-100": (0.15, None, None),
    "traffic-500": (5.9, 4_596, 220),
    "traffic-1000": (47.0, None, None),
    "traffic-2000": (424.0, None, None),
    "pollution-100": (0.14, None, None),
    "pollution-500": (6.2, None, None),
    "pollution-800": (26.0, None, None),
    "pollution-1000": (56.0, 8_656, 418),
}
#: The same with DCE.
AUTHORS_COMPENSATED = {"traffic-500": (4_547, 265), "pollution-1000": (8_600, 464)}
TYPES = 449
GROWTH = (500, 1_000, 2_000, 5_000, 10_000)
#: The minutes between two events of a type, and the share of events that a restriction lets through.
EVERY, SELECTED = 5.0, 0.25


def generated(patterns: int, seed: int = 0) -> dict[str, Query]:
    """Patterns of the shape of the published ones: 5 to 30 types near a place, some in order, within an hour or two."""
    chance = random.Random(seed)
    places = [(chance.random(), chance.random()) for _ in range(TYPES)]
    made = {}
    for number in range(patterns):
        x, y = chance.choice(places)
        near = sorted(range(TYPES), key=lambda kind: (places[kind][0] - x) ** 2 + (places[kind][1] - y) ** 2)
        size = chance.randint(5, 30)
        names = [f"T{kind}" for kind in chance.sample(near[: size + 5], size)]
        events: list[Pattern] = [Event(name, name) for name in names]
        nested = chance.randint(2, size // 2)
        if chance.random() < 0.6:
            events = [Seq(tuple(events[:nested])), *events[nested:]]
        condition = Literal(chance.randrange(4))
        where = [Binary("=", Attribute(name, "restriction"), condition) for name in chance.sample(names, size // 3)]
        window = Window(Span.parse(f"{chance.choice([60, 80, 100, 120, 140])} minutes"))
        made[f"p{number}"] = Query(And(tuple(events)), tuple(where), window=window)
    return made


def least_seconds(run: Callable[[], Any], runs: int) -> tuple[float, Any]:
    """The processor seconds of the fastest run, and what it gave."""
    best, answer = math.inf, None
    for _ in range(runs):
        gc.collect()
        begin = time.process_time()
        answer = run()
        best = min(best, time.process_time() - begin)
    return best, answer


# Other methods -------------------------------------------------------------------------------------------------------


class Shared(NamedTuple):
    """A sub-pattern of a plan of a single level, in which no sub-pattern is made of others.

    ``taken`` has the slots that it takes of each pattern that shares it.
    """

    pattern: SubPattern
    taken: dict[int, tuple[int, ...]]


def log_instances(pattern: SubPattern) -> float:
    """The logarithm of the expected instances within the pattern's span, or within an hour."""
    minutes = 60.0 if pattern.span is None else pattern.span.amount / 60e6
    total = 0.0
    for slot in pattern.slots:
        total += math.log(
            minutes / EVERY * sum(1.0 if c.anything else SELECTED * len(c.boxes) for _, c in slot.choices)
        )
    chained = max((mask.bit_count() + 1 for mask in pattern.later), default=1)
    return total - math.lgamma(chained + 1)


#: The logarithm of how many instances of a pattern are expected.
Instances = Callable[[SubPattern], float]


def _contained(shared: SubPattern, pattern: SubPattern, free: Sequence[int]) -> tuple[int, ...] | None:
    """The slots among the free ones that a sub-pattern takes, if the pattern has it as a whole."""
    if not shared.kinds <= pattern.kinds:
        return None
    both = common(shared, pattern.restricted(free))
    return tuple(free[slot] for slot in both.second) if both is not None and both.covers_first(shared) else None


def spass(patterns: Sequence[SubPattern], instances: Instances = log_instances) -> list[Shared]:
    """Single-level sharing directed by statistics: the sub-patterns that save most instances first, none overlapping.

    Ray, Lei and Rundensteiner (SIGMOD 2016) look at all sub-patterns of all patterns. The ones of two patterns that are
    part of a longer one of the same two save less, so the longest of each pair are the candidates here.
    """
    candidates: dict[tuple[Any, ...], Shared] = {}
    for i, first in enumerate(patterns):
        for second in patterns[i + 1 :]:
            if len(first.kinds & second.kinds) < 2:
                continue
            both = common(first, second)
            if both is not None and len(both.pattern.slots) >= 2:
                key = (both.pattern.kinds, both.pattern.later)
                candidates.setdefault(key, Shared(both.pattern, {}))
    free = [list(range(len(pattern.slots))) for pattern in patterns]
    for shared in candidates.values():
        for number, pattern in enumerate(patterns):
            slots = _contained(shared.pattern, pattern, free[number])
            if slots is not None:
                shared.taken[number] = slots

    def saved(shared: Shared) -> float:
        """The logarithm of the instances that are not built again by those that share a sub-pattern."""
        return instances(shared.pattern) + math.log(max(len(shared.taken) - 1, 1e-9))

    chosen: list[Shared] = []
    for shared in sorted(candidates.values(), key=saved, reverse=True):
        taken = {number: slots for number, slots in shared.taken.items() if set(slots) <= set(free[number])}
        if len(taken) > 1:
            chosen.append(Shared(shared.pattern, taken))
            for number, slots in taken.items():
                free[number] = [slot for slot in free[number] if slot not in slots]
    return chosen


def random_walk(patterns: Sequence[SubPattern], instances: Instances = log_instances, seed: int = 0) -> list[Shared]:
    """Single-level sharing found on a random walk from pattern to pattern (Kolchinsky and Schuster, SIGMOD 2019).

    Each step looks at one pair that has types in common, and lets it share what saves most: what either shares already,
    or what both have left. The walk ends when each pair has been looked at, so that no better plan is left on its way.
    """
    chance = random.Random(seed)
    linked: list[set[int]] = [set() for _ in patterns]
    for i, first in enumerate(patterns):
        for j in range(i + 1, len(patterns)):
            if len(first.kinds & patterns[j].kinds) >= 2:
                linked[i].add(j)
                linked[j].add(i)
    free = [list(range(len(pattern.slots))) for pattern in patterns]
    sharing: list[list[Shared]] = [[] for _ in patterns]
    chosen: list[Shared] = []
    todo = {i for i, those in enumerate(linked) if those}
    at = 0
    while todo:
        if not linked[at]:
            todo.discard(at)
            at = chance.choice(sorted(todo)) if todo else at
            continue
        other = chance.choice(sorted(linked[at]))
        linked[at].discard(other)
        linked[other].discard(at)
        _let_share(patterns, free, sharing, chosen, at, other, instances)
        at = other
    return chosen


def _let_share(
    patterns: Sequence[SubPattern],
    free: list[list[int]],
    sharing: list[list[Shared]],
    chosen: list[Shared],
    first: int,
    second: int,
    instances: Instances,
) -> None:
    joins: list[tuple[float, Shared, int, tuple[int, ...]]] = []
    for one, other in ((first, second), (second, first)):
        for shared in sharing[one]:
            slots = None if other in shared.taken else _contained(shared.pattern, patterns[other], free[other])
            if slots is not None:
                joins.append((instances(shared.pattern), shared, other, slots))
    both: Common | None = common(patterns[first].restricted(free[first]), patterns[second].restricted(free[second]))
    best = max(joins, key=lambda join: join[0], default=None)
    if both is not None and len(both.pattern.slots) >= 2 and (best is None or instances(both.pattern) > best[0]):
        taken = {
            first: tuple(free[first][slot] for slot in both.first),
            second: tuple(free[second][slot] for slot in both.second),
        }
        shared = Shared(both.pattern, taken)
        chosen.append(shared)
        for number, slots in taken.items():
            sharing[number].append(shared)
            free[number] = [slot for slot in free[number] if slot not in slots]
    elif best is not None:
        _, shared, number, slots = best
        shared.taken[number] = slots
        sharing[number].append(shared)
        free[number] = [slot for slot in free[number] if slot not in slots]


def single_level_slots(patterns: Sequence[SubPattern], chosen: Sequence[Shared]) -> tuple[int, int]:
    """The slots of a plan of a single level: in all, and those of sub-patterns and of patterns that share nothing."""
    kept = [shared for shared in chosen if len(shared.taken) > 1]
    roots = sum(len(shared.pattern.slots) for shared in kept)
    taken = [sum(len(shared.taken.get(number, ())) for shared in kept) for number in range(len(patterns))]
    alone = sum(len(pattern.slots) for pattern, slots in zip(patterns, taken, strict=True) if not slots)
    return roots + sum(len(p.slots) for p in patterns) - sum(taken), roots + alone


def plan_of_single_level(queries: Mapping[str, Query], chosen: Sequence[Shared]) -> PlanData:
    """The plan in which queries share these sub-patterns, for the kernel that runs any plan."""
    kept = [shared for shared in chosen if len(shared.taken) > 1]
    first = len(queries)
    edges = [Edge(first + n, child, slots) for n, shared in enumerate(kept) for child, slots in shared.taken.items()]
    above: dict[int, list[Edge]] = {}
    for edge in edges:
        above.setdefault(edge.child, []).append(edge)
    vertices = []
    for number, (name, query) in enumerate(queries.items()):
        found, own = skeleton(query), above.get(number, [])
        taken = {slot for edge in own for slot in edge.slots}
        left = tuple(slot for slot in range(len(found.pattern.slots)) if slot not in taken)
        parents = tuple(edge.parent for edge in own)
        vertices.append(Vertex(number, found.pattern, 1 + bool(own), parents, name, found.variables, left))
    shared_ones = [
        Vertex(first + n, shared.pattern, 1, own=tuple(range(len(shared.pattern.slots))))
        for n, shared in enumerate(kept)
    ]
    vertices.sort(key=lambda vertex: vertex.level)
    return PlanData(dict(queries), (*shared_ones, *vertices), tuple(edges), math.nan)


# Tables --------------------------------------------------------------------------------------------------------------


def _row(*cells: object) -> None:
    print("| " + " | ".join(f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in cells) + " |", flush=True)


def _head(*cells: str) -> None:
    print()
    _row(*cells)
    _row(*("---" for _ in cells))


def tell_plans(workloads: Mapping[str, Mapping[str, Query]], runs: int) -> None:
    """Seconds, slots and entropy of each workload's plans, beside those of the authors' program."""
    _head("workload", "algorithm", "s", "authors' s", "times as fast", "slots", "theirs", "of roots", "theirs", "bits")
    for name, queries in workloads.items():
        theirs = AUTHORS.get(name, (None, None, None))
        for algorithm in ("casem-2", "casem", "casem+dce"):
            seconds, plan = least_seconds(lambda q=queries, a=algorithm: cet.aggregation_plan(q, a), runs)
            known = AUTHORS_COMPENSATED.get(name, (None, None)) if algorithm == "casem+dce" else theirs[1:]
            known = (None, None) if algorithm == "casem-2" else known
            measured = theirs[0] if algorithm == "casem" else None
            ratio = f"{measured / seconds:.0f}" if measured else "-"
            figures = (plan.slots, known[0] or "-", plan.root_slots, known[1] or "-", f"{plan.entropy:.3f}")
            _row(name, algorithm, f"{seconds:.3f}", measured or "-", ratio, *figures)


def tell_baselines(workloads: Mapping[str, Mapping[str, Query]], most: int) -> None:
    """Seconds and slots of single-level sharing, of workloads that are not too large."""
    _head("workload", "method", "s", "sub-patterns", "slots", "of roots")
    for name, queries in workloads.items():
        if len(queries) > most:
            continue
        patterns = [skeleton(query).pattern for query in queries.values()]
        _row(name, "none", "-", 0, *single_level_slots(patterns, []))
        for method in (spass, random_walk):
            seconds, chosen = least_seconds(lambda m=method, p=patterns: m(p), 1)
            _row(name, method.__name__, f"{seconds:.1f}", len(chosen), *single_level_slots(patterns, chosen))


def tell_growth(runs: int) -> None:
    """Seconds of generated workloads by their size, and the power of the size that they grow with."""
    _head("generated patterns", "s", "slots", "sub-patterns", "levels", "power since the first")
    first = None
    for patterns in GROWTH:
        queries = generated(patterns)
        seconds, plan = least_seconds(lambda q=queries: cet.aggregation_plan(q), runs)
        first = first or seconds
        power = math.log(seconds / first) / math.log(patterns / GROWTH[0]) if patterns > GROWTH[0] else None
        shared = len(plan.vertices) - patterns
        _row(patterns, f"{seconds:.3f}", plan.slots, shared, len(plan.levels), "-" if power is None else f"{power:.2f}")


def tell_changes(queries: Mapping[str, Query], coming: Mapping[str, Query]) -> None:
    """Milliseconds to add a pattern to a plan, and to remove it."""
    plan = cet.aggregation_plan(queries)
    adding, removing = [], []
    for name, query in coming.items():
        seconds, more = least_seconds(lambda n=name, q=query: plan.adding(f"new {n}", q), 3)
        adding.append(1e3 * seconds)
        removing.append(1e3 * least_seconds(lambda n=name, m=more: m.removing(f"new {n}"), 3)[0])
    _head(f"to or from {len(queries):,} patterns", "median ms", "most ms")
    for what, found in (("adding one", adding), ("removing one", removing)):
        _row(what, f"{sorted(found)[len(found) // 2]:.1f}", f"{max(found):.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, help="workloads as JSON files")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--baselines", type=int, default=500, help="other methods for at most so many patterns")
    parser.add_argument("--only", choices=["plans", "baselines", "growth", "changes"])
    arguments = parser.parse_args()
    if arguments.folder is None:
        workloads = {f"generated-{size}": generated(size) for size in (100, 500, 1_000, 2_000)}
    else:
        workloads = {path.stem: read_workload(path) for path in sorted(arguments.folder.glob("*.json"))}
        workloads = dict(sorted(workloads.items(), key=lambda item: len(item[1])))
    if arguments.only in (None, "plans"):
        tell_plans(workloads, arguments.runs)
    if arguments.only in (None, "changes"):
        tell_changes(generated(2_000), generated(20, 1))
    if arguments.only in (None, "growth"):
        tell_growth(arguments.runs)
    if arguments.only in (None, "baselines"):
        tell_baselines(workloads, arguments.baselines)


if __name__ == "__main__":
    main()
