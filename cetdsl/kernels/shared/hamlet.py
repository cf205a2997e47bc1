"""Shared online trend aggregation: many queries over a chunk of events in one pass (Hamlet, SIGMOD 2021).

The queries' machines are merged into one template; what their Kleene states have in common is propagated once. Whether
a query shares is decided burst by burst (:mod:`~cetdsl.kernels.shared.benefit`), and what is decided is written down
once (:mod:`~cetdsl.kernels.shared.bursts`) and then carried out in each number system
(:mod:`~cetdsl.kernels.shared.snapshots`). Queries that cannot take part are evaluated by themselves in the same call.
The answers are those of each query alone.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cetdsl.aggregates.vocabulary import Update
from cetdsl.ir.accumulators import Lane
from cetdsl.ir.kernel import KernelSpec, is_returned_count, pays_in_panes
from cetdsl.kernels.aggregate.evaluate import Evaluator
from cetdsl.kernels.aggregate.panes import PanesEvaluator
from cetdsl.kernels.answers.tables import Values
from cetdsl.kernels.numbers.linear import LIMB_BITS, PRIME_BITS, System, Weights
from cetdsl.kernels.numbers.residues import inverses, powers_of_two, prime_numbers, primes_for, whole_numbers
from cetdsl.kernels.numbers.scaled import Objects, Scaled, to_scaled
from cetdsl.kernels.shared.benefit import DOUBLES, ONCE, RESIDUES, SCALED, Decisions, decide, once
from cetdsl.kernels.shared.bursts import (
    ALONE,
    BOUND,
    DECISION_EVENTS,
    DEVIATIONS,
    NEVER,
    SEATS,
    SHARED,
    Frame,
    Modes,
    Survey,
    Tape,
    frame_of,
    survey,
    write_tape,
)
from cetdsl.kernels.shared.snapshots import Cells, cells_of, play
from cetdsl.kernels.shared.template import BITS, Template, merge_machines, why_not_shared
from cetdsl.kernels.vocabulary import Events, Ints, Slices
from cetdsl.kernels.wire.values import ValueColumn

#: How it is decided whether to share.
SHARINGS = ("dynamic", "static", "always", "never")
#: A slice with more events than this is likely to overflow doubles, so scaled numbers are used from the start.
_FEW_EVENTS = 900
#: Fewer queries whose windows are products of panes are not worth a template, where that is ours to decide: of 20,000
#: events in 4 to 256 windows each, two queries took 1.3 to 13 times as long by template as by panes, ten as long.
_FEW_IN_PANES = 6
#: Primes that a tape is played for at once.
_LOCKSTEP = 16
#: What work costs over all passes of a chunk, where one pass is all.
_IN_DOUBLES, _IN_SCALED = DOUBLES.of_passes(1, ONCE), SCALED.of_passes(1, ONCE)


class Metrics(NamedTuple):
    """What was done, and what was decided.

    Attributes
    ----------
    queries, unshared : int
        Queries of the merged template, and those evaluated by themselves.
    bursts : int
        Bursts of the variables that Kleene states read.
    shared, split : int
        Graphlets that several variants propagated as one, and graphlets of one variant's own.
    splits, merges : int
        How often a variant left its family's graphlet for a stretch of bursts, and joined it again.
    snapshots, event_snapshots : int
        Snapshots of columns taken because what leads to the graphlet had changed or its total was read, and because a
        single event was not for all variants.
    propagated : int
        Events whose coefficients were propagated for several columns at once.
    decisions : int
    deciding, seconds : float
        Seconds spent on decisions, and in all.
    """

    queries: int = 0
    unshared: int = 0
    bursts: int = 0
    shared: int = 0
    split: int = 0
    splits: int = 0
    merges: int = 0
    snapshots: int = 0
    event_snapshots: int = 0
    propagated: int = 0
    decisions: int = 0
    deciding: float = 0.0
    seconds: float = 0.0

    def plus(self, other: Metrics) -> Metrics:
        """The metrics of two calls together: sums, but for the numbers of queries."""
        sums = (own + more for own, more in zip(self[2:], other[2:]))
        return Metrics(max(self.queries, other.queries), max(self.unshared, other.unshared), *sums)  # type: ignore[arg-type]


class WorkloadEvaluator:
    """Evaluates a workload over chunk after chunk of sorted events.

    Parameters
    ----------
    specs : sequence of KernelSpec
        Their masks, codes, values and lists are numbered together.
    sharing : {"dynamic", "static", "always", "never"}
        Whether queries share is decided for each burst, once (from ``deviations`` and the first chunk), or not at all.
    families : mapping of int to int, optional
        Variables whose conditions differ by constants alone have equal numbers here.
    deviations : sequence of (float or None), optional
        For static sharing, per query: the share of the events of its Kleene patterns at which it does otherwise than
        most queries; None where the first chunk is to tell.
    """

    def __init__(
        self,
        specs: Sequence[KernelSpec],
        sharing: str = "dynamic",
        families: Mapping[int, int] | None = None,
        deviations: Sequence[float | None] | None = None,
    ) -> None:
        if sharing not in SHARINGS:
            raise ValueError(f"sharing is one of {', '.join(SHARINGS)}, not {sharing!r}")
        self.specs = tuple(specs)
        self.sharing = sharing
        self.families = dict(families or {})
        self.deviations = tuple(deviations or [None] * len(self.specs))
        self.reasons = tuple(why_not_shared(spec) for spec in self.specs)
        self._in_panes = tuple(map(pays_in_panes, self.specs))
        self._alone: dict[KernelSpec, Evaluator | PanesEvaluator] = {}
        self._sets: dict[tuple[int, ...], _SharedSet] = {}

    def evaluate(
        self,
        events: Events,
        columns: list[ValueColumn],
        slices: Sequence[Slices],
        bounds: Sequence[tuple[Ints, Ints]],
    ) -> tuple[list[Values], Metrics]:
        """All lanes of all queries over their slices.

        Parameters
        ----------
        slices, bounds : sequences, one entry per query
            As :meth:`cetdsl.kernels.aggregate.evaluate.Evaluator.evaluate` takes them.
        """
        begun = time.perf_counter()
        members = self._members(columns, slices)
        found: dict[int, Values] = {}
        metrics = Metrics(unshared=len(self.specs) - len(members))
        if members:
            if members not in self._sets:
                specs = [self.specs[q] for q in members]
                deviations = [self.deviations[q] for q in members]
                self._sets[members] = _SharedSet(specs, self.sharing, self.families, deviations)
            answers, done = self._sets[members].evaluate(events, columns, [slices[q] for q in members])
            metrics = metrics.plus(done)
            found = dict(zip(members, answers))
        for q, spec in enumerate(self.specs):
            if q not in found:
                found[q] = self._by_itself(spec).evaluate(events, columns, slices[q], bounds[q])
            elif not all(lane.is_additive for lane in spec.answer.lanes):
                extremes = [lane for lane in spec.answer.lanes if not lane.is_additive]
                rest = spec.with_answer(lanes=(spec.answer.lanes[0], *extremes), exact=False)
                values = self._by_itself(rest).evaluate(events, columns, slices[q], bounds[q])
                found[q] = found[q]._replace(extremes=values.extremes)
        metrics = metrics._replace(seconds=time.perf_counter() - begun)
        return [found[q] for q in range(len(self.specs))], metrics

    def _by_itself(self, spec: KernelSpec) -> Evaluator | PanesEvaluator:
        """What evaluates a whole query, or its extremes: which of the two a query needs changes with the chunk."""
        if spec not in self._alone:
            self._alone[spec] = PanesEvaluator(spec) if pays_in_panes(spec) else Evaluator(spec)
        return self._alone[spec]

    def _members(self, columns: list[ValueColumn], slices: Sequence[Slices]) -> tuple[int, ...]:
        """The queries that take part in the merged template over this chunk."""
        infinite = {
            number
            for number in {lane.column for spec in self.specs for lane in spec.answer.lanes if _is_plain_sum(lane)}
            if not columns[number].is_exact and not np.isfinite(columns[number].doubles()).all()
        }
        members = tuple(
            q
            for q, spec in enumerate(self.specs)
            if self.reasons[q] is None
            and len(slices[q].low)
            # What is infinite or not a number does not combine linearly.
            and not any(_is_plain_sum(lane) and lane.column in infinite for lane in spec.answer.lanes)
        )
        few = len(members) < _FEW_IN_PANES and all(self._in_panes[q] for q in members)
        return () if few and self.sharing in ("dynamic", "static") else members


# ------------------------------------------------------------------------------------------------ shared queries


class _Plan(NamedTuple):
    """What one chunk's tape is made of, whatever the number system."""

    template: Template
    frame: Frame
    events: Events
    seen: Survey
    tape: Tape


