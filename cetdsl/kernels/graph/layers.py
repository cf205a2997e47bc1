"""The weights of trends, and the heaviest way on from each node: the first pass of the k-best search.

A *way* is a path from a node to the end of a trend. It belongs to a *layer*: the set of the kinds of values (number,
infinity, minus infinity, NaN) that its nodes have, which is empty if no node has a value. The layer alone tells whether
the sum of a way is NaN, infinite, a number, or NULL, the sum of no values. This is its *rank* in Spark's order of
weights. So the pass keeps the best way of each node and layer, and adds up only those values that are numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cetdsl.kernels._jit import jit
from cetdsl.kernels.graph.windows import END, ROOT, SEEN, Roles, Windows, fill_roles, widest
from cetdsl.kernels.vocabulary import Bools, Graph, Ints

#: Weights of nodes or ways, of one of these types.
Weights = NDArray[np.float64] | NDArray[np.int64]
Values = NDArray[Any]

#: Kinds of values, as bits; 0: none.
_NUMBER, _INFINITE, _MINUS_INFINITE, _NAN = 1, 2, 4, 8
#: The ranks of layers, by what the trends in them weigh; higher ones come first in Spark's descending order.
IS_NULL, IS_MINUS_INFINITE, IS_NUMBER, IS_INFINITE, IS_NAN = 0, 1, 2, 3, 4
#: In place of the state that a way goes on with: the trend ends here; there is no way.
LAST, NO_WAY = -1, -2


class Layers(NamedTuple):
    """The nodes' values, and the layers that ways belong to.

    ``amount`` is the value of each node, 0 if that is no number, and ``kind`` the number of its kind. A way of a single
    node is in the layer ``own[kind]``. A way that begins with a node of this ``kind``, and goes on with a way of the
    layer ``layer``, is in ``after[kind, layer]``. ``rank`` is the rank of each layer.
    """

    amount: Values
    kind: Ints
    own: Ints
    after: Ints
    rank: Ints


def layers_of(weight: Weights, present: Bools) -> Layers:
    """Finds the layers of the ways over nodes of these weights, some of which have no value."""
    bits = np.where(present, _NUMBER, 0)
    if weight.dtype == np.float64:
        bits = np.where(present & np.isnan(weight), _NAN, bits)
        bits = np.where(present & (weight == np.inf), _INFINITE, bits)
        bits = np.where(present & (weight == -np.inf), _MINUS_INFINITE, bits)
    kinds = np.unique(bits)
    layers = set(kinds.tolist())
    while len(layers) < len(wider := {a | b for a in layers for b in layers}):
        layers = wider
    position = {layer: p for p, layer in enumerate(sorted(layers))}
    return Layers(
        np.where(bits == _NUMBER, weight, weight.dtype.type(0)),
        np.searchsorted(kinds, bits),
        np.array([position[kind] for kind in kinds.tolist()], dtype=np.int64),
        np.array([[position[kind | layer] for layer in position] for kind in kinds.tolist()], dtype=np.int64),
        np.array([_rank(layer) for layer in position], dtype=np.int64),
    )


def _rank(layer: int) -> int:
    """Returns the rank of a layer's sums in Spark's order of weights."""
    if layer & _NAN or (layer & _INFINITE and layer & _MINUS_INFINITE):
        return IS_NAN
    if layer & _INFINITE:
        return IS_INFINITE
    if layer & _MINUS_INFINITE:
        return IS_MINUS_INFINITE
    return IS_NUMBER if layer else IS_NULL


def spelled(value: Weights, rank: Ints, weight: Weights) -> Weights:
    """Returns the weights of trends, in the type of ``weight``, from the sums of their numbers and their ranks."""
    if weight.dtype == np.int64:
        return value.astype(np.int64)
    spelled = value.astype(np.float64)
    for special, name in ((IS_MINUS_INFINITE, -np.inf), (IS_INFINITE, np.inf), (IS_NAN, np.nan)):
        spelled[rank == special] = name
    return spelled


@jit
def fill_ways(
    graph: Graph, windows: Windows, window: int, role: Roles, layers: Layers, best: Values, choice: Ints
) -> None:
    """Finds the best way from every state (node of a window and layer): its weight, and the state that it goes on with.

    The window's node ``row`` has the states ``row * layers + layer``. Of equal ways the first one is the best.
    """
    starts, stops, target = graph.start, graph.stop, graph.target
    amount, kind, own, after = layers.amount, layers.kind, layers.own, layers.after
    first, last, width = windows.first[window], windows.last[window], after.shape[1]
    for v in range(last - 1, first - 1, -1):
        base = (v - first) * width
        choice[base : base + width] = NO_WAY
        if not role[v - first] & SEEN:
            continue
        if role[v - first] & END:
            best[base + own[kind[v]]] = amount[v]
            choice[base + own[kind[v]]] = LAST
        for k in range(starts[v], stops[v]):
            if target[k] >= last:
                break
            for layer in range(width):
                following = (target[k] - first) * width + layer
                if choice[following] == NO_WAY:
                    continue
                x = base + after[kind[v], layer]
                value = amount[v] + best[following]
                if choice[x] == NO_WAY or value > best[x]:
                    best[x], choice[x] = value, following


@jit
def exceeds_64_bits(graph: Graph, windows: Windows, complete: bool, weight: Ints) -> bool:
    """Whether whole numbers on some way, from any node to the end of a trend, add up to more than 64 bits hold.

    The search adds them up from the end, so these signed sums are what must fit; sums of magnitudes need not.
    """
    starts, stops, target = graph.start, graph.stop, graph.target
    most, least, room = np.iinfo(np.int64).max, np.iinfo(np.int64).min, widest(windows)
    role, known = np.empty(room, np.uint8), np.empty(room, np.bool_)
    greatest, smallest = np.empty(room, np.int64), np.empty(room, np.int64)
    for window in range(len(windows.low)):
        fill_roles(graph, windows, window, complete, role)
        first, last = windows.first[window], windows.last[window]
        for v in range(last - 1, first - 1, -1):
            row = v - first
            known[row] = role[row] & END != 0
            high = low = 0
            for k in range(starts[v], stops[v] if role[row] & SEEN else starts[v]):
                if target[k] >= last:
                    break
                after = target[k] - first
                if known[after]:
                    high = max(high, greatest[after]) if known[row] else greatest[after]
                    low = min(low, smallest[after]) if known[row] else smallest[after]
                    known[row] = True
            if known[row]:
                if (weight[v] > 0 and high > most - weight[v]) or (weight[v] < 0 and low < least - weight[v]):
                    return True
                greatest[row], smallest[row] = high + weight[v], low + weight[v]
    return False


@jit
def find_heaviest(graph: Graph, windows: Windows, complete: bool, layers: Layers) -> tuple[Ints, Values]:
    """Finds the rank and the sum of each window's heaviest trend; rank -1: the window has no trend."""
    width, room = layers.after.shape[1], widest(windows)
    role, choice = np.empty(room, np.uint8), np.empty(room * width, np.int64)
    best = np.empty(room * width, layers.amount.dtype)
    ranks, values = np.full(len(windows.low), -1), np.zeros(len(windows.low), layers.amount.dtype)
    for window in range(len(windows.low)):
        fill_roles(graph, windows, window, complete, role)
        fill_ways(graph, windows, window, role, layers, best, choice)
        for row in range(windows.last[window] - windows.first[window]):
            for layer in range(width if role[row] & ROOT else 0):
                x, rank = row * width + layer, layers.rank[layer]
                if choice[x] == NO_WAY or rank < ranks[window]:
                    continue
                if rank > ranks[window] or best[x] > values[window]:
                    ranks[window], values[window] = rank, best[x]
    return ranks, values
