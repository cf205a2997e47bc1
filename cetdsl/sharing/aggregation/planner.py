"""Makes plans from queries, and changes plans when queries come and go."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from cetdsl.pattern.query import Query
from cetdsl.sharing.aggregation.casem import cluster
from cetdsl.sharing.aggregation.dce import compensate
from cetdsl.sharing.aggregation.draft import Draft, Limits, clock_of
from cetdsl.sharing.aggregation.plan import PlanData

#: The ways to find a plan.
ALGORITHMS = ("casem+dce", "casem", "casem-2")


class Planner:
    """Finds a plan, and keeps what it knows of the workload, so that queries can be added and removed.

    Parameters
    ----------
    queries : mapping of str to Query
    algorithm : {"casem+dce", "casem", "casem-2"}
    limits : Limits
    deadline : float or None
        Seconds after which the plan found so far is taken.

    Examples
    --------
    >>> from cetdsl.frontend.sase import parse_queries
    >>> queries = parse_queries("NAME p: PATTERN SEQ(A, B, C); NAME q: PATTERN SEQ(A, B, D)")
    >>> planner = Planner(queries, "casem", Limits())
    >>> [str(vertex.pattern) for vertex in planner.plan.vertices]
    ['SEQ(A, B)', 'SEQ(A, B, C)', 'SEQ(A, B, D)']
    """

    def __init__(
        self, queries: Mapping[str, Query], algorithm: str, limits: Limits, deadline: float | None = None
    ) -> None:
        late = clock_of(deadline)
        self.algorithm = algorithm
        if algorithm == "casem-2":
            limits = attrs.evolve(limits, levels=2)
        self._draft = Draft(queries, limits)
        neighbours = self._draft.graph.neighbours
        edges = [(one, other) for one, those in neighbours.items() for other in sorted(those) if one < other]
        self._finished = cluster(self._draft, edges, late)
        if algorithm == "casem+dce":
            self._finished = self._finished and compensate(self._draft, late)

    @property
    def plan(self) -> PlanData:
        """The plan for the queries as they are now."""
        return self._draft.plan(finished=self._finished)

    def add(self, name: str, query: Query, deadline: float | None = None) -> None:
        """Adds a query; the search examines only pairs of which it, or a cluster that it joins, is part."""
        late = clock_of(deadline)
        number = self._draft.add(name, query)
        done = cluster(self._draft, [(number, other) for other in self._draft.tree.beside[number]], late)
        if self.algorithm == "casem+dce":
            done = done and compensate(self._draft, late, number)
        self._finished = self._finished and done

    def remove(self, name: str) -> None:
        """Removes a query; the others stay where they are."""
        self._draft.remove(name)

    def copy(self) -> Planner:
        """Returns a copy; a change of either planner leaves the other as it is."""
        copied = Planner.__new__(Planner)
        copied.algorithm, copied._finished = self.algorithm, self._finished
        copied._draft = self._draft.copy()
        return copied
