"""PanesInOrder: the matrices of a key's panes in one task, in order of time."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators import words
from cetdsl.ir.operators.operator import Operator, Requirement, Step
from cetdsl.ir.windowing import WHOLE
from cetdsl.pattern.text import quote_name


@attrs.frozen
class PanesInOrder(Requirement):
    """Requires that one task reads the matrices of all panes of a key in order; on a stream, of a key and window.

    If ``in_stretches``, a pane has several matrices, one per stretch, which come in the order of their first events.
    """

    in_stretches: bool = False

    def steps(self, below: Operator) -> tuple[Step, ...]:
        source, each = below.source, ("one row per key and pane",)
        keys = list(map(quote_name, source.keys))
        if source.is_stream:
            by = ", ".join([*(["share of the keys"] if keys else []), "window"])
            kept = Step(
                f"keep the matrices until the watermark passes the end of their window, by {by}",
                (*each, "once for each window", "packed, many in one value of state"),
            )
            return kept, Step("sort each task's panes", ("by the kernel: Spark sorts no stream",))
        if self.in_stretches:
            order = [*keys, *([] if source.windowing.kind == WHOLE else ["pane"]), "time of the first event"]
            sort = Step("sort each task's stretches by " + ", ".join(order))
            return Step(words.shuffle(keys), ("one row per stretch",)), sort
        if source.windowing.kind == WHOLE:
            each = ("one row per range of time",)
        return Step(words.shuffle(keys), each), Step("sort each task's panes by " + ", ".join([*keys, "pane"]))
