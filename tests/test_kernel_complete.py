"""Getting trends out of graphs: every algorithm against a lister of paths in plain Python."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cetdsl.errors import GroupTooLarge, InvalidNode
from cetdsl.ir.extraction import COST_MODELS, OPTIMIZERS
from cetdsl.ir.machine import Comparison, Edge, Machine
from cetdsl.ir.stages import JoinSpec
from cetdsl.kernels.complete import jobs
from cetdsl.kernels.complete.anchors import choose_anchors
from cetdsl.kernels.complete.cuts import ENTRY_BYTES, Scope, find_cuts, find_flow
from cetdsl.kernels.complete.extract import count_refs, extract, survey
from cetdsl.kernels.complete.graphlets import STEP_BYTES
from cetdsl.kernels.complete.jobs import Measured, Settings, Work
from cetdsl.kernels.complete.picks import _falling
from cetdsl.kernels.complete.pieces import (
    Cut,
    anchors_of,
    cut_at,
    find_pieces,
    graph_of_pieces,
    join_pieces,
    join_stream,
    weigh,
)
from cetdsl.kernels.graph import walk
from cetdsl.kernels.graph.attribute_graph import NEVER, NOWHERE
from cetdsl.kernels.graph.build import GraphBuilder
from cetdsl.kernels.graph.edges import list_edges
from cetdsl.kernels.graph.k_best import KBest
from cetdsl.kernels.graph.reduction import reduce_edges
from cetdsl.kernels.graph.shares import split
from cetdsl.kernels.graph.walk import FRAME_BYTES, Trace
from cetdsl.kernels.graph.windows import rules_of, windows_of
from cetdsl.kernels.vocabulary import Block, Events, Graph

ALGORITHMS = ("m-cet", "t-cet", "h-cet", "anchors")
ONE_STATE = np.zeros(1, dtype=np.int64)

Trend = tuple[int, ...]


class Case(NamedTuple):
    """A graph as it is told: nodes with their events and states, edges, and which nodes begin and end trends."""

    event: list[int]
    state: list[int]
    edges: dict[int, list[int]]
    begins: list[bool]
    ends: list[bool]


def make_graph(case: Case) -> tuple[Graph, Case]:
    """The graph with its numbers, written from their definition, and the case without nodes that lie on no trend."""
    nodes = range(len(case.event))
    before: dict[int, list[int]] = {v: [] for v in nodes}
    for u, targets in case.edges.items():
        for t in targets:
            before[t].append(u)
    origin, origin_before, reach, reach_after = {}, {}, {}, {}
    for v in nodes:
        origin_before[v] = max((origin[u] for u in before[v]), default=NOWHERE)
        origin[v] = case.event[v] if case.begins[v] else origin_before[v]
    for v in reversed(nodes):
        reach_after[v] = min((reach[t] for t in case.edges[v]), default=NEVER)
        reach[v] = case.event[v] if case.ends[v] else reach_after[v]
    useful = [v for v in nodes if origin[v] != NOWHERE and reach[v] != NEVER]
    number = {v: k for k, v in enumerate(useful)}
    edges = {number[v]: [number[t] for t in case.edges[v] if t in number] for v in useful}
    kept = Case(
        [case.event[v] for v in useful],
        [case.state[v] for v in useful],
        edges,
        [case.begins[v] for v in useful],
        [case.ends[v] for v in useful],
    )
    stops = np.cumsum([0, *map(len, edges.values())])
    columns = [np.array([column[v] for v in useful], dtype=np.int32) for column in (origin, origin_before)]
    columns += [np.array([column[v] for v in useful], dtype=np.int32) for column in (reach, reach_after)]
    flat = np.array([t for targets in edges.values() for t in targets], dtype=np.int32)
    flags = [np.array(kept.begins, dtype=np.bool_), np.array(kept.ends, dtype=np.bool_)]
    event, state = np.array(kept.event, dtype=np.int64), np.array(kept.state, dtype=np.int32)
    return Graph(event, state, *flags, *columns, stops[:-1], stops[1:], flat), kept


def paths_of(case: Case, low: int, high: int, complete: bool) -> list[Trend]:
    """The trends of a window as nodes, in order: from sources to sinks of what lies on any trend of it, or all."""
    inside = [v for v in range(len(case.event)) if low <= case.event[v] < high]
    after = {v: [t for t in case.edges[v] if t in inside] for v in inside}
    found: list[Trend] = []

    def extend(path: Trend) -> None:
        if case.ends[path[-1]]:
            found.append(path)
        for t in after[path[-1]]:
            extend((*path, t))

    for v in inside:
        if case.begins[v]:
            extend((v,))
    if not complete:
        return sorted(found)
    steps = {step for path in found for step in itertools.pairwise(path)}
    return sorted(
        path for path in found if not any(t == path[0] for _, t in steps) and not any(u == path[-1] for u, _ in steps)
    )


def bindings_of(case: Case, variable: Sequence[int], paths: Iterable[Trend]) -> list[tuple[tuple[int, int], ...]]:
    return [tuple((case.event[v], variable[case.state[v]]) for v in path) for path in paths]


def trends_of(blocks: Iterable[Block], size: int | None = None) -> list[tuple[int, tuple[tuple[int, int], ...]]]:
    """Window and bindings of each trend of blocks."""
    out = []
    for block in blocks:
        assert block.start[0] == 0
        assert block.start[-1] == len(block.event) == len(block.variable)
        assert len(block.slice) == len(block.start) - 1 > 0
        assert size is None or len(block.event) <= size or len(block.slice) == 1
        for k, window in enumerate(block.slice):
            part = slice(block.start[k], block.start[k + 1])
            out.append((int(window), tuple(zip(block.event[part].tolist(), block.variable[part].tolist()))))
    return out


@st.composite
def cases(draw: st.DrawFn, most: int = 9) -> Case:
    """Any graph: several nodes of one event, edges to later events only, few or many ways to begin and to end."""
    count = draw(st.integers(1, most))
    event = sorted(draw(st.lists(st.integers(0, most), min_size=count, max_size=count)))
    # The nodes of one event differ in their states.
    state = [sum(event[w] == event[v] for w in range(v)) for v in range(count)]
    density = draw(st.sampled_from([0.2, 0.5, 1.0]))
    chance = st.floats(0, 1, exclude_max=True)
    edges = {
        v: [t for t in range(v + 1, count) if event[t] > event[v] and draw(chance) < density] for v in range(count)
    }
    anywhere = draw(st.booleans())
    flags = [[anywhere or draw(st.booleans()) for _ in range(count)] for _ in range(2)]
    return Case(event, state, edges, *flags)


@st.composite
def windows(draw: st.DrawFn, last: int) -> tuple[list[int], list[int]]:
    """All events, windows that slide, or any windows."""
    kind = draw(st.sampled_from(["whole", "sliding", "any"]))
    if kind == "whole":
        return [0], [last + 1]
    if kind == "sliding":
        length = draw(st.integers(1, last + 1))
        low = list(range(0, last + 1, draw(st.integers(1, length))))
        return low, [min(x + length, last + 1) for x in low]
    pairs = draw(st.lists(st.tuples(st.integers(0, last), st.integers(1, last + 1)), min_size=1, max_size=5))
    pairs = [(low, max(high, low + 1)) for low, high in pairs]
    return [low for low, _ in pairs], [high for _, high in pairs]


@st.composite
def asked(draw: st.DrawFn, most: int = 9) -> tuple[Graph, Case, list[int], list[int], list[int], bool]:
    case = draw(cases(most))
    graph, case = make_graph(case)
    low, high = draw(windows(max(case.event, default=0)))
    states = max(case.state, default=0) + 1
    variable = draw(st.lists(st.integers(0, 5), min_size=states, max_size=states))
    return graph, case, variable, low, high, draw(st.booleans())


def expected(case: Case, variable: Sequence[int], low: Sequence[int], high: Sequence[int], complete: bool) -> list:
    """What :func:`trends_of` gives for all windows, in the order of a walk."""
    return [
        (window, trend)
        for window, bounds in enumerate(zip(low, high))
        for trend in bindings_of(case, variable, paths_of(case, *bounds, complete))
    ]


# -------------------------------------------------------------------------------------------------- the same trends


@settings(deadline=None, max_examples=300)
@given(asked(), st.sampled_from(ALGORITHMS), st.integers(1, 12), st.booleans(), st.floats(0, 1), st.data())
def test_every_algorithm_finds_the_paths_of_the_graph(
    question: tuple, algorithm: str, block: int, sharing: bool, generosity: float, data: st.DataObject
) -> None:
    graph, case, variable, low, high, complete = question
    want = expected(case, variable, low, high, complete)
    ample = survey(graph, low, high, complete=complete, settings=Settings("t-cet")).predicted_bytes.max(initial=0)
    memory = data.draw(st.none() | st.just(STEP_BYTES + int(generosity * ample)), label="memory")
    how = Settings(algorithm, memory, sharing, thorough=True)
    listed, counted = Measured(), Measured()
    try:
        found = trends_of(
            extract(graph, variable, low, high, complete=complete, settings=how, block=block, measured=listed), block
        )
    except GroupTooLarge:
        assert memory is not None
        assert memory < ample or algorithm == "anchors"
        with pytest.raises(GroupTooLarge):
            count_refs(graph, low, high, complete=complete, settings=how)
        return
    assert sorted(found) == sorted(want)
    if algorithm == "m-cet":
        assert found == want
    trends, refs = count_refs(graph, low, high, complete=complete, settings=how, measured=counted)
    assert trends.tolist() == [sum(window == k for window, _ in want) for k in range(len(low))]
    assert refs.tolist() == [sum(len(trend) for window, trend in want if window == k) for k in range(len(low))]
    assert listed == counted
    assert memory is None or listed.bytes <= memory


@settings(deadline=None, max_examples=150)
@given(
    asked(),
    st.sampled_from(OPTIMIZERS),
    st.sampled_from(COST_MODELS),
    st.integers(1, 4),
    st.booleans(),
    st.floats(0, 1),
)
def test_every_optimizer_and_number_of_anchors_finds_the_same_trends(
    question: tuple, optimizer: str, model: str, anchors: int, sharing: bool, generosity: float
) -> None:
    graph, case, variable, low, high, complete = question
    want = sorted(expected(case, variable, low, high, complete))
    ample = survey(graph, low, high, complete=complete, settings=Settings("t-cet")).predicted_bytes.max(initial=0)
    memory, measured = STEP_BYTES + int(generosity * ample), Measured()
    told = {"optimizer": optimizer, "cost_model": model, "sharing": sharing, "thorough": True}
    fitting = Settings("h-cet", memory, **told)
    # Partial trends that windows could share are shared, or they are where it pays.
    for entries in (-1, jobs.SHARED_ENTRIES):
        with patch.object(jobs, "SHARED_ENTRIES", entries):
            try:
                blocks = extract(graph, variable, low, high, complete=complete, settings=fitting, measured=measured)
                found = trends_of(blocks)
            except GroupTooLarge:
                assert memory < ample
            else:
                assert sorted(found) == want
                assert measured.bytes <= memory
            for how in (Settings("anchors", anchors=anchors, sharing=sharing), Settings("t-cet", sharing=sharing)):
                found = trends_of(extract(graph, variable, low, high, complete=complete, settings=how))
                assert sorted(found) == want


@settings(deadline=None, max_examples=150)
@given(asked(), st.sampled_from(ALGORITHMS), st.floats(0, 1))
def test_predictions_come_true(question: tuple, algorithm: str, generosity: float) -> None:
    """With exact costs: bytes, steps, the number of trends and the sum of their lengths."""
    graph, case, variable, low, high, complete = question
    want = expected(case, variable, low, high, complete)
    ample = survey(graph, low, high, complete=complete, settings=Settings("t-cet")).predicted_bytes.max(initial=0)
    how = Settings(algorithm, STEP_BYTES + int(generosity * ample))
    try:
        found = survey(graph, low, high, complete=complete, settings=how, measure=True)
    except GroupTooLarge:
        return
    assert found.bytes.tolist() == found.predicted_bytes.tolist()
    assert found.steps.tolist() == found.predicted_steps.tolist()
    assert found.trends.tolist() == [sum(window == k for window, _ in want) for k in range(len(low))]
    assert found.refs.tolist() == [sum(len(trend) for window, trend in want if window == k) for k in range(len(low))]


@settings(deadline=None, max_examples=200)
@given(asked(), st.sampled_from([0, 4]), st.integers(1, 3))
def test_walks_find_successors_wherever_they_lie(question: tuple, most_beside: int, parts: int) -> None:
    """Side by side, or, where they would take too much memory, by their numbers."""
    graph, case, variable, low, high, complete = question
    with patch.object(walk, "_MOST_BESIDE", most_beside):
        shares = [extract(graph, variable, low, high, complete=complete, share=(k, parts)) for k in range(parts)]
        found = [trend for share in shares for trend in trends_of(share)]
    assert found == expected(case, variable, low, high, complete)


@settings(deadline=None, max_examples=100)
@given(asked(), st.sampled_from(ALGORITHMS), st.integers(0, 8))
def test_a_limit_gives_that_many_trends(question: tuple, algorithm: str, limit: int) -> None:
    graph, case, variable, low, high, complete = question
    want = expected(case, variable, low, high, complete)
    found = trends_of(extract(graph, variable, low, high, complete=complete, settings=Settings(algorithm), limit=limit))
    assert len(found) == min(limit, len(want))
    assert set(found) <= set(want)


MACHINES = {
    "kiting": Machine((0,), ((0, ()),), ((0, ()),), (Edge(0, 0, (Comparison("=", 0, 1),)),)),
    "rising": Machine((0,), ((0, ()),), ((0, ()),), (Edge(0, 0, (Comparison(">", 0, 0),)),)),
    "any": Machine((0,), ((0, ()),), ((0, ()),), (Edge(0, 0),)),
    "per key": Machine((0,), ((0, ()),), ((0, ()),), (Edge(0, 0, (Comparison("=", 0, 0),)),)),
    "two states": Machine(
        (0, 1),
        ((0, ()),),
        ((1, ()),),
        (Edge(0, 0, (Comparison(">", 0, 0),)), Edge(0, 1, (Comparison("<", 0, 0),)), Edge(1, 0)),
    ),
}


def make_events(codes: Sequence[Sequence[int]], time: Sequence[int] | None = None, mask: int = 1) -> Events:
    """One key's events; simultaneous where times are equal."""
    count = len(codes[0])
    times = np.arange(count) if time is None else np.asarray(time)
    instant = np.cumsum(np.diff(times, prepend=times[:1]) != 0)
    table = np.array(codes, dtype=np.int64)
    no_lists = np.zeros((0, count + 1), dtype=np.int64)
    ones = np.ones(table.shape, dtype=np.bool_)
    bits = np.full(count, mask, dtype=np.int64)
    return Events(np.array([0, count]), times, instant, bits, table, ones, no_lists, no_lists[:0, 0])


