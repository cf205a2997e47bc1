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
    """Gives the parts of the graph: a kernel's pass over the events builds each, or Spark's joins do if ``joined``."""

    spec: KernelSpec
    columns: tuple[str, ...]
    joined: bool
    sorting: Sorting = SORTED_BY_SPARK
    stage = "vertices"
    walks = True

    def events(
        self, values: tuple[Expr, ...] = (), columns: tuple[str, ...] | None = None, *, shared: bool = False
    ) -> Exchange:
        """Returns the operator for the events that the pass for one part reads; if ``shared``, all shares read them."""
        # Events of shares are copied, and copies are not packed.
        sorting = attrs.evolve(self.sorting, packed=not shared)
        needed = EventsInOrder(self.spec, values, columns, shared=shared, settled=True, sorting=sorting)
        return Exchange(self.child, needed)
