"""What is known of trends without listing them, against lists made from the definition."""

from __future__ import annotations

import itertools
import time as clock
from typing import Any, NamedTuple

import numpy as np
import pytest

from cetdsl.errors import CountOverflow
from cetdsl.ir.machine import Comparison, Edge, Machine
from cetdsl.kernels.graph import samples
from cetdsl.kernels.graph.attribute_graph import AttributeGraph
from cetdsl.kernels.graph.build import GraphBuilder
from cetdsl.kernels.graph.counts import count_trends, scaled_counts
from cetdsl.kernels.graph.edges import list_edges
from cetdsl.kernels.graph.k_best import KBest, k_best_paths
from cetdsl.kernels.graph.reduction import reduce_edges
from cetdsl.kernels.graph.samples import Samples, sample_paths
from cetdsl.kernels.graph.windows import windows_of
from cetdsl.kernels.numbers.scaled import Scaled, from_scaled, log2_of
from cetdsl.kernels.vocabulary import Block, Events, Graph, Ints

READINGS = ("all", "ends", "maximal")
COMPARE = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}

Trend = tuple[tuple[int, int], ...]


def one_state(*comparisons: Comparison) -> Machine:
    return Machine((0,), ((0, ()),), ((0, ()),), (Edge(0, 0, comparisons),))


CHAINS = one_state(Comparison("=", 0, 1))
RISING = one_state(Comparison(">", 0, 0))
ANY = one_state()
#: SEQ(A, B+) and machines of several states, of which some lie beside each other and some are tested pair by pair.
KLEENE = Machine((0, 1), ((0, ()),), ((1, ()),), (Edge(0, 1), Edge(1, 1, (Comparison("<", 0, 0),))))
NESTED = Machine(
    (0, 1),
    ((0, ()),),
    ((1, ()),),
    (
        Edge(0, 1, (Comparison("=", 0, 1),)),
        Edge(1, 1, (Comparison("<", 0, 0), Comparison(">=", 1, 1))),
        Edge(1, 0),
    ),
)
BRANCHING = Machine(
    (0, 1, 2),
    ((0, ()), (1, ())),
    ((2, ()), (0, ())),
    (
        Edge(0, 1, (Comparison("!=", 0, 1),)),
        Edge(0, 2, (Comparison("=", 0, 1),)),
        Edge(1, 1),
        Edge(1, 2, (Comparison(">", 1, 0), Comparison("=", 2, 2))),
        Edge(2, 0, (Comparison("=", 0, 0),)),
    ),
)
MACHINES = {
    "chains": CHAINS,
    "rising": RISING,
    "any": ANY,
    "compared with another column": one_state(Comparison(">=", 0, 1)),
    "rising by key": one_state(Comparison("<=", 0, 0), Comparison("=", 1, 1)),
    "kleene": KLEENE,
    "nested": NESTED,
    "branching": BRANCHING,
}


class Case(NamedTuple):
    """Events, the slices of them that are asked for, and the graph of their trends."""

    machine: Machine
    events: Events
    low: Ints
    high: Ints
    builder: GraphBuilder
    built: AttributeGraph

    def graph(self, reading: str) -> Graph:
        graph = reduce_edges(self.built, self.machine) if reading == "maximal" else list_edges(self.built)
        assert graph is not None
        return graph


def make_case(
    machine: Machine,
    codes: Any,
    time: Any = None,
    mask: Any = None,
    valid: Any = None,
    segment_start: Any = None,
    slices: list[tuple[int, int]] | None = None,
    length: int = 0,
) -> Case:
    codes = np.array(codes, dtype=np.int64)
    count = codes.shape[1]
    time = np.arange(count) if time is None else np.array(time)
    segment_start = np.array([0, count] if segment_start is None else segment_start)
    breaks = np.diff(time) != 0
    breaks[[place - 1 for place in segment_start[1:-1]]] = True
    no_lists = np.zeros((0, count + 1), dtype=np.int64)
    events = Events(
        segment_start,
        time,
        np.concatenate([[0], np.cumsum(breaks)]),
        np.full(count, (1 << len(machine.variables)) - 1) if mask is None else np.array(mask),
        codes,
        np.ones(codes.shape, dtype=np.bool_) if valid is None else valid,
        no_lists,
        np.zeros(0, dtype=np.int64),
    )
    if slices is None:
        slices = list(zip(segment_start[:-1].tolist(), segment_start[1:].tolist(), strict=True))
    low, high = np.array(slices, dtype=np.int64).reshape(-1, 2).T.copy()
    builder = GraphBuilder(machine, length)
    return Case(machine, events, low, high, builder, builder.build(events))