def graph_of(name: str, events: Events, length: int = 0, *, maximal: bool = False) -> Graph:
    machine = MACHINES[name]
    built = GraphBuilder(machine, length).build(events)
    graph = reduce_edges(built, machine) if maximal else list_edges(built)
    assert graph is not None
    return graph


def whole(graph: Graph, complete: bool = True, algorithm: str = "auto", **options: object) -> set[Trend]:
    """The trends of one window of all events, as events."""
    last = [int(graph.event.max(initial=-1)) + 1]
    asked_for = Settings(algorithm, thorough=True)
    blocks = extract(graph, [0, 1], [0], last, complete=complete, settings=asked_for, **options)
    return {tuple(event for event, _ in trend) for _, trend in trends_of(blocks)}


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("maximal", [False, True])
@pytest.mark.parametrize("complete", [False, True])
def test_algorithms_agree_on_larger_graphs(name: str, maximal: bool, complete: bool) -> None:
    """Graphs of a hundred events in windows that overlap, with memory for all partial trends or only some of them."""
    rng = np.random.default_rng(len(name) + 2 * maximal + complete)
    sizes = {"kiting": 14, "rising": 1000, "any": 1, "per key": 12, "two states": 1000}
    events = make_events(rng.integers(0, sizes[name], size=(2, 100)), np.sort(rng.integers(0, 80, size=100)), 3)
    length = {"any": 8, "two states": 7}.get(name, 14)
    graph = graph_of(name, events, length, maximal=maximal)
    low = np.searchsorted(events.time, np.arange(0, 80, 3))
    high = np.searchsorted(events.time, np.arange(0, 80, 3) + length)
    variable = [0, 1]
    want = sorted(trends_of(extract(graph, variable, low, high, complete=complete, settings=Settings("m-cet"))))
    assert len(want) > 50
    ample = survey(graph, low, high, complete=complete, settings=Settings("t-cet")).predicted_bytes.max()
    settings_tried = [Settings("t-cet", thorough=True), Settings("h-cet", thorough=True)]
    settings_tried += [Settings("h-cet", int(part * ample), thorough=True) for part in (0.3, 0.6)]
    settings_tried += [Settings("anchors", int(part * ample)) for part in (0.6, 0.8, 1)]
    done = []
    for how in settings_tried:
        try:
            found = sorted(trends_of(extract(graph, variable, low, high, complete=complete, settings=how, block=1000)))
        except GroupTooLarge:
            assert how.algorithm == "anchors"
            continue
        assert found == want
        done.append(how)
    assert len(done) > 4


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_no_windows_and_no_events(algorithm: str) -> None:
    graph, none = graph_of("rising", make_events([[1, 2]])), make_graph(Case([], [], {}, [], []))[0]
    how = Settings(algorithm, thorough=True)
    for low, high, questioned in (([], [], graph), ([0, 1], [0, 1], graph), ([0], [5], none)):
        assert list(extract(questioned, [0], low, high, complete=True, settings=how)) == []
        assert count_refs(questioned, low, high, complete=True, settings=how)[0].tolist() == [0] * len(low)
        assert survey(questioned, low, high, complete=True, settings=how).nodes.tolist() == [0] * len(low)


