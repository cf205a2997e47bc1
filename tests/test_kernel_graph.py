"""The graph of trends against brute force: every pair of events is tried, and every path is walked."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np
import pytest

from cetdsl.ir.machine import Comparison, Edge, Machine
from cetdsl.ir.transitions import transitions_of
from cetdsl.kernels.graph.attribute_graph import NEVER, NOWHERE
from cetdsl.kernels.graph.build import GraphBuilder
from cetdsl.kernels.graph.edges import list_edges
from cetdsl.kernels.graph.reduction import _irredundant, reduce_edges
from cetdsl.kernels.vocabulary import Events, Graph

Node = tuple[int, int]  # event and state
Random = np.random.Generator

_COMPARE = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def _one(*comparisons: tuple[str, int, int], listed: tuple[int, ...] = ()) -> Machine:
    """A Kleene closure of one variable."""
    edge = Edge(0, 0, tuple(Comparison(*c) for c in comparisons), listed)
    return Machine((0,), ((0, ()),), ((0, ()),), (edge,))


def _machine(initial: tuple[int, ...], final: tuple[int, ...], *edges: tuple[Any, ...]) -> Machine:
    transitions = tuple(Edge(source, target, tuple(Comparison(*c) for c in rest)) for source, target, *rest in edges)
    states = range(1 + max(state for edge in transitions for state in (edge.source, edge.target)))
    return Machine(tuple(states), tuple((q, ()) for q in initial), tuple((q, ()) for q in final), transitions)


MACHINES = {
    "chain": _one(("=", 0, 1)),
    "rising": _one((">", 0, 0)),
    "not falling": _one((">=", 0, 0)),
    "falling with a key": _one(("<", 0, 0), ("=", 1, 1)),
    "order of two columns": _one((">", 0, 1)),
    "order of two columns with a key": _one(("<=", 0, 1), ("=", 2, 0)),
    "no predicate": _one(),
    "one key": _one(("=", 1, 1)),
    "two keys": _one(("=", 1, 1), ("=", 0, 2)),
    "unequal": _one(("!=", 0, 0)),
    "between": _one((">", 0, 0), ("<", 0, 1)),
    "listed": _one(listed=(0,)),
    "listed in a key": _one(("=", 0, 0), listed=(1, 0)),
    "SEQ(A, B+)": _machine((0,), (1,), (0, 1), (1, 1, ("<", 0, 0))),
    "SEQ(A, B+) of one order": _machine((0,), (1,), (0, 1, (">", 0, 1)), (1, 1, (">=", 0, 0))),
    "SEQ(A, B+) of two orders": _machine((0,), (1,), (0, 1, (">", 1, 1)), (1, 1, (">", 0, 0))),
    "SEQ(A, B+) in a key": _machine((0,), (1,), (0, 1, ("=", 1, 1)), (1, 1, ("=", 1, 1), (">", 0, 0))),
    "SEQ(A, B+) of keys": _machine((0,), (1,), (0, 1, ("<", 0, 0)), (1, 1, ("=", 1, 1))),
    "SEQ(A+, B+)": _machine((0,), (1,), (0, 0, ("<", 0, 0)), (0, 1, ("<", 0, 0)), (1, 1, ("<", 0, 0))),
    "SEQ(A, (SEQ(B+, C?))+)": _machine((0,), (1, 2), (0, 1), (1, 1, (">", 0, 0)), (1, 2, (">=", 0, 1)), (2, 1)),
    "SEQ(A, B*, C+)": _machine((0,), (2,), (0, 1), (0, 2, (">", 0, 0)), (1, 1), (1, 2), (2, 2, (">", 0, 0))),
    "SEQ(A, B+)+": _machine((0,), (1,), (0, 1, ("=", 0, 1)), (1, 1, ("<", 0, 0), (">=", 1, 1)), (1, 0)),
    "SEQ(A, B, C)": _machine((0,), (2,), (0, 1, ("=", 0, 1)), (1, 2, (">", 0, 0))),
    "three states": _machine(
        (0, 1), (2, 0), (0, 1, ("!=", 0, 1)), (0, 2, ("=", 0, 1)), (1, 1), (1, 2, (">", 1, 0), ("=", 2, 2)),
        (2, 0, ("=", 0, 0)),
    ),
}  # fmt: skip


# ------------------------------------------------------------------------------------------------ brute force


@attrs.frozen
class Brute:
    """The graph by its definition: all nodes and edges, whether or not they lie on a trend."""

    machine: Machine
    events: Events
    length: int
    follows: dict[Node, set[Node]]

    @classmethod
    def of(cls, machine: Machine, events: Events, length: int = 0) -> Brute:
        follows: dict[Node, set[Node]] = {
            (i, q): set()
            for i in range(len(events.time))
            for q, variable in enumerate(machine.variables)
            if events.mask[i] >> variable & 1
        }
        for edge, (i, p), (j, q) in itertools.product(machine.edges, follows, follows):
            if (p, q) == (edge.source, edge.target) and _may_follow(events, length, edge, i, j):
                follows[i, p].add((j, q))
        return cls(machine, events, length, follows)

    def begins(self, node: Node) -> bool:
        return any(node[1] == state for state, _ in self.machine.initial)

    def ends(self, node: Node) -> bool:
        return any(node[1] == state for state, _ in self.machine.final)

    def origins(self) -> tuple[dict[Node, int], dict[Node, int]]:
        origin, before = {}, dict.fromkeys(self.follows, NOWHERE)
        for v in sorted(self.follows):
            origin[v] = v[0] if self.begins(v) else before[v]
            for w in self.follows[v]:
                before[w] = max(before[w], origin[v])
        return origin, before

    def reaches(self) -> tuple[dict[Node, int], dict[Node, int]]:
        reach: dict[Node, int] = {}
        after: dict[Node, int] = {}
        for v in sorted(self.follows, reverse=True):
            after[v] = min((reach[w] for w in self.follows[v]), default=NEVER)
            reach[v] = v[0] if self.ends(v) else after[v]
        return reach, after

    def descendants(self) -> dict[Node, set[Node]]:
        found: dict[Node, set[Node]] = {}
        for v in sorted(self.follows, reverse=True):
            found[v] = self.follows[v].union(*(found[w] for w in self.follows[v]))
        return found

    def trends(self, low: int, high: int) -> set[tuple[Node, ...]]:
        def walk(path: tuple[Node, ...]) -> Iterator[tuple[Node, ...]]:
            if self.ends(path[-1]):
                yield path
            for w in self.follows[path[-1]]:
                if w[0] < high:
                    yield from walk((*path, w))

        return {path for v in self.follows if low <= v[0] < high and self.begins(v) for path in walk((v,))}


def _may_follow(events: Events, length: int, edge: Edge, i: int, j: int) -> bool:
    segment = np.searchsorted(events.segment_start, [i, j], side="right")
    if segment[0] != segment[1] or events.instant[i] >= events.instant[j]:
        return False
    if length and events.time[j] - events.time[i] >= length:
        return False
    for c in edge.comparisons:
        if not (events.valid[c.later, j] and events.valid[c.earlier, i]):
            return False
        if not _COMPARE[c.op](events.codes[c.later, j], events.codes[c.earlier, i]):
            return False
    return all(i in _listed(events, row, j) for row in edge.listed)


def _listed(events: Events, row: int, j: int) -> Any:
    return events.list_items[events.list_start[row, j] : events.list_start[row, j + 1]]


# ------------------------------------------------------------------------------------------------ random events


def random_events(random: Random, count: int, values: int = 4, states: int = 3) -> Events:
    """Events with ties, NULLs, several keys, several variables per event, and two lists of earlier events."""
    keys = int(random.integers(1, 4)) if count > 4 else 1
    bounds = [0, *sorted(random.integers(0, count + 1, keys - 1).tolist()), count]
    start = np.unique(bounds).astype(np.int64)
    time = np.concatenate([np.sort(random.integers(0, b - a + 1, b - a)) for a, b in itertools.pairwise(start)])
    new = np.append(True, time[1:] != time[:-1])
    new[start[:-1]] = True
    shape = (3, count)
    items: list[int] = []
    list_start = np.zeros((2, count + 1), dtype=np.int64)
    for row, j in itertools.product(range(2), range(count)):
        list_start[row, j] = len(items)
        first = start[np.searchsorted(start, j, side="right") - 1]
        items += (first + np.nonzero(random.random(j - first) < 0.6)[0]).tolist()
        list_start[row, j + 1] = len(items)
    return Events(
        start,
        time,
        np.cumsum(new) - 1,
        random.integers(0, 2**states, count),
        random.integers(0, values, shape),
        random.random(shape) < 0.9,
        list_start,
        np.array(items, dtype=np.int64),
    )


def plain_events(codes: Any) -> Events:
    """Events of one key, one a tick, each of them bound to any variable."""
    codes = np.asarray(codes, dtype=np.int64)
    time = np.arange(codes.shape[1], dtype=np.int64)
    ones = np.ones(codes.shape, dtype=np.bool_)
    none = np.zeros((0, len(time) + 1), dtype=np.int64)
    return Events(np.array([0, len(time)]), time, time, np.full(len(time), 7), codes, ones, none, none[0:0, 0])


def nodes_of(graph: Graph) -> list[Node]:
    return list(zip(graph.event.tolist(), graph.state.tolist(), strict=True))


def successors(graph: Graph) -> dict[Node, list[Node]]:
    nodes = nodes_of(graph)
    return {v: [nodes[t] for t in graph.target[graph.start[k] : graph.stop[k]]] for k, v in enumerate(nodes)}


@pytest.fixture(params=list(MACHINES), ids=str)
def machine(request: pytest.FixtureRequest) -> Machine:
    return MACHINES[request.param]


def streams(machine: Machine, examples: int, most: int = 13) -> Iterator[tuple[Random, Events]]:
    for seed in range(examples):
        random = np.random.default_rng(seed)
        yield random, random_events(random, int(random.integers(1, most + 1)), states=len(machine.variables))


# ----------------------------------------------------------------------------------------------------- the graph


def test_passes_find_what_lies_on_a_trend(machine: Machine) -> None:
    for _, events in streams(machine, 40):
        brute = Brute.of(machine, events)
        built = GraphBuilder(machine).build(events).nodes
        (origin, before), (reach, after) = brute.origins(), brute.reaches()
        nodes = sorted(v for v in brute.follows if origin[v] != NOWHERE and reach[v] != NEVER)
        assert nodes_of(built) == nodes
        for found, expected in zip(built[4:8], (origin, before, reach, after), strict=True):
            assert found.tolist() == [expected[v] for v in nodes]
        assert built.begins.tolist() == [brute.begins(v) for v in nodes]
        assert built.ends.tolist() == [brute.ends(v) for v in nodes]


def test_edges(machine: Machine) -> None:
    for random, events in streams(machine, 40):
        length = int(random.integers(0, len(events.time) + 2))
        brute = Brute.of(machine, events, length)
        graph = list_edges(GraphBuilder(machine, length).build(events))
        assert graph is not None
        found = successors(graph)
        assert found == {v: sorted(w for w in brute.follows[v] if w in found) for v in found}


def test_reduction(machine: Machine) -> None:
    for random, events in streams(machine, 40):
        length = int(random.integers(0, len(events.time) + 2))
        brute = Brute.of(machine, events, length)
        graph = reduce_edges(GraphBuilder(machine, length).build(events), machine)
        assert graph is not None
        found, beyond = successors(graph), brute.descendants()
        for v, kept in found.items():
            direct = {w for w in brute.follows[v] if w in found}
            # A detour that leaves the useful nodes would not be one of a trend, but there is none.
            assert kept == sorted(w for w in direct if not any(w in beyond[x] for x in direct))


def test_windows_read_off_the_graph(machine: Machine) -> None:
    """Which nodes lie on a trend of a window, and its complete trends, without another pass over the edges."""
    for random, events in streams(machine, 25, most=9):
        brute = Brute.of(machine, events)
        built = GraphBuilder(machine).build(events)
        full, reduced = list_edges(built), reduce_edges(built, machine)
        assert full is not None
        assert reduced is not None
        first, last = sorted(random.integers(0, len(events.segment_start), 2).tolist())
        bounds = events.segment_start[first], events.segment_start[last]
        low, high = sorted(random.integers(bounds[0], bounds[1] + 1, 2).tolist())
        trends = brute.trends(low, high)
        on_trend = {v for trend in trends for v in trend}
        inside = (built.nodes.origin >= low) & (built.nodes.reach < high)
        assert [v for v, seen in zip(nodes_of(built.nodes), inside, strict=True) if seen] == sorted(on_trend)
        for graph, contains in ((full, _is_run), (reduced, _is_part)):
            complete = {t for t in trends if not any(t != other and contains(t, other) for other in trends)}
            assert complete_paths(graph, low, high) == complete


def complete_paths(graph: Graph, low: int, high: int) -> set[tuple[Node, ...]]:
    """Paths of a window that cannot be extended at either end."""
    nodes, follows = nodes_of(graph), successors(graph)
    number = {v: k for k, v in enumerate(nodes)}

    def walk(path: tuple[Node, ...]) -> Iterator[tuple[Node, ...]]:
        k = number[path[-1]]
        if graph.ends[k] and graph.reach_after[k] >= high:
            yield path
        for w in follows[path[-1]]:
            if graph.reach[number[w]] < high:
                yield from walk((*path, w))

    roots = graph.begins & (graph.origin_before < low) & (graph.event >= low) & (graph.reach < high)
    return {path for k in np.nonzero(roots)[0] for path in walk((nodes[k],))}


def _is_part(short: tuple[Node, ...], long: tuple[Node, ...]) -> bool:
    rest = iter(long)
    return all(node in rest for node in short)


def _is_run(short: tuple[Node, ...], long: tuple[Node, ...]) -> bool:
    return any(long[k : k + len(short)] == short for k in range(len(long) - len(short) + 1))


# -------------------------------------------------------------------------------------------------- published


def test_published_chains_of_checks() -> None:
    """c1: A->B, c2: B->C, c3: B->D, c4: D->E."""
    machine = MACHINES["chain"]
    graph = list_edges(GraphBuilder(machine).build(plain_events([[0, 1, 1, 3], [1, 2, 3, 4]])))
    assert graph is not None
    paths = {tuple(i for i, _ in path) for path in complete_paths(graph, 0, 4)}
    assert paths == {(0, 1), (0, 2, 3)}


def test_published_prices() -> None:
    """1, 2, 3: one trend is maximal, two cannot be extended at their ends."""
    machine = MACHINES["rising"]
    built = GraphBuilder(machine).build(plain_events([[1, 2, 3]]))
    full, reduced = list_edges(built), reduce_edges(built, machine)
    assert full is not None
    assert reduced is not None
    assert {tuple(i for i, _ in path) for path in complete_paths(full, 0, 3)} == {(0, 1, 2), (0, 2)}
    assert {tuple(i for i, _ in path) for path in complete_paths(reduced, 0, 3)} == {(0, 1, 2)}


@pytest.mark.parametrize("group", [1, 2, 3, 4, 6])
def test_published_layers(group: int) -> None:
    """Twelve events, each compatible with the whole next group: no grouping has more trends than threes."""
    layer = np.repeat(np.arange(12 // group), group)
    graph = list_edges(GraphBuilder(MACHINES["chain"]).build(plain_events([layer, layer + 1])))
    assert graph is not None
    assert len(complete_paths(graph, 0, 12)) == group ** (12 // group) <= 3**4


# ------------------------------------------------------------------------------------------------------- larger


def test_edges_of_a_long_list() -> None:
    """Longer than a stretch of the skip table, with few values that are allowed."""
    random = np.random.default_rng(0)
    values, limits = random.integers(0, 1000, 2_000), random.integers(-900, 1000, 2_000)
    machine = _one(("<=", 0, 1))
    graph = list_edges(GraphBuilder(machine).build(plain_events([values, limits])))
    assert graph is not None
    for v in range(2_000):
        expected = v + 1 + np.nonzero(values[v + 1 :] <= limits[v])[0]
        assert np.array_equal(graph.target[graph.start[v] : graph.stop[v]], expected)


@pytest.mark.parametrize("name", ["rising", "not falling", "falling with a key", "one key"])
def test_reductions_of_orders_agree_with_the_general_one(name: str) -> None:
    random = np.random.default_rng(1)
    for _ in range(20):
        events = random_events(random, 300, values=int(random.integers(2, 200)), states=1)
        built = GraphBuilder(MACHINES[name]).build(events)
        full, reduced = list_edges(built), reduce_edges(built, MACHINES[name])
        assert full is not None
        assert reduced is not None
        bounds, target = _irredundant(full.start, full.stop, full.target, np.ones(300, dtype=np.bool_))
        expected = [target[a:b].tolist() for a, b in itertools.pairwise(bounds)]
        assert [reduced.target[a:b].tolist() for a, b in zip(reduced.start, reduced.stop, strict=True)] == expected


def test_reduction_of_many_nodes() -> None:
    """More nodes than one block of bit maps holds."""
    random = np.random.default_rng(2)
    count = 9_000
    near = random.integers(1, 5, (2, count))
    codes = np.stack([np.arange(count) // 2, np.arange(count) // 2 + near[0]])
    graph = list_edges(GraphBuilder(MACHINES["chain"]).build(plain_events(codes)))
    assert graph is not None
    more = [np.unique(np.append(graph.target[a:b], graph.target[a:b] + 2)) for a, b in zip(graph.start, graph.stop)]
    more = [targets[targets < count] for targets in more]
    stop = np.cumsum([len(targets) for targets in more])
    start = stop - [len(targets) for targets in more]
    targets = np.concatenate(more).astype(np.int32)
    bounds, target = _irredundant(start, stop, targets, np.ones(count, dtype=np.bool_))
    # Shares put together, of which one does not begin or end with a block.
    shares = np.arange(count) // 5_000, np.arange(count) // 100 == 44
    parts = [_irredundant(start, stop, targets, own) for own in (shares[0] == 0, shares[0] == 1, shares[1])]
    for v in range(count):
        edges = [part[ends[v] : ends[v + 1]].tolist() for ends, part in parts]
        whole = target[bounds[v] : bounds[v + 1]].tolist()
        assert edges[0] + edges[1] == whole
        assert edges[2] == [t for t in whole if t // 100 == 44]
    beyond = [0] * count
    for v in range(count - 1, -1, -1):
        kept = []
        for t in more[v].tolist():
            if not beyond[v] >> t & 1:
                kept.append(t)
                beyond[v] |= beyond[t] | 1 << t
        assert target[bounds[v] : bounds[v + 1]].tolist() == kept


def test_too_many_edges_are_not_listed() -> None:
    built = GraphBuilder(MACHINES["rising"]).build(plain_events([np.arange(20)]))
    graph = list_edges(built, 190)
    assert graph is not None
    assert len(graph.target) == 190
    assert list_edges(built, 189) is None


@pytest.mark.parametrize("name", ["rising", "falling with a key", "one key", "chain", "unequal"])
def test_shares_reduce_all_edges_between_them(name: str) -> None:
    random = np.random.default_rng(3)
    events = random_events(random, 200, values=40, states=1)
    built = GraphBuilder(MACHINES[name]).build(events)
    share = built.nodes.event * 3 // 200
    whole, *parts = (
        {(v, t) for v in range(len(g.start)) for t in g.target[g.start[v] : g.stop[v]].tolist()}
        for g in (reduce_edges(built, MACHINES[name], wanted=own) for own in (None, *(share == n for n in range(3))))
        if g is not None
    )
    assert whole == set.union(*parts)
    assert len(whole) == sum(map(len, parts))


@pytest.mark.parametrize(("name", "needed"), [("rising", 19), ("unequal", 190)])
def test_too_many_edges_are_not_reduced(name: str, needed: int) -> None:
    """An order is reduced without its other edges; where "may follow" is not transitive, all of them are needed."""
    built = GraphBuilder(MACHINES[name]).build(plain_events([np.arange(20)]))
    reduced = reduce_edges(built, MACHINES[name], needed)
    assert reduced is not None
    assert (reduced.stop - reduced.start).sum() == 19
    assert reduce_edges(built, MACHINES[name], needed - 1) is None


def test_which_machines_are_indexed() -> None:
    indexed = {name for name, machine in MACHINES.items() if all(t.is_separable for t in transitions_of(machine))}
    assert set(MACHINES) - indexed == {
        *("unequal", "between", "listed", "listed in a key", "SEQ(A, B+)+", "three states"),
    }


def test_an_index_keeps_no_node_per_edge() -> None:
    """Half a million edges of an order take space in proportion to the events."""
    built = GraphBuilder(MACHINES["rising"]).build(plain_events([np.arange(1_000)]))
    assert sum(array.nbytes for array in (*built.nodes, *built.ranges, built.instant)) < 100 * 1_000
