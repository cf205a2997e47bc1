"""The optimizer of h-cet: judged by adding up the costs of every plan, and by counting the steps of real graphs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from cetdsl.kernels.complete import branch_and_bound as bounding
from cetdsl.kernels.complete.branch_and_bound import branch_and_bound
from cetdsl.kernels.complete.cut_plan import HUGE, Costs, CutPlan, algorithm_of, lowest_level
from cetdsl.kernels.complete.greedy import greedy
from cetdsl.kernels.complete.published import (
    balanced_cuts,
    exhaustive,
    nearly_balanced,
    published_branch_and_bound,
    published_greedy,
    worst_case_costs,
)

CHECKED = settings(max_examples=150, deadline=None)

MEBIBYTE = 2**20
#: More than any plan needs that can be counted.
AMPLE = HUGE**2
OPTIMIZERS = {"exhaustive": exhaustive, "branch-and-bound": branch_and_bound, "greedy": greedy}


# Costs -------------------------------------------------------------------------------------------------------------


def costs_of(*given: ArrayLike | None) -> Costs:
    return Costs(*(None if costs is None else np.asarray(costs, dtype=np.float64) for costs in given))


def super_additive(atoms: int, extra: Callable[[], int]) -> np.ndarray:
    """Memory such that no graphlet needs less than its parts."""
    memory = np.zeros((atoms, atoms + 1))
    for length in range(1, atoms + 1):
        for start in range(atoms - length + 1):
            stop = start + length
            parts = [memory[start, cut] + memory[cut, stop] for cut in range(start + 1, stop)]
            memory[start, stop] = max(parts, default=0) + extra()
    return memory


def random_costs(seed: int, atoms: int, walk: bool = False) -> Costs:
    random = np.random.default_rng(seed)
    memory = super_additive(atoms, lambda: int(random.integers(0, 20)))
    cpu = random.integers(1, 100, (atoms, atoms + 1)) * np.arange(1, atoms + 2)
    visits = np.concatenate([[0], np.cumsum(random.integers(1, 40 * atoms, atoms))])
    return costs_of(memory, cpu, visits - visits[:-1, None] if walk else None)


def layered_costs(seed: int, atoms: int) -> Costs:
    """Counted on a random graph: an atom is one to four vertices, each followed by some of the next atom."""
    random = np.random.default_rng(seed)
    width = random.integers(1, 5, atoms)
    follows = [
        np.where(random.random((here, there)) < 1.5 / there, 1.0, 0.0) for here, there in itertools.pairwise(width)
    ]
    for edges in follows:
        edges[np.arange(len(edges)), random.integers(0, edges.shape[1], len(edges))] = 1
        edges[random.integers(0, len(edges), edges.shape[1]), np.arange(edges.shape[1])] = 1
    trends = np.zeros((atoms, atoms + 1))
    for start in range(atoms):
        ending = np.ones(width[start])
        trends[start, start + 1] = ending.sum()
        for stop in range(start + 2, atoms + 1):
            ending = ending @ follows[stop - 2]
            trends[start, stop] = ending.sum()
    refs = trends * np.maximum(np.arange(atoms + 1) - np.arange(atoms)[:, None], 0)
    cpu = refs + trends[0]
    cpu[1:, -1] += refs[0, -1]
    cpu[0, -1] = refs[0, -1]
    visits = np.cumsum(trends[0])
    walk = visits - visits[:-1, None]
    walk[:, -1] += refs[0, -1]
    return costs_of(4 * refs + 8 * trends, cpu, walk)


@st.composite
def whole_number_costs(draw: st.DrawFn, most_atoms: int, walk: bool) -> Costs:
    """Anything that counts can be: many ties, zeros, graphlets too large to count."""
    atoms = draw(st.integers(1, most_atoms))
    size = draw(st.sampled_from([2, 10, 1000]))
    random = draw(st.randoms(use_true_random=False))
    memory = super_additive(atoms, lambda: random.randint(0, size))
    if draw(st.booleans()):
        memory[memory > np.median(memory)] = np.inf
    if draw(st.integers(0, 4)) == 0:
        memory = np.array([[random.randint(0, size) for _ in range(atoms + 1)] for _ in range(atoms)])
    price = draw(st.sampled_from([0, 1, 50]))
    cpu = [
        [random.randint(0, size) + price * (stop - start) ** 2 for stop in range(atoms + 1)] for start in range(atoms)
    ]
    visits = list(itertools.accumulate((random.randint(0, 2 * size) for _ in range(atoms)), initial=0))
    additive = [[visits[stop] - visits[start] for stop in range(atoms + 1)] for start in range(atoms)]
    anything = [[random.randint(0, size) for _ in range(atoms + 1)] for _ in range(atoms)]
    return costs_of(memory, cpu, draw(st.sampled_from([additive, anything])) if walk else None)


@st.composite
def limits(draw: st.DrawFn, costs: Costs) -> float:
    """From none to ample; often just what some plan needs, or one byte less."""
    cuts = [0, *sorted(draw(st.sets(st.integers(1, costs.atoms - 1)))), costs.atoms] if costs.atoms > 1 else [0, 1]
    needed = min(sum(costs.memory[graphlet] for graphlet in itertools.pairwise(cuts)), AMPLE / 2)
    return draw(st.sampled_from([0, max(needed - 1, 0), needed, needed, needed / 2, needed * 2, AMPLE]))


Tried = tuple[float, int, float]


def every_plan(costs: Costs, limit: float) -> list[Tried]:
    """CPU, cuts and memory of all plans within the limit, from the definition."""
    found = []
    for chosen in itertools.product([False, True], repeat=costs.atoms - 1):
        cuts = [0, *(place for place, cut in enumerate(chosen, 1) if cut), costs.atoms]
        graphlets = list(itertools.pairwise(cuts))
        for cached in itertools.product([True, False] if costs.walk is not None else [True], repeat=len(graphlets)):
            memory = sum(costs.memory[graphlet] for graphlet, keep in zip(graphlets, cached) if keep)
            if memory <= limit and memory < math.inf:
                cpu = sum((costs.cpu if keep else costs.walk)[graphlet] for graphlet, keep in zip(graphlets, cached))
                found.append((float(cpu), len(graphlets) - 1, float(memory)))
    return found


def key(plan: CutPlan) -> Tried:
    return plan.cpu, len(plan.cuts), plan.memory


def assert_sound(plan: CutPlan, costs: Costs, limit: float) -> None:
    """The plan is one, keeps the limit, and costs what it says."""
    assert list(plan.cuts) == sorted(set(plan.cuts))
    assert set(plan.cuts) <= set(range(1, costs.atoms))
    assert len(plan.cached) == len(plan.cuts) + 1
    assert plan.graphlets == tuple(itertools.pairwise([0, *plan.cuts, costs.atoms]))
    assert plan.memory <= limit
    kept = list(zip(plan.graphlets, plan.cached))
    assert plan.memory == sum(costs.memory[graphlet] for graphlet, cached in kept if cached)
    if costs.walk is not None or all(plan.cached):
        assert plan.cpu == sum((costs.cpu if cached else costs.walk)[graphlet] for graphlet, cached in kept)
    else:
        assert plan.cached == (False,)
        assert plan.cpu == math.inf


# Exhaustive search is right ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("walk", [False, True])
@CHECKED
@given(data=st.data())
def test_exhaustive_search_finds_the_least_cpu_then_the_fewest_cuts_then_the_least_memory(
    walk: bool, data: st.DataObject
) -> None:
    costs = data.draw(whole_number_costs(6, walk))
    limit = data.draw(limits(costs))
    plan = exhaustive(costs, limit)
    assert_sound(plan, costs, limit)
    plans = every_plan(costs, limit)
    if plans:
        assert key(plan) == min(plans)
    else:
        assert plan.cached == (False,)


@pytest.mark.parametrize(("walk", "plans"), [(False, 2**6), (True, 2 * 3**6)])
def test_exhaustive_search_looks_at_every_plan(walk: bool, plans: int) -> None:
    assert (
        exhaustive(random_costs(0, 7, walk), 10).considered == plans == len(every_plan(random_costs(0, 7, walk), 1e9))
    )


@pytest.mark.parametrize(("walk", "atoms"), [(False, 26), (True, 17)])
def test_exhaustive_search_refuses_what_it_cannot_finish(walk: bool, atoms: int) -> None:
    with pytest.raises(ValueError, match="too many to look at all"):
        exhaustive(random_costs(0, atoms, walk), 1000)


# Branch and bound is as good ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("walk", "atoms"), [(False, 12), (True, 8)])
@CHECKED
@given(data=st.data())
def test_branch_and_bound_is_optimal(walk: bool, atoms: int, data: st.DataObject) -> None:
    costs = data.draw(whole_number_costs(atoms, walk))
    limit = data.draw(limits(costs))
    plan = branch_and_bound(costs, limit)
    assert_sound(plan, costs, limit)
    assert plan.optimal
    assert key(plan) == key(exhaustive(costs, limit))


@pytest.mark.parametrize(("walk", "atoms"), [(False, 12), (True, 8)])
@CHECKED
@given(data=st.data())
def test_branch_and_bound_is_optimal_for_worst_case_costs(walk: bool, atoms: int, data: st.DataObject) -> None:
    costs = worst_case_costs(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=atoms)))
    costs = costs if walk else costs._replace(walk=None)
    limit = data.draw(limits(costs))
    plan = branch_and_bound(costs, limit)
    assert_sound(plan, costs, limit)
    assert plan.optimal
    assert plan.cpu == pytest.approx(exhaustive(costs, limit).cpu, rel=1e-10)


@pytest.mark.parametrize("share", [0.01, 0.05, 0.3])
@pytest.mark.parametrize(
    "costs",
    [random_costs(1, 12, walk=True), layered_costs(1, 12), worst_case_costs([2, 5, 3, 1, 4, 3, 6, 2, 3, 3, 1, 4])],
)
def test_branch_and_bound_is_optimal_on_twelve_atoms_that_may_be_walked(costs: Costs, share: float) -> None:
    limit = share * costs.memory[0, -1]
    assert branch_and_bound(costs, limit).cpu == pytest.approx(exhaustive(costs, limit).cpu, rel=1e-10)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("share", [0.05, 0.2, 0.6])
@pytest.mark.parametrize(
    "make", [random_costs, layered_costs, lambda seed, atoms: worst_case_costs([3 + seed] * atoms)]
)
def test_branch_and_bound_looks_at_a_fiftieth_at_most(make: Callable[..., Costs], share: float, seed: int) -> None:
    costs = make(seed, 20)._replace(walk=None)
    alone = sum(costs.memory[atom, atom + 1] for atom in range(20))
    limit = alone + share * (costs.memory[0, -1] - alone)
    plan = branch_and_bound(costs, limit)
    assert plan.optimal
    assert plan.considered * 50 <= 2**19
    assert plan == branch_and_bound(costs, limit)


def test_branch_and_bound_is_optimal_on_twenty_atoms() -> None:
    costs = random_costs(5, 20)
    limit = 1.5 * sum(costs.memory[atom, atom + 1] for atom in range(20))
    best = exhaustive(costs, limit)
    assert best.considered == 2**19
    assert key(branch_and_bound(costs, limit)) == key(best)


@pytest.mark.parametrize("walk", [False, True])
@pytest.mark.parametrize("limit", [MEBIBYTE, 64 * MEBIBYTE, 1024 * MEBIBYTE])
@pytest.mark.parametrize("make", [lambda: layered_costs(2, 200), lambda: worst_case_costs([1, 4, 3, 2, 5, 2] * 50)])
def test_branch_and_bound_ends_with_hundreds_of_atoms(make: Callable[[], Costs], limit: int, walk: bool) -> None:
    costs = make()
    costs = costs if walk else costs._replace(walk=None)
    plan = branch_and_bound(costs, limit)
    assert_sound(plan, costs, limit)
    assert plan.optimal
    assert plan.considered <= bounding.BUDGET
    assert plan.cpu <= greedy(costs, limit).cpu < math.inf


@CHECKED
@given(data=st.data())
def test_out_of_budget_the_plan_fits_but_is_not_called_optimal(data: st.DataObject) -> None:
    costs = data.draw(whole_number_costs(8, walk=True))
    limit = data.draw(limits(costs))
    plan = branch_and_bound(costs, limit, budget=0)
    assert_sound(plan, costs, limit)
    assert not plan.optimal
    assert plan.cpu >= branch_and_bound(costs, limit).cpu


@pytest.mark.parametrize("seed", range(4))
def test_out_of_budget_the_plan_is_nearly_as_good(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    costs = random_costs(seed, 80)
    limit = 2 * sum(costs.memory[atom, atom + 1] for atom in range(80))
    best = branch_and_bound(costs, limit)
    monkeypatch.setattr(bounding, "WIDTH", 16)
    plan = branch_and_bound(costs, limit, budget=best.considered - 1)
    assert_sound(plan, costs, limit)
    assert best.optimal
    assert not plan.optimal
    assert best.cpu <= plan.cpu <= 1.05 * best.cpu


def test_ties_are_kept_apart_from_the_noise_of_doubles() -> None:
    """Equal graphlets of convex memory just fit: the bound on levels is met exactly, but for rounding."""
    atoms, graphlets = 100, 15
    length = np.maximum(np.arange(atoms + 1) - np.arange(atoms)[:, None], 0)
    costs = costs_of(2.0**length, np.full((atoms, atoms + 1), 1000.0))
    limit = 5 * 2**6 + 10 * 2**7  # 5 graphlets of 6 atoms, 10 of 7
    assert key(branch_and_bound(costs, limit)) == (1000.0 * graphlets, graphlets - 1, limit)
    assert len(branch_and_bound(costs, limit - 1).cached) == graphlets + 1


def test_no_level_is_skipped_because_its_bound_was_rounded_up() -> None:
    for graphlets, atoms in itertools.combinations_with_replacement(range(1, 60), 2):
        length, longer = divmod(atoms, graphlets)
        limit = longer * 1.5 ** (length + 1) + (graphlets - longer) * 1.5**length
        memory = 1.5 ** np.maximum(np.arange(atoms + 1) - np.arange(atoms)[:, None], 0)
        assert lowest_level(memory, limit) <= graphlets


@pytest.mark.parametrize("walk", [False, True])
@CHECKED
@given(data=st.data())
def test_no_feasible_level_is_skipped(walk: bool, data: st.DataObject) -> None:
    costs = data.draw(whole_number_costs(6, walk))
    limit = data.draw(limits(costs))
    plans = every_plan(costs, limit)
    memory = np.where(np.tri(costs.atoms, costs.atoms + 1, 0, dtype=bool), np.inf, 0.0 if walk else costs.memory)
    if plans:
        assert lowest_level(memory, limit) <= 1 + min(cuts for _, cuts, _ in plans)


# Greedy ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("walk", [False, True])
@CHECKED
@given(data=st.data())
def test_greedy_fits_and_is_never_better_than_the_best(walk: bool, data: st.DataObject) -> None:
    costs = data.draw(whole_number_costs(8, walk))
    limit = data.draw(limits(costs))
    plan = greedy(costs, limit)
    assert_sound(plan, costs, limit)
    assert not plan.optimal
    assert plan.cpu >= branch_and_bound(costs, limit).cpu


@CHECKED
@given(data=st.data())
def test_greedy_finds_a_plan_where_there_is_one(data: st.DataObject) -> None:
    costs = random_costs(data.draw(st.integers(0, 10**6)), data.draw(st.integers(1, 12)))
    alone = sum(costs.memory[atom, atom + 1] for atom in range(costs.atoms))
    assert all(greedy(costs, alone).cached)


def test_greedy_cuts_where_that_saves_cpu_though_memory_is_ample() -> None:
    plan = greedy(costs_of(np.ones((3, 4)), [[0, 5, 9, 30], [0, 0, 9, 9], [0, 0, 0, 5]]), AMPLE)
    assert (plan.graphlets, plan.cpu) == (((0, 1), (1, 3)), 14.0)


@pytest.mark.parametrize("limit", [1000, MEBIBYTE, 1024 * MEBIBYTE])
def test_greedy_is_good_for_worst_case_costs(limit: int) -> None:
    costs = worst_case_costs(np.random.default_rng(4).integers(1, 6, 60))
    assert greedy(costs, limit).cpu <= 1.01 * branch_and_bound(costs, limit).cpu


# All of them, at the extremes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", OPTIMIZERS)
@pytest.mark.parametrize("sizes", [[5], [3] * 8, [1, 9, 2, 4, 4, 1, 7]])
def test_with_ample_memory_h_cet_is_t_cet_and_with_none_it_is_m_cet(sizes: list[int], method: str) -> None:
    costs = worst_case_costs(sizes)
    for limit in (costs.memory[0, -1], 2 * costs.memory[0, -1], AMPLE):
        plan = OPTIMIZERS[method](costs, limit)
        assert (algorithm_of(plan.cached), plan.cuts, plan.cached) == ("t-cet", (), (True,))
        assert plan.cpu == costs.cpu[0, -1]
    plan = OPTIMIZERS[method](costs, 0)
    assert (algorithm_of(plan.cached), plan.cuts, plan.cached, plan.memory) == ("m-cet", (), (False,), 0)
    assert plan.cpu == costs.walk[0, -1]


@pytest.mark.parametrize("method", OPTIMIZERS)
def test_without_costs_of_walking_nothing_is_cached_only_where_nothing_fits(method: str) -> None:
    costs = worst_case_costs([3] * 6)._replace(walk=None)
    plan = OPTIMIZERS[method](costs, 6 * 12 - 1)
    assert (algorithm_of(plan.cached), plan.cuts, plan.cached, plan.memory, plan.cpu) == (
        "m-cet",
        (),
        (False,),
        0,
        math.inf,
    )
    plan = OPTIMIZERS[method](costs, 6 * 12)
    assert (algorithm_of(plan.cached), plan.cuts, plan.memory) == ("h-cet", (1, 2, 3, 4, 5), 72)
    assert all(plan.cached)


@pytest.mark.parametrize("method", OPTIMIZERS)
def test_what_cannot_be_counted_is_not_cached_even_without_a_limit(method: str) -> None:
    memory, walk = [[0, math.inf, math.inf], [0, 0, 8]], [[0, 7, 14], [0, 0, 7]]
    plan = OPTIMIZERS[method](costs_of(memory, np.ones((2, 3)), walk), AMPLE)
    assert (plan.cuts, plan.cached, plan.memory, plan.cpu) == ((1,), (False, True), 8, 8.0)
    assert OPTIMIZERS[method](costs_of([[0, math.inf]], [[0, 1]]), AMPLE).cached == (False,)


@pytest.mark.parametrize("limit", [0, 1000, 64 * MEBIBYTE, AMPLE])
@pytest.mark.parametrize("method", ["branch-and-bound", "greedy"])
def test_counts_beyond_the_range_of_doubles(method: str, limit: float) -> None:
    costs = worst_case_costs([100] * 50)
    assert math.isinf(costs.cpu[0, -1])
    assert math.isinf(costs.memory[0, -1])
    plan = OPTIMIZERS[method](costs, limit)
    assert plan.memory <= limit
    assert plan.cpu == math.inf


@pytest.mark.parametrize("method", OPTIMIZERS)
@pytest.mark.parametrize("exponent", [-900, -60, 500])
def test_only_proportions_of_cpu_matter(method: str, exponent: int) -> None:
    costs = worst_case_costs([3, 1, 4, 2, 6, 5, 3, 5])
    scaled = costs_of(costs.memory, np.ldexp(costs.cpu, exponent), np.ldexp(costs.walk, exponent))
    for limit in (0, 500, 5000, 10**9):
        plan, expected = OPTIMIZERS[method](scaled, limit), OPTIMIZERS[method](costs, limit)
        assert (plan.graphlets, plan.cached) == (expected.graphlets, expected.cached)


def test_two_walks_side_by_side_are_one() -> None:
    """Even where their sum is not exact in doubles."""
    visits = np.concatenate([[0.0], np.cumsum(1.1 ** np.arange(40) * 1e15)])
    costs = costs_of(np.full((40, 41), 100.0), np.full((40, 41), 1e30), visits - visits[:-1, None])
    assert branch_and_bound(costs, 1000).graphlets == ((0, 40),)


# The model of the worst case ---------------------------------------------------------------------------------------


def test_worst_case_costs_are_those_of_groups_of_three() -> None:
    """Every path of the graph is counted: atoms are groups of 3 vertices, each followed by all of the next group."""
    atoms = 4
    costs = worst_case_costs([3] * atoms, ref_bytes=5)

    def paths(length: int) -> int:
        return sum(1 for _ in itertools.product(range(3), repeat=length))

    complete = paths(atoms) * atoms
    for start, stop in itertools.combinations(range(atoms + 1), 2):
        refs = paths(stop - start) * (stop - start)
        last = complete if stop == atoms else 0
        walk = sum(paths(length) for length in range(start + 1, stop + 1))
        assert costs.memory[start, stop] == 5 * refs
        assert costs.walk[start, stop] == walk + last
        if (start, stop) == (0, atoms):
            assert costs.cpu[start, stop] == complete
        else:
            assert costs.cpu[start, stop] == refs + paths(stop) + last


@CHECKED
@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=10))
def test_worst_case_memory_never_falls_when_graphlets_are_merged(sizes: list[int]) -> None:
    memory = worst_case_costs(sizes).memory
    for start, cut, stop in itertools.combinations(range(len(sizes) + 1), 3):
        assert memory[start, stop] >= memory[start, cut] + memory[cut, stop]


# What a plan amounts to --------------------------------------------------------------------------------------------


def test_a_plan_names_the_algorithm_that_it_amounts_to() -> None:
    assert algorithm_of([True]) == "t-cet"
    assert algorithm_of([False]) == algorithm_of([False, False]) == "m-cet"
    assert algorithm_of([True, True]) == algorithm_of([True, False]) == "h-cet"


# The published optimizers -------------------------------------------------------------------------------------------


def is_nearly_balanced(sizes: list[int], cuts: tuple[int, ...]) -> bool:
    """Definition 8, read aloud."""
    bounds = [0, *cuts, len(sizes)]
    share = math.ceil(sum(sizes) / (len(bounds) - 1))
    for number, (start, stop) in enumerate(itertools.pairwise(bounds)):
        inside = sum(sizes[start:stop])
        if inside <= share:
            continue
        if number > 0 and inside >= share + sizes[start]:
            return False
        if number < len(bounds) - 2 and inside >= share + sizes[stop - 1]:
            return False
    return True


SIZES = st.lists(st.integers(1, 7), min_size=1, max_size=9)


@CHECKED
@given(sizes=SIZES, data=st.data())
def test_nearly_balanced_plans_are_those_of_the_definition(sizes: list[int], data: st.DataObject) -> None:
    level = data.draw(st.integers(1, len(sizes)))
    every = itertools.combinations(range(1, len(sizes)), level - 1)
    found = list(nearly_balanced(np.array(sizes), level))
    assert found == [cuts for cuts in every if is_nearly_balanced(sizes, cuts)]
    assert len(balanced_cuts(np.array(sizes), level)) == level - 1


def published_search(costs: Costs, sizes: list[int], limit: float) -> list[Tried]:
    """The plans that Algorithm 2 may give, found without its pruning: the best nearly balanced ones of any level."""
    return [
        (steps, cuts, memory)
        for steps, cuts, memory in every_plan(costs, limit)
        for chosen in itertools.combinations(range(1, len(sizes)), int(cuts))
        if is_nearly_balanced(sizes, chosen)
        and memory == sum(costs.memory[graphlet] for graphlet in itertools.pairwise([0, *chosen, len(sizes)]))
    ]


@CHECKED
@given(sizes=SIZES, data=st.data())
def test_published_branch_and_bound_finds_the_best_nearly_balanced_plan(sizes: list[int], data: st.DataObject) -> None:
    """CPU rises from parents to children in the published model, so that pruning loses nothing."""
    costs = worst_case_costs(sizes)._replace(walk=None)
    limit = data.draw(limits(costs))
    plan = published_branch_and_bound(costs, np.array(sizes), limit)
    assert_sound(plan, costs, limit)
    balanced = published_search(costs, sizes, limit)
    if all(plan.cached):
        assert plan.cpu >= exhaustive(costs, limit).cpu
        if balanced:
            assert is_nearly_balanced(sizes, plan.cuts)
    else:
        assert not balanced


@CHECKED
@given(sizes=SIZES, data=st.data())
def test_published_greedy_takes_the_first_level_that_fits(sizes: list[int], data: st.DataObject) -> None:
    costs = worst_case_costs(sizes)._replace(walk=None)
    limit = data.draw(limits(costs))
    plan = published_greedy(costs, np.array(sizes), limit)
    assert_sound(plan, costs, limit)
    fitting = [
        cuts
        for cuts in (balanced_cuts(np.array(sizes), level) for level in range(1, len(sizes) + 1))
        if sum(costs.memory[graphlet] for graphlet in itertools.pairwise([0, *cuts, len(sizes)])) <= limit
    ]
    assert (plan.cuts if all(plan.cached) else None) == (fitting[0] if fitting else None)


def test_published_searches_on_the_example_of_the_paper() -> None:
    """Two atoms of 2 vertices, then one of 3: with room for two graphlets, branch and bound weighs both, greedy one."""
    costs, sizes = worst_case_costs([2, 2, 3])._replace(walk=None), np.array([2, 2, 3])
    both = [costs.memory[0, 1] + costs.memory[1, 3], costs.memory[0, 2] + costs.memory[2, 3]]
    plan = published_branch_and_bound(costs, sizes, max(both))
    assert (plan.cuts, plan.considered) == ((2,), 2)
    assert (published_greedy(costs, sizes, max(both)).cuts, published_greedy(costs, sizes, max(both)).considered) == (
        (2,),
        1,
    )
    assert published_greedy(costs, sizes, costs.memory[0, 3]).cuts == ()


def test_the_published_branch_and_bound_gives_up_after_so_many_plans() -> None:
    costs, sizes = worst_case_costs([3] * 24)._replace(walk=None), np.array([3] * 24)
    limit = 1.2 * sum(costs.memory[atom, atom + 1] for atom in range(24))
    plan = published_branch_and_bound(costs, sizes, limit, most=100)
    assert plan.considered <= 101
    assert all(plan.cached)
    assert plan.memory <= limit