# -------------------------------------------------------------------------------------------------- known answers

CHECKS = {"A": 0, "B": 1, "C": 2, "D": 3, "E": 4}


def checks(*moves: str) -> Events:
    return make_events([[CHECKS[move[0]] for move in moves], [CHECKS[move[1]] for move in moves]])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_four_checks(algorithm: str) -> None:
    events = checks("AB", "BC", "BD", "DE")
    for maximal in (False, True):
        assert whole(graph_of("kiting", events, maximal=maximal), True, algorithm) == {(0, 1), (0, 2, 3)}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_six_checks(algorithm: str) -> None:
    graph = graph_of("kiting", checks("AB", "BC", "BA", "AB", "AC", "CB"), maximal=True)
    assert whole(graph, True, algorithm) == {(0, 1, 5), (0, 2, 3), (0, 2, 4, 5)}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_rising_prices(algorithm: str) -> None:
    events = make_events([[1, 2, 3]])
    assert whole(graph_of("rising", events, maximal=True), True, algorithm) == {(0, 1, 2)}
    assert whole(graph_of("rising", events), True, algorithm) == {(0, 1, 2), (0, 2)}
    everything = {(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)}
    assert whole(graph_of("rising", events), False, algorithm) == everything


def layers(*sizes: int) -> Graph:
    """Groups of simultaneous events, each followed by all of the next group."""
    time = np.repeat(np.arange(len(sizes)), sizes)
    return graph_of("any", make_events([time], time), maximal=True)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_groups_of_three_have_the_most_trends(algorithm: str) -> None:
    def compositions(total: int) -> Iterator[tuple[int, ...]]:
        if total == 0:
            yield ()
        for first in range(1, total + 1):
            yield from ((first, *rest) for rest in compositions(total - first))

    counts = {}
    for sizes in compositions(12):
        if algorithm != "m-cet" and len(set(sizes)) > 1:
            continue
        trends, refs = count_refs(layers(*sizes), [0], [12], complete=True, settings=Settings(algorithm, thorough=True))
        assert (trends[0], refs[0]) == (math.prod(sizes), math.prod(sizes) * len(sizes))
        counts[sizes] = int(trends[0])
    assert max(counts, key=counts.__getitem__) == (3, 3, 3, 3)
    assert sorted(counts.values())[-2:] != [81, 81]


