"""ReadAgain: answers from the matrices of stretches; for keys whose stretches overlap, from their events in order."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators.operator import Operator, Step, Unary


@attrs.frozen
class ReadAgain(Unary):
    """Gives the answers of its child, and those of ``instead`` for the keys whose stretches overlap in time.

    The events of these keys are read once more; if there are no such keys, nothing is read.
    """

    instead: Operator
    aggregates = True

    @property
    def gives(self) -> tuple[str, ...]:
        return self.instead.gives

    def steps(self) -> tuple[Step, ...]:
        last = next(step.label for operator in self.instead.walk() for step in reversed(operator.steps()))
        how = f"they are shuffled and sorted, and answered by another way ({last})"
        return (Step("read the events of keys whose stretches overlap in time once more", (how,)),)

    def facts(self) -> tuple[tuple[str, str], ...]:
        return *super().facts(), ("stretches", "what a task reads of a key and of a part of a file; no event is sent")
