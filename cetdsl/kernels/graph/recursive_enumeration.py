"""Recursive enumeration finds the next best ways of a window only as far as they are asked for.

A *way* is a path from a node to the end of a trend. A node's j-th best way is the best of its *candidates*: for each
successor, the best way of that successor that the node has not gone on with yet. To find the next best, the search
replaces the candidate that it took last by the next best way of the same successor. If that one is not known, it is
found in the same manner, so the search goes down one path and comes back (Jiménez and Marzal 1999). So k trends cost k
times their length, not counting the first pass (:mod:`~cetdsl.kernels.graph.layers`), and there are never more
candidates than edges.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.graph.blocks import widened
from cetdsl.kernels.graph.layers import IS_NAN, LAST, NO_WAY, Layers, Values, fill_ways
from cetdsl.kernels.graph.windows import END, ROOT, Roles, Windows, fill_roles, widest
from cetdsl.kernels.vocabulary import Graph, Ints, Places

#: In place of a way's number: the best way of the state; a way that has not been looked for yet; there is no more.
_THE_FIRST, _UNKNOWN, _NO_MORE = -2, -2, -1


class Heaps(NamedTuple):
    """Heaps of candidates, the best on top: the heaviest, and of equally heavy ones that with the earliest state.

    A candidate is the state that a way goes on with, and the number of that state's way; ``value`` is the weight of the
    whole way. The heaps of all states lie in the same arrays.
    """

    value: Values
    state: Ints
    way: Ints


@inlined
def _beats(heaps: Heaps, a: int, b: int) -> bool:
    """Whether one candidate is better than another one."""
    if heaps.value[a] == heaps.value[b]:
        return bool(heaps.state[a] < heaps.state[b])
    return bool(heaps.value[a] > heaps.value[b])


@inlined
def _swap(heaps: Heaps, a: int, b: int) -> None:
    """Exchanges the cells of two candidates."""
    heaps.value[a], heaps.value[b] = heaps.value[b], heaps.value[a]
    heaps.state[a], heaps.state[b] = heaps.state[b], heaps.state[a]
    heaps.way[a], heaps.way[b] = heaps.way[b], heaps.way[a]


@jit
def _sink(heaps: Heaps, start: int, size: int, cell: int) -> None:
    """Lets a candidate of the heap ``start:start + size`` sink below the better ones."""
    while 2 * cell + 1 < size:
        child = 2 * cell + 1
        if child + 1 < size and _beats(heaps, start + child + 1, start + child):
            child += 1
        if not _beats(heaps, start + child, start + cell):
            break
        _swap(heaps, start + child, start + cell)
        cell = child


@jit
def _push(heaps: Heaps, start: int, size: int, value: float, state: int, way: int) -> None:
    """Adds a candidate to the ``size`` that a heap has."""
    heaps.value[start + size], heaps.state[start + size], heaps.way[start + size] = value, state, way
    cell = size
    while cell > 0 and _beats(heaps, start + cell, start + (cell - 1) // 2):
        _swap(heaps, start + cell, start + (cell - 1) // 2)
        cell = (cell - 1) // 2


class Search(NamedTuple):
    """A search in one window after the other, with room for the states (node of the window and layer) of the widest.

    ``start``, ``stop`` and ``target`` are the successors of the graph's nodes, and ``role`` is that of the window's
    nodes. Of each state, ``best`` is the weight of the best way, and ``choice`` the state with which it goes on,
    ``LAST`` or ``NO_WAY``; ``first`` and ``latest`` are the numbers of the best way and of the one found last, -1 if
    none has been looked for. ``heap`` says where its candidates for the next way begin, -1 if they have not been
    collected, and ``size`` how many there are; the last heap holds the candidates for the window's next trend. ``path``
    and ``chain`` are work space for states that follow each other. ``at`` says where the search is, see ``RANK``.
    """

    start: Ints
    stop: Ints
    target: Places
    layers: Layers
    role: Roles
    best: Values
    choice: Ints
    first: Ints
    latest: Ints
    heap: Ints
    size: Ints
    path: Ints
    chain: Ints
    at: Ints


class Ways(NamedTuple):
    """The ways that have been found.

    Each has a weight, ``value``, the ``state`` that it begins with, the way ``rest`` that it goes on with (-1: it ends
    there), and the next best way of the same state, ``following``.
    """

    value: Values
    state: Ints
    rest: Ints
    following: Ints


#: Entries of ``Search.at``: how many ways, and cells of heaps, are in use; the way that is the last trend found, and
#: the rank of its layer; the window's first node, and the one after its last.
_WAYS, _CELLS, _TREND, RANK, FIRST, _LAST = range(6)


@jit
def make_search(graph: Graph, windows: Windows, layers: Layers) -> Search:
    """Makes a search that is in no window yet."""
    room, width = widest(windows), layers.after.shape[1]
    states, heaps = np.empty((3, room * width), np.int64), np.empty((2, room * width + 1), np.int64)
    paths, best = np.empty((2, room), np.int64), np.empty(room * width, layers.amount.dtype)
    return Search(
        graph.start,
        graph.stop,
        graph.target,
        layers,
        np.empty(room, np.uint8),
        best,
        states[0],
        states[1],
        states[2],
        heaps[0],
        heaps[1],
        paths[0],
        paths[1],
        np.empty(6, np.int64),
    )


@jit
def open_window(search: Search, graph: Graph, windows: Windows, window: int, complete: bool) -> None:
    """Prepares the search for the trends of another window."""
    fill_roles(graph, windows, window, complete, search.role)
    fill_ways(graph, windows, window, search.role, search.layers, search.best, search.choice)
    first, last, at = windows.first[window], windows.last[window], search.at
    count = (last - first) * search.layers.after.shape[1]
    search.first[:count], search.latest[:count] = -1, -1
    search.heap[:count], search.size[-1] = -1, 0
    at[_WAYS], at[_CELLS], at[_TREND], at[RANK], at[FIRST], at[_LAST] = 0, 0, -1, IS_NAN + 1, first, last


@inlined
def _add_way(search: Search, ways: Ways, x: int, value: float, rest: int) -> int:
    """Adds a way from state ``x``, of weight ``value``, that goes on with the way ``rest``; returns its number."""
    way = int(search.at[_WAYS])
    search.at[_WAYS] += 1
    ways.value[way], ways.state[way], ways.rest[way], ways.following[way] = value, x, rest, _UNKNOWN
    search.latest[x] = way
    return way


@inlined
def _first_way(search: Search, ways: Ways, x: int) -> int:
    """Returns the number of a state's best way; adds it from the choices of the first pass if it has none yet."""
    first, choice, chain, depth = search.first, search.choice, search.chain, 0
    while x != LAST and first[x] < 0:
        chain[depth] = x
        depth += 1
        x = choice[x]
    way = -1 if x == LAST else first[x]
    for d in range(depth - 1, -1, -1):
        way = _add_way(search, ways, chain[d], search.best[chain[d]], way)
        first[chain[d]] = way
    return way


