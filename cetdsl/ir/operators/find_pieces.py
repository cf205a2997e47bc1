"""FindPieces: finds the partial trends between the anchors of one large graph, the first stage of "anchors"."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators.build_graph import OverGraph
from cetdsl.ir.operators.operator import Step


@attrs.frozen
class FindPieces(OverGraph):
    """Gives a row per partial trend; each of the tasks that share the graph finds a different part of them."""

    stage = "pieces"

    def steps(self) -> tuple[Step, ...]:
        details = ("from the first events and from anchors, to the last events and to anchors", "each by one task")
        return (Step("kernel: find the partial trends", details),)
