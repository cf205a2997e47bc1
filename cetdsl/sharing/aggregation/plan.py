"""Aggregation plans as data: the sub-patterns that are detected once, and the patterns made of their instances."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import attrs

from cetdsl.errors import InvalidNode, shown
from cetdsl.pattern.query import Query
from cetdsl.sharing.aggregation.subpatterns import SubPattern


@attrs.frozen
class Step:
    """A step by which instances of a vertex are put together: it binds a parent's instance, or an event to one slot.

    ``slots`` are the vertex's slots that the step binds, in the order of the parent's slots. ``parent`` is the number
    of the parent; None if the step binds an event.
    """

    slots: tuple[int, ...]
    parent: int | None = None


@attrs.frozen
class Vertex:
    """A pattern of a plan, whose instances are built once.

    Parameters
    ----------
    number : int
        The number by which edges and parents refer to it.
    pattern : SubPattern
        What its instances match; for the vertex of a query, what each match of the query contains.
    level : int
        1 if it has no parents, else one more than the highest level of its parents.
    parents : tuple of int
        The vertices whose instances its own instances are made of; each of its instances needs one of every parent.
    query : str or None
        The name of the query, if it is the vertex of a query; such a vertex has no children.
    variables : tuple of frozenset of str
        For the vertex of a query: for each slot the variables that may bind the slot's event.
    own : tuple of int
        The slots that no parent has.
    steps : tuple of Step
        The order in which its instances are best put together; empty if no statistics are known.
    expected : float or None
        The expected number of instances a second, or in all if there is no window; None if no statistics are known.
    """

    number: int
    pattern: SubPattern
    level: int
    parents: tuple[int, ...] = ()
    query: str | None = None
    variables: tuple[frozenset[str], ...] = ()
    own: tuple[int, ...] = ()
    steps: tuple[Step, ...] = ()
    expected: float | None = None

    @property
    def slots(self) -> int:
        """The number of kinds of events that its own slots take."""
        return sum(len(self.pattern.slots[slot].choices) for slot in self.own)


@attrs.frozen
class Edge:
    """An arrow from a sub-pattern to a pattern that is made of it.

    ``slots`` has for each slot of the parent the slot of the child that holds the same event.
    """

    parent: int
    child: int
    slots: tuple[int, ...]


@attrs.frozen(slots=False)
class PlanData:
    """A plan, as kernels and explanations need it.

    Attributes
    ----------
    queries : mapping of str to Query
    vertices : tuple of Vertex
        By level, sub-patterns before queries; so parents stand before what is made of them.
    edges : tuple of Edge
    entropy : float
        The structural entropy of the correlation graph under the plan's tree, in bits.
    finished : bool
        Whether the search had ended when the plan was returned, so that more time would give no other plan.
    dropped : int
        The number of sub-patterns that were found and dropped, because they would cost more to keep than to build
        again.
    """

    queries: Mapping[str, Query] = attrs.field(repr=False)
    vertices: tuple[Vertex, ...] = attrs.field(repr=False)
    edges: tuple[Edge, ...] = attrs.field(repr=False)
    entropy: float
    finished: bool = True
    dropped: int = 0

    @cached_property
    def _by_number(self) -> dict[int, Vertex]:
        return {vertex.number: vertex for vertex in self.vertices}

    @cached_property
    def _children(self) -> dict[int, list[Vertex]]:
        found: dict[int, list[Vertex]] = {vertex.number: [] for vertex in self.vertices}
        for edge in self.edges:
            found[edge.parent].append(self._by_number[edge.child])
        return found

    @property
    def levels(self) -> tuple[tuple[Vertex, ...], ...]:
        """The vertices of each level, from those without parents on."""
        found: list[list[Vertex]] = []
        for vertex in self.vertices:
            found += [[] for _ in range(vertex.level - len(found))]
            found[vertex.level - 1].append(vertex)
        return tuple(map(tuple, found))

    @property
    def slots(self) -> int:
        """The number of kinds of events that the vertices take in their own slots, added up over all vertices."""
        return sum(vertex.slots for vertex in self.vertices)

    @property
    def root_slots(self) -> int:
        """The number of kinds of events that the vertices without parents take, added up."""
        return sum(vertex.slots for vertex in self.vertices if not vertex.parents)

    @property
    def unshared(self) -> tuple[str, ...]:
        """The queries that share nothing."""
        return tuple(vertex.query for vertex in self.vertices if vertex.query is not None and not vertex.parents)

    def vertex(self, query: str) -> Vertex:
        """Returns the vertex of a query.

        Parameters
        ----------
        query : str
            The name of the query.

        Returns
        -------
        Vertex

        Raises
        ------
        InvalidNode
            If there is no query of that name.

        Examples
        --------
        >>> plan = cet.aggregation_plan({"p": "PATTERN SEQ(A, B, C)", "q": "PATTERN SEQ(A, B, D)"})
        >>> plan.vertex("p").level
        2
        """
        found = next((vertex for vertex in self.vertices if vertex.query == query), None)
        if found is None:
            raise InvalidNode(f"the plan has no query {shown(query)}", hint="its names are those of plan.queries")
        return found

    def at(self, number: int) -> Vertex:
        """Returns the vertex of a number.

        Parameters
        ----------
        number : int
            The vertex's ``number``, as ``edges`` and ``parents`` name it.

        Returns
        -------
        Vertex

        Raises
        ------
        KeyError
            If no vertex has that number.

        Examples
        --------
        >>> plan = cet.aggregation_plan({"p": "PATTERN SEQ(A, B, C)", "q": "PATTERN SEQ(A, B, D)"})
        >>> [str(plan.at(number).pattern) for number in plan.vertex("p").parents]
        ['SEQ(A, B)']
        """
        return self._by_number[number]

    def children(self, vertex: Vertex) -> tuple[Vertex, ...]:
        """Returns the vertices that are made of a vertex.

        Parameters
        ----------
        vertex : Vertex
            One of the plan's vertices.

        Returns
        -------
        tuple of Vertex

        Raises
        ------
        KeyError
            If the vertex is not of this plan.

        Examples
        --------
        >>> plan = cet.aggregation_plan({"p": "PATTERN SEQ(A, B, C)", "q": "PATTERN SEQ(A, B, D)"})
        >>> [child.query for child in plan.children(plan.vertices[0])]
        ['p', 'q']
        """
        return tuple(self._children[vertex.number])

    def parents(self, vertex: Vertex) -> tuple[Vertex, ...]:
        """Returns the vertices that a vertex is made of.

        Parameters
        ----------
        vertex : Vertex
            One of the plan's vertices.

        Returns
        -------
        tuple of Vertex

        Raises
        ------
        KeyError
            If the vertex is not of this plan.

        Examples
        --------
        >>> plan = cet.aggregation_plan({"p": "PATTERN SEQ(A, B, C)", "q": "PATTERN SEQ(A, B, D)"})
        >>> [str(parent.pattern) for parent in plan.parents(plan.vertex("q"))]
        ['SEQ(A, B)']
        """
        return tuple(self._by_number[number] for number in vertex.parents)

    def serves(self, vertex: Vertex) -> tuple[str, ...]:
        """Returns the queries whose matches are made of a vertex's instances; for the vertex of a query, this query.

        Parameters
        ----------
        vertex : Vertex
            One of the plan's vertices.

        Returns
        -------
        tuple of str

        Raises
        ------
        KeyError
            If the vertex is not of this plan.

        Examples
        --------
        >>> plan = cet.aggregation_plan({"p": "PATTERN SEQ(A, B, C)", "q": "PATTERN SEQ(A, B, D)"})
        >>> plan.serves(plan.vertices[0]), plan.serves(plan.vertex("q"))
        (('p', 'q'), ('q',))
        """
        names: dict[str, None] = {}
        todo, seen = [vertex], {vertex.number}
        while todo:
            at = todo.pop()
            if at.query is not None:
                names[at.query] = None
            below = [child for child in reversed(self._children[at.number]) if child.number not in seen]
            seen.update(child.number for child in below)
            todo += below
        return tuple(names)
