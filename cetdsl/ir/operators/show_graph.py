"""ShowGraph: the graph of a query itself, as rows."""

from __future__ import annotations

import attrs

from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.operators.events_in_order import SORTED_BY_SPARK, EventsInOrder
from cetdsl.ir.operators.exchange import Exchange
from cetdsl.ir.operators.operator import Unary
from cetdsl.ir.sorting import Sorting
from cetdsl.pattern.expressions import Expr


@attrs.frozen
class ShowGraph(Unary):
    """Gives the parts of the graph: each from a kernel's pass over the events, or ``joined`` by Spark."""

    spec: KernelSpec
    columns: tuple[str, ...]
    joined: bool
    sorting: Sorting = SORTED_BY_SPARK
    stage = "vertices"
    walks = True

    def events(
        self, values: tuple[Expr, ...] = (), columns: tuple[str, ...] | None = None, *, shared: bool = False
    ) -> Exchange:
        """Returns the operator for the events that the pass of one part reads; ``shared``: that of each share."""
        # The shares of a key have copies of its events.
        sorting = attrs.evolve(self.sorting, packed=not shared)
        needed = EventsInOrder(self.spec, values, columns, shared=shared, settled=True, sorting=sorting)
        return Exchange(self.child, needed)
