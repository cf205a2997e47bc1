"""Evaluates all accumulators over all slices of a chunk, exactly where that is asked for."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cetdsl.aggregates.vocabulary import Merge, Total
from cetdsl.ir.kernel import KernelSpec
from cetdsl.kernels.answers.tables import Values, additive_accumulators, extreme_accumulators
from cetdsl.kernels.enumerate.guards import GuardedMachine
from cetdsl.kernels.machine.conditions import Conditions, Subslices, conditions_of, span_of, subslices_of
from cetdsl.kernels.machine.program import Tables, build_tables, lay_out
from cetdsl.kernels.machine.propagate import Accumulators, propagate
from cetdsl.kernels.numbers.arithmetic import ADD, RAISE_TO
from cetdsl.kernels.numbers.ladder import ADDED_ALONE, DECIMAL_BITS, FEW_EVENTS, WEIGHED, exact, rounded
from cetdsl.kernels.numbers.scaled import Objects, Scaled
from cetdsl.kernels.vocabulary import Events, Ints, Slices
from cetdsl.kernels.wire.values import ValueColumn

#: Longer than any trend; shortest lengths are kept as this minus the length, so that the maximum finds them.
_LONG = 2**60


class Evaluator:
    """Evaluates one query over chunk after chunk of sorted events."""

    def __init__(self, spec: KernelSpec) -> None:
        self.spec = spec
        self._guarded = GuardedMachine(spec)
        self.layout = lay_out(self._guarded.machine)
        self.additive = additive_accumulators(spec)
        self.lattice = extreme_accumulators(spec)
        self.span = span_of(spec.query)

    def evaluate(self, events: Events, columns: list[ValueColumn], slices: Slices, bounds: tuple[Ints, Ints]) -> Values:
        """All accumulators over all slices."""
        events, before, until = self._guarded.with_guards(events)
        tables, conditions = build_tables(self.layout, events), conditions_of(self.spec.query, events, before, until)
        subslices = subslices_of(self.spec.query, slices, events, bounds)
        job = _Job(self, events, tables, conditions, subslices, columns, len(slices.low))
        scaled, exact = job.additive()
        return Values(scaled[0].real != 0, exact, scaled, job.extremes())


def whole_accumulators(spec: KernelSpec, columns: list[ValueColumn]) -> list[int]:
    """Returns the additive accumulators that are also computed as whole numbers."""
    accumulators = enumerate(additive_accumulators(spec)) if spec.answer.exact else ()
    return [
        k for k, accumulator in accumulators if accumulator.update.power == 0 or columns[accumulator.column].is_exact
    ]


def most_bits(spec: KernelSpec) -> NDArray[np.float64]:
    """Returns the bits beyond which additive accumulators are not exact: a count that no decimal holds is an error."""
    counted = {output.value for output in spec.answer.outputs if isinstance(output.finish, Total)}
    bounded = counted if spec.answer.number == "decimal" else set()
    additive = [(k, accumulator) for k, accumulator in enumerate(spec.answer.accumulators) if accumulator.is_additive]
    return np.array([DECIMAL_BITS if k in bounded and one.update.power == 0 else np.inf for k, one in additive])


def _only_trends(accumulators: int, kind: Any) -> NDArray[Any]:
    """Returns the accumulators of a trend without events: its count is one, and its sums are zero."""
    one = np.zeros(accumulators, dtype=kind)
    one[0] = 1
    return one


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
        evaluator = self.evaluator
        out = np.full((self.slices, len(one)), zero)
        # With a span the gap before a trend is judged at its end, and so per guarded first state.
        guarded = evaluator.span > 0 and any(guards for _, guards in evaluator.spec.query.machine.initial)
        for state in [s for s, _ in evaluator.spec.query.machine.initial] if guarded else [-1]:
            propagate(
                evaluator.layout.program,
                self.tables,
                self.events,
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
        spec, additive = self.evaluator.spec, self.evaluator.additive
        whole = whole_accumulators(spec, self.columns)
        signed = [k for k in whole if additive[k].update.may_cancel]
        weights = np.ones((len(additive) + len(signed), len(self.events.time)))
        for k, accumulator in enumerate(additive):
            if accumulator.column >= 0:
                weights[k] = self.columns[accumulator.column].weights(accumulator.update, k in whole)
        # Sums may cancel out, so their magnitudes are found apart.
        weights[len(additive) :] = np.abs(weights[signed])
        accumulators = self._accumulators([*range(len(additive)), *signed], weights)

        def added(kind: Any, rows: Ints) -> NDArray[Any]:
            return self._pass(
                accumulators, self._some_subslices(rows), kind(0), _only_trends(len(weights), kind), np.float64(0)
            )[rows]

        sizes = np.zeros(self.slices, dtype=np.int64)
        np.maximum.at(sizes, self.subslices.window, self.subslices.high - self.subslices.low)
        scaled = rounded(added, sizes > FEW_EVENTS, len(weights))
        found: list[Objects | None] = [None] * len(additive)
        if whole:
            largest = [len(additive) + signed.index(k) if k in signed else k for k in whole]
            moduli = ADDED_ALONE if len(whole) == 1 else WEIGHED
            limits = most_bits(spec)[whole]
            table = exact(partial(self._residues, whole), scaled[:, whole], scaled[:, largest], limits, moduli)
            for position, k in enumerate(whole):
                found[k] = table[:, position]
        return [scaled[:, k] for k in range(len(additive))], found

    def _accumulators(self, numbers: list[int], weights: NDArray[Any]) -> Accumulators:
        """Returns the additive accumulators of some numbers, which may repeat; the first has no weights."""
        variable = np.array([self.evaluator.additive[k].variable for k in numbers], dtype=np.int64)
        return Accumulators(variable, np.array([-1] + [0] * (len(numbers) - 1), dtype=np.int64), weights)

    def _residues(self, whole: list[int], rows: Ints, primes: NDArray[np.uint64]) -> NDArray[np.uint64]:
        (prime,) = primes
        weights = np.ones((len(whole), len(self.events.time)), dtype=np.uint64)
        for position, k in enumerate(whole):
            accumulator = self.evaluator.additive[k]
            if accumulator.column >= 0:
                weights[position] = self.columns[accumulator.column].residues(accumulator.update, int(prime))
        accumulators, one = self._accumulators(whole, weights), _only_trends(len(whole), np.uint64)
        return self._pass(accumulators, self._some_subslices(rows), np.uint64(0), one, prime)[rows, :, None]

    def extremes(self) -> list[Ints]:
        """The lattice accumulators."""
        lattice = self.evaluator.lattice
        if not lattice:
            return []
        rows, how, one, variable = [np.zeros(len(self.events.time), dtype=np.int64)], [-1], [0], [-1]
        # The smallest is found as what is left of a bound at most; lengths may be 0 then, ranks not.
        least, bound = [0], [0]
        for accumulator in lattice:
            largest = accumulator.update.merge is Merge.LARGEST
            variable.append(accumulator.variable)
            how.append(ADD if accumulator.is_length else RAISE_TO)
            if accumulator.is_length:
                rows.append(np.full(len(self.events.time), 1 if largest else -1, dtype=np.int64))
                least.append(0)
                bound.append(_LONG)
            else:
                ranks, values = self.columns[accumulator.column].ranks()
                rows.append(ranks if largest else np.where(ranks > 0, len(values) + 1 - ranks, 0))
                least.append(1)
                bound.append(len(values) + 1)
            one.append(0 if largest or not accumulator.is_length else _LONG)
        accumulators = Accumulators(np.array(variable), np.array(how), np.array(rows))
        out = self._pass(accumulators, self.subslices, np.int64(-1), np.array(one, dtype=np.int64), np.int64(0))
        for k, accumulator in enumerate(lattice, 1):
            if accumulator.update.merge is not Merge.LARGEST:
                out[:, k] = np.where(out[:, k] >= least[k], bound[k] - out[:, k], out[:, k])
        return list(out.T[1:])
