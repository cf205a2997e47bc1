"""The k heaviest trends of a graph, without listing the others.

A *way* from a node is a path from it to the end of a trend. The weight of a trend is the sum over its nodes, added up
from the last one to the first. So of two ways from a node, the heavier one stays the heavier with any node put before
it, rounding included, and the best way from each node follows from those of its successors: one pass backwards finds it
(:mod:`~cetdsl.kernels.graph.layers`). The next best ways are found only as far as the k trends need them
(:mod:`~cetdsl.kernels.graph.recursive_enumeration`), in the windows whose heaviest trends may be among the k.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from cetdsl.errors import CountOverflow
from cetdsl.kernels._jit import jit
from cetdsl.kernels.enumerate.batches import join_blocks, take_trends
from cetdsl.kernels.graph.blocks import add_path, widened
from cetdsl.kernels.graph.layers import (
    IS_NULL,
    Layers,
    Values,
    Weights,
    exceeds_64_bits,
    find_heaviest,
    layers_of,
    spelled,
)
from cetdsl.kernels.graph.recursive_enumeration import FIRST, RANK, Heaps, Ways, make_search, next_trend, open_window
from cetdsl.kernels.graph.windows import Windows, windows_of
from cetdsl.kernels.vocabulary import Block, Bools, Graph, Ints


class KBest(NamedTuple):
    """Trends by falling weight; one whose nodes have no value at all is not ``present``, and its weight is 0."""

    weight: Weights
    present: Bools
    block: Block


def k_best_paths(
    graph: Graph,
    variable: Ints,
    low: Ints,
    high: Ints,
    complete: bool,
    k: int,
    weight: Weights,
    present: Bools | None = None,
) -> KBest:
    """Finds the k heaviest trends of all slices together, or all if there are fewer.

    Of trends of equal weight those of earlier slices come first, then those that come first in the canonical order
    (where sums are exact and no value is missing; else in an order that depends on the data alone).

    The graph, the slices and ``complete`` are as for :func:`~cetdsl.kernels.graph.counts.count_trends`, and
    ``variable`` is the bit number of the variable that each state reads. ``weight`` is the weight of each node; nodes
    that are not ``present`` have no value and add nothing. If whole numbers, from some event of a trend to its end, add
    up to more than 64 bits hold, CountOverflow is raised.

    Examples
    --------
    Checks A->B, B->C, B->D, D->E, and their amounts:

    >>> slices, amount = (np.array([0]), np.array([4])), np.array([5, 0, 1, 2])
    >>> found = k_best_paths(graph_of_checks, np.array([0]), *slices, complete=False, k=3, weight=amount)
    >>> found.weight.tolist(), [part.tolist() for part in np.split(found.block.event, found.block.start[1:-1])]
    ([8, 6, 5], [[0, 2, 3], [0, 2], [0]])
    """
    windows = windows_of(graph, low, high)
    if k == 0 or len(low) == 0 or len(graph.event) == 0:
        return KBest(weight[:0], np.zeros(0, dtype=np.bool_), join_blocks([]))
    present = np.ones(len(weight), dtype=np.bool_) if present is None else present
    # No sum of whole numbers exceeds this; up to 2**53 doubles hold them exactly.
    bound = float(np.abs(weight.astype(np.float64)).max()) * int((windows.last - windows.first).max())
    whole = weight.dtype == np.int64 and bound >= 2.0**53
    if whole and bound >= 2.0**62 and exceeds_64_bits(graph, windows, complete, np.where(present, weight, 0)):
        raise CountOverflow(
            "the values of a trend, or of its last events, have a sum that does not fit 64 bits",
            hint="cast the column to double",
        )
    layers = layers_of(weight if whole else weight.astype(np.float64), present)
    heaviest = find_heaviest(graph, windows, complete, layers)
    order = np.lexsort((-heaviest[1], -heaviest[0]))
    order = order[heaviest[0][order] >= 0]
    given = graph, windows, complete, layers, heaviest, order
    wanted = np.full(len(low), k)
    if len(order) > 1:
        wanted = _list_trends(*given, wanted, k, False)[0]
    _, window, rank, value, start, node = _list_trends(*given, wanted, k, True)
    best = np.lexsort((window, -value, -rank))
    trends = Block(start, graph.event[node], variable[graph.state[node]].astype(np.int16), window)
    return KBest(spelled(value, rank, weight)[best], (rank != IS_NULL)[best], take_trends(trends, best))


@jit
def _list_trends(
    graph: Graph,
    windows: Windows,
    complete: bool,
    layers: Layers,
    heaviest: tuple[Ints, Values],
    order: Ints,
    wanted: Ints,
    k: int,
    keep: bool,
) -> tuple[Ints, Ints, Ints, Values, Ints, Ints]:
    """Lists the k heaviest trends of all windows, or only counts how many of them each window has.

    Each window lists its trends by falling weight: as many as are wanted of it, or until the k-th best of all windows
    so far beats its next one.

    Parameters
    ----------
    graph, windows, complete
        Where the trends lie, and whether only paths that cannot be extended at either end count.
    layers : Layers
        The weights of the nodes.
    heaviest : (int64 array, array), shape (windows,)
        The rank and the sum of each window's heaviest trend.
    order : int64 array
        The windows that have trends, by falling weight of the heaviest.
    wanted, k : int64 array, shape (windows,), and int
        How many trends to list of each window at most, and of all windows together.
    keep : bool
        Whether the trends are returned, or only the shares.

    Returns
    -------
    share : int64 array, shape (windows,)
        How many of the k heaviest trends each window has.
    window, rank, value, start, node : arrays
        The window, rank and weight of each trend, where its nodes begin, and the nodes; nothing unless ``keep``.
    """
    search, width = make_search(graph, windows, layers), layers.after.shape[1]
    path, at, node, share = search.path, search.at, np.empty(0, np.int64), np.zeros(len(windows.low), np.int64)
    none = layers.amount[:0]
    ways, heaps = Ways(none, node, node, node), Heaps(none, node, node)
    owners, ranks, values, start = [0], [0], [layers.amount[0]], np.zeros(1, np.int64)
    leading = [(0, layers.amount[0], 0)]
    leading.clear()
    for window in order:
        best = heaviest[0][window], heaviest[1][window], -window
        if len(leading) == k and best <= leading[0]:
            continue
        open_window(search, graph, windows, window, complete)
        for _ in range(wanted[window]):
            ways, heaps, way = next_trend(search, ways, heaps, wanted[window])
            if way < 0:
                break
            trend = at[RANK], ways.value[way], -window
            if len(leading) < k:
                heapq.heappush(leading, trend)
            elif trend > leading[0]:
                heapq.heapreplace(leading, trend)
            else:
                break
            if keep:
                depth, trends = 0, len(owners)
                owners.append(window)
                ranks.append(at[RANK])
                values.append(ways.value[way])
                while way >= 0:
                    path[depth] = ways.state[way] // width + at[FIRST]
                    depth += 1
                    way = ways.rest[way]
                start = widened(start, trends, 1)
                node = add_path(start, node, trends - 1, path, depth)
    for _, _, negative in leading:
        share[-negative] += 1
    start = start[: len(owners)].copy()
    return share, np.array(owners)[1:], np.array(ranks)[1:], np.array(values)[1:], start, node[: start[-1]].copy()
