"""Builds the graph of complete trends: follows the edges of a base graph, and the shadows of each trend beside them.

The *base graph* is that of the base machine, whose paths are trends whether or not they are complete. A node of the new
graph is an event in a state of the query's machine, together with a set of *shadows*: the states in which longer trends
may have read the same bindings (:mod:`cetdsl.ir.shadows`). Where the trend takes an edge between two events, a shadow
takes an edge of its own between the same two events, or a *detour*, a longer path through events between them. The
trend's own state may take a detour, too, which makes a new shadow. A shadow *covers* a state if a trend can go on from
the shadow in whatever ways it can go on from the state. So no complete trend goes through a node whose state a shadow
covers, and no such node is made. Where longer trends count only if they begin earlier or end later, but not if they
have more events inside, there are no detours.

Where a span bounds trends, longer trends that begin earlier have to end earlier. Each node then has a set of shadows
for each *origin*, the state in which the longer trends read the first event of the trend. Each origin has a deadline,
and none of its shadows stands beside an event later than that.

Where the base graph is a transitive reduction there are no shadows, and only the states of the machine are followed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cetdsl.kernels._borrow import borrowed
from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.graph.attribute_graph import NEVER, NOWHERE
from cetdsl.kernels.graph.blocks import widened
from cetdsl.kernels.graph.edges import crossed_from
from cetdsl.kernels.machine.program import place_of
from cetdsl.kernels.vocabulary import Bools, Graph, Index, Ints, Places

Words = NDArray[np.uint64]

#: Bytes for the bit maps that find detours.
_BIT_MAP_BYTES = 64 * 2**20


class Detours(NamedTuple):
    """The pairs of events between which the base graph has an edge, and the longer paths between them.

    With ``row = b * variables + v``, the pairs of event ``b``, bound to variable ``v``, with later events are
    ``start[row]:start[row + 1]``, and ``event`` are the later events, rising. ``direct`` and ``round`` have the shape
    (pairs, states of one variable): for each state that reads the earlier event, the states, as bits, in which an edge
    (``direct``) or a longer path (``round``) reads the later one. ``rank`` numbers the states that read the same
    variable, from 0, and ``variable`` is the number of the variable that each state reads.
    """

    start: Ints
    event: Places
    direct: Ints
    round: Ints
    rank: Ints
    variable: Ints


class Facts(NamedTuple):
    """The facts about copies of the events that decide which trends are complete; sets of base states are bits.

    Attributes
    ----------
    precedes : int64 array, shape (copies, origins)
        The states in which longer trends of each origin read the event after they have bound an earlier one. They are
        the first shadows of a trend that begins with the event.
    follows : int64 array, shape (copies, origins)
        The states from which a trend goes on after the event, and ends by the deadline of the origin.
    ends : int64 array, shape (copies,)
        The states in which the event ends a trend.
    time : int64 array, shape (copies,)
        The time of each copy.
    deadline : int64 array, shape (slices, origins)
        The time up to which the longer trends of each origin may last. That of the first origin is after all events.
    """

    precedes: Ints
    follows: Ints
    ends: Ints
    time: Ints
    deadline: Ints


#: Columns of a node that was made: the node of the same copy that was made before it, its state, whether a trend begins
#: there, its number in the order of events, and then its shadows, a column for each origin.
_OLDER, _STATE, _BEGINS, _PLACE, _SHADOWS = range(5)


class Led(NamedTuple):
    """How edges of the base machine lead from state to state of the query's machine.

    ``leads[p, r]`` is the state that follows state ``p`` where the base goes on to its state ``r``; -1: none. ``place``
    is the base state of each state. If shadows are ``followed``, ``covers`` are the states, as bits, that cover each
    state.
    """

    leads: Ints
    place: Ints
    covers: Ints
    followed: bool


def no_detours() -> Detours:
    """Returns empty detours, for a base graph that has been reduced."""
    none, row = np.zeros(0, dtype=np.int64), np.zeros((0, 1), dtype=np.int64)
    return Detours(np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int32), row, row, none, none)


def find_detours(base: Graph, variable: Ints, events: int, *, inside: bool) -> Detours:
    """Finds the detours of a graph whose edges are listed; ``variable`` is that of each state.

    Longer paths are looked for only if a longer trend may have more events ``inside``, between those of a shorter one.
    """
    _, number = np.unique(variable, return_inverse=True)
    number = number.astype(np.int64)
    rank = np.array([int((number[:q] == number[q]).sum()) for q in range(len(number))], dtype=np.int64)
    variables = int(number.max(initial=-1)) + 1
    start, event = _list_pairs(base, number, variables, events)
    direct, around = np.zeros((2, len(event), int(rank.max(initial=0)) + 1), dtype=np.int64)
    detours = Detours(start, event, direct, around, rank, number)
    _fill_direct(base, detours, variables)
    if inside:
        words = int(min(64, max(1, _BIT_MAP_BYTES // (8 * max(len(base.event), 1)))))
        _fill_round(base, detours, variables, np.zeros((len(base.event), words), dtype=np.uint64))
    return detours


@jit
def _list_pairs(base: Graph, number: Ints, variables: int, events: int) -> tuple[Ints, Places]:
    """Lists the later events to which edges lead from each event, bound to each variable: where they begin, and all."""
    out_start = np.zeros(events * variables + 1, dtype=np.int64)
    out = np.empty((base.stop - base.start).sum(), dtype=np.int32)
    size, v = 0, 0
    for b in range(events):
        first = v
        while v < len(base.event) and base.event[v] == b:
            v += 1
        for variable in range(variables):
            begun = size
            for a in range(first, v):
                if number[base.state[a]] == variable:
                    for k in range(base.start[a], base.stop[a]):
                        out[size] = base.event[base.target[k]]
                        size += 1
            out[begun:size].sort()
            kept = begun
            for k in range(begun, size):
                if k == begun or out[k] != out[kept - 1]:
                    out[kept] = out[k]
                    kept += 1
            size = kept
            out_start[b * variables + variable + 1] = size
    return out_start, out[:size].copy()


@jit
def _fill_direct(base: Graph, detours: Detours, variables: int) -> None:
    """Fills in ``direct``: the states to which edges lead."""
    for a in range(len(base.event)):
        row = base.event[a] * variables + detours.variable[base.state[a]]
        at = detours.start[row]
        for k in range(base.start[a], base.stop[a]):
            t = base.target[k]
            while detours.event[at] < base.event[t]:
                at += 1
            detours.direct[at, detours.rank[base.state[a]]] |= np.int64(1) << np.int64(base.state[t])


@jit
def _fill_round(base: Graph, detours: Detours, variables: int, leads: Words) -> None:
    """Fills in ``round``, the states to which longer paths lead, for the targets of a block of nodes at a time."""
    nodes, words, one = len(base.event), leads.shape[1], np.uint64(1)
    closed = crossed_from(base.start, base.stop, base.target)
    around = np.zeros(words, dtype=np.uint64)
    for first in range(0, nodes, 64 * words):
        last = min(first + 64 * words, nodes)
        for a in range(last - 1, closed[first] - 1, -1):
            leads[a, :] = np.uint64(0)
            around[:] = np.uint64(0)
            for k in range(base.start[a], base.stop[a]):
                t = base.target[k]
                if t >= last:
                    break
                for word in range(words):
                    around[word] |= leads[t, word]
                if t >= first:
                    leads[a, (t - first) >> 6] |= one << np.uint64((t - first) & 63)
            found = False
            for word in range(words):
                leads[a, word] |= around[word]
                found |= around[word] != 0
            if not found:
                continue
            row = base.event[a] * variables + detours.variable[base.state[a]]
            stop = detours.start[row + 1]
            at = place_of(detours.event, detours.start[row], stop, base.event[first])
            t = first
            while at < stop and t < last:
                if base.event[t] < detours.event[at]:
                    t += 1
                elif base.event[t] > detours.event[at]:
                    at += 1
                else:
                    if around[(t - first) >> 6] >> np.uint64((t - first) & 63) & one:
                        bit = np.int64(1) << np.int64(base.state[t])
                        detours.round[at, detours.rank[base.state[a]]] |= bit
                    t += 1


@inlined
def _alike(detours: Detours, state: Index) -> Index:
    """Returns the states that read the same variable, as bits."""
    bits: Index = 0
    for q in range(len(detours.variable)):
        if detours.variable[q] == detours.variable[state]:
            bits |= 1 << q
    return bits


@inlined
def _uncovered(covers: Ints, shadows: Index) -> Index:
    """Returns the shadows that no other one covers."""
    kept = shadows
    for q in range(len(covers)):
        bit = 1 << q
        if kept & bit and kept & covers[q] & ~bit:
            kept &= ~bit
    return kept


@inlined
def _shadows_after(detours: Detours, pair: Index, shadows: Index) -> Index:
    """Returns the states that shadows are in after an edge between a pair of events."""
    found: Index = 0
    q = 0
    while shadows >> q:
        if shadows >> q & 1:
            found |= detours.direct[pair, detours.rank[q]] | detours.round[pair, detours.rank[q]]
        q += 1
    return found


@inlined
def _covering(covers: Ints, shadows: Index) -> Index:
    """Returns the states that some shadow covers."""
    found: Index = 0
    for q in range(len(covers)):
        if covers[q] & shadows:
            found |= 1 << q
    return found


@jit
def _settle(covers: Ints, shadows: Ints, deadlines: Ints, time: Index) -> None:
    """Drops shadows that decide nothing beside an event of this time, of all origins but the first.

    These are the shadows whose deadline has passed, and those that another one covers whose deadline is no earlier.
    """
    for one in range(1, len(shadows)):
        if shadows[one]:
            shadows[one] = _uncovered(covers, shadows[one]) if time <= deadlines[one] else 0
    for one in range(1, len(shadows)):
        for other in range(len(shadows)):
            later = deadlines[other] > deadlines[one] or (deadlines[other] == deadlines[one] and other < one)
            if later and shadows[one] and shadows[other]:
                shadows[one] &= ~_covering(covers, shadows[other])


def follow(
    base: Graph, detours: Detours, led: Led, segment_start: Ints, number: Ints, begins: Bools, ends: Bools,
    facts: Facts, events: int, most: int,
) -> Graph | None:  # fmt: skip
    """Returns the graph of complete trends over copies of events; None if it has more than ``most`` edges.

    Parameters
    ----------
    base
        The base graph, with listed edges.
    detours, led, facts
        What is known of the edges, the states and the copies; see the classes.
    segment_start, number
        Where the copies of each slice begin, and the event of the base graph that each is a copy of, rising in a slice.
    begins, ends : bool arrays, shape (copies, states)
        With which copies, in which states, a trend may begin and end. Where shadows are followed, they may forbid it.
    events, most
        The number of events of the base graph, and the most edges that the new graph may have.
    """
    first = np.searchsorted(base.event, np.arange(events + 1)).astype(np.int64)
    nodes, bounds, target = _follow(base, first, detours, led, segment_start, number, begins, ends, facts, most)
    if not len(bounds):
        return None
    event, state, begun, ended = (np.ascontiguousarray(column) for column in nodes.T)
    return _finished(event, state, begun.astype(np.bool_), ended.astype(np.bool_), bounds, target)


@inlined
def _node_of(made: Ints, newest: Index, state: Index, shadows: Ints) -> Index:
    """Returns the node of a copy that has this state and these shadows; -1: it has not been made yet.

    ``newest`` is the copy's node that was made last.
    """
    width = _SHADOWS + len(shadows)
    n = newest
    while n >= 0:
        if made[width * n + _STATE] == state:
            one = 1
            while one < len(shadows) and made[width * n + _SHADOWS + one] == shadows[one]:
                one += 1
            if one == len(shadows) and made[width * n + _SHADOWS] == shadows[0]:
                break
        n = made[width * n + _OLDER]
    return n


@inlined
def _make(made: Ints, newest: Ints, count: Index, copy: Index, state: Index, shadows: Ints) -> Index:
    """Makes the node of a copy, for which there must be room, and returns it."""
    at = (_SHADOWS + len(shadows)) * count
    made[at + _OLDER], made[at + _STATE], made[at + _BEGINS] = newest[copy], state, 0
    for one in range(len(shadows)):
        made[at + _SHADOWS + one] = shadows[one]
    newest[copy] = count
    return count


@jit
def _follow(
    base: Graph, first: Ints, detours: Detours, led: Led, segment_start: Ints, number: Ints, begins: Bools, ends: Bools,
    facts: Facts, most: int,
) -> tuple[Ints, Ints, Ints]:  # fmt: skip
    """Makes the nodes and edges of :func:`follow`, whether or not a trend can be completed from them.

    Returns a row for each node (copy, state, whether a trend begins there, whether one ends there), the bounds of its
    edges, and their targets. The nodes come in the order of their events. There are no bounds if there are too many
    edges.
    """
    base, detours, led, facts = borrowed(base), borrowed(detours), borrowed(led), borrowed(facts)
    copies, states = begins.shape
    events = len(first) - 1
    variables = max((len(detours.start) - 1) // max(events, 1), 1)
    followed, leads, place, covers = led.followed, led.leads, led.place, led.covers
    origins = facts.deadline.shape[1]
    width = _SHADOWS + origins
    # The nodes that were made, and the newest one of each copy.
    made, newest, count = np.empty(width * 1024, dtype=np.int64), np.full(copies, -1, dtype=np.int64), 0
    after = np.zeros(origins, dtype=np.int64)
    where = np.full(events, -1, dtype=np.int64)
    nodes, bounds, done = np.empty(4 * 1024, dtype=np.int64), np.zeros(1024, dtype=np.int64), 0
    target, edges = np.zeros(1024, dtype=np.int64), 0
    for s in range(len(segment_start) - 1):
        low, high, deadlines = segment_start[s], segment_start[s + 1], facts.deadline[s]
        for c in range(low, high):
            where[number[c]] = c
        for c in range(low, high):
            b = number[c]
            made = widened(made, width * count, width * states)
            for p in range(states):
                if not begins[c, p]:
                    continue
                if followed:
                    if facts.precedes[c, 0] & covers[p]:
                        continue
                    for one in range(origins):
                        after[one] = facts.precedes[c, one] & _alike(detours, p)
                    after[0] = _uncovered(covers, after[0])
                    _settle(covers, after, deadlines, facts.time[c])
                n = _node_of(made, newest[c], p, after)
                if n < 0:
                    n = _make(made, newest, count, c, p, after)
                    count += 1
                made[width * n + _BEGINS] = 1
            n = newest[c]
            while n >= 0:
                at = width * n
                p, shadows = made[at + _STATE], at + _SHADOWS
                first_shadows = made[shadows]
                ending = ends[c, p]
                if followed and ending:
                    beside: Index = facts.follows[c, 0] & 1 << p
                    for one in range(origins):
                        beside |= (facts.follows[c, one] | facts.ends[c]) & made[shadows + one]
                    ending = beside == 0
                made[at + _PLACE] = done
                nodes, bounds = widened(nodes, 4 * done, 4), widened(bounds, done + 1, 1)
                nodes[4 * done], nodes[4 * done + 1] = c, p
                nodes[4 * done + 2], nodes[4 * done + 3] = made[at + _BEGINS], np.int64(ending)
                a = first[b]
                while a < first[b + 1] and base.state[a] != place[p]:
                    a += 1
                known = a < first[b + 1]
                pair = detours.start[b * variables + detours.variable[p]] if followed and known else 0
                for k in range(base.start[a] if known else 0, base.stop[a] if known else 0):
                    d, p_after = base.event[base.target[k]], leads[p, base.state[base.target[k]]]
                    later = where[d]
                    if p_after < 0 or later < low or later >= high:
                        continue
                    if followed:
                        while detours.event[pair] < d:
                            pair += 1
                        alike = _alike(detours, p_after)
                        own: Index = detours.round[pair, detours.rank[p]]
                        own = (own | _shadows_after(detours, pair, first_shadows)) & alike
                        if own & covers[p_after]:
                            continue
                        after[0] = _uncovered(covers, own)
                        if origins > 1:
                            for one in range(1, origins):
                                after[one] = _shadows_after(detours, pair, made[shadows + one]) & alike
                            _settle(covers, after, deadlines, facts.time[later])
                    m = _node_of(made, newest[later], p_after, after)
                    if m < 0:
                        made = widened(made, width * count, width)
                        m = _make(made, newest, count, later, p_after, after)
                        count += 1
                    if edges == most:
                        return np.zeros((0, 4), dtype=np.int64), bounds[:0].copy(), target[:0].copy()
                    target = widened(target, edges, 1)
                    target[edges] = m
                    edges += 1
                done += 1
                bounds[done] = edges
                n = made[at + _OLDER]
        for c in range(low, high):
            where[number[c]] = -1
    for k in range(edges):
        target[k] = made[width * target[k] + _PLACE]
    return nodes[: 4 * done].copy().reshape(-1, 4), bounds[: done + 1].copy(), target[:edges].copy()


@jit
def _finished(event: Ints, state: Ints, begins: Bools, ends: Bools, bounds: Ints, target: Ints) -> Graph:
    """Returns the graph of the nodes from which a trend can be completed, and of the edges between them."""
    nodes = len(event)
    origin, before = np.full(nodes, NOWHERE, dtype=np.int32), np.full(nodes, NOWHERE, dtype=np.int32)
    reach, after = np.full(nodes, NEVER, dtype=np.int32), np.full(nodes, NEVER, dtype=np.int32)
    for v in range(nodes):
        origin[v] = event[v] if begins[v] else before[v]
        for k in range(bounds[v], bounds[v + 1]):
            before[target[k]] = max(before[target[k]], origin[v])
    for v in range(nodes - 1, -1, -1):
        for k in range(bounds[v], bounds[v + 1]):
            after[v] = min(after[v], reach[target[k]])
        reach[v] = np.int32(event[v]) if ends[v] else after[v]
    useful = (reach != NEVER) & (origin >= 0)
    renumbered = np.cumsum(useful) - 1
    kept = np.flatnonzero(useful)
    start, stop = np.zeros(len(kept), dtype=np.int64), np.zeros(len(kept), dtype=np.int64)
    listed = np.empty(bounds[nodes], dtype=np.int32)
    free = 0
    for n in range(len(kept)):
        v = kept[n]
        start[n] = free
        for k in range(bounds[v], bounds[v + 1]):
            if useful[target[k]]:
                listed[free] = renumbered[target[k]]
                free += 1
        listed[start[n] : free].sort()
        stop[n] = free
    return Graph(
        event[kept], state[kept].astype(np.int32), begins[kept], ends[kept], origin[kept], before[kept], reach[kept],
        after[kept], start, stop, listed[:free].copy(),
    )  # fmt: skip
