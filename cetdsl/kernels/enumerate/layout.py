"""The arrays of a search: a machine's edges by source, a chunk's values as codes, and work space of the search.

A *join* is the set of comparisons of an edge. A *chain* is a linked list of the useful events of one state, in order of
time, on which a search finds successors. A state has a numbered chain for each join that leads into it; this is one
list, with a *head* of its own, for each value of the join's equality columns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cetdsl.ir.machine import Edge, Machine
from cetdsl.kernels._jit import jit
from cetdsl.kernels._side_by_side import flat, starts_of
from cetdsl.kernels.enumerate.blocks import variable_bits
from cetdsl.kernels.machine.conditions import Conditions, Subslices
from cetdsl.kernels.machine.program import OPERATORS, Program, equality_codes
from cetdsl.kernels.vocabulary import Bools, Events, Ints, Places

_ORDERS = ("<", "<=", ">", ">=")


class Edges(NamedTuple):
    """A machine's edges, sorted by source, with their joins and chains."""

    #: Bit number of the variable that each state reads.
    variable: Ints
    #: The bits of this variable in a label, see :mod:`~cetdsl.kernels.enumerate.blocks`; shape (states,).
    bits: Ints
    #: The states that a trend may begin in.
    initial: Ints
    #: The edges ``out_start[q]:out_start[q + 1]`` leave the state ``q``.
    out_start: Ints
    #: The target state, the join and the chain of each edge; the chain is -1 where the edge has list predicates.
    target: Ints
    join: Ints
    chain: Ints
    #: Where in ``comparison`` each join's orders (``<``, ``<=``, ``>``, ``>=``) begin, and where they end and its
    #: ``!=`` begin, and where these end. Equalities are not there, because chains answer them.
    order_start: Ints
    order_end: Ints
    comparison_end: Ints
    #: Operator, later column, earlier column; shape (comparisons, 3).
    comparison: Ints
    #: ``listed[listed_start[e]:listed_start[e + 1]]`` are the list predicates of the edge ``e``.
    listed_start: Ints
    listed: Ints
    #: The chains ``chain_start[q]:chain_start[q + 1]`` lead into the state ``q``.
    chain_start: Ints
    #: The join of each chain, and its first row in ``Scratch.best``.
    chain_join: Ints
    best_start: Ints
    #: Whether a trend may end in the state.
    ends: Bools


class JoinCodes(NamedTuple):
    """A chunk's values of the equality columns of each join."""

    #: The code of each event's values, once as the later and once as the earlier one of two neighbours, shape (joins,
    #: n). The equalities of an edge hold where the two codes agree. -1: a value that the join compares is NULL.
    later: Places
    earlier: Places
    #: Where the heads of each chain, one per code, begin among those of all chains; shape (chains + 1,).
    head_start: Ints


class Lists(NamedTuple):
    """A chunk's lists as :class:`~cetdsl.kernels.vocabulary.Events` has them, and inverted."""

    start: Ints
    items: Ints
    #: ``inverse_items[inverse_start[l, i]:inverse_start[l, i + 1]]`` are the later events whose list ``l`` holds the
    #: event ``i``, ascending.
    inverse_start: Ints
    inverse_items: Ints


class Scratch(NamedTuple):
    """Work space for the subslice that is being searched; its events are numbered from its first one."""

    #: Whether a trend of the subslice can be completed from the event in the state, and whether one may end there;
    #: shape (longest subslice, states).
    useful: Bools
    accept: Bools
    #: Where the search for each event's successors along each edge begins, shape (longest subslice, edges): an event of
    #: the chain, or a position in an inverted list; -1: there is no successor.
    first: Places
    #: The next event on each chain after each event, shape (chains, longest subslice); -1: there is none.
    next: Places
    #: For each order of a chain, the best value (largest for ``>`` and ``>=``, else smallest) of the event and of all
    #: that follow it on the chain; shape (orders of all chains, longest subslice).
    best: Ints
    #: The first event at each of the heads. It holds only if ``head_stamp`` is the stamp of the subslice.
    head: Places
    head_stamp: Ints


class Guards(NamedTuple):
    """The data for judging negations before the begin and after the end of a trend."""

    program: Program
    conditions: Conditions
    #: Whether negations before a trend are judged when its end is known. With a span the end bounds how far they look.
    late: bool


class SearchInput(NamedTuple):
    """A chunk of events, with the codes that guards compare, and the subslices to search."""

    events: Events
    tables: JoinCodes
    subslices: Subslices
    #: The first event of each slice.
    slice_low: Ints
    #: The pairwise predicates: operator, left variable, its column, right variable, its column.
    pairs: Ints
    #: As in :class:`~cetdsl.kernels.machine.conditions.Conditions`.
    pivot_variable: int
    pivot_pairs: Ints
    #: Whether trends begin with the first event of their subslice.
    begins_first: bool


def ints(values: list[int]) -> Ints:
    return np.array(values, dtype=np.int64)


def by_source(machine: Machine) -> list[Edge]:
    return sorted(machine.edges, key=lambda edge: (edge.source, edge.target))


