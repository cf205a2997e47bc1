"""Negations that look no further than a length from a neighbour of their gap: finds whether an event lies so near."""

from __future__ import annotations

import numpy as np

from cetdsl.ir.machine import Negation
from cetdsl.kernels.vocabulary import Bools, Events, Ints

_HOLDS = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}


class Sight:
    """The sight of a negation of single events, which finds the events that it forbids."""

    def __init__(self, negation: Negation) -> None:
        assert negation.sight is not None
        self._pair = negation.sight
        self._bits = sum(1 << variable for variable in set(negation.machine.variables))
        self.ahead = negation.looks_ahead

    def matches(self, events: Events) -> Bools:
        """Returns which events the negation may forbid at all."""
        found: Bools = ((events.mask & self._bits) != 0) & events.valid[self._pair.left]
        return found

    def sees(self, events: Events) -> Bools:
        """Whether, looking from each event, the nearest match is in sight."""
        places = np.nonzero(self.matches(events))[0]
        nearest = self._nearest(events, places)
        found = nearest >= 0
        match, f, g = places[nearest[found]], self._pair.left, self._pair.right
        holds = _HOLDS[self._pair.op](events.codes[f, match], events.codes[g, found])
        found[found] = holds & events.valid[g, found]
        return found

    def _nearest(self, events: Events, places: Ints) -> Ints:
        """Returns the next of the matches at some places, ahead or back, of each event's key; -1: none."""
        instants, starts = events.instant[places], events.segment_start
        sizes = np.diff(starts)
        if self.ahead:
            nearest, ends = np.searchsorted(instants, events.instant, side="right"), np.searchsorted(places, starts[1:])
            return np.where(nearest < np.repeat(ends, sizes), nearest, -1)
        nearest, begins = np.searchsorted(instants, events.instant) - 1, np.searchsorted(places, starts[:-1])
        return np.where(nearest >= np.repeat(begins, sizes), nearest, -1)
