"""Trends stitched together from partial trends that are kept: t-cet, h-cet and anchors, which differ in what they keep.

Edges of a window are either *inner* edges or *junctions*. A *piece*, or partial trend, is a path of inner edges that
begins with some node and goes on to where the trend ends or a junction leads on. A trend is a row of pieces joined by
junctions.

=========  ==================================================================================================
t-cet      all edges are inner, so the pieces are the trends
h-cet      edges within a cached graphlet are inner, and all others are junctions; a node outside of cached
           graphlets is a piece by itself, and is walked as by m-cet
anchors    edges into anchors, the events of chosen attribute vertices, are junctions; where windows share
           graphlets, so are edges between these
=========  ==================================================================================================

Each node of a cached graphlet has a *table* of the pieces that begin with it. It has one entry for each piece of each
successor along an inner edge, which refers to the entry of that piece. So every edge is crossed once, and a piece takes
the same space however long it is. A table lists the pieces that end a trend before those that a junction prolongs.
Trends are then found depth first, piece by piece. The last pieces of the trends that go on from the same node are read
from its table one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from cetdsl.kernels._jit import inlined, jit
from cetdsl.kernels.complete.cuts import ENTRY_BYTES, Scope, ends_elsewhere, is_useful, leads_to
from cetdsl.kernels.enumerate.blocks import (
    BINDINGS,
    BLOCK,
    DEPTH,
    NEED,
    OWN,
    ROOT,
    TRENDS,
    VISITS,
    WIDE,
    WINDOW,
    copy_path,
    in_blocks,
    make_position,
    write_trend,
)
from cetdsl.kernels.graph.attribute_graph import NEVER
from cetdsl.kernels.graph.windows import Rules, is_end, is_root, successors_stop
from cetdsl.kernels.machine.program import place_of
from cetdsl.kernels.vocabulary import Block, Bools, Floats, Graph, Index, Ints, Places, Shorts

#: Bytes of the index of tables, per node.
INDEX_BYTES = 12
#: Bytes of the search, per event of the longest trend.
STEP_BYTES = 64

#: The own entries of a position: the pieces ``entry:stop`` that are still to be written, each as the end of a trend;
#: the number of nodes of the path that come before them in these trends (the prefix); and, where trends are counted,
#: the sum of their lengths.
_ENTRY, _ENTRY_STOP, _PREFIX, _REFS = range(OWN, OWN + 4)
#: Columns of a level of the search: the pieces still to be tried; the successors of the present piece that are still to
#: be tried; the length of the path without and with this piece; and the first node after the graphlet.
_PIECE, _PIECE_STOP, _EDGE, _EDGE_STOP, _BEFORE, _AFTER, _BOUND, _COLUMNS = range(8)
#: Where the search finds its next node: among the roots, along an edge, or at the end of a piece.
_FROM_ROOTS, _FROM_EDGES, _FROM_PIECES = range(3)


class Tables(NamedTuple):
    """The tables of pieces of the nodes from ``base`` on: those of one window, or of several that share them.

    The entries ``first:middle`` of a node are its pieces that end a trend, ``middle:last`` those that a junction
    prolongs; ``first`` is -1 for a node without a table. Of each entry, ``node`` is the first node of the piece,
    ``length`` is the number of its nodes, and ``rest`` the distance to the entry of the rest of the piece, which is
    negative, or 0 if there is no rest.
    """

    first: Places
    middle: Places
    last: Places
    node: Places
    length: Places
    rest: Places
    base: int


class Junctions(NamedTuple):
    """The edges that are junctions: those that lead to a later graphlet or to an anchor.

    ``bounds`` are the first node of each graphlet, and the node after the last one; ``anchored`` says of each node from
    the first bound on whether it is an anchor, and is empty without anchors.
    """

    bounds: Ints
    anchored: Bools


class Way(NamedTuple):
    """The path that the search stands on.

    ``label`` has the labels of its bindings (see :mod:`~cetdsl.kernels.enumerate.blocks`), and room for `WIDE` more.
    The path consists of pieces and nodes that are walked; each is a row of ``level``, whose columns are named above.
    """

    label: Ints
    level: Ints


def make_way(longest: int) -> Way:
    """Makes room for a path of ``longest`` nodes."""
    return Way(np.empty(longest + WIDE, dtype=np.int64), np.empty((longest, _COLUMNS), dtype=np.int64))


def make_tables(nodes: int, entries: int, base: int) -> Tables:
    """Makes room for the tables of ``nodes`` nodes from ``base`` on; none has one yet."""
    first, middle, last = np.full((3, nodes), -1, dtype=np.int32)
    node, length, rest = np.empty((3, entries), dtype=np.int32)
    return Tables(first, middle, last, node, length, rest, base)


@inlined
def _is_inner(anchored: Bools, base: Index, t: Index, bound: Index) -> bool:
    return bool(t < bound and (len(anchored) == 0 or not anchored[t - base]))


@jit
def _prolonged(graph: Graph, rules: Rules, scope: Scope, junctions: Junctions, first: int, last: int) -> Bools:
    """Whether a junction may lead on from each node of a stretch, and so prolong the pieces that end there."""
    target, starts, stops, ends = graph.target, graph.start, graph.stop, graph.ends
    origin, reach, reach_after = graph.origin, graph.reach, graph.reach_after
    anchored, base = junctions.anchored, junctions.bounds[0]
    bound = graph.event[last] if last < len(graph.event) else np.int64(NEVER)
    out = np.zeros(last - first, dtype=np.bool_)
    for v in range(first, last):
        if not is_useful(origin, reach, scope, v):
            continue
        onward = leads_to(starts, stops, target, reach, rules, scope, v, last)
        out[v - first] = onward or ends_elsewhere(ends, reach_after, rules, scope, v, bound)
        if out[v - first] or len(anchored) == 0:
            continue
        for k in range(starts[v], successors_stop(starts, stops, target, v, last)):
            t = target[k]
            if anchored[t - base] and (not rules.pruned or reach[t] < scope.high):
                out[v - first] = True
                break
    return out


@jit
def fill_tables(
    graph: Graph, rules: Rules, scope: Scope, junctions: Junctions, first: int, last: int, tables: Tables, at: int
) -> int:
    """Adds the tables of the graphlet ``first:last`` behind the entry ``at``, and returns where they end."""
    goes_on = _prolonged(graph, rules, scope, junctions, first, last)
    target, starts, stops, ends = graph.target, graph.start, graph.stop, graph.ends
    anchored, anchor_base = junctions.anchored, junctions.bounds[0]
    origin, reach, reach_after = graph.origin, graph.reach, graph.reach_after
    node, rest, length, base = tables.node, tables.rest, tables.length, tables.base
    entry_first, entry_middle, entry_last = tables.first, tables.middle, tables.last
    for v in range(last - 1, first - 1, -1):
        entry_first[v - base] = at
        for prolonged in range(2):
            if prolonged:
                entry_middle[v - base] = at
            if not is_useful(origin, reach, scope, v):
                continue
            # First the piece that is the node itself, then those that go on to a successor.
            if goes_on[v - first] if prolonged else is_end(ends, reach_after, rules.complete, v, scope.high):
                node[at], rest[at], length[at] = v, 0, 1
                at += 1
            for k in range(starts[v], stops[v]):
                t = np.int64(target[k])
                if t >= last:
                    break
                if not _is_inner(anchored, anchor_base, t, last):
                    continue
                start = entry_middle[t - base] if prolonged else entry_first[t - base]
                stop = entry_last[t - base] if prolonged else entry_middle[t - base]
                for entry in range(start, stop):
                    node[at], rest[at], length[at] = v, entry - at, length[entry] + 1
                    at += 1
        entry_last[v - base] = at
    return at


@jit
def count_pieces(graph: Graph, rules: Rules, scope: Scope, junctions: Junctions, paths: Floats) -> tuple[float, float]:
    """Counts the entries of the tables, and the visits of a search to them, where there is one graphlet only.

    ``paths`` is the number of paths to each of its nodes. For visits see :mod:`cetdsl.kernels.complete.cuts`.
    """
    target, starts, stops, ends = graph.target, graph.start, graph.stop, graph.ends
    anchored, first, last = junctions.anchored, junctions.bounds[0], junctions.bounds[1]
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
            if _is_inner(anchored, first, t, last):
                ending[here] += ending[t - first]
                going[here] += going[t - first]
        entries += ending[here] + going[here]
        if going[here] > 0.0:
            visits += paths[here] * going[here]
    return entries, visits


def drop_tables(tables: Tables, base: int, entries: int, used: int) -> Tables:
    """Drops the nodes before ``base`` and the first ``entries``, and moves the others, up to ``used``, to the front."""
    nodes = base - tables.base
    for column in (tables.first, tables.middle, tables.last):
        later = column[nodes:] - entries
        column[: len(later)] = np.where(later >= 0, later, -1)
        column[len(later) :] = -1
    for column in (tables.node, tables.length, tables.rest):
        column[: used - entries] = column[entries:used]
    return tables._replace(base=base)


class Stitcher:
    """Lists or counts the trends of the window number ``window`` from tables.

    ``bytes_held`` is the memory of the search and the tables, without the graph and the block; ``steps`` counts the
    nodes and pieces visited so far, and the bindings of trends that were put together from pieces. For the other
    arguments see :func:`_stitch`.
    """

    def __init__(
        self,
        graph: Graph,
        variable: Shorts,
        labels: Ints,
        rules: Rules,
        scope: Scope,
        window: int,
        junctions: Junctions,
        tables: Tables,
        way: Way,
    ) -> None:
        self.window = window
        self._variable = variable
        self._at = make_position(own=4)
        self._at[WINDOW], self._at[ROOT] = window, scope.first
        self._given = (graph, labels, rules, scope, junctions, tables, way, self._at)
        # The tables of one graphlet hold the trends themselves.
        self._joins = len(junctions.bounds) > 2 or len(junctions.anchored) > 0
        self.bytes_held = INDEX_BYTES * len(tables.first) + ENTRY_BYTES * len(tables.node) + STEP_BYTES * len(way.level)
        self.steps = 0

    def blocks(self, limit: int = -1, block: int = BLOCK) -> Iterator[Block]:
        """Yields the trends, in blocks of ``block`` bindings; a longer trend makes a block of its own."""

        def fill(out: Block) -> None:
            _stitch(*self._given, out)
            self.steps += int(self._at[VISITS]) + (int(self._at[BINDINGS]) if self._joins else 0)

        return in_blocks(fill, self._at, self._variable, limit, block)

    def count(self) -> tuple[Ints, Ints]:
        """Counts the trends and sums up their lengths, by stitching all of them and keeping none."""
        nothing = np.empty(0, dtype=np.int64)
        _stitch(*self._given, Block(nothing, nothing, self._variable[:0], nothing))
        self.steps += int(self._at[VISITS]) + (int(self._at[_REFS]) if self._joins else 0)
        return self._at[[TRENDS]], self._at[[_REFS]]


@inlined
def _copy_piece(node: Places, rest: Places, labels: Ints, entry: Index, into: Ints, at: Index) -> tuple[Index, Index]:
    """Copies the labels of a piece; returns where they end, and the last node of the piece."""
    into[at] = labels[node[entry]]
    at += 1
    while rest[entry] != 0:
        entry += rest[entry]
        into[at] = labels[node[entry]]
        at += 1
    return at, np.int64(node[entry])


@jit
def _stitch(
    graph: Graph,
    labels: Ints,
    rules: Rules,
    scope: Scope,
    junctions: Junctions,
    tables: Tables,
    way: Way,
    at: Ints,
    out: Block,
) -> None:
    """Goes on from the position ``at`` until the block is full or all trends of a window are found.

    Parameters
    ----------
    graph, rules, scope : Graph, Rules, Scope
        The window as a ``scope`` of the graph, and the rules for its trends.
    labels : int64 array, shape (nodes,)
        The label of a binding of each node, see :mod:`~cetdsl.kernels.enumerate.blocks`.
    junctions, tables : Junctions, Tables
        A node without a table is a piece by itself, whose edges are junctions: it is *walked*.
    way, at : Way, int64 array
        Room for the path, and a position, whose root is the next node that may begin a trend, and whose depth is the
        number of levels. A level is a node that is walked, or the pieces of a table that are tried in turn.
    out : Block
        The block to fill: its events become labels, and its variables are left as they are. Where it is empty, trends
        are only counted.
    """
    # This is one long loop: a function that it called in each turn would need more than ten arrays as arguments.
    target, starts, stops, begins, ends = graph.target, graph.start, graph.stop, graph.begins, graph.ends
    reach, reach_after, origin_before = graph.reach, graph.reach_after, graph.origin_before
    node, rest, length, base = tables.node, tables.rest, tables.length, tables.base
    entry_first, entry_middle, entry_last = tables.first, tables.middle, tables.last
    out_start, out_event, out_slice, path, levels = out.start, out.event, out.slice, way.label, way.level
    keep, most, size, window = len(out_start) > 0, len(out_slice), len(out_event) - WIDE, at[WINDOW]
    high, last, bounds, anchored = scope.high, scope.last, junctions.bounds, junctions.anchored
    root, level, entry, entry_stop, prefix = at[ROOT], at[DEPTH], at[_ENTRY], at[_ENTRY_STOP], at[_PREFIX]
    trends, refs, visits = 0, np.int64(0), np.int64(0)
    bindings: Index = np.int64(0)
    need: Index = np.int64(0)
    t: Index = np.int64(0)
    edge: Index = np.int64(0)
    edge_stop: Index = np.int64(0)
    depth: Index = np.int64(0)
    if level > 0:
        edge, edge_stop, depth = levels[level - 1, _EDGE], levels[level - 1, _EDGE_STOP], levels[level - 1, _AFTER]
    if keep:
        out_start[0] = 0
    while True:
        # Every trend that comes before the path, and before the pieces and successors that its levels have still to
        # try, is written or counted. Each of the pieces ``entry:entry_stop`` ends a trend that begins with the first
        # ``prefix`` nodes of the path.
        if entry < entry_stop and not keep:
            for more in length[entry:entry_stop]:
                refs += more
            refs += (entry_stop - entry) * prefix
            trends += entry_stop - entry
            entry = entry_stop
        while entry < entry_stop:  # the block holds the trends of the pieces before
            need = prefix + length[entry]
            if trends == most or bindings + need > size:
                break
            copy_path(path, prefix, out_event, bindings)
            bindings, _ = _copy_piece(node, rest, labels, entry, out_event, bindings + prefix)
            out_slice[trends] = window
            trends += 1
            out_start[trends] = bindings
            entry += 1
        if entry < entry_stop:
            break
        # Finds the next node ``t``. Where the last piece has successors left to try, it is the next of them. Else,
        # where the last level has pieces left, it is the last node of the next piece; else it is the next root.
        if edge < edge_stop:
            t = np.int64(target[edge])
            if rules.pruned and reach[t] >= high:
                edge += 1
                continue
            if len(anchored) > 0 and t < levels[level - 1, _BOUND] and not anchored[t - bounds[0]]:
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
            source = _FROM_PIECES
            depth, t = _copy_piece(node, rest, labels, here[_PIECE], path, here[_BEFORE])
        walked = source != _FROM_PIECES and entry_first[t - base] < 0
        if walked:
            path[depth] = labels[t]
            ended, need = is_end(ends, reach_after, rules.complete, t, high), depth + 1
        else:
            # Where windows share tables, a piece that an edge prolongs in other windows may end a trend in this one.
            ended, need = source == _FROM_PIECES and rules.complete and reach[t] < high <= reach_after[t], depth
        if ended:
            # The first ``need`` nodes of the path are a trend. The position has not changed in this turn so far, so
            # that the next call, with another block, gets here again.
            if not keep:
                refs += need
            elif trends == most or bindings + need > size:
                break
            else:
                bindings = write_trend(
                    path, need - 1, path[need - 1], window, out_start, out_event, out_slice, trends, bindings
                )
            trends += 1
        if source == _FROM_PIECES:
            here = levels[level - 1]
            here[_PIECE] += 1
            here[_AFTER] = depth
            visits += depth - here[_BEFORE]
            if not ended:
                edge_stop = successors_stop(starts, stops, target, t, last)
                edge = starts[t]
                if len(anchored) == 0:
                    edge = place_of(target, edge, edge_stop, here[_BOUND])
                here[_EDGE_STOP] = edge_stop
            continue
        if source == _FROM_ROOTS:
            root += 1
        else:
            edge += 1
            levels[level - 1, _EDGE] = edge
        if walked:
            visits += 1
            if reach_after[t] < high:
                depth += 1
                edge, edge_stop = starts[t], successors_stop(starts, stops, target, t, last)
                here = levels[level]
                here[_PIECE] = here[_PIECE_STOP] = here[_BOUND] = 0
                here[_EDGE_STOP], here[_AFTER] = edge_stop, depth
                level += 1
            continue
        middle, stop = np.int64(entry_middle[t - base]), np.int64(entry_last[t - base])
        entry, entry_stop, prefix = np.int64(entry_first[t - base]), middle, depth
        visits += middle - entry
        if middle < stop:
            here = levels[level]
            here[_PIECE], here[_PIECE_STOP], here[_BEFORE] = middle, stop, depth
            here[_BOUND] = bounds[place_of(bounds, 0, len(bounds), t + 1)]
            edge = edge_stop = np.int64(0)
            level += 1
    if level > 0:
        levels[level - 1, _EDGE], levels[level - 1, _EDGE_STOP], levels[level - 1, _AFTER] = edge, edge_stop, depth
    at[ROOT], at[DEPTH], at[_ENTRY], at[_ENTRY_STOP], at[_PREFIX] = root, level, entry, entry_stop, prefix
    at[TRENDS], at[BINDINGS], at[_REFS], at[VISITS], at[NEED] = trends, bindings, refs, visits, need
