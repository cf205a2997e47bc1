"""The graph that grows event by event is the one that is built at once, after every event."""

from __future__ import annotations

import random
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_kernel_graph import MACHINES, plain_events, successors

from cetdsl.errors import InvalidNode, UnsupportedQuery
from cetdsl.ir.machine import Edge, Machine
from cetdsl.ir.transitions import transitions_of
from cetdsl.kernels.graph.build import GraphBuilder
from cetdsl.kernels.graph.edges import list_edges
from cetdsl.kernels.graph.incremental import AttributeVertices, IncrementalGraph, Node
from cetdsl.kernels.graph.vertices import cut_lists
from cetdsl.kernels.vocabulary import Events

#: Machines whose edges need no lists of Spark's.
GROWING = {name: machine for name, machine in MACHINES.items() if not name.startswith("listed")}
Arrival = tuple[int, int, tuple[Any, ...]]


def events_of(arrivals: list[Arrival]) -> Events:
    columns = np.array([[value or 0 for value in values] for _, _, values in arrivals], dtype=np.int64).T
    valid = np.array([[value is not None for value in values] for _, _, values in arrivals], dtype=np.bool_).T
    time = np.array([t for t, _, _ in arrivals], dtype=np.int64)
    instant = np.cumsum(np.append(0, time[1:] != time[:-1]))
    mask = np.array([mask for _, mask, _ in arrivals], dtype=np.int64)
    plain = plain_events(np.zeros((3, len(arrivals))))
    return plain._replace(time=time, instant=instant, mask=mask, codes=columns, valid=valid)


def judge(machine: Machine, graph: IncrementalGraph, arrivals: list[Arrival], first: int) -> None:
    """Compares with the graph of the events from ``first`` on; any of its nodes may yet end a trend."""
    states = range(len(machine.variables))
    built = GraphBuilder(attrs.evolve(machine, final=tuple((q, ()) for q in states))).build(events_of(arrivals[first:]))
    batch, found = list_edges(built), built.nodes
    assert batch is not None
    nodes = [Node(int(event) + first, int(state)) for event, state in zip(found.event, found.state)]
    assert list(graph.nodes) == nodes
    assert [origins.own - first for origins in graph.nodes.values()] == found.origin.tolist()
    before = [max(origins.before - first, -1) for origins in graph.nodes.values()]
    assert before == found.origin_before.tolist()
    expected = [(Node(i + first, p), Node(j + first, q)) for (i, p), ends in successors(batch).items() for j, q in ends]
    assert graph.edges() == sorted(expected, key=lambda edge: (edge[1], edge[0]))
    for number in range(len(machine.edges)):
        judge_ranges(machine, graph, number, arrivals, nodes)


def judge_ranges(
    machine: Machine, graph: IncrementalGraph, number: int, arrivals: list[Arrival], nodes: list[Node]
) -> None:
    t = transitions_of(machine)[number]

    def side(state: int, keys: list[int], column: int | None) -> list[tuple[Any, int, Node]]:
        found = []
        for node in nodes:
            values = arrivals[node.event][2]
            key = tuple(values[k] for k in keys)
            value = 0 if column is None else values[column]
            if node.state == state and None not in key and value is not None:
                found.append((key, value, node))
        return found

    later = side(t.edge.target, [c.later for c in t.equalities], t.order and t.order.later)
    earlier = side(t.edge.source, [c.earlier for c in t.equalities], t.order and t.order.earlier)
    keys = sorted({key for key, _, _ in later + earlier})
    columns = [
        (np.array([keys.index(key) for key, _, _ in rows], dtype=np.int64), np.array([v for _, v, _ in rows], np.int64))
        for rows in (later, earlier)
    ]
    lists = cut_lists(t.order.op if t.order else None, len(keys), *columns)
    for place, key in enumerate(keys):
        low = lists.low[lists.begin[place] + 1 : lists.begin[place + 1]]
        expected = AttributeVertices(
            [earlier[row][1] for row in low],
            {node: int(lists.vertex[k]) for k, (own, _, node) in enumerate(later) if own == key},
            {node: (int(lists.first[k]), int(lists.stop[k])) for k, (own, _, node) in enumerate(earlier) if own == key},
        )
        assert graph.ranges(number, key) == expected


