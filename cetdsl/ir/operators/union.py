"""Union: puts the rows of several operators together, numbered by operator."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators.operator import Operator


@attrs.frozen
class Union(Operator):
    """Gives all rows of all parts, with the number of the part in the column ``x``."""

    only_batch = None

    parts: tuple[Operator, ...]

    @property
    def children(self) -> tuple[Operator, ...]:
        return self.parts

    def with_children(self, children: tuple[Operator, ...]) -> Operator:
        return Union(children)
