"""The heaviest trends of a graph, without listing the others.

The weight of a trend is the sum over its nodes, added up from the last one to the first. So of the ways on which a
trend can go on from a node, the heavier one stays the heavier with any node put before it, rounding included, and the
best way from each node follows from those of its successors: one pass backwards.

The next best ways are found only as far as they are asked for (the recursive enumeration algorithm of Jiménez and
Marzal 1999). A node's j-th best way is the best of its *candidates*: for each successor the first of that one's ways
that the node has not used yet. To find the next, the candidate that was taken last is replaced by the following way of
the same successor, which may have to be found in the same manner: the search goes down one path and comes back. So k
trends cost k times their length, not counting the one pass, and never more candidates are kept than edges.

Values that do not add up like numbers are kept apart. A way belongs to a *layer*: the set of the kinds of values (none,
number, infinity, minus infinity, NaN) that are on it. Within a layer sums are numbers, and each layer is of one rank in
Spark's descending order: NaN, infinity, numbers, minus infinity, and NULL, the sum of no values.
"""

from __future__ import annotations

import heapq
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cetdsl.errors import CountOverflow
from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.graph.counts import END, ROOT, SEEN, Roles, Values, fill_roles, widest
from cetdsl.kernels.graph.samples import appended
from cetdsl.kernels.graph.walk import Windows, windows_of
from cetdsl.kernels.vocabulary import Block, Bools, Graph, Ints, Places

Weights = NDArray[np.float64] | NDArray[np.int64]

#: Kinds of values, as bits; 0: none.
_NUMBER, _INFINITE, _MINUS_INFINITE, _NAN = 1, 2, 4, 8
#: What a layer's trends weigh, as a rank.
_IS_NULL, _IS_MINUS_INFINITE, _IS_NUMBER, _IS_INFINITE, _IS_NAN = 0, 1, 2, 3, 4
#: In place of a state: the trend ends here; there is no way.
_LAST, _NO_WAY = -1, -2
#: In place of a way: the first one of its state; not looked for yet; there is no more.
_THE_FIRST, _UNKNOWN, _NO_MORE = -2, -2, -1


class Top(NamedTuple):
    """Trends by falling weight.

    Attributes
    ----------
    weight : float64 or int64 array, shape (trends,)
    present : bool array, shape (trends,)
        Whether there was any value to add up; where not, the weight is 0.
    block : Block
    """

    weight: Weights
    present: Bools
    block: Block


class _Layers(NamedTuple):
    """The nodes' values, and what layer a way is of.

    Attributes
    ----------
    amount : int64 or float64 array, shape (nodes,)
        The value if it is a number, else 0.
    kind : int64 array, shape (nodes,)
        Number of the kind of the node's value.
    own : int64 array, shape (kinds,)
        The layer of a single node.
    after : int64 array, shape (kinds, layers)
        The layer of a node that is followed by a way of some layer.
    rank : int64 array, shape (layers,)
    """

    amount: Values
    kind: Ints
    own: Ints
    after: Ints
    rank: Ints


