"""Trends stitched together from partial trends that are kept: t-cet, h-cet and anchors, which differ in what they keep.

The edges of a window are told apart: *inner* edges and *junctions*. A *piece* is a path of inner edges from a node to
where the trend ends or a junction leads on, and a trend is a row of pieces joined by junctions.

=========  ==================================================================================================
t-cet      all edges are inner, so the pieces are the trends
h-cet      edges within a cached graphlet are inner; those of other nodes are junctions, and their pieces the
           nodes alone, which is m-cet
anchors    edges into anchors, the events of chosen attribute vertices, are junctions
=========  ==================================================================================================

The pieces of a node are a table: each successor along an inner edge adds one entry per piece of its own, which says
where that one is. So every edge is crossed once, and a piece takes the same space however long it is. A table lists the
pieces that end a trend before those that a junction prolongs. Trends are then found depth first, piece by piece; those
that end with the same table are read off it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.complete.cuts import Scope, ends_elsewhere, is_useful, leads_to
from cetdsl.kernels.enumerate.search import BLOCK
from cetdsl.kernels.graph.attribute_graph import NEVER
from cetdsl.kernels.graph.walk import (
    Filled,
    Rules,
    in_blocks,
    is_constant,
    is_end,
    is_root,
    successors_stop,
)
from cetdsl.kernels.machine.program import place_of
from cetdsl.kernels.vocabulary import Block, Bools, Floats, Graph, Index, Ints, Places, Shorts

#: Bytes of the index of tables, per node.
INDEX_BYTES = 12
#: Bytes of the search, per event of the longest trend.
STEP_BYTES = 66

#: Positions in the array that holds where the search is. The last is the length of the trend that has no room in the
#: block; 0: there is none left.
_ROOT, _LEVEL, _ENTRY, _ENTRY_STOP, _PREFIX, _TRENDS, _BINDINGS, _REFS, _STEPS, _NEED, _POSITIONS = range(11)
#: Columns of a level of the search: the pieces still to be tried, the successors still to be tried after the present
#: one, the length of the path before and after it, and the first node behind the graphlet.
_PIECE, _PIECE_STOP, _EDGE, _EDGE_STOP, _BEFORE, _AFTER, _BOUND, _COLUMNS = range(8)
#: Where the search finds its next node.
_FROM_ROOTS, _FROM_EDGES, _FROM_PIECES = range(3)


class Tables(NamedTuple):
    """The pieces of nodes.

    Attributes
    ----------
    first, middle, last : int32 arrays, shape (nodes,)
        The entries ``first:middle`` are pieces that end a trend, ``middle:last`` those that a junction prolongs;
        ``first`` is -1 for a node without a table. The nodes are those of a window, or more.
    node : int32 array, shape (entries,)
        The first node of the piece.
    step : int32 array, shape (entries,)
        How far away the entry of its rest is, always negative; 0: there is none.
    length : int32 array, shape (entries,)
    """

    first: Places
    middle: Places
    last: Places
    node: Places
    step: Places
    length: Places


class Junctions(NamedTuple):
    """Which edges are junctions: those that lead to a later graphlet or to an anchor.

    Attributes
    ----------
    bounds : int64 array
        The first node of each graphlet, and the end.
    anchored : bool array
        Of the nodes from the first bound on; empty without anchors.
    """

    bounds: Ints
    anchored: Bools


class Way(NamedTuple):
    """The path that the search stands on."""

    event: Ints
    variable: Shorts
    level: Ints


def make_way(longest: int) -> Way:
    """Room for a path of so many nodes."""
    return Way(
        np.empty(longest, dtype=np.int64),
        np.empty(longest, dtype=np.int16),
        np.empty((longest, _COLUMNS), dtype=np.int64),
    )


def make_tables(nodes: int, entries: int) -> Tables:
    """Room for the tables of so many nodes; none has one yet."""
    index = [np.full(nodes, -1, dtype=np.int32) for _ in range(3)]
    return Tables(*index, *(np.empty(entries, dtype=np.int32) for _ in range(3)))


# ---------------------------------------------------------------------------------------------------------- tables


@inlined
def _is_inner(anchored: Bools, base: Index, t: Index, bound: Index) -> bool:
    return bool(t < bound and (len(anchored) == 0 or not anchored[t - base]))


@jit
def _prolonged(graph: Graph, rules: Rules, scope: Scope, junctions: Junctions, first: int, last: int) -> Bools:
    """Which nodes of a stretch end pieces that a junction may prolong."""
    target, starts, stops, ends = graph.target, graph.start, graph.stop, graph.ends
    origin, reach, reach_after = graph.origin, graph.reach, graph.reach_after
    anchored, base = junctions.anchored, junctions.bounds[0]
    bound = graph.event[last] if last < len(graph.event) else np.int64(NEVER)
    out = np.zeros(last - first, dtype=np.bool_)
    for v in range(first, last):
        if not is_useful(origin, reach, scope, v):
            continue
        if len(anchored) == 0:
            onward = leads_to(starts, stops, target, reach, rules, scope, v, last)
            out[v - first] = onward or ends_elsewhere(ends, reach_after, rules, scope, v, bound)
            continue
        for k in range(starts[v], successors_stop(starts, stops, target, v, scope.last)):
            t = target[k]
            if anchored[t - base] and (not rules.pruned or reach[t] < scope.high):
                out[v - first] = True
                break
    return out


@jit
def fill_tables(
    graph: Graph,
    rules: Rules,
    scope: Scope,
    junctions: Junctions,
    first: int,
    last: int,
    base: int,
    tables: Tables,
    at: int,
) -> int:
    """Adds the tables of the graphlet ``first:last`` behind the entry ``at``; where they end.

    ``base`` is the node that the index of tables begins with.
    """
    goes_on = _prolonged(graph, rules, scope, junctions, first, last)
    target, starts, stops, ends = graph.target, graph.start, graph.stop, graph.ends
    anchored, anchor_base = junctions.anchored, junctions.bounds[0]
    origin, reach, reach_after = graph.origin, graph.reach, graph.reach_after
    node, step, length = tables.node, tables.step, tables.length
    entry_first, entry_middle, entry_last = tables.first, tables.middle, tables.last
    for v in range(last - 1, first - 1, -1):
        entry_first[v - base] = at
        for prolonged in range(2):
            if prolonged:
                entry_middle[v - base] = at
            if not is_useful(origin, reach, scope, v):
                continue
            if prolonged:
                alone = goes_on[v - first]
            else:
                alone = is_end(ends, reach_after, rules.complete, v, scope.high)
            if alone:
                node[at], step[at], length[at] = v, 0, 1
                at += 1
            for k in range(starts[v], stops[v]):
                t = np.int64(target[k])
                if t >= last:
                    break
                if not _is_inner(anchored, anchor_base, t, last):
                    continue
                rest = entry_middle[t - base] if prolonged else entry_first[t - base]
                stop = entry_last[t - base] if prolonged else entry_middle[t - base]
                for entry in range(rest, stop):
                    node[at], step[at], length[at] = v, entry - at, length[entry] + 1
                    at += 1
        entry_last[v - base] = at
    return at


@jit
def count_pieces(
    graph: Graph, rules: Rules, scope: Scope, junctions: Junctions, first: int, last: int, paths: Floats
) -> tuple[float, float]:
    """The number of entries that the tables of a graphlet have, and the visits of a search to it.

    ``paths`` is the number of ways to get to each of its nodes. For visits see :mod:`cetdsl.kernels.complete.cuts`.
    """
    target, starts, stops, ends = graph.target, graph.start, graph.stop, graph.ends
    anchored, anchor_base = junctions.anchored, junctions.bounds[0]
    origin, reach, reach_after = graph.origin, graph.reach, graph.reach_after
    ending, going = np.zeros(last - first), np.zeros(last - first)
    goes_on = _prolonged(graph, rules, scope, junctions, first, last)
    entries = visits = 0.0
    for v in range(last - 1, first - 1, -1):
        here = v - first
        if not is_useful(origin, reach, scope, v):
            continue
        if is_end(ends, reach_after, rules.complete, v, scope.high):
            ending[here] = 1.0
            visits += paths[here]
        if goes_on[here]:
            going[here] = 1.0
        for k in range(starts[v], stops[v]):
            t = np.int64(target[k])
            if t >= last:
                break
            if _is_inner(anchored, anchor_base, t, last):
                ending[here] += ending[t - first]
                going[here] += going[t - first]
        entries += ending[here] + going[here]
        if going[here] > 0.0:
            visits += paths[here] * going[here]
    return entries, visits


@jit
def drop_tables(tables: Tables, nodes: int, entries: int, used: int) -> None:
    """Forgets the first nodes of the index and the first entries, and moves the others there."""
    kept = len(tables.first) - nodes
    for column in (tables.first, tables.middle, tables.last):
        for v in range(kept):
            column[v] = column[v + nodes] - entries if column[v + nodes] >= entries else -1
        column[kept:] = -1
    for column in (tables.node, tables.step, tables.length):
        for entry in range(used - entries):
            column[entry] = column[entry + entries]


# ---------------------------------------------------------------------------------------------------------- stitch


class Stitcher:
    """Lists or counts the trends of one window from tables.

    Parameters
    ----------
    graph : Graph
    variable : int64 array, shape (states,)
        Bit number of the variable that each state reads.
    rules : Rules
    scope : Scope
        The window.
    number : int
        Its number.
    junctions : Junctions
    tables : Tables
    base : int
        The node that the index of the tables begins with.
    way : Way
        Room for the longest trend.

    Attributes
    ----------
    bytes_held : int
        What the search and the tables take, apart from the graph and the block.
    steps : int
        Vertices and pieces visited so far, and references of trends that were put together from pieces.
    """

    def __init__(
        self,
        graph: Graph,
        variable: Ints | Shorts,
        rules: Rules,
        scope: Scope,
        number: int,
        junctions: Junctions,
        tables: Tables,
        base: int,
        way: Way,
    ) -> None:
        self._variable = np.asarray(variable, dtype=np.int16)
        self.number = number
        self._window = (graph, self._variable, rules, scope, number, junctions, tables, base)
        self._way = way
        self._at = np.zeros(_POSITIONS, dtype=np.int64)
        self._at[_ROOT] = scope.first
        # The tables of one graphlet hold the trends themselves.
        self._joins = len(junctions.bounds) > 2 or len(junctions.anchored) > 0
        self.bytes_held = sum(array.nbytes for array in (*tables, *way))
        self.steps = 0

    def blocks(self, limit: int = -1, block: int = BLOCK) -> Iterator[Block]:
        """The trends, in blocks of so many bindings; a trend that is longer makes a block of its own."""
        return in_blocks(self._fill, self._variable, limit, block)

    def count(self) -> tuple[Ints, Ints]:
        """The number of trends and the sum of their lengths, found by stitching all of them and keeping none."""
        nothing = np.empty(0, dtype=np.int64)
        self._stitch(Block(nothing, nothing, self._variable[:0], nothing), keep=False)
        self.steps += int(self._at[_REFS]) if self._joins else 0
        return self._at[[_TRENDS]], self._at[[_REFS]]

    def _fill(self, out: Block) -> Filled:
        self._stitch(out, keep=True)
        self.steps += int(self._at[_BINDINGS]) if self._joins else 0
        return Filled(int(self._at[_TRENDS]), int(self._at[_BINDINGS]), int(self._at[_NEED]))

    def _stitch(self, out: Block, *, keep: bool) -> None:
        _stitch(*self._window, self._way, self._at, out, is_constant(self._variable), keep)
        self.steps += int(self._at[_STEPS])


@jit
def _stitch(
    graph: Graph,
    variable: Shorts,
    rules: Rules,
    scope: Scope,
    window: int,
    junctions: Junctions,
    tables: Tables,
    base: int,
    way: Way,
    at: Ints,
    out: Block,
    one_variable: bool,
    keep: bool,
) -> None:
    """Goes on from where ``at`` says until the block is full or all trends of a window are found.

    With ``keep`` false trends are only counted, and nothing is written.
    """
    target, starts, stops, event, state = graph.target, graph.start, graph.stop, graph.event, graph.state
    begins, ends, reach, reach_after = graph.begins, graph.ends, graph.reach, graph.reach_after
    origin_before = graph.origin_before
    node, step, length = tables.node, tables.step, tables.length
    entry_first, entry_middle, entry_last = tables.first, tables.middle, tables.last
    out_start, out_event, out_variable, out_slice = out.start, out.event, out.variable, out.slice
    path_event, path_variable, levels = way.event, way.variable, way.level
    most, size, many = len(out_slice), len(out_event), not one_variable
    high, last, bounds, anchored = scope.high, scope.last, junctions.bounds, junctions.anchored
    root, level, entry, entry_stop, prefix = at[_ROOT], at[_LEVEL], at[_ENTRY], at[_ENTRY_STOP], at[_PREFIX]
    trends, bindings, refs, steps, need = 0, np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    edge: Index = np.int64(0)
    edge_stop: Index = np.int64(0)
    depth = np.int64(0)
    if level > 0:
        edge, edge_stop, depth = levels[level - 1, _EDGE], levels[level - 1, _EDGE_STOP], levels[level - 1, _AFTER]
    if keep:
        out_start[0] = 0
    while True:
        if entry < entry_stop and not keep:
            for more in length[entry:entry_stop]:
                refs += more
            refs += (entry_stop - entry) * prefix
            trends += entry_stop - entry
            entry = entry_stop
        while entry < entry_stop:
            # A piece that ends a trend behind the first ``prefix`` nodes of the path.
            need = prefix + length[entry]
            if trends == most or bindings + need > size:
                break
            for d in range(prefix):
                out_event[bindings + d] = path_event[d]
            if many:
                for d in range(prefix):
                    out_variable[bindings + d] = path_variable[d]
            bindings += prefix
            part = entry
            while True:
                out_event[bindings] = event[node[part]]
                if many:
                    out_variable[bindings] = variable[state[node[part]]]
                bindings += 1
                if step[part] == 0:
                    break
                part += step[part]
            out_slice[trends] = window
            trends += 1
            out_start[trends] = bindings
            entry += 1
        if entry < entry_stop:
            break
        # The node that the next piece begins with, or the one that the next piece ends with.
        if edge < edge_stop:
            t = np.int64(target[edge])
            if (rules.pruned and reach[t] >= high) or (len(anchored) > 0 and not anchored[t - bounds[0]]):
                edge += 1
                continue
            source = _FROM_EDGES
        elif level == 0:
            while root < last and not is_root(begins, reach, origin_before, rules.complete, root, scope.low, high):
                root += 1
            if root == last:
                need = np.int64(0)
                break
            source, t = _FROM_ROOTS, np.int64(root)
        else:
            here = levels[level - 1]
            if here[_PIECE] == here[_PIECE_STOP]:
                level -= 1
                depth = np.int64(0)
                if level > 0:
                    here = levels[level - 1]
                    edge, edge_stop, depth = here[_EDGE], here[_EDGE_STOP], here[_AFTER]
                continue
            source, part, depth = _FROM_PIECES, here[_PIECE], here[_BEFORE]
            while True:
                t = np.int64(node[part])
                path_event[depth], path_variable[depth] = event[t], variable[state[t]]
                depth += 1
                if step[part] == 0:
                    break
                part += step[part]
        walked = source != _FROM_PIECES and entry_first[t - base] < 0
        if walked:
            ended, need = is_end(ends, reach_after, rules.complete, t, high), depth + 1
        else:
            # Only here, where windows share tables, does it show that the window ends first.
            ended, need = source == _FROM_PIECES and rules.complete and reach[t] < high <= reach_after[t], depth
        if ended:
            # The path is a trend, if need be with this node.
            if not keep:
                refs += need
            elif trends == most or bindings + need > size:
                break
            else:
                if walked:
                    path_event[depth], path_variable[depth] = event[t], variable[state[t]]
                for d in range(need):
                    out_event[bindings + d] = path_event[d]
                if many:
                    for d in range(need):
                        out_variable[bindings + d] = path_variable[d]
                bindings += need
                out_slice[trends] = window
                out_start[trends + 1] = bindings
            trends += 1
        if source == _FROM_PIECES:
            here = levels[level - 1]
            here[_PIECE] += 1
            here[_AFTER] = depth
            steps += depth - here[_BEFORE]
            if not ended:
                edge_stop = successors_stop(starts, stops, target, t, last)
                edge = place_of(target, starts[t], edge_stop, here[_BOUND])
                here[_EDGE_STOP] = edge_stop
            continue
        if source == _FROM_ROOTS:
            root += 1
        else:
            edge += 1
            levels[level - 1, _EDGE] = edge
        if walked:
            steps += 1
            if reach_after[t] < high:
                path_event[depth], path_variable[depth] = event[t], variable[state[t]]
                depth += 1
                edge, edge_stop = starts[t], successors_stop(starts, stops, target, t, last)
                here = levels[level]
                here[_PIECE] = here[_PIECE_STOP] = 0
                here[_EDGE_STOP], here[_AFTER] = edge_stop, depth
                level += 1
            continue
        middle, stop = np.int64(entry_middle[t - base]), np.int64(entry_last[t - base])
        entry, entry_stop, prefix = np.int64(entry_first[t - base]), middle, depth
        steps += middle - entry
        if middle < stop:
            here = levels[level]
            here[_PIECE], here[_PIECE_STOP], here[_BEFORE] = middle, stop, depth
            here[_BOUND] = 0 if len(anchored) > 0 else bounds[place_of(bounds, 0, len(bounds), t + 1)]
            edge = edge_stop = np.int64(0)
            level += 1
    if level > 0:
        levels[level - 1, _EDGE], levels[level - 1, _EDGE_STOP], levels[level - 1, _AFTER] = edge, edge_stop, depth
    at[_ROOT], at[_LEVEL], at[_ENTRY], at[_ENTRY_STOP], at[_PREFIX] = root, level, entry, entry_stop, prefix
    at[_TRENDS], at[_BINDINGS], at[_REFS], at[_STEPS], at[_NEED] = trends, bindings, refs, steps, need