@st.composite
def streams(draw: Any) -> list[tuple[int, int, tuple[Any, ...], int]]:
    """Gap, mask, values, and how many events expire."""
    value = st.one_of(st.none(), st.integers(0, 4)) if draw(st.booleans()) else st.integers(0, 4)
    one = st.tuples(
        st.integers(0, 2), st.integers(0, 7), st.tuples(value, value, value), st.sampled_from((0, 0, 0, 1, 3))
    )
    return draw(st.lists(one, min_size=1, max_size=12))


@pytest.mark.parametrize("name", GROWING)
def test_it_is_the_graph_built_at_once(name: str) -> None:
    machine = GROWING[name]

    @settings(max_examples=40, deadline=None, derandomize=True)
    @given(streams())
    def property_(stream: list[tuple[int, int, tuple[Any, ...], int]]) -> None:
        graph = IncrementalGraph(machine)
        arrivals: list[Arrival] = []
        time = first = 0
        for gap, mask, values, expiring in stream:
            time += gap
            arrivals.append((time, mask, values))
            added = graph.append(time, mask, values)
            assert set(added) <= set(graph.nodes)
            first = min(first + expiring, len(arrivals))
            if expiring:
                graph.expire(first)
            if first < len(arrivals):
                judge(machine, graph, arrivals, first)
            else:
                assert not graph.nodes
                assert graph.edges() == []

    property_()


def test_published_ranges_split_one_by_one() -> None:
    """Mei et al. (ICPP 2021), Table 2: where ranges of whole numbers begin, but for 0."""
    graph = IncrementalGraph(MACHINES["order of two columns"])
    beginnings = []
    for time, value in enumerate([32, 7, 15, 35, 40, 17]):
        graph.append(time, 1, (value, 2 * value, 0))
        beginnings.append([bound + 1 for bound in graph.ranges(0).bounds])
    assert [set(after) - set(before) for before, after in zip([[], *beginnings], beginnings, strict=False)] == [
        {65}, {15}, {31}, {71}, {81}, {35},
    ]  # fmt: skip
    assert beginnings[-1] == [15, 31, 35, 65, 71, 81]


def test_late_events_are_refused() -> None:
    graph = IncrementalGraph(MACHINES["rising"])
    graph.append(5, 1, (1, 1, 1))
    with pytest.raises(InvalidNode, match="instant 4 came after one of instant 5"):
        graph.append(4, 1, (1, 1, 1))
    assert len(graph.nodes) == 1


def test_what_takes_more_than_two_events_is_refused() -> None:
    guarded = Machine((0,), ((0, ()),), ((0, ()),), (Edge(0, 0, guards=(0,)),))
    for machine in (guarded, MACHINES["listed"]):
        with pytest.raises(UnsupportedQuery):
            IncrementalGraph(machine)


def test_a_long_stream_leaves_nothing_behind() -> None:
    """More events than a block of a sorted list holds, in a window that moves on."""
    machine, choose = MACHINES["rising"], random.Random(0)
    graph = IncrementalGraph(machine)
    arrivals: list[Arrival] = []
    for time in range(2_500):
        arrivals.append((time, 1, (choose.randrange(1_000), 0, 0)))
        graph.append(*arrivals[-1])
        graph.expire(time - 799)
        if time in (700, 1_600, 2_499):
            judge(machine, graph, arrivals, max(0, time - 799))
    graph.expire(2_500)
    (join,) = graph._joins
    kept = (graph.nodes, graph._of_origin, graph._values, graph._instants, graph._latest_instant, join.lists)
    assert not any(kept)
