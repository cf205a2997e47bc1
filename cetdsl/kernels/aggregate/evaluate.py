"""The values of all lanes over all slices of a chunk, exact where that is asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cetdsl.aggregates.vocabulary import Merge
from cetdsl.ir.accumulators import Lane
from cetdsl.ir.kernel import KernelSpec, is_returned_count
from cetdsl.kernels.answers.tables import Values
from cetdsl.kernels.enumerate.guards import GuardedMachine
from cetdsl.kernels.machine.conditions import Conditions, Runs, conditions_of, runs_of, span_of
from cetdsl.kernels.machine.program import Tables, build_tables, lay_out
from cetdsl.kernels.machine.propagate import Lanes, propagate
from cetdsl.kernels.numbers.arithmetic import ADD, RAISE_TO
from cetdsl.kernels.numbers.scaled import (
    Objects,
    Scaled,
    from_residues,
    nearest_whole,
    primes_below,
    to_scaled,
)
from cetdsl.kernels.vocabulary import Events, Ints, Slices
from cetdsl.kernels.wire.values import ValueColumn

#: Longer than any trend; shortest lengths are kept as this minus the length, so that the maximum finds them.
_LONG = 2**60
#: A slice with more events than this is likely to overflow doubles, so scaled numbers are used from the start.
_FEW_EVENTS = 900


class Evaluator:
    """Evaluates one query over chunk after chunk of sorted events."""

    def __init__(self, spec: KernelSpec) -> None:
        self.spec = spec
        self._guarded = GuardedMachine(spec)
        self.layout = lay_out(self._guarded.machine)
        self.additive = [lane for lane in spec.answer.lanes if lane.is_additive]
        self.lattice = [lane for lane in spec.answer.lanes if not lane.is_additive]
        self.span = span_of(spec.query)

    def evaluate(self, events: Events, columns: list[ValueColumn], slices: Slices, bounds: tuple[Ints, Ints]) -> Values:
        """All lanes over all slices."""
        events, before, until = self._guarded.with_guards(events)
        job = _Job(
            self,
            events,
            build_tables(self.layout, events),
            conditions_of(self.spec.query, events, before, until),
            runs_of(self.spec.query, slices, events, bounds),
            columns,
            len(slices.low),
        )
        scaled, exact = job.additive()
        extremes = job.extremes()
        return Values(scaled[0].real != 0, exact, scaled, extremes)


class _Job:
    """One evaluation: the passes share events, tables and runs."""

    def __init__(
        self,
        evaluator: Evaluator,
        events: Events,
        tables: Tables,
        conditions: Conditions,
        runs: Runs,
        columns: list[ValueColumn],
        slices: int,
    ) -> None:
        self.evaluator = evaluator
        self.events = events
        self.tables = tables
        self.conditions = conditions
        self.runs = runs
        self.columns = columns
        self.slices = slices

    def _pass(self, lanes: Lanes, runs: Runs, zero: Any, one: NDArray[Any], prime: Any) -> NDArray[Any]:
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
                lanes,
                runs,
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

    def _some_runs(self, wanted: NDArray[np.bool_]) -> Runs:
        chosen = wanted[self.runs.window]
        return Runs(*(column[chosen] for column in self.runs))

    def _lanes(self, weights: list[NDArray[Any]], dtype: Any, magnitudes: bool = False) -> Lanes:
        variable = [lane.variable for lane in self.evaluator.additive]
        how = [-1] + [0] * (len(variable) - 1)
        table = np.empty((len(weights), len(self.events.time)), dtype=dtype)
        for row, values in enumerate(weights[1:], 1):  # lane 0 has no weights
            table[row] = values
        extra = len(weights) - len(variable)
        if magnitudes:
            signed = self._signed()
            variable += [self.evaluator.additive[k].variable for k in signed]
            how += [0] * extra
        return Lanes(np.array(variable, dtype=np.int64), np.array(how, dtype=np.int64), table)

    def _signed(self) -> list[int]:
        """Additive lanes of exact columns that may cancel out, whose magnitude must be bounded apart."""
        return [k for k, lane in enumerate(self.evaluator.additive) if lane.update.may_cancel and self._is_whole(lane)]

    def _is_whole(self, lane: Lane) -> bool:
        """Whether whole numbers are propagated for an additive lane."""
        return self.evaluator.spec.answer.exact and (lane.update.power == 0 or self.columns[lane.column].is_exact)

    def _double_weights(self) -> list[NDArray[np.float64]]:
        weights = []
        for lane in self.evaluator.additive:
            if lane.column < 0:
                weights.append(np.broadcast_to(1.0, len(self.events.time)))
            else:
                weights.append(self.columns[lane.column].weights(lane.update, self._is_whole(lane)))
        return weights

    def additive(self) -> tuple[list[Scaled], list[Objects | None]]:
        """Scaled values of the additive lanes, and exact ones where the number form is exact."""
        evaluator = self.evaluator
        wants_exact = evaluator.spec.answer.exact
        count = len(evaluator.additive)
        weights = self._double_weights()
        signed = self._signed() if wants_exact else []
        weights += [np.abs(weights[k]) for k in signed]
        lanes = self._lanes(weights, np.float64, magnitudes=bool(signed))
        one = np.zeros(len(weights))
        one[0] = 1.0
        sizes = np.zeros(self.slices, dtype=np.int64)
        np.maximum.at(sizes, self.runs.window, self.runs.high - self.runs.low)
        long = sizes > _FEW_EVENTS
        doubles = np.zeros((self.slices, len(weights)))
        if not long.all():
            doubles = self._pass(lanes, self._some_runs(~long), np.float64(0), one, np.float64(0))
        scaled = to_scaled(doubles)
        unfit = long | ~np.isfinite(doubles).all(axis=1)
        if unfit.any():
            again = self._pass(
                lanes, self._some_runs(unfit), np.complex128(0), one.astype(np.complex128), np.float64(0)
            )
            scaled[unfit] = again[unfit]
        exact: list[Objects | None] = [None] * count
        if wants_exact:
            whole = [k for k, lane in enumerate(evaluator.additive) if self._is_whole(lane)]
            magnitude = {k: scaled[:, k] for k in whole}
            magnitude |= {k: scaled[:, count + row] for row, k in enumerate(signed)}
            table = self._exact(whole, magnitude, doubles, unfit)
            for position, k in enumerate(whole):
                exact[k] = table[:, position]
        return [scaled[:, k] for k in range(count)], exact

    def _exact(
        self,
        whole: list[int],
        magnitude: dict[int, Scaled],
        doubles: NDArray[np.float64],
        unfit: NDArray[np.bool_],
    ) -> Objects:
        """Exact values of whole-numbered lanes: from doubles where these are exact, else from residues."""
        bits = np.zeros(self.slices)
        for k in whole:
            values = magnitude[k]
            bits = np.maximum(bits, np.where(values.real != 0, values.imag, 0))
        needs = unfit | (bits > 53)
        table = np.zeros((self.slices, len(whole)), dtype=object)
        easy = np.nonzero(~needs)[0]
        if len(easy):
            table[easy] = doubles[easy][:, whole].astype(np.int64).astype(object)
        for position, k in enumerate(whole):
            # A count that can only end in the overflow error is not worked out; its magnitude is all that will be said.
            doomed = np.nonzero(self._doomed(k, magnitude[k]))[0]
            table[doomed, position] = [nearest_whole(value) for value in magnitude[k][doomed]]
            needs[doomed] = False
        hard = np.nonzero(needs)[0]
        if len(hard) == 0:
            return table
        sums = any(self.evaluator.additive[k].column >= 0 or k > 0 for k in whole)
        width = 31 if sums else 62
        rounds = int(np.ceil((bits[hard].max() + 3) / (width - 1)))
        primes = primes_below(width, max(rounds, 1))
        remaining = needs.copy()
        residues = np.zeros((len(primes), self.slices, len(whole)), dtype=np.uint64)
        for number, prime in enumerate(primes):
            remaining = needs & ((bits + 3) / (width - 1) > number)
            out = self._residues(whole, self._some_runs(remaining), prime)
            residues[number] = out
        needed = np.ceil((bits + 3) / (width - 1)).astype(np.int64)
        for rounds in np.unique(needed[hard]):
            rows = hard[needed[hard] == rounds]
            chosen = primes[: max(int(rounds), 1)]
            for position in range(len(whole)):
                table[rows, position] = from_residues(
                    [residues[number, rows, position] for number in range(len(chosen))], chosen
                )
        return table

    def _doomed(self, k: int, magnitude: Scaled) -> NDArray[np.bool_]:
        """Slices whose count is returned as a decimal, and is too large for one."""
        spec = self.evaluator.spec
        lane = spec.answer.lanes.index(self.evaluator.additive[k])
        if spec.answer.number != "decimal" or not is_returned_count(spec, lane):
            return np.zeros(self.slices, dtype=np.bool_)
        beyond: NDArray[np.bool_] = (magnitude.imag > 128) & (magnitude.real > 0)
        return beyond

    def _residues(self, whole: list[int], runs: Runs, prime: int) -> NDArray[np.uint64]:
        ones = np.ones(len(self.events.time), dtype=np.uint64)
        weights: list[NDArray[Any]] = []
        for k in whole:
            lane = self.evaluator.additive[k]
            if lane.column < 0:
                weights.append(ones)
            else:
                weights.append(self.columns[lane.column].residues(lane.update, prime))
        variable = np.array([self.evaluator.additive[k].variable for k in whole], dtype=np.int64)
        how = np.array([-1] + [0] * (len(whole) - 1), dtype=np.int64)
        one = np.zeros(len(whole), dtype=np.uint64)
        one[0] = 1
        return self._pass(Lanes(variable, how, np.array(weights)), runs, np.uint64(0), one, np.uint64(prime))

    def extremes(self) -> list[Ints]:
        """The lattice lanes."""
        lattice = self.evaluator.lattice
        if not lattice:
            return []
        rows, how, one = [np.zeros(len(self.events.time), dtype=np.int64)], [-1], [0]
        variable = [-1]
        for lane in lattice:
            variable.append(lane.variable)
            if lane.is_length:
                sign = 1 if lane.update.merge is Merge.LARGEST else -1
                rows.append(np.full(len(self.events.time), sign, dtype=np.int64))
                how.append(ADD)
                one.append(0 if sign > 0 else _LONG)
                continue
            ranks, values = self.columns[lane.column].ranks()
            rows.append(
                ranks if lane.update.merge is Merge.LARGEST else np.where(ranks > 0, len(values) + 1 - ranks, 0)
            )
            how.append(RAISE_TO)
            one.append(0)
        lanes = Lanes(np.array(variable), np.array(how), np.array(rows))
        out = self._pass(lanes, self.runs, np.int64(-1), np.array(one, dtype=np.int64), np.int64(0))
        results = []
        for position, lane in enumerate(lattice, 1):
            values_out = out[:, position]
            if lane.update.merge is Merge.LARGEST:
                pass
            elif lane.is_length:
                values_out = np.where(values_out >= 0, _LONG - values_out, -1)
            else:
                size = len(self.columns[lane.column].ranks()[1])
                values_out = np.where(values_out > 0, size + 1 - values_out, values_out)
            results.append(values_out)
        return results