# -------------------------------------------------------------------------------------------------- shares


@settings(deadline=None, max_examples=200)
@given(asked(), st.integers(1, 9))
def test_shares_are_a_partition_in_order(question: tuple, parts: int) -> None:
    graph, case, variable, low, high, complete = question
    found = [
        trends_of(extract(graph, variable, low, high, complete=complete, share=(part, parts))) for part in range(parts)
    ]
    assert list(itertools.chain(*found)) == expected(case, variable, low, high, complete)


@settings(deadline=None, max_examples=200)
@given(asked(), st.sampled_from(ALGORITHMS), st.integers(2, 5), st.booleans())
def test_shares_of_every_algorithm_are_a_partition(question: tuple, algorithm: str, parts: int, sharing: bool) -> None:
    graph, case, variable, low, high, complete = question
    how = Settings(algorithm, sharing=sharing, thorough=True)
    found = [
        trends_of(extract(graph, variable, low, high, complete=complete, settings=how, share=(part, parts)))
        for part in range(parts)
    ]
    assert sorted(itertools.chain(*found)) == sorted(expected(case, variable, low, high, complete))


@pytest.mark.parametrize("algorithm", ["t-cet", "h-cet", "anchors"])
def test_first_events_are_dealt_out_evenly(algorithm: str) -> None:
    rng = np.random.default_rng(7)
    graph = graph_of("kiting", make_events(rng.integers(0, 700, size=(2, 5000))))
    total = int(count_refs(graph, [0], [5000], complete=True)[1][0])
    how = Settings(algorithm, thorough=True)
    refs = [
        sum(len(b.event) for b in extract(graph, [0], [0], [5000], complete=True, settings=how, share=(part, 4)))
        for part in range(4)
    ]
    assert sum(refs) == total
    assert max(refs) <= 1.1 * total / 4


