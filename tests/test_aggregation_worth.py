"""What statistics make of aggregation plans: sub-patterns that save more than they cost, and steps of each vertex."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cetdsl as cet
from cetdsl.detection.cost import Expectation
from cetdsl.detection.plans import Problem, Variable
from cetdsl.detection.statistics import Statistics
from cetdsl.frontend import sase
from cetdsl.pattern.query import Query
from cetdsl.sharing.aggregation.draft import Limits
from cetdsl.sharing.aggregation.planner import ALGORITHMS, Planner
from cetdsl.sharing.aggregation.skeletons import skeleton
from cetdsl.sharing.aggregation.subpatterns import SubPattern, common
from cetdsl.sharing.aggregation.worth import Expected, expected_cost, worth_keeping
from tests.reference import Row
from tests.test_aggregation_plans import check_plan, workload
from tests.test_aggregation_subpatterns import STREAMS, check_soundness, random_queries
from tests.test_kernel_instances import Workload as Laid
from tests.test_kernel_instances import expected, of_one_key, random_query, random_rows

SHARED = {name: f"PATTERN SEQ(A, B, {name}) WITHIN 20 minutes" for name in "CDE"}


def rates(queries: Mapping[str, Query], seed: int, base: float) -> Statistics:
    """A rate for each type of some queries, and some selectivities."""
    chance = random.Random(seed)
    kinds = sorted({str(kind) for query in queries.values() for kind in skeleton(query).pattern.kinds})
    found = {kind: base * chance.choice([1, 0.3, 0.1, 0.01, 0]) for kind in kinds}
    return Statistics(found, {(kind, kind): chance.choice([0.05, 0.5]) for kind in kinds[::2]})


# Expected numbers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "A",
        "SEQ(A, B, C, D)",
        "AND(A, B, C)",
        "AND(SEQ(A, B), SEQ(C, D))",
        "AND(SEQ(A, B, C), D)",
        "SEQ(A, AND(B, C))",
        "SEQ(AND(A, B), C)",
        "SEQ(AND(A, B, C), D)",
        "SEQ(A a, B b, C c) WHERE a.x < b.x AND b.y = c.y",
    ],
)
def test_expected_instances_are_those_of_detection_plans(text: str) -> None:
    pattern = skeleton(sase.parse(f"PATTERN {text} WITHIN 30 seconds")).pattern
    names = [str(slot) for slot in pattern.slots]
    known = Statistics(dict(zip("ABCD", [0.5, 0.2, 0.01, 3.0])), {("A", "B"): 0.1} if pattern.relations else {})
    before = {(i, j) for i, later in enumerate(pattern.later) for j in range(len(names)) if later >> j & 1}
    related = {(min(one.slots), max(one.slots)) for one in pattern.relations}
    problem = Problem(tuple(map(Variable, names)), before, related, window=30.0, span=True)
    expectation, expected = Expectation(problem, known), Expected(pattern, known)
    for mask in range(1, 1 << len(names)):
        assert expected.log(mask) == pytest.approx(expectation.log_count(mask) - math.log(30))


def test_conditions_let_through_a_share() -> None:
    def events(pattern: SubPattern) -> float:
        return math.exp(Expected(pattern, Statistics({"A": 8, "B": 5}, {("A", "A"): 0.5})).log(1))

    anything, some, other, either = (
        skeleton(sase.parse(f"PATTERN {text}")).pattern
        for text in ("A", "A a WHERE a.x < 5 AND a.y > 1", "A a WHERE a.z < 1", "(A OR B)")
    )
    both = common(some, other)
    assert both is not None
    assert events(anything) == pytest.approx(8)
    assert events(other) == pytest.approx(4)
    # A second term lets through a third.
    assert events(some) == pytest.approx(4 / 3)
    # They are not exclusive, as far as anybody knows.
    assert events(both.pattern) == pytest.approx(8 * (1 - 1 / 2 * 5 / 6))
    assert events(either) == pytest.approx(13)


# Plans ---------------------------------------------------------------------------------------------------------------


def test_what_costs_more_to_keep_than_to_build_again_is_not_kept() -> None:
    rare = {"rates": {"A": 0.002, "B": 0.001, "C": 0.1, "D": 0.1, "E": 0.1}}
    often = {"rates": {"A": 0.2, "B": 0.1, "C": 0.001, "D": 0.001, "E": 0.001}}
    kept, dropped = (cet.aggregation_plan(SHARED, statistics=known) for known in (rare, often))
    assert [str(vertex.pattern) for vertex in kept.levels[0]] == ["SEQ(A, B)"]
    assert (kept.dropped, dropped.dropped) == (0, 1)
    assert dropped.unshared == tuple("CDE")
    assert "1 sub-pattern: keeping costs more than it saves" in str(dropped)
    # The rarest first.
    assert [dropped.vertex("C").pattern.slots[step.slots[0]].kind for step in dropped.vertex("C").steps] == list("CBA")
    (first, second) = kept.vertex("C").steps
    assert (first.parent, first.slots, second.parent, second.slots) == (kept.vertices[0].number, (0, 1), None, (2,))
    assert "put together of SEQ(A, B), C" in str(kept)


def test_what_goes_leaves_its_parents_to_its_children() -> None:
    """A, B is worth having; A, B, X is not, as X comes all the time."""
    queries = {name: f"PATTERN SEQ(A, B, X, {name}) WITHIN 20 minutes" for name in "PQ"}
    queries |= {name: f"PATTERN SEQ(A, B, {name}) WITHIN 20 minutes" for name in "RST"}
    flat = cet.aggregation_plan(queries)
    assert [str(vertex.pattern) for vertex in flat.parents(flat.vertex("P"))] == ["SEQ(A, B, X)"]
    known = {"A": 0.002, "B": 0.001, "X": 100.0} | dict.fromkeys("PQ", 0.00001) | dict.fromkeys("RST", 0.1)
    plan = cet.aggregation_plan(queries, statistics={"rates": known})
    assert plan.dropped == 1
    assert [str(vertex.pattern) for vertex in plan.parents(plan.vertex("P"))] == ["SEQ(A, B)"]
    assert [str(plan.vertex("P").pattern.slots[slot]) for slot in plan.vertex("P").own] == ["X", "P"]


def test_statistics_stay_when_queries_come_and_go() -> None:
    known = {"rates": {"A": 0.2, "B": 0.1, "C": 0.001, "D": 0.001, "E": 0.001, "F": 0.001}}
    plan = cet.aggregation_plan(SHARED, statistics=known).adding("F", "PATTERN SEQ(A, B, F) WITHIN 20 minutes")
    assert plan.dropped == 1
    assert plan.removing("F") == cet.aggregation_plan(SHARED, statistics=known)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(ALGORITHMS), st.sampled_from([1e-5, 1e-3, 1e-1]))
def test_plans_with_statistics_are_valid_and_cost_no_more(seed: int, algorithm: str, base: float) -> None:
    queries = workload(20, seed)
    before, known = Planner(queries, algorithm, Limits()).plan, rates(queries, seed, base)
    plan = worth_keeping(before, known)
    check_plan(plan, queries)
    assert plan.dropped == len(before.vertices) - len(plan.vertices)
    assert expected_cost(plan, known) <= expected_cost(before, known) * (1 + 1e-9)
    for vertex in plan.vertices:
        bound: set[int] = set()
        for step in vertex.steps:
            assert not set(step.slots) <= bound, "each step binds something"
            assert step.parent is None or (step.parent in vertex.parents and len(step.slots) > 1)
            bound |= set(step.slots)
        assert bound == set(range(len(vertex.pattern.slots)))
        assert (vertex.expected is None) == (not vertex.pattern.slots)


@settings(max_examples=40, deadline=None)
@given(st.lists(random_queries(), min_size=2, max_size=6), STREAMS, st.integers(0, 100), st.sampled_from([0.01, 1.0]))
def test_plans_with_statistics_are_sound(queries: list[Query], rows: list[Row], seed: int, base: float) -> None:
    named = {f"q{number}": query for number, query in enumerate(queries)}
    plan = Planner(named, "casem+dce", Limits()).plan
    check_soundness(worth_keeping(plan, rates(named, seed, base)), rows)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**9), st.integers(2, 16), st.sampled_from(ALGORITHMS), st.sampled_from([None, 0.01, 1.0]))
def test_trends_are_those_of_each_query_along_plans_that_changed(
    seed: int, size: int, algorithm: str, base: float | None
) -> None:
    """Queries came and went, and statistics took sub-patterns away."""
    chance = random.Random(seed)
    coming = of_one_key({f"q{number}": random_query(chance) for number in range(2 * size)}, keyed=False)
    queries = dict(list(coming.items())[:size])
    planner = Planner(queries, algorithm, Limits())
    for name, query in list(coming.items())[size:]:
        if chance.random() < 0.5 and len(queries) > 1:
            gone = chance.choice(list(queries))
            planner.remove(gone)
            del queries[gone]
        planner.add(name, query)
        queries[name] = query
    plan = planner.plan if base is None else worth_keeping(planner.plan, rates(queries, seed, base))
    laid, rows = Laid(queries, plan), random_rows(chance)
    assert laid.found(rows)[0] == expected(laid.queries, rows)
