"""Partition trees of a graph, their structural entropy, and how operations on a tree change it.

The structural entropy (Li and Pan, IEEE Transactions on Information Theory, 2016) is the average length of the code of
a step of a random walk on the graph, where a cluster's code word is written only when the walk enters the cluster:

    H  =  - sum over all vertices v but the root of  cut(v) / volume(root) * log2(volume(v) / volume(parent of v))

where ``volume`` is the sum of the degrees of the nodes below a vertex, and ``cut`` the number of edges that leave it.
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
        The graph. The tree reads it later too, so changes of it must be reported by :meth:`add` and :meth:`remove`.

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
        #: The number of edges between a vertex and each sibling with which it has any.
        self.beside: SharedValues[int, dict[int, int]] = SharedValues(
            {node: dict.fromkeys(those, 1) for node, those in neighbours.items()}
        )
        #: The sum of the cuts of a vertex's children.
        self._inner = {ROOT: sum(self.volume.values())}
        self.volume[ROOT], self.cut[ROOT] = self._inner[ROOT], 0
        self._next = max(neighbours, default=-1) + 1

    def copy(self, neighbours: Mapping[int, set[int]]) -> PartitionTree:
        """Returns a copy over a copy of the graph; a change of either tree leaves the other as it is."""
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

        This is never negative. It is positive if the two have edges with each other and other siblings have edges too.
        """
        edges = self.beside[first].get(second)
        if not edges:
            return 0.0
        volume = self.volume
        return 2 * edges / volume[ROOT] * log2(volume[self.parent[first]] / (volume[first] + volume[second]))

    def gain_of_merging(self, first: int, second: int, *, whole: bool = True) -> float:
        """Returns by how much the entropy falls if the second of two siblings is merged into the first (equation 6).

        The children of the second become children of the first; or, if the second is a leaf or not taken ``whole``, the
        second itself does. This is never more than what combining gains, because the code words of the clusters within
        the merged one become longer.
        """
        both = self.volume[first] + self.volume[second]
        lost = self._inner_cut(first) * log2(both / self.volume[first]) if self.volume[first] else 0.0
        if whole and self.volume[second]:
            lost += self._inner_cut(second) * log2(both / self.volume[second])
        return self.gain_of_combining(first, second) - (lost / self.volume[ROOT] if lost else 0.0)

    def _inner_cut(self, vertex: int) -> int:
        """Returns the number of ends of edges between a vertex's children."""
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
        """Makes the second of two siblings a child of the first; or, if it is taken ``whole``, its children.

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
        """Replaces two siblings by a vertex, which may be the first; returns how many edges they have between them."""
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
        """Counts the edges from the leaves below a vertex to each child of a cluster that the vertex is not part of."""
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
        """Adds a node below the root; the graph has it, and its edges, already."""
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
        """Removes a node that the graph has no longer, and its edges, which led to the nodes ``linked``.

        Returns
        -------
        (int, int) or None
            A cluster that had only one child left and so was removed too, and this child, which has taken its place.
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
        """Adds an edge between two leaves to all counts (``sign`` 1), or subtracts it (-1)."""
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
