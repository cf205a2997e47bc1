"""The graph of a stream's events, maintained as they arrive and expire.

The bounds of the events that have arrived cut the attribute vertices. A new bound splits the range that it falls into,
and when the last event with this bound expires, the two ranges become one again. No edge is moved for that. A list
keeps the values of later events in order, and the bounds of earlier ones in order beside them: a from-edge is the range
that a value lies in now, and a to-edge begins or ends at a bound and not at a number. So an event costs a binary search
in each list that it joins or leaves, and the move of what is behind it, a block of memory; however many events lie in
the range that it splits.

Future events are not known, so every node may still end a trend. But a node is kept only if a path leads to it from
where a trend may begin. The latest event with which such a path begins, its *origin*, says when it expires.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from cetdsl.errors import InvalidNode, UnsupportedQuery
from cetdsl.ir.machine import Machine
from cetdsl.ir.transitions import Transition, transitions_of
from cetdsl.kernels.graph.attribute_graph import NOWHERE
from cetdsl.kernels.graph.vertices import cut_lists
from cetdsl.pattern.expressions import HOLDS

Values = Sequence["int | None"]


class Node(NamedTuple):
    """An event, by its number in order of arrival, in a state."""

    event: int
    state: int


class Origins(NamedTuple):
    """Where paths to a node begin.

    ``own`` is the latest event with which one begins (the node's own, if it may begin a trend), ``before`` the same
    over paths through a predecessor; ``NOWHERE`` if there is none.
    """

    own: int
    before: int


class AttributeVertices(NamedTuple):
    """The attribute vertices of one list, as they are now.

    Vertex 0 holds the values below the first of the ``bounds``, vertex 1 those between it and the second, and so on.
    ``vertex`` are the from-edges: the vertex that the value of a later event lies in. ``range`` are the to-edges: an
    earlier event leads to the vertices from the first number to before the second.
    """

    bounds: list[int]
    vertex: dict[Node, int]
    range: dict[Node, tuple[int, int]]


class IncrementalGraph:
    """The graph of the events of one key, which grows event by event.

    A machine with NOT, or with predicates that do not split into one side per event, is an UnsupportedQuery. Where a
    transition has more predicates than an index answers, an arrival also costs a test of each event that the index
    leaves.

    Examples
    --------
    The published example (Mei et al., ICPP 2021), ``next > 2 * previous``: each bound splits a range.

    >>> from cetdsl.ir.machine import Comparison, Edge
    >>> graph = IncrementalGraph(Machine((0,), ((0, ()),), ((0, ()),), (Edge(0, 0, (Comparison(">", 0, 1),)),)))
    >>> for t, value in enumerate([32, 7, 15, 35, 40, 17]):
    ...     _ = graph.append(t, 1, [value, 2 * value])
    ...     print([bound + 1 for bound in graph.ranges(0).bounds])
    [65]
    [15, 65]
    [15, 31, 65]
    [15, 31, 65, 71]
    [15, 31, 65, 71, 81]
    [15, 31, 35, 65, 71, 81]
    >>> [(earlier.event, later.event) for earlier, later in graph.edges()]
    [(1, 2), (1, 3), (2, 3), (1, 4), (2, 4), (1, 5)]
    >>> graph.expire(3)
    >>> [bound + 1 for bound in graph.ranges(0).bounds]
    [35, 71, 81]
    """

    def __init__(self, machine: Machine) -> None:
        self._joins = [_Join(transition) for transition in transitions_of(machine)]
        if any(join.transition.edge.listed or join.transition.edge.guards for join in self._joins):
            raise UnsupportedQuery(
                "a graph that grows event by event takes no NOT, and no predicate that splits into no side per event"
            )
        self._variables = machine.variables
        self._begins = {state for state, _ in machine.initial}
        self._nodes: dict[Node, Origins] = {}
        self._of_origin: defaultdict[int, list[Node]] = defaultdict(list)
        self._values: dict[int, Values] = {}
        self._instants: dict[int, int] = {}
        self._count = self._first = 0
        self._latest_instant: list[Node] = []  # its nodes do not see each other

    def append(self, instant: int, mask: int, values: Values) -> list[Node]:
        """Adds an event, and returns the nodes that it adds; there are none if no trend can have got there.

        Bit v of the ``mask`` is set if the event may be bound to variable v, and the ``values`` are the columns that
        comparisons refer to, as numbers in the order of their values. Events of the same ``instant`` are simultaneous;
        one that comes after a later one is an InvalidNode.
        """
        last = self._instants.get(self._count - 1, instant)
        if instant < last:
            raise InvalidNode(f"an event of instant {instant} came after one of instant {last}")
        if instant > last:
            for node in self._latest_instant:
                for join in self._joins:
                    join.announce(node, self._values[node.event], self._nodes[node].own, self._first)
            self._latest_instant = []
        event = self._count
        self._count += 1
        self._values[event], self._instants[event] = values, instant
        added = {}
        for state, variable in enumerate(self._variables):
            if mask >> variable & 1:
                before = self._origin_before(Node(event, state))
                own = event if state in self._begins else before
                if own != NOWHERE:
                    added[Node(event, state)] = Origins(own, before)
        for node, origins in added.items():
            self._nodes[node] = origins
            self._of_origin[origins.own].append(node)
            for join in self._joins:
                for entries, value in join.entries_of(node, values):
                    insort(entries, (value, node))
        self._latest_instant += added
        return list(added)

    def _origin_before(self, node: Node) -> int:
        """Returns the latest origin of the nodes that may come before one."""
        found = [NOWHERE]
        for join in self._into(node):
            if join.transition.rest:
                found += [self._nodes[earlier].own for earlier in self._before(join, node)]
            else:
                found.append(join.latest(self._values[node.event]))
        latest = max(found)
        return latest if latest >= self._first else NOWHERE

    def expire(self, first: int) -> None:
        """Forgets the events before the ``first`` one that stays, and the nodes that only these led to."""
        for event in range(self._first, min(first, self._count)):
            for node in self._of_origin.pop(event, ()):
                for join in self._joins:
                    for entries, value in join.entries_of(node, self._values[node.event]):
                        del entries[bisect_left(entries, (value, node))]
                    join.forget_empty(self._values[node.event])
                del self._nodes[node]
        for event in range(self._first, min(first, self._count)):
            del self._values[event], self._instants[event]
        self._first = max(self._first, first)
        self._latest_instant = [node for node in self._latest_instant if node in self._nodes]

    def _into(self, node: Node) -> Iterator[_Join]:
        """Yields the joins of the transitions that lead to a node's state."""
        return (join for join in self._joins if join.transition.edge.target == node.state)

    @property
    def nodes(self) -> dict[Node, Origins]:
        """The nodes, in order of arrival."""
        return self._nodes

    def predecessors(self, node: Node) -> list[Node]:
        """Returns the nodes that may come right before one; if it came last, in time proportional to their number."""
        return sorted(earlier for join in self._into(node) for earlier in self._before(join, node))

    def edges(self) -> list[tuple[Node, Node]]:
        """All edges, in order of arrival of their later nodes."""
        return [(earlier, later) for later in self._nodes for earlier in self.predecessors(later)]

    def ranges(self, transition: int, key: tuple[int, ...] = ()) -> AttributeVertices:
        """Returns the attribute vertices of a transition (by source and target), for some values of its equalities."""
        return self._joins[transition].ranges(key)

    def _before(self, join: _Join, node: Node) -> Iterator[Node]:
        """Returns the earlier nodes from which a transition leads to one."""
        values, instant = self._values[node.event], self._instants[node.event]
        for earlier in join.allowing(values):
            if self._instants[earlier.event] < instant and join.passes(self._values[earlier.event], values):
                yield earlier


class _Join:
    """The lists of one transition, by the values of its equalities.

    Every order is turned into ``value >= cut``: values and bounds change their sign for "less", and the cut of a bound
    that is not allowed itself is the next number.
    """

    def __init__(self, transition: Transition) -> None:
        self.transition = transition
        order = transition.order
        self.op = order.op if order else None
        self.later = [c.later for c in transition.equalities], order.later if order else None
        self.earlier = [c.earlier for c in transition.equalities], order.earlier if order else None
        self.sign = -1 if self.op in ("<", "<=") else 1
        self.strict = int(self.op in ("<", ">"))
        self.lists: defaultdict[tuple[int | None, ...], _List] = defaultdict(_List)

    def _side(self, values: Values, side: tuple[list[int], int | None]) -> tuple[tuple[int | None, ...], int] | None:
        """Returns the list of an event on one side, and its turned value or bound; None if a value is NULL."""
        columns, column = side
        key, value = tuple(values[c] for c in columns), 0 if column is None else values[column]
        return None if value is None or None in key else (key, self.sign * value)

    def entries_of(self, node: Node, values: Values) -> Iterator[tuple[list[tuple[int, Node]], int]]:
        """Returns what holds a node's from-edge and to-edge, if it has any, and the value or cut that it stands at."""
        if node.state == self.transition.edge.target and (found := self._side(values, self.later)):
            yield self.lists[found[0]].values, found[1]
        if node.state == self.transition.edge.source and (found := self._side(values, self.earlier)):
            yield self.lists[found[0]].cuts, found[1] + self.strict

    def forget_empty(self, values: Values) -> None:
        """Drops the lists of an event if nothing is left on them."""
        for side in (self.later, self.earlier):
            found = self._side(values, side)
            if found and found[0] in self.lists and not (self.lists[found[0]].cuts or self.lists[found[0]].values):
                del self.lists[found[0]]

    def announce(self, node: Node, values: Values, origin: int, first: int) -> None:
        """Tells the list that a node leads to where paths to the node begin; origins before ``first`` have expired."""
        if node.state == self.transition.edge.source and (found := self._side(values, self.earlier)):
            self.lists[found[0]].announce(found[1] + self.strict, origin, first)

    def latest(self, values: Values) -> int:
        """Returns the latest origin that was announced to an event's list by a node that allows its value."""
        found = self._side(values, self.later)
        return NOWHERE if found is None or found[0] not in self.lists else self.lists[found[0]].latest(found[1])

    def allowing(self, values: Values) -> Iterator[Node]:
        """Returns the nodes that lead to the range that an event's value lies in."""
        found = self._side(values, self.later)
        if found is not None and found[0] in self.lists:
            for cut, node in self.lists[found[0]].cuts:
                if cut > found[1]:
                    return
                yield node

    def passes(self, earlier: Values, later: Values) -> bool:
        """Whether two events pass the tests that no index answers."""
        for c in self.transition.rest:
            a, b = later[c.later], earlier[c.earlier]
            if a is None or b is None or not HOLDS[c.op](a, b):
                return False
        return True

    def ranges(self, key: tuple[int, ...]) -> AttributeVertices:
        """The attribute vertices of a list."""
        found = self.lists[key] if key in self.lists else _List()
        values = np.array([self.sign * value for value, _ in found.values], dtype=np.int64)
        bounds = np.array([self.sign * (cut - self.strict) for cut, _ in found.cuts], dtype=np.int64)
        lists = cut_lists(self.op, 1, (values * 0, values), (bounds * 0, bounds))
        return AttributeVertices(
            bounds[lists.low[1:]].tolist(),
            {node: vertex for (_, node), vertex in zip(found.values, lists.vertex.tolist())},
            {node: ends for (_, node), ends in zip(found.cuts, zip(lists.first.tolist(), lists.stop.tolist()))},
        )


class _List:
    """The values of later events, the cuts of earlier ones, and the latest origin up to each cut.

    An origin counts only where no lower cut has a later one, so the origins rise with the cuts.
    """

    def __init__(self) -> None:
        self.values: list[tuple[int, Node]] = []
        self.cuts: list[tuple[int, Node]] = []
        self.rises: list[int] = []
        self.origins: list[int] = []

    def announce(self, cut: int, origin: int, first: int) -> None:
        """Notes that paths from a cut on begin with ``origin``, or later; origins before ``first`` have expired."""
        expired = bisect_left(self.origins, first)
        del self.rises[:expired], self.origins[:expired]
        at = bisect_left(self.rises, cut)
        if at < len(self.rises) and self.rises[at] == cut:
            origin = max(origin, self.origins[at])
        if at and self.origins[at - 1] >= origin:
            return
        end = bisect_right(self.origins, origin, lo=at)
        self.rises[at:end], self.origins[at:end] = [cut], [origin]

    def latest(self, value: int) -> int:
        """Returns the latest origin up to a value."""
        at = bisect_right(self.rises, value)
        return self.origins[at - 1] if at else NOWHERE
