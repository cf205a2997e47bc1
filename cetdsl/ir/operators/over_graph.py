"""OverGraph: the base of the operators whose stage builds the graph first."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators.build_graph import BuildGraph
from cetdsl.ir.operators.operator import Unary


@attrs.frozen
class OverGraph(Unary):
    """Reads a graph."""

    child: BuildGraph
