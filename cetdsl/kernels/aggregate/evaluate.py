"""Evaluates all accumulators over all slices of a chunk, exactly where that is asked for."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cetdsl.ir.kernel import KernelSpec
from cetdsl.kernels.aggregate.additive import additive_values, only_trends
from cetdsl.kernels.aggregate.extremes import kept_of
from cetdsl.kernels.answers.tables import Values, extreme_accumulators
from cetdsl.kernels.enumerate.guards import GuardedMachine
from cetdsl.kernels.machine.conditions import Conditions, Subslices, conditions_of, span_of, subslices_of
from cetdsl.kernels.machine.program import Tables, build_tables, lay_out
from cetdsl.kernels.machine.propagate import Accumulators, propagate
from cetdsl.kernels.machine.totals import add_up, asks_for_totals
from cetdsl.kernels.numbers.ladder import ADDED_ALONE, FEW_EVENTS, WEIGHED
from cetdsl.kernels.numbers.scaled import Objects, Scaled
from cetdsl.kernels.vocabulary import Events, Ints, Slices
from cetdsl.kernels.wire.values import ValueColumn


class Evaluator:
    """Evaluates one query over chunk after chunk of sorted events."""

    def __init__(self, spec: KernelSpec) -> None:
        self.spec = spec
        self._guarded = GuardedMachine(spec)
        self.layout = lay_out(self._guarded.machine)
        self.lattice = extreme_accumulators(spec)
        self.span = span_of(spec.query)

    def evaluate(self, events: Events, columns: list[ValueColumn], slices: Slices, bounds: tuple[Ints, Ints]) -> Values:
        """All accumulators over all slices."""
        events, before, until = self._guarded.with_guards(events)
        tables, anchors = build_tables(self.layout, events), self._guarded.anchors(events)
        conditions = conditions_of(self.spec.query, events, before, until, anchors)
        subslices = subslices_of(self.spec.query, slices, events, bounds)
        job = _Job(self, events, tables, conditions, subslices, columns, len(slices.low))
        scaled, exact = job.additive()
        return Values(scaled[0].real != 0, exact, scaled, job.extremes())


class _Job(NamedTuple):
    """One evaluation, whose passes share events, tables and subslices; there are so many ``slices``."""

    evaluator: Evaluator
    events: Events
    tables: Tables
    conditions: Conditions
    subslices: Subslices
    columns: list[ValueColumn]
    slices: int

    def _pass(
        self, accumulators: Accumulators, subslices: Subslices, zero: Any, one: NDArray[Any], prime: Any
    ) -> NDArray[Any]:
        evaluator, events, program = self.evaluator, self.events, self.evaluator.layout.program
        out = np.full((self.slices, len(one)), zero)
        if asks_for_totals(program, self.conditions):
            add_up(program, events.mask, events.instant, accumulators, subslices, zero, one, prime, out)
            return out
        # With a span the gap before a trend is judged at its end, and so per guarded first state.
        guarded = evaluator.span > 0 and any(guards for _, guards in evaluator.spec.query.machine.initial)
        for state in [s for s, _ in evaluator.spec.query.machine.initial] if guarded else [-1]:
            propagate(
                program,
                self.tables,
                events,
                self.conditions,
                accumulators,
                subslices,
                zero,
                one,
                prime,
                state,
                False,
                out,
                np.zeros(0, dtype=one.dtype),
                np.zeros((0, 0), dtype=one.dtype),
            )
        return out

    def _some_subslices(self, rows: Ints) -> Subslices:
        wanted = np.zeros(self.slices, dtype=np.bool_)
        wanted[rows] = True
        chosen = wanted[self.subslices.window]
        return Subslices(*(column[chosen] for column in self.subslices))

    def additive(self) -> tuple[list[Scaled], list[Objects | None]]:
        """Returns scaled values of the additive accumulators, and whole ones where the number form is exact."""
        sizes = np.zeros(self.slices, dtype=np.int64)
        np.maximum.at(sizes, self.subslices.window, self.subslices.high - self.subslices.low)

        def added(accumulators: Accumulators, rows: Ints, kind: Any, prime: Any) -> NDArray[Any]:
            one = only_trends(len(accumulators.variable), kind)
            return self._pass(accumulators, self._some_subslices(rows), kind(0), one, prime)[rows]

        count, moduli = len(self.events.time), (ADDED_ALONE, WEIGHED)
        return additive_values(self.evaluator.spec, self.columns, count, sizes > FEW_EVENTS, added, moduli)

    def extremes(self) -> list[Ints]:
        """The lattice accumulators."""
        lattice = self.evaluator.lattice
        if not lattice:
            return []
        count = len(self.events.time)
        kept = [kept_of(accumulator, self.columns, count) for accumulator in lattice]
        variable = np.array([-1, *(accumulator.variable for accumulator in lattice)])
        how = np.array([-1, *(one.how for one in kept)])
        weights = np.array([np.zeros(count, dtype=np.int64), *(one.weights for one in kept)])
        begun = np.array([0, *(one.one for one in kept)], dtype=np.int64)
        out = self._pass(Accumulators(variable, how, weights), self.subslices, np.int64(-1), begun, np.int64(0))
        return [one.restored(found) for one, found in zip(kept, out.T[1:])]
