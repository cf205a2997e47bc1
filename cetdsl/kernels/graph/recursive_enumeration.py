"""The next best ways of a window, found only as far as they are asked for: recursive enumeration.

A node's j-th best way is the best of its *candidates*: for each successor the first of that one's ways that the node
has not used yet. To find the next, the candidate that was taken last is replaced by the following way of the same
successor, which may have to be found in the same manner: the search goes down one path and comes back (Jiménez and
Marzal 1999). So k trends cost k times their length, not counting the first pass
(:mod:`~cetdsl.kernels.graph.layers`), and never more candidates are kept than edges.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.graph.counts import END, ROOT, Roles, Values, fill_roles, widest
from cetdsl.kernels.graph.layers import IS_NAN, LAST, NO_WAY, Layers, fill_ways
from cetdsl.kernels.graph.windows import Windows
from cetdsl.kernels.vocabulary import Graph, Ints, Places

#: In place of a way: the first one of its state; not looked for yet; there is no more.
_THE_FIRST, _UNKNOWN, _NO_MORE = -2, -2, -1

# ------------------------------------------------------------------------------------------------- candidates


class Heaps(NamedTuple):
    """Heaps of candidates, the best on top: the heavier, then the one with the earlier state.

    A candidate is the state that goes on, and which of its ways; the heaps of all states lie in the same arrays.
    """

    value: Values
    state: Ints
    way: Ints


@inlined
def _beats(heaps: Heaps, a: int, b: int) -> bool:
    if heaps.value[a] == heaps.value[b]:
        return bool(heaps.state[a] < heaps.state[b])
    return bool(heaps.value[a] > heaps.value[b])


@inlined
def _swap(heaps: Heaps, a: int, b: int) -> None:
    heaps.value[a], heaps.value[b] = heaps.value[b], heaps.value[a]
    heaps.state[a], heaps.state[b] = heaps.state[b], heaps.state[a]
    heaps.way[a], heaps.way[b] = heaps.way[b], heaps.way[a]


@jit
def _sink(heaps: Heaps, start: int, size: int, place: int) -> None:
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and _beats(heaps, start + child + 1, start + child):
            child += 1
        if not _beats(heaps, start + child, start + place):
            break
        _swap(heaps, start + child, start + place)
        place = child


@jit
def _push(heaps: Heaps, start: int, size: int, value: float, state: int, way: int) -> None:
    """Adds a candidate to the ``size`` that a heap has."""
    heaps.value[start + size], heaps.state[start + size], heaps.way[start + size] = value, state, way
    place = size
    while place > 0 and _beats(heaps, start + place, start + (place - 1) // 2):
        _swap(heaps, start + place, start + (place - 1) // 2)
        place = (place - 1) // 2


# ------------------------------------------------------------------------------------------------ the search


class View(NamedTuple):
    """A window as the search sees it: the successors, values and roles of its nodes ``first:last``."""

    start: Ints
    stop: Ints
    target: Places
    role: Roles
    layers: Layers
    first: int
    last: int


class States(NamedTuple):
    """What is known of each state (a node of the window and a layer).

    Attributes
    ----------
    best : array, shape (states,)
        The weight of the best way.
    choice : int64 array, shape (states,)
        The state with which it goes on, ``LAST`` or ``NO_WAY``.
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


class Ways(NamedTuple):
    """The ways that have been found: weight, first state, the way that goes on (or -1), the next best of the state."""

    value: Values
    state: Ints
    rest: Ints
    following: Ints


#: Places in the array of what is used: ways, cells of heaps, the way of the last trend, the rank of its layer.
_WAYS, _CELLS, _TREND, RANK = 0, 1, 2, 3


@jit
def make_states(windows: Windows, layers: Layers) -> States:
    count = widest(windows) * layers.after.shape[1]
    return States(
        np.empty(count, layers.amount.dtype),
        np.empty(count, np.int64),
        np.empty(count, np.int64),
        np.empty(count, np.int64),
        np.empty(count + 1, np.int64),
        np.empty(count + 1, np.int64),
    )


@jit
def _more_ways(ways: Ways, used: int, more: int) -> Ways:
    """The ways, with room for more."""
    if used + more <= len(ways.value):
        return ways
    size = 2 * (used + more)
    wider = Ways(
        np.empty(size, ways.value.dtype), np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
    )
    wider.value[:used], wider.state[:used] = ways.value[:used], ways.state[:used]
    wider.rest[:used], wider.following[:used] = ways.rest[:used], ways.following[:used]
    return wider


@jit
def _more_cells(heaps: Heaps, used: int, more: int) -> Heaps:
    """The heaps, with room for more."""
    if used + more <= len(heaps.value):
        return heaps
    size = 2 * (used + more)
    wider = Heaps(np.empty(size, heaps.value.dtype), np.empty(size, np.int64), np.empty(size, np.int64))
    wider.value[:used], wider.state[:used] = heaps.value[:used], heaps.state[:used]
    wider.way[:used] = heaps.way[:used]
    return wider


