"""Queries that one walk propagates abreast have the values that each has alone, whatever windows each of them has."""

from __future__ import annotations

import random
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pytest
from test_kernel_shared import PATTERNS, WINDOWS, machine, query

from cetdsl.aggregates.vocabulary import COUNT, LARGEST, SMALLEST, SUM
from cetdsl.ir.accumulators import TRENDS, Accumulator
from cetdsl.ir.layout import RowLayout
from cetdsl.ir.machine import Comparison, Machine, Negation
from cetdsl.ir.windowing import SLIDING, Windowing
from cetdsl.kernels.aggregate.evaluate import Evaluator
from cetdsl.kernels.shared import walkers
from cetdsl.kernels.shared.walkers import AbreastEvaluator
from cetdsl.kernels.vocabulary import Events
from cetdsl.kernels.wire.values import ValueColumn
from cetdsl.kernels.wire.windows import NEVER, cut_slices
from cetdsl.planning.sharing import why_not_abreast

NUMBERS = {"A": 0, "B": 1, "C": 2, "D": 3}
#: Between neighbours, by code columns of the later and the earlier event: hash tables, and trees of one order or two.
COMPARED = (Comparison("=", 0, 0), Comparison("<", 1, 1), Comparison("<", 1, 2), Comparison(">=", 1, 1))
LAYOUT = RowLayout.of(0, "t", "bigint", codes=3).with_values(("bigint",))
MORE_WINDOWS = (*WINDOWS[1:], Windowing(SLIDING, 9, 1), Windowing(SLIDING, 3, 5))


def events(choose: random.Random, keys: list[int]) -> Events:
    """Events of some keys, several of an instant now and then, with values to compare of which some are missing."""
    mask, time, count = [], list[int](), sum(keys)
    for size in keys:
        now, letter = choose.randint(-5, 5), 0
        for _ in range(size):
            letter = choose.randrange(4) if choose.random() < 0.5 else letter
            mask.append(1 << letter | (choose.random() < 0.1) << choose.randrange(4))
            time.append(now)
            now += choose.choice([0, 1, 1, 2, 9])
    start = np.append(0, np.cumsum(keys))
    fresh = np.zeros(count, dtype=np.bool_)
    fresh[start[:-1]] = True
    instant = np.cumsum(fresh | (np.diff(time, prepend=time[0]) != 0))
    compared = np.array([choose.randint(0, 3) for _ in range(2 * count)], dtype=np.int64).reshape(2, count)
    codes = np.concatenate([compared, compared[1:] + choose.choice([1, 0])])
    valid = np.array([choose.random() < 0.9 for _ in range(count)])
    return Events(
        start,
        np.array(time),
        instant,
        np.array(mask),
        codes,
        np.stack([valid, np.ones(count, dtype=np.bool_), np.ones(count, dtype=np.bool_)]),
        np.zeros((0, count + 1), dtype=np.int64),
        np.zeros(0, dtype=np.int64),
    )


def with_conditions(choose: random.Random, plain: Machine, negations: int) -> Machine:
    """A machine with predicates between some neighbours, and negations in some gaps and at some ends."""

    def guards() -> tuple[int, ...]:
        return tuple(sorted(choose.sample(range(negations), choose.randint(0, negations)))) if negations else ()

    edges = []
    for edge in plain.edges:
        compared = choose.choice(COMPARED) if choose.random() < 0.3 else None
        edges.append(attrs.evolve(edge, comparisons=(compared,) if compared else (), guards=guards()))
    initial = tuple((state, guards()) for state, _ in plain.initial)
    return Machine(plain.variables, initial, tuple((state, guards()) for state, _ in plain.final), tuple(edges))


def workload(choose: random.Random, windows: tuple[Windowing, ...]) -> list[Any]:
    specs: list[Any] = []
    wanted = choose.randint(2, 6)
    while len(specs) < wanted:
        pattern, number = choose.choice(PATTERNS), choose.choice(["string", "double", "log2", "decimal"])
        forbidden = [Negation(machine(text, NUMBERS)) for text in choose.sample(["D", "C", "SEQ(C, D)"], 2)]
        forbidden = forbidden[: choose.choice([0, 0, 1, 2])]
        variable = machine(pattern, NUMBERS).variables[-1]
        more = [Accumulator(how, variable, 0) for how in (SUM, LARGEST, SMALLEST)]
        more += [Accumulator(COUNT, variable), Accumulator(LARGEST), Accumulator(SMALLEST)]
        accumulators = (TRENDS, *choose.sample(more, choose.choice([0, 0, 1, 3])))
        spec = query(pattern, NUMBERS, number, choose.choice(windows), accumulators)
        found = with_conditions(choose, spec.query.machine, len(forbidden))
        spec = attrs.evolve(spec.with_query(machine=found, negations=tuple(forbidden)), layout=LAYOUT)
        specs += [spec] if why_not_abreast(spec.query) is None else []
    return specs


@pytest.mark.parametrize("seed", range(60))
def test_each_query_has_the_values_that_it_has_alone(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    choose = random.Random(seed)
    if seed % 3 == 0:  # several walks, each over some of the windows
        monkeypatch.setattr(walkers, "MOST_LANES", 2)
    found = events(choose, [choose.choice([1, 5, 30]) for _ in range(choose.randint(1, 3))])
    specs = workload(choose, WINDOWS[:1] if seed % 5 == 0 else MORE_WINDOWS)
    values = [None if choose.random() < 0.1 else choose.randint(-5, 9) for _ in found.time]
    columns = [ValueColumn(pa.array(values, pa.int64()))]
    buckets = np.zeros(len(found.segment_start) - 1)
    slices = [cut_slices(s.query.windowing, found.segment_start, found.time, buckets, True, NEVER) for s in specs]
    together = AbreastEvaluator(specs).evaluate(found, columns, slices)
    for spec, own, got in zip(specs, slices, together, strict=True):
        bounds = np.full(len(own.low), NEVER), np.full(len(own.low), -NEVER)
        alone = Evaluator(spec).evaluate(found, columns, own, bounds)
        assert got.found.tolist() == alone.found.tolist()
        for whole, expected in zip(got.exact, alone.exact, strict=True):
            assert (whole is None) == (expected is None)
            assert whole is None or whole.tolist() == expected.tolist()
        for near, expected in zip(got.scaled, alone.scaled, strict=True):
            assert np.allclose(near.real * 2.0 ** (near.imag - expected.imag), expected.real, rtol=1e-9)
        for extreme, expected in zip(got.extremes, alone.extremes, strict=True):
            assert extreme.tolist() == expected.tolist()
