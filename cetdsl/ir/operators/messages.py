"""Messages: aggregates the matches of an AND of single events, by sums passed along the predicates between them."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators import words
from cetdsl.ir.operators.events_in_order import EventsInOrder
from cetdsl.ir.operators.operator import Carry, Requirement, Step
from cetdsl.ir.windowing import SPAN, WHOLE, Windowing
from cetdsl.pattern.expressions import Role


class Messages(Carry):
    """Gives the answer of each group and window, or partial results if ``spec`` says so.

    The pairs of ``spec``, as edges between variables, form a forest; with a span they relate each two variables, or
    there are none.
    """

    stage = "messages"
    only_batch = None
    aggregates = True
    walks = False

    @property
    def requires(self) -> tuple[Requirement | None, ...]:
        return (EventsInOrder(self.spec, self.values),)

    @property
    def _spans(self) -> bool:
        return self.source.windowing.kind == SPAN

    def steps(self) -> tuple[Step, ...]:
        compiled = self.compiled
        links = []
        for pair in self.spec.query.pairs:
            sides = ((pair.left_variable, pair.left), (pair.right_variable, pair.right))
            left, right = (words.bound(compiled.codes[f].expr, compiled.name_of(v), Role.EACH) for v, f in sides)
            links.append(f"{left} {pair.op} {right}")
        return (Step("kernel: pass sums along the predicates", (*links, *self.carried)),)

    def costs(self, limit: int | None = None) -> tuple[str, ...]:
        # The operator takes all spans of a key at once, not one by one.
        whole = attrs.evolve(self.source, windowing=Windowing(WHOLE))
        return (f"n log n in the events of {words.unit_of(whole if self._spans else self.source)}",)
