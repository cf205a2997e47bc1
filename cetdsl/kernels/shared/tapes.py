"""Plays the tape of a chunk (:mod:`~cetdsl.kernels.shared.operations`) in the number systems that its counts need."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cetdsl.kernels.numbers.ladder import MULTIPLIED, Moduli, ResiduePass, RoundedPass
from cetdsl.kernels.numbers.linear import LIMB_BITS, System, Weights
from cetdsl.kernels.numbers.residues import Residues, inverses, powers_of_two
from cetdsl.kernels.numbers.scaled import to_scaled
from cetdsl.kernels.shared.bursts import Frame, Survey
from cetdsl.kernels.shared.cells import Cells, cells_of
from cetdsl.kernels.shared.operations import Tape
from cetdsl.kernels.shared.players import Kind, Weighed, rows_of
from cetdsl.kernels.shared.snapshots import play
from cetdsl.kernels.shared.template import Template
from cetdsl.kernels.vocabulary import Events, Ints, Slices
from cetdsl.kernels.wire.values import ValueColumn


class TapePasses:
    """Plays the tape of one chunk in as many number systems as its counts need; ``slices`` are those of each window."""

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
        self.counts = np.array([len(cut.low) for cut in slices], dtype=np.int64)[template.window]
        starts = frame.island[:, 0]
        found = [np.searchsorted(starts, cut.low, side="right") - 1 for cut in slices]
        #: The island of each slice, query after query.
        self.island = np.concatenate([found[number] for number in template.window.tolist()])

    def rounded(self, asked: Weighed) -> RoundedPass:
        """Returns a pass in doubles or scaled numbers."""
        count = len(self.events.time)
        doubles = [kind.doubles(self.columns, count) for kind in asked.kinds]
        weights = Weights(np.arange(len(doubles) + 1), np.array(doubles).reshape(len(doubles), count))
        cells = self._cells(asked)

        def one_pass(kind: Any, rows: Ints) -> NDArray[Any]:
            return self._played(cells, weights, self._rounded(kind), rows)[:, :, 0]

        return one_pass

    def residues(self, asked: Weighed) -> tuple[ResiduePass, Moduli]:
        """Returns a pass for many primes in lockstep."""

        @cache
        def laid_out() -> tuple[Cells, Weights]:
            limbs = [self._limbs(kind) for kind in asked.kinds]
            every = np.array([limb for group in limbs for limb in group], dtype=np.int64)
            weights = Weights(np.cumsum([0, *map(len, limbs)]), every.reshape(-1, len(self.events.time)))
            return self._cells(asked), weights

        def one_pass(rows: Ints, primes: Residues) -> Residues:
            return self._played(*laid_out(), self._modular(primes), rows)

        return one_pass, MULTIPLIED

    def _cells(self, asked: Weighed) -> Cells:
        return cells_of(self.template, self.frame, asked.rows, self.counts)

    def _played(self, cells: Cells, weights: Weights, system: System, rows: Ints) -> NDArray[Any]:
        """Plays the tape; returns the accumulators of some rows, shape (rows, most accumulators, primes)."""
        # The last row stays 0; it stands for the accumulators that a query lacks.
        out = np.zeros((int((cells.accumulators * self.counts).sum()) + 1, len(system.prime)), dtype=system.prime.dtype)
        mask, reference, islands = self.events.mask, self.seen.reference, np.flatnonzero(np.bincount(self.island[rows]))
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
        """Returns a bound above the number of simultaneous events, and of events that a plain node takes in one go."""
        return max(self.seen.largest, self.tape.most_bound) + 2
