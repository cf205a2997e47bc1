"""Shared online trend aggregation: many queries over a chunk of events in one pass (Hamlet, SIGMOD 2021).

The queries' machines are merged into one template; the Kleene states that they have in common are propagated once.
Whether a query shares is decided burst by burst (:mod:`~cetdsl.kernels.shared.benefit`), and the decisions are written
down once (:mod:`~cetdsl.kernels.shared.writer`) and then carried out in each number system
(:mod:`~cetdsl.kernels.shared.snapshots`). Over a chunk with infinite values, queries that sum them up are evaluated by
themselves in the same call. The answers are those of each query by itself.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.windowing import Windowing
from cetdsl.kernels.aggregate.evaluate import Evaluator
from cetdsl.kernels.aggregate.panes import PanesEvaluator
from cetdsl.kernels.answers.tables import Values, additive_accumulators, extreme_accumulators
from cetdsl.kernels.numbers.ladder import FEW_EVENTS, MULTIPLIED, Moduli, ResiduePass, RoundedPass
from cetdsl.kernels.numbers.linear import LIMB_BITS, System, Weights
from cetdsl.kernels.numbers.residues import Residues, inverses, powers_of_two
from cetdsl.kernels.numbers.scaled import to_scaled
from cetdsl.kernels.shared.benefit import DOUBLES, ONCE, RESIDUES, SCALED, Decisions, decide, once
from cetdsl.kernels.shared.bursts import (
    BOUND,
    DECISION_EVENTS,
    DEVIATIONS,
    SEATS,
    Frame,
    Survey,
    common_slices,
    frame_of,
    survey,
)
from cetdsl.kernels.shared.cells import Cells, cells_of
from cetdsl.kernels.shared.operations import NEVER, OWN, SHARED, Modes, Tape
from cetdsl.kernels.shared.players import Kind, Kinds, Player, rows_of, weight_rows
from cetdsl.kernels.shared.snapshots import play
from cetdsl.kernels.shared.template import BITS, Template, merge_machines
from cetdsl.kernels.shared.walkers import AbreastEvaluator
from cetdsl.kernels.shared.writer import write_tape
from cetdsl.kernels.vocabulary import Events, Ints, Slices
from cetdsl.kernels.wire.values import ValueColumn

#: What work costs over all passes of a chunk, where one pass is all.
_IN_DOUBLES, _IN_SCALED = DOUBLES.of_passes(1, ONCE), SCALED.of_passes(1, ONCE)


class Metrics(NamedTuple):
    """Counts of the work done and of the decisions made."""

    #: Queries of the merged template, and those evaluated by themselves.
    queries: int = 0
    unshared: int = 0
    #: Bursts of the variables that Kleene states read.
    bursts: int = 0
    #: Graphlets that several variants propagated as one, and graphlets of one variant's own.
    shared: int = 0
    split: int = 0
    #: How often a variant left its family's graphlet for a stretch of bursts, and joined it again.
    splits: int = 0
    merges: int = 0
    #: Snapshots of columns taken because what leads to the graphlet had changed or its total was read, ...
    snapshots: int = 0
    #: ... and because a single event was not for all variants.
    event_snapshots: int = 0
    #: Events whose coefficients were propagated for several columns at once.
    propagated: int = 0
    decisions: int = 0
    #: Seconds spent on decisions, and in all.
    deciding: float = 0.0
    seconds: float = 0.0

    def plus(self, other: Metrics) -> Metrics:
        """Returns the metrics of two calls together: sums, but for the numbers of queries."""
        sums = (own + more for own, more in zip(self[2:], other[2:]))
        return Metrics(max(self.queries, other.queries), max(self.unshared, other.unshared), *sums)  # type: ignore[arg-type]


class WorkloadEvaluator:
    """Evaluates queries that share over chunk after chunk of sorted events.

    Their masks, codes, values and lists are numbered together. Whether they share (``sharing``) is decided for each
    burst ("dynamic"), once, from ``deviations`` and the first chunk ("static"), or not at all ("always", "never").

    Parameters
    ----------
    families : mapping of int to int, optional
        Variables whose conditions differ by constants alone have equal numbers here.
    deviations : sequence of (float or None), optional
        For static sharing, per query: the share of the events of its Kleene patterns at which it does otherwise than
        most queries; None where the first chunk is to tell.
    in_panes : sequence of bool, optional
        Whether products of panes evaluate a query by itself, over a chunk in which it cannot share.
    """

    def __init__(
        self,
        specs: Sequence[KernelSpec],
        sharing: str = "dynamic",
        families: Mapping[int, int] | None = None,
        deviations: Sequence[float | None] | None = None,
        in_panes: Sequence[bool] | None = None,
    ) -> None:
        self.specs, self.sharing, self.families = tuple(specs), sharing, dict(families or {})
        self.deviations = tuple(deviations or [None] * len(self.specs))
        self.in_panes = tuple(in_panes or [False] * len(self.specs))
        self._by_itself = cache(evaluator_of)
        self._extremes = cache(AbreastEvaluator)
        self._sets: dict[tuple[int, ...], _SharedSet] = {}
        #: The queries that infinite values have kept from sharing so far.
        self.infinite: set[int] = set()

    def evaluate(
        self, events: Events, columns: list[ValueColumn], slices: Sequence[Slices], bounds: Sequence[tuple[Ints, Ints]]
    ) -> tuple[list[Values], Metrics]:
        """Computes all accumulators of all queries over their slices; slices and bounds have an entry per query."""
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
                found[q] = self._by_itself(spec, self.in_panes[q]).evaluate(events, columns, slices[q], bounds[q])
        self._add_extremes(found, members, events, columns, slices)
        metrics = metrics._replace(seconds=time.perf_counter() - begun)
        return [found[q] for q in range(len(self.specs))], metrics

    def _add_extremes(
        self,
        found: dict[int, Values],
        members: Sequence[int],
        events: Events,
        columns: list[ValueColumn],
        slices: Sequence[Slices],
    ) -> None:
        """Adds the extremes of the members: those of queries with equal windows in one walk over the events."""
        by_windows: dict[Windowing, list[int]] = {}
        for q in members:
            if extreme_accumulators(self.specs[q]):
                by_windows.setdefault(self.specs[q].query.windowing, []).append(q)
        for own in by_windows.values():
            walk = self._extremes(tuple(self.specs[q] for q in own))
            kept = walk.extremes(events, columns, common_slices([slices[q] for q in own]))
            for q, extremes in zip(own, kept):
                found[q] = found[q]._replace(extremes=extremes)

    def _members(self, columns: list[ValueColumn], slices: Sequence[Slices]) -> tuple[int, ...]:
        """Returns the queries with windows in this chunk but for those with infinite sums, which are not linear."""
        # The sums of a moment are made of deviations, which are finite.
        summed = [
            {a.column for a in spec.answer.accumulators if a.update.power == 1 and not a.update.moment}
            for spec in self.specs
        ]
        rounded_columns = {column for column in set().union(*summed) if not columns[column].is_exact}
        infinite = {column for column in rounded_columns if not np.isfinite(columns[column].doubles()).all()}
        self.infinite |= {q for q, own in enumerate(summed) if own & infinite}
        return tuple(q for q, own in enumerate(summed) if len(slices[q].low) and not own & infinite)


def evaluator_of(spec: KernelSpec, in_panes: bool) -> Evaluator | PanesEvaluator:
    """Makes the evaluator of a query by itself, as it is planned."""
    return PanesEvaluator(spec) if in_panes else Evaluator(spec)


class _SharedSet:
    """The queries of one merged template."""

    def __init__(
        self, specs: Sequence[KernelSpec], sharing: str, families: Mapping[int, int], deviations: Sequence[float | None]
    ) -> None:
        self.specs, self.sharing = specs, sharing
        self.template = merge_machines(specs, families)
        self.deviations = self._of_variants(deviations)
        self.additive = [additive_accumulators(spec) for spec in specs]
        self._exact = any(spec.answer.exact for spec in specs)
        self.chosen: Modes | None = None

    def evaluate(
        self, events: Events, columns: list[ValueColumn], slices: list[Slices]
    ) -> tuple[list[Values], Metrics]:
        """Computes the additive accumulators of all queries."""
        frame = frame_of(self.template, self._by_window(slices), FEW_EVENTS)
        seen = survey(self.template, frame, events, DECISION_EVENTS)
        begun = time.perf_counter()
        decisions = self._decide(frame, seen)
        deciding = time.perf_counter() - begun
        tape = write_tape(self.template, frame, events, seen, decisions.mode)
        passes = _TapePasses(self.template, frame, events, seen, tape, columns, slices)
        values = Player(self.specs, columns, slices).values(passes, frame.long[passes.island])
        return values, _metrics(self.template, frame, seen, decisions, deciding)

    def _by_window(self, slices: list[Slices]) -> list[Slices]:
        """The slices of each window number."""
        found: dict[int, list[Slices]] = {}
        for number, cut in zip(self.template.window.tolist(), slices):
            found.setdefault(number, []).append(cut)
        return [common_slices(found[number]) for number in range(len(found))]

    def _decide(self, frame: Frame, seen: Survey) -> Decisions:
        shape = (len(seen.start), self.template.variants)
        if self.sharing in ("always", "never"):
            return Decisions(np.full(shape, SHARED if self.sharing == "always" else NEVER, dtype=np.int8), 0, 0, 0)
        query, variant = self.template.query[: self.template.repeating], self.template.variant
        accumulators = np.array([len(found) for found in self.additive], dtype=np.int64)[query]
        slots = frame.slots[self.template.window[query]]
        cells = np.bincount(variant, accumulators * slots, self.template.variants).astype(np.int64)
        rows = len({(added.update, added.column) for found in self.additive for added in found[1:]})
        arguments = (self.template, frame.columns, cells, rows, seen, self._rates(frame, seen))
        if self.sharing == "dynamic":
            return decide(*arguments)
        made = 0
        if self.chosen is None:
            self.chosen, made = once(*arguments, self.deviations), self.template.variants
        return Decisions(np.broadcast_to(self.chosen, shape).copy(), made, 0, 0)

    def _of_variants(self, deviations: Sequence[float | None]) -> NDArray[np.float64]:
        """Returns the known deviation of each variant: the mean over its queries; NaN where nothing is known."""
        known = np.array([np.nan if part is None else part for part in deviations], dtype=np.float64)
        out = np.full(self.template.variants, np.nan)
        for v in range(self.template.variants):
            own = known[self.template.query[: self.template.repeating][self.template.variant == v]]
            if not np.isnan(own).all():
                out[v] = np.nanmean(own)
        return out

    def _rates(self, frame: Frame, seen: Survey) -> Any:
        """Returns the rates of all passes that this chunk will take."""
        if not frame.long.any():
            return _IN_DOUBLES
        if not self._exact:
            return _IN_SCALED
        sizes = frame.island[:, 1] - frame.island[:, 0]
        largest, taken = sizes.max(initial=0), seen.events.sum() / max(int(sizes.sum()), 1)
        passes = np.ceil(largest * taken / (MULTIPLIED.bits - 1) / MULTIPLIED.most)
        return RESIDUES.of_passes(passes, _IN_SCALED)


def _metrics(template: Template, frame: Frame, seen: Survey, decisions: Decisions, deciding: float) -> Metrics:
    mode = decisions.mode
    bursts = seen.bursts[:, template.family]
    some = np.logical_or.reduceat(mode == SHARED, template.family_start[:-1], axis=1)
    return Metrics(
        queries=len(template.window),
        bursts=int(seen.bursts.sum()),
        shared=int(seen.bursts[some].sum()),
        split=int(bursts[mode != SHARED].sum()),
        splits=decisions.splits,
        merges=decisions.merges,
        snapshots=int(seen.of_variant[:, :, SEATS][mode != NEVER].sum()),
        event_snapshots=int((seen.of_variant[:, :, DEVIATIONS] * frame.columns)[mode == SHARED].sum()),
        propagated=int(seen.events[some].sum() + seen.of_variant[:, :, BOUND][mode == OWN].sum()),
        decisions=decisions.made,
        deciding=deciding,
    )


class _TapePasses:
    """Plays the tape of one chunk in as many number systems as its counts need."""

    def __init__(
        self,
        template: Template,
        frame: Frame,
        events: Events,
        seen: Survey,
        tape: Tape,
        columns: list[ValueColumn],
        slices: list[Slices],
    ) -> None:
        self.template = template
        self.frame, self.events, self.seen, self.tape, self.columns = frame, events, seen, tape, columns
        self.counts = np.array([len(cut.low) for cut in slices], dtype=np.int64)
        starts = frame.island[:, 0]
        #: The island of each slice, query after query.
        self.island = np.concatenate([np.searchsorted(starts, cut.low, side="right") - 1 for cut in slices])

    def rounded(self, kinds: Kinds) -> RoundedPass:
        """Returns a pass in doubles or scaled numbers."""
        count = len(self.events.time)
        doubles = [kind.doubles(self.columns, count) for kind in weight_rows(kinds)[1]]
        weights = Weights(np.arange(len(doubles) + 1), np.array(doubles).reshape(len(doubles), count))
        cells = self._cells(kinds)

        def one_pass(kind: Any, rows: Ints) -> NDArray[Any]:
            return self._played(cells, weights, self._rounded(kind), rows)[:, :, 0]

        return one_pass

    def residues(self, kinds: Kinds) -> tuple[ResiduePass, Moduli]:
        """Returns a pass for many primes in lockstep."""

        @cache
        def laid_out() -> tuple[Cells, Weights]:
            limbs = [self._limbs(kind) for kind in weight_rows(kinds)[1]]
            every = np.array([limb for group in limbs for limb in group], dtype=np.int64)
            weights = Weights(np.cumsum([0, *map(len, limbs)]), every.reshape(-1, len(self.events.time)))
            return self._cells(kinds), weights

        def one_pass(rows: Ints, primes: Residues) -> Residues:
            return self._played(*laid_out(), self._modular(primes), rows)

        return one_pass, MULTIPLIED

    def _cells(self, kinds: Kinds) -> Cells:
        rows = [
            [[row if variable in (-1, v) else -1 for v in range(BITS)] for variable, row in own]
            for own in weight_rows(kinds)[0]
        ]
        return cells_of(self.template, self.frame, rows, self.counts)

    def _played(self, cells: Cells, weights: Weights, system: System, rows: Ints) -> NDArray[Any]:
        """Plays the tape; returns the accumulators of some rows, shape (rows, most accumulators, primes)."""
        # One line more than there are accumulators is left 0, for those that a query has not.
        out = np.zeros((int((cells.accumulators * self.counts).sum()) + 1, len(system.prime)), dtype=system.prime.dtype)
        mask, reference, islands = self.events.mask, self.seen.reference, np.unique(self.island[rows])
        play(self.template, self.tape, cells, weights, mask, reference, system, islands, out)
        widths = cells.accumulators.tolist()
        accumulators: NDArray[Any] = out[rows_of(self.counts, widths, max(widths))[rows]]
        return accumulators

    def _limbs(self, kind: Kind) -> list[Ints]:
        """Cuts whole weights into pieces of :data:`LIMB_BITS` bits, the last one with the sign."""
        if kind.column < 0:
            return [np.ones(len(self.events.time), dtype=np.int64)]
        values = self.columns[kind.column].whole_weights(kind.update)
        limbs = []
        while len(values) and max(-int(values.min()), int(values.max())) >= 1 << LIMB_BITS:
            limbs.append((values & ((1 << LIMB_BITS) - 1)).astype(np.int64))
            values = values >> LIMB_BITS
        return [*limbs, values.astype(np.int64)]

    def _rounded(self, kind: Any) -> System:
        """Makes the number system of doubles, or of scaled numbers."""
        powers, wholes = np.arange(self.tape.longest + 1), np.arange(float(self._most))
        nothing = np.zeros((0, 1), dtype=kind)
        if kind is np.float64:
            with np.errstate(over="ignore"):
                power: NDArray[Any] = np.ldexp(1.0, powers)
            one, whole = kind(1.0), wholes
        else:
            one, power, whole = kind(0.5 + 1j), 0.5 + (powers + 1) * 1j, to_scaled(wholes)
        return System(kind(0), one, np.zeros(1, kind), np.zeros(1), power[:, None], nothing, whole[:, None], nothing)

    def _modular(self, primes: Residues) -> System:
        """Makes the number system of residues modulo some primes."""
        reciprocal = 1.0 / primes.astype(np.float64)
        power, halves = powers_of_two(self.tape.longest + 1, primes)
        whole = np.repeat(np.arange(self._most, dtype=np.uint64)[:, None], len(primes), axis=1)
        inverse = np.array([inverses(self._most, prime, r) for prime, r in zip(primes, reciprocal)]).T.copy()
        return System(np.uint64(0), np.uint64(1), primes, reciprocal, power, halves, whole, inverse)

    @property
    def _most(self) -> int:
        """Returns more than the events that anything takes at once, one of an instant included."""
        return max(self.seen.largest, self.tape.most_bound) + 2