@jit
def open_window(
    graph: Graph,
    windows: Windows,
    window: int,
    complete: bool,
    layers: Layers,
    role: Roles,
    states: States,
    used: Ints,
) -> View:
    """Makes ready for the trends of another window."""
    fill_roles(graph, windows, window, complete, role)
    fill_ways(graph, windows, window, role, layers, states.best, states.choice)
    first, last = windows.first[window], windows.last[window]
    count = (last - first) * layers.after.shape[1]
    states.first[:count], states.latest[:count] = -1, -1
    states.heap[:count], states.size[-1] = -1, 0
    used[_WAYS], used[_CELLS], used[_TREND], used[RANK] = 0, 0, -1, IS_NAN + 1
    return View(graph.start, graph.stop, graph.target, role, layers, first, last)


@jit
def _add_way(states: States, ways: Ways, used: Ints, x: int, value: float, rest: int) -> int:
    way = int(used[_WAYS])
    used[_WAYS] += 1
    ways.value[way], ways.state[way], ways.rest[way], ways.following[way] = value, x, rest, _UNKNOWN
    states.latest[x] = way
    return way


@jit
def _first_way(states: States, ways: Ways, used: Ints, chain: Ints, x: int) -> int:
    """The best way of a state, which the pass backwards has found."""
    depth = 0
    while x != LAST and states.first[x] < 0:
        chain[depth] = x
        depth += 1
        x = states.choice[x]
    way = -1 if x == LAST else states.first[x]
    for d in range(depth - 1, -1, -1):
        way = _add_way(states, ways, used, chain[d], states.best[chain[d]], way)
        states.first[chain[d]] = way
    return way


@jit
def _keep_candidates(
    states: States, heaps: Heaps, used: Ints, owner: int, value: Values, state: Ints, count: int, most: int
) -> Heaps:
    """Makes a heap of the best of some candidates, and leaves room for one more."""
    found = Heaps(value, state, np.full(count, _THE_FIRST))
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
def _collect_ways(view: View, states: States, heaps: Heaps, used: Ints, x: int, most: int) -> Heaps:
    """The candidates of a state, but for its best way: that which goes nowhere, and the first one of each successor."""
    target, after, choice, best = view.target, view.layers.after, states.choice, states.best
    width, first, last = after.shape[1], view.first, view.last
    v, layer = x // width + first, x % width
    kind, amount = view.layers.kind[v], view.layers.amount[v]
    start, stop = view.start[v], view.stop[v]
    room = (stop - start) * width + 1
    value, state, count = np.empty(room, best.dtype), np.empty(room, np.int64), 0
    if view.role[v - first] & END and view.layers.own[kind] == layer and choice[x] != LAST:
        value[count], state[count] = amount, LAST
        count += 1
    for k in range(start, stop):
        if target[k] >= last:
            break
        for other in range(width):
            following = (target[k] - first) * width + other
            if choice[following] != NO_WAY and after[kind, other] == layer and choice[x] != following:
                value[count], state[count] = amount + best[following], following
                count += 1
    return _keep_candidates(states, heaps, used, x, value, state, count, most)


@jit
def _collect_trends(view: View, states: States, heaps: Heaps, used: Ints, rank: int, most: int) -> Heaps:
    """The candidates for the trends of one rank: the best way of each root and layer."""
    width, rows = view.layers.after.shape[1], view.last - view.first
    value, state, count = np.empty(rows * width, states.best.dtype), np.empty(rows * width, np.int64), 0
    for row in range(rows):
        if view.role[row] & ROOT:
            for x in range(row * width, (row + 1) * width):
                if states.choice[x] != NO_WAY and view.layers.rank[x - row * width] == rank:
                    value[count], state[count] = states.best[x], x
                    count += 1
    return _keep_candidates(states, heaps, used, len(states.best), value, state, count, most)


@jit
def _replace_candidate(states: States, ways: Ways, heaps: Heaps, owner: int, taken: int, amount: float) -> None:
    """In place of a way that was taken, its state offers the one that follows, if there is one."""
    following = ways.following[taken] if taken >= 0 else _NO_MORE
    if following >= 0:
        _push(
            heaps, states.heap[owner], states.size[owner], amount + ways.value[following], ways.state[taken], following
        )
        states.size[owner] += 1


@jit
def _take_candidate(states: States, ways: Ways, heaps: Heaps, used: Ints, chain: Ints, owner: int) -> tuple[float, int]:
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
    view: View, states: States, ways: Ways, heaps: Heaps, used: Ints, path: Ints, chain: Ints, x: int, most: int
) -> Heaps:
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
def next_trend(
    view: View, states: States, ways: Ways, heaps: Heaps, used: Ints, path: Ints, chain: Ints, most: int
) -> tuple[Ways, Heaps, int]:
    """The next best trend of the window as a way; -1: no more."""
    trends, last = len(states.best), used[_TREND]
    # A way for each node of the path, and the first ways of states that had none.
    ways = _more_ways(ways, used[_WAYS], (view.last - view.first) * (view.layers.after.shape[1] + 1))
    if last >= 0:
        if ways.following[last] == _UNKNOWN:
            heaps = _find_following(view, states, ways, heaps, used, path, chain, ways.state[last], most)
        _replace_candidate(states, ways, heaps, trends, last, view.layers.amount[0] * 0)
    while states.size[trends] == 0:
        used[RANK] -= 1
        if used[RANK] < 0:
            return ways, heaps, -1
        heaps = _collect_trends(view, states, heaps, used, used[RANK], most)
    _, way = _take_candidate(states, ways, heaps, used, chain, trends)
    used[_TREND] = way
    return ways, heaps, way
