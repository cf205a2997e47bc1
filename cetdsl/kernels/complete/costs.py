"""What each graphlet of a window costs, cached or walked, and the worst case of a graph of which little is known."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
from numpy.typing import ArrayLike, NDArray

from cetdsl.errors import InvalidNode
from cetdsl.kernels.vocabulary import Floats, Ints


def _whole_bytes(memory: ArrayLike) -> Floats:
    """Bytes rounded up, so that their sums are exact whatever the order."""
    return np.ceil(np.asarray(memory, dtype=np.float64))


def _doubles(values: ArrayLike) -> Floats:
    return np.asarray(values, dtype=np.float64)


@attrs.frozen(eq=False)
class Costs:
    """What each graphlet costs: entry ``[i, j]`` is of atoms ``i`` to ``j - 1``; those with ``j <= i`` are not read.

    The CPU of all graphlets of a plan adds up to the steps that the plan takes: the references that it writes into the
    cache or as complete trends, and the vertices or cached partial trends that it visits. For t-cet to come out where
    memory is ample, the entries that end at the last atom must count the references of the complete trends, but not
    ``cpu[0, m]``, where the cached trends are the complete ones. Only proportions matter: where counts would leave the
    range of doubles, all of them may be divided by the same number.

    Attributes
    ----------
    memory : float64 array, shape (m, m + 1)
        Bytes of the partial trends of a graphlet, rounded up; infinite where they are too many to count.
    cpu : float64 array, shape (m, m + 1)
        Steps if the graphlet is cached.
    walk : float64 array, shape (m, m + 1), optional
        Steps if it is walked. Without it every graphlet is cached, or, where that does not fit, none.

    Raises
    ------
    InvalidNode
        If the shapes do not fit each other, or a cost is negative or not a number.
    """

    memory: Floats = attrs.field(converter=_whole_bytes)
    cpu: Floats = attrs.field(converter=_doubles)
    walk: Floats | None = attrs.field(converter=attrs.converters.optional(_doubles), default=None)

    def __attrs_post_init__(self) -> None:
        for name in ("memory", "cpu", "walk"):
            costs = getattr(self, name)
            if costs is None:
                continue
            if costs.ndim != 2 or len(costs) == 0 or costs.shape != (len(self.memory), len(self.memory) + 1):
                raise InvalidNode(f"{name} has the shape {costs.shape}", hint="costs of m atoms are m rows of m + 1")
            if not (costs[is_graphlet(len(costs))] >= 0).all():
                raise InvalidNode(f"{name} holds a cost that is negative or not a number")

    @property
    def atoms(self) -> int:
        """The number of atomic graphlets, m."""
        return len(self.memory)


def worst_case_costs(sizes: Sequence[int] | Ints, ref_bytes: int = 4) -> Costs:
    """The costs of a graph of which nothing is known but its vertices.

    Parameters
    ----------
    sizes : sequence of int
        Vertices of each atom.
    ref_bytes : int
        Bytes of one reference from a partial trend to a vertex.

    Returns
    -------
    Costs

    Notes
    -----
    n vertices have most maximal trends when they stand in groups of 3, each vertex followed by all of the next group:
    3^(n/3) trends of n/3 vertices each (SIGMOD 2017; the bound is that of Moon and Moser, 1965, on maximal cliques).
    With N vertices up to the end of a graphlet of n, of which all are N', it takes

    - if cached: n/3 * 3^(n/3) references, and 3^(N/3) visits, one per path that is stitched up to its end;
    - if walked: 3^g visits to the g-th group of the graph, in all 3/2 * (3^(N/3) - 3^((N-n)/3));
    - if it is the last: N'/3 * 3^(N'/3) references of complete trends. One cached graphlet has written them already.

    This is a model, not a bound on every graph: groups of 2 have fewer trends but, up to some 20 vertices, more
    references, and trends that end where they cannot be extended, but skip inner events, can be 2^(n-2).

    Examples
    --------
    >>> from cetdsl.kernels.complete.optimizer import optimize
    >>> costs = worst_case_costs([3, 3, 3, 3])
    >>> costs.memory[0].tolist()  # 3 trends of one vertex, 9 of two, 27 of three, 81 of four; 4 bytes each
    [0.0, 12.0, 72.0, 324.0, 1296.0]
    >>> optimize(costs, 1296).algorithm
    't-cet'
    >>> optimize(costs, 0).algorithm
    'm-cet'
    """
    groups = np.concatenate([[0.0], np.cumsum(np.asarray(sizes, dtype=np.float64))]) / 3
    inside = np.maximum(groups[None, :] - groups[:-1, None], 0)
    with np.errstate(over="ignore", invalid="ignore"):
        refs = np.ceil(inside * 3**inside)
        stitched = np.ceil(3**groups)
        visited = np.ceil(1.5 * (3**groups - 1))
        memory, cpu = refs * ref_bytes, refs + stitched
        walk = np.where(np.isinf(visited), np.inf, visited - visited[:-1, None])
        cpu[1:, -1] += refs[0, -1]
        walk[:, -1] += refs[0, -1]
    cpu[0, -1] = refs[0, -1]
    return Costs(memory, cpu, walk)


def is_graphlet(atoms: int) -> NDArray[np.bool_]:
    """Entries of an array of costs that are read, shape (m, m + 1)."""
    return np.arange(atoms + 1) > np.arange(atoms)[:, None]
