"""Trends put together by a plan: in every order, and along every tree, they are those of the reference."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any

import attrs
import generators
import numpy as np
import pytest
import reference
from test_kernel_aggregate import CUTTING, Worker, by_case, cuttings, rows_of
from test_kernel_enumerate import make_events, make_spec, slices_of

import cetdsl as cet
from cetdsl.detection.cost import Expectation
from cetdsl.detection.decisions import Adaptation
from cetdsl.detection.loop import Loop, Pace
from cetdsl.detection.plans import Node, OrderPlan, Plan, Problem, TreePlan, Variable, is_convex
from cetdsl.detection.statistics import Statistics
from cetdsl.errors import GroupTooLarge, UnsupportedQuery
from cetdsl.ir.branches import Adapting, Between, Branch, BranchPlan, Slot, branches_of
from cetdsl.ir.machine import Comparison, Machine, Pair
from cetdsl.ir.operators import ListTrends, MeasureDetection
from cetdsl.ir.stages import DETECTION, DetectSpec, TrendsSpec
from cetdsl.ir.windowing import SLIDING, SPAN, Windowing
from cetdsl.kernels.detect import adapt
from cetdsl.kernels.detect import choose as choosing
from cetdsl.kernels.detect import trees as tree_search
from cetdsl.kernels.detect.detector import Detector
from cetdsl.kernels.detect.measure import measure_stream
from cetdsl.kernels.detect.trends import detect_stream
from cetdsl.kernels.vocabulary import Events
from cetdsl.pattern.nodes import events, positive_events
from cetdsl.pattern.query import Query
from cetdsl.pattern.text import unparse
from cetdsl.planning.detection import _rising, given_detection, monotone, problem_of
from cetdsl.planning.strategies.detect import measure
from cetdsl.planning.strategies.enumerate import list_as_compiled
from cetdsl.planning.strategies.request import TrendsRequest, compile_sides
from cetdsl.planning.strategies.subject import Subject, subject_of


class Detecting(Worker):
    """One query over some rows, whose trends are put together branch by branch."""

    @cached_property
    def request(self) -> TrendsRequest:
        return TrendsRequest(self.resolved, ("id",), None, compile_sides(self.resolved))

    @cached_property
    def conjunction(self) -> Subject | None:
        """What plans are made for, if it is an AND at the top."""
        found = subject_of(self.request) if len(self.request.compiled) > 1 else None
        if isinstance(found, str):
            raise UnsupportedQuery(found)
        return found

    @cached_property
    def plan(self) -> ListTrends:
        plan = list_as_compiled(self.conjunction.request if self.conjunction else self.request)
        if not isinstance(plan, ListTrends):
            raise UnsupportedQuery("needs Spark")
        return plan

    @cached_property
    def branches(self) -> tuple[Branch, ...]:
        found = self.conjunction.branches if self.conjunction else branches_of(self.plan.compiled.machine)
        if isinstance(found, str):
            raise UnsupportedQuery(found)
        return found

    def detected(
        self,
        orders: Iterable[Plan],
        chunk_events: int = 2**20,
        batch: int = 2**20,
        limit: int = -1,
        adapting: dict[str, Any] | None = None,
        stream: Callable[..., Any] = detect_stream,
    ) -> list[Any]:
        """(group, window, trend) of each trend, with a plan for each branch, which may change."""
        plan, source = self.plan, self.plan.source
        groups = tuple(range(len(source.groups)))
        kernel = self._typed(plan.spec, (), event=True)
        spec = TrendsSpec(kernel, groups, tuple(name for name, _ in plan.compiled.variables), ("id",), limit)
        plans = tuple(itertools.starmap(BranchPlan, zip(self.branches, orders, strict=True)))
        if adapting is not None:
            problems = [problem_of(branch, plan.compiled, source) for branch in self.branches]
            plans = tuple(
                attrs.evolve(one, adapting=Adapting(problem, statistics=Statistics(), **adapting))
                for one, problem in zip(plans, problems, strict=True)
            )
        batches = self.batches(source, plan.compiled, kernel, (), batch, event=True)
        found = []
        for row in rows_of(stream(DetectSpec(spec, plans), batches, chunk_events)):
            values = [value.as_py() for value in row]
            window = tuple(values[len(groups)].values()) if source.windowing.kind == SLIDING else None
            trend = tuple((binding["event"]["id"], binding["variable"]) for binding in values[-1])
            if self.conjunction:
                times = [self.rows[event]["t"] for event, _ in trend]
                assert times == sorted(times), "bindings are in order of time"
                trend = tuple(sorted(trend))
            found.append((tuple(reference._key(value) for value in values[: len(groups)]), window, trend))
        return found


def expected_of(query: Query, rows: list[Any], ties: tuple[str, ...]) -> Counter[Any]:
    return Counter(
        (group, window, trend if isinstance(trend, tuple) else tuple(sorted(itertools.chain(*trend))))
        for (group, window, _), found in reference.trends(query, rows, tie_break=ties).items()
        for trend in found
    )


def plans_of(branches: tuple[Branch, ...], most: int, turn: int, trees: bool = False) -> Iterator[list[Plan]]:
    """A plan for each branch, up to ``most`` times; in turn after turn, each order, or tree, of each branch."""
    each: list[list[Plan]] = []
    for branch in branches:
        slots = range(len(branch.slots))
        each.append(list(map(TreePlan, trees_of(branch)) if trees else map(OrderPlan, itertools.permutations(slots))))
    longest = max(map(len, each), default=1)
    for orders in each:
        random.Random(0).shuffle(orders)
    for number in range(turn * most, turn * most + min(longest, most)):
        yield [orders[number % len(orders)] for orders in each]


def trees_of(branch: Branch) -> Iterator[Node]:
    """All trees whose nodes hold neighbours of each sequence."""

    def over(mask: int) -> Iterator[Node]:
        if mask & mask - 1 == 0:
            yield mask.bit_length() - 1
        for part in range(1, mask):
            # The left child has the first slot.
            parts = part, mask & ~part
            if part & mask == part and part & mask & -mask and all(is_convex(p, branch.ordered) for p in parts):
                yield from itertools.product(*map(over, parts))

    return over((1 << len(branch.slots)) - 1)


def check(
    query: Query, rows: list[Any], ties: tuple[str, ...], turn: int, most: int = 24, *, trees: bool = False
) -> int:
    """Compares trends in all orders, or trees, with the reference, cutting the stream in ways; returns how many.

    Small chunks take most of the time, so each way of cutting is taken once, and then all is one chunk.
    """
    worker = Detecting(query, rows, ties)
    cuts = (-1,) if worker.plan.source.windowing.cut <= 0 else (-1, 1, 3)
    expected = expected_of(query, rows, ties)
    orders = list(plans_of(worker.branches, most, turn, trees))
    ways = list(cuttings(turn, cuts))
    for number, chosen in enumerate(orders):
        worker.cut, (chunk_events, batch) = ways[(turn + number) % len(ways)]
        if number >= len(ways):
            worker.cut, (chunk_events, batch) = -1, CUTTING[0]
        found = Counter(worker.detected(chosen, chunk_events, batch))
        assert found == expected, (unparse(query), rows, chosen, worker.cut, chunk_events)
    return expected.total()


# -------------------------------------------------------------------------------------- generated queries and streams

#: What a branch cannot be made of is left out: a repetition of several events, and what only Spark evaluates.
FEATURES = generators.Features(aggregate_predicates=False, nested_kleene=False, top_conjunction=False)


@pytest.mark.parametrize("trees", [False, True])
@pytest.mark.parametrize("first", range(0, 1200, 100))
def test_every_plan_of_generated_queries(first: int, trees: bool) -> None:
    answers = asked = 0
    for seed in range(first, first + 100):
        case = generators.random_case(seed, FEATURES)
        query = by_case(case.query)
        rows = generators.stacked(1000 * seed, 12)
        try:
            answers += check(query, rows, case.tie_break, seed, most=6, trees=trees)
        except UnsupportedQuery:
            continue
        asked += 1
    assert asked >= 40
    assert answers > 200


TYPICAL = (
    "PATTERN SEQ(A, B, C) WHERE A.x = C.x",
    "PATTERN SEQ(A, B, C) WHERE A.x < C.x AND B.y <= C.y AND A.k = B.k",
    "PATTERN SEQ(A a, B b, C c, A d, B e) WHERE a.x <= e.x AND b.x >= d.x",
    "PATTERN SEQ(A a, B b, C c, A d, B e) WHERE a.k = c.k AND a.x != d.x WITHIN 9",
    "PATTERN SEQ(A, B+ b[], C) WHERE A.x < b.x AND b.x >= C.x",
    "PATTERN SEQ(A, B+ b[], C) WHERE b.x <= NEXT(b).x AND A.x != b.x WITHIN 5",
    "PATTERN SEQ(A, B+ b[]) WHERE A.k = b.k AND b.x = NEXT(b).x",
    "PATTERN SEQ(A, B+ b[], C) WHERE b.k = NEXT(b).k AND b.y <= NEXT(b).y AND b.x = NEXT(C).x WITHIN 7",
    "PATTERN SEQ(A+ a[], B) WHERE a.x <= NEXT(a).y AND a.x = NEXT(a).x AND A.k = B.k AND a.x != NEXT(B).x WITHIN 6",
    "PATTERN B+ b[] WHERE b.x = NEXT(b).y AND b.x >= NEXT(b).x WITHIN 5",
    "PATTERN SEQ(A, (B b){2,3}, C) WHERE A.k = b.k",
    "PATTERN SEQ(A+ a[], B+ b[]) WHERE a.x = b.x",
    "PATTERN SEQ(A+ a[], B, C+ c[]) WHERE a.x != c.x WITHIN 6 SLIDE 2",
    "PATTERN SEQ(A, NOT C c, B) WHERE c.x > A.x AND c.x < B.x",
    "PATTERN SEQ(NOT C c, A, B) WHERE c.x > B.x WITHIN 4",
    "PATTERN SEQ(A, B+, NOT C c) WHERE c.x = A.x WITHIN 4",
    "PATTERN SEQ(NOT C, A, NOT C, B, NOT A)",
    "PATTERN SEQ(NOT C, A, NOT C, B, NOT A) WITHIN 4",
    "PATTERN SEQ(NOT C, A, B+, NOT A) WITHIN 6 SLIDE 3",
    "PATTERN SEQ(A, B, C) OR SEQ(A, C) WHERE A.x < C.x",
    "PATTERN SEQ(A, (B OR C), B b2) WHERE A.x <= b2.x WITHIN 6",
    "PATTERN SEQ(A, B AND C) WHERE A.x < B.x WITHIN 5",
    "PATTERN SEQ(A?, B, C*) WHERE B.x <= C.x",
    "PATTERN AND(A, B, C) WHERE A.x = C.x",
    "PATTERN AND(A, B, C) WHERE A.x < C.x AND B.y <= C.y WITHIN 4",
    "PATTERN AND(A a, B b, C c, A d, B e) WHERE a.x <= e.x AND b.k = d.k AND c.x != d.x WITHIN 3",
    "PATTERN AND(SEQ(A a, B b), C c, A d) WHERE a.x < d.x WITHIN 6 SLIDE 2",
    "PATTERN AND(SEQ(A a, B b), SEQ(C c, A d)) WHERE a.x <= NEXT(b).x AND c.k = NEXT(d).k AND b.x < d.x WITHIN 5",
    "PATTERN AND(SEQ(A a, B+ b[], C e), C c) WHERE b.x <= c.x AND b.x != NEXT(e).x WITHIN 4",
    "PATTERN AND(A+ a[], B+ b[]) WHERE a.x != b.x WITHIN 5 SLIDE 3",
    "PATTERN AND(SEQ(A a, NOT C c, B b), C d) WHERE c.x > a.x",
    "PATTERN AND(SEQ(NOT C n, A a, B b), A d) WITHIN 4",
    "PATTERN AND(SEQ(NOT C n, A a, NOT B m), C c) WITHIN 6 SLIDE 3",
    "PATTERN AND(A a OR B b, SEQ(C c, (A d OR B e))) WHERE a.x < e.x WITHIN 5",
    "PATTERN AND(SEQ(A a, B? b, C c), A d) WHERE b.x <= d.x WITHIN 5",
    "PATTERN AND(SEQ(A a, B b AND C c), B d) WITHIN 4",
)


@pytest.mark.parametrize("trees", [False, True])
@pytest.mark.parametrize("text", TYPICAL)
def test_every_plan_of_typical_patterns(text: str, trees: bool) -> None:
    query = by_case(cet.parse(text)._query())
    kinds = [event.type for event in positive_events(query.pattern)]
    others = [event.type for event in events(query.pattern)]
    answers = 0
    for seed in range(3):
        rng = random.Random(seed)
        # The reference goes through all combinations.
        rows = generators.stack([dense_stream(rng, kinds, others) for _ in range(30 if len(kinds) < 5 else 16)])
        answers += check(query, rows, ("s",) if seed == 1 else (), seed, most=40, trees=trees)
    assert answers >= 3


@pytest.mark.parametrize("few", [-math.inf, choosing.FEW, math.inf])
@pytest.mark.parametrize("text", TYPICAL)
def test_orders_chosen_chunk_by_chunk(text: str, few: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether there are always orders, never, or where they are expected to have few partial matches.

    The search without dead ends lists no AND, so that there always are orders.
    """
    monkeypatch.setattr(choosing, "FEW", few)
    chosen = []
    plans_of_chunk = choosing.Chooser._plans
    monkeypatch.setattr(
        choosing.Chooser, "_plans", lambda self, events: (chosen.append(plans_of_chunk(self, events)), chosen[-1])[1]
    )
    query = by_case(cet.parse(text)._query())
    rng = random.Random(text)
    kinds = [event.type for event in positive_events(query.pattern)]
    others = [event.type for event in events(query.pattern)]
    rows = generators.stack([dense_stream(rng, kinds, others) for _ in range(20 if len(kinds) < 5 else 6)])
    worker = Detecting(query, rows, ())
    own = next(plans_of(worker.branches, 1, 0))
    adapting = {"algorithm": "auto", "adaptation": Adaptation("static")}
    expected = expected_of(query, rows, ())
    cuts = (-1,) if worker.plan.source.windowing.cut <= 0 else (-1, 3)
    for cut, (chunk_events, batch) in cuttings(0, cuts):
        worker.cut = cut
        found = worker.detected(own, chunk_events, batch, adapting=adapting, stream=choosing.choose_stream)
        assert Counter(found) == expected, (cut, chunk_events)
    assert chosen
    never = few < 0 and not worker.conjunction
    assert few == choosing.FEW or {plans is None for plans in chosen} == {never}


