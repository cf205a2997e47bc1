"""Puts trends together in an order chosen from the events of each chunk, or by a search that enters no dead ends.

A sample of a chunk yields the expected number of partial matches of the best order. If these are not many more than the
events or the trends, binding variables in this order with indexes takes less time than finding out first which events
are on any trend. If they are many more, most partial matches are dead ends, which the other search avoids.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import attrs
import pyarrow as pa

from cetdsl.detection.cost import Expectation
from cetdsl.detection.generators import GENERATORS, Comparator
from cetdsl.detection.plans import Plan
from cetdsl.ir.stages import DetectSpec
from cetdsl.kernels.detect.detector import Detector
from cetdsl.kernels.enumerate.enumerator import Enumerator
from cetdsl.kernels.enumerate.trends import list_by
from cetdsl.kernels.vocabulary import Block, Events, Ints, Slices
from cetdsl.kernels.wire.chunks import CHUNK_EVENTS, Chunk, Columns

#: An order is taken up to so many partial matches per event, in addition to so many per trend.
FEW = 8.0


class Chooser:
    """Lists the trends of one query over chunk after chunk of sorted events; ``spec`` sets how plans are chosen."""

    def __init__(self, spec: DetectSpec) -> None:
        self._kernel, self._given = spec.trends.kernel, spec.plans
        self._sampling = Detector(self._kernel, spec.plans)
        #: The search without dead ends; None for an AND at the top, which it does not support.
        aside = any(len(one.branch.sequences) > 1 for one in spec.plans)
        self._enumerator = None if aside else Enumerator(self._kernel)
        self._detectors: dict[tuple[Hashable, ...], Detector] = {}
        #: The plans of each chunk so far; None if the search without dead ends was used.
        self.chosen: list[tuple[Plan, ...] | None] = []

    def enumerate(self, events: Events, slices: Slices, bounds: tuple[Ints, Ints], limit: int = -1) -> Iterator[Block]:
        """Yields all trends of all slices, or the first ``limit`` of them, as :meth:`Detector.enumerate` does."""
        if not len(events.time):
            return
        plans = self._plans(events)
        self.chosen.append(plans)
        if plans is None:
            assert self._enumerator is not None, "a conjunction has an order"
            yield from self._enumerator.enumerate(events, slices, bounds, limit)
            return
        if plans not in self._detectors:
            branches = (attrs.evolve(one, adapting=None) for one in self._given)
            each = [attrs.evolve(one, plan=plan) for one, plan in zip(branches, plans, strict=True)]
            self._detectors[plans] = Detector(self._kernel, each)
        yield from self._detectors[plans].enumerate(events, slices, bounds, limit)

    def take_partial(self, plans: tuple[Plan, ...]) -> list[Ints]:
        """Returns the partial matches of each branch and step in these orders since the last call, and resets them."""
        found = self._detectors[plans].partial
        taken = [counts.sum(axis=0) for counts in found]
        for counts in found:
            counts[:] = 0
        return taken

    def _plans(self, events: Events) -> tuple[Plan, ...] | None:
        """The best orders for some events; None if they are expected to have too many partial matches.

        The estimate ignores NOTs, which would reduce partial matches and trends alike.
        """
        plans, partial, few = [], 0.0, 0.0
        for given, seen in zip(self._given, self._sampling.sample(events), strict=True):
            assert given.adapting is not None, "it tells how the plan is chosen"
            problem = given.adapting.problem
            known = Expectation(problem, seen)
            plan = GENERATORS["greedy"](known, Comparator()).plan
            *before, trends = map(known.count, plan.masks)
            partial += sum(before)
            few += trends + FEW * sum(known.count(1 << place) for place in range(len(problem.variables)))
            plans.append(plan)
        return tuple(plans) if self._enumerator is None or partial <= few else None


def choose_stream(spec: DetectSpec, batches: Iterator[pa.RecordBatch], chunk_events: int = CHUNK_EVENTS) -> Columns:
    """Lists the trends of a sorted stream; the columns are those of the stage ``trends``."""
    chooser = Chooser(spec)

    def find(chunk: Chunk, limit: int) -> Iterator[Block]:
        return chooser.enumerate(chunk.events, chunk.slices, chunk.bounds, limit)

    return list_by(find, spec.trends, batches, chunk_events)