@settings(deadline=None, max_examples=100)
@given(asked(), st.data())
def test_a_walk_leads_from_any_trend_to_any_later_one(question: tuple, data: st.DataObject) -> None:
    graph, case, variable, low, high, complete = question
    paths = [
        (window, path) for window, bounds in enumerate(zip(low, high)) for path in paths_of(case, *bounds, complete)
    ]
    if not paths:
        return
    begin = data.draw(st.integers(0, len(paths) - 1))
    end = data.draw(st.integers(begin, len(paths) - 1))
    work = Work(graph, variable, low, high, complete, Settings())
    begun, ended = (Trace(paths[k][0], np.array(paths[k][1], dtype=np.int32)) for k in (begin, end))
    walker = work._walk(0, len(low), begun, ended)
    assert trends_of(walker.blocks(block=4)) == expected(case, variable, low, high, complete)[begin:end]


@pytest.mark.parametrize(("events", "accounts"), [(1500, 140), (5000, 700)])
def test_shares_have_equally_many_refs(events: int, accounts: int) -> None:
    rng = np.random.default_rng(7)
    graph = graph_of("kiting", make_events(rng.integers(0, accounts, size=(2, events))))
    total = int(count_refs(graph, [0], [events], complete=True)[1][0])
    for parts in (2, 3, 16):
        refs = [
            sum(len(b.event) for b in extract(graph, [0], [0], [events], complete=True, share=(part, parts)))
            for part in range(parts)
        ]
        assert sum(refs) == total
        assert max(refs) <= 1.01 * total / parts + 100


@pytest.mark.parametrize("width", [2, 3])
@pytest.mark.parametrize("depth", [50, 700, 2000])
def test_shares_of_more_trends_than_doubles_can_count(width: int, depth: int) -> None:
    """The trend at a fraction of all trends has that fraction of them before it; all are equally long."""
    graph = layers(*[width] * depth)
    fractions = [0.125, 0.3, 1 / 3, 0.5, 0.999]
    found = split(graph, windows_of(graph, [0], [width * depth]), True, np.array(fractions))
    assert found is not None
    for fraction, trace in zip(fractions, found):
        rank = 0
        for layer, node in enumerate(trace.nodes.tolist()):
            assert 0 <= node - width * layer < width
            rank = rank * width + node - width * layer
        assert abs(rank / width**depth - fraction) < 1e-9
    parts = [
        list(extract(graph, [0], [0], [width * depth], complete=True, share=(part, 3), limit=5)) for part in range(3)
    ]
    assert [block.event[:depth].tolist() for (block,) in parts[1:]] == [
        trace.nodes.tolist()
        for trace in split(graph, windows_of(graph, [0], [width * depth]), True, np.array([1 / 3, 2 / 3])) or []
    ]


def test_shares_of_windows_without_trends() -> None:
    graph = graph_of("two states", make_events([[5, 4, 3]], mask=1))
    assert len(graph.event) == 0
    for part in range(3):
        assert list(extract(graph, [0, 1], [0, 1], [2, 3], complete=True, share=(part, 3))) == []


