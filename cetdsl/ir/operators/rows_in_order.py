"""RowsInOrder: the rows of an earlier stage that agree in some columns in one task, in order."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators.operator import Act, Operator, Requirement


@attrs.frozen
class RowsInOrder(Requirement):
    """``by`` are our names of these columns; what orders the rows that agree in them, and what is taken along, is SQL.

    ``select`` is empty where all columns are taken along. ``said`` is how ``explain`` says it.
    """

    by: tuple[str, ...]
    order: tuple[str, ...] = ()
    select: tuple[str, ...] = ()
    said: tuple[Act, ...] = ()

    def acts(self, below: Operator) -> tuple[Act, ...]:
        return self.said
