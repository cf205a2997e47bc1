"""Measures the costs of sharing on this machine, once; they are kept beside the compiled kernels.

Small workloads, whose units of work are known, are run in each number system, some shared and some not. A regularised
least squares fit turns the times into prices: it starts from the fixed prices, scaled to the speed of the machine, and
leaves those that the workloads cannot tell apart near these.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cetdsl.aggregates.vocabulary import SUM
from cetdsl.ir.accumulators import TRENDS, Accumulator
from cetdsl.ir.kernel import Answer, KernelQuery, KernelSpec
from cetdsl.ir.layout import RowLayout
from cetdsl.ir.machine import Edge, Machine
from cetdsl.kernels import _disk
from cetdsl.kernels._jit import _version as version_of
from cetdsl.kernels.numbers.ladder import FEW_EVENTS, MULTIPLIED
from cetdsl.kernels.shared.benefit import FIXED, Load, Prices, Rates, work_of
from cetdsl.kernels.shared.bursts import events_of_decisions, frame_of, survey
from cetdsl.kernels.shared.decider import predecessors
from cetdsl.kernels.shared.operations import NEVER, OWN, SHARED
from cetdsl.kernels.shared.players import Kind, Weighed
from cetdsl.kernels.shared.tapes import TapePasses
from cetdsl.kernels.shared.template import merge_machines
from cetdsl.kernels.shared.writer import write_tape
from cetdsl.kernels.vocabulary import Events, Floats, Slices
from cetdsl.kernels.wire.values import ValueColumn

#: Seconds that measuring goes on for; preparing it takes as long again once its kernels are loaded.
BUDGET = 0.5
#: Events of a workload, and of the same one made so small that it costs only what is done once for a chunk.
_EVENTS, _FEW = 8_192, 64
_WINDOW = 512
#: The most rounds of measuring.
_ROUNDS = 20
#: The weight of a price's relative deviation from the scaled fixed one; that of a workload's relative error is 1.
_TRUST = 0.1
#: No price differs by more than this factor from the scaled fixed one: such a difference would come from other work.
_FURTHEST = 10.0


class _Workload(NamedTuple):
    """Queries ``SEQ(P, B+)`` of several variants of B, and a stream of bursts."""

    variants: int
    #: Queries of each variant, and whether they sum values up.
    queries: int
    sums: bool
    burst: int
    #: The share of the events at which some variants, half of them at most, deviate from the others.
    deviating: float


_WORKLOADS = (
    _Workload(1, 2, False, 256, 0.0),
    _Workload(1, 24, False, 8, 0.0),
    _Workload(4, 1, False, 128, 0.0),
    _Workload(4, 1, False, 4, 0.0),
    _Workload(8, 1, False, 128, 0.1),
    _Workload(8, 8, False, 128, 0.0),
    _Workload(8, 8, False, 128, 0.1),
    _Workload(2, 1, True, 64, 0.0),
)


@cache
def prices() -> Prices:
    """Returns the prices of this machine: those on disk, else measured now; the fixed ones where none can be kept."""
    folder = _disk.place()
    if folder is None:
        return FIXED
    path = folder / f"prices-{version_of(__name__)}"
    known = _disk.read(path)
    if known is not None:
        return Prices(*(Rates(*each) for each in json.loads(known)))
    found = measure()
    _disk.write(path, json.dumps(found).encode())
    return found


def measure(budget: float = BUDGET) -> Prices:
    """Measures the prices in rounds, until they have taken ``budget`` seconds; at least twice."""
    runs = [run for count in (_EVENTS, _FEW) for workload in _WORKLOADS for run in _runs(workload, count)]
    for run in runs:
        for act in run.acts:  # loads what is compiled
            act()
    took = np.full((len(runs), len(FIXED)), np.inf)
    begun, rounds = time.perf_counter(), 0
    while rounds < 2 or (time.perf_counter() - begun < budget and rounds < _ROUNDS):
        for row, run in enumerate(runs):
            for column, act in enumerate(run.acts):
                before = time.thread_time_ns()
                act()
                # The least time of all rounds, as other work on the machine can only make it longer.
                took[row, column] = min(took[row, column], time.thread_time_ns() - before)
        rounds += 1
    work, half = np.array([run.work for run in runs]), len(runs) // 2
    work, took = work[:half] - work[half:], np.maximum(took[:half] - took[half:], 1.0)
    return Prices(*(fitted(work, took[:, column], fixed) for column, fixed in enumerate(FIXED)))


def fitted(work: Floats, took: Floats, fixed: Rates) -> Rates:
    """Returns the rates that explain best what workloads took, among those not far from the fixed ones.

    Parameters
    ----------
    work : float64 array, shape (workloads, rates)
        The units of each kind of work.
    took : float64 array, shape (workloads,)
        Nanoseconds.
    fixed : Rates
        What the units take on another machine.

    Returns
    -------
    Rates

    Examples
    --------
    >>> work = np.diag(np.full(9, 1000.0))
    >>> round(fitted(work, work @ np.array(FIXED.doubles) * 2, FIXED.doubles).create, 6)
    28.0
    """
    before = np.array(fixed)
    expected = work @ before
    told = expected > 0
    if not told.any():
        return fixed
    # Relative errors, of which the median is the speed of the machine.
    speed = float(np.median(took[told] / expected[told]))
    scaled = before * speed
    rows = work[told] * scaled / took[told, None]
    priced = before > 0
    system = np.vstack([rows[:, priced], _TRUST * np.eye(int(priced.sum()))])
    wanted = np.concatenate([np.ones(int(told.sum())), np.full(int(priced.sum()), _TRUST)])
    factor = np.ones(len(before))
    factor[priced] = np.clip(np.linalg.lstsq(system, wanted, rcond=None)[0], 1 / _FURTHEST, _FURTHEST)
    return Rates(*(scaled * factor).tolist())


class _Run(NamedTuple):
    """A workload, its variants all propagated in one mode."""

    #: Units of each kind of work.
    work: Floats
    #: The writing of the tape, and passes in the number systems of :class:`Prices`.
    acts: tuple[Callable[[], object], ...]


def _runs(workload: _Workload, count: int) -> Iterator[_Run]:
    specs, families = _queries(workload)
    template = merge_machines(specs, families)
    events = _events(workload, count)
    # The windows are so short that doubles hold their counts.
    low = np.arange(0, count, _WINDOW)
    zero = np.zeros(len(low), dtype=np.int64)
    whole = Slices(low, np.minimum(low + _WINDOW, count), zero, low, np.arange(len(low)), 0, 0)
    frame = frame_of(template, [whole], FEW_EVENTS)
    seen = survey(template, frame, events, events_of_decisions(template))
    load = Load(frame.columns, (1 + workload.sums) * frame.columns, predecessors(template), int(workload.sums))
    values = [ValueColumn(pa.array(events.time % 100))]
    for chosen in (SHARED, NEVER) if workload.variants == 1 else (SHARED, OWN, NEVER):
        mode = np.full((len(seen.start), template.variants), chosen, dtype=np.int8)
        write = _writing(template, frame, events, seen, mode)
        passes = TapePasses(template, frame, events, seen, write(), values, [whole])
        yield _Run(work_of(template, load, seen, chosen), (write, *_plays(passes, specs, len(low))))


def _writing(*arguments: Any) -> Callable[[], Any]:
    return lambda: write_tape(*arguments)


def _plays(passes: TapePasses, specs: list[KernelSpec], windows: int) -> tuple[Callable[[], object], ...]:
    rows = np.arange(len(specs) * windows)
    asked = Weighed.of(
        [
            [(one.variable, Kind(one.update, one.column, True, False)) for one in spec.answer.accumulators]
            for spec in specs
        ]
    )
    rounded, (residues, _) = passes.rounded(asked), passes.residues(asked)
    primes = MULTIPLIED.primes(MULTIPLIED.most)
    return (
        lambda: rounded(np.float64, rows),
        lambda: rounded(np.complex128, rows),
        lambda: residues(rows, primes),
    )


def _queries(workload: _Workload) -> tuple[list[KernelSpec], dict[int, int]]:
    """Returns the queries and the family of each variable: the prefixes are numbered after the variants of B."""
    specs = []
    for variant in range(workload.variants):
        for number in range(workload.queries):
            machine = Machine(
                (workload.variants + number % 4, variant), ((0, ()),), ((1, ()),), (Edge(0, 1), Edge(1, 1))
            )
            layout = RowLayout.of(0, "t", "bigint").with_values(("bigint",))
            accumulators = (TRENDS, Accumulator(SUM, -1, 0))[: 1 + workload.sums]
            answer = Answer(accumulators=accumulators, number="log2")
            specs.append(KernelSpec(KernelQuery(machine), layout, answer))
    return specs, dict.fromkeys(range(workload.variants), 0)


def _events(workload: _Workload, count: int) -> Events:
    """Returns bursts of B, each after an event of a prefix; some variants of B do not take some of its events.

    These are the first so many variants, as if each had a limit of its own for the same attribute.
    """
    chance = np.random.default_rng(1)
    every = (1 << workload.variants) - 1
    mask = np.full(count, every, dtype=np.int64)
    missing = chance.random(count) < workload.deviating
    fewer = chance.integers(1, max(workload.variants // 2, 1), int(missing.sum()), endpoint=True)
    mask[missing] &= ~((1 << fewer) - 1)
    prefixes = np.arange(0, count, workload.burst + 1)
    mask[prefixes] = 1 << (workload.variants + np.arange(len(prefixes)) % 4)
    time_of = np.arange(count)
    none = np.zeros((0, count), dtype=np.int64)
    lists = np.zeros((0, count + 1), dtype=np.int64)
    return Events(np.array([0, count]), time_of, time_of, mask, none, none.astype(np.bool_), lists, lists[:, 0])
