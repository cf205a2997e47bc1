"""Shared propagation gives each query the values that it has alone, in every sharing mode and number form."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import cetdsl as cet
from cetdsl.aggregates.vocabulary import COUNT, LARGEST, MOMENTS, ODD, SUM
from cetdsl.ir.accumulators import TRENDS, Accumulator
from cetdsl.ir.kernel import Answer, KernelQuery, KernelSpec
from cetdsl.ir.layout import RowLayout
from cetdsl.ir.machine import Edge, Machine
from cetdsl.ir.windowing import Windowing
from cetdsl.kernels.aggregate.evaluate import Evaluator
from cetdsl.kernels.numbers.scaled import from_scaled
from cetdsl.kernels.shared import calibration
from cetdsl.kernels.shared.benefit import (
    FIXED,
    Bursts,
    Demand,
    Load,
    Prices,
    Rates,
    cells_of,
    decide_as_published,
    decide_chunk,
    shared_cost,
    unshared_cost,
    work_of,
)
from cetdsl.kernels.shared.bursts import BREAKS, DEVIATIONS, TIES, frame_of, survey
from cetdsl.kernels.shared.decider import predecessors
from cetdsl.kernels.shared.hamlet import Metrics, WorkloadEvaluator
from cetdsl.kernels.shared.operations import NEVER as UNSHARED
from cetdsl.kernels.shared.operations import OWN, SHARED
from cetdsl.kernels.shared.template import merge_machines
from cetdsl.kernels.vocabulary import Events
from cetdsl.kernels.wire.values import ValueColumn
from cetdsl.kernels.wire.windows import NEVER, cut_slices
from cetdsl.pattern.automaton import build_automaton
from cetdsl.planning.sharing import why_not_in_bursts

SHARING = ("always", "dynamic", "static", "never")
PATTERNS = (
    "A+", "SEQ(A, B+)", "SEQ(C, B+)", "SEQ(A+, B+)", "SEQ(A, B+, C)", "(SEQ(A, B+))+", "SEQ(A, B*)",
    "SEQ(A, B+) OR C+", "SEQ(A?, B+, D)", "B{2,}", "SEQ(B+, A, B+)", "(A+ OR B+)+", "SEQ(A, B)", "SEQ(A, (B OR C)+)",
)  # fmt: skip
WINDOWS = (Windowing(), *(Windowing("sliding", *each) for each in ((10, 10), (12, 4), (7, 3), (12, 2))))
NO_CODES = np.zeros((0, 0), dtype=np.int64)


def machine(pattern: str, numbers: dict[str, int]) -> Machine:
    automaton = build_automaton(cet.parse("PATTERN " + pattern)._query().pattern)
    return Machine(
        tuple(numbers[variable] for variable in automaton.variables),
        tuple((state, ()) for state, _ in automaton.initial),
        tuple((state, ()) for state, _ in automaton.final),
        tuple(Edge(step.source, step.target) for step in automaton.transitions),
    )


def query(
    pattern: str, numbers: dict[str, int], number: str, windowing: Windowing, accumulators: tuple[Accumulator, ...]
) -> Any:
    exact = number in ("string", "decimal")
    return KernelSpec(
        KernelQuery(machine(pattern, numbers), windowing=windowing),
        RowLayout.of(0, "t", "bigint").with_values(("bigint",)),
        Answer(accumulators=accumulators, number=number, exact=exact),
    )


def events(mask: list[int], time: list[int]) -> Events:
    count = len(mask)
    instant = np.cumsum(np.diff(time, prepend=time[0]) != 0)
    none = np.zeros((0, count), dtype=np.int64)
    lists = np.zeros((0, count + 1), dtype=np.int64)
    return Events(
        np.array([0, count]), np.array(time), instant, np.array(mask), none, none.astype(bool), lists, lists[:, 0]
    )


def answers(specs: list[Any], found: Events, columns: list[ValueColumn], sharing: str, families: dict[int, int]) -> Any:
    """The values of queries that may share, and of each alone."""
    assert not any(why_not_in_bursts(spec.query) for spec in specs)
    slices = [cut_slices(s.query.windowing, found.segment_start, found.time, np.zeros(1), True, NEVER) for s in specs]
    bounds = [(np.full(len(s.low), NEVER), np.full(len(s.low), -NEVER)) for s in slices]
    got, metrics = WorkloadEvaluator(specs, sharing, families).evaluate(found, columns, slices, bounds)
    alone = [
        Evaluator(spec).evaluate(found, columns, *asked) for spec, *asked in zip(specs, slices, bounds, strict=True)
    ]
    return got, alone, metrics


@pytest.mark.parametrize("sharing", SHARING)
def test_figure_4(sharing: str) -> None:
    """Several bursts of the shared type, before and after other types (Hamlet, SIGMOD 2021, figure 4)."""
    numbers = {"A": 0, "B": 1, "C": 2}
    found = events([1 << "abc".index(letter) for letter in "aacbbbbaacccbb"], list(range(14)))
    count = (TRENDS,)
    specs = [query(text, numbers, "string", Windowing(), count) for text in ("SEQ(A, B+)", "SEQ(C, B+)")]
    got, _, metrics = answers(specs, found, [], sharing, {})
    assert [int(values.exact[0][0]) for values in got] == [132, 72]
    assert metrics.bursts == 2 or sharing == "never"
    assert (metrics.shared > 0) == (sharing == "always") or sharing in ("dynamic", "static")


@pytest.mark.parametrize(
    ("given", "shares"), [(None, True), (0.0, True), (0.5, False)], ids=["sampled", "never differs", "often differs"]
)
def test_static_sharing_goes_by_given_statistics(given: float | None, shares: bool) -> None:
    """The first events are bursts of B that all take; what is given says how it goes on."""
    numbers = [{"A": 0, "B": 1, "C": 2}, {"A": 0, "B": 3, "C": 2}]
    found = events([{"a": 1, "b": 2 | 8, "c": 4}[letter] for letter in "ac" + "b" * 500], list(range(502)))
    count = (TRENDS,)
    patterns = ("SEQ(A, B+)", "SEQ(C, B+)")
    specs = [query(text, own, "double", Windowing(), count) for text, own in zip(patterns, numbers, strict=True)]
    slices = [cut_slices(s.query.windowing, found.segment_start, found.time, np.zeros(1), True, NEVER) for s in specs]
    bounds = [(np.full(1, NEVER), np.full(1, -NEVER)) for _ in specs]
    evaluator = WorkloadEvaluator(specs, "static", {1: 1, 3: 1}, [None, given])
    got, metrics = evaluator.evaluate(found, [], slices, bounds)
    assert (metrics.split == 0) == shares
    assert [float(values.scaled[0].real[0]) * 2.0 ** values.scaled[0].imag[0] for values in got] == [2.0**500] * 2


@pytest.mark.parametrize("seed", range(25))
def test_each_query_has_the_values_that_it_has_alone(seed: int) -> None:
    choose = random.Random(seed)
    count = choose.choice([1, 5, 20, 60])
    variants = choose.choice([1, 1, 2])
    bits = {(letter, v): n for n, (letter, v) in enumerate((x, v) for x in "ABCD" for v in range(variants))}
    families = {bit: ord(letter) for (letter, _), bit in bits.items()}
    mask, time, letter = [], [0], "B"
    for _ in range(count):
        letter = choose.choice("ABCD") if choose.random() < 0.4 else letter
        holds = [v for v in range(variants) if choose.random() < 0.8]
        mask.append(sum(1 << bits[letter, v] for v in holds))
        time.append(time[-1] + choose.choice([0, 1, 1, 2]))
    found = events(mask, time[1:])
    values = [None if choose.random() < 0.1 else choose.randint(-5, 9) for _ in range(count)]
    columns = [ValueColumn(pa.array(values, pa.int64()))]
    number = ("string", "double", "log2", "decimal")[seed % 4]
    specs = []
    for _ in range(choose.randint(2, 6)):
        numbers = {letter: bits[letter, choose.randrange(variants)] for letter in "ABCD"}
        pattern = choose.choice(PATTERNS)
        used = sorted(set(machine(pattern, numbers).variables))
        more = [
            Accumulator(COUNT, used[0]),
            Accumulator(SUM, used[-1], 0),
            Accumulator(LARGEST, used[-1], 0),
            Accumulator(LARGEST),
        ]
        more += [Accumulator(update, used[-1], 0) for update in (*MOMENTS, ODD)]
        accumulators = (TRENDS, *choose.sample(more, choose.choice([0, 0, 1, 3, 6])))
        specs.append(query(pattern, numbers, number, choose.choice(WINDOWS), accumulators))
    specs = [spec for spec in specs if why_not_in_bursts(spec.query) is None]
    for sharing in SHARING:
        got, alone, _ = answers(specs, found, columns, sharing, families)
        for one, other in zip(got, alone, strict=True):
            assert (one.found == other.found).all()
            for whole, expected in zip(one.exact, other.exact, strict=True):
                assert (whole is None) == (expected is None)
                if whole is not None:
                    assert (whole == expected).all()
            for near, expected in zip(one.scaled[:1], other.scaled[:1], strict=True):
                assert np.allclose(near.real * 2.0 ** (near.imag - expected.imag), expected.real, rtol=1e-9)
            for extreme, expected in zip(one.extremes, other.extremes, strict=True):
                assert (extreme == expected).all()


def test_decisions_of_many_variants_are_made_for_many_events() -> None:
    """Bursts of 260 events are decided on one by one for two variants, and two by two for sixty."""
    windowing = Windowing("sliding", 70 * 261, 70 * 261)
    stream = ("a" + "b" * 260) * 70
    for variants, bursts in ((2, 1), (60, 2)):
        masks = {"a": 1, "b": (1 << variants + 1) - 2}
        found = events([masks[letter] for letter in stream], list(range(len(stream))))
        specs = [query("SEQ(A, B+)", {"A": 0, "B": 1 + v}, "double", windowing, (TRENDS,)) for v in range(variants)]
        got, alone, metrics = answers(specs, found, [], "dynamic", {1 + v: 1 for v in range(variants)})
        assert metrics.decisions == variants * -(-70 // bursts)
        assert (metrics.together + metrics.alone).tolist() == [70] * variants
        assert all(one.scaled[0].tolist() == other.scaled[0].tolist() for one, other in zip(got, alone, strict=True))


def test_a_query_may_share_in_one_chunk_and_not_in_the_next() -> None:
    """Shared, only its maximum is found apart; with an infinity to sum up, all of it is."""
    accumulators = (TRENDS, Accumulator(SUM, 0, 0), Accumulator(LARGEST, 0, 0))
    spec = query("A+", {"A": 0}, "double", Windowing(), accumulators)
    evaluator, found = WorkloadEvaluator([spec], "always"), events([1, 1, 1], [0, 1, 2])
    slices = cut_slices(spec.query.windowing, found.segment_start, found.time, np.zeros(1), True, NEVER)
    bounds = (np.full(1, NEVER), np.full(1, -NEVER))
    for first, shared in ((1.5, True), (np.inf, False), (2.5, True)):
        columns = [ValueColumn(pa.array([first, 2.0, None]))]
        [got], metrics = evaluator.evaluate(found, columns, [slices], [bounds])
        alone = Evaluator(spec).evaluate(found, columns, slices, bounds)
        assert (metrics.unshared == 0) == shared
        assert [near.tolist() for near in got.scaled] == [near.tolist() for near in alone.scaled]
        assert [extreme.tolist() for extreme in got.extremes] == [extreme.tolist() for extreme in alone.extremes]


# --------------------------------------------------------------------------------------------- the paper's figures


def snapshots(
    stream: str, before: list[int], patterns: list[tuple[str, dict[str, int]]], families: dict[int, int]
) -> tuple[list[list[float]], Metrics]:
    """What an event of type ``B`` before these places would add to each query's count: the snapshots there.

    ``x`` in a stream is an event of the type ``B`` that only the variable number 1 takes; else ``B`` is 1 and 3.
    """
    masks = {"a": 1, "b": 2 | 8, "c": 4, "x": 2}
    specs = [query(text, numbers, "double", Windowing(), (TRENDS,)) for text, numbers in patterns]

    def counts(stream: str) -> tuple[list[float], Metrics]:
        found = events([masks[letter] for letter in stream], list(range(len(stream))))
        got, _, metrics = answers(specs, found, [], "always", families)
        return [float(from_scaled(values.scaled[0])[0]) for values in got], metrics

    rows = [np.subtract(counts(stream[:at] + "b")[0], counts(stream[:at])[0]).tolist() for at in before]
    return rows, counts(stream)[1]


def test_snapshots_of_figure_4() -> None:
    """x = 2 and 1, y = 34 and 19: both bursts of B continue one graphlet for both queries."""
    numbers = {"A": 0, "B": 1, "C": 2}
    both = [("SEQ(A, B+)", numbers), ("SEQ(C, B+)", numbers)]
    found, metrics = snapshots("aacbbbbaacccbb", [3, 12], both, {})
    assert found == [[2.0, 1.0], [34.0, 19.0]]
    assert (metrics.bursts, metrics.event_snapshots) == (2, 0)


def test_snapshots_at_a_single_event() -> None:
    """z = 8 and 2: b4 leads to b5 for q1 only, so what b5 takes is no longer the same multiple of x."""
    numbers = {"A": 0, "B": 1, "C": 2}
    both = [("SEQ(A, B+)", numbers), ("SEQ(C, B+)", {**numbers, "B": 3})]
    found, metrics = snapshots("aacbxb", [3, 5], both, {1: 0, 3: 0})
    assert found == [[2.0, 1.0], [8.0, 2.0]]
    assert (metrics.bursts, metrics.event_snapshots) == (1, 1)


# ------------------------------------------------------------------------------------------------ published decisions


def bursts_of_figure_6(cost_model: str) -> tuple[Any, Any]:
    """Three bursts of four events each, before which q1 has two events of A and q2 one of C; the second has an event
    that q1 takes and q2 does not."""
    numbers = [{"A": 0, "B": 1, "C": 2}, {"A": 0, "B": 3, "C": 2}]
    masks = {"a": 1, "b": 2 | 8, "c": 4, "x": 2}
    found = events([masks[letter] for letter in "aac" + "bbbb" + "bbxb" + "bbbb"], list(range(15)))
    specs = [
        query(text, own, "double", Windowing(), (TRENDS,)) for text, own in zip(("SEQ(A, B+)", "SEQ(C, B+)"), numbers)
    ]
    template = merge_machines(specs, {1: 1, 3: 1})
    slices = cut_slices(Windowing(), found.segment_start, found.time, np.zeros(1), True, NEVER)
    frame = frame_of(template, [slices], 900)
    seen = survey(template, frame, found, 1)
    assert seen.start.tolist() == [0, 7, 11]
    load = Load(frame.columns, frame.columns, predecessors(template), 0)
    return decide_as_published(template, frame, load, seen, cost_model == "equation-8")


def test_published_decisions() -> None:
    """Equations 9 to 11: 44 against 56, share; 120 against 88, split; 76 against 120, merge."""
    decisions, costs = bursts_of_figure_6("equation-7")
    assert costs[:, 0].tolist() == [[44.0, 56.0], [120.0, 88.0], [76.0, 120.0]]
    assert decisions.mode.tolist() == [[SHARED, SHARED], [UNSHARED, UNSHARED], [SHARED, SHARED]]
    assert (decisions.splits, decisions.merges) == (2, 2)


def test_published_decisions_with_a_search_for_places() -> None:
    """Equation 8 adds log2(g) to each event, once if it is shared: g is 4, 8 and 4."""
    decisions, costs = bursts_of_figure_6("equation-8")
    assert costs[:, 0].tolist() == [[52.0, 72.0], [132.0, 112.0], [84.0, 136.0]]
    assert decisions.mode.tolist() == [[SHARED, SHARED], [UNSHARED, UNSHARED], [SHARED, SHARED]]


@pytest.mark.parametrize("seed", range(40))
def test_the_chosen_queries_cost_least_of_all_sets(seed: int) -> None:
    """Plans that the two pruning principles leave out are no better, where what the proofs assume holds."""
    variants = random.Random(seed).randint(2, 6)
    template, frame, seen = one_stretch(seed, variants)
    load = Load(frame.columns, frame.columns, predecessors(template), 0)
    decisions, _ = decide_as_published(template, frame, load, seen, seed % 2 == 0)
    own = seen.of_variant[0, :, DEVIATIONS]
    known = Bursts(float(seen.events[0, 0]), float(seen.events[0, 0]), 200.0, 1.0, 1.0, 1.0)

    def cost(shared: tuple[int, ...]) -> float:
        more = float(sum(own[v] for v in shared))
        apart = unshared_cost(known, float(variants - len(shared)), seed % 2 == 0)
        return apart + (shared_cost(known, float(len(shared)), more, seed % 2 == 0) if shared else 0.0)

    chosen = tuple(v for v in range(variants) if decisions.mode[0, v] == SHARED)
    sets = [s for size in range(variants + 1) for s in itertools.combinations(range(variants), size)]
    assert cost(chosen) <= min(map(cost, sets)) * (1 + 1e-9)


def test_the_chosen_modes_cost_least_under_measured_prices() -> None:
    """Of all ways to share, to have an own graphlet, or none; and each of them is best somewhere."""
    best = set()
    for seed in range(40):
        choose = random.Random(seed)
        template, frame, seen = one_stretch(seed, choose.randint(2, 5))
        query = template.query[: template.repeating]
        kept = np.array([choose.choice([1, 1, 4, 40]) for _ in query])
        demand = Demand(template.window[query], kept, choose.choice([0, 2]))
        cells = cells_of(template.variant, demand.window, kept, frame.slots, template.variants)
        load = Load(frame.columns, cells, predecessors(template), demand.rows)
        rates = Rates(*(price * choose.choice([0.01, 0.1, 1.0, 10.0]) for price in choose.choice(FIXED[1:])))
        of_all = np.zeros_like(seen.of_variant)
        steps = rates.advance * (seen.of_variant[0, :, BREAKS] + seen.of_variant[0, :, TIES])
        read = rates.read * seen.events.sum()
        common = work_of(template, load, seen._replace(of_variant=of_all), SHARED) @ rates - read + steps.max()
        cost = np.zeros((template.variants, 3))
        for v, mode in itertools.product(range(template.variants), (SHARED, OWN, UNSHARED)):
            of_one = of_all.copy()
            of_one[:, v] = seen.of_variant[:, v]
            cost[v, mode] = work_of(template, load, seen._replace(of_variant=of_one), mode) @ rates - read
        # The graphlet's own steps, and the weights of its events, cost the same whichever variants share it.
        cost[:, SHARED] -= common - steps.max() + steps

        def total(modes: Any, cost: Any = cost, common: float = common) -> float:
            return cost[range(len(cost)), list(modes)].sum() + (common if SHARED in modes else 0.0)

        prices = np.array(rates)
        chosen = tuple(decide_chunk(template, demand, frame, seen, prices, prices).mode[0].tolist())
        least = min(map(total, itertools.product((SHARED, OWN, UNSHARED), repeat=template.variants)))
        assert total(chosen) <= least * (1 + 1e-9)
        best |= set(chosen)
    assert best == {SHARED, OWN, UNSHARED}


def test_the_plan_of_a_chunk_costs_least_with_its_changes() -> None:
    """Of all sequences of modes, where each change costs as much as a deviation; some of the best change, some not."""
    changes = set()
    for seed in range(60):
        choose = random.Random(seed)
        template, frame, seen = one_stretch(seed, 2)
        stretches = 5
        known = np.array([[[choose.choice([0, 20, 200, 900]), choose.choice([0, 0, 3, 9]), choose.choice([0, 40]), 0, 0]
                           for _ in range(2)] for _ in range(stretches)])  # fmt: skip
        chunk = seen._replace(
            start=np.arange(stretches) * 1_000,
            bursts=np.ones((stretches, 1), dtype=np.int64),
            events=np.full((stretches, 1), 1_000),
            of_variant=known,
        )
        kept = np.array([choose.choice([1, 4]), choose.choice([1, 4])])
        demand = Demand(template.window[template.query[: template.repeating]], kept, 0)
        cells = cells_of(template.variant, demand.window, kept, frame.slots, 2)
        # Without prices for its own steps, the graphlet costs nothing that variants would have to save together.
        rates = FIXED.scaled._replace(advance=0.0, weigh=0.0)
        decided = decide_chunk(template, demand, frame, chunk, np.array(rates), np.array(rates))

        def costs(v: int, modes: Any, known: Any = known, cells: Any = cells, columns: Any = frame.columns) -> float:
            rates, total = FIXED.scaled, 0.0
            change = 2 * rates.create * cells[v] + rates.detour
            for before, mode, one in zip((modes[0], *modes), modes, known[:, v]):
                bound, deviations, seats = one[:3]
                total += change * (before != mode)
                if mode == UNSHARED:
                    total += (rates.each * cells[v] + rates.event) * bound
                else:
                    total += rates.create * cells[v] / columns[v] * seats
                    total += change * deviations if mode == SHARED else rates.event * bound
            return total

        for v in range(2):
            plans = itertools.product((SHARED, OWN, UNSHARED), repeat=stretches)
            chosen = tuple(decided.mode[:, v].tolist())
            assert costs(v, chosen) <= min(costs(v, plan) for plan in plans) * (1 + 1e-9)
            changes.add(len(set(chosen)) > 1)
        left = (decided.mode[:-1] == SHARED) & (decided.mode[1:] != SHARED)
        joined = (decided.mode[:-1] != SHARED) & (decided.mode[1:] == SHARED)
        assert (decided.splits, decided.merges) == (left.sum(), joined.sum())
    assert changes == {False, True}


def one_stretch(seed: int, variants: int) -> tuple[Any, Any, Any]:
    """Template, frame and survey of 200 events of one burst, some of which some variants do not take."""
    choose = random.Random(seed + 1_000)
    bits = {f"B{v}": v for v in range(variants)}
    deviating = [choose.choice([0.0, 0.0, 0.02, 0.5]) for _ in range(variants)]
    mask = [sum(1 << v for v in range(variants) if choose.random() >= deviating[v]) or 1 for _ in range(200)]
    specs = [query(f"B{v}+", bits, "double", Windowing(), (TRENDS,)) for v in range(variants)]
    template = merge_machines(specs, dict.fromkeys(bits.values(), 0))
    found = events(mask, list(range(200)))
    slices = cut_slices(Windowing(), found.segment_start, found.time, np.zeros(1), True, NEVER)
    frame = frame_of(template, [slices], 900)
    return template, frame, survey(template, frame, found, 1_000)


def test_prices_explain_what_workloads_take() -> None:
    """A machine half as fast, on which one kind of work takes three times as long: the work tells it apart."""
    chance = np.random.default_rng(7)
    work = chance.integers(0, 1_000, (200, len(FIXED.scaled))) / np.array(FIXED.scaled)
    true = 2 * np.array(FIXED.scaled) * np.array([1, 1, 1, 3, 1, 1, 1, 1, 1])
    found = np.array(calibration.fitted(work, work @ true, FIXED.scaled))
    assert np.allclose(found, true, rtol=0.1)
    assert calibration.fitted(work * 0, work[:, 0], FIXED.scaled) == FIXED.scaled


def test_prices_are_kept_beside_the_kernels(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = Prices(*(rates._replace(create=7.0) for rates in FIXED))
    calls: list[int] = []
    monkeypatch.setattr(calibration, "measure", lambda: calls.append(1) or measured)
    tmp_path.chmod(0o700)
    for folder, expected, measurings in ((tmp_path, measured, 1), (tmp_path, measured, 1), (None, FIXED, 1)):
        monkeypatch.setattr(calibration._disk, "place", lambda folder=folder: folder)
        calibration.prices.cache_clear()
        assert (calibration.prices(), len(calls)) == (expected, measurings)
    calibration.prices.cache_clear()


def test_measured_prices_are_those_of_work() -> None:
    for rates in calibration.measure(0.0):
        assert all(np.isfinite(rates))
        assert min(rates) >= 0 < max(rates)
