"""Physical nodes: what the execution layer turns into DataFrames."""

from __future__ import annotations

import attrs

from cetdsl.ir.accumulators import Lane, Output
from cetdsl.ir.compiled import Compiled
from cetdsl.ir.kernel import KernelSpec
from cetdsl.ir.source import Source
from cetdsl.pattern.expressions import Aggregate, Expr


class PhysicalPlan:
    """Base of all physical nodes."""

    __slots__ = ()


@attrs.frozen
class KernelAggregate(PhysicalPlan):
    """Project, filter, shuffle, sort, then one compiled kernel per task.

    ``merge`` says that the rows of several tasks or keys make up one group, so partial results are added up after
    a second, small shuffle.
    """

    source: Source
    compiled: Compiled
    spec: KernelSpec
    values: tuple[Expr, ...]
    merge: bool


@attrs.frozen
class PanesAggregate(PhysicalPlan):
    """Small matrices per key and pane first, then windows as products of them.

    ``merge`` says that several keys make up one group, as in :class:`KernelAggregate`.
    """

    source: Source
    compiled: Compiled
    spec: KernelSpec
    values: tuple[Expr, ...]
    merge: bool


@attrs.frozen
class FoldAggregate(PhysicalPlan):
    """Built-in Spark expressions only: an ``aggregate()`` over each key's sorted array of events."""

    source: Source
    compiled: Compiled
    lanes: tuple[Lane, ...]
    outputs: tuple[Output, ...]
    values: tuple[Expr, ...]
    number: str


@attrs.frozen
class EnumerateTrends(PhysicalPlan):
    """The kernel enumerates trends; Spark then tests what only a finished trend can be tested for."""

    source: Source
    compiled: Compiled
    spec: KernelSpec
    columns: tuple[str, ...]
    limit: int | None


@attrs.frozen
class AggregateTrends(PhysicalPlan):
    """Lists trends and aggregates them: for predicates that no automaton can carry along."""

    trends: EnumerateTrends | DefinedTrends
    outputs: tuple[tuple[str, Aggregate], ...]
    number: str


@attrs.frozen
class PairAggregate(PhysicalPlan):
    """A top-level AND: pairs of different trends, one of each side.

    ``both`` holds the trends that match on both sides; None when no trend can.
    """

    left: KernelAggregate
    right: KernelAggregate
    both: KernelAggregate | None
    source: Source
    outputs: tuple[Output, ...]
    number: str


@attrs.frozen
class PairTrends(PhysicalPlan):
    """A top-level AND, its pairs of trends listed."""

    left: EnumerateTrends
    right: EnumerateTrends
    distinct_sides: bool
    limit: int | None


@attrs.frozen
class GraphTrends(PhysicalPlan):
    """The kernel builds the graph of each key's events, and lists the trends that are its paths.

    ``balanced`` says that as many tasks as there are cores share each key: all of them build its graph, and each lists
    a part of the trends.
    """

    source: Source
    compiled: Compiled
    spec: KernelSpec
    columns: tuple[str, ...]
    limit: int | None
    algorithm: str
    memory: int | None
    balanced: bool = False


@attrs.frozen
class JoinedTrends(PhysicalPlan):
    """Spark joins extend all paths of the graph by one event per round: for a key beyond one task's memory."""

    source: Source
    compiled: Compiled
    spec: KernelSpec
    columns: tuple[str, ...]
    limit: int | None


@attrs.frozen
class DefinedTrends(PhysicalPlan):
    """All trends are listed, and those that others of their key and window contain are dropped.

    ``memory`` bounds the bytes that the trends kept of one key and window may take.
    """

    trends: EnumerateTrends
    completeness: str
    limit: int | None
    memory: int

    @property
    def source(self) -> Source:
        """Where the trends are from."""
        return self.trends.source


#: The plans whose answer has a row per trend.
ListingPlan = EnumerateTrends | PairTrends | GraphTrends | JoinedTrends | DefinedTrends


@attrs.frozen
class SampledTrends(PhysicalPlan):
    """So many of the trends, drawn without replacement."""

    trends: GraphTrends | DefinedTrends | EnumerateTrends | PairTrends
    size: int
    seed: int


@attrs.frozen
class TopTrends(PhysicalPlan):
    """The heaviest trends, with what each weighs under ``name``."""

    trends: GraphTrends | DefinedTrends | EnumerateTrends
    size: int
    by: Aggregate
    name: str


@attrs.frozen
class SurveyedTrends(PhysicalPlan):
    """What there is to know about the graphs, and about the work of listing their trends, ``measured`` or not."""

    trends: GraphTrends
    measured: bool


@attrs.frozen
class ShownGraph(PhysicalPlan):
    """The graph of events itself, as rows: from the kernel, or ``joined`` by Spark."""

    source: Source
    compiled: Compiled
    spec: KernelSpec
    columns: tuple[str, ...]
    joined: bool