def top_paths(
    graph: Graph,
    variable: Ints,
    low: Ints,
    high: Ints,
    complete: bool,
    k: int,
    weight: Weights,
    present: Bools | None = None,
) -> Top:
    """The heaviest trends of all slices together.

    Of trends of equal weight those of earlier slices come first, then those that come first in the canonical order
    (where sums are exact and no value is missing; else in an order that depends on the data alone).

    Parameters
    ----------
    graph : Graph
        The whole graph, or its transitive reduction for maximal trends.
    variable : int64 array, shape (states,)
        Bit number of the variable that each state reads.
    low, high : int64 arrays, shape (slices,)
        The events of each slice.
    complete : bool
        Whether only paths that cannot be extended at either end count.
    k : int
        How many trends; all if there are fewer.
    weight : float64 or int64 array, shape (nodes,)
    present : bool array, shape (nodes,), optional
        Whether a node has a value at all; those that have none add nothing.

    Raises
    ------
    CountOverflow
        If whole numbers add up to more than 64 bits hold.

    Examples
    --------
    >>> from cetdsl.kernels.graph.build import NEVER, Graph
    >>> i, flags = np.arange(4), np.ones(4, dtype=bool)
    >>> before, after = np.array([-1, 0, 0, 2], dtype="i4"), np.array([1, NEVER, 3, NEVER], dtype="i4")
    >>> start, stop, target = np.array([0, 2, 2, 3]), np.array([2, 2, 3, 3]), np.array([1, 2, 3], dtype="i4")
    >>> here = i.astype("i4")
    >>> graph = Graph(i, here * 0, flags, flags, here, before, here, after, start, stop, target)
    >>> top = top_paths(graph, np.array([0]), np.array([0]), np.array([4]), False, 3, np.array([5, 0, 1, 2]))
    >>> top.weight.tolist(), [part.tolist() for part in np.split(top.block.event, top.block.start[1:-1])]
    ([8, 6, 5], [[0, 2, 3], [0, 2], [0]])
    """
    windows = windows_of(graph, low, high)
    if k == 0 or len(low) == 0 or len(graph.event) == 0:
        none = np.zeros(0, dtype=np.int64)
        return Top(weight[:0], none.astype(np.bool_), Block(np.zeros(1, np.int64), none, none.astype(np.int16), none))
    present = np.ones(len(weight), dtype=np.bool_) if present is None else present
    # No sum of whole numbers exceeds this; up to 2**53 doubles hold them exactly.
    bound = float(np.abs(weight.astype(np.float64)).max()) * int((windows.last - windows.first).max())
    whole = weight.dtype == np.int64 and bound >= 2.0**53
    if whole and bound >= 2.0**62:
        _refuse_overflow(graph, windows, complete, weight)
    layers = _layers(weight if whole else weight.astype(np.float64), present)
    heaviest = _heaviest(graph, windows, complete, layers)
    order = np.lexsort((-heaviest[1], -heaviest[0]))
    order = order[heaviest[0][order] >= 0]
    given = graph, windows, complete, layers, heaviest, order
    wanted = np.full(len(low), k)
    if len(order) > 1:
        wanted = _list_trends(*given, wanted, k, False)[0]
    _, number, rank, value, start, node = _list_trends(*given, wanted, k, True)
    best = np.lexsort((number, -value, -rank))
    trends = Block(start, graph.event[node], variable[graph.state[node]].astype(np.int16), number)
    return Top(_spelled(value, rank, weight)[best], (rank != _IS_NULL)[best], _take(trends, best))


def _layers(weight: Weights, present: Bools) -> _Layers:
    bits = np.where(present, _NUMBER, 0)
    if weight.dtype == np.float64:
        bits = np.where(present & np.isnan(weight), _NAN, bits)
        bits = np.where(present & (weight == np.inf), _INFINITE, bits)
        bits = np.where(present & (weight == -np.inf), _MINUS_INFINITE, bits)
    kinds = np.unique(bits)
    layers = set(kinds.tolist())
    while len(layers) < len(wider := {a | b for a in layers for b in layers}):
        layers = wider
    number = {layer: place for place, layer in enumerate(sorted(layers))}
    return _Layers(
        np.where(bits == _NUMBER, weight, weight.dtype.type(0)),
        np.searchsorted(kinds, bits),
        np.array([number[kind] for kind in kinds.tolist()], dtype=np.int64),
        np.array([[number[kind | layer] for layer in number] for kind in kinds.tolist()], dtype=np.int64),
        np.array([_rank(layer) for layer in number], dtype=np.int64),
    )


def _rank(layer: int) -> int:
    """The place of a layer's sums in the order of weights."""
    if layer & _NAN or (layer & _INFINITE and layer & _MINUS_INFINITE):
        return _IS_NAN
    if layer & _INFINITE:
        return _IS_INFINITE
    if layer & _MINUS_INFINITE:
        return _IS_MINUS_INFINITE
    return _IS_NUMBER if layer else _IS_NULL


def _spelled(value: Weights, rank: Ints, weight: Weights) -> Weights:
    """The sums of trends, of which the sum of the numbers and the rank are given, in the type of the weights."""
    if weight.dtype == np.int64:
        return value.astype(np.int64)
    spelled = value.astype(np.float64)
    for place, name in ((_IS_MINUS_INFINITE, -np.inf), (_IS_INFINITE, np.inf), (_IS_NAN, np.nan)):
        spelled[rank == place] = name
    return spelled


def _refuse_overflow(graph: Graph, windows: Windows, complete: bool, weight: Weights) -> None:
    """The magnitudes along every trend have to add up to what 64 bits hold, with some allowance for rounding."""
    magnitudes = _layers(np.abs(weight.astype(np.float64)), np.ones(len(weight), dtype=np.bool_))
    largest = float(_heaviest(graph, windows, complete, magnitudes)[1].max())
    if largest >= 2.0**63 * (1 - 1e-9):
        raise CountOverflow(
            f"the values along a trend add up to about 2^{math.log2(largest):.1f}, which does not fit 64 bits",
            hint="cast the column to double",
        )


