"""RowsInOrder: rows of an earlier stage, sent to one task if they agree in some columns, and sorted there."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators.operator import Operator, Requirement, Step


@attrs.frozen
class RowsInOrder(Requirement):
    """Requires that one task reads all rows that agree in the columns ``by``, in the given order.

    ``by`` has internal names; ``order``, and ``select`` with the columns to keep, are SQL. ``select`` is empty if all
    columns are kept. ``said`` are the steps that ``explain`` shows for the requirement.
    """

    by: tuple[str, ...]
    order: tuple[str, ...] = ()
    select: tuple[str, ...] = ()
    said: tuple[Step, ...] = ()

    def steps(self, below: Operator) -> tuple[Step, ...]:
        return self.said
