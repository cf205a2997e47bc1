"""Every way to get complete trends gives the reference enumerator's answer, on generated queries and streams.

Without Spark, the kernels' streams are judged however they are cut into batches, chunks and time buckets. With it, one
job judges a query over many streams at once: each stream is a group of one DataFrame.
"""

from __future__ import annotations

import functools
import itertools
import random
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import attrs
import generators
import numpy as np
import pyarrow as pa
import pytest
import reference
from pyspark.sql import functions as F
from test_kernel_aggregate import CUTTING, Worker, by_case, rows_of, sorted_batches

import cetdsl as cet
from cetdsl.errors import GroupTooLarge, UnsupportedQuery
from cetdsl.frontend.sase import parse
from cetdsl.ir.extraction import Extraction
from cetdsl.ir.indexes import with_orders
from cetdsl.ir.kernel import ALL, ENDS, MAXIMAL
from cetdsl.ir.machine import Comparison, Edge, Machine
from cetdsl.ir.operators import DropContained, ListPaths, Merge
from cetdsl.ir.stages import ContainmentSpec, GraphSpec, SampleSpec, TopSpec, TrendsSpec
from cetdsl.ir.windowing import SLIDING, SPAN
from cetdsl.kernels.answers.merge import merge_stream
from cetdsl.kernels.complete import grounds, jobs, streams
from cetdsl.kernels.complete.containment import containment_stream
from cetdsl.kernels.complete.picks import sample_stream, top_stream
from cetdsl.kernels.complete.streams import count_stream, graph_stream
from cetdsl.kernels.enumerate.trends import trend_stream
from cetdsl.kernels.graph.build import GraphBuilder
from cetdsl.kernels.graph.edges import list_edges
from cetdsl.kernels.graph.reduction import reduce_edges
from cetdsl.kernels.vocabulary import Events
from cetdsl.pattern.expressions import COMPARISONS, Aggregate, Length
from cetdsl.pattern.query import Query
from cetdsl.pattern.text import unparse
from cetdsl.planning.strategies.complete import (
    ALGORITHMS,
    IN_TASK,
    CompleteRequest,
    CountRequest,
    count_paths,
    defined,
    graph,
    refined,
)
from cetdsl.planning.strategies.request import Declined, compile_sides

pytestmark = pytest.mark.simple_plans

READINGS = (MAXIMAL, ENDS)
EVERYTHING = generators.ALL.without("top_conjunction")
#: What makes a query have no graph is left out, so that most queries have one.
GRAPHS = EVERYTHING.without(
    "edge_negation", "correlated_negation", "pairwise", "aggregate_predicates", "span", "repeated_variables",
    "bounded_repeat",
)  # fmt: skip

Listed = Counter[tuple[Any, Any, Any]]


def expected_trends(query: Query, rows: list[Any], completeness: str, ties: tuple[str, ...]) -> Listed:
    """(group, window, trend) of all trends, or of the complete ones."""
    if completeness == ALL:
        cells = reference.trends(query, rows, tie_break=ties)
    else:
        cells = reference.complete_trends(query, rows, completeness, tie_break=ties)
    return Counter((group, window, trend) for (group, window, _), found in cells.items() for trend in found)


# ------------------------------------------------------------------------------------------------- without Spark