def random_case(machine: Machine, seed: int, most: int = 10) -> Case:
    """A few events with ties, NULLs, several keys, and (every other time) overlapping windows."""
    random = np.random.default_rng(seed)
    count = int(random.integers(1, most + 1))
    codes = random.integers(0, 4, size=(3, count))
    cuts = [0, count] if count < 4 or seed % 3 else [0, int(random.integers(1, count)), count]
    time = np.concatenate([np.sort(random.integers(0, count + 1, size=b - a)) for a, b in itertools.pairwise(cuts)])
    mask = random.integers(0, 1 << len(machine.variables), size=count) | random.integers(0, 2, size=count)
    valid = random.random(codes.shape) < 0.9
    if seed % 2:
        return make_case(machine, codes, time, mask, valid, cuts)
    length = int(random.integers(1, count + 3))
    slices = []
    for low, high in itertools.pairwise(cuts):
        for start in range(-length, count + 2):
            first, last = np.searchsorted(time[low:high], [start, start + length]) + low
            if first < last:
                slices.append((int(first), int(last)))
    return make_case(machine, codes, time, mask, valid, cuts, slices, length)


def follows(case: Case, earlier: int, later: int, edge: Edge) -> bool:
    events = case.events
    return events.instant[earlier] < events.instant[later] and all(
        events.valid[c.later, later]
        and events.valid[c.earlier, earlier]
        and COMPARE[c.op](events.codes[c.later, later], events.codes[c.earlier, earlier])
        for c in edge.comparisons
    )


def trends_of(case: Case, low: int, high: int) -> list[Trend]:
    """All trends of a window, from the definition."""
    machine, mask = case.machine, case.events.mask
    initial, final = {q for q, _ in machine.initial}, {q for q, _ in machine.final}
    found: list[Trend] = []

    def extend(trend: Trend) -> None:
        event, state = trend[-1]
        if state in final:
            found.append(trend)
        for edge in machine.edges:
            for later in range(event + 1, high):
                bound = edge.source == state and mask[later] >> machine.variables[edge.target] & 1
                if bound and follows(case, event, later, edge):
                    extend((*trend, (later, edge.target)))

    for event in range(low, high):
        for state in initial:
            if mask[event] >> machine.variables[state] & 1:
                extend(((event, state),))
    return found


def is_part(part: Trend, whole: Trend) -> bool:
    remaining = iter(whole)
    return len(part) < len(whole) and all(binding in remaining for binding in part)


def is_run(part: Trend, whole: Trend) -> bool:
    places = range(len(whole) - len(part) + 1)
    return len(part) < len(whole) and any(whole[k : k + len(part)] == part for k in places)


def expected(case: Case, low: int, high: int, reading: str) -> list[Trend]:
    """The trends of a window in canonical order."""
    trends = sorted(trends_of(case, low, high))
    if reading == "all":
        return trends
    contains = is_part if reading == "maximal" else is_run
    return [trend for trend in trends if not any(contains(trend, other) for other in trends)]


# ---------------------------------------------------------------------------------------------------- counts


def summed_lengths(graph: Graph, low: Ints, high: Ints, complete: bool) -> Scaled:
    """The sum of the lengths of each slice's trends."""
    return scaled_counts(graph, windows_of(graph, low, high), complete, lengths=True)[:, 1]


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("reading", READINGS)
def test_counts_are_those_of_the_definition(name: str, reading: str) -> None:
    for seed in range(24):
        case = random_case(MACHINES[name], seed)
        lists = [expected(case, low, high, reading) for low, high in zip(case.low, case.high)]
        complete = reading != "all"
        counts = [count_trends(case.graph(reading), case.low, case.high, complete)]
        if reading != "maximal":
            counts.append(count_trends(case.built, case.low, case.high, complete))
        for found in counts:
            assert found.exact.tolist() == [len(trends) for trends in lists], seed
            assert all(type(count) is int for count in found.exact)
            np.testing.assert_array_equal(found.scaled.real * 2.0**found.scaled.imag, found.exact.astype(float))
        lengths = summed_lengths(case.graph(reading), case.low, case.high, complete)
        assert from_scaled(lengths).tolist() == [sum(map(len, trends)) for trends in lists], seed


