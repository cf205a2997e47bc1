"""Merge: the partial results of several tasks or keys, added up."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators.exchange import RowsInOrder
from cetdsl.ir.operators.operator import Requirement, Step, Unary
from cetdsl.ir.operators.words import keys_and_window
from cetdsl.ir.windowing import SLIDING


@attrs.frozen
class Merge(Unary):
    """Adds up the partial results of each group and window."""

    groups: tuple[str, ...]
    stage = "merge"

    @property
    def requires(self) -> tuple[Requirement | None, ...]:
        window = ("w",) if self.source.windowing.kind == SLIDING else ()
        return (RowsInOrder((*(f"g{n}" for n in range(len(self.groups))), *window)),)

    @property
    def gives(self) -> tuple[str, ...]:
        window = ("window",) if self.source.windowing.kind == SLIDING else ()
        return (*self.groups, *window, *(output.name for output in self.spec.answer.outputs))

    def steps(self) -> tuple[Step, ...]:
        keys = keys_and_window(self.source, self.groups)
        by = "by " + ", ".join(keys) if keys else "to one task"
        return (Step("add up partial results", (f"shuffled {by}",)),)