class SearchLayout:
    """Lays out a machine's edges by source, and prepares what a search needs of each chunk of events."""

    def __init__(self, machine: Machine) -> None:
        edges = by_source(machine)
        states = len(machine.variables)
        self.joins = list(dict.fromkeys(edge.comparisons for edge in edges))
        # Numbered by target, so that the chains of a state are neighbours.
        chains = sorted({(e.target, self.joins.index(e.comparisons)) for e in edges if not e.listed})
        rows: list[tuple[int, int, int]] = []
        order_start, order_end, comparison_end = [], [], []
        for comparisons in self.joins:
            orders = [c for c in comparisons if c.op in _ORDERS]
            others = [c for c in comparisons if c.op == "!="]
            order_start.append(len(rows))
            order_end.append(len(rows) + len(orders))
            rows += [(OPERATORS[c.op], c.later, c.earlier) for c in orders + others]
            comparison_end.append(len(rows))
        best = np.cumsum([0] + [order_end[join] - order_start[join] for _, join in chains])
        self.best_rows = int(best[-1])
        out = [[k for k, edge in enumerate(edges) if edge.source == state] for state in range(states)]
        listed = [list(edge.listed) for edge in edges]
        numbers = {chain: number for number, chain in enumerate(chains)}
        joins = [self.joins.index(edge.comparisons) for edge in edges]
        self.edges = Edges(
            variable=ints(list(machine.variables)),
            bits=variable_bits(ints(list(machine.variables))),
            initial=ints([state for state, _ in machine.initial]),
            out_start=starts_of(out),
            target=ints([edge.target for edge in edges]),
            join=ints(joins),
            chain=ints([-1 if e.listed else numbers[e.target, join] for e, join in zip(edges, joins)]),
            order_start=ints(order_start),
            order_end=ints(order_end),
            comparison_end=ints(comparison_end),
            comparison=np.array(rows, dtype=np.int64).reshape(-1, 3),
            listed_start=starts_of(listed),
            listed=flat(listed),
            chain_start=starts_of([[k for k, (target, _) in enumerate(chains) if target == q] for q in range(states)]),
            chain_join=ints([join for _, join in chains]),
            best_start=best[:-1].astype(np.int64),
            ends=np.isin(np.arange(states), [state for state, _ in machine.final]),
        )

    def tables(self, events: Events) -> tuple[JoinCodes, int]:
        """Returns the codes of a chunk of events, and the number of chain heads."""
        count = len(events.time)
        later = np.empty((len(self.joins), count), dtype=np.int32)
        earlier = np.empty_like(later)
        sizes = []
        for number, comparisons in enumerate(self.joins):
            f, g, size = equality_codes([c for c in comparisons if c.op == "="], events)
            # An event with a NULL has the code -1, so that the search need not test for NULLs.
            later[number] = np.where(events.valid[[c.later for c in comparisons]].all(axis=0), f, -1)
            earlier[number] = np.where(events.valid[[c.earlier for c in comparisons]].all(axis=0), g, -1)
            sizes.append(size)
        heads = np.cumsum([0] + [sizes[join] for join in self.edges.chain_join]).astype(np.int64)
        return JoinCodes(later, earlier, heads), int(heads[-1])

    @property
    def asks_lists(self) -> bool:
        """Whether any edge has a list predicate."""
        return len(self.edges.listed) > 0

    def lists(self, events: Events) -> Lists:
        """Returns the lists of a chunk of events, also inverted."""
        return Lists(events.list_start, events.list_items, *_invert(events.list_start, events.list_items))

    def scratch(self, longest: int, heads: int) -> Scratch:
        """Makes the work space for subslices of up to ``longest`` events."""
        states = len(self.edges.variable)
        return Scratch(
            np.zeros((longest, states), dtype=np.bool_),
            np.zeros((longest, states), dtype=np.bool_),
            np.empty((longest, len(self.edges.target)), dtype=np.int32),
            np.empty((len(self.edges.chain_join), longest), dtype=np.int32),
            np.empty((self.best_rows, longest), dtype=np.int64),
            np.empty(heads, dtype=np.int32),
            np.zeros(heads, dtype=np.int64),
        )


@jit
def _invert(list_start: Ints, list_items: Ints) -> tuple[Ints, Ints]:
    """Lists, for each list predicate and event, the later events whose list holds that event, ascending."""
    lists, count = list_start.shape[0], list_start.shape[1] - 1
    start = np.zeros((lists, count + 1), dtype=np.int64)
    items = np.empty(len(list_items), dtype=np.int64)
    base = 0
    for row in range(lists):
        fill = np.zeros(count, dtype=np.int64)
        for position in range(list_start[row, 0], list_start[row, count]):
            fill[list_items[position]] += 1
        for i in range(count):
            start[row, i] = base
            base += fill[i]
            fill[i] = start[row, i]
        start[row, count] = base
        for later in range(count):
            for position in range(list_start[row, later], list_start[row, later + 1]):
                earlier = list_items[position]
                items[fill[earlier]] = later
                fill[earlier] += 1
    return start, items
