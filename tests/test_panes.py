"""Windows as products of the matrices of their panes: the same answers as the reference's, in every number form."""

from __future__ import annotations

import itertools
import math
import random
import re
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from functools import reduce
from typing import Any

import attrs
import generators
import numpy as np
import pyarrow as pa
import pytest
import reference
import test_engines
import test_kernel_shared
from modes import more_on_classic
from test_engines import SIMPLE, agrees
from test_explain import explained
from test_kernel_aggregate import CUTTING, NUMBERS, SCHEMA, Worker, by_case, rows_at, rows_of, sorted_batches

import cetdsl as cet
import cetdsl.kernels.aggregate.panes
import cetdsl.planning.strategies.panes
from cetdsl.aggregates.vocabulary import COUNT, LARGEST, MOMENTS, ODD, SMALLEST, SUM
from cetdsl.analysis import Binding, analyse
from cetdsl.errors import CountOverflow, UnsupportedQuery
from cetdsl.execution.compat import schema_of
from cetdsl.execution.operators import run
from cetdsl.frontend.sase import parse
from cetdsl.ir.accumulators import TRENDS, Accumulator
from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.machine import Machine
from cetdsl.ir.operators import BuildPanes, Merge, PanesInPlace
from cetdsl.ir.windowing import SLIDING, WHOLE, Windowing, count_in_panes
from cetdsl.kernels.aggregate.cover import answers, cover_of, prefixes, suffixes
from cetdsl.kernels.aggregate.evaluate import Evaluator
from cetdsl.kernels.aggregate.matrices import lay_out_transitions, product
from cetdsl.kernels.aggregate.panes import PanesEvaluator, pane_stream, window_stream
from cetdsl.kernels.numbers.scaled import from_scaled, to_scaled
from cetdsl.kernels.wire.values import ValueColumn
from cetdsl.kernels.wire.windows import NEVER, cut_slices
from cetdsl.pattern.expressions import Aggregate, Attribute, attributes
from cetdsl.pattern.nodes import events as events_of
from cetdsl.pattern.query import Query, Returned, Window
from cetdsl.pattern.spans import Span
from cetdsl.pattern.text import unparse
from cetdsl.planning.panes import MIN_PANES_OVERLAP
from cetdsl.planning.planner import plan_aggregate
from cetdsl.planning.strategies.kernel import kernel
from cetdsl.planning.strategies.panes import MANY_BYTES, any_panes, panes
from cetdsl.planning.strategies.request import AggregateRequest, Declined, compile_sides
from cetdsl.rewrite import rewrite

pytestmark = pytest.mark.simple_plans

FEATURES = attrs.evolve(SIMPLE, partition=True, returned_strings=False)
WINDOWS = ((6, 2), (5, 3), (3, 5), (4, 1), (6, 4), (7, 3), (1, 1), (7, 1), (10, 3))


class PanesWorker(Worker):
    """A query by panes, as workers see it."""

    def aggregate(self, number: str, chunk_events: int = 2**20, batch: int = 2**20) -> dict[Any, dict[str, Any]]:
        aggregates = tuple((item.output_name, item.aggregate) for item in self.resolved.query.returning)
        plan = any_panes(AggregateRequest(self.resolved, aggregates, number, compile_sides(self.resolved)))
        if isinstance(plan, Declined):
            raise UnsupportedQuery(plan.reason)
        (built,) = (operator for operator in plan.walk() if isinstance(operator, BuildPanes))
        spec = self._typed(plan.spec, built.values)
        events = self.batches(plan.source, plan.compiled, spec, built.values, batch)
        spec = attrs.evolve(spec, layout=attrs.evolve(spec.layout, columns=(*spec.layout.columns, "s")))
        of_panes = rows_of(pane_stream(spec, with_panes(spec, events), chunk_events))
        keys = [tuple(reference._key(value.as_py()) for value in row[: spec.layout.keys + 1]) for row in of_panes]
        assert len(set(keys)) == len(keys), "two rows of one key and pane"
        found = rows_of(window_stream(spec, sorted_batches(of_panes, spec.layout.keys + 1, batch), chunk_events))
        return self._answer(spec, self._merged(spec, found, batch) if isinstance(plan, Merge) else found)


