"""MergeTogether: the partial results of many queries, added up."""

from __future__ import annotations

import attrs

from cetdsl.ir.layout import KEY, QUERY, START, numbered
from cetdsl.ir.operators.operator import Requirement, Step, Unary
from cetdsl.ir.operators.rows_in_order import RowsInOrder


@attrs.frozen
class MergeTogether(Unary):
    """Adds up the partial results of each query, group and window."""

    stage = "merge workload"
    only_batch = None

    @property
    def requires(self) -> tuple[Requirement | None, ...]:
        return (RowsInOrder((QUERY, *numbered(KEY, len(self.source.keys)), START)),)

    def steps(self) -> tuple[Step, ...]:
        return (Step("add up partial results", ("by query, group and window",)),)
