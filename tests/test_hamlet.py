"""Shared propagation gives each query the values that it has alone, in every sharing mode and number form."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import cetdsl as cet
from cetdsl.kernels.evaluate import Evaluator, ValueColumn
from cetdsl.kernels.hamlet import WorkloadEvaluator
from cetdsl.kernels.program import Events
from cetdsl.kernels.windows import NEVER, cut_slices
from cetdsl.pattern.automaton import build_automaton
from cetdsl.planning.physical import Edge, KernelSpec, Lane, Machine, Windowing

SHARING = ("always", "dynamic", "static", "never")
PATTERNS = (
    "A+", "SEQ(A, B+)", "SEQ(C, B+)", "SEQ(A+, B+)", "SEQ(A, B+, C)", "(SEQ(A, B+))+", "SEQ(A, B*)",
    "SEQ(A, B+) OR C+", "SEQ(A?, B+, D)", "B{2,}", "SEQ(B+, A, B+)", "(A+ OR B+)+", "SEQ(A, B)", "SEQ(A, (B OR C)+)",
)  # fmt: skip
WINDOWS = (Windowing(), Windowing("sliding", 10, 10), Windowing("sliding", 12, 4), Windowing("sliding", 7, 3))
NO_CODES = np.zeros((0, 0), dtype=np.int64)


def machine(pattern: str, numbers: dict[str, int]) -> Machine:
    automaton = build_automaton(cet.parse("PATTERN " + pattern)._query().pattern)
    return Machine(
        tuple(numbers[variable] for variable in automaton.variables),
        tuple((state, ()) for state, _ in automaton.initial),
        tuple((state, ()) for state, _ in automaton.final),
        tuple(Edge(step.source, step.target) for step in automaton.transitions),
    )


def query(pattern: str, numbers: dict[str, int], number: str, windowing: Windowing, lanes: tuple[Lane, ...]) -> Any:
    exact = number in ("string", "decimal")
    return KernelSpec(
        machine(pattern, numbers), (), windowing, 0, 0, "t", "bigint", 0, 0, ("bigint",), 0,
        lanes=lanes, number=number, exact=exact,
    )  # fmt: skip


def events(mask: list[int], time: list[int]) -> Events:
    count = len(mask)
    instant = np.cumsum(np.diff(time, prepend=time[0]) != 0)
    none = np.zeros((0, count), dtype=np.int64)
    lists = np.zeros((0, count + 1), dtype=np.int64)
    return Events(
        np.array([0, count]), np.array(time), instant, np.array(mask), none, none.astype(bool), lists, lists[:, 0]
    )


def answers(specs: list[Any], found: Events, columns: list[ValueColumn], sharing: str, families: dict[int, int]) -> Any:
    slices = [cut_slices(s.windowing, found.segment_start, found.time, np.zeros(1), True, NEVER) for s in specs]
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
    count = (Lane("count", -2),)
    specs = [query(text, numbers, "string", Windowing(), count) for text in ("SEQ(A, B+)", "SEQ(C, B+)")]
    got, _, metrics = answers(specs, found, [], sharing, {})
    assert [int(values.exact[0][0]) for values in got] == [132, 72]
    assert metrics.bursts == 2 or sharing == "never"
    assert (metrics.shared > 0) == (sharing == "always") or sharing in ("dynamic", "static")


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
        more = [Lane("count", used[0]), Lane("sum", used[-1], 0), Lane("max", used[-1], 0), Lane("longest")]
        lanes = (Lane("count", -2), *choose.sample(more, choose.choice([0, 0, 1, 3])))
        specs.append(query(pattern, numbers, number, choose.choice(WINDOWS), lanes))
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