def with_panes(spec: KernelSpec, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows with the number of their pane."""
    whole, slide = spec.query.windowing.kind == WHOLE, spec.query.windowing.slide or 3
    rest = spec.query.windowing.length % slide
    for batch in batches:
        time = batch.column("t").to_pylist()
        pane = [t // slide if rest == 0 else 2 * (t // slide) + (t % slide >= rest) for t in time]
        if whole:
            pane = [
                min(max(range_, 0), 2) for range_ in pane
            ]  # far away from most others, events are in the outer ones
        yield batch.append_column("s", pa.array(pane, pa.int64())).select(list(spec.layout.columns))


def check(query: Query, rows: list[Any], ties: tuple[str, ...], number: str, each: bool = True) -> int:
    query = by_case(query) if each else query
    aggregates = {item.output_name: item.aggregate for item in query.returning}
    expected = None
    for chunk_events, batch in CUTTING:
        try:
            answer = PanesWorker(query, rows, ties).aggregate(number, chunk_events, batch)
        except UnsupportedQuery:
            return 0
        if expected is None:
            expected = reference.aggregate(query, rows, aggregates, tie_break=ties)
        context = f"chunks of {chunk_events}, batches of {batch}, {number}, {ties}\n{unparse(query)}"
        assert set(answer) == set(expected), f"{context}\ngroups differ: {set(answer) ^ set(expected)}"
        for key, values in expected.items():
            for name, value in values.items():
                got = answer[key][name]
                assert agrees(got, value, number, aggregates[name]), (context, key, name, got, value)
    return 1


def adds_up(aggregate: Aggregate, number: str) -> bool:
    """Whether the panes of a key add up to it: no extremes, and of moments those of whole numbers."""
    definition = aggregate.definition
    if any(update.moment for update in definition.buffer):
        return number in ("decimal", "string") and {node.name for node in attributes(aggregate)} == {"x"}
    return definition.is_additive


def suited(query: Query, seed: int) -> Query:
    """The query with windows, and without aggregates that do not add up."""
    returning = [item for item in query.returning if adds_up(item.aggregate, NUMBERS[seed % 4])]
    window = query.window
    if window is None or seed % 2:
        length, slide = WINDOWS[seed % len(WINDOWS)]
        window = Window(Span(length, "tick"), Span(slide, "tick"))
    count = Returned(Aggregate("count"), "trends")
    return attrs.evolve(query, returning=(*returning, count), window=window)


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_generated(first: int) -> None:
    compared = 0
    for seed in range(first, first + 50):
        case = generators.random_case(80_000 + seed, FEATURES)
        rows = generators.stack([case.rows, *(generators.random_stream(90_000 + 4 * seed + n) for n in range(4))])
        compared += check(suited(case.query, seed), rows, case.tie_break, NUMBERS[seed % 4])
    assert compared > 40


def test_generated_ranges() -> None:
    """Without groups and windows a pane is a range of time, whose matrix one task makes."""
    compared = 0
    for seed in range(150):
        case = generators.random_case(280_000 + seed, FEATURES)
        returning = [item for item in case.query.returning if adds_up(item.aggregate, NUMBERS[seed % 4])]
        count = Returned(Aggregate("count"), "trends")
        query = attrs.evolve(case.query, returning=(*returning, count), window=None, group_by=(), partition_by=())
        if "partition" not in unparse(query).lower():
            compared += check(query, case.rows, case.tie_break, NUMBERS[seed % 4], each=False)
    assert compared > 80


def check_in_place(query: Query, rows: list[Any], ties: tuple[str, ...], number: str) -> int:
    """How many ways to cut the stream were compared: none if panes do not answer the query, or not in their task."""
    aggregates = {item.output_name: item.aggregate for item in query.returning}
    expected = None
    for chunk_events, batch in CUTTING:
        try:
            answer = Worker(query, rows, ties).aggregate(number, chunk_events, batch, strategy=panes)
        except UnsupportedQuery:
            return 0
        if expected is None:
            expected = reference.aggregate(query, rows, aggregates, tie_break=ties)
        assert set(answer) == set(expected), unparse(query)
        for key, values in expected.items():
            for name, value in values.items():
                got = answer[key][name]
                assert agrees(got, value, number, aggregates[name]), (unparse(query), key, name, got, value)
    return len(CUTTING)


@pytest.mark.parametrize("first", range(0, 80, 40))
def test_generated_extremes(first: int) -> None:
    """Smallest and largest values and lengths, beside whatever else is asked for, where panes stay in their task."""
    compared = 0
    for seed in range(first, first + 40):
        case = generators.random_case(180_000 + seed, FEATURES)
        rows = generators.stack([case.rows, *(generators.random_stream(190_000 + 4 * seed + n) for n in range(4))])
        window = Window(*(Span(ticks, "tick") for ticks in ((8, 2), (9, 2), (4, 1), (7, 1))[seed % 4]))
        variable = next(iter(events_of(case.query.pattern))).variable
        extremes = [Returned(Aggregate(name, argument=Attribute(variable, "x")), name) for name in ("min", "max")]
        returning = [item for item in case.query.returning if item.output_name not in ("min", "max")]
        query = by_case(attrs.evolve(case.query, returning=(*returning, *extremes), window=window))
        compared += check_in_place(query, rows, case.tie_break, NUMBERS[seed % 4])
    assert compared > 30


def lone_group(number: str, size: int | None) -> tuple[str, str]:
    """The strategy that counts trends over all events of so many bytes, and why panes declined."""
    resolved, _ = rewrite(analyse(parse("PATTERN SEQ(A, B+)"), SCHEMA, Binding("t")))
    decision = plan_aggregate(resolved, (("n", Aggregate("count")),), number, bytes_read=lambda: size)
    return decision.strategy, dict(decision.declined).get("panes", "")


def test_the_only_group_is_cut_into_ranges_of_time_where_that_pays() -> None:
    assert lone_group("double", MANY_BYTES - 1) == (
        "kernel",
        "one task goes through what Spark estimates to be 63 MiB sooner than a sample of the times is taken",
    )
    assert "estimates to be 1,200 bytes sooner" in lone_group("log2", 1_200)[1]
    for number, size in (("double", MANY_BYTES), ("double", None), ("string", 1_200)):
        assert lone_group(number, size) == ("panes", "")


@pytest.mark.parametrize("few", [0, 4, 2**30])
def test_generated_texts(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows that hardly overlap: panes of large ones are multiplied in their task, small ones are propagated."""
    monkeypatch.setattr(cetdsl.kernels.aggregate.panes, "_FEW", few)
    compared = 0
    for seed in range(40):
        case = generators.random_case(380_000 + seed, FEATURES)
        window = Window(*(Span(ticks, "tick") for ticks in ((8, 8), (9, 5), (4, 6), (7, 3))[seed % 4]))
        returning = [item for item in case.query.returning if item.output_name not in ("min", "max")]
        count = Returned(Aggregate("count"), "trends")
        query = by_case(attrs.evolve(case.query, returning=(*returning, count), window=window))
        rows = generators.stack([case.rows, generators.random_stream(390_000 + seed)])
        compared += check_in_place(query, rows, case.tie_break, "string")
    assert compared > 30


# ------------------------------------------------------------------------------------------------ numbers of any size


def answer_of(text: str, rows: list[Any], number: str, chunk: int = 2**20) -> dict[int, dict[str, Any]]:
    """The answer of the only group, by the start of its windows."""
    found = PanesWorker(parse(text), rows).aggregate(number, chunk, min(chunk, 2**10))
    return {window[0]: values for (_, window), values in found.items()}


@pytest.mark.parametrize(("length", "slide"), [(900, 100), (900, 70), (64, 1), (1500, 1500), (40, 90)])
@pytest.mark.parametrize("chunk", [2**20, 50])
def test_counts_of_any_size(length: int, slide: int, chunk: int) -> None:
    """Two events at each tick that is divisible by 3, one at the others: 2 * 2 * 3 - 1 trends in each 3 ticks."""
    times = sorted([*range(2_000), *range(0, 2_000, 3)])
    text = f"RETURN COUNT(*) AS n, COUNT(B) AS events PATTERN B+ WITHIN {length} SLIDE {slide}"
    expected = {}
    for start in range(-(length // slide) * slide, 2_000, slide):
        inside = Counter(t for t in times if start <= t < start + length)
        trends = math.prod(1 + n for n in inside.values())
        # Each choice of one event at a tick is part of the choices at the other ticks.
        if inside:
            expected[start] = trends - 1, sum(n * trends // (1 + n) for n in inside.values())
    exact = answer_of(text, rows_at(times), "string", chunk)
    assert {start: tuple(map(int, row.values())) for start, row in exact.items()} == expected
    logarithms = answer_of(text, rows_at(times), "log2", chunk)
    assert set(logarithms) == set(expected)
    for start, (count, events) in expected.items():
        assert math.isclose(logarithms[start]["n"], math.log2(count), rel_tol=1e-12)
        assert math.isclose(logarithms[start]["events"], math.log2(events), rel_tol=1e-12)


def test_sums_of_any_size() -> None:
    """Weights of 62 bits of either sign, in sums of hundreds of digits; their average is a small number."""
    ids = [(-1) ** n * (2**62 - n) for n in range(300)] + [5]
    rows = [dict(row, id=i) for row, i in zip(rows_at(list(range(301))), ids, strict=True)]
    text = "RETURN SUM(B.id) AS total, AVG(B.id) AS mean, COUNT(*) AS n PATTERN B+ WITHIN 400 SLIDE 100"
    for start, values in answer_of(text, rows, "string").items():
        inside = ids[max(start, 0) : start + 400]
        assert int(values["n"]) == 2 ** len(inside) - 1
        assert int(values["total"]) == sum(inside) * 2 ** (len(inside) - 1)
        assert values["mean"] == float(Fraction(sum(inside), len(inside)))


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("events", [30, 1_500])
def test_doubles_of_any_size(number: str, events: int) -> None:
    """Infinities and NaN reach the windows that hold them only; neither 1e300 nor 1e-300 is lost."""
    values = [1e300 if n % 10 == 3 else 1e-300 for n in range(events)]
    values[events // 2] = math.inf
    values[-1] = math.nan
    rows = [dict(row, y=y) for row, y in zip(rows_at(list(range(events))), values, strict=True)]
    length = events // 5
    text = f"RETURN AVG(B.y) AS mean PATTERN B+ WITHIN {length} SLIDE {max(length // 6, 1)}"
    found = answer_of(text, rows, number)
    assert len(found) > 25
    for start, row in found.items():
        inside = values[max(start, 0) : start + length]
        assert reference.same_value(row["mean"], sum(inside) / len(inside)), (start, row)
    tiny = answer_of(text, [dict(row, y=1e-300) for row in rows], number)
    assert all(math.isclose(row["mean"], 1e-300, rel_tol=1e-9) for row in tiny.values())


@pytest.mark.parametrize(("number", "events"), [("decimal", 130), ("double", 1_030)])
def test_what_does_not_fit_is_an_error(number: str, events: int) -> None:
    text = f"PATTERN B+ WITHIN {events + 10} SLIDE {events + 10}"
    rows = rows_at(list(range(events)))
    with pytest.raises(CountOverflow) as by_panes:
        PanesWorker(with_count(text), rows).aggregate(number)
    with pytest.raises(CountOverflow) as by_kernel:
        Worker(with_count(text), rows).aggregate(number)
    assert str(by_panes.value) == str(by_kernel.value)
    assert f"the window from 0 to {events + 10}" in str(by_panes.value)


@pytest.mark.parametrize("most", [1, 200, 2**20])
def test_windows_of_a_chunk_have_the_values_that_they_have_event_by_event(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cetdsl.kernels.aggregate.panes, "_CHUNK_NUMBERS", most)
    for seed in range(60):
        choose = random.Random(seed)
        mask, time, segment = list[int](), list[int](), list[int]()
        for _ in range(choose.choice([1, 3])):
            segment.append(len(mask))
            now = choose.choice([-50, 0, 3])
            for _ in range(choose.choice([1, 5, 30])):
                now += choose.choice([0, 1, 1, 2, 9])
                mask.append(choose.randrange(16))
                time.append(now)
        fresh = (np.diff(time, prepend=time[0]) != 0) | np.isin(np.arange(len(mask)), segment)
        found = test_kernel_shared.events(mask, time)
        found = found._replace(segment_start=np.array([*segment, len(mask)]), instant=np.cumsum(fresh))
        whole = [None if choose.random() < 0.1 else choose.randint(-5, 9) for _ in mask]
        columns = [ValueColumn(pa.array(whole, pa.int64())), ValueColumn(pa.array([choose.random() for _ in mask]))]
        numbers = dict(zip("ABCD", range(4), strict=True))
        pattern = choose.choice(test_kernel_shared.PATTERNS)
        used = sorted(set(test_kernel_shared.machine(pattern, numbers).variables))
        more = [Accumulator(COUNT, used[0]), Accumulator(SUM, used[-1], 0), Accumulator(SUM, used[-1], 1)]
        more += [Accumulator(update, used[-1], column) for update in (*MOMENTS, ODD) for column in (0, 1)]
        extremes = [Accumulator(update, v, 0) for update in (SMALLEST, LARGEST) for v in {used[0], used[-1]}]
        extremes += [Accumulator(update) for update in (SMALLEST, LARGEST)]
        accumulators = (TRENDS, *choose.sample(more, choose.choice([0, 1, 3, 6])))
        accumulators += tuple(choose.sample(extremes, choose.choice([0, 1, len(extremes)])))
        windowing = Windowing("sliding", *choose.choice([(12, 3), (13, 3), (20, 1)]))
        spec = test_kernel_shared.query(pattern, numbers, NUMBERS[seed % len(NUMBERS)], windowing, accumulators)
        spec = attrs.evolve(spec, layout=spec.layout.with_values(("bigint", "double")))
        slices = cut_slices(windowing, found.segment_start, found.time, np.zeros(len(segment)), True, NEVER)
        bounds = (np.full(len(slices.low), NEVER), np.full(len(slices.low), -NEVER))
        got = PanesEvaluator(spec).evaluate(found, columns, slices, bounds)
        expected = Evaluator(spec).evaluate(found, columns, slices, bounds)
        assert (got.found == expected.found).all()
        for own, other in zip(got.exact, expected.exact, strict=True):
            assert (own is None) == (other is None)
            assert own is None or (own == other).all()
        for near, other in zip(got.scaled, expected.scaled, strict=True):
            assert np.allclose(near.real * 2.0**near.imag, other.real * 2.0**other.imag, rtol=1e-9, atol=1e-9)
        for largest, other in zip(got.extremes, expected.extremes, strict=True):
            assert (largest[got.found] == other[got.found]).all()


def with_count(text: str) -> Query:
    return parse(f"RETURN COUNT(*) {text}")


def test_a_pane_of_one_instant() -> None:
    """Simultaneous events are in no trend together, however many they are."""
    rows = rows_at([5] * 1_000, "AB" * 500)
    assert answer_of("RETURN COUNT(*) AS n PATTERN SEQ(A, B+) WITHIN 8 SLIDE 2", rows, "string") == {}
    found = answer_of("RETURN COUNT(*) AS n PATTERN B+ WITHIN 8 SLIDE 2", rows, "string")
    assert found == {start: {"n": "500"} for start in (-2, 0, 2, 4)}


def test_blocks_meet_rightly() -> None:
    """Suffixes and prefixes of blocks of uneven lengths, against products one by one."""
    generator = np.random.default_rng(1)
    matrices = generator.integers(0, 4, (40, 2, 3, 3)).astype(object)
    begins = generator.random(40) < 0.2
    begins[0] = True
    final = generator.integers(0, 2, (1, 2, 3, 1)).astype(object)
    final[0, 1] = 0
    left, right = suffixes(matrices, begins), prefixes(matrices, begins, final)
    starts = [*np.nonzero(begins)[0].tolist(), 40]
    for first, stop in itertools.pairwise(starts):
        for place in range(first, stop):
            until = reduce(product, [matrices[n : n + 1] for n in range(first, place + 1)])
            assert (right[place] == product(until, final)[0]).all()
            since = reduce(product, [matrices[n : n + 1] for n in range(place, stop)])
            assert (left[place] == since[0, :, :1]).all()


@pytest.mark.parametrize("kind", [np.float64, np.complex128])
def test_compiled_products_of_panes_are_those_of_whole_numbers(kind: Any) -> None:
    generator = np.random.default_rng(2)
    whole = generator.integers(-3, 4, (40, 3, 4, 4)).astype(object)
    whole[:, 0] = abs(whole[:, 0])
    whole[:, 1:] *= whole[:, :1] != 0  # a sum over no trend is 0
    final = np.array([False, True, False, True])
    pane = np.arange(40)
    first = pane[:32]
    cover = cover_of(pane, pane == 0, first, first + generator.integers(0, 8, 32), first, 8)
    transitions = lay_out_transitions(Machine((0, 1, 2), (), ((0, ()), (2, ())), ()))
    assert transitions.final.tolist() == final.tolist()
    expected = answers(whole, cover, transitions)
    rounded = whole.astype(np.float64)
    found = answers(rounded if kind is np.float64 else to_scaled(rounded), cover, transitions)
    assert (found if kind is np.float64 else from_scaled(found)).tolist() == expected.tolist()


# ------------------------------------------------------------------------------------------------------------ plans


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("PATTERN B+ GROUP BY case", "without windows"),
        ("PATTERN B+ WITHIN 5", "a span"),
        ("PATTERN A AND B WITHIN 5 SLIDE 1", "AND at the top"),
        ("PATTERN B+ WHERE B.x < NEXT(B).x WITHIN 5 SLIDE 1", "compare events with each other"),
        ("PATTERN SEQ(A, NOT C, B) WITHIN 5 SLIDE 1", "NOT needs"),
        ("RETURN MAX(B.x), MIN(LENGTH) PATTERN B+ WITHIN 6 SLIDE 2", "not share the ranks of extremes: MAX, MIN"),
        ("PATTERN B{20,30} WITHIN 5 SLIDE 1", "more than 12 states"),
        ("PATTERN B+ WITHIN 6 SLIDE 2", f"in 3 windows at most; panes pay from {MIN_PANES_OVERLAP} on"),
        ("PATTERN B+ WITHIN 6 SLIDE 8", "in one window at most"),
    ],
)
def test_declines(text: str, reason: str) -> None:
    resolved = Worker(parse(text), []).resolved
    aggregates = tuple((item.output_name, item.aggregate) for item in resolved.query.returning)
    request = AggregateRequest(resolved, aggregates or (("n", Aggregate("count")),), "decimal", compile_sides(resolved))
    plan = panes(request)
    assert isinstance(plan, Declined)
    assert reason in plan.reason


def test_the_planner_takes_panes_where_windows_overlap() -> None:
    for slide, number, strategy in ((10, "decimal", "panes"), (30, "decimal", "kernel"), (60, "string", "panes")):
        resolved = Worker(parse(f"PATTERN SEQ(A, B+) WITHIN 60 SLIDE {slide}"), []).resolved
        assert plan_aggregate(resolved, (("n", Aggregate("count")),), number).strategy == strategy


def test_extremes_of_panes_are_found_in_the_task_of_their_events() -> None:
    for slide, strategy in ((10, "panes"), (30, "kernel")):
        resolved = Worker(parse(f"RETURN MIN(B.x) PATTERN SEQ(A, B+) WITHIN 60 SLIDE {slide}"), []).resolved
        aggregates = tuple((item.output_name, item.aggregate) for item in resolved.query.returning)
        assert plan_aggregate(resolved, aggregates, "decimal").strategy == strategy
    text = explained("RETURN MIN(B.price) PATTERN SEQ(A, B+) WITHIN 60 minutes SLIDE 10 minutes", "physical").text
    assert "+- kernel: matrices of panes, multiplied up to windows\n" in text


def test_explain_shows_both_stages_and_the_panes() -> None:
    text = explained("PATTERN SEQ(A, B+) WHERE [company] WITHIN 500 minutes SLIDE 12 minutes", "physical").text
    assert "panes     8 minutes and 4 minutes in turn, between the windows' borders\n" in text
    steps = [
        "add up partial results",
        "kernel: multiply the panes of each window",
        "shuffle by company",
        "kernel: one matrix per key and pane",
        "shuffle by company, pane",
    ]
    places = [text.index(f"+- {step}\n") for step in steps]
    assert places == sorted(places)


def test_where_panes_are_made() -> None:
    """In the task of their events, but where so many windows overlap that a second shuffle pays."""
    for slide, number, in_place in ((10, "decimal", True), (2, "decimal", False), (2, "string", True)):
        resolved = Worker(parse(f"PATTERN SEQ(A, B+) WITHIN 64 SLIDE {slide}"), []).resolved
        decision = plan_aggregate(resolved, (("n", Aggregate("count")),), number)
        operators = list(decision.plan.walk())
        assert decision.strategy == "panes"
        assert any(isinstance(one, PanesInPlace) for one in operators) == in_place
        assert any(isinstance(one, BuildPanes) for one in operators) != in_place
    text = explained("PATTERN SEQ(A, B+) WITHIN 50 minutes SLIDE 12 minutes", "physical").text
    assert re.search(r"panes +2 minutes and 10 minutes in turn, between the windows' borders\n", text)


@pytest.mark.parametrize(("length", "slide", "panes_per_window"), [(60, 10, 6), (50, 20, 5), (20, 50, 1), (20, 20, 1)])
def test_no_pane_crosses_a_border(length: int, slide: int, panes_per_window: int) -> None:
    in_panes = count_in_panes(Windowing(SLIDING, length, slide))
    assert in_panes.length == panes_per_window
    rest = length % slide
    for k in range(-3, 4):
        first = k * in_panes.slide
        for t in range(-400, 400):
            pane = 2 * (t // slide) + (t % slide >= rest) if rest else t // slide
            assert (first <= pane < first + in_panes.length) == (k * slide <= t < k * slide + length)


# --------------------------------------------------------------------------------------------------------- on Spark


@pytest.fixture(scope="module")
def judge(spark: Any) -> test_engines.Judge:
    return test_engines.judge_of(spark, generators.stacked(4_000, test_engines.STREAMS))


@pytest.mark.classic
@pytest.mark.parametrize("seed", range(6))
def test_on_spark(judge: test_engines.Judge, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_engines, "STRATEGIES", {"panes": any_panes})
    case = generators.random_case(70_000 + seed, FEATURES)
    query = suited(case.query, seed)
    assert judge.judge(query, case.tie_break, NUMBERS[seed % 4]) == {"panes"}


def test_bad_times_on_spark(spark: Any) -> None:
    rows = [(None, "A"), (1, "A"), (2, "B"), (None, "B")]
    df = spark.createDataFrame(rows, "t int, type string")
    query = "RETURN COUNT(*) AS n PATTERN SEQ(A, B+) WITHIN 10 SLIDE 2"
    bound = cet.pattern(df, query, time="t")
    assert re.search("strategy +panes", bound.explain("physical").text)
    with pytest.raises(Exception, match=r"NullTime: the time column 't' is NULL in 2 rows"):
        bound.aggregate().collect()
    skipping = cet.pattern(df, query, time="t", on_null_time="skip").aggregate()
    assert sorted((row.window.start, row.n) for row in skipping.collect()) == [(s, 1) for s in (-6, -4, -2, 0)]


@pytest.mark.classic
@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz", "date"])
def test_the_same_as_the_kernel_on_spark(spark: Any, kind: str) -> None:
    """Keys of NULL and NaN, partitions added up, decimals, ties; the windows of each type of time."""
    df = spark.range(400).selectExpr(
        f"cast(timestamp_seconds(pmod(hash(id), 400) * 40000) as {kind}) as time",
        "if(id % 4 = 0, 'A', 'B') as type",
        "case id % 3 when 0 then double('NaN') when 1 then -0.0 end as key",
        "id % 2 as part",
        "pmod(hash(id, 1), 3) as tie",
        "cast(pmod(hash(id, 2), 1000000) * 1e15 as decimal(38, 10)) as price",
    )
    query = parse(
        "RETURN COUNT(*) AS n, SUM(B.price) AS total, AVG(B.price) AS mean PATTERN SEQ(A, B+) "
        "WHERE [part] GROUP BY key WITHIN 9 days SLIDE 2 days"
    )
    answers = [
        {(str(row.key), row.window.start): (row.window.end, row.n, row.total, row.mean) for row in rows}
        for rows in by_panes_and_kernel(df, query)
    ]
    assert len(answers[0]) > 100
    assert answers[0] == answers[1]


@pytest.mark.parametrize("kind", more_on_classic("timestamp", "date", "bigint"))
def test_ranges_of_time_on_spark(spark: Any, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One group without windows: events of one time are read by one task, whoever sorts."""
    ticks = "pmod(hash(id), 300) - 100"
    time = ticks if kind == "bigint" else f"cast(timestamp_seconds(({ticks}) * 40000) as {kind})"
    df = spark.range(400).selectExpr(f"{time} as time", "if(id % 4 = 0, 'A', 'B') as type", "id % 7 as x")
    query = parse("RETURN COUNT(*) AS n, SUM(B.x) AS total PATTERN SEQ(A, B+)")
    (panes,), (whole,) = by_panes_and_kernel(df, query)
    assert panes == whole
    shuffle = "shuffle by range of time\n"
    pattern = cet.pattern(df, query, time="time")
    assert shuffle in pattern.explain("physical", number="string").text
    assert shuffle not in pattern.explain("physical").text, "one task, of so few"
    monkeypatch.setattr(cetdsl.planning.strategies.panes, "MANY_BYTES", 1)
    assert shuffle in cet.pattern(df, query, time="time").explain("physical").text


def by_panes_and_kernel(df: Any, query: Query) -> list[list[Any]]:
    """The rows of an answer, by panes and by the kernel."""
    resolved, _ = rewrite(analyse(query, schema_of(df), Binding("time", ("tie",) if "tie" in df.columns else ())))
    named = tuple((item.output_name, item.aggregate) for item in resolved.query.returning)
    plans = [plan_aggregate(resolved, named, "string", [strategy]).plan for strategy in (any_panes, kernel)]
    return [run(df, plan).collect() for plan in plans]
