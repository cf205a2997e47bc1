"""Merge: adds up the partial results of several tasks or keys."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators import words
from cetdsl.ir.operators.operator import Requirement, Step, Unary
from cetdsl.ir.operators.rows_in_order import RowsInOrder


@attrs.frozen
class Merge(Unary):
    """Adds up the partial results of each group and window."""

    groups: tuple[str, ...]
    stage = "merge"
    only_batch = None

    @property
    def requires(self) -> tuple[Requirement | None, ...]:
        return (RowsInOrder(words.partial_keys(self.source, self.groups)),)

    @property
    def gives(self) -> tuple[str, ...]:
        return (*self.groups, *self.source.window, *(output.name for output in self.spec.answer.outputs))

    def steps(self) -> tuple[Step, ...]:
        keys = words.keys_and_window(self.source, self.groups)
        by = "by " + ", ".join(keys) if keys else "to one task"
        return (Step("add up partial results", (f"shuffled {by}",)),)