class _SharedSet:
    """The queries of one merged template."""

    def __init__(
        self,
        specs: Sequence[KernelSpec],
        sharing: str,
        families: Mapping[int, int],
        deviations: Sequence[float | None],
    ) -> None:
        self.specs = specs
        self.sharing = sharing
        self.template = merge_machines(specs, families)
        self.deviations = self._of_variants(deviations)
        self.additive = [[lane for lane in spec.answer.lanes if lane.is_additive] for spec in specs]
        self._lanes = np.array([len(found) for found in self.additive], dtype=np.int64)
        self._weights = len({(lane.update, lane.column) for found in self.additive for lane in found[1:]})
        self._exact = any(spec.answer.exact for spec in specs)
        self.chosen: Modes | None = None

    def evaluate(
        self, events: Events, columns: list[ValueColumn], slices: list[Slices]
    ) -> tuple[list[Values], Metrics]:
        """The additive lanes of all queries."""
        frame = frame_of(self.template, self._by_window(slices), _FEW_EVENTS)
        seen = survey(self.template, frame, events, DECISION_EVENTS)
        begun = time.perf_counter()
        decisions = self._decide(frame, seen)
        deciding = time.perf_counter() - begun
        tape = write_tape(self.template, frame, events, seen, decisions.mode, False)
        run = _Run(self, _Plan(self.template, frame, events, seen, tape), columns, slices)
        values = run.values()
        return values, _metrics(self.template, frame, seen, decisions, deciding)

    def _by_window(self, slices: list[Slices]) -> list[Slices]:
        """The slices of each window number."""
        found: dict[int, Slices] = {}
        for number, cut in zip(self.template.window.tolist(), slices):
            known = found.setdefault(number, cut)
            if known is not cut and not (np.array_equal(known.low, cut.low) and np.array_equal(known.high, cut.high)):
                raise ValueError("queries with equal windows have different slices")
        return [found[number] for number in range(len(found))]

    def _decide(self, frame: Frame, seen: Survey) -> Decisions:
        shape = (len(seen.start), self.template.variants)
        if self.sharing == "always":
            return Decisions(np.full(shape, SHARED, dtype=np.int8), 0, 0, 0)
        if self.sharing == "never":
            return Decisions(np.full(shape, NEVER, dtype=np.int8), 0, 0, 0)
        cells, rows = self._sizes(frame)
        arguments = (self.template, frame.columns, cells, rows, seen, self._rates(frame, seen))
        if self.sharing == "dynamic":
            return decide(*arguments)
        made = 0
        if self.chosen is None:
            self.chosen, made = once(*arguments, self.deviations), self.template.variants
        return Decisions(np.broadcast_to(self.chosen, shape).copy(), made, 0, 0)

    def _of_variants(self, deviations: Sequence[float | None]) -> NDArray[np.float64]:
        """What is known beforehand of each variant: the mean over its queries; NaN where nothing is."""
        known = np.array([np.nan if part is None else part for part in deviations], dtype=np.float64)
        out = np.full(self.template.variants, np.nan)
        for v in range(self.template.variants):
            own = known[self.template.query[: self.template.repeating][self.template.variant == v]]
            if not np.isnan(own).all():
                out[v] = np.nanmean(own)
        return out

    def _sizes(self, frame: Frame) -> tuple[Ints, int]:
        """Cells of each variant, and the number of different weights that are summed up."""
        query = self.template.query[: self.template.repeating]
        slots = frame.slots[self.template.window[query]]
        cells = np.bincount(self.template.variant, self._lanes[query] * slots, self.template.variants)
        return cells.astype(np.int64), self._weights

    def _rates(self, frame: Frame, seen: Survey) -> Any:
        """What work costs over all passes that this chunk will take."""
        if not frame.long.any():
            return _IN_DOUBLES
        if not self._exact:
            return _IN_SCALED
        sizes = frame.island[:, 1] - frame.island[:, 0]
        largest, taken = sizes.max(initial=0), seen.events.sum() / max(int(sizes.sum()), 1)
        passes = np.ceil(largest * taken / (PRIME_BITS - 1) / _LOCKSTEP)
        return RESIDUES.of_passes(passes, _IN_SCALED)


