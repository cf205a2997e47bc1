"""The values of all lanes over all slices of a chunk, exact where that is asked for."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import attrs
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cetdsl.ir.kernel import KernelQuery, KernelSpec
from cetdsl.ir.windowing import SPAN
from cetdsl.kernels.aggregate.propagate import Conditions, Lanes, Runs, propagate
from cetdsl.kernels.machine.program import OPERATORS, Layout, Tables, build_tables, lay_out, lower_guards
from cetdsl.kernels.numbers.arithmetic import ADD, RAISE_TO
from cetdsl.kernels.numbers.ladder import ADDED_ALONE, DECIMAL_BITS, FEW_EVENTS, WEIGHED, exact, rounded
from cetdsl.kernels.numbers.scaled import Objects, Scaled
from cetdsl.kernels.vocabulary import Events, Ints, Slices
from cetdsl.kernels.wire.columns import from_numpy, order_codes, unscaled_integers, validity, weights_of
from cetdsl.kernels.wire.windows import NEVER, pivot_runs, span_runs
from cetdsl.pattern.expressions import MIRRORED

#: Longer than any trend; shortest lengths are kept as this minus the length, so that the maximum finds them.
_LONG = 2**60
_NO_INTS = np.zeros(0, dtype=np.int64)


class Values(NamedTuple):
    """The lanes' values for each slice.

    Attributes
    ----------
    found : bool array, shape (slices,)
        Whether there is a trend at all.
    exact : list of object array or None
        Per additive lane the exact whole numbers (of the last digit of a decimal), if they are wanted.
    scaled : list of complex array
        Per additive lane ``mantissa + exponent * 1j``.
    extremes : list of int64 array
        Per lattice lane an index into ``decoders``' values, or a length; -1 for none.
    """

    found: NDArray[np.bool_]
    exact: list[Objects | None]
    scaled: list[Scaled]
    extremes: list[Ints]


class ValueColumn:
    """A column that aggregates run over, converted on first use."""

    def __init__(self, array: pa.Array) -> None:
        self.array = array
        self._ranked: tuple[Ints, pa.Array] | None = None

    @property
    def is_exact(self) -> bool:
        """Whether sums of the column are whole numbers of its last digit."""
        return bool(pa.types.is_integer(self.array.type) or pa.types.is_decimal(self.array.type))

    def doubles(self) -> NDArray[np.float64]:
        """The values as doubles, in units of a decimal's last digit; NULL is 0."""
        if pa.types.is_decimal(self.array.type):
            return np.array(unscaled_integers(self.array), dtype=np.float64)
        return weights_of(self.array)[0]

    def present(self) -> NDArray[np.float64]:
        """1 where the value is not NULL."""
        present: NDArray[np.float64] = validity(self.array).astype(np.float64)
        return present

    def residues(self, prime: int) -> NDArray[np.uint64]:
        """The whole numbers modulo a prime."""
        whole = unscaled_integers(self.array)
        if isinstance(whole, list):
            return np.array([value % prime for value in whole], dtype=np.uint64)
        return (whole % np.int64(prime)).astype(np.uint64)

    def ranks(self) -> tuple[Ints, pa.Array]:
        """Ranks from 1 (0 for NULL), and the value of each rank."""
        if self._ranked is None:
            codes, valid = order_codes([self.array])
            _, first, inverse = np.unique(codes[0], return_index=True, return_inverse=True)
            # Where NULLs share a code with a value, the value must be the one that represents it.
            present = np.nonzero(valid[0])[0]
            first[inverse[present]] = present
            ranks = np.where(valid[0], inverse.reshape(-1) + 1, 0)
            self._ranked = ranks.astype(np.int64), self.array.take(from_numpy(first))
        return self._ranked