def random_conjunction(rng: random.Random) -> str:
    """The text of an AND of two to four sides with up to five events, and predicates within and between them."""
    names, sides = iter("abcdefgh"), []
    budget = 5
    while budget and len(sides) < rng.choice((2, 3, 4)):
        size = min(rng.choice((1, 1, 2, 3)), budget)
        budget -= size
        parts = [f"{rng.choice('ABC')} {next(names)}" for _ in range(size)]
        if rng.random() < 0.3:
            parts[-1] = f"({parts[-1]}){rng.choice(('+', '?', '{1,2}')) if size > 1 else '+'}"
        if size == 2 and rng.random() < 0.3:
            parts.insert(rng.choice((0, 1, 1, 2)), f"NOT C {next(names)}")
        sides.append(f"SEQ({', '.join(parts)})" if len(parts) > 1 else parts[0])
    parts = [part for side in sides for part in side.removeprefix("SEQ(").split(", ") if "NOT" not in part]
    bound, where = [part.strip("()")[2] for part in parts], []
    for _ in range(rng.randint(0, 3)):
        u, v = rng.sample(bound, 2)
        column, other = rng.choice(("xx", "xy", "yx", "kk"))
        where.append(f"{u}.{column} {rng.choice(('<', '<=', '=', '!=', '>'))} {v}.{other}")
    window = rng.choice(("", " WITHIN 3", " WITHIN 4", " WITHIN 6", " WITHIN 5 SLIDE 2", " WITHIN 4 SLIDE 4"))
    return f"PATTERN AND({', '.join(sides)})" + (f" WHERE {' AND '.join(where)}" if where else "") + window


