"""Complete trends along the axes of the published experiments, and anchors over tasks; needs neither Spark nor Java.

    python benchmarks/published_trends.py [--only NAME] [--output FOLDER]

The axes are those of figures 13 to 20 of Poppe et al., *Complete Event Trend Detection in High-Rate Event Streams*,
SIGMOD 2017: events, compatibility, overlap of windows; atoms, plans, number and ratio of graphlets. Anchors are those
of Mei et al., ICPP 2021, section 7. All seconds are processor seconds of one thread, each the least of several runs,
and include building the graph. The script stops if contestants find different numbers of trends, or of *refs*, the
events of all trends, each counted once per trend.

SASE++ is written for this: an event has pointers to the events that may precede it, found by comparing it with each
earlier one, and trends are extracted depth first along the pointers. The baseline is Algorithm 1: all complete trends
so far are kept, each event is compared with all of them and with their prefixes, and duplicates are dropped.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from measure import held
from numba import njit
from report import draw, save

from cetdsl.ir.machine import Comparison, Edge, Machine
from cetdsl.kernels.complete.branch_and_bound import branch_and_bound
from cetdsl.kernels.complete.cut_plan import Costs
from cetdsl.kernels.complete.extract import count_refs
from cetdsl.kernels.complete.greedy import greedy
from cetdsl.kernels.complete.jobs import Settings
from cetdsl.kernels.complete.pieces import (
    anchors_of,
    cut_at,
    find_pieces,
    graph_of_pieces,
    join_pieces,
    joined_bindings,
)
from cetdsl.kernels.complete.published import (
    exhaustive,
    published_branch_and_bound,
    published_greedy,
    worst_case_costs,
)
from cetdsl.kernels.enumerate.blocks import BLOCK
from cetdsl.kernels.graph.build import GraphBuilder
from cetdsl.kernels.graph.edges import list_edges
from cetdsl.kernels.vocabulary import Events, Graph, Ints

RUNS = 3
#: An action that takes less is repeated until it has taken so many seconds.
LEAST = 0.02
Found = dict[str, Any]


def seconds(action: Callable[[], object]) -> float:
    """Returns the processor seconds of an action, the least of several runs after a first one."""
    action()
    best = math.inf
    for _ in range(RUNS):
        times, begun = 0, time.process_time()
        while time.process_time() - begun < LEAST:
            action()
            times += 1
        best = min(best, (time.process_time() - begun) / times)
    return best


# ------------------------------------------------------------------------------------------------------- events


def layers(events: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Checks of which each may be followed by ``width`` later ones: source and destination of each event."""
    source = np.arange(events) // width
    return source, source + 1


CHAIN = Machine((0,), ((0, ()),), ((0, ()),), (Edge(0, 0, (Comparison("=", 0, 1),)),))


def graph_of(source: np.ndarray, destination: np.ndarray) -> Graph:
    """Builds the graph of checks, one per moment."""
    count = len(source)
    codes, moment = np.stack([source, destination]).astype(np.int64), np.arange(count)
    no_lists = np.zeros((0, count + 1), dtype=np.int64)
    ones, bits = np.ones(codes.shape, dtype=np.bool_), np.ones(count, dtype=np.int64)
    events = Events(np.array([0, count]), moment, moment, bits, codes, ones, no_lists, no_lists[:0, 0])
    graph = list_edges(GraphBuilder(CHAIN).build(events))
    assert graph is not None
    return graph


def counted(graph: Graph, low: np.ndarray, high: np.ndarray, settings: Settings) -> tuple[int, int]:
    trends, refs = count_refs(graph, low, high, complete=True, settings=settings)
    return int(trends.sum()), int(refs.sum())


def whole(source: np.ndarray, destination: np.ndarray, settings: Settings) -> tuple[int, int]:
    """The numbers of trends and of refs in one window: builds the graph, and puts all trends together."""
    return counted(graph_of(source, destination), np.array([0]), np.array([len(source)]), settings)


# -------------------------------------------------------------------------------------------- what it is against