class Evaluator:
    """Evaluates one query over chunk after chunk of sorted events."""

    def __init__(self, spec: KernelSpec) -> None:
        self.spec = spec
        self.machine = lower_guards(spec.query.machine, spec.layout.codes)
        self.layout = lay_out(self.machine)
        self.negations = [lay_out(lower_guards(n.machine, spec.layout.codes)) for n in spec.query.negations]
        self.additive = [lane for lane in spec.answer.lanes if lane.kind in ("count", "sum")]
        self.lattice = [lane for lane in spec.answer.lanes if lane.kind not in ("count", "sum")]
        self.span = spec.query.windowing.length if spec.query.windowing.kind == SPAN else 0
        self.begin_guards = sorted({guards for _, guards in spec.query.machine.initial})

    # ------------------------------------------------------------------------------------------ preparation

    def with_guards(self, events: Events) -> tuple[Events, Ints, Ints]:
        """The events with the instant and each negation's latest start as further code columns."""
        if not self.spec.query.negations:
            return events, np.zeros((0, 0), dtype=np.int64), np.zeros((0, 0), dtype=np.int64)
        count = len(events.time)
        shape = (len(self.negations), count)
        before, until = np.full(shape, -1, dtype=np.int64), np.full(shape, -1, dtype=np.int64)
        for number, layout in enumerate(self.negations):
            pairs = self.spec.query.negations[number].pairs
            latest = self._enumerated_starts(number, events) if pairs else self._latest_starts(layout, events)
            before[number], until[number] = _running_latest(events, latest)
        codes = np.concatenate([events.codes.reshape(-1, count), events.instant[None, :], before])
        valid = np.concatenate(
            [events.valid.reshape(-1, count), np.ones((1 + len(self.negations), count), dtype=np.bool_)]
        )
        return events._replace(codes=codes, valid=valid), before, until

    def _latest_starts(self, layout: Layout, events: Events) -> Ints:
        """For each event the latest start of a match of the negated pattern that ends with it; -1: none."""
        count = len(events.time)
        trace = np.full(count, -1, dtype=np.int64)
        segments = len(events.segment_start) - 1
        low, high = events.segment_start[:-1], events.segment_start[1:]
        nowhere = np.full(segments, -1, dtype=np.int64)
        runs = Runs(low, high, nowhere, np.zeros(segments, dtype=np.int64), low)
        lanes = Lanes(np.array([-1]), np.array([-1]), np.zeros((1, count), dtype=np.int64))
        propagate(
            layout.program,
            build_tables(layout, events),
            events,
            NO_CONDITIONS,
            lanes,
            runs,
            np.int64(-1),
            np.zeros(1, dtype=np.int64),
            np.int64(0),
            -1,
            True,
            np.full((1, 1), -1, dtype=np.int64),
            trace,
            np.zeros((0, 0), dtype=np.int64),
        )
        return trace

    def _enumerated_starts(self, number: int, events: Events) -> Ints:
        """As :meth:`_latest_starts`, for a negated pattern whose pairwise predicates need each match as a whole."""
        # Enumeration prepares its events with an Evaluator, so the import must wait.
        from cetdsl.kernels.enumerate.search import Enumerator

        negation = self.spec.query.negations[number]
        spec = attrs.evolve(self.spec, query=KernelQuery(negation.machine, pairs=negation.pairs, pivot=negation.pivot))
        segments = len(events.segment_start) - 1
        everything = np.arange(segments, dtype=np.int64)
        low, high = events.segment_start[:-1].copy(), events.segment_start[1:].copy()
        slices = Slices(low, high, everything, np.zeros_like(low), everything, int(high[-1]), NEVER)
        bounds = np.full(segments, NEVER), np.full(segments, -NEVER)
        latest = np.full(len(events.time), -1, dtype=np.int64)
        for block in Enumerator(spec).enumerate(events, slices, bounds):
            begin, end = block.event[block.start[:-1]], block.event[block.start[1:] - 1]
            np.maximum.at(latest, end, events.instant[begin])
        return latest

    def conditions(self, events: Events, before: Ints, until: Ints) -> Conditions:
        """What restricts begins and ends of trends in these events."""
        pairs = []
        for pair in self.spec.query.pairs:
            if pair.right_variable == self.spec.query.pivot or pair.left_variable != self.spec.query.pivot:
                pairs.append((OPERATORS[pair.op], pair.left_variable, pair.left, pair.right))
            else:
                pairs.append((OPERATORS[MIRRORED[pair.op]], pair.right_variable, pair.right, pair.left))
        instant_time = _NO_INTS
        if self.span and self.spec.query.negations:
            instant_time = np.zeros(int(events.instant[-1]) + 1, dtype=np.int64)
            instant_time[events.instant] = events.time
        pivot = -2 if self.span or (self.spec.query.pivot >= 0 and self.pivot_begins) else self.spec.query.pivot
        table = np.array(pairs, dtype=np.int64).reshape(-1, 4)
        return Conditions(pivot, table, before, until, instant_time, self.span)

    @property
    def pivot_begins(self) -> bool:
        """Whether every trend begins with the pivot variable."""
        return all(
            self.spec.query.machine.variables[state] == self.spec.query.pivot
            for state, _ in self.spec.query.machine.initial
        )

    def runs(self, slices: Slices, events: Events, bounds: tuple[Ints, Ints]) -> Runs:
        """One run per slice, or per slice and pivot."""
        beginning = 0
        for state, _ in self.spec.query.machine.initial:
            beginning |= 1 << self.spec.query.machine.variables[state]
        if self.span:
            arguments = (self.span, *bounds)
            spans = span_runs(slices.low, slices.high, events.mask, events.time, beginning, *arguments)
            return Runs(*spans, slices.low[spans[3]])
        if self.spec.query.pivot >= 0:
            wanted = 1 << self.spec.query.pivot
            pivots = pivot_runs(slices.low, slices.high, events.mask, wanted, self.pivot_begins)
            return Runs(*pivots, slices.low[pivots[3]])
        count = len(slices.low)
        nowhere = np.full(count, -1, dtype=np.int64)
        return Runs(slices.low, slices.high, nowhere, np.arange(count, dtype=np.int64), slices.low)

    # ------------------------------------------------------------------------------------------- evaluation

    def evaluate(self, events: Events, columns: list[ValueColumn], slices: Slices, bounds: tuple[Ints, Ints]) -> Values:
        """All lanes over all slices."""
        events, before, until = self.with_guards(events)
        job = _Job(
            self,
            events,
            build_tables(self.layout, events),
            self.conditions(events, before, until),
            self.runs(slices, events, bounds),
            columns,
            len(slices.low),
        )
        scaled, exact = job.additive()
        extremes = job.extremes()
        return Values(scaled[0].real != 0, exact, scaled, extremes)


