"""Finds matches of negations that look no further than a length from one of the two neighbours of their gap.

The comparison that says so is the negation's *sight* (:class:`~cetdsl.ir.machine.Negation`). A match is a single event.
"""

from __future__ import annotations

import numpy as np

from cetdsl.ir.machine import Negation
from cetdsl.kernels.vocabulary import Bools, Events, Ints

_HOLDS = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}


class Sight:
    """The sight of a negation: tells from which events a match lies within it."""

    def __init__(self, negation: Negation) -> None:
        assert negation.sight is not None
        self._pair = negation.sight
        self._bits = sum(1 << variable for variable in set(negation.machine.variables))
        self.ahead = negation.looks_ahead

    def matches(self, events: Events) -> Bools:
        """Whether each event is a match of the negation, wherever it is looked for from."""
        found: Bools = ((events.mask & self._bits) != 0) & events.valid[self._pair.left]
        return found

    def sees(self, events: Events) -> Bools:
        """Whether the match nearest to each event, ahead of it or before it, is in sight."""
        places = np.nonzero(self.matches(events))[0]
        nearest = self._nearest(events, places)
        found = nearest >= 0
        match, f, g = places[nearest[found]], self._pair.left, self._pair.right
        holds = _HOLDS[self._pair.op](events.codes[f, match], events.codes[g, found])
        found[found] = holds & events.valid[g, found]
        return found

    def _nearest(self, events: Events, places: Ints) -> Ints:
        """Returns the number of the match nearest to each event in its key, ahead of it or before it; -1: none.

        ``places`` are the events that are matches.
        """
        instants, starts = events.instant[places], events.segment_start
        sizes = np.diff(starts)
        if self.ahead:
            nearest, ends = np.searchsorted(instants, events.instant, side="right"), np.searchsorted(places, starts[1:])
            return np.where(nearest < np.repeat(ends, sizes), nearest, -1)
        nearest, begins = np.searchsorted(instants, events.instant) - 1, np.searchsorted(places, starts[:-1])
        return np.where(nearest >= np.repeat(begins, sizes), nearest, -1)
