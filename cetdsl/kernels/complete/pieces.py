"""The algorithm anchors in two stages: tasks find the pieces of trends between anchors, then join them at the anchors.

These are the two stages of Mei et al., ICPP 2021, section 5.2, for one large group. *Anchors* are chosen nodes of the
graph. A *piece* is a path that begins at a root of the graph or at an anchor, and ends where a trend ends or where an
edge leads to an anchor. In the first stage, the graph is cut at the anchors, so that its paths are the pieces. Each
task walks an equal part of them, and each piece is found by one task. In the second stage every task has all pieces.
They are the nodes of another graph, where each piece is followed by those that begin at the anchors to which its end
leads. The paths of this graph are the trends, and each task walks an equal part of them.

A walk goes in the order of the nodes. So the pieces of all tasks together are sorted by the node that they begin at,
and each piece leads only to later ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from cetdsl.errors import GroupTooLarge
from cetdsl.ir.shares import task_of
from cetdsl.ir.stages import JoinSpec, PieceSpec
from cetdsl.kernels._jit import jit
from cetdsl.kernels._side_by_side import starts
from cetdsl.kernels.complete.anchors import attribute_vertices
from cetdsl.kernels.complete.cuts import Scope, find_flow
from cetdsl.kernels.complete.extract import extract
from cetdsl.kernels.complete.jobs import Settings
from cetdsl.kernels.complete.streams import Graphs, Part, naming_the_group, settings_of, shares_of
from cetdsl.kernels.enumerate.batches import members_of, trends_between
from cetdsl.kernels.enumerate.blocks import BLOCK
from cetdsl.kernels.enumerate.trends import TrendRows
from cetdsl.kernels.graph.attribute_graph import NEVER, NOWHERE
from cetdsl.kernels.graph.windows import Rules
from cetdsl.kernels.vocabulary import Block, Bools, Floats, Graph, Ints
from cetdsl.kernels.wire.chunks import CHUNK_EVENTS, Chunk, Columns, by_chunks
from cetdsl.kernels.wire.columns import as_array, from_numpy, to_numpy
from cetdsl.kernels.wire.portions import RowSizes, take

#: The time that it takes to write an event of a piece, send it to another task and read it, in visits of a piece. About
#: 28 were measured: 2.4 microseconds with two tasks of Spark, and 85 nanoseconds for a visit. For 10,000 checks between
#: 1,000 accounts, the values 4, 16 and 64 lead to 256, 512 and 512 anchors, with which finding the trends took 17.9,
#: 16.8 and 16.8 s of the processor.
SENDING = 16
#: Estimated bytes of a piece: for each of its events, and for itself.
REF_BYTES, PIECE_BYTES = 32, 32
#: Pieces of one share have numbers below this, so that a number says which share found the piece.
_SHARE_PIECES = 2**40

#: The role of a piece, as bits: a trend begins with it, a trend ends with it.
_BEGINS, _ENDS = 1, 2

_WALK = Settings("m-cet")


class Cut(NamedTuple):
    """A graph that is cut at its anchors.

    ``graph`` has only the edges that do not lead to an anchor. Its paths are the pieces: they begin at roots and
    anchors, and end where a trend ends or an anchor follows. Its events are the numbers of its nodes. ``roots`` and
    ``ends`` say with which nodes trends begin and end. The anchors that follow node ``v`` are
    ``anchor[start[v]:stop[v]]``.
    """

    graph: Graph
    roots: Bools
    ends: Bools
    start: Ints
    stop: Ints
    anchor: Ints


def cut_at(graph: Graph, anchored: Bools) -> Cut:
    """Cuts the graph of one window, all of whose nodes lie on trends, at the nodes that are anchors."""
    count, leads = len(graph.event), anchored[graph.target]
    before = starts(leads)
    start, stop = before[graph.start], before[graph.stop]
    inner_start, inner_stop = graph.start - start, graph.stop - stop
    ends = graph.reach_after >= NEVER
    roots = graph.begins & (graph.origin_before <= NOWHERE)
    everywhere = np.zeros(count, dtype=np.int32)
    inner = Graph(
        np.arange(count),
        everywhere,
        roots | anchored,
        ends | (stop > start),
        everywhere,
        np.full(count, NOWHERE, dtype=np.int32),
        everywhere,
        np.where(inner_stop > inner_start, 0, NEVER).astype(np.int32),
        inner_start,
        inner_stop,
        graph.target[~leads],
    )
    return Cut(inner, roots, ends, start, stop, graph.target[leads].astype(np.int64))


def find_pieces(cut: Cut, share: tuple[int, int] = (0, 1), block: int = BLOCK) -> Iterator[Block]:
    """Yields one of equal parts of the pieces; the events of the blocks are nodes."""
    window = np.zeros(1, dtype=np.int64), np.array([len(cut.graph.event)])
    one_state = np.zeros(1, dtype=np.int64)
    return extract(cut.graph, one_state, *window, complete=False, settings=_WALK, share=share, block=block)


def graph_of_pieces(begin: Ints, roots: Bools, ends: Bools, start: Ints, stop: Ints, anchor: Ints) -> Graph:
    """Returns the graph whose nodes are pieces.

    Parameters
    ----------
    begin : int64 array, shape (pieces,)
        The node that each piece begins at, rising.
    roots, ends : bool arrays, shape (pieces,)
        Whether a trend begins or ends with it.
    start, stop : int64 arrays, shape (pieces,)
        The anchors that follow a piece are ``anchor[start:stop]``, rising. Pieces that end at the same node share them.
    anchor : int64 array
        Nodes that are anchors.
    """
    first, last = np.searchsorted(begin, anchor), np.searchsorted(begin, anchor, side="right")
    _, target = members_of(first, last)
    before = starts(last - first)
    everywhere = np.zeros(len(begin), dtype=np.int32)
    return Graph(
        np.arange(len(begin)),
        everywhere,
        roots,
        ends,
        everywhere,
        np.full(len(begin), NOWHERE, dtype=np.int32),
        everywhere,
        np.where(ends, NEVER, 0).astype(np.int32),
        before[start],
        before[stop],
        target.astype(np.int32),
    )


def join_pieces(pieces: Graph, share: tuple[int, int] = (0, 1), block: int = BLOCK) -> Iterator[Block]:
    """Yields one of equal parts of the trends; the events of the blocks are pieces."""
    window = np.zeros(1, dtype=np.int64), np.array([len(pieces.event)])
    one_state = np.zeros(1, dtype=np.int64)
    return extract(pieces, one_state, *window, complete=False, settings=_WALK, share=share, block=block)


class Weighed(NamedTuple):
    """The predicted cost of a choice of anchors.

    ``pieces`` is the number of pieces, ``refs`` the sum of their lengths, and ``visits`` how often the second stage
    visits them.
    """

    pieces: float
    refs: float
    visits: float

    @property
    def cost(self) -> float:
        """The predicted time of both stages, in units of the time that a visit of a piece takes."""
        return SENDING * self.refs + self.visits

    @property
    def bytes(self) -> float:
        """The predicted memory of all pieces in a task of the second stage."""
        return REF_BYTES * self.refs + PIECE_BYTES * self.pieces


def weigh(graph: Graph, anchored: Bools, paths: Floats) -> Weighed:
    """Weighs a choice of anchors; ``paths`` is the number of paths from roots to each node of the graph."""
    cut = cut_at(graph, anchored)
    count = len(graph.event)
    flow = find_flow(cut.graph, Rules(False, False), Scope(0, count, 0, count, False), 0, count)
    return Weighed(flow.trends, flow.trend_refs, _visits(graph, anchored, paths))


@jit
def _visits(graph: Graph, anchored: Bools, paths: Floats) -> float:
    """Counts the pieces of all trends: a trend has one, and one more for each anchor that an edge of it leads to."""
    target, starts, stops = graph.target, graph.start, graph.stop
    below, visits = np.zeros(len(starts)), 0.0
    for v in range(len(starts) - 1, -1, -1):
        if starts[v] == stops[v]:
            below[v] = 1.0
            visits += paths[v]
        for k in range(starts[v], stops[v]):
            below[v] += below[target[k]]
        if anchored[v]:
            visits += paths[v] * below[v]
    return visits


def anchors_of(graph: Graph, asked: int | None, memory: int | None) -> tuple[Bools, int]:
    """Chooses the anchors of one window's graph: as many as requested, else as many as cost least.

    With few anchors there are many long pieces, which take time to be sent; with many anchors, trends are made of many
    pieces. The number of attribute vertices is the cheapest of 1, 2, 4, ... and all, of those with which the pieces fit
    the memory; if they never do, it is the one with the least memory.
    """
    count = len(graph.event)
    scope = Scope(0, count, 0, count, False)
    group, size = attribute_vertices(graph, scope._replace(high=NEVER), 0, count)
    rank = np.empty(len(size), dtype=np.int64)
    rank[np.argsort(-size, kind="stable")] = np.arange(len(size))
    every = int((size > 0).sum())

    def anchored(number: int) -> Bools:
        chosen: Bools = np.zeros(count, dtype=np.bool_)
        chosen[group >= 0] = rank[group[group >= 0]] < number
        return chosen

    if asked is not None or every == 0:
        number = min(asked or 0, every)
        return anchored(number), number
    paths = find_flow(graph, Rules(True, False), scope._replace(high=NEVER), 0, count).paths
    numbers = sorted({every, *(2**power for power in range(every.bit_length()))})
    weighed = [(weigh(graph, anchored(number), paths), number) for number in numbers]
    fitting = [(one.cost, number) for one, number in weighed if memory is None or one.bytes <= memory]
    _, number = min(fitting) if fitting else min((one.bytes, number) for one, number in weighed)
    return anchored(number), number


def piece_stream(spec: PieceSpec, batches: Iterator[pa.RecordBatch], chunk_events: int = CHUNK_EVENTS) -> Columns:
    """Finds a share of the pieces of one group.

    The columns are the number of each piece, the nodes that it begins and ends at, its role (1: a trend begins with it,
    2: one ends with it, 3: both), the anchors that follow it (only for the first piece of a share that ends at a
    node), and its bindings in the form of a trend.
    """
    told = spec.graph
    kernel, asked = told.trends.kernel, told.extraction
    graphs = Graphs(kernel, asked.memory)

    def pieces(chunk: Chunk) -> Columns:
        rows, share = TrendRows(told.trends, chunk), (int(shares_of(told, chunk)[0]), told.shares)
        for part in graphs.parts(chunk):
            with naming_the_group(kernel, chunk, part):
                memory = settings_of(kernel, asked, part).memory
                anchored, _ = anchors_of(part.graph, asked.anchors, memory)
                cut, found = cut_at(part.graph, anchored), share[0] * _SHARE_PIECES
                said: Bools = np.zeros(len(part.graph.event), dtype=np.bool_)
                for block in find_pieces(cut, share):
                    bound = block._replace(event=part.number[part.graph.event[block.event]])
                    for some in rows.portions(bound):
                        own = trends_between(block, some)
                        yield _piece_columns(rows, part, graphs.variable, cut, own, found, said)
                        found += len(own.slice)

    return by_chunks(kernel, batches, chunk_events, pieces)


def _piece_columns(
    rows: TrendRows, part: Part, variable: Ints, cut: Cut, block: Block, number: int, said: Bools
) -> list[pa.Array]:
    node, begin, last = block.event, block.event[block.start[:-1]], block.event[block.start[1:] - 1]
    # Only the first piece that ends at a node says which anchors follow.
    first = np.zeros(len(last), dtype=np.bool_)
    first[np.unique(last, return_index=True)[1]] = True
    first &= ~said[last]
    said[last] = True
    start, stop = np.where(first, cut.start[last], 0), np.where(first, cut.stop[last], 0)
    _, member = members_of(start, stop)
    offsets = starts(stop - start).astype(np.int32)
    anchors = pa.ListArray.from_arrays(from_numpy(offsets), from_numpy(cut.anchor[member]))
    bindings = block._replace(
        event=part.number[part.graph.event[node]], variable=variable[part.graph.state[node]].astype(np.int16)
    )
    return [
        from_numpy(number + np.arange(len(last))),
        from_numpy(begin),
        from_numpy(last),
        from_numpy(np.where(cut.roots[begin], _BEGINS, 0) | np.where(cut.ends[last], _ENDS, 0)),
        anchors,
        rows.trends(bindings),
    ]


def join_stream(spec: JoinSpec, batches: Iterator[pa.RecordBatch]) -> Columns:
    """Joins pieces to a share of the trends; all pieces have to come, by rising numbers."""
    given = [batch for batch in batches if batch.num_rows]
    if not given:
        return
    columns = [as_array(column) for column in pa.Table.from_batches(given).columns]
    share = task_of(int(columns[0][0].as_py()), spec.shares)
    begin, last, role = (to_numpy(column) for column in columns[2:5])
    anchors, trend = columns[5:]
    held = sum(column.nbytes for column in columns)
    if spec.memory is not None and held > spec.memory:
        raise GroupTooLarge(
            f"the {len(begin)} partial trends between anchors take {held} bytes, and {spec.memory} are allowed",
            hint="raise memory_limit, ask for more anchors=, or use algorithm='h-cet', which keeps what fits",
        )
    start, stop = _behind(last, to_numpy(anchors.offsets).astype(np.int64))
    pieces = graph_of_pieces(
        begin, role & _BEGINS > 0, role & _ENDS > 0, start, stop, to_numpy(anchors.values).astype(np.int64)
    )
    offsets, bindings = to_numpy(trend.offsets).astype(np.int64), trend.values
    longest, sizes = int(np.diff(offsets).max()), RowSizes([bindings])
    for block in join_pieces(pieces, (share, spec.shares), max(BLOCK // longest, 1)):
        for trends in joined_bindings(block, offsets, bindings, sizes):
            yield [trends]


def _behind(last: Ints, offsets: Ints) -> tuple[Ints, Ints]:
    """Returns where the anchors that follow each piece begin and end; they come with one piece for each last node."""
    saying = np.flatnonzero(np.diff(offsets))
    start, stop = np.zeros((2, int(last.max()) + 1), dtype=np.int64)
    start[last[saying]], stop[last[saying]] = offsets[saying], offsets[saying + 1]
    return start[last], stop[last]


def joined_bindings(block: Block, offsets: Ints, bindings: pa.Array, sizes: RowSizes) -> Iterator[pa.Array]:
    """Yields trends as lists of bindings: those of a trend's pieces, which ``offsets`` delimit, one after the other.

    The trends come in portions, which the ``sizes`` of the bindings limit.
    """
    start, stop = offsets[block.event], offsets[block.event + 1]
    begin = starts(stop - start)[block.start]
    _, member = members_of(start, stop)
    for some in sizes.portions(member, begin):
        bounds = begin[some.start : some.stop + 1]
        found = take(bindings, from_numpy(member[bounds[0] : bounds[-1]]))
        yield pa.ListArray.from_arrays(from_numpy((bounds - bounds[0]).astype(np.int32)), found)
