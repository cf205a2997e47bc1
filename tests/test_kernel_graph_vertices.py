"""The graph as rows, without Spark: generated queries, however the stream is cut into batches, chunks and buckets."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import generators
import numpy as np
import pytest
import reference
from test_kernel_aggregate import CUTTING, SCHEMA, SPARK, Worker, by_case, rows_of

from cetdsl.analysis.types import type_of
from cetdsl.errors import UnsupportedQuery
from cetdsl.ir.operators import ShowGraph
from cetdsl.ir.stages import EventGraphSpec
from cetdsl.ir.transitions import Transition, transitions_of
from cetdsl.ir.windowing import SLIDING
from cetdsl.kernels.graph import vertices
from cetdsl.kernels.graph.vertices import cut_lists, vertex_stream
from cetdsl.pattern.query import Query
from cetdsl.pattern.text import unparse
from cetdsl.planning.strategies.event_graph import event_graph

#: What a graph can tell: neighbours only, and windows that slide.
GRAPHS = generators.ALL.without("correlated_negation", "pairwise", "aggregate_predicates", "span", "top_conjunction")
Place = tuple[Any, ...]  # key and window
Node = tuple[Place, int, int]  # place, number of the event, state


class Task(Worker):
    """One query over some rows, as the workers that show its graph would see it."""

    def plan(self) -> ShowGraph:
        plan = event_graph(self.resolved, ("id",), "kernel")
        if any(str(type_of(code.expr, SCHEMA)) not in SPARK for code in plan.compiled.codes):
            raise UnsupportedQuery("these rows are made without Spark, which alone can compute all types")
        return plan

    def part(self, plan: ShowGraph, part: str, chunk: int, batch: int) -> Iterator[tuple[Place, list[Any]]]:
        """Place, and the values after it, of each row of a part."""
        listed = part in ("attributes", "from", "to")
        values = tuple(code.expr for code in plan.compiled.codes) if listed else ()
        event = part == "vertices"
        spec = EventGraphSpec(self._typed(plan.spec, values, event=event), part, ("id",))
        batches = self.batches(plan.source, plan.compiled, spec.kernel, values, batch, event=event)
        count = len(plan.source.keys) + (plan.source.windowing.kind == SLIDING)
        for row in rows_of(vertex_stream(spec, batches, chunk)):
            found = [value.as_py() for value in row]
            place = [tuple(value.values()) if isinstance(value, dict) else reference._key(value) for value in found]
            yield tuple(place[:count]), found[count:]


class Found:
    """All parts of the graph of a task."""

    def __init__(self, task: Task, chunk: int, batch: int) -> None:
        self.task = task
        self.plan = task.plan()
        self.transitions = [t for t in transitions_of(self.plan.compiled.machine) if t.is_separable]

        def part(name: str) -> Iterator[tuple[Place, list[Any]]]:
            return task.part(self.plan, name, chunk, batch)

        rows = [((place, n, q), flags, event["id"]) for place, (n, q, *flags, event) in part("vertices")]
        self.flags = {node: flags for node, flags, _ in rows}
        self.event = {node: event for node, _, event in rows}
        assert len(self.event) == len(rows), "a vertex comes twice"
        self.edges, self.direct, self.reduced = (
            [((place, n, p), (place, m, q)) for place, (n, p, m, q) in part(name)]
            for name in ("edges", "direct", "reduced")
        )
        assert len(set(self.edges)) == len(self.edges), "an edge comes twice"
        self.attributes = [self._list(place, row, 1) for place, row in part("attributes")]
        self.from_edges = [self._list(place, row, 2) for place, row in part("from")]
        self.to_edges = [self._list(place, row, 3) for place, row in part("to")]

    def _list(self, place: Place, row: list[Any], more: int) -> tuple[Any, Transition, list[Any]]:
        """The name of a list, its transition, and what stands after it."""
        width = 2 * sum(len(t.equalities) for t in self.transitions)
        values = tuple(reference._key(value) for value in row[1 : 1 + width])
        # Each value is that of the later or of the earlier side.
        either = tuple(b if a is None else a for a, b in zip(values[::2], values[1::2], strict=True))
        return (place, row[0], either), self.transitions[row[0]], row[1 + width :]

    # -------------------------------------------------------------------------------------------------- judging

    def judge_paths(self, query: Query, ties: tuple[str, ...]) -> None:
        """The paths from first to last vertices are the trends, and nothing else is in the graph."""
        follows = defaultdict(list)
        for earlier, later in self.edges:
            follows[earlier].append(later)

        def walk(path: tuple[Node, ...]) -> Iterator[tuple[Node, ...]]:
            if self.flags[path[-1]][1]:
                yield path
            for node in follows[path[-1]]:
                yield from walk((*path, node))

        paths = [path for node, flags in self.flags.items() if flags[0] for path in walk((node,))]
        assert {node for path in paths for node in path} == set(self.flags)
        assert {edge for path in paths for edge in itertools.pairwise(path)} == set(self.edges)
        targets, sources = {later for _, later in self.edges}, {earlier for earlier, _ in self.edges}
        for node, (_, _, source, sink) in self.flags.items():
            assert (source, sink) == (node not in targets, node not in sources)
        names = [self.plan.compiled.variables[v][0] for v in self.plan.compiled.machine.variables]
        trends = Counter(
            (self.group(path[0][0]), tuple((self.event[node], names[node[2]]) for node in path)) for path in paths
        )
        expected: Counter[Any] = Counter()
        for (group, window, _), found in reference.trends(query, self.task.rows, tie_break=ties).items():
            expected.update(((group, window), trend) for trend in found)
        assert trends == expected

    def group(self, place: Place) -> Any:
        keys, groups = len(self.plan.source.keys), len(self.plan.source.groups)
        return place[:groups], place[keys] if len(place) > keys else None

    def judge_reduction(self) -> None:
        """The reduction has the edges that no other path replaces."""
        follows = defaultdict(set)
        for earlier, later in self.edges:
            follows[earlier].add(later)
        beyond: dict[Node, set[Node]] = {}
        for node in sorted(self.flags, key=lambda node: -node[1]):
            beyond[node] = set().union(*(follows[later] | beyond[later] for later in follows[node]))
        assert len(set(self.reduced)) == len(self.reduced)
        assert set(self.reduced) == {(a, b) for a, b in self.edges if b not in beyond[a]}

    def judge_attributes(self, ties: tuple[str, ...]) -> None:
        """From-edges and to-edges say which edges there are, but for time; ranges hold the values they should."""
        stream = reference.Stream(self.task.rows, "t", ties, "type")
        numbers = defaultdict(list)
        for name, _, (number, *_) in self.attributes:
            numbers[name].append(number)
        assert all(sorted(found) == list(range(len(found))) for found in numbers.values())
        members = defaultdict(list)
        for name, transition, (number, n) in self.from_edges:
            members[name, number].append((name[0], n, transition.edge.target))
        implied = list(self.direct)
        for name, transition, (n, begin, end) in self.to_edges:
            earlier = (name[0], n, transition.edge.source)
            assert 0 <= begin <= end <= len(numbers[name])
            for number in range(begin, end):
                for later in members[name, number]:
                    if stream.precedes(self.event[earlier], self.event[later]):
                        implied.append((earlier, later))
        assert Counter(implied) == Counter(self.edges)


def tasks(first: int, count: int) -> Iterator[tuple[Query, list[Any], tuple[str, ...]]]:
    for seed in range(first, first + count):
        case = generators.random_case(seed, GRAPHS)
        rows = generators.stack([case.rows, *(generators.random_stream(80_000 + 3 * seed + n) for n in range(3))])
        yield by_case(case.query), rows, case.tie_break


@pytest.mark.parametrize("first", range(300_000, 300_240, 40))
def test_graphs_of_generated_queries(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    judged = 0
    for number, (query, rows, ties) in enumerate(tasks(first, 40)):
        chunk, batch = CUTTING[number % len(CUTTING)]
        monkeypatch.setattr(vertices, "BLOCK_ROWS", 5 if number % 2 else 262_144)
        cut = -1 if query.window is None or number % 3 else 1 + number % 4
        try:
            found = Found(Task(query, rows, ties, cut), chunk, batch)
        except UnsupportedQuery:
            continue
        try:
            found.judge_paths(query, ties)
            found.judge_reduction()
            found.judge_attributes(ties)
        except Exception as error:
            error.add_note(f"chunks of {chunk}, batches of {batch}, cut {cut}, {ties}\n{unparse(query)}")
            raise
        judged += bool(found.edges)
    assert judged >= 6


@pytest.mark.parametrize("op", ["<", "<=", ">", ">=", None])
def test_lists_against_the_definition(op: str | None) -> None:
    """A to-edge covers the ranges of just those values that the bound allows, and bounds are where ranges meet."""
    holds = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}.get(op or "")
    for seed in range(60):
        random = np.random.default_rng(seed)
        count = int(random.integers(1, 4))
        later = random.integers(0, count, 12), random.integers(0, 8, 12)
        earlier = random.integers(0, count, 9), random.integers(-1, 9, 9)
        lists = cut_lists(op, count, later, earlier)
        for i, j in itertools.product(range(9), range(12)):
            if earlier[0][i] == later[0][j]:
                covered = lists.first[i] <= lists.vertex[j] < lists.stop[i]
                assert covered == (holds is None or holds(later[1][j], earlier[1][i]))
        for number in range(count):
            bounds = sorted(set(earlier[1][earlier[0] == number].tolist())) if op else []
            ranges = slice(lists.begin[number], lists.begin[number + 1])
            assert [earlier[1][row] for row in lists.low[ranges][1:]] == bounds
            assert [earlier[1][row] for row in lists.high[ranges][:-1]] == bounds
            assert lists.low[ranges][0] == lists.high[ranges][-1] == -1
