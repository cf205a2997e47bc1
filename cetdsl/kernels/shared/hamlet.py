"""Shared online trend aggregation: many queries over a chunk of events in one pass (Hamlet, SIGMOD 2021).

The queries' machines are merged into one template (:mod:`~cetdsl.kernels.shared.template`), so that the Kleene states
that they have in common can be propagated once. A cost model decides for each burst of events which queries share
(:mod:`~cetdsl.kernels.shared.benefit`). The decisions, and all operations that follow from them, are written to a
*tape* once per chunk (:mod:`~cetdsl.kernels.shared.writer`), and the tape is played in each number system that the
counts need (:mod:`~cetdsl.kernels.shared.snapshots`). A query that sums up infinite values or NaN in a chunk is
evaluated by itself over this chunk. The answers are those of each query by itself.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.sharing import CALIBRATED
from cetdsl.kernels.aggregate.evaluate import Evaluator
from cetdsl.kernels.aggregate.panes import PanesEvaluator
from cetdsl.kernels.answers.tables import Values, extreme_accumulators
from cetdsl.kernels.numbers.ladder import FEW_EVENTS
from cetdsl.kernels.shared.benefit import FIXED, Decisions, Prices
from cetdsl.kernels.shared.bursts import (
    BOUND,
    DEVIATIONS,
    SEATS,
    Frame,
    Survey,
    events_of_decisions,
    frame_of,
    slices_of_windows,
    survey,
)
from cetdsl.kernels.shared.decider import Decider
from cetdsl.kernels.shared.operations import NEVER, OWN, SHARED
from cetdsl.kernels.shared.players import Player
from cetdsl.kernels.shared.tapes import TapePasses
from cetdsl.kernels.shared.template import Template, merge_machines
from cetdsl.kernels.shared.walkers import AbreastEvaluator
from cetdsl.kernels.shared.writer import write_tape
from cetdsl.kernels.vocabulary import Events, Ints, Slices
from cetdsl.kernels.wire.values import ValueColumn


class Metrics(NamedTuple):
    """Counts of the work done and of the decisions made."""

    #: Queries of the merged template, and those evaluated by themselves.
    queries: int = 0
    unshared: int = 0
    #: Bursts of the variables that Kleene states read.
    bursts: int = 0
    #: Bursts in which some variant was in its family's graphlet, and, counted by variant, those in which one was not.
    shared: int = 0
    split: int = 0
    #: How often a variant left its family's graphlet for a stretch of bursts, and joined it again.
    splits: int = 0
    merges: int = 0
    #: Snapshots of columns taken because the column's influx had changed or its total was read, ...
    snapshots: int = 0
    #: ... and because an event was bound to some variants of a family and not to others.
    event_snapshots: int = 0
    #: Events whose coefficients were propagated for several columns at once.
    propagated: int = 0
    decisions: int = 0
    #: Seconds spent on decisions, and in all.
    deciding: float = 0.0
    seconds: float = 0.0
    #: By query, the bursts over which it was propagated with another query, and those over which it was not.
    together: Ints | int = 0
    alone: Ints | int = 0

    def plus(self, other: Metrics) -> Metrics:
        """Returns the metrics of two calls together: sums, but for the numbers of queries."""
        sums = (own + more for own, more in zip(self[2:], other[2:]))
        return Metrics(max(self.queries, other.queries), max(self.unshared, other.unshared), *sums)  # type: ignore[arg-type]


class WorkloadEvaluator:
    """Evaluates the queries of a merged template over chunk after chunk of sorted events.

    All queries number variables, code columns, value columns and lists alike. Which of them share is decided for each
    burst (``sharing`` is "dynamic"), once, from ``deviations`` and the first chunk ("static"), or in advance ("always",
    "never").

    Parameters
    ----------
    families : mapping of int to int, optional
        Variables of one type have equal numbers here.
    deviations : sequence of (float or None), optional
        For static sharing, per query: the share of the events of its Kleene patterns that it treats otherwise than most
        queries (it takes them and most do not, or the other way round); None: the share in the first chunk.
    in_panes : sequence of bool, optional
        Whether a query that cannot share over a chunk is evaluated there by products of panes, and not by propagation.
    cost_model : {"calibrated", "equation-8", "equation-7"}
        Decisions compare costs by the ``prices``, or by an equation of the paper as it is.
    prices : Prices, optional
        What work costs on this machine.
    """

    def __init__(
        self,
        specs: Sequence[KernelSpec],
        sharing: str = "dynamic",
        families: Mapping[int, int] | None = None,
        deviations: Sequence[float | None] | None = None,
        in_panes: Sequence[bool] | None = None,
        cost_model: str = CALIBRATED,
        prices: Prices = FIXED,
    ) -> None:
        self.specs, self.sharing, self.families = tuple(specs), sharing, dict(families or {})
        self.cost_model, self.prices = cost_model, prices
        self.deviations = tuple(deviations or [None] * len(self.specs))
        self.in_panes = tuple(in_panes or [False] * len(self.specs))
        # By the numbers of queries, as it would take longer to find a query by what it asks than to evaluate it.
        self._by_itself = cache(lambda query: evaluator_of(self.specs[query], self.in_panes[query]))
        self._extremes = cache(lambda queries: AbreastEvaluator([self.specs[query] for query in queries]))
        self._sets = cache(self._shared_set)
        # The sums for variances add up deviations from an origin, which are finite.
        self._summed = [
            {a.column for a in spec.answer.accumulators if a.update.power == 1 and not a.update.moment}
            for spec in self.specs
        ]
        self._with_extremes = {q for q, spec in enumerate(self.specs) if extreme_accumulators(spec)}
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
            answers, done = self._sets(members).evaluate(events, columns, [slices[q] for q in members])
            metrics = metrics.plus(self._by_number(members, done))
            found = dict(zip(members, answers))
        for q in range(len(self.specs)):
            if q not in found:
                found[q] = self._by_itself(q).evaluate(events, columns, slices[q], bounds[q])
        self._add_extremes(found, members, events, columns, slices)
        metrics = metrics._replace(seconds=time.perf_counter() - begun)
        return [found[q] for q in range(len(self.specs))], metrics

    def _shared_set(self, members: tuple[int, ...]) -> SharedSet:
        """Merges the members, and prepares what decides about their sharing."""
        specs = [self.specs[q] for q in members]
        deviations = [self.deviations[q] for q in members]
        template = merge_machines(specs, self.families)
        decider = Decider(specs, template, self.sharing, deviations, self.cost_model, self.prices)
        return SharedSet(specs, template, decider)

    def _by_number(self, members: tuple[int, ...], metrics: Metrics) -> Metrics:
        """Returns the metrics of the members with the numbers by query spread over all queries: 0 for the others."""
        together, alone = np.zeros((2, len(self.specs)), dtype=np.int64)
        together[list(members)], alone[list(members)] = metrics.together, metrics.alone
        return metrics._replace(together=together, alone=alone)

    def _add_extremes(
        self,
        found: dict[int, Values],
        members: Sequence[int],
        events: Events,
        columns: list[ValueColumn],
        slices: Sequence[Slices],
    ) -> None:
        """Adds the extremes of the members; one walk over the events computes them for all."""
        own = tuple(q for q in members if q in self._with_extremes)
        if own:
            walk = self._extremes(own)
            for q, extremes in zip(own, walk.extremes(events, columns, [slices[q] for q in own])):
                found[q] = found[q]._replace(extremes=extremes)

    def _members(self, columns: list[ValueColumn], slices: Sequence[Slices]) -> tuple[int, ...]:
        """Returns the queries that can share: those with windows in this chunk that sum up finite values only."""
        rounded_columns = {column for column in set().union(*self._summed) if not columns[column].is_exact}
        infinite = {column for column in rounded_columns if not np.isfinite(columns[column].doubles()).all()}
        self.infinite |= {q for q, own in enumerate(self._summed) if own & infinite}
        return tuple(q for q, own in enumerate(self._summed) if len(slices[q].low) and not own & infinite)


def evaluator_of(spec: KernelSpec, in_panes: bool) -> Evaluator | PanesEvaluator:
    """Makes the evaluator of a single query: by products of panes if it is planned so, else by propagation."""
    return PanesEvaluator(spec) if in_panes else Evaluator(spec)


class SharedSet:
    """The queries of one merged template, with what decides about their sharing and what computes their values."""

    def __init__(self, specs: Sequence[KernelSpec], template: Template, decider: Decider) -> None:
        self.template, self.decider, self._player = template, decider, Player(specs)
        #: Whether a query has a variant.
        self.has = np.zeros((len(specs), template.variants), dtype=np.int64)
        self.has[template.query[: template.repeating], template.variant] = 1

    def evaluate(
        self, events: Events, columns: list[ValueColumn], slices: list[Slices]
    ) -> tuple[list[Values], Metrics]:
        """Computes the additive accumulators of all queries."""
        of_windows = slices_of_windows(self.template.window.tolist(), slices)
        frame = frame_of(self.template, of_windows, FEW_EVENTS)
        seen = survey(self.template, frame, events, events_of_decisions(self.template))
        begun = time.perf_counter()
        decisions = self.decider.decide(frame, seen)
        deciding = time.perf_counter() - begun
        tape = write_tape(self.template, frame, events, seen, decisions.mode)
        passes = TapePasses(self.template, frame, events, seen, tape, columns, of_windows)
        values = self._player.values(passes, columns, slices, frame.long[passes.island])
        return values, _metrics(self.template, self.has, frame, seen, decisions, deciding)


def _metrics(
    template: Template, has: Ints, frame: Frame, seen: Survey, decisions: Decisions, deciding: float
) -> Metrics:
    mode = decisions.mode
    bursts = seen.bursts[:, template.family]
    some = np.logical_or.reduceat(mode == SHARED, template.family_start[:-1], axis=1)
    queries = has.sum(axis=0)
    sharing = np.add.reduceat((mode == SHARED) * queries, template.family_start[:-1], axis=1)[:, template.family]
    with_others = np.where(mode == SHARED, sharing, (mode == OWN) * queries) > 1
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
        together=has @ (bursts * with_others).sum(axis=0),
        alone=has @ (bursts * ~with_others).sum(axis=0),
    )