def _metrics(template: Template, frame: Frame, seen: Survey, decisions: Decisions, deciding: float) -> Metrics:
    mode = decisions.mode
    bursts = seen.bursts[:, template.family]
    of_family = template.family_start[:-1]
    some = np.logical_or.reduceat(mode == SHARED, of_family, axis=1)
    follows = mode != NEVER
    return Metrics(
        queries=len(template.window),
        bursts=int(seen.bursts.sum()),
        shared=int(seen.bursts[some].sum()),
        split=int(bursts[mode != SHARED].sum()),
        splits=decisions.splits,
        merges=decisions.merges,
        snapshots=int(seen.of_variant[:, :, SEATS][follows].sum()),
        event_snapshots=int((seen.of_variant[:, :, DEVIATIONS] * frame.columns)[mode == SHARED].sum()),
        propagated=int(seen.events[some].sum() + seen.of_variant[:, :, BOUND][mode == ALONE].sum()),
        decisions=decisions.made,
        deciding=deciding,
    )


class _Run:
    """One chunk: the tape is played in as many number systems as its counts need."""

    def __init__(self, shared: _SharedSet, plan: _Plan, columns: list[ValueColumn], slices: list[Slices]) -> None:
        self.specs, self.additive = shared.specs, shared.additive
        self.plan = plan
        self.columns = columns
        self.slices = slices
        self.counts = np.array([len(cut.low) for cut in slices], dtype=np.int64)
        starts = self.plan.frame.island[:, 0]
        #: The island of each query's slices.
        self.island = [np.searchsorted(starts, cut.low, side="right") - 1 for cut in slices]

    def values(self) -> list[Values]:
        """The additive lanes of all queries."""
        scaled, doubles, unfit = self._scaled()
        exact = self._exact(scaled, doubles, unfit)
        answers = []
        for q, lanes in enumerate(self.additive):
            kept = [scaled[q][:, k] for k in range(len(lanes))]
            answers.append(Values(kept[0].real != 0, exact[q], kept, []))
        return answers

    # ------------------------------------------------------------------------------------------- rounded numbers

    def _signed(self, q: int) -> list[int]:
        """Exact lanes that may cancel out, whose magnitude must be bounded apart."""
        lanes = enumerate(self.additive[q])
        return [k for k, lane in lanes if lane.update.may_cancel and self._is_whole(q, lane)]

    def _is_whole(self, q: int, lane: Lane) -> bool:
        """Whether whole numbers are propagated for an additive lane."""
        return self.specs[q].answer.exact and (lane.update.power == 0 or self.columns[lane.column].is_exact)

    def _scaled(self) -> tuple[list[Scaled], list[NDArray[np.float64]], list[NDArray[np.bool_]]]:
        """Per query the lanes (then magnitudes) of each slice, scaled and as doubles, and where doubles do not fit."""
        plan = self.plan
        kinds = [
            [self._kind(q, lane) for lane in lanes] + [self._kind(q, lanes[k], magnitude=True) for k in self._signed(q)]
            for q, lanes in enumerate(self.additive)
        ]
        rows, needed = _weight_rows(kinds)
        weights = Weights(
            np.arange(len(needed) + 1),
            np.array([self._doubles(kind) for kind in needed]).reshape(len(needed), len(plan.events.time)),
        )
        cells = cells_of(plan.template, plan.frame, rows, self.counts)
        size = int((cells.lanes * self.counts).sum())
        long = plan.frame.long.copy()
        doubles = np.zeros((size, 1))
        self._play(cells, weights, _rounded(np.float64, plan), np.nonzero(~long)[0], doubles)
        tables = self._tables(cells, doubles[:, 0])
        for table, island in zip(tables, self.island):
            long[island[~np.isfinite(table).all(axis=1)]] = True
        scaled = to_scaled(doubles)
        if long.any():
            again = np.zeros((size, 1), dtype=np.complex128)
            self._play(cells, weights, _rounded(np.complex128, plan), np.nonzero(long)[0], again)
            for rows_of, island in zip(self._rows(cells), self.island):
                chosen = rows_of[long[island]]
                scaled[chosen] = again[chosen]
        return self._tables(cells, scaled[:, 0]), tables, [long[island] for island in self.island]

    def _kind(self, q: int, lane: Lane, magnitude: bool = False) -> tuple[int, _Kind]:
        """The variable of a lane, and what its events add."""
        return lane.variable, _Kind(lane.update, lane.column, self._is_whole(q, lane), magnitude)

    def _doubles(self, kind: _Kind) -> NDArray[np.float64]:
        if kind.column < 0:
            return np.ones(len(self.plan.events.time))
        values = self.columns[kind.column].weights(kind.update, kind.whole)
        return np.abs(values) if kind.magnitude else values

    def _rows(self, cells: Cells) -> list[Ints]:
        """Per query the rows of the answer, one line per slice."""
        return [
            cells.out_start[q] + np.arange(self.counts[q] * cells.lanes[q]).reshape(self.counts[q], cells.lanes[q])
            for q in range(len(self.specs))
        ]

    def _tables(self, cells: Cells, values: NDArray[Any]) -> list[NDArray[Any]]:
        return [values[rows] for rows in self._rows(cells)]

    def _play(self, cells: Cells, weights: Weights, system: System, islands: Ints, out: NDArray[Any]) -> None:
        if len(islands) == 0:
            return
        plan = self.plan
        play(
            plan.template,
            plan.frame,
            plan.tape,
            cells,
            weights,
            plan.events.mask,
            plan.seen.reference,
            system,
            islands,
            out,
            np.zeros((0, 0), dtype=out.dtype),
        )

    # --------------------------------------------------------------------------------------------- whole numbers

    def _exact(
        self, scaled: list[Scaled], doubles: list[NDArray[np.float64]], unfit: list[NDArray[np.bool_]]
    ) -> list[list[Objects | None]]:
        """Per query and lane the whole numbers: from doubles where these are exact, else from residues."""
        whole = [self._whole(q) for q in range(len(self.specs))]
        tables, bits = [], []
        for q, spec in enumerate(self.specs):
            table = np.zeros((self.counts[q], len(whole[q])), dtype=object)
            size = np.zeros(self.counts[q])
            tables.append(table)
            bits.append(size)
            if not spec.answer.exact:
                size[:] = -1
                continue
            magnitudes = self._magnitudes(q, scaled[q])
            for k in whole[q]:
                size[:] = np.maximum(size, np.where(magnitudes[k].real != 0, magnitudes[k].imag, 0))
            needs = unfit[q] | (size > 53)
            table[~needs] = doubles[q][~needs][:, whole[q]].astype(np.int64)
            for position, k in enumerate(whole[q]):
                # A count that can only end in the overflow error is not worked out; its magnitude is all that is said.
                doomed = self._doomed(q, k, magnitudes[k])
                table[doomed, position] = [_whole_number(value) for value in magnitudes[k][doomed]]
                needs &= ~doomed
            size[~needs] = -1
        if any((size >= 0).any() for size in bits):
            self._from_residues(whole, bits, tables)
        answers: list[list[Objects | None]] = []
        for q, spec in enumerate(self.specs):
            lanes: list[Objects | None] = [None] * len(self.additive[q])
            for position, k in enumerate(whole[q]):
                if spec.answer.exact:
                    lanes[k] = tables[q][:, position]
            answers.append(lanes)
        return answers

    def _whole(self, q: int) -> list[int]:
        """The lanes that whole numbers are kept of; the first one always, for it weighs the others."""
        return [k for k, lane in enumerate(self.additive[q]) if k == 0 or self._is_whole(q, lane)]

    def _magnitudes(self, q: int, scaled: Scaled) -> dict[int, Scaled]:
        found = {k: scaled[:, k] for k in self._whole(q)}
        count = len(self.additive[q])
        return found | {k: scaled[:, count + row] for row, k in enumerate(self._signed(q))}

    def _doomed(self, q: int, k: int, magnitude: Scaled) -> NDArray[np.bool_]:
        """Slices whose count is returned as a decimal, and is too large for one."""
        spec = self.specs[q]
        lane = spec.answer.lanes.index(self.additive[q][k])
        if spec.answer.number != "decimal" or not is_returned_count(spec, lane):
            return np.zeros(len(magnitude), dtype=np.bool_)
        beyond: NDArray[np.bool_] = (magnitude.imag > 128) & (magnitude.real > 0)
        return beyond

    def _from_residues(self, whole: list[list[int]], bits: list[NDArray[np.float64]], tables: list[Objects]) -> None:
        """Fills in the tables' rows whose size in bits is known."""
        plan = self.plan
        kinds = [[self._kind(q, self.additive[q][k]) for k in lanes] for q, lanes in enumerate(whole)]
        rows, needed = _weight_rows(kinds)
        limbs = [self._limbs(kind) for kind in needed]
        weights = Weights(
            np.cumsum([0, *map(len, limbs)]),
            np.array([limb for group in limbs for limb in group], dtype=np.int64).reshape(-1, len(plan.events.time)),
        )
        cells = cells_of(plan.template, plan.frame, rows, self.counts)
        size = int((cells.lanes * self.counts).sum())
        primes_per_row = np.zeros(size, dtype=np.int64)
        per_island = np.zeros(len(plan.frame.island), dtype=np.int64)
        for rows_of, island, needs in zip(self._rows(cells), self.island, bits):
            count = np.array([primes_for(b) if b >= 0 else 0 for b in needs], dtype=np.int64)
            primes_per_row[rows_of] = count[:, None]
            np.maximum.at(per_island, island, count)
        primes = prime_numbers(int(per_island.max()))
        found = np.zeros(size, dtype=object)
        kept: list[NDArray[np.uint64]] = []
        wanted, begin = np.nonzero(primes_per_row > 0)[0], 0
        while len(wanted):
            # Few primes at first, for most counts need no more.
            end = min(begin + min(max(2, begin), _LOCKSTEP), len(primes))
            out = np.zeros((size, end - begin), dtype=np.uint64)
            system = _modular(primes[begin:end], plan)
            self._play(cells, weights, system, np.nonzero(per_island > begin)[0], out)
            kept.append(out[wanted].T)
            done = primes_per_row[wanted] <= end
            if done.any():
                found[wanted[done]] = whole_numbers(np.concatenate([block[:, done] for block in kept]), primes[:end])
            kept = [block[:, ~done] for block in kept]
            wanted, begin = wanted[~done], end
        for q, rows_of in enumerate(self._rows(cells)):
            chosen = bits[q] >= 0
            tables[q][chosen] = found[rows_of[chosen]]

    def _limbs(self, kind: _Kind) -> list[Ints]:
        """Whole weights in pieces of :data:`LIMB_BITS` bits, the last one with the sign."""
        if kind.column < 0:
            return [np.ones(len(self.plan.events.time), dtype=np.int64)]
        values = self.columns[kind.column].whole_weights(kind.update)
        limbs = []
        while len(values) and max(-int(values.min()), int(values.max())) >= 1 << LIMB_BITS:
            limbs.append((values & ((1 << LIMB_BITS) - 1)).astype(np.int64))
            values = values >> LIMB_BITS
        return [*limbs, values.astype(np.int64)]