def python_counts(graph: Graph, low: int, high: int, complete: bool) -> tuple[int, int]:
    """Trends of a window and their lengths, in whole numbers of any size."""
    begin, end = np.searchsorted(graph.event, [low, high])
    count, refs = dict.fromkeys(range(begin, end), 0), dict.fromkeys(range(begin, end), 0)
    total = [0, 0]
    for v in range(end - 1, begin - 1, -1):
        following = [t for t in graph.target[graph.start[v] : graph.stop[v]].tolist() if t < end]
        last = graph.ends[v] and not (complete and any(count[t] for t in following))
        count[v] = sum(count[t] for t in following) + int(last)
        refs[v] = sum(refs[t] for t in following) + count[v]
        if graph.begins[v] and not (complete and graph.origin_before[v] >= low):
            total = [total[0] + count[v], total[1] + refs[v]]
    return total[0], total[1]


@pytest.mark.parametrize("name", ["any", "chains", "rising", "kleene", "nested"])
@pytest.mark.parametrize("complete", [False, True])
def test_counts_beyond_any_machine_number(name: str, complete: bool) -> None:
    """Windows of all sizes, so that doubles, one prime, and many primes have their turn."""
    random = np.random.default_rng(7)
    count, machine = 1500, MACHINES[name]
    codes = random.integers(0, 4, size=(3, count))
    if name in ("rising", "kleene"):
        drift = np.arange(count) // (2 if name == "rising" else -2)
        codes = drift + random.integers(0, 40, size=(3, count))
    mask = random.integers(1, 1 << len(machine.variables), size=count)
    slices = [(0, count), (3, count - 1), (0, 40), (10, 68), (20, 90), (0, 200), (900, 1400), (5, 5)]
    case = make_case(machine, codes, np.sort(random.integers(0, count, size=count)), mask, slices=slices)
    graph = case.graph("ends")
    wanted = [python_counts(graph, low, high, complete) for low, high in slices]
    assert max(wanted)[0].bit_length() > 2 * 61
    numbers, lengths = ([pair[k] for pair in wanted] for k in (0, 1))
    rounded = [(summed_lengths(graph, case.low, case.high, complete), lengths)]
    for counted in (graph, case.built):
        found = count_trends(counted, case.low, case.high, complete)
        assert found.exact.tolist() == numbers
        rounded.append((found.scaled, numbers))
    for scaled, exact in rounded:
        sizes = [number.bit_length() for number in exact]
        logarithms = [
            np.log2(float(number >> max(bits - 60, 0))) + max(bits - 60, 0)
            for number, bits in zip(exact, sizes)
            if number
        ]
        np.testing.assert_allclose(log2_of(scaled)[np.array(exact) > 0], logarithms, rtol=0, atol=1e-9)
        assert (scaled.real[np.array(exact) == 0] == 0).all()


def test_a_count_too_large_to_be_wanted_is_rounded() -> None:
    case = make_case(ANY, np.zeros((1, 300)), slices=[(0, 300), (0, 100), (0, 5)])
    found = count_trends(case.built, case.low, case.high, False, most_bits=128)
    assert found.exact[1:].tolist() == [2**100 - 1, 31]
    assert abs(found.exact[0] - 2**300) < 2**260


def test_maximal_trends_of_layers_are_three_to_the_layers() -> None:
    """Twelve events, three at a time: 3**4 maximal trends; a simultaneous group shares its list."""
    time = np.repeat(np.arange(400), 3)
    case = make_case(ANY, np.zeros((1, len(time))), time, slices=[(0, 12), (0, 1200)])
    found = count_trends(case.graph("maximal"), case.low, case.high, True)
    assert found.exact.tolist() == [3**4, 3**400]


