"""Builds the graph of a query's trends: useful nodes, and the attribute-based index that stands for their edges.

Two passes over the events find the useful nodes, those that lie on a trend at all
(:mod:`~cetdsl.kernels.graph.reachability`). These are then sorted into buckets by value, and each gets the ranges of
buckets that hold its successors (:mod:`~cetdsl.kernels.graph.ranges`).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from cetdsl.ir.machine import Comparison, Edge, Machine
from cetdsl.ir.transitions import transitions_of
from cetdsl.kernels._jit import jit
from cetdsl.kernels._side_by_side import starts, starts_of
from cetdsl.kernels.graph.attribute_graph import NEVER, AttributeGraph, Joins, Ranks
from cetdsl.kernels.graph.ranges import find_ranges
from cetdsl.kernels.graph.reachability import Standing, find_horizon, find_origins, find_reaches
from cetdsl.kernels.machine.program import OPERATORS, Layout, build_tables, lay_out
from cetdsl.kernels.vocabulary import Events, Graph, Ints, Places
from cetdsl.pattern.expressions import MIRRORED


class GraphBuilder:
    """Builds the graphs of one query, chunk after chunk of sorted events.

    The guards of the machine are lowered to comparisons (:func:`~cetdsl.ir.indexes.lower_guards`). Two events that are
    ``length`` apart or more share no window; 0: all share one.
    """

    def __init__(self, machine: Machine, length: int = 0) -> None:
        self.machine = machine
        self.length = length
        transitions = transitions_of(machine)
        edges = [transition.edge for transition in transitions]
        states = len(machine.variables)
        self._tables: list[tuple[Comparison, ...]] = []
        table, tests, listed = [], [], []
        for transition in transitions:
            if transition.index and transition.index not in self._tables:
                self._tables.append(transition.index)
            table.append(self._tables.index(transition.index) if transition.index else -1)
            tests.append([(OPERATORS[c.op], c.later, c.earlier) for c in transition.rest])
            listed.append(list(transition.edge.listed))
        initial, final = {state for state, _ in machine.initial}, {state for state, _ in machine.final}
        self.joins = Joins(
            _ints(machine.variables),
            np.array([q in initial for q in range(states)], dtype=np.bool_),
            np.array([q in final for q in range(states)], dtype=np.bool_),
            starts_of([[e for e in edges if e.source == q] for q in range(states)]),
            _ints([edge.target for edge in edges]),
            _ints(table),
            np.array([bool(transition.rest or transition.edge.listed) for transition in transitions], dtype=np.bool_),
            starts_of(tests),
            np.array([test for group in tests for test in group], dtype=np.int64).reshape(-1, 3),
            starts_of(listed),
            _ints([item for group in listed for item in group]),
        )

    def build(self, events: Events, standing: Standing | None = None) -> AttributeGraph:
        """Returns the graph of a chunk of events: the useful nodes, and the ranges that hold their successors.

        ``standing`` says which nodes exist, and with which of them a trend may begin and end. By default an event has a
        node in each state whose variable it may be bound to, and the state alone says whether trends begin and end.

        Examples
        --------
        Checks A->B, B->C, B->D, D->E, each drawn on the account into which the one before it was deposited:

        >>> machine = Machine((0,), ((0, ()),), ((0, ()),), (Edge(0, 0, (Comparison("=", 0, 1),)),))
        >>> time, none = np.arange(4), np.zeros((0, 5), dtype=np.int64)
        >>> codes = np.array([[0, 1, 1, 3], [1, 2, 3, 4]])  # source, destination
        >>> ones = np.ones((2, 4), dtype=np.bool_)
        >>> events = Events(np.array([0, 4]), time, time, time * 0 + 1, codes, ones, none, none[:, 0])
        >>> graph = GraphBuilder(machine).build(events)
        >>> start, stop, target = graph.ranges.start, graph.ranges.stop, graph.ranges.target
        >>> [target[start[v] : stop[v]].tolist() for v in range(4)]
        [[1, 2], [], [3], []]
        """
        ranks = self._ranks(events)
        horizon = find_horizon(events.segment_start, events.time, self.length)
        origin, origin_before = find_origins(self.joins, ranks, events, horizon, standing)
        ends_there = None if standing is None else standing.ends
        reach, reach_after = find_reaches(self.joins, ranks, events, horizon, origin >= 0, ends_there)
        useful = (origin >= 0) & (reach != NEVER)
        # The arrays that np.nonzero returns are strided if there are several nodes, and contiguous if there is one:
        # Numba would compile each kernel for both layouts.
        event, state = map(np.ascontiguousarray, np.nonzero(useful))
        numbers = origin[useful], origin_before[useful], reach[useful], reach_after[useful]
        begins, ends = self.joins.begins[state], self.joins.ends[state]
        if standing is not None:
            begins, ends = standing.begins[event, state], standing.ends[event, state]
        return AttributeGraph(
            Graph(
                event, state.astype(np.int32), begins, ends, *numbers, _ints([]), _ints([]), np.zeros(0, dtype=np.int32)
            ),
            find_ranges(self.joins, ranks, events, horizon, event, state),
            events.instant[event],
            ranks,
            self.joins,
        )

    def preceding(self, events: Events, standing: Standing) -> Places:
        """Returns ``origin_before`` of each event (row) in each state (column), of those that are not useful, too."""
        horizon = find_horizon(events.segment_start, events.time, self.length)
        return find_origins(self.joins, self._ranks(events), events, horizon, standing)[1]

    def following(self, events: Events, standing: Standing) -> Places:
        """Returns ``reach_after`` of each event (row) in each state (column), of those that are not useful, too."""
        horizon = find_horizon(events.segment_start, events.time, self.length)
        return find_reaches(self.joins, self._ranks(events), events, horizon, standing.exists, standing.ends)[1]

    def _ranks(self, events: Events) -> Ranks:
        """Finds where every event stands in the buckets of each table, and at which bucket it points.

        The index tables of :mod:`~cetdsl.kernels.machine.program` rank the earlier events of an edge for queries by the
        later ones. Here the later events are ranked. So each table is built for the reversed edge, with its comparisons
        mirrored; it then also says how many of the ranked events an earlier event's predicate allows.
        """
        bucket, rank, wanted, limit = np.full((4, len(self._tables), len(events.time)), -1, dtype=np.int32)
        backward = tuple(
            Edge(0, 0, tuple(Comparison(MIRRORED[c.op], c.earlier, c.later) for c in table)) for table in self._tables
        )
        for row, edge in enumerate(backward):
            layout: Layout = lay_out(Machine((0,), (), (), (edge,)))
            tables = build_tables(layout, events)
            if layout.trees:
                in_bucket = tables.update_position[0] > 0
                pointing = tables.query_length[0] > 0
                bucket[row] = np.where(in_bucket, tables.update_base[0], -1)
                rank[row] = tables.update_position[0]
                wanted[row] = np.where(pointing, tables.query_base[0], -1)
                limit[row] = tables.query_length[0]
            else:
                bucket[row], wanted[row] = tables.hash_update[0], tables.hash_query[0]
                rank[row] = limit[row] = 1
        first = starts(np.maximum(bucket, wanted).max(axis=1, initial=-1) + 1)
        return Ranks(bucket, rank, wanted, limit, first, starts(_highest_ranks(bucket, rank, first)))


def _ints(values: Iterable[int]) -> Ints:
    """Makes an array of whole numbers, of which there may be none."""
    return np.array(list(values), dtype=np.int64)


@jit
def _highest_ranks(bucket: Places, rank: Places, first: Ints) -> Ints:
    """The highest rank in each bucket of all tables."""
    tables, count = bucket.shape
    highest = np.zeros(first[tables], dtype=np.int64)
    for t in range(tables):
        for i in range(count):
            if bucket[t, i] >= 0:
                highest[first[t] + bucket[t, i]] = max(highest[first[t] + bucket[t, i]], rank[t, i])
    return highest