class _Kind(NamedTuple):
    """What events add to an accumulator, or (``magnitude``) how much at most; see :meth:`ValueColumn.weights`."""

    update: Update
    column: int
    whole: bool
    magnitude: bool


def _is_plain_sum(lane: Lane) -> bool:
    """Whether a lane adds up values as they are, the infinite ones too."""
    return lane.update.power == 1 and not lane.update.moment


def _weight_rows(kinds: list[list[tuple[int, _Kind]]]) -> tuple[list[list[list[int]]], list[_Kind]]:
    """Numbers different weights; per query, lane and variable which of them counts (-1: none)."""
    numbers: dict[_Kind, int] = {}
    rows: list[list[list[int]]] = []
    for lanes in kinds:
        of_lanes = [[-1] * BITS]  # trends have no weight
        for variable, kind in lanes[1:]:
            number = numbers.setdefault(kind, len(numbers))
            of_lanes.append([number if variable in (-1, v) else -1 for v in range(BITS)])
        rows.append(of_lanes)
    return rows, list(numbers)


def _rounded(kind: Any, plan: _Plan) -> System:
    """Doubles, or scaled numbers."""
    powers, wholes = np.arange(plan.tape.longest + 1), np.arange(max(plan.seen.largest, plan.tape.most_bound) + 2.0)
    if kind is np.float64:
        with np.errstate(over="ignore"):
            power: NDArray[Any] = np.ldexp(1.0, powers)
        whole: NDArray[Any] = wholes
    else:
        power, whole = 0.5 + (powers + 1) * 1j, to_scaled(wholes)
    nothing = np.zeros((0, 1), dtype=kind)
    one = kind(1) if kind is np.float64 else kind(0.5 + 1j)
    return System(kind(0), one, np.zeros(1, kind), np.zeros(1), power[:, None], nothing, whole[:, None], nothing)


def _modular(primes: NDArray[np.uint64], plan: _Plan) -> System:
    """Residues modulo some primes."""
    reciprocal = 1.0 / primes.astype(np.float64)
    power, halves = powers_of_two(plan.tape.longest + 1, primes)
    size = max(plan.seen.largest, plan.tape.most_bound) + 2
    whole = np.repeat(np.arange(size, dtype=np.uint64)[:, None], len(primes), axis=1)
    inverse = np.array([inverses(len(whole), prime, r) for prime, r in zip(primes, reciprocal)]).T.copy()
    return System(np.uint64(0), np.uint64(1), primes, reciprocal, power, halves, whole, inverse)


def _whole_number(value: complex) -> int:
    """The whole number nearest to a scaled one."""
    mantissa, exponent = int(value.real * 2.0**53), int(value.imag) - 53
    return mantissa << exponent if exponent >= 0 else mantissa >> -exponent