NO_CONDITIONS = Conditions(
    -1,
    np.zeros((0, 4), dtype=np.int64),
    np.zeros((0, 0), dtype=np.int64),
    np.zeros((0, 0), dtype=np.int64),
    _NO_INTS,
    0,
)


def _running_latest(events: Events, latest: Ints) -> tuple[Ints, Ints]:
    """Latest starts of matches that end before, and at or before, each event, within its key."""
    before, until = np.empty_like(latest), np.empty_like(latest)
    for first, last in zip(events.segment_start[:-1], events.segment_start[1:], strict=True):
        running = np.maximum.accumulate(latest[first:last])
        instant = events.instant[first:last]
        # All events of an instant see the same: the last of the instant, or the last of the one before.
        start = np.searchsorted(instant, instant)
        end = np.searchsorted(instant, instant, side="right")
        until[first:last] = running[end - 1]
        before[first:last] = np.where(start > 0, running[np.maximum(start - 1, 0)], -1)
    return before, until


def whole_lanes(spec: KernelSpec, columns: list[ValueColumn]) -> list[int]:
    """The additive lanes that whole numbers are kept of."""
    additive = [lane for lane in spec.answer.lanes if lane.kind in ("count", "sum")]
    kept = [k for k, lane in enumerate(additive) if lane.kind == "count" or columns[lane.column].is_exact]
    return kept if spec.answer.exact else []


def most_bits(spec: KernelSpec) -> NDArray[np.float64]:
    """Of each additive lane the bits beyond which it is not worked out: a count that no decimal holds is an error."""
    counted = {output.numerator for output in spec.answer.outputs if output.function == "count"}
    additive = [k for k, lane in enumerate(spec.answer.lanes) if lane.kind in ("count", "sum")]
    decimal = spec.answer.number == "decimal"
    return np.array([DECIMAL_BITS if decimal and k in counted else np.inf for k in additive])


