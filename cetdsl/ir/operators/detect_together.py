"""DetectTogether: the matches of many queries, put together along the sub-patterns that they share."""

from __future__ import annotations

from typing import ClassVar

import attrs

from cetdsl.errors import counted
from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.operators import words
from cetdsl.ir.operators.events_in_order import EventsInOrder
from cetdsl.ir.operators.operator import Requirement, Step, Unary
from cetdsl.ir.slots import JoinedVertex, Walked
from cetdsl.pattern.expressions import Expr

_WHERE_IT_SAVES = "whose instances are built once, where that is measured to save more than it takes"


@attrs.frozen
class Listed:
    """A query whose matches are listed: its name, the key columns that its answer shows, and whether windows slide."""

    name: str
    keys: tuple[str, ...]
    sliding: bool


@attrs.frozen
class DetectTogether(Unary):
    """Gives a row per match: its query's name, the key columns of all queries, the window if any slides, the trend.

    Vertices without a query are the sub-patterns that queries share (:mod:`cetdsl.ir.slots`). ``kind`` is the column of
    the ``kinds`` of events, and ``tests`` are the conditions on single events; ``variables`` are the names of event
    variables. The queries in ``walked`` have no vertex: their trends are listed depth first.
    """

    spec: KernelSpec
    vertices: tuple[JoinedVertex, ...]
    members: tuple[Listed, ...]
    kind: str | None
    kinds: tuple[str, ...]
    tests: tuple[Expr, ...]
    variables: tuple[str, ...]
    columns: tuple[str, ...]
    limit: int | None = None
    walked: tuple[Walked, ...] = ()
    stage = "instances"
    only_batch = None
    #: Whether it gives no more than ``limit`` matches of a query in all; otherwise each of its tasks gives no more.
    limits_all: ClassVar[bool] = False

    @property
    def requires(self) -> tuple[Requirement | None, ...]:
        return (EventsInOrder(self.spec, columns=self.columns, tests=self.tests, kind=self.kind),)

    @property
    def queries(self) -> tuple[str, ...]:
        """The names of the queries."""
        return tuple(member.name for member in self.members)

    @property
    def keys(self) -> tuple[str, ...]:
        """The key columns that some answer shows."""
        return tuple(dict.fromkeys(key for member in self.members for key in member.keys))

    @property
    def sliding(self) -> bool:
        """Whether the windows of some query slide."""
        return any(member.sliding for member in self.members)

    @property
    def apart(self) -> tuple[str, ...]:
        """The names of the queries that are built from no shared sub-pattern."""
        made = {vertex.query for vertex in self.vertices if vertex.parents} | {one.query for one in self.walked}
        return tuple(member.name for number, member in enumerate(self.members) if number not in made)

    @property
    def gives(self) -> tuple[str, ...]:
        return ("query", *self.keys, *(["window"] if self.sliding else []), "trend")

    def steps(self) -> tuple[Step, ...]:
        return (Step(f"kernel: join the events of {self._queries_in_words}", self._details(_WHERE_IT_SAVES)),)

    @property
    def _queries_in_words(self) -> str:
        return counted(len(self.members), "query", "queries")

    def _details(self, of_shared: str) -> tuple[str, ...]:
        """Describes the parts of the queries; ``of_shared`` describes those of sub-patterns."""
        shared = sum(vertex.query < 0 for vertex in self.vertices)
        lines = []
        if shared:
            lines.append(f"{counted(shared, 'sub-pattern')}, {of_shared}")
        if self.apart:
            lines.append(f"{words.some(self.apart)} made of single events")
        if self.walked:
            names = tuple(self.members[one.query].name for one in self.walked)
            lines.append(f"{words.some(names)} listed depth first, unshared")
        if self.limit is not None:
            lines.append(f"stops after {self.limit} of each query")
        return tuple(lines)

    def costs(self, limit: int | None = None) -> tuple[str, ...]:
        return (f"grows with the number of instances of all sub-patterns and queries{words.until(limit)}",)
