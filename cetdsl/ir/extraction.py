"""The algorithm, and its parameters, by which complete trends are extracted from a graph."""

from __future__ import annotations

import attrs

#: What ``optimizer=`` may say: the search that cuts a graph into graphlets for h-cet.
OPTIMIZERS = ("auto", "branch-and-bound", "greedy", "exhaustive")
#: What ``cost_model=`` may say: what the optimizer takes for the cost of a graphlet.
COST_MODELS = ("exact", "worst-case")


@attrs.frozen
class Extraction:
    """The ``algorithm`` by which trends are extracted, and its options.

    The algorithm is ``"auto"``, ``"m-cet"``, ``"t-cet"``, ``"h-cet"``, ``"anchors"``, ``"balanced"``, ``"joins"`` or
    ``"definition"``. ``memory`` limits the bytes of partial trends (None: no limit) and, in queries, of the graph, too.
    For h-cet, ``optimizer`` is one of :data:`OPTIMIZERS` and ``cost_model`` one of :data:`COST_MODELS`. For anchors,
    ``anchors`` is the number of attribute vertices that become anchors (None: the number of the least cost).
    """

    algorithm: str = "auto"
    memory: int | None = None
    optimizer: str = "auto"
    cost_model: str = "exact"
    anchors: int | None = None


#: What suits each graph.
USUAL = Extraction()