def _only_trends(lanes: int, kind: Any) -> NDArray[Any]:
    """The lanes of a trend that has no event yet: it counts, and adds up to nothing."""
    one = np.zeros(lanes, dtype=kind)
    one[0] = 1
    return one


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

    def _some_runs(self, rows: Ints) -> Runs:
        wanted = np.zeros(self.slices, dtype=np.bool_)
        wanted[rows] = True
        chosen = wanted[self.runs.window]
        return Runs(*(column[chosen] for column in self.runs))

    def additive(self) -> tuple[list[Scaled], list[Objects | None]]:
        """Scaled values of the additive lanes, and exact ones where the number form is exact."""
        spec, additive = self.evaluator.spec, self.evaluator.additive
        whole = whole_lanes(spec, self.columns)
        signed = [k for k in whole if additive[k].kind == "sum"]
        weights = np.ones((len(additive) + len(signed), len(self.events.time)))
        for k, lane in enumerate(additive):
            if lane.column >= 0:
                column = self.columns[lane.column]
                weights[k] = column.present() if lane.kind == "count" else column.doubles()
        # Sums may cancel out, so their magnitudes are found apart.
        weights[len(additive) :] = np.abs(weights[signed])
        lanes = self._lanes([*range(len(additive)), *signed], weights)

        def run(kind: Any, rows: Ints) -> NDArray[Any]:
            return self._pass(lanes, self._some_runs(rows), kind(0), _only_trends(len(weights), kind), np.float64(0))[
                rows
            ]

        sizes = np.zeros(self.slices, dtype=np.int64)
        np.maximum.at(sizes, self.runs.window, self.runs.high - self.runs.low)
        scaled = rounded(run, sizes > FEW_EVENTS, len(weights))
        found: list[Objects | None] = [None] * len(additive)
        if whole:
            largest = [len(additive) + signed.index(k) if k in signed else k for k in whole]
            moduli = ADDED_ALONE if len(whole) == 1 else WEIGHED
            limits = most_bits(spec)[whole]
            table = exact(partial(self._residues, whole), scaled[:, whole], scaled[:, largest], limits, moduli)
            for position, k in enumerate(whole):
                found[k] = table[:, position]
        return [scaled[:, k] for k in range(len(additive))], found

    def _lanes(self, numbers: list[int], weights: NDArray[Any]) -> Lanes:
        """Additive lanes by number, some of them twice; the first has no weights."""
        variable = np.array([self.evaluator.additive[k].variable for k in numbers], dtype=np.int64)
        return Lanes(variable, np.array([-1] + [0] * (len(numbers) - 1), dtype=np.int64), weights)

    def _residues(self, whole: list[int], rows: Ints, primes: NDArray[np.uint64]) -> NDArray[np.uint64]:
        (prime,) = primes
        weights = np.ones((len(whole), len(self.events.time)), dtype=np.uint64)
        for position, k in enumerate(whole):
            lane = self.evaluator.additive[k]
            if lane.column >= 0:
                column = self.columns[lane.column]
                weights[position] = column.present() if lane.kind == "count" else column.residues(int(prime))
        lanes, one = self._lanes(whole, weights), _only_trends(len(whole), np.uint64)
        return self._pass(lanes, self._some_runs(rows), np.uint64(0), one, prime)[rows, :, None]

    def extremes(self) -> list[Ints]:
        """The lattice lanes."""
        lattice = self.evaluator.lattice
        if not lattice:
            return []
        rows, how, one = [np.zeros(len(self.events.time), dtype=np.int64)], [-1], [0]
        variable = [-1]
        for lane in lattice:
            variable.append(lane.variable)
            if lane.kind in ("shortest", "longest"):
                sign = 1 if lane.kind == "longest" else -1
                rows.append(np.full(len(self.events.time), sign, dtype=np.int64))
                how.append(ADD)
                one.append(0 if sign > 0 else _LONG)
                continue
            ranks, values = self.columns[lane.column].ranks()
            rows.append(ranks if lane.kind == "max" else np.where(ranks > 0, len(values) + 1 - ranks, 0))
            how.append(RAISE_TO)
            one.append(0)
        lanes = Lanes(np.array(variable), np.array(how), np.array(rows))
        out = self._pass(lanes, self.runs, np.int64(-1), np.array(one, dtype=np.int64), np.int64(0))
        results = []
        for position, lane in enumerate(lattice, 1):
            values_out = out[:, position]
            if lane.kind == "shortest":
                values_out = np.where(values_out >= 0, _LONG - values_out, -1)
            elif lane.kind == "min":
                size = len(self.columns[lane.column].ranks()[1])
                values_out = np.where(values_out > 0, size + 1 - values_out, values_out)
            results.append(values_out)
        return results