class Task(Worker):
    """One query over some rows, as the workers of complete trends would see it."""

    def request(self, completeness: str, algorithm: str = "auto") -> CompleteRequest:
        return CompleteRequest(
            self.resolved, completeness, Extraction(algorithm), ("id",), None, compile_sides(self.resolved)
        )

    def graph(self, completeness: str) -> ListPaths:
        plan = graph(self.request(completeness))
        if isinstance(plan, Declined):
            raise UnsupportedQuery(plan.reason)
        assert isinstance(plan, ListPaths), plan
        return plan

    def spec(self, plan: ListPaths, algorithm: str = "auto", memory: int | None = None, **more: Any) -> GraphSpec:
        keys = tuple(range(len(plan.source.keys if plan.child.identified else plan.source.groups)))
        kernel = self._typed(plan.spec, (), event=True)
        trends = TrendsSpec(kernel, keys, plan.compiled.names, ("id",))
        return GraphSpec(trends, Extraction(algorithm, memory), **more)

    def rows_in(self, plan: Any, spec: Any, batch: int, values: Any = ()) -> Iterator[pa.RecordBatch]:
        return self.batches(plan.source, plan.compiled, spec, values, batch, event=True)

    def listed(self, rows: list[Any], plan: Any) -> list[tuple[Any, ...]]:
        """(group, window, trend) of each row, and what stands before the trend."""
        groups = len(plan.source.groups)
        found = []
        for row in rows:
            values = [value.as_py() for value in row]
            window = tuple(values[groups].values()) if plan.source.windowing.kind == SLIDING else None
            trend = tuple((binding["event"]["id"], binding["variable"]) for binding in values[-1])
            group = tuple(reference._key(value) for value in values[:groups])
            found.append((group, window, trend, *values[groups + (window is not None) : -1]))
        return found

    def complete(self, plan: ListPaths, algorithm: str, chunk: int, batch: int, memory: int | None = None) -> Listed:
        spec = self.spec(plan, algorithm, memory)
        stream = graph_stream(spec, self.rows_in(plan, spec.trends.kernel, batch), chunk)
        return Counter(self.listed(rows_of(stream), plan))

    def counted(self, completeness: str, chunk: int, batch: int) -> dict[Any, int]:
        plan = count_paths(CountRequest(self.request(completeness), "n", "string"))
        assert not isinstance(plan, Declined), plan
        spec = self._typed(plan.spec, ())
        batches = self.batches(plan.source, plan.compiled, spec, (), batch)
        found = rows_of(count_stream(spec, batches, chunk))
        if isinstance(plan, Merge):
            keys = spec.answer.groups + (spec.query.windowing.kind == SLIDING)
            found = rows_of(merge_stream(spec.with_answer(partial=False), sorted_batches(found, keys, batch)))
        return {key: int(values["n"]) for key, values in self._answer(spec, found).items()}

    def sampled(self, plan: ListPaths, size: int, seed: int, chunk: int, batch: int) -> list[Any]:
        spec = self.spec(plan)
        stream = sample_stream(SampleSpec(spec, size, seed), self.rows_in(plan, spec.trends.kernel, batch), chunk)
        return sorted(self.listed(rows_of(stream), plan), key=lambda row: row[-1])[:size]

    def heaviest(self, plan: ListPaths, size: int, by: Aggregate, chunk: int, batch: int) -> list[Any]:
        values = () if by.argument is None or isinstance(by.argument, Length) else (by.argument,)
        spec = self.spec(plan)
        kernel = self._typed(plan.spec, values, event=True).with_query(completeness=plan.spec.query.completeness)
        spec = attrs.evolve(spec, trends=attrs.evolve(spec.trends, kernel=kernel))
        name = by.variable if by.argument is None else getattr(by.argument, "variable", None)
        bound = () if name is None else plan.compiled.numbers_of(name)
        stream = top_stream(TopSpec(spec, size, bound), self.rows_in(plan, kernel, batch, values), chunk)
        return sorted(self.listed(rows_of(stream), plan), key=lambda row: heavy_first(row[-1]))[:size]

    def definition(self, completeness: str, algorithm: str = "definition") -> DropContained:
        """What lists trends and drops those that others contain: all trends, or if there are any, candidates."""
        request = self.request(completeness, algorithm)
        plan = Declined("") if algorithm == "definition" else refined(request)
        plan = defined(request) if isinstance(plan, Declined) else plan
        assert isinstance(plan, DropContained), plan
        if plan.compiled.residual:
            raise UnsupportedQuery("Spark tests finished trends")
        return plan

    def candidates(self, plan: DropContained, batch: int) -> list[tuple[Any, ...]]:
        """The trends of which some are complete, with all keys."""
        if isinstance(plan.child, ListPaths):
            paths = self.spec(plan.child)
            return rows_of(graph_stream(paths, self.rows_in(plan, paths.trends.kernel, batch), batch))
        keys = tuple(range(len(plan.source.keys)))
        spec = TrendsSpec(self._typed(plan.spec, (), event=True), keys, plan.compiled.names, ("id",))
        return rows_of(trend_stream(spec, self.rows_in(plan, spec.kernel, batch)))

    def defined(self, plan: DropContained, batch: int) -> Listed:
        source, compiled = plan.source, plan.compiled
        keys, sliding = len(source.keys), source.windowing.kind == SLIDING
        trends = self.candidates(plan, batch)
        for_sieve = [
            (*row[:-1], pa.scalar([b["event"]["id"] for b in bindings]), pa.scalar([b["variable"] for b in bindings]),
             row[-1])
            for row in trends
            for bindings in [row[-1].as_py()]
        ]  # fmt: skip

        def place(row: tuple[Any, ...]) -> Any:
            values = [value.as_py() for value in row[: keys + sliding]]
            return [reference._rank(v["start"] if isinstance(v, dict) else v) for v in values], -len(row[-1])

        shown, names = tuple(range(len(source.groups))), compiled.names
        sieve = ContainmentSpec(plan.layout, shown, names, plan.completeness, plan.memory)
        stream = containment_stream(sieve, sorted_batches(sorted(for_sieve, key=place), 0, batch))
        return Counter(self.listed(rows_of(stream), plan))


