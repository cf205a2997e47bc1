"""Evaluates all accumulators over all slices of a chunk, exactly where that is asked for."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cetdsl.ir.halves import LONG_KEY, fits_in_halves
from cetdsl.ir.indexes import with_orders
from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.machine import longest_trend
from cetdsl.kernels.aggregate.additive import additive_values, only_trends
from cetdsl.kernels.aggregate.extremes import kept_of
from cetdsl.kernels.aggregate.halves import HalvedMachine, HalvedSlice, Pass, has_second_core
from cetdsl.kernels.aggregate.lots import in_lots, most_pivots
from cetdsl.kernels.answers.tables import Values, extreme_accumulators
from cetdsl.kernels.enumerate.guards import GuardedMachine
from cetdsl.kernels.machine.conditions import (
    Conditions,
    Subslices,
    conditions_of,
    span_of,
    subslices_before_pivot,
    subslices_in_lots,
)
from cetdsl.kernels.machine.program import Tables, build_tables, lay_out
from cetdsl.kernels.machine.propagate import Accumulators, keeping_none, propagate
from cetdsl.kernels.machine.totals import add_up, asks_for_totals
from cetdsl.kernels.numbers.ladder import ADDED_ALONE, MULTIPLIED_ALONE, WEIGHED, likely_beyond
from cetdsl.kernels.numbers.scaled import Objects, Scaled
from cetdsl.kernels.vocabulary import Events, Ints, Slices
from cetdsl.kernels.wire.values import ValueColumn


class Evaluator:
    """Evaluates one query over chunk after chunk of sorted events."""

    def __init__(self, spec: KernelSpec) -> None:
        self.spec = spec
        self._guarded = GuardedMachine(spec)
        self._machine = with_orders(self._guarded.machine)
        self.layout = lay_out(self._machine)
        self._cuts = fits_in_halves(spec) and has_second_core()
        self.lattice, self.longest = extreme_accumulators(spec), longest_trend(spec.query.machine)
        self.span = span_of(spec.query)

    def evaluate(self, events: Events, columns: list[ValueColumn], slices: Slices, bounds: tuple[Ints, Ints]) -> Values:
        """Computes all accumulators over all slices."""
        events, before, until = self._guarded.with_guards(events)
        conditions = conditions_of(self.spec.query, events, before, until, self._guarded.anchors(events))
        halves = self._halves(events, slices)
        tables = build_tables(self.layout, events) if len(halves) < len(slices.low) else None

        def together(lot: Slices, bounds: tuple[Ints, Ints]) -> Values:
            subslices = subslices_before_pivot(self.spec.query, lot, events, bounds)
            job = _Job(self, events, tables, halves, conditions, subslices, columns, len(lot.low))
            scaled, exact = job.additive()
            return Values(scaled[0].real != 0, exact, scaled, job.extremes())

        if self.spec.query.pivot < 0:
            # Subslices are few: one per slice or, with a span, one per event with which a trend may begin.
            return together(slices, bounds)
        return in_lots(slices, bounds, together, most_pivots(len(events.time)))

    @cached_property
    def _halved(self) -> HalvedMachine:
        """The machine in both directions, which only long slices need."""
        return HalvedMachine(self._machine)

    def _halves(self, events: Events, slices: Slices) -> dict[int, HalvedSlice]:
        """Returns the slices that are worth a second thread, by their numbers."""
        if not self._cuts:
            return {}
        long = np.flatnonzero(slices.high - slices.low >= LONG_KEY).tolist()
        return {row: HalvedSlice(self._halved, events, int(slices.low[row]), int(slices.high[row])) for row in long}


class _Job(NamedTuple):
    """One evaluation of ``slices`` slices, whose passes share events, tables and subslices.

    If there is a pivot, each pass divides the ``subslices`` into one per event that may be the pivot.
    """

    evaluator: Evaluator
    events: Events
    tables: Tables | None
    halves: dict[int, HalvedSlice]
    conditions: Conditions
    subslices: Subslices
    columns: list[ValueColumn]
    slices: int

    def _pass(
        self, accumulators: Accumulators, subslices: Subslices, zero: Any, one: NDArray[Any], prime: Any
    ) -> NDArray[Any]:
        evaluator, events, program = self.evaluator, self.events, self.evaluator.layout.program
        out = np.full((self.slices, len(one)), zero)
        if self.halves:
            subslices = self._in_halves(subslices, Pass(accumulators, zero, one, prime), out)
        if self.tables is None:
            return out
        if asks_for_totals(program, self.conditions):
            add_up(program, events.mask, events.instant, accumulators, subslices, zero, one, prime, out)
            return out
        # With a span the guards before a trend are judged at its end, so there is a pass for each first state.
        guarded = evaluator.span > 0 and any(guards for _, guards in evaluator.spec.query.machine.initial)
        states = [s for s, _ in evaluator.spec.query.machine.initial] if guarded else [-1]
        about_pivot = subslices_in_lots(evaluator.spec.query, events, subslices, most_pivots(len(events.time)))
        for some, state in ((some, state) for some in about_pivot for state in states):
            propagate(
                program,
                self.tables,
                events,
                self.conditions,
                accumulators,
                some,
                zero,
                one,
                prime,
                state,
                False,
                out,
                np.zeros(0, dtype=one.dtype),
                keeping_none(program, one),
            )
        return out

    def _in_halves(self, subslices: Subslices, wanted: Pass, out: NDArray[Any]) -> Subslices:
        """Adds the values of the long slices to ``out``, and returns the other subslices."""
        long = np.isin(subslices.window, list(self.halves))
        for row in subslices.window[long]:
            self.halves[row].add_to(out[row], wanted)
        return subslices.rows(~long)

    def _some_subslices(self, rows: Ints) -> Subslices:
        wanted = np.zeros(self.slices, dtype=np.bool_)
        wanted[rows] = True
        return self.subslices.rows(wanted[self.subslices.window])

    def additive(self) -> tuple[list[Scaled], list[Objects | None]]:
        """Returns scaled values of the additive accumulators, and whole ones where the number form is exact."""
        sizes = np.zeros(self.slices, dtype=np.int64)
        np.maximum.at(sizes, self.subslices.window, self.subslices.high - self.subslices.low)

        def added(accumulators: Accumulators, rows: Ints, kind: Any, prime: Any) -> NDArray[Any]:
            one = only_trends(len(accumulators.bound), kind)
            return self._pass(accumulators, self._some_subslices(rows), kind(0), one, prime)[rows]

        count = len(self.events.time)
        long = likely_beyond(sizes, self.evaluator.longest)
        moduli = (MULTIPLIED_ALONE if self.halves else ADDED_ALONE, WEIGHED)
        return additive_values(self.evaluator.spec, self.columns, count, long, added, moduli)

    def extremes(self) -> list[Ints]:
        """Computes the accumulators that keep an extreme, which are numbers of the lattice."""
        lattice = self.evaluator.lattice
        if not lattice:
            return []
        count = len(self.events.time)
        kept = [kept_of(accumulator, self.columns, count) for accumulator in lattice]
        bound = np.array([-1, *(accumulator.bound for accumulator in lattice)])
        how = np.array([-1, *(one.how for one in kept)])
        weights = np.array([np.zeros(count, dtype=np.int64), *(one.weights for one in kept)])
        begun = np.array([0, *(one.one for one in kept)], dtype=np.int64)
        out = self._pass(Accumulators(bound, how, weights), self.subslices, np.int64(-1), begun, np.int64(0))
        return [one.restored(found) for one, found in zip(kept, out.T[1:])]