@jit
def _keep_candidates(
    search: Search, heaps: Heaps, owner: int, value: Values, state: Ints, count: int, most: int
) -> Heaps:
    """Makes a heap of the ``most`` best of some candidates, and leaves room for one more.

    ``owner`` is the state whose candidates they are; the number after the last state stands for trends. The candidates
    are the first ``count`` entries of ``value`` and ``state``.
    """
    found = Heaps(value, state, np.full(count, _THE_FIRST))
    for cell in range(count // 2 - 1, -1, -1):
        _sink(found, 0, count, cell)
    kept, start = min(count, most), search.at[_CELLS]
    weights, states = widened(heaps.value, start, kept + 1), widened(heaps.state, start, kept + 1)
    heaps = Heaps(weights, states, widened(heaps.way, start, kept + 1))
    for c in range(kept):
        cell = c if kept == count else 0
        heaps.value[start + c], heaps.state[start + c], heaps.way[start + c] = value[cell], state[cell], _THE_FIRST
        if kept < count:
            # Taken one by one, the best come in falling order, and so are a heap themselves.
            _swap(found, 0, count - 1 - c)
            _sink(found, 0, count - 1 - c, 0)
    search.heap[owner], search.size[owner], search.at[_CELLS] = start, kept, start + kept + 1
    return heaps


@jit
def _collect_ways(search: Search, heaps: Heaps, x: int, most: int) -> Heaps:
    """Collects a state's candidates, without its best way: to end there, and the best way of each other successor."""
    target, after, choice, best = search.target, search.layers.after, search.choice, search.best
    width, first, last = after.shape[1], search.at[FIRST], search.at[_LAST]
    v, layer = x // width + first, x % width
    kind, amount = search.layers.kind[v], search.layers.amount[v]
    start, stop = search.start[v], search.stop[v]
    room = (stop - start) * width + 1
    value, state, count = np.empty(room, best.dtype), np.empty(room, np.int64), 0
    if search.role[v - first] & END and search.layers.own[kind] == layer and choice[x] != LAST:
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
    return _keep_candidates(search, heaps, x, value, state, count, most)


@jit
def _collect_trends(search: Search, heaps: Heaps, rank: int, most: int) -> Heaps:
    """Collects the candidates for the trends of one rank: the best way of each root and layer."""
    choice, best, role, ranks = search.choice, search.best, search.role, search.layers.rank
    width, rows = len(ranks), search.at[_LAST] - search.at[FIRST]
    value, state, count = np.empty(rows * width, best.dtype), np.empty(rows * width, np.int64), 0
    for row in range(rows):
        if role[row] & ROOT:
            for x in range(row * width, (row + 1) * width):
                if choice[x] != NO_WAY and ranks[x - row * width] == rank:
                    value[count], state[count] = best[x], x
                    count += 1
    return _keep_candidates(search, heaps, len(best), value, state, count, most)


@inlined
def _replace_candidate(search: Search, ways: Ways, heaps: Heaps, owner: int, taken: int, amount: float) -> None:
    """Adds the candidate that replaces the way ``taken``: the next best way of the same state, if there is one."""
    following = ways.following[taken] if taken >= 0 else _NO_MORE
    if following >= 0:
        start, size, value = search.heap[owner], search.size[owner], amount + ways.value[following]
        _push(heaps, start, size, value, ways.state[taken], following)
        search.size[owner] += 1


@inlined
def _take_candidate(search: Search, ways: Ways, heaps: Heaps, owner: int) -> tuple[float, int]:
    """Removes the best candidate of a heap; returns its weight, and the way it goes on with (-1: it ends there)."""
    start, value = search.heap[owner], heaps.value[search.heap[owner]]
    state, way = heaps.state[start], heaps.way[start]
    search.size[owner] -= 1
    _swap(heaps, start, start + search.size[owner])
    _sink(heaps, start, search.size[owner], 0)
    if way == _THE_FIRST:
        way = _first_way(search, ways, state)
    return value, way


@jit
def _find_following(search: Search, ways: Ways, heaps: Heaps, x: int, most: int) -> Heaps:
    """Finds the next best way of a state, and first the ways of other states that are needed for that."""
    width, latest, path, depth = search.layers.after.shape[1], search.latest, search.path, 0
    while True:
        path[depth] = x
        depth += 1
        rest = ways.rest[latest[x]]
        if rest < 0 or ways.following[rest] != _UNKNOWN:
            break
        x = ways.state[rest]
    for d in range(depth - 1, -1, -1):
        x = path[d]
        last = latest[x]
        if search.heap[x] < 0:
            heaps = _collect_ways(search, heaps, x, most)
        amount = search.layers.amount[x // width + search.at[FIRST]]
        _replace_candidate(search, ways, heaps, x, ways.rest[last], amount)
        if search.size[x] == 0:
            ways.following[last] = _NO_MORE
        else:
            value, rest = _take_candidate(search, ways, heaps, x)
            ways.following[last] = _add_way(search, ways, x, value, rest)
    return heaps


@jit
def next_trend(search: Search, ways: Ways, heaps: Heaps, most: int) -> tuple[Ways, Heaps, int]:
    """Returns the window's next best trend as a way, -1 if there is no more; heaps keep ``most`` candidates."""
    at, trends, last, used = search.at, len(search.best), search.at[_TREND], search.at[_WAYS]
    # Room for one way for each node of a path, and for the best ways of all states.
    more = (at[_LAST] - at[FIRST]) * (search.layers.after.shape[1] + 1)
    value, state = widened(ways.value, used, more), widened(ways.state, used, more)
    ways = Ways(value, state, widened(ways.rest, used, more), widened(ways.following, used, more))
    if last >= 0:
        if ways.following[last] == _UNKNOWN:
            heaps = _find_following(search, ways, heaps, ways.state[last], most)
        _replace_candidate(search, ways, heaps, trends, last, search.layers.amount[0] * 0)
    while search.size[trends] == 0:
        at[RANK] -= 1
        if at[RANK] < 0:
            return ways, heaps, -1
        heaps = _collect_trends(search, heaps, at[RANK], most)
    _, way = _take_candidate(search, ways, heaps, trends)
    at[_TREND] = way
    return ways, heaps, way