@pytest.mark.parametrize("trees", [False, True])
@pytest.mark.parametrize("first", [0, 25])
def test_every_plan_of_generated_conjunctions(first: int, trees: bool) -> None:
    answers = asked = 0
    for seed in range(first, first + 25):
        rng = random.Random(seed)
        query = by_case(cet.parse(random_conjunction(rng))._query())
        kinds = [event.type for event in events(query.pattern)]
        rows = generators.stack([dense_stream(rng, kinds, kinds) for _ in range(6)])
        try:
            answers += check(query, rows, ("s",) if seed % 3 else (), seed, most=5, trees=trees)
        except UnsupportedQuery:
            continue
        asked += 1
    assert asked >= 20
    assert answers > 200


@pytest.mark.parametrize("text", ["PATTERN SEQ(A, B+, C) WITHIN 6 SLIDE 2", "PATTERN SEQ(A, B, C) WITHIN 5"])
def test_trees_store_no_more_than_there_is_room_for(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches are made smaller until they fit; what no batch can hold is refused."""
    query = by_case(cet.parse(text)._query())
    rng = random.Random(text)
    rows = generators.stack([dense_stream(rng, ["A", "B", "C"], ["B"]) for _ in range(60)])
    worker = Detecting(query, rows, ())
    plans = [TreePlan((0, (1, 2)))]
    full = []
    begin = tree_search._Full.__init__
    monkeypatch.setattr(tree_search._Full, "__init__", lambda self: (full.append(1), begin(self))[1])
    monkeypatch.setattr(tree_search, "MOST_ROWS", 400)
    monkeypatch.setattr(tree_search, "FEWEST", 4)
    assert Counter(worker.detected(plans)) == expected_of(query, rows, ())
    assert full
    monkeypatch.setattr(tree_search, "MOST_ROWS", 4)
    with pytest.raises(GroupTooLarge, match="a tree stores more than 4 partial matches"):
        worker.detected(plans)


METHODS = (("unconditional", False), ("invariants", False), ("any", False), ("any", True))


@pytest.mark.parametrize("text", TYPICAL)
@pytest.mark.parametrize(("method", "trees"), METHODS)
def test_whenever_plans_change_each_trend_is_found_once(
    text: str, method: str, trees: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plans change after every slice of one or two events, and windows and chunks straddle slices."""
    query = by_case(cet.parse(text)._query())
    rng = random.Random(text)
    kinds = [event.type for event in positive_events(query.pattern)]
    rows = generators.stack([dense_stream(rng, kinds, kinds) for _ in range(30)])
    worker = Detecting(query, rows, ("s",))
    changes = Counter[bool]()
    if method == "any":

        def observe(loop: Loop, statistics: Statistics) -> Plan:
            slots = range(len(loop.problem.variables))
            branch = next(one for one in worker.branches if one.ordered == loop.problem.ordered)
            plans = list(map(TreePlan, trees_of(branch))) if trees else [OrderPlan(rng.sample(slots, len(slots)))]
            plan = rng.choice(plans)
            changes[plan != loop.plan] += 1
            loop.plan = plan
            return plan

        monkeypatch.setattr(Loop, "observe", observe)
        # So that slices also become longer or shorter from chunk to chunk.
        monkeypatch.setattr(Pace, "lengths", lambda pace, events: np.array([rng.randint(1, 3) for _ in events]))
    expected = expected_of(query, rows, ("s",))
    own = next(plans_of(worker.branches, 1, 0, trees))
    how = Adaptation("unconditional" if method == "any" else method, distance=0.0)
    cuts = (-1,) if worker.plan.source.windowing.cut <= 0 else (-1, 3)
    # Every text meets both lengths of slices by each method; which way of cutting with which one goes by turns.
    ways, turn = cuttings(0, cuts), TYPICAL.index(text) + METHODS.index((method, trees))
    for (cut, (chunk_events, batch)), events_of_slice in zip(ways, itertools.cycle((1 + turn % 2, 2 - turn % 2))):
        worker.cut = cut
        algorithm = "tree" if trees else "greedy"
        adapting = {"algorithm": algorithm, "adaptation": how, "slice_events": events_of_slice, "slices": 2}
        found = worker.detected(own, chunk_events, batch, adapting=adapting)
        assert Counter(found) == expected, (cut, chunk_events, events_of_slice)
    several = len(kinds) > (2 if trees else 1)
    assert method != "any" or not several or changes[True] > 100


@pytest.mark.parametrize("text", TYPICAL)
def test_trends_of_keys_whose_cheap_plans_are_left_alone(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By default a plan is left alone where it is cheap; what is cheap is set so that it is in some keys only."""
    query = by_case(cet.parse(text)._query())
    rng = random.Random(text)
    kinds = [event.type for event in positive_events(query.pattern)]
    rows = generators.stack([dense_stream(rng, kinds, kinds) for _ in range(30)])
    worker = Detecting(query, rows, ("s",))
    expected = expected_of(query, rows, ("s",))
    own = next(plans_of(worker.branches, 1, 0, False))
    monkeypatch.setattr(Pace, "lengths", lambda pace, events: np.full_like(events, 2))
    monkeypatch.setattr(adapt, "THIN", 2)
    how = {"algorithm": "greedy", "adaptation": Adaptation(distance=0.0), "slice_events": None, "slices": 2}
    # By turns, so that each way of cutting meets each price.
    for turn, pays in enumerate((0.0, 0.5, 1e9), TYPICAL.index(text)):
        monkeypatch.setattr(adapt, "PAYS", pays)
        chunk_events, batch = CUTTING[turn % len(CUTTING)]
        assert Counter(worker.detected(own, chunk_events, batch, adapting=how)) == expected, (pays, chunk_events)


@pytest.mark.parametrize("last", [1, None])
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_few_candidates_tell_how_many_a_plan_tries(
    order: tuple[int, ...], last: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One in eight candidates of the first step leads to an eighth of the work, and no more is tried than is enough."""
    least = Between((Comparison(">", 1, 1),))
    branch = Branch((Slot(0), Slot(1, 1, last, None if last == 1 else least), Slot(2)), (Between(), Between()))
    names = [Variable(name, 1, last if name == "B" else 1) for name in "ABC"]
    ordered, inside = frozenset(itertools.combinations(range(3), 2)), frozenset({(1, 1)} if last is None else ())
    problem = Problem(tuple(names), ordered, frozenset({(0, 1)}), inside, 40, span=True)
    machine = Machine((0,), ((0, ()),), ((0, ()),), ())  # only the branch is asked
    spec = make_spec(machine, codes=2, windowing=Windowing(SPAN, 40), pairs=(Pair("=", 0, 0, 1, 0),))
    events = independent(3, [0.5, 0.3, 0.2], [20, 100], 20_000, 1)
    slices = slices_of(spec, events)
    bounds = np.full(len(slices.low), -(2**62)), np.full(len(slices.low), 2**62)
    found: list[list[int]] = []

    def costly(loop: adapt.BranchLoop, places: np.ndarray, begin: np.ndarray, trials: list[Any]) -> np.ndarray:
        [(start, stop, trial)] = trials
        assert (start, stop) == (0, len(places))
        low, high = np.array([0, 10_000]), np.array([10_000, 20_000])
        whole = trial(low, high, np.full(2, 2**62), 1)
        found.append([*whole, *trial(low, high, np.full(2, 2**62), 8), *trial(low, high, whole // 2, 1)])
        return begin[1:]

    monkeypatch.setattr(adapt.BranchLoop, "_costly", costly)
    adapting = Adapting(problem, "greedy", Adaptation(), Statistics())
    detector = Detector(spec, [BranchPlan(branch, OrderPlan(order), adapting)])
    trends = sum(len(block.slice) for block in detector.enumerate(events, slices, bounds))
    assert trends == detector.partial[0][0, -1] > 0
    [counts] = found
    whole, few, half = np.array(counts).reshape(3, 2)
    assert (abs(8 * few / whole - 1) < 0.25).all(), (whole, few)
    assert (whole // 2 <= half).all()
    assert (half < 0.55 * whole).all()


def test_plans_are_costly_in_slices_in_which_they_try_many_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key is looked at from a window before the first of them on, but only if they are not few."""
    monkeypatch.setattr(adapt, "PAYS", 8.0)
    branch = Branch((Slot(0), Slot(1)), (Between(),))
    adapting = Adapting(Problem.sequence("a", "b"), "greedy", Adaptation(), Statistics())
    loop = adapt.BranchLoop(BranchPlan(branch, OrderPlan((0, 1)), adapting), branch, (), (), 0)
    # Of three keys, 32, 8 and 32 slices of 1,000 events; a trial is of eight of them.
    number = np.concatenate([np.arange(32), np.arange(8), np.arange(32)])
    first = 1000 * np.arange(len(number))
    places = np.stack([first, first, first + 1000, number, 1000 * (number + 1)], axis=1)
    begin = np.array([0, 32, 40, 72])
    enough = 8 * 8000 // adapt.THIN
    tried = np.array([0, enough - 1, 0, enough, enough, 0, 0, 0, 0])

    def trial(low: np.ndarray, high: np.ndarray, wanted: np.ndarray, thin: int) -> np.ndarray:
        assert (high - low).tolist() == [8000] * len(low)
        assert wanted.tolist() == [enough] * len(low)
        return tried[low // 8000]

    trials = [(0, 32, trial), (32, 72, trial)]
    assert loop._costly(places, begin, trials).tolist() == [24 - 8, 32, 72]
    monkeypatch.setattr(adapt, "OFTEN", 0.3)
    assert loop._costly(places, begin, trials).tolist() == [32, 32, 72]


@pytest.mark.parametrize("shares", [[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]])
def test_plans_begin_with_what_earlier_events_have_shown(shares: list[float]) -> None:
    """The rarest variable comes first, and the trends are the same; counts of no events change nothing."""
    branch = Branch((Slot(0), Slot(1), Slot(2)), (Between(), Between()))
    machine = Machine((0,), ((0, ()),), ((0, ()),), ())  # only the branch is asked
    spec = make_spec(machine, codes=2, windowing=Windowing(SPAN, 20))
    adapting = Adapting(Problem.sequence("A", "B", "C"), "greedy", Adaptation(), Statistics())
    plans = [BranchPlan(branch, OrderPlan((1, 0, 2)), adapting)] * 2

    def found(learned: np.ndarray | None) -> tuple[list[Plan], int]:
        events = independent(3, [1 / 3] * 3, [20, 100], 500, 2)
        slices = slices_of(spec, events)
        bounds = np.full(len(slices.low), -(2**62)), np.full(len(slices.low), 2**62)
        detector = Detector(spec, plans, learned=learned)
        trends = sum(len(block.slice) for block in detector.enumerate(events, slices, bounds))
        # Keys of so few events keep the plan with which they begin.
        return [plan for loop in detector.loops if loop is not None for plan in loop.plans], trends

    counts = np.concatenate(list(Detector(spec, plans).count(independent(3, shares, [20, 100], 2_000, 1))))
    own, trends = found(None)
    assert own == [OrderPlan((1, 0, 2))] * 2
    assert found(np.zeros_like(counts)) == (own, trends)
    rarest = tuple(np.argsort(shares).tolist())
    assert found(counts) == ([OrderPlan(rarest)] * 2, trends)


def test_samples_of_slices_tell_selectivities() -> None:
    """On the mean over slices the share of pairs in a sample is that of all pairs of the window."""
    events = independent(2, [0.6, 0.4], [4, 100], 50_000, 2)
    problem = attrs.evolve(Problem.sequence("A", "B", predicates={(0, 1)}), window=60, span=True)
    machine = Machine((0,), ((0, ()),), ((0, ()),), ())  # only the branch is asked
    pairs = Pair("=", 0, 0, 1, 0), Pair("<", 0, 1, 1, 1)
    spec = make_spec(machine, codes=2, windowing=Windowing(SPAN, 60), pairs=pairs)
    adapting = Adapting(problem, "greedy", Adaptation("unconditional"), Statistics(), slice_events=500, slices=1)
    branch = Branch((Slot(0), Slot(1)), (Between(),))
    detector = Detector(spec, [BranchPlan(branch, OrderPlan((0, 1)), adapting)], by_slice=True)
    slices = slices_of(spec, events)
    bounds = np.full(len(slices.low), -(2**62)), np.full(len(slices.low), 2**62)
    for _ in detector.enumerate(events, slices, bounds):
        pass
    [loop] = detector.loops
    assert loop is not None
    shares = [one.statistics.selectivities["A", "B"] for one in loop.slices]
    assert len(shares) == 100
    assert np.mean(shares) == pytest.approx(0.25 * 0.495, rel=0.1)


def dense_stream(rng: random.Random, kinds: list[str | None], others: list[str | None]) -> list[Any]:
    """Rows whose types come about as a pattern names them, with others between, and with ties and NULLs."""
    size, time = rng.randint(max(5, len(kinds)), 8), 0
    rows = []
    for place in range(size):
        kind = kinds[place * len(kinds) // size] if rng.random() < 0.7 else rng.choice(others)
        x, y = rng.choice((0, 1, 1, 1, 2, 2, None)), rng.choice((0.0, 0.0, 0.0, 1.0, None))
        own = {"type": kind, "x": x, "y": y, "k": rng.choice("uuuv"), "g": 1, "name": "a"}
        rows.append({"id": 0, "t": time, "s": rng.randint(0, 2), **own})
        time += rng.choice((0, 1, 1, 1, 2))
    return rows


# --------------------------------------------------------------------------------------------------- expected numbers


def independent(kinds: int, rates: list[float], domains: list[int], count: int, seed: int) -> Events:
    """Events one per tick, of so many kinds at these rates, with columns of independent values below the domains."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(kinds, size=count, p=np.array(rates) / sum(rates))
    return make_events(1 << kind, codes=[rng.integers(0, domain, count) for domain in domains])


BOTH = Pair("=", 0, 0, 1, 0), Pair("<", 1, 1, 2, 1)
#: Two attributes that rise from variable to variable: neighbours among four, each in about one pair of four.
CHAINED = tuple(Pair("<", v, column, v + 1, column) for v in range(3) for column in (0, 1))
CHAINED_SHARES = {("A", "B"): 0.235, ("B", "C"): 0.235, ("C", "D"): 0.235}
#: What neighbours in a set are compared by, alone and beside a pairwise predicate.
RISING = (Comparison(">", 1, 1),)
RISING_ALIKE = Comparison(">", 1, 1), Comparison("=", 0, 0)
BOTH_RISING = Comparison(">", 1, 1), Comparison("<", 0, 0)
ABOVE_AND_RISING = Pair("=", 0, 0, 1, 0), Comparison(">", 1, 1)


@pytest.mark.parametrize(
    ("rates", "pairs", "selectivities", "windowing", "last"),
    [
        ([0.6, 0.3, 0.1], (), {}, Windowing(SLIDING, 60, 60), (1, 1)),
        ([0.6, 0.3, 0.1], (), {}, Windowing(SPAN, 40), (1, 1)),
        ([0.5, 0.3, 0.2], (Pair("=", 0, 0, 2, 0),), {("A", "C"): 0.05}, Windowing(SLIDING, 80, 40), (1, 1)),
        ([0.5, 0.3, 0.2], BOTH, {("A", "B"): 0.05, ("B", "C"): 0.495}, Windowing(SPAN, 50), (1, 1)),
        ([0.4, 0.3, 0.2, 0.1], (Pair("<", 0, 1, 3, 1),), {("A", "D"): 0.495}, Windowing(SLIDING, 40, 40), (1, 1)),
        ([0.3, 0.2, 0.3, 0.2], CHAINED, CHAINED_SHARES, Windowing(SLIDING, 100, 50), (1, 1)),
        ([0.2, 0.3, 0.3, 0.2], tuple(reversed(CHAINED)), CHAINED_SHARES, Windowing(SPAN, 100), (1, 1)),
        ([0.3, 0.6, 0.1], (Pair("=", 0, 0, 1, 0),), {("A", "B"): 0.05}, Windowing(SLIDING, 30, 30), (1, None)),
        ([0.3, 0.6, 0.1], (), {}, Windowing(SLIDING, 30, 30), (2, 3)),
        ([0.3, 0.6, 0.1], RISING, {("B", "B"): 0.495}, Windowing(SLIDING, 30, 30), (1, None)),
        ([0.3, 0.6, 0.1], RISING, {("B", "B"): 0.495}, Windowing(SPAN, 30), (1, None)),
        ([0.3, 0.6, 0.1], RISING, {("B", "B"): 0.495}, Windowing(SLIDING, 40, 20), (2, 4)),
        ([0.3, 0.6, 0.1], RISING_ALIKE, {("B", "B"): 0.495 / 20}, Windowing(SLIDING, 80, 80), (1, None)),
        ([0.3, 0.6, 0.1], BOTH_RISING, {("B", "B"): 0.235}, Windowing(SLIDING, 50, 50), (2, None)),
        ([0.3, 0.6, 0.1], ABOVE_AND_RISING, {("A", "B"): 0.05, ("B", "B"): 0.495}, Windowing(SPAN, 40), (1, None)),
        ([0.3, 0.5, 0.2], ABOVE_AND_RISING, {("A", "B"): 0.05, ("B", "B"): 0.495}, Windowing(SLIDING, 60, 60), (2, 3)),
    ],
)  # fmt: skip
def test_expected_partial_matches_are_near_the_measured_ones(
    rates: list[float],
    pairs: tuple[Pair | Comparison, ...],
    selectivities: dict[tuple[str, str], float],
    windowing: Windowing,
    last: tuple[int, int | None],
) -> None:
    """Of independent events each step of each order has a third of what is expected, up to three times as many.

    The variable B binds sets of ``last`` events; what is compared between neighbours is compared within them. If there
    is no bound it comes last: a window that holds two events more than usual has four times as many sets, unless
    predicates between neighbours leave out most of them.
    """
    count, names = 20_000, "ABCD"[: len(rates)]
    least, most = last
    neighbours = tuple(one for one in pairs if isinstance(one, Comparison))
    pairs = tuple(one for one in pairs if isinstance(one, Pair))
    inner = None if most == 1 else Between(neighbours)
    slots = tuple(Slot(v, least, most, inner) if v == 1 else Slot(v) for v in range(len(rates)))
    branch = Branch(slots, (Between(),) * (len(rates) - 1))
    variables = [Variable(name, slot.at_least, slot.at_most, monotone(slot)) for name, slot in zip(names, slots)]
    compared = frozenset((pair.left_variable, pair.right_variable) for pair in pairs)
    ordered = frozenset(itertools.combinations(range(len(rates)), 2))
    span = windowing.kind == SPAN
    rising = _rising(branch, pairs, {v: v for v in range(len(rates))})
    inside = frozenset({(1, 1)} if neighbours else ())
    problem = Problem(tuple(variables), ordered, compared, inside, windowing.length, span, rising)
    expectation = Expectation(problem, Statistics(dict(zip(names, rates)), selectivities))
    machine = Machine((0,), ((0, ()),), ((0, ()),), ())  # only the branch is asked
    spec = make_spec(machine, codes=2, windowing=windowing, pairs=pairs)
    events = independent(len(rates), rates, [20, 100], count, 1)
    slices = slices_of(spec, events)
    bounds = np.full(len(slices.low), -(2**62)), np.full(len(slices.low), 2**62)
    # A window is searched once, and spans begin at any time.
    windows = count / windowing.length if span else len(slices.low)
    for order in itertools.permutations(range(len(rates))):
        if most is None and not neighbours and order[-1] != 1:
            continue
        detector = Detector(spec, [BranchPlan(branch, OrderPlan(order))])
        for _ in detector.enumerate(events, slices, bounds):
            pass
        measured = detector.partial[0][0] / windows
        expected = np.exp2(expectation.steps(OrderPlan(order)))
        assert (measured <= 3 * expected).all(), (order, measured, expected)
        assert (measured >= expected / 3).all(), (order, measured, expected)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("b.x < NEXT(b).x", 1),
        ("b.x >= NEXT(b).x AND b.x > NEXT(b).x", 1),
        ("b.x < NEXT(b).x AND b.y > NEXT(b).y AND b.k = NEXT(b).k", 2),
        ("b.x < NEXT(b).y", 0),
        ("b.x = NEXT(b).x", 0),
        ("a.x < b.x", 0),
    ],
)
def test_attributes_that_rise_within_a_set_are_found_in_the_query(where: str, expected: int) -> None:
    worker = Detecting(by_case(cet.parse(f"PATTERN SEQ(A a, B+ b[]) WHERE {where}")._query()), [], ())
    problem = problem_of(worker.branches[0], worker.plan.compiled, worker.plan.source)
    assert [variable.monotone for variable in problem.variables] == [0, expected]


# ------------------------------------------------------------------------------------------------- what is told of it


@pytest.mark.parametrize(("chunk_events", "batch"), [(2**20, 2**20), (7, 5), (1, 1)])
@pytest.mark.parametrize(
    "text", ["PATTERN SEQ(A, B+, C) WITHIN 4", "PATTERN SEQ(A, B) OR SEQ(B b2, C) WITHIN 6 SLIDE 2"]
)
def test_what_is_told_of_slices(text: str, chunk_events: int, batch: int) -> None:
    """Each complete slice is told of once; the partial matches of the last steps are the trends."""
    query = by_case(cet.parse(text)._query())
    rng = random.Random(1)
    rows = generators.stack([dense_stream(rng, ["A", "B", "C"], ["A", "B"]) for _ in range(10)])
    worker = Detecting(query, rows)
    how = given_detection(query.pattern, adaptation={"method": "unconditional", "slice": 3})
    plan = measure(TrendsRequest(worker.resolved, ("id",), None, compile_sides(worker.resolved), how))
    assert isinstance(plan, MeasureDetection)
    spec = worker._typed(plan.spec, ())
    told = DetectSpec(TrendsSpec(spec, (0,), (), ()), plan.plans)
    batches = worker.batches(plan.source, plan.compiled, spec, (), batch)
    names = ["case", *(name for name, _ in DETECTION)]
    found = [
        dict(zip(names, (value.as_py() for value in row), strict=True))
        for row in rows_of(measure_stream(told, batches, chunk_events))
    ]
    decided = Counter((row["case"], row["branch"], row["slice"]) for row in found if row["rates"] is not None)
    # Events that no variable can be bound to do not count.
    events_of = Counter(row["case"] for row in rows if row["type"] in ("A", "B", "C"))
    slices = {(case, n) for case, count in events_of.items() for n in range(count // 3)}
    assert decided == Counter((case, b, n) for case, n in slices for b in range(len(plan.plans)))
    expected = expected_of(query, rows, ())
    assert expected
    trends = sum(row["partial_matches"][-1][1] for row in found if row["partial_matches"])
    if plan.source.windowing.kind == SPAN:
        assert trends == expected.total()
    else:
        assert 0 < trends <= expected.total()  # windows of the same events are searched once
