"""Partition trees of a graph, their structural entropy, and how operations on a tree change it.

The structural entropy (Li and Pan, IEEE Transactions on Information Theory, 2016) is the length of the code of a step
of a random walk, if a code word names the cluster only where the walk enters it:

    H  =  - sum over all vertices v but the root of  cut(v) / volume(root) * log2(volume(v) / volume(parent of v))

volume: the degrees of all nodes below a vertex, added up; cut: the edges that lead out of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import log2

from cetdsl.sharing.aggregation.copies import SharedValues

#: The vertex of all nodes.
ROOT = -1


class PartitionTree:
    """A tree whose leaves are the nodes of a graph, and whose inner vertices are clusters of them.

    Parameters
    ----------
    neighbours : mapping of int to set of int
        The graph. The tree looks into it, so that whoever changes it must say so.

    Examples
    --------
    >>> tree = PartitionTree({0: {1, 2}, 1: {0, 2}, 2: {0, 1, 3}, 3: {2, 4}, 4: {3}})
    >>> before = tree.entropy()
    >>> gain = tree.gain_of_combining(3, 4)
    >>> tree.combine(3, 4)
    5
    >>> abs(before - tree.entropy() - gain) < 1e-12
    True
    """

    def __init__(self, neighbours: Mapping[int, set[int]]) -> None:
        self.neighbours = neighbours
        self.parent: dict[int, int] = dict.fromkeys(neighbours, ROOT)
        self.children: SharedValues[int, dict[int, None]] = SharedValues({ROOT: dict.fromkeys(neighbours)})
        self.volume = {node: len(those) for node, those in neighbours.items()}
        self.cut = dict(self.volume)
        #: The edges between a vertex and each of its siblings that it has edges with.
        self.beside: SharedValues[int, dict[int, int]] = SharedValues(
            {node: dict.fromkeys(those, 1) for node, those in neighbours.items()}
        )
        #: The cuts of the children of a vertex, added up.
        self._inner = {ROOT: sum(self.volume.values())}
        self.volume[ROOT], self.cut[ROOT] = self._inner[ROOT], 0
        self._next = max(neighbours, default=-1) + 1

    def copy(self, neighbours: Mapping[int, set[int]]) -> PartitionTree:
        """A tree over a copy of the graph that may change while this one stays."""
        copied = PartitionTree({})
        copied.neighbours = neighbours
        copied.parent, copied.volume, copied.cut = dict(self.parent), dict(self.volume), dict(self.cut)
        copied.children, copied.beside = self.children.copy(), self.beside.copy()
        copied._inner, copied._next = dict(self._inner), self._next
        return copied

    # What there is

    def entropy(self) -> float:
        """The structural entropy, by its definition (equation 2)."""
        whole = self.volume[ROOT]
        terms = (
            self.cut[vertex] / whole * log2(self.volume[vertex] / self.volume[parent])
            for vertex, parent in self.parent.items()
            if self.cut[vertex]
        )
        return -sum(terms)

    def leaves(self, vertex: int) -> Iterator[int]:
        """Yields the leaves below a vertex, itself if it is one."""
        todo = [vertex]
        while todo:
            vertex = todo.pop()
            if vertex in self.children:
                todo += self.children[vertex]
            else:
                yield vertex

    def way_up(self, vertex: int) -> Iterator[int]:
        """Yields a vertex and all above it, but not the root."""
        while vertex != ROOT:
            yield vertex
            vertex = self.parent[vertex]

    # What operations change

    def gain_of_combining(self, first: int, second: int) -> float:
        """Returns by how much a new parent of two siblings reduces the entropy (equation 4; most terms cancel).

        It is never less than 0, and more where the two have edges with each other and siblings besides.
        """
        edges = self.beside[first].get(second)
        if not edges:
            return 0.0
        volume = self.volume
        return 2 * edges / volume[ROOT] * log2(volume[self.parent[first]] / (volume[first] + volume[second]))

    def gain_of_merging(self, first: int, second: int, *, whole: bool = True) -> float:
        """Returns by how much the entropy falls if the first of two siblings takes over the other (equation 6).

        It takes over the other's children, or the other itself if that is a leaf or, not being taken ``whole``, stays a
        vertex. Never is it more than what combining gains: clusters within the merged one lose their code words.
        """
        both = self.volume[first] + self.volume[second]
        lost = self._inner_cut(first) * log2(both / self.volume[first]) if self.volume[first] else 0.0
        if whole and self.volume[second]:
            lost += self._inner_cut(second) * log2(both / self.volume[second])
        return self.gain_of_combining(first, second) - (lost / self.volume[ROOT] if lost else 0.0)

    def _inner_cut(self, vertex: int) -> int:
        """The ends of edges between children of a vertex."""
        return self._inner[vertex] - self.cut[vertex] if vertex in self.children else 0

    # Operations

    def combine(self, first: int, second: int) -> int:
        """Gives two siblings a new parent, and returns it."""
        parent, vertex = self.parent[first], self.fresh()
        edges = self._join(first, second, vertex)
        self._inner[vertex] = self.cut[first] + self.cut[second]
        for child, other in ((first, second), (second, first)):
            self.parent[child] = vertex
            self.beside[child] = {other: edges} if edges else {}
            del self.children.change(parent)[child]
        self.parent[vertex] = parent
        self.children[vertex] = {first: None, second: None}
        self.children.change(parent)[vertex] = None
        return vertex

    def merge(self, first: int, second: int, *, whole: bool = True) -> list[int]:
        """Puts the second of two siblings, or its children if it is taken ``whole``, below the first.

        Returns
        -------
        list of int
            The new children of the first.
        """
        moved = list(self.children[second]) if whole and second in self.children else [second]
        touching = {child: self._touching(child, first) for child in moved}
        inner = self._inner[first] + sum(self.cut[child] for child in moved)
        del self.children.change(self.parent[first])[second]
        self._join(first, second, first)
        self._inner[first] = inner
        for child in moved:
            self.parent[child] = first
            self.children.change(first)[child] = None
            if child == second:
                self.beside[child] = {}
            for other, edges in touching[child].items():
                self.beside.change(child)[other] = self.beside.change(other)[child] = edges
        if moved != [second]:
            self._forget(second)
        return moved

    def _join(self, first: int, second: int, vertex: int) -> int:
        """Lets a vertex, which may be the first, stand for both siblings; returns how many edges they have together."""
        parent, beside = self.parent[first], dict(self.beside[first])
        edges = beside.pop(second, 0)
        for other, count in self.beside[second].items():
            if other != first:
                beside[other] = beside.get(other, 0) + count
        for other, count in beside.items():
            its = self.beside.change(other)
            its.pop(first, None)
            its.pop(second, None)
            its[vertex] = count
        self.beside[vertex] = beside
        volume, cuts = self.volume[first] + self.volume[second], self.cut[first] + self.cut[second]
        self.volume[vertex], self.cut[vertex] = volume, cuts - 2 * edges
        self._inner[parent] -= 2 * edges
        return edges

    def _touching(self, vertex: int, cluster: int) -> dict[int, int]:
        """The edges from below a vertex to each child of a cluster that it is no part of."""
        found: dict[int, int] = {}
        for node in self.leaves(vertex):
            for other in self.neighbours[node]:
                while (above := self.parent[other]) not in (cluster, ROOT):
                    other = above
                if above == cluster:
                    found[other] = found.get(other, 0) + 1
        return found

    def _forget(self, vertex: int) -> None:
        for known in (self.parent, self.children, self.volume, self.cut, self.beside, self._inner):
            known.pop(vertex, None)

    # Changes of the graph

    def add(self, node: int) -> None:
        """Adds a node that the graph has already, with its edges, below the root."""
        self.parent[node], self.volume[node], self.cut[node], self.beside[node] = ROOT, 0, 0, {}
        self.children.change(ROOT)[node] = None
        for other in self.neighbours[node]:
            self._count(node, other, 1)
        self._next = max(self._next, node + 1)

    def fresh(self) -> int:
        """Returns a number that no vertex has, nor will have."""
        self._next += 1
        return self._next - 1

    def remove(self, node: int, linked: list[int]) -> tuple[int, int] | None:
        """Removes a node that the graph has no longer, with the edges that it had.

        Returns
        -------
        (int, int) or None
            The cluster that was left with a single child and has gone, and this child, which stands in its place.
        """
        for other in linked:
            self._count(node, other, -1)
        parent = self.parent[node]
        del self.children.change(parent)[node]
        self._forget(node)
        if parent == ROOT or len(self.children[parent]) != 1:
            return None
        (child,) = self.children[parent]
        above = self.parent[parent]
        self.parent[child] = above
        self.children[above] = {child if v == parent else v: None for v in self.children[above]}
        self.beside[child] = dict(self.beside[parent])
        for other, edges in self.beside[child].items():
            its = self.beside.change(other)
            del its[parent]
            its[child] = edges
        self._forget(parent)
        return parent, child

    def _count(self, first: int, second: int, sign: int) -> None:
        """Counts an edge between two leaves in, or out."""
        above = set(self.way_up(first))
        meeting = next((vertex for vertex in self.way_up(second) if vertex in above), ROOT)
        tops = []
        for leaf in (first, second):
            vertex = leaf
            while True:
                self.volume[vertex] += sign
                self.cut[vertex] += sign
                self._inner[self.parent[vertex]] += sign
                if self.parent[vertex] == meeting:
                    break
                vertex = self.parent[vertex]
            tops.append(vertex)
        for vertex in (*self.way_up(meeting), ROOT):
            self.volume[vertex] += 2 * sign
        for vertex, other in (tops, reversed(tops)):
            its = self.beside.change(vertex)
            its[other] = its.get(other, 0) + sign
            if not its[other]:
                del its[other]
