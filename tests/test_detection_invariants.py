"""Generators against all plans of their class; invariants against what their generator does."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from detection_problems import changed, problems, statistics_of
from hypothesis import given, settings
from hypothesis import strategies as st

from cetdsl.detection.cost import Expectation
from cetdsl.detection.decisions import Adaptation, given_adaptation
from cetdsl.detection.generators import GENERATORS, Comparator, dynamic, greedy, subtrees, tree
from cetdsl.detection.histograms import ExponentialHistogram
from cetdsl.detection.invariants import Condition, Recorder, average_distance, tightest
from cetdsl.detection.loop import Loop, slice_length
from cetdsl.detection.plans import Node, OrderPlan, Problem, TreePlan, given_orders
from cetdsl.detection.statistics import Statistics, given_statistics
from cetdsl.errors import InvalidNode, UnknownVariable

ABC = Problem.sequence("a", "b", "c")
PAPER = Statistics({"a": 100, "b": 15, "c": 10})


def trees(mask: int, splits: dict[int, tuple[tuple[int, int], ...]]) -> Iterator[Node]:
    if mask.bit_count() == 1:
        yield mask.bit_length() - 1
    for left, right in splits[mask]:
        yield from itertools.product(trees(left, splits), trees(right, splits))


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_dynamic_programming_finds_the_cheapest_plan(data: st.DataObject) -> None:
    problem = data.draw(problems())
    expectation = Expectation(problem, data.draw(statistics_of(problem)))
    orders = map(OrderPlan, itertools.permutations(range(len(problem.variables))))
    cheapest = min(map(expectation.cost, orders))
    assert expectation.cost(dynamic(expectation, Comparator()).plan) == pytest.approx(cheapest)
    splits = dict(subtrees(problem.ordered, len(problem.variables)))
    cheapest = min(expectation.cost(TreePlan(root)) for root in trees(problem.everything, splits))
    assert expectation.cost(tree(expectation, Comparator()).plan) == pytest.approx(cheapest)


def test_classes_of_trees() -> None:
    """Catalan numbers for sequences; (2n - 3)!! for conjunctions."""
    for count, in_sequence, free in ((3, 2, 3), (4, 5, 15), (5, 14, 105)):
        names = "abcde"[:count]
        whole = (1 << count) - 1
        assert len(list(trees(whole, dict(subtrees(Problem.sequence(*names).ordered, count))))) == in_sequence
        assert len(list(trees(whole, dict(subtrees(frozenset(), count))))) == free


def violated(conditions: tuple[Condition, ...], expectation: Expectation, distance: float = 0.0) -> bool:
    return any(condition.violated(distance, expectation, {}) for condition in conditions)


@pytest.mark.parametrize("algorithm", sorted(GENERATORS))
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_what_is_violated_changes_the_plan(algorithm: str, data: st.DataObject) -> None:
    """Theorem 1, for any K and d, and Theorem 2 for the greedy generator."""
    problem = data.draw(problems())
    statistics = data.draw(statistics_of(problem))
    now = data.draw(changed(statistics))
    generate, recorder = GENERATORS[algorithm], Recorder()
    expectation = Expectation(problem, statistics)
    made = generate(expectation, recorder)
    later = Expectation(problem, now)
    again = generate(later, Comparator()).plan
    deciding = recorder.deciding(made.blocks)
    for most in (1, 2, None):
        invariants = tightest(deciding, expectation, most)
        assert not violated(invariants, expectation)
        for distance in (0.0, 0.3):
            if violated(invariants, later, distance):
                assert again != made.plan
    if again != made.plan:
        # Without the subplans that lost, dynamic programming overlooks changes; with all of them, none.
        blocks = made.blocks if algorithm == "greedy" else recorder.blocks
        assert violated(sum(recorder.deciding(blocks), ()), later)


def test_the_worked_example() -> None:
    recorder = Recorder()
    expectation = Expectation(ABC, PAPER)
    made = greedy(expectation, recorder)
    deciding = recorder.deciding(made.blocks)
    assert made.plan == OrderPlan((2, 1, 0))
    assert [condition.show("abc") for condition in tightest(deciding, expectation, 1)] == ["c < b", "c, b < c, a"]
    assert average_distance(deciding, expectation) == pytest.approx((5 / 10 + 90 / 10 + 85 / 15) / 3)
    loop = Loop(ABC, "greedy", Adaptation(distance=0.0), PAPER)
    for a in (94, 106, 100):
        loop.observe(Statistics({"a": a}))
        assert (loop.violated, loop.counts.plannings) == (None, 0)
    assert loop.observe(Statistics({"c": 16})) == OrderPlan((1, 2, 0))
    assert loop.violated is not None
    assert loop.violated.show("abc") == "c < b"


def test_the_average_distance_is_that_of_the_invariants() -> None:
    """Of the worked example: c < b by 5 / 10, and c, b < c, a by 85 / 15; c < a is no invariant."""
    loop = Loop(ABC, "greedy", Adaptation(distance="average"), PAPER)
    assert loop.watched.distance == pytest.approx((5 / 10 + 85 / 15) / 2)
    assert loop.observe(Statistics({"c": 15 * 4.0})) == OrderPlan((2, 1, 0))
    assert loop.observe(Statistics({"c": 15 * 4.1})) == OrderPlan((1, 2, 0))


def swing(distance: float | str, slices: int = 60) -> int:
    """Changes of plan while two rates, far apart, swap in each slice."""
    loop = Loop(Problem.conjunction("a", "b"), "greedy", Adaptation(distance=distance), Statistics({"a": 10, "b": 100}))
    for slice_ in range(slices):
        loop.observe(Statistics({"a": 100, "b": 10} if slice_ % 2 == 0 else {"a": 10, "b": 100}))
    return loop.counts.changes


def test_meta_distances_end_swings_and_see_lasting_changes() -> None:
    assert swing(0.0) == 60
    assert swing("meta") <= 6
    loop = Loop(ABC, "greedy", Adaptation(distance="meta"), PAPER)
    assert loop.observe(Statistics({"a": 1})) == OrderPlan((0, 2, 1))


def test_the_other_decision_functions() -> None:
    plannings = {}
    for method in ("static", "unconditional", "threshold"):
        loop = Loop(ABC, "greedy", Adaptation(method, threshold=0.5), PAPER)
        for c in (14, 16, 16):
            loop.observe(Statistics({"c": c}))
        plannings[method] = loop.counts.plannings, loop.plan.order
    assert plannings == {
        "static": (0, (2, 1, 0)),
        "unconditional": (3, (1, 2, 0)),
        "threshold": (1, (1, 2, 0)),
    }


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 3)), min_size=1, max_size=300),
    window=st.integers(1, 200),
    error=st.sampled_from([0.01, 0.1, 0.5]),
)
def test_histograms_keep_their_bound(rows: list[tuple[int, int]], window: int, error: float) -> None:
    histogram = ExponentialHistogram(2, window, error)
    for stop, row in enumerate(rows, 1):
        histogram.add(row)
        exact = np.sum(rows[max(0, stop - window) : stop], axis=0)
        assert (abs(histogram.sums() - exact) <= error * exact + 1e-9).all()


@pytest.mark.parametrize(
    "given_",
    [
        3,
        {"rate": {}},
        {"rates": 3},
        {"rates": {"n": 1}},
        {"rates": {"a": -1}},
        {"rates": {"a": float("nan")}},
        {"rates": {"a": "1"}},
        {"rates": {1: 1}},
        {"selectivities": {("a", "b"): 1.1}},
        {"selectivities": {("a", "b", "c"): 0.1}},
        {"selectivities": {("a", "b"): 0.1, ("b", "a"): 0.1}},
    ],
)
def test_statistics_that_cannot_be(given_: object) -> None:
    with pytest.raises(InvalidNode) as error:
        given_statistics(given_, ["a", "b", "c"], ["n"])
    assert error.value.hint


def test_plans_and_numbers_that_cannot_be() -> None:
    with pytest.raises(UnknownVariable):
        given_statistics({"rates": {"z": 1}}, ["a"])
    with pytest.raises(UnknownVariable):
        given_orders(["a", "b", "z"], [ABC])
    for names in ("abc", ["a", "b"], ["a", "a", "b", "c"], ["a", "b", "c", "n"], [1, 2, 3]):
        with pytest.raises(InvalidNode):
            given_orders(names, [ABC], ["n"])
    for word, numbers in (
        ("sometimes", {}),
        ("threshold", {"threshold": -1}),
        ("static", {"threshold": 1}),
        ("invariants", {"distance": float("inf")}),
        ("invariants", {"distance": "mean"}),
        ("invariants", {"most": 0}),
        ("invariants", {"most": True}),
    ):
        with pytest.raises(InvalidNode):
            given_adaptation(word, **numbers)
    for length in (0, -1, 1.5, "x"):
        with pytest.raises(InvalidNode):
            slice_length(length, 10)


@pytest.mark.parametrize("error", [0.02, 0.1, 0.4])
def test_histograms_keep_their_bound_as_streams_slow_down(error: float) -> None:
    """Large old buckets beside few new events are the hard case."""
    rows = [max(1, 5000 // (1 + slice_ % 700)) for slice_ in range(3000)]
    sums = np.cumsum([0, *rows])
    histogram = ExponentialHistogram(1, 400, error)
    worst = 0.0
    for stop, row in enumerate(rows, 1):
        histogram.add([row])
        exact = sums[stop] - sums[max(0, stop - 400)]
        worst = max(worst, abs(histogram.sums()[0] / exact - 1))
    assert 0 < worst <= error
    # The bound that is documented, and as many again before they are merged.
    assert histogram.buckets <= max(33, 2 * 2 * np.log(sums[-1]) / np.log(1 + 2 * error))