# -------------------------------------------------------------------------------------------------- memory and plans


def test_h_cet_is_t_cet_with_ample_memory_and_m_cet_with_none() -> None:
    graph = layers(*[3] * 8)
    tables = sum(3**k for k in range(1, 9))
    algorithms = {}
    for memory in (8 * STEP_BYTES, 3000, 10_000, 10**6):
        found = survey(graph, [0], [24], complete=True, settings=Settings("h-cet", memory), measure=True)
        algorithms[memory] = found.algorithm[0]
        assert found.bytes[0] <= memory
        assert (found.atoms[0], found.nodes[0], found.edges[0]) == (8, 24, 63)
        assert (found.trends[0], found.refs[0]) == (3**8, 8 * 3**8)
    assert list(algorithms.values()) == ["m-cet", "h-cet", "h-cet", "t-cet"]
    ample = survey(graph, [0], [24], complete=True, settings=Settings("t-cet"))
    assert ample.predicted_bytes[0] == ENTRY_BYTES * tables + 24 * 12 + 8 * STEP_BYTES


def bursts(layers: int, count: int) -> tuple[Graph, int]:
    """Bursts of complete layers of three, none of which a trend connects with another; and the events of one."""
    key, time = np.repeat(np.arange(count), 3 * layers), np.repeat(np.arange(count * layers), 3)
    return graph_of("per key", make_events([key], time), maximal=True), 3 * layers


