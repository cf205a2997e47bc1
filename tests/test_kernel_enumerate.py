"""The enumeration kernel against a search in plain Python that is written from the meaning of a query only."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cetdsl.ir.kernel import KernelQuery, KernelSpec
from cetdsl.ir.layout import RowLayout
from cetdsl.ir.machine import Comparison, Edge, Machine, Negation, Pair
from cetdsl.ir.windowing import SLIDING, SPAN, Windowing
from cetdsl.kernels.enumerate.enumerator import Enumerator
from cetdsl.kernels.vocabulary import Block, Events, Slices
from cetdsl.kernels.wire.windows import NEVER, cut_slices
from cetdsl.planning.pivots import binds_exactly_one, search_pivot

A, B, C, N = 0, 1, 2, 3
ALWAYS = (-(2**62), 2**62)
COMPARE = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}

Trend = tuple[tuple[int, int], ...]


def make_spec(machine: Machine, *, codes: int = 0, lists: int = 0, **options: Any) -> KernelSpec:
    query = KernelQuery(machine, **options)
    query = attrs.evolve(query, pivot=search_pivot(machine, query.pairs, query.windowing.kind))
    return KernelSpec(query, RowLayout.of(0, "t", "bigint", codes=codes, lists=lists))


def make_events(
    masks: Any,
    times: Any = None,
    codes: Any = None,
    valid: Any = None,
    lists: list[list[list[int]]] | None = None,
    segments: Any = None,
    ties: Any = None,
) -> Events:
    """Events of one or more keys; ``ties[i]`` orders events of one time (they are sorted by it)."""
    count = len(masks)
    time = np.arange(count) if times is None else np.asarray(times)
    tie = np.zeros(count, dtype=np.int64) if ties is None else np.asarray(ties)
    bounds = np.array([0, count] if segments is None else segments, dtype=np.int64)
    new = np.ones(count, dtype=np.bool_)
    new[1:] = (np.diff(time) != 0) | (np.diff(tie) != 0)
    new[bounds[1:-1]] = True
    columns = np.zeros((0, count), dtype=np.int64) if codes is None else np.array(codes, dtype=np.int64)
    present = np.ones(columns.shape, dtype=np.bool_) if valid is None else np.array(valid, dtype=np.bool_)
    flat = [items for row in lists or [] for items in row]
    offsets = np.cumsum([0, *map(len, flat)])
    starts = np.zeros((len(lists or []), count + 1), dtype=np.int64)
    for row in range(len(starts)):
        starts[row] = offsets[row * count : (row + 1) * count + 1]
    return Events(
        bounds,
        time.astype(np.int64),
        (np.cumsum(new) - 1).astype(np.int64),
        np.array(masks, dtype=np.int64),
        columns.reshape(len(columns), count),
        present.reshape(columns.shape),
        starts,
        np.array([item for items in flat for item in items], dtype=np.int64),
    )


def letters(text: str, **options: Any) -> Events:
    return make_events([1 << "ABCN".index(letter) for letter in text], **options)


def slices_of(spec: KernelSpec, events: Events) -> Slices:
    bucket = np.zeros(len(events.segment_start) - 1, dtype=np.int64)
    return cut_slices(spec.query.windowing, events.segment_start, events.time, bucket, True, NEVER)


def blocks_of(
    spec: KernelSpec, events: Events, bounds: tuple[int, int] = ALWAYS, limit: int = -1, block: int = 262_144
) -> Iterator[Block]:
    slices = slices_of(spec, events)
    begin, end = (np.full(len(slices.low), bound, dtype=np.int64) for bound in bounds)
    return Enumerator(spec).enumerate(events, slices, (begin, end), limit, block)


def trends_of(spec: KernelSpec, events: Events, **options: Any) -> Counter[tuple[int, Trend]]:
    found: Counter[tuple[int, Trend]] = Counter()
    for block in blocks_of(spec, events, **options):
        assert block.start[0] == 0
        assert block.start[-1] == len(block.event) == len(block.variable)
        assert len(block.start) == len(block.slice) + 1
        assert block.variable.dtype == np.int16
        for row, number in enumerate(block.slice.tolist()):
            part = slice(block.start[row], block.start[row + 1])
            found[number, tuple(zip(block.event[part].tolist(), block.variable[part].tolist()))] += 1
    return found


# ----------------------------------------------------------------------------------------------- brute force


class Plain:
    """All trends of a query, by trying every sequence of bindings."""

    def __init__(self, spec: KernelSpec, events: Events) -> None:
        self.spec = spec
        self.events = events

    def holds(self, op: str, f: int, left: int, g: int, right: int) -> bool:
        e = self.events
        return bool(e.valid[f, left] and e.valid[g, right]) and COMPARE[op](e.codes[f, left], e.codes[g, right])

    def edge_allows(self, edge: Edge, earlier: int, later: int) -> bool:
        e = self.events
        if not all(self.holds(c.op, c.later, later, c.earlier, earlier) for c in edge.comparisons):
            return False
        return all(
            earlier in e.list_items[e.list_start[row, later] : e.list_start[row, later + 1]] for row in edge.listed
        )

    def words(self, machine: Machine, allowed: list[int]) -> Iterator[list[tuple[int, int]]]:
        """Paths through the machine as (event, state), without guards."""
        final = {state for state, _ in machine.final}
        mask, instant = self.events.mask, self.events.instant

        def extend(path: list[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
            if path[-1][1] in final:
                yield path
            for edge in machine.edges:
                if edge.source != path[-1][1]:
                    continue
                for event in allowed:
                    if instant[event] <= instant[path[-1][0]] or not mask[event] >> machine.variables[edge.target] & 1:
                        continue
                    if self.edge_allows(edge, path[-1][0], event):
                        yield from extend([*path, (event, edge.target)])

        for state, _ in machine.initial:
            for event in allowed:
                if mask[event] >> machine.variables[state] & 1:
                    yield from extend([(event, state)])

    def matches(self, guard: int, gap: list[int], trend: Trend) -> bool:
        negation = self.spec.query.negations[guard]
        for word in self.words(negation.machine, gap):
            relations = []
            for pair in negation.correlated:
                for event, state in word:
                    if negation.machine.variables[state] != pair.left_variable:
                        continue
                    bound = [e for e, variable in trend if variable == pair.right_variable]
                    relations.append(len(bound) == 1 and self.holds(pair.op, pair.left, event, pair.right, bound[0]))
            if all(relations):
                return True
        return False

    def gaps_allow(self, path: list[tuple[int, int]], trend: Trend, low: int, high: int) -> bool:
        e, machine = self.events, self.spec.query.machine
        first, last = path[0][0], path[-1][0]
        inside = list(range(low, high))
        before = [i for i in inside if e.instant[i] < e.instant[first]]
        after = [i for i in inside if e.instant[i] > e.instant[last]]
        if self.spec.query.windowing.kind == SPAN:
            before = [i for i in before if e.time[i] >= e.time[last] - self.spec.query.windowing.length]
            after = [i for i in after if e.time[i] <= e.time[first] + self.spec.query.windowing.length]
        gaps = [(guard, before) for guard in dict(machine.initial)[path[0][1]]]
        gaps += [(guard, after) for guard in dict(machine.final)[path[-1][1]]]
        for (i, p), (j, q) in itertools.pairwise(path):
            (edge,) = [edge for edge in machine.edges if (edge.source, edge.target) == (p, q)]
            between = [k for k in inside if e.instant[i] < e.instant[k] < e.instant[j]]
            gaps += [(guard, between) for guard in edge.guards]
        return not any(self.matches(guard, gap, trend) for guard, gap in gaps)

    def pairs_allow(self, trend: Trend) -> bool:
        return all(
            self.holds(pair.op, pair.left, left, pair.right, right)
            for pair in self.spec.query.pairs
            for left, v in trend
            if v == pair.left_variable
            for right, w in trend
            if w == pair.right_variable
        )

    def trends(self, bounds: tuple[int, int] = ALWAYS) -> Counter[tuple[int, Trend]]:
        found: Counter[tuple[int, Trend]] = Counter()
        slices = slices_of(self.spec, self.events)
        time, span = self.events.time, self.spec.query.windowing.length
        for number, (low, high) in enumerate(zip(slices.low.tolist(), slices.high.tolist())):
            for path in self.words(self.spec.query.machine, list(range(low, high))):
                first, last = path[0][0], path[-1][0]
                if self.spec.query.windowing.kind == SPAN and (
                    time[last] - time[first] > span or not bounds[0] <= time[first] < bounds[1]
                ):
                    continue
                trend = tuple((event, self.spec.query.machine.variables[state]) for event, state in path)
                if self.pairs_allow(trend) and self.gaps_allow(path, trend, low, high):
                    found[number, trend] += 1
        return found


# ------------------------------------------------------------------------------------------- random queries

COLUMNS = 2
OPERATORS = st.sampled_from(["=", "=", "!=", "<", "<=", ">", ">="])
COLUMN = st.integers(0, COLUMNS - 1)
COMPARISONS = st.lists(st.builds(Comparison, OPERATORS, COLUMN, COLUMN), max_size=2).map(tuple)


@st.composite
def machines(draw: Any, variables: tuple[int, ...], guards: int = 0, lists: int = 0) -> Machine:
    """A machine that is deterministic over variables, as every planned one is."""
    states = draw(st.integers(1, 3))
    reads = tuple(draw(st.sampled_from(variables)) for _ in range(states))
    guard_sets = st.sets(st.integers(0, guards - 1), max_size=guards).map(lambda s: tuple(sorted(s)))
    some_guards = guard_sets if guards else st.just(())
    some_lists = st.sampled_from([(), (), (0,)]) if lists else st.just(())

    def targets() -> list[int]:
        chosen = {}
        for state in draw(st.permutations(range(states))):
            if reads[state] not in chosen and draw(st.booleans()):
                chosen[reads[state]] = state
        return sorted(chosen.values())

    initial = targets() or [0]
    final = draw(st.sets(st.integers(0, states - 1), min_size=1))
    edges = tuple(
        Edge(source, target, draw(COMPARISONS), draw(some_lists), draw(some_guards))
        for source in range(states)
        for target in targets()
    )
    return Machine(
        reads,
        tuple((state, draw(some_guards)) for state in initial),
        tuple((state, draw(some_guards)) for state in sorted(final)),
        edges,
    )


@st.composite
def event_arrays(draw: Any, most: int = 7, lists: bool = False) -> Events:
    count = draw(st.integers(1, most))
    cut = draw(st.sampled_from([None, None, draw(st.integers(1, max(count - 1, 1)))]))
    segments = [0, cut, count] if cut is not None and cut < count else [0, count]
    times: list[int] = []
    ties: list[int] = []
    for low, high in itertools.pairwise(segments):
        size = high - low
        moment = st.tuples(st.integers(0, 8), st.integers(0, 1))
        moments = sorted(draw(st.lists(moment, min_size=size, max_size=size)))
        times += [time for time, _ in moments]
        ties += [tie for _, tie in moments]
    masks = draw(st.lists(st.integers(0, 31), min_size=count, max_size=count))
    values = st.lists(st.integers(0, 3), min_size=count, max_size=count)
    present = st.lists(st.sampled_from([True] * 7 + [False]), min_size=count, max_size=count)
    events = make_events(
        masks,
        times,
        [draw(values) for _ in range(COLUMNS)],
        [draw(present) for _ in range(COLUMNS)],
        segments=segments,
        ties=ties,
    )
    if not lists:
        return events
    rows = []
    for i in range(count):
        start = max(s for s in segments[:-1] if s <= i)
        before = [j for j in range(start, i) if events.instant[j] < events.instant[i]]
        rows.append(sorted(draw(st.sets(st.sampled_from(before)))) if before else [])
    starts = np.cumsum([0, *map(len, rows)])[None, :].astype(np.int64)
    return events._replace(list_start=starts, list_items=np.array([j for row in rows for j in row], dtype=np.int64))


WINDOWINGS = st.one_of(
    st.just(Windowing()),
    st.builds(Windowing, st.just(SLIDING), st.integers(1, 6), st.integers(1, 4)),
    st.builds(Windowing, st.just(SPAN), st.integers(1, 6)),
)
CHECKED = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))


def check(spec: KernelSpec, events: Events, data: Any) -> None:
    expected = Plain(spec, events).trends()
    found = trends_of(spec, events, block=data.draw(st.sampled_from([1, 2, 3, 7, 262_144]), label="block"))
    assert found == expected
    limit = data.draw(st.integers(0, 5), label="limit")
    some = trends_of(spec, events, limit=limit, block=data.draw(st.sampled_from([1, 4, 100])))
    assert some.total() == min(limit, expected.total())
    assert not some - expected


@CHECKED
@given(st.data())
def test_comparisons_windows_and_ties(data: Any) -> None:
    machine = data.draw(machines((A, B, C)))
    spec = make_spec(machine, codes=COLUMNS, windowing=data.draw(WINDOWINGS))
    check(spec, data.draw(event_arrays()), data)


@CHECKED
@given(st.data())
def test_lists(data: Any) -> None:
    machine = data.draw(machines((A, B), lists=1))
    spec = make_spec(machine, codes=COLUMNS, lists=1, windowing=data.draw(WINDOWINGS))
    check(spec, data.draw(event_arrays(lists=True)), data)


def pairs(variables: tuple[int, ...]) -> Any:
    two = st.permutations(variables).map(lambda p: p[:2])
    return st.builds(lambda op, vs, f, g: Pair(op, vs[0], f, vs[1], g), OPERATORS, two, COLUMN, COLUMN)


@CHECKED
@given(st.data())
def test_pairs(data: Any) -> None:
    spec = make_spec(
        data.draw(machines((A, B, C))),
        codes=COLUMNS,
        windowing=data.draw(WINDOWINGS),
        pairs=tuple(data.draw(st.lists(pairs((A, B, C)), min_size=1, max_size=2))),
    )
    check(spec, data.draw(event_arrays()), data)


LOOSE = Comparison("<=", 0, 1)
ONCE = [
    Machine((A, B, C), ((0, (0,)),), ((2, ()),), (Edge(0, 1), Edge(1, 1, (LOOSE,)), Edge(1, 2))),
    Machine((A, B, C), ((0, ()),), ((2, ()),), (Edge(0, 0), Edge(0, 1, (), (), (0,)), Edge(1, 2), Edge(2, 2))),
    Machine((A, B), ((0, (0,)),), ((0, ()), (1, (0,))), (Edge(0, 1), Edge(1, 1))),
    Machine(
        (A, B, A, C), ((0, ()), (1, (0,))), ((3, ()),), (Edge(0, 0), Edge(0, 1), Edge(1, 2), Edge(2, 2), Edge(2, 3))
    ),
]


@CHECKED
@given(st.data())
def test_pairs_with_a_variable_that_binds_one_event(data: Any) -> None:
    spec = make_spec(
        data.draw(st.sampled_from(ONCE)),
        codes=COLUMNS,
        negations=(Negation(Machine((N,), ((0, ()),), ((0, ()),), ())),),
        windowing=data.draw(WINDOWINGS),
        pairs=tuple(data.draw(st.lists(pairs((A, B, C)), min_size=1, max_size=2))),
    )
    check(spec, data.draw(event_arrays()), data)


@CHECKED
@given(st.data())
def test_negations(data: Any) -> None:
    spec = make_spec(
        data.draw(machines((A, B), guards=2)),
        codes=COLUMNS,
        negations=(Negation(data.draw(machines((N,)))), Negation(data.draw(machines((C, 4))))),
        windowing=data.draw(WINDOWINGS),
    )
    check(spec, data.draw(event_arrays()), data)


@CHECKED
@given(st.data())
def test_correlated_negations(data: Any) -> None:
    related = st.builds(Pair, OPERATORS, st.sampled_from([N, 4]), COLUMN, st.sampled_from([A, B, C]), COLUMN)
    machine = data.draw(machines((A, B, C), guards=2))
    negations = (
        Negation(data.draw(machines((N, 4))), tuple(data.draw(st.lists(related, min_size=1, max_size=2)))),
        Negation(data.draw(machines((N,)))),
    )
    once = {v for v in (A, B, C) if binds_at_most_once(machine, v)}
    kept = tuple(pair for pair in negations[0].correlated if pair.right_variable in once)
    spec = make_spec(
        machine,
        codes=COLUMNS,
        negations=(attrs.evolve(negations[0], correlated=kept), negations[1])[:: data.draw(st.sampled_from([1, -1]))],
        windowing=data.draw(WINDOWINGS),
    )
    check(spec, data.draw(event_arrays()), data)


def test_a_predicate_is_asked_of_its_own_variable_only() -> None:
    """The negated match binds no N, of which alone something is asked, and times rise as that column does."""
    machine = Machine((A,), ((0, ()),), ((0, (0,)),), ())
    negation = Negation(Machine((C,), ((0, ()),), ((0, ()),), ()), (Pair("=", N, 0, B, 0),))
    spec, events = make_spec(machine, codes=1, negations=(negation,)), letters("AC", codes=[[0, 1]])
    assert trends_of(spec, events) == Plain(spec, events).trends() == Counter()


def binds_at_most_once(machine: Machine, variable: int) -> bool:
    """Whether no path through the machine visits two states of the variable."""

    def reachable(state: int) -> set[int]:
        seen: set[int] = set()
        todo = [state]
        while todo:
            source = todo.pop()
            new = {edge.target for edge in machine.edges if edge.source == source} - seen
            seen |= new
            todo += new
        return seen

    states = {state for state, v in enumerate(machine.variables) if v == variable}
    return not any(reachable(state) & states for state in states)


@CHECKED
@given(st.data())
def test_span_bounds(data: Any) -> None:
    spec = make_spec(
        data.draw(machines((A, B))), codes=COLUMNS, windowing=Windowing(SPAN, data.draw(st.integers(1, 6)))
    )
    events = data.draw(event_arrays())
    begin = data.draw(st.integers(0, 8))
    bounds = (begin, begin + data.draw(st.integers(1, 5)))
    assert trends_of(spec, events, bounds=bounds) == Plain(spec, events).trends(bounds)


# ------------------------------------------------------------------------------------------------ known answers

A_THEN_BS = Machine((A, B), ((0, ()),), ((1, ()),), (Edge(0, 1), Edge(1, 1)))
BS = Machine((B,), ((0, ()),), ((0, ()),), (Edge(0, 0),))
RISING = Machine((B,), ((0, ()),), ((0, ()),), (Edge(0, 0, (Comparison(">", 0, 0),)),))
AS_THEN_C = Machine((A, C), ((0, ()),), ((1, ()),), (Edge(0, 0), Edge(0, 1)))


def test_known_numbers() -> None:
    assert trends_of(make_spec(A_THEN_BS), letters("AABBB")).total() == 14
    assert trends_of(make_spec(RISING, codes=1), letters("BBB", codes=[[1, 2, 3]])).total() == 7


def test_every_trend_comes_once_whatever_the_block() -> None:
    events = letters("B" * 10)
    for block in (1, 2, 5, 10, 11, 64, 10**6):
        found = trends_of(make_spec(BS), events, block=block)
        assert len(found) == found.total() == 2**10 - 1


def test_blocks_hold_no_more_than_asked_but_for_one_long_trend() -> None:
    blocks = list(blocks_of(make_spec(BS), letters("B" * 12), block=7))
    assert all(len(block.event) <= 7 or len(block.slice) == 1 for block in blocks)
    assert max(len(block.event) for block in blocks) == 12


def test_limit_leaves_the_rest_alone() -> None:
    found = trends_of(make_spec(BS), letters("B" * 500), limit=5)
    assert len(found) == 5
    assert not list(blocks_of(make_spec(BS), letters("BBB"), limit=0))


def test_no_events_no_trends() -> None:
    empty = make_events(np.zeros(0, dtype=np.int64), segments=[0])
    assert not trends_of(make_spec(BS), empty)
    assert not trends_of(make_spec(BS), letters("AAA"))


def test_slices_are_told_apart() -> None:
    spec = make_spec(BS, windowing=Windowing(SLIDING, 2, 1))
    found = trends_of(spec, letters("BBB"))
    assert {number: sum(1 for s, _ in found if s == number) for number in range(4)} == {0: 1, 1: 3, 2: 3, 3: 1}


def test_leading_negation_with_a_pivot_looks_at_the_whole_window() -> None:
    machine = Machine((A, B, C), ((0, (0,)),), ((2, ()),), (Edge(0, 1), Edge(1, 1), Edge(1, 2)))
    spec = make_spec(
        machine,
        codes=1,
        negations=(Negation(Machine((N,), ((0, ()),), ((0, ()),), ())),),
        pairs=(Pair("=", A, 0, C, 0),),
    )
    # The negation stands before each A: the one after the N must not begin a trend.
    found = trends_of(spec, letters("ABNABC", codes=[[1] * 6]))
    assert found.keys() == {(0, ((0, A), *((b, B) for b in bs), (5, C))) for bs in ([1], [4], [1, 4])}


def test_binds_exactly_one() -> None:
    assert binds_exactly_one(A_THEN_BS, A)
    assert not binds_exactly_one(A_THEN_BS, B)
    assert not binds_exactly_one(A_THEN_BS, C)


# ---------------------------------------------------------------------------------------------------- speed


def seconds(spec: KernelSpec, events: Events, limit: int = -1) -> tuple[float, int]:
    for _ in blocks_of(spec, events, limit=1):
        pass  # compiles
    begun = time.perf_counter()
    bindings = sum(len(block.event) for block in blocks_of(spec, events, limit=limit))
    return time.perf_counter() - begun, bindings


def test_dead_ends_are_not_entered() -> None:
    taken, bindings = seconds(make_spec(AS_THEN_C), letters("A" * 10_000))
    assert bindings == 0
    assert taken < 1


def test_pairwise_predicates_that_fail_at_the_end_do_not_cost_a_search() -> None:
    machine = Machine((A, B, C), ((0, ()),), ((2, ()),), (Edge(0, 1), Edge(1, 1), Edge(1, 2)))
    spec = make_spec(machine, codes=1, pairs=(Pair("=", A, 0, C, 0),))
    taken, bindings = seconds(spec, letters("A" + "B" * 60 + "C", codes=[[1] * 61 + [2]]))
    assert bindings == 0
    assert taken < 1


def test_correlated_negation_is_judged_as_soon_as_it_can_be() -> None:
    machine = Machine((A, B), ((0, ()),), ((1, ()),), (Edge(0, 1, (), (), (0,)), Edge(1, 1)))
    negation = Negation(Machine((N,), ((0, ()),), ((0, ()),), ()), (Pair("=", N, 0, A, 0),))
    spec = make_spec(machine, codes=1, negations=(negation,))
    taken, bindings = seconds(spec, letters("AN" + "B" * 60, codes=[[1] * 62]))
    assert bindings == 0
    assert taken < 1


@pytest.mark.parametrize("last", ["B", "C"])
def test_equality_is_not_quadratic(last: str) -> None:
    count = 200_000
    rng = np.random.default_rng(0)
    codes = [rng.integers(0, 40_000, count), rng.integers(0, 40_000, count)]
    step = (Comparison("=", 0, 1),)
    machine = Machine((B, C), ((0, ()),), ((0 if last == "B" else 1, ()),), (Edge(0, 0, step), Edge(0, 1, step)))
    events = letters("B" * (count - 1) + last, codes=codes)
    taken, bindings = seconds(make_spec(machine, codes=2), events, limit=100_000)
    assert bindings > 0
    assert taken < 3


def test_small_slices_are_cheap() -> None:
    spec = make_spec(AS_THEN_C, windowing=Windowing(SLIDING, 5, 5))
    taken, bindings = seconds(spec, letters("AAAAC" * 10_000))
    assert bindings == 10_000 * (15 + 32)
    assert taken < 1