def test_shared_lists_cost_as_much_as_they_are_long() -> None:
    """A hub: 40,000 events that all follow each other stand for 8e8 edges, and as many within one instant each."""
    count = 40_000
    for time, trends in ((np.arange(count), 1), (np.repeat([0, 1], count // 2), (count // 2) ** 2)):
        case = make_case(one_state(Comparison("=", 0, 0)), np.zeros((1, count)), time)
        graph = case.graph("maximal")
        assert count_trends(graph, case.low, case.high, True).exact.tolist() == [trends]
        begun = clock.perf_counter()
        count_trends(graph, case.low, case.high, True)
        assert clock.perf_counter() - begun < 2.0


def test_no_events_and_no_slices() -> None:
    case = make_case(CHAINS, np.zeros((2, 3)), mask=[0, 0, 0], slices=[(0, 3), (1, 1)])
    assert len(case.built.nodes.event) == 0
    for found in (
        count_trends(case.graph("ends"), case.low, case.high, True),
        count_trends(case.built, case.low, case.high, True),
    ):
        assert found.exact.tolist() == [0, 0]
        assert (found.scaled == 0).all()
    nothing = np.zeros(0, dtype=np.int64)
    assert len(count_trends(case.graph("ends"), nothing, nothing, True).exact) == 0


# --------------------------------------------------------------------------------------------------- samples


def listed(block: Block) -> list[tuple[int, ...]]:
    return [tuple(part.tolist()) for part in np.split(block.event, block.start[1:-1])] if len(block.slice) else []


def draw(case: Case, reading: str, n: int, seed: int, rows: list[int] | None = None) -> Samples:
    """A sample; the salts of the slices are their numbers, also if only some are asked."""
    rows = list(range(len(case.low))) if rows is None else rows
    variable = np.array(case.machine.variables)
    salt = np.array(rows, dtype=np.int64)
    drawn = sample_paths(
        case.graph(reading), variable, case.low[rows], case.high[rows], reading != "all", n, seed, salt
    )
    return drawn._replace(block=drawn.block._replace(slice=salt[drawn.block.slice]))


def assert_uniform(counts: Ints, total: int) -> None:
    """Pearson's chi-squared test at a level of 1e-4 (the quantile after Wilson and Hilferty)."""
    freedom, mean = total - 1, counts.sum() / total
    statistic = ((counts - mean) ** 2).sum() / mean + mean * (total - len(counts))
    assert mean >= 5
    assert statistic < freedom * (1 - 2 / (9 * freedom) + 3.72 * np.sqrt(2 / (9 * freedom))) ** 3


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("most_ranks", [2.0**61, 0.0], ids=["ranks", "walks"])
def test_a_sample_of_all_trends_is_all_trends(
    name: str, reading: str, most_ranks: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "_MOST_RANKS", most_ranks)
    for seed in range(8):
        case = random_case(MACHINES[name], seed)
        wanted = []
        for number, (low, high) in enumerate(zip(case.low, case.high)):
            for trend in expected(case, low, high, reading):
                variables = tuple(case.machine.variables[state] for _, state in trend)
                wanted.append((number, tuple(event for event, _ in trend), variables))
        drawn = draw(case, reading, len(wanted) + 3, seed)
        variables = [tuple(part.tolist()) for part in np.split(drawn.block.variable, drawn.block.start[1:-1])]
        found = list(zip(drawn.block.slice.tolist(), listed(drawn.block), variables))
        assert sorted(found) == sorted(wanted)
        assert len(drawn.key) == len(wanted)


SIZES = [(0, 3), (1, 2), (2, 6), (4, 4), (3, 5)]


@pytest.mark.parametrize("most_ranks", [2.0**61, 0.0], ids=["ranks", "walks"])
def test_samples_are_uniform(most_ranks: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a slice, over slices of 1, 3, 7 and 15 trends, and as sets of three."""
    monkeypatch.setattr(samples, "_MOST_RANKS", most_ranks)
    case = make_case(ANY, np.zeros((1, 6)), slices=SIZES)
    single, pairs, sets = {}, {}, {}
    for seed in range(4500):
        drawn = draw(case, "all", 2, seed)
        found = list(zip(drawn.block.slice.tolist(), listed(drawn.block)))
        order = np.argsort(drawn.key)
        first, second = found[order[0]], found[order[1]]
        single[first] = single.get(first, 0) + 1
        pairs[first, second] = pairs.get((first, second), 0) + 1
        drawn = draw(case, "all", 3, seed, rows=[0])
        assert len(set(listed(drawn.block))) == 3
        sets[frozenset(listed(drawn.block))] = sets.get(frozenset(listed(drawn.block)), 0) + 1
    trends = 7 + 1 + 15 + 3
    assert_uniform(np.array(list(single.values())), trends)
    # Pairs are too many for the test; where both are of the largest slice, they are 15 * 14.
    inside = np.array([count for pair, count in pairs.items() if pair[0][0] == pair[1][0] == 2])
    assert_uniform(inside, 15 * 14)
    assert_uniform(np.array(list(sets.values())), 35)


def test_parts_make_the_sample_of_the_whole() -> None:
    """Wherever and with whatever else a window is computed, its trends have the same keys."""
    case = make_case(ANY, np.zeros((1, 6)), slices=SIZES)
    for n in (1, 4, 11, 100):
        whole = draw(case, "all", n, 5)
        parts = [draw(case, "all", n, 5, rows) for rows in ([0], [2, 1], [4, 3])]
        found = [
            item for part in parts for item in zip(part.key.tolist(), part.block.slice.tolist(), listed(part.block))
        ]
        together = sorted(zip(whole.key.tolist(), whole.block.slice.tolist(), listed(whole.block)))
        assert sorted(found)[:n] == together
        assert len(together) == min(n, 26)


def test_seeds_and_salts_make_other_samples() -> None:
    case = make_case(ANY, np.zeros((1, 60)), slices=[(0, 60)] * 50)
    first, again, other = draw(case, "all", 200, 1), draw(case, "all", 200, 1), draw(case, "all", 200, -1)
    assert listed(first.block) == listed(again.block)
    assert not set(listed(first.block)) & set(listed(other.block))
    assert len(set(listed(first.block))) == 200


def test_keys_are_order_statistics_of_exponentials() -> None:
    """The smallest of N is exponential of mean 1 / N, all N together make a sum of mean N."""
    case = make_case(ANY, np.zeros((1, 4)))
    keys = np.array([np.sort(np.exp(draw(case, "all", 15, seed).key)) for seed in range(2000)])
    assert abs(15 * keys[:, 0].mean() - 1) < 5 / np.sqrt(2000)
    assert abs(np.median(15 * keys[:, 0]) - np.log(2)) < 5 / np.sqrt(2000)
    assert abs(keys.sum(axis=1).mean() - 15) < 5 * np.sqrt(15 / 2000)
    # The largest of 15 has the mean 1 + 1/2 + ... + 1/15.
    assert abs(keys[:, -1].mean() - (1 / np.arange(1, 16)).sum()) < 5 * np.sqrt(1.6 / 2000)


def test_samples_of_astronomically_many_trends() -> None:
    """2**3000 - 1 trends: any subset of the events, so each event is in half of them."""
    case = make_case(ANY, np.zeros((1, 3000)), slices=[(0, 3000), (0, 2990), (0, 50)])
    drawn = draw(case, "all", 400, 3)
    assert len(set(listed(drawn.block))) == 400
    assert set(drawn.block.slice.tolist()) == {0}  # the others have one in a thousand, and next to none
    times = np.bincount(drawn.block.event, minlength=3000)
    assert ((times - 200) ** 2 / 100).sum() < 3000 + 5 * np.sqrt(6000)
    keys = np.exp(drawn.key + 3000 * np.log(2))
    assert abs(keys.max() / 400 - 1) < 5 / np.sqrt(400)
    assert (np.diff(drawn.key) > 0).all()


def test_no_trends_no_samples() -> None:
    case = make_case(CHAINS, np.zeros((2, 3)), mask=[0, 0, 0], slices=[(0, 3), (1, 1)])
    for n in (0, 5):
        drawn = draw(case, "ends", n, 1)
        assert len(drawn.key) == len(drawn.block.slice) == 0
        assert drawn.block.start.tolist() == [0]
    case = make_case(ANY, np.zeros((1, 3)))
    assert len(draw(case, "all", 0, 1).key) == 0


# -------------------------------------------------------------------------------------------------- the heaviest


def weight_of(values: list[float], present: list[bool]) -> tuple[int, float]:
    """Where the sum of the present values stands in Spark's order, and the sum of the finite ones, from the end on."""
    there = [value for value, given in zip(values, present) if given]
    plus, minus = np.inf in there, -np.inf in there
    total = 0.0 if isinstance(values[0], float) else 0
    for value in reversed(there):
        total = value + total if np.isfinite(value) else total
    if any(np.isnan(value) for value in there) or (plus and minus):
        return 4, total
    return 3 if plus else 1 if minus else 2 if there else 0, total


def ranked(case: Case, reading: str, weight: Any, present: Any) -> list[tuple[int, float, int, Trend]]:
    """All trends, the heaviest first."""
    number = {node: v for v, node in enumerate(zip(case.built.nodes.event.tolist(), case.built.nodes.state.tolist()))}
    found = []
    for place, (low, high) in enumerate(zip(case.low, case.high)):
        for trend in expected(case, low, high, reading):
            nodes = [number[binding] for binding in trend]
            rank, total = weight_of([weight[v].item() for v in nodes], [bool(present[v]) for v in nodes])
            found.append((rank, total, place, trend))
    return sorted(found, key=lambda item: (-item[0], -item[1], item[2], item[3]))


def heaviest(case: Case, reading: str, k: int, weight: Any, present: Any = None) -> KBest:
    variable = np.array(case.machine.variables)
    return k_best_paths(case.graph(reading), variable, case.low, case.high, reading != "all", k, weight, present)


def bindings(case: Case, block: Block) -> list[tuple[tuple[int, int], ...]]:
    events, variables = np.split(block.event, block.start[1:-1]), np.split(block.variable, block.start[1:-1])
    return [tuple(zip(e.tolist(), v.tolist())) for e, v in zip(events, variables)] if len(block.slice) else []


def as_bindings(case: Case, trend: Trend) -> tuple[tuple[int, int], ...]:
    return tuple((event, case.machine.variables[state]) for event, state in trend)


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("reading", READINGS)
def test_the_heaviest_trends_are_those_of_the_sorted_list(name: str, reading: str) -> None:
    """Many ties; they come in the order of slices, and of the canonical ranks."""
    for seed in range(16):
        case = random_case(MACHINES[name], seed)
        random = np.random.default_rng(seed)
        weight = random.integers(-2, 3, size=len(case.built.nodes.event))
        if seed % 4 == 0:
            weight = np.ones(len(case.built.nodes.event), dtype=np.int64)
        wanted = ranked(case, reading, weight, np.ones(len(weight), dtype=np.bool_))
        for k in sorted({0, 1, 2, 5, len(wanted) // 2, max(len(wanted) - 1, 0), len(wanted) + 4}):
            top = heaviest(case, reading, k, weight)
            assert top.weight.dtype == np.int64
            assert top.weight.tolist() == [item[1] for item in wanted[:k]]
            assert top.block.slice.tolist() == [item[2] for item in wanted[:k]]
            assert bindings(case, top.block) == [as_bindings(case, item[3]) for item in wanted[:k]]
            assert top.present.all()


@pytest.mark.parametrize("name", ["any", "chains", "kleene", "branching"])
@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("values", ["nulls", "numbers", "everything"])
def test_sums_of_nulls_infinities_and_nan(name: str, reading: str, values: str) -> None:
    """Spark's descending order: NaN, infinity, numbers, minus infinity, and NULL for the sum of no values."""
    for seed in range(12):
        case = random_case(MACHINES[name], seed, most=8)
        random = np.random.default_rng(seed)
        weight = random.normal(size=len(case.built.nodes.event)).round(random.integers(0, 17))
        present = random.random(len(weight)) < (1.0 if values == "numbers" else 0.6)
        if values == "everything":
            strange = random.choice([0, np.inf, -np.inf, np.nan], size=len(weight), p=[0.55, 0.15, 0.15, 0.15])
            weight = weight + strange
        wanted = ranked(case, reading, weight, present)
        for k in sorted({1, 3, len(wanted) // 2, len(wanted) + 1}):
            top = heaviest(case, reading, k, weight, present)
            best_few = wanted[:k]
            shown = {0: 0.0, 1: -np.inf, 3: np.inf, 4: np.nan}
            np.testing.assert_array_equal(top.weight, [shown.get(rank, total) for rank, total, *_ in best_few])
            assert top.present.tolist() == [rank > 0 for rank, *_ in best_few]
            # Of trends that tie, any may come; they must be different and weigh what is said.
            sums = {(place, as_bindings(case, trend)): (rank, total) for rank, total, place, trend in wanted}
            found = list(zip(top.block.slice.tolist(), bindings(case, top.block)))
            assert [sums[item] for item in found] == [item[:2] for item in best_few]
            assert len(set(found)) == len(found)


def test_whole_numbers_that_doubles_would_round() -> None:
    case = make_case(ANY, np.zeros((1, 5)))
    weight = np.array([2**53, 1, 2, -(2**53), 2**53 + 1])
    wanted = ranked(case, "all", weight, np.ones(5, dtype=np.bool_))
    top = heaviest(case, "all", 40, weight)
    assert top.weight.tolist() == [item[1] for item in wanted]
    assert top.weight[:2].tolist() == [2**54 + 4, 2**54 + 3]


def test_sums_beyond_64_bits_are_refused() -> None:
    """Only if a trend reaches them: values that no trend adds up do no harm."""
    case = make_case(ANY, np.zeros((1, 6)))
    with pytest.raises(CountOverflow, match=r"64 bits.*\n.*cast the column to double"):
        heaviest(case, "all", 3, np.full(6, 2**62))
    assert heaviest(case, "all", 1, np.full(6, 2**62).astype(np.float64)).weight.tolist() == [6 * 2.0**62]
    # Signs count: 2**63 - 1 fits, and so do all sums on the way, whose magnitudes add up to more.
    mixed = make_case(ANY, np.zeros((1, 3)))
    top = heaviest(mixed, "all", 7, np.array([2**62, -(2**62), 2**62 - 1]))
    assert top.weight.tolist() == [2**63 - 1, 2**62, 2**62 - 1, 2**62 - 1, 0, -1, -(2**62)]
    for weights in ([2**62, 0, 2**62], [-(2**62), -(2**62) - 1, 0], [-(2**62), 2**62, 2**62]):
        with pytest.raises(CountOverflow, match="of a trend, or of its last events"):
            heaviest(mixed, "all", 1, np.array(weights))
    assert heaviest(mixed, "all", 1, np.array([-(2**62), -(2**62), 0])).weight.tolist() == [0]
    apart = make_case(CHAINS, [[0, 1, 2, 3], [10, 11, 12, 13]])
    assert heaviest(apart, "all", 2, np.full(4, 2**62)).weight.tolist() == [2**62, 2**62]


def test_doubles_that_overflow_are_infinite() -> None:
    case = make_case(ANY, np.zeros((1, 3)))
    top = heaviest(case, "all", 7, np.array([1e308, 1e308, -1e308]))
    assert top.weight.tolist() == [np.inf, 1e308, 1e308, 1e308, 0.0, 0.0, -1e308]
    # From the end on: 1e308 + (1e308 - 1e308).
    assert listed(top.block)[:3] == [(0, 1), (0,), (0, 1, 2)]


@pytest.mark.parametrize("name", ["any", "rising"])
def test_the_longest_of_astronomically_many(name: str) -> None:
    """2**800 - 1 trends of any events: all of them, then all but one in the order of what is left out last."""
    codes = np.arange(800)[None]
    case = make_case(MACHINES[name], codes, slices=[(0, 800), (0, 799), (10, 20)])
    top = heaviest(case, "all", 500, np.ones(800, dtype=np.int64))
    assert top.weight.tolist() == [800] + [799] * 499
    everything = list(range(800))
    for place, trend in enumerate(listed(top.block)[1:], 1):
        left_out = 800 - place
        assert trend == tuple(everything[:left_out] + everything[left_out + 1 :])
    assert set(top.block.slice.tolist()) == {0}


def test_windows_that_get_heavier_and_heavier() -> None:
    """Each window beats all before it; those that cannot be among the k best list nothing."""
    count = 100
    weight = np.arange(count)
    case = make_case(ANY, np.zeros((1, count)), slices=[(i, i + 6) for i in range(count - 5)])
    wanted = ranked(case, "all", weight, np.ones(count, dtype=np.bool_))
    for k in (1, 30, 200, 3000):
        top = heaviest(case, "all", k, weight)
        assert top.weight.tolist() == [item[1] for item in wanted[:k]]
        assert top.block.slice.tolist() == [item[2] for item in wanted[:k]]
        assert bindings(case, top.block) == [as_bindings(case, item[3]) for item in wanted[:k]]


def test_no_trends_no_top() -> None:
    case = make_case(CHAINS, np.zeros((2, 3)), mask=[0, 0, 0], slices=[(0, 3), (1, 1)])
    top = heaviest(case, "ends", 5, np.zeros(0, dtype=np.int64))
    assert (top.weight.tolist(), top.block.start.tolist()) == ([], [0])
    # Windows without trends beside one that has some.
    case = make_case(KLEENE, np.zeros((2, 3)), mask=[1, 2, 1], slices=[(0, 1), (0, 2), (2, 3), (2, 2)])
    top = heaviest(case, "all", 5, np.ones(len(case.built.nodes.event), dtype=np.int64))
    assert (top.weight.tolist(), top.block.slice.tolist(), listed(top.block)) == ([2], [1], [(0, 1)])
