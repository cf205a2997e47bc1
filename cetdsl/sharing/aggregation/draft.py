"""A plan in the making: the correlation graph, its partition tree, and the sub-pattern of each vertex."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

import attrs

from cetdsl.pattern.query import Query
from cetdsl.sharing.aggregation.copies import SharedValues
from cetdsl.sharing.aggregation.entropy import ROOT, PartitionTree
from cetdsl.sharing.aggregation.graph import LEAST_ALIKE, MOST_NEIGHBOURS, CorrelationGraph
from cetdsl.sharing.aggregation.plan import Edge, PlanData, Vertex
from cetdsl.sharing.aggregation.skeletons import Skeleton, skeleton
from cetdsl.sharing.aggregation.subpatterns import Kind, Scope

#: Sub-patterns of fewer slots are not shared, because to find a single event is no work.
LEAST_SLOTS = 2

#: Says whether the time for a search is over.
Clock = Callable[[], bool]


def clock_of(deadline: float | None) -> Clock:
    """Returns a clock that runs out ``deadline`` seconds from now, never if it is None."""
    if deadline is None:
        return lambda: False
    end = time.monotonic() + deadline
    return lambda: time.monotonic() >= end


@attrs.frozen
class Limits:
    """Limits on plans.

    Parameters
    ----------
    least_alike, most_neighbours
        See :class:`cetdsl.sharing.aggregation.graph.CorrelationGraph`.
    least_slots : int
        Sub-patterns of fewer slots are not shared.
    levels : int or None
        The most sub-patterns on a way from a query to the root.
    """

    least_alike: float = LEAST_ALIKE
    most_neighbours: int = MOST_NEIGHBOURS
    least_slots: int = LEAST_SLOTS
    levels: int | None = None


class Draft:
    """A plan that is changed step by step, and is a valid plan after each step.

    A plan has the vertices of the partition tree, except the root, and some parents outside the tree (*helpers*).

    Parameters
    ----------
    queries : mapping of str to Query
    limits : Limits

    Attributes
    ----------
    graph, tree
        The correlation graph and its partition tree; each query is a node of the graph and a leaf of the tree.
    patterns : dict of int to SubPattern
        The pattern of each vertex of the tree and of each helper.
    inherited : dict of int to tuple of int
        For each vertex that is not directly below the root: the slot that corresponds to each slot of its parent.
    besides : dict of int to dict
        The helpers of a vertex, each with the vertex's slots that correspond to its own.
    touched : set of int
        Vertices that have changed, or whose parents have, since a plan was last made.
    """

    def __init__(self, queries: Mapping[str, Query], limits: Limits) -> None:
        self.limits = limits
        self.queries = dict(queries)
        self.numbers = {name: number for number, name in enumerate(self.queries)}
        self.skeletons = {self.numbers[name]: skeleton(query) for name, query in self.queries.items()}
        self._scopes: dict[Scope, int] = {}
        kinds = {number: self._kinds(found) for number, found in self.skeletons.items()}
        self.graph = CorrelationGraph(kinds, limits.least_alike, limits.most_neighbours)
        self.tree = PartitionTree(self.graph.neighbours)
        self.patterns = {number: found.pattern for number, found in self.skeletons.items()}
        self.inherited: dict[int, tuple[int, ...]] = {}
        self.besides: SharedValues[int, dict[int, tuple[int, ...]]] = SharedValues()
        self.helped: SharedValues[int, set[int]] = SharedValues()
        self.height: dict[int, int] = {}
        self._drawn: dict[int, tuple[Vertex, tuple[Edge, ...]]] = {}
        self.touched: set[int] = set(self.patterns)

    def copy(self) -> Draft:
        """Returns a copy; a change of either draft leaves the other as it is."""
        copied = Draft.__new__(Draft)
        copied.limits, copied.queries, copied.numbers = self.limits, dict(self.queries), dict(self.numbers)
        copied._scopes = dict(self._scopes)
        copied.skeletons, copied.patterns = dict(self.skeletons), dict(self.patterns)
        copied.graph = self.graph.copy()
        copied.tree = self.tree.copy(copied.graph.neighbours)
        copied.inherited, copied.height = dict(self.inherited), dict(self.height)
        copied.besides, copied.helped = self.besides.copy(), self.helped.copy()
        copied._drawn, copied.touched = dict(self._drawn), set(self.touched)
        return copied

    # Parents besides the one in the tree

    def help(self, helper: int, child: int, slots: Iterable[int]) -> None:
        """Makes a helper, a vertex outside the tree, a parent of a vertex in it."""
        self.besides.change(child, dict)[helper] = tuple(slots)
        self.helped.change(helper, set).add(child)
        self.touched.update((helper, child))

    def remaining(self, vertex: int) -> list[int]:
        """The slots of a vertex that none of its parents has: its differential part."""
        taken = set(self.inherited.get(vertex, ()))
        for slots in self.besides.get(vertex, {}).values():
            taken.update(slots)
        return [slot for slot in range(len(self.patterns[vertex].slots)) if slot not in taken]

    def leave(self, child: int) -> None:
        """Takes a vertex away from its helpers, and removes the helpers that then have only one child."""
        for helper in self.besides.pop(child, {}):
            self.helped.change(helper).remove(child)
            if len(self.helped[helper]) == 1:
                (left,) = self.helped.pop(helper)
                del self.besides.change(left)[helper], self.patterns[helper]
                self.touched.add(left)

    # Changes of the workload

    def add(self, name: str, query: Query) -> int:
        """Adds a query below the root, and returns its number."""
        number = self.tree.fresh()
        found = skeleton(query)
        self.queries[name], self.numbers[name] = query, number
        self.skeletons[number], self.patterns[number] = found, found.pattern
        self.touched.add(number)
        self.graph.add(number, self._kinds(found))
        self.tree.add(number)
        return number

    def remove(self, name: str) -> None:
        """Removes a query, and its cluster if that has only one child left; nothing else changes."""
        del self.queries[name]
        number = self.numbers.pop(name)
        self.leave(number)
        emptied = self.tree.remove(number, self.graph.remove(number))
        for known in (self.skeletons, self.patterns, self.inherited):
            known.pop(number, None)
        if emptied is None:
            return
        gone, child = emptied
        self.touched.add(child)
        self.leave(gone)
        above, own = self.inherited.pop(gone, None), self.inherited.pop(child)
        if above is not None:
            self.inherited[child] = tuple(own[slot] for slot in above)
        del self.patterns[gone], self.height[gone]

    # The plan

    def plan(self, *, finished: bool) -> PlanData:
        """Returns the present plan; only vertices that have been ``touched`` are made anew."""
        names = {number: name for name, number in self.numbers.items()}
        for gone in self._drawn.keys() - self.patterns.keys():
            del self._drawn[gone]
        self.touched &= self.patterns.keys()
        todo = sorted(self.touched)
        while todo:
            vertex = todo[-1]
            above = self.touched.intersection(self._parents(vertex))
            if vertex in self.touched and above:
                todo += above
                continue
            todo.pop()
            if vertex in self.touched:
                todo += self._draw(vertex, names.get(vertex))
        ordered: dict[tuple[int, bool], list[int]] = {}
        for number, drawn in self._drawn.items():
            ordered.setdefault((drawn[0].level, number in names), []).append(number)
        found = [self._drawn[number] for place in sorted(ordered) for number in sorted(ordered[place])]
        vertices = tuple([drawn for drawn, _ in found])
        edges = tuple([edge for _, own in found for edge in own])
        return PlanData(dict(self.queries), vertices, edges, self.tree.entropy(), finished)

    def _draw(self, number: int, name: str | None) -> Iterable[int]:
        """Makes a vertex and the edges to it; returns its children if its level, and so maybe theirs, has changed."""
        parents = self._parents(number)
        level = 1 + max((self._drawn[parent][0].level for parent in parents), default=0)
        known = self._drawn.get(number)
        bound = self.skeletons[number].variables if name is not None else ()
        own = tuple(self.remaining(number))
        edges = tuple(Edge(parent, number, slots) for parent, slots in parents.items())
        self._drawn[number] = (
            Vertex(number, self.patterns[number], level, tuple(parents), name, bound, own),
            edges,
        )
        self.touched.remove(number)
        below = self.tree.children.get(number, {}) if known is not None and known[0].level != level else {}
        self.touched.update(below)
        return below

    def _parents(self, vertex: int) -> dict[int, tuple[int, ...]]:
        """Returns the parents of a vertex, each with the vertex's slots that correspond to the parent's."""
        above = self.tree.parent.get(vertex, ROOT)
        if vertex not in self.besides:
            return {} if above == ROOT else {above: self.inherited[vertex]}
        return {**({} if above == ROOT else {above: self.inherited[vertex]}), **self.besides[vertex]}

    def _kinds(self, found: Skeleton) -> set[tuple[int, Kind]]:
        """Returns the kinds of events of a query, with its scope: queries of different scopes have none in common."""
        scope = self._scopes.setdefault(found.pattern.scope, len(self._scopes))
        return {(scope, kind) for kind in found.pattern.kinds}
