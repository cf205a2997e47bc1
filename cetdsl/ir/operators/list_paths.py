"""ListPaths: the trends that are the paths of each key's graph."""

from __future__ import annotations

import attrs

from cetdsl.ir.extraction import USUAL
from cetdsl.ir.operators import words
from cetdsl.ir.operators.build_graph import ALGORITHMS, OverGraph
from cetdsl.ir.operators.operator import Step


@attrs.frozen
class ListPaths(OverGraph):
    """Gives a row per trend; one task lists ``limit`` at most.

    Columns have the user's names if ``named``, and internal ones otherwise. ``explain`` shows the ``remark``.
    """

    limit: int | None = None
    named: bool = True
    remark: str | None = None
    stage = "graph"
    only_batch = None

    def steps(self) -> tuple[Step, ...]:
        how = ALGORITHMS[(self.child.extraction or USUAL).algorithm]
        return (Step("kernel: list the paths", (how,) if self.remark is None else (how, self.remark)),)

    def costs(self, limit: int | None = None) -> tuple[str, ...]:
        return (words.along_paths(limit),)
