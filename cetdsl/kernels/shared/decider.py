"""Decides which variants of a merged template (:mod:`~cetdsl.kernels.shared.template`) share, by a model of costs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.sharing import CALIBRATED, EQUATION_8
from cetdsl.kernels.answers.tables import additive_accumulators
from cetdsl.kernels.numbers.ladder import MULTIPLIED
from cetdsl.kernels.shared.benefit import (
    Decisions,
    Demand,
    Load,
    Prices,
    all_in_one,
    cells_of,
    decide_as_published,
    decide_chunk,
)
from cetdsl.kernels.shared.bursts import Frame, Survey
from cetdsl.kernels.shared.operations import NEVER, SHARED, Modes
from cetdsl.kernels.shared.template import Template
from cetdsl.kernels.vocabulary import Floats, Ints


class Decider:
    """Decides for each burst ("dynamic"), once, from ``deviations`` and the first chunk ("static"), or in advance.

    Parameters
    ----------
    specs : sequence of KernelSpec
        The queries of the template.
    template : Template
        Their merged machines.
    sharing : {"dynamic", "static", "always", "never"}
        When decisions are made; "always" and "never" are decisions themselves.
    deviations : sequence of (float or None)
        For static sharing, per query: the share of the events of its Kleene patterns that it treats otherwise than most
        queries (it takes them and most do not, or the other way round); None: the share in the first chunk.
    cost_model : {"calibrated", "equation-8", "equation-7"}
        Decisions compare costs by the ``prices``, or by an equation of the paper as it is.
    prices : Prices
        What work costs on this machine.
    """

    def __init__(
        self,
        specs: Sequence[KernelSpec],
        template: Template,
        sharing: str,
        deviations: Sequence[float | None],
        cost_model: str,
        prices: Prices,
    ) -> None:
        self.template, self.sharing, self.cost_model, self.prices = template, sharing, cost_model, prices
        self.deviations = _of_variants(template, deviations)
        additive = [additive_accumulators(spec) for spec in specs]
        # What does not depend on the chunk is computed once, because a chunk's decisions take some ten microseconds.
        query = template.query[: template.repeating]
        self._demand = Demand(
            template.window[query],
            np.array([len(found) for found in additive], dtype=np.int64)[query],
            len({(added.update, added.column) for found in additive for added in found[1:]}),
        )
        self._in_doubles = np.array(prices.doubles.of_passes(1, prices.once))
        self._in_scaled = np.array(prices.scaled.of_passes(1, prices.once))
        self._predecessors = predecessors(template)
        self._exact = any(spec.answer.exact for spec in specs)
        #: The decision that was made once, and holds for all chunks.
        self._chosen: Modes | None = None

    def decide(self, frame: Frame, seen: Survey) -> Decisions:
        """Returns how each variant is propagated in each stretch of a chunk's bursts."""
        if self.sharing == "dynamic":
            return self._by_model(frame, seen)
        shape = (len(seen.start), self.template.variants)
        if self.sharing in ("always", "never"):
            return Decisions(np.full(shape, SHARED if self.sharing == "always" else NEVER, dtype=np.int8), 0, 0, 0)
        made = 0
        if self._chosen is None:
            found = self._by_model(frame, all_in_one(self.template, seen, self.deviations))
            self._chosen, made = found.mode[0], self.template.variants
        return Decisions(np.broadcast_to(self._chosen, shape).copy(), made, 0, 0)

    def _by_model(self, frame: Frame, seen: Survey) -> Decisions:
        if self.cost_model == CALIBRATED:
            beyond = self._of_residues(frame, seen) if self._exact else self._in_scaled
            return decide_chunk(self.template, self._demand, frame, seen, self._in_doubles, beyond)
        searched = self.cost_model == EQUATION_8
        return decide_as_published(self.template, frame, self._load(frame), seen, searched)[0]

    def _load(self, frame: Frame) -> Load:
        demand = self._demand
        own = self.template.variant, demand.window, demand.accumulators
        cells = cells_of(*own, frame.slots, self.template.variants)
        return Load(frame.columns, cells, self._predecessors, demand.rows)

    def _of_residues(self, frame: Frame, seen: Survey) -> Floats:
        """Returns the rates of all passes in residues and scaled numbers that a chunk with long windows will take."""
        sizes = frame.island[:, 1] - frame.island[:, 0]
        largest, taken = sizes.max(initial=0), seen.events.sum() / max(int(sizes.sum()), 1)
        passes = np.ceil(largest * taken / (MULTIPLIED.bits - 1) / MULTIPLIED.most)
        rates: Floats = passes * np.array(self.prices.residues) + self._in_scaled
        return rates


def _of_variants(template: Template, deviations: Sequence[float | None]) -> Floats:
    """Returns the known deviation of each variant: the mean over its queries; NaN where nothing is known."""
    known = np.array([np.nan if part is None else part for part in deviations], dtype=np.float64)
    out = np.full(template.variants, np.nan)
    for v in range(template.variants):
        own = known[template.query[: template.repeating][template.variant == v]]
        if not np.isnan(own).all():
            out[v] = np.nanmean(own)
    return out


def predecessors(template: Template) -> Ints:
    """Returns for each variant the most variables that may precede it directly in one query, itself included."""
    found = np.ones(template.variants, dtype=np.int64)
    for node in range(template.repeating):
        sources = template.source[template.source_start[node] : template.source_start[node + 1]]
        others = set(template.variable[sources].tolist()) - {int(template.variable[node])}
        variant = template.variant[node]
        found[variant] = max(found[variant], 1 + len(others))
    return found
