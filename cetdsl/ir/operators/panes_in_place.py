"""PanesInPlace: matrices of panes, multiplied up to windows in the task of their events."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators import words
from cetdsl.ir.operators.events_in_order import EventsInOrder
from cetdsl.ir.operators.operator import Carry, Requirement, Step


@attrs.frozen
class PanesInPlace(Carry):
    """Gives the answer of each group and window, or partial results if ``spec`` says so."""

    only_batch = "a stream answers each window by itself, so that windows share no panes"

    stage = "panes in place"
    aggregates = True

    @property
    def requires(self) -> tuple[Requirement | None, ...]:
        return (EventsInOrder(self.spec, self.values),)

    def steps(self) -> tuple[Step, ...]:
        return (Step("kernel: matrices of panes, multiplied up to windows", self.carried),)

    def facts(self) -> tuple[tuple[str, str], ...]:
        return *super().facts(), ("panes", words.lengths_of_panes(self.source))

    def costs(self, limit: int | None = None) -> tuple[str, ...]:
        # Additive accumulators need matrices only if their numbers have many digits.
        adds_up = all(accumulator.is_additive for accumulator in self.spec.answer.accumulators)
        return (
            "linear in the events, besides sorting them",
            "two products of matrices per pane, one of vectors per window, however many windows overlap",
            *(("windows of at most some 200 events: propagated one by one, without matrices",) if adds_up else ()),
        )