def _take(block: Block, rows: Ints) -> Block:
    """Some of a block's trends."""
    length = np.diff(block.start)[rows]
    start = np.concatenate([[0], np.cumsum(length)]).astype(np.int64)
    place = np.arange(start[-1]) + np.repeat(block.start[rows] - start[:-1], length)
    return Block(start, block.event[place], block.variable[place], block.slice[rows])


# ----------------------------------------------------------------------------------------------- best of all


@jit
def _fill_ways(
    graph: Graph, windows: Windows, number: int, role: Roles, layers: _Layers, best: Values, choice: Ints
) -> None:
    """The best way from every state (node of a window and layer): what it weighs, and the state that it goes on with.

    State ``row * layers + layer`` stands for the window's node ``row``. Of equal ways the first one is the best.
    """
    starts, stops, target = graph.start, graph.stop, graph.target
    amount, kind, own, after = layers.amount, layers.kind, layers.own, layers.after
    first, last, width = windows.first[number], windows.last[number], after.shape[1]
    for v in range(last - 1, first - 1, -1):
        base = (v - first) * width
        choice[base : base + width] = _NO_WAY
        if not role[v - first] & SEEN:
            continue
        if role[v - first] & END:
            best[base + own[kind[v]]] = amount[v]
            choice[base + own[kind[v]]] = _LAST
        for k in range(starts[v], stops[v]):
            if target[k] >= last:
                break
            for layer in range(width):
                following = (target[k] - first) * width + layer
                if choice[following] == _NO_WAY:
                    continue
                x = base + after[kind[v], layer]
                value = amount[v] + best[following]
                if choice[x] == _NO_WAY or value > best[x]:
                    best[x], choice[x] = value, following


@jit
def _heaviest(graph: Graph, windows: Windows, complete: bool, layers: _Layers) -> tuple[Ints, Values]:
    """The rank and the sum of each window's heaviest trend; rank -1: it has none."""
    width, room = layers.after.shape[1], widest(windows)
    role, choice = np.empty(room, np.uint8), np.empty(room * width, np.int64)
    best = np.empty(room * width, layers.amount.dtype)
    ranks, values = np.full(len(windows.low), -1), np.zeros(len(windows.low), layers.amount.dtype)
    for number in range(len(windows.low)):
        fill_roles(graph, windows, number, complete, role)
        _fill_ways(graph, windows, number, role, layers, best, choice)
        for row in range(windows.last[number] - windows.first[number]):
            for layer in range(width if role[row] & ROOT else 0):
                x, rank = row * width + layer, layers.rank[layer]
                if choice[x] == _NO_WAY or rank < ranks[number]:
                    continue
                if rank > ranks[number] or best[x] > values[number]:
                    ranks[number], values[number] = rank, best[x]
    return ranks, values


# ------------------------------------------------------------------------------------------------- candidates


class _Heaps(NamedTuple):
    """Heaps of candidates, the best on top: the heavier, then the one with the earlier state.

    A candidate is the state that goes on, and which of its ways; the heaps of all states lie in the same arrays.
    """

    value: Values
    state: Ints
    way: Ints


@inlined
def _beats(heaps: _Heaps, a: int, b: int) -> bool:
    if heaps.value[a] == heaps.value[b]:
        return bool(heaps.state[a] < heaps.state[b])
    return bool(heaps.value[a] > heaps.value[b])


@inlined
def _swap(heaps: _Heaps, a: int, b: int) -> None:
    heaps.value[a], heaps.value[b] = heaps.value[b], heaps.value[a]
    heaps.state[a], heaps.state[b] = heaps.state[b], heaps.state[a]
    heaps.way[a], heaps.way[b] = heaps.way[b], heaps.way[a]


@jit
def _sink(heaps: _Heaps, start: int, size: int, place: int) -> None:
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and _beats(heaps, start + child + 1, start + child):
            child += 1
        if not _beats(heaps, start + child, start + place):
            break
        _swap(heaps, start + child, start + place)
        place = child