@njit(cache=True)
def sase(source: np.ndarray, destination: np.ndarray) -> tuple[int, int]:
    """SASE++: pointers from each event to all that may precede it, and a search along them from the last events."""
    count = len(source)
    start, pointers = np.zeros(count + 1, dtype=np.int64), np.empty(count * count // 2 + 1, dtype=np.int64)
    followed = np.zeros(count, dtype=np.bool_)
    for event in range(count):
        start[event + 1] = start[event]
        for before in range(event):
            if destination[before] == source[event]:
                pointers[start[event + 1]] = before
                start[event + 1] += 1
                followed[before] = True
    trends, refs = 0, 0
    path, cursor = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    for last in range(count):
        if followed[last]:
            continue
        path[0], cursor[0], depth = last, start[last], 1
        while depth > 0:
            event = path[depth - 1]
            if start[event] == start[event + 1]:
                trends += 1
                refs += depth
                depth -= 1
            elif cursor[depth - 1] == start[event + 1]:
                depth -= 1
            else:
                path[depth] = pointers[cursor[depth - 1]]
                cursor[depth - 1] += 1
                cursor[depth] = start[path[depth]]
                depth += 1
    return trends, refs


@njit(cache=True)
def baseline(source: np.ndarray, destination: np.ndarray, most: int) -> tuple[int, int]:
    """Algorithm 1: all complete trends so far, each compared with each new event."""
    count = len(source)
    trends, length, kept = np.empty((most, count), dtype=np.int32), np.zeros(most, dtype=np.int64), 0
    for event in range(count):
        before, compatible = kept, False
        for trend in range(before):
            prefix = length[trend]
            while prefix > 0 and destination[trends[trend, prefix - 1]] != source[event]:
                prefix -= 1
            if prefix == 0:
                continue
            compatible = True
            if prefix == length[trend]:
                trends[trend, prefix] = event
                length[trend] += 1
                continue
            known = False
            for other in range(before, kept):
                known |= length[other] == prefix + 1 and (trends[other, :prefix] == trends[trend, :prefix]).all()
            for other in range(before):
                if length[other] == prefix + 1 and trends[other, prefix] == event:
                    known |= (trends[other, :prefix] == trends[trend, :prefix]).all()
            if not known:
                trends[kept, :prefix] = trends[trend, :prefix]
                trends[kept, prefix], length[kept] = event, prefix + 1
                kept += 1
        if not compatible:
            trends[kept, 0], length[kept] = event, 1
            kept += 1
    return kept, length[:kept].sum()


H_CET = Settings("h-cet", 8 * 2**20, thorough=True)
WAYS = {
    "h-cet": H_CET,
    "h-cet, published optimizer": Settings(
        "h-cet", 8 * 2**20, optimizer="branch-and-bound", cost_model="worst-case", thorough=True
    ),
    "t-cet": Settings("t-cet", 2**30, thorough=True),
    "m-cet": Settings("m-cet"),
}


def race(source: np.ndarray, destination: np.ndarray, most: int) -> dict[str, float]:
    """Seconds of all contestants that can take these checks."""
    answers = {name: whole(source, destination, how) for name, how in WAYS.items()}
    ways: dict[str, Callable[[], object]] = {
        name: lambda how=how: whole(source, destination, how) for name, how in WAYS.items()
    }
    ways["SASE++-like"] = lambda: sase(source, destination)
    answers["SASE++-like"] = sase(source, destination)
    if most:
        ways["two steps"] = lambda: baseline(source, destination, most)
        answers["two steps"] = baseline(source, destination, most)
    if len(set(answers.values())) > 1:
        raise RuntimeError(f"contestants find different trends: {answers}")
    return {name: seconds(way) for name, way in ways.items()}


def lines_of(rows: dict[float, dict[str, float]]) -> dict[str, list[list[float]]]:
    names = dict.fromkeys(name for row in rows.values() for name in row)
    return {name: [[x, row[name]] for x, row in rows.items() if name in row] for name in names}


# -------------------------------------------------------------------------------------------------------- axes

EVENTS = (9, 15, 21, 27, 33, 39)
WIDTHS = (1, 2, 3, 4, 6, 9, 18)
#: Beyond so many trends the baseline takes minutes.
BASELINE_TRENDS = 3**7


def detection() -> Found:
    """Figures 13(a), 13(b), 13(d): events of a window, and how many each is compatible with."""
    rows = {}
    for count in EVENTS:
        most = 3 ** (count // 3)
        rows[count] = race(*layers(count, 3), 2 * most + count if most <= BASELINE_TRENDS else 0)
    compatible = {}
    for width in WIDTHS:
        most = width ** (36 // width)
        compatible[width] = race(*layers(36, width), 2 * most + 36 if most <= BASELINE_TRENDS else 0)
    panels = [
        {
            "title": "events of a window, 3 compatible",
            "x": "events",
            "y": "seconds",
            "log_y": True,
            "lines": lines_of(rows),
        },
        {
            "title": "compatible events, 36 in all",
            "x": "compatible events",
            "y": "seconds",
            "log_y": True,
            "lines": lines_of(compatible),
        },
    ]
    last, three = rows[EVENTS[-1]], compatible[3]
    faster = [row["SASE++-like"] / row["h-cet"] for row in (last, three)]
    claims = [
        ["events", "h-cet up to 42 times as fast as SASE++", f"{faster[0]:.1f} at {EVENTS[-1]} events"],
        ["compatibility", "most work at 3; 5.4 times as fast as SASE++", f"{faster[1]:.1f} at 3"],
    ]
    return {"panels": panels, "claims": claims}


def kept(source: np.ndarray, destination: np.ndarray, two_steps: bool) -> dict[str, float]:
    """Bytes that contestants hold at most for these checks; those of SASE++ and of two steps by what they keep."""
    found: dict[str, float] = {}
    for name, how in WAYS.items():
        _, refs = whole(source, destination, how)  # which loads what is compiled
        found[name] = held(lambda how=how: whole(source, destination, how))
    graph = graph_of(source, destination)
    # Eight for each pointer, and for each event three times eight: the start of its pointers, a path and its cursors.
    found["SASE++-like"] = 8 * (int((graph.stop - graph.start).sum()) + 3 * len(source))
    if two_steps:
        found["two steps"] = 4 * refs  # four for each event of each trend
    return found


def storage() -> Found:
    """Figure 14: memory for the events of a window, and for how many each is compatible with."""
    events = {count: kept(*layers(count, 3), 3 ** (count // 3) <= BASELINE_TRENDS) for count in EVENTS}
    widths = {width: kept(*layers(36, width), width ** (36 // width) <= BASELINE_TRENDS) for width in WIDTHS}
    panels = [
        {"title": title, "x": x, "y": "bytes", "log_y": True, "lines": lines_of(rows)}
        for title, x, rows in (
            ("events of a window, 3 compatible", "events", events),
            ("compatible events, 36 in all", "compatible events", widths),
        )
    ]
    rows, limit = [*events.values(), *widths.values()], H_CET.memory or 0
    held_most = {name: max(row[name] for row in rows) for name in WAYS}
    if held_most["h-cet"] > limit:
        raise RuntimeError(f"h-cet held {held_most['h-cet']} bytes, more than its limit of {limit}")
    more = {name: max(row[name] / row["SASE++-like"] for row in rows) for name in WAYS}
    claims = [
        ["memory", "H-CET stays within its limit, T-CET does not",
         f"at most {held_most['h-cet'] / 2**20:.1f} and {held_most['t-cet'] / 2**20:.1f} MiB, limit of h-cet "
         f"{limit / 2**20:.0f}"],
        ["memory", "SASE++ takes 10^5 times less than CET",
         f"at most {more['t-cet']:,.0f} times less than t-cet, {more['h-cet']:,.0f} times less than h-cet"],
        ["memory", "M-CET is as light as SASE++", f"at most {more['m-cet']:,.0f} times as much"],
    ]  # fmt: skip
    return {"panels": panels, "claims": claims}


def windowed(source: Ints, destination: Ints, low: Ints, high: Ints, settings: Settings) -> tuple[int, int]:
    return counted(graph_of(source, destination), low, high, settings)


def sase_windows(source: Ints, destination: Ints, low: Ints, high: Ints) -> tuple[int, int]:
    found = [sase(source[a:b], destination[a:b]) for a, b in zip(low, high)]
    return sum(trends for trends, _ in found), sum(refs for _, refs in found)


def overlap() -> Found:
    """Figure 13(c): windows of 36 events that overlap more and more."""
    source, destination = layers(144, 3)
    rows = {}
    for step in (36, 18, 9, 3):
        low = np.arange(0, 108 + 1, step)
        high, ways = low + 36, {}
        for name, how in (
            ("h-cet", H_CET),
            ("h-cet, nothing shared", Settings("h-cet", 8 * 2**20, sharing=False, thorough=True)),
            ("t-cet", WAYS["t-cet"]),
            ("anchors", Settings("anchors", 8 * 2**20)),
        ):
            ways[name] = partial(windowed, source, destination, low, high, how)
        ways["SASE++-like"] = partial(sase_windows, source, destination, low, high)
        answers = {name: way() for name, way in ways.items()}
        if len(set(answers.values())) > 1:
            raise RuntimeError(f"contestants find different trends: {answers}")
        rows[36 - step] = {name: seconds(way) / len(low) for name, way in ways.items()}
    panel = {"title": "windows of 36 events", "x": "events in common with the next window", "y": "seconds per window"}
    tight = rows[33]
    faster, share = (tight[name] / tight["h-cet"] for name in ("SASE++-like", "h-cet, nothing shared"))
    claims = [
        ["overlap", "13 times as fast as SASE++ at the largest overlap", f"{faster:.1f}"],
        ["overlap", "the larger the overlap, the more sharing pays", f"{share:.2f} times as fast, at 33 of 36"],
    ]
    return {"panels": [panel | {"lines": lines_of(rows), "log_y": True}], "claims": claims}


ATOMS = (8, 10, 12, 14, 16, 18)
SEARCHES: dict[str, Callable[[Costs, np.ndarray, float], Any]] = {
    "exhaustive": lambda costs, sizes, limit: exhaustive(costs, limit),
    "branch and bound, published": published_branch_and_bound,
    "greedy, published": published_greedy,
    "branch and bound, ours": lambda costs, sizes, limit: branch_and_bound(costs, limit),
    "greedy, ours": lambda costs, sizes, limit: greedy(costs, limit),
}


def plans() -> Found:
    """Figures 15 to 17 and 19: time and memory of choosing cuts, and what the chosen cost, for more and more atoms."""
    times: dict[float, dict[str, float]] = {}
    memory: dict[float, dict[str, float]] = {}
    quality: dict[float, dict[str, float]] = {}
    for atoms in ATOMS:
        sizes = np.random.default_rng(atoms).integers(1, 7, atoms)
        costs = worst_case_costs(sizes)._replace(walk=None)
        # Between what the atoms need by themselves and what the whole graph does.
        limit = math.sqrt(sum(costs.memory[k, k + 1] for k in range(atoms)) * costs.memory[0, -1])
        times[atoms] = {name: seconds(partial(way, costs, sizes, limit)) for name, way in SEARCHES.items()}
        memory[atoms] = {name: held(partial(way, costs, sizes, limit)) for name, way in SEARCHES.items()}
        found = {name: way(costs, sizes, limit).cpu for name, way in SEARCHES.items()}
        quality[atoms] = {name: cpu / found["exhaustive"] for name, cpu in found.items()}
    worst = {name: max(row[name] for row in quality.values()) for name in SEARCHES}
    last = times[ATOMS[-1]]
    faster = {who: last["exhaustive"] / last[f"branch and bound, {who}"] for who in ("published", "ours")}
    lighter = {
        who: max(row["exhaustive"] / row[f"branch and bound, {who}"] for row in memory.values())
        for who in ("published", "ours")
    }
    claims = [
        [
            "atoms",
            "branch and bound 100 times as fast as exhaustive search",
            f"published {faster['published']:,.0f}, ours {faster['ours']:,.0f} times, at {ATOMS[-1]} atoms",
        ],
        [
            "atoms",
            "branch and bound takes up to 12 times less memory than exhaustive search",
            f"published {lighter['published']:.3g}, ours {lighter['ours']:.3g} times",
        ],
        [
            "plans",
            "branch and bound is optimal",
            f"published within {worst['branch and bound, published']:.3f} of the least CPU, "
            f"ours {worst['branch and bound, ours']:.3f}",
        ],
        [
            "plans",
            "greedy up to 2.8 times as slow as the best",
            f"published {worst['greedy, published']:.2f}, ours {worst['greedy, ours']:.2f}",
        ],
    ]
    panels = [
        {"title": "choosing cuts", "x": "atoms", "y": "seconds", "log_y": True, "lines": lines_of(times)},
        {"title": "choosing cuts", "x": "atoms", "y": "bytes held", "log_y": True, "lines": lines_of(memory)},
        {"title": "CPU of the plan, of the least", "x": "atoms", "y": "ratio", "lines": lines_of(quality)},
    ]
    return {"panels": panels, "claims": claims}


def space() -> Found:
    """Figure 20: memory and time of plans with more and more graphlets, and with ever more unequal ones."""
    source, destination = layers(36, 3)
    rows: dict[float, dict[str, float]] = {}
    costs = worst_case_costs([3] * 12)._replace(walk=None)
    for graphlets in (1, 2, 3, 4, 6, 12):
        limit = float(graphlets * costs.memory[0, 12 // graphlets])
        how = Settings("h-cet", int(limit * 12) + 2**14, optimizer="greedy", cost_model="worst-case", thorough=True)
        rows[graphlets] = {"seconds": seconds(lambda how=how: whole(source, destination, how)), "bytes": limit}
    unequal = {}
    for cut in (6, 7, 8, 9, 10, 11):
        unequal[cut / (12 - cut)] = {
            "bytes": float(costs.memory[0, cut] + costs.memory[cut, 12]),
            "CPU": float(costs.cpu[0, cut] + costs.cpu[cut, 12]),
        }
    first, last = unequal[1.0], unequal[11.0]
    one, twelve = rows[1], rows[12]
    less, slower = one["bytes"] / twelve["bytes"], twelve["seconds"] / one["seconds"]
    more, longer = (last[what] / first[what] for what in ("bytes", "CPU"))
    claims = [
        [
            "graphlets",
            "memory falls 10^5-fold, CPU rises 7-fold",
            f"memory of the model {less:,.0f}-fold, seconds {slower:.2f}-fold",
        ],
        [
            "ratio of sizes",
            "memory rises 100-fold, CPU 1.03-fold",
            f"by the model {more:,.0f}-fold, CPU {longer:.2f}-fold, at a ratio of 11",
        ],
    ]
    panels = [
        {"title": "equal graphlets", "x": "graphlets", "y": "bytes, model", "log_y": True,
         "lines": {"bytes": [[k, row["bytes"]] for k, row in rows.items()]}},
        {"title": "equal graphlets, measured", "x": "graphlets", "y": "seconds",
         "lines": {"seconds": [[k, row["seconds"]] for k, row in rows.items()]}},
        {"title": "two graphlets", "x": "ratio of their sizes", "y": "bytes, CPU of the model", "log_y": True,
         "lines": lines_of(unequal)},
    ]  # fmt: skip
    return {"panels": panels, "claims": claims}


# ------------------------------------------------------------------------------------------------------ anchors

CORES = (1, 2, 4, 16, 64, 256)


def anchors() -> Found:
    """Both stages of anchors, each task by itself; and the slowest task of each stage for more and more cores."""
    random = np.random.default_rng(7)
    source, destination = random.integers(0, 1000, 10_000), random.integers(0, 1000, 10_000)
    graph, building = graph_of(source, destination), seconds(lambda: graph_of(source, destination))
    numbers: dict[float, dict[str, float]] = {}
    for number in (4, 16, 64, 256):
        anchored, chosen = anchors_of(graph, number, None)
        cut = cut_at(graph, anchored)
        finding, joining, sent, _ = stages(graph, anchored, 1)
        numbers[chosen] = {"find": finding[0], "join": joining[0], "refs of pieces / 10 million": sent / 1e7}
        assert len(cut.roots) == len(graph.event)
    anchored, chosen = anchors_of(graph, None, None)
    choosing = seconds(lambda: anchors_of(graph, None, None))
    spent: dict[float, dict[str, float]] = {}
    alone = None
    for cores in CORES:
        finding, joining, _, found = stages(graph, anchored, cores)
        # Every task of the first stage builds the graph and chooses the anchors; a stage waits for its slowest task.
        total = building + choosing + max(finding) + max(joining)
        alone = alone or (total, found)
        if found != alone[1]:
            raise RuntimeError(f"{cores} tasks find {found} trends, not {alone[1]}")
        spent[cores] = {"times as fast": alone[0] / total, "linear": float(cores), "times as much work":
                        (sum(finding) + sum(joining) + cores * (building + choosing)) / alone[0]}  # fmt: skip
    claims = [
        ["cores", "76 % less with 16 threads than with 2 (4.2 times as fast)",
         f"{spent[16]['times as fast'] / spent[2]['times as fast']:.1f} times, by replay"],
        ["two cores", "", f"{spent[2]['times as fast']:.2f} times one core, by replay"],
        ["anchors", "more anchors: first stage longer, second shorter",
         "; ".join(f"{n}: {row['find']:.3f} s + {row['join']:.3f} s" for n, row in numbers.items())],
        ["anchors by default", "", f"{chosen}; {alone[1]:,} trends" if alone else ""],
    ]  # fmt: skip
    panels = [
        {"title": "number of anchors", "x": "anchors", "y": "seconds", "log_x": True, "log_y": True,
         "lines": lines_of(numbers)},
        {"title": "replay of measured tasks", "x": "cores", "y": "times", "log_x": True, "log_y": True,
         "lines": lines_of(spent)},
    ]  # fmt: skip
    return {"panels": panels, "claims": claims}


def stages(graph: Graph, anchored: np.ndarray, tasks: int) -> tuple[list[float], list[float], int, int]:
    """Seconds of each task of either stage, refs of all pieces, and the number of trends.

    Tasks of the second stage make the graph of pieces, and write the trends as Arrow lists of one column of events.
    """
    cut = cut_at(graph, anchored)
    finding, blocks = [], []
    for task in range(tasks):
        spent, found = least(lambda task=task: list(find_pieces(cut, (task, tasks))))
        finding.append(spent)
        blocks += found
    begin = np.concatenate([block.event[block.start[:-1]] for block in blocks])
    last = np.concatenate([block.event[block.start[1:] - 1] for block in blocks])
    bindings = pa.array(np.concatenate([block.event for block in blocks]))
    offsets = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(block.start) for block in blocks]))])
    longest = int(np.diff(offsets).max())

    def join(task: int) -> int:
        made = graph_of_pieces(begin, cut.roots[begin], cut.ends[last], cut.start[last], cut.stop[last], cut.anchor)
        parts = join_pieces(made, (task, tasks), max(BLOCK // longest, 1))
        return sum(len(joined_bindings(block, offsets, bindings)) for block in parts)

    joined = [least(partial(join, task)) for task in range(tasks)]
    return finding, [spent for spent, _ in joined], len(bindings), sum(trends for _, trends in joined)


def least(action: Callable[[], Any]) -> tuple[float, Any]:
    """Returns the processor seconds of an action, the least of two runs, and what it gives."""
    best, found = math.inf, None
    for _ in range(2):
        begun = time.process_time()
        found = action()
        best = min(best, time.process_time() - begun)
    return best, found


PARTS: dict[str, Callable[[], Found]] = {
    one.__name__: one for one in (detection, storage, overlap, plans, space, anchors)
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", choices=list(PARTS))
    parser.add_argument("--output", type=Path, default=Path(__file__).parent)
    asked = parser.parse_args()
    asked.output.mkdir(parents=True, exist_ok=True)
    path = asked.output / "published_trends.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    for name in asked.only or PARTS:
        results[name] = PARTS[name]()
        results[name]["title"] = (PARTS[name].__doc__ or "").split(":")[0]
        print(f"| {name} | published | here |\n|---|---|---|")
        for axis, published, here in results[name]["claims"]:
            print(f"| {axis} | {published} | {here} |")
        save(draw(results[name]), asked.output / f"trends-{name}.svg")
        path.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