@pytest.mark.parametrize("limit", [20_000, 500_000, 2_000_000])
@pytest.mark.parametrize("apart", [False, True])
def test_the_most_memory_that_was_held_at_any_time_is_within_the_limit(
    limit: int, apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the allocator sees it, for windows that overlap. What the optimizer takes for itself is extra."""
    monkeypatch.setattr(jobs, "SHARED_ENTRIES", -1)
    graph, burst = bursts(9, 12) if apart else (layers(*[3] * 60), 9)
    low = np.arange(0, 8 * burst, burst)
    how, measured = Settings("h-cet", limit, thorough=True), Measured()
    count_refs(graph, low, low + 4 * burst, complete=True, settings=how)
    tracemalloc.start()
    try:
        count_refs(graph, low, low + 4 * burst, complete=True, settings=how, measured=measured)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert measured.bytes <= limit
    assert peak <= limit + 2**18
    assert measured.bytes > limit / 4 or limit < 10**6 or not apart


def test_windows_that_overlap_build_graphlets_once_where_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, events = bursts(5, 40)
    low = np.arange(0, 31 * events, events)
    high = low + 10 * events

    def took(sharing: bool) -> int:
        how, measured = Settings("h-cet", 10**6, sharing=sharing, thorough=True), Measured()
        trends, refs = count_refs(graph, low, high, complete=True, settings=how, measured=measured)
        assert (trends == 10 * 3**5).all()
        assert (refs == 10 * 5 * 3**5).all()
        return measured.steps

    entries, visits = sum(3**k for k in range(1, 6)), 3**5
    alone = 31 * 10 * (entries + visits)
    # A window by itself is one graphlet here; together they read trends of graphlets that are built once.
    monkeypatch.setattr(jobs, "SHARED_ENTRIES", -1)
    assert took(False) == alone
    assert took(True) == 40 * entries + 31 * 10 * (visits + 5 * 3**5)
    monkeypatch.undo()
    assert entries < jobs.SHARED_ENTRIES * visits
    assert took(True) == alone


def test_thousands_of_small_windows_are_one_job() -> None:
    keys = np.repeat(np.arange(5000), 4)
    graph = graph_of("per key", make_events([keys], np.tile(np.arange(4), 5000).cumsum()))
    low = np.arange(0, 20_000, 4)
    for algorithm in ("m-cet", "h-cet"):
        work = Work(graph, ONE_STATE, low, low + 4, False, Settings(algorithm))
        (job,) = work.jobs()
        assert (job.count()[0] == 15).all()


def test_a_limit_does_no_work_for_the_rest() -> None:
    graph = layers(*[3] * 3000)
    for algorithm in ALGORITHMS:
        measured = Measured()
        blocks = extract(
            graph,
            [0],
            [0],
            [9000],
            complete=True,
            limit=10,
            settings=Settings(algorithm),
            measured=measured,
        )
        assert sum(len(block.slice) for block in blocks) == 10
        assert measured.steps < 10 * 2 * 3000


@pytest.mark.parametrize("algorithm", ["m-cet", "h-cet", "anchors"])
@pytest.mark.parametrize("depth", [40, 700])
def test_the_first_blocks_of_more_trends_than_can_be_counted(algorithm: str, depth: int) -> None:
    """A reader may stop at any time; the costs of plans are infinite here."""
    graph = layers(*[3] * depth)
    blocks = extract(graph, [0], [0], [3 * depth], complete=True, settings=Settings(algorithm, 10**6), block=10_000)
    found = [trend for block in itertools.islice(blocks, 3) for trend in np.split(block.event, block.start[1:-1])]
    assert len(found) == 3 * (10_000 // depth)
    assert len({trend.tobytes() for trend in found}) == len(found)
    assert all((trend // 3 == np.arange(depth)).all() for trend in found)


@settings(deadline=None, max_examples=200)
@given(asked())
def test_cuts_are_crossed_from_last_to_first_vertices_only(question: tuple) -> None:
    graph, case, _, low, high, complete = question
    low, high = low[0], high[0]
    first, last = np.searchsorted(graph.event, [low, high])
    found = find_cuts(graph, rules_of(graph, complete), Scope(low, high, first, last, False), first, last)
    steps = {step for path in paths_of(case, low, high, False) for step in itertools.pairwise(path)}
    want = []
    for cut in range(first + 1, last):
        crossing = [(u, t) for u, t in steps if u < cut <= t]
        before = {u for u, _ in crossing}
        beyond = {t for _, t in crossing}
        if all(t >= cut for u, t in steps if u in before) and all(u < cut for u, t in steps if t in beyond):
            want.append(cut)
    assert found.tolist() == want


def test_an_atom_too_large_for_the_memory_is_cut_all_the_same() -> None:
    """A tangle of checks has no cut at all, and yet tables of its end save most visits."""
    rng = np.random.default_rng(1)
    graph = graph_of("kiting", make_events(rng.integers(0, 130, size=(2, 1500))))
    plain = survey(graph, [0], [1500], complete=True, settings=Settings("m-cet"))
    found = survey(graph, [0], [1500], complete=True, settings=Settings("h-cet", 100_000), measure=True)
    assert found.algorithm[0] == "h-cet"
    assert found.graphlets[0] > 1
    assert found.bytes[0] <= 100_000
    assert found.steps[0] - found.refs[0] < (plain.predicted_steps[0] - plain.refs[0]) / 1.5


# -------------------------------------------------------------------------------------------------- anchors


def test_anchors_are_the_lists_with_most_edges() -> None:
    """An account into which many pay and from which many draw comes before the others."""
    busy = ["AB"] * 4 + ["BC"] * 4 + ["CD", "DE", "EA"]
    graph = graph_of("kiting", checks(*busy))
    rules = rules_of(graph, True)
    scope = Scope(0, 11, 0, 11, False)
    flow = find_flow(graph, rules, scope, 0, 11)
    _, alone, _, none = choose_anchors(graph, rules, scope, flow, math.inf, 0)
    assert none == 0
    junctions, entries, _, anchors = choose_anchors(graph, rules, scope, flow, alone - 1)
    assert anchors == 1
    assert np.flatnonzero(junctions.anchored).tolist() == [4, 5, 6, 7]
    assert entries < alone


def test_as_many_anchors_as_cost_least() -> None:
    """One anchor is weighed too, even where partial trends would fit without any."""
    graph = graph_of("kiting", checks(*["AB"] * 4, *["BC"] * 4, "CD", "DE", "EA"))
    rules, scope = rules_of(graph, True), Scope(0, 11, 0, 11, False)
    flow = find_flow(graph, rules, scope, 0, 11)
    _, entries, visits, anchors = choose_anchors(graph, rules, scope, flow, math.inf)
    weighed = [choose_anchors(graph, rules, scope, flow, math.inf, asked)[1:3] for asked in range(5)]
    assert entries + visits == min(map(sum, weighed))
    assert anchors == 1


# -------------------------------------------------------------------------------------------------- bad input


def test_a_memory_limit_below_what_one_vertex_needs() -> None:
    with pytest.raises(InvalidNode, match="one vertex") as caught:
        Settings("h-cet", STEP_BYTES - 1)
    assert caught.value.hint


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_memory_limit_below_what_one_trend_needs(algorithm: str) -> None:
    graph = layers(*[1] * 20)
    with pytest.raises(GroupTooLarge, match="bytes") as caught:
        list(extract(graph, [0], [0], [20], complete=True, settings=Settings(algorithm, 20 * FRAME_BYTES - 1)))
    assert "memory_limit" in (caught.value.hint or "")


def test_partial_trends_beyond_the_limit() -> None:
    graph = layers(*[3] * 12)
    for how in (Settings("t-cet", 10**6), Settings("anchors", 1300)):
        with pytest.raises(GroupTooLarge, match="partial trends") as caught:
            list(extract(graph, [0], [0], [36], complete=True, settings=how))
        assert "h-cet" in (caught.value.hint or "")
    huge = layers(*[3] * 2000)
    with pytest.raises(GroupTooLarge):
        list(extract(huge, [0], [0], [6000], complete=True, settings=Settings("t-cet")))


# -------------------------------------------------------------------------------------- anchors, in two stages


def nodes_of(blocks: Iterable[Block]) -> list[Trend]:
    return [tuple(node for node, _ in bindings) for _, bindings in trends_of(blocks)]


def rows_of(cut: Cut, pieces: list[Trend]) -> Graph:
    """The graph of pieces, of which each says all anchors behind it."""
    begin = np.array([piece[0] for piece in pieces], dtype=np.int64)
    last = np.array([piece[-1] for piece in pieces], dtype=np.int64)
    return graph_of_pieces(begin, cut.roots[begin], cut.ends[last], cut.start[last], cut.stop[last], cut.anchor)


@settings(deadline=None, max_examples=200)
@given(cases(), st.integers(1, 3), st.integers(1, 3), st.data())
def test_pieces_between_anchors_are_found_once_and_joined_to_all_trends(
    case: Case, finders: int, joiners: int, data: st.DataObject
) -> None:
    graph, kept = make_graph(case)
    want = paths_of(kept, 0, 100, True)
    if not want:
        return
    preceded = {t for targets in kept.edges.values() for t in targets}
    chosen = data.draw(st.sets(st.sampled_from(sorted(preceded)))) if preceded else set()
    anchored = np.isin(np.arange(len(graph.event)), sorted(chosen))
    cut = cut_at(graph, anchored)
    shares = [nodes_of(find_pieces(cut, (share, finders))) for share in range(finders)]
    pieces = [piece for share in shares for piece in share]
    # The parts of trends between anchors, each of them once, by the node that they begin at.
    parts = set()
    for trend in want:
        bounds = [0, *(k for k in range(1, len(trend)) if trend[k] in chosen), len(trend)]
        parts |= {trend[start:stop] for start, stop in itertools.pairwise(bounds)}
    assert sorted(pieces) == sorted(parts)
    assert [piece[0] for piece in pieces] == sorted(piece[0] for piece in pieces)
    graph_of = rows_of(cut, pieces)
    joined = [nodes_of(join_pieces(graph_of, (share, joiners))) for share in range(joiners)]
    assert sorted(sum((pieces[k] for k in path), ()) for share in joined for path in share) == want
    # What the number of anchors is chosen by.
    count = len(graph.event)
    flow = find_flow(graph, rules_of(graph, True), Scope(0, NEVER, 0, count, False), 0, count)
    weighed = weigh(graph, anchored, flow.paths)
    assert (weighed.pieces, weighed.refs) == (len(pieces), sum(map(len, pieces)))
    assert weighed.visits == sum(1 + sum(node in chosen for node in trend[1:]) for trend in want)


def test_partial_trends_beyond_the_memory_of_a_task_are_not_joined() -> None:
    """Two partial trends to an anchor, and two from there."""
    rows = [
        {"share": 0, "number": 0, "begin": 0, "last": 0, "role": 1, "next": [2], "trend": ["a"]},
        {"share": 0, "number": 1, "begin": 0, "last": 1, "role": 1, "next": [2], "trend": ["a", "b"]},
        {"share": 0, "number": 2, "begin": 2, "last": 3, "role": 2, "next": [], "trend": ["c", "d"]},
        {"share": 0, "number": 3, "begin": 2, "last": 4, "role": 2, "next": [], "trend": ["c", "e", "f"]},
    ]
    batches = pa.Table.from_pylist(rows).to_batches(max_chunksize=3)
    (columns,) = join_stream(JoinSpec(1, None), iter(batches))
    found = ["".join(trend) for trend in columns[0].to_pylist()]
    assert sorted(found) == ["abcd", "abcef", "acd", "acef"]
    assert list(join_stream(JoinSpec(1, None), iter([]))) == []
    with pytest.raises(GroupTooLarge, match="the 4 partial trends between anchors take ") as caught:
        list(join_stream(JoinSpec(1, 100), iter(batches)))
    assert "anchors=" in (caught.value.hint or "")


def test_the_number_of_anchors_is_the_cheapest_that_fits() -> None:
    graph = layers(*[3] * 12)
    every = {number: anchors_of(graph, number, None) for number in range(1, 40)}
    paths = find_flow(graph, rules_of(graph, True), Scope(0, NEVER, 0, 36, False), 0, 36).paths
    costs = {number: weigh(graph, anchored, paths) for number, (anchored, _) in every.items()}
    assert every[39][1] == every[11][1] == 11
    for memory in (None, 10_000, 100_000):
        _, number = anchors_of(graph, None, memory)
        fitting = [n for n in (1, 2, 4, 8, 11) if memory is None or costs[n].bytes <= memory]
        assert number == min(fitting, key=lambda n: (costs[n].cost, n))
    smallest = min((1, 2, 4, 8, 11), key=lambda n: costs[n].bytes)
    assert anchors_of(graph, None, 1)[1] == smallest


@pytest.mark.parametrize("weights", [[0, -(2**63), 5], [0, 2**63 - 1, 5], [0.0, -math.inf, math.nan]])
def test_no_weight_is_less_than_any(weights: list[float]) -> None:
    """Ranks of trends put those without a weight behind all others, whichever chunks they are from."""
    block = Block(np.zeros(1, dtype=np.int64), *(np.zeros(0, dtype=kind) for kind in (np.int64, np.int16, np.int64)))
    first, second = (
        _falling(KBest(np.array(some), np.array(present), block), None)
        for some, present in ((weights[:1], [False]), (weights[1:], [True, True]))
    )
    assert np.argsort(np.concatenate([first, second]), kind="stable").tolist()[-1] == 0
    both = _falling(KBest(np.array(weights), np.array([False, True, True]), block), None)
    assert np.argsort(both, kind="stable").tolist()[-1] == 0