@jit
def _push(heaps: _Heaps, start: int, size: int, value: float, state: int, way: int) -> None:
    """Adds a candidate to the ``size`` that a heap has."""
    heaps.value[start + size], heaps.state[start + size], heaps.way[start + size] = value, state, way
    place = size
    while place > 0 and _beats(heaps, start + place, start + (place - 1) // 2):
        _swap(heaps, start + place, start + (place - 1) // 2)
        place = (place - 1) // 2


# ------------------------------------------------------------------------------------------------ the search


class _View(NamedTuple):
    """A window as the search sees it: the successors, values and roles of its nodes ``first:last``."""

    start: Ints
    stop: Ints
    target: Places
    role: Roles
    layers: _Layers
    first: int
    last: int


class _States(NamedTuple):
    """What is known of each state (a node of the window and a layer).

    Attributes
    ----------
    best : array, shape (states,)
        The weight of the best way.
    choice : int64 array, shape (states,)
        The state with which it goes on, ``_LAST`` or ``_NO_WAY``.
    first, latest : int64 arrays, shape (states,)
        The best way and the one found last; -1: none has been looked for.
    heap, size : int64 arrays, shape (states + 1,)
        Where the candidates for the next way begin, -1 if they have not been collected, and how many there are. The
        last heap is that of the trends.
    """

    best: Values
    choice: Ints
    first: Ints
    latest: Ints
    heap: Ints
    size: Ints


class _Ways(NamedTuple):
    """The ways that have been found: weight, first state, the way that goes on (or -1), the next best of the state."""

    value: Values
    state: Ints
    rest: Ints
    following: Ints


#: Places in the array of what is used: ways, cells of heaps, the way of the last trend, the rank of its layer.
_WAYS, _CELLS, _TREND, _RANK = 0, 1, 2, 3


@jit
def _make_states(windows: Windows, layers: _Layers) -> _States:
    count = widest(windows) * layers.after.shape[1]
    return _States(
        np.empty(count, layers.amount.dtype),
        np.empty(count, np.int64),
        np.empty(count, np.int64),
        np.empty(count, np.int64),
        np.empty(count + 1, np.int64),
        np.empty(count + 1, np.int64),
    )


@jit
def _more_ways(ways: _Ways, used: int, more: int) -> _Ways:
    """The ways, with room for more."""
    if used + more <= len(ways.value):
        return ways
    size = 2 * (used + more)
    wider = _Ways(
        np.empty(size, ways.value.dtype), np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
    )
    wider.value[:used], wider.state[:used] = ways.value[:used], ways.state[:used]
    wider.rest[:used], wider.following[:used] = ways.rest[:used], ways.following[:used]
    return wider


@jit
def _more_cells(heaps: _Heaps, used: int, more: int) -> _Heaps:
    """The heaps, with room for more."""
    if used + more <= len(heaps.value):
        return heaps
    size = 2 * (used + more)
    wider = _Heaps(np.empty(size, heaps.value.dtype), np.empty(size, np.int64), np.empty(size, np.int64))
    wider.value[:used], wider.state[:used] = heaps.value[:used], heaps.state[:used]
    wider.way[:used] = heaps.way[:used]
    return wider


@jit
def _open(
    graph: Graph,
    windows: Windows,
    number: int,
    complete: bool,
    layers: _Layers,
    role: Roles,
    states: _States,
    used: Ints,
) -> _View:
    """Makes ready for the trends of another window."""
    fill_roles(graph, windows, number, complete, role)
    _fill_ways(graph, windows, number, role, layers, states.best, states.choice)
    first, last = windows.first[number], windows.last[number]
    count = (last - first) * layers.after.shape[1]
    states.first[:count], states.latest[:count] = -1, -1
    states.heap[:count], states.size[-1] = -1, 0
    used[_WAYS], used[_CELLS], used[_TREND], used[_RANK] = 0, 0, -1, _IS_NAN + 1
    return _View(graph.start, graph.stop, graph.target, role, layers, first, last)


@jit
def _add_way(states: _States, ways: _Ways, used: Ints, x: int, value: float, rest: int) -> int:
    way = int(used[_WAYS])
    used[_WAYS] += 1
    ways.value[way], ways.state[way], ways.rest[way], ways.following[way] = value, x, rest, _UNKNOWN
    states.latest[x] = way
    return way


@jit
def _first_way(states: _States, ways: _Ways, used: Ints, chain: Ints, x: int) -> int:
    """The best way of a state, which the pass backwards has found."""
    depth = 0
    while x != _LAST and states.first[x] < 0:
        chain[depth] = x
        depth += 1
        x = states.choice[x]
    way = -1 if x == _LAST else states.first[x]
    for d in range(depth - 1, -1, -1):
        way = _add_way(states, ways, used, chain[d], states.best[chain[d]], way)
        states.first[chain[d]] = way
    return way


@jit
def _keep_candidates(
    states: _States, heaps: _Heaps, used: Ints, owner: int, value: Values, state: Ints, count: int, most: int
) -> _Heaps:
    """Makes a heap of the best of some candidates, and leaves room for one more."""
    found = _Heaps(value, state, np.full(count, _THE_FIRST))
    for place in range(count // 2 - 1, -1, -1):
        _sink(found, 0, count, place)
    kept, start = min(count, most), used[_CELLS]
    heaps = _more_cells(heaps, start, kept + 1)
    for c in range(kept):
        place = c if kept == count else 0
        heaps.value[start + c], heaps.state[start + c], heaps.way[start + c] = value[place], state[place], _THE_FIRST
        if kept < count:
            # In falling order they are a heap, too.
            _swap(found, 0, count - 1 - c)
            _sink(found, 0, count - 1 - c, 0)
    states.heap[owner], states.size[owner] = start, kept
    used[_CELLS] += kept + 1
    return heaps


@jit
def _collect_ways(view: _View, states: _States, heaps: _Heaps, used: Ints, x: int, most: int) -> _Heaps:
    """The candidates of a state, but for its best way: that which goes nowhere, and the first one of each successor."""
    target, after, choice, best = view.target, view.layers.after, states.choice, states.best
    width, first, last = after.shape[1], view.first, view.last
    v, layer = x // width + first, x % width
    kind, amount = view.layers.kind[v], view.layers.amount[v]
    start, stop = view.start[v], view.stop[v]
    room = (stop - start) * width + 1
    value, state, count = np.empty(room, best.dtype), np.empty(room, np.int64), 0
    if view.role[v - first] & END and view.layers.own[kind] == layer and choice[x] != _LAST:
        value[count], state[count] = amount, _LAST
        count += 1
    for k in range(start, stop):
        if target[k] >= last:
            break
        for other in range(width):
            following = (target[k] - first) * width + other
            if choice[following] != _NO_WAY and after[kind, other] == layer and choice[x] != following:
                value[count], state[count] = amount + best[following], following
                count += 1
    return _keep_candidates(states, heaps, used, x, value, state, count, most)


@jit
def _collect_trends(view: _View, states: _States, heaps: _Heaps, used: Ints, rank: int, most: int) -> _Heaps:
    """The candidates for the trends of one rank: the best way of each root and layer."""
    width, rows = view.layers.after.shape[1], view.last - view.first
    value, state, count = np.empty(rows * width, states.best.dtype), np.empty(rows * width, np.int64), 0
    for row in range(rows):
        if view.role[row] & ROOT:
            for x in range(row * width, (row + 1) * width):
                if states.choice[x] != _NO_WAY and view.layers.rank[x - row * width] == rank:
                    value[count], state[count] = states.best[x], x
                    count += 1
    return _keep_candidates(states, heaps, used, len(states.best), value, state, count, most)


@jit
def _replace_candidate(states: _States, ways: _Ways, heaps: _Heaps, owner: int, taken: int, amount: float) -> None:
    """In place of a way that was taken, its state offers the one that follows, if there is one."""
    following = ways.following[taken] if taken >= 0 else _NO_MORE
    if following >= 0:
        _push(
            heaps, states.heap[owner], states.size[owner], amount + ways.value[following], ways.state[taken], following
        )
        states.size[owner] += 1


@jit
def _take_candidate(
    states: _States, ways: _Ways, heaps: _Heaps, used: Ints, chain: Ints, owner: int
) -> tuple[float, int]:
    """Removes the best candidate of a heap: what it weighs, and its way, -1 for the one that goes nowhere."""
    start, value = states.heap[owner], heaps.value[states.heap[owner]]
    state, way = heaps.state[start], heaps.way[start]
    states.size[owner] -= 1
    _swap(heaps, start, start + states.size[owner])
    _sink(heaps, start, states.size[owner], 0)
    if way == _THE_FIRST:
        way = _first_way(states, ways, used, chain, state)
    return value, way


@jit
def _find_following(
    view: _View, states: _States, ways: _Ways, heaps: _Heaps, used: Ints, path: Ints, chain: Ints, x: int, most: int
) -> _Heaps:
    """Finds the next best way of a state, and those that it needs for that."""
    width = view.layers.after.shape[1]
    depth = 0
    while True:
        path[depth] = x
        depth += 1
        rest = ways.rest[states.latest[x]]
        if rest < 0 or ways.following[rest] != _UNKNOWN:
            break
        x = ways.state[rest]
    for d in range(depth - 1, -1, -1):
        x = path[d]
        latest = states.latest[x]
        if states.heap[x] < 0:
            heaps = _collect_ways(view, states, heaps, used, x, most)
        amount = view.layers.amount[x // width + view.first]
        _replace_candidate(states, ways, heaps, x, ways.rest[latest], amount)
        if states.size[x] == 0:
            ways.following[latest] = _NO_MORE
        else:
            value, rest = _take_candidate(states, ways, heaps, used, chain, x)
            ways.following[latest] = _add_way(states, ways, used, x, value, rest)
    return heaps


@jit
def _next_trend(
    view: _View, states: _States, ways: _Ways, heaps: _Heaps, used: Ints, path: Ints, chain: Ints, most: int
) -> tuple[_Ways, _Heaps, int]:
    """The next best trend of the window as a way; -1: no more."""
    trends, last = len(states.best), used[_TREND]
    # A way for each node of the path, and the first ways of states that had none.
    ways = _more_ways(ways, used[_WAYS], (view.last - view.first) * (view.layers.after.shape[1] + 1))
    if last >= 0:
        if ways.following[last] == _UNKNOWN:
            heaps = _find_following(view, states, ways, heaps, used, path, chain, ways.state[last], most)
        _replace_candidate(states, ways, heaps, trends, last, view.layers.amount[0] * 0)
    while states.size[trends] == 0:
        used[_RANK] -= 1
        if used[_RANK] < 0:
            return ways, heaps, -1
        heaps = _collect_trends(view, states, heaps, used, used[_RANK], most)
    _, way = _take_candidate(states, ways, heaps, used, chain, trends)
    used[_TREND] = way
    return ways, heaps, way


@jit
def _list_trends(
    graph: Graph,
    windows: Windows,
    complete: bool,
    layers: _Layers,
    heaviest: tuple[Ints, Values],
    order: Ints,
    wanted: Ints,
    k: int,
    keep: bool,
) -> tuple[Ints, Ints, Ints, Values, Ints, Ints]:
    """The k heaviest trends of all windows, or only how many of them each window has.

    The windows, given by falling weight of their heaviest trends, list as many as are wanted of each, or until the k-th
    best so far beats them.

    Returns
    -------
    share : int64 array, shape (windows,)
        How many of the k heaviest trends each window has.
    number, rank : int64 array, value : array, start : int64 array, node : int64 array
        The window, rank and weight of each trend, and where its nodes begin; nothing unless they are to be kept.
    """
    states, room, width = _make_states(windows, layers), widest(windows), layers.after.shape[1]
    role, path, chain = np.empty(room, np.uint8), np.empty(room, np.int64), np.empty(room, np.int64)
    used, node, share = np.empty(4, np.int64), np.empty(0, np.int64), np.zeros(len(windows.low), np.int64)
    none = layers.amount[:0]
    ways, heaps = _Ways(none, node, node, node), _Heaps(none, node, node)
    numbers, ranks, values, starts = [0], [0], [layers.amount[0]], [0]
    leading = [(0, layers.amount[0], 0)]
    leading.clear()
    for number in order:
        best = heaviest[0][number], heaviest[1][number], -number
        if len(leading) == k and best <= leading[0]:
            continue
        view = _open(graph, windows, number, complete, layers, role, states, used)
        for _ in range(wanted[number]):
            ways, heaps, way = _next_trend(view, states, ways, heaps, used, path, chain, wanted[number])
            if way < 0:
                break
            trend = used[_RANK], ways.value[way], -number
            if len(leading) < k:
                heapq.heappush(leading, trend)
            elif trend > leading[0]:
                heapq.heapreplace(leading, trend)
            else:
                break
            if keep:
                numbers.append(number)
                ranks.append(used[_RANK])
                values.append(ways.value[way])
                depth = 0
                while way >= 0:
                    path[depth] = ways.state[way] // width + view.first
                    depth += 1
                    way = ways.rest[way]
                node = appended(node, starts[-1], path, depth)
                starts.append(starts[-1] + depth)
    for _, _, negative in leading:
        share[-negative] += 1
    start = np.array(starts)
    return share, np.array(numbers)[1:], np.array(ranks)[1:], np.array(values)[1:], start, node[: start[-1]].copy()