def tasks(first: int, count: int, features: generators.Features) -> Iterator[tuple[Query, list[Any], tuple[str, ...]]]:
    """Queries with a few streams each."""
    for seed in range(first, first + count):
        case = generators.random_case(seed, features)
        rows = generators.stack([case.rows, *(generators.random_stream(70_000 + 3 * seed + n) for n in range(3))])
        yield by_case(case.query), rows, case.tie_break


def cuts_of(query: Query) -> tuple[int, ...]:
    """Time buckets as the planner cuts them, and short ones."""
    return (-1,) if query.window is None else (-1, 1 + 2 * (len(unparse(query)) % 2))


@pytest.mark.parametrize("first", range(200_000, 200_300, 50))
def test_paths_of_graphs_are_the_complete_trends(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Else windows as small as these are walked, and no graphlet is planned.
    for threshold in ("PLANNING_VISITS", "PLANNING_LOOKS", "SHARING_VISITS"):
        monkeypatch.setattr(jobs, threshold, 0)
    judged = 0
    for query, rows, ties in tasks(first, 50, GRAPHS):
        for completeness, cut in itertools.product(READINGS, cuts_of(query)):
            task = Task(query, rows, ties, cut)
            try:
                plan = task.graph(completeness)
            except UnsupportedQuery:
                continue
            expected = expected_trends(query, rows, completeness, ties)
            # By turns, so that each algorithm meets each way of cutting.
            for turn, algorithm in enumerate(IN_TASK, judged):
                chunk, batch = CUTTING[turn % len(CUTTING)]
                found = task.complete(plan, algorithm, chunk, batch)
                assert found == expected, (completeness, algorithm, cut, chunk, batch, ties, unparse(query))
            judged += 1
    assert judged > 60


@pytest.mark.parametrize("first", range(210_000, 210_300, 100))
def test_paths_are_counted_as_they_are_listed(first: int) -> None:
    judged = 0
    for query, rows, ties in tasks(first, 100, GRAPHS):
        for completeness, cut in itertools.product(READINGS, cuts_of(query)):
            task = Task(query, rows, ties, cut)
            try:
                task.graph(completeness)
            except UnsupportedQuery:
                continue
            counts: Counter[Any] = Counter()
            for (group, window, _), number in expected_trends(query, rows, completeness, ties).items():
                counts[group, window] += number
            chunk, batch = CUTTING[judged % len(CUTTING)]
            found = task.counted(completeness, chunk, batch)
            assert found == counts, (completeness, cut, chunk, batch, ties, unparse(query))
            judged += 1
    assert judged > 120


@pytest.mark.parametrize("first", range(220_000, 220_200, 100))
def test_paths_that_are_drawn(first: int) -> None:
    judged = 0
    for query, rows, ties in tasks(first, 100, GRAPHS):
        for completeness, cut in itertools.product((*READINGS, ALL), cuts_of(query)):
            task = Task(query, rows, ties, cut)
            try:
                plan = task.graph(completeness)
            except UnsupportedQuery:
                continue
            expected = expected_trends(query, rows, completeness, ties)
            whole = task.sampled(plan, 10**6, first, *CUTTING[0])
            assert Counter(row[:3] for row in whole) == expected, (completeness, cut, unparse(query))
            assert len({row[-1] for row in whole}) == len(whole), "two trends have the same key"
            few = task.sampled(plan, 3, first, *CUTTING[judged % len(CUTTING)])
            assert len(few) == min(3, expected.total())
            assert not Counter(row[:3] for row in few) - expected
            judged += 1
    assert judged > 120


#: What no edge at the end of a path tells: variables at several places, counts, and NOT at the ends.
SEVERAL_PLACES = (
    "A{3,}", "A{2,4}", "A{2}", "SEQ(A+, B) OR SEQ(B, A+)", "SEQ(A+, A)", "SEQ(A, B?, A+)",
    "SEQ(A+, B+) OR SEQ(B+, A{2,3})", "(SEQ(A, B))+ OR A{1,2}", "SEQ(B, A{1,2}, B?)", "SEQ(A, B+, A{0,2})",
    "SEQ(A{0,2}, NOT C, B, A?)", "SEQ(A, B, NOT C, B) OR SEQ(B, B)", "SEQ(C, A, NOT B, A) OR SEQ(A, A)",
)  # fmt: skip
AT_THE_ENDS = (
    "SEQ(NOT C, A+)", "SEQ(A+, NOT C)", "SEQ(NOT C, A, B+, NOT C)", "SEQ(NOT SEQ(C, B b), A{1,3})",
    "SEQ(A, B+, NOT SEQ(C c, A d))", "SEQ(NOT C, A+) OR B{2,3}", "SEQ(A+, NOT C) OR SEQ(B, A)",
)  # fmt: skip
ONE_PLACE = ("A+", "SEQ(A+, B+)", "SEQ(A, B*, A c)", "(SEQ(A, B+))+", "SEQ(A, NOT C, B+)", "(A OR B)+")
NEIGHBOURS = {
    "A.x < NEXT(A).x": "AA", "A.x = NEXT(B).x": "AB", "B.x >= NEXT(A).x": "BA", "A.s != NEXT(A).s": "AA",
    "ABS(B.x - NEXT(B).x) < 2": "BB",
}  # fmt: skip
COUNTS = (
    "COUNT(A) >= 2", "LENGTH >= 3", "COUNT(A) <= 2", "COUNT(A) = 2", "LENGTH != 2", "COUNT(A) IN (1, 3)",
    "(LENGTH = 2 OR LENGTH > DECIMAL '3.5')", "NOT (COUNT(A) = 1 OR COUNT(A) > 2.5)",
)  # fmt: skip
WITHINS = ("", "WITHIN 4 SLIDE 4", "WITHIN 5 SLIDE 2", "WITHIN 3", "WITHIN 5")


def shadowed(seed: int) -> tuple[Query, list[Any]]:
    """A query whose complete trends the edges at the ends of a path do not tell, and a few streams."""
    chosen = random.Random(seed)
    kind = seed % 3
    within = chosen.choice(WITHINS if kind < 2 else WITHINS[3:])
    pattern = chosen.choice((SEVERAL_PLACES, AT_THE_ENDS, ONE_PLACE)[kind])
    pairs, _ = generators.neighbours(parse(f"PATTERN {pattern}").pattern)
    where = [one for one, pair in NEIGHBOURS.items() if tuple(pair) in pairs]
    where = chosen.sample(where, min(len(where), chosen.choice((0, 1, 1, 2))))
    if chosen.random() < 0.3:
        where.append(chosen.choice(COUNTS))
    if chosen.random() < 0.2:
        where.append("A.x > 0")
    keys = chosen.choice(("", "", "GROUP BY g", "[k]"))
    if keys == "[k]":
        where, keys = [*where, keys], ""
    conditions = f"WHERE {' AND '.join(where)}" if where else ""
    query = parse(f"PATTERN {pattern} {conditions} {keys} {within}")
    choose = generators.Chooser(chosen.randint)
    return query, generators.stack([generators.build_stream(choose, 8, likely="AABBC") for _ in range(4)])


def judge_paths(
    task: Task, plan: Any, completeness: str, expected: Counter[Any], turn: int, seed: int, context: object
) -> None:
    """Trends are listed, counted, sampled and ranked; the turn says by which algorithm, and how the stream is cut.

    Small chunks take most of the time, so one of the four in turn is given them, and the others all at once.
    """
    cuts = [CUTTING[0]] * 4
    cuts[turn // len(CUTTING) % 4] = CUTTING[turn % len(CUTTING)]
    listing, counting, sampling, ranking = cuts
    algorithm = IN_TASK[(turn + turn // 12) % len(IN_TASK)]
    assert task.complete(plan, algorithm, *listing) == expected, context
    counts: Counter[Any] = Counter()
    for (group, window, _), number in expected.items():
        counts[group, window] += number
    assert task.counted(completeness, *counting) == counts, context
    drawn = task.sampled(plan, 10**6, seed, *sampling)
    assert Counter(row[:3] for row in drawn) == expected, context
    assert len({row[-1] for row in drawn}) == len(drawn), "two trends have the same key"
    heaviest = task.heaviest(plan, 3, Aggregate("max", None, Length()), *ranking)
    weights = sorted((len(trend) for _, _, trend in expected.elements()), reverse=True)
    assert [row[-1] for row in heaviest] == weights[:3], context


def judge_shadowed(
    first: int, readings: Iterable[str], monkeypatch: pytest.MonkeyPatch
) -> tuple[Counter[Any], Counter[Any]]:
    """Judges thirty queries; returns how many had each kind of graph, by reading, and how many of these have a span."""
    judged: Counter[Any] = Counter()
    spans: Counter[Any] = Counter()
    for seed in range(first, first + 30):
        # Copies of few events at a time, or of all.
        monkeypatch.setattr(grounds, "MOST_COPIES", (3, 2**20)[seed % 2])
        query, rows = shadowed(seed)
        query = by_case(query)
        cuts = cuts_of(query)
        for completeness in readings:
            task = Task(query, rows, (), cuts[seed % len(cuts)])
            try:
                plan = task.graph(completeness)
            except UnsupportedQuery:
                continue
            shadows = plan.child.spec.query.shadows
            expected = expected_trends(query, rows, completeness, ())
            turn = judged.total()
            context = (completeness, shadows and shadows.kind, unparse(query))
            judge_paths(task, plan, completeness, expected, turn, seed, context)
            judged[completeness, shadows and shadows.kind] += 1
            spans[completeness, shadows and shadows.kind] += plan.source.windowing.kind == SPAN
    return judged, spans


@pytest.mark.parametrize("first", range(0, 150, 30))
def test_trends_told_by_states(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    judged, spans = judge_shadowed(first, (*READINGS, ALL), monkeypatch)
    kinds = {("maximal", "reduced"), ("maximal", "followed"), ("ends", "states"), ("all", "states")}
    assert all(judged[kind] > 2 and spans[kind] > 0 for kind in kinds), (judged, spans)


@pytest.mark.parametrize("first", range(0, 60, 30))
def test_ends_told_by_states_that_are_followed(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the machine that knows the shadows of each state were always too large."""
    monkeypatch.setattr("cetdsl.planning.shadows.MOST_STATES", 0)
    judged, spans = judge_shadowed(first, (ENDS,), monkeypatch)
    followed = ENDS, "followed"
    assert min(spans[followed], judged[followed] - spans[followed]) > 5, (judged, spans)


@pytest.mark.parametrize(
    ("text", "maximal", "ends"),
    [
        ("A+", None, None),
        ("A{3,}", "reduced", "states"),
        ("A+ WHERE COUNT(A) >= 2", "reduced", "states"),
        ("SEQ(A+, B+) WHERE LENGTH >= 4", "reduced", "states"),
        ("A{2,4}", "followed", "states"),
        ("A+ WHERE COUNT(A) <= 3", "followed", "states"),
        ("A+ WHERE COUNT(A) IN (2, 4)", "followed", "states"),
        ("SEQ(A+, B) OR SEQ(B, A+)", "followed", "states"),
        ("A+ WITHIN 3", "reduced", "states"),
        ("A{3,} WITHIN 3", "reduced", "states"),
        ("A{2,4} WITHIN 3", "followed", "states"),
        ("SEQ(NOT B, A+)", "reduced", "states"),
        ("SEQ(A, B+, NOT C) WITHIN 3", "reduced", "states"),
        ("SEQ(NOT C, A, B) OR SEQ(B, A) WITHIN 3", "ways that differ in their NOTs", "ways that differ in their NOTs"),
        ("SEQ(A, NOT C, B) OR SEQ(B, A, B)", "followed", "states"),
        ("A{20}", "followed", "states"),
        ("SEQ(A, B, NOT C, B) OR SEQ(B, B)", "followed", "followed"),
        ("A{63}", "more than 62 states", "more than 512 states"),
        ("SEQ(NOT B, A{20})", "followed", "followed"),
        ("SEQ(NOT B, A{63})", "more than 62 states", "more than 12 places"),
    ],
)  # fmt: skip
def test_which_graph_tells_complete_trends(text: str, maximal: str | None, ends: str | None) -> None:
    case = "GROUP BY g WITHIN".join(text.split("WITHIN"))
    task = Task(parse(f"PATTERN {case}"), generators.random_stream(1), ())
    for completeness, told in ((MAXIMAL, maximal), (ENDS, ends)):
        if told is not None and " " in told:
            with pytest.raises(UnsupportedQuery, match=told):
                task.graph(completeness)
            continue
        shadows = task.graph(completeness).child.spec.query.shadows
        assert (shadows and shadows.kind) == told, completeness


#: Patterns and their variables: the first binds one event of each trend, which pairwise predicates compare with others.
AROUND = {
    "SEQ(A, B+)": "AB",
    "SEQ(B, A, C)": "ABC",
    "SEQ(B+, A, C+)": "ABC",
    "SEQ(A, (SEQ(B, C))+)": "ABC",
    "SEQ(B?, C*, A)": "ABC",
    "SEQ(A, NOT C, B+)": "AB",
    "SEQ(A, (B+ OR C))": "ABC",
    "SEQ((B OR C)+, A)": "ABC",
}
#: The last ones split into no two sides.
RELATIONS = ("{0}.x {1} {2}.x", "{0}.s {1} {2}.x", "{0}.x * {2}.x {1} 1", "({0}.x {1} {2}.x OR {0}.s = {2}.s)")
LINKS = ("B.x <= NEXT(B).x", "ABS(B.x - NEXT(B).x) < 2", "B.s != NEXT(B).s")


def around_one_event(seed: int) -> tuple[Query, list[Any]]:
    """A query whose pairwise predicates have one event in common, and a few streams."""
    chosen = random.Random(seed)
    pattern, (pivot, *others) = chosen.choice(list(AROUND.items()))
    where = [chosen.choice(RELATIONS).format(pivot, chosen.choice(COMPARISONS), other) for other in others]
    if "B+" in pattern and chosen.random() < 0.5:
        where.append(chosen.choice(LINKS))
    within = chosen.choice(["", "WITHIN 4 SLIDE 4", "WITHIN 5 SLIDE 2", "WITHIN 3", "WITHIN 5"])
    query = parse(f"PATTERN {pattern} WHERE {' AND '.join(where)} {within}")
    choose = generators.Chooser(chosen.randint)
    return query, generators.stack([generators.build_stream(choose, 7, likely="ABBC") for _ in range(4)])


@pytest.mark.parametrize("first", [0, 60])
def test_graphs_around_one_event(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for threshold in ("PLANNING_VISITS", "PLANNING_LOOKS", "SHARING_VISITS"):
        monkeypatch.setattr(jobs, threshold, 0)
    judged = trends = 0
    for seed in range(first, first + 60):
        # Copies of few events at a time, or of all.
        monkeypatch.setattr(grounds, "MOST_COPIES", (3, 2**20)[seed % 2])
        query, rows = around_one_event(seed)
        query = by_case(query)
        for completeness, cut in itertools.product((*READINGS, ALL), cuts_of(query)):
            task = Task(query, rows, (), cut)
            plan = task.graph(completeness)
            expected = expected_trends(query, rows, completeness, ())
            context = (completeness, cut, unparse(query))
            judge_paths(task, plan, completeness, expected, judged, seed, context)
            judged += plan.spec.query.pivot >= 0
            trends += expected.total()
    assert judged > 120
    assert trends > 600


@pytest.mark.parametrize("completeness", READINGS)
def test_unequal_values_are_two_ranges(completeness: str) -> None:
    """Nearly every event may follow every other one, so that edges would take room with the square of the events."""
    count = 3_000
    machine = with_orders(Machine((0,), ((0, ()),), ((0, ()),), (Edge(0, 0, (Comparison("!=", 0, 0),)),)))
    time, none = np.arange(count), np.zeros((0, count + 1), dtype=np.int64)
    codes = np.random.default_rng(1).integers(0, 50, (1, count))
    bounds, ones = np.array([0, count]), np.ones((1, count), dtype=np.bool_)
    events = Events(bounds, time, time, np.ones(count, dtype=np.int64), codes, ones, none, none[:0, 0])
    graph = GraphBuilder(machine).build(events)
    assert len(graph.ranges.target) == 2 * count
    if completeness == MAXIMAL:
        reduced = reduce_edges(graph, machine)
        assert reduced is not None
        follow = [reduced.target[low:high].tolist() for low, high in zip(reduced.start, reduced.stop)]
        # A path leads round each edge but one to the next event of another value.
        other = [next((j for j in range(i + 1, count) if codes[0, j] != codes[0, i]), None) for i in range(count)]
        assert all(targets[:1] == [j] for targets, j in zip(follow, other) if j is not None)
    else:
        listed = list_edges(graph)
        assert listed is not None
        assert len(listed.target) == (codes[0][:, None] != codes[0]).sum() // 2


def test_a_variable_at_many_places_is_planned_at_once() -> None:
    """What may precede its event are 2,048 sets of states, most of them unions of others."""
    query = parse("PATTERN SEQ(A, (A OR B){11})")
    begun = time.process_time()
    assert Task(query, []).graph(ENDS).child.spec.query.shadows.kind == "followed"
    assert time.process_time() - begun < 2


def weight(trend: Any, rows: list[Any], by: Aggregate) -> int | None:
    if isinstance(by.argument, Length):
        return len(trend)
    if by.argument is None:
        return sum(name == by.variable for _, name in trend)
    values = [rows[event][by.argument.name] for event, name in trend if name == by.argument.variable]
    present = [value for value in values if value is not None]
    return sum(present) if present else None


def heavy_first(weight: int | None) -> tuple[bool, int]:
    """NULL comes last."""
    return weight is None, -(weight or 0)


@pytest.mark.parametrize("first", range(230_000, 230_200, 100))
def test_the_heaviest_paths(first: int) -> None:
    judged = 0
    for number, (query, rows, ties) in enumerate(tasks(first, 100, GRAPHS)):
        names = sorted({event.variable for event in generators.positive_events(query.pattern)})
        argument = generators.Attribute(names[number % len(names)], "x")
        by = (Aggregate("max", None, Length()), Aggregate("sum", None, argument), Aggregate("count", names[0]))[
            number % 3
        ]
        for completeness, cut in itertools.product((*READINGS, ALL), cuts_of(query)):
            task = Task(query, rows, ties, cut)
            try:
                plan = task.graph(completeness)
            except UnsupportedQuery:
                continue
            expected = expected_trends(query, rows, completeness, ties)
            weights = sorted((weight(key[2], rows, by) for key in expected.elements()), key=heavy_first)
            chunk, batch = CUTTING[judged % len(CUTTING)]
            found = task.heaviest(plan, 4, by, chunk, batch)
            context = (completeness, cut, chunk, batch, by, unparse(query))
            assert [row[-1] for row in found] == weights[:4], context
            assert not Counter(row[:3] for row in found) - expected, context
            assert all(row[-1] == weight(row[2], rows, by) for row in found), context
            judged += 1
    assert judged > 120


@pytest.mark.parametrize("first", range(240_000, 240_300, 100))
def test_the_definition_as_a_kernel(first: int) -> None:
    judged = 0
    for query, rows, ties in tasks(first, 100, EVERYTHING.without("aggregate_predicates")):
        for completeness in READINGS:
            task = Task(query, rows, ties)
            expected = expected_trends(query, rows, completeness, ties)
            for batch in (2**20, 2):
                try:
                    found = task.defined(task.definition(completeness), batch)
                except UnsupportedQuery:
                    continue
                assert found == expected, (completeness, batch, ties, unparse(query))
                judged += 1
    assert judged > 250


def test_windows_whose_graph_is_too_large_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = 0
    monkeypatch.setattr(streams, "MOST_EDGES", 4)
    monkeypatch.setattr(streams, "SHADOWED_EDGE", 1)
    for query, rows, ties in tasks(200_000, 40, GRAPHS):
        for completeness in READINGS:
            task = Task(query, rows, ties)
            try:
                plan = task.graph(completeness)
            except UnsupportedQuery:
                continue
            try:
                found = task.complete(plan, "m-cet", *CUTTING[0])
            except GroupTooLarge as error:
                assert re.match(r"group \(\d.*: \d events are joined by more than 4 edges", error.message)  # noqa: PT017
                joined = completeness == "ends" and plan.child.spec.query.shadows is None
                # Of maximal trends each task of a join holds all events, too.
                assert ("joins" in error.hint) == joined, "joins follow no states"  # noqa: PT017
                continue
            assert found == expected_trends(query, rows, completeness, ties), (completeness, ties, unparse(query))
            judged += 1
    assert judged > 20


# ---------------------------------------------------------------------------------------------------- with Spark

STREAMS = 60
#: Each query is asked in three of these ways, so that six queries ask all; what has no graph is told by the definition.
WAYS = tuple(itertools.product(("auto", "balanced", "definition", *IN_TASK, "sample", "top"), READINGS))
WAYS_OF_ONE = 3


class Judge:
    """Streams in one DataFrame, and the complete trends that they should give."""

    def __init__(self, rows: list[generators.Row], df: Any) -> None:
        self.rows, self.df = rows, df
        self.refused = 0

    def answers(self, query: Query, ties: tuple[str, ...], ways: Iterable[tuple[str, str]]) -> dict[Any, Any]:
        """The lazy answer of each way to ask and each reading; what an algorithm cannot take is asked without one."""
        bound = cet.pattern(self.df, query, time="t", tie_break=ties)
        answers = {}
        for how, completeness in ways:
            if how == "sample":
                answer = bound.sample_trends(7, 5, completeness=completeness, columns=["id"])
            elif how == "top":
                answer = bound.top_trends(7, completeness=completeness, columns=["id"]).drop("length")
            else:
                try:
                    answer = bound.complete_trends(completeness, how, columns=["id"])
                except UnsupportedQuery:
                    answer = bound.complete_trends(completeness, columns=["id"])
                    self.refused += 1
            answers[how, completeness] = answer
        return answers

    def judge(self, query: Query, ties: tuple[str, ...], ways: Iterable[tuple[str, str]], keyed: bool = True) -> None:
        """Compares all answers with the reference, of the streams as groups of their own unless they are one stream."""
        query = by_case(query) if keyed else query
        for (how, completeness), rows in collected(query, self.answers(query, ties, ways)).items():
            context = f"{completeness}, {how}, ties={ties}\n{unparse(query)}"
            trends = expected_trends(query, self.rows, completeness, ties)
            if how in ("sample", "top"):
                assert not rows - trends, context
                assert rows.total() == min(7, trends.total()), context
                lengths = sorted((len(key[2]) for key in trends.elements()), reverse=True)
                longest = sorted((len(key[2]) for key in rows.elements()), reverse=True)
                assert how == "sample" or longest == lengths[:7], context
            else:
                assert rows == trends, context

    def judge_counts(self, query: Query, ties: tuple[str, ...]) -> None:
        """Compares the counts of both readings, in two number forms, with the reference."""
        query = by_case(query)
        bound = cet.pattern(self.df, query, time="t", tie_break=ties)
        for completeness, number in zip(READINGS, ("string", "log2"), strict=True):
            counts: Counter[Any] = Counter()
            for (group, window, _), times in expected_trends(query, self.rows, completeness, ties).items():
                counts[group, window] += times
            found = {}
            for row in bound.count_complete_trends(completeness, "n", number).collect():
                place = place_of(query, row)
                assert place not in found, ("two rows of one group and window", place)
                found[place] = int(row.n) if number == "string" else round(2**row.n)
            assert found == counts, f"{completeness}, ties={ties}\n{unparse(query)}"


def place_of(query: Query, row: Any) -> tuple[Any, Any]:
    """Group and window of a row of an answer."""
    values = row.asDict()
    window = values.get("window")
    return tuple(reference._key(values[column]) for column in query.group_by), tuple(window) if window else None


def collected(query: Query, answers: dict[Any, Any]) -> dict[Any, Listed]:
    """The rows of several answers, by one job."""
    found: dict[Any, Listed] = {what: Counter() for what in answers}
    tagged = [answer.withColumn("what", F.lit(number)) for number, answer in enumerate(answers.values())]
    names = list(answers)
    for row in functools.reduce(lambda a, b: a.unionByName(b), tagged).collect():
        trend = tuple((binding.event.id, binding.variable) for binding in row.trend)
        found[names[row.what]][(*place_of(query, row), trend)] += 1
    return found


@pytest.fixture(scope="module")
def judge(spark: Any) -> Judge:
    rows = generators.stacked(80_000, STREAMS)
    return Judge(rows, generators.frame(spark, rows).cache())


def in_turn(first: int) -> Iterator[tuple[str, str]]:
    """The ways in which one of several queries is asked."""
    return itertools.islice(itertools.cycle(WAYS), WAYS_OF_ONE * first, WAYS_OF_ONE * (first + 1))


@pytest.mark.classic
@pytest.mark.parametrize("first", range(300_000, 300_024, 6))
def test_queries_with_a_graph(judge: Judge, first: int) -> None:
    before = judge.refused
    for turn in range(6):
        case = generators.random_case(first + turn, GRAPHS)
        judge.judge(case.query, case.tie_break, in_turn(turn))
    # Two of the six queries may have no graph.
    assert judge.refused - before <= 2 * WAYS_OF_ONE


@pytest.mark.classic
@pytest.mark.parametrize("first", [320_000, 320_005])
def test_all_queries(judge: Judge, first: int) -> None:
    for seed in range(first, first + 5):
        case = generators.random_case(seed, EVERYTHING)
        drawn, heaviest = READINGS if seed % 2 else READINGS[::-1]
        ways = [*(("auto", reading) for reading in READINGS), ("sample", drawn), ("top", heaviest)]
        judge.judge(case.query, case.tie_break, ways)


@pytest.mark.classic
@pytest.mark.parametrize(("first", "features"), [(330_000, GRAPHS), (340_000, EVERYTHING)])
def test_counts(judge: Judge, first: int, features: generators.Features) -> None:
    for seed in range(first, first + 8):
        case = generators.random_case(seed, features)
        judge.judge_counts(case.query, case.tie_break)


@pytest.fixture(scope="module")
def line(spark: Any) -> Judge:
    """Streams one after the other, as one."""
    rows = [{**row, "t": row["t"] % 8 + 9 * row["case"]} for row in generators.stacked(81_000, 5)]
    return Judge(rows, generators.frame(spark, rows).cache())


@pytest.mark.classic
@pytest.mark.parametrize("window", ["", "WITHIN 12 SLIDE 12", "WITHIN 12 SLIDE 5"])
@pytest.mark.parametrize("keys", ["", "GROUP BY k"])
def test_every_algorithm_with_and_without_keys_and_windows(line: Judge, keys: str, window: str) -> None:
    query = parse(f"PATTERN EVENT(e, x >= 0)+ WHERE e.x < NEXT(e).x {keys} {window}")
    before = line.refused
    line.judge(query, (), list(itertools.product(ALGORITHMS, READINGS)), keyed=False)
    assert line.refused == before
    assert len(expected_trends(query, line.rows, ENDS, ())) > 5


@pytest.mark.classic
def test_windows_without_keys(line: Judge) -> None:
    """Queries of every shape, which have neither groups nor partitions."""
    features = EVERYTHING.without("group", "partition", "span")
    cases = (generators.random_case(seed, features) for seed in itertools.count(350_000))
    windowed = itertools.islice((case for case in cases if case.query.window is not None), 6)
    for turn, case in enumerate(windowed):
        line.judge(case.query, case.tie_break, in_turn(turn), keyed=False)
