"""Expected numbers of partial matches: against formulas worked out by trying, and against streams of known rates."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from detection_problems import allowed_share, problems, statistics_of
from hypothesis import given, settings
from hypothesis import strategies as st

from cetdsl.detection.arithmetic import compressed_exp
from cetdsl.detection.cost import LEAST, Expectation, log_sets, log_share, ordered_in_time
from cetdsl.detection.plans import OrderPlan, Problem, TreePlan, Variable
from cetdsl.detection.statistics import Statistics


def share_of_rising(bound: list[int], neighbours: list[tuple[int, int]]) -> float:
    """The share of the orders of independent values in which each of these pairs rises, by trying them all."""
    orders = list(itertools.permutations(bound))
    return sum(all(order.index(a) < order.index(b) for a, b in neighbours) for order in orders) / len(orders)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_of_single_events_it_is_the_product_of_rates_selectivities_and_the_share_of_orders(data: st.DataObject) -> None:
    problem = data.draw(problems(kleene=False))
    statistics = data.draw(statistics_of(problem))
    expectation = Expectation(problem, statistics)
    for mask in range(1, problem.everything + 1):
        bound = [position for position in range(len(problem.variables)) if mask >> position & 1]
        expected = math.log(allowed_share(problem, mask)) + math.log(len(bound) if problem.span else 1)
        expected += sum(math.log(max(statistics.rate(problem.names[i]) * (problem.window or 1), LEAST)) for i in bound)
        for i, j in itertools.combinations_with_replacement(bound, 2):
            compared = (i, j) in problem.predicates | problem.adjacent
            expected += math.log(max(statistics.selectivity(problem.names[i], problem.names[j], compared), LEAST))
        for chain in problem.rising:
            neighbours = [(a, b) for a, b in itertools.pairwise(chain) if a in bound and b in bound]
            expected += math.log(share_of_rising(bound, neighbours) * 2 ** len(neighbours))
        assert expectation.log_count(mask) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("share", [1.0, 0.3, 0.01])
@pytest.mark.parametrize("between", [1.0, 0.4])
@pytest.mark.parametrize("bounds", [(1, None), (2, None), (1, 3), (3, 3), (4, 20)])
@pytest.mark.parametrize("events", [1, 5, 12])
def test_sets_are_counted_by_size(events: int, bounds: tuple[int, int | None], between: float, share: float) -> None:
    least, most = bounds
    sizes = range(least, (events if most is None else min(most, events)) + 1)
    terms = {k: math.comb(events, k) * share**k * between ** (k - 1) for k in sizes}
    log, size = log_sets(events, math.log(share), between, Variable("b", least, most))
    if not terms:
        assert -math.inf < log <= 0  # by chance, there may be as many events
        return
    exact = sum(terms.values())
    assert math.exp(log) == pytest.approx(exact)
    assert size == pytest.approx(sum(k * term for k, term in terms.items()) / exact)


@pytest.mark.parametrize("share", [1.0, 0.3])
@pytest.mark.parametrize("monotone", [1, 2])
@pytest.mark.parametrize("bounds", [(1, None), (2, None), (1, 3), (4, 20)])
@pytest.mark.parametrize("events", [5, 18, 200])
def test_sets_that_rise_are_counted_by_size(
    events: int, bounds: tuple[int, int | None], monotone: int, share: float
) -> None:
    """One order of k independent values in k! rises; another predicate between neighbours, of 0.4, holds for itself."""
    least, most = bounds
    b = Variable("b", least, most, monotone)
    for other in (1.0, 0.4):
        terms = [
            Fraction(math.comb(events, k), math.factorial(k) ** monotone) * Fraction(share**k * other ** (k - 1))
            for k in range(least, (events if most is None else min(most, events)) + 1)
        ]
        log, size = log_sets(events, math.log(share), other / 2**monotone, b)
        assert math.exp(log) == pytest.approx(float(sum(terms)))
        assert size == pytest.approx(float(sum(k * term for k, term in enumerate(terms, least)) / sum(terms)))


def test_sets_rise_by_chance_or_because_time_goes_by() -> None:
    free, rising = Variable("b", at_most=None), Variable("b", at_most=None, monotone=1)
    every = log_sets(18, 0.0, 1.0, free)[0]
    assert log_sets(18, 0.0, 1.0, rising)[0] == pytest.approx(every)  # each value is larger than all before it
    counts = [log_sets(18, 0.0, share, rising)[0] for share in (0.01, 0.2, 0.49, 0.5, 0.51, 0.7, 0.9, 0.99, 1.0)]
    assert counts == sorted(set(counts))


@pytest.mark.parametrize("drift", [0.0, 0.02, 0.05, 0.1, 0.2, 1.0])
def test_a_stream_with_a_drift_has_about_as_many_sets_that_rise_as_expected(drift: float) -> None:
    """Of values that rise with time only the share of all pairs that rise is known, which does not say how they do."""
    rng = np.random.default_rng(1)
    sets, shares = [], []
    for _ in range(500):
        values = rng.random(18) + np.arange(18) * drift
        below = values[:, None] < values[None, :]
        shares.append(below[np.triu_indices(18, 1)].mean())
        ending = np.ones(18)  # sets by their last event
        for event in range(18):
            ending[event] += ending[:event][below[:event, event]].sum()
        sets.append(ending.sum())
    expected = math.exp(log_sets(18, 0.0, float(np.mean(shares)), Variable("b", at_most=None, monotone=1))[0])
    assert expected / 4 <= np.mean(sets) <= expected * (4 if drift < 1 else 1 + 1e-9)


def test_no_number_of_sets_overflows() -> None:
    b = Variable("b", at_most=None)
    for events in (1e3, 1e6, 1e15):
        log, size = log_sets(events, 0.0, 0.5, Variable("b", at_most=None, monotone=1))
        # Laguerre's polynomial of degree n at -1, as n grows
        growth = 2 * math.sqrt(events + 0.5) - math.log(events) / 4
        assert log == pytest.approx(growth - 0.5 - math.log(2 * math.sqrt(math.pi)), rel=1e-3)
        assert size == pytest.approx(math.sqrt(events), rel=0.03)
        expectation = Expectation(Problem.sequence("a", b, "c"), Statistics({"b": events}))
        assert math.isfinite(expectation.log_count(0b111))
        assert math.isfinite(expectation.cost(OrderPlan((0, 1, 2))))
    # Even so, fewer sets are fewer.
    counts = [Expectation(Problem.sequence(b), Statistics({"b": events})).count(1) for events in (1e3, 1001, 1e6, 1e7)]
    assert counts == sorted(set(counts))
    tiny = [compressed_exp(-size) for size in (500, 650, 1e4, 1e9)]
    assert tiny == sorted(set(tiny), reverse=True)
    assert tiny[-1] > 0


def test_a_pairwise_predicate_holds_for_each_event_of_a_set_and_one_of_neighbours_once() -> None:
    variables = Variable("a"), Variable("b", at_most=None)
    known = Statistics({"a": 1, "b": 10}, {("a", "b"): 0.1})
    each = Expectation(Problem(variables, predicates=frozenset({(0, 1)})), known)
    once = Expectation(Problem(variables, adjacent=frozenset({(0, 1)})), known)
    assert each.count(0b11) == pytest.approx(1.1**10 - 1)
    assert once.count(0b11) == pytest.approx(0.1 * (2**10 - 1))


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_shares_of_orders_with_sets_are_those_of_their_events(data: st.DataObject) -> None:
    """A set of k events is ordered as k variables without an order among them."""
    problem = data.draw(problems(most=3, kleene=False))
    sizes = {position: data.draw(st.integers(1, 2)) for position in range(len(problem.variables))}
    owners = [position for position, size in sizes.items() for _ in range(size)]
    ordered = {(i, j) for i, a in enumerate(owners) for j, b in enumerate(owners) if (a, b) in problem.ordered}
    spread = Problem(tuple(Variable(f"v{i}") for i in range(len(owners))), frozenset(ordered))
    share = log_share(ordered_in_time(problem.ordered, problem.everything), {k: float(v) for k, v in sizes.items()})
    assert math.exp(share) == pytest.approx(float(allowed_share(spread, spread.everything)))


def times_of(rates: dict[str, float], length: float, seed: int) -> dict[str, np.ndarray]:
    """Independent streams, sorted: as many events as expected, at any times."""
    random = np.random.default_rng(seed)
    return {name: np.sort(random.uniform(0, length, round(rate * length))) for name, rate in rates.items()}


def chains(times: list[np.ndarray], span: float) -> int:
    """Combinations, one event of each, in ascending order of time, whose last is at most a span after the first."""
    total = 0
    for start in times[0]:
        last, counts = np.array([start]), np.array([1])
        for later in times[1:]:
            later = later[(later > start) & (later <= start + span)]
            before = np.searchsorted(last, later, side="left")
            last, counts = later, np.concatenate([[0], np.cumsum(counts)])[before]
        total += int(counts.sum())
    return total


@pytest.mark.parametrize("names", ["ab", "abc", "abcd"])
def test_a_stream_of_known_rates_has_as_many_matches_as_expected(names: str) -> None:
    rates = dict(zip(names, [2.0, 0.5, 1.0, 3.0]))
    length, window = 2000.0, 5.0
    times = times_of(rates, length, seed=1)
    fixed = Expectation(Problem.sequence(*names), Statistics(rates))
    whole = (1 << len(names)) - 1

    span = Problem(fixed.problem.variables, fixed.problem.ordered, window=window, span=True)
    expected = Expectation(span, Statistics(rates)).count(whole) * length / window
    assert chains([times[name] for name in names], window) == pytest.approx(expected, rel=0.1)

    tumbling = Problem(fixed.problem.variables, fixed.problem.ordered, window=window)
    expected = Expectation(tumbling, Statistics(rates)).count(whole) * length / window
    found = 0
    for start in np.arange(0, length, window):
        found += chains([t[(t >= start) & (t < start + window)] for t in map(times.get, names)], window)
    assert found == pytest.approx(expected, rel=0.1)


def test_a_stream_has_as_many_sets_between_two_events_as_expected() -> None:
    rates = {"a": 4.0, "b": 12.0, "c": 4.0}
    problem = Problem.sequence("a", Variable("b", at_most=None), "c")
    found = []
    for seed in range(400):
        times = times_of(rates, 1.0, seed)
        between = [
            np.count_nonzero((times["b"] > a) & (times["b"] < c)) for a in times["a"] for c in times["c"] if a < c
        ]
        found.append(sum(2.0**count - 1 for count in between))
    assert np.mean(found) == pytest.approx(Expectation(problem, Statistics(rates)).count(0b111), rel=0.15)


def test_a_plan_costs_what_its_steps_or_nodes_hold() -> None:
    expectation = Expectation(Problem.conjunction("a", "b", "c"), Statistics({"a": 2, "b": 3, "c": 5}))
    assert expectation.cost(OrderPlan((0, 2, 1))) == pytest.approx(2 + 10 + 30)
    assert expectation.cost(TreePlan(((0, 2), 1))) == pytest.approx(2 + 5 + 10 + 3 + 30)
    assert expectation.steps(OrderPlan((0, 2, 1))) == pytest.approx([1, math.log2(10), math.log2(30)])


def test_what_never_came_may_come_all_the_same() -> None:
    """A rate or a selectivity of 0 does not make all plans cost nothing."""
    problem = Problem.conjunction("a", "b", "c", predicates={(0, 1)})
    expectation = Expectation(problem, Statistics({"a": 0, "b": 7, "c": 5}, {("a", "b"): 0}))
    assert 0 < expectation.count(0b011) < expectation.count(0b101) < expectation.count(0b001) * 6
